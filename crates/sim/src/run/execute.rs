//! The tasks of a run, and the executor's loop over them.

use super::build::{build, cpus_of_node, params};
use super::gather::gather;
use super::shell::{Progress, Stage, background, child, shell};
use super::watch::Watch;
use crate::Control;
use crate::SimMm;
use crate::account::{TaskClass, TaskTime};
use crate::filesystems::{self as fs, Life};
use crate::host::{Forks, Namespace};
use crate::monitors::Monitor;
use crate::result::{Outcome, RunResult};
use crate::sched::{Event, Pool};
use crate::spec::RunSpec;
use crate::watchdog::{Ending, MOST_POLLS};
use crate::world::{Listener, SimWorld, kblockd};
use mm::SECOND;
use mm::memory::task::{PF_KTHREAD, PF_SWAPWRITE};
use mm::policy::{FileReadahead, Workers};
use mm::reclaim::kswapd::KSWAPD_FLAGS;
use mm::world::TaskId;
use mm::world::event as trace;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use workload::Step;

/// Number of the periodic event of the engine: `vmstat_update`.
const REFRESH: u32 = 0;

/// The recipient of a run's events.
pub(super) enum Record {
    /// Events are not recorded.
    Nothing,
    /// The ring that [`Recorded`] is made from.
    Ring,
    /// A listener, which is called as events happen.
    For(Box<dyn Listener>),
}

/// The record of a traced run.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    /// Events from boot on, with time in nanoseconds and the task that emitted them.
    pub events: Vec<(u64, TaskId, trace::Event)>,
    /// How often the ring of events was full and was emptied; 0 for a complete record.
    pub rings_lost: u64,
    /// Index of the first event of the workload.
    pub first: usize,
    /// Beginning and end of the workload, in nanoseconds.
    pub span: (u64, u64),
    /// The tasks that are kswapds.
    pub kswapds: Vec<TaskId>,
    /// Where the time of each task went.
    pub tasks: Vec<(TaskId, TaskTime)>,
    /// CPU time of each task since boot, in nanoseconds, as the scheduler counts it.
    pub cpu_ns: Vec<u64>,
}

/// The tasks of a run, by number: registered with engine and scheduler, with their futures
/// (`lives`).
struct Tasks<'a, const T: bool> {
    mm: &'a SimMm<T>,
    lives: Vec<Life<'a>>,
    kswapds: Vec<TaskId>,
    flushers: Vec<TaskId>,
}

impl<'a, const T: bool> Tasks<'a, T> {
    /// Adds a task to scheduler and engine; returns its number. `flags` are the kernel's PF_*
    /// flags. `life` is the future that the executor polls as the task.
    fn add(&mut self, life: Life<'a>, flags: u32, node: u32, class: TaskClass) -> TaskId {
        let sched = &self.mm.world.sched;
        let id = sched.spawn();
        self.mm.init_task(id, flags, node);
        sched.set_class(id, class);
        sched.waiting.set_name(id, class.name());
        self.mm.world.listening.set_comm(id, class.name());
        if class == TaskClass::Kswapd {
            self.mm.world.reclaim.is_kswapd(id);
        }
        self.lives.push(life);
        id
    }

    /// Creates all tasks of a run, in the order of their numbers: interrupts, kernel threads, then
    /// the workload's processes.
    fn of(stage: &'a Stage<'a, T>) -> Self {
        let mm = stage.mm;
        let mut tasks = Self {
            mm,
            lives: Vec::new(),
            kswapds: Vec::new(),
            flushers: Vec::new(),
        };
        // Task 0 stands for interrupts.
        tasks.add(Box::pin(async {}), 0, 0, TaskClass::Workload);
        tasks.threads_of_the_kernel(stage);
        tasks.processes(stage);
        tasks
    }

