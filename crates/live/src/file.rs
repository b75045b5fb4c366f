//! Reads, writes, syncs and truncates files through the page cache.

use crate::LiveMm;
use crate::ahead::{self, Ahead};
use crate::arena::{self, Locked, Pinned};
use crate::blocking;
use crate::class;
use crate::cpu;
use crate::error::Error;
use crate::errseq::{Cursor, Fate};
use crate::io;
use crate::latency::Kind;
use crate::open_file::{Cut, OpenFile, Share};
use crate::page_size::PAGE;
use crate::sync;
use crate::turn::Turn;
use mm::cache::tree::Tag;
use mm::memory::frame::flag;
use mm::memory::gfp::Gfp;
use mm::world::Tasks;
use mm::world::event::TrackPath;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// The longest file in bytes whose every page has a number: 2^32 - 1 pages.
pub(crate) const MOST_BYTES: u64 = u32::MAX as u64 * PAGE as u64;

pub(crate) fn size(mm: &LiveMm, mapping: u32) -> u64 {
    mm.mappings[mapping as usize].size.load(SeqCst)
}

/// Returns the number of pages of a file of `size` bytes, at most 2^32 - 1.
pub(crate) fn pages_of(size: u64) -> u32 {
    size.div_ceil(PAGE as u64).min(u64::from(u32::MAX)) as u32
}

/// Splits a range that [`check_range`] accepts into pages. Returns for each its index, and the
/// first byte and the byte behind the last within the page.
fn pages(pos: u64, len: u64) -> impl Iterator<Item = (u32, usize, usize)> {
    let end = pos + len;
    let first = pos / PAGE as u64;
    let behind = if len == 0 {
        first
    } else {
        end.div_ceil(PAGE as u64)
    };
    (first..behind).map(move |i| {
        let base = i * PAGE as u64;
        let from = pos.max(base) - base;
        let to = end.min(base + PAGE as u64) - base;
        (page_number(i), from as usize, to as usize)
    })
}

/// Returns the number of a page of a range that [`check_range`] accepts.
fn page_number(index: u64) -> u32 {
    u32::try_from(index).expect("a range that was checked")
}

/// Returns an error if the range of `len` bytes from `pos` on ends behind the largest file.
fn check_range(pos: u64, len: usize) -> Result<(), Error> {
    match pos.checked_add(len as u64) {
        Some(end) if end <= MOST_BYTES => Ok(()),
        _ => Err(Error::TooLarge),
    }
}

/// Fills one locked page, which has index `index` in its file, from the device, as [`io::fill`]
/// does.
pub(crate) async fn fill_one<'a>(
    mm: &'a LiveMm,
    index: u32,
    page: Locked<'a>,
) -> Result<Locked<'a>, Error> {
    let mapping = mm.frames.mapping(page.pfn());
    let (mut pages, result) = io::fill(mm, mapping, index, vec![page]).await;
    result.map(|()| pages.swap_remove(0)).map_err(Error::Io)
}

/// Reads from `pos` into `buf`, at most to the end of the page at `pos`, and reads the page in if
/// it is missing. Returns the number of bytes. `behind`: bytes that the caller wants after these.
pub(crate) async fn read_page(
    mm: &LiveMm,
    mapping: u32,
    ahead: &Ahead,
    (pos, behind): (u64, usize),
    buf: &mut [u8],
) -> Result<usize, Error> {
    // The size is tested again once the page is locked: the file may be truncated meanwhile.
    if end_of(mm, mapping, pos).is_none() {
        return Ok(0);
    }
    let (index, from) = (pos / PAGE as u64, pos as usize % PAGE);
    let Some(index) = u32::try_from(index).ok().filter(|&i| i < u32::MAX) else {
        return Err(Error::TooLarge);
    };
    let wanted = (from + buf.len() + behind).div_ceil(PAGE).min(1 << 16) as u32;
    let page = ahead::page(mm, mapping, ahead, (index, wanted)).await?;
    let Some(end) = end_of(mm, mapping, pos) else {
        return Ok(0);
    };
    let n = (PAGE - from).min(buf.len());
    let n = (end - pos).min(n as u64) as usize;
    buf[..n].copy_from_slice(&page.bytes()[from..from + n]);
    mm.mark_page_accessed(page.pfn(), TrackPath::BufferedRead);
    Ok(n)
}

