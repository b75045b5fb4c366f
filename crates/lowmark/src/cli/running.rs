//! `record`, `report`, `learn`: commands for the running Linux and for figures of other machines.

use super::key_value;
use clap::Args;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `record`.
#[derive(Debug, Args)]
pub struct Record {
    /// How long to record, such as 30s or 2h; with a command, the longest time: a command that runs
    /// longer is waited for, but not recorded
    #[arg(long, value_name = "TIME", value_parser = time, required_unless_present = "command")]
    pub duration: Option<Duration>,
    /// Record a live cache that serves its metrics at this loopback address, such as
    /// 127.0.0.1:9100, instead of the running Linux
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["no_events", "ring", "disk"])]
    pub live: Option<String>,
    /// The time between two samples, 100ms to 10m
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// Do not record tracepoints, which are recorded if permissions allow (root)
    #[arg(long)]
    pub no_events: bool,
    /// Size of each CPU's event ring in KiB, 64 to 65536
    #[arg(long, value_name = "KIB", default_value_t = kernel::running::RING_KB, value_parser = clap::value_parser!(u64).range(64..=65_536))]
    pub ring: u64,
    /// A disk whose throughput and queue are shown, by its name in /sys/block; may be repeated
    /// [default: all, that of the root filesystem first]
    #[arg(long, value_name = "DISK")]
    pub disk: Vec<String>,
    /// The kernel's name in tables [default: its release]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The results folder, a new one [default: results/record/TIME, with results/record/latest as a
    /// link to it]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Replace earlier results in the folder of `--out`
    #[arg(long, requires = "out")]
    pub replace: bool,
    /// Print the rows as JSON instead of text
    #[arg(long)]
    pub json: bool,
    /// Print nothing
    #[arg(long, short)]
    pub quiet: bool,
    /// The command to record
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
pub struct Report {
    /// Results folders of `record`, compared side by side with the first as baseline; or one of
    /// `run`
    #[arg(value_name = "RUN", required_unless_present_any = ["vmstat", "ftrace"])]
    pub runs: Vec<PathBuf>,
    /// Two texts of /proc/vmstat of any machine, before and after; or one, which has everything
    /// since boot
    #[arg(long, value_names = ["BEFORE", "AFTER"], num_args = 1..=2, conflicts_with = "runs")]
    pub vmstat: Vec<PathBuf>,
    /// Two texts of its /proc/zoneinfo
    #[arg(long, value_names = ["BEFORE", "AFTER"], num_args = 2, requires = "vmstat")]
    pub zoneinfo: Vec<PathBuf>,
    /// The text of its /sys/kernel/tracing/trace from the time between
    #[arg(long, value_name = "FILE", conflicts_with = "runs")]
    pub ftrace: Option<PathBuf>,
    /// Seconds between the two texts; without them, rows per second are left out
    #[arg(long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "runs")]
    pub elapsed: Option<f64>,
    /// The machine's name in tables
    #[arg(
        long,
        value_name = "NAME",
        default_value = "measured",
        conflicts_with = "runs"
    )]
    pub name: String,
    /// An experiment that models the recorded workload: the engine's figures are shown beside the
    /// measured ones
    #[arg(long, value_name = "EXPERIMENT", requires = "machine")]
    pub experiment: Option<PathBuf>,
    /// The machine for `--experiment`: a file of `lowmark machine`, or `machine.toml` of a
    /// recording
    #[arg(long, value_name = "FILE", requires = "experiment")]
    pub machine: Option<PathBuf>,
    /// The preset or policy for `--experiment`
    #[arg(
        long,
        value_name = "POLICY",
        default_value = "linux-4.9",
        requires = "experiment"
    )]
    pub policy: String,
    /// Iterations of `--experiment`
    #[arg(long, value_name = "N", default_value = "1", requires = "experiment")]
    pub iterations: NonZeroU32,
    /// Set a key of the experiment; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value, requires = "experiment")]
    pub set: Vec<(String, String)>,
    /// Print the rows as JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `learn`.
#[derive(Debug, Args)]
pub struct Learn {
    /// How long to learn, such as 10m or 24h
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub duration: Duration,
    /// The time between two samples of the counters, 100ms to 10m
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// Apply the proposed settings, to see their effect; at the end, or after a kill, the original
    /// ones are restored
    #[arg(long)]
    pub apply: bool,
    /// A tree of /proc and /sys to read, and with `--apply` to write, instead of this computer's
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of the hidden command `undo`.
#[derive(Debug, Args)]
pub struct Undo {
    /// The undo log of a `record` or `learn`
    pub file: PathBuf,
}

/// Parses a time such as `30s`, from a tenth of a second to a year.
fn time(text: &str) -> Result<Duration, String> {
    let accepted = || "accepted: a time such as 30s, 10m or 2h, from 100ms to 1y".to_owned();
    let time = humantime::parse_duration(text).map_err(|_| accepted())?;
    let year = Duration::from_secs(366 * 86_400);
    match time >= Duration::from_millis(100) && time <= year {
        true => Ok(time),
        false => Err(accepted()),
    }
}

/// Parses a time between two samples, from a tenth of a second to ten minutes.
pub fn interval(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).ok();
    let most = Duration::from_secs(600);
    time.filter(|t| *t >= Duration::from_millis(100) && *t <= most)
        .ok_or_else(|| "accepted: 100ms to 10m".to_owned())
}

/// Parses a number of seconds above 0.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok();
    seconds
        .filter(|s| s.is_finite() && *s > 0.0)
        .ok_or_else(|| "accepted: a number of seconds above 0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_bounds() {
        assert_eq!(time("30s"), Ok(Duration::from_secs(30)));
        assert!(time("30").is_err() && time("1ms").is_err() && time("3y").is_err());
        assert_eq!(interval("100ms"), Ok(Duration::from_millis(100)));
        assert!(interval("1h").is_err() && interval("10ms").is_err());
        assert_eq!(seconds("1.5"), Ok(1.5));
        assert!(seconds("0").is_err() && seconds("nan").is_err());
    }
}
