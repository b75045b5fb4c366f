//! The effect of the keys of a machine file on the engine built from it.

mod common;

use common::{disk, machine, spec};
use mm::memory::zone::{Mark, Zone};
use sim::rng::Rng;
use sim::spec::{DiskKind, FsKind, Machine};

const DD: &str = "dd if=/dev/zero of=disk/x bs=64k count=64";

/// Returns the higher zone's three watermarks, and the lower zone's reserve against requests for
/// that zone.
fn marks_and_reserve(machine: Machine) -> ([u64; 3], u64) {
    let mm = sim::run::build::<false>(&spec(machine, FsKind::Ext4, DD));
    let upper = &mm.zones[1];
    let marks = [Mark::Min, Mark::Low, Mark::High].map(|m| Zone::mark(upper, m));
    (marks, mm.zones[0].reserve(upper.kind.index()))
}

#[test]
fn the_scale_factor_widens_the_marks_and_leaves_the_minimum() {
    let plain = machine(512);
    let mut wide = plain.clone();
    wide.sysctl.watermark_scale_factor = Some(200);
    let ((before, _), (after, _)) = (marks_and_reserve(plain), marks_and_reserve(wide));
    let pages = (512 - 16) * 256;
    assert_eq!(before[0], after[0]);
    assert_eq!(before[1] - before[0], before[0] / 4);
    assert_eq!(after[1] - after[0], pages / 50);
    assert_eq!(after[2] - after[1], pages / 50);
}

#[test]
fn the_reserve_ratio_sets_the_reserve() {
    let plain = machine(512);
    let mut half = plain.clone();
    half.sysctl.lowmem_reserve_ratio = [128, 256, 32];
    let mut no_reserve = plain.clone();
    no_reserve.sysctl.lowmem_reserve_ratio = [0, 256, 32];
    let pages = (512 - 16) * 256;
    assert_eq!(marks_and_reserve(plain).1, pages / 256);
    assert_eq!(marks_and_reserve(half).1, pages / 128);
    assert_eq!(marks_and_reserve(no_reserve).1, 0);
}

#[test]
fn a_disk_s_own_parameters_are_those_it_runs_with() {
    let elapsed = |bandwidth: f64| {
        let mut m = machine(64);
        m.disk = disk(DiskKind::Disk);
        m.disk.params = ["disk_outer_bandwidth", "disk_inner_bandwidth"]
            .map(|name| (name.to_owned(), bandwidth))
            .into();
        let dd = "dd if=/dev/zero of=disk/x bs=64k count=1024 conv=fsync";
        common::run(&spec(m, FsKind::Ext4, dd)).sim_ns as f64 / 1e9
    };
    let longer = elapsed(20.0) - elapsed(200.0);
    // 64 MiB on the platter at a tenth of the rate.
    let expected = 67.1 / 20.0 - 67.1 / 200.0;
    assert!((longer / expected - 1.0).abs() < 0.1, "{longer} s");
}

/// On a machine that has just booted, the workload begins at an offset behind a timer tick that
/// follows from the seed; otherwise it begins when booting ends.
#[test]
fn a_workload_begins_behind_a_tick_by_its_seed() {
    let since = |seed, just_booted| {
        let mut s = spec(machine(64), FsKind::Ext4, "sleep 0");
        s.seed = seed;
        s.params.set("just_booted", just_booted).expect("0 or 1");
        let tick = mm::SECOND / u64::from(s.machine.hz);
        let phase = Rng::new(seed, "timer phase").below(tick);
        let (_, recorded) = sim::run::traced(&s, &sim::Control::default());
        (
            (recorded.span.0 + tick - phase) % tick,
            sim::run::since_tick(seed, tick),
        )
    };
    // Getting the CPU takes a few microseconds.
    let near = |(begun, asked): (u64, u64)| (asked..asked + 20_000).contains(&begun);
    let behind: Vec<_> = (1..6).map(|seed| since(seed, 1.0)).collect();
    assert!(behind.iter().all(|&pair| near(pair)), "{behind:?}");
    assert!(behind.iter().any(|pair| pair.1 != behind[0].1));
    assert!((1..6).any(|seed| !near(since(seed, 0.0))));
}
