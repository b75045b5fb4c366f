//! The command line's options and subcommands.

mod bisect;
mod compare;
mod diverge;
mod examples;
mod export;
mod heard;
mod installed;
mod kernel;
mod mrc;
mod running;
mod top;
mod tune;
mod validate;

pub use self::top::Top;
pub use bisect::Bisect;
pub use compare::{Compare, Form};
pub use diverge::Diverge;
pub use examples::{Examples, New, Schema, What};
pub use export::Export;
pub use heard::Heard;
pub use installed::{Completions, Man};
pub use kernel::{Kernel, KernelAdd, KernelBuild, KernelList, KernelRemove, KernelShell};
pub use mrc::{Bench, Mrc, Policies};
pub use running::{Learn, Record, Report, Undo};
pub use tune::Tune;
pub use validate::Validate;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

/// Simulates Linux page reclaim and writeback, and compares policies on it.
///
/// Exit codes: 0 done, 1 an iteration or a check failed or results could not be written to their
/// place, 2 wrong input or nothing can be written there, 130 interrupted.
#[derive(Debug, Parser)]
#[command(name = "lowmark", version = front::VERSION)]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// Parses a command line, whose first word is the program's name. A negative number behind an
/// option is its value, so that the error is about the number and not about an option `-1`.
///
/// # Errors
/// Returns clap's error, which may be the help text.
pub fn parse(
    words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<Cli, clap::Error> {
    let definition = with_negative_numbers(Cli::command());
    Cli::from_arg_matches(&definition.try_get_matches_from(words)?)
}

/// Returns a command whose options take negative numbers as values, in all of its subcommands.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let numbers = |arg: clap::Arg| {
        let takes_value = !arg.is_positional() && arg.get_action().takes_values();
        arg.allow_negative_numbers(takes_value)
    };
    command
        .mut_args(numbers)
        .mut_subcommands(with_negative_numbers)
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run an experiment and compare its policies
    Run(Run),
    /// Compare results of several runs: what changed, by how much, with what confidence
    Compare(Compare),
    /// Measure how close a preset of the engine comes to a real kernel, in experiments run in both
    Validate(Validate),
    /// Find the commit of a kernel's history that changed a figure, by experiments in kernels built
    /// from it
    #[command(hide = !::kernel::includes_guest())]
    Bisect(Bisect),
    /// Watch reclaim and writeback in the terminal: of the running Linux, a guest, or a recorded
    /// run
    Top(Top),
    /// Record the running Linux: its counters, zones, pressure, disks and tracepoints
    Record(Record),
    /// Put recordings, or the counters and traces of any machine, into the rows of mm reports, and
    /// explain them
    Report(Report),
    /// Learn watermarks on the running Linux, from its direct reclaims and kswapd's difficulties
    Learn(Learn),
    #[command(hide = true)]
    Undo(Undo),
    /// List results folders, or remove old ones
    Results(Results),
    #[cfg_attr(
        feature = "parquet",
        doc = "Write results in formats of other tools: OpenMetrics, JSON lines, Parquet"
    )]
    #[cfg_attr(
        not(feature = "parquet"),
        doc = "Write results in formats of other tools: OpenMetrics, JSON lines"
    )]
    Export(Export),
    /// Score the engine against published tables
    Reproduce(Reproduce),
    /// Attribute a change to the patches of a series: run each prefix of it, and the series without
    /// each patch
    Attribute(Attribute),
    /// Find where two runs of the engine diverge: the first decision that differs, and its
    /// consequences
    Diverge(Diverge),
    /// Find sysctls for a machine, a workload and goals, and report their safety margins
    Tune(Tune),
    /// Explain a row, counter or word of a report, or list them all
    Explain(Explain),
    /// List the model's parameters with their sources
    Params(Params),
    /// Print the JSON schema of machine files, or of experiments
    Schema(Schema),
    /// List the experiments, machines and policies that are included, or print one
    Examples(Examples),
    /// Write a small commented experiment as a starting point
    New(New),
    /// Show how misses and stalls of a trace depend on cache size and eviction policy
    Mrc(Mrc),
    /// List the eviction policies
    Policies(Policies),
    /// Measure speed and size of the engine, or speed of the cache simulator, on this computer
    Bench(Bench),
    /// Inspect a trace, or generate one
    #[command(subcommand)]
    Trace(Trace),
    /// Describe this computer as a machine file, and check the engine's formulas against its kernel
    Machine(Machine),
    /// Print a shell completion script for this command line
    Completions(Completions),
    /// Write the man pages, one for the program and one for each subcommand
    Man(Man),
    /// Build real kernels for `policy = "kernel:NAME"`, list or remove them
    #[command(subcommand, hide = !::kernel::includes_guest())]
    Kernel(Kernel),
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct Run {
    /// The experiment file
    #[arg(
        default_value = "experiments/usb-stick.toml",
        conflicts_with = "source"
    )]
    pub experiment: PathBuf,
    /// A trace to replay instead of an experiment
    #[command(flatten)]
    pub trace: TraceRun,
    /// Iterations of each cell, instead of the file's
    #[arg(long, value_name = "N")]
    pub iterations: Option<NonZeroU32>,
    /// The seed from which iterations derive theirs, instead of the file's
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Threads; the results are the same for any number [default: all cores]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// The results folder, a new one [default: results/NAME/TIME, with results/NAME/latest as a
    /// link to it]
    #[arg(long, value_name = "DIR", group = "place")]
    pub out: Option<PathBuf>,
    /// Replace earlier results in the folder of `--out` or `--resume`, when the new ones are
    /// complete
    #[arg(long, requires = "place")]
    pub replace: bool,
    /// Continue an interrupted or killed run: its results folder, or the one beside it that ends in
    /// `.partial`; all other settings as at its start
    #[arg(long, value_name = "DIR", group = "place", conflicts_with = "list")]
    pub resume: Option<PathBuf>,
    /// Run every iteration twice, compare, and check lists against counters during the run: sums
    /// and samples each second, everything when pages change and at the end; with `=full`
    /// everything each second
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "sampled"
    )]
    pub check: Option<Check>,
    /// Seconds of wall time without progress in virtual time after which a real kernel's guest is
    /// killed: something in it computes without end
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub patience: u64,
    /// Show the matrix without running it
    #[arg(long)]
    pub list: bool,
    /// Record which path instantiated, dirtied and activated each page
    #[arg(long)]
    pub track_pages: bool,
    #[command(flatten)]
    pub heard: Heard,
    /// Set a key of the experiment, as in `--set machine.cpus=2`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Print the rows that mm developers know (vmstat, vmscan, congestion_wait, where time went)
    /// after the comparison; the results folder always has them as rows.txt
    #[arg(long)]
    pub rows: bool,
    /// With `--rows`: print only the rows, in the form of a mailing list post (plain ASCII, at most
    /// 72 columns); the results folder always has this as mail.txt
    #[arg(long, requires = "rows", conflicts_with_all = ["json", "quiet"])]
    pub mail: bool,
    /// Print the results as JSON instead of tables; with `--rows`, the rows
    #[arg(long)]
    pub json: bool,
    /// Print all that is known below the verdict: intervals, p values, tables of programs, the
    /// kernel's report where memory ran out; the results folder always has this as comparison.txt
    #[arg(long, short, conflicts_with = "quiet")]
    pub verbose: bool,
    /// No progress and no tables
    #[arg(long, short)]
    pub quiet: bool,
}

