//! Runs the asynchronous calls of programs: many tasks on few threads.
//!
//! A [`Call`] is a task with a number of its own. The thread that submits it polls it once, so a
//! call that need not wait is done there. From then on the runner's threads ([`Runner::work`]) poll
//! it whenever it is woken or its deadline has passed, whether or not its result ([`Outcome`]) is
//! waited for. A task holds a CPU slot only while it is polled, and does nothing that blocks the
//! thread (`io::fill`, `blocking`).
//!
//! # Turns
//!
//! A call holds pages, so not all may run at once. Each belongs to a lane: the reads of a device,
//! or that device's other calls, which may wait for pins. A lane has a largest number of calls that
//! run; the others wait for their turn in order of arrival. Until then a call is only its
//! description. So the calls of a device that hangs delay only each other, and a task that holds a
//! page which writers wait for can always go on reading.
//!
//! # States
//!
//! ```text
//!  Waiting ──its turn──▶ Ready ──a thread──▶ Polling ◀──▶ Woken
//!     │                    ▲                  │    └──────────┐
//!  cancelled, closed       └──woken── Asleep ◀┘               ▼
//!     ▼                                       └──finished──▶ Over
//!    Over
//! ```
//!
//! Locks, outer ones first: a call's work, the lists, a call's phase.

use crate::cpu::{self, Cpus};
use crate::sync::{self, Condvar, Mutex};
use mm::world::TaskId;
use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

/// The future of a call that has begun.
pub type Life = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A call that has not begun.
pub trait Begin: Send {
    /// Begins the call. Its result is in its [`Outcome`] when the future is ready.
    fn begin(self: Box<Self>) -> Life;
    /// Ends the call unstarted, because the cache ends; its outcome says so.
    fn refuse(self: Box<Self>);
}

/// The result of a call, for the task that submitted it.
pub struct Outcome<T>(Mutex<State<T>>);

struct State<T> {
    value: Option<Result<T, Panic>>,
    waiter: Option<Waker>,
    /// The call is over, and nothing is left of it.
    over: bool,
    /// The submitter no longer wants the result.
    abandoned: bool,
}

type Panic = Box<dyn Any + Send>;

/// An [`Outcome`] of any type.
pub trait Told: Send + Sync {
    /// Stores a panic of the call as its result.
    fn panicked(&self, panic: Panic);
    /// Marks the call over and wakes the waiter, if there is one. The waker may do anything, so the
    /// caller holds no lock and no CPU slot.
    fn tell(&self);
}

impl<T> Default for Outcome<T> {
    /// Returns the outcome of a call that is not over.
    fn default() -> Self {
        Self(Mutex::new(State {
            value: None,
            waiter: None,
            over: false,
            abandoned: false,
        }))
    }
}

impl<T> Outcome<T> {
    /// Stores the result; the waiter is not woken yet.
    pub fn set(&self, value: T) {
        self.0.lock().value = Some(Ok(value));
    }

    /// Returns the result if the call is over, or resumes its panic; otherwise registers the task
    /// to be woken when it is.
    pub fn poll(&self, context: &Context<'_>) -> Poll<T> {
        let mut s = self.0.lock();
        let over = s.over;
        match s.value.take_if(|_| over) {
            Some(Ok(value)) => Poll::Ready(value),
            Some(Err(panic)) => {
                drop(s);
                resume_unwind(panic)
            }
            None => {
                // Each poll may come with another waker.
                match &mut s.waiter {
                    Some(waiter) => waiter.clone_from(context.waker()),
                    empty => *empty = Some(context.waker().clone()),
                }
                Poll::Pending
            }
        }
    }

    /// Drops the result, now or when it comes, and the waker: the submitter no longer wants them.
    pub fn abandon(&self) {
        let left = {
            let mut s = self.0.lock();
            s.abandoned = true;
            (s.value.take(), s.waiter.take())
        };
        drop(left);
    }
}

impl<T: Send> Told for Outcome<T> {
    fn panicked(&self, panic: Panic) {
        self.0.lock().value = Some(Err(panic));
    }

