//! A cache with dirty pages: their limits, writeback, and the waits of requests.
//!
//! The clock is the trace's, moved forward by every wait (think time is kept). One device writes
//! page after page in the order in which they are submitted, [`WriteModel::page_ns`] each; reads
//! take no time here. Pages are submitted by
//!
//! - the flusher, while more pages are dirty than [`WriteModel::background`] allows: in batches,
//!   the longest dirty first, the next batch when the last one is written;
//! - a policy that answers [`Dirty::WriteBehind`] for a page it chose;
//! - an eviction that has to wait ([`Dirty::Write`], or [`TRIES`] dirty pages in a row).
//!
//! A request that leaves more than [`WriteModel::limit`] pages dirty or being written waits until
//! enough of them are written.

use crate::cache::{Counts, Free, Map};
use evict::{Dirty, Lists, Policy, Slot};
use serde::Serialize;

/// Dirty pages that an eviction skips before it waits for one: SWAP_CLUSTER_MAX.
pub const TRIES: u32 = 32;

/// The dirty limits, and the speed of the device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WriteModel {
    /// Share of the cache's pages that may be dirty or being written, 0 to 1.
    pub limit: f64,
    /// Share of the cache's pages that may be dirty before the flusher begins, 0 to 1.
    pub background: f64,
    /// Pages in a batch of the flusher.
    pub batch: u32,
    /// Nanoseconds that the device takes to write a page.
    pub page_ns: u64,
}

impl Default for WriteModel {
    /// Returns Linux's default limits and batch, and a device of 100 MiB/s.
    fn default() -> Self {
        Self {
            limit: 0.2,
            background: 0.1,
            batch: 1024,
            page_ns: 39_063,
        }
    }
}

/// Counts of writes and waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct WriteCounts {
    /// Requests that write.
    pub writes: u64,
    /// Reads that missed: pages read from the device.
    pub read_misses: u64,
    /// Pages that the flusher wrote.
    pub flusher_writes: u64,
    /// Pages written because an eviction chose them.
    pub eviction_writes: u64,
    /// Times that an eviction chose a page that was dirty or being written.
    pub dirty_met: u64,
    /// Nanoseconds that requests waited at the dirty limit.
    pub limit_stall_ns: u64,
    /// Nanoseconds that requests waited until the page of an eviction was written.
    pub eviction_stall_ns: u64,
    /// The longest wait of one request, in nanoseconds.
    pub longest_stall_ns: u64,
    /// Requests that waited.
    pub stalls: u64,
    /// Pages that were dirty or being written at the end.
    pub dirty_at_end: u32,
}

impl WriteCounts {
    /// Returns the sum of all waits, in nanoseconds.
    pub fn stall_ns(&self) -> u64 {
        self.limit_stall_ns + self.eviction_stall_ns
    }
}

/// List of dirty pages, in the order in which they became dirty.
const DIRTY: u32 = 0;
/// List of pages being written, in the order in which the device writes them.
const WRITING: u32 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum PageState {
    #[default]
    Clean,
    Dirty,
    Writing,
}

#[derive(Debug, Clone, Copy, Default)]
struct Page {
    state: PageState,
    /// Written to again since it was submitted.
    again: bool,
    /// The policy put the page back, and must be told when it is clean.
    put_back: bool,
    /// Submitted by the flusher.
    flusher: bool,
    /// The time at which the device has written it.
    done_ns: u64,
}

/// A cache with dirty pages.
#[derive(Debug)]
pub struct WriteCache<P, M> {
    policy: P,
    map: M,
    free: Free,
    pages: Vec<Page>,
    order: Lists,
    dirty: u32,
    writing: u32,
    /// Pages of the flusher's batch that are not written yet.
    batch_left: u32,
    limit: u32,
    background: u32,
    batch: u32,
    page_ns: u64,
    /// The clock, and how far it is ahead of the trace's.
    now: u64,
    shift: u64,
    /// The time at which the device has written all submitted pages.
    device_free: u64,
    /// The time at which the next page is written; `u64::MAX` if none is being written.
    next_done: u64,
    counts: Counts,
    writes: WriteCounts,
}

impl<P: Policy, M: Map> WriteCache<P, M> {
    /// Creates an empty cache of `slots` slots, of which `map` has as many. `size` is the number of
    /// pages that the limits are shares of: `slots`, or more where the trace cannot fill them.
    pub fn new(slots: u32, size: u32, map: M, model: &WriteModel) -> Self {
        Self::of(P::new(slots), slots, size, map, model)
    }

