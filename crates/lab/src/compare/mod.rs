//! Compares the stored results of several runs: what changed from one to the next, by how much and
//! how sure, with the statistics and rows of `run`.
//!
//! Begin with [`Compared::new`]. A [`Column`] is one side: one run, or several that are pooled.
//! Cells of the sides are compared if their axes, filesystem and policy are the same; axes that
//! only one of the sides has are ignored, and warnings say so.

mod read;
mod text;

pub use read::{Stored, StoredCell, StoredIteration, read};
pub use text::{Form, to_text};

use crate::diagnostic::Diagnostic;
use crate::figures::claim::{Center, SummaryRow, SummaryTable, Verdict};
use crate::figures::stats::{self, ALPHA};
use crate::model::{Better, Figure, last_part};
use crate::rows;
use crate::runner::unequal;
use sim::{Origin, RunResult};
use std::collections::{BTreeMap, BTreeSet};

/// One side of a comparison.
#[derive(Debug, Clone)]
pub struct Column {
    /// The name of the side.
    pub label: String,
    /// The runs of the side, which are pooled.
    pub runs: Vec<Stored>,
}

impl Column {
    /// Splits a side into one side for each value of an axis, in matrix order: a sweep whose values
    /// are compared with one of them. `key` is the axis, or the last part of its name.
    ///
    /// # Errors
    /// Fails if there is no axis of this name, or it does not vary.
    pub fn by_axis(self, key: &str) -> Result<Vec<Self>, Diagnostic> {
        let cells = || self.runs.iter().flat_map(|r| &r.cells);
        let axes: BTreeSet<&String> = cells().flat_map(|c| c.axes.keys()).collect();
        let values = |key: &str| {
            let mut values: Vec<String> = Vec::new();
            for value in cells().filter_map(|c| c.axes.get(key)) {
                if !values.contains(value) {
                    values.push(value.clone());
                }
            }
            values
        };
        let varying: Vec<&String> = axes.into_iter().filter(|a| values(a).len() > 1).collect();
        let last = |axis: &str| last_part(axis) == key;
        let named = varying.iter().find(|a| **a == key);
        let Some(axis) = named.or_else(|| varying.iter().find(|a| last(a))) else {
            let names: Vec<&str> = varying.iter().map(|a| &a[..]).collect();
            let accepted = match names.is_empty() {
                true => "accepted: an axis that varies; these runs have none".to_owned(),
                false => format!("accepted: {}", names.join(", ")),
            };
            return Err(Diagnostic::placeless(
                format!("no axis `{key}` varies"),
                accepted,
            ));
        };
        let side = |value: String| {
            let runs = self.runs.iter().cloned().map(|mut run| {
                run.cells.retain(|c| c.axes.get(*axis) == Some(&value));
                run.cells.iter_mut().for_each(|c| {
                    c.axes.remove(*axis);
                });
                run
            });
            Self {
                runs: runs.collect(),
                label: value,
            }
        };
        Ok(values(axis).into_iter().map(side).collect())
    }
}

/// The keys and values that cells of several sides have in common.
pub type Place = Vec<(String, String)>;

/// The user's choices for a comparison.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The label of the side that the others are compared with; `None`: the first side.
    pub baseline: Option<String>,
    /// Only these figures are compared; empty: the usual ones.
    pub figures: Vec<String>,
    /// True to show every figure: also those that do not differ, and counters.
    pub all: bool,
    /// The axis whose values are the sides; `None` if they are not values of one axis.
    pub by: Option<String>,
}

/// The result of comparing sides.
#[derive(Debug, Clone)]
pub struct Compared {
    /// The sides' labels, the baseline first.
    pub labels: Vec<String>,
    /// The kind of thing that a side is, such as `dirty_ratio`.
    pub by: String,
    /// The sides with their runs.
    pub columns: Vec<Column>,
    /// Every figure that was compared, those asked for first. A row's `policy` is the side's label,
    /// and its axes are the place.
    pub tables: Vec<SummaryTable>,
    /// The number of tables, from the first on, that are shown whether or not anything differs.
    pub asked: usize,
    /// The places, in the baseline's order.
    pub places: Vec<Place>,
    /// Warnings for the reader, one sentence each.
    pub warnings: Vec<String>,
}

/// The iterations of one side at one place, completed or not.
type Runs = Vec<Option<RunResult>>;

