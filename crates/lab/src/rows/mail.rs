//! Formats rows for a reply on a mailing list: plain ASCII, no line longer than [`WIDTH`].
//!
//! ```text
//! setup              experiment, machine, seeds; each policy, with the kernel's release
//! == group           a table: the baseline's mean, then each policy's mean, its change and p
//! == group (2 of 2)  the same rows, where there are more policies than a line has room for
//! notes              the meaning of the columns, and why some rows are left out
//! ```

use super::text::label;
use super::{ComparedRow, Group, groups};
use crate::figures::claim::{Center, Claim, Verdict};
use crate::figures::stats::{ALPHA, FEW};
use crate::model::{Cell, Outcomes};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Width of the longest line, in characters: a quoted reply still fits in 80.
pub const WIDTH: usize = 72;
/// Least width of a row's label, in characters; longer labels are continued in the next line.
const LABEL: usize = 20;
/// Width of the longest number, in characters; longer ones are written with an exponent.
const NUMBER: usize = 11;
/// Blanks between two columns.
const GAP: usize = 2;

/// Formats the report rows of an experiment as a mail in plain ASCII. `releases` has the release of
/// each real kernel (as `uname -r` prints it), by the name of its build.
pub fn to_text(outcomes: &Outcomes, releases: &BTreeMap<String, String>) -> String {
    let groups = groups(outcomes);
    let mut out = heading(outcomes, releases);
    let mut left_out = LeftOut::default();
    for group in &groups {
        out += &group_text(group, &mut left_out);
    }
    out.push('\n');
    out += &ending(outcomes, &left_out);
    out
}

/// Reasons why rows are left out of the tables.
#[derive(Default)]
struct LeftOut {
    zero: bool,
    unsupported: Vec<&'static str>,
}

/// Describes, as the mail's first paragraphs, the experiment, machines and policies that ran.
/// `releases` has the release of each real kernel by its build.
fn heading(outcomes: &Outcomes, releases: &BTreeMap<String, String>) -> String {
    let experiment = &outcomes.experiment;
    let iterations = match experiment.iterations {
        1 => "1 iteration".into(),
        n => format!("{n} iterations"),
    };
    let what = format!(
        "{}: {iterations} of each policy, their seeds from {}",
        experiment.name, experiment.seed
    );
    let mut out = wrapped("", &what);
    for line in &experiment.said {
        out += &wrapped("", line);
    }
    let mut machines: Vec<String> = Vec::new();
    for cell in &experiment.cells {
        let text = machine(cell);
        if !machines.contains(&text) {
            machines.push(text);
        }
    }
    out += &wrapped("Machine: ", &machines.join("; "));
    // Each policy's name, and the texts on what it stands for.
    let mut known: Vec<(&str, String)> = Vec::new();
    for cell in &experiment.cells {
        let text = policy(cell, releases);
        match known.iter_mut().find(|(name, _)| *name == cell.policy) {
            None => known.push((&cell.policy, text)),
            // The same name may stand for another machine or policy elsewhere in the matrix.
            Some((_, texts)) if !texts.split("; or ").any(|t| t == text) => {
                let _ = write!(texts, "; or {text}");
            }
            Some(_) => {}
        }
    }
    for (i, (name, text)) in known.iter().enumerate() {
        out += &wrapped(&format!("  [{i}] "), &format!("{name}: {text}"));
    }
    out
}

/// Describes a cell's machine in a line: name, CPUs, memory, disk.
fn machine(cell: &Cell) -> String {
    let machine = &cell.spec.machine;
    let zones = machine.nodes.iter().flat_map(|n| &n.zones);
    let bytes: u64 = zones.map(|z| z.size.0).sum();
    format!(
        "{}, {} CPU{}, {} MiB, {}",
        cell.machine,
        machine.cpus,
        if machine.cpus == 1 { "" } else { "s" },
        bytes >> 20,
        machine.disk.kind.name()
    )
}

