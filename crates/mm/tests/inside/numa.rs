//! Machines of several nodes: the zones that a walk over the free lists looks at.

use super::bare::{Bare, recount};
use super::prelude::*;
use super::world::{Engine, block_on};
use crate::memory::numa::NumaStat;
use crate::policy::ZonelistCache as C;

/// Pages of each zone.
const SIZE: u64 = 4096;

/// Makes nodes of one zone each; the only CPU is on node 0.
fn nodes(n: u32, policy: Policy) -> Engine {
    let mut bare = Bare::new(policy, SIZE);
    bare.zones = (0..n)
        .map(|node| ZoneInfo {
            node,
            kind: ZoneType::Dma32,
            size: SIZE,
        })
        .collect();
    bare.build()
}

/// Returns the policy of 3.0 with a rule for the zonelist cache.
fn with(cache: C) -> Policy {
    Policy {
        zonelist_cache: cache,
        ..Policy::linux_3_0()
    }
}

/// Takes pages for user memory until one comes from another zone than `zones`; that one is freed
/// again. Returns the pages taken.
fn use_up(mm: &Engine, zones: &[usize]) -> Vec<Pfn> {
    let mut held = Vec::new();
    loop {
        let pfn = mm.alloc_pages_fast(Gfp::USER, 0, mm.world.now());
        let pfn = pfn.expect("another zone has pages");
        if !zones.contains(&mm.frames.zone(pfn)) {
            mm.free_page(pfn, false);
            return held;
        }
        held.push(pfn);
    }
}

/// Frees the pages that were taken from a zone, which is then far above its watermarks.
fn give_back(mm: &Engine, held: &mut Vec<Pfn>, zone: usize) {
    let (back, kept) = std::mem::take(held)
        .into_iter()
        .partition::<Vec<_>, _>(|&pfn| mm.frames.zone(pfn) == zone);
    assert!(!back.is_empty());
    *held = kept;
    back.into_iter().for_each(|pfn| mm.free_page(pfn, false));
    mm.drain_all_pages();
}

/// Returns the zone of the next page for user memory at the low watermark; `None`: kswapd would be
/// woken.
fn next(mm: &Engine) -> Option<usize> {
    let pfn = mm.alloc_pages_fast(Gfp::USER, 0, mm.world.now())?;
    let zone = mm.frames.zone(pfn);
    mm.free_page(pfn, false);
    Some(zone)
}

/// A zone that has pages again is skipped until a second has passed. The first zone is always
/// tried, and without the cache all are.
#[test]
fn a_full_zone_is_passed_for_up_to_a_second() {
    for cache in [C::BehindFirst, C::ClearedByReclaim, C::WhileActive, C::None] {
        let mm = nodes(3, with(cache));
        mm.world.advance(5 * SECOND);
        let mut held = use_up(&mm, &[0, 1]);
        give_back(&mm, &mut held, 1);
        let passed = cache != C::None;
        assert_eq!(next(&mm), Some(if passed { 2 } else { 1 }), "{cache:?}");
        mm.world.advance(SECOND / 2);
        assert_eq!(next(&mm), Some(if passed { 2 } else { 1 }), "{cache:?}");
        mm.world.advance(SECOND / 2 + 2 * mm.tick());
        assert_eq!(next(&mm), Some(1), "{cache:?}: a second is over");
        give_back(&mm, &mut held, 0);
        assert_eq!(next(&mm), Some(0), "{cache:?}: the first zone");
        recount(&mm);
    }
}

/// If no other zone has pages, one more walk finds those that the cache hid, at the same watermark,
/// without waking kswapd.
#[test]
fn one_more_walk_looks_at_all_zones() {
    for cache in [C::BehindFirst, C::ClearedByReclaim, C::WhileActive] {
        let mm = nodes(3, with(cache));
        mm.world.advance(5 * SECOND);
        let mut held = use_up(&mm, &[0, 1]);
        // Node 2 is used up, too, and no zone has pages left.
        while let Some(pfn) = mm.alloc_pages_fast(Gfp::USER, 0, mm.world.now()) {
            held.push(pfn);
        }
        assert_eq!(next(&mm), None);
        give_back(&mm, &mut held, 1);
        for _ in 0..3 {
            assert_eq!(next(&mm), Some(1), "{cache:?}");
        }
        // The slow path's walk at min does the same.
        assert!(mm.alloc_nowait(Gfp::USER, 0).is_some());
    }
}

