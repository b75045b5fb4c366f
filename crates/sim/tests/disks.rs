//! Machines with several filesystems, each on a disk of its own: files lie on the right disk,
//! results name the disks, and their accounts balance.

mod common;

use common::{ALL_FS, column, disk, machine, run, spec};
use mm::Policy;
use proptest::prelude::*;
use sim::spec::{DiskKind, DiskSpec, FsKind, Machine, Mount, RunSpec};
use sim::{Outcome, RunResult};

fn mount(mount: &str, filesystem: FsKind, disk: DiskSpec) -> Mount {
    Mount {
        mount: mount.into(),
        filesystem: Some(filesystem),
        disk,
        is_second: false,
    }
}

/// A hard disk on `/`, an SSD below `mnt` and a USB stick below a directory of the SSD.
fn three(mib: u64, kinds: [FsKind; 2]) -> Machine {
    let mut m = machine(mib);
    m.mounts = vec![
        mount("mnt", kinds[0], disk(DiskKind::Ssd)),
        mount("mnt/stick", kinds[1], disk(DiskKind::UsbFlash)),
    ];
    m
}

fn completed(s: &RunSpec) -> RunResult {
    let r = run(s);
    assert_eq!(r.outcome, Outcome::Completed, "{}", s.policy.name);
    r
}

const POINTS: [&str; 3] = ["/", "/mnt", "/mnt/stick"];

/// MB written to each of the disks.
fn written(r: &RunResult) -> [f64; 3] {
    POINTS.map(|p| r.metrics[&format!("disk_written:{p}")].value / 1e6)
}

/// A path's disk is that of the nearest mount point above it, on every filesystem.
#[test]
fn paths_decide_among_three_disks() {
    for (i, &first) in ALL_FS.iter().enumerate() {
        let next = |n: usize| ALL_FS[(i + n) % ALL_FS.len()];
        for (at, path) in ["x", "/mnt/x", "mnt/stick/a/x"].into_iter().enumerate() {
            let line = format!("dd if=/dev/zero of={path} bs=64k count=160 conv=fsync");
            let r = completed(&spec(three(64, [next(1), next(3)]), first, &line));
            for (disk, mb) in written(&r).into_iter().enumerate() {
                let fits = if disk == at { mb > 10.0 } else { mb < 1.0 };
                assert!(fits, "{first:?}: {mb} MB on {} for {path}", POINTS[disk]);
            }
        }
    }
}

/// sync(2) writes all filesystems, and files that exist before the run lie on their own disks.
#[test]
fn all_are_synced_and_read() {
    let line = "dd if=data of=x bs=64k; dd if=mnt/data of=mnt/x bs=64k; \
                dd if=mnt/stick/data of=mnt/stick/x bs=64k; \
                fs_mark -d a -d mnt/a -d mnt/stick/a -S2 -n 100 -s 8192 -w 4096 -k; \
                find a mnt/a mnt/stick/a";
    let mut s = spec(three(64, [FsKind::Xfs, FsKind::Btrfs]), FsKind::Ext4, line);
    for path in ["data", "mnt/data", "mnt/stick/data"] {
        let (path, len) = (path.into(), 4 << 20);
        s.workload.files.push(workload::ExistingFile { path, len });
    }
    let r = completed(&s);
    let read = POINTS.map(|p| r.metrics[&format!("disk_read:{p}")].value);
    assert!(read.iter().all(|b| (4e6..8e6).contains(b)), "{read:?}");
    assert!(written(&r).iter().all(|&mb| mb > 4.9), "{:?}", written(&r));
    assert!(r.metrics["names_walked"].value >= 300.0);
    let freed = POINTS.map(|p| r.metrics[&format!("inodes_freed_on:{p}")].unit);
    assert_eq!(freed, ["inodes"; 3]);
    for point in &POINTS[1..] {
        for name in [
            "write_throughput",
            "read_throughput",
            "queue",
            "inodes_freed_on",
        ] {
            let mut columns = r.series.columns.iter();
            assert!(
                columns.any(|c| c.name == name && c.scope == *point),
                "{name} {point}"
            );
        }
    }
}

