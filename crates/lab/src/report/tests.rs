use super::*;
use sim::result::{Column, TrackerRow};
use sim::waiting::{Crowd, KindSum, Member};

const HOSTILE: &str = "</script><script>alert('x')</script><!-- & \" \u{2028}{{data}}";

fn axes(filesystem: &str) -> Axes {
    vec![
        ("filesystem".into(), filesystem.into()),
        ("machine".into(), "504M".into()),
    ]
}

fn cell(filesystem: &str, policy: &str, baseline: bool) -> PageCell {
    let column = |name: &str, scope: &str, values: &[f64]| Column {
        name: name.into(),
        scope: scope.into(),
        unit: "pages",
        values: values.into(),
    };
    PageCell {
        axes: axes(filesystem),
        policy: policy.into(),
        baseline,
        outcomes: vec![Outcome::Completed, Outcome::TimeLimit],
        series: Series {
            t: vec![0.0, 0.1, 0.2],
            columns: vec![
                column("free", "Normal", &[123_456.0, 1.234_567_8, f64::NAN]),
                column("low", "Normal", &[523.0, 523.0, 523.0]),
            ],
        },
        latency: vec![Latency {
            path: "fast".into(),
            count: 3,
            p50: 200,
            p90: 300,
            p99: 300,
            p999: 300,
            max: 301,
            buckets: vec![(207, 2), (303, 1)],
        }],
        slowest: vec![Slow {
            ns: 301,
            what: "kswapd-woken".into(),
            timeline: vec![
                (-5, "kswapd sleeps".into()),
                (7, "disk completes 4 kB".into()),
            ],
        }],
        untold: false,
        waits: Waits {
            kinds: vec![KindSum {
                kind: "page lock",
                count: 2,
                total_ns: 500,
                most: 2,
            }],
            crowds: vec![CrowdOf {
                iteration: 0,
                crowd: Crowd {
                    object: "lock of page 3 of file 1".into(),
                    since_ns: 10,
                    lasted_ns: 300,
                    most: 2,
                    most_at_ns: 40,
                    task_ns: 500,
                    members: vec![Member {
                        task: "dd 7".into(),
                        waits_on: "lock of page 3 of file 1".into(),
                        since_ns: 10,
                        behind: 0,
                    }],
                },
            }],
        },
        rows: vec![PageRow {
            block: "MMTests Statistics: vmstat".into(),
            label: "Swap Outs".into(),
            formula: "delta pswpout".into(),
            unit: "pages".into(),
            value: Some("12".into()),
            change: Some(-25.0),
            significant: true,
            better: Some(false),
            unsupported: None,
        }],
        time: vec![ClassTime {
            class: "workload".into(),
            tasks: 1.0,
            parts: vec![("cpu user".into(), 1.5), ("lifetime".into(), 1.5)],
        }],
        figures: vec![PageFigure {
            name: "allocstall".into(),
            unit: String::new(),
            values: vec![4.0, 1.0],
        }],
        tracker: Some(TrackerReport {
            rows: vec![TrackerRow {
                instantiated_by: "write",
                path: "mark_page_accessed",
                event: "activated",
                count: 7,
            }],
        }),
        notes: Vec::new(),
    }
}

fn report() -> HtmlReport {
    let row = |policy: &str, mean: f64, comparison: Option<Claim>| SummaryRow {
        axes: axes("ext4"),
        policy: policy.into(),
        baseline: comparison.is_none(),
        samples: vec![mean - 1.5, mean + 1.5],
        mean,
        sd: 2.1,
        interval: Some((mean - 4.0, mean + 4.0)),
        comparison,
        ..SummaryRow::default()
    };
    HtmlReport {
        compared: String::new(),
        title: "two policies".into(),
        opening: Opening::Answer,
        experiment_toml: "name = \"two\"\n".into(),
        version: "0.1.0".into(),
        seed: 7,
        facts: vec![("iterations".into(), "2".into())],
        summary: vec![SummaryTable {
            metric: "elapsed".into(),
            unit: "s".into(),
            confidence: 0.95,
            test: "Mann–Whitney U".into(),
            rows: vec![
                row("vanilla", 100.0, None),
                row(
                    "limits",
                    50.0,
                    Some(Claim {
                        change: -0.5,
                        interval: Some((-0.55, -0.45)),
                        p: Some(0.001),
                        verdict: Verdict::Less,
                    }),
                ),
            ],
            ..Default::default()
        }],
        // The baseline must be moved to the front.
        cells: vec![
            cell("ext4", "limits", false),
            cell("ext4", "vanilla", true),
            cell("xfs", "vanilla", true),
        ],
        notes: Vec::new(),
    }
}

/// Returns the text between two marks of the page.
fn between<'a>(page: &'a str, from: &str, to: &str) -> &'a str {
    let start = page.find(from).unwrap() + from.len();
    &page[start..start + page[start..].find(to).unwrap()]
}

fn data(page: &str) -> serde_json::Value {
    serde_json::from_str(between(page, "id=\"data\">", "</script>")).unwrap()
}

#[test]
fn equal_reports_are_equal_bytes() {
    assert_eq!(html(&report()), html(&report()));
}

#[test]
fn data_as_the_script_reads_it() {
    insta::assert_snapshot!(serde_json::to_string_pretty(&data(&html(&report()))).unwrap());
}

#[test]
fn text_as_a_reader_sees_it() {
    let page = html(&report());
    let main = between(&page, "<main>", "<section id=\"inside\">");
    insta::assert_snapshot!(main.replace("><", ">\n<"));
}