    /// Creates an empty cache of `slots` slots as [`Self::new`] does, with a policy that already
    /// exists and has as many slots. `size` is the number of pages that the shares in `model` are
    /// multiplied with; the background limit is kept at least one page below the dirty limit.
    pub fn of(policy: P, slots: u32, size: u32, map: M, model: &WriteModel) -> Self {
        let share = |share: f64| (f64::from(size) * share) as u32;
        let limit = share(model.limit).max(1);
        Self {
            policy,
            map,
            free: Free::new(slots),
            pages: vec![Page::default(); slots as usize],
            order: Lists::new(slots, 2),
            dirty: 0,
            writing: 0,
            batch_left: 0,
            limit,
            background: share(model.background).min(limit - 1),
            batch: model.batch.max(1),
            page_ns: model.page_ns,
            now: 0,
            shift: 0,
            device_free: 0,
            next_done: u64::MAX,
            counts: Counts::default(),
            writes: WriteCounts::default(),
        }
    }

    /// Ends the run and returns its counts: those of requests and misses, and those of writes and
    /// waits. The pages that are still dirty or being written are counted in `dirty_at_end`.
    pub fn finish(mut self) -> (Counts, WriteCounts) {
        self.writes.dirty_at_end = self.dirty + self.writing;
        (self.counts, self.writes)
    }

    /// Makes one request of the trace for `object`: a hit is reported to the policy, a miss brings
    /// the object into a free slot or into one that the policy evicts, and a write makes the page
    /// dirty. `time_ns` is the request's time in the trace; all earlier waits are added to it, so
    /// think time is kept. The counts of requests, misses and waits follow.
    #[inline]
    pub fn request(&mut self, object: u64, write: bool, time_ns: u64) {
        // `shift`: the sum of all waits so far, in nanoseconds.
        self.now = self.now.max(time_ns.saturating_add(self.shift));
        self.end_writes_until_now();
        self.counts.requests += 1;
        let waits_before = self.shift;
        let slot = match self.map.find(object) {
            Some(slot) => {
                self.policy.access(slot);
                slot
            }
            None => {
                self.counts.misses += 1;
                self.writes.read_misses += u64::from(!write);
                self.policy.miss(object);
                let slot = match self.free.take() {
                    Some(slot) => {
                        self.map.insert(object, slot);
                        slot
                    }
                    None => {
                        let slot = self.evict();
                        self.map.replace(object, slot);
                        slot
                    }
                };
                self.policy.admit(slot, object);
                slot
            }
        };
        if write {
            self.writes.writes += 1;
            self.make_dirty(slot);
        }
        let waited = self.shift - waits_before;
        self.writes.stalls += u64::from(waited > 0);
        self.writes.longest_stall_ns = self.writes.longest_stall_ns.max(waited);
    }

    /// Removes an object that is gone, because its file was truncated or deleted; the object's
    /// page, if cached, leaves the cache without being written, even if it is dirty.
    pub fn remove(&mut self, object: u64) {
        let Some(slot) = self.map.find(object) else {
            return;
        };
        self.policy.remove(slot);
        let page = std::mem::take(&mut self.pages[slot as usize]);
        match page.state {
            PageState::Clean => {}
            PageState::Dirty => {
                self.order.unlink(slot);
                self.dirty -= 1;
            }
            PageState::Writing => self.unlink_writing(slot, page.flusher),
        }
        self.map.remove(slot);
        self.free.give(slot);
    }

    /// Takes a page off the list of pages being written, because it is written or its object was
    /// removed. `flusher`: the flusher had submitted it, so its batch has one page fewer to wait
    /// for. The time of the next completion becomes that of the oldest page left.
    fn unlink_writing(&mut self, slot: Slot, flusher: bool) {
        self.order.unlink(slot);
        self.writing -= 1;
        self.batch_left -= u32::from(flusher);
        let next = self.order.oldest(WRITING);
        self.next_done = next.map_or(u64::MAX, |s| self.pages[s as usize].done_ns);
    }

    /// Makes the page in `slot` dirty for a write request, starts the flusher if its limit is
    /// exceeded, and lets the request wait while more pages than the dirty limit allows are dirty
    /// or being written. A page that is dirty already changes nothing; one being written becomes
    /// dirty again when it is done.
    fn make_dirty(&mut self, slot: Slot) {
        let page = &mut self.pages[slot as usize];
        match page.state {
            PageState::Dirty => return,
            PageState::Writing => {
                page.again = true;
                return;
            }
            PageState::Clean => {}
        }
        page.state = PageState::Dirty;
        self.order.push_newest(DIRTY, slot);
        self.dirty += 1;
        self.flush(self.now);
        while self.dirty + self.writing > self.limit {
            // `shift`: the sum of all waits so far, in nanoseconds.
            let before = self.shift;
            self.wait_until(self.next_done);
            self.writes.limit_stall_ns += self.shift - before;
        }
    }

