//! `series/<n>-<cell>.csv`: the time series of each cell's first iteration.

use super::csv::{Csv, number};
use super::{File, Format};
use crate::model::Outcomes;

/// Writes one file for each sampled cell, numbered in matrix order from 1, with a row for each
/// sample.
pub struct SeriesCsv;

impl Format for SeriesCsv {
    /// Writes the time series of the first iteration of each cell that was sampled, a file each.
    fn files(
        &self,
        outcomes: &Outcomes,
        emit: &mut dyn FnMut(File) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let cells = &outcomes.experiment.cells;
        let width = cells.len().to_string().len();
        for (n, (cell, results)) in (1..).zip(cells.iter().zip(&outcomes.results)) {
            let Some(Some(first)) = results.first() else {
                continue;
            };
            let series = &first.series;
            if series.t.is_empty() {
                continue;
            }
            let mut csv = Csv::default();
            let heads = series
                .columns
                .iter()
                .map(|c| format!("{} {} [{}]", c.name, c.scope, c.unit));
            csv.row(std::iter::once("time [s]".to_owned()).chain(heads));
            for (i, t) in series.t.iter().enumerate() {
                let values = series.columns.iter().map(|c| c.values.get(i).copied());
                csv.row(
                    std::iter::once(Some(*t))
                        .chain(values)
                        .map(|v| v.map(number).unwrap_or_default()),
                );
            }
            let path = format!("series/{n:0width$}-{}.csv", file_name(&cell.key()));
            emit(File::new(path, csv.into_bytes()))?;
        }
        Ok(())
    }
}

/// Turns a cell's key into a file name that every filesystem accepts: other characters become `-`,
/// and the name is cut to 120 bytes.
pub fn file_name(key: &str) -> String {
    let mut name = String::new();
    for c in key.chars() {
        let plain = c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '=');
        if plain {
            name.push(c);
        } else if !name.ends_with('-') {
            name.push('-');
        }
    }
    name.truncate(120);
    name.trim_end_matches(['-', '.']).to_owned()
}
