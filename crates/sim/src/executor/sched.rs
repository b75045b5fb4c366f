//! The executor: one clock per CPU, a scheduler, an event queue
//! (docs/decisions/virtual-world.md#charge-and-relax).
//!
//! The CPU whose clock is smallest runs next; no CPU leads another by more than a quantum. A task
//! is a future; it gives way at [`Sched::relax`] and blocks in [`Sched::wait`] and
//! [`Sched::sleep`]. Everything is decided by simulated time and sequence numbers, so a seed fixes
//! the whole history.
//!
//! A look by an [`Observer`] is no event: the running task's turn continues afterwards as if there
//! had been no look, so samples, recounts and progress change nothing that they observe. Sysctls
//! that an experiment writes in mid-run are written between two looks ([`Sched::aside`]), so
//! writing the value that is already set changes nothing either.

mod accounts;
mod cfs;
mod compute;
mod due;
mod eevdf;
mod group_pressure;
mod pressure;
mod run_queue;
mod turns;
mod wait;
mod workers;

pub use compute::Compute;
pub use pressure::Stall;
pub use turns::Observer;
pub use wait::{Relax, Sleep, Wait};
pub use workers::Pool;

use crate::account::TaskTime;
use crate::rng::{Lognormals, Rng};
use crate::waiting::Waiting;
use crate::watchdog::{Ending, Watchdog};
use group_pressure::GroupPressure;
use mm::world::{Waited, Waits};
use pressure::{Doing, Pressure};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Number of a task.
pub type TaskId = u32;

const NEVER: u64 = u64::MAX;

/// How far CFS places tasks as the kernels do (`sched_place`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Only a task that wakes on a busy CPU has its virtual run time placed beside that of the
    /// tasks there.
    Busy,
    /// As `Busy`, and also a task that wakes on an idle CPU or moves to another CPU.
    Everywhere,
    /// Tasks are placed as kernels do it (`place_entity`), slices end at ticks, and weights count.
    Kernels,
}

/// The scheduler's parameters, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct SchedParams {
    /// How far the clock of a CPU may lead another's.
    pub quantum: u64,
    /// Time in which every runnable task of a CPU runs once.
    pub latency: u64,
    /// The least time slice.
    pub min_granularity: u64,
    /// A woken task preempts a running one that has run this much more.
    pub wakeup_granularity: u64,
    /// The slice of a task where CPUs are given to the earliest eligible virtual deadline (EEVDF).
    /// `None`: CPUs are given to the least virtual run time, by the two granularities (CFS).
    pub eevdf_slice: Option<u64>,
    /// Median of the wake-up latency of an idle CPU.
    pub idle_wakeup: f64,
    /// Sigma of the logarithm of that latency.
    pub idle_wakeup_sigma: f64,
    /// How far CFS places tasks as the kernels do.
    pub place: Place,
    /// Cost of a context switch.
    pub switch: u64,
    /// Length of a timer tick.
    pub tick: u64,
    /// Time of the first tick.
    pub tick_phase: u64,
    /// True if long timers expire at multiples of several ticks ([`Sched::timer_expires`]).
    pub timer_wheel: bool,
}

/// The kinds of scheduled event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A task's timer expires, if the task's generation is still the same.
    Timer(TaskId, u32),
    /// A device has finished requests.
    Device(u32),
    /// A periodic duty of the world.
    Periodic(u32),
    /// A task with plugged requests has gone to sleep, and the requests are to be given out.
    Unplug(TaskId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Runnable,
    Running,
    Blocked,
    Done,
}

