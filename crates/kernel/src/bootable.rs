//! The kernel of a run, in one of the back ends.

use crate::build::{BuildError, Built};
use crate::guest;
use crate::process::Process;
use crate::qemu;
use crate::spec::{Guest, Kernel};
use sim::spec::RunSpec;
use std::fs;
use std::path::{Path, PathBuf};

/// A kernel of one of the back ends, and what its guests need.
pub(crate) enum Bootable {
    /// A kernel that was built for User-Mode Linux.
    Uml(Built),
    /// A kernel for QEMU.
    Qemu(qemu::Bootable),
}

/// Finds the kernel of this name for User-Mode Linux. Where only a QEMU guest has one of the name,
/// the error says how that one is run.
///
/// # Errors
/// There is none, it is damaged, or another version of this program built it.
pub fn find_uml(name: &str) -> Result<Built, BuildError> {
    crate::build::find(name).map_err(|e| match e {
        BuildError::Input { accepted, .. } if qemu::installed::find(name).is_ok() => {
            BuildError::Input {
                what: format!("the kernel {name} is there for QEMU, and none for User-Mode Linux"),
                accepted: format!(
                    "`guest = \"qemu\"` in the experiment (`--set 'guest=\"qemu\"'`), or {accepted}"
                ),
            }
        }
        other => other,
    })
}

impl Bootable {
    /// Finds the kernel that a cell names, and checks that it can have the cell's machine.
    pub fn find(spec: &RunSpec, kernel: &Kernel) -> Result<Self, String> {
        match kernel.guest {
            Guest::Uml => {
                let built = find_uml(&kernel.build).map_err(|e| match e.help() {
                    Some(help) => format!("{e}; {help}"),
                    None => e.to_string(),
                })?;
                ticks_as(&built.name, built.record.hz, spec)?;
                if guest::movable(&spec.machine) > 0 && built.record.own_patches.is_empty() {
                    return Err(format!(
                        "kernel {} has no zone Movable: User-Mode Linux creates its zones before it \
                         reads their sizes, and this kernel was built without the patch that corrects \
                         the order",
                        built.name
                    ));
                }
                Ok(Self::Uml(built))
            }
            Guest::Qemu => {
                let found = qemu::Bootable::find(&kernel.build, &spec.machine)?;
                ticks_as(&found.kernel.name, found.kernel.record.hz, spec)?;
                Ok(Self::Qemu(found))
            }
        }
    }

    /// Returns the library to preload for tools that make filesystems, and the kernel's digest.
    pub fn preload_and_digest(&self) -> (PathBuf, &str) {
        match self {
            Self::Uml(built) => (built.preload.clone(), &built.hash),
            Self::Qemu(found) => (found.kernel.preload(), &found.kernel.record.digest),
        }
    }

    /// Returns the task that was running in a guest that has hung, if it can be told.
    pub fn running(&self, process: &Process) -> Option<String> {
        match self {
            Self::Uml(built) => running(&built.linux, process),
            Self::Qemu(_) => None,
        }
    }
}

/// Checks that a kernel ticks as often as a run's machine says.
fn ticks_as(name: &str, hz: u32, spec: &RunSpec) -> Result<(), String> {
    if hz == spec.machine.hz {
        return Ok(());
    }
    Err(format!(
        "kernel {name} ticks {hz} times a second, and the machine {}: `hz = {hz}`",
        spec.machine.hz
    ))
}

/// Returns the name of the task that runs in a guest, read from the memory of its process; `linux`
/// is the kernel's executable. The kernel keeps a pointer to the name only with the patch for
/// costs: `None` without it.
fn running(linux: &Path, process: &Process) -> Option<String> {
    use object::{Object, ObjectSymbol};
    let bytes = fs::read(linux).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let symbol = file.symbol_by_name("cpu_cost_running")?;
    // A pointer to the name, since exec changes the name in place.
    let at = process.memory(symbol.address(), 8).ok()?;
    let at = u64::from_le_bytes(at.try_into().ok()?);
    let name = process.memory(at, 16).ok()?;
    let name = name.split(|b| *b == 0).next()?;
    (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
}
