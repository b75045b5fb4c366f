//! W-TinyLFU (Einziger, Friedman and Manes 2017, "TinyLFU: A highly efficient cache admission
//! policy", ACM Transactions on Storage).
//!
//! New pages are in a small LRU **window**. A page that leaves the window may join the main part
//! only if it was requested more often lately than the page that would have to leave for it; a
//! [sketch](crate::sketch) knows how often for all objects, in the cache or not. The main part is a
//! segmented LRU: pages come into **probation** and move to the **protected** segment when they are
//! used; if that is too large, its oldest page goes back to probation.
//!
//! A cache that makes room for one page at a time compares each page that leaves the window with
//! one victim. Linux's reclaim makes room for a batch of pages at a time, so pages leave the window
//! while there is room: they are **candidates** behind the window, and each is compared when the
//! next pages have to leave (so does Caffeine, the authors' cache, in its maintenance). Only before
//! the first page has had to leave do pages join probation without a comparison.
//!
//! The paper's doorkeeper, which keeps objects requested once out of the sketch, is left out: it
//! would save memory in the sketch, which here has four counters in each row for each page.

use crate::sketch::Sketch;
use crate::lists::Counted;
use crate::{Dirty, Policy, Slot};

const WINDOW: u32 = 0;
const PROBATION: u32 = 1;
const PROTECTED: u32 = 2;
/// Pages that left the window while there was room, and were not yet compared.
const CANDIDATES: u32 = 3;

/// The window's share of the cache: one page in this many, the paper's 1 %; at least one page.
const WINDOW_SHARE: u32 = 100;
/// The protected segment's share of the main part, in percent.
const PROTECTED_PERCENT: u64 = 80;

/// A window, and a segmented LRU that admits only objects requested more often than its victim.
#[derive(Debug, Clone)]
pub struct WTinyLfu {
    lists: Counted<4>,
    objects: Vec<u64>,
    sketch: Sketch,
    /// Pages of a full cache: the number of pages when room was last made.
    full: u32,
    /// True if a page has had to leave since the cache was made.
    was_full: bool,
}

impl WTinyLfu {
    /// Returns how many pages the window may have: a hundredth of a full cache, at least one.
    fn most_in_window(&self) -> u32 {
        (self.full / WINDOW_SHARE).max(1)
    }

    /// Moves the oldest page of the list `from` to the newest end of the list `to`.
    fn move_oldest(&mut self, from: u32, to: u32) {
        if let Some(slot) = self.lists.oldest(from) {
            self.lists.unlink(slot);
            self.lists.push(to, slot);
        }
    }

    /// Returns the page to compare with the victim, and its list: the oldest one that left the
    /// window without a comparison, else the window's oldest if the window is full.
    fn candidate(&self) -> Option<(Slot, u32)> {
        if let Some(slot) = self.lists.oldest(CANDIDATES) {
            return Some((slot, CANDIDATES));
        }
        let is_full = self.lists.pages[WINDOW as usize] >= self.most_in_window();
        let oldest = self.lists.oldest(WINDOW).filter(|_| is_full);
        oldest.map(|slot| (slot, WINDOW))
    }

    /// Returns the page of the main part that would leave: the oldest of probation, else the oldest
    /// protected one; `None` if the main part is empty.
    fn victim(&self) -> Option<Slot> {
        let oldest = self.lists.oldest(PROBATION);
        oldest.or_else(|| self.lists.oldest(PROTECTED))
    }

    /// Returns how often the object in `slot` was requested lately, as the sketch knows it: 0 to
    /// 15.
    fn count(&self, slot: Slot) -> u8 {
        self.sketch.count(self.objects[slot as usize])
    }
}

impl Policy for WTinyLfu {
    /// Creates W-TinyLFU for an empty cache of `slots` slots.
    fn new(slots: u32) -> Self {
        Self {
            lists: Counted::new(slots),
            objects: vec![0; slots as usize],
            sketch: Sketch::new(slots),
            full: slots,
            was_full: false,
        }
    }

    /// Counts a request for `object`, which is not in the cache, in the sketch.
    #[inline]
    fn miss(&mut self, object: u64) {
        self.sketch.add(object);
    }

    /// Adds the page of `object`, just brought into `slot`, to the window. If the window is then
    /// too large, its oldest pages leave it: as candidates, or into the main part of a cache that
    /// has not been full yet.
    #[inline]
    fn admit(&mut self, slot: Slot, object: u64) {
        self.objects[slot as usize] = object;
        self.lists.push(WINDOW, slot);
        let to = if self.was_full { CANDIDATES } else { PROBATION };
        while self.lists.pages[WINDOW as usize] > self.most_in_window() {
            self.move_oldest(WINDOW, to);
        }
    }

    /// Records a use of the page in `slot`: the sketch counts the request, a page on probation or
    /// a candidate moves to the protected segment, another one becomes the newest of its list. If
    /// the protected segment is then too large, its oldest page goes back to probation.
    #[inline]
    fn access(&mut self, slot: Slot) {
        self.sketch.add(self.objects[slot as usize]);
        let list = self.lists.of(slot);
        if list != PROBATION && list != CANDIDATES {
            self.lists.renew(slot);
            return;
        }
        self.lists.unlink(slot);
        self.lists.push(PROTECTED, slot);
        let main = u64::from(self.full - self.most_in_window().min(self.full));
        if u64::from(self.lists.pages[PROTECTED as usize]) > main * PROTECTED_PERCENT / 100 {
            self.move_oldest(PROTECTED, PROBATION);
        }
    }

    /// Takes out a page and returns its slot; `None` if there is no page. Where a candidate is due,
    /// it leaves, unless it was requested more often lately than the main part's victim: then the
    /// victim leaves and the candidate joins the main part.
    fn evict(&mut self) -> Option<Slot> {
        let pages: u32 = self.lists.pages.iter().sum();
        if pages == 0 {
            return None;
        }
        self.full = pages;
        self.was_full = true;
        let slot = match (self.candidate(), self.victim()) {
            (Some((candidate, from)), Some(victim)) => {
                if self.count(candidate) > self.count(victim) {
                    self.move_oldest(from, PROBATION);
                    victim
                } else {
                    candidate
                }
            }
            (Some((candidate, _)), None) => candidate,
            (None, Some(victim)) => victim,
            (None, None) => self.lists.oldest(WINDOW)?,
        };
        self.lists.unlink(slot);
        Some(slot)
    }

    fn remove(&mut self, slot: Slot) {
        self.lists.unlink(slot);
    }

    /// Puts the page that `evict` chose back at the newest end of its list, because it is dirty;
    /// asks the cache to write it in the background and to choose another page. A candidate goes
    /// to probation: as a candidate it would be chosen again before any clean page is.
    fn dirty(&mut self, slot: Slot) -> Dirty {
        let list = match self.lists.of(slot) {
            CANDIDATES => PROBATION,
            list => list,
        };
        self.lists.push(list, slot);
        Dirty::WriteBehind
    }
}
