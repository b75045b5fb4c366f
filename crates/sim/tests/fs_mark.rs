//! fs_mark in the virtual world.

mod common;

use common::{ALL_FS, column, disk, machine, node, run, spec};
use mm::Policy;
use mm::policy::ReclaimWriteback;
use mm::world::event::Event;
use sim::run::traced;
use sim::spec::{DiskKind, FsKind, RunSpec, Size};
use sim::{Control, Outcome, RunResult};

const MIB: f64 = 1_048_576.0;

fn fs_mark(filesystem: FsKind, options: &str) -> RunSpec {
    let mut m = machine(64);
    m.disk = disk(DiskKind::Raid0);
    m.disk.capacity = Size(64 << 30);
    spec(m, filesystem, &format!("fs_mark {options}"))
}

fn metric(r: &RunResult, name: &str) -> f64 {
    assert_eq!(r.outcome, Outcome::Completed, "{:?}", r.outcome);
    r.metrics[name].value
}

/// Four processes, with a recount every 50 ms: pages match bytes, and a second run gives the same
/// result.
#[test]
fn four_processes_on_every_filesystem() {
    let options = "-d a -d b -d c -d d -D 10 -N 5 -n 8 -L 3 -S0 -s 1048576";
    for filesystem in ALL_FS {
        let spec = fs_mark(filesystem, options);
        let r = run(&spec);
        assert_eq!(metric(&r, "files"), 96.0, "{filesystem:?}");
        assert_eq!(metric(&r, "bytes"), 96.0 * MIB);
        assert_eq!(metric(&r, "iterations"), 3.0);
        // Each page is written once; the changes of names are far fewer.
        let dirtied = r.counters["nr_dirtied"];
        // exfat zeroes the whole cluster, of 128 KiB, that each of 44 directories begins with.
        let names = match filesystem {
            FsKind::Exfat => 44 * 32,
            _ => 324,
        };
        assert!(
            (24_576..24_576 + names).contains(&dirtied),
            "{filesystem:?}: {dirtied}"
        );
        let wall = 96.0 / metric(&r, "elapsed");
        let sum = metric(&r, "files_per_second_mean");
        assert!(
            sum > wall,
            "{filesystem:?}: {sum} files/s, {wall} of the wall"
        );
        let [min, max] = ["min", "max"].map(|w| metric(&r, &format!("files_per_second_{w}")));
        assert!(min <= sum && sum <= max);
        let again = run(&spec);
        assert_eq!((r.digest, &r.metrics), (again.digest, &again.metrics));
    }
}

/// 3072 bytes written in pieces of 1000 are one page, dirtied once.
#[test]
fn pages_follow_from_bytes() {
    let pages = |options: &str| {
        let r = run(&fs_mark(FsKind::Xfs, &format!("-d x -L 1 -S0 {options}")));
        metric(&r, "files");
        r.counters["nr_dirtied"]
    };
    assert_eq!(pages("-n 7 -s 3072 -w 1000"), 7);
    assert_eq!(pages("-n 7 -s 8193 -w 4096"), 21);
    assert_eq!(pages("-n 7 -s 0"), 0);
    // Files with the same name are one file: its page is truncated and made again.
    assert_eq!(pages("-n 7 -s 4096 -r 0"), 7);
}

fn left(r: &RunResult) -> [u64; 3] {
    ["nr_dirty", "nr_writeback", "nr_file_pages"].map(|c| r.counters[c])
}

#[test]
fn kept_files_stay_and_others_go() {
    for filesystem in [FsKind::Xfs, FsKind::Ext4] {
        let of = |keep| {
            let r = run(&fs_mark(
                filesystem,
                &format!("-d x -n 10 -s 1048576 -S0 {keep}"),
            ));
            metric(&r, "files");
            left(&r)
        };
        let ([_, _, kept], [dirty, writeback, gone]) = (of("-k"), of(""));
        assert!(kept >= 2560, "{filesystem:?}: {kept} pages of kept files");
        // The remaining pages are those of directories and inode tables.
        assert!(dirty + writeback + gone < 16, "{filesystem:?}: {gone}");
        let [_, _, looped] = of("-L 1");
        assert!(looped >= 2560);
    }
}

