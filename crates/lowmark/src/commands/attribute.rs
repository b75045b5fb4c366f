//! `lowmark attribute`.

use crate::cli::Attribute;
use crate::text;
use front::failure::Failure;
use lab::attribute::{self, Seeds};
use lab::diagnostic::Diagnostic;
use lab::model::Experiment;
use lab::runner::{self, Journal, RunOptions};

/// Runs the prefixes of a patch series with more and more seeds, and prints the effect of each
/// patch. After Ctrl-C prints the effects found so far, and returns `Stopped`.
///
/// # Errors
/// The series, `--set` or `--cap` is wrong, or the user stopped the runs.
pub fn run(args: &Attribute) -> Result<(), Failure> {
    let set: Vec<String> = args.set.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let tried = attribute::load(&args.series, &set).map_err(|e| Failure::Input(e.into()))?;
    let seeds = Seeds {
        first: args.seeds.get(),
        cap: args.cap.get(),
    };
    if seeds.cap < seeds.first || seeds.cap > MOST_SEEDS {
        let what = format!("`--cap {}` is out of range", seeds.cap);
        let accepted = format!("accepted: {} (`--seeds`) to {MOST_SEEDS}", seeds.first);
        return Err(Failure::Input(Diagnostic::placeless(what, accepted).into()));
    }
    let stop = crate::interrupt::flag();
    // Runs an experiment's cells; `journal` keeps the runs of earlier rounds.
    let mut round = |experiment: &Experiment, journal: &mut dyn Journal| {
        let options = RunOptions {
            jobs: front::runs::fitting_jobs(experiment, args.jobs)?,
            check: None,
            progress: Some(crate::bars::iterations),
            listeners: None,
            stop: stop.clone(),
        };
        Ok::<_, Failure>(runner::run_with(experiment, &options, &sim::run, journal)?)
    };
    let found = attribute::attribute(&tried, seeds, &mut round)?;
    match args.json {
        true => text::print_json(&attribute::to_json(&found))?,
        false => text::print(&attribute::to_text(&found, text::screen()))?,
    }
    if found.interrupted {
        let what = format!(
            "interrupted: {} iterations finished; their result is above",
            found.runs
        );
        return Err(Failure::Stopped(what));
    }
    Ok(())
}

/// The most seeds of a policy.
const MOST_SEEDS: u32 = 1000;
