//! LRU at every size in one pass (Mattson, Gecsei, Slutz, Traiger 1970): a request hits a cache of
//! `c` pages if fewer than `c` other objects were requested since the object's last request.
//!
//! The number of those objects is a count of bits: each object's last request is a bit at its time,
//! in words of 64 bits with a Fenwick tree over the words (Olken 1981 uses a search tree). When no
//! time is left, the bits are compacted.
//!
//! The removal of an object leaves a free page: its bit stays as a hole. The next page that is
//! brought in, or moves up from below, fills the newest hole.

use crate::dense::{Dense, Event, Groups, PART};
use std::collections::BinaryHeap;

const NEVER: u32 = u32::MAX;

/// Hits by LRU stack distance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distances {
    requests: u64,
    /// `hits[d]`: requests that hit in caches of at least `d + 1` pages.
    hits: Vec<u64>,
}

impl Distances {
    /// Returns the number of requests.
    pub(crate) fn requests(&self) -> u64 {
        self.requests
    }

    /// Returns the misses of an LRU cache of `size` pages: requests whose stack distance is `size`
    /// or more, and first requests.
    pub fn misses(&self, size: u32) -> u64 {
        let hits: u64 = self.hits.iter().take(size as usize).sum();
        self.requests - hits
    }

    /// Returns the misses of LRU caches with these fractional sizes (sizes scaled to a sample), at
    /// least 0, interpolated linearly between whole sizes.
    pub(crate) fn all_between(&self, sizes: &[f64]) -> Vec<f64> {
        let sum = |sum: &mut u64, hits: &u64| {
            *sum += hits;
            Some(*sum)
        };
        let sums: Vec<u64> = self.hits.iter().scan(0, sum).collect();
        let hits = |size: usize| match size.min(sums.len()) {
            0 => 0.0,
            n => sums[n - 1] as f64,
        };
        let misses = |size: &f64| {
            let whole = *size as usize;
            let below = hits(whole);
            self.requests as f64 - below - size.fract() * (hits(whole.saturating_add(1)) - below)
        };
        sizes.iter().map(misses).collect()
    }

    /// Returns the misses of LRU caches of many sizes, in the order of `sizes`, with one walk over
    /// the distances.
    pub fn all_misses(&self, sizes: &[u32]) -> Vec<u64> {
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        order.sort_by_key(|&i| sizes[i]);
        let mut misses = vec![0; sizes.len()];
        let (mut left, mut at) = (self.requests, 0);
        for i in order {
            let to = (sizes[i] as usize).min(self.hits.len()).max(at);
            left -= self.hits[at..to].iter().sum::<u64>();
            at = to;
            misses[i] = left;
        }
        misses
    }
}

/// A set of bits at times that can count the bits behind a time.
struct Times {
    words: Vec<u64>,
    /// Fenwick tree over the words' counts; entry 0 is not used.
    tree: Vec<u32>,
    total: u32,
}

impl Times {
    /// Makes the set without bits, for times below `length`.
    fn new(length: usize) -> Self {
        let words = length.div_ceil(64);
        Self {
            words: vec![0; words],
            tree: vec![0; words + 1],
            total: 0,
        }
    }

    /// Adds `by` to the count of a time's word in the tree; `u32::MAX` subtracts one, as the
    /// addition wraps.
    #[inline]
    fn add(&mut self, time: u32, by: u32) {
        let mut at = time as usize / 64 + 1;
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add(by);
            at += at & at.wrapping_neg();
        }
        self.total = self.total.wrapping_add(by);
    }

    /// Sets the bit of a time that has none.
    #[inline]
    fn set(&mut self, time: u32) {
        self.words[time as usize / 64] |= 1 << (time % 64);
        self.add(time, 1);
    }

    /// Clears the bit of a time that has one.
    #[inline]
    fn clear(&mut self, time: u32) {
        self.words[time as usize / 64] &= !(1 << (time % 64));
        self.add(time, u32::MAX);
    }

    /// Returns the number of bits behind (later than) a time that has one.
    #[inline]
    fn behind(&self, time: u32) -> u32 {
        let word = time as usize / 64;
        let mut before = (self.words[word] << (63 - time % 64)).count_ones();
        let mut at = word;
        while at > 0 {
            before += self.tree[at];
            at &= at - 1;
        }
        self.total - before
    }
}

struct Stack {
    /// The time of each object's last request.
    last: Vec<u32>,
    /// The object requested at each time; holes have none.
    owner: Vec<u32>,
    times: Times,
    now: u32,
    holes: BinaryHeap<u32>,
}

impl Stack {
    /// Records a request. Returns the object's LRU stack distance before it: the number of pages
    /// above it, holes included; `None`: the object is new or was removed.
    #[inline]
    fn request(&mut self, object: u32) -> Option<u32> {
        if self.now as usize == self.owner.len() {
            self.compact();
        }
        let last = self.last[object as usize];
        let distance = (last != NEVER).then(|| self.times.behind(last));
        // The pages above the newest hole move down by one and fill it; the object's old place, if
        // it is below that hole, becomes a hole.
        let hole = self
            .holes
            .peek()
            .copied()
            .filter(|h| last == NEVER || *h > last);
        if let Some(hole) = hole {
            self.holes.pop();
            self.times.clear(hole);
            if last != NEVER {
                self.owner[last as usize] = NEVER;
                self.holes.push(last);
            }
        } else if last != NEVER {
            self.times.clear(last);
        }
        self.times.set(self.now);
        self.owner[self.now as usize] = object;
        self.last[object as usize] = self.now;
        self.now += 1;
        distance
    }

