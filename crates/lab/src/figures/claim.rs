//! Decides which differences can be claimed by one figure: every cell against its group's baseline.

use super::stats::{self, ALPHA, CONFIDENCE};
use super::values;
use crate::model::{Better, Cell, Figure, Outcomes};
use sim::{Outcome, RunResult};
use std::collections::BTreeMap;

/// The statistic that represents a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Center {
    /// Mean, standard deviation and confidence interval.
    #[default]
    Mean,
    /// Minimum, median and maximum: for counters, whose values are often zero or very large.
    Median,
}

/// The claim about a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verdict {
    /// The figure is lower than the baseline's.
    Less,
    /// The figure is higher than the baseline's.
    More,
    /// Nothing can be claimed.
    #[default]
    Unclear,
    /// Too few iterations for any claim.
    TooFew,
}

impl Verdict {
    /// Returns true if a difference is claimed.
    pub fn is_claimed(self) -> bool {
        matches!(self, Self::Less | Self::More)
    }
}

/// A policy against the baseline of its combination of axes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Claim {
    /// Relative change of the center, new / base − 1; not finite where the base is 0.
    pub change: f64,
    /// The change's confidence interval, by the bootstrap; `None` below three values of either
    /// side, and where the base may be 0.
    pub interval: Option<(f64, f64)>,
    /// The test's p-value; `None` without a test.
    pub p: Option<f64>,
    /// The claim that follows.
    pub verdict: Verdict,
}

/// Returns true for a change too small to show with one decimal of a per cent: samples that differ
/// by microseconds in every run are equal for practical purposes.
pub fn is_equal(change: f64) -> bool {
    change.abs() < 0.0005
}

/// Returns true if a difference is claimed, by one rule for all tables: p is below [`ALPHA`], the
/// change is large enough to show, and its interval has changes of one direction alone (the ranks
/// of two samples may differ where their means can't say in which direction). `interval` is called
/// where the rest allows a claim.
pub fn is_claimed(p: f64, change: f64, interval: impl FnOnce() -> Option<(f64, f64)>) -> bool {
    let both = |(low, high): (f64, f64)| low < 0.0 && high > 0.0;
    p < ALPHA && !is_equal(change) && !interval().is_some_and(both)
}

impl Claim {
    /// Compares a sample with the baseline's: computes the relative change of mean or median with
    /// its interval, the p-value of the Mann–Whitney test, and the claim that follows. `None` if
    /// either sample is empty.
    pub fn new(samples: &[f64], base: &[f64], center: Center) -> Option<Self> {
        let middle = |v: &[f64]| {
            stats::summary(v).map(|s| match center {
                Center::Mean => s.mean,
                Center::Median => s.median,
            })
        };
        let (new, old) = (middle(samples)?, middle(base)?);
        let p = stats::mann_whitney(samples, base);
        let interval = match center {
            Center::Mean => stats::change_interval(samples, base, &stats::mean_of),
            Center::Median => stats::change_interval(samples, base, &stats::median_of),
        };
        let change = new / old - 1.0;
        let verdict = if !stats::can_differ(samples.len(), base.len()) {
            Verdict::TooFew
        } else if !is_claimed(p, change, || interval) {
            Verdict::Unclear
        } else if new < old {
            Verdict::Less
        } else {
            Verdict::More
        };
        Some(Self {
            change,
            interval,
            p: Some(p),
            verdict,
        })
    }
}

/// The values of one metric of one policy on one combination of axes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SummaryRow {
    /// The combination of axes: axis name and value, policy excluded.
    pub axes: Vec<(String, String)>,
    /// The policy's name.
    pub policy: String,
    /// True for the row that the others are compared with.
    pub baseline: bool,
    /// The value of every iteration.
    pub samples: Vec<f64>,
    /// The mean of the samples.
    pub mean: f64,
    /// The standard deviation of the samples.
    pub sd: f64,
    /// Confidence interval of the mean, or of the median.
    pub interval: Option<(f64, f64)>,
    /// The comparison with the baseline; `None` for the baseline itself.
    pub comparison: Option<Claim>,
    /// Why no iteration has a value, such as `out of memory in 3 of 3 runs`; absent where one has,
    /// and where none ran.
    pub missing: Option<String>,
    /// The largest value of a figure that can only rise (`_max`) in runs that ended before their
    /// time.
    pub before_end: Option<f64>,
    /// Iterations that ran and did not complete.
    pub lost: usize,
    /// True if all runs are those of the baseline, event for event.
    pub same: bool,
}

