//! The first screen of a run: a verdict on each question with its price, one table, and where to
//! read on.
//!
//! The question is the first figure that the experiment compares (`page::summary`); each
//! combination of axes (a group) has a verdict of its own. Where a policy gains in the question and
//! loses in another figure, that loss is its *price*. A policy that has no figure where its
//! baseline has one (it ran out of memory, reached the time limit, never answered) is the worst of
//! its group, and the verdict names it first among the worse. Everything else that is known of the
//! runs (intervals, p values, tables of programs) stands in `comparison.txt`, which `--verbose`
//! prints.

use super::cautions::notes;
use super::compare::Comparison;
use super::labels::labels;
use super::number::plain_number;
use super::page;
use crate::figures::claim::{Claim, SummaryRow, SummaryTable, Verdict};
use crate::figures::stats;
use crate::model::{Better, Outcomes};
use crate::terminal::{Col, Screen, readable, spaced, titled};
use crate::warrant::Warrant;
use std::fmt::Write as _;

/// Columns of the first screen where nothing says how wide the terminal is.
const WIDTH: u16 = 80;
/// Policies that are named in a list; further ones are counted.
const NAMED: usize = 4;
/// Lines of the screen; a terminal has 25, and the command prints up to three more.
const LINES: usize = 22;
/// Groups with a verdict of their own, and rows of the table, from the most that are shown to the
/// fewest; further ones are counted.
const ROOM: [(usize, usize); 8] = [
    (6, 10),
    (6, 8),
    (5, 6),
    (4, 5),
    (3, 4),
    (2, 3),
    (2, 2),
    (1, 1),
];
/// Length of a word of a label from which on it may be broken.
const LONG: usize = 20;
/// Least width of a column of reasons.
const REASON: usize = 14;
/// Notes that are printed; further ones are counted.
const NOTES: usize = 2;

/// Returns the first screen of a run: statements about the experiment, verdicts, a curve if values
/// of an axis are compared, one table, notes. Fewer groups and rows are shown until the text fits
/// the lines of a terminal.
pub fn text(outcomes: &Outcomes, comparison: &Comparison, screen: Screen) -> String {
    let screen = Screen {
        width: Some(screen.width.unwrap_or(WIDTH)),
        ..screen
    };
    let said = super::said(&outcomes.experiment.said);
    let tables = page::leading(outcomes, page::summary(outcomes));
    let Some(question) = tables.first() else {
        return String::new();
    };
    // Figures beside the first one, in which a gain may cost something.
    let mut prices: Vec<SummaryTable> = tables[1..].to_vec();
    if tables.iter().all(|t| t.metric != "elapsed") {
        prices.push(SummaryTable::elapsed(outcomes));
    }
    let first = First {
        outcomes,
        groups: groups(question),
        tables: &tables,
        prices: &prices,
        notes: notes(outcomes, comparison, &tables),
        warrant: Warrant::of(&outcomes.experiment, question),
        screen,
    };
    let said = screen.broken(&said);
    let mut out = String::new();
    for (groups, rows) in ROOM {
        out = said.clone() + &first.text(groups, rows);
        if out.lines().count() <= LINES {
            break;
        }
    }
    out
}

/// Everything that the first screen shows.
struct First<'a> {
    outcomes: &'a Outcomes,
    groups: Vec<Group>,
    tables: &'a [SummaryTable],
    prices: &'a [SummaryTable],
    notes: Vec<String>,
    /// How often the engine was right, beside a kernel, about changes of this kind.
    warrant: Option<Warrant>,
    screen: Screen,
}

