//! Reads one published table: CSV with the columns of `data/published/README.md`.

/// The columns in their order.
const COLUMNS: [&str; 12] = [
    "series",
    "machine",
    "threads",
    "filesystem",
    "workload",
    "metric",
    "unit",
    "policy",
    "value",
    "stddev",
    "tolerance",
    "direction",
];

/// The largest accepted difference between the engine's value e and the published value p.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tolerance {
    /// |e − p| ≤ max(x·|p|, 2·stddev).
    Rel(f64),
    /// |e − p| ≤ x.
    Abs(f64),
    /// e ≤ x.
    Zero(f64),
    /// With both values raised to at least the floor, their ratio is between 1/k and k.
    Factor(f64, f64),
    /// The policy-to-baseline ratio is within a factor k of the published one.
    Ratio(f64),
    /// Not scored.
    None,
}

/// The sign of a published change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The policy raises the metric.
    Up,
    /// The policy lowers the metric.
    Down,
}

/// One published cell.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // The fields are the columns of data/published/README.md.
pub struct PublishedRow {
    /// The row's line in the table, from 1.
    pub line: u64,
    /// True if the row was taken while monitors ran, as the series says of the table's file.
    pub monitors: bool,
    /// True if some parameter, of the model or of a machine file, was fitted to the row.
    pub fitted: bool,
    pub series: String,
    pub machine: String,
    pub threads: String,
    pub filesystem: String,
    pub workload: String,
    pub metric: String,
    pub unit: String,
    pub policy: String,
    pub value: f64,
    pub stddev: Option<f64>,
    pub tolerance: Tolerance,
    pub direction: Option<Direction>,
}

impl PublishedRow {
    /// Returns the columns that tell a row from the others of its series, except monitors, with `/`
    /// between: machine, threads, filesystem, workload, metric, policy.
    pub fn key(&self) -> String {
        let parts = [
            &self.machine[..],
            &self.threads,
            &self.filesystem,
            &self.workload,
            &self.metric,
            &self.policy,
        ];
        parts.join("/")
    }

    /// Returns true if another row, of this table or of another, has the same columns but for the
    /// policy and its values: such rows are compared.
    pub fn same_key(&self, other: &Self) -> bool {
        (
            &self.series,
            &self.machine,
            &self.threads,
            &self.filesystem,
            &self.workload,
            &self.metric,
        ) == (
            &other.series,
            &other.machine,
            &other.threads,
            &other.filesystem,
            &other.workload,
            &other.metric,
        )
    }
}

/// A mistake in a table.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
#[error("{}: {message}", place(file, *line))]
pub struct TableError {
    /// The table's file.
    pub file: String,
    /// The line, from 1; 0 if the mistake is not in one line.
    pub line: u64,
    /// The mistake and the column.
    pub message: String,
    /// The input that would be accepted.
    #[help]
    pub accepted: String,
}

/// Returns the place of a mistake: the file with its line, or the file alone for line 0.
fn place(file: &str, line: u64) -> String {
    match line {
        0 => file.to_owned(),
        line => format!("{file}:{line}"),
    }
}

/// Parses a tolerance such as `rel:0.1` or `factor:2:10`; `None` if it is malformed.
fn tolerance(text: &str) -> Option<Tolerance> {
    let mut parts = text.split(':');
    let kind = parts.next()?;
    let numbers: Option<Vec<f64>> = parts
        .map(|p| p.parse::<f64>().ok().filter(|x| x.is_finite() && *x >= 0.0))
        .collect();
    Some(match (kind, numbers?.as_slice()) {
        ("rel", [x]) => Tolerance::Rel(*x),
        ("abs", [x]) => Tolerance::Abs(*x),
        ("zero", [x]) => Tolerance::Zero(*x),
        ("factor", [k, f]) if *k >= 1.0 => Tolerance::Factor(*k, *f),
        ("ratio", [k]) if *k >= 1.0 => Tolerance::Ratio(*k),
        ("none", []) => Tolerance::None,
        _ => return None,
    })
}