/// A task as the scheduler sees it.
struct Task {
    state: State,
    cpu: usize,
    /// Bit mask of the CPUs that the task may run on.
    allowed: u64,
    /// Virtual run time in nanoseconds. Like the least one of a CPU it may be below 0, where a task
    /// is placed before those that have run little (the kernel's wraps, and differences are
    /// signed).
    vruntime: i64,
    /// Time up to which a running task's virtual run time has been charged (EEVDF, and CFS as in
    /// kernels).
    ran_until: u64,
    entity: eevdf::Entity,
    /// The worker pool whose work this task does; `None` for other tasks.
    pool: Option<Pool>,
    started_at: u64,
    cpu_ns: u64,
    generation: u32,
    woken: bool,
    waiting_on: Option<u32>,
    /// True if the task's wait was reported to [`Sched::waiting`].
    reported: bool,
    /// True if the task sleeps for its program, so that a signal wakes it.
    interruptible: bool,
    /// Why the task is blocked.
    why: Waits,
    /// True in direct reclaim.
    in_reclaim: bool,
    /// True in a memory stall: the task waits or computes for want of memory.
    memory_stall: bool,
    /// True if the task's wait is for I/O (`io_schedule`).
    io: bool,
    /// True if the task holds requests in a plug.
    plugged: bool,
    /// Nanoseconds that the task's program has still to compute, if it gave way in between
    /// ([`Sched::compute`]).
    computing: u64,
    /// The CPU and activity under which the task is counted in [`Sched::pressure`].
    counted: (usize, Doing),
    /// The task's memory control group; 0: none.
    group: u32,
    /// Time up to which the task's account is complete.
    accounted: u64,
    /// Time at which the account began, and time of the task's end.
    born: u64,
    ended: Option<u64>,
    time: TaskTime,
}

/// A wait queue: the number of its wakes so far, and its waiters, the longest first.
#[derive(Default)]
struct Queue {
    wakes: Cell<u64>,
    waiters: RefCell<VecDeque<TaskId>>,
    /// True if there are waiters.
    waited_on: Cell<bool>,
}

/// A CPU: its clock, its current task and its run queue.
struct Cpu {
    clock: Cell<u64>,
    current: Cell<Option<TaskId>>,
    run_queue: RefCell<VecDeque<TaskId>>,
    slice_end: Cell<u64>,
    resched: Cell<bool>,
    busy_ns: Cell<u64>,
    /// Least virtual run time of the CPU's tasks; never decreases.
    min_vruntime: Cell<i64>,
    race: eevdf::Race,
}

/// The scheduler's state. The futures of tasks belong to the caller of [`Sched::run`].
pub struct Sched {
    params: SchedParams,
    cpus: Vec<Cpu>,
    /// Clocks of the CPUs that run a task.
    due: due::Due,
    /// The CPU that executes now.
    here: Cell<usize>,
    /// Time of the executing task or interrupt. The CPU's own clock is behind by the time that was
    /// charged since [`Sched::settle`].
    time: Cell<u64>,
    /// Value of `time` when the CPU's clock was last settled.
    settled: Cell<u64>,
    /// The task that executes now; 0 in interrupts.
    running: Cell<TaskId>,
    /// The running task's turn lasts until its clock reaches this.
    turn_end: Cell<u64>,
    /// The running task may run until its clock reaches this: its turn's end, or an observer's
    /// look.
    limit: Cell<u64>,
    /// Set while an event is processed.
    interrupt: Cell<bool>,
    tasks: RefCell<Vec<Task>>,
    /// Number of tasks in the CPUs' run queues.
    queued: Cell<u32>,
    queues: Box<[Queue]>,
    /// Bit mask of the page wait queues that may have waiters.
    page_waiters: Cell<u64>,
    /// Wait queue of the worker, on CPU 0, that gives out the plugged requests of a task that goes
    /// to sleep.
    plug_worker: Cell<Option<u32>>,
    events: RefCell<BinaryHeap<Reverse<(u64, u64, Event)>>>,
    seq: Cell<u64>,
    /// Random factors of the wake-up latency of idle CPUs, relative to its median.
    wakeups: RefCell<Lognormals>,
    digest: Cell<u64>,
    stop: Cell<bool>,
    span: Cell<u64>,
    /// True if [`Sched::compute`] returns after each piece, because tasks may have been killed.
    pieces_told: Cell<bool>,
    /// Why the running task's next wait waits, and the object that it waits on, if any.
    why: Cell<Waits>,
    on: Cell<Option<Waited>>,
    /// Statistics of which task waits for which.
    pub waiting: Waiting,
    /// Tasks whose workers are idle, a list for each pool, the last one to sleep at the end.
    idle_workers: RefCell<[Vec<TaskId>; 2]>,
    /// Accounting of pressure stalls.
    pressure: Pressure,
    /// The same for each memory control group.
    group_pressure: GroupPressure,
    /// The time of the last event.
    last_event: Cell<u64>,
    watchdog: Watchdog,
}

