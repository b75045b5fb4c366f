//! The executor: one clock per CPU, a scheduler, an event queue
//! (docs/decisions/virtual-world.md#charge-and-relax).
//!
//! The CPU whose clock is smallest runs next; no CPU leads another by more than a quantum. A task
//! is a future; it gives way at [`Sched::relax`] and blocks in [`Sched::wait`] and
//! [`Sched::sleep`]. Everything is decided by simulated time and sequence numbers, so a seed fixes
//! the whole history.
//!
//! An [`Observer`] is no event: the running task's turn goes on after a look as if nobody had looked, so samples,
//! recounts and progress change nothing that they see. Sysctls that an experiment writes in mid-run are written
//! between two looks ([`Sched::aside`]), so a write of the value that is there changes nothing either.

mod accounts;
mod cfs;
mod compute;
mod due;
mod eevdf;
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
use mm::world::{Waited, Waits};
use pressure::{Doing, Pressure};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A task's number.
pub type TaskId = u32;

const NEVER: u64 = u64::MAX;

/// How much of CFS is the kernels' (`sched_place`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A task that wakes on a busy CPU has its virtual run time placed beside that of the tasks there.
    Busy,
    /// So has one that wakes on an idle CPU, or moves to another CPU.
    Everywhere,
    /// They are placed as kernels do it (`place_entity`), slices end at ticks, and weights count.
    Kernels,
}

/// The scheduler's parameters, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct SchedParams {
    /// How far a CPU may lead another.
    pub quantum: u64,
    /// Time in which every runnable task of a CPU runs once.
    pub latency: u64,
    /// Least time slice.
    pub min_granularity: u64,
    /// A woken task preempts one that has run this much more.
    pub wakeup_granularity: u64,
    /// The slice of a task where CPUs are given to the earliest eligible virtual deadline (EEVDF). `None`: to the
    /// least virtual run time, by the two granularities (CFS).
    pub eevdf_slice: Option<u64>,
    /// Median of the wake-up latency of an idle CPU.
    pub idle_wakeup: f64,
    /// Sigma of its logarithm.
    pub idle_wakeup_sigma: f64,
    /// How much of CFS is the kernels'.
    pub place: Place,
    /// Cost of a context switch.
    pub switch: u64,
    /// One timer tick.
    pub tick: u64,
    /// Phase of the ticks.
    pub tick_phase: u64,
    /// Long timers expire at multiples of several ticks ([`Sched::timer_expires`]).
    pub timer_wheel: bool,
}

/// What happens at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A task's timer, valid if the task's generation is still the same.
    Timer(TaskId, u32),
    /// A device has finished requests.
    Device(u32),
    /// A periodic duty of the world.
    Periodic(u32),
    /// A task that gathers requests has gone to sleep.
    Unplug(TaskId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Runnable,
    Running,
    Blocked,
    Done,
}

struct Task {
    state: State,
    cpu: usize,
    /// The CPUs that it may run on, a bit each.
    allowed: u64,
    /// Its virtual run time, in nanoseconds. Like the least one of its CPU it may lie below 0, where a task is placed in
    /// front of those that have run little (the kernel's wraps, and differences are signed).
    vruntime: i64,
    /// Its virtual run time is complete up to here, while it runs (EEVDF).
    ran_until: u64,
    entity: eevdf::Entity,
    /// Whose work it is.
    pool: Option<Pool>,
    started_at: u64,
    cpu_ns: u64,
    generation: u32,
    woken: bool,
    waiting_on: Option<u32>,
    /// Its wait is told to [`Sched::waiting`].
    told: bool,
    /// It sleeps for its program, and a signal wakes it.
    interruptible: bool,
    /// Why it is blocked.
    why: Waits,
    /// In direct reclaim.
    in_reclaim: bool,
    /// In a memory stall: what it waits for and what it computes is for want of memory.
    memory_stall: bool,
    /// Its wait is one for I/O (`io_schedule`).
    io: bool,
    /// It holds requests that nobody else knows of yet.
    plugged: bool,
    /// What its program computes yet, in nanoseconds, where it gave way in between ([`Sched::compute`]).
    computing: u64,
    /// As what it is counted, and where.
    counted: (usize, Doing),
    /// Its account is complete up to here.
    accounted: u64,
    /// Since when the account runs, and the time of the task's end.
    born: u64,
    ended: Option<u64>,
    time: TaskTime,
}

#[derive(Default)]
struct Queue {
    wakes: Cell<u64>,
    waiters: RefCell<VecDeque<TaskId>>,
    /// Whether there are waiters.
    waited_on: Cell<bool>,
}

