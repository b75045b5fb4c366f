//! The measured figures behind every score that the project states: `data/scores.json`.
//!
//! Only what the engine gave is kept there. How near it came is worked out from the published tables
//! whenever somebody asks, so a score can't differ from the figures and the tables that it is of.
//! README, docs and `tune` all say what this file says; `just scores` measures it anew.

use super::score::{Scored, score_values};
use super::series::{Series, find, shipped};
use super::table::PublishedRow;
use super::{Plan, plan};
use crate::diagnostic::Diagnostic;
use crate::model::Experiment;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The file that comes with the program.
const EMBEDDED: &str = include_str!("../../../../data/scores.json");

/// The series that are measured anew by whoever wants to know in seconds whether the engine still
/// gives what it gave, each with the iterations of each cell.
pub fn sample() -> impl Iterator<Item = (&'static Series, u32)> {
    let all = shipped().iter().map(|s| (s, s.about.sample));
    all.filter(|(_, iterations)| *iterations > 0)
}

/// What the engine gave.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scores {
    /// A few iterations of the series of [`sample()`], in its order.
    pub sample: Vec<Measured>,
    /// Every series as `lowmark reproduce` runs it, in the order of [`shipped`]; those that were not
    /// measured yet are left out.
    pub series: Vec<Measured>,
}

/// What the engine gave for one series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The series.
    pub name: String,
    /// Iterations of each cell, by the experiment's name.
    pub iterations: BTreeMap<String, u32>,
    /// The sample's [`fingerprint`] with the engine that gave these figures.
    pub engine: String,
    /// The figures, in the order of the published rows.
    pub figures: Vec<MeasuredRow>,
}

/// The engine's value of one published row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredRow {
    /// The row, by [`key`].
    pub cell: String,
    /// In the row's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsupported: Option<String>,
}

/// A row's name within its series: what tells it from the others, with `/` between.
pub fn key(row: &PublishedRow) -> String {
    match row.monitors {
        true => row.key() + "/monitors",
        false => row.key(),
    }
}

/// The published rows of a shipped series; empty for one that does not exist.
pub fn rows_of(series: &str) -> &'static [PublishedRow] {
    find(series).map_or(&[], |s| &s.rows)
}

impl Scores {
    /// The figures that come with the program.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn embedded() -> Result<Self, String> {
        Self::parse(EMBEDDED)
    }

    /// Reads the file's text.
    ///
    /// # Errors
    /// Where the text is not of the file's form.
    pub fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|e| format!("data/scores.json: {e}"))
    }

    /// What the engine gave for a series, if it was measured.
    pub fn of(&self, series: &str) -> Option<&Measured> {
        self.series.iter().find(|m| m.name == series)
    }

    /// Puts a series in the place that it had, or where [`shipped`] has it.
    pub fn put(&mut self, measured: Measured) {
        self.series.retain(|m| m.name != measured.name);
        self.series.push(measured);
        self.series
            .sort_by_key(|m| shipped().iter().position(|s| s.name == m.name));
    }

    /// The file's text: one line a figure, so that a change is read figure by figure.
    pub fn to_text(&self) -> String {
        let list = |of: &[Measured]| {
            let parts: Vec<String> = of.iter().map(Measured::to_text).collect();
            parts.join(",\n")
        };
        format!(
            "{{\n\"sample\": [\n{}\n],\n\"series\": [\n{}\n]\n}}\n",
            list(&self.sample),
            list(&self.series)
        )
    }
}

impl Measured {
    /// What was just measured: `values` of the series' rows, from these experiments.
    pub fn new(
        series: &Series,
        of: &[&Experiment],
        engine: String,
        values: &[Result<f64, String>],
    ) -> Self {
        let figure = |(row, value): (&PublishedRow, &Result<f64, String>)| MeasuredRow {
            cell: key(row),
            value: value.as_ref().ok().copied(),
            unsupported: value.as_ref().err().cloned(),
        };
        Self {
            name: series.name.clone(),
            iterations: of.iter().map(|e| (e.name.clone(), e.iterations)).collect(),
            engine,
            figures: series.rows.iter().zip(values).map(figure).collect(),
        }
    }