impl First<'_> {
    /// Returns the width in columns of a terminal that the table needs if it has the first of its
    /// figures and a column of reasons why rows have none; 0 if no row lacks the question's figure.
    /// `heads` are the table's headings.
    fn with_reasons(&self, heads: &[Col<'_>]) -> usize {
        let (outcomes, question) = (self.outcomes, &self.tables[0]);
        // The longest word of these texts, with the gaps of a column.
        let width = |texts: &mut dyn Iterator<Item = String>| {
            let words = texts.flat_map(|text| {
                let lengths = text.split(' ').map(|word| word.chars().count());
                lengths.max()
            });
            words.max().unwrap_or(0) + 3
        };
        let labels = self.groups.iter().map(|g| breakable(&g.label));
        let sides = outcomes
            .experiment
            .cells
            .iter()
            .map(|c| c.side().to_owned());
        let figure = match heads.get(2) {
            Some(Col::Figure(head) | Col::Words(head)) => head.chars().count() + 3,
            None => 0,
        };
        let labels = match self.groups.len() > 1 {
            true => width(&mut labels.into_iter()),
            false => 0,
        };
        let missing = question.rows.iter().filter_map(|r| r.missing.clone());
        match question.rows.iter().any(|r| r.missing.is_some()) {
            // In fewer columns reasons take a line a word.
            true => {
                labels
                    + width(&mut sides.into_iter())
                    + figure
                    + REASON.max(width(&mut missing.into_iter()))
            }
            false => 0,
        }
    }

    /// Lays out the first screen with verdicts of at most `most` groups and a table of at most
    /// `rows` rows; further ones are counted.
    fn text(&self, most: usize, rows: usize) -> String {
        let (screen, question) = (self.screen, &self.tables[0]);
        let mut out = String::new();
        let verdicts = self.verdicts();
        for line in verdicts.iter().take(most).flatten() {
            out += &screen.wrapped(line);
        }
        if verdicts.len() > most {
            let _ = writeln!(out, "{} more groups: --verbose", verdicts.len() - most);
        }
        out += &super::rates::calls(self.outcomes, screen);
        // Claimed figures come before others, of which a narrow screen shows fewer.
        let ordered = self.claimed_first();
        // A curve has the question's figures; the table beside it has the others.
        let mut shown = &ordered[..];
        if self.groups.len() == 1 {
            let compared = self.outcomes.experiment.compared();
            let curve = super::along::text([question], compared, screen);
            if !curve.is_empty() {
                shown = &ordered[1..];
                let _ = writeln!(out, "\n{}", curve.trim_end());
            }
        }
        if !shown.is_empty() {
            let _ = write!(out, "\n{}", self.table(shown, rows));
        }
        for note in self.notes.iter().take(NOTES) {
            out += &screen.wrapped(&format!("note: {note}"));
        }
        if self.notes.len() > NOTES {
            let more = self.notes.len() - NOTES;
            let word = if more == 1 { "note" } else { "notes" };
            let _ = writeln!(out, "{more} more {word}: --verbose");
        }
        if let Some(warrant) = &self.warrant {
            out += &screen.wrapped(&warrant.line());
        }
        out
    }

    /// Returns the tables in the order of their columns: the question, then figures of which a
    /// difference is claimed, those in which a gain has its price too, then the others.
    fn claimed_first(&self) -> Vec<SummaryTable> {
        let claims = |t: &&SummaryTable| t.has_claims();
        let (question, others) = self.tables.split_first().expect("one table at least");
        let shown = |t: &&SummaryTable| self.tables.iter().any(|s| s.metric == t.metric);
        let beside = self.prices.iter().filter(|t| !shown(t)).filter(claims);
        let (claimed, rest): (Vec<&SummaryTable>, Vec<&SummaryTable>) =
            others.iter().partition(claims);
        [question]
            .into_iter()
            .chain(claimed)
            .chain(beside)
            .chain(rest)
            .cloned()
            .collect()
    }

    /// Returns the verdict of each group, a sentence a line; groups with the same verdict share it
    /// and are named together.
    fn verdicts(&self) -> Vec<Vec<String>> {
        let mut all: Vec<(Vec<&str>, Vec<String>)> = Vec::new();
        for group in &self.groups {
            let lines = group.lines(&self.tables[0], self.prices);
            match all.iter_mut().find(|(_, known)| *known == lines) {
                Some((names, _)) => names.push(&group.label),
                None => all.push((vec![&group.label], lines)),
            }
        }
        let several = self.groups.len() > 1;
        let told = all.into_iter().map(|(names, lines)| {
            let place = match names.len() {
                _ if !several => String::new(),
                n if n == self.groups.len() => format!("all {n} groups: "),
                _ => format!("{}: ", list(&names)),
            };
            lines.iter().map(|line| format!("{place}{line}")).collect()
        });
        told.collect()
    }

    /// Returns the table as text: a row for each policy, at most `most` rows, and a column for each
    /// figure with the change behind it, as many as the screen has room for.
    fn table(&self, tables: &[SummaryTable], most: usize) -> String {
        let (outcomes, question) = (self.outcomes, &self.tables[0]);
        let cells = &outcomes.experiment.cells;
        let label = |row: usize| {
            let group = self.groups.iter().find(|g| g.rows.contains(&row));
            let label = group.filter(|_| self.groups.len() > 1);
            label.map_or(String::new(), |g| breakable(&g.label))
        };
        // For each table the divisor of its figures, and the heading with the unit.
        let scaled: Vec<(f64, String)> = tables
            .iter()
            .map(|t| {
                let means = t
                    .rows
                    .iter()
                    .map(|r| r.center(t.center).abs())
                    .filter(|m| m.is_finite());
                let (by, unit) = readable(&t.unit, means.fold(0.0, f64::max));
                (by, titled(&t.metric, unit))
            })
            .collect();
        let mut heads = vec![Col::Words(""), Col::Words(outcomes.experiment.compared())];
        heads.extend(scaled.iter().map(|(_, title)| Col::Figure(title)));
        // A reason that all rows share is said once.
        let shared = question.rows.first().and_then(|r| r.missing.as_ref());
        let shared = shared.filter(|_| question.rows.iter().all(|r| r.missing.as_ref() == shared));
        // So is each where the screen has no room for a column of them: in the verdict.
        let room = usize::from(self.screen.width.unwrap_or(WIDTH));
        let reasons = shared.is_none() && self.with_reasons(&heads) <= room;
        if reasons {
            heads.push(Col::Words("did not finish"));
        }
        let mut grid = self.screen.grid(&heads);
        for (i, cell) in cells.iter().enumerate().take(most) {
            let mut row = vec![(label(i), None), (cell.side().to_owned(), None)];
            for (t, (by, _)) in tables.iter().zip(&scaled) {
                let r = &t.rows[i];
                let value = plain_number(r.center(t.center) / by);
                let told = match r.comparison {
                    _ if r.samples.is_empty() => "-".to_owned(),
                    None => value,
                    Some(c) if c.verdict.is_claimed() && c.change.is_finite() => {
                        format!("{value} {:+.1}%", c.change * 100.0)
                    }
                    Some(c) if c.verdict.is_claimed() => value,
                    Some(_) => format!("{value} ~"),
                };
                let good = r.comparison.and_then(|c| t.is_good(c.verdict));
                row.push((told, good.map(|good| Some(good).into())));
            }
            if reasons {
                row.push((question.rows[i].missing.clone().unwrap_or_default(), None));
            }
            grid.row(row);
        }
        let (mut out, [left, zero]) = grid.first();
        if cells.len() > most {
            let _ = writeln!(out, "{} more rows: --verbose", cells.len() - most);
        }
        if let Some(reason) = shared {
            out += &self
                .screen
                .wrapped(&format!("no row has {}: {reason}", question.metric));
        }
        if !left.is_empty() {
            out += &self
                .screen
                .wrapped(&format!("not shown: {}; --verbose", left.join(", ")));
        }
        // Figures that the experiment asks for; others are shown where they say something.
        if !zero.is_empty() && !outcomes.experiment.figures.is_empty() {
            out += &self
                .screen
                .wrapped(&format!("0 in every row: {}", zero.join(", ")));
        }
        out
    }
}

