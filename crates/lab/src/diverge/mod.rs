//! Finds where two runs of the engine diverge: the first decision of memory management that
//! differs, and the figures that differ after it, in order. For runs that end far apart although
//! little differs between them, such as two iterations of one cell.
//!
//! A *decision* is an event of the engine that is not of a single page (`Event::by_page`): a task
//! woke kswapd, entered reclaim, shrank a list, waited, or began to write. Two streams of decisions
//! are compared one by one, twice: by event, task and place, and by all figures of the event. Times
//! are not compared: with two disks they are never equal.
//!
//! Of a stream only eight bytes a decision and sums are kept; texts come from a second run.

mod heard;
mod text;

pub use text::to_text;

use crate::model::{Cell, Experiment};
use crate::runner::iteration_seed;
use crate::validate;
use heard::{Heard, Hearing, Wanted};
use serde::Serialize;
use sim::{Control, Outcome, RunResult, RunSpec};
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// Most decisions that are compared one by one: 400 MB of the host's memory for each run.
pub const MOST_DECISIONS: usize = 50_000_000;
/// Decisions shown before the first that differs.
const BEFORE: u64 = 3;
/// Kinds of decisions with fewer occurrences than this are not compared by number.
const FEWEST: u64 = 10;
/// Least difference of two counts that counts as apart, as a share of the larger one at the end.
const APART: f64 = 0.1;
/// Sampling interval of a run whose experiment sets none (ns).
const SAMPLE_NS: u64 = 100_000_000;
/// Columns of the time series that are compared.
const COLUMNS: [&str; 10] = [
    "free",
    "dirty",
    "writeback",
    "inactive_file",
    "active_file",
    "inactive_anon",
    "active_anon",
    "kswapd_cpu",
    "write_throughput",
    "read_throughput",
];

/// One of the two runs.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// The iteration, from 0.
    pub iteration: u32,
}

impl Side<'_> {
    fn name(&self) -> String {
        format!("{}, iteration {}", self.cell.key(), self.iteration)
    }

    /// Returns the specification of this side's run, with the seed of its iteration and with
    /// sampling on.
    fn spec(&self, experiment: &Experiment) -> RunSpec {
        let mut spec = self.cell.spec.clone();
        spec.seed = iteration_seed(experiment, self.iteration);
        // Sampling does not change the run.
        if spec.sample_ns == 0 {
            spec.sample_ns = SAMPLE_NS;
        }
        spec
    }
}

/// A decision with its time, task and event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Decision {
    /// Seconds since the workload began.
    pub at: f64,
    /// The task's name and number.
    pub task: String,
    /// The event and its figures.
    pub event: String,
}

/// The first decision that differs between the runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct First {
    /// The number of the decision since the workload began, from 0.
    pub number: u64,
    /// The decisions of each run right before it, in order of time.
    pub before: [Vec<Decision>; 2],
    /// The decision of each run; `None`: the run had ended.
    pub decisions: [Option<Decision>; 2],
}

impl First {
    /// Collects the decision with this number and those before it from the texts of both runs.
    /// `shown` is the range of numbers from the earliest decision to show up to and including
    /// `number`; `texts` holds (number, decision) of each run.
    fn of(number: u64, shown: Range<u64>, texts: &[Vec<(u64, Decision)>; 2]) -> Self {
        let of = |texts: &Vec<(u64, Decision)>, numbers: Range<u64>| {
            let texts = texts.iter().filter(|(n, _)| numbers.contains(n));
            texts.map(|(_, d)| d.clone()).collect::<Vec<Decision>>()
        };
        Self {
            number,
            before: texts.each_ref().map(|t| of(t, shown.start..number)),
            decisions: texts.each_ref().map(|t| of(t, number..shown.end).pop()),
        }
    }
}

/// A count or figure that differs between the runs from some time on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parted {
    /// Seconds since the workload began.
    pub at: f64,
    /// The name of a kind of decision, or of a column of the time series.
    pub what: String,
    /// Its unit.
    pub unit: String,
    /// Both values at that time; for a kind of decision the number so far.
    pub then: [f64; 2],
    /// Both values at the end; for a column the means over the whole run.
    pub all: [f64; 2],
}

/// The result of comparing two runs.
#[derive(Debug, Clone, Serialize)]
pub struct Divergence {
    /// The names of the two runs.
    pub runs: [String; 2],
    /// The endings of runs that did not complete.
    pub endings: [Option<String>; 2],
    /// The workload's duration in each run, in seconds.
    pub elapsed: [f64; 2],
    /// The number of decisions of each run since its workload began.
    pub decisions: [u64; 2],
    /// The number of decisions that were compared one by one, from the first on.
    pub compared: u64,
    /// The first decision that differs in event, task or place.
    pub first: Option<First>,
    /// The first decision that differs in any figure.
    pub figures: Option<First>,
    /// Counts and figures that differ, earliest first.
    pub parted: Vec<Parted>,
}

