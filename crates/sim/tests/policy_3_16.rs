//! The switches that turn linux-3.1 into linux-3.16, and the patches of *sequential-read*: each
//! changes a run's result for the reason given in its documentation.

mod common;

use common::{Life, bare, disk, enter, machine, run, spec, swap};
use mm::Policy;
use mm::ZoneType;
use mm::cache::mapping::MappingKind;
use mm::cache::mmap::{Advice, Backing};
use mm::memory::frame::flag;
use mm::memory::gfp::Gfp;
use mm::memory::zone::Mark;
use mm::policy::{
    DirtyCheck, DirtyLimits, DirtyThrottle, Dirtyable, FairZones, HopelessZones, KswapdLoop,
    KswapdWake, LowerZones, LruScope, MarkAccessed, ReclaimThrottle, ReclaimWriteback, References,
    ScanBalance, ScanStop,
};
use mm::reclaim::kswapd::KSWAPD_FLAGS;
use mm::watch::vmstat::{VmEvent, ZoneEvent, ZoneStat};
use mm::world::Tasks;
use mm::world::Touched;
use mm::world::event::{Event, TrackPath};
use proptest::prelude::*;
use sim::SimMm;
use sim::account::TaskClass;
use sim::filesystems as fs;
use sim::spec::{DiskKind, FsKind, Machine, RunSpec, Size, ZoneSpec};
use sim::{Outcome, RunResult};

fn with(change: impl FnOnce(&mut Policy)) -> Policy {
    let mut policy = Policy::linux_3_16();
    change(&mut policy);
    policy
}

/// A machine with a lower zone of 96 MiB and a higher one of 160 MiB, both empty.
fn two_zones() -> Machine {
    let mut m = bare(ZoneType::Dma32, 96 << 20);
    m.nodes[0].zones.push(ZoneSpec {
        zone: ZoneType::Normal,
        size: Size(160 << 20),
    });
    // The allocation batches are 256 pages in all, so that the pages on per-CPU lists are a small
    // part of one.
    m.sysctl.min_free_kbytes = Some(4096);
    m
}

fn build(m: Machine, policy: Policy) -> SimMm<true> {
    let mut s = spec(m, FsKind::Ext3, "dd if=/dev/zero of=a count=1");
    s.policy = policy;
    let mm = sim::run::build(&s);
    fs::mount(&mm);
    mm.world.recording.set(true);
    mm
}

fn drive<'a>(mm: &'a SimMm<true>, tasks: Vec<(u32, Life<'a>)>) {
    common::drive(mm, tasks, 1_000_000, || {});
}

fn new_file(mm: &SimMm<true>) -> u32 {
    mm.new_mapping(MappingKind::File, mm.world.fs[0].bdi.get())
        .expect("a file")
}

/// Reads `pages` clean pages of a new file beside a kswapd. Returns the share of them from the
/// lower zone, and the engine afterwards.
fn stream(policy: Policy, pages: u32) -> (f64, SimMm<true>) {
    let mm = build(two_zones(), policy);
    let task = async {
        let file = new_file(&mm);
        for index in 0..pages {
            enter(&mm, file, index).await;
        }
        mm.world.sched.stop();
    };
    let kswapd = Box::pin(mm.kswapd(0));
    drive(&mm, vec![(KSWAPD_FLAGS, kswapd), (0, Box::pin(task))]);
    let of = |z| mm.zone_event(z, ZoneEvent::PgAlloc) as f64;
    let share = of(0) / (of(0) + of(1));
    (share, mm)
}

// fair_zones

#[test]
fn fair_zones_share_allocations_by_their_size() {
    let size = 96.0 / 256.0;
    for fair in [FairZones::Batch, FairZones::AsMeant, FairZones::AsMerged] {
        let (share, _) = stream(with(|p| p.fair_zones = fair), 50_000);
        assert!((share - size).abs() < 0.02, "{fair:?}: {share}");
    }
    for fair in [FairZones::Off, FairZones::AsPosted] {
        let (share, mm) = stream(with(|p| p.fair_zones = fair), 35_000);
        assert_eq!(share, 0.0, "{fair:?}: the higher zone has room for all");
        assert_eq!(mm.vm_event(VmEvent::FairReset), 0);
    }
}

