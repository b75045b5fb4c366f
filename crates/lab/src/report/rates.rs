//! Tabulates calls and bytes a second, for workloads that count their calls: fio jobs and traces.

use crate::figures::stats;
use crate::figures::values::{completed, metric};
use crate::model::Outcomes;
use crate::terminal::{Col, Screen};
use sim::RunResult;

/// Returns the calls a second and the MB/s of a run, in this order, from its first to its last
/// call; `of` is `read` or `write`. `None` if the run does not count such calls or had none.
fn rates(r: &RunResult, of: &str) -> Option<[f64; 2]> {
    let figure = |name: &str| r.metrics.get(name).map(|m| m.value);
    let calls = figure(&format!("{of}s"))?;
    let (bytes, rate) = (
        figure(&format!("{of}_bytes"))?,
        figure(&format!("{of}_rate"))?,
    );
    // The rate is bytes over that time span, so the span follows from it.
    (calls > 0.0 && bytes > 0.0).then(|| [calls * rate * 1e6 / bytes, rate])
}

/// Returns a text table of calls and megabytes a second with a row for each cell, medians over the
/// iterations; empty if no run counts its calls.
pub fn text(outcomes: &Outcomes, screen: Screen) -> String {
    let experiment = &outcomes.experiment;
    let cells = &experiment.cells;
    let several = cells.iter().any(|c| c.group() != cells[0].group());
    let mut grid = screen.grid(&[
        Col::Words(""),
        Col::Words(experiment.compared()),
        Col::Figure("read IOPS"),
        Col::Figure("read MB/s"),
        Col::Figure("write IOPS"),
        Col::Figure("write MB/s"),
        Col::Figure("n"),
    ]);
    for (cell, results) in cells.iter().zip(&outcomes.results) {
        let runs: Vec<&RunResult> = completed(results).collect();
        let of =
            |kind: &str| -> Vec<[f64; 2]> { runs.iter().filter_map(|r| rates(r, kind)).collect() };
        let both = [of("read"), of("write")];
        let n = both.iter().map(Vec::len).max().unwrap_or(0);
        if n == 0 {
            continue;
        }
        // The median for reads (0) or writes (1), of calls a second (0) or MB/s (1).
        let median = |kind: usize, i: usize| {
            let values: Vec<f64> = both[kind].iter().map(|r| r[i]).collect();
            let digits = if i == 0 { 0 } else { 1 };
            stats::median(&values).map_or(String::new(), |m| format!("{m:.digits$}"))
        };
        let group = if several { cell.group() } else { String::new() };
        grid.plain([
            group,
            cell.side().to_owned(),
            median(0, 0),
            median(0, 1),
            median(1, 0),
            median(1, 1),
            n.to_string(),
        ]);
    }
    if grid.is_empty() {
        return String::new();
    }
    format!("\nCalls and bytes a second: medians\n{}\n", grid.text())
}

/// The most rows of [`calls`]: the first screen has other tables, too.
const MOST_ROWS: usize = 12;

/// Returns a text table of the figures that users of fio look at first: calls a second, megabytes
/// a second and latencies of the reads, writes and syncs of each cell, medians over the iterations.
/// Empty if the workload is no fio job, or the table would have more than `MOST_ROWS`.
pub fn calls(outcomes: &Outcomes, screen: Screen) -> String {
    let cells = &outcomes.experiment.cells;
    let is_fio =
        |cell: &crate::model::Cell| matches!(cell.spec.workload.source, workload::Source::Fio(_));
    if !cells.iter().all(is_fio) {
        return String::new();
    }
    let several = cells.iter().any(|c| c.group() != cells[0].group());
    let mut grid = screen.grid(&[
        Col::Words(""),
        Col::Words(outcomes.experiment.compared()),
        Col::Words("calls"),
        Col::Figure("IOPS"),
        Col::Figure("MB/s"),
        Col::Figure("p50 [us]"),
        Col::Figure("p99 [us]"),
        Col::Figure("max [us]"),
    ]);
    let mut rows = 0;
    for (cell, results) in cells.iter().zip(&outcomes.results) {
        let runs: Vec<&RunResult> = completed(results).collect();
        for kind in ["read", "write", "sync"] {
            let median = |name: &str, digits: usize| {
                let values = metric(results, name);
                stats::median(&values).map(|m| format!("{m:.digits$}"))
            };
            let Some(p50) = median(&format!("{kind}_latency_p50"), 1) else {
                continue;
            };
            let both: Vec<[f64; 2]> = runs.iter().filter_map(|r| rates(r, kind)).collect();
            let rate = |i: usize, digits: usize| {
                let values: Vec<f64> = both.iter().map(|r| r[i]).collect();
                stats::median(&values).map_or(String::new(), |m| format!("{m:.digits$}"))
            };
            rows += 1;
            grid.plain([
                if several { cell.group() } else { String::new() },
                cell.side().to_owned(),
                kind.to_owned(),
                rate(0, 0),
                rate(1, 1),
                p50,
                median(&format!("{kind}_latency_p99"), 1).unwrap_or_default(),
                median(&format!("{kind}_latency_max"), 1).unwrap_or_default(),
            ]);
        }
    }
    match rows {
        1..=MOST_ROWS => format!("\n{}\n", grid.text().trim_end()),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::fixture;
    use sim::Outcome;
    use sim::result::Metric;

    #[test]
    fn calls_a_second_follow_from_bytes_and_their_rate() {
        let mut r = RunResult::of_kernel(Outcome::Completed);
        for (name, unit, value) in [
            ("reads", "calls", 1000.0),
            ("read_bytes", "bytes", 4_096_000.0),
            ("read_rate", "MB/s", 8.192),
            ("writes", "calls", 0.0),
            ("write_bytes", "bytes", 0.0),
            ("write_rate", "MB/s", 0.0),
        ] {
            r.metrics.insert(name.into(), Metric { unit, value });
        }
        // The run made 1000 calls of 4 KiB in half a second.
        assert_eq!(rates(&r, "read"), Some([2000.0, 8.192]));
        assert_eq!(rates(&r, "write"), None);
        let mut experiment = fixture::experiment(1);
        experiment.cells.truncate(1);
        let mut outcomes = Outcomes {
            experiment,
            results: vec![vec![Some(r)]],
            host: Vec::new(),
            interrupted: false,
            build: None,
        };
        let shown = text(&outcomes, Screen::default());
        assert!(
            shown.contains("read IOPS") && shown.contains("2000"),
            "{shown}"
        );
        assert!(!shown.contains("write"), "{shown}");
        // The fixture's workload is no fio job.
        assert_eq!(calls(&outcomes, Screen::default()), "");
        let job = "[a]\nrw=randread\nsize=4m\n";
        let script = workload::fio::parse(job).unwrap().script();
        outcomes.experiment.cells[0].spec.workload = script;
        let latencies = [("p50", 12.0), ("p99", 345.0), ("max", 6789.0)];
        for (name, value) in latencies {
            let run = outcomes.results[0][0].as_mut().unwrap();
            for kind in ["read", "sync"] {
                let metric = Metric { unit: "us", value };
                run.metrics.insert(format!("{kind}_latency_{name}"), metric);
            }
        }
        let shown = calls(&outcomes, Screen::default());
        for figure in ["read", "sync", "2000", "8.2", "12.0", "345.0", "6789.0"] {
            assert!(shown.contains(figure), "{figure}: {shown}");
        }
        assert!(!shown.contains("write"), "{shown}");
        outcomes.results[0][0] = None;
        assert_eq!(text(&outcomes, Screen::default()), "");
    }
}
