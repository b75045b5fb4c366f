//! fio job files in the virtual world.

mod common;

use common::{ALL_FS, disk, machine, run, spec};
use mm::Policy;
use mm::policy::WritebackThrottling;
use sim::spec::{DiskKind, FsKind, RunSpec};
use sim::{Outcome, RunResult};

fn jobs(text: &str, filesystem: FsKind) -> RunSpec {
    let mut m = machine(64);
    m.disk = disk(DiskKind::Ssd);
    let script = workload::fio::parse(text).unwrap().script();
    RunSpec {
        workload: script,
        ..spec(m, filesystem, "dd if=/dev/zero of=x count=1")
    }
}

fn metric(r: &RunResult, name: &str) -> f64 {
    assert_eq!(r.outcome, Outcome::Completed, "{:?}", r.outcome);
    r.metrics[name].value
}

#[test]
fn mixed_jobs_run_on_every_filesystem() {
    let text = "\
[global]
size=16m
[reader]
rw=randread
random_distribution=zipf:1.2
[writer]
rw=randwrite
bs=16k
fsync=50
numjobs=2
[log]
stonewall
rw=write
bs=1000
size=1m
end_fsync=1
";
    for filesystem in ALL_FS {
        let spec = jobs(text, filesystem);
        let r = run(&spec);
        assert_eq!(metric(&r, "reads"), 4096.0, "{filesystem:?}");
        assert_eq!(metric(&r, "writes"), 2048.0 + 1049.0);
        assert_eq!(metric(&r, "write_bytes"), 33.0 * f64::from(1 << 20));
        assert_eq!(metric(&r, "syncs"), 40.0);
        let again = run(&spec);
        assert_eq!((r.digest, &r.metrics), (again.digest, &again.metrics));
    }
}

/// An SSD serves a deep queue faster, and direct I/O does not touch the page cache.
#[test]
fn a_deeper_queue_is_faster() {
    let job =
        |depth| format!("[a]\nrw=randread\nsize=16m\ndirect=1\nioengine=libaio\niodepth={depth}\n");
    let elapsed = |depth| {
        let r = run(&jobs(&job(depth), FsKind::Xfs));
        assert_eq!(metric(&r, "read_from_disk"), 0.0);
        assert_eq!(metric(&r, "reads"), 4096.0);
        metric(&r, "elapsed")
    };
    let (one, eight) = (elapsed(1), elapsed(8));
    assert!(eight < one / 2.0, "{one} s with one, {eight} s with eight");
}

#[test]
fn rates_and_times_hold() {
    let r = run(&jobs(
        "[a]\nrw=read\nsize=8m\nrate=1m\n[b]\nrw=randread\nsize=1m\ntime_based\nruntime=3",
        FsKind::Ext4,
    ));
    let elapsed = metric(&r, "elapsed");
    assert!((7.9..8.1).contains(&elapsed), "{elapsed}");
}

/// The part of a clock reading's cost that is paid with the next call falls between two readings;
/// the run takes the same time.
#[test]
fn looks_that_are_paid_later_are_in_what_they_time() {
    let write = |later: f64| {
        let mut s = jobs("[log]\nrw=write\nbs=4k\nsize=4m\n", FsKind::Ext4);
        s.params.set("cost_look", 406.0).expect("in its range");
        s.params
            .set("cost_look_later", later)
            .expect("in its range");
        let r = run(&s);
        (metric(&r, "write_latency_p50"), r.sim_ns)
    };
    let ((at_once, first), (later, second)) = (write(0.0), write(150.0));
    assert!(
        (at_once + 0.3..at_once + 0.7).contains(&later),
        "{at_once} {later}"
    );
    assert!(first.abs_diff(second) < first / 20, "{first} {second}");
}

/// Returns the reads per second, and their 99th percentile in microseconds, of four jobs that read
/// and write at random over a file of four times the memory. The drive begins with little of its
/// buffer free, so that its dies collect garbage from the first second on.
fn mixed_on_nvme(throttling: WritebackThrottling, fill: f64) -> (f64, f64) {
    let text = "[a]\nrw=randrw\nbs=4k\nsize=64m\nnumjobs=4\ntime_based\nruntime=4\n";
    let mut s = jobs(text, FsKind::Ext4);
    s.policy = Policy::linux_6_12();
    s.policy.writeback_throttling = throttling;
    s.machine.disk = disk(DiskKind::Nvme);
    let own = [("nvme_write_buffer", 1e6), ("nvme_fill", fill)];
    for (name, value) in own {
        s.machine.disk.params.insert(name.to_owned(), value);
    }
    let r = run(&s);
    (
        metric(&r, "reads") / metric(&r, "elapsed"),
        metric(&r, "read_latency_p99"),
    )
}

