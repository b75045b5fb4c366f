//! Writing dirty pages back: the walk over a file's dirty pages, their places on the device, and
//! the pages that page reclaim may write.

use super::beside;
use super::files::Ahead;
use super::ioend::{self, Gathered};
use super::{BATCH, Fs, FsKind, SimMm, of};
use crate::Tag;
use crate::block::{Bio, Dir};
use crate::stack::Top;
use mm::Pfn;
use mm::cache::mapping::MappingKind;
use mm::cache::tree::Tag as PageTag;
use mm::memory::frame::flag;
use mm::memory::task::{PF_KSWAPD, PF_MEMALLOC};
use mm::policy::ReclaimWrites;
use mm::watch::vmstat::VmEvent;
use mm::world::{Storage as _, Tasks, WalkRange, WritebackControl, Writepage};
use smallvec::SmallVec;

/// Options of a filesystem's walk over a file's dirty pages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Walk {
    /// A cyclic walk wraps to the start only if it has written nothing (ext4).
    pub wrap_only_if_nothing_written: bool,
}

impl Walk {
    /// The options of `generic_writepages`.
    pub const PLAIN: Self = Self {
        wrap_only_if_nothing_written: false,
    };
}

/// Writes a file's dirty pages in index order (`write_cache_pages` of the kernel):
/// `wbc.nr_to_write` of them, or all for data integrity (`wbc.sync_all`). Each turn of the loop
/// takes a run of contiguous pages; a run whose first page cannot be written now is passed, or
/// waited for if the write is for data integrity. `walk`: how the filesystem's walk differs from
/// the generic one.
pub(super) async fn write_cache_pages<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    wbc: &mut WritebackControl,
    walk: Walk,
) {
    let fs = of(mm, mapping);
    let m = &mm.mappings[mapping as usize];
    let mut range = WalkRange::new(wbc, m.writeback_index.get());
    // `whole`: the caller asks for the whole file, not for a range or a cyclic walk.
    let whole = !wbc.range_cyclic && wbc.range_start == 0 && wbc.range_end == u32::MAX;
    let start_quota = wbc.nr_to_write;
    let mut last_done = None;
    let mut used_up = false;
    let mut gathered = Gathered::new(mm, mapping, wbc);
    // Pages before this index got their blocks together with an earlier one.
    let mut placed_until = 0;
    let longest = ask!(fs, model => model.longest_run(mm, mapping));
    // A page under writeback is most often followed by more. A walk that does not wait for them
    // skips them here, one by one, without asking for their place.
    let mut refused = false;
    'walk: loop {
        while let Some(first) = mm.next_tagged(mapping, PageTag::Dirty, range.index) {
            if first > range.end {
                break;
            }
            if first >= placed_until {
                let together = ask!(fs, model => model.placed_together(mm, mapping, first));
                placed_until = first.saturating_add(together);
                wbc.nr_to_write = wbc.nr_to_write.max(at_least(together));
            }
            let most = (range.end - first).saturating_add(1).min(longest);
            let quota = wbc.nr_to_write.clamp(1, i64::from(most)) as u32;
            let run = || mm.tagged_run(mapping, PageTag::Dirty, first, quota.min(most));
            let written = match &mut gathered {
                None if refused && mm.tagged_run(mapping, PageTag::Writeback, first, 1) > 0 => {
                    Written::PASSED
                }
                Some(gathered) if gathered.is_beside(mm) => {
                    beside::write_batch(mm, mapping, (first, range.end), wbc, gathered).await
                }
                gathered => write_run(mm, mapping, first, run(), wbc, gathered.as_mut()).await,
            };
            refused = written.pages == 0
                && !wbc.sync_all
                && gathered.is_none()
                && ask!(fs, model => model.rewrites_in_place());
            if written.pages > 0 {
                let (pages, waits) = (written.pages, wbc.sync_all);
                ask!(fs, model => model.run_written(mm, fs, mapping, pages, waits).await);
            }
            range.index = match first.checked_add(written.advanced) {
                Some(next) => next,
                None => break 'walk,
            };
            last_done = Some(range.index);
            wbc.nr_to_write -= i64::from(written.pages);
            if wbc.nr_to_write <= 0 && !wbc.sync_all {
                used_up = true;
                break 'walk;
            }
            mm.world.relax().await;
            if mm.world.sched.stopping() {
                break 'walk;
            }
        }
        let wrote = wbc.nr_to_write < start_quota;
        if (walk.wrap_only_if_nothing_written && wrote) || !range.wrap() {
            break;
        }
        placed_until = 0;
    }
    if let Some(gathered) = &mut gathered {
        gathered.end(mm).await;
    }
    if let Some(done) = last_done
        && (wbc.range_cyclic || (whole && (used_up || wbc.nr_to_write > 0)))
    {
        m.writeback_index.set(done);
    }
}

