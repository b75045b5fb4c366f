//! The memory limit of a simulation.

use std::fmt;

/// The bytes of memory that may be used; `None`: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Budget(pub Option<u64>);

impl Budget {
    /// Returns true if `bytes` bytes may be used.
    pub fn has(self, bytes: u64) -> bool {
        self.0.is_none_or(|most| bytes <= most)
    }

    /// Returns what is left after `bytes` bytes are used.
    pub fn without(self, bytes: u64) -> Self {
        Self(self.0.map(|most| most.saturating_sub(bytes)))
    }

    /// Returns how many times `bytes` bytes fit into the budget, at most `most`; used for the
    /// number of threads.
    pub fn times(self, bytes: u64, most: usize) -> usize {
        self.0.map_or(most, |all| {
            let times = all / bytes.max(1);
            usize::try_from(times).unwrap_or(most).min(most)
        })
    }
}

impl fmt::Display for Budget {
    /// Writes how much memory is left, as part of an error's sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(bytes) => write!(f, "{} MiB of memory are left here", bytes >> 20),
            None => f.write_str("memory has no limit"),
        }
    }
}
