//! Formats a comparison for a terminal, in Markdown, as JSON, and as an HTML page.

use super::{Compared, Place, by_chance, direction, word};
use crate::figures::claim::{SummaryRow, SummaryTable, Verdict};
use crate::figures::stats::{self, ALPHA};
use crate::report::compare::changed;
use crate::report::number::plain_number;
use crate::report::{HtmlReport, Opening, along, html};
use crate::terminal::{Col, Screen, Tone, readable, titled};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The form in which a comparison is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Text for a terminal.
    Text(Screen),
    /// Markdown tables for a mail or an issue.
    Markdown,
    /// JSON with all data, including every iteration's value.
    Json,
    /// A self-contained HTML page.
    Html,
}

/// Returns a short name of a place among `places`: its filesystem, policy and number of threads,
/// and axes that differ between places; `all` if it has none of these.
pub(super) fn label(places: &[Place], place: &Place) -> String {
    let varies = |key: &str, value: &str| {
        let mut others = places.iter().flatten().filter(|(k, _)| k == key);
        others.any(|(_, v)| v != value)
    };
    let mut parts: Vec<String> = Vec::new();
    for (key, value) in place {
        match &key[..] {
            "filesystem" | "policy" | "workload.threads" => parts.push(value.clone()),
            _ if varies(key, value) => parts.push(format!("{key}={value}")),
            _ => {}
        }
    }
    if parts.is_empty() {
        "all".into()
    } else {
        parts.join(" ")
    }
}

/// Writes the comparison in a form, with a newline at its end.
pub fn to_text(compared: &Compared, form: Form) -> String {
    match form {
        Form::Text(screen) => plain(compared, screen),
        Form::Markdown => markdown(compared),
        Form::Json => json_text(compared),
        Form::Html => page(compared),
    }
}

/// A line of a table: a figure of one side against the baseline.
struct Line {
    name: String,
    old: String,
    new: String,
    change: String,
    interval: String,
    p: String,
    /// The colour of a claimed difference; `None` if nothing is claimed.
    tone: Option<Tone>,
    word: &'static str,
}

impl Line {
    /// Formats the figure of one side (`own`) with its change against the baseline (`base`).
    fn new(table: &SummaryTable, base: &SummaryRow, own: &SummaryRow) -> Self {
        // All lines of a figure at a place use one unit, whichever side they are of.
        let beside = table.rows.iter().filter(|r| r.axes == base.axes);
        let means = beside.map(|r| r.mean.abs()).filter(|m| m.is_finite());
        let (by, unit) = readable(&table.unit, means.fold(0.0, f64::max));
        let show = |row: &SummaryRow| {
            if row.samples.is_empty() {
                return "-".into();
            }
            let spread = match row.interval {
                Some((low, high)) if row.mean != 0.0 => {
                    let half = (high - row.mean).max(row.mean - low) / row.mean.abs();
                    format!(" ±{:.0}%", half * 100.0)
                }
                _ => String::new(),
            };
            format!("{}{spread}", plain_number(row.mean / by))
        };
        let claim = own.comparison;
        let verdict = claim.map_or(Verdict::Unclear, |c| c.verdict);
        let claimed = verdict.is_claimed();
        let [change, interval] = match claim {
            Some(c) if c.change.is_finite() => changed(c.change, c.interval, claimed),
            _ if claimed => [verdict_word(verdict).into(), String::new()],
            _ => [String::new(), String::new()],
        };
        Self {
            name: titled(&table.metric, unit),
            old: show(base),
            new: show(own),
            change,
            interval,
            p: claim
                .and_then(|c| c.p)
                .map_or_else(String::new, stats::p_value),
            tone: claimed.then(|| table.is_good(verdict).into()),
            word: if claim.is_some() {
                word(table, verdict)
            } else {
                ""
            },
        }
    }
}

/// Returns the word for a change from or to 0.
fn verdict_word(verdict: Verdict) -> &'static str {
    if verdict == Verdict::Less {
        "less"
    } else {
        "more"
    }
}

