use super::*;
use crate::programs::Command;
use crate::script::{Step, parse};
use crate::testing::{MemoryHost, block_on};

fn fs_mark(line: &str) -> FsMark {
    let script = parse(line).unwrap_or_else(|e| panic!("{line}: {e}"));
    match &script.steps[..] {
        [Step::Foreground(p)] => match &p.commands[..] {
            [Command::FsMark(f)] => f.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Runs a line in memory, at `epoch` microseconds; returns the host and the report.
fn run_at(epoch: u64, line: &str) -> (MemoryHost, Report) {
    let host = MemoryHost::default();
    host.epoch.set(epoch);
    let script = parse(line).unwrap();
    let session = script.session();
    let Step::Foreground(process) = &script.steps[0] else {
        panic!("{script:?}")
    };
    let report = block_on(process.commands[0].run(&host, &session)).unwrap();
    (host, report)
}

fn metric(report: &Report, name: &str) -> f64 {
    let found = report.metrics.iter().find(|(n, ..)| n == name);
    found.unwrap_or_else(|| panic!("{name} in {report:?}")).2
}

/// The line is in the form of fs_mark's own header, as published reports quote it: called in its
/// folder, blanks doubled.
#[test]
fn the_line_that_it_prints_of_itself() {
    let plain = "fs_mark -d /tmp/fsmark-1/1 -d /tmp/fsmark-1/2 -D 100 -N 75 -n 75 -L 25 -t 1 -S0 -s 10485760";
    let printed = format!("#  ./{}", plain.replace(' ', "  "));
    let printed = printed.trim_start_matches("#  ");
    assert_eq!(fs_mark(printed), fs_mark(plain));
    assert!(parse("taskset -c 0 ./fs_mark -d a").is_ok());
    for line in [
        "./fsmark -d a",
        "../fs_mark -d a",
        "taskset -c 0 ./taskset -c 0 ./fs_mark -d a",
    ] {
        let e = parse(line).expect_err(line);
        assert!(!line[e.span.clone()].is_empty(), "{line}: {e}");
    }
}

#[test]
fn the_published_command_line() {
    let f = fs_mark(
        "fs_mark -d DIR -d DIR2 -D 100 -N 150 -n 150 -L 25 -t 1 -S0 -s 10485760 2>/dev/null",
    );
    let sync = SyncMethod::numbered(0).unwrap();
    let expected = Job {
        dirs: vec!["DIR".to_owned(), "DIR2".to_owned()],
        placement: Placement::RoundRobin {
            subdirs: 100,
            files: 150,
        },
        files: 150,
        size: 10 << 20,
        write: 16 << 10,
        sync,
        keep: true,
        name_len: 40,
        random_len: 24,
    };
    assert_eq!(*f.job, expected);
    assert_eq!((f.processes, f.iterations, f.files()), (2, 25, 7500));
    let script =
        parse("fs_mark -da -t8; fs_mark -dx -t3 & fs_mark -dy -t2 && fs_mark -dz").unwrap();
    assert_eq!((script.children(), script.files_made()), (8 + 3, 14_000));
}

#[test]
fn defaults_and_clusters() {
    let f = fs_mark("fs_mark -kvdx -l log.txt -D 2 -t3");
    assert_eq!(f.job.placement, Placement::Time { subdirs: 2 });
    assert_eq!((f.job.files, f.job.size, f.iterations), (1000, 51_200, 1));
    assert_eq!(
        (f.job.sync.before_close, f.job.keep, f.processes),
        (true, true, 3)
    );
    assert!(!fs_mark("fs_mark -d x").job.keep);
}

#[test]
fn complaints() {
    let lines = [
        "fs_mark",
        "fs_mark -n 10",
        "fs_mark -d",
        "fs_mark -d ''",
        "fs_mark -d a234567890123456789012345678901234567890",
        "fs_mark -d x -n 0",
        "fs_mark -d x -n 1K",
        "fs_mark -d x -n '-1'",
        "fs_mark -d x -D 1",
        "fs_mark -d x -N 5",
        "fs_mark -d x -S7",
        "fs_mark -d x -s 4294967296",
        "fs_mark -d x -w 2000000",
        "fs_mark -d x -w0",
        "fs_mark -d x -t 1000",
        "fs_mark -d x -d y -t 3",
        "fs_mark -d x -p 10",
        "fs_mark -d x -r 50",
        "fs_mark -d x -kF",
        "fs_mark -h",
        "fs_mark -d x -q",
        "fs_mark -d x --sync",
        "fs_mark -d x y",
        "fs_mark -d x -n 1000000 -t 8",
        "fs_mark -d x -n 1000000 -t 4; fs_mark -d y -n 1000000 -t 4",
    ];
    let mut text = String::new();
    for line in lines {
        let e = parse(line).expect_err(line);
        let marks = " ".repeat(e.span.start) + &"^".repeat(e.span.len());
        text += &format!("{line}\n{marks}\n{e}\n\n");
    }
    insta::assert_snapshot!(text);
}

#[test]
fn a_process_makes_its_files_in_the_sub_directory_of_the_second() {
    // 2011-07-13 10:31:43 UTC and 250 ms; the second mod 100 is 3.
    let epoch = 1_310_553_103_250_000;
    let (host, report) = run_at(
        epoch,
        "fs_mark -d a/ -d b -D 100 -N 2 -n 3 -L 2 -S0 -s 40000",
    );
    let calls = host.calls.borrow();
    let first: Vec<&str> = calls[..4].iter().map(String::as_str).collect();
    assert_eq!(&first[..3], ["fork 2", "mkdir a/", "mkdir a//03"]);
    let open = first[3];
    assert!(open.starts_with("open a//03/4e1d740f~~~~~~~~"), "{open}");
    assert!(open.ends_with(" rw create truncate"), "{open}");
    let name = open.split(['/', ' ']).nth(4).unwrap();
    assert_eq!(name.len(), 40);
    let random = &name[16..];
    assert!(
        random
            .bytes()
            .all(|c| c.is_ascii_digit() || c.is_ascii_uppercase())
    );
    drop(calls);
    // Two files in 03, the third in 04, by each of two processes, twice.
    assert_eq!(host.count("open a//03"), 4);
    assert_eq!(host.count("open b/04"), 2);
    assert_eq!((host.count("fork"), host.count("close")), (2, 12));
    // 16384 + 16384 + 7232.
    assert_eq!((host.count("write"), host.count("fsync")), (36, 0));
    assert_eq!((host.count("unlink"), host.open_files()), (0, 0));
    assert_eq!(metric(&report, "files"), 12.0);
    assert_eq!(metric(&report, "bytes"), 480_000.0);
    assert_eq!(metric(&report, "iterations"), 2.0);
}

#[test]
fn files_go_without_dash_l_and_dash_k() {
    let (host, _) = run_at(0, "fs_mark -d x -n 4 -s 0");
    assert_eq!(
        (
            host.count("unlink"),
            host.count("write"),
            host.count("fsync")
        ),
        (4, 4, 4)
    );
    let (host, _) = run_at(0, "fs_mark -d x -n 4 -k");
    assert_eq!(host.count("unlink"), 0);
    let (host, _) = run_at(0, "fs_mark -d x -n 4 -L 0");
    assert_eq!((host.count("unlink"), host.count("fork")), (0, 1));
}

/// Returns the calls after the last close of the main loop, by their first letters.
fn after(method: u64) -> String {
    let (host, _) = run_at(0, &format!("fs_mark -d x -n 3 -k -S{method}"));
    let calls = host.calls.borrow();
    let named =
        |c: &&String| ["open", "fsync", "close", "sync"].contains(&c.split(' ').next().unwrap());
    let mut letters: Vec<String> = calls
        .iter()
        .filter(named)
        .map(|c| {
            let (call, rest) = c.split_once(' ').unwrap_or((c, ""));
            let nth = calls
                .iter()
                .filter(|c| c.starts_with("open"))
                .position(|o| !rest.is_empty() && o.contains(rest.split(' ').next().unwrap()));
            format!(
                "{}{}",
                &call[..1],
                nth.map_or(String::new(), |n| n.to_string())
            )
        })
        .collect();
    let in_loop = if method == 1 { 9 } else { 6 };
    if method != 1 {
        letters.drain(..in_loop);
    }
    letters.join(" ")
}

#[test]
fn sync_methods_stand_where_the_original_has_them() {
    assert_eq!(after(0), "");
    assert_eq!(after(1), "o0 f0 c0 o1 f1 c1 o2 f2 c2");
    assert_eq!(after(2), "s o0 f0 c0");
    assert_eq!(after(3), "o2 f2 c2 o1 f1 c1 o0 f0 c0");
    assert_eq!(after(4), "s o2 f2 c2 o1 f1 c1 o0 f0 c0");
    assert_eq!(after(5), "o0 f0 c0 o1 f1 c1 o2 f2 c2");
    assert_eq!(after(6), "s o0 f0 c0 o1 f1 c1 o2 f2 c2");
}

#[test]
fn names_without_random_characters_repeat_within_a_second() {
    let (host, _) = run_at(7_000_000, "fs_mark -d x -n 3 -k -r 0 -p 4");
    assert_eq!(host.count("open x//7~~~ rw create truncate"), 3);
    assert!(host.exists("x//7~~~"));
    // The least significant digits are kept.
    let (host, _) = run_at(0x12_3456 * 1_000_000, "fs_mark -d x -n 1 -k -r 2 -p 5");
    assert_eq!(host.count("open x//456"), 1);
}

#[test]
fn time_based_sub_directories_change_after_three_minutes() {
    let job = &fs_mark("fs_mark -d x -D 4").job;
    let second = 1_000_000;
    let mut names = Names::new(6 * second, job.placement);
    let mut at = |s: u64| names.next(s * second, job).0;
    let dirs = [at(6), at(186), at(187), at(300), at(368)];
    assert_eq!(dirs, [2, 2, 3, 3, 0].map(Some));
}

/// Files/s is the sum of the processes' own rates: a process that ends early counts for more than
/// files / time of the iteration.
#[test]
fn rates_of_processes_add_up() {
    let run = |files, loop_us, calls_us| ProcessRun {
        files,
        loop_us,
        calls_us,
    };
    let i = Iteration::of(&[run(10, 1_000_000, 900_000), run(10, 4_000_000, 3_999_999)]);
    assert_eq!(
        (i.files, i.files_per_second, i.app_overhead_us),
        (20, 12.5, 100_001)
    );
    // Written to a log and read back.
    let r = run(37, 12_345_678, 12_000_000);
    assert_eq!(ProcessRun::read(&r.log()), r);
    // A loop of no measurable time counts as a microsecond.
    assert_eq!(Iteration::of(&[run(1, 0, 0)]).files_per_second, 1e6);
}

#[test]
fn iterations_are_reduced() {
    let f = fs_mark("fs_mark -d x -s 10 -L 4");
    let i = |files_per_second, app_overhead_us| Iteration {
        files: 5,
        files_per_second,
        app_overhead_us,
    };
    let report = f.report(&[i(30.0, 7), i(34.0, 7), i(38.0, 7), i(30.0, 7)]);
    let shown: Vec<String> = report
        .metrics
        .iter()
        .map(|(n, u, v)| format!("{n} {v:.4} {u}"))
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
    iterations 4.0000 iterations
    files 20.0000 files
    bytes 200.0000 bytes
    files_per_second_min 30.0000 files/s
    files_per_second_mean 33.0000 files/s
    files_per_second_stddev 3.3166 files/s
    files_per_second_max 38.0000 files/s
    app_overhead_min 7.0000 us
    app_overhead_mean 7.0000 us
    app_overhead_stddev 0.0000 us
    app_overhead_max 7.0000 us
    ");
}

/// Overhead is the loop's time less the timed calls; making directories and names counts as
/// overhead, removing files does not.
#[test]
fn overhead_is_what_is_not_timed() {
    // The memory host takes 10 ns a call, which is 0 in microseconds, and names take 3 us each.
    let (_, report) = run_at(0, "fs_mark -d x -n 100 -S0");
    let overhead = metric(&report, "app_overhead_mean");
    assert!((300.0..=306.0).contains(&overhead), "{overhead}");
}

#[test]
fn a_short_write_ends_the_run() {
    let host = MemoryHost::default();
    host.longest_write.set(1000);
    let f = fs_mark("fs_mark -d x -n 2");
    let e = block_on(f.run(&host, &Session::default())).unwrap_err();
    assert!(matches!(e, HostError::NoSpace(_)), "{e}");
}
