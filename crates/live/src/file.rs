//! Files: reading and writing through the page cache.

use crate::LiveMm;
use crate::arena::{Locked, OutOfMemory, PAGE};
use crate::sync::AtomicU32;
use crate::world::BATCH;
use mm::alloc::Gfp;
use mm::frame::flag;
use mm::trace::TrackPath;
use mm::vmstat::VmEvent;
use mm::world::World;
use rustix::io::{Errno, preadv};
use std::fs::File as OsFile;
use std::io::IoSliceMut;
use std::sync::atomic::Ordering::SeqCst;

/// Pages that one miss brings in at most.
const READ_AHEAD: u32 = BATCH;
/// And at most this part of memory: pages that are being read are locked, and nobody reclaims them.
const READ_AHEAD_SHARE: u32 = 64;
/// Bit of a file's sharers: somebody cuts the file, or waits to; no new sharer comes in.
const CUTTING: u32 = 1 << 31;

/// A failure that tests put into a file's writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Fault {
    /// Writes work.
    None,
    /// Writes fail with EIO.
    Io,
}

/// A file of the operating system behind a mapping.
pub struct OpenFile {
    pub(crate) file: OsFile,
    /// Writers at work on it, and [`CUTTING`].
    sharers: AtomicU32,
    fault: AtomicU32,
}

impl OpenFile {
    pub(crate) fn new(file: OsFile) -> Self {
        Self {
            file,
            sharers: AtomicU32::new(0),
            fault: AtomicU32::new(Fault::None as u32),
        }
    }

    pub(crate) fn set_fault(&self, fault: Fault) {
        self.fault.store(fault as u32, SeqCst);
    }

    pub(crate) fn write_fault(&self) -> Option<Errno> {
        (self.fault.load(SeqCst) == Fault::Io as u32).then_some(Errno::IO)
    }
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The operating system said so.
    #[error("{0}")]
    Io(Errno),
    /// An earlier write of the file's pages failed: their data is lost.
    #[error("data could not be written and is lost")]
    Lost,
    /// Nothing could be reclaimed.
    #[error("out of memory")]
    OutOfMemory,
    /// The range ends behind the largest file, 2^32 - 1 pages.
    #[error("the file would be larger than 16 TiB")]
    TooLarge,
    /// As many files are open as the cache was built for.
    #[error("too many files")]
    TooManyFiles,
    /// As many threads use the cache as it was built for.
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

/// A task's right to change a file's contents.
struct Share<'a> {
    mm: &'a LiveMm,
    mapping: u32,
}

/// A task's right to cut a file, while nobody has a [`Share`].
struct Cut<'a> {
    mm: &'a LiveMm,
    mapping: u32,
}

/// Waits until `try_it` succeeds, which a change of the file's sharers may bring about.
async fn until(mm: &LiveMm, mapping: u32, try_it: impl Fn(&AtomicU32) -> bool) {
    let (w, q) = (&mm.world, mm.world.file_queue(mapping));
    loop {
        let ticket = w.ticket(q);
        if try_it(&w.file(mapping).sharers) {
            return;
        }
        w.wait(q, ticket, None).await;
    }
}

impl<'a> Share<'a> {
    async fn take(mm: &'a LiveMm, mapping: u32) -> Self {
        until(mm, mapping, |sharers| {
            let join = |n| (n & CUTTING == 0).then_some(n + 1);
            sharers.fetch_update(SeqCst, SeqCst, join).is_ok()
        })
        .await;
        Self { mm, mapping }
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let w = &self.mm.world;
        if w.file(self.mapping).sharers.fetch_sub(1, SeqCst) == CUTTING + 1 {
            w.wake(w.file_queue(self.mapping));
        }
    }
}

impl<'a> Cut<'a> {
    async fn take(mm: &'a LiveMm, mapping: u32) -> Self {
        until(mm, mapping, |s| s.fetch_or(CUTTING, SeqCst) & CUTTING == 0).await;
        until(mm, mapping, |s| s.load(SeqCst) == CUTTING).await;
        Self { mm, mapping }
    }
}

impl Drop for Cut<'_> {
    fn drop(&mut self) {
        let w = &self.mm.world;
        w.file(self.mapping).sharers.fetch_and(!CUTTING, SeqCst);
        w.wake(w.file_queue(self.mapping));
    }
}

