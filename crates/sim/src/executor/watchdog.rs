//! The progress law: within [`MOST_POLLS`] polls simulated time moves on or the devices finish
//! something, or the run ends and says who spins, and where.
//!
//! A *poll* is one look of a task whether it has to give way ([`Sched::relax`]), one wait that had
//! nothing to wait for, or one turn of the executor. Each counts a word down; when that is at 0, once in
//! [`LOOK_POLLS`], the clocks are compared with those of the last look, and the flag is read with which
//! the outside stops a run. So that flag acts within [`LOOK_POLLS`] polls whatever spins, and reading
//! it costs nothing to speak of. Looking changes nothing: nobody has to give way for it.
//!
//! A loop that has no such point in it is not seen here. The engine has none without a bound: a span
//! between two `relax` handles 32 pages at most ([`mm::world::World`]).
//!
//! [`Sched::relax`]: crate::sched::Sched::relax

use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// After so many polls the executor looks at the clocks and at the flag of the outside. A poll takes
/// 10 ns (a bare `relax`) to 20 µs (32 pages of reclaim) of real time, so this many stay well below
/// the 100 ms that somebody who pressed Ctrl-C waits for.
pub const LOOK_POLLS: u32 = 1024;

/// The most polls without progress. More than the files that a walk over all of them, which charges
/// nothing for those with nothing to write, passes in a machine that fits in memory; less than a
/// second of spinning.
pub const MOST_POLLS: u32 = 4096 * LOOK_POLLS;

/// Why a run ended that nobody in it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The outside set its flag.
    Interrupted,
    /// Neither time nor I/O went on.
    Stuck {
        /// The task that was polled last.
        task: u32,
        /// Where it gave way or waited.
        at: &'static Location<'static>,
    },
}

/// What the executor keeps for it; see the [module](self).
#[derive(Debug)]
pub(crate) struct Watchdog {
    /// Polls until the next look.
    left: Cell<u32>,
    /// Looks so far.
    all: Cell<u64>,
    /// Looks since the last progress.
    looks: Cell<u32>,
    /// What the clocks and devices added up to then.
    seen: Cell<u64>,
    /// Where the last task that left its CPU did, and its number.
    last: Cell<(u32, &'static Location<'static>)>,
    flag: RefCell<Option<Arc<AtomicBool>>>,
    ending: Cell<Option<Ending>>,
}

impl Watchdog {
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

    /// Another one that may end the run.
    pub fn heed(&self, flag: Arc<AtomicBool>) {
        *self.flag.borrow_mut() = Some(flag);
    }

    /// Why the run ended, if it was for one of its reasons.
    pub fn ending(&self) -> Option<Ending> {
        self.ending.get()
    }

    /// Polls so far: what the run took of the executor, whatever machine it is on.
    pub fn polls(&self) -> u64 {
        self.all.get() * u64::from(LOOK_POLLS) + u64::from(LOOK_POLLS - self.left.get())
    }

    /// A task leaves its CPU.
    pub fn leaves(&self, task: u32, at: &'static Location<'static>) {
        self.last.set((task, at));
    }

    /// One poll; `true`: time for [`Self::look`].
    #[inline(always)]
    pub fn poll(&self) -> bool {
        let left = self.left.get() - 1;
        self.left.set(left);
        left == 0
    }

    /// One poll, unless [`Self::look`] would have to follow it; whether it was counted.
    #[inline(always)]
    pub fn poll_unseen(&self) -> bool {
        let left = self.left.get() - 1;
        if left > 0 {
            self.left.set(left);
        }
        left > 0
    }

    /// How many polls need no [`Self::look`].
    #[inline(always)]
    pub fn unseen(&self) -> u32 {
        self.left.get() - 1
    }

    /// So many of them.
    #[inline(always)]
    pub fn polls_unseen(&self, n: u32) {
        self.left.set(self.left.get() - n);
    }

    /// Looks; `sum`: what only grows as time and I/O go on. Returns whether the run has to end. `at`:
    /// the task that is polled and where, if one is.
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
