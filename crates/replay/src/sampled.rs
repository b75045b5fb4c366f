//! Miss ratios from a sample of a trace's objects, with an error bound beside each.
//!
//! A cache of `c` pages meets a trace as a cache of `c · R` pages meets the share `R` of its objects:
//! LRU's distances scale (SHARDS, 2015), other policies run in miniature (Waldspurger, Saemundsson,
//! Ahmad, Park 2017, "Cache Modeling and Optimization using Miniature Simulations", USENIX ATC).
//! Misses are divided by the requests that the sample should have, `N · R`, and not by those that it
//! has: what hot objects bring too much or too little are hits (SHARDS_adj).
//!
//! # The bound
//!
//! Three things are known of an estimate's error, all from the sample itself:
//!
//! - *Which objects were drawn.* The sample is in eight groups by other bits of the hash. Seven ways
//!   to cut them into two halves of four, each orthogonal to the others (rows of a Hadamard matrix:
//!   McCarthy 1969, "Pseudo-replication: half samples"), give seven differences between samples of half
//!   the rate. Their mean square is the variance of the estimate, to which belongs Student's t with
//!   seven degrees of freedom. The trace is given and the hash is what is random, so nothing is
//!   assumed of the order of requests. `1 − R` corrects for a sample that is a large part of all.
//! - *How small the miniature is.* Halves lie off the whole sample, on average, by about what the sample
//!   lies off the trace where that error falls as `1 / (c · R)`: queues of few slots, rounding.
//! - *Where a cliff is.* Among `c` objects the sample has `c · R`, give or take a binomial deviation:
//!   a scan that fits a cache of `c` pages or not is found at a size that is off by that share, for
//!   all of its requests at once. No variance tells that, so the bound reaches from the curve at the
//!   size that is three deviations larger to that at the one that is three smaller.
//!
//! The bound is the first two added up, or the third where that reaches farther. It is meant to hold at
//! 99 of 100 sizes; an unlucky draw misses at many sizes together, since all are from one sample. Where a cache has less than [`LEAST_SLOTS`] pages of the sample, nothing is
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

/// Pages that a cache must have in the sample's scale for an estimate to have a bound.
pub const LEAST_SLOTS: f64 = 16.0;

/// Student's t for 99 % on both sides together and seven degrees of freedom.
const T: f64 = 3.499;
/// Deviations of the size in which a cliff is looked for.
const DEVIATIONS: f64 = 3.0;
/// What the distance of the halves is taken for: twice, for errors that fall more slowly than
/// `1 / (c · R)`.
const SCALE: f64 = 2.0;
/// Groups of the halves: bit `g` of row `s` is the parity of `g & s`.
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

/// Between what a miss ratio is taken to lie.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bound {
    /// The least that the miss ratio is taken to be.
    pub low: f64,
    /// The most.
    pub high: f64,
}

impl Bound {
    /// The larger distance of the two ends from an estimate.
    pub fn error(&self, ratio: f64) -> f64 {
        (self.high - ratio).max(ratio - self.low)
    }
}

/// What a sample has of its trace.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SampleFacts {
    /// The share of all hashes that were taken: the expected share of objects.
    pub rate: f64,
    /// Objects in the sample.
    pub objects: u32,
    /// Their requests.
    pub requests: u64,
}

/// A sample of a trace, in memory.
#[derive(Debug)]
pub(crate) struct Sampled {
    /// The requests of the sample; objects are numbered by group.
    trace: Dense,
    /// Requests of the whole trace.
    pub requests: u64,
    pub facts: SampleFacts,
}

/// Reads a trace and keeps the sample.
struct Sampler {
    numbering: Numbering,
    taken: Taken,
    /// Objects that are kept at most.
    most: usize,
    /// By number.
    hashes: Vec<u64>,
    /// Those that are taken, the largest hash first; only where their number is bounded.
    largest: BinaryHeap<(u64, u32)>,
    trace: Dense,
    requests: u64,
    /// Events when those of objects that were dropped are looked for.
    full: usize,
    unit: Unit,
    budget: Budget,
}

/// Events below which nothing is looked for.
const FEW_EVENTS: usize = 1 << 16;