impl SummaryRow {
    /// Summarises a sample of one figure as a row, and compares it with the baseline's sample
    /// `base` if given; the row's names are left empty.
    pub fn new(samples: Vec<f64>, base: Option<&[f64]>, center: Center) -> Self {
        let s = stats::summary(&samples);
        Self {
            mean: s.as_ref().map_or(f64::NAN, |s| s.mean),
            sd: s.as_ref().map_or(f64::NAN, |s| s.sd),
            interval: s.as_ref().and_then(|s| match center {
                Center::Mean => s.mean_interval,
                Center::Median => s.median_interval,
            }),
            comparison: base.and_then(|base| Claim::new(&samples, base, center)),
            samples,
            ..Self::default()
        }
    }

    /// Returns the value that represents the sample; NaN for an empty one.
    pub fn center(&self, center: Center) -> f64 {
        match center {
            Center::Mean => self.mean,
            Center::Median => stats::median(&self.samples).unwrap_or(f64::NAN),
        }
    }
}

/// One metric over the whole experiment. Rows of equal axes are adjacent, in the given order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SummaryTable {
    /// The metric's name: `elapsed`, `nr_vmscan_write`, …
    pub metric: String,
    /// The unit of the metric.
    pub unit: String,
    /// The direction in which the metric gets better.
    pub better: Better,
    /// The statistic that is shown.
    pub center: Center,
    /// Level of the intervals: 0.95.
    pub confidence: f64,
    /// Name of the test that gave the p-values, such as "Mann-Whitney U".
    pub test: String,
    /// One row for each policy on each combination of axes.
    pub rows: Vec<SummaryRow>,
}

/// Returns in words how a run ended; `None` for a run that completed.
pub fn ending(outcome: &Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Completed => None,
        Outcome::Oom { .. } => Some("out of memory"),
        Outcome::Failed { .. } => Some("failed"),
        Outcome::TimeLimit => Some("time limit"),
        Outcome::Interrupted => Some("interrupted"),
    }
}

/// Returns the reason why no run of a cell has a figure: `out of memory in 2 of 3 runs, no answer
/// in 1 of 3 runs`. `None` if no run of the cell was started. A run that went on to its end without
/// one response has no answer. `results` are the runs by iteration.
fn missing(results: &[Option<RunResult>], figure: &str) -> Option<String> {
    let ran: Vec<&RunResult> = results.iter().flatten().collect();
    let none = match figure.starts_with("response") {
        true => "no answer".to_owned(),
        false => format!("no {figure}"),
    };
    let words = ran.iter().map(|r| ending(&r.outcome).unwrap_or(&none));
    let counts = values::tally(words);
    let told = counts
        .iter()
        .map(|(word, n)| format!("{word} in {n} of {} runs", ran.len()));
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| told.join(", "))
}

/// Returns the largest value of a figure that can only rise (`_max`), such as the longest response,
/// over the runs of a cell that did not complete: it was reached whatever came then. `None` for
/// other figures, and if no such run has a value.
fn before_end(results: &[Option<RunResult>], figure: &str) -> Option<f64> {
    let ended = results
        .iter()
        .flatten()
        .filter(|r| ending(&r.outcome).is_some());
    let values = ended.filter_map(|r| r.metrics.get(figure).map(|m| m.value));
    let largest = values.fold(f64::NEG_INFINITY, f64::max);
    (figure.ends_with("_max") && largest.is_finite()).then_some(largest)
}

/// Returns true if the runs of two cells are the same, event for event: the setting that tells the
/// cells apart has no effect.
fn are_same(one: &[Option<RunResult>], other: &[Option<RunResult>]) -> bool {
    let digest = |r: &Option<RunResult>| r.as_ref().map(|r| r.digest).filter(|digest| *digest != 0);
    let pairs = || one.iter().zip(other);
    !one.is_empty()
        && one.len() == other.len()
        && pairs().all(|(a, b)| digest(a).is_some() && digest(a) == digest(b))
}

/// A function that returns a figure's values in a cell's iterations, given its name.
pub type Values<'a> = &'a dyn Fn(&[Option<RunResult>], &str) -> Vec<f64>;

impl SummaryTable {
    /// Tabulates every cell by one figure, in matrix order: the values that `values` finds in its
    /// runs, compared with its group's baseline by `center` (mean or median).
    pub fn new(outcomes: &Outcomes, figure: &Figure, center: Center, values: Values<'_>) -> Self {
        let cells = &outcomes.experiment.cells;
        let samples: Vec<Vec<f64>> = outcomes
            .results
            .iter()
            .map(|results| values(results, &figure.name))
            .collect();
        // For each cell the index of its baseline.
        let against = baselines(cells);
        let row = |(i, (cell, own)): (usize, (&Cell, &Vec<f64>))| {
            let base = against[i].map(|i| &samples[i][..]);
            let results = &outcomes.results[i];
            let lost = |r: &&RunResult| ending(&r.outcome).is_some();
            SummaryRow {
                axes: cell.group_axes(),
                policy: cell.said(),
                baseline: cell.baseline,
                missing: own
                    .is_empty()
                    .then(|| missing(results, &figure.name))
                    .flatten(),
                before_end: before_end(results, &figure.name),
                lost: results.iter().flatten().filter(lost).count(),
                same: against[i].is_some_and(|base| are_same(results, &outcomes.results[base])),
                ..SummaryRow::new(own.clone(), base, center)
            }
        };
        Self::of_rows(
            figure,
            center,
            cells.iter().zip(&samples).enumerate().map(row).collect(),
        )
    }