/// Returns the least number of pages that a walk writes of `together` pages that got their blocks
/// together (Linux 6.12 fs/btrfs/extent_io.c `writepage_delalloc`).
fn at_least(together: u32) -> i64 {
    const THRESH: u32 = 8192;
    i64::from(match together {
        ..16384 => together,
        _ => THRESH,
    })
}

/// Result of [`write_run`].
pub(super) struct Written {
    /// Pages whose I/O was started.
    pub pages: u32,
    /// Pages that the walk has passed.
    pub advanced: u32,
}

impl Written {
    /// One page is skipped because it cannot be written now.
    const PASSED: Self = Self {
        pages: 0,
        advanced: 1,
    };
}

/// Starts I/O on up to `run` contiguous dirty pages from index `first` on: one bio, or, with
/// `gathered`, pages added to the end (`struct iomap_ioend`) that is being filled. Returns how many
/// pages were started, and how many the walk has passed; fewer than `run` if the blocks are not
/// contiguous. Without a free block the data is lost (`lose_run`).
pub(super) async fn write_run<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    first: u32,
    run: u32,
    wbc: &mut WritebackControl,
    mut gathered: Option<&mut Gathered>,
) -> Written {
    debug_assert!(run > 0 && run <= BATCH);
    let volume = of(mm, mapping).volume;
    let fresh = match &mut gathered {
        Some(gathered) => gathered.prepare(mm, first).await,
        None => false,
    };
    let most = run.min(mm.world.max_bio(volume));
    let Some((block, len)) = block_of_run(mm, mapping, first, most) else {
        return lose_run(mm, mapping, first, run, wbc).await;
    };
    let mut pfns = SmallVec::<[Pfn; BATCH as usize]>::new();
    let gathers = gathered.is_some();
    let n = mm.start_writeback(mapping, first, len, |pfn| {
        if gathers {
            pfns.push(pfn);
        }
    });
    if n == 0 {
        if let Some(gathered) = gathered {
            // `first_refused` may wait, and no task may wait while gathered pages are not yet
            // submitted to a device.
            gathered.submit(mm).await;
        }
        return first_refused(mm, mapping, first, wbc).await;
    }
    if let Some(gathered) = gathered {
        gathered.add(mm, first, (block, &pfns), fresh).await;
        return Written {
            pages: n,
            advanced: n,
        };
    }
    let tag = Tag::Pages {
        mapping,
        index: first,
    };
    let bio = Bio {
        tag: tag.pack(),
        dir: Dir::Write,
        sync: wbc.sync_all,
        block,
        blocks: n,
        purpose: ioend::purpose(mm, mapping, wbc),
    };
    let fs = of(mm, mapping);
    let meta = mm.mappings[mapping as usize].is_meta();
    if !(meta && ask!(fs, model => model.submits_later(mm, volume, bio, true))) {
        mm.world.submit_parts(volume, bio).await;
    }
    Written {
        pages: n,
        advanced: n,
    }
}

