//! How a change of an inode gets from memory into the log, and from there into its place on disk
//! (docs/reference/shrinkers-and-xfs.md#log-and-pusher).
//!
//! ```text
//!   log_inode           log_force                pusher, or a reclaimer       I/O ends
//! ------------> PINNED -----------> LOGGING ----> DIRTY ------------> FLUSHING ---------> clean
//!              (log list)        (being logged)   (item list, in log order)
//! ```
//!
//! An inode that is changed again while an older change is further along is in both lists; it moves
//! to the end of the item list when the newer change is in the log.
//!
//! The log is written by a task that forces it, or by a worker once much waits for it
//! (docs/reference/shrinkers-and-xfs.md#background-push).

use super::CLUSTER_INODES;
use super::state::*;
use crate::Mm;
use crate::cache::log_items::{Buffers, SIZES};
use crate::inodes::state::InodeList;
use crate::inodes::state::*;
use crate::policy::XfsLogPush;
use crate::queue;
use crate::watch::vmstat::VmEvent;
use crate::world::{Cost, WaitQueue, WaitedKind, Word32, Word64, World};

/// The pusher ends its pass after more than this many items that it cannot push.
const MOST_STUCK: u32 = 100;
/// The number of clusters that the pusher collects before it submits them to the device.
const WRITE_LIST: usize = 128;
const MS: u64 = 1_000_000;
/// The worker writes the log once `1 / CIL_PART` of its length waits for it, or `CIL_MOST` bytes
/// since 5.7 (`XLOG_CIL_SPACE_LIMIT`).
const CIL_PART: u64 = 8;
const CIL_MOST: u64 = 32 << 20;
/// A committer waits while this many times the worker's limit waits
/// (`XLOG_CIL_BLOCKING_SPACE_LIMIT`).
const CIL_BLOCKING: u64 = 2;
/// Checkpoints that the kernel's worker has under way at a time (`xlog_cil_init`, 5.14). Here one
/// is under way, and those after it are one.
const CHECKPOINTS: u64 = 4;

/// The log of a filesystem, and the state of the daemons that work on it.
pub(crate) struct Log<W: World> {
    /// The number of batches of changes whose write was begun, and in `done` of those on the
    /// device.
    begun: W::U64,
    done: W::U64,
    /// The task that writes the log, plus 1; 0: none.
    writing: W::U32,
    /// The number of changes that wait for the next write.
    waiting: W::U32,
    /// The last log position given.
    head: W::U64,
    /// The log position up to which the pusher writes, and in `pushed` where it continues; 0: from
    /// the start.
    target: W::U64,
    pushed: W::U64,
    /// 1: the pusher met pinned items since the log was last forced for it.
    force: W::U32,
    /// 1: the worker has been asked to write the log.
    push: W::U32,
    /// The buffers of items that go with the write under way, by size.
    buffers: [W::U32; SIZES],
    pub(super) worker_queued: W::U32,
    pub(super) worker_due: W::U64,
}

impl<W: World> Log<W> {
    /// Makes the log of an XFS, with its AIL: nothing was changed, and nothing waits to be written.
    pub fn new() -> Self {
        Self {
            begun: bytemuck::Zeroable::zeroed(),
            done: bytemuck::Zeroable::zeroed(),
            writing: bytemuck::Zeroable::zeroed(),
            waiting: bytemuck::Zeroable::zeroed(),
            head: bytemuck::Zeroable::zeroed(),
            target: bytemuck::Zeroable::zeroed(),
            pushed: bytemuck::Zeroable::zeroed(),
            force: bytemuck::Zeroable::zeroed(),
            push: bytemuck::Zeroable::zeroed(),
            buffers: bytemuck::Zeroable::zeroed(),
            worker_queued: bytemuck::Zeroable::zeroed(),
            worker_due: bytemuck::Zeroable::zeroed(),
        }
    }

