//! `kernel`.

use super::key_value;
use clap::{Args, Subcommand};
use kernel::build::{Arch, ticks};
use std::path::PathBuf;

/// Subcommands for kernels.
#[derive(Debug, Subcommand)]
pub enum Kernel {
    /// Build a kernel from a source tree or a Debian package, in a folder outside of the tree
    Build(KernelBuild),
    /// Add a kernel as a distribution ships it, for guests with several CPUs, nodes or zones
    Add(KernelAdd),
    /// List the kernels that were built or added
    List(KernelList),
    /// Remove kernels, and the objects from which their next builds would start
    Remove(KernelRemove),
    /// Boot a kernel with a shell on this terminal; Ctrl-] kills it
    Shell(KernelShell),
}

/// Parses how often a second a kernel's timer ticks: 100, 250, 300 or 1000.
fn hz(text: &str) -> Result<u32, String> {
    let hz = text.parse().ok();
    let known = hz.filter(|hz| ticks::ACCEPTED.contains(hz));
    known.ok_or_else(|| "accepted: 100, 250, 300 or 1000".to_owned())
}

/// Parses what a kernel is built for.
fn arch(text: &str) -> Result<Arch, String> {
    let all = [Arch::Um, Arch::X86_64];
    let known = all.into_iter().find(|arch| arch.word() == text);
    known.ok_or_else(|| "accepted: um or x86_64".to_owned())
}

/// Arguments of `kernel shell`.
#[derive(Debug, Args)]
pub struct KernelShell {
    /// A name of `lowmark kernel list`
    #[arg(value_name = "NAME")]
    pub name: String,

    /// An experiment from whose first cell the guest takes machine and filesystem [default: 512
    /// MiB, and ext4 on an SSD of 10 GiB]
    #[arg(value_name = "EXPERIMENT")]
    pub experiment: Option<PathBuf>,

    /// Set a key of the experiment, such as `--set filesystem=xfs`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
}

/// Arguments of `kernel build`.
#[derive(Debug, Args)]
pub struct KernelBuild {
    /// A source tree of Linux; nothing is written there
    #[arg(value_name = "TREE", required_unless_present = "debian")]
    pub tree: Option<PathBuf>,
    /// The installed Debian package linux-source-VERSION instead of a tree
    #[arg(long, value_name = "VERSION", conflicts_with = "tree")]
    pub debian: Option<String>,
    /// A patch to apply, as `git diff` or `git format-patch` writes it; may be repeated
    #[arg(long, value_name = "FILE")]
    pub patch: Vec<PathBuf>,
    /// A fragment of a kernel configuration, applied after Lowmark's own; may be repeated
    #[arg(long, value_name = "FILE")]
    pub config: Vec<PathBuf>,
    /// The name for `policy = "kernel:NAME"` [default: the package's version, or the tree's release
    /// and folder]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Its purpose: `um`, User-Mode Linux, or `x86_64`, QEMU guests with several CPUs,
    /// nodes or zones
    #[arg(long, value_name = "ARCH", default_value = "um", value_parser = arch)]
    pub arch: Arch,
    /// A whole configuration to start from, such as a distribution's /boot/config-…; with `--arch
    /// x86_64`
    #[arg(long, value_name = "FILE")]
    pub config_from: Option<PathBuf>,
    /// Ticks a second of its timer [default: 100; with `--arch x86_64` 250]. Those of User-Mode
    /// Linux other than 100 are in the name, as in 6.12-hz250, and an experiment whose machine has
    /// that `hz` takes that build
    #[arg(long, value_name = "TICKS", value_parser = hz)]
    pub hz: Option<u32>,
    /// Leave out the patch that makes computation take time
    #[arg(long)]
    pub without_costs: bool,
    /// No progress
    #[arg(long, short)]
    pub quiet: bool,
}

/// Arguments of `kernel add`.
#[derive(Debug, Args)]
pub struct KernelAdd {
    /// The version of installed Debian packages linux-image-VERSION-amd64 and
    /// linux-headers-VERSION-amd64, as 6.12
    #[arg(long, value_name = "VERSION", required = true)]
    pub debian_image: String,
    /// The folder of the Debian system that they are installed in, as debootstrap makes it for a
    /// release that is newer than this machine's; its compiler builds the driver
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// The name for `policy = "kernel:NAME"` [default: the version]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
}

/// Arguments of `kernel list`.
#[derive(Debug, Args)]
pub struct KernelList {
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `kernel remove`.
#[derive(Debug, Args)]
pub struct KernelRemove {
    /// Names of `lowmark kernel list`
    #[arg(value_name = "NAME", required_unless_present = "images")]
    pub names: Vec<String>,

    /// Remove the disk images that runs have kept; later runs make new ones
    #[arg(long)]
    pub images: bool,
}