/// Ends the writeback of a run of pages that have no blocks when the device is full: their data is
/// lost, as in Linux (`xfs_aops_discard_page`, `ext4_da_block_invalidatepages`). Were they left
/// dirty, they would hold up tasks that dirty pages for ever. Returns how many pages the walk has
/// passed; none of them was written.
pub(super) async fn lose_run<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    first: u32,
    run: u32,
    wbc: &WritebackControl,
) -> Written {
    let n = mm.start_writeback(mapping, first, run, |_| ());
    if n == 0 {
        return first_refused(mm, mapping, first, wbc).await;
    }
    mm.end_writeback(mapping, first, n, true);
    mm.world.note_lost(n);
    Written {
        pages: 0,
        advanced: n,
    }
}

/// Handles a run whose first page is locked, under writeback or clean, so that no page could be
/// written: a walk for data integrity waits for it and tries again (0 pages passed), others skip it
/// (1 passed).
async fn first_refused<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    first: u32,
    wbc: &WritebackControl,
) -> Written {
    // Finding the place may have slept, so the page may have been written and dropped since.
    let mut advanced = 1;
    if wbc.sync_all
        && let Some(pfn) = mm.find_page(mapping, first)
        && mm.frames.any(pfn, flag::WRITEBACK | flag::LOCKED)
    {
        if mm.frames.has(pfn, flag::WRITEBACK) {
            mm.wait_on_page_writeback(pfn).await;
        } else {
            mm.wait_on_page_locked(pfn).await;
        }
        advanced = 0;
    }
    Written { pages: 0, advanced }
}

/// Returns the place of a run of up to `len` dirty pages from index `first` on: first block, and
/// number of pages that are contiguous there. Pages without blocks get them now. `None`: the device
/// is full.
pub(super) fn block_of_run<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    first: u32,
    len: u32,
) -> Option<(u64, u32)> {
    let fs = of(mm, mapping);
    match mm.mappings[mapping as usize].kind() {
        MappingKind::BlockDevice | MappingKind::Meta => Some((u64::from(first), len)),
        _ => {
            let fresh = fs.mapped(mapping, first).is_none();
            let at = ask!(fs, model => model.place_run(mm, fs, mapping, first, len));
            if fresh {
                ask!(fs, model => model.run_placed(mm, fs, mapping));
            }
            at
        }
    }
}

/// Returns the blocks of up to `len` dirty pages from index `first` on (first block and number),
/// allocating them together with the pages around them that the filesystem looks ahead to. `None`:
/// no block is free.
pub(super) fn allocate<const T: bool>(
    mm: &SimMm<T>,
    fs: &Fs,
    mapping: u32,
    first: u32,
    len: u32,
) -> Option<(u64, u32)> {
    fs.map_ahead(mapping, first, len, || {
        if !fs.look_ahead {
            return Ahead::none(len);
        }
        ask!(fs, model => model.look_ahead(mm, fs, mapping, first, len))
    })
}

/// Writes back dirty pages of a file by its filesystem's `writepages`, inside a plug
/// (`blk_start_plug`) if the filesystem uses one.
pub async fn writepages<const T: bool>(mm: &SimMm<T>, mapping: u32, wbc: &mut WritebackControl) {
    let fs = of(mm, mapping);
    let plugs = ask!(fs, model => model.plugs());
    if plugs {
        mm.world.start_plug();
    }
    ask!(fs, model => model.writepages(mm, fs, mapping, wbc).await);
    if plugs {
        mm.world.finish_plug();
    }
}

/// Returns true if a transaction of ext4 (in its form of today) holds a page of the block device's
/// own mapping; reclaim must then leave that page in memory.
pub(crate) fn holds<const T: bool>(mm: &SimMm<T>, mapping: u32, index: u32) -> bool {
    if mm.mappings[mapping as usize].kind() != MappingKind::BlockDevice {
        return false;
    }
    let fs = of(mm, mapping);
    ask!(fs, model => model.holds(u64::from(index)))
}

/// Returns true if the calling task is in direct reclaim.
fn in_direct_reclaim<const T: bool>(mm: &SimMm<T>) -> bool {
    let flags = mm.tasks[mm.world.task() as usize].flags();
    flags & PF_MEMALLOC != 0 && flags & PF_KSWAPD == 0
}

