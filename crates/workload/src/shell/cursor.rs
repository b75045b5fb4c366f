//! A position in a line.

use std::ops::Range;

/// Reads a line character by character and skips line continuations.
pub(super) struct Cursor<'a> {
    pub(super) line: &'a str,
    /// The next byte; always on a character boundary.
    pub(super) pos: usize,
    /// The variables of the loops around it, the innermost last: name and value.
    pub(super) variables: Vec<(String, String)>,
}

impl Cursor<'_> {
    /// Returns the value of a loop's variable; `None` if there is none of that name.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        let found = self.variables.iter().rev().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the next character as it stands in the line, without moving; `None` at the end.
    pub(super) fn raw(&self) -> Option<char> {
        self.line[self.pos..].chars().next()
    }

    /// Returns the next character after any line continuation, which is skipped; `None` at the end.
    pub(super) fn peek(&mut self) -> Option<char> {
        while self.line[self.pos..].starts_with("\\\n") {
            self.pos += 2;
        }
        self.raw()
    }

    /// Moves past the next character.
    pub(super) fn bump(&mut self) {
        self.pos += self.raw().map_or(0, char::len_utf8);
    }

    /// Moves past `c` if it is the next character; returns true if it was.
    pub(super) fn eat(&mut self, c: char) -> bool {
        let next = self.peek() == Some(c);
        if next {
            self.bump();
        }
        next
    }

    /// Returns the next character's place in the line, as a range of bytes; empty at the end of the
    /// line.
    pub(super) fn here(&mut self) -> Range<usize> {
        let len = self.peek().map_or(0, char::len_utf8);
        self.pos..self.pos + len
    }
}
