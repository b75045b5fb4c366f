//! Builds the HTML report of an experiment that was run.

use super::compare::Comparison;
use super::found;
use super::{
    Better, Center, ClassTime, HtmlReport, Latency, Opening, PageCell, PageFigure, PageRow,
    SummaryTable, html,
};
use crate::figures::slowest::{sentence, slowest, time_parts};
use crate::figures::values::{counter, metric};
use crate::figures::waits::waits;
use crate::model::{Cell, Figure, Outcomes};
use crate::rows;
use crate::warrant::Warrant;
use std::collections::BTreeSet;

/// Returns the HTML page of an experiment that was run. `comparison` gives the warnings.
pub fn report(outcomes: &Outcomes, comparison: &Comparison) -> String {
    let e = &outcomes.experiment;
    let groups = rows::groups(outcomes);
    let columns = rows::Columns::new(&groups);
    let fitted = sim::Params::TABLE
        .iter()
        .filter(|p| !p.fitted.is_empty())
        .count();
    let mut facts = vec![
        ("iterations of each cell".into(), e.iterations.to_string()),
        ("cells".into(), e.cells.len().to_string()),
    ];
    // All runs that finished.
    let all = || outcomes.results.iter().flatten().flatten();
    if all().next().is_none() || all().any(|r| r.origin == sim::Origin::Engine) {
        facts.push((
            "model parameters fitted to published cells".into(),
            format!("{fitted} of {}", sim::Params::TABLE.len()),
        ));
    }
    let tables = leading(outcomes, summary(outcomes));
    let warrant = |t: &SummaryTable| Some(Warrant::of(e, t)?.sentence(&t.metric));
    let warrant = tables.first().and_then(warrant);
    html(&HtmlReport {
        title: e.name.clone(),
        opening: match outcomes.measured() {
            true => Opening::Findings(
                found::of_all(outcomes)
                    .into_iter()
                    .map(|(name, found, _)| (name, found))
                    .collect(),
            ),
            false => Opening::Answer,
        },
        compared: e.compared().to_owned(),
        experiment_toml: e.text.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        seed: e.seed,
        facts,
        summary: tables.into_iter().map(SummaryTable::readable).collect(),
        cells: e
            .cells
            .iter()
            .zip(&outcomes.results)
            .map(|(cell, results)| panel(cell, results, &columns))
            .collect(),
        notes: match outcomes.measured() {
            true => all().flat_map(|r| r.notes.clone()).collect(),
            false => {
                let warrant = warrant.into_iter().collect();
                [e.said.clone(), comparison.warnings(), warrant].concat()
            }
        },
    })
}

/// Returns the tables by which policies are compared: the experiment's figures, or elapsed time and
/// nr_vmscan_write if it names none.
pub(crate) fn summary(outcomes: &Outcomes) -> Vec<SummaryTable> {
    let figures = &outcomes.experiment.figures;
    if figures.is_empty() {
        let written = Figure {
            name: "nr_vmscan_write".into(),
            unit: "pages",
            better: Better::Lower,
        };
        return vec![
            SummaryTable::elapsed(outcomes),
            SummaryTable::new(outcomes, &written, Center::Median, &counter),
        ];
    }
    let of = |f: &Figure| match &f.name[..] {
        "elapsed" => SummaryTable::elapsed(outcomes),
        "nr_vmscan_write" => SummaryTable::new(outcomes, f, Center::Median, &counter),
        _ => SummaryTable::new(outcomes, f, Center::Mean, &rows::figure_values),
    };
    figures.iter().map(of).collect()
}

/// Figures that users feel: latencies, stalls and entries into direct reclaim.
const FELT: [&str; 4] = [
    "response_max",
    "alloc_wait_max",
    "ftrace vmscan: Time stalled direct reclaim (seconds)",
    "allocstall",
];

/// Returns the tables in the order in which the page shows them. If the experiment names no figures
/// and no difference in elapsed times can be claimed, [`FELT`] figures that differ are put first,
/// then come `tables`, then the other felt figures.
pub(super) fn leading(outcomes: &Outcomes, tables: Vec<SummaryTable>) -> Vec<SummaryTable> {
    let claims = |t: &SummaryTable| {
        let compared = t.rows.iter().filter_map(|r| r.comparison);
        compared.clone().any(|c| t.is_good(c.verdict).is_some())
    };
    let compared = |t: &SummaryTable| t.rows.iter().any(|r| r.comparison.is_some());
    let names_figures = !outcomes.experiment.figures.is_empty();
    let tie = tables.first().is_some_and(|t| compared(t) && !claims(t));
    if names_figures || !tie {
        return tables;
    }
    let has_values = |t: &SummaryTable| {
        let samples = t.rows.iter().flat_map(|r| &r.samples);
        samples.clone().any(|v| *v > 0.0)
    };
    let figures = FELT.iter().filter_map(|name| rows::figure(name).ok());
    let felt = figures
        .map(|f| SummaryTable::new(outcomes, &f, Center::Mean, &rows::figure_values))
        .filter(has_values);
    let (first, last): (Vec<_>, Vec<_>) = felt.partition(claims);
    first.into_iter().chain(tables).chain(last).collect()
}

