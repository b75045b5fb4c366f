//! State of writeback that all devices share, and the dirtying of each task.

use super::pace::Pace;
use super::proportion;
use crate::world::{TaskId, Word64, World};
use crate::writeback::dirty::Limits;
use crate::{Mm, NoMemory};

/// The state that all devices share.
pub(crate) struct Shared<W: World> {
    /// The stream of completed writeback, of which devices have shares.
    pub completions: proportion::Global<W>,
    /// The stream of dirtied pages, of which tasks have shares.
    pub dirties: proportion::Global<W>,
    /// The dirtying and the pauses of each task.
    pub dirtiers: Box<[Dirtier<W>]>,
    /// Pages dirtied on each CPU since its last look at the limits.
    pub dirtied_on_cpu: Box<[W::U32]>,
    /// The limits as each CPU computed them last.
    pub limits: Box<[KnownLimits<W>]>,
    /// Pages after which a CPU looks at the limits.
    pub ratelimit: W::U32,
    /// The dirty limit as dirtiers of 3.2 see it, which falls slowly, and when it was last updated
    /// (ns).
    pub limit: W::U64,
    pub limit_time: W::U64,
    /// The sum of the parts of the dirty limit that devices are guaranteed, in percent.
    pub min_ratios: W::U32,
}

impl<W: World> Shared<W> {
    /// Creates the shared state of writeback for a machine of so many CPUs and tasks.
    ///
    /// # Errors
    /// The host refuses the memory.
    pub fn new(cpus: usize, tasks: u32) -> Result<Self, NoMemory> {
        Ok(Self {
            completions: proportion::Global::new(),
            dirties: proportion::Global::new(),
            dirtiers: heap::filled("the tasks' dirtying", tasks as usize, |_| Dirtier::new())?,
            dirtied_on_cpu: bytemuck::zeroed_slice_box(cpus),
            limits: (0..cpus).map(|_| KnownLimits::new()).collect(),
            ratelimit: bytemuck::Zeroable::zeroed(),
            limit: bytemuck::Zeroable::zeroed(),
            limit_time: bytemuck::Zeroable::zeroed(),
            min_ratios: bytemuck::Zeroable::zeroed(),
        })
    }
}

/// The limits of a task that is not lifted, as they were last computed. Threads may share one: if
/// two of them write it at once, the result is valid for neither.
pub(crate) struct KnownLimits<W: World> {
    /// [`VmStat::moved`](crate::watch::vmstat::VmStat::moved) at that time, mixed with the limits:
    /// they are valid as long as that count does not change.
    seal: W::U64,
    background: W::U64,
    dirty: W::U64,
}

impl<W: World> KnownLimits<W> {
    /// Creates an entry that no limits were put into yet.
    fn new() -> Self {
        let known = Self {
            seal: bytemuck::Zeroable::zeroed(),
            background: bytemuck::Zeroable::zeroed(),
            dirty: bytemuck::Zeroable::zeroed(),
        };
        known.seal.set(u64::MAX);
        known
    }

    /// Returns a checksum of a pair of limits and the count `moved` at which they were computed. A
    /// pair that two threads have torn, or that is out of date, does not fit its checksum.
    #[inline(always)]
    fn seal(moved: u64, limits: Limits) -> u64 {
        moved ^ limits.background ^ limits.dirty.rotate_left(u64::BITS / 2)
    }

    /// Returns the remembered limits if they are still valid: the counters that they depend on have
    /// the same count of movements, `moved`, as when they were put in. `None`: they have to be
    /// computed anew.
    #[inline(always)]
    pub fn get(&self, moved: u64) -> Option<Limits> {
        let limits = Limits {
            background: self.background.get(),
            dirty: self.dirty.get(),
        };
        (self.seal.get() == Self::seal(moved, limits)).then_some(limits)
    }

    /// Remembers limits that were computed when the counters that they depend on had moved `moved`
    /// pages in all.
    #[inline(always)]
    pub fn put(&self, moved: u64, limits: Limits) {
        self.background.set(limits.background);
        self.dirty.set(limits.dirty);
        self.seal.set(Self::seal(moved, limits));
    }
}

/// The dirtying of one task.
pub(crate) struct Dirtier<W: World> {
    /// The task's share of all dirtying ([`super::dirty`]).
    pub share: proportion::Local<W>,
    /// The pages that the task dirtied and its pauses ([`super::throttle`]).
    pub pace: Pace<W>,
}

impl<W: World> Dirtier<W> {
    /// Makes the record of a task that has dirtied nothing.
    fn new() -> Self {
        Self {
            share: proportion::Local::new(),
            pace: Pace::new(),
        }
    }
}

impl<W: World> Mm<W> {
    /// Returns the dirtying of the calling task.
    #[inline(always)]
    pub(crate) fn dirtier(&self) -> &Dirtier<W> {
        &self.writeback.dirtiers[self.world.task() as usize]
    }

    /// Resets the record of a task that begins: the task has dirtied nothing yet.
    pub(crate) fn new_dirtier(&self, task: TaskId) {
        let dirtier = &self.writeback.dirtiers[task as usize];
        dirtier.share.reset();
        dirtier.pace.reset();
    }
}
