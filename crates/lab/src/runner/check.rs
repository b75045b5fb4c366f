//! Compares the two runs of an iteration for `--check`.

use sim::RunResult;
use sim::result::Series;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// How thoroughly a checked run compares its lists with its counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// Sums and samples at every check; a full recount whenever many pages were worked on, and once
    /// at the end ([`mm::Recount::look`]).
    Sampled,
    /// A full recount at every check.
    Full,
}

/// How often a checked run compares its lists with its counters, in simulated nanoseconds.
pub const INTERVAL_NS: u64 = 1_000_000_000;

/// Two runs of the same iteration that differed, or a run that found itself inconsistent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("check failed in cell {cell}, iteration {iteration}, seed {seed:016x}: {difference}")]
pub struct CheckFailure {
    /// The cell's key.
    pub cell: String,
    /// The iteration, from 0.
    pub iteration: u32,
    /// The iteration's seed.
    pub seed: u64,
    /// The first thing that differed, with both values.
    pub difference: String,
}

/// Describes the first difference between the results of two runs of one iteration, the most
/// telling part first: outcome, metrics, counters, series, … and last the digest of all events.
/// Returns `None` if they are equal in everything.
pub fn difference(a: &RunResult, b: &RunResult) -> Option<String> {
    value("world", &a.origin, &b.origin)
        .or_else(|| value("outcome", &a.outcome, &b.outcome))
        .or_else(|| {
            let bits = |r: &RunResult| {
                r.metrics
                    .iter()
                    .map(|(k, m)| (k.clone(), (Bits(m.value), m.unit)))
                    .collect()
            };
            map("metric", &bits(a), &bits(b))
        })
        .or_else(|| map("counter", &a.counters, &b.counters))
        .or_else(|| series(&a.series, &b.series))
        .or_else(|| latency(a, b))
        .or_else(|| value("tracker report", &a.tracker, &b.tracker))
        .or_else(|| value("notes", &a.notes, &b.notes))
        .or_else(|| value("simulated time (ns)", &a.sim_ns, &b.sim_ns))
        .or_else(|| value("bytes moved", &a.moved, &b.moved))
        .or_else(|| value("time of tasks", &a.tasks, &b.tasks))
        .or_else(|| value("sums over reclaim", &a.reclaim, &b.reclaim))
        .or_else(|| value("waits", &a.waits, &b.waits))
        .or_else(|| value("watermarks", &a.watermarks, &b.watermarks))
        .or_else(|| {
            let hex = |r: &RunResult| format!("{:016x}", r.digest);
            value("event digest", &hex(a), &hex(b))
        })
}

/// Returns a sentence with the message of a caught panic; the payload is a string unless the panic
/// was raised with another value.
pub fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied());
    format!(
        "the engine panicked: {}",
        text.unwrap_or("without a message")
    )
}

/// A float compared bit by bit: NaN equals itself, and the two zeros differ.
#[derive(Clone, Copy)]
struct Bits(f64);

impl PartialEq for Bits {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Debug for Bits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Describes the difference of two values of the thing named `what`, of the first run (`a`) and the
/// second (`b`); `None` if they are equal.
fn value<T: PartialEq + Debug>(what: &str, a: &T, b: &T) -> Option<String> {
    (a != b).then(|| format!("{what}: {a:?} in the first run, {b:?} in the second"))
}

/// Describes the first difference, by name, of two maps of things named `what`: an entry that is
/// absent in one run counts. `None` if they are equal.
fn map<T: PartialEq + Debug>(
    what: &str,
    a: &BTreeMap<String, T>,
    b: &BTreeMap<String, T>,
) -> Option<String> {
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    names.into_iter().find_map(|name| {
        let (x, y) = (a.get(name), b.get(name));
        let text = |v: Option<&T>| v.map_or_else(|| "absent".into(), |v| format!("{v:?}"));
        (x != y).then(|| {
            format!(
                "{what} `{name}`: {} in the first run, {} in the second",
                text(x),
                text(y)
            )
        })
    })
}

/// Describes the first difference of two sampled time series: columns, number of samples, times,
/// then values bit by bit; `None` if they are equal.
fn series(a: &Series, b: &Series) -> Option<String> {
    let bits = |v: &[f64]| v.iter().copied().map(Bits).collect::<Vec<_>>();
    let heads = |s: &Series| -> Vec<String> {
        s.columns
            .iter()
            .map(|c| format!("{} {} [{}]", c.name, c.scope, c.unit))
            .collect()
    };
    value("series columns", &heads(a), &heads(b))
        .or_else(|| value("number of samples", &a.t.len(), &b.t.len()))
        .or_else(|| first("sample times", &a.t, &bits(&a.t), &bits(&b.t)))
        .or_else(|| {
            a.columns.iter().zip(&b.columns).find_map(|(x, y)| {
                let what = format!("series `{} {}`", x.name, x.scope);
                first(&what, &a.t, &bits(&x.values), &bits(&y.values))
            })
        })
}

/// Describes the first place where the value lists of the first run (`a`) and the second (`b`)
/// differ. `what` names the list and `t` has the time of each sample in seconds. `None` if the
/// lists are equal.
fn first(what: &str, t: &[f64], a: &[Bits], b: &[Bits]) -> Option<String> {
    let at = a.iter().zip(b).position(|(x, y)| x != y);
    match at {
        Some(i) => {
            let when = t
                .get(i)
                .map_or_else(|| format!("sample {i}"), |t| format!("{t} s"));
            value(&format!("{what} at {when}"), &a[i], &b[i])
        }
        None => value(&format!("{what}, number of values"), &a.len(), &b.len()),
    }
}

/// Describes the first difference in the histograms of allocation latency of two runs: in the
/// allocator's paths that occurred, or in the number of values or the maximum of one; `None` if all
/// are equal.
fn latency(a: &RunResult, b: &RunResult) -> Option<String> {
    let names = |r: &RunResult| {
        r.alloc_latency
            .paths
            .iter()
            .map(|p| p.0)
            .collect::<Vec<_>>()
    };
    value("allocation paths", &names(a), &names(b)).or_else(|| {
        a.alloc_latency.paths.iter().zip(&b.alloc_latency.paths).find_map(|(x, y)| {
            (x.1 != y.1).then(|| {
                format!(
                    "allocation latency of path `{}`: {} values up to {} ns in the first run, {} up to {} ns in the second",
                    x.0, x.1.len(), x.1.max(), y.1.len(), y.1.max()
                )
            })
        })
    })
}
