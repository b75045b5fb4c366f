//! The measured figures behind every score that the project states: `data/scores.json`.
//!
//! Only the engine's values are kept there. Scores are computed from them and the published tables
//! each time they are needed, so a score can't contradict its figures and tables. README, docs and
//! `tune` all quote this file; `just scores` measures it anew.
//!
//! A draw is all of `lowmark reproduce SERIES` with one set of seeds. A score is the median over a
//! series' draws ([`Drawn`]), with its spread; with fewer than [`FEWEST`] draws it states their
//! number. Each draw is written to the file as soon as it is measured.
//!
//! A [`Sample`] identifies the engine that gave a draw: digests of short runs of every experiment
//! of the series. Draws of another engine are dropped when the first one of a new engine is added.
//! Until then they are *stale*, which `data/scores.json` must say ([`Scores::stale`]) and README
//! then says, too: a check fails if the engine has changed and the file does not say so.

mod drawn;
mod sample;

pub use drawn::{Directions, Drawn, Spread};
pub use sample::Sample;

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

/// Fewest draws of a series for a score without a note.
pub const FEWEST: usize = 5;

/// The engine's values of all published series.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scores {
    /// The sample of each series, by the engine that gave its draws.
    pub sample: Vec<Sample>,
    /// Series whose draws are of an earlier engine, with the first revision known to give other
    /// values.
    pub stale: BTreeMap<String, String>,
    /// The draws of every series, in the order of [`shipped`] and of their seeds; series that were
    /// not measured yet are absent.
    pub series: Vec<Measured>,
}

/// One draw: the engine's values for one series with one set of seeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The name of the series.
    pub name: String,
    /// The draw's number within the series, from 1: [`Plan::draw`].
    pub seed: u32,
    /// Iterations of each cell, by the experiment's name.
    pub iterations: BTreeMap<String, u32>,
    /// [`Sample::engine`] of the engine that gave these figures; empty: unknown.
    pub engine: String,
    /// The git revision of the sources that the draw was measured with.
    pub revision: String,
    /// The figures, in the order of the published rows.
    pub figures: Vec<MeasuredRow>,
}

/// The engine's value of one published row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredRow {
    /// The row's name, by [`key`].
    pub cell: String,
    /// The value, in the row's unit; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The reason why there is no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsupported: Option<String>,
}

/// Returns a published row's name within its series: the columns that identify it, with `/`
/// between, and `/monitors` if it was taken while monitors ran.
pub fn key(row: &PublishedRow) -> String {
    match row.monitors {
        true => row.key() + "/monitors",
        false => row.key(),
    }
}

/// Returns the published rows of a shipped series; empty if there is no such series.
pub fn rows_of(series: &str) -> &'static [PublishedRow] {
    find(series).map_or(&[], |s| &s.rows)
}

impl Scores {
    /// Returns the scores that come with the program.
    ///
    /// # Errors
    /// Fails as [`parse`](Self::parse) does.
    pub fn embedded() -> Result<Self, String> {
        Self::parse(EMBEDDED)
    }