    /// Adds the tasks of the kernel to the run: a kswapd for each node, a flusher for each bdi, the
    /// daemons of filesystems, workers of policies that have them, and the monitors of a test
    /// harness.
    fn threads_of_the_kernel(&mut self, stage: &'a Stage<'a, T>) {
        let (mm, spec) = (stage.mm, stage.spec);
        for node in 0..mm.nodes.len() as u32 {
            let life = Box::pin(mm.kswapd(node));
            let id = self.add(life, KSWAPD_FLAGS, node, TaskClass::Kswapd);
            // Linux 3.0 kswapd(): set_cpus_allowed_ptr, if its node has CPUs.
            let cpus = cpus_of_node(&spec.machine, node);
            if cpus != 0 {
                mm.world.sched.set_affinity(id, cpus);
            }
            mm.world.listening.set_comm(id, format!("kswapd{node}"));
            self.kswapds.push(id);
        }
        for bdi in 0..mm.bdi_count() {
            let life = Box::pin(mm.flusher(bdi));
            let id = self.add(life, PF_SWAPWRITE | PF_KTHREAD, 0, TaskClass::Flusher);
            // Named as in Linux 3.0.
            mm.world
                .listening
                .set_comm(id, format!("flush-8:{}", 16 * bdi));
            self.flushers.push(id);
            self.works_for(id, Some(Pool::Unbound));
        }
        for daemon in fs::daemons(mm) {
            let flags = if daemon.of_kernel { PF_KTHREAD } else { 0 };
            let id = self.add(daemon.life, flags, 0, TaskClass::Filesystem);
            mm.world.listening.set_comm(id, daemon.name);
            self.works_for(id, daemon.pool);
        }
        if mm.has_pressure_worker() {
            let life = Box::pin(mm.pressure_worker());
            let id = self.add(life, PF_KTHREAD, 0, TaskClass::Filesystem);
            mm.world.listening.set_comm(id, "kworker/0:1");
            self.works_for(id, Some(Pool::Bound));
        }
        if kblockd::is_there(&mm.policy) {
            let life = Box::pin(kblockd::run(mm));
            let id = self.add(life, PF_KTHREAD, 0, TaskClass::Filesystem);
            mm.world.sched.set_affinity(id, 1);
            mm.world.sched.set_highest_priority(id);
            kblockd::gives_out_plugs(&mm.world);
            mm.world.listening.set_comm(id, "kworker/0:1H");
        }
        if spec.monitors {
            let p = spec.machine.params(&spec.params).scaled();
            for monitor in Monitor::all(&p, spec.seed) {
                self.add(Box::pin(monitor.run(mm)), 0, 0, TaskClass::Monitor);
            }
        }
    }

    /// Makes a task work of a pool of threads, if the policy has pools.
    fn works_for(&self, id: TaskId, pool: Option<Pool>) {
        if let Some(pool) = pool
            && self.mm.policy.workers == Workers::Pools
        {
            self.mm.world.sched.work_for(id, pool);
        }
    }

    /// Adds the workload's tasks: one for each background process, one for each process that may be
    /// forked at a time, and the shell.
    fn processes(&mut self, stage: &'a Stage<'a, T>) {
        let workload = &stage.spec.workload;
        let background_steps = workload.steps.iter().filter_map(|step| match step {
            Step::Background(process) => Some(process),
            _ => None,
        });
        for (nth, process) in background_steps.enumerate() {
            let life = Box::pin(background(stage, nth, process));
            self.add(life, 0, 0, TaskClass::Workload);
        }
        for _ in 0..workload.children() {
            self.add(Box::pin(child(stage)), 0, 0, TaskClass::Workload);
        }
        self.add(Box::pin(shell(stage)), 0, 0, TaskClass::Workload);
    }
}

