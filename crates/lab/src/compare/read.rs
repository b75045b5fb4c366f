//! Reads `results.json` back: the cells of a run and, of each finished iteration, the data that
//! rows are computed from.

use crate::diagnostic::Diagnostic;
use crate::results::stored::{self, Completeness};
use crate::results::{Kind, bytes_unchanged, read_alone};
use serde::Deserialize;
use sim::account::{ReclaimSums, TaskTime};
use sim::result::Metric;
use sim::{Origin, Outcome, RunResult};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A stored run.
#[derive(Debug, Clone)]
pub struct Stored {
    /// The path of its `results.json`.
    pub path: PathBuf,
    /// Version, revision and build of the program; results of earlier versions have the version
    /// only.
    pub build: String,
    /// The experiment's name.
    pub name: String,
    /// The experiment's seed.
    pub seed: u64,
    /// The experiment's text.
    pub text: String,
    /// True if the file was checked for changes by the list in its folder.
    pub checked: bool,
    /// True if the run was interrupted.
    pub interrupted: bool,
    /// The cells, in matrix order.
    pub cells: Vec<StoredCell>,
}

/// A cell of a stored run.
#[derive(Debug, Clone)]
pub struct StoredCell {
    /// The cell's machine, filesystem, policy and every axis, by key.
    pub axes: BTreeMap<String, String>,
    /// True if machines of the engine were made equal to the guests of real kernels in the same run
    /// ([`like_guests`](crate::validate::beside::like_guests)).
    pub like_guests: bool,
    /// True if computing takes time in the cell; results of earlier versions do not say, and there
    /// it does.
    pub takes_time: bool,
    /// The iterations that finished.
    pub iterations: Vec<StoredIteration>,
}

/// A finished iteration.
#[derive(Debug, Clone)]
pub struct StoredIteration {
    /// The iteration's seed and the digest of its log of events: if both are equal, two iterations
    /// are the same.
    pub same: (String, String),
    /// Outcome, metrics, counters, sums over reclaim's events and times; the other fields are
    /// empty.
    pub result: RunResult,
}

#[derive(Deserialize)]
struct Document {
    lowmark: String,
    #[serde(default)]
    build: Option<String>,
    experiment: Head,
    #[serde(default)]
    interrupted: bool,
    cells: Vec<CellJson>,
}

#[derive(Deserialize)]
struct Head {
    name: String,
    seed: u64,
    #[serde(default)]
    text: String,
    #[serde(default)]
    said: Vec<String>,
}

#[derive(Deserialize)]
struct CellJson {
    machine: String,
    filesystem: String,
    policy: String,
    axes: Vec<Axis>,
    /// In a real kernel's cell, whether computing takes time; absent otherwise.
    #[serde(default)]
    costs: Option<bool>,
    iterations: Vec<Iteration>,
}

#[derive(Deserialize)]
struct Axis {
    key: String,
    value: String,
}

#[derive(Deserialize)]
struct Iteration {
    seed: String,
    digest: String,
    /// The world that gave the result; absent in files of the engine's runs.
    #[serde(default)]
    origin: Option<Origin>,
    outcome: Outcome,
    metrics: BTreeMap<String, Metric>,
    counters: BTreeMap<String, u64>,
    reclaim: Option<ReclaimSums>,
    #[serde(default)]
    tasks: Vec<TaskTime>,
}

impl Iteration {
    /// Converts a stored iteration; files without `origin` take the world from the policy's name
    /// (`kernel`: it is a real kernel's).
    fn stored(self, kernel: bool) -> StoredIteration {
        let mut result = RunResult::of_kernel(self.outcome);
        let of_policy = if kernel {
            Origin::Kernel
        } else {
            Origin::Engine
        };
        result.origin = self.origin.unwrap_or(of_policy);
        result.metrics = self.metrics;
        result.counters = self.counters;
        result.reclaim = self.reclaim;
        result.tasks = self.tasks;
        StoredIteration {
            same: (self.seed, self.digest),
            result,
        }
    }
}

