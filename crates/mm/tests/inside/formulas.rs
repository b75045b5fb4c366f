//! Formulas compared with a second implementation: the kernel's own, or the plainest one.

use super::bare::Bare;
use super::prelude::*;
use super::programs::Lcg;
use super::world::TestWorld;
use crate::memory::watermark::*;
use crate::policy::DirtyRatios;
use crate::size::Size;
use crate::watch::vmstat::VmStat;
use crate::writeback::bdi::BdiStat;
use crate::writeback::dirty::{dirtyable_pages, limits, ratelimit_pages};
use crate::writeback::pace::{Pauses, Position, pauses};
use crate::writeback::proportion::{Global, Local};

/// docs/reference/memory-model.md#watermarks on machines of random, odd sizes.
#[test]
fn watermarks_of_odd_machines() {
    let mut chance = Lcg(1);
    for _ in 0..2000 {
        let sizes: Vec<u64> = (0..3)
            .map(|_| 1 + u64::from(chance.below(1 << 21)))
            .collect();
        let lowmem: u64 = sizes.iter().sum();
        let kbytes = u64::from(chance.below(200_000));
        let scale = u64::from(chance.below(1000));
        for &size in &sizes {
            let min = u128::from(kbytes >> 2) * u128::from(size) / u128::from(lowmem);
            let plain = [min, min + (min >> 2), min + (min >> 1)];
            assert_eq!(watermarks(kbytes, size, lowmem).map(u128::from), plain);
            let step = (min >> 2).max(u128::from(size * scale) / 10_000);
            let scaled = [min, min + step, min + 2 * step];
            assert_eq!(
                watermarks_scaled(kbytes, size, lowmem, scale).map(u128::from),
                scaled
            );
        }
        // khugepaged: two pageblocks for each zone, and nine more for each of three kinds that may
        // be mixed with the two others (`set_recommended_min_free_kbytes`), but at most a twentieth
        // of low memory.
        let zones = 1 + u64::from(chance.below(6));
        let pageblocks = 512 * zones * (2 + 3 * 3);
        let wanted = 4 * if pageblocks < lowmem / 20 {
            pageblocks
        } else {
            lowmem / 20
        };
        let raised = khugepaged_min_free_kbytes(zones, lowmem, kbytes);
        assert_eq!(raised, if wanted > kbytes { wanted } else { kbytes });
    }
    // The limits of the sum over all zones: 128 kB and 64 MiB.
    assert_eq!(min_free_kbytes(1024, 65_536), 128);
    assert_eq!(min_free_kbytes(1025, 65_536), 128);
    assert_eq!(min_free_kbytes(1041, 65_536), 129);
    assert_eq!(min_free_kbytes(268_435_455, 65_536), 65_535);
    assert_eq!(min_free_kbytes(268_435_456, 65_536), 65_536);
}

/// The batch is a quarter of a thousandth of the zone, half as much again, one less than a power of
/// two; the thresholds are those of `calculate_normal_threshold` and
/// `calculate_pressure_threshold`.
#[test]
fn batches_and_thresholds() {
    for size in [
        1u64,
        1023,
        1024,
        8191,
        8192,
        40_000,
        131_071,
        1 << 20,
        1 << 24,
    ] {
        let mut batch = size / 1024;
        if batch > 128 {
            batch = 128;
        }
        batch /= 4;
        if batch < 1 {
            batch = 1;
        }
        let mut power = 1;
        while power * 2 <= batch + batch / 2 {
            power *= 2;
        }
        let expected = if power - 1 > 1 { power - 1 } else { 1 };
        assert_eq!(u64::from(pcp_batch(size, 128)), expected, "{size} pages");
        for cpus in [1u64, 2, 3, 4, 16, 64] {
            let bits = |mut n: u64| {
                let mut bits = 0;
                while n > 0 {
                    (n, bits) = (n / 2, bits + 1);
                }
                bits
            };
            // Memory in units of 128 MiB.
            let threshold = 2 * bits(cpus) * (1 + bits(size / 32_768));
            assert_eq!(
                normal_threshold(cpus, size),
                threshold.min(125),
                "{cpus} CPUs, {size}"
            );
        }
    }
    assert_eq!((fls(0), fls(1), fls(2), fls(u64::MAX)), (0, 1, 2, 64));
    assert_eq!(pressure_threshold(4, 100, 100), 1);
    assert_eq!(pressure_threshold(4, 140, 100), 10);
    assert_eq!(pressure_threshold(4, 10_000, 100), 125);
    // The count is not to be trusted only if all differences together can reach from low to min.
    assert_eq!(percpu_drift_mark(4, 10, [100, 140, 180]), 0);
    assert_eq!(percpu_drift_mark(4, 10, [100, 139, 180]), 220);
}

