//! Policy switches: each changes a run's result for the reason given in its documentation.

mod common;

use common::{
    Life, all_written, empty_zone, enter, enter_dirty, enter_until, machine, node, run, spec,
    wake_kswapd_and_wait,
};
use mm::Policy;
use mm::ZoneType;
use mm::cache::mapping::MappingKind;
use mm::cache::tree::Tag;
use mm::memory::task::{PF_MEMBIND, PF_SWAPWRITE};
use mm::policy::{
    DirtyLimits, FlusherSlice, ReclaimFlush, ReclaimThrottle, ReclaimWriteback, ReclaimWrites,
};
use mm::reclaim::kswapd::KSWAPD_FLAGS;
use mm::watch::vmstat::{VmEvent, ZoneStat};
use mm::world::Tasks;
use mm::world::event::{Event, TrackPath};
use sim::SimMm;
use sim::filesystems as fs;
use sim::spec::{FsKind, RunSpec, Size, ZoneSpec};
use sim::{Outcome, RunResult};

fn build(spec: &RunSpec) -> SimMm<true> {
    let mm = sim::run::build(spec);
    fs::mount(&mm);
    mm.world.recording.set(true);
    mm
}

/// Runs tasks with their flags until one of them stops the run; `look` is called every 10 µs.
fn drive<'a>(mm: &'a SimMm<true>, tasks: Vec<(u32, Life<'a>)>, look: impl FnMut()) {
    common::drive(mm, tasks, 10_000, look);
}

fn events(mm: &SimMm<true>) -> Vec<(u32, Event)> {
    let events = mm.world.events.borrow();
    assert_eq!(mm.world.rings_lost.get(), 0, "no event was lost");
    events.iter().map(|&(_, task, e)| (task, e)).collect()
}

// dirty_limits = "per-zone-stall"

/// A large node, and a small one to whose memory the writer is bound.
fn bound_to_the_small_node(limits: DirtyLimits) -> RunResult {
    let mut m = machine(768);
    m.nodes.push(node(64));
    let mut s = spec(m, FsKind::Xfs, "dd if=/dev/zero of=a bs=64k count=4000");
    s.membind = Some(1);
    s.policy.dirty_limits = limits;
    let r = run(&s);
    assert_eq!(r.outcome, Outcome::Completed, "{limits:?}");
    r
}

fn mean(r: &RunResult, name: &str, scope: &str) -> f64 {
    let column = r
        .series
        .columns
        .iter()
        .find(|c| c.name == name && c.scope == scope)
        .expect("a column");
    column.values.iter().sum::<f64>() / column.values.len() as f64
}

/// The node is too small ever to reach the global background limit, so the flusher is not started:
/// the merged form lets the allocation pass and reclaim meets the dirty pages; the earlier form
/// wakes the flushers and waits for them.
#[test]
fn the_earlier_form_wakes_flushers_and_stalls_writers_that_are_bound_to_a_small_node() {
    let merged = bound_to_the_small_node(DirtyLimits::PerZone);
    let earlier = bound_to_the_small_node(DirtyLimits::PerZoneStall);
    let global = bound_to_the_small_node(DirtyLimits::Global);
    for r in [&merged, &global] {
        assert_eq!(r.counters["dirty_stall"], 0);
    }
    assert!(
        earlier.counters["dirty_stall"] > 10,
        "{:?}",
        earlier.counters
    );
    let dirty =
        |r| (mean(r, "dirty", "node1/DMA32") + mean(r, "writeback", "node1/DMA32")) / 16_384.0;
    assert!(dirty(&merged) > 0.8, "the node fills: {}", dirty(&merged));
    assert!(dirty(&earlier) < 0.45, "at 40 %: {}", dirty(&earlier));
    let stalls = |r: &RunResult| r.counters["allocstall"];
    assert!(
        stalls(&earlier) < stalls(&merged) / 5,
        "the writer waits for the flushers and not in reclaim: {} {}",
        stalls(&earlier),
        stalls(&merged)
    );
}

// direct_writeback

