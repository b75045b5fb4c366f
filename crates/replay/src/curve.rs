//! Policies by sizes, on all cores.

use crate::budget::Budget;
use crate::cache::Counts;
use crate::dense::Dense;
use crate::requests::Unit;
use crate::stack;
use crate::stream::{stream, stream_with_writes};
use crate::writes::{WriteCounts, WriteModel};
use evict::Policy;
use evict::registry::{self, Visitor};
use serde::Serialize;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::Builder;
use trace::{Options, Reader, TraceError};

/// What is wanted.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How the trace is read.
    pub options: Options,
    /// What a request is.
    pub unit: Unit,
    /// Pages of the caches.
    pub sizes: Vec<u32>,
    /// Names in the registry.
    pub policies: Vec<&'static str>,
    /// Dirty pages, if writes are to be modelled.
    pub writes: Option<WriteModel>,
    /// Threads, at least 1; fewer where memory is short. The figures are the same for any number.
    pub threads: usize,
    /// What the trace, if it is kept, and the caches may take of memory.
    pub budget: Budget,
}

/// One policy at one size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// Pages of the cache.
    pub size: u32,
    /// Requests and misses.
    #[serde(flatten)]
    pub counts: Counts,
    /// Misses by requests.
    pub miss_ratio: f64,
    /// What writes led to, where they are modelled.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub writes: Option<WriteCounts>,
}

/// A policy's points, by size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// The policy's name.
    pub policy: &'static str,
    /// One point a size.
    pub points: Vec<Point>,
}

/// All curves of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curves {
    /// The trace's file, as it was given.
    pub trace: String,
    /// Its format.
    pub format: &'static str,
    /// Number of requests.
    pub requests: u64,
    /// Number of objects; absent if they were not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects: Option<u32>,
    /// Records that could not be read and were skipped.
    pub skipped: u64,
    /// Limits and device, where writes are modelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<WriteModel>,
    /// In the order of the plan's policies.
    pub curves: Vec<Curve>,
}

fn point(size: u32, counts: Counts, writes: Option<WriteCounts>) -> Point {
    Point {
        size,
        counts,
        miss_ratio: counts.miss_ratio(),
        writes,
    }
}

/// Work that one thread does at once.
#[derive(Debug, Clone, Copy)]
enum Job {
    /// All sizes of LRU.
    Stack { policy: usize },
    /// One policy at one size.
    Cell { policy: usize, size: usize },
}

struct Simulate<'a>(&'a Dense, u32, Option<&'a WriteModel>);

impl Visitor for Simulate<'_> {
    type Output = Point;

    fn visit<P: Policy + 'static>(self) -> Point {
        let Self(trace, size, model) = self;
        match model {
            Some(model) => {
                let (counts, writes) = trace.run_with_writes::<P>(size, model);
                point(size, counts, Some(writes))
            }
            None => point(size, trace.run::<P>(size), None),
        }
    }
}

struct Stream<'a>(Reader, Unit, u32, Option<&'a WriteModel>);

impl Visitor for Stream<'_> {
    type Output = Result<Point, TraceError>;

    fn visit<P: Policy + 'static>(self) -> Self::Output {
        let Self(reader, unit, size, model) = self;
        match model {
            Some(model) => {
                let (counts, writes) = stream_with_writes::<P>(reader, unit, size, model)?;
                Ok(point(size, counts, Some(writes)))
            }
            None => Ok(point(size, stream::<P>(reader, unit, size)?, None)),
        }
    }
}

/// What a cache of numbered objects takes a slot: the policy's lists and ghosts, the objects, dirty
/// pages.
const BYTES_PER_SLOT: u64 = 120;
/// The same with a hash index.
const BYTES_PER_STREAMED_SLOT: u64 = BYTES_PER_SLOT + 40;
/// What a table of objects, or LRU's distances, take an object.
const BYTES_PER_STACKED_OBJECT: u64 = 26;

fn too_large(trace: &str, size: u32, need: u64, budget: Budget) -> TraceError {
    TraceError {
        file: trace.to_owned(),
        record: None,
        text: false,
        message: format!(
            "a cache of {size} pages takes up to {} MiB: {budget}",
            need >> 20
        ),
        accepted: "smaller `--sizes`, or more memory".to_owned(),
    }
}

