//! One line of a section: a key and its value.

use super::job::Amount;
use crate::units::{self, Suffixes};
use std::ops::{Range, RangeInclusive};

/// Suffixes of sizes in multiples of the unit, for `kb_base=1024`: powers of 1024, and with an `i`
/// of 1000. With `kb_base=1000` the two are exchanged.
const POWERS: [&str; 5] = ["k", "m", "g", "t", "p"];

/// Suffixes of times, in nanoseconds.
const TIMES: Suffixes = &[
    ("us", 1_000),
    ("usec", 1_000),
    ("ms", 1_000_000),
    ("msec", 1_000_000),
    ("s", 1_000_000_000),
    ("sec", 1_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("hour", 3_600_000_000_000),
    ("hours", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
    ("day", 86_400_000_000_000),
    ("days", 86_400_000_000_000),
];

/// The reason why a job file can't be run: all lines that are refused, the first of which has its
/// place in `span` and `line`.
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

impl FioError {
    /// Returns one error that tells all of `errors`, each of the others with its line; `None`:
    /// there are none. Errors that several jobs have in common are told once.
    pub(super) fn joined(errors: Vec<Self>) -> Option<Self> {
        let mut distinct: Vec<Self> = Vec::new();
        for e in errors {
            let known = |d: &Self| d.span == e.span && d.message == e.message;
            if !distinct.iter().any(known) {
                distinct.push(e);
            }
        }
        distinct.sort_by_key(|e| e.line);
        let mut all = distinct.into_iter();
        let mut first = all.next()?;
        for e in all {
            first.message += &format!("; line {}: {}", e.line, e.message);
            if !first.accepted.contains(&e.accepted) {
                first.accepted += "; ";
                first.accepted += &e.accepted;
            }
        }
        Some(first)
    }
}

/// A `key=value` line.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub key: String,
    pub value: Option<String>,
    pub span: Range<usize>,
    /// The line number, from 1; of the `include` for a line of an included file.
    pub line: usize,
    /// The included file and the line there.
    pub file: Option<String>,
    /// `kb_base`: 1024 or 1000.
    pub base: u64,
}

impl Setting {
    /// Builds an error about this line, with the key before the message.
    pub fn error(&self, message: impl Into<String>, accepted: impl Into<String>) -> FioError {
        let place = self
            .file
            .as_ref()
            .map_or(String::new(), |f| format!("{f}: "));
        FioError {
            span: self.span.clone(),
            line: self.line,
            message: format!("{place}`{}`: {}", self.key, message.into()),
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

    /// Returns which of `words` the value is: the word's second part.
    pub fn choice<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, FioError> {
        let text = self.text()?;
        let found = words.iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.error(format!("`{text}` is not supported"), names.join(", "))
        })
    }

    /// Parses a number with fio's suffixes; `None` if the text is none.
    pub fn scaled(&self, text: &str) -> Option<u64> {
        scaled(text, self.base)
    }

    /// Parses a whole number in `range`, with fio's suffixes (k, m, g, … are powers of 1024).
    pub fn number(&self, range: RangeInclusive<u64>) -> Result<u64, FioError> {
        let text = self.text()?;
        self.one(text, &range)
    }

    /// Parses a part of the value as a whole number in `range`.
    pub fn one(&self, text: &str, range: &RangeInclusive<u64>) -> Result<u64, FioError> {
        let (min, max) = (*range.start(), *range.end());
        self.scaled(text)
            .filter(|n| range.contains(n))
            .ok_or_else(|| {
                let accepted = format!(
                    "a whole number from {min} to {max}, optionally with a suffix: k, m, g, t are \
                     powers of {}",
                    self.base
                );
                self.error(format!("`{text}` does not fit here"), accepted)
            })
    }

    /// Parses a number of bytes in `range`, or a percentage.
    pub fn amount(&self, range: RangeInclusive<u64>) -> Result<Amount, FioError> {
        let text = self.text()?;
        match text.strip_suffix('%') {
            Some(share) => match units::decimal(share, 3) {
                Some(share) if (1..=100_000).contains(&share) => Ok(Amount::Share(share)),
                _ => Err(self.error(
                    format!("`{text}` does not fit here"),
                    "a percentage from 0.001% to 100%, or bytes",
                )),
            },
            None => self.number(range).map(Amount::Bytes),
        }
    }

    /// Parses two numbers joined by `-` or `:`, in either order, or one, which stands for both.
    pub fn range(&self, text: &str, range: &RangeInclusive<u64>) -> Result<[u64; 2], FioError> {
        let (a, b) = match text.split_once(['-', ':']) {
            Some((a, b)) => (self.one(a.trim(), range)?, self.one(b.trim(), range)?),
            None => (self.one(text, range)?, self.one(text, range)?),
        };
        Ok([a.min(b), a.max(b)])
    }

    /// Parses one number in `range`, or one for reads and one for writes (a third for trims is
    /// checked and not used). An empty one is the one before it. Returns the values for reads and
    /// for writes.
    pub fn pair(&self, range: &RangeInclusive<u64>) -> Result<[u64; 2], FioError> {
        self.each(|text| self.one(text, range))
    }

    /// Applies `parse` to the parts for reads, for writes and for trims, which commas separate.
    /// An empty or missing part is the one before it.
    pub fn each<T: Clone>(
        &self,
        parse: impl Fn(&str) -> Result<T, FioError>,
    ) -> Result<[T; 2], FioError> {
        let text = self.text()?;
        let parts: Vec<&str> = text.split(',').map(str::trim).collect();
        if parts.len() > 3 || parts[0].is_empty() && parts.iter().all(|p| p.is_empty()) {
            return Err(self.error(
                format!("`{text}` does not fit here"),
                "one value, or up to three with commas: for reads, writes and trims",
            ));
        }
        let first = match parts[0] {
            "" => None,
            text => Some(parse(text)?),
        };
        let second = match parts.get(1) {
            None | Some(&"") => first.clone(),
            Some(text) => Some(parse(text)?),
        };
        if let Some(third) = parts.get(2).filter(|p| !p.is_empty()) {
            parse(third)?;
        }
        match (first, second) {
            (Some(a), Some(b)) => Ok([a, b]),
            (None, Some(b)) => Ok([b.clone(), b]),
            _ => Err(self.error(format!("`{text}` does not fit here"), "a value")),
        }
    }

    /// Parses a time and returns nanoseconds; a number without a suffix counts `unit` nanoseconds.
    pub fn time(&self, unit: u64) -> Result<u64, FioError> {
        self.time_of(self.text()?, unit)
    }

    /// Parses a part of the value as a time and returns nanoseconds.
    pub fn time_of(&self, text: &str, unit: u64) -> Result<u64, FioError> {
        let lower = text.to_ascii_lowercase();
        let ns = match units::whole(&lower) {
            Some(n) => n.checked_mul(unit),
            None => {
                let close: String = lower.split_ascii_whitespace().collect();
                units::scaled(&close, TIMES)
            }
        };
        ns.filter(|ns| *ns <= 1 << 60).ok_or_else(|| {
            self.error(
                format!("`{text}` is not a time"),
                "a whole number, optionally with a unit: us, ms, s, m, h or d",
            )
        })
    }
}

/// Parses a number as fio does: decimal digits, also with a fraction, or `0x` and hexadecimal ones;
/// then a suffix k, m, g, t or p, also with an `i`, and a final `b`. Case is ignored. `base` is
/// `kb_base`. `None` if the text is none.
pub(super) fn scaled(text: &str, base: u64) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    if let Some(digits) = lower.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16)
            .ok()
            .filter(|_| !digits.starts_with('+'));
    }
    let text = lower.strip_suffix('b').unwrap_or(&lower);
    let end = text
        .bytes()
        .take_while(|b| b.is_ascii_digit() || *b == b'.');
    let (number, suffix) = text.split_at(end.count());
    let number = number.trim();
    let suffix = suffix.trim();
    let factor = match suffix.strip_suffix('i') {
        _ if suffix.is_empty() => 1,
        Some(power) => exponent(power).map(|n| (2024 - base).pow(n))?,
        None => exponent(suffix).map(|n| base.pow(n))?,
    };
    match number.contains('.') {
        false => units::whole(number)?.checked_mul(factor),
        // Thousandths are exact for the suffixes from k on, up to a byte.
        true => {
            let thousandths = u128::from(units::decimal(number, 3)?);
            u64::try_from(thousandths * u128::from(factor) / 1000).ok()
        }
    }
}

/// Returns the power of the base that a suffix stands for.
fn exponent(suffix: &str) -> Option<u32> {
    let nth = POWERS.iter().position(|power| *power == suffix)?;
    Some(nth as u32 + 1)
}