/// Returns the pages that a direct reclaimer passes to the filesystem, those that it warns about,
/// and those whose I/O it starts, when the oldest quarter of a zone is dirty and the rest is clean.
fn direct_writes(rule: ReclaimWriteback, filesystem: FsKind) -> [u64; 3] {
    let policy = Policy {
        direct_writeback: rule,
        ..Policy::linux_3_1()
    };
    direct_writes_of(policy, filesystem)
}

/// Does [`direct_writes`] with a policy.
fn direct_writes_of(policy: Policy, filesystem: FsKind) -> [u64; 3] {
    let mut s = empty_zone(64, policy);
    s.filesystem = filesystem;
    s.machine.sysctl.dirty_ratio = 100; // no task waits for the limit
    let mm = build(&s);
    let task = async {
        let file = fs::create(&mm).expect("a file");
        enter_until(&mm, VmEvent::AllocStall, file, |index| index < 4096).await;
        all_written(&mm).await;
        mm.world.sched.stop();
    };
    drive(&mm, vec![(0, Box::pin(task))], || {});
    let asked = events(&mm)
        .iter()
        .filter(|(_, e)| matches!(e, Event::Writepage { file: true, .. }))
        .count();
    [
        asked as u64,
        mm.vm_event(VmEvent::DirectWritepageWarning),
        mm.global_stat(ZoneStat::NrWritten),
    ]
}

/// linux-3.0 writes dirty pages from direct reclaim, deep on the allocating task's stack: xfs, ext4
/// and btrfs refuse, which patches 2 to 4 turn into a warning. After patch 1 no filesystem is
/// asked.
#[test]
fn direct_reclaim_asks_filesystems_only_if_the_policy_lets_it() {
    use ReclaimWriteback as R;
    let [asked, warned, written] = direct_writes(R::Always, FsKind::Ext3);
    assert!(asked > 0 && warned == 0 && written >= asked);
    for filesystem in [FsKind::Xfs, FsKind::Ext4, FsKind::Btrfs] {
        let [asked, warned, written] = direct_writes(R::Always, filesystem);
        assert!(asked > 0, "{filesystem:?}");
        assert_eq!((warned, written), (asked, 0), "{filesystem:?} refuses all");
    }
    for filesystem in [FsKind::Ext3, FsKind::Xfs, FsKind::Ext4, FsKind::Btrfs] {
        let never = direct_writes(R::Never, filesystem);
        assert_eq!(never, [0; 3], "{filesystem:?}");
    }
}

// reclaim_writes

/// A filesystem that is asked for a range of one page does not refuse it, whatever it does with
/// `writepage`: what direct reclaim hands over is written. XFS and btrfs had no `writepage` before
/// ext4 lost it.
#[test]
fn a_range_of_one_page_is_not_refused() {
    use ReclaimWrites as R;
    for rule in [R::Writepage, R::Mixed, R::Range] {
        for filesystem in [FsKind::Xfs, FsKind::Ext4, FsKind::Btrfs] {
            let policy = Policy {
                direct_writeback: ReclaimWriteback::Always,
                reclaim_writes: rule,
                ..Policy::linux_3_1()
            };
            let [asked, warned, written] = direct_writes_of(policy, filesystem);
            let range = match rule {
                R::Writepage => false,
                R::Mixed => filesystem != FsKind::Ext4,
                R::Range => true,
            };
            let case = format!("{rule:?} {filesystem:?}: {asked} {warned} {written}");
            assert!(asked > 0, "{case}");
            assert_eq!(warned, if range { 0 } else { asked }, "{case}");
            assert_eq!(written >= asked && written > 0, range, "{case}");
        }
    }
}

// kswapd_writeback = "in-trouble"