impl Sched {
    /// Returns a machine with idle CPUs at time 0, without tasks. `queues`: the number of its wait
    /// queues; `rng` draws wake-up latencies.
    pub fn new(cpus: usize, params: SchedParams, queues: usize, rng: Rng) -> Self {
        Self {
            params,
            cpus: (0..cpus)
                .map(|_| Cpu {
                    clock: Cell::new(0),
                    current: Cell::new(None),
                    run_queue: RefCell::new(VecDeque::new()),
                    slice_end: Cell::new(NEVER),
                    resched: Cell::new(false),
                    busy_ns: Cell::new(0),
                    min_vruntime: Cell::new(0),
                    race: eevdf::Race::default(),
                })
                .collect(),
            due: due::Due::new(cpus),
            here: Cell::new(0),
            time: Cell::new(0),
            settled: Cell::new(0),
            running: Cell::new(0),
            turn_end: Cell::new(0),
            limit: Cell::new(0),
            interrupt: Cell::new(false),
            tasks: RefCell::new(Vec::new()),
            queued: Cell::new(0),
            queues: (0..queues).map(|_| Queue::default()).collect(),
            page_waiters: Cell::new(0),
            plug_worker: Cell::new(None),
            events: RefCell::new(BinaryHeap::new()),
            seq: Cell::new(0),
            wakeups: RefCell::new(Lognormals::new(rng, params.idle_wakeup_sigma)),
            digest: Cell::new(0xcbf2_9ce4_8422_2325),
            stop: Cell::new(false),
            span: Cell::new(0),
            pieces_told: Cell::new(false),
            why: Cell::new(Waits::Sleep),
            on: Cell::new(None),
            waiting: Waiting::default(),
            idle_workers: RefCell::default(),
            pressure: Pressure::new(cpus),
            group_pressure: GroupPressure::new(&[], cpus),
            last_event: Cell::new(0),
            watchdog: Watchdog::new(),
        }
    }

    /// Keeps accounts of pressure for memory control groups too: `parents` has the number of the
    /// group that each lies in, 0 for none.
    pub(crate) fn with_groups(self, parents: &[u32]) -> Self {
        let group_pressure = GroupPressure::new(parents, self.cpus.len());
        Self {
            group_pressure,
            ..self
        }
    }

