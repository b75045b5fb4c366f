//! Ranks many policies in one chart for each place, where a box for each policy would be too much
//! to read.

use super::{Axes, Labels, SummaryRow, SummaryTable, escape, number, summary};
use crate::terminal::spaced;
use std::cmp::Ordering;
use std::fmt::Write;

/// Most policies that are shown without a ranking.
const FEW: usize = 4;

/// Returns true if there are so many policies that they are ranked.
pub(super) fn is_wanted(table: &SummaryTable, labels: &Labels) -> bool {
    let many = |(axes, _): &(Axes, String)| ranked_rows(table, axes).len() > FEW;
    labels.groups.iter().any(many)
}

/// Returns the rows of the combination `axes`, the best first; if neither direction is better, the
/// largest first. Rows without a figure come last.
fn ranked_rows<'a>(table: &'a SummaryTable, axes: &Axes) -> Vec<&'a SummaryRow> {
    let mut rows: Vec<_> = table.rows.iter().filter(|r| r.axes == *axes).collect();
    let lower = table.better == super::Better::Lower;
    rows.sort_by(|a, b| {
        let (a, b) = (a.center(table.center), b.center(table.center));
        match (a.is_finite(), b.is_finite()) {
            (true, true) if lower => a.total_cmp(&b),
            (true, true) => b.total_cmp(&a),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => Ordering::Equal,
        }
    });
    rows
}

/// Returns a sentence that names the best policy of `rows` (best first) and counts the policies
/// that are better, worse and neither than the baseline. `place` names the combination of axes, if
/// there are several.
fn sentence(table: &SummaryTable, rows: &[&SummaryRow], place: Option<&str>) -> String {
    let base = rows.iter().find(|r| r.baseline);
    // The policies with this verdict; those without any value count as worse.
    let count = |wanted: Option<bool>| {
        let others = rows.iter().filter_map(|r| r.comparison);
        let claimed = others.filter(|c| table.is_good(c.verdict) == wanted);
        let missing = rows.iter().filter(|r| table.is_missing(r));
        let missing = missing.filter(|_| wanted == Some(false));
        claimed.count() + missing.count()
    };
    let mut out = place.map_or_else(String::new, |place| format!("{place}: "));
    let (best, d) = (rows[0], summary::decimals(table));
    let value = number::grouped(best.center(table.center), d);
    let unit = spaced(&table.unit);
    let superlative = match table.better {
        super::Better::Neither => "most",
        _ => "best",
    };
    let _ = write!(
        out,
        "{} has the {superlative} {} of {}, {value}{unit}",
        best.policy,
        table.metric,
        rows.len()
    );
    let Some(base) = base else {
        return out + ".";
    };
    let told: Vec<String> = [(Some(true), "better"), (Some(false), "worse")]
        .into_iter()
        .map(|(wanted, word)| format!("{} {word}", count(wanted)))
        .collect();
    let _ = write!(
        out,
        "; against {}, {} and {} without a difference that can be claimed.",
        base.policy,
        told.join(", "),
        count(None)
    );
    out
}

/// Returns, for every combination of axes, the sentence on the best of its policies as HTML; with
/// `bars` followed by the ranking: a row with a bar for each policy.
pub(super) fn section(table: &SummaryTable, labels: &Labels, bars: bool) -> String {
    let mut out = String::new();
    for (axes, label) in &labels.groups {
        let rows = ranked_rows(table, axes);
        if rows.is_empty() {
            continue;
        }
        let place = (labels.groups.len() > 1).then_some(&label[..]);
        let said = escape::html(&sentence(table, &rows, place));
        let _ = write!(out, "<p class=\"answer\">{said}</p>");
        if bars {
            out.push_str(&chart(table, &rows, place));
        }
    }
    out
}

