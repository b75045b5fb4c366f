//! Least frequently used, with counts that are halved from time to time (Robinson and Devarakonda
//! 1990, "Data cache management using frequency-based replacement").
//!
//! Pages of equal count are in one list, least recently used first. Halving joins lists 2k and
//! 2k+1 to list k, which costs the same for any number of pages; a page's own count is halved when
//! it is next looked at, by the number of halvings since it was written down.

use crate::{Dirty, Lists, Policy, Slot};

/// Counts stay below this number.
const COUNTS: u32 = 64;
/// Requests between two halvings, as a multiple of the number of slots.
const PERIOD: u64 = 8;

/// Evicts the page with the fewest uses, recent ones counting more.
#[derive(Debug, Clone)]
pub struct LfuAgeing {
    /// One list for each count.
    lists: Lists,
    /// Bit k: list k is not empty.
    filled: u64,
    slots: Vec<Count>,
    halvings: u32,
    period: u64,
    left: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    count: u32,
    /// The number of halvings when `count` was written.
    halvings: u32,
}

impl LfuAgeing {
    /// Returns the use count of the page in `slot`. The stored count is halved once for each
    /// halving of all counts that came after it was written.
    #[inline]
    fn count(&self, slot: Slot) -> u32 {
        let known = self.slots[slot as usize];
        let since = self.halvings.wrapping_sub(known.halvings);
        known.count.checked_shr(since).unwrap_or(0)
    }

    /// Puts the page in `slot` at the newest end of the list of pages with `count` uses.
    #[inline]
    fn push(&mut self, count: u32, slot: Slot) {
        self.slots[slot as usize] = Count {
            count,
            halvings: self.halvings,
        };
        self.lists.push_newest(count, slot);
        self.filled |= 1 << count;
    }

    /// Takes the page in `slot` out of the list of its count, and returns the count.
    #[inline]
    fn take(&mut self, slot: Slot) -> u32 {
        let count = self.count(slot);
        self.lists.unlink(slot);
        if self.lists.is_empty(count) {
            self.filled &= !(1 << count);
        }
        count
    }

    /// Counts a request down, and halves all counts at the end of a period (eight times the cache's
    /// slots), so that recent uses count more.
    #[inline]
    fn tick(&mut self) {
        self.left -= 1;
        if self.left == 0 {
            self.halve();
        }
    }

    /// Halves the counts of all pages at once by joining lists 2k and 2k+1 to list k, and begins a
    /// new period.
    #[cold]
    fn halve(&mut self) {
        self.left = self.period;
        self.halvings = self.halvings.wrapping_add(1);
        self.filled = 0;
        for count in 0..COUNTS {
            self.lists.append(count / 2, count);
        }
        for count in 0..COUNTS / 2 {
            self.filled |= u64::from(!self.lists.is_empty(count)) << count;
        }
    }
}

impl Policy for LfuAgeing {
    /// Creates "least frequently used, with ageing" for an empty cache of `slots` slots: one list
    /// for each count below `COUNTS`.
    fn new(slots: u32) -> Self {
        let period = PERIOD * u64::from(slots);
        Self {
            lists: Lists::new(slots, COUNTS),
            filled: 0,
            slots: vec![Count::default(); slots as usize],
            halvings: 0,
            period,
            left: period,
        }
    }

    /// Adds the page brought into `slot` with a count of 1, and counts the request.
    #[inline]
    fn admit(&mut self, slot: Slot, _object: u64) {
        self.push(1, slot);
        self.tick();
    }

    /// Counts a use of the page in `slot` by moving it to the list of the next higher count, below
    /// `COUNTS`.
    #[inline]
    fn access(&mut self, slot: Slot) {
        let count = self.take(slot);
        self.push((count + 1).min(COUNTS - 1), slot);
        self.tick();
    }

    /// Takes out the least recently used of the pages with the lowest count, and returns its slot;
    /// `None` if there is no page. The count stays stored for `dirty`, which may put the page back.
    #[inline]
    fn evict(&mut self) -> Option<Slot> {
        if self.filled == 0 {
            return None;
        }
        // Bit k of `filled` says that list k has pages.
        let slot = self.lists.oldest(self.filled.trailing_zeros())?;
        let count = self.take(slot);
        self.slots[slot as usize] = Count {
            count,
            halvings: self.halvings,
        };
        Some(slot)
    }

    fn remove(&mut self, slot: Slot) {
        self.take(slot);
    }

    /// Puts the page that `evict` chose back with its count, as the newest of that count, because
    /// it is dirty; asks the cache to write it in the background and to choose another page.
    fn dirty(&mut self, slot: Slot) -> Dirty {
        let count = self.count(slot);
        self.push(count, slot);
        Dirty::WriteBehind
    }
}
