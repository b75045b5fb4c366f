//! Watermarks: those of the 2.6.37 kernel, explicit values, and watermarks that adjust themselves.

mod common;

use common::{Life, bare, disk, machine, run, spec};
use mm::Policy;
use mm::ZoneType;
use mm::memory::frame::flag;
use mm::memory::gfp::Gfp;
use mm::memory::zone::Mark;
use mm::policy::{
    BalanceGap, DirtyRatios, FreeSnapshot, KswapdSlab, SmallScan, WakeupTrace, WatermarkFormula,
    WatermarkProfile, Watermarks,
};
use mm::reclaim::kswapd::KSWAPD_FLAGS;
use mm::watch::vmstat::{VmEvent, ZoneEvent};
use mm::world::Tasks;
use mm::world::event::Event;
use proptest::prelude::*;
use sim::SimMm;
use sim::filesystems as fs;
use sim::run::Recorded;
use sim::spec::{DiskKind, FsKind, RunSpec, Size, ZoneSpec};
use sim::{Control, Outcome, RunResult};

fn build(spec: &RunSpec) -> SimMm<true> {
    let mm = sim::run::build(spec);
    fs::mount(&mm);
    mm.world.recording.set(true);
    mm
}

/// A DMA32 and a Normal zone, both empty.
fn two_zones(policy: Policy) -> RunSpec {
    let mut m = bare(ZoneType::Dma32, 32 << 20);
    m.nodes[0].zones.push(ZoneSpec {
        zone: ZoneType::Normal,
        size: Size(32 << 20),
    });
    // Both zones fall below their low watermarks for requests that may use Normal.
    m.sysctl.lowmem_reserve_ratio = [0; 3];
    let mut s = spec(m, FsKind::Ext3, "dd if=/dev/zero of=a count=1");
    s.policy = policy;
    s
}

/// A small zone, soon balanced, below a large one that keeps kswapd busy longer.
fn small_below_large(policy: Policy) -> RunSpec {
    let mut s = two_zones(policy);
    for (zone, mib) in s.machine.nodes[0].zones.iter_mut().zip([16, 128]) {
        zone.size = Size(mib << 20);
    }
    s
}

/// Reads `pages` clean pages into memory and waits for kswapd to sleep. Returns the trace events
/// and the engine.
fn fill(spec: &RunSpec, pages: u32) -> (Vec<Event>, SimMm<true>) {
    let mm = build(spec);
    let reader = async {
        let file = fs::create(&mm).expect("a file");
        for index in 0..pages {
            let pfn = mm.alloc_page(Gfp::USER).await.expect("memory");
            mm.frames.set_flags(pfn, flag::UPTODATE);
            assert!(mm.add_to_page_cache_lru(pfn, file, index));
            mm.world.relax().await;
        }
        while !mm.kswapd_sleeps(0) {
            mm.world.sched.sleep(1_000_000).await;
        }
        mm.world.sched.stop();
    };
    let tasks: Vec<(u32, Life<'_>)> = vec![
        (KSWAPD_FLAGS, Box::pin(mm.kswapd(0))),
        (0, Box::pin(reader)),
    ];
    common::drive(&mm, tasks, 1_000_000_000, || {});
    let events = mm.world.events.borrow().iter().map(|e| e.2).collect();
    (events, mm)
}

fn wakeups(events: &[Event]) -> usize {
    let of = |e: &&Event| matches!(e, Event::WakeupKswapd { .. });
    events.iter().filter(of).count()
}

/// 2.6.37 traces a wakeup before it checks whether kswapd sleeps: one walk over two zones that are
/// both below low gives two events, and every allocation until kswapd is done gives more.
#[test]
fn one_walk_of_2_6_37_can_trace_several_wake_ups() {
    let with = |wakeup_trace| {
        let policy = Policy {
            wakeup_trace,
            ..Policy::linux_2_6_37()
        };
        let (events, mm) = fill(&two_zones(policy), 20_000);
        let zones: std::collections::BTreeSet<u32> = events
            .iter()
            .filter_map(|e| match e {
                Event::WakeupKswapd { zid, .. } => Some(*zid),
                _ => None,
            })
            .collect();
        (
            wakeups(&events),
            zones.len(),
            mm.vm_event(VmEvent::PageOutRun),
        )
    };
    let (always, zones, _) = with(WakeupTrace::Always);
    let (asleep, _, runs) = with(WakeupTrace::Asleep);
    assert_eq!(zones, 2, "both zones of a walk");
    assert!(
        asleep as u64 <= runs,
        "{asleep} wake-ups of a sleeping kswapd, {runs} runs"
    );
    assert!(always > 3 * asleep, "{always} against {asleep}");
}

