//! Measures the cost of tracepoints (*sequential-read* 1): the same run without them, with them but
//! without a listener, and recorded.
//!
//! divan prints the runs' times; the last line has the ratios, from runs taken in turn.

use mm::ZoneType;
use sim::spec::{Boot, DiskKind, DiskSpec, FsKind, Machine, NodeSpec, RunSpec, Size, ZoneSpec};
use sim::{Control, Params};
use std::time::Instant;

/// Number of rounds, of which the median is printed.
const ROUNDS: usize = 15;

/// A stream through a small memory, which takes all of the engine's paths thousands of times.
fn spec() -> RunSpec {
    let zone = |zone, mib: u64| ZoneSpec {
        zone,
        size: Size(mib << 20),
    };
    RunSpec {
        machine: Machine {
            name: "bench".into(),
            cpus: 2,
            params: Default::default(),
            hz: 250,
            cpu_speed: None,
            nodes: vec![NodeSpec {
                cpus: Vec::new(),
                zones: vec![zone(ZoneType::Dma32, 96), zone(ZoneType::Normal, 160)],
            }],
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
                scheduler: Default::default(),
                kind: DiskKind::Disk,
                capacity: Size(16 << 30),
                members: None,
                params: Default::default(),
                faults: Vec::new(),
            },
        },
        filesystem: FsKind::Ext4,
        policy: mm::Policy::linux_3_16(),
        workload: workload::parse("tiobench --size 512 --threads 1").expect("a command"),
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
        time_limit_ns: 600_000_000_000,
    }
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn compiled_away() -> u64 {
    sim::run::with_tracepoints::<false>(&spec(), &Control::default()).digest
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn nobody_listens() -> u64 {
    sim::run(&spec(), &Control::default()).digest
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn recorded() -> u64 {
    sim::run::traced(&spec(), &Control::default()).0.digest
}

fn main() {
    divan::main();
    let ways: [fn() -> u64; 3] = [compiled_away, nobody_listens, recorded];
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        for (times, way) in times.iter_mut().zip(ways) {
            let began = Instant::now();
            divan::black_box(way());
            times.push(began.elapsed().as_secs_f64());
        }
    }
    let [without, unread, read] = times.map(|mut t| {
        t.sort_by(f64::total_cmp);
        t[t.len() / 2]
    });
    println!(
        "one run: {:.1} ms without tracepoints; nobody listening {:.3} times, recorded {:.3} times that",
        without * 1e3,
        unread / without,
        read / without
    );
}
