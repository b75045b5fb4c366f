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
    /// For whom CFQ keeps the disk.
    pub idling: CfqIdling,
}

impl Form {
    /// What a policy says of them.
    pub fn of(policy: &Policy) -> Self {
        Self {
            multi: policy.request_queue == RequestQueue::Multi,
            throttled: policy.writeback_throttling == WritebackThrottling::Wbt,
            idling: policy.cfq_idling,
        }
    }
}

impl Default for Form {
    fn default() -> Self {
        Self {
            multi: false,
            throttled: false,
            idling: CfqIdling::InOrder,
        }
    }
}
