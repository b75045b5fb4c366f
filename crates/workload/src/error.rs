//! Why a command line is refused.

use std::ops::Range;

/// Why a command line was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}; accepted: {accepted}")]
pub struct CommandError {
    /// The part of the line that is at fault, in bytes; always on character boundaries. Empty if
    /// something is missing there.
    pub span: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub accepted: String,
}

impl CommandError {
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