#[test]
fn sync_methods_leave_nothing_dirty() {
    for filesystem in [FsKind::Xfs, FsKind::Ext4] {
        let mut elapsed = Vec::new();
        for method in 0..=6 {
            let options = format!("-d x -d y -n 6 -s 262144 -k -S{method}");
            let r = run(&fs_mark(filesystem, &options));
            let [dirty, writeback, _] = left(&r);
            let busy = dirty + writeback;
            if method == 0 {
                assert!(busy >= 12 * 64, "{filesystem:?} -S0: {busy} pages");
            } else {
                // On ext4, inode tables and directories are left to the flusher.
                assert!(busy <= 16, "{filesystem:?} -S{method}: {busy} pages");
            }
            elapsed.push(metric(&r, "elapsed"));
        }
        let [none, inband, sync_first, .., sync_all] = elapsed[..] else {
            panic!("{elapsed:?}")
        };
        assert!(
            none < 0.1 && inband > 5.0 * none,
            "{filesystem:?}: {elapsed:?}"
        );
        // One sync of everything costs fewer waits than an fsync of each file.
        assert!(sync_first < inband && sync_first < sync_all, "{elapsed:?}");
    }
}

/// User time is spent on names and clock readings, system time on the rest; together they are less
/// than the time of two CPUs.
#[test]
fn cpu_time_is_split() {
    let options = "-d a -d b -n 20 -s 1048576 -S0 -L 2";
    let r = run(&fs_mark(FsKind::Xfs, options));
    let [user, system, elapsed] = ["user_time", "system_time", "elapsed"].map(|n| metric(&r, n));
    // 80 files: 64 writes, open and close with two clock readings each, a name, and 3 readings more
    // for each process and loop.
    let clock = sim::Params::default().cost_gettimeofday * 1e-9;
    let expected = 80.0 * (3e-6 + (66.0 * 2.0 + 1.0) * clock) + 4.0 * 3.0 * clock;
    assert!(
        (user / expected - 1.0).abs() < 1e-6,
        "{user} s, {expected} s"
    );
    // 20 480 pages cost at least the time of copying them.
    let copies = 20_480.0 * sim::Params::default().cost_copy * 1e-9;
    assert!(
        system > copies && system < 3.0 * copies,
        "{system} s, {copies} s"
    );
    assert!(user + system < 2.0 * elapsed);
}

/// 128 processes make one file each, three times: far more files than are ever open at once.
#[test]
fn a_hundred_and_twenty_eight_processes() {
    let dirs: String = (0..128).map(|i| format!("-d D{i} ")).collect();
    for filesystem in [FsKind::Xfs, FsKind::Ext4] {
        let options = format!("{dirs} -D 100 -N 1 -n 1 -L 3 -S0 -s 524288");
        let r = run(&fs_mark(filesystem, &options));
        assert_eq!(metric(&r, "files"), 384.0);
        assert!(r.counters["nr_dirtied"] >= 384 * 128);
    }
}

/// More files than the engine once had room for.
#[test]
fn seventy_thousand_files() {
    let mut s = fs_mark(FsKind::Xfs, "-d x -D 100 -N 100 -n 70000 -L 1 -S0 -s 1");
    s.check_ns = 0;
    let r = run(&s);
    assert_eq!(metric(&r, "files"), 70_000.0);
    assert_eq!(r.counters["nr_dirtied"], 70_000);
}

#[test]
fn the_clock_differs_between_seeds_and_a_full_disk_fails() {
    let mut s = fs_mark(FsKind::Xfs, "-d x -D 100 -N 1 -n 2 -L 1 -S0 -s 4096");
    let digest = |s: &RunSpec| run(s).digest;
    let first = digest(&s);
    s.seed = 8;
    assert_ne!(digest(&s), first);
    let mut s = fs_mark(FsKind::Ext4, "-d x -n 2000 -L 1 -S0 -s 2147483647");
    s.machine.disk.capacity = Size(1 << 30);
    match run(&s).outcome {
        Outcome::Failed { error } => assert!(error.contains("no space"), "{error}"),
        other => panic!("{other:?}"),
    }
}

/// Returns an XFS load of four writers on four nodes of 64 MiB, all CPUs on the first, which is
/// more than memory and twice what the disks write meanwhile.
fn four_nodes(policy: Policy) -> RunSpec {
    let mut m = machine(64);
    m.cpus = 4;
    m.nodes = vec![node(64), node(64), node(64), node(64)];
    m.nodes[0].cpus = vec![0, 1, 2, 3];
    m.disk = disk(DiskKind::Raid0);
    m.disk.capacity = Size(64 << 30);
    let line = "fs_mark -d a -d b -d c -d d -D 10 -N 5 -n 30 -L 1 -S0 -s 4194304 -k";
    let mut s = spec(m, FsKind::Xfs, line);
    s.policy = policy;
    s.sample_ns = 20_000_000;
    s.check_ns = 1_000_000_000;
    s.check_full = false;
    s
}

