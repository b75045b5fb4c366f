//! How long calls take: a histogram a kind, in atomics, without a lock or an allocation where time is taken.
//!
//! A bucket is an exact number of nanoseconds below 32, then a 16th of a power of two: what is read from it is at
//! most 6.3 % too long. Each histogram stands there several times, and a thread keeps to one of them, so threads
//! seldom meet in a word. That is 4.3 KiB a copy; a library's histogram (hdrhistogram's, behind a lock or with a
//! queue to who reads it) would be no smaller and is made for one thread that writes.
//!
//! A page that is found pinned takes some 80 ns, of which reading the clock twice would take half. So of hits one in
//! [`ONE_IN`] is timed, after a gap drawn at random: no pattern of a program's is always met, or never.

use crate::sync::now;
use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

/// Of so many hits one is timed, on average.
pub(crate) const ONE_IN: u32 = 512;

/// Buckets of a power of two, and of all below two of them.
const EACH: usize = 16;
/// Powers of two that are told apart: the last bucket ends at 2^37 ns, 137 s, and has what is longer as well.
const TOP: usize = 37;
const BUCKETS: usize = 2 * EACH + (TOP - 5) * EACH;
/// Copies of a histogram at most.
const MOST_COPIES: usize = 8;

/// The bucket of a time: those above its lower end, up to and with its upper one.
fn bucket(ns: u64) -> usize {
    let below = ns.saturating_sub(1);
    if below < 2 * EACH as u64 {
        return below as usize;
    }
    let power = below.ilog2() as usize;
    let part = (below >> (power - 4)) as usize - EACH;
    (2 * EACH + (power - 5) * EACH + part).min(BUCKETS - 1)
}

/// The longest time of a bucket, in nanoseconds.
fn upper(bucket: usize) -> u64 {
    match bucket.checked_sub(2 * EACH) {
        None => bucket as u64 + 1,
        Some(above) => ((EACH + above % EACH + 1) as u64) << (above / EACH + 1),
    }
}

/// What one of the threads' copies counted.
struct Copy {
    buckets: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
    most_ns: AtomicU64,
}

/// A histogram that threads write.
struct Histogram(Box<[Copy]>);

impl Histogram {
    fn new(copies: usize) -> Self {
        let copy = |_| Copy {
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
            sum_ns: AtomicU64::new(0),
            most_ns: AtomicU64::new(0),
        };
        Self((0..copies).map(copy).collect())
    }

    fn record(&self, ns: u64) {
        let copy = &self.0[mine() as usize % self.0.len()];
        copy.buckets[bucket(ns)].fetch_add(1, Relaxed);
        copy.sum_ns.fetch_add(ns, Relaxed);
        // Most times are not the longest.
        if copy.most_ns.load(Relaxed) < ns {
            copy.most_ns.fetch_max(ns, Relaxed);
        }
    }

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

/// Of what a histogram is.
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

/// The histograms of a cache.
pub(crate) struct Clocks([Histogram; 6]);

impl Clocks {
    /// For so many threads at once.
    pub fn new(threads: usize) -> Self {
        let copies = threads.clamp(1, MOST_COPIES);
        Self(std::array::from_fn(|_| Histogram::new(copies)))
    }

    /// A time in nanoseconds.
    pub fn record(&self, kind: Kind, ns: u64) {
        self.0[kind as usize].record(ns);
    }

    /// The time since it began.
    pub fn since(&self, kind: Kind, begun: Instant) {
        self.record(
            kind,
            now().saturating_duration_since(begun).as_nanos() as u64,
        );
    }

    /// What they have.
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
    /// Hits of this thread until one is timed.
    static LEFT: Cell<u32> = const { Cell::new(1) };
    /// Where its random gaps come from; 0: not begun.
    static STATE: Cell<u32> = const { Cell::new(0) };
    /// Which copies it writes.
    static MINE: Cell<u32> = const { Cell::new(u32::MAX) };
}

/// Whether a look-up that begins is one of those that are timed; then [`begin`] follows.
#[inline(always)]
pub(crate) fn sampled() -> bool {
    let left = LEFT.get().wrapping_sub(1);
    LEFT.set(left);
    left == 0
}

/// When it begins. Draws the next gap, of 1 to twice [`ONE_IN`] less one.
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

/// The calling thread's number, by which its copies are found.
fn mine() -> u32 {
    static THREADS: AtomicU32 = AtomicU32::new(0);
    if MINE.get() == u32::MAX {
        MINE.set(THREADS.fetch_add(1, Relaxed) % (1 << 16));
    }
    MINE.get()
}

/// Times of one kind, as they were at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Latency {
    buckets: Box<[u64]>,
    sum_ns: u64,
    most_ns: u64,
    one_in: u32,
}

impl Latency {
    /// Times that were taken. Where one in [`Latency::one_in`] is, they are a sample and are not scaled up.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Of how many one is timed, on average; 1: all are.
    pub fn one_in(&self) -> u32 {
        self.one_in
    }

    /// The time that a share of all (0.0 to 1.0) is no longer than, at most 6.3 % too long. Zero where no time
    /// was taken.
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

    /// Half are no longer.
    pub fn p50(&self) -> Duration {
        self.quantile(0.5)
    }

    /// 99 % are no longer.
    pub fn p99(&self) -> Duration {
        self.quantile(0.99)
    }

    /// 99.9 % are no longer.
    pub fn p999(&self) -> Duration {
        self.quantile(0.999)
    }

    /// The longest since the cache began, to the nanosecond.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.most_ns)
    }

    /// All together.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }

    /// What came after an earlier moment of the same cache. [`Latency::max`] is that since the cache began.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let pairs = self.buckets.iter().zip(&earlier.buckets);
        Self {
            buckets: pairs.map(|(now, then)| now.saturating_sub(*then)).collect(),
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
            ..*self
        }
    }

    /// Times that are no longer than each power of two, and than the middle between it and the next, from 2^`first`
    /// to 2^`last` nanoseconds: the limit and how many.
    pub(crate) fn below(&self, first: u32, last: u32) -> impl Iterator<Item = (u64, u64)> + '_ {
        let halves = (2 * first..=2 * last).map(|h| (2 + u64::from(h % 2)) << (h / 2 - 1));
        halves.map(|limit| {
            let n = self.buckets[..=bucket(limit)].iter().sum();
            (limit, n)
        })
    }
}

/// How long calls took since the cache began, by kind. Times are those that a thread waited, from call to answer;
/// they include the reading of a clock, some 25 ns.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Latencies {
    /// A page that was cached: [`crate::File::pin`], or of a [`crate::File::read`] its first page, with its
    /// copy. One in 512 such calls is timed.
    pub hits: Latency,
    /// A page that was not at hand: it was read, perhaps with a window, or waited for.
    pub misses: Latency,
    /// A call of [`crate::File::write`] or [`crate::File::pin_mut`], with what it was held back.
    pub writes: Latency,
    /// What a writer was held back at the dirty limits (`balance_dirty_pages`), each time that he had to wait.
    pub throttles: Latency,
    /// An allocation of a page, with the direct reclaim in it.
    pub allocations: Latency,
    /// A call of [`crate::File::fsync`].
    pub fsyncs: Latency,
}

impl Latencies {
    /// Each with its name: `hit`, `miss`, `write`, `throttle`, `allocation`, `fsync`.
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