/// Rows of one combination of axes, by their indices into every table of the experiment.
struct Group {
    /// Its label, such as `ext4`.
    label: String,
    /// All of its rows in matrix order.
    rows: Vec<usize>,
}

/// Splits the rows of a table into groups of equal axes, in matrix order; every table of the
/// experiment has the same rows.
fn groups(table: &SummaryTable) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut axes: Vec<&[(String, String)]> = Vec::new();
    for (i, row) in table.rows.iter().enumerate() {
        match axes.iter().position(|known| *known == &row.axes[..]) {
            Some(at) => groups[at].rows.push(i),
            None => {
                axes.push(&row.axes);
                groups.push(Group {
                    label: String::new(),
                    rows: vec![i],
                });
            }
        }
    }
    for (group, label) in groups.iter_mut().zip(labels(&axes)) {
        group.label = label;
    }
    groups
}

/// The standing of one policy against the baseline of its group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// It has no figure, and the baseline has one.
    Missing,
    /// The claimed change is for the worse.
    Worse,
    /// The claimed change is for the better.
    Better,
    /// A change is claimed of a figure of which neither direction is good.
    Other,
    /// No difference can be claimed.
    Unclear,
}

/// Returns how a policy stands against the baseline of its group by the table's figure.
fn side(table: &SummaryTable, row: &SummaryRow) -> Side {
    let Some(claim) = row.comparison else {
        return match row.samples.is_empty() {
            true => Side::Missing,
            false => Side::Unclear,
        };
    };
    match (table.is_good(claim.verdict), claim.verdict) {
        (Some(true), _) => Side::Better,
        (Some(false), _) => Side::Worse,
        (None, Verdict::Less | Verdict::More) => Side::Other,
        (None, Verdict::Unclear | Verdict::TooFew) => Side::Unclear,
    }
}

