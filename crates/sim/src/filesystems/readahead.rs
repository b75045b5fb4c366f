//! Read-ahead on demand (Linux 2.6.23 to 4.x, mm/readahead.c): a window for each open file that grows
//! while reads are sequential, and a mark on a page in it. Whoever reads the marked page has the next
//! window read while the rest of this one is used, so that the device always has the next request.
//!
//! What was read ahead is an ordinary page of the inactive list: it can be reclaimed before anybody
//! used it. `pages dropped` remembers those, and counts the ones that come from the device again.

use super::reuse::PageSet;
use super::{BATCH, FsError, SimMm, read};
use mm::Pfn;
use mm::memory::frame::flag;
use mm::world::Class;
use mm::world::{Storage, Tasks};
use std::cell::{Cell, RefCell};

/// The window of an open file, in pages (`struct file_ra_state`).
#[derive(Debug, Default)]
pub struct Window {
    start: Cell<u32>,
    size: Cell<u32>,
    /// The mark stands so many pages in front of the window's end.
    ahead: Cell<u32>,
    /// The last page read, counted from 1.
    previous: Cell<u32>,
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

/// The first window for a read of so many pages.
fn initial_size(wanted: u32, most: u32) -> u32 {
    let size = wanted.next_power_of_two();
    if size <= most / 32 {
        size * 4
    } else if size <= most / 4 {
        size * 2
    } else {
        most
    }
}

/// The window behind one of this size.
fn next_size(size: u32, most: u32) -> u32 {
    let faster = if size < most / 16 { 4 } else { 2 };
    (size * faster).min(most)
}

impl Window {
    fn set(&self, start: u32, size: u32, ahead: u32) {
        self.start.set(start);
        self.size.set(size);
        self.ahead.set(ahead);
    }

    /// The first window of a sequence: the mark stands behind what is wanted now.
    fn open_at(&self, index: u32, wanted: u32, most: u32) {
        let size = initial_size(wanted, most);
        self.set(
            index,
            size,
            if size > wanted { size - wanted } else { size },
        );
    }

    /// The window around page `index` that a fault misses, half of it before the page; `marked`: with a
    /// mark a quarter before its end (mm/filemap.c, `do_sync_mmap_readahead`).
    fn around(&self, index: u32, most: u32, marked: bool) {
        let ahead = if marked { most / 4 } else { 0 };
        self.set(index.saturating_sub(most / 2), most, ahead);
    }

    /// Remembers the page that was read.
    pub(super) fn passed(&self, index: u32) {
        self.previous.set(index.saturating_add(1));
    }

    /// Moves the window for a read that found page `index` missing, or marked. `wanted`: pages of
    /// the read. `false`: no window, only what is wanted. `hole`: how far from the next page on pages
    /// are cached; `history`: how many are in front.
    fn move_to(
        &self,
        index: u32,
        wanted: u32,
        most: u32,
        marked: bool,
        hole: impl FnOnce() -> Option<u32>,
        history: impl FnOnce() -> u32,
    ) -> Moved {
        let (start, size, ahead) = (self.start.get(), self.size.get(), self.ahead.get());
        let end = start.saturating_add(size);
        let sequential =
            size > 0 && (index == end || index == end.saturating_sub(ahead) && ahead > 0);
        if index == 0 {
            self.open_at(index, wanted, most);
        } else if sequential {
            let size = next_size(size, most);
            self.set(end, size, size);
        } else if marked {
            let Some(at) = hole() else {
                return Moved::Nothing;
            };
            let size = next_size(at - index + wanted, most);
            self.set(at, size, size);
        } else if wanted > most || index.abs_diff(self.previous.get().saturating_sub(1)) <= 1 {
            self.open_at(index, wanted, most);
        } else {
            let before = history();
            if before <= wanted {
                return Moved::Small;
            }
            let before = if before >= index { before * 2 } else { before };
            self.set(index, (before + wanted).min(most), 1);
        }
        // A mark on the first page would be hit by this very read: the next window comes along.
        if index == self.start.get() && self.size.get() == self.ahead.get() {
            let next = next_size(self.size.get(), most);
            self.ahead.set(next);
            self.size.set(self.size.get() + next);
        }
        Moved::Window
    }
}

enum Moved {
    Window,
    Small,
    Nothing,
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
    match window.move_to(index, wanted, most, marked, hole, history) {
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
    window.around(index, super::of(mm, mapping).read_ahead, marked);
    submit(mm, mapping, window, last_page).await
}

/// Reads a window, with its mark (`ra_submit`).
async fn submit<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    window: &Window,
    last_page: u32,
) -> Result<(), FsError> {
    let (start, size) = (window.start.get(), window.size.get());
    let mark = start + size - window.ahead.get();
    fetch(mm, mapping, start, size, Some(mark), last_page).await
}

/// Reads the pages of a window that are not cached.
async fn fetch<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    start: u32,
    size: u32,
    mark: Option<u32>,
    last_page: u32,
) -> Result<(), FsError> {
    let end = start.saturating_add(size).min(last_page.saturating_add(1));
    let mut at = start;
    while at < end {
        if mm.find_page(mapping, at).is_some() {
            at += 1;
            continue;
        }
        let n = match read::new_locked_pages(mm, mapping, at, BATCH.min(end - at)).await {
            Err(e) if at == start => return Err(e),
            Err(_) => break,
            Ok(n) => n,
        };
        for index in at..at + n {
            let pfn = mm.find_page(mapping, index).expect("a locked page stays");
            let marked = if mark == Some(index) {
                flag::READAHEAD
            } else {
                0
            };
            mm.frames.set_flags(pfn, flag::UNUSED | marked);
            mm.world.dropped.read(mapping, index);
        }
        read::fill_from_device(mm, mapping, at, n).await;
        at += n;
        mm.world.relax().await;
    }
    Ok(())
}

