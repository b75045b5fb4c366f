use super::measured::{Course, Told};
use super::*;
use crate::figures::stats;
use sim::RunResult;
use sim::result::Column;

fn summary(values: &[f64]) -> Option<Summary> {
    stats::summary(values)
}

fn standing(kernel: &[f64], engine: &[f64], slack: f64) -> Standing {
    Standing::of(summary(kernel).as_ref(), summary(engine).as_ref(), slack)
}

#[test]
fn a_figure_is_inside_by_range_by_nearness_or_by_slack() {
    use Standing::*;
    // Inside the kernel's range, although its median is far away.
    assert_eq!(standing(&[10.0, 100.0, 101.0], &[12.0], 0.0), Inside);
    assert_eq!(standing(&[10.0, 100.0, 101.0], &[9.0], 0.0), Outside);
    // Within a tenth of the kernel's median.
    assert_eq!(standing(&[100.0], &[110.0], 0.0), Inside);
    assert_eq!(standing(&[100.0], &[111.0], 0.0), Outside);
    // Only counts of pages have slack.
    assert_eq!(standing(&[0.0], &[64.0], SLACK_PAGES), Inside);
    assert_eq!(standing(&[0.0], &[65.0], SLACK_PAGES), Outside);
    assert_eq!(standing(&[0.0], &[1.0], 0.0), Outside);
    // The engine's median counts, not its range.
    assert_eq!(standing(&[100.0], &[1.0, 105.0, 900.0], 0.0), Inside);
}

#[test]
fn what_nobody_did_or_tells_is_not_scored_and_what_the_engine_lacks_is_a_miss() {
    assert_eq!(standing(&[0.0, 0.0], &[0.0], 0.0), Standing::Idle);
    assert_eq!(standing(&[0.0, 1.0], &[0.0], 0.0), Standing::Inside);
    assert_eq!(standing(&[], &[5.0], 0.0), Standing::Untold);
    assert_eq!(standing(&[0.0], &[], 0.0), Standing::Unsupported);
    let scored = |s: Standing| s.scored();
    assert!(scored(Standing::Unsupported) && !scored(Standing::Idle) && !scored(Standing::Untold));
}

/// Figures kept by an earlier version of the list stay valid; figures added later are not scored.
#[test]
fn what_was_not_measured_in_the_kernel_is_not_scored() {
    let figures = judged::figures();
    // data/validate/modern was kept before the longest allocation wait was on the list.
    let first = "e5f97919401967a87b6b6904c934f55f537ef5e2eafb5ebe1bf92c52520cf567";
    assert_eq!(judged::version_of(first), Some(1));
    assert_eq!(
        judged::version_of(&judged::digest()),
        Some(judged::version())
    );
    assert_eq!(judged::version_of("another list"), None);
    let told = |value: f64| Told {
        unit: "s".to_owned(),
        values: vec![value],
    };
    let of = |names: &[&str]| Measured {
        policy: "p".to_owned(),
        group: "ext4".to_owned(),
        completed: 1,
        moved: 0.0,
        managed: None,
        figures: names.iter().map(|n| ((*n).to_owned(), told(1.0))).collect(),
        course: Course::default(),
    };
    let wait = "longest allocation wait";
    let (kernel, engine) = (of(&["elapsed"]), of(&["elapsed", wait]));
    let pair = Pair::of(&kernel, &engine, &figures).measured_by(1, &figures);
    let standing = |name: &str| {
        let judged = pair.figures.iter().find(|j| j.name == name);
        judged.expect("a figure of the list").standing
    };
    assert_eq!(standing("elapsed"), Standing::Inside);
    assert_eq!(standing(wait), Standing::Unmeasured);
    assert_eq!(standing("allocstall"), Standing::Untold);
    assert_eq!(pair.score(), (1, 1));
}

#[test]
fn a_counter_is_the_first_that_is_there_or_the_sum_of_its_zones() {
    let figures = judged::figures();
    let figure = |name: &str| figures.iter().find(|f| f.name == name).unwrap();
    let mut run = RunResult::of_kernel(sim::Outcome::Completed);
    let mut count = |name: &str, n| run.counters.insert(name.to_owned(), n);
    count("allocstall_normal", 3);
    count("allocstall_movable", 4);
    count("pgscan_direct_throttle", 9);
    count("workingset_refault", 5);
    assert_eq!(figure("allocstall").value(&run), Some(7.0));
    assert_eq!(figure("workingset_refault_file").value(&run), Some(5.0));
    // A counter whose name only begins alike is no part of it.
    assert_eq!(figure("pgscan_direct").value(&run), None);
    run.counters.insert("workingset_refault_file".to_owned(), 6);
    assert_eq!(figure("workingset_refault_file").value(&run), Some(6.0));
}

fn series(columns: &[(&str, &str, &[f64])]) -> Series {
    let n = columns[0].2.len();
    Series {
        t: (0..n).map(|i| i as f64 / 10.0).collect(),
        columns: columns
            .iter()
            .map(|(name, scope, values)| Column {
                name: (*name).to_owned(),
                scope: (*scope).to_owned(),
                unit: "pages",
                values: values.to_vec(),
            })
            .collect(),
    }
}

#[test]
fn a_column_is_the_machines_or_the_sum_of_its_zones() {
    let of_zones = series(&[
        ("free", "DMA", &[1.0, 2.0]),
        ("free", "Normal", &[10.0, 20.0]),
    ]);
    assert_eq!(column(&of_zones, "free"), Some(vec![11.0, 22.0]));
    let both = series(&[("dirty", "Normal", &[1.0]), ("dirty", "global", &[3.0])]);
    assert_eq!(column(&both, "dirty"), Some(vec![3.0]));
    assert_eq!(column(&both, "free"), None);
    assert_eq!(column(&Series::default(), "free"), None);
}

#[test]
fn series_part_where_they_stay_apart() {
    let kernel = series(&[
        ("free", "Normal", &[1000.0, 1000.0, 1000.0, 1000.0, 1000.0]),
        ("dirty", "global", &[0.0, 500.0, 5000.0, 5000.0, 5000.0]),
    ]);
    // One sample apart is chance, two are not; the tolerance is a tenth of the kernel's maximum.
    let engine = series(&[
        ("free", "Normal", &[1000.0, 500.0, 1000.0, 1000.0, 1000.0]),
        ("dirty", "global", &[0.0, 0.0, 5500.0, 5501.0, 4499.0]),
    ]);
    let parting = Parting::of(&kernel, &engine).unwrap();
    assert_eq!(
        (parting.column, parting.kernel, parting.engine),
        ("dirty", 5000.0, 5501.0)
    );
    assert!((parting.at - 0.3).abs() < 1e-9);
    assert_eq!(Parting::of(&kernel, &kernel), None);
    assert_eq!(Parting::of(&kernel, &Series::default()), None);
}