/// The policy of `run --trace` and `run --fio` without `--policy`: the newest preset.
const POLICY: &str = "linux-6.12";
/// The machine of `run --trace` and `run --fio` without `--machine`: the included one that `lowmark
/// new` uses.
const MACHINE: &str = "512M";
/// The machine in words, for people who have not chosen it.
const MACHINE_SAID: &str = "a computer of 2011: 512 MiB, 4 CPUs, four rotating disks as a RAID 0";

/// Arguments of `run --trace`.
#[derive(Debug, Args)]
pub struct TraceRun {
    /// Replay this trace, without an experiment file
    #[arg(long, value_name = "FILE", group = "source", help_heading = "Traces")]
    pub trace: Option<String>,
    /// Run this fio job file, without an experiment file
    #[arg(long, value_name = "JOB", group = "source", help_heading = "Traces")]
    pub fio: Option<String>,
    /// Run the jobs of this fio command line, such as "--name=x --rw=randread --size=1g"
    #[arg(
        long,
        value_name = "OPTIONS",
        group = "source",
        allow_hyphen_values = true,
        help_heading = "Traces"
    )]
    pub fio_args: Option<String>,
    /// The machine to run on instead of the experiment's: a file, the name of a shipped machine, or
    /// a line such as 16G,8cpus,nvme [default with --trace and --fio: 512M]
    #[arg(long, value_name = "MACHINE")]
    pub machine: Option<String>,
    /// The policies to compare, the baseline first [default: linux-6.12]
    #[arg(
        long,
        value_name = "A,B",
        requires = "source",
        value_delimiter = ',',
        help_heading = "Traces"
    )]
    pub policy: Vec<String>,
    /// The filesystem
    #[arg(
        long,
        value_name = "NAME",
        requires = "source",
        default_value = "ext4",
        help_heading = "Traces"
    )]
    pub filesystem: String,
    /// When requests are issued [default: recorded]
    #[arg(
        long, value_name = "WHEN", requires = "trace", value_parser = ["recorded", "fast"],
        help_heading = "Traces"
    )]
    pub timing: Option<String>,
    #[command(flatten)]
    pub read: TraceReading,
}