    /// Returns the simulated time of the executing task or interrupt, in nanoseconds.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        self.time.get()
    }

    /// Returns the CPU that executes now.
    #[inline(always)]
    pub fn cpu(&self) -> usize {
        self.here.get()
    }

    /// Returns the running task; 0 in interrupts, which count nothing by task.
    #[inline(always)]
    pub fn task(&self) -> TaskId {
        self.running.get()
    }

    /// Charges `ns` nanoseconds of CPU time to the running task, or to an interrupt, which takes
    /// them from its CPU: advances the present time.
    #[inline(always)]
    pub fn charge(&self, ns: u64) {
        self.time.set(self.time.get() + ns);
        if cfg!(debug_assertions) && !self.interrupt.get() {
            self.span.set(self.span.get() + ns);
        }
    }

    /// Returns the clock of CPU `c` in nanoseconds, with the charges of the executing task that are
    /// not settled yet.
    fn clock(&self, c: usize) -> u64 {
        let unsettled = match c == self.here.get() && !self.interrupt.get() {
            true => self.time.get() - self.settled.get(),
            false => 0,
        };
        self.cpus[c].clock.get() + unsettled
    }

    /// Adds the time charged since the last call to the executing CPU's clock. An interrupt of an
    /// idle CPU costs that CPU nothing.
    fn settle(&self) {
        let charged = self.time.get() - self.settled.get();
        self.settled.set(self.time.get());
        let cpu = &self.cpus[self.here.get()];
        if !self.interrupt.get() || cpu.current.get().is_some() {
            cpu.clock.set(cpu.clock.get() + charged);
            if cpu.current.get().is_some() {
                self.due.set(self.here.get(), cpu.clock.get());
            }
        }
    }

    /// Makes the current task of CPU `c` the executing one.
    fn enter(&self, c: usize) {
        let cpu = &self.cpus[c];
        self.here.set(c);
        self.set_time(cpu.clock.get());
        self.running.set(cpu.current.get().unwrap_or(0));
    }

    fn set_time(&self, time: u64) {
        self.time.set(time);
        self.settled.set(time);
    }

    /// Returns the longest time charged without a [`Sched::relax`] since the last poll, for tests
    /// of the engine's promise that a quantum bounds it. Debug builds only.
    pub fn span(&self) -> u64 {
        self.span.get()
    }

    /// Adds a task, runnable now, to one of the CPUs in turn; returns its number.
    pub fn spawn(&self) -> TaskId {
        let id = {
            let mut tasks = self.tasks.borrow_mut();
            let cpu = tasks.len() % self.cpus.len();
            let now = self.now();
            tasks.push(Task {
                state: State::Blocked,
                cpu,
                allowed: u64::MAX,
                vruntime: 0,
                ran_until: 0,
                entity: eevdf::Entity::default(),
                pool: None,
                started_at: 0,
                cpu_ns: 0,
                generation: 0,
                woken: false,
                waiting_on: None,
                reported: false,
                interruptible: false,
                why: Waits::Sleep,
                in_reclaim: false,
                memory_stall: false,
                io: false,
                plugged: false,
                computing: 0,
                counted: (cpu, Doing::default()),
                group: 0,
                accounted: now,
                born: now,
                ended: None,
                time: TaskTime::default(),
            });
            tasks.len() as TaskId - 1
        };
        self.make_runnable(id);
        id
    }

    /// Binds a task to the CPUs in the bit mask `allowed`, as `sched_setaffinity` does; returns the
    /// previous mask. A task that runs on a CPU outside the mask must sleep before anything else.
    ///
    /// # Panics
    /// If `allowed` holds none of the machine's CPUs.
    pub fn set_affinity(&self, task: TaskId, allowed: u64) -> u64 {
        let all = u64::MAX >> (64 - self.cpus.len());
        assert!(allowed & all != 0, "a task needs a CPU");
        let task = &mut self.tasks.borrow_mut()[task as usize];
        std::mem::replace(&mut task.allowed, allowed)
    }

    /// Returns true if a CPU has a current task.
    pub fn is_busy(&self, cpu: usize) -> bool {
        self.cpus[cpu].current.get().is_some()
    }

    /// Sets the wait queue of the worker that gives out the plugged requests of a task that goes to
    /// sleep. A task on CPU 0 wakes it before leaving the CPU (`blk_flush_plug` from schedule).
    pub fn set_plug_worker(&self, queue: u32) {
        self.plug_worker.set(Some(queue));
    }

    /// Notes whether a task holds plugged requests, which go out when it sleeps
    /// ([`Event::Unplug`]).
    pub fn plugged(&self, task: TaskId, holds: bool) {
        self.tasks.borrow_mut()[task as usize].plugged = holds;
    }

    /// Returns true if the running task is to give its CPU to another (`need_resched`).
    pub fn need_resched(&self) -> bool {
        let cpu = &self.cpus[self.here.get()];
        cpu.resched.get() || self.now() >= cpu.slice_end.get()
    }

    /// Returns the bit mask of CPUs that the calling task may run on.
    pub fn affinity(&self) -> u64 {
        self.tasks.borrow()[self.task() as usize].allowed
    }

    /// Binds the calling task to the CPUs in the bit mask `allowed` and moves it there; returns the
    /// previous mask.
    ///
    /// # Panics
    /// Panics under the condition of [`Sched::set_affinity`].
    pub async fn bind(&self, allowed: u64) -> u64 {
        let before = self.set_affinity(self.task(), allowed);
        if allowed >> self.cpu() & 1 == 0 {
            // Linux's migration thread takes the task off its CPU and puts it on another CPU's
            // queue.
            self.sleep(1).await;
        }
        before
    }

    /// Schedules an event at `time` (ns), behind earlier ones of the same time, and ends the
    /// running task's turn by then.
    pub fn at(&self, time: u64, event: Event) {
        let seq = self.seq.get();
        self.seq.set(seq + 1);
        self.events.borrow_mut().push(Reverse((time, seq, event)));
        self.end_turn_by(time);
    }

    /// Ends the running task's turn no later than `time`.
    fn end_turn_by(&self, time: u64) {
        self.turn_end.set(self.turn_end.get().min(time));
        self.limit.set(self.limit.get().min(time));
    }

    /// Interrupts the running task for an observer's look no later than `time`; its turn continues
    /// after the look.
    pub fn look_by(&self, time: u64) {
        self.limit.set(self.limit.get().min(time));
    }

    /// Runs `act` between two steps of the running task, as a cost-free interrupt of CPU 0 at
    /// `time` (nanoseconds) would; the task's turn continues afterwards as if nothing had been.
    ///
    /// # Panics
    /// If `act` charges time.
    pub fn aside(&self, time: u64, act: impl FnOnce()) {
        let saved = (self.time.get(), self.settled.get(), self.here.get());
        let (running, interrupt) = (self.running.get(), self.interrupt.get());
        self.set_time(time);
        self.here.set(0);
        self.running.set(0);
        self.interrupt.set(true);
        act();
        assert_eq!(self.time.get(), time, "what is done aside costs nothing");
        self.interrupt.set(interrupt);
        self.running.set(running);
        self.here.set(saved.2);
        self.time.set(saved.0);
        self.settled.set(saved.1);
    }

    /// Mixes an event or task switch into the digest of the run: `a` is its time, `b` its number
    /// and kind.
    fn note(&self, a: u64, b: u64) {
        let hash = (self.digest.get() ^ a).wrapping_mul(0x100_0000_01b3);
        self.digest.set((hash ^ b).wrapping_mul(0x100_0000_01b3));
    }

    /// Returns a hash of all events and task switches so far.
    pub fn digest(&self) -> u64 {
        self.digest.get()
    }

    /// Ends the run at the next opportunity.
    pub fn stop(&self) {
        self.stop.set(true);
        self.end_turn_by(0);
    }

    /// Returns true if the run is ending.
    pub fn stopping(&self) -> bool {
        self.stop.get()
    }

    /// Sets the flag with which a caller outside ends the run, within
    /// [`LOOK_POLLS`](crate::watchdog::LOOK_POLLS) polls.
    pub fn heed(&self, flag: Arc<AtomicBool>) {
        self.watchdog.heed(flag);
    }

    /// Returns the number of polls so far; see the [watchdog](crate::watchdog).
    pub fn polls(&self) -> u64 {
        self.watchdog.polls()
    }

    /// Returns why the watchdog ended the run; `None` if it did not.
    pub fn ending(&self) -> Option<Ending> {
        self.watchdog.ending()
    }

    /// Lets the watchdog check for progress: whether any clock has moved since it last looked.
    /// Returns true if it ended the run. `at`: where the running task was polled, if one was.
    #[cold]
    fn look(&self, at: Option<&'static Location<'static>>) -> bool {
        let clocks = self.cpus.iter().map(|c| c.clock.get());
        let charged = self.time.get() - self.settled.get();
        let progress = clocks.fold(
            self.last_event.get().wrapping_add(charged),
            u64::wrapping_add,
        );
        let ends = self.watchdog.look(progress, at.map(|at| (self.task(), at)));
        if ends {
            self.stop();
        }
        ends
    }
}
