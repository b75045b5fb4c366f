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
