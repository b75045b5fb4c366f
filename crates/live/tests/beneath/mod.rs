//! Unreliable storages beneath the cache.
//!
//! [`Faulty`] wraps any storage: calls are interrupted, return short, late, or with an error.
//! [`Disk`] is a device in memory that can lose power. Both draw from a seed, but the order in
//! which the cache's threads call them is not determined.
#![allow(dead_code, unused_imports)] // not every test uses all of them

mod disk;
mod faulty;

pub use disk::Disk;
pub use faulty::{Faults, Faulty, Rates};

/// A pseudorandom generator: xorshift64*.
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

    /// Returns true with probability `rate` in a thousand.
    pub fn hits(&mut self, rate: u64) -> bool {
        self.below(1000) < rate
    }
}
