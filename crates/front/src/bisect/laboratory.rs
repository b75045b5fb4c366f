//! Runs commits as kernels in experiments. Runs are kept and not repeated.

use super::Build;
use super::history::{Commit, History};
use super::search::{Judge, Sample, Step};
use crate::failure::Failure;
use crate::runs::fitting_jobs;
use kernel::build::{BuildError, Request, Source};
use lab::model::Experiment;
use lab::results::log::{Header, Log};
use lab::rows::figure_values;
use lab::runner::{self, Journal, RunOptions, ShowProgress, Simulate};
use sim::{Outcome, RunResult};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Judges commits by experiments.
pub struct Laboratory<'a> {
    /// The build request; its source is the clone.
    pub request: Request,
    /// The experiment, with the kernel's name as its policy.
    pub experiment: Experiment,
    /// The figure to judge by.
    pub metric: &'a str,
    /// The folder of runs, with a folder per commit.
    pub folder: PathBuf,
    /// The function that runs cells.
    pub simulate: Simulate<'a>,
    /// The number of parallel runs.
    pub jobs: Option<NonZeroUsize>,
    /// Whether judged commits are not reported.
    pub quiet: bool,
    /// Makes the display of the runs' progress.
    pub progress: Option<ShowProgress>,
    /// Builds a commit's kernel.
    pub build: &'a Build<'a>,
    /// Set by Ctrl-C.
    pub stop: Arc<AtomicBool>,
}

/// A commit's kept runs, and the log for new ones.
struct Runs {
    log: Log,
    known: BTreeMap<(u32, u32), RunResult>,
}

impl Journal for Runs {
    /// Returns a run of an earlier search, which is then not repeated; `None`: it has to run.
    fn earlier(&mut self, cell: u32, iteration: u32) -> Option<RunResult> {
        self.known.remove(&(cell, iteration))
    }

    /// Stores a run in the commit's log. A failure to do so is only reported.
    fn finished(&mut self, cell: u32, iteration: u32, result: &RunResult) {
        if let Err(e) = self.log.finished(cell, iteration, result) {
            eprintln!(
                "a run can't be stored: {e}; the search continues, but a later search would repeat the run"
            );
        }
    }
}

/// Returns the error that a file or folder can't be opened, read, written or made; `what` is the
/// verb.
fn trouble(what: &str, path: &Path, e: &io::Error) -> Failure {
    Failure::System(miette::miette!("can't {what} {}: {e}", path.display()))
}

/// Returns the error for a file in the folder of a search that no search has written.
fn foreign(path: &Path, e: &io::Error) -> Failure {
    Failure::Input(miette::miette!(
        help = "accepted: `--out` with a new folder, or with the folder of the same search",
        "can't read {}: {e}",
        path.display()
    ))
}

/// Longest reason why a commit can't be built that is read, in bytes.
const MOST_WHY: u64 = 64 << 20;

impl Laboratory<'_> {
    /// Returns the path of the file that keeps why a commit can't be built, in the commit's folder.
    fn failed(folder: &Path) -> PathBuf {
        folder.join("not-built.txt")
    }

    /// Opens the log of a commit's runs in `folder`. Runs of another experiment or another build of
    /// this program are dropped, with a message.
    fn runs(&self, folder: &Path) -> Result<Runs, Failure> {
        let path = folder.join("iterations.log");
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = options
            .open(&path)
            .map_err(|e| trouble("open", &path, &e))?;
        let opened = Log::open(file).map_err(|e| trouble("read", &path, &e))?;
        let (mut log, mut kept) =
            opened.ok_or_else(|| foreign(&path, &io::Error::other("it is not a log of runs")))?;
        let header = Header::new(&self.experiment, false, lab::results::log::build());
        // `None`: the kept runs fit; `Some(None)`: the log is new; `Some(Some(why))`: they are of
        // other terms.
        let another = match &kept.header {
            None => Some(None),
            Some(then) => then.difference(&header).map(Some),
        };
        if let Some(why) = another {
            if let Some(why) = why {
                eprintln!("runs in {} are not used: {why}", folder.display());
            }
            kept.results.clear();
            log.restart().map_err(|e| trouble("write", &path, &e))?;
            log.begin(&header)
                .map_err(|e| trouble("write", &path, &e))?;
        }
        Ok(Runs {
            log,
            known: kept.results,
        })
    }

    /// Checks out a commit and builds it. Returns `None` if it was built, else the reason why this
    /// commit can't be: a failed compilation is no error of the search.
    fn build(&mut self, history: &History, commit: &Commit) -> Result<Option<String>, Failure> {
        history.checkout(commit)?;
        self.request.source = Source::Tree(history.root.clone());
        match (self.build)(&self.request, &self.stop) {
            Ok(()) => Ok(None),
            Err(e @ BuildError::Failed { .. }) => Ok(Some(e.to_string())),
            // The commit's tree lacks something that guests need.
            Err(e @ BuildError::Input { .. }) => Ok(Some(e.to_string())),
            Err(e) => Err(e.into()),
        }
    }
}

impl Judge for Laboratory<'_> {
    /// Returns the figure in `runs` runs of a commit, with its kept runs first. Builds the kernel
    /// only if runs are missing. `Sample::None` with the reason if it can't be built or no run has
    /// the figure.
    fn sample(&mut self, history: &History, commit: &Commit, runs: u32) -> Result<Sample, Failure> {
        let folder = self.folder.join(commit.short());
        fs::create_dir_all(&folder).map_err(|e| trouble("make", &folder, &e))?;
        let failed = Self::failed(&folder);
        match input::text(&failed, MOST_WHY) {
            Ok(why) => return Ok(Sample::None(why)),
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(foreign(&failed, &e)),
        }
        let mut kept = self.runs(&folder)?;
        let known = (0..runs)
            .filter(|i| kept.known.contains_key(&(0, *i)))
            .count();
        if known < runs as usize
            && let Some(why) = self.build(history, commit)?
        {
            fs::write(&failed, &why).map_err(|e| trouble("write", &failed, &e))?;
            return Ok(Sample::None(why));
        }
        self.experiment.iterations = runs;
        let options = RunOptions {
            jobs: fitting_jobs(&self.experiment, self.jobs)?,
            check: None,
            progress: self.progress,
            listeners: None,
            stop: Arc::clone(&self.stop),
        };
        let outcomes = runner::run_with(&self.experiment, &options, self.simulate, &mut kept)?;
        if outcomes.interrupted || self.stop.load(SeqCst) {
            return Err(Failure::Stopped(format!(
                "stopped; the finished runs are kept in {}, and the same command continues",
                self.folder.display()
            )));
        }
        let results = &outcomes.results[0];
        let values = figure_values(results, self.metric);
        if values.is_empty() {
            let why = results.iter().flatten().find_map(|r| match &r.outcome {
                Outcome::Failed { error } => Some(error.clone()),
                _ => None,
            });
            let why = why.unwrap_or_else(|| format!("its runs have no `{}`", self.metric));
            return Ok(Sample::None(why));
        }
        Ok(Sample::Values(values))
    }

    /// Reports a judged commit on standard error, unless `--quiet`.
    fn looked(&mut self, step: &Step) {
        if !self.quiet {
            eprintln!("{}", super::text::step(step));
        }
    }
}