/// While kswapd works for one zone, 2.6.37 shrinks the other one up to eight times its high
/// watermark, later kernels up to 1 % above it.
#[test]
fn kswapd_of_2_6_37_shrinks_zones_far_above_their_high_watermark() {
    let free_at_most = |balance_gap| {
        let policy = Policy {
            balance_gap,
            small_scan: SmallScan::Force,
            ..Policy::linux_2_6_37()
        };
        let (_, mm) = fill(&small_below_large(policy), 40_000);
        mm.zone_event(0, ZoneEvent::PgStealKswapd)
    };
    let (eight, one) = (
        free_at_most(BalanceGap::EightTimesHigh),
        free_at_most(BalanceGap::OnePercent),
    );
    assert!(eight > one, "{eight} against {one} pages");
}

/// 2.6.37 calls the shrinkers for each zone that kswapd walks.
#[test]
fn kswapd_of_2_6_37_spends_more_time_in_shrinkers() {
    let cpu = |kswapd_slab| {
        let policy = Policy {
            kswapd_slab,
            // The small zone is soon above this and only walked over.
            small_scan: SmallScan::Force,
            balance_gap: BalanceGap::OnePercent,
            ..Policy::linux_2_6_37()
        };
        let (_, mm) = fill(&small_below_large(policy), 40_000);
        (
            mm.world.sched.task_cpu_ns(1),
            mm.vm_event(VmEvent::PageOutRun),
        )
    };
    let (every, runs) = cpu(KswapdSlab::EveryZone);
    let (shrunk, _) = cpu(KswapdSlab::ShrunkZones);
    assert!(runs > 0);
    assert!(every >= shrunk + 5000, "{every} against {shrunk} ns");
}

/// Where a node has one zone, that zone is walked only to be shrunk: the shrinkers run as often.
#[test]
fn a_single_zone_has_the_shrinkers_called_as_often_either_way() {
    let cpu = |kswapd_slab| {
        let mut s = two_zones(Policy {
            kswapd_slab,
            ..Policy::linux_3_0()
        });
        s.machine.nodes[0].zones.pop();
        let (_, mm) = fill(&s, 20_000);
        (
            mm.world.sched.task_cpu_ns(1),
            mm.vm_event(VmEvent::PageOutRun),
        )
    };
    let every = cpu(KswapdSlab::EveryZone);
    assert!(every.1 > 0);
    assert_eq!(every, cpu(KswapdSlab::ShrunkZones));
}

/// 3.0's slip makes a watermark test fail that passes with the same number of free pages in 2.6.37:
/// two more pages are kept free.
#[test]
fn the_slip_keeps_two_pages_more() {
    let lowest = |watermark_slip| {
        let policy = Policy {
            watermark_slip,
            ..Policy::linux_2_6_37()
        };
        let mm = build(&two_zones(policy));
        let taker = async {
            // No task reclaims, and no allocation may go below half of min.
            while mm.alloc_kernel_page(Gfp::zone(2)).await.is_some() {}
            mm.world.sched.stop();
        };
        common::drive(&mm, vec![(0, Box::pin(taker))], 1_000_000_000, || {});
        mm.global_stat(mm::watch::vmstat::ZoneStat::NrFreePages)
    };
    let (slip, none) = (lowest(true), lowest(false));
    assert!(slip >= none + 2, "{slip} and {none} pages are kept");
}