/// Returns the share of each node's pages that is dirty or under writeback in the first sample in
/// which no node is above its high watermark, and the most that all of memory had in any sample,
/// against its limit.
fn dirty_when_full(r: &RunResult) -> ([f64; 4], f64) {
    assert_eq!(r.outcome, Outcome::Completed);
    let of = |what: &str, n: u32| column(r, what, &format!("node{n}/DMA32"));
    let full = |t: usize| (0..4).all(|n| of("free", n)[t] <= of("high", n)[t]);
    let samples = r.series.t.len();
    let at = (0..samples).find(|&t| full(t)).expect("memory is full");
    let share = |n: u32| (of("dirty", n)[at] + of("writeback", n)[at]) / 16384.0;
    let all = (0..samples).map(|t| {
        let dirty = column(r, "dirty", "global")[t] + column(r, "writeback", "global")[t];
        dirty / column(r, "dirty_limit", "global")[t].max(1.0)
    });
    ([0, 1, 2, 3].map(share), all.fold(0.0, f64::max))
}

/// Nodes are filled in the order of their distance, the last one when the files of the first are on
/// the disk already; dirtiers are throttled by the dirty pages of all memory, so the last node may
/// be far dirtier than memory as a whole. A limit of all memory that is lower ends that.
#[test]
fn the_node_that_is_filled_last_is_dirty_when_reclaim_begins() {
    let r = run(&four_nodes(Policy::linux_3_0()));
    let half = |n: u32| {
        let free = column(&r, "free", &format!("node{n}/DMA32"));
        free.iter().position(|&pages| pages < 8192.0)
    };
    let order: Vec<_> = (0..4).map(|n| half(n).expect("filled")).collect();
    assert!(order.is_sorted() && order[0] < order[3], "{order:?}");
    let (shares, most) = dirty_when_full(&r);
    // All of memory may be dirty to 40 %.
    assert!(shares.is_sorted() && shares[3] > 0.5, "{shares:?}");
    assert!(shares[3] > 2.0 * shares[0], "{shares:?}");
    assert!(most < 1.2, "{most} of the limit of all memory");
    let mut strict = four_nodes(Policy::linux_3_0());
    strict.machine.sysctl.dirty_ratio = 5;
    strict.machine.sysctl.dirty_background_ratio = 2;
    let (limited, _) = dirty_when_full(&run(&strict));
    assert!(limited[3] < shares[3] / 2.0, "{limited:?}");
}

/// Returns the mean time in µs that full waits for congestion lasted, and their number.
fn congestion_waits(array: bool) -> (f64, usize) {
    let mut s = fs_mark(
        FsKind::Ext4,
        "-d a -d b -d c -d d -D 10 -N 5 -n 60 -L 1 -S0 -s 2097152 -k",
    );
    s.policy = Policy {
        kswapd_writeback: ReclaimWriteback::Never,
        direct_writeback: ReclaimWriteback::Never,
        ..Policy::linux_3_0()
    };
    // The members together are as fast as the disk.
    let rate = if array { 40.0 } else { 160.0 };
    if !array {
        s.machine.disk.kind = DiskKind::Disk;
    }
    for key in ["disk_inner_bandwidth", "disk_outer_bandwidth"] {
        s.params.set(key, rate).expect("MB/s");
    }
    s.check_ns = 0;
    let (_, recorded) = traced(&s, &Control::default());
    let waits: Vec<f64> = (recorded.events.iter())
        .filter_map(|(_, _, event)| match event {
            Event::CongestionWait { usec_delayed, .. } => Some(*usec_delayed as f64),
            _ => None,
        })
        .collect();
    (
        waits.iter().sum::<f64>() / waits.len().max(1) as f64,
        waits.len(),
    )
}

/// Tasks in `congestion_wait` listen to no device in particular. Of four members one has room
/// nearly always, and each request that ends there wakes all of them; a single disk that is full
/// wakes them only when it drains.
#[test]
fn one_member_with_room_ends_every_wait_for_congestion() {
    let (array, disk) = (congestion_waits(true), congestion_waits(false));
    assert!(array.1 > 0 && disk.1 > 0, "{array:?} {disk:?}");
    assert!(array.0 < 0.8 * disk.0, "{array:?} {disk:?}");
}
