//! Who runs the cells of experiments here: the engine, and real kernels.

use kernel::{HostUse, Kernel};
use lab::diagnostic::Diagnostic;
use lab::runner::Worlds;
use sim::{Control, RunResult, RunSpec};

/// The worlds of this program.
pub struct Here;

impl Worlds for Here {
    fn engine(&self, spec: &RunSpec, control: &Control) -> RunResult {
        sim::run(spec, control)
    }

    fn identity(&self, kernel: &Kernel) -> Result<String, Diagnostic> {
        let built = kernel::build::find(&kernel.build);
        built.map(|built| built.hash).map_err(|e| {
            let help = e.help().unwrap_or_default();
            Diagnostic::placeless(e.to_string(), help)
        })
    }

    fn kernel(&self, spec: &RunSpec, kernel: &Kernel, control: &Control) -> (RunResult, HostUse) {
        kernel::run(spec, kernel, control)
    }
}
