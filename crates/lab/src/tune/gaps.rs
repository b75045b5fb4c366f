//! How far the model is known to be off: the scores that README and docs state, from the same file.

use crate::published::Tolerance;
use crate::published::score::{Score, Scored, count, directions};
use crate::published::scores::Scores;

/// The series that has allocation latencies under a burst.
const OF: &str = "tunable-watermarks";

/// What the engine gives for the published machine and burst, beside what was published.
pub fn known_gaps() -> Vec<String> {
    let scores =
        Scores::embedded().expect("the file that comes with the program (scores.rs tests it)");
    scores.of(OF).map_or_else(Vec::new, |measured| {
        lines(&measured.iterations(), &measured.scored())
    })
}

fn lines(iterations: &str, scored: &[Scored]) -> Vec<String> {
    let Score { cells, within } = count(scored, |_| true);
    let (checked, agree) = directions(scored);
    let mut out = vec![format!(
        "Known gaps, where an allocation burst was published ({OF}, 2011; {iterations} iterations, \
         `lowmark reproduce {OF}`): {within} of {cells} cells within their tolerance, {agree} of \
         {checked} directions."
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
        out.push(format!(
            "  {} of {}: does not change against the baseline as published.",
            s.row.metric, s.row.policy
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What tune says is what README and docs say: all three from one file.
    #[test]
    fn the_gaps_are_those_of_the_measured_scores() {
        let scores = Scores::embedded().expect("a well-formed file");
        let scored = scores.of(OF).expect("measured").scored();
        let Score { cells, within } = count(&scored, |_| true);
        let gaps = known_gaps();
        assert!(
            gaps[0].contains(&format!("{within} of {cells} cells")),
            "{gaps:?}"
        );
        let (checked, agree) = directions(&scored);
        assert!(
            gaps[0].contains(&format!("{agree} of {checked} directions")),
            "{gaps:?}"
        );
        assert_eq!(
            gaps.len(),
            1 + (cells - within) + (checked - agree),
            "{gaps:?}"
        );
    }
}
