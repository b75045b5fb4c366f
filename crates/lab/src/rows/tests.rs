use super::*;
use crate::published::{self, PublishedRow};
use crate::runner::{fixture, iteration_seed};
use crate::terminal::Screen;
use sim::account::{ClassSums, ReclaimSums, Writes};
use sim::result::Metric;
use std::collections::BTreeMap;

/// Returns a run of the fixture with these metrics, counters and sums.
fn run(metrics: &[(&str, f64)], counters: &[(&str, f64)], reclaim: ReclaimSums) -> RunResult {
    let spec = fixture::experiment(1).cells[0].spec.clone();
    let mut r = fixture::simulate(&spec, &sim::Control::default());
    r.metrics = metrics
        .iter()
        .map(|&(n, value)| (n.to_owned(), Metric { unit: "s", value }))
        .collect();
    r.counters = counters
        .iter()
        .map(|&(n, v)| (n.to_owned(), v as u64))
        .collect();
    r.reclaim = Some(reclaim);
    r
}

fn value(r: &RunResult, name: &str) -> Reading {
    (definition::row(name)
        .unwrap_or_else(|| panic!("no row {name}"))
        .value)(r)
}

/// Returns the columns of the two published detail tables, with counters and derived rows.
fn details() -> Vec<BTreeMap<String, f64>> {
    let rows = published::shipped().iter().flat_map(|s| &s.rows);
    let mut columns: BTreeMap<(String, String), BTreeMap<String, f64>> = BTreeMap::new();
    for r in rows.filter(|r| r.metric.contains(": ")) {
        columns
            .entry((r.workload.clone(), r.policy.clone()))
            .or_default()
            .insert(r.metric.clone(), r.value);
    }
    columns.into_values().collect()
}

#[test]
fn every_published_row_is_defined() {
    let rows = published::shipped().iter().flat_map(|s| &s.rows);
    let of_series = rows.filter(|r| r.series == "writeback-from-reclaim");
    let mut n = 0;
    for r in of_series {
        assert!(definition::row(&r.metric).is_some(), "{}", r.metric);
        n += 1;
    }
    assert!(n > 400, "{n} cells");
}

/// From the published counters the formulas must give the published derived rows, digit by digit.
#[test]
fn the_formulas_are_those_of_the_published_reports() {
    let mut checked = 0;
    for published in details() {
        let get = |name: &str| published[name];
        let (ks, kr) = (
            get("vmstat: Kswapd pages scanned"),
            get("vmstat: Kswapd pages reclaimed"),
        );
        let (ds, dr) = (
            get("vmstat: Direct pages scanned"),
            get("vmstat: Direct pages reclaimed"),
        );
        let traced = |name: &str| published.get(&format!("ftrace vmscan: {name}")).copied();
        let writes = |who: &str| Writes {
            file_async: traced(&format!("{who} write file async I/O")).unwrap_or(0.0) as u64,
            file_sync: traced(&format!("{who} write file sync I/O")).unwrap_or(0.0) as u64,
            anon_async: traced(&format!("{who} write anon async I/O")).unwrap_or(0.0) as u64,
            anon_sync: traced(&format!("{who} write anon sync I/O")).unwrap_or(0.0) as u64,
        };
        let ns = |name: &str| (traced(name).unwrap_or(0.0) * 1e9) as u64;
        let r = run(
            &[
                ("elapsed", get("duration: Total Elapsed Time (seconds)")),
                ("user_time", 1.0),
                (
                    "system_time",
                    get("duration: User/Sys Time Running Test (seconds)") - 1.0,
                ),
            ],
            &[
                ("pgscan_kswapd_dma", 1000.0),
                ("pgscan_kswapd_dma32", ks - 1000.0),
                ("pgscan_direct_dma32", ds),
                ("pgsteal_dma", 500.0),
                ("pgsteal_dma32", kr + dr - 500.0),
                ("kswapd_steal", kr),
            ],
            ReclaimSums {
                direct: ClassSums {
                    scanned: traced("Direct reclaim pages scanned").unwrap_or(0.0) as u64,
                    writes: writes("Direct reclaim"),
                    ..Default::default()
                },
                kswapd: ClassSums {
                    scanned: traced("Kswapd pages scanned").unwrap_or(0.0) as u64,
                    writes: writes("Kswapd reclaim"),
                    ..Default::default()
                },
                stalled_ns: ns("Time stalled direct reclaim (seconds)"),
                kswapd_awake_ns: ns("Time kswapd awake (seconds)"),
                ..Default::default()
            },
        );
        for (name, expected) in &published {
            let derived = name.contains("efficiency")
                || name.contains("velocity")
                || name.contains("ercentage")
                || name.contains("%age")
                || name.contains("Total")
                || name.contains("pages reclaimed")
                || name.starts_with("vmstat: Direct pages")
                || name.starts_with("duration");
            if !derived {
                continue;
            }
            let Reading::Is(x) = value(&r, name) else {
                panic!("{name} has no value");
            };
            let digits = definition::row(name).unwrap().decimals;
            // The published time is rounded to hundredths, which limits the precision of quotients.
            let rounding = match digits {
                3 => {
                    expected.abs() * 0.005 / get("duration: Total Elapsed Time (seconds)") + 0.0006
                }
                2 => 0.011,
                _ => 0.0,
            };
            assert!(
                (x - expected).abs() <= rounding,
                "{name}: {x} instead of {expected}"
            );
            checked += 1;
        }
    }
    assert!(checked > 70, "{checked} cells");
}

