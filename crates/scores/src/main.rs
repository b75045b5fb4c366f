//! Measures published series, writes the figures to `data/scores.json`, and from there to README
//! and docs, between their markers (`markers`).
//!
//! ```text
//! just scores                    the two series that take a minute: the missing draws, up to five
//! just scores SERIES …           these series; with --seeds N up to N draws. Each draw is
//!                                written when it is done: an interrupted command continues
//!                                where it stopped
//! just scores all                every series
//! just scores missing            only cells without a figure, if the engine still gives its own
//! just scores mark-stale [SERIES …]  marks these scores (or all whose answers have changed) in
//!                                README as an earlier engine's
//! just scores status             what is measured, with which engine, and what to do next
//! just scores fill               fills prose from the file, without measuring
//! just scores --check            checks prose against the file, and runs short samples of every
//!                                series against the engine
//! ```

#![forbid(unsafe_code)]

use ::scores::markers;
use lab::model::{Experiment, Outcomes};
use lab::published::scores::{FEWEST, Measured, Sample, Scores};
use lab::published::{Plan, PublishedRow, Series, find, plan, shipped};
use lab::runner::{self, RunOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

const USAGE: &str = "usage: scores [--seeds N] [--check | fill | status | missing [SERIES …] | \
                     mark-stale [SERIES …] | all | SERIES …]";

/// Returns the names of all series.
fn names() -> Vec<&'static str> {
    shipped().iter().map(|s| &s.name[..]).collect()
}

/// Returns the series that are measured without arguments.
fn light() -> Vec<&'static str> {
    let light = shipped().iter().filter(|s| s.about.light);
    light.map(|s| &s.name[..]).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a subcommand: measures, completes or checks the scores of published series (how many of
/// their figures the engine reproduces). `seeds` is the wanted number of draws, runs of a series
/// with different seeds.
fn run(args: &[&str], seeds: u32) -> Result<(), Wrong> {
    let known = |names: &[&str]| match names.iter().find(|n| find(n).is_none()) {
        None => Ok(()),
        Some(wrong) => {
            let known = self::names().join(", ");
            Err(Wrong::Usage(format!("no series `{wrong}`; one of {known}")))
        }
    };
    let done = match args {
        ["--check"] => check(),
        ["fill"] => load().and_then(|s| fill(&s)),
        ["status"] => load().and_then(|s| status(&s)),
        [] => measure(&light(), seeds),
        ["all"] => measure(&names(), seeds),
        ["missing"] => complete(&names()),
        ["missing", named @ ..] => {
            known(named)?;
            complete(named)
        }
        ["mark-stale"] => mark_stale(&names(), false),
        ["mark-stale", named @ ..] => {
            known(named)?;
            mark_stale(named, true)
        }
        named => {
            known(named)?;
            measure(named, seeds)
        }
    };
    done.map_err(Wrong::Found)
}

/// The reason for a failure.
enum Wrong {
    /// The command line is wrong.
    Usage(String),
    /// The subcommand failed or found a problem.
    Found(String),
}

/// Runs the command. Returns 0, 1 with a message if it failed or found a problem, 2 if the command
/// line is wrong.
fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut args: Vec<&str> = args.iter().map(|a| &a[..]).collect();
    let mut seeds = FEWEST as u32;
    if let Some(at) = args.iter().position(|a| *a == "--seeds") {
        let given = args.get(at + 1).and_then(|n| n.parse().ok());
        let Some(given) = given.filter(|n| *n > 0) else {
            eprintln!("`--seeds` takes a number of draws, from 1\n{USAGE}");
            return ExitCode::from(2);
        };
        seeds = given;
        args.drain(at..at + 2);
    }
    match run(&args, seeds) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Wrong::Usage(why)) => {
            eprintln!("{why}\n{USAGE}");
            ExitCode::from(2)
        }
        Err(Wrong::Found(why)) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the scores measured so far from `data/scores.json`.
fn load() -> Result<Scores, String> {
    let file = root().join("data/scores.json");
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    Scores::parse(&text)
}

