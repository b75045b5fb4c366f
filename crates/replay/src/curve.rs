//! Miss-ratio curves: policies by sizes, on all cores.

mod memory;

use crate::budget::Budget;
use crate::cache::Counts;
use crate::dense::{Dense, Groups};
use crate::opt::{self, Future, OPT};
use crate::policies::needs_numbers;
use crate::requests::Unit;
use crate::sample::Sample;
use crate::sampled::{Bound, Pass, Ratios, SampleFacts, Sampled};
use crate::sizes::Sizes;
use crate::stack::{self, Distances};
use crate::stream::{stream_made, stream_made_with_writes};
use crate::writes::{WriteCounts, WriteModel};
use evict::Policy;
use evict::registry::{self, Runner};
use serde::Serialize;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use trace::{Options, Reader, TraceError};

pub use memory::{expected, memory};

/// The curves that are wanted.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How the trace is read.
    pub options: Options,
    /// The unit of a request: a page or a record.
    pub unit: Unit,
    /// Sizes of the caches.
    pub sizes: Sizes,
    /// Names from [`policies`](crate::policies); OPT cannot be used with `writes`.
    pub policies: Vec<&'static str>,
    /// The model of dirty pages and writeback; `None`: writes are not modelled.
    pub writes: Option<WriteModel>,
    /// The sample of the objects from which miss ratios are estimated; `None`: they are exact.
    /// Writes are not modelled with a sample.
    pub sample: Option<Sample>,
    /// Threads, at least 1; fewer are used where memory is short. The figures are the same for any
    /// number.
    pub threads: usize,
    /// The memory that the trace, if it is kept, and the caches may use.
    pub budget: Budget,
}

impl Plan {
    /// Returns the plan for a trace of `objects` objects: sizes given as shares of the objects
    /// become pages.
    fn of(&self, objects: u64) -> Self {
        Self {
            sizes: self.sizes.of(objects),
            ..self.clone()
        }
    }

    fn has_opt(&self) -> bool {
        self.policies.contains(&OPT.name)
    }
}

/// Called with the number of simulated caches and of all caches; both are 0 while the trace is
/// read, and where nothing is simulated.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

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
    /// The bound of the miss ratio, if it is an estimate from a sample.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// The counts of writes, if they are modelled.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub writes: Option<WriteCounts>,
}

/// A policy's points, by size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// The policy's name.
    pub policy: &'static str,
    /// One point for each size.
    pub points: Vec<Point>,
}

/// A guess at the meaning of object numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnitGuess {
    /// False if another meaning is as likely, so that a user should give it.
    pub certain: bool,
    /// The guess with its reason, as one line for a screen.
    pub said: String,
}

/// All curves of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curves {
    /// The trace file's name, as it was given.
    pub trace: String,
    /// Its format.
    pub format: &'static str,
    /// The meaning of object numbers; absent if the format has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<&'static str>,
    /// The reason of this meaning; absent if it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit_guess: Option<UnitGuess>,
    /// Number of requests.
    pub requests: u64,
    /// Number of objects; absent if they were not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects: Option<u32>,
    /// The sample, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<SampleFacts>,
    /// Records that could not be read and were skipped.
    pub skipped: u64,
    /// The model's limits and device, if writes are modelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<WriteModel>,
    /// The curves, in the order of the plan's policies.
    pub curves: Vec<Curve>,
}

/// Makes the point of a cache of `size` pages from its counts; exact, without a bound.
fn point(size: u32, counts: Counts, writes: Option<WriteCounts>) -> Point {
    Point {
        size,
        counts,
        miss_ratio: counts.miss_ratio(),
        bound: None,
        writes,
    }
}

/// The unit of work of one thread.
#[derive(Debug, Clone, Copy)]
enum Job {
    /// All sizes of LRU.
    Stack { policy: usize },
    /// One policy at one size.
    Cell { policy: usize, size: usize },
}

struct Simulate<'a>(&'a Dense, u32, Option<&'a WriteModel>);

