//! Which side of a change a sample is on, decided with as few runs as that takes.
//!
//! A search between a good and a bad state asks of each state between them whether it is like the one or like
//! the other. [`Power`] divides the error that the whole search may have among its decisions and among the
//! times that each of them looks at its samples; [`ends`] and [`side`] decide by the Mann–Whitney U test or
//! ask for more runs.

use crate::figures::stats::{mann_whitney, median};
use serde::Serialize;

#[cfg(test)]
mod tests;

/// How often a decision looks at its samples at most.
const LOOKS: u32 = 5;

/// How sure a search wants to be, and what it may cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Power {
    /// The probability that one of its decisions is wrong, at most (above 0, below 1).
    pub error: f64,
    /// Decisions, at most: those between the ends, and the one that the ends differ.
    pub decisions: u32,
    /// Runs of one state at most.
    pub most: u32,
}

impl Power {
    /// Of a search among so many states behind the good one: each decision halves them.
    pub fn of_search(error: f64, states: u32, most: u32) -> Self {
        let decisions = 1 + u32::BITS - states.leading_zeros();
        Self {
            error,
            decisions,
            most,
        }
    }

    /// The p-value at which a look decides (Bonferroni over decisions and looks).
    pub fn level(&self) -> f64 {
        self.error / f64::from(self.decisions) / f64::from(LOOKS)
    }

    /// The fewest runs of two states that can differ so clearly: those whose samples do not overlap at all.
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

    /// The next number of runs to look at behind `runs`; `None`: there are no more.
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

/// What looking at the two ends says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ends {
    /// They differ; the probability that this is chance, at most.
    Differ(f64),
    /// They need so many runs each.
    More(u32),
    /// No difference is seen.
    Alike,
}

/// Whether the ends of a search differ.
pub fn ends(good: &[f64], bad: &[f64], power: &Power) -> Ends {
    let p = mann_whitney(good, bad);
    if p <= power.level() {
        return Ends::Differ((p * f64::from(LOOKS)).min(1.0));
    }
    let runs = good.len().min(bad.len()) as u32;
    power.next(runs).map_or(Ends::Alike, Ends::More)
}

/// Like which end a state is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The good one.
    Good,
    /// The bad one.
    Bad,
}

/// What looking at a state between the ends says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Decision {
    /// It is like this end. The probability that this is wrong, at most, and whether it differs from both and
    /// is only nearer to this one.
    On(Side, f64, bool),
    /// It needs so many runs.
    More(u32),
    /// It can't be told.
    Unclear,
}

/// Like which end a sample is. A state is like the end from which it does not differ while it differs from the
/// other; one that differs from both is like that of the nearer median.
pub fn side(sample: &[f64], good: &[f64], bad: &[f64], power: &Power) -> Decision {
    let from = |end: &[f64]| mann_whitney(sample, end);
    let (p_good, p_bad) = (from(good), from(bad));
    let sure = |p: f64| p <= power.level();
    let error = |p: f64| (p * f64::from(LOOKS)).min(1.0);
    match (sure(p_good), sure(p_bad)) {
        (true, false) => Decision::On(Side::Bad, error(p_good), false),
        (false, true) => Decision::On(Side::Good, error(p_bad), false),
        (true, true) => {
            let middle = |of: &[f64]| median(of).unwrap_or(f64::NAN);
            let off = |end| (middle(sample) - middle(end)).abs();
            match off(good) < off(bad) {
                true => Decision::On(Side::Good, error(p_bad), true),
                false => Decision::On(Side::Bad, error(p_good), true),
            }
        }
        (false, false) => power
            .next(sample.len() as u32)
            .map_or(Decision::Unclear, Decision::More),
    }
}

/// The least shift of all values of a sample that [`ends`] would have seen beside it, as a share of its median;
/// `None`: none would, or the median is 0.
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
