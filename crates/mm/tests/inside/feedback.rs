//! Watermarks that adjust themselves, step by step, and the retries of reclaim before memory counts
//! as exhausted.

use super::bare::Bare;
use super::prelude::*;
use super::world::{Engine, block_on};
use crate::policy::{ProfileZone, WatermarkProfile};
use crate::reclaim::scan::ScanControl;

const MS: u64 = 1_000_000;

/// Makes one zone with the default marks 2000, 2500 and 3000.
fn machine(change: impl FnOnce(&mut AutoWatermarks)) -> Engine {
    let mut auto = AutoWatermarks {
        cap: 3,
        step_percent: 40,
        debounce_ms: 50,
        decay_ms: 16_000,
        forget_s: 160,
        remember_percent: 50,
        quiet_events: 10,
        quiet_direct: 2,
        lower_percent: 10,
        ..AutoWatermarks::default()
    };
    change(&mut auto);
    let policy = Policy {
        watermarks: Watermarks::Auto,
        auto,
        ..Policy::linux_3_0()
    };
    let mut bare = Bare::new(policy, 30_000);
    bare.sysctl.min_free_kbytes = Some(8000);
    let mm = bare.build();
    assert_eq!(marks(&mm), [2000, 2500, 3000]);
    mm.world.advance(SECOND);
    mm
}

fn marks(mm: &Engine) -> [u64; 3] {
    [Mark::Min, Mark::Low, Mark::High].map(|m| mm.zones[0].mark(m))
}

/// Sets the count of free pages to `pages`.
fn leave_free(mm: &Engine, pages: i64) {
    let free = mm.stat.exact(0, ZoneStat::NrFreePages);
    mm.stat.add_exact(0, ZoneStat::NrFreePages, pages - free);
}

fn direct(mm: &Engine) {
    mm.direct_reclaim_seen(0, Gfp::USER, 0);
}

/// Feedback begins at the marks of a profile; the cap stays a multiple of what the sysctls give.
#[test]
fn the_cap_holds_over_a_profile() {
    let marked = |low_kbytes| {
        let zone = ProfileZone {
            node: 0,
            zone: ZoneType::Normal,
            min_kbytes: 8000,
            low_kbytes,
            high_kbytes: low_kbytes + 10_000,
        };
        let mut bare = Bare::new(
            Policy {
                watermarks: Watermarks::Auto,
                auto: AutoWatermarks {
                    cap: 3,
                    ..AutoWatermarks::default()
                },
                profile: Some(WatermarkProfile {
                    machine: String::new(),
                    zones: vec![zone],
                }),
                ..Policy::linux_3_0()
            },
            60_000,
        );
        bare.sysctl.min_free_kbytes = Some(8000);
        let mm = bare.build();
        mm.world.advance(SECOND);
        leave_free(&mm, 1000);
        mm
    };
    let mm = marked(20_000);
    assert_eq!(marks(&mm), [2000, 5000, 7500]);
    for _ in 0..9 {
        direct(&mm);
        mm.world.advance(SECOND / 10);
    }
    // The cap is three times 2500, not three times the profile's 5000.
    assert_eq!(marks(&mm)[1], 7500);
    let [learned] = &mm.learned_watermarks("m").zones[..] else {
        panic!("one zone");
    };
    assert_eq!(learned.low_kbytes, 4 * 7500);
    // A default above the cap is neither raised nor lowered.
    let high = marked(32_000);
    direct(&high);
    assert_eq!(marks(&high), [2000, 8000, 10_500]);
}