    /// Reads the file's text.
    ///
    /// # Errors
    /// Fails if the text does not have the file's form.
    pub fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|e| format!("data/scores.json: {e}"))
    }

    /// Returns the draws of a series of this name; `None` if it was not measured.
    pub fn of(&self, series: &str) -> Option<Drawn<'_>> {
        let draws: Vec<&Measured> = self.series.iter().filter(|m| m.name == series).collect();
        let stale = self.stale.get(series).map(String::as_str);
        (!draws.is_empty()).then_some(Drawn { draws, stale })
    }

    /// Adds a draw, in place of the series' draw with the same seed. Draws of the series by another
    /// engine are dropped, and so is the note that they are stale. The list stays in the order of
    /// the series and seeds.
    pub fn put(&mut self, measured: Measured) {
        let others = |m: &Measured| {
            m.name != measured.name || m.engine == measured.engine && m.seed != measured.seed
        };
        self.series.retain(others);
        self.stale.remove(&measured.name);
        self.series.push(measured);
        let place = |name: &str| shipped().iter().position(|s| s.name == name);
        self.series.sort_by_key(|m| (place(&m.name), m.seed));
    }

    /// Adds the sample of a series, which identifies the engine that gave its draws, in place of an
    /// earlier one.
    pub fn put_sample(&mut self, sample: Sample) {
        self.sample.retain(|s| s.name != sample.name);
        self.sample.push(sample);
        let place = |name: &str| shipped().iter().position(|s| s.name == name);
        self.sample.sort_by_key(|s| place(&s.name));
    }

    /// Returns the numbers, from 1 up to `most`, of the draws of a series that this engine has not
    /// given yet.
    pub fn lacks(&self, series: &str, engine: &str, most: u32) -> Vec<u32> {
        let has = |n: &u32| {
            let mut draws = self.series.iter();
            draws.any(|m| m.name == series && m.engine == engine && m.seed == *n)
        };
        (1..=most).filter(|n| !has(n)).collect()
    }

    /// Compares the scores of a series with the present engine, whose sample is given. Returns an
    /// error text if the engine's answers have changed and the scores are not marked as stale, or
    /// are marked although nothing has changed; `None` if the file is right, or the series was not
    /// measured.
    pub fn against(&self, now: &Sample) -> Option<String> {
        let name = &now.name;
        let draws = self.of(name)?.draws;
        let same = draws.iter().all(|m| m.engine == now.engine());
        let held = self.sample.iter().find(|s| s.name == *name);
        match (same, self.stale.get(name)) {
            (true, None) | (false, Some(_)) => None,
            (true, Some(since)) => Some(format!(
                "{name}: said to be stale since {since}, and the engine gives what it gave: \
                 `just scores {name}` measures what is missing, and the note is gone"
            )),
            (false, None) => Some(format!(
                "{name}: the engine's answers have changed since its scores were measured ({}); \
                 `just scores {name}` measures them anew, `just scores mark-stale {name}` says in README that \
                 they are an earlier engine's",
                held.map_or_else(
                    || "no sample of then is kept".into(),
                    |held| held.moved(now)
                )
            )),
        }
    }

    /// Returns the file's text with one figure in each line, so that changes can be reviewed figure
    /// by figure.
    pub fn to_text(&self) -> String {
        let list = |of: Vec<String>| of.join(",\n");
        format!(
            "{{\n\"sample\": [\n{}\n],\n\"stale\": {},\n\"series\": [\n{}\n]\n}}\n",
            list(self.sample.iter().map(Sample::to_text).collect()),
            json(&self.stale),
            list(self.series.iter().map(Measured::to_text).collect())
        )
    }
}

impl Measured {
    /// Builds the draw with number `seed` from the `values` of the series' rows and the experiments
    /// `of` that were run. Engine and revision are left empty for the caller.
    pub fn new(
        series: &Series,
        seed: u32,
        of: &[&Experiment],
        values: &[Result<f64, String>],
    ) -> Self {
        let figure = |(row, value): (&PublishedRow, &Result<f64, String>)| MeasuredRow {
            cell: key(row),
            value: value.as_ref().ok().copied(),
            unsupported: value.as_ref().err().cloned(),
        };
        Self {
            name: series.name.clone(),
            seed,
            iterations: of.iter().map(|e| (e.name.clone(), e.iterations)).collect(),
            engine: String::new(),
            revision: String::new(),
            figures: series.rows.iter().zip(values).map(figure).collect(),
        }
    }

    /// Returns true if a row has its figure, or a reason why there is none.
    pub fn has(&self, row: &PublishedRow) -> bool {
        let key = key(row);
        self.figures.iter().any(|f| f.cell == key)
    }

    /// Adds the figures of `more` that this draw lacks, both by the same engine, and sorts all in
    /// the order of the published rows; figures without a row are dropped.
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

    /// Returns the published rows of the series with this draw's scores. A row that was added to
    /// the tables later has no value.
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

    /// Returns the number of iterations of each cell in words: one number, or the least and the
    /// most over the experiments.
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

