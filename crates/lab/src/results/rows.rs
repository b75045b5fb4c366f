//! `rows.csv`, `rows.json` and `tasks.csv` of a results folder.

use super::csv::{Csv, cell_fields, number};
use super::{File, Format, finished};
use crate::figures::stats::summary;
use crate::model::{Better, Outcomes};
use crate::rows::{Columns, Group, TIME_COLUMNS, groups, time_columns};
use serde::Serialize;

/// Writes `rows.csv`: one line for each cell of the matrix and row.
pub struct RowsCsv;

impl Format for RowsCsv {
    /// Writes `rows.csv`: a line for each cell and report row, with statistics and the change
    /// against the baseline.
    fn files(
        &self,
        outcomes: &Outcomes,
        emit: &mut dyn FnMut(File) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let experiment = &outcomes.experiment;
        let groups = groups(outcomes);
        let columns = Columns::new(&groups);
        let mut csv = Csv::of_cells(
            experiment,
            [
                "block",
                "row",
                "unit",
                "better",
                "n",
                "min",
                "mean",
                "stddev",
                "max",
                "mean_low",
                "mean_high",
                "change_percent",
                "p",
                "significant",
                "unsupported",
            ],
        );
        for cell in &experiment.cells {
            for (line, c) in columns.of(cell) {
                let s = summary(&c.values);
                let opt = |x: Option<f64>| x.map(number).unwrap_or_default();
                let mut row = cell_fields(experiment, cell);
                row.extend([
                    line.block.into(),
                    line.name.clone(),
                    line.unit.clone(),
                    better(line.better).into(),
                    c.values.len().to_string(),
                    opt(s.as_ref().map(|s| s.min)),
                    opt(c.mean),
                    opt(c.stddev),
                    opt(s.as_ref().map(|s| s.max)),
                    opt(c.interval.map(|i| i.0)),
                    opt(c.interval.map(|i| i.1)),
                    opt(c.change_percent),
                    opt(c.p),
                    c.p.map_or(String::new(), |_| c.significant.to_string()),
                    c.unsupported.unwrap_or_default().into(),
                ]);
                csv.row(row);
            }
        }
        emit(File::new("rows.csv", csv.into_bytes()))
    }
}

/// Returns the word for the direction in which a figure gets better.
fn better(b: Better) -> &'static str {
    match b {
        Better::Lower => "lower",
        Better::Higher => "higher",
        Better::Neither => "neither",
    }
}

/// Writes `rows.json`: the rows with the values of every iteration.
pub struct RowsJson;

#[derive(Serialize)]
struct Document<'a> {
    lowmark: &'static str,
    experiment: &'a str,
    groups: Vec<Group>,
}

impl Format for RowsJson {
    /// Passes `rows.json` with the report rows of all cells to `emit`.
    fn files(
        &self,
        outcomes: &Outcomes,
        emit: &mut dyn FnMut(File) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        emit(File::new("rows.json", rows_json(outcomes)))
    }
}

/// Returns the text of `rows.json`: the report rows of each group of cells, with the values of
/// every iteration.
pub fn rows_json(outcomes: &Outcomes) -> String {
    let document = Document {
        lowmark: env!("CARGO_PKG_VERSION"),
        experiment: &outcomes.experiment.name,
        groups: groups(outcomes),
    };
    let mut text = serde_json::to_string_pretty(&document).expect("plain data has a JSON form");
    text.push('\n');
    text
}

/// Writes `tasks.csv`: the parts of the time of each class of tasks in seconds, one line for each
/// iteration and class. The columns up to `direct_reclaim` add up to `lifetime`; those with
/// `reclaim_` split `direct_reclaim`.
pub struct TasksCsv;

impl Format for TasksCsv {
    /// Writes `tasks.csv`: a line for each iteration and class of tasks, with the parts of its time
    /// in seconds.
    fn files(
        &self,
        outcomes: &Outcomes,
        emit: &mut dyn FnMut(File) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let seconds = |name: &str| format!("{} [s]", name.replace(' ', "_"));
        let parts = sim::account::Split::default().parts();
        let mut header = Vec::from(["iteration", "class", "tasks"].map(String::from));
        header.extend(TIME_COLUMNS.map(seconds));
        header.extend(parts.map(|(name, _)| format!("reclaim_{}", seconds(name))));
        let mut csv = Csv::of_cells(&outcomes.experiment, header);
        for (cell, i, result) in finished(outcomes) {
            for t in &result.tasks {
                let mut row = cell_fields(&outcomes.experiment, cell);
                row.extend([i.to_string(), t.class.name().into(), t.tasks.to_string()]);
                row.extend(time_columns(t).map(number));
                row.extend(t.in_reclaim.parts().map(|(_, ns)| number(ns as f64 / 1e9)));
                csv.row(row);
            }
        }
        emit(File::new("tasks.csv", csv.into_bytes()))
    }
}
