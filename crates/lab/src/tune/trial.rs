//! Trying settings: runs of one cell with other sysctls, remembered.

use super::goals::Figures;
use super::space::{Setting, kept_free};
use crate::model::{Cell, Experiment};
use crate::runner::{self, RunOptions};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sim::{Origin, RunResult};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The user stopped it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted;

/// How trials are run.
#[derive(Clone)]
pub struct TrialOptions {
    /// Threads; the results are the same for any number.
    pub jobs: usize,
    /// Show progress where standard error is a terminal.
    pub progress: bool,
    /// Set from outside to stop.
    pub stop: Arc<AtomicBool>,
}

/// Tries settings on one cell of an experiment.
pub struct Trials<'a> {
    experiment: &'a Experiment,
    options: TrialOptions,
    simulate: runner::Simulate<'a>,
    seeds: u32,
    known: Mutex<BTreeMap<Setting, Figures>>,
    bar: ProgressBar,
}

impl<'a> Trials<'a> {
    /// Trials of the experiment's only cell with `seeds` runs a setting. `simulate` runs one.
    ///
    /// # Panics
    /// If there is another number of cells.
    pub fn new(
        experiment: &'a Experiment,
        seeds: u32,
        options: TrialOptions,
        simulate: runner::Simulate<'a>,
    ) -> Self {
        assert_eq!(experiment.cells.len(), 1, "one cell is tuned");
        let shown = options.progress && std::io::stderr().is_terminal();
        let target = if shown {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let template = "{msg} {wide_bar} {pos}/{len} runs, {elapsed} gone";
        let style = ProgressStyle::with_template(template).expect("the template is well-formed");
        let bar = ProgressBar::with_draw_target(Some(0), target).with_style(style);
        if shown {
            bar.enable_steady_tick(Duration::from_millis(250));
        }
        Self {
            experiment,
            options,
            simulate,
            seeds,
            known: Mutex::default(),
            bar,
        }
    }

    /// The cell that is tuned.
    pub fn cell(&self) -> &'a Cell {
        &self.experiment.cells[0]
    }

    /// Says what is done now, and how many runs it takes at most.
    pub fn phase(&self, name: &str, runs: u64) {
        self.bar.set_position(0);
        self.bar.set_length(runs);
        self.bar.set_message(name.to_owned());
        if self.options.progress && self.bar.is_hidden() {
            eprintln!("{name}, at most {runs} runs");
        }
    }

    /// Takes the progress off the terminal.
    pub fn done(&self) {
        self.bar.finish_and_clear();
    }

    /// Whether the user stopped it.
    pub fn is_stopped(&self) -> bool {
        self.options.stop.load(Relaxed)
    }

    /// The threads.
    pub fn jobs(&self) -> usize {
        self.options.jobs.max(1)
    }

    /// What a setting gives with the search's seeds, on this thread. Every setting meets the same
    /// ones, so that settings differ by nothing else.
    ///
    /// # Errors
    /// The user stopped it.
    pub fn figures(&self, setting: &Setting) -> Result<Figures, Interrupted> {
        let known = |trials: &Self| {
            let known = trials.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.get(setting).cloned()
        };
        if let Some(figures) = known(self) {
            return Ok(figures);
        }
        let results = self.one(self.with(setting), self.seeds)?;
        let figures = figures(kept_free_of(self.cell(), setting), &results);
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(setting.clone(), figures.clone());
        Ok(figures)
    }

