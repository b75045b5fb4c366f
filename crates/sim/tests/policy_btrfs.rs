//! The switches of btrfs and of read bios in today's presets: each changes a run's result for the
//! reason given in its documentation.

mod common;

use common::{bare, disk, run, spec};
use mm::policy::{BtrfsTrees, BtrfsWriteback, FileReadahead};
use mm::{Policy, ZoneType};
use sim::account::TaskClass;
use sim::spec::{DiskKind, FsKind, Mount, RunSpec, SecondSpec, Size};
use sim::{Outcome, RunResult};

fn of(filesystem: FsKind, kind: DiskKind, change: impl FnOnce(&mut Policy)) -> RunSpec {
    let mut m = bare(ZoneType::Normal, 256 << 20);
    (m.cpus, m.hz, m.disk) = (1, 100, disk(kind));
    let mut s = spec(m, filesystem, "sleep 0");
    s.policy = Policy::linux_6_12();
    change(&mut s.policy);
    s
}

fn completed(s: &RunSpec) -> RunResult {
    let r = run(s);
    assert!(matches!(r.outcome, Outcome::Completed), "{:?}", r.outcome);
    r
}

fn fio(s: &mut RunSpec, job: &str) {
    s.workload = workload::fio::parse(job).expect("a job").script();
}

/// btrfs reads 4 MiB ahead, which is one bio where frames are adjacent: its pages are up to date
/// when all of it is read, and not with each request. Another filesystem's windows are no longer
/// than a request.
#[test]
fn a_bio_is_read_as_a_whole() {
    let longest = |filesystem, ahead| {
        let mut s = of(filesystem, DiskKind::Disk, |p| p.file_readahead = ahead);
        fio(
            &mut s,
            "[read]\nrw=read\nbs=64k\nsize=64m\nfadvise_hint=0\n",
        );
        let r = completed(&s);
        assert_eq!(r.counters["pgpgin"] >> 10, 64, "all of it, and sums");
        r.metrics["read_latency_p99"].value
    };
    use FileReadahead::{GivesUp, Together};
    let btrfs = [Together, GivesUp].map(|ahead| longest(FsKind::Btrfs, ahead));
    let xfs = [Together, GivesUp].map(|ahead| longest(FsKind::Xfs, ahead));
    assert!(btrfs[0] > 3.0 * btrfs[1], "{btrfs:?}");
    assert!(xfs[0] < 1.1 * xfs[1], "{xfs:?}");
}

/// Reading data compares checksums, whose leaves are read: one, of 16 KiB, for 4,070 pages.
#[test]
fn who_reads_data_reads_its_checksums() {
    let read = |trees| {
        let mut s = of(FsKind::Btrfs, DiskKind::Ssd, |p| p.btrfs_trees = trees);
        fio(&mut s, "[read]\nrw=read\nbs=64k\nsize=64m\n");
        completed(&s).counters["pgpgin"]
    };
    let leaves = (64 << 8) / 4070 + 1;
    assert_eq!(read(BtrfsTrees::NodeBios), (64 << 10) + leaves * 16);
    assert_eq!(read(BtrfsTrees::Rightmost), 64 << 10);
}

/// Adjacent nodes are one bio, with another one for their second copies, or each node is a bio and
/// its copy comes next: then a hard disk's head moves back and forth for each node.
#[test]
fn copies_of_nodes_take_the_head_back_and_forth() {
    let elapsed = |trees, fast| {
        let mut s = of(FsKind::Btrfs, DiskKind::Disk, |p| p.btrfs_trees = trees);
        s.params.set("btrfs_fast_checksum", fast).expect("0 or 1");
        s.machine.sysctl.dirty_ratio = 8;
        s.machine.sysctl.dirty_background_ratio = 4;
        let line = "dd if=/dev/zero of=a bs=64k count=3000 conv=fsync";
        s.workload = workload::parse(line).expect("a command line");
        completed(&s).metrics["elapsed"].value
    };
    for fast in [0.0, 1.0] {
        let (nodes, runs) = (
            elapsed(BtrfsTrees::NodeBios, fast),
            elapsed(BtrfsTrees::Ordered, fast),
        );
        assert!(nodes > 1.05 * runs, "{nodes} {runs} with {fast}");
    }
}