/// Describes a cell's policy: a real kernel with its release and settings, or the engine.
fn policy(cell: &Cell, releases: &BTreeMap<String, String>) -> String {
    let Some(kernel) = &cell.kernel else {
        return format!("the engine of lowmark {}", env!("CARGO_PKG_VERSION"));
    };
    let mut text = match releases.get(&kernel.build) {
        Some(release) => format!("Linux {release} (kernel:{})", kernel.build),
        None => format!("kernel:{}", kernel.build),
    };
    for (name, value) in &kernel.sysctl {
        let _ = write!(text, ", {name}={value}");
    }
    if let Some(on) = kernel.lru_gen {
        let _ = write!(text, ", lru_gen={}", u8::from(on));
    }
    if !kernel.costs {
        text.push_str(", computing takes no time");
    }
    text
}

/// Explains, as the mail's last paragraphs, the columns, which rows are left out and why, and which
/// runs did not complete.
fn ending(outcomes: &Outcomes, left_out: &LeftOut) -> String {
    let mut out = wrapped(
        "",
        &format!(
            "Means. Behind each: its change against the first column, and p where a difference can be \
             claimed (Mann-Whitney U, p < {ALPHA}), else ~."
        ),
    );
    if (outcomes.experiment.iterations as usize) < FEW {
        out += &wrapped(
            "",
            &format!("Fewer than {FEW} iterations: hardly any difference can be claimed."),
        );
    }
    if left_out.zero {
        out += &wrapped("", "Rows that are 0 in every run are left out.");
    }
    let mut reasons = left_out.unsupported.clone();
    reasons.sort_unstable();
    reasons.dedup();
    if !reasons.is_empty() {
        let what = format!("n/a or left out: unsupported: {}", reasons.join("; "));
        out += &wrapped("", &what);
    }
    let all = outcomes.experiment.cells.iter().zip(&outcomes.results);
    for (cell, results) in all {
        let (of, n) = (results.len(), super::completed(results).len());
        if n < of {
            let what = format!(
                "{} {}: {n} of {of} runs completed",
                cell.group(),
                cell.said()
            );
            out += &wrapped("", &what);
        }
    }
    out
}

/// The fields of one policy in one row; the baseline has the number only.
#[derive(Clone, Default)]
struct Fields {
    number: String,
    change: String,
    p: String,
}

/// The widths of a policy's fields, in characters.
#[derive(Clone, Copy, Default)]
struct Widths {
    number: usize,
    change: usize,
    p: usize,
}

impl Widths {
    fn total(self) -> usize {
        let behind = |w: usize| if w == 0 { 0 } else { w + 1 };
        self.number + behind(self.change) + behind(self.p)
    }

    /// Formats one policy's fields in their columns, right-aligned.
    fn line(self, f: &Fields) -> String {
        let mut out = format!("{:>1$}", f.number, self.number);
        for (text, width) in [(&f.change, self.change), (&f.p, self.p)] {
            if width > 0 {
                let _ = write!(out, " {text:>width$}");
            }
        }
        out
    }
}

/// A row, formatted.
struct Line<'a> {
    block: &'a str,
    label: String,
    /// The fields of each policy, the baseline first.
    fields: Vec<Fields>,
}