/// docs/reference/memory-model.md#lowmem-reserves: the memory above a zone, divided by the ratio of
/// the lower zone.
#[test]
fn reserves_of_lower_zones() {
    let sizes = [3000, 50_000, 0, 9000];
    let ratios = [256, 128, 32];
    for z in 0..4 {
        for j in 0..4 {
            let above: u64 = (0..4).filter(|&k| k > z && k <= j).map(|k| sizes[k]).sum();
            let expected = if j > z { above / ratios[z] } else { 0 };
            assert_eq!(
                lowmem_reserve(&sizes, &ratios, z, j),
                expected,
                "{z} from {j}"
            );
        }
    }
    assert_eq!(total_reserve(&sizes, &ratios, 0, 100), 59_000 / 256 + 100);
    assert_eq!(total_reserve(&sizes, &ratios, 1, 49_990), 50_000);
}

/// docs/reference/memory-model.md#watermark-test: free pages of lower orders do not count for a
/// higher one, and the mark is halved with each order.
#[test]
fn the_watermark_test() {
    let mut chance = Lcg(5);
    for slip in [false, true] {
        let policy = Policy {
            watermark_slip: slip,
            ..Policy::linux_3_0()
        };
        let mm = Bare::new(policy, 4096).build();
        let zone = &mm.zones[0];
        for _ in 0..3000 {
            let blocks: Vec<u64> = (0..11).map(|_| u64::from(chance.below(6))).collect();
            for (o, &n) in blocks.iter().enumerate() {
                zone.nr_free[o].set(n as u32);
            }
            let free: u64 = (0..11).map(|o| blocks[o] << o).sum();
            let mark = u64::from(chance.below(600));
            let order = chance.below(8);
            let flags = chance.below(4);
            zone.lowmem_reserve[3].set(chance.below(100));
            let mut min = mark as i64;
            if flags & ALLOC_HIGH != 0 {
                min -= min / 2;
            }
            if flags & ALLOC_HARDER != 0 {
                min -= min / 4;
            }
            let mut left = free as i64 - (1 << order) + if slip { -1 } else { 1 };
            let mut ok = left > min + i64::from(zone.lowmem_reserve[3].get());
            for o in 0..order {
                left -= (blocks[o as usize] << o) as i64;
                min /= 2;
                ok &= left > min;
            }
            assert_eq!(mm.watermark_ok_on(zone, free, order, mark, 3, flags), ok);
        }
    }
}

