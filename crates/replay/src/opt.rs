//! OPT (Belady 1966, "A study of replacement algorithms for a virtual-storage computer"; Mattson,
//! Gecsei, Slutz and Traiger 1970): evicts the page whose next use is farthest away. No policy that
//! brings in every requested page has fewer misses, so OPT shows how much there is to gain. It
//! needs the whole trace to know the future, and is therefore no policy of [`evict`] that the
//! engine could use.
//!
//! An event's number is its time. A set holds, for every page in the cache that will be used again,
//! the time of its next use. The request at `t` hits if `t` is in the set, and `t` is then replaced
//! by the time of the use after it; an eviction removes the largest time. No table of objects is
//! needed, and the set is a tree of bits with 64 branches: four levels for 16 million events, a
//! little over one bit an event. Pages that will not be used again, or only after a removal, count
//! as empty slots: a number, and the first to leave.

use crate::cache::Counts;
use crate::dense::{Dense, Event, Groups, PART};
use evict::registry::Entry;

/// OPT's entry in lists of policies.
pub const OPT: Entry = Entry {
    name: "opt",
    about: "Evicts the page whose next use is farthest away: the fewest misses there can be, by a look at the whole trace; not in the engine, and not with writes.",
};

/// Bytes for each event beside the trace; each thread needs another eighth of a byte for each
/// event.
pub(crate) const BYTES_PER_EVENT: u64 = 4;

/// Time of the next use if there is none.
const NEVER: u32 = u32::MAX;

/// Largest number of events that times can number.
pub(crate) const MOST_EVENTS: usize = NEVER as usize;

/// The time of the next use of each event's object.
#[derive(Debug)]
pub(crate) struct Future {
    next: Vec<u32>,
}

impl Future {
    /// Computes, for each event of a trace, the time (number of the event) at which its object is
    /// used next; `NEVER` if it is not, or removed before. Walks backwards through the trace.
    pub fn of(trace: &Dense) -> Self {
        assert!(trace.len() <= MOST_EVENTS, "an event's time fits 32 bits");
        let mut times = vec![NEVER; trace.objects() as usize];
        let mut next: Vec<u32> = Vec::with_capacity(trace.len());
        for (back, event) in trace.events().rev().enumerate() {
            let time = (trace.len() - 1 - back) as u32;
            let (Event::Read(object) | Event::Write(object) | Event::Remove(object)) = event;
            // The next use of the object as seen from this event.
            let known = &mut times[object as usize];
            next.push(*known);
            *known = match event {
                Event::Remove(_) => NEVER,
                Event::Read(_) | Event::Write(_) => time,
            };
        }
        next.reverse();
        Self { next }
    }

    /// Runs OPT with `size` pages over the objects of some groups; returns requests and misses.
    pub fn run(&self, trace: &Dense, size: u32, groups: Groups) -> Counts {
        // The times of the next use of all cached pages that will be used again: a request hits if
        // its own time is among them.
        let mut times = Times::new(self.next.len());
        // Empty pages, and those whose page will not be used again.
        let mut spare = size;
        let mut counts = Counts::default();
        for (now, event) in trace.events().enumerate() {
            if now % PART == 0 && trace.stopped() {
                break;
            }
            let (Event::Read(object) | Event::Write(object)) = event else {
                continue;
            };
            if !groups.has(object) {
                continue;
            }
            counts.requests += 1;
            let next = self.next[now];
            let hit = times.remove(now);
            if !hit {
                counts.misses += 1;
                match spare.checked_sub(1) {
                    Some(left) => spare = left,
                    None => times.remove_last(),
                }
            }
            if next == NEVER {
                spare += 1;
            } else {
                times.insert(next as usize);
            }
        }
        counts
    }
}

/// A set of numbers below a bound: bits, and for every 64 of them a bit above that is their "or".
#[derive(Debug)]
struct Times {
    /// Words of bits by level, the lowest first; the highest level has one word.
    levels: Vec<Vec<u64>>,
}

impl Times {
    /// Makes the empty set for numbers below `bound`.
    fn new(bound: usize) -> Self {
        let mut levels = Vec::new();
        let mut words = bound.max(1);
        loop {
            words = words.div_ceil(64);
            levels.push(vec![0; words]);
            if words == 1 {
                return Self { levels };
            }
        }
    }

