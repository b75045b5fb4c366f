//! Tests the differences between the multi-generational LRU and LRU, FIFO and SIEVE.

use evict::{Fifo, Generational, Lru, Policy, Sieve, Slot};
use std::collections::HashMap;

/// A cache of clean pages.
struct Cache<P> {
    policy: P,
    slots: HashMap<u64, Slot>,
    objects: Vec<u64>,
    size: u32,
}

impl<P: Policy> Cache<P> {
    fn new(size: u32) -> Self {
        Self {
            policy: P::new(size),
            slots: HashMap::new(),
            objects: Vec::new(),
            size,
        }
    }

    /// Reads a page; returns true if it was cached.
    fn read(&mut self, object: u64) -> bool {
        if let Some(&slot) = self.slots.get(&object) {
            self.policy.access(slot);
            return true;
        }
        self.policy.miss(object);
        let slot = if self.objects.len() < self.size as usize {
            self.objects.push(object);
            self.objects.len() as Slot - 1
        } else {
            let slot = self.policy.evict().expect("a full cache");
            let old = std::mem::replace(&mut self.objects[slot as usize], object);
            self.slots.remove(&old);
            slot
        };
        self.slots.insert(object, slot);
        self.policy.admit(slot, object);
        false
    }
}

/// Returns the misses of a sequence of reads, counted from index `from` on.
fn misses<P: Policy>(size: u32, reads: &[u64], from: usize) -> usize {
    let mut cache = Cache::<P>::new(size);
    let hits: Vec<bool> = reads.iter().map(|r| cache.read(*r)).collect();
    hits[from..].iter().filter(|h| !**h).count()
}

const SIZE: u32 = 1000;

/// Returns the reads of `rounds` rounds over 1500 pages, each page read `times` in a row.
fn looped(rounds: usize, times: usize) -> Vec<u64> {
    let round = (0..1500).flat_map(|o| std::iter::repeat_n(o, times));
    std::iter::repeat_n(round, rounds).flatten().collect()
}

/// A loop larger than memory. If each page is read once a round, all pages are of the first tier
/// and leave in order of arrival, as in any queue. If each is read twice, they are of the second
/// tier, which comes back while the first does not: the tier is protected, and half of the pages
/// stay for another generation and are hit there.
#[test]
fn a_loop_larger_than_memory_is_kept_in_part_once_its_tier_has_come_back() {
    let once = looped(40, 1);
    for misses in [
        misses::<Lru>(SIZE, &once, 0),
        misses::<Sieve>(SIZE, &once, 0),
        misses::<Generational>(SIZE, &once, 0),
    ] {
        assert_eq!(misses, once.len());
    }
    let twice = looped(40, 2);
    let from = twice.len() / 2;
    let pages = (twice.len() - from) / 2;
    let lru = misses::<Lru>(SIZE, &twice, from);
    let sieve = misses::<Sieve>(SIZE, &twice, from);
    let generational = misses::<Generational>(SIZE, &twice, from);
    println!("loop: {pages} {lru} {sieve} {generational}");
    assert_eq!((lru, sieve), (pages, pages));
    assert!(generational < pages * 9 / 10, "{generational} of {pages}");
}

/// 600 hot pages that are read six times a round, among a stream of pages read twice and never
/// again.
fn hot_among_read_twice(rounds: u64) -> Vec<u64> {
    let mut reads = Vec::new();
    let mut stream = 1_000_000;
    for _ in 0..rounds {
        for hot in 0..600 {
            reads.extend([hot; 6]);
            for _ in 0..2 {
                stream += 1;
                reads.extend([stream; 2]);
            }
        }
    }
    reads
}

/// Pages read twice through descriptors do not stay if none of them comes back: only tiers that
/// come back are protected. SIEVE has a single bit for both kinds.
#[test]
fn a_tier_that_comes_back_is_told_from_one_that_does_not() {
    let reads = hot_among_read_twice(60);
    let from = reads.len() / 2;
    let needed = 30 * 1200;
    let of = |misses: usize| misses - needed;
    let lru = of(misses::<Lru>(SIZE, &reads, from));
    let fifo = of(misses::<Fifo>(SIZE, &reads, from));
    let sieve = of(misses::<Sieve>(SIZE, &reads, from));
    let generational = of(misses::<Generational>(SIZE, &reads, from));
    println!("tiers: {lru} {fifo} {sieve} {generational}");
    assert_eq!(
        (lru, fifo),
        (30 * 600, 30 * 600),
        "every hot page, every round"
    );
    assert!(generational < sieve / 2, "{generational} {sieve}");
}

/// No tier is protected before its pages have come back: until then pages leave in order of
/// arrival, however often they are used. SIEVE keeps used pages at once.
#[test]
fn without_refaults_pages_leave_as_they_came() {
    let mut generational = Generational::new(100);
    let mut sieve = Sieve::new(100);
    for slot in 0..100 {
        generational.miss(slot.into());
        generational.admit(slot, slot.into());
        sieve.admit(slot, slot.into());
    }
    for slot in 0..50 {
        for _ in 0..5 {
            generational.access(slot);
        }
        sieve.access(slot);
    }
    let first: Vec<_> = (0..100).map_while(|_| generational.evict()).collect();
    assert_eq!(first, (0..100).collect::<Vec<_>>());
    assert_eq!(sieve.evict(), Some(50));
}

/// A scan through a hot set: LRU loses the hot set, and with it the hits of every round; the
/// generations keep the pages that came back after the first scans.
#[test]
fn a_scan_does_not_take_what_has_come_back() {
    let mut reads = Vec::new();
    let mut scan = 1_000_000;
    let mut starts = Vec::new();
    for _ in 0..40 {
        starts.push(reads.len());
        for _ in 0..3 {
            reads.extend(0..500);
        }
        reads.extend(scan..scan + 1000);
        scan += 1000;
    }
    let from = starts[20];
    let needed = 20 * 1000;
    let lru = misses::<Lru>(SIZE, &reads, from) - needed;
    let generational = misses::<Generational>(SIZE, &reads, from) - needed;
    println!("scan: {lru} {generational}");
    assert_eq!(lru, 20 * 500);
    assert!(generational < lru / 2, "{generational} {lru}");
}
