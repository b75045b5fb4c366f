//! Reproduction: published cells against the engine's, scored by the rules of
//! `data/published/README.md`.

use crate::diagnostic::{Diagnostic, Source};
use crate::experiment::{self, Overrides};
use crate::figures::stats;
use crate::figures::values::{counter, metric};
use crate::model::{Cell, Experiment, Outcomes};
use crate::published::{Direction, Row, Tolerance};
use comfy_table::{Cell as TableCell, CellAlignment, Table, presets};
use serde_json::{Value, json};
use sim::RunResult;
use sim::account::{TaskClass, TaskTime};
use std::fmt::Write as _;

/// A series of published results.
#[derive(Debug, Clone, Copy)]
pub struct Series {
    /// Its name in the tables.
    pub name: &'static str,
    /// The policy that its other policies are compared with.
    pub baseline: &'static str,
    /// Its experiments, each by its file's name and text; empty as long as there are none.
    pub experiments: &'static [(&'static str, &'static str)],
}

macro_rules! file {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../", $name)))
    };
}

/// The series.
pub const SERIES: [Series; 5] = [
    Series {
        name: "writeback-from-reclaim",
        baseline: "vanilla",
        experiments: &[
            file!("experiments/writeback-from-reclaim/fsmark-512M.toml"),
            file!("experiments/writeback-from-reclaim/mmap-strm-512M.toml"),
            file!("experiments/writeback-from-reclaim/fsmark-512M-monitors.toml"),
            file!("experiments/writeback-from-reclaim/mmap-strm-512M-monitors.toml"),
            file!("experiments/writeback-from-reclaim/fsmark-4096M8N.toml"),
            file!("experiments/writeback-from-reclaim/mmap-strm-4096M8N.toml"),
        ],
    },
    Series {
        name: "per-zone-dirty-limits",
        baseline: "vanilla",
        experiments: &[file!("experiments/usb-stick.toml")],
    },
    Series {
        name: "tunable-watermarks",
        baseline: "default",
        experiments: &[file!("experiments/tunable-watermarks.toml")],
    },
    Series {
        name: "sequential-read",
        baseline: "3.16-vanilla",
        experiments: &[file!("experiments/sequential-read.toml")],
    },
    Series {
        name: "xfs-inode-reclaim",
        baseline: "vanilla",
        experiments: &[file!("experiments/xfs-inode-reclaim.toml")],
    },
];

/// Files that the experiments name, for a binary far from its sources.
pub const FILES: [(&str, &str); 9] = [
    file!("machines/2G.toml"),
    file!("machines/3765M.toml"),
    file!("machines/512M.toml"),
    file!("machines/4096M8N.toml"),
    file!("policies/tunable-watermarks.toml"),
    file!("policies/writeback-from-reclaim.toml"),
    file!("machines/desktop.toml"),
    file!("policies/sequential-read.toml"),
    file!("machines/simoop.toml"),
];

/// A row with what the engine gave.
#[derive(Debug, Clone)]
pub struct Scored {
    /// The published row.
    pub row: Row,
    /// The engine's value.
    pub measured: Option<f64>,
    /// Within its tolerance; `false` for a row that is not scored.
    pub within: bool,
    /// Whether the direction agrees; `None` where none is published.
    pub agrees: Option<bool>,
    /// Why there is no value.
    pub unsupported: Option<String>,
}

/// How many, of how many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Score {
    /// Scored cells.
    pub cells: usize,
    /// Within tolerance.
    pub within: usize,
}

/// Whether a value is within a tolerance. `baselines`: published and measured baseline, for
/// `ratio`.
pub fn within(row: &Row, e: f64, baselines: Option<(f64, f64)>) -> bool {
    let p = row.value;
    match row.tolerance {
        Tolerance::Rel(x) => (e - p).abs() <= (x * p.abs()).max(2.0 * row.stddev.unwrap_or(0.0)),
        Tolerance::Abs(x) => (e - p).abs() <= x,
        Tolerance::Zero(x) => e <= x,
        Tolerance::Factor(k, floor) => {
            let (e, p) = (e.max(floor), p.max(floor));
            if e == 0.0 || p == 0.0 {
                e == p
            } else {
                (1.0 / k..=k).contains(&(e / p))
            }
        }
        Tolerance::Ratio(k) => baselines.is_some_and(|(pb, eb)| {
            if pb == 0.0 || eb == 0.0 || p == 0.0 {
                return e * pb == p * eb;
            }
            (1.0 / k..=k).contains(&((e / eb) / (p / pb)))
        }),
        Tolerance::None => false,
    }
}

