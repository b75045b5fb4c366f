//! The progress law: within [`MOST_POLLS`] polls simulated time must advance or the devices must
//! finish something; otherwise the run ends, and the error says which task spins, and where.
//!
//! A *poll* is one check of a task whether it has to give way ([`Sched::relax`]), one wait that had
//! nothing to wait for, or one turn of the executor. Each poll decrements a counter. When it
//! reaches 0, once in [`LOOK_POLLS`], the clocks are compared with those of the last look, and the
//! flag is read with which the caller stops a run. The flag therefore acts within [`LOOK_POLLS`]
//! polls whatever spins, and reading it costs next to nothing. A look changes nothing: no task has
//! to give way for it.
//!
//! A loop without such a point is not seen here. The engine has no unbounded one: a span between
//! two `relax` handles 32 pages at most ([`mm::world::World`]).
//!
//! [`Sched::relax`]: crate::sched::Sched::relax

use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// After this many polls the executor looks at the clocks and at the caller's stop flag. A poll
/// takes 10 ns (a bare `relax`) to 20 µs (32 pages of reclaim) of real time, so this many stay well
/// below the 100 ms within which Ctrl-C should take effect.
pub const LOOK_POLLS: u32 = 1024;

/// The most polls without progress. This is more than the files of a machine that fits in memory,
/// because a walk over all files charges nothing for those with nothing to write; and less than a
/// second of spinning.
pub const MOST_POLLS: u32 = 4096 * LOOK_POLLS;

/// Why the watchdog ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The caller set its stop flag.
    Interrupted,
    /// Neither time nor I/O made progress.
    Stuck {
        /// The task that was polled last.
        task: u32,
        /// The place where the task gave way or waited.
        at: &'static Location<'static>,
    },
}

/// The watchdog's state; see the [module](self).
#[derive(Debug)]
pub(crate) struct Watchdog {
    /// Polls until the next look.
    left: Cell<u32>,
    /// Looks so far.
    all: Cell<u64>,
    /// Looks since the last progress.
    looks: Cell<u32>,
    /// Sum of clocks and devices at the last look.
    seen: Cell<u64>,
    /// Number of the task that last left its CPU, and the place where it did.
    last: Cell<(u32, &'static Location<'static>)>,
    flag: RefCell<Option<Arc<AtomicBool>>>,
    ending: Cell<Option<Ending>>,
}

impl Watchdog {
    /// Creates a watchdog that has seen no polls.
    #[track_caller]
    pub fn new() -> Self {
        Self {
            left: Cell::new(LOOK_POLLS),
            all: Cell::new(0),
            looks: Cell::new(0),
            seen: Cell::new(0),
            last: Cell::new((0, Location::caller())),
            flag: RefCell::new(None),
            ending: Cell::new(None),
        }
    }

    /// Sets the flag with which a caller may end the run.
    pub fn heed(&self, flag: Arc<AtomicBool>) {
        *self.flag.borrow_mut() = Some(flag);
    }

    /// Returns why the watchdog ended the run; `None` if it did not.
    pub fn ending(&self) -> Option<Ending> {
        self.ending.get()
    }

    /// Returns the polls so far: the work of the executor in this run, independent of the host's
    /// speed.
    pub fn polls(&self) -> u64 {
        self.all.get() * u64::from(LOOK_POLLS) + u64::from(LOOK_POLLS - self.left.get())
    }

    /// Notes that a task leaves its CPU at `at`.
    pub fn leaves(&self, task: u32, at: &'static Location<'static>) {
        self.last.set((task, at));
    }

    /// Counts one poll of a task; returns true if [`Self::look`] is due.
    #[inline(always)]
    pub fn poll(&self) -> bool {
        let left = self.left.get() - 1;
        self.left.set(left);
        left == 0
    }

    /// Counts one poll, unless [`Self::look`] would have to follow it; returns true if it was
    /// counted.
    #[inline(always)]
    pub fn poll_unseen(&self) -> bool {
        let left = self.left.get() - 1;
        if left > 0 {
            self.left.set(left);
        }
        left > 0
    }

    /// Returns how many polls may be counted before [`Self::look`] is due.
    #[inline(always)]
    pub fn unseen(&self) -> u32 {
        self.left.get() - 1
    }

    /// Counts `n` polls, at most [`Self::unseen`].
    #[inline(always)]
    pub fn polls_unseen(&self, n: u32) {
        self.left.set(self.left.get() - n);
    }

    /// Checks for progress, every `LOOK_POLLS` polls; `sum` is a sum that only grows as time and
    /// I/O advance. Returns true if the run has to end: the caller's flag is set, or nothing has
    /// moved for `MOST_POLLS` polls. `at`: the task that is polled and the place, if a task is.
    #[cold]
    pub fn look(&self, sum: u64, at: Option<(u32, &'static Location<'static>)>) -> bool {
        self.left.set(LOOK_POLLS);
        self.all.set(self.all.get() + 1);
        let flag = self.flag.borrow();
        let stop = flag.as_ref().is_some_and(|f| f.load(Ordering::Relaxed));
        if self.seen.replace(sum) != sum {
            self.looks.set(0);
        }
        self.looks.set(self.looks.get() + 1);
        let ending = if stop {
            Ending::Interrupted
        } else if self.looks.get() > MOST_POLLS / LOOK_POLLS {
            let (task, at) = at.unwrap_or(self.last.get());
            Ending::Stuck { task, at }
        } else {
            return false;
        };
        self.ending.set(Some(ending));
        true
    }
}
