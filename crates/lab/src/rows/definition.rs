//! The rows of mm reports: a table for each block with each row's name, formula and meaning
//! (docs/reference/counters-and-traces.md).
//!
//! A row's name is the `metric` of the published tables if they have the row. Figures that the
//! engine, or a real kernel, does not produce are [`Reading::Unsupported`] with the reason and
//! never 0.

mod congestion;
mod duration;
mod formula;
mod fs_mark;
mod vmscan;
mod vmstat;

use crate::model::Better;
use sim::RunResult;

/// The block of a report that a row belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Block {
    /// fs_mark's figures.
    FsMark,
    /// Durations of the test.
    Duration,
    /// Differences of /proc/vmstat, and figures derived from them.
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

    /// Returns the heading of the block, as reports of MMTests have it.
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

/// The value that a run has for a row, or the reason why it has none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reading {
    /// The value.
    Is(f64),
    /// The engine, or the real kernel that ran, does not produce the figure, for this reason.
    Unsupported(&'static str),
    /// The workload or machine has no such figure.
    Absent,
}

/// The definition of one row.
#[derive(Debug, Clone, Copy)]
pub struct ReportRow {
    /// `block: label`, the `metric` of the published tables.
    pub name: &'static str,
    /// Other names of the row.
    pub also: &'static [&'static str],
    /// The block it belongs to.
    pub block: Block,
    /// The formula in words.
    pub formula: &'static str,
    /// The unit.
    pub unit: &'static str,
    /// Digits after the point.
    pub decimals: usize,
    /// The kernels whose reports have the row.
    pub kernels: &'static str,
    /// The direction in which it gets better.
    pub better: Better,
    /// The meaning of a high value.
    pub high: &'static str,
    /// Rows and counters that should be looked at together with it.
    pub related: &'static [&'static str],
    /// Computes the value in one run.
    pub value: fn(&RunResult) -> Reading,
}

impl ReportRow {
    /// Returns the name without its block.
    pub fn label(&self) -> &'static str {
        self.name.split_once(": ").map_or(self.name, |(_, l)| l)
    }
}

/// Yields the definition of every report row, block by block in reporting order.
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

/// Finds the definition of a report row by any of its names; `None` if no row has the name.
pub fn row(name: &str) -> Option<&'static ReportRow> {
    rows().find(|r| r.name == name || r.also.contains(&name))
}