/// A read met a cached page: if it is marked, the next window is read, unless the device has too many
/// requests already.
pub(super) async fn met<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    window: &Window,
    (index, wanted): (u32, u32),
    last_page: u32,
    pfn: Pfn,
) -> Result<(), FsError> {
    if mm.frames.has(pfn, flag::WRITEBACK) {
        return Ok(());
    }
    mm.frames.clear_flags(pfn, flag::READAHEAD);
    let bdi = mm.mappings[mapping as usize].bdi();
    if mm.world.bdi_congested(bdi, Class::Sync) {
        return Ok(());
    }
    on_demand(mm, mapping, window, (index, wanted), last_page, true).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads pages one by one from `from` on with nothing cached but what windows brought in;
    /// returns the windows as start, size and mark.
    fn sequential(from: u32, pages: u32) -> Vec<(u32, u32, u32)> {
        let w = Window::default();
        w.passed(from.saturating_sub(1));
        let mut windows = Vec::new();
        let mut marks = Vec::new();
        for index in from..from + pages {
            let cached = windows.iter().any(|&(s, n, _)| (s..s + n).contains(&index));
            let marked = marks.contains(&index);
            if !cached || marked {
                w.move_to(index, 1, 32, marked, || None, || 0);
                let mark = w.start.get() + w.size.get() - w.ahead.get();
                windows.push((w.start.get(), w.size.get(), mark));
                marks.push(mark);
            }
            w.passed(index);
        }
        windows
    }

    #[test]
    fn windows_grow_to_the_maximum_and_stay_one_ahead() {
        let w = sequential(0, 200);
        assert_eq!(w[..4], [(0, 4, 1), (4, 8, 4), (12, 16, 12), (28, 32, 28)]);
        assert!(
            w[4..].iter().all(|&(s, n, mark)| n == 32 && mark == s),
            "{w:?}"
        );
    }

    /// Faults on mapped pages one by one: the first miss reads around, every mark has the window behind
    /// read; each page comes in once.
    #[test]
    fn a_window_around_a_miss_goes_on_at_its_mark() {
        let w = Window::default();
        w.around(100, 32, true);
        let window = || {
            (
                w.start.get(),
                w.size.get(),
                w.start.get() + w.size.get() - w.ahead.get(),
            )
        };
        assert_eq!(window(), (84, 32, 108));
        for (met, then) in [
            (108, (116, 32, 116)),
            (116, (148, 32, 148)),
            (148, (180, 32, 180)),
        ] {
            let moved = w.move_to(met, 32, 32, true, || None, || 0);
            assert!(matches!(moved, Moved::Window));
            assert_eq!(window(), then);
        }
        // At a file's beginning it is no smaller.
        w.around(3, 32, true);
        assert_eq!(window(), (0, 32, 24));
        w.around(3, 32, false);
        assert_eq!(window().2, 32, "no mark: behind the last page");
    }

    #[test]
    fn in_the_middle_of_a_file_a_second_page_in_a_row_opens_a_window() {
        let w = Window::default();
        assert!(matches!(
            w.move_to(500, 1, 32, false, || None, || 0),
            Moved::Small
        ));
        w.passed(500);
        assert!(matches!(
            w.move_to(501, 1, 32, false, || None, || 1),
            Moved::Window
        ));
        assert_eq!((w.start.get(), w.size.get()), (501, 4));
        // Behind many cached pages, of which nobody knows who read them.
        let w = Window::default();
        w.move_to(900, 1, 32, false, || None, || 20);
        assert_eq!((w.start.get(), w.size.get(), w.ahead.get()), (900, 21, 1));
    }
}
