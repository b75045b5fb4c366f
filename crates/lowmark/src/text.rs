//! Standard output.

use crate::failure::Failure;
use comfy_table::Table;
use lab::report::RULED;
use lab::report::terminal::{Screen, TONES};
use std::borrow::Cow;
use std::fmt;
use std::io::{ErrorKind, IsTerminal, Write};
use std::ops::{Deref, DerefMut};

/// The narrowest screen that tables are fitted to: below it no figure would fit.
const NARROWEST: u16 = 40;

/// Returns the properties of standard output: the width from `COLUMNS` or the terminal, else
/// unlimited; colour for terminals, unless `NO_COLOR` is set (no-color.org).
pub fn screen() -> Screen {
    let out = std::io::stdout();
    let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    let terminal = || Table::new().width().filter(|_| out.is_terminal());
    let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty());
    Screen {
        width: columns.or_else(terminal).map(|w: u16| w.max(NARROWEST)),
        colour: out.is_terminal() && !set("NO_COLOR"),
    }
}

/// Escapes characters that a terminal obeys, except newlines and tabs, as
/// [`lab::diagnostic::plain`] does, so that a name from an untrusted source moves no cursor and
/// hides no text. With `tones`, the colours of tables ([`TONES`]) stay.
fn plain(text: &str, tones: bool) -> Cow<'_, str> {
    if !tones || !text.contains('\u{1b}') {
        return lab::diagnostic::plain(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        out += &lab::diagnostic::plain(&rest[..at]);
        let after = &rest[at..];
        let tone = TONES.iter().find(|tone| after.starts_with(**tone));
        let sequence = tone.map_or(&after[..1], |tone| &after[..tone.len()]);
        match tone {
            Some(tone) => out += tone,
            None => out += &lab::diagnostic::plain(sequence),
        }
        rest = &after[sequence.len()..];
    }
    out += &lab::diagnostic::plain(rest);
    out.into()
}

/// Prints `text` to standard error, escaped as [`lab::diagnostic::plain`] does; errors are ignored.
pub fn say(text: &str) {
    say_escaped(&lab::diagnostic::plain(text));
}

/// Prints a text to standard error as it is. The names in it were escaped before it was coloured.
/// Errors are ignored.
pub fn say_escaped(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Prints `text` to standard output, escaped as in [`plain`]. A closed pipe (`| head`) is no error,
/// other failures to write are.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let text = plain(text, screen().colour);
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Failure::System(miette::miette!(
            "can't write to standard output: {e}"
        ))),
        _ => Ok(()),
    }
}

/// Prints `value` to standard output as indented JSON.
pub fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(value).expect("plain data has a JSON form");
    text.push('\n');
    print(&text)
}

/// Width of lists in a pipe: what a reader of a log or a page has.
const LISTING: u16 = 100;

/// Returns the properties of standard output for a list of long texts: no wider than [`LISTING`]
/// where nothing says how wide it is.
pub fn listing() -> Screen {
    let screen = screen();
    Screen {
        width: Some(screen.width.unwrap_or(LISTING)),
        ..screen
    }
}

/// A table that is fitted to its screen when it is printed.
pub struct Fitted {
    table: Table,
    screen: Screen,
}

impl Deref for Fitted {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.table
    }
}

impl DerefMut for Fitted {
    fn deref_mut(&mut self) -> &mut Table {
        &mut self.table
    }
}

impl fmt::Display for Fitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.screen.fitted(self.table.clone()).fmt(f)
    }
}

/// Makes a table with lines around its header and at its end, at most as wide as the terminal.
pub fn table<S: ToString>(header: impl IntoIterator<Item = S>) -> Fitted {
    table_on(screen(), header)
}

/// Makes a table as [`table`] does, for this screen.
pub fn table_on<S: ToString>(screen: Screen, header: impl IntoIterator<Item = S>) -> Fitted {
    let mut table = Table::new();
    table.load_style(RULED);
    table.set_header(header.into_iter().map(|s| s.to_string()));
    Fitted { table, screen }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_names_are_written_out() {
        let name = "a\u{1b}[2Jb\u{7}\u{9b}1A\tc\n";
        assert_eq!(plain(name, false), "a\\u001b[2Jb\\u0007\\u009b1A\tc\n");
        assert_eq!(plain(name, true), "a\\u001b[2Jb\\u0007\\u009b1A\tc\n");
        // Only the colours of tables stay: others could make text invisible.
        let good = "\u{1b}[38;5;10m+1\u{1b}[39m";
        assert_eq!(plain(good, true), good);
        assert_eq!(plain(good, false), "\\u001b[38;5;10m+1\\u001b[39m");
        assert_eq!(
            plain("\u{1b}[8;31mred\u{1b}[0m\u{1b}]0;title\u{7}", true),
            "\\u001b[8;31mred\\u001b[0m\\u001b]0;title\\u0007"
        );
        assert_eq!(plain("\u{1b}", true), "\\u001b");
        assert!(matches!(plain("plain ä\n", true), Cow::Borrowed(_)));
        // An escaped JSON text still has the same value.
        let json = serde_json::to_string("\u{7f}\u{1b}").unwrap();
        let read: String = serde_json::from_str(&plain(&json, false)).unwrap();
        assert_eq!(read, "\u{7f}\u{1b}");
    }
}