/// Runs a plan. A single policy at a single size streams; everything else keeps
/// the trace in memory.
///
/// # Errors
/// A trace that can't be read, or for which there is no memory.
///
/// # Panics
/// If a policy of the plan is not in the registry.
pub fn run(path: &Path, plan: &Plan) -> Result<Curves, TraceError> {
    let reader = Reader::open(path, &plan.options)?;
    let format = reader.format().name();
    if let ([size], [policy], false) = (&plan.sizes[..], &plan.policies[..], plan.options.lenient) {
        let need = u64::from(*size) * BYTES_PER_STREAMED_SLOT;
        if !plan.budget.has(need) {
            return Err(too_large(reader.name(), *size, need, plan.budget));
        }
        let job = Stream(reader, plan.unit, *size, plan.writes.as_ref());
        let point = registry::visit(policy, job).expect(KNOWN)?;
        return Ok(Curves {
            trace: path.display().to_string(),
            format,
            requests: point.counts.requests,
            objects: None,
            skipped: 0,
            model: plan.writes,
            curves: vec![Curve {
                policy,
                points: vec![point],
            }],
        });
    }
    let name = reader.name().to_owned();
    let (trace, skipped) = Dense::read(reader, plan.unit, plan.writes.is_some(), plan.budget)?;
    let largest = plan.sizes.iter().copied().max().unwrap_or(1);
    let need = u64::from(largest.min(trace.objects())) * BYTES_PER_SLOT
        + u64::from(trace.objects()) * BYTES_PER_STACKED_OBJECT;
    let budget = plan.budget.without(trace.bytes());
    let threads = budget.times(need, plan.threads);
    if threads == 0 {
        return Err(too_large(&name, largest, need, budget));
    }
    let results = simulate(&trace, plan, threads);
    let curve = |(policy, points): (&&'static str, Vec<Option<Point>>)| Curve {
        policy,
        points: points
            .into_iter()
            .map(|p| p.expect("every job was done"))
            .collect(),
    };
    Ok(Curves {
        trace: path.display().to_string(),
        format,
        requests: trace.requests(),
        objects: Some(trace.objects()),
        skipped,
        model: plan.writes,
        curves: plan.policies.iter().zip(results).map(curve).collect(),
    })
}

/// What is promised of a plan.
const KNOWN: &str = "the plan's policies are in the registry";

/// The work of a plan, the longest first.
fn jobs(plan: &Plan) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (p, name) in plan.policies.iter().enumerate() {
        if *name == "lru" && plan.writes.is_none() {
            jobs.push(Job::Stack { policy: p });
        }
    }
    // The largest caches take longest: they go first.
    for size in (0..plan.sizes.len()).rev() {
        for (p, name) in plan.policies.iter().enumerate() {
            if *name != "lru" || plan.writes.is_some() {
                jobs.push(Job::Cell { policy: p, size });
            }
        }
    }
    jobs
}

/// Every policy's points by size, from so many threads.
fn simulate(trace: &Dense, plan: &Plan, threads: usize) -> Vec<Vec<Option<Point>>> {
    let jobs = jobs(plan);
    let empty = vec![None; plan.sizes.len()];
    let results = Mutex::new(vec![empty; plan.policies.len()]);
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(job) = jobs.get(next.fetch_add(1, Relaxed)) {
            match *job {
                Job::Stack { policy } => {
                    let misses = stack::distances(trace).all_misses(&plan.sizes);
                    let mut results = results.lock().expect("no thread panicked");
                    for (i, misses) in misses.into_iter().enumerate() {
                        let counts = Counts {
                            requests: trace.requests(),
                            misses,
                        };
                        results[policy][i] = Some(point(plan.sizes[i], counts, None));
                    }
                }
                Job::Cell { policy, size } => {
                    let cell = Simulate(trace, plan.sizes[size], plan.writes.as_ref());
                    let done = registry::visit(plan.policies[policy], cell).expect(KNOWN);
                    results.lock().expect("no thread panicked")[policy][size] = Some(done);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // The figures are the same with the threads that there are.
            if Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    results.into_inner().expect("no thread panicked")
}
