//! The executor: one clock per CPU, a scheduler, an event queue
//! (docs/decisions/virtual-world.md#charge-and-relax).
//!
//! The CPU whose clock is smallest runs next; no CPU leads another by more than a quantum. A task
//! is a future; it gives way at [`Sched::relax`] and blocks in [`Sched::wait`] and
//! [`Sched::sleep`]. Everything is decided by simulated time and sequence numbers, so a seed fixes
//! the whole history.
//!
//! Whoever only looks is an [`Observer`] and no event: a turn goes on after the look as if nobody had
//! looked, so samples, recounts and progress change nothing that they see.

use crate::account::{Spent, TaskClass, TaskTime};
use crate::rng::Rng;
use crate::waiting::Waiting;
use crate::watchdog::{Ending, Watchdog};
use mm::world::{Waited, Waits};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker};

/// A task's number.
pub type TaskId = u32;

const NEVER: u64 = u64::MAX;

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
    /// Median of the wake-up latency of an idle CPU.
    pub idle_wakeup: f64,
    /// Sigma of its logarithm.
    pub idle_wakeup_sigma: f64,
    /// Whether a task that wakes on an idle CPU, or moves to another CPU, has its virtual run time
    /// placed beside that of the tasks there (`place_entity`), as one that wakes on a busy CPU has.
    pub place: bool,
    /// Cost of a context switch.
    pub switch: u64,
    /// One timer tick.
    pub tick: u64,
    /// Phase of the ticks.
    pub tick_phase: u64,
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
}

/// Who looks at a run without being part of it: samples, recounts, progress.
pub trait Observer {
    /// The simulated time of the next look, in nanoseconds; `u64::MAX` for none any more.
    fn due(&self) -> u64;

    /// Looks, when everything before [`Observer::due`] has happened; what is due next is later than
    /// before. It may call [`Sched::stop`], and must charge no time and schedule no event.
    fn observe(&mut self);
}

/// Nobody looks.
struct Unobserved;

impl Observer for Unobserved {
    fn due(&self) -> u64 {
        NEVER
    }

    fn observe(&mut self) {}
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
    vruntime: u64,
    started_at: u64,
    cpu_ns: u64,
    generation: u32,
    woken: bool,
    waiting_on: Option<u32>,
    /// Its wait is told to [`Sched::waiting`].
    told: bool,
    /// Why it is blocked.
    why: Waits,
    /// In direct reclaim.
    in_reclaim: bool,
    /// Its account is complete up to here.
    accounted: u64,
    /// Since when the account runs, and the time of the task's end.
    born: u64,
    ended: Option<u64>,
    time: TaskTime,
}

impl Task {
    /// Books the time since the last call. A CPU that wakes it may be behind the one it ran on;
    /// then there is nothing to book.
    fn account(&mut self, until: u64, on: Spent) {
        let ns = until.saturating_sub(self.accounted);
        self.accounted += ns;
        let split = if self.in_reclaim {
            &mut self.time.in_reclaim
        } else {
            &mut self.time.outside
        };
        split.add(on, ns);
    }

    /// Its account, closed at `end` if it still lives.
    fn closed(&self, end: u64) -> TaskTime {
        let mut open = Self { ..*self };
        if self.ended.is_none() {
            open.account(
                end,
                match self.state {
                    State::Runnable => Spent::RunQueue,
                    State::Running => Spent::Cpu,
                    State::Blocked | State::Done => self.why.into(),
                },
            );
        }
        let ended = self.ended.unwrap_or_else(|| end.max(self.accounted));
        TaskTime {
            tasks: 1,
            lifetime: ended - self.born,
            ..open.time
        }
    }
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
    min_vruntime: Cell<u64>,
}