/// Parses one table, a CSV text with the columns `COLUMNS`; `file` is its name for messages.
///
/// # Errors
/// Returns the first line that does not have the form described in the README.
pub fn parse(file: &str, text: &str) -> Result<Vec<PublishedRow>, TableError> {
    let error = |line: u64, message: String, accepted: &str| TableError {
        file: file.into(),
        line,
        message,
        accepted: accepted.into(),
    };
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .from_reader(text.as_bytes());
    let header = reader
        .headers()
        .map_err(|e| error(1, e.to_string(), "UTF-8 CSV"))?
        .clone();
    if header.iter().ne(COLUMNS) {
        return Err(error(
            1,
            format!(
                "the columns are `{}`",
                header.iter().collect::<Vec<_>>().join(",")
            ),
            "series,machine,threads,filesystem,workload,metric,unit,policy,value,stddev,tolerance,direction",
        ));
    }
    let mut rows = Vec::new();
    for record in reader.records() {
        let r = record.map_err(|e| {
            let line = e.position().map_or(0, csv::Position::line);
            error(line, e.to_string(), "UTF-8 CSV")
        })?;
        let line = r.position().map_or(0, csv::Position::line);
        if r.len() != COLUMNS.len() {
            return Err(error(line, format!("{} columns", r.len()), "12 columns"));
        }
        let finite = |i: usize| r[i].parse::<f64>().ok().filter(|x| x.is_finite());
        let value =
            finite(8).ok_or_else(|| error(line, format!("`value` is `{}`", &r[8]), "a number"))?;
        let stddev = match &r[9] {
            "" => None,
            _ => Some(finite(9).filter(|x| *x >= 0.0).ok_or_else(|| {
                error(
                    line,
                    format!("`stddev` is `{}`", &r[9]),
                    "a number of at least 0, or nothing",
                )
            })?),
        };
        let tolerance = tolerance(&r[10]).ok_or_else(|| {
            error(
                line,
                format!("`tolerance` is `{}`", &r[10]),
                "rel:x, abs:x, zero:x, factor:k:f, ratio:k or none",
            )
        })?;
        let direction = match &r[11] {
            "" => None,
            "up" => Some(Direction::Up),
            "down" => Some(Direction::Down),
            other => {
                return Err(error(
                    line,
                    format!("`direction` is `{other}`"),
                    "up, down or nothing",
                ));
            }
        };
        rows.push(PublishedRow {
            line,
            monitors: false,
            fitted: false,
            series: r[0].into(),
            machine: r[1].into(),
            threads: r[2].into(),
            filesystem: r[3].into(),
            workload: r[4].into(),
            metric: r[5].into(),
            unit: r[6].into(),
            policy: r[7].into(),
            value,
            stddev,
            tolerance,
            direction,
        });
    }
    Ok(rows)
}

/// Returns a row that is not scored, for tests.
#[cfg(test)]
pub(crate) fn fixture() -> PublishedRow {
    let row = "s,m,1,xfs,w,elapsed,s,p,1,,none,\n";
    let text = format!("{}\n{row}", COLUMNS.join(","));
    parse("fixture.csv", &text).expect("a table").remove(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEAD: &str = "series,machine,threads,filesystem,workload,metric,unit,policy,value,stddev,tolerance,direction\n";

    #[test]
    fn a_wrong_cell_is_named_with_its_line() {
        for (line, what) in [
            ("s,m,1,xfs,w,e,s,p,abc,,rel:0.1,", "`value` is `abc`"),
            ("s,m,1,xfs,w,e,s,p,1,,rel,", "`tolerance` is `rel`"),
            (
                "s,m,1,xfs,w,e,s,p,1,,factor:0.5:1,",
                "`tolerance` is `factor:0.5:1`",
            ),
            ("s,m,1,xfs,w,e,s,p,1,-2,none,", "`stddev` is `-2`"),
            (
                "s,m,1,xfs,w,e,s,p,1,,none,sideways",
                "`direction` is `sideways`",
            ),
            ("s,m,1", "3 columns"),
        ] {
            let e = parse("t.csv", &format!("{HEAD}{line}\n")).expect_err(line);
            assert_eq!((e.line, e.message.as_str()), (2, what));
        }
        assert!(
            parse("t.csv", "a,b\n")
                .expect_err("columns")
                .message
                .contains("a,b")
        );
    }

    const ROW: &str = "s,m,1,xfs,w,e,s,p,1.5,0.2,factor:0.5:2,\n";

    proptest! {
        #[test]
        fn any_text_is_answered(text in ".{0,300}") {
            let _ = parse("t.csv", &text);
            let _ = parse("t.csv", &format!("{HEAD}{text}"));
        }

        #[test]
        fn any_change_of_a_table_is_answered(
            text in "[a-z0-9,:.\\-+\"\r\né]{0,12}", at in 0..ROW.len(), len in 0usize..20,
        ) {
            let end = (at + len).min(ROW.len());
            let _ = parse("t.csv", &format!("{HEAD}{}{text}{}\n", &ROW[..at], &ROW[end..]));
        }
    }
}
