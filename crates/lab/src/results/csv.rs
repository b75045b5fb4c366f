//! Writes comma-separated values by RFC 4180, with bare line feeds.

use crate::model::{Cell, Experiment};

/// A table under construction.
#[derive(Default)]
pub struct Csv {
    text: String,
}

impl Csv {
    /// Starts a table in which each row belongs to a cell; writes its header: the columns that
    /// identify a cell ([`cell_fields`]), then `columns`.
    pub fn of_cells<S: Into<String>>(
        experiment: &Experiment,
        columns: impl IntoIterator<Item = S>,
    ) -> Self {
        let mut header: Vec<String> = FIXED.map(String::from).into();
        header.extend(other_axes(experiment).cloned());
        header.extend(columns.into_iter().map(Into::into));
        let mut csv = Self::default();
        csv.row(header);
        csv
    }

    /// Adds a row; fields with commas, quotes or line breaks are quoted.
    pub fn row<S: AsRef<str>>(&mut self, fields: impl IntoIterator<Item = S>) {
        for (i, field) in fields.into_iter().enumerate() {
            if i > 0 {
                self.text.push(',');
            }
            let field = field.as_ref();
            if field.contains([',', '"', '\n', '\r']) {
                self.text.push('"');
                self.text.push_str(&field.replace('"', "\"\""));
                self.text.push('"');
            } else {
                self.text.push_str(field);
            }
        }
        self.text.push('\n');
    }

    /// Returns the finished table.
    pub fn into_bytes(self) -> Vec<u8> {
        self.text.into_bytes()
    }
}

/// Formats a number with the shortest text that reads back as the same number; empty for NaN and
/// infinity.
pub fn number(x: f64) -> String {
    if x.is_finite() {
        x.to_string()
    } else {
        String::new()
    }
}

/// Returns the values of the columns that identify a cell: machine, filesystem, policy, then the
/// experiment's other axes; empty for an axis that the cell does not have.
pub fn cell_fields(experiment: &Experiment, cell: &Cell) -> Vec<String> {
    let mut fields = vec![
        cell.machine.clone(),
        cell.filesystem.clone(),
        cell.policy.clone(),
    ];
    fields.extend(other_axes(experiment).map(|axis| {
        cell.axes
            .iter()
            .find(|(k, _)| k == axis)
            .map_or_else(String::new, |(_, v)| v.clone())
    }));
    fields
}

const FIXED: [&str; 3] = ["machine", "filesystem", "policy"];

/// Yields the axes of an experiment that have no fixed column.
fn other_axes(experiment: &Experiment) -> impl Iterator<Item = &String> {
    experiment
        .axes
        .iter()
        .filter(|axis| !FIXED.contains(&axis.as_str()))
}
