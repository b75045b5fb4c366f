//! Git's bisection over a kernel's history, judged by experiments.
//!
//! `history` drives git, `search` samples commits through a judge until the first bad one is
//! found, `laboratory` is that judge: it builds a commit and runs an experiment with it. All runs
//! are kept in the search's folder and git's decisions are replayed at each start, so an
//! interrupted search continues with the same command.

mod history;
mod laboratory;
mod search;
mod text;

#[cfg(test)]
mod tests;

use crate::failure::Failure;
use crate::worlds::Here;
use history::{Commit, History, revision};
use kernel::build::{BuildError, Request, Source};
use lab::bisect::Power;
use lab::diagnostic::Diagnostic;
use lab::experiment::Overrides;
use lab::experiment::kernels::PREFIX;
use lab::model::Experiment;
use lab::results::hex;
use lab::runner::ShowProgress;
use laboratory::Laboratory;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Builds a kernel, with the display of progress that the caller has; the flag ends the build.
pub type Build<'a> = dyn Fn(&Request, &Arc<AtomicBool>) -> Result<(), BuildError> + 'a;

/// A search; the fields are options of `lowmark bisect`.
pub struct Wanted<'a> {
    /// A git repository with sources of Linux; nothing is written there.
    pub tree: &'a Path,
    /// The experiment to run with each kernel; its own policies are ignored.
    pub experiment: &'a Path,
    /// Keys of the experiment with their values as TOML: `filesystem="xfs"`.
    pub set: Vec<String>,
    /// A good revision.
    pub good: &'a str,
    /// A later, bad revision.
    pub bad: &'a str,
    /// The figure that distinguishes them: a row, a counter or a figure of the workload.
    pub metric: &'a str,
    /// The highest probability of a wrong answer.
    pub error: f64,
    /// The most runs of one kernel, each with its own seed.
    pub most: u32,
    /// Patches to apply to every kernel.
    pub patches: &'a [PathBuf],
    /// Fragments of a kernel configuration, applied after Lowmark's own.
    pub fragments: &'a [PathBuf],
    /// Whether to apply the patch that makes computation take time.
    pub costs: bool,
    /// The folder of the search; `None`: one in `results` with the experiment's name and both ends.
    pub out: Option<&'a Path>,
    /// Threads; the answer is the same for any number.
    pub jobs: Option<NonZeroUsize>,
    /// Whether judged commits are not reported on standard error.
    pub quiet: bool,
    /// Makes the display of the runs' progress; `None`: there is none.
    pub progress: Option<ShowProgress>,
    /// Builds a commit's kernel.
    pub build: &'a Build<'a>,
    /// Returns the flag that stops the search; called when its first run can begin.
    pub stop: fn() -> Arc<AtomicBool>,
}

/// A finished search.
#[derive(Debug, Clone)]
pub struct Searched {
    /// The answer as text.
    pub text: String,
    /// The answer as JSON.
    pub json: String,
    /// The folder of the search, with its runs and the answer.
    pub folder: PathBuf,
    /// The name of the kernels that were built.
    pub kernels: String,
}

/// Returns the error for wrong input: `what` is wrong, and `accepted` would be right.
fn wrong(what: impl Into<String>, accepted: impl Into<String>) -> Failure {
    Failure::Input(Diagnostic::placeless(what, accepted).into())
}

/// The parameters of a search, by which a folder is recognised.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Terms {
    tree: PathBuf,
    good: String,
    bad: String,
    experiment: String,
    patches: Vec<String>,
    fragments: Vec<String>,
    costs: bool,
}

impl Terms {
    /// Returns the name of the first parameter in which this search and `now` differ; `None` if
    /// they are the same search.
    fn difference(&self, now: &Self) -> Option<&'static str> {
        let pairs = [
            (self.tree != now.tree, "repository"),
            (self.good != now.good, "good revision"),
            (self.bad != now.bad, "bad revision"),
            (self.experiment != now.experiment, "experiment"),
            (self.patches != now.patches, "patch"),
            (self.fragments != now.fragments, "configuration"),
            (self.costs != now.costs, "patch for costs"),
        ];
        pairs
            .into_iter()
            .find_map(|(differs, what)| differs.then_some(what))
    }
}

