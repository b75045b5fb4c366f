//! Scores in prose: the text between `<!-- score:SERIES WHAT -->` and `<!-- /score -->` is made
//! from `data/scores.json` and the published tables, and scores stand nowhere else.
//!
//! The forms of WHAT, each with an example of its text:
//! - `within [F]`: `5 of 8 (4 to 6)`, the median over the draws and their spread; with few or stale
//!   draws `5 of 8 (4 to 6; 3 seeds; stale since REV)`
//! - `directions [F]`: `5 of 8`: all draws agree with five; `5 of 8 (2 not claimed)`: some draws
//!   agree with two more
//! - `within-percent [F]`, `directions-percent [F]`: `62`
//! - `other-than-zero`, `not-fitted`: `4 of 7`, of scored cells with a tolerance other than zero,
//!   or to which no parameter was fitted
//! - `iterations`: `10`, in each draw
//! - `seeds`, `revision`: the number of draws, and the revisions that they were measured with
//! - `summary`: the last lines of `lowmark reproduce`, as a block
//! - `cell F`, `published F`: one figure, the engine's (the median over the draws) or the published
//!   one; `; million` and `; seconds` (of µs) scale it
//! - `misses [F]`: a list of the cells that are not within their tolerance and of the directions
//!   that do not agree
//! - `cells [F]`: a table of the scored cells
//! - `pivot ROWS/COLUMNS [F]`: a table of figures, with the published ones in brackets, by two of
//!   machine, threads, filesystem, workload, metric, policy
//!
//! A filter F is words with `/` between: each is the machine, threads, filesystem, workload, metric
//! or policy of a row, or `monitors` or `unwatched`.

use lab::published::scores::{Drawn, Measured, Scores, Spread};
use lab::published::{self, PublishedRow, Scored, Tolerance, is_fitted};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- score:";
const CLOSE: &str = " -->";
const END: &str = "<!-- /score -->";

/// A text with its markers filled, and the problems found.
pub struct Filled {
    /// The text.
    pub text: String,
    /// Malformed markers, and scores outside of markers; each with file and line.
    pub problems: Vec<String>,
    /// Series that were not measured yet, whose markers were left unchanged.
    pub unmeasured: Vec<String>,
}

/// Returns a file's text with the scores between its markers made anew, and what is wrong with its
/// markers. `file` is the file's name in messages. Markers of series that were never measured stay
/// as they are.
pub fn fill(file: &str, text: &str, scores: &Scores) -> Filled {
    let mut out = Filled {
        text: String::new(),
        problems: Vec::new(),
        unmeasured: Vec::new(),
    };
    let (mut rest, mut prose) = (text, String::new());
    while let Some(at) = rest.find(BEGIN) {
        let line = 1 + text[..text.len() - rest.len() + at].matches('\n').count();
        let problem = |what: String| format!("{file}:{line}: {what}");
        let (before, marked) = rest.split_at(at);
        prose.push_str(before);
        out.text.push_str(before);
        let parts = marked[BEGIN.len()..]
            .split_once(CLOSE)
            .and_then(|(spec, then)| then.split_once(END).map(|(old, then)| (spec, old, then)));
        let Some((spec, old, then)) = parts.filter(|p| !p.1.contains(BEGIN)) else {
            out.problems
                .push(problem(format!("a marker that `{END}` does not end")));
            out.text.push_str(marked);
            return out;
        };
        // Marked text is no prose, but it separates words.
        prose.push_str(" \u{2020} ");
        // Keeps line numbers.
        prose.extend(old.matches('\n'));
        let new = match rendered(spec, scores) {
            Ok(Some(new)) => new,
            Ok(None) => {
                let series = spec.split_whitespace().next().unwrap_or_default();
                out.unmeasured.push(series.to_owned());
                old.to_owned()
            }
            Err(why) => {
                out.problems.push(problem(why));
                old.to_owned()
            }
        };
        let _ = write!(out.text, "{BEGIN}{spec}{CLOSE}{new}{END}");
        rest = then;
    }
    prose.push_str(rest);
    out.text.push_str(rest);
    if prose.contains(END) {
        out.problems
            .push(format!("{file}: `{END}` without a beginning"));
    }
    for (line, claim) in unmarked(&prose) {
        out.problems.push(format!(
            "{file}:{line}: a score outside of markers: \u{201c}{claim}\u{201d}"
        ));
    }
    out
}

