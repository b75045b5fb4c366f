//! Switches of recent kernels, one call at a time.

use super::bare::{Bare, recount, settled};
use super::prelude::*;
use super::programs::{bring_in, file, write};
use super::world::{Engine, Job, block_on, run};
use crate::memory::zone::Lru;
use crate::reclaim::scan::ScanControl;

/// Returns the policy of 6.1 with a change.
pub fn with(change: impl FnOnce(&mut Policy)) -> Policy {
    let mut policy = Policy::linux_6_1();
    change(&mut policy);
    policy
}

fn two_zones() -> Vec<ZoneInfo> {
    let zone = |kind| ZoneInfo {
        node: 0,
        kind,
        size: 4096,
    };
    [ZoneType::Dma32, ZoneType::Normal].map(zone).to_vec()
}

/// `written`: pages count as written when their writeback begins, or when it has ended.
#[test]
fn pages_count_as_written_once_they_are() {
    for (written, begun) in [(Written::Submitted, 4), (Written::Done, 0)] {
        let mm = Bare::new(with(|p| p.written = written), 1024).build();
        let f = file(&mm, MappingKind::File, 0, 4);
        block_on(&mm, async {
            for index in 0..4 {
                write(&mm, f, index).await;
            }
        });
        let count = || {
            settled(&mm);
            mm.global_stat(ZoneStat::NrWritten)
        };
        assert_eq!(mm.start_writeback(f, 0, 4, |_| ()), 4);
        assert_eq!(count(), begun, "{written:?}");
        mm.end_writeback(f, 0, 4, false);
        assert_eq!(count(), 4, "{written:?}");
        recount(&mm);
    }
}

/// `reclaimed_pages`: allocations after reclaim get a file's frames in the order in which the file
/// had them, or in the reverse order.
#[test]
fn frames_in_a_row_stay_in_a_row_where_the_last_one_goes_first() {
    for (form, next) in [(ReclaimedPages::List, 1), (ReclaimedPages::Batch, -1)] {
        let mm = Bare::new(with(|p| p.reclaimed_pages = form), 4096).build();
        let f = file(&mm, MappingKind::File, 0, 512);
        block_on(&mm, async {
            for first in (0..512).step_by(32) {
                bring_in(&mm, f, first, 32).await;
            }
            mm.world.sleep(SECOND).await;
        });
        settled(&mm);
        let frames: Vec<_> = (0..512).filter_map(|i| mm.find_page(f, i)).collect();
        let mut sc = ScanControl::new(32, 0, Gfp::USER, 3, true);
        sc.priority = 3;
        block_on(&mm, mm.shrink_zone(0, &mut sc));
        assert!(mm.find_page(f, 0).is_none() && sc.nr_reclaimed >= 32);
        let place = |pfn| {
            frames
                .iter()
                .position(|&was| was == pfn)
                .expect("one of its")
        };
        let take = || mm.alloc_pages_fast(Gfp::USER, 0, 0).expect("a free page");
        let (a, b) = (place(take()) as i32, place(take()) as i32);
        assert_eq!(b - a, next, "{form:?}: {a}, {b}");
        recount(&mm);
    }
}

/// `first_dirty`: pages of another device exceed the background limit. A flusher with nothing to do
/// then begins with the first page that is dirtied, or when its interval has passed.
#[test]
fn the_first_dirty_inode_sets_a_timer() {
    for (form, soon) in [(FirstDirty::AtOnce, false), (FirstDirty::Timer, true)] {
        let mut bare = Bare::new(with(|p| p.first_dirty = form), 2048);
        bare.sysctl.dirty_background_ratio = 0;
        let mm = bare.build();
        mm.new_bdi(0, 100).expect("room for a device");
        let (f, other) = (
            file(&mm, MappingKind::File, 0, 1),
            file(&mm, MappingKind::File, 1, 40),
        );
        let dirty = || {
            let pfn = mm.find_page(f, 0).expect("a page that nobody reclaims");
            mm.frames.has(pfn, flag::DIRTY)
        };
        let program: Job<'_> = Box::pin(async {
            for index in 0..40 {
                write(&mm, other, index).await;
            }
            settled(&mm);
            write(&mm, f, 0).await;
            mm.world.sleep(SECOND).await;
            assert_eq!(dirty(), soon, "{form:?}");
            mm.world.sleep(5 * SECOND).await;
            assert!(!dirty(), "{form:?}");
        });
        let jobs: Vec<Job<'_>> = vec![program, Box::pin(mm.flusher(0))];
        assert_eq!(run(&mm, jobs, 1, 60 * SECOND, |_| ()), 1);
    }
}

