//! The form that a policy gives to request queues.

use mm::Policy;
use mm::policy::{CfqIdling, RequestQueue, WritebackThrottling};

/// What the policy says of request queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// Tags in the place of requests of each class, and elevators that go by direction.
    pub multi: bool,
    /// Writes are held back before they get a request.
    pub throttled: bool,
    /// The depth that the device is registered with, if that is more than its own.
    pub registered: u32,
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
            idling: policy.cfq_idling,
            ticks: (0, 0),
        }
    }
}

impl Default for Form {
    fn default() -> Self {
        Self {
            multi: false,
            throttled: false,
            registered: 0,
            idling: CfqIdling::InOrder,
            ticks: (0, 0),
        }
    }
}
