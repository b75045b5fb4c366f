//! `compare`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// The sides, the baseline first: a results folder, a results.json, or a folder of results
    /// folders, which are pooled; `NAME=PATH,PATH` names a side and pools several
    #[arg(required = true, value_name = "[NAME=]PATH")]
    pub sides: Vec<String>,
    /// The name of the side with which the others are compared [default: the first]
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
    /// Compare the values of this axis within one run, such as `dirty_ratio`, instead of several
    /// runs
    #[arg(long, value_name = "AXIS")]
    pub by: Option<String>,
    /// Compare only this row, counter or figure of the workload; may be repeated
    #[arg(long = "figure", value_name = "NAME", conflicts_with = "all")]
    pub figures: Vec<String>,
    /// Show every row, counter and figure, not only those that the experiment selects and those
    /// that differ
    #[arg(long)]
    pub all: bool,
    /// The form of the answer
    #[arg(long, value_enum, default_value = "text")]
    pub format: Form,
    /// Write the answer to this file instead of printing it
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Replace the file of `--out`
    #[arg(long, requires = "out")]
    pub replace: bool,
}

/// Forms of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Tables for a terminal.
    Text,
    /// Tables in Markdown.
    Markdown,
    /// Everything, with every iteration's value.
    Json,
    /// A self-contained web page.
    Html,
}