    /// Submits the flusher's next batch at the time `at_ns`: the pages that have been dirty
    /// longest. Does nothing while no more pages are dirty than the background limit allows, or
    /// while pages of the last batch are still being written.
    fn flush(&mut self, at_ns: u64) {
        if self.dirty <= self.background || self.batch_left > 0 {
            return;
        }
        for _ in 0..self.batch.min(self.dirty) {
            let Some(slot) = self.order.oldest(DIRTY) else {
                break;
            };
            self.submit(slot, at_ns, true);
            self.batch_left += 1;
            self.writes.flusher_writes += 1;
        }
    }

    /// Submits a dirty page to the device, which writes it after all pages submitted before.
    /// `at_ns` is the time of the submission; `flusher` is true if the flusher submits it, false
    /// for an eviction.
    fn submit(&mut self, slot: Slot, at_ns: u64, flusher: bool) {
        self.device_free = self.device_free.max(at_ns) + self.page_ns;
        let page = &mut self.pages[slot as usize];
        debug_assert_eq!(page.state, PageState::Dirty);
        page.state = PageState::Writing;
        page.flusher = flusher;
        page.done_ns = self.device_free;
        self.next_done = self.next_done.min(self.device_free);
        self.order.renew(WRITING, slot);
        self.dirty -= 1;
        self.writing += 1;
    }

    /// Ends the writing of every page whose write is complete by the clock's time.
    #[inline]
    fn end_writes_until_now(&mut self) {
        while self.next_done <= self.now {
            self.end_oldest_write();
        }
    }

    /// Ends the writing of the page that was submitted first. The page becomes clean, or dirty
    /// again if a request wrote to it meanwhile. A policy that had put the page back is told when
    /// it is clean. The flusher may then submit its next batch, at the time of this completion.
    fn end_oldest_write(&mut self) {
        let Some(slot) = self.order.oldest(WRITING) else {
            self.next_done = u64::MAX;
            return;
        };
        let page = &mut self.pages[slot as usize];
        let Page {
            again,
            put_back,
            flusher,
            done_ns,
            ..
        } = std::mem::take(page);
        if again {
            page.state = PageState::Dirty;
            // The policy is told once the page is clean.
            page.put_back = put_back;
        }
        self.unlink_writing(slot, flusher);
        if again {
            self.order.push_newest(DIRTY, slot);
            self.dirty += 1;
        } else if put_back {
            self.policy.cleaned(slot);
        }
        self.flush(done_ns);
    }

    /// Moves the clock forward to `until_ns` and adds the difference to the sum of waits; a time in
    /// the past waits for nothing. Then ends the writes that are complete.
    fn wait_until(&mut self, until_ns: u64) {
        if until_ns > self.now {
            self.shift += until_ns - self.now;
            self.now = until_ns;
        }
        self.end_writes_until_now();
    }

    /// Takes a page out of the full cache, as the policy chooses, and returns its slot, now clean
    /// and free for another object. For a dirty page the policy's `dirty` hook decides: write and
    /// wait, skip it, or write it in the background and choose another. After `TRIES` dirty pages
    /// in a row the request waits for the last one.
    fn evict(&mut self) -> Slot {
        let mut tries = 0;
        loop {
            let slot = self
                .policy
                .evict()
                .expect("a full cache has a page to evict");
            let page = self.pages[slot as usize];
            if page.state == PageState::Clean {
                return slot;
            }
            self.writes.dirty_met += 1;
            tries += 1;
            match self.policy.dirty(slot) {
                Dirty::Write => {
                    self.write_out(slot);
                    return slot;
                }
                answer if tries < TRIES => {
                    if answer == Dirty::WriteBehind {
                        self.pages[slot as usize].put_back = true;
                        if page.state == PageState::Dirty {
                            self.writes.eviction_writes += 1;
                            self.submit(slot, self.now, false);
                        }
                    }
                }
                _ => {
                    self.policy.remove(slot);
                    self.write_out(slot);
                    return slot;
                }
            }
        }
    }

    /// Waits until the page in `slot`, which the policy has given up, is clean. A dirty page is
    /// submitted first; one that was written to while the device wrote it is submitted once more.
    /// The wait is counted in `eviction_stall_ns`.
    fn write_out(&mut self, slot: Slot) {
        // `shift`: the sum of all waits so far, in nanoseconds.
        let before = self.shift;
        loop {
            self.pages[slot as usize].put_back = false;
            match self.pages[slot as usize].state {
                PageState::Clean => break,
                PageState::Dirty => {
                    self.writes.eviction_writes += 1;
                    self.submit(slot, self.now, false);
                }
                PageState::Writing => {}
            }
            let done = self.pages[slot as usize].done_ns;
            self.wait_until(done);
        }
        self.writes.eviction_stall_ns += self.shift - before;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dense, Event};
    use evict::{Fifo, Lru, TwoList};
    use proptest::prelude::*;

    const MODEL: WriteModel = WriteModel {
        limit: 0.5,
        background: 0.25,
        batch: 4,
        page_ns: 100,
    };

