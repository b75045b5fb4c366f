//! Miss ratios estimated from a sample of a trace's objects, each with an error bound.
//!
//! A cache of `c` pages behaves on a trace as a cache of `c · R` pages does on the share `R` of
//! its objects: LRU's distances scale (SHARDS, 2015), other policies run in miniature
//! (Waldspurger, Saemundsson, Ahmad, Park 2017, "Cache Modeling and Optimization using Miniature
//! Simulations", USENIX ATC). Misses are divided by the number of requests that the sample should
//! have, `N · R`, not by the number that it has: the requests that hot objects add or lack are
//! hits (SHARDS_adj).
//!
//! # The bound
//!
//! The bound accounts for three errors of an estimate, all measured on the sample itself:
//!
//! - *Which objects were drawn.* Other bits of the hash divide the sample into eight groups.
//!   Seven ways to combine them into two halves of four, each orthogonal to the others (rows of a
//!   Hadamard matrix: McCarthy 1969, "Pseudo-replication: half samples"), give seven differences
//!   between samples of half the rate. Their mean square is the variance of the estimate, with
//!   Student's t for seven degrees of freedom. The trace is given and only the hash is random, so
//!   nothing is assumed about the order of requests. `1 − R` corrects for a sample that is a
//!   large part of the trace.
//! - *How small the miniature is.* On average the halves differ from the whole sample by about as
//!   much as the sample differs from the trace, if that error falls as `1 / (c · R)`: queues of
//!   few slots, rounding.
//! - *Where a cliff is.* Of `c` objects the sample has `c · R`, with a binomial deviation. A scan
//!   that just fits, or does not fit, a cache of `c` pages shows at a size that is off by that
//!   deviation, for all of its requests at once. No variance shows this, so the bound extends to
//!   the curve's values at the sizes three deviations larger and three smaller.
//!
//! The bound is the sum of the first two, or the third where that extends farther. It is meant to
//! hold at 99 of 100 sizes; an unlucky draw misses at many sizes together, since all are from one
//! sample. Where a cache has less than [`LEAST_SLOTS`] pages in the sample's scale, nothing is
//! claimed: the bound is 0 to 1.

use crate::budget::Budget;
use crate::dense::{BYTES_PER_OBJECT, Dense, Groups, Limit, Numbering};
use crate::opt::Future;
use crate::requests::Unit;
use crate::sample::{LEAST_OBJECTS, Sample, Taken, hash};
use crate::stack;
use evict::registry::{self, Runner};
use evict::{MOST, Policy, Slot};
use serde::Serialize;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use trace::{Reader, TraceError};

/// Pages in the sample's scale that a cache must have for an estimate to have a bound.
pub const LEAST_SLOTS: f64 = 16.0;

/// Student's t for a two-sided 99 % interval and seven degrees of freedom.
const T: f64 = 3.499;
/// Deviations of the size within which a cliff is looked for.
const DEVIATIONS: f64 = 3.0;
/// Factor for the distance of the halves: doubled, for errors that fall more slowly than
/// `1 / (c · R)`.
const SCALE: f64 = 2.0;
/// The halves as sets of groups: bit `g` of row `s` is the parity of `g & s`.
const HALVES: [Groups; 14] = [
    Groups(0b0101_0101),
    Groups(0b1010_1010),
    Groups(0b0011_0011),
    Groups(0b1100_1100),
    Groups(0b1001_1001),
    Groups(0b0110_0110),
    Groups(0b0000_1111),
    Groups(0b1111_0000),
    Groups(0b1010_0101),
    Groups(0b0101_1010),
    Groups(0b1100_0011),
    Groups(0b0011_1100),
    Groups(0b0110_1001),
    Groups(0b1001_0110),
];

/// The interval that the miss ratio is expected to be in.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bound {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Bound {
    /// Returns the larger distance of the two ends from an estimate.
    pub fn error(&self, ratio: f64) -> f64 {
        (self.high - ratio).max(ratio - self.low)
    }
}

/// Size of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SampleFacts {
    /// The share of all hashes that are taken: the expected share of the objects.
    pub rate: f64,
    /// Objects in the sample.
    pub objects: u32,
    /// Requests for these objects.
    pub requests: u64,
}

/// A sample of a trace, in memory.
#[derive(Debug)]
pub(crate) struct Sampled {
    /// The requests of the sample; an object's number contains its group.
    trace: Dense,
    /// Requests of the whole trace.
    pub requests: u64,
    pub facts: SampleFacts,
}

