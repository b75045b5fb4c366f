//! Measures published series anew and writes what came out into `data/scores.json`, and from there
//! into README and docs, between their markers (`markers`).
//!
//! ```text
//! just scores                    the two series that take a minute
//! just scores SERIES …           those
//! just scores all                every series; two of them take an hour
//! just scores missing            cells without a figure alone, if the engine still gives what it gave
//! just scores fill               prose from the file, nothing is measured
//! just scores --check            prose against the file, and a few iterations against the engine
//! ```

#![forbid(unsafe_code)]

use ::scores::markers;
use lab::published::scores::{self, Measured, MeasuredRow, Scores, fingerprint};
use lab::published::{PublishedRow, Series, find, plan, shipped};
use lab::runner::{self, RunOptions};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

const USAGE: &str = "usage: scores [--check | fill | missing | all | SERIES …]";
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
        ["missing"] => complete(&names()),
        ["missing", named @ ..] if named.iter().all(|n| find(n).is_some()) => complete(named),
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

/// Runs a series' experiments, as far as the wanted rows ask for them.
fn measured(
    series: &Series,
    iterations: Option<u32>,
    engine: &str,
    wanted: &dyn Fn(&PublishedRow) -> bool,
) -> Result<Measured, String> {
    let options = RunOptions {
        jobs: std::thread::available_parallelism().map_or(1, Into::into),
        check: None,
        progress: true,
        listeners: None,
        stop: Arc::default(),
    };
    let mut plan = plan(series, iterations).map_err(|e| e.to_string())?;
    plan.keep(series, |i| wanted(&series.rows[i]));
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
    let one = |(series, n): (&Series, u32)| measured(series, Some(n), "", &|_| true);
    scores::sample().map(one).collect()
}

fn write(series: &[&str]) -> Result<(), String> {
    let mut scores = load()?;
    scores.sample = sample()?;
    let engine = fingerprint(&scores.sample);
    for name in series {
        let series = find(name).ok_or_else(|| format!("no series `{name}`"))?;
        scores.put(measured(series, None, &engine, &|_| true)?);
        // After each, for the next one may take an hour.
        let file = root().join("data/scores.json");
        std::fs::write(&file, scores.to_text()).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    notes(&scores);
    fill(&scores)
}

/// Measures what the tables have gained since, beside the figures that are there.
///
/// # Errors
/// Where the engine no longer gives the sample's figures, a series was never measured or by another engine.
fn complete(series: &[&str]) -> Result<(), String> {
    let mut scores = load()?;
    let now = sample()?;
    let others: Vec<String> = scores
        .sample
        .iter()
        .zip(&now)
        .flat_map(|(a, b)| moved(a, b))
        .collect();
    as_result(others)?;
    // Tables that gained rows gave the same engine another name.
    let (old, new) = (fingerprint(&scores.sample), fingerprint(&now));
    for m in scores.series.iter_mut().filter(|m| m.engine == old) {
        m.engine.clone_from(&new);
    }
    scores.sample = now;
    for name in series {
        let series = find(name).ok_or_else(|| format!("no series `{name}`"))?;
        let whole = || format!("{name} has to be measured as a whole: just scores {name}");
        let had = scores.of(name).cloned().ok_or_else(whole)?;
        if had.engine != new {
            return Err(whole());
        }
        if series.rows.iter().all(|r| had.has(r)) {
            continue;
        }
        let mut all = had.clone();
        all.complete(measured(series, None, &new, &|row| !had.has(row))?);
        scores.put(all);
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
        let cells = |m: &Measured| m.figures.iter().map(|f| f.cell.clone()).collect::<Vec<_>>();
        if cells(held) != cells(now) {
            problems.push(format!("{}: the published table has other rows", held.name));
        }
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
    // By cell: a table may have gained rows since.
    let of = |a: &MeasuredRow| now.figures.iter().find(|b| b.cell == a.cell);
    let pairs = held.figures.iter().filter_map(|a| Some((a, of(a)?)));
    let differ: Vec<_> = pairs.filter(|(a, b)| !same(a.value, b.value)).collect();
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
    }
    out
}

fn as_result(problems: Vec<String>) -> Result<(), String> {
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems.join("\n")),
    }
}