    /// Returns the number of changes that wait for the next write.
    pub(super) fn waiting(&self) -> u32 {
        self.waiting.get()
    }

    /// Returns the log buffers of inodes, by size, that go with the write under way.
    pub(super) fn buffers(&self) -> Buffers {
        self.buffers.each_ref().map(|n| n.get())
    }

    /// Sets the numbers of log buffers, by size, that go with the write under way.
    fn set_buffers(&self, to: Buffers) {
        self.buffers.iter().zip(to).for_each(|(n, to)| n.set(to));
    }
}

impl<W: World> Mm<W> {
    /// Returns the queue of tasks that wait for a write of the log.
    fn log_queue(&self, sb: u32) -> WaitQueue {
        queue::xfs(&self.config, self.nodes.len() as u32, sb, 0)
    }

    /// Returns the queue in which the pusher of items waits for work.
    fn ail_queue(&self, sb: u32) -> WaitQueue {
        queue::xfs(&self.config, self.nodes.len() as u32, sb, 1)
    }

    /// Returns the queue in which the background reclaimer of inodes waits for work.
    pub(super) fn worker_queue(&self, sb: u32) -> WaitQueue {
        queue::xfs(&self.config, self.nodes.len() as u32, sb, 2)
    }

    /// Returns the queue in which the worker that writes the log waits for work.
    fn cil_queue(&self, sb: u32) -> WaitQueue {
        queue::xfs(&self.config, self.nodes.len() as u32, sb, 3)
    }

    /// Returns the queue of committers that wait for the worker to begin a write of the log.
    fn commit_queue(&self, sb: u32) -> WaitQueue {
        queue::xfs(&self.config, self.nodes.len() as u32, sb, 4)
    }

    /// Notes that a transaction changed an inode in memory: pins it until the change is in the log,
    /// and asks the worker to write the log if much waits for it. Does nothing on other
    /// filesystems.
    pub fn log_inode(&self, ino: u32) {
        if !self.on_xfs(ino) {
            return;
        }
        let row = self.inode(ino);
        debug_assert!(row.has(CACHED), "a change of an inode in memory");
        self.inode_to_item(ino);
        let sb = row.sb.get();
        let before = row.state.fetch_or(PINNED);
        // An earlier change waits already, and this one is written with it.
        if before & PINNED != 0 {
            return;
        }
        self.sb(sb).log.waiting.fetch_add(1);
        // While an older change is being logged the inode is on that list, and joins this one
        // afterwards.
        if before & LOGGING == 0 {
            self.list_add_tail(InodeList::Log, self.log_head(sb, false), ino);
        }
        if let Some((waits, limit)) = self.cil_space(sb)
            && waits >= limit
        {
            self.push_log(sb);
        }
    }

    /// Returns how many bytes of changes wait for a filesystem's log, and from how many bytes on
    /// the worker writes it (fs/xfs/xfs_log_priv.h `XLOG_CIL_SPACE_LIMIT`); `None` if there is no
    /// worker.
    #[inline]
    pub(crate) fn cil_space(&self, sb: u32) -> Option<(u64, u64)> {
        let push = self.policy.xfs_log_push;
        if push == XfsLogPush::Forces {
            return None;
        }
        let inodes = self.sb(sb).log.waiting.get();
        let (waits, length) = self.world.log_space(self, sb, inodes);
        let limit = match push {
            XfsLogPush::Unwaited => (length / CIL_PART).min(CIL_MOST),
            _ => length / CIL_PART,
        };
        Some((waits, limit))
    }

    /// Asks the worker to write the changes that wait for the log, if there are any, without
    /// waiting for it (`xlog_cil_push_background`, `xlog_cil_flush`).
    fn push_log(&self, sb: u32) {
        let log = &self.sb(sb).log;
        if log.waiting.get() > 0 && log.push.replace(0, 1) {
            self.world.wake(self.cil_queue(sb));
        }
    }

