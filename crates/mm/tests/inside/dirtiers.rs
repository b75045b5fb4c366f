//! Dirtiers that sleep, one look at the limits at a time
//! (docs/reference/writeback.md#sleeping-dirtiers).

use super::bare::Bare;
use super::prelude::*;
use super::programs::{Lcg, file, write};
use super::world::{Engine, block_on};
use crate::writeback::bdi::BdiStat;
use crate::writeback::pace::pauses;

const MS: u64 = 1_000_000;

/// Makes a machine with `hz` ticks a second whose only device has the whole dirty limit, and a file
/// on it.
fn machine(policy: Policy, hz: u64) -> (Engine, u32) {
    let mut bare = Bare::new(policy, 65_536);
    bare.hz = hz;
    let mm = bare.build();
    mm.bdi_writeout_add(0, 64);
    let f = file(&mm, MappingKind::File, 0, 1 << 20);
    (mm, f)
}

/// Sets the dirty pages of the device and of the machine to `pages`.
fn has_dirty(mm: &Engine, pages: u64) {
    let more = pages as i64 - mm.global_stat(ZoneStat::NrFileDirty) as i64;
    mm.stat.add_exact(0, ZoneStat::NrFileDirty, more);
    let more = pages as i64 - mm.bdi_stat_sum(0, BdiStat::Reclaimable) as i64;
    mm.add_bdi_stat(0, BdiStat::Reclaimable, more as i32);
}

/// Returns the number of pages that is `percent` of the way from the free-run ceiling to the limit.
fn between(mm: &Engine, percent: u64) -> u64 {
    let limits = mm.dirty_limits();
    limits.freerun() + (limits.dirty - limits.freerun()) * percent / 100
}

/// Makes the calling task dirty `pages` pages without a look at the limits.
fn dirties(mm: &Engine, f: u32, pages: u64) {
    (0..pages).for_each(|_| mm.count_dirtied(f));
}

/// However a dirtier runs between its looks, it sleeps exactly when the pause that it owes is at
/// least the shortest one. A pause too short to be slept is owed, and added to the next one
/// (`balance_dirty_pages`: `dirty_paused_when` lies in the future then, and the difference is
/// signed).
#[test]
fn pauses_that_are_not_worth_sleeping_are_owed() {
    let (mut slept, mut owed) = (0, 0);
    for seed in 0..400 {
        let mut chance = Lcg(seed);
        let hz = [100, 250, 300, 1000][chance.below(4) as usize];
        let (mm, f) = machine(Policy::linux_3_16(), hz);
        let tick = SECOND / hz;
        has_dirty(&mm, between(&mm, 5 + u64::from(chance.below(80))));
        let dirty = mm.global_stat(ZoneStat::NrFileDirty);
        let p = mm.position(0, mm.dirty_limits(), dirty);
        // The base rate does not change for a fifth of a second.
        let task = (25_600 * p.ratio()) >> 10;
        assert!(task > 0);
        let least = pauses((hz, hz / 5), p.bandwidth, p.bdi_dirty, 25_600, task);
        // When the last pause ended, in nanoseconds.
        let (mut paused, mut dirtied) = (None::<i64>, 0);
        loop {
            let more = 1 + u64::from(chance.below(60));
            dirties(&mm, f, more);
            dirtied += more;
            mm.world.advance(u64::from(chance.below(2)) * tick);
            if mm.world.now() > 200 * MS {
                break;
            }
            let now = (mm.world.now() + mm.world.price(Cost::WritebackRound)) as i64;
            let period = (hz * dirtied / task) as i64;
            let pause = period - paused.map_or(0, |then| (now - then) / tick as i64);
            let looked = mm.look_at_limits(0);
            assert_eq!(
                looked.is_some(),
                pause >= least.min as i64,
                "{hz} ticks, seed {seed}: {pause} of {least:?} at {now}"
            );
            match looked {
                Some(looked) => {
                    block_on(&mm, mm.pause_dirtier(looked));
                    let max = least.max as i64;
                    let ticks = (pause - max).clamp(0, max) + pause.min(max);
                    paused = Some(now + ticks * tick as i64);
                    dirtied = 0;
                    slept += 1;
                }
                None if period > 0 => {
                    paused = Some(paused.unwrap_or(0) + period * tick as i64);
                    owed += i32::from(paused > Some(now));
                    dirtied = 0;
                }
                None => {}
            }
        }
    }
    assert!(slept > 500 && owed > 500, "{slept} {owed}");
}

