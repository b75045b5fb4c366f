//! Measures the simulator's speed on a trace that is the same everywhere: 10 million Zipf requests
//! for a million pages, in a file of libCacheSim's oracleGeneral format (240 MB).

use crate::budget::Budget;
use crate::cache::Counts;
use crate::curve::{self, Curves, Plan};
use crate::dense::{Dense, Event};
use crate::requests::Unit;
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;
use trace::generate::{Pattern, Plan as TracePlan};
use trace::{Options, Reader, TraceError};

/// Size in pages of the caches that are measured.
pub const SIZE: u32 = 100_000;

/// The trace: 10 million requests, a million objects, skew 1.0, 100 000 requests a second.
pub const TRACE: TracePlan = TracePlan {
    pattern: Pattern::Zipf,
    objects: 1_000_000,
    requests: 10_000_000,
    skew: 1.0,
    writes: 0.0,
    rate: 100_000,
    seed: 1,
};

/// One measurement; the requests per second depend on the computer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measurement {
    /// The policy's name.
    pub policy: String,
    /// The cache's size in pages.
    pub size: u32,
    /// Requests per second on one core, reading of the file included: the median of the rounds.
    pub requests_per_second: f64,
    /// The same of the fastest round.
    pub best_requests_per_second: f64,
    /// Misses by requests.
    pub miss_ratio: f64,
}

/// Writes the trace [`TRACE`] in libCacheSim's oracleGeneral format.
///
/// # Errors
/// The error of the writer.
pub fn write_trace(to: &mut impl Write) -> io::Result<()> {
    trace::write::oracle_general(&TRACE, to)
}

/// Runs a plan; returns the seconds it took and the curves.
fn timed(path: &Path, plan: &Plan) -> Result<(f64, Curves), TraceError> {
    let start = Instant::now();
    let curves = curve::run(path, plan)?;
    Ok((start.elapsed().as_secs_f64(), curves))
}

/// Measures every policy with one cache of [`SIZE`] pages on the trace at `path`: requests per
/// second on one core over `rounds` rounds, and the miss ratio.
///
/// # Errors
/// The trace cannot be read.
pub fn replay(path: &Path, rounds: usize) -> Result<Vec<Measurement>, TraceError> {
    let mut results = Vec::new();
    for entry in evict::registry::ALL {
        let plan = Plan {
            options: Options::default(),
            unit: Unit::Page,
            sizes: vec![SIZE].into(),
            policies: vec![entry.name],
            writes: None,
            sample: None,
            threads: 1,
            budget: Budget::default(),
        };
        let (mut times, mut counts) = (Vec::new(), Counts::default());
        for _ in 0..rounds.max(1) {
            let (taken, curves) = timed(path, &plan)?;
            times.push(taken);
            counts = curves.curves[0].points[0].counts;
        }
        let requests = counts.requests as f64;
        times.sort_by(f64::total_cmp);
        results.push(Measurement {
            policy: entry.name.to_owned(),
            size: SIZE,
            requests_per_second: requests / times[times.len() / 2],
            best_requests_per_second: requests / times[0],
            miss_ratio: counts.miss_ratio(),
        });
    }
    Ok(results)
}

/// Returns the requests per second, as the median of the rounds, of a minimal LRU: a table from
/// objects to pages and a linked list in arrays, with the objects numbered and in memory
/// beforehand, on one core. Beyond that [`replay`] reads the file and looks objects up by their
/// names.
///
/// # Errors
/// The trace cannot be read.
pub fn bare_array(path: &Path, rounds: usize) -> Result<f64, TraceError> {
    let reader = Reader::open(path, &Options::default())?;
    let (trace, _) = Dense::read(reader, Unit::Page, false, Budget::default(), 1)?;
    let mut times: Vec<f64> = (0..rounds.max(1))
        .map(|_| {
            let start = Instant::now();
            std::hint::black_box(bare_misses(&trace, SIZE));
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    Ok(trace.requests() as f64 / times[times.len() / 2])
}

/// Returns the misses of LRU with `slots` pages, without policies, hooks or indexes: the least work
/// that a simulation of LRU takes, for comparison.
fn bare_misses(trace: &Dense, slots: u32) -> u64 {
    const NONE: u32 = u32::MAX;
    let mut slot_of = vec![NONE; trace.objects() as usize];
    let mut object_of = vec![0_u32; slots as usize];
    // Newer and older neighbour of each slot; the last entry is the sentinel of both ends.
    let mut links = vec![[slots; 2]; slots as usize + 1];
    let (mut used, mut misses) = (0, 0);
    for event in trace.events() {
        // Every event counts as a request; the measured trace has no removals.
        let (Event::Read(object) | Event::Write(object) | Event::Remove(object)) = event;
        let mut slot = slot_of[object as usize];
        let full = used == slots;
        if slot == NONE {
            misses += 1;
            // The oldest slot, or the next unused one.
            slot = if full { links[slots as usize][0] } else { used };
        }
        if slot < used {
            let [newer, older] = links[slot as usize];
            links[newer as usize][1] = older;
            links[older as usize][0] = newer;
        } else {
            used += 1;
        }
        if slot_of[object as usize] == NONE {
            if full {
                slot_of[object_of[slot as usize] as usize] = NONE;
            }
            slot_of[object as usize] = slot;
            object_of[slot as usize] = object;
        }
        let newest = links[slots as usize][1];
        links[slot as usize] = [slots, newest];
        links[slots as usize][1] = slot;
        links[newest as usize][0] = slot;
    }
    misses
}

/// Returns the seconds for 50 sizes of a policy on `threads` threads, reading of the file included.
///
/// # Errors
/// The trace cannot be read.
pub fn fifty_sizes(path: &Path, policy: &'static str, threads: usize) -> Result<f64, TraceError> {
    let sizes: crate::Sizes = "1000..100000:50".parse().expect("a range");
    let plan = Plan {
        options: Options::default(),
        unit: Unit::Page,
        sizes,
        policies: vec![policy],
        writes: None,
        sample: None,
        threads,
        budget: Budget::default(),
    };
    Ok(timed(path, &plan)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evict::Lru;

    #[test]
    fn the_bare_array_is_lru() {
        let requests = trace::generate::Generator::new(&TracePlan {
            objects: 500,
            requests: 5000,
            ..TRACE
        });
        let trace = Dense::of(requests.map(|r| Event::Read(r.object)), 0);
        for slots in [1, 2, 10, 499, 500] {
            assert_eq!(bare_misses(&trace, slots), trace.run::<Lru>(slots).misses);
        }
    }
}
