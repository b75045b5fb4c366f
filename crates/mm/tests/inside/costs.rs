//! The balance of scans by cost (`scan_balance = "cost"`), and the numbers that it uses.

use super::bare::{Bare, recount, settled};
use super::prelude::*;
use super::programs::{bring_in, file};
use super::today::with;
use super::world::{Engine, block_on};
use crate::reclaim::scan::ScanControl;

/// Makes a machine with swap, a file of 4000 pages and a region of as much anonymous memory.
fn machine(policy: Policy) -> (Engine, u32, u32) {
    let mut bare = Bare::new(policy, 20_000);
    bare.swap = 8000;
    let mm = bare.build();
    let f = file(&mm, MappingKind::File, 0, 4000);
    let region = mm
        .new_region(Backing::Anon, 4000, Advice::Normal)
        .expect("room");
    (mm, f, region)
}

/// Returns the number of anonymous pages that a scan of this priority takes.
fn anonymous_scan(mm: &Engine, priority: u8) -> u64 {
    let mut sc = ScanControl::new(32, 0, Gfp::USER, 3, true);
    sc.priority = priority;
    let [inactive, active, ..] = mm.get_scan_count(0, &mut sc);
    inactive + active
}

/// `scan_balance = "cost"`: the kind of memory that cost I/O is scanned less; only file pages are
/// scanned while many are inactive and none comes back soon.
#[test]
fn what_cost_more_is_scanned_less() {
    let mut bare = Bare::new(with(|_| ()), 20_000);
    bare.swap = 8000;
    bare.sysctl.swappiness = 100;
    let mm = bare.build();
    let f = file(&mm, MappingKind::File, 0, 8000);
    let region = mm
        .new_region(Backing::Anon, 8000, Advice::Normal)
        .expect("room");
    block_on(&mm, async {
        bring_in(&mm, f, 0, 32).await;
        for index in 0..4000 {
            mm.touch(region, index, true).await;
        }
        for first in (32..4000).step_by(32) {
            bring_in(&mm, f, first, 32).await;
        }
        mm.world.sleep(SECOND).await;
    });
    settled(&mm);
    let scan = || {
        let mut sc = ScanControl::new(32, 0, Gfp::USER, 3, true);
        sc.priority = 4;
        let [inactive_anon, active_anon, inactive_file, _] = mm.get_scan_count(0, &mut sc);
        (inactive_anon + active_anon, inactive_file)
    };
    let (anon, cache) = scan();
    assert!(anon == 0 && cache > 200, "cache alone: {anon} {cache}");
    // A file page came back: the active pages have to be scanned too, and both kinds share the
    // scan.
    mm.note_activated(0, 0, true);
    let (anon, cache) = scan();
    assert!(
        anon > 0 && cache > 0 && anon.abs_diff(cache) < cache,
        "{anon} {cache}"
    );
    mm.note_cost((0, 0), false, 20, 0);
    let (less, more) = scan();
    assert!(
        less < anon && more > cache,
        "{less} of {anon}, {more} of {cache}"
    );
    mm.snapshot_refaults(0, Gfp::USER);
    assert_eq!(scan().0, 0, "no news");
}

/// `scan_costs`: anonymous pages that are scanned in vain make the next scan of them shorter, or do
/// not.
#[test]
fn what_is_looked_at_for_nothing_costs_since_6_2() {
    for (what, shorter) in [(ScanCosts::Io, false), (ScanCosts::Rotations, true)] {
        let (mm, f, region) = machine(with(|p| p.scan_costs = what));
        let scan = || anonymous_scan(&mm, 2);
        block_on(&mm, async {
            for first in (0..4000).step_by(32) {
                bring_in(&mm, f, first, 32).await;
            }
            for index in 0..4000 {
                mm.touch(region, index, true).await;
            }
            mm.world.sleep(SECOND).await;
        });
        settled(&mm);
        mm.note_activated(0, 0, true);
        // One page came back, and 500 anonymous ones are in use.
        mm.note_cost((0, 0), true, 1, 0);
        let before = scan();
        mm.note_cost((0, 0), false, 0, 500);
        let after = scan();
        assert_eq!(after < before, shorter, "{what:?}: {before}, {after}");
        // A page that was written costs with both values.
        mm.note_cost((0, 0), false, 100, 0);
        assert!(scan() < after, "{what:?}");
    }
}

/// `lru_stats`: the balance sees at once that a list has shrunk, or takes it to be long until the
/// statistics are flushed two seconds later.
#[test]
fn lengths_of_lists_are_as_old_as_the_last_flush() {
    for (stats, knows) in [(LruStats::Exact, true), (LruStats::Flushed, false)] {
        let (mm, f, region) = machine(with(|p| p.lru_stats = stats));
        let anon = || {
            settled(&mm);
            anonymous_scan(&mm, 4)
        };
        block_on(&mm, async {
            for index in 0..4000 {
                mm.touch(region, index, true).await;
            }
            for first in (0..4000).step_by(32) {
                bring_in(&mm, f, first, 32).await;
            }
        });
        assert_eq!(anon(), 0, "{stats:?}: cache alone");
        block_on(&mm, mm.truncate_from(f, 8));
        assert_eq!(anon() > 0, knows, "{stats:?}: there is no cache any more");
        block_on(&mm, mm.world.sleep(2 * SECOND));
        assert!(anon() > 0, "{stats:?}: everybody knows");
        recount(&mm);
    }
}

/// `scan_stop`: a direct reclaimer at priority 0, with 4,000 anonymous pages and 500 clean file
/// pages, has enough after a first round. 3.11 goes on with the anonymous pages up to the same
/// share of their target, 7 of 100; today one more round of them ends the scan.
#[test]
fn who_has_enough_goes_on_for_a_share_or_for_a_round() {
    use crate::policy::ScanStop;
    for (stop, scanned) in [
        (ScanStop::Proportional, 32 + 4000 * 7 / 100),
        (ScanStop::Nudge, 32 + 64),
    ] {
        let (mm, f, region) = machine(with(|p| p.scan_stop = stop));
        block_on(&mm, async {
            for index in 0..4000 {
                mm.touch(region, index, true).await;
            }
            bring_in(&mm, f, 0, 500).await;
            mm.world.sleep(SECOND).await;
        });
        settled(&mm);
        let before = mm.zone_event(0, ZoneEvent::PgScanDirect);
        let mut sc = ScanControl::new(32, 0, Gfp::USER, 3, false);
        sc.priority = 0;
        block_on(&mm, mm.shrink_zone(0, &mut sc));
        let got = mm.zone_event(0, ZoneEvent::PgScanDirect) - before;
        assert_eq!(got, scanned, "{stop:?}");
        recount(&mm);
    }
}