/// Returns the pages that kswapd passes to the filesystem, by the priority at which it scans, when
/// the oldest quarter of a zone is dirty and the rest is clean.
fn kswapd_writes(rule: ReclaimWriteback, priority: u8) -> [u64; 13] {
    const KSWAPD: u32 = 1;
    let mut s = empty_zone(
        64,
        Policy {
            kswapd_writeback: rule,
            kswapd_writeback_priority: priority,
            direct_writeback: ReclaimWriteback::Never,
            ..Policy::linux_3_1()
        },
    );
    s.machine.sysctl.dirty_ratio = 100; // no task waits for the limit
    let mm = build(&s);
    let task = async {
        let file = fs::create(&mm).expect("a file");
        enter_until(&mm, VmEvent::PageOutRun, file, |index| index < 4096).await;
        while !mm.kswapd_sleeps(0) {
            mm.world.sched.sleep(1_000_000).await;
        }
        mm.world.sched.stop();
    };
    let tasks: Vec<(u32, Life<'_>)> =
        vec![(KSWAPD_FLAGS, Box::pin(mm.kswapd(0))), (0, Box::pin(task))];
    drive(&mm, tasks, || {});
    let mut by_priority = [0; 13];
    let mut batch = 0;
    for (task, event) in events(&mm) {
        match event {
            Event::Writepage { .. } if task == KSWAPD => batch += 1,
            Event::ShrinkInactive { priority, .. } if task == KSWAPD => {
                by_priority[priority as usize] += std::mem::take(&mut batch);
            }
            _ => {}
        }
    }
    by_priority
}

/// A low priority shows that kswapd is in trouble: at higher ones it leaves dirty pages to the
/// flushers.
#[test]
fn kswapd_writes_only_in_trouble_and_the_priority_says_how_deep() {
    let always = kswapd_writes(ReclaimWriteback::Always, 9);
    let posted = kswapd_writes(ReclaimWriteback::InTrouble, 9);
    let late = kswapd_writes(ReclaimWriteback::InTrouble, 6);
    let any = kswapd_writes(ReclaimWriteback::InTrouble, 12);
    let never = kswapd_writes(ReclaimWriteback::Never, 12);
    let from = |writes: &[u64; 13], priority: usize| writes[priority..].iter().sum::<u64>();
    assert!(always[10..].iter().all(|&n| n > 0), "{always:?}");
    assert!(from(&posted, 10) == 0 && posted[9] > 0, "{posted:?}");
    assert!(from(&late, 7) == 0 && late[6] > 0, "{late:?}");
    assert_eq!(any, always, "12 is where every scan begins");
    assert_eq!(from(&never, 0), 0);
}

// reclaim_throttle

/// The state of a zone's oldest pages when reclaim meets them.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Tail {
    Dirty,
    Writeback,
    /// Every fourth page is dirty.
    QuarterDirty,
}

/// Returns the priorities above 9 at which a batch made its direct reclaimer wait. (From 9 on the
/// loop over priorities waits as well.)
fn throttled_at(rule: ReclaimThrottle, tail: Tail) -> Vec<u32> {
    let mut s = empty_zone(
        64,
        Policy {
            reclaim_throttle: rule,
            direct_writeback: ReclaimWriteback::Never,
            ..Policy::linux_3_1()
        },
    );
    s.machine.sysctl.dirty_ratio = 100; // no task waits for the limit
    let mm = build(&s);
    let task = async {
        let file = mm.new_mapping(MappingKind::File, 0).expect("a file");
        let mut index = 0;
        while mm.vm_event(VmEvent::AllocStall) == 0 {
            let pfn = enter(&mm, file, index).await;
            if index < 4000 && (tail != Tail::QuarterDirty || index % 4 == 0) {
                mm.set_page_dirty(pfn, TrackPath::BufferedWrite);
                if tail == Tail::Writeback {
                    mm.clear_page_dirty_for_io(pfn);
                    mm.set_page_writeback(pfn);
                }
            }
            index += 1;
        }
        mm.world.sched.stop();
    };
    drive(&mm, vec![(0, Box::pin(task))], || {});
    let events = events(&mm);
    let waits = events.windows(2).filter_map(|w| match (w[0].1, w[1].1) {
        (Event::ShrinkInactive { priority, .. }, Event::WaitIffCongested { .. })
            if priority > 9 =>
        {
            Some(priority)
        }
        _ => None,
    });
    waits.collect()
}

