//! Reports in the rows that mm developers quote to each other: MMTests' blocks of workload, vmstat,
//! vmscan trace events and congestion waits, policy against policy.
//!
//! [`definition`] has the definition of each row; no other module names single rows. To add a row,
//! add its entry to the table of its block.

pub mod definition;
pub mod explain;
pub mod glossary;
pub mod mail;
mod text;
pub mod time;

pub use definition::{Block, Reading, ReportRow};
pub use time::{COLUMNS as TIME_COLUMNS, columns as time_columns, mean_columns, time_text};

use crate::figures::claim::is_claimed;
use crate::figures::stats;
use crate::figures::values;
use crate::model::{Better, Cell, Figure, Outcomes};
use serde::Serialize;
use sim::RunResult;
use std::collections::BTreeMap;

/// One row of one policy.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct RowCell {
    /// The policy's name.
    pub policy: String,
    /// The value of every completed iteration.
    pub values: Vec<f64>,
    /// The mean of the values; `None` if there are none.
    pub mean: Option<f64>,
    /// The standard deviation of the values, population form.
    pub stddev: Option<f64>,
    /// Interval of the mean by Student's t, at 95 %; `None` below two iterations.
    pub interval: Option<(f64, f64)>,
    /// Change against the baseline in per cent, as the reports of 2011 compute it
    /// ([`change_2011`]).
    pub change_percent: Option<f64>,
    /// Mann-Whitney p-value against the baseline.
    pub p: Option<f64>,
    /// True if a difference can be claimed.
    pub significant: bool,
    /// The reason why there is no value, if the engine or the real kernel does not produce it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsupported: Option<&'static str>,
}

/// One row of a group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedRow {
    /// The row's name; the metric's name for a figure of the workload that is no defined row.
    pub name: String,
    /// The name without its block.
    pub label: String,
    /// The block's heading.
    pub block: &'static str,
    /// The unit.
    pub unit: String,
    /// The direction in which it gets better.
    pub better: Better,
    /// Digits after the point, by the row's definition.
    #[serde(skip)]
    pub decimals: usize,
    /// Digits after the point of the means as text: `decimals`, but 1 where that is 0 and a mean of
    /// whole numbers is a fraction.
    #[serde(skip)]
    pub mean_decimals: usize,
    /// The values of each policy, the baseline first.
    pub cells: Vec<RowCell>,
}

/// The rows of one combination of axes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// The label of the combination.
    pub group: String,
    /// The rows, block by block.
    pub rows: Vec<ComparedRow>,
    /// The figures that the experiment asks for, as rows; they include counters and words that no
    /// block has.
    #[serde(skip)]
    pub asked: Vec<ComparedRow>,
}

/// The place of each cell of an experiment in its report rows: every row of a group has a column
/// for each of the group's cells, in one order.
pub struct Columns<'a> {
    groups: &'a [Group],
    /// By group and policy: the group's index, and the column's in each of the group's rows.
    of_cell: BTreeMap<(&'a str, &'a str), (usize, usize)>,
}

impl<'a> Columns<'a> {
    /// Finds the column of each cell of `groups`; of cells with one name the first counts.
    pub fn new(groups: &'a [Group]) -> Self {
        let mut of_cell = BTreeMap::new();
        for (at, group) in groups.iter().enumerate() {
            let cells = group.rows.first().map_or(&[][..], |row| &row.cells);
            for (column, cell) in cells.iter().enumerate() {
                let key = (&group.group[..], &cell.policy[..]);
                of_cell.entry(key).or_insert((at, column));
            }
        }
        Self { groups, of_cell }
    }

    /// Yields the rows of a cell's group, each with the cell's column; nothing if the group has no
    /// rows.
    pub fn of(&self, cell: &Cell) -> impl Iterator<Item = (&'a ComparedRow, &'a RowCell)> {
        let (group, policy) = (cell.group(), cell.said());
        let (rows, column) = match self.of_cell.get(&(&group[..], &policy[..])) {
            Some(&(at, column)) => (&self.groups[at].rows[..], column),
            None => (&[][..], 0),
        };
        rows.iter().map(move |row| (row, &row.cells[column]))
    }
}

/// The heading of the figures that the experiment asks for.
const ASKED: &str = "Asked for";

