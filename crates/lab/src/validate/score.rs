//! The table of a suite: the number of figures inside for each scenario, with held-out scenarios
//! apart, which must not influence the building of the engine.

use super::suite::held_out;
use super::{Pair, Standing};
use crate::terminal::Screen;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Fewest scored figures that a scenario must have to count.
pub const FEWEST: usize = 12;

/// The score of one scenario.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The scenario's name.
    pub scenario: String,
    /// True if the scenario is held out.
    pub held_out: bool,
    /// Number of figures inside.
    pub inside: usize,
    /// Number of figures that are scored.
    pub live: usize,
    /// The judged pair.
    pub pair: Pair,
}

impl Row {
    /// Scores a judged pair of kernel and preset: how many of the scored figures are inside, that
    /// is, near the kernel's.
    pub fn new(scenario: &str, pair: Pair) -> Self {
        let (inside, live) = match pair.completed {
            // If no run of the preset completed, every figure that the kernel moved counts as a
            // miss.
            (1.., 0) => {
                let moved = |s: &crate::figures::stats::Summary| s.min != 0.0 || s.max != 0.0;
                let told = pair.figures.iter().filter_map(|j| j.kernel.as_ref());
                (0, told.filter(|s| moved(s)).count())
            }
            _ => pair.score(),
        };
        Self {
            scenario: scenario.to_owned(),
            held_out: held_out(scenario),
            inside,
            live,
            pair,
        }
    }

    /// Returns true if the scenario has enough scored figures to count.
    pub fn enough(&self) -> bool {
        self.live >= FEWEST
    }

    /// Returns the share of the scored figures that are inside, 0 to 1.
    fn share(&self) -> f64 {
        self.inside as f64 / self.live.max(1) as f64
    }
}

/// The scores of a preset beside a kernel over a suite.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    /// The kernel's name.
    pub kernel: String,
    /// The kernel's release (`uname -r`) in a guest.
    pub release: String,
    /// The preset's name.
    pub preset: String,
    /// Numbers of figures inside and scored, over scenarios that are not held out.
    pub deciding: (usize, usize),
    /// Numbers of figures inside and scored, over held-out scenarios.
    pub held_out: (usize, usize),
    /// The scenarios, the worst first.
    pub rows: Vec<Row>,
}

impl Verdict {
    /// Sums up the scores of scenarios of a preset beside a kernel, with held-out scenarios apart;
    /// only scenarios with enough scored figures count. Sorts the scenarios by their share, the
    /// worst first.
    pub fn new(kernel: &str, release: &str, preset: &str, mut rows: Vec<Row>) -> Self {
        rows.sort_by(|a, b| {
            let worst = a.share().total_cmp(&b.share());
            worst.then_with(|| a.scenario.cmp(&b.scenario))
        });
        let sum = |apart: bool| {
            let of = rows.iter().filter(|r| r.held_out == apart && r.enough());
            of.fold((0, 0), |(i, l), r| (i + r.inside, l + r.live))
        };
        Self {
            kernel: kernel.to_owned(),
            release: release.to_owned(),
            preset: preset.to_owned(),
            deciding: sum(false),
            held_out: sum(true),
            rows,
        }
    }

