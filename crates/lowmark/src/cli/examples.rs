//! `examples`, `new` and `schema`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Arguments of `examples`.
#[derive(Debug, Args)]
pub struct Examples {
    /// The file to print, by its path or name; all are listed if absent
    pub name: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `new`.
#[derive(Debug, Args)]
pub struct New {
    /// The file to write, a new one
    #[arg(default_value = "mine.toml")]
    pub file: PathBuf,
}

/// Arguments of `schema`.
#[derive(Debug, Args)]
pub struct Schema {
    /// The kind of files
    #[arg(value_enum, default_value = "machine")]
    pub what: What,
}

/// Kinds of files with a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Machine files.
    Machine,
    /// Experiment files.
    Experiment,
}