/// As posted, the patch never sets the flag that marks a list as fair: no page is taken off a
/// batch, and every run equals that of a kernel without fair zones.
#[test]
fn the_posted_flag_is_never_set() {
    let of = |fair| stream(with(|p| p.fair_zones = fair), 100_000);
    let ((off, _), (posted, mm)) = (of(FairZones::Off), of(FairZones::AsPosted));
    assert!(off > 0.0 && off == posted, "{off} {posted}");
    for z in [0, 1] {
        let mark = |m| mm.zones[z].mark(m);
        let full = mark(Mark::High) - mark(Mark::Low);
        assert_eq!(mm.zone_stat(z, ZoneStat::NrAllocBatch), full);
    }
    let (meant, _) = of(FairZones::AsMeant);
    assert!((meant - 96.0 / 256.0).abs() < 0.02, "{meant}");
}

/// Where watermarks and not batches end the first walk, the counters of 3.12 are reset without any
/// use.
#[test]
fn the_flag_saves_resets_that_do_not_help() {
    let skip = |fair| {
        with(|p| {
            p.fair_zones = fair;
            p.lower_zones = LowerZones::SkipBalanced;
        })
    };
    let resets = |fair| stream(skip(fair), 200_000).1.vm_event(VmEvent::FairReset);
    let (batch, flag) = (resets(FairZones::Batch), resets(FairZones::AsMeant));
    assert!(flag < batch && flag > 0, "{flag} of {batch}");
}

// lower_zones

/// The allocator requires the lower zone's reserve on top of its low watermark. If kswapd reclaims
/// the zone only up to its high watermark, the zone never becomes usable again once it is full.
#[test]
fn a_lower_zone_that_is_balanced_for_kswapd_is_full_for_the_allocator() {
    let memory = 65_536;
    let share = |rule| {
        let (_, mm) = stream(with(|p| p.lower_zones = rule), 6 * memory);
        mm.zone_event(0, ZoneEvent::PgAlloc) as f64 / f64::from(6 * memory)
    };
    let gap = share(LowerZones::Gap);
    assert!(gap > 0.25, "{gap}");
    for rule in [LowerZones::SkipBalanced, LowerZones::HighAlone] {
        let filled_once = 24_576.0 / f64::from(6 * memory);
        let share = share(rule);
        assert!(
            share <= filled_once && share > 0.9 * filled_once,
            "{rule:?}: {share}"
        );
    }
}

/// Returns the lowest priority at which kswapd scanned for a stream that only the higher zone
/// serves.
fn lowest_priority(rule: LowerZones) -> u32 {
    let policy = with(|p| {
        p.fair_zones = FairZones::Off;
        p.lower_zones = rule;
    });
    let (_, mm) = stream(policy, 80_000);
    let events = mm.world.events.borrow();
    let scans = events.iter().filter_map(|(_, _, e)| match e {
        Event::ShrinkInactive { priority, .. } => Some(*priority),
        _ => None,
    });
    scans.min().expect("kswapd had to scan")
}

/// *sequential-read* 3 as posted skips a balanced zone without regard to the priority, so that only
/// the scanning of the zone that is short decides. In the follow-up a zone found balanced within
/// its own scan counts as scanned enough and keeps the priority where it is.
#[test]
fn a_zone_that_is_passed_does_not_keep_the_priority() {
    let (posted, follow_up) = (
        lowest_priority(LowerZones::SkipBalanced),
        lowest_priority(LowerZones::HighAlone),
    );
    assert!(posted < follow_up, "{posted} {follow_up}");
}

// kswapd_wake, dirty_check

