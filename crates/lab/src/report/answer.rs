//! Writes the headline of the page: which policy is better, where, by how much, how sure.

use super::{Better, Center, HtmlReport, Labels, SummaryRow, SummaryTable, Verdict};
use super::{along, escape, number, ranked, summary};
use std::fmt::Write;

/// The finding on one policy on one combination of axes.
#[derive(Debug, PartialEq)]
struct Finding {
    /// Label of the combination.
    place: String,
    /// The claim, or the statement that nothing can be claimed.
    claim: String,
    /// The figures behind the claim.
    evidence: String,
    /// Changes of the other metrics; true if the change is good, false if bad.
    asides: Vec<(String, Option<bool>)>,
    /// True for a good change, false for a bad one, `None` without a claim.
    good: Option<bool>,
}

/// Returns the headline of the page as HTML: the curve if the compared axis has ordered values,
/// then the policies' ranking if there are many, else a sentence for each policy and a list of
/// findings. The first table of the report is the question that is answered.
pub(super) fn section(report: &HtmlReport, labels: &Labels) -> String {
    let Some(question) = report.summary.first() else {
        return "<p class=\"answer\">Nothing was measured that could be compared.</p>".into();
    };
    let mut out = along::svg(question, report.compared());
    if ranked::is_wanted(question, labels) {
        // The curve shows what bars would show, in the order of the axis.
        let bars = out.is_empty();
        return out + &ranked::section(question, labels, bars);
    }
    for line in overall(question, labels) {
        let _ = write!(out, "<p class=\"answer\">{}</p>", escape::html(&line));
    }
    out.push_str("<ul class=\"findings\">");
    for f in findings(report, question, labels) {
        let asides: String = f
            .asides
            .iter()
            .map(|(text, good)| {
                format!(
                    " · <span class=\"{}\">{}</span>",
                    class(*good),
                    escape::html(text)
                )
            })
            .collect();
        let _ = write!(
            out,
            "<li class=\"{}\"><span class=\"place\">{}</span><span class=\"claim\">{}</span>\
             <span class=\"evidence\">{}{asides}</span></li>",
            class(f.good),
            escape::html(&f.place),
            escape::html(&f.claim),
            escape::html(&f.evidence)
        );
    }
    out.push_str("</ul>");
    out
}

/// Returns the CSS class of a change: good, bad, or `None` for no claim.
fn class(good: Option<bool>) -> &'static str {
    match good {
        Some(true) => "good",
        Some(false) => "bad",
        None => "unclear",
    }
}

/// Most combinations that are named in a sentence; if there are more, they are counted.
const NAMED_PLACES: usize = 6;

/// Returns one sentence for each policy that is compared: on which combinations of axes it is
/// better, worse, or neither, than its baseline.
fn overall(table: &SummaryTable, labels: &Labels) -> Vec<String> {
    let mut policies: Vec<(&str, &str)> = Vec::new();
    for row in table
        .rows
        .iter()
        .filter(|r| r.comparison.is_some() || table.is_missing(r))
    {
        let pair = (
            &row.policy[..],
            table
                .baseline(&row.axes)
                .map_or("the baseline", |b| &b.policy),
        );
        if !policies.contains(&pair) {
            policies.push(pair);
        }
    }
    let (better, worse) = words(table);
    policies
        .iter()
        .map(|(policy, base)| {
            // The label of each combination, and true if the policy is better there.
            let verdicts: Vec<(&str, Option<bool>)> = table
                .rows
                .iter()
                .filter(|r| r.policy == *policy)
                .filter_map(|r| {
                    let good = match r.comparison {
                        Some(claim) => table.is_good(claim.verdict),
                        None if table.is_missing(r) => Some(false),
                        None => return None,
                    };
                    Some((labels.get(&r.axes), good))
                })
                .collect();
            let mut parts = Vec::new();
            for (word, wanted) in [
                (better, Some(true)),
                (worse, Some(false)),
                ("no difference that can be claimed", None),
            ] {
                let places: Vec<&str> = verdicts
                    .iter()
                    .filter(|v| v.1 == wanted)
                    .map(|v| v.0)
                    .collect();
                match places.len() {
                    0 => {}
                    // With a single combination there is nothing to tell it from.
                    _ if labels.groups.len() == 1 => parts.push(word.to_owned()),
                    n if verdicts.len() > NAMED_PLACES => {
                        parts.push(format!("{word} in {n} of {} cases", verdicts.len()));
                    }
                    _ => parts.push(format!("{word} on {}", places.join(", "))),
                }
            }
            format!(
                "{policy} against {base}, {}: {}.",
                table.metric,
                parts.join("; ")
            )
        })
        .collect()
}

/// Returns the words for a good and for a bad change of the table's figure.
fn words(table: &SummaryTable) -> (&'static str, &'static str) {
    if is_time(table) {
        ("faster", "slower")
    } else {
        ("better", "worse")
    }
}

fn is_time(table: &SummaryTable) -> bool {
    table.better == Better::Lower && matches!(&table.unit[..], "s" | "ms" | "µs" | "us" | "ns")
}

