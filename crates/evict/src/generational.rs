//! Linux's multi-generational LRU (mm/vmscan.c and mm/workingset.c of 6.1, `CONFIG_LRU_GEN`), for
//! file pages that are used through read(2) and write(2).
//!
//! # Generations
//!
//! Pages are in generations, numbered from `min_seq`, the oldest, to `max_seq`, the youngest; there
//! are two to four. Pages leave from the oldest end of the oldest generation. When that is empty,
//! `min_seq` is incremented, which eviction must not do while there are only two: then, and when
//! the oldest holds less than a quarter of all pages (or the youngest more than half), **aging**
//! opens a new youngest one.
//!
//! A new page joins the *oldest* generation: a page that was read is not hot, only one that was
//! faulted in is (which takes mapped memory, and no hook reports it). So a generation is a queue.
//!
//! # Tiers
//!
//! A use through a descriptor moves nothing: it is counted, as far as five bits of the page's flags
//! can count it. The tier is the logarithm: 0 for one use, 1 for two, 2 for three or four, 3 for
//! five or more. When a page comes up for eviction and its tier is **protected**, it joins the next
//! generation at the oldest end and its uses are forgotten; otherwise it leaves.
//!
//! Feedback decides which tiers are protected. For each tier the policy counts how many pages came
//! up (evicted or protected) and how many of the evicted were read again (refaults), since
//! `min_seq` was last incremented, plus earlier counts, which are halved at each increment. A tier
//! is protected, and all above it, when the share of its pages that came back is more than twice
//! the first tier's. Where no page comes back none is protected: pages leave in the order in which
//! they came.
//!
//! docs/eviction.md lists the differences from the kernel.

use crate::{Dirty, Ghost, Lists, Policy, Slot};

/// The least number of generations: MIN_NR_GENS.
const MIN_GENERATIONS: u64 = 2;
/// The largest number of generations: MAX_NR_GENS.
const MAX_GENERATIONS: u64 = 4;
/// Tiers: MAX_NR_TIERS.
const TIERS: usize = 4;
/// The most uses that are counted: the values that PG_referenced, PG_workingset and two bits of
/// LRU_REFS_MASK can represent.
const USES: u8 = 5;
/// Refaults below which a tier's share of them means nothing: MIN_LRU_BATCH on 64 bits.
const MIN_BATCH: u64 = 64;

/// Two to four generations; feedback from refaults decides which often used pages stay.
#[derive(Debug, Clone)]
pub struct Generational {
    /// Generation g is list g modulo [`MAX_GENERATIONS`].
    lists: Lists,
    /// Pages of each list.
    sizes: [u32; MAX_GENERATIONS as usize],
    min_seq: u64,
    max_seq: u64,
    slots: Vec<Page>,
    objects: Vec<u64>,
    tiers: [Tier; TIERS],
    /// The evicted pages; Linux keeps them as shadow entries.
    ghosts: Ghost,
    /// By the ghost's place.
    shadows: Vec<Shadow>,
    /// The shadow of the page about to come in; `None`: it was no ghost.
    returns: Option<Shadow>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Page {
    list: u8,
    uses: u8,
}

/// Counts of a tier's pages: since `min_seq` last moved, and averages of the time before.
#[derive(Debug, Clone, Copy, Default)]
struct Tier {
    evicted: u64,
    protected: u64,
    refaulted: u64,
    average_total: u64,
    average_refaulted: u64,
}

/// The value of `min_seq` when the page was evicted, and its uses beyond the first.
#[derive(Debug, Clone, Copy, Default)]
struct Shadow {
    seq: u64,
    refs: u8,
}

impl Tier {
    /// Returns how many pages of the tier came back after eviction, with the averages of earlier
    /// generations.
    fn refaulted(&self) -> u64 {
        self.average_refaulted + self.refaulted
    }

    /// Returns how many pages of the tier came up for eviction, evicted or protected, with the
    /// averages of earlier generations.
    fn total(&self) -> u64 {
        self.average_total + self.evicted + self.protected
    }
}

/// Returns the tier of a page by its uses beyond the first: their logarithm, rounded up.
#[inline]
fn tier(refs: u8) -> usize {
    u32::from(refs + 1).next_power_of_two().ilog2() as usize
}

impl Generational {
    /// Returns the index of the list that has the pages of generation `seq`.
    #[inline]
    fn list(seq: u64) -> usize {
        (seq % MAX_GENERATIONS) as usize
    }

