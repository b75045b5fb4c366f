//! `tune`.

use super::{key_value, size};
use clap::Args;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

/// Arguments of `tune`.
#[derive(Debug, Args)]
pub struct Tune {
    /// An experiment file with one machine, workload, filesystem and policy
    pub experiment: Option<PathBuf>,
    /// The machine, alone or instead of the experiment's: a file (`lowmark machine` writes this
    /// computer's), the name of a shipped machine, or a line such as 16G,8cpus,nvme
    #[arg(long, value_name = "MACHINE", required_unless_present = "experiment")]
    pub machine: Option<String>,
    /// The workload: a command line
    #[arg(long, value_name = "COMMAND", conflicts_with = "experiment")]
    pub workload: Option<String>,
    /// The workload: a trace
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "experiment"])]
    pub trace: Option<String>,
    /// The filesystem, with --machine
    #[arg(long, value_name = "NAME", default_value = "ext4")]
    pub filesystem: String,
    /// The kernel or policy, with --machine
    #[arg(long, value_name = "NAME", default_value = "linux-6.12")]
    pub policy: String,
    /// Set a key of the experiment, as in `--set machine.cpus=2`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Goal: the longest response of an interactive task, such as 100ms
    #[arg(long, value_name = "TIME", value_parser = lab::tune::goals::parse_time, help_heading = "Goals")]
    pub response: Option<u64>,
    /// Goal: the 99th percentile of requests of a fio job or a trace, such as 5ms
    #[arg(long, value_name = "TIME", value_parser = lab::tune::goals::parse_time, help_heading = "Goals")]
    pub fio_p99: Option<u64>,
    /// Goal: the longest page allocation, such as 100us
    #[arg(long, value_name = "TIME", value_parser = lab::tune::goals::parse_time, help_heading = "Goals")]
    pub alloc_latency: Option<u64>,
    /// Goal: the most entries into direct reclaim in a run
    #[arg(long, value_name = "N", help_heading = "Goals")]
    pub direct_reclaim: Option<u64>,
    /// Goal: the most memory kept free (the sum of the high watermarks), such as 64M
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Goals")]
    pub max_free: Option<u64>,
    /// Goal: the least throughput, such as 120MB/s, or 90% of that with the machine's own settings;
    /// without a value 95%
    #[arg(
        long, value_name = "FLOOR", value_parser = lab::tune::goals::parse_floor, help_heading = "Goals",
        num_args = 0..=1, default_missing_value = "95%"
    )]
    pub throughput: Option<lab::tune::goals::Floor>,
    /// Stress the machine with watermarks that adjust themselves until there is no direct reclaim,
    /// and write the final ones as a profile; `--search-seeds` runs a phase
    #[arg(long, conflicts_with_all = ["response", "fio_p99", "alloc_latency", "direct_reclaim", "max_free", "throughput", "profile"], help_heading = "Learning")]
    pub learn: bool,
    /// Try the watermarks of a profile that `--learn` wrote, without a search
    #[arg(long, value_name = "FILE", help_heading = "Learning")]
    pub profile: Option<PathBuf>,
    /// Search for the worst case instead: for the size, rate, interval and hold time of the
    /// workload's `burst` command with which the policy does worst, by `direct-reclaim` (for each
    /// MiB of the bursts) or `alloc-latency` [default: direct-reclaim]; `--budget` patterns,
    /// `--search-seeds` runs each
    #[arg(
        long, value_name = "WHAT", num_args = 0..=1, require_equals = true, value_parser = worst,
        default_missing_value = "direct-reclaim", help_heading = "Adversary",
        conflicts_with_all = ["response", "fio_p99", "alloc_latency", "direct_reclaim", "max_free", "throughput", "learn"]
    )]
    pub adversary: Option<lab::tune::adversary::Worst>,
    /// The settings that may be changed
    #[arg(
        long, value_name = "A,B", value_delimiter = ',', value_parser = knob,
        default_value = "min-free,watermarks,dirty,swappiness"
    )]
    pub knobs: Vec<lab::tune::space::Knob>,
    /// The search space of watermark distances: `scale-factor` as in Linux, or `explicit` low and
    /// high, which the written file converts to a factor
    #[arg(long, value_name = "FORM", default_value = "scale-factor", value_parser = ["scale-factor", "explicit"])]
    pub form: String,
    /// The most settings to try
    #[arg(long, value_name = "N", default_value = "40")]
    pub budget: NonZeroUsize,
    /// Runs of each setting during the search
    #[arg(long, value_name = "N", default_value = "2")]
    pub search_seeds: NonZeroU32,
    /// Runs of the chosen setting with other seeds
    #[arg(long, value_name = "N", default_value = "20")]
    pub seeds: NonZeroU32,
    /// Verify the answer in this real kernel, such as `kernel:6.12`, beside the machine's own
    /// settings; exit code 1 if it misses a goal there
    #[arg(
        long, value_name = "KERNEL", value_parser = real_kernel, help_heading = "Check",
        conflicts_with_all = ["learn", "adversary"]
    )]
    pub verify_in: Option<String>,
    /// Runs in that kernel, with either setting
    #[arg(
        long,
        value_name = "N",
        default_value = "6",
        requires = "verify_in",
        help_heading = "Check"
    )]
    pub verify_seeds: NonZeroU32,
    /// The seed of the search: equal seeds give equal answers
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Threads; the answer is the same for any number [default: all cores]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// The results folder, a new one [default: results/tune-NAME/TIME, with
    /// results/tune-NAME/latest as a link to it]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Replace earlier results in the folder of `--out`
    #[arg(long, requires = "out")]
    pub replace: bool,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Parses the name of a setting that `tune` may change. The error lists all names.
fn knob(text: &str) -> Result<lab::tune::space::Knob, String> {
    let all = lab::tune::space::Knob::NAMES;
    let found = all.iter().find(|(name, _)| *name == text);
    found
        .map(|(_, knob)| *knob)
        .ok_or_else(|| format!("accepted: {}", all.map(|(name, _)| name).join(", ")))
}

/// Parses the name of the figure by which `--adversary` judges a pattern of bursts. The error lists
/// all names.
fn worst(text: &str) -> Result<lab::tune::adversary::Worst, String> {
    let all = lab::tune::adversary::Worst::NAMES;
    let found = all.iter().find(|(name, _)| *name == text);
    found
        .map(|(_, worst)| *worst)
        .ok_or_else(|| format!("accepted: {}", all.map(|(name, _)| name).join(", ")))
}

/// Accepts `kernel:NAME`, and returns the text as it is; whether such a kernel was built is checked
/// later.
fn real_kernel(text: &str) -> Result<String, String> {
    let named = text.strip_prefix("kernel:").unwrap_or_default();
    match named.is_empty() {
        false => Ok(text.to_owned()),
        true => {
            Err("accepted: a kernel that `lowmark kernel list` shows, such as kernel:6.12".into())
        }
    }
}
