//! The worlds that run the cells of experiments: the engine, and real kernels.

use kernel::{Guest, HostUse, Kernel, Refused};
use lab::diagnostic::Diagnostic;
use lab::runner::Worlds;
use sim::{Control, RunResult, RunSpec};
use std::time::Duration;

/// The worlds of this program.
pub struct Here {
    /// Wall time without virtual progress after which a kernel's guest is killed.
    pub patience: Duration,
}

impl Default for Here {
    /// Returns the worlds with the usual patience for a guest that makes no progress.
    fn default() -> Self {
        let patience = kernel::PATIENCE;
        Self { patience }
    }
}

impl Worlds for Here {
    fn engine(&self, spec: &RunSpec, control: &Control) -> RunResult {
        sim::run(spec, control)
    }

    /// Returns the hash by which a built kernel is recognised; an error if there is no such kernel.
    fn identity(&self, kernel: &Kernel) -> Result<String, Diagnostic> {
        let identity = match kernel.guest {
            Guest::Uml => kernel::build::find(&kernel.build).map(|built| built.hash),
            Guest::Qemu => kernel::qemu::identity(&kernel.build),
        };
        identity.map_err(|e| {
            let help = e.help().unwrap_or_default();
            Diagnostic::placeless(e.to_string(), help)
        })
    }

    /// Returns the release of a built kernel; `None` if it is not built.
    fn release(&self, kernel: &Kernel) -> Option<String> {
        match kernel.guest {
            Guest::Uml => Some(kernel::build::find(&kernel.build).ok()?.release),
            Guest::Qemu => {
                let found = kernel::qemu::installed::find(&kernel.build);
                Some(found.ok()?.record.release)
            }
        }
    }

    /// Returns true if computing takes time in a built kernel (Lowmark's patch).
    fn has_costs(&self, kernel: &Kernel) -> bool {
        // Each instruction of a QEMU guest takes time.
        kernel.guest == Guest::Qemu
            || kernel::build::find(&kernel.build).is_ok_and(|built| built.record.costs)
    }

    /// Boots the kernel on the machine of `spec` and returns, by zone name, the pages of each zone
    /// that its allocator owns. The error is that the kernel does not boot.
    fn owned(
        &self,
        spec: &RunSpec,
        kernel: &Kernel,
        control: &Control,
    ) -> Result<Option<Vec<(String, u64)>>, String> {
        kernel::owned(spec, kernel, self.patience, control).map(Some)
    }

    fn kernel(&self, spec: &RunSpec, kernel: &Kernel, control: &Control) -> (RunResult, HostUse) {
        kernel::run(spec, kernel, self.patience, control)
    }

    /// Tries the settings of `spec` in the kernel. Returns the first one that the kernel refuses;
    /// `None` if it takes all.
    fn refuses(
        &self,
        spec: &RunSpec,
        kernel: &Kernel,
        control: &Control,
    ) -> Result<Option<Refused>, String> {
        kernel::refuses(spec, kernel, self.patience, control)
    }
}
