//! What was scanned, told to those who want to know how hard memory is to come by (`vmpressure = "worker"`; Linux
//! mm/vmpressure.c, `vmpressure` and `vmpressure_work_fn`, since 3.10; docs/reference/reclaim.md#pressure).
//!
//! Behind every 512 pages scanned a worker of the kernel's is woken, be anybody told or not. It has next to nothing to
//! do; but where a CPU is scarce it takes a turn there, behind which the scheduler picks anew. So a long scan
//! of kswapd gives way to who waits, and a task that reclaims gives way to kswapd, long before their slices end.

use super::scan::SWAP_CLUSTER_MAX;
use crate::policy::VmPressure;
use crate::world::{Word64, World};
use crate::{Mm, queue};

/// Pages scanned between two turns of the worker (`vmpressure_win`).
const WINDOW: u64 = 16 * SWAP_CLUSTER_MAX;
/// From this scan priority on direct reclaim counts as a window of nothing gained
/// (`vmpressure_level_critical_prio`).
const CRITICAL_PRIORITY: u8 = 3;

impl<W: World> Mm<W> {
    /// Whether scans wake the worker: then somebody has to be [`Mm::pressure_worker`].
    pub fn has_pressure_worker(&self) -> bool {
        self.policy.vmpressure == VmPressure::Worker
    }

    /// A node was scanned: so many pages of it.
    #[inline]
    pub(super) fn note_pressure(&self, scanned: u64) {
        if scanned > 0 && self.has_pressure_worker() {
            let sum = self.pressure_scanned.fetch_add(scanned) + scanned;
            if sum >= WINDOW {
                self.world.wake(queue::pressure());
            }
        }
    }

    /// Direct reclaim comes to a scan priority.
    #[inline]
    pub(super) fn note_priority(&self, priority: u8) {
        if priority <= CRITICAL_PRIORITY {
            self.note_pressure(WINDOW);
        }
    }

    /// Looks whether the worker waits although it has something to tell.
    ///
    /// # Errors
    /// It does.
    pub(crate) fn check_pressure_worker(&self) -> Result<(), String> {
        let behind = self.has_pressure_worker() && self.pressure_scanned.get() >= WINDOW;
        match behind && self.world.waited_on(queue::pressure()) {
            true => Err("the worker of vmpressure waits in vain: a window was scanned".to_owned()),
            false => Ok(()),
        }
    }

    /// The life of the worker. Never returns.
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
