//! Whole runs on small machines: invariants, determinism, faults, switches.

mod common;

use common::{ALL_FS, disk, faulty, machine, run, spec, swap};
use mm::policy::{DirtyExceeded, DirtyLimits, ReclaimFlush, ReclaimWriteback};
use proptest::prelude::*;
use sim::Outcome;
use sim::spec::{DiskKind, Fault, FsKind, Size};

const DD: &str = "dd if=/dev/zero of=out bs=64k count=1500";

#[test]
fn every_filesystem_writes_more_than_memory_and_every_list_recounts() {
    for fs in ALL_FS {
        let r = run(&spec(machine(64), fs, DD));
        assert_eq!(r.outcome, Outcome::Completed, "{fs:?}");
        assert!(r.counters["pgfree"] > 10_000, "{fs:?}: memory was recycled");
        let written =
            r.counters["pgpgout"] / 4 + r.counters["nr_dirty"] + r.counters["nr_writeback"];
        assert!(
            written >= 24_000,
            "{fs:?}: every page is on disk or still dirty, got {written}"
        );
        assert!(
            !r.series.t.is_empty()
                && r.series
                    .columns
                    .iter()
                    .all(|c| c.values.len() == r.series.t.len())
        );
    }
}

#[test]
fn every_disk_kind_serves_a_run() {
    for &kind in DiskKind::ALL {
        let mut m = machine(64);
        m.disk = disk(kind);
        let r = run(&spec(m, FsKind::Xfs, DD));
        assert_eq!(r.outcome, Outcome::Completed, "{kind:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for fs in ALL_FS {
        let s = spec(machine(48), fs, DD);
        let (a, b) = (run(&s), run(&s));
        assert_eq!((a.digest, a.sim_ns), (b.digest, b.sim_ns), "{fs:?}");
        assert_eq!(a.counters, b.counters);
        assert_eq!(a.series, b.series);
        let mut other = s.clone();
        other.seed = 8;
        assert_ne!(
            run(&other).digest,
            a.digest,
            "{fs:?}: another seed, another history"
        );
    }
}

#[test]
fn reading_back_finds_cached_pages_and_reads_the_rest() {
    let m = machine(64);
    let r = run(&spec(
        m,
        FsKind::Xfs,
        "dd if=/dev/zero of=a bs=64k count=400 conv=fsync; dd if=a of=/dev/null bs=64k",
    ));
    assert_eq!(r.outcome, Outcome::Completed);
    assert_eq!(r.counters["pgpgin"], 0, "25 MiB fit in memory");
    let r = run(&spec(
        machine(48),
        FsKind::Xfs,
        "dd if=/dev/zero of=a bs=64k count=2000 conv=fsync; dd if=a of=/dev/null bs=64k",
    ));
    assert!(
        r.counters["pgpgin"] >= 120 * 1024,
        "a file larger than memory is read again"
    );
}

#[test]
fn rewriting_a_cached_page_twice_activates_it() {
    let twice =
        "dd if=/dev/zero of=a bs=4k count=1000; dd if=/dev/zero of=a bs=4k count=1000 conv=notrunc";
    let r = run(&spec(machine(64), FsKind::Xfs, twice));
    assert!(r.counters["pgactivate"] > 900, "the second touch activates");
    // 3.0: a page that is still in an add batch is not activated, however often it is touched.
    let r = run(&spec(
        machine(64),
        FsKind::Xfs,
        "dd if=/dev/zero of=a bs=512 count=8000",
    ));
    assert!(r.counters["pgactivate"] < 100);
    let r = run(&spec(
        machine(64),
        FsKind::Xfs,
        "dd if=/dev/zero of=a bs=4k count=1000",
    ));
    assert_eq!(
        r.counters["pgactivate"], 0,
        "one touch a page activates none"
    );
}

#[test]
fn idle_programs_are_swapped_out() {
    let mut m = machine(64);
    m.boot.anon = Size(24 << 20);
    m.swap = Some(swap(64 << 20));
    let r = run(&spec(m.clone(), FsKind::Xfs, DD));
    assert_eq!(r.outcome, Outcome::Completed);
    assert!(
        r.counters["pswpout"] > 100,
        "pressure pushes idle memory out"
    );
    m.swap = None;
    let r = run(&spec(m, FsKind::Xfs, DD));
    assert_eq!(r.counters["pswpout"], 0, "no swap, no swapping");
}

#[test]
fn a_machine_too_small_ends_in_a_reported_oom() {
    let mut m = machine(32);
    m.boot.anon = Size(40 << 20);
    match run(&spec(m, FsKind::Xfs, DD)).outcome {
        Outcome::Oom { report } => assert!(!report.is_empty()),
        other => panic!("expected OOM, got {other:?}"),
    }
}

#[test]
fn write_errors_are_reported_and_lose_only_what_they_hit() {
    let m = faulty(
        machine(64),
        Fault::WriteError {
            at_s: 1.2,
            for_s: 0.3,
        },
    );
    let r = run(&spec(m, FsKind::Xfs, DD));
    assert!(matches!(
        r.outcome,
        Outcome::Completed | Outcome::Failed { .. }
    ));
    assert!(r.counters["write_error"] > 0);
    assert!(r.notes.iter().any(|n| n.contains("lost")), "{:?}", r.notes);
}

#[test]
fn fsync_after_a_write_error_fails() {
    let m = faulty(
        machine(64),
        Fault::WriteError {
            at_s: 0.0,
            for_s: 100.0,
        },
    );
    let r = run(&spec(
        m,
        FsKind::Xfs,
        "dd if=/dev/zero of=a bs=64k count=16 conv=fsync",
    ));
    assert!(
        matches!(r.outcome, Outcome::Failed { .. }),
        "{:?}",
        r.outcome
    );
}

#[test]
fn a_stalled_disk_delays_the_run_by_the_stall() {
    let plain = run(&spec(machine(64), FsKind::Xfs, DD));
    let m = faulty(
        machine(64),
        Fault::Stall {
            at_s: 1.5,
            for_s: 20.0,
        },
    );
    let stalled = run(&spec(m, FsKind::Xfs, DD));
    assert_eq!(stalled.outcome, Outcome::Completed);
    assert!(stalled.metrics["elapsed"].value > plain.metrics["elapsed"].value + 15.0);
}

#[test]
fn a_disk_that_stops_ends_the_run_with_its_data_reported_lost() {
    for fs in ALL_FS {
        let m = faulty(machine(64), Fault::Stop { at_s: 1.5 });
        let r = run(&spec(m, fs, DD));
        assert!(
            !r.notes.is_empty() || matches!(r.outcome, Outcome::TimeLimit | Outcome::Failed { .. }),
            "{fs:?}: {:?}",
            r.outcome
        );
    }
}

/// A machine with a small Normal zone above a large DMA32 zone.
fn lopsided() -> sim::spec::Machine {
    let mut m = machine(256);
    m.nodes[0].zones.push(sim::spec::ZoneSpec {
        zone: mm::ZoneType::Normal,
        size: Size(32 << 20),
    });
    // Only page cache is in use: memory taken at boot would come from the small zone.
    (m.boot.kernel, m.boot.anon) = (Size(0), Size(0));
    m.disk = disk(DiskKind::UsbFlash);
    m
}

fn most_dirty_share_of_normal(limits: DirtyLimits) -> f64 {
    let mut s = spec(
        lopsided(),
        FsKind::Xfs,
        "dd if=/dev/zero of=a bs=64k count=4000",
    );
    s.policy.dirty_limits = limits;
    let r = run(&s);
    assert_eq!(r.outcome, Outcome::Completed);
    let column = |name: &str| {
        r.series
            .columns
            .iter()
            .find(|c| c.name == name && c.scope == "Normal")
            .expect("a column")
    };
    let (dirty, writeback) = (column("dirty"), column("writeback"));
    dirty
        .values
        .iter()
        .zip(&writeback.values)
        .map(|(a, b)| a + b)
        .fold(0.0, f64::max)
        / 8192.0
}

#[test]
fn per_zone_limits_keep_a_small_zone_from_filling_with_dirty_pages() {
    let vanilla = most_dirty_share_of_normal(DirtyLimits::Global);
    let patched = most_dirty_share_of_normal(DirtyLimits::PerZone);
    assert!(vanilla > 0.8, "vanilla fills the small zone: {vanilla}");
    assert!(patched < 0.45, "at 40 % the patch stops there: {patched}");
}

#[test]
fn the_earlier_form_stalls_nobody_on_one_node() {
    // On one node, the zones hold all dirtyable memory, so their limits always reach the background
    // limit and no task stalls. A writer bound to a small node stalls; see policy.rs.
    let stalls = |limits| {
        let mut s = spec(machine(64), FsKind::Xfs, DD);
        s.policy.dirty_limits = limits;
        run(&s).counters["dirty_stall"]
    };
    assert_eq!(stalls(DirtyLimits::PerZone), 0);
    assert_eq!(stalls(DirtyLimits::PerZoneStall), 0);
}

#[test]
fn kswapd_never_writes_file_pages_when_the_policy_forbids_it() {
    let writes = |rule| {
        let mut m = machine(64);
        m.disk = disk(DiskKind::UsbFlash);
        m.sysctl.dirty_ratio = 90;
        m.sysctl.dirty_background_ratio = 80;
        let mut s = spec(m, FsKind::Ext3, "dd if=/dev/zero of=a bs=64k count=2000");
        s.policy.kswapd_writeback = rule;
        s.policy.direct_writeback = ReclaimWriteback::Never;
        let r = run(&s);
        assert_eq!(r.outcome, Outcome::Completed);
        (
            r.counters["nr_vmscan_write"],
            r.counters["nr_vmscan_write_skip"],
        )
    };
    let (always, skipped_always) = writes(ReclaimWriteback::Always);
    let (never, skipped_never) = writes(ReclaimWriteback::Never);
    assert!(always > 0, "with loose limits dirty pages reach the tail");
    assert_eq!(never, 0);
    assert!(skipped_never > skipped_always);
}

/// Returns how many times a lone writer dirties hundreds of pages within 20 ms while it is held at
/// its limit.
///
/// The writer is a new task: its share of all dirtying grows from nothing, so its limit stays above
/// the lowest one for the first few times that the machine's limit is written.
fn bursts(rule: DirtyExceeded) -> usize {
    let mut m = machine(256);
    m.disk = disk(DiskKind::UsbFlash);
    let mut s = spec(m, FsKind::Xfs, "dd if=/dev/zero of=a bs=32k count=12000");
    s.policy.dirty_exceeded = rule;
    s.sample_ns = 20_000_000;
    let r = run(&s);
    assert_eq!(r.outcome, Outcome::Completed);
    let column = |name: &str| {
        let mut all = r.series.columns.iter();
        let found = all.find(|c| c.name == name && c.scope == "global");
        &found.expect("a column").values
    };
    let dirty = column("dirty").iter().zip(column("writeback"));
    let held: Vec<f64> = dirty
        .map(|(d, w)| d + w)
        .skip(r.series.t.len() / 2)
        .collect();
    held.windows(2).filter(|w| w[1] - w[0] > 300.0).count()
}

#[test]
fn a_lone_writer_at_its_limit_goes_on_in_bursts_in_3_0_and_in_small_steps_in_3_1() {
    let (in_3_0, in_3_1) = (
        bursts(DirtyExceeded::OwnLimit),
        bursts(DirtyExceeded::LowestLimit),
    );
    assert!(
        in_3_0 > 20 && in_3_1 * 2 < in_3_0,
        "{in_3_0} against {in_3_1}"
    );
}

#[test]
fn xfs_clusters_around_what_kswapd_asks_for() {
    let asked = |filesystem| {
        let mut m = machine(64);
        m.disk = disk(DiskKind::UsbFlash);
        m.sysctl.dirty_ratio = 90;
        m.sysctl.dirty_background_ratio = 80;
        let mut s = spec(m, filesystem, "dd if=/dev/zero of=a bs=64k count=2000");
        s.policy.direct_writeback = ReclaimWriteback::Never;
        let r = run(&s);
        assert_eq!(r.outcome, Outcome::Completed);
        r.counters["nr_vmscan_write"]
    };
    let (xfs, ext3) = (asked(FsKind::Xfs), asked(FsKind::Ext3));
    assert!(xfs > 0 && xfs * 4 < ext3, "xfs {xfs}, ext3 {ext3}");
}

#[test]
fn the_tracker_is_free_when_off_and_changes_nothing_when_on() {
    let mut s = spec(machine(48), FsKind::Btrfs, DD);
    let off = run(&s);
    s.track_pages = true;
    let on = run(&s);
    assert!(off.tracker.is_none());
    let rows = on.tracker.as_ref().expect("a report").rows.clone();
    assert!(
        rows.iter()
            .any(|r| r.event == "activated" && r.path.starts_with("tree")),
        "{rows:?}"
    );
    assert_eq!(off.digest, on.digest);
    assert_eq!(off.counters, on.counters);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    /// Any small machine, filesystem, disk and seed: the run ends, and every recount during it
    /// agrees.
    #[test]
    fn random_runs_keep_every_invariant(
        seed in any::<u64>(),
        mib in 24u64..80,
        cpus in 1u32..5,
        fs in prop::sample::select(ALL_FS.to_vec()),
        kind in prop::sample::select(vec![DiskKind::UsbFlash, DiskKind::Disk, DiskKind::Raid0, DiskKind::Ssd]),
        swapping in any::<bool>(),
        per_zone in any::<bool>(),
        dirty in 1u32..90,
        bs in prop::sample::select(vec!["512", "3000", "4k", "64k", "1M"]),
        fault in prop::option::of(0u8..3),
        reclaim_writes in any::<bool>(),
        flush in prop::sample::select(vec![ReclaimFlush::None, ReclaimFlush::Zone, ReclaimFlush::Node]),
        pressure_expiry in any::<bool>(),
    ) {
        let mut m = machine(mib);
        m.cpus = cpus;
        m.disk = disk(kind);
        m.sysctl.dirty_ratio = dirty;
        m.boot.anon = Size((mib / 4) << 20);
        if swapping {
            m.swap = Some(swap(16 << 20));
        }
        match fault {
            Some(0) => m = faulty(m, Fault::WriteError { at_s: 1.1, for_s: 0.5 }),
            Some(1) => m = faulty(m, Fault::Stall { at_s: 1.1, for_s: 3.0 }),
            Some(2) => m = faulty(m, Fault::Stop { at_s: 2.0 }),
            _ => {}
        }
        let count = 30 * 1024 * 1024 / match bs { "512" => 4096, "3000" => 6000, "4k" => 4096, "64k" => 65536, _ => 1 << 20 };
        let mut s = spec(m, fs, &format!("dd if=/dev/zero of=a bs={bs} count={count}"));
        s.seed = seed;
        if per_zone {
            s.policy.dirty_limits = DirtyLimits::PerZone;
        }
        if !reclaim_writes {
            s.policy.direct_writeback = ReclaimWriteback::Never;
            s.policy.kswapd_writeback = ReclaimWriteback::Never;
            s.policy.immediate_reclaim = true;
        }
        (s.policy.reclaim_flush, s.policy.pressure_expiry) = (flush, pressure_expiry);
        let r = run(&s);
        if let Outcome::Failed { error } = &r.outcome {
            prop_assert!(!error.contains("recount"), "{error}");
            prop_assert!(!error.contains("for ever"), "{error}");
        }
    }
}

/// POSIX programs: the current directory by its name, missing names, plain files, and a sync after
/// which no page is dirty.
#[test]
fn find_rm_and_sync_do_as_posix_says() {
    let line = "fs_mark -d d -n 2 -L 1 -S0 -s 4096 -k; dd if=/dev/zero of=./g bs=64k count=16; find .; \
                find ./d/. g; rm -rf missing d/none; rm g; rm -f g; rm -r ./d; find .; sync";
    let mut s = spec(machine(64), FsKind::Ext4, line);
    // The period is longer than the script: all pages that are clean then were written by sync.
    s.machine.sysctl.dirty_writeback_centisecs = 0;
    let r = run(&s);
    assert_eq!(r.outcome, Outcome::Completed);
    // `.`, `d`, its two files and `g`; all of them but `.`; and `.` once everything is removed.
    let names = |nth| r.metrics[&format!("names_walked:find#{nth}")].value;
    assert_eq!([names(1), names(2), names(3)], [5.0, 4.0, 1.0]);
    assert_eq!(r.metrics["names_removed"].value, 4.0);
    let s = spec(
        machine(64),
        FsKind::Ext4,
        "dd if=/dev/zero of=f bs=64k count=64; sync",
    );
    let r = run(&s);
    assert_eq!((r.counters["nr_dirty"], r.counters["nr_writeback"]), (0, 0));
    assert!(r.counters["nr_written"] >= 1024 && r.metrics["sync_time"].value > 0.0);
    for (line, why) in [
        ("find missing", "missing: no such file"),
        ("rm -r missing", "missing: no such file"),
        (
            "fs_mark -d d -n 2 -L 1 -S0 -s 4096 -k; rm d",
            "d: is a directory",
        ),
    ] {
        let r = run(&spec(machine(64), FsKind::Ext4, line));
        let Outcome::Failed { error } = r.outcome else {
            panic!("{line}: {:?}", r.outcome)
        };
        assert_eq!(error, why, "{line}");
    }
}

/// Figures of two commands of the same program are reported separately.
#[test]
fn figures_of_two_instances_are_kept_apart() {
    let line = "dd if=/dev/zero of=a bs=64k count=10 & dd if=/dev/zero of=b bs=64k count=30; wait; \
                burst -s 1M -n 3 -i 1ms";
    let r = run(&spec(machine(64), FsKind::Xfs, line));
    let value = |name: &str| r.metrics.get(name).map(|m| m.value);
    let bytes = ["bytes:dd#1", "bytes:dd#2", "bytes"].map(value);
    assert_eq!(bytes, [10, 30, 40].map(|n| Some(f64::from(n << 16))));
    assert!(value("elapsed:dd#1") > Some(0.0) && value("elapsed:dd#2") <= value("elapsed"));
    assert!(value("burst_alloc_p99").is_some() && value("burst_alloc_p99:burst#1").is_none());
}

/// Real machines have zones of a few pages.
#[test]
fn zones_of_a_few_pages_are_zones() {
    use mm::ZoneType;
    use sim::spec::ZoneSpec;
    for pages in [1, 3, 17] {
        let mut m = machine(64);
        m.boot.dma = Size(0);
        m.nodes[0].zones[0].size = Size(pages * 4096);
        m.nodes[0].zones.push(ZoneSpec {
            zone: ZoneType::Movable,
            size: Size((pages + 1) * 4096),
        });
        for policy in mm::Policy::PRESETS {
            let mut s = spec(
                m.clone(),
                FsKind::Ext4,
                "dd if=/dev/zero of=out bs=64k count=1200",
            );
            s.policy = mm::Policy::preset(policy).expect("a preset");
            let r = run(&s);
            assert_eq!(r.outcome, Outcome::Completed, "{policy}, {pages} pages");
        }
    }
}
