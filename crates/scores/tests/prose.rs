//! README, docs and the file of measured figures are consistent.

use lab::published::find;
use lab::published::scores::{Measured, Scores};
use scores::markers::{self, figure, fill};
use std::path::Path;

/// Scores of a series in which every figure but one equals the published one.
fn scores() -> Scores {
    let series = find("tunable-watermarks").expect("a shipped series");
    let value = |r: &lab::published::PublishedRow| match (&r.metric[..], &r.policy[..]) {
        ("real", "default") => Ok(1234.5),
        _ => Ok(r.value),
    };
    let values: Vec<_> = series.rows.iter().map(value).collect();
    let mut out = Scores::default();
    out.put(Measured::new(series, 1, &[], &values));
    out
}

fn filled(text: &str) -> Result<String, Vec<String>> {
    let filled = fill("f.md", text, &scores());
    match filled.problems.is_empty() {
        true => Ok(filled.text),
        false => Err(filled.problems),
    }
}

#[test]
fn prose_says_what_the_file_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("data/scores.json")).expect("the file");
    let scores = Scores::parse(&text).expect("its form");
    let problems = markers::problems(&root, &scores).expect("readable prose");
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn a_marker_is_filled_and_stays() {
    let text = "a <!-- score:tunable-watermarks within -->?<!-- /score --> cells, \
                <!-- score:tunable-watermarks cell real/default -->?<!-- /score --> ms\n";
    let once = filled(text).expect("two markers");
    assert_eq!(
        once,
        "a <!-- score:tunable-watermarks within -->11 of 12 (1 seed)<!-- /score --> cells, \
         <!-- score:tunable-watermarks cell real/default -->1234<!-- /score --> ms\n"
    );
    assert_eq!(filled(&once).expect("again"), once);
}

#[test]
fn tables_have_engine_and_published_figures() {
    let cells =
        filled("<!-- score:tunable-watermarks cells -->\n<!-- /score -->").expect("a table");
    assert!(
        cells.contains("| real, default | 503 ms | 1234 | no |  |\n"),
        "{cells}"
    );
    assert!(
        cells.contains("| kswapd_wakeup, default | 1809 | 1809 | yes (fitted) |  |\n"),
        "{cells}"
    );
    let pivot = filled("<!-- score:tunable-watermarks pivot metric/policy -->\n<!-- /score -->")
        .expect("a table");
    assert!(
        pivot.contains("| real, ms | 1234 (503) | 364 (364) | 337 (337) |\n"),
        "{pivot}"
    );
    let summary =
        filled("<!-- score:tunable-watermarks summary -->\n<!-- /score -->").expect("a block");
    assert!(
        summary.contains("```\nscored cells within tolerance: 11 of 12 (1 seed)\n"),
        "{summary}"
    );
}

#[test]
fn what_a_marker_does_not_mean_is_told_with_its_line() {
    for (marker, why) in [
        (
            "<!-- score:nonsense within -->x<!-- /score -->",
            "no series `nonsense`",
        ),
        (
            "<!-- score:tunable-watermarks best -->x<!-- /score -->",
            "`best` is nothing",
        ),
        (
            "<!-- score:tunable-watermarks cell real -->x<!-- /score -->",
            "`real` is 3 rows",
        ),
        (
            "<!-- score:tunable-watermarks cell reel/default -->x<!-- /score -->",
            "no published row",
        ),
        (
            "<!-- score:tunable-watermarks cell real/default; dozens -->x<!-- /score -->",
            "no option `dozens`",
        ),
        ("<!-- score:tunable-watermarks within -->x", "does not end"),
        ("x <!-- /score -->", "without a beginning"),
        // Also reported for series that were not measured yet.
        (
            "<!-- score:sequential-read cell seqread -->x<!-- /score -->",
            "no published row",
        ),
    ] {
        let problems = filled(&format!("\n{marker}\n")).expect_err(marker);
        assert!(problems[0].contains(why), "{problems:?}");
        assert!(problems[0].starts_with("f.md"), "{problems:?}");
    }
}

