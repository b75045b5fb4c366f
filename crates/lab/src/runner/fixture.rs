//! A small experiment and a stand-in for the engine, for tests.

use crate::model::{Cell, Experiment};
use kernel::Kernel;
use sim::account::{ClassSums, ReclaimSums, Split, TaskTime};
use sim::result::{AllocLatency, Column, Metric, Series};
use sim::spec::{DiskKind, DiskSpec, FsKind, Machine, NodeSpec, Size, ZoneSpec};
use sim::{Control, Origin, Outcome, Params, RunResult, RunSpec};
use std::sync::atomic::Ordering::Relaxed;

/// Returns an experiment of four cells, two policies on two filesystems with the first policy as
/// the baseline, for tests.
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
                by: None,
                kernel: None,
                says_hz: true,
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
        settings: Default::default(),
        said: Vec::new(),
    }
}

/// Returns the specification of a run on a machine of one CPU and 64 MiB with an empty workload,
/// for tests.
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
            cpu_speed: None,
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
        groups: sim::spec::Groups::default(),
        monitors: false,
        params: Params::default(),
        seed: 0,
        sample_ns: 0,
        check_ns: 0,
        check_full: false,
        track_pages: false,
        time_limit_ns: 0,
    }
}

/// Returns the number from which the stand-in for the engine derives its figures for a
/// specification: a hash of filesystem and policy, mixed with the seed.
pub fn digest(spec: &RunSpec) -> u64 {
    let cell = format!("{} {}", spec.filesystem.name(), spec.policy.name);
    spec.seed.rotate_left(7) ^ sim::rng::fnv1a(cell.as_bytes())
}

/// Stands in for the engine in tests: returns a result whose figures are made from the seed, the
/// filesystem and the policy only. The outcome is `Interrupted` if `control` says stop.
pub fn simulate(spec: &RunSpec, control: &Control) -> RunResult {
    let small = digest(spec) % 1000;
    let mut histogram = hdrhistogram::Histogram::new(3).expect("three digits are accepted");
    histogram.record(100 + small).expect("the histogram grows");
    histogram.record(5000).expect("the histogram grows");
    let stopped = control.stop.load(Relaxed);
    RunResult {
        origin: Origin::Engine,
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
        reclaim: Some(ReclaimSums {
            direct: ClassSums::NOTHING,
            kswapd: ClassSums::NOTHING,
            direct_reclaims: small,
            stalled_ns: 1_000_000 * small,
            ..ReclaimSums::default()
        }),
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
        waits: Some(Default::default()),
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
        watermarks: Some(Default::default()),
        tracker: None,
        sim_ns: 1_000_000 * small,
        notes: Vec::new(),
        kills: String::new(),
        digest: digest(spec),
    }
}

/// Stands in for a real kernel in tests: returns a result with counters under a kernel's names, and
/// none of the figures that a real kernel does not report.
pub fn kernel(spec: &RunSpec, kernel: &Kernel, control: &Control) -> RunResult {
    let engine = simulate(spec, control);
    let small = digest(spec) % 1000;
    let counters = [
        ("pgscan_kswapd", 1000 + small),
        ("pgscan_direct", 200),
        ("pgsteal_kswapd", 900),
        ("pgsteal_direct", 100),
        ("pgalloc_normal", 5000),
        ("allocstall_normal", 3),
        ("nr_vmscan_write", small % 7),
        ("compact_stall", 2),
        ("pgmigrate_success", 11),
    ];
    let mut result = RunResult::of_kernel(engine.outcome);
    result.metrics = engine.metrics;
    result.counters = counters.map(|(name, n)| (name.to_owned(), n)).into();
    result.series = engine.series;
    result.sim_ns = 2_000_000_000 + small;
    result.digest = engine.digest ^ sim::rng::fnv1a(kernel.build.as_bytes());
    result
}