/// The state of reading a trace while keeping the sample.
struct Sampler {
    numbering: Numbering,
    taken: Taken,
    /// Largest number of objects to keep.
    most: usize,
    /// The hash of each object, by number.
    hashes: Vec<u64>,
    /// The objects kept, the largest hash first; only where their number is bounded.
    largest: BinaryHeap<(u64, u32)>,
    trace: Dense,
    requests: u64,
    /// Number of events at which those of dropped objects are removed next.
    full: usize,
    unit: Unit,
    budget: Budget,
}

/// Number of events below which none are removed.
const FEW_EVENTS: usize = 1 << 16;

impl Sampler {
    /// Adds a request if its object is in the sample: if its hash, with `seed`, is below the limit.
    /// `file` is the object's file.
    #[inline]
    fn request(&mut self, object: u64, seed: u64, file: u32) -> Result<(), Limit> {
        let hash = hash(object, seed);
        if self.taken.has(hash) {
            self.take(object, hash, file)?;
        }
        Ok(())
    }

    /// Adds a request for an object of the sample, with its hash and file. If a new object is one
    /// too many, drops the object with the largest hash and lowers the limit to it.
    fn take(&mut self, object: u64, hash: u64, file: u32) -> Result<(), Limit> {
        let number = self.numbering.number(object, file, Slot::MAX);
        let number = number.ok_or(Limit::Objects)?;
        if number as usize == self.hashes.len() {
            self.hashes.push(hash);
            if self.most <= MOST as usize {
                self.largest.push((hash, number));
            }
            if self.largest.len() > self.most
                && let Some((hash, dropped)) = self.largest.pop()
            {
                self.numbering.index.remove(dropped);
                self.taken = Taken::below(hash);
                if dropped == number {
                    return Ok(());
                }
            }
        }
        self.trace.push(number, false);
        self.room()
    }

    /// Makes room for events: when they have doubled, removes those of objects that were dropped
    /// from the sample. Returns an error if there is no memory for more.
    #[inline]
    fn room(&mut self) -> Result<(), Limit> {
        if self.trace.len() < self.full {
            return Ok(());
        }
        let (taken, hashes) = (self.taken, &self.hashes);
        self.trace
            .renumber(|number| taken.has(hashes[number as usize]).then_some(number));
        self.full = (2 * self.trace.len()).max(FEW_EVENTS);
        // Vectors double as they grow.
        let need = self.full as u64 * 8 + self.hashes.len() as u64 * (2 * BYTES_PER_OBJECT);
        if self.budget.has(need) {
            Ok(())
        } else {
            Err(Limit::Memory(self.budget, self.trace.len() as u64))
        }
    }

    /// Completes the sample: numbers its objects by group (object `n` is in group `n % 8`), and
    /// drops the events of others.
    fn finish(mut self) -> Result<Sampled, Limit> {
        let mut counts = [0_u32; 8];
        let mut numbers = vec![u32::MAX; self.hashes.len()];
        for (number, hash) in numbers.iter_mut().zip(&self.hashes) {
            if self.taken.has(*hash) {
                let group = (hash % 8) as u32;
                *number = counts[group as usize] * 8 + group;
                counts[group as usize] += 1;
            }
        }
        let range = counts.iter().max().map_or(0, |n| n * 8);
        if range > MOST {
            return Err(Limit::Objects);
        }
        self.trace.renumber(|number| {
            let number = numbers[number as usize];
            (number != u32::MAX).then_some(number)
        });
        self.trace.close(range);
        Ok(Sampled {
            facts: SampleFacts {
                rate: self.taken.rate(),
                objects: counts.iter().sum(),
                requests: self.trace.requests(),
            },
            trace: self.trace,
            requests: self.requests,
        })
    }
}

/// A pass over the sample or a half of it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pass {
    /// The whole sample, at each size and at the sizes where cliffs are looked for.
    Whole,
    /// A half, by its index in [`HALVES`].
    Half(usize),
}

impl Pass {
    /// Returns the passes that an estimate needs, in order: the whole sample, and both halves of
    /// each of seven divisions, whose differences show the error. `rate` is the sample's share of
    /// the objects.
    pub fn all(rate: f64) -> impl Iterator<Item = Self> {
        // A sample of the whole trace has no error, so it needs no halves.
        let halves = if rate < 1.0 { HALVES.len() } else { 0 };
        std::iter::once(Self::Whole).chain((0..halves).map(Self::Half))
    }

    /// Returns the groups of objects that the pass simulates.
    fn groups(self) -> Groups {
        match self {
            Self::Whole => Groups::ALL,
            Self::Half(half) => HALVES[half],
        }
    }

    /// Returns the share of the sample that the pass runs: all or half of its groups.
    fn share(self) -> f64 {
        match self {
            Self::Whole => 1.0,
            Self::Half(_) => 0.5,
        }
    }
}