impl Sampler {
    #[inline]
    fn request(&mut self, object: u64, seed: u64, file: u32) -> Result<(), Limit> {
        let hash = hash(object, seed);
        if self.taken.has(hash) {
            self.take(object, hash, file)?;
        }
        Ok(())
    }

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

    /// Forgets what was dropped where events have doubled, and says whether there is memory for more.
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

/// One pass over a part of the sample.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pass {
    /// All of it, at each size and where cliffs are looked for.
    Whole,
    /// A half, by its place in the list.
    Half(usize),
}

impl Pass {
    /// The passes whose results make an estimate, in their order.
    pub fn all(rate: f64) -> impl Iterator<Item = Self> {
        // All of a trace needs no halves: there is no error.
        let halves = if rate < 1.0 { HALVES.len() } else { 0 };
        std::iter::once(Self::Whole).chain((0..halves).map(Self::Half))
    }

    fn groups(self) -> Groups {
        match self {
            Self::Whole => Groups::ALL,
            Self::Half(half) => HALVES[half],
        }
    }

    fn share(self) -> f64 {
        match self {
            Self::Whole => 1.0,
            Self::Half(_) => 0.5,
        }
    }
}

/// Miss ratios of one pass at one size, which may be above 1.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ratios {
    at: f64,
    smaller: f64,
    larger: f64,
}

impl Sampled {
    /// Reads a whole trace. Also returns how many records were skipped.
    ///
    /// # Errors
    /// A record that can't be read, more than 2³⁰ objects, less than [`LEAST_OBJECTS`] in the sample,
    /// or more than the budget has room for.
    pub fn read(
        mut reader: Reader,
        unit: Unit,
        sample: Sample,
        seed: u64,
        budget: Budget,
        threads: usize,
    ) -> Result<(Self, u64), TraceError> {
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

    /// A cache's size in the scale of a part of the sample.
    fn scaled(&self, size: u32, share: f64) -> f64 {
        f64::from(size) * self.facts.rate * share
    }

    /// The size, and those two deviations below and above it.
    fn around(&self, size: u32) -> [f64; 3] {
        let scaled = self.scaled(size, 1.0);
        let deviation = ((1.0 - self.facts.rate) / scaled).sqrt();
        let far = 1.0 + DEVIATIONS * deviation;
        [scaled, scaled / far, scaled * far]
    }

    fn ratio(&self, misses: f64, share: f64) -> f64 {
        misses / (self.requests as f64 * self.facts.rate * share).max(1.0)
    }

    /// LRU at all sizes, in one pass.
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

    /// A policy of the registry at one size, in miniature; `None` if there is no such policy.
    pub fn miniature(&self, policy: &str, pass: Pass, size: u32) -> Option<Ratios> {
        self.small(pass, size, |slots| {
            registry::run(policy, Miniature(&self.trace, slots, pass.groups()))
        })
    }

    /// OPT at one size, in miniature; `future` is that of [`Self::trace`].
    pub fn best(&self, future: &Future, pass: Pass, size: u32) -> Ratios {
        let misses = |slots| Some(future.run(&self.trace, slots, pass.groups()).misses);
        self.small(pass, size, misses).expect("it is known")
    }

    /// Small caches of one pass, from what one of so many slots misses.
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

    /// The estimate of a miss ratio from the passes of [`Pass::all`], and its bound.
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

    /// Has passes end early once this is set; their figures mean nothing then.
    pub fn stop_by(&mut self, stop: Arc<AtomicBool>) {
        self.trace.stop_by(stop);
    }

    /// The requests of the sample; numbers of objects have gaps.
    pub fn trace(&self) -> &Dense {
        &self.trace
    }

    /// How many objects the whole trace has, estimated.
    pub fn objects(&self) -> u64 {
        (f64::from(self.facts.objects) / self.facts.rate).round() as u64
    }
}

impl Ratios {
    fn one(at: f64) -> Self {
        Self {
            at,
            smaller: at,
            larger: at,
        }
    }
}

impl Sampler {
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

/// Misses of some groups in a cache of so many slots.
struct Miniature<'a>(&'a Dense, u32, Groups);

impl Runner for Miniature<'_> {
    type Output = u64;

    fn run<P: Policy>(self, make: &dyn Fn(u32) -> P) -> u64 {
        self.0.run_made(self.1, self.2, make).misses
    }
}

#[cfg(test)]
mod tests;