/// Reads from byte `pos` into `buf`; returns the number of bytes, fewer at the file's end. Cached
/// pages are pinned and copied without a lock. `missing` is called with position, bytes wanted
/// behind it and buffer for each page that is not cached, and returns the bytes that it read (0:
/// the read ends here); `mark` with each cached page that was copied.
pub(crate) fn read(
    mm: &LiveMm,
    mapping: u32,
    pos: u64,
    buf: &mut [u8],
    mut missing: impl FnMut(u64, usize, &mut [u8]) -> Result<usize, Error>,
    mark: impl Fn(&Pinned<'_>) -> Result<(), Error>,
) -> Result<usize, Error> {
    let mut done = 0;
    while done < buf.len() {
        let Some(at) = pos.checked_add(done as u64) else {
            break;
        };
        let (index, from) = (at / PAGE as u64, at as usize % PAGE);
        let most = (PAGE - from).min(buf.len() - done);
        let to = &mut buf[done..done + most];
        let found = u32::try_from(index).ok();
        let n = match found.and_then(|i| Pinned::try_take(mm, mapping, i)) {
            Some(page) => {
                let Some(end) = end_of(mm, mapping, at) else {
                    break;
                };
                let n = (end - at).min(most as u64) as usize;
                to[..n].copy_from_slice(&page.bytes()[from..from + n]);
                mark(&page)?;
                n
            }
            None => {
                let behind = buf.len() - done - most;
                match missing(at, behind, &mut buf[done..done + most]) {
                    Ok(0) => break,
                    Ok(n) => n,
                    Err(Error::TooLarge) if done > 0 => break,
                    Err(e) => return Err(e),
                }
            }
        };
        done += n;
    }
    Ok(done)
}

/// Bytes that a task copies before it lets other tasks run.
const STRETCH: usize = 64 * PAGE;

/// Reads from byte `pos` into `buf` as [`read`] does, but in a task that may wait for pages;
/// continues after `done` bytes of `buf`. Returns the number of bytes, those done before included.
pub(crate) async fn read_on(
    mm: &LiveMm,
    mapping: u32,
    ahead: &Ahead,
    (pos, mut done): (u64, usize),
    buf: &mut [u8],
) -> Result<usize, Error> {
    while done < buf.len() {
        let end = buf.len().min(done + STRETCH);
        let (at, behind) = (pos.saturating_add(done as u64), buf.len() - end);
        let mut missed = None;
        let missing = |at, more, to: &mut [u8]| {
            missed = Some((at, more + behind, to.len()));
            Ok(0)
        };
        let mark = |page: &Pinned<'_>| {
            mm.mark_page_accessed(page.pfn(), TrackPath::BufferedRead);
            Ok(())
        };
        let n = read(mm, mapping, at, &mut buf[done..end], missing, mark)?;
        done += n;
        if let Some((at, behind, len)) = missed {
            let to = &mut buf[done..done + len];
            match read_page(mm, mapping, ahead, (at, behind), to).await {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(Error::TooLarge) if done > 0 => break,
                Err(e) => return Err(e),
            }
        } else if done < end {
            break;
        }
        mm.world.relax().await;
    }
    Ok(done)
}

/// Reads the page at an index of a file in, if it is missing, and pins it. Fails if the file has no
/// such page.
pub(crate) async fn pin<'a>(
    mm: &'a LiveMm,
    mapping: u32,
    ahead: &Ahead,
    index: u32,
) -> Result<Pinned<'a>, Error> {
    reaches(mm, mapping, index)?;
    let mut page = loop {
        let page = ahead::page(mm, mapping, ahead, (index, 1)).await?;
        if let Some(page) = page.open().await {
            break page;
        }
    };
    let pinned = page.pin();
    // Tested after the pin: a truncation waits for the pin, or we see the new end.
    reaches(mm, mapping, index)?;
    mm.mark_page_accessed(page.pfn(), TrackPath::BufferedRead);
    Ok(pinned)
}