impl Compared {
    /// Compares sides of stored runs: matches their cells, and tests each figure of each side
    /// against the baseline's.
    ///
    /// # Errors
    /// Fails with fewer than two sides, a repeated label, an unknown baseline, sides without a
    /// common cell, or unknown figures.
    pub fn new(mut columns: Vec<Column>, wanted: &Wanted) -> Result<Self, Diagnostic> {
        let wrong = |what: String, accepted: &str| Err(Diagnostic::placeless(what, accepted));
        if columns.len() < 2 {
            let accepted = "accepted: two or more, such as `lowmark compare before after`";
            return wrong("there is nothing to compare with".into(), accepted);
        }
        let mut labels = BTreeSet::new();
        if let Some(twice) = columns.iter().find(|c| !labels.insert(c.label.clone())) {
            let what = format!("`{}` stands there twice", twice.label);
            return wrong(
                what,
                "accepted: a name for each, such as `before=DIR after=DIR`",
            );
        }
        if let Some(base) = &wanted.baseline {
            let Some(at) = columns.iter().position(|c| c.label == *base) else {
                let names: Vec<&str> = columns.iter().map(|c| &c.label[..]).collect();
                let what = format!("no side is called `{base}`");
                return wrong(what, &format!("accepted: {}", names.join(", ")));
            };
            columns[..=at].rotate_right(1);
        }
        let mut warnings = differences(&columns);
        let (places, runs) = matched(&columns, &mut warnings)?;
        let (figures, asked) = figures(&columns, &runs, wanted)?;
        let labels: Vec<String> = columns.iter().map(|c| c.label.clone()).collect();
        let tables: Vec<SummaryTable> = figures
            .iter()
            .map(|f| table(f, &labels, &places, &runs))
            .collect();
        few(&labels, &places, &runs, &mut warnings);
        for t in &tables[..asked] {
            if t.rows.iter().all(|r| r.samples.is_empty()) {
                warnings.push(format!("no run that completed has `{}`", t.metric));
            }
        }
        let by = wanted.by.as_deref().map_or("side", last_part);
        Ok(Self {
            labels,
            by: by.to_owned(),
            columns,
            tables,
            asked,
            places,
            warnings,
        })
    }

    /// Yields the tables that are shown: those of figures asked for, and those with a difference
    /// that can be claimed anywhere.
    pub fn shown(&self) -> impl Iterator<Item = &SummaryTable> {
        self.tables.iter().enumerate().filter_map(|(i, t)| {
            let differs = t.rows.iter().any(|r| claimed(r).is_some());
            (i < self.asked || differs).then_some(t)
        })
    }

    /// Returns, for one side (by its label) at a place, how many figures were compared with the
    /// baseline's, and how many differ.
    pub fn counted(&self, place: &Place, label: &str) -> (usize, usize) {
        let rows = self.tables.iter().flat_map(|t| &t.rows);
        let of = rows.filter(|r| r.axes == *place && r.policy == label && r.comparison.is_some());
        of.fold((0, 0), |(n, differ), r| {
            (n + 1, differ + usize::from(claimed(r).is_some()))
        })
    }

    /// Returns the row of a table for a place and a side (by its label); `None` if it has none.
    pub fn row<'a>(table: &'a SummaryTable, place: &Place, label: &str) -> Option<&'a SummaryRow> {
        let mut rows = table.rows.iter();
        rows.find(|r| r.axes == *place && r.policy == label)
    }
}

/// Returns the verdict of a row if a difference can be claimed.
fn claimed(row: &SummaryRow) -> Option<Verdict> {
    let verdict = row.comparison?.verdict;
    verdict.is_claimed().then_some(verdict)
}

/// Builds the table of a figure: for each place (one entry of `runs`) a row of each side, compared
/// with the first side.
fn table(figure: &Figure, labels: &[String], places: &[Place], runs: &[Vec<Runs>]) -> SummaryTable {
    let mut rows = Vec::new();
    for (place, sides) in places.iter().zip(runs) {
        let samples: Vec<Vec<f64>> = sides
            .iter()
            .map(|runs| rows::figure_values(runs, &figure.name))
            .collect();
        for (i, own) in samples.iter().enumerate() {
            rows.push(SummaryRow {
                axes: place.clone(),
                policy: labels[i].clone(),
                baseline: i == 0,
                ..SummaryRow::new(own.clone(), (i > 0).then_some(&samples[0]), Center::Mean)
            });
        }
    }
    SummaryTable::of_rows(figure, Center::Mean, rows)
}