/// Longest `search.json` that is read, in bytes: digests and a commit.
const MOST_TERMS: u64 = 1 << 20;

/// The folder of a search, locked as long as it is open.
struct Place {
    dir: PathBuf,
    _lock: File,
}

impl Place {
    /// Claims the folder `dir` for a search with these parameters: a new or empty folder, or that
    /// of the same search, which then continues. The folder is locked until the value is dropped.
    ///
    /// # Errors
    /// The folder has other files, another search, or another process that searches in it.
    fn claim(dir: PathBuf, terms: &Terms) -> Result<Self, Failure> {
        let io = |what: &str, e: &dyn std::fmt::Display| {
            wrong(
                format!("can't {what} {}: {e}", dir.display()),
                "accepted: `--out` with a folder that can be written to",
            )
        };
        let path = dir.join("search.json");
        let strange = dir.read_dir().is_ok_and(|mut d| d.next().is_some()) && !path.exists();
        if strange {
            return Err(wrong(
                format!("{} holds files that are not of a bisection", dir.display()),
                "accepted: `--out` with a new folder, or with the folder of the same search",
            ));
        }
        fs::create_dir_all(&dir).map_err(|e| io("make", &e))?;
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let lock = options.open(dir.join("lock")).map_err(|e| io("lock", &e))?;
        lock.try_lock().map_err(|e| match e {
            TryLockError::WouldBlock => wrong(
                format!("another process searches in {}", dir.display()),
                "accepted: the same command when the other process has ended, or another `--out`",
            ),
            TryLockError::Error(e) => io("lock", &e),
        })?;
        let unreadable = |e: &dyn std::fmt::Display| {
            wrong(
                format!(
                    "can't read {} as the terms of a search: {e}",
                    path.display()
                ),
                "accepted: `--out` with a new folder, or with the folder of the same search",
            )
        };
        match input::text(&path, MOST_TERMS) {
            Ok(text) => {
                let then: Terms = serde_json::from_str(&text).map_err(|e| unreadable(&e))?;
                if let Some(what) = then.difference(terms) {
                    return Err(wrong(
                        format!("{} is a search with another {what}", dir.display()),
                        "accepted: the same command as before, or `--out` with a new folder",
                    ));
                }
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let text = serde_json::to_string_pretty(terms).expect("plain data has a JSON form");
                let partial = dir.join("search.json.partial");
                fs::write(&partial, text).map_err(|e| io("write", &e))?;
                fs::rename(&partial, &path).map_err(|e| io("write", &e))?;
            }
            Err(e) => return Err(unreadable(&e)),
        }
        Ok(Self { dir, _lock: lock })
    }
}

/// Returns the SHA-256 digest of each file in hexadecimal digits, by which a changed patch or
/// configuration is noticed.
fn digests(paths: &[PathBuf]) -> Result<Vec<String>, Failure> {
    let one = |path: &PathBuf| {
        let bytes = input::bytes(path, 512 << 20).map_err(|e| {
            let what = format!("can't read {}: {e}", path.display());
            wrong(what, "accepted: a file that can be read")
        });
        Ok(hex(&Sha256::digest(bytes?)))
    };
    paths.iter().map(one).collect()
}

/// Reads the experiment with kernel `name` as its policy; it must have exactly one cell.
fn load(wanted: &Wanted<'_>, name: &str) -> Result<Experiment, Failure> {
    let mut set = wanted.set.clone();
    set.push(format!("policy=\"{PREFIX}{name}\""));
    let overrides = Overrides {
        set,
        iterations: Some(1),
        track_pages: false,
        ..Overrides::default()
    };
    let experiment = lab::experiment::load(wanted.experiment, &overrides)
        .map_err(|e| Failure::Input(e.into()))?;
    if experiment.cells.len() != 1 {
        let keys: Vec<String> = experiment.cells.iter().map(|c| c.group()).collect();
        return Err(wrong(
            format!(
                "the experiment has {} cells: {}",
                keys.len(),
                keys.join(", ")
            ),
            "accepted: one machine, one filesystem, one workload; `--set filesystem=ext4` chooses",
        ));
    }
    Ok(experiment)
}