/// Returns the page at an index of a file, locked and dirty, to be changed, together with the right
/// to change the file (its share of the file's lock against truncation). The task is throttled at
/// the dirty limits first. Fails if earlier data cannot be written, or if the cache ends.
pub(crate) async fn pin_mut<'a>(
    mm: &'a LiveMm,
    file: &'a OpenFile,
    ahead: &Ahead,
    index: u32,
) -> Result<(Locked<'a>, Share<'a>), Error> {
    let mapping = file.mapping;
    if let Some(errno) = file.failing().or_else(|| mm.world.refuses_writes()) {
        return Err(Error::Refused(errno));
    }
    hold_back(mm, mapping).await;
    let share = Share::hold(mm, file).await;
    reaches(mm, mapping, index)?;
    let mut turn = Turn::new(mm);
    let page = loop {
        let mut page = ahead::page(mm, mapping, ahead, (index, 1)).await?;
        page.settled().await;
        if let Some(page) = page.unpinned(&mut turn).await {
            break page;
        }
        if mm.world.is_closing() {
            return Err(Error::Closed);
        }
    };
    mm.set_page_dirty(page.pfn(), TrackPath::BufferedWrite);
    mm.mark_page_accessed(page.pfn(), TrackPath::BufferedWrite);
    Ok((page, share))
}

/// Returns an error unless the file reaches the page at `index`.
fn reaches(mm: &LiveMm, mapping: u32, index: u32) -> Result<(), Error> {
    match index < pages_of(size(mm, mapping)) {
        true => Ok(()),
        false => Err(Error::BehindEnd),
    }
}

/// Returns the file's size if it is above `at`.
fn end_of(mm: &LiveMm, mapping: u32, at: u64) -> Option<u64> {
    Some(size(mm, mapping)).filter(|&end| end > at)
}

/// Counts a page that the task dirties, and throttles the task at the dirty limits. A wait is
/// recorded as [`Kind::Throttle`].
async fn hold_back(mm: &LiveMm, mapping: u32) {
    if mm.note_dirtied(mapping) {
        let (begun, left) = (sync::now(), cpu::times_left());
        mm.balance_now(mapping).await;
        if cpu::times_left() != left {
            mm.world.clocks.since(Kind::Throttle, begun);
        }
    }
}

/// Writes `buf` from byte `pos` of a file on, page by page; the task is throttled at the dirty
/// limits. Fails if earlier data cannot be written, and otherwise after the pages before the one
/// that failed.
pub(crate) async fn write(mm: &LiveMm, mapping: u32, pos: u64, buf: &[u8]) -> Result<(), Error> {
    check_range(pos, buf.len())?;
    if buf.is_empty() {
        return Ok(());
    }
    let file = mm.world.file(mapping);
    if let Some(errno) = file.failing().or_else(|| mm.world.refuses_writes()) {
        return Err(Error::Refused(errno));
    }
    let mut done = 0;
    for (index, from, to) in pages(pos, buf.len() as u64) {
        {
            let _share = Share::take(mm, &file).await;
            write_page(mm, mapping, index, from, &buf[done..done + to - from]).await?;
        }
        done += to - from;
        hold_back(mm, mapping).await;
        mm.world.relax().await;
    }
    Ok(())
}

/// Returns the cached page at an index, locked, once it may be changed: not under writeback, unless
/// from a copy, and not pinned. `None`: not cached. When the cache ends this fails and does not
/// wait for pins.
async fn find_to_change(
    mm: &LiveMm,
    mapping: u32,
    index: u32,
) -> Result<Option<Locked<'_>>, Error> {
    let mut turn = Turn::new(mm);
    loop {
        let Some(mut page) = Locked::find(mm, mapping, index).await? else {
            return Ok(None);
        };
        page.settled().await;
        if let Some(page) = page.unpinned(&mut turn).await {
            return Ok(Some(page));
        }
        if mm.world.is_closing() {
            return Err(Error::Closed);
        }
    }
}

