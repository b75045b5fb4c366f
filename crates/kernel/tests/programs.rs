//! Programs in real guests: their figures, their times, and the looks taken meanwhile. As in
//! `guest`, `LOWMARK_TEST_KERNEL` names the kernel.

mod common;

use common::{boot, command, kernel, spec};
use kernel::{Kernel, run};
use sim::spec::{Change, Size};
use sim::{Outcome, RunResult, RunSpec};

const SECOND: u64 = 1_000_000_000;

fn any(spec: &RunSpec, kernel: &Kernel) -> RunResult {
    run(spec, kernel, kernel::PATIENCE, &Default::default()).0
}

fn completed(spec: &RunSpec, kernel: &Kernel) -> RunResult {
    let result = any(spec, kernel);
    assert_eq!(result.outcome, Outcome::Completed, "{:?}", result.notes);
    result
}

fn failure(spec: &RunSpec, kernel: &Kernel) -> String {
    match any(spec, kernel).outcome {
        Outcome::Failed { error } => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn programs_report_what_they_did() {
    let Some(kernel) = kernel() else { return };
    let line = "dd if=/dev/zero of=a bs=64k count=320 && find . & \
                fs_mark -d fm -t 2 -n 50 -s 4096 -L 1 & desktop -w 4M -p 1M -t 3s; sleep 2; wait";
    let result = completed(&spec(command(line)), &kernel);
    let figure = |name: &str| result.metrics[name].value;
    // Figures of dd and of fs_mark.
    assert_eq!(figure("bytes"), f64::from((320 << 16) + 100 * 4096));
    assert!(figure("responses") > 140.0, "{}", figure("responses"));
    assert!(figure("files") >= 100.0, "{}", figure("files"));
    assert!(figure("elapsed") >= 4.9, "{}", figure("elapsed"));
    assert!(result.counters["nr_dirtied"] >= 320 * 16);
}

/// Without costs, only the waits of programs take time.
#[test]
fn virtual_time_is_the_programs() {
    let Some(mut kernel) = kernel() else { return };
    kernel.costs = false;
    let result = completed(&spec(command("burst -s 1M -n 20 -i 50ms -h 10ms")), &kernel);
    let figure = |name: &str| result.metrics[name].value;
    assert_eq!((figure("bursts"), figure("burst_allocs")), (20.0, 5120.0));
    // Twenty bursts, one every 50 ms, each held for 10 ms.
    let elapsed = figure("elapsed");
    assert!((0.96..1.0).contains(&elapsed), "{elapsed}");
}

fn column(result: &RunResult, name: &str) -> Vec<f64> {
    let columns = &result.series.columns;
    let at = columns.iter().position(|c| c.name == name);
    let at = at.unwrap_or_else(|| panic!("{name} in {columns:?}"));
    result.series.columns[at].values.clone()
}

/// Looks of megabytes arrive complete and in time.
#[test]
fn every_look_is_taken() {
    let Some(kernel) = kernel() else { return };
    let mut spec = spec(command("sleep 50"));
    spec.sample_ns = SECOND / 20;
    let result = completed(&spec, &kernel);
    let late = result.metrics["elapsed"].value - 50.0;
    assert!((0.0..1e-3).contains(&late), "{late}");
    let due: Vec<f64> = (1..=1000).map(|n| f64::from(n * 50) / 1e3).collect();
    assert_eq!(result.series.t, due);
}

#[test]
fn memory_in_use_at_boot_is_in_use() {
    let Some(kernel) = kernel() else { return };
    let free = |kernel_mb, anon, cache| {
        let mut spec = spec(command("sleep 3"));
        spec.machine.boot = boot(kernel_mb, anon, cache);
        column(&completed(&spec, &kernel), "free")[0]
    };
    let little = free(32, 4, 4);
    for (what, more) in [
        ("kernel", free(48, 4, 4)),
        ("anon", free(32, 20, 4)),
        ("cache", free(32, 4, 20)),
    ] {
        let taken = (little - more) / 256.0;
        assert!((14.0..18.0).contains(&taken), "{what}: {taken} MiB of 16");
    }
}

#[test]
fn what_a_program_or_the_machine_can_not_do_is_told() {
    let Some(kernel) = kernel() else { return };
    let why = failure(&spec(command("dd if=nothing of=b")), &kernel);
    assert_eq!(why, "nothing: no such file");
    let mut spec = spec(command("sleep 1"));
    spec.machine.boot = boot(1024, 0, 0);
    let why = failure(&spec, &kernel);
    assert!(why.contains("does not fit"), "{why}");
}

/// A setting written in mid-run takes effect from then on.
#[test]
fn settings_change_in_mid_run() {
    let Some(kernel) = kernel() else { return };
    let mut spec = spec(command("sleep 4"));
    let mut sysctl = spec.machine.sysctl.clone();
    sysctl.dirty_bytes = Size(8 << 20);
    spec.changes = vec![Change {
        at_ns: 2 * SECOND + SECOND / 2,
        written: vec![("vm.dirty_bytes".into(), "8M".into())],
        sysctl,
    }];
    let limits = column(&completed(&spec, &kernel), "dirty_limit");
    assert_eq!(limits.len(), 4);
    assert!(limits[1] > 2048.0, "{limits:?}");
    assert_eq!(limits[2..], [2048.0, 2048.0], "{limits:?}");
}