/// Miss ratios of one pass at a size, and at a smaller and a larger one; they may be above 1.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ratios {
    at: f64,
    smaller: f64,
    larger: f64,
}

impl Sampled {
    /// Reads a whole trace and keeps a sample of its objects. `seed` selects one of many samples.
    /// Also returns the number of skipped records.
    ///
    /// # Errors
    /// A record cannot be read, there are more than 2³⁰ objects, the sample has fewer than
    /// [`LEAST_OBJECTS`], or the budget is too small.
    pub fn read(
        mut reader: Reader,
        unit: Unit,
        sample: Sample,
        seed: u64,
        budget: Budget,
        threads: usize,
    ) -> Result<(Self, u64), TraceError> {
        unit.numbers(&mut reader);
        let mut sampler = Sampler {
            numbering: Numbering::new(reader.format().can_cut()),
            taken: Taken::of(sample),
            most: match sample {
                Sample::Rate(_) => usize::MAX,
                Sample::Size(most) => most as usize,
            },
            hashes: Vec::new(),
            largest: BinaryHeap::new(),
            trace: Dense::default(),
            requests: 0,
            full: FEW_EVENTS,
            unit,
            budget,
        };
        let name = reader.name().to_owned();
        reader.each_records(threads, &mut |batch| {
            batch
                .iter()
                .try_for_each(|record| sampler.add(record, seed))
                .map_err(|limit| limit.of(&name))
        })?;
        let sampled = sampler.finish().map_err(|limit| limit.of(reader.name()))?;
        let objects = sampled.facts.objects;
        if objects < LEAST_OBJECTS && sampled.facts.rate < 1.0 {
            return Err(TraceError {
                file: reader.name().to_owned(),
                record: None,
                text: false,
                message: format!(
                    "a sample with {sample} has {objects} objects of this trace, too few for an estimate"
                ),
                accepted: format!(
                    "a sample of at least {LEAST_OBJECTS} objects; or no sample, for the exact curve"
                ),
            });
        }
        Ok((sampled, reader.skipped()))
    }

    /// Returns the size of a cache in the scale of a part of the sample: `size` pages, times the
    /// sample's share of the trace, times the part's `share` of the sample.
    fn scaled(&self, size: u32, share: f64) -> f64 {
        f64::from(size) * self.facts.rate * share
    }

    /// Returns the size of a cache in the sample's scale, then the sizes three deviations below and
    /// above it, where cliffs are looked for.
    fn around(&self, size: u32) -> [f64; 3] {
        let scaled = self.scaled(size, 1.0);
        let deviation = ((1.0 - self.facts.rate) / scaled).sqrt();
        let far = 1.0 + DEVIATIONS * deviation;
        [scaled, scaled / far, scaled * far]
    }

    /// Returns the miss ratio of so many misses in a part of the sample (`share`): by the requests
    /// that the part should have, which may be more or fewer than it has (SHARDS_adj).
    fn ratio(&self, misses: f64, share: f64) -> f64 {
        misses / (self.requests as f64 * self.facts.rate * share).max(1.0)
    }

    /// Computes LRU's ratios at all sizes in one pass over the sample or a half of it. `sizes` are
    /// those of whole caches in pages.
    pub fn stack(&self, pass: Pass, sizes: &[u32]) -> Vec<Ratios> {
        let distances = stack::distances_of(&self.trace, pass.groups());
        let share = pass.share();
        let scaled: Vec<f64> = match pass {
            Pass::Whole => sizes.iter().flat_map(|s| self.around(*s)).collect(),
            Pass::Half(_) => sizes.iter().map(|s| self.scaled(*s, share)).collect(),
        };
        let misses = distances.all_between(&scaled);
        let ratio = |misses: f64| self.ratio(misses, share);
        match pass {
            Pass::Whole => misses
                .chunks_exact(3)
                .map(|m| Ratios {
                    at: ratio(m[0]),
                    smaller: ratio(m[1]),
                    larger: ratio(m[2]),
                })
                .collect(),
            Pass::Half(_) => misses.into_iter().map(|m| Ratios::one(ratio(m))).collect(),
        }
    }

    /// Runs a policy of the registry in miniature: a cache of `size` pages, scaled to the pass's
    /// share of the trace. `None` if there is no such policy.
    pub fn miniature(&self, policy: &str, pass: Pass, size: u32) -> Option<Ratios> {
        self.small(pass, size, |slots| {
            registry::run(policy, Miniature(&self.trace, slots, pass.groups()))
        })
    }

