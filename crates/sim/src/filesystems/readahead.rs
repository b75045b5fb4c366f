//! Read-ahead windows ([`mm::cache::readahead`] decides on them), fetched from a device.
//!
//! A page that was read ahead is an ordinary page of the inactive list: it can be reclaimed before
//! it is used. `pages dropped` remembers those pages and counts the ones that are read from the
//! device again.

use super::ioend::read_together;
use super::reuse::PageSet;
use super::{BATCH, FsError, SimMm, read};
use mm::Pfn;
use mm::cache::mmap::Advice;
use mm::cache::readahead::{self, Missed, Moved};
use mm::memory::frame::flag;
use mm::memory::gfp::Gfp;
use mm::policy::FileReadahead;
use mm::world::Class;
use mm::world::{Storage, Tasks};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};

/// The read-ahead window of an open file, and its program's advice on the order of reads (`struct
/// file_ra_state`, `FMODE_RANDOM`).
#[derive(Debug, Default)]
pub struct Window {
    place: Cell<readahead::Window>,
    advice: Cell<Advice>,
}

impl Window {
    /// Calls `f` with the window's place and keeps what `f` changes; returns what `f` returns.
    fn change<R>(&self, f: impl FnOnce(&mut readahead::Window) -> R) -> R {
        let mut window = self.place.get();
        let r = f(&mut window);
        self.place.set(window);
        r
    }

    /// Remembers the page that was read.
    pub(super) fn passed(&self, index: u32) {
        self.change(|w| w.passed(index));
    }

    /// Takes posix_fadvise(2) of the open file (mm/fadvise.c `generic_fadvise`): windows of twice
    /// the disk's size for sequential reads, no read-ahead for random ones.
    pub fn advise(&self, advice: Advice) {
        self.advice.set(advice);
    }

    /// Returns the maximum window size in pages on a file of this filesystem (`ra_pages`).
    pub(super) fn most<const T: bool>(&self, mm: &SimMm<T>, mapping: u32) -> u32 {
        let most = super::of(mm, mapping).read_ahead;
        match self.advice.get() {
            Advice::Sequential => most * 2,
            Advice::Normal | Advice::Random => most,
        }
    }
}

/// A call or fault that reads through the page cache: the window of its open file, the pages it
/// asks for, and the pages that it has brought in itself, which do not count as hits.
pub(super) struct Reader<'a> {
    pub window: &'a Window,
    /// First page that a read(2) asks for, and the one behind its last; equal for a fault.
    asked: (u32, u32),
    /// Runs of pages that the call has brought in: the first page, and the one behind the last.
    brought: RefCell<SmallVec<[(u32, u32); 2]>>,
}

impl<'a> Reader<'a> {
    /// Makes the record of one read(2) of pages `first` to `last` inclusive, which tells pages that
    /// the call asks for from those that are read ahead of it. `window` is the open file's
    /// read-ahead window.
    pub fn of_pages(window: &'a Window, first: u32, last: u32) -> Self {
        Self {
            window,
            asked: (first, last.saturating_add(1)),
            brought: RefCell::default(),
        }
    }

    /// Makes the reader of a fault. It asks for no page: its page is marked as used when it is
    /// mapped.
    pub fn of_fault(window: &'a Window) -> Self {
        Self {
            window,
            asked: (0, 0),
            brought: RefCell::default(),
        }
    }

    /// Returns true if the call asks for a page; others are read ahead.
    fn asks_for(&self, index: u32) -> bool {
        (self.asked.0..self.asked.1).contains(&index)
    }

    /// Notes that the call has entered `n` pages of the file from `first` on into the cache.
    pub fn has_brought(&self, first: u32, n: u32) {
        let runs = &mut *self.brought.borrow_mut();
        match runs.last_mut() {
            Some(last) if last.1 == first => last.1 += n,
            _ => runs.push((first, first + n)),
        }
    }

    /// Returns true if the call has brought in a page of the file itself.
    pub fn brought(&self, index: u32) -> bool {
        let runs = self.brought.borrow();
        runs.iter().any(|&(from, to)| (from..to).contains(&index))
    }

