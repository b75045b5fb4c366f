//! `lowmark reproduce`.

use crate::cli::Reproduce;
use crate::failure::Failure;
use crate::text;
use lab::model::{Experiment, Outcomes};
use lab::published::score::{Scored, score_values};
use lab::published::text::{to_json, to_text};
use lab::published::{self, Plan, Series, plan};
use lab::runner::{self, RunOptions};
use std::fmt::Write as _;
use std::num::{NonZeroU32, NonZeroUsize};

/// Runs the experiments behind published tables, scores the engine's figures against them, and
/// prints the scores; with `--plan` prints only what would be run.
pub fn run(args: &Reproduce) -> Result<(), Failure> {
    let options = RunOptions {
        jobs: 1, // determined for each experiment by its memory
        check: None,
        progress: Some(crate::bars::iterations),
        listeners: None,
        stop: crate::interrupt::flag(),
    };
    let mut all = match &args.published {
        Some(folder) => published::read_folder(folder),
        None => Ok(published::shipped().to_vec()),
    }
    .map_err(|e| Failure::Input(e.into()))?;
    if let Some(folder) = &args.tables {
        let replaced = published::replace_tables(&mut all, folder);
        replaced.map_err(|e| Failure::Input(e.into()))?;
    }
    known(&all, args.series.as_deref())?;
    if args.plan {
        let mut planned = String::new();
        for series in wanted(&all, args.series.as_deref()) {
            let plan = planned_runs(series, args.iterations, args.draw)?;
            planned.push_str(&plan_text(series, &plan));
        }
        return text::print(&planned);
    }
    let chosen = wanted(&all, args.series.as_deref());
    let scored = score(chosen, args.iterations, args.draw, args.jobs, &options)?;
    print(&scored, args.json)
}

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
fn planned_runs(
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
                jobs: super::run::fitting_jobs(&run.experiment, jobs)?,
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

/// Describes the runs planned for a series, cell by cell, and the rows of its tables that have no
/// run, with the reason.
fn plan_text(series: &Series, plan: &Plan) -> String {
    let mut out = format!("{}: {} rows\n", series.name, series.rows.len());
    for run in &plan.runs {
        let e = &run.experiment;
        let (cells, iterations) = (e.cells.len(), e.iterations);
        let _ = writeln!(
            out,
            "  {}: cells: {cells}, iterations: {iterations}",
            e.name
        );
        for cell in &e.cells {
            let parts = [
                &cell.machine,
                &cell.threads,
                &cell.filesystem,
                &cell.workload,
                &cell.policy,
            ];
            let _ = writeln!(out, "    {}", parts.map(String::as_str).join(" "));
        }
    }
    for (row, run) in series.rows.iter().zip(&plan.rows) {
        if let Err(why) = run {
            let _ = writeln!(out, "  unsupported: {}: {why}", row.key());
        }
    }
    out
}

/// Prints the scores of each series, as JSON or as text.
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
    if let Some(failed) = super::run::failures(&outcomes) {
        eprintln!("{}: {failed}", experiment.name);
    }
    Ok(outcomes)
}