/// The policies of a group by how they stand against its baseline, the largest change first.
struct Standing<'a> {
    question: &'a SummaryTable,
    /// The figures that may be a price.
    prices: &'a [SummaryTable],
    /// The row of the baseline.
    base: usize,
    /// How many policies stand beside the baseline.
    others: usize,
    missing: Vec<usize>,
    worse: Vec<usize>,
    better: Vec<usize>,
    /// Better by the runs that finished, and fewer finished than of the baseline.
    doubtful: Vec<usize>,
    other: Vec<usize>,
    unclear: Vec<usize>,
}

impl Group {
    /// Returns the group's verdict, a sentence a line: how its policies stand against its baseline
    /// by the figure of `question`, and which losses in `prices` go with a gain.
    fn lines(&self, question: &SummaryTable, prices: &[SummaryTable]) -> Vec<String> {
        let row = |i: usize| &question.rows[i];
        let (bases, others): (Vec<usize>, Vec<usize>) =
            self.rows.iter().partition(|&&i| row(i).baseline);
        let Some(&base) = bases.first().filter(|_| !others.is_empty()) else {
            let alone = self.rows.iter().map(|&i| alone(question, row(i)));
            return alone.collect();
        };
        if row(base).samples.is_empty() {
            let without = reason(question, row(base));
            let has = others.iter().filter(|&&i| !row(i).samples.is_empty());
            let has: Vec<&str> = has.map(|&i| &row(i).policy[..]).collect();
            let policy = &row(base).policy;
            return vec![match has.is_empty() {
                true => {
                    let why = |i: usize| reason(question, row(i));
                    let shared = others.iter().all(|&i| why(i) == without);
                    let told: Vec<String> = match shared {
                        true => vec![without],
                        false => [base]
                            .iter()
                            .chain(&others)
                            .map(|&i| format!("{}: {}", row(i).policy, why(i)))
                            .collect(),
                    };
                    format!("no policy has this figure: {}", told.join("; "))
                }
                false => format!(
                    "{policy} has no figure ({without}); {} one",
                    has_or_have(&has)
                ),
            }];
        }
        let standing = Standing::new(question, prices, base, &others);
        let mut lines = standing.gains();
        match others[..] {
            [only] => lines.extend(standing.only(only)),
            _ => lines.extend(standing.rest()),
        }
        lines.extend(standing.doubts());
        lines
    }
}

