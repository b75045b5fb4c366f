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
    fn new(slots: u32) -> Self {
        Self {
            queue: Lists::new(slots, 1),
            used: vec![false; slots as usize],
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

    fn dirty(&mut self, slot: Slot) -> Dirty {
        self.queue.push_newest(0, slot);
        Dirty::WriteBehind
    }
}
