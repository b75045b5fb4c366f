//! The buffered write path, fsync and sync.

use super::read::read_page;
use super::reuse::Found;
use super::{Fs, FsError, SimMm, of};
use crate::Tag;
use mm::Pfn;
use mm::cache::mapping::{AS_EIO, MappingKind};
use mm::cache::pagecache::{Brought, Entered};
use mm::cache::tree::Tag as PageTag;
use mm::memory::frame::flag;
use mm::memory::gfp::Gfp;
use mm::policy::MetadataEnters;
use mm::world::Cost;
use mm::world::Tasks;
use mm::world::event::TrackPath;
use mm::writeback::bdi::BdiStat;
use mm::writeback::fresh::{Fresh, FreshEnd, FreshState};

/// Performs write(2) of `len` bytes at byte `pos` of a file, in the way of its filesystem.
pub async fn write<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    pos: u64,
    len: u64,
) -> Result<(), FsError> {
    if len == 0 {
        return Ok(());
    }
    let fs = of(mm, mapping);
    ask!(fs, model => model.write(mm, fs, mapping, pos, len).await)
}

/// Writes `len` bytes at byte `pos` through the page cache, page by page, after extending the file
/// if needed.
pub(super) async fn buffered<const T: bool>(
    mm: &SimMm<T>,
    fs: &Fs,
    mapping: u32,
    pos: u64,
    len: u64,
) -> Result<(), FsError> {
    let held = grow_to(mm, fs, mapping, pos + len).await?;
    fill(mm, fs, mapping, (pos, len), held).await
}

/// Extends a file, if it is shorter, for a write that ends at byte `end`, and marks its inode
/// changed. Returns the length it had before.
///
/// # Errors
/// The device is full.
pub(super) async fn grow_to<const T: bool>(
    mm: &SimMm<T>,
    fs: &Fs,
    mapping: u32,
    end: u64,
) -> Result<u64, FsError> {
    mm.file_changed(mapping);
    mm.transaction_committed(mapping).await;
    let m = &mm.mappings[mapping as usize];
    let held = m.size.get();
    if held < end {
        let grows = (end - held).div_ceil(4096);
        if !room_for(mm, fs, grows).await {
            return Err(FsError::NoSpace);
        }
        m.size.set(m.size.get().max(end));
    }
    Ok(held)
}

/// Writes a `range` (first byte, length) of a file through the page cache. The file was extended
/// before; `held` is its length in bytes before that, so the part of a page behind it need not be
/// read from the device.
pub(super) async fn fill<const T: bool>(
    mm: &SimMm<T>,
    fs: &Fs,
    mapping: u32,
    range: (u64, u64),
    held: u64,
) -> Result<(), FsError> {
    fill_as(mm, fs, mapping, range, held, FreshState::Written).await
}

/// As [`fill`]: writes a range (first byte, length) of a file that had `held` bytes before, whole
/// new pages in runs and others singly. With [`FreshState::Piece`] the pages are one piece of a
/// write, and the task neither looks at its dirty limits nor relaxes between them.
pub(super) async fn fill_as<const T: bool>(
    mm: &SimMm<T>,
    fs: &Fs,
    mapping: u32,
    (pos, len): (u64, u64),
    held: u64,
    state: FreshState,
) -> Result<(), FsError> {
    let mut index = pos / 4096;
    while index <= (pos + len - 1) / 4096 {
        // The bytes from `from` to `to` of this page are written.
        let from = pos.max(index * 4096);
        let to = (pos + len).min((index + 1) * 4096);
        if to - from == 4096 && !mm.world.reuse.on() {
            let whole = (pos + len) / 4096 - index;
            let run = (index as u32, whole.min(u64::from(u32::MAX)) as u32);
            let done = write_fresh(mm, fs, mapping, run, state).await?;
            if done > 0 {
                index += u64::from(done);
                continue;
            }
        }
        let found = mm
            .world
            .reuse
            .on()
            .then(|| found(mm, mapping, index as u32));
        if to - from < 4096 {
            // The rest of a partly written page must be read from the device first.
            let kept = held.min((index + 1) * 4096);
            if kept > index * 4096 && (from > index * 4096 || to < kept) {
                read_page(mm, mapping, index as u32).await?;
            }
        }
        write_one(mm, fs, mapping, index as u32, to - from).await?;
        if let Some(found) = found {
            mm.world.reuse.written(mapping, index as u32, found);
        }
        follow_up(mm, mapping, state).await;
        index += 1;
    }
    Ok(())
}