impl<'a> Standing<'a> {
    /// Sorts the policies of a group into better, worse, … than its baseline by the figure of
    /// `question`, each list with the largest change first. `base` and `others` are indices of
    /// rows, and `prices` are the figures in which a gain may cost something.
    fn new(
        question: &'a SummaryTable,
        prices: &'a [SummaryTable],
        base: usize,
        others: &[usize],
    ) -> Self {
        let row = |i: usize| &question.rows[i];
        let of = |wanted: Side| {
            let mut rows: Vec<usize> = others
                .iter()
                .copied()
                .filter(|&i| side(question, row(i)) == wanted)
                .collect();
            // Equal changes stay in matrix order.
            let change = |i: usize| row(i).comparison.map_or(0.0, |c| c.change.abs());
            rows.sort_by(|&a, &b| change(b).total_cmp(&change(a)));
            rows
        };
        // Policies of which more runs did not finish than of the baseline are doubtful.
        let lost_more = |i: &usize| row(*i).lost > row(base).lost;
        let (doubtful, better) = of(Side::Better).into_iter().partition(lost_more);
        Self {
            question,
            prices,
            base,
            others: others.len(),
            missing: of(Side::Missing),
            worse: of(Side::Worse),
            better,
            doubtful,
            other: of(Side::Other),
            unclear: of(Side::Unclear),
        }
    }

    fn row(&self, i: usize) -> &SummaryRow {
        &self.question.rows[i]
    }

    fn sentence(&self, i: usize) -> String {
        sentence(self.question, self.prices, self.base, i)
    }

    /// Returns the sentences about the policies that are better than the baseline, the best in full
    /// and the others in one line. If there are none, says so, unless there is only one policy
    /// beside the baseline (`only` has its sentence).
    fn gains(&self) -> Vec<String> {
        let Some((&best, rest)) = self.better.split_first() else {
            let base = self.row(self.base);
            let nothing = match (self.question.better, self.other.is_empty()) {
                _ if self.others == 1 => return Vec::new(),
                (Better::Neither, false) => format!("{} differs", self.question.metric),
                _ if self.all_too_few() => format!(
                    "too few iterations (n={}) to tell any policy from {} in {}",
                    base.samples.len(),
                    base.policy,
                    self.question.metric
                ),
                _ => format!(
                    "no policy is better than {} in {}",
                    base.policy, self.question.metric
                ),
            };
            let value = amount(self.question, base.center(self.question.center));
            return vec![format!("{nothing} ({value})")];
        };
        let mut lines = vec![self.sentence(best)];
        if !rest.is_empty() {
            lines.push(format!("also better: {}", changes(self.question, rest)));
        }
        lines
    }

    /// Returns true if there are policies beside the baseline that have values, and all of them too
    /// few of them for any claim.
    fn all_too_few(&self) -> bool {
        let claims = |&i: &usize| self.row(i).comparison;
        let mut claims = self.unclear.iter().filter_map(claims).peekable();
        let none = self.worse.is_empty() && self.better.is_empty() && self.other.is_empty();
        none && claims.peek().is_some() && claims.all(|c| c.verdict == Verdict::TooFew)
    }

    /// Returns the verdict on row `i`, the only policy beside the baseline, if it is worse, other
    /// or unclear; a policy without a value is worse, with the reason. `None` if it is better,
    /// which `gains` says, or doubtful.
    fn only(&self, i: usize) -> Option<String> {
        if self.missing.contains(&i) {
            let (policy, base) = (&self.row(i).policy, &self.row(self.base).policy);
            let why = reason(self.question, self.row(i));
            return Some(format!("{policy} is worse than {base}: {why}"));
        }
        let rest = [&self.worse, &self.other, &self.unclear];
        rest.iter()
            .any(|rows| rows.contains(&i))
            .then(|| self.sentence(i))
    }