    /// Marks the call over, drops a result that is not wanted, and wakes the waiter.
    fn tell(&self) {
        let (value, waiter) = {
            let mut s = self.0.lock();
            s.over = true;
            let unwanted = s.abandoned.then(|| s.value.take()).flatten();
            (unwanted, s.waiter.take())
        };
        drop(value);
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Waits for its turn in its lane.
    Waiting,
    /// On the list of calls to be polled.
    Ready,
    Polling,
    /// Woken while it was polled: to be polled again.
    Woken,
    Asleep,
    Over,
}

/// The deadline of a call's wait, and a number unique to that wait.
type Alarm = (Instant, u64);

/// A call of a program, as a task.
pub struct Call {
    runner: Arc<Runner>,
    lane: usize,
    told: Arc<dyn Told>,
    phase: Mutex<Phase>,
    /// Locked by the thread that polls the call.
    work: Mutex<Work>,
}

#[derive(Default)]
struct Work {
    task: TaskId,
    begin: Option<Box<dyn Begin>>,
    life: Option<Life>,
    alarm: Option<Alarm>,
}

#[derive(Default)]
struct Lane {
    running: u32,
    waiting: VecDeque<Arc<Call>>,
}

/// The calls of all lanes.
pub struct Runner {
    lists: Mutex<Lists>,
    more: Condvar,
    /// Most calls of a lane that may run.
    most: u32,
}

struct Lists {
    lanes: Box<[Lane]>,
    ready: VecDeque<Arc<Call>>,
    alarms: BTreeMap<Alarm, Arc<Call>>,
    /// Number of waits with a deadline so far.
    waits: u64,
    /// Task numbers for calls (`free`), and for short operations that are no calls (`spare`).
    free: Vec<TaskId>,
    spare: Vec<TaskId>,
    /// Number of calls that run.
    running: u32,
    closed: bool,
}

impl Runner {
    /// Creates a runner without calls. At most `most` calls of each lane run. `tasks` has a number
    /// for each of these; those left over are the spare ones.
    pub fn new(lanes: usize, most: u32, tasks: std::ops::Range<TaskId>) -> Arc<Self> {
        let calls = lanes * most as usize;
        assert!(tasks.len() >= calls, "a number for each");
        Arc::new(Self {
            lists: Mutex::new(Lists {
                lanes: (0..lanes).map(|_| Lane::default()).collect(),
                ready: VecDeque::new(),
                alarms: BTreeMap::new(),
                waits: 0,
                free: tasks.clone().take(calls).collect(),
                spare: tasks.skip(calls).collect(),
                running: 0,
                closed: false,
            }),
            more: Condvar::default(),
            most,
        })
    }

    /// Begins a call on the calling thread, or queues it until its turn if its lane already runs as
    /// many calls as it may; refuses it if the runner was closed. `told` receives the result.
    pub fn submit(
        self: &Arc<Self>,
        cpus: &Cpus,
        lane: usize,
        begin: Box<dyn Begin>,
        told: Arc<dyn Told>,
    ) -> Arc<Call> {
        let call = Arc::new(Call {
            runner: Arc::clone(self),
            lane,
            told,
            phase: Mutex::new(Phase::Waiting),
            work: Mutex::new(Work {
                begin: Some(begin),
                ..Work::default()
            }),
        });
        let mut lists = self.lists.lock();
        if lists.closed {
            drop(lists);
            call.refuse();
        } else if lists.lanes[lane].running == self.most {
            lists.lanes[lane].waiting.push_back(Arc::clone(&call));
        } else {
            lists.lanes[lane].running += 1;
            lists.running += 1;
            // A thread that is ending has lost its thread-locals and cannot run a task.
            if cpu::thread_is_ending() {
                *call.phase.lock() = Phase::Ready;
                lists.ready.push_back(Arc::clone(&call));
                drop(lists);
                self.more.notify_one();
            } else {
                *call.phase.lock() = Phase::Polling;
                drop(lists);
                call.poll(cpus);
            }
        }
        call
    }

