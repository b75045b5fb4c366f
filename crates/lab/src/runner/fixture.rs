//! A small experiment and a stand-in for the engine, for tests.

use crate::model::{Cell, Experiment};
use sim::account::{ReclaimSums, Split, TaskTime};
use sim::result::{AllocLatency, Column, Metric, Series};
use sim::spec::{DiskKind, DiskSpec, FsKind, Machine, NodeSpec, Size, ZoneSpec};
use sim::{Control, Outcome, Params, RunResult, RunSpec};
use std::sync::atomic::Ordering::Relaxed;

/// Two policies on two filesystems.
pub fn experiment(iterations: u32) -> Experiment {
    let mut cells = Vec::new();
    for filesystem in [FsKind::Xfs, FsKind::Btrfs] {
        for (i, policy) in ["vanilla", "patched, \"v2\""].iter().enumerate() {
            cells.push(Cell {
                axes: vec![
                    ("filesystem".into(), filesystem.name().into()),
                    ("policy".into(), (*policy).into()),
                ],
                machine: "tiny".into(),
                workload: String::new(),
                threads: String::new(),
                filesystem: filesystem.name().into(),
                policy: (*policy).into(),
                baseline: i == 0,
                spec: spec(filesystem, policy),
            });
        }
    }
    Experiment {
        name: "small".into(),
        iterations,
        seed: 7,
        text: "name = \"small\"\n".into(),
        figures: Vec::new(),
        axes: vec!["filesystem".into(), "policy".into()],
        cells,
    }
}

fn spec(filesystem: FsKind, policy: &str) -> RunSpec {
    let zone = ZoneSpec {
        zone: mm::ZoneType::Normal,
        size: Size(64 << 20),
    };
    RunSpec {
        machine: Machine {
            name: "tiny".into(),
            cpus: 1,
            params: Default::default(),
            hz: 250,
            nodes: vec![NodeSpec {
                zones: vec![zone],
                cpus: Vec::new(),
            }],
            boot: Default::default(),
            swap: None,
            filesystem: None,
            mounts: Vec::new(),
            sysctl: Default::default(),
            disk: DiskSpec {
                scheduler: Default::default(),
                kind: DiskKind::Disk,
                capacity: Size(1 << 30),
                members: None,
                params: Default::default(),
                faults: Vec::new(),
            },
        },
        filesystem,
        policy: mm::Policy::linux_3_0().named(policy),
        workload: workload::Script::default(),
        changes: Vec::new(),
        membind: None,
        monitors: false,
        params: Params::default(),
        seed: 0,
        sample_ns: 0,
        check_ns: 0,
        track_pages: false,
        time_limit_ns: 0,
    }
}

/// What the stand-in gives for a cell at a seed.
pub fn digest(spec: &RunSpec) -> u64 {
    let cell = format!("{} {}", spec.filesystem.name(), spec.policy.name);
    spec.seed.rotate_left(7) ^ sim::rng::fnv1a(cell.as_bytes())
}

/// A result that depends on the seed, the filesystem and the policy, unless it is told to stop.
pub fn simulate(spec: &RunSpec, control: &Control) -> RunResult {
    let small = digest(spec) % 1000;
    let mut histogram = hdrhistogram::Histogram::new(3).expect("three digits are accepted");
    histogram.record(100 + small).expect("the histogram grows");
    histogram.record(5000).expect("the histogram grows");
    let stopped = control.stop.load(Relaxed);
    RunResult {
        outcome: if stopped {
            Outcome::Interrupted
        } else {
            Outcome::Completed
        },
        metrics: [(
            "elapsed".to_owned(),
            Metric {
                unit: "s",
                value: small as f64 / 8.0,
            },
        )]
        .into(),
        counters: [("nr_vmscan_write".to_owned(), small)].into(),
        reclaim: ReclaimSums {
            direct_reclaims: small,
            stalled_ns: 1_000_000 * small,
            ..ReclaimSums::default()
        },
        tasks: vec![TaskTime {
            tasks: 2,
            lifetime: 1_000_000 * (small + 3),
            user: 500_000,
            outside: Split {
                cpu: 2_000_000,
                device: 1_000_000,
                ..Split::default()
            },
            in_reclaim: Split {
                throttle: 1_000_000 * small,
                ..Split::default()
            },
            ..TaskTime::default()
        }],
        waits: Default::default(),
        moved: 4096 * small,
        series: Series {
            t: vec![0.0, 0.5],
            columns: vec![Column {
                name: "free".into(),
                scope: "Normal".into(),
                unit: "pages",
                values: vec![small as f64, 1.5],
            }],
        },
        alloc_latency: AllocLatency {
            paths: vec![("fast", histogram)],
            slowest: Vec::new(),
        },
        watermarks: Default::default(),
        tracker: None,
        sim_ns: 1_000_000 * small,
        notes: Vec::new(),
        digest: digest(spec),
    }
}