    /// Ends a transaction that changed a file: gives memory to log buffers that found none
    /// ([`Mm::map_log_buffers`]), and with `xfs_log_push = "unwaited"` waits for the worker if too
    /// much waits for the log (fs/xfs/xfs_log_cil.c `xlog_cil_push_background`). On other
    /// filesystems there is no such wait.
    pub async fn transaction_committed(&self, ino: u32) {
        self.map_log_buffers().await;
        if self.policy.xfs_log_push == XfsLogPush::Unwaited && self.on_xfs(ino) {
            self.wait_for_push(self.inode(ino).sb.get()).await;
        }
    }

    /// Waits until the worker has begun to write the log if too much waits for it: twice the limit,
    /// or while a checkpoint is being written, additionally as much as the kernel's other
    /// checkpoints would take.
    async fn wait_for_push(&self, sb: u32) {
        let Some((waits, limit)) = self.cil_space(sb) else {
            return;
        };
        let log = &self.sb(sb).log;
        let writer = log.writing.get().checked_sub(1);
        let others = if writer.is_some() { CHECKPOINTS - 1 } else { 0 };
        if waits < (CIL_BLOCKING + others).saturating_mul(limit) {
            return;
        }
        let q = self.commit_queue(sb);
        let ticket = self.world.ticket(q);
        self.push_log(sb);
        self.inode_wait(WaitedKind::LogForce, sb, writer);
        self.world.wait(q, ticket, None).await;
    }

    /// Does [`Mm::log_inode`] for a change that includes the inode's extents, which take more room
    /// in the log.
    pub fn log_extents(&self, ino: u32) {
        debug_assert!(ino < self.mapping_count(), "file {ino} does not exist");
        if self.on_xfs(ino) {
            self.inode(ino).set(EXTENTS);
            self.log_inode(ino);
        }
    }

    /// Notes a change of a file's data or attributes, after which the next read changes its access
    /// time.
    pub fn file_changed(&self, ino: u32) {
        if self.on_xfs(ino) {
            self.inode(ino).clear(READ);
            self.log_inode(ino);
        }
    }

    /// Notes a read of a file, which changes its access time if it is the first after a change
    /// (`relatime`).
    pub fn file_accessed(&self, ino: u32) {
        debug_assert!(ino < self.mapping_count(), "file {ino} does not exist");
        if self.on_xfs(ino) && !self.inode(ino).set(READ) {
            self.log_inode(ino);
        }
    }

    /// Writes all changes made so far to the log and waits until they are on the device. If another
    /// task writes the log, waits for it first.
    pub async fn log_force(&self, sb: u32) {
        debug_assert!(self.is_xfs(sb), "filesystem {sb} has no log");
        let log = &self.sb(sb).log;
        // `begun`, `done`: writes of the log begun and ended; `wanted`: the last one to wait for.
        let mut wanted = log.begun.get() + u64::from(log.waiting.get() > 0);
        let q = self.log_queue(sb);
        while log.done.get() < wanted {
            let ticket = self.world.ticket(q);
            // Fails if another task is the writer.
            if !log.writing.replace(0, self.world.task() + 1) {
                let writer = log.writing.get().checked_sub(1);
                self.inode_wait(WaitedKind::LogForce, sb, writer);
                self.world.wait(q, ticket, None).await;
                continue;
            }
            if log.waiting.get() == 0 {
                // Another task's write has included the wanted changes.
                wanted = wanted.min(log.begun.get());
            } else {
                self.write_log(sb).await;
            }
            log.writing.set(0);
            self.world.wake(q);
        }
    }