/// Dirties more than a zone's dirty limit and allocates one more page for a write, with free pages
/// between the low and the high watermark. Returns the number of times that kswapd was woken.
fn write_over_the_limit(policy: Policy) -> usize {
    let mut m = bare(ZoneType::Normal, 64 << 20);
    m.sysctl.min_free_kbytes = Some(8192);
    let mm = build(m, policy);
    let task = async {
        let file = new_file(&mm);
        let mut index = 0;
        let free = || mm.zone_stat(0, ZoneStat::NrFreePages);
        let high = mm.zones[0].mark(Mark::High);
        while free() + mm.pcp_pages(0) > high {
            let pfn = enter(&mm, file, index).await;
            mm.set_page_dirty(pfn, TrackPath::BufferedWrite);
            index += 1;
        }
        for _ in 0..2 {
            assert!(mm.alloc_kernel_page(Gfp::USER_WRITE).await.is_some());
        }
        mm.world.sched.stop();
    };
    let kswapd = Box::pin(mm.kswapd(0));
    drive(&mm, vec![(KSWAPD_FLAGS, kswapd), (0, Box::pin(task))]);
    let woken = |e: &Event| matches!(e, Event::WakeupKswapd { .. });
    let events = mm.world.events.borrow();
    events.iter().filter(|(_, _, e)| woken(e)).count()
}

#[test]
fn kswapd_is_woken_below_the_high_watermark_since_3_6() {
    let woken = |wake| write_over_the_limit(with(|p| p.kswapd_wake = wake));
    assert_eq!((woken(KswapdWake::Low), woken(KswapdWake::High)), (0, 1));
}

#[test]
fn a_write_over_every_limit_is_served_without_kswapd_if_the_limit_is_cached() {
    let woken = |check| write_over_the_limit(with(|p| p.dirty_check = check));
    assert_eq!(
        (woken(DirtyCheck::Fresh), woken(DirtyCheck::Cached)),
        (1, 0)
    );
}

// kswapd_loop, reclaim_throttle, kswapd_writeback

/// Returns the congestion waits of kswapd and the pages that it writes, in a zone whose oldest half
/// is dirty and whose files no other task writes.
fn dirty_tail(policy: Policy) -> (usize, u64) {
    let mut m = bare(ZoneType::Normal, 64 << 20);
    m.sysctl.dirty_ratio = 100;
    let mm = build(m, policy);
    let task = async {
        let file = new_file(&mm);
        let mut index = 0;
        while mm.vm_event(VmEvent::PageOutRun) == 0 {
            let pfn = enter(&mm, file, index).await;
            if index < 8000 {
                mm.set_page_dirty(pfn, TrackPath::BufferedWrite);
            }
            index += 1;
        }
        while !mm.kswapd_sleeps(0) {
            mm.world.sched.sleep(1_000_000).await;
        }
        while mm.global_stat(ZoneStat::NrWriteback) > 0 {
            mm.world.sched.sleep(1_000_000).await;
        }
        mm.world.sched.stop();
    };
    let kswapd = Box::pin(mm.kswapd(0));
    drive(&mm, vec![(KSWAPD_FLAGS, kswapd), (0, Box::pin(task))]);
    let events = mm.world.events.borrow();
    let waits = events
        .iter()
        .filter(|(_, _, e)| matches!(e, Event::CongestionWait { .. }))
        .count();
    (waits, mm.global_stat(ZoneStat::NrVmscanWrite))
}

#[test]
fn kswapd_of_3_11_waits_for_no_congestion_between_priorities() {
    let policy = |kswapd_loop| Policy {
        kswapd_loop,
        kswapd_writeback: ReclaimWriteback::Never,
        ..Policy::linux_3_1()
    };
    let (restart, _) = dirty_tail(policy(KswapdLoop::Restart));
    let (rounds, _) = dirty_tail(policy(KswapdLoop::Rounds));
    assert!(restart > 0 && rounds == 0, "{restart} {rounds}");
}

#[test]
fn kswapd_writes_once_a_whole_batch_was_dirty_and_nobody_writes_it() {
    let (_, written) = dirty_tail(with(|_| ()));
    assert!(written > 0, "the flag tail-dirty was set");
    let (_, written) = dirty_tail(with(|p| p.reclaim_throttle = ReclaimThrottle::None));
    assert_eq!(written, 0, "nobody sets the flag");
    let (_, written) = dirty_tail(with(|p| p.kswapd_writeback = ReclaimWriteback::Never));
    assert_eq!(written, 0);
}

