//! SIEVE (Zhang, Yang, Yue, Vigfusson, Rashmi 2024, "SIEVE is simpler than LRU", NSDI).

use crate::{Dirty, Lists, Policy, Slot};

/// A queue with a hand that moves from the oldest to the newest end, and starts again: the first
/// page that was not used since the hand last passed is evicted. Pages keep their places.
#[derive(Debug, Clone)]
pub struct Sieve {
    queue: Lists,
    used: Vec<bool>,
    /// The page at which the search continues; `None`: at the oldest end.
    hand: Option<Slot>,
}

impl Policy for Sieve {
    /// Creates SIEVE for an empty cache of `slots` slots: a queue, a bit for each slot, and a hand.
    fn new(slots: u32) -> Self {
        Self {
            queue: Lists::new(slots, 1),
            used: vec![false; slots as usize],
            hand: None,
        }
    }

    /// Adds the page brought into `slot` as the newest of the queue, not used yet.
    #[inline]
    fn admit(&mut self, slot: Slot, _object: u64) {
        self.used[slot as usize] = false;
        self.queue.push_newest(0, slot);
    }

    /// Marks the page in `slot` as used: the hand will pass it once.
    #[inline]
    fn access(&mut self, slot: Slot) {
        self.used[slot as usize] = true;
    }

    /// Moves the hand from the older to the newer pages, and round again, to the first page that is
    /// not marked as used; takes that page out and returns its slot. Pages on the way lose their
    /// mark and keep their places. `None` if there is no page.
    #[inline]
    fn evict(&mut self) -> Option<Slot> {
        let mut at = self.hand.or_else(|| self.queue.oldest(0))?;
        while std::mem::take(&mut self.used[at as usize]) {
            at = self.queue.newer(at).or_else(|| self.queue.oldest(0))?;
        }
        self.hand = self.queue.newer(at);
        self.queue.unlink(at);
        Some(at)
    }

    /// Takes the page in `slot`, whose object is gone, out of the queue; a hand that points at it
    /// moves on.
    fn remove(&mut self, slot: Slot) {
        if self.hand == Some(slot) {
            self.hand = self.queue.newer(slot);
        }
        self.queue.unlink(slot);
    }

    /// Puts the page that `evict` chose back at its place, which the hand has just passed, because
    /// it is dirty; asks the cache to write it in the background and to choose another page.
    fn dirty(&mut self, slot: Slot) -> Dirty {
        match self.hand {
            Some(hand) => self.queue.push_behind(hand, slot),
            None => self.queue.push_newest(0, slot),
        }
        Dirty::WriteBehind
    }
}