/// With the posted form the reclaimer waits for dirty pages, with the merged form for pages under
/// writeback; the lower the priority, the smaller the part of a batch that makes it wait.
#[test]
fn reclaimers_wait_for_the_pages_that_the_throttle_names() {
    use {ReclaimThrottle as R, Tail as T};
    for (rule, tail, waits) in [
        (R::None, T::Dirty, &[][..]),
        (R::None, T::Writeback, &[]),
        (R::Dirty, T::Dirty, &[12, 11, 10]),
        (R::Dirty, T::Writeback, &[]),
        (R::Dirty, T::QuarterDirty, &[10]),
        (R::Writeback, T::Dirty, &[]),
        (R::Writeback, T::Writeback, &[12, 11, 10]),
    ] {
        assert_eq!(throttled_at(rule, tail), waits, "{rule:?}, tail {tail:?}");
    }
}

// immediate_reclaim

/// Returns the pages that are still cached of an old dirty file and of a younger clean file, and
/// the number of rotated pages, after reclaim met the dirty pages, they were written, and reclaim
/// freed 500 pages more.
fn survivors(immediate: bool) -> (u64, u64, u64) {
    const OLD: u32 = 1000;
    let mut s = empty_zone(
        64,
        Policy {
            immediate_reclaim: immediate,
            direct_writeback: ReclaimWriteback::Never,
            ..Policy::linux_3_1()
        },
    );
    s.machine.sysctl.dirty_ratio = 100;
    let mm = build(&s);
    let files = [0; 3].map(|_| mm.new_mapping(MappingKind::File, 0).expect("a file"));
    let [old, young, next] = files;
    let task = async {
        enter_dirty(&mm, old, OLD).await;
        enter_until(&mm, VmEvent::AllocStall, young, |_| false).await;
        for index in 0..OLD {
            let pfn = mm.find_page(old, index).expect("a dirty page stays");
            mm.clear_page_dirty_for_io(pfn);
            mm.set_page_writeback(pfn);
            mm.end_page_writeback(pfn, false);
        }
        mm.lru_add_drain();
        for index in 0..500 {
            enter(&mm, next, index).await;
        }
        mm.world.sched.stop();
    };
    drive(&mm, vec![(0, Box::pin(task))], || {});
    let cached = |file: u32| {
        let pages = (0..20_000).filter(|&i| mm.find_page(file, i).is_some());
        pages.count() as u64
    };
    (cached(old), cached(young), mm.vm_event(VmEvent::PgRotated))
}

/// A dirty page at the tail is old. If it is marked for reclaim, it is freed as soon as it is
/// clean; otherwise it stays for another pass over the list, and younger pages are freed in its
/// place.
#[test]
fn marked_pages_are_freed_as_soon_as_they_are_clean() {
    let (old, young, rotated) = survivors(false);
    let (old_marked, young_marked, rotated_marked) = survivors(true);
    assert_eq!((old, rotated), (1000, 0), "they outlive younger pages");
    assert_eq!(rotated_marked, 1000);
    assert!(
        old_marked < 600,
        "some 450 of 500 came from the old file: {old_marked}"
    );
    assert_eq!(
        old + young,
        old_marked + young_marked,
        "as much was freed, of the other file"
    );
}

// reclaim_flush

