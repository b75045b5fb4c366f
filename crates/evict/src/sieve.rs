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
    fn new(slots: u32) -> Self {
        Self {
            queue: Lists::new(slots, 1),
            used: vec![false; slots as usize],
            hand: None,
        }
    }

    #[inline]
    fn admit(&mut self, slot: Slot, _object: u64) {
        self.used[slot as usize] = false;
        self.queue.push_newest(0, slot);
    }

    #[inline]
    fn access(&mut self, slot: Slot) {
        self.used[slot as usize] = true;
    }

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

    fn remove(&mut self, slot: Slot) {
        if self.hand == Some(slot) {
            self.hand = self.queue.newer(slot);
        }
        self.queue.unlink(slot);
    }

    /// Puts the page back at its place, which the hand has passed.
    fn dirty(&mut self, slot: Slot) -> Dirty {
        match self.hand {
            Some(hand) => self.queue.push_behind(hand, slot),
            None => self.queue.push_newest(0, slot),
        }
        Dirty::WriteBehind
    }
}