/// Writes the scores to `data/scores.json`, wholly or not at all.
fn store(scores: &Scores) -> Result<(), String> {
    // Written wholly or not at all: a draw may have taken an hour.
    let file = root().join("data/scores.json");
    let new = file.with_extension("json.new");
    let written =
        std::fs::write(&new, scores.to_text()).and_then(|()| std::fs::rename(&new, &file));
    written.map_err(|e| format!("{}: {e}", file.display()))
}

/// Runs a plan's experiments, on all cores, and returns their outcomes in order.
fn simulate(series: &Series, plan: &Plan) -> Result<Vec<Outcomes>, String> {
    let options = RunOptions {
        jobs: std::thread::available_parallelism().map_or(1, Into::into),
        check: None,
        progress: None,
        listeners: None,
        stop: Arc::default(),
    };
    let one = |experiment: &Experiment| {
        eprintln!("{}: {}", series.name, experiment.name);
        runner::run(experiment, &options, &sim::run).map_err(|e| e.to_string())
    };
    plan.runs.iter().map(|r| one(&r.experiment)).collect()
}

/// Measures one draw of a series: runs the experiments of those rows of its published tables that
/// `wanted` accepts, with the seeds of `seed`, and computes their figures.
fn draw(
    series: &Series,
    seed: u32,
    wanted: &dyn Fn(&PublishedRow) -> bool,
) -> Result<Measured, String> {
    let mut plan = plan(series, None).map_err(|e| e.to_string())?;
    plan.keep(series, |i| wanted(&series.rows[i]));
    plan.draw(seed);
    let outcomes = simulate(series, &plan)?;
    let experiments: Vec<_> = plan.runs.iter().map(|r| &r.experiment).collect();
    let values = plan.values(series, &outcomes);
    let mut measured = Measured::new(series, seed, &experiments, &values);
    measured.revision = revision();
    Ok(measured)
}

/// Runs the short sample of a series, whose digests tell whether the engine still gives the same
/// answers.
fn sample(series: &Series) -> Result<Sample, String> {
    let plan = Sample::plan(series).map_err(|e| e.to_string())?;
    Ok(Sample::of(series, &simulate(series, &plan)?))
}

