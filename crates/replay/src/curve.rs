//! Policies by sizes, on all cores.

use crate::cache::Counts;
use crate::dense::Dense;
use crate::requests::Unit;
use crate::stack;
use crate::stream::stream;
use crate::writes::{WriteCounts, WriteModel};
use evict::Policy;
use evict::registry::{self, Visitor};
use serde::Serialize;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
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
    /// Threads, at least 1. The figures are the same for any number.
    pub threads: usize,
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

struct Stream(Reader, Unit, u32);

impl Visitor for Stream {
    type Output = Result<Counts, TraceError>;

    fn visit<P: Policy + 'static>(self) -> Self::Output {
        stream::<P>(self.0, self.1, self.2)
    }
}

/// Runs a plan. A single policy at a single size, without writes, streams; everything else keeps
/// the trace in memory.
///
/// # Errors
/// A trace that can't be read.
///
/// # Panics
/// If a policy of the plan is not in the registry.
pub fn run(path: &Path, plan: &Plan) -> Result<Curves, TraceError> {
    let reader = Reader::open(path, &plan.options)?;
    let format = reader.format().name();
    let known = "the plan's policies are in the registry";
    if let ([size], [policy], None, false) = (
        &plan.sizes[..],
        &plan.policies[..],
        plan.writes,
        plan.options.lenient,
    ) {
        let job = Stream(reader, plan.unit, *size);
        let counts = registry::visit(policy, job).expect(known)?;
        return Ok(Curves {
            trace: path.display().to_string(),
            format,
            requests: counts.requests,
            objects: None,
            skipped: 0,
            model: None,
            curves: vec![Curve {
                policy,
                points: vec![point(*size, counts, None)],
            }],
        });
    }
    let (trace, skipped) = Dense::read(reader, plan.unit, plan.writes.is_some())?;
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
    let empty = vec![None; plan.sizes.len()];
    let results = Mutex::new(vec![empty; plan.policies.len()]);
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(job) = jobs.get(next.fetch_add(1, Relaxed)) {
            match *job {
                Job::Stack { policy } => {
                    let misses = stack::distances(&trace).all_misses(&plan.sizes);
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
                    let cell = Simulate(&trace, plan.sizes[size], plan.writes.as_ref());
                    let done = registry::visit(plan.policies[policy], cell).expect(known);
                    results.lock().expect("no thread panicked")[policy][size] = Some(done);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..plan.threads {
            scope.spawn(work);
        }
        work();
    });
    let results = results.into_inner().expect("no thread panicked");
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