/// `unwritten_pages`: a dirty page that reclaim leaves to the flusher waits on the active list, and
/// goes to the inactive tail once it is clean, so that it is the first to be freed.
#[test]
fn dirty_pages_get_out_of_the_way() {
    for (unwritten, activated) in [(UnwrittenPages::Inactive, 0), (UnwrittenPages::Active, 8)] {
        let mut bare = Bare::new(with(|p| p.unwritten_pages = unwritten), 2048);
        bare.sysctl.dirty_ratio = 100;
        bare.sysctl.dirty_background_ratio = 99;
        let mm = bare.build();
        let f = file(&mm, MappingKind::File, 0, 100);
        block_on(&mm, async {
            for index in 0..8 {
                write(&mm, f, index).await;
            }
            bring_in(&mm, f, 8, 40).await;
            mm.world.sleep(SECOND).await;
        });
        settled(&mm);
        let mut sc = ScanControl::new(8, 0, Gfp::USER, 3, false);
        sc.priority = 2;
        block_on(&mm, mm.shrink_zone(0, &mut sc));
        settled(&mm);
        assert_eq!(mm.vm_event(VmEvent::PgActivate), activated, "{unwritten:?}");
        assert_eq!(mm.global_stat(ZoneStat::NrActiveFile), activated);
        assert_eq!(mm.global_stat(ZoneStat::NrVmscanImmediateReclaim), 8);
        assert_eq!(mm.start_writeback(f, 0, 8, |_| ()), 8);
        mm.end_writeback(f, 0, 8, false);
        settled(&mm);
        assert_eq!(mm.vm_event(VmEvent::PgRotated), 8);
        assert_eq!(mm.global_stat(ZoneStat::NrActiveFile), 0);
        let tail = mm.frames.last(mm.lru_list(0, Lru::InactiveFile));
        assert!(mm.frames.index(tail) < 8 && !mm.frames.has(tail, flag::ACTIVE));
        recount(&mm);
    }
}

/// `reclaim_throttle`: a kswapd that meets the same pages under writeback again waits until
/// congestion ends, or until more than 32 pages were written; at most a tenth of a second.
#[test]
fn kswapd_waits_until_some_are_written() {
    for (throttle, kind, written, most) in [
        (ReclaimThrottle::ZoneFlags, "congestion", 40, 100),
        (ReclaimThrottle::Reasons, "reclaim throttle", 30, 100),
        (ReclaimThrottle::Reasons, "reclaim throttle", 40, 20),
    ] {
        let policy = with(|p| {
            p.reclaim_throttle = throttle;
            p.unwritten_pages = UnwrittenPages::Inactive; // so that kswapd meets them again
        });
        let mut bare = Bare::new(policy, 2048);
        bare.sysctl.dirty_ratio = 100;
        bare.sysctl.dirty_background_ratio = 99;
        let mm = bare.build();
        let f = file(&mm, MappingKind::File, 0, 64);
        block_on(&mm, async {
            for index in 0..64 {
                write(&mm, f, index).await;
            }
        });
        settled(&mm);
        assert_eq!(mm.start_writeback(f, 0, 64, |_| ()), 64);
        let mut took = 0;
        let kswapd = Box::pin(async {
            for again in [false, true] {
                let mut sc = ScanControl::new(64, 0, Gfp::KERNEL, 3, true);
                sc.priority = 0;
                let start = mm.world.now();
                mm.shrink_zone(0, &mut sc).await;
                took = mm.world.now() - start;
                let waits = mm.world.waits.borrow().get(kind).copied();
                assert_eq!(waits.is_some(), again, "{throttle:?}");
            }
        });
        let disk = Box::pin(async {
            mm.world.sleep(SECOND / 100).await;
            mm.end_writeback(f, 0, written, false);
        });
        run(&mm, vec![kswapd, disk], 2, u64::MAX, |_| ());
        let ms = took / 1_000_000;
        assert!(
            ms <= most && (most < 100 || ms >= 99),
            "{throttle:?}: {ms} ms"
        );
        recount(&mm);
    }
}