/// Returns the ranking of `rows`, best first, as an HTML table with a bar for each policy.
fn chart(table: &SummaryTable, rows: &[&SummaryRow], place: Option<&str>) -> String {
    let centers = rows.iter().map(|r| r.center(table.center));
    let most = centers.filter(|v| v.is_finite()).fold(0.0, f64::max);
    let mut out = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Ranking\"><table class=\"ranked\"><caption>{}, \
         ranked{}; bars begin at 0</caption><thead><tr><th scope=\"col\">policy</th><th scope=\"col\">{}</th>\
         <th scope=\"col\">change</th><th scope=\"col\" aria-hidden=\"true\"></th></tr></thead><tbody>",
        escape::html(&table.metric),
        place.map_or_else(String::new, |p| format!(" on {}", escape::html(p))),
        match &table.unit[..] {
            "" => "value".to_owned(),
            unit => escape::html(unit),
        }
    );
    rows.iter()
        .for_each(|row| out.push_str(&line(table, row, most)));
    out + "</tbody></table></div>"
}

/// Returns a policy's row of the ranking with its bar as HTML; `most` is the value of a full bar.
fn line(table: &SummaryTable, row: &SummaryRow, most: f64) -> String {
    let center = row.center(table.center);
    let good = row.comparison.and_then(|c| table.is_good(c.verdict));
    let class = match (row.baseline, good) {
        (true, _) => "base",
        (_, Some(true)) => "good",
        (_, Some(false)) => "bad",
        (_, None) => "unclear",
    };
    let change = match &row.comparison {
        Some(c) => summary::verdict(table, c),
        None if row.baseline => "baseline".to_owned(),
        None => String::new(),
    };
    let value = match center.is_finite() {
        true => number::grouped(center, summary::decimals(table)),
        false => "–".to_owned(),
    };
    let width = match most > 0.0 && center > 0.0 {
        true => 100.0 * center / most,
        false => 0.0,
    };
    format!(
        "<tr class=\"{class}\"><th scope=\"row\">{}</th><td>{value}</td><td>{change}</td><td class=\"bar\" \
         aria-hidden=\"true\"><span style=\"width:{width:.1}%\"></span></td></tr>",
        escape::html(&row.policy)
    )
}

#[cfg(test)]
mod tests {
    use super::super::{Better, Claim, HtmlReport, Verdict};
    use super::*;

    fn report(policies: &[(&str, f64, Verdict)]) -> HtmlReport {
        let row = |(i, (policy, value, verdict)): (usize, &(&str, f64, Verdict))| SummaryRow {
            policy: (*policy).into(),
            baseline: i == 0,
            samples: vec![*value],
            mean: *value,
            comparison: (i > 0).then_some(Claim {
                change: *value - 1.0,
                interval: None,
                p: Some(0.01),
                verdict: *verdict,
            }),
            ..Default::default()
        };
        let table = SummaryTable {
            metric: "hit_ratio".into(),
            unit: "share".into(),
            better: Better::Higher,
            rows: policies.iter().enumerate().map(row).collect(),
            ..Default::default()
        };
        HtmlReport {
            summary: vec![table],
            ..Default::default()
        }
    }

    #[test]
    fn the_best_comes_first_and_the_sentence_counts() {
        let policies = [
            ("base", 0.5, Verdict::Unclear),
            ("a", 0.25, Verdict::Less),
            ("b", 0.75, Verdict::More),
            ("c", 0.5, Verdict::Unclear),
            ("<d>", f64::NAN, Verdict::TooFew),
        ];
        let all = report(&policies);
        let labels = Labels::of(&all);
        let table = &all.summary[0];
        assert!(is_wanted(table, &labels));
        let page = section(table, &labels, true);
        assert!(
            page.contains(
                "b has the best hit_ratio of 5, 0.750 share; against base, 1 better, 1 worse and 2 without a difference that can \
                 be claimed."
            ),
            "{page}"
        );
        let at = |text: &str| page.find(text).expect(text);
        let order = [">b<", ">base<", ">c<", ">a<", ">&lt;d&gt;<"].map(at);
        assert!(order.is_sorted(), "{order:?} {page}");
        assert!(page.contains("width:100.0%") && page.contains("width:33.3%"));
        let told = section(table, &labels, false);
        assert!(
            told.contains("b has the best") && !told.contains("<table"),
            "{told}"
        );
        let few = report(&policies[..3]);
        assert!(!is_wanted(&few.summary[0], &Labels::of(&few)));
    }
}
