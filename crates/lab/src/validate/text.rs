//! Formats a validation as text and as CSV.

use super::{Judged, Pair, Standing, Validation};
use crate::figures::stats::Summary;
use crate::report::said;
use crate::results::csv::{Csv, number};
use crate::terminal::RULED;
use crate::terminal::Screen;
use comfy_table::{Cell, CellAlignment, Table};
use std::fmt::Write as _;

/// Returns the result of a validation for a screen: a sentence for each pair of kernel and preset,
/// the score of all, then a table of figures for each pair.
pub fn to_text(validation: &Validation, screen: Screen) -> String {
    let mut out = said(&validation.said);
    for pair in &validation.pairs {
        let _ = writeln!(out, "{}", answer(pair));
    }
    let (inside, scored) = validation.score();
    let _ = writeln!(
        out,
        "all: {inside} of {scored} figures inside{}\n",
        share(inside, scored)
    );
    for pair in &validation.pairs {
        let _ = writeln!(
            out,
            "{}: {} beside {}",
            pair.group, pair.preset, pair.kernel
        );
        let _ = writeln!(out, "{}\n", screen.fitted(table(pair)));
    }
    let _ = writeln!(
        out,
        "Inside: the preset's median lies in the kernel's range or within 10 % of its median (pages: or within 64, \
         or a thousandth of those that the devices moved). Not scored: 0 in both, or not told by the kernel."
    );
    screen.broken(&out)
}

/// Formats the share of `inside` among `scored` figures in per cent, in brackets; empty if none is
/// scored.
fn share(inside: usize, scored: usize) -> String {
    match scored {
        0 => String::new(),
        n => format!(" ({:.0} %)", 100.0 * inside as f64 / n as f64),
    }
}

/// Returns one sentence on a kernel and a preset: the score, the time from which their series
/// differ, and the completed iterations of both (`n`).
fn answer(pair: &Pair) -> String {
    let (inside, scored) = pair.score();
    let parting = match &pair.parting {
        None => "their series do not part".to_owned(),
        Some(p) => format!(
            "they part at {:.1} s in {} ({:.0} pages, {:.0} in the preset)",
            p.at, p.column, p.kernel, p.engine
        ),
    };
    let (kernel, preset) = pair.completed;
    format!(
        "{}: {} has {inside} of {scored} figures inside those of {}{}; {parting}; n={kernel}+{preset}",
        pair.group,
        pair.preset,
        pair.kernel,
        share(inside, scored)
    )
}

/// Returns the table of a pair's scored figures, those outside first: median and range of the
/// kernel and of the preset, the ratio of the medians and the verdict.
fn table(pair: &Pair) -> Table {
    let mut table = Table::new();
    table.load_style(RULED);
    table.set_header([
        "figure",
        pair.kernel.as_str(),
        "min … max",
        pair.preset.as_str(),
        "min … max",
        "ratio",
        "",
    ]);
    let rank = |j: &&Judged| match j.standing {
        Standing::Outside => 0,
        Standing::Unsupported => 1,
        Standing::Inside => 2,
        Standing::Untold | Standing::Idle | Standing::Unmeasured => 3,
    };
    let mut shown: Vec<&Judged> = pair
        .figures
        .iter()
        .filter(|j| j.standing.scored())
        .collect();
    shown.sort_by_key(rank);
    for judged in shown {
        let right = |s: String| Cell::new(s).set_alignment(CellAlignment::Right);
        let middle = |s: &Option<Summary>| s.as_ref().map_or("-".to_owned(), |s| short(s.median));
        let range = |s: &Option<Summary>| match s {
            None => String::new(),
            Some(s) => format!("{} … {}", short(s.min), short(s.max)),
        };
        let name = match judged.unit.as_str() {
            "" => judged.name.clone(),
            unit => format!("{} [{unit}]", judged.name),
        };
        table.add_row([
            Cell::new(name),
            right(middle(&judged.kernel)),
            right(range(&judged.kernel)),
            right(middle(&judged.engine)),
            right(range(&judged.engine)),
            right(judged.ratio.map_or(String::new(), |r| format!("{r:.2}"))),
            Cell::new(match judged.standing {
                Standing::Inside => "inside",
                Standing::Outside => "outside",
                Standing::Unsupported => "unsupported",
                Standing::Idle | Standing::Untold | Standing::Unmeasured => "",
            }),
        ]);
    }
    table
}

/// Formats a value with few digits: none after the point from 100 on, up to four below 1.
fn short(x: f64) -> String {
    match x.abs() {
        _ if x == x.trunc() => format!("{x:.0}"),
        m if m >= 100.0 => format!("{x:.0}"),
        m if m >= 1.0 => format!("{x:.2}"),
        _ => format!("{x:.4}"),
    }
}

/// Returns a CSV table with one row for each figure of each pair: the verdict, then number of
/// iterations, minimum, median and maximum of the kernel and of the preset.
pub fn to_csv(validation: &Validation) -> Vec<u8> {
    let mut csv = Csv::default();
    csv.row([
        "group",
        "kernel",
        "preset",
        "figure",
        "unit",
        "standing",
        "ratio",
        "kernel_n",
        "kernel_min",
        "kernel_median",
        "kernel_max",
        "preset_n",
        "preset_min",
        "preset_median",
        "preset_max",
    ]);
    for pair in &validation.pairs {
        for judged in &pair.figures {
            let standing = serde_json::to_value(judged.standing).expect("a word");
            let of = |s: &Option<Summary>| match s {
                None => [const { String::new() }; 4],
                Some(s) => [
                    s.n.to_string(),
                    number(s.min),
                    number(s.median),
                    number(s.max),
                ],
            };
            let mut row = vec![
                pair.group.clone(),
                pair.kernel.clone(),
                pair.preset.clone(),
                judged.name.clone(),
                judged.unit.clone(),
                standing.as_str().unwrap_or_default().to_owned(),
                judged.ratio.map(number).unwrap_or_default(),
            ];
            row.extend(of(&judged.kernel));
            row.extend(of(&judged.engine));
            csv.row(row);
        }
    }
    csv.into_bytes()
}

/// Counts the figures inside, and those that are scored, in text that [`to_csv`] has written.
/// Returns both in this order.
pub fn score_of_csv(csv: &str) -> (usize, usize) {
    // The standing is followed by nine numbers; fields before it may contain commas.
    let standings = csv
        .lines()
        .skip(1)
        .filter_map(|line| line.rsplit(',').nth(9));
    standings.fold((0, 0), |(inside, scored), standing| match standing {
        "inside" => (inside + 1, scored + 1),
        "outside" | "unsupported" => (inside, scored + 1),
        _ => (inside, scored),
    })
}
