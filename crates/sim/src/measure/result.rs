//! What a run leaves behind.

use crate::account::{ReclaimSums, TaskTime};
use crate::slowest::SlowAlloc;
use crate::stored::{Name, histograms, name};
use crate::waiting::WaitSums;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Outcome {
    /// The workload finished.
    Completed,
    /// No memory could be reclaimed for an allocation: processes were killed and the others went on to the
    /// workload's end, or nobody could be killed and the run ended there. Figures of such a run are of other work
    /// than those of one that completed.
    Oom {
        /// In the first line who was killed and when, or why nobody was; then the kernel's report.
        report: String,
    },
    /// The workload got an error from its host.
    Failed {
        /// The error.
        error: String,
    },
    /// The time limit of the run was reached.
    TimeLimit,
    /// The user interrupted it.
    Interrupted,
}

impl Outcome {
    /// In words how a run ended that did not complete.
    pub fn ending(&self) -> Option<String> {
        match self {
            Self::Completed => None,
            Self::Oom { report } => Some(format!("out of memory: {}", Self::oom_headline(report))),
            Self::Failed { error } => Some(error.clone()),
            Self::TimeLimit => Some("the time limit was reached".into()),
            Self::Interrupted => Some("interrupted".into()),
        }
    }

    /// The first line of what a run that ran out of memory said.
    pub fn oom_headline(report: &str) -> &str {
        report.lines().next().unwrap_or_default()
    }
}

/// A measured figure with its unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// "s", "MB/s", "pages", …
    #[serde(deserialize_with = "name")]
    pub unit: Name,
    /// The value.
    pub value: f64,
}

/// One column of a time series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// What it shows: `free`, `min`, `low`, `high`, `dirty`, `writeback`, `dirty_limit`,
    /// `inactive_file`, `active_file`, `inactive_anon`, `active_anon`, `kswapd_cpu`,
    /// `flusher_active`, `write_throughput`, `read_throughput`, `queue`, … and what programs say of
    /// themselves (`work_rate`, `alloc_stall_rate`).
    pub name: String,
    /// The zone ("Normal", or "node1/Normal" with several nodes), device or `global`.
    pub scope: String,
    /// Unit of the values: `pages`, `MB/s`, `share`.
    #[serde(deserialize_with = "name")]
    pub unit: Name,
    /// One value a sample.
    pub values: Vec<f64>,
}

/// Time series sampled at a fixed interval of simulated time.
#[derive(Debug, Clone, PartialEq, Serialize, Default, Deserialize)]
pub struct Series {
    /// Sample times in seconds since the start of the workload.
    pub t: Vec<f64>,
    /// The columns, each as long as `t`.
    pub columns: Vec<Column>,
}

/// Allocation latency split by what the allocation went through (nanoseconds).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct AllocLatency {
    /// Name ("fast", "kswapd-woken", "direct-reclaim", …) and histogram of each
    /// [`AllocClass`](crate::latency::AllocClass) that occurred.
    #[serde(with = "histograms")]
    pub paths: Vec<(Name, Histogram<u64>)>,
    /// The slowest, with what the machine was doing meanwhile; slowest first. Only those that left
    /// the fast path are recorded.
    pub slowest: Vec<SlowAlloc>,
}

/// What the page tracker saw (docs/reference/workloads.md#page-tracker).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default, Deserialize)]
pub struct TrackerReport {
    /// One row per (instantiating path, later path, what it did), in a fixed order.
    pub rows: Vec<TrackerRow>,
}

/// One row of the tracker's report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackerRow {
    /// The path that instantiated the pages.
    #[serde(deserialize_with = "name")]
    pub instantiated_by: Name,
    /// The later path.
    #[serde(deserialize_with = "name")]
    pub path: Name,
    /// `dirtied` or `activated`.
    #[serde(deserialize_with = "name")]
    pub event: Name,
    /// How often.
    pub count: u64,
}

/// Which world a run took place in: by its names counters go, and it decides what a run can't tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The engine on the virtual world, which tells everything.
    #[default]
    Engine,
    /// A real Linux in virtual time: it tells what its /proc, its tracepoints and the programs tell.
    Kernel,
}

/// Everything that one run produced. What its world does not tell is `None` or empty, as each field says,
/// and never 0.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunResult {
    /// Where. Logs of before there were real kernels do not say it.
    #[serde(default)]
    pub origin: Origin,
    /// How it ended.
    pub outcome: Outcome,
    /// Workload metrics: `elapsed` (s), and those of the program itself.
    pub metrics: BTreeMap<String, Metric>,
    /// vmstat counters at the end minus those at the start of the workload, by the names of
    /// docs/reference/counters-and-traces.md, or of the real kernel's /proc/vmstat. A name that is absent
    /// is one that nobody counts.
    pub counters: BTreeMap<String, u64>,
    /// Sums over reclaim's trace events, kept by the engine whether or not anybody traced; `None`: a
    /// kernel whose events nobody read.
    pub reclaim: Option<ReclaimSums>,
    /// Where the tasks' time went, one sum a class of tasks; empty: nobody tells.
    pub tasks: Vec<TaskTime>,
    /// What tasks waited on, and who stood behind whom; `None`: nobody tells.
    pub waits: Option<WaitSums>,
    /// Bytes that the workload's programs read from files, wrote to files and touched in mappings,
    /// a page a touch: what they got done, whichever programs they are.
    pub moved: u64,
    /// Time series, empty unless sampled.
    pub series: Series,
    /// Latency of every page allocation of the workload's tasks; without a path: nobody tells, or there was
    /// no allocation.
    pub alloc_latency: AllocLatency,
    /// The watermarks to start with next time: under `watermarks = "auto"` the highest that anything
    /// raised them to, otherwise those in force. `None`: nobody tells.
    pub watermarks: Option<mm::policy::WatermarkProfile>,
    /// The page tracker's report, when it was on.
    pub tracker: Option<TrackerReport>,
    /// Simulated nanoseconds from boot to the end.
    pub sim_ns: u64,
    /// Anything a reader must know (lost dirty data, device errors), one sentence each.
    pub notes: Vec<String>,
    /// A digest of the complete event history: equal for equal runs.
    pub digest: u64,
}

impl RunResult {
    /// What a kernel's run has told that has told nothing yet but how it ended.
    pub fn of_kernel(outcome: Outcome) -> Self {
        Self {
            origin: Origin::Kernel,
            outcome,
            metrics: BTreeMap::new(),
            counters: BTreeMap::new(),
            reclaim: None,
            tasks: Vec::new(),
            waits: None,
            moved: 0,
            series: Series::default(),
            alloc_latency: AllocLatency::default(),
            watermarks: None,
            tracker: None,
            sim_ns: 0,
            notes: Vec::new(),
            digest: 0,
        }
    }
}