/// `accesses`: the second write to a page is an access, or is not.
#[test]
fn writes_are_accesses_or_not() {
    for (accesses, active) in [(Accesses::ReadsAndWrites, 1), (Accesses::Reads, 0)] {
        let mm = Bare::new(with(|p| p.accesses = accesses), 1024).build();
        let f = file(&mm, MappingKind::File, 0, 4);
        block_on(&mm, async {
            write(&mm, f, 0).await;
            mm.lru_add_drain();
            write(&mm, f, 0).await;
        });
        settled(&mm);
        assert_eq!(
            mm.global_stat(ZoneStat::NrActiveFile),
            active,
            "{accesses:?}"
        );
        // A read is an access in any case.
        let pfn = mm.find_page(f, 0).expect("cached");
        mm.mark_page_accessed(pfn, TrackPath::BufferedRead);
        mm.mark_page_accessed(pfn, TrackPath::BufferedRead);
        settled(&mm);
        assert_eq!(mm.global_stat(ZoneStat::NrActiveFile), 1);
        recount(&mm);
    }
}

/// `kswapd_zone`: of two requests, for DMA32 and for Normal, kswapd works for the lower or for the
/// higher zone.
#[test]
fn kswapd_works_for_the_lowest_or_for_the_highest() {
    for (rule, expected) in [(KswapdZone::Lowest, 1), (KswapdZone::Highest, 2)] {
        let mut bare = Bare::new(with(|p| p.kswapd_zone = rule), 0);
        bare.zones = two_zones();
        let mm = bare.build();
        for classzone in [2, 1, 2] {
            mm.wakeup_kswapd(0, Gfp::KERNEL, 0, classzone);
        }
        assert_eq!(mm.nodes[0].take_request(), (0, expected), "{rule:?}");
        assert_eq!(mm.nodes[0].take_request(), (0, 3), "nobody asked since");
    }
}

/// `kswapd_wake`: the higher zone is low, the lower one has room for any request.
#[test]
fn a_balanced_lower_zone_lets_kswapd_sleep() {
    for (wake, sleeps) in [(KswapdWake::High, false), (KswapdWake::Unbalanced, true)] {
        let mut bare = Bare::new(with(|p| p.kswapd_wake = wake), 0);
        bare.zones = two_zones();
        let mm = bare.build();
        let free = || mm.stat.zone(1, ZoneStat::NrFreePages);
        while free() >= mm.zones[1].mark(Mark::High) {
            block_on(&mm, mm.alloc_page(Gfp::USER)).expect("memory");
            mm.refresh_cpu_vm_stats(0);
        }
        mm.nodes[0].kswapd_sleeping.set(1);
        mm.wakeup_kswapd(1, Gfp::USER, 0, 2);
        assert_eq!(mm.kswapd_sleeps(0), sleeps, "{wake:?}");
    }
}

/// `workingset_anon`: a new anonymous page starts active, or has to be used a second time for that.
#[test]
fn new_anonymous_pages_are_active_or_not() {
    for (shadows, active) in [(false, 100), (true, 0)] {
        let mut bare = Bare::new(with(|p| p.workingset_anon = shadows), 1024);
        bare.swap = 1024;
        let mm = bare.build();
        let region = mm
            .new_region(Backing::Anon, 100, Advice::Normal)
            .expect("room");
        block_on(&mm, async {
            for index in 0..100 {
                mm.touch(region, index, true).await;
            }
        });
        settled(&mm);
        let pages = [ZoneStat::NrActiveAnon, ZoneStat::NrInactiveAnon].map(|of| mm.global_stat(of));
        assert_eq!(pages, [active, 100 - active]);
        recount(&mm);
    }
}

/// A refault costs its kind of memory if the page was active before reclaim took it; otherwise it
/// does not, however soon the page comes back.
#[test]
fn only_the_working_set_costs() {
    let mm = Bare::new(with(|_| ()), 1024).build();
    let f = file(&mm, MappingKind::File, 0, 4);
    block_on(&mm, async {
        for index in 0..4 {
            write(&mm, f, index).await;
        }
    });
    settled(&mm);
    // A refault counts if the page was away for less than there are active pages.
    for index in 1..4 {
        let pfn = mm.find_page(f, index).expect("cached");
        mm.mark_page_accessed(pfn, TrackPath::BufferedRead);
        mm.mark_page_accessed(pfn, TrackPath::BufferedRead);
    }
    settled(&mm);
    let pfn = mm.find_page(f, 0).expect("cached");
    let costs = || mm.nodes[0].costs.cost[1].get();
    let flags = mm.frames.flags(pfn);
    for (was, costs_more) in [(0, false), (flag::WORKINGSET, true)] {
        let shadow = mm.aged_shadow(flags | was, 0);
        let before = costs();
        assert!(mm.refault(pfn, shadow, true), "it was away for a moment");
        assert_eq!(costs() > before, costs_more);
        assert_eq!(mm.frames.has(pfn, flag::WORKINGSET), costs_more);
    }
}

