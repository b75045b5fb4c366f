//! The worker that gives devices of blk-mq their next requests (`kblockd`; Linux block/blk-mq.c,
//! `blk_mq_run_hw_queue` behind `blk_mq_sched_restart`; docs/reference/writeback.md#request-queue-of-today).
//!
//! A request that found no tag makes the queue be looked at again when one is free, by a worker of the highest
//! priority. So does a task that goes to sleep while it holds requests back: they are the worker's to give out. The device
//! has its request at once here; but where the CPU is busy the worker takes a turn there, behind which the scheduler picks
//! anew: whoever ran is not protected any more. And a sleeper leaves a CPU that has the worker waiting, beside whose
//! weight it owes time: what it was owed is forgotten (`DELAY_ZERO`).

use super::{SimWorld, own_queue};
use mm::Mm;
use mm::policy::RequestQueue;

/// Whether a policy's devices have the worker: then it has to [`run`].
pub fn is_there(policy: &mm::Policy) -> bool {
    policy.request_queue == RequestQueue::Multi
}

fn own_queue_of<const TRACE: bool>(w: &SimWorld<TRACE>) -> u32 {
    let devices = w.devices.borrow().len() as u32;
    w.queue_base + own_queue::kblockd(w.tasks, devices)
}

/// It is woken. On an idle CPU nobody would notice.
pub(super) fn queue<const TRACE: bool>(w: &SimWorld<TRACE>) {
    if w.sched.is_busy(CPU) {
        w.sched.wake(own_queue_of(w));
    }
}

impl<const TRACE: bool> SimWorld<TRACE> {
    /// A request of a task without a plug is its device's at once, or, where the CPU is busy and it is left to the worker, when
    /// that has the CPU: until then it grows (`blk_mq_sched_insert_request`, whose run of the queue is asynchronous up to 6.9).
    pub(super) fn give_out(&self, dev: u32) {
        if self.left_to_worker && self.sched.is_busy(CPU) {
            self.devices.borrow_mut()[dev as usize].left = true;
            self.sched.wake(own_queue_of(self));
        } else {
            self.kick(dev);
        }
    }

    /// The device goes on, but what nobody has given out yet is the worker's still.
    pub(super) fn go_on(&self, dev: u32) {
        if !self.devices.borrow()[dev as usize].left {
            self.kick(dev);
        }
    }
}

/// It is who gives out what sleepers hold back.
pub fn gives_out_plugs<const TRACE: bool>(w: &SimWorld<TRACE>) {
    w.sched.set_plug_worker(own_queue_of(w));
}

/// The CPU on which devices interrupt.
const CPU: usize = 0;

/// Its life. Never returns.
pub async fn run<const TRACE: bool>(mm: &Mm<SimWorld<TRACE>>) {
    let q = own_queue_of(&mm.world);
    loop {
        let ticket = mm.world.sched.ticket(q);
        let devices = mm.world.devices.borrow().len() as u32;
        for dev in 0..devices {
            if mm.world.devices.borrow()[dev as usize].left {
                mm.world.kick(dev);
            }
        }
        mm.world.sched.wait(q, ticket, None).await;
    }
}
