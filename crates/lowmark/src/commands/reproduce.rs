//! `lowmark reproduce`.

use crate::cli::Reproduce;
use crate::failure::Failure;
use crate::text;
use lab::diagnostic::Source;
use lab::experiment::Overrides;
use lab::model::Outcomes;
use lab::published::{self, Row};
use lab::reproduce::{FILES, SERIES, Scored, keep_wanted, score, to_json, to_text};
use lab::runner::{self, RunOptions};

/// Runs the experiments behind published tables and scores them.
pub fn run(args: &Reproduce) -> Result<(), Failure> {
    let options = RunOptions {
        jobs: super::run::jobs(args.jobs),
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
        for (path, text) in series.experiments {
            outcomes.extend(simulate(path, text, &of_series, args, &options)?);
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

fn simulate(
    path: &str,
    source: &str,
    rows: &[Row],
    args: &Reproduce,
    options: &RunOptions,
) -> Result<Option<Outcomes>, Failure> {
    // The machines and policies of the published series come with the program.
    let files = |name: &str| {
        let found = FILES.iter().find(|(path, _)| *path == name);
        found
            .map(|(path, text)| ((*path).to_string(), (*text).to_string()))
            .ok_or_else(|| format!("no file {name}"))
    };
    let source = Source::new(path, source);
    let mut experiment = lab::experiment::parse(&source, &files, &Overrides::default())
        .map_err(|e| Failure::Input(e.into()))?;
    keep_wanted(&mut experiment, rows);
    if experiment.cells.is_empty() {
        return Ok(None);
    }
    if let Some(n) = args.iterations {
        experiment.iterations = n.get();
    }
    let outcomes = runner::run(&experiment, options, &sim::run)?;
    if outcomes.interrupted {
        return Err(Failure::Interrupted {
            finished: outcomes.results.iter().flatten().flatten().count(),
            wanted: outcomes.results.iter().flatten().count(),
            kept: None,
        });
    }
    Ok(Some(outcomes))
}
