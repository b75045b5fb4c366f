//! A program that computes: nothing but time passes, so its task's turns need not ask its future.

use super::Sched;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A program may have to give way behind so many nanoseconds.
const PIECE: u64 = 10_000;

impl Sched {
    /// The running task's program computes for `ns` nanoseconds. What is left of them when it goes on: nothing, or, behind a
    /// piece where pieces are told of ([`Self::tell_of_pieces`]), what is to be computed by another call.
    #[track_caller]
    pub fn compute(&self, ns: u64) -> Compute<'_> {
        Compute {
            sched: self,
            left: ns,
            gave_way: false,
            at: Location::caller(),
        }
    }

    /// From now on tasks have to be asked behind each piece that they compute.
    pub fn tell_of_pieces(&self) {
        self.pieces_told.set(true);
    }

    /// The turn of a task that gave way while it computed, as [`Compute`] would take it. Whether it has given way again;
    /// `false`: its future is to be asked.
    #[inline(always)]
    pub(super) fn computes_on(&self, id: usize) -> bool {
        let computes = self.tasks.borrow()[id].computing > 0;
        computes && !self.pieces_told.get() && self.compute_turn(id)
    }

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

/// See [`Sched::compute`].
pub struct Compute<'a> {
    sched: &'a Sched,
    left: u64,
    gave_way: bool,
    at: &'static Location<'static>,
}

impl Compute<'_> {
    /// It gives way, with what is left of the piece that it has computed and of others.
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
