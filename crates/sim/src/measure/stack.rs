//! The depth of a direct reclaimer's kernel stack. The second aim of *writeback-from-reclaim* is
//! that the deep stack of a filesystem that writes never comes on top of the deep stack of an
//! allocating task.
//!
//! No stack is walked, as the model has none: each step of a task adds the frames that a kernel of
//! the time had for it, by the table below. The published sources are dumps of ftrace's stack
//! tracer:
//!
//! - **A**: J. Berthels to linux-mm, 9 April 2010, "kernel stack overflow, xfs, many disks, heavy
//!   write load, 8k stack, x86-64" (2.6.33.2): two dumps of direct reclaimers that write.
//! - **B**: the same thread, 9 April 2010, where one only frees pages.
//! - **C**: M. Kim to linux-mm, May 2014 (3.14.0): a flusher that swaps while it maps an extent on
//!   ext4.
//!
//! Other kernels' frames differ by some ten per cent, and with instrumentation by more; the
//! difference that a policy makes is the same steps in each. Stacks behind shrinkers are not
//! counted.

use mm::world::TaskId;
use std::cell::Cell;

/// Returns the sum of stack frames, in bytes.
const fn sum(frames: &[u32]) -> u32 {
    let (mut i, mut all) = (0, 0);
    while i < frames.len() {
        all += frames[i];
        i += 1;
    }
    all
}

/// `system_call_fastpath`, and the system call's own function (A).
const SYSCALL: u32 = sum(&[128, 64]);
/// A: vfs_write, do_sync_write, xfs_file_aio_write, xfs_write, generic_file_buffered_write; B:
/// find_or_create_page, __page_cache_alloc.
const WRITE: u32 = SYSCALL + sum(&[48, 272, 16, 288, 192, 80, 32]);
/// Like a write: vfs_read, do_sync_read and generic_file_aio_read (inferred); A:
/// page_cache_async_readahead, ondemand_readahead, ra_submit, __do_page_cache_readahead,
/// __page_cache_alloc.
const READ: u32 = SYSCALL + sum(&[48, 272, 192, 64, 80, 16, 144, 32]);
/// Inferred: the exception's registers, do_page_fault, handle_mm_fault, __do_fault, filemap_fault.
const FAULT: u32 = sum(&[176, 192, 128, 144, 112]);
/// A: alloc_pages_current, __alloc_pages_nodemask.
const ALLOC: u32 = sum(&[48, 240]);
/// A: try_to_free_pages, do_try_to_free_pages, shrink_zone, shrink_page_list.
const DIRECT_RECLAIM: u32 = sum(&[128, 112, 528, 384]);
/// B, of a clean page: try_to_release_page, xfs_vm_releasepage, try_to_free_buffers,
/// free_buffer_head, kmem_cache_free, __slab_free, add_partial.
const FREE: u32 = sum(&[16, 160, 64, 16, 64, 64, 48]);
/// A: xfs_vm_writepage, xfs_page_state_convert: a page's buffers are examined. Other filesystems
/// are as deep here (inferred).
const WRITEPAGE: u32 = sum(&[64, 256]);
/// A: xfs_vm_writepage alone; and, inferred, the frames that dirty the page again:
/// redirty_page_for_writepage, __set_page_dirty_nobuffers.
const REFUSED: u32 = sum(&[64, 32, 48]);
/// C: ext4_map_blocks, ext4_ext_map_blocks, ext4_ext_insert_extent, __getblk, find_or_create_page.
/// XFS's is three times as deep (A), but refuses direct reclaim.
const MAP_BLOCKS: u32 = sum(&[160, 256, 224, 112, 80]);
/// C: swap_writepage, __swap_writepage.
const SWAP_WRITEPAGE: u32 = sum(&[32, 160]);
/// A, from submit_bio down to the wake-up of the task that feeds a SATA disk: submit_bio,
/// generic_make_request, __make_request, __elv_add_request, elv_insert, __blk_run_queue,
/// scsi_request_fn, scsi_dispatch_cmd, ata_scsi_queuecmd, ata_scsi_translate, ata_qc_issue,
/// mv_qc_issue, ata_sff_qc_issue, its work queue (32, 16, 16, 16, 48, 64), waking (64, 64, 32, 16,
/// 96), select_task_rq_fair.
const BLOCK: u32 = sum(&[
    80, 208, 96, 48, 48, 32, 96, 48, 64, 64, 96, 96, 48, 32, 16, 16, 16, 48, 64, 64, 64, 32, 16,
    96, 304,
]);

/// The call in which a task needed a page: the bottom of its stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Bottom {
    /// Another call, or a daemon's loop: the frames below are unknown, and the least is assumed.
    #[default]
    Other,
    /// A buffered read.
    Read,
    /// A buffered write.
    Write,
    /// A page fault.
    Fault,
}

impl Bottom {
    const ALL: [Self; 4] = [Self::Other, Self::Read, Self::Write, Self::Fault];

