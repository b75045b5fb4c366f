//! Writes the sections that a page begins with: an answer, tables, or findings of recordings.

use super::found::{self, Found};
use super::{HtmlReport, Labels, answer, notes, summary};

/// The part that a page begins with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Opening {
    /// The answer to the experiment's question; after it the tables.
    #[default]
    Answer,
    /// The tables of stored runs that are compared; there are no runs to look into.
    Tables,
    /// The figures that stand out in each recording, by its name; tables if there are several.
    Findings(Vec<(String, Vec<Found>)>),
}

/// Returns as HTML the links to the page's sections.
pub(super) fn links(report: &HtmlReport) -> String {
    let all = [
        ("comparison", "Comparison", has_comparison(report)),
        ("inside", "Inside the runs", has_inside(report)),
        ("how", "How it was run", true),
    ];
    let shown = all.iter().filter(|link| link.2);
    let links: Vec<String> = shown
        .map(|(id, text, _)| format!("<a href=\"#{id}\">{text}</a>"))
        .collect();
    links.join(" ")
}

/// Returns true if the page has a section with time series and counters of the runs.
pub(super) fn has_inside(report: &HtmlReport) -> bool {
    report.opening != Opening::Tables
}

/// Returns true if the page has a section with tables: a single recording is compared with nothing.
fn has_comparison(report: &HtmlReport) -> bool {
    !matches!(&report.opening, Opening::Findings(all) if all.len() < 2 && report.cells.len() < 2)
}

/// Returns as HTML the sections before those of the runs, in the order of the report's opening.
pub(super) fn sections(report: &HtmlReport, labels: &Labels) -> String {
    let comparison = match has_comparison(report) {
        true => format!(
            "<section id=\"comparison\">\n<h2>Comparison</h2>\n{}\n</section>",
            summary::section(report, labels)
        ),
        false => String::new(),
    };
    let notes = notes(report, labels);
    let answer = match &report.opening {
        Opening::Answer => answer::section(report, labels),
        Opening::Findings(all) => found::section(all),
        Opening::Tables => return format!("{comparison}\n{notes}"),
    };
    format!(
        "<section id=\"answer\" aria-label=\"Answer\">\n{answer}\n{notes}\n</section>\n{comparison}"
    )
}
