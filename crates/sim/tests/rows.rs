//! Counters, running sums and recorded events agree
//! (docs/reference/counters-and-traces.md#rows-from-traces and
//! docs/reference/counters-and-traces.md#identities).

mod common;

use common::{ALL_FS, machine, spec, swap};
use mm::world::event::{Event, IsolateMode};
use sim::account::{ClassSums, ReclaimSums, TaskClass};
use sim::run::Recorded;
use sim::spec::{FsKind, RunSpec, Size};
use sim::{Control, Outcome, RunResult};
use std::collections::{BTreeMap, BTreeSet};

/// Four writers on a machine of 64 MiB with 24 MiB of anonymous memory: much of every kind of
/// reclaim.
fn busy(fs: FsKind) -> RunSpec {
    let command = "dd if=/dev/zero of=a bs=64k count=1200 & dd if=/dev/zero of=b bs=64k count=1200 & \
                   dd if=/dev/zero of=c bs=64k count=1200 & dd if=/dev/zero of=d bs=64k count=1200";
    let mut m = machine(64);
    m.boot.anon = Size(24 << 20);
    m.swap = Some(swap(128 << 20));
    m.sysctl.dirty_ratio = 80;
    m.sysctl.dirty_background_ratio = 60;
    spec(m, fs, command)
}

fn traced(spec: &RunSpec) -> (RunResult, Recorded) {
    let (result, recorded) = sim::run::traced(spec, &Control::default());
    assert_eq!(result.outcome, Outcome::Completed, "{:?}", spec.filesystem);
    assert_eq!(recorded.rings_lost, 0, "the record is complete");
    (result, recorded)
}

/// Returns the sums of a run without any reclaim.
fn nothing() -> ReclaimSums {
    ReclaimSums {
        direct: ClassSums::NOTHING,
        kswapd: ClassSums::NOTHING,
        ..ReclaimSums::default()
    }
}

/// Computes the sums from the events by the definitions of
/// docs/reference/counters-and-traces.md#rows-from-traces. Only the tasks that are a kswapd are
/// taken from the record.
fn recount(r: &Recorded) -> ReclaimSums {
    let (start, end) = r.span;
    let mut out = nothing();
    let is_kswapd = |task: &u32| r.kswapds.contains(task);
    // Begin of each task's current span.
    let mut awake: BTreeMap<u32, u64> = BTreeMap::new();
    let mut stalled: BTreeMap<u32, u64> = BTreeMap::new();
    let mut direct: BTreeSet<u32> = BTreeSet::new();
    let mut requests: Vec<u32> = Vec::new();
    for (i, (time, task, event)) in r.events.iter().enumerate() {
        let (time, counts) = (*time, i >= r.first);
        let span = |from: u64| {
            if counts {
                time.saturating_sub(from.max(start))
            } else {
                0
            }
        };
        match event {
            Event::KswapdWake { .. } => {
                if let std::collections::btree_map::Entry::Vacant(e) = awake.entry(*task) {
                    e.insert(time);
                    out.kswapd_wakeups += u64::from(counts);
                }
            }
            Event::KswapdSleep { .. } => {
                out.kswapd_awake_ns += awake.remove(task).map_or(0, span);
            }
            Event::DirectReclaimBegin { .. } => {
                stalled.insert(*task, time);
                if counts {
                    direct.insert(*task);
                    out.direct_reclaims += 1;
                }
            }
            Event::DirectReclaimEnd { .. } => {
                out.stalled_ns += stalled.remove(task).map_or(0, span);
            }
            Event::WakeupKswapd { .. } if counts => requests.push(*task),
            _ => {}
        }
        if !counts {
            continue;
        }
        let class = if is_kswapd(task) {
            &mut out.kswapd
        } else {
            &mut out.direct
        };
        match event {
            Event::LruIsolate {
                mode, nr_scanned, ..
            } if *mode != IsolateMode::Active => {
                class.scanned += u64::from(*nr_scanned);
            }
            Event::Writepage { file, sync, .. } => {
                let writes = &mut class.writes;
                *match (file, sync) {
                    (true, false) => &mut writes.file_async,
                    (true, true) => &mut writes.file_sync,
                    (false, false) => &mut writes.anon_async,
                    (false, true) => &mut writes.anon_sync,
                } += 1;
            }
            Event::CongestionWait {
                usec_timeout,
                usec_delayed,
            }
            | Event::WaitIffCongested {
                usec_timeout,
                usec_delayed,
            } => {
                let waits = match event {
                    Event::CongestionWait { .. } => &mut class.congest,
                    _ => &mut class.conditional,
                };
                let waits = waits.as_mut().expect("the engine's kernels have it");
                waits.number += 1;
                waits.delayed_us += usec_delayed;
                waits.full += u64::from(usec_delayed >= usec_timeout);
            }
            _ => {}
        }
    }
    // Spans that are open at the end count up to it.
    let open = |spans: &BTreeMap<u32, u64>| -> u64 {
        spans
            .values()
            .map(|&from| end.saturating_sub(from.max(start)))
            .sum()
    };
    out.kswapd_awake_ns += open(&awake);
    out.stalled_ns += open(&stalled);
    out.wake_requests_all = requests.len() as u64;
    out.wake_requests = requests.iter().filter(|t| direct.contains(t)).count() as u64;
    out
}

