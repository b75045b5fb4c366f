//! `validate`.

use super::key_value;
use clap::Args;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

/// Arguments of `validate`.
#[derive(Debug, Args)]
pub struct Validate {
    /// Experiment files; their own policies are not asked
    #[arg(required = true, value_name = "EXPERIMENT")]
    pub experiments: Vec<PathBuf>,
    /// A real kernel to be held to, by the name that it was built under; may be repeated
    #[arg(long = "kernel", value_name = "NAME", default_value = "6.12")]
    pub kernels: Vec<String>,
    /// The engine's preset that is judged; may be repeated [default: the nearest one that there is]
    #[arg(long = "preset", value_name = "POLICY", default_value = NEAREST_PRESET)]
    pub presets: Vec<String>,
    /// Iterations of each, instead of the file's: their range is what the preset is held to
    #[arg(long, value_name = "N", default_value = "5")]
    pub iterations: NonZeroU32,
    /// Threads; the results are the same for any number [default: all cores]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// The results folder, a new one; of several experiments each has a folder of its name in it [default:
    /// results/NAME/TIME]
    #[arg(long, value_name = "DIR", group = "place")]
    pub out: Option<PathBuf>,
    /// Replace earlier results in the folder of `--out` or `--resume`, when the new ones are complete
    #[arg(long, requires = "place")]
    pub replace: bool,
    /// Go on with what was interrupted or killed: the results folder, or the one beside it that ends in
    /// `.partial`; of several experiments the folder of `--out`; everything else as it was begun
    #[arg(long, value_name = "DIR", group = "place")]
    pub resume: Option<PathBuf>,
    /// Seconds of wall time after which a real kernel's guest is given up that makes no progress in virtual
    /// time
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

/// The preset that comes nearest to kernels of today.
pub const NEAREST_PRESET: &str = "linux-4.9";