/// Returns a name for the search's kernels, the same for all searches between the same commits of a
/// repository.
fn kernels_name(tree: &Path, good: &Commit, bad: &Commit) -> String {
    let all = format!("{} {} {}", tree.display(), good.hash, bad.hash);
    format!("bisect-{}", &hex(&Sha256::digest(all))[..12])
}

/// Searches a kernel's history for the first commit that changed a figure, and keeps the answer
/// beside all runs in the search's folder. The same command continues an interrupted
/// search.
///
/// # Errors
/// An argument is wrong, an end can't be judged, the system refuses, or the user stopped.
pub fn bisect(wanted: &Wanted<'_>) -> Result<Searched, Failure> {
    if !(wanted.error > 0.0 && wanted.error < 1.0) {
        let what = format!("`--error {}` is not a probability of error", wanted.error);
        return Err(wrong(what, "accepted: more than 0, less than 1"));
    }
    let metric = lab::rows::figure(wanted.metric).map_err(|why| {
        wrong(
            format!("`--metric`: {why}"),
            "accepted: a row, a counter or a figure of the workload; `lowmark explain` lists them",
        )
    })?;
    let good = revision(wanted.tree, "good", wanted.good)?;
    let bad = revision(wanted.tree, "bad", wanted.bad)?;
    if good.hash == bad.hash {
        let what = format!("`--good` and `--bad` are both {}", good.short());
        return Err(wrong(what, "accepted: a revision and a later one"));
    }
    let tree = fs::canonicalize(wanted.tree).unwrap_or_else(|_| wanted.tree.to_owned());
    let name = kernels_name(&tree, &good, &bad);
    let experiment = load(wanted, &name)?;
    let terms = Terms {
        tree,
        good: good.hash.clone(),
        bad: bad.hash.clone(),
        experiment: hex(&Sha256::digest(format!("{:?}", experiment.cells[0].spec))),
        patches: digests(wanted.patches)?,
        fragments: digests(wanted.fragments)?,
        costs: wanted.costs,
    };
    let default = || {
        let folder = format!(
            "bisect-{}-{}-{}",
            experiment.name,
            good.short(),
            bad.short()
        );
        Path::new("results").join(folder)
    };
    let place = Place::claim(wanted.out.map_or_else(default, Path::to_owned), &terms)?;
    let history = History::clone_of(wanted.tree, place.dir.join("tree"))?;
    // The numbers of runs with which all decisions together are wrong with at most this
    // probability.
    let power = Power::of_search(wanted.error, history.between(&good, &bad)?, wanted.most);
    if power.fewest() > wanted.most {
        let accepted = format!(
            "accepted: {} or more, or a larger `--error`",
            power.fewest()
        );
        let what = format!(
            "`--most {}` runs are too few for any conclusion",
            wanted.most
        );
        return Err(wrong(what, accepted));
    }
    let mut laboratory = Laboratory {
        request: Request {
            source: Source::Tree(history.root.clone()),
            patches: wanted.patches.to_vec(),
            fragments: wanted.fragments.to_vec(),
            name: Some(name.clone()),
            costs: wanted.costs,
            hz: experiment.cells[0].spec.machine.hz,
            arch: kernel::build::Arch::Um,
            base: None,
        },
        experiment,
        metric: wanted.metric,
        folder: place.dir.join("commits"),
        simulate: &Here::default(),
        jobs: wanted.jobs,
        quiet: wanted.quiet,
        progress: wanted.progress,
        build: wanted.build,
        stop: (wanted.stop)(),
    };
    let named = (wanted.metric, metric.unit);
    let answer = search::search(&mut laboratory, &history, (&good, &bad), power, named)?;
    history.remove();
    let shown = text::answer(&answer);
    let json = serde_json::to_string_pretty(&answer).expect("plain data has a JSON form");
    for (file, text) in [("answer.txt", &shown), ("answer.json", &json)] {
        let path = place.dir.join(file);
        fs::write(&path, text)
            .map_err(|e| Failure::System(miette::miette!("can't write {}: {e}", path.display())))?;
    }
    Ok(Searched {
        text: shown,
        json,
        folder: place.dir,
        kernels: name,
    })
}
