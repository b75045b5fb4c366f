//! Standard output.

use crate::failure::Failure;
use comfy_table::{ContentArrangement, Table};
use lab::report::RULED;
use std::io::{ErrorKind, Write};

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
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header.into_iter().map(|s| s.to_string()));
    table
}
