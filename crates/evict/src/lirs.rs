//! LIRS (Jiang and Zhang 2002, "LIRS: An efficient low inter-reference recency set replacement
//! policy to improve buffer cache performance", SIGMETRICS).
//!
//! A page is ranked by the number of other pages between its last two uses. The pages with the
//! fewest, **LIR** pages, take nearly all of the cache and are not evicted while they are LIR; the
//! others, **HIR** pages, go through a queue in the rest of it. A stack has all LIR pages, and
//! those HIR pages, in the cache or gone, whose last use is later than that of the LIR page at its
//! bottom. An HIR page that is used while it is in the stack was used again sooner than that LIR
//! page: the two change places.
//!
//! The paper lets the stack grow without a bound, and shows that it may be cut. Here the stack has
//! at most as many pages that are gone as the cache has slots; those that left first are forgotten.
//!
//! The paper also has no pages that cannot leave yet. Pages that wait in the queue to be written do
//! not count for its hundredth: otherwise a queue full of them would keep every LIR page in place,
//! and no page could leave.

use crate::{Dirty, Ghost, Lists, Policy, Slot};

/// One page in this many is HIR, the paper's 1 %; at least one.
const HIR_SHARE: u32 = 100;

const STACK: u32 = 0;
const QUEUE: u32 = 0;

/// The lists that a slot's page is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In the stack, and not in the queue.
    Low,
    /// In the queue.
    High,
    /// In the queue and in the stack.
    HighStacked,
}

/// Pages that are used again soon hold the cache; the others go through a queue of a hundredth of
/// it.
#[derive(Debug, Clone)]
pub struct Lirs {
    /// Nodes `0..slots` are slots, those above are places of ghosts; the newest end is the stack's
    /// top.
    stack: Lists,
    queue: Lists,
    slots: Vec<State>,
    /// By slot: the page is in the queue, and is dirty or being written.
    held: Vec<bool>,
    objects: Vec<u64>,
    ghosts: Ghost,
    low: u32,
    high: u32,
    /// Number of pages that are held.
    all_held: u32,
    /// LIR pages that a full cache has, computed from the number of pages when room was last made.
    most_low: u32,
    /// True if the object about to be admitted was in the stack.
    returns: bool,
}

/// Returns how many of `pages` pages may be LIR (used again soon, not evicted): all but the
/// hundredth, at least one, that HIR pages take, and but the `held` ones that wait in the queue to
/// be written.
fn most_low(pages: u32, held: u32) -> u32 {
    (pages - (pages / HIR_SHARE).max(1)).saturating_sub(held)
}

impl Lirs {
    /// Returns the stack's node for the place of a ghost.
    #[inline]
    fn node(&self, place: u32) -> u32 {
        self.slots.len() as u32 + place
    }

    /// Removes nodes from the stack's bottom until an LIR page is there, as LIRS demands. A ghost
    /// is forgotten; an HIR page stays in the queue only.
    #[inline]
    fn prune(&mut self) {
        let slots = self.slots.len() as u32;
        while let Some(node) = self.stack.oldest(STACK) {
            if node >= slots {
                self.ghosts.forget(node - slots);
            } else if self.slots[node as usize] == State::Low {
                return;
            } else {
                self.slots[node as usize] = State::High;
            }
            self.stack.unlink(node);
        }
    }

    /// Turns the LIR page at the stack's bottom into an HIR page: it moves to the queue, from which
    /// pages are evicted. Then prunes the stack.
    fn demote(&mut self) {
        if let Some(slot) = self.stack.oldest(STACK) {
            self.stack.unlink(slot);
            self.low -= 1;
            self.push_high(slot, State::High);
            self.prune();
        }
    }

    /// Ends the hold of a page that waited in the queue to be written: it can leave again, or is no
    /// longer in the queue. A page that was not held changes nothing.
    fn release(&mut self, slot: Slot) {
        self.all_held -= u32::from(std::mem::take(&mut self.held[slot as usize]));
    }

    /// Puts an HIR page at the queue's newest end and counts it. `state` says whether it is in the
    /// stack too.
    fn push_high(&mut self, slot: Slot, state: State) {
        self.slots[slot as usize] = state;
        self.high += 1;
        self.queue.push_newest(QUEUE, slot);
    }

    /// Puts a page on the stack's top as LIR; if there are then more LIR pages than allowed, the
    /// one at the stack's bottom becomes HIR.
    fn push_low(&mut self, slot: Slot) {
        self.slots[slot as usize] = State::Low;
        self.low += 1;
        self.stack.push_newest(STACK, slot);
        // `low`: number of LIR pages.
        if self.low > self.most_low {
            self.demote();
        }
    }

    /// Puts an HIR page of the queue on the stack's top too, so that its next use can make it LIR.
    /// Does nothing while there is no LIR page, because the stack ends with one.
    fn stack_high(&mut self, slot: Slot) {
        if self.low > 0 {
            self.slots[slot as usize] = State::HighStacked;
            self.stack.push_newest(STACK, slot);
        }
    }