/// Takes a page from this CPU's list and marks it as in use.
fn take(mm: &Engine) -> Pfn {
    let pfn = mm.rmqueue_pcp(0, 0).expect("memory");
    mm.frames.page(pfn).reset_flags(0, flag::USED);
    pfn
}

/// Takes `n` pages in a row. Returns them, and how many pages each refill took.
fn refills(mm: &Engine, n: u32) -> (Vec<Pfn>, Vec<u32>) {
    let (mut pages, mut sizes) = (Vec::new(), Vec::new());
    for _ in 0..n {
        let before = mm.pcp_count(0, 0);
        pages.push(take(mm));
        if before == 0 {
            sizes.push(mm.pcp_count(0, 0) + 1);
        }
    }
    (pages, sizes)
}

/// Frees pages in a row. Returns how many pages went back at once, and the most that the list held.
fn returns(mm: &Engine, pages: Vec<Pfn>) -> (Vec<u32>, u32) {
    let (mut sizes, mut most) = (Vec::new(), 0);
    for pfn in pages {
        let before = mm.pcp_count(0, 0) + 1;
        mm.free_page(pfn, false);
        let now = mm.pcp_count(0, 0);
        most = most.max(now);
        if now < before {
            sizes.push(before - now);
        }
    }
    (sizes, most)
}

/// Makes a machine of one zone with this rule for per-CPU lists.
fn lists_of(rule: PerCpuLists) -> Engine {
    let policy = with(|p| {
        p.per_cpu_lists = rule;
        p.mobility = Mobility::None;
    });
    Bare::new(policy, 65_536).build()
}

/// `per_cpu_lists`: how many pages a CPU's list takes and gives back at once, and how many it
/// holds.
#[test]
fn lists_of_cpus_grow_with_what_is_asked() {
    let mm = lists_of(PerCpuLists::Batches);
    let batch = mm.zones[0].pcp_batch();
    let (pages, sizes) = refills(&mm, 600);
    assert!(sizes.iter().all(|&n| n == batch), "{sizes:?}");
    let (sizes, most) = returns(&mm, pages);
    assert!(
        sizes.iter().all(|&n| n == batch) && most < 6 * batch,
        "{sizes:?} {most}"
    );

    // Since 5.14 the list holds as much as the low watermark allows, and the number given back
    // doubles.
    let mm = lists_of(PerCpuLists::Watermark);
    let (batch, low) = (mm.zones[0].pcp_batch(), mm.zones[0].mark(Mark::Low) as u32);
    let (pages, sizes) = refills(&mm, 3000);
    assert!(sizes.iter().all(|&n| n == batch), "{sizes:?}");
    let (sizes, most) = returns(&mm, pages);
    assert_eq!(
        (&sizes[..3], most),
        (&[batch, 2 * batch, 4 * batch][..], low - 1)
    );

    // Since 6.7 the number taken doubles, too, up to 32 batches.
    let mm = lists_of(PerCpuLists::Tuned);
    let (pages, sizes) = refills(&mm, 3000);
    let doubled: Vec<u32> = (0..sizes.len() as u32).map(|i| batch << i.min(5)).collect();
    assert_eq!(sizes, doubled);
    let high = mm.pcp_high(0, 0);
    assert!(high > low && high <= 65_536 / 8, "{high}");
    returns(&mm, pages);
    // A second without need makes the list an eighth smaller.
    let before = mm.pcp_high(0, 0);
    mm.refresh_cpu_vm_stats(0);
    assert_eq!(mm.pcp_high(0, 0), before - before / 8);
    assert!(mm.pcp_count(0, 0) <= before - before / 8);
    (0..100).for_each(|_| mm.refresh_cpu_vm_stats(0));
    assert_eq!(mm.pcp_high(0, 0), low);
    recount(&mm);
}

