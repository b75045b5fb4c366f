//! The rule by which a change of a figure is an effect, the same for a real kernel and the engine.
//! docs/effects.md states it; it was committed before the engine was first judged by it.

use crate::figures::stats::{mann_whitney, median};
use serde::{Deserialize, Serialize};

/// Largest p-value with which a change is an effect.
pub const ALPHA: f64 = 0.01;
/// Largest change that is no effect, as a share of the figure.
pub const EQUAL: f64 = 0.1;
/// Largest p-value of each of the two one-sided tests that show a change to be within [`EQUAL`].
pub const ALPHA_EQUAL: f64 = 0.05;
/// Largest distance of the logarithms of the engine's and the kernel's ratio, as a share of the
/// kernel's, with which the sizes agree.
const SIZE_SHARE: f64 = 1.0 / 3.0;
/// Largest distance of those logarithms that is accepted in any case.
const SIZE_LEAST: f64 = 0.1;

/// The change of a figure between two samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// The figure grows.
    Up,
    /// The figure shrinks.
    Down,
    /// The figure changes by less than [`EQUAL`].
    None,
    /// The samples show neither of these.
    Undecided,
}

impl Effect {
    /// Returns the word for the effect in tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::None => "none",
            Self::Undecided => "undecided",
        }
    }

    /// Returns true if the figure grows or shrinks.
    pub fn is_claimed(self) -> bool {
        matches!(self, Self::Up | Self::Down)
    }
}

/// An effect with its size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// The effect.
    pub effect: Effect,
    /// The median behind the change divided by the one before it.
    pub ratio: f64,
    /// The medians before and behind the change, not below the figure's floor.
    pub medians: (f64, f64),
}

impl Change {
    /// Judges the change of a figure from the sample `from` to the sample `to`. Values below
    /// `floor`, which is positive, count as `floor`: below it the figure does not matter to anyone.
    /// `None` if a sample is empty, or no value is above the floor.
    pub fn of(from: &[f64], to: &[f64], floor: f64) -> Option<Self> {
        assert!(floor > 0.0, "ratios need positive values");
        let raised = |all: &[f64]| all.iter().map(|v| v.max(floor)).collect::<Vec<f64>>();
        let (from, to) = (raised(from), raised(to));
        let medians = (median(&from)?, median(&to)?);
        if from.iter().chain(&to).all(|v| *v == floor) {
            return None;
        }
        let scaled = |by: f64| from.iter().map(|v| v * by).collect::<Vec<f64>>();
        let is_equal = greater(&to, &scaled(1.0 - EQUAL)) <= ALPHA_EQUAL
            && greater(&scaled(1.0 + EQUAL), &to) <= ALPHA_EQUAL;
        let effect = match (is_equal, mann_whitney(&from, &to) < ALPHA) {
            (true, _) => Effect::None,
            (false, false) => Effect::Undecided,
            (false, true) if greater(&to, &from) < ALPHA => Effect::Up,
            (false, true) => Effect::Down,
        };
        Some(Self {
            effect,
            ratio: medians.1 / medians.0,
            medians,
        })
    }

    /// Returns true if the engine's ratio is as large as the kernel's: if the difference of their
    /// logarithms is at most a third of the kernel's, or 0.1.
    pub fn agrees_in_size(&self, kernel: &Self) -> bool {
        let (ours, theirs) = (self.ratio.ln(), kernel.ratio.ln());
        (ours - theirs).abs() <= (theirs.abs() * SIZE_SHARE).max(SIZE_LEAST)
    }
}

/// Returns the one-sided p-value of the Mann–Whitney test that `a` tends to be greater than `b`.
fn greater(a: &[f64], b: &[f64]) -> f64 {
    let two_sided = mann_whitney(a, b);
    // The pairs in which `a` is greater, less those in which it is smaller.
    let pairs = a
        .iter()
        .flat_map(|x| b.iter().map(move |y| x.total_cmp(y) as i64));
    match pairs.sum::<i64>() {
        1.. => two_sided / 2.0,
        _ => 1.0 - two_sided / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns six values around `center`, spread by a share of it.
    fn six(center: f64, spread: f64) -> Vec<f64> {
        let steps = [-1.0, -0.6, -0.2, 0.2, 0.6, 1.0];
        steps.iter().map(|s| center * (1.0 + s * spread)).collect()
    }

    fn effect(from: &[f64], to: &[f64]) -> Effect {
        Change::of(from, to, 1e-3).unwrap().effect
    }

    #[test]
    fn a_change_beyond_its_spread_is_an_effect() {
        assert_eq!(effect(&six(1.0, 0.1), &six(2.0, 0.1)), Effect::Up);
        assert_eq!(effect(&six(2.0, 0.1), &six(1.0, 0.1)), Effect::Down);
        let change = Change::of(&six(1.0, 0.1), &six(2.0, 0.1), 1e-3).unwrap();
        assert!((change.ratio - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_change_within_a_tenth_is_none_even_if_it_is_certain() {
        assert_eq!(effect(&six(1.0, 0.02), &six(1.0, 0.02)), Effect::None);
        assert_eq!(effect(&six(1.0, 0.001), &six(1.05, 0.001)), Effect::None);
        assert_eq!(effect(&six(1.0, 0.001), &six(1.15, 0.001)), Effect::Up);
    }

    #[test]
    fn wide_samples_are_undecided() {
        assert_eq!(effect(&six(1.0, 0.8), &six(1.2, 0.8)), Effect::Undecided);
        assert_eq!(
            effect(&[1.0, 1.1], &[3.0, 3.1]),
            Effect::Undecided,
            "too few"
        );
    }

    #[test]
    fn equal_runs_are_no_effect() {
        assert_eq!(effect(&[7.0; 6], &[7.0; 6]), Effect::None);
    }

    #[test]
    fn values_below_the_floor_count_as_the_floor() {
        assert_eq!(Change::of(&[0.0; 6], &[1.0; 6], 2.0), None);
        let change = Change::of(&[0.0; 6], &[20.0; 6], 2.0).unwrap();
        assert_eq!((change.effect, change.ratio), (Effect::Up, 10.0));
        assert_eq!(Change::of(&[], &[1.0], 2.0), None);
    }

    #[test]
    fn sizes_agree_within_a_third_of_the_logarithm() {
        let of = |ratio: f64| Change {
            effect: Effect::Up,
            ratio,
            medians: (1.0, ratio),
        };
        assert!(of(8.0_f64.powf(0.7)).agrees_in_size(&of(8.0)));
        assert!(!of(8.0_f64.powf(0.6)).agrees_in_size(&of(8.0)));
        assert!(!of(8.0_f64.powf(1.4)).agrees_in_size(&of(8.0)));
        assert!(of(1.1).agrees_in_size(&of(1.01)));
        assert!(!of(1.2).agrees_in_size(&of(1.01)));
    }
}
