//! An interactive task in the virtual world.

mod common;

use common::{disk, machine, run, spec};
use sim::spec::{DiskKind, FsKind, RunSpec, Size};
use sim::{Outcome, Params, RunResult};
use workload::ExistingFile;

fn desktop(command: &str) -> RunSpec {
    let mut m = machine(64);
    m.disk = disk(DiskKind::Raid0);
    let mut s = spec(m, FsKind::Xfs, command);
    s.workload.files.push(ExistingFile {
        path: "big".to_owned(),
        len: 128 << 20,
    });
    s
}

fn metric(r: &RunResult, name: &str) -> f64 {
    assert_eq!(r.outcome, Outcome::Completed, "{:?}", r.outcome);
    r.metrics[name].value
}

/// On an idle machine a response takes only its wakeup, its touches and its computing.
#[test]
fn alone_it_takes_its_own_time() {
    let s = desktop("desktop -w 8M -p 4M -n 64 -f 0 -c 1ms -i 20ms -t 4s");
    let r = run(&s);
    assert_eq!(metric(&r, "responses"), 200.0);
    assert_eq!(metric(&r, "late_responses"), 0.0);
    let p = Params::default();
    let own = 1000.0 + 64.0 * p.cost_touch / 1000.0;
    for name in ["p50", "p99", "max"] {
        let us = metric(&r, &format!("response_{name}"));
        // An idle CPU wakes up within some microseconds.
        assert!(us >= own * 0.999, "{name}: {us} us, {own} us of its own");
        assert!(us < own + 100.0, "{name}: {us} us, {own} us of its own");
    }
    // The pages are read once and stay cached.
    assert_eq!(r.counters["pgpgin"], 4 << 10);
    let again = run(&s);
    assert_eq!((r.digest, &r.metrics), (again.digest, &again.metrics));
}

/// New pages fault: 16 a second, from memory that is freed now and then.
#[test]
fn new_pages_fault() {
    let faults = |f: u64| {
        let line = format!("desktop -w 1M -p 4K -n 8 -f {f} -i 20ms -t 8s");
        run(&desktop(&line)).counters["pgfault"]
    };
    assert_eq!(faults(16) - faults(0), 8 * 16);
}

/// Beside a copy larger than memory the task waits for pages that were reclaimed, and it is stopped
/// when the copy has ended.
#[test]
fn beside_a_copy_it_responds_later() {
    for filesystem in [FsKind::Xfs, FsKind::Ext4] {
        let mut s = desktop(
            "desktop -w 8M -p 8M -n 64 -f 16 -i 20ms -s 2s & sleep 2; dd if=big of=copy bs=1M",
        );
        s.filesystem = filesystem;
        s.machine.boot.anon = Size(4 << 20);
        let r = run(&s);
        let elapsed = metric(&r, "elapsed");
        // One event every 20 ms of the copy, answered or waiting at the end.
        let expected = (elapsed - 2.0) / 0.02;
        let responses = metric(&r, "responses");
        assert!(
            (responses - expected).abs() <= 1.0,
            "{responses} of {expected}"
        );
        let max = metric(&r, "response_max");
        assert!(max > 5_000.0, "{filesystem:?}: {max} us");
        assert!(metric(&r, "response_p50") >= 1000.0);
        assert!(r.counters["pgmajfault"] > 0);
    }
}

/// Events that arrive while the disk stands still are all counted as late, not just one of them.
#[test]
fn a_stall_is_as_many_late_responses() {
    // The file is larger than memory, so that most responses wait for a page.
    let line = "desktop -w 4K -p 96M -n 1 -f 0 -i 20ms -s 2s -t 10s";
    let calm = run(&desktop(line));
    let mut s = desktop(line);
    s.machine.disk.faults.push(sim::spec::Fault::Stall {
        at_s: 6.0,
        for_s: 2.0,
    });
    let stalled = run(&s);
    let late = |r: &RunResult| metric(r, "late_responses");
    assert!(
        late(&stalled) >= late(&calm) + 80.0,
        "{} and {}",
        late(&stalled),
        late(&calm)
    );
    assert!(metric(&stalled, "response_max") > 1.8e6);
}

/// A task stopped before its setup is complete has no response; the run completes all the same.
#[test]
fn a_script_that_is_over_at_once() {
    let r = run(&desktop("desktop & dd if=/dev/zero of=x count=1"));
    assert_eq!(r.outcome, Outcome::Completed);
    assert!(!r.metrics.contains_key("response_p50"));
}
