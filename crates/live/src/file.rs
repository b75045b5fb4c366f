//! Files: reading and writing through the page cache.

use crate::LiveMm;
use crate::arena::{Locked, OutOfMemory, PAGE};
use crate::errseq::{Cursor, Fate};
use crate::open_file::{Cut, OpenFile, Share};
use crate::world::BATCH;
use mm::memory::frame::flag;
use mm::memory::gfp::Gfp;
use mm::watch::vmstat::VmEvent;
use mm::world::Tasks;
use mm::world::event::TrackPath;
use rustix::io::Errno;
use std::io::IoSliceMut;
use std::sync::atomic::Ordering::SeqCst;

/// Pages that one miss brings in at most.
const READ_AHEAD: u32 = BATCH;
/// And at most this part of memory: pages that are being read are locked, and nobody reclaims them.
const READ_AHEAD_SHARE: u32 = 64;
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

/// Fills locked pages, contiguous from `first` on, from their file; what lies behind its end is
/// zero. On failure none of them is valid.
fn fill(mm: &LiveMm, mapping: u32, first: u32, pages: &mut [Locked<'_>]) -> Result<(), Error> {
    let file = mm.world.file(mapping);
    let start = u64::from(first) * PAGE as u64;
    let valid = size(mm, mapping).saturating_sub(start);
    let valid = valid.min((pages.len() * PAGE) as u64) as usize;
    let mut bytes: Vec<&mut [u8; PAGE]> = pages.iter_mut().map(Locked::bytes_mut).collect();
    let done = mm.world.cpus.off(|| {
        let mut done = 0;
        while done < valid {
            let mut parts: Vec<IoSliceMut<'_>> = bytes
                .iter_mut()
                .enumerate()
                .filter_map(|(i, p)| {
                    let from = done.saturating_sub(i * PAGE);
                    let to = valid.saturating_sub(i * PAGE).min(PAGE);
                    (from < to).then(|| IoSliceMut::new(&mut p[from..to]))
                })
                .collect();
            match file.read(&mut parts, start + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(e) => return Err(Error::Io(e)),
            }
        }
        Ok(done)
    })?;
    for (i, p) in bytes.iter_mut().enumerate() {
        p[done.saturating_sub(i * PAGE).min(PAGE)..].fill(0);
    }
    mm.count_event(VmEvent::PgpgIn, done.div_ceil(1024) as u64);
    for p in pages.iter() {
        mm.frames.set_flags(p.pfn(), flag::UPTODATE);
    }
    Ok(())
}

/// A page of a file, locked and valid; a miss brings its followers in as well, up to `last`.
async fn page_to_read(
    mm: &LiveMm,
    mapping: u32,
    index: u32,
    last: u32,
) -> Result<Locked<'_>, Error> {
    loop {
        if let Some(page) = Locked::find(mm, mapping, index).await {
            let mut page = [page];
            if !page[0].has(flag::UPTODATE) {
                fill(mm, mapping, index, &mut page)?;
            }
            let [page] = page;
            return Ok(page);
        }
        let most = (mm.zones[0].size / READ_AHEAD_SHARE).clamp(1, READ_AHEAD);
        let most = last.saturating_sub(index).saturating_add(1).min(most);
        let mut fresh = Vec::with_capacity(most as usize);
        for i in 0..most {
            // Only the first page is needed; for the others nobody goes to the end of his means.
            let gfp = match i {
                0 => Gfp::USER,
                _ => Gfp::USER.or(Gfp::NORETRY),
            };
            match Locked::insert(mm, mapping, index + i, gfp).await {
                Ok(Some(page)) => fresh.push(page),
                Ok(None) => break,
                Err(e) if fresh.is_empty() => return Err(e.into()),
                Err(_) => break,
            }
        }
        if !fresh.is_empty() {
            if let Err(e) = fill(mm, mapping, index, &mut fresh) {
                if fresh.len() == 1 {
                    return Err(e);
                }
                // It may be a page behind, for which nobody has asked.
                fresh.truncate(1);
                fill(mm, mapping, index, &mut fresh)?;
            }
            return Ok(fresh.swap_remove(0));
        }
    }
}

