//! Reading through the page cache, with read-ahead.

use super::readahead::{self, Reader, Window};
use super::reuse::Found;
use super::write::{enter_new_page, enter_page};
use super::{BATCH, FsError, SimMm, of};
use crate::Tag;
use mm::memory::frame::flag;
use mm::memory::gfp::Gfp;
use mm::world::Cost;
use mm::world::Tasks;
use mm::world::event::TrackPath;
use mm::writeback::fresh::{Fresh, FreshEnd, FreshState};

/// Performs read(2) through the page cache on a newly opened descriptor. Returns the number of
/// bytes read.
pub async fn read<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    pos: u64,
    len: u64,
) -> Result<u64, FsError> {
    read_with(mm, mapping, pos, len, &Window::default()).await
}

/// Performs read(2) of `len` bytes at `pos` through the page cache, page by page: missing pages are
/// brought in with their read-ahead, locked ones are waited for. `window` is the descriptor's
/// read-ahead window. Returns the number of bytes read, less than `len` at the file's end.
pub async fn read_with<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    pos: u64,
    len: u64,
    window: &Window,
) -> Result<u64, FsError> {
    let fs = of(mm, mapping);
    let reuse = &mm.world.reuse;
    let size = mm.mappings[mapping as usize].size.get();
    let len = len.min(size.saturating_sub(pos));
    if len == 0 {
        return Ok(0);
    }
    mm.file_accessed(mapping);
    let last_page = ((size - 1) / 4096) as u32;
    let last_wanted = ((pos + len - 1) / 4096) as u32;
    let reader = Reader::of_pages(window, (pos / 4096) as u32, last_wanted);
    let on_demand = fs.on_demand();
    for index in pos / 4096..=(pos + len - 1) / 4096 {
        let from = pos.max(index * 4096);
        let to = (pos + len).min((index + 1) * 4096);
        let index = index as u32;
        let mut missed = false;
        let pfn = loop {
            match mm.find_page(mapping, index) {
                None => {
                    missed = true;
                    bring_in(mm, mapping, &reader, (index, last_wanted), last_page).await?;
                }
                Some(pfn) if on_demand && readahead::is_marked(mm, pfn) => {
                    let wanted = (index, last_wanted - index + 1);
                    readahead::met(mm, mapping, &reader, wanted, last_page, pfn).await?;
                }
                Some(pfn) if mm.frames.has(pfn, flag::LOCKED) => {
                    mm.wait_on_page_locked(pfn).await;
                    if mm.find_page(mapping, index) == Some(pfn) && mm.frames.has(pfn, flag::ERROR)
                    {
                        return Err(FsError::Io);
                    }
                }
                Some(pfn) => break pfn,
            }
        };
        let before = mm.frames.clear_flags(pfn, flag::UNUSED);
        let found = match before & flag::UNUSED != 0 {
            _ if missed || reader.brought(index) => Found::Missing,
            true => Found::ReadAhead,
            false => Found::Cached,
        };
        if on_demand {
            window.passed(index);
            if found == Found::Cached {
                mm.note_hit(pfn);
            }
        }
        if reuse.on() {
            reuse.asked(found);
        }
        mm.world.charge_part(Cost::Copy, to - from, 4096);
        mm.mark_page_accessed(pfn, TrackPath::BufferedRead);
        mm.world.relax().await;
    }
    Ok(len)
}

/// Brings in page `index`, which a read(2) misses, with its read-ahead; `last_wanted` is the last
/// page that the call asks for. Without read-ahead on demand the whole window from the page on is
/// read.
async fn bring_in<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    reader: &Reader<'_>,
    (index, last_wanted): (u32, u32),
    last_page: u32,
) -> Result<(), FsError> {
    if !of(mm, mapping).on_demand() {
        return read_window(mm, mapping, reader, index, last_page).await;
    }
    let wanted = (index, last_wanted - index + 1);
    readahead::on_demand(mm, mapping, reader, wanted, last_page, false).await?;
    if mm.find_page(mapping, index).is_none() {
        read_window(mm, mapping, reader, index, index).await?;
    }
    Ok(())
}

