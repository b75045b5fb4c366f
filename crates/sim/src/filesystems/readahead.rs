//! Windows that are read ahead (what they are: [`mm::cache::readahead`]), fetched from a device.
//!
//! What was read ahead is an ordinary page of the inactive list: it can be reclaimed before anybody
//! used it. `pages dropped` remembers those, and counts the ones that come from the device again.

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

/// The window of an open file, and what its program has said of the order of its reads (`struct file_ra_state`,
/// `FMODE_RANDOM`).
#[derive(Debug, Default)]
pub struct Window {
    place: Cell<readahead::Window>,
    advice: Cell<Advice>,
}

impl Window {
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

    /// Takes posix_fadvise(2) of the open file (mm/fadvise.c `generic_fadvise`): windows of twice the disk's pages for reads
    /// in order, none for random ones.
    pub fn advise(&self, advice: Advice) {
        self.advice.set(advice);
    }

    /// Returns the most pages that the window may have on a file of this filesystem (`ra_pages`).
    pub(super) fn most<const T: bool>(&self, mm: &SimMm<T>, mapping: u32) -> u32 {
        let most = super::of(mm, mapping).read_ahead;
        match self.advice.get() {
            Advice::Sequential => most * 2,
            Advice::Normal | Advice::Random => most,
        }
    }
}

/// A call or fault that reads through the page cache: the window of its open file, what it asks for, and the pages that it
/// has brought in itself, which are no hits of its own.
pub(super) struct Reader<'a> {
    pub window: &'a Window,
    /// The first page that a read(2) asks for, and the one behind its last; equal for a fault.
    asked: (u32, u32),
    /// Runs of pages that it has brought in: the first page, and the one behind the last.
    brought: RefCell<SmallVec<[(u32, u32); 2]>>,
}

impl<'a> Reader<'a> {
    /// A read(2) of the pages from one to another, that one included.
    pub fn of_pages(window: &'a Window, first: u32, last: u32) -> Self {
        Self {
            window,
            asked: (first, last.saturating_add(1)),
            brought: RefCell::default(),
        }
    }

    /// A fault, whose page is marked as used where it is mapped.
    pub fn of_fault(window: &'a Window) -> Self {
        Self {
            window,
            asked: (0, 0),
            brought: RefCell::default(),
        }
    }

    /// Whether it asks for a page; others are read ahead.
    fn asks_for(&self, index: u32) -> bool {
        (self.asked.0..self.asked.1).contains(&index)
    }

    /// Notes that it has entered `n` pages of the file from one on into the cache.
    pub fn has_brought(&self, first: u32, n: u32) {
        let runs = &mut *self.brought.borrow_mut();
        match runs.last_mut() {
            Some(last) if last.1 == first => last.1 += n,
            _ => runs.push((first, first + n)),
        }
    }

    /// Returns whether it has brought in a page of the file itself.
    pub fn brought(&self, index: u32) -> bool {
        let runs = self.brought.borrow();
        runs.iter().any(|&(from, to)| (from..to).contains(&index))
    }

    /// Marks `n` cached pages from one on that it has just made: what it does not ask for is read ahead and unused, and the
    /// page `mark` has the next window read.
    pub fn mark_new<const T: bool>(
        &self,
        mm: &SimMm<T>,
        (mapping, first, n): (u32, u32, u32),
        mark: Option<u32>,
    ) {
        self.has_brought(first, n);
        let mut index = first;
        let there = mm.cached_run(mapping, first, n, |pfn| {
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
        assert!(there == n, "locked pages stay");
    }
}

/// Pages read ahead and reclaimed before anybody asked for them.
#[derive(Default)]
pub struct Dropped {
    pages: RefCell<PageSet>,
    /// Those of them that were read from the device again.
    pub reread: Cell<u64>,
}

impl Dropped {
    /// Reclaim takes an unused page.
    pub fn note(&self, mapping: u32, index: u32) {
        self.pages.borrow_mut().insert(mapping, index);
    }

    fn read(&self, mapping: u32, index: u32) {
        if self.pages.borrow_mut().remove(mapping, index) {
            self.reread.set(self.reread.get() + 1);
        }
    }

    /// A file is gone.
    pub(super) fn forget(&self, mapping: u32) {
        self.pages.borrow_mut().forget(mapping);
    }
}

/// A read needs page `index`, which is not cached, or met it and it is marked (`marked`); `wanted`: pages from there on that
/// it asks for. Where the file is read at random by its program's word, what is missing of those is read and nothing else
/// (`force_page_cache_readahead`); where windows have no pages, nothing is (`read_ahead = 0`).
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
            // No more at a time than a request or a window has (4.10).
            FileReadahead::Together => {
                let volume = super::of(mm, mapping).volume;
                wanted.min(mm.world.max_bio(volume).max(most))
            }
            _ => wanted,
        };
        return fetch(mm, mapping, reader, (index, wanted), None, last_page).await;
    }
    let cached = |i: u32| mm.find_page(mapping, i).is_some();
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

/// A fault on a mapped file misses page `index`; `marked`: what is read has a mark.
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

/// Reads a window, with its mark (`ra_submit`).
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

/// Reads the pages of a window that are not cached. Where what is read ahead gives up (`file_readahead`), up to the first
/// for which there is no memory: whoever wants that page finds it missing; the requests go out together then, behind all of
/// it (`read_pages`).
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

/// [`fetch`], but for the plug. Where pages are read together, they are asked for when all in a row are in the cache.
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
    // Pages from `from` to `at` wait to be asked for.
    let (mut from, mut at) = (start, start);
    while at < end {
        let there = mm.cached_run(mapping, at, end - at, |_| ());
        if there > 0 {
            ask_for(mm, mapping, (from, at), together).await;
            at += there;
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

/// Asks the device for locked pages of a file, from one to in front of another (`read_pages`).
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

/// Whether reading ahead goes on at a cached page: it is marked, and not under writeback (`page_cache_async_ra`).
pub(super) fn is_marked<const T: bool>(mm: &SimMm<T>, pfn: Pfn) -> bool {
    mm.frames.has(pfn, flag::READAHEAD) && !mm.frames.has(pfn, flag::WRITEBACK)
}

/// A read met a cached page: if it [is marked](is_marked), the next window is read, unless the device has too many
/// requests already.
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
