//! The simulator's speed on a trace that is the same everywhere: 10 million Zipf requests for a
//! million pages, in a file of libCacheSim's oracleGeneral format (240 MB).

use crate::budget::Budget;
use crate::cache::Counts;
use crate::curve::{self, Curves, Plan};
use crate::requests::Unit;
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;
use trace::generate::{Pattern, Plan as TracePlan};
use trace::{Options, TraceError};

/// Pages of the caches that are measured.
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

/// A measurement, of which requests a second depend on the computer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measurement {
    /// The policy.
    pub policy: String,
    /// Pages of the cache.
    pub size: u32,
    /// Median of the rounds, reading the file included, on one core.
    pub requests_per_second: f64,
    /// The best round.
    pub best_requests_per_second: f64,
    /// Misses by requests.
    pub miss_ratio: f64,
}

/// Writes [`TRACE`].
///
/// # Errors
/// What the system says.
pub fn write_trace(to: &mut impl Write) -> io::Result<()> {
    trace::write::oracle_general(&TRACE, to)
}

/// Seconds, and what came out.
fn timed(path: &Path, plan: &Plan) -> Result<(f64, Curves), TraceError> {
    let start = Instant::now();
    let curves = curve::run(path, plan)?;
    Ok((start.elapsed().as_secs_f64(), curves))
}

/// Measures every policy on a trace.
///
/// # Errors
/// A trace that can't be read.
pub fn replay(path: &Path, rounds: usize) -> Result<Vec<Measurement>, TraceError> {
    let mut results = Vec::new();
    for entry in evict::registry::ALL {
        let plan = Plan {
            options: Options::default(),
            unit: Unit::Page,
            sizes: vec![SIZE],
            policies: vec![entry.name],
            writes: None,
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

/// Seconds for 50 sizes of a policy on `threads` threads, reading the file included.
///
/// # Errors
/// A trace that can't be read.
pub fn fifty_sizes(path: &Path, policy: &'static str, threads: usize) -> Result<f64, TraceError> {
    let sizes: crate::Sizes = "1000..100000:50".parse().expect("a range");
    let plan = Plan {
        options: Options::default(),
        unit: Unit::Page,
        sizes: sizes.0,
        policies: vec![policy],
        writes: None,
        threads,
        budget: Budget::default(),
    };
    Ok(timed(path, &plan)?.0)
}