/// docs/reference/writeback.md#limits, both eras.
#[test]
fn dirty_limits_by_ratio_and_by_bytes() {
    let mut chance = Lcg(9);
    for _ in 0..2000 {
        let mut sysctl = Sysctl {
            dirty_ratio: chance.below(101),
            dirty_background_ratio: chance.below(101),
            ..Sysctl::KERNEL
        };
        if chance.below(3) == 0 {
            sysctl.dirty_bytes = Size(chance.below(1 << 28).into());
        }
        if chance.below(3) == 0 {
            sysctl.dirty_background_bytes = Size(chance.below(1 << 28).into());
        }
        let memory = u64::from(chance.below(1 << 22));
        let pages = |bytes: Size, ratio: u32, whole: bool| match (bytes.0, u64::from(ratio)) {
            (0, ratio) if whole => memory * ratio / 100,
            // Since 4.2 a ratio is a whole number of 4096ths.
            (0, ratio) => (ratio * 4096 / 100) * memory / 4096,
            (bytes, _) => bytes / 4096 + u64::from(bytes % 4096 > 0),
        };
        for (whole, got) in [
            (true, limits(DirtyRatios::Percent, &sysctl, memory, false)),
            (
                false,
                limits(DirtyRatios::In4096ths, &sysctl, memory, false),
            ),
        ] {
            let dirty = pages(sysctl.dirty_bytes, sysctl.dirty_ratio, whole);
            let asked = pages(
                sysctl.dirty_background_bytes,
                sysctl.dirty_background_ratio,
                whole,
            );
            let background = if asked < dirty { asked } else { dirty / 2 };
            assert_eq!(
                (got.dirty, got.background),
                (dirty, background),
                "{sysctl:?} {memory}"
            );
            assert_eq!(got.freerun(), (dirty + background) / 2);
        }
        let (plain, lifted) = (
            limits(DirtyRatios::Percent, &sysctl, memory, false),
            limits(DirtyRatios::Percent, &sysctl, memory, true),
        );
        assert_eq!(lifted.dirty, plain.dirty + plain.dirty / 4);
        assert_eq!(lifted.background, plain.background + plain.background / 4);
    }
    assert_eq!(
        limits(
            DirtyRatios::In4096ths,
            &Sysctl {
                dirty_ratio: 100,
                ..Sysctl::KERNEL
            },
            1 << 33,
            false,
        )
        .dirty,
        u64::from(u32::MAX)
    );
    assert_eq!(
        (dirtyable_pages(100, 30, 7), dirtyable_pages(30, 100, 7)),
        (78, 8)
    );
    assert_eq!(
        (ratelimit_pages(32 * 1000, 1), ratelimit_pages(32 * 1000, 2)),
        (1000, 500)
    );
    assert_eq!(
        (ratelimit_pages(1 << 30, 1), ratelimit_pages(32, 1)),
        (1024, 16)
    );
}