    /// Whether a row has its figure, or a reason why there is none.
    pub fn has(&self, row: &PublishedRow) -> bool {
        let key = key(row);
        self.figures.iter().any(|f| f.cell == key)
    }

    /// Takes figures of the same engine that were missing, and puts all in the order of the published rows;
    /// what no row asks for any more is dropped.
    pub fn complete(&mut self, more: Self) {
        let mut all: BTreeMap<String, MeasuredRow> = BTreeMap::new();
        let known = std::mem::take(&mut self.figures);
        for f in more.figures.into_iter().chain(known) {
            all.insert(f.cell.clone(), f);
        }
        let rows = rows_of(&self.name).iter();
        self.figures = rows.filter_map(|r| all.remove(&key(r))).collect();
        self.iterations.extend(more.iterations);
    }

    /// The series' rows with their scores. A row that the tables gained since has none.
    pub fn scored(&self) -> Vec<Scored> {
        let known: BTreeMap<&str, &MeasuredRow> =
            self.figures.iter().map(|f| (&f.cell[..], f)).collect();
        let rows = rows_of(&self.name);
        let value = |row: &PublishedRow| match known.get(&key(row)[..]) {
            Some(MeasuredRow { value: Some(v), .. }) => Ok(*v),
            Some(f) => Err(f.unsupported.clone().unwrap_or_default()),
            None => Err(format!("not measured yet: `just scores {}`", self.name)),
        };
        let values: Vec<_> = rows.iter().map(value).collect();
        let baseline = find(&self.name).map_or("", |s| &s.about.baseline);
        score_values(rows, baseline, &values)
    }

    /// Iterations of each cell as words: one number, or the least and the most.
    pub fn iterations(&self) -> String {
        let (min, max) = (
            self.iterations.values().min(),
            self.iterations.values().max(),
        );
        match (min, max) {
            (Some(a), Some(b)) if a != b => format!("{a} to {b}"),
            (Some(a), _) => a.to_string(),
            _ => "no".into(),
        }
    }

    /// In what the figures are not those that the published tables and the experiments ask for.
    ///
    /// # Errors
    /// A shipped experiment that can't be read.
    pub fn stale(&self) -> Result<Vec<String>, Diagnostic> {
        let rows = rows_of(&self.name);
        let mut out = Vec::new();
        let wanted: Vec<String> = rows.iter().map(key).collect();
        let held: Vec<&String> = self.figures.iter().map(|f| &f.cell).collect();
        if !wanted.iter().eq(held) {
            out.push(format!("{}: the published table has other rows", self.name));
        }
        if let Some(series) = find(&self.name) {
            let Plan { runs, .. } = plan(series, None)?;
            for e in runs.iter().map(|r| &r.experiment) {
                let measured = self.iterations.get(&e.name).copied().unwrap_or(0);
                if measured != e.iterations {
                    out.push(format!(
                        "{}: measured with {measured} iterations, {} now has {}",
                        self.name, e.name, e.iterations
                    ));
                }
            }
        }
        Ok(out)
    }

