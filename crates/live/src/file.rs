//! Files: reading and writing through the page cache.

use crate::LiveMm;
use crate::ahead::{self, Ahead};
use crate::arena::{self, Locked, OutOfMemory, PAGE, Pinned};
use crate::blocking;
use crate::class;
use crate::cpu;
use crate::errseq::{Cursor, Fate};
use crate::io;
use crate::latency::Kind;
use crate::open_file::{Cut, OpenFile, Share};
use crate::sync;
use mm::memory::frame::flag;
use mm::memory::gfp::Gfp;
use mm::world::Tasks;
use mm::world::event::TrackPath;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// The longest file whose every page has a number: 2^32 - 1 pages.
pub(crate) const MOST_BYTES: u64 = u32::MAX as u64 * PAGE as u64;

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The operating system said so. From [`crate::File::fsync`]: what was written before is still
    /// in the cache, and the next sync tries again.
    #[error("{0}")]
    Io(Errno),
    /// Data that was written since the last sync that succeeded may be lost: the device did not
    /// confirm it, or too much of it could not be written. Write it again.
    #[error("data could not be written and is lost: {0}")]
    Lost(Errno),
    /// Earlier data could not be written, for this reason: writes are refused until a sync of that
    /// data succeeds.
    #[error("writes are refused until earlier data is written, which failed: {0}")]
    Refused(Errno),
    /// Nothing could be reclaimed.
    #[error("out of memory")]
    OutOfMemory,
    /// Nothing could be reclaimed, and this is why, or part of it.
    #[error(
        "out of memory: {pinned} of the cache's {pages} pages are pinned and {buffers} are buffers; let some \
         go, or give it more memory"
    )]
    TooManyPins {
        /// Pages that are pinned.
        pinned: u32,
        /// Pages of [`crate::Buffer`]s.
        buffers: u32,
        /// Pages of memory.
        pages: u32,
    },
    /// There is no such class of memory.
    #[error("class {class}: accepted are 0 to {} in this cache", classes - 1)]
    NoClass {
        /// What was asked for.
        class: usize,
        /// How many there are.
        classes: usize,
    },
    /// No buffer has so many bytes.
    #[error("a buffer of {0} bytes: accepted are 1 to 32768")]
    BufferSize(usize),
    /// As many shrinkers are registered as may be.
    #[error("too many shrinkers")]
    TooManyShrinkers,
    /// A shrinker called the cache that asks it.
    #[error("a shrinker may not call the cache that asks it")]
    InShrinker,
    /// The file has no such page.
    #[error("the page lies behind the file's end")]
    BehindEnd,
    /// The range ends behind the largest file, 2^32 - 1 pages.
    #[error("the file would be larger than 16 TiB")]
    TooLarge,
    /// It is something else, as named, or lies on a filesystem that makes files up.
    #[error("not a regular file but {0}")]
    NotRegular(&'static str),
    /// As many files are open as the cache was built for.
    #[error("too many files")]
    TooManyFiles,
    /// As many threads use the cache as it was built for, or the thread is about to end.
    #[error("too many threads")]
    TooManyThreads,
    /// The cache was shut down.
    #[error("the cache was shut down")]
    Closed,
    /// A cache cannot be built like that.
    #[error("{0}")]
    Config(String),
}

impl From<OutOfMemory> for Error {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

pub(crate) fn size(mm: &LiveMm, mapping: u32) -> u64 {
    mm.mappings[mapping as usize].size.load(SeqCst)
}

/// Pages of a file of so many bytes, as far as they have numbers.
pub(crate) fn pages_of(size: u64) -> u32 {
    size.div_ceil(PAGE as u64).min(u64::from(u32::MAX)) as u32
}

/// The pages of a range that [`check_range`] accepts: index, first byte and byte behind the last in
/// the page.
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

/// The number of a page of a range that [`check_range`] accepts.
fn page_number(index: u64) -> u32 {
    u32::try_from(index).expect("a range that was checked")
}

fn check_range(pos: u64, len: usize) -> Result<(), Error> {
    match pos.checked_add(len as u64) {
        Some(end) if end <= MOST_BYTES => Ok(()),
        _ => Err(Error::TooLarge),
    }
}

/// As [`io::fill`] for one page.
pub(crate) async fn fill_one<'a>(
    mm: &'a LiveMm,
    index: u32,
    page: Locked<'a>,
) -> Result<Locked<'a>, Error> {
    let mapping = mm.frames.mapping(page.pfn());
    let (mut pages, result) = io::fill(mm, mapping, index, vec![page]).await;
    result.map(|()| pages.swap_remove(0)).map_err(Error::Io)
}

