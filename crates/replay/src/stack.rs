//! LRU at every size in one pass (Mattson, Gecsei, Slutz, Traiger 1970): a request hits a cache of
//! `c` pages if fewer than `c` other objects were requested since the object's last request.
//!
//! The number of them is a count of bits: each object's last request is a bit at its time, kept in
//! words of 64 with a Fenwick tree over the words (Olken 1981 uses a search tree). When the times
//! run out, bits are moved together.
//!
//! An object that is removed leaves a free page: its bit stays as a hole. The next page that is
//! brought in, or drawn up from below, fills the newest hole.

use crate::dense::{Dense, Event};
use std::collections::BinaryHeap;

const NEVER: u32 = u32::MAX;

/// Hits by distance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distances {
    requests: u64,
    /// `hits[d]`: requests that caches of at least `d + 1` pages hold.
    hits: Vec<u64>,
}

impl Distances {
    /// Misses of a cache of `size` pages.
    pub fn misses(&self, size: u32) -> u64 {
        let hits: u64 = self.hits.iter().take(size as usize).sum();
        self.requests - hits
    }

    /// Misses of caches of many sizes, in the order of `sizes`.
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

/// Bits at times, and how many there are before a time.
struct Times {
    words: Vec<u64>,
    /// Fenwick tree over the words' counts; entry 0 is not used.
    tree: Vec<u32>,
    total: u32,
}

impl Times {
    fn new(length: usize) -> Self {
        let words = length.div_ceil(64);
        Self {
            words: vec![0; words],
            tree: vec![0; words + 1],
            total: 0,
        }
    }

    #[inline]
    fn add(&mut self, time: u32, by: u32) {
        let mut at = time as usize / 64 + 1;
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add(by);
            at += at & at.wrapping_neg();
        }
        self.total = self.total.wrapping_add(by);
    }

    #[inline]
    fn set(&mut self, time: u32) {
        self.words[time as usize / 64] |= 1 << (time % 64);
        self.add(time, 1);
    }

    #[inline]
    fn clear(&mut self, time: u32) {
        self.words[time as usize / 64] &= !(1 << (time % 64));
        self.add(time, u32::MAX);
    }

    /// Bits behind a time that has one.
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
    /// By object: the time of its last request.
    last: Vec<u32>,
    /// By time: the object requested then; holes have none.
    owner: Vec<u32>,
    times: Times,
    now: u32,
    holes: BinaryHeap<u32>,
}

impl Stack {
    /// The object's distance in pages before this request.
    #[inline]
    fn request(&mut self, object: u32) -> Option<u32> {
        if self.now as usize == self.owner.len() {
            self.compact();
        }
        let last = self.last[object as usize];
        let distance = (last != NEVER).then(|| self.times.behind(last));
        // What is above the newest hole moves down and fills it; the hole goes where the object
        // was, if that is below.
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

    fn remove(&mut self, object: u32) {
        let last = std::mem::replace(&mut self.last[object as usize], NEVER);
        if last != NEVER {
            self.owner[last as usize] = NEVER;
            self.holes.push(last);
        }
    }

    /// Moves bits together, to the first times.
    #[cold]
    fn compact(&mut self) {
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
                match self.last.get_mut(object as usize) {
                    Some(last) => *last = self.now,
                    None => self.holes.push(self.now),
                }
                self.times.words[self.now as usize / 64] |= 1 << (self.now % 64);
                self.now += 1;
            }
        }
        // The tree in one pass: each entry adds itself to its parent.
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

/// The distances of all requests of a trace.
pub fn distances(trace: &Dense) -> Distances {
    // At most one bit an object, besides holes: those are objects too.
    let objects = trace.objects() as usize;
    distances_within(trace, (objects * 2).max(1 << 16))
}

fn distances_within(trace: &Dense, times: usize) -> Distances {
    let objects = trace.objects() as usize;
    let mut stack = Stack {
        last: vec![NEVER; objects],
        owner: vec![NEVER; times],
        times: Times::new(times),
        now: 0,
        holes: BinaryHeap::new(),
    };
    let mut hits = vec![0; objects + 1];
    for event in trace.events() {
        match event {
            Event::Read(object) | Event::Write(object) => {
                if let Some(distance) = stack.request(object) {
                    hits[distance as usize] += 1;
                }
            }
            Event::Remove(object) => stack.remove(object),
        }
    }
    Distances {
        requests: trace.requests(),
        hits,
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
            let distances = distances_within(&trace, times);
            let sizes: Vec<u32> = (1..45).rev().collect();
            let simulated: Vec<u64> = sizes.iter().map(|s| trace.run::<Lru>(*s).misses).collect();
            prop_assert_eq!(distances.all_misses(&sizes), &simulated[..]);
            prop_assert_eq!(distances.misses(7), simulated[44 - 7]);
        }
    }
}
