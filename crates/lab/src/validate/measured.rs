//! The values of all judged figures of one policy: everything that judging a run needs, small
//! enough to be kept.

use super::PARTING;
use super::judged::{Figure, column};
use crate::figures::stats;
use crate::figures::values::completed;
use crate::model::Outcomes;
use serde::{Deserialize, Serialize};
use sim::result::{Column, Series};
use std::collections::BTreeMap;

/// Samples of the time series that are kept.
pub const KEPT_SAMPLES: usize = 100;

/// The values of a policy's iterations on one combination of the other axes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The policy's name.
    pub policy: String,
    /// The label of the other axes.
    pub group: String,
    /// Iterations that completed.
    pub completed: usize,
    /// Pages that the devices read and wrote, the median over iterations.
    pub moved: f64,
    /// Pages that a real kernel's allocator owns; `None` for the engine.
    pub managed: Option<f64>,
    /// The values of every figure of the list that the runs have, by name.
    pub figures: BTreeMap<String, Told>,
    /// The series that are searched for a parting, of the first iteration.
    pub course: Course,
}

/// The values of one figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Told {
    /// The unit of the values.
    pub unit: String,
    /// One value for each completed iteration.
    pub values: Vec<f64>,
}

/// The columns of [`PARTING`] over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Course {
    /// Seconds from the beginning of the workload.
    pub t: Vec<f64>,
    /// The columns by name, each as long as `t`, in pages.
    pub columns: BTreeMap<String, Vec<f64>>,
}

impl Measured {
    /// Collects the values of the judged figures from the completed iterations of the cell with
    /// index `nth`.
    pub fn of(outcomes: &Outcomes, nth: usize, figures: &[Figure]) -> Self {
        let cell = &outcomes.experiment.cells[nth];
        let results = outcomes.results[nth].as_slice();
        // A figure's name with its values and their unit; `None` if no completed run has the
        // figure.
        let told = |figure: &Figure| {
            let values: Vec<f64> = completed(results).filter_map(|r| figure.value(r)).collect();
            let unit = completed(results).next().map_or("", |r| figure.unit(r));
            let unit = unit.to_owned();
            (!values.is_empty()).then(|| (figure.name.clone(), Told { unit, values }))
        };
        // KiB read and written by the devices.
        let of_devices = |r: &sim::RunResult| {
            Some((r.counters.get("pgpgin")? + r.counters.get("pgpgout")?) as f64)
        };
        let moved: Vec<f64> = completed(results).filter_map(of_devices).collect();
        // The pages that a real kernel's allocator owns, which only a guest reports.
        let managed = |r: &sim::RunResult| Some(r.metrics.get("managed")?.value);
        let first = results.first().and_then(Option::as_ref);
        Self {
            policy: cell.policy.clone(),
            group: cell.group(),
            completed: completed(results).count(),
            // pgpgin and pgpgout count KiB.
            moved: stats::median(&moved).unwrap_or(0.0) / 4.0,
            managed: completed(results).find_map(managed),
            figures: figures.iter().filter_map(told).collect(),
            course: first.map_or_else(Course::default, |r| Course::of(&r.series)),
        }
    }

    /// Returns the summary of a figure; `None` if the runs do not have it.
    pub fn summary(&self, name: &str) -> Option<stats::Summary> {
        stats::summary(&self.figures.get(name)?.values)
    }
}

impl Course {
    /// Takes from a run's time series those columns that were sampled and that are searched for the
    /// time from which two runs differ ([`PARTING`]).
    fn of(series: &Series) -> Self {
        let columns = PARTING.iter().filter_map(|name| {
            let values = column(series, name)?;
            Some(((*name).to_owned(), values))
        });
        Self {
            t: series.t.clone(),
            columns: columns.collect(),
        }
    }

    /// Returns a copy with at most `most` samples, evenly spread, beginning with the first.
    #[must_use]
    pub fn thinned(&self, most: usize) -> Self {
        let step = self.t.len().div_ceil(most.max(1)).max(1);
        let thin = |all: &Vec<f64>| all.iter().copied().step_by(step).collect::<Vec<f64>>();
        Self {
            t: thin(&self.t),
            columns: (self.columns.iter())
                .map(|(name, all)| (name.clone(), thin(all)))
                .collect(),
        }
    }

    /// Returns the columns as a time series of the whole machine, in pages.
    pub(super) fn series(&self) -> Series {
        let column = |(name, values): (&String, &Vec<f64>)| Column {
            name: name.clone(),
            scope: "global".to_owned(),
            unit: "pages",
            values: values.clone(),
        };
        Series {
            t: self.t.clone(),
            columns: self.columns.iter().map(column).collect(),
        }
    }
}
