//! Machines of 32 bits: DMA, Normal up to 896 MiB, HighMem above that.

use super::bare::{Bare, recount};
use super::prelude::*;
use super::world::{Engine, block_on};
use crate::memory::watermark::{MarkFormula, lowmem_kbytes, lowmem_reserve, min_free_kbytes};
use crate::memory::zone::Lru;
use crate::reclaim::scan::ScanControl;

fn zones(sizes: [u64; 3]) -> Vec<ZoneInfo> {
    let kinds = [ZoneType::Dma, ZoneType::Normal, ZoneType::HighMem];
    let zone = |(kind, size)| ZoneInfo {
        node: 0,
        kind,
        size,
    };
    kinds.into_iter().zip(sizes).map(zone).collect()
}

/// Makes a machine of which four fifths are HighMem.
fn machine(policy: Policy, change: impl FnOnce(&mut Bare)) -> Engine {
    let mut bare = Bare::new(policy, 0);
    bare.zones = zones([256, 1792, 8192]);
    change(&mut bare);
    bare.build()
}

/// docs/reference/memory-model.md#highmem: the machine of 1 GiB in the comment at
/// `lowmem_reserve_ratio` (Linux mm/page_alloc.c), and HighMem's min watermark, which does not
/// depend on `min_free_kbytes`.
#[test]
fn reserves_and_watermarks() {
    const MIB: u64 = 256;
    let all = zones([16 * MIB, 784 * MIB, 224 * MIB]);
    let by_place = [16 * MIB, 0, 784 * MIB, 224 * MIB];
    let reserve = |z, j| lowmem_reserve(&by_place, &[256, 256, 32], z, j);
    assert_eq!(reserve(0, 2), 784 * MIB / 256);
    assert_eq!(reserve(0, 3), (224 + 784) * MIB / 256);
    assert_eq!(reserve(2, 3), 224 * MIB / 32);
    assert_eq!(reserve(3, 3), 0);
    assert_eq!(
        lowmem_kbytes(&all),
        800 * 1024,
        "what the kernel can address"
    );
    let min_free = min_free_kbytes(lowmem_kbytes(&all), 65_536);
    for scale_factor in [None, Some(10)] {
        let formula = MarkFormula {
            scale_factor,
            movable_apart: false,
            low_kbytes: None,
            high_kbytes: None,
        };
        let marks = formula.marks(min_free, &all);
        assert_eq!(min_free, 3620);
        // Normal has its share of low memory only: 905 pages for 800 MiB.
        assert_eq!(marks[1][0], 905 * 784 / 800);
        // 57344 pages: a 1024th of them is the minimum, and the steps are those of the zone's
        // share, 905 * 224 / 800.
        assert_eq!(marks[2], [56, 56 + 63, 56 + 126], "{scale_factor:?}");
    }
    let large = zones([4096, 225_280, 4 << 20]);
    let formula = MarkFormula::of(&Sysctl::KERNEL);
    assert_eq!(formula.marks(3820, &large)[2][0], 128, "at most");
    let small = zones([4096, 225_280, 1000]);
    assert_eq!(formula.marks(3820, &small)[2][0], 32, "at least");
}

