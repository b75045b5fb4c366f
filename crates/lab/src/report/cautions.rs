//! Notes below the verdict of the first screen: cells that ran out of memory, kills, outlying
//! iterations.

use super::compare::Comparison;
use crate::figures::claim::SummaryTable;
use crate::model::Outcomes;
use sim::Outcome;
use std::collections::BTreeMap;

/// The place of the kernel's report.
const REPORT: &str = "the kernel's report: comparison.txt";

/// Returns the notes for the first screen, the most important one first: cells that ran out of
/// memory, outlying iterations, figures that no completed run has.
pub(super) fn notes(
    outcomes: &Outcomes,
    comparison: &Comparison,
    tables: &[SummaryTable],
) -> Vec<String> {
    let killed = super::compare::out_of_memory(outcomes).map(|(sentence, report)| match report {
        "" => sentence,
        _ => format!("{sentence}; {REPORT}"),
    });
    let mut notes: Vec<String> = killed.collect();
    let reported = super::compare::went_on(outcomes).next().is_some();
    notes.extend(kills(outcomes).into_iter().map(|said| match reported {
        true => format!("{said}; {REPORT}"),
        false => said,
    }));
    notes.extend(comparison.cautions());
    let finished = |t: &SummaryTable| t.rows.iter().any(|r| !r.samples.is_empty());
    let any = tables.iter().any(finished);
    let missing = tables.iter().filter(|t| any && !finished(t));
    notes.extend(missing.map(|t| format!("no run that completed has `{}`", t.metric)));
    let compared = outcomes.experiment.cells.iter().any(|cell| !cell.baseline);
    if compared
        && never_reclaimed(outcomes)
        && !tables.first().is_some_and(SummaryTable::has_claims)
    {
        notes.insert(
            0,
            "no run reclaimed a page: the workload fits into the machine's memory, so settings of \
             reclaim have nothing to do"
                .to_owned(),
        );
    }
    notes
}

/// Returns true if runs completed that count scanned pages, and none of them scanned one.
fn never_reclaimed(outcomes: &Outcomes) -> bool {
    let runs = outcomes.results.iter().flatten().flatten();
    let scans = |name: &str| name.starts_with("pgscan") && !name.contains("throttle");
    let mut counted = runs
        .filter(|r| r.outcome == Outcome::Completed)
        .flat_map(|r| r.counters.iter().filter(|(name, _)| scans(name)))
        .peekable();
    counted.peek().is_some() && counted.all(|(_, pages)| *pages == 0)
}

/// Returns a sentence for each cell and memory control group in which the OOM killer ended
/// programs while the run went on: how many, in how many runs, and the time of the first.
fn kills(outcomes: &Outcomes) -> Vec<String> {
    let cells = &outcomes.experiment.cells;
    let several = cells.iter().any(|c| c.group() != cells[0].group());
    let mut told = Vec::new();
    for (cell, results) in cells.iter().zip(&outcomes.results) {
        // Kills, runs with kills and the first kill in seconds, by group.
        let mut groups: BTreeMap<&str, (f64, usize, f64)> = BTreeMap::new();
        for result in results.iter().flatten() {
            for (name, metric) in &result.metrics {
                let group = name.strip_prefix("group.");
                let Some(group) = group.and_then(|g| g.strip_suffix(".oom_kill")) else {
                    continue;
                };
                let first = result.metrics.get(&format!("group.{group}.first_kill"));
                if let Some(first) = first.filter(|_| metric.value > 0.0) {
                    let (sum, runs, earliest) = groups.entry(group).or_insert((0.0, 0, f64::MAX));
                    *sum += metric.value;
                    *runs += 1;
                    *earliest = earliest.min(first.value);
                }
            }
        }
        let ran = results.iter().flatten().count();
        for (group, (sum, runs, earliest)) in groups {
            let place = if several {
                format!("{} ", cell.group())
            } else {
                String::new()
            };
            let programs = if sum == 1.0 { "program" } else { "programs" };
            told.push(format!(
                "{place}{}: the OOM killer ended {sum} {programs} of the group {group}, in {runs} of {ran} \
                 runs; the first at {earliest:.2} s",
                cell.side()
            ));
        }
    }
    told
}