#[test]
fn changes_are_those_of_2011() {
    // The denominator is the new value, and positive is better.
    let near = |a: Option<f64>, b: f64| assert!((a.unwrap() - b).abs() < 0.005, "{a:?} {b}");
    near(change_2011(30.32, 34.60, Better::Higher), 12.37);
    near(change_2011(100.0, 80.0, Better::Lower), 25.0);
    near(change_2011(80.0, 100.0, Better::Lower), -20.0);
    near(change_2011(80.0, 100.0, Better::Neither), 20.0);
    assert_eq!(change_2011(0.0, 0.0, Better::Lower), Some(0.0));
    assert_eq!(change_2011(5.0, 0.0, Better::Lower), None, "no denominator");
}

#[test]
fn what_the_engine_does_not_produce_is_never_a_number() {
    let r = run(&[("elapsed", 10.0)], &[], ReclaimSums::default());
    for name in [
        "vmstat: Slabs scanned",
        "vmstat: Direct inode steals",
        "vmstat: Kswapd inode steals",
        "vmstat: Compaction stalls",
        "vmstat: Compaction success",
        "vmstat: Compaction failures",
        "vmstat: Compaction pages moved",
        "vmstat: Compaction move failure",
        // A missing counter is not 0, nor are rows derived from it.
        "vmstat: Page Ins",
        "vmstat: Kswapd efficiency",
        "vmstat: Direct velocity",
        "ftrace vmscan: Total pages reclaimed",
    ] {
        assert!(matches!(value(&r, name), Reading::Unsupported(_)), "{name}");
    }
    assert_eq!(value(&r, "fsmark: Files/s mean"), Reading::Absent);
    assert_eq!(value(&r, "vmstat: Movable allocs"), Reading::Absent);
}