fn size(mm: &LiveMm, mapping: u32) -> u64 {
    mm.mappings[mapping as usize].size.load(SeqCst)
}

/// The pages of a range: index, first byte and byte behind the last in the page.
fn pages(pos: u64, len: u64) -> impl Iterator<Item = (u32, usize, usize)> {
    let end = pos + len;
    (pos / PAGE as u64..end.div_ceil(PAGE as u64)).map(move |i| {
        let base = i * PAGE as u64;
        let from = pos.max(base) - base;
        let to = end.min(base + PAGE as u64) - base;
        (i as u32, from as usize, to as usize)
    })
}

fn check_range(pos: u64, len: usize) -> Result<(), Error> {
    let most = u64::from(u32::MAX) * PAGE as u64;
    match pos.checked_add(len as u64) {
        Some(end) if end <= most => Ok(()),
        _ => Err(Error::TooLarge),
    }
}

/// Fills locked pages, contiguous from `first` on, from their file; what lies behind its end is
/// zero. On failure none of them is valid.
fn fill(mm: &LiveMm, mapping: u32, first: u32, pages: &mut [Locked<'_>]) -> Result<(), Error> {
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
            let at = start + done as u64;
            match preadv(&mm.world.file(mapping).file, &mut parts, at) {
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
        let most = (last - index).saturating_add(1).min(most);
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
            fill(mm, mapping, index, &mut fresh)?;
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
    let size = size(mm, mapping);
    let len = (buf.len() as u64).min(size.saturating_sub(pos));
    let mut done = 0;
    for (index, from, to) in pages(pos, len) {
        let last = ((size - 1) / PAGE as u64) as u32;
        let page = page_to_read(mm, mapping, index, last).await?;
        buf[done..done + to - from].copy_from_slice(&page.bytes()[from..to]);
        mm.mark_page_accessed(page.pfn(), TrackPath::BufferedRead);
        drop(page);
        done += to - from;
        mm.world.relax().await;
    }
    Ok(done)
}

/// Writes `buf` from `pos` on, page by page; the task is held to the dirty limits.
pub(crate) async fn write(mm: &LiveMm, mapping: u32, pos: u64, buf: &[u8]) -> Result<(), Error> {
    check_range(pos, buf.len())?;
    let mut done = 0;
    for (index, from, to) in pages(pos, buf.len() as u64) {
        {
            let _share = Share::take(mm, mapping).await;
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

/// Writes what is dirty and waits until the device has it.
pub(crate) async fn fsync(mm: &LiveMm, mapping: u32) -> Result<(), Error> {
    let written = mm.sync_mapping(mapping).await;
    let file = &mm.world.file(mapping).file;
    let synced = mm.world.cpus.off(|| rustix::fs::fsync(file));
    synced.map_err(Error::Io)?;
    if written { Ok(()) } else { Err(Error::Lost) }
}

/// Cuts or extends a file to `len` bytes.
pub(crate) async fn truncate(mm: &LiveMm, mapping: u32, len: u64) -> Result<(), Error> {
    check_range(len, 0)?;
    let _cut = Cut::take(mm, mapping).await;
    let m = &mm.mappings[mapping as usize];
    let shorter = len < m.size.load(SeqCst);
    m.size.store(len, SeqCst);
    let first = len.div_ceil(PAGE as u64) as u32;
    let (index, rest) = ((len / PAGE as u64) as u32, len as usize % PAGE);
    if shorter && rest > 0 {
        // What lies behind the new end must read as zero if the file grows again.
        if let Some(mut page) = Locked::find(mm, mapping, index).await {
            mm.wait_on_page_writeback(page.pfn()).await;
            page.bytes_mut()[rest..].fill(0);
        }
    }
    if shorter {
        mm.truncate_from(mapping, first).await;
    }
    let file = &mm.world.file(mapping).file;
    let cut = mm.world.cpus.off(|| rustix::fs::ftruncate(file, len));
    if shorter {
        // A reader may have brought the old contents in before the file was cut.
        mm.truncate_from(mapping, first).await;
    }
    cut.map_err(Error::Io)
}
