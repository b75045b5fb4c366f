//! Finds what stands out in measured figures: stalls, pressure, dirty pages, rows of mm reports.

use super::escape;
use crate::model::{Better, Outcomes};
use crate::rows::{self, Block, Reading};
use sim::result::Column;
use sim::{Origin, RunResult};
use std::fmt::Write;

/// The text where nothing stands out.
pub const NOTHING: &str = "nothing stands out: no row of which less is better has anything";

/// A figure of a measurement that stands out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The figure's name, as rows and tables have it.
    pub name: String,
    /// Its value with the unit.
    pub value: String,
    /// The meaning of a high value.
    pub meaning: String,
}

impl Found {
    /// Makes a finding of the figure's name, its value with the unit, and its meaning.
    fn new(name: &str, value: String, meaning: &str) -> Self {
        Self {
            name: name.to_owned(),
            value,
            meaning: meaning.to_owned(),
        }
    }
}

/// Returns what stands out in each measurement, with its name. Results of the engine are left out.
pub fn of_all(outcomes: &Outcomes) -> Vec<(String, Vec<Found>, &RunResult)> {
    let cells = outcomes.experiment.cells.iter().zip(&outcomes.results);
    let measured = cells.filter_map(|(cell, results)| {
        let mut results = results.iter().flatten();
        let result = results.find(|r| r.origin == Origin::Kernel)?;
        Some((cell.policy.clone(), found(result), result))
    });
    measured.collect()
}

/// Returns what an operator looks at first in a measurement, if it has it: allocation stalls, tasks
/// that waited for memory or I/O, dirty pages near the limit; then the report rows of which less is
/// better and that are not 0.
pub fn found(result: &RunResult) -> Vec<Found> {
    let rows = in_rows(result);
    let mut out = Vec::new();
    let stalls = result.counters.iter();
    let stalls = stalls.filter(|(name, _)| name.starts_with("allocstall"));
    let stalls: u64 = stalls.map(|(_, n)| n).sum();
    // The row of the tracepoint counts the same events.
    if stalls > 0 && !rows.iter().any(|f| f.name == "Direct reclaims") {
        let meaning = "allocations that had to reclaim for themselves: kswapd is late";
        out.push(Found::new("allocstall", stalls.to_string(), meaning));
    }
    out.extend(pressure(result));
    out.extend(dirty(result));
    out.extend(rows);
    out
}

/// Returns the times that tasks waited for memory, for I/O and for a CPU (pressure stall
/// information), where they are not 0; the waits for a CPU where they are a tenth of the whole
/// time, since some are there whenever anything runs.
fn pressure(result: &RunResult) -> impl Iterator<Item = Found> + '_ {
    let whole = result.metrics.get("elapsed").map_or(0.0, |m| m.value);
    let figures = [
        ("psi_memory_some", "at least one task waited for memory"),
        (
            "psi_memory_full",
            "all tasks that could run waited for memory",
        ),
        ("psi_io_some", "at least one task waited for I/O"),
        ("psi_io_full", "all tasks that could run waited for I/O"),
        ("psi_cpu_some", "at least one task waited for a CPU"),
    ];
    figures.into_iter().filter_map(move |(name, meaning)| {
        let seconds = result.metrics.get(name)?.value;
        let least = match name {
            "psi_cpu_some" => (whole / 10.0).max(0.005),
            _ => 0.005,
        };
        (seconds >= least).then(|| Found::new(name, format!("{seconds:.2} s"), meaning))
    })
}

/// Returns the most dirty pages of any sample, if there were ever so many that the kernel pauses
/// writers: more than the middle of both limits (`dirty_freerun_ceiling` in mm/page-writeback.c).
fn dirty(result: &RunResult) -> Option<Found> {
    let columns = &result.series.columns;
    let named = |name: &str| -> Option<&Column> { columns.iter().find(|c| c.name == name) };
    let (dirty, background) = (named("dirty")?, named("background_limit")?);
    let limit = named("dirty_limit")?;
    let writeback = named("writeback");
    let most = (0..dirty.values.len()).filter_map(|i| {
        let at = |c: &Column| c.values.get(i).copied();
        let pages = at(dirty)? + writeback.and_then(at).unwrap_or(0.0);
        let (limit, background) = (at(limit)?, at(background)?);
        (limit > 0.0 && pages > (limit + background) / 2.0).then_some((pages / limit, pages, limit))
    });
    let (_, pages, limit) = most.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(Found::new(
        "dirty",
        format!("{pages:.0} of {limit:.0} pages"),
        "dirty pages and those under writeback came near dirty_limit: the kernel pauses writers",
    ))
}

/// Returns the report rows of which less is better and that are not 0.
fn in_rows(result: &RunResult) -> Vec<Found> {
    let shown_blocks = [Block::Vmstat, Block::Vmscan, Block::Congestion];
    let of = |row: &rows::definition::ReportRow| {
        let Reading::Is(value) = (row.value)(result) else {
            return None;
        };
        // Efficiencies and other shares are skipped: without the amount they refer to they say
        // little.
        if value <= 0.0 || row.better != Better::Lower || !shown_blocks.contains(&row.block) {
            return None;
        }
        let unit = match row.unit {
            "" => String::new(),
            _ if row.label().ends_with("(seconds)") => String::new(),
            unit => format!(" {unit}"),
        };
        let value = format!("{value:.*}{unit}", row.decimals);
        Some(Found::new(row.label(), value, row.high))
    };
    rows::definition::rows().filter_map(of).collect()
}

/// Returns the findings on each measurement as HTML, under a line that counts them.
pub(super) fn section(measured: &[(String, Vec<Found>)]) -> String {
    let mut out = String::new();
    for (name, found) in measured {
        let count = match found.len() {
            0 => NOTHING.to_owned(),
            1 => "1 figure stands out".to_owned(),
            n => format!("{n} figures stand out"),
        };
        let name = escape::html(name);
        let _ = write!(
            out,
            "<p class=\"answer\">{name}: {count}</p><ul class=\"findings\">"
        );
        for f in found {
            let _ = write!(
                out,
                "<li class=\"unclear\"><span class=\"place\">{}</span><span class=\"claim\">{}</span>\
                 <span class=\"evidence\">{}</span></li>",
                escape::html(&f.name),
                escape::html(&f.value),
                escape::html(&f.meaning)
            );
        }
        out.push_str("</ul>");
    }
    out
}
