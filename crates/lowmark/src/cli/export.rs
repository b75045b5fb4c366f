//! Arguments of `export`.

use clap::{ArgGroup, Args};
use std::path::PathBuf;

/// Arguments of `export`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("form").required(true).multiple(true)))]
pub struct Export {
    /// A results folder that `lowmark run` has written
    pub results: PathBuf,
    /// Write a file of OpenMetrics: a gauge a figure of an iteration, and the series with their times
    #[arg(long, value_name = "FILE", group = "form")]
    pub openmetrics: Option<PathBuf>,
    /// Write a folder of JSON lines, a file a table
    #[arg(long, value_name = "DIR", group = "form")]
    pub jsonl: Option<PathBuf>,
    /// Write a folder of Parquet files, one a table; needs a lowmark built with `--features parquet`
    #[arg(long, value_name = "DIR", group = "form")]
    pub parquet: Option<PathBuf>,
    /// Replace what an earlier export has left there
    #[arg(long)]
    pub replace: bool,
}