    /// Everything that was tried with the search's seeds, in the order of settings.
    pub fn tried(&self) -> Vec<(Setting, Figures)> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().map(|(s, f)| (s.clone(), f.clone())).collect()
    }

    /// How many settings were tried.
    pub fn count(&self) -> usize {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.len()
    }

    /// The cell with a setting.
    pub fn with(&self, setting: &Setting) -> Cell {
        let mut cell = self.cell().clone();
        cell.spec.machine = setting.on(&cell.spec.machine);
        cell
    }

    /// Runs of cells on all threads with `runs` seeds of their own kind (`family`, 0 is the
    /// search's).
    ///
    /// # Errors
    /// The user stopped it.
    pub fn cells(
        &self,
        cells: Vec<Cell>,
        runs: u32,
        family: u64,
    ) -> Result<Vec<Vec<RunResult>>, Interrupted> {
        self.runs(cells, runs, family, self.jobs())
    }

    /// Runs of one cell with the search's seeds, on this thread.
    ///
    /// # Errors
    /// The user stopped it.
    pub fn one(&self, cell: Cell, runs: u32) -> Result<Vec<RunResult>, Interrupted> {
        Ok(self.runs(vec![cell], runs, 0, 1)?.remove(0))
    }

    fn runs(
        &self,
        cells: Vec<Cell>,
        runs: u32,
        family: u64,
        jobs: usize,
    ) -> Result<Vec<Vec<RunResult>>, Interrupted> {
        let number = cells.len() as u64 * u64::from(runs);
        let experiment = Experiment {
            cells,
            iterations: runs,
            seed: self.experiment.seed.wrapping_add(family << 32),
            ..self.experiment.clone()
        };
        let options = RunOptions {
            jobs,
            check: None,
            progress: false,
            listeners: None,
            stop: Arc::clone(&self.options.stop),
        };
        let outcomes =
            runner::run(&experiment, &options, self.simulate).map_err(|_| Interrupted)?;
        if outcomes.interrupted || self.options.stop.load(Relaxed) {
            return Err(Interrupted);
        }
        self.bar.inc(number);
        let complete = outcomes.results.into_iter();
        Ok(complete
            .map(|c| c.into_iter().flatten().collect())
            .collect())
    }
}

/// What a setting of a cell keeps free, in bytes.
pub fn kept_free_of(cell: &Cell, setting: &Setting) -> u64 {
    kept_free(&setting.on(&cell.spec.machine))
}

/// Bytes that programs moved: as the engine counted them, or as those of a real kernel's guest say of
/// themselves; not a number where none of them does.
fn moved(r: &RunResult) -> f64 {
    if r.origin != Origin::Kernel {
        return r.moved as f64;
    }
    let own = |name: &str| ["bytes", "read_bytes", "write_bytes"].contains(&name);
    let said = r.metrics.iter().filter(|(name, _)| own(name.as_str()));
    said.map(|(_, m)| m.value)
        .reduce(|a, b| a + b)
        .unwrap_or(f64::NAN)
}

/// The longest of these figures of any run, which are in microseconds, in nanoseconds.
fn longest_of(results: &[RunResult], names: &[&str]) -> Option<u64> {
    let all = results
        .iter()
        .flat_map(|r| names.iter().filter_map(|name| r.metrics.get(*name)));
    let longest = all.map(|m| m.value).reduce(f64::max)?;
    Some((longest * 1000.0) as u64)
}

/// Sums several runs up.
pub fn figures(kept_free: u64, results: &[RunResult]) -> Figures {
    let n = results.len().max(1) as f64;
    let longest = |r: &RunResult| {
        let all = r.alloc_latency.paths.iter();
        all.map(|(_, h)| h.max()).max().unwrap_or(0)
    };
    let rate = |r: &RunResult| {
        let seconds = r.metrics.get("elapsed").map_or(0.0, |m| m.value);
        if seconds > 0.0 {
            moved(r) / seconds / 1e6
        } else {
            0.0
        }
    };
    Figures {
        kept_free,
        worst_ns: results.iter().map(longest).max().unwrap_or(0),
        direct: results
            .iter()
            .filter_map(|r| r.reclaim.as_ref())
            .map(|s| s.direct_reclaims)
            .max()
            .unwrap_or(0),
        throughput: results.iter().map(rate).sum::<f64>() / n,
        response_ns: longest_of(results, &["response_max"]),
        fio_p99_ns: longest_of(results, &["read_latency_p99", "write_latency_p99"]),
        runs: results.len() as u32,
        failed: results.iter().find_map(|r| r.outcome.ending()),
    }
}
