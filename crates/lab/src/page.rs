//! The HTML report of what was run.

use crate::compare::{Comparison, counter, metric};
use crate::model::{Cell, Figure, Outcomes};
use crate::report::{
    Better, Cell as Panel, Center, ClassTime, Comparison as Claim, Figure as PanelFigure, Latency,
    Report, RowValue, SummaryRow, SummaryTable, Verdict, html,
};
use crate::rows;
use crate::stats::{self, ALPHA, CONFIDENCE, FEW};
use std::collections::BTreeSet;

/// Builds the page.
pub fn report(outcomes: &Outcomes, comparison: &Comparison) -> String {
    let e = &outcomes.experiment;
    let groups = rows::groups(outcomes);
    let fitted = sim::Params::TABLE
        .iter()
        .filter(|p| !p.fitted.is_empty())
        .count();
    let facts = vec![
        ("iterations of each cell".into(), e.iterations.to_string()),
        ("cells".into(), e.cells.len().to_string()),
        (
            "model parameters fitted to published cells".into(),
            format!("{fitted} of {}", sim::Params::TABLE.len()),
        ),
    ];
    html(&Report {
        title: e.name.clone(),
        experiment_toml: e.text.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        seed: e.seed,
        facts,
        summary: summary(outcomes),
        cells: e
            .cells
            .iter()
            .zip(&outcomes.results)
            .map(|(cell, results)| panel(cell, results, &groups))
            .collect(),
        notes: comparison.warnings(),
    })
}

/// The axes other than the policy.
fn axes(cell: &Cell) -> Vec<(String, String)> {
    cell.axes
        .iter()
        .filter(|(k, _)| k != "policy")
        .cloned()
        .collect()
}

/// The tables of what policies are compared by.
pub(crate) fn summary(outcomes: &Outcomes) -> Vec<SummaryTable> {
    let figures = &outcomes.experiment.figures;
    if figures.is_empty() {
        let lower = |name: &str, unit| Figure {
            name: name.into(),
            unit,
            better: Better::Lower,
        };
        let written = lower("nr_vmscan_write", "pages");
        return vec![
            table(outcomes, &lower("elapsed", "s"), Center::Mean, &metric),
            table(outcomes, &written, Center::Median, &counter),
        ];
    }
    let of = |f| table(outcomes, f, Center::Mean, &rows::figure_values);
    figures.iter().map(of).collect()
}

type Values<'a> = &'a dyn Fn(&[Option<sim::RunResult>], &str) -> Vec<f64>;

fn table(outcomes: &Outcomes, figure: &Figure, center: Center, values: Values<'_>) -> SummaryTable {
    let name = &figure.name;
    let cells = &outcomes.experiment.cells;
    let rows = cells
        .iter()
        .zip(&outcomes.results)
        .map(|(cell, results)| {
            let samples = values(results, name);
            let s = stats::summary(&samples);
            let group = cell.group();
            let base = cells.iter().position(|c| c.baseline && c.group() == group);
            let against = base
                .map(|i| values(&outcomes.results[i], name))
                .unwrap_or_default();
            let comparison = (!cell.baseline && !against.is_empty() && !samples.is_empty())
                .then(|| claim(&samples, &against, center));
            SummaryRow {
                axes: axes(cell),
                policy: cell.policy.clone(),
                baseline: cell.baseline,
                mean: s.as_ref().map_or(f64::NAN, |s| s.mean),
                sd: s.as_ref().map_or(f64::NAN, |s| s.sd),
                interval: s.as_ref().and_then(|s| match center {
                    Center::Mean => s.mean_interval,
                    Center::Median => s.median_interval,
                }),
                samples,
                comparison,
            }
        })
        .collect();
    SummaryTable {
        metric: name.clone(),
        unit: figure.unit.into(),
        better: figure.better,
        center,
        confidence: CONFIDENCE,
        test: "Mann–Whitney U, two-sided".into(),
        rows,
    }
}

fn claim(samples: &[f64], base: &[f64], center: Center) -> Claim {
    let middle = |v: &[f64]| {
        let s = stats::summary(v).expect("a sample");
        match center {
            Center::Mean => s.mean,
            Center::Median => s.median,
        }
    };
    let (new, old) = (middle(samples), middle(base));
    let p = stats::mann_whitney(samples, base);
    let verdict = if samples.len().min(base.len()) < FEW && p >= ALPHA {
        Verdict::TooFew
    } else if p >= ALPHA {
        Verdict::Unclear
    } else if new < old {
        Verdict::Less
    } else {
        Verdict::More
    };
    Claim {
        change: new / old - 1.0,
        interval: None,
        p: Some(p),
        verdict,
    }
}