impl Runner for Simulate<'_> {
    type Output = Point;

    /// Simulates one cache of a trace in memory. `make` creates the policy for a number of slots.
    /// `self` holds the trace, the cache's size in pages, and the model of writes, if they are
    /// modelled.
    fn run<P: Policy>(self, make: &dyn Fn(u32) -> P) -> Point {
        let Self(trace, size, model) = self;
        match model {
            Some(model) => {
                let (counts, writes) = trace.run_made_with_writes(size, model, make);
                point(size, counts, Some(writes))
            }
            None => point(size, trace.run_made(size, Groups::ALL, make), None),
        }
    }
}

struct Stream<'a>(Reader, Unit, u32, Option<&'a WriteModel>, usize);

impl Runner for Stream<'_> {
    type Output = Result<Point, TraceError>;

    /// Simulates one cache while the trace is read. `make` creates the policy for a number of
    /// slots. `self` holds the reader, the unit of a request, the cache's size in pages, the model
    /// of writes, if they are modelled, and the number of threads.
    fn run<P: Policy>(self, make: &dyn Fn(u32) -> P) -> Self::Output {
        let Self(reader, unit, size, model, threads) = self;
        match model {
            Some(model) => {
                let (counts, writes) =
                    stream_made_with_writes(reader, unit, size, model, threads, make)?;
                Ok(point(size, counts, Some(writes)))
            }
            None => Ok(point(
                size,
                stream_made(reader, unit, size, threads, make)?,
                None,
            )),
        }
    }
}

/// Most bytes that a cache of numbered objects uses for each slot: the policy's lists and ghosts,
/// the objects, dirty pages.
const BYTES_PER_SLOT: u64 = 120;
/// The same for a cache with a hash index.
const BYTES_PER_STREAMED_SLOT: u64 = BYTES_PER_SLOT + 40;
/// Bytes for each object of a table of objects, or of LRU's distances.
const BYTES_PER_STACKED_OBJECT: u64 = 26;

/// How a plan processes its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// One policy at one size: only the cache is kept in memory.
    Stream,
    /// LRU at many sizes: only the objects are kept.
    Distances,
    /// The sample is kept.
    Sample,
    /// The whole trace is kept.
    Keep,
}

impl Way {
    /// Chooses the way with the least memory that can run the plan: a stream of the trace, LRU's
    /// distances, a sample, or the whole trace in memory.
    fn of(plan: &Plan) -> Self {
        match (&plan.policies[..], &plan.sizes.pages[..]) {
            _ if plan.sample.is_some() => Self::Sample,
            ([policy], [_])
                if !plan.options.lenient
                    && plan.sizes.shares.is_empty()
                    && !needs_numbers(policy) =>
            {
                Self::Stream
            }
            (["lru"], _) if plan.writes.is_none() => Self::Distances,
            _ => Self::Keep,
        }
    }
}

/// Returns the error that a cache of `size` pages does not fit into memory: it needs `need` bytes.
/// `trace` is the trace's name.
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

/// Runs a plan. A single policy at a single size streams the trace, and so does LRU at many sizes;
/// with a sample only the sample is kept; in all other cases the trace is kept in memory.
///
/// # Errors
/// The trace cannot be read, or there is too little memory.
///
/// # Panics
/// If a policy of the plan is unknown, or OPT is combined with writes.
pub fn run(path: &Path, plan: &Plan) -> Result<Curves, TraceError> {
    run_watched(path, plan, &|_, _| {})
}

/// Runs a plan as [`run`] does, and reports its progress.
///
/// # Errors
/// As [`run`].
///
/// # Panics
/// As [`run`].
pub fn run_watched(path: &Path, plan: &Plan, progress: Progress<'_>) -> Result<Curves, TraceError> {
    let reader = Reader::open(path, &plan.options)?;
    let shown = path.display().to_string();
    from_reader(reader, shown, plan, progress, &Arc::default())
}

