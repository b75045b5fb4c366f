//! `lowmark reproduce`.

use crate::cli::Reproduce;
use crate::{bars, text};
use front::failure::Failure;
use front::scoring::{known, planned_runs, score, wanted};
use lab::published::score::Scored;
use lab::published::text::{to_json, to_text};
use lab::published::{self, Plan, Series};
use lab::runner::RunOptions;
use std::fmt::Write as _;

/// Runs the experiments behind published tables, scores the engine's figures against them, and
/// prints the scores; with `--plan` prints only what would be run.
pub fn run(args: &Reproduce) -> Result<(), Failure> {
    let options = RunOptions {
        jobs: 1, // determined for each experiment by its memory
        check: None,
        progress: Some(bars::iterations),
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
