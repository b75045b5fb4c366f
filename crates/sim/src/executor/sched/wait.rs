//! How a task leaves its CPU: it waits on a queue, sleeps, or gives way.

use super::{Event, Queue, Sched, State, TaskId};
use mm::SECOND;
use mm::queue::PAGES;
use mm::world::Waits;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Returns the bit that stands for a page wait queue in the mask of those with waiters; 0 for
/// another queue.
#[inline(always)]
fn page_bit(queue: u32) -> u64 {
    match PAGES.contains(&queue) {
        true => 1 << (queue - PAGES.start),
        false => 0,
    }
}

/// Timers of fewer ticks are kept at single ticks (Linux 4.8 kernel/time/timer.c, `LVL_START(1)`).
const SHORT_TIMER: u64 = 63;

const _: () = assert!(PAGES.end - PAGES.start == u64::BITS);

impl Sched {
    /// Returns the time of the next timer tick at or after `time`: kernel timeouts expire on ticks.
    pub(super) fn tick_at(&self, time: u64) -> u64 {
        let (tick, phase) = (self.params.tick, self.params.tick_phase);
        (time.saturating_sub(phase)).div_ceil(tick) * tick + phase
    }

    /// Returns when a timer that is set now for `ns` nanoseconds expires: at the tick at or after
    /// that time. On a timer wheel a timer of 63 ticks or more expires at the next multiple of 8
    /// jiffies, one of 504 or more at a multiple of 64, and so on (Linux 4.8 kernel/time/timer.c
    /// `calc_wheel_index`, `calc_index`). Jiffies begin at -300 s (`INITIAL_JIFFIES`).
    pub fn timer_expires(&self, ns: u64) -> u64 {
        let at = self.tick_at(self.now() + ns);
        let (tick, phase) = (self.params.tick, self.params.tick_phase);
        let ticks = ns.div_ceil(tick);
        if !self.params.timer_wheel || ticks < SHORT_TIMER {
            return at;
        }
        let shift = 3 * (1 + (ticks / SHORT_TIMER).ilog2() / 3);
        let boot = (300 * SECOND / tick) as i64;
        let jiffies = ((at - phase) / tick) as i64 - boot;
        let bucket = (jiffies + (1 << shift) - 1) >> shift << shift;
        (bucket + boot) as u64 * tick + phase
    }

    /// Returns the time of the last timer tick at or before now.
    pub fn last_tick(&self) -> u64 {
        let (tick, phase) = (self.params.tick, self.params.tick_phase);
        self.now()
            .checked_sub(phase)
            .map_or(0, |since| since / tick * tick + phase)
    }

    /// Blocks the running task, on a wait queue or on a timer alone, and reports its wait. `timer`:
    /// when the wait ends at the latest (ns); `at`: where in the code it waits, for the watchdog.
    /// If the task holds plugged requests, these are given out.
    fn block(
        &self,
        queue: Option<u32>,
        timer: Option<u64>,
        why: Waits,
        at: &'static Location<'static>,
    ) {
        let id = self.task();
        self.watchdog.leaves(id, at);
        let object = self.on.take();
        if let Some(object) = object {
            self.waiting.begin(id, object, self.now());
        }
        if let Some(worker) = self.plug_worker.get()
            && self.here.get() == 0
            && self.tasks.borrow()[id as usize].plugged
        {
            self.wake(worker);
        }
        let (generation, plugged) = {
            let mut tasks = self.tasks.borrow_mut();
            let t = &mut tasks[id as usize];
            debug_assert!(t.state == State::Running);
            t.state = State::Blocked;
            t.woken = false;
            t.why = why;
            t.reported = object.is_some();
            t.io = object.map_or(why == Waits::Device, |object| object.kind.io_schedules());
            t.waiting_on = queue;
            (t.generation, t.plugged)
        };
        if plugged {
            self.at(self.now(), Event::Unplug(id));
        }
        if let Some(time) = timer {
            self.at(time, Event::Timer(id, generation));
        }
    }

    /// Returns a ticket for [`Sched::wait`]: the number of the queue's wakes so far.
    pub fn ticket(&self, queue: u32) -> u64 {
        self.queues[queue as usize].wakes.get()
    }

