//! Writing dirty pages back: the walk over a file's dirty pages, where they go on the device, and
//! what page reclaim may write.

use super::beside;
use super::ioend::{self, Gathered};
use super::model::{Ahead, Model as _};
use super::{BATCH, Fs, SimMm, of};
use crate::Tag;
use crate::block::{Bio, Dir};
use crate::stack::Top;
use mm::Pfn;
use mm::cache::mapping::MappingKind;
use mm::cache::tree::Tag as PageTag;
use mm::memory::frame::flag;
use mm::memory::task::{PF_KSWAPD, PF_MEMALLOC};
use mm::watch::vmstat::VmEvent;
use mm::world::{Storage as _, Tasks, WalkRange, WritebackControl, Writepage};
use smallvec::SmallVec;

/// How a filesystem walks a file's dirty pages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Walk {
    /// A cyclic walk does not wrap if it wrote something (ext4).
    pub wrap_only_if_nothing_written: bool,
}

impl Walk {
    /// As `generic_writepages` walks.
    pub const PLAIN: Self = Self {
        wrap_only_if_nothing_written: false,
    };
}

/// Writes a file's dirty pages in index order (the kernel's `write_cache_pages`).
pub(super) async fn write_cache_pages<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    wbc: &mut WritebackControl,
    walk: Walk,
) {
    let fs = of(mm, mapping);
    let m = &mm.mappings[mapping as usize];
    let mut range = WalkRange::new(wbc, m.writeback_index.get());
    let whole = !wbc.range_cyclic && wbc.range_start == 0 && wbc.range_end == u32::MAX;
    let start_quota = wbc.nr_to_write;
    let mut last_done = None;
    let mut used_up = false;
    let mut gathered = Gathered::new(mm, mapping, wbc);
    let mut placed_until = 0;
    let longest = ask!(fs, model => model.longest_run(mm, mapping));
    // Behind a page under writeback there are more, and who waits for none passes them: nothing is done for them.
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

/// How many of the pages that got their blocks together a walk writes at least (Linux 6.12 fs/btrfs/extent_io.c
/// `writepage_delalloc`).
fn at_least(together: u32) -> i64 {
    const THRESH: u32 = 8192;
    i64::from(match together {
        ..16384 => together,
        _ => THRESH,
    })
}

/// What [`write_run`] did.
pub(super) struct Written {
    /// Pages whose I/O was started.
    pub pages: u32,
    /// Pages passed.
    pub advanced: u32,
}

impl Written {
    /// A page that nobody may write now.
    const PASSED: Self = Self {
        pages: 0,
        advanced: 1,
    };
}

/// Starts I/O on up to a batch of contiguous dirty pages, or gathers them for it.
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
            // It may wait, and nobody may for pages that no device has.
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

/// The device is full, and pages that were written before have no blocks: their data is lost, as in
/// Linux (`xfs_aops_discard_page`, `ext4_da_block_invalidatepages`). Dirty for ever they would hold up
/// whoever dirties pages, for ever.
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

/// The first page of a run is busy or clean: an integrity call waits for it and comes back, others
/// pass it.
async fn first_refused<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    first: u32,
    wbc: &WritebackControl,
) -> Written {
    // Finding the place may have slept: the page may have been written and dropped meanwhile.
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

/// Where a run of dirty pages goes.
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

/// The blocks of dirty pages, with those around them that the filesystem allocates together.
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

/// The filesystem's `writepages`.
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

/// Whether a transaction of today's ext4 needs a clean page of a device's own file where it is.
pub(crate) fn holds<const T: bool>(mm: &SimMm<T>, mapping: u32, index: u32) -> bool {
    if mm.mappings[mapping as usize].kind() != MappingKind::BlockDevice {
        return false;
    }
    let fs = of(mm, mapping);
    ask!(fs, model => model.holds(u64::from(index)))
}

/// Whether the calling task is in direct reclaim.
fn in_direct_reclaim<const T: bool>(mm: &SimMm<T>) -> bool {
    let flags = mm.tasks[mm.world.task() as usize].flags();
    flags & PF_MEMALLOC != 0 && flags & PF_KSWAPD == 0
}

/// Direct reclaim asks a filesystem to write pages, which comes to `top`.
fn asked_directly<const T: bool>(mm: &SimMm<T>, fs: &Fs, kind: MappingKind, (top, n): (Top, u32)) {
    if fs.kind().about().warns_of_direct_reclaim && kind == MappingKind::File {
        mm.count_event(VmEvent::DirectWritepageWarning, u64::from(n));
    }
    mm.world.stack.reaches(mm.world.task(), top);
}

/// How many of `most` pages of a file, from an index on, its filesystem refuses to write that page reclaim asks it for.
pub fn refuses_writepages<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    index: u32,
    most: u32,
) -> u32 {
    if mm.mappings[mapping as usize].kind() == MappingKind::BlockDevice {
        return 0;
    }
    let (fs, pages) = (of(mm, mapping), (index, most));
    ask!(fs, model => model.refuses_reclaim(fs, mapping, pages, in_direct_reclaim(mm)))
}

/// Page reclaim has asked a filesystem for so many pages that it refused.
pub fn writepages_refused<const T: bool>(mm: &SimMm<T>, mapping: u32, n: u32) {
    if in_direct_reclaim(mm) && n > 0 {
        let kind = mm.mappings[mapping as usize].kind();
        asked_directly(mm, of(mm, mapping), kind, (Top::Refused, n));
    }
}

/// The filesystem's `writepage`, as page reclaim calls it. The page is locked and its dirty bit
/// was taken.
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
        // As in `lose_run`.
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
