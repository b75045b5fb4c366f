//! Runs an experiment's matrix on several threads, with the same results for any number of them.
//!
//! Work is handed out iteration by iteration, every cell's first iteration before any cell's
//! second, so that an interrupted run has about as many samples of each policy. Results are put in
//! place by index, so nothing depends on which thread was faster.

pub(crate) mod check;
mod costs;
#[cfg(test)]
pub(crate) mod fixture;
pub mod host;
pub mod memory;
mod progress;
mod settings;
#[cfg(test)]
mod tests;

pub use check::{Check, CheckFailure, INTERVAL_NS as CHECK_INTERVAL_NS, difference};
pub use costs::{costs, takes_time, unequal};
pub use progress::{Progress, ShowProgress};
pub use settings::{Tried, settings};

use crate::diagnostic::Diagnostic;
use crate::model::{Cell, Experiment, HostRun, HostUse, Outcomes};
use kernel::{Kernel, Refused};
use mm::NoMemory;
use sim::rng::{fnv1a, splitmix64};
use sim::world::Listener;
use sim::{Control, Outcome, RunResult, RunSpec};
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// Options of a run of the matrix.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Threads; 0 counts as 1.
    pub jobs: usize,
    /// Runs every iteration twice, with recounts on the way, and compares; `None`: no check.
    pub check: Option<Check>,
    /// Makes the display of the run's progress; `None`: there is none.
    pub progress: Option<ShowProgress>,
    /// Makes listeners for the events of some runs of the engine; `None`: no run has one.
    pub listeners: Option<Listeners>,
    /// Set from outside to stop: finished iterations are kept, running ones dropped.
    pub stop: Arc<AtomicBool>,
}

/// Makes the listener of one iteration of a cell; `None` if that iteration has no listener.
pub type Listen = dyn Fn(&Cell, u32) -> Option<Box<dyn Listener>> + Send + Sync;

/// Listeners of a run's iterations. With a check, only the first of an iteration's two runs is
/// listened to.
#[derive(Clone)]
pub struct Listeners(pub Arc<Listen>);

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listeners")
    }
}

/// Runs one iteration of a cell, in the engine or in a real kernel. A function from a specification
/// to a result is an engine, or a stand-in for it, without real kernels.
pub trait Worlds: Sync {
    /// Runs the engine.
    fn engine(&self, spec: &RunSpec, control: &Control) -> RunResult;

    /// Returns a text that tells one build of a kernel from another build of the same name, so that
    /// results of different builds are never put side by side. The default has no kernels.
    ///
    /// # Errors
    /// Fails if there is no such build, or it can't be run here.
    fn identity(&self, kernel: &Kernel) -> Result<String, Diagnostic> {
        let what = format!("the kernel `{}` can't be run: {ALONE}", kernel.build);
        Err(Diagnostic::placeless(
            what,
            "accepted: policies of the engine",
        ))
    }

    /// Returns the kernel's release (`uname -r`), if it is known.
    fn release(&self, kernel: &Kernel) -> Option<String> {
        let _ = kernel;
        None
    }

    /// Returns a setting of the cell that the real kernel does not take; `None` if it takes all.
    /// The default accepts all.
    ///
    /// # Errors
    /// Fails if the settings could not be tried. The runs of the cell then report the cause
    /// themselves.
    fn refuses(
        &self,
        spec: &RunSpec,
        kernel: &Kernel,
        control: &Control,
    ) -> Result<Option<Refused>, String> {
        let _ = (spec, kernel, control);
        Ok(None)
    }

    /// Returns true if computing takes time in a kernel whose cell has costs; false if the kernel
    /// was built without Lowmark's patch for them.
    fn has_costs(&self, kernel: &Kernel) -> bool {
        let _ = kernel;
        true
    }

    /// Returns, by zone name, the pages of each zone that a kernel's allocator owns once the
    /// machine has booted. `None`: this implementation cannot boot the kernel to find out. The
    /// default cannot.
    ///
    /// # Errors
    /// Fails if the kernel does not boot.
    fn owned(
        &self,
        spec: &RunSpec,
        kernel: &Kernel,
        control: &Control,
    ) -> Result<Option<Vec<(String, u64)>>, String> {
        let _ = (spec, kernel, control);
        Ok(None)
    }

