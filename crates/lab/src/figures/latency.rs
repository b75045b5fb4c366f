//! Condenses latency distributions from HdrHistograms for drawing.

use hdrhistogram::Histogram;
use sim::result::AllocLatency;

/// Buckets into which each power of two is divided for drawing: 6 % wide, finer than a pixel of the
/// usual plot; 1 ns to 100 s take at most 592 of them whatever the histogram's precision.
const STEPS_PER_OCTAVE: u64 = 16;

/// Allocation latency of one path, all iterations together.
#[derive(Debug, Clone, PartialEq)]
pub struct Latency {
    /// The path of the allocations: `fast`, `kswapd-woken`, `direct-reclaim`, …
    pub path: String,
    /// Number of allocations.
    pub count: u64,
    /// Median in nanoseconds.
    pub p50: u64,
    /// 90th percentile in nanoseconds.
    pub p90: u64,
    /// 99th percentile in nanoseconds.
    pub p99: u64,
    /// 99.9th percentile in nanoseconds.
    pub p999: u64,
    /// The longest latency in nanoseconds.
    pub max: u64,
    /// Upper bound in nanoseconds and count of every bucket that is not empty, ascending.
    pub buckets: Vec<(u64, u64)>,
}

impl Latency {
    /// Condenses the histogram `h` of one path's allocation latencies, in nanoseconds. Percentiles
    /// are the histogram's own; buckets are merged to a sixteenth of an octave for drawing.
    pub fn of(path: &str, h: &Histogram<u64>) -> Self {
        let mut buckets: Vec<(u64, u64)> = Vec::new();
        for step in h.iter_recorded() {
            let upper = bucket_upper(step.value_iterated_to());
            let count = step.count_since_last_iteration();
            match buckets.last_mut() {
                Some((u, n)) if *u == upper => *n += count,
                _ => buckets.push((upper, count)),
            }
        }
        Self {
            path: path.into(),
            count: h.len(),
            p50: h.value_at_quantile(0.5),
            p90: h.value_at_quantile(0.9),
            p99: h.value_at_quantile(0.99),
            p999: h.value_at_quantile(0.999),
            max: h.max(),
            buckets,
        }
    }

    /// Merges every path over all iterations of a cell, in the order in which the paths first
    /// appear, followed by `all`: every allocation whatever its path. Paths without allocations are
    /// kept, with a count of 0.
    pub fn merged<'a>(iterations: impl IntoIterator<Item = &'a AllocLatency>) -> Vec<Self> {
        let mut paths: Vec<(&str, Histogram<u64>)> = Vec::new();
        for (name, h) in iterations.into_iter().flat_map(|i| &i.paths) {
            let known = match paths.iter().position(|(n, _)| n == name) {
                Some(at) => &mut paths[at].1,
                None => {
                    paths.push((name, growing(h.sigfig())));
                    &mut paths.last_mut().expect("just pushed").1
                }
            };
            known.add(h).expect("a growing histogram takes every value");
        }
        let mut out: Vec<Self> = paths.iter().map(|(n, h)| Self::of(n, h)).collect();
        if paths.len() > 1 {
            let mut all = growing(paths.iter().map(|(_, h)| h.sigfig()).max().unwrap_or(3));
            for (_, h) in &paths {
                all.add(h).expect("a growing histogram takes every value");
            }
            out.push(Self::of("all", &all));
        }
        out
    }
}

/// Returns an empty histogram with `sigfig` significant digits, whose range grows with its values.
fn growing(sigfig: u8) -> Histogram<u64> {
    let mut h = Histogram::new(sigfig).expect("the precision of an existing histogram");
    h.auto(true);
    h
}

/// Returns the largest value of the bucket for drawing that holds `v`: each power of two is divided
/// into equal buckets, 16 of them; values below 16 have their own.
fn bucket_upper(v: u64) -> u64 {
    if v < STEPS_PER_OCTAVE {
        return v;
    }
    let shift = v.ilog2() - STEPS_PER_OCTAVE.ilog2();
    v | ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(values: impl IntoIterator<Item = u64>) -> Histogram<u64> {
        let mut h = growing(3);
        for v in values {
            h.record(v).unwrap();
        }
        h
    }

    #[test]
    fn buckets_hold_every_value_within_six_percent() {
        for v in [0, 1, 15, 16, 17, 31, 32, 1000, 123_456_789, u64::MAX / 2] {
            let upper = bucket_upper(v);
            assert!(upper >= v);
            assert!(upper - v <= v / STEPS_PER_OCTAVE, "{v} went to {upper}");
            assert_eq!(bucket_upper(upper), upper);
        }
    }

    #[test]
    fn counts_add_up_and_uppers_ascend() {
        let l = Latency::of("fast", &histogram((0..5000).map(|i| i * i % 70_001)));
        assert_eq!(l.count, 5000);
        assert_eq!(l.buckets.iter().map(|b| b.1).sum::<u64>(), 5000);
        assert!(l.buckets.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn iterations_merge_by_path() {
        let first = AllocLatency {
            slowest: Vec::new(),
            paths: vec![
                ("fast", histogram([100, 200])),
                ("direct-reclaim", histogram([])),
            ],
        };
        let second = AllocLatency {
            slowest: Vec::new(),
            paths: vec![
                ("direct-reclaim", histogram([1_000_000])),
                ("fast", histogram([300])),
            ],
        };
        let merged = Latency::merged([&first, &second]);
        let counts: Vec<_> = merged.iter().map(|l| (&l.path[..], l.count)).collect();
        assert_eq!(counts, [("fast", 3), ("direct-reclaim", 1), ("all", 4)]);
        assert!(merged[2].max >= 1_000_000);
        assert!(Latency::merged([]).is_empty());
    }
}
