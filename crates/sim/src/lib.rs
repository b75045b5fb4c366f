//! The virtual world.
#![forbid(unsafe_code)]

pub mod block;
pub mod disk;
pub mod params;
pub mod result;
pub mod rng;
pub mod spec;

pub use params::Params;
pub use result::{Outcome, RunResult};
pub use spec::RunSpec;

use std::sync::atomic::{AtomicBool, AtomicU64};

/// How the outside watches and stops a run.
#[derive(Debug, Default)]
pub struct Control {
    /// Set to stop the run at the next opportunity.
    pub stop: AtomicBool,
    /// Simulated nanoseconds so far, for progress displays only.
    pub sim_ns: AtomicU64,
}

/// Runs one cell at one iteration; deterministic in `spec`.
pub fn run(_spec: &RunSpec, _control: &Control) -> RunResult {
    RunResult {
        outcome: Outcome::Failed { error: "the virtual world is not built yet".into() },
        metrics: Default::default(),
        counters: Default::default(),
        series: Default::default(),
        alloc_latency: result::AllocLatency { paths: Vec::new() },
        tracker: None,
        sim_ns: 0,
        notes: Vec::new(),
        digest: 0,
    }
}