/// Brings in a page that a write changes in part, so that its other bytes are needed, if it is not
/// cached and has a block; a hole needs no read.
///
/// # Errors
/// The device failed, or no memory is free.
pub(super) async fn read_page<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    index: u32,
) -> Result<(), FsError> {
    let window = Window::default();
    let reader = Reader::of_pages(&window, index, index);
    loop {
        match mm.find_page(mapping, index) {
            None if of(mm, mapping).mapped(mapping, index).is_none() => return Ok(()),
            None => read_window(mm, mapping, &reader, index, index).await?,
            Some(pfn) if !mm.frames.any(pfn, flag::UPTODATE | flag::ERROR) => {
                mm.wait_on_page_locked(pfn).await;
            }
            Some(pfn) if mm.frames.has(pfn, flag::UPTODATE) => return Ok(()),
            Some(_) => return Err(FsError::Io),
        }
    }
}

/// Brings in the missing pages from `index` on, up to the window's size or the file's `last_page`,
/// stopping at the first that is cached. Each batch of pages is submitted as soon as it is
/// allocated, so the device works while the next batch is made.
pub(super) async fn read_window<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    reader: &Reader<'_>,
    index: u32,
    last_page: u32,
) -> Result<(), FsError> {
    let most = reader.window.most(mm, mapping).max(1);
    let window = most.min(last_page - index + 1);
    let mut done = 0;
    while done < window {
        let batch = BATCH.min(window - done);
        let n = match new_locked_pages(mm, mapping, index + done, batch, Gfp::USER).await {
            Err(e) if done == 0 => return Err(e),
            Err(_) => break,
            Ok(n) => n,
        };
        reader.mark_new(mm, (mapping, index + done, n), None);
        fill_from_device(mm, mapping, index + done, n).await;
        done += n;
        if n < batch {
            break;
        }
        mm.world.relax().await;
    }
    Ok(())
}

/// Enters up to `most` new, locked pages into a file's cache from `index` on, stopping at the first
/// that is cached already or cannot be allocated. Returns how many.
///
/// # Errors
/// No page at all could be entered.
pub(super) async fn new_locked_pages<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    index: u32,
    most: u32,
    gfp: Gfp,
) -> Result<u32, FsError> {
    let mut n = 0;
    mm.note_path(TrackPath::BufferedRead);
    while n < most {
        let fresh = Fresh {
            mapping,
            first: index + n,
            most: most - n,
            gfp: mm.bound(gfp),
            state: FreshState::Locked,
        };
        let (made, end) = mm.fresh_pages(fresh, None::<fn(u32) -> bool>);
        n += made;
        let next = index + n;
        let entered = match end {
            FreshEnd::All => break,
            FreshEnd::Single if mm.find_page(mapping, next).is_some() => break,
            FreshEnd::Single => enter_new_page(mm, mapping, next, fresh.gfp, true).await,
            FreshEnd::Short(start) => match mm.alloc_rest(fresh.gfp, start).await {
                Some(pfn) => enter_page(mm, pfn, mapping, next, true),
                None => Err(FsError::OutOfMemory),
            },
            _ => Err(FsError::OutOfMemory),
        };
        match entered {
            Ok(Some(_)) => n += 1,
            Err(e) if n == 0 => return Err(e),
            Ok(None) | Err(_) => break,
        }
    }
    Ok(n)
}

/// Submits the reading of `n` locked pages of a file from `index` on, in bios as long as contiguous
/// blocks allow; each page is unlocked when its bio ends. Holes are zeroes and need no I/O.
pub(super) async fn fill_from_device<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    index: u32,
    n: u32,
) {
    let fs = of(mm, mapping);
    ask!(fs, model => model.find_blocks(mm, fs, mapping, index, n).await);
    let most = mm.world.max_bio(fs.volume);
    let mut at = index;
    while at < index + n {
        match fs.mapped(mapping, at) {
            Some((block, len)) => {
                let len = len.min(index + n - at).min(most);
                mm.world.reuse.fetched(mapping, at, len);
                let tag = Tag::Pages { mapping, index: at };
                mm.world
                    .submit(fs.volume, tag, false, true, block, len)
                    .await;
                at += len;
            }
            None => {
                let n = fs.hole(mapping, at, index + n - at);
                mm.end_read(mapping, at, n, false);
                at += n;
            }
        }
    }
}
