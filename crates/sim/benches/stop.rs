//! Measures how long a run goes on after it was told to stop: real time from the flag to the
//! result, for loads with different costs of a poll. The limit is 100 ms.
//!
//! `cargo bench -p sim --bench stop`

use mm::ZoneType;
use sim::spec::{Boot, DiskKind, DiskSpec, FsKind, Machine, NodeSpec, RunSpec, Size, ZoneSpec};
use sim::{Control, Params};
use std::time::{Duration, Instant};

/// Number of stops of each load; the median and the longest are printed.
const STOPS: u64 = 15;

/// A run that never ends by itself in practice.
fn spec(fs: FsKind, cpus: u32, nodes: usize, command: &str) -> RunSpec {
    let node = || NodeSpec {
        cpus: Vec::new(),
        zones: vec![ZoneSpec {
            zone: ZoneType::Normal,
            size: Size(64 << 20),
        }],
    };
    RunSpec {
        machine: Machine {
            name: "bench".into(),
            cpus,
            params: Default::default(),
            hz: 250,
            cpu_speed: None,
            nodes: (0..nodes).map(|_| node()).collect(),
            boot: Boot {
                kernel: Size(4 << 20),
                dma: Size(0),
                anon: Size(4 << 20),
                cache: Size(0),
                inodes: 0,
                dentries: 0,
            },
            swap: None,
            filesystem: None,
            mounts: Vec::new(),
            sysctl: Default::default(),
            disk: DiskSpec {
                scheduler: Some(sim::spec::Scheduler::Deadline),
                kind: DiskKind::Nvme,
                capacity: Size(1 << 40),
                members: None,
                params: Default::default(),
                faults: Vec::new(),
            },
        },
        filesystem: fs,
        policy: mm::Policy::linux_3_16(),
        workload: workload::parse(command).expect("a command"),
        changes: Vec::new(),
        membind: None,
        groups: sim::spec::Groups::default(),
        monitors: false,
        params: Params::default(),
        seed: 1,
        sample_ns: 0,
        check_ns: 0,
        check_full: false,
        track_pages: false,
        time_limit_ns: 0,
    }
}

/// Returns the real time between the flag and the end of the run.
fn stop(spec: &RunSpec, after: Duration) -> Duration {
    let control = Control::default();
    std::thread::scope(|s| {
        let run = s.spawn(|| {
            sim::run(spec, &control);
            Instant::now()
        });
        std::thread::sleep(after);
        let told = Instant::now();
        control
            .stop
            .store(true, std::sync::atomic::Ordering::Relaxed);
        run.join()
            .expect("the run ends")
            .saturating_duration_since(told)
    })
}

fn main() {
    // `cargo test --benches` only tests that it starts.
    let stops = if std::env::args().any(|a| a == "--test") {
        1
    } else {
        STOPS
    };
    let loads = [
        (
            "one writer",
            spec(
                FsKind::Ext4,
                2,
                1,
                "dd if=/dev/zero of=a bs=1M count=900000",
            ),
        ),
        (
            "8 nodes, 64 CPUs, writers",
            spec(
                FsKind::Xfs,
                64,
                8,
                "fs_mark -d a -n 2500 -L 100 -s 65536 -S0 -k -t 16",
            ),
        ),
        (
            "memory pressure",
            spec(
                FsKind::Ext3,
                4,
                2,
                "mmap-strm -t 4 --memory 100M --stream 900",
            ),
        ),
    ];
    for (name, spec) in &loads {
        let mut took: Vec<Duration> = (0..stops)
            .map(|i| stop(spec, Duration::from_millis(100 + 37 * i)))
            .collect();
        took.sort_unstable();
        println!(
            "{name}: stopped after {:?} in the median, {:?} at most",
            took[took.len() / 2],
            took[took.len() - 1]
        );
    }
}
