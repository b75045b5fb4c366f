//! Compaction step by step, and over random machines: no page is lost or changed by being moved.

use super::bare::{Bare, recount};
use super::prelude::*;
use super::programs::{self as p, Lcg, bring_in, file, write};
use super::world::{Engine, Job, block_on, run};
use crate::memory::alloc::Migrate;
use crate::memory::watermark::ALLOC_NO_WATERMARKS;
use crate::reclaim::compaction::Compacted;
use proptest::prelude::*;

fn policy(compaction: Compaction) -> Policy {
    Policy {
        compaction,
        ..Policy::linux_3_0()
    }
}

/// Takes every page of the free lists, whatever the watermarks.
fn take_all(mm: &Engine) -> Vec<Pfn> {
    let take = || mm.get_page_from_freelist(0, Gfp::USER, 0, Mark::Min, ALLOC_NO_WATERMARKS);
    let mut all: Vec<Pfn> = std::iter::from_fn(take).collect();
    all.sort_unstable();
    all
}

/// The pages of the file in [`fragmented`].
const CACHED: u32 = 2048;

/// Makes a zone of 16 MiB with fragmented free pages: every second page is a clean page of a file,
/// in order. Of the pages between them those below frame 3200 are free and the others the kernel's.
fn fragmented(policy: Policy) -> (Engine, u32) {
    let mm = Bare::new(policy, 4096).build();
    let f = file(&mm, MappingKind::File, 0, 4096);
    for pfn in take_all(&mm) {
        if pfn % 2 == 0 {
            mm.frames.set_flags(pfn, flag::UPTODATE);
            assert!(mm.add_to_page_cache_lru(pfn, f, pfn / 2));
        } else if pfn < 3200 {
            mm.free_page(pfn, false);
        }
    }
    mm.drain_all_pages();
    mm.lru_add_drain();
    recount(&mm);
    assert!(
        mm.fragmentation_index(0, 3)
            .is_some_and(|index| index > 500)
    );
    (mm, f)
}

/// Compacts for a block of the kernel's, and frees the block.
async fn compact(mm: &Engine, order: u32, how: Migrate) {
    if let Some(block) = mm.direct_compact(0, Gfp::KERNEL, order, 0, how).await {
        mm.free_pages_order(block, order);
    }
}

fn of(mm: &Engine, events: &[VmEvent]) -> Vec<u64> {
    events.iter().map(|&e| mm.vm_event(e)).collect()
}

const OUTCOMES: [VmEvent; 4] = [
    VmEvent::CompactStall,
    VmEvent::CompactSuccess,
    VmEvent::CompactFail,
    VmEvent::AllocStall,
];

/// Returns the pages that compaction moved, and those that it failed to move.
fn moved(mm: &Engine) -> [u64; 2] {
    [
        VmEvent::CompactPagesMoved,
        VmEvent::CompactPagemigrateFailed,
    ]
    .map(|e| mm.vm_event(e))
}

/// docs/reference/allocation.md#compaction: eight contiguous pages are made among movable pages
/// without reclaim, to which the request comes otherwise.
#[test]
fn a_block_is_made_of_pages_that_lie_apart() {
    let (mm, f) = fragmented(policy(Compaction::Direct));
    let places = |mm: &Engine| {
        (0..CACHED)
            .filter(|&i| mm.find_page(f, i).is_some())
            .count()
    };
    let before = (places(&mm), mm.global_stat(ZoneStat::NrFreePages));
    let got = block_on(&mm, mm.alloc_pages(Gfp::KERNEL, 3)).expect("a block");
    assert_eq!(got % 8, 0);
    assert_eq!(of(&mm, &OUTCOMES), [1, 1, 0, 0]);
    let [pages, failed] = moved(&mm);
    assert!((1..=64).contains(&pages) && failed == 0, "{pages} {failed}");
    // The file has all its pages, and no page is free that was not.
    mm.drain_all_pages();
    assert_eq!(places(&mm), before.0);
    assert_eq!(mm.global_stat(ZoneStat::NrFreePages), before.1 - 8);
    mm.free_pages_order(got, 3);
    recount(&mm);

    let (mm, none) = fragmented(policy(Compaction::None));
    assert_eq!(none, f);
    assert!(block_on(&mm, mm.alloc_pages(Gfp::KERNEL, 3)).is_some());
    let stalls = of(&mm, &OUTCOMES);
    assert!(stalls[..3] == [0; 3] && stalls[3] > 0, "{stalls:?}");
    assert!(places(&mm) < CACHED as usize, "the file has lost pages");
}