fn sum(r: &RunResult, prefix: &str) -> u64 {
    let of_zones = |name: &str| {
        ["dma", "dma32", "normal", "movable"]
            .iter()
            .any(|zone| name == format!("{prefix}_{zone}"))
    };
    r.counters
        .iter()
        .filter(|(n, _)| of_zones(n))
        .map(|(_, v)| v)
        .sum()
}

#[test]
fn the_running_sums_are_those_of_the_recorded_events() {
    for fs in ALL_FS {
        let (result, recorded) = traced(&busy(fs));
        assert_eq!(result.reclaim, Some(recount(&recorded)), "{fs:?}");
    }
}

#[test]
fn recording_changes_nothing() {
    for fs in ALL_FS {
        let spec = busy(fs);
        let plain = sim::run(&spec, &Control::default());
        let (result, recorded) = traced(&spec);
        assert!(recorded.events.len() > 1000, "{fs:?}");
        // Without a listener, refused pages are handled in rows.
        let refused = plain.counters["nr_vmscan_write"];
        let refuses = matches!(fs, FsKind::Ext4 | FsKind::Btrfs);
        assert!(!refuses || refused > 1000, "{fs:?}: {refused}");
        assert_eq!(plain.reclaim, result.reclaim, "{fs:?}");
        assert_eq!(
            (&plain.counters, &plain.tasks),
            (&result.counters, &result.tasks),
            "{fs:?}"
        );
        assert_eq!(plain.digest, result.digest, "{fs:?}");
    }
}

