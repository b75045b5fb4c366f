//! Measures a filesystem's device with one temporary file, and fits a disk model to it.
//!
//! The file is unlinked as soon as it is open, so nothing is left behind however the program ends.
//! Writing is bounded by the file's size a step, time by a deadline that every operation looks at.
//! Memory: one operation's buffer a thread, 32 threads at most.
//!
//! - [`load`]: what is measured; [`mod@file`] the file; [`mod@measure`] the measuring.
//! - [`predict`]: the same loads on a disk model in simulated time; [`mod@fit`] the search for the
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

/// The smallest file that is probed with.
pub const LEAST_SIZE: u64 = 16 << 20;
/// The largest.
pub const MOST_SIZE: u64 = 64 << 30;

/// What to probe.
#[derive(Debug, Clone)]
pub struct Options {
    /// A folder on the filesystem.
    pub dir: PathBuf,
    /// Size of the temporary file in bytes.
    pub size: u64,
    /// The most time that measuring may take.
    pub time: Duration,
}

/// Why a probe gave no measurements.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The folder or the size can't be used.
    #[error("{what}")]
    Input {
        /// What is wrong.
        what: String,
        /// What would be accepted.
        accepted: String,
    },
    /// The system refused something.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The user stopped it.
    #[error("stopped; the temporary file is gone")]
    Stopped,
}
