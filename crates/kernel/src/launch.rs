//! How the process of a guest is started, whichever back end it is of.

use std::fs::File;
use std::path::PathBuf;

/// How a guest's process is started.
pub(crate) struct Launch {
    /// The executable.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its variables.
    pub env: Vec<(&'static str, String)>,
    /// The file in the run's folder for its standard output and error.
    pub output: &'static str,
    /// Files that it starts with, and their descriptors.
    pub files: Vec<(File, i32)>,
}

/// The file for QEMU's own messages.
pub(crate) const ERRORS: &str = "qemu";