    /// Returns a sentence for each respect in which this draw is not what the published tables and
    /// the experiments ask for now: other rows, or other numbers of iterations. Empty if it is up
    /// to date.
    ///
    /// # Errors
    /// Fails if a shipped experiment can't be read.
    pub fn outdated(&self) -> Result<Vec<String>, Diagnostic> {
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

    /// Returns the draw as JSON with a line for each figure.
    fn to_text(&self) -> String {
        let figures: Vec<String> = self
            .figures
            .iter()
            .map(|f| format!("  {}", json(f)))
            .collect();
        format!(
            "{{\"name\": {}, \"seed\": {}, \"iterations\": {}, \"engine\": {}, \"revision\": {}, \
             \"figures\": [\n{}\n]}}",
            json(&self.name),
            self.seed,
            json(&self.iterations),
            json(&self.engine),
            json(&self.revision),
            figures.join(",\n")
        )
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("names and finite numbers")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(series: &str, value: f64) -> Measured {
        let series = find(series).expect("a shipped series");
        let values: Vec<_> = series.rows.iter().map(|_| Ok(value)).collect();
        let mut m = Measured::new(series, 1, &[], &values);
        m.engine = "0".into();
        m
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
        for m in &scores.series {
            assert!(find(&m.name).is_some(), "{}", m.name);
            assert_eq!(m.scored().len(), rows_of(&m.name).len());
        }
        for name in scores.stale.keys() {
            assert!(
                scores.of(name).is_some(),
                "{name} is stale and was never measured"
            );
        }
    }

    #[test]
    fn a_score_is_worked_out_from_the_tables() {
        let series = find("tunable-watermarks").expect("a shipped series");
        let exact: Vec<_> = series.rows.iter().map(|r| Ok(r.value)).collect();
        let m = Measured::new(series, 1, &[], &exact);
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
        let wrong = m.outdated().expect("shipped experiments");
        assert!(
            wrong.len() == 1 && wrong[0].contains("with 3 iterations"),
            "{wrong:?}"
        );
        m.figures.pop();
        let wrong = m.outdated().expect("shipped experiments");
        assert!(
            wrong.len() == 2 && wrong[0].contains("other rows"),
            "{wrong:?}"
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

    /// A session of limited time measures one draw and the next session continues; a new engine
    /// begins anew.
    #[test]
    fn draws_are_added_one_by_one_until_the_engine_changes() {
        let name = "tunable-watermarks";
        let draw = |seed, engine: &str| Measured {
            seed,
            engine: engine.into(),
            ..measured(name, f64::from(seed))
        };
        let mut scores = Scores::default();
        assert_eq!(scores.lacks(name, "one", 3), [1, 2, 3]);
        scores.put(draw(2, "one"));
        scores.put(measured("xfs-inode-reclaim", 1.0));
        scores.put(draw(1, "one"));
        assert_eq!(scores.lacks(name, "one", 3), [3]);
        let seeds = |s: &Scores| s.of(name).expect("draws").seeds();
        let first = |s: &Scores| s.series[0].seed;
        assert_eq!((seeds(&scores), first(&scores)), (2, 1));
        scores.put(draw(1, "one"));
        assert_eq!(seeds(&scores), 2);
        assert_eq!(scores.lacks(name, "two", 2), [1, 2]);
        scores.stale.insert(name.into(), "abc".into());
        scores.put(draw(1, "two"));
        assert_eq!((seeds(&scores), scores.stale.len()), (1, 0));
        let text = scores.to_text();
        assert_eq!(Scores::parse(&text).expect("its own text"), scores);
    }

    /// Changed answers must be measured or marked as stale.
    #[test]
    fn answers_that_changed_are_told_unless_the_scores_say_stale() {
        let name = "tunable-watermarks";
        let of = |digest: &str| Sample {
            name: name.into(),
            cells: [("a cell".to_owned(), digest.to_owned())].into(),
        };
        let (before, after) = (of("1"), of("2"));
        let mut scores = Scores::default();
        assert_eq!(scores.against(&before), None, "nothing is stated");
        scores.put(Measured {
            engine: before.engine(),
            ..measured(name, 1.0)
        });
        scores.put_sample(before.clone());
        assert_eq!(scores.against(&before), None);
        let told = scores.against(&after).expect("changed answers");
        assert!(
            told.contains("a cell") && told.contains("mark-stale"),
            "{told}"
        );
        scores.stale.insert(name.into(), "abc".into());
        assert_eq!(scores.against(&after), None);
        let told = scores.against(&before).expect("a note too many");
        assert!(told.contains("stale since abc"), "{told}");
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