/// On a drive that lets reads overtake writes, throttling writes neither helps nor costs reads,
/// with garbage collection at work.
#[test]
fn throttling_costs_no_reads_on_nvme() {
    for fill in [0.7, 0.95] {
        let (held, held_p99) = mixed_on_nvme(WritebackThrottling::WbtSwap, fill);
        let (free, free_p99) = mixed_on_nvme(WritebackThrottling::None, fill);
        assert!((held / free - 1.0).abs() < 0.1, "{fill}: {held} {free}");
        assert!(
            held_p99 < 1000.0 && free_p99 < 1000.0,
            "{held_p99} {free_p99}"
        );
        assert!(held > 10_000.0, "{held}");
    }
}

/// A volume with a bucket of 2,000 credits serves reads at the burst rate until it is empty, and
/// then at its sustained rate; a volume without a bucket never goes faster than that.
#[test]
fn a_volume_bursts_until_its_credits_are_spent() {
    let text = "[a]\nrw=randread\ndirect=1\nsize=64m\nioengine=libaio\niodepth=16\ntime_based\nruntime=4\n";
    let reads = |burst: f64| {
        let mut s = jobs(text, FsKind::Xfs);
        s.machine.disk = disk(DiskKind::Volume);
        let own = [
            ("volume_iops", 500.0),
            ("volume_burst_iops", burst),
            ("volume_burst_credits", 2000.0),
        ];
        for (name, value) in own {
            s.machine.disk.params.insert(name.to_owned(), value);
        }
        metric(&run(&s), "reads")
    };
    let (none, bursts) = (reads(0.0), reads(3000.0));
    assert!((1980.0..2060.0).contains(&none), "{none}");
    assert!((3900.0..4060.0).contains(&bursts), "{bursts}");
}

/// With `invalidate=1` a later job reads its file from the device again, as it drops the pages of
/// the earlier one; without it they are found.
#[test]
fn a_later_job_drops_cached_pages() {
    let read = |invalidate: &str| {
        let text = format!(
            "[global]\nfilename=f\nsize=8m\n[a]\nrw=read\n[b]\nstonewall\nrw=read\n{invalidate}\n"
        );
        metric(&run(&jobs(&text, FsKind::Ext4)), "read_from_disk")
    };
    let (dropped, kept) = (read("invalidate=1"), read(""));
    assert!((1.9..2.1).contains(&(dropped / kept)), "{dropped} {kept}");
}

/// Verification reads what was written from the device, and O_SYNC makes a write wait for it.
#[test]
fn verified_and_synchronous_writes_reach_the_device() {
    let text = "[a]\nrw=write\nsize=2m\nverify=crc32c\n";
    let r = run(&jobs(text, FsKind::Xfs));
    assert_eq!(metric(&r, "reads"), 512.0);
    assert!(metric(&r, "read_from_disk") > 1.9 * f64::from(1 << 20));
    let median = |keys: &str| {
        let text = format!("[a]\nrw=write\nsize=2m\n{keys}\n");
        metric(&run(&jobs(&text, FsKind::Ext4)), "write_latency_p50")
    };
    let (cached, synced) = (median(""), median("sync=1"));
    assert!(synced > 5.0 * cached, "{cached} {synced}");
}

/// `io_uring` keeps requests in flight with the page cache, too; mapped files are read by faults.
#[test]
fn engines_differ_in_what_they_wait_for() {
    let elapsed = |engine: &str| {
        let text = format!("[a]\nrw=randread\nsize=8m\niodepth=8\nioengine={engine}\n");
        metric(&run(&jobs(&text, FsKind::Ext4)), "elapsed")
    };
    let (psync, uring) = (elapsed("psync"), elapsed("io_uring"));
    assert!(uring < psync / 2.0, "{psync} {uring}");
    let mapped = run(&jobs(
        "[a]\nrw=randread\nsize=8m\nioengine=mmap\n",
        FsKind::Ext4,
    ));
    assert_eq!(metric(&mapped, "reads"), 2048.0);
    assert!(metric(&mapped, "read_from_disk") >= f64::from(8 << 20));
}

/// Jobs that wait for another job, and jobs that end with another, do so in time.
#[test]
fn jobs_are_tied_together() {
    let text = "[a]\nrw=read\nsize=1m\ntime_based\nruntime=2\nexitall\n\
                [b]\nwait_for=a\nrw=read\nsize=1m\nfilename=g\nnew_group\n\
                [c]\nrw=randread\nsize=1m\ntime_based\nruntime=60\nthinktime=1ms\nexit_what=all\nexitall\n";
    let r = run(&jobs(text, FsKind::Ext4));
    let elapsed = metric(&r, "elapsed");
    // The group of `a` is its own: `c` runs to its end.
    assert!((59.9..60.2).contains(&elapsed), "{elapsed}");
    let text = text.replace("exitall\n[b]", "exitall\nexit_what=all\n[b]");
    let r = run(&jobs(&text, FsKind::Ext4));
    let elapsed = metric(&r, "elapsed");
    assert!((1.9..2.2).contains(&elapsed), "{elapsed}");
}
