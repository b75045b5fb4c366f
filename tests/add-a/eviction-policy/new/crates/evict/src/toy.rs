//! An example of an eviction policy: last in, first out.

use crate::{Dirty, Lists, Policy, Slot};

/// Evicts the page that came last.
#[derive(Debug, Clone)]
pub struct Toy {
    stack: Lists,
}

impl Policy for Toy {
    fn new(slots: u32) -> Self {
        Self {
            stack: Lists::new(slots, 1),
        }
    }

    fn admit(&mut self, slot: Slot, _object: u64) {
        self.stack.push_oldest(0, slot); // The slot is the next victim.
    }

    fn access(&mut self, _slot: Slot) {}

    fn evict(&mut self) -> Option<Slot> {
        let slot = self.stack.oldest(0)?;
        self.stack.unlink(slot);
        Some(slot)
    }

    fn remove(&mut self, slot: Slot) {
        self.stack.unlink(slot);
    }

    fn dirty(&mut self, slot: Slot) -> Dirty {
        self.stack.push_newest(0, slot);
        Dirty::WriteBehind
    }
}