/// The heading of the workload's other figures.
const WORKLOAD: &str = "Workload";

/// Returns the change of a figure from `base` to `new` in per cent, as MMTests' reports of 2011
/// compute it: `100 (new - base) / new`, with the sign flipped where lower is better, so that a
/// gain is positive (docs/reference/counters-and-traces.md#percentages). The denominator is the new
/// value: `None` if that is 0 and the base is not.
pub fn change_2011(base: f64, new: f64, better: Better) -> Option<f64> {
    let sign = if better == Better::Lower { -1.0 } else { 1.0 };
    if new == base {
        Some(0.0)
    } else if new == 0.0 {
        None
    } else {
        Some(sign * 100.0 * (new - base) / new)
    }
}

/// Returns the results of those iterations of a cell that ran to their end; `None` in `results` is
/// an iteration without a result.
pub fn completed(results: &[Option<RunResult>]) -> Vec<&RunResult> {
    values::completed(results).collect()
}

/// Returns the value of the report row called `name` (any of its names) in each completed iteration
/// of a cell, in the row's unit.
///
/// # Errors
/// Returns the reason why there are none.
pub fn values(results: &[Option<RunResult>], name: &str) -> Result<Vec<f64>, String> {
    let row = definition::row(name).ok_or_else(|| format!("no row `{name}`"))?;
    let mut out = Vec::new();
    for r in completed(results) {
        match (row.value)(r) {
            Reading::Is(x) => out.push(x),
            Reading::Unsupported(why) => return Err(why.into()),
            Reading::Absent => return Err(format!("the workload does not report `{name}`")),
        }
    }
    Ok(out)
}

/// Builds the description (name, unit, better direction) of a workload metric or counter that is no
/// defined report row and that the glossary does not explain.
pub fn workload_figure(name: &str, unit: &'static str) -> Figure {
    Figure {
        name: name.to_owned(),
        unit,
        better: better(name, unit),
    }
}

/// Returns the description of the figure called `name`, with its unit and the direction in which it
/// gets better, so that any figure of a run can be compared: a column of task time
/// (`kswapd:device`), a defined report row, or a word of the glossary.
///
/// # Errors
/// Returns the reason why there is none of this name.
pub fn figure(name: &str) -> Result<Figure, String> {
    if let Some((_, at)) = time::task_column(name) {
        return Ok(Figure {
            name: name.to_owned(),
            unit: "s",
            better: time::task_better(at),
        });
    }
    // Figures of one of several filesystems end with its mount point, those of one of several
    // instances of a program with the instance.
    let word = match workload::report::without_instance(name) {
        Some(word) => word,
        None => name.split_once(":/").map_or(name, |(word, _)| word),
    };
    let known = match definition::row(name) {
        Some(row) => Some((row.unit, row.better)),
        None => explain::explain(word)
            .map_err(|near| {
                let near = near
                    .first()
                    .map_or(String::new(), |n| format!(", but `{n}`"));
                format!("nothing is called `{name}`{near}")
            })?
            .into_iter()
            .find_map(|e| match e {
                explain::Entry::Row(_) => None,
                explain::Entry::Word(w) => Some((w.unit, better(word, w.unit))),
                explain::Entry::Switch(_) | explain::Entry::Preset(_) => None,
            }),
    };
    let (unit, better) = known.ok_or_else(|| format!("`{name}` is not a single figure"))?;
    Ok(Figure {
        name: name.to_owned(),
        unit,
        better,
    })
}

/// Returns the figure's value in each completed iteration that has one: of the defined report row
/// of this name, or else of the run itself (`figure_of`).
pub fn figure_values(results: &[Option<RunResult>], name: &str) -> Vec<f64> {
    if definition::row(name).is_some() {
        return values(results, name).unwrap_or_default();
    }
    completed(results)
        .into_iter()
        .filter_map(|r| figure_of(r, name))
        .collect()
}

/// Returns a run's value of a figure that is no defined report row: of a column of task time
/// (`kswapd:device`, in seconds), or of a metric or counter. `None`: the run does not have it.
fn figure_of(r: &RunResult, name: &str) -> Option<f64> {
    match time::task_column(name) {
        Some(column) => time::task_value(r, column),
        None => values::of_run(r, name),
    }
}

