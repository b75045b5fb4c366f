//! Chance for the generator: one stream a seed and subject, so that a change of how machines are drawn
//! leaves the programs of the same seed alone.

use sim::rng::Rng;

/// A stream of random choices.
#[derive(Debug, Clone)]
pub struct Dice(Rng);

impl Dice {
    /// The stream of a seed for one subject.
    pub fn new(seed: u64, subject: &str) -> Self {
        Self(Rng::new(seed, subject))
    }

    /// A number from `lo` to `hi`, both included.
    pub fn between(&mut self, lo: u64, hi: u64) -> u64 {
        lo + self.0.below((hi - lo).saturating_add(1))
    }

    /// As [`Dice::between`], every power of two as likely as the next.
    pub fn magnitude(&mut self, lo: u64, hi: u64) -> u64 {
        let (from, to) = ((lo as f64 + 1.0).ln(), (hi as f64 + 1.0).ln());
        let drawn = (from + (to - from) * self.0.unit()).exp() - 1.0;
        (drawn.round() as u64).clamp(lo, hi)
    }

    /// As often between a quarter of `hi` and `hi` as by [`Dice::magnitude`]: enough to be felt.
    pub fn amount(&mut self, lo: u64, hi: u64) -> u64 {
        if self.one_in(2) {
            self.between((hi / 4).max(lo), hi.max(lo))
        } else {
            self.magnitude(lo, hi)
        }
    }

    /// `true` once in `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.0.below(n) == 0
    }

    /// One of several.
    ///
    /// # Panics
    /// There is none.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.0.below(of.len() as u64) as usize]
    }

    /// A number from 0 to 1.
    pub fn unit(&mut self) -> f64 {
        self.0.unit()
    }
}
