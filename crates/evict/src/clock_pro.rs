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
    #[inline]
    fn node(&self, place: u32) -> u32 {
        self.pages.len() as u32 + place
    }

    #[inline]
    fn after(&self, node: u32) -> Option<u32> {
        self.ring.newer(node).or_else(|| self.ring.oldest(RING))
    }

    /// Takes a node out of the ring; hands that point at it move on.
    fn unlink(&mut self, node: u32) {
        let next = self.after(node).filter(|next| *next != node);
        for hand in self.hands.iter_mut().filter(|hand| **hand == Some(node)) {
            *hand = next;
        }
        self.ring.unlink(node);
    }

    /// Puts a node into the ring just behind a hand.
    fn insert(&mut self, hand: usize, node: u32) {
        match self.hands[hand] {
            Some(at) => self.ring.push_behind(at, node),
            None => {
                self.ring.push_newest(RING, node);
                self.hands = [Some(node); 3];
            }
        }
    }

    /// Puts a page at the ring's head, the place that the hot hand reaches last.
    fn push(&mut self, slot: Slot, kind: Kind) {
        self.pages[slot as usize] = Page { kind, used: false };
        match kind {
            Kind::Hot => self.hot += 1,
            Kind::Cold | Kind::Tested => self.cold += 1,
        }
        self.insert(HOT, slot);
    }

    /// Takes a page out of the ring and out of the counts.
    fn take(&mut self, slot: Slot) {
        match self.pages[slot as usize].kind {
            Kind::Hot => self.hot -= 1,
            Kind::Cold | Kind::Tested => self.cold -= 1,
        }
        self.unlink(slot);
    }

    fn more_cold(&mut self) {
        self.target = (self.target + 1).min(self.full);
    }

    fn less_cold(&mut self) {
        self.target = (self.target - 1).max(1);
    }

    /// Ends the test period of the node at a hand, if it has one, and moves the hand on. Returns
    /// true if the node was a ghost.
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

    /// Moves the hot hand until it has turned one hot page cold.
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

    /// Turns hot pages cold until there are at most as many as the target leaves.
    fn cool(&mut self) {
        while self.hot > 0 && self.hot > self.full - self.target.min(self.full) {
            self.turn_hot_hand();
        }
    }

    /// Ends test periods until one more ghost can be remembered.
    fn turn_test_hand(&mut self) {
        while self.ghosts.is_full()
            && let Some(node) = self.hands[TEST]
        {
            self.end_test(TEST, node);
        }
    }

    /// Takes a page in its test period out of the cache, and puts its ghost in its place in the
    /// ring.
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

    #[inline]
    fn access(&mut self, slot: Slot) {
        self.pages[slot as usize].used = true;
    }

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

    /// Gives the page another round as a cold one, in its test period if it was in one.
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
