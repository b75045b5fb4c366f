//! First in, first out.

use crate::{Dirty, Lists, Policy, Slot};

/// Evicts the page that came first, however much it is used.
#[derive(Debug)]
pub struct Fifo {
    queue: Lists,
}

impl Policy for Fifo {
    fn new(slots: u32) -> Self {
        Self {
            queue: Lists::new(slots, 1),
        }
    }

    #[inline]
    fn admit(&mut self, slot: Slot, _object: u64) {
        self.queue.push_newest(0, slot);
    }

    #[inline]
    fn access(&mut self, _slot: Slot) {}

    #[inline]
    fn evict(&mut self) -> Option<Slot> {
        let slot = self.queue.oldest(0)?;
        self.queue.unlink(slot);
        Some(slot)
    }

    fn remove(&mut self, slot: Slot) {
        self.queue.unlink(slot);
    }

    fn dirty(&mut self, slot: Slot) -> Dirty {
        self.queue.push_newest(0, slot);
        Dirty::WriteBehind
    }
}