/// Returns where a write finds a page, before anything is read for it.
fn found<const T: bool>(mm: &SimMm<T>, mapping: u32, index: u32) -> Found {
    match mm.find_page(mapping, index) {
        None => Found::Missing,
        Some(pfn) if mm.frames.has(pfn, flag::UNUSED) => Found::ReadAhead,
        Some(_) => Found::Cached,
    }
}

/// Applies the dirty limits to the task after a written page and lets other tasks run, unless the
/// page is one of a piece ([`FreshState::Piece`]).
async fn follow_up<const T: bool>(mm: &SimMm<T>, mapping: u32, state: FreshState) {
    if state == FreshState::Piece {
        mm.count_dirtied(mapping);
        return;
    }
    if mm.note_dirtied(mapping) {
        mm.balance_now(mapping).await;
    }
    mm.world.relax().await;
}

/// Writes up to `most` whole pages from index `first` on that are not in the cache, and returns how
/// many. 0: the first one is cached, or must be written by [`write_one`] for another reason. Waits
/// where the run of pages ended because the task has to yield, to be throttled, or to reclaim
/// memory for the next page.
async fn write_fresh<const T: bool>(
    mm: &SimMm<T>,
    fs: &Fs,
    mapping: u32,
    (first, most): (u32, u32),
    state: FreshState,
) -> Result<u32, FsError> {
    let fresh = Fresh {
        mapping,
        first,
        most,
        gfp: mm.bound(Gfp::USER_WRITE),
        state,
    };
    let ready = |index| ask!(fs, model => model.allocate_at_write(mm, fs, mapping, index));
    let asked = ask!(fs, model => model.allocates_at_write(fs));
    let (n, end) = mm.fresh_pages(fresh, asked.then_some(ready));
    match end {
        FreshEnd::All | FreshEnd::Single => Ok(n),
        FreshEnd::Relax => {
            mm.world.relax().await;
            Ok(n)
        }
        FreshEnd::Balance => {
            mm.balance_now(mapping).await;
            mm.world.relax().await;
            Ok(n)
        }
        FreshEnd::Pause(pause) => {
            mm.pause_dirtier(pause).await;
            mm.world.relax().await;
            Ok(n)
        }
        FreshEnd::Unready => Err(FsError::NoSpace),
        FreshEnd::NoMemory => Err(FsError::OutOfMemory),
        FreshEnd::Short(start) => {
            let index = first + n;
            let pfn = mm.alloc_rest(fresh.gfp, start).await;
            let pfn = pfn.ok_or(FsError::OutOfMemory)?;
            enter_page(mm, pfn, mapping, index, false)?;
            write_one(mm, fs, mapping, index, 4096).await?;
            follow_up(mm, mapping, state).await;
            Ok(n + 1)
        }
    }
}

/// Returns true if the free blocks suffice for files to grow by `pages` pages.
///
/// Dirty pages may have no blocks yet (delayed allocation). If the free blocks might not suffice
/// for all of them, they are written first, as xfs does when it runs out of space
/// (`xfs_flush_inodes`); ext4 stops delaying allocation then (`ext4_nonda_switch`).
async fn room_for<const T: bool>(mm: &SimMm<T>, fs: &Fs, pages: u64) -> bool {
    let delayed = mm.bdi_stat(fs.bdi.get(), BdiStat::Reclaimable);
    if pages + delayed > fs.free_blocks() && pages <= fs.free_blocks() {
        for mapping in 0..mm.mapping_count() {
            if std::ptr::eq(of(mm, mapping), fs) && mm.mapping_tagged(mapping, PageTag::Dirty) {
                // The next fsync reports the failure.
                if !mm.sync_mapping(mapping).await {
                    let state = &mm.mappings[mapping as usize].state;
                    state.set(state.get() | AS_EIO);
                }
            }
            mm.world.relax().await;
        }
    }
    pages <= fs.free_blocks()
}

