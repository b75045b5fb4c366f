//! Writes `report.html`: one file that answers an experiment's question and shows why.
//!
//! The page needs no network, no server and no other file: styles, script and data are inline.
//! Everything that needs no drawing (the answer, the comparison tables, how it was run) is plain
//! HTML written here, so it can be read with scripting off, printed and searched. The data of drawn
//! parts (time series, latency, counters) is embedded as JSON and drawn by `page/*.js`.
//!
//! The same [`HtmlReport`] gives the same bytes.
//!
//! To add a section, add a builder in `page/sections.js` and, if it needs new data, a field in
//! `payload.rs`. A new column of [`sim::result::Series`] needs no change: columns that no section
//! asks for are drawn by name at the end.

pub mod along;
mod answer;
mod cautions;
pub mod compare;
pub mod curves;
pub(crate) mod escape;
pub mod found;
pub mod host;
mod labels;
pub(crate) mod number;
pub mod opening;
pub mod page;
mod payload;
mod ranked;
pub mod rates;
mod summary;
mod tracker;
pub mod verdict;

pub use crate::figures::claim::{Center, Claim, SummaryRow, SummaryTable, Verdict};
pub use crate::figures::latency::Latency;
pub use crate::figures::waits::{CrowdOf, Waits};
pub use crate::model::Better;
pub use opening::Opening;
pub use tracker::tracker_text;

use crate::figures::values::tally;
use sim::result::{Outcome, Series, TrackerReport};

/// Joins the notes of an experiment that must be read before any figure, a line each, followed by
/// an empty line; an empty text if there are none.
pub fn said(lines: &[String]) -> String {
    let lines = lines.iter().map(|line| format!("{line}\n"));
    let text: String = lines.collect();
    match text.is_empty() {
        true => text,
        false => text + "\n",
    }
}

/// The place of a cell or a row in the experiment's matrix: axis name and value, policy excluded
/// (`filesystem` = `ext4`, `machine` = `3765M`, …), in the order of the experiment file.
pub type Axes = Vec<(String, String)>;

/// The contents of the page.
#[derive(Debug, Clone, Default)]
pub struct HtmlReport {
    /// The experiment's name.
    pub title: String,
    /// The part that the page begins with.
    pub opening: Opening,
    /// The heading of the compared columns; empty: `policy`.
    pub compared: String,
    /// The experiment file, as it was given.
    pub experiment_toml: String,
    /// The program's version, with the commit if it is known.
    pub version: String,
    /// The experiment's seed.
    pub seed: u64,
    /// Further names and values for the section "how it was run".
    pub facts: Vec<(String, String)>,
    /// The comparisons; the first one is the question that the headline answers.
    pub summary: Vec<SummaryTable>,
    /// One cell for each policy on each combination of axes.
    pub cells: Vec<PageCell>,
    /// Warnings for the reader (too few iterations, lost dirty data, …), one sentence each.
    pub notes: Vec<String>,
}

/// One policy on one combination of axes.
#[derive(Debug, Clone, Default)]
pub struct PageCell {
    /// The combination of axes; cells of equal axes stand side by side.
    pub axes: Axes,
    /// The policy's name.
    pub policy: String,
    /// True for the cell that the others are compared with.
    pub baseline: bool,
    /// The ending of every finished iteration.
    pub outcomes: Vec<Outcome>,
    /// Time series of the first iteration; empty if it was not sampled.
    pub series: Series,
    /// Allocation latency by path, over all iterations ([`Latency::merged`]).
    pub latency: Vec<Latency>,
    /// The slowest allocations, slowest first.
    pub slowest: Vec<Slow>,
    /// The waits of tasks and the objects they waited on, over all iterations.
    pub waits: Waits,
    /// True if no run recorded what its tasks waited on.
    pub untold: bool,
    /// Counters and the workload's own metrics. Counters that the run's world does not produce are
    /// absent.
    pub figures: Vec<PageFigure>,
    /// The rows of mm reports, block by block; cells of equal axes have the same ones.
    pub rows: Vec<PageRow>,
    /// The parts of the time of each class of tasks.
    pub time: Vec<ClassTime>,
    /// The page tracker's report of the first iteration, when it was on.
    pub tracker: Option<TrackerReport>,
    /// Warnings about this cell, a sentence each.
    pub notes: Vec<String>,
}

/// One of the slowest allocations, formatted for display.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
pub struct Slow {
    /// The duration of the allocation, in nanoseconds.
    pub ns: u64,
    /// The allocation's class, task and time, and the parts of its duration.
    pub what: String,
    /// Events during the allocation: nanoseconds since its beginning, and the event as a sentence.
    pub timeline: Vec<(i64, String)>,
}

