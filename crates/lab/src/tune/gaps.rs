//! How far the model is known to be off, from published results: measured again whenever settings are
//! given, not remembered.

use super::trial::{Interrupted, TrialOptions};
use crate::published::{self, Row};
use crate::reproduce::{SERIES, Scored, experiments, score};
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
    let cells = scored.iter().filter(|s| s.row.is_scored());
    let (all, within) = cells.fold((0, 0), |(n, w), s| (n + 1, w + u32::from(s.within)));
    let directions = scored.iter().filter_map(|s| s.agrees);
    let (checked, agree) = directions.fold((0, 0), |(n, a), yes| (n + 1, a + u32::from(yes)));
    let mut out = vec![format!(
        "Known gaps, where an allocation burst was published ({OF}, 2011): {within} of {all} cells \
         within their tolerance, {agree} of {checked} directions."
    )];
    for s in scored.iter().filter(|s| s.row.is_scored() && !s.within) {
        let measured = s.measured.map_or("nothing".into(), |x| format!("{x:.0}"));
        out.push(format!(
            "  {} of {}: published {:.0}, here {measured}.",
            s.row.metric, s.row.policy, s.row.value
        ));
    }
    out
}
