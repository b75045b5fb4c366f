//! `top`.

use super::running::interval;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `top`.
#[derive(Debug, Args)]
pub struct Top {
    /// The recording to play: a `recording.z` or results folder of `record`, a results folder of
    /// `run`, a file of its `series/` [default: the running Linux]
    #[arg(value_name = "WHAT", conflicts_with = "guest")]
    pub what: Option<PathBuf>,
    /// Show the guest that runs on this host, the youngest if there are several, or that of this
    /// `frames` file
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub guest: Option<Option<PathBuf>>,
    /// Show a live cache that serves its metrics at this loopback address, such as 127.0.0.1:9100
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["what", "guest"])]
    pub live: Option<String>,
    /// The cell of a results folder to show first: its number from 1, or a unique part of its key
    /// [default: 1]
    #[arg(long, value_name = "CELL", requires = "what")]
    pub cell: Option<String>,
    /// Playback speed: recorded seconds per second
    #[arg(long, value_name = "N", default_value = "1", value_parser = speed, requires = "what")]
    pub speed: f64,
    /// The start of playback, such as 30s; with `--once`, the moment to show [default: the
    /// beginning; with `--once` the end]
    #[arg(long, value_name = "TIME", value_parser = at, requires = "what")]
    pub at: Option<Duration>,
    /// The time between two samples of the running Linux or a live cache, 100ms to 10m
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval, conflicts_with_all = ["what", "guest"])]
    pub interval: Duration,
    /// Print one frame of 80 columns and exit, for scripts; for live sources after one interval
    #[arg(long)]
    pub once: bool,
}

/// Parses a playback speed, in recorded seconds per second: 0.01 to 65536.
fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse::<f64>().ok();
    let fits = speed.filter(|s| (0.01..=65_536.0).contains(s));
    fits.ok_or_else(|| "accepted: a number from 0.01 to 65536".to_owned())
}

fn at(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "accepted: a time such as 30s or 2m".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_and_times_have_bounds() {
        assert_eq!((speed("4"), speed("0.5")), (Ok(4.0), Ok(0.5)));
        assert!(speed("0").is_err() && speed("nan").is_err() && speed("1e9").is_err());
        assert_eq!(at("90s"), Ok(Duration::from_secs(90)));
        assert!(at("90").is_err());
    }
}