/// Compaction does not begin for a request that may not enter filesystems or do I/O.
#[test]
fn requests_that_may_not_wait_for_files_compact_nothing() {
    let (mm, _) = fragmented(policy(Compaction::Direct));
    assert!(block_on(&mm, mm.alloc_pages(Gfp::NOFS, 3)).is_some());
    assert_eq!(of(&mm, &OUTCOMES)[..3], [0, 0, 0]);
    assert!(mm.vm_event(VmEvent::AllocStall) > 0);
}

/// Makes a machine whose memory cannot be moved or reclaimed, with fragmented free pages.
fn hopeless() -> Engine {
    let mm = Bare::new(policy(Compaction::Direct), 4096).build();
    for pfn in take_all(&mm) {
        if pfn % 2 == 0 {
            mm.free_page(pfn, false);
        }
    }
    mm.drain_all_pages();
    mm
}

/// After n failures in a row 2^n - 1 requests, at most 63, do without compaction; each stall counts
/// as a success or a failure.
#[test]
fn failures_defer_compaction() {
    let mm = hopeless();
    let gfp = Gfp::KERNEL.or(Gfp::NORETRY);
    let mut asked = Vec::new();
    for _ in 0..400 {
        let before = mm.vm_event(VmEvent::CompactStall);
        let how = Migrate::Sync;
        assert!(block_on(&mm, mm.direct_compact(0, gfp, 4, 0, how)).is_none());
        asked.push(mm.vm_event(VmEvent::CompactStall) > before);
    }
    let stalls = asked.iter().enumerate().filter(|(_, stalled)| **stalled);
    let at: Vec<usize> = stalls.map(|(nth, _)| nth).collect();
    let gaps: Vec<usize> = at.windows(2).map(|w| w[1] - w[0]).collect();
    assert_eq!(gaps[..8], [2, 4, 8, 16, 32, 64, 64, 64]);
    assert_eq!(mm.vm_event(VmEvent::CompactFail), at.len() as u64);
    assert_eq!(moved(&mm), [0, 0]);
    recount(&mm);
}

/// A success ends the deferral.
#[test]
fn a_success_ends_the_deferral() {
    let (mm, _) = fragmented(policy(Compaction::Direct));
    mm.zones[0].compact_defer_shift.set(1);
    let how = Migrate::Async;
    let ask = || block_on(&mm, mm.direct_compact(0, Gfp::KERNEL, 4, 0, how));
    assert!(ask().is_none());
    assert_eq!(mm.vm_event(VmEvent::CompactStall), 0);
    assert!(ask().is_some());
    assert_eq!(mm.zones[0].compact_defer_shift.get(), 0);
}

/// Without waiting, pages under writeback and dirty pages of files stay where they are; with
/// waiting they are moved.
#[test]
fn only_who_may_wait_moves_dirty_pages() {
    for (how, all) in [(Migrate::Async, false), (Migrate::Sync, true)] {
        let (mm, f) = fragmented(policy(Compaction::Direct));
        // The file's first 64 pages are those that the migrate scanner meets first.
        for index in 0..64 {
            let pfn = mm.find_page(f, index).expect("cached");
            mm.set_page_dirty(pfn, TrackPath::BufferedWrite);
        }
        let at = |index| mm.find_page(f, index).expect("cached");
        let before: Vec<Pfn> = (0..64).map(at).collect();
        // Half of them are under writeback, which ends later.
        assert_eq!(mm.start_writeback(f, 0, 32, |_| ()), 32);
        let written = async {
            mm.world.sleep(SECOND / 10).await;
            mm.end_writeback(f, 0, 32, false);
        };
        let compacts = async {
            compact(&mm, 6, how).await;
        };
        let jobs: Vec<Job<'_>> = vec![Box::pin(compacts), Box::pin(written)];
        run(&mm, jobs, 2, u64::MAX, |_| ());
        let stay = (0..64).filter(|&i| at(i) == before[i as usize]).count();
        if all {
            assert_eq!(stay, 0);
        } else {
            assert_eq!(stay, 64);
            assert!(moved(&mm)[1] >= 64, "{:?}", moved(&mm));
        }
        assert_eq!(mm.global_stat(ZoneStat::NrFileDirty), 32);
        recount(&mm);
    }
}

