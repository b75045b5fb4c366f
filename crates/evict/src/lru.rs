//! Least recently used.

use crate::{Dirty, Lists, Policy, Slot};

/// Evicts the page whose last use is longest ago.
#[derive(Debug, Clone)]
pub struct Lru {
    list: Lists,
}

impl Policy for Lru {
    /// Creates the policy "least recently used" for an empty cache of `slots` slots.
    fn new(slots: u32) -> Self {
        Self {
            list: Lists::new(slots, 1),
        }
    }

    /// Adds the page brought into `slot` as the most recently used.
    #[inline]
    fn admit(&mut self, slot: Slot, _object: u64) {
        self.list.push_newest(0, slot);
    }

    /// Moves the used page in `slot` to the newest end of the list.
    #[inline]
    fn access(&mut self, slot: Slot) {
        self.list.renew(0, slot);
    }

    /// Takes out the page whose last use is longest ago and returns its slot; `None` if there is no
    /// page.
    #[inline]
    fn evict(&mut self) -> Option<Slot> {
        let slot = self.list.oldest(0)?;
        self.list.unlink(slot);
        Some(slot)
    }

    fn remove(&mut self, slot: Slot) {
        self.list.unlink(slot);
    }

    /// Puts the page that `evict` chose back at the newest end, because it is dirty; asks the cache
    /// to write it in the background and to choose another page.
    fn dirty(&mut self, slot: Slot) -> Dirty {
        self.list.push_newest(0, slot);
        Dirty::WriteBehind
    }
}
