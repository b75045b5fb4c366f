//! Worlds beneath the cache that are not what one hopes for.
//!
//! [`Faulty`] stands between the cache and any storage: calls are interrupted, answered short, late,
//! or with an error. [`Disk`] is a device in memory that can lose power. Both draw from a seed; in
//! which order the cache's threads come to them is not theirs to say.
#![allow(dead_code, unused_imports)] // not every test has all of them

mod disk;
mod faulty;

pub use disk::Disk;
pub use faulty::{Faults, Faulty, Rates};

/// xorshift64*.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % n
    }

    /// Whether something happens that does so `rate` times in a thousand.
    pub fn hits(&mut self, rate: u64) -> bool {
        self.below(1000) < rate
    }
}