impl TraceRun {
    /// Returns the trace, the job file or the fio command line that is run; `None` if an experiment
    /// is.
    pub fn source(&self) -> Option<&String> {
        self.trace
            .as_ref()
            .or(self.fio.as_ref())
            .or(self.fio_args.as_ref())
    }

    /// Returns a line with the defaults that `run --trace` or `run --fio` takes for options that
    /// are missing; `None` if none is missing, or an experiment is run.
    pub fn taken(&self) -> Option<String> {
        self.source()?;
        // Each option, its default, and whether that is taken.
        let machine = format!("{MACHINE} ({MACHINE_SAID})");
        let open = [
            ("--policy", POLICY, self.policy.is_empty()),
            ("--machine", &machine, self.machine.is_none()),
        ];
        let open = open.iter().filter(|(.., open)| *open);
        let taken: String = open.map(|(o, word, _)| format!(" {o} {word}")).collect();
        (!taken.is_empty()).then(|| format!("options not given have these values:{taken}"))
    }

    /// Returns the machine of `--machine`, which replaces an experiment's; `None` if the option is
    /// absent, or a trace or fio job is run, which has no other.
    pub fn of_experiment(&self) -> Option<String> {
        match self.source().is_some() {
            true => None,
            false => self.machine.as_deref().map(machine_here),
        }
    }

    /// Returns the experiment that `--trace` or `--fio` and the options beside them define; `None`
    /// without either of them.
    pub fn run(&self) -> Option<lab::experiment::TraceRun> {
        let trace = self.source()?;
        let machine = machine_here(self.machine.as_deref().unwrap_or(MACHINE));
        let policies = match &self.policy[..] {
            [] => vec![POLICY.to_owned()],
            given => given.to_vec(),
        };
        Some(lab::experiment::TraceRun {
            trace: trace.clone(),
            fio: self.fio.clone(),
            fio_args: self.fio_args.clone(),
            machine,
            policies,
            filesystem: self.filesystem.clone(),
            timing: self.timing.clone(),
            lenient: self.read.lenient,
            format: self.read.format.clone(),
            columns: self.read.columns.map(|c| c.to_string()),
            unit: self.read.unit.clone(),
        })
    }
}

/// Returns a machine as `--machine` names it: the absolute path of a file in the folder of the
/// caller (not beside the experiment), or else the text itself, which names an included machine or
/// describes one.
pub fn machine_here(machine: &str) -> String {
    let path = std::path::Path::new(machine);
    match path.is_file() {
        true => std::path::absolute(path)
            .map_or_else(|_| machine.to_owned(), |path| path.display().to_string()),
        false => machine.to_owned(),
    }
}

/// How to read a trace.
#[derive(Debug, Args)]
pub struct TraceReading {
    /// Count and skip records that can't be read, instead of stopping
    #[arg(long, help_heading = "Traces")]
    pub lenient: bool,
    /// The trace's format, or the layout of its columns [default: recognised by contents and name]
    #[arg(
        long,
        visible_alias = "layout",
        value_name = "NAME",
        value_parser = trace::Format::NAMES,
        help_heading = "Traces"
    )]
    pub format: Option<String>,
    /// The columns of a text trace, with units: time, latency (s, ms, us, ns), volume, op, offset,
    /// size (byte, sector, page), object, and - for one to skip, such as
    /// `time:us,volume,op,offset:sector,size`
    #[arg(
        long,
        value_name = "COLUMNS",
        conflicts_with = "format",
        allow_hyphen_values = true,
        help_heading = "Traces"
    )]
    pub columns: Option<trace::Layout>,
    /// The meaning of the object numbers in libCacheSim's formats [default: guessed from sizes]
    #[arg(long, value_name = "UNIT", value_parser = trace::Unit::NAMES, help_heading = "Traces")]
    pub unit: Option<String>,
}

