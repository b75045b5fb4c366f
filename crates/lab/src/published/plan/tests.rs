use super::*;
use crate::published::series::{find, shipped};
use crate::published::table;

fn series(name: &str) -> Series {
    find(name).expect("a shipped series").clone()
}

/// Returns the series with only these rows: machine, threads, filesystem, workload, policy,
/// monitors.
fn asking(name: &str, rows: &[(&str, &str, &str, &str, &str, bool)]) -> Series {
    let mut series = series(name);
    let row = |r: &(&str, &str, &str, &str, &str, bool)| PublishedRow {
        series: name.into(),
        machine: r.0.into(),
        threads: r.1.into(),
        filesystem: r.2.into(),
        workload: r.3.into(),
        policy: r.4.into(),
        monitors: r.5,
        ..table::fixture()
    };
    series.rows = rows.iter().map(row).collect();
    series
}

/// Lists the cells that a plan runs, each with the name of its experiment.
fn cells(plan: &Plan) -> Vec<String> {
    let of_run = |r: &Run| {
        let name = r.experiment.name.clone();
        let cells = r.experiment.cells.iter();
        let said: Vec<String> = cells
            .map(|c| {
                format!(
                    "{name}: {} {} {} {} {}",
                    c.machine, c.workload, c.threads, c.filesystem, c.policy
                )
            })
            .collect();
        said
    };
    plan.runs.iter().flat_map(of_run).collect()
}

/// Every shipped row must have a run, and each run must have exactly the cells of the experiment's
/// own file.
#[test]
fn shipped_rows_have_the_runs_of_the_shipped_experiments() {
    for series in shipped() {
        let planned = plan(series, None).expect("shipped experiments");
        let refused: Vec<_> = planned
            .rows
            .iter()
            .filter_map(|r| r.as_ref().err())
            .collect();
        assert!(refused.is_empty(), "{}: {refused:#?}", series.name);
        let mut runs = planned.runs.iter();
        for template in &series.about.experiment {
            let base = Base::new(series, template).expect("a shipped experiment");
            let baseline = base.own.cells.iter().find(|c| c.baseline).expect("one");
            assert_eq!(baseline.policy, series.about.baseline);
            let wanted = |c: &&Cell| {
                let all = ["1", "2", "4", "8", "16"].map(String::from);
                let mut rows = series.rows.iter();
                rows.any(|r| is_of(r, c, &all) && (r.monitors || !c.spec.monitors))
            };
            let kept: Vec<&Cell> = base.own.cells.iter().filter(wanted).collect();
            if kept.is_empty() {
                continue;
            }
            let run = runs
                .next()
                .expect("a run for every experiment with a wanted cell");
            assert_eq!(run.experiment.name, base.own.name);
            assert_eq!(run.experiment.iterations, base.own.iterations);
            let told = |c: &Cell| format!("{c:?}");
            let planned: Vec<String> = run.experiment.cells.iter().map(told).collect();
            let kept: Vec<String> = kept.into_iter().map(told).collect();
            assert_eq!(planned, kept, "{}", run.experiment.name);
        }
        assert!(runs.next().is_none(), "{}", series.name);
    }
}

/// Command lines that the experiments of writeback-from-reclaim spelled out before commands took
/// the number of threads.
#[test]
fn the_formula_gives_the_published_command_lines() {
    let by_hand = |machine: &str, label: &str| match (machine, label) {
        ("512M", "1P") => "fs_mark -d1 -D 100 -N 150 -n 150",
        ("512M", "1X") => "fs_mark -d{1..4} -D 100 -N 37 -n 37",
        ("512M", "2X") => "fs_mark -d{1..8} -D 100 -N 18 -n 18",
        ("512M", "16X") => "fs_mark -d{1..64} -D 100 -N 2 -n 2",
        ("512M", "32X") => "fs_mark -d{1..128} -D 100 -N 1 -n 1",
        ("4096M8N", "1X") => "fs_mark -d{1..4} -D 100 -N 300 -n 300",
        ("4096M8N", "16X") => "fs_mark -d{1..64} -D 100 -N 18 -n 18",
        ("4608M", "1P") => "fs_mark -d1 -D 100 -N 1350 -n 1350",
        ("4608M", "1X") => "fs_mark -d{1..4} -D 100 -N 337 -n 337",
        ("4608M", "16X") => "fs_mark -d{1..64} -D 100 -N 21 -n 21",
        ("1024M", "1P") => "fs_mark -d1 -D 100 -N 300 -n 300",
        ("1024M", "1X") => "fs_mark -d{1..4} -D 100 -N 75 -n 75",
        ("1024M", "16X") => "fs_mark -d{1..64} -D 100 -N 4 -n 4",
        other => panic!("no such cell before: {other:?}"),
    };
    let series = series("writeback-from-reclaim");
    let mut compared = 0;
    for template in &series.about.experiment {
        let base = Base::new(&series, template).expect("a shipped experiment");
        for cell in base.own.cells.iter().filter(|c| c.workload == "fsmark") {
            let line = by_hand(&cell.machine, &cell.threads);
            let line = format!("{line} -L 25 -t 1 -S0 -s 10485760");
            let mut script = workload::parse(&line).expect("a command line");
            // The script keeps the line as it is written, so it is made equal for the comparison.
            script.line = cell.spec.workload.line.clone();
            assert_eq!(format!("{script:?}"), format!("{:?}", cell.spec.workload));
            compared += 1;
        }
    }
    assert_eq!(compared, (5 + 2 + 3 + 3) * 6 + 3);
}