/// Runs a cell of an experiment: builds the world, runs its tasks to the end, and gathers the
/// result and the record of events. With `T` the engine has its tracepoints; `record` says where
/// events go.
pub(super) fn run_in<const T: bool>(
    spec: &RunSpec,
    control: &Control,
    record: Record,
) -> (RunResult, Recorded) {
    let mm = build::<T>(spec);
    let ring = matches!(record, Record::Ring);
    mm.world.recording.set(match &record {
        Record::Nothing => false,
        Record::Ring => true,
        Record::For(listener) => listener.hears(),
    });
    if let Record::For(listener) = record {
        if listener.hears_waits() {
            mm.world.sched.waiting.keep_ended();
        }
        mm.world.listening.begin(listener);
    }
    fs::mount(&mm);
    let names = Namespace::new(&spec.machine.mount_points());
    let forks = Forks::default();
    let session = spec.workload.session();
    if session.measures_calls() {
        mm.world.reuse.start();
    }
    // Watching costs some speed: each page of a batch gets an entry time of its own.
    let always_watched = spec.policy.file_readahead != FileReadahead::Parameter;
    if always_watched || params(spec).watch_pages >= 0.5 {
        mm.watch_pages();
    }
    let progress = Progress::default();
    let stage = Stage {
        mm: &mm,
        spec,
        names: &names,
        forks: &forks,
        session: &session,
        progress: &progress,
    };
    let tasks = Tasks::of(&stage);
    let (ended, watch, kswapds) = until_it_ends(&stage, control, tasks);
    let end = progress.finished.get().or(ended).unwrap_or(0);
    // The combined measurements of all programs.
    let lasted = end.saturating_sub(progress.started.get().unwrap_or(end));
    let together = session.report(lasted).map(|report| (None, report));
    progress.reports.borrow_mut().extend(together);
    let (mut check_error, mut recount) = (watch.check_error, watch.recount);
    if spec.check_ns > 0
        && check_error.is_none()
        && let Err(e) = recount.run(&mm)
    {
        check_error = Some(format!("recount at the end: {e}"));
    }
    let seen = (watch.sampler.finish(), watch.lumpiness.value());
    let result = gather(
        &mm,
        spec,
        &progress,
        seen,
        watch.outcome,
        check_error,
        ended,
    );
    mm.world.listening.end(&|| mm.zoneinfo());
    let recorded = if ring {
        recorded(&mm, &progress, result.sim_ns, kswapds)
    } else {
        Recorded::default()
    };
    (result, recorded)
}

/// Runs the executor's loop until the run is ended. Returns the time of the end in nanoseconds, or
/// `None` if every task waits for ever; the observer with its measurements; and the numbers of the
/// kswapds.
fn until_it_ends<'a, const T: bool>(
    stage: &'a Stage<'a, T>,
    control: &'a Control,
    mut tasks: Tasks<'a, T>,
) -> (Option<u64>, Watch<'a, T>, Vec<TaskId>) {
    let mm = stage.mm;
    let w = &mm.world;
    w.sched.at(SECOND, Event::Periodic(REFRESH));
    w.sched.heed(Arc::clone(&control.stop));
    let mut watch = Watch::new(stage, control, tasks.kswapds.clone(), tasks.flushers);
    let on_event = |time, event| match event {
        Event::Device(dev) => {
            SimWorld::device_event(mm, dev);
            w.alloc.interrupted(time, w.sched.now() - time);
        }
        Event::Periodic(_) => {
            w.sched.at(time + SECOND, Event::Periodic(REFRESH));
            for cpu in 0..mm.config.cpus {
                mm.refresh_cpu_vm_stats(cpu);
            }
        }
        Event::Unplug(task) => w.flush_plug(task),
        Event::Timer(..) => {}
    };
    let ended = w.sched.run_observed(&mut tasks.lives, on_event, &mut watch);
    control.polls.store(w.sched.polls(), Ordering::Relaxed);
    if let Some(ending) = w.sched.ending() {
        watch.outcome.get_or_insert_with(|| ended_by(mm, ending));
    }
    (ended, watch, tasks.kswapds)
}

/// Returns the outcome of a run that the watchdog ended: a failure that names the task without
/// progress, or else an interruption by the user.
fn ended_by<const T: bool>(mm: &SimMm<T>, ending: Ending) -> Outcome {
    let Ending::Stuck { task, at } = ending else {
        return Outcome::Interrupted;
    };
    let sched = &mm.world.sched;
    let on = sched.waiting.waits_on(task);
    let waits = on.map_or_else(|| "goes round".into(), |on| format!("waits for {on}"));
    Outcome::Failed {
        error: format!(
            "no progress in {MOST_POLLS} polls at {} ns of simulated time: {} {waits} at {at}",
            sched.now(),
            sched.waiting.name(task),
        ),
    }
}

/// Returns the record of a traced run that ended at `end` (nanoseconds): its events and its tasks'
/// times.
fn recorded<const T: bool>(
    mm: &SimMm<T>,
    progress: &Progress,
    end: u64,
    kswapds: Vec<TaskId>,
) -> Recorded {
    let w = &mm.world;
    let tasks = w.sched.task_times(end);
    Recorded {
        events: w.events.take(),
        rings_lost: w.rings_lost.get(),
        first: progress.recorded.get(),
        span: (progress.started.get().unwrap_or(end), end),
        kswapds,
        cpu_ns: tasks.iter().map(|(t, _)| w.sched.task_cpu_ns(*t)).collect(),
        tasks,
    }
}
