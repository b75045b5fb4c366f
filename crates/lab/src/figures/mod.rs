//! Figures of a cell's iterations: their values, their statistics, and the claims about one policy
//! against another that they allow.

pub mod claim;
pub mod latency;
pub mod slowest;
pub mod stats;
pub mod values;
pub mod waits;