/// User pages come from HighMem first, then from Normal, down to its low watermark and its reserve
/// against requests that could use HighMem. The kernel's own pages never come from HighMem: they
/// run out while HighMem is free.
#[test]
fn who_may_use_highmem() {
    let mm = machine(Policy::linux_3_0(), |_| {});
    let take = |gfp| {
        let pfn = mm.alloc_pages_fast(gfp, 0, mm.world.now())?;
        Some(mm.frames.zone(pfn))
    };
    assert_eq!(take(Gfp::USER), Some(2));
    assert_eq!(take(Gfp::USER_WRITE), Some(2));
    for gfp in [Gfp::KERNEL, Gfp::NOFS, Gfp::ATOMIC, Gfp::SLAB_NOWAIT] {
        assert_eq!(take(gfp), Some(1));
    }
    while take(Gfp::KERNEL).is_some() {}
    assert!(mm.zone_stat(2, ZoneStat::NrFreePages) > 8000, "and yet");
    assert_eq!(take(Gfp::KERNEL), None);
    assert_eq!(take(Gfp::USER), Some(2));
    // On another machine user pages take as much as they may.
    let mm = machine(Policy::linux_3_0(), |_| {});
    while mm.alloc_pages_fast(Gfp::USER, 0, 0).is_some() {}
    mm.drain_all_pages();
    let left = mm.zone_stat(1, ZoneStat::NrFreePages);
    let kept = mm.zones[1].mark(Mark::Low) + 8192 / 32;
    assert!((kept..kept + 64).contains(&left), "{left} of {kept}");
    assert!(
        mm.alloc_pages_fast(Gfp::KERNEL, 0, 0).is_some(),
        "the rest is its"
    );
}

/// Counters end in `_high`, and reserves are printed for DMA, Normal, HighMem and a Movable zone
/// above it.
#[test]
fn names_of_highmem() {
    let mm = machine(Policy::linux_3_0(), |_| {});
    assert!(mm.alloc_pages_fast(Gfp::USER, 0, 0).is_some());
    let all = mm.vmstat();
    let of = |name: &str| all.iter().find(|(n, _)| n == name).map(|(_, v)| *v);
    assert_eq!(of("pgalloc_high"), Some(1));
    assert_eq!(of("pgalloc_normal"), Some(0));
    for name in ["pgscan_kswapd_high", "pgscan_direct_high", "pgsteal_high"] {
        assert_eq!(of(name), Some(0), "{name}");
    }
    for name in ["pgalloc_highmem", "pgalloc_movable", "pgalloc_dma32"] {
        assert_eq!(of(name), None, "{name}");
    }
    assert_eq!(mm.zone_name(2), "HighMem");
    let text = mm.zoneinfo();
    assert!(text.contains("Node 0, zone  HighMem\n"), "{text}");
    assert!(text.contains("protection: (0, 7, 39, 39)"), "DMA: {text}");
    assert!(
        text.contains("protection: (0, 0, 256, 256)"),
        "Normal: {text}"
    );
}

/// A machine of 32 bits has neither DMA32 nor Movable memory.
#[test]
#[should_panic(expected = "of_64_bits")]
fn no_zone_of_64_bits_beside_highmem() {
    machine(Policy::linux_3_0(), |bare| {
        bare.zones[1].kind = ZoneType::Dma32;
    });
}

/// Dirty limits are shares of the memory that the kernel can address, unless
/// `vm.highmem_is_dirtyable` is set; a zone's share is its own in either case.
#[test]
fn highmem_is_not_dirtyable() {
    let of = |policy: &Policy, dirtyable: Option<u32>| {
        let mm = machine(policy.clone(), |bare| {
            bare.sysctl.highmem_is_dirtyable = dirtyable;
        });
        let file = mm.new_mapping(MappingKind::File, 0).expect("a file");
        for index in 0..2000 {
            let pfn = block_on(&mm, mm.alloc_page(Gfp::USER)).expect("a page");
            mm.enter_page_cache_lru(pfn, file, index);
        }
        recount(&mm);
        let zone = mm.zone_dirty_limit(2);
        (mm.dirtyable(), mm.dirty_limits().dirty, zone)
    };
    for policy in [
        Policy::linux_3_0(),
        Policy::linux_3_16(),
        Policy::linux_4_9(),
    ] {
        let (low, limit, zone) = of(&policy, None);
        assert_eq!(of(&policy, Some(0)), (low, limit, zone), "the default");
        assert!(low <= 256 + 1792 + 1, "{}: {low}", policy.name);
        assert!(low > 1600, "{}: {low}", policy.name);
        let (all, higher, same) = of(&policy, Some(1));
        assert!(all > low + 7900, "{}: {all}", policy.name);
        assert!(higher > 4 * limit && limit == low / 5);
        assert_eq!(same, zone, "{}: a zone's share is its own", policy.name);
        assert!(zone > limit, "{zone}");
    }
}

