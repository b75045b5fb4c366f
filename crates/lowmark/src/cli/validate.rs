//! `validate`.

use super::key_value;
use clap::Args;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

/// Arguments of `validate`.
#[derive(Debug, Args)]
pub struct Validate {
    /// Experiment files; their own policies are ignored
    #[arg(required_unless_present = "suite", value_name = "EXPERIMENT")]
    pub experiments: Vec<PathBuf>,
    /// A real kernel to compare with, by the name that it was built under; may be repeated
    /// [default: 6.12; with --against all that are kept]
    #[arg(long = "kernel", value_name = "NAME")]
    pub kernels: Vec<String>,
    /// The engine's preset to judge; may be repeated [default: for each kernel the nearest one]
    #[arg(long = "preset", value_name = "POLICY")]
    pub presets: Vec<String>,
    /// Run and score all scenarios of a suite: `modern`, or a folder of experiments with one cell
    /// each
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with = "experiments",
        help_heading = "Suites"
    )]
    pub suite: Option<String>,
    /// Run only this scenario of the suite, and print tables of its figures; may be repeated
    #[arg(
        long = "scenario",
        value_name = "NAME",
        requires = "suite",
        help_heading = "Suites"
    )]
    pub scenarios: Vec<String>,
    /// Keep the kernels' figures in this folder, one file per kernel, beside those of other
    /// scenarios
    #[arg(
        long,
        value_name = "DIR",
        requires = "suite",
        conflicts_with = "against",
        help_heading = "Suites"
    )]
    pub keep: Option<PathBuf>,
    /// Compare with kept figures, without running a guest
    #[arg(long, value_name = "DIR", requires = "suite", conflicts_with_all = ["place", "replace"], help_heading = "Suites")]
    pub against: Option<PathBuf>,
    /// Print the suite's tables as Markdown
    #[arg(
        long,
        requires = "suite",
        conflicts_with = "json",
        help_heading = "Suites"
    )]
    pub markdown: bool,
    /// Iterations of each, instead of the file's: the kernel's range over them is the reference
    #[arg(long, value_name = "N", default_value = "5")]
    pub iterations: NonZeroU32,
    /// Threads; the results are the same for any number [default: all cores]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// The results folder, a new one; with several experiments it contains one folder for each
    /// [default: results/NAME/TIME]
    #[arg(long, value_name = "DIR", group = "place")]
    pub out: Option<PathBuf>,
    /// Replace earlier results in the folder of `--out` or `--resume`, when the new ones are
    /// complete
    #[arg(long, requires = "place")]
    pub replace: bool,
    /// Continue an interrupted or killed validation: the results folder, or the one beside it that
    /// ends in `.partial`; for several experiments the folder of `--out`; all other settings as at
    /// its start
    #[arg(long, value_name = "DIR", group = "place")]
    pub resume: Option<PathBuf>,
    /// Seconds of wall time without progress in virtual time after which a real kernel's guest is
    /// killed
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub patience: u64,
    /// Set a key of the experiments, as in `--set filesystem=xfs`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Print the figures as JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// No progress and no tables
    #[arg(long, short)]
    pub quiet: bool,
}

/// The kernel with which presets are compared by default.
const KERNEL: &str = "6.12";

impl Validate {
    /// Returns the names under which the kernels of `--kernel` were built, without `kernel:`; 6.12
    /// if the option is absent.
    pub fn kernels(&self) -> Vec<String> {
        let bare = |name: &String| name.strip_prefix("kernel:").unwrap_or(name).to_owned();
        match self.kernels.is_empty() {
            true => vec![KERNEL.to_owned()],
            false => self.kernels.iter().map(bare).collect(),
        }
    }
}
