//! `alloc_latency.csv`: allocation latency by path.

use super::csv::{Csv, cell_fields, number};
use super::{File, Format, finished};
use crate::model::Outcomes;
use serde::Serialize;
use sim::RunResult;

/// Writes one row for each iteration and path, in nanoseconds.
pub struct AllocLatencyCsv;

/// The histogram of one path, summarised in nanoseconds.
#[derive(Serialize)]
pub struct PathLatency {
    pub path: &'static str,
    pub count: u64,
    pub mean_ns: f64,
    pub p50_ns: u64,
    pub p90_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub max_ns: u64,
}

/// Returns a run's allocation latencies summarised by path (fast path, direct reclaim, …), in
/// nanoseconds, in the engine's order.
pub fn paths(result: &RunResult) -> Vec<PathLatency> {
    result
        .alloc_latency
        .paths
        .iter()
        .map(|(path, h)| PathLatency {
            path,
            count: h.len(),
            mean_ns: h.mean(),
            p50_ns: h.value_at_quantile(0.5),
            p90_ns: h.value_at_quantile(0.9),
            p99_ns: h.value_at_quantile(0.99),
            p999_ns: h.value_at_quantile(0.999),
            max_ns: h.max(),
        })
        .collect()
}

impl Format for AllocLatencyCsv {
    /// Writes `alloc_latency.csv`: a row for each finished iteration and path of allocations.
    fn files(
        &self,
        outcomes: &Outcomes,
        emit: &mut dyn FnMut(File) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let mut csv = Csv::of_cells(
            &outcomes.experiment,
            [
                "iteration",
                "path",
                "count",
                "mean_ns",
                "p50_ns",
                "p90_ns",
                "p99_ns",
                "p999_ns",
                "max_ns",
            ],
        );
        for (cell, i, result) in finished(outcomes) {
            for p in paths(result) {
                let mut row = cell_fields(&outcomes.experiment, cell);
                row.extend([i.to_string(), p.path.to_owned(), p.count.to_string()]);
                row.push(number(p.mean_ns));
                row.extend(
                    [p.p50_ns, p.p90_ns, p.p99_ns, p.p999_ns, p.max_ns].map(|v| v.to_string()),
                );
                csv.row(row);
            }
        }
        emit(File::new("alloc_latency.csv", csv.into_bytes()))
    }
}
