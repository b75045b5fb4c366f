//! Formats the findings for a terminal and as JSON.

use super::{Addition, Attribution, Finding, Row};
use crate::report::number::short;
use crate::terminal::Screen;
use comfy_table::{Table, presets};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Returns the findings as text for a screen: for each group of cells sentences that answer, and a
/// table; then the patches and the number of looks and runs.
pub fn to_text(found: &Attribution, screen: Screen) -> String {
    let looks: Vec<String> = found.looks.iter().map(u32::to_string).collect();
    let mut out = format!(
        "{}: {} patches on {}, {}\n",
        found.patches.series,
        found.patches.patch.len(),
        found.patches.base,
        found.patches.experiment
    );
    let mut groups: Vec<&str> = Vec::new();
    for row in &found.rows {
        if !groups.contains(&&row.group[..]) {
            groups.push(&row.group);
        }
    }
    for group in groups {
        let rows: Vec<&Row> = found.rows.iter().filter(|r| r.group == group).collect();
        let _ = writeln!(out, "\n{group}");
        out += &answers(&rows);
        out += &table(&rows, screen);
        out.push('\n');
    }
    for patch in &found.patches.patch {
        let note = patch
            .note
            .as_ref()
            .map_or_else(String::new, |n| format!(" ({n})"));
        let _ = writeln!(out, "{}: {}{note}", patch.number, patch.title);
    }
    let _ = writeln!(
        out,
        "\nlooks at {} iterations; Mann–Whitney U, two-sided, p times the number of looks; {} runs, {} without a result",
        looks.join(", "),
        found.runs,
        found.lost
    );
    if found.interrupted {
        out += "interrupted: comparisons that are not decided stand as `open`\n";
    }
    screen.broken(&out)
}

/// Returns a line for each figure that names the patches that moved it, as first and as last
/// additions.
fn answers(rows: &[&Row]) -> String {
    let mut out = String::new();
    let mut figures: Vec<&str> = Vec::new();
    for row in rows {
        if !figures.contains(&&row.figure[..]) {
            figures.push(&row.figure);
        }
    }
    for figure in figures {
        let moved = |addition: Addition| {
            let of = rows.iter().filter(|r| {
                r.figure == figure
                    && r.addition == addition
                    && matches!(r.finding, Finding::Less | Finding::More)
            });
            let words: Vec<String> = of
                .map(|r| {
                    format!(
                        "patch {} ({} -> {})",
                        r.patch,
                        short(r.without),
                        short(r.with)
                    )
                })
                .collect();
            match words.is_empty() {
                true => "no patch".to_owned(),
                false => words.join(", "),
            }
        };
        let (first, last) = (moved(Addition::First), moved(Addition::Last));
        let _ = writeln!(
            out,
            "{figure}: moved by {first} where patches are added in order, by {last} where one alone is left out"
        );
    }
    out
}

/// Returns the measured rows as a table, followed by the patches that switch nothing and those that
/// change no byte.
fn table(rows: &[&Row], screen: Screen) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "patch", "addition", "figure", "without", "with", "change", "p", "n", "",
    ]);
    let measured = |r: &&&Row| !matches!(r.finding, Finding::Same | Finding::NoSwitch);
    for row in rows.iter().filter(measured) {
        let value = |v: f64| {
            if v.is_finite() {
                short(v)
            } else {
                "-".to_owned()
            }
        };
        let change = 100.0 * (row.with / row.without - 1.0);
        let change = match change.is_finite() {
            true => format!("{change:+.1} %"),
            false => "-".to_owned(),
        };
        table.add_row([
            row.patch.to_string(),
            addition(row.addition).to_owned(),
            format!("{} [{}]", row.figure, row.unit),
            value(row.without),
            value(row.with),
            change,
            row.p.map_or_else(|| "-".to_owned(), |p| format!("{p:.3}")),
            row.n.to_string(),
            words(row).to_owned(),
        ]);
    }
    let mut out = String::new();
    if rows.iter().any(|r| measured(&r)) {
        out = format!("{}\n", screen.fitted(table));
    }
    for (finding, told) in [
        (Finding::Same, "the same bytes with and without"),
        (Finding::NoSwitch, "the same switches with and without"),
    ] {
        let mut of: Vec<String> = Vec::new();
        for row in rows.iter().filter(|r| r.finding == finding) {
            let word = format!("{} ({})", row.patch, addition(row.addition));
            if !of.contains(&word) {
                of.push(word);
            }
        }
        if !of.is_empty() {
            let _ = writeln!(out, "{told}: patch {}", of.join(", "));
        }
    }
    out
}

/// Returns the word for how a patch was added: behind those before it (`first`), or to all others
/// of the series (`last`).
fn addition(addition: Addition) -> &'static str {
    match addition {
        Addition::First => "first",
        Addition::Last => "last",
    }
}

/// Returns the words for a row's finding in a table: whether the patch makes the figure better or
/// worse, where that can be claimed.
fn words(row: &Row) -> &'static str {
    match (row.finding, row.good) {
        (Finding::Less | Finding::More, Some(true)) => "better",
        (Finding::Less | Finding::More, Some(false)) => "worse",
        (Finding::Less, None) => "less",
        (Finding::More, None) => "more",
        (Finding::Unclear, _) => "not to be claimed",
        (Finding::Same, _) => "the same bytes",
        (Finding::NoSwitch, _) => "the same switches",
        (Finding::Open, _) => "open",
    }
}

/// Returns all findings as JSON: the series with its patches, the looks and runs, and a row for
/// each comparison.
pub fn to_json(found: &Attribution) -> Value {
    let patches: Vec<Value> = found
        .patches
        .patch
        .iter()
        .map(|p| json!({ "number": p.number, "title": p.title, "switches": p.switches, "note": p.note }))
        .collect();
    json!({
        "series": found.patches.series,
        "base": found.patches.base,
        "experiment": found.patches.experiment,
        "looks": found.looks,
        "runs": found.runs,
        "lost": found.lost,
        "interrupted": found.interrupted,
        "patches": patches,
        "rows": found.rows,
    })
}
