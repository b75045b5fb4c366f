//! `mrc`, `policies` and `bench`.

use clap::Args;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};

/// Arguments of `mrc`.
#[derive(Debug, Args)]
pub struct Mrc {
    /// The trace, plain or compressed with zstd, gzip, xz or bzip2
    #[arg(long, value_name = "FILE", required_unless_present = "file")]
    trace: Option<PathBuf>,
    /// The trace, without `--trace`
    #[arg(value_name = "FILE", conflicts_with = "trace")]
    file: Option<PathBuf>,
    /// The trace's format, or the layout of its columns [default: recognised by contents and name]
    #[arg(
        long,
        visible_alias = "layout",
        value_name = "NAME",
        value_parser = trace::Format::NAMES
    )]
    pub format: Option<String>,
    /// The columns of a text trace, with units: time, latency (s, ms, us, ns), volume, op, offset,
    /// size (byte, sector, page), object, and - for one to skip, such as
    /// `time:us,volume,op,offset:sector,size`
    #[arg(
        long,
        value_name = "COLUMNS",
        conflicts_with = "format",
        allow_hyphen_values = true
    )]
    pub columns: Option<trace::Layout>,
    /// The meaning of object numbers in oracleGeneral and CSV traces
    #[arg(long, default_value = "auto", value_parser = trace::Unit::NAMES)]
    pub unit: String,
    /// Count and skip records that can't be read
    #[arg(long)]
    pub lenient: bool,
    /// Treat every record as one request for one object, regardless of its size
    #[arg(long)]
    pub ignore_size: bool,
    /// Sizes of the cache: pages `5000,10000`, bytes `512MiB`, per cent of the trace's objects
    /// `10%`, or ranges of either, `1000..100000:50` in equal ratios, or with `:linear`
    #[arg(long, value_name = "SIZES")]
    pub sizes: replay::Sizes,
    /// Policies of `lowmark policies`, in upper or lower case, or `all`
    #[arg(
        long,
        default_value = "lru",
        value_delimiter = ',',
        value_name = "NAMES"
    )]
    pub policy: Vec<String>,
    /// Estimate from a sample of the objects, with an error bound for each point: `rate=0.01` of
    /// them, or at most `size=8192` objects. Only without `--writes`
    #[arg(long, value_name = "SAMPLE", conflicts_with = "writes")]
    pub sample: Option<replay::Sample>,
    /// Model dirty pages, their limits and writeback
    #[arg(long)]
    pub writes: bool,
    /// Percentage of the cache that may be dirty or under writeback
    #[arg(
        long,
        default_value_t = 20.0,
        value_name = "PERCENT",
        requires = "writes"
    )]
    pub dirty_limit: f64,
    /// Percentage of dirty pages at which the flusher starts
    #[arg(
        long,
        default_value_t = 10.0,
        value_name = "PERCENT",
        requires = "writes"
    )]
    pub dirty_background: f64,
    /// The device's write rate, in MiB per second
    #[arg(long, default_value_t = 100.0, value_name = "MIB", requires = "writes")]
    pub write_rate: f64,
    /// Threads; the results are the same for any number [default: all cores]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Also write results.json, curves.csv and report.html to this new folder
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Replace earlier results in the folder of `--out`
    #[arg(long, requires = "out")]
    pub replace: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
}

impl Mrc {
    /// Returns the trace's path, which is an option's value or an operand: clap requires one.
    pub fn trace(&self) -> &Path {
        let path = self.trace.as_ref().or(self.file.as_ref());
        path.expect("clap requires a trace")
    }
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
    /// The object of the measurement
    #[arg(value_parser = ["engine", "replay"])]
    pub what: String,
    /// Rounds; medians are reported
    #[arg(long, default_value = "5", value_name = "N")]
    pub rounds: NonZeroUsize,
    /// With `replay`: an oracleGeneral trace to measure with, instead of a generated one (240 MB,
    /// in the folder for temporary files)
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// With `replay`: write the generated trace to this file, without measuring
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    pub write_trace: Option<PathBuf>,
    /// Replace an existing file of `--write-trace`
    #[arg(long, requires = "write_trace")]
    pub replace: bool,
    /// Also build a machine of 1 TiB, fill its page cache and reclaim part of it (takes 10 GiB)
    #[arg(long)]
    pub tebibyte: bool,
    /// With `engine`: run this many page lifecycles without measuring, for a profiler that counts
    /// instructions
    #[arg(long, value_name = "PAGES", conflicts_with_all = ["rounds", "tebibyte"])]
    pub lifecycles: Option<NonZeroU32>,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}