#[test]
fn counters_and_events_keep_the_identities() {
    let mut seen = ReclaimSums::default();
    let (mut conditional, mut congested_us) = (0, 0);
    let mut swapped = 0;
    for fs in ALL_FS {
        let (result, recorded) = traced(&busy(fs));
        let r = result.reclaim.as_ref().expect("the engine tells it");
        let get = |name: &str| result.counters[name];
        assert_eq!(r.kswapd.scanned, sum(&result, "pgscan_kswapd"), "{fs:?}");
        assert_eq!(r.direct.scanned, sum(&result, "pgscan_direct"), "{fs:?}");
        assert_eq!(r.direct_reclaims, get("allocstall"), "{fs:?}");
        let ks = get("kswapd_steal");
        let ds = sum(&result, "pgsteal") - ks;
        assert!(ks <= r.kswapd.scanned && ds <= r.direct.scanned, "{fs:?}");
        let written = r.kswapd.writes.total() + r.direct.writes.total();
        assert_eq!(written, get("nr_vmscan_write"), "{fs:?}");
        assert!(r.kswapd.writes.total() <= r.kswapd.scanned, "{fs:?}");
        assert!(r.direct.writes.total() <= r.direct.scanned, "{fs:?}");
        // A wakeup without a request is kswapd's own, after a short sleep that was ended early.
        assert!(r.wake_requests <= r.wake_requests_all, "{fs:?}");
        assert!(r.kswapd_wakeups <= r.wake_requests_all + 1, "{fs:?}");
        let elapsed = recorded.span.1 - recorded.span.0;
        assert!(r.kswapd_awake_ns <= elapsed, "{fs:?}: one node");
        assert!(r.kswapd_wakeups <= get("pageoutrun"), "{fs:?}");
        swapped += get("pswpout");
        seen.direct_reclaims += r.direct_reclaims;
        seen.stalled_ns += r.stalled_ns;
        seen.wake_requests += r.wake_requests;
        seen.kswapd_wakeups += r.kswapd_wakeups;
        seen.kswapd_awake_ns += r.kswapd_awake_ns;
        seen.kswapd.writes.file_async += r.kswapd.writes.file_async;
        seen.kswapd.writes.anon_async += r.kswapd.writes.anon_async;
        seen.direct.writes.file_async += r.direct.writes.file_async;
        seen.direct.writes.anon_async += r.direct.writes.anon_async;
        conditional += r.direct.conditional.map_or(0, |w| w.number);
        congested_us += r.kswapd.congest.map_or(0, |w| w.delayed_us);
    }
    // Each of these events occurred, so the identities were not trivially true.
    for (what, n) in [
        ("direct reclaims", seen.direct_reclaims),
        ("time stalled", seen.stalled_ns),
        ("wake requests", seen.wake_requests),
        ("wakeups", seen.kswapd_wakeups),
        ("time awake", seen.kswapd_awake_ns),
        ("file writes of kswapd", seen.kswapd.writes.file_async),
        (
            "file writes of direct reclaim",
            seen.direct.writes.file_async,
        ),
        (
            "anon writes",
            seen.kswapd.writes.anon_async + seen.direct.writes.anon_async,
        ),
        ("conditional waits", conditional),
        ("congestion waits", congested_us),
        ("swap-outs", swapped),
    ] {
        assert!(n > 0, "no {what} in any run");
    }
}

/// Compares the account of each task's time with other measurements of the same time.
#[test]
fn every_task_s_time_adds_up_to_its_life() {
    for fs in ALL_FS {
        let (result, recorded) = traced(&busy(fs));
        let quantum = sim::Params::default().quantum as u64;
        let elapsed = recorded.span.1 - recorded.span.0;
        for ((task, t), cpu_ns) in recorded.tasks.iter().zip(&recorded.cpu_ns) {
            let (all, reclaim) = (
                t.outside.total() + t.in_reclaim.total(),
                t.in_reclaim.total(),
            );
            assert_eq!(all, t.lifetime, "{fs:?}, task {task}: {t:?}");
            assert!(
                t.lifetime <= elapsed + quantum,
                "{fs:?}, task {task}: {t:?}"
            );
            assert!(t.user <= t.outside.cpu, "{fs:?}, task {task}: {t:?}");
            // The scheduler's own figure, which includes the time before the workload.
            let cpu = t.outside.cpu + t.in_reclaim.cpu;
            assert!(
                cpu <= cpu_ns + quantum,
                "{fs:?}, task {task}: {cpu} of {cpu_ns}"
            );
            if t.class == TaskClass::Kswapd {
                assert_eq!(reclaim, 0, "{fs:?}: kswapd does not reclaim directly");
            }
        }
        let life = |class| -> Vec<u64> {
            let of_class = recorded.tasks.iter().filter(|t| t.1.class == class);
            of_class.map(|t| t.1.lifetime).collect()
        };
        // The shell and three processes; the shell lives as long as the workload.
        assert_eq!(life(TaskClass::Workload).len(), 4, "{fs:?}");
        let shell = life(TaskClass::Workload)
            .pop()
            .expect("the shell is added last");
        assert!(
            shell.abs_diff(elapsed) <= quantum,
            "{fs:?}: {shell} of {elapsed}"
        );
        for class in [TaskClass::Kswapd, TaskClass::Flusher, TaskClass::Filesystem] {
            for lifetime in life(class) {
                assert!(
                    lifetime.abs_diff(elapsed) <= quantum,
                    "{fs:?} {class:?}: {lifetime}"
                );
            }
        }
        let r = result.reclaim.as_ref().expect("the engine tells it");
        // The time in direct reclaim is measured twice: by the scheduler and by the events.
        let stalled: u64 = result.tasks.iter().map(|t| t.in_reclaim.total()).sum();
        let slack = quantum * (1 + r.direct_reclaims);
        assert!(stalled.abs_diff(r.stalled_ns) <= slack, "{fs:?}: {stalled}");
        // Waits for congestion count as throttling, and so do those at the dirty limits.
        let both = |c: &ClassSums| [c.congest, c.conditional].map(Option::unwrap);
        let waited = |c| both(c).map(|w| w.delayed_us).iter().sum::<u64>();
        let throttled: u64 = result
            .tasks
            .iter()
            .map(|t| t.outside.throttle + t.in_reclaim.throttle)
            .sum();
        let least = (waited(&r.direct) + waited(&r.kswapd)) * 1000;
        // A wait also includes its wakeup latency, the time in the run queue, and the code it
        // executes.
        let around: u64 = result
            .tasks
            .iter()
            .flat_map(|t| [t.outside, t.in_reclaim])
            .map(|s| s.run_queue)
            .sum();
        let waits = |c| both(c).map(|w| w.number).iter().sum::<u64>();
        let waits = waits(&r.direct) + waits(&r.kswapd);
        assert!(
            throttled + around + waits * quantum >= least,
            "{fs:?}: throttled {throttled} of {least} ns of waits"
        );
        let user = result.metrics["user_time"].value;
        let system = result.metrics["system_time"].value;
        assert!(user >= 0.0 && system > 0.0, "{fs:?}");
        let w = result
            .tasks
            .iter()
            .find(|t| t.class == TaskClass::Workload)
            .expect("a workload");
        let cpu = (w.outside.cpu + w.in_reclaim.cpu) as f64 / 1e9;
        assert!((user + system - cpu).abs() < 1e-9, "{fs:?}");
    }
}