/// Subcommands for traces.
#[derive(Debug, Subcommand)]
pub enum Trace {
    /// Count a trace's records, files and processes
    Info(TraceInfo),
    /// Write a trace's requests for pages in libCacheSim's oracleGeneral
    Convert(TraceConvert),
    /// Write an artificial trace
    Generate(TraceGenerate),
    /// Sum up reclaim's events in a kernel's trace, or in one that `run --ftrace` wrote, as mm
    /// reports do
    Vmscan(TraceVmscan),
}

/// Arguments of `trace vmscan`.
#[derive(Debug, Args)]
pub struct TraceVmscan {
    /// The text of /sys/kernel/tracing/trace
    pub file: PathBuf,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `trace info`.
#[derive(Debug, Args)]
pub struct TraceInfo {
    /// The trace
    pub file: PathBuf,
    #[command(flatten)]
    pub read: TraceReading,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `trace convert`.
#[derive(Debug, Args)]
pub struct TraceConvert {
    /// The trace
    pub file: PathBuf,
    /// The new file: one record for each page of 4 KiB that a read or write touches
    pub out: PathBuf,
    #[command(flatten)]
    pub read: TraceReading,
    /// Replace the file if it exists
    #[arg(long)]
    pub replace: bool,
}

/// Arguments of `trace generate`.
#[derive(Debug, Args)]
pub struct TraceGenerate {
    /// The distribution of requests
    #[arg(value_parser = trace::generate::Pattern::NAMES)]
    pub pattern: String,
    /// The file to write: libCacheSim's CSV if it ends in .csv, else oracleGeneral (which has no
    /// writes)
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    pub replace: bool,
    /// Number of objects, each a page of 4 KiB
    #[arg(long, value_name = "N", default_value = "1M", value_parser = count)]
    pub objects: u64,
    /// Number of requests
    #[arg(long, value_name = "N", default_value = "10M", value_parser = count)]
    pub requests: u64,
    /// The exponent of Zipf's law
    #[arg(long, value_name = "S", default_value = "1.0")]
    pub skew: f64,
    /// Share of writes, 0 to 1; CSV only
    #[arg(long, value_name = "SHARE", default_value = "0")]
    pub writes: f64,
    /// Requests a second
    #[arg(long, value_name = "N", default_value = "100k", value_parser = count)]
    pub rate: u64,
    /// The seed: equal seeds give equal files
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
}

/// Parses a count of at least 1 with the suffix k, M or G (powers of 1000). The error is the
/// accepted form.
fn count(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'k') => (&text[..text.len() - 1], 1000),
        Some(b'M') => (&text[..text.len() - 1], 1_000_000),
        Some(b'G') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    digits
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(unit))
        .filter(|n| *n > 0)
        .ok_or_else(|| {
            "accepted: a number of at least 1, with k, M or G for 1000, 1000² and 1000³".into()
        })
}