    /// Runs `f` with a spare task number, for a short operation that is no call, or with `None` if
    /// none is free; takes the number back afterwards.
    pub fn spare<R>(&self, f: impl FnOnce(Option<TaskId>) -> R) -> R {
        let task = self.lists.lock().spare.pop();
        let r = f(task);
        if let Some(task) = task {
            self.lists.lock().spare.push(task);
        }
        r
    }

    /// Polls calls until the runner is closed and no call is left; the body of the runner's
    /// threads.
    pub fn work(&self, cpus: &Cpus) {
        while let Some(call) = self.next() {
            call.poll(cpus);
        }
    }

    /// Waits for the next call that was woken or whose deadline has passed, and takes it up;
    /// `None`: the runner is closed and no call is left.
    fn next(&self) -> Option<Arc<Call>> {
        let mut lists = self.lists.lock();
        loop {
            // The earliest deadline of a call that sleeps.
            let first = lists.alarms.first_key_value().map(|(&alarm, _)| alarm);
            if let Some(alarm) = first.filter(|a| a.0 <= sync::now()) {
                let call = lists.alarms.remove(&alarm)?;
                if call.take_up(Phase::Asleep) {
                    return Some(call);
                }
                if call.mark_woken() {
                    lists.ready.push_back(call);
                }
                continue;
            }
            if let Some(call) = lists.ready.pop_front() {
                if call.take_up(Phase::Ready) {
                    return Some(call);
                }
                continue;
            }
            if lists.closed && lists.running == 0 {
                return None;
            }
            match first {
                Some((time, _)) => {
                    self.more.wait_until(&mut lists, time);
                }
                None => self.more.wait(&mut lists),
            }
        }
    }

    /// Lets no call begin any more; calls that wait for their turn end with [`Begin::refuse`].
    pub fn close(&self) {
        let waiting: Vec<_> = {
            let mut lists = self.lists.lock();
            lists.closed = true;
            let lanes = lists.lanes.iter_mut();
            lanes.flat_map(|l| std::mem::take(&mut l.waiting)).collect()
        };
        self.more.notify_all();
        for call in waiting {
            call.refuse();
        }
    }

    /// Removes a call that has ended, gives its task number back, and makes the next call of its
    /// lane ready to begin.
    fn ended(&self, lane: usize, task: TaskId) {
        let mut lists = self.lists.lock();
        lists.free.push(task);
        lists.running -= 1;
        lists.lanes[lane].running -= 1;
        while let Some(call) = lists.lanes[lane].waiting.pop_front() {
            {
                let mut phase = call.phase.lock();
                if *phase != Phase::Waiting {
                    // It was cancelled.
                    continue;
                }
                *phase = Phase::Ready;
            }
            lists.ready.push_back(call);
            lists.lanes[lane].running += 1;
            lists.running += 1;
            break;
        }
        let over = lists.closed && lists.running == 0;
        drop(lists);
        if over {
            self.more.notify_all();
        } else {
            self.more.notify_one();
        }
    }
}

impl Call {
    /// Takes up a call in phase `from`, so that the caller polls it and no other thread does.
    /// Returns false if the call is in another phase by now.
    fn take_up(&self, from: Phase) -> bool {
        let mut phase = self.phase.lock();
        let taken = *phase == from;
        if taken {
            *phase = Phase::Polling;
        }
        taken
    }

    /// Records that the call was woken; returns true if it slept, so that the caller must put it on
    /// the ready list. A call that is being polled is polled again afterwards.
    fn mark_woken(&self) -> bool {
        let mut phase = self.phase.lock();
        let (next, listed) = match *phase {
            Phase::Polling => (Phase::Woken, false),
            Phase::Asleep => (Phase::Ready, true),
            other => (other, false),
        };
        *phase = next;
        listed
    }

    /// Ends a call whose turn has not come, and returns the description of what it would do;
    /// `None`: it has begun or ended.
    fn take_back(&self) -> Option<Box<dyn Begin>> {
        {
            let mut phase = self.phase.lock();
            if *phase != Phase::Waiting {
                return None;
            }
            *phase = Phase::Over;
        }
        self.work.lock().begin.take()
    }