struct Cpu {
    clock: Cell<u64>,
    current: Cell<Option<TaskId>>,
    run_queue: RefCell<VecDeque<TaskId>>,
    slice_end: Cell<u64>,
    resched: Cell<bool>,
    busy_ns: Cell<u64>,
    /// The least virtual run time of its tasks; never goes back.
    min_vruntime: Cell<i64>,
    race: eevdf::Race,
}

/// The scheduler's state. Tasks' futures live in [`Sched::run`]'s caller.
pub struct Sched {
    params: SchedParams,
    cpus: Vec<Cpu>,
    /// The clocks of those that run a task.
    due: due::Due,
    /// The CPU that executes now.
    here: Cell<usize>,
    /// The time of whoever executes now. A CPU's own clock is behind by what was charged since
    /// [`Sched::settle`].
    time: Cell<u64>,
    /// The time when the CPU's clock was last settled.
    settled: Cell<u64>,
    /// The task that executes now; 0 in interrupts.
    running: Cell<TaskId>,
    /// The running task's turn lasts until its clock reaches this.
    turn_end: Cell<u64>,
    /// The running task may go on until its clock reaches this: its turn's end, or an observer's time.
    limit: Cell<u64>,
    /// Set while an event is processed.
    interrupt: Cell<bool>,
    tasks: RefCell<Vec<Task>>,
    /// Tasks in CPUs' queues.
    queued: Cell<u32>,
    queues: Box<[Queue]>,
    /// The queues of pages that may have waiters, a bit each.
    page_waiters: Cell<u64>,
    /// The queue of whoever gives out what a task holds back that goes to sleep; it is on CPU 0.
    plug_worker: Cell<Option<u32>>,
    events: RefCell<BinaryHeap<Reverse<(u64, u64, Event)>>>,
    seq: Cell<u64>,
    /// Of the times that idle CPUs take to wake up, by the median.
    wakeups: RefCell<Lognormals>,
    digest: Cell<u64>,
    stop: Cell<bool>,
    span: Cell<u64>,
    /// Whether tasks ask for something else than the time behind each piece that they compute.
    pieces_told: Cell<bool>,
    /// Why the running task's next wait waits, and on what.
    why: Cell<Waits>,
    on: Cell<Option<Waited>>,
    /// Who waits for whom.
    pub waiting: Waiting,
    /// Tasks whose workers are idle, a list for each pool, who slept last at the end.
    idle_workers: RefCell<[Vec<TaskId>; 2]>,
    /// How long tasks stood still.
    pressure: Pressure,
    /// The time of the last event.
    last_event: Cell<u64>,
    watchdog: Watchdog,
}