/// Formats the rows of a group of cells as text tables with the policies as columns, as many tables
/// as the policies need. Reasons for rows that are left out are noted in `left_out`.
fn group_text(group: &Group, left_out: &mut LeftOut) -> String {
    let shown: Vec<&ComparedRow> = group
        .asked
        .iter()
        .chain(&group.rows)
        .filter(|row| is_shown(row, left_out))
        .collect();
    let Some(first) = shown.first() else {
        return wrapped("\n== ", &format!("{}: nothing was measured", group.group));
    };
    let policies: Vec<&str> = first.cells.iter().map(|c| c.policy.as_str()).collect();
    let lines: Vec<Line<'_>> = shown.iter().map(|row| line(row)).collect();
    let widths: Vec<Widths> = (0..policies.len())
        .map(|i| {
            let longest = |of: fn(&Fields) -> usize| {
                lines.iter().map(|l| of(&l.fields[i])).max().unwrap_or(0)
            };
            Widths {
                number: longest(|f| f.number.len()),
                change: longest(|f| f.change.len()),
                p: longest(|f| f.p.len()),
            }
        })
        .collect();
    // Length of the longest label.
    let natural = lines.iter().map(|l| l.label.len()).max().unwrap_or(0);
    let tables = tables(&widths, natural.min(LABEL));
    let mut out = String::new();
    for (n, columns) in tables.iter().enumerate() {
        let of = match tables.len() {
            1 => String::new(),
            all => format!(" ({} of {all})", n + 1),
        };
        out.push('\n');
        out += &wrapped("== ", &format!("{}{of}", group.group));
        let used: usize = columns.iter().map(|&i| GAP + widths[i].total()).sum();
        // Characters that this table's labels get.
        let room = natural.min(WIDTH - used);
        let widths = widened(&policies, &widths, columns, WIDTH - used - room);
        out += &heads(&policies, &widths, columns, room);
        let mut block = "";
        for l in &lines {
            if l.block != block {
                block = l.block;
                let _ = writeln!(out, "{}", ascii(block));
            }
            out += &row_text(l, &widths, columns, room);
        }
    }
    out
}

/// Returns true if a row has values to show: some that are not 0, or any in a row that the
/// experiment asks for. Reasons for leaving rows out are noted in `left_out`.
fn is_shown(row: &ComparedRow, left_out: &mut LeftOut) -> bool {
    left_out
        .unsupported
        .extend(row.cells.iter().filter_map(|c| c.unsupported));
    let mut values = row.cells.iter().flat_map(|c| &c.values).peekable();
    if values.peek().is_none() {
        return false;
    }
    // Figures that the experiment asks for are shown even if all are 0.
    let zero = row.block != super::ASKED && values.all(|v| *v == 0.0);
    left_out.zero |= zero;
    !zero
}

/// Formats the label of a row and the fields of each policy: mean, change against the first policy,
/// p-value.
fn line(row: &ComparedRow) -> Line<'_> {
    let most = row.cells.iter().filter_map(|c| c.mean).fold(0.0, f64::max);
    let digits = match row.decimals {
        // Fractions do not matter in counts of a thousand or more.
        0 if most >= 1000.0 => 0,
        _ => row.mean_decimals,
    };
    let base = &row.cells[0].values;
    let fields = row.cells.iter().enumerate().map(|(i, cell)| {
        let Some(mean) = cell.mean else {
            let number = if cell.unsupported.is_some() {
                "n/a"
            } else {
                "-"
            };
            return Fields {
                number: number.into(),
                ..Fields::default()
            };
        };
        let claim = Claim::new(&cell.values, base, Center::Mean).filter(|_| i > 0);
        Fields {
            number: number(mean, digits),
            change: claim.map_or_else(String::new, |c| change(c.change)),
            p: claim.map_or_else(String::new, |c| p_text(&c)),
        }
    });
    Line {
        block: row.block,
        label: ascii(&label(row)),
        fields: fields.collect(),
    }
}

/// Formats a number with at most `digits` digits after the point, fewer if it would be too long for
/// its column, and with an exponent if it is too long without.
fn number(x: f64, digits: usize) -> String {
    let fits = |digits: &usize| format!("{x:.digits$}").len() <= NUMBER;
    match (0..=digits).rev().find(fits) {
        Some(digits) => format!("{x:.digits$}"),
        None => format!("{x:.3e}"),
    }
}

