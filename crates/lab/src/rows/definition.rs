//! The rows of mm reports: a table for each block of what each is, how it is computed and what it says
//! (docs/reference/counters-and-traces.md).
//!
//! A row's name is the `metric` of the published tables where they have it. What the engine, or a real
//! kernel, does not produce is [`Reading::Unsupported`] with the reason and never 0.

mod congestion;
mod duration;
mod formula;
mod fs_mark;
mod vmscan;
mod vmstat;

use crate::model::Better;
use sim::RunResult;

/// The block of a report that a row stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Block {
    /// fs_mark's figures.
    FsMark,
    /// Durations of the test.
    Duration,
    /// Deltas of /proc/vmstat, and what is derived from them.
    Vmstat,
    /// Sums over vmscan's trace events.
    Vmscan,
    /// Sums over congestion waits.
    Congestion,
}

impl Block {
    /// Every block, in reporting order.
    pub const ALL: [Self; 5] = [
        Self::FsMark,
        Self::Duration,
        Self::Vmstat,
        Self::Vmscan,
        Self::Congestion,
    ];

    /// The heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::FsMark => "FS-Mark",
            Self::Duration => "MMTests Statistics: duration",
            Self::Vmstat => "MMTests Statistics: vmstat",
            Self::Vmscan => "FTrace Reclaim Statistics: vmscan",
            Self::Congestion => "FTrace Reclaim Statistics: congestion_wait",
        }
    }
}

/// What a run has for a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reading {
    /// This.
    Is(f64),
    /// Nothing: the engine, or the real kernel that ran, does not produce it, for this reason.
    Unsupported(&'static str),
    /// Nothing: this workload or machine has no such thing.
    Absent,
}

/// One row.
#[derive(Debug, Clone, Copy)]
pub struct ReportRow {
    /// `block: label`, the `metric` of the published tables.
    pub name: &'static str,
    /// Other names of the same figure.
    pub also: &'static [&'static str],
    /// Where it stands.
    pub block: Block,
    /// How it is computed.
    pub formula: &'static str,
    /// The unit.
    pub unit: &'static str,
    /// Digits after the point.
    pub decimals: usize,
    /// The kernels whose reports have it.
    pub kernels: &'static str,
    /// Which way is good.
    pub better: Better,
    /// What a high value means.
    pub high: &'static str,
    /// Rows and counters to look at with it.
    pub related: &'static [&'static str],
    /// The value in one run.
    pub value: fn(&RunResult) -> Reading,
}

impl ReportRow {
    /// The name without its block.
    pub fn label(&self) -> &'static str {
        self.name.split_once(": ").map_or(self.name, |(_, l)| l)
    }
}

/// Every row, block by block in reporting order.
pub fn rows() -> impl Iterator<Item = &'static ReportRow> {
    let blocks = [
        fs_mark::ROWS,
        duration::ROWS,
        vmstat::ROWS,
        vmscan::ROWS,
        congestion::ROWS,
    ];
    blocks.into_iter().flatten()
}

/// The row of a name, or of another name of the same figure.
pub fn row(name: &str) -> Option<&'static ReportRow> {
    rows().find(|r| r.name == name || r.also.contains(&name))
}
