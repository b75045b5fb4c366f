//! Latency histograms, one for each kind of call, in atomics: recording takes no lock and no
//! allocation.
//!
//! A bucket is one nanosecond wide up to 32 ns, then a 16th of a power of two, so a time read from
//! the histogram is at most 6.3 % too long. Each histogram has several copies, and a thread uses
//! one of them, so threads seldom write the same word. A copy takes 4.3 KiB; a library's histogram
//! (hdrhistogram's, behind a lock or with a queue to the reader) would be no smaller and is made
//! for one writing thread.
//!
//! Pinning a cached page takes some 80 ns; reading the clock twice would take half as long again.
//! So of the hits only one in [`ONE_IN`] is timed, after a gap drawn at random: no access pattern
//! is always timed, or never.

use crate::sync::now;
use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

/// One in this many hits is timed, on average.
pub(crate) const ONE_IN: u32 = 512;

/// Buckets of one power of two; the range below two such groups has twice as many.
const EACH: usize = 16;
/// Powers of two that are told apart: the last bucket ends at 2^37 ns (137 s), and holds all longer
/// times as well.
const TOP: usize = 37;
const BUCKETS: usize = 2 * EACH + (TOP - 5) * EACH;
/// Most copies of a histogram.
const MOST_COPIES: usize = 8;

/// Returns the index of the bucket for a time in nanoseconds. A bucket excludes its lower end and
/// includes its upper.
fn bucket(ns: u64) -> usize {
    let below = ns.saturating_sub(1);
    if below < 2 * EACH as u64 {
        return below as usize;
    }
    let power = below.ilog2() as usize;
    let part = (below >> (power - 4)) as usize - EACH;
    (2 * EACH + (power - 5) * EACH + part).min(BUCKETS - 1)
}

/// Returns the upper end of a bucket in nanoseconds.
fn upper(bucket: usize) -> u64 {
    match bucket.checked_sub(2 * EACH) {
        None => bucket as u64 + 1,
        Some(above) => ((EACH + above % EACH + 1) as u64) << (above / EACH + 1),
    }
}

/// One copy of a histogram, for some of the threads.
struct Copy {
    buckets: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
    most_ns: AtomicU64,
}

/// A histogram that several threads write.
struct Histogram(Box<[Copy]>);

impl Histogram {
    /// Returns an empty histogram with `copies` copies, so that threads seldom write the same one.
    fn new(copies: usize) -> Self {
        let copy = |_| Copy {
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
            sum_ns: AtomicU64::new(0),
            most_ns: AtomicU64::new(0),
        };
        Self((0..copies).map(copy).collect())
    }

    /// Records a time in nanoseconds in the calling thread's copy.
    fn record(&self, ns: u64) {
        let copy = &self.0[mine() as usize % self.0.len()];
        copy.buckets[bucket(ns)].fetch_add(1, Relaxed);
        copy.sum_ns.fetch_add(ns, Relaxed);
        // The load avoids a write in most cases.
        if copy.most_ns.load(Relaxed) < ns {
            copy.most_ns.fetch_max(ns, Relaxed);
        }
    }

    /// Returns the sum of all copies. `one_in`: one in so many calls was timed.
    fn read(&self, one_in: u32) -> Latency {
        let copies = || self.0.iter();
        let of = |b: usize| copies().map(|c| c.buckets[b].load(Relaxed)).sum();
        let most = copies().map(|c| c.most_ns.load(Relaxed)).max();
        Latency {
            buckets: (0..BUCKETS).map(of).collect(),
            sum_ns: copies().map(|c| c.sum_ns.load(Relaxed)).sum(),
            most_ns: most.unwrap_or(0),
            one_in,
        }
    }
}

/// The kinds of calls that are timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Kind {
    Hit,
    Miss,
    Write,
    Throttle,
    Allocation,
    Fsync,
}

/// The histograms of a cache, by [`Kind`].
pub(crate) struct Clocks([Histogram; 6]);

impl Clocks {
    /// Creates histograms for `threads` concurrent threads.
    pub fn new(threads: usize) -> Self {
        let copies = threads.clamp(1, MOST_COPIES);
        Self(std::array::from_fn(|_| Histogram::new(copies)))
    }

    /// Records a time in nanoseconds.
    pub fn record(&self, kind: Kind, ns: u64) {
        self.0[kind as usize].record(ns);
    }

    /// Records the time since `begun` in the histogram of a kind of call.
    pub fn since(&self, kind: Kind, begun: Instant) {
        self.record(
            kind,
            now().saturating_duration_since(begun).as_nanos() as u64,
        );
    }

    /// Returns all histograms as they are now.
    pub fn read(&self) -> Latencies {
        let of = |kind: Kind| {
            let one_in = if kind == Kind::Hit { ONE_IN } else { 1 };
            self.0[kind as usize].read(one_in)
        };
        Latencies {
            hits: of(Kind::Hit),
            misses: of(Kind::Miss),
            writes: of(Kind::Write),
            throttles: of(Kind::Throttle),
            allocations: of(Kind::Allocation),
            fsyncs: of(Kind::Fsync),
        }
    }
}