    /// Marks `n` cached pages from `first` on that the call has just made: those it does not ask
    /// for are flagged unused, and page `mark` gets the flag that triggers reading the next window.
    pub fn mark_new<const T: bool>(
        &self,
        mm: &SimMm<T>,
        (mapping, first, n): (u32, u32, u32),
        mark: Option<u32>,
    ) {
        self.has_brought(first, n);
        let mut index = first;
        let cached = mm.cached_run(mapping, first, n, |pfn| {
            let mut bits = 0;
            if !self.asks_for(index) {
                bits |= flag::UNUSED;
            }
            if mark == Some(index) {
                bits |= flag::READAHEAD;
            }
            if bits != 0 {
                mm.frames.set_flags(pfn, bits);
            }
            mm.world.dropped.read(mapping, index);
            index += 1;
        });
        assert!(cached == n, "locked pages stay");
    }
}

/// Pages that were read ahead and reclaimed before they were used.
#[derive(Default)]
pub struct Dropped {
    pages: RefCell<PageSet>,
    /// Number of these pages that were read from the device again.
    pub reread: Cell<u64>,
}

impl Dropped {
    /// Notes that reclaim takes an unused page.
    pub fn note(&self, mapping: u32, index: u32) {
        self.pages.borrow_mut().insert(mapping, index);
    }

    /// Notes that a page is read from the device.
    fn read(&self, mapping: u32, index: u32) {
        if self.pages.borrow_mut().remove(mapping, index) {
            self.reread.set(self.reread.get() + 1);
        }
    }

    /// Forgets the pages of a file that is removed.
    pub(super) fn forget(&self, mapping: u32) {
        self.pages.borrow_mut().forget(mapping);
    }
}

/// Reads ahead for a read that misses page `index` or meets it with the mark (`marked`); `wanted`
/// is the number of pages from there on that the read asks for, `last_page` the file's last. Under
/// the advice for random reads only the missing ones of these are read
/// (`force_page_cache_readahead`); with windows of 0 pages (`read_ahead = 0`) none are.
pub(super) async fn on_demand<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    reader: &Reader<'_>,
    (index, wanted): (u32, u32),
    last_page: u32,
    marked: bool,
) -> Result<(), FsError> {
    let window = reader.window;
    let most = window.most(mm, mapping);
    if most == 0 {
        return Ok(());
    }
    if !marked && window.advice.get() == Advice::Random {
        let wanted = match mm.policy.file_readahead {
            // At most a request's or a window's pages at a time (4.10).
            FileReadahead::Together => {
                let volume = super::of(mm, mapping).volume;
                wanted.min(mm.world.max_bio(volume).max(most))
            }
            _ => wanted,
        };
        return fetch(mm, mapping, reader, (index, wanted), None, last_page).await;
    }
    let cached = |i: u32| mm.find_page(mapping, i).is_some();
    // The first page behind `index` that is not cached; `history`: the number of cached pages right
    // before it.
    let hole = || (index + 1..=index.saturating_add(most)).find(|&i| !cached(i));
    let history = || {
        (1..=most.min(index))
            .take_while(|&n| cached(index - n))
            .count() as u32
    };
    let missed = Missed {
        index,
        wanted,
        marked,
    };
    match window.change(|w| w.move_to(missed, most, hole, history)) {
        Moved::Nothing => Ok(()),
        Moved::Small => fetch(mm, mapping, reader, (index, wanted), None, last_page).await,
        Moved::Window => submit(mm, mapping, reader, last_page).await,
    }
}

/// Reads the window around page `index`, which a fault on a mapped file misses; `marked`: one of
/// the pages read gets the mark that triggers reading the next window.
pub(super) async fn around<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    reader: &Reader<'_>,
    index: u32,
    last_page: u32,
    marked: bool,
) -> Result<(), FsError> {
    let most = reader.window.most(mm, mapping);
    if most == 0 {
        return Ok(());
    }
    reader.window.change(|w| w.around(index, most, marked));
    submit(mm, mapping, reader, last_page).await
}

/// Reads the pages of the current window that are not cached, and marks the page that triggers the
/// next window (`ra_submit`).
async fn submit<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    reader: &Reader<'_>,
    last_page: u32,
) -> Result<(), FsError> {
    let w = reader.window.place.get();
    let place = (w.start, w.size);
    fetch(mm, mapping, reader, place, Some(w.mark()), last_page).await
}

