//! `bisect`.

use super::key_value;
use clap::Args;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Arguments of `bisect`.
#[derive(Debug, Args)]
pub struct Bisect {
    /// A git repository with sources of Linux; nothing is written there
    #[arg(value_name = "TREE")]
    pub tree: PathBuf,
    /// The experiment to run with each kernel; its own policies are ignored
    #[arg(value_name = "EXPERIMENT")]
    pub experiment: PathBuf,
    /// A good revision
    #[arg(long, value_name = "REVISION")]
    pub good: String,
    /// A later, bad revision
    #[arg(long, value_name = "REVISION")]
    pub bad: String,
    /// The figure that distinguishes them: a row, a counter or a figure of the workload
    #[arg(long, value_name = "NAME")]
    pub metric: String,
    /// The highest probability of a wrong answer
    #[arg(long, value_name = "P", default_value_t = 0.05)]
    pub error: f64,
    /// The most runs of one kernel, each with its own seed
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub most: u32,
    /// A patch to apply to every kernel; may be repeated
    #[arg(long, value_name = "FILE")]
    pub patch: Vec<PathBuf>,
    /// A fragment of a kernel configuration, applied after Lowmark's own; may be repeated
    #[arg(long, value_name = "FILE")]
    pub config: Vec<PathBuf>,
    /// Leave out the patch that makes computation take time
    #[arg(long)]
    pub without_costs: bool,
    /// Set a key of the experiment, as in `--set filesystem=xfs`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// The folder of the search; the same command continues an interrupted search [default:
    /// results/bisect-NAME-GOOD-BAD]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Threads; the answer is the same for any number [default: all cores]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Print the answer as JSON
    #[arg(long)]
    pub json: bool,
    /// No progress
    #[arg(long, short)]
    pub quiet: bool,
}