/// Returns the figures to compare, those asked for first, and how many of them are shown in any
/// case. `runs`: for each place the runs of every side.
fn figures(
    columns: &[Column],
    runs: &[Vec<Runs>],
    wanted: &Wanted,
) -> Result<(Vec<Figure>, usize), Diagnostic> {
    let results = || runs.iter().flatten().flatten().flatten();
    let mut metrics: BTreeMap<&str, &'static str> = BTreeMap::new();
    let mut counters: BTreeSet<&str> = BTreeSet::new();
    for r in results() {
        metrics.extend(r.metrics.iter().map(|(name, m)| (&name[..], m.unit)));
        counters.extend(r.counters.keys().map(String::as_str));
    }
    let known = |name: &str| -> Result<Figure, String> {
        rows::figure(name).or_else(|why| {
            let unit = match metrics.get(name) {
                Some(unit) => unit,
                None if counters.contains(name) => "",
                None => return Err(why),
            };
            Ok(rows::workload_figure(name, unit))
        })
    };
    let accepted =
        "accepted: a row, a counter, or a figure of the workload; `lowmark explain` lists them";
    if !wanted.figures.is_empty() {
        let of = |name: &String| {
            known(name).map_err(|why| Diagnostic::placeless(format!("`--figure`: {why}"), accepted))
        };
        let figures: Vec<Figure> = wanted.figures.iter().map(of).collect::<Result<_, _>>()?;
        let n = figures.len();
        return Ok((figures, n));
    }
    let mut names: Vec<String> = asked(&columns[0]);
    if !names.iter().any(|n| n == "elapsed") {
        names.push("elapsed".into());
    }
    let mut asked = names.len();
    let more = rows::definition::rows().map(|r| r.name);
    let more = more.chain(metrics.keys().copied());
    let counted = counters.iter().copied().filter(|_| wanted.all);
    for name in more.chain(counted) {
        // A figure is listed once, whichever of its names was used.
        let row = |name: &str| rows::definition::row(name).map(|r| r.name);
        let twice = |n: &String| n == name || (row(n).is_some() && row(n) == row(name));
        if !names.iter().any(twice) {
            names.push(name.to_owned());
        }
    }
    let mut figures: Vec<Figure> = names.iter().filter_map(|n| known(n).ok()).collect();
    // A figure that no run has is left out, unless it was asked for.
    let has = |f: &Figure| {
        let mut all = runs.iter().flatten();
        all.any(|runs| !rows::figure_values(runs, &f.name).is_empty())
    };
    let kept: Vec<bool> = figures
        .iter()
        .enumerate()
        .map(|(i, f)| i < asked || has(f))
        .collect();
    let mut kept = kept.into_iter();
    figures.retain(|_| kept.next() == Some(true));
    if wanted.all {
        asked = figures.len();
    }
    Ok((figures, asked))
}

/// Returns the figures that the experiment's text asks for with its key `compare`.
fn asked(column: &Column) -> Vec<String> {
    let text = column.runs.first().map_or("", |run| &run.text);
    let Ok(table) = text.parse::<toml::Table>() else {
        return Vec::new();
    };
    let list = table.get("compare").and_then(toml::Value::as_array);
    let names = list.into_iter().flatten().filter_map(toml::Value::as_str);
    names
        .filter(|n| rows::figure(n).is_ok())
        .map(Into::into)
        .collect()
}

/// Returns warnings about differences between the sides other than figures: in experiment, seed,
/// build, machine and the experiment's text, and sides that were interrupted.
fn differences(columns: &[Column]) -> Vec<String> {
    let mut out = Vec::new();
    let mut warn_if_differs = |what: &str, of: &dyn Fn(&Stored) -> String| {
        let sides: Vec<(String, BTreeSet<String>)> = columns
            .iter()
            .map(|c| (c.label.clone(), c.runs.iter().map(of).collect()))
            .collect();
        if sides.iter().any(|s| s.1 != sides[0].1 || s.1.len() > 1) {
            let told = |(label, values): &(String, BTreeSet<String>)| {
                let values: Vec<&str> = values.iter().map(String::as_str).collect();
                format!("{} ({label})", values.join(", "))
            };
            let told: Vec<String> = sides.iter().map(told).collect();
            out.push(format!("{what} differs: {}", told.join("; ")));
        }
    };
    warn_if_differs("the experiment", &|run| run.name.clone());
    warn_if_differs("the seed", &|run| run.seed.to_string());
    warn_if_differs("the program's build", &|run| run.build.clone());
    let machines = |run: &Stored| {
        let names: BTreeSet<&str> = run
            .cells
            .iter()
            .filter_map(|c| c.axes.get("machine").map(String::as_str))
            .collect();
        names.into_iter().collect::<Vec<_>>().join("+")
    };
    warn_if_differs("the machine", &machines);
    let base = columns[0].runs.first();
    for column in &columns[1..] {
        let pair = base.zip(column.runs.first());
        let Some((a, b)) = pair.filter(|(a, b)| a.text != b.text && a.name == b.name) else {
            continue;
        };
        let only = |of: &str, other: &str| -> Vec<String> {
            let others: BTreeSet<&str> = other.lines().map(str::trim).collect();
            let lines = of.lines().map(str::trim);
            let own = lines.filter(|l| !l.is_empty() && !l.starts_with('#') && !others.contains(l));
            own.take(3).map(|l| format!("`{l}`")).collect()
        };
        let (left, right) = (only(&a.text, &b.text), only(&b.text, &a.text));
        if !left.is_empty() || !right.is_empty() {
            out.push(format!(
                "the experiment's text differs: {} ({}); {} ({})",
                joined(&left),
                columns[0].label,
                joined(&right),
                column.label
            ));
        }
    }
    for column in columns {
        if column.runs.iter().any(|r| r.interrupted) {
            out.push(format!("a run of {} was interrupted", column.label));
        }
    }
    out
}