    /// Adds a number: sets its bit, and those above until one was set already.
    #[inline]
    fn insert(&mut self, mut at: usize) {
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            let before = *word;
            *word |= 1 << (at % 64);
            if before != 0 {
                return;
            }
            at /= 64;
        }
    }

    /// Removes a number; returns true if it was in the set. Clears the bits above as far as their
    /// words become empty.
    #[inline]
    fn remove(&mut self, mut at: usize) -> bool {
        if self.levels[0][at / 64] >> (at % 64) & 1 == 0 {
            return false;
        }
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            *word &= !(1 << (at % 64));
            if *word != 0 {
                break;
            }
            at /= 64;
        }
        true
    }

    /// Removes the largest number of a set that is not empty, found from the highest level down.
    #[inline]
    fn remove_last(&mut self) {
        let mut at = 0;
        for level in self.levels.iter().rev() {
            at = at * 64 + level[at].ilog2() as usize;
        }
        self.remove(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evict::Policy;
    use evict::registry::{self, Visitor};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    struct Run<'a>(&'a Dense, u32);

    impl Visitor for Run<'_> {
        type Output = Counts;
        fn visit<P: Policy + 'static>(self) -> Counts {
            self.0.run::<P>(self.1)
        }
    }

    /// Belady's definition: for every page in the cache, looks through all events that follow.
    fn belady(events: &[Event], size: usize) -> u64 {
        let (mut cache, mut misses) = (BTreeSet::new(), 0);
        for (now, event) in events.iter().enumerate() {
            let object = match *event {
                Event::Read(o) | Event::Write(o) => o,
                Event::Remove(o) => {
                    cache.remove(&o);
                    continue;
                }
            };
            if cache.contains(&object) {
                continue;
            }
            misses += 1;
            if cache.len() == size {
                let next = |o: &u32| {
                    let of = |e: &Event| matches!(e, Event::Read(x) | Event::Write(x) | Event::Remove(x) if x == o);
                    let at = events[now + 1..].iter().position(of);
                    at.filter(|at| !matches!(events[now + 1 + at], Event::Remove(_)))
                };
                // `None`: the page is never used again, so it is farther than any.
                let farthest = |o: &u32| next(o).map_or(usize::MAX, |at| at);
                let victim = *cache
                    .iter()
                    .max_by_key(|o| farthest(o))
                    .expect("a full cache");
                cache.remove(&victim);
            }
            cache.insert(object);
        }
        misses
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let object = || prop_oneof![3 => 0_u32..8, 2 => 0_u32..40, 1 => 0_u32..150];
        let event = prop_oneof![
            10 => object().prop_map(Event::Read),
            3 => object().prop_map(Event::Write),
            1 => object().prop_map(Event::Remove),
        ];
        prop::collection::vec(event, 1..700)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn it_is_beladys(events in events(), size in 1_u32..60) {
            let trace = Dense::of(events.iter().copied(), 0);
            let counts = Future::of(&trace).run(&trace, size, Groups::ALL);
            prop_assert_eq!(counts.misses, belady(&events, size as usize));
            prop_assert_eq!(counts.requests, trace.requests());
        }

        #[test]
        fn no_policy_misses_less(events in events(), size in 1_u32..60) {
            let trace = Dense::of(events.iter().copied(), 0);
            let least = Future::of(&trace).run(&trace, size, Groups::ALL);
            for policy in registry::ALL {
                let counts = registry::visit(policy.name, Run(&trace, size)).expect("a policy");
                prop_assert!(least.misses <= counts.misses, "{}: {}", policy.name, counts.misses);
            }
        }

        /// OPT is a stack algorithm: a larger cache holds all pages that a smaller one holds.
        #[test]
        fn a_larger_cache_misses_no_more(events in events()) {
            let trace = Dense::of(events, 0);
            let future = Future::of(&trace);
            let misses: Vec<u64> =
                (1..60).map(|size| future.run(&trace, size, Groups::ALL).misses).collect();
            prop_assert!(misses.is_sorted_by(|a, b| a >= b), "{misses:?}");
        }

        #[test]
        fn times_are_a_set(steps in prop::collection::vec((0_u8..3, 0_usize..5000), 0..600)) {
            let (mut times, mut set) = (Times::new(5000), BTreeSet::new());
            for (what, n) in steps {
                match what {
                    0 => {
                        times.insert(n);
                        set.insert(n);
                    }
                    1 => prop_assert_eq!(times.remove(n), set.remove(&n)),
                    _ => if set.pop_last().is_some() {
                        times.remove_last();
                    }
                }
            }
            for n in 0..5000 {
                prop_assert_eq!(times.remove(n), set.contains(&n));
            }
        }
    }

    /// A sequence worked out by hand: 1 2 3 4 1 2 5 1 2 3 4 5 in three frames; LRU misses ten
    /// times, FIFO nine.
    #[test]
    fn beladys_own_sequence() {
        let trace = Dense::of([1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5].map(Event::Read), 0);
        let misses = |size| Future::of(&trace).run(&trace, size, Groups::ALL).misses;
        assert_eq!([3, 4].map(misses), [7, 6]);
        assert_eq!(trace.run::<evict::Lru>(3).misses, 10);
        assert_eq!([3, 4].map(|n| trace.run::<evict::Fifo>(n).misses), [9, 10]);
    }
}
