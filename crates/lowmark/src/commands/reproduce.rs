//! `lowmark reproduce`.

use crate::cli::Reproduce;
use crate::failure::Failure;
use lab::runner::RunOptions;

/// Runs the experiments behind published tables and scores them.
pub fn run(args: &Reproduce) -> Result<(), Failure> {
    let options = RunOptions {
        jobs: super::run::jobs(args.jobs),
        check: false,
        progress: true,
        stop: crate::interrupt::flag(),
    };
    score(args, &options)
}

/// The laboratory's part: load the tables, run, compare cell by cell, print.
fn score(args: &Reproduce, _options: &RunOptions) -> Result<(), Failure> {
    let series = args.series.as_deref().unwrap_or("any series");
    Err(Failure::Input(miette::miette!(
        "{series} can't be scored yet"
    )))
}