/// Joins lines of an experiment's text for a warning; `nothing` if there is none.
fn joined(lines: &[String]) -> String {
    if lines.is_empty() {
        "nothing".into()
    } else {
        lines.join(" ")
    }
}

/// Keys that may differ between cells that are compared, tried in this order.
const GIVEN_UP: [&[&str]; 7] = [
    &[],
    &["machine"],
    &["policy"],
    &["filesystem"],
    &["machine", "policy"],
    &["machine", "filesystem"],
    &["machine", "filesystem", "policy"],
];

/// Cells by place; for each side `None` if it has no cell there.
type ByPlace<'a> = Vec<(Place, Vec<Option<Vec<&'a StoredCell>>>)>;

/// Matches the cells of the sides by the axes they share; if none match, by fewer of them, and
/// warns of it. Returns the places in the baseline's order, and for each place the runs of every
/// side.
fn matched(
    columns: &[Column],
    warnings: &mut Vec<String>,
) -> Result<(Vec<Place>, Vec<Vec<Runs>>), Diagnostic> {
    let every = |key: &String| {
        let mut cells = columns.iter().flat_map(|c| &c.runs).flat_map(|r| &r.cells);
        cells.all(|cell| cell.axes.contains_key(key))
    };
    let cells = columns.iter().flat_map(|c| &c.runs).flat_map(|r| &r.cells);
    let keys: BTreeSet<&String> = cells.flat_map(|c| c.axes.keys()).collect();
    let (common, own): (Vec<&String>, Vec<&String>) = keys.into_iter().partition(|k| every(k));
    // Cells are matched by all common axes, or else by all but those of each set in turn.
    for given_up in GIVEN_UP {
        let keys: Vec<&String> = common
            .iter()
            .copied()
            .filter(|k| !given_up.contains(&k.as_str()))
            .collect();
        let Some(found) = by_place(columns, &keys) else {
            continue;
        };
        for key in given_up
            .iter()
            .copied()
            .chain(own.iter().map(|k| k.as_str()))
        {
            // Differences in machines are reported elsewhere.
            if key != "machine" {
                warnings.push(format!("cells are held together whatever their `{key}`"));
            }
        }
        return sides(columns, found, warnings);
    }
    let names: Vec<&str> = columns.iter().map(|c| &c.label[..]).collect();
    Err(Diagnostic::placeless(
        format!("{} have no cell in common", names.join(" and ")),
        "accepted: runs of the same experiment, or of ones that differ in the policy, the machine or the \
         filesystem alone",
    ))
}

/// Groups the sides' cells by their values of these keys, the places. `None` if a run of a side has
/// two cells of one place, or no place has cells of the baseline and of another side.
fn by_place<'a>(columns: &'a [Column], keys: &[&String]) -> Option<ByPlace<'a>> {
    let mut found: ByPlace<'a> = Vec::new();
    for (i, column) in columns.iter().enumerate() {
        for run in &column.runs {
            let mut seen = BTreeSet::new();
            for cell in &run.cells {
                let place: Place = keys
                    .iter()
                    .map(|&k| (k.clone(), cell.axes[k].clone()))
                    .collect();
                if !seen.insert(place.clone()) {
                    return None;
                }
                let at = found.iter().position(|f| f.0 == place).unwrap_or_else(|| {
                    found.push((place, vec![None; columns.len()]));
                    found.len() - 1
                });
                found[at].1[i].get_or_insert_default().push(cell);
            }
        }
    }
    let both = |f: &(Place, Vec<Option<Vec<&StoredCell>>>)| {
        f.1[0].is_some() && f.1[1..].iter().any(Option::is_some)
    };
    found.iter().any(both).then_some(found)
}

