//! Random choices for the generator: each seed and subject has its own stream, so that a change in
//! drawing machines does not change the programs of the same seed.

use sim::rng::Rng;

/// A stream of random choices.
#[derive(Debug, Clone)]
pub struct Dice(Rng);

impl Dice {
    /// Makes the stream of a seed for one subject.
    pub fn new(seed: u64, subject: &str) -> Self {
        Self(Rng::new(seed, subject))
    }

    /// Returns a number from `lo` to `hi` inclusive, all equally likely.
    pub fn between(&mut self, lo: u64, hi: u64) -> u64 {
        lo + self.0.below((hi - lo).saturating_add(1))
    }

    /// Returns a number from `lo` to `hi` inclusive, of which every power of two is as likely as
    /// the next: small numbers are as frequent as large ones.
    pub fn magnitude(&mut self, lo: u64, hi: u64) -> u64 {
        let (from, to) = ((lo as f64 + 1.0).ln(), (hi as f64 + 1.0).ln());
        let drawn = (from + (to - from) * self.0.unit()).exp() - 1.0;
        (drawn.round() as u64).clamp(lo, hi)
    }

    /// Returns a number from `lo` to `hi`: half the time between a quarter of `hi` and `hi`, else
    /// one by [`Dice::magnitude`], so that large amounts are frequent enough to have an effect.
    pub fn amount(&mut self, lo: u64, hi: u64) -> u64 {
        if self.one_in(2) {
            self.between((hi / 4).max(lo), hi.max(lo))
        } else {
            self.magnitude(lo, hi)
        }
    }

    /// Returns true once in `n` times on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.0.below(n) == 0
    }

    /// Picks one of several elements.
    ///
    /// # Panics
    /// The slice is empty.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.0.below(of.len() as u64) as usize]
    }

    /// Returns a number from 0 to 1.
    pub fn unit(&mut self) -> f64 {
        self.0.unit()
    }
}
