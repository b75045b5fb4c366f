//! CLOCK-Pro (Jiang, Chen and Zhang 2005, "CLOCK-Pro: An effective improvement of the CLOCK
//! replacement", USENIX ATC): the idea of LIRS, without moving a page when it is used.
//!
//! One ring has hot pages, cold pages, and cold pages that have left the cache during their **test
//! period**, by which the policy measures how soon a page is used again. Three hands go round the
//! ring in one direction, and new pages come in just behind the hot hand:
//!
//! - the **cold** hand looks for a page to evict. A cold page that was used in its test period
//!   becomes hot; one used outside of it gets a test period and another round; one not used leaves,
//!   and its ghost stays in the ring as long as its test period lasts.
//! - the **hot** hand turns the first hot page that was not used since the hand last passed into a
//!   cold one, and ends the test periods of cold pages on its way: a page whose next use takes
//!   longer than that hot page's is not hot.
//! - the **test** hand ends test periods when more ghosts are remembered than the cache has pages.
//!
//! The number of pages that should be cold follows from the tests: one more when a page is used in
//! its test period, one less when a test period ends without a use. The paper does not give the
//! initial number: here it is LIRS's 1 %. Nor does it say how to count a use that no hand has seen
//! before the test period ends: here the test counts neither way. Hands move only when there is
//! work for them, and stop behind the page that they handled.

use crate::{Dirty, Ghost, Lists, Policy, Slot};

const RING: u32 = 0;

/// Initial share of cold pages: one page in this many, as always in LIRS.
const FIRST_SHARE: u32 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Hot,
    Cold,
    /// Cold, and in its test period.
    Tested,
}

/// State of a page in the cache.
#[derive(Debug, Clone, Copy)]
struct Page {
    kind: Kind,
    used: bool,
}

const COLD: usize = 0;
const HOT: usize = 1;
const TEST: usize = 2;

/// Hot pages, cold pages, and ghosts of cold pages, in a ring with three hands.
#[derive(Debug, Clone)]
pub struct ClockPro {
    /// Nodes `0..slots` are slots, those above are places of ghosts; hands move towards the newer
    /// side.
    ring: Lists,
    pages: Vec<Page>,
    objects: Vec<u64>,
    ghosts: Ghost,
    /// The node that each hand comes to next; all are `None` if the ring is empty.
    hands: [Option<u32>; 3],
    hot: u32,
    cold: u32,
    gone: u32,
    /// How many pages should be cold.
    target: u32,
    /// Pages of a full cache: the number of pages when room was last made.
    full: u32,
    /// True if the object about to be admitted was in its test period.
    returns: bool,
}

impl ClockPro {
    /// Returns the ring's node of a ghost: `place` is the ghost's number, and nodes below the
    /// number of slots are pages.
    #[inline]
    fn node(&self, place: u32) -> u32 {
        self.pages.len() as u32 + place
    }

    /// Returns the node after `node` in the direction of the hands, round the ring's end; `None` if
    /// the ring is empty.
    #[inline]
    fn after(&self, node: u32) -> Option<u32> {
        self.ring.newer(node).or_else(|| self.ring.oldest(RING))
    }

    /// Takes a node, page or ghost, out of the ring; hands that point at it move on to the next
    /// one, or to `None` if it was the last.
    fn unlink(&mut self, node: u32) {
        let next = self.after(node).filter(|next| *next != node);
        for hand in self.hands.iter_mut().filter(|hand| **hand == Some(node)) {
            *hand = next;
        }
        self.ring.unlink(node);
    }

    /// Puts a node into the ring just behind a hand (`COLD`, `HOT` or `TEST`), so that this hand
    /// reaches it last. In an empty ring all three hands point at it.
    fn insert(&mut self, hand: usize, node: u32) {
        match self.hands[hand] {
            Some(at) => self.ring.push_behind(at, node),
            None => {
                self.ring.push_newest(RING, node);
                self.hands = [Some(node); 3];
            }
        }
    }

    /// Adds the page in `slot` to the ring as `kind` and counts it. It comes just behind the hot
    /// hand, which reaches it last.
    fn push(&mut self, slot: Slot, kind: Kind) {
        self.pages[slot as usize] = Page { kind, used: false };
        match kind {
            Kind::Hot => self.hot += 1,
            Kind::Cold | Kind::Tested => self.cold += 1,
        }
        self.insert(HOT, slot);
    }

    /// Takes the page in `slot` out of the ring and out of the counts of hot and cold pages.
    fn take(&mut self, slot: Slot) {
        match self.pages[slot as usize].kind {
            Kind::Hot => self.hot -= 1,
            Kind::Cold | Kind::Tested => self.cold -= 1,
        }
        self.unlink(slot);
    }

    /// Raises the number of pages that should be cold by one, at most to all: a page was used
    /// within its test period.
    fn more_cold(&mut self) {
        self.target = (self.target + 1).min(self.full);
    }

    /// Lowers the number of pages that should be cold by one, but not below 1: a test period ended
    /// without a use.
    fn less_cold(&mut self) {
        self.target = (self.target - 1).max(1);
    }

    /// Ends the test period of `node`, the node at `hand`, and moves the hand on. A ghost is
    /// forgotten; a page in its test period becomes an ordinary cold one. A test that ends without
    /// a use lowers the number of pages that should be cold. Returns true if the node was a ghost,
    /// false for a page.
    fn end_test(&mut self, hand: usize, node: u32) -> bool {
        let slots = self.pages.len() as u32;
        if node >= slots {
            self.ghosts.forget(node - slots);
            self.gone -= 1;
            self.unlink(node);
            self.less_cold();
            return true;
        }
        let page = &mut self.pages[node as usize];
        if page.kind == Kind::Tested {
            page.kind = Kind::Cold;
            if !page.used {
                self.less_cold();
            }
        }
        self.hands[hand] = self.after(node);
        false
    }

