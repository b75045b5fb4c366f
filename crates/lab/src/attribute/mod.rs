//! Attributes the effect of a series to its patches: runs every prefix of the series and every set
//! of all patches but one, and compares neighbours.
//!
//! - **First addition**: the prefix that ends with the patch against the one before it.
//! - **Last addition**: all patches against all but this one.
//!
//! Both are needed because patches interact: a patch whose work a later one also does has an effect
//! as first addition and none as last.
//!
//! Seeds are added until a comparison can tell its two policies apart, or up to a stated cap: looks
//! are at `first` iterations, twice, four times, … Each look is a test, so each has only its part
//! of the 5 % (Bonferroni), and the p-values shown are multiplied by the number of looks. A
//! comparison whose sides are the same policy, or whose runs are the same bytes, needs no test.

mod patches;
mod text;

pub use patches::{FILE, Patch, Patches, Switches, Tried, load, parse, shipped};
pub use text::{to_json, to_text};

use crate::figures::claim::{Center, Claim};
use crate::figures::stats::ALPHA;
use crate::model::{Better, Cell, Experiment, Figure, Outcomes};
use crate::rows;
use crate::runner::{Journal, difference};
use serde::Serialize;
use sim::RunResult;
use std::collections::{BTreeMap, BTreeSet};

/// The numbers of iterations of each cell at the first and the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seeds {
    /// Iterations at the first look.
    pub first: u32,
    /// Iterations at the last look.
    pub cap: u32,
}

impl Seeds {
    /// Returns the number of iterations at each look: twice the last one, up to the cap.
    pub fn looks(self) -> Vec<u32> {
        let mut looks = vec![self.first.min(self.cap)];
        while let Some(&last) = looks.last()
            && last < self.cap
        {
            looks.push((last * 2).min(self.cap));
        }
        looks
    }
}

/// The two neighbours that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Addition {
    /// The prefix that ends with the patch against the prefix before it.
    First,
    /// All patches against all but this one.
    Last,
}

/// The effect of a patch on a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// The patch lowers the figure.
    Less,
    /// The patch raises the figure.
    More,
    /// Nothing can be claimed with as many iterations as the cap allows.
    Unclear,
    /// The runs with and without the patch are the same bytes.
    Same,
    /// Both sides have the same switches, so the patch changes nothing in the engine.
    NoSwitch,
    /// The run was stopped before a decision, or gave no value.
    Open,
}

/// The effect of one patch on one figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The label of the cell's other axes.
    pub group: String,
    /// The patch's number.
    pub patch: u32,
    /// The two neighbours that are compared.
    pub addition: Addition,
    /// The name of the figure.
    pub figure: String,
    /// The unit of the figure.
    pub unit: &'static str,
    /// The mean without the patch.
    pub without: f64,
    /// The mean with the patch.
    pub with: f64,
    /// The p-value, multiplied by the number of looks; `None` without a test.
    pub p: Option<f64>,
    /// Number of values on the side that has fewer.
    pub n: usize,
    /// The finding.
    pub finding: Finding,
    /// True if the effect is good, false if bad; `None`: the figure has no better direction, or
    /// there is no effect.
    pub good: Option<bool>,
}

/// The result of attributing a series.
#[derive(Debug, Clone)]
pub struct Attribution {
    /// The series.
    pub patches: Patches,
    /// Iterations at each look.
    pub looks: Vec<u32>,
    /// The rows, group by group, patch by patch, figure by figure.
    pub rows: Vec<Row>,
    /// Number of iterations that were run.
    pub runs: usize,
    /// Number of iterations that did not complete, and so have no values.
    pub lost: usize,
    /// True if the run was stopped.
    pub interrupted: bool,
}

/// Results of iterations by group and policy.
type Results = BTreeMap<(String, String), Vec<Option<RunResult>>>;

/// The journal of a round: finished iterations of an experiment's cells.
struct Known<'a> {
    cells: &'a [Cell],
    results: &'a Results,
}

impl Journal for Known<'_> {
    /// Returns the stored result of an iteration, so that the round does not run it again; `None`:
    /// it is not known.
    fn earlier(&mut self, cell: u32, iteration: u32) -> Option<RunResult> {
        let all = self.results.get(&key(&self.cells[cell as usize]))?;
        all.get(iteration as usize)?.clone()
    }

    fn finished(&mut self, _: u32, _: u32, _: &RunResult) {}
}

fn key(cell: &Cell) -> (String, String) {
    (cell.group(), cell.policy.clone())
}

/// Runs one round of an experiment, with a journal of the iterations that are already known.
pub type Round<'a, E> = dyn FnMut(&Experiment, &mut dyn Journal) -> Result<Outcomes, E> + 'a;