    /// Returns the sentences about the policies that are worse than the baseline, that differ from
    /// it in a figure of which neither direction is good, and that can't be told from it.
    fn rest(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let missing = self.missing.iter().take(NAMED).map(|&i| {
            let row = self.row(i);
            format!("{} ({})", row.policy, reason(self.question, row))
        });
        let mut bad: Vec<String> = missing.collect();
        if self.missing.len() > NAMED {
            bad.push(format!(
                "{} more without a figure",
                self.missing.len() - NAMED
            ));
        }
        if !self.worse.is_empty() {
            bad.push(changes(self.question, &self.worse));
        }
        if !bad.is_empty() {
            lines.push(format!("worse: {}", bad.join(", ")));
        }
        if !self.other.is_empty() {
            lines.push(changes(self.question, &self.other));
        }
        let (same, unclear): (Vec<usize>, Vec<usize>) =
            self.unclear.iter().partition(|&&i| self.row(i).same);
        let names = |rows: &[usize]| {
            let names: Vec<&str> = rows.iter().map(|&i| &self.row(i).policy[..]).collect();
            list(&names)
        };
        if !unclear.is_empty() && !self.all_too_few() {
            lines.push(format!(
                "no difference can be claimed of {}",
                names(&unclear)
            ));
        }
        if !same.is_empty() {
            lines.push(format!(
                "the same as {} in every run, event for event: {}",
                self.row(self.base).policy,
                names(&same)
            ));
        }
        lines
    }

    /// Returns a sentence for each policy that looks better by the runs that it finished, although
    /// more of its runs than of the baseline's did not finish.
    fn doubts(&self) -> Vec<String> {
        let told = self.doubtful.iter().map(|&i| {
            let (policy, lost) = (&self.row(i).policy, self.row(i).lost);
            format!(
                "{policy} looks better by the runs that it finished, and {lost} of its runs did not \
                 finish"
            )
        });
        told.collect()
    }
}

/// Joins names with commas; those after the first few ([`NAMED`]) are counted.
fn list(names: &[&str]) -> String {
    let mut text = names[..names.len().min(NAMED)].join(", ");
    if names.len() > NAMED {
        let _ = write!(text, " and {} more", names.len() - NAMED);
    }
    text
}

/// Returns names as the subject of a sentence, with the verb.
fn has_or_have(names: &[&str]) -> String {
    let verb = if names.len() == 1 { "has" } else { "have" };
    format!("{} {verb}", list(names))
}

/// Returns the policies of these rows with their changes in per cent, joined with commas; those
/// after the first few are counted.
fn changes(table: &SummaryTable, rows: &[usize]) -> String {
    let told = |&i: &usize| {
        let row = &table.rows[i];
        let claim = row.comparison.expect("rows with a claim");
        format!("{} {}", row.policy, percent(&claim, row, table))
    };
    let mut text = rows
        .iter()
        .take(NAMED)
        .map(told)
        .collect::<Vec<_>>()
        .join(", ");
    if rows.len() > NAMED {
        let _ = write!(text, " and {} more", rows.len() - NAMED);
    }
    text
}

/// Formats a row's change in per cent with its sign; if the baseline is 0, the values instead.
fn percent(claim: &Claim, row: &SummaryRow, table: &SummaryTable) -> String {
    match claim.change.is_finite() {
        true => format!("{:+.1} %", claim.change * 100.0),
        false => format!("0 -> {}", amount(table, row.center(table.center))),
    }
}

/// Formats a value of the table's figure in a unit in which it can be read.
fn amount(table: &SummaryTable, value: f64) -> String {
    let (by, unit) = readable(&table.unit, value);
    let unit = spaced(unit);
    format!("{}{unit}", plain_number(value / by))
}

/// Formats the figure of the baseline (row `base`) and of row `i`, in one unit: `OLD -> NEW UNIT`.
fn from_to(table: &SummaryTable, base: usize, i: usize) -> String {
    let [old, new] = [base, i].map(|i| table.rows[i].center(table.center));
    let (by, unit) = readable(&table.unit, old.abs().max(new.abs()));
    let unit = spaced(unit);
    format!(
        "{} -> {}{unit}",
        plain_number(old / by),
        plain_number(new / by)
    )
}

/// Returns the reason why a row has no figure, and the value that the figure had reached until the
/// runs ended, if it can only rise.
fn reason(table: &SummaryTable, row: &SummaryRow) -> String {
    let metric = &table.metric;
    let missing = row.missing.clone();
    let why = missing.unwrap_or_else(|| format!("no {metric}"));
    match row.before_end {
        Some(value) => format!("{why}; {metric} {} before that", amount(table, value)),
        None => why,
    }
}

