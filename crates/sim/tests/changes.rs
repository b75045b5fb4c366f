//! Sysctls written while the workload runs: derived values are computed anew, and each sysctl has
//! its documented effect.

mod common;

use common::{machine, run, series, spec, swap};
use mm::memory::zone::Mark;
use mm::sysctl::{Sysctl, TABLE};
use proptest::prelude::*;
use sim::spec::{Change, FsKind, Machine, RunSpec, Size};
use sim::{Outcome, RunResult};

const S: u64 = 1_000_000_000;

/// Adds a change at a time that writes the given sysctls, as an experiment's `[[at]]` does.
fn at(s: &mut RunSpec, at_ns: u64, keys: &[&str], write: impl FnOnce(&mut Sysctl)) {
    let before = s.changes.last().map_or(&s.machine.sysctl, |c| &c.sysctl);
    let (mut from, mut sysctl) = (before.clone(), before.clone());
    write(&mut from);
    sysctl.write(&from, keys.iter().copied());
    s.changes.push(Change {
        at_ns,
        written: keys
            .iter()
            .map(|k| ((*k).to_owned(), "x".to_owned()))
            .collect(),
        sysctl,
    });
}

fn completed(s: &RunSpec) -> RunResult {
    let r = run(s);
    assert_eq!(r.outcome, Outcome::Completed);
    r
}

/// Returns the minimum and maximum of the values between two times.
fn range(values: &[(f64, f64)], from: f64, to: f64) -> (f64, f64) {
    let within = values.iter().filter(|(t, _)| (from..to).contains(t));
    within.fold((f64::MAX, f64::MIN), |(least, most), (_, v)| {
        (least.min(*v), most.max(*v))
    })
}

const WRITER: &str = "dd if=/dev/zero of=x bs=64k count=6000";

/// Lowering `vm.dirty_ratio` in mid-run lowers the limit at its next computation, and dirtiers wait
/// until there are fewer dirty pages.
#[test]
fn a_lower_dirty_ratio_throttles_from_then_on() {
    let mut s = spec(machine(128), FsKind::Ext4, WRITER);
    let before = completed(&s);
    at(&mut s, S, &["dirty_ratio", "dirty_background_ratio"], |s| {
        s.dirty_ratio = 5;
        s.dirty_background_ratio = 2;
    });
    let after = completed(&s);
    assert!(after.metrics["elapsed"].value > 3.0);
    let limit = |r: &RunResult, from, to| range(&series(r, "dirty_limit", "global"), from, to);
    let (least, _) = limit(&after, 0.0, 0.95);
    let (_, most) = limit(&after, 1.05, 1e9);
    assert!(most * 6.0 < least, "{least} pages before, {most} behind");
    let dirty = |r: &RunResult| range(&series(r, "dirty", "global"), 2.0, 1e9).1;
    assert!(
        dirty(&after) * 2.0 < dirty(&before),
        "{} and {} dirty pages",
        dirty(&after),
        dirty(&before)
    );
    assert_eq!(
        after.notes,
        ["at 1 s: dirty_ratio = x, dirty_background_ratio = x"]
    );
}

/// Writing `vm.dirty_bytes` replaces the ratio, and writing the ratio replaces the bytes.
#[test]
fn bytes_and_ratio_replace_each_other() {
    let mut s = spec(machine(128), FsKind::Ext4, WRITER);
    at(&mut s, S, &["dirty_bytes"], |s| {
        s.dirty_bytes = Size(4 << 20)
    });
    at(&mut s, 2 * S, &["dirty_ratio"], |s| s.dirty_ratio = 40);
    let r = completed(&s);
    let limit = series(&r, "dirty_limit", "global");
    assert_eq!(range(&limit, 1.05, 1.95), (1024.0, 1024.0));
    assert!(range(&limit, 2.05, 1e9).0 > 4096.0);
}