/// Writing takes the slow disk's time on the slow disk, and neither disk's writer waits for the
/// other.
#[test]
fn a_slow_and_a_fast_disk() {
    let elapsed = |line: &str| {
        let mut m = machine(128);
        m.disk = disk(DiskKind::Ssd);
        m.mounts = vec![mount("slow", FsKind::Ext4, disk(DiskKind::UsbFlash))];
        completed(&spec(m, FsKind::Ext4, line)).metrics["elapsed"].value
    };
    let write = |path: &str| format!("dd if=/dev/zero of={path} bs=64k count=480 conv=fsync");
    let (fast, slow) = (elapsed(&write("x")), elapsed(&write("slow/x")));
    assert!(fast * 5.0 < slow, "{fast} and {slow} s");
    let both = elapsed(&format!("{} & {}; wait", write("slow/x"), write("x")));
    assert!(both < 1.3 * slow, "{both} and {slow} s");
}

/// With `disks_alike`, a hard disk beside an SSD gets the SSD's queue depth and has more pages
/// under writeback at a time.
#[test]
fn a_driver_may_register_all_disks_alike() {
    let mean = |alike: f64| {
        let mut m = machine(256);
        m.cpus = 1;
        m.disk = disk(DiskKind::Ssd);
        m.mounts = vec![mount("slow", FsKind::Xfs, disk(DiskKind::Disk))];
        let mut s = spec(
            m,
            FsKind::Xfs,
            "dd if=/dev/zero of=slow/x bs=64k count=3000",
        );
        s.policy = Policy::linux_6_12();
        s.sample_ns = 50_000_000;
        s.params.set("disks_alike", alike).expect("0 or 1");
        let r = completed(&s);
        let under_way = column(&r, "writeback", "global");
        under_way.iter().sum::<f64>() / under_way.len() as f64
    };
    let (own, alike) = (mean(0.0), mean(1.0));
    assert!(alike > 1.2 * own, "{own} {alike}");
}

/// More devices than three arrays of any size have.
#[test]
fn every_member_of_every_array_has_its_queue() {
    let mut m = machine(96);
    let array = DiskSpec {
        members: Some(16),
        ..disk(DiskKind::Raid0)
    };
    m.disk = array.clone();
    let places = ["b", "c", "d", "e"];
    m.mounts = places
        .iter()
        .zip(ALL_FS.iter().cycle())
        .map(|(place, &fs)| mount(place, fs, array.clone()))
        .collect();
    let write = |dir: &str| format!("dd if=/dev/zero of={dir}x bs=64k count=400 conv=fsync");
    let all = places.map(|p| write(&format!("{p}/"))).join(" & ");
    let r = completed(&spec(
        m,
        FsKind::Xfs,
        &format!("{all} & {}; wait", write("")),
    ));
    for point in ["/", "/b", "/c", "/d", "/e"] {
        let mb = r.metrics[&format!("disk_written:{point}")].value / 1e6;
        assert!(mb > 26.0, "{mb} MB on {point}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, max_shrink_iters: 20, ..ProptestConfig::default() })]

    /// Random loads over three filesystems: all lists, counters and logs pass every recount.
    #[test]
    fn nothing_is_lost_between_three(
        kinds in proptest::array::uniform3(proptest::sample::select(ALL_FS.to_vec())),
        policy in proptest::sample::select(vec![
            Policy::linux_3_0(), Policy::linux_3_16(), Policy::linux_4_9(),
        ]),
        sync in 0u8..3,
        mib in 32u64..56,
        seed in any::<u64>(),
    ) {
        let mark = |dir: &str, n: u32| format!(
            "fs_mark -d {dir} -D 4 -N 16 -n {n} -L 1 -S{sync} -s 6000 -w 4096 -k"
        );
        let line = format!(
            "{}; rm -r p & {}; find mnt/q & {}; rm -r mnt/stick/r & \
             dd if=/dev/zero of=mnt/s bs=64k count=200; dd if=mnt/s of=mnt/stick/t bs=64k & wait",
            mark("p", 200), mark("mnt/q", 300), mark("mnt/stick/r", 200),
        );
        let mut s = spec(three(mib, [kinds[1], kinds[2]]), kinds[0], &line);
        s.policy = policy;
        s.params.xfs_log_interval = 2e9;
        s.seed = seed;
        s.check_ns = 100_000_000;
        let r = run(&s);
        prop_assert!(
            matches!(r.outcome, Outcome::Completed | Outcome::TimeLimit | Outcome::Oom { .. }),
            "{:?}", r.outcome
        );
    }
}
