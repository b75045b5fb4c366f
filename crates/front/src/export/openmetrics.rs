//! OpenMetrics 1.0, which Prometheus and related tools read: every figure of an iteration is a
//! gauge, because it is a final value; every column of the series is a gauge with times, in
//! simulated seconds.

use super::{Error, Results, line};
use lab::results::table::{Table, Values};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::path::Path;

/// The first line, by which a file of ours is recognised before it is replaced.
const HEAD: &str = "# TYPE lowmark info\n";

/// Returns true if this module wrote the file, so that it may be replaced: its first line says so.
pub fn is_ours(path: &Path) -> std::io::Result<bool> {
    let mut start = Vec::new();
    let file = input::file(path)?;
    file.take(HEAD.len() as u64).read_to_end(&mut start)?;
    Ok(start == HEAD.as_bytes())
}

/// Writes the figures of all iterations, then the series, as OpenMetrics.
pub fn write(results: &Results, out: &mut dyn Write) -> Result<(), Error> {
    let version = env!("CARGO_PKG_VERSION");
    let title = escaped(results.title());
    let head = format!(
        "{HEAD}# HELP lowmark The experiment and the version of lowmark.\nlowmark_info{{experiment=\"{title}\",version=\"{version}\"}} 1\n"
    );
    line(out, &head)?;
    iterations(&results.table("iterations")?, out)?;
    series(&results.table("series")?, out)?;
    line(out, "# EOF\n")
}

/// Returns a column's value in a row as text; `None` if it is missing.
fn text(values: &Values, row: usize) -> Option<String> {
    match values {
        Values::Text(v) => v[row].clone(),
        Values::Count(v) => v[row].map(|n| n.to_string()),
        Values::Number(v) => v[row].map(|n| n.to_string()),
    }
}

/// Writes a family of gauges for each figure, with a sample for each iteration. Columns of words,
/// and the iteration's number, become the samples' labels.
fn iterations(table: &Table, out: &mut dyn Write) -> Result<(), Error> {
    // True for a column that becomes a label.
    let words = |name: &str| {
        !["seed", "digest", "outcome"].contains(&name)
            && (name == "iteration" || is_text(table, name))
    };
    let mut labels = vec![String::new(); table.rows];
    for column in table.columns.iter().filter(|c| words(&c.name)) {
        for (row, labels) in labels.iter_mut().enumerate() {
            let value = text(&column.values, row).unwrap_or_default();
            let before = if labels.is_empty() { "" } else { "," };
            let _ = write!(
                labels,
                "{before}{}=\"{}\"",
                word(&column.name),
                escaped(&value)
            );
        }
    }
    let mut taken = BTreeMap::new();
    for column in &table.columns {
        if column.name == "iteration" || is_text(table, &column.name) {
            continue;
        }
        let (name, unit) = split(&column.name);
        let family = family("lowmark", name, unit, &mut taken);
        line(out, &declared(&family, name, unit))?;
        for (row, labels) in labels.iter().enumerate() {
            // A figure that an iteration lacks is left out instead of 0.
            if let Some(value) = text(&column.values, row) {
                line(out, &format!("{}{{{labels}}} {value}\n", family.name))?;
            }
        }
    }
    Ok(())
}

/// Returns true if the table's column with this name has texts.
fn is_text(table: &Table, name: &str) -> bool {
    let mut named = table.columns.iter().filter(|c| c.name == name);
    named.any(|c| matches!(c.values, Values::Text(_)))
}

/// Writes a family for each name and unit of the series, with samples in the order of cells and
/// scopes. A sample has its simulated time in seconds.
fn series(table: &Table, out: &mut dyn Write) -> Result<(), Error> {
    let column = |name: &str| table.columns.iter().find(|c| c.name == name);
    let words = |name| match column(name).map(|c| &c.values) {
        Some(Values::Text(v)) => &v[..],
        _ => &[],
    };
    let numbers = |name| match column(name).map(|c| &c.values) {
        Some(Values::Number(v)) => &v[..],
        _ => &[],
    };
    let (cells, names) = (words("cell"), words("name"));
    let (scopes, units) = (words("scope"), words("unit"));
    let (times, values) = (numbers("time [s]"), numbers("value"));
    let mut families: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for row in 0..table.rows {
        let name = names[row].as_deref().unwrap_or_default();
        let unit = units[row].as_deref().unwrap_or_default();
        families.entry((name, unit)).or_default().push(row);
    }
    let mut taken = BTreeMap::new();
    for ((name, unit), rows) in families {
        let family = family("lowmark_series", name, unit, &mut taken);
        line(out, &declared(&family, name, unit))?;
        for row in rows {
            let (Some(time), Some(value)) = (times[row], values[row]) else {
                continue;
            };
            let cell = escaped(cells[row].as_deref().unwrap_or_default());
            let scope = escaped(scopes[row].as_deref().unwrap_or_default());
            let name = &family.name;
            let sample = format!("{name}{{cell=\"{cell}\",scope=\"{scope}\"}} {value} {time}\n");
            line(out, &sample)?;
        }
    }
    Ok(())
}

