//! What the engine keeps of a task.

use crate::Mm;
use crate::memory::gfp::Gfp;
use crate::world::{TaskId, Word32, World};

/// The task is reclaiming: its allocations ignore watermarks and do not reclaim again.
pub const PF_MEMALLOC: u32 = 1;
/// The task is a kswapd.
pub const PF_KSWAPD: u32 = 2;
/// Its writes are never held back by a congested queue.
pub const PF_SWAPWRITE: u32 = 4;
/// A loop-back writer that gets a quarter more of the dirty limit.
pub const PF_LESS_THROTTLE: u32 = 8;
/// A real-time task.
pub const PF_REALTIME: u32 = 16;
/// The task was chosen to die.
pub const PF_DYING: u32 = 32;

/// Its page cache and anonymous pages come from its node alone (`numactl --membind`).
pub const PF_MEMBIND: u32 = 64;

/// The task is of a process that may be killed for its memory. Others are the kernel's own, or stand for
/// processes that `oom_score_adj` protects.
pub const PF_KILLABLE: u32 = 128;

/// The task is a thread of the kernel's own: no reclaim throttle holds it back, as the pages that would end the wait
/// may wait for what it does.
pub const PF_KTHREAD: u32 = 256;

/// One task's row.
pub struct Task<W: World> {
    pub(crate) flags: W::U32,
    /// The backing device the task is writing to itself, plus 1; 0: none.
    pub(crate) writing_to: W::U32,
    /// Its node, where it is bound to one or is that node's kswapd.
    pub(crate) node: W::U32,
    /// Pages that came free because it freed objects on them, or dropped an unused inode's cache.
    pub(crate) reclaimed_slab: W::U32,
    /// The number of its process, which its threads share, and of the one that forked that; where it has
    /// [`PF_KILLABLE`].
    pub(crate) process: W::U32,
    pub(crate) parent: W::U32,
}

impl<W: World> Task<W> {
    pub(crate) fn new() -> Self {
        Self {
            flags: bytemuck::Zeroable::zeroed(),
            writing_to: bytemuck::Zeroable::zeroed(),
            node: bytemuck::Zeroable::zeroed(),
            reclaimed_slab: bytemuck::Zeroable::zeroed(),
            process: bytemuck::Zeroable::zeroed(),
            parent: bytemuck::Zeroable::zeroed(),
        }
    }

    /// The task's flags.
    #[inline(always)]
    pub fn flags(&self) -> u32 {
        self.flags.get()
    }
}

impl<W: World> Mm<W> {
    /// The calling task's row.
    #[inline(always)]
    pub(crate) fn current(&self) -> &Task<W> {
        &self.tasks[self.world.task() as usize]
    }

    /// The node that the calling task allocates from first: its CPU's, unless it is bound to one.
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

    /// A request for user pages, held to the calling task's binding.
    pub fn bound(&self, gfp: Gfp) -> Gfp {
        if self.current().flags() & PF_MEMBIND != 0 {
            gfp.or(Gfp::THISNODE)
        } else {
            gfp
        }
    }

    /// Gives a new task its flags and its node. It has dirtied nothing yet.
    pub fn init_task(&self, task: TaskId, flags: u32, node: u32) {
        assert!((node as usize) < self.nodes.len());
        self.tasks[task as usize].flags.set(flags);
        self.tasks[task as usize].node.set(node);
        self.new_dirtier(task);
    }
}
