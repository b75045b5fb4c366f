//! Figures of a cell's iterations: what they were, their statistics, and what can be claimed of one
//! policy against another by them.

pub mod claim;
pub mod latency;
pub mod slowest;
pub mod stats;
pub mod values;
pub mod waits;
