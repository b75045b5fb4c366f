//! Computation of programs: only time passes, so the turns of such a task need not poll its future.

use super::Sched;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

/// After at most this many nanoseconds of computation a task may have to give way.
const PIECE: u64 = 10_000;

impl Sched {
    /// Lets the running task's program compute for `ns` nanoseconds. The future returns the
    /// nanoseconds left: 0, or, once [`Self::tell_of_pieces`] was called, the rest after a piece,
    /// which the caller passes to another call.
    #[track_caller]
    pub fn compute(&self, ns: u64) -> Compute<'_> {
        Compute {
            sched: self,
            left: ns,
            gave_way: false,
            at: Location::caller(),
        }
    }

    /// Makes [`Self::compute`] return after each piece from now on, so that tasks can check whether
    /// they were killed.
    pub fn tell_of_pieces(&self) {
        self.pieces_told.set(true);
    }

    /// Takes the turn of a task that gave way while it computed, as [`Compute`] would. Returns true
    /// if the task has given way again; false if its future is to be polled.
    #[inline(always)]
    pub(super) fn computes_on(&self, id: usize) -> bool {
        let computes = self.tasks.borrow()[id].computing > 0;
        computes && !self.pieces_told.get() && self.compute_turn(id)
    }

    /// Takes the turns of tasks that compute, one after the other as the loop would. In these turns
    /// only time passes: no future is polled, and no event happens. `first` is the CPU that is
    /// furthest behind, its clock and the least clock of the others; the loop has already counted
    /// the poll for this turn. `event` and `look` are the times of the next event and of the
    /// observer's next look. Returns the latest clock, or `None` if the first turn is of another
    /// kind or would be its computation's last.
    #[inline(always)]
    pub(super) fn computing_turns(
        &self,
        first: (usize, u64, u64),
        event: u64,
        look: u64,
    ) -> Option<u64> {
        let id = self.cpus[first.0].current.get()?;
        let computes = self.tasks.borrow()[id as usize].computing > PIECE;
        match computes && !self.pieces_told.get() {
            true => self.take_computing_turns(first, event, look),
            false => None,
        }
    }

    /// Does the work of [`Self::computing_turns`], with the same arguments, once its first turn is
    /// known to be one of computation.
    #[inline(never)]
    fn take_computing_turns(&self, first: (usize, u64, u64), event: u64, look: u64) -> Option<u64> {
        let mut tasks = self.tasks.borrow_mut();
        let (mut c, mut at, mut second) = first;
        // CPU, task, end of turn and clock of the last turn; and the latest clock.
        let (mut last, mut end) = (None, 0);
        while event.min(look) > at {
            let cpu = &self.cpus[c];
            let id = cpu.current.get().expect("a running task");
            let task = &mut tasks[id as usize];
            let lead = second.saturating_add(self.params.quantum);
            let until = event.min(lead).min(cpu.slice_end.get());
            if until <= at || cpu.resched.get() || look < until {
                break;
            }
            // As many pieces as reach the turn's end; the piece before them was charged in the
            // task's last turn.
            let pieces = (until - at).div_ceil(PIECE);
            // The loop polls once for each turn but the first, and the turn once for each piece.
            let polls = pieces + u64::from(last.is_some());
            if task.computing < (pieces + 1) * PIECE || u64::from(self.watchdog.unseen()) < polls {
                break;
            }
            self.watchdog.polls_unseen(polls as u32);
            let ns = pieces * PIECE;
            task.computing -= ns;
            task.time.user += ns;
            at += ns;
            cpu.clock.set(at);
            self.due.set(c, at);
            end = end.max(at);
            last = Some((c, id, until, at));
            (c, at, second) = self.due.furthest_behind();
        }
        let (c, id, until, at) = last?;
        self.here.set(c);
        self.running.set(id);
        self.turn_end.set(until);
        self.limit.set(until);
        self.set_time(at);
        Some(end)
    }

    /// Charges the pieces of one turn of the task `id`, which gave way while it computed; see
    /// [`Self::computes_on`]. Returns true if the task has given way again; false if its future is
    /// to be polled, because the computation ends or the watchdog has to look.
    fn compute_turn(&self, id: usize) -> bool {
        let task = &mut self.tasks.borrow_mut()[id];
        let mut waited = true;
        loop {
            if self.time.get() < self.limit.get() {
                if !self.watchdog.poll_unseen() {
                    return false;
                }
                if cfg!(debug_assertions) {
                    self.span.set(0);
                }
            } else if !waited || self.stop.get() {
                return true;
            }
            waited = false;
            task.computing -= task.computing.min(PIECE);
            let n = task.computing.min(PIECE);
            if n == 0 {
                return false;
            }
            self.charge(n);
            task.time.user += n;
        }
    }
}

/// The future of [`Sched::compute`].
pub struct Compute<'a> {
    sched: &'a Sched,
    left: u64,
    gave_way: bool,
    at: &'static Location<'static>,
}

impl Compute<'_> {
    /// Makes the computing task give way. `left`: the nanoseconds left of the computation, with the
    /// piece that was just charged, which the executor may go on to charge without polling.
    fn gives_way(&mut self, left: u64) -> Poll<u64> {
        let s = self.sched;
        s.watchdog.leaves(s.task(), self.at);
        s.tasks.borrow_mut()[s.task() as usize].computing = left;
        self.gave_way = true;
        Poll::Pending
    }
}

impl Future for Compute<'_> {
    type Output = u64;

    /// Charges the computation piece by piece, and gives way when the task's turn is over or the
    /// watchdog ends the run. A piece that was charged before the task gave way is not charged
    /// again (`waited`). Ready with the nanoseconds left: 0 unless each piece is to be told.
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u64> {
        let s = self.sched;
        let (mut left, mut waited) = (self.left, false);
        if self.gave_way {
            left = std::mem::take(&mut s.tasks.borrow_mut()[s.task() as usize].computing);
            waited = true;
        }
        while left > 0 {
            if !waited {
                s.charge_user(left.min(PIECE));
            }
            if s.time.get() < s.limit.get() {
                if cfg!(debug_assertions) {
                    s.span.set(0);
                }
                if s.watchdog.poll() && s.look(Some(self.at)) {
                    return self.gives_way(left);
                }
            } else if !waited || s.stop.get() {
                return self.gives_way(left);
            }
            waited = false;
            left -= left.min(PIECE);
            if s.pieces_told.get() {
                break;
            }
        }
        Poll::Ready(left)
    }
}