/// Each node's list has bits of its own: a zone that node 0 skips is tried by node 3.
#[test]
fn each_node_remembers_for_itself() {
    let mm = nodes(4, with(C::BehindFirst));
    mm.world.advance(5 * SECOND);
    let mut held = use_up(&mm, &[0, 1]);
    give_back(&mm, &mut held, 1);
    assert_eq!(next(&mm), Some(2));
    mm.init_task(mm.world.task(), PF_MEMBIND, 3);
    // Its own zone first: a task that may use no other uses it up.
    while let Some(pfn) = mm.alloc_pages_fast(mm.bound(Gfp::USER), 0, mm.world.now()) {
        held.push(pfn);
    }
    assert_eq!(next(&mm), Some(1), "node 0 is full, and node 1 is next");
}

/// 3.1: after a direct reclaim that freed pages every node is tried again, by every task.
#[test]
fn direct_reclaim_that_freed_pages_clears_the_bits_from_3_1_on() {
    for (cache, zone) in [
        (C::BehindFirst, 2),
        (C::ClearedByReclaim, 1),
        (C::WhileActive, 1),
    ] {
        let mm = nodes(3, with(cache));
        mm.world.advance(5 * SECOND);
        let mut held = use_up(&mm, &[0, 1]);
        give_back(&mm, &mut held, 1);
        assert_eq!(next(&mm), Some(2), "{cache:?}");
        mm.zones_reclaimed(0);
        assert_eq!(next(&mm), Some(zone), "{cache:?}");
    }
}

/// Returns the zone of a request that dirties nothing, after a write skipped node 1, which is over
/// its share of dirty pages, with the dirty limits of the series of 2011.
fn after_dirty_node(cache: C) -> Option<usize> {
    let mm = nodes(
        3,
        Policy {
            dirty_limits: DirtyLimits::PerZone,
            ..with(cache)
        },
    );
    mm.world.advance(5 * SECOND);
    // Node 0 is used up; node 1 has pages, but more dirty ones than its share.
    let held = use_up(&mm, &[0]);
    let file = mm.new_mapping(MappingKind::File, 0).expect("a file");
    for index in 0..1500 {
        mm.init_task(mm.world.task(), PF_MEMBIND, 1);
        let pfn = block_on(&mm, mm.alloc_page(mm.bound(Gfp::USER))).expect("a page");
        mm.enter_page_cache_lru(pfn, file, index);
        mm.set_page_dirty(pfn, TrackPath::BufferedWrite);
    }
    mm.init_task(mm.world.task(), 0, 0);
    mm.world.advance(2 * SECOND);
    // A write skips node 1 because of its dirty pages. Then a request comes that will not write.
    let write = mm.alloc_pages_fast(Gfp::USER_WRITE, 0, mm.world.now());
    assert_eq!(write.map(|pfn| mm.frames.zone(pfn)), Some(2));
    let zone = next(&mm);
    assert!(!held.is_empty());
    zone
}

/// Since 4.8 a write tests the dirty pages of a node: a zone with many dirty pages gives pages
/// while its node is within its share, and no zone of the node does once the node is over it.
#[test]
fn nodes_have_the_dirty_limits_since_4_8() {
    let zone_of_write = |dirty_limits, dirty| {
        let mut bare = Bare::new(
            Policy {
                dirty_limits,
                ..with(C::None)
            },
            SIZE,
        );
        let zone = |kind| ZoneInfo {
            node: 0,
            kind,
            size: SIZE,
        };
        bare.zones = vec![zone(ZoneType::Dma32), zone(ZoneType::Normal)];
        let mm = bare.build();
        let file = mm.new_mapping(MappingKind::File, 0).expect("a file");
        for index in 0..dirty {
            let pfn = block_on(&mm, mm.alloc_page(Gfp::USER)).expect("a page");
            assert_eq!(mm.frames.zone(pfn), 1);
            mm.enter_page_cache_lru(pfn, file, index);
            mm.set_page_dirty(pfn, TrackPath::BufferedWrite);
        }
        let pfn = mm.alloc_pages_fast(Gfp::USER_WRITE, 0, mm.world.now());
        pfn.map(|pfn| mm.frames.zone(pfn))
    };
    // A fifth of a zone's pages may be dirty, about 800; of the node's about 1,600.
    use DirtyLimits::{PerNode, PerZone};
    assert_eq!(zone_of_write(PerZone, 1200), Some(0));
    assert_eq!(zone_of_write(PerNode, 1200), Some(1));
    assert_eq!(zone_of_write(PerZone, 2000), Some(0));
    assert_eq!(zone_of_write(PerNode, 2000), None);
}

/// Up to 3.15 a zone over its share of dirty pages counts as full for requests that dirty nothing,
/// too.
#[test]
fn a_dirty_zone_counted_as_full_until_3_16() {
    assert_eq!(after_dirty_node(C::None), Some(1));
    assert_eq!(after_dirty_node(C::BehindFirst), Some(2));
    assert_eq!(after_dirty_node(C::ClearedByReclaim), Some(2));
    assert_eq!(after_dirty_node(C::WhileActive), Some(1));
}