/// Finds scores that were written by hand, outside of markers, such as `5 of 8 cells`. Returns the
/// line, from 1, and the words of each.
fn unmarked(prose: &str) -> Vec<(usize, String)> {
    let numbered = prose.lines().enumerate();
    let words: Vec<(usize, &str)> = numbered
        .flat_map(|(n, line)| line.split_whitespace().map(move |w| (n + 1, w)))
        .collect();
    let is_number = |w: &str| w.parse::<u32>().is_ok();
    let counted = |w: &str| {
        let w = w.trim_matches(|c: char| !c.is_alphanumeric());
        matches!(w, "cells" | "directions")
    };
    let at = |i: usize| {
        let of = words.get(i..i + 3)?;
        let is_score = is_number(of[0].1) && of[1].1 == "of" && is_number(of[2].1);
        let end = (i + 6).min(words.len());
        let what = (i + 3..end).find(|j| counted(words[*j].1))?;
        is_score.then(|| {
            let claim: Vec<&str> = words[i..=what].iter().map(|w| w.1).collect();
            (of[0].0, claim.join(" "))
        })
    };
    (0..words.len()).filter_map(at).collect()
}

/// Returns the text for a marker's specification, `SERIES WHAT`; `None`: the series was not
/// measured yet.
///
/// # Errors
/// There is no such series, or WHAT is malformed.
fn rendered(spec: &str, scores: &Scores) -> Result<Option<String>, String> {
    let (series, what) = spec.split_once(' ').unwrap_or((spec, ""));
    let Some(of) = published::find(series) else {
        let known: Vec<&str> = published::shipped().iter().map(|s| &s.name[..]).collect();
        return Err(format!("no series `{series}`; one of {}", known.join(", ")));
    };
    match scores.of(series) {
        Some(drawn) => render(what, &drawn).map(Some),
        // The marker must be valid nevertheless.
        None => {
            let values: Vec<_> = of.rows.iter().map(|_| Ok(1.0)).collect();
            let any = Measured::new(of, 1, &[], &values);
            let (draws, stale) = (vec![&any], None);
            render(what, &Drawn { draws, stale }).map(|_| None)
        }
    }
}

/// Returns the text for a marker: `what` is a verb (`within`, `cells`, …), a filter of rows, and
/// options after semicolons; `drawn` has the draws of the series.
///
/// # Errors
/// The verb, its filter or an option is unknown, or fits no row.
fn render(what: &str, drawn: &Drawn<'_>) -> Result<String, String> {
    let scored = drawn.scored();
    let mut parts = what.split("; ");
    let (verb, filter) = {
        let first = parts.next().unwrap_or_default();
        first.split_once(' ').unwrap_or((first, ""))
    };
    let options: Vec<&str> = parts.collect();
    let allowed: &[&str] = match verb {
        "cell" | "published" => &["million", "seconds"],
        _ => &[],
    };
    if let Some(wrong) = options.iter().find(|o| !allowed.contains(o)) {
        return Err(format!("`{verb}` has no option `{wrong}`"));
    }
    let (axes, filter) = match verb {
        "pivot" => filter.split_once(' ').unwrap_or((filter, "")),
        _ => ("", filter),
    };
    let of: Vec<Scored> = scored
        .iter()
        .filter(|s| is_of(&s.row, filter))
        .cloned()
        .collect();
    if of.is_empty() {
        return Err(format!("no published row is `{filter}`"));
    }
    let wanted = |s: &Scored| is_of(&s.row, filter);
    let all = drawn.within(wanted);
    let directions = drawn.directions(wanted);
    let percent = |part: usize, whole: usize| (100.0 * part as f64 / whole.max(1) as f64).round();
    Ok(match verb {
        "within" => spread(&all, drawn),
        "within-percent" => percent(all.median, all.cells).to_string(),
        "directions" => agreeing(drawn, wanted),
        "directions-percent" => percent(directions.agree, directions.checked).to_string(),
        "other-than-zero" => spread(&drawn.within(|s| wanted(s) && is_other_than_zero(s)), drawn),
        "not-fitted" => spread(&drawn.within(|s| wanted(s) && !is_fitted(&s.row)), drawn),
        "iterations" => drawn.iterations(),
        "seeds" => drawn.seeds().to_string(),
        "revision" => drawn.revision(),
        "summary" => summary(drawn, wanted),
        "cell" | "published" => match &of[..] {
            [one] => cell(one, verb == "published", &options)?,
            more => return Err(format!("`{filter}` is {} rows", more.len())),
        },
        "misses" => misses(&of),
        "cells" => cells(&of),
        "pivot" => pivot(axes, &of)?,
        _ => return Err(format!("`{verb}` is nothing that can be said of a series")),
    })
}

