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
    fn non_blocking(&self) -> bool {
        self.policy.inode_reclaim == InodeReclaim::NonBlocking
    }

    pub(super) fn clean_only(&self) -> bool {
        self.policy.inode_reclaim == InodeReclaim::CleanOnly
    }

    /// Frees up to `n` of a filesystem's inodes for the superblock shrinker. The number freed is
    /// never reported; with the posted patches the result may be that the shrinker cannot proceed.
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

    /// Has the background work done and walks for up to `n` inodes. Returns the rest of the budget,
    /// and whether all groups are already being reclaimed.
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

    /// Runs 3.0's own shrinker of XFS. If budget is left, it ends the core's loop.
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

    /// Frees clean inodes of all groups, in each from its cursor on, and waits for nothing
    /// (fs/xfs/xfs_icache.c `xfs_icwalk`, `xfs_icwalk_ag`; 5.9). Each group gets at least one
    /// lookup, even if the budget is used up.
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

    /// Frees a claimed inode if it is clean and its lock and flush lock are free, or gives it up
    /// (`xfs_reclaim_inode`, 5.9).
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

    /// Walks all groups (`xfs_reclaim_inodes_ag`). Returns true if all groups are already being
    /// reclaimed.
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

    /// Frees inodes of a locked group from `index` on. Returns true if the group's end was reached.
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

    /// Claims an inode unless a pass that must not wait finds it busy (`xfs_reclaim_inode_grab`).
    fn grab(&self, ino: u32, flags: Flags) -> bool {
        let row = self.inode(ino);
        if flags.trylock && row.any(FLUSHING | CLAIMED) {
            return false;
        }
        row.has(RECLAIMABLE) && !row.set(CLAIMED)
    }

    /// Frees a claimed inode, or gives it up (`xfs_reclaim_inode`).
    async fn reclaim_inode(&self, ino: u32, flags: Flags) -> Reclaimed {
        let row = self.inode(ino);
        // A walk that does not use trylock waits for locks.
        let waits = match self.policy.inode_reclaim {
            InodeReclaim::Blocking => flags.wait,
            InodeReclaim::NonBlocking | InodeReclaim::CleanOnly => !flags.trylock,
        };
        loop {
            self.lock_inode(ino).await;
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

    fn give_up(&self, ino: u32) -> Reclaimed {
        self.unlock_inode(ino);
        self.inode(ino).clear(CLAIMED);
        Reclaimed::GivenUp
    }

    /// Frees a claimed inode whose lock and flush lock the caller holds, and releases both.
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

    /// Takes an inode's lock, waiting for it.
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

    pub(super) fn unlock_inode(&self, ino: u32) {
        let held = self.inode(ino).clear(LOCKED);
        assert!(held, "inode {ino} was locked");
        self.world.wake(self.inode_queue(ino));
    }

    /// Waits until an inode's flush lock is free and takes it.
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

    /// Releases a flush lock that was not used for a write.
    fn flush_done(&self, ino: u32) {
        let row = self.inode(ino);
        assert!(
            row.has(FLUSHING) && !row.has(IN_WRITE),
            "the flush lock of {ino} is ours"
        );
        row.clear(FLUSHING);
        self.world.wake(self.inode_queue(ino));
    }

    /// Counts and reports a wait that has ended, if there was one.
    fn inode_waited(&self, what: WaitedKind, object: u32, begun: u64) {
        let delayed = self.world.now() - begun;
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

    /// Schedules the background reclaimer one period from now, unless it is scheduled already.
    pub(crate) fn queue_reclaim_worker(&self, sb: u32) {
        let log = &self.sb(sb).log;
        if log.worker_queued.fetch_or(1) == 0 {
            log.worker_due
                .set(self.world.now() + self.sb(sb).sync_interval.get() / WORKER_PART);
            self.world.wake(self.worker_queue(sb));
        }
    }

    /// Runs the background reclaimer, which frees clean inodes while there are inodes to free.
    /// Never returns.
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

    /// Locks the buffer of an inode's cluster for a write; returns false if it is under I/O.
    pub(super) fn try_lock_buffer(&self, ino: u32) -> bool {
        let (ag, cluster) = (self.ag_of(ino), self.cluster_of(ino));
        let free = !ag.is_busy(cluster);
        if free {
            ag.set_busy(cluster);
        }
        free
    }

    pub(super) fn cluster_of(&self, ino: u32) -> u32 {
        self.inode(ino).agino.get() / CLUSTER_INODES
    }
}