/// Whether a change has the published sign and at least a quarter of the published relative size.
/// From a baseline of 0 every change is infinitely large, so the sign alone decides.
pub fn agrees(direction: Direction, published: (f64, f64), measured: (f64, f64)) -> bool {
    let ((pb, p), (eb, e)) = (published, measured);
    let sign = match direction {
        Direction::Up => e > eb,
        Direction::Down => e < eb,
    };
    if !sign || eb == 0.0 || pb == 0.0 {
        return sign;
    }
    ((e - eb) / eb).abs() >= 0.25 * ((p - pb) / pb).abs()
}

/// The threads of a row that stands for a program run with each number of threads in turn.
const ALL_THREADS: &str = "all";

/// Whether a cell is of a published row's machine, workload, threads, filesystem and policy.
fn is_of(row: &Row, cell: &Cell) -> bool {
    let same =
        |published: &str, run: &str| published.is_empty() || run.is_empty() || published == run;
    same(&row.machine, &cell.machine)
        && same(&row.filesystem, &cell.filesystem)
        && cell.policy == row.policy
        && same(&row.workload, &cell.workload)
        && (row.threads == ALL_THREADS || same(&row.threads, &cell.threads))
}

/// The experiments of a series with the cells that some row asks for, and `iterations` in the place of
/// their own; those without such a cell are left out.
///
/// # Errors
/// A shipped experiment that can't be read.
pub fn experiments(
    series: &Series,
    rows: &[Row],
    iterations: Option<u32>,
) -> Result<Vec<Experiment>, Diagnostic> {
    // The machines and policies of the published series come with the program.
    let files = |name: &str| {
        let found = FILES.iter().find(|(path, _)| *path == name);
        found
            .map(|(path, text)| ((*path).to_string(), (*text).to_string()))
            .ok_or_else(|| format!("no file {name}"))
    };
    let mut all = Vec::new();
    for (path, text) in series.experiments {
        let source = Source::new(*path, *text);
        let mut experiment = experiment::parse(&source, &files, &Overrides::default())?;
        keep_wanted(&mut experiment, rows);
        experiment.iterations = iterations.unwrap_or(experiment.iterations);
        if !experiment.cells.is_empty() {
            all.push(experiment);
        }
    }
    Ok(all)
}

/// Leaves the cells of an experiment that some row asks for. What a cell gives does not depend on
/// the others.
pub fn keep_wanted(experiment: &mut Experiment, rows: &[Row]) {
    // A watched cell answers watched rows alone; an unwatched one may stand in for it.
    let wanted = |cell: &Cell| {
        rows.iter()
            .any(|row| is_of(row, cell) && (row.monitors || !cell.spec.monitors))
    };
    experiment.cells.retain(wanted);
}

/// The engine's value of a published row, from what was run.
///
/// # Errors
/// Why there is none.
pub fn measure(row: &Row, outcomes: &[Outcomes]) -> Result<f64, String> {
    if outcomes.is_empty() {
        return Err("this series has no experiment yet".into());
    }
    let cells = outcomes
        .iter()
        .flat_map(|o| o.experiment.cells.iter().zip(&o.results));
    let mut candidates = cells.filter(|(c, _)| is_of(row, c));
    if row.threads == ALL_THREADS {
        // The cells run one after the other.
        let all: Vec<f64> = candidates
            .map(|(_, results)| value(row, results))
            .collect::<Result<_, _>>()?;
        return if all.is_empty() {
            Err(NO_CELL.into())
        } else {
            Ok(all.iter().sum())
        };
    }
    // Watched runs stand for watched rows, as far as there are any.
    let first = candidates.next();
    let results = first
        .filter(|(c, _)| c.spec.monitors == row.monitors)
        .or_else(|| candidates.find(|(c, _)| c.spec.monitors == row.monitors))
        .or(first)
        .map(|(_, results)| results)
        .ok_or(NO_CELL)?;
    value(row, results)
}

const NO_CELL: &str = "no experiment has this machine, workload, filesystem and policy";

