//! The XFS inode cache (reference 05 §§3-7): allocation groups with the inodes that can be freed, the
//! log that pins changed inodes, the list of items to be written back with its pusher, and the walk
//! that frees inodes.
//!
//! An inode that the VFS has evicted stays, tagged, in its group until the walk frees it or somebody
//! looks it up again. What a walk needs of an inode, and waits for, is in `reclaim`; how a change gets
//! from memory into the log and from there into its place is in `log`.

mod log;
mod reclaim;

pub(crate) use log::Log;

use crate::inode::state::*;
use crate::sleep_lock::SleepLock;
use crate::vmstat::VmEvent;
use crate::world::{TaskId, WaitQueue, Waited, WaitedKind, Word32, Word64, World};
use crate::{Mm, queue};

/// Inodes of a cluster: what is read and written at a time.
pub const CLUSTER_INODES: u32 = 32;
/// No inode.
const NONE: u32 = 0;

/// A set of small numbers with a quick search for the next: bits, and bits that say where bits are.
struct Bits<U> {
    levels: [Box<[U]>; 3],
}

impl<U: Word64 + bytemuck::Zeroable> Bits<U> {
    fn new(capacity: u32) -> Self {
        let level = |shift: u32| bytemuck::zeroed_slice_box((capacity >> shift) as usize + 1);
        Self {
            levels: [level(6), level(12), level(18)],
        }
    }

    fn has(&self, n: u32) -> bool {
        self.levels[0][n as usize / 64].get() >> (n % 64) & 1 != 0
    }

    fn set(&self, n: u32) {
        let mut n = n as usize;
        for level in &self.levels {
            level[n / 64].fetch_or(1 << (n % 64));
            n /= 64;
        }
    }

    fn clear(&self, n: u32) {
        let mut n = n as usize;
        for level in &self.levels {
            let bit = 1 << (n % 64);
            if level[n / 64].fetch_and(!bit) & !bit != 0 {
                return;
            }
            n /= 64;
        }
    }

    /// The first number at `from` or above.
    fn next(&self, from: u32) -> Option<u32> {
        let mut at = from as usize;
        for (height, level) in self.levels.iter().enumerate() {
            let word = level.get(at / 64).map_or(0, |w| w.get() >> (at % 64));
            if word != 0 {
                at += word.trailing_zeros() as usize;
                // Down again to the lowest bit below it.
                for below in self.levels[..height].iter().rev() {
                    at = at * 64 + below[at].get().trailing_zeros() as usize;
                }
                return u32::try_from(at).ok();
            }
            // Nothing in the rest of this word: the next word's bit, one level up.
            at = at / 64 + 1;
        }
        // More than 64^3 numbers: the highest level is walked.
        let top = self.levels.len() - 1;
        let word = (at..self.levels[top].len()).find(|&w| self.levels[top][w].get() != 0)?;
        self.next((word << 18) as u32)
    }
}

/// An allocation group's inodes.
pub(crate) struct Ag<W: World> {
    /// The row of each inode, plus 1, by its number in the group.
    rows: Box<[W::U32]>,
    /// Inodes that can be freed.
    tagged: Bits<W::U64>,
    /// How many they are.
    pub reclaimable: W::U32,
    /// Where the next walk begins.
    cursor: W::U32,
    /// Clusters whose buffers are locked for a write.
    busy: Bits<W::U64>,
    /// Held by a walk (`pag_ici_reclaim_lock`).
    lock: SleepLock<W>,
}

impl<W: World> Ag<W> {
    pub fn new(inodes: u32) -> Self {
        Self {
            rows: bytemuck::zeroed_slice_box(inodes as usize + 1),
            tagged: Bits::new(inodes),
            reclaimable: bytemuck::Zeroable::zeroed(),
            cursor: bytemuck::Zeroable::zeroed(),
            busy: Bits::new(inodes / CLUSTER_INODES),
            lock: SleepLock::new(),
        }
    }

    pub fn place(&self, agino: u32, ino: u32) {
        let known = &self.rows[agino as usize];
        assert!(known.get() == NONE, "number {agino} is taken");
        known.set(ino + 1);
    }

    fn row(&self, agino: u32) -> Option<u32> {
        self.rows.get(agino as usize)?.get().checked_sub(1)
    }
}

impl<W: World> Mm<W> {
    #[inline(always)]
    fn ag(&self, ag: u32) -> &Ag<W> {
        &self.inodes.ags[ag as usize]
    }

    fn ag_of(&self, ino: u32) -> &Ag<W> {
        self.ag(self.inode(ino).ag.get())
    }