/// The dirtyable pages of a machine and of its zones, and each zone's share of the limit.
#[test]
fn dirtyable_memory() {
    for dirtyable in [Dirtyable::Reclaimable, Dirtyable::FreeAndFile] {
        for dirty_limits in [DirtyLimits::Global, DirtyLimits::PerZone] {
            let policy = Policy {
                dirtyable,
                dirty_limits,
                ..Policy::linux_3_0()
            };
            let mut bare = Bare::new(policy, 3000);
            bare.zones.insert(
                0,
                ZoneInfo {
                    node: 0,
                    kind: ZoneType::Dma32,
                    size: 5000,
                },
            );
            bare.swap = 100;
            bare.sysctl.dirty_ratio = 37;
            let mm = bare.build();
            // Levels that differ, in both zones.
            let levels = [
                (ZoneStat::NrInactiveFile, [310, 420]),
                (ZoneStat::NrActiveFile, [530, 640]),
                (ZoneStat::NrInactiveAnon, [17, 29]),
                (ZoneStat::NrActiveAnon, [101, 203]),
            ];
            for (item, of) in levels {
                (0..2).for_each(|z| mm.stat.add_exact(z, item, of[z]));
            }
            let reserve = [0, 1].map(|z| mm.zones[z].dirty_balance_reserve());
            assert!(reserve[0] > reserve[1] && reserve[1] > 0);
            let size = [5000, 3000];
            let lists = |z: usize| match dirtyable {
                Dirtyable::FreeAndFile => levels[0].1[z] + levels[1].1[z],
                Dirtyable::Reclaimable => levels.iter().map(|l| l.1[z]).sum(),
            } as u64;
            let zone = [0, 1].map(|z| size[z] - reserve[z] + lists(z));
            let global = dirtyable == Dirtyable::Reclaimable && dirty_limits == DirtyLimits::Global;
            let kept = if global { 0 } else { reserve[0] + reserve[1] };
            let all = 8000 - kept + lists(0) + lists(1) + 1;
            assert_eq!(mm.dirtyable(), all);
            for z in [0, 1] {
                assert_eq!(mm.zone_dirtyable(z), zone[z]);
                assert_eq!(mm.zone_dirty_limit(z), zone[z] * 37 / 100);
            }
            assert_eq!(
                mm.dirty_limits(),
                limits(mm.policy.dirty_ratios, &mm.config.sysctl, all, false)
            );
            for flags in [PF_LESS_THROTTLE, PF_REALTIME] {
                mm.init_task(0, flags, 0);
                let limit = zone[1] * 37 / 100;
                assert_eq!(mm.zone_dirty_limit(1), limit + limit / 4);
            }
        }
    }
    // With `dirty_bytes` a zone has its share of the bytes.
    let mut bare = Bare::new(Policy::linux_3_0(), 3000);
    bare.zones.insert(
        0,
        ZoneInfo {
            node: 0,
            kind: ZoneType::Dma32,
            size: 5000,
        },
    );
    bare.sysctl.dirty_bytes = Size(4096 * 1000 + 1);
    let mm = bare.build();
    assert_eq!(
        mm.zone_dirty_limit(0),
        1001 * mm.zone_dirtyable(0) / mm.dirtyable()
    );
}

/// *sequential-read* 5: a zone's limit is the one that the last failing check computed.
#[test]
fn remembered_zone_limits() {
    let policy = Policy {
        dirty_check: DirtyCheck::Cached,
        dirty_limits: DirtyLimits::PerZone,
        ..Policy::linux_3_16()
    };
    let mm = Bare::new(policy, 4000).build();
    let limit = mm.zone_dirty_limit(0);
    mm.stat.add_exact(0, ZoneStat::NrFileDirty, limit as i64);
    assert!(!mm.zone_dirty_ok(0), "nothing is known yet");
    assert!(mm.zone_dirty_ok(0), "the limit itself is allowed");
    mm.stat.add_exact(0, ZoneStat::NrWriteback, 1);
    assert!(!mm.zone_dirty_ok(0), "pages under writeback count");
    mm.init_task(0, PF_REALTIME, 0);
    mm.stat
        .add_exact(0, ZoneStat::NrWriteback, (limit / 4) as i64 - 1);
    assert!(mm.zone_dirty_ok(0), "a quarter more for some");
    mm.stat.add_exact(0, ZoneStat::NrWriteback, 1);
    assert!(!mm.zone_dirty_ok(0));
}

/// A device's share of a limit: its share of recent writes in what the guarantees leave, and its
/// own guarantee, but no more than its maximum.
#[test]
fn shares_of_devices() {
    let mm = Bare::new(Policy::linux_3_0(), 4096).build();
    let (slow, last) = (mm.new_bdi(10, 100).unwrap(), mm.new_bdi(0, 25).unwrap());
    assert_eq!(mm.new_bdi(0, 100), None);
    mm.bdi_writeout_add(0, 600);
    mm.bdi_writeout_add(slow, 200);
    let of = |bdi: u32| {
        let (n, d) = mm
            .writeback
            .completions
            .fraction(&mm.bdis[bdi as usize].completions);
        10_000 * 90 / 100 * n / d
    };
    assert!(of(0) > 0 && of(0) > of(slow));
    assert_eq!(mm.bdi_dirty_limit(0, 10_000), of(0));
    assert_eq!(mm.bdi_dirty_limit(slow, 10_000), of(slow) + 1000);
    assert_eq!(mm.bdi_dirty_limit(last, 10_000), 0);
    mm.bdi_writeout_add(last, 1 << 14);
    assert_eq!(mm.bdi_dirty_limit(last, 10_000), 2500);
}

