//! Latencies in the form of simoop's own histogram
//! (docs/reference/counters-and-traces.md#workload-figures).

/// Binary logarithm of [`BINS`].
const BITS: u32 = 8;
/// Bins between two powers of two.
const BINS: u64 = 1 << BITS;

/// A log-linear histogram of microseconds: from 256 us on, the values of [2^(e+8), 2^(e+9)) fall
/// into 256 bins of 2^e, and a value is reported as the middle of its bin, within 0.2 % of itself.
/// Values below 256 us have bins of one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    /// Counts per bin, grown to the longest latency so far: 7,000 bins for an hour.
    counts: Vec<u64>,
    total: u64,
    sum: u64,
}

/// Returns the index of the bin that counts latencies of `us` microseconds.
fn bin(us: u64) -> usize {
    let e = (us | (BINS - 1)).ilog2() - (BITS - 1);
    // Binary logarithm of the bin's width in microseconds.
    let e = e.saturating_sub(1);
    (u64::from(e) * BINS + (us >> e)) as usize
}

/// Returns the middle of a bin in microseconds: the inverse of `bin`.
fn middle(bin: usize) -> f64 {
    let bin = bin as u64;
    // Binary logarithm of the bin's width.
    let e = (bin / BINS).saturating_sub(1);
    ((bin - e * BINS) as f64 + 0.5) * (1u64 << e) as f64
}

impl Histogram {
    /// Adds a latency in microseconds.
    pub fn record(&mut self, us: u64) {
        let bin = bin(us);
        if self.counts.len() <= bin {
            self.counts.resize(bin + 1, 0);
        }
        self.counts[bin] += 1;
        self.total += 1;
        self.sum += us;
    }

    /// Returns the number of latencies.
    pub fn len(&self) -> u64 {
        self.total
    }

    /// Returns the exact mean in microseconds; 0 if there are no latencies.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.total.max(1) as f64
    }

    /// Returns the middle, in microseconds, of the first bin up to which `percent` of all latencies
    /// lie; `None` if there are none.
    pub fn percentile(&self, percent: u64) -> Option<f64> {
        let wanted = (self.total * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let found = self.counts.iter().position(|n| {
            seen += n;
            seen >= wanted
        });
        found.map(middle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PUBLISHED: &str =
        include_str!("../../../../../data/published/xfs-inode-reclaim/xfs-inode-reclaim.csv");

    /// Every published latency is the middle of a bin.
    #[test]
    fn published_latencies_are_middles() {
        let mut latencies = 0;
        for line in PUBLISHED.lines().filter(|l| l.contains("_latency_")) {
            let cells: Vec<&str> = line.split(',').collect();
            let value: f64 = cells[8].parse().expect("a number");
            assert_eq!(middle(bin(value as u64)), value, "{line}");
            let mut h = Histogram::default();
            h.record(value as u64 + 100);
            h.record(value as u64 * 2);
            assert_eq!(h.percentile(50), Some(value), "{line}");
            latencies += 1;
        }
        assert_eq!(latencies, 18);
    }

    #[test]
    fn percentiles_count_from_below() {
        let mut h = Histogram::default();
        assert_eq!((h.percentile(50), h.mean()), (None, 0.0));
        for us in 1..=100 {
            h.record(us);
        }
        assert_eq!((h.len(), h.mean()), (100, 50.5));
        let at = [1, 50, 95, 99, 100].map(|p| h.percentile(p).unwrap());
        assert_eq!(at, [1.5, 50.5, 95.5, 99.5, 100.5]);
    }

    proptest! {
        #[test]
        fn a_value_lies_in_its_bin(us in 0..1u64 << 45) {
            let e = us.checked_ilog2().unwrap_or(0).saturating_sub(BITS);
            let half = 0.5 * (1u64 << e) as f64;
            prop_assert!((middle(bin(us)) - us as f64).abs() <= half);
            prop_assert!(bin(us) <= bin(us + 1) && bin(us + 1) <= bin(us) + 1);
        }
    }
}
