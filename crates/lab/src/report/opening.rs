//! Writes the sections that a page begins with: an answer, tables, or a recording's findings.

use super::{HtmlReport, Labels, answer, notes, summary};

/// The part that a page begins with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Opening {
    /// The answer to the experiment's question; after it the tables.
    #[default]
    Answer,
    /// The tables of stored runs that are compared; there are no runs to look into.
    Tables,
}

/// Returns as HTML the links to the page's sections.
pub(super) fn links(report: &HtmlReport) -> String {
    let all = [
        ("comparison", "Comparison", true),
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

/// Returns as HTML the sections before those of the runs, in the order of the report's opening.
pub(super) fn sections(report: &HtmlReport, labels: &Labels) -> String {
    let comparison = format!(
        "<section id=\"comparison\">\n<h2>Comparison</h2>\n{}\n</section>",
        summary::section(report, labels)
    );
    let notes = notes(report, labels);
    match &report.opening {
        Opening::Answer => format!(
            "<section id=\"answer\" aria-label=\"Answer\">\n{}\n{notes}\n</section>\n{comparison}",
            answer::section(report, labels)
        ),
        Opening::Tables => format!("{comparison}\n{notes}"),
    }
}
