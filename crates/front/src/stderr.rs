//! Standard error.

use std::io::Write;

/// Prints `text` to standard error, escaped as [`lab::diagnostic::plain`] does; errors are ignored.
pub fn say(text: &str) {
    say_escaped(&lab::diagnostic::plain(text));
}

/// Prints a text to standard error as it is. The names in it were escaped before it was coloured.
/// Errors are ignored.
pub fn say_escaped(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
