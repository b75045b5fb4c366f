//! CPU slots and the executor: a task is a thread that polls the engine's futures itself.
//!
//! Between two waits the engine uses the page lists, batches and counter differences of its CPU as
//! its own. So a thread holds a slot, one thread a slot, while it executes engine code, and gives
//! the slot back where the code waits or does I/O. After a wait it may get another slot, like a
//! task on another CPU.
//!
//! Tasks of a program's futures share threads (`runner`): such a thread polls one task after the
//! other, and other threads make the calls that would block it.

use crate::sync::{AtomicU32, Condvar, Mutex, thread_local, yield_now};
use crate::wait::Parker;
use mm::world::TaskId;
use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// The task that a thread executes.
#[derive(Clone, Copy)]
struct Current {
    task: TaskId,
    /// The slot it holds; `None`: none at the moment.
    cpu: Option<usize>,
    /// The slot it tries first.
    home: usize,
    /// True if the thread has other tasks as well, so that nothing may block it.
    shared: bool,
}

/// Thread-local state.
#[derive(Default)]
struct Thread {
    current: Cell<Option<Current>>,
    /// When the wait that the task is about to enter ends at the latest; `None`: no limit.
    deadline: Cell<Option<Instant>>,
    /// True if the task was ended in its wait.
    ended: Cell<bool>,
    /// Address of the [`Cpus`] whose task is calling a shrinker of the program on this thread; 0:
    /// none.
    shrinking: Cell<usize>,
    /// Points at which a task that shares the thread could have yielded since it was polled.
    steps: Cell<u32>,
    /// How often the thread gave its slot back.
    left: Cell<u32>,
    parker: Arc<Parker>,
}

thread_local! {
    static THREAD: Thread = Thread::default();
}

/// Returns the task that the calling thread executes, with its slot.
fn current() -> Current {
    let current = THREAD.with(|t| t.current.get());
    current.expect("engine code runs inside block_on")
}

fn set_current(current: Option<Current>) -> Option<Current> {
    THREAD.with(|t| t.current.replace(current))
}

/// Returns the calling task's number.
pub fn task() -> TaskId {
    current().task
}

/// Returns the calling task's number; `None` on a thread that executes no task.
pub fn if_task() -> Option<TaskId> {
    THREAD.with(|t| t.current.get()).map(|me| me.task)
}

/// Returns the slot of the calling task.
pub fn cpu() -> usize {
    current().cpu.expect("engine code holds a CPU slot")
}

/// Returns true if the calling task's thread has other tasks, so that nothing may block it.
pub fn shared() -> bool {
    current().shared
}

/// A task that shares its thread yields after it has passed this many points where it could.
const TURN: u32 = 32;

/// Counts a point at which the calling task could yield; returns true if the task must let other
/// tasks of its thread run now.
pub fn turn_is_over() -> bool {
    let step = || THREAD.with(|t| t.steps.replace(t.steps.get() + 1));
    shared() && step() >= TURN
}

/// Sets the deadline of the wait that the calling task is about to enter.
pub fn wait_until(deadline: Option<Instant>) {
    THREAD.with(|t| t.deadline.set(deadline));
}

/// Ends the calling task in the wait that it is about to enter.
pub fn end_task() {
    THREAD.with(|t| t.ended.set(true));
}

/// Returns how often the calling thread gave its slot back: a change means that it had to wait.
pub fn times_left() -> u32 {
    THREAD.with(|t| t.left.get())
}

/// Returns true if the thread is ending and its thread-locals have been dropped.
pub fn thread_is_ending() -> bool {
    THREAD.try_with(|_| ()).is_err()
}

/// Runs `f`, which builds an engine that no other thread knows yet, as task 0 on slot 0, without
/// taking that slot.
pub fn alone<R>(f: impl FnOnce() -> R) -> R {
    let before = set_current(Some(Current {
        task: 0,
        cpu: Some(0),
        home: 0,
        shared: false,
    }));
    let r = f();
    set_current(before);
    r
}

#[derive(Default)]
struct Slot {
    taken: Mutex<bool>,
    free: Condvar,
    waiting: AtomicU32,
}

impl Slot {
    /// Takes the slot if it is free; returns true if it was.
    fn try_take(&self) -> bool {
        self.taken
            .try_lock()
            .is_some_and(|mut t| !std::mem::replace(&mut *t, true))
    }

    /// Takes the CPU slot for the calling thread, after waiting until it is free.
    fn take(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut taken = self.taken.lock();
        while *taken {
            self.free.wait(&mut taken);
        }
        *taken = true;
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Frees the slot and wakes one thread that waits for it.
    fn give(&self) {
        *self.taken.lock() = false;
        self.free.notify_one();
    }
}

/// The CPU slots of a world.
pub struct Cpus(Box<[Slot]>);

impl Cpus {
    /// Creates `n` free slots.
    pub fn new(n: usize) -> Self {
        Self((0..n).map(|_| Slot::default()).collect())
    }

