//! What is counted and recorded.

pub mod numa;
pub mod tracker;
pub mod vmstat;
