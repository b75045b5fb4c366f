//! Errors of reading a trace.

/// The reason why a trace can't be read, and the place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {message}", place(self))]
pub struct TraceError {
    /// The trace's file.
    pub file: String,
    /// The record, counted from 1: the line of a text format. `None` if the whole file is meant.
    pub record: Option<u64>,
    /// Whether records are lines of text.
    pub text: bool,
    /// The problem.
    pub message: String,
    /// The input that would be accepted.
    pub accepted: String,
}

/// Returns the part of the error message that says where: the record's number or its line, or
/// nothing if the error is about the whole file.
fn place(e: &TraceError) -> String {
    match e.record {
        Some(n) if e.text => format!(": record at line {n}"),
        Some(n) => format!(": record {n}"),
        None => String::new(),
    }
}

/// An error in one record; the reader adds file and number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub message: String,
    pub accepted: &'static str,
}

impl Fault {
    /// Makes a fault (an error in one record, without file and number); `accepted` is the input
    /// that would be accepted.
    #[cold]
    pub fn new(message: impl Into<String>, accepted: &'static str) -> Self {
        Self {
            message: message.into(),
            accepted,
        }
    }

    /// Makes a fault that quotes the text it is about, cut to 60 bytes. `what` begins the message,
    /// `accepted` is the input that would be accepted.
    #[cold]
    pub fn about(what: &str, text: &[u8], accepted: &'static str) -> Self {
        let shown = String::from_utf8_lossy(&text[..text.len().min(60)]);
        let dots = if text.len() > 60 { "…" } else { "" };
        Self::new(format!("{what} `{}{dots}`", shown.escape_debug()), accepted)
    }
}
