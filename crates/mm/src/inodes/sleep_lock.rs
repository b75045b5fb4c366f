//! A lock that may be held across waits (the kernel's mutex).
//!
//! A task that finds the lock taken waits in order; a task that comes when it is free takes it, as
//! with the kernel's mutex before 4.10, which is not handed over.

use crate::Mm;
use crate::world::{TaskId, WaitQueue, Word32, World};

/// A lock that may be held across waits.
pub(crate) struct SleepLock<W: World> {
    /// The task that holds the lock, plus 1; 0: free.
    owner: W::U32,
}

impl<W: World> SleepLock<W> {
    /// Makes a lock that no task holds.
    pub fn new() -> Self {
        Self {
            owner: bytemuck::Zeroable::zeroed(),
        }
    }

    /// Returns the task that holds the lock, if any.
    pub fn owner(&self) -> Option<TaskId> {
        self.owner.get().checked_sub(1)
    }
}

impl<W: World> Mm<W> {
    /// Takes a lock for the calling task if it is free; returns true if it was.
    pub(crate) fn try_sleep_lock(&self, lock: &SleepLock<W>) -> bool {
        lock.owner.replace(0, self.world.task() + 1)
    }

    /// Takes a lock that may be held across waits, waiting in the queue `q` while another task
    /// holds it; before each wait calls `about_to_wait` with that task, if there still is one.
    pub(crate) async fn sleep_lock(
        &self,
        lock: &SleepLock<W>,
        q: WaitQueue,
        about_to_wait: impl Fn(Option<TaskId>),
    ) {
        debug_assert!(lock.owner() != Some(self.world.task()), "taken twice");
        loop {
            let ticket = self.world.ticket(q);
            if self.try_sleep_lock(lock) {
                return;
            }
            about_to_wait(lock.owner());
            self.world.wait(q, ticket, None).await;
        }
    }

    /// Releases a lock of the calling task and wakes the longest waiter in `q`.
    ///
    /// # Panics
    /// If the calling task does not hold the lock.
    pub(crate) fn sleep_unlock(&self, lock: &SleepLock<W>, q: WaitQueue) {
        let was_held = lock.owner.replace(self.world.task() + 1, 0);
        assert!(was_held, "only its holder gives a lock back");
        self.world.wake_one(q);
    }
}
