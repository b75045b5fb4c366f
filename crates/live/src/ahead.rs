//! What a miss brings in: windows that grow while reads are in order, most of them read before they are
//! asked for.
//!
//! Which pages a window has is decided as in the virtual world ([`mm::cache::readahead`]). Whoever
//! misses a page reads the window that begins there with one request. Whoever meets a marked page
//! enters the pages of the next window into the cache, locked, and hands them over (`io`); who needs
//! one before it is there waits for its lock. Pages that are handed over are bounded
//! ([`HANDED_SHARE`] of memory); beyond that who meets a mark reads the window himself.

use crate::LiveMm;
use crate::arena::{Handed, Locked, OutOfMemory};
use crate::file::{self, Error};
use crate::sync::{AtomicU32, Mutex};
use crate::world::BATCH;
use mm::cache::readahead::{Missed, Moved, Window};
use mm::memory::frame::flag;
use mm::memory::gfp::Gfp;
use std::sync::atomic::Ordering::SeqCst;

/// Pages of a window at most, and at most this part of memory: pages that are being read are locked,
/// and nobody reclaims them. Linux has 32 (128 KiB) by default; here, one window must last while a thread
/// that was woken waits for a CPU. It is read by transfers of [`BATCH`] pages, so the first are there
/// before the last.
const READ_AHEAD: u32 = 128;
const READ_AHEAD_SHARE: u32 = 64;
/// The part of memory that may be handed over and not read yet.
const HANDED_SHARE: u32 = 16;

/// What a program says of its use of a file, in the words of `posix_fadvise(2)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Nothing: reads in order are read ahead of. Holds for the handle, whatever the range.
    Normal,
    /// It is read in order: windows become twice as large. Holds for the handle.
    Sequential,
    /// It is read in no order: nothing is read that is not asked for. Holds for the handle.
    Random,
    /// The range is needed soon: what is missing of it is read, without a wait where that can be.
    WillNeed,
    /// The range is not needed: its pages that are clean and that nobody holds leave the cache.
    DontNeed,
}

/// The read-ahead of an open file.
#[derive(Default)]
pub struct Ahead {
    window: Mutex<Window>,
    /// Times the window that it may have; see [`Advice`].
    times: Times,
}

struct Times(AtomicU32);

impl Default for Times {
    fn default() -> Self {
        Self(AtomicU32::new(1))
    }
}

/// Pages of a window so many times as large as usual.
fn most(mm: &LiveMm, times: u32) -> u32 {
    (READ_AHEAD * times).min(file::pages_of_memory(mm) / READ_AHEAD_SHARE)
}

impl Ahead {
    /// The windows that follow have this advice.
    pub fn advise(&self, advice: Advice) {
        let times = match advice {
            Advice::Normal => 1,
            Advice::Sequential => 2,
            Advice::Random => 0,
            Advice::WillNeed | Advice::DontNeed => return,
        };
        self.times.0.store(times, SeqCst);
    }

    /// Moves the window; `None`: only what is wanted is to be read.
    fn on_demand(&self, mm: &LiveMm, mapping: u32, missed: Missed) -> (Moved, Window) {
        let most = most(mm, self.times.0.load(SeqCst));
        let index = missed.index;
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

/// A page of a file to read, locked and valid; `wanted`: pages of the read from there on. What is
/// missing comes in with the window that begins there.
pub async fn page<'a>(
    mm: &'a LiveMm,
    mapping: u32,
    ahead: &Ahead,
    (index, wanted): (u32, u32),
) -> Result<Locked<'a>, Error> {
    loop {
        // Before it is waited for: the next window is on its way while this one comes.
        on_mark(mm, mapping, ahead, (index, wanted)).await;
        if let Some(mut page) = Locked::find(mm, mapping, index).await {
            if !page.has(flag::UPTODATE) {
                let Some(alone) = page.alone().await else {
                    continue;
                };
                page = file::fill_one(mm, index, alone)?;
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
            let (mut fresh, result) = file::fill(mm, mapping, index, fresh);
            if let Err(e) = result {
                if fresh.len() == 1 {
                    return Err(e);
                }
                // It may be a page behind, for which nobody has asked.
                fresh = vec![file::fill_one(mm, index, fresh.swap_remove(0))?];
            }
            if moved == Moved::Window && w.start != index {
                hand_over(mm, mapping, w.start, w.size, Some(w.mark())).await;
            }
            return Ok(fresh.swap_remove(0));
        }
    }
}

/// If a page is cached and marked, has the next window read.
async fn on_mark(mm: &LiveMm, mapping: u32, ahead: &Ahead, (index, wanted): (u32, u32)) {
    let Some(pfn) = mm.peek_page(mapping, index) else {
        return;
    };
    // The frame may be another page by now, which loses a mark at worst.
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

/// Has the missing pages of a range read, in requests of a window each.
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

/// Sets the mark of a window on one of its pages, which begin with `first`.
fn marked(mm: &LiveMm, first: u32, pages: &[Locked<'_>], mark: Option<u32>) {
    let at = mark.and_then(|m| m.checked_sub(first));
    if let Some(page) = at.and_then(|i| pages.get(i as usize)) {
        mm.frames.set_flags(page.pfn(), flag::READAHEAD);
    }
}

/// Enters fresh pages from `first` on into a file's cache, locked, up to `most` and to the file's
/// end, until one is there already. Only the first is needed (`gfp`); for the others nobody goes to
/// the end of his means.
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

/// Has the missing pages of a window read by the thread for it.
async fn hand_over(mm: &LiveMm, mapping: u32, start: u32, size: u32, mark: Option<u32>) {
    let end = file::pages_of(file::size(mm, mapping)).min(start.saturating_add(size));
    let bdi = mm.mappings[mapping as usize].bdi();
    let mut at = start;
    while at < end {
        if mm.find_page(mapping, at).is_some() {
            at += 1;
            continue;
        }
        let gfp = Gfp::USER.or(Gfp::NORETRY);
        let Ok(fresh) = enter(mm, mapping, at, (end - at).min(BATCH), gfp).await else {
            return;
        };
        let n = fresh.len() as u32;
        if n > 0 {
            marked(mm, at, &fresh, mark);
            let most = file::pages_of_memory(mm) / HANDED_SHARE;
            if let Err(handed) = mm.world.io(bdi).read(Handed::new(mapping, at, fresh), most) {
                // Who needs one that could not be read asks again, and is told.
                let _ = file::fill(mm, mapping, at, handed.take(mm));
            }
        }
        at += n.max(1);
    }
}
