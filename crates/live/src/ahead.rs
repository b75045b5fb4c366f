//! Read-ahead: decides what a cache miss reads and grows the window while reads are sequential, so
//! that most pages are read before they are asked for.
//!
//! Which pages a window has is decided by the virtual world's code ([`mm::cache::readahead`]). A
//! task that misses a page reads the window that begins there with one request. A task that meets a
//! page marked `READAHEAD` enters the pages of the next window into the cache, locked, and hands
//! them over to an executor (`io`); a task that needs such a page before it is read waits for the
//! page's lock. The number of pages handed over is bounded ([`HANDED_SHARE`] of memory); beyond
//! that the task that meets a mark reads the window itself.

use crate::LiveMm;
use crate::arena::{Handed, Locked};
use crate::error::{Error, OutOfMemory};
use crate::file;
use crate::io;
use crate::sync::{AtomicU32, Mutex};
use crate::turn::Turn;
use crate::world::BATCH;
use mm::cache::readahead::{Missed, Moved, Window};
use mm::memory::frame::flag;
use mm::memory::gfp::Gfp;
use mm::world::Tasks;
use std::sync::atomic::Ordering::SeqCst;

/// Largest window in pages; a window is also at most 1/[`READ_AHEAD_SHARE`] of memory, because
/// pages that are being read are locked and cannot be reclaimed. Linux has 32 pages (128 KiB) by
/// default; here one window must last while a woken thread waits for a CPU. A window is read in
/// transfers of [`BATCH`] pages, so its first pages are valid before its last.
const READ_AHEAD: u32 = 128;
const READ_AHEAD_SHARE: u32 = 64;
/// The share of memory that may be handed over for reading and not be read yet.
const HANDED_SHARE: u32 = 16;

/// How a program will use a range of a file, in the words of `posix_fadvise(2)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// No advice: sequential reads are read ahead of. Holds for the handle, whatever the range.
    Normal,
    /// The file is read sequentially: windows become twice as large. Holds for the handle.
    Sequential,
    /// The file is read at random: no page is read that was not asked for. Holds for the handle.
    Random,
    /// The range is needed soon: its missing pages are read, in the background where possible.
    WillNeed,
    /// The range is not needed: its clean pages that nobody has locked or pinned leave the cache.
    DontNeed,
}

/// The read-ahead state of an open file.
#[derive(Default)]
pub struct Ahead {
    window: Mutex<Window>,
    /// Factor by which the largest window is multiplied: 0, 1 or 2; see [`Advice`].
    times: Times,
}

struct Times(AtomicU32);

impl Default for Times {
    fn default() -> Self {
        Self(AtomicU32::new(1))
    }
}

/// Returns the largest read-ahead window in pages, for a file whose advice multiplies it by `times`
/// (0, 1 or 2).
fn most(mm: &LiveMm, times: u32) -> u32 {
    (READ_AHEAD * times).min(file::pages_of_memory(mm) / READ_AHEAD_SHARE)
}

impl Ahead {
    /// Sets the window factor for the reads that follow; advice about a range changes nothing here.
    pub fn advise(&self, advice: Advice) {
        let times = match advice {
            Advice::Normal => 1,
            Advice::Sequential => 2,
            Advice::Random => 0,
            Advice::WillNeed | Advice::DontNeed => return,
        };
        self.times.0.store(times, SeqCst);
    }

    /// Moves the read-ahead window for a missed page or a page with the read-ahead mark. Returns
    /// the part to read (`Moved::Small`: only the pages wanted; `Nothing`: none) and the window.
    fn on_demand(&self, mm: &LiveMm, mapping: u32, missed: Missed) -> (Moved, Window) {
        let most = most(mm, self.times.0.load(SeqCst));
        let index = missed.index;
        // For a window that is not sequential: the next page that is missing, and the pages cached
        // just before.
        let cached = |i: u32| mm.peek_page(mapping, i).is_some();
        let hole = || (index + 1..=index.saturating_add(most)).find(|&i| !cached(i));
        let history = || {
            let most = most.min(index);
            (1..=most).take_while(|&n| cached(index - n)).count() as u32
        };
        let mut window = self.window.lock();
        let moved = match (most, missed.marked) {
            (0, true) => Moved::Nothing,
            (0, false) => Moved::Small,
            _ => window.move_to(missed, most, hole, history),
        };
        window.passed(index);
        (moved, *window)
    }
}

