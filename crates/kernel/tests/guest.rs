//! Tests with real guests: `LOWMARK_TEST_KERNEL` has the name of a built kernel (CI: 6.12). Without
//! it every test here prints a note and passes: building a kernel takes minutes and tools that not
//! every machine has.

mod common;

use common::kernel;
use kernel::Kernel;
use mm::ZoneType;
use sim::spec::{DiskKind, DiskSpec, Fault, FsKind, Mount, SecondSpec, Size, SwapSpec, ZoneSpec};
use sim::{Control, Outcome, RunResult, RunSpec};
use std::sync::atomic::Ordering;
use std::sync::{PoisonError, RwLock};

fn filesystem(name: &str) -> FsKind {
    *FsKind::ALL.iter().find(|k| k.name() == name).unwrap()
}

fn spec(line: &str) -> RunSpec {
    let mut spec = common::spec(common::command(line));
    spec.machine.boot = common::boot(24, 4, 4);
    spec.sample_ns = 100_000_000;
    spec.time_limit_ns = 600_000_000_000;
    spec
}

/// Locked exclusively by a test that kills a guest: it finds guests by their names.
static ALONE: RwLock<()> = RwLock::new(());

fn run(spec: &RunSpec, kernel: &Kernel) -> RunResult {
    let _turn = ALONE.read().unwrap_or_else(PoisonError::into_inner);
    kernel::run(spec, kernel, kernel::PATIENCE, &Control::default()).0
}

fn counter(r: &RunResult, name: &str) -> u64 {
    let found = r.counters.get(name).copied();
    found.unwrap_or_else(|| panic!("{name}: {:?}", r.outcome))
}

fn elapsed(r: &RunResult) -> f64 {
    assert_eq!(r.outcome, Outcome::Completed);
    r.metrics["elapsed"].value
}

fn error(r: &RunResult) -> &str {
    match &r.outcome {
        Outcome::Failed { error } => error,
        other => panic!("{other:?}"),
    }
}

const WRITER: &str = "dd if=/dev/zero of=z bs=64k count=4000";

#[test]
fn a_seed_is_a_run() {
    let Some(kernel) = kernel() else { return };
    for name in ["ext4", "xfs", "btrfs"] {
        let mut spec = spec(WRITER);
        spec.filesystem = filesystem(name);
        let first = run(&spec, &kernel);
        assert_eq!(first.outcome, Outcome::Completed, "{name}");
        assert!(counter(&first, "nr_dirtied") >= 64_000, "{name}");
        assert!(counter(&first, "pgscan_kswapd") > 0, "{name}");
        assert!(first.series.t.len() > 3, "{name}");
        let again = run(&spec, &kernel);
        assert_eq!(first.digest, again.digest, "{name}");
        spec.seed = 2;
        assert_ne!(first.digest, run(&spec, &kernel).digest, "{name}");
    }
}

/// Pages of files come from the zone Movable first. (Memory in use at boot took most of that zone
/// before.)
#[test]
fn a_zone_movable_has_its_memory() {
    let Some(kernel) = kernel() else { return };
    let mut spec = spec("dd if=/dev/zero of=z bs=64k count=400");
    let zone = |zone, mib: u64| ZoneSpec {
        zone,
        size: Size(mib << 20),
    };
    spec.machine.nodes[0].zones = vec![zone(ZoneType::Normal, 96), zone(ZoneType::Movable, 32)];
    let result = run(&spec, &kernel);
    assert_eq!(result.outcome, Outcome::Completed);
    let taken = counter(&result, "pgalloc_movable");
    assert!(taken > 1000, "{taken} pages of Movable");
}

