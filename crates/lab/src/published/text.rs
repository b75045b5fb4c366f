//! Formats scores as text and as JSON.

use super::score::{Scored, count, directions, is_fitted};
use super::table::{Direction, Tolerance};
use crate::terminal::RULED;
use comfy_table::{Cell as TableCell, CellAlignment, Table};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Returns, as JSON, the number of scored cells, the number within their tolerance, and the
/// published directions with those that agree.
fn totals(rows: &[Scored]) -> [Value; 3] {
    let all = count(rows, |_| true);
    let (checked, agree) = directions(rows);
    [
        json!(all.cells),
        json!(all.within),
        json!({"checked": checked, "agree": agree}),
    ]
}

/// Returns the scores of several series as JSON: for each its title, its scored rows and counts,
/// then the totals of all series and the rows for which the engine has no value.
pub fn to_json(series: &[(String, Vec<Scored>)]) -> Value {
    let name = |d: Option<Direction>| match d {
        Some(Direction::Up) => json!("up"),
        Some(Direction::Down) => json!("down"),
        None => json!(""),
    };
    let all: Vec<Scored> = series.iter().flat_map(|s| s.1.iter().cloned()).collect();
    let list: Vec<Value> = series
        .iter()
        .map(|(title, rows)| {
            let [cells, within, direction] = totals(rows);
            // Cells whose tolerance is not merely an upper limit, and cells to which nothing was
            // fitted.
            let strict = count(rows, |r| !matches!(r.row.tolerance, Tolerance::Zero(_)));
            let predicted = count(rows, |r| !is_fitted(&r.row));
            json!({
                "name": title,
                "rows": rows.iter().map(|r| json!({
                    "machine": r.row.machine, "threads": r.row.threads,
                    "filesystem": r.row.filesystem, "workload": r.row.workload,
                    "metric": r.row.metric, "policy": r.row.policy,
                    "published": r.row.value, "measured": r.measured, "within": r.within,
                    "direction": name(r.row.direction), "agrees": r.agrees.unwrap_or(false),
                })).collect::<Vec<_>>(),
                "cells": cells, "within": within, "direction": direction,
                "other_than_zero": {"cells": strict.cells, "within": strict.within},
                "not_fitted": {"cells": predicted.cells, "within": predicted.within},
            })
        })
        .collect();
    let [cells, within, direction] = totals(&all);
    let unsupported: Vec<Value> = all
        .iter()
        .filter_map(|r| {
            r.unsupported.as_ref().map(|why| {
                json!({
                    "series": r.row.series, "machine": r.row.machine, "threads": r.row.threads,
                    "filesystem": r.row.filesystem, "workload": r.row.workload,
                    "metric": r.row.metric, "policy": r.row.policy, "reason": why,
                })
            })
        })
        .collect();
    json!({
        "series": list,
        "total": {"cells": cells, "within": within, "direction": direction},
        "unsupported": unsupported,
    })
}

/// Returns the scores of one series as text for a terminal: a table with a line for each row, the
/// rows without a value, and the totals.
pub fn to_text(title: &str, rows: &[Scored]) -> String {
    let mut t = Table::new();
    t.load_style(RULED);
    t.set_header([
        "machine",
        "threads",
        "filesystem",
        "workload",
        "metric",
        "policy",
        "published",
        "engine",
        "deviation",
        "within",
        "direction",
    ]);
    for r in rows {
        let right = |s: String| TableCell::new(s).set_alignment(CellAlignment::Right);
        let deviation = match r.measured {
            Some(e) if r.row.value != 0.0 => format!("{:+.1} %", (e / r.row.value - 1.0) * 100.0),
            Some(e) => format!("{e:+}"),
            None => String::new(),
        };
        t.add_row([
            TableCell::new(&r.row.machine),
            TableCell::new(&r.row.threads),
            TableCell::new(&r.row.filesystem),
            TableCell::new(&r.row.workload),
            TableCell::new(&r.row.metric),
            TableCell::new(&r.row.policy),
            right(r.row.value.to_string()),
            right(r.measured.map_or("unsupported".into(), |e| {
                ((e * 1000.0).round() / 1000.0).to_string()
            })),
            right(deviation),
            TableCell::new(match (r.row.tolerance, r.within) {
                (Tolerance::None, _) => "not scored",
                (_, true) => "yes",
                (_, false) => "no",
            }),
            TableCell::new(match r.agrees {
                None => "",
                Some(true) => "agrees",
                Some(false) => "disagrees",
            }),
        ]);
    }
    format!("{title}\n{t}\n{}{}", unsupported(rows), summary(rows))
}

/// Lists the reasons why rows have no value, each once with the number of its rows.
fn unsupported(rows: &[Scored]) -> String {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for why in rows.iter().filter_map(|r| r.unsupported.as_deref()) {
        *reasons.entry(why).or_default() += 1;
    }
    let lines = reasons.iter().map(|(why, n)| {
        let rows = if *n == 1 { "row" } else { "rows" };
        format!("unsupported, {n} {rows}: {why}\n")
    });
    lines.collect()
}

/// Summarises scored rows in four lines: how many cells are within their tolerance, in all and in
/// two selections, and how many directions agree.
pub fn summary(rows: &[Scored]) -> String {
    let mut out = String::new();
    let all = count(rows, |_| true);
    let strict = count(rows, |r| !matches!(r.row.tolerance, Tolerance::Zero(_)));
    let predicted = count(rows, |r| !is_fitted(&r.row));
    let (checked, agree) = directions(rows);
    let _ = writeln!(
        out,
        "scored cells within tolerance: {} of {}",
        all.within, all.cells
    );
    let _ = writeln!(
        out,
        "  with a tolerance other than zero: {} of {}",
        strict.within, strict.cells
    );
    let _ = writeln!(
        out,
        "  to which no parameter was fitted: {} of {}",
        predicted.within, predicted.cells
    );
    let _ = writeln!(out, "directions that agree: {agree} of {checked}");
    out
}