/// The first page that is written gives a device the whole limit where shares forget with time;
/// where they forget with pages, the device has to write as many pages as the limit has.
#[test]
fn a_device_that_writes_alone_has_the_limit() {
    let of = |completions| {
        let policy = Policy {
            completions,
            ..Policy::linux_3_0()
        };
        let mm = Bare::new(policy, 4096).build();
        assert_eq!(mm.bdi_dirty_limit(0, 10_000), 0);
        mm.bdi_writeout_add(0, 64);
        mm.bdi_dirty_limit(0, 10_000)
    };
    assert!(of(Completions::ByEvents) < 1000);
    assert!(of(Completions::ByTime) > 9800);
}

/// Sleeping dirtiers are held to the limit as it was at boot, while the present limit falls.
#[test]
fn the_limit_that_dirtiers_see_begins_with_boots() {
    let of = |policy| {
        let mm = Bare::new(policy, 40_960).build();
        let boot = mm.dirty_limits().dirty;
        mm.stat.add_exact(0, ZoneStat::NrFreePages, -20_000);
        assert!(mm.dirty_limits().dirty < boot);
        (mm.writeback.limit.get(), mm.writeback.ratelimit.get(), boot)
    };
    let (limit, ratelimit, boot) = of(Policy::linux_3_16());
    assert_eq!((limit, u64::from(ratelimit)), (boot, boot / 32));
    // 3.0 has no such limit, and computes its ratelimit from all of memory.
    let (limit, ratelimit, _) = of(Policy::linux_3_0());
    assert_eq!((limit, ratelimit), (0, 1024));
}

/// Where periods pass with time, a member that is alone has the whole share with its first event;
/// without events its share fades only if there are others. Where periods pass with events, the
/// share grows.
#[test]
fn proportions_by_time_are_whole_at_once() {
    const PERIOD: u64 = 3_000_000_000;
    let (g, a, b) = (Global::<TestWorld>::new(), Local::new(), Local::new());
    assert_eq!(g.fraction_at(&a, 0), (0, 1));
    g.inc_at(&a, 1000, 1);
    assert_eq!(g.fraction_at(&a, 1), (1000, 1001));
    // Three periods later its count is an eighth, and the other member makes as many events as it
    // has left.
    let later = 1 + 3 * PERIOD;
    g.inc_at(&b, 125, later);
    let shares = [&a, &b].map(|l| g.fraction_at(l, later));
    assert_eq!(shares, [(125, 251), (125, 251)]);
    // After a long silence both begin anew.
    assert_eq!(g.fraction_at(&a, 100 * PERIOD).0, 0);
    g.inc_at(&b, 3, 100 * PERIOD);
    assert_eq!(g.fraction_at(&b, 100 * PERIOD), (3, 4));

    let (g, a) = (Global::<TestWorld>::new(), Local::new());
    g.inc_by(&a, 100);
    assert_eq!(g.fraction(&a), (100, 612));
}

/// Floating proportions: with each period that passes every member's count is halved.
#[test]
fn proportions_halve_with_each_period() {
    for limit in [0u64, 1, 2, 3, 17, 64, 1000] {
        let all = Global::<TestWorld>::new();
        all.set_limit(limit);
        // A period is the power of two above the limit, or twice that.
        let mut period = 2;
        while period < limit.saturating_sub(1).max(1) + 1 {
            period *= 2;
        }
        let members: Vec<Local<TestWorld>> = (0..4).map(|_| Local::new()).collect();
        let (mut counts, mut events) = ([0u64; 4], 0u64);
        let mut chance = Lcg(limit + 3);
        for _ in 0..3000 {
            let member = chance.below(4) as usize;
            let n = if chance.below(8) == 0 {
                u64::from(chance.below(300))
            } else {
                1
            };
            all.inc_by(&members[member], n);
            for _ in 0..n {
                counts[member] += 1;
                events += 1;
                if events.is_multiple_of(period) {
                    counts.iter_mut().for_each(|c| *c /= 2);
                }
            }
            let other = chance.below(4) as usize;
            let denominator = period + events % period;
            let expected = (counts[other].min(denominator), denominator);
            assert_eq!(all.fraction(&members[other]), expected, "limit {limit}");
        }
        members[0].reset();
        assert_eq!(all.fraction(&members[0]).0, 0);
    }
}

