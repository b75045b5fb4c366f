//! Read-ahead: windows for sequential reads, none for random ones, and the effect of a program's
//! advice.

mod common;

use common::{disk, machine, run, spec};
use mm::Policy;
use mm::policy::PRESETS;
use sim::spec::{DiskKind, FsKind, RunSpec};
use sim::{Outcome, RunResult};

/// A job file on a machine of `mib` MiB with an SSD.
fn jobs(text: &str, mib: u64, policy: Policy) -> RunSpec {
    let mut m = machine(mib);
    m.disk = disk(DiskKind::Ssd);
    let mut s = spec(m, FsKind::Ext4, "dd if=/dev/zero of=x count=1");
    s.workload = workload::fio::parse(text).expect("a job file").script();
    s.policy = policy;
    s.check_ns = 0;
    s
}

fn metric(r: &RunResult, name: &str) -> f64 {
    assert_eq!(r.outcome, Outcome::Completed, "{:?}", r.outcome);
    r.metrics[name].value
}

/// With every preset, with and without the advice that fio gives: 5,000 random reads of 4 KiB in a
/// file of twice the memory read only the pages they ask for from the disk.
#[test]
fn random_reads_bring_in_what_they_ask_for() {
    const READS: f64 = 5000.0;
    for preset in PRESETS {
        for hint in ["0", "1"] {
            let job = format!("[a]\nrw=randread\nsize=1g\nio_size=20000k\nfadvise_hint={hint}\n");
            let r = run(&jobs(&job, 512, preset.policy()));
            assert_eq!(metric(&r, "reads"), READS);
            let pages = metric(&r, "read_from_disk") / 4096.0;
            let what = format!("{}, fadvise_hint={hint}: {pages} pages", preset.name);
            assert!((0.95 * READS..=1.05 * READS).contains(&pages), "{what}");
        }
    }
}

/// Records of three pages, read at random by four tasks in one file: fio's advice ends read-ahead,
/// so the size of its windows makes no difference, not even to the order of events. Without the
/// advice it does.
#[test]
fn read_ahead_makes_no_difference_to_a_random_job() {
    let digest = |ahead: f64, hint: &str| {
        let job = format!(
            "[a]\nbs=12k\nsize=96m\nrw=randread\nnumjobs=4\nfilename=data\nio_size=24m\nfadvise_hint={hint}\n"
        );
        let mut s = jobs(&job, 64, Policy::linux_6_12());
        s.params.read_ahead = ahead;
        let r = run(&s);
        (r.digest, metric(&r, "read_from_disk"))
    };
    assert_eq!(digest(4.0, "1"), digest(1024.0, "1"));
    assert_eq!(digest(4.0, "1"), digest(1024.0, "random"));
    assert_ne!(digest(4.0, "0"), digest(1024.0, "0"));
}

/// Reads the first 2 MiB of a file in order: up to two windows are read beyond them, of 32 pages
/// each, or of 64 after the advice that sequential jobs give.
#[test]
fn sequential_advice_doubles_the_windows() {
    for policy in [Policy::linux_2_6_37(), Policy::linux_6_12()] {
        let beyond = |hint: &str| {
            let job = format!("[a]\nrw=read\nsize=16m\nio_size=2m\nfadvise_hint={hint}\n");
            let r = run(&jobs(&job, 64, policy.clone()));
            metric(&r, "read_from_disk") / 4096.0 - 512.0
        };
        let (plain, doubled) = (beyond("0"), beyond("1"));
        assert!(plain > 0.0 && plain <= 64.0, "{plain}");
        assert!(doubled > plain && doubled <= 128.0, "{plain} {doubled}");
        assert_eq!(beyond("sequential"), doubled);
        assert_eq!(beyond("random"), 0.0);
    }
}
