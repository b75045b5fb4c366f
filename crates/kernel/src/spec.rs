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
    /// Whether computation takes virtual time, by the run's table of costs. In a QEMU guest it
    /// always does.
    pub costs: bool,
    /// The back end that runs its guests.
    #[serde(default, skip_serializing_if = "Guest::is_uml")]
    pub guest: Guest,
}

/// A back end of the kernel world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guest {
    /// User-Mode Linux: one CPU, one zone, a kernel that was built for it.
    #[default]
    Uml,
    /// QEMU: several CPUs, nodes and zones, kernels as distributions ship them.
    Qemu,
}

impl Guest {
    /// Returns true for User-Mode Linux.
    pub fn is_uml(&self) -> bool {
        *self == Self::Uml
    }

    /// Returns the word in experiments.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uml => "uml",
            Self::Qemu => "qemu",
        }
    }
}

impl Kernel {
    /// Returns the kernel built under this name, with default settings and costs on.
    pub fn new(build: &str) -> Self {
        Self {
            build: build.to_owned(),
            lru_gen: None,
            sysctl: BTreeMap::new(),
            costs: true,
            guest: Guest::Uml,
        }
    }

    /// Returns it as it runs on a machine whose timer ticks `hz` times a second: in the build for
    /// that. A kernel for QEMU has the ticks with which it was built.
    pub fn ticking(self, hz: u32) -> Self {
        if self.guest == Guest::Qemu {
            return self;
        }
        Self {
            build: ticks::ticking(&self.build, hz),
            ..self
        }
    }
}
