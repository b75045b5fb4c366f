//! The kernel of a cell and its settings.

use crate::build::ticks;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A kernel in the place of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// The name under which it was built, such as `6.12` or `6.12-mine`: the part of `kernel:6.12`
    /// after the colon.
    pub build: String,
    /// Whether the multi-generational LRU is on; `None`: the kernel's default (off in ours).
    pub lru_gen: Option<bool>,
    /// Sysctls beside the machine's: names below `/proc/sys` with dots or slashes, or without
    /// either below `vm`; and their texts.
    pub sysctl: BTreeMap<String, String>,
    /// Whether computation takes virtual time, by the run's table of costs.
    pub costs: bool,
}

impl Kernel {
    /// Returns the kernel built under this name, with default settings and costs on.
    pub fn new(build: &str) -> Self {
        Self {
            build: build.to_owned(),
            lru_gen: None,
            sysctl: BTreeMap::new(),
            costs: true,
        }
    }

    /// Returns the kernel in the build whose timer ticks `hz` times a second, for a machine with
    /// that timer.
    pub fn ticking(self, hz: u32) -> Self {
        Self {
            build: ticks::ticking(&self.build, hz),
            ..self
        }
    }
}