/// Returns the places, and for each the iterations of every side. Leaves out places that the
/// baseline, or every other side, lacks, and iterations that a side has twice; adds warnings on
/// both. Fails if computing takes time on one side only.
fn sides(
    columns: &[Column],
    found: ByPlace<'_>,
    warnings: &mut Vec<String>,
) -> Result<(Vec<Place>, Vec<Vec<Runs>>), Diagnostic> {
    let (mut places, mut all) = (Vec::new(), Vec::new());
    let mut unmatched: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut repeated, mut same, mut run_apart) = (0, 0, false);
    for (place, cells) in found {
        let present: Vec<usize> = (0..cells.len()).filter(|&i| cells[i].is_some()).collect();
        if cells[0].is_none() || present.len() < 2 {
            for i in present {
                *unmatched.entry(&columns[i].label).or_default() += 1;
            }
            continue;
        }
        // Finds a side whose cells have this answer to whether computing takes time.
        let side_where = |takes: bool| {
            let mut all = present.iter().copied();
            all.find(|&i| cells[i].iter().flatten().any(|c| c.takes_time == takes))
        };
        if let Some((paying, free)) = side_where(true).zip(side_where(false)) {
            let why = "its results say `costs: false`";
            return Err(unequal(&columns[paying].label, &columns[free].label, why));
        }
        let all_cells = || cells.iter().flatten().flatten();
        let of =
            |origin, cell: &StoredCell| cell.iterations.iter().any(|i| i.result.origin == origin);
        run_apart |= all_cells().any(|cell| of(Origin::Kernel, cell))
            && all_cells().any(|cell| of(Origin::Engine, cell) && !cell.like_guests);
        let mut base: BTreeSet<(String, String)> = BTreeSet::new();
        let side = |(i, cells): (usize, Option<Vec<&StoredCell>>)| {
            let mut seen = BTreeSet::new();
            let mut runs = Runs::new();
            for iteration in cells.iter().flatten().flat_map(|c| &c.iterations) {
                if seen.insert(iteration.same.clone()) {
                    runs.push(Some(iteration.result.clone()));
                } else {
                    repeated += 1;
                }
            }
            if i == 0 {
                base = seen;
            } else {
                same += seen.intersection(&base).count();
            }
            runs
        };
        all.push(cells.into_iter().enumerate().map(side).collect());
        places.push(place);
    }
    if run_apart {
        warnings.push(
            "the engine is compared with a real kernel, and was run apart from it: its machine had all of its memory, of \
             which a kernel's allocator owns a part, and ticked as often as it says; one experiment with both makes them \
             equal"
                .to_owned(),
        );
    }
    if repeated > 0 {
        warnings.push(format!(
            "{repeated} iterations are in several runs of one side (the same seed and events) and count once"
        ));
    }
    if same > 0 {
        warnings.push(format!(
            "{same} iterations are the baseline's own, event for event"
        ));
    }
    for (label, n) in unmatched {
        warnings.push(format!("{n} cells of {label} have nothing beside them"));
    }
    Ok((places, all))
}

/// Warns of cells with too few iterations to claim anything, and of iterations that did not
/// complete.
fn few(labels: &[String], places: &[Place], runs: &[Vec<Runs>], warnings: &mut Vec<String>) {
    let all = runs.iter().flatten();
    let completed = all.map(|r| rows::completed(r).len()).filter(|n| *n > 0);
    warnings.extend(completed.min().and_then(stats::warning_of_few));
    for (place, sides) in places.iter().zip(runs) {
        for (label, runs) in labels.iter().zip(sides) {
            let lost = runs.len() - rows::completed(runs).len();
            if lost > 0 {
                let place = text::label(places, place);
                warnings.push(format!(
                    "{place}, {label}: {lost} of {} iterations did not complete",
                    runs.len()
                ));
            }
        }
    }
}

/// Returns the word for a claim about a figure: by its better direction, if it has one.
fn word(table: &SummaryTable, verdict: Verdict) -> &'static str {
    match (table.is_good(verdict), verdict) {
        (Some(true), _) => "better",
        (Some(false), _) => "worse",
        (None, Verdict::Less) => "less",
        (None, Verdict::More) => "more",
        (None, Verdict::Unclear | Verdict::TooFew) => "not to be claimed",
    }
}

/// Returns how many of `n` figures would differ by chance alone.
fn by_chance(n: usize) -> usize {
    (n as f64 * ALPHA).round() as usize
}

/// Returns the name of a figure's better direction.
fn direction(better: Better) -> &'static str {
    match better {
        Better::Lower => "lower",
        Better::Higher => "higher",
        Better::Neither => "neither",
    }
}

#[cfg(test)]
mod tests;