/// Takes a block from this CPU's lists, or the buddy lists, and marks it as in use.
fn take_block(mm: &Engine, order: u32) -> Pfn {
    let pfn = mm.rmqueue_order(0, order, 0).expect("memory");
    mm.frames.page(pfn).reset_flags(0, flag::USED);
    pfn
}

/// Since 5.13 blocks of up to order 3 have per-CPU lists: a batch's worth is taken at once and
/// kept. A block that is freed while the lists hold many pages drains all of them, so that blocks
/// merge.
#[test]
fn lists_of_cpus_hold_blocks() {
    let mm = lists_of(PerCpuLists::Batches);
    mm.free_pages_order(take_block(&mm, 1), 1);
    assert_eq!(mm.pcp_pages(0), 0);

    for rule in [PerCpuLists::Watermark, PerCpuLists::Tuned] {
        let mm = lists_of(rule);
        let batch = mm.zones[0].pcp_batch();
        for order in 1..=3 {
            let block = take_block(&mm, order);
            let kept = ((batch >> order).max(2) - 1) << order;
            assert_eq!(mm.pcp_pages(0), u64::from(kept), "order {order}");
            assert!(mm.stat.exact(0, ZoneStat::NrFreePages) < 65_536 - i64::from(kept));
            mm.free_pages_order(block, order);
            assert_eq!(mm.pcp_pages(0), u64::from(kept) + (1 << order));
            recount(&mm);
            mm.drain_all_pages();
        }
        mm.free_pages_order(take_block(&mm, 4), 4);
        assert_eq!(mm.pcp_pages(0), 0, "order 4 has no list");

        let blocks = [take_block(&mm, 1), take_block(&mm, 1)];
        let (pages, _) = refills(&mm, 3000);
        returns(&mm, pages);
        assert!(mm.pcp_pages(0) > u64::from(batch), "{rule:?}");
        mm.free_pages_order(blocks[0], 1);
        // 6.7 also tests whether the free before was that of a block.
        assert_eq!(mm.pcp_pages(0) > 0, rule == PerCpuLists::Tuned);
        let before = mm.pcp_pages(0);
        mm.free_pages_order(blocks[1], 1);
        match rule {
            PerCpuLists::Tuned => {
                let gone = u64::from(batch) << 5;
                assert_eq!(mm.pcp_pages(0), (before + 2).saturating_sub(gone));
            }
            _ => assert_eq!(mm.pcp_pages(0), 0),
        }
        recount(&mm);
    }
}

/// While kswapd reclaims, lists hold four batches; below the high watermark they do not grow.
#[test]
fn lists_of_cpus_give_way_to_reclaim() {
    for rule in [PerCpuLists::Watermark, PerCpuLists::Tuned] {
        let mm = lists_of(rule);
        let batch = mm.zones[0].pcp_batch();
        let (mut pages, _) = refills(&mm, 2000);
        let later = pages.split_off(1000);
        mm.drain_all_pages();
        mm.set_reclaim_active(0, 2, true);
        let (_, most) = returns(&mm, pages);
        mm.set_reclaim_active(0, 2, false);
        assert!(most < 4 * batch, "{rule:?}: {most}");
        let (_, most) = returns(&mm, later);
        assert!(most > 4 * batch, "{rule:?}: {most}");
    }
    let mm = lists_of(PerCpuLists::Tuned);
    let low = mm.zones[0].mark(Mark::Low) as u32;
    let least = mm.zones[0].mark(Mark::High) as u32;
    refills(&mm, 65_536 - least - 4 * low);
    mm.drain_all_pages();
    // After a long time without need the list is as small as it gets.
    (0..100).for_each(|_| mm.refresh_cpu_vm_stats(0));
    let free = || mm.stat.zone(0, ZoneStat::NrFreePages);
    while free() > u64::from(least) {
        take(&mm);
    }
    let high = mm.pcp_high(0, 0);
    for _ in 0..200 {
        take(&mm);
    }
    assert_eq!(mm.pcp_high(0, 0), high);
}