    /// The groups of a filesystem, in the machine's numbers.
    fn groups(&self, sb: u32) -> std::ops::Range<u32> {
        let s = self.sb(sb);
        s.first_ag.get()..s.first_ag.get() + s.ags.get()
    }

    /// Whether a filesystem is an XFS.
    pub(crate) fn is_xfs(&self, sb: u32) -> bool {
        self.sb(sb).ags.get() > 0
    }

    /// Whether a file is on an XFS.
    #[inline(always)]
    pub(crate) fn on_xfs(&self, ino: u32) -> bool {
        self.keeps_inodes() && self.inode(ino).has(PLACED) && self.is_xfs(self.inode(ino).sb.get())
    }

    /// Inodes of a filesystem that can be freed.
    pub fn reclaimable_inodes(&self, sb: u32) -> u64 {
        self.groups(sb)
            .map(|ag| u64::from(self.ag(ag).reclaimable.get()))
            .sum()
    }

    fn ag_queue(&self, ag: u32) -> WaitQueue {
        queue::ag(&self.config, self.nodes.len() as u32, ag)
    }

    /// The VFS has evicted an inode: it can be freed.
    pub(crate) fn xfs_evicted(&self, ino: u32) {
        let row = self.inode(ino);
        let was = row.set(RECLAIMABLE);
        assert!(!was && row.has(CACHED), "evicted once");
        let ag = self.ag_of(ino);
        ag.tagged.set(row.agino.get());
        if ag.reclaimable.fetch_add(1) == 0 {
            self.queue_reclaim_worker(row.sb.get());
        }
    }

    /// An inode that can be freed is looked up again.
    pub(crate) fn xfs_recycle(&self, ino: u32) {
        let was = self.inode(ino).clear(RECLAIMABLE);
        assert!(was, "tagged");
        self.untag(ino);
        self.stat.event(VmEvent::XfsInodesRecycled, 1);
    }

    fn untag(&self, ino: u32) {
        let ag = self.ag_of(ino);
        ag.tagged.clear(self.inode(ino).agino.get());
        let before = ag.reclaimable.fetch_sub(1);
        assert!(before > 0, "a tagged inode was counted");
    }

    /// The calling task is about to wait at an inode cache.
    pub(crate) fn inode_wait(&self, kind: WaitedKind, object: u32, holder: Option<TaskId>) {
        self.world.waits_on(Waited {
            kind,
            object: u64::from(object),
            holder,
        });
    }

    /// As [`Mm::check_inodes`], what XFS adds to a row.
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
        if ag.tagged.has(agino) != (s & RECLAIMABLE != 0) {
            return fail("tag and state disagree");
        }
        if s & RECLAIMABLE != 0 && s & DENTRY != 0 {
            return fail("tagged and in use");
        }
        if s & CLAIMED != 0 && s & RECLAIMABLE == 0 {
            return fail("claimed, but not to be freed");
        }
        if s & IN_WRITE != 0
            && (s & FLUSHING == 0 || s & ON_AIL == 0 || !ag.busy.has(agino / CLUSTER_INODES))
        {
            return fail("being written without its locks");
        }
        // A change is in the log list, in the list of items, or both; never in neither.
        if s & DIRTY != 0 && s & ON_AIL == 0 {
            return fail("dirty and forgotten");
        }
        Ok(())
    }

    /// As [`Mm::check_inodes`], what XFS adds to the whole.
    pub(crate) fn check_xfs(&self) -> Result<(), String> {
        for sb in 0..self.super_count() {
            for ag in self.groups(sb) {
                let (a, mut n, mut at) = (self.ag(ag), 0, 0);
                while let Some(agino) = a.tagged.next(at) {
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
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;
    use std::collections::BTreeSet;

    proptest! {
        /// The three levels find what a sorted set finds, also beyond 64^3 numbers.
        #[test]
        fn bits_are_a_set(
            capacity in prop_oneof![1u32..200, 4000u32..300_000, 520_000u32..800_000],
            ops in proptest::collection::vec((0u8..3, any::<u32>()), 1..200),
        ) {
            let bits = Bits::<Cell<u64>>::new(capacity);
            let mut model = BTreeSet::new();
            for (op, n) in ops {
                let n = n % capacity;
                match op {
                    0 => { bits.set(n); model.insert(n); }
                    1 => { bits.clear(n); model.remove(&n); }
                    _ => {}
                }
                prop_assert_eq!(bits.has(n), model.contains(&n));
                prop_assert_eq!(bits.next(n), model.range(n..).next().copied());
            }
            prop_assert_eq!(bits.next(0), model.first().copied());
        }
    }
}