    /// Runs a real kernel. Gives the same bytes for the same specification, whatever the host does
    /// meanwhile; a failure is reported as the outcome of the run. The default has no kernels and
    /// fails.
    fn kernel(&self, spec: &RunSpec, kernel: &Kernel, control: &Control) -> (RunResult, HostUse) {
        let _ = (spec, control);
        let error = format!("the kernel `{}` can't be run: {ALONE}", kernel.build);
        let result = RunResult::of_kernel(Outcome::Failed { error });
        (result, HostUse::default())
    }
}

const ALONE: &str = "this build runs only the engine";

impl<F: Fn(&RunSpec, &Control) -> RunResult + Sync> Worlds for F {
    fn engine(&self, spec: &RunSpec, control: &Control) -> RunResult {
        self(spec, control)
    }
}

/// The implementation of [`Worlds`] that runs the cells.
pub type Simulate<'a> = &'a dyn Worlds;

/// Returns the seed of one iteration, the same for every cell: common random numbers. A cell's
/// results therefore do not depend on which cells stand beside it (another policy in the list,
/// another value of an axis, the experiment's name), and cells of an iteration have the same file
/// layout, the same phase of the timers and the same draws of every disk, which makes their
/// differences less noisy. Each user of randomness has a stream of its own
/// ([`sim::rng::Rng::new`]), so extra draws of one user in one cell shift nothing else. Iterations
/// stay independent of each other; a rank test that takes the cells' samples as independent then
/// claims too little, never too much.
///
/// The seed is FNV-1a over the experiment's seed (8 bytes, little endian) and the iteration (4
/// bytes, little endian), then one step of splitmix64. Results of earlier versions are comparable
/// only while this formula is unchanged.
pub fn iteration_seed(experiment: &Experiment, iteration: u32) -> u64 {
    let mut bytes = experiment.seed.to_le_bytes().to_vec();
    bytes.extend(iteration.to_le_bytes());
    splitmix64(&mut fnv1a(&bytes))
}

/// Storage of finished iterations, for resuming an interrupted run.
pub trait Journal {
    /// Takes out the result of an iteration that an earlier run finished.
    fn earlier(&mut self, cell: u32, iteration: u32) -> Option<RunResult>;

    /// Keeps the result of an iteration. Called from the thread that called [`run_with`], in the
    /// order in which iterations finish.
    fn finished(&mut self, cell: u32, iteration: u32, result: &RunResult);
}

/// Keeps nothing.
struct NoJournal;

impl Journal for NoJournal {
    fn earlier(&mut self, _: u32, _: u32) -> Option<RunResult> {
        None
    }

    /// Does nothing: no result is kept for resuming.
    fn finished(&mut self, _: u32, _: u32, _: &RunResult) {}
}

/// Runs every cell of the experiment once for each iteration, on as many threads as `options` says,
/// and returns all results. `simulate` runs the engine or a real kernel.
///
/// # Errors
/// With `check`, returns the first iteration in the order of work whose two runs differ.
///
/// # Panics
/// Passes on a panic of `simulate`, except with `check`, which reports it as a failure. Where the
/// host has no memory, it unwinds with [`NoMemory`], with `check` too.
pub fn run(
    experiment: &Experiment,
    options: &RunOptions,
    simulate: Simulate<'_>,
) -> Result<Outcomes, CheckFailure> {
    run_with(experiment, options, simulate, &mut NoJournal)
}