impl Sched {
    /// A machine with idle CPUs at time 0.
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
            last_event: Cell::new(0),
            watchdog: Watchdog::new(),
        }
    }

    /// Simulated time for whoever executes now, in nanoseconds.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        self.time.get()
    }

    /// The CPU that executes now.
    #[inline(always)]
    pub fn cpu(&self) -> usize {
        self.here.get()
    }

    /// The running task; 0 in interrupts, whose counters do not ask.
    #[inline(always)]
    pub fn task(&self) -> TaskId {
        self.running.get()
    }

    /// Charges CPU time to whoever executes. An interrupt steals it from its CPU.
    #[inline(always)]
    pub fn charge(&self, ns: u64) {
        self.time.set(self.time.get() + ns);
        if cfg!(debug_assertions) && !self.interrupt.get() {
            self.span.set(self.span.get() + ns);
        }
    }

    /// A CPU's clock, with what is not settled yet.
    fn clock(&self, c: usize) -> u64 {
        let unsettled = match c == self.here.get() && !self.interrupt.get() {
            true => self.time.get() - self.settled.get(),
            false => 0,
        };
        self.cpus[c].clock.get() + unsettled
    }

    /// Brings the executing CPU's clock up to date.
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

    /// A CPU's current task executes from here on.
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

    /// The longest uncharged span since the last call, for tests of the engine's promise that a
    /// quantum bounds it.
    pub fn span(&self) -> u64 {
        self.span.get()
    }

    /// Adds a task, runnable now.
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
                told: false,
                interruptible: false,
                why: Waits::Sleep,
                in_reclaim: false,
                memory_stall: false,
                io: false,
                plugged: false,
                computing: 0,
                counted: (cpu, Doing::default()),
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

    /// Binds a task to CPUs, a bit each, as `sched_setaffinity` does; returns those it could run on
    /// until now. A task on another CPU than these has to sleep before anything else.
    ///
    /// # Panics
    /// If none of the machine's CPUs is among them.
    pub fn set_affinity(&self, task: TaskId, allowed: u64) -> u64 {
        let all = u64::MAX >> (64 - self.cpus.len());
        assert!(allowed & all != 0, "a task needs a CPU");
        let task = &mut self.tasks.borrow_mut()[task as usize];
        std::mem::replace(&mut task.allowed, allowed)
    }

    /// Whether a CPU has a task to run.
    pub fn is_busy(&self, cpu: usize) -> bool {
        self.cpus[cpu].current.get().is_some()
    }

    /// Names the queue that is woken by a task which goes to sleep with requests held back, before it has left its CPU:
    /// a worker gives them out (`blk_flush_plug` from schedule).
    pub fn set_plug_worker(&self, queue: u32) {
        self.plug_worker.set(Some(queue));
    }

    /// Whether a task holds requests back, which go out when it sleeps ([`Event::Unplug`]).
    pub fn plugged(&self, task: TaskId, holds: bool) {
        self.tasks.borrow_mut()[task as usize].plugged = holds;
    }

    /// Whether the running task is to give its CPU to another (`need_resched`).
    pub fn need_resched(&self) -> bool {
        let cpu = &self.cpus[self.here.get()];
        cpu.resched.get() || self.now() >= cpu.slice_end.get()
    }

    /// The CPUs that the calling task may run on.
    pub fn affinity(&self) -> u64 {
        self.tasks.borrow()[self.task() as usize].allowed
    }

    /// Binds the calling task to CPUs and moves it there; returns those it could run on until now.
    ///
    /// # Panics
    /// As [`Sched::set_affinity`].
    pub async fn bind(&self, allowed: u64) -> u64 {
        let before = self.set_affinity(self.task(), allowed);
        if allowed >> self.cpu() & 1 == 0 {
            // Linux's migration thread takes it off its CPU and puts it on another one's queue.
            self.sleep(1).await;
        }
        before
    }

    /// Schedules an event.
    pub fn at(&self, time: u64, event: Event) {
        let seq = self.seq.get();
        self.seq.set(seq + 1);
        self.events.borrow_mut().push(Reverse((time, seq, event)));
        self.end_turn_by(time);
    }

    /// The running task's turn ends no later than this.
    fn end_turn_by(&self, time: u64) {
        self.turn_end.set(self.turn_end.get().min(time));
        self.limit.set(self.limit.get().min(time));
    }

    /// The observer's next look is due no later than this: the running task stops for it, and its turn goes on.
    pub fn look_by(&self, time: u64) {
        self.limit.set(self.limit.get().min(time));
    }

    /// Does something between two looks as an interrupt of CPU 0 at `time` (nanoseconds) that costs nothing would; the
    /// running task goes on in its turn.
    ///
    /// # Panics
    /// If time was charged.
    pub fn aside(&self, time: u64, act: impl FnOnce()) {
        let before = (self.time.get(), self.settled.get(), self.here.get());
        let (running, interrupt) = (self.running.get(), self.interrupt.get());
        self.set_time(time);
        self.here.set(0);
        self.running.set(0);
        self.interrupt.set(true);
        act();
        assert_eq!(self.time.get(), time, "what is done aside costs nothing");
        self.interrupt.set(interrupt);
        self.running.set(running);
        self.here.set(before.2);
        self.time.set(before.0);
        self.settled.set(before.1);
    }

    fn note(&self, a: u64, b: u64) {
        let h = (self.digest.get() ^ a).wrapping_mul(0x100_0000_01b3);
        self.digest.set((h ^ b).wrapping_mul(0x100_0000_01b3));
    }

    /// A hash of every event and task switch so far.
    pub fn digest(&self) -> u64 {
        self.digest.get()
    }

    /// Ends the run at the next opportunity.
    pub fn stop(&self) {
        self.stop.set(true);
        self.end_turn_by(0);
    }

    /// Whether the run is ending.
    pub fn stopping(&self) -> bool {
        self.stop.get()
    }

    /// Whoever sets this flag ends the run within [`LOOK_POLLS`](crate::watchdog::LOOK_POLLS) polls.
    pub fn heed(&self, flag: Arc<AtomicBool>) {
        self.watchdog.heed(flag);
    }

    /// Polls so far; see the [watchdog](crate::watchdog).
    pub fn polls(&self) -> u64 {
        self.watchdog.polls()
    }

    /// Why the run ended, if nobody in it ended it.
    pub fn ending(&self) -> Option<Ending> {
        self.watchdog.ending()
    }

    /// The watchdog's turn. Returns whether it ended the run.
    #[cold]
    fn look(&self, at: Option<&'static Location<'static>>) -> bool {
        let clocks = self.cpus.iter().map(|c| c.clock.get());
        let charged = self.time.get() - self.settled.get();
        let sum = clocks.fold(
            self.last_event.get().wrapping_add(charged),
            u64::wrapping_add,
        );
        let ends = self.watchdog.look(sum, at.map(|at| (self.task(), at)));
        if ends {
            self.stop();
        }
        ends
    }
}
