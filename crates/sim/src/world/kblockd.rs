//! The worker that gives devices of blk-mq their next requests (`kblockd`; Linux block/blk-mq.c,
//! `blk_mq_run_hw_queue` behind `blk_mq_sched_restart`;
//! docs/reference/writeback.md#request-queue-of-today).
//!
//! A request that found no tag makes the queue be run again when a tag is free, by a worker of the
//! highest priority. The same worker dispatches what a task holds in its plug when the task goes to
//! sleep. The simulated device receives these requests at once; but where the CPU is busy the
//! worker takes a turn on it, and afterwards the scheduler picks anew: the task that ran before is
//! no longer protected. A task that goes to sleep also leaves its CPU while the worker is queued
//! there. The worker's large weight dominates the CPU's mean run time, against which the sleeper
//! owes time, so the time it was owed before is forgotten (`DELAY_ZERO`).

use super::{SimWorld, own_queue};
use mm::Mm;
use mm::policy::RequestQueue;

/// Returns true if devices under this policy have the worker; its task must then call [`run`].
pub fn is_there(policy: &mm::Policy) -> bool {
    policy.request_queue == RequestQueue::Multi
}

/// Returns the worker's wait queue.
fn own_queue_of<const TRACE: bool>(w: &SimWorld<TRACE>) -> u32 {
    let devices = w.devices.borrow().len() as u32;
    w.queue_base + own_queue::kblockd(w.tasks, devices)
}

/// Wakes the worker. On an idle CPU its turn would change nothing, so it is not woken there.
pub(super) fn wake_worker<const TRACE: bool>(w: &SimWorld<TRACE>) {
    if w.sched.is_busy(CPU) {
        w.sched.wake(own_queue_of(w));
    }
}

impl<const TRACE: bool> SimWorld<TRACE> {
    /// Dispatches the requests of a device after a task without a plug submitted one: at once, or,
    /// if the CPU is busy and the world leaves such requests to the worker, when the worker gets
    /// the CPU. Until then the request can grow by merges (`blk_mq_sched_insert_request`, which
    /// runs the queue asynchronously up to 6.9).
    pub(super) fn give_out(&self, dev: u32) {
        if self.left_to_worker && self.sched.is_busy(CPU) {
            self.devices.borrow_mut()[dev as usize].waits_for_worker = true;
            self.sched.wake(own_queue_of(self));
        } else {
            self.kick(dev);
        }
    }

    /// Lets a device dispatch its next requests after completions or merges, unless they are left
    /// to the worker.
    pub(super) fn kick_unless_left(&self, dev: u32) {
        if !self.devices.borrow()[dev as usize].waits_for_worker {
            self.kick(dev);
        }
    }
}

/// Makes the worker dispatch what sleeping tasks hold in their plugs.
pub fn gives_out_plugs<const TRACE: bool>(w: &SimWorld<TRACE>) {
    w.sched.set_plug_worker(own_queue_of(w));
}

/// The CPU that takes the devices' interrupts.
const CPU: usize = 0;

/// Runs the worker (`kblockd`): dispatches the requests left to it, on each device, and sleeps.
/// Never returns.
pub async fn run<const TRACE: bool>(mm: &Mm<SimWorld<TRACE>>) {
    let q = own_queue_of(&mm.world);
    loop {
        let ticket = mm.world.sched.ticket(q);
        let devices = mm.world.devices.borrow().len() as u32;
        for dev in 0..devices {
            if mm.world.devices.borrow()[dev as usize].waits_for_worker {
                mm.world.kick(dev);
            }
        }
        mm.world.sched.wait(q, ticket, None).await;
    }
}
