//! Counters, and the page tracker.

pub mod tracker;
pub mod vmstat;
