//! Digests of short runs, which tell one engine from another.

use super::json;
use crate::diagnostic::Diagnostic;
use crate::model::{Cell, Outcomes};
use crate::published::{Plan, Series, plan};
use serde::{Deserialize, Serialize};
use sim::RunResult;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Digests of short runs of every experiment of a series: a cell of each policy and filesystem, one
/// iteration, for as many simulated seconds as the series says. Two engines with the same digests
/// give the same answers, as far as such runs can tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// The name of the series.
    pub name: String,
    /// The digest of a cell's results, by experiment and cell.
    pub cells: BTreeMap<String, String>,
}

impl Sample {
    /// Returns the short runs whose digests make the sample of a series: one iteration, and a cell
    /// of each policy and filesystem.
    ///
    /// # Errors
    /// Fails if a shipped experiment can't be read.
    pub fn plan(series: &Series) -> Result<Plan, Diagnostic> {
        let mut plan = plan(series, Some(1))?;
        plan.shorten(series.about.sample);
        Ok(plan)
    }

    /// Computes the sample of a series from the outcomes of its short runs: a digest for each cell.
    pub fn of(series: &Series, outcomes: &[Outcomes]) -> Self {
        let mut cells = BTreeMap::new();
        for of in outcomes {
            for (cell, results) in of.experiment.cells.iter().zip(&of.results) {
                let given: Vec<String> = results.iter().flatten().map(answers).collect();
                cells.insert(name(&of.experiment.name, cell), digest(&given.join("\n")));
            }
        }
        let name = series.name.clone();
        Self { name, cells }
    }

    /// Returns one digest of all cells, as 16 hexadecimal digits.
    pub fn engine(&self) -> String {
        digest(&json(&self.cells))
    }

    /// Describes in which cells the sample `now` of another engine differs from this one: how many
    /// of how many, and the first of them.
    pub fn moved(&self, now: &Self) -> String {
        let differs = |of: &&String| self.cells.get(*of) != now.cells.get(*of);
        let mut all: Vec<&String> = self.cells.keys().chain(now.cells.keys()).collect();
        all.sort_unstable();
        all.dedup();
        let moved: Vec<&String> = all.iter().copied().filter(differs).collect();
        let first = moved.first().map_or("", |first| first.as_str());
        format!("{} of {} cells, the first {first}", moved.len(), all.len())
    }

    /// Returns the sample as JSON with a line for each cell.
    pub(super) fn to_text(&self) -> String {
        let cells = self.cells.iter();
        let cells: Vec<String> = cells
            .map(|(cell, digest)| format!("  {}: {}", json(cell), json(digest)))
            .collect();
        let (name, cells) = (json(&self.name), cells.join(",\n"));
        format!("{{\"name\": {name}, \"cells\": {{\n{cells}\n}}}}")
    }
}

/// Returns the name of a cell, which is unique within a series.
fn name(experiment: &str, cell: &Cell) -> String {
    let parts = [
        experiment,
        &cell.machine,
        &cell.threads,
        &cell.filesystem,
        &cell.workload,
        &cell.policy,
    ];
    parts.join("/")
}

/// Formats the results of a run as text, for a digest: outcome, simulated time, counters and the
/// bits of each metric. The log of events is left out, because its order may change while the
/// results do not.
fn answers(of: &RunResult) -> String {
    let mut out = format!("{:?} {}\n", of.outcome, of.sim_ns);
    for (name, value) in &of.counters {
        let _ = writeln!(out, "{name} {value}");
    }
    for (name, metric) in &of.metrics {
        let _ = writeln!(out, "{name} {:016x}", metric.value.to_bits());
    }
    out
}

/// Returns the FNV-1a hash of a text as 16 hexadecimal digits; it is the same on every machine.
fn digest(text: &str) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::shipped;

    #[test]
    fn every_experiment_and_policy_of_a_series_is_sampled_and_runs_shortly() {
        for series in shipped() {
            let (whole, short) = (
                plan(series, None).expect("shipped experiments"),
                Sample::plan(series).expect("shipped experiments"),
            );
            assert_eq!(whole.runs.len(), short.runs.len(), "{}", series.name);
            let limit = u64::from(series.about.sample) * 1_000_000_000;
            for (whole, short) in whole.runs.iter().zip(&short.runs) {
                let (whole, short) = (&whole.experiment, &short.experiment);
                assert_eq!(short.iterations, 1);
                assert!(short.cells.iter().all(|c| c.spec.time_limit_ns <= limit));
                for cell in &whole.cells {
                    let same =
                        |c: &&Cell| c.policy == cell.policy && c.filesystem == cell.filesystem;
                    assert_eq!(short.cells.iter().filter(same).count(), 1, "{}", whole.name);
                }
            }
        }
    }

    #[test]
    fn another_answer_is_another_engine() {
        let of = |digest: &str| Sample {
            name: "s".into(),
            cells: [("a", "1"), ("b", digest)]
                .map(|(c, d)| (c.to_owned(), d.to_owned()))
                .into(),
        };
        assert_eq!(of("2").engine(), of("2").engine());
        assert_ne!(of("2").engine(), of("3").engine());
        assert_eq!(of("2").moved(&of("3")), "1 of 2 cells, the first b");
        let text = of("2").to_text();
        let again: Sample = serde_json::from_str(&text).expect("its own text");
        assert_eq!(again, of("2"));
    }
}
