//! The plan of a simulation, from a request for curves.

use crate::failure::Failure;
use crate::runs::jobs;
use evict::registry;
use lab::runner::memory::Host;
use miette::miette;
use replay::curve::Plan;
use replay::opt::OPT;
use replay::{Budget, Sample, Sizes, Unit, WriteModel};
use std::num::NonZeroUsize;
use trace::{Options, TraceError};

/// Dirty pages, their limits and the device they are written to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Writes {
    /// Percentage of the cache that may be dirty or under writeback.
    pub limit: f64,
    /// Percentage of dirty pages at which the flusher starts.
    pub background: f64,
    /// The device's write rate, in MiB per second.
    pub rate: f64,
}

/// A request for curves, its words read.
#[derive(Debug, Clone)]
pub struct Request {
    /// How the trace is read.
    pub options: Options,
    /// Treat every record as one request, regardless of its size.
    pub ignore_size: bool,
    /// Sizes of the caches.
    pub sizes: Sizes,
    /// Policies by name; `all`: all of them.
    pub policies: Vec<String>,
    /// A sample of the objects.
    pub sample: Option<Sample>,
    /// The model of dirty pages, if wanted.
    pub writes: Option<Writes>,
    /// Threads; `None`: all cores.
    pub jobs: Option<NonZeroUsize>,
}

/// Converts an error of reading a trace into a failure.
pub fn unreadable(e: TraceError) -> Failure {
    Failure::Input(miette!(help = format!("accepted: {}", e.accepted), "{e}"))
}

/// Makes the plan of a simulation from the options: policies without repetitions, sizes, sampling
/// and the model of writes.
///
/// # Errors
/// A policy is unknown or has no model of writes, or sizes are given in bytes where objects have
/// none.
pub fn plan(request: &Request) -> Result<Plan, Failure> {
    let mut policies = Vec::new();
    for name in &request.policies {
        let name = name.trim();
        match replay::find(name) {
            // An optimal order for writes, with the fewest stalls, is not known.
            Some(entry) if request.writes.is_some() && *entry == OPT => {
                return Err(Failure::Input(miette!(
                    help = format!("accepted with `--writes`: all, {}", registry::names()),
                    "`{}` has no model of writes: it minimizes misses, not stalls",
                    OPT.name
                )));
            }
            Some(entry) => policies.push(entry.name),
            None if name.eq_ignore_ascii_case("all") => {
                let all = replay::policies().filter(|e| request.writes.is_none() || **e != OPT);
                policies.extend(all.map(|e| e.name));
            }
            None => {
                return Err(Failure::Input(miette!(
                    help = format!("accepted: all, {}", replay::names()),
                    "`{name}` is not an eviction policy"
                )));
            }
        }
    }
    if request.sizes.in_bytes && request.ignore_size {
        return Err(Failure::Input(miette!(
            help = "accepted: numbers of objects such as `5000`, or per cent of them such as `10%`",
            "sizes in bytes have no meaning for this trace, where every record is one object of any size"
        )));
    }
    let mut seen = Vec::new();
    policies.retain(|p| {
        let new = !seen.contains(p);
        seen.push(*p);
        new
    });
    Ok(Plan {
        options: request.options,
        unit: if request.ignore_size {
            Unit::Record
        } else {
            Unit::Page
        },
        sizes: request.sizes.clone(),
        policies,
        writes: request.writes.map(model).transpose()?,
        sample: request.sample,
        threads: jobs(request.jobs),
        budget: Budget(Host::here().least()),
    })
}

/// Returns the model of writes from the options. Limits become shares of the cache, and the
/// device's rate in MiB/s the time for a page.
fn model(writes: Writes) -> Result<WriteModel, Failure> {
    let share = |option: &str, percent: f64| {
        if (0.0..=100.0).contains(&percent) {
            return Ok(percent / 100.0);
        }
        Err(Failure::Input(miette!(
            help = "accepted: a percentage from 0 to 100",
            "--{option} {percent} is not a share of the cache"
        )))
    };
    // From a page in a quarter of an hour to a page in a nanosecond.
    if !(5e-6..=4e6).contains(&writes.rate) {
        return Err(Failure::Input(miette!(
            help = "accepted: MiB per second, from 0.000005 to 4000000",
            "--write-rate {} is not a possible speed of a device",
            writes.rate
        )));
    }
    Ok(WriteModel {
        limit: share("dirty-limit", writes.limit)?,
        background: share("dirty-background", writes.background)?,
        page_ns: (1e9 / 256.0 / writes.rate).round() as u64,
        ..WriteModel::default()
    })
}