/// After a pause without a rate a dirtier looks at once and then after 8, 16, 32 … pages: the
/// number of pages to dirty stays 0 where `bdi_min_pause` gives 0.
#[test]
fn no_pages_before_the_next_look_is_kept_as_none() {
    let (mm, f) = machine(Policy::linux_3_16(), 1000);
    // The whole limit of the machine is dirty, but no page of this device: the task sleeps once.
    let limit = mm.dirty_limits().dirty as i64;
    mm.stat.add_exact(0, ZoneStat::NrFileDirty, limit + 1);
    let pause = mm.look_at_limits(0).expect("no rate");
    block_on(&mm, mm.pause_dirtier(pause));
    let room = (limit + 1) - between(&mm, 10) as i64;
    mm.stat.add_exact(0, ZoneStat::NrFileDirty, -room);
    for (pages, until) in [(8, 1), (1, 8), (8, 17)] {
        dirties(&mm, f, pages);
        assert_eq!(mm.look_at_limits(0), None);
        assert_eq!(mm.dirtied_until_look(), until);
    }
}

/// A measurement over more than its period, which is 4096 ticks of 1000 a second, is not smoothed;
/// a device that wrote nothing gets a page a second (`bdi_update_write_bandwidth`).
#[test]
fn a_long_measurement_is_not_smoothed() {
    let (mm, _) = machine(Policy::linux_3_16(), 1000);
    mm.world.advance(5 * SECOND);
    mm.bdi_writeout_add(0, 5000 - 64);
    mm.update_bandwidth(0);
    assert_eq!(mm.write_bandwidth(0), 1000);
    mm.world.advance(5 * SECOND);
    mm.update_bandwidth(0);
    assert_eq!(mm.write_bandwidth(0), 1);
}

/// `bandwidth`: a fifth of a second after the last page of a file has left writeback the worker has
/// measured, and pages written later belong to the next measurement, whenever it is read. Without
/// the worker the device keeps the bandwidth of the last look.
#[test]
fn a_worker_measures_behind_the_writeback_of_a_file() {
    for (form, measured) in [(Bandwidth::Looks, 25_600), (Bandwidth::Worker, 92)] {
        let policy = Policy {
            bandwidth: form,
            ..Policy::linux_3_16()
        };
        let (mm, f) = machine(policy, 1000);
        block_on(&mm, async {
            for index in 0..512 {
                write(&mm, f, index).await;
            }
        });
        mm.world.advance(5 * SECOND - mm.world.now());
        assert_eq!(mm.start_writeback(f, 0, 512, |_| ()), 512);
        mm.end_writeback(f, 0, 256, false);
        mm.world.advance(SECOND);
        // Pages of the file are still under writeback.
        assert_eq!(mm.write_bandwidth(0), 25_600);
        mm.end_writeback(f, 256, 256, false);
        mm.world.advance(199 * MS);
        assert_eq!(mm.write_bandwidth(0), 25_600);
        mm.world.advance(801 * MS);
        mm.bdi_writeout_add(0, 100_000);
        // 512 pages and the first 64 in 6.2 s, without the late ones.
        assert_eq!(mm.write_bandwidth(0), measured, "{form:?}");
    }
}

/// `dirty_exceeded`: with `EachLook` a look sets the mark before its pause; the mark that others
/// have set meanwhile stays when the pause is over, and a look below the free-run ceiling does not
/// change it.
#[test]
fn each_look_says_whether_its_device_is_over_its_limit() {
    let forms = [
        (DirtyExceeded::LowestLimit, [1, 0, 0]),
        (DirtyExceeded::EachLook, [0, 1, 1]),
    ];
    for (form, [paused, others, freerun]) in forms {
        let policy = Policy {
            dirty_exceeded: form,
            ..Policy::linux_3_16()
        };
        let (mm, f) = machine(policy, 1000);
        let mark = || mm.bdis[0].dirty_exceeded.get();
        let over = between(&mm, 100) + 200;
        let looks = |task, pages, dirty| {
            mm.world.run_as(task);
            has_dirty(&mm, dirty);
            dirties(&mm, f, pages);
            mm.look_at_limits(0)
        };
        looks(1, 1, over).expect("a pause");
        assert_eq!(mark(), 1);
        // Below the limit the mark is cleared by the look, or after the pause.
        let pause = looks(2, 4000, between(&mm, 50)).expect("a pause");
        assert_eq!(mark(), paused, "{form:?}");
        looks(3, 1, over).expect("a pause");
        assert_eq!(mark(), 1);
        mm.world.run_as(2);
        has_dirty(&mm, between(&mm, 50));
        block_on(&mm, mm.pause_dirtier(pause));
        assert_eq!(mark(), others, "{form:?}");
        looks(3, 1, over).expect("a pause");
        assert_eq!(looks(4, 1, 100), None);
        assert_eq!(mark(), freerun, "{form:?}");
    }
}
