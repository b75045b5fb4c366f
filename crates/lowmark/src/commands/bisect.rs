//! `lowmark bisect`.

use super::kernel::Progress;
use crate::cli::Bisect;
use crate::{bars, interrupt, text};
use front::bisect::{Wanted, bisect};
use front::failure::Failure;
use kernel::build::{BuildError, Request, build};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Searches a kernel's history for the first commit that changed a figure and prints the answer.
/// The same command continues an interrupted search.
///
/// # Errors
/// An argument is wrong, an end can't be judged, the system refuses, or the user stopped.
pub fn run(args: &Bisect) -> Result<(), Failure> {
    let built = |request: &Request, stop: &Arc<AtomicBool>| -> Result<(), BuildError> {
        let mut progress = Progress::new(args.quiet, stop);
        let built = build(request, &mut progress);
        progress.clear();
        built.map(drop)
    };
    let searched = bisect(&Wanted {
        tree: &args.tree,
        experiment: &args.experiment,
        set: args.set.iter().map(|(k, v)| format!("{k}={v}")).collect(),
        good: &args.good,
        bad: &args.bad,
        metric: &args.metric,
        error: args.error,
        most: args.most,
        patches: &args.patch,
        fragments: &args.config,
        costs: !args.without_costs,
        out: args.out.as_deref(),
        jobs: args.jobs,
        quiet: args.quiet,
        progress: bars::unless(args.quiet),
        build: &built,
        stop: || {
            let words = "stopping; the finished runs are kept; once more to stop at once";
            interrupt::flag_saying(words)
        },
    })?;
    if args.json {
        return text::print(&(searched.json + "\n"));
    }
    text::print(&searched.text)?;
    if !args.quiet {
        eprintln!(
            "runs and answer are in {}; `lowmark kernel remove {}` removes the kernels",
            searched.folder.display(),
            searched.kernels
        );
    }
    Ok(())
}
