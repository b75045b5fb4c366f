//! Words that record from where in the line each of their bytes came.

use std::ops::Range;

/// A word after quote removal and expansion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The argument that the program gets.
    pub text: String,
    /// The place of the word in the line, quotes included (bytes).
    pub span: Range<usize>,
    /// Whether any part was quoted, escaped or expanded.
    pub quoted: bool,
    pub(super) pieces: Vec<Piece>,
}

/// A run of bytes of a word with the same kind of origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// The offset of the run in the word's text.
    start: usize,
    /// The bytes of the line that the run came from.
    pub source: Range<usize>,
    /// Whether the line has the same bytes (no escape, no expansion).
    pub verbatim: bool,
}

impl Word {
    /// Makes an empty word that begins at offset `start` of the line.
    pub(super) fn new(start: usize) -> Self {
        Self {
            text: String::new(),
            span: start..start,
            quoted: false,
            pieces: Vec::new(),
        }
    }

    /// Appends a character that came from the bytes `source` of the line; `verbatim` is false after
    /// an escape. Adjacent verbatim characters share one piece.
    pub(super) fn push(&mut self, c: char, source: Range<usize>, verbatim: bool) {
        match self.pieces.last_mut() {
            Some(last) if verbatim && last.verbatim && last.source.end == source.start => {
                last.source.end = source.end;
            }
            _ => self.pieces.push(Piece {
                start: self.text.len(),
                source,
                verbatim,
            }),
        }
        self.text.push(c);
    }

    /// Appends the result of an expansion, all of which came from the bytes `source` of the line.
    pub(super) fn push_expansion(&mut self, text: &str, source: Range<usize>) {
        self.pieces.push(Piece {
            start: self.text.len(),
            source,
            verbatim: false,
        });
        self.text.push_str(text);
    }

    /// Returns the bytes of the line from which `range` of [`text`](Self::text) came, for errors
    /// that point at them; the whole word if the range is empty. An escape or an expansion is one
    /// unit.
    pub fn source(&self, range: Range<usize>) -> Range<usize> {
        // The last piece that begins at or before this offset of the text.
        let piece = |at| self.pieces[..self.pieces.partition_point(|p| p.start <= at)].last();
        if range.is_empty() {
            return self.span.clone();
        }
        let (Some(first), Some(last)) = (piece(range.start), piece(range.end - 1)) else {
            return self.span.clone();
        };
        let start = first.source.start
            + if first.verbatim {
                range.start - first.start
            } else {
                0
            };
        let end = if last.verbatim {
            (last.source.start + range.end - last.start).min(last.source.end)
        } else {
            last.source.end
        };
        start..end
    }
}
