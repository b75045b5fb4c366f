//! The engine's record of a task.

use crate::Mm;
use crate::memory::gfp::Gfp;
use crate::world::{TaskId, Word32, World};

/// The task is reclaiming: its allocations ignore watermarks and do not reclaim again.
pub const PF_MEMALLOC: u32 = 1;
/// The task is a kswapd.
pub const PF_KSWAPD: u32 = 2;
/// The task's writes are never held back by a congested queue.
pub const PF_SWAPWRITE: u32 = 4;
/// The task is a loop-back writer, whose dirty limit is a quarter higher.
pub const PF_LESS_THROTTLE: u32 = 8;
/// The task is a real-time task.
pub const PF_REALTIME: u32 = 16;
/// The task was chosen by the OOM killer.
pub const PF_DYING: u32 = 32;

/// The task's page cache and anonymous pages come from its node only (`numactl --membind`).
pub const PF_MEMBIND: u32 = 64;

/// The task belongs to a process that the OOM killer may kill. Other tasks are the kernel's own, or
/// belong to processes that `oom_score_adj` protects.
pub const PF_KILLABLE: u32 = 128;

/// The task is a kernel thread: reclaim does not throttle it, as the pages that would end the wait
/// may depend on its work.
pub const PF_KTHREAD: u32 = 256;

/// The record of a task.
pub struct Task<W: World> {
    pub(crate) flags: W::U32,
    /// The backing device that the task is writing to itself, plus 1; 0: none.
    pub(crate) writing_to: W::U32,
    /// The task's node, if it is bound to one or is that node's kswapd.
    pub(crate) node: W::U32,
    /// Pages freed because the task freed objects on them, or dropped an unused inode's cache.
    pub(crate) reclaimed_slab: W::U32,
    /// The number of the task's process, which its threads share, and in `parent` that of the
    /// process that forked it; if the task has [`PF_KILLABLE`].
    pub(crate) process: W::U32,
    pub(crate) parent: W::U32,
    /// The memory control group of the task; 0: the root.
    pub(crate) group: W::U32,
    /// Pages that the task was charged for above `memory.high`, for which it still has to reclaim.
    pub(crate) over_high: W::U32,
}

impl<W: World> Task<W> {
    /// Makes the record of a task that was not set up yet.
    pub(crate) fn new() -> Self {
        Self {
            flags: bytemuck::Zeroable::zeroed(),
            writing_to: bytemuck::Zeroable::zeroed(),
            node: bytemuck::Zeroable::zeroed(),
            reclaimed_slab: bytemuck::Zeroable::zeroed(),
            process: bytemuck::Zeroable::zeroed(),
            parent: bytemuck::Zeroable::zeroed(),
            group: bytemuck::Zeroable::zeroed(),
            over_high: bytemuck::Zeroable::zeroed(),
        }
    }

    /// Returns the task's flags (`PF_…`).
    #[inline(always)]
    pub fn flags(&self) -> u32 {
        self.flags.get()
    }
}

impl<W: World> Mm<W> {
    /// Returns the calling task's record.
    #[inline(always)]
    pub(crate) fn current(&self) -> &Task<W> {
        &self.tasks[self.world.task() as usize]
    }

    /// Returns the node that the calling task allocates from first: its CPU's, unless it is bound
    /// to one.
    #[inline(always)]
    pub(crate) fn local_node(&self) -> u32 {
        if self.nodes.len() == 1 {
            return 0;
        }
        let task = self.current();
        if task.flags() & (PF_MEMBIND | PF_KSWAPD) != 0 {
            task.node.get()
        } else {
            self.config.cpu_nodes[self.world.cpu()]
        }
    }

    /// Returns the flags of a request for user pages, restricted to the calling task's node if the
    /// task is bound to it, and charged to its memory control group if it is in one.
    pub fn bound(&self, mut gfp: Gfp) -> Gfp {
        let task = self.current();
        if task.flags() & PF_MEMBIND != 0 {
            gfp = gfp.or(Gfp::THISNODE);
        }
        if task.group.get() != 0 {
            gfp = gfp.or(Gfp::CHARGED);
        }
        gfp
    }

    /// Sets up the record of the new task `task`, which has not dirtied anything: its flags
    /// (`PF_…`) and its node.
    pub fn init_task(&self, task: TaskId, flags: u32, node: u32) {
        assert!((node as usize) < self.nodes.len());
        self.tasks[task as usize].flags.set(flags);
        self.tasks[task as usize].node.set(node);
        self.new_dirtier(task);
    }
}
