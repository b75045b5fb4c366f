//! The walk that frees inodes: before and after *xfs-inode-reclaim*, and as it is since 5.9
//! (docs/reference/shrinkers-and-xfs.md).

use super::CLUSTER_INODES;
use super::state::*;
use crate::Mm;
use crate::memory::task::PF_KSWAPD;
use crate::policy::{InodeReclaim, ShrinkerCore};
use crate::reclaim::shrinker::Shrunk;
use crate::watch::vmstat::VmEvent;
use crate::world::event::Event;
use crate::world::{Audience, Cost, WaitedKind, Word32, Word64, World};

/// Inodes looked up at a time (`XFS_LOOKUP_BATCH`).
const LOOKUP_BATCH: usize = 32;
/// The background reclaimer's period is the log worker's divided by this.
const WORKER_PART: u64 = 6;

/// How a walk before 5.9 treats locks that are taken (`SYNC_TRYLOCK`, `SYNC_WAIT`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flags {
    trylock: bool,
    wait: bool,
}

impl Flags {
    /// `SYNC_WAIT` alone, for an unmount.
    pub const WAIT_FOR_ALL: Self = Self {
        trylock: false,
        wait: true,
    };

    /// Neither flag: since 5.9 the walk waits for nothing ([`Mm::reclaim_clean`]).
    const CLEAN_ONLY: Self = Self {
        trylock: false,
        wait: false,
    };
}

/// The result of trying to free one inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reclaimed {
    Freed,
    GivenUp,
}

impl<W: World> Mm<W> {
    /// Returns true if the policy is the patch *xfs-inode-reclaim*, with which kswapd does not
    /// wait.
    fn non_blocking(&self) -> bool {
        self.policy.inode_reclaim == InodeReclaim::NonBlocking
    }

    /// Returns true if the policy is that of 5.9: reclaim frees clean inodes and waits for nothing.
    pub(super) fn clean_only(&self) -> bool {
        self.policy.inode_reclaim == InodeReclaim::CleanOnly
    }

    /// Frees up to `n` of an XFS's evicted inodes for the superblock shrinker. The number freed is
    /// never reported: the result is 0, or, with the patch, that the shrinker cannot proceed,
    /// because all groups are already being reclaimed.
    pub(crate) async fn xfs_free_cached_objects(&self, sb: u32, n: u64) -> Shrunk {
        if self.groups(sb).is_empty() {
            return Shrunk::Freed(0);
        }
        let kswapd = self.current().flags() & PF_KSWAPD != 0;
        let wait = !(kswapd && self.non_blocking());
        if self.reclaim_for_shrinker(sb, wait, n).await.1 {
            return Shrunk::Stop;
        }
        Shrunk::Freed(0)
    }

    /// Schedules the background reclaimer and the pusher, and walks the groups for up to `n` inodes
    /// to free. `wait`: the walk may wait for inodes. Returns the rest of the budget (in inodes),
    /// and whether all groups are already being reclaimed by others.
    async fn reclaim_for_shrinker(&self, sb: u32, wait: bool, n: u64) -> (i64, bool) {
        self.queue_reclaim_worker(sb);
        self.ail_push_all(sb);
        let mut budget = n as i64;
        let flags = Flags {
            trylock: true,
            wait,
        };
        let busy = self.reclaim_inodes_ag(sb, flags, &mut budget).await;
        (budget, busy)
    }

    /// Runs 3.0's own shrinker of XFS for up to `n` inodes. If budget is left, it ends the loop of
    /// the shrinker core.
    pub(crate) async fn xfs_reclaim_inodes_3_0(&self, sb: u32, n: u64) -> Shrunk {
        if self.groups(sb).is_empty() {
            return Shrunk::Freed(0);
        }
        debug_assert!(self.policy.shrinker_core == ShrinkerCore::Global);
        if self.reclaim_for_shrinker(sb, true, n).await.0 > 0 {
            Shrunk::Stop
        } else {
            Shrunk::Freed(0)
        }
    }

