//! Writes a page of curves over the cache's size, in the report's style: one file without network.
//!
//! Charts are drawn by `page/curves.js`, bounds of estimates by `page/bounds.js`; tables are plain
//! HTML.

use super::{escape, fill};
use serde::Serialize;

/// The contents of the page.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The title.
    pub title: String,
    /// The program's version.
    pub version: String,
    /// Sizes in pages, ascending: the horizontal axis.
    pub sizes: Vec<u32>,
    /// The figures, each with a chart and a table.
    pub panels: Vec<Panel>,
    /// The verdict, a sentence; empty: none is shown.
    pub answer: String,
    /// Names and values for the section "how it was run".
    pub facts: Vec<(String, String)>,
    /// Warnings for the reader, one sentence each.
    pub notes: Vec<String>,
}

/// One figure over the sizes.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Panel {
    /// The figure's name.
    pub title: String,
    /// A short explanation of the figure.
    pub hint: String,
    /// `share` for 0 to 1, `s` for seconds, empty for counts.
    pub unit: String,
    /// Digits behind the point in the table.
    pub decimals: usize,
    /// The lines of the chart, one for each policy.
    pub lines: Vec<Line>,
}

/// A policy's values.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Line {
    /// The policy's name.
    pub name: String,
    /// The values, one for each size.
    pub values: Vec<f64>,
    /// Lower and upper bound of each value; empty where values are exact.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<[f64; 2]>,
}

impl Line {
    /// Formats the value at the `i`-th size for the table, with its greatest error beside it if it
    /// is an estimate; `None` if there is no such value.
    fn cell(&self, i: usize, decimals: usize) -> Option<String> {
        let value = self.values.get(i)?;
        Some(match self.bounds.get(i) {
            Some([low, high]) => {
                let error = (high - value).max(value - low);
                format!("{value:.decimals$} ± {error:.decimals$}")
            }
            None => format!("{value:.decimals$}"),
        })
    }
}

#[derive(Serialize)]
struct Payload<'a> {
    sizes: &'a [u32],
    panels: &'a [Panel],
}

/// Returns the complete HTML page of curves over the cache's size. The same [`Page`] gives the same
/// bytes.
pub fn html(page: &Page) -> String {
    let payload = Payload {
        sizes: &page.sizes,
        panels: &page.panels,
    };
    let json = serde_json::to_string(&payload).expect("plain data always serializes");
    // True if some values are estimates with bounds.
    let estimated = page
        .panels
        .iter()
        .flat_map(|p| &p.lines)
        .any(|line| !line.bounds.is_empty());
    let script = [
        "(() => {\n\"use strict\";\n",
        include_str!("page/format.js"),
        include_str!("page/chart.js"),
        if estimated {
            include_str!("page/bounds.js")
        } else {
            ""
        },
        include_str!("page/curves.js"),
        "})();\n",
    ]
    .concat();
    let sizes = match page.sizes[..] {
        [] => "no sizes".to_owned(),
        [one] => format!("{one} pages"),
        [first, .., last] => format!("{} sizes, {first} to {last} pages", page.sizes.len()),
    };
    let version = escape::html(&page.version);
    fill(
        concat!(
            include_str!("page/head.html"),
            include_str!("page/curves.html"),
            include_str!("page/foot.html"),
        ),
        &[
            ("title", escape::html(&page.title)),
            ("css", include_str!("page/page.css").into()),
            ("meta", format!("{sizes} · lowmark {version}")),
            ("answer", answer(page)),
            ("notes", notes(page)),
            (
                "tables",
                page.panels.iter().map(|p| table(page, p)).collect(),
            ),
            ("run", facts(page)),
            ("data", escape::json_in_script(&json)),
            ("script", script),
        ],
    )
}

/// Returns the page's verdict as HTML; empty if there is none.
fn answer(page: &Page) -> String {
    match &page.answer[..] {
        "" => String::new(),
        told => format!("<p class=\"answer\">{}</p>", escape::html(told)),
    }
}

/// Returns the page's warnings as an HTML list; empty if there are none.
fn notes(page: &Page) -> String {
    if page.notes.is_empty() {
        return String::new();
    }
    let items: String = page
        .notes
        .iter()
        .map(|n| format!("<li>{}</li>", escape::html(n)))
        .collect();
    format!("<aside class=\"notes\" aria-label=\"Notes\"><ul>{items}</ul></aside>")
}

/// Returns the table of a figure as HTML: a row for each size, a column for each policy.
fn table(page: &Page, panel: &Panel) -> String {
    let unit = match &panel.unit[..] {
        "" | "share" => String::new(),
        unit => format!(" ({})", escape::html(unit)),
    };
    let head: String = panel
        .lines
        .iter()
        .map(|l| {
            format!(
                "<th scope=\"col\" class=\"num\">{}</th>",
                escape::html(&l.name)
            )
        })
        .collect();
    let row = |(i, size): (usize, &u32)| {
        let cells: String = panel
            .lines
            .iter()
            .filter_map(|l| l.cell(i, panel.decimals))
            .map(|cell| format!("<td class=\"num\">{cell}</td>"))
            .collect();
        format!("<tr><th scope=\"row\" class=\"num\">{size}</th>{cells}</tr>")
    };
    let rows: String = page.sizes.iter().enumerate().map(row).collect();
    format!(
        "<div class=\"scroll tall\" tabindex=\"0\"><table class=\"data-table\"><caption><b>{}</b>{unit}: {}</caption>\
         <thead><tr><th scope=\"col\" class=\"num\">pages</th>{head}</tr></thead><tbody>{rows}</tbody></table></div>",
        escape::html(&panel.title),
        escape::html(&panel.hint),
    )
}

/// Returns the page's facts, names and values, as an HTML list.
fn facts(page: &Page) -> String {
    let items: String = page
        .facts
        .iter()
        .map(|(n, v)| format!("<dt>{}</dt><dd>{}</dd>", escape::html(n), escape::html(v)))
        .collect();
    format!("<dl class=\"facts\">{items}</dl>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_its_tables_and_no_foreign_markup() {
        let page = Page {
            title: "<b>".into(),
            version: "1".into(),
            sizes: vec![10, 20],
            panels: vec![Panel {
                title: "miss ratio".into(),
                unit: "share".into(),
                decimals: 3,
                lines: vec![
                    Line {
                        name: "</script>".into(),
                        values: vec![0.5, 0.25],
                        bounds: Vec::new(),
                    },
                    Line {
                        name: "estimate".into(),
                        values: vec![0.5, 0.25],
                        bounds: vec![[0.375, 0.5], [0.25, 0.5]],
                    },
                ],
                ..Panel::default()
            }],
            answer: "lru & arc tie".into(),
            facts: vec![("trace".into(), "a & b".into())],
            notes: vec!["one".into()],
        };
        let html = html(&page);
        assert_eq!(html, super::html(&page));
        assert!(html.contains("<title>&lt;b&gt;</title>"));
        assert!(html.contains("<td class=\"num\">0.250</td>"));
        assert!(html.contains("<td class=\"num\">0.500 ± 0.125</td>"));
        assert!(html.contains("<td class=\"num\">0.250 ± 0.250</td>"));
        assert!(html.contains("2 sizes, 10 to 20 pages"));
        let main = html.split("<main>").nth(1).unwrap().trim_start();
        assert!(main.starts_with("<p class=\"answer\">lru &amp; arc tie</p>"));
        assert!(html.contains("<dd>a &amp; b</dd>"));
        assert_eq!(html.matches("</script>").count(), 2);
    }
}