/// Reads into `buf` from `pos` on; returns how many bytes there were.
pub(crate) async fn read(
    mm: &LiveMm,
    mapping: u32,
    pos: u64,
    buf: &mut [u8],
) -> Result<usize, Error> {
    let mut done = 0;
    while done < buf.len() {
        // Where the file ends is asked for every page, and again when we have it: it may be cut.
        let Some(end) = end_of(mm, mapping, pos, done) else {
            break;
        };
        let at = pos + done as u64;
        let (index, from) = (at / PAGE as u64, at as usize % PAGE);
        let Some(index) = u32::try_from(index).ok().filter(|&i| i < u32::MAX) else {
            return if done > 0 {
                Ok(done)
            } else {
                Err(Error::TooLarge)
            };
        };
        let last = ((end - 1) / PAGE as u64).min(u64::from(u32::MAX - 1)) as u32;
        let page = page_to_read(mm, mapping, index, last).await?;
        let Some(end) = end_of(mm, mapping, pos, done) else {
            break;
        };
        let n = (PAGE - from).min(buf.len() - done);
        let n = (end - at).min(n as u64) as usize;
        buf[done..done + n].copy_from_slice(&page.bytes()[from..from + n]);
        mm.mark_page_accessed(page.pfn(), TrackPath::BufferedRead);
        drop(page);
        done += n;
        mm.world.relax().await;
    }
    Ok(done)
}

/// Where a file ends, if that is behind `pos + done`.
fn end_of(mm: &LiveMm, mapping: u32, pos: u64, done: usize) -> Option<u64> {
    let at = pos.checked_add(done as u64)?;
    Some(size(mm, mapping)).filter(|&end| end > at)
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
        mm.balance_dirty_pages_ratelimited(mapping).await;
        mm.world.relax().await;
    }
    Ok(())
}

async fn write_page(
    mm: &LiveMm,
    mapping: u32,
    index: u32,
    from: usize,
    bytes: &[u8],
) -> Result<(), Error> {
    let page = loop {
        if let Some(page) = Locked::find(mm, mapping, index).await {
            break page;
        }
        if let Some(page) = Locked::insert(mm, mapping, index, Gfp::USER_WRITE).await? {
            break page;
        }
    };
    // The I/O reads the bytes: they stay as they are until it ends.
    mm.wait_on_page_writeback(page.pfn()).await;
    let mut page = [page];
    if bytes.len() < PAGE && !page[0].has(flag::UPTODATE) {
        fill(mm, mapping, index, &mut page)?;
    }
    let [mut page] = page;
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
    let file = mm.world.file(mapping);
    write_back(mm, &file).await;
    if let Err(e) = mm.world.cpus.off(|| file.sync()) {
        // The system told us once; it holds the pages that it could not write for clean now.
        file.errors.record(e, Fate::Lost);
    }
    file.errors.check(cursor)
}

/// Cuts or extends a file to `len` bytes. If the system refuses, nothing has changed.
pub(crate) async fn truncate(mm: &LiveMm, mapping: u32, len: u64) -> Result<(), Error> {
    check_range(len, 0)?;
    let file = mm.world.file(mapping);
    let _cut = Cut::take(mm, &file).await;
    let m = &mm.mappings[mapping as usize];
    let cut = mm.world.cpus.off(|| {
        // Writeback that knew the old end would bring back what is cut.
        let _alone = file.end.write();
        file.truncate(len)?;
        let shorter = len < m.size.load(SeqCst);
        m.size.store(len, SeqCst);
        Ok(shorter)
    });
    if !cut.map_err(Error::Io)? {
        return Ok(());
    }
    let first = page_number(len.div_ceil(PAGE as u64));
    let (index, rest) = (page_number(len / PAGE as u64), len as usize % PAGE);
    if rest > 0 {
        // What lies behind the new end must read as zero if the file grows again.
        if let Some(mut page) = Locked::find(mm, mapping, index).await {
            mm.wait_on_page_writeback(page.pfn()).await;
            page.bytes_mut()[rest..].fill(0);
        }
    }
    // A page that a reader entered before the cut, he has locked until it is filled.
    mm.truncate_from(mapping, first).await;
    file.forget_kept_from(&mm.world, first);
    Ok(())
}

/// Takes everything of a file that nobody has open out of the cache, dirty pages too.
pub(crate) async fn forget(mm: &LiveMm, file: &OpenFile) {
    mm.hold_inode(file.mapping).await;
    mm.truncate_from(file.mapping, 0).await;
    mm.release_inode(file.mapping);
    file.forget_kept_from(&mm.world, 0);
}