/// Direct reclaim raises a zone that is below min by a step, then to twice its amount, up to the
/// cap, and no more often than the debounce allows; half of the amount is remembered.
#[test]
fn direct_reclaim_raises() {
    let mm = machine(|_| ());
    direct(&mm);
    assert_eq!(mm.auto_extra(0), (0, 0), "the zone is above min");
    leave_free(&mm, 1000);
    direct(&mm);
    assert_eq!(
        (mm.auto_extra(0), marks(&mm)),
        ((1000, 500), [2000, 3500, 4200])
    );
    mm.world.advance(49 * MS);
    direct(&mm);
    assert_eq!(mm.auto_extra(0), (1000, 500));
    for (extra, marks_now) in [
        (2000, [2000, 4500, 5400]),
        (4000, [2000, 6500, 7800]),
        (5000, [2000, 7500, 9000]),
        (5000, [2000, 7500, 9000]),
    ] {
        mm.world.advance(50 * MS);
        direct(&mm);
        assert_eq!(
            (mm.auto_extra(0), marks(&mm)),
            ((extra, extra / 2), marks_now)
        );
    }
    // The emergency reserve follows the high mark.
    assert!(mm.zones[0].dirty_balance_reserve() >= 9000);
    assert_eq!(mm.learned_watermarks("m").sums(), [8000, 30_000, 36_000]);
    let off = machine(|auto| auto.raise_on_direct_reclaim = false);
    leave_free(&off, 1000);
    direct(&off);
    assert_eq!(off.auto_extra(0), (0, 0));
}

/// A kswapd in trouble raises by a step, and nothing of that is remembered.
#[test]
fn trouble_raises() {
    let mm = machine(|auto| auto.trouble_priority = 7);
    let seen = |priority, reclaimed, scanned| {
        mm.world.advance(60 * MS);
        let mut sc = ScanControl::new(32, 0, Gfp::KERNEL, 3, true);
        (sc.priority, sc.nr_reclaimed) = (priority, reclaimed);
        mm.kswapd_has_trouble(0, &sc, scanned);
        mm.auto_extra(0)
    };
    assert_eq!(seen(8, 0, 100), (0, 0), "not that low yet");
    assert_eq!(
        seen(7, 50, 100),
        (0, 0),
        "half of what it scanned was freed"
    );
    assert_eq!(seen(7, 49, 100), (1000, 0));
    assert_eq!(seen(2, 0, 100), (2000, 0), "a step, not twice as much");
}

/// If kswapd frees enough at its first priority, a part of what is above the floor is taken back.
#[test]
fn an_easy_balance_lowers() {
    let mm = machine(|auto| auto.quiet_events = 1000);
    leave_free(&mm, 1000);
    direct(&mm);
    let ran = |balanced, reclaimed, priority| {
        let mut sc = ScanControl::new(32, 0, Gfp::KERNEL, 3, true);
        (sc.priority, sc.nr_reclaimed) = (priority, reclaimed);
        mm.kswapd_ran(0, balanced, &sc);
        mm.auto_extra(0)
    };
    assert_eq!(ran(false, 10, 12), (1000, 500));
    assert_eq!(ran(true, 0, 12), (1000, 500));
    assert_eq!(ran(true, 10, 10), (1000, 500));
    assert_eq!(ran(true, 10, 12), (950, 500));
    // Rounded up: a tenth of 450 is 45, then 41 of 405.
    assert_eq!(ran(true, 10, 11), (905, 500));
    assert_eq!(ran(true, 10, 11), (864, 500));
    assert_eq!(marks(&mm)[1], 3364);
}

/// Ten events with two direct reclaims among them count as quiet; with three they do not.
#[test]
fn quiet_lowers() {
    for (directs, expected) in [(2, 950), (3, 1000)] {
        let mm = machine(|auto| (auto.debounce_ms, auto.lower_on_first_priority) = (0, false));
        leave_free(&mm, 1000);
        direct(&mm);
        leave_free(&mm, 20_000);
        let sc = ScanControl::new(32, 0, Gfp::KERNEL, 3, true);
        let runs = || mm.kswapd_ran(0, true, &sc);
        (1..directs).for_each(|_| direct(&mm));
        (directs..9).for_each(|_| runs());
        assert_eq!(mm.auto_extra(0), (1000, 500), "nine events");
        runs();
        assert_eq!(
            mm.auto_extra(0),
            (expected, 500),
            "{directs} direct reclaims"
        );
        // Then the events are counted anew.
        (0..9).for_each(|_| runs());
        assert_eq!(mm.auto_extra(0), (expected, 500));
        runs();
        let above = expected - 500;
        assert_eq!(mm.auto_extra(0), (expected - above.div_ceil(10), 500));
    }
}

