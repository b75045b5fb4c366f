//! The executor's loop: the CPU that is furthest behind runs, or the next event happens; observers
//! look in between.

use super::{Event, NEVER, Sched, State, TaskId};
use std::cmp::Reverse;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};

/// Looks at a run without being part of it: for samples, recounts and progress, and to write
/// sysctls in mid-run.
pub trait Observer {
    /// Returns the simulated time of the next look, in nanoseconds; `u64::MAX` if there is none.
    fn due(&self) -> u64;

    /// Looks, when everything before [`Observer::due`] has happened; afterwards `due` must return a
    /// later time. May call [`Sched::stop`]; must charge no time and schedule no event.
    fn observe(&mut self);
}

/// The observer of a run without one.
struct Unobserved;

impl Observer for Unobserved {
    fn due(&self) -> u64 {
        NEVER
    }

    fn observe(&mut self) {}
}
impl Sched {
    /// Runs the tasks, whose `futures` are in the order of their numbers, and all events in
    /// simulated time, until [`Sched::stop`] is called. `on_event` handles device and periodic
    /// events. Returns the time of the end (ns), or `None` when nothing can ever happen again.
    pub fn run<'w>(
        &self,
        futures: &mut [Pin<Box<dyn Future<Output = ()> + 'w>>],
        on_event: impl FnMut(u64, Event),
    ) -> Option<u64> {
        self.run_observed(futures, on_event, &mut Unobserved)
    }

    /// Runs tasks and events in the order of simulated time as [`Sched::run`] does, with an
    /// observer that is called at the times it asks for. Each round serves the next event or the
    /// CPU whose clock is furthest behind. Returns the time of the end, or `None` when nothing can
    /// ever happen again.
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
            let (c, least, least_of_others) = self.due.furthest_behind();
            let next_event = self.events.borrow().peek().map_or(NEVER, |e| e.0.0);
            let next = next_event.min(least);
            if next != NEVER
                && let Some(time) = self.let_look(next, observer)
            {
                end = end.max(time);
                break;
            }
            if next_event <= least {
                if next_event == NEVER {
                    return None;
                }
                end = self.process_event(&mut on_event);
                continue;
            }
            let cpu = &self.cpus[c];
            if cpu.resched.get() || cpu.clock.get() >= cpu.slice_end.get() {
                if self.eevdf().is_some_and(|slice| self.eevdf_keeps(c, slice)) {
                    continue;
                }
                self.put_current(c, State::Runnable);
                self.enter(c);
                self.pick_next(c);
                self.enter(c);
                continue;
            }
            let first = (c, least, least_of_others);
            if let Some(time) = self.computing_turns(first, next_event, observer.due()) {
                end = end.max(time);
                continue;
            }
            self.enter(c);
            let lead = least_of_others.saturating_add(self.params.quantum);
            self.turn_end
                .set(next_event.min(lead).min(cpu.slice_end.get()));
            let id = cpu.current.get().expect("a running task") as usize;
            let leaves_as = self.turn(id, &mut futures[id], &mut context, observer);
            self.settle();
            end = end.max(cpu.clock.get());
            if let Some(leaves_as) = leaves_as {
                self.put_current(c, leaves_as);
                self.pick_next(c);
                self.enter(c);
            }
        }
        Some(end)
    }

    /// Takes the next event off the queue and handles it as an interrupt of CPU 0; returns its
    /// time.
    #[inline]
    fn process_event(&self, on_event: &mut impl FnMut(u64, Event)) -> u64 {
        let Reverse((time, _, event)) =
            self.events.borrow_mut().pop().expect("an event was peeked");
        self.last_event.set(time.max(self.last_event.get()));
        self.here.set(0);
        self.running.set(0);
        self.interrupt.set(true);
        self.set_time(time);
        match event {
            Event::Timer(task, generation) => self.timer(task, generation),
            Event::Device(d) => {
                self.note(time, u64::from(d) | 2 << 32);
                on_event(time, event);
            }
            Event::Periodic(p) => {
                self.note(time, u64::from(p) | 3 << 32);
                on_event(time, event);
            }
            Event::Unplug(task) => {
                self.note(time, u64::from(task) | 4 << 32);
                on_event(time, event);
            }
        }
        self.settle();
        self.interrupt.set(false);
        self.enter(0);
        time
    }

    /// Polls a running task's future until its turn ends. Returns the state in which the task
    /// leaves its CPU (blocked or done); `None` if it keeps the CPU.
    #[inline]
    fn turn<'w>(
        &self,
        id: usize,
        future: &mut Pin<Box<dyn Future<Output = ()> + 'w>>,
        context: &mut Context<'_>,
        observer: &mut impl Observer,
    ) -> Option<State> {
        loop {
            self.limit.set(self.turn_end.get().min(observer.due()));
            self.span.set(0);
            if !self.computes_on(id) && future.as_mut().poll(context).is_ready() {
                return Some(State::Done);
            }
            let state = self.tasks.borrow()[id].state;
            if state != State::Running || self.now() >= self.turn_end.get() {
                return (state == State::Blocked).then_some(State::Blocked);
            }
            // The turn was interrupted for the observer alone and continues as if there had been no
            // look.
            self.let_look(self.now(), observer);
        }
    }

    /// Lets the observer look if it is due by `time` (ns). Returns the time of the look that ended
    /// the run, if one did.
    #[inline(always)]
    fn let_look(&self, time: u64, observer: &mut impl Observer) -> Option<u64> {
        match observer.due() <= time {
            true => self.look_while_due(time, observer),
            false => None,
        }
    }

    /// Calls the observer as long as it is due by `time`. Returns the time of the look that ended
    /// the run, if one did.
    ///
    /// # Panics
    /// If the observer charges time or schedules an event.
    #[inline(never)]
    fn look_while_due(&self, time: u64, observer: &mut impl Observer) -> Option<u64> {
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

    /// Ends a task's wait or sleep when its timer expires, if the task is still in the wait for
    /// which the timer was set (`generation`).
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
}