/// Makes a machine with little low memory whose HighMem holds a file with buffer heads on `pages`
/// pages, which are active or not.
fn with_buffers(policy: Policy, pages: u32, active: bool) -> Engine {
    let policy = Policy {
        page_metadata: PageMetadata::Slabs,
        fair_zones: FairZones::Off,
        ..policy
    };
    let mm = machine(policy, |bare| bare.zones = zones([64, 448, 8192]));
    let file = mm.new_mapping(MappingKind::File, 0).expect("a file");
    mm.keep_buffers(file);
    for index in 0..pages {
        let pfn = block_on(&mm, mm.alloc_page(Gfp::USER)).expect("a page");
        assert_eq!(mm.frames.zone(pfn), 2);
        mm.enter_page_cache_lru(pfn, file, index);
        mm.buffer_written(&mm.mappings[file as usize], index);
    }
    mm.lru_add_drain();
    if active {
        for index in 0..pages {
            let pfn = mm.find_page(file, index).expect("a page");
            (0..2).for_each(|_| mm.mark_page_accessed(pfn, TrackPath::BufferedRead));
        }
        mm.lru_add_drain();
    }
    recount(&mm);
    mm
}

/// The buffer heads that a tenth of 512 pages has room for, 73 on each page.
const LIMIT: u32 = 51 * 73;

/// docs/reference/memory-model.md#highmem: above the limit, pages that reclaim meets on an active
/// list lose their buffer heads, and low memory gets the slabs back.
#[test]
fn buffer_heads_are_stripped_over_their_limit() {
    for (pages, stripped) in [(LIMIT, 0), (LIMIT + 500, 512)] {
        let mm = with_buffers(Policy::linux_3_0(), pages, true);
        let before = mm.records(crate::cache::metadata::Record::BufferHead);
        let slabs = mm.metadata_pages();
        let free = mm.zone_stat(1, ZoneStat::NrFreePages);
        assert_eq!(before, pages);
        let mut sc = ScanControl::new(32, 0, Gfp::KERNEL, 3, true);
        for _ in 0..20 {
            mm.shrink_active_list(2, Lru::ActiveFile, 32, &mut sc);
        }
        let after = mm.records(crate::cache::metadata::Record::BufferHead);
        assert_eq!(before - after, stripped, "{pages}");
        let back = slabs - mm.metadata_pages();
        assert_eq!(back > 0, stripped > 0, "{back} pages");
        mm.drain_all_pages();
        assert_eq!(mm.zone_stat(1, ZoneStat::NrFreePages) > free, stripped > 0);
        recount(&mm);
    }
}

/// 3.4: above the limit, a task that needs low memory reclaims HighMem, although enough of it is
/// free, because its pages hold the buffer heads. Before 3.4, and below the limit, the task frees
/// nothing.
#[test]
fn highmem_is_reclaimed_for_its_buffer_heads() {
    for base in [
        Policy::linux_3_0(),
        Policy::linux_3_16(),
        Policy::linux_4_9(),
    ] {
        for (forced, pages, gets) in [
            (true, LIMIT + 500, true),
            (true, LIMIT, false),
            (false, LIMIT + 500, false),
        ] {
            let policy = Policy {
                highmem_for_buffers: forced,
                ..base.clone()
            };
            let name = policy.name.clone();
            let mm = with_buffers(policy, pages, false);
            let slabs = mm.metadata_pages();
            let progress = block_on(&mm, mm.try_to_free_pages(0, Gfp::KERNEL, 0));
            assert_eq!(
                progress >= 32,
                gets,
                "{name}, {forced}, {pages}: {progress}"
            );
            assert!(
                mm.zone_stat(2, ZoneStat::NrFreePages) > 3000,
                "nobody lacks it"
            );
            assert!(mm.metadata_pages() <= slabs);
            recount(&mm);
        }
    }
}
