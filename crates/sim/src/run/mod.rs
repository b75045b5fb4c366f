//! One run: build a world, boot it, run the workload, gather what it left.

mod boot;
mod build;
mod execute;
mod gather;
mod shell;
mod watch;

pub use build::{build, cpus_of_node, engine_config, since_tick, try_build, watermarks};
pub(crate) use build::{config_of, params};
pub use execute::Recorded;

use crate::Control;
use crate::result::RunResult;
use crate::spec::RunSpec;
use execute::{Record, run_in};
use std::sync::PoisonError;

/// Runs one cell at one iteration; deterministic in `spec`. [`Control::listener`] hears its events. Where the host has no memory for it, it
/// unwinds with [`mm::NoMemory`] and no message.
///
/// A call of its own in the program too: `tests/bench-gate` counts the instructions below it.
#[inline(never)]
pub fn run(spec: &RunSpec, control: &Control) -> RunResult {
    with_tracepoints::<true>(spec, control)
}

/// As [`run`], with every event of reclaim and writeback recorded. Recording changes nothing.
pub fn traced(spec: &RunSpec, control: &Control) -> (RunResult, Recorded) {
    run_in::<true>(spec, control, Record::Ring)
}

/// As [`run`], which has the tracepoints in place (`T`) and nobody who listens. That costs nothing to speak
/// of, so only the benchmark that shows it builds the engine once more without them.
pub fn with_tracepoints<const T: bool>(spec: &RunSpec, control: &Control) -> RunResult {
    let listener = control.listener.lock();
    let listener = listener.unwrap_or_else(PoisonError::into_inner).take();
    let record = listener.map_or(Record::Nothing, Record::For);
    run_in::<T>(spec, control, record).0
}