/// The fair walk of 3.16 stays on its node, and is made twice if the cache was used; then remote
/// nodes follow, without those that were found full.
#[test]
fn fair_walks_and_the_cache() {
    for fair in [FairZones::Batch, FairZones::AsMerged] {
        let mm = nodes(
            3,
            Policy {
                fair_zones: fair,
                dirty_limits: DirtyLimits::Global,
                ..Policy::linux_3_16()
            },
        );
        mm.world.advance(5 * SECOND);
        let mut held = use_up(&mm, &[0, 1]);
        give_back(&mm, &mut held, 1);
        // One more walk for all reasons is also one without the cache (*sequential-read* 4).
        let zone = match fair {
            FairZones::AsMerged => 1,
            _ => 2,
        };
        assert_eq!(next(&mm), Some(zone), "{fair:?}");
    }
}

/// A walk over the lists of one node is the same with any rule.
#[test]
fn one_node_remembers_nothing() {
    for cache in [C::None, C::BehindFirst, C::ClearedByReclaim, C::WhileActive] {
        let mut bare = Bare::new(with(cache), SIZE);
        bare.zones = vec![
            ZoneInfo {
                node: 0,
                kind: ZoneType::Dma,
                size: 512,
            },
            ZoneInfo {
                node: 0,
                kind: ZoneType::Dma32,
                size: SIZE,
            },
        ];
        let mm = bare.build();
        mm.world.advance(5 * SECOND);
        while mm.alloc_pages_fast(Gfp::USER, 0, mm.world.now()).is_some() {}
        assert!((0..2).all(|z| !mm.nodes[0].full_zones.has(z)), "{cache:?}");
    }
}

/// Returns the machine's NUMA counters, in the order of /proc/vmstat.
fn numa(mm: &Engine) -> [u64; 5] {
    let all = mm.vmstat();
    NumaStat::ALL.map(|what| {
        let found = all.iter().find(|(name, _)| name == what.name());
        found.expect("a counter of several nodes").1
    })
}

/// Returns the NUMA counters of a zone, in the same order.
fn numa_of(mm: &Engine, z: usize) -> [u64; 5] {
    NumaStat::ALL.map(|what| mm.numa_stat(z, what).expect("several nodes"))
}

/// docs/reference/counters-and-traces.md#numa: hit, miss and foreign depend on the request's first
/// zone, local and other on the CPU's node; a block counts once.
#[test]
fn where_pages_came_from() {
    let mm = nodes(3, with(C::None));
    let held = use_up(&mm, &[0]);
    let n = held.len() as u64;
    // The page that came from node 1 was a miss of node 1 and foreign to node 0.
    assert_eq!(numa(&mm), [n, 1, 1, n, 1]);
    assert_eq!(numa_of(&mm, 0), [n, 0, 1, n, 0]);
    assert_eq!(numa_of(&mm, 1), [0, 1, 0, 0, 1]);
    // A task bound to node 2 that runs on node 0 counts as a hit of node 2, from another node.
    mm.init_task(mm.world.task(), PF_MEMBIND, 2);
    let pfn = mm.alloc_pages_fast(mm.bound(Gfp::USER), 0, mm.world.now());
    assert_eq!(pfn.map(|pfn| mm.frames.zone(pfn)), Some(2));
    assert_eq!(numa_of(&mm, 2), [1, 0, 0, 0, 1]);
    let block = mm.alloc_pages_fast(mm.bound(Gfp::USER), 3, mm.world.now());
    mm.free_pages_order(block.expect("a block"), 3);
    assert_eq!(numa_of(&mm, 2), [2, 0, 0, 0, 2], "eight pages, once");
    assert_eq!(numa(&mm), [n + 2, 1, 1, n, 3]);
    let text = mm.zoneinfo();
    assert!(
        text.contains("    numa_other   2\n"),
        "zone by zone: {text}"
    );
    recount(&mm);
}

/// A machine of one node has no such counters.
#[test]
fn one_node_counts_no_nodes() {
    let mm = Bare::new(Policy::linux_3_0(), SIZE).build();
    assert!(mm.alloc_pages_fast(Gfp::USER, 0, 0).is_some());
    assert!(!mm.vmstat().iter().any(|(name, _)| name.contains("numa")));
    assert!(!mm.zoneinfo().contains("numa"));
    assert_eq!(mm.numa_stat(0, NumaStat::Hit), None);
}

/// Makes two nodes; the only CPU is on node 0. Each has a Normal and a Movable zone, so that its
/// list is fair by any rule; or node 1 has only a Normal zone.
fn two_nodes(fair: FairZones, both_zones: bool) -> Engine {
    let mut bare = Bare::new(
        Policy {
            fair_zones: fair,
            dirty_limits: DirtyLimits::Global,
            zonelist_cache: C::None,
            ..Policy::linux_3_16()
        },
        SIZE,
    );
    let zone = |node, kind| ZoneInfo {
        node,
        kind,
        size: SIZE,
    };
    bare.zones = vec![zone(0, ZoneType::Normal), zone(0, ZoneType::Movable)];
    bare.zones.push(zone(1, ZoneType::Normal));
    if both_zones {
        bare.zones.push(zone(1, ZoneType::Movable));
    }
    bare.build()
}