/// A published row's figure in one cell's iterations.
fn value(row: &Row, results: &[Option<RunResult>]) -> Result<f64, String> {
    // A row of the report blocks has the statistics over a program's loops in its name; over
    // iterations it is a mean.
    // What the program itself says goes before a row of that name.
    let said = metric(results, &row.metric);
    if said.is_empty() && crate::rows::definition::row(&row.metric).is_some() {
        let values = crate::rows::values(results, &row.metric)?;
        return stats::summary(&values)
            .map(|s| s.mean)
            .ok_or_else(|| "no iteration completed".into());
    }
    let (name, how) = match row.metric.rsplit_once(' ') {
        Some((name, how @ ("min" | "median" | "max" | "mean" | "stddev"))) => (name, how),
        _ => (row.metric.as_str(), "mean"),
    };
    let mut values = metric(results, name);
    if values.is_empty() {
        values = counter(results, name);
    }
    if values.is_empty() {
        values = cpu_seconds(results, name);
    }
    let s =
        stats::summary(&values).ok_or_else(|| format!("no completed iteration gave `{name}`"))?;
    Ok(match how {
        "min" => s.min,
        "median" => s.median,
        "max" => s.max,
        "stddev" => s.sd,
        _ => s.mean,
    })
}

/// User and system time of the workload's processes, as time(1) would have it, by the names of the
/// tables.
fn cpu_seconds(results: &[Option<RunResult>], name: &str) -> Vec<f64> {
    let of = |t: &TaskTime| match name {
        "user_cpu" => Some(t.user),
        "system_cpu" => Some((t.outside.cpu + t.in_reclaim.cpu).saturating_sub(t.user)),
        _ => None,
    };
    results
        .iter()
        .flatten()
        .filter(|r| r.outcome == sim::Outcome::Completed)
        .filter_map(|r| r.tasks.iter().find(|t| t.class == TaskClass::Workload))
        .filter_map(|t| of(t).map(|ns| ns as f64 / 1e9))
        .collect()
}

/// Scores a series' rows. `outcomes`: what its experiments gave.
pub fn score(rows: &[Row], baseline: &str, outcomes: &[Outcomes]) -> Vec<Scored> {
    let values: Vec<Result<f64, String>> = rows.iter().map(|r| measure(r, outcomes)).collect();
    score_values(rows, baseline, &values)
}

/// Scores a series' rows by the engine's value of each, or why there is none.
pub fn score_values(rows: &[Row], baseline: &str, values: &[Result<f64, String>]) -> Vec<Scored> {
    rows.iter()
        .zip(values)
        .map(|(row, value)| {
            let base = rows
                .iter()
                .position(|b| b.policy == baseline && b.same_key(row))
                .filter(|_| row.policy != baseline);
            let bases = base.and_then(|b| values[b].as_ref().ok().map(|&v| (rows[b].value, v)));
            let measured = value.as_ref().ok().copied();
            Scored {
                within: measured.is_some_and(|e| within(row, e, bases)),
                agrees: row.direction.map(|d| match (measured, bases) {
                    (Some(e), Some((pb, eb))) => agrees(d, (pb, row.value), (eb, e)),
                    _ => false,
                }),
                unsupported: value.as_ref().err().cloned(),
                measured,
                row: row.clone(),
            }
        })
        .collect()
}

/// Scored cells of the rows that are wanted, and how many are within their tolerance.
pub fn count(rows: &[Scored], wanted: impl Fn(&Scored) -> bool) -> Score {
    let mut s = Score::default();
    for r in rows
        .iter()
        .filter(|r| r.row.tolerance != Tolerance::None && wanted(r))
    {
        s.cells += 1;
        s.within += usize::from(r.within);
    }
    s
}

/// Cells to which a machine file fits a parameter, and says so: the parameter's own row can't, for it
/// holds for every machine.
const FITTED_IN_MACHINES: [&str; 3] = [
    "tunable-watermarks//1//alloc-burst/kswapd_wakeup/default",
    "xfs-inode-reclaim//128/xfs/simoop/work_rate_avg/vanilla",
    "xfs-inode-reclaim//128/xfs/simoop/allocation_latency_p50/nonblocking-inode-reclaim",
];

/// Whether some model parameter was fitted to the row.
pub fn is_fitted(row: &Row) -> bool {
    let r = row;
    let name = [
        &r.series[..],
        &r.machine,
        &r.threads,
        &r.filesystem,
        &r.workload,
        &r.metric,
        &r.policy,
    ]
    .join("/");
    let mut fitted = sim::Params::TABLE.iter().flat_map(|p| p.fitted);
    fitted.any(|f| *f == name) || FITTED_IN_MACHINES.contains(&name.as_str())
}

/// How many directions were published, and how many of them agree.
pub fn directions(rows: &[Scored]) -> (usize, usize) {
    let checked = rows.iter().filter(|r| r.agrees.is_some()).count();
    (
        checked,
        rows.iter().filter(|r| r.agrees == Some(true)).count(),
    )
}

