//! The back end for machines that User-Mode Linux cannot be: several CPUs, nodes, zones, large
//! folios, kernels as distributions ship them.
//!
//! QEMU interprets an x86-64 machine (TCG; no KVM, no root). Its virtual time is a count of
//! executed instructions ([`clock`]), and its disks are asked for their answers by the guest itself
//! ([`bell`]): a store to one byte of a device's config space stops virtual time until this program
//! has dealt with the device's mailbox. So nothing reaches a guest at a time that the guest did not
//! choose.

pub mod bell;
pub mod clock;
pub mod installed;
pub mod machine;
pub mod program;
pub mod server;
pub mod start;

use self::installed::Installed;
use self::machine::Layout;
use self::program::Program;
use self::start::Start;
use crate::build::BuildError;
use crate::launch::{ERRORS, Launch};
use ::guest::wire::Assignment;
use sim::spec::{FsKind, Machine, RunSpec};
use std::fs;
use vm_memory::GuestMemoryMmap;

/// Returns all that the result of a guest depends on beside its run: kernel, QEMU, clock and speed.
///
/// # Errors
/// There is no such kernel, or no QEMU.
pub fn identity(name: &str) -> Result<String, BuildError> {
    let kernel = installed::find(name)?;
    let program = program::find().map_err(|e| BuildError::input(e.what, e.remedy))?;
    Ok(format!(
        "{} qemu {} clock {} quantum {} ns",
        kernel.record.digest,
        program.version,
        clock::digest(),
        clock::QUANTUM_NS
    ))
}

/// Returns the speed of a machine's CPUs, in millions of instructions a virtual second.
fn mips(machine: &Machine) -> u64 {
    machine
        .cpu_speed
        .map_or(clock::MIPS, |speed| speed.0.into())
}

/// Returns this computer's memory in bytes.
fn host_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    ::guest::meminfo(&text, "MemTotal").map_or(u64::MAX, |kib| kib * 1024)
}

/// A kernel with all that its guests need.
pub struct Bootable {
    /// The kernel.
    pub kernel: Installed,
    /// The memory of its machine.
    layout: Layout,
    program: Program,
    /// The path of the clock's library.
    clock: String,
}

impl Bootable {
    /// Finds a kernel by its name, QEMU and the clock.
    ///
    /// # Errors
    /// One of them is missing, or QEMU can't be this machine; in one line.
    pub fn find(name: &str, machine: &Machine) -> Result<Self, String> {
        let kernel = installed::find(name).map_err(|e| match e.help() {
            Some(help) => format!("{e}: {help}"),
            None => e.to_string(),
        })?;
        let layout = Layout::of(machine).map_err(|(key, why)| format!("`{key}`: {why}"))?;
        let most = host_memory();
        if layout.bytes() > most {
            let mib = |bytes: u64| bytes >> 20;
            let (own, most) = (mib(layout.bytes()), mib(most));
            return Err(format!(
                "`machine.node`: {own} MiB, and this computer has {most} MiB"
            ));
        }
        Ok(Self {
            kernel,
            layout,
            program: program::find().map_err(|e| e.to_string())?,
            clock: clock::library()?.display().to_string(),
        })
    }

    /// Returns paths in the initramfs and contents of the modules that a run's guest loads.
    ///
    /// # Errors
    /// A file can't be read.
    pub(crate) fn modules(
        &self,
        spec: &RunSpec,
        task: Assignment,
    ) -> Result<Vec<(String, Vec<u8>)>, String> {
        let kinds: Vec<FsKind> = match task {
            Assignment::Try => Vec::new(),
            _ => spec
                .machine
                .mounted()
                .map(|m| m.filesystem.unwrap_or(spec.filesystem))
                .collect(),
        };
        let read = |path: std::path::PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let bytes = fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            Ok((format!("/modules/{name}"), bytes))
        };
        self.kernel.modules(&kinds).into_iter().map(read).collect()
    }

    /// Returns the note that the record of a run has: where it ran, and on what.
    pub(crate) fn note(&self, machine: &Machine) -> String {
        format!(
            "on QEMU {}, {} M instructions a second and CPU in windows of {} ns; Linux {}, digest {}",
            self.program.version,
            mips(machine),
            clock::QUANTUM_NS,
            self.kernel.record.release,
            self.kernel.record.digest
        )
    }

    /// Makes the memory of a guest and says how its process is started.
    ///
    /// # Errors
    /// The host has no such memory.
    pub(crate) fn launch(
        &self,
        spec: &RunSpec,
        seed: u64,
        disks: usize,
    ) -> Result<(Launch, GuestMemoryMmap), String> {
        let made = self.layout.make();
        let (files, memory) = made.map_err(|e| format!("the guest's memory: {e}"))?;
        let image = self.kernel.image().display().to_string();
        let start = Start {
            program: &self.program,
            clock: &self.clock,
            mips: mips(&spec.machine),
            seed,
            image: &image,
            machine: &spec.machine,
            layout: &self.layout,
            disks,
        };
        let launch = Launch {
            program: self.program.path.clone(),
            args: start::arguments(&start),
            env: vec![
                ("LD_PRELOAD", self.clock.clone()),
                ("LOWMARK_PLUGIN_API", self.program.plugin_api.to_string()),
            ],
            output: ERRORS,
            files: files.into_iter().zip(start::MEMORY..).collect(),
        };
        Ok((launch, memory))
    }
}