    /// Replaces the page in `slot`, which is evicted, by its ghost at the same place of the stack.
    /// If all ghosts are taken, the one that left first is forgotten.
    fn remember(&mut self, slot: Slot) {
        if self.ghosts.is_full()
            && let Some(place) = self.ghosts.forget_oldest(0)
        {
            self.stack.unlink(self.node(place));
        }
        if let Some(place) = self.ghosts.push(self.objects[slot as usize]) {
            self.stack.push_behind(slot, self.node(place));
        }
        self.stack.unlink(slot);
    }
}

impl Policy for Lirs {
    /// Creates LIRS for an empty cache of `slots` slots: a stack with room for as many ghosts, and
    /// a queue.
    fn new(slots: u32) -> Self {
        Self {
            stack: Lists::new(2 * slots, 1),
            queue: Lists::new(slots, 1),
            slots: vec![State::High; slots as usize],
            held: vec![false; slots as usize],
            objects: vec![0; slots as usize],
            ghosts: Ghost::new(slots),
            low: 0,
            high: 0,
            all_held: 0,
            most_low: most_low(slots, 0),
            returns: false,
        }
    }

    /// Looks whether the object about to be brought in is a ghost in the stack. If it is, the ghost
    /// goes, and `returns` tells `admit` that the page was used again soon enough to be LIR.
    #[inline]
    fn miss(&mut self, object: u64) {
        let place = self.ghosts.take(object);
        self.returns = place.is_some();
        if let Some(place) = place {
            self.stack.unlink(self.node(place));
        }
    }

    /// Adds the page of `object`, just brought into `slot`: as LIR if its ghost was in the stack or
    /// LIR pages are still too few, else as HIR in both queue and stack.
    #[inline]
    fn admit(&mut self, slot: Slot, object: u64) {
        self.objects[slot as usize] = object;
        if std::mem::take(&mut self.returns) || self.low < self.most_low {
            self.push_low(slot);
        } else {
            self.push_high(slot, State::High);
            self.stack_high(slot);
        }
    }

    /// Records a use of the page in `slot`. An LIR page moves to the stack's top; an HIR page in
    /// the stack becomes LIR; another HIR page moves to the queue's newest end and onto the stack.
    #[inline]
    fn access(&mut self, slot: Slot) {
        match self.slots[slot as usize] {
            State::Low => {
                // If the LIR page at the bottom moves, HIR pages above it may be the bottom now.
                let bottom = self.stack.oldest(STACK) == Some(slot);
                self.stack.renew(STACK, slot);
                if bottom {
                    self.prune();
                }
            }
            State::HighStacked => {
                self.stack.unlink(slot);
                self.queue.unlink(slot);
                self.high -= 1;
                self.release(slot);
                self.push_low(slot);
            }
            State::High => {
                self.queue.renew(QUEUE, slot);
                self.stack_high(slot);
            }
        }
    }

    /// Takes out the oldest page of the HIR queue and returns its slot; `None` if there is no page.
    /// LIR pages above their number become HIR first. A page that is in the stack too leaves its
    /// ghost there.
    fn evict(&mut self) -> Option<Slot> {
        let pages = self.low + self.high;
        if pages == 0 {
            return None;
        }
        self.most_low = most_low(pages, self.all_held);
        while self.low > self.most_low {
            self.demote();
        }
        let slot = self.queue.oldest(QUEUE)?;
        self.queue.unlink(slot);
        self.high -= 1;
        self.release(slot);
        if self.slots[slot as usize] == State::HighStacked {
            self.remember(slot);
        }
        Some(slot)
    }

    /// Takes out the page in `slot`, whose object is gone, from the stack and the queue, as far as
    /// it is in them.
    fn remove(&mut self, slot: Slot) {
        let state = self.slots[slot as usize];
        if state == State::Low {
            self.low -= 1;
        } else {
            self.high -= 1;
            self.queue.unlink(slot);
            self.release(slot);
        }
        if state != State::High {
            self.stack.unlink(slot);
            self.prune();
        }
    }

    /// Puts the page that `evict` chose back at the queue's newest end, because it is dirty, and at
    /// its ghost's place in the stack if it has one. The page is held, that is, not counted in the
    /// queue's hundredth, until it is written; asks the cache to write it in the background and to
    /// choose another.
    fn dirty(&mut self, slot: Slot) -> Dirty {
        let place = self.ghosts.take(self.objects[slot as usize]);
        self.push_high(slot, State::High);
        if let Some(place) = place {
            self.slots[slot as usize] = State::HighStacked;
            self.stack.push_behind(self.node(place), slot);
            self.stack.unlink(self.node(place));
        }
        self.held[slot as usize] = true;
        self.all_held += 1;
        Dirty::WriteBehind
    }

    /// Ends the hold of the page in `slot`, which has been written after `dirty`.
    fn cleaned(&mut self, slot: Slot) {
        self.release(slot);
    }
}