fn totals(rows: &[Scored]) -> [Value; 3] {
    let all = count(rows, |_| true);
    let (checked, agree) = directions(rows);
    [
        json!(all.cells),
        json!(all.within),
        json!({"checked": checked, "agree": agree}),
    ]
}

/// The scores of several series as JSON.
pub fn to_json(series: &[(String, Vec<Scored>)]) -> Value {
    let name = |d: Option<Direction>| match d {
        Some(Direction::Up) => json!("up"),
        Some(Direction::Down) => json!("down"),
        None => json!(""),
    };
    let all: Vec<Scored> = series.iter().flat_map(|s| s.1.iter().cloned()).collect();
    let list: Vec<Value> = series
        .iter()
        .map(|(title, rows)| {
            let [cells, within, direction] = totals(rows);
            let strict = count(rows, |r| !matches!(r.row.tolerance, Tolerance::Zero(_)));
            let predicted = count(rows, |r| !is_fitted(&r.row));
            json!({
                "name": title,
                "rows": rows.iter().map(|r| json!({
                    "machine": r.row.machine, "threads": r.row.threads,
                    "filesystem": r.row.filesystem, "workload": r.row.workload,
                    "metric": r.row.metric, "policy": r.row.policy,
                    "published": r.row.value, "measured": r.measured, "within": r.within,
                    "direction": name(r.row.direction), "agrees": r.agrees.unwrap_or(false),
                })).collect::<Vec<_>>(),
                "cells": cells, "within": within, "direction": direction,
                "other_than_zero": {"cells": strict.cells, "within": strict.within},
                "not_fitted": {"cells": predicted.cells, "within": predicted.within},
            })
        })
        .collect();
    let [cells, within, direction] = totals(&all);
    let unsupported: Vec<Value> = all
        .iter()
        .filter_map(|r| {
            r.unsupported.as_ref().map(|why| json!({
            "series": r.row.series, "machine": r.row.machine, "filesystem": r.row.filesystem,
            "metric": r.row.metric, "policy": r.row.policy, "reason": why,
        }))
        })
        .collect();
    json!({
        "series": list,
        "total": {"cells": cells, "within": within, "direction": direction},
        "unsupported": unsupported,
    })
}

/// The scores of one series as text, cell by cell.
pub fn to_text(title: &str, rows: &[Scored]) -> String {
    let mut t = Table::new();
    t.load_style(presets::UTF8_HORIZONTAL_ONLY);
    t.set_header([
        "machine",
        "threads",
        "filesystem",
        "workload",
        "metric",
        "policy",
        "published",
        "engine",
        "deviation",
        "within",
        "direction",
    ]);
    for r in rows {
        let right = |s: String| TableCell::new(s).set_alignment(CellAlignment::Right);
        let deviation = match r.measured {
            Some(e) if r.row.value != 0.0 => format!("{:+.1} %", (e / r.row.value - 1.0) * 100.0),
            Some(e) => format!("{e:+}"),
            None => String::new(),
        };
        t.add_row([
            TableCell::new(&r.row.machine),
            TableCell::new(&r.row.threads),
            TableCell::new(&r.row.filesystem),
            TableCell::new(&r.row.workload),
            TableCell::new(&r.row.metric),
            TableCell::new(&r.row.policy),
            right(r.row.value.to_string()),
            right(r.measured.map_or("unsupported".into(), |e| {
                ((e * 1000.0).round() / 1000.0).to_string()
            })),
            right(deviation),
            TableCell::new(match (r.row.tolerance, r.within) {
                (Tolerance::None, _) => "not scored",
                (_, true) => "yes",
                (_, false) => "no",
            }),
            TableCell::new(match r.agrees {
                None => "",
                Some(true) => "agrees",
                Some(false) => "disagrees",
            }),
        ]);
    }
    format!("{title}\n{t}\n{}", summary(rows))
}