/// Writes `bytes` bytes of one page of a buffered write: finds or makes the page, copies, dirties
/// it and marks it accessed (in the order of 3.0). Returns the page.
async fn write_one<const T: bool>(
    mm: &SimMm<T>,
    fs: &Fs,
    mapping: u32,
    index: u32,
    bytes: u64,
) -> Result<Pfn, FsError> {
    let path = TrackPath::BufferedWrite;
    let pfn = loop {
        let pfn = page_or_new(mm, mapping, index, Gfp::USER_WRITE, path).await?;
        if !mm.frames.has(pfn, flag::LOCKED) {
            break pfn;
        }
        // The page may be truncated during this wait, so it is looked up again.
        mm.wait_on_page_locked(pfn).await;
    };
    if !ask!(fs, model => model.allocate_at_write(mm, fs, mapping, index)) {
        return Err(FsError::NoSpace);
    }
    fill_page(mm, pfn, bytes, path);
    Ok(pfn)
}

/// Returns the page at an index of a file: the cached one, or a new one entered into the cache.
/// `path`: the code path on whose behalf the page is made, for the page tracker.
pub(super) async fn page_or_new<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    index: u32,
    gfp: Gfp,
    path: TrackPath,
) -> Result<Pfn, FsError> {
    loop {
        if let Some(pfn) = mm.find_page(mapping, index) {
            return Ok(pfn);
        }
        mm.note_path(path);
        if let Some(pfn) = enter_new_page(mm, mapping, index, mm.bound(gfp), false).await? {
            return Ok(pfn);
        }
    }
}

/// Allocates a page at an index that is not cached and enters it into the cache, locked (`locked`)
/// if its data is still to be read. Returns `None` if another task entered a page there while this
/// one waited for memory.
pub(super) async fn enter_new_page<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    index: u32,
    gfp: Gfp,
    locked: bool,
) -> Result<Option<Pfn>, FsError> {
    match mm.alloc_page_at_once(gfp) {
        // This allocation did not wait, so no other task can have entered the page.
        Ok(pfn) => enter_absent(mm, pfn, mapping, index, locked).map(Some),
        Err(start) => {
            let pfn = mm.alloc_rest(gfp, start).await;
            let pfn = pfn.ok_or(FsError::OutOfMemory)?;
            enter_page(mm, pfn, mapping, index, locked)
        }
    }
}

/// Enters page `pfn` into a file's cache at `index`; frees it and returns `None` if one is cached
/// there already. `locked`: its data is still to be read.
pub(super) fn enter_page<const T: bool>(
    mm: &SimMm<T>,
    pfn: Pfn,
    mapping: u32,
    index: u32,
    locked: bool,
) -> Result<Option<Pfn>, FsError> {
    if mm.find_page(mapping, index).is_some() {
        mm.free_page(pfn, false);
        return Ok(None);
    }
    enter_absent(mm, pfn, mapping, index, locked).map(Some)
}

/// Enters page `pfn` into a file's cache at `index`, where no page is cached. `locked`: its data is
/// still to be read, so it stays locked until then. Fails, and frees the page, if the cache's index
/// has no memory.
fn enter_absent<const T: bool>(
    mm: &SimMm<T>,
    pfn: Pfn,
    mapping: u32,
    index: u32,
    locked: bool,
) -> Result<Pfn, FsError> {
    if locked {
        mm.frames.set_flags(pfn, flag::LOCKED);
    }
    let brought = if locked {
        Brought::Read
    } else {
        Brought::Written
    };
    if mm.enter_page_cache_for(pfn, mapping, index, brought) != Entered::Added {
        mm.frames.clear_flags(pfn, flag::LOCKED);
        mm.free_page(pfn, false);
        return Err(FsError::OutOfMemory);
    }
    Ok(pfn)
}