/// A guest that only boots reports the same owned pages as one of a run, zone by zone.
#[test]
fn what_the_allocator_owns_is_asked_for_before_a_run() {
    let Some(kernel) = kernel() else { return };
    let mut spec = spec("sleep 1");
    for zones in [&["Normal"][..], &["Normal", "Movable"]] {
        if zones.len() == 2 {
            spec.machine.nodes[0].zones.push(ZoneSpec {
                zone: ZoneType::Movable,
                size: Size(64 << 20),
            });
        }
        let owned = {
            let _turn = ALONE.read().unwrap_or_else(PoisonError::into_inner);
            kernel::owned(&spec, &kernel, kernel::PATIENCE, &Control::default()).unwrap()
        };
        let names: Vec<&str> = owned.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, zones);
        let pages: u64 = owned.iter().map(|(_, pages)| pages).sum();
        let r = run(&spec, &kernel);
        assert_eq!(r.metrics["managed"].value, pages as f64, "{zones:?}");
    }
}

#[test]
fn computing_costs_time_unless_it_is_free() {
    let Some(mut kernel) = kernel() else { return };
    // The file fits in memory, so no disk is involved.
    let spec = spec("dd if=/dev/zero of=z bs=64k count=200");
    let dear = elapsed(&run(&spec, &kernel));
    kernel.costs = false;
    let free = elapsed(&run(&spec, &kernel));
    // Copying 3200 pages alone takes 3.8 ms.
    assert!(dear > 3200.0 * 1.2e-6, "{dear} s");
    assert!(free < dear / 3.0, "{free} s without costs, {dear} s with");
}

#[test]
fn what_a_script_finds_is_there_and_not_cached() {
    let Some(kernel) = kernel() else { return };
    let mut spec = spec("dd if=a/b of=/dev/null bs=64k");
    spec.workload.files = vec![workload::ExistingFile {
        path: "a/b".into(),
        len: 32 << 20,
    }];
    spec.workload.directories = vec!["a".into()];
    let r = run(&spec, &kernel);
    assert_eq!(r.outcome, Outcome::Completed);
    let kb = counter(&r, "pgpgin");
    assert!(kb >= 32 << 10, "{kb}");
}

#[test]
fn swap_and_a_second_filesystem() {
    let Some(kernel) = kernel() else { return };
    let mut spec = spec("dd if=/dev/zero of=mnt2/z bs=64k count=8000");
    spec.machine.boot.anon = Size(112 << 20);
    spec.machine.sysctl.swappiness = 100;
    spec.machine.swap = Some(SwapSpec {
        size: Size(256 << 20),
        disk: Some(DiskSpec::new(DiskKind::Ssd, Size(256 << 20))),
    });
    spec.machine.mounts.push(Mount::second(SecondSpec {
        filesystem: filesystem("xfs"),
        disk: DiskSpec::new(DiskKind::Ssd, Size(1 << 30)),
        mount: "mnt2".into(),
    }));
    let r = run(&spec, &kernel);
    assert_eq!(r.outcome, Outcome::Completed);
    assert!(counter(&r, "pswpout") > 0);
    let columns: Vec<&str> = r.series.columns.iter().map(|c| c.name.as_str()).collect();
    for name in [
        "second_write_throughput",
        "swap_write_throughput",
        "psi_memory_some",
    ] {
        assert!(columns.contains(&name), "{name} in {columns:?}");
    }
}

#[test]
fn a_disk_that_is_lost_ends_the_iteration() {
    let Some(kernel) = kernel() else { return };
    let mut spec = spec("dd if=/dev/zero of=z bs=64k count=8000 conv=fsync");
    spec.machine.disk.faults = vec![Fault::Stop { at_s: 2.2 }];
    let r = run(&spec, &kernel);
    // 6.1 throttles the writer of pages that can't be written any more for ever, 6.12 returns the
    // error to the writer.
    match &r.outcome {
        Outcome::Failed { error } => assert!(!error.is_empty()),
        Outcome::TimeLimit => {
            let said = r.notes.join("\n");
            assert!(
                said.contains("last words") && said.contains("EXT4-fs"),
                "{said}"
            );
        }
        other => panic!("{other:?}"),
    }
    let failed = r.notes.iter().any(|n| n.contains("requests failed"));
    assert!(failed, "{:?}", r.notes);
}