    /// Takes a free CPU slot for the calling task, its home slot if possible; if none is free,
    /// waits for the home slot.
    fn enter(&self) {
        let mut me = current();
        let n = self.0.len();
        let cpu = (0..n)
            .map(|i| (me.home + i) % n)
            .find(|&c| self.0[c].try_take())
            .unwrap_or_else(|| {
                self.0[me.home].take();
                me.home
            });
        me.cpu = Some(cpu);
        set_current(Some(me));
    }

    /// Frees the calling task's CPU slot, if it holds one, before it waits or blocks.
    fn leave(&self) {
        let mut me = current();
        if let Some(cpu) = me.cpu.take() {
            set_current(Some(me));
            THREAD.with(|t| t.left.set(t.left.get().wrapping_add(1)));
            self.0[cpu].give();
        }
    }

    /// Runs `f`, engine code that neither waits nor asks for its task, while holding CPU slot
    /// `cpu`, after waiting until that slot is free; the calling thread must hold no slot.
    pub fn on<R>(&self, cpu: usize, f: impl FnOnce() -> R) -> R {
        self.0[cpu].take();
        let _section = Section {
            cpus: self,
            before: set_current(Some(Current {
                task: 0,
                cpu: Some(cpu),
                home: cpu,
                shared: false,
            })),
        };
        f()
    }

    /// Releases the calling task's CPU slot for a moment if another thread waits for it.
    pub fn give_way(&self) {
        if self.0[cpu()].waiting.load(Ordering::SeqCst) > 0 {
            self.off(yield_now);
        }
    }

    /// Runs `f`, which may block, without a CPU slot, and takes a slot again afterwards.
    pub fn off<R>(&self, f: impl FnOnce() -> R) -> R {
        self.leave();
        let r = f();
        self.enter();
        r
    }

    /// Runs `f`, which calls a shrinker of the program, without a CPU slot; meanwhile
    /// `shrinking` is true on this thread.
    pub fn shrink<R>(&self, f: impl FnOnce() -> R) -> R {
        let me = std::ptr::from_ref(self).addr();
        let before = THREAD.with(|t| t.shrinking.replace(me));
        let r = self.off(f);
        THREAD.with(|t| t.shrinking.set(before));
        r
    }

    /// Returns true if the calling thread is inside a shrinker that a task of these slots calls.
    pub fn shrinking(&self) -> bool {
        let me = std::ptr::from_ref(self).addr();
        THREAD.try_with(|t| t.shrinking.get() == me) == Ok(true)
    }

    /// Runs `f`, engine code, on a CPU slot from inside a shrinker, for the task that called the
    /// shrinker.
    pub fn reenter<R>(&self, f: impl FnOnce() -> R) -> R {
        assert!(self.shrinking(), "nobody asks a shrinker");
        self.enter();
        let r = f();
        self.leave();
        r
    }

    /// Makes the calling thread execute `task`, without a slot, until the result is dropped.
    fn section(&self, task: TaskId, shared: bool) -> Section<'_> {
        let before = set_current(Some(Current {
            task,
            cpu: None,
            home: task as usize % self.0.len(),
            shared,
        }));
        Section { cpus: self, before }
    }

    /// Runs `f`, one poll of a task that shares its thread, on a CPU slot. Returns its result and
    /// the deadline of the wait that the task entered (`None`: no limit).
    pub fn turn<R>(&self, task: TaskId, f: impl FnOnce() -> R) -> (R, Option<Instant>) {
        let section = self.section(task, true);
        THREAD.with(|t| t.steps.set(0));
        wait_until(None);
        self.enter();
        let r = f();
        drop(section);
        (r, THREAD.with(|t| t.deadline.get()))
    }

    /// Runs a task's future on the calling thread to its end: polls it on a CPU slot, and sleeps
    /// without one while it waits. `None`: the task was ended in a wait.
    pub fn block_on<T>(&self, task: TaskId, future: impl Future<Output = T>) -> Option<T> {
        let section = self.section(task, false);
        let parker = THREAD.with(|t| Arc::clone(&t.parker));
        let waker = Waker::from(Arc::clone(&parker));
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(future);
        let result = loop {
            wait_until(None);
            self.enter();
            if let Poll::Ready(v) = future.as_mut().poll(&mut context) {
                break Some(v);
            }
            self.leave();
            if THREAD.with(|t| t.ended.take()) {
                break None;
            }
            parker.park(THREAD.with(|t| t.deadline.get()));
        };
        drop(section);
        result
    }
}

/// Scope of a task on a thread: on drop gives the slot back, also if the engine panics, and
/// restores what the thread was before.
struct Section<'a> {
    cpus: &'a Cpus,
    before: Option<Current>,
}

impl Drop for Section<'_> {
    /// Gives the task's CPU slot back and lets the thread execute its earlier task again.
    fn drop(&mut self) {
        self.cpus.leave();
        set_current(self.before);
    }
}