/// Returns the page at `index` of a file to read, locked and valid. `wanted`: pages the caller will
/// read, from `index` on. A missing page is read together with the window that begins there.
pub async fn page<'a>(
    mm: &'a LiveMm,
    mapping: u32,
    ahead: &Ahead,
    (index, wanted): (u32, u32),
) -> Result<Locked<'a>, Error> {
    let mut turn = Turn::new(mm);
    loop {
        // The mark is tested first, so that the next window is read while the task waits for
        // this page.
        on_mark(mm, mapping, ahead, (index, wanted)).await;
        if let Some(mut page) = Locked::find(mm, mapping, index).await? {
            if !page.has(flag::UPTODATE) {
                let Some(unpinned) = page.unpinned(&mut turn).await else {
                    continue;
                };
                page = file::fill_one(mm, index, unpinned).await?;
            }
            return Ok(page);
        }
        let missed = Missed {
            index,
            wanted,
            marked: false,
        };
        let (moved, w) = ahead.on_demand(mm, mapping, missed);
        let (most, mark) = match moved {
            Moved::Window if w.start == index => (w.size, Some(w.mark())),
            _ => (wanted.min(BATCH), None),
        };
        let fresh = enter(mm, mapping, index, most, Gfp::USER).await?;
        if !fresh.is_empty() {
            marked(mm, index, &fresh, mark);
            let (mut fresh, result) = io::fill(mm, mapping, index, fresh).await;
            if let Err(e) = result {
                if fresh.len() == 1 {
                    return Err(Error::Io(e));
                }
                // The error may be that of a later page, which was not asked for: read the first
                // page alone.
                fresh = vec![file::fill_one(mm, index, fresh.swap_remove(0)).await?];
            }
            if moved == Moved::Window && w.start != index {
                hand_over(mm, mapping, w.start, w.size, Some(w.mark())).await;
            }
            return Ok(fresh.swap_remove(0));
        }
    }
}

/// Clears the `READAHEAD` mark of the cached page at `index`, if it has one, and starts to read the
/// next window. `wanted`: pages the caller will read, from `index` on.
async fn on_mark(mm: &LiveMm, mapping: u32, ahead: &Ahead, (index, wanted): (u32, u32)) {
    let Some(pfn) = mm.peek_page(mapping, index) else {
        return;
    };
    // The frame may hold another page by now; the worst that happens is that a mark is lost.
    if !mm.frames.has(pfn, flag::READAHEAD) {
        return;
    }
    mm.frames.clear_flags(pfn, flag::READAHEAD);
    let missed = Missed {
        index,
        wanted,
        marked: true,
    };
    let (moved, w) = ahead.on_demand(mm, mapping, missed);
    if moved == Moved::Window {
        hand_over(mm, mapping, w.start, w.size, Some(w.mark())).await;
    }
}

/// Starts to read the missing pages of a file from index `first` to `last`, in requests of one
/// window each (`POSIX_FADV_WILLNEED`).
pub async fn will_need(mm: &LiveMm, mapping: u32, first: u32, last: u32) {
    let most = most(mm, 1).max(1);
    let mut at = first;
    loop {
        let n = most.min(last - at + 1);
        hand_over(mm, mapping, at, n, None).await;
        match at.checked_add(n) {
            Some(next) if next <= last => at = next,
            _ => return,
        }
    }
}