/// Rows that no experiment's file covers: other threads, filesystems, policies, machines, monitors.
#[test]
fn rows_beyond_the_experiments_files_have_runs() {
    let asked = asking(
        "writeback-from-reclaim",
        &[
            ("512M", "4X", "xfs", "fsmark", "vanilla", false),
            ("512M", "3P", "ext4", "fsmark", "kswapdwb", false),
            ("512M", "4X", "btrfs", "mmap-strm", "nokswapdwb", false),
            ("4096M8N", "2X", "ext4", "fsmark", "vanilla", false),
            ("1024M", "1P", "xfs", "fsmark", "vanilla", false),
            ("512M", "2X", "ext4", "fsmark", "vanilla", true),
            ("4096M8N", "1X", "xfs", "fsmark", "vanilla", true),
            ("3765M", "1X", "xfs", "mmap-strm", "vanilla", false),
            ("512M", "1X", "xfs", "fsmark", "linux-3.1", false),
        ],
    );
    let plan = plan(&asked, Some(7)).expect("a plan");
    assert!(plan.rows.iter().all(Result::is_ok), "{:?}", plan.rows);
    let runs = &plan.runs;
    assert!(runs.iter().all(|r| r.experiment.iterations == 7));
    for (i, row) in asked.rows.iter().enumerate() {
        let run = &runs[*plan.rows[i].as_ref().expect("a run")];
        let own: Vec<_> = run
            .experiment
            .cells
            .iter()
            .filter(|c| is_of(row, c, &[]))
            .collect();
        assert_eq!(own.len(), 1, "{row:?}");
        assert_eq!(own[0].spec.monitors, row.monitors, "{row:?}");
    }
    let mut names = cells(&plan);
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "fsmark-1024M: 1024M fsmark 1P xfs vanilla",
            "fsmark-4096M8N-monitors: 4096M8N fsmark 1X xfs vanilla",
            "fsmark-4096M8N: 4096M8N fsmark 2X ext4 vanilla",
            "fsmark-512M-monitors: 512M fsmark 2X ext4 vanilla",
            "fsmark-512M: 512M fsmark 1X xfs linux-3.1",
            "fsmark-512M: 512M fsmark 3P ext4 kswapdwb",
            "fsmark-512M: 512M fsmark 4X xfs vanilla",
            "mmap-strm-512M-3765M: 3765M mmap-strm 1X xfs vanilla",
            "mmap-strm-512M: 512M mmap-strm 4X btrfs nokswapdwb",
        ]
    );
}

#[test]
fn a_row_without_a_run_says_why() {
    let asked = asking(
        "writeback-from-reclaim",
        &[
            ("512M", "4Y", "xfs", "fsmark", "vanilla", false),
            ("512M", "1X", "zfs", "fsmark", "vanilla", false),
            ("512M", "1X", "xfs", "fsmark", "patch-9", false),
            ("512M", "1X", "xfs", "postmark", "vanilla", false),
            ("2048M", "1X", "xfs", "fsmark", "vanilla", false),
            ("2048M", "1X", "xfs", "mmap-strm", "vanilla", false),
            ("512M", "64X", "xfs", "fsmark", "vanilla", false),
            ("512M", "1X", "xfs", "fsmark", "vanilla", false),
        ],
    );
    let planned = plan(&asked, None).expect("a plan");
    let reason = |i: usize| planned.rows[i].as_ref().expect_err("no run").clone();
    for (i, why) in [
        (0, "threads `4Y` is not a number"),
        (1, "zfs"),
        (2, "patch-9"),
        (3, "no experiment of the series runs `postmark`"),
        (4, "runs `fsmark` on machine `2048M`"),
        (5, "machines/2048M.toml"),
        (6, "-n: 0 is out of range"),
    ] {
        assert!(reason(i).contains(why), "{i}: {}", reason(i));
    }
    assert_eq!(planned.rows[7], Ok(0));
    assert_eq!(cells(&planned).len(), 1);
    let values = planned.values(&asked, &[]);
    assert_eq!(values[0], Err(reason(0)));
    assert_eq!(values[7], Err("the run was left out".into()));

    let fixed = asking(
        "per-zone-dirty-limits",
        &[("3765M", "2", "xfs", "dd-usb", "vanilla", false)],
    );
    let planned = plan(&fixed, None).expect("a plan");
    let why = planned.rows[0].as_ref().expect_err("no run");
    assert!(why.contains("with threads 1 only, not 2"), "{why}");
}

/// `all` is the sum over the experiment's own threads, whatever other rows add.
#[test]
fn a_figure_of_the_whole_sweep_leaves_out_what_rows_add() {
    let asked = asking(
        "sequential-read",
        &[
            ("desktop", "all", "ext3", "tiobench", "3.16-fairzone", false),
            ("desktop", "32", "ext3", "tiobench", "3.16-fairzone", false),
            ("desktop", "2", "ext3", "tiobench", "3.16-vanilla", false),
        ],
    );
    let planned = plan(&asked, None).expect("a plan");
    assert_eq!(planned.rows, [Ok(0), Ok(0), Ok(0)]);
    assert_eq!(cells(&planned).len(), 5 + 1 + 1);
    let run = &planned.runs[0];
    let swept = run
        .experiment
        .cells
        .iter()
        .filter(|c| is_of(&asked.rows[0], c, &run.sweep));
    let swept: Vec<&str> = swept.map(|c| &c.threads[..]).collect();
    assert_eq!(swept, ["1", "2", "4", "8", "16"]);
}
