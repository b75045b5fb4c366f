//! Read-ahead on demand (Linux 2.6.23 to 4.x, mm/readahead.c): a window for each open file that
//! grows while reads are sequential, and a mark on a page in it. A read of the marked page starts
//! to read the next window while the rest of this one is used, so that the device always has the
//! next request.
//!
//! This module only decides, without pages or devices: every world reads windows in its own way.

/// The window of an open file, in pages (`struct file_ra_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Window {
    /// The first page of the window.
    pub start: u32,
    /// The number of pages in the window.
    pub size: u32,
    /// The distance of the mark from the window's end, in pages.
    pub ahead: u32,
    /// The last page read, counted from 1.
    pub previous: u32,
}

/// The pages that a read has to fetch after it found a page missing, or marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// The window, as it is now.
    Window,
    /// Only the pages that the read wants.
    Small,
    /// No pages.
    Nothing,
}

/// A read that found a page missing, or marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missed {
    /// The page.
    pub index: u32,
    /// Pages that the read wants from there on.
    pub wanted: u32,
    /// The page is cached and marked.
    pub marked: bool,
}

/// Returns the size of the first window, in pages, for a read of `wanted` pages: up to four times
/// as many, at most `most` (Linux `get_init_ra_size`).
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

/// Returns the size of the window, in pages, after one of `size` pages: two or four times as many,
/// at most `most` (Linux `get_next_ra_size`).
fn next_size(size: u32, most: u32) -> u32 {
    let faster = if size < most / 16 { 4 } else { 2 };
    (size * faster).min(most)
}

impl Window {
    /// Returns the marked page, or the one behind the last if none is marked.
    pub fn mark(&self) -> u32 {
        self.start + self.size - self.ahead
    }

    /// Sets the window's first page, its number of pages, and the distance of its mark from its
    /// end.
    fn set(&mut self, start: u32, size: u32, ahead: u32) {
        (self.start, self.size, self.ahead) = (start, size, ahead);
    }

    /// Opens the first window of a sequence at page `index`, with its mark behind the `wanted`
    /// pages that the read needs now. `most`: largest window.
    fn open_at(&mut self, index: u32, wanted: u32, most: u32) {
        let size = initial_size(wanted, most);
        self.set(
            index,
            size,
            if size > wanted { size - wanted } else { size },
        );
    }

    /// Sets the window of `most` pages around page `index` that a fault misses, half of it before
    /// the page; `marked`: with a mark a quarter before its end (mm/filemap.c,
    /// `do_sync_mmap_readahead`).
    pub fn around(&mut self, index: u32, most: u32, marked: bool) {
        debug_assert!(most <= 1 << 20, "a window of {most} pages");
        let ahead = if marked { most / 4 } else { 0 };
        self.set(index.saturating_sub(most / 2), most, ahead);
    }

    /// Notes that page `index` was the last one read.
    pub fn passed(&mut self, index: u32) {
        self.previous = index.saturating_add(1);
    }