    /// Counts the page in `slot` as one of generation `seq`, with `uses` uses through a descriptor.
    /// Which end of the generation's list the page joins is left to the caller, who links it.
    #[inline]
    fn enter(&mut self, seq: u64, slot: Slot, uses: u8) {
        let list = Self::list(seq);
        self.sizes[list] += 1;
        self.slots[slot as usize] = Page {
            list: list as u8,
            uses,
        };
    }

    /// Takes the page in `slot` out of its generation's list and count.
    #[inline]
    fn leave(&mut self, slot: Slot) {
        self.sizes[usize::from(self.slots[slot as usize].list)] -= 1;
        self.lists.unlink(slot);
    }

    fn is_empty(&self) -> bool {
        self.sizes == [0; MAX_GENERATIONS as usize]
    }

    /// Returns true if a new youngest generation should be opened: there are only two, or there are
    /// three and the youngest has more than half of all pages or the oldest less than a quarter.
    /// Models should_run_aging().
    fn should_age(&self) -> bool {
        let generations = self.max_seq - self.min_seq + 1;
        if generations <= MIN_GENERATIONS {
            return true;
        }
        if generations > MIN_GENERATIONS + 1 {
            return false;
        }
        let of = |seq| u64::from(self.sizes[Self::list(seq)]);
        let total: u64 = self.sizes.iter().copied().map(u64::from).sum();
        let (young, old) = (of(self.max_seq), of(self.max_seq - MIN_GENERATIONS));
        young * MIN_GENERATIONS > total || old * (MIN_GENERATIONS + 2) < total
    }

    /// Moves `min_seq` past empty generations, as long as two remain. If it moved, each tier's
    /// counts become part of its averages at half their weight. Models try_to_inc_min_seq().
    fn advance(&mut self) {
        let before = self.min_seq;
        while self.min_seq + MIN_GENERATIONS <= self.max_seq
            && self.sizes[Self::list(self.min_seq)] == 0
        {
            self.min_seq += 1;
        }
        if self.min_seq == before {
            return;
        }
        for t in &mut self.tiers {
            *t = Tier {
                average_total: t.total() / 2,
                average_refaulted: t.refaulted() / 2,
                ..Tier::default()
            };
        }
    }

    /// Returns the highest tier that is not protected, 0 to 3: pages of the tiers above stay for
    /// another generation. A tier is protected, with all above it, if the share of its evicted
    /// pages that came back (refaults) is more than twice that of tier 0. Models get_tier_idx().
    fn highest_evicted(&self) -> usize {
        let first = &self.tiers[0];
        // True for a tier whose pages come back at most twice as often as those of tier 0, or too
        // seldom to tell.
        let is_worth_no_more = |t: &Tier| {
            t.refaulted() < MIN_BATCH
                || t.refaulted() * (first.total() + MIN_BATCH)
                    <= (first.refaulted() + 1) * t.total() * 2
        };
        let unprotected = self.tiers[1..].iter().take_while(|t| is_worth_no_more(t));
        unprotected.count()
    }

    /// Counts the eviction of the page in `slot` in its tier and stores a shadow entry (generation
    /// and uses) with its ghost, so that a refault can be counted.
    fn remember(&mut self, slot: Slot) {
        let refs = self.slots[slot as usize].uses.saturating_sub(1);
        self.tiers[tier(refs)].evicted += 1;
        if let Some(place) = self.ghosts.push(self.objects[slot as usize]) {
            self.shadows[place as usize] = Shadow {
                seq: self.min_seq,
                refs,
            };
        }
    }