/// Runs as [`run`] does, with a journal: iterations found in the journal are not run again, and
/// newly finished ones are put into it.
///
/// # Errors
/// Fails as [`run`] does.
///
/// # Panics
/// Panics as [`run`] does.
pub fn run_with(
    experiment: &Experiment,
    options: &RunOptions,
    simulate: Simulate<'_>,
    journal: &mut dyn Journal,
) -> Result<Outcomes, CheckFailure> {
    let cells = experiment.cells.len();
    let jobs = cells * experiment.iterations as usize;
    let workers = options.jobs.clamp(1, jobs.max(1));
    let mut results: Vec<Vec<Option<RunResult>>> = (0..cells)
        .map(|_| (0..experiment.iterations).map(|_| None).collect())
        .collect();
    let mut host: Vec<Vec<HostRun>> = vec![Vec::new(); cells];
    let mut known = vec![false; jobs];
    for (index, known) in known.iter_mut().enumerate() {
        let (cell, iteration) = (index % cells, index / cells);
        let earlier = journal.earlier(cell as u32, iteration as u32);
        // An iteration of an earlier run is not run again.
        *known = earlier.is_some();
        results[cell][iteration] = earlier;
    }
    let pool = Pool {
        experiment,
        options,
        simulate,
        known: &known,
        next: AtomicUsize::new(0),
        limit: AtomicUsize::new(jobs),
        running: (0..workers).map(|_| Mutex::new(None)).collect(),
    };
    let mut progress = progress::of(options.progress, jobs as u64);
    progress.known(known.iter().filter(|k| **k).count() as u64);
    let mut first_failure: Option<(usize, Bad)> = None;
    let mut no_worker = false;
    std::thread::scope(|scope| {
        let (tx, rx) = channel();
        for slot in 0..workers {
            let (pool, tx) = (&pool, tx.clone());
            let work = move || pool.work(slot, &tx);
            if Builder::new().spawn_scoped(scope, work).is_err() {
                // A thread could not be started. The results are the same with fewer workers.
                no_worker = slot == 0;
                break;
            }
        }
        drop(tx);
        loop {
            match rx.recv_timeout(Duration::from_millis(50)) {
                Ok((index, Ok((result, used)))) => {
                    host[index % cells].extend(used);
                    progress.finished(result.sim_ns * if options.check.is_some() { 2 } else { 1 });
                    let (cell, iteration) = (index % cells, index / cells);
                    journal.finished(cell as u32, iteration as u32, &result);
                    results[cell][iteration] = Some(result);
                }
                Ok((index, Err(bad))) => {
                    pool.limit.fetch_min(index, Relaxed);
                    if first_failure.as_ref().is_none_or(|(i, _)| index < *i) {
                        first_failure = Some((index, bad));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            progress.running(pool.watch());
        }
    });
    progress.clear();
    if no_worker {
        NoMemory::thread(2 << 20).raise();
    }
    match first_failure {
        Some((_, Bad::Check(failure))) => return Err(*failure),
        Some((_, Bad::Panic(payload))) => resume_unwind(payload),
        None => {}
    }
    let interrupted = results.iter().flatten().any(Option::is_none);
    Ok(Outcomes {
        experiment: experiment.clone(),
        results,
        host,
        interrupted,
        build: None,
    })
}

/// The reason why the whole run must end.
enum Bad {
    Check(Box<CheckFailure>),
    Panic(Box<dyn Any + Send>),
}

/// A result, and the resources its runs took if a real kernel gave it.
type Done = (RunResult, Vec<HostRun>);

type Report = (usize, Result<Done, Bad>);

/// The index of the job that a busy worker runs, and the means to stop it; `None`: the worker is
/// idle.
type Running = Option<(usize, Arc<Control>)>;

/// The state that the worker threads of a run share: the experiment, and which job is next.
struct Pool<'a> {
    experiment: &'a Experiment,
    options: &'a RunOptions,
    simulate: Simulate<'a>,
    /// For each job, in the order of work, whether an earlier run finished it.
    known: &'a [bool],
    next: AtomicUsize,
    /// Jobs from this index on are not wanted, because an earlier one failed.
    limit: AtomicUsize,
    running: Vec<Mutex<Running>>,
}

impl Pool<'_> {
    /// Takes and runs jobs until there are none left, or until told to stop, and sends each result
    /// with its job's index to `reports`. Job `index` is iteration `index / cells` of cell `index %
    /// cells`; `slot` is the worker's own place in `running`.
    fn work(&self, slot: usize, reports: &Sender<Report>) {
        while !self.options.stop.load(Relaxed) {
            let index = self.next.fetch_add(1, Relaxed);
            if index >= self.limit.load(Relaxed).min(self.known.len()) {
                break;
            }
            if self.known[index] {
                continue;
            }
            if let Some(report) = self.job(slot, index)
                && reports.send((index, report)).is_err()
            {
                break;
            }
        }
    }

    /// Runs job `index` on the worker of place `slot`: one iteration of one cell, twice with
    /// `--check`, where a difference between both runs is the failure. Returns the first run's
    /// result, or the failure or panic; `None` if the job was stopped.
    fn job(&self, slot: usize, index: usize) -> Option<Result<Done, Bad>> {
        let cell = &self.experiment.cells[index % self.experiment.cells.len()];
        let iteration = (index / self.experiment.cells.len()) as u32;
        let mut spec = cell.spec.clone();
        spec.seed = iteration_seed(self.experiment, iteration);
        let fail = |difference: String| {
            let cell = cell.key();
            let failure = CheckFailure {
                cell,
                iteration,
                seed: spec.seed,
                difference,
            };
            Some(Err(Bad::Check(Box::new(failure))))
        };
        let listeners = self.options.listeners.as_ref();
        let mut listener = listeners.and_then(|l| (l.0)(cell, iteration));
        let Some(check) = self.options.check else {
            return match self.once(slot, index, cell, &spec, listener) {
                Ok(done) => done.map(Ok),
                Err(payload) => Some(Err(Bad::Panic(payload))),
            };
        };
        let spec = RunSpec {
            check_ns: check::INTERVAL_NS,
            check_full: check == Check::Full,
            ..spec.clone()
        };
        // Only the first run is listened to: `take` leaves no listener for the second.
        let mut pair = Vec::with_capacity(2);
        for _ in 0..2 {
            match self.once(slot, index, cell, &spec, listener.take()) {
                Ok(done) => pair.push(done?),
                Err(payload) if payload.is::<NoMemory>() => return Some(Err(Bad::Panic(payload))),
                Err(payload) => return fail(check::panic_text(payload.as_ref())),
            }
        }
        // Both results, each with the host's resources that its run took.
        let (second, again) = pair.pop()?;
        let (first, mut used) = pair.pop()?;
        used.extend(again);
        match difference(&first, &second) {
            Some(difference) => fail(difference),
            None => Some(Ok((first, used))),
        }
    }

    /// Runs one iteration of a cell once, in the engine or a real kernel. While it runs, the place
    /// of the worker `slot` holds the job's `index` and a fresh control, by which `watch` can stop
    /// it. Returns the result and the host's resources that a real kernel took; `None` if the run
    /// was stopped.
    ///
    /// # Errors
    /// Returns the payload of a panic of the run.
    fn once(
        &self,
        slot: usize,
        index: usize,
        cell: &Cell,
        spec: &RunSpec,
        listener: Option<Box<dyn Listener>>,
    ) -> Result<Option<Done>, Box<dyn Any + Send>> {
        let control = Arc::new(Control {
            listener: Mutex::new(listener),
            ..Control::default()
        });
        *self.slot(slot) = Some((index, Arc::clone(&control)));
        let done = catch_unwind(AssertUnwindSafe(|| match &cell.kernel {
            None => (self.simulate.engine(spec, &control), Vec::new()),
            Some(kernel) => {
                let (result, used) = self.simulate.kernel(spec, kernel, &control);
                let sim_ns = result.sim_ns;
                (result, vec![HostRun { sim_ns, used }])
            }
        }));
        *self.slot(slot) = None;
        Ok(Some(done?).filter(|(r, _)| r.outcome != Outcome::Interrupted))
    }

    /// Locks the place of worker `slot`, which says what job it runs. A lock poisoned by a panic is
    /// taken all the same: its value is always whole.
    fn slot(&self, slot: usize) -> std::sync::MutexGuard<'_, Running> {
        self.running[slot]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops running jobs that are not wanted any more: all if the user stopped the run, and those
    /// behind the first job that failed. Returns the simulated time of the running jobs so far, in
    /// nanoseconds.
    fn watch(&self) -> u64 {
        let mut sim_ns = 0;
        for slot in 0..self.running.len() {
            if let Some((index, control)) = &*self.slot(slot) {
                if self.options.stop.load(Relaxed) || *index > self.limit.load(Relaxed) {
                    control.stop.store(true, Relaxed);
                }
                sim_ns += control.sim_ns.load(Relaxed);
            }
        }
        sim_ns
    }
}
