//! `summary.csv`: one row for each cell and figure.

use super::csv::{Csv, cell_fields, number};
use super::{File, Format, outcome_name};
use crate::model::Outcomes;
use sim::{Outcome, RunResult};
use std::collections::BTreeMap;

/// Writes the endings of the cell's iterations first (`kind` is `outcome`, `n` their number), then
/// each metric and counter over the iterations that completed. A run that ended early has figures
/// of less work than the others; `iterations.csv` has them.
pub struct SummaryCsv;

/// A figure: (kind, name, unit).
type Figure<'a> = (u8, &'a str, &'a str);

impl Format for SummaryCsv {
    /// Writes `summary.csv`: for each cell a line for each way in which iterations ended, and one
    /// for each metric and counter.
    fn files(
        &self,
        outcomes: &Outcomes,
        emit: &mut dyn FnMut(File) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let mut csv = Csv::of_cells(
            &outcomes.experiment,
            [
                "kind", "name", "unit", "n", "mean", "sd", "min", "median", "max",
            ],
        );
        for (cell, results) in outcomes.experiment.cells.iter().zip(&outcomes.results) {
            let mut ended: BTreeMap<&str, usize> = BTreeMap::new();
            for r in results.iter().flatten() {
                *ended.entry(outcome_name(r)).or_default() += 1;
            }
            let cell = cell_fields(&outcomes.experiment, cell);
            let mut put = |figure: [&str; 3], rest: [String; 6]| {
                csv.row(
                    cell.iter()
                        .map(String::as_str)
                        .chain(figure)
                        .chain(rest.each_ref().map(String::as_str)),
                );
            };
            for (name, n) in ended {
                let mut rest = [const { String::new() }; 6];
                rest[0] = n.to_string();
                put(["outcome", name, "iterations"], rest);
            }
            for ((kind, name, unit), values) in figures(results) {
                put(
                    [["metric", "counter"][usize::from(kind)], name, unit],
                    statistics(values),
                );
            }
        }
        emit(File::new("summary.csv", csv.into_bytes()))
    }
}

/// Returns the values of each metric (kind 0) and counter (kind 1) in a cell's completed
/// iterations, by (kind, name, unit).
fn figures(results: &[Option<RunResult>]) -> BTreeMap<Figure<'_>, Vec<f64>> {
    let mut figures: BTreeMap<Figure<'_>, Vec<f64>> = BTreeMap::new();
    for r in results
        .iter()
        .flatten()
        .filter(|r| r.outcome == Outcome::Completed)
    {
        for (name, metric) in &r.metrics {
            figures
                .entry((0, name, metric.unit))
                .or_default()
                .push(metric.value);
        }
        for (name, value) in &r.counters {
            figures
                .entry((1, name, ""))
                .or_default()
                .push(*value as f64);
        }
    }
    figures
}

/// Returns as texts: n, mean, standard deviation of the sample (empty for one value), min, median,
/// max. There must be at least one value.
fn statistics(mut values: Vec<f64>) -> [String; 6] {
    values.sort_by(f64::total_cmp);
    let len = values.len();
    let n = len as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
    let sd = (squares / (n - 1.0)).sqrt();
    let median = (values[(len - 1) / 2] + values[len / 2]) / 2.0;
    let figures = [mean, sd, values[0], median, values[len - 1]].map(number);
    let [mean, sd, min, median, max] = figures;
    [len.to_string(), mean, sd, min, median, max]
}