/// Records that direct reclaim asked a filesystem to write `n` pages of a mapping: counts the
/// kernel's warning where the filesystem gives one, and notes that the task's kernel stack reached
/// the depth of `top`.
fn asked_directly<const T: bool>(mm: &SimMm<T>, fs: &Fs, kind: MappingKind, (top, n): (Top, u32)) {
    if fs.kind().about().warns_of_direct_reclaim && kind == MappingKind::File {
        mm.count_event(VmEvent::DirectWritepageWarning, u64::from(n));
    }
    mm.world.stack.reaches(mm.world.task(), top);
}

/// Returns how many of `most` pages of a file, from `index` on, its filesystem refuses to write for
/// page reclaim: XFS, for one, refuses direct reclaim. 0: it writes the first one.
pub fn refuses_writepages<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    index: u32,
    most: u32,
) -> u32 {
    if mm.mappings[mapping as usize].kind() == MappingKind::BlockDevice
        || reclaim_writes_ranges(mm, mapping)
    {
        return 0;
    }
    let (fs, pages) = (of(mm, mapping), (index, most));
    ask!(fs, model => model.refuses_reclaim(fs, mapping, pages, in_direct_reclaim(mm)))
}

/// Returns true if reclaim asks a file's filesystem for a range of one page, not for `writepage`
/// (`reclaim_writes`).
#[inline]
pub fn reclaim_writes_ranges<const T: bool>(mm: &SimMm<T>, mapping: u32) -> bool {
    let file = || mm.mappings[mapping as usize].kind() == MappingKind::File;
    match mm.policy.reclaim_writes {
        ReclaimWrites::Writepage => false,
        ReclaimWrites::Mixed => {
            file() && matches!(of(mm, mapping).kind(), FsKind::Xfs | FsKind::Btrfs)
        }
        ReclaimWrites::Range => file(),
    }
}

/// Records that a filesystem refused to write `n` pages of a mapping for page reclaim; counted only
/// in direct reclaim.
pub fn writepages_refused<const T: bool>(mm: &SimMm<T>, mapping: u32, n: u32) {
    if in_direct_reclaim(mm) && n > 0 {
        let kind = mm.mappings[mapping as usize].kind();
        asked_directly(mm, of(mm, mapping), kind, (Top::Refused, n));
    }
}

/// Performs the filesystem's `writepage`, called by page reclaim. The page is locked, and its dirty
/// bit was cleared. Returns `Redirtied` if the filesystem refuses, so that the page is dirty again
/// and stays in memory; otherwise `Started`: the page is under writeback, or its data is lost
/// because the device is full.
pub async fn writepage<const T: bool>(
    mm: &SimMm<T>,
    pfn: Pfn,
    wbc: &mut WritebackControl,
) -> Writepage {
    let (mapping, index) = (mm.frames.mapping(pfn), mm.frames.index(pfn));
    let fs = of(mm, mapping);
    let kind = mm.mappings[mapping as usize].kind();
    if refuses_writepages(mm, mapping, index, 1) > 0 {
        writepages_refused(mm, mapping, 1);
        mm.redirty_page_for_writepage(pfn, wbc);
        return Writepage::Redirtied;
    }
    if in_direct_reclaim(mm) {
        let fresh = kind == MappingKind::File && fs.mapped(mapping, index).is_none();
        let top = if fresh { Top::NewBlocks } else { Top::File };
        asked_directly(mm, fs, kind, (top, 1));
    }
    let kswapd = mm.tasks[mm.world.task() as usize].flags() & PF_KSWAPD != 0;
    let place = match kind {
        MappingKind::BlockDevice => Some((u64::from(index), 1)),
        _ => allocate(mm, fs, mapping, index, 1),
    };
    mm.set_page_writeback(pfn);
    let Some((block, _)) = place else {
        // The data is lost, as in `lose_run`.
        mm.end_page_writeback(pfn, true);
        mm.world.note_lost(1);
        return Writepage::Started;
    };
    let tag = Tag::Pages { mapping, index };
    mm.world.submit(fs.volume, tag, true, false, block, 1).await;
    wbc.nr_to_write -= 1;
    ask!(fs, model => model.after_writepage(mm, mapping, index, wbc, kswapd).await);
    Writepage::Started
}
