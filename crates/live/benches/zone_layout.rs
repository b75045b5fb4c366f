//! Compares a zone whose words are laid out by their writers with the same words packed
//! (*sequential-read* 2): one thread changes the words as an allocation does, another as reclaim
//! does.
//!
//! divan shows an allocation's time under each layout; the last line shows the ratio, from
//! alternating pairs. With a single CPU there is no difference.

use lowmark_cache::LiveWorld;
use mm::memory::zone::{PackedZone, Zone};
use mm::{ZoneInfo, ZoneType};
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

/// Allocations in a measurement.
const ALLOCATIONS: u32 = 1_000_000;
/// Number of pairs; the median is shown.
const PAIRS: usize = 15;

/// A zone's words under one of the layouts.
trait Layout: Sync {
    fn new() -> Self;
    fn allocate(&self) -> u64;
    fn reclaim(&self);
}

const ZONE: ZoneInfo = ZoneInfo {
    node: 0,
    kind: ZoneType::Normal,
    size: 1 << 20,
};

macro_rules! layout {
    ($zone:ident) => {
        impl Layout for $zone<LiveWorld> {
            fn new() -> Self {
                Self::new(&ZONE, 0, [0, 0], 31)
            }
            fn allocate(&self) -> u64 {
                self.bench_allocate()
            }
            fn reclaim(&self) {
                self.bench_reclaim();
            }
        }
    };
}

layout!(Zone);
layout!(PackedZone);

/// Returns the nanoseconds of an allocation while another thread reclaims.
fn beside_reclaim<L: Layout>() -> f64 {
    let (zone, done, start) = (L::new(), AtomicBool::new(false), Barrier::new(2));
    std::thread::scope(|s| {
        s.spawn(|| {
            start.wait();
            while !done.load(Relaxed) {
                zone.reclaim();
            }
        });
        start.wait();
        let began = Instant::now();
        for _ in 0..ALLOCATIONS {
            black_box(zone.allocate());
        }
        let took = began.elapsed();
        done.store(true, Relaxed);
        took.as_nanos() as f64 / f64::from(ALLOCATIONS)
    })
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn by_writer() -> f64 {
    beside_reclaim::<Zone<LiveWorld>>()
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn packed() -> f64 {
    beside_reclaim::<PackedZone<LiveWorld>>()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    divan::main();
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..PAIRS {
        times[0].push(beside_reclaim::<Zone<LiveWorld>>());
        times[1].push(beside_reclaim::<PackedZone<LiveWorld>>());
    }
    let [split, packed] = times.map(median);
    println!(
        "an allocation beside reclaim: {split:.1} ns by writer, {packed:.1} ns packed, ratio {:.2}",
        packed / split
    );
}