/// Reads the pages of a window (`place`: first page and number) that are not cached. Where
/// read-ahead gives up (`file_readahead`), only up to the first page that cannot be allocated,
/// which the read that wants it then finds missing; the requests are plugged and submitted together
/// at the end (`read_pages`).
async fn fetch<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    reader: &Reader<'_>,
    place: (u32, u32),
    mark: Option<u32>,
    last_page: u32,
) -> Result<(), FsError> {
    let plugged = mm.policy.file_readahead == FileReadahead::GivesUp;
    let w = &mm.world;
    if plugged {
        w.start_plug();
    }
    let done = fetch_pages(mm, mapping, reader, place, mark, last_page).await;
    if plugged {
        w.finish_plug();
    }
    done
}

/// Does what [`fetch`] does, without the plug. Where pages are read together, adjacent new pages
/// are submitted as one run. `mark`: the page that gets the read-ahead mark.
async fn fetch_pages<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    reader: &Reader<'_>,
    (start, size): (u32, u32),
    mark: Option<u32>,
    last_page: u32,
) -> Result<(), FsError> {
    let rule = mm.policy.file_readahead;
    let end = start.saturating_add(size).min(last_page.saturating_add(1));
    let together = rule == FileReadahead::Together;
    let gives_up = together || rule == FileReadahead::GivesUp;
    let gfp = match gives_up {
        true => Gfp::READAHEAD,
        false => Gfp::USER,
    };
    // Pages from `from` to `at` are in the cache, locked, and not yet submitted.
    let (mut from, mut at) = (start, start);
    while at < end {
        let cached = mm.cached_run(mapping, at, end - at, |_| ());
        if cached > 0 {
            ask_for(mm, mapping, (from, at), together).await;
            at += cached;
            from = at;
        }
        if at == end {
            break;
        }
        let most = BATCH.min(end - at);
        let n = match read::new_locked_pages(mm, mapping, at, most, gfp).await {
            Err(e) if at == start && !gives_up => return Err(e),
            Err(_) => break,
            Ok(n) => n,
        };
        reader.mark_new(mm, (mapping, at, n), mark);
        at += n;
        if !together {
            ask_for(mm, mapping, (from, at), together).await;
            from = at;
        }
        if gives_up && n < most && mm.find_page(mapping, at).is_none() {
            break;
        }
        if !together {
            mm.world.relax().await;
        }
    }
    ask_for(mm, mapping, (from, at), together).await;
    Ok(())
}

/// Submits the reading of locked pages of a file, from `from` up to but not including `to`
/// (`read_pages`). `together`: a bio's pages are unlocked together, and the bios are plugged.
async fn ask_for<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    (from, to): (u32, u32),
    together: bool,
) {
    if from == to {
        return;
    }
    if !together {
        read::fill_from_device(mm, mapping, from, to - from).await;
        return;
    }
    mm.world.start_plug();
    read_together(mm, mapping, from, to - from).await;
    mm.world.finish_plug();
}

/// Returns true if a cached page triggers the next read-ahead: it is marked and not under writeback
/// (`page_cache_async_ra`).
pub(super) fn is_marked<const T: bool>(mm: &SimMm<T>, pfn: Pfn) -> bool {
    mm.frames.has(pfn, flag::READAHEAD) && !mm.frames.has(pfn, flag::WRITEBACK)
}

/// Reads the next window when a read meets a cached page that [is marked](is_marked), unless the
/// device is congested. In both cases the mark is cleared. `wanted`: pages that the read asks for
/// from `index` on; `pfn`: the frame of the page met.
pub(super) async fn met<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    reader: &Reader<'_>,
    (index, wanted): (u32, u32),
    last_page: u32,
    pfn: Pfn,
) -> Result<(), FsError> {
    if !is_marked(mm, pfn) {
        return Ok(());
    }
    mm.frames.clear_flags(pfn, flag::READAHEAD);
    let bdi = mm.mappings[mapping as usize].bdi();
    if mm.world.bdi_congested(bdi, Class::Sync) {
        return Ok(());
    }
    on_demand(mm, mapping, reader, (index, wanted), last_page, true).await
}