    /// Returns the bytes of stack that the call takes before it needs a page.
    const fn bytes(self) -> u32 {
        match self {
            Self::Other => SYSCALL,
            Self::Read => READ,
            Self::Write => WRITE,
            Self::Fault => FAULT,
        }
    }
}

/// The top of a direct reclaimer's stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Top {
    /// A clean page is freed.
    Free,
    /// A filesystem is asked to write a page, and refuses.
    Refused,
    /// A filesystem writes a page whose disk block is known.
    File,
    /// A filesystem first allocates a disk block for the page.
    NewBlocks,
    /// A page is written to swap.
    Swap,
}

impl Top {
    /// Returns the bytes of stack above reclaim's own frames, by what reclaim does with a page.
    const fn bytes(self) -> u32 {
        match self {
            Self::Free => FREE,
            Self::Refused => REFUSED,
            Self::File => WRITEPAGE + BLOCK,
            Self::NewBlocks => WRITEPAGE + MAP_BLOCKS + BLOCK,
            Self::Swap => SWAP_WRITEPAGE + BLOCK,
        }
    }
}

/// Returns the bytes of a direct reclaimer's stack: the call that needed a page, the allocator,
/// reclaim, and what reclaim does at the top.
pub const fn depth(bottom: Bottom, top: Top) -> u32 {
    bottom.bytes() + ALLOC + DIRECT_RECLAIM + top.bytes()
}

/// The deepest stacks of a run's direct reclaimers, in bytes.
pub struct Stacks {
    /// The present call of each task.
    bottoms: Box<[Cell<Bottom>]>,
    /// The deepest stack for each bottom.
    deepest: [Cell<u32>; Bottom::ALL.len()],
    /// The deepest stack at which a filesystem was asked to write.
    filesystem: Cell<u32>,
}

impl Stacks {
    /// Returns zero depths for `tasks` tasks.
    pub fn new(tasks: usize) -> Self {
        Self {
            bottoms: (0..tasks).map(|_| Cell::default()).collect(),
            deepest: Default::default(),
            filesystem: Cell::new(0),
        }
    }

    /// Notes that a task begins a call of kind `bottom`.
    #[inline]
    pub fn begins(&self, task: TaskId, bottom: Bottom) {
        self.bottoms[task as usize].set(bottom);
    }

    /// Notes that a direct reclaimer's stack reaches `top`, and keeps the greatest depth for the
    /// task's call and for filesystems that were asked to write.
    pub fn reaches(&self, task: TaskId, top: Top) {
        let bottom = self.bottoms[task as usize].get();
        let bytes = depth(bottom, top);
        let deepest = &self.deepest[bottom as usize];
        deepest.set(deepest.get().max(bytes));
        if matches!(top, Top::Refused | Top::File | Top::NewBlocks) {
            self.filesystem.set(self.filesystem.get().max(bytes));
        }
    }

    /// Restarts at the beginning of the workload.
    pub fn restart(&self) {
        self.deepest.iter().for_each(|d| d.set(0));
        self.filesystem.set(0);
    }

    /// Returns the figures by name, in bytes; 0 if no task reclaimed in such a call.
    pub fn figures(&self) -> [(&'static str, u32); 5] {
        let of = |bottom: Bottom| self.deepest[bottom as usize].get();
        let max = Bottom::ALL.into_iter().map(of).max().unwrap_or(0);
        [
            ("direct_reclaim_stack_max", max),
            ("direct_reclaim_stack_read", of(Bottom::Read)),
            ("direct_reclaim_stack_write", of(Bottom::Write)),
            ("direct_reclaim_stack_fault", of(Bottom::Fault)),
            ("direct_reclaim_stack_filesystem", self.filesystem.get()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The frames between the page cache and the page list in dump A, "server16": 3104 − 1664
    /// bytes; and from submit_bio to the top: 8336 − 6544.
    #[test]
    fn the_table_adds_up_to_the_dumps() {
        assert_eq!(ALLOC + DIRECT_RECLAIM, 3104 - 1664);
        assert_eq!(BLOCK, 8336 - 6544);
        // "server9": the write's frames below balance_dirty_pages.
        assert_eq!(WRITE - (80 + 32), 1008);
    }

    #[test]
    fn the_deepest_is_kept_by_what_is_below() {
        let s = Stacks::new(2);
        s.begins(0, Bottom::Write);
        s.begins(1, Bottom::Fault);
        s.reaches(0, Top::Swap);
        s.reaches(0, Top::Free);
        s.reaches(1, Top::Refused);
        let [max, read, write, fault, filesystem] = s.figures().map(|(_, bytes)| bytes);
        assert_eq!((max, read), (depth(Bottom::Write, Top::Swap), 0));
        assert_eq!((write, fault), (max, depth(Bottom::Fault, Top::Refused)));
        assert_eq!(filesystem, fault);
        s.restart();
        assert!(s.figures().iter().all(|(_, bytes)| *bytes == 0));
    }
}