    /// Waits until the queue is woken after the ticket was taken ([`Self::ticket`]), at most
    /// `timeout` nanoseconds; `None`: without a limit. The future returns true if a wake ended the
    /// wait, false if the timeout did.
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

    /// Wakes all waiters of a queue, and makes tickets taken before invalid, so that a task that is
    /// about to wait does not sleep.
    #[inline]
    pub fn wake(&self, queue: u32) {
        let q = &self.queues[queue as usize];
        q.wakes.set(q.wakes.get() + 1);
        if q.waited_on.get() {
            while self.wake_first(q) {}
            self.page_waiters
                .set(self.page_waiters.get() & !page_bit(queue));
        }
    }

    /// Returns true if some task waits on a queue in a wait that neither a wake nor its timeout has
    /// ended yet.
    pub fn waited_on(&self, queue: u32) -> bool {
        let waiters = self.queues[queue as usize].waiters.borrow();
        let tasks = self.tasks.borrow();
        let waits = |&id: &TaskId| tasks[id as usize].state == State::Blocked;
        waiters.iter().any(waits)
    }

    /// Returns true if a task may wait on a page queue. Without one, a wake of these queues may be
    /// left out, as their tickets are used where they are taken.
    #[inline(always)]
    pub fn page_waiters(&self) -> bool {
        self.page_waiters.get() != 0
    }

    /// Wakes the longest waiter of a queue, if there is one.
    pub fn wake_one(&self, queue: u32) {
        let q = &self.queues[queue as usize];
        q.wakes.set(q.wakes.get() + 1);
        self.wake_first(q);
    }

    /// Makes the task that has waited longest on a queue runnable; returns true if there was one.
    fn wake_first(&self, q: &Queue) -> bool {
        let first = q.waiters.borrow_mut().pop_front();
        q.waited_on.set(!q.waiters.borrow().is_empty());
        if let Some(id) = first {
            self.tasks.borrow_mut()[id as usize].woken = true;
            self.make_runnable(id);
        }
        first.is_some()
    }

    /// Ends the waits of all present waiters of a queue when a timer of `ns` nanoseconds expires.
    /// Returns true: this world has such timers.
    pub fn set_timer(&self, queue: u32, ns: u64) -> bool {
        let until = self.timer_expires(ns);
        let (waiters, tasks) = (
            self.queues[queue as usize].waiters.borrow(),
            self.tasks.borrow(),
        );
        for &id in waiters.iter() {
            self.at(until, Event::Timer(id, tasks[id as usize].generation));
        }
        true
    }

