//! Tries settings: runs one cell with other sysctls, and remembers the figures.

use super::goals::Figures;
use super::space::{Setting, kept_free};
use crate::model::{Cell, Experiment};
use crate::runner::{self, RunOptions};
use sim::{Origin, RunResult};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// The user stopped the trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted;

/// The display of trials, which several threads run.
pub trait Phases: Send + Sync {
    /// Announces the next phase, and how many runs it takes at most.
    fn begin(&self, name: &str, runs: u64);

    /// Counts finished runs of the phase; a phase may take more than it announced.
    fn ran(&self, runs: u64);

    /// Removes the display.
    fn clear(&self);
}

/// Options of trials.
#[derive(Clone)]
pub struct TrialOptions {
    /// Threads; the results are the same for any number.
    pub jobs: usize,
    /// Makes the display of the trials' progress; `None`: there is none.
    pub progress: Option<fn() -> Box<dyn Phases>>,
    /// Set by the caller to stop the trials.
    pub stop: Arc<AtomicBool>,
}

/// Tries settings on one cell of an experiment.
pub struct Trials<'a> {
    experiment: &'a Experiment,
    options: TrialOptions,
    simulate: runner::Simulate<'a>,
    seeds: u32,
    known: Mutex<BTreeMap<Setting, Figures>>,
    shown: Option<Box<dyn Phases>>,
}

impl<'a> Trials<'a> {
    /// Prepares trials of the experiment's only cell with `seeds` runs for each setting. `simulate`
    /// runs one of them.
    ///
    /// # Panics
    /// Panics if the experiment has not exactly one cell.
    pub fn new(
        experiment: &'a Experiment,
        seeds: u32,
        options: TrialOptions,
        simulate: runner::Simulate<'a>,
    ) -> Self {
        assert_eq!(experiment.cells.len(), 1, "one cell is tuned");
        Self {
            experiment,
            simulate,
            seeds,
            known: Mutex::default(),
            shown: options.progress.map(|show| show()),
            options,
        }
    }

    /// Returns the cell that is tuned.
    pub fn cell(&self) -> &'a Cell {
        &self.experiment.cells[0]
    }

    /// Announces the next phase, and how many runs it takes at most.
    pub fn phase(&self, name: &str, runs: u64) {
        if let Some(shown) = &self.shown {
            shown.begin(name, runs);
        }
    }

    /// Removes the display of progress.
    pub fn done(&self) {
        if let Some(shown) = &self.shown {
            shown.clear();
        }
    }

    /// Returns true if the user stopped the trials.
    pub fn is_stopped(&self) -> bool {
        self.options.stop.load(Relaxed)
    }

    /// Returns the number of threads, at least 1.
    pub fn jobs(&self) -> usize {
        self.options.jobs.max(1)
    }

    /// Returns the figures of a setting with the search's seeds, run on this thread or remembered
    /// from an earlier trial. Every setting is run with the same seeds, so that settings differ by
    /// nothing else.
    ///
    /// # Errors
    /// Fails if the user stopped the trials.
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

    /// Returns all settings that were tried with the search's seeds, sorted by setting.
    pub fn tried(&self) -> Vec<(Setting, Figures)> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().map(|(s, f)| (s.clone(), f.clone())).collect()
    }

    /// Returns the number of settings that were tried.
    pub fn count(&self) -> usize {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.len()
    }

    /// Returns a copy of the tuned cell whose machine has this setting.
    pub fn with(&self, setting: &Setting) -> Cell {
        let mut cell = self.cell().clone();
        cell.spec.machine = setting.on(&cell.spec.machine);
        cell
    }

    /// Runs cells on all threads with `runs` seeds each. `family` selects a set of seeds; 0 is the
    /// search's. Returns each cell's results in the order of the cells.
    ///
    /// # Errors
    /// Fails if the user stopped the trials.
    pub fn cells(
        &self,
        cells: Vec<Cell>,
        runs: u32,
        family: u64,
    ) -> Result<Vec<Vec<RunResult>>, Interrupted> {
        self.runs(cells, runs, family, self.jobs())
    }

    /// Runs one cell with the first `runs` of the search's seeds, on this thread, and returns its
    /// results.
    ///
    /// # Errors
    /// Fails if the user stopped the trials.
    pub fn one(&self, cell: Cell, runs: u32) -> Result<Vec<RunResult>, Interrupted> {
        Ok(self.runs(vec![cell], runs, 0, 1)?.remove(0))
    }

    /// Runs cells with `runs` seeds of a family on `jobs` threads, and returns each cell's results
    /// in the order of the cells. Families have no seed in common.
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
            progress: None,
            listeners: None,
            stop: Arc::clone(&self.options.stop),
        };
        let outcomes =
            runner::run(&experiment, &options, self.simulate).map_err(|_| Interrupted)?;
        if outcomes.interrupted || self.options.stop.load(Relaxed) {
            return Err(Interrupted);
        }
        if let Some(shown) = &self.shown {
            shown.ran(number);
        }
        let complete = outcomes.results.into_iter();
        Ok(complete
            .map(|c| c.into_iter().flatten().collect())
            .collect())
    }
}

/// Returns the memory that a setting keeps free on a cell's machine, in bytes.
pub fn kept_free_of(cell: &Cell, setting: &Setting) -> u64 {
    kept_free(&setting.on(&cell.spec.machine))
}

/// Returns the bytes that programs moved in a run: as the engine counted them, or, in a real
/// kernel, as the programs report them; NaN if none reports any.
fn moved(r: &RunResult) -> f64 {
    if r.origin != Origin::Kernel {
        return r.moved as f64;
    }
    let counts_bytes = |name: &str| ["bytes", "read_bytes", "write_bytes"].contains(&name);
    let reported = r
        .metrics
        .iter()
        .filter(|(name, _)| counts_bytes(name.as_str()));
    reported
        .map(|(_, m)| m.value)
        .reduce(|a, b| a + b)
        .unwrap_or(f64::NAN)
}

/// Returns the largest of the metrics `names` over all runs, converted from microseconds to
/// nanoseconds; `None` if no run has one.
fn longest_of(results: &[RunResult], names: &[&str]) -> Option<u64> {
    let all = results
        .iter()
        .flat_map(|r| names.iter().filter_map(|name| r.metrics.get(*name)));
    let longest = all.map(|m| m.value).reduce(f64::max)?;
    Some((longest * 1000.0) as u64)
}

/// Combines the results of several runs of one setting into its figures: the worst of latencies and
/// direct reclaims, and the mean of throughput. `kept_free` (bytes) is passed through.
pub fn figures(kept_free: u64, results: &[RunResult]) -> Figures {
    let n = results.len().max(1) as f64;
    let longest = |r: &RunResult| {
        let all = r.alloc_latency.paths.iter();
        all.map(|(_, h)| h.max()).max().unwrap_or(0)
    };
    // MB/s.
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
