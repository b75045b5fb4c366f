//! Runs of fresh pages compared with the single steps: two equal machines get the same writes, one
//! of them in runs.

use super::bare::{Bare, recount};
use super::prelude::*;
use super::programs::{Lcg, file};
use super::world::Engine;
use crate::policy::DirtyThrottle;
use crate::writeback::fresh::{Fresh, FreshEnd, FreshState};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Returns what a future returns without waiting; `None`: it has to wait.
fn at_once<T>(job: impl Future<Output = T>) -> Option<T> {
    match pin!(job).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(out) => Some(out),
        Poll::Pending => None,
    }
}

/// Holds the task to the limits after a page, by a future that may want to sleep.
fn held(mm: &Engine, index: u32, by: impl Future<Output = ()>) {
    if mm.policy.dirty_throttle == DirtyThrottle::Write || at_once(by).is_none() {
        looked(mm, index);
    }
}

/// Resets the pages that the task and the CPU have dirtied.
fn looked(mm: &Engine, index: u32) {
    mm.world.mix(u64::from(index));
    let (task, cpu) = (mm.world.task(), mm.world.cpu());
    mm.init_task(task, 0, 0);
    mm.writeback.dirtied_on_cpu[cpu].set(0);
}

/// Makes a page to be written or read, step by step. Returns false if there is no memory without
/// waiting.
fn single(mm: &Engine, f: u32, index: u32, gfp: Gfp, state: FreshState) -> bool {
    match at_once(mm.alloc_page(gfp)) {
        Some(Some(pfn)) => {
            fill(mm, f, index, pfn, state);
            true
        }
        _ => false,
    }
}

/// Does the steps after a page's allocation.
fn fill(mm: &Engine, f: u32, index: u32, pfn: Pfn, state: FreshState) {
    if state == FreshState::Locked {
        assert!(mm.try_lock_page(pfn));
    }
    assert_eq!(mm.enter_page_cache_lru(pfn, f, index), Entered::Added);
    if state == FreshState::Locked {
        return;
    }
    let written = matches!(state, FreshState::Written | FreshState::Piece);
    if written {
        mm.world.charge(Cost::Copy, 1);
        mm.frames.set_flags(pfn, flag::UPTODATE);
    }
    mm.set_page_dirty(pfn, TrackPath::BufferedWrite);
    if written {
        mm.mark_page_accessed(pfn, TrackPath::BufferedWrite);
        if state == FreshState::Piece {
            mm.count_dirtied(f);
        } else if mm.note_dirtied(f) {
            held(mm, index, mm.balance_now(f));
        }
    }
}

/// Makes the missing pages from `first` on, one after the other. Returns false if there is no
/// memory.
fn by_steps(mm: &Engine, task: u32, fresh: Fresh) -> bool {
    for index in fresh.first..fresh.first + fresh.most {
        mm.world.run_as(task);
        if mm.find_page(fresh.mapping, index).is_none()
            && !single(mm, fresh.mapping, index, fresh.gfp, fresh.state)
        {
            return false;
        }
    }
    true
}

/// Makes the same pages in runs, in turns of random length.
fn by_runs(mm: &Engine, task: u32, fresh: Fresh, chance: &mut Lcg) -> bool {
    let (mut index, end) = (fresh.first, fresh.first + fresh.most);
    while index < end {
        mm.world.run_as(task);
        let turn = mm.world.now() + u64::from(chance.below(60_000));
        mm.world.turn.set(turn);
        let rest = Fresh {
            first: index,
            most: end - index,
            ..fresh
        };
        let (n, why) = mm.fresh_pages(rest, None::<fn(u32) -> bool>);
        index += n;
        match why {
            FreshEnd::All | FreshEnd::Relax => {}
            FreshEnd::Balance => looked(mm, index - 1),
            FreshEnd::Pause(pause) => held(mm, index - 1, mm.pause_dirtier(pause)),
            FreshEnd::Single => {
                if mm.find_page(fresh.mapping, index).is_none()
                    && !single(mm, fresh.mapping, index, fresh.gfp, fresh.state)
                {
                    return false;
                }
                index += 1;
            }
            FreshEnd::Short(start) => {
                let Some(Some(pfn)) = at_once(mm.alloc_rest(fresh.gfp, start)) else {
                    return false;
                };
                fill(mm, fresh.mapping, index, pfn, fresh.state);
                index += 1;
            }
            FreshEnd::Unready | FreshEnd::NoMemory => unreachable!("{why:?}"),
        }
    }
    true
}