    /// Writes the changes that wait to the log, and moves their inodes from the log list to the
    /// item list; the caller must be the only writer.
    async fn write_log(&self, sb: u32) {
        let log = &self.sb(sb).log;
        // The list of changes that wait, and that of changes being logged.
        let (from, to) = (self.log_head(sb, false), self.log_head(sb, true));
        let n = log.waiting.get();
        log.waiting.fetch_sub(n);
        log.begun.fetch_add(1);
        let mut buffers = Buffers::default();
        while let Some(ino) = self.list_first(InodeList::Log, from) {
            let row = self.inode(ino);
            self.list_remove(InodeList::Log, ino);
            self.list_add_tail(InodeList::Log, to, ino);
            row.set(LOGGING);
            row.clear(PINNED);
            self.item_to_log(ino, &mut buffers);
        }
        log.set_buffers(buffers);
        if self.policy.xfs_log_push == XfsLogPush::Unwaited {
            // No changes wait any more, so committers may continue.
            self.world.wake(self.commit_queue(sb));
        }
        while !self.world.write_log(self, sb, n).await {
            // A failed write is tried again, so that no change is lost.
            self.world.sleep(crate::SECOND).await;
        }
        let mut left = 0;
        while let Some(ino) = self.list_first(InodeList::Log, to) {
            self.list_remove(InodeList::Log, ino);
            self.logged(sb, ino);
            left += 1;
        }
        debug_assert!(left == n, "{left} changes were logged, {n} waited");
        log.set_buffers(Buffers::default());
        self.buffers_are_written(&buffers);
        self.world.charge(Cost::SlabObject, n);
        log.done.fetch_add(1);
    }

    /// Moves an inode whose change is in the log to the end of the item list (the AIL, in log
    /// order), and wakes tasks that wait for it.
    fn logged(&self, sb: u32, ino: u32) {
        let row = self.inode(ino);
        let log = &self.sb(sb).log;
        if row.set(ON_AIL) {
            self.list_remove(InodeList::Ail, ino);
        }
        row.lsn.set(log.head.fetch_add(1) + 1);
        self.list_add_tail(InodeList::Ail, self.log_head(sb, false), ino);
        row.set(DIRTY);
        row.clear(LOGGING);
        if row.has(PINNED) {
            // Changed again meanwhile.
            self.list_add_tail(InodeList::Log, self.log_head(sb, false), ino);
        }
        self.world.wake(self.inode_queue(ino));
    }

    /// Asks the pusher to write all inodes whose changes are now in the log to their places on
    /// disk.
    pub fn ail_push_all(&self, sb: u32) {
        debug_assert!(self.is_xfs(sb), "filesystem {sb} has no log");
        let log = &self.sb(sb).log;
        let target = log.head.get();
        if target > log.target.get() {
            log.target.set(target);
            self.world.wake(self.ail_queue(sb));
        }
    }

    /// Runs the log worker of an XFS, which periodically forces the log and has all changed inodes
    /// written to their places. Never returns.
    pub async fn xfs_log_worker(&self, sb: u32) {
        loop {
            self.world.sleep(self.sb(sb).sync_interval.get()).await;
            self.log_force(sb).await;
            self.ail_push_all(sb);
        }
    }

    /// Runs the worker of an XFS that writes the log when it is asked to, because much waits for it
    /// (`xlog_cil_push_work`). Never returns.
    pub async fn xfs_cil_worker(&self, sb: u32) {
        debug_assert!(self.is_xfs(sb), "filesystem {sb} has no log");
        let (log, q) = (&self.sb(sb).log, self.cil_queue(sb));
        loop {
            let ticket = self.world.ticket(q);
            if log.push.replace(1, 0) {
                self.log_force(sb).await;
            } else {
                self.world.wait(q, ticket, None).await;
            }
        }
    }

