//! Writeback: states of dirty pages, dirty limits, throttling of dirtiers, the flusher.

pub(crate) mod bandwidth;
pub mod bdi;
pub mod dirty;
pub mod flusher;
pub mod fresh;
pub(crate) mod group_domain;
mod inode;
pub(crate) mod pace;
pub(crate) mod page;
pub(crate) mod pageout_work;
pub(crate) mod proportion;
pub(crate) mod queues;
pub(crate) mod shared;
pub mod throttle;