/// A family of metrics.
struct Family {
    name: String,
    unit: String,
}

/// Returns the lines that declare a family: type, unit and a help text with the figure's original
/// `name` and `unit`.
fn declared(family: &Family, name: &str, unit: &str) -> String {
    let Family { name: own, unit: u } = family;
    let mut out = format!("# TYPE {own} gauge\n");
    if !u.is_empty() {
        let _ = writeln!(out, "# UNIT {own} {u}");
    }
    let of = if unit.is_empty() {
        String::new()
    } else {
        format!(" in {unit}")
    };
    let _ = writeln!(out, "# HELP {own} {}{}.", escaped(name), escaped(&of));
    out
}

/// Returns the family of a figure, called by prefix, name and unit. Names that give the same word
/// are numbered: `taken` counts each.
fn family(prefix: &str, name: &str, unit: &str, taken: &mut BTreeMap<String, u32>) -> Family {
    let unit = units(unit);
    let word = word(name);
    let base = match unit.is_empty() {
        true => format!("{prefix}_{word}"),
        false => format!("{prefix}_{word}_{unit}"),
    };
    let n = taken.entry(base.clone()).or_default();
    *n += 1;
    let name = match (*n, unit.is_empty()) {
        (1, _) => base,
        (n, true) => format!("{prefix}_{word}_{n}"),
        (n, false) => format!("{prefix}_{word}_{n}_{unit}"),
    };
    Family { name, unit }
}

/// Splits the head of a column such as `elapsed [s]` into name and unit; without a unit that is
/// empty.
fn split(head: &str) -> (&str, &str) {
    let parts = head.rsplit_once(" [");
    parts.map_or((head, ""), |(name, unit)| {
        (name, unit.trim_end_matches(']'))
    })
}

/// Returns the OpenMetrics name of a unit; empty for counts.
fn units(unit: &str) -> String {
    match unit {
        "" | "1" => String::new(),
        "s" => "seconds".into(),
        "ms" => "milliseconds".into(),
        "us" | "µs" => "microseconds".into(),
        "ns" => "nanoseconds".into(),
        "MB/s" => "megabytes_per_second".into(),
        "MiB/s" => "mebibytes_per_second".into(),
        "1/s" => "per_second".into(),
        "%" => "percent".into(),
        other => word(&other.replace("/s", " per second")),
    }
}

/// Converts a name to letters, digits and underscores, not beginning with a digit, as OpenMetrics
/// wants them.
fn word(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let mut word: String = name.chars().map(plain).collect();
    if word.starts_with(|c: char| c.is_ascii_digit()) {
        word.insert(0, '_');
    }
    word
}

/// Escapes backslashes, quotes and newlines for labels and help texts.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    text.replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_with_their_unit_at_the_end() {
        let mut taken = BTreeMap::new();
        let mut name = |n, u| family("lowmark", n, u, &mut taken).name;
        assert_eq!(name("elapsed", "s"), "lowmark_elapsed_seconds");
        assert_eq!(
            name("disk_read:/a", "MB/s"),
            "lowmark_disk_read__a_megabytes_per_second"
        );
        assert_eq!(
            name("disk_read:|a", "MB/s"),
            "lowmark_disk_read__a_2_megabytes_per_second"
        );
        assert_eq!(name("nr_dirtied", ""), "lowmark_nr_dirtied");
        assert_eq!(split("99th of x [us]"), ("99th of x", "us"));
        assert_eq!(word("99th of x"), "_99th_of_x");
        assert_eq!(escaped("a\"b\\\n"), "a\\\"b\\\\\\n");
    }
}
