//! The corrections of kswapd between 3.0-rc6 and 3.0, one switch at a time
//! (docs/reference/reclaim.md#release-candidate).

use super::bare::Bare;
use super::prelude::*;
use super::world::{Engine, block_on};

const DMA32: usize = 1;
const NORMAL: usize = 2;

/// Returns a machine with a zone DMA32 and a zone Normal of 16 MiB each, and the policy of 3.0 with
/// a change.
fn two_zones(change: impl FnOnce(&mut Policy)) -> Engine {
    let mut policy = Policy::linux_3_0();
    change(&mut policy);
    let mut bare = Bare::new(policy, 0);
    let zone = |kind| ZoneInfo {
        node: 0,
        kind,
        size: 4096,
    };
    bare.zones = [ZoneType::Dma32, ZoneType::Normal].map(zone).to_vec();
    bare.build()
}

/// Takes pages of the zone with index `z` until fewer than `left` are free.
fn take(mm: &Engine, z: usize, left: u64) {
    let gfp = Gfp::zone(mm.zones[z].kind.index() as u32);
    while mm.stat.zone(z, ZoneStat::NrFreePages) >= left {
        block_on(mm, mm.alloc_kernel_page(gfp)).expect("memory");
        mm.refresh_cpu_vm_stats(0);
    }
}

/// `kswapd_sleep_check`: the zone above the classzone is short. A node with enough lets kswapd
/// sleep in both forms.
#[test]
fn zones_above_the_classzone_keep_the_candidates_kswapd_awake() {
    for (check, awake) in [
        (KswapdSleepCheck::OwnReserve, false),
        (KswapdSleepCheck::AllZones, true),
    ] {
        let mm = two_zones(|p| p.kswapd_sleep_check = check);
        assert!(!mm.sleeping_prematurely(0, 0, DMA32), "{check:?}, full");
        take(&mm, 1, mm.zones[1].mark(Mark::High));
        assert_eq!(mm.sleeping_prematurely(0, 0, DMA32), awake, "{check:?}");
        assert!(mm.sleeping_prematurely(0, 0, NORMAL), "{check:?}, its own");
    }
}

/// `kswapd_sleep_check`: the lower zone is above its high watermark, but not by its reserve against
/// requests for the higher one.
#[test]
fn reserves_keep_the_candidates_kswapd_awake() {
    for (check, awake) in [
        (KswapdSleepCheck::OwnReserve, false),
        (KswapdSleepCheck::AllZones, true),
    ] {
        let mm = two_zones(|p| p.kswapd_sleep_check = check);
        let reserve = mm.zones[0].reserve(NORMAL);
        assert!(reserve > 8, "{reserve} pages");
        take(&mm, 0, mm.zones[0].mark(Mark::High) + reserve / 2 + 4);
        assert_eq!(mm.sleeping_prematurely(0, 0, NORMAL), awake, "{check:?}");
        assert!(
            !mm.sleeping_prematurely(0, 0, DMA32),
            "{check:?}, no reserve"
        );
    }
}

/// `hopeless_check`: the highest zone has nothing to reclaim, and the run gives it up. The run of
/// 3.0 ends with the zone below; where the highest zone has enough, both end alike.
#[test]
fn a_zone_given_up_in_a_run_leaves_the_run() {
    for (check, ended) in [
        (HopelessCheck::AfterMark, DMA32),
        (HopelessCheck::BeforeMark, NORMAL),
    ] {
        let mm = two_zones(|p| {
            p.hopeless_check = check;
            p.kswapd_request = KswapdRequest::EveryRun;
        });
        assert_eq!(block_on(&mm, mm.balance_pgdat(0, 0, NORMAL)), (0, 0));
        take(&mm, 1, mm.zones[1].mark(Mark::Low));
        let run = block_on(&mm, mm.balance_pgdat(0, 0, NORMAL));
        assert_eq!(run, (0, ended), "{check:?}");
        assert_eq!(mm.zones[1].all_unreclaimable.get(), 1, "{check:?}");
    }
}

/// `kswapd_request`: a run that ended below the zone asked for leaves the next request where it is.
/// After a run that reached the zone both forms take the request.
#[test]
fn a_request_outlasts_a_run_that_fell_short() {
    for (form, found, left) in [
        (KswapdRequest::AfterSuccess, (0, NORMAL), (0, DMA32)),
        (KswapdRequest::EveryRun, (0, DMA32), (0, 3)),
        (KswapdRequest::RunZone, (0, DMA32), (0, 3)),
    ] {
        let mm = two_zones(|p| p.kswapd_request = form);
        mm.nodes[0].ask_kswapd(0, DMA32 as u32);
        let next = mm.next_kswapd_request(0, (0, DMA32), (0, NORMAL));
        assert_eq!(
            (next, mm.nodes[0].take_request()),
            (found, left),
            "{form:?}"
        );
        mm.nodes[0].ask_kswapd(0, DMA32 as u32);
        let next = mm.next_kswapd_request(0, (0, NORMAL), (0, NORMAL));
        assert_eq!(
            (next, mm.nodes[0].take_request()),
            ((0, DMA32), (0, 3)),
            "{form:?}"
        );
    }
}

/// `kswapd_request`: a run that finds nothing to do ends with the lowest zone, and the
/// next test is for that one; with `run-zone` it ends as it was begun.
#[test]
fn a_run_hands_back_the_zone_that_it_ended_with() {
    for (form, ended) in [
        (KswapdRequest::RunZone, NORMAL),
        (KswapdRequest::AfterSuccess, 0),
        (KswapdRequest::EveryRun, 0),
    ] {
        let mm = two_zones(|p| p.kswapd_request = form);
        let run = block_on(&mm, mm.balance_pgdat(0, 0, NORMAL));
        assert_eq!(run, (0, ended), "{form:?}");
    }
}
