//! One clear error: file, line, column, key, what is wrong, what would be accepted.

use miette::{Diagnostic, NamedSource, SourceSpan};
use std::ops::Range;
use std::path::Path;

/// Wrong input of any kind.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{file}:{line}:{column}: {message}")]
pub struct InputError {
    /// The file, as the user named it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong, naming the key.
    pub message: String,
    /// What would be accepted.
    #[help]
    pub accepted: String,
    #[source_code]
    source_code: NamedSource<String>,
    #[label("here")]
    span: SourceSpan,
}

impl InputError {
    /// An error at a place in a text.
    pub fn at(
        path: &Path,
        text: &str,
        span: Range<usize>,
        message: impl Into<String>,
        accepted: impl Into<String>,
    ) -> Box<Self> {
        let start = (0..=span.start.min(text.len()))
            .rev()
            .find(|&i| text.is_char_boundary(i))
            .unwrap_or(0);
        let end = (span.end.clamp(start, text.len())..=text.len())
            .find(|&i| text.is_char_boundary(i))
            .unwrap_or(text.len());
        let before = &text[..start];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        let file = path.display().to_string();
        Box::new(Self {
            line,
            column,
            message: message.into(),
            accepted: accepted.into(),
            source_code: NamedSource::new(&file, text.to_string()),
            span: (start, end - start).into(),
            file,
        })
    }

    /// The byte range that the error points at.
    pub fn range(&self) -> Range<usize> {
        self.span.offset()..self.span.offset() + self.span.len()
    }
}

/// The known word nearest to a misspelt one.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|k| (strsim::damerau_levenshtein(word, k), k))
        .filter(|(d, k)| *d <= 1 + k.len() / 4)
        .min()
        .map(|(_, k)| k)
}