/// With many CPUs the differences in their counters exceed the gap between low and min. 2.6.37 adds
/// them up for the allocator while kswapd is awake, so that no task without the right to it goes
/// below the minimum; later kernels never add them up, and requests take the pages that the
/// differences hide.
#[test]
fn the_allocator_of_2_6_37_sees_exact_counts_while_kswapd_is_awake() {
    const CPUS: u32 = 16;
    let below = |free_snapshot| {
        let policy = Policy {
            free_snapshot,
            ..Policy::linux_2_6_37()
        };
        let mut s = two_zones(policy);
        s.machine.cpus = CPUS;
        let mm = build(&s);
        assert!(mm.zones.iter().all(|z| z.percpu_drift_mark() > 0));
        // There is no kswapd task, so kswapd never sleeps.
        assert!(!mm.kswapd_sleeps(0));
        let done = std::cell::Cell::new(0);
        let taker = || async {
            // These requests may not wait, so they may go a quarter below min.
            while mm.alloc_kernel_page(Gfp::zone(2)).await.is_some() {
                mm.world.relax().await;
            }
            done.set(done.get() + 1);
            if done.get() == CPUS {
                mm.world.sched.stop();
            }
        };
        let tasks = (0..CPUS).map(|_| (0, Box::pin(taker()) as Life<'_>));
        common::drive(&mm, tasks.collect(), 1_000_000_000, || {});
        let of = |z: usize| {
            let min = mm.zones[z].mark(Mark::Min);
            let least = min - min / 4 - u64::from(mm.zones[z].pcp_batch());
            least.saturating_sub(mm.zone_stat(z, mm::watch::vmstat::ZoneStat::NrFreePages))
        };
        (0..mm.zones.len()).map(of).sum::<u64>()
    };
    assert_eq!(below(FreeSnapshot::WhileAwake), 0);
    let pages = below(FreeSnapshot::Kswapd);
    assert!(pages > 20, "{pages} pages below what they may take");
}

/// A zone whose share at priority 12 rounds to 0: 3.0 scans a batch of it, 2.6.37 skips it.
#[test]
fn kswapd_of_2_6_37_leaves_small_lists_alone() {
    let scanned = |small_scan| {
        let policy = Policy {
            small_scan,
            ..Policy::linux_2_6_37()
        };
        let (events, _) = fill(&two_zones(policy), 20_000);
        let of = |e: &Event| match e {
            Event::ShrinkInactive { priority, .. } => *priority == 12,
            _ => false,
        };
        events.into_iter().filter(of).count()
    };
    let (save, force) = (scanned(SmallScan::Save), scanned(SmallScan::Force));
    assert!(save < force, "{save} and {force} batches at priority 12");
}

/// From 2.6.38 on, a node counts as balanced for a high order if a quarter of it is.
#[test]
fn the_node_is_balanced_for_a_high_order_by_a_quarter_of_its_pages() {
    let freed = |order_balance_percent| {
        let policy = Policy {
            order_balance_percent,
            balance_gap: BalanceGap::OnePercent,
            ..Policy::linux_2_6_37()
        };
        let mut s = two_zones(policy);
        let line = "dd if=/dev/zero of=b bs=64k & burst -d 2s -s 2M -o 3 -a -h 20ms -i 100ms -n 20";
        s.workload = workload::parse(line).expect("a command");
        s.filesystem = FsKind::Ext3;
        s.check_ns = 0;
        run(&s).counters["kswapd_steal"]
    };
    // kswapd goes on until the whole node has free blocks of the order.
    let (all, quarter) = (freed(100), freed(25));
    assert!(all > quarter + 100, "{all} and {quarter} pages freed");
}

// Bursts.

/// A machine of 512 MiB whose memory a writer keeps full.
fn bursts(policy: Policy, line: &str) -> RunSpec {
    let mut m = machine(512);
    m.cpus = 1;
    m.disk = disk(DiskKind::Ssd);
    m.disk.capacity = Size(256 << 30);
    let mut s = spec(
        m,
        FsKind::Xfs,
        &format!("dd if=/dev/zero of=a bs=64k & sleep 10; {line}"),
    );
    s.policy = policy;
    // kswapd gets the CPU of the bursts when their slice is over, and not when it is woken: the
    // worst case.
    s.params.sched_wakeup_granularity = 1e9;
    s.sample_ns = 0;
    s.check_ns = 1_000_000_000;
    s
}

fn auto() -> Policy {
    Policy {
        watermarks: Watermarks::Auto,
        ..Policy::linux_3_0()
    }
}

const BURST: &str = "burst -s 12M -h 20ms -i 500ms";

fn direct(r: &RunResult) -> u64 {
    assert_eq!(r.outcome, Outcome::Completed);
    r.metrics["burst_direct_reclaim"].value as u64
}

/// Bursts of atomic and sleeping requests of every order give all their pages back.
#[test]
fn bursts_of_every_kind_give_their_pages_back() {
    for options in [
        "-o 0",
        "-o 3 -a",
        "-o 2 -A poisson",
        "-o 1 -A onoff -j 5ms",
        "-a -r 64M",
    ] {
        let line = format!("burst -s 1M -i 5ms -h 3ms -n 20 {options}");
        let r = run(&bursts(Policy::linux_3_0(), &line));
        assert_eq!(r.outcome, Outcome::Completed, "{options}");
        assert_eq!(r.metrics["bursts"].value, 20.0, "{options}");
        let boot = (4 << 20) / 4096 + (1 << 20) / 4096;
        assert_eq!(r.counters["nr_kernel"], boot, "{options}");
    }
}

/// Late bursts follow each other at once; together they need more than memory, so each must free
/// its pages before the next one allocates.
#[test]
fn late_bursts_free_what_is_due() {
    let r = run(&bursts(
        Policy::linux_3_0(),
        "burst -s 8M -r 40M -i 1ms -n 20",
    ));
    assert_eq!(r.outcome, Outcome::Completed);
    assert_eq!(r.metrics["bursts"].value, 20.0);
}

/// An episode of direct reclaim: entries of any task less than a burst period apart. Times in
/// nanoseconds.
#[derive(Debug, PartialEq)]
struct Episode {
    first: u64,
    last: u64,
}

fn episodes(recorded: &Recorded, period: u64) -> Vec<Episode> {
    assert_eq!(recorded.rings_lost, 0, "the record is complete");
    let mut all: Vec<Episode> = Vec::new();
    for &(time, _, event) in &recorded.events {
        let Event::DirectReclaimBegin { .. } = event else {
            continue;
        };
        match all.last_mut() {
            Some(now) if time - now.last < period => now.last = time,
            _ => all.push(Episode {
                first: time,
                last: time,
            }),
        }
    }
    all
}

/// Bursts of 8 MiB every 500 ms, from the start on or a second later, beside a writer, with memory
/// full of page cache. With the sysctls one episode lasts as long as the bursts do. With `auto`
/// there is at most one, over before the fourth burst; then the low watermark falls to its floor
/// within `decay_ms`, and no burst stalls there either. The cap holds all the time.
#[test]
fn auto_has_at_most_one_episode_of_direct_reclaim_in_a_repeated_burst() {
    const PERIOD: u64 = 500_000_000;
    const DECAY_MS: u32 = 5000;
    for wait in ["", "sleep 1; "] {
        let of = |policy: Policy| {
            let mut s = bursts(policy, "");
            s.machine.boot.cache = Size(480 << 20);
            s.sample_ns = 10_000_000;
            let line =
                format!("dd if=/dev/zero of=a bs=64k & {wait}burst -s 8M -h 20ms -i 500ms -n 40");
            s.workload = workload::parse(&line).expect("a command");
            let (r, recorded) = sim::run::traced(&s, &Control::default());
            assert_eq!(r.outcome, Outcome::Completed);
            let low = r.series.columns.into_iter().rfind(|c| c.name == "low");
            let low = low.expect("a column").values;
            (episodes(&recorded, PERIOD), recorded.span, r.series.t, low)
        };
        let (fixed, span, _, defaults) = of(Policy::linux_3_0());
        let last = fixed.last().expect("the defaults stall").last;
        assert!(span.1 - last < PERIOD, "to the end: {fixed:?} of {span:?}");
        let mut policy = auto();
        policy.auto.decay_ms = DECAY_MS;
        policy.auto.remember_percent = 50;
        let cap = f64::from(policy.auto.cap);
        let (adapted, span, times, low) = of(policy);
        assert_eq!(adapted.len(), 1, "{adapted:?}");
        assert!(adapted[0].last < span.0 + 4 * PERIOD, "{adapted:?}");
        let (default, most) = (defaults[0], low.iter().copied().fold(0.0, f64::max));
        assert!(
            most > default && most <= default * cap,
            "{default} to {most}"
        );
        // Half of the maximum above the default is remembered. A raise after trouble comes later
        // than the last direct reclaim, but by less than a second.
        let ended = (adapted[0].last - span.0) as f64 / 1e9 + 1.0 + f64::from(DECAY_MS) / 1e3;
        let floor = default + (most - default) / 2.0;
        for (t, low) in times.into_iter().zip(low) {
            assert!(t < ended || low == floor, "{low} at {t} s, floor {floor}");
        }
    }
}

/// Once the writer has raised the watermarks before the bursts begin, no burst stalls.
#[test]
fn bursts_do_not_stall_once_auto_has_adapted() {
    let of = |policy, n: u32| {
        let r = run(&bursts(policy, &format!("{BURST} -n {n}")));
        (direct(&r), r.counters["allocstall"])
    };
    let (fixed, _) = of(Policy::linux_3_0(), 40);
    assert!(fixed > 40, "the defaults stall again and again: {fixed}");
    // The writer that fills memory already meets the first episode; its stalls count too.
    let (first, all) = (of(auto(), 4), of(auto(), 40));
    assert!(first.1 > 0, "something has taught it");
    assert_eq!(first, all, "none after it has adapted");
}

/// The watermarks learned by a run with `auto` keep the next run's bursts from stalling, the first
/// one included.
#[test]
fn a_profile_keeps_the_first_burst_from_stalling() {
    let stress = run(&bursts(auto(), &format!("{BURST} -n 4")));
    assert!(stress.counters["allocstall"] > 0);
    let marks = stress.watermarks.expect("the engine tells them");
    let text = toml::to_string(&marks).expect("a profile is TOML");
    let profile: WatermarkProfile = toml::from_str(&text).expect("the same");
    assert_eq!(profile, marks);
    let learned = Policy {
        watermarks: Watermarks::Learned,
        profile: Some(profile),
        ..Policy::linux_3_0()
    };
    let r = run(&bursts(learned, &format!("{BURST} -n 10")));
    assert_eq!(direct(&r), 0);
    // Only the writer stalls, in one slice when memory first becomes full: it takes more pages than
    // the capped watermarks keep free.
    let fixed = run(&bursts(Policy::linux_3_0(), &format!("{BURST} -n 10")));
    assert!(r.counters["allocstall"] * 50 < fixed.counters["allocstall"]);
}

/// Allocations that wait raise only low and high; failed atomic allocations raise min.
#[test]
fn only_failed_atomic_allocations_raise_the_minimum() {
    let after = |policy, line: &str| {
        let r = run(&bursts(policy, line));
        let [min, low, _] = r.watermarks.as_ref().expect("the engine tells them").sums();
        (min, low, r.metrics["burst_failed"].value)
    };
    let line = format!("{BURST} -n 4");
    let (default, default_low, _) = after(Policy::linux_3_0(), &line);
    let (waits, waits_low, failed) = after(auto(), &line);
    assert_eq!((waits, failed), (default, 0.0));
    assert!(waits_low > default_low);
    let (fails, _, failed) = after(auto(), "burst -s 60M -a -h 20ms -i 500ms -n 3");
    assert!(
        failed > 0.0 && fails > default,
        "{failed}: {default} to {fails} kB"
    );
}

/// After the bursts a zone is back at its floor within `decay_ms`, and the floor is back at the
/// default within `forget_s`.
#[test]
fn time_takes_what_bursts_have_raised() {
    let mut policy = auto();
    policy.auto.decay_ms = 2000;
    policy.auto.forget_s = 20;
    policy.auto.remember_percent = 50;
    policy.auto.lower_on_first_priority = false;
    policy.auto.lower_on_quiet = false;
    let mut s = two_zones(policy);
    s.machine.cpus = 1;
    let mm = build(&s);
    let burst = async {
        let file = fs::create(&mm).expect("a file");
        for index in 0..40_000 {
            let pfn = mm.alloc_page(Gfp::USER).await.expect("memory");
            mm.frames.set_flags(pfn, flag::UPTODATE);
            assert!(mm.add_to_page_cache_lru(pfn, file, index));
            if index % 256 == 255 {
                // Short bursts, each larger than the gap between low and min.
                mm.world.sched.sleep(3_000_000).await;
            }
        }
        let raised = mm.auto_extra(1);
        assert!(raised.0 > raised.1 && raised.1 > 0, "{raised:?}");
        mm.world.sched.sleep(2_300_000_000).await;
        let (extra, floor) = mm.auto_extra(1);
        assert!(extra == floor && floor > 0, "{extra} {floor}");
        mm.world.sched.sleep(20_000_000_000).await;
        assert_eq!(mm.auto_extra(1), (0, 0));
        let marks = [Mark::Min, Mark::Low, Mark::High].map(|m| mm.zones[1].mark(m));
        assert_eq!(marks[1], marks[0] + marks[0] / 4);
        mm.world.sched.stop();
    };
    let tasks: Vec<(u32, Life<'_>)> =
        vec![(KSWAPD_FLAGS, Box::pin(mm.kswapd(0))), (0, Box::pin(burst))];
    common::drive(&mm, tasks, 1_000_000_000, || {});
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..Default::default() })]

    /// Watermarks never exceed the cap, whatever the load, and stay in order.
    #[test]
    fn auto_stays_below_its_cap(
        cap in 1u32..6,
        size in 1u32..40,
        order in 0u32..4,
        atomic in any::<bool>(),
        interval in 1u32..50,
        arrival in 0usize..3,
        step in 1u32..400,
        debounce in 0u32..20,
    ) {
        let mut policy = auto();
        policy.auto.cap = cap;
        policy.auto.step_percent = step;
        policy.auto.debounce_ms = debounce;
        let a = if atomic { "-a" } else { "" };
        let arrival = ["periodic", "poisson", "onoff"][arrival];
        let line = format!(
            "dd if=/dev/zero of=b bs=64k & burst -s {size}M -o {order} {a} -A {arrival} -i {interval}ms -h 9ms -j 50ms -n 15"
        );
        let mut m = machine(64);
        m.disk = disk(DiskKind::Ssd);
        let mut s = spec(m, FsKind::Xfs, &line);
        s.policy = policy;
        s.sample_ns = 1_000_000;
        s.check_ns = 50_000_000;
        let r = run(&s);
        let broken = matches!(&r.outcome, Outcome::Failed { error } if error.contains("recount"));
        prop_assert!(!broken, "{:?}", r.outcome);
        for mark in ["min", "low", "high"] {
            for c in r.series.columns.iter().filter(|c| c.name == mark) {
                let default = c.values.first().copied().unwrap_or(0.0);
                let most = c.values.iter().copied().fold(0.0, f64::max);
                prop_assert!(most <= default * f64::from(cap), "{mark} {}: {default} to {most}", c.scope);
            }
        }
    }
}

