//! Who runs the cells of experiments here: the engine, and real kernels.

use kernel::Kernel;
use lab::diagnostic::Diagnostic;
use lab::model::HostUse;
use lab::runner::Worlds;
use sim::{Control, RunResult, RunSpec};

/// The worlds of this program.
pub struct Here;

impl Worlds for Here {
    fn engine(&self, spec: &RunSpec, control: &Control) -> RunResult {
        sim::run(spec, control)
    }

    fn identity(&self, kernel: &Kernel) -> Result<String, Diagnostic> {
        let ready = kernel::ready(kernel);
        ready.map(|built| built.hash).map_err(|e| {
            let accepted = e
                .help()
                .unwrap_or_default();
            Diagnostic::placeless(e.to_string(), accepted)
        })
    }

    fn kernel(&self, spec: &RunSpec, kernel: &Kernel, control: &Control) -> (RunResult, HostUse) {
        let (result, used) = kernel::run(spec, kernel, control);
        let used = HostUse {
            wall_ns: used.wall_ns,
            cpu_ns: used.cpu_ns,
            peak_bytes: used.peak_bytes,
        };
        (result, used)
    }
}
