//! Shows the page tracker's report on a terminal.

use crate::figures::stats;
use crate::figures::values::{completed, counter};
use crate::model::Outcomes;
use crate::terminal::{Col, Screen};
use std::fmt::Write as _;

/// Returns the page tracker's tables as text: activations of pages in each cell, then the counts by
/// code path; empty if the tracker was off.
pub fn tracker_text(outcomes: &Outcomes, screen: Screen) -> String {
    let mut out = String::new();
    let compared = outcomes.experiment.compared();
    let head = "pgactivate min | median | max";
    let mut summary = screen.grid(&[Col::Words(""), Col::Words(compared), Col::Figure(head)]);
    let mut paths = screen.grid(&[
        Col::Words(""),
        Col::Words(compared),
        Col::Words("instantiated by"),
        Col::Words("later path"),
        Col::Words("did"),
        Col::Figure("median count"),
    ]);
    let mut any = false;
    for (cell, results) in outcomes.experiment.cells.iter().zip(&outcomes.results) {
        let reports: Vec<_> = completed(results)
            .filter_map(|r| r.tracker.as_ref())
            .collect();
        if reports.is_empty() {
            continue;
        }
        any = true;
        let activated = stats::summary(&counter(results, "pgactivate"));
        summary.plain([
            cell.group(),
            cell.side().to_owned(),
            activated.map_or("-".into(), |s| {
                format!("{} | {} | {}", s.min, s.median, s.max)
            }),
        ]);
        let mut keys: Vec<(&str, &str, &str)> = reports
            .iter()
            .flat_map(|r| r.rows.iter().map(|x| (x.instantiated_by, x.path, x.event)))
            .collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let counts: Vec<f64> = reports
                .iter()
                .map(|r| {
                    r.rows
                        .iter()
                        .find(|x| (x.instantiated_by, x.path, x.event) == key)
                        .map_or(0.0, |x| x.count as f64)
                })
                .collect();
            let median = stats::summary(&counts).map_or(0.0, |s| s.median);
            paths.plain([
                cell.group(),
                cell.side().to_owned(),
                key.0.into(),
                key.1.into(),
                key.2.into(),
                median.to_string(),
            ]);
        }
    }
    if any {
        let _ = writeln!(
            out,
            "Page tracker: activations\n{}\nPage tracker: paths\n{}",
            summary.text(),
            paths.text()
        );
    }
    out
}