/// `bdi_max_pause` and `bdi_min_pause` as Linux 3.16 has them.
#[test]
fn pauses_are_the_kernels() {
    const POLL: u64 = 32;
    let log = |n: u64| u64::from(n.ilog2());
    let mut chance = Lcg(77);
    for _ in 0..20_000 {
        let hz = [100, 250, 300, 1000][chance.below(4) as usize];
        let bandwidth = u64::from(chance.size(20));
        let dirty = u64::from(chance.size(20));
        let rate = 1 + u64::from(chance.size(18));
        let task = u64::from(chance.size(18));
        let up = |n: u64| 1u64 << (64 - (n - 1).leading_zeros());
        let longest = if hz / 5 > 1 { hz / 5 } else { 1 };
        let mut max = dirty / (1 + bandwidth / up(1 + hz / 8));
        max += 1;
        if max > longest {
            max = longest;
        }
        let mut t = if hz / 100 > 1 { hz / 100 } else { 1 };
        if bandwidth > 0 && log(bandwidth) > log(rate) {
            t += (log(bandwidth) - log(rate)) * (10 * hz) / 1024;
        }
        t = t.min(1 + max / 2);
        let mut pages = rate * t / up(hz);
        if pages < POLL {
            t = max;
            pages = rate * t / up(hz);
            if pages > POLL {
                pages = POLL;
                t = hz * POLL / rate;
            }
        }
        let pause = hz * pages / (task + 1);
        if pause > max {
            t = max;
            pages = task * t / up(hz);
        }
        let min = if pages >= POLL { 1 + t / 2 } else { t };
        let expected = Pauses {
            min,
            max,
            poll: pages,
        };
        assert_eq!(pauses((hz, hz / 5), bandwidth, dirty, rate, task), expected);
    }
}

/// `bdi_position_ratio` as Linux 3.16 has it, also with limits that were just lowered: a device's
/// share may then exceed the limit, and the sum of `unsigned long` that it is subtracted from
/// wraps.
#[test]
fn position_ratios_are_the_kernels() {
    let mut chance = Lcg(78);
    let mut taken_off = 0;
    for _ in 0..20_000 {
        let thresh = 100 + u64::from(chance.below(100_000));
        let lowered = [0, 12 * thresh][usize::from(chance.below(4) == 0)];
        let p = Position {
            freerun: thresh * u64::from(50 + chance.below(45)) / 100,
            limit: thresh + lowered + u64::from(chance.below(5000)),
            thresh,
            dirty: u64::from(chance.below(110_000)),
            bdi_thresh: u64::from(chance.below(110_000)),
            bdi_dirty: u64::from(chance.below(60_000)),
            bandwidth: u64::from(chance.below(50_000)),
        };
        let expected = if p.dirty >= p.limit {
            0
        } else {
            let of = |n: u64| i128::from(n);
            let setpoint = of((p.freerun + p.limit) / 2);
            let x = (setpoint - of(p.dirty)) * 1024 / (of(p.limit) - setpoint + 1);
            // The kernel's shifts round down, below 0 too.
            let cubed = ((x * x).div_euclid(1024) * x).div_euclid(1024);
            let mut ratio = (cubed + 1024).clamp(0, 2048);
            let share = of(p.bdi_thresh.min(thresh)).max((of(p.limit) - of(p.dirty)) / 8);
            let part = share * 65_536 / (of(thresh) + 1);
            let at = setpoint * part / 65_536;
            let sum = of(thresh) - share + 8 * of(p.bandwidth);
            taken_off += i32::from(share > of(thresh) && sum > 0);
            let span = (sum * part).rem_euclid(1 << 64) / 65_536;
            let dirty = of(p.bdi_dirty);
            if dirty < at + span - span / 4 {
                ratio = ratio * (at + span - dirty) / (span + 1);
            } else {
                ratio /= 4;
            }
            let gate = share / 2;
            if dirty < gate {
                ratio = if dirty > gate / 8 {
                    ratio * gate / dirty
                } else {
                    ratio * 8
                };
            }
            ratio
        };
        assert_eq!(i128::from(p.ratio()), expected, "{p:?}");
    }
    assert!(taken_off > 500, "{taken_off}");
}