/// Extents go into the trees once their data is on the disk, so that the trees stay clean until
/// then on a slow disk. (Without reservations they go there when their writing begins.)
#[test]
fn extents_follow_their_data_into_the_trees() {
    let nodes = |writeback| {
        let mut s = of(FsKind::Btrfs, DiskKind::UsbFlash, |p| {
            p.btrfs_writeback = writeback
        });
        s.machine.sysctl.dirty_background_ratio = 1;
        let line = "dd if=/dev/zero of=a bs=64k count=128; sleep 0.05";
        s.workload = workload::parse(line).expect("a command line");
        completed(&s).counters["nr_dirtied"] - 8 * 256
    };
    let (after, at_once) = (
        nodes(BtrfsWriteback::BySize),
        nodes(BtrfsWriteback::Flusher),
    );
    assert!(after < at_once, "{after} {at_once}");
}

/// Extents are put into the trees by two more workers than there are CPUs, at most eight.
#[test]
fn extents_are_finished_by_a_pool_of_workers() {
    let of_filesystem = |cpus| {
        let mut s = of(FsKind::Btrfs, DiskKind::Ssd, |_| {});
        s.machine.cpus = cpus;
        let line = "dd if=/dev/zero of=a bs=64k count=128 conv=fsync";
        s.workload = workload::parse(line).expect("a command line");
        let r = completed(&s);
        let all = r.tasks.iter().find(|t| t.class == TaskClass::Filesystem);
        all.expect("threads of btrfs").tasks
    };
    let [one, two, four, six, eight] = [1, 2, 4, 6, 8].map(of_filesystem);
    assert_eq!(
        (two - one, four - one, six - one, eight - one),
        (1, 3, 5, 5)
    );
}

/// The engine has room for the workers of sixteen btrfs filesystems.
#[test]
fn many_btrfs_have_their_workers() {
    let mut s = of(FsKind::Btrfs, DiskKind::Ssd, |_| {});
    s.machine.cpus = 8;
    let second = |n| {
        Mount::second(SecondSpec {
            filesystem: FsKind::Btrfs,
            disk: disk(DiskKind::Ssd),
            mount: format!("mnt{n}"),
        })
    };
    s.machine.mounts = (1..16).map(second).collect();
    let line = "dd if=/dev/zero of=/mnt15/a bs=64k count=128 conv=fsync";
    s.workload = workload::parse(line).expect("a command line");
    completed(&s);
}

/// Each filesystem has its own workers: extents of a second btrfs go into its trees just as those
/// of the first one do.
#[test]
fn each_btrfs_finishes_its_own_extents() {
    let nodes = |path: &str| {
        let mut s = of(FsKind::Btrfs, DiskKind::Ssd, |_| {});
        s.machine.mounts = vec![Mount::second(SecondSpec {
            filesystem: FsKind::Btrfs,
            disk: disk(DiskKind::Ssd),
            mount: "mnt2".into(),
        })];
        s.machine.sysctl.dirty_background_ratio = 1;
        let line = format!("dd if=/dev/zero of={path} bs=64k count=128; sleep 1");
        s.workload = workload::parse(&line).expect("a command line");
        completed(&s).counters["nr_dirtied"] - 8 * 256
    };
    let [first, second] = ["a", "/mnt2/a"].map(nodes);
    assert!(second > 0 && first == second, "{first} {second}");
}

/// `btrfs_writeback = "by-size"`: extents up to 8 MiB and larger ones have separate chunks. The
/// flusher writes pieces of a stream that are close to 8 MiB, so the file lies in two places and is
/// read with seeks.
#[test]
fn sizes_of_extents_lie_apart() {
    let read = |writeback| {
        let mut s = of(FsKind::Btrfs, DiskKind::Disk, |p| {
            p.btrfs_writeback = writeback
        });
        s.machine.nodes[0].zones[0].size = Size(128 << 20);
        let job = "[global]\nfilename=f\nbs=64k\nsize=256m\n[w]\nrw=write\nend_fsync=1\n[r]\nstonewall\nrw=read\n";
        fio(&mut s, job);
        completed(&s).metrics["elapsed"].value
    };
    let [by_size, together] = [BtrfsWriteback::BySize, BtrfsWriteback::Preemptive].map(read);
    assert!(by_size > 1.04 * together, "{by_size} {together}");
}
