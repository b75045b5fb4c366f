//! `diverge`.

use super::key_value;
use clap::Args;
use std::path::PathBuf;

/// Arguments of `diverge`.
#[derive(Debug, Args)]
pub struct Diverge {
    /// The experiment file
    pub experiment: PathBuf,
    /// One run: an iteration, from 0, or `POLICY:ITERATION`
    #[arg(value_name = "A", default_value = "0")]
    pub a: String,
    /// The other run
    #[arg(value_name = "B", default_value = "1")]
    pub b: String,
    /// Set a key of the experiment, as in `--set filesystem=xfs`, to select one machine, filesystem
    /// and value of each axis; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}
