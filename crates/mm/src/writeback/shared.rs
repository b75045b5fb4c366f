//! What all devices share, and what each task has dirtied.

use super::pace::Pace;
use super::proportion;
use crate::world::{TaskId, World};
use crate::{Mm, NoMemory};

/// The state that all devices share.
pub(crate) struct Shared<W: World> {
    pub completions: proportion::Global<W>,
    pub dirties: proportion::Global<W>,
    /// What each task has dirtied, and how long it waited.
    pub dirtiers: Box<[Dirtier<W>]>,
    pub dirtied_on_cpu: Box<[W::U32]>,
    pub ratelimit: W::U32,
    /// The dirty limit as dirtiers of 3.2 see it fall, and when it last did.
    pub limit: W::U64,
    pub limit_time: W::U64,
    /// What all devices have for certain of the dirty limit, in percent.
    pub min_ratios: W::U32,
}

impl<W: World> Shared<W> {
    pub fn new(cpus: usize, tasks: u32) -> Result<Self, NoMemory> {
        Ok(Self {
            completions: proportion::Global::new(),
            dirties: proportion::Global::new(),
            dirtiers: heap::filled("the tasks' dirtying", tasks as usize, |_| Dirtier::new())?,
            dirtied_on_cpu: bytemuck::zeroed_slice_box(cpus),
            ratelimit: bytemuck::Zeroable::zeroed(),
            limit: bytemuck::Zeroable::zeroed(),
            limit_time: bytemuck::Zeroable::zeroed(),
            min_ratios: bytemuck::Zeroable::zeroed(),
        })
    }
}

/// What one task has dirtied.
pub(crate) struct Dirtier<W: World> {
    /// Its share of all dirtying ([`super::dirty`]).
    pub share: proportion::Local<W>,
    /// What it dirtied and how long it waited ([`super::throttle`]).
    pub pace: Pace<W>,
}

impl<W: World> Dirtier<W> {
    fn new() -> Self {
        Self {
            share: proportion::Local::new(),
            pace: Pace::new(),
        }
    }
}

impl<W: World> Mm<W> {
    /// What the calling task has dirtied.
    #[inline(always)]
    pub(crate) fn dirtier(&self) -> &Dirtier<W> {
        &self.writeback.dirtiers[self.world.task() as usize]
    }

    /// A task begins: it has dirtied nothing yet.
    pub(crate) fn new_dirtier(&self, task: TaskId) {
        let dirtier = &self.writeback.dirtiers[task as usize];
        dirtier.share.reset();
        dirtier.pace.reset();
    }
}