/// Reads into `buf` from `pos` on as far as the page at `pos` reaches; returns how many bytes there
/// were. `behind`: bytes that the caller wants after these.
pub(crate) async fn read_page(
    mm: &LiveMm,
    mapping: u32,
    ahead: &Ahead,
    (pos, behind): (u64, usize),
    buf: &mut [u8],
) -> Result<usize, Error> {
    // Where the file ends is asked again when we have the page: it may be cut.
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

/// Reads into `buf` from `pos` on; returns how many bytes there were. What is cached is read beside
/// others, without a lock; `missing` brings the rest in, page by page.
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

/// Bytes that a task copies before it asks whether others are to go first.
const STRETCH: usize = 64 * PAGE;

/// As [`read`], for a task: reads on from where `done` bytes were read.
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

/// A page of a file, pinned, that was not at hand.
pub(crate) async fn pin<'a>(
    mm: &'a LiveMm,
    mapping: u32,
    ahead: &Ahead,
    index: u32,
) -> Result<Pinned<'a>, Error> {
    reaches(mm, mapping, index)?;
    let mut page = ahead::page(mm, mapping, ahead, (index, 1)).await?;
    let pinned = page.pin();
    // Asked after it is pinned: who cuts the file waits for us, or we see the new end.
    reaches(mm, mapping, index)?;
    mm.mark_page_accessed(page.pfn(), TrackPath::BufferedRead);
    Ok(pinned)
}

