//! What is counted and recorded.

pub mod tracker;
pub mod vmstat;