    /// Moves the hot hand until it has turned one hot page cold. A hot page that was used since the
    /// last round only loses its mark; test periods of the cold pages and ghosts on the way end.
    fn turn_hot_hand(&mut self) {
        while let Some(node) = self.hands[HOT] {
            match self.pages.get_mut(node as usize) {
                Some(page) if page.kind == Kind::Hot => {
                    let used = std::mem::take(&mut page.used);
                    if !used {
                        page.kind = Kind::Cold;
                        self.hot -= 1;
                        self.cold += 1;
                    }
                    self.hands[HOT] = self.after(node);
                    if !used {
                        return;
                    }
                }
                _ => {
                    self.end_test(HOT, node);
                }
            }
        }
    }

    /// Turns hot pages cold by the hot hand, until no more pages are hot than a full cache has
    /// beside its target of cold ones.
    fn cool(&mut self) {
        while self.hot > 0 && self.hot > self.full - self.target.min(self.full) {
            self.turn_hot_hand();
        }
    }

    /// Moves the test hand, which ends test periods and so forgets ghosts, until the place of one
    /// ghost is free.
    fn turn_test_hand(&mut self) {
        while self.ghosts.is_full()
            && let Some(node) = self.hands[TEST]
        {
            self.end_test(TEST, node);
        }
    }

    /// Takes the page in `slot`, which leaves the cache within its test period, out of the ring and
    /// puts its ghost at the page's place. The ghost shows whether the page is used again before
    /// the test ends.
    fn leave(&mut self, slot: Slot) {
        self.turn_test_hand();
        if let Some(place) = self.ghosts.push(self.objects[slot as usize]) {
            let node = self.node(place);
            self.ring.push_behind(slot, node);
            self.gone += 1;
        }
        self.take(slot);
    }
}

impl Policy for ClockPro {
    /// Creates CLOCK-Pro for an empty cache of `slots` slots: the ring has a node for each slot and
    /// for as many ghosts.
    fn new(slots: u32) -> Self {
        let page = Page {
            kind: Kind::Cold,
            used: false,
        };
        Self {
            ring: Lists::new(2 * slots, 1),
            pages: vec![page; slots as usize],
            objects: vec![0; slots as usize],
            ghosts: Ghost::new(slots),
            hands: [None; 3],
            hot: 0,
            cold: 0,
            gone: 0,
            target: (slots / FIRST_SHARE).max(1),
            full: slots,
            returns: false,
        }
    }

    /// Looks whether the object about to be brought in is a ghost, that is, still in its test
    /// period. If it is, its ghost leaves the ring, one more page should be cold, and `admit` makes
    /// the page hot.
    #[inline]
    fn miss(&mut self, object: u64) {
        let place = self.ghosts.take(object);
        self.returns = place.is_some();
        if let Some(place) = place {
            self.unlink(self.node(place));
            self.gone -= 1;
            self.more_cold();
        }
    }

    /// Adds the page of `object`, just brought into `slot`: as a hot page if its ghost was in the
    /// ring, else as a cold page that begins its test period.
    #[inline]
    fn admit(&mut self, slot: Slot, object: u64) {
        self.objects[slot as usize] = object;
        if std::mem::take(&mut self.returns) {
            self.push(slot, Kind::Hot);
            self.cool();
        } else {
            self.push(slot, Kind::Tested);
        }
    }

    /// Marks the page in `slot` as used; the hands look at the mark when they pass.
    #[inline]
    fn access(&mut self, slot: Slot) {
        self.pages[slot as usize].used = true;
    }

    /// Moves the cold hand to the first cold page that was not used, takes it out and returns its
    /// slot; `None` if the cache has no page. A cold page that was used becomes hot if it was in
    /// its test period, else it begins one. A page that leaves in its test period stays in the ring
    /// as a ghost.
    fn evict(&mut self) -> Option<Slot> {
        if self.hot + self.cold == 0 {
            return None;
        }
        self.full = self.hot + self.cold;
        self.target = self.target.min(self.full);
        loop {
            if self.cold == 0 {
                self.turn_hot_hand();
            }
            let node = self.hands[COLD]?;
            let page = self.pages.get(node as usize).copied();
            match page.filter(|page| page.kind != Kind::Hot) {
                // A hot page or a ghost: the cold hand passes it.
                None => self.hands[COLD] = self.after(node),
                Some(Page { kind, used: true }) => {
                    self.take(node);
                    if kind == Kind::Tested {
                        self.more_cold();
                        self.push(node, Kind::Hot);
                        self.cool();
                    } else {
                        self.push(node, Kind::Tested);
                    }
                }
                Some(Page { kind, .. }) => {
                    if kind == Kind::Tested {
                        self.leave(node);
                    } else {
                        self.take(node);
                    }
                    return Some(node);
                }
            }
        }
    }

    fn remove(&mut self, slot: Slot) {
        self.take(slot);
    }

    /// Puts the page that `evict` chose back as a cold one, in its test period if its ghost shows
    /// that it was in one, because it is dirty; asks the cache to write it in the background and to
    /// choose another.
    fn dirty(&mut self, slot: Slot) -> Dirty {
        let kind = match self.ghosts.take(self.objects[slot as usize]) {
            Some(place) => {
                self.unlink(self.node(place));
                self.gone -= 1;
                Kind::Tested
            }
            None => Kind::Cold,
        };
        self.push(slot, kind);
        Dirty::WriteBehind
    }
}