/// Per-CPU differences: n steps at once are the same as n single steps, and the cheap read is off
/// by no more than the thresholds.
#[test]
fn counters_drift_by_their_thresholds() {
    let item = ZoneStat::NrFileDirty;
    let mut chance = Lcg(4);
    for threshold in [1, 2, 7, 32, 125] {
        let (one, many) = (
            VmStat::<TestWorld>::new(2, 3),
            VmStat::<TestWorld>::new(2, 3),
        );
        for s in [&one, &many] {
            (0..2).for_each(|z| s.set_threshold(z, threshold));
        }
        let mut exact = [0i64; 2];
        for _ in 0..2000 {
            let (cpu, z) = (chance.below(3) as usize, chance.below(2) as usize);
            let n = chance.below(300);
            match chance.below(4) {
                3 => {
                    for _ in 0..n {
                        one.dec(cpu, z, item);
                        one.inc(cpu, z, item);
                    }
                    many.on(cpu, z).dec_and_inc(item, n);
                }
                0 => {
                    (0..n).for_each(|_| one.inc(cpu, z, item));
                    many.on(cpu, z).inc_by(item, n);
                    exact[z] += i64::from(n);
                }
                1 => {
                    (0..n).for_each(|_| one.dec(cpu, z, item));
                    many.on(cpu, z).dec_by(item, n);
                    exact[z] -= i64::from(n);
                }
                _ => {
                    for s in [&one, &many] {
                        s.add(cpu, z, item, n as i32 - 150);
                    }
                    exact[z] += i64::from(n) - 150;
                }
            }
            for s in [&one, &many] {
                assert_eq!(s.exact(z, item), exact[z]);
                assert_eq!(s.exact_global(item), exact[0] + exact[1]);
                assert_eq!(s.snapshot(z, item), exact[z].max(0) as u64);
                let drift = (s.zone_raw(z, item) - exact[z]).abs();
                assert!(drift <= 3 * i64::from(threshold), "{drift}");
                assert_eq!(s.zone(z, item), s.zone_raw(z, item).max(0) as u64);
                s.check().unwrap();
            }
            assert_eq!(one.zone_raw(z, item), many.zone_raw(z, item));
        }
        (0..3).for_each(|cpu| many.refresh_cpu(cpu));
        assert_eq!([0, 1].map(|z| many.zone_raw(z, item)), exact);
        assert_eq!(many.global(item), (exact[0] + exact[1]).max(0) as u64);
    }
    // A step over the threshold folds half of it more, so that a counter that keeps rising folds
    // half as often (`inc_zone_state`).
    let s = VmStat::<TestWorld>::new(1, 1);
    s.set_threshold(0, 8);
    (0..9).for_each(|_| s.inc(0, 0, item));
    assert_eq!(s.zone_raw(0, item), 13);
    (0..12).for_each(|_| s.inc(0, 0, item));
    assert_eq!(s.zone_raw(0, item), 13);
    s.inc(0, 0, item);
    assert_eq!(s.zone_raw(0, item), 26);
    s.zone_event(0, ZoneEvent::PgSteal, 5);
    assert_eq!(
        (
            s.zone_events(0, ZoneEvent::PgSteal),
            s.zone_events(0, ZoneEvent::PgAlloc)
        ),
        (5, 0)
    );
}