#[test]
fn edges_of_the_formulas() {
    let zero = [
        ("pgscan_kswapd_dma", 0.0),
        ("pgscan_direct_dma", 7.0),
        ("pgsteal_dma", 2.0),
        ("kswapd_steal", 0.0),
    ];
    let r = run(
        &[("elapsed", 0.0), ("user_time", 0.0), ("system_time", 0.0)],
        &zero,
        ReclaimSums::default(),
    );
    assert_eq!(value(&r, "vmstat: Kswapd efficiency"), Reading::Is(100.0));
    assert_eq!(
        value(&r, "vmstat: Direct efficiency"),
        Reading::Is(28.0),
        "floored"
    );
    assert_eq!(
        value(&r, "vmstat: Percentage direct scans"),
        Reading::Is(0.0),
        "kswapd scanned none"
    );
    assert_eq!(value(&r, "vmstat: Direct velocity"), Reading::Is(0.0));
    assert_eq!(
        value(&r, "ftrace vmscan: Percentage Time Spent Direct Reclaim"),
        Reading::Is(0.0)
    );
}

/// Returns iterations of two policies on one filesystem, with values written by hand.
fn outcomes(iterations: u32) -> Outcomes {
    let mut experiment = fixture::experiment(iterations);
    let group = experiment.cells[0].group();
    experiment.cells.retain(|c| c.group() == group);
    let results = experiment
        .cells
        .iter()
        .map(|cell| {
            let n = if cell.baseline { 1.0 } else { 2.0 };
            (0..iterations)
                .map(|i| {
                    let mut spec = cell.spec.clone();
                    spec.seed = iteration_seed(&experiment, i);
                    let mut r = fixture::simulate(&spec, &sim::Control::default());
                    let x = f64::from(i);
                    r.metrics = [
                        ("elapsed", "s", 100.0 * n + x),
                        ("user_time", "s", 1.0),
                        ("system_time", "s", 4.0 + (x - 3.0) / 7.0),
                        ("files_per_second_mean", "files/s", 40.0 / n + x),
                        ("files_per_second_stddev", "files/s", 2.0),
                        ("write_rate", "MB/s", 55.5),
                    ]
                    .map(|(n, unit, value)| (n.to_owned(), Metric { unit, value }))
                    .into();
                    r.counters = [
                        ("pgscan_kswapd_normal", 100_000.0 * n + x),
                        ("pgscan_direct_normal", 1000.0),
                        ("pgsteal_normal", 60_000.0),
                        ("kswapd_steal", 59_500.0),
                        ("nr_vmscan_write", 5000.0 * (n - 1.0) + x),
                        ("pswpout", 0.0),
                        ("pgalloc_normal", 60_000.0),
                    ]
                    .map(|(n, v): (&str, f64)| (n.to_owned(), v as u64))
                    .into();
                    let sums = r.reclaim.as_mut().unwrap();
                    sums.kswapd.scanned = (100_000.0 * n + x) as u64;
                    sums.direct.scanned = 1000;
                    sums.direct_reclaims = if cell.baseline { 30 + u64::from(i) } else { 0 };
                    sums.stalled_ns = sums.direct_reclaims * 12_345_678;
                    sums.direct.conditional.as_mut().unwrap().number = 7;
                    Some(r)
                })
                .collect()
        })
        .collect();
    Outcomes {
        experiment,
        results,
        host: Vec::new(),
        interrupted: false,
        build: None,
    }
}

#[test]
fn the_blocks_are_what_they_were() {
    let o = outcomes(8);
    insta::assert_snapshot!(format!(
        "{}\n{}",
        to_text(&o, Screen::default()),
        time_text(&o, Screen::default())
    ));
}

#[test]
fn stars_need_iterations_and_a_difference() {
    let lines = |n| groups(&outcomes(n)).remove(0).rows;
    let find = |rows: &[ComparedRow], name: &str| {
        rows.iter().find(|l| l.name == name).unwrap().cells[1].clone()
    };
    let (few, many) = (lines(3), lines(8));
    let elapsed = "duration: Total Elapsed Time (seconds)";
    assert!(
        !find(&few, elapsed).significant,
        "three against three can't tell"
    );
    let c = find(&many, elapsed);
    assert!(c.significant && c.change_percent.unwrap() < -49.0, "{c:?}");
    assert!(
        !find(&many, "duration: System Time (seconds)").significant,
        "the same values"
    );
    let gone = find(&many, "ftrace vmscan: Direct reclaims");
    assert!(
        gone.significant && gone.change_percent.is_none(),
        "{gone:?}"
    );
    assert_eq!(find(&many, "write_rate").change_percent, Some(0.0));
    let slabs = find(&many, "vmstat: Slabs scanned");
    assert!(slabs.unsupported.is_some() && slabs.values.is_empty());
}

