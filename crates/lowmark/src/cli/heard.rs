//! Options of `run` for recording events.

use clap::Args;
use std::path::PathBuf;

/// Files of each cell's first iteration, beside the results.
#[derive(Debug, Default, Args)]
pub struct Heard {
    /// Write the events of each cell's first iteration to this new file, in the text form of
    /// /sys/kernel/tracing/trace; with several cells each to a file beside it, with the cell's
    /// number and key in its name. `lowmark trace vmscan` reads it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["list", "resume"])]
    pub ftrace: Option<PathBuf>,
    /// Write only these events: names, which may end in `*`, or folders such as `vmscan` [default:
    /// all, page by page, some 1.5 GB for each GiB that is written]
    #[arg(long, value_name = "NAMES", requires = "ftrace", value_delimiter = ',')]
    pub ftrace_events: Vec<String>,
    /// Write /proc/zoneinfo at the end of each cell's first iteration to this new file; with
    /// several cells as with `--ftrace`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["list", "resume"])]
    pub zoneinfo: Option<PathBuf>,
    /// Write a trace for Perfetto (ui.perfetto.dev) of each cell's first iteration to this new
    /// file: reclaim, waits of tasks, disk queues; with several cells as with `--ftrace`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["list", "resume"])]
    pub perfetto: Option<PathBuf>,
}
