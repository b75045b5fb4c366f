//! Formats rows for a terminal as MMTests does: the answer first, with asterisks where a difference
//! can be claimed.

use super::{ComparedRow, Group, RowCell, groups};
use crate::figures::stats::{ALPHA, FEW};
use crate::model::{Better, Outcomes};
use crate::terminal::Screen;
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

/// Formats the report of an experiment: the answers, all blocks of rows of all groups, then notes
/// on the number of iterations and on unsupported figures. Where the screen is too narrow for all
/// policies the blocks are repeated, each time with the baseline and as many others as it has room
/// for.
pub fn to_text(outcomes: &Outcomes, screen: Screen) -> String {
    let groups = groups(outcomes);
    let mut out: String = answers(&groups).iter().map(|a| screen.wrapped(a)).collect();
    for g in &groups {
        let _ = writeln!(out, "\n{}", g.group);
        blocks_text(&mut out, &g.rows, screen);
    }
    out.push('\n');
    out += &screen.wrapped(&format!(
        "means over the completed iterations; in brackets 100 (new - base) / new, positive where \
         better (more, where neither is better), - where new is 0; stars: p < {ALPHA} (Mann-Whitney U)"
    ));
    let iterations = outcomes.experiment.iterations as usize;
    // A single measurement has nothing to be compared with.
    let measured = outcomes.measured();
    if iterations < FEW && (!measured || outcomes.experiment.cells.len() > 1) {
        let more = match measured {
            true => "",
            false => "; raise --iterations",
        };
        out += &screen.wrapped(&format!(
            "note: fewer than {FEW} iterations: differences can hardly be claimed{more}"
        ));
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
        out += &screen.wrapped(&format!("note: unsupported: {}", reasons.join("; ")));
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

/// Blanks before a column of figures.
const GAP: usize = 2;

/// Appends the rows of one group to `out`, each block under its heading with the policies' names,
/// in columns as wide as needed, as often as the screen's width asks for.
fn blocks_text(out: &mut String, rows: &[ComparedRow], screen: Screen) {
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
    for columns in columns_of(names, &widths, screen.width) {
        let row = |head: &str, field: &dyn Fn(usize) -> String| {
            let mut line = format!("{head:<names$}");
            for &column in &columns {
                let (field, width) = (field(column), widths[column]);
                let _ = write!(line, "{:GAP$}{field:>width$}", "");
            }
            line.trim_end().to_owned()
        };
        let mut block = "";
        for (l, fields) in rows.iter().zip(&cells) {
            if l.block != block {
                block = l.block;
                let heading = row(block, &|column| l.cells[column].policy.clone());
                let _ = writeln!(out, "\n{heading}");
            }
            let _ = writeln!(out, "{}", row(&label(l), &|column| fields[column].clone()));
        }
    }
}

/// Splits columns of these widths, the baseline's first, into sets that fit a screen's width beside
/// labels of width `names`: the baseline and at least one other in each, in their order.
fn columns_of(names: usize, widths: &[usize], screen: Option<u16>) -> Vec<Vec<usize>> {
    let most = screen.map_or(usize::MAX, usize::from);
    let wide = |column: &usize| GAP + widths[*column];
    let mut sets: Vec<Vec<usize>> = vec![vec![0]];
    for column in 1..widths.len() {
        let last = sets.last_mut().expect("there is one");
        let used: usize = names + last.iter().map(wide).sum::<usize>();
        if last.len() == 1 || used + wide(&column) <= most {
            last.push(column);
        } else {
            sets.push(vec![0, column]);
        }
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fill_the_screen_beside_the_baseline() {
        let widths = [8, 18, 18, 18];
        assert_eq!(columns_of(30, &widths, None), [[0, 1, 2, 3]]);
        assert_eq!(columns_of(30, &widths, Some(100)), [[0, 1, 2, 3]]);
        assert_eq!(
            columns_of(30, &widths, Some(80)),
            [vec![0, 1, 2], vec![0, 3]]
        );
        // A screen that has no room for two columns gets them all the same.
        assert_eq!(columns_of(30, &widths, Some(40)), [[0, 1], [0, 2], [0, 3]]);
        assert_eq!(columns_of(30, &[8], Some(80)), [[0]]);
    }
}
