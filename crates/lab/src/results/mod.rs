//! The results folder: inputs and outcomes of a run, for programs and spreadsheets.
//!
//! Equal outcomes give equal bytes: the files hold no times of day, host names or hash orders. A
//! list of the files ([`MANIFEST`]) says which files may be replaced or removed; no others ever
//! are.

pub(crate) mod csv;
mod iterations;
mod json;
mod latency;
pub mod log;
mod manifest;
mod place;
mod rows;
mod series;
mod single;
mod slowest;
pub mod stored;
mod summary;
pub mod table;
#[cfg(test)]
mod tests;
mod unchanged;
mod waits;

pub use json::to_json;
pub use manifest::{Kind, MANIFEST, hex};
pub use place::{
    ClaimedFolder, Fill, OutputError, Published, Resumption, Terms, complete_folder, is_begun,
    partial_folder, sweep,
};
pub use rows::rows_json;
pub use series::file_name;
pub use single::Single;
pub use unchanged::{Unchanged, bytes_unchanged, must_be_unchanged, read_alone, text_unchanged};

use crate::model::{Cell, Outcomes};
use sim::RunResult;

/// A file of the results folder: its path inside the folder, with `/`, and its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Relative path.
    pub path: String,
    /// Contents.
    pub bytes: Vec<u8>,
}

impl File {
    /// Builds a file from a path and its contents.
    pub fn new(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.into(),
            bytes: bytes.into(),
        }
    }
}

/// A kind of file in a results folder.
pub trait Format {
    /// Passes the files to `emit` one by one, so that only one is in memory at a time.
    ///
    /// # Errors
    /// Returns an error of `emit` at once.
    fn files(
        &self,
        outcomes: &Outcomes,
        emit: &mut dyn FnMut(File) -> std::io::Result<()>,
    ) -> std::io::Result<()>;
}

/// Returns the writers of all files that every results folder has.
fn formats() -> [&'static dyn Format; 11] {
    [
        &json::ResultsJson,
        &iterations::IterationsCsv,
        &summary::SummaryCsv,
        &series::SeriesCsv,
        &latency::AllocLatencyCsv,
        &slowest::AllocLatencyText,
        &waits::WaitsJson,
        &waits::WaitsText,
        &rows::RowsCsv,
        &rows::RowsJson,
        &rows::TasksCsv,
    ]
}

/// Passes the files of a results folder, and those of `extra`, to `emit` one by one.
///
/// # Errors
/// Returns an error of `emit` at once.
pub fn files(
    outcomes: &Outcomes,
    extra: &[File],
    emit: &mut dyn FnMut(File) -> std::io::Result<()>,
) -> std::io::Result<()> {
    for format in formats() {
        format.files(outcomes, emit)?;
    }
    extra.iter().try_for_each(|file| emit(file.clone()))
}

/// Yields every finished iteration in matrix order: its cell, its number within the cell, its
/// result.
pub(crate) fn finished(outcomes: &Outcomes) -> impl Iterator<Item = (&Cell, u32, &RunResult)> {
    outcomes
        .experiment
        .cells
        .iter()
        .zip(&outcomes.results)
        .flat_map(|(cell, results)| {
            (0u32..)
                .zip(results)
                .filter_map(move |(i, r)| Some((cell, i, r.as_ref()?)))
        })
}

/// Returns the word by which tables name the way in which a run ended.
fn outcome_name(result: &RunResult) -> &'static str {
    match result.outcome {
        sim::Outcome::Completed => "completed",
        sim::Outcome::Oom { .. } => "oom",
        sim::Outcome::Failed { .. } => "failed",
        sim::Outcome::TimeLimit => "time-limit",
        sim::Outcome::Interrupted => "interrupted",
    }
}