/// Runs a plan as [`run`] does, over an open trace; `shown`: the trace's name in the curves.
///
/// # Errors
/// As [`run`].
///
/// # Panics
/// As [`run`].
pub fn run_reader(reader: Reader, shown: String, plan: &Plan) -> Result<Curves, TraceError> {
    from_reader(reader, shown, plan, &|_, _| {}, &Arc::default())
}

/// Runs a plan as [`run_reader`] does, until `stop` is set: then it soon returns `None`. While the
/// trace is being read, the reader's stream must end for that.
///
/// # Errors
/// As [`run`].
///
/// # Panics
/// As [`run`].
pub fn run_reader_until(
    reader: Reader,
    shown: String,
    plan: &Plan,
    stop: &Arc<AtomicBool>,
) -> Result<Option<Curves>, TraceError> {
    let curves = from_reader(reader, shown, plan, &|_, _| {}, stop)?;
    Ok(Some(curves).filter(|_| !stop.load(Relaxed)))
}

/// Computes the curves of an open trace, in the way that takes the least memory. `shown` is the
/// trace's name in the results; `progress` is told how many caches are finished. If `stop` was set,
/// the figures mean nothing.
fn from_reader(
    reader: Reader,
    shown: String,
    plan: &Plan,
    progress: Progress<'_>,
    stop: &Arc<AtomicBool>,
) -> Result<Curves, TraceError> {
    let unit_guess = reader.guess().map(|guess| UnitGuess {
        certain: guess.certain,
        said: guess.to_string(),
    });
    // The curves before anything is counted.
    let empty = Curves {
        trace: shown,
        format: reader.format().name(),
        unit: reader.unit().map(trace::Unit::name),
        unit_guess,
        requests: 0,
        objects: None,
        sample: None,
        skipped: 0,
        model: None,
        curves: Vec::new(),
    };
    let way = Way::of(plan);
    if let ([size], [policy], Way::Stream) = (&plan.sizes.pages[..], &plan.policies[..], way) {
        let need = u64::from(*size) * BYTES_PER_STREAMED_SLOT;
        if !plan.budget.has(need) {
            return Err(too_large(reader.name(), *size, need, plan.budget));
        }
        let job = Stream(reader, plan.unit, *size, plan.writes.as_ref(), plan.threads);
        let point = registry::run(policy, job).expect(KNOWN)?;
        return Ok(Curves {
            requests: point.counts.requests,
            model: plan.writes,
            curves: vec![Curve {
                policy,
                points: vec![point],
            }],
            ..empty
        });
    }
    let name = reader.name().to_owned();
    if let Some(sample) = plan.sample {
        let (mut trace, skipped) =
            Sampled::read(reader, plan.unit, sample, 0, plan.budget, plan.threads)?;
        trace.stop_by(Arc::clone(stop));
        let plan = &plan.of(trace.objects());
        return Ok(Curves {
            requests: trace.requests,
            sample: Some(trace.facts),
            skipped,
            curves: estimate(&trace, plan, &name, progress)?,
            ..empty
        });
    }
    if way == Way::Distances {
        let (distances, objects, skipped) =
            Dense::distances(reader, plan.unit, plan.budget, plan.threads)?;
        let plan = &plan.of(objects.into());
        return Ok(Curves {
            requests: distances.requests(),
            objects: Some(objects),
            skipped,
            curves: vec![Curve {
                policy: plan.policies[0],
                points: stacked(&distances, &plan.sizes.pages),
            }],
            ..empty
        });
    }
    let (mut trace, skipped) = Dense::read(
        reader,
        plan.unit,
        plan.writes.is_some(),
        plan.budget,
        plan.threads,
    )?;
    trace.stop_by(Arc::clone(stop));
    let plan = &plan.of(trace.objects().into());
    let threads = threads(plan, &name, &trace)?;
    let results = simulate(&trace, plan, threads, progress);
    let curve = |(policy, points): (&&'static str, Vec<Option<Point>>)| Curve {
        policy,
        points: points
            .into_iter()
            .map(|p| p.expect("every job was done"))
            .collect(),
    };
    Ok(Curves {
        requests: trace.requests(),
        objects: Some(trace.objects()),
        skipped,
        model: plan.writes,
        curves: plan.policies.iter().zip(results).map(curve).collect(),
        ..empty
    })
}