/// Returns the value of a policy that nothing is compared with, or the reason why it has none.
fn alone(table: &SummaryTable, row: &SummaryRow) -> String {
    match row.samples.is_empty() {
        true => format!("{}: {}", row.policy, reason(table, row)),
        false => format!(
            "{}: {} {} (n={})",
            row.policy,
            table.metric,
            amount(table, row.center(table.center)),
            row.samples.len()
        ),
    }
}

/// Returns the sentence that compares the policy of row `i` with the baseline (row `base`) by the
/// table's figure: what can be claimed, with values, and the price in the figures `prices`.
fn sentence(table: &SummaryTable, prices: &[SummaryTable], base: usize, i: usize) -> String {
    let (row, against) = (&table.rows[i], &table.rows[base]);
    let Some(claim) = row.comparison else {
        return alone(table, row);
    };
    let (policy, b) = (&row.policy, &against.policy);
    // Of too few iterations p says nothing.
    let p = claim.p.filter(|_| claim.verdict != Verdict::TooFew);
    let p = p.map_or(String::new(), |p| format!(", {}", stats::p_said(p)));
    let figures = format!(
        "{}{p}, n={}+{}",
        from_to(table, base, i),
        row.samples.len(),
        against.samples.len()
    );
    let share = format!("{:.1} %", claim.change.abs() * 100.0);
    let of = match &table.metric[..] {
        "elapsed" => String::new(),
        metric => format!(" in {metric}"),
    };
    let side = side(table, row);
    let rest = match claim.verdict {
        Verdict::TooFew => String::new(),
        _ => beside(table, prices, base, i, side == Side::Better),
    };
    let change = percent(&claim, row, table);
    if row.same {
        return format!(
            "{policy} is the same as {b} in every run, event for event: what differs has no effect \
             ({figures})"
        );
    }
    match (side, claim.verdict) {
        (Side::Better | Side::Worse, verdict) if table.metric == "elapsed" => {
            let word = if verdict == Verdict::Less {
                "faster"
            } else {
                "slower"
            };
            format!("{policy} is {share} {word} than {b} ({figures}){rest}")
        }
        (Side::Better, _) => format!("{policy} is better than {b}{of}: {change} ({figures}){rest}"),
        (Side::Worse, _) => format!("{policy} is worse than {b}{of}: {change} ({figures}){rest}"),
        (Side::Other, _) => format!("{policy} against {b}{of}: {change} ({figures}){rest}"),
        (_, Verdict::TooFew) => {
            format!("too few iterations to tell {policy} from {b}{of} ({figures})")
        }
        _ => format!("no difference between {policy} and {b}{of} can be claimed ({figures}){rest}"),
    }
}

/// Returns the end of a sentence on the policy of row `i`: the other figures (`prices`) in which it
/// is claimed to be better than the baseline, and those in which it is claimed to be worse. If the
/// policy `gains` in the question, the losses are called its price. Empty if nothing is claimed.
fn beside(
    table: &SummaryTable,
    prices: &[SummaryTable],
    base: usize,
    i: usize,
    gains: bool,
) -> String {
    let claimed = |good: bool| {
        let others = prices.iter().filter(|t| t.metric != table.metric);
        let told = others.filter_map(|t| {
            let row = &t.rows[i];
            let claim = row
                .comparison
                .filter(|c| t.is_good(c.verdict) == Some(good))?;
            Some(format!(
                "{} {} ({})",
                t.metric,
                percent(&claim, row, t),
                from_to(t, base, i)
            ))
        });
        told.collect::<Vec<_>>().join(", ")
    };
    let mut out = String::new();
    let words = match gains {
        true => ["also better", "its price"],
        false => ["better", "worse"],
    };
    for (good, word) in [(true, words[0]), (false, words[1])] {
        let told = claimed(good);
        if !told.is_empty() {
            let _ = write!(out, "; {word}: {told}");
        }
    }
    out
}

/// Returns a label in which a blank follows the `=` of a long word, so that a narrow column may
/// break there.
fn breakable(label: &str) -> String {
    let words = label.split(' ').map(|word| match word.len() > LONG {
        true => word.replacen('=', "= ", 1),
        false => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