    /// Frees clean inodes of all groups of a filesystem, in each from its cursor on, and waits for
    /// nothing (fs/xfs/xfs_icache.c `xfs_icwalk`, `xfs_icwalk_ag`; 5.9). `budget`: inodes that may
    /// still be looked up. Each group gets at least one lookup, even if the budget is used up.
    async fn reclaim_clean(&self, sb: u32, budget: &mut i64) {
        for ag in self.groups(sb) {
            let a = self.ag(ag);
            if a.reclaimable.get() > 0 {
                let mut index = a.cursor.get();
                let done = self
                    .walk_group(ag, &mut index, Flags::CLEAN_ONLY, budget)
                    .await;
                a.cursor.set(if done { 0 } else { index });
            }
        }
    }

    /// Frees a claimed inode if it is clean and its lock and flush lock are free, or gives up the
    /// claim (`xfs_reclaim_inode`, 5.9). Never waits.
    fn reclaim_if_clean(&self, ino: u32) -> Reclaimed {
        let row = self.inode(ino);
        if row.any(PINNED | LOGGING | DIRTY | FLUSHING) || row.set(LOCKED) {
            row.clear(CLAIMED);
            return Reclaimed::GivenUp;
        }
        let taken = row.set(FLUSHING);
        debug_assert!(!taken, "nobody flushes inode {ino}");
        self.free_claimed(ino)
    }

    /// Walks all groups of a filesystem and frees evicted inodes until `budget`, in inodes, is used
    /// up (`xfs_reclaim_inodes_ag`). A first round skips groups whose lock is held if `flags` say
    /// trylock; if the walk may wait, a second one waits for those. Returns true if all groups are
    /// already being reclaimed by others.
    pub(super) async fn reclaim_inodes_ag(
        &self,
        sb: u32,
        mut flags: Flags,
        budget: &mut i64,
    ) -> bool {
        if self.clean_only() {
            self.reclaim_clean(sb, budget).await;
            return false;
        }
        // `after`: the patch *xfs-inode-reclaim* is applied.
        let after = self.non_blocking();
        let mut trylock = flags.trylock;
        loop {
            let (mut skipped, mut visited) = (0, 0);
            for ag in self.groups(sb) {
                let a = self.ag(ag);
                if a.reclaimable.get() == 0 {
                    continue;
                }
                visited += 1;
                let mut index = a.cursor.get();
                if trylock {
                    if !self.try_sleep_lock(&a.lock) {
                        skipped += 1;
                        continue;
                    }
                } else {
                    let begun = self.world.now();
                    let q = self.ag_queue(ag);
                    let waits = |holder| self.inode_wait(WaitedKind::AgLock, ag, holder);
                    self.sleep_lock(&a.lock, q, waits).await;
                    self.inode_waited(WaitedKind::AgLock, ag, begun);
                    index = if after { a.cursor.get() } else { 0 };
                }
                self.world.holds(WaitedKind::AgLock, u64::from(ag));
                let done = self.walk_group(ag, &mut index, flags, budget).await;
                let keeps = (after || trylock) && !done;
                a.cursor.set(if keeps { index } else { 0 });
                self.world.lets_go(WaitedKind::AgLock, u64::from(ag));
                self.sleep_unlock(&a.lock, self.ag_queue(ag));
            }
            if after && skipped > 0 && skipped == visited {
                return true;
            }
            if skipped == 0 || !flags.wait || *budget <= 0 {
                return false;
            }
            trylock = false;
            if after {
                flags.trylock = false;
            }
        }
    }

    /// Frees evicted inodes of a group from the inode number `index` on, 32 at a time, until
    /// `budget` is used up; the caller holds the group's lock except in a walk for clean inodes.
    /// Leaves in `index` where to continue. Returns true if the group's end was reached.
    async fn walk_group(&self, ag: u32, index: &mut u32, flags: Flags, budget: &mut i64) -> bool {
        let a = self.ag(ag);
        loop {
            let (mut claimed, mut found) = ([0; LOOKUP_BATCH], 0);
            let mut n = 0;
            while found < LOOKUP_BATCH
                && let Some(agino) = a.next_tagged(*index)
            {
                found += 1;
                *index = agino + 1;
                let ino = a.row(agino).expect("a tagged inode has a row");
                if self.grab(ino, flags) {
                    claimed[n] = ino;
                    n += 1;
                }
            }
            if found == 0 {
                return true;
            }
            self.world.charge(Cost::SlabObject, found as u32);
            for &ino in &claimed[..n] {
                let what = match flags {
                    Flags::CLEAN_ONLY => self.reclaim_if_clean(ino),
                    _ => self.reclaim_inode(ino, flags).await,
                };
                if what == Reclaimed::Freed {
                    self.stat.event(VmEvent::XfsInodesReclaimed, 1);
                }
            }
            *budget -= LOOKUP_BATCH as i64;
            self.world.relax().await;
            if *budget <= 0 {
                return false;
            }
        }
    }

