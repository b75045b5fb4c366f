//! What the command line accepts.

use clap::{Args, Parser, Subcommand};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

/// Simulates Linux page reclaim and writeback, and compares policies on it.
///
/// Exit codes: 0 done, 1 a check failed or results could not be written, 2 wrong input,
/// 130 interrupted.
#[derive(Debug, Parser)]
#[command(name = "lowmark", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run an experiment and compare its policies
    Run(Run),
    /// Score the engine against published tables
    Reproduce(Reproduce),
    /// List the model's parameters with their sources
    Params(Params),
    /// Print the JSON schema of machine files
    Schema,
    /// Show how misses and stalls of a trace depend on the cache's size and eviction policy
    Mrc(Mrc),
    /// List the eviction policies
    Policies(Policies),
    /// Measure speed and size of the engine, or speed of the cache simulator, on this computer
    Bench(Bench),
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct Run {
    /// The experiment file
    #[arg(default_value = "experiments/usb-stick.toml")]
    pub experiment: PathBuf,
    /// Iterations of each cell, instead of the file's
    #[arg(long, value_name = "N")]
    pub iterations: Option<NonZeroU32>,
    /// The seed that iterations derive theirs from, instead of the file's
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Threads; the results are the same for any number [default: all cores]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// The results folder [default: results/NAME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Run every iteration twice, compare, and recount all lists and counters on the way
    #[arg(long)]
    pub check: bool,
    /// Show the matrix and run nothing
    #[arg(long)]
    pub list: bool,
    /// Record which path instantiated, dirtied and activated each page
    #[arg(long)]
    pub track_pages: bool,
    /// Set a key of the experiment, as in `--set machine.cpus=2`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Print the results as JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// No progress and no tables
    #[arg(long, short)]
    pub quiet: bool,
}

/// Arguments of `reproduce`.
#[derive(Debug, Args)]
pub struct Reproduce {
    /// The published series; all of them if absent
    pub series: Option<String>,
    /// Tables of the same format to score against, instead of the published ones
    #[arg(long, value_name = "DIR")]
    pub tables: Option<PathBuf>,
    /// Iterations of each cell, instead of the series' own
    #[arg(long, value_name = "N")]
    pub iterations: Option<NonZeroU32>,
    /// Threads; the results are the same for any number [default: all cores]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `params`.
#[derive(Debug, Args)]
pub struct Params {
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `mrc`.
#[derive(Debug, Args)]
pub struct Mrc {
    /// The trace, plain or compressed with zstd
    #[arg(long, value_name = "FILE")]
    pub trace: PathBuf,
    /// Its format [default: recognised]
    #[arg(long, value_parser = trace::Format::NAMES)]
    pub format: Option<String>,
    /// What object numbers of oracleGeneral and CSV traces are
    #[arg(long, default_value = "auto", value_parser = trace::Unit::NAMES)]
    pub unit: String,
    /// Count and skip records that can't be read
    #[arg(long)]
    pub lenient: bool,
    /// Take every record as one request for one object, whatever its size
    #[arg(long)]
    pub ignore_size: bool,
    /// Pages of the cache: `5000,10000`, `1000..100000:50` in equal ratios, or with `:linear`
    #[arg(long, value_name = "SIZES")]
    pub sizes: replay::Sizes,
    /// Policies of `lowmark policies`, or `all`
    #[arg(
        long,
        default_value = "lru",
        value_delimiter = ',',
        value_name = "NAMES"
    )]
    pub policy: Vec<String>,
    /// Model dirty pages, their limits and writing them back
    #[arg(long)]
    pub writes: bool,
    /// Percentage of the cache that may be dirty or being written
    #[arg(
        long,
        default_value_t = 20.0,
        value_name = "PERCENT",
        requires = "writes"
    )]
    pub dirty_limit: f64,
    /// Percentage of the cache that may be dirty before the flusher begins
    #[arg(
        long,
        default_value_t = 10.0,
        value_name = "PERCENT",
        requires = "writes"
    )]
    pub dirty_background: f64,
    /// MiB that the device writes in a second
    #[arg(long, default_value_t = 100.0, value_name = "MIB", requires = "writes")]
    pub write_rate: f64,
    /// Threads; the results are the same for any number [default: all cores]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Also write results.json, curves.csv and report.html to this folder
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `policies`.
#[derive(Debug, Args)]
pub struct Policies {
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub struct Bench {
    /// What to measure
    #[arg(value_parser = ["engine", "replay"])]
    pub what: String,
    /// Rounds; medians are reported
    #[arg(long, default_value = "5", value_name = "N")]
    pub rounds: NonZeroUsize,
    /// With `replay`: an oracleGeneral trace to measure on, instead of a generated one (240 MB, in
    /// the folder for temporary files)
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// With `replay`: write the generated trace to this file, and measure nothing
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    pub write_trace: Option<PathBuf>,
    /// Also build a machine of 1 TiB, fill its page cache and reclaim some (takes 10 GiB)
    #[arg(long)]
    pub tebibyte: bool,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("accepted: KEY=VALUE, such as machine.cpus=2".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_holds() {
        Cli::command().debug_assert();
    }

    #[test]
    fn settings_are_split_at_the_first_equals_sign() {
        let dd = "workload.command=dd if=a of=b";
        assert_eq!(
            key_value(dd),
            Ok(("workload.command".into(), "dd if=a of=b".into()))
        );
        assert!(key_value("machine.cpus").is_err());
        assert!(key_value(" =2").is_err());
    }

    #[test]
    fn zero_is_refused_where_it_means_nothing() {
        for option in ["--jobs", "--iterations"] {
            assert!(Cli::try_parse_from(["lowmark", "run", option, "0"]).is_err());
        }
    }
}