// scan_balance

/// Streams a file through memory that holds idle anonymous pages.
fn stream_past_anonymous(balance: ScanBalance) -> RunResult {
    let mut m = machine(128);
    m.boot.anon = Size(48 << 20);
    m.swap = Some(swap(256 << 20));
    let mut s = spec(m, FsKind::Ext4, "dd if=/dev/zero of=a bs=1M count=300");
    s.policy = with(|p| p.scan_balance = balance);
    let r = run(&s);
    assert_eq!(r.outcome, Outcome::Completed);
    r
}

#[test]
fn file_pages_alone_are_scanned_while_their_inactive_list_is_the_longer_one() {
    let fractions = stream_past_anonymous(ScanBalance::Fractions);
    let file_first = stream_past_anonymous(ScanBalance::FileFirst);
    assert!(fractions.counters["pswpout"] > 100);
    assert_eq!(file_first.counters["pswpout"], 0);
}

// references

#[test]
fn a_page_that_two_mappings_use_is_activated_at_the_first_look() {
    let activated = |references| {
        let mm = build(
            bare(ZoneType::Normal, 32 << 20),
            with(|p| p.references = references),
        );
        let task = async {
            let file = fs::create(&mm).expect("a file");
            fs::truncate(&mm, file, 64 * 4096).await;
            let shared = Backing::Shared {
                mapping: file,
                first: 0,
            };
            for _ in 0..2 {
                let region = mm.new_region(shared, 64, Advice::Random).expect("a region");
                for index in 0..64 {
                    assert_eq!(mm.touch(region, index, false).await, Touched::Ok);
                }
            }
            let clean = new_file(&mm);
            for index in 0..7500 {
                enter(&mm, clean, index).await;
            }
            // Direct reclaim scans every page once.
            while mm.vm_event(VmEvent::AllocStall) == 0 {
                assert!(mm.alloc_kernel_page(Gfp::USER).await.is_some());
            }
            mm.world.sched.stop();
        };
        drive(&mm, vec![(0, Box::pin(task))]);
        mm.vm_event(VmEvent::PgActivate)
    };
    assert_eq!(activated(References::Twice), 0);
    assert!(activated(References::TwiceOrShared) >= 32);
}

// mark_accessed

#[test]
fn a_second_access_reaches_a_page_in_the_add_batch() {
    let active = |mark| {
        let mm = build(
            bare(ZoneType::Normal, 32 << 20),
            with(|p| p.mark_accessed = mark),
        );
        let task = async {
            let file = new_file(&mm);
            for index in 0..5 {
                let pfn = enter(&mm, file, index).await;
                for _ in 0..2 {
                    mm.mark_page_accessed(pfn, TrackPath::BufferedRead);
                }
            }
            mm.lru_add_drain();
            mm.world.sched.stop();
        };
        drive(&mm, vec![(0, Box::pin(task))]);
        mm.zone_stat(0, ZoneStat::NrActiveFile)
    };
    assert_eq!(
        (active(MarkAccessed::Listed), active(MarkAccessed::InBatch)),
        (0, 5)
    );
}

// workingset

/// Keeps 2000 pages in use, and reads a file a little longer than the rest of memory twice.
fn read_twice(workingset: bool) -> SimMm<true> {
    let mm = build(
        bare(ZoneType::Normal, 32 << 20),
        with(|p| p.workingset = workingset),
    );
    let task = async {
        let (hot, loops) = (new_file(&mm), new_file(&mm));
        for index in 0..2000 {
            enter(&mm, hot, index).await;
        }
        mm.lru_add_drain();
        for index in 0..2000 {
            let pfn = mm.find_page(hot, index).expect("cached");
            for _ in 0..2 {
                mm.mark_page_accessed(pfn, TrackPath::BufferedRead);
            }
        }
        for _ in 0..2 {
            for index in 0..7000 {
                if mm.find_page(loops, index).is_none() {
                    enter(&mm, loops, index).await;
                }
            }
        }
        mm.lru_add_drain();
        mm.world.sched.stop();
    };
    let kswapd = Box::pin(mm.kswapd(0));
    drive(&mm, vec![(KSWAPD_FLAGS, kswapd), (0, Box::pin(task))]);
    mm
}

