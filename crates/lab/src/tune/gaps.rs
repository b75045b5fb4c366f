//! How far the model is known to be off, from published results: measured again whenever settings are
//! given, not remembered.

use super::trial::{Interrupted, TrialOptions};
use crate::published::{self, Row, Tolerance};
use crate::reproduce::{SERIES, Score, Scored, count, directions, experiments, score};
use crate::runner::{self, RunOptions, Simulate};

/// The series that has allocation latencies under a burst.
const OF: &str = "tunable-watermarks";

/// Iterations of each of its cells.
const ITERATIONS: u32 = 3;

/// What the engine gives for the published machine and burst, beside what was published.
///
/// # Errors
/// The user stopped it.
pub fn known_gaps(
    options: &TrialOptions,
    simulate: Simulate<'_>,
) -> Result<Vec<String>, Interrupted> {
    let rows = published::load(None).unwrap_or_default();
    let rows: Vec<Row> = rows.into_iter().filter(|r| r.series == OF).collect();
    let Some(series) = SERIES.iter().find(|s| s.name == OF) else {
        return Ok(Vec::new());
    };
    let run = RunOptions {
        jobs: options.jobs,
        check: false,
        progress: options.progress,
        stop: options.stop.clone(),
    };
    let mut outcomes = Vec::new();
    for experiment in experiments(series, &rows, Some(ITERATIONS)).unwrap_or_default() {
        let of = runner::run(&experiment, &run, simulate).map_err(|_| Interrupted)?;
        if of.interrupted {
            return Err(Interrupted);
        }
        outcomes.push(of);
    }
    Ok(lines(&score(&rows, series.baseline, &outcomes)))
}

fn lines(scored: &[Scored]) -> Vec<String> {
    let Score { cells, within } = count(scored, |_| true);
    let (checked, agree) = directions(scored);
    let mut out = vec![format!(
        "Known gaps, where an allocation burst was published ({OF}, 2011): {within} of {cells} cells \
         within their tolerance, {agree} of {checked} directions."
    )];
    let missed = |s: &&Scored| s.row.tolerance != Tolerance::None && !s.within;
    for s in scored.iter().filter(missed) {
        let measured = s.measured.map_or("nothing".into(), |x| format!("{x:.0}"));
        out.push(format!(
            "  {} of {}: published {:.0}, here {measured}.",
            s.row.metric, s.row.policy, s.row.value
        ));
    }
    out
}