    /// Claims an evicted inode for freeing, unless it was taken back into use, another reclaimer
    /// has claimed it, or a pass that must not wait finds it being flushed
    /// (`xfs_reclaim_inode_grab`). Returns true if it was claimed.
    fn grab(&self, ino: u32, flags: Flags) -> bool {
        let row = self.inode(ino);
        if flags.trylock && row.any(FLUSHING | CLAIMED) {
            return false;
        }
        row.has(RECLAIMABLE) && !row.set(CLAIMED)
    }

    /// Frees a claimed inode, or gives it up (`xfs_reclaim_inode`). If the inode is changed, and
    /// `flags` say that the walk waits, writes it to the log and to its place first.
    async fn reclaim_inode(&self, ino: u32, flags: Flags) -> Reclaimed {
        let row = self.inode(ino);
        // A walk that does not use trylock waits for locks.
        let waits = match self.policy.inode_reclaim {
            InodeReclaim::Blocking => flags.wait,
            InodeReclaim::NonBlocking | InodeReclaim::CleanOnly => !flags.trylock,
        };
        loop {
            self.lock_inode(ino).await;
            // The bit is the flush lock; `set` returns true if another task has it.
            if row.set(FLUSHING) {
                if !waits {
                    return self.give_up(ino);
                }
                self.wait_for_flush(ino, WaitedKind::FlushLock).await;
            }
            if row.any(PINNED | LOGGING) {
                if !waits {
                    self.flush_done(ino);
                    return self.give_up(ino);
                }
                let begun = self.world.now();
                self.inode_wait(WaitedKind::Pin, ino, None);
                self.log_force(row.sb.get()).await;
                self.inode_waited(WaitedKind::Pin, ino, begun);
            }
            if !row.any(DIRTY | PINNED | LOGGING) {
                return self.free_claimed(ino);
            }
            if !flags.wait {
                self.flush_done(ino);
                return self.give_up(ino);
            }
            if row.any(PINNED | LOGGING) || !self.try_lock_buffer(ino) {
                let begun = self.world.now();
                // The inode is pinned again, or its cluster is under I/O: retry after a pause.
                self.flush_done(ino);
                self.unlock_inode(ino);
                self.inode_wait(WaitedKind::ClusterBuffer, ino, None);
                self.world.sleep(2 * self.tick()).await;
                self.inode_waited(WaitedKind::ClusterBuffer, ino, begun);
                continue;
            }
            self.stat.event(VmEvent::XfsInodeWrites, 1);
            self.flush_cluster(ino);
            self.world.write_inode(self, ino, true).await;
            self.wait_for_flush(ino, WaitedKind::ClusterWrite).await;
            if row.any(DIRTY | PINNED | LOGGING | ON_AIL) {
                // The write failed.
                self.flush_done(ino);
                return self.give_up(ino);
            }
            return self.free_claimed(ino);
        }
    }

    /// Gives up the claim of an inode that cannot be freed now, and its lock.
    fn give_up(&self, ino: u32) -> Reclaimed {
        self.unlock_inode(ino);
        self.inode(ino).clear(CLAIMED);
        Reclaimed::GivenUp
    }

    /// Frees an inode that reclaim has claimed and whose lock and flush lock the caller holds, and
    /// releases both locks.
    fn free_claimed(&self, ino: u32) -> Reclaimed {
        let row = self.inode(ino);
        self.flush_done(ino);
        row.clear(RECLAIMABLE);
        self.untag(ino);
        self.free_inode(ino);
        row.clear(CLAIMED);
        self.unlock_inode(ino);
        Reclaimed::Freed
    }

    /// Takes an inode's lock, waiting while another task has it.
    pub(super) async fn lock_inode(&self, ino: u32) {
        let (q, row) = (self.inode_queue(ino), self.inode(ino));
        let begun = self.world.now();
        loop {
            let ticket = self.world.ticket(q);
            if !row.set(LOCKED) {
                break;
            }
            self.inode_wait(WaitedKind::InodeLock, ino, None);
            self.world.wait(q, ticket, None).await;
        }
        self.inode_waited(WaitedKind::InodeLock, ino, begun);
    }