#[test]
fn a_page_that_comes_back_soon_is_activated() {
    let mm = read_twice(true);
    let (refaults, activated) = (
        mm.vm_event(VmEvent::WorkingsetRefault),
        mm.vm_event(VmEvent::WorkingsetActivate),
    );
    assert!(
        activated > 500 && activated <= refaults,
        "{activated} of {refaults}"
    );
    assert_eq!(read_twice(false).vm_event(VmEvent::WorkingsetRefault), 0);
}

/// The number of shadows of an endless stream is bounded, and they are freed with their file.
#[test]
fn shadows_are_bounded() {
    let mm = build(bare(ZoneType::Normal, 16 << 20), Policy::linux_3_16());
    let task = async {
        let file = fs::create(&mm).expect("a file");
        for index in 0..40_000 {
            enter(&mm, file, index).await;
        }
        mm.recount().expect("shadows are counted");
        let bound = mm.frames.len() / 16;
        let cached = mm.global_stat(ZoneStat::NrFilePages) as u32 / 64;
        assert!(
            mm.tree_nodes() < bound + cached + 300,
            "{}",
            mm.tree_nodes()
        );
        assert!(mm.vm_event(VmEvent::WorkingsetNodereclaim) > 0);
        fs::remove(&mm, file).await;
        assert_eq!(mm.tree_nodes(), 0);
        mm.world.sched.stop();
    };
    let kswapd = Box::pin(mm.kswapd(0));
    drive(&mm, vec![(KSWAPD_FLAGS, kswapd), (0, Box::pin(task))]);
}

// dirty_throttle, dirtyable

#[test]
fn dirtiers_that_only_sleep_share_the_device_and_stay_below_the_limit() {
    let lines = (0..4).map(|n| format!("dd if=/dev/zero of=f{n} bs=64k count=800 &"));
    let command = lines.collect::<Vec<_>>().join(" ") + " wait";
    let writers = |throttle, just_booted| {
        let mut m = machine(128);
        m.sysctl.dirty_ratio = 20;
        let mut s = spec(m, FsKind::Ext4, &command);
        s.policy = with(|p| p.dirty_throttle = throttle);
        s.params.set("just_booted", just_booted).expect("0 or 1");
        s.sample_ns = 20_000_000;
        let r = run(&s);
        assert_eq!(r.outcome, Outcome::Completed);
        r
    };
    let column = |r: &RunResult, name: &str| {
        let found = r
            .series
            .columns
            .iter()
            .find(|c| c.name == name && c.scope == "global");
        found.expect("a column").values.clone()
    };
    let most = |r: &RunResult| {
        let (dirty, writeback) = (column(r, "dirty"), column(r, "writeback"));
        let limit = column(r, "dirty_limit");
        (0..dirty.len())
            .map(|i| (dirty[i] + writeback[i]) / limit[i].max(1.0))
            .fold(0.0, f64::max)
    };
    let sleep = writers(DirtyThrottle::Sleep, 0.0);
    let below = most(&sleep);
    assert!((0.7..1.1).contains(&below), "{below}");
    // On a machine that has just booted, dirtiers see a limit of all memory, which falls slowly.
    let above = most(&writers(DirtyThrottle::Sleep, 1.0));
    assert!(above > 1.05 && above > below, "{above} {below}");
    let of = |r: &RunResult, class| {
        let task = r.tasks.iter().find(|t| t.class == class);
        task.expect("a task of each class").outside
    };
    let writers_of_sleep = of(&sleep, TaskClass::Workload);
    let (throttled, device) = (writers_of_sleep.throttle, writers_of_sleep.device);
    assert!(
        throttled > 10 * device,
        "{throttled} ns against {device} ns"
    );
    // In 3.0 dirtiers do part of the flusher's work. (Their own CPU time does not show it: dirtiers
    // that sleep check the limits more often.)
    let write = writers(DirtyThrottle::Write, 0.0);
    let [alone, helped] = [&sleep, &write].map(|r| of(r, TaskClass::Flusher).cpu);
    assert!(
        alone > helped + helped / 50,
        "{alone} ns against {helped} ns"
    );
}

