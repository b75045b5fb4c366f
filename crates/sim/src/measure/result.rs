//! The result of a run.

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
    /// No memory could be reclaimed for an allocation: processes were killed and the others ran to
    /// the workload's end, or no process could be killed and the run ended there. Such a run did
    /// different work from one that completed, so its figures do not compare.
    Oom {
        /// The first line says which process was killed and when, or why none was; the kernel's
        /// report follows.
        report: String,
    },
    /// The workload got an error from its host.
    Failed {
        /// The error.
        error: String,
    },
    /// The time limit of the run was reached.
    TimeLimit,
    /// The user interrupted the run.
    Interrupted,
}

impl Outcome {
    /// Returns a text on how a run ended, for reports; `None` if it completed.
    pub fn ending(&self) -> Option<String> {
        match self {
            Self::Completed => None,
            Self::Oom { report } => Some(format!("out of memory: {}", Self::oom_headline(report))),
            Self::Failed { error } => Some(error.clone()),
            Self::TimeLimit => Some("the time limit was reached".into()),
            Self::Interrupted => Some("interrupted".into()),
        }
    }

    /// Returns the first line of the report of a run that ran out of memory.
    pub fn oom_headline(report: &str) -> &str {
        report.lines().next().unwrap_or_default()
    }
}

/// A measured figure with its unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Unit of the value: "s", "MB/s", "pages", …
    #[serde(deserialize_with = "name")]
    pub unit: Name,
    /// The value.
    pub value: f64,
}

/// One column of a time series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// The quantity: `free`, `min`, `low`, `high`, `dirty`, `writeback`, `dirty_limit`,
    /// `inactive_file`, `active_file`, `inactive_anon`, `active_anon`, `kswapd_cpu`,
    /// `flusher_active`, `write_throughput`, `read_throughput`, `queue`, … and series that programs
    /// report (`work_rate`, `alloc_stall_rate`).
    pub name: String,
    /// The zone ("Normal", or "node1/Normal" with several nodes), device or `global`.
    pub scope: String,
    /// Unit of the values: `pages`, `MB/s`, `share`.
    #[serde(deserialize_with = "name")]
    pub unit: Name,
    /// One value per sample.
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
    /// The slowest allocations, with the state of the machine meanwhile; slowest first. Only those
    /// that left the fast path are recorded.
    pub slowest: Vec<SlowAlloc>,
}

/// The counts of the page tracker (docs/reference/workloads.md#page-tracker).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default, Deserialize)]
pub struct TrackerReport {
    /// One row for each instantiating path, later path and event, in a fixed order.
    pub rows: Vec<TrackerRow>,
}

/// One row of the tracker's report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackerRow {
    /// The path that instantiated the pages.
    #[serde(deserialize_with = "name")]
    pub instantiated_by: Name,
    /// The later path, which dirtied or activated them.
    #[serde(deserialize_with = "name")]
    pub path: Name,
    /// `dirtied` or `activated`.
    #[serde(deserialize_with = "name")]
    pub event: Name,
    /// Number of times.
    pub count: u64,
}

/// The world in which a run took place: it sets the names of counters and which figures are
/// unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The engine on the virtual world, which reports everything.
    #[default]
    Engine,
    /// A real Linux in virtual time, which reports what its /proc, its tracepoints and the programs
    /// do.
    Kernel,
}

/// Everything that one run produced. A figure that its world does not report is `None` or empty, as
/// each field says, and never 0.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunResult {
    /// The world of the run. Logs from before there were real kernels lack this field.
    #[serde(default)]
    pub origin: Origin,
    /// How the run ended.
    pub outcome: Outcome,
    /// Workload metrics: `elapsed` (s), and those of the program itself.
    pub metrics: BTreeMap<String, Metric>,
    /// vmstat counters at the end minus those at the start of the workload, by the names of
    /// docs/reference/counters-and-traces.md, or of the real kernel's /proc/vmstat. An absent name
    /// means that the world has no such counter.
    pub counters: BTreeMap<String, u64>,
    /// Sums over reclaim's trace events, kept by the engine whether or not there is a trace;
    /// `None`: a kernel whose events were not read.
    pub reclaim: Option<ReclaimSums>,
    /// Where the tasks' time went, one sum per class of tasks; empty: unknown.
    pub tasks: Vec<TaskTime>,
    /// Waits of tasks by object, and by which task they stood behind; `None`: unknown.
    pub waits: Option<WaitSums>,
    /// Bytes that the workload's programs read from files, wrote to files and touched in mappings
    /// (a page a touch): the work done, comparable between programs.
    pub moved: u64,
    /// Time series; empty unless sampled.
    pub series: Series,
    /// Latency of every page allocation of the workload's tasks; without paths: unknown, or there
    /// was no allocation.
    pub alloc_latency: AllocLatency,
    /// The watermarks to start with next time: under `watermarks = "auto"` the highest that they
    /// were raised to, otherwise those in force. `None`: unknown.
    pub watermarks: Option<mm::policy::WatermarkProfile>,
    /// The page tracker's report, if the tracker was on.
    pub tracker: Option<TrackerReport>,
    /// Simulated nanoseconds from boot to the end.
    pub sim_ns: u64,
    /// Anything a reader must know (lost dirty data, device errors), one sentence each.
    pub notes: Vec<String>,
    /// The kernel's reports of processes that it killed for memory in a run that went on; empty if
    /// there were none, or the run ended so (see its outcome).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kills: String,
    /// A digest of the complete event history: equal for equal runs.
    pub digest: u64,
}

impl RunResult {
    /// Returns the result of a real kernel's run of which nothing but the outcome is known yet; the
    /// caller fills in the figures that the kernel gives.
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
            kills: String::new(),
            digest: 0,
        }
    }
}