    /// Cancels the call if its turn has not come: removes it from its lane and drops it.
    pub fn cancel(&self) {
        let Some(begin) = self.take_back() else {
            return;
        };
        {
            let mut lists = self.runner.lists.lock();
            let waiting = &mut lists.lanes[self.lane].waiting;
            waiting.retain(|c| !std::ptr::eq(&**c, self));
        }
        drop(begin);
    }

    /// Ends a call whose turn has not come as refused, and tells its waiter.
    fn refuse(&self) {
        if let Some(begin) = self.take_back() {
            begin.refuse();
            self.tell();
        }
    }

    /// Wakes the waiter. A panic of the waker concerns only its owner and is dropped.
    fn tell(&self) {
        let _ = catch_unwind(AssertUnwindSafe(|| self.told.tell()));
    }

    /// Polls the call once as a task, after beginning it if it is new: then puts it to sleep, or
    /// ends it with its result or its panic. The caller has taken it up ([`Call::take_up`]).
    fn poll(self: &Arc<Self>, cpus: &Cpus) {
        let mut guard = self.work.lock();
        let work = &mut *guard;
        {
            let mut lists = self.runner.lists.lock();
            if let Some(alarm) = work.alarm.take() {
                lists.alarms.remove(&alarm);
            }
            if work.begin.is_some() {
                let number = lists.free.pop();
                work.task = number.expect("a number for each call under way");
            }
        }
        let waker = Waker::from(Arc::clone(self));
        let turn = || {
            let begin = work.begin.take();
            let begun = begin.map(Begin::begin);
            let life = work
                .life
                .get_or_insert_with(|| begun.expect("a call that begins"));
            life.as_mut().poll(&mut Context::from_waker(&waker))
        };
        let polled = catch_unwind(AssertUnwindSafe(|| cpus.turn(work.task, turn)));
        match polled {
            Ok((Poll::Pending, until)) => {
                work.alarm = until.map(|time| self.set_alarm(time));
                drop(guard);
                self.sleep();
            }
            Ok((Poll::Ready(()), _)) => {
                work.life = None;
                let task = work.task;
                drop(guard);
                self.end(task);
            }
            Err(panic) => {
                // Dropping the rest of the future may need the engine, so it is done as the task.
                let (task, life) = (work.task, work.life.take());
                let rest = AssertUnwindSafe(|| cpus.turn(task, || drop(life)));
                let _ = catch_unwind(rest);
                drop(guard);
                self.told.panicked(panic);
                self.end(task);
            }
        }
    }

    /// Sets an alarm that wakes the call at `time`; returns it, to be removed when the call is
    /// polled. Wakes a thread if this alarm is the first to expire.
    fn set_alarm(self: &Arc<Self>, time: Instant) -> Alarm {
        let mut lists = self.runner.lists.lock();
        lists.waits += 1;
        let alarm = (time, lists.waits);
        lists.alarms.insert(alarm, Arc::clone(self));
        let first = lists
            .alarms
            .first_key_value()
            .is_some_and(|(a, _)| *a == alarm);
        drop(lists);
        if first {
            self.runner.more.notify_one();
        }
        alarm
    }

    /// Puts a call that was polled and must wait to sleep, or on the ready list if it was woken
    /// meanwhile.
    fn sleep(self: &Arc<Self>) {
        {
            let mut phase = self.phase.lock();
            if *phase == Phase::Polling {
                *phase = Phase::Asleep;
                return;
            }
            *phase = Phase::Ready;
        }
        self.runner.lists.lock().ready.push_back(Arc::clone(self));
        self.runner.more.notify_one();
    }

    /// Ends a call: frees its task number, lets the next of its lane begin, and wakes its waiter.
    fn end(&self, task: TaskId) {
        *self.phase.lock() = Phase::Over;
        self.runner.ended(self.lane, task);
        // Last, because the waker may do anything.
        self.tell();
    }
}

impl Wake for Call {
    /// Puts the call on the ready list if it sleeps, and wakes a thread of the runner for it.
    fn wake(self: Arc<Self>) {
        if self.mark_woken() {
            let runner = Arc::clone(&self.runner);
            runner.lists.lock().ready.push_back(self);
            runner.more.notify_one();
        }
    }
}
