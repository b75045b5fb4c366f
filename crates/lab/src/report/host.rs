//! Lists the resources of the host that runs of real kernels took. They differ from run to run, so
//! they are shown on a terminal and kept in no results folder.

use crate::figures::stats::median;
use crate::model::{HostRun, Outcomes};
use std::fmt::Write as _;

/// Returns the resources that the runs of real kernels took, a line for each cell: simulated and
/// wall time, CPU time and memory. Empty if no real kernel ran.
pub fn text(outcomes: &Outcomes) -> String {
    let mut out = String::new();
    for (cell, runs) in outcomes.experiment.cells.iter().zip(&outcomes.host) {
        if runs.is_empty() {
            continue;
        }
        // The median over the runs of this cell.
        let middle = |of: fn(&HostRun) -> u64| {
            let values: Vec<f64> = runs.iter().map(|r| of(r) as f64).collect();
            median(&values).unwrap_or(f64::NAN)
        };
        let seconds = |ns: f64| ns / 1e9;
        let (sim, wall) = (middle(|r| r.sim_ns), middle(|r| r.used.wall_ns));
        let longest = runs.iter().map(|r| r.used.wall_ns).max().unwrap_or(0);
        let peak = runs.iter().map(|r| r.used.peak_bytes).max().unwrap_or(0);
        let group = cell.group();
        let _ = write!(
            out,
            "{} on {group}: {:.1} virtual s in {:.1} s of wall time ({} per second), {:.1} s of CPU, {} MiB \
             at peak",
            cell.said(),
            seconds(sim),
            seconds(wall),
            per_second(sim / wall),
            seconds(middle(|r| r.used.cpu_ns)),
            peak.div_ceil(1 << 20),
        );
        let _ = match runs.len() {
            1 => writeln!(out),
            n => writeln!(
                out,
                "; medians of {n} runs, the longest {:.1} s",
                seconds(longest as f64)
            ),
        };
    }
    out
}

/// Formats virtual seconds a second of wall time: to a tenth, or to two digits below that.
fn per_second(rate: f64) -> String {
    match rate < 0.1 {
        true => format!("{rate:.2}"),
        false => format!("{rate:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Experiment, HostUse};
    use crate::runner::fixture;

    fn run(virtual_s: u64, wall_s: u64, peak: u64) -> HostRun {
        HostRun {
            sim_ns: virtual_s * 1_000_000_000,
            used: HostUse {
                wall_ns: wall_s * 1_000_000_000,
                cpu_ns: wall_s * 900_000_000,
                peak_bytes: peak,
            },
        }
    }

    #[test]
    fn a_line_for_each_cell_that_ran_a_kernel() {
        let fixture = fixture::experiment(3);
        let experiment = Experiment {
            cells: fixture.cells[..3].to_vec(),
            ..fixture
        };
        let outcomes = Outcomes {
            results: vec![Vec::new(); 3],
            host: vec![
                vec![run(529, 14, 610 << 20)],
                Vec::new(),
                vec![run(30, 4, 1), run(32, 2, (700 << 20) + 1), run(31, 3, 2)],
            ],
            experiment,
            interrupted: false,
            build: None,
        };
        insta::assert_snapshot!(text(&outcomes), @r"
        vanilla on xfs: 529.0 virtual s in 14.0 s of wall time (37.8 per second), 12.6 s of CPU, 610 MiB at peak
        vanilla on btrfs: 31.0 virtual s in 3.0 s of wall time (10.3 per second), 2.7 s of CPU, 701 MiB at peak; medians of 3 runs, the longest 4.0 s
        ");
        let none = Outcomes {
            host: Vec::new(),
            ..outcomes
        };
        assert_eq!(text(&none), "");
    }
}
