//! The table of effects: for each kind of change how often the engine has the kernel's sign and
//! size, and how often it claims an effect where the kernel has none. Held-out pairs stand apart.

use super::pairs::{Pair, Pairs};
use super::rule::{Change, Effect};
use crate::terminal::Screen;
use crate::validate::score::{Form, percent};
use crate::validate::suite::held_out;
use crate::warrant::{OfKind, Score, Tally};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The values of a side's figures by name, one for each completed iteration.
pub type Samples = BTreeMap<String, Vec<f64>>;

/// One figure of a pair in kernel and engine.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The pair's name.
    pub pair: String,
    /// The kind of its change.
    pub kind: String,
    /// True if the pair is held out.
    pub held_out: bool,
    /// The figure's name.
    pub figure: String,
    /// The change in the kernel.
    pub kernel: Change,
    /// The change in the engine; `None` if the engine does not produce the figure.
    pub engine: Option<Change>,
}

/// The score of the engine over all pairs.
#[derive(Debug, Clone, Serialize)]
pub struct Effects {
    /// Pairs that were judged.
    pub pairs: usize,
    /// The counts of pairs that are not held out.
    pub deciding: Tally,
    /// The counts of held-out pairs.
    pub held_out: Tally,
    /// The counts by kind of change, of all pairs; the worst share of signs first.
    pub kinds: Vec<(String, Tally)>,
    /// All figures, in the order of the pairs.
    pub rows: Vec<Row>,
    /// The names of pairs that were not judged, as no kernel's figures of them are kept.
    pub unmeasured: Vec<String>,
}

impl Row {
    /// Returns true if the engine has the kernel's sign: both go up, or both go down.
    fn has_sign(&self) -> bool {
        self.engine.is_some_and(|e| e.effect == self.kernel.effect)
    }

    /// Returns true if the engine has the kernel's sign and size.
    fn has_size(&self) -> bool {
        let agrees = |e: Change| e.agrees_in_size(&self.kernel);
        self.has_sign() && self.engine.is_some_and(agrees)
    }

    /// Returns true if the figure does not change in the kernel and the engine claims that it does.
    fn is_false_claim(&self) -> bool {
        let claimed = self.engine.is_some_and(|e| e.effect.is_claimed());
        self.kernel.effect == Effect::None && claimed
    }

    /// Returns the word for a figure that is not right; `None` if it is, or is not scored.
    fn miss(&self) -> Option<&'static str> {
        match self.kernel.effect {
            Effect::Undecided => None,
            Effect::None => self.is_false_claim().then_some("false claim"),
            _ if !self.has_sign() => Some("sign"),
            _ => (!self.has_size()).then_some("size"),
        }
    }
}

/// Adds a figure to the counts.
fn add(tally: &mut Tally, row: &Row) {
    match row.kernel.effect {
        Effect::Undecided => tally.undecided += 1,
        Effect::None => {
            tally.none += 1;
            tally.false_claims += usize::from(row.is_false_claim());
        }
        Effect::Up | Effect::Down => {
            tally.effects += 1;
            tally.signs += usize::from(row.has_sign());
            tally.sizes += usize::from(row.has_size());
        }
    }
}

/// Returns the counts of these figures.
fn counts<'a>(rows: impl Iterator<Item = &'a Row>) -> Tally {
    let mut tally = Tally::default();
    rows.for_each(|row| add(&mut tally, row));
    tally
}

/// Returns signs, sizes, false claims and undecided figures as columns of a table.
fn columns(tally: &Tally) -> [String; 4] {
    let share = |part: usize, of: usize| match of {
        0 => "-".to_owned(),
        n => format!("{part} of {n}, {}", percent(part, n)),
    };
    [
        share(tally.signs, tally.effects),
        share(tally.sizes, tally.effects),
        share(tally.false_claims, tally.none),
        tally.undecided.to_string(),
    ]
}

/// Returns the change of a headline figure between two sides. `None` if a side does not have it, or
/// no value is above its floor.
pub fn change(pairs: &Pairs, name: &str, (from, to): (&Samples, &Samples)) -> Option<Change> {
    Change::of(from.get(name)?, to.get(name)?, pairs.headline(name).floor)
}