/// Returns the pages written of an older file on node 0 and of a younger one on node 1 when kswapd
/// of node 1 meets the younger file's pages and may not write, and the pages that were written for
/// reclaim.
fn written_under_pressure_on_node_1(rule: ReclaimFlush) -> (u32, u32, u64) {
    const PAGES: u32 = 2048;
    let mut s = empty_zone(
        128,
        Policy {
            reclaim_flush: rule,
            direct_writeback: ReclaimWriteback::Never,
            kswapd_writeback: ReclaimWriteback::Never,
            ..Policy::linux_3_1()
        },
    );
    s.machine.nodes.push(node(32));
    // No task waits for the limit, and none writes because of it.
    s.machine.sysctl.dirty_ratio = 100;
    s.machine.sysctl.dirty_background_ratio = 99;
    let mm = build(&s);
    let bdi = mm.world.fs[0].bdi.get();
    let [old, young, clean] = [0; 3].map(|_| fs::create(&mm).expect("a file"));
    let written = |file| PAGES - mm.tagged_count(file, Tag::Dirty, u32::MAX);
    let task = async {
        for (file, node) in [(old, 0), (young, 1)] {
            mm.init_task(mm.world.task(), PF_MEMBIND, node);
            enter_dirty(&mm, file, PAGES).await;
        }
        wake_kswapd_and_wait(&mm, clean, 1).await;
    };
    let tasks: Vec<(u32, Life<'_>)> = vec![
        (KSWAPD_FLAGS, Box::pin(mm.kswapd(1))),
        (PF_SWAPWRITE, Box::pin(mm.flusher(bdi))),
        (0, Box::pin(task)),
    ];
    drive(&mm, tasks, || {});
    let for_reclaim = mm.vm_event(VmEvent::ReclaimFlushWritten);
    (written(old), written(young), for_reclaim)
}

/// Flushers consider only limits and ages. When reclaim asks them, they write the pages of the node
/// that is short of memory, and not those of an older file elsewhere.
#[test]
fn flushers_that_are_asked_write_what_reclaim_met() {
    let unasked = written_under_pressure_on_node_1(ReclaimFlush::None);
    assert_eq!(unasked, (0, 0, 0));
    for rule in [ReclaimFlush::Node, ReclaimFlush::Zone] {
        let (old, young, asked) = written_under_pressure_on_node_1(rule);
        assert_eq!((old, u64::from(young)), (0, asked), "{rule:?}");
        assert!(asked >= 1024, "{rule:?}: {asked}");
    }
}

/// Returns the requests that were queued, and those that found no room, when reclaim met a dirty
/// file in two zones of a node and no flusher served the requests.
fn requests(rule: ReclaimFlush) -> (u64, u64) {
    let mut s = empty_zone(
        64,
        Policy {
            reclaim_flush: rule,
            direct_writeback: ReclaimWriteback::Never,
            ..Policy::linux_3_1()
        },
    );
    s.machine.nodes[0].zones.push(ZoneSpec {
        zone: ZoneType::Normal,
        size: Size(64 << 20),
    });
    s.machine.sysctl.dirty_ratio = 100;
    let mm = build(&s);
    let task = async {
        let file = fs::create(&mm).expect("a file");
        // In both zones the oldest pages are dirty and the youngest clean.
        let dirty = |index| index < 14_000 || (15_500..30_000).contains(&index);
        enter_until(&mm, VmEvent::AllocStall, file, dirty).await;
        mm.world.sched.stop();
    };
    drive(&mm, vec![(0, Box::pin(task))], || {});
    let count = |event| mm.vm_event(event);
    (
        count(VmEvent::ReclaimFlush),
        count(VmEvent::ReclaimFlushDropped),
    )
}

/// With a queue for each zone, one zone's requests do not displace another's; with a queue for each
/// node, its zones share it.
#[test]
fn requests_are_bounded_by_zone_or_by_node() {
    assert_eq!(requests(ReclaimFlush::None), (0, 0));
    let (zone, zone_dropped) = requests(ReclaimFlush::Zone);
    let (node, node_dropped) = requests(ReclaimFlush::Node);
    assert_eq!((zone, node), (16, 8));
    assert!(node_dropped > 0 && zone_dropped > 0);
}

// pressure_expiry

