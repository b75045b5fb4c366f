//! umount: all data reaches the disk, nothing stays in memory, and the walk over an XFS's inodes,
//! with and without the patch series.

mod common;

use common::{ALL_FS, disk, machine, run, spec};
use mm::Policy;
use mm::policy::InodeReclaim;
use sim::spec::{DiskKind, FsKind, RunSpec, Size};
use sim::{Outcome, RunResult};

/// Makes small files by several processes; their inodes do not fit into memory. An unmount follows.
const CREATE: &str = "fs_mark -d a -d b -d c -d d -D 8 -N 64 -n 1500 -L 2 -S0 -s 4096 -w 4096 -k";

fn creating(policy: Policy, filesystem: FsKind, then: &str) -> RunSpec {
    let mut m = machine(40);
    m.cpus = 4;
    m.disk = disk(DiskKind::Disk);
    m.disk.capacity = Size(16 << 30);
    let mut s = spec(m, filesystem, &format!("{CREATE}; {then}"));
    s.policy = policy;
    s.check_ns = 500_000_000;
    s
}

fn with(inode_reclaim: InodeReclaim) -> Policy {
    Policy {
        inode_reclaim,
        ..Policy::linux_4_9()
    }
}

fn figures<const N: usize>(r: &RunResult, names: [&str; N]) -> [f64; N] {
    names.map(|name| r.metrics[&format!("umount_{name}")].value)
}

fn completed(s: &RunSpec) -> RunResult {
    let r = run(s);
    assert_eq!(r.outcome, Outcome::Completed);
    r
}

/// The times add up, only XFS has a walk, and a file read afterwards is read from the disk.
#[test]
fn nothing_is_in_memory_after_an_unmount() {
    for filesystem in ALL_FS {
        let again = "umount /; dd if=f of=/dev/null bs=1M";
        let mut s = creating(Policy::linux_4_9(), filesystem, "");
        s = RunSpec {
            workload: spec(
                s.machine.clone(),
                filesystem,
                &format!("dd if=/dev/zero of=f bs=1M count=4; {again}"),
            )
            .workload,
            ..s
        };
        let r = completed(&s);
        let [all, sync, evict] = figures(&r, ["time", "sync_time", "evict_time"]);
        let xfs = filesystem == FsKind::Xfs;
        assert_eq!(r.metrics.contains_key("umount_walk_time"), xfs);
        let rest = match xfs {
            true => figures(&r, ["log_time", "walk_time"]).iter().sum(),
            false => 0.0,
        };
        assert!((all - sync - evict - rest).abs() < 1e-3, "{filesystem:?}");
        assert!(sync > 0.01, "{filesystem:?}: 4 MiB were dirty");
        // The whole file, in kB.
        assert!(r.counters["pgpgin"] >= 4096, "{filesystem:?}");
    }
}

/// The walk of 4.9 begins at each group's first inode and frees all. As posted, the series makes it
/// begin at the group's cursor, where a shrinker's walk ended, so inodes before the cursor are
/// left.
#[test]
fn the_posted_walk_begins_at_the_cursor() {
    let of = |how| {
        let r = completed(&creating(with(how), FsKind::Xfs, "umount /"));
        let [inodes, left, walk, log] =
            figures(&r, ["inodes", "inodes_left", "walk_time", "log_time"]);
        assert!(inodes > 100.0, "{how:?}: {inodes}");
        assert!(walk >= 0.0 && log > 0.0, "{how:?}");
        (inodes, left)
    };
    let (_, left) = of(InodeReclaim::Blocking);
    assert_eq!(left, 0.0);
    let (inodes, left) = of(InodeReclaim::NonBlocking);
    assert!(left > 0.0 && left < inodes, "{left} of {inodes}");
}

/// A path that is no mount point, or is in use, is not unmounted.
#[test]
fn a_mount_point_that_nobody_uses_is_asked_for() {
    for (command, complains) in [
        (
            "dd if=/dev/zero of=a bs=1M count=1; umount a",
            "a (as a mount point)",
        ),
        (
            "dd if=/dev/zero of=a bs=4k count=100000 & sleep 0.1; umount /; wait",
            "busy",
        ),
    ] {
        let mut s = creating(Policy::linux_4_9(), FsKind::Xfs, "");
        s.workload = spec(s.machine.clone(), FsKind::Xfs, command).workload;
        let Outcome::Failed { error } = run(&s).outcome else {
            panic!("{command}");
        };
        assert!(error.contains(complains), "{error}");
    }
}