fn is_other_than_zero(s: &Scored) -> bool {
    !matches!(s.row.tolerance, Tolerance::Zero(_))
}

/// Appends notes to a number, in brackets: `first`, then those on few or stale draws.
fn noted(text: String, mut first: Vec<String>, drawn: &Drawn<'_>) -> String {
    first.extend(drawn.notes());
    match first.is_empty() {
        true => text,
        false => format!("{text} ({})", first.join("; ")),
    }
}

/// Formats how many cells are within their tolerance: the median over the draws of all cells, with
/// the range over the draws.
fn spread(of: &Spread, drawn: &Drawn<'_>) -> String {
    let text = format!("{} of {}", of.median, of.cells);
    let between = (of.min != of.max).then(|| format!("{} to {}", of.min, of.max));
    noted(text, between.into_iter().collect(), drawn)
}

/// Formats how many of the checked directions agree in all draws, and how many only in some.
fn agreeing(drawn: &Drawn<'_>, wanted: impl Fn(&Scored) -> bool) -> String {
    let of = drawn.directions(wanted);
    let text = format!("{} of {}", of.agree, of.checked);
    let disputed = (of.disputed > 0).then(|| format!("{} not claimed", of.disputed));
    noted(text, disputed.into_iter().collect(), drawn)
}

/// Returns the last lines of `lowmark reproduce` as a block of text, over all draws, for the wanted
/// cells.
fn summary(drawn: &Drawn<'_>, wanted: impl Fn(&Scored) -> bool + Copy) -> String {
    let of = |part: &dyn Fn(&Scored) -> bool| {
        let of = drawn.within(|s| wanted(s) && part(s));
        spread(&of, drawn)
    };
    format!(
        "\n```\nscored cells within tolerance: {}\n  with a tolerance other than zero: {}\n  \
         to which no parameter was fitted: {}\ndirections that agree: {}\n```\n",
        of(&|_| true),
        of(&is_other_than_zero),
        of(&|s| !is_fitted(&s.row)),
        agreeing(drawn, wanted),
    )
}

/// Returns true if a row of a published table matches a filter: each word between `/` is one of the
/// row's fields.
fn is_of(row: &PublishedRow, filter: &str) -> bool {
    let fields = [
        &row.machine,
        &row.threads,
        &row.filesystem,
        &row.workload,
        &row.metric,
        &row.policy,
    ];
    filter
        .split('/')
        .filter(|w| !w.is_empty())
        .all(|w| match w {
            "monitors" => row.monitors,
            "unwatched" => !row.monitors,
            _ => fields.contains(&&w.to_owned()),
        })
}

/// Formats a number with three digits or a few more; from ten thousand on, rounded to three digits
/// and in groups of three.
pub fn figure(x: f64) -> String {
    let digits = match x.abs() {
        a if a == 0.0 || a >= 99.95 => 0,
        a if a >= 9.995 => 1,
        a if a >= 0.9995 => 2,
        _ => 3,
    };
    // Above ten thousand three significant digits are enough, in groups of three.
    if x.abs() < 9999.5 {
        let text = format!("{x:.digits$}");
        return match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        };
    }
    let unit = 10_f64.powi(x.abs().log10().floor() as i32 - 2);
    grouped((x / unit).round() * unit)
}

/// Formats a published number; whole numbers are not rounded.
fn exact(x: f64) -> String {
    match x.fract() == 0.0 && x.abs() >= 9999.5 {
        true => grouped(x),
        false => figure(x),
    }
}

/// Formats a whole number in groups of three digits.
fn grouped(x: f64) -> String {
    let text = format!("{x:.0}");
    let mut out = String::new();
    for (i, c) in text.chars().enumerate() {
        if i > 0 && (text.len() - i).is_multiple_of(3) && !out.ends_with('-') {
            out.push(' ');
        }
        out.push(c);
    }
    out
}