/// Returns the dirty pages left of a file 20 s old and of a new one after kswapd, which may not
/// write, has freed memory.
fn left_after_pressure(expiry: bool) -> (u32, u32) {
    const PAGES: u32 = 2048;
    let mut s = empty_zone(
        64,
        Policy {
            pressure_expiry: expiry,
            kswapd_writeback: ReclaimWriteback::Never,
            direct_writeback: ReclaimWriteback::Never,
            ..Policy::linux_3_1()
        },
    );
    s.machine.sysctl.dirty_ratio = 100;
    s.machine.sysctl.dirty_background_ratio = 90;
    let mm = build(&s);
    let bdi = mm.world.fs[0].bdi.get();
    let [old, young, clean] = [0; 3].map(|_| fs::create(&mm).expect("a file"));
    let left = |file| mm.tagged_count(file, Tag::Dirty, u32::MAX);
    let task = async {
        for (file, then) in [(old, 20_000_000_000), (young, 0)] {
            enter_dirty(&mm, file, PAGES).await;
            mm.world.sched.sleep(then).await;
        }
        wake_kswapd_and_wait(&mm, clean, 0).await;
    };
    let tasks: Vec<(u32, Life<'_>)> = vec![
        (KSWAPD_FLAGS, Box::pin(mm.kswapd(0))),
        (PF_SWAPWRITE, Box::pin(mm.flusher(bdi))),
        (0, Box::pin(task)),
    ];
    drive(&mm, tasks, || {});
    (left(old), left(young))
}

/// Below the background limit no page is written before `dirty_expire_centisecs`. Memory pressure
/// halves that age for each step of the priority: the old file is written at once, the new one
/// stays.
#[test]
fn memory_pressure_makes_old_files_expire() {
    assert_eq!(left_after_pressure(false), (2048, 2048));
    let (old, young) = left_after_pressure(true);
    assert_eq!(old, 0);
    assert!(young > 0);
}

// flusher_slice

/// Returns the number of pages that the flusher writes of one file before it turns to the next, for
/// a whole pass.
fn turns(slice: FlusherSlice) -> Vec<u32> {
    const PAGES: u32 = 8192;
    let s = RunSpec {
        check_ns: 0,
        check_full: true,
        ..empty_zone(
            256,
            Policy {
                flusher_slice: slice,
                ..Policy::linux_3_1()
            },
        )
    };
    let mm = build(&s);
    let bdi = mm.world.fs[0].bdi.get();
    let files = [0; 2].map(|_| fs::create(&mm).expect("a file"));
    let left = || files.map(|f| mm.tagged_count(f, Tag::Dirty, u32::MAX));
    let writer = async {
        for file in files {
            enter_dirty(&mm, file, PAGES).await;
        }
        mm.wakeup_flusher_threads(0);
        while left() != [0; 2] {
            mm.world.sched.sleep(1_000_000).await;
        }
        mm.world.sched.stop();
    };
    let tasks: Vec<(u32, Life<'_>)> = vec![
        (PF_SWAPWRITE, Box::pin(mm.flusher(bdi))),
        (0, Box::pin(writer)),
    ];
    let mut turns: Vec<(usize, u32)> = Vec::new();
    let mut before = [0u32; 2];
    drive(&mm, tasks, || {
        let now = left();
        for f in 0..2 {
            let written = before[f].saturating_sub(now[f]);
            match turns.last_mut() {
                _ if written == 0 => {}
                Some((last, n)) if *last == f => *n += written,
                _ => turns.push((f, written)),
            }
        }
        before = now;
    });
    turns.into_iter().map(|(_, n)| n).collect()
}

/// 3.0 turns to the next file every 1024 pages, 3.1 after about half a second of I/O, so that it
/// writes longer runs of one file with fewer seeks.
#[test]
fn a_slice_per_inode_writes_longer_runs_of_one_file() {
    let shared = turns(FlusherSlice::Shared);
    let per_inode = turns(FlusherSlice::PerInode);
    for turns in [&shared, &per_inode] {
        assert_eq!(turns.iter().sum::<u32>(), 2 * 8192);
    }
    assert!(
        shared.len() >= 16 && shared.iter().all(|&n| n <= 1024),
        "{shared:?}"
    );
    // Here an eighth of the dirty limit bounds the slice: 3276 pages and 1024, rounded up to
    // multiples of 1024.
    assert_eq!(per_inode, [4096; 4]);
}