    /// Builds the table from finished rows.
    pub fn of_rows(figure: &Figure, center: Center, rows: Vec<SummaryRow>) -> Self {
        Self {
            metric: figure.name.clone(),
            unit: figure.unit.into(),
            better: figure.better,
            center,
            confidence: CONFIDENCE,
            test: "Mann–Whitney U, two-sided".into(),
            rows,
        }
    }

    /// Tabulates every cell by elapsed time, which every report shows.
    pub fn elapsed(outcomes: &Outcomes) -> Self {
        let figure = Figure {
            name: "elapsed".into(),
            unit: "s",
            better: Better::Lower,
        };
        Self::new(outcomes, &figure, Center::Mean, &values::metric)
    }

    /// Returns true if a difference is claimed of any row.
    pub fn has_claims(&self) -> bool {
        let mut claims = self.rows.iter().filter_map(|r| r.comparison);
        claims.any(|c| c.verdict.is_claimed())
    }

    /// Returns the row that those of its combination of axes are compared with.
    pub fn baseline(&self, axes: &[(String, String)]) -> Option<&SummaryRow> {
        self.rows.iter().find(|r| r.baseline && r.axes == *axes)
    }

    /// Returns true if no run of a row's policy has the figure although runs of its baseline have
    /// it: the policy is then worse than all that have one.
    pub fn is_missing(&self, row: &SummaryRow) -> bool {
        let has = |base: &SummaryRow| !base.samples.is_empty();
        !row.baseline && row.missing.is_some() && self.baseline(&row.axes).is_some_and(has)
    }

    /// Returns true if a claimed change is an improvement, and false if it is a deterioration;
    /// `None` if nothing is claimed or neither direction of the figure is better.
    pub fn is_good(&self, verdict: Verdict) -> Option<bool> {
        match (verdict, self.better) {
            (_, Better::Neither) | (Verdict::Unclear | Verdict::TooFew, _) => None,
            (Verdict::Less, Better::Lower) | (Verdict::More, Better::Higher) => Some(true),
            (Verdict::Less | Verdict::More, _) => Some(false),
        }
    }
}

/// Returns for each cell the index of the baseline that it is compared with, the first one of its
/// group; `None` for a baseline itself, and for a group without one.
pub fn baselines(cells: &[Cell]) -> Vec<Option<usize>> {
    let mut of_group: BTreeMap<String, usize> = BTreeMap::new();
    for (i, cell) in cells.iter().enumerate().filter(|(_, c)| c.baseline) {
        of_group.entry(cell.group()).or_insert(i);
    }
    cells
        .iter()
        .map(|cell| match cell.baseline {
            true => None,
            false => of_group.get(&cell.group()).copied(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows;

    fn table(samples: [Vec<f64>; 2]) -> SummaryTable {
        let base = samples[0].clone();
        let rows = samples
            .into_iter()
            .enumerate()
            .map(|(i, own)| SummaryRow::new(own, (i > 0).then_some(&base[..]), Center::Mean));
        let figure = rows::figure("response_max").unwrap();
        SummaryTable::of_rows(&figure, Center::Mean, rows.collect())
    }

    #[test]
    fn a_change_of_either_direction_is_not_claimed() {
        // Twelve of the new values rank higher, and an outlier of the baseline makes its mean the
        // higher one.
        let base = [&[1.0; 12][..], &[1000.0; 1]].concat();
        let new = [&[2.0; 12][..], &[500.0; 1]].concat();
        let claim = Claim::new(&new, &base, Center::Mean).unwrap();
        let (low, high) = claim.interval.unwrap();
        assert!(
            claim.p.unwrap() < ALPHA && low < 0.0 && high > 0.0,
            "{claim:?}"
        );
        assert_eq!(claim.verdict, Verdict::Unclear);
        // The median moves one way in all resamples.
        let claim = Claim::new(&new, &base, Center::Median).unwrap();
        assert_eq!(claim.verdict, Verdict::More);
    }

    #[test]
    fn what_differs_by_less_than_is_shown_is_equal() {
        let around = |x: f64| (0..8).map(|i| x + f64::from(i)).collect::<Vec<f64>>();
        let verdict = |new: f64| {
            let t = table([around(100_000.0), around(new)]);
            t.rows[1].comparison.unwrap().verdict
        };
        assert_eq!(verdict(100_020.0), Verdict::Unclear);
        assert_eq!(verdict(100_200.0), Verdict::More);
        assert_eq!(verdict(99_000.0), Verdict::Less);
    }
}
