//! Decides which side of a change a sample is on, with as few runs as possible.
//!
//! A search between a good and a bad state asks of each state between them which of the two it
//! resembles. [`Power`] divides the error that the whole search may have among its decisions and
//! among the times that each of them looks at its samples; [`ends`] and [`side`] decide by the
//! Mann–Whitney U test or ask for more runs.

use crate::figures::stats::{mann_whitney, median};
use serde::Serialize;

#[cfg(test)]
mod tests;

/// Most times that a decision looks at its samples.
const LOOKS: u32 = 5;

/// The error that a search may have, and the runs it may take.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Power {
    /// Upper bound of the probability that any of the search's decisions is wrong (above 0, below
    /// 1).
    pub error: f64,
    /// Most decisions: those between the ends, and the one that the ends differ.
    pub decisions: u32,
    /// Most runs of one state.
    pub most: u32,
}

impl Power {
    /// Returns the power of a search among `states` states after the good one: each decision halves
    /// them. `error`: the probability that any decision is wrong; `most`: most runs of one state.
    pub fn of_search(error: f64, states: u32, most: u32) -> Self {
        let decisions = 1 + u32::BITS - states.leading_zeros();
        Self {
            error,
            decisions,
            most,
        }
    }

    /// Returns the p-value at which a look decides (Bonferroni over decisions and looks).
    pub fn level(&self) -> f64 {
        self.error / f64::from(self.decisions) / f64::from(LOOKS)
    }

    /// Returns the fewest runs of each of two states with which a difference can reach
    /// [`level`](Self::level): samples that do not overlap at all have the least p-value.
    pub fn fewest(&self) -> u32 {
        // 2 / C(2n, n), the least p-value that n runs each can have.
        let mut least = 1.0;
        let mut n = 1;
        while least > self.level() {
            n += 1;
            least = least * f64::from(n) / (2.0 * f64::from(2 * n - 1));
        }
        n
    }

    /// Returns the number of runs of a state at the next look after `runs` runs, growing from the
    /// fewest to the most by a constant factor; `None` if there is no further look.
    pub fn next(&self, runs: u32) -> Option<u32> {
        let fewest = self.fewest();
        let span = f64::from(self.most) / f64::from(fewest);
        (0..LOOKS)
            .map(|look| {
                let share = f64::from(look) / f64::from(LOOKS - 1);
                (f64::from(fewest) * span.powf(share)).round() as u32
            })
            .find(|n| *n > runs)
    }
}

/// The result of comparing the two ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ends {
    /// The ends differ; upper bound of the probability that the difference is chance.
    Differ(f64),
    /// Each end needs this many runs.
    More(u32),
    /// No difference can be seen.
    Alike,
}

/// Tests whether the samples of a search's good and bad end differ; if they do not yet, says how
/// many runs each needs for the next look.
pub fn ends(good: &[f64], bad: &[f64], power: &Power) -> Ends {
    let p = mann_whitney(good, bad);
    if p <= power.level() {
        return Ends::Differ((p * f64::from(LOOKS)).min(1.0));
    }
    let runs = good.len().min(bad.len()) as u32;
    power.next(runs).map_or(Ends::Alike, Ends::More)
}

/// The end that a state resembles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The good end.
    Good,
    /// The bad end.
    Bad,
}

/// The result of comparing a state with both ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Decision {
    /// The state is on this side. With upper bound of the probability that this is wrong; the flag
    /// is true if the state differs from both ends and is only nearer to this one.
    On(Side, f64, bool),
    /// The state needs this many runs.
    More(u32),
    /// The runs do not decide it.
    Unclear,
}

/// Tests which end of a search a state's sample resembles: the end from which it does not differ
/// while it differs from the other. A sample that differs from both is on the side of the nearer
/// median; one that differs from neither needs more runs, or is unclear.
pub fn side(sample: &[f64], good: &[f64], bad: &[f64], power: &Power) -> Decision {
    let from = |end: &[f64]| mann_whitney(sample, end);
    let (p_good, p_bad) = (from(good), from(bad));
    let differs = |p: f64| p <= power.level();
    let error = |p: f64| (p * f64::from(LOOKS)).min(1.0);
    match (differs(p_good), differs(p_bad)) {
        (true, false) => Decision::On(Side::Bad, error(p_good), false),
        (false, true) => Decision::On(Side::Good, error(p_bad), false),
        (true, true) => {
            let middle = |of: &[f64]| median(of).unwrap_or(f64::NAN);
            let distance = |end| (middle(sample) - middle(end)).abs();
            match distance(good) < distance(bad) {
                true => Decision::On(Side::Good, error(p_bad), true),
                false => Decision::On(Side::Bad, error(p_good), true),
            }
        }
        (false, false) => power
            .next(sample.len() as u32)
            .map_or(Decision::Unclear, Decision::More),
    }
}

/// Returns the least shift of all values of a sample that [`ends`] would see as a difference, as a
/// share of the sample's median; `None` if no shift would be seen, or the median is 0.
pub fn visible(sample: &[f64], power: &Power) -> Option<f64> {
    let middle = median(sample).filter(|m| *m != 0.0)?.abs();
    let seen = |shift: f64| {
        let shifted: Vec<f64> = sample.iter().map(|v| v + shift).collect();
        mann_whitney(sample, &shifted) <= power.level()
    };
    let spread = sample.iter().map(|v| (v - sample[0]).abs());
    let (mut low, mut high) = (0.0, 2.0 * spread.fold(middle * 1e-9, f64::max));
    if !seen(high) {
        return None;
    }
    for _ in 0..50 {
        let shift = f64::midpoint(low, high);
        if seen(shift) {
            high = shift;
        } else {
            low = shift;
        }
    }
    Some(high / middle)
}
