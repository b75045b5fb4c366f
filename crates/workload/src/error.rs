//! The error of a command line.

use std::ops::Range;

/// The reason why a command line was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}; accepted: {accepted}")]
pub struct CommandError {
    /// The faulty part of the line in bytes, on character boundaries. Empty where something is
    /// missing.
    pub span: Range<usize>,
    /// The problem.
    pub message: String,
    /// The input that would be accepted.
    pub accepted: String,
}

impl CommandError {
    /// Builds the error for a part of a command line: its range of bytes, the problem, and the
    /// input that would be accepted.
    pub(crate) fn new(
        span: Range<usize>,
        message: impl Into<String>,
        accepted: impl Into<String>,
    ) -> Self {
        Self {
            span,
            message: message.into(),
            accepted: accepted.into(),
        }
    }
}