/// Returns the sentence above a table of `side`: place, sides, numbers of runs, and how many
/// figures differ.
fn heading(compared: &Compared, place: &Place, side: &str) -> String {
    let base = &compared.labels[0];
    let (n, differ) = compared.counted(place, side);
    let runs = |label: &str| {
        let rows = compared
            .tables
            .iter()
            .filter_map(|t| Compared::row(t, place, label));
        rows.map(|r| r.samples.len()).max().unwrap_or(0)
    };
    format!(
        "{}: {side} against {base}, n={}+{}: {differ} of {n} figures differ (p < {ALPHA}; {} would by chance)",
        label(&compared.places, place),
        runs(side),
        runs(base),
        by_chance(n)
    )
}

/// Returns the lines of a table of `side` at a place: figures asked for, and figures that differ.
fn lines(compared: &Compared, place: &Place, side: &str) -> Vec<Line> {
    let base = &compared.labels[0];
    let of = |(i, t): (usize, &SummaryTable)| {
        let (base, own) = (
            Compared::row(t, place, base)?,
            Compared::row(t, place, side)?,
        );
        let line = Line::new(t, base, own);
        let asked = i < compared.asked && !(base.samples.is_empty() && own.samples.is_empty());
        (asked || line.tone.is_some()).then_some(line)
    };
    compared.tables.iter().enumerate().filter_map(of).collect()
}

/// Yields every pair of a place and a side, without the baseline, that has values there.
fn pairs(compared: &Compared) -> impl Iterator<Item = (&Place, &str)> {
    compared.places.iter().flat_map(|place| {
        let sides = compared.labels[1..].iter().map(String::as_str);
        sides
            .filter(|side| compared.counted(place, side).0 > 0)
            .map(move |side| (place, side))
    })
}

/// Writes a table of several sides at a place: a line for each figure and side, so that the values
/// of a sweep stand below each other.
fn sweep(compared: &Compared, place: &Place, screen: Screen) -> String {
    let base = &compared.labels[0];
    let mut grid = screen.grid(&[
        Col::Words("figure"),
        Col::Words(&compared.by),
        Col::Figure("mean"),
        Col::Figure("change"),
        Col::Figure("95 % interval"),
        Col::Figure("p"),
    ]);
    for table in compared.shown() {
        let Some(base) = Compared::row(table, place, base) else {
            continue;
        };
        let mut name = Line::new(table, base, base).name;
        for label in &compared.labels {
            let Some(own) = Compared::row(table, place, label) else {
                continue;
            };
            let l = Line::new(table, base, own);
            grid.row([
                (std::mem::take(&mut name), None),
                (label.clone(), None),
                (l.new, None),
                (l.change, l.tone),
                (l.interval, None),
                (l.p, None),
            ]);
        }
    }
    format!("{}\n", grid.text())
}

/// Writes the comparison for a terminal: with two sides a table for each place, with more a sweep.
fn plain(compared: &Compared, screen: Screen) -> String {
    let mut out = String::new();
    if compared.labels.len() > 2 {
        for place in &compared.places {
            for (_, side) in pairs(compared).filter(|p| p.0 == place) {
                out += &screen.wrapped(&heading(compared, place, side));
            }
            out += &sweep(compared, place, screen);
        }
        out += &along::text(compared.shown(), &compared.by, screen);
        for w in &compared.warnings {
            out += &screen.wrapped(&format!("note: {w}"));
        }
        return out;
    }
    for (place, side) in pairs(compared) {
        out += &screen.wrapped(&heading(compared, place, side));
        let mut grid = screen.grid(&[
            Col::Words("figure"),
            Col::Figure(&compared.labels[0]),
            Col::Figure(side),
            Col::Figure("change"),
            Col::Figure("95 % interval"),
            Col::Figure("p"),
        ]);
        for l in lines(compared, place, side) {
            grid.row([
                (l.name, None),
                (l.old, None),
                (l.new, None),
                (l.change, l.tone),
                (l.interval, None),
                (l.p, None),
            ]);
        }
        let _ = writeln!(out, "{}", grid.text());
    }
    for w in &compared.warnings {
        out += &screen.wrapped(&format!("note: {w}"));
    }
    out
}

