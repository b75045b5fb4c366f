//! Where two runs of the engine part: the first decision of memory management that one takes and the other
//! does not, and what parts after it, in order. For runs that end far apart although little differs between
//! them, such as two iterations of one cell.
//!
//! A *decision* is an event of the engine that is not of a single page (`Event::by_page`): who woke kswapd,
//! entered reclaim, shrank a list, waited, or began to write. Two streams of decisions are held against each other
//! one by one, twice: by who did what where, and by all figures of the event. Times are not compared: two disks never
//! agree on them.
//!
//! Nothing is kept of a stream but eight bytes a decision, and sums; its texts come from a second run.

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

/// The most decisions that are compared one by one: 400 MB of the host's memory for each run.
pub const MOST_DECISIONS: usize = 50_000_000;
/// Decisions shown before the first that differs.
const BEFORE: u64 = 3;
/// Kinds of decisions that occur less often are not looked at for their numbers.
const FEWEST: u64 = 10;
/// What counts as apart: this share of the larger of the two at the end.
const APART: f64 = 0.1;
/// How often a run is sampled whose experiment does not say (ns).
const SAMPLE_NS: u64 = 100_000_000;
/// Columns of the time series that are looked at.
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
    /// Its cell.
    pub cell: &'a Cell,
    /// Its iteration, from 0.
    pub iteration: u32,
}

impl Side<'_> {
    fn name(&self) -> String {
        format!("{}, iteration {}", self.cell.key(), self.iteration)
    }

    fn spec(&self, experiment: &Experiment) -> RunSpec {
        let mut spec = self.cell.spec.clone();
        spec.seed = iteration_seed(experiment, self.iteration);
        // Looking changes nothing.
        if spec.sample_ns == 0 {
            spec.sample_ns = SAMPLE_NS;
        }
        spec
    }
}

/// A decision with its place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Decision {
    /// Seconds since the workload began.
    pub at: f64,
    /// The task.
    pub task: String,
    /// The event and its figures.
    pub event: String,
}

/// The first decision that differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct First {
    /// Its number since the workload began, from 0.
    pub number: u64,
    /// What each of the two decided right before, the last one last.
    pub before: [Vec<Decision>; 2],
    /// What each decided; `None`: it had come to its end.
    pub decisions: [Option<Decision>; 2],
}

impl First {
    /// From the texts of both runs, with their numbers.
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

/// Something that parted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parted {
    /// Seconds since the workload began.
    pub at: f64,
    /// A kind of decision, or a column of the time series.
    pub what: String,
    /// Its unit.
    pub unit: String,
    /// Both values then: of a kind of decision how many there had been.
    pub then: [f64; 2],
    /// Both at the end; of a column the means over the whole run.
    pub all: [f64; 2],
}

/// What was found.
#[derive(Debug, Clone, Serialize)]
pub struct Divergence {
    /// The two runs.
    pub runs: [String; 2],
    /// How each ended, if it did not complete.
    pub endings: [Option<String>; 2],
    /// How long each workload took in seconds.
    pub elapsed: [f64; 2],
    /// Decisions of each since its workload began.
    pub decisions: [u64; 2],
    /// Those that were held against each other one by one are the first so many.
    pub compared: u64,
    /// The first that differs in who did what where.
    pub first: Option<First>,
    /// The first that differs in any figure.
    pub figures: Option<First>,
    /// What parted, earliest first.
    pub parted: Vec<Parted>,
}

/// Runs both and holds them against each other. `None`: it was interrupted.
pub fn diverge(
    experiment: &Experiment,
    sides: [Side<'_>; 2],
    stop: &Arc<AtomicBool>,
) -> Option<Divergence> {
    let run = |side: &Side<'_>, wanted: Wanted| hear(side.spec(experiment), wanted, stop);
    let [a, b] = sides;
    let (ours, first) = run(&a, Wanted::Sums)?;
    let (theirs, second) = run(&b, Wanted::Sums)?;
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

/// One run with somebody who hears it; `None`: it was interrupted.
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

/// Kinds of decisions of which one run has had clearly more than the other from some time on.
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
        let at = |side: usize, slot: usize| {
            let sums: &Vec<u64> = &sums[side];
            sums.get(slot).or(sums.last()).copied().unwrap_or(0)
        };
        let apart = |slot: &usize| {
            let (a, b) = (at(0, *slot), at(1, *slot));
            a.abs_diff(b) as f64 > most as f64 * APART
        };
        // From here on to the end of the shorter run.
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

fn cumulated(counts: &[u32]) -> Vec<u64> {
    let mut sum = 0;
    let add = |n: &u32| {
        sum += u64::from(*n);
        sum
    };
    counts.iter().map(add).collect()
}

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
