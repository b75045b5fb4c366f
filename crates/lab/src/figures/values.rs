//! Returns the values of a figure in the iterations that completed.

use sim::{Outcome, RunResult};

/// Yields the runs of a cell that completed; `None` in `results` is an iteration that was not run.
pub fn completed(results: &[Option<RunResult>]) -> impl Iterator<Item = &RunResult> {
    results
        .iter()
        .flatten()
        .filter(|r| r.outcome == Outcome::Completed)
}

/// Counts equal items: returns each item with its number, in the order in which they first come.
pub fn tally<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<(T, usize)> {
    let mut counts: Vec<(T, usize)> = Vec::new();
    for item in items {
        match counts.iter_mut().find(|known| known.0 == item) {
            Some(known) => known.1 += 1,
            None => counts.push((item, 1)),
        }
    }
    counts
}

/// Returns the values of a metric in the runs of a cell that completed, in the order of iterations;
/// runs without the metric are left out.
pub fn metric(results: &[Option<RunResult>], name: &str) -> Vec<f64> {
    completed(results)
        .filter_map(|r| r.metrics.get(name).map(|m| m.value))
        .collect()
}

/// Returns the values of a kernel counter in the runs of a cell that completed, in the order of
/// iterations; runs without the counter are left out.
pub fn counter(results: &[Option<RunResult>], name: &str) -> Vec<f64> {
    completed(results)
        .filter_map(|r| r.counters.get(name).map(|&v| v as f64))
        .collect()
}

/// Returns a run's value of a metric, or of a counter if no metric has this name; `None` if the run
/// has neither.
pub fn of_run(result: &RunResult, name: &str) -> Option<f64> {
    let metric = result.metrics.get(name).map(|m| m.value);
    metric.or_else(|| counted(result, name))
}

/// Kinds of zones, as kernels append them to the names of counters.
const ZONES: [&str; 5] = ["dma", "dma32", "normal", "movable", "high"];

/// Returns a run's counter of this name, or the sum of its parts by zone (`NAME_dma`,
/// `NAME_normal`, …), which some kernels have in its place; `None` if there is neither.
pub fn all_zones(result: &RunResult, name: &str) -> Option<f64> {
    let of = |name: &str| result.counters.get(name).map(|&n| n as f64);
    of(name).or_else(|| {
        let parts = ZONES
            .iter()
            .filter_map(|zone| of(&format!("{name}_{zone}")));
        parts.reduce(|sum, part| sum + part)
    })
}

/// Pairs of names that kernels of different releases give to the same counter.
const RENAMED: [[&str; 2]; 5] = [
    ["kswapd_steal", "pgsteal_kswapd"],
    ["workingset_refault", "workingset_refault_file"],
    ["workingset_activate", "workingset_activate_file"],
    ["compact_pages_moved", "pgmigrate_success"],
    ["compact_pagemigrate_failed", "pgmigrate_fail"],
];

/// Returns true if `name` and `other` are different names that kernels of different releases give
/// to the same counter.
pub fn renamed(name: &str, other: &str) -> bool {
    name != other
        && RENAMED
            .iter()
            .any(|names| names.contains(&name) && names.contains(&other))
}

/// Returns a run's counter under this name, summed over zones, or under another release's name of
/// it; `None` if the run has neither.
fn counted(result: &RunResult, name: &str) -> Option<f64> {
    let others = RENAMED
        .iter()
        .filter(|names| names.contains(&name))
        .flatten();
    let mut names = std::iter::once(&name).chain(others);
    names.find_map(|name| all_zones(result, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernels keep a counter by zone or by node and rename some: one name must find all forms.
    #[test]
    fn a_counter_is_found_as_its_kernel_calls_it() {
        let run = |counters: &[(&str, u64)]| {
            let mut run = RunResult::of_kernel(Outcome::Completed);
            run.counters = counters
                .iter()
                .map(|&(name, n)| (name.to_owned(), n))
                .collect();
            run
        };
        let old = run(&[
            ("pgscan_kswapd_dma", 3),
            ("pgscan_kswapd_normal", 4),
            ("kswapd_steal", 5),
            ("allocstall", 6),
        ]);
        let new = run(&[
            ("pgscan_kswapd", 8),
            ("pgsteal_kswapd", 9),
            ("allocstall_normal", 1),
            ("allocstall_movable", 2),
        ]);
        for (name, of_old, of_new) in [
            ("pgscan_kswapd", Some(7.0), Some(8.0)),
            ("pgscan_kswapd_normal", Some(4.0), None),
            ("kswapd_steal", Some(5.0), Some(9.0)),
            ("pgsteal_kswapd", Some(5.0), Some(9.0)),
            ("allocstall", Some(6.0), Some(3.0)),
            ("pgscan", None, None),
        ] {
            assert_eq!(
                [of_run(&old, name), of_run(&new, name)],
                [of_old, of_new],
                "{name}"
            );
        }
    }
}
