//! `lowmark reproduce`.

use crate::cli::Reproduce;
use crate::failure::Failure;
use crate::text;
use lab::model::{Experiment, Outcomes};
use lab::published::reproduce::{SERIES, Scored, experiments, score, to_json, to_text};
use lab::published::{self, Row};
use lab::runner::{self, RunOptions};
use std::num::NonZeroU32;

/// Runs the experiments behind published tables and scores them.
pub fn run(args: &Reproduce) -> Result<(), Failure> {
    let options = RunOptions {
        jobs: 1, // by what fits, experiment by experiment
        check: false,
        progress: true,
        stop: crate::interrupt::flag(),
    };
    let rows = published::load(args.tables.as_deref()).map_err(|e| Failure::Input(e.into()))?;
    let known = SERIES.map(|s| s.name);
    if let Some(wanted) = args.series.as_deref().filter(|s| !known.contains(s)) {
        return Err(Failure::Input(miette::miette!(
            help = format!("one of {}", known.join(", ")),
            "no series `{wanted}`"
        )));
    }
    let mut scored = Vec::new();
    for series in SERIES {
        let name = series.name;
        if args.series.as_deref().is_some_and(|s| s != name) {
            continue;
        }
        let of_series: Vec<Row> = rows.iter().filter(|r| r.series == name).cloned().collect();
        let mut outcomes = Vec::new();
        let iterations = args.iterations.map(NonZeroU32::get);
        let experiments = experiments(&series, &of_series, iterations);
        for experiment in experiments.map_err(|e| Failure::Input(e.into()))? {
            let jobs = super::run::fitting_jobs(&experiment, args.jobs)?;
            let options = RunOptions {
                jobs,
                ..options.clone()
            };
            outcomes.push(simulate(&experiment, &options)?);
        }
        scored.push((
            name.to_string(),
            score(&of_series, series.baseline, &outcomes),
        ));
    }
    print(&scored, args.json)
}

fn print(scored: &[(String, Vec<Scored>)], json: bool) -> Result<(), Failure> {
    if json {
        return text::print_json(&to_json(scored));
    }
    let parts: Vec<String> = scored
        .iter()
        .map(|(name, rows)| to_text(name, rows))
        .collect();
    text::print(&parts.join("\n"))
}

fn simulate(experiment: &Experiment, options: &RunOptions) -> Result<Outcomes, Failure> {
    let outcomes = runner::run(experiment, options, &sim::run)?;
    if outcomes.interrupted {
        return Err(Failure::Interrupted {
            finished: outcomes.results.iter().flatten().flatten().count(),
            wanted: outcomes.results.iter().flatten().count(),
            kept: None,
        });
    }
    if let Some(failed) = super::run::failures(&outcomes) {
        eprintln!("{}: {failed}", experiment.name);
    }
    Ok(outcomes)
}