/// Returns the number of threads: at most the plan's, and as many as memory allows beside the
/// trace. `name` is the trace's name, for the errors that not even one fits, or that OPT can't
/// number so many events.
fn threads(plan: &Plan, name: &str, trace: &Dense) -> Result<usize, TraceError> {
    let largest = plan.sizes.pages.last().copied().unwrap_or(1);
    let objects = trace.objects();
    // Bytes of one thread's cache.
    let mut need = u64::from(largest.min(objects)) * BYTES_PER_SLOT
        + u64::from(objects) * BYTES_PER_STACKED_OBJECT;
    // Bytes that are shared by all threads.
    let mut beside = trace.bytes();
    if plan.has_opt() {
        let events = trace.len() as u64;
        if trace.len() > opt::MOST_EVENTS {
            return Err(TraceError {
                file: name.to_owned(),
                record: None,
                text: false,
                message: format!("{events} requests are too many for `{}`", OPT.name),
                accepted: format!("at most {} requests; or other policies", opt::MOST_EVENTS),
            });
        }
        beside += events * opt::BYTES_PER_EVENT;
        need = need.max(events / 8 + events / 256);
    }
    let budget = plan.budget.without(beside);
    match budget.times(need, plan.threads) {
        0 => Err(too_large(name, largest, need, budget)),
        threads => Ok(threads),
    }
}

/// The message for a plan that breaks its contract.
const KNOWN: &str = "the plan's policies are known, and OPT has no writes";

/// Returns the jobs of a plan, the longest first: one for LRU at all sizes, and one for each other
/// policy and size.
fn jobs(plan: &Plan) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (p, name) in plan.policies.iter().enumerate() {
        if *name == "lru" && plan.writes.is_none() {
            jobs.push(Job::Stack { policy: p });
        }
    }
    // The largest caches take longest, so they come first.
    for size in (0..plan.sizes.pages.len()).rev() {
        for (p, name) in plan.policies.iter().enumerate() {
            if *name != "lru" || plan.writes.is_some() {
                jobs.push(Job::Cell { policy: p, size });
            }
        }
    }
    jobs
}

/// Does all jobs on `threads` threads, each of which takes the next job when it has finished one;
/// returns their results in the order of the jobs. `progress` is told after each job.
fn in_parallel<J: Copy + Sync, T: Send>(
    jobs: &[J],
    threads: usize,
    progress: Progress<'_>,
    work: impl Fn(J) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    progress(0, jobs.len());
    let results = Mutex::new(Vec::with_capacity(jobs.len()));
    let turns = || {
        loop {
            let at = next.fetch_add(1, Relaxed);
            let Some(job) = jobs.get(at) else { break };
            let done = work(*job);
            let mut results = results.lock().expect("no thread panicked");
            results.push((at, done));
            progress(results.len(), jobs.len());
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // If no more threads can be started, the existing ones do the work.
            if Builder::new().spawn_scoped(scope, turns).is_err() {
                break;
            }
        }
        turns();
    });
    let mut results = results.into_inner().expect("no thread panicked");
    results.sort_unstable_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, done)| done).collect()
}

/// Returns LRU's points at these sizes, from the distances of all requests.
fn stacked(distances: &Distances, sizes: &[u32]) -> Vec<Point> {
    let requests = distances.requests();
    let misses = distances.all_misses(sizes);
    let point = |(size, misses): (&u32, u64)| point(*size, Counts { requests, misses }, None);
    sizes.iter().zip(misses).map(point).collect()
}