#[test]
fn a_published_row_is_measured_by_its_name() {
    let o = outcomes(2);
    let cell = &o.experiment.cells[0];
    let row = |metric: &str| PublishedRow {
        series: "writeback-from-reclaim".into(),
        machine: cell.machine.clone(),
        threads: "1X".into(),
        filesystem: cell.filesystem.clone(),
        workload: "fsmark".into(),
        metric: metric.into(),
        policy: cell.policy.clone(),
        ..published::table::fixture()
    };
    let measure = |metric: &str| published::plan::measure(&row(metric), &o, &[]);
    assert_eq!(measure("fsmark: Files/s mean"), Ok(40.5));
    assert_eq!(measure("files_per_second_mean"), Ok(40.5));
    assert_eq!(measure("ftrace vmscan: Direct reclaims"), Ok(30.5));
    assert_eq!(measure("kswapd_efficiency"), Ok(59.0));
    assert!(
        measure("vmstat: Compaction stalls")
            .unwrap_err()
            .contains("compaction")
    );
    assert_eq!(measure("nr_vmscan_write median"), Ok(0.5));
}

/// Runs a command in the real engine.
fn real(command: &str) -> RunResult {
    let source = crate::diagnostic::Source::new(
        "e.toml",
        include_str!("../../../../experiments/usb-stick.toml"),
    );
    let machines = |_: &str| {
        let text = include_str!("../../../../machines/3765M.toml");
        Ok(("m".to_owned(), text.to_owned()))
    };
    let experiment = crate::experiment::parse(&source, &machines, &Default::default()).unwrap();
    let mut spec = experiment.cells[0].spec.clone();
    spec.workload = workload::parse(command).unwrap();
    let r = sim::run(&spec, &sim::Control::default());
    assert_eq!(r.outcome, sim::Outcome::Completed);
    r
}

#[test]
fn the_columns_of_time_add_up_to_the_lifetime() {
    let direct = "dd if=/dev/zero of=b bs=1M count=8 oflag=direct";
    let r = real(&format!("dd if=/dev/zero of=a bs=1M count=64 & {direct}"));
    let mut classes = 0;
    for class in sim::account::TaskClass::ALL {
        let Some((tasks, columns)) = mean_columns(&[&r, &r], class) else {
            continue;
        };
        classes += 1;
        let (lifetime, parts) = columns.split_last().unwrap();
        assert!(tasks >= 1.0 && *lifetime > 0.0, "{class:?}");
        let sum: f64 = parts.iter().sum();
        assert!((sum - lifetime).abs() < 1e-6, "{class:?}: {columns:?}");
    }
    assert_eq!(classes, 4);
}

/// No task asks for several pages in a row here, so compaction is 0 under a policy that has it, and
/// unsupported otherwise.
#[test]
fn rows_of_compaction_are_figures_where_the_policy_has_it() {
    let mut r = real("dd if=/dev/zero of=a bs=1M count=4");
    let rows = [
        "stalls",
        "success",
        "failures",
        "pages moved",
        "move failure",
    ];
    for row in rows.map(|row| format!("vmstat: Compaction {row}")) {
        assert_eq!(value(&r, &row), Reading::Is(0.0), "{row}");
    }
    r.counters.retain(|name, _| !name.starts_with("compact_"));
    let none = Reading::Unsupported("the policy has no compaction");
    assert_eq!(value(&r, "vmstat: Compaction stalls"), none);
}