/// Decay takes back what is above the floor in 16 parts, and the floor in 16 longer ones.
#[test]
fn time_lowers() {
    let mm = machine(|_| ());
    assert_eq!(mm.until_decay(0), None, "nothing to take");
    leave_free(&mm, 1000);
    direct(&mm);
    assert_eq!(mm.until_decay(0), Some(SECOND));
    for part in 1..16u32 {
        mm.world.advance(SECOND - 1);
        mm.decay_marks(0);
        let before = (500 * (17 - part)).div_ceil(16);
        if part < 10 {
            assert_eq!(mm.auto_extra(0).0, 500 + before, "just before part {part}");
        }
        mm.world.advance(1);
        mm.decay_marks(0);
        let left = (500 * (16 - part)).div_ceil(16);
        // From the tenth second on the floor falls too, and what is above it with it.
        let floor = if part < 10 {
            500
        } else {
            (500u32 * 15).div_ceil(16)
        };
        assert_eq!(mm.auto_extra(0), (floor + left, floor), "part {part}");
    }
    mm.world.advance(SECOND);
    mm.decay_marks(0);
    assert_eq!(mm.auto_extra(0), (469, 469));
    assert_eq!(mm.until_decay(0), Some(10 * SECOND));
    mm.world.advance(145 * SECOND);
    mm.decay_marks(0);
    assert_eq!((mm.auto_extra(0), marks(&mm)), ((0, 0), [2000, 2500, 3000]));
    assert_eq!(mm.until_decay(0), None);
    // The learned amount stays.
    assert_eq!(mm.learned_watermarks("m").sums(), [8000, 14_000, 16_800]);
    // Without decay only the floor is forgotten.
    let mm = machine(|auto| (auto.decay_ms, auto.forget_s) = (0, 16));
    leave_free(&mm, 1000);
    direct(&mm);
    assert_eq!(mm.until_decay(0), Some(SECOND));
    mm.world.advance(8 * SECOND);
    mm.decay_marks(0);
    assert_eq!(mm.auto_extra(0), (750, 250));
    // Two decays are at least a tick apart.
    let mm = machine(|auto| auto.decay_ms = 1);
    leave_free(&mm, 1000);
    direct(&mm);
    assert_eq!(mm.until_decay(0), Some(mm.tick()));
}

/// The failure of an allocation that may not wait raises min, at most once in the debounce, up to
/// the cap; decay takes it back.
#[test]
fn failures_raise_min() {
    let mm = machine(|auto| auto.cap = 2);
    let fail = || mm.atomic_allocation_failed(0, Gfp::ATOMIC);
    fail();
    assert_eq!(marks(&mm), [2800, 3300, 3960]);
    mm.world.advance(49 * MS);
    fail();
    assert_eq!(marks(&mm), [2800, 3300, 3960]);
    mm.world.advance(MS);
    fail();
    assert_eq!(marks(&mm), [3600, 4100, 4920]);
    mm.world.advance(50 * MS);
    fail();
    assert_eq!(marks(&mm), [4000, 4500, 5400], "twice the default");
    assert_eq!(mm.learned_watermarks("m").sums(), [16_000, 18_000, 21_600]);
    assert_eq!(mm.until_decay(0), Some(SECOND));
    mm.world.advance(4 * SECOND);
    mm.decay_marks(0);
    assert_eq!(marks(&mm), [3500, 4000, 4800], "four of sixteen parts");
    // Both amounts together stay below the cap of each mark.
    leave_free(&mm, 1000);
    mm.world.advance(50 * MS);
    direct(&mm);
    assert_eq!(marks(&mm), [3500, 5000, 6000]);
    let off = machine(|auto| auto.raise_min_on_failure = false);
    off.atomic_allocation_failed(0, Gfp::ATOMIC);
    assert_eq!(marks(&off), [2000, 2500, 3000]);
    assert_eq!(off.learned_watermarks("m").sums(), [8000, 10_000, 12_000]);
}