#[test]
fn a_stall_takes_its_time() {
    let Some(kernel) = kernel() else { return };
    let mut spec = spec("dd if=/dev/zero of=z bs=64k count=800 conv=fsync");
    let before = elapsed(&run(&spec, &kernel));
    let (at_s, for_s) = (1.0, 20.0);
    spec.machine.disk.faults = vec![Fault::Stall { at_s, for_s }];
    let after = elapsed(&run(&spec, &kernel));
    assert!(after > before + 10.0, "{before} s, {after} s");
}

#[test]
fn a_run_that_is_stopped_or_out_of_time_ends() {
    let Some(kernel) = kernel() else { return };
    let mut spec = spec("dd if=/dev/zero of=z bs=64k count=8000 & sleep 500");
    spec.time_limit_ns = 5_000_000_000;
    assert_eq!(run(&spec, &kernel).outcome, Outcome::TimeLimit);
    let control = Control::default();
    control.stop.store(true, Ordering::Relaxed);
    let stopped = kernel::run(&spec, &kernel, kernel::PATIENCE, &control)
        .0
        .outcome;
    assert_eq!(stopped, Outcome::Interrupted);
}

#[test]
fn an_unknown_sysctl_is_named() {
    let Some(mut kernel) = kernel() else { return };
    kernel.sysctl.insert("dirty_ration".into(), "5".into());
    let r = run(&spec(WRITER), &kernel);
    assert!(error(&r).contains("dirty_ration"), "{}", error(&r));
}

#[test]
fn memory_that_runs_out_is_said_and_so_is_a_panic() {
    let Some(mut kernel) = kernel() else { return };
    let spec = spec("burst -s 400M -n 1 -d 1s");
    let r = run(&spec, &kernel);
    assert!(matches!(&r.outcome, Outcome::Oom { .. }), "{:?}", r.outcome);
    kernel.sysctl.insert("panic_on_oom".into(), "2".into());
    let r = run(&spec, &kernel);
    let said = format!("{:?}", r.outcome);
    assert!(said.contains("panic_on_oom"), "{said}");
}

/// Returns the pids of this process's guests: children with the name of the kernel's executable.
fn guests() -> Vec<i32> {
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(pid) = name.parse::<i32>() else {
            continue;
        };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let Some((before, after)) = stat.rsplit_once(')') else {
            continue;
        };
        let parent = after.split_whitespace().nth(1);
        if before.ends_with("(linux") && parent == Some(&own) {
            found.push(pid);
        }
    }
    found
}

#[test]
fn a_guest_that_is_killed_is_one_failed_iteration() {
    let Some(kernel) = kernel() else { return };
    let _alone = ALONE.write().unwrap_or_else(PoisonError::into_inner);
    let before = guests();
    let mut spec = spec("dd if=/dev/zero of=z bs=64k count=8000 & sleep 100000");
    // Nothing to lay out, so the only guest is that of the run.
    spec.machine.boot.cache = Size(0);
    let killed = std::thread::scope(|scope| {
        let running =
            scope.spawn(|| kernel::run(&spec, &kernel, kernel::PATIENCE, &Control::default()).0);
        // The first process seen may still be one that is about to become the guest, and may be
        // gone before it can be killed.
        loop {
            let new = guests().into_iter().find(|pid| !before.contains(pid));
            let Some(pid) = new.and_then(rustix::process::Pid::from_raw) else {
                std::thread::yield_now();
                continue;
            };
            std::thread::sleep(std::time::Duration::from_millis(500));
            if rustix::process::kill_process(pid, rustix::process::Signal::KILL).is_ok() {
                break;
            }
        }
        running.join().unwrap()
    });
    assert!(error(&killed).contains("died"), "{}", error(&killed));
}

#[test]
fn a_kernel_that_nobody_built_is_named() {
    let r = run(&spec(WRITER), &Kernel::new("none-such"));
    assert!(error(&r).contains("none-such"), "{}", error(&r));
}