#[test]
fn anonymous_memory_is_not_dirtyable_in_3_16() {
    let dirtyable = |rule| {
        let mut m = machine(128);
        m.boot.anon = Size(64 << 20);
        m.swap = Some(swap(256 << 20));
        let s = RunSpec {
            policy: with(|p| p.dirtyable = rule),
            sample_ns: 1_000_000,
            ..spec(m, FsKind::Ext4, "dd if=/dev/zero of=a bs=1M count=16")
        };
        let r = run(&s);
        let column = r
            .series
            .columns
            .iter()
            .find(|c| c.name == "dirty_limit" && c.scope == "global");
        column.expect("a column").values[0] / 0.4
    };
    let (before, now) = (
        dirtyable(Dirtyable::Reclaimable),
        dirtyable(Dirtyable::FreeAndFile),
    );
    assert!((before - now) * 4096.0 > 60e6, "{before} {now}");
}

// lru

/// With lists of the whole node, kswapd frees pages in the order in which they were used, whatever
/// their zone: allocations are spread by zone size without fair zones.
#[test]
fn lists_of_a_node_spread_allocations_without_fair_zones() {
    let memory = 65_536;
    let share = |lru| {
        let policy = with(|p| {
            p.lru = lru;
            p.fair_zones = FairZones::Off;
            p.lower_zones = LowerZones::SkipBalanced;
        });
        let (share, mm) = stream(policy, 8 * memory);
        mm.recount().expect("the node's lists agree");
        share
    };
    let (zone, node) = (share(LruScope::Zone), share(LruScope::Node));
    assert!(zone < 0.06, "the lower zone is filled once: {zone}");
    assert!((0.2..0.45).contains(&node), "{node}");
}

/// Only the lower zone can serve the request, while the node's tail is full of pages of the higher
/// zone: these are passed over and not reclaimed, and a part of them counts as scanned.
#[test]
fn requests_for_a_low_zone_look_through_pages_of_higher_ones() {
    let scanned = |lru| {
        let mm = build(
            two_zones(),
            with(|p| {
                p.lru = lru;
                p.emergency_throttle = false;
            }),
        );
        let task = async {
            let (low, high) = (new_file(&mm), new_file(&mm));
            // The higher zone's pages are older.
            for index in 0..30_000 {
                enter(&mm, high, index).await;
            }
            let mut index = 0;
            while mm.vm_event(VmEvent::AllocStall) == 0 {
                let pfn = mm
                    .alloc_page(Gfp::zone(1).or(Gfp(7)))
                    .await
                    .expect("memory");
                assert!(mm.add_to_page_cache_lru(pfn, low, index));
                index += 1;
                mm.world.relax().await;
            }
            mm.lru_add_drain();
            mm.world.sched.stop();
        };
        drive(&mm, vec![(0, Box::pin(task))]);
        let stolen = mm.zone_event(1, ZoneEvent::PgSteal);
        assert_eq!(stolen, 0, "{lru:?}: no page of the higher zone is of use");
        let of = |z| mm.zone_event(z, ZoneEvent::PgScanDirect);
        (of(0), of(1))
    };
    let (low, high) = scanned(LruScope::Zone);
    assert!(low > 0 && high == 0);
    let (low, high) = scanned(LruScope::Node);
    assert!(low > 0 && high > 0, "a part counts: {low}, {high}");
}

// hopeless_zones, emergency_throttle, watermark_slip

