//! Tables of a command on standard output: lines around the header and at the end, fitted to the
//! screen.

use super::{RULED, Screen};
use comfy_table::{CellAlignment, Table};
use std::fmt;
use std::io::IsTerminal;
use std::ops::{Deref, DerefMut};

/// The narrowest screen that tables are fitted to: below it no figure would fit.
const NARROWEST: u16 = 40;

impl Screen {
    /// Returns the properties of standard output: the width from `COLUMNS` or the terminal, else
    /// unlimited; colour for terminals, unless `NO_COLOR` is set (no-color.org).
    pub fn here() -> Self {
        let out = std::io::stdout();
        let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
        let terminal = || Table::new().width().filter(|_| out.is_terminal());
        let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty());
        Self {
            width: columns.or_else(terminal).map(|w: u16| w.max(NARROWEST)),
            colour: out.is_terminal() && !set("NO_COLOR"),
        }
    }

    /// Makes a table with lines around its header and at its end, at most as wide as this screen.
    pub fn table<S: ToString>(self, header: impl IntoIterator<Item = S>) -> Ruled {
        let mut table = Table::new();
        table.load_style(RULED);
        table.set_header(header.into_iter().map(|s| s.to_string()));
        Ruled {
            table,
            screen: self,
        }
    }
}

/// A table that is fitted to its screen when it is printed.
pub struct Ruled {
    table: Table,
    screen: Screen,
}

impl Deref for Ruled {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.table
    }
}

impl DerefMut for Ruled {
    fn deref_mut(&mut self) -> &mut Table {
        &mut self.table
    }
}

impl fmt::Display for Ruled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.screen.fitted(self.table.clone()).fmt(f)
    }
}

impl Ruled {
    /// Aligns all columns to the right, as figures are.
    pub fn align_right(&mut self) {
        for column in self.table.column_iter_mut() {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}
