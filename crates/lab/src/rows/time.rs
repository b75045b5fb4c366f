//! Where the time of tasks went: a block with a line a class of tasks, whose parts are the tasks'
//! lifetime.

use super::completed;
use crate::model::Outcomes;
use comfy_table::{Cell as TableCell, CellAlignment, Table, presets};
use sim::account::{TaskClass, TaskTime};
use sim::{Origin, RunResult};
use std::fmt::Write as _;

/// The columns of the block, in seconds: the parts, then their sum. `direct reclaim` is all time
/// in it, whatever it was spent on; the other parts are outside of it.
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

/// One class's columns in seconds.
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

/// The mean over iterations of a class's columns, with the number of tasks; absent if no run has
/// such tasks.
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

/// The block as text; empty if no run has it.
pub fn time_text(outcomes: &Outcomes) -> String {
    let mut t = Table::new();
    t.load_style(presets::UTF8_HORIZONTAL_ONLY);
    let heads = ["", "policy", "tasks of", "n"].into_iter().chain(COLUMNS);
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
                TableCell::new(&cell.policy),
                TableCell::new(class.name()),
                right(tasks.to_string()),
            ];
            row.extend(values.map(|v| right(format!("{v:.2}"))));
            t.add_row(row);
        }
    }
    let mut out = String::new();
    if any {
        let _ = writeln!(
            out,
            "Where time went: seconds summed over tasks, means over iterations; the parts add up to \
             the lifetime\n{t}"
        );
    }
    let untold = |r: &RunResult| r.origin == Origin::Kernel && r.tasks.is_empty();
    if outcomes.results.iter().flatten().flatten().any(untold) {
        let _ = writeln!(
            out,
            "note: unsupported: where time went: a real kernel does not tell it of its tasks"
        );
    }
    out
}
