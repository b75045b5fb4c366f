//! Recorded traces in the virtual world.

mod common;

use common::{ALL_FS, disk, machine, run, spec};
use sim::spec::{DiskKind, FsKind, RunSpec};
use sim::{Outcome, RunResult};
use std::io::Write as _;
use std::path::Path;
use trace::Options;
use trace::generate::{Pattern, Plan};
use workload::{Replay, Timing};

fn replay(path: &Path, timing: Timing, filesystem: FsKind, mib: u64) -> RunSpec {
    let replay = Replay::open(path.to_owned(), Options::default(), timing).unwrap();
    let mut m = machine(mib);
    m.disk = disk(DiskKind::Ssd);
    RunSpec {
        workload: replay.script(),
        ..spec(m, filesystem, "dd if=/dev/zero of=x count=1")
    }
}

fn file(text: &str, suffix: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::with_suffix(suffix).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn metric(r: &RunResult, name: &str) -> f64 {
    assert_eq!(r.outcome, Outcome::Completed, "{:?}", r.outcome);
    let found = r.metrics.get(name);
    found
        .unwrap_or_else(|| panic!("{name}: {:?}", r.metrics))
        .value
}

/// The same page again and again: one miss.
#[test]
fn hits_are_counted() {
    let text: String = (0..100).map(|i| format!("{i},7,4096\n")).collect();
    let trace = file(&text, ".csv");
    let r = run(&replay(trace.path(), Timing::Fast, FsKind::Ext4, 64));
    assert_eq!(metric(&r, "reads"), 100.0);
    assert_eq!(metric(&r, "read_hit_ratio"), 0.99);
    assert_eq!(metric(&r, "read_from_disk"), 4096.0);
    assert_eq!(metric(&r, "read_again"), 0.0);
    assert!(metric(&r, "read_latency_max") > metric(&r, "read_latency_p50"));
    let r = run(&replay(trace.path(), Timing::Recorded, FsKind::Ext4, 64));
    assert!(metric(&r, "elapsed") >= 99.0);
}

/// A page counts as a hit only if it was in memory before the call that asks for it: pages that the
/// call itself reads do not count, even in a whole window, and pages that an earlier call read
/// ahead have a figure of their own.
#[test]
fn what_a_call_brings_in_is_no_hit() {
    let shares = |text: &str, ahead: f64, on_demand: f64| {
        let trace = file(text, ".csv");
        let mut s = replay(trace.path(), Timing::Fast, FsKind::Ext4, 64);
        let options = Options {
            unit: trace::Unit::Page,
            ..Options::default()
        };
        let paged = Replay::open(trace.path().to_owned(), options, Timing::Fast);
        s.workload = paged.expect("a trace").script();
        s.params.read_ahead = ahead;
        s.params.read_ahead_on_demand = on_demand;
        let r = run(&s);
        let of = |name| metric(&r, name);
        assert_eq!(of("hit_ratio"), of("read_hit_ratio"));
        (of("hit_ratio"), of("readahead_hit_ratio"))
    };
    // Pieces of 16 pages, none read twice, no two adjacent.
    let piece = |i: u64| format!("{i},{},65536\n", i * 7919 % 500 * 48);
    let once: String = (0..500).map(piece).collect();
    // Each piece is read twice, the second time in another order.
    let twice: String = (0..200)
        .map(piece)
        .chain((0..200).map(|i| format!("{i},{},65536\n", (199 - i) * 7919 % 500 * 48)))
        .collect();
    // 4 MiB in order, in pieces of 16 pages: all but the first ones are read ahead of their call.
    let in_order: String = (0..64).map(|i| format!("{i},{},65536\n", i * 16)).collect();
    for (ahead, on_demand) in [(0.0, 1.0), (32.0, 1.0), (1024.0, 1.0), (32.0, 0.0)] {
        let of = |text| shares(text, ahead, on_demand);
        let (hits, read_ahead) = of(&once);
        assert_eq!(hits, 0.0, "{ahead} {on_demand}");
        assert!(read_ahead < 0.01, "{read_ahead}");
        assert_eq!(of(&twice).0, 0.5, "{ahead} {on_demand}");
        let (hits, read_ahead) = of(&in_order);
        assert_eq!(hits, 0.0);
        match ahead {
            0.0 => assert_eq!(read_ahead, 0.0),
            _ if on_demand == 1.0 => assert!(read_ahead > 0.9, "{read_ahead}"),
            // Every second piece lies completely within a window.
            _ => assert_eq!(read_ahead, 0.5),
        }
    }
}

/// A write that needs the rest of its page from the disk is no hit; a write to a page that was read
/// ahead uses that page.
#[test]
fn a_write_into_a_page_that_is_not_there_is_no_hit() {
    let text = "\
1 1795247166.000000 openat(AT_FDCWD, \"a\", O_RDWR) = 3 <0.000001>
1 1795247166.000001 pread64(3, \"\"..., 4096, 4194304) = 4096 <0.000001>
1 1795247166.000002 pwrite64(3, \"\"..., 100, 40960) = 100 <0.000001>
1 1795247166.000003 pwrite64(3, \"\"..., 100, 40960) = 100 <0.000001>
1 1795247166.000004 pread64(3, \"\"..., 4096, 0) = 4096 <0.000001>
1 1795247166.000005 pwrite64(3, \"\"..., 4096, 4096) = 4096 <0.000001>
1 1795247166.000006 pread64(3, \"\"..., 4096, 4096) = 4096 <0.000001>
";
    let trace = file(text, ".strace");
    let r = run(&replay(trace.path(), Timing::Fast, FsKind::Ext4, 64));
    // Of six pages, the second write and the last read find theirs; the page written behind the
    // first one had been read ahead.
    assert_eq!(metric(&r, "hit_ratio"), 2.0 / 6.0);
    assert_eq!(metric(&r, "readahead_hit_ratio"), 1.0 / 6.0);
    assert_eq!(metric(&r, "read_hit_ratio"), 1.0 / 3.0);
    assert_eq!(metric(&r, "read_again"), 0.0);
}

/// A loop that does not fit into memory reads everything again in every round.
#[test]
fn what_was_evicted_is_read_again() {
    let plan = Plan {
        pattern: Pattern::Loop,
        objects: 4 * 6144,
        requests: 3 * 6144,
        skew: 1.0,
        writes: 0.0,
        rate: 1000,
        seed: 1,
    };
    let mut bytes = Vec::new();
    trace::write::oracle_general(&plan, &mut bytes).unwrap();
    let trace = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(trace.path(), &bytes).unwrap();
    let mib = f64::from(1 << 20);
    let small = run(&replay(trace.path(), Timing::Fast, FsKind::Xfs, 28));
    assert_eq!(metric(&small, "read_bytes"), 72.0 * mib);
    let again = metric(&small, "read_again");
    assert!(again > 20.0 * mib, "{again}");
    assert_eq!(
        metric(&small, "read_from_disk") - metric(&small, "read_again"),
        24.0 * mib
    );
    let large = run(&replay(trace.path(), Timing::Fast, FsKind::Xfs, 64));
    assert_eq!(metric(&large, "read_again"), 0.0);
    assert!(metric(&large, "hit_ratio") > metric(&small, "hit_ratio"));
}

/// Files are made, truncated and removed while other processes read them; the recount finds no
/// error, and a repeated run gives the same bytes.
#[test]
fn a_shell_script_runs_on_every_filesystem() {
    let path = Path::new("../trace/tests/golden/shell.strace");
    for filesystem in ALL_FS {
        for timing in [Timing::Recorded, Timing::Fast] {
            let spec = replay(path, timing, filesystem, 64);
            let r = run(&spec);
            assert_eq!(metric(&r, "syncs"), 1.0, "{filesystem:?}");
            assert_eq!(metric(&r, "write_bytes"), 126.0);
            assert!(r.notes.iter().any(|n| n.contains("mmap of a file: 127")));
            let again = run(&spec);
            assert_eq!((r.digest, &r.metrics), (again.digest, &again.metrics));
        }
    }
}

/// Processes write, truncate and remove files that others read, on a machine that reclaims
/// meanwhile.
#[test]
fn removal_under_load_loses_nothing() {
    let mut text = String::new();
    let mut ns = 0;
    let mut call = |pid: u32, what: &str| {
        ns += 1;
        text.push_str(&format!("{pid} 1795247166.{ns:06} {what} <0.000001>\n"));
    };
    for pid in 1..=6 {
        call(
            pid,
            &format!("openat(AT_FDCWD, \"own{pid}\", O_RDWR|O_CREAT|O_TRUNC, 0644) = 4"),
        );
        call(pid, "openat(AT_FDCWD, \"all\", O_RDWR) = 3");
    }
    for round in 0..60_u32 {
        for pid in 1..=6_u32 {
            let at = (round * 37 + pid * 101) % 64 * 65_536;
            call(pid, &format!("pread64(3, \"\"..., 65536, {at}) = 65536"));
            let at = (round * 53 + pid * 11) % 64 * 65_536 + 100;
            call(pid, &format!("pwrite64(3, \"\"..., 65536, {at}) = 65536"));
            call(pid, "write(4, \"\"..., 131072) = 131072");
            match (round + pid) % 20 {
                0 => call(pid, "ftruncate(3, 1000000) = 0"),
                5 => call(pid, "fsync(3) = 0"),
                9 => call(pid, "unlink(\"all\") = 0"),
                10 => {
                    call(pid, "close(3) = 0");
                    call(pid, "openat(AT_FDCWD, \"all\", O_RDWR|O_CREAT, 0644) = 3");
                }
                14 => call(pid, "ftruncate(4, 0) = 0"),
                _ => {}
            }
        }
    }
    let trace = file(&text, ".strace");
    for filesystem in ALL_FS {
        let mut spec = replay(trace.path(), Timing::Fast, filesystem, 24);
        spec.machine.boot.anon = sim::spec::Size(0);
        let r = run(&spec);
        assert_eq!(r.outcome, Outcome::Completed, "{filesystem:?}");
        assert_eq!(metric(&r, "writes"), 720.0, "{filesystem:?}");
    }
}

#[test]
fn files_that_do_not_fit_the_disk_are_refused() {
    let trace = file("0,1300000,4096\n", ".csv");
    let r = run(&replay(trace.path(), Timing::Fast, FsKind::Ext4, 64));
    match r.outcome {
        Outcome::Failed { error } => assert!(error.contains("no space"), "{error}"),
        other => panic!("{other:?}"),
    }
}