/// The scheduler's state. Tasks' futures live in [`Sched::run`]'s caller.
pub struct Sched {
    params: SchedParams,
    cpus: Vec<Cpu>,
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
    queues: Box<[Queue]>,
    events: RefCell<BinaryHeap<Reverse<(u64, u64, Event)>>>,
    seq: Cell<u64>,
    rng: RefCell<Rng>,
    digest: Cell<u64>,
    stop: Cell<bool>,
    span: Cell<u64>,
    /// Why the running task's next wait waits, and on what.
    why: Cell<Waits>,
    on: Cell<Option<Waited>>,
    /// Who waits for whom.
    pub waiting: Waiting,
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
                })
                .collect(),
            here: Cell::new(0),
            time: Cell::new(0),
            settled: Cell::new(0),
            running: Cell::new(0),
            turn_end: Cell::new(0),
            limit: Cell::new(0),
            interrupt: Cell::new(false),
            tasks: RefCell::new(Vec::new()),
            queues: (0..queues).map(|_| Queue::default()).collect(),
            events: RefCell::new(BinaryHeap::new()),
            seq: Cell::new(0),
            rng: RefCell::new(rng),
            digest: Cell::new(0xcbf2_9ce4_8422_2325),
            stop: Cell::new(false),
            span: Cell::new(0),
            why: Cell::new(Waits::Sleep),
            on: Cell::new(None),
            waiting: Waiting::default(),
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
                started_at: 0,
                cpu_ns: 0,
                generation: 0,
                woken: false,
                waiting_on: None,
                told: false,
                why: Waits::Sleep,
                in_reclaim: false,
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

    /// CPU time a task has used, in nanoseconds, with its turn up to now.
    pub fn task_cpu_ns(&self, task: TaskId) -> u64 {
        let t = &self.tasks.borrow()[task as usize];
        let turn = match t.state {
            State::Running => self.clock(t.cpu).saturating_sub(t.started_at),
            _ => 0,
        };
        t.cpu_ns + turn
    }

    /// Says what kind of task it is; a task is of the workload unless somebody does.
    pub fn set_class(&self, task: TaskId, class: TaskClass) {
        self.tasks.borrow_mut()[task as usize].time.class = class;
    }

    /// Why the running task's next wait or sleep waits, where it is on no object.
    #[inline(always)]
    pub fn waits_for(&self, why: Waits) {
        self.why.set(why);
    }

    /// What the running task's next wait or sleep is on, and with it why.
    #[inline(always)]
    pub fn waits_on(&self, what: Waited) {
        self.waits_for(what.kind.why());
        self.on.set(Some(what));
    }

    /// The running task enters direct reclaim, or leaves it.
    pub fn in_reclaim(&self, inside: bool) {
        let now = self.now();
        let task = &mut self.tasks.borrow_mut()[self.task() as usize];
        task.account(now, Spent::Cpu);
        task.in_reclaim = inside;
    }

    /// Charges CPU time of the running task's own program.
    pub fn charge_user(&self, ns: u64) {
        self.charge(ns);
        self.tasks.borrow_mut()[self.task() as usize].time.user += ns;
    }

    /// Begins all accounts of time anew.
    pub fn restart_accounts(&self) {
        let now = self.now();
        for t in self.tasks.borrow_mut().iter_mut() {
            // A task that was woken to start in a moment has its run-queue time booked ahead.
            let from = match t.state {
                State::Running => t.started_at.max(now),
                _ => now,
            };
            (t.accounted, t.born) = (from, from);
            t.ended = t.ended.map(|_| from);
            t.time = TaskTime {
                class: t.time.class,
                ..TaskTime::default()
            };
        }
    }

    /// Where each task's time went up to `end`, in order of number, without the identity of
    /// interrupts and without tasks that ended before the accounts began.
    pub fn task_times(&self, end: u64) -> Vec<(TaskId, TaskTime)> {
        let tasks = self.tasks.borrow();
        (1..)
            .zip(tasks.iter().skip(1))
            .filter(|(_, t)| t.ended != Some(t.born))
            .map(|(id, t)| (id, t.closed(end)))
            .collect()
    }

    /// The running task's account up to now.
    pub fn own_time(&self) -> TaskTime {
        let now = self.now();
        let task = &mut self.tasks.borrow_mut()[self.task() as usize];
        if self.task() != 0 {
            task.account(now, Spent::Cpu);
        }
        task.time
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

    fn make_runnable(&self, id: TaskId) {
        self.settle();
        let now = self.now();
        let mut tasks = self.tasks.borrow_mut();
        let task = &mut tasks[id as usize];
        if task.state != State::Blocked {
            return;
        }
        task.generation = task.generation.wrapping_add(1);
        if std::mem::take(&mut task.told) {
            self.waiting.end(id, now);
        }
        task.waiting_on = None;
        task.account(now, task.why.into());
        let allowed = task.allowed;
        let may = |c: usize| allowed >> c & 1 != 0;
        let idle = |c: usize| may(c) && self.cpus[c].current.get().is_none();
        // An interrupt's or waker's CPU is not idle while it executes a task.
        let target = if idle(task.cpu) {
            Some(task.cpu)
        } else {
            (0..self.cpus.len()).find(|&c| idle(c))
        };
        if let Some(c) = target {
            let cpu = &self.cpus[c];
            let draw = self
                .rng
                .borrow_mut()
                .lognormal(self.params.idle_wakeup_sigma);
            let latency = (self.params.idle_wakeup * draw) as u64;
            let start = cpu.clock.get().max(now + latency);
            if self.params.place {
                self.bring(task, c);
                let floor = cpu
                    .min_vruntime
                    .get()
                    .saturating_sub(self.params.latency / 2);
                task.vruntime = task.vruntime.max(floor);
            }
            cpu.clock.set(start);
            cpu.current.set(Some(id));
            cpu.slice_end.set(NEVER);
            cpu.resched.set(false);
            task.cpu = c;
            task.state = State::Running;
            task.started_at = start;
            task.account(start, Spent::RunQueue);
            drop(tasks);
            if c == self.here.get() && !self.interrupt.get() {
                self.enter(c);
            }
            self.note(start, u64::from(id));
            self.end_turn_by(start + self.params.quantum);
            return;
        }
        if !may(task.cpu) {
            let length = |c: usize| self.cpus[c].run_queue.borrow().len();
            let shortest = (0..self.cpus.len()).filter(|&c| may(c));
            task.cpu = shortest.min_by_key(|&c| (length(c), c)).expect("a CPU");
        }
        let c = task.cpu;
        let cpu = &self.cpus[c];
        let current = cpu.current.get().expect("a busy CPU") as usize;
        let (current_start, current_vruntime) =
            (tasks[current].started_at, tasks[current].vruntime);
        let ran = current_vruntime + cpu.clock.get().saturating_sub(current_start);
        let task = &mut tasks[id as usize];
        task.state = State::Runnable;
        // A sleeper gets at most half a latency of credit.
        task.vruntime = task
            .vruntime
            .max(ran.saturating_sub(self.params.latency / 2));
        let preempts = ran > task.vruntime + self.params.wakeup_granularity;
        cpu.run_queue.borrow_mut().push_back(id);
        self.set_slice(c);
        if preempts {
            cpu.resched.set(true);
        }
        if c == self.here.get() && !self.interrupt.get() {
            self.end_turn_by(if preempts { 0 } else { cpu.slice_end.get() });
        }
    }

    /// A task moves to a CPU: it keeps its place among the tasks.
    fn bring(&self, task: &mut Task, c: usize) {
        let min = |cpu: usize| self.cpus[cpu].min_vruntime.get();
        if task.cpu != c {
            task.vruntime = (task.vruntime + min(c)).saturating_sub(min(task.cpu));
        }
    }

    fn set_slice(&self, c: usize) {
        let cpu = &self.cpus[c];
        let n = cpu.run_queue.borrow().len() as u64 + 1;
        if n == 1 {
            cpu.slice_end.set(NEVER);
        } else if cpu.slice_end.get() == NEVER {
            let slice = (self.params.latency / n).max(self.params.min_granularity);
            cpu.slice_end.set(cpu.clock.get() + slice);
        }
    }

    /// Ends the current task's turn on a CPU.
    fn put_current(&self, c: usize, state: State) {
        let cpu = &self.cpus[c];
        let id = cpu.current.take().expect("a running task");
        let mut tasks = self.tasks.borrow_mut();
        let task = &mut tasks[id as usize];
        let ran = cpu.clock.get().saturating_sub(task.started_at);
        task.vruntime += ran;
        let own = task.vruntime;
        task.cpu_ns += ran;
        task.account(cpu.clock.get(), Spent::Cpu);
        if state == State::Done {
            task.ended = Some(task.accounted);
        }
        cpu.busy_ns.set(cpu.busy_ns.get() + ran);
        task.state = state;
        if state == State::Runnable {
            cpu.run_queue.borrow_mut().push_back(id);
        }
        let queue = cpu.run_queue.borrow();
        let waiting = queue.iter().map(|&t| tasks[t as usize].vruntime).min();
        let least = waiting.map_or(own, |v| v.min(own));
        cpu.min_vruntime.set(cpu.min_vruntime.get().max(least));
    }

    /// Starts the next task on an idle CPU: its own queue first, then the longest other queue.
    fn pick_next(&self, c: usize) {
        // Of the tasks queued on `from`, the next that may run here.
        let least = |from: usize| -> Option<usize> {
            let q = self.cpus[from].run_queue.borrow();
            let tasks = self.tasks.borrow();
            (0..q.len())
                .filter(|&i| tasks[q[i] as usize].allowed >> c & 1 != 0)
                .min_by_key(|&i| (tasks[q[i] as usize].vruntime, q[i]))
        };
        let mut from = c;
        if self.cpus[c].run_queue.borrow().is_empty() {
            let longest = (0..self.cpus.len())
                .filter(|&o| least(o).is_some())
                .max_by_key(|&o| (self.cpus[o].run_queue.borrow().len(), Reverse(o)))
                .unwrap_or(c);
            from = longest;
        }
        let Some(i) = least(from) else {
            self.cpus[c].slice_end.set(NEVER);
            return;
        };
        let id = self.cpus[from]
            .run_queue
            .borrow_mut()
            .remove(i)
            .expect("an entry");
        let cpu = &self.cpus[c];
        if from != c {
            // The task cannot start before it was queued there.
            let then = self.cpus[from]
                .clock
                .get()
                .min(self.now().max(cpu.clock.get()));
            cpu.clock.set(cpu.clock.get().max(then));
        }
        cpu.clock.set(cpu.clock.get() + self.params.switch);
        cpu.current.set(Some(id));
        cpu.resched.set(false);
        cpu.slice_end.set(NEVER);
        {
            let mut tasks = self.tasks.borrow_mut();
            let task = &mut tasks[id as usize];
            task.state = State::Running;
            if self.params.place {
                self.bring(task, c);
            }
            task.cpu = c;
            task.started_at = cpu.clock.get();
            task.account(task.started_at, Spent::RunQueue);
        }
        self.set_slice(c);
        self.note(cpu.clock.get(), u64::from(id) | 1 << 32);
    }

    /// Runs until somebody calls [`Sched::stop`]. `on_event` handles device and periodic events.
    /// Returns the time of the end, or `None` when nothing can ever happen again.
    pub fn run<'w>(
        &self,
        futures: &mut [Pin<Box<dyn Future<Output = ()> + 'w>>],
        on_event: impl FnMut(u64, Event),
    ) -> Option<u64> {
        self.run_observed(futures, on_event, &mut Unobserved)
    }

    /// As [`Sched::run`], with an observer.
    pub fn run_observed<'w>(
        &self,
        futures: &mut [Pin<Box<dyn Future<Output = ()> + 'w>>],
        mut on_event: impl FnMut(u64, Event),
        observer: &mut impl Observer,
    ) -> Option<u64> {
        let mut context = Context::from_waker(Waker::noop());
        let mut end = 0;
        self.settle();
        while !self.stop.get() {
            if self.watchdog.poll() && self.look(None) {
                break;
            }
            // The running CPU that is furthest behind, and the next one's clock.
            let (mut c, mut least, mut second) = (usize::MAX, NEVER, NEVER);
            for (i, cpu) in self.cpus.iter().enumerate() {
                if cpu.current.get().is_some() {
                    let t = cpu.clock.get();
                    if t < least {
                        (c, second, least) = (i, least, t);
                    } else if t < second {
                        second = t;
                    }
                }
            }
            let next_event = self.events.borrow().peek().map_or(NEVER, |e| e.0.0);
            let next = next_event.min(least);
            if next != NEVER
                && let Some(time) = self.show(next, observer)
            {
                end = end.max(time);
                break;
            }
            if next_event <= least {
                if next_event == NEVER {
                    return None;
                }
                let Reverse((time, _, event)) =
                    self.events.borrow_mut().pop().expect("an event was peeked");
                end = time;
                self.last_event.set(time.max(self.last_event.get()));
                self.here.set(0);
                self.running.set(0);
                self.interrupt.set(true);
                self.set_time(time);
                match event {
                    Event::Timer(task, generation) => self.timer(task, generation),
                    other => {
                        self.note(
                            time,
                            match other {
                                Event::Device(d) => u64::from(d) | 2 << 32,
                                Event::Periodic(p) => u64::from(p) | 3 << 32,
                                Event::Timer(..) => 0,
                            },
                        );
                        on_event(time, other);
                    }
                }
                self.settle();
                self.interrupt.set(false);
                self.enter(0);
                continue;
            }
            let cpu = &self.cpus[c];
            if cpu.resched.get() || cpu.clock.get() >= cpu.slice_end.get() {
                self.put_current(c, State::Runnable);
                self.enter(c);
                self.pick_next(c);
                self.enter(c);
                continue;
            }
            self.enter(c);
            let lead = second.saturating_add(self.params.quantum);
            self.turn_end
                .set(next_event.min(lead).min(cpu.slice_end.get()));
            let id = cpu.current.get().expect("a running task");
            let mut done;
            let mut state;
            loop {
                self.limit.set(self.turn_end.get().min(observer.due()));
                self.span.set(0);
                done = futures[id as usize].as_mut().poll(&mut context).is_ready();
                state = self.tasks.borrow()[id as usize].state;
                if done || state != State::Running || self.now() >= self.turn_end.get() {
                    break;
                }
                // Only the observer wants a look: the turn goes on as if nobody had looked.
                self.show(self.now(), observer);
            }
            self.settle();
            end = end.max(cpu.clock.get());
            if done || state == State::Blocked {
                self.put_current(c, if done { State::Done } else { State::Blocked });
                self.pick_next(c);
                self.enter(c);
            }
        }
        Some(end)
    }

    /// Lets the observer see everything up to `time`. If it ends the run: the time of that look.
    fn show(&self, time: u64, observer: &mut impl Observer) -> Option<u64> {
        while observer.due() <= time {
            let (now, seq, due) = (self.now(), self.seq.get(), observer.due());
            observer.observe();
            assert_eq!(
                (now, seq),
                (self.now(), self.seq.get()),
                "an observer took part"
            );
            if self.stop.get() {
                return Some(due);
            }
        }
        None
    }

    fn timer(&self, task: TaskId, generation: u32) {
        let waiting_on = {
            let tasks = self.tasks.borrow();
            let t = &tasks[task as usize];
            if t.state != State::Blocked || t.generation != generation {
                return;
            }
            t.waiting_on
        };
        if let Some(q) = waiting_on {
            let q = &self.queues[q as usize];
            q.waiters.borrow_mut().retain(|&w| w != task);
        }
        self.make_runnable(task);
    }

    /// The next timer tick at or after a time: kernel timeouts expire on ticks.
    fn tick_at(&self, time: u64) -> u64 {
        let (tick, phase) = (self.params.tick, self.params.tick_phase);
        (time.saturating_sub(phase)).div_ceil(tick) * tick + phase
    }

    fn block(
        &self,
        on: Option<u32>,
        timer: Option<u64>,
        why: Waits,
        at: &'static Location<'static>,
    ) {
        let id = self.task();
        self.watchdog.leaves(id, at);
        let what = self.on.take();
        if let Some(what) = what {
            self.waiting.begin(id, what, self.now());
        }
        let generation = {
            let mut tasks = self.tasks.borrow_mut();
            let t = &mut tasks[id as usize];
            debug_assert!(t.state == State::Running);
            t.state = State::Blocked;
            t.woken = false;
            t.why = why;
            t.told = what.is_some();
            t.waiting_on = on;
            t.generation
        };
        if let Some(time) = timer {
            self.at(time, Event::Timer(id, generation));
        }
    }

    /// A ticket for [`Sched::wait`].
    pub fn ticket(&self, queue: u32) -> u64 {
        self.queues[queue as usize].wakes.get()
    }

    /// Waits for a wake of the queue after the ticket was taken, at most `timeout` nanoseconds.
    #[track_caller]
    pub fn wait(&self, queue: u32, ticket: u64, timeout: Option<u64>) -> Wait<'_> {
        Wait {
            sched: self,
            queue,
            ticket,
            timeout,
            blocked: false,
            at: Location::caller(),
        }
    }

    /// Wakes every waiter of a queue.
    #[inline]
    pub fn wake(&self, queue: u32) {
        let q = &self.queues[queue as usize];
        q.wakes.set(q.wakes.get() + 1);
        if q.waited_on.get() {
            while self.wake_first(q) {}
        }
    }

    /// Wakes the longest waiter of a queue.
    pub fn wake_one(&self, queue: u32) {
        let q = &self.queues[queue as usize];
        q.wakes.set(q.wakes.get() + 1);
        self.wake_first(q);
    }

    /// Wakes the longest waiter; returns whether there was one.
    fn wake_first(&self, q: &Queue) -> bool {
        let first = q.waiters.borrow_mut().pop_front();
        q.waited_on.set(!q.waiters.borrow().is_empty());
        if let Some(id) = first {
            self.tasks.borrow_mut()[id as usize].woken = true;
            self.make_runnable(id);
        }
        first.is_some()
    }

    /// Sleeps until the tick at or after `ns` nanoseconds from now.
    #[track_caller]
    pub fn sleep_ticks(&self, ns: u64) -> Sleep<'_> {
        Sleep {
            sched: self,
            until: self.tick_at(self.now() + ns),
            blocked: false,
            at: Location::caller(),
        }
    }

    /// Sleeps `ns` nanoseconds (a high-resolution timer).
    #[track_caller]
    pub fn sleep(&self, ns: u64) -> Sleep<'_> {
        Sleep {
            sched: self,
            until: self.now() + ns,
            blocked: false,
            at: Location::caller(),
        }
    }

    /// Gives way if the task's time on its CPU is over for now.
    #[inline(always)]
    #[track_caller]
    pub fn relax(&self) -> Relax<'_> {
        Relax {
            sched: self,
            yielded: false,
            at: Location::caller(),
        }
    }
}