/// Raising `vm.min_free_kbytes` gives all zones the watermarks of a machine that booted with it,
/// and kswapd keeps that much free.
#[test]
fn a_higher_minimum_keeps_more_free() {
    let mut s = spec(machine(128), FsKind::Ext4, WRITER);
    at(&mut s, S, &["min_free_kbytes"], |s| {
        s.min_free_kbytes = Some(16_384)
    });
    let r = completed(&s);
    let mut booted: Machine = s.machine.clone();
    booted.sysctl.min_free_kbytes = Some(16_384);
    for (machine, from, to) in [(&s.machine, 0.0, 0.95), (&booted, 1.05, 1e9)] {
        let marks = sim::run::watermarks(machine);
        for (zone, marks) in ["DMA", "DMA32"].into_iter().zip(marks) {
            for (name, mark) in ["min", "low", "high"].into_iter().zip(marks) {
                let seen = range(&series(&r, name, zone), from, to);
                assert_eq!(seen, (mark as f64, mark as f64), "{name} of {zone}");
            }
        }
    }
    let free = series(&r, "free", "DMA32");
    let end = free.last().expect("samples").0;
    let low = sim::run::watermarks(&booted)[1][1] as f64;
    assert!(range(&free, 0.9, 0.95).0 > 0.0);
    assert!(range(&free, end - 1.0, 1e9).1 > low, "kswapd follows");
}

/// Lowering `vm.dirty_expire_centisecs` makes dirty pages old enough for the next periodic flush.
#[test]
fn a_shorter_age_writes_sooner() {
    let write = "dd if=/dev/zero of=x bs=64k count=50; sleep 15";
    let mut s = spec(machine(128), FsKind::Ext4, write);
    let written = |s: &RunSpec| completed(s).counters["pgpgout"];
    assert!(written(&s) < 1000, "30 s are not over");
    at(&mut s, S, &["dirty_expire_centisecs"], |s| {
        s.dirty_expire_centisecs = 100
    });
    assert!(written(&s) >= 3200);
}

/// With `vm.swappiness` set to 0, page cache is dropped and no page is swapped out any more.
#[test]
fn no_swappiness_ends_swapping() {
    let read = |file: &str| format!("dd if={file} of=/dev/null bs=64k");
    let load = format!(
        "sleep 2; {}; {}; {}",
        read("data"),
        read("data"),
        read("big")
    );
    let mut m = machine(64);
    m.boot.anon = Size(16 << 20);
    m.swap = Some(swap(64 << 20));
    m.sysctl.swappiness = 100;
    let mut s = spec(m, FsKind::Ext4, &load);
    s.policy = mm::Policy::linux_3_16();
    for (path, mib) in [("data", 30), ("big", 100)] {
        let (path, len) = (path.into(), mib << 20);
        s.workload.files.push(workload::ExistingFile { path, len });
    }
    let before = completed(&s).counters["pswpout"];
    at(&mut s, S, &["swappiness"], |s| s.swappiness = 0);
    let after = completed(&s).counters["pswpout"];
    assert!(before > 0 && after == 0, "{after} and {before} pages");
}

/// `fs.xfs.xfssyncd_centisecs`, at boot and in mid-run, sets the interval at which the log is
/// forced and changed names are written in place; in mid-run it takes effect with the workers' next
/// turn.
#[test]
fn the_log_s_period_changes_at_its_next_turn() {
    let load = "fs_mark -d a -D 8 -N 64 -n 500 -L 1 -S0 -s 4096 -w 4096 -k; sleep 20";
    let written = |boot: Option<u32>, then: Option<u32>| {
        let mut m = machine(128);
        m.sysctl.xfssyncd_centisecs = boot;
        // Only the log writes anything within the run.
        m.sysctl.dirty_writeback_centisecs = 0;
        let mut s = spec(m, FsKind::Xfs, load);
        if let Some(then) = then {
            at(&mut s, S, &["xfssyncd_centisecs"], |s| {
                s.xfssyncd_centisecs = Some(then)
            });
        }
        completed(&s).counters["pgpgout"]
    };
    let (default, long) = (written(None, None), written(Some(3000), None));
    assert_eq!(default, long, "30 s are the default");
    let (often, changed) = (written(Some(100), None), written(Some(500), Some(100)));
    let late = written(Some(3000), Some(100));
    assert!(often > long && changed > long, "{often} {changed} {long}");
    assert_eq!(late, long, "its worker sleeps through the run");
}

