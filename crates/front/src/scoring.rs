//! Runs the experiments behind published tables and scores the engine's figures against them.

use crate::failure::Failure;
use crate::runs::{failures, fitting_jobs};
use lab::model::{Experiment, Outcomes};
use lab::published::score::{Scored, score_values};
use lab::published::{Plan, Series, plan};
use lab::runner::{self, RunOptions};
use std::num::{NonZeroU32, NonZeroUsize};

/// Checks that the series `wanted` is one of `all`; `None` is accepted.
pub fn known(all: &[Series], wanted: Option<&str>) -> Result<(), Failure> {
    let known: Vec<&str> = all.iter().map(|s| &s.name[..]).collect();
    match wanted.filter(|s| !known.contains(s)) {
        None => Ok(()),
        Some(wanted) => Err(Failure::Input(miette::miette!(
            help = format!("one of {}", known.join(", ")),
            "no series `{wanted}`"
        ))),
    }
}

/// Returns the series called `name`; `None`: all series.
pub fn wanted<'a>(
    all: &'a [Series],
    name: Option<&'a str>,
) -> impl Iterator<Item = &'a Series> + use<'a> {
    all.iter()
        .filter(move |series| name.is_none_or(|name| name == series.name))
}

/// Plans the runs of a series. `iterations` replaces the series' own number of them; `draw` chooses
/// the seeds, and 1 stands for those of the experiments.
pub fn planned_runs(
    series: &Series,
    iterations: Option<NonZeroU32>,
    draw: NonZeroU32,
) -> Result<Plan, Failure> {
    let plan = plan(series, iterations.map(NonZeroU32::get));
    let mut plan = plan.map_err(|e| Failure::Input(e.into()))?;
    plan.draw(draw.get());
    Ok(plan)
}

/// Runs the experiments behind the series and scores them against the tables. Returns each series'
/// name with the scores of its rows. `iterations` and `draw` are those of the command line; `jobs`
/// is the wanted number of threads.
pub fn score<'a>(
    all: impl Iterator<Item = &'a Series>,
    iterations: Option<NonZeroU32>,
    draw: NonZeroU32,
    jobs: Option<NonZeroUsize>,
    options: &RunOptions,
) -> Result<Vec<(String, Vec<Scored>)>, Failure> {
    let mut scored = Vec::new();
    for series in all {
        let plan = planned_runs(series, iterations, draw)?;
        let mut outcomes = Vec::new();
        for run in &plan.runs {
            let options = RunOptions {
                jobs: fitting_jobs(&run.experiment, jobs)?,
                ..options.clone()
            };
            outcomes.push(simulate(&run.experiment, &options)?);
        }
        let values = plan.values(series, &outcomes);
        let rows = score_values(&series.rows, &series.about.baseline, &values);
        scored.push((series.name.clone(), rows));
    }
    Ok(scored)
}

/// Runs an experiment in the engine. An interrupt is an error; failed iterations are only reported,
/// and have no figures.
fn simulate(experiment: &Experiment, options: &RunOptions) -> Result<Outcomes, Failure> {
    let outcomes = runner::run(experiment, options, &sim::run)?;
    if outcomes.interrupted {
        return Err(Failure::Interrupted {
            finished: outcomes.results.iter().flatten().flatten().count(),
            wanted: outcomes.results.iter().flatten().count(),
            kept: None,
        });
    }
    if let Some(failed) = failures(&outcomes) {
        eprintln!("{}: {failed}", experiment.name);
    }
    Ok(outcomes)
}