/// See [`Sched::relax`].
pub struct Relax<'a> {
    sched: &'a Sched,
    yielded: bool,
    at: &'static Location<'static>,
}

impl Future for Relax<'_> {
    type Output = ();

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let s = self.sched;
        if s.time.get() < s.limit.get() {
            if cfg!(debug_assertions) {
                s.span.set(0);
            }
            if s.watchdog.poll() && s.look(Some(self.at)) {
                return Poll::Pending;
            }
            return Poll::Ready(());
        }
        if self.yielded && !s.stop.get() {
            return Poll::Ready(());
        }
        self.yielded = true;
        s.watchdog.leaves(s.task(), self.at);
        Poll::Pending
    }
}

/// See [`Sched::wait`].
pub struct Wait<'a> {
    sched: &'a Sched,
    queue: u32,
    ticket: u64,
    timeout: Option<u64>,
    blocked: bool,
    at: &'static Location<'static>,
}

impl Future for Wait<'_> {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<bool> {
        let s = self.sched;
        let me = s.task();
        if self.blocked {
            return Poll::Ready(s.tasks.borrow()[me as usize].woken);
        }
        let q = &s.queues[self.queue as usize];
        let why = s.why.take();
        if q.wakes.get() != self.ticket {
            s.on.set(None);
            if s.watchdog.poll() && s.look(Some(self.at)) {
                return Poll::Pending;
            }
            return Poll::Ready(true);
        }
        q.waiters.borrow_mut().push_back(me);
        q.waited_on.set(true);
        s.block(
            Some(self.queue),
            self.timeout.map(|ns| s.tick_at(s.now() + ns)),
            why,
            self.at,
        );
        self.blocked = true;
        Poll::Pending
    }
}

/// See [`Sched::sleep`].
pub struct Sleep<'a> {
    sched: &'a Sched,
    until: u64,
    blocked: bool,
    at: &'static Location<'static>,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.blocked {
            return Poll::Ready(());
        }
        let why = self.sched.why.take();
        self.sched.block(None, Some(self.until), why, self.at);
        self.blocked = true;
        Poll::Pending
    }
}
