//! Calls of programs that wait by futures: many tasks on few threads.
//!
//! A [`Call`] is a task with a number of its own. Whoever begins it polls it once, so what need not wait
//! is done on his thread; from then on the runner's threads ([`Runner::work`]) poll it whenever it is
//! woken or its time has come, whether or not anybody looks at what it comes to ([`Outcome`]). A task
//! holds a CPU slot only while it is polled, and nothing that it does blocks the thread (`io::fill`,
//! `blocking`).
//!
//! # Turns
//!
//! A call holds pages, so not all may be under way at once. Each belongs to a lane, a device's readers
//! or those of its calls that may wait for them; of a lane so many are under way, and the others wait
//! for their turn in the order in which they came. Until then a call is its description and nothing
//! more. So calls of a device that hangs are in the way of each other only, and who holds a page that
//! writers wait for can always read on.
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

/// A call that is under way.
pub type Life = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A call that has not begun.
pub trait Begin: Send {
    /// It begins; what it comes to is in its [`Outcome`] when the future is ready.
    fn begin(self: Box<Self>) -> Life;
    /// It never will, for all is over; its outcome says so.
    fn refuse(self: Box<Self>);
}

/// What a call came to, for the one who asked.
pub struct Outcome<T>(Mutex<State<T>>);

struct State<T> {
    value: Option<Result<T, Panic>>,
    waiter: Option<Waker>,
    /// The call is over, and nothing is left of it.
    over: bool,
    /// Nobody asks any more.
    abandoned: bool,
}

type Panic = Box<dyn Any + Send>;

/// An [`Outcome`] of whatever it is.
pub trait Told: Send + Sync {
    /// The call panicked.
    fn panicked(&self, panic: Panic);
    /// Wakes who waits, if anybody does. What he does then is his: no lock and no slot is held.
    fn tell(&self);
}

impl<T> Default for Outcome<T> {
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
    /// This is it; nobody is told yet.
    pub fn set(&self, value: T) {
        self.0.lock().value = Some(Ok(value));
    }

    /// It, if it is there; else the task is woken when it is.
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
                // The waker may be another one each time.
                match &mut s.waiter {
                    Some(waiter) => waiter.clone_from(context.waker()),
                    none => *none = Some(context.waker().clone()),
                }
                Poll::Pending
            }
        }
    }

    /// Nobody will ask.
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
    /// For its turn.
    Waiting,
    /// To be polled.
    Ready,
    Polling,
    /// While it was polled.
    Woken,
    Asleep,
    Over,
}

/// When a call's wait ends, and a number that no other wait has.
type Alarm = (Instant, u64);

/// A call of a program, as a task.
pub struct Call {
    runner: Arc<Runner>,
    lane: usize,
    told: Arc<dyn Told>,
    phase: Mutex<Phase>,
    /// Has whoever polls it.
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

/// Calls of all lanes.
pub struct Runner {
    lists: Mutex<Lists>,
    more: Condvar,
    /// Calls of a lane that are under way at most.
    most: u32,
}

struct Lists {
    lanes: Box<[Lane]>,
    ready: VecDeque<Arc<Call>>,
    alarms: BTreeMap<Alarm, Arc<Call>>,
    /// Waits with an end so far.
    waits: u64,
    /// Numbers of calls that are not under way, and of what is done briefly.
    free: Vec<TaskId>,
    spare: Vec<TaskId>,
    /// Calls under way.
    running: u32,
    closed: bool,
}

impl Runner {
    /// No calls; of each lane `most` may be under way. `tasks` are as many numbers, and some to spare.
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

    /// Begins a call on the calling thread, or lets it wait for its turn.
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
            // A thread that ends has no place for a task.
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

    /// Runs `f` with the number of a task that is no call, if one is free.
    pub fn spare<R>(&self, f: impl FnOnce(Option<TaskId>) -> R) -> R {
        let task = self.lists.lock().spare.pop();
        let r = f(task);
        if let Some(task) = task {
            self.lists.lock().spare.push(task);
        }
        r
    }

    /// Polls calls until all is over and none is left; for each of the runner's threads.
    pub fn work(&self, cpus: &Cpus) {
        while let Some(call) = self.next() {
            call.poll(cpus);
        }
    }

    /// A call to poll.
    fn next(&self) -> Option<Arc<Call>> {
        let mut lists = self.lists.lock();
        loop {
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

    /// No call begins any more; those that wait for their turn never will, and are told.
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

    /// A call came to its end: the next one of its lane begins.
    fn ended(&self, lane: usize, task: TaskId) {
        let mut lists = self.lists.lock();
        lists.free.push(task);
        lists.running -= 1;
        lists.lanes[lane].running -= 1;
        while let Some(call) = lists.lanes[lane].waiting.pop_front() {
            {
                let mut phase = call.phase.lock();
                if *phase != Phase::Waiting {
                    // Cancelled.
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
    /// Whether the call was in a phase, and is polled by the caller now.
    fn take_up(&self, from: Phase) -> bool {
        let mut phase = self.phase.lock();
        let taken = *phase == from;
        if taken {
            *phase = Phase::Polling;
        }
        taken
    }

    /// It is woken; whether it is to be put on the list of those that are ready.
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

    /// What was to be done, if its turn has not come; then it never will.
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

    /// Nobody wants it: if its turn has not come it never will.
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

    fn refuse(&self) {
        if let Some(begin) = self.take_back() {
            begin.refuse();
            self.tell();
        }
    }

    /// Wakes who asked. If his waker panics, he is not our business any more.
    fn tell(&self) {
        let _ = catch_unwind(AssertUnwindSafe(|| self.told.tell()));
    }

    /// Polls it, which the caller has taken up.
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
                // What is left of it may need the engine.
                let (task, life) = (work.task, work.life.take());
                let rest = AssertUnwindSafe(|| cpus.turn(task, || drop(life)));
                let _ = catch_unwind(rest);
                drop(guard);
                self.told.panicked(panic);
                self.end(task);
            }
        }
    }

    /// It is woken at that time.
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

    /// It was polled and is not over.
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

    fn end(&self, task: TaskId) {
        *self.phase.lock() = Phase::Over;
        self.runner.ended(self.lane, task);
        // Last: who is told may do anything.
        self.tell();
    }
}

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        if self.mark_woken() {
            let runner = Arc::clone(&self.runner);
            runner.lists.lock().ready.push_back(self);
            runner.more.notify_one();
        }
    }
}