/// Formats one figure of a cell, the published one or the engine's, in the unit that the options
/// demand.
///
/// # Errors
/// The engine has no such figure, or `seconds` is asked of a row in another unit than µs.
fn cell(s: &Scored, published: bool, options: &[&str]) -> Result<String, String> {
    let mut value = match published {
        true => s.row.value,
        false => s
            .measured
            .ok_or_else(|| s.unsupported.clone().unwrap_or_default())?,
    };
    for option in options {
        if *option == "seconds" && s.row.unit != "us" {
            return Err(format!("`seconds` of a figure in {}", s.row.unit));
        }
        value /= 1e6;
    }
    if options.contains(&"million") {
        return Ok(format!("{value:.1}"));
    }
    Ok(match published {
        true => exact(value),
        false => figure(value),
    })
}

/// Returns the unit in which a row's figures are shown, and the divisor that converts them to it.
/// `largest` is the largest figure shown.
fn unit(row: &PublishedRow, largest: f64) -> (String, f64) {
    match &row.unit[..] {
        "us" if largest >= 1e5 => ("s".into(), 1e6),
        "count" => (String::new(), 1.0),
        other => (other.into(), 1.0),
    }
}

/// Names a row of a published table by those of its fields in which the rows `of` differ.
fn name(row: &PublishedRow, of: &[&Scored]) -> String {
    let differ = |f: fn(&PublishedRow) -> &str| of.iter().any(|s| f(&s.row) != f(&of[0].row));
    let fields = FIELDS
        .iter()
        .filter(|f| differ(f.1) && !f.1(row).is_empty());
    let part = |(field, of): &(&str, fn(&PublishedRow) -> &str)| match *field {
        "threads" if of(row) == "1" => "1 thread".to_owned(),
        "threads" => format!("{} threads", of(row)),
        _ => of(row).to_owned(),
    };
    let parts: Vec<String> = fields.map(part).collect();
    parts.join(", ")
}

/// Makes a list of the cells that are not within their tolerance, and of those whose direction
/// (better or worse than another policy) does not agree.
fn misses(of: &[Scored]) -> String {
    let all: Vec<&Scored> = of.iter().collect();
    let mut out = String::from("\n");
    for s in of {
        let is_off = s.row.tolerance != Tolerance::None && !s.within;
        let what = match (is_off, s.agrees == Some(false), s.disputed) {
            (false, false, _) => continue,
            (true, false, _) => "",
            (true, true, false) => " (the direction, too)",
            (false, true, false) => " (the direction alone)",
            (true, true, true) => " (and seeds do not agree on the direction)",
            (false, true, true) => " (seeds do not agree on the direction)",
        };
        let (unit, by) = unit(&s.row, s.row.value);
        let engine = s.measured.map_or("none".into(), |e| figure(e / by));
        let published = format!("{} {unit}", exact(s.row.value / by));
        let (name, published) = (name(&s.row, &all), published.trim_end());
        let _ = writeln!(out, "- {name}: {engine}, published {published}{what}");
    }
    if out == "\n" {
        out.push_str("- nothing\n");
    }
    out
}

/// Makes a table of all scored cells: published and engine's figure, whether it is within its
/// tolerance, whether the direction agrees.
fn cells(of: &[Scored]) -> String {
    let is_scored = |s: &&Scored| s.row.tolerance != Tolerance::None || s.agrees.is_some();
    let of: Vec<&Scored> = of.iter().filter(is_scored).collect();
    let mut out = String::from(
        "\n| cell | published | engine | within | direction |\n|---|---|---|---|---|\n",
    );
    for s in &of {
        let (unit, by) = unit(&s.row, s.row.value);
        let is = match (s.row.tolerance, s.within) {
            (Tolerance::None, _) => "not scored",
            (_, false) => "no",
            (_, true) if is_fitted(&s.row) => "yes (fitted)",
            (_, true) => "yes",
        };
        let agrees = match s.agrees {
            None => "",
            Some(true) => "yes",
            Some(false) if s.disputed => "seeds do not agree",
            Some(false) => "no",
        };
        let engine = s.measured.map_or("none".into(), |e| figure(e / by));
        let published = format!("{} {unit}", exact(s.row.value / by));
        let _ = writeln!(
            out,
            "| {} | {} | {engine} | {is} | {agrees} |",
            name(&s.row, &of),
            published.trim_end(),
        );
    }
    out
}

