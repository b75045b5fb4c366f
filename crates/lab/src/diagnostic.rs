//! What is said about wrong input: one error that names the file, the line, the key and what would
//! be accepted.

use miette::{LabeledSpan, NamedSource, SourceCode};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A text that somebody wrote, with the name under which they know it.
#[derive(Clone)]
pub struct Source(Arc<NamedSource<String>>);

impl Source {
    /// A text under the name of its file.
    pub fn new(name: impl AsRef<str>, text: impl Into<String>) -> Self {
        Self(Arc::new(NamedSource::new(name, text.into())))
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// The text.
    pub fn text(&self) -> &str {
        self.0.inner()
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({})", self.name())
    }
}

/// A part of a source.
#[derive(Debug, Clone)]
pub struct Place {
    /// The text it lies in.
    pub source: Source,
    /// Its bytes.
    pub span: Range<usize>,
}

impl Place {
    /// Line and column, both from 1; columns count characters.
    pub fn line_column(&self) -> (usize, usize) {
        let text = self.source.text();
        let mut at = self.span.start.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let before = &text[..at];
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        (
            before.matches('\n').count() + 1,
            before[line_start..].chars().count() + 1,
        )
    }

    /// The text at this place.
    pub fn text(&self) -> &str {
        self.source.text().get(self.span.clone()).unwrap_or("")
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.line_column();
        write!(f, "{}:{line}:{column}", self.source.name())
    }
}

/// One thing that is wrong with what the user gave.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Diagnostic {
    /// What is wrong, with the key or the file.
    pub message: String,
    /// What would be accepted.
    pub accepted: String,
    /// Where; absent if it is not in a text (a missing file, a command line option).
    pub place: Option<Box<Place>>,
}

impl Diagnostic {
    /// Something wrong that stands in a text.
    pub fn at(place: &Place, message: impl Into<String>, accepted: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            accepted: accepted.into(),
            place: Some(Box::new(place.clone())),
        }
    }

    /// Something wrong that stands nowhere.
    pub fn placeless(message: impl Into<String>, accepted: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            accepted: accepted.into(),
            place: None,
        }
    }
}

impl miette::Diagnostic for Diagnostic {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        if self.accepted.is_empty() {
            None
        } else {
            Some(Box::new(&self.accepted))
        }
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.place.as_ref().map(|p| &*p.source.0 as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let place = self.place.as_ref()?;
        Some(Box::new(std::iter::once(LabeledSpan::new(
            Some("here".into()),
            place.span.start,
            place.span.len(),
        ))))
    }
}

/// The word of `known` that `word` was probably meant to be.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|k| {
            (
                strsim::damerau_levenshtein(&word.to_lowercase(), &k.to_lowercase()),
                k,
            )
        })
        .filter(|(distance, k)| *distance <= 1.max(k.len().max(word.len()) / 3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, k)| k)
}

/// The sentence that lists what is accepted, with a guess first if there is one.
pub fn one_of(word: &str, known: &[&str]) -> String {
    let list = match known {
        [] => "nothing".into(),
        known => known.join(", "),
    };
    match did_you_mean(word, known.iter().copied()) {
        Some(guess) => format!("did you mean `{guess}`? accepted: {list}"),
        None => format!("accepted: {list}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_characters_from_one() {
        let source = Source::new("f", "äb\ncé = 1");
        let at = |start| {
            Place {
                source: source.clone(),
                span: start..start,
            }
            .line_column()
        };
        assert_eq!(at(0), (1, 1));
        assert_eq!(at(2), (1, 2));
        assert_eq!(at(4), (2, 1));
        assert_eq!(at(7), (2, 3));
        assert_eq!(at(999), (2, 7));
    }

    #[test]
    fn guesses_are_near() {
        let known = ["cpus", "hz", "node", "dirty_limits"];
        assert_eq!(did_you_mean("cpu", known), Some("cpus"));
        assert_eq!(did_you_mean("dirty-limit", known), Some("dirty_limits"));
        assert_eq!(did_you_mean("elephant", known), None);
        assert_eq!(did_you_mean("", []), None);
    }
}