    /// Returns the scenarios that are held out (`apart`), or those that are not.
    fn part(&self, apart: bool) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |r| r.held_out == apart)
    }

    /// Returns every figure with its name, the number of scenarios in which it is inside (the
    /// preset comes near the kernel), and the number in which it is scored, over scenarios that are
    /// not held out; the worst share first.
    fn by_figure(&self) -> Vec<(&str, usize, usize)> {
        let mut all: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        let scored = self.part(false).filter(|r| r.enough());
        for judged in scored.flat_map(|r| &r.pair.figures) {
            if judged.standing.scored() {
                let (inside, live) = all.entry(&judged.name).or_default();
                *inside += usize::from(judged.standing == Standing::Inside);
                *live += 1;
            }
        }
        let mut all: Vec<_> = all.into_iter().map(|(n, (i, l))| (n, i, l)).collect();
        let share = |&(_, i, l): &(&str, usize, usize)| i as f64 / l as f64;
        all.sort_by(|a, b| share(a).total_cmp(&share(b)).then(b.2.cmp(&a.2)));
        all
    }

    /// Returns the names of the figures that were added to the list after the kernel's were kept.
    fn unmeasured(&self) -> Vec<&str> {
        let first = self.rows.first().into_iter();
        let unmeasured = first
            .flat_map(|row| &row.pair.figures)
            .filter(|judged| judged.standing == Standing::Unmeasured);
        unmeasured.map(|judged| judged.name.as_str()).collect()
    }

    /// Returns the table of scenarios that are held out (`apart`), or of those that are not:
    /// figures inside, their share, where and when the runs part first, and completed iterations of
    /// kernel and preset.
    fn rows_of(&self, apart: bool) -> Vec<Vec<String>> {
        let parting = |row: &Row| match &row.pair.parting {
            None => "-".to_owned(),
            Some(p) => format!("{}, {:.1} s", p.column, p.at),
        };
        let line = |row: &Row| {
            vec![
                row.scenario.clone(),
                format!("{} of {}", row.inside, row.live),
                match row.enough() {
                    true => percent(row.inside, row.live),
                    false => format!("fewer than {FEWEST}: not scored"),
                },
                parting(row),
                format!("{}+{}", row.pair.completed.0, row.pair.completed.1),
            ]
        };
        self.part(apart).map(line).collect()
    }
}

/// The header of the table of scenarios.
const HEADER: [&str; 5] = ["scenario", "inside", "share", "they part first in", "n"];

/// Formats the share of `inside` among `live` (scored) figures in per cent; `-` if none is scored.
pub(super) fn percent(inside: usize, live: usize) -> String {
    match live {
        0 => "-".to_owned(),
        n => format!("{:.0} %", 100.0 * inside as f64 / n as f64),
    }
}

/// The form in which tables are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Ruled tables for a terminal.
    Text,
    /// Markdown tables for a page.
    Markdown,
}

impl Form {
    /// Returns a table in this form, with a newline at its end. Ruled tables are fitted to the
    /// screen.
    pub(super) fn table(self, header: &[&str], lines: &[Vec<String>], screen: Screen) -> String {
        match self {
            Self::Text => {
                let mut table = screen.table(header);
                lines.iter().for_each(|line| {
                    table.add_row(line);
                });
                format!("{table}\n")
            }
            Self::Markdown => {
                let mut out = format!("| {} |\n", header.join(" | "));
                let _ = writeln!(out, "|{}", "---|".repeat(header.len()));
                for line in lines {
                    let _ = writeln!(out, "| {} |", line.join(" | "));
                }
                out
            }
        }
    }
}