#[test]
fn the_page_stands_alone() {
    let page = html(&report());
    for foreign in [
        "http://",
        "https://",
        "@import",
        "url(http",
        "<link rel=\"stylesheet\"",
        " src=",
    ] {
        // The SVG namespace is only a name; the page does not load it.
        let page = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!page.contains(foreign), "the page refers to {foreign}");
    }
    assert!(page.contains("default-src 'none'"));
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script").count(), 2);
    assert_eq!(page.matches("<style").count(), 1);
    assert_eq!(page.matches("</style").count(), 1);
}

#[test]
fn hostile_text_stays_text() {
    let mut r = report();
    let hostile = || HOSTILE.to_string();
    r.title = hostile();
    r.experiment_toml = hostile();
    r.version = hostile();
    r.facts = vec![(hostile(), hostile())];
    r.notes = vec![hostile()];
    r.summary[0].metric = hostile();
    r.summary[0].unit = hostile();
    r.summary[0].test = hostile();
    for row in &mut r.summary[0].rows {
        row.policy = hostile();
        row.axes[0].1 = hostile();
    }
    for c in &mut r.cells {
        c.axes[0].1 = hostile();
        c.policy = hostile();
        c.outcomes.push(Outcome::Failed { error: hostile() });
        c.notes = vec![hostile()];
        c.series.columns[0].name = hostile();
        c.series.columns[0].scope = hostile();
        c.latency[0].path = hostile();
        c.slowest[0].what = hostile();
        c.slowest[0].timeline[0].1 = hostile();
        c.waits.crowds[0].crowd.object = hostile();
        c.waits.crowds[0].crowd.members[0].task = hostile();
        c.rows[0].label = hostile();
        c.rows[0].formula = hostile();
        c.time[0].class = hostile();
        c.figures[0].name = hostile();
        c.figures[0].unit = hostile();
    }
    let page = html(&r);
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script").count(), 2);
    let visible = between(&page, "</style>", "<script type");
    assert!(visible.contains("alert(&#39;x&#39;)") && !visible.contains("alert('x')"));
    assert!(!visible.contains("<!--"));
    let data = data(&page);
    assert_eq!(data["cells"][0]["policy"], HOSTILE);
    assert_eq!(data["cells"][0]["columns"][0]["name"], HOSTILE);
    assert_eq!(data["cells"][0]["rows"][0]["label"], HOSTILE);
}

/// Returns the report on a sweep of `dirty_ratio`: elapsed times of these values.
fn sweep(values: &[(&str, f64)]) -> HtmlReport {
    let mut r = report();
    let row = |(i, (value, mean)): (usize, &(&str, f64))| SummaryRow {
        axes: axes("ext4"),
        policy: (*value).into(),
        baseline: i == 0,
        samples: vec![*mean],
        mean: *mean,
        ..SummaryRow::default()
    };
    r.compared = "dirty_ratio".into();
    r.summary[0].rows = values.iter().enumerate().map(row).collect();
    r
}

#[test]
fn the_page_of_a_sweep_begins_with_its_curve() {
    let values = [
        ("20", 9.0),
        ("2", 3.0),
        ("5", 4.0),
        ("10", 6.0),
        ("40", 12.0),
    ];
    for n in [3, 5] {
        let mut r = sweep(&values[..n]);
        let page = html(&r);
        let main = between(&page, "<main>", "<section id=\"inside\">");
        let at = main.find("<figure class=\"along\">").expect("a curve");
        assert!(at < main.find("<p").unwrap_or(at + 1), "{main}");
        assert!(at < main.find("<table").unwrap(), "{main}");
        assert_eq!(main.matches("<figure").count(), 1, "the curve stands once");
        assert!(!main.contains("class=\"ranked\""), "bars repeat the curve");
        // Stored runs that are compared begin with the table, and their curves follow it.
        r.opening = Opening::Tables;
        let page = html(&r);
        let table = page.find("<table class=\"compare\">").unwrap();
        assert!(table < page.find("<figure").unwrap());
        assert!(!page.contains("<p class=\"answer\">"));
    }
    let names = html(&sweep(&[("xfs", 3.0), ("ext4", 4.0), ("btrfs", 6.0)]));
    assert!(!names.contains("<figure"), "names have no order");
}

#[test]
fn an_empty_report_is_a_page() {
    let page = html(&HtmlReport::default());
    assert!(page.contains("Nothing was measured"));
    assert!(page.contains("was not kept"));
    assert_eq!(data(&page)["groups"], serde_json::json!([]));
}

#[test]
fn labels_name_what_differs() {
    let mut r = report();
    assert_eq!(Labels::of(&r).get(&axes("ext4")), "ext4");
    r.cells[2].axes[1].1 = "2G".into();
    assert_eq!(Labels::of(&r).get(&axes("ext4")), "ext4 · 504M");
    assert_eq!(Labels::of(&r).heading(), "filesystem · machine");
    r.cells.truncate(2);
    assert_eq!(Labels::of(&r).get(&axes("ext4")), "ext4");
}

#[test]
fn long_series_stay_small() {
    let mut r = report();
    let t: Vec<f64> = (0..2000).map(|i| f64::from(i) * 0.1).collect();
    let values: Vec<f64> = t.iter().map(|t| (t * 1.7).sin() * 1e5 + 1e5).collect();
    r.cells[0].series.t = t;
    r.cells[0].series.columns = (0..60)
        .map(|i| Column {
            name: format!("column {i}"),
            scope: "Normal".into(),
            unit: "pages",
            values: values.clone(),
        })
        .collect();
    let bytes = payload::json(&r, &Labels::of(&r)).len();
    assert!(bytes < 2000 * 61 * 9, "{bytes} bytes");
}
