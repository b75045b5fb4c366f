//! The values of a figure in the iterations that completed.

use sim::{Outcome, RunResult};

/// The iterations that completed.
pub fn completed(results: &[Option<RunResult>]) -> impl Iterator<Item = &RunResult> {
    results
        .iter()
        .flatten()
        .filter(|r| r.outcome == Outcome::Completed)
}

/// The completed iterations' values of a metric.
pub fn metric(results: &[Option<RunResult>], name: &str) -> Vec<f64> {
    completed(results)
        .filter_map(|r| r.metrics.get(name).map(|m| m.value))
        .collect()
}

/// The completed iterations' values of a counter.
pub fn counter(results: &[Option<RunResult>], name: &str) -> Vec<f64> {
    completed(results)
        .filter_map(|r| r.counters.get(name).map(|&v| v as f64))
        .collect()
}

/// A run's value of a metric, or of a counter where no metric has the name.
pub fn of_run(result: &RunResult, name: &str) -> Option<f64> {
    let metric = result.metrics.get(name).map(|m| m.value);
    metric.or_else(|| result.counters.get(name).map(|&v| v as f64))
}