/// Runs rounds until every comparison is decided or the cap is reached, and returns the findings.
/// `tried`: the series with its experiment; `round` runs the experiment's cells that are still
/// needed.
///
/// # Errors
/// Returns the error of a round.
pub fn attribute<E>(
    tried: &Tried,
    seeds: Seeds,
    round: &mut Round<'_, E>,
) -> Result<Attribution, E> {
    let looks = seeds.looks();
    let mut open = comparisons(tried);
    let (mut rows, mut results): (Vec<Option<Row>>, Results) =
        (vec![None; open.len()], Results::new());
    let mut interrupted = false;
    for (nth, &n) in looks.iter().enumerate() {
        let wanted: BTreeSet<(String, String)> = open
            .iter()
            .zip(&rows)
            .filter(|(_, row)| row.is_none())
            .flat_map(|(c, _)| c.policies.iter().map(|p| (c.group.clone(), p.clone())))
            .collect();
        if wanted.is_empty() {
            break;
        }
        let mut experiment = tried.experiment.clone();
        experiment.iterations = n;
        experiment.cells.retain(|cell| wanted.contains(&key(cell)));
        let cells = experiment.cells.clone();
        let mut known = Known {
            cells: &cells,
            results: &results,
        };
        let outcomes = round(&experiment, &mut known)?;
        for (cell, of_cell) in cells.iter().zip(outcomes.results) {
            results.insert(key(cell), of_cell);
        }
        interrupted = outcomes.interrupted;
        let last = nth + 1 == looks.len() || interrupted;
        for (comparison, row) in open.iter_mut().zip(&mut rows) {
            if row.is_none() {
                *row = comparison.judge(&results, looks.len(), last, interrupted);
            }
        }
        if interrupted {
            break;
        }
    }
    let all = || results.values().flatten().flatten();
    let complete = all().filter(|r| r.outcome == sim::Outcome::Completed);
    Ok(Attribution {
        patches: tried.patches.clone(),
        looks,
        rows: rows.into_iter().flatten().collect(),
        runs: all().count(),
        lost: all().count() - complete.count(),
        interrupted,
    })
}

/// A comparison of two neighbours by one figure.
struct Comparison {
    group: String,
    patch: u32,
    addition: Addition,
    figure: Figure,
    /// The policies without the patch and with it.
    policies: [String; 2],
}

/// Returns all comparisons, in the order of the rows: for each group of cells and each patch, its
/// first and its last addition by each figure.
fn comparisons(tried: &Tried) -> Vec<Comparison> {
    let mut groups: Vec<String> = Vec::new();
    for cell in &tried.experiment.cells {
        let group = cell.group();
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    let all = &tried.prefixes[tried.prefixes.len() - 1];
    let mut out = Vec::new();
    for group in &groups {
        for (i, patch) in tried.patches.patch.iter().enumerate() {
            let first = [tried.prefixes[i].clone(), tried.prefixes[i + 1].clone()];
            let last = [tried.without[i].clone(), all.clone()];
            for (addition, policies) in [(Addition::First, first), (Addition::Last, last)] {
                out.extend(tried.figures.iter().map(|figure| Comparison {
                    group: group.clone(),
                    patch: patch.number,
                    addition,
                    figure: figure.clone(),
                    policies: policies.clone(),
                }));
            }
        }
    }
    out
}

impl Comparison {
    /// Judges the comparison by the results so far; `None`: it needs more seeds. `looks`: number of
    /// looks, by which p-values are multiplied; `last`: no look follows; `stopped`: the run was
    /// interrupted.
    fn judge(&self, results: &Results, looks: usize, last: bool, stopped: bool) -> Option<Row> {
        let of = |policy: &String| results.get(&(self.group.clone(), policy.clone()));
        let no_runs = Vec::new();
        let [old, new] = [0, 1].map(|i| of(&self.policies[i]).unwrap_or(&no_runs));
        let [without, with] = [old, new].map(|r| rows::figure_values(r, &self.figure.name));
        let n = without.len().min(with.len());
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
        let claim = Claim::new(&with, &without, Center::Mean);
        let p = claim.and_then(|c| c.p).map(|p| (p * looks as f64).min(1.0));
        let same = !old.is_empty()
            && old.len() == new.len()
            && old.iter().zip(new).all(|(a, b)| match (a, b) {
                (Some(a), Some(b)) => difference(a, b).is_none(),
                _ => false,
            });
        let finding = if self.policies[0] == self.policies[1] {
            Finding::NoSwitch
        } else if same {
            Finding::Same
        } else if p.is_some_and(|p| p < ALPHA) {
            match mean(&with) < mean(&without) {
                true => Finding::Less,
                false => Finding::More,
            }
        } else if !last {
            return None;
        } else if stopped || n == 0 {
            Finding::Open
        } else {
            Finding::Unclear
        };
        let good = match (finding, self.figure.better) {
            (Finding::Less, Better::Lower) | (Finding::More, Better::Higher) => Some(true),
            (Finding::Less, Better::Higher) | (Finding::More, Better::Lower) => Some(false),
            _ => None,
        };
        Some(Row {
            group: self.group.clone(),
            patch: self.patch,
            addition: self.addition,
            figure: self.figure.name.clone(),
            unit: self.figure.unit,
            without: mean(&without),
            with: mean(&with),
            p,
            n,
            finding,
            good,
        })
    }
}

#[cfg(test)]
mod tests;