/// Judges one pair: a row for each headline figure that the kernel has on both sides and that is
/// above its floor in a run. Each argument has the side before the change and the one behind it.
pub fn judge(
    pairs: &Pairs,
    pair: &Pair,
    kernel: (&Samples, &Samples),
    engine: (&Samples, &Samples),
) -> Vec<Row> {
    let row = |name: &String| {
        Some(Row {
            pair: pair.name.clone(),
            kind: pair.kind.clone(),
            held_out: held_out(&pair.name),
            figure: name.clone(),
            kernel: change(pairs, name, kernel)?,
            engine: match produces(name, engine) {
                // All values are below the floor: nothing changes.
                true => Some(change(pairs, name, engine).unwrap_or(Change {
                    effect: Effect::None,
                    ratio: 1.0,
                    medians: (0.0, 0.0),
                })),
                false => None,
            },
        })
    };
    pair.figures.iter().filter_map(row).collect()
}

/// Returns true if both sides of the engine have values of a figure.
fn produces(name: &str, (from, to): (&Samples, &Samples)) -> bool {
    let has = |side: &Samples| side.get(name).is_some_and(|values| !values.is_empty());
    has(from) && has(to)
}

impl Effects {
    /// Sums up the rows of all judged pairs.
    pub fn new(pairs: usize, rows: Vec<Row>, unmeasured: Vec<String>) -> Self {
        let part = |apart: bool| counts(rows.iter().filter(|row| row.held_out == apart));
        let mut by_kind: BTreeMap<&str, Tally> = BTreeMap::new();
        for row in &rows {
            add(by_kind.entry(&row.kind).or_default(), row);
        }
        let mut kinds: Vec<(String, Tally)> = (by_kind.into_iter())
            .map(|(kind, tally)| (kind.to_owned(), tally))
            .collect();
        kinds.sort_by(|(_, a), (_, b)| {
            let signs = a.share_of_signs().total_cmp(&b.share_of_signs());
            signs.then(b.false_claims.cmp(&a.false_claims))
        });
        Self {
            pairs,
            deciding: part(false),
            held_out: part(true),
            kinds,
            rows,
            unmeasured,
        }
    }

    /// Returns the counts by kind of change, which verdicts quote.
    pub fn score(&self, pairs: &Pairs) -> Score {
        let mut kinds: BTreeMap<String, OfKind> = BTreeMap::new();
        for pair in &pairs.pairs {
            let of = kinds.entry(pair.kind.clone()).or_default();
            of.keys.extend(pair.changed());
        }
        for row in &self.rows {
            let of = kinds.get_mut(&row.kind).expect("rows are of these pairs");
            add(&mut of.all, row);
            for name in pairs.headline(&row.figure).figure.names() {
                add(of.figures.entry(name.clone()).or_default(), row);
            }
        }
        Score { kinds }
    }

    /// Writes the table of kinds with the totals, then every miss with both ratios. Text is fitted
    /// to the screen.
    pub fn to_text(&self, form: Form, screen: Screen) -> String {
        let head = [
            "kind of change",
            "signs",
            "sizes",
            "false claims",
            "undecided",
        ];
        let line = |name: &str, tally: &Tally| {
            let mut cells = vec![name.to_owned()];
            cells.extend(columns(tally));
            cells
        };
        let mut lines: Vec<Vec<String>> = (self.kinds.iter())
            .map(|(kind, tally)| line(kind, tally))
            .collect();
        lines.push(line("all but held-out pairs", &self.deciding));
        lines.push(line("held-out pairs", &self.held_out));
        let all = counts(self.rows.iter());
        let [signs, sizes, claims, _] = columns(&all);
        let mut out = format!(
            "The engine has the sign of {signs}, and the size of {sizes}, of the kernel's effects in {} \
             {}. False claims where the kernel has no effect: {claims}.\n\n",
            self.pairs,
            if self.pairs == 1 { "pair" } else { "pairs" }
        );
        out += &form.table(&head, &lines, screen);
        let misses: Vec<Vec<String>> = self.rows.iter().filter_map(miss_line).collect();
        if !misses.is_empty() {
            out += "\nMisses:\n\n";
            let head = ["pair", "figure", "kernel", "engine", "miss"];
            out += &form.table(&head, &misses, screen);
        }
        if !self.unmeasured.is_empty() {
            let _ = write!(
                out,
                "\nNot measured, and so not judged: {}.\n",
                self.unmeasured.join(", ")
            );
        }
        match form {
            Form::Text => screen.broken(&out),
            Form::Markdown => out,
        }
    }
}