/// Returns everything that is counted.
fn counted(mm: &Engine) -> Vec<u64> {
    let mut all = vec![mm.world.now(), mm.world.digest()];
    for z in 0..mm.zones.len() {
        for item in ZoneStat::ALL {
            all.push(mm.stat.zone_raw(z, item) as u64);
            all.push(mm.stat.exact(z, item) as u64);
        }
        all.extend(ZoneEvent::ALL.map(|e| mm.stat.zone_events(z, e)));
    }
    all.extend(VmEvent::ALL.iter().map(|&e| mm.stat.events(e)));
    all.extend(mm.world.woken(queue::kswapd(0)));
    all.push(mm.bdi_stat(0, crate::writeback::bdi::BdiStat::Reclaimable));
    all.push(mm.bdi_stat_sum(0, crate::writeback::bdi::BdiStat::Reclaimable));
    all.extend(
        mm.world
            .latencies
            .borrow()
            .values()
            .flat_map(|l| [l.0, l.1]),
    );
    all
}

/// Makes two equal machines with a DMA32 and a Normal zone of these sizes and two CPUs.
fn twins(policy: &Policy, zones: [u64; 2]) -> [Engine; 2] {
    boosted_twins(policy, zones, None)
}

/// Makes two such machines whose watermarks may be boosted by `boost`.
fn boosted_twins(policy: &Policy, zones: [u64; 2], boost: Option<u32>) -> [Engine; 2] {
    [(); 2].map(|()| {
        let zone = |kind, size| ZoneInfo {
            node: 0,
            kind,
            size,
        };
        let mut machine = Bare {
            zones: vec![
                zone(ZoneType::Dma32, zones[0]),
                zone(ZoneType::Normal, zones[1]),
            ],
            cpus: 2,
            ..Bare::new(policy.clone(), 1)
        };
        machine.sysctl.watermark_boost_factor = boost;
        let mm = machine.build();
        mm.world.untraced.set(true);
        mm
    })
}

/// A run leaves the same as its single steps: the same pages in the same places, counters and their
/// per-CPU differences, time, latencies, and a dirtier looks at its limits at the same moments.
#[test]
fn runs_do_what_single_steps_do() {
    for (seed, preset) in (0..).zip(PRESETS.iter().cycle().take(3 * PRESETS.len())) {
        let [steps, runs] = twins(&preset.policy(), [3000, 9000]);
        let files = [&steps, &runs].map(|mm| file(mm, MappingKind::File, 0, 1 << 20));
        assert_eq!(files[0], files[1]);
        let (f, mut chance) = (files[0], Lcg(seed));
        for step in 0..60 {
            let state = match chance.below(5) {
                0 => FreshState::Locked,
                1 => FreshState::Dirty,
                2 => FreshState::Piece,
                _ => FreshState::Written,
            };
            let (task, fresh) = (
                chance.below(2),
                Fresh {
                    mapping: f,
                    first: chance.below(8000),
                    most: 1 + chance.below(300),
                    gfp: match chance.below(3) {
                        0 => Gfp::USER,
                        _ => Gfp::USER_WRITE,
                    },
                    state,
                },
            );
            let made = by_steps(&steps, task, fresh);
            let made_in_runs = by_runs(&runs, task, fresh, &mut chance);
            assert_eq!(made, made_in_runs, "{}, step {step}", preset.name);
            if !made {
                break;
            }
            assert_eq!(
                counted(&steps),
                counted(&runs),
                "{}, seed {seed}, step {step}: {fresh:?}",
                preset.name
            );
            for index in fresh.first..fresh.first + fresh.most {
                let of = |mm: &Engine| {
                    let pfn = mm.find_page(f, index).expect("it was made");
                    (pfn, mm.frames.flags(pfn))
                };
                assert_eq!(of(&steps), of(&runs), "page {index}");
            }
            if chance.below(3) == 0 {
                [&steps, &runs].iter().for_each(|mm| mm.lru_add_drain());
            }
        }
        recount(&steps);
        recount(&runs);
    }
}

/// The same if the preferred zone has no page left while its cheap counter says otherwise, and
/// thresholds fall as they do when kswapd wakes: the vain search for a page there folds a CPU's
/// differences, after the tests of its walk and not before.
#[test]
fn runs_do_what_single_steps_do_where_a_zone_is_empty() {
    for (seed, preset) in (0..).zip(PRESETS.iter().cycle().take(40 * PRESETS.len())) {
        let mut chance = Lcg(seed);
        let machines = twins(&preset.policy(), [6000, 64 + u64::from(chance.below(200))]);
        let f = machines
            .each_ref()
            .map(|mm| file(mm, MappingKind::File, 0, 1 << 20))[0];
        for index in (0..1500).step_by(50) {
            let fresh = Fresh {
                mapping: f,
                first: index,
                most: 50,
                gfp: Gfp::USER,
                state: FreshState::Dirty,
            };
            let (task, lists) = (chance.below(2), chance.below(7));
            let threshold = 1 + chance.below(12);
            for mm in &machines {
                mm.stat.set_threshold(1, threshold);
                // The lists of another CPU hold pages that the zone does not count any more.
                mm.world.run_as(1 - task);
                for _ in 0..lists {
                    if let Some(Some(pfn)) = at_once(mm.alloc_page(Gfp::USER)) {
                        mm.free_page(pfn, false);
                    }
                }
            }
            let [steps, runs] = &machines;
            assert!(by_steps(steps, task, fresh) && by_runs(runs, task, fresh, &mut chance));
            assert_eq!(
                counted(steps),
                counted(runs),
                "{}, seed {seed}, index {index}",
                preset.name
            );
        }
        machines.iter().for_each(recount);
    }
}

