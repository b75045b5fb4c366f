//! Which kernel a cell runs, and what is set in it.

use crate::build::ticks;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A kernel in the place of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// The name that it was built under, such as `6.12` or `6.12-mine`: `kernel:6.12` without the word
    /// before the colon.
    pub build: String,
    /// Whether the multi-generational LRU is on; `None`: as the kernel comes up (off in ours).
    pub lru_gen: Option<bool>,
    /// Sysctls beside the machine's: names below `/proc/sys` with dots or slashes, or without either
    /// below `vm`; and their texts.
    pub sysctl: BTreeMap<String, String>,
    /// Whether computing takes time, by the run's table of costs.
    pub costs: bool,
}

impl Kernel {
    /// A kernel as it comes, with costs on.
    pub fn new(build: &str) -> Self {
        Self {
            build: build.to_owned(),
            lru_gen: None,
            sysctl: BTreeMap::new(),
            costs: true,
        }
    }

    /// Returns it as it runs on a machine whose timer ticks `hz` times a second: in the build for that.
    pub fn ticking(self, hz: u32) -> Self {
        Self {
            build: ticks::ticking(&self.build, hz),
            ..self
        }
    }
}