/// `page_metadata`: cached pages take tree nodes and, once they were written on a filesystem with
/// buffer heads, buffer heads; all are freed again.
#[test]
fn records_of_the_cache_take_memory() {
    let taken = |metadata, buffers: bool| {
        let mm = Bare::new(with(|p| p.page_metadata = metadata), 8192).build();
        let f = file(&mm, MappingKind::File, 0, 2000);
        if buffers {
            mm.keep_buffers(f);
        }
        block_on(&mm, async {
            for index in 0..1000 {
                write(&mm, f, index).await;
            }
        });
        settled(&mm);
        recount(&mm);
        let used = mm.metadata_pages();
        mm.start_writeback(f, 0, 1000, |_| ());
        mm.end_writeback(f, 0, 1000, false);
        block_on(&mm, mm.truncate_from(f, 0));
        recount(&mm);
        (used, mm.metadata_pages())
    };
    assert_eq!(taken(PageMetadata::Nothing, true), (0, 0));
    // 16 leaves and a root: two slabs of two pages each.
    assert_eq!(taken(PageMetadata::Slabs, false), (4, 4));
    // 1000 buffer heads take 26 slabs more; five of those may stay.
    let (used, left) = taken(PageMetadata::Slabs, true);
    assert_eq!(used, 4 + 26);
    assert!(left <= 4 + 6, "{left}");
}

/// `writeback_bios`: bios under way have vectors, eight on a slab of eight pages; some slabs stay
/// when the bios have ended.
#[test]
fn bios_under_way_take_memory() {
    let taken = |bios, n: u32| {
        let mm = Bare::new(with(|p| p.writeback_bios = bios), 8192).build();
        let free = || mm.stat.zone(0, ZoneStat::NrFreePages);
        let before = free();
        (0..n).for_each(|_| mm.bio_begun());
        mm.drain_all_pages();
        recount(&mm);
        let used = mm.metadata_pages();
        assert_eq!(before - free(), used);
        mm.bios_ended(n);
        recount(&mm);
        (used, mm.metadata_pages())
    };
    assert_eq!(taken(WritebackBios::Free, 100), (0, 0));
    assert_eq!(taken(WritebackBios::Vectors, 1), (8, 8));
    assert_eq!(taken(WritebackBios::Vectors, 100), (13 * 8, 6 * 8));
    // If there is no memory left, bios use the reserve.
    let (used, _) = taken(WritebackBios::Vectors, 8000);
    assert!(used < 8192, "{used}");
}

/// `extent_maps`: records of extents take memory until the file's inode is evicted, or, once an
/// extent is committed, until its first page leaves; extents being written take a page for ten,
/// twice.
#[test]
fn extents_take_memory() {
    let of = |maps, committed: bool, pages: u64| {
        let policy = with(|p| {
            (p.extent_maps, p.page_metadata) = (maps, PageMetadata::Nothing);
        });
        let mm = Bare::new(policy, 8192).build();
        let f = file(&mm, MappingKind::File, 0, 5000);
        // A thousand extents of a page each, all inside a large one that existed before.
        block_on(&mm, async {
            for n in 0..1000 {
                write(&mm, f, 2 * n).await;
                mm.ordered_begun();
                mm.extent_written(f, 2 * n, (1 + 2 * n, 1, 2 - u32::from(n == 0)), pages);
            }
        });
        recount(&mm);
        let written = mm.metadata_pages();
        mm.ordered_ended(1000);
        if committed {
            mm.extents_committed();
        }
        let ended = mm.metadata_pages();
        block_on(&mm, mm.truncate_from(f, 0));
        recount(&mm);
        let released = mm.metadata_pages();
        mm.extents_forgotten(f);
        recount(&mm);
        [written, ended, released, mm.metadata_pages()]
    };
    assert_eq!(of(ExtentMaps::Free, true, 5000), [0; 4]);
    // The rest before the first extent, and each extent with the rest after it: 2,000 records. When
    // they are freed, slabs with room for six of each kind stay.
    let (stays, wide, lean) = (6, 72, 52);
    let whole = |maps| [maps + 200, maps + 2 * stays, maps + 2 * stays, 3 * stays];
    assert_eq!(of(ExtentMaps::Wide, false, 5000), whole(wide));
    assert_eq!(of(ExtentMaps::Lean, false, 5000), whole(lean));
    // Half of the records begin at a page that was cached.
    let halved = |maps, half| [maps + 200, maps + 2 * stays, half + 3 * stays, 3 * stays];
    assert_eq!(of(ExtentMaps::Lean, true, 5000), halved(lean, 25));
    assert_eq!(of(ExtentMaps::Lean, true, 4000), halved(lean, 25));
    assert_eq!(of(ExtentMaps::Wide, true, 5000), halved(wide, 35));
    assert_eq!(of(ExtentMaps::Wide, true, 4000), whole(wide));
}

