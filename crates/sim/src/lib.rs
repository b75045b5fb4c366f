#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
// A write that reclaims, whose reclaim writes, nests futures deeply.
#![recursion_limit = "256"]

pub mod bench;
pub mod block;
pub mod disks;
pub mod executor;
pub mod filesystems;
pub mod footprint;
pub mod host;
pub mod measure;
pub mod params;
pub mod rng;
pub mod run;
pub mod spec;
pub mod world;

pub use disks::DiskKind;
pub use executor::{sched, watchdog};
pub use filesystems::FsKind;
pub use measure::{
    account, ftrace, latency, perfetto, result, sample, slowest, stack, stored, waiting,
};
pub(crate) use measure::{groups, monitors};
pub use params::Params;
pub use result::{Origin, Outcome, RunResult};
pub use run::run;
pub use spec::RunSpec;
// Used by every module: the world, and the engine on it.
pub use world::{SimMm, SimWorld};
pub(crate) use world::{Tag, own_queue};

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

/// How a caller watches and stops a run.
#[derive(Debug, Default)]
pub struct Control {
    /// Set to stop the run within [`watchdog::LOOK_POLLS`] polls of its tasks.
    pub stop: Arc<AtomicBool>,
    /// Simulated nanoseconds so far; for progress displays only.
    pub sim_ns: AtomicU64,
    /// Polls that the run took, at its end; see [`watchdog`].
    pub polls: AtomicU64,
    /// Receives the run's events; the run takes it out.
    pub listener: Mutex<Option<Box<dyn world::Listener>>>,
}