/// Writes `bytes` into one page, from byte `from` of the page on, and extends the file if needed. A
/// missing page is read first, unless it is written as a whole.
async fn write_page(
    mm: &LiveMm,
    mapping: u32,
    index: u32,
    from: usize,
    bytes: &[u8],
) -> Result<(), Error> {
    let page = loop {
        if let Some(page) = find_to_change(mm, mapping, index).await? {
            break page;
        }
        let gfp = asked(mm, mapping, Gfp::USER_WRITE);
        if let Some(page) = Locked::insert(mm, mapping, index, gfp).await? {
            break page;
        }
    };
    let mut page = page;
    if bytes.len() < PAGE && !page.has(flag::UPTODATE) {
        page = fill_one(mm, index, page).await?;
    }
    page.bytes_mut()[from..from + bytes.len()].copy_from_slice(bytes);
    let end = u64::from(index) * PAGE as u64 + (from + bytes.len()) as u64;
    mm.mappings[mapping as usize].size.fetch_max(end, SeqCst);
    mm.frames.set_flags(page.pfn(), flag::UPTODATE);
    mm.set_page_dirty(page.pfn(), TrackPath::BufferedWrite);
    mm.mark_page_accessed(page.pfn(), TrackPath::BufferedWrite);
    Ok(())
}

/// Makes the file's pages whose write failed, and which are kept, dirty again.
async fn retry(mm: &LiveMm, file: &OpenFile) {
    for index in file.kept() {
        if let Ok(Some(page)) = Locked::find(mm, file.mapping, index).await {
            mm.wait_on_page_writeback(page.pfn()).await;
            if page.has(flag::ERROR) {
                // Dirty first: a page with neither bit may be reclaimed.
                mm.set_page_dirty(page.pfn(), TrackPath::BufferedWrite);
                mm.frames.clear_flags(page.pfn(), flag::ERROR);
                file.forget_kept(&mm.world, std::iter::once(index));
            }
        }
        mm.world.relax().await;
    }
}

/// Writes the file's dirty pages, and those whose write failed before, to the system and waits for
/// that. Errors are recorded in the file's error sequence.
pub(crate) async fn write_back(mm: &LiveMm, file: &OpenFile) {
    retry(mm, file).await;
    mm.sync_mapping(file.mapping).await;
    file.settle();
}

/// Writes a file's dirty pages and waits until the device has them. Returns the newest error that
/// `cursor` (of a handle) has not been told of; [`Error::Held`] as [`to_device`].
pub(crate) async fn fsync(mm: &LiveMm, mapping: u32, cursor: &Cursor) -> Result<(), Error> {
    let held = to_device(mm, mapping).await;
    mm.world.file(mapping).errors.check(cursor).and(held)
}

/// Writes a file's dirty pages and waits until the device has them, as [`fsync`] does; errors of
/// writes are only recorded in the file's error sequence. Fails with [`Error::Held`] if the cache
/// ends and a page that the program holds was not written.
pub(crate) async fn to_device(mm: &LiveMm, mapping: u32) -> Result<(), Error> {
    let file = mm.world.file(mapping);
    write_back(mm, &file).await;
    let skipped = mm.world.is_closing()
        && mm.world.pages_to_change.load(SeqCst) > 0
        && mm.mapping_tagged(mapping, Tag::Dirty);
    let to_sync = Arc::clone(&file);
    if let Err(e) = blocking::run(mm, file.bdi, move || to_sync.sync()).await {
        // The system reports the error once, and holds the pages that it could not write for clean
        // now.
        file.errors.record(e, Fate::Lost);
    }
    match skipped {
        true => Err(Error::Held),
        false => Ok(()),
    }
}

/// Truncates or extends a file to `len` bytes. If the system refuses, nothing has changed.
pub(crate) async fn truncate(mm: &LiveMm, mapping: u32, len: u64) -> Result<(), Error> {
    check_range(len, 0)?;
    let file = mm.world.file(mapping);
    let _cut = Cut::take(mm, &file).await?;
    let m = &mm.mappings[mapping as usize];
    // Writeback that uses the old size would bring back what is cut off.
    let dup = Arc::clone(&file);
    let cut = file.move_end(mm, async {
        blocking::run(mm, file.bdi, move || dup.truncate(len)).await?;
        let shorter = len < m.size.load(SeqCst);
        m.size.store(len, SeqCst);
        Ok(shorter)
    });
    if !cut.await.map_err(Error::Io)? {
        return Ok(());
    }
    let first = page_number(len.div_ceil(PAGE as u64));
    // An error means that the cache ends; nobody will read the file's cached pages again.
    if leave_behind(mm, mapping, len, first).await.is_ok() {
        // A page entered by a reader before the truncation stays locked by the reader until it is
        // filled.
        mm.truncate_from(mapping, first).await;
    }
    file.forget_kept_from(&mm.world, first);
    Ok(())
}

