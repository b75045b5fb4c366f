//! Chooses the objects of a sample: those whose hash is below a limit (SHARDS: Waldspurger, Park,
//! Garthwaite, Ahmad 2015, "Efficient MRC construction with SHARDS", FAST).
//!
//! An object is in the sample with all its requests or with none, and the hash is the same in every
//! run.

use std::fmt;
use std::str::FromStr;

/// The size of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sample {
    /// The share of the objects, above 0 and at most 1.
    Rate(f64),
    /// The largest number of objects: the share follows from the number of objects in the trace.
    Size(u32),
}

/// The smallest share that is accepted.
const LEAST_RATE: f64 = 1e-6;
/// The smallest number of objects for an estimate.
pub const LEAST_OBJECTS: u32 = 128;

/// The error that a text describes no sample.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}; accepted: {ACCEPTED}")]
pub struct SampleError {
    what: String,
}

const ACCEPTED: &str = "`rate=R`, the share of objects from 0.000001 to 1, or `size=N`, the number \
                        of objects from 128 to 2^30";

impl FromStr for Sample {
    type Err = SampleError;

    /// Parses `rate=R` or `size=N`, as options describe a sample.
    fn from_str(text: &str) -> Result<Self, SampleError> {
        let wrong = |what: String| Err(SampleError { what });
        match text.trim().split_once('=') {
            Some(("rate", rate)) => match rate.parse() {
                Ok(rate) if (LEAST_RATE..=1.0).contains(&rate) => Ok(Self::Rate(rate)),
                _ => wrong(format!("`{rate}` is no share of the objects")),
            },
            Some(("size", size)) => match size.parse() {
                Ok(size) if (LEAST_OBJECTS..=evict::MOST).contains(&size) => Ok(Self::Size(size)),
                _ => wrong(format!("`{size}` is no number of objects")),
            },
            _ => wrong(format!("`{text}` is no sample")),
        }
    }
}

impl fmt::Display for Sample {
    /// Writes the sample as options describe it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(rate) => write!(f, "rate={rate}"),
            Self::Size(size) => write!(f, "size={size}"),
        }
    }
}

/// A limit on hashes: those below it are taken, by their upper 53 bits, which an f64 holds exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken(u64);

impl Taken {
    /// Returns the limit of a sample before anything was read: that of its share, or all hashes for
    /// a number of objects, where the limit falls while the trace is read.
    pub fn of(sample: Sample) -> Self {
        match sample {
            Sample::Rate(rate) => Self((rate * TWO_53) as u64),
            Sample::Size(_) => Self(1 << 53),
        }
    }

    /// Returns the limit that takes all hashes below `hash`.
    pub fn below(hash: u64) -> Self {
        Self(hash >> 11)
    }

    /// Returns true if a hash is taken.
    #[inline]
    pub fn has(self, hash: u64) -> bool {
        hash >> 11 < self.0
    }

    /// Returns the share of all hashes that are taken, at most 1.
    pub fn rate(self) -> f64 {
        self.0 as f64 / TWO_53
    }
}

const TWO_53: f64 = 9_007_199_254_740_992.0;

/// Returns an object's hash, which decides whether it is in the sample: the finalizer of SplitMix64
/// (Steele, Lea, Flood 2014), a permutation in which every bit depends on every other. A seed other
/// than 0 selects another sample.
#[inline]
pub(crate) fn hash(object: u64, seed: u64) -> u64 {
    let mut h = object
        .wrapping_add(seed.wrapping_mul(0xbf58_476d_1ce4_e5b9))
        .wrapping_add(0x9e37_79b9_7f4a_7c15);
    h = (h ^ h >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    h = (h ^ h >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    h ^ h >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_shares_or_numbers() {
        assert_eq!("rate=0.01".parse(), Ok(Sample::Rate(0.01)));
        assert_eq!("rate=1".parse(), Ok(Sample::Rate(1.0)));
        assert_eq!(" size=8192".parse(), Ok(Sample::Size(8192)));
        for text in [
            "",
            "0.01",
            "rate",
            "rate=",
            "rate=0",
            "rate=1.01",
            "rate=-1",
            "rate=NaN",
            "rate=1%",
            "rate=1e-7",
            "size=0",
            "size=127",
            "size=1e6",
            "size=2000000000",
            "share=0.1",
        ] {
            let error = text.parse::<Sample>().unwrap_err().to_string();
            assert!(error.contains("accepted: `rate=R`"), "{text}: {error}");
        }
    }

    #[test]
    fn a_rate_takes_its_share_of_neighbours() {
        for rate in [0.001, 0.1, 0.5, 1.0] {
            let taken = Taken::of(Sample::Rate(rate));
            assert!((taken.rate() - rate).abs() < 1e-12, "{}", taken.rate());
            let n = (0..1_000_000_u64)
                .filter(|o| taken.has(hash(*o, 0)))
                .count();
            let sd = (1e6 * rate * (1.0 - rate)).sqrt();
            assert!((n as f64 - 1e6 * rate).abs() <= 4.0 * sd, "{rate}: {n}");
        }
        assert_eq!(Taken::of(Sample::Size(128)).rate(), 1.0);
    }
}
