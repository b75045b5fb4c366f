//! A policy that is not in the crate, RANDOM-of-two, run beside LRU.
//!
//! ```text
//! cargo run --release -p evict --example own_policy
//! ```
//!
//! Of two pages drawn at random, the one whose last use is longer ago is evicted (Psounis and
//! Prabhakar 2002, "Efficient randomized web-cache replacement schemes using samples from past
//! eviction times"). To use it in `lowmark mrc` and in the engine (`eviction = "random-of-two"`),
//! move the part above `main` to a file of `crates/evict/src` and add a line to `registry.rs`.

use evict::{Dirty, Policy, Slot};

#[derive(Clone)]
struct RandomOfTwo {
    /// The occupied slots, in no order, and the index of each slot in that list.
    held: Vec<Slot>,
    place: Vec<u32>,
    /// By slot: the value of `now` at its last use.
    used: Vec<u64>,
    now: u64,
    random: u64,
}

impl RandomOfTwo {
    /// Draws a slot with xorshift64 (Marsaglia 2003); the same seed gives the same victims.
    fn draw(&mut self) -> Slot {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.held[(self.random % self.held.len() as u64) as usize]
    }
}

impl Policy for RandomOfTwo {
    fn new(slots: u32) -> Self {
        Self {
            held: Vec::with_capacity(slots as usize),
            place: vec![0; slots as usize],
            used: vec![0; slots as usize],
            now: 0,
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }

    fn admit(&mut self, slot: Slot, _object: u64) {
        self.place[slot as usize] = self.held.len() as u32;
        self.held.push(slot);
        self.access(slot);
    }

    fn access(&mut self, slot: Slot) {
        self.now += 1;
        self.used[slot as usize] = self.now;
    }

    fn evict(&mut self) -> Option<Slot> {
        if self.held.is_empty() {
            return None;
        }
        let (a, b) = (self.draw(), self.draw());
        let slot = if self.used[a as usize] <= self.used[b as usize] {
            a
        } else {
            b
        };
        self.remove(slot);
        Some(slot)
    }

    fn remove(&mut self, slot: Slot) {
        let at = self.place[slot as usize] as usize;
        self.held.swap_remove(at);
        if let Some(moved) = self.held.get(at) {
            self.place[*moved as usize] = at as u32;
        }
    }

    /// Counts a dirty page as just used, and has it written meanwhile.
    fn dirty(&mut self, slot: Slot) -> Dirty {
        self.admit(slot, 0);
        Dirty::WriteBehind
    }
}

fn main() {
    use replay::{Dense, Event, WriteModel};
    use trace::generate::{Generator, Pattern, Plan};

    let plan = Plan {
        pattern: Pattern::Mixed,
        objects: 20_000,
        requests: 500_000,
        skew: 0.9,
        writes: 0.2,
        rate: 20_000,
        seed: 1,
    };
    // The generator's numbers have gaps, so the objects that occur are numbered.
    let mut numbers = std::collections::HashMap::new();
    let events = Generator::new(&plan).map(|r| {
        let next = numbers.len() as u32;
        let object = *numbers.entry(r.object).or_insert(next);
        if r.write {
            Event::Write(object)
        } else {
            Event::Read(object)
        }
    });
    let trace = Dense::of(events, 1_000_000_000 / plan.rate);
    let model = WriteModel::default();
    println!(
        "{:>8} {:>14} {:>8} {:>22}",
        "pages", "random-of-two", "lru", "stalls (ms), both"
    );
    for size in [500, 1000, 2000, 4000, 8000] {
        let (random, random_writes) = trace.run_with_writes::<RandomOfTwo>(size, &model);
        let (lru, lru_writes) = trace.run_with_writes::<evict::Lru>(size, &model);
        println!(
            "{size:>8} {:>14.4} {:>8.4} {:>11.1} {:>10.1}",
            random.miss_ratio(),
            lru.miss_ratio(),
            random_writes.stall_ns() as f64 / 1e6,
            lru_writes.stall_ns() as f64 / 1e6,
        );
    }
}