/// The same if the worker measures a device's bandwidth in the middle of a run: it counts the pages
/// that were dirtied before its time, however many are made together.
#[test]
fn runs_do_what_single_steps_do_where_the_worker_measures() {
    let mut before = 0;
    for seed in 0..60 {
        let mut chance = Lcg(seed);
        let machines = twins(&Policy::linux_6_12(), [3000, 9000]);
        let f = machines
            .each_ref()
            .map(|mm| file(mm, MappingKind::File, 0, 1 << 20))[0];
        let written = Fresh {
            mapping: f,
            first: 0,
            most: 4,
            gfp: Gfp::USER_WRITE,
            state: FreshState::Dirty,
        };
        let run = Fresh {
            first: 100,
            most: 200,
            state: [FreshState::Written, FreshState::Piece][chance.below(2) as usize],
            ..written
        };
        let early = u64::from(chance.below(400_000));
        let [steps, runs] = &machines;
        for mm in &machines {
            assert!(by_steps(mm, 0, written));
            assert_eq!(mm.start_writeback(f, 0, 4, |_| ()), 4);
            mm.end_writeback(f, 0, 4, false);
            mm.world.advance(200_000_000 - early);
        }
        assert!(by_steps(steps, 0, run) && by_runs(runs, 0, run, &mut chance));
        assert_eq!(counted(steps), counted(runs), "seed {seed}: {run:?}");
        // A measurement that is due is made up for.
        let then = machines.each_ref().map(|mm| {
            mm.write_bandwidth(0);
            mm.bdis[0].rate.dirtied_then.get()
        });
        assert_eq!(then[0], then[1], "seed {seed}, {early} ns early: {run:?}");
        before += u64::from((1..200).contains(&then[0]));
    }
    assert!(before > 20, "{before} in the midst of a run");
}

/// Takes all memory, with both kinds of requests in turns, and frees two of three pages.
fn scatter(mm: &Engine, chance: &mut Lcg) {
    let mut taken = Vec::new();
    while let Some(pfn) = {
        let gfp = [Gfp::USER, Gfp::KERNEL][chance.below(64) as usize / 48];
        mm.alloc_pages_fast(gfp, 0, 0)
    } {
        taken.push(pfn);
    }
    taken.retain(|_| chance.below(3) > 0);
    taken.into_iter().for_each(|pfn| mm.free_page(pfn, false));
}

/// The same if taking pages mixes kinds and so wakes kswapd: the time of a walk passes before that.
#[test]
fn runs_do_what_single_steps_do_where_watermarks_are_boosted() {
    let mut woken = 0;
    for (seed, preset) in (0..).zip(PRESETS.iter().cycle().take(10 * PRESETS.len())) {
        let mut chance = Lcg(seed);
        let policy = Policy {
            mobility: Mobility::Grouped,
            ..preset.policy()
        };
        let sizes = [2000 + u64::from(chance.below(600)), 64];
        let machines = boosted_twins(&policy, sizes, Some(15_000));
        let f = machines
            .each_ref()
            .map(|mm| file(mm, MappingKind::File, 0, 1 << 20))[0];
        // The free pages are scattered over pageblocks of both kinds.
        machines.iter().for_each(|mm| scatter(mm, &mut Lcg(seed)));
        for index in (0..1500).step_by(50) {
            let fresh = Fresh {
                mapping: f,
                first: index,
                most: 50,
                gfp: [Gfp::USER, Gfp::KERNEL][chance.below(2) as usize],
                state: FreshState::Dirty,
            };
            for mm in &machines {
                mm.nodes[0].kswapd_sleeping.set(1);
            }
            let [steps, runs] = &machines;
            let all = [
                by_steps(steps, 0, fresh),
                by_runs(runs, 0, fresh, &mut chance),
            ];
            assert_eq!(all[0], all[1]);
            let which = (preset.name, seed, index);
            assert_eq!(counted(steps), counted(runs), "{which:?}");
            if !all[0] {
                break;
            }
        }
        woken += machines[0].world.woken(queue::kswapd(0))[0];
        machines.iter().for_each(recount);
    }
    assert!(woken > 50, "{woken}");
}
