//! Tests the report in a real browser: `tests/browser/check-report.mjs` on pages that differ in
//! shape.
//!
//! Without Node or Chromium the test prints a message and passes, unless `LOWMARK_BROWSER=required`
//! is set.

#[path = "../examples/sample_report/sample.rs"]
mod sample;

use lab::report::{HtmlReport, PageCell, PageFigure, html};
use sim::Outcome;
use sim::result::{Column, Series};
use std::path::Path;
use std::process::{Command, Stdio};

fn runs(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// Runs the check; screenshots of a page that fails are kept, and the test's output says where.
fn check(name: &str, report: &HtmlReport) {
    let chromium = std::env::var("CHROMIUM").unwrap_or_else(|_| "chromium".into());
    if !runs("node") || !runs(&chromium) {
        let required = std::env::var("LOWMARK_BROWSER").is_ok_and(|v| v == "required");
        assert!(!required, "needs node and {chromium}");
        eprintln!("skipped: needs node and {chromium}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join(format!("{name}.html"));
    std::fs::write(&page, html(report)).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/browser/check-report.mjs");
    let done = Command::new("node")
        .arg(script)
        .arg(&page)
        .arg(folder.path().join("screenshots"))
        .output()
        .unwrap();
    if !done.status.success() {
        let kept = folder.keep();
        panic!(
            "{}\npage and screenshots: {}",
            String::from_utf8_lossy(&done.stderr),
            kept.display()
        );
    }
}

#[test]
fn sample() {
    check("sample", &sample::report());
}

/// Five policies on one filesystem; only some were sampled, none timed its allocations; gaps,
/// unknown columns, and counters that some policies lack.
#[test]
fn sparse() {
    let policies = [
        "vanilla",
        "one",
        "two",
        "three",
        "a-policy-with-a-rather-long-name",
    ];
    let cells = policies.iter().enumerate().map(|(i, policy)| {
        let t: Vec<f64> = (0..50).map(f64::from).collect();
        let wave = |phase: f64| {
            t.iter()
                .map(|t| (t / 5.0 + phase).sin() * 1e6 + 1e6)
                .collect()
        };
        let mut gaps: Vec<f64> = wave(1.0);
        gaps[3] = f64::NAN;
        gaps[40..].fill(f64::NAN);
        let column = |name: &str, scope: &str, values| Column {
            name: name.into(),
            scope: scope.into(),
            unit: "pages",
            values,
        };
        let columns = vec![
            column("free", "node1/Normal", gaps),
            column("a_column_nobody_knows", "node0", wave(2.0)),
            column("a_column_nobody_knows", "node1", wave(3.0)),
            column("never_measured", "global", vec![f64::NAN; 50]),
        ];
        PageCell {
            axes: vec![("filesystem".into(), "ext4".into())],
            policy: (*policy).into(),
            baseline: i == 0,
            outcomes: vec![Outcome::Oom {
                report: "order 0, nothing left".into(),
            }],
            series: if i < 3 {
                Series {
                    t: t.clone(),
                    columns,
                }
            } else {
                Series::default()
            },
            figures: if i < 4 {
                vec![PageFigure {
                    name: "allocstall".into(),
                    unit: String::new(),
                    values: vec![i as f64],
                }]
            } else {
                Vec::new()
            },
            ..PageCell::default()
        }
    });
    let report = HtmlReport {
        title: "sparse".into(),
        experiment_toml: "iterations = 1".into(),
        cells: cells.collect(),
        summary: vec![sample::report().summary.remove(0)],
        ..HtmlReport::default()
    };
    check("sparse", &report);
}

/// Names that contain markup.
#[test]
fn hostile() {
    const NAME: &str = "</script><script>console.error('in')</script><!-- <img src=x onerror=x> & \u{2028} {{data}}";
    let mut report = sample::report();
    report.title = "<script>console.error('title')</script>".into();
    report.experiment_toml = NAME.into();
    report.notes = vec![NAME.into()];
    report.cells.truncate(2);
    report.summary.truncate(1);
    report.summary[0].rows.truncate(2);
    report.summary[0].metric = NAME.into();
    for row in &mut report.summary[0].rows {
        row.axes[0].1 = NAME.into();
        row.policy.push_str(NAME);
    }
    for cell in &mut report.cells {
        cell.axes[0].1 = NAME.into();
        cell.policy.push_str(NAME);
        cell.series.columns[0].name = NAME.into();
        cell.series.columns[1].scope = NAME.into();
        cell.latency[0].path = NAME.into();
        cell.figures[0].name = NAME.into();
        cell.figures[0].unit = NAME.into();
    }
    check("hostile", &report);
}