/// Simulates every policy at every size on `threads` threads. Returns the points by policy and
/// size, all of which are there at the end.
fn simulate(
    trace: &Dense,
    plan: &Plan,
    threads: usize,
    progress: Progress<'_>,
) -> Vec<Vec<Option<Point>>> {
    let jobs = jobs(plan);
    let sizes = &plan.sizes.pages;
    let future = plan.has_opt().then(|| Future::of(trace));
    let done = in_parallel(&jobs, threads, progress, |job| match job {
        Job::Stack { .. } => stacked(&stack::distances(trace), sizes),
        Job::Cell { policy, size } => {
            let size = sizes[size];
            if let Some(future) = &future
                && plan.policies[policy] == OPT.name
            {
                let counts = future.run(trace, size, Groups::ALL);
                return vec![point(size, counts, None)];
            }
            let cell = Simulate(trace, size, plan.writes.as_ref());
            let done = registry::run(plan.policies[policy], cell).expect(KNOWN);
            vec![done]
        }
    });
    let empty = vec![None; sizes.len()];
    let mut results = vec![empty; plan.policies.len()];
    for (job, points) in jobs.into_iter().zip(done) {
        // The place of the job's first point.
        let (policy, first) = match job {
            Job::Stack { policy } => (policy, 0),
            Job::Cell { policy, size } => (policy, size),
        };
        for (place, point) in results[policy][first..].iter_mut().zip(points) {
            *place = Some(point);
        }
    }
    results
}

/// Estimates every policy's points by size from a sample of the trace, each with its bound. `name`
/// is the trace's name, for errors.
fn estimate(
    trace: &Sampled,
    plan: &Plan,
    name: &str,
    progress: Progress<'_>,
) -> Result<Vec<Curve>, TraceError> {
    let threads = threads(plan, name, trace.trace())?;
    let sizes = &plan.sizes.pages;
    let future = plan.has_opt().then(|| Future::of(trace.trace()));
    // The whole sample, and halves of it that show how far the estimate may be off.
    let passes: Vec<Pass> = Pass::all(trace.facts.rate).collect();
    let jobs: Vec<(Job, Pass)> = jobs(plan)
        .into_iter()
        .flat_map(|job| passes.iter().map(move |pass| (job, *pass)))
        .collect();
    // The miss ratios of each job and pass.
    let done = in_parallel(&jobs, threads, progress, |(job, pass)| match job {
        Job::Stack { .. } => trace.stack(pass, sizes),
        Job::Cell { policy, size } => {
            let policy = plan.policies[policy];
            let future = future.as_ref().filter(|_| policy == OPT.name);
            let ratios = match future {
                Some(future) => trace.best(future, pass, sizes[size]),
                None => trace.miniature(policy, pass, sizes[size]).expect(KNOWN),
            };
            vec![ratios]
        }
    });
    // Indexed by policy, size and pass.
    let none = vec![vec![Ratios::default(); passes.len()]; sizes.len()];
    let mut all = vec![none; plan.policies.len()];
    for (i, ((job, _), ratios)) in jobs.into_iter().zip(done).enumerate() {
        let (policy, first) = match job {
            Job::Stack { policy } => (policy, 0),
            Job::Cell { policy, size } => (policy, size),
        };
        for (place, ratios) in all[policy][first..].iter_mut().zip(ratios) {
            place[i % passes.len()] = ratios;
        }
    }
    let estimated = |(size, passes): (&u32, &Vec<Ratios>)| {
        let (miss_ratio, bound) = trace.estimate(*size, passes);
        let requests = trace.requests;
        let misses = (miss_ratio * requests as f64).round() as u64;
        Point {
            miss_ratio,
            bound: Some(bound),
            ..point(*size, Counts { requests, misses }, None)
        }
    };
    let curve = |(policy, sizes): (&&'static str, &Vec<Vec<Ratios>>)| Curve {
        policy,
        points: plan.sizes.pages.iter().zip(sizes).map(estimated).collect(),
    };
    Ok(plan.policies.iter().zip(&all).map(curve).collect())
}
