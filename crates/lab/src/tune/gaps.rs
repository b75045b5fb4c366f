//! Tells how far the model is known to be off: scores from the file that README and docs state them
//! from.

use super::goals::Goals;
use crate::published::Tolerance;
use crate::published::score::Scored;
use crate::published::scores::{Drawn, Scores};

/// The published series that has allocation latencies under a burst.
const OF: &str = "tunable-watermarks";

/// Describes how far the model is known to be off in the figures that the goals ask for, a line
/// each: for allocations and direct reclaims, how the engine's figures differ from published ones.
/// For times of programs nothing was published.
pub fn known_gaps(goals: &Goals) -> Vec<String> {
    let mut all = Vec::new();
    let of_memory = goals.alloc_latency_ns.is_some() || goals.direct_reclaim.is_some();
    let of_amounts = goals.max_free.is_some() || goals.throughput.is_some();
    if of_memory || goals.is_empty() {
        all.extend(published());
    }
    if goals.of_programs() || !of_memory && of_amounts {
        all.push(UNPUBLISHED.to_owned());
    }
    all
}

/// The gaps in figures that no published series has.
const UNPUBLISHED: &str = "Known gaps: no published table has these figures. docs/validate-modern.md has what the model \
    and real kernels gave in the same scenarios, and --verify-in kernel:6.12 tries this answer in a kernel.";

/// Describes how the engine's figures for the published machine and burst differ from the published
/// ones, a line each.
fn published() -> Vec<String> {
    let scores =
        Scores::embedded().expect("the file that comes with the program (scores.rs tests it)");
    scores.of(OF).map_or_else(Vec::new, |drawn| lines(&drawn))
}

/// Formats how well the engine reproduces a published series: a line of totals, a line for each
/// figure outside of its tolerance, and one for each that changes against the baseline in another
/// direction than published.
fn lines(drawn: &Drawn<'_>) -> Vec<String> {
    let (scored, iterations) = (drawn.scored(), drawn.iterations());
    let within = drawn.within(|_| true);
    let directions = drawn.directions(|_| true);
    let notes = drawn.notes().into_iter().map(|note| format!("; {note}"));
    let mut out = vec![format!(
        "Known gaps, where an allocation burst was published ({OF}, 2011; {iterations} iterations{}, \
         `lowmark reproduce {OF}`): {} of {} cells within their tolerance, {} of {} directions.",
        notes.collect::<String>(),
        within.median,
        within.cells,
        directions.agree,
        directions.checked,
    )];
    let missed = |s: &&Scored| s.row.tolerance != Tolerance::None && !s.within;
    for s in scored.iter().filter(missed) {
        let measured = s.measured.map_or("nothing".into(), |x| format!("{x:.0}"));
        let unit = if s.row.unit == "count" {
            ""
        } else {
            &s.row.unit
        };
        out.push(
            format!(
                "  {} of {}: published {:.0} {unit}, here {measured} {unit}.",
                s.row.metric, s.row.policy, s.row.value
            )
            .replace(" ,", ",")
            .replace(" .", "."),
        );
    }
    for s in scored.iter().filter(|s| s.agrees == Some(false)) {
        let when = if s.disputed { " with all seeds" } else { "" };
        out.push(format!(
            "  {} of {}: does not change against the baseline as published{when}.",
            s.row.metric, s.row.policy
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// tune, README and docs must state the same scores, all from one file.
    #[test]
    fn the_gaps_are_those_of_the_measured_scores() {
        let scores = Scores::embedded().expect("a well-formed file");
        let drawn = scores.of(OF).expect("measured");
        let (within, directions) = (drawn.within(|_| true), drawn.directions(|_| true));
        let gaps = published();
        for said in [
            format!("{} of {} cells", within.median, within.cells),
            format!("{} of {} directions", directions.agree, directions.checked),
        ] {
            assert!(gaps[0].contains(&said), "{gaps:?}");
        }
        let is_off = |s: &&Scored| s.row.tolerance != Tolerance::None && !s.within;
        let scored = drawn.scored();
        let off = scored.iter().filter(is_off).count();
        let missed = directions.checked - directions.agree;
        assert_eq!(gaps.len(), 1 + off + missed, "{gaps:?}");
        let goals = Goals {
            direct_reclaim: Some(0),
            ..Goals::default()
        };
        assert_eq!(known_gaps(&goals), gaps);
    }

    #[test]
    fn the_gaps_are_about_the_goals_asked_for() {
        let goals = Goals {
            response_ns: Some(100_000_000),
            ..Goals::default()
        };
        assert_eq!(known_gaps(&goals), [UNPUBLISHED]);
    }
}