/// Starts to read the missing pages of a file from index `first` to `last`, as far as the bound on
/// pages handed over to executors allows ([`HANDED_SHARE`] of memory). Returns how many pages it
/// started to read.
pub async fn prefetch(mm: &LiveMm, mapping: u32, first: u32, last: u32) -> u64 {
    let io = mm.world.io(mm.mappings[mapping as usize].bdi());
    let most = file::pages_of_memory(mm) / HANDED_SHARE;
    let (mut at, mut started) = (first, 0);
    while started < most {
        let n = (last - at + 1).min(BATCH).min(most - started);
        if !io.may_read(n, most) {
            break;
        }
        started += hand_over(mm, mapping, at, n, None).await;
        match at.checked_add(n) {
            Some(next) if next <= last => at = next,
            _ => break,
        }
        mm.world.relax().await;
    }
    u64::from(started)
}

/// Sets the `READAHEAD` mark on the page with index `mark`, if it is among `pages`, which begin at
/// index `first`.
fn marked(mm: &LiveMm, first: u32, pages: &[Locked<'_>], mark: Option<u32>) {
    let at = mark.and_then(|m| m.checked_sub(first));
    if let Some(page) = at.and_then(|i| pages.get(i as usize)) {
        mm.frames.set_flags(page.pfn(), flag::READAHEAD);
    }
}

/// Enters fresh pages from `first` on into a file's cache, locked: at most `most`, not beyond the
/// file's end, and only up to the first page that is cached already. Only the first page is needed
/// (`gfp`); the others are allocated with `NORETRY`, without waiting for memory. Fails if not even
/// the first page has memory.
async fn enter(
    mm: &LiveMm,
    mapping: u32,
    first: u32,
    most: u32,
    gfp: Gfp,
) -> Result<Vec<Locked<'_>>, OutOfMemory> {
    let pages = file::pages_of(file::size(mm, mapping));
    let most = pages.saturating_sub(first).min(most.max(1)).max(1);
    let mut fresh = Vec::with_capacity(most as usize);
    let gfp = file::asked(mm, mapping, gfp);
    for i in 0..most {
        let gfp = match i {
            0 => gfp,
            _ => gfp.or(Gfp::NORETRY),
        };
        match Locked::insert(mm, mapping, first + i, gfp).await {
            Ok(Some(page)) => fresh.push(page),
            Ok(None) => break,
            Err(e) if fresh.is_empty() => return Err(e),
            Err(_) => break,
        }
    }
    Ok(fresh)
}

/// Enters the missing pages of a window (`size` pages from index `start` on) and hands them to an
/// executor of the file's device to read; returns how many pages were missing. If too many are on
/// the way, the caller reads them here. `mark`: index of the page whose first access reads the next
/// window.
async fn hand_over(mm: &LiveMm, mapping: u32, start: u32, size: u32, mark: Option<u32>) -> u32 {
    let end = file::pages_of(file::size(mm, mapping)).min(start.saturating_add(size));
    let bdi = mm.mappings[mapping as usize].bdi();
    let (mut at, mut missing) = (start, 0);
    while at < end {
        if mm.find_page(mapping, at).is_some() {
            at += 1;
            continue;
        }
        let gfp = Gfp::USER.or(Gfp::NORETRY);
        let Ok(fresh) = enter(mm, mapping, at, (end - at).min(BATCH), gfp).await else {
            return missing;
        };
        let n = fresh.len() as u32;
        missing += n;
        if n > 0 {
            marked(mm, at, &fresh, mark);
            let most = file::pages_of_memory(mm) / HANDED_SHARE;
            if let Err(handed) = mm.world.io(bdi).read(Handed::new(mapping, at, fresh), most) {
                // A task that needs a page which could not be read tries again, and gets the
                // error.
                let _ = io::fill(mm, mapping, at, handed.take(mm)).await;
            }
        }
        at += n.max(1);
    }
    missing
}