/// A page of a file to change, with the right to change the file; the task is held to the dirty
/// limits first.
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
    let share = Share::take(mm, file).await;
    reaches(mm, mapping, index)?;
    let page = loop {
        let mut page = ahead::page(mm, mapping, ahead, (index, 1)).await?;
        page.settled().await;
        if let Some(page) = page.alone().await {
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

/// Whether a file has a page.
fn reaches(mm: &LiveMm, mapping: u32, index: u32) -> Result<(), Error> {
    match index < pages_of(size(mm, mapping)) {
        true => Ok(()),
        false => Err(Error::BehindEnd),
    }
}

/// Where a file ends, if that is behind `at`.
fn end_of(mm: &LiveMm, mapping: u32, at: u64) -> Option<u64> {
    Some(size(mm, mapping)).filter(|&end| end > at)
}

/// Holds a task that has made a page dirty to the dirty limits. If it has to wait, that is timed.
async fn hold_back(mm: &LiveMm, mapping: u32) {
    if mm.note_dirtied(mapping) {
        let (begun, left) = (sync::now(), cpu::times_left());
        mm.balance_now(mapping).await;
        if cpu::times_left() != left {
            mm.world.clocks.since(Kind::Throttle, begun);
        }
    }
}

/// Writes `buf` from `pos` on, page by page; the task is held to the dirty limits.
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

/// A cached page whose bytes nobody reads: neither the I/O nor those who pinned it. They are not waited
/// for when the cache ends.
async fn find_to_change(
    mm: &LiveMm,
    mapping: u32,
    index: u32,
) -> Result<Option<Locked<'_>>, Error> {
    loop {
        let Some(mut page) = Locked::find(mm, mapping, index).await else {
            return Ok(None);
        };
        page.settled().await;
        if let Some(page) = page.alone().await {
            return Ok(Some(page));
        }
        if mm.world.is_closing() {
            return Err(Error::Closed);
        }
    }
}

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

/// Pages whose write failed are dirty again.
async fn retry(mm: &LiveMm, file: &OpenFile) {
    for index in file.kept() {
        if let Some(page) = Locked::find(mm, file.mapping, index).await {
            mm.wait_on_page_writeback(page.pfn()).await;
            if page.has(flag::ERROR) {
                // First: a page with neither bit may leave its file.
                mm.set_page_dirty(page.pfn(), TrackPath::BufferedWrite);
                mm.frames.clear_flags(page.pfn(), flag::ERROR);
                file.forget_kept(&mm.world, std::iter::once(index));
            }
        }
        mm.world.relax().await;
    }
}

/// Hands what is dirty, and what could not be written before, to the system. What goes wrong stands
/// in the file's errors.
pub(crate) async fn write_back(mm: &LiveMm, file: &OpenFile) {
    retry(mm, file).await;
    mm.sync_mapping(file.mapping).await;
    file.settle();
}

/// As [`write_back`], and waits until the device has it. Who has the cursor is told what went wrong.
pub(crate) async fn fsync(mm: &LiveMm, mapping: u32, cursor: &Cursor) -> Result<(), Error> {
    to_device(mm, mapping).await;
    mm.world.file(mapping).errors.check(cursor)
}

/// As [`fsync`], of which nobody is told yet.
pub(crate) async fn to_device(mm: &LiveMm, mapping: u32) {
    let file = mm.world.file(mapping);
    write_back(mm, &file).await;
    let its = Arc::clone(&file);
    if let Err(e) = blocking::run(mm, file.bdi, move || its.sync()).await {
        // The system told us once; it holds the pages that it could not write for clean now.
        file.errors.record(e, Fate::Lost);
    }
}

/// Cuts or extends a file to `len` bytes. If the system refuses, nothing has changed.
pub(crate) async fn truncate(mm: &LiveMm, mapping: u32, len: u64) -> Result<(), Error> {
    check_range(len, 0)?;
    let file = mm.world.file(mapping);
    let _cut = Cut::take(mm, &file).await;
    let m = &mm.mappings[mapping as usize];
    // Writeback that knew the old end would bring back what is cut.
    let its = Arc::clone(&file);
    let cut = file.move_end(mm, async {
        blocking::run(mm, file.bdi, move || its.truncate(len)).await?;
        let shorter = len < m.size.load(SeqCst);
        m.size.store(len, SeqCst);
        Ok(shorter)
    });
    if !cut.await.map_err(Error::Io)? {
        return Ok(());
    }
    let first = page_number(len.div_ceil(PAGE as u64));
    // If it fails the cache ends, and what is cached of the file was seen last.
    if leave_behind(mm, mapping, len, first).await.is_ok() {
        // A page that a reader entered before the cut, he has locked until it is filled.
        mm.truncate_from(mapping, first).await;
    }
    file.forget_kept_from(&mm.world, first);
    Ok(())
}

/// Clears what lies behind a file's new end in its last page, and waits until nobody has pinned pages
/// behind that.
async fn leave_behind(mm: &LiveMm, mapping: u32, len: u64, first: u32) -> Result<(), Error> {
    let (index, rest) = (page_number(len / PAGE as u64), len as usize % PAGE);
    if rest > 0 {
        // What lies behind the new end must read as zero if the file grows again.
        if let Some(mut page) = find_to_change(mm, mapping, index).await? {
            page.bytes_mut()[rest..].fill(0);
        }
    }
    // Whoever pins a page from here on sees the new end.
    let mut from = first;
    while let Some((index, pfn)) = mm.first_page_from(mapping, from) {
        if arena::pins(mm, pfn) > 0 {
            find_to_change(mm, mapping, index).await?;
        }
        from = index + 1;
    }
    Ok(())
}

/// Why there is no memory.
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

/// Pages of all classes.
pub(crate) fn pages_of_memory(mm: &LiveMm) -> u32 {
    mm.zones.iter().map(|z| z.size).sum()
}

/// What is asked of the engine for a page of a file, by its class.
pub(crate) fn asked(mm: &LiveMm, mapping: u32, gfp: Gfp) -> Gfp {
    match mm.zones.len() {
        1 => gfp,
        classes => {
            let class = mm.world.file(mapping).class.load(SeqCst);
            class::asked(gfp, class as usize, classes)
        }
    }
}

/// Hands what is dirty of some pages to the system, and waits for that.
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

/// The first and the last page of a range, as far as the file reaches; a length of 0 means its end.
pub(crate) fn page_range(mm: &LiveMm, mapping: u32, pos: u64, len: u64) -> Option<(u32, u32)> {
    let size = size(mm, mapping).min(MOST_BYTES);
    let end = match len {
        0 => size,
        len => pos.saturating_add(len).min(size),
    };
    let last = || page_number((end - 1) / PAGE as u64);
    (pos < end).then(|| (page_number(pos / PAGE as u64), last()))
}

/// Takes the clean pages of a range out of the cache, but for those that somebody holds; returns how
/// many.
pub(crate) async fn drop_pages(mm: &LiveMm, mapping: u32, pages: (u32, u32)) -> u64 {
    let may = |pfn| mm::world::Storage::release_page(&mm.world, mm, pfn);
    mm.invalidate_pages(mapping, pages, may).await
}

/// Takes everything of a file that nobody has open out of the cache, dirty pages too.
pub(crate) async fn forget(mm: &LiveMm, file: &OpenFile) {
    mm.hold_inode(file.mapping).await;
    mm.truncate_from(file.mapping, 0).await;
    mm.release_inode(file.mapping);
    file.forget_kept_from(&mm.world, 0);
}
