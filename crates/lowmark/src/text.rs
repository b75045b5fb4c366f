//! Standard output.

use crate::failure::Failure;
use comfy_table::{ContentArrangement, Table};
use lab::report::RULED;
use lab::report::terminal::Screen;
use std::io::{ErrorKind, IsTerminal, Write};

/// The narrowest screen that tables are fitted to: below it no figure would stand whole.
const NARROWEST: u16 = 40;

/// What standard output is: as many columns as `COLUMNS` says, or the terminal has; as many as are needed where
/// it is neither. Colour is for terminals, without `NO_COLOR` (no-color.org).
pub fn screen() -> Screen {
    let out = std::io::stdout();
    let said = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    let own = || Table::new().width().filter(|_| out.is_terminal());
    let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty());
    Screen {
        width: said.or_else(own).map(|w: u16| w.max(NARROWEST)),
        colour: out.is_terminal() && !set("NO_COLOR"),
    }
}

/// Prints `text`; a reader that has gone away (`| head`) is no error.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Failure::System(miette::miette!(
            "can't write to standard output: {e}"
        ))),
        _ => Ok(()),
    }
}

/// Prints `value` as JSON.
pub fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(value).expect("plain data has a JSON form");
    text.push('\n');
    print(&text)
}

/// A table with lines around its header and at its end, as wide as the terminal at most.
pub fn table<S: ToString>(header: impl IntoIterator<Item = S>) -> Table {
    let mut table = Table::new();
    table.load_style(RULED);
    if let Some(width) = screen().width {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(width);
    }
    table.set_header(header.into_iter().map(|s| s.to_string()));
    table
}