/// Every page is locked for ever and no kswapd runs; returns true if the allocation gives up.
#[test]
fn direct_reclaim_gives_a_zone_up_by_itself_since_3_12() {
    let oom = |rule| {
        let mm = build(
            bare(ZoneType::Normal, 8 << 20),
            with(|p| {
                p.hopeless_zones = rule;
                p.emergency_throttle = false;
            }),
        );
        let task = async {
            let file = new_file(&mm);
            for index in 0.. {
                let Some(pfn) = mm.alloc_page(Gfp::USER).await else {
                    break;
                };
                assert!(mm.add_to_page_cache_lru(pfn, file, index));
                mm.frames.set_flags(pfn, flag::LOCKED);
                mm.world.relax().await;
            }
        };
        let clock = async {
            mm.world.sched.sleep(3_000_000_000).await;
            mm.world.sched.stop();
        };
        drive(&mm, vec![(0, Box::pin(task)), (0, Box::pin(clock))]);
        mm.world.oom.borrow().is_some()
    };
    assert_eq!(
        (oom(HopelessZones::Marked), oom(HopelessZones::Computed)),
        (false, true)
    );
}

#[test]
fn who_would_reclaim_waits_for_kswapd_while_the_reserves_are_half_used() {
    let throttled = |on| {
        let mut m = bare(ZoneType::Normal, 64 << 20);
        m.sysctl.min_free_kbytes = Some(2048);
        let mm = build(m, with(|p| p.emergency_throttle = on));
        let task = async {
            let file = new_file(&mm);
            while mm.zone_stat(0, ZoneStat::NrFreePages) > 1200 {
                let index = mm.mappings[file as usize].nrpages.get();
                enter(&mm, file, index).await;
            }
            // Atomic allocations take the pages left above three eighths of min.
            while mm.alloc_kernel_page(Gfp::ATOMIC).await.is_some() {}
            assert!(mm.alloc_page(Gfp::USER).await.is_some());
            mm.world.sched.stop();
        };
        let kswapd = Box::pin(mm.kswapd(0));
        drive(&mm, vec![(0, Box::pin(task)), (KSWAPD_FLAGS, kswapd)]);
        mm.vm_event(VmEvent::PgScanDirectThrottle)
    };
    assert_eq!(throttled(false), 0);
    assert!(throttled(true) > 0);
}

// scan_stop

/// On large lists kswapd has reclaimed enough in the middle of a scan. 3.0 stops there. 3.11 stops
/// scanning the smaller kind of memory and goes on with the larger, here the file pages of a
/// reader: a pass of kswapd gets further, and less is left to the reader itself.
#[test]
fn the_larger_kind_of_memory_is_scanned_on_once_enough_is_reclaimed() {
    let scanned = |stop| {
        let mut m = machine(4096);
        m.swap = Some(swap(2 << 30));
        m.sysctl.min_free_kbytes = Some(128);
        m.sysctl.swappiness = 100;
        m.boot.anon = Size(1600 << 20);
        m.disk = disk(DiskKind::Nvme);
        m.disk.capacity = Size(16 << 30);
        let mut s = spec(m, FsKind::Ext4, "dd if=big of=/dev/null bs=1M");
        s.workload.files.push(workload::ExistingFile {
            path: "big".into(),
            len: 6000 << 20,
        });
        s.policy = with(|p| {
            p.scan_balance = ScanBalance::Fractions;
            p.scan_stop = stop;
        });
        s.check_ns = 0;
        let r = run(&s);
        assert_eq!(r.outcome, Outcome::Completed);
        ["pgscan_kswapd_dma32", "pgscan_direct_dma32"].map(|name| r.counters[name])
    };
    let [at_once, proportional] = [ScanStop::AtOnce, ScanStop::Proportional].map(scanned);
    assert!(proportional[0] > at_once[0], "{proportional:?} {at_once:?}");
    assert!(
        proportional[1] < at_once[1] / 2,
        "{proportional:?} {at_once:?}"
    );
}

// The preset as a whole.