/// Writing a sysctl's current value changes only the notes; a change due after the run's end is
/// reported in the notes; runs with changes repeat exactly.
#[test]
fn changes_are_told_and_repeat() {
    let plain = spec(
        machine(64),
        FsKind::Ext4,
        "dd if=/dev/zero of=x bs=64k count=500",
    );
    let mut same = plain.clone();
    at(&mut same, S / 10, &["dirty_ratio"], |_| {});
    let (a, b) = (completed(&plain), completed(&same));
    assert_eq!((a.counters, a.sim_ns), (b.counters, b.sim_ns));
    let mut late = plain.clone();
    at(&mut late, 500 * S, &["swappiness"], |s| s.swappiness = 1);
    let r = completed(&late);
    assert_eq!(r.notes, ["at 500 s: swappiness = x (the run had ended)"]);
    let mut changed = plain;
    at(&mut changed, S / 10, &["min_free_kbytes"], |s| {
        s.min_free_kbytes = Some(8192)
    });
    let (a, b) = (completed(&changed), completed(&changed));
    assert_eq!((a.digest, a.counters), (b.digest, b.counters));
}

fn any_sysctl() -> impl Strategy<Value = Sysctl> {
    let ratios = [0u32..100, 1..100, 0..100];
    let kbytes = || proptest::option::of(64u64..4096);
    (
        ratios,
        kbytes(),
        kbytes(),
        proptest::array::uniform3(0u32..300),
        1u32..3000,
    )
        .prop_map(
            |([background, ratio, swappiness], min, high, reserve, factor)| {
                let low = min.unwrap_or(2000) + 500;
                Sysctl {
                    dirty_background_ratio: background,
                    dirty_ratio: ratio,
                    swappiness,
                    min_free_kbytes: min,
                    wmark_low_kbytes: high.map(|_| low),
                    wmark_high_kbytes: high.map(|high| low + high),
                    lowmem_reserve_ratio: reserve,
                    watermark_scale_factor: Some(factor),
                    ..Sysctl::KERNEL
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// An engine to which sysctls were written has the same values as one that booted with them.
    #[test]
    fn what_is_computed_anew_is_what_boots(first in any_sysctl(), second in any_sysctl(), mib in 24u64..200) {
        let engine = |sysctl: &Sysctl| {
            let mut m = machine(mib);
            m.sysctl = sysctl.clone();
            sim::run::build::<false>(&spec(m, FsKind::Ext4, "sleep 1"))
        };
        let (changed, booted) = (engine(&first), engine(&second));
        changed.write_sysctls(&second);
        prop_assert_eq!(&changed.sysctls(), &second);
        for (a, b) in changed.zones.iter().zip(&booted.zones) {
            for mark in [Mark::Min, Mark::Low, Mark::High] {
                prop_assert_eq!(a.mark(mark), b.mark(mark));
            }
            prop_assert_eq!(a.dirty_balance_reserve(), b.dirty_balance_reserve());
            for class in 0..4 {
                prop_assert_eq!(a.reserve(class), b.reserve(class));
            }
        }
        for z in 0..changed.zones.len() {
            prop_assert_eq!(changed.zone_dirtyable(z), booted.zone_dirtyable(z));
        }
        let [a, b] = [&changed, &booted].map(|mm| mm.dirty_limits());
        prop_assert_eq!((a.background, a.dirty), (b.background, b.dirty));
    }
}

/// The defaults lie within the ranges of the table, so that every machine may set them.
#[test]
fn defaults_are_in_range() {
    for (info, values) in Sysctl::KERNEL.values() {
        for value in values {
            let fits = match info.fits {
                mm::sysctl::Fits::Number(a, b)
                | mm::sysctl::Fits::Bytes(a, b)
                | mm::sysctl::Fits::Three(a, b) => (a..=b).contains(&value),
                mm::sysctl::Fits::ZeroOr(a, b) => value == 0 || (a..=b).contains(&value),
                mm::sysctl::Fits::HalfOfMemory => true,
            };
            assert!(fits, "{}", info.name);
        }
    }
    assert!(TABLE.iter().any(|i| i.name == "fs.xfs.xfssyncd_centisecs"));
}
