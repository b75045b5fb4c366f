//! The worker of vmpressure, which is told how much was scanned (`vmpressure = "worker"`; Linux
//! mm/vmpressure.c, `vmpressure` and `vmpressure_work_fn`, since 3.10;
//! docs/reference/reclaim.md#pressure).
//!
//! After every 512 scanned pages a kernel worker is woken, whether or not a program listens. The
//! worker has next to nothing to do; but where CPUs are scarce it takes a turn on one, after which
//! the scheduler picks the next task anew. So a long scan of kswapd gives way to waiting tasks, and
//! a task that reclaims gives way to kswapd, long before their slices end.

use super::scan::SWAP_CLUSTER_MAX;
use crate::policy::VmPressure;
use crate::world::{Word64, World};
use crate::{Mm, queue};

/// Pages scanned between two turns of the worker (`vmpressure_win`).
const WINDOW: u64 = 16 * SWAP_CLUSTER_MAX;
/// At this scan priority and harder ones direct reclaim counts as a window in which nothing was
/// gained (`vmpressure_level_critical_prio`).
const CRITICAL_PRIORITY: u8 = 3;

impl<W: World> Mm<W> {
    /// Returns true if scans wake the worker: the world must then run [`Mm::pressure_worker`].
    pub fn has_pressure_worker(&self) -> bool {
        self.policy.vmpressure == VmPressure::Worker
    }

    /// Adds `scanned` pages to vmpressure's window, and wakes its worker if the window is full (512
    /// pages).
    #[inline]
    pub(super) fn note_pressure(&self, scanned: u64) {
        if scanned > 0 && self.has_pressure_worker() {
            let sum = self.pressure_scanned.fetch_add(scanned) + scanned;
            if sum >= WINDOW {
                self.world.wake(queue::pressure());
            }
        }
    }

    /// Tells vmpressure's worker that direct reclaim has come to a scan priority: from a hard one
    /// on, that counts as a full window.
    #[inline]
    pub(super) fn note_priority(&self, priority: u8) {
        if priority <= CRITICAL_PRIORITY {
            self.note_pressure(WINDOW);
        }
    }

    /// Checks that the worker does not wait although a window was scanned.
    ///
    /// # Errors
    /// The worker waits in vain.
    pub(crate) fn check_pressure_worker(&self) -> Result<(), String> {
        let behind = self.has_pressure_worker() && self.pressure_scanned.get() >= WINDOW;
        match behind && self.world.waited_on(queue::pressure()) {
            true => Err("the worker of vmpressure waits in vain: a window was scanned".to_owned()),
            false => Ok(()),
        }
    }

    /// Runs vmpressure's worker: waits for a full window of scanned pages and starts a new one; its
    /// turn on the CPU is its only effect. Never returns.
    pub async fn pressure_worker(&self) {
        debug_assert!(self.has_pressure_worker(), "nobody would wake it");
        let q = queue::pressure();
        loop {
            let ticket = self.world.ticket(q);
            if self.pressure_scanned.get() < WINDOW {
                self.world.wait(q, ticket, None).await;
                continue;
            }
            self.pressure_scanned.set(0);
        }
    }
}
