//! The virtual world.
#![forbid(unsafe_code)]
// A write that reclaims, whose reclaim writes: futures in futures.
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
pub(crate) use measure::monitors;
pub use measure::{
    account, ftrace, latency, perfetto, result, sample, slowest, stack, stored, waiting,
};
pub use params::Params;
pub use result::{Origin, Outcome, RunResult};
pub use run::run;
pub use spec::RunSpec;
// What every room meets: the world, as the engine is what every room of `mm` meets.
pub use world::{SimMm, SimWorld};
pub(crate) use world::{Tag, own_queue};

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

/// How the outside watches and stops a run.
#[derive(Debug, Default)]
pub struct Control {
    /// Set to stop the run within [`watchdog::LOOK_POLLS`] polls of its tasks.
    pub stop: Arc<AtomicBool>,
    /// Simulated nanoseconds so far, for progress displays only.
    pub sim_ns: AtomicU64,
    /// Polls that the run took, at its end; see [`watchdog`].
    pub polls: AtomicU64,
    /// Who hears the run's events, and is taken by it.
    pub listener: Mutex<Option<Box<dyn world::Listener>>>,
}
