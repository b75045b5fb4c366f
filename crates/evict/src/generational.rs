//! A generational LRU after Linux's multi-generational one (mm/vmscan.c since 6.1, for pages used
//! through read(2) and write(2)).
//!
//! There are four generations. New pages join the oldest one. A use is only counted; what it is
//! worth is decided when the page comes up for eviction: pages that were used move to a younger
//! generation, as many as their tier says, and the others leave. When the oldest generation is
//! empty the next one is the oldest, and a new one is opened. Linux has two to four generations and
//! decides by refaults which tiers are protected; here every tier above the lowest is.

use crate::{Dirty, Lists, Policy, Slot};

const GENERATIONS: u32 = 4;
/// Uses that are counted.
const USES: u8 = 7;

/// Evicts from the oldest generation what was not used; used pages move to younger ones.
#[derive(Debug)]
pub struct Generational {
    /// Generation g is list g modulo [`GENERATIONS`].
    lists: Lists,
    /// The oldest generation's number.
    oldest: u64,
    uses: Vec<u8>,
    pages: u32,
}

impl Generational {
    #[inline]
    fn list(generation: u64) -> u32 {
        (generation % u64::from(GENERATIONS)) as u32
    }

    #[inline]
    fn push(&mut self, generation: u64, slot: Slot) {
        self.uses[slot as usize] = 0;
        self.lists.push_newest(Self::list(generation), slot);
    }

    /// Generations that uses carry a page by: 1 by one use, 2 by up to three, 3 by more.
    #[inline]
    fn tier(uses: u8) -> u64 {
        (uses + 1).ilog2().into()
    }
}

impl Policy for Generational {
    fn new(slots: u32) -> Self {
        Self {
            lists: Lists::new(slots, GENERATIONS),
            oldest: 0,
            uses: vec![0; slots as usize],
            pages: 0,
        }
    }

    #[inline]
    fn admit(&mut self, slot: Slot, _object: u64) {
        self.pages += 1;
        self.push(self.oldest, slot);
    }

    #[inline]
    fn access(&mut self, slot: Slot) {
        let uses = &mut self.uses[slot as usize];
        *uses = (*uses + 1).min(USES);
    }

    fn evict(&mut self) -> Option<Slot> {
        if self.pages == 0 {
            return None;
        }
        loop {
            let Some(slot) = self.lists.oldest(Self::list(self.oldest)) else {
                self.oldest += 1;
                continue;
            };
            self.lists.unlink(slot);
            let tier = Self::tier(self.uses[slot as usize]);
            if tier == 0 {
                self.pages -= 1;
                return Some(slot);
            }
            self.push(self.oldest + tier, slot);
        }
    }

    fn remove(&mut self, slot: Slot) {
        self.pages -= 1;
        self.lists.unlink(slot);
    }

    /// The page joins the next generation, as Linux does with pages that wait for the disk.
    fn dirty(&mut self, slot: Slot) -> Dirty {
        self.pages += 1;
        self.push(self.oldest + 1, slot);
        Dirty::WriteBehind
    }
}