    /// Sleeps until a timer of `ns` nanoseconds expires ([`Self::timer_expires`]).
    #[track_caller]
    pub fn sleep_ticks(&self, ns: u64) -> Sleep<'_> {
        Sleep {
            sched: self,
            until: self.timer_expires(ns),
            interruptible: false,
            blocked: false,
            at: Location::caller(),
        }
    }

    /// Sleeps `jiffies` ticks, and until the tick after them: a timer does not expire early (Linux
    /// 4.8 kernel/time/timer.c `calc_index`).
    #[track_caller]
    pub fn schedule_timeout(&self, jiffies: u64) -> Sleep<'_> {
        self.sleep_ticks(jiffies * self.params.tick)
    }

    /// Sleeps `ns` nanoseconds, as with a high-resolution timer.
    #[track_caller]
    pub fn sleep(&self, ns: u64) -> Sleep<'_> {
        Sleep {
            sched: self,
            until: self.now() + ns,
            interruptible: false,
            blocked: false,
            at: Location::caller(),
        }
    }

    /// Sleeps `ns` nanoseconds as [`Self::sleep`] does, unless [`Self::interrupt`] ends the sleep
    /// earlier.
    #[track_caller]
    pub fn nap(&self, ns: u64) -> Sleep<'_> {
        Sleep {
            interruptible: true,
            ..self.sleep(ns)
        }
    }

    /// Wakes a task from its [nap](Self::nap); does nothing if the task is not in one.
    pub fn interrupt(&self, task: TaskId) {
        let naps = {
            let tasks = self.tasks.borrow();
            let t = &tasks[task as usize];
            t.state == State::Blocked && t.interruptible
        };
        if naps {
            self.make_runnable(task);
        }
    }

    /// Does the work of [`Self::relax`] (a point where a task may lose its CPU) if the task need
    /// not give way and the watchdog need not look, and returns true; otherwise does nothing and
    /// returns false.
    #[inline(always)]
    pub fn goes_on(&self) -> bool {
        if self.time.get() >= self.limit.get() || !self.watchdog.poll_unseen() {
            return false;
        }
        if cfg!(debug_assertions) {
            self.span.set(0);
        }
        true
    }

    /// Takes up to `most` steps of `ns` nanoseconds of CPU time, each followed by
    /// [`Self::goes_on`], as long as the task need not give way, all at once. Returns the number of
    /// steps taken.
    #[inline(always)]
    pub fn steps(&self, ns: u64, most: u32) -> u32 {
        let steps = self.steps_ahead(ns, most);
        self.take_steps(ns, steps);
        if cfg!(debug_assertions) {
            self.span.set(0);
        }
        steps
    }

    /// Charges `steps` steps of `ns` nanoseconds, each with a poll, at once. `steps`: at most the
    /// number that [`Self::steps_ahead`] has returned.
    #[inline(always)]
    pub fn take_steps(&self, ns: u64, steps: u32) {
        self.watchdog.polls_unseen(steps);
        self.time.set(self.time.get() + ns * u64::from(steps));
        if cfg!(debug_assertions) && steps > 0 {
            self.span.set(0);
        }
    }

    /// Returns how many of up to `most` steps of `ns` nanoseconds the running task could take
    /// ([`Self::steps`]) before it has to give way or the watchdog looks. Changes nothing.
    #[inline(always)]
    pub fn steps_ahead(&self, ns: u64, most: u32) -> u32 {
        let (now, limit) = (self.time.get(), self.limit.get());
        let most = most.min(self.watchdog.unseen());
        if now + ns * u64::from(most) < limit {
            return most;
        }
        let room = limit.saturating_sub(now).saturating_sub(1);
        room.checked_div(ns).map_or(0, |n| n as u32)
    }

    /// Gives way to other CPUs and to due events if the task's turn on its CPU is over; otherwise
    /// ready at once.
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

/// The future of [`Sched::relax`].
pub struct Relax<'a> {
    sched: &'a Sched,
    yielded: bool,
    at: &'static Location<'static>,
}

impl Future for Relax<'_> {
    type Output = ();

    /// Ready at once while the task's turn lasts; otherwise gives the CPU back to the executor
    /// once, and is ready when polled again, unless the run stops.
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

/// The future of [`Sched::wait`].
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

    /// Blocks the task on the queue at the first poll, unless the queue was woken since the ticket
    /// was taken. Ready with true if a wake ended the wait, false if the timeout did.
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
        s.page_waiters
            .set(s.page_waiters.get() | page_bit(self.queue));
        s.block(
            Some(self.queue),
            self.timeout.map(|ns| s.timer_expires(ns)),
            why,
            self.at,
        );
        self.blocked = true;
        Poll::Pending
    }
}

/// The future of [`Sched::sleep`] and its like.
pub struct Sleep<'a> {
    sched: &'a Sched,
    until: u64,
    interruptible: bool,
    blocked: bool,
    at: &'static Location<'static>,
}

impl Future for Sleep<'_> {
    type Output = ();

    /// The first poll blocks the task until its timer expires; when the task runs again and polls
    /// again, it is ready. In between an interruptible sleep is marked as such at the task.
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let mark_interruptible = |on| {
            let task = self.sched.task() as usize;
            self.sched.tasks.borrow_mut()[task].interruptible = on;
        };
        if self.blocked {
            if self.interruptible {
                mark_interruptible(false);
            }
            return Poll::Ready(());
        }
        let why = self.sched.why.take();
        self.sched.block(None, Some(self.until), why, self.at);
        if self.interruptible {
            mark_interruptible(true);
        }
        self.blocked = true;
        Poll::Pending
    }
}
