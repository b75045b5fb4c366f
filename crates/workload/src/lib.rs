//! Workload programs, written once against [`Host`] and run in every world.
#![forbid(unsafe_code)]

pub mod host;

pub use host::{Fd, Host, HostError, HostResult, OpenFlags};

/// A parsed command line. (Filled in by the workload modules.)
#[derive(Debug, Clone, PartialEq)]
pub enum Command {}
