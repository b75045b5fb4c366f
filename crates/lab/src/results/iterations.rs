//! `iterations.csv`: one row for each finished iteration.

use super::csv::{Csv, cell_fields, number};
use super::{File, Format, finished, outcome_name};
use crate::model::Outcomes;
use std::collections::{BTreeMap, BTreeSet};

/// Writes metrics with their units in brackets, then counters; a field is empty if the iteration
/// does not have the value.
pub struct IterationsCsv;

impl Format for IterationsCsv {
    /// Writes `iterations.csv`: a row for each finished iteration, with the columns of all metrics
    /// and counters that any iteration has.
    fn files(
        &self,
        outcomes: &Outcomes,
        emit: &mut dyn FnMut(File) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        // The unit of each metric, by its name.
        let mut metrics: BTreeMap<&str, &str> = BTreeMap::new();
        let mut counters: BTreeSet<&str> = BTreeSet::new();
        for (_, _, r) in finished(outcomes) {
            for (name, metric) in &r.metrics {
                metrics.entry(name).or_insert(metric.unit);
            }
            counters.extend(r.counters.keys().map(String::as_str));
        }
        let mut header =
            Vec::from(["iteration", "seed", "outcome", "simulated [s]"].map(String::from));
        header.extend(
            metrics
                .iter()
                .map(|(name, unit)| format!("{name} [{unit}]")),
        );
        header.extend(counters.iter().map(|name| (*name).to_owned()));
        header.push("digest".into());
        let mut csv = Csv::of_cells(&outcomes.experiment, header);
        for (cell, i, r) in finished(outcomes) {
            let seed = crate::runner::iteration_seed(&outcomes.experiment, i);
            let mut row = cell_fields(&outcomes.experiment, cell);
            row.extend([
                i.to_string(),
                format!("{seed:016x}"),
                outcome_name(r).to_owned(),
            ]);
            row.push(number(r.sim_ns as f64 / 1e9));
            let metric = |name: &&str| r.metrics.get(*name).map(|m| number(m.value));
            row.extend(metrics.keys().map(|name| metric(name).unwrap_or_default()));
            let counter = |name: &&str| r.counters.get(*name).map(u64::to_string);
            row.extend(
                counters
                    .iter()
                    .map(|name| counter(name).unwrap_or_default()),
            );
            row.push(format!("{:016x}", r.digest));
            csv.row(row);
        }
        emit(File::new("iterations.csv", csv.into_bytes()))
    }
}
