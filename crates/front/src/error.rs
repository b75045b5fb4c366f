//! The error of the front for programs.

use std::fmt;

/// An error, in the words of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The text, which may have several lines.
    pub message: String,
    /// The exit code of the command line: 1 the system or a check, 2 wrong input, 130 stopped.
    pub code: u8,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