/// Formats a relative change `x`: `-12.3%`, from tenfold on as a factor (`x12`); `new` if the base
/// is 0, `0.0%` if both are.
fn change(x: f64) -> String {
    if !x.is_finite() {
        return if x.is_nan() {
            "0.0%".into()
        } else {
            "new".into()
        };
    }
    match x + 1.0 {
        times if times >= 1e6 => format!("x{times:.0e}"),
        times if times >= 10.0 => format!("x{times:.0}"),
        _ => format!("{:+.1}%", 100.0 * x),
    }
}

/// Formats the p-value without its leading 0 if a difference can be claimed, otherwise `~`.
fn p_text(claim: &Claim) -> String {
    match (claim.verdict, claim.p) {
        (Verdict::Less | Verdict::More, Some(p)) if p < 0.001 => "<.001".into(),
        (Verdict::Less | Verdict::More, Some(p)) => {
            format!("{p:.3}").trim_start_matches('0').into()
        }
        _ => "~".into(),
    }
}

/// Distributes the columns of policies over tables that fit the line: each has the baseline (column
/// 0), and as many others as fit beside a label of `label` characters. Returns each table's
/// columns.
fn tables(widths: &[Widths], label: usize) -> Vec<Vec<usize>> {
    let room = WIDTH - label - GAP - widths[0].total();
    let mut tables: Vec<Vec<usize>> = vec![vec![0]];
    let mut left = room;
    for (i, w) in widths.iter().enumerate().skip(1) {
        let takes = GAP + w.total();
        let last = tables.last().map_or(0, Vec::len);
        if takes > left && last > 1 {
            tables.push(vec![0]);
            left = room;
        }
        left = left.saturating_sub(takes);
        tables.last_mut().expect("there is one").push(i);
    }
    tables
}

/// Returns the columns' widths after giving the `spare` characters of a line to those whose
/// policies' names need them.
fn widened(
    policies: &[&str],
    widths: &[Widths],
    columns: &[usize],
    mut spare: usize,
) -> Vec<Widths> {
    let mut widths = widths.to_vec();
    for &i in &columns[1..] {
        let lacks = policies[i].len().saturating_sub(widths[i].total());
        if lacks <= spare {
            widths[i].number += lacks;
            spare -= lacks;
        }
    }
    widths
}

/// Returns the line with the names of policies above the columns, each ending with its column;
/// `room` is the labels' width. A name that does not fit is replaced by its number in the mail's
/// heading.
fn heads(policies: &[&str], widths: &[Widths], columns: &[usize], room: usize) -> String {
    let mut out = String::new();
    let mut end = room;
    for &i in columns {
        end += GAP + widths[i].total();
        let name = ascii(policies[i]);
        let fits = out.len() + GAP + name.len() <= end;
        let name = if fits { name } else { format!("[{i}]") };
        let _ = write!(out, "{name:>0$}", end - out.len());
    }
    out + "\n"
}

/// Formats a report row as text, with the figures of the policies in `columns`; if its label needs
/// several lines of `room` characters, the figures stand in the last.
fn row_text(line: &Line<'_>, widths: &[Widths], columns: &[usize], room: usize) -> String {
    let mut labels = broken(&line.label, room, "  ");
    let last = labels.pop().unwrap_or_default();
    let mut out: String = labels.iter().map(|l| format!("{l}\n")).collect();
    let _ = write!(out, "{last:<room$}");
    let mut figures = String::new();
    for &i in columns {
        let _ = write!(figures, "  {}", widths[i].line(&line.fields[i]));
    }
    out + figures.trim_end() + "\n"
}

/// Wraps a paragraph to [`WIDTH`] characters: the first line follows `lead`, the others are
/// indented to its text.
fn wrapped(lead: &str, text: &str) -> String {
    let indent = " ".repeat(lead.trim_start_matches('\n').len());
    let all = broken(&ascii(text), WIDTH - indent.len(), "");
    let mut out = String::from(lead);
    for (i, part) in all.iter().enumerate() {
        if i > 0 {
            out += &indent;
        }
        out += part;
        out.push('\n');
    }
    out
}