/// Moved anonymous pages keep their entries and their swap slots, mapped file pages their entries;
/// locked pages are not moved.
#[test]
fn page_tables_and_swap_slots_follow() {
    let mut bare = Bare::new(policy(Compaction::Direct), 4096);
    bare.swap = 300;
    let mm = bare.build();
    let f = file(&mm, MappingKind::File, 0, 1000);
    let anon = mm
        .new_region(Backing::Anon, 200, Advice::Normal)
        .expect("room");
    let shared = Backing::Shared {
        mapping: f,
        first: 0,
    };
    let mapped = mm.new_region(shared, 100, Advice::Random).expect("room");
    let held = block_on(&mm, async {
        let mut held = Vec::new();
        for index in 0..200 {
            mm.touch(anon, index, true).await;
            held.extend(mm.alloc_page(Gfp::USER).await);
            bring_in(&mm, f, index, 1).await;
            held.extend(mm.alloc_page(Gfp::USER).await);
        }
        mm.world.sleep(SECOND).await;
        for index in 0..100 {
            mm.touch(mapped, index, index % 5 == 0).await;
        }
        held
    });
    // The rest of memory is the kernel's, with fragmented free pages.
    let apart = take_all(&mm).into_iter().filter(|pfn| pfn % 2 == 0);
    for pfn in held.into_iter().chain(apart) {
        mm.free_page(pfn, false);
    }
    let frame = |region, index| mm.pte(region, index).get() >> 3;
    for index in (0..200).step_by(3) {
        assert!(mm.add_to_swap(frame(anon, index)));
    }
    mm.drain_all_pages();
    mm.lru_add_drain();
    let locked = mm.find_page(f, 150).expect("cached");
    assert!(mm.try_lock_page(locked));
    let places = || -> Vec<(u32, u32)> {
        let of = |region, n| (0..n).map(move |i| (region, i));
        of(anon, 200).chain(of(mapped, 100)).collect()
    };
    let before: Vec<u32> = places().iter().map(|&(r, i)| frame(r, i)).collect();
    let bits = |v: &(u32, u32)| mm.pte(v.0, v.1).get() & 7;
    let marks: Vec<u32> = places().iter().map(bits).collect();
    recount(&mm);
    block_on(&mm, compact(&mm, 9, Migrate::Sync));
    recount(&mm);
    let after: Vec<u32> = places().iter().map(|&(r, i)| frame(r, i)).collect();
    let elsewhere = before.iter().zip(&after).filter(|(a, b)| a != b).count();
    assert!(elsewhere > 200, "{elsewhere} of 300 entries");
    assert_eq!(places().iter().map(bits).collect::<Vec<_>>(), marks);
    assert_eq!(mm.find_page(f, 150), Some(locked));
    mm.unlock_page(locked);
    // A moved page that is swapped out and faulted back is the same.
    block_on(&mm, p::touch(&mm, anon, 200, 400, 3));
    mm.free_region(anon);
    recount(&mm);
}

/// Reclaim for a block goes on until twice the block is free; without compaction it does not.
#[test]
fn reclaim_leaves_enough_to_compact() {
    let freed = |compaction| {
        let mm = Bare::new(policy(compaction), 4096).build();
        let f = file(&mm, MappingKind::File, 0, 4096);
        block_on(&mm, async {
            bring_in(&mm, f, 0, 3800).await;
            mm.world.sleep(SECOND).await;
            mm.lru_add_drain();
            let before = mm.global_stat(ZoneStat::NrFreePages);
            mm.try_to_free_pages(0, Gfp::KERNEL, 9).await;
            mm.drain_all_pages();
            mm.global_stat(ZoneStat::NrFreePages) - before
        })
    };
    let (with, without) = (freed(Compaction::Direct), freed(Compaction::None));
    assert!(with >= 1024, "{with}");
    assert!(without < 200, "{without}");
}