    #[test]
    fn a_slow_device_stalls_at_the_limit() {
        // 8 pages: the flusher begins with the third dirty page, the limit is 4 pages.
        let trace = Dense::of((0..6).map(Event::Write), 0);
        let (_, w) = trace.run_with_writes::<Lru>(8, &MODEL);
        // The third write starts a batch of three pages, written at 100, 200, 300; the fifth write
        // waits for the first of them and the sixth for the second.
        assert_eq!(
            (w.limit_stall_ns, w.stalls, w.longest_stall_ns),
            (200, 2, 100)
        );
        assert_eq!(
            (w.flusher_writes, w.eviction_writes, w.dirty_met),
            (3, 0, 0)
        );
        assert_eq!(w.dirty_at_end, 4);
    }

    #[test]
    fn slow_writers_never_stall() {
        let trace = Dense::of((0..1000).map(|i| Event::Write(i % 37)), 150);
        let (counts, w) = trace.run_with_writes::<Fifo>(30, &MODEL);
        assert_eq!((w.stall_ns(), w.stalls, w.writes), (0, 0, 1000));
        assert_eq!(counts, trace.run::<Fifo>(30));
    }

    /// A policy that never puts a dirty page back.
    struct Waits(Lru);

    impl Policy for Waits {
        fn new(slots: u32) -> Self {
            Self(Lru::new(slots))
        }
        fn admit(&mut self, slot: Slot, object: u64) {
            self.0.admit(slot, object);
        }
        fn access(&mut self, slot: Slot) {
            self.0.access(slot);
        }
        fn evict(&mut self) -> Option<Slot> {
            self.0.evict()
        }
        fn remove(&mut self, slot: Slot) {
            self.0.remove(slot);
        }
    }

    #[test]
    fn the_hook_decides_whether_an_eviction_waits() {
        let model = WriteModel {
            limit: 1.0,
            background: 1.0,
            ..MODEL
        };
        let events = || [Event::Write(0)].into_iter().chain((1..9).map(Event::Read));
        let trace = Dense::of(events(), 10);
        let (_, waits) = trace.run_with_writes::<Waits>(4, &model);
        assert_eq!((waits.eviction_stall_ns, waits.dirty_met), (100, 1));
        let (_, behind) = trace.run_with_writes::<TwoList>(4, &model);
        assert_eq!(behind.eviction_stall_ns, 0);
        // Four evictions later the page is the oldest again, and not written yet.
        assert_eq!((behind.dirty_met, behind.eviction_writes), (2, 1));
    }

    struct Recount;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn counters_agree_with_the_lists(
            events in prop::collection::vec((0_u64..40, 0..10, 0_u64..300), 1..500),
            size in 1_u32..30,
            batch in 1_u32..8,
        ) {
            let model = WriteModel { batch, ..MODEL };
            for name in evict::registry::ALL.iter().map(|e| e.name) {
                let job = (&events[..], size, model);
                evict::registry::visit(name, Check(job, Recount)).unwrap();
            }
        }
    }

    struct Check<'a>((&'a [(u64, i32, u64)], u32, WriteModel), Recount);

    impl evict::registry::Visitor for Check<'_> {
        type Output = ();
        fn visit<P: Policy + 'static>(self) {
            let (events, size, model) = self.0;
            let map = evict::Index::new(size);
            let mut cache = WriteCache::<P, _>::new(size, size, map, &model);
            let mut time = 0;
            for &(object, kind, step) in events {
                time += step;
                match kind {
                    0 => cache.remove(object),
                    _ => cache.request(object, kind < 5, time),
                }
                self.1.check(&cache, size);
            }
        }
    }

    impl Recount {
        fn check<P: Policy>(&self, cache: &WriteCache<P, evict::Index>, size: u32) {
            let count = |s| cache.pages.iter().filter(|p| p.state == s).count() as u32;
            assert_eq!(cache.dirty, count(PageState::Dirty));
            assert_eq!(cache.writing, count(PageState::Writing));
            let of_flusher = |p: &&Page| p.state == PageState::Writing && p.flusher;
            let batch = cache.pages.iter().filter(of_flusher).count();
            assert_eq!(cache.batch_left as usize, batch);
            assert!(cache.dirty + cache.writing <= cache.limit);
            let mut last = 0;
            let writing =
                std::iter::successors(cache.order.oldest(WRITING), |s| cache.order.newer(*s));
            for slot in writing {
                assert!(cache.pages[slot as usize].done_ns > last.max(cache.now));
                last = cache.pages[slot as usize].done_ns;
            }
            let held = (0..40).filter_map(|o| cache.map.find(o)).count() as u32;
            assert!(held <= size);
            let w = &cache.writes;
            assert_eq!(w.stall_ns(), cache.shift);
        }
    }
}