    /// Moves an open file's read-ahead window, of at most `most` pages, for a read that found a
    /// page missing, or marked (`ondemand_readahead`). `hole` returns the first page behind it that
    /// is not cached, if there is one within `most` pages; `history` returns how many pages in
    /// front of it are cached, up to `most`. Returns which pages to read now.
    pub fn move_to(
        &mut self,
        missed: Missed,
        most: u32,
        hole: impl FnOnce() -> Option<u32>,
        history: impl FnOnce() -> u32,
    ) -> Moved {
        debug_assert!(missed.wanted > 0, "nothing is asked for");
        let Missed { index, wanted, .. } = missed;
        let (start, size, ahead) = (self.start, self.size, self.ahead);
        let end = start.saturating_add(size);
        let sequential =
            size > 0 && (index == end || index == end.saturating_sub(ahead) && ahead > 0);
        // The start of a file is taken for the start of a sequence.
        if index == 0 {
            self.open_at(index, wanted, most);
        } else if sequential {
            let size = next_size(size, most);
            self.set(end, size, size);
        } else if missed.marked {
            // A mark of another sequence: the window continues at the first page that is missing.
            let Some(at) = hole() else {
                return Moved::Nothing;
            };
            let size = next_size(at - index + wanted, most);
            self.set(at, size, size);
        } else if wanted > most || index.wrapping_sub(self.previous.wrapping_sub(1)) <= 1 {
            // The last page again, or the one behind it. If nothing was read yet, no page counts as
            // the one behind.
            self.open_at(index, wanted, most);
        } else {
            // The pages cached before this one say whether it continues a sequence.
            let before = history();
            if before <= wanted {
                return Moved::Small;
            }
            let before = if before >= index { before * 2 } else { before };
            self.set(index, (before + wanted).min(most), 1);
        }
        // This read itself would hit a mark on the first page, so the next window is read along
        // with it.
        if index == self.start && self.size == self.ahead {
            let next = next_size(self.size, most);
            self.ahead = next;
            self.size += next;
        }
        Moved::Window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missed(index: u32, wanted: u32) -> Missed {
        Missed {
            index,
            wanted,
            marked: false,
        }
    }

    /// Reads pages one by one from `from` on with nothing cached but what windows brought in;
    /// returns the windows as start, size and mark.
    fn sequential(from: u32, pages: u32) -> Vec<(u32, u32, u32)> {
        let mut w = Window::default();
        w.passed(from.saturating_sub(1));
        let mut windows = Vec::new();
        let mut marks = Vec::new();
        for index in from..from + pages {
            let cached = windows.iter().any(|&(s, n, _)| (s..s + n).contains(&index));
            let marked = marks.contains(&index);
            if !cached || marked {
                let read = Missed {
                    marked,
                    ..missed(index, 1)
                };
                w.move_to(read, 32, || None, || 0);
                windows.push((w.start, w.size, w.mark()));
                marks.push(w.mark());
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

    /// Checks faults on mapped pages one by one: the first miss reads around, every mark reads the
    /// window behind; each page is read once.
    #[test]
    fn a_window_around_a_miss_goes_on_at_its_mark() {
        let mut w = Window::default();
        w.around(100, 32, true);
        assert_eq!((w.start, w.size, w.mark()), (84, 32, 108));
        for (met, then) in [
            (108, (116, 32, 116)),
            (116, (148, 32, 148)),
            (148, (180, 32, 180)),
        ] {
            let read = Missed {
                marked: true,
                ..missed(met, 32)
            };
            let moved = w.move_to(read, 32, || None, || 0);
            assert_eq!(moved, Moved::Window);
            assert_eq!((w.start, w.size, w.mark()), then);
        }
        // At the beginning of a file the window is no smaller.
        w.around(3, 32, true);
        assert_eq!((w.start, w.size, w.mark()), (0, 32, 24));
        w.around(3, 32, false);
        assert_eq!(w.mark(), 32, "no mark: behind the last page");
    }

    #[test]
    fn in_the_middle_of_a_file_a_second_page_in_a_row_opens_a_window() {
        let mut w = Window::default();
        let moved = w.move_to(missed(500, 1), 32, || None, || 0);
        assert_eq!(moved, Moved::Small);
        w.passed(500);
        let moved = w.move_to(missed(501, 1), 32, || None, || 1);
        assert_eq!(moved, Moved::Window);
        assert_eq!((w.start, w.size), (501, 4));
        // The page in front of the last one is not in order, and neither is page 1 of a file of
        // which nothing was read: the kernel's difference is unsigned.
        for (before, index) in [(Some(500), 499), (None, 1)] {
            let mut w = Window::default();
            if let Some(before) = before {
                w.passed(before);
            }
            let moved = w.move_to(missed(index, 1), 32, || None, || 0);
            assert_eq!(moved, Moved::Small, "{index} behind {before:?}");
        }
        // Behind many cached pages, read by an unknown reader.
        let mut w = Window::default();
        w.move_to(missed(900, 1), 32, || None, || 20);
        assert_eq!((w.start, w.size, w.ahead), (900, 21, 1));
    }
}