#[test]
fn waits_are_booked_where_they_belong() {
    let classes = |r: &RunResult| -> BTreeMap<&'static str, sim::account::TaskTime> {
        r.tasks.iter().map(|t| (t.class.name(), *t)).collect()
    };
    // A reader of the raw disk waits only for the device.
    let read = spec(
        machine(64),
        FsKind::Xfs,
        "dd if=/dev/zero of=a bs=1M count=8 oflag=direct",
    );
    let r = classes(&sim::run(&read, &Control::default()));
    let w = &r["workload"];
    assert!(w.outside.device > w.lifetime / 2, "{w:?}");
    assert_eq!((w.outside.throttle, w.in_reclaim.total()), (0, 0), "{w:?}");
    assert!(
        r["kswapd"].outside.sleep > r["kswapd"].lifetime * 99 / 100,
        "{r:?}"
    );
    // A writer of much more than memory is throttled by the dirty limits.
    let write = spec(
        machine(64),
        FsKind::Xfs,
        "dd if=/dev/zero of=a bs=64k count=3000",
    );
    let r = classes(&sim::run(&write, &Control::default()));
    let w = &r["workload"];
    assert!(
        w.outside.throttle + w.outside.device > w.lifetime / 2,
        "{w:?}"
    );
    assert!(w.outside.throttle > 0, "{w:?}");
    // On fuse-ntfs the daemon is throttled, and the writer waits for the daemon.
    let r = classes(&sim::run(
        &RunSpec {
            filesystem: FsKind::FuseNtfs,
            ..write
        },
        &Control::default(),
    ));
    assert!(
        r["workload"].outside.server > r["workload"].lifetime / 2,
        "{r:?}"
    );
    assert!(
        r["filesystem"].outside.throttle + r["filesystem"].outside.device > 0,
        "{r:?}"
    );
}

#[test]
fn user_time_is_the_program_s_own() {
    let busy = spec(
        machine(64),
        FsKind::Xfs,
        "dd if=/dev/zero of=a ibs=4k obs=64k count=4000",
    );
    let r = sim::run(&busy, &Control::default());
    // Gathering records is a copy within the program: 8 KiB cost one `cost_copy`.
    let copied = 4000.0 * 4096.0 / 8192.0 * f64::from(busy.params.cost_copy as u32) / 1e9;
    let user = r.metrics["user_time"].value;
    assert!((user / copied - 1.0).abs() < 0.01, "{user} s of {copied} s");
    assert!(r.metrics["system_time"].value > user);
}
