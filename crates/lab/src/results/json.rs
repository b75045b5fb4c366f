//! `results.json`: all results except time series and histograms.

use super::latency::{PathLatency, paths};
use super::{File, Format};
use crate::model::{Cell, Experiment, Outcomes};
use serde::Serialize;
use sim::account::{ReclaimSums, TaskTime};
use sim::result::{Metric, TrackerReport};
use sim::{Origin, Outcome, RunResult};
use std::collections::BTreeMap;

/// Writes `results.json`, by which results folders without a list are recognised.
pub struct ResultsJson;

impl Format for ResultsJson {
    /// Passes `results.json` with the results of all cells to `emit`.
    fn files(
        &self,
        outcomes: &Outcomes,
        emit: &mut dyn FnMut(File) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        emit(File::new("results.json", to_json(outcomes)))
    }
}

/// Returns the text of `results.json`: the experiment, and for each cell the results of its
/// finished iterations.
pub fn to_json(outcomes: &Outcomes) -> String {
    let experiment = &outcomes.experiment;
    let document = Document {
        lowmark: env!("CARGO_PKG_VERSION"),
        build: outcomes.build.as_deref(),
        experiment: Head {
            name: &experiment.name,
            seed: experiment.seed,
            iterations: experiment.iterations,
            axes: &experiment.axes,
            text: &experiment.text,
            said: &experiment.said,
        },
        interrupted: outcomes.interrupted,
        cells: experiment
            .cells
            .iter()
            .zip(&outcomes.results)
            .map(|(cell, results)| cell_json(experiment, cell, results))
            .collect(),
    };
    let mut text = serde_json::to_string_pretty(&document).expect("plain data has a JSON form");
    text.push('\n');
    text
}

/// Collects for `results.json` one cell and the results of its finished iterations.
fn cell_json<'a>(
    experiment: &Experiment,
    cell: &'a Cell,
    results: &'a [Option<RunResult>],
) -> CellJson<'a> {
    let iterations = (0..).zip(results).filter_map(|(i, r)| {
        let r = r.as_ref()?;
        Some(Iteration {
            iteration: i,
            seed: format!("{:016x}", crate::runner::iteration_seed(experiment, i)),
            origin: (r.origin == Origin::Kernel).then_some(r.origin),
            outcome: &r.outcome,
            metrics: &r.metrics,
            counters: &r.counters,
            reclaim: &r.reclaim,
            tasks: &r.tasks,
            alloc_latency: paths(r),
            slowest_allocations: &r.alloc_latency.slowest,
            watermarks: &r.watermarks,
            tracker: r.tracker.as_ref(),
            simulated_ns: r.sim_ns,
            notes: &r.notes,
            digest: format!("{:016x}", r.digest),
        })
    });
    CellJson {
        key: cell.key(),
        group: cell.group(),
        machine: &cell.machine,
        filesystem: &cell.filesystem,
        policy: &cell.policy,
        baseline: cell.baseline,
        costs: cell.kernel.as_ref().map(|kernel| kernel.costs),
        axes: cell
            .axes
            .iter()
            .map(|(k, v)| Axis { key: k, value: v })
            .collect(),
        iterations: iterations.collect(),
    }
}

#[derive(Serialize)]
struct Document<'a> {
    /// The program's version; its presence marks the file as Lowmark's.
    lowmark: &'static str,
    /// The output of `lowmark --version`: version, revision, build; left out where the bytes of
    /// several builds are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    build: Option<&'a str>,
    experiment: Head<'a>,
    interrupted: bool,
    cells: Vec<CellJson<'a>>,
}

#[derive(Serialize)]
struct Head<'a> {
    name: &'a str,
    seed: u64,
    iterations: u32,
    axes: &'a [String],
    text: &'a str,
    /// Notes for the reader of any figure, a sentence each.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    said: &'a [String],
}

#[derive(Serialize)]
struct CellJson<'a> {
    key: String,
    group: String,
    machine: &'a str,
    filesystem: &'a str,
    policy: &'a str,
    baseline: bool,
    /// In a real kernel's cell, whether computing takes time; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    costs: Option<bool>,
    axes: Vec<Axis<'a>>,
    iterations: Vec<Iteration<'a>>,
}

#[derive(Serialize)]
struct Axis<'a> {
    key: &'a str,
    value: &'a str,
}

#[derive(Serialize)]
struct Iteration<'a> {
    iteration: u32,
    /// Sixteen hex digits: a JSON number would lose bits in most readers.
    seed: String,
    /// The world of the run, written for real kernels only.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<Origin>,
    outcome: &'a Outcome,
    metrics: &'a BTreeMap<String, Metric>,
    counters: &'a BTreeMap<String, u64>,
    /// Sums over reclaim's trace events. Here and below null means that the run did not report it.
    reclaim: &'a Option<ReclaimSums>,
    /// The parts of the tasks' time, in nanoseconds.
    tasks: &'a [TaskTime],
    alloc_latency: Vec<PathLatency>,
    /// The ten slowest allocations among those that left the fast path.
    slowest_allocations: &'a [sim::slowest::SlowAlloc],
    /// The watermarks to start with next time, in kB.
    watermarks: &'a Option<mm::policy::WatermarkProfile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracker: Option<&'a TrackerReport>,
    simulated_ns: u64,
    notes: &'a [String],
    digest: String,
}
