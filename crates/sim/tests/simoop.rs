//! simoop on a small machine: its figures agree with each other, and a repeated run gives the same
//! result.

mod common;

use common::{machine, run, spec};
use sim::spec::{FsKind, Mount, RunSpec, Size};
use sim::{Outcome, RunResult};

/// 512 files of 2 MiB, four workers whose memory is more than half of the machine's.
fn small(options: &str) -> RunSpec {
    let line = format!("simoop -t 4 -m 8 -M 8 -n 512 -i 1 {options} tree");
    let mut s = spec(machine(96), FsKind::Xfs, &line);
    s.machine.disk.capacity = Size(16 << 30);
    s.sample_ns = 1_000_000_000;
    s
}

fn metric(r: &RunResult, name: &str) -> f64 {
    let found = r.metrics.get(name);
    found
        .unwrap_or_else(|| panic!("{name}: {:?}", r.metrics))
        .value
}

#[test]
fn units_are_reads_writes_and_allocations() {
    let s = small("-r 8 -w 3 -C 1 -D 1");
    let r = run(&s);
    assert_eq!(r.outcome, Outcome::Completed);
    let get = |name: &str| metric(&r, name);
    let units = get("work_units");
    assert!(units > 8.0, "{units} units");
    // Each worker may be in the middle of a unit at the beginning and at the end.
    for kind in ["reads", "writes", "allocations"] {
        assert!(
            (get(kind) - units).abs() <= 4.0,
            "{kind}: {} of {units}",
            get(kind)
        );
    }
    assert!((get("work_rate_avg") / (units / 8.0) - 1.0).abs() < 1e-3);
    assert!(get("work_rate_p50") <= get("work_rate_p95"));
    // A closed system: all four workers are always inside a unit, and the time not measured is
    // short.
    let timed: f64 = ["read", "write", "allocation"]
        .iter()
        .map(|kind| get(&format!("{kind}_latency_mean")) / 1e6)
        .sum();
    let workers = timed * get("work_rate_avg");
    assert!((3.0..4.2).contains(&workers), "{workers} workers");
    for kind in ["read", "write", "allocation"] {
        let at = |p: u32| get(&format!("{kind}_latency_p{p}"));
        assert!(at(50) <= at(95) && at(95) <= at(99));
    }
    // Its other work reaches the kernel, too: memory is full, and the tree's files were read.
    assert!(r.counters["pgfault"] as f64 >= (units - 4.0) * 2048.0);
    assert!(get("elapsed") >= 11.0 && get("elapsed") < 20.0);
    let series = |name: &str| {
        let found = r.series.columns.iter().find(|c| c.name == name);
        &found.unwrap_or_else(|| panic!("no column {name}")).values
    };
    assert_eq!(series("work_rate").len(), r.series.t.len());
    assert!(series("work_rate").iter().any(|v| *v > 0.0));
    assert_eq!(series("alloc_stall_rate").len(), r.series.t.len());
}

#[test]
fn a_run_repeats() {
    let s = small("-r 4 -w 1 -D 1");
    let (a, b) = (run(&s), run(&s));
    assert_eq!(a.outcome, Outcome::Completed);
    assert_eq!(a.digest, b.digest);
    assert_eq!((a.metrics, a.counters), (b.metrics, b.counters));
    assert_eq!(a.series, b.series);
}

/// With several I/O threads a step is the work of all of them at the same time, timed as a whole.
#[test]
fn a_step_is_that_of_all_io_threads() {
    let r = run(&small("-r 10 -T 3"));
    assert_eq!(r.outcome, Outcome::Completed);
    let (reads, units) = (metric(&r, "reads"), metric(&r, "work_units"));
    assert!(
        units > 2.0 && (reads - units).abs() <= 4.0,
        "{reads} in {units}"
    );
    // Three reads and three writes of 1 MB with their buffers, 8 MB allocated and 8 MB of the
    // working set, which existed before; and the unfinished units of four workers at the end.
    let per_unit = r.moved as f64 / f64::from(1 << 20) / units;
    let least = 2.0 * (3.0 + 3.0) + 8.0 + 8.0;
    let most = (least * (units + 4.0) + 4.0 * 8.0) / units;
    assert!((least..=most).contains(&per_unit), "{per_unit} MB a unit");
}

/// Removed files leave changed inodes, to be freed or reused; kept files do not.
#[test]
fn temporary_files_are_removed_unless_kept() {
    let counts = |options: &str| {
        let r = run(&small(&format!("-r 10 -T 3 {options}")));
        assert_eq!(r.outcome, Outcome::Completed, "{options}");
        r.counters["xfs_inodes_recycled"] + r.counters["xfs_inodes_reclaimed"]
    };
    let (removed, kept) = (counts(""), counts("--keep 1"));
    assert!(removed > 12 && kept < removed / 4, "{removed} and {kept}");
}

/// More threads than a world once had room for, each with a buffer of 1 MB; every filesystem can
/// lay out the tree.
#[test]
fn hundreds_of_threads_and_every_filesystem() {
    for fs in common::ALL_FS {
        let line = "simoop -t 520 -m 0 -M 0 -R 0 -C 28 -D 2 -n 64 -f 1 -r 1 -i 1 a b/";
        let mut s = spec(machine(768), fs, line);
        (s.sample_ns, s.check_ns) = (0, 1_000_000_000);
        let r = run(&s);
        assert_eq!(r.outcome, Outcome::Completed, "{fs:?}");
        // The single daemon of FUSE finishes no write that soon.
        assert!(r.moved > 0, "{fs:?}");
    }
}

/// simoop as its author ran it, on `/hammer/*`: the paths are mount points of sixteen filesystems,
/// and the files of each lie on its own disk, none on the parent's.
#[test]
fn the_files_of_many_mounts_lie_on_their_own_disks() {
    let mounts: Vec<String> = (1..=16).map(|n| format!("hammer/{n}")).collect();
    let paths: Vec<String> = mounts.iter().map(|m| format!("/{m}")).collect();
    let paths = paths.join(" ");
    let line = format!("simoop -t 32 -m 1 -M 1 -f 1 -n 64 -i 1 -r 4 -w 1 -T 4 -D 2 {paths}");
    let mut m = machine(256);
    m.disk.capacity = Size(1 << 30);
    m.mounts = mounts
        .iter()
        .map(|mount| Mount {
            mount: mount.clone(),
            filesystem: None,
            disk: m.disk.clone(),
            is_second: false,
        })
        .collect();
    let r = run(&spec(m, FsKind::Xfs, &line));
    assert_eq!(r.outcome, Outcome::Completed);
    let read = |mount: &str| metric(&r, &format!("disk_read:/{mount}"));
    for mount in &mounts {
        assert!(read(mount) >= 1e6, "{mount}: {}", read(mount));
    }
    assert!(read("") < 1e6, "/: {}", read(""));
}
