//! The XFS inode cache (docs/reference/shrinkers-and-xfs.md): allocation groups with the inodes
//! that can be freed, the log that pins changed inodes, the list of items to be written back with
//! its pusher, and the walk that frees inodes.
//!
//! An inode that the VFS has evicted stays, tagged, in its group until the walk frees it or it is
//! looked up again. The states of an inode that a walk needs, and waits for, are in `reclaim`; the
//! way of a change from memory into the log and from there into its place is in `log`.

mod group;
mod items;
mod log;
mod reclaim;
pub(crate) mod state;
mod unmount;

pub(crate) use group::{Ag, BYTES_PER_USED_GROUP};
pub(crate) use log::Log;
pub use unmount::UnmountWalk;

use crate::cache::log_items::Buffers;
use crate::inodes::state::*;
use crate::watch::vmstat::VmEvent;
use crate::world::{TaskId, WaitQueue, Waited, WaitedKind, Word32, World};
use crate::{Mm, queue};
use state::*;

/// Inodes of a cluster, the unit of reads and writes of inodes.
pub const CLUSTER_INODES: u32 = 32;

impl<W: World> Mm<W> {
    /// Returns an allocation group by its machine-wide number.
    #[inline(always)]
    fn ag(&self, ag: u32) -> &Ag<W> {
        &self.inodes.ags[ag as usize]
    }

    /// Returns the allocation group of an inode.
    fn ag_of(&self, ino: u32) -> &Ag<W> {
        self.ag(self.inode(ino).ag.get())
    }

    /// Returns the range of the machine-wide numbers of a filesystem's allocation groups; empty if
    /// it is no XFS.
    fn groups(&self, sb: u32) -> std::ops::Range<u32> {
        let s = self.sb(sb);
        s.first_ag.get()..s.first_ag.get() + s.ags.get()
    }

    /// Returns true if a filesystem is an XFS.
    pub(crate) fn is_xfs(&self, sb: u32) -> bool {
        self.sb(sb).ags.get() > 0
    }

    /// Returns true if a file is on an XFS.
    #[inline(always)]
    pub(crate) fn on_xfs(&self, ino: u32) -> bool {
        self.keeps_inodes() && self.inode(ino).has(PLACED) && self.is_xfs(self.inode(ino).sb.get())
    }

    /// Returns the number of inodes of an XFS that the VFS has evicted and that are not freed yet.
    pub fn reclaimable_inodes(&self, sb: u32) -> u64 {
        self.groups(sb)
            .map(|ag| u64::from(self.ag(ag).reclaimable.get()))
            .sum()
    }

    /// Returns the queue of tasks that wait for a group's reclaim lock.
    fn ag_queue(&self, ag: u32) -> WaitQueue {
        queue::ag(&self.config, self.nodes.len() as u32, ag)
    }

    /// Tags an inode that the VFS has evicted as one that can be freed, and schedules the
    /// background reclaimer if it is the first one of its group.
    pub(crate) fn xfs_evicted(&self, ino: u32) {
        let row = self.inode(ino);
        let was = row.set(RECLAIMABLE);
        assert!(!was && row.has(CACHED), "evicted once");
        let ag = self.ag_of(ino);
        ag.tag(row.agino.get());
        if ag.reclaimable.fetch_add(1) == 0 {
            self.queue_reclaim_worker(row.sb.get());
        }
    }

    /// Takes an inode that is looked up again back into use: removes the tag by which reclaim would
    /// free it.
    pub(crate) fn xfs_recycle(&self, ino: u32) {
        let was = self.inode(ino).clear(RECLAIMABLE);
        assert!(was, "tagged");
        self.untag(ino);
        self.stat.event(VmEvent::XfsInodesRecycled, 1);
    }

    /// Removes an inode's tag by which reclaim would free it, and counts it off its group.
    fn untag(&self, ino: u32) {
        let ag = self.ag_of(ino);
        ag.untag(self.inode(ino).agino.get());
        let before = ag.reclaimable.fetch_sub(1);
        assert!(before > 0, "a tagged inode was counted");
    }

    /// Reports the object of the calling task's next wait, which concerns inodes: its kind, its
    /// number and the task that holds it, if known.
    pub(crate) fn inode_wait(&self, kind: WaitedKind, object: u32, holder: Option<TaskId>) {
        self.world.waits_on(Waited {
            kind,
            object: u64::from(object),
            holder,
        });
    }

    /// Checks what XFS adds to the row of the inode `ino`: its place in its group, its tag, and
    /// that its state bits are consistent. Returns a text about the first error. Part of
    /// [`Mm::check_inodes`].
    pub(crate) fn check_xfs_inode(&self, ino: u32) -> Result<(), String> {
        let row = self.inode(ino);
        let s = row.state.get();
        let fail = |what: &str| Err(format!("xfs inode {ino} ({s:#x}): {what}"));
        if !self.on_xfs(ino) {
            let any = s & (RECLAIMABLE | CLAIMED | LOCKED | DIRTY | PINNED | FLUSHING | ON_AIL);
            return if any == 0 {
                Ok(())
            } else {
                fail("not on an XFS")
            };
        }
        let (ag, agino) = (self.ag_of(ino), row.agino.get());
        if ag.row(agino) != Some(ino) {
            return fail("its group has another one under its number");
        }
        if ag.is_tagged(agino) != (s & RECLAIMABLE != 0) {
            return fail("tag and state disagree");
        }
        if s & RECLAIMABLE != 0 && s & DENTRY != 0 {
            return fail("tagged and in use");
        }
        if s & CLAIMED != 0 && s & RECLAIMABLE == 0 {
            return fail("claimed, but not to be freed");
        }
        if s & IN_WRITE != 0
            && (s & FLUSHING == 0 || s & ON_AIL == 0 || !ag.is_busy(agino / CLUSTER_INODES))
        {
            return fail("being written without its locks");
        }
        // A change is on the log list, on the list of items, or on both, but never on neither.
        if s & DIRTY != 0 && s & ON_AIL == 0 {
            return fail("dirty and forgotten");
        }
        Ok(())
    }

    /// Checks the tags of all allocation groups against their counts, the logs, and the log items
    /// of all XFS. Returns a text about the first error. Part of [`Mm::check_inodes`].
    pub(crate) fn check_xfs(&self) -> Result<(), String> {
        for sb in 0..self.super_count() {
            for ag in self.groups(sb) {
                let (a, mut n, mut at) = (self.ag(ag), 0, 0);
                while let Some(agino) = a.next_tagged(at) {
                    n += 1;
                    at = agino + 1;
                }
                if n != a.reclaimable.get() {
                    return Err(format!(
                        "group {ag}: {n} tags, counted {}",
                        a.reclaimable.get()
                    ));
                }
            }
            self.check_log(sb)?;
        }
        let mut with_log = Buffers::default();
        for sb in 0..self.super_count() {
            for (all, n) in with_log.iter_mut().zip(self.sb(sb).log.buffers()) {
                *all += n;
            }
        }
        self.check_items(with_log)
    }
}