/// Breaks a text into lines of at most `width` characters, between words, or within a word that is
/// too long; all lines but the first begin with `indent`.
fn broken(text: &str, width: usize, indent: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    // True if the line has a word; an indent does not count.
    let mut begun = false;
    for word in text.split_whitespace() {
        let mut word = word;
        if begun && line.len() + 1 + word.len() > width {
            lines.push(std::mem::replace(&mut line, indent.to_owned()));
            begun = false;
        }
        if begun {
            line.push(' ');
        }
        while line.len() + word.len() > width {
            let (head, tail) = word.split_at(width - line.len());
            lines.push(std::mem::replace(&mut line, indent.to_owned()) + head);
            word = tail;
        }
        line += word;
        begun = true;
    }
    lines.push(line);
    lines
}

/// Converts a text to ASCII, for mails: known characters are replaced by similar ones, others by a
/// question mark.
fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            ' '..='~' => out.push(c),
            'µ' | 'μ' => out.push('u'),
            '–' | '—' | '−' => out.push('-'),
            '×' => out.push('x'),
            '…' => out.push_str("..."),
            '\t' | '\n' | '\u{a0}' => out.push(' '),
            _ => out.push('?'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::fixture;

    /// Returns the fixture with policies of these names, of which the last runs a real kernel.
    fn outcomes(policies: &[&str], iterations: u32) -> Outcomes {
        let mut experiment = fixture::experiment(iterations);
        let template = experiment.cells[0].clone();
        experiment.cells.clear();
        for filesystem in ["xfs", "btrfs"] {
            for (i, policy) in policies.iter().enumerate() {
                let mut cell = template.clone();
                cell.policy = (*policy).into();
                cell.baseline = i == 0;
                cell.axes = vec![
                    ("filesystem".into(), filesystem.into()),
                    ("policy".into(), (*policy).into()),
                ];
                let mut kernel = kernel::Kernel::new("6.12-mine");
                kernel.sysctl.insert("vm.mine".into(), "1".into());
                cell.kernel = (i + 1 == policies.len()).then_some(kernel);
                experiment.cells.push(cell);
            }
        }
        for name in [
            "elapsed",
            "ftrace vmscan: Direct reclaims",
            "allocstall_normal",
        ] {
            experiment.figures.push(crate::rows::figure(name).unwrap());
        }
        let results = experiment.cells.iter().enumerate().map(|(c, cell)| {
            let of = |i: u32| {
                let mut spec = cell.spec.clone();
                spec.policy.name = cell.policy.clone();
                spec.seed = u64::from(i) + 100 * c as u64;
                let control = sim::Control::default();
                Some(match &cell.kernel {
                    Some(k) => fixture::kernel(&spec, k, &control),
                    None => fixture::simulate(&spec, &control),
                })
            };
            (0..iterations).map(of).collect()
        });
        Outcomes {
            results: results.collect(),
            host: Vec::new(),
            interrupted: false,
            build: None,
            experiment,
        }
    }

    fn mail(policies: &[&str], iterations: u32) -> String {
        let releases = [("6.12-mine".to_owned(), "6.12.117".to_owned())];
        let text = to_text(&outcomes(policies, iterations), &releases.into());
        for line in text.lines() {
            assert!(line.is_ascii(), "{line}");
            assert!(line.len() <= WIDTH, "{} in: {line}", line.len());
            assert_eq!(line, line.trim_end());
        }
        text
    }

    #[test]
    fn a_mail_of_two_policies_is_what_it_was() {
        insta::assert_snapshot!(mail(&["vanilla", "mine"], 6));
    }

    /// Every policy must have one column, and each table must begin with the baseline.
    #[test]
    fn six_policies_stand_in_several_tables() {
        let names = ["first", "second", "third", "fourth", "fifth", "sixth"];
        let text = mail(&names, 6);
        for group in ["== xfs", "== btrfs"] {
            let tables: Vec<&str> = text
                .split("\n== ")
                .filter(|t| t.starts_with(&group[3..]))
                .collect();
            assert!(tables.len() > 1, "{text}");
            let heads: Vec<&str> = tables.iter().map(|t| t.lines().nth(1).unwrap()).collect();
            for head in &heads {
                assert!(head.trim_start().starts_with("first "), "{head}");
            }
            let others = heads.iter().flat_map(|h| h.split_whitespace().skip(1));
            assert_eq!(others.collect::<Vec<_>>(), &names[1..]);
        }
    }

    /// Names of any length and script must fit: columns are numbered as in the heading.
    #[test]
    fn long_and_foreign_names_stay_inside_the_line() {
        let long = "dirty-limits-of-every-zone-".repeat(6);
        let text = mail(
            &[
                &long,
                "zweiter µ-Versuch – größer",
                &long.replace("every", "no"),
            ],
            6,
        );
        assert!(text.contains("[0] dirty-limits-of"), "{text}");
        let head = text
            .lines()
            .skip_while(|l| !l.starts_with("=="))
            .nth(1)
            .unwrap();
        assert!(head.contains("[0]") && head.contains("[2]"), "{head}");
        assert!(text.contains("zweiter u-Versuch - gr??er"), "{text}");
    }

    /// Unsupported figures must not appear as numbers, and rows of zeroes are left out.
    #[test]
    fn what_is_unsupported_is_no_number_and_zeroes_are_left_out() {
        let text = mail(&["vanilla", "mine"], 6);
        let row = text
            .lines()
            .find(|l| l.starts_with("ftrace vmscan: Direct"));
        let after: Vec<&str> = text
            .lines()
            .skip_while(|l| Some(*l) != row)
            .take(2)
            .collect();
        assert!(after.concat().contains("n/a"), "{text}");
        assert!(text.contains("unsupported: "), "{text}");
        assert!(!text.contains("Swap Outs"), "{text}");
        assert!(text.contains("Rows that are 0 in every run are left out."));
    }

    #[test]
    fn few_iterations_and_failed_ones_are_said() {
        let mut o = outcomes(&["vanilla", "mine"], 3);
        o.results[1][2].as_mut().unwrap().outcome = sim::Outcome::Oom {
            report: String::new(),
        };
        let text = to_text(&o, &BTreeMap::new());
        assert!(text.contains("Fewer than"), "{text}");
        assert!(text.contains("xfs mine: 2 of 3 runs completed"), "{text}");
        assert!(text.contains("kernel:6.12-mine, vm.mine=1"), "{text}");
    }

    #[test]
    fn changes_and_numbers_have_a_bounded_width() {
        let of = |values: &[f64]| values.iter().map(|x| change(*x)).collect::<Vec<_>>();
        assert_eq!(
            of(&[0.0, -1.0, 0.125, 8.9, 11.0, 1e9, f64::INFINITY, f64::NAN]),
            [
                "+0.0%", "-100.0%", "+12.5%", "+890.0%", "x12", "x1e9", "new", "0.0%"
            ]
        );
        assert_eq!(number(123_456_789.0, 2), "123456789.0");
        assert_eq!(number(1_234_567_890_123.0, 0), "1.235e12");
        assert_eq!(number(12_345.5, 1), "12345.5");
    }

    #[test]
    fn words_that_are_too_long_are_broken_and_nothing_is_lost() {
        let text = "ab abcdefghijklmnop cd e";
        for width in 4..30 {
            let lines = broken(text, width, "  ");
            assert!(lines.iter().all(|l| l.len() <= width), "{lines:?}");
            let letters: String = lines.concat().split_whitespace().collect();
            assert_eq!(letters, text.replace(' ', ""));
        }
    }
}