/// 4.6's watermarks are a thousandth of each zone apart where a quarter of min is less, and a
/// machine's `watermark_scale_factor` overrides that; 4.2 rounds dirty ratios down to 4096ths.
#[test]
fn formulas_of_an_era_are_switches() {
    let marks = |watermark_formula, factor| {
        let mut s = two_zones(Policy {
            watermark_formula,
            ..Policy::linux_3_0()
        });
        s.machine.nodes[0].zones[1].size = Size(256 << 20);
        s.machine.sysctl.min_free_kbytes = Some(1024);
        s.machine.sysctl.watermark_scale_factor = factor;
        let mm = build(&s);
        let [min, low, high] = [Mark::Min, Mark::Low, Mark::High].map(|m| mm.zones[1].mark(m));
        [low - min, high - low]
    };
    use WatermarkFormula::{Quarter, ScaleFactor};
    let (old, new) = (marks(Quarter, None), marks(ScaleFactor, None));
    assert!(old[0] < new[0] && new == [65, 65], "{old:?} {new:?}");
    assert_eq!(marks(Quarter, Some(100)), marks(ScaleFactor, Some(100)));
    assert_eq!(marks(ScaleFactor, Some(100)), [655, 655]);

    let dirty = |dirty_ratios| {
        let mut s = two_zones(Policy {
            dirty_ratios,
            ..Policy::linux_3_0()
        });
        s.machine.sysctl.dirty_ratio = 20;
        let mm = build(&s);
        (mm.dirtyable(), mm.dirty_limits().dirty)
    };
    let (all, percent) = dirty(DirtyRatios::Percent);
    assert_eq!(percent, all * 20 / 100);
    assert_eq!(dirty(DirtyRatios::In4096ths), (all, 819 * all / 4096));
}

/// A burst counts only its own reclaims: atomic requests never reclaim, however much a burst beside
/// them does.
#[test]
fn a_burst_counts_its_own_reclaims() {
    let line = format!("burst -a -s 1M -h 20ms -i 100ms -n 50 & {BURST} -n 20");
    let r = run(&bursts(Policy::linux_3_0(), &line));
    assert_eq!(r.outcome, Outcome::Completed);
    let own = [1, 2].map(|nth| r.metrics[&format!("burst_direct_reclaim:burst#{nth}")].value);
    assert!(own[0] == 0.0 && own[1] > 0.0, "{own:?}");
    let all = r.reclaim.as_ref().expect("sums").direct_reclaims;
    assert!(own[1] <= all as f64, "{own:?} of {all}");
}