/// Returns a finding for each policy on each combination of axes, baselines excepted, by the figure
/// of `table`; the report's further tables are added as asides.
fn findings(report: &HtmlReport, table: &SummaryTable, labels: &Labels) -> Vec<Finding> {
    let mut out = Vec::new();
    for (axes, label) in &labels.groups {
        let base = table.baseline(axes);
        let rows: Vec<_> = table.rows.iter().filter(|r| r.axes == *axes).collect();
        for row in &rows {
            if row.baseline && rows.len() > 1 {
                continue;
            }
            let mut finding = match base {
                Some(base) if row.comparison.is_some() => compare(table, base, row),
                _ => alone(table, row),
            };
            finding.place = label.clone();
            for other in &report.summary[1..] {
                finding.asides.extend(aside(other, row));
            }
            out.push(finding);
        }
    }
    out
}

/// Describes in words the difference between a policy (`row`) and its baseline (`base`), with the
/// evidence: values, change, interval, p-value, sample sizes. The combination of axes is left for
/// the caller to name.
fn compare(table: &SummaryTable, base: &SummaryRow, row: &SummaryRow) -> Finding {
    let c = row.comparison.as_ref().expect("the caller looked");
    let (new, old) = (row.center(table.center), base.center(table.center));
    let good = table.is_good(c.verdict);
    let (policy, against) = (&row.policy, &base.policy);
    let claim = match (c.verdict, good) {
        (Verdict::TooFew, _) => format!("Too few iterations to compare {policy} with {against}"),
        (Verdict::Unclear, _) => {
            format!(
                "No difference in {} can be claimed between {policy} and {against}",
                table.metric
            )
        }
        (_, Some(good)) if is_time(table) => {
            let word = if good { "faster" } else { "slower" };
            let ratio = if good { old / new } else { new / old };
            if ratio.is_finite() && ratio >= 1.5 {
                format!(
                    "{policy} is {ratio:.1}× as {} as {against}",
                    if good { "fast" } else { "slow" }
                )
            } else {
                let share = number::grouped(c.change.abs() * 100.0, 1);
                let amount = if good { "less" } else { "more" };
                format!("{policy} is {word} than {against}: it takes {share} % {amount} time")
            }
        }
        (verdict, good) => {
            let direction = if verdict == Verdict::Less {
                "lower"
            } else {
                "higher"
            };
            let value = if good == Some(true) {
                "better"
            } else {
                "worse"
            };
            let by = if c.change.is_finite() {
                format!(" by {} %", number::grouped(c.change.abs() * 100.0, 1))
            } else {
                String::new()
            };
            format!(
                "{policy}: {} is {direction}{by} than with {against}, which is {value}",
                table.metric
            )
        }
    };
    let d = summary::decimals(table);
    let mut evidence = format!(
        "{} {} against {}",
        number::grouped(new, d),
        table.unit,
        number::grouped(old, d)
    );
    let mut sure = Vec::new();
    if c.change.is_finite() {
        let mut change = number::percent(c.change);
        if let Some((a, b)) = c.interval.filter(|(a, b)| a.is_finite() && b.is_finite()) {
            let _ = write!(
                change,
                ", {} interval {} … {}",
                summary::level(table),
                number::percent(a),
                number::percent(b)
            );
        }
        sure.push(change);
    }
    if let Some(p) = c.p {
        let p = number::p_value(p);
        sure.push(if p.starts_with('<') {
            format!("p {p}")
        } else {
            format!("p = {p}")
        });
    }
    sure.push(format!(
        "n = {} and {}",
        row.samples.len(),
        base.samples.len()
    ));
    let _ = write!(evidence, " ({})", sure.join("; "));
    Finding {
        place: String::new(),
        claim,
        evidence,
        asides: Vec::new(),
        good,
    }
}

/// Describes in words the value of a row that takes part in no comparison, or the reason why it has
/// none; `good` is false if it ought to have one.
fn alone(table: &SummaryTable, row: &SummaryRow) -> Finding {
    if let Some(why) = &row.missing {
        return Finding {
            place: String::new(),
            claim: format!("{}: {} is not known: {why}", row.policy, table.metric),
            evidence: "n = 0".into(),
            asides: Vec::new(),
            good: table.is_missing(row).then_some(false),
        };
    }
    let d = summary::decimals(table);
    let mut evidence = format!("n = {}", row.samples.len());
    if let Some((a, b)) = row.interval {
        let _ = write!(
            evidence,
            ", {} interval {} … {}",
            summary::level(table),
            number::grouped(a, d),
            number::grouped(b, d)
        );
    }
    let value = number::grouped(row.center(table.center), d);
    let claim = format!("{}: {} {value} {}", row.policy, table.metric, table.unit);
    Finding {
        place: String::new(),
        claim,
        evidence,
        asides: Vec::new(),
        good: None,
    }
}