/// Every name that a run reports must have an explanation.
#[test]
fn every_name_of_a_run_is_explained() {
    let r = real("dd if=/dev/zero of=a bs=1M count=4");
    let mut names: Vec<String> = r.metrics.keys().chain(r.counters.keys()).cloned().collect();
    assert!(names.len() > 50);
    let session = [
        "reads",
        "read_rate",
        "write_latency_p999",
        "sync_latency_max",
        "short_calls",
    ];
    names.extend(session.map(String::from));
    for name in names {
        assert!(explain::explain(&name).is_ok(), "{name} is not explained");
    }
}

/// A real kernel counts by its own names, and figures that it does not report are no numbers.
#[test]
fn a_real_kernels_counters_make_rows_and_the_rest_is_unsupported() {
    let spec = fixture::experiment(1).cells[0].spec.clone();
    let kernel = kernel::Kernel::new("6.12");
    let mut r = fixture::kernel(&spec, &kernel, &sim::Control::default());
    let scanned = r.counters["pgscan_kswapd"] as f64;
    for (name, expected) in [
        ("vmstat: Kswapd pages scanned", scanned),
        ("vmstat: Direct pages scanned", 200.0),
        ("vmstat: Kswapd pages reclaimed", 900.0),
        ("vmstat: Direct pages reclaimed", 100.0),
        ("vmstat: Direct efficiency", 50.0),
        ("vmstat: Normal allocs", 5000.0),
        ("vmstat: Compaction stalls", 2.0),
        ("vmstat: Compaction pages moved", 11.0),
        ("ftrace vmscan: Total pages scanned", scanned + 200.0),
    ] {
        assert_eq!(value(&r, name), Reading::Is(expected), "{name}");
    }
    let unsupported = |r: &RunResult, name: &str| match value(r, name) {
        Reading::Unsupported(why) => why.contains("kernel"),
        _ => false,
    };
    for name in [
        "vmstat: Page writes skipped",
        "vmstat: Write invalidated",
        "vmstat: Page reclaim throttled",
        "vmstat: Kswapd skipped wait",
        "vmstat: Compaction move failure",
        "vmstat: Zone normal velocity",
        "duration: User Time (seconds)",
        "duration: User/Sys Time Running Test (seconds)",
        "ftrace vmscan: Direct reclaims",
        "ftrace vmscan: Time stalled direct reclaim (seconds)",
        "ftrace vmscan: %age total pages scanned/written",
        "ftrace vmscan: Percentage Time kswapd Awake",
        "ftrace congestion: Direct number congest waited",
    ] {
        assert!(unsupported(&r, name), "{name}: {:?}", value(&r, name));
    }
    assert_eq!(value(&r, "vmstat: Zone dma velocity"), Reading::Absent);
    // With trace events; today's kernels do not wait for congestion.
    r.reclaim = Some(ReclaimSums {
        direct_reclaims: 3,
        ..ReclaimSums::default()
    });
    let reclaims = value(&r, "ftrace vmscan: Direct reclaims");
    assert_eq!(reclaims, Reading::Is(3.0));
    assert!(unsupported(
        &r,
        "ftrace congestion: KSwapd time congest waited"
    ));
}

/// With a policy of the engine beside a kernel, every file of the results must say which figures
/// are missing.
#[test]
fn a_kernel_and_a_model_stand_side_by_side() {
    let mut o = outcomes(2);
    o.experiment.cells[1].kernel = Some(kernel::Kernel::new("6.12"));
    let cell = o.experiment.cells[1].clone();
    let kernel = cell.kernel.as_ref().unwrap();
    for r in o.results[1].iter_mut().flatten() {
        *r = fixture::kernel(&cell.spec, kernel, &sim::Control::default());
    }
    insta::assert_snapshot!(format!(
        "{}\n{}",
        to_text(&o, Screen::default()),
        time_text(&o, Screen::default())
    ));
}
