//! Least recently used.

use crate::{Dirty, Lists, Policy, Slot};

/// Evicts the page whose last use is longest ago.
#[derive(Debug)]
pub struct Lru {
    list: Lists,
}

impl Policy for Lru {
    fn new(slots: u32) -> Self {
        Self {
            list: Lists::new(slots, 1),
        }
    }

    #[inline]
    fn admit(&mut self, slot: Slot, _object: u64) {
        self.list.push_newest(0, slot);
    }

    #[inline]
    fn access(&mut self, slot: Slot) {
        self.list.renew(0, slot);
    }

    #[inline]
    fn evict(&mut self) -> Option<Slot> {
        let slot = self.list.oldest(0)?;
        self.list.unlink(slot);
        Some(slot)
    }

    fn remove(&mut self, slot: Slot) {
        self.list.unlink(slot);
    }

    fn dirty(&mut self, slot: Slot) -> Dirty {
        self.list.push_newest(0, slot);
        Dirty::WriteBehind
    }
}