/// Arguments of `results`.
#[derive(Debug, Args)]
pub struct Results {
    /// The folder to search, three levels deep
    #[arg(default_value = "results", value_name = "DIR")]
    pub dir: PathBuf,
    /// Select folders written longer ago than this, such as 30d or 12h
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub older_than: Option<Duration>,
    /// Select the oldest folders until the others together have no more than this, such as 2G
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub keep_below: Option<u64>,
    /// Remove the selected folders; without this they are only listed
    #[arg(long)]
    pub yes: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `reproduce`.
#[derive(Debug, Args)]
pub struct Reproduce {
    /// The published series; all of them if absent
    pub series: Option<String>,
    /// A folder of further series beside the included ones, each a folder with series.toml and
    /// tables
    #[arg(long, value_name = "DIR")]
    pub published: Option<PathBuf>,
    /// Tables of the same format to score against, instead of the published ones
    #[arg(long, value_name = "DIR")]
    pub tables: Option<PathBuf>,
    /// Only print what would be run, and which rows have no run
    #[arg(long, conflicts_with = "json")]
    pub plan: bool,
    /// Iterations of each cell, instead of the series' own
    #[arg(long, value_name = "N")]
    pub iterations: Option<NonZeroU32>,
    /// The number of the draw, each with its own seeds: 1 has those of the experiments, 2 the next
    /// ones; a score of README is the median over five draws
    #[arg(long, value_name = "N", default_value = "1")]
    pub draw: NonZeroU32,
    /// Threads; the results are the same for any number [default: all cores]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `attribute`.
#[derive(Debug, Args)]
pub struct Attribute {
    /// A published series whose patches are switches, or a file of patches (docs/commands.md)
    pub series: String,
    /// Seeds of each policy at the first step; each further step has twice as many
    #[arg(long, value_name = "N", default_value = "6")]
    pub seeds: NonZeroU32,
    /// The most seeds of each policy, used for differences that are not yet significant
    #[arg(long, value_name = "N", default_value = "24")]
    pub cap: NonZeroU32,
    /// Set a key of the series' experiment, over the series' own setting; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Threads; the results are the same for any number [default: all cores]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
}

fn size(text: &str) -> Result<u64, String> {
    sim::spec::Size::parse(text).map(|size| size.0)
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// A row ("Kswapd efficiency"), counter (pgscan_direct), figure (elapsed), kind of time
    /// (throttle) or question (noise, "stall time"); all of them are listed if absent
    pub name: Option<String>,
    /// Print JSON instead of text
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

/// The extent of `--check`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Check {
    /// Sums and samples each second, everything when pages change and at the end.
    Sampled,
    /// Everything each second.
    Full,
}

impl From<Check> for lab::runner::Check {
    /// Returns the runner's word for the extent of `--check`.
    fn from(check: Check) -> Self {
        match check {
            Check::Sampled => Self::Sampled,
            Check::Full => Self::Full,
        }
    }
}

/// Arguments of `machine`.
#[derive(Debug, Args)]
pub struct Machine {
    /// The machine file to write, for `machine = "FILE"` in an experiment [default: standard
    /// output]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Replace the file of `--out`, if this command wrote it, or the folder of `--save`
    #[arg(long)]
    pub replace: bool,
    /// A saved tree of /proc and /sys to read instead of this computer's
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Save the files that were read as a tree for `--root`
    #[arg(long, value_name = "DIR", conflicts_with = "root")]
    pub save: Option<PathBuf>,
    /// Explain a report of the OOM killer, or of a failed allocation, in this kernel log (`dmesg`,
    /// `journalctl -k`; `-`: standard input), and describe its machine
    #[arg(long, value_name = "FILE", conflicts_with_all = ["root", "save", "verify", "disk", "probe", "zoneinfo"])]
    pub from_dmesg: Option<PathBuf>,
    /// The report of the log to take, counted from 1
    #[arg(long, value_name = "N", requires = "from_dmesg", default_value = "1")]
    pub report: NonZeroUsize,
    /// Describe a machine of which there is only the text of its /proc/zoneinfo
    #[arg(long, value_name = "FILE", conflicts_with_all = ["root", "save", "verify", "disk", "probe"])]
    pub zoneinfo: Option<PathBuf>,
    /// Compute watermarks, reserves and dirty limits with the engine's formulas and compare them
    /// with the kernel's; exit code 1 if one differs
    #[arg(long, conflicts_with_all = ["out", "probe"])]
    pub verify: bool,
    /// The machine's name in reports [default: its memory, as 9306M]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The tested disk, by its name in /sys/block [default: that of the root filesystem, or of the
    /// probed folder]
    #[arg(long, value_name = "DISK")]
    pub disk: Option<String>,
    /// Measure the device below this folder with a temporary file and fit a disk model to it
    #[arg(long, value_name = "DIR", conflicts_with = "root")]
    pub probe: Option<PathBuf>,
    /// Size of the temporary file
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = probe_size)]
    pub probe_size: u64,
    /// The longest measurement, in seconds, as 60s
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = probe_time)]
    pub probe_time: Duration,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Parses the size of a probe's file in bytes, such as `256M`: 16M to 64G.
fn probe_size(text: &str) -> Result<u64, String> {
    let size = sim::spec::Size::parse(text)?.0;
    if (machine::probe::LEAST_SIZE..=machine::probe::MOST_SIZE).contains(&size) {
        Ok(size)
    } else {
        Err("accepted: 16M to 64G".into())
    }
}

/// Parses the time of a probe in whole seconds, such as `60s`: 2s to 3600s.
fn probe_time(text: &str) -> Result<Duration, String> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse::<u64>();
    match seconds {
        Ok(n) if (2..=3600).contains(&n) => Ok(Duration::from_secs(n)),
        _ => Err("accepted: 2s to 3600s".into()),
    }
}

/// Splits `KEY=VALUE` at the first `=`; the key must not be empty.
fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("accepted: KEY=VALUE, such as machine.cpus=2".into()),
    }
}

#[cfg(test)]
mod tests;
