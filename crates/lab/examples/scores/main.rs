//! Measures published series anew and writes what came out into `data/scores.json`, and from there
//! into README and docs, between their markers (`markers`).
//!
//! ```text
//! just scores                    the two series that take a minute
//! just scores SERIES …           those
//! just scores all                every series; two of them take an hour
//! just scores fill               prose from the file, nothing is measured
//! just scores --check            prose against the file, and a few iterations against the engine
//! ```

mod markers;

use lab::published::scores::{self, Measured, Scores, fingerprint};
use lab::published::{Series, find, plan, shipped};
use lab::runner::{self, RunOptions};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

const USAGE: &str = "usage: scores [--check | fill | all | SERIES …]";
/// The names of all series.
fn names() -> Vec<&'static str> {
    shipped().iter().map(|s| &s.name[..]).collect()
}

/// What is measured without arguments: the series of the sample.
fn light() -> Vec<&'static str> {
    scores::sample().map(|(s, _)| &s.name[..]).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(|a| &a[..]).collect();
    let done = match &args[..] {
        ["--check"] => check(),
        ["fill"] => load().and_then(|s| fill(&s)),
        [] => write(&light()),
        ["all"] => write(&names()),
        named => match named.iter().find(|n| find(n).is_none()) {
            None => write(named),
            Some(wrong) => {
                let known = names().join(", ");
                eprintln!("no series `{wrong}`; one of {known}\n{USAGE}");
                return ExitCode::from(2);
            }
        },
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn load() -> Result<Scores, String> {
    let file = root().join("data/scores.json");
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    Scores::parse(&text)
}

/// Runs a series' experiments.
fn measured(series: &Series, iterations: Option<u32>, engine: &str) -> Result<Measured, String> {
    let options = RunOptions {
        jobs: std::thread::available_parallelism().map_or(1, Into::into),
        check: false,
        progress: true,
        stop: Arc::default(),
    };
    let plan = plan(series, iterations).map_err(|e| e.to_string())?;
    let experiments: Vec<_> = plan.runs.iter().map(|r| &r.experiment).collect();
    let mut outcomes = Vec::new();
    for experiment in &experiments {
        eprintln!("{}: {}", series.name, experiment.name);
        let outcome = runner::run(experiment, &options, &sim::run).map_err(|e| e.to_string())?;
        outcomes.push(outcome);
    }
    let values = plan.values(series, &outcomes);
    Ok(Measured::new(
        series,
        &experiments,
        engine.to_owned(),
        &values,
    ))
}

fn sample() -> Result<Vec<Measured>, String> {
    let one = |(series, n): (&Series, u32)| measured(series, Some(n), "");
    scores::sample().map(one).collect()
}

fn write(series: &[&str]) -> Result<(), String> {
    let mut scores = load()?;
    scores.sample = sample()?;
    let engine = fingerprint(&scores.sample);
    for name in series {
        let series = find(name).ok_or_else(|| format!("no series `{name}`"))?;
        scores.put(measured(series, None, &engine)?);
        // After each, for the next one may take an hour.
        let file = root().join("data/scores.json");
        std::fs::write(&file, scores.to_text()).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    notes(&scores);
    fill(&scores)
}

/// Which series another engine gave, and which none did.
fn notes(scores: &Scores) {
    let engine = fingerprint(&scores.sample);
    for name in names() {
        match scores.of(name) {
            None => eprintln!("note: {name} was never measured: just scores {name}"),
            Some(m) if m.engine != engine => {
                eprintln!("note: another engine gave the figures of {name}: just scores {name}");
            }
            Some(_) => {}
        }
    }
}

/// Writes prose from the file.
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

fn check() -> Result<(), String> {
    let scores = load()?;
    let mut problems = markers::problems(&root(), &scores)?;
    notes(&scores);
    let now = sample()?;
    for (held, now) in scores.sample.iter().zip(&now) {
        problems.extend(moved(held, now));
    }
    if scores.sample.len() != now.len() {
        problems.push("data/scores.json: the sample has other series".into());
    }
    as_result(problems)
}

/// In what the engine no longer gives what it gave.
fn moved(held: &Measured, now: &Measured) -> Vec<String> {
    let same = |a: Option<f64>, b: Option<f64>| match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs().max(b.abs()),
        (a, b) => a == b,
    };
    let pairs = held.figures.iter().zip(&now.figures);
    let differ: Vec<_> = pairs
        .filter(|(a, b)| a.cell != b.cell || !same(a.value, b.value))
        .collect();
    let mut out = Vec::new();
    if let Some((a, b)) = differ.first() {
        let (n, name) = (differ.len(), &held.name);
        let text = |v: Option<f64>| v.map_or("nothing".into(), |v| v.to_string());
        out.push(format!(
            "{name}: the engine gives {n} figures otherwise than data/scores.json says, the first: {} \
             was {}, is {}. `just scores all` measures anew; every published figure moves with it",
            b.cell,
            text(a.value),
            text(b.value),
        ));
    } else if held.figures.len() != now.figures.len() {
        out.push(format!("{}: the published table has other rows", held.name));
    }
    out
}

fn as_result(problems: Vec<String>) -> Result<(), String> {
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems.join("\n")),
    }
}
