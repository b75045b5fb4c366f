//! The comparison tables: policy against policy on every combination of axes.

use super::{Axes, Labels, Report, escape, number};
use std::fmt::Write;

/// Which way a metric is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Better {
    /// Less is better: elapsed time, latency.
    #[default]
    Lower,
    /// More is better: throughput.
    Higher,
}

/// How a sample is summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Center {
    /// Mean, standard deviation and confidence interval.
    #[default]
    Mean,
    /// Minimum, median and maximum: counters, whose runs are often zero or very many.
    Median,
}

/// What can be claimed about a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verdict {
    /// Lower than the baseline.
    Less,
    /// Higher than the baseline.
    More,
    /// Nothing can be claimed.
    #[default]
    Unclear,
    /// Too few iterations for any claim.
    TooFew,
}

/// A policy against the baseline of its combination of axes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Comparison {
    /// Relative change of the center, new / base − 1; not finite where the base is 0.
    pub change: f64,
    /// Its confidence interval.
    pub interval: Option<(f64, f64)>,
    /// The test's p-value.
    pub p: Option<f64>,
    /// What follows.
    pub verdict: Verdict,
}

/// One metric of one policy on one combination of axes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SummaryRow {
    /// The combination of axes.
    pub axes: Axes,
    /// The policy.
    pub policy: String,
    /// Whether the others are compared with this one.
    pub baseline: bool,
    /// The value of every iteration.
    pub samples: Vec<f64>,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation.
    pub sd: f64,
    /// Confidence interval of the mean, or of the median.
    pub interval: Option<(f64, f64)>,
    /// Against the baseline; absent for the baseline itself.
    pub comparison: Option<Comparison>,
}

impl SummaryRow {
    /// The value that stands for the sample.
    pub(super) fn center(&self, center: Center) -> f64 {
        match center {
            Center::Mean => self.mean,
            Center::Median => number::median(&self.samples).unwrap_or(f64::NAN),
        }
    }
}

/// One metric over the whole experiment. Rows of equal axes stand together, in the given order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SummaryTable {
    /// The metric's name: `elapsed`, `nr_vmscan_write`, …
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Which way is good.
    pub better: Better,
    /// Which figures are shown.
    pub center: Center,
    /// Level of the intervals: 0.95.
    pub confidence: f64,
    /// Name of the test that gave the p-values, such as "Mann-Whitney U".
    pub test: String,
    /// One row for each policy on each combination of axes.
    pub rows: Vec<SummaryRow>,
}

impl SummaryTable {
    /// Digits after the point that suit the metric.
    pub(super) fn decimals(&self) -> usize {
        let samples = self.rows.iter().flat_map(|r| r.samples.iter().copied());
        match self.center {
            Center::Mean => number::decimals(samples)
                .max(usize::from(self.rows.iter().any(|r| r.mean.fract() != 0.0))),
            Center::Median => number::decimals(samples),
        }
    }

    /// `95 %`.
    pub(super) fn level(&self) -> String {
        format!("{} %", number::significant(self.confidence * 100.0, 4))
    }

    /// Whether a change in this direction is good.
    pub(crate) fn is_good(&self, verdict: Verdict) -> Option<bool> {
        match (verdict, self.better) {
            (Verdict::Less, Better::Lower) | (Verdict::More, Better::Higher) => Some(true),
            (Verdict::Less | Verdict::More, _) => Some(false),
            (Verdict::Unclear | Verdict::TooFew, _) => None,
        }
    }
}

/// All comparison tables.
pub(super) fn section(report: &Report, labels: &Labels) -> String {
    if report.summary.is_empty() {
        return "<p class=\"missing\">Nothing was compared.</p>".into();
    }
    report.summary.iter().map(|t| table(t, labels)).collect()
}

fn table(table: &SummaryTable, labels: &Labels) -> String {
    let decimals = table.decimals();
    let intervals = table
        .rows
        .iter()
        .any(|r| r.comparison.is_some_and(|c| c.interval.is_some()));
    let mut out = String::new();
    let direction = match table.better {
        Better::Lower => "lower is better",
        Better::Higher => "higher is better",
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
         <th scope=\"col\">{heading}</th><th scope=\"col\">policy</th>",
        metric = escape::html(&table.metric),
        unit = escape::html(&table.unit),
        heading = escape::html(&labels.heading()),
    );
    let mut heads: Vec<String> = match table.center {
        Center::Mean => vec![
            "mean".into(),
            "sd".into(),
            format!("{} interval", table.level()),
        ],
        Center::Median => vec!["min".into(), "median".into(), "max".into()],
    };
    heads.extend(["n".into(), "change".into()]);
    if intervals {
        heads.push(format!("its {} interval", table.level()));
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
        // Each group has its own scale: the question is policy against policy.
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
    out.push_str("</table></div>");
    out
}

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

/// The change as mm developers are used to read it: a sign, a percentage, `~` for no claim.
fn verdict(table: &SummaryTable, c: &Comparison) -> String {
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

/// Every iteration as a dot, the interval as a bar, the center as a line; `ends` are the scale's.
fn strip(
    row: &SummaryRow,
    center: Center,
    range: Option<(f64, f64)>,
    ends: Option<[String; 2]>,
) -> String {
    const WIDTH: f64 = 340.0;
    const MARGIN: f64 = 66.0;
    let Some((low, high)) = range else {
        return String::new();
    };
    let x = |v: f64| {
        let share = if high > low {
            (v - low) / (high - low)
        } else {
            0.5
        };
        MARGIN + share.clamp(0.0, 1.0) * (WIDTH - 2.0 * MARGIN)
    };
    let mut out = String::from(
        "<svg class=\"dots\" viewBox=\"0 0 340 18\" width=\"340\" height=\"18\" aria-hidden=\"true\">\
         <line class=\"rail\" x1=\"66\" x2=\"274\" y1=\"9\" y2=\"9\"/>",
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
            "<text x=\"57\" y=\"13\" text-anchor=\"end\">{low}</text><text x=\"283\" y=\"13\">{high}</text>"
        );
    }
    out.push_str("</svg>");
    out
}
