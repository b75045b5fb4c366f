//! One run: builds a world, boots it, runs the workload, gathers the result.

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

/// Runs one cell at one iteration; deterministic in `spec`. [`Control::listener`] receives its
/// events. If the host has no memory for it, `run` unwinds with [`mm::NoMemory`] and no message.
///
/// The function is never inlined, because `tests/bench-gate` counts the instructions below its
/// call.
#[inline(never)]
pub fn run(spec: &RunSpec, control: &Control) -> RunResult {
    with_tracepoints::<true>(spec, control)
}

/// Runs as [`run`] does and records every event of reclaim and writeback. Recording changes
/// nothing.
pub fn traced(spec: &RunSpec, control: &Control) -> (RunResult, Recorded) {
    run_in::<true>(spec, control, Record::Ring)
}

/// Runs as [`run`] does, where `T` says whether tracepoints are compiled in. Tracepoints without a
/// listener cost next to nothing, so only the benchmark that shows this builds the engine without
/// them.
pub fn with_tracepoints<const T: bool>(spec: &RunSpec, control: &Control) -> RunResult {
    let listener = control.listener.lock();
    let listener = listener.unwrap_or_else(PoisonError::into_inner).take();
    let record = listener.map_or(Record::Nothing, Record::For);
    run_in::<T>(spec, control, record).0
}
