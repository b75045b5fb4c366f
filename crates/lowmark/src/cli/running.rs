//! `record`, `report`, `learn`: the running Linux, and figures of others.

use super::key_value;
use clap::Args;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `record`.
#[derive(Debug, Args)]
pub struct Record {
    /// How long to record, such as 30s or 2h; with a command, how long at most: what runs on then is waited for, but
    /// not recorded
    #[arg(long, value_name = "TIME", value_parser = time, required_unless_present = "command")]
    pub duration: Option<Duration>,
    /// Record a live cache that serves its metrics at this address of loopback, such as 127.0.0.1:9100, and not the
    /// running Linux
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["no_events", "ring", "disk"])]
    pub live: Option<String>,
    /// The time between two looks, 100ms to 10m
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// Leave the tracepoints alone, which are recorded if we may (root)
    #[arg(long)]
    pub no_events: bool,
    /// KiB of the ring of events of each CPU, 64 to 65536
    #[arg(long, value_name = "KIB", default_value_t = kernel::running::RING_KB, value_parser = clap::value_parser!(u64).range(64..=65_536))]
    pub ring: u64,
    /// A disk whose throughput and queue are shown, by its name in /sys/block; may be repeated [default: all, the one
    /// below the root filesystem first]
    #[arg(long, value_name = "DISK")]
    pub disk: Vec<String>,
    /// What tables call this kernel [default: its release]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The results folder, a new one [default: results/record/TIME, and results/record/latest leads to it]
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
    /// Results folders of `record`, side by side, the first as baseline; or one of `run`
    #[arg(value_name = "RUN", required_unless_present_any = ["vmstat", "ftrace"])]
    pub runs: Vec<PathBuf>,
    /// The text of /proc/vmstat of any machine, before and after
    #[arg(long, value_names = ["BEFORE", "AFTER"], num_args = 2, conflicts_with = "runs")]
    pub vmstat: Vec<PathBuf>,
    /// And that of /proc/zoneinfo
    #[arg(long, value_names = ["BEFORE", "AFTER"], num_args = 2, requires = "vmstat")]
    pub zoneinfo: Vec<PathBuf>,
    /// The text of its /sys/kernel/tracing/trace between the two
    #[arg(long, value_name = "FILE", conflicts_with = "runs")]
    pub ftrace: Option<PathBuf>,
    /// Seconds between the two, which no snapshot says; without them, rows per second are left out
    #[arg(long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "runs")]
    pub elapsed: Option<f64>,
    /// What tables call the machine
    #[arg(
        long,
        value_name = "NAME",
        default_value = "measured",
        conflicts_with = "runs"
    )]
    pub name: String,
    /// Put beside it what the engine says of this experiment: what was run there
    #[arg(long, value_name = "EXPERIMENT", requires = "machine")]
    pub experiment: Option<PathBuf>,
    /// The machine for `--experiment`: a file of `lowmark machine`, or `machine.toml` of a recording
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
    /// The time between two looks at the counters, 100ms to 10m
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// Set what is proposed, to see its effect; at the end, or after a kill, everything is as it was
    #[arg(long)]
    pub apply: bool,
    /// A tree of /proc and /sys to read, and with `--apply` to write, instead of this computer's
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `undo`.
#[derive(Debug, Args)]
pub struct Undo {
    /// What a `record` or `learn` has written down
    pub file: PathBuf,
}

/// A time such as `30s`, at least a tenth of a second and at most a year.
fn time(text: &str) -> Result<Duration, String> {
    let accepted = || "accepted: a time such as 30s, 10m or 2h, from 100ms to 1y".to_owned();
    let time = humantime::parse_duration(text).map_err(|_| accepted())?;
    let year = Duration::from_secs(366 * 86_400);
    match time >= Duration::from_millis(100) && time <= year {
        true => Ok(time),
        false => Err(accepted()),
    }
}

/// A time between two looks.
pub fn interval(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).ok();
    let most = Duration::from_secs(600);
    time.filter(|t| *t >= Duration::from_millis(100) && *t <= most)
        .ok_or_else(|| "accepted: 100ms to 10m".to_owned())
}

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
