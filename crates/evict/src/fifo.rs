//! First in, first out.

use crate::{Dirty, Lists, Policy, Slot};

/// Evicts the page that came first, however much it is used.
#[derive(Debug, Clone)]
pub struct Fifo {
    queue: Lists,
}

impl Policy for Fifo {
    /// Creates the policy "first in, first out" for an empty cache of `slots` slots.
    fn new(slots: u32) -> Self {
        Self {
            queue: Lists::new(slots, 1),
        }
    }

    /// Adds the page brought into `slot` as the newest of the queue.
    #[inline]
    fn admit(&mut self, slot: Slot, _object: u64) {
        self.queue.push_newest(0, slot);
    }

    #[inline]
    fn access(&mut self, _slot: Slot) {}

    /// Takes out the page that came first and returns its slot; `None` if there is no page.
    #[inline]
    fn evict(&mut self) -> Option<Slot> {
        let slot = self.queue.oldest(0)?;
        self.queue.unlink(slot);
        Some(slot)
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
