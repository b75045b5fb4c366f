//! Standard output.

use front::failure::Failure;
use lab::terminal::ruled::Ruled;
use lab::terminal::{Screen, TONES};
use std::borrow::Cow;
use std::io::{ErrorKind, Write};

/// Returns the properties of standard output, [`Screen::here`].
pub fn screen() -> Screen {
    Screen::here()
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

/// Makes a table with lines around its header and at its end, at most as wide as the terminal.
pub fn table<S: ToString>(header: impl IntoIterator<Item = S>) -> Ruled {
    screen().table(header)
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