/// Writes the comparison in Markdown: a heading and a table for each place and side, and the
/// warnings.
fn markdown(compared: &Compared) -> String {
    let mut out = String::new();
    let safe = |text: &str| text.replace('|', "\\|");
    for (place, side) in pairs(compared) {
        let _ = writeln!(out, "{}\n", heading(compared, place, side));
        let _ = writeln!(
            out,
            "| figure | {} | {} | change | 95 % interval | p | |\n|---|--:|--:|--:|--:|--:|---|",
            safe(&compared.labels[0]),
            safe(side)
        );
        for l in lines(compared, place, side) {
            let change = match l.tone {
                Some(_) => format!("**{}**", l.change),
                None => l.change,
            };
            let _ = writeln!(
                out,
                "| {} | {} | {} | {change} | {} | {} | {} |",
                safe(&l.name),
                l.old,
                l.new,
                l.interval,
                l.p,
                l.word
            );
        }
        out.push('\n');
    }
    for w in &compared.warnings {
        let _ = writeln!(out, "- note: {w}");
    }
    out
}

/// Writes the comparison as JSON: the sides with their runs, and every table with its values.
fn json_text(compared: &Compared) -> String {
    let sides: Vec<Value> = compared
        .columns
        .iter()
        .map(|c| {
            let runs: Vec<Value> = c
                .runs
                .iter()
                .map(|r| {
                    json!({"path": r.path, "experiment": r.name, "seed": r.seed, "build": r.build})
                })
                .collect();
            json!({"name": c.label, "runs": runs})
        })
        .collect();
    let figures: Vec<Value> = compared.tables.iter().map(figure).collect();
    let document = json!({
        "sides": sides,
        "baseline": compared.labels[0],
        "warnings": compared.warnings,
        "figures": figures,
    });
    let mut text = serde_json::to_string_pretty(&document).expect("plain data has a JSON form");
    text.push('\n');
    text
}

/// Returns one figure's table as JSON, with each side's values at each place.
fn figure(table: &SummaryTable) -> Value {
    let finite = |x: f64| x.is_finite().then_some(x);
    let both = |(a, b): (f64, f64)| [a, b];
    let rows: Vec<Value> = table
        .rows
        .iter()
        .map(|r| {
            let c = r.comparison;
            let place: serde_json::Map<String, Value> =
                r.axes.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
            json!({
                "place": place,
                "side": r.policy,
                "values": r.samples,
                "mean": finite(r.mean),
                "interval": r.interval.map(both),
                "change": c.and_then(|c| finite(c.change)),
                "change_interval": c.and_then(|c| c.interval).map(both),
                "p": c.and_then(|c| c.p),
                "verdict": c.map(|c| match c.verdict {
                    Verdict::TooFew => "too few",
                    _ => word(table, c.verdict),
                }),
            })
        })
        .collect();
    json!({
        "name": table.metric,
        "unit": table.unit,
        "better": direction(table.better),
        "rows": rows,
    })
}

/// Writes the comparison as an HTML page that begins with its tables, with the paths and builds of
/// each side as facts.
fn page(compared: &Compared) -> String {
    let first = compared.columns[0].runs.first();
    let facts = compared.columns.iter().map(|c| {
        let paths: Vec<String> = c
            .runs
            .iter()
            .map(|r| r.path.display().to_string())
            .collect();
        let builds: Vec<&str> = c.runs.iter().map(|r| &r.build[..]).collect();
        (
            c.label.clone(),
            format!("{} ({})", paths.join(", "), builds.join(", ")),
        )
    });
    let counts = pairs(compared).map(|(place, side)| heading(compared, place, side));
    html(&HtmlReport {
        opening: Opening::Tables,
        title: compared.labels.join(" against "),
        compared: compared.by.clone(),
        experiment_toml: first.map_or_else(String::new, |r| r.text.clone()),
        version: env!("CARGO_PKG_VERSION").into(),
        seed: first.map_or(0, |r| r.seed),
        facts: facts.collect(),
        summary: compared
            .shown()
            .cloned()
            .map(SummaryTable::readable)
            .collect(),
        cells: Vec::new(),
        notes: counts.chain(compared.warnings.iter().cloned()).collect(),
    })
}
