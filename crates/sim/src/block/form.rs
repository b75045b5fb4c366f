//! The form that a policy gives to request queues: one queue or blk-mq, throttled or not.

use super::{Device, Limits};
use crate::params::Params;
use crate::spec::Scheduler;
use mm::Policy;
use mm::policy::{CfqIdling, RequestQueue, WritebackThrottling};

/// Requests that Linux gives to a queue by itself (`BLKDEV_DEFAULT_RQ`).
const DEFAULT_REQUESTS: u32 = 128;

/// The parts of a policy that concern request queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// blk-mq: tags instead of requests per class, and elevators that sort by direction.
    pub multi: bool,
    /// True if the writeback throttle holds writes back before they get a request.
    pub throttled: bool,
    /// The depth that the device is registered with, if that is more than the device's own.
    pub registered: u32,
    /// CPUs of the machine; a device that supports several hardware queues has one per CPU.
    pub cpus: u32,
    /// Which readers CFQ idles for.
    pub idling: CfqIdling,
    /// Length of a timer tick and time of the first one, in nanoseconds; (0, 0): timers are exact.
    pub ticks: (u64, u64),
}

impl Form {
    /// Returns the form that a policy gives to request queues, for one CPU, exact timers and the
    /// device's own depth; callers set the rest.
    pub fn of(policy: &Policy) -> Self {
        Self {
            multi: policy.request_queue == RequestQueue::Multi,
            throttled: policy.writeback_throttling != WritebackThrottling::None,
            registered: 0,
            cpus: 1,
            idling: policy.cfq_idling,
            ticks: (0, 0),
        }
    }

    /// Returns the limits of a device's queue: `nr_requests` per class for each member of the
    /// device, or, without a scheduler, the tags of its hardware queues for both classes together.
    /// Before `multi` those were never fewer than `nr_requests`, as with virtio disks of the time
    /// (128).
    pub(super) fn limits(&self, device: &Device, scheduler: Scheduler, params: &Params) -> Limits {
        let requests = params.nr_requests as u32 * device.members();
        match (scheduler, self.multi) {
            (Scheduler::None, true) => Limits::of_tags(device.depth(), params),
            (Scheduler::None, false) => Limits::of_tags(requests.max(device.depth()), params),
            _ => Limits::new(requests, params),
        }
    }

    /// Returns the depth that a device registers with, which its throttle and its scheduler use
    /// whatever `nr_requests` is set to afterwards. With one hardware queue a scheduler gets tags
    /// for twice the device's depth (block/blk-mq-sched.c `blk_mq_init_sched`); with several the
    /// depth is one queue's, as such a device begins without a scheduler.
    pub(super) fn registered(&self, device: &Device) -> u32 {
        let depth = device.depth_of_queue().max(self.registered);
        match device.queues(self.cpus) {
            1 => 2 * depth.min(DEFAULT_REQUESTS),
            _ => depth,
        }
    }
}

impl Default for Form {
    /// Returns the form of the block layer in kernels with one request queue a device (before
    /// blk-mq), on one CPU, without writeback throttling.
    fn default() -> Self {
        Self {
            multi: false,
            throttled: false,
            registered: 0,
            cpus: 1,
            idling: CfqIdling::InOrder,
            ticks: (0, 0),
        }
    }
}