/// Returns the report rows of an experiment, group by group in the order of its matrix. A cell is
/// one combination of the matrix's axes (policy, filesystem, …); a group holds the cells that
/// differ only in the compared policy, the baseline first.
pub fn groups(outcomes: &Outcomes) -> Vec<Group> {
    let cells = &outcomes.experiment.cells;
    type Members<'a> = Vec<(&'a Cell, Vec<&'a RunResult>)>;
    let mut in_order: Vec<(String, Members<'_>)> = Vec::new();
    let mut place_of: BTreeMap<String, usize> = BTreeMap::new();
    for (cell, results) in cells.iter().zip(&outcomes.results) {
        let group = cell.group();
        let place = *place_of.entry(group.clone()).or_insert(in_order.len());
        if place == in_order.len() {
            in_order.push((group, Vec::new()));
        }
        // Cells of one group may be apart in the matrix.
        in_order[place].1.push((cell, completed(results)));
    }
    in_order
        .into_iter()
        .map(|(group, mut members)| {
            members.sort_by_key(|(c, _)| !c.baseline);
            let asked = outcomes.experiment.figures.iter();
            Group {
                rows: lines(&members),
                asked: asked.map(|figure| self::asked(figure, &members)).collect(),
                group,
            }
        })
        .collect()
}

/// Computes the report rows of a group in reporting order: fs_mark's block, then the workload's
/// other figures, then the other blocks. `members` has each cell of the group with its completed
/// runs, the baseline first.
fn lines(members: &[(&Cell, Vec<&RunResult>)]) -> Vec<ComparedRow> {
    let of_block = |block: Block| {
        definition::rows()
            .filter(move |r| r.block == block)
            .filter_map(|row| defined(row, members))
    };
    let mut out: Vec<ComparedRow> = of_block(Block::FsMark).collect();
    out.extend(workload(members));
    for block in &Block::ALL[1..] {
        out.extend(of_block(*block));
    }
    out
}

/// Computes one defined report row: a column of values for each cell of the group (`members`: the
/// cell and its completed runs), with statistics. Returns `None` if no run has a value, nor a
/// reason why it is unsupported.
fn defined(row: &'static ReportRow, members: &[(&Cell, Vec<&RunResult>)]) -> Option<ComparedRow> {
    let mut any = false;
    let cells = members
        .iter()
        .map(|(cell, runs)| {
            let mut out = RowCell {
                policy: cell.said(),
                ..RowCell::default()
            };
            for r in runs {
                match (row.value)(r) {
                    Reading::Is(x) => out.values.push(x),
                    Reading::Unsupported(why) => out.unsupported = Some(why),
                    Reading::Absent => {}
                }
            }
            any |= !out.values.is_empty() || out.unsupported.is_some();
            out
        })
        .collect();
    any.then(|| {
        let line = ComparedRow {
            name: row.name.into(),
            label: row.label().into(),
            block: row.block.title(),
            unit: row.unit.into(),
            better: row.better,
            decimals: row.decimals,
            mean_decimals: 0,
            cells,
        };
        compared(line, members)
    })
}

/// Computes the row of a figure that the experiment asks for, under the heading `ASKED`: from the
/// defined report row of that name, or else from the runs' own figures. The row has no values if no
/// run has the figure. `members`: each cell of the group with its completed runs.
fn asked(figure: &Figure, members: &[(&Cell, Vec<&RunResult>)]) -> ComparedRow {
    let row = definition::row(&figure.name).and_then(|row| defined(row, members));
    let mut line = row.unwrap_or_else(|| {
        let cell = |(cell, runs): &(&Cell, Vec<&RunResult>)| RowCell {
            policy: cell.said(),
            values: runs
                .iter()
                .filter_map(|r| figure_of(r, &figure.name))
                .collect(),
            ..RowCell::default()
        };
        let line = ComparedRow {
            name: figure.name.clone(),
            label: String::new(),
            block: ASKED,
            unit: figure.unit.into(),
            better: figure.better,
            decimals: if figure.unit == "s" { 2 } else { 0 },
            mean_decimals: 0,
            cells: members.iter().map(cell).collect(),
        };
        compared(line, members)
    });
    line.label = figure.name.clone();
    line.block = ASKED;
    line
}

/// Computes a row for each workload figure in `members` (cells with their completed runs) that is
/// no defined report row, sorted by name.
fn workload(members: &[(&Cell, Vec<&RunResult>)]) -> Vec<ComparedRow> {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, m) in members.iter().flat_map(|m| &m.1).flat_map(|r| &r.metrics) {
        if definition::row(name).is_none() {
            names.entry(name).or_insert(m.unit);
        }
    }
    names
        .into_iter()
        .map(|(name, unit)| {
            let cells = members
                .iter()
                .map(|(cell, runs)| RowCell {
                    policy: cell.said(),
                    values: runs
                        .iter()
                        .filter_map(|r| r.metrics.get(name).map(|m| m.value))
                        .collect(),
                    ..RowCell::default()
                })
                .collect();
            let line = ComparedRow {
                name: name.into(),
                label: name.into(),
                block: WORKLOAD,
                unit: unit.into(),
                better: better(name, unit),
                decimals: 2,
                mean_decimals: 0,
                cells,
            };
            compared(line, members)
        })
        .collect()
}

