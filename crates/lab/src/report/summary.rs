//! Writes the comparison tables: policy against policy on every combination of axes.

use super::{HtmlReport, Labels, Opening, along, escape, number};
use crate::figures::claim::{Center, Claim, SummaryRow, SummaryTable, Verdict};
use crate::model::Better;
use crate::terminal::readable;
use std::fmt::Write;

impl SummaryTable {
    /// Converts the table to a unit in which its values can be read; changes and claims stay as
    /// they are.
    #[must_use]
    pub fn readable(mut self) -> Self {
        let largest = self.rows.iter().map(|r| r.mean.abs());
        let largest = largest.filter(|m| m.is_finite()).fold(0.0, f64::max);
        // Values are divided by `by` and shown in `unit`.
        let (by, unit) = readable(&self.unit, largest);
        if by != 1.0 {
            let unit = unit.to_owned();
            for r in &mut self.rows {
                r.samples.iter_mut().for_each(|x| *x /= by);
                r.mean /= by;
                r.sd /= by;
                r.interval = r.interval.map(|(a, b)| (a / by, b / by));
            }
            self.unit = unit;
        }
        self
    }
}

/// Returns the number of digits after the point that suits the values of the table; at least one
/// for means that are not whole.
pub(super) fn decimals(table: &SummaryTable) -> usize {
    let samples = table.rows.iter().flat_map(|r| r.samples.iter().copied());
    match table.center {
        Center::Mean => number::decimals(samples).max(usize::from(
            table.rows.iter().any(|r| r.mean.fract() != 0.0),
        )),
        Center::Median => number::decimals(samples),
    }
}

/// Formats the confidence level: `95 %`.
pub(super) fn level(table: &SummaryTable) -> String {
    format!("{} %", number::significant(table.confidence * 100.0, 4))
}

/// Returns all comparison tables of a report as HTML, each with its curve if the compared axis has
/// ordered values. The curve of the first one is left out if the page begins with it.
pub(super) fn section(report: &HtmlReport, labels: &Labels) -> String {
    if report.summary.is_empty() {
        return "<p class=\"missing\">Nothing was compared.</p>".into();
    }
    let compared = report.compared();
    let mut out = String::new();
    for (i, t) in report.summary.iter().enumerate() {
        out.push_str(&table(t, compared, labels));
        if i > 0 || report.opening != Opening::Answer {
            out.push_str(&along::svg(t, compared));
        }
    }
    out
}

/// Returns one comparison table as HTML: a row for each policy on each combination of axes.
/// `compared` is the heading of the policies' column.
fn table(table: &SummaryTable, compared: &str, labels: &Labels) -> String {
    let decimals = decimals(table);
    // True if some change has an interval, which then gets a column.
    let intervals = table
        .rows
        .iter()
        .any(|r| r.comparison.is_some_and(|c| c.interval.is_some()));
    let mut out = String::new();
    let direction = match table.better {
        Better::Lower => "lower is better",
        Better::Higher => "higher is better",
        Better::Neither => "neither lower nor higher is better",
    };
    let test = if table.test.is_empty() {
        String::new()
    } else {
        format!(" p: {}.", escape::html(&table.test))
    };
    let _ = write!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{metric}\">\
         <table class=\"compare\"><caption><b>{metric}</b> in {unit}, {direction}.{test}</caption><thead><tr>\
         <th scope=\"col\">{heading}</th><th scope=\"col\">{compared}</th>",
        metric = escape::html(&table.metric),
        unit = escape::html(&table.unit),
        heading = escape::html(&labels.heading()),
        compared = escape::html(compared),
    );
    let mut heads: Vec<String> = match table.center {
        Center::Mean => vec![
            "mean".into(),
            "sd".into(),
            format!("{} interval", level(table)),
        ],
        Center::Median => vec!["min".into(), "median".into(), "max".into()],
    };
    heads.extend(["n".into(), "change".into()]);
    if intervals {
        heads.push(format!("its {} interval", level(table)));
    }
    heads.push("p".into());
    for name in heads {
        let _ = write!(out, "<th scope=\"col\" class=\"num\">{name}</th>");
    }
    out.push_str("<th scope=\"col\" class=\"strip\">every iteration</th></tr></thead>");
    for (axes, label) in &labels.groups {
        let rows: Vec<&SummaryRow> = table.rows.iter().filter(|r| r.axes == *axes).collect();
        if rows.is_empty() {
            continue;
        }
        // Each group has a scale of its own, because policies are compared within it.
        let samples: Vec<f64> = rows
            .iter()
            .flat_map(|r| r.samples.iter().copied())
            .collect();
        let range = number::range(&samples);
        out.push_str("<tbody>");
        for (i, row) in rows.iter().enumerate() {
            out.push_str("<tr>");
            if i == 0 {
                let _ = write!(
                    out,
                    "<th scope=\"rowgroup\" rowspan=\"{}\">{}</th>",
                    rows.len(),
                    escape::html(label)
                );
            }
            let _ = write!(
                out,
                "<th scope=\"row\" class=\"policy\">{}</th>",
                escape::html(&row.policy)
            );
            cells(&mut out, table, row, decimals, intervals);
            let ends = range
                .filter(|_| i == 0)
                .map(|(a, b)| [a, b].map(|v| number::grouped(v, decimals)));
            let _ = write!(
                out,
                "<td class=\"strip\">{}</td></tr>",
                strip(row, table.center, range, ends)
            );
        }
        out.push_str("</tbody>");
    }
    out + "</table></div>"
}

