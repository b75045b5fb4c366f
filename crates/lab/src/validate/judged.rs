//! The figures by which a preset is judged (`data/validate/figures.toml`), and their values in a
//! run.

use crate::results::hex;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use sim::RunResult;
use sim::result::Series;

/// The list of figures that comes with the program.
const EMBEDDED: &str = include_str!("../../../../data/validate/figures.toml");

/// Names of zones, as counters end with them.
const ZONES: [&str; 6] = ["dma", "dma32", "normal", "high", "movable", "device"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    figure: Vec<Figure>,
}

/// A figure by which the engine is judged.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The name of the figure.
    pub name: String,
    /// Names of counters; the first one that a run has is taken.
    #[serde(default)]
    counter: Vec<String>,
    /// Names of metrics of the workload; the first one that a run has is taken.
    #[serde(default)]
    metric: Vec<String>,
    /// A column of the time series, and the statistic of it that is taken.
    series: Option<String>,
    of: Option<Of>,
    /// True if the figure counts pages.
    #[serde(default)]
    pub pages: bool,
    /// The version of the list that added the figure.
    #[serde(default = "first")]
    pub since: u32,
}

/// Returns the version of figures that state none.
fn first() -> u32 {
    1
}

/// A statistic of a time series.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Of {
    Mean,
    Max,
    Min,
}

/// Returns a digest of the present list. Figures taken by a list with an unknown digest can't be
/// judged by it.
pub fn digest() -> String {
    digest_of(version())
}

/// Returns the version of the list.
pub fn version() -> u32 {
    let all = figures().into_iter().map(|figure| figure.since);
    all.max().unwrap_or(first())
}

/// Returns the version of the list that had this digest; `None` if no version had.
pub fn version_of(digest: &str) -> Option<u32> {
    (first()..=version()).find(|&version| digest_of(version) == digest)
}

/// Returns the SHA-256 digest of one version of the list of figures, in hex: of the lines of all
/// figures up to that version, without comments and empty lines.
fn digest_of(version: u32) -> String {
    let is_content = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    let lines: Vec<&str> = EMBEDDED.lines().filter(is_content).collect();
    let mut hash = Sha256::new();
    let blocks = lines.chunk_by(|_, next| *next != "[[figure]]");
    for (block, figure) in blocks.zip(figures()) {
        if figure.since <= version {
            block
                .iter()
                .for_each(|line| hash.update(format!("{line}\n")));
        }
    }
    hex(&hash.finalize())
}

/// Reads the list of the figures by which the engine is judged beside a real kernel, which is built
/// into the program, in the file's order.
pub fn figures() -> Vec<Figure> {
    let file: File =
        toml::from_str(EMBEDDED).expect("the file that comes with the program is right");
    file.figure
}

impl Figure {
    /// Returns the names of the metrics and counters in which the figure is looked for.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.metric.iter().chain(&self.counter)
    }

    /// Returns the unit of the figure's values, as the run `of` reports it with the metric or
    /// column; empty for counters that are no pages.
    pub fn unit<'a>(&self, of: &'a RunResult) -> &'a str {
        if self.pages {
            return "pages";
        }
        let metric = self.metric.iter().find_map(|name| of.metrics.get(name));
        let column = || {
            let name = self.series.as_deref()?;
            of.series.columns.iter().find(|c| c.name == name)
        };
        (metric.map(|m| m.unit))
            .or_else(|| column().map(|c| c.unit))
            .unwrap_or("")
    }

    /// Returns the figure's value in a run: its metric, or else its counter, or else the statistic
    /// (mean, maximum or minimum) of its column of the time series. `None` if the run has none of
    /// them.
    pub fn value(&self, run: &RunResult) -> Option<f64> {
        let metric = || self.metric.iter().find_map(|name| run.metrics.get(name));
        let counter = || self.counter.iter().find_map(|name| counter(run, name));
        let series = || {
            let all = column(&run.series, self.series.as_deref()?)?;
            Some(match self.of.unwrap_or(Of::Mean) {
                Of::Mean => all.iter().sum::<f64>() / all.len() as f64,
                Of::Max => all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                Of::Min => all.iter().copied().fold(f64::INFINITY, f64::min),
            })
        };
        metric().map(|m| m.value).or_else(counter).or_else(series)
    }
}

/// Returns the run's counter of this name, or the sum of its parts by zone (`pgalloc_dma`,
/// `pgalloc_normal`, …); `None` if the run has neither.
fn counter(run: &RunResult, name: &str) -> Option<f64> {
    if let Some(whole) = run.counters.get(name) {
        return Some(*whole as f64);
    }
    let parts = ZONES
        .iter()
        .filter_map(|zone| run.counters.get(&format!("{name}_{zone}")));
    parts.fold(None, |sum, part| Some(sum.unwrap_or(0.0) + *part as f64))
}

/// Returns the values of a column of the time series, one for each sample: the machine's, or else
/// the sum over its zones. `None` if there is no such column or no sample.
pub fn column(series: &Series, name: &str) -> Option<Vec<f64>> {
    let named = || series.columns.iter().filter(|c| c.name == name);
    let mut sum = vec![0.0; series.t.len()];
    let global = named().find(|c| c.scope == "global");
    let of = match global {
        Some(global) => vec![global],
        None => named().collect(),
    };
    if of.is_empty() || sum.is_empty() {
        return None;
    }
    for column in of {
        sum.iter_mut()
            .zip(&column.values)
            .for_each(|(s, v)| *s += v);
    }
    Some(sum)
}