impl Stored {
    /// Converts a parsed `results.json`; machine, filesystem and policy become axes.
    fn new(path: PathBuf, checked: bool, document: Document) -> Self {
        let like_guests = !document.experiment.said.is_empty();
        let cell = |c: CellJson| {
            let kernel = c.policy.starts_with("kernel:");
            let mut axes: BTreeMap<_, _> = c.axes.into_iter().map(|a| (a.key, a.value)).collect();
            for (key, value) in [
                ("machine", c.machine),
                ("filesystem", c.filesystem),
                ("policy", c.policy),
            ] {
                axes.entry(key.to_owned()).or_insert(value);
            }
            let iterations = c.iterations.into_iter();
            StoredCell {
                axes,
                like_guests,
                takes_time: c.costs.unwrap_or(true),
                iterations: iterations.map(|i| i.stored(kernel)).collect(),
            }
        };
        Self {
            path,
            build: document.build.unwrap_or(document.lowmark),
            name: document.experiment.name,
            seed: document.experiment.seed,
            text: document.experiment.text,
            checked,
            interrupted: document.interrupted,
            cells: document.cells.into_iter().map(cell).collect(),
        }
    }
}

/// The name of the file in a results folder.
const RESULTS: &str = "results.json";
const ACCEPTED: &str = "accepted: folders of results of `lowmark run`, folders that hold such folders, and \
                        files `results.json`; a file may stand alone, and is then not checked for changes";

/// Reads the run of the results folder `dir`; fails if its `results.json` can't be read, can't be
/// checked for changes or has changed, or is something else.
fn read_folder(dir: &Path) -> Result<Stored, Diagnostic> {
    let read = bytes_unchanged(dir, RESULTS);
    parsed(&dir.join(RESULTS), read.map(|bytes| (bytes, true)))
}

/// Reads the run of a lone `results.json`, which may have any name. Fails if the file can't be
/// read, has changed by the list in its folder, or is something else.
fn read_file(path: &Path) -> Result<Stored, Diagnostic> {
    parsed(path, read_alone(path))
}

/// Parses what was read of the `results.json` at `path`: its bytes, and true if they were checked.
fn parsed(path: &Path, read: io::Result<(Vec<u8>, bool)>) -> Result<Stored, Diagnostic> {
    let shown = path.display();
    let wrong = |why: String| Diagnostic::placeless(why, ACCEPTED);
    let (bytes, checked) = read.map_err(|e| wrong(format!("can't read `{shown}`: {e}")))?;
    let document = serde_json::from_slice(&bytes)
        .map_err(|e| wrong(format!("`{shown}` is not the results.json of a run: {e}")))?;
    Ok(Stored::new(path.to_owned(), checked, document))
}

/// Reads every run that a path stands for: a file, a results folder, or the complete runs in a
/// folder of results folders.
///
/// # Errors
/// Fails if the path is none of these, or a file can't be read.
pub fn read(path: &Path) -> Result<Vec<Stored>, Diagnostic> {
    let shown = path.display();
    let wrong = |why: String| Diagnostic::placeless(why, ACCEPTED);
    let meta = fs::metadata(path).map_err(|e| wrong(format!("can't read `{shown}`: {e}")))?;
    if !meta.is_dir() {
        return Ok(vec![read_file(path)?]);
    }
    if path.join(RESULTS).exists() {
        return Ok(vec![read_folder(path)?]);
    }
    let found = stored::list(path).map_err(|e| wrong(format!("can't read `{shown}`: {e}")))?;
    let runs = found
        .iter()
        .filter(|s| s.kind == Some(Kind::Run) && s.state == Completeness::Complete);
    let runs: Vec<Stored> = runs
        .map(|s| read_folder(&s.dir))
        .collect::<Result<_, _>>()?;
    if runs.is_empty() {
        return Err(wrong(format!("`{shown}` holds no results of a run")));
    }
    Ok(runs)
}
