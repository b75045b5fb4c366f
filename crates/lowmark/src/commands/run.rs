//! `lowmark run`.

use crate::cli::Run;
use crate::failure::Failure;
use crate::{interrupt, text};
use lab::compare::Comparison;
use lab::experiment::Overrides;
use lab::model::{Experiment, Outcomes};
use lab::output::{self, File};
use lab::runner::{self, RunOptions};
use sim::Outcome;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Runs an experiment and writes its results folder.
pub fn run(args: &Run) -> Result<(), Failure> {
    let overrides = Overrides {
        set: args.set.iter().map(|(k, v)| format!("{k}={v}")).collect(),
        ..Overrides::default()
    };
    let loaded = match args.trace.run() {
        Some(trace) => trace.experiment(&overrides),
        None => lab::experiment::load(&args.experiment, &overrides),
    };
    let experiment = adjusted(loaded.map_err(|e| Failure::Input(e.into()))?, args);
    if args.list {
        return list(&experiment, args.json);
    }
    run_loaded(args, &experiment, &sim::run)
}

/// The number of threads to use.
pub fn jobs(wanted: Option<NonZeroUsize>) -> usize {
    wanted
        .or_else(|| std::thread::available_parallelism().ok())
        .map_or(1, NonZeroUsize::get)
}

/// The laboratory's comparison of policies: its text and that of the rows, and their files for the
/// results folder.
fn compare(outcomes: &Outcomes) -> (String, String, Vec<File>) {
    let comparison = Comparison::new(outcomes);
    let text = lab::compare::figures_text(outcomes)
        + &lab::compare::program_text(outcomes)
        + &comparison.to_text()
        + &lab::compare::oom_text(outcomes)
        + &lab::compare::program_tables(outcomes)
        + &lab::compare::cache_text(outcomes)
        + &lab::compare::tracker_text(outcomes);
    let page = lab::page::report(outcomes, &comparison);
    let rows = lab::rows::to_text(outcomes) + "\n" + &lab::rows::time_text(outcomes);
    let files = vec![
        File::new("comparison.txt", text.clone()),
        File::new("rows.txt", rows.clone()),
        File::new("report.html", page),
    ];
    (text, rows, files)
}

/// A recount that disagreed, under `--check`.
fn recount_failure(outcomes: &Outcomes) -> Option<String> {
    outcomes
        .results
        .iter()
        .flatten()
        .flatten()
        .find_map(|r| match &r.outcome {
            Outcome::Failed { error } if error.starts_with("recount") => Some(error.clone()),
            _ => None,
        })
}

/// The options that stand above the file.
fn adjusted(mut experiment: Experiment, args: &Run) -> Experiment {
    if let Some(iterations) = args.iterations {
        experiment.iterations = iterations.get();
    }
    if let Some(seed) = args.seed {
        experiment.seed = seed;
    }
    for cell in &mut experiment.cells {
        cell.spec.track_pages |= args.track_pages;
    }
    experiment
}

fn run_loaded(
    args: &Run,
    experiment: &Experiment,
    simulate: runner::Simulate<'_>,
) -> Result<(), Failure> {
    let dir = args
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from("results").join(&experiment.name));
    output::check_target(&dir)?;
    let options = RunOptions {
        jobs: jobs(args.jobs),
        check: args.check,
        progress: !args.quiet,
        stop: interrupt::flag(),
    };
    let outcomes = runner::run(experiment, &options, simulate)?;
    finish(args, &outcomes, dir)
}

/// Writes and prints what there is.
fn finish(args: &Run, outcomes: &Outcomes, dir: PathBuf) -> Result<(), Failure> {
    let wanted = outcomes.results.iter().flatten().count();
    let finished = outcomes.results.iter().flatten().flatten().count();
    if outcomes.interrupted && finished == 0 {
        return Err(Failure::Interrupted {
            finished,
            wanted,
            kept: None,
        });
    }
    let (comparison, rows, files) = compare(outcomes);
    output::write(&dir, outcomes, &files)?;
    if args.json && args.rows {
        text::print(&lab::rows::rows_json(outcomes))?;
    } else if args.json {
        text::print(&output::to_json(outcomes))?;
    } else if !args.quiet {
        text::print(&comparison)?;
        if args.rows {
            text::print(&format!("\n{rows}"))?;
        }
    }
    if outcomes.interrupted {
        return Err(Failure::Interrupted {
            finished,
            wanted,
            kept: Some(dir),
        });
    }
    if let (true, Some(error)) = (args.check, recount_failure(outcomes)) {
        return Err(Failure::System(miette::Report::msg(error)));
    }
    if !args.quiet {
        let checked = if args.check {
            ", each run twice with equal results"
        } else {
            ""
        };
        eprintln!(
            "{finished} iterations{checked}; results in {}",
            dir.display()
        );
    }
    Ok(())
}

/// Prints the matrix.
fn list(experiment: &Experiment, json: bool) -> Result<(), Failure> {
    if json {
        let keys: Vec<String> = experiment.cells.iter().map(|c| c.key()).collect();
        return text::print_json(&keys);
    }
    let mut header = vec!["machine", "filesystem", "policy"];
    let others: Vec<&str> = experiment
        .axes
        .iter()
        .map(String::as_str)
        .filter(|axis| !["machine", "filesystem", "policy"].contains(axis))
        .collect();
    header.extend(&others);
    let mut table = text::table(header);
    for cell in &experiment.cells {
        let value = |axis: &&str| {
            let found = cell.axes.iter().find(|(key, _)| key == axis);
            found.map_or_else(String::new, |(_, value)| value.clone())
        };
        let mut row = vec![
            cell.machine.clone(),
            cell.filesystem.clone(),
            cell.policy.clone(),
        ];
        row.extend(others.iter().map(value));
        table.add_row(row);
    }
    let (cells, n) = (experiment.cells.len(), experiment.iterations);
    text::print(&format!(
        "{table}\n{cells} cells, {n} iterations each: {} runs\n",
        cells * n as usize
    ))
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