/// `mobility = "boosted"`: a request of another kind raises the watermarks without a sysctl.
#[test]
fn kinds_that_mix_raise_watermarks() {
    for (mobility, boosts) in [
        (Mobility::Grouped, false),
        (Mobility::Boosted, true),
        (Mobility::Claimed, true),
    ] {
        let mm = Bare::new(with(|p| p.mobility = mobility), 8192).build();
        // All pageblocks are movable; then the kernel takes a page.
        while mm.stat.zone(0, ZoneStat::NrFreePages) > 400 {
            block_on(&mm, mm.alloc_page(Gfp::USER)).expect("memory");
            mm.refresh_cpu_vm_stats(0);
        }
        assert_eq!(mm.watermark_boost(0), 0);
        block_on(&mm, mm.alloc_page(Gfp::KERNEL)).expect("memory");
        assert_eq!(mm.watermark_boost(0) > 0, boosts, "{mobility:?}");
    }
}

/// `slow_path`: a request that reclaims round after round wakes kswapd in each, if kswapd has gone
/// to sleep.
#[test]
fn each_round_of_the_slow_path_wakes_kswapd() {
    let wakes = [SlowPath::Congestion, SlowPath::Rewake].map(|slow_path| {
        let policy = with(|p| {
            p.slow_path = slow_path;
            p.emergency_throttle = false;
        });
        let mm = Bare::new(policy, 8192).build();
        let f = file(&mm, MappingKind::File, 0, 8192);
        block_on(&mm, async {
            while mm.stat.zone(0, ZoneStat::NrFreePages) > mm.zones[0].mark(Mark::Low) + 100 {
                let index = mm.mappings[f as usize].nrpages.get();
                bring_in(&mm, f, index, 1).await;
                mm.refresh_cpu_vm_stats(0);
            }
        });
        // Free memory is far below the boosted min watermark: one round is not enough.
        mm.boost_watermark(0);
        mm.boost_watermark(0);
        let before = mm.world.woken(queue::kswapd(0))[0];
        let request: Job<'_> = Box::pin(async {
            mm.alloc_page(Gfp::USER).await.expect("memory");
        });
        // A kswapd that sleeps again as soon as it is woken.
        let sleeper: Job<'_> = Box::pin(async {
            loop {
                mm.nodes[0].kswapd_sleeping.set(1);
                mm.world.relax().await;
            }
        });
        mm.nodes[0].kswapd_sleeping.set(1);
        run(&mm, vec![request, sleeper], 1, u64::MAX, |_| ());
        mm.world.woken(queue::kswapd(0))[0] - before
    });
    // One wake when the request begins and one for the boost; then one for each round.
    assert_eq!(wakes[0], 2);
    assert_eq!(wakes[1], 2 + 3, "four rounds");
}

/// `lru_batch`: pages are added to their list in batches of this size.
#[test]
fn pages_come_to_their_list_in_batches() {
    for n in [14, 15, 31] {
        let mm = Bare::new(with(|p| p.lru_batch = n), 2048).build();
        let f = file(&mm, MappingKind::File, 0, 64);
        let listed = || {
            let lists = [Lru::InactiveFile, Lru::ActiveFile];
            let of = |lru| mm.frames.iter(mm.lru_list(0, lru)).count();
            lists.map(of).iter().sum::<usize>()
        };
        block_on(&mm, async {
            for index in 0..u32::from(n) {
                assert_eq!(listed(), 0, "{n}: {index}");
                bring_in(&mm, f, index, 1).await;
            }
        });
        assert_eq!(listed(), usize::from(n));
        recount(&mm);
    }
}