/// Returns the report rows of one cell, formatted for the page with the changes against its
/// baseline, which is the first of its group.
fn row_values(cell: &Cell, columns: &rows::Columns<'_>) -> Vec<PageRow> {
    columns
        .of(cell)
        .map(|(line, c)| {
            let definition = rows::definition::row(&line.name);
            // The baseline's cell.
            let base = &line.cells[0];
            let better = match line.better {
                Better::Lower => Some(c.mean < base.mean),
                Better::Higher => Some(c.mean > base.mean),
                Better::Neither => None,
            };
            PageRow {
                block: line.block.into(),
                label: line.label.clone(),
                formula: definition.map_or(String::new(), |d| d.formula.into()),
                unit: line.unit.clone(),
                value: rows::mean_text(line, c),
                change: c.change_percent.filter(|_| !cell.baseline),
                significant: c.significant,
                better,
                unsupported: c.unsupported.map(Into::into),
            }
        })
        .collect()
}

/// Returns the mean times over a cell's runs, divided into parts, for each class of tasks that it
/// has.
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

/// Collects everything that the page shows of one cell, from its runs; `columns` find the report
/// rows of all cells.
fn panel(cell: &Cell, results: &[Option<sim::RunResult>], columns: &rows::Columns<'_>) -> PageCell {
    let finished: Vec<_> = results.iter().flatten().collect();
    let mut figures = Vec::new();
    let names: BTreeSet<&String> = finished.iter().flat_map(|r| r.metrics.keys()).collect();
    for name in names {
        let unit = finished
            .iter()
            .find_map(|r| r.metrics.get(name))
            .map_or("", |m| m.unit);
        figures.push(PageFigure {
            name: name.clone(),
            unit: unit.into(),
            values: metric(results, name),
        });
    }
    let names: BTreeSet<&String> = finished.iter().flat_map(|r| r.counters.keys()).collect();
    for name in names {
        // The kernel counts pgpgin and pgpgout in kB, all others in events or pages.
        let unit = if name.starts_with("pgpg") { "kB" } else { "" };
        figures.push(PageFigure {
            name: name.clone(),
            unit: unit.into(),
            values: counter(results, name),
        });
    }
    PageCell {
        axes: cell.group_axes(),
        policy: cell.said(),
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
            waits(all.filter_map(|(i, r)| Some((i, r.as_ref()?))))
        },
        untold: finished.iter().any(|r| r.waits.is_none()),
        figures,
        rows: row_values(cell, columns),
        time: class_times(results),
        tracker: finished.first().and_then(|r| r.tracker.clone()),
        notes: {
            // A note that several iterations have is listed once.
            let mut notes: Vec<String> = Vec::new();
            for note in finished.iter().flat_map(|r| &r.notes) {
                if !notes.contains(note) {
                    notes.push(note.clone());
                }
            }
            notes
        },
    }
}

/// Returns the slowest allocations over all runs of a cell, described in words, each with its
/// timeline.
fn slow(results: &[Option<sim::RunResult>]) -> Vec<super::Slow> {
    let runs = (0u32..)
        .zip(results)
        .filter_map(|(i, r)| Some((i, r.as_ref()?)));
    slowest(runs)
        .into_iter()
        .map(|(iteration, s)| {
            let step = |t: &sim::slowest::Step| (t.at_ns, sentence(t));
            super::Slow {
                ns: s.ns,
                what: format!(
                    "{}, order {}, task {}, iteration {iteration} at {:.6} s, free pages {} to {}; time in us: {}",
                    s.class,
                    s.order,
                    s.task,
                    s.start_ns as f64 / 1e9,
                    s.free[0],
                    s.free[1],
                    time_parts(s)
                ),
                timeline: s.timeline.iter().map(step).collect(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::fixture;
    use sim::result::Metric;

    /// Returns six iterations of two policies with these elapsed times; allocations of the second
    /// policy wait longer.
    fn outcomes(elapsed: [f64; 2]) -> Outcomes {
        let mut experiment = fixture::experiment(6);
        experiment.cells.truncate(2);
        let one = |cell: &Cell, elapsed: f64, wait: f64| {
            let mut r = fixture::simulate(&cell.spec, &sim::Control::default());
            let mut put = |name: &str, unit, value| {
                r.metrics.insert(name.to_owned(), Metric { unit, value });
            };
            put("elapsed", "s", elapsed);
            put("alloc_wait_max", "us", wait);
            Some(r)
        };
        let of = |i: usize| {
            let cell = &experiment.cells[i];
            let each =
                (0..6).map(|n| one(cell, elapsed[i] + f64::from(n), 1000.0 * (i + 1) as f64));
            each.collect()
        };
        Outcomes {
            results: (0..2).map(of).collect(),
            experiment,
            host: Vec::new(),
            interrupted: false,
            build: None,
        }
    }

    #[test]
    fn where_elapsed_ties_what_was_felt_and_differs_leads() {
        let names = |o: &Outcomes| -> Vec<String> {
            let tables = leading(o, summary(o));
            tables.into_iter().map(|t| t.metric).collect()
        };
        let stalled = "ftrace vmscan: Time stalled direct reclaim (seconds)";
        let tie = names(&outcomes([10.0, 10.0]));
        assert_eq!(
            tie,
            ["alloc_wait_max", stalled, "elapsed", "nr_vmscan_write"]
        );
        let differs = names(&outcomes([10.0, 90.0]));
        assert_eq!(differs, ["elapsed", "nr_vmscan_write"]);
    }
}