    /// Turns the object's bit into a hole: its page is free, and the next page that is brought in
    /// fills it.
    fn remove(&mut self, object: u32) {
        let last = std::mem::replace(&mut self.last[object as usize], NEVER);
        if last != NEVER {
            self.owner[last as usize] = NEVER;
            self.holes.push(last);
        }
    }

    /// Moves all bits together to the first times, when no time is left; doubles the number of
    /// times if more than half are in use.
    #[cold]
    fn compact(&mut self) {
        if self.times.total as usize > self.owner.len() / 2 {
            self.owner.resize(2 * self.owner.len(), NEVER);
        }
        let old = std::mem::replace(&mut self.times, Times::new(self.owner.len()));
        self.holes.clear();
        self.now = 0;
        for (at, word) in old.words.iter().enumerate() {
            let mut bits = *word;
            while bits != 0 {
                let time = at * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let object = self.owner[time];
                self.owner[self.now as usize] = object;
                // A hole has no object, so its owner is not in `last`.
                match self.last.get_mut(object as usize) {
                    Some(last) => *last = self.now,
                    None => self.holes.push(self.now),
                }
                self.times.words[self.now as usize / 64] |= 1 << (self.now % 64);
                self.now += 1;
            }
        }
        // Builds the tree in one pass: each entry adds itself to its parent.
        let times = &mut self.times;
        for at in 1..times.tree.len() {
            times.tree[at] += times.words[at - 1].count_ones();
            let parent = at + (at & at.wrapping_neg());
            if parent < times.tree.len() {
                times.tree[parent] += times.tree[at];
            }
        }
        times.total = self.now;
    }
}

/// Returns LRU's stack distances of all requests of a trace.
pub fn distances(trace: &Dense) -> Distances {
    distances_of(trace, Groups::ALL)
}

/// Returns LRU's stack distances if only the objects of some groups were requested.
pub(crate) fn distances_of(trace: &Dense, groups: Groups) -> Distances {
    // At most one bit for each object; holes are bits of former objects.
    let times = (trace.objects() as usize * 2).max(1 << 16);
    match groups {
        Groups::ALL => distances_within(trace, trace.events(), times),
        _ => distances_within(trace, trace.events_of(groups), times),
    }
}

/// Computes the stack distances of `events`, starting with room for `times` times. Ends early if
/// the trace is stopped.
fn distances_within(trace: &Dense, events: impl Iterator<Item = Event>, times: usize) -> Distances {
    let mut pass = Pass::new(trace.objects() as usize, times);
    for (at, event) in events.enumerate() {
        if at % PART == 0 && trace.stopped() {
            break;
        }
        match event {
            Event::Read(object) | Event::Write(object) => pass.request(object),
            Event::Remove(object) => pass.remove(object),
        }
    }
    pass.finish()
}

/// A pass over a trace, event by event; objects are numbered without gaps.
pub(crate) struct Pass {
    stack: Stack,
    hits: Vec<u64>,
    requests: u64,
}

impl Pass {
    /// Most bytes that a pass uses for each object: its last request and a count of hits, while
    /// these tables double, and four times an owner, a bit and a share of the tree.
    pub const BYTES_PER_OBJECT: u64 = 2 * (4 + 8) + 4 * 6;

    /// Creates a pass with room for `objects` objects and `times` times; both grow.
    pub fn new(objects: usize, times: usize) -> Self {
        Self {
            stack: Stack {
                last: vec![NEVER; objects],
                owner: vec![NEVER; times],
                times: Times::new(times),
                now: 0,
                holes: BinaryHeap::new(),
            },
            hits: vec![0; objects + 1],
            requests: 0,
        }
    }

    /// Records a request, and counts it as a hit at its stack distance if it has one. The number of
    /// a new object must be the next one.
    #[inline]
    pub fn request(&mut self, object: u32) {
        if object as usize == self.stack.last.len() {
            self.stack.last.push(NEVER);
            self.hits.push(0);
        }
        self.requests += 1;
        if let Some(distance) = self.stack.request(object) {
            self.hits[distance as usize] += 1;
        }
    }

    /// Records that the object is gone.
    pub fn remove(&mut self, object: u32) {
        self.stack.remove(object);
    }

    /// Returns the distances of all recorded requests.
    pub fn finish(self) -> Distances {
        Distances {
            requests: self.requests,
            hits: self.hits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evict::Lru;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn every_size_is_as_simulated(
            events in prop::collection::vec((0_u32..40, 0..10), 1..600),
            times in 130_usize..300,
        ) {
            let trace = Dense::of(
                events.into_iter().map(|(o, kind)| match kind {
                    0 => Event::Remove(o),
                    1..3 => Event::Write(o),
                    _ => Event::Read(o),
                }),
                1,
            );
            let distances = distances_within(&trace, trace.events(), times);
            let sizes: Vec<u32> = (1..45).rev().collect();
            let simulated: Vec<u64> = sizes.iter().map(|s| trace.run::<Lru>(*s).misses).collect();
            prop_assert_eq!(distances.all_misses(&sizes), &simulated[..]);
            prop_assert_eq!(distances.misses(7), simulated[44 - 7]);
            // The same with objects and times that are not known beforehand.
            let mut pass = Pass::new(0, 64);
            let mut numbers = std::collections::HashMap::new();
            for event in trace.events() {
                let next = numbers.len() as u32;
                match event {
                    Event::Read(o) | Event::Write(o) => {
                        pass.request(*numbers.entry(o).or_insert(next));
                    }
                    Event::Remove(o) => {
                        if let Some(number) = numbers.get(&o) {
                            pass.remove(*number);
                        }
                    }
                }
            }
            let grown = pass.finish();
            prop_assert_eq!(grown.requests(), trace.requests());
            prop_assert_eq!(grown.all_misses(&sizes), &simulated[..]);
        }
    }
}
