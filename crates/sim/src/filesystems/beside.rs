//! A walk over a file's dirty pages while another task walks over them too: fsync beside the
//! flusher (`iomap_writeback`; docs/reference/writeback.md#two-who-write-one-file).
//!
//! A walk that is alone takes neighbouring pages at once: no other task sees how far it has come
//! within them. Beside another walk it goes page by page, as kernels always do, taking each page's
//! lock, from a batch of pages that were dirty when the batch was taken.

use super::SimMm;
use super::ioend::Gathered;
use super::walk::{Written, block_of_run, lose_run};
use mm::Pfn;
use mm::cache::tree::Tag as PageTag;
use mm::memory::frame::flag;
use mm::policy::IomapWriteback;
use mm::world::WritebackControl;
use smallvec::SmallVec;

/// Maximum number of pages in a batch (`PAGEVEC_SIZE`, the size of the batches for the LRU lists).
const MOST: usize = 31;

/// Writes up to a batch of the dirty pages from `first` to `last`, page by page, waiting for their
/// locks, as a walk must that has another walk over the file beside it. Returns the pages written,
/// and how far the walk has advanced from `first`.
pub(super) async fn write_batch<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    (first, last): (u32, u32),
    wbc: &mut WritebackControl,
    gathered: &mut Gathered,
) -> Written {
    let mut batch = SmallVec::<[u32; MOST]>::new();
    let mut from = first;
    while batch.len() < MOST.min(usize::from(mm.policy.lru_batch))
        && let Some(index) = mm.next_tagged(mapping, PageTag::Dirty, from)
        && index <= last
    {
        batch.push(index);
        from = index.saturating_add(1);
    }
    let mut written = Written {
        pages: 0,
        advanced: 0,
    };
    for index in batch {
        if !wbc.sync_all && i64::from(written.pages) >= wbc.nr_to_write {
            break;
        }
        written.pages += write_page(mm, mapping, index, wbc, gathered).await;
        written.advanced = index - first + 1;
    }
    written
}

/// Starts the writeback of one page of a batch, unless another task did so meanwhile, and adds it
/// to the pages that the walk gathers. Returns the number of pages written: 0 or 1.
async fn write_page<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    index: u32,
    wbc: &mut WritebackControl,
    gathered: &mut Gathered,
) -> u32 {
    let Some(pfn) = mm.find_lock_page(mapping, index).await else {
        return 0;
    };
    if !is_to_be_written(mm, pfn, wbc).await {
        mm.unlock_page(pfn);
        return 0;
    }
    let fresh = gathered.is_fresh(mm, index);
    let Some((block, _)) = block_of_run(mm, mapping, index, 1) else {
        mm.unlock_page(pfn);
        return lose_run(mm, mapping, index, 1, wbc).await.pages;
    };
    mm.clear_page_dirty_for_io(pfn);
    mm.set_page_writeback(pfn);
    // The end that cannot take this page and has to be submitted first.
    let full_end = match gathered.takes(mm, index, (block, pfn), fresh) {
        true => None,
        false => gathered.take(),
    };
    let locked = gathered.locks(mm) == IomapWriteback::Locked;
    if !locked {
        mm.unlock_page(pfn);
        gathered.add(mm, index, (block, &[pfn]), fresh).await;
    }
    if let Some(full_end) = full_end {
        gathered.hand_over(mm, full_end).await;
    }
    if locked {
        gathered.add(mm, index, (block, &[pfn]), fresh).await;
        mm.unlock_page(pfn);
    }
    1
}

/// Returns true if a locked page is dirty and may be written now. If it is still under writeback, a
/// walk for data integrity (fsync) waits for the end of that; others skip the page.
async fn is_to_be_written<const T: bool>(mm: &SimMm<T>, pfn: Pfn, wbc: &WritebackControl) -> bool {
    if !mm.frames.has(pfn, flag::DIRTY) {
        return false;
    }
    if mm.frames.has(pfn, flag::WRITEBACK) {
        if !wbc.sync_all {
            return false;
        }
        mm.wait_on_page_writeback(pfn).await;
    }
    mm.frames.has(pfn, flag::DIRTY)
}