/// A device's counters: n steps at once are the same as n single steps, and the cheap read is off
/// by at most a batch for each CPU.
#[test]
fn device_counts_drift_by_their_batch() {
    let mut bare = Bare::new(Policy::linux_3_0(), 4096);
    bare.cpus = 4;
    let mm = bare.build();
    let other = mm.new_bdi(0, 100).unwrap();
    assert_eq!(mm.bdi_stat_error(), 4 * 8 * 3);
    let (mut exact, mut chance) = (0i64, Lcg(8));
    for _ in 0..3000 {
        mm.world.run_as(chance.below(4));
        let n = chance.below(200);
        let step = if exact < 4000 {
            1
        } else {
            [-1, 1][chance.below(2) as usize]
        };
        mm.step_bdi_stat(0, BdiStat::Writeback, step, n);
        (0..n).for_each(|_| mm.add_bdi_stat(other, BdiStat::Writeback, step));
        exact += i64::from(step) * i64::from(n);
        let back = chance.below(40);
        mm.bdi_stat_and_back(0, BdiStat::Writeback, back);
        for _ in 0..back {
            mm.add_bdi_stat(other, BdiStat::Writeback, -1);
            mm.add_bdi_stat(other, BdiStat::Writeback, 1);
        }
        assert_eq!(mm.bdi_stat_sum(0, BdiStat::Writeback), exact as u64);
        assert_eq!(
            mm.bdi_stat(0, BdiStat::Writeback),
            mm.bdi_stat(other, BdiStat::Writeback)
        );
        let off = mm.bdi_stat(0, BdiStat::Writeback).abs_diff(exact as u64);
        assert!(off < mm.bdi_stat_error(), "{off}");
        // With a small limit the exact count is compared, with a large one the cheap one.
        let small = mm.bdi_dirty_against(0, 2 * mm.bdi_stat_error() - 1);
        assert_eq!(small, [0, exact as u64]);
        let large = mm.bdi_dirty_against(0, 2 * mm.bdi_stat_error());
        assert_eq!(large, [0, mm.bdi_stat(0, BdiStat::Writeback)]);
    }
}

/// `congestion_wait` always sleeps; `wait_iff_congested` only if zone and device are congested.
#[test]
fn congestion_waits() {
    use crate::memory::zone::ZONE_CONGESTED;
    let mm = Bare::new(Policy::linux_3_0(), 4096).build();
    // A tenth of a second in whole ticks; at least a tick.
    assert_eq!(
        (mm.tick_fraction(10), mm.tick_fraction(50)),
        (100_000_000, 20_000_000)
    );
    assert_eq!(mm.tick_fraction(5000), 1_000_000);
    let took = |job: super::world::Job<'_>| {
        let begun = mm.world.now();
        super::world::block_on(&mm, job);
        mm.world.now() - begun
    };
    let ns = 20_000_000;
    assert_eq!(took(Box::pin(mm.congestion_wait(Class::Async, ns))), ns);
    let iff = || took(Box::pin(mm.wait_iff_congested(0, Class::Async, ns)));
    assert_eq!(iff(), 0);
    mm.world.set_congested(1, true);
    assert_eq!(iff(), 0, "the zone is not");
    mm.zones[0].flags.set(ZONE_CONGESTED);
    assert_eq!(iff(), ns);
    mm.world.set_congested(1, false);
    assert_eq!(iff(), 0, "no device is");
    let events = mm.world.events.borrow();
    assert_eq!(
        (events["CongestionWait"], events["WaitIffCongested"]),
        (1, 4)
    );
}