/// Describes in half a line the change of another metric for the cell of `row`: the text, and true
/// if the change is good, false if bad, `None` without a claim. `None` in all if the table has no
/// row for the cell.
fn aside(table: &SummaryTable, row: &SummaryRow) -> Option<(String, Option<bool>)> {
    let d = summary::decimals(table);
    let kind = match table.center {
        Center::Mean => "mean",
        Center::Median => "median",
    };
    let same = table
        .rows
        .iter()
        .find(|r| r.axes == row.axes && r.policy == row.policy)?;
    let new = number::grouped(same.center(table.center), d);
    let good = same.comparison.and_then(|c| table.is_good(c.verdict));
    Some(match table.baseline(&row.axes) {
        Some(base) if !same.baseline => {
            let old = number::grouped(base.center(table.center), d);
            (format!("{} {kind} {new} against {old}", table.metric), good)
        }
        _ => (format!("{} {kind} {new}", table.metric), None),
    })
}

#[cfg(test)]
mod tests {
    use super::super::Claim;
    use super::*;

    fn row(fs: &str, policy: &str, samples: &[f64], comparison: Option<Claim>) -> SummaryRow {
        SummaryRow {
            axes: vec![("filesystem".into(), fs.into())],
            policy: policy.into(),
            baseline: comparison.is_none(),
            samples: samples.into(),
            mean: samples.iter().sum::<f64>() / samples.len() as f64,
            comparison,
            ..Default::default()
        }
    }

    fn against(change: f64, p: f64, verdict: Verdict) -> Option<Claim> {
        Some(Claim {
            change,
            interval: None,
            p: Some(p),
            verdict,
        })
    }

    fn report() -> HtmlReport {
        let elapsed = SummaryTable {
            metric: "elapsed".into(),
            unit: "s".into(),
            confidence: 0.95,
            rows: vec![
                row("xfs", "vanilla", &[549.7, 551.0], None),
                row(
                    "xfs",
                    "limits",
                    &[550.0, 551.9],
                    against(0.001, 0.47, Verdict::Unclear),
                ),
                row("fuse-ntfs", "vanilla", &[1183.0, 1185.1], None),
                row(
                    "fuse-ntfs",
                    "limits",
                    &[558.0, 556.3],
                    against(-0.53, 1e-6, Verdict::Less),
                ),
                row("ext4", "vanilla", &[500.0, 500.5], None),
                row(
                    "ext4",
                    "limits",
                    &[550.0, 550.5],
                    against(0.1, 0.004, Verdict::More),
                ),
            ],
            ..Default::default()
        };
        let written = SummaryTable {
            metric: "nr_vmscan_write".into(),
            unit: "pages".into(),
            center: Center::Median,
            rows: vec![
                row(
                    "fuse-ntfs",
                    "vanilla",
                    &[54_349.0, 65_163.0, 59_341.0],
                    None,
                ),
                row(
                    "fuse-ntfs",
                    "limits",
                    &[0.0, 0.0, 43.0],
                    against(-1.0, 1e-6, Verdict::Less),
                ),
            ],
            ..Default::default()
        };
        HtmlReport {
            summary: vec![elapsed, written],
            ..Default::default()
        }
    }

    #[test]
    fn every_place_gets_its_claim() {
        let report = report();
        let labels = Labels::of(&report);
        let claims: Vec<_> = findings(&report, &report.summary[0], &labels)
            .into_iter()
            .map(|f| (f.place, f.claim, f.good))
            .collect();
        assert_eq!(
            claims,
            [
                (
                    "xfs".into(),
                    "No difference in elapsed can be claimed between limits and vanilla".into(),
                    None
                ),
                (
                    "fuse-ntfs".into(),
                    "limits is 2.1× as fast as vanilla".to_string(),
                    Some(true)
                ),
                (
                    "ext4".into(),
                    "limits is slower than vanilla: it takes 10.0 % more time".into(),
                    Some(false)
                ),
            ]
        );
        assert_eq!(
            overall(&report.summary[0], &labels),
            [
                "limits against vanilla, elapsed: faster on fuse-ntfs; slower on ext4; no difference that can be claimed on xfs."
            ]
        );
    }

    #[test]
    fn evidence_names_interval_p_and_n() {
        let report = report();
        let found = findings(&report, &report.summary[0], &Labels::of(&report));
        assert_eq!(
            found[1].evidence,
            "557.1 s against 1,184.0 (−53.0 %; p < 0.0001; n = 2 and 2)"
        );
        assert_eq!(
            found[1].asides,
            [("nr_vmscan_write median 0 against 59,341".into(), Some(true))]
        );
        assert_eq!(found[0].asides, []);
    }

    #[test]
    fn one_policy_alone_is_told_without_a_claim() {
        let mut report = report();
        report.summary.truncate(1);
        report.summary[0].rows.truncate(1);
        let found = findings(&report, &report.summary[0], &Labels::of(&report));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].claim, "vanilla: elapsed 550.4 s");
        assert!(overall(&report.summary[0], &Labels::of(&report)).is_empty());
    }
}