/// The cell's rows as its group has them.
fn row_values(cell: &Cell, groups: &[rows::Group]) -> Vec<RowValue> {
    let label = cell.group();
    let lines = groups
        .iter()
        .filter(|g| g.group == label)
        .flat_map(|g| &g.rows);
    lines
        .filter_map(|line| {
            let c = line.cells.iter().find(|c| c.policy == cell.policy)?;
            let definition = rows::definition::row(&line.name);
            let base = &line.cells[0];
            let better = match line.better {
                rows::Better::Lower => Some(c.mean < base.mean),
                rows::Better::Higher => Some(c.mean > base.mean),
                rows::Better::Neither => None,
            };
            Some(RowValue {
                block: line.block.into(),
                label: line.label.clone(),
                formula: definition.map_or(String::new(), |d| d.formula.into()),
                unit: line.unit.clone(),
                value: rows::mean_text(line, c),
                change: c.change_percent.filter(|_| !cell.baseline),
                significant: c.significant,
                better,
                unsupported: c.unsupported.map(Into::into),
            })
        })
        .collect()
}

/// Where the time of each class of the cell's tasks went.
fn class_times(results: &[Option<sim::RunResult>]) -> Vec<ClassTime> {
    let runs = rows::completed(results);
    sim::account::TaskClass::ALL
        .iter()
        .filter_map(|&class| {
            let (tasks, values) = rows::mean_columns(&runs, class)?;
            Some(ClassTime {
                class: class.name().into(),
                tasks,
                parts: rows::TIME_COLUMNS
                    .iter()
                    .zip(values)
                    .map(|(name, s)| ((*name).to_owned(), s))
                    .collect(),
            })
        })
        .collect()
}

fn panel(cell: &Cell, results: &[Option<sim::RunResult>], groups: &[rows::Group]) -> Panel {
    let finished: Vec<_> = results.iter().flatten().collect();
    let mut figures = Vec::new();
    let names: BTreeSet<&String> = finished.iter().flat_map(|r| r.metrics.keys()).collect();
    for name in names {
        let unit = finished
            .iter()
            .find_map(|r| r.metrics.get(name))
            .map_or("", |m| m.unit);
        figures.push(PanelFigure {
            name: name.clone(),
            unit: unit.into(),
            values: metric(results, name),
        });
    }
    let names: BTreeSet<&String> = finished.iter().flat_map(|r| r.counters.keys()).collect();
    for name in names {
        let unit = if name.starts_with("pgpg") { "kB" } else { "" };
        figures.push(PanelFigure {
            name: name.clone(),
            unit: unit.into(),
            values: counter(results, name),
        });
    }
    Panel {
        axes: axes(cell),
        policy: cell.policy.clone(),
        baseline: cell.baseline,
        outcomes: finished.iter().map(|r| r.outcome.clone()).collect(),
        series: finished
            .first()
            .map(|r| r.series.clone())
            .unwrap_or_default(),
        latency: Latency::merged(finished.iter().map(|r| &r.alloc_latency)),
        slowest: slow(results),
        waits: {
            let all = (0u32..).zip(results);
            crate::output::waits(all.filter_map(|(i, r)| Some((i, r.as_ref()?))))
        },
        figures,
        rows: row_values(cell, groups),
        time: class_times(results),
        tracker: finished.first().and_then(|r| r.tracker.clone()),
        notes: finished
            .iter()
            .flat_map(|r| r.notes.iter().cloned())
            .collect(),
    }
}

/// The slowest allocations of a cell.
fn slow(results: &[Option<sim::RunResult>]) -> Vec<crate::report::Slow> {
    let runs = (0u32..)
        .zip(results)
        .filter_map(|(i, r)| Some((i, r.as_ref()?)));
    crate::output::slowest(runs)
        .into_iter()
        .map(|(iteration, s)| {
            let step = |t: &sim::slowest::Step| (t.at_ns, crate::output::sentence(t));
            crate::report::Slow {
                ns: s.ns,
                what: format!(
                    "{}, order {}, task {}, iteration {iteration} at {:.6} s, free pages {} to {}; time in us: {}",
                    s.class,
                    s.order,
                    s.task,
                    s.start_ns as f64 / 1e9,
                    s.free[0],
                    s.free[1],
                    crate::output::time_parts(s)
                ),
                timeline: s.timeline.iter().map(step).collect(),
            }
        })
        .collect()
}
