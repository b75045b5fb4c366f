//! Who runs the cells of experiments here: the engine, and real kernels.

use lab::runner::Worlds;
use sim::{Control, RunResult, RunSpec};

/// The worlds of this program.
pub struct Here;

impl Worlds for Here {
    fn engine(&self, spec: &RunSpec, control: &Control) -> RunResult {
        sim::run(spec, control)
    }
}