/// Returns a row's line in the table of misses; `None` if it is right or not scored.
fn miss_line(row: &Row) -> Option<Vec<String>> {
    let miss = row.miss()?;
    let words = |change: Change| format!("{} x{:.3}", change.effect.word(), change.ratio);
    let held = if row.held_out { " (held out)" } else { "" };
    Some(vec![
        format!("{}{held}", row.pair),
        row.figure.clone(),
        words(row.kernel),
        row.engine.map_or("unsupported".to_owned(), words),
        miss.to_owned(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(effect: Effect, ratio: f64) -> Change {
        Change {
            effect,
            ratio,
            medians: (1.0, ratio),
        }
    }

    /// Returns a figure of the pair `name` with both effects and ratios; the engine's is missing at
    /// ratio 0.
    fn row(name: &str, kernel: (Effect, f64), engine: (Effect, f64)) -> Row {
        Row {
            pair: name.into(),
            kind: "disk".into(),
            held_out: held_out(name),
            figure: "elapsed".into(),
            kernel: change(kernel.0, kernel.1),
            engine: (engine.1 != 0.0).then(|| change(engine.0, engine.1)),
        }
    }

    #[test]
    fn signs_sizes_and_false_claims_are_counted() {
        use Effect::{Down, None, Undecided, Up};
        let rows = [
            row("a", (Up, 2.0), (Up, 2.1)),
            row("a", (Up, 2.0), (Up, 9.0)),
            row("a", (Up, 2.0), (Down, 0.5)),
            row("a", (Up, 2.0), (Undecided, 2.0)),
            row("a", (Down, 0.5), (None, 0.0)),
            row("a", (None, 1.0), (Up, 1.5)),
            row("a", (None, 1.0), (Undecided, 1.5)),
            row("a", (None, 1.0), (None, 0.0)),
            row("a", (Undecided, 1.0), (Up, 1.5)),
        ];
        let misses: Vec<_> = rows.iter().map(Row::miss).collect();
        let words = ["size", "sign", "sign", "sign", "false claim"].map(Some);
        assert_eq!(
            misses
                .iter()
                .copied()
                .flatten()
                .map(Some)
                .collect::<Vec<_>>(),
            words
        );
        let tally = counts(rows.iter());
        let expected = Tally {
            effects: 5,
            signs: 2,
            sizes: 1,
            none: 3,
            false_claims: 1,
            undecided: 1,
        };
        assert_eq!(tally, expected);
    }

    #[test]
    fn held_out_pairs_stand_apart_and_misses_are_named() {
        let (held, other) = ("write-ext4-2g", "database-xfs-1g");
        assert!(held_out("write-ext4-256m") && !held_out(other), "{held}");
        let rows = vec![
            row("write-ext4-256m", (Effect::Up, 2.0), (Effect::Down, 0.5)),
            row(other, (Effect::Up, 2.0), (Effect::Up, 2.0)),
        ];
        let effects = Effects::new(2, rows, vec!["swap".into()]);
        assert_eq!((effects.deciding.signs, effects.deciding.effects), (1, 1));
        assert_eq!((effects.held_out.signs, effects.held_out.effects), (0, 1));
        let text = effects.to_text(Form::Markdown, Screen::default());
        let miss = "| write-ext4-256m (held out) | elapsed | up x2.000 | down x0.500 | sign |";
        assert!(text.contains(miss), "{text}");
        assert!(!text.contains("| database-xfs-1g |"), "{text}");
        assert!(
            text.ends_with("Not measured, and so not judged: swap.\n"),
            "{text}"
        );
    }

    #[test]
    fn a_figure_that_the_engine_lacks_is_no_change() {
        let samples = |v: f64| Samples::from([("elapsed".to_owned(), vec![v; 6])]);
        assert!(produces("elapsed", (&samples(1.0), &samples(2.0))));
        assert!(!produces("elapsed", (&samples(1.0), &Samples::new())));
    }
}