/// How many cells are within their tolerance and how many directions agree, as four lines.
pub fn summary(rows: &[Scored]) -> String {
    let mut out = String::new();
    let all = count(rows, |_| true);
    let strict = count(rows, |r| !matches!(r.row.tolerance, Tolerance::Zero(_)));
    let predicted = count(rows, |r| !is_fitted(&r.row));
    let (checked, agree) = directions(rows);
    let _ = writeln!(
        out,
        "scored cells within tolerance: {} of {}",
        all.within, all.cells
    );
    let _ = writeln!(
        out,
        "  with a tolerance other than zero: {} of {}",
        strict.within, strict.cells
    );
    let _ = writeln!(
        out,
        "  to which no parameter was fitted: {} of {}",
        predicted.within, predicted.cells
    );
    let _ = writeln!(out, "directions that agree: {agree} of {checked}");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tolerance: Tolerance, value: f64, stddev: Option<f64>) -> Row {
        Row {
            monitors: false,
            series: "s".into(),
            machine: "m".into(),
            threads: "1".into(),
            filesystem: "xfs".into(),
            workload: "w".into(),
            metric: "elapsed".into(),
            unit: "s".into(),
            policy: "p".into(),
            value,
            stddev,
            tolerance,
            direction: None,
        }
    }

    #[test]
    fn every_tolerance_by_hand() {
        let ok = |t, p, sd, e| within(&row(t, p, sd), e, Some((10.0, 20.0)));
        assert!(
            ok(Tolerance::Rel(0.1), 100.0, None, 110.0)
                && !ok(Tolerance::Rel(0.1), 100.0, None, 110.1)
        );
        assert!(ok(Tolerance::Rel(0.1), 100.0, Some(8.0), 116.0));
        assert!(
            ok(Tolerance::Abs(3.0), 5.0, None, 2.0) && !ok(Tolerance::Abs(3.0), 5.0, None, 1.9)
        );
        assert!(
            ok(Tolerance::Zero(7.0), 0.0, None, 7.0) && !ok(Tolerance::Zero(7.0), 0.0, None, 8.0)
        );
        assert!(
            ok(Tolerance::Factor(3.0, 0.0), 30.0, None, 10.0)
                && !ok(Tolerance::Factor(3.0, 0.0), 30.0, None, 9.0)
        );
        assert!(
            ok(Tolerance::Factor(3.0, 100.0), 1.0, None, 300.0)
                && !ok(Tolerance::Factor(2.0, 0.0), 5.0, None, 0.0)
        );
        // Published ratio 30/10 = 3; measured 60/20 = 3 and 160/20 = 8.
        assert!(
            ok(Tolerance::Ratio(2.0), 30.0, None, 60.0)
                && !ok(Tolerance::Ratio(2.0), 30.0, None, 160.0)
        );
        assert!(!ok(Tolerance::None, 1.0, None, 1.0));
    }

    #[test]
    fn only_what_rows_ask_for_is_run() {
        let mut e = crate::runner::fixture::experiment(1);
        let cells = e.cells.len();
        let mut wanted = row(Tolerance::None, 1.0, None);
        wanted.machine = "tiny".into();
        wanted.policy = e.cells[0].policy.clone();
        keep_wanted(&mut e, &[wanted.clone()]);
        assert_eq!((cells, e.cells.len()), (4, 1));
        assert!(is_of(&wanted, &e.cells[0]));
        // A watched cell answers no unwatched row.
        e.cells[0].spec.monitors = true;
        keep_wanted(&mut e, &[wanted]);
        assert!(e.cells.is_empty());
    }

    #[test]
    fn a_direction_needs_sign_and_a_quarter_of_the_size() {
        let down = |p, e| agrees(Direction::Down, p, e);
        assert!(
            down((100.0, 60.0), (100.0, 90.0)),
            "10 % of 40 % is a quarter"
        );
        assert!(!down((100.0, 60.0), (100.0, 91.0)));
        assert!(!down((100.0, 60.0), (100.0, 140.0)));
        assert!(!down((100.0, 0.0), (0.0, 0.0)), "no change has no sign");
        assert!(agrees(Direction::Up, (0.0, 5.0), (0.0, 1.0)));
    }

    #[test]
    fn what_a_machine_file_fits_is_a_published_cell() {
        let rows = crate::published::load(None).expect("the project's tables");
        let of_machines = |r: &&Row| {
            ["tunable-watermarks", "xfs-inode-reclaim"].contains(&&*r.series) && is_fitted(r)
        };
        assert_eq!(
            rows.iter().filter(of_machines).count(),
            FITTED_IN_MACHINES.len()
        );
    }

    #[test]
    fn a_cell_without_a_value_is_not_within_and_is_listed() {
        let scored = score(&[row(Tolerance::Rel(0.1), 1.0, None)], "vanilla", &[]);
        let j = to_json(&[("s".into(), scored)]);
        assert_eq!(j["series"][0]["rows"][0]["measured"], Value::Null);
        assert_eq!(
            (j["total"]["cells"].clone(), j["total"]["within"].clone()),
            (json!(1), json!(0))
        );
        assert_eq!(j["unsupported"].as_array().expect("a list").len(), 1);
    }
}
