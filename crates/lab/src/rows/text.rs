//! Formats rows for a terminal as MMTests does: the answer first, with asterisks where a difference
//! can be claimed.

use super::{ComparedRow, Group, RowCell, groups};
use crate::figures::stats::{ALPHA, FEW};
use crate::model::{Better, Outcomes};
use std::fmt::Write as _;

/// Rows that tell whether a policy is better; the headline names those that differ.
const KEY_ROWS: [&str; 9] = [
    "fsmark: Files/s mean",
    "duration: Total Elapsed Time (seconds)",
    "duration: User/Sys Time Running Test (seconds)",
    "vmstat: Page writes by reclaim",
    "vmstat: Swap Outs",
    "vmstat: Kswapd efficiency",
    "ftrace vmscan: Direct reclaims",
    "ftrace vmscan: Time stalled direct reclaim (seconds)",
    "ftrace vmscan: Time kswapd awake (seconds)",
];

/// Returns one sentence for each group and each policy but the baseline: how many report rows
/// differ significantly from the baseline (`p < ALPHA`), and the means of those that are key rows,
/// with better or worse.
pub fn answers(groups: &[Group]) -> Vec<String> {
    let mut out = Vec::new();
    for g in groups {
        let policies = g.rows.first().map_or(0, |l| l.cells.len());
        for i in 1..policies {
            let compared: Vec<&ComparedRow> =
                g.rows.iter().filter(|l| l.cells[i].p.is_some()).collect();
            let differ = compared.iter().filter(|l| l.cells[i].significant).count();
            let (policy, base) = (&g.rows[0].cells[i].policy, &g.rows[0].cells[0].policy);
            let mut line = format!(
                "{}: {policy} against {base}: {differ} of {} rows differ (p < {ALPHA})",
                g.group,
                compared.len()
            );
            let named: Vec<String> = KEY_ROWS
                .iter()
                .filter_map(|k| compared.iter().find(|l| l.name == *k))
                .filter(|l| l.cells[i].significant)
                .map(|l| {
                    let of = |c: &RowCell| number(c.mean.unwrap_or(f64::NAN), l.mean_decimals);
                    let word = match (l.better, l.cells[i].mean > l.cells[0].mean) {
                        (Better::Neither, _) => "",
                        (Better::Higher, true) | (Better::Lower, false) => " (better)",
                        _ => " (worse)",
                    };
                    format!(
                        "{} {} -> {}{word}",
                        l.label,
                        of(&l.cells[0]),
                        of(&l.cells[i])
                    )
                })
                .collect();
            if named.is_empty() {
                line.push_str("; none of those that tell policies apart");
            } else {
                let _ = write!(line, ": {}", named.join("; "));
            }
            out.push(line);
        }
    }
    out
}

/// Formats a cell's mean with the digits of its row; `None` without a mean.
pub fn mean_text(line: &ComparedRow, cell: &RowCell) -> Option<String> {
    cell.mean.map(|m| number(m, line.mean_decimals))
}

fn number(x: f64, decimals: usize) -> String {
    format!("{x:.decimals$}")
}

/// Formats a cell's mean with its change against the baseline in per cent: `( 0.00%)`, or
/// `*12.50%*` if a difference can be claimed. Without a mean: `unsupported` or `-`; without a
/// baseline: the mean alone.
fn cell_text(c: &RowCell, line: &ComparedRow) -> String {
    let Some(mean) = c.mean else {
        return if c.unsupported.is_some() {
            "unsupported".into()
        } else {
            "-".into()
        };
    };
    let change = match c.change_percent {
        Some(x) => format!("{x:.2}%"),
        None if c.p.is_some() => "-".into(),
        None => return number(mean, line.mean_decimals),
    };
    let (open, close) = if c.significant {
        ('*', '*')
    } else {
        ('(', ')')
    };
    format!(
        "{} {open}{change:>9}{close}",
        number(mean, line.mean_decimals)
    )
}

/// Formats the report of an experiment for a terminal: the answers, all blocks of rows of all
/// groups, then notes on the number of iterations and on unsupported figures.
pub fn to_text(outcomes: &Outcomes) -> String {
    let groups = groups(outcomes);
    let mut out = String::new();
    for a in answers(&groups) {
        let _ = writeln!(out, "{a}");
    }
    for g in &groups {
        let _ = writeln!(out, "\n{}", g.group);
        block_text(&mut out, &g.rows);
    }
    let _ = writeln!(
        out,
        "\nmeans over the completed iterations; in brackets 100 (new - base) / new, positive where \
         better (more, where neither is better), - where new is 0; stars: p < {ALPHA} (Mann-Whitney U)"
    );
    let iterations = outcomes.experiment.iterations as usize;
    // A single measurement has nothing to be compared with.
    let measured = outcomes.measured();
    if iterations < FEW && (!measured || outcomes.experiment.cells.len() > 1) {
        let more = match measured {
            true => "",
            false => "; raise --iterations",
        };
        let _ = writeln!(
            out,
            "note: fewer than {FEW} iterations: differences can hardly be claimed{more}"
        );
    }
    let missing = groups
        .iter()
        .flat_map(|g| &g.rows)
        .flat_map(|l| &l.cells)
        .filter_map(|c| c.unsupported);
    let mut reasons: Vec<&str> = missing.collect();
    reasons.sort_unstable();
    reasons.dedup();
    if !reasons.is_empty() {
        let _ = writeln!(out, "note: unsupported: {}", reasons.join("; "));
    }
    out
}

/// Returns a row's label with its unit in brackets, unless the label or the values show the unit.
pub(super) fn label(l: &ComparedRow) -> String {
    match l.unit.as_str() {
        "" => l.label.clone(),
        // Some published names include the unit.
        "s" if l.label.ends_with("(seconds)") => l.label.clone(),
        "%" => l.label.clone(),
        unit => format!("{} [{unit}]", l.label),
    }
}

/// Appends the rows of one group to `out`, each block under its heading with the policies' names,
/// in columns as wide as needed.
fn block_text(out: &mut String, rows: &[ComparedRow]) {
    let Some(first) = rows.first() else {
        return;
    };
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|l| l.cells.iter().map(|c| cell_text(c, l)).collect())
        .collect();
    // The width of the column of labels, in characters.
    let names = rows.iter().map(|l| label(l).chars().count()).max();
    let names = names.unwrap_or(0);
    let widths: Vec<usize> = (0..first.cells.len())
        .map(|i| {
            let cells = cells.iter().map(|row| row[i].chars().count()).max();
            cells
                .unwrap_or(0)
                .max(first.cells[i].policy.chars().count())
        })
        .collect();
    let row = |head: &str, fields: &mut dyn Iterator<Item = &str>| {
        let mut line = format!("{head:<names$}");
        for (field, width) in fields.zip(&widths) {
            let _ = write!(line, "  {field:>width$}");
        }
        line.trim_end().to_owned()
    };
    let mut block = "";
    for (l, fields) in rows.iter().zip(&cells) {
        if l.block != block {
            block = l.block;
            let mut policies = l.cells.iter().map(|c| c.policy.as_str());
            let _ = writeln!(out, "\n{}", row(block, &mut policies));
        }
        let _ = writeln!(
            out,
            "{}",
            row(&label(l), &mut fields.iter().map(String::as_str))
        );
    }
}
