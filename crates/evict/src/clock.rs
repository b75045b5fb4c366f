//! CLOCK (Corbató 1968, "A paging experiment with the Multics system"), as a queue: the hand is
//! the queue's oldest end, and to pass a page is to move it to the newest end.

use crate::{Dirty, Lists, Policy, Slot};

/// First in, first out, with another round for pages that were used since the last one.
#[derive(Debug, Clone)]
pub struct Clock {
    queue: Lists,
    used: Vec<bool>,
}

impl Policy for Clock {
    /// Creates CLOCK for an empty cache of `slots` slots: one queue, and a bit for each slot.
    fn new(slots: u32) -> Self {
        Self {
            queue: Lists::new(slots, 1),
            used: vec![false; slots as usize],
        }
    }

    /// Adds the page brought into `slot` as the newest of the queue, not used yet.
    #[inline]
    fn admit(&mut self, slot: Slot, _object: u64) {
        self.used[slot as usize] = false;
        self.queue.push_newest(0, slot);
    }

    /// Records a use of the page in `slot`: the hand will pass it once.
    #[inline]
    fn access(&mut self, slot: Slot) {
        self.used[slot as usize] = true;
    }

    /// Takes out the oldest page that was not used since the hand last passed, and returns its
    /// slot; `None` if the queue is empty. Pages that were used lose their bit and move to the
    /// newest end, for another round.
    #[inline]
    fn evict(&mut self) -> Option<Slot> {
        loop {
            let slot = self.queue.oldest(0)?;
            if !std::mem::take(&mut self.used[slot as usize]) {
                self.queue.unlink(slot);
                return Some(slot);
            }
            self.queue.renew(0, slot);
        }
    }

    fn remove(&mut self, slot: Slot) {
        self.queue.unlink(slot);
    }

    /// Puts the page that `evict` chose back at the newest end, because it is dirty; asks the cache
    /// to write it in the background and to choose another page.
    fn dirty(&mut self, slot: Slot) -> Dirty {
        self.queue.push_newest(0, slot);
        Dirty::WriteBehind
    }
}