/// A column of a published table: its name, and its value in a row.
type Field = (&'static str, fn(&PublishedRow) -> &str);

/// The fields that can be rows and columns of a table.
const FIELDS: [Field; 6] = [
    ("machine", |r| &r.machine),
    ("threads", |r| &r.threads),
    ("filesystem", |r| &r.filesystem),
    ("workload", |r| &r.workload),
    ("metric", |r| &r.metric),
    ("policy", |r| &r.policy),
];

/// Makes a table of the cells by two fields, ROWS/COLUMNS in `axes`: the engine's figure, with the
/// published one in brackets.
///
/// # Errors
/// A field is unknown, or two cells have the same place.
fn pivot(axes: &str, of: &[Scored]) -> Result<String, String> {
    let field = |name: &str| {
        let found = FIELDS.iter().find(|f| f.0 == name);
        found
            .map(|f| f.1)
            .ok_or_else(|| format!("no field `{name}` to make a table of"))
    };
    let (rows, columns) = axes.split_once('/').unwrap_or((axes, ""));
    let (row, column) = (field(rows)?, field(columns)?);
    // The values of a field, in the order of their first appearance.
    let distinct = |f: fn(&PublishedRow) -> &str| {
        let mut all: Vec<&str> = Vec::new();
        for s in of {
            if !all.contains(&f(&s.row)) {
                all.push(f(&s.row));
            }
        }
        all
    };
    let headings = distinct(column);
    let mut out = format!("\n| {rows} | {} |\n|---|", headings.join(" | "));
    out.push_str(&"---|".repeat(headings.len()));
    out.push('\n');
    for r in distinct(row) {
        let line: Vec<&Scored> = of.iter().filter(|s| row(&s.row) == r).collect();
        let largest = line.iter().map(|s| s.row.value).fold(0.0, f64::max);
        let (unit, by) = unit(&line[0].row, largest);
        // If all rows have the same unit it is in the text, otherwise in each row.
        let unit = match rows {
            "metric" if !unit.is_empty() => format!(", {unit}"),
            _ => String::new(),
        };
        let _ = write!(out, "| {r}{unit} |");
        for c in &headings {
            let mut found = line.iter().filter(|s| column(&s.row) == *c);
            let text = found.next().map_or(String::new(), |s| {
                let engine = s.measured.map_or("none".into(), |e| figure(e / by));
                format!("{engine} ({})", exact(s.row.value / by))
            });
            if found.next().is_some() {
                return Err(format!("`{r}`, `{c}` is more than one row"));
            }
            let _ = write!(out, " {text} |");
        }
        out.push('\n');
    }
    Ok(out)
}

/// Returns the files that may have scores between markers, README and the pages of docs: name for
/// messages and path.
pub fn prose(root: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    let mut files = vec![("README.md".to_owned(), root.join("README.md"))];
    let docs = root.join("docs");
    let entries = std::fs::read_dir(&docs).map_err(|e| format!("docs: {e}"))?;
    for path in entries.filter_map(Result::ok).map(|e| e.path()) {
        if path.extension().is_some_and(|x| x == "md") {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            files.push((format!("docs/{name}"), path.clone()));
        }
    }
    files.sort();
    Ok(files)
}

/// Returns the problems that need no measuring: markers that are malformed or do not show the
/// scores of the file, and scores of published tables or experiments that have changed since.
pub fn problems(root: &Path, scores: &Scores) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    for (name, path) in prose(root)? {
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{name}: {e}"))?;
        let filled = fill(&name, &text, scores);
        out.extend(filled.problems);
        let differs = text
            .lines()
            .zip(filled.text.lines())
            .position(|(a, b)| a != b);
        if let Some(line) = differs {
            out.push(format!(
                "{name}:{}: not what data/scores.json says; `just scores fill` writes it",
                line + 1
            ));
        } else if text != filled.text {
            out.push(format!("{name}: not what data/scores.json says"));
        }
    }
    for m in &scores.series {
        out.extend(m.outdated().map_err(|e| e.to_string())?);
    }
    Ok(out)
}