    fn to_text(&self) -> String {
        let figures: Vec<String> = self
            .figures
            .iter()
            .map(|f| format!("  {}", json(f)))
            .collect();
        format!(
            "{{\"name\": {}, \"iterations\": {}, \"engine\": {}, \"figures\": [\n{}\n]}}",
            json(&self.name),
            json(&self.iterations),
            json(&self.engine),
            figures.join(",\n")
        )
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("names and finite numbers")
}

/// A name for what the engine gives: two engines with the same figures in the sample have the same.
pub fn fingerprint(sample: &[Measured]) -> String {
    // FNV-1a, which is the same everywhere: of the figures alone.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for text in sample.iter().flat_map(|m| &m.figures).map(json) {
        for byte in text.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(series: &str, value: f64) -> Measured {
        let series = find(series).expect("a shipped series");
        let values: Vec<_> = series.rows.iter().map(|_| Ok(value)).collect();
        Measured::new(series, &[], "0".into(), &values)
    }

    #[test]
    fn the_file_is_read_as_it_was_written() {
        let mut scores = Scores::default();
        scores.put(measured("xfs-inode-reclaim", 0.1 + 0.2));
        scores.put(measured("tunable-watermarks", 1e22));
        scores.series[0].figures[1].value = None;
        scores.series[0].figures[1].unsupported = Some("why \"not\"".into());
        assert_eq!(
            scores.series[0].name, "tunable-watermarks",
            "the order of the shipped series"
        );
        let text = scores.to_text();
        let again = Scores::parse(&text).expect("its own text");
        assert_eq!(again.to_text(), text);
        let e = Scores::parse("{}").expect_err("no sample");
        assert!(e.starts_with("data/scores.json: "), "{e}");
    }

    #[test]
    fn the_shipped_file_parses_and_has_no_series_that_does_not_exist() {
        let scores = Scores::embedded().expect("a well-formed file");
        assert!(!scores.series.is_empty());
        for m in scores.series.iter().chain(&scores.sample) {
            assert!(find(&m.name).is_some(), "{}", m.name);
            assert_eq!(m.scored().len(), rows_of(&m.name).len());
        }
    }

    #[test]
    fn a_score_is_worked_out_from_the_tables() {
        let series = find("tunable-watermarks").expect("a shipped series");
        let exact: Vec<_> = series.rows.iter().map(|r| Ok(r.value)).collect();
        let m = Measured::new(series, &[], "0".into(), &exact);
        let scored = m.scored();
        let all = crate::published::count(&scored, |_| true);
        assert!(all.cells > 0 && all.cells == all.within);
        let (checked, agree) = crate::published::directions(&scored);
        assert!(checked > 0 && checked == agree);
    }

    #[test]
    fn figures_of_another_table_or_other_iterations_are_told() {
        let mut m = measured("tunable-watermarks", 1.0);
        m.iterations.insert("tunable-watermarks".into(), 3);
        let stale = m.stale().expect("shipped experiments");
        assert!(
            stale.len() == 1 && stale[0].contains("with 3 iterations"),
            "{stale:?}"
        );
        m.figures.pop();
        let stale = m.stale().expect("shipped experiments");
        assert!(
            stale.len() == 2 && stale[0].contains("other rows"),
            "{stale:?}"
        );
        let scored = m.scored();
        let last = scored.last().expect("rows");
        assert!(last.measured.is_none() && last.unsupported.is_some());
    }

    #[test]
    fn missing_figures_are_put_among_those_that_are_there() {
        let whole = measured("tunable-watermarks", 1.0);
        let mut part = whole.clone();
        let moved = part.figures.remove(3);
        part.figures[0].value = Some(2.0);
        part.figures.push(MeasuredRow {
            cell: "no such row".into(),
            value: Some(3.0),
            unsupported: None,
        });
        let series = find("tunable-watermarks").expect("a shipped series");
        assert!(!part.has(&series.rows[3]) && part.has(&series.rows[4]));
        let mut more = whole.clone();
        more.figures = vec![moved, whole.figures[0].clone()];
        more.iterations.insert("tunable-watermarks".into(), 7);
        part.complete(more);
        let mut expected = whole;
        expected.figures[0].value = Some(2.0);
        expected.iterations = part.iterations.clone();
        assert_eq!(part, expected, "what was there stays");
        assert_eq!(part.iterations["tunable-watermarks"], 7);
    }

    #[test]
    fn another_figure_is_another_engine() {
        let (a, b) = (
            measured("tunable-watermarks", 1.0),
            measured("tunable-watermarks", 1.5),
        );
        assert_ne!(fingerprint(std::slice::from_ref(&a)), fingerprint(&[b]));
        assert_eq!(fingerprint(std::slice::from_ref(&a)), fingerprint(&[a]));
    }

    #[test]
    fn keys_tell_rows_apart() {
        for series in shipped() {
            let rows = &series.rows;
            let mut keys: Vec<_> = rows.iter().map(key).collect();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), rows.len(), "{}", series.name);
        }
    }
}
