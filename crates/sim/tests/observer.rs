//! Observing a run changes nothing in it: samples, recounts, the page tracker and recorded events
//! leave the same history, whatever their interval.

mod common;

use common::{ALL_FS, disk, machine, run, spec, swap};
use mm::Policy;
use proptest::prelude::*;
use sim::spec::{Change, DiskKind, FsKind, RunSpec, Size};
use sim::{Control, RunResult};
use workload::ExistingFile;

/// Returns everything that a run produced except the observer's own reports.
fn history(r: &RunResult) -> String {
    format!(
        "{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{} {:?} {} {:016x}\n{:?}",
        r.outcome,
        r.metrics,
        r.counters,
        r.reclaim,
        r.tasks,
        r.waits,
        r.moved,
        r.notes,
        r.sim_ns,
        r.digest,
        r.alloc_latency
    )
}

/// The same run with other observers.
fn watched(of: &RunSpec, sample_ns: u64, check_ns: u64, track_pages: bool) -> RunSpec {
    RunSpec {
        sample_ns,
        check_ns,
        track_pages,
        ..of.clone()
    }
}

fn same_for_every_observer(of: &RunSpec, intervals: &[(u64, u64)]) {
    let alone = run(&watched(of, 0, 0, false));
    let expected = history(&alone);
    assert!(alone.series.t.is_empty());
    for &(sample_ns, check_ns) in intervals {
        let r = run(&watched(of, sample_ns, check_ns, check_ns > 0));
        assert_eq!(history(&r), expected, "{sample_ns} {check_ns}");
        assert!(sample_ns > 0 || r.series.t.is_empty());
    }
    let (r, _) = sim::run::traced(&watched(of, 3_000_017, 0, true), &Control::default());
    assert_eq!(history(&r), expected, "with every event recorded");
}

const INTERVALS: [(u64, u64); 3] = [(1_000_003, 0), (100_000_000, 70_000_001), (0, 9_999_991)];

#[test]
fn looking_changes_nothing_on_any_filesystem() {
    for fs in ALL_FS {
        let command = "dd if=/dev/zero of=a bs=64k count=700 & dd if=r of=/dev/null bs=8k";
        let mut s = spec(machine(40), fs, command);
        s.machine.swap = Some(swap(8 << 20));
        s.workload.files.push(ExistingFile {
            path: "r".into(),
            len: 20 << 20,
        });
        same_for_every_observer(&s, &INTERVALS);
    }
}

#[test]
fn looking_changes_nothing_for_one_cpu_or_many() {
    for cpus in [1, 5] {
        for policy in [Policy::linux_2_6_37(), Policy::linux_4_9()] {
            let command = "fs_mark -d a -d b -d c -n 300 -L 2 -s 16384 -S0 -t 3";
            let mut s = spec(machine(48), FsKind::Xfs, command);
            s.machine.disk = disk(DiskKind::Ssd);
            s.machine.cpus = cpus;
            s.policy = policy;
            same_for_every_observer(&s, &INTERVALS);
        }
    }
}

/// The same run, with its machine's sysctls written again at the given times.
fn written_again(of: &RunSpec, times: impl IntoIterator<Item = u64>) -> RunSpec {
    let again = |at_ns| Change {
        at_ns,
        written: vec![("vm.swappiness".to_owned(), "as it is".to_owned())],
        sysctl: of.machine.sysctl.clone(),
    };
    RunSpec {
        changes: times.into_iter().map(again).collect(),
        ..of.clone()
    }
}

fn same_where_nothing_is_written(of: &RunSpec, times: &[u64]) {
    let expected = history(&run(of));
    let mut r = run(&written_again(of, times.iter().copied()));
    assert_eq!(r.notes.len(), times.len(), "each change is said");
    r.notes.clear();
    assert_eq!(history(&r), expected, "written at {times:?}");
}

/// Writing a sysctl's current value changes nothing: it is no event, which would end the running
/// task's turn, and it does not replace the defaults of the policy's kernel
/// (`watermark_scale_factor`, `watermark_boost_factor`).
#[test]
fn a_sysctl_that_is_written_again_changes_nothing() {
    for cpus in [1, 2, 5] {
        for policy in [Policy::linux_2_6_37(), Policy::linux_6_12()] {
            let command = "dd if=/dev/zero of=a bs=64k count=900 & fs_mark -d b -n 200 -L 2 -s 16384 -S5 & dd if=/dev/zero of=c bs=4097 count=3000; wait";
            let mut s = spec(machine(40), FsKind::Btrfs, command);
            s.machine.cpus = cpus;
            s.machine.swap = Some(swap(8 << 20));
            s.policy = policy;
            same_where_nothing_is_written(&s, &[0, 1_000_000, 37_000_001, 37_000_001, 250_000_000]);
            let often: Vec<u64> = (0..400).map(|nth| nth * 1_300_007).collect();
            same_where_nothing_is_written(&s, &often);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn looking_changes_nothing_at_any_interval(
        sample_ns in 100_000u64..2_000_000_000,
        check_ns in 5_000_000u64..2_000_000_000,
        seed: u64,
        cpus in 1u32..4,
    ) {
        let mut s = spec(machine(32), FsKind::Ext4, "dd if=/dev/zero of=a bs=64k count=500");
        s.machine.cpus = cpus;
        s.machine.boot.anon = Size(2 << 20);
        s.seed = seed;
        same_for_every_observer(&s, &[(sample_ns, check_ns), (sample_ns, 0)]);
    }
}
