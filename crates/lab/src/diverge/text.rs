//! Formats the result of `diverge`.

use super::{Decision, Divergence, First, MOST_DECISIONS};
use crate::report::number;
use crate::terminal::Screen;
use comfy_table::{CellAlignment, Table, presets};
use std::fmt::Write as _;

/// Returns the comparison of two runs (A and B) as text for a screen: when they part, how each run
/// ended, the first decisions that differ, and the table of figures that part later.
pub fn to_text(found: &Divergence, screen: Screen) -> String {
    let mut out = match (&found.first, &found.figures) {
        (None, None) => "The runs are the same: no decision differs.\n".to_owned(),
        (None, Some(first)) => parts(
            first,
            found,
            "decide the same, and part in a figure of a decision",
        ),
        (Some(first), _) => parts(first, found, "part"),
    };
    for (name, run) in ["A", "B"].into_iter().zip(0..) {
        let ending = found.endings[run].as_ref();
        let ending = ending.map_or(String::new(), |e| format!(", {e}"));
        let _ = writeln!(
            out,
            "{name}: {}: {:.3} s, {} decisions{ending}",
            found.runs[run], found.elapsed[run], found.decisions[run]
        );
    }
    out.push('\n');
    if found.compared == MOST_DECISIONS as u64 {
        let _ = writeln!(
            out,
            "Only the first {} decisions are compared one by one.\n",
            found.compared
        );
    }
    match (&found.first, &found.figures) {
        (None, None) => {}
        (None, Some(figures)) => {
            out.push_str("Both did the same in the same order. The first figure that differs:\n");
            put_first(&mut out, figures);
        }
        (Some(first), figures) => {
            if let Some(figures) = figures.as_ref().filter(|f| f.number < first.number) {
                out.push_str("The first decision that differs in a figure:\n");
                put_first(&mut out, figures);
                out.push('\n');
            }
            out.push_str("The first decision that differs in task, action or place:\n");
            put_first(&mut out, first);
        }
    }
    if !found.parted.is_empty() {
        out.push_str(
            "\nFigures that part by more than a tenth, in this order: values at that time, and in the whole run\n",
        );
        out.push_str(&parted(found, screen));
    }
    screen.broken(&out)
}

/// Returns the sentence that says when the runs part; `how` says in which way.
fn parts(first: &First, found: &Divergence, how: &str) -> String {
    let of = |run: usize| {
        first.decisions[run].as_ref().map_or_else(
            || "ends".to_owned(),
            |d| {
                format!(
                    "has {} of {}",
                    d.event.split(' ').next().unwrap_or_default(),
                    d.task
                )
            },
        )
    };
    let at = first.decisions.iter().flatten().map(|d| d.at);
    let at = at.fold(f64::INFINITY, f64::min);
    let [a, b] = &found.decisions;
    format!(
        "The runs {how} at {at:.6} s, decision {} of {a} and {b}: A {}, B {}.\n",
        first.number + 1,
        of(0),
        of(1)
    )
}

/// Writes the decisions of each run before the first difference, and, marked with `>`, the two that
/// differ; a run that had ended shows "its end".
fn put_first(out: &mut String, first: &First) {
    let line = |d: &Decision| format!("{:10.6} s  {:<18} {}", d.at, d.task, d.event);
    for (name, run) in ["A", "B"].into_iter().zip(0..) {
        for d in &first.before[run] {
            let _ = writeln!(out, "  {name}   {}", line(d));
        }
        let last = first.decisions[run].as_ref();
        let last = last.map_or_else(|| "its end".to_owned(), line);
        let _ = writeln!(out, "  {name} > {last}");
    }
}

/// Returns the text table of the counts and figures that differ between two runs from some time on,
/// earliest first: both values then, and both for the whole run.
fn parted(found: &Divergence, screen: Screen) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "s", "figure", "A then", "B then", "A in all", "B in all", "unit",
    ]);
    for column in [0, 2, 3, 4, 5] {
        let column = table.column_mut(column).expect("a column of the header");
        column.set_cell_alignment(CellAlignment::Right);
    }
    for p in &found.parted {
        let [a, b] = p.then.map(number::short);
        let [all_a, all_b] = p.all.map(number::short);
        table.add_row([
            format!("{:.1}", p.at),
            p.what.clone(),
            a,
            b,
            all_a,
            all_b,
            p.unit.clone(),
        ]);
    }
    format!("{}\n", screen.fitted(table))
}