/// Compaction moves no pages that an eviction policy orders.
#[test]
fn what_is_not_movable_stays() {
    let ordered = Policy {
        eviction: Eviction::parse("sieve").expect("sieve"),
        ..policy(Compaction::Direct)
    };
    let (mm, _) = fragmented(ordered);
    block_on(&mm, compact(&mm, 6, Migrate::Sync));
    assert_eq!(moved(&mm), [0, 0]);
    recount(&mm);
}

/// 4.8: a zone whose free pages are between min and low is suitable for small orders even if they
/// are fragmented; a zone that is suitable for nothing counts as no stall.
#[test]
fn small_orders_are_compacted_for_above_min() {
    let take = |mm: &Engine, left: u64| {
        for pfn in take_all(mm) {
            let taken = mm.global_stat(ZoneStat::NrFreePages) >= left;
            (!taken).then(|| mm.free_page(pfn, false));
        }
        mm.drain_all_pages();
    };
    for (compaction, fit, stalls) in [(Compaction::Direct, false, 1), (Compaction::ByMin, true, 1)]
    {
        let (mm, _) = fragmented(policy(compaction));
        let (min, low) = (mm.zones[0].mark(Mark::Min), mm.zones[0].mark(Mark::Low));
        take(&mm, (min + low) / 2 + 16);
        // The free pages are fragmented for order 3, and for order 5 by the index alone.
        assert_eq!(mm.compaction_suitable(0, 3) != Compacted::Skipped, fit);
        assert_eq!(mm.compaction_suitable(0, 5), Compacted::Skipped);
        block_on(&mm, compact(&mm, 3, Migrate::Async));
        assert_eq!(mm.vm_event(VmEvent::CompactStall), stalls);
        block_on(&mm, compact(&mm, 5, Migrate::Async));
        let counted = u64::from(compaction == Compaction::Direct);
        assert_eq!(mm.vm_event(VmEvent::CompactStall), stalls + counted);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Random numbers of file pages, anonymous pages and kernel blocks, then requests of all orders
    /// beside running programs: every list, index and counter agrees at any time.
    #[test]
    fn nothing_is_lost(
        seed in any::<u64>(),
        pages in 600u64..3000,
        preset in 0usize..7,
        order in 1u32..6,
        swap in 0u32..400,
    ) {
        let names = Policy::PRESETS;
        let mut policy = Policy::preset(names[preset % names.len()]).expect("a preset");
        if policy.compaction == Compaction::None {
            policy.compaction = Compaction::Direct;
        }
        let mut bare = Bare::new(policy, pages);
        bare.swap = swap;
        bare.cpus = 2;
        // No flusher runs before the programs begin, so no limit may throttle the writer.
        bare.sysctl.dirty_ratio = 100;
        let mm = bare.build();
        let f = file(&mm, MappingKind::File, 0, 800);
        let mut chance = Lcg(seed);
        let held = block_on(&mm, async {
            let mut held = Vec::new();
            for _ in 0..pages / 2 {
                let index = chance.below(800);
                match chance.below(3) {
                    0 => held.extend(mm.alloc_pages_fast(Gfp::USER, 0, 0)),
                    1 => drop(write(&mm, f, index).await),
                    _ => drop(bring_in(&mm, f, index, 1).await),
                }
            }
            held
        });
        // The rest of memory is the kernel's, with fragmented free pages.
        let apart = take_all(&mm).into_iter().filter(|pfn| pfn % 2 == 0);
        held.into_iter().chain(apart).for_each(|pfn| mm.free_page(pfn, false));
        mm.drain_all_pages();
        let asks = async {
            for _ in 0..6 {
                let gfp = Gfp::KERNEL.or(Gfp::NORETRY);
                if let Some(block) = mm.alloc_pages(gfp, order).await {
                    mm.free_pages_order(block, order);
                }
                mm.world.sleep(2_000_000).await;
            }
        };
        let beside = async {
            p::mix(&mm, f, 800, 300, seed ^ 5).await;
        };
        let third = async {
            p::anonymous(&mm, 60, 100, seed).await;
        };
        let jobs: Vec<Job<'_>> = vec![Box::pin(asks), Box::pin(beside), Box::pin(third)];
        run(&mm, jobs, 3, 20 * SECOND, recount);
        recount(&mm);
    }
}