/// Takes pages until kswapd has to be woken. Returns the pages that each zone gave, and how often
/// batches were reset.
fn given(mm: &Engine) -> (Vec<u64>, u64) {
    while mm.alloc_pages_fast(Gfp::USER, 0, 0).is_some() {}
    let zones = 0..mm.zones.len();
    let given = zones.map(|z| mm.zone_event(z, ZoneEvent::PgAlloc));
    (given.collect(), mm.vm_event(VmEvent::FairReset))
}

/// Each form of *sequential-read* 4 on two nodes. The batches of 3.16 are reset with each page that
/// comes from the other node; those of 3.17 are not, because no zone was skipped. The form as it
/// was meant wakes kswapd of its own node before it takes a page of another one, unless some node
/// has only one zone: then the form is practically switched off. The form as it was posted wakes
/// kswapd in any case, because no list is marked as fair and yet each first walk is a fair one.
#[test]
fn fair_forms_on_two_nodes() {
    use FairZones as F;
    let reaches = |fair, both| given(&two_nodes(fair, both));
    let (batch, resets) = reaches(F::Batch, true);
    assert!(batch[2] + batch[3] > 7000, "the other node: {batch:?}");
    assert!(resets > 7000, "a reset with each of its pages: {resets}");
    let (merged, resets) = reaches(F::AsMerged, true);
    assert!(merged[2] + merged[3] > 7000, "{merged:?}");
    assert!(resets < 1000, "{resets}");
    let (meant, resets) = reaches(F::AsMeant, true);
    assert_eq!((meant[2], meant[3]), (0, 0), "its own node first");
    assert!(resets < 1000, "{resets}");
    let (off, resets) = reaches(F::Off, true);
    assert!(off[2] + off[3] > 7000 && resets == 0, "{off:?}");
    for both in [true, false] {
        let (posted, resets) = reaches(F::AsPosted, both);
        let others: u64 = posted[2..].iter().sum();
        assert_eq!((others, resets), (0, 0), "its own node first: {posted:?}");
        assert!(posted[0] + posted[1] > 7000, "all of it: {posted:?}");
    }
    // Node 1 has one zone: with `AsMeant` no list is fair, and the other node is used.
    let (meant, resets) = reaches(F::AsMeant, false);
    assert!(meant[2] > 3500 && resets == 0, "{meant:?}");
    // The other forms do not test how many zones a node has.
    assert!(reaches(F::AsMerged, false).0[2] > 3500);
}

/// The use of a node's zones when half of its memory is taken: fair forms use both alike, the
/// others only the higher one.
#[test]
fn a_fair_node_uses_both_zones() {
    use FairZones as F;
    for (fair, both, alike) in [
        (F::Batch, true, true),
        (F::AsMerged, true, true),
        (F::AsMeant, true, true),
        (F::AsMeant, false, false),
        (F::AsPosted, true, false),
        (F::Off, true, false),
    ] {
        let mm = two_nodes(fair, both);
        for _ in 0..SIZE - 300 {
            assert!(mm.alloc_pages_fast(Gfp::USER, 0, 0).is_some());
        }
        let [low, high] = [0, 1].map(|z| mm.zone_event(z, ZoneEvent::PgAlloc));
        assert_eq!(low > high / 2, alike, "{fair:?}: {low} and {high}");
        assert_eq!(low == 0, !alike, "{fair:?}: {low} and {high}");
    }
}

/// A zone whose watermarks are equal has no batch: the fair walk never finds a page there, and the
/// remembered result of that walk stays valid while the next walk finds the zone's last page.
#[test]
fn a_zone_without_a_batch_gives_its_last_page() {
    let policy = Policy {
        fair_zones: FairZones::Batch,
        dirty_limits: DirtyLimits::Global,
        ..Policy::linux_3_16()
    };
    for pages in [8, 16, 64, 256] {
        let mut bare = Bare::new(policy.clone(), pages);
        bare.sysctl.min_free_kbytes = Some(4);
        let mm = bare.build();
        let mut held = Vec::new();
        for _ in 0..3 {
            while let Some(pfn) = mm.alloc_pages_fast(Gfp::USER, 0, 0) {
                held.push(pfn);
                recount(&mm);
            }
            assert!(held.len() as u64 > pages / 2, "{} of {pages}", held.len());
            for pfn in held.drain(..) {
                mm.free_page(pfn, false);
                recount(&mm);
            }
        }
    }
}