/// A row of one policy, formatted for display.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PageRow {
    /// The heading of its block.
    pub block: String,
    /// Its name in the block.
    pub label: String,
    /// The formula of the row, shown on hovering.
    pub formula: String,
    /// The unit.
    pub unit: String,
    /// The mean over iterations; `None` if the row has no value.
    pub value: Option<String>,
    /// The change against the baseline in per cent; `None` for the baseline and where no change can
    /// be computed.
    pub change: Option<f64>,
    /// True if a difference can be claimed.
    pub significant: bool,
    /// True if the change is for the better; `None` where neither direction is better.
    pub better: Option<bool>,
    /// The reason why there is no value.
    pub unsupported: Option<String>,
}

/// The time of one class of tasks, split into parts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClassTime {
    /// The name of the class.
    pub class: String,
    /// The number of tasks in the class, as a mean over runs.
    pub tasks: f64,
    /// Parts by name, in seconds; the last one is their sum.
    pub parts: Vec<(String, f64)>,
}

/// A counter or metric with its value in every iteration.
#[derive(Debug, Clone, PartialEq)]
pub struct PageFigure {
    /// The name of docs/reference/counters-and-traces.md, such as `pgscan_direct_normal`.
    pub name: String,
    /// The unit; empty for plain counts of events.
    pub unit: String,
    /// The values, one for each iteration.
    pub values: Vec<f64>,
}

/// Returns the complete HTML page of an experiment's report, with styles, script and data inline.
pub fn html(report: &HtmlReport) -> String {
    let labels = Labels::of(report);
    let css = include_str!("page/page.css");
    let untold = match report.cells.iter().any(|c| c.untold) {
        true => include_str!("page/untold.js"),
        false => "",
    };
    let inside = match opening::has_inside(report) {
        true => include_str!("page/inside.html"),
        false => "",
    };
    let script = [
        "(() => {\n\"use strict\";\n",
        include_str!("page/format.js"),
        include_str!("page/chart.js"),
        include_str!("page/tables.js"),
        untold,
        include_str!("page/smooth.js"),
        include_str!("page/sections.js"),
        include_str!("page/page.js"),
        "})();\n",
    ]
    .concat();
    fill(
        concat!(
            include_str!("page/head.html"),
            include_str!("page/page.html"),
            include_str!("page/foot.html"),
        ),
        &[
            ("title", escape::html(&report.title)),
            ("css", css.into()),
            ("meta", meta(report)),
            ("links", opening::links(report)),
            ("opening", opening::sections(report, &labels)),
            ("inside", inside.into()),
            ("run", how_it_was_run(report)),
            (
                "data",
                escape::json_in_script(&payload::json(report, &labels)),
            ),
            ("script", script),
        ],
    )
}

impl HtmlReport {
    /// Returns the heading of the compared columns.
    fn compared(&self) -> &str {
        match &self.compared[..] {
            "" => "policy",
            own => own,
        }
    }
}

/// Replaces every `{{name}}` of the HTML template by the value of that name. All are replaced in
/// one pass, so that a value can't be taken for a placeholder.
fn fill(template: &str, values: &[(&str, String)]) -> String {
    let mut out =
        String::with_capacity(template.len() + values.iter().map(|v| v.1.len()).sum::<usize>());
    let mut rest = template;
    while let Some(at) = rest.find("{{") {
        let end = at + rest[at..].find("}}").expect("a placeholder ends");
        let name = &rest[at + 2..end];
        let value = values
            .iter()
            .find(|v| v.0 == name)
            .expect("a placeholder that is known");
        out.push_str(&rest[..at]);
        out.push_str(&value.1);
        rest = &rest[end + 2..];
    }
    out.push_str(rest);
    out
}

/// Short labels for combinations of axes: only axes that differ between them are named.
struct Labels {
    /// Names of the axes that differ, in order.
    varying: Vec<String>,
    /// Every combination with its label, in order of appearance.
    groups: Vec<(Axes, String)>,
}

impl Labels {
    /// Collects the combinations of axes that the report's cells and tables have, and labels each
    /// with the values of the axes that differ between them.
    fn of(report: &HtmlReport) -> Self {
        let rows = report.summary.iter().flat_map(|t| &t.rows).map(|r| &r.axes);
        let mut combinations: Vec<&Axes> = Vec::new();
        for axes in report.cells.iter().map(|c| &c.axes).chain(rows) {
            if !combinations.contains(&axes) {
                combinations.push(axes);
            }
        }
        let mut varying: Vec<String> = Vec::new();
        for (name, value) in combinations.iter().copied().flatten() {
            let differs = combinations
                .iter()
                .any(|other| !other.iter().any(|(n, v)| n == name && v == value));
            if differs && !varying.contains(name) {
                varying.push(name.clone());
            }
        }
        if varying.is_empty() {
            // A single combination is labelled with its first axis, the filesystem.
            varying.extend(
                combinations
                    .iter()
                    .copied()
                    .flatten()
                    .take(1)
                    .map(|(n, _)| n.clone()),
            );
        }
        let label = |axes: &Axes| {
            let values: Vec<_> = varying
                .iter()
                .filter_map(|n| axes.iter().find(|a| a.0 == *n))
                .map(|a| &a.1[..])
                .collect();
            if values.is_empty() {
                "all".into()
            } else {
                values.join(" · ")
            }
        };
        let groups = combinations
            .iter()
            .map(|a| ((*a).clone(), label(a)))
            .collect();
        Self { varying, groups }
    }