    /// Takes back what `remember` recorded, because the page could not leave: it is dirty. The
    /// count is lowered only if `min_seq` has not moved since.
    fn forget(&mut self, slot: Slot) {
        let place = self.ghosts.take(self.objects[slot as usize]);
        let shadow = place.map(|p| self.shadows[p as usize]);
        if let Some(s) = shadow.filter(|s| s.seq == self.min_seq) {
            self.tiers[tier(s.refs)].evicted -= 1;
        }
    }
}

impl Policy for Generational {
    /// Creates the multi-generational LRU for an empty cache of `slots` slots, with four
    /// generations.
    fn new(slots: u32) -> Self {
        Self {
            lists: Lists::new(slots, MAX_GENERATIONS as u32),
            sizes: [0; MAX_GENERATIONS as usize],
            min_seq: 0,
            max_seq: MAX_GENERATIONS - 1,
            slots: vec![Page::default(); slots as usize],
            objects: vec![0; slots as usize],
            tiers: [Tier::default(); TIERS],
            ghosts: Ghost::new(slots),
            shadows: vec![Shadow::default(); slots as usize],
            returns: None,
        }
    }

    /// Looks whether the object about to be brought in was evicted before; keeps its shadow entry
    /// in `returns` for `admit`, or `None`.
    #[inline]
    fn miss(&mut self, object: u64) {
        let place = self.ghosts.take(object);
        self.returns = place.map(|p| self.shadows[p as usize]);
    }

    /// Adds the page of `object`, just brought into `slot`, to the newest end of the oldest
    /// generation, as a page read through a descriptor is. If the page was evicted since `min_seq`
    /// last moved, a refault is counted in the tier that it had.
    #[inline]
    fn admit(&mut self, slot: Slot, object: u64) {
        self.objects[slot as usize] = object;
        let mut uses = 1;
        // A page evicted in another generation says nothing about this one.
        if let Some(s) = self.returns.take().filter(|s| s.seq == self.min_seq) {
            self.tiers[tier(s.refs)].refaulted += 1;
            // It may have had more uses than could be counted.
            uses += u8::from(s.refs == USES - 1);
        }
        self.enter(self.min_seq, slot, uses);
        self.lists
            .push_newest(Self::list(self.min_seq) as u32, slot);
    }

    /// Counts a use of the page in `slot`; counting ends at five, as in the kernel's page flags.
    #[inline]
    fn access(&mut self, slot: Slot) {
        let uses = &mut self.slots[slot as usize].uses;
        *uses = (*uses + 1).min(USES);
    }

    /// Takes out the page that leaves and returns its slot; `None` if there is no page. Opens a new
    /// youngest generation and moves `min_seq` where due, then tries the oldest generation from its
    /// oldest end: a page whose tier is protected moves to the next generation, the first other one
    /// leaves as a ghost.
    fn evict(&mut self) -> Option<Slot> {
        if self.is_empty() {
            return None;
        }
        loop {
            if self.should_age() {
                self.max_seq += 1;
            }
            self.advance();
            // An empty oldest generation: open or drop another one.
            let Some(slot) = self.lists.oldest(Self::list(self.min_seq) as u32) else {
                continue;
            };
            self.leave(slot);
            let tier = tier(self.slots[slot as usize].uses.saturating_sub(1));
            if tier <= self.highest_evicted() {
                self.advance();
                self.remember(slot);
                return Some(slot);
            }
            self.tiers[tier].protected += 1;
            let next = self.min_seq + 1;
            self.enter(next, slot, 0);
            self.lists.push_oldest(Self::list(next) as u32, slot);
        }
    }

    fn remove(&mut self, slot: Slot) {
        self.leave(slot);
    }

    /// Puts the page that `evict` chose at the newest end of the next generation, because it is
    /// dirty, and takes its eviction back; asks the cache to write it in the background and to
    /// choose another page.
    fn dirty(&mut self, slot: Slot) -> Dirty {
        self.forget(slot);
        let next = self.min_seq + 1;
        self.enter(next, slot, 0);
        self.lists.push_newest(Self::list(next) as u32, slot);
        Dirty::WriteBehind
    }

    /// Moves the page in `slot`, which has been written after `dirty`, to the oldest end of the
    /// oldest generation, so that it is evicted next: it was due when it was found dirty.
    fn cleaned(&mut self, slot: Slot) {
        let uses = self.slots[slot as usize].uses;
        self.leave(slot);
        self.enter(self.min_seq, slot, uses);
        self.lists
            .push_oldest(Self::list(self.min_seq) as u32, slot);
    }
}