    /// Runs the pusher, which writes changed inodes to their places on disk (`xfsaild`). It sleeps
    /// while there are no items, and pauses between passes. Never returns.
    pub async fn xfsaild(&self, sb: u32) {
        debug_assert!(self.is_xfs(sb), "filesystem {sb} has no log");
        let (log, q) = (&self.sb(sb).log, self.ail_queue(sb));
        let mut pause = 0;
        loop {
            let ticket = self.world.ticket(q);
            let idle = self
                .list_first(InodeList::Ail, self.log_head(sb, false))
                .is_none();
            if idle || pause > 0 {
                let timeout = (!idle).then_some(pause);
                self.world.wait(q, ticket, timeout).await;
                if idle {
                    pause = 0;
                    continue;
                }
            }
            // A pass met pinned inodes, which only a write of the log unpins.
            if log.pushed.get() == 0 && log.force.get() != 0 {
                log.force.set(0);
                match self.policy.xfs_log_push {
                    XfsLogPush::Unwaited => self.push_log(sb),
                    _ => self.log_force(sb).await,
                }
            }
            pause = self.xfsaild_push(sb).await;
        }
    }

    /// Makes one pass of the pusher over the items up to its target in log order, and starts writes
    /// of the clusters of those that are neither pinned nor locked. Returns how long to pause, in
    /// ns: longer if the target was reached, or most items could not be pushed.
    async fn xfsaild_push(&self, sb: u32) -> u64 {
        let log = &self.sb(sb).log;
        let head = self.log_head(sb, false);
        let (target, from) = (log.target.get(), log.pushed.get());
        let mut at = self.list_first(InodeList::Ail, head);
        while let Some(ino) = at
            && self.inode(ino).lsn.get() < from
        {
            at = self.list_after(InodeList::Ail, head, ino);
        }
        // `writes`, `n`: inodes whose clusters are written; `count`: items met; `stuck`: those
        // pinned or locked; `flushing`: those in another write.
        let mut writes = [0; WRITE_LIST];
        let (mut n, mut count, mut stuck, mut flushing, mut reached) = (0, 0, 0, 0, true);
        let mut last = from;
        while let Some(ino) = at {
            let row = self.inode(ino);
            if row.lsn.get() > target {
                break;
            }
            if stuck > MOST_STUCK || n == WRITE_LIST {
                reached = false;
                break;
            }
            at = self.list_after(InodeList::Ail, head, ino);
            last = row.lsn.get();
            count += 1;
            if row.any(PINNED | LOGGING) {
                stuck += 1;
                log.force.set(1);
            } else if row.has(LOCKED) {
                stuck += 1;
            } else if row.has(FLUSHING) || !self.try_lock_buffer(ino) {
                flushing += 1;
            } else {
                row.set(FLUSHING);
                self.flush_cluster(ino);
                writes[n] = ino;
                n += 1;
            }
        }
        self.world.charge(Cost::SlabObject, count);
        self.world.relax().await;
        for &ino in &writes[..n] {
            self.world.write_inode(self, ino, false).await;
            self.world.relax().await;
        }
        if reached || count == 0 {
            log.pushed.set(0);
            50 * MS
        } else if (stuck + flushing) * 100 / count > 90 {
            log.pushed.set(0);
            20 * MS
        } else {
            log.pushed.set(last + 1);
            10 * MS
        }
    }

    /// Marks the changed inodes of the cluster of `ino` that are not pinned or locked as parts of
    /// one write. The caller holds `ino`'s flush lock and the cluster's buffer, and starts the
    /// write.
    pub(super) fn flush_cluster(&self, ino: u32) {
        let ag = self.ag_of(ino);
        debug_assert!(self.inode(ino).has(FLUSHING | DIRTY | ON_AIL));
        let first = self.cluster_of(ino) * CLUSTER_INODES;
        for agino in first..first + CLUSTER_INODES {
            let Some(other) = ag.row(agino) else {
                continue;
            };
            let row = self.inode(other);
            let busy = PINNED | LOGGING | LOCKED | FLUSHING;
            let joins = other == ino || (row.has(DIRTY) && !row.any(busy));
            if joins {
                let twice = row.set(IN_WRITE);
                assert!(!twice, "inode {other} is flushed twice at once");
                row.set(FLUSHING);
                row.clear(DIRTY | EXTENTS);
                self.stat.event(VmEvent::XfsInodesFlushed, 1);
            }
        }
    }

