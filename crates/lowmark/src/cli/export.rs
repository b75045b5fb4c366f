//! Arguments of `export`.

use clap::{ArgGroup, Args};
use std::path::PathBuf;

/// Arguments of `export`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("form").required(true).multiple(true)))]
// clap names hidden options of a group in the usage that it writes itself.
#[cfg_attr(
    not(feature = "parquet"),
    command(
        override_usage = "lowmark export [OPTIONS] <--openmetrics <FILE>|--jsonl <DIR>> <RESULTS>"
    )
)]
pub struct Export {
    /// A results folder that `lowmark run` has written
    pub results: PathBuf,
    /// Write a file of OpenMetrics: a gauge per figure of an iteration, and the series with their
    /// times
    #[arg(long, value_name = "FILE", group = "form")]
    pub openmetrics: Option<PathBuf>,
    /// Write a folder of JSON lines, one file per table
    #[arg(long, value_name = "DIR", group = "form")]
    pub jsonl: Option<PathBuf>,
    /// Write a folder of Parquet files, one per table
    #[arg(long, value_name = "DIR", group = "form", hide = !cfg!(feature = "parquet"))]
    pub parquet: Option<PathBuf>,
    /// Replace an earlier export
    #[arg(long)]
    pub replace: bool,
}