/// `page_tables`: 512 entries of a mapping take a page from their first fault on, until the mapping
/// ends.
#[test]
fn page_tables_take_memory() {
    for (tables, pages) in [(PageTables::Nothing, 0), (PageTables::Pages, 2)] {
        let mm = Bare::new(with(|p| p.page_tables = tables), 8192).build();
        let kernel = || {
            settled(&mm);
            mm.stat.zone(0, ZoneStat::NrKernel)
        };
        let region = mm.new_region(Backing::Anon, 1500, Advice::Normal);
        let region = region.expect("room");
        let free = || {
            mm.drain_all_pages();
            mm.stat.zone(0, ZoneStat::NrFreePages)
        };
        let before = free();
        for index in [0, 511, 1400] {
            assert_eq!(block_on(&mm, mm.touch(region, index, true)), Touched::Ok);
        }
        assert_eq!(kernel(), pages);
        assert_eq!(before - free(), 3 + pages);
        recount(&mm);
        mm.free_region(region);
        assert_eq!((kernel(), before - free()), (0, 0));
        recount(&mm);
    }
}

/// `hopeless_zones = "failures"`: after 16 runs that freed nothing kswapd is not woken any more,
/// until a scan frees a page.
#[test]
fn kswapd_gives_up_a_node_that_it_fails_at() {
    for (rule, wakes) in [
        (HopelessZones::Computed, true),
        (HopelessZones::Failures, false),
    ] {
        let mm = Bare::new(with(|p| p.hopeless_zones = rule), 4096).build();
        let f = file(&mm, MappingKind::File, 0, 64);
        // The kernel takes all memory.
        let mut taken = Vec::new();
        while let Some(pfn) = mm.alloc_nowait(Gfp::UNMOVABLE_NOWAIT, 0) {
            taken.push(pfn);
        }
        let woken = || {
            mm.nodes[0].kswapd_sleeping.set(1);
            mm.wakeup_kswapd(0, Gfp::KERNEL, 0, 2);
            !mm.kswapd_sleeps(0)
        };
        assert!(woken(), "{rule:?}");
        let other = Box::pin(async {
            mm.world.sleep(SECOND / 10).await;
            assert_eq!(woken(), wakes, "{rule:?}");
            // Pages of a file are written, and direct reclaim frees them.
            for pfn in taken.drain(..1500) {
                mm.free_page(pfn, false);
            }
            for index in 0..64 {
                write(&mm, f, index).await;
            }
            settled(&mm);
            assert_eq!(mm.start_writeback(f, 0, 64, |_| ()), 64);
            mm.end_writeback(f, 0, 64, false);
            while mm.alloc_nowait(Gfp::UNMOVABLE_NOWAIT, 0).is_some() {}
            assert!(mm.try_to_free_pages(0, Gfp::KERNEL, 0).await > 1);
            while mm.alloc_nowait(Gfp::UNMOVABLE_NOWAIT, 0).is_some() {}
            assert!(woken(), "{rule:?}");
        });
        let kswapd = Box::pin(mm.kswapd(0));
        let ended = run(&mm, vec![other, kswapd], 1, u64::MAX, |_| ());
        assert_eq!(ended, 1, "{rule:?}: {:?}", mm.world.oom.borrow());
    }
}

/// `swap_bios = "pool"`: 21 bios take a page, the first of which the kernel has since boot. If no
/// memory is above the min watermark two bios are in reserve, and a task that needs a third waits
/// until one has ended.
#[test]
fn swap_waits_for_a_bio_that_ends() {
    for (bios, waits) in [(SwapBios::Free, false), (SwapBios::Pool, true)] {
        let mm = Bare::new(with(|p| p.swap_bios = bios), 4096).build();
        block_on(&mm, async {
            for _ in 0..43 {
                mm.swap_bio().await;
            }
        });
        assert_eq!(mm.metadata_pages(), 2 * u64::from(waits));
        recount(&mm);
        // All bios of the third page are taken, and there is no memory for a fourth.
        block_on(&mm, async {
            for _ in 43..63 {
                mm.swap_bio().await;
            }
        });
        while mm.alloc_nowait(Gfp::UNMOVABLE_NOWAIT, 0).is_some() {}
        let begun = std::cell::Cell::new(0);
        let swaps = Box::pin(async {
            for _ in 0..4 {
                mm.swap_bio().await;
                begun.set(begun.get() + 1);
            }
        });
        let disk = Box::pin(async {
            for first in [2, 3] {
                mm.world.sleep(SECOND / 100).await;
                assert_eq!(begun.get(), if waits { first } else { 4 }, "{bios:?}");
                mm.swap_bio_ended();
            }
        });
        assert_eq!(run(&mm, vec![swaps, disk], 2, u64::MAX, |_| ()), 2);
        recount(&mm);
    }
}