/// Clears the bytes behind a file's new end `len` in its last page, and waits until the pages
/// behind that, from index `first` on, are not pinned. Fails if the cache ends.
async fn leave_behind(mm: &LiveMm, mapping: u32, len: u64, first: u32) -> Result<(), Error> {
    let (index, rest) = (page_number(len / PAGE as u64), len as usize % PAGE);
    if rest > 0 {
        // These bytes must read as zero if the file grows again.
        if let Some(mut page) = find_to_change(mm, mapping, index).await? {
            page.bytes_mut()[rest..].fill(0);
        }
    }
    // A task that pins a page from here on sees the new end.
    let mut from = first;
    while let Some((index, pfn)) = mm.first_page_from(mapping, from) {
        if arena::pins(mm, pfn) > 0 {
            find_to_change(mm, mapping, index).await?;
        }
        from = index + 1;
    }
    Ok(())
}

/// Returns the error for an allocation that failed: with the number of pinned and buffer pages, if
/// there are any, because these keep memory from reclaim.
pub(crate) fn out_of_memory(mm: &LiveMm) -> Error {
    let pinned = (0..mm.frames.len()).filter(|&pfn| arena::pins(mm, pfn) > 0);
    let pinned = pinned.count() as u32 + mm.world.pages_to_change.load(SeqCst);
    match (pinned, mm.world.buffer_pages.load(SeqCst)) {
        (0, 0) => Error::OutOfMemory,
        (pinned, buffers) => Error::TooManyPins {
            pinned,
            buffers,
            pages: pages_of_memory(mm),
        },
    }
}

/// Returns the number of pages of all classes.
pub(crate) fn pages_of_memory(mm: &LiveMm) -> u32 {
    mm.zones.iter().map(|z| z.size).sum()
}

/// Returns allocation flags `gfp` with the zone bits of the file's class of memory.
pub(crate) fn asked(mm: &LiveMm, mapping: u32, gfp: Gfp) -> Gfp {
    match mm.zones.len() {
        1 => gfp,
        classes => {
            let class = mm.world.file(mapping).class.load(SeqCst);
            class::asked(gfp, class as usize, classes)
        }
    }
}

/// Writes the dirty pages of a range of a file to the system, and waits for that; a length of 0
/// means up to the end. Fails if data of the file could not be written.
pub(crate) async fn flush(mm: &LiveMm, mapping: u32, pos: u64, len: u64) -> Result<(), Error> {
    let Some((first, last)) = page_range(mm, mapping, pos, len) else {
        return Ok(());
    };
    mm.sync_pages(mapping, first, last).await;
    match mm.world.file(mapping).failing() {
        Some(errno) => Err(Error::Io(errno)),
        None => Ok(()),
    }
}

/// Returns the first and the last page of a range, up to the file's end; a length of 0 means up to
/// the end. `None`: the range is empty.
pub(crate) fn page_range(mm: &LiveMm, mapping: u32, pos: u64, len: u64) -> Option<(u32, u32)> {
    let size = size(mm, mapping).min(MOST_BYTES);
    let end = match len {
        0 => size,
        len => pos.saturating_add(len).min(size),
    };
    let last = || page_number((end - 1) / PAGE as u64);
    (pos < end).then(|| (page_number(pos / PAGE as u64), last()))
}

/// Drops the clean pages between two indices of a file from the cache, except pinned ones and those
/// that another task has locked; returns how many.
pub(crate) async fn drop_pages(mm: &LiveMm, mapping: u32, pages: (u32, u32)) -> u64 {
    let may = |pfn| mm::world::Storage::release_page(&mm.world, mm, pfn);
    mm.invalidate_pages(mapping, pages, may).await
}

/// Drops all pages of a closed file from the cache, dirty ones as well, and forgets its pages whose
/// write failed.
pub(crate) async fn forget(mm: &LiveMm, file: &OpenFile) {
    mm.hold_inode(file.mapping).await;
    mm.truncate_from(file.mapping, 0).await;
    mm.release_inode(file.mapping);
    file.forget_kept_from(&mm.world, 0);
}