#[test]
fn linux_3_16_runs_on_every_filesystem_and_every_list_agrees() {
    for filesystem in common::ALL_FS {
        let mut m = two_zones();
        m.swap = Some(swap(64 << 20));
        let command = "tiobench --size 384 --threads 2 --random 200";
        let mut s = spec(m, filesystem, command);
        s.policy = with(|p| {
            p.lru = match filesystem {
                FsKind::Ext4 => LruScope::Node,
                _ => LruScope::Zone,
            };
        });
        s.params.watch_pages = 1.0;
        s.params.fs_look_ahead = 1.0;
        let r = run(&s);
        assert_eq!(r.outcome, Outcome::Completed, "{filesystem:?}");
        assert!(r.counters["nr_alloc_batch"] < 1 << 20);
        assert!(r.counters.contains_key("workingset_refault"));
        assert!(r.metrics["seqread_min"].value > 0.0);
        if filesystem != FsKind::FuseNtfs {
            assert_eq!(r.counters["dirty_stall"], 0);
        }
    }
    assert_eq!(Policy::linux_3_16().dirty_limits, DirtyLimits::PerZone);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    /// Any combination of the switches on any small machine: the run ends, and every recount during
    /// it agrees.
    #[test]
    fn random_switches_keep_every_invariant(
        seed in any::<u64>(),
        switches in any::<u32>(),
        fair in prop::sample::select(vec![
            FairZones::Off, FairZones::Batch, FairZones::AsMeant, FairZones::AsMerged,
        ]),
        lower in prop::sample::select(vec![
            LowerZones::Gap, LowerZones::SkipBalanced, LowerZones::HighAlone,
        ]),
        filesystem in prop::sample::select(common::ALL_FS.to_vec()),
        zones in (8u64..40, 8u64..40),
        cpus in 1u32..5,
        mapped in any::<bool>(),
    ) {
        let bit = |n: u32| switches >> n & 1 != 0;
        let mut m = two_zones();
        (m.nodes[0].zones[0].size, m.nodes[0].zones[1].size) =
            (Size(zones.0 << 20), Size(zones.1 << 20));
        m.sysctl.min_free_kbytes = bit(0).then_some(1024);
        m.cpus = cpus;
        if bit(1) {
            m.swap = Some(swap(32 << 20));
        }
        let command = if mapped && filesystem != FsKind::FuseNtfs {
            "mmap-strm -t 2 --stream 1 --mixed 1"
        } else {
            "tiobench --size 96 --threads 2 --random 100"
        };
        let mut s = spec(m, filesystem, command);
        s.seed = seed;
        let p = &mut s.policy;
        *p = Policy::linux_3_16();
        (p.fair_zones, p.lower_zones) = (fair, lower);
        if bit(2) { p.lru = LruScope::Node; }
        if bit(3) { p.dirty_check = DirtyCheck::Cached; }
        if bit(4) { p.kswapd_loop = KswapdLoop::Restart; }
        if bit(5) { p.kswapd_wake = KswapdWake::Low; }
        if bit(6) { p.mark_accessed = MarkAccessed::Listed; }
        if bit(7) { p.scan_balance = ScanBalance::Fractions; }
        if bit(8) { p.scan_stop = ScanStop::AtOnce; }
        if bit(9) { p.workingset = false; }
        if bit(10) { p.dirty_throttle = DirtyThrottle::Write; }
        if bit(11) { p.dirtyable = Dirtyable::Reclaimable; }
        if bit(12) { p.emergency_throttle = false; }
        if bit(13) { p.hopeless_zones = HopelessZones::Marked; }
        if bit(14) { p.reclaim_throttle = ReclaimThrottle::None; }
        if bit(15) { p.references = References::Twice; }
        if bit(16) { s.params.watch_pages = 1.0; }
        if bit(17) { s.params.fs_look_ahead = 1.0; }
        let r = run(&s);
        if let Outcome::Failed { error } = &r.outcome {
            prop_assert!(!error.contains("recount"), "{error}");
            prop_assert!(!error.contains("for ever"), "{error}");
        }
    }
}