/// Profiles that fit a machine, and those that just do not.
#[test]
fn profiles_that_fit() {
    let zones = vec![ZoneInfo {
        node: 1,
        kind: ZoneType::Normal,
        size: 4000,
    }];
    let of = |min_kbytes, low_kbytes, high_kbytes| WatermarkProfile {
        machine: String::new(),
        zones: vec![ProfileZone {
            node: 1,
            zone: ZoneType::Normal,
            min_kbytes,
            low_kbytes,
            high_kbytes,
        }],
    };
    assert_eq!(of(100, 100, 100).fault(&zones), None, "equal marks ascend");
    assert_eq!(of(100, 200, 300).fault(&zones), None);
    assert!(of(101, 100, 200).fault(&zones).is_some());
    assert!(of(100, 201, 200).fault(&zones).is_some());
    assert!(of(100, 100, 99).fault(&zones).is_some());
    // Half of 4000 pages are 8000 kB.
    assert_eq!(of(0, 0, 8000).fault(&zones), None);
    assert!(of(0, 0, 8004).fault(&zones).is_some());
    let mut both = of(1, 20, 300);
    both.zones.extend(of(4000, 50_000, 600_000).zones);
    assert_eq!(both.sums(), [4001, 50_020, 600_300]);
    let mut marks = [[1, 2, 3]];
    of(40, 80, 120).lay_over(&mut marks, &zones);
    assert_eq!(marks, [[10, 20, 30]]);
}

/// Makes a machine of one zone with min 1000, a file of 700 clean pages and `free` free pages.
fn near_exhaustion(policy: Policy, free: i64) -> (Engine, u32) {
    use super::programs::file;
    let mut bare = Bare::new(policy, 8000);
    bare.sysctl.min_free_kbytes = Some(4000);
    let mm = bare.build();
    assert_eq!(mm.zones[0].mark(Mark::Min), 1000);
    let f = file(&mm, MappingKind::File, 0, 5000);
    for index in 0..700 {
        let pfn = block_on(&mm, mm.alloc_page(Gfp::USER)).expect("memory");
        assert!(mm.add_to_page_cache_lru(pfn, f, index));
    }
    mm.lru_add_drain();
    mm.refresh_cpu_vm_stats(0);
    leave_free(&mm, free);
    (mm, f)
}

/// Before memory counts as exhausted, reclaim is tried again as long as the pages left on the lists
/// would lift a zone above min (`should_reclaim_retry`); up to 5.15 they count for less with every
/// try.
#[test]
fn retries_before_exhaustion() {
    let asked = (Gfp::USER, 0, 0);
    for (oom_retry, lessens) in [(OomRetry::Waits, true), (OomRetry::AtOnce, false)] {
        let policy = Policy {
            oom_retries: 4,
            oom_retry,
            ..Policy::linux_4_9()
        };
        let (mm, _) = near_exhaustion(policy, 300);
        let worth = |tried| mm.worth_another_try(0, asked, tried).is_some();
        assert!(!worth(0), "300 and 700 are min, not above it");
        leave_free(&mm, 475);
        assert_eq!([worth(0), worth(1)], [true, !lessens], "475 and 525");
        leave_free(&mm, 476);
        assert_eq!([worth(1), worth(2)], [true, !lessens], "476 and 525");
        // Free pages do not count for less: they need not be reclaimed.
        leave_free(&mm, 1001);
        assert!(worth(4));
    }
}

/// Up to 5.15 a try without progress waits for writes if more than half of the reclaimable pages
/// are dirty.
#[test]
fn a_try_without_progress_waits_for_writes() {
    for (oom_retry, dirty, ms) in [
        (OomRetry::Waits, 350, 0),
        (OomRetry::Waits, 351, 100),
        (OomRetry::AtOnce, 700, 0),
    ] {
        let policy = Policy {
            oom_retry,
            ..Policy::linux_4_9()
        };
        let (mm, _) = near_exhaustion(policy, 476);
        mm.stat.add_exact(0, ZoneStat::NrFileDirty, dirty);
        let begun = mm.world.now();
        block_on(&mm, mm.pause_before_retry(0));
        assert_eq!((mm.world.now() - begun) / MS, ms, "{oom_retry:?} {dirty}");
    }
}