/// Runs both sides twice and compares them: first for hashes and counts of all decisions, then, if
/// any decision differs, for the texts around the first that do. Returns `None` if a run was
/// interrupted through `stop`.
pub fn diverge(
    experiment: &Experiment,
    sides: [Side<'_>; 2],
    stop: &Arc<AtomicBool>,
) -> Option<Divergence> {
    let run = |side: &Side<'_>, wanted: Wanted| hear(side.spec(experiment), wanted, stop);
    let [a, b] = sides;
    let (ours, first) = run(&a, Wanted::Sums)?;
    let (theirs, second) = run(&b, Wanted::Sums)?;
    // The first decision that differs in event, task or place, and the first in any figure.
    let differs = [heard::places, heard::figures].map(|of| heard::first_apart(&ours, &theirs, of));
    let shown = |number: u64| number.saturating_sub(BEFORE)..number + 1;
    let ranges: Vec<Range<u64>> = differs.iter().flatten().map(|n| shown(*n)).collect();
    let mut texts = [Vec::new(), Vec::new()];
    if !ranges.is_empty() {
        for (side, texts) in [&a, &b].into_iter().zip(&mut texts) {
            *texts = run(side, Wanted::Texts(ranges.clone()))?.0.texts;
        }
    }
    let [places, figures] = differs.map(|number| number.map(|n| First::of(n, shown(n), &texts)));
    let results = [&first, &second];
    // Kinds of decisions and columns of the time series that differ from some time on.
    let mut parted = kinds_parted([&ours, &theirs]);
    parted.extend(columns_parted(results));
    parted.sort_by(|a, b| a.at.total_cmp(&b.at).then_with(|| a.what.cmp(&b.what)));
    Some(Divergence {
        runs: [a.name(), b.name()],
        endings: results.map(|r| r.outcome.ending()),
        elapsed: results.map(|r| r.metrics.get("elapsed").map_or(0.0, |m| m.value)),
        decisions: [ours.number, theirs.number],
        compared: ours.number.min(theirs.number).min(MOST_DECISIONS as u64),
        first: places,
        figures,
        parted,
    })
}

/// Runs the engine once with a listener that keeps the `wanted` data. Returns the data and the
/// run's result; `None` if the run was interrupted.
fn hear(spec: RunSpec, wanted: Wanted, stop: &Arc<AtomicBool>) -> Option<(Heard, RunResult)> {
    let heard = Arc::new(Mutex::new(Heard::default()));
    let control = Control {
        listener: Mutex::new(Some(Box::new(Hearing::new(wanted, &heard)))),
        stop: Arc::clone(stop),
        ..Control::default()
    };
    let result = sim::run(&spec, &control);
    if result.outcome == Outcome::Interrupted {
        return None;
    }
    let heard = std::mem::take(&mut *heard::lock(&heard));
    Some((heard, result))
}

/// Returns the kinds of decisions whose counts so far differ, from some time until the end of the
/// shorter run, by more than the share `APART` of the larger total. Kinds that are too rare in
/// both runs are left out.
fn kinds_parted(runs: [&Heard; 2]) -> Vec<Parted> {
    let names = runs.iter().flat_map(|r| r.kinds.keys().copied());
    let names: std::collections::BTreeSet<&'static str> = names.collect();
    let of = |name: &'static str| {
        let counts = runs.map(|r| r.kinds.get(name).map_or(&[][..], |c| c.as_slice()));
        let sums = counts.map(cumulated);
        let all = sums.each_ref().map(|s| s.last().copied().unwrap_or(0));
        let most = all[0].max(all[1]);
        if most < FEWEST {
            return None;
        }
        let slots = runs[0].slots.min(runs[1].slots);
        // The number of such decisions that one run made up to a slot of time.
        let at = |side: usize, slot: usize| {
            let sums: &Vec<u64> = &sums[side];
            sums.get(slot).or(sums.last()).copied().unwrap_or(0)
        };
        let apart = |slot: &usize| {
            let (a, b) = (at(0, *slot), at(1, *slot));
            a.abs_diff(b) as f64 > most as f64 * APART
        };
        // From this slot on the counts are apart until the end of the shorter run.
        let from = (0..slots).rev().take_while(apart).last()?;
        Some(Parted {
            at: from as f64 * heard::SLOT_S,
            what: name.into(),
            unit: "events".into(),
            then: [at(0, from) as f64, at(1, from) as f64],
            all: all.map(|n| n as f64),
        })
    };
    names.into_iter().filter_map(of).collect()
}

/// Returns the running sums of the counts of a kind's decisions by time slot.
fn cumulated(counts: &[u32]) -> Vec<u64> {
    let mut sum = 0;
    let add = |n: &u32| {
        sum += u64::from(*n);
        sum
    };
    counts.iter().map(add).collect()
}

/// Returns the columns of the time series that differ between two runs in two samples in a row:
/// each with the time of the first of these, both values then, and both means over the whole run.
fn columns_parted(results: [&RunResult; 2]) -> Vec<Parted> {
    let [a, b] = results.map(|r| &r.series);
    let of = |name: &'static str| {
        let (at, ours, theirs) = validate::first_apart(a, b, name)?;
        let mean = |series| {
            let values = validate::column(series, name).unwrap_or_default();
            values.iter().sum::<f64>() / values.len().max(1) as f64
        };
        let unit = a.columns.iter().find(|c| c.name == name);
        Some(Parted {
            at,
            what: name.into(),
            unit: unit.map_or_else(String::new, |c| c.unit.to_string()),
            then: [ours, theirs],
            all: [mean(a), mean(b)],
        })
    };
    COLUMNS.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests;
