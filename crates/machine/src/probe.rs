//! Measures a filesystem's device with one temporary file, and fits a disk model to it.
//!
//! The file is unlinked as soon as it is open, so no file is left however the program ends. Each
//! step writes at most the file's size, and every operation checks a deadline. Memory: one
//! operation's buffer per thread, for at most 32 threads.
//!
//! - [`load`]: the measured loads; [`mod@file`]: the file; [`mod@measure`]: the measurement.
//! - [`predict`]: the same loads on a disk model in simulated time; [`mod@fit`]: the search for the
//!   parameters with which both agree best.

pub mod file;
pub mod fit;
pub mod load;
pub mod measure;
pub mod predict;

pub use fit::{Fit, fit};
pub use load::{Load, Measured};
pub use measure::{Measurements, measure};

use std::path::PathBuf;
use std::time::Duration;

/// The smallest size of the probe's file, in bytes.
pub const LEAST_SIZE: u64 = 16 << 20;
/// The largest size, in bytes.
pub const MOST_SIZE: u64 = 64 << 30;

/// The options of a probe.
#[derive(Debug, Clone)]
pub struct Options {
    /// A folder on the filesystem.
    pub dir: PathBuf,
    /// Size of the temporary file in bytes.
    pub size: u64,
    /// The longest duration of the measurement.
    pub time: Duration,
}

/// The reason why a probe gave no measurements.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The folder or the size can't be used.
    #[error("{what}")]
    Input {
        /// The problem.
        what: String,
        /// The input that would be accepted.
        accepted: String,
    },
    /// The system refused an operation.
    #[error("{what}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// The user stopped the probe.
    #[error("stopped; the temporary file was removed")]
    Stopped,
}
