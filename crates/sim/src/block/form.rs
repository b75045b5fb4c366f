//! The form that a policy gives to request queues.

use super::{Device, Limits};
use crate::params::Params;
use crate::spec::Scheduler;
use mm::Policy;
use mm::policy::{CfqIdling, RequestQueue, WritebackThrottling};

/// Requests that Linux gives to a queue by itself (`BLKDEV_DEFAULT_RQ`).
const DEFAULT_REQUESTS: u32 = 128;

/// What the policy says of request queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// Tags in the place of requests of each class, and elevators that go by direction.
    pub multi: bool,
    /// Writes are held back before they get a request.
    pub throttled: bool,
    /// The depth that the device is registered with, if that is more than its own.
    pub registered: u32,
    /// CPUs of the machine: as many hardware queues has a device that can have several.
    pub cpus: u32,
    /// For whom CFQ keeps the disk.
    pub idling: CfqIdling,
    /// Nanoseconds between two ticks, and when the first one was; 0, 0: timers know none.
    pub ticks: (u64, u64),
}

impl Form {
    /// What a policy says of them.
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

    /// The limits of a device's queue: `nr_requests` of a class for each of its members, or, without a scheduler,
    /// the tags of its hardware queues for both classes together. Before `multi` those were never fewer than
    /// `nr_requests`, as with virtio disks of the time (128).
    pub(super) fn limits(&self, device: &Device, scheduler: Scheduler, params: &Params) -> Limits {
        let said = params.nr_requests as u32 * device.members();
        match (scheduler, self.multi) {
            (Scheduler::None, true) => Limits::of_tags(device.depth(), params),
            (Scheduler::None, false) => Limits::of_tags(said.max(device.depth()), params),
            _ => Limits::new(said, params),
        }
    }

    /// The depth that a device registers with, by which its throttle and its scheduler go, whatever `nr_requests`
    /// is set to afterwards: that of a scheduler with tags for twice the device's depth (block/blk-mq-sched.c
    /// `blk_mq_init_sched`), or, of a device with several hardware queues, of one of them, as such a device begins
    /// without a scheduler.
    pub(super) fn registered(&self, device: &Device) -> u32 {
        let depth = device.depth_of_queue().max(self.registered);
        match device.queues(self.cpus) {
            1 => 2 * depth.min(DEFAULT_REQUESTS),
            _ => depth,
        }
    }
}

impl Default for Form {
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
