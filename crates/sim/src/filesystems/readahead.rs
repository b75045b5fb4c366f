//! Windows that are read ahead (what they are: [`mm::cache::readahead`]), fetched from a device.
//!
//! What was read ahead is an ordinary page of the inactive list: it can be reclaimed before anybody
//! used it. `pages dropped` remembers those, and counts the ones that come from the device again.

use super::ioend::read_together;
use super::reuse::PageSet;
use super::{BATCH, FsError, SimMm, read};
use mm::Pfn;
use mm::cache::readahead::{self, Missed, Moved};
use mm::memory::frame::flag;
use mm::memory::gfp::Gfp;
use mm::policy::FileReadahead;
use mm::world::Class;
use mm::world::{Storage, Tasks};
use std::cell::{Cell, RefCell};

/// The window of an open file.
#[derive(Debug, Default)]
pub struct Window(Cell<readahead::Window>);

impl Window {
    fn change<R>(&self, f: impl FnOnce(&mut readahead::Window) -> R) -> R {
        let mut window = self.0.get();
        let r = f(&mut window);
        self.0.set(window);
        r
    }

    /// Remembers the page that was read.
    pub(super) fn passed(&self, index: u32) {
        self.change(|w| w.passed(index));
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

/// A read needs a page that is not cached, or met a marked one (`marked`).
pub(super) async fn on_demand<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    window: &Window,
    (index, wanted): (u32, u32),
    last_page: u32,
    marked: bool,
) -> Result<(), FsError> {
    let most = super::of(mm, mapping).read_ahead;
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
        Moved::Small => fetch(mm, mapping, index, wanted, None, last_page).await,
        Moved::Window => submit(mm, mapping, window, last_page).await,
    }
}

/// A fault on a mapped file misses page `index`; `marked`: what is read has a mark.
pub(super) async fn around<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    window: &Window,
    index: u32,
    last_page: u32,
    marked: bool,
) -> Result<(), FsError> {
    let most = super::of(mm, mapping).read_ahead;
    window.change(|w| w.around(index, most, marked));
    submit(mm, mapping, window, last_page).await
}

/// Reads a window, with its mark (`ra_submit`).
async fn submit<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    window: &Window,
    last_page: u32,
) -> Result<(), FsError> {
    let w = window.0.get();
    fetch(mm, mapping, w.start, w.size, Some(w.mark()), last_page).await
}

/// Reads the pages of a window that are not cached. Where what is read ahead gives up (`file_readahead`), up to the first
/// for which there is no memory: whoever wants that page finds it missing; the requests go out together then, behind all of
/// it (`read_pages`).
async fn fetch<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    start: u32,
    size: u32,
    mark: Option<u32>,
    last_page: u32,
) -> Result<(), FsError> {
    let rule = mm.policy.file_readahead;
    let plugged = rule == FileReadahead::GivesUp;
    let w = &mm.world;
    if plugged {
        w.start_plug();
    }
    let done = fetch_pages(mm, mapping, (start, size), mark, last_page, rule).await;
    if plugged {
        w.finish_plug();
    }
    done
}

/// [`fetch`], but for the plug. Where pages are read together, they are asked for when all in a row are in the cache.
async fn fetch_pages<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    (start, size): (u32, u32),
    mark: Option<u32>,
    last_page: u32,
    rule: FileReadahead,
) -> Result<(), FsError> {
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
        let mut index = at;
        let there = mm.cached_run(mapping, at, n, |pfn| {
            let marked = if mark == Some(index) {
                flag::READAHEAD
            } else {
                0
            };
            mm.frames.set_flags(pfn, flag::UNUSED | marked);
            mm.world.dropped.read(mapping, index);
            index += 1;
        });
        assert!(there == n, "locked pages stay");
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
    window: &Window,
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
    on_demand(mm, mapping, window, (index, wanted), last_page, true).await
}
