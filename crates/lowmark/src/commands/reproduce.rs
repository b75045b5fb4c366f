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
use std::num::NonZeroU32;

/// Runs the experiments behind published tables and scores them.
pub fn run(args: &Reproduce) -> Result<(), Failure> {
    let options = RunOptions {
        jobs: 1, // by what fits, experiment by experiment
        check: None,
        progress: true,
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
    let known: Vec<&str> = all.iter().map(|s| &s.name[..]).collect();
    if let Some(wanted) = args.series.as_deref().filter(|s| !known.contains(s)) {
        return Err(Failure::Input(miette::miette!(
            help = format!("one of {}", known.join(", ")),
            "no series `{wanted}`"
        )));
    }
    let (mut scored, mut planned) = (Vec::new(), String::new());
    for series in &all {
        if args.series.as_deref().is_some_and(|s| s != series.name) {
            continue;
        }
        let plan = plan(series, args.iterations.map(NonZeroU32::get));
        let plan = plan.map_err(|e| Failure::Input(e.into()))?;
        if args.plan {
            planned.push_str(&plan_text(series, &plan));
            continue;
        }
        let mut outcomes = Vec::new();
        for run in &plan.runs {
            let jobs = super::run::fitting_jobs(&run.experiment, args.jobs)?;
            let options = RunOptions {
                jobs,
                ..options.clone()
            };
            outcomes.push(simulate(&run.experiment, &options)?);
        }
        let values = plan.values(series, &outcomes);
        let rows = score_values(&series.rows, &series.about.baseline, &values);
        scored.push((series.name.clone(), rows));
    }
    match args.plan {
        true => text::print(&planned),
        false => print(&scored, args.json),
    }
}

/// What would be run for a series, and the rows that have no run.
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