#[test]
fn a_score_by_hand_is_told() {
    for claim in [
        "6 of 8 published cells are within",
        "13 of 15\ncells",
        "3 of 4 directions agree",
    ] {
        let problems = filled(&format!("one\ntwo {claim}\n")).expect_err(claim);
        assert!(
            problems[0].starts_with("f.md:2: a score outside"),
            "{problems:?}"
        );
    }
    for prose in ["2 of 6 runs, and some cells", "one of the 8 cells"] {
        filled(prose).expect(prose);
    }
}

#[test]
fn a_series_that_was_not_measured_keeps_its_text() {
    let text = "<!-- score:sequential-read within -->9 of 11<!-- /score --> cells";
    let filled = fill("f.md", text, &scores());
    assert_eq!(filled.text, text);
    assert!(filled.problems.is_empty());
    assert_eq!(filled.unmeasured, ["sequential-read"]);
}

#[test]
fn published_numbers_stay_whole() {
    let text = "<!-- score:per-zone-dirty-limits published btrfs/nr_vmscan_write median/vanilla -->?\
                <!-- /score -->";
    let series = find("per-zone-dirty-limits").expect("a shipped series");
    let values: Vec<_> = series.rows.iter().map(|_| Ok(0.0)).collect();
    let mut all = Scores::default();
    all.put(Measured::new(series, 1, &[], &values));
    let filled = fill("f.md", text, &all);
    assert!(filled.text.contains(">460 178<"), "{}", filled.text);
}

#[test]
fn figures_are_read_with_three_digits_or_so() {
    let of = [
        0.0,
        0.5,
        1.25,
        12.34,
        123.4,
        5752.4,
        33_124.0,
        4_147_217.0,
        -12_345.0,
    ]
    .map(figure);
    assert_eq!(
        of,
        [
            "0",
            "0.5",
            "1.25",
            "12.3",
            "123",
            "5752",
            "33 100",
            "4 150 000",
            "-12 300"
        ]
    );
}

/// Few draws, draws of an earlier engine, and the spread are shown beside a score.
#[test]
fn a_score_says_how_sure_it_is() {
    let filled = |scores: &Scores| {
        let text = "<!-- score:tunable-watermarks within -->?<!-- /score -->|\
                    <!-- score:tunable-watermarks directions -->?<!-- /score -->|\
                    <!-- score:tunable-watermarks revision -->?<!-- /score -->";
        let text = fill("f.md", text, scores).text;
        let parts = text.split('|').map(|part| {
            let (_, rest) = part.split_once("-->").expect("a marker");
            rest.split_once("<!--").expect("its end").0.to_owned()
        });
        parts.collect::<Vec<_>>()
    };
    let mut many = Scores::default();
    for seed in 1..=5 {
        let mut draw = scores().series.remove(0);
        draw.seed = seed;
        draw.revision = "abc".into();
        // One figure is off in all draws, and another one in the last.
        if seed == 5 {
            let scored = draw.scored();
            let good = scored
                .iter()
                .position(|s| s.within && s.agrees == Some(true));
            draw.figures[good.expect("a good figure")].value = Some(1e12);
        }
        many.put(draw);
    }
    let said = filled(&many);
    assert_eq!(said[0], "11 of 12 (10 to 11)");
    assert!(
        said[1].ends_with("(1 not claimed)") || said[1].ends_with("(2 not claimed)"),
        "{said:?}"
    );
    assert_eq!(said[2], "abc");
    many.stale.insert("tunable-watermarks".into(), "def".into());
    assert_eq!(filled(&many)[0], "11 of 12 (10 to 11; stale since def)");
    many.series.retain(|m| m.seed < 3);
    assert_eq!(filled(&many)[0], "11 of 12 (2 seeds; stale since def)");
}