    /// Ends the write of the cluster of `ino` to its place on disk: takes its inodes off the item
    /// list unless they were changed again, and wakes their waiters. The world calls this; with
    /// `failed` the inodes stay changed.
    pub fn inode_written(&self, ino: u32, failed: bool) {
        let ag = self.ag_of(ino);
        let cluster = self.cluster_of(ino);
        assert!(ag.is_busy(cluster), "a write ends once");
        for agino in cluster * CLUSTER_INODES..(cluster + 1) * CLUSTER_INODES {
            let Some(other) = ag.row(agino) else {
                continue;
            };
            let row = self.inode(other);
            if !row.has(IN_WRITE) {
                continue;
            }
            row.clear(IN_WRITE);
            if failed {
                row.set(DIRTY);
            } else if !row.has(DIRTY) {
                row.clear(ON_AIL);
                self.list_remove(InodeList::Ail, other);
            }
            row.clear(FLUSHING);
            self.world.wake(self.inode_queue(other));
        }
        ag.set_idle(cluster);
    }

    /// Checks that no task waits for a log that no task writes, and that a background reclaimer
    /// that was asked to run does not wait.
    ///
    /// # Errors
    /// Returns a text about such a wait.
    pub(crate) fn check_log_waits(&self, sb: u32) -> Result<(), String> {
        let log = &self.sb(sb).log;
        let waits = |q| self.world.waited_on(q);
        let what = if log.writing.get() == 0 && waits(self.log_queue(sb)) {
            "a task waits in vain for the log: nobody writes it"
        } else if log.worker_queued.get() != 0 && waits(self.worker_queue(sb)) {
            "the background reclaimer waits in vain: it was asked to run"
        } else {
            return Ok(());
        };
        Err(format!("filesystem {sb}: {what}"))
    }

    /// Recounts the lists of a filesystem's log (changes that wait, changes being logged, items)
    /// and compares them with the states of all inodes. Returns a text about the first error.
    pub(crate) fn check_log(&self, sb: u32) -> Result<(), String> {
        let mut lists = [0u32; 3];
        let heads = [
            (InodeList::Log, self.log_head(sb, false)),
            (InodeList::Log, self.log_head(sb, true)),
            (InodeList::Ail, self.log_head(sb, false)),
        ];
        for (i, (list, head)) in heads.into_iter().enumerate() {
            let (mut at, mut lsn) = (self.list_first(list, head), 0);
            while let Some(ino) = at {
                let row = self.inode(ino);
                let s = row.state.get();
                let right = match i {
                    0 => s & (PINNED | LOGGING) == PINNED,
                    1 => s & LOGGING != 0,
                    _ => s & ON_AIL != 0 && row.lsn.get() > lsn,
                };
                lists[i] += 1;
                if !right || row.sb.get() != sb || lists[i] > self.mapping_count() {
                    return Err(format!(
                        "{list:?} {i} of filesystem {sb}: inode {ino} ({s:#x})"
                    ));
                }
                lsn = if i == 2 { row.lsn.get() } else { 0 };
                at = self.list_after(list, head, ino);
            }
        }
        let mut found = [0u32; 3];
        for ino in 0..self.mapping_count() {
            if !self.on_xfs(ino) || self.inode(ino).sb.get() != sb {
                continue;
            }
            let s = self.inode(ino).state.get();
            found[0] += u32::from(s & (PINNED | LOGGING) == PINNED);
            found[1] += u32::from(s & LOGGING != 0);
            found[2] += u32::from(s & ON_AIL != 0);
        }
        if lists == found {
            Ok(())
        } else {
            Err(format!(
                "filesystem {sb}: {lists:?} in the log lists, {found:?} say so"
            ))
        }
    }
}
