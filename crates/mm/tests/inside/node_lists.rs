//! Lists of nodes, scanned for a request that may use only some of the node's zones.

use super::bare::{Bare, recount, settled};
use super::prelude::*;
use super::programs::{bring_in, file};
use super::today::with;
use super::world::{Engine, block_on};
use crate::memory::zone::Lru;
use crate::reclaim::scan::ScanControl;
use crate::world::event::IsolateMode;

/// Pages of each of the two zones.
const PAGES: u64 = 4096;
/// Pages of the file, most of which fill the higher zone.
const FILE: u32 = 6000;

/// Makes a node of two zones; the oldest pages of its inactive list are of the higher one. Returns
/// the pages of each zone on that list.
fn two_zones(policy: Policy) -> (Engine, [u64; 2]) {
    let mut bare = Bare::new(policy, 0);
    let zone = |kind| ZoneInfo {
        node: 0,
        kind,
        size: PAGES,
    };
    bare.zones = [ZoneType::Dma32, ZoneType::Normal].map(zone).to_vec();
    let mm = bare.build();
    let f = file(&mm, MappingKind::File, 0, FILE);
    block_on(&mm, async {
        for first in (0..FILE).step_by(32) {
            bring_in(&mm, f, first, 32).await;
        }
        mm.world.sleep(SECOND).await;
    });
    settled(&mm);
    let on_list = [0, 1].map(|z| mm.stat.zone(z, Lru::InactiveFile.size_item()));
    assert!(on_list[0] > 1000 && on_list[1] > 3000, "{on_list:?}");
    (mm, on_list)
}

/// Returns the state of a scan that reclaims for the lower zone.
fn for_dma32() -> ScanControl {
    ScanControl::new(32, 0, Gfp::USER, ZoneType::Dma32.index(), false)
}

/// `skipped_pages`: isolation for the lower zone looks past all pages of the higher one, however
/// many there are, and a quarter of them or all count as scanned. The next batch finds them at the
/// head, in their order.
#[test]
fn isolation_looks_past_pages_of_other_zones() {
    for rule in [SkippedPages::Quarter, SkippedPages::All] {
        let (mm, [_, higher]) = two_zones(with(|p| p.skipped_pages = rule));
        let list = mm.lru_list(0, Lru::InactiveFile);
        let order = || mm.frames.iter(list).collect::<Vec<_>>();
        let before = order();
        let sc = for_dma32();
        let isolate = || mm.isolate(0, Lru::InactiveFile, 32, IsolateMode::Inactive, &sc);
        let counted = match rule {
            SkippedPages::Quarter => higher / 4,
            SkippedPages::All => higher,
        };
        assert_eq!(isolate(), (counted as u32 + 32, 32), "{rule:?}");
        let higher = higher as usize;
        let tail = before.len() - higher;
        let turned = [&before[tail..], &before[..tail - 32]].concat();
        assert_eq!(order(), turned, "{rule:?}");
        let scanned = |z| mm.stat.zone_events(z, ZoneEvent::PgScanDirect);
        assert_eq!([scanned(0), scanned(1)], [32, counted], "{rule:?}");
        assert_eq!(mm.stat.events(VmEvent::PgSkipNormal), higher as u64);
        mm.put_back_isolated(0, true);
        assert_eq!(isolate().0, 32, "the pages put back lie at the head");
    }
}

/// `skipped_pages`: a walk that finds no page that the request can use ends with the list, and all
/// that it saw counts in each form.
#[test]
fn isolation_ends_with_the_list() {
    for rule in [SkippedPages::Quarter, SkippedPages::All] {
        let (mm, [lower, higher]) = two_zones(with(|p| p.skipped_pages = rule));
        let sc = ScanControl::new(32, 0, Gfp::USER, ZoneType::Dma.index(), false);
        let isolate = || mm.isolate(0, Lru::InactiveFile, 32, IsolateMode::Inactive, &sc);
        for _ in 0..2 {
            assert_eq!(isolate(), ((lower + higher) as u32, 0), "{rule:?}");
        }
        recount(&mm);
    }
}

/// `scan_sizes`: of a list that is mostly of a higher zone, a share of all of it is scanned, or of
/// the pages that the request can use.
#[test]
fn a_scan_takes_a_share_of_what_can_be_used() {
    for rule in [ScanSizes::List, ScanSizes::Usable] {
        for balance in [ScanBalance::FileFirst, ScanBalance::Cost] {
            let (mm, [lower, higher]) = two_zones(with(|p| {
                p.scan_sizes = rule;
                p.scan_balance = balance;
            }));
            let scan = |mut sc: ScanControl| {
                sc.priority = 2;
                mm.get_scan_count(0, &mut sc)
            };
            let size = match rule {
                ScanSizes::List => lower + higher,
                ScanSizes::Usable => lower,
            };
            assert_eq!(scan(for_dma32()), [0, 0, size / 4, 0], "{rule:?}");
            let all = ScanControl::new(32, 0, Gfp::USER, ZoneType::Normal.index(), false);
            assert_eq!(scan(all), [0, 0, (lower + higher) / 4, 0], "{rule:?}");
        }
    }
}

/// Makes a machine of a zone Normal and a larger zone Movable, takes pages until Movable is at its
/// low watermark and Normal has only part of its reserve left, and frees 1000 of Normal's pages.
/// `looks`: a request for movable pages looks at Normal before that. Returns how many of the pages
/// stay on the CPU's lists.
fn kept_of_normal(rule: BelowHigh, looks: bool) -> u64 {
    let policy = Policy {
        below_high: rule,
        mobility: Mobility::None,
        ..Policy::linux_6_12()
    };
    let mut bare = Bare::new(policy, 0);
    let zone = |kind, size| ZoneInfo {
        node: 0,
        kind,
        size,
    };
    bare.zones = vec![
        zone(ZoneType::Normal, 16_384),
        zone(ZoneType::Movable, 65_536),
    ];
    let mm = bare.build();
    let normal = &mm.zones[0];
    let (high, reserve) = (normal.mark(Mark::High), normal.reserve(3));
    let free = || mm.stat.zone(0, ZoneStat::NrFreePages);
    let mut pages = Vec::new();
    while free() + mm.pcp_pages(0) > high + reserve / 2 {
        pages.push(mm.alloc_pages_fast(Gfp::KERNEL, 0, 0).expect("memory"));
    }
    mm.drain_all_pages();
    assert!((high + 1..high + reserve).contains(&free()));
    while mm.stat.zone(1, ZoneStat::NrFreePages) > mm.zones[1].mark(Mark::Low) {
        mm.alloc_pages_fast(Gfp::USER, 0, 0).expect("memory");
    }
    while looks && mm.alloc_pages_fast(Gfp::USER, 0, 0).is_some() {}
    pages.truncate(1000);
    pages.into_iter().for_each(|pfn| mm.free_page(pfn, false));
    recount(&mm);
    mm.pcp_pages(0)
}

/// `below_high`: what a zone has to keep in reserve is not free to requests for higher zones. Once
/// one of these has looked at it, pages that are freed there do not stay on the CPU's lists, where
/// no such test sees them.
#[test]
fn freed_pages_leave_the_lists_of_a_zone_that_is_in_its_reserve() {
    assert_eq!(kept_of_normal(BelowHigh::High, true), 1000);
    assert_eq!(kept_of_normal(BelowHigh::HighAndReserve, false), 1000);
    let left = kept_of_normal(BelowHigh::HighAndReserve, true);
    assert!(left < 700, "{left}");
}
