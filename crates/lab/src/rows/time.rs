//! Shows how tasks spent their time: a block with a line for each class of tasks, whose parts add
//! up to the tasks' lifetime.

use super::completed;
use crate::model::{Better, Outcomes};
use crate::terminal::{RULED, Screen};
use comfy_table::{Cell as TableCell, CellAlignment, Table};
use sim::account::{TaskClass, TaskTime};
use sim::{Origin, RunResult};
use std::fmt::Write as _;

/// The columns of the block, in seconds: the parts, then their sum. `direct reclaim` is all time in
/// direct reclaim, including waits; the other parts are outside of it.
pub const COLUMNS: [&str; 10] = [
    "cpu user",
    "cpu system",
    "run queue",
    "device",
    "throttle",
    "lock",
    "server",
    "sleep",
    "direct reclaim",
    "lifetime",
];

/// Returns how the tasks of one class spent their time: the columns of `COLUMNS` in seconds, from
/// nanoseconds. System time is the CPU time outside of direct reclaim that is not user time.
pub fn columns(t: &TaskTime) -> [f64; COLUMNS.len()] {
    let s = |ns: u64| ns as f64 / 1e9;
    let o = &t.outside;
    [
        s(t.user),
        s(o.cpu.saturating_sub(t.user)),
        s(o.run_queue),
        s(o.device),
        s(o.throttle),
        s(o.lock),
        s(o.server),
        s(o.sleep),
        s(t.in_reclaim.total()),
        s(t.lifetime),
    ]
}

/// Returns the names of the columns of time in `tasks.csv`, without their unit: [`COLUMNS`], then
/// the parts of direct reclaim.
pub fn task_columns() -> Vec<String> {
    let plain = |name: &str| name.replace(' ', "_");
    let parts = sim::account::Split::default().parts();
    let reclaim = parts.map(|(name, _)| format!("reclaim_{}", plain(name)));
    COLUMNS.into_iter().map(plain).chain(reclaim).collect()
}

/// Finds a column of a class of tasks by its name in `compare`: `kswapd:device`,
/// `workload:reclaim_throttle`. Returns the class, and the column's place in [`task_columns`].
pub(super) fn task_column(name: &str) -> Option<(TaskClass, usize)> {
    let (class, column) = name.split_once(':')?;
    let class = TaskClass::ALL.into_iter().find(|c| c.name() == class)?;
    let at = task_columns().iter().position(|c| c == column)?;
    Some((class, at))
}

/// Returns the value in a run of a column found by `task_column` (class of tasks, place in
/// `task_columns`), in seconds. Places after those of `COLUMNS` are parts of direct reclaim.
/// `None`: the run has no tasks of this class.
pub(super) fn task_value(r: &RunResult, (class, at): (TaskClass, usize)) -> Option<f64> {
    let t = r.tasks.iter().find(|t| t.class == class)?;
    let of_reclaim = |at: usize| t.in_reclaim.parts()[at].1 as f64 / 1e9;
    let own = columns(t);
    Some(
        own.get(at)
            .copied()
            .unwrap_or_else(|| of_reclaim(at - own.len())),
    )
}

/// Returns the better direction of the column at place `at` of `task_columns`: neither for time
/// spent computing or sleeping, lower for waits.
pub(super) fn task_better(at: usize) -> Better {
    match task_columns()[at].as_str() {
        "cpu_user" | "cpu_system" | "sleep" | "lifetime" | "reclaim_sleep" => Better::Neither,
        _ => Better::Lower,
    }
}

/// Returns the mean over runs of the number of tasks of a class, and of each column of `COLUMNS` in
/// seconds; `None` if no run has such tasks.
pub fn mean_columns(runs: &[&RunResult], class: TaskClass) -> Option<(f64, [f64; COLUMNS.len()])> {
    let of_class: Vec<&TaskTime> = runs
        .iter()
        .filter_map(|r| r.tasks.iter().find(|t| t.class == class))
        .collect();
    let n = of_class.len() as f64;
    (!of_class.is_empty()).then(|| {
        let mut sum = [0.0; COLUMNS.len()];
        for t in &of_class {
            for (s, x) in sum.iter_mut().zip(columns(t)) {
                *s += x / n;
            }
        }
        (
            of_class.iter().map(|t| t.tasks as f64).sum::<f64>() / n,
            sum,
        )
    })
}

/// Returns the table of where tasks spent their time, with a line for each cell and class of tasks,
/// and a note if a real kernel does not report task times. Empty if there is neither.
pub fn time_text(outcomes: &Outcomes, screen: Screen) -> String {
    let mut t = Table::new();
    t.load_style(RULED);
    let compared = outcomes.experiment.compared();
    let heads = ["", compared, "tasks of", "n"].into_iter().chain(COLUMNS);
    t.set_header(heads);
    let mut any = false;
    for (cell, results) in outcomes.experiment.cells.iter().zip(&outcomes.results) {
        let runs = completed(results);
        for class in TaskClass::ALL {
            let Some((tasks, values)) = mean_columns(&runs, class) else {
                continue;
            };
            any = true;
            let right = |s: String| TableCell::new(s).set_alignment(CellAlignment::Right);
            let mut row = vec![
                TableCell::new(cell.group()),
                TableCell::new(cell.side()),
                TableCell::new(class.name()),
                right(tasks.to_string()),
            ];
            row.extend(values.map(|v| right(format!("{v:.2}"))));
            t.add_row(row);
        }
    }
    let mut out = String::new();
    if any {
        out += &screen.wrapped(
            "Where time went: seconds summed over tasks, means over iterations; the parts add up \
             to the lifetime",
        );
        let _ = writeln!(out, "{}", screen.fitted(t));
    }
    // A run of a real kernel without task times.
    let untold = |r: &RunResult| r.origin == Origin::Kernel && r.tasks.is_empty();
    if outcomes.results.iter().flatten().flatten().any(untold) {
        out += &screen.wrapped(
            "note: unsupported: where time went: a real kernel does not report the times of its \
             tasks",
        );
    }
    out
}