/// Copies `bytes` into a cached page, which becomes up to date and dirty and is marked accessed.
pub(super) fn fill_page<const T: bool>(mm: &SimMm<T>, pfn: Pfn, bytes: u64, path: TrackPath) {
    mm.world.charge_part(Cost::Copy, bytes, 4096);
    // A page that was read ahead counts as used now.
    if mm.frames.set_flags(pfn, flag::UPTODATE) & flag::UNUSED != 0 {
        mm.frames.clear_flags(pfn, flag::UNUSED);
    }
    mm.set_page_dirty(pfn, path);
    mm.mark_page_accessed(pfn, path);
}

/// Performs fsync(2). Returns true if all data reached the device.
pub async fn fsync<const T: bool>(mm: &SimMm<T>, mapping: u32) -> bool {
    let fs = of(mm, mapping);
    ask!(fs, model => model.fsync(mm, fs, mapping).await)
}

/// Performs sync(2). Returns true if all data reached the device.
pub async fn sync_all<const T: bool>(mm: &SimMm<T>) -> bool {
    mm.wakeup_flusher_threads(0);
    let all: Vec<usize> = (0..mm.world.fs.len()).collect();
    sync_these(mm, |_| true, &all).await
}

/// Writes the dirty pages of the files for which `wanted` is true and waits for them, then commits
/// the metadata of the given filesystems. Returns true if all of it reached the device.
pub(super) async fn sync_these<const T: bool>(
    mm: &SimMm<T>,
    wanted: impl Fn(u32) -> bool,
    filesystems: &[usize],
) -> bool {
    let mut ok = true;
    for mapping in (0..mm.mapping_count()).filter(|&m| wanted(m)) {
        let tagged = |tag| mm.mapping_tagged(mapping, tag);
        let kind = mm.mappings[mapping as usize].kind();
        // Metadata is written by the commit.
        if kind != MappingKind::Meta && (tagged(PageTag::Dirty) || tagged(PageTag::Writeback)) {
            ok &= mm.sync_mapping(mapping).await;
        }
        mm.world.relax().await;
    }
    for fs in filesystems.iter().map(|&nth| &mm.world.fs[nth]) {
        ok &= ask!(fs, model => model.commit(mm, fs).await);
    }
    ok
}

/// Returns a page of metadata: the cached one, or a new one that is read from the device or, with
/// `fresh`, made empty. Waits while the page is locked. `path`: the code path on whose behalf the
/// page is made, for the page tracker. `None`: no memory.
pub(super) async fn metadata_page<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    index: u32,
    fresh: bool,
    path: TrackPath,
) -> Option<Pfn> {
    loop {
        if let Some(pfn) = mm.find_page(mapping, index) {
            if mm.frames.has(pfn, flag::LOCKED) {
                mm.wait_on_page_locked(pfn).await;
                continue;
            }
            return Some(pfn);
        }
        mm.note_path(path);
        let made = enter_new_page(mm, mapping, index, Gfp::NOFS, !fresh).await;
        let Some(pfn) = made.ok()? else {
            continue;
        };
        let counts = match mm.policy.metadata_enters {
            MetadataEnters::Plain => false,
            MetadataEnters::Referenced => true,
            MetadataEnters::BlocksReferenced => !mm.mappings[mapping as usize].is_meta(),
        };
        if counts {
            mm.frames.set_flags(pfn, flag::REFERENCED);
        }
        if fresh {
            mm.frames.set_flags(pfn, flag::UPTODATE);
            return Some(pfn);
        }
        let tag = Tag::Pages { mapping, index };
        let volume = of(mm, mapping).volume;
        mm.world
            .submit(volume, tag, false, true, u64::from(index), 1)
            .await;
    }
}