/// Returns the commit of the sources, with `+` if files that are built differ from it.
fn revision() -> String {
    let git = |args: &[&str]| {
        let done = Command::new("git").args(args).current_dir(root()).output();
        let done = done.ok().filter(|done| done.status.success())?;
        Some(String::from_utf8_lossy(&done.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=8", "HEAD"]) else {
        return "unknown".into();
    };
    let sources = [
        "crates",
        "data/published",
        "experiments",
        "machines",
        "policies",
    ];
    let differs = git(&[&["status", "--porcelain", "--"][..], &sources[..]].concat());
    match differs.is_some_and(|d| !d.is_empty()) {
        true => commit + "+",
        false => commit,
    }
}

/// Returns the published series of that name, or an error.
fn shipped_series(name: &str) -> Result<&'static Series, String> {
    find(name).ok_or_else(|| format!("no series `{name}`"))
}

/// Measures the draws that series lack with the present engine, up to `seeds` each, after dropping
/// outdated ones. Each is stored when it is done; the prose is then filled with the new scores.
fn measure(series: &[&str], seeds: u32) -> Result<(), String> {
    let mut scores = load()?;
    for name in series {
        let series = shipped_series(name)?;
        let now = sample(series)?;
        let engine = now.engine();
        let outdated = |m: &Measured| m.outdated().map_or(true, |why| !why.is_empty());
        scores
            .series
            .retain(|m| m.name != *name || m.engine != engine || !outdated(m));
        let lacks = scores.lacks(name, &engine, seeds);
        if lacks.is_empty() {
            eprintln!("{name}: nothing to do, {seeds} draws of this engine are there");
            scores.stale.remove(*name);
        }
        for seed in lacks {
            eprintln!("{name}: draw {seed} of {seeds}");
            let mut measured = draw(series, seed, &|_| true)?;
            measured.engine.clone_from(&engine);
            scores.put(measured);
            scores.put_sample(now.clone());
            store(&scores)?;
        }
        store(&scores)?;
    }
    fill(&scores)?;
    status(&scores)
}

/// Marks the scores of series as an earlier engine's: of all that are named if `all`, else of those
/// whose sample gives other answers. Prose shows the mark.
fn mark_stale(series: &[&str], all: bool) -> Result<(), String> {
    let mut scores = load()?;
    for name in series {
        if scores.stale.contains_key(*name) || scores.of(name).is_none() {
            continue;
        }
        let wrong = match all {
            true => Some(()),
            false => scores.against(&sample(shipped_series(name)?)?).map(|_| ()),
        };
        if wrong.is_some() {
            println!("{name}: stale since {}", revision());
            scores.stale.insert((*name).to_owned(), revision());
        }
    }
    store(&scores)?;
    fill(&scores)
}

/// Measures only the cells that were added to a series' tables since it was measured, and adds them
/// to the existing figures. The engine must still give the old answers.
///
/// # Errors
/// The engine no longer gives the sample's figures, or a series was never measured, or with another
/// engine.
fn complete(series: &[&str]) -> Result<(), String> {
    let mut scores = load()?;
    for name in series {
        let series = shipped_series(name)?;
        let whole = || format!("{name} has to be measured as a whole: just scores {name}");
        let had = scores.of(name).ok_or_else(whole)?;
        if series.rows.iter().all(|row| had.has(row)) {
            continue;
        }
        let had: Vec<Measured> = had.draws.into_iter().cloned().collect();
        let now = sample(series)?;
        // New rows of the tables may have brought new cells to the sample; the old cells must be
        // unchanged.
        let held = scores.sample.iter().find(|s| s.name == *name);
        let same = held.is_some_and(|held| {
            let mut cells = held.cells.iter();
            cells.all(|(cell, digest)| now.cells.get(cell) == Some(digest))
        });
        if !same || scores.stale.contains_key(*name) {
            return Err(whole());
        }
        let engine = now.engine();
        for draw in scores.series.iter_mut().filter(|m| m.name == *name) {
            draw.engine.clone_from(&engine);
        }
        scores.put_sample(now);
        for mut all in had {
            all.complete(draw(series, all.seed, &|row| !all.has(row))?);
            all.engine.clone_from(&engine);
            scores.put(all);
            store(&scores)?;
        }
    }
    fill(&scores)?;
    status(&scores)
}

/// Prints for each series how many draws were measured, at which revision, and the command that is
/// due.
fn status(scores: &Scores) -> Result<(), String> {
    for name in names() {
        let Some(drawn) = scores.of(name) else {
            eprintln!("note: {name} was never measured: just scores {name}");
            continue;
        };
        let (seeds, revision) = (drawn.seeds(), drawn.revision());
        let draws = if seeds == 1 { "draw" } else { "draws" };
        let mut next = Vec::new();
        if let Some(since) = drawn.stale {
            next.push(format!("stale since {since}"));
        }
        if seeds < FEWEST {
            next.push(format!("{} more wanted", FEWEST - seeds));
        }
        if next.is_empty() {
            eprintln!("{name}: {seeds} {draws}, measured at {revision}");
        } else {
            let next = next.join(", ");
            eprintln!(
                "note: {name}: {seeds} {draws}, measured at {revision}; {next}: just scores {name}"
            );
        }
    }
    Ok(())
}

/// Fills the scores between the markers of README and docs from the file. A malformed marker or a
/// score outside of markers is an error.
fn fill(scores: &Scores) -> Result<(), String> {
    let mut problems = Vec::new();
    for (name, path) in markers::prose(&root())? {
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{name}: {e}"))?;
        let filled = markers::fill(&name, &text, scores);
        problems.extend(filled.problems);
        if filled.text != text {
            std::fs::write(&path, filled.text).map_err(|e| format!("{name}: {e}"))?;
            println!("{name}: written");
        }
    }
    as_result(problems)
}

/// Checks that prose agrees with the file of scores, and runs a short sample of every series to see
/// whether the engine still gives the same answers.
fn check() -> Result<(), String> {
    let scores = load()?;
    let mut problems = markers::problems(&root(), &scores)?;
    status(&scores)?;
    for series in shipped() {
        if scores.of(&series.name).is_some() {
            problems.extend(scores.against(&sample(series)?));
        }
    }
    as_result(problems)
}

/// Returns an error with one problem per line, if there are any.
fn as_result(problems: Vec<String>) -> Result<(), String> {
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems.join("\n")),
    }
}
