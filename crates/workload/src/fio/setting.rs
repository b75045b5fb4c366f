//! One line of a section: a key and its value.

use crate::units::{self, Suffixes};
use std::ops::Range;

/// Suffixes of sizes: powers of 1024, and with an `i` of 1000.
const SIZES: Suffixes = &[
    ("", 1),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
    ("p", 1 << 50),
    ("ki", 1_000),
    ("mi", 1_000_000),
    ("gi", 1_000_000_000),
    ("ti", 1_000_000_000_000),
    ("pi", 1_000_000_000_000_000),
];

/// Suffixes of times, in nanoseconds.
const TIMES: Suffixes = &[
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// The reason why a job file can't be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}; accepted: {accepted}")]
pub struct FioError {
    /// The faulty bytes of the file.
    pub span: Range<usize>,
    /// The line, from 1.
    pub line: usize,
    /// The problem, with the key.
    pub message: String,
    /// The input that would be accepted.
    pub accepted: String,
}

/// A `key=value` line.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub key: String,
    pub value: Option<String>,
    pub span: Range<usize>,
    /// The line number, from 1.
    pub line: usize,
}

impl Setting {
    /// Builds an error about this line, with the key before the message.
    pub fn error(&self, message: impl Into<String>, accepted: impl Into<String>) -> FioError {
        FioError {
            span: self.span.clone(),
            line: self.line,
            message: format!("`{}`: {}", self.key, message.into()),
            accepted: accepted.into(),
        }
    }

    /// Returns the value as text; fails if it is missing or empty.
    pub fn text(&self) -> Result<&str, FioError> {
        match self.value.as_deref() {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(self.error("a value is missing", format!("{}=…", self.key))),
        }
    }

    /// Returns the value of a switch; like in fio, a key without a value is on.
    pub fn switch(&self) -> Result<bool, FioError> {
        match self.value.as_deref() {
            None | Some("1" | "true") => Ok(true),
            Some("0" | "false") => Ok(false),
            Some(other) => Err(self.error(format!("`{other}` is not 0 or 1"), "0 or 1")),
        }
    }

    /// Parses a whole number in `range`, with fio's suffixes (k, m, g, … are powers of 1024).
    pub fn number(&self, range: std::ops::RangeInclusive<u64>) -> Result<u64, FioError> {
        let text = self.text()?;
        let (min, max) = (*range.start(), *range.end());
        scaled(text).filter(|n| range.contains(n)).ok_or_else(|| {
            let accepted = format!(
                "a whole number from {min} to {max}, optionally with a suffix: k, m, g, t are \
                 powers of 1024"
            );
            self.error(format!("`{text}` does not fit here"), accepted)
        })
    }

    /// Parses one number in `range`, or one for reads and one for writes (a third for trims is
    /// ignored). Returns the values for reads and for writes.
    pub fn pair(&self, range: &std::ops::RangeInclusive<u64>) -> Result<[u64; 2], FioError> {
        let text = self.text()?;
        let parts: Vec<&str> = text.split(',').collect();
        let bad = || {
            self.error(
                format!("`{text}` does not fit here"),
                format!(
                    "a size from {} to {}, or two with a comma, for reads and writes",
                    range.start(),
                    range.end()
                ),
            )
        };
        let number = |t: &str| scaled(t).filter(|n| range.contains(n)).ok_or_else(bad);
        match parts[..] {
            [one] => number(one).map(|n| [n, n]),
            [read, write] => Ok([number(read)?, number(write)?]),
            [read, write, _trim] => Ok([number(read)?, number(write)?]),
            _ => Err(bad()),
        }
    }

    /// Parses a time and returns nanoseconds; a number without a suffix counts `unit` nanoseconds.
    pub fn time(&self, unit: u64) -> Result<u64, FioError> {
        let text = self.text()?;
        let ns = match units::whole(text) {
            Some(n) => n.checked_mul(unit),
            None => units::scaled(text, TIMES),
        };
        ns.filter(|ns| *ns <= 1 << 60).ok_or_else(|| {
            self.error(
                format!("`{text}` is not a time"),
                "a whole number, optionally with a unit: us, ms, s, m, h or d",
            )
        })
    }
}

/// Parses a whole number with fio's suffixes; case and a final `b` are ignored. `None` if the text
/// is none.
pub(super) fn scaled(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    units::scaled(text.strip_suffix('b').unwrap_or(&text), SIZES)
}