    /// Releases an inode's lock and wakes its waiters.
    pub(super) fn unlock_inode(&self, ino: u32) {
        let held = self.inode(ino).clear(LOCKED);
        assert!(held, "inode {ino} was locked");
        self.world.wake(self.inode_queue(ino));
    }

    /// Waits until an inode's flush lock is free, that is until a write of its cluster ends, and
    /// takes it. `what`: the kind of wait to report.
    async fn wait_for_flush(&self, ino: u32, what: WaitedKind) {
        let (q, row) = (self.inode_queue(ino), self.inode(ino));
        let begun = self.world.now();
        loop {
            let ticket = self.world.ticket(q);
            if !row.set(FLUSHING) {
                break;
            }
            self.inode_wait(what, ino, None);
            self.world.wait(q, ticket, None).await;
        }
        self.inode_waited(what, ino, begun);
    }

    /// Releases an inode's flush lock that was not used for a write, and wakes its waiters.
    fn flush_done(&self, ino: u32) {
        let row = self.inode(ino);
        assert!(
            row.has(FLUSHING) && !row.has(IN_WRITE),
            "the flush lock of {ino} is ours"
        );
        row.clear(FLUSHING);
        self.world.wake(self.inode_queue(ino));
    }

    /// Counts and reports a wait on `object` that began at `begun` (ns) and has ended, if it took
    /// more than a microsecond.
    fn inode_waited(&self, what: WaitedKind, object: u32, begun: u64) {
        // A task that goes on another CPU may find that clock behind, by no more than a turn.
        let delayed = self.world.now().saturating_sub(begun);
        if delayed < 1000 {
            return; // only the walk's own time
        }
        if self.current().flags() & PF_KSWAPD != 0 {
            self.stat.event(VmEvent::KswapdInodeWait, 1);
        }
        self.stat.event(VmEvent::XfsReclaimWait, 1);
        self.emit(Audience::Sums, || Event::XfsInodeWait {
            what,
            object,
            usec_delayed: delayed / 1000,
        });
    }

    /// Schedules the background reclaimer of inodes of an XFS one period from now, unless it is
    /// scheduled already.
    pub(crate) fn queue_reclaim_worker(&self, sb: u32) {
        let log = &self.sb(sb).log;
        if log.worker_queued.fetch_or(1) == 0 {
            log.worker_due
                .set(self.world.now() + self.sb(sb).sync_interval.get() / WORKER_PART);
            self.world.wake(self.worker_queue(sb));
        }
    }

    /// Runs the background reclaimer of an XFS, which, a period after it was scheduled, frees clean
    /// inodes, and schedules itself again while there are inodes to free. Never returns.
    pub async fn xfs_reclaim_worker(&self, sb: u32) {
        debug_assert!(self.is_xfs(sb), "filesystem {sb} has no inodes to reclaim");
        let log = &self.sb(sb).log;
        let q = self.worker_queue(sb);
        loop {
            let ticket = self.world.ticket(q);
            if log.worker_queued.get() == 0 {
                self.world.wait(q, ticket, None).await;
                continue;
            }
            let left = log.worker_due.get().saturating_sub(self.world.now());
            if left > 0 {
                self.world.sleep(left).await;
                continue;
            }
            log.worker_queued.set(0);
            let flags = Flags {
                trylock: true,
                wait: false,
            };
            self.reclaim_inodes_ag(sb, flags, &mut { i64::MAX }).await;
            if self.reclaimable_inodes(sb) > 0 {
                self.queue_reclaim_worker(sb);
            }
        }
    }

    /// Locks the buffer of an inode's cluster for a write; returns false if the buffer is under
    /// I/O.
    pub(super) fn try_lock_buffer(&self, ino: u32) -> bool {
        let (ag, cluster) = (self.ag_of(ino), self.cluster_of(ino));
        let free = !ag.is_busy(cluster);
        if free {
            ag.set_busy(cluster);
        }
        free
    }

    /// Returns the number of an inode's cluster within its allocation group.
    pub(super) fn cluster_of(&self, ino: u32) -> u32 {
        self.inode(ino).agino.get() / CLUSTER_INODES
    }
}