/// A figure of the simulated world of which less is better, contrary to its unit. Programs declare
/// this for their own figures.
const HARM: &str = "inode_reclaim_lumpiness";

/// Returns the direction in which a workload's figure that is no defined row gets better: lower for
/// times and for figures declared harmful, higher for shares and rates, neither for others.
fn better(name: &str, unit: &str) -> Better {
    match unit {
        _ if name.starts_with("group.") && name.ends_with(".first_kill") => Better::Higher,
        _ if name.contains(HARM) || harms(name) => Better::Lower,
        "s" | "ms" | "us" | "ns" => Better::Lower,
        "share" => Better::Higher,
        _ if unit.ends_with("/s") => Better::Higher,
        _ => Better::Neither,
    }
}

/// Returns true if more of this figure is worse: by a program's declaration, or as a memory control
/// group's kills and its events at a limit.
fn harms(name: &str) -> bool {
    let of_group = name.strip_prefix("group.").unwrap_or("");
    if of_group.contains(".oom") || of_group.contains(".events_") {
        return true;
    }
    let mut harmful = workload::programs::metrics().filter(|m| m.harmful);
    harmful.any(|m| name.contains(m.name))
}

/// Returns the digits to print after the point for a row's means: those of its definition, but 1 if
/// it has none and a mean of whole numbers is a fraction.
fn mean_decimals(line: &ComparedRow) -> usize {
    let mut means = line.cells.iter().filter_map(|c| c.mean);
    match line.decimals {
        0 => usize::from(means.any(|m| m.fract() != 0.0)),
        digits => digits,
    }
}

/// Fills in the statistics of each cell of a row from its values: mean, standard deviation,
/// interval, and against the baseline the change in per cent and the Mann-Whitney p-value; and in
/// the row the digits of its means.
/// `members` are the cells in the order of the row's; without a baseline among them nothing is
/// compared.
fn compared(mut line: ComparedRow, members: &[(&Cell, Vec<&RunResult>)]) -> ComparedRow {
    for cell in &mut line.cells {
        let Some(s) = stats::summary(&cell.values) else {
            continue;
        };
        let squares: f64 = cell.values.iter().map(|x| (x - s.mean).powi(2)).sum();
        cell.stddev = Some((squares / s.n as f64).sqrt());
        cell.mean = Some(s.mean);
        cell.interval = s.mean_interval;
    }
    line.mean_decimals = mean_decimals(&line);
    let Some(base) = line
        .cells
        .iter()
        .zip(members)
        .find(|(_, (c, _))| c.baseline)
        .map(|(cell, _)| cell.clone())
    else {
        return line;
    };
    let better = line.better;
    for (cell, (member, _)) in line.cells.iter_mut().zip(members) {
        let (Some(old), Some(new)) = (base.mean, cell.mean) else {
            continue;
        };
        cell.change_percent = change_2011(old, new, better);
        if !member.baseline {
            let p = stats::mann_whitney(&cell.values, &base.values);
            cell.p = Some(p);
            let interval = || stats::change_interval(&cell.values, &base.values, &stats::mean_of);
            cell.significant = is_claimed(p, new / old - 1.0, interval);
        }
    }
    line
}

pub use text::{answers, mean_text, to_text};

#[cfg(test)]
mod tests;
