//! Hyperbolic caching (Blankstein, Sen and Freedman 2017, "Hyperbolic caching: Flexible caching for
//! web applications", USENIX ATC).
//!
//! A page's value is its number of uses divided by its time in the cache. Between uses the value
//! falls as a hyperbola, so the order of pages changes without any request, and no list could keep
//! them sorted. As in the paper, the victim is the page with the least value of some drawn at
//! random; time is counted in requests. The draws follow from a fixed seed, so the same requests
//! have the same victims.

use crate::{Dirty, Policy, Slot};

/// Pages drawn for an eviction: the paper's 64. If the cache has no more, all are compared.
const DRAWN: usize = 64;

/// State of a page in the cache.
#[derive(Debug, Clone, Copy, Default)]
struct Page {
    /// The value of `now` when the page came in.
    since: u64,
    uses: u32,
    /// Its index in `held`.
    place: u32,
}

/// Evicts the page with the fewest uses for its time in the cache, of 64 drawn at random.
#[derive(Debug, Clone)]
pub struct Hyperbolic {
    /// The occupied slots, in no order.
    held: Vec<Slot>,
    pages: Vec<Page>,
    /// Calls of `admit` and `access` so far: the time.
    now: u64,
    random: u64,
}

impl Hyperbolic {
    /// Draws one of the occupied slots at random, each with equal chance, with SplitMix64 (Steele,
    /// Lea and Flood 2014, "Fast splittable pseudorandom number generators").
    #[inline]
    fn draw(&mut self) -> Slot {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        let place = (u128::from(z) * self.held.len() as u128) >> 64;
        self.held[place as usize]
    }

    /// Returns true if the page in `a` has less value than the one in `b`. A page's value is its
    /// number of uses divided by its time in the cache, counted in requests; both sides are
    /// multiplied out, so nothing is divided.
    #[inline]
    fn is_less(&self, a: Slot, b: Slot) -> bool {
        let of = |slot: Slot| {
            let page = self.pages[slot as usize];
            (u128::from(page.uses), u128::from(self.now - page.since))
        };
        let ((a_uses, a_time), (b_uses, b_time)) = (of(a), of(b));
        a_uses * b_time < b_uses * a_time
    }

    /// Adds `slot` to the list of occupied slots and notes its index there, by which `remove` finds
    /// it.
    fn push(&mut self, slot: Slot) {
        self.pages[slot as usize].place = self.held.len() as u32;
        self.held.push(slot);
    }
}

impl Policy for Hyperbolic {
    /// Creates hyperbolic caching for an empty cache of `slots` slots; the draws follow from the
    /// seed 0.
    fn new(slots: u32) -> Self {
        Self {
            held: Vec::with_capacity(slots as usize),
            pages: vec![Page::default(); slots as usize],
            now: 0,
            random: 0,
        }
    }

    /// Adds the page brought into `slot`, with one use. `now` counts requests and is the policy's
    /// clock.
    #[inline]
    fn admit(&mut self, slot: Slot, _object: u64) {
        self.pages[slot as usize] = Page {
            since: self.now,
            uses: 1,
            place: 0,
        };
        self.now += 1;
        self.push(slot);
    }

    /// Counts a use of the page in `slot`, and one request more on the policy's clock.
    #[inline]
    fn access(&mut self, slot: Slot) {
        self.now += 1;
        let uses = &mut self.pages[slot as usize].uses;
        *uses = uses.saturating_add(1);
    }

    /// Takes out the page with the least value (uses by time in the cache) of 64 drawn at random,
    /// or of all if there are no more, and returns its slot; `None` if no slot is occupied.
    fn evict(&mut self) -> Option<Slot> {
        let mut least = *self.held.first()?;
        if self.held.len() <= DRAWN {
            for slot in &self.held[1..] {
                if self.is_less(*slot, least) {
                    least = *slot;
                }
            }
        } else {
            least = self.draw();
            for _ in 1..DRAWN {
                let slot = self.draw();
                if self.is_less(slot, least) {
                    least = slot;
                }
            }
        }
        self.remove(least);
        Some(least)
    }

    /// Takes `slot` off the list of occupied slots. The last slot of the list takes its index.
    fn remove(&mut self, slot: Slot) {
        let place = self.pages[slot as usize].place as usize;
        self.held.swap_remove(place);
        if let Some(moved) = self.held.get(place) {
            self.pages[*moved as usize].place = place as u32;
        }
    }

    /// Puts the page that `evict` chose back, with its uses and its time unchanged, because it is
    /// dirty; asks the cache to write it in the background and to choose another page.
    fn dirty(&mut self, slot: Slot) -> Dirty {
        self.push(slot);
        Dirty::WriteBehind
    }
}