    /// Returns the label of a combination of axes; `all` if the report does not have it.
    fn get(&self, axes: &Axes) -> &str {
        self.groups
            .iter()
            .find(|g| g.0 == *axes)
            .map_or("all", |g| &g.1)
    }

    /// Returns the heading of the labels: "filesystem", or "filesystem · machine".
    fn heading(&self) -> String {
        if self.varying.is_empty() {
            "case".into()
        } else {
            self.varying.join(" · ")
        }
    }
}

/// Returns the line under the page's title, as HTML: iterations, seed and version.
fn meta(report: &HtmlReport) -> String {
    let mut runs: Vec<usize> = report.cells.iter().map(|c| c.outcomes.len()).collect();
    runs.sort_unstable();
    let iterations = match (runs.first(), runs.last()) {
        (Some(1), Some(1)) => "1 iteration a cell · ".into(),
        (Some(a), Some(b)) if a == b => format!("{a} iterations a cell · "),
        (Some(a), Some(b)) => format!("{a} to {b} iterations a cell · "),
        _ => String::new(),
    };
    format!(
        "{iterations}seed {} · lowmark {}",
        report.seed,
        escape::html(&report.version)
    )
}

/// Returns as an HTML list the warnings of the experiment and of its cells, and every run that did
/// not complete; empty if there are none.
fn notes(report: &HtmlReport, labels: &Labels) -> String {
    let mut lines: Vec<String> = report.notes.iter().map(|n| escape::html(n)).collect();
    for cell in &report.cells {
        let place = format!(
            "<b>{}, {}</b>: ",
            escape::html(labels.get(&cell.axes)),
            escape::html(&cell.policy)
        );
        // Equal endings are listed once, with the number of iterations that ended so.
        for (ending, n) in tally(cell.outcomes.iter().filter_map(ending)) {
            let of = cell.outcomes.len();
            lines.push(format!(
                "{place}{n} of {of} iterations {}",
                escape::html(&ending)
            ));
        }
        for note in &cell.notes {
            // A note that is the same in every cell is listed once.
            let same = report.cells.iter().filter(|c| c.notes.contains(note));
            let line = match same.count() == report.cells.len() && report.cells.len() > 1 {
                true => format!("<b>every cell</b>: {}", escape::html(note)),
                false => format!("{place}{}", escape::html(note)),
            };
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    let items: String = lines.iter().map(|l| format!("<li>{l}</li>")).collect();
    format!("<aside class=\"notes\" aria-label=\"Notes\"><ul>{items}</ul></aside>")
}

/// Describes how a run ended that did not complete, to follow "1 of 3 iterations"; `None` for one
/// that did.
fn ending(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Completed => None,
        Outcome::Oom { report } => Some(format!(
            "ran out of memory: {}",
            Outcome::oom_headline(report)
        )),
        Outcome::Failed { error } => Some(format!("failed: {error}")),
        Outcome::TimeLimit => Some("reached the time limit".into()),
        Outcome::Interrupted => Some("were interrupted".into()),
    }
}

/// Returns as HTML the facts of the run (version, seed, …) and the text of the experiment file.
fn how_it_was_run(report: &HtmlReport) -> String {
    let fixed = [
        ("version".into(), report.version.clone()),
        ("seed".into(), report.seed.to_string()),
    ];
    let facts: String = fixed
        .iter()
        .chain(&report.facts)
        .map(|(n, v)| format!("<dt>{}</dt><dd>{}</dd>", escape::html(n), escape::html(v)))
        .collect();
    let text = if report.experiment_toml.trim().is_empty() {
        "<p class=\"missing\">The experiment's text was not kept.</p>".into()
    } else {
        // The HTML parser drops one newline after <pre>; this newline is there to be dropped.
        format!(
            "<pre tabindex=\"0\">\n{}</pre>",
            escape::html(&report.experiment_toml)
        )
    };
    format!("<dl class=\"facts\">{facts}</dl>{text}")
}

#[cfg(test)]
mod tests;