/// Writes for each preset the totals with the table of scenarios that decide, the same of held-out
/// scenarios, and the figures of the scenarios that decide. Text is fitted to the screen.
pub fn to_text(verdicts: &[Verdict], form: Form, screen: Screen) -> String {
    let mut out = String::new();
    for verdict in verdicts {
        let title = format!(
            "{} beside kernel:{} ({})",
            verdict.preset, verdict.kernel, verdict.release
        );
        let _ = match form {
            Form::Text => writeln!(out, "== {title}\n"),
            Form::Markdown => writeln!(out, "## {title}\n"),
        };
        // `apart`: the scenarios that are held out.
        for (apart, name) in [
            (false, "what decides"),
            (true, "held out, decides nothing while building"),
        ] {
            let (inside, live) = if apart {
                verdict.held_out
            } else {
                verdict.deciding
            };
            let rows = verdict.rows_of(apart);
            if rows.is_empty() {
                continue;
            }
            let share = percent(inside, live);
            let _ = writeln!(out, "{name}: {inside} of {live} figures inside ({share})\n");
            let _ = writeln!(out, "{}", form.table(&HEADER, &rows, screen));
        }
        let few: Vec<&str> = verdict
            .rows
            .iter()
            .filter(|r| !r.enough())
            .map(|r| r.scenario.as_str())
            .collect();
        if !few.is_empty() {
            let few = few.join(", ");
            let _ = writeln!(
                out,
                "Not scored, as fewer than {FEWEST} figures are: {few}.\n"
            );
        }
        let unmeasured = verdict.unmeasured();
        if !unmeasured.is_empty() {
            let _ = writeln!(
                out,
                "Not measured when the kernel's figures were kept, and so not scored: {}.\n",
                unmeasured.join(", ")
            );
        }
        let by_figure = verdict.by_figure();
        if !by_figure.is_empty() {
            let figures: Vec<String> = by_figure
                .iter()
                .map(|(name, inside, live)| format!("{name} {inside}/{live}"))
                .collect();
            let _ = writeln!(
                out,
                "By figure, worst first (scenarios that decide): {}.\n",
                figures.join("; ")
            );
        }
    }
    match form {
        Form::Text => screen.broken(&out),
        Form::Markdown => out,
    }
}

#[cfg(test)]
mod tests {
    use super::super::judged;
    use super::super::measured::{Course, Measured, Told};
    use super::*;

    /// Returns the first figures of the list, in its order, with one value each.
    fn measured(policy: &str, values: &[f64]) -> Measured {
        let figures = judged::figures();
        let told = figures.iter().zip(values).map(|(figure, value)| {
            let told = Told {
                unit: "pages".to_owned(),
                values: vec![*value],
            };
            (figure.name.clone(), told)
        });
        Measured {
            policy: policy.to_owned(),
            group: "ext4".to_owned(),
            completed: 1,
            moved: 0.0,
            managed: None,
            figures: told.collect(),
            course: Course::default(),
        }
    }

    fn row(scenario: &str, kernel: &[f64], engine: &[f64]) -> Row {
        let (k, e) = (
            measured("kernel:6.12", kernel),
            measured("linux-4.9", engine),
        );
        Row::new(scenario, Pair::of(&k, &e, &judged::figures()))
    }

    #[test]
    fn parts_are_summed_apart_and_the_worst_is_first() {
        let kernel = [1000.0; 12];
        let mut half = kernel;
        half[..6].fill(5000.0);
        let rows = vec![
            row("write-ext4-2g", &kernel, &kernel),
            row("write-ext4-256m", &kernel, &half),
            row("database-xfs-1g", &kernel, &half),
            row("fsync-ext4-256m", &kernel[..11], &kernel[..11]),
        ];
        let verdict = Verdict::new("6.12", "6.12.94", "linux-4.9", rows);
        assert_eq!(verdict.held_out, (6, 12), "write-ext4-256m");
        assert_eq!(verdict.deciding, (18, 24), "without what has 11 figures");
        assert_eq!(verdict.rows[0].scenario, "database-xfs-1g");
        let text = to_text(&[verdict], Form::Markdown, Screen::default());
        assert!(
            text.contains("| database-xfs-1g | 6 of 12 | 50 % | - | 1+1 |"),
            "{text}"
        );
        assert!(text.contains("Not scored, as fewer than 12 figures are: fsync-ext4-256m."));
    }

    #[test]
    fn a_preset_that_never_gets_to_the_end_misses_everything() {
        let kernel = [1000.0; 12];
        let mut k = measured("kernel:6.12", &kernel);
        k.figures.insert(
            "pswpin".to_owned(),
            Told {
                unit: "pages".to_owned(),
                values: vec![0.0],
            },
        );
        let none = Measured {
            completed: 0,
            ..measured("linux-4.9", &[])
        };
        let row = Row::new("a", Pair::of(&k, &none, &judged::figures()));
        assert_eq!(
            (row.inside, row.live),
            (0, 12),
            "what the kernel has at 0 is not scored"
        );
    }
}