/// Appends to `out` the HTML cells of one row: its values, the change and the p-value, with
/// `decimals` digits after the point. `intervals` adds a column for intervals of changes.
fn cells(
    out: &mut String,
    table: &SummaryTable,
    row: &SummaryRow,
    decimals: usize,
    intervals: bool,
) {
    let mut num = |text: &str| {
        let _ = write!(out, "<td class=\"num\">{text}</td>");
    };
    let show = |x| number::grouped(x, decimals);
    match table.center {
        Center::Mean => {
            num(&format!("<b>{}</b>", show(row.mean)));
            num(&number::grouped(row.sd, decimals));
            num(&row
                .interval
                .map_or("–".into(), |(a, b)| format!("{} … {}", show(a), show(b))));
        }
        Center::Median => {
            let (low, high) = number::range(&row.samples).unwrap_or((f64::NAN, f64::NAN));
            num(&show(low));
            num(&format!("<b>{}</b>", show(row.center(Center::Median))));
            num(&show(high));
        }
    }
    num(&row.samples.len().to_string());
    let Some(c) = &row.comparison else {
        num(if row.baseline {
            "<span class=\"muted\">baseline</span>"
        } else {
            "–"
        });
        if intervals {
            num("");
        }
        num("");
        return;
    };
    num(&verdict(table, c));
    if intervals {
        let finite = c.interval.filter(|(a, b)| a.is_finite() && b.is_finite());
        num(&finite.map_or("–".into(), |(a, b)| {
            format!("{} … {}", number::percent(a), number::percent(b))
        }));
    }
    num(&c
        .p
        .map_or("–".into(), |p| escape::html(&number::p_value(p))));
}

/// Formats a change as HTML in the way mm developers are used to: ▲ or ▼ for a claimed change,
/// `~` for no claim, and a percentage.
pub(super) fn verdict(table: &SummaryTable, c: &Claim) -> String {
    let (class, sign, word) = match table.is_good(c.verdict) {
        Some(true) => (
            "good",
            if c.verdict == Verdict::Less {
                "▼"
            } else {
                "▲"
            },
            "better",
        ),
        Some(false) => (
            "bad",
            if c.verdict == Verdict::Less {
                "▼"
            } else {
                "▲"
            },
            "worse",
        ),
        None => ("muted", "~", "no claim"),
    };
    let mut out = format!("<span class=\"{class}\" title=\"{word}\">{sign}");
    if c.change.is_finite() {
        let _ = write!(out, " {}", number::percent(c.change));
    }
    out.push_str("</span>");
    out
}

/// Draws the row as SVG: every iteration as a dot, the interval as a bar, the center as a line.
/// `range` is the least and greatest value of the scale (`None`: nothing is drawn), and `ends` are
/// labels for its two ends.
fn strip(
    row: &SummaryRow,
    center: Center,
    range: Option<(f64, f64)>,
    ends: Option<[String; 2]>,
) -> String {
    const WIDTH: f64 = 372.0;
    // The margin holds eight digits with their commas.
    const MARGIN: f64 = 82.0;
    let Some((low, high)) = range else {
        return String::new();
    };
    // The horizontal position of a value.
    let x = |v: f64| {
        let share = if high > low {
            (v - low) / (high - low)
        } else {
            0.5
        };
        MARGIN + share.clamp(0.0, 1.0) * (WIDTH - 2.0 * MARGIN)
    };
    let mut out = format!(
        "<svg class=\"dots\" viewBox=\"0 0 {WIDTH} 18\" width=\"{WIDTH}\" height=\"18\" aria-hidden=\"true\">\
         <line class=\"rail\" x1=\"{MARGIN}\" x2=\"{}\" y1=\"9\" y2=\"9\"/>",
        WIDTH - MARGIN
    );
    if let Some((a, b)) = row.interval.filter(|(a, b)| a.is_finite() && b.is_finite()) {
        let (a, b) = (x(a), x(b));
        let _ = write!(
            out,
            "<rect class=\"interval\" x=\"{a:.1}\" width=\"{:.1}\" y=\"5\" height=\"8\"/>",
            (b - a).max(1.0)
        );
    }
    for v in row.samples.iter().filter(|v| v.is_finite()) {
        let _ = write!(out, "<circle cx=\"{:.1}\" cy=\"9\" r=\"2.5\"/>", x(*v));
    }
    let middle = row.center(center);
    if middle.is_finite() {
        let m = x(middle);
        let _ = write!(
            out,
            "<line class=\"center\" x1=\"{m:.1}\" x2=\"{m:.1}\" y1=\"2\" y2=\"16\"/>"
        );
    }
    if let Some([low, high]) = ends {
        let _ = write!(
            out,
            "<text x=\"{}\" y=\"13\" text-anchor=\"end\">{low}</text><text x=\"{}\" y=\"13\">{high}</text>",
            MARGIN - 9.0,
            WIDTH - MARGIN + 9.0
        );
    }
    out.push_str("</svg>");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows;

    #[test]
    fn microseconds_become_milliseconds_and_claims_stay() {
        let samples = [vec![2000.0; 6], vec![1000.0; 6]];
        let rows = samples.iter().enumerate().map(|(i, own)| {
            SummaryRow::new(own.clone(), (i > 0).then_some(&samples[0]), Center::Mean)
        });
        let figure = rows::figure("response_max").unwrap();
        let t = SummaryTable::of_rows(&figure, Center::Mean, rows.collect());
        let read = t.clone().readable();
        assert_eq!((&read.unit[..], read.rows[0].mean), ("ms", 2.0));
        assert_eq!(read.rows[1].comparison, t.rows[1].comparison);
        assert_eq!(read.clone().readable(), read);
    }
}