thread_local! {
    /// Hits of this thread until the next one that is timed.
    static LEFT: Cell<u32> = const { Cell::new(1) };
    /// State of the generator of random gaps; 0: not seeded.
    static STATE: Cell<u32> = const { Cell::new(0) };
    /// The thread's number, which selects its copies.
    static MINE: Cell<u32> = const { Cell::new(u32::MAX) };
}

/// Returns true if the look-up of a cached page that begins is to be timed; the caller then calls
/// [`begin`].
#[inline(always)]
pub(crate) fn sampled() -> bool {
    let left = LEFT.get().wrapping_sub(1);
    LEFT.set(left);
    left == 0
}

/// Returns the start time of a hit that is timed, and draws at random how many hits pass until the
/// next one is: 1 to 2 * [`ONE_IN`] - 1.
pub(crate) fn begin() -> Instant {
    let mut state = STATE.get();
    if state == 0 {
        state = mine().wrapping_mul(0x9e37_79b9) | 1;
    }
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    STATE.set(state);
    LEFT.set(1 + state % (2 * ONE_IN - 1));
    now()
}

/// Returns the calling thread's number, assigned at its first call, which selects its copies of the
/// histograms.
fn mine() -> u32 {
    static THREADS: AtomicU32 = AtomicU32::new(0);
    if MINE.get() == u32::MAX {
        MINE.set(THREADS.fetch_add(1, Relaxed) % (1 << 16));
    }
    MINE.get()
}

/// A histogram of one kind of call at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Latency {
    buckets: Box<[u64]>,
    sum_ns: u64,
    most_ns: u64,
    one_in: u32,
}

impl Latency {
    /// Returns the number of times recorded. Of a sampled kind ([`Latency::one_in`]) that is the
    /// size of the sample, not scaled up.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns n where one in n calls is timed, on average; 1: all are.
    pub fn one_in(&self) -> u32 {
        self.one_in
    }

    /// Returns the time that a share (0.0 to 1.0) of the calls did not exceed, at most 6.3 % too
    /// long; zero if none was timed.
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = (self.count() as f64 * share.clamp(0.0, 1.0))
            .ceil()
            .max(1.0) as u64;
        let mut seen = 0;
        let found = self.buckets.iter().position(|n| {
            seen += n;
            seen >= wanted
        });
        let ns = found.map_or(0, |b| upper(b).min(self.most_ns.max(1)));
        Duration::from_nanos(ns)
    }

    /// Returns the median.
    pub fn p50(&self) -> Duration {
        self.quantile(0.5)
    }

    /// Returns the 99th percentile.
    pub fn p99(&self) -> Duration {
        self.quantile(0.99)
    }

    /// Returns the 99.9th percentile.
    pub fn p999(&self) -> Duration {
        self.quantile(0.999)
    }

    /// Returns the longest time since the cache began, exact to the nanosecond.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.most_ns)
    }

    /// Returns the sum of all times.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }

    /// Returns the histogram of the calls after an earlier moment of the same cache. Only
    /// [`Latency::max`] stays that since the cache began.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let pairs = self.buckets.iter().zip(&earlier.buckets);
        Self {
            buckets: pairs.map(|(now, then)| now.saturating_sub(*then)).collect(),
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
            ..*self
        }
    }

    /// Returns pairs of a limit in nanoseconds and the number of times that are no longer: the
    /// limits are the powers of two from 2^`first` to 2^`last`, and the middle between each two.
    pub(crate) fn below(&self, first: u32, last: u32) -> impl Iterator<Item = (u64, u64)> + '_ {
        let halves = (2 * first..=2 * last).map(|h| (2 + u64::from(h % 2)) << (h / 2 - 1));
        halves.map(|limit| {
            let n = self.buckets[..=bucket(limit)].iter().sum();
            (limit, n)
        })
    }
}

/// How long calls took since the cache began, by kind. A time is measured on the calling thread
/// from call to return; it includes the reading of a clock, some 25 ns.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Latencies {
    /// Cached pages: a [`crate::File::pin`], or the first page of a [`crate::File::read`] with its
    /// copy. One in 512 such calls is timed.
    pub hits: Latency,
    /// Pages that were not cached: from the miss until the page was read (with its window) or
    /// waited for.
    pub misses: Latency,
    /// Calls of [`crate::File::write`] or [`crate::File::pin_mut`], throttling included.
    pub writes: Latency,
    /// Waits of throttled writers at the dirty limits (`balance_dirty_pages`).
    pub throttles: Latency,
    /// Allocations of a page, direct reclaim included.
    pub allocations: Latency,
    /// Calls of [`crate::File::fsync`].
    pub fsyncs: Latency,
}

impl Latencies {
    /// Returns each histogram with its name: `hit`, `miss`, `write`, `throttle`, `allocation`,
    /// `fsync`.
    pub fn all(&self) -> [(&'static str, &Latency); 6] {
        [
            ("hit", &self.hits),
            ("miss", &self.misses),
            ("write", &self.writes),
            ("throttle", &self.throttles),
            ("allocation", &self.allocations),
            ("fsync", &self.fsyncs),
        ]
    }
}