    /// Runs OPT in miniature, for a cache of `size` pages. `future` belongs to [`Self::trace`].
    pub fn best(&self, future: &Future, pass: Pass, size: u32) -> Ratios {
        let misses = |slots| Some(future.run(&self.trace, slots, pass.groups()).misses);
        self.small(pass, size, misses).expect("it is known")
    }

    /// Computes the ratios of one pass for a cache of `size` pages; `misses` returns the misses
    /// with a number of slots. The whole sample is also run at a smaller and a larger size, to find
    /// cliffs.
    fn small(&self, pass: Pass, size: u32, misses: impl Fn(u32) -> Option<u64>) -> Option<Ratios> {
        let share = pass.share();
        let run = |scaled: f64| {
            let slots = scaled.round().clamp(1.0, f64::from(MOST)) as u32;
            Some(self.ratio(misses(slots)? as f64, share))
        };
        match pass {
            Pass::Whole if self.facts.rate < 1.0 => {
                let [at, smaller, larger] = self.around(size);
                Some(Ratios {
                    at: run(at)?,
                    smaller: run(smaller)?,
                    larger: run(larger)?,
                })
            }
            _ => Some(Ratios::one(run(self.scaled(size, share))?)),
        }
    }

    /// Returns the estimated miss ratio of a cache of `size` pages and its bound, from the results
    /// of all passes in the order of [`Pass::all`]. The bound is 0 to 1 where the sample has too
    /// few pages for a claim.
    pub fn estimate(&self, size: u32, passes: &[Ratios]) -> (f64, Bound) {
        let (whole, halves) = (passes[0], &passes[1..]);
        let ratio = whole.at.clamp(0.0, 1.0);
        if halves.is_empty() {
            let (low, high) = (ratio, ratio);
            return (ratio, Bound { low, high });
        }
        if self.scaled(size, 1.0) < LEAST_SLOTS {
            let (low, high) = (0.0, 1.0);
            return (ratio, Bound { low, high });
        }
        // Both halves of each division stand side by side.
        let (pairs, _) = halves.as_chunks::<2>();
        let squares = pairs.iter().map(|[a, b]| ((a.at - b.at) / 2.0).powi(2));
        let variance = squares.sum::<f64>() / pairs.len() as f64;
        let mean = halves.iter().map(|h| h.at).sum::<f64>() / halves.len() as f64;
        let left = 1.0 - self.facts.rate;
        let reach = T * (variance * left).sqrt() + SCALE * (mean - whole.at).abs() * left;
        let least = (whole.at - reach).min(whole.larger).min(whole.smaller);
        let most = (whole.at + reach).max(whole.smaller).max(whole.larger);
        let bound = Bound {
            low: least.clamp(0.0, 1.0),
            high: most.clamp(0.0, 1.0),
        };
        (ratio, bound)
    }

    /// Makes passes end early once `stop` is set; their figures mean nothing then.
    pub fn stop_by(&mut self, stop: Arc<AtomicBool>) {
        self.trace.stop_by(stop);
    }

    /// Returns the requests of the sample; the objects' numbers have gaps.
    pub fn trace(&self) -> &Dense {
        &self.trace
    }

    /// Returns the estimated number of objects in the whole trace.
    pub fn objects(&self) -> u64 {
        (f64::from(self.facts.objects) / self.facts.rate).round() as u64
    }
}

impl Ratios {
    /// Makes ratios that are the same at the smaller and larger size: no cliff is looked for.
    fn one(at: f64) -> Self {
        Self {
            at,
            smaller: at,
            larger: at,
        }
    }
}

impl Sampler {
    /// Adds one record of the trace: its requests for objects of the sample, or the removal of such
    /// objects. `seed` is that of the hash.
    #[inline]
    fn add(&mut self, record: &trace::Record, seed: u64) -> Result<(), Limit> {
        if record.op.is_data() {
            let (first, count) = self.unit.objects(record);
            self.requests += count;
            return (first..first + count)
                .try_for_each(|object| self.request(object, seed, record.file));
        }
        let Self {
            numbering,
            trace,
            taken,
            hashes,
            ..
        } = self;
        numbering.cut(record, self.unit, |number| {
            if taken.has(hashes[number as usize]) {
                trace.push(number, true);
            }
        });
        self.room()
    }
}

/// Runs some groups through a cache of a number of slots; returns the misses.
struct Miniature<'a>(&'a Dense, u32, Groups);

impl Runner for Miniature<'_> {
    type Output = u64;

    fn run<P: Policy>(self, make: &dyn Fn(u32) -> P) -> u64 {
        self.0.run_made(self.1, self.2, make).misses
    }
}

#[cfg(test)]
mod tests;
