//! The progress law: a run in which a task spins ends within a bounded number of polls, and its
//! error names the task and the place.

mod common;

use common::{bare, disk, machine, spec};
use mm::ZoneType;
use mm::policy::{FreeSnapshot, LruScope, Policy};
use sim::rng::Rng;
use sim::sched::{Place, Sched, SchedParams};
use sim::spec::{Boot, DiskKind, FsKind, NodeSpec, RunSpec, Size, ZoneSpec};
use sim::watchdog::{Ending, LOOK_POLLS, MOST_POLLS};
use sim::{Control, Outcome, RunResult};
use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A scheduler on which only charged work takes time.
fn sched(cpus: usize) -> Sched {
    let params = SchedParams {
        quantum: 10_000,
        latency: 1_000_000,
        min_granularity: 100_000,
        eevdf_slice: None,
        wakeup_granularity: 100_000,
        idle_wakeup: 0.0,
        idle_wakeup_sigma: 0.0,
        place: Place::Busy,
        switch: 0,
        tick: 4_000_000,
        tick_phase: 0,
        timer_wheel: false,
    };
    Sched::new(cpus, params, 8, Rng::new(1, "test"))
}

type Life<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Runs the tasks; the first stands for interrupts on an idle CPU.
fn run(sched: &Sched, lives: Vec<Life<'_>>) -> Option<Ending> {
    let mut all: Vec<Life<'_>> = vec![Box::pin(async {})];
    all.extend(lives);
    for _ in &all {
        sched.spawn();
    }
    sched.run(&mut all, |_, _| {});
    sched.ending()
}

/// Returns the task that was stuck; its place must be in this file.
fn stuck(ending: Option<Ending>) -> u32 {
    let Some(Ending::Stuck { task, at }) = ending else {
        panic!("{ending:?}");
    };
    assert!(at.file().ends_with("progress.rs"), "{at}");
    task
}

#[test]
fn a_task_that_goes_round_without_time_is_found() {
    let s = sched(2);
    let rounds = Cell::new(0_u64);
    let round = async {
        loop {
            rounds.set(rounds.get() + 1);
            s.relax().await;
        }
    };
    let other = async { s.sleep(1_000_000_000).await };
    assert_eq!(stuck(run(&s, vec![Box::pin(other), Box::pin(round)])), 2);
    assert!(rounds.get() <= u64::from(MOST_POLLS + LOOK_POLLS));
}

#[test]
fn tasks_that_wake_each_other_without_time_are_found() {
    let s = sched(1);
    let player = async |own: u32, other: u32| loop {
        let ticket = s.ticket(own);
        s.wake(other);
        s.wait(own, ticket, None).await;
    };
    let ending = run(&s, vec![Box::pin(player(0, 1)), Box::pin(player(1, 0))]);
    assert!([1, 2].contains(&stuck(ending)));
}

#[test]
fn a_wait_for_what_has_happened_is_found() {
    let s = sched(1);
    let round = async {
        let ticket = s.ticket(0);
        s.wake(0);
        loop {
            s.wait(0, ticket, None).await;
        }
    };
    assert_eq!(stuck(run(&s, vec![Box::pin(round)])), 1);
}

/// A nanosecond now and then counts as progress.
#[test]
fn slow_tasks_go_on() {
    let s = sched(1);
    let round = async {
        for i in 0..3 * MOST_POLLS {
            if i % (MOST_POLLS / 2) == 0 {
                s.charge(1);
            }
            s.relax().await;
        }
        s.stop();
    };
    assert_eq!(run(&s, vec![Box::pin(round)]), None);
}

/// The way in which programs compute.
#[derive(Clone, Copy, PartialEq)]
enum Computes {
    /// In one call, which the executor continues by itself.
    Whole,
    /// The same, but from some point on the program is polled after each piece.
    Told,
    /// In pieces, with a chance to be preempted after each.
    Pieces,
}

/// Turns computed without polling a future equal those of programs that are polled after each
/// piece.
#[test]
fn programs_that_compute_take_turns_as_if_they_were_asked() {
    let turns = |how: Computes| {
        let s = sched(2);
        let left = Cell::new(5);
        let program = async |nth: u64| {
            for round in 0..200 {
                let ns = (nth * 7919 + round * 104_729) % 1_300_000;
                if how == Computes::Told && round == 100 {
                    s.tell_of_pieces();
                }
                let mut rest = ns;
                while rest > 0 {
                    if how == Computes::Pieces {
                        let piece = rest.min(10_000);
                        s.charge_user(piece);
                        s.relax().await;
                        rest -= piece;
                    } else {
                        rest = s.compute(rest).await;
                    }
                }
                s.sleep(nth * 50_000 + round * 911).await;
            }
            left.set(left.get() - 1);
            if left.get() == 0 {
                s.stop();
            }
        };
        let lives: Vec<Life<'_>> = (0..5).map(|nth| Box::pin(program(nth)) as _).collect();
        assert_eq!(run(&s, lives), None);
        let users: Vec<u64> = s.task_times(s.now()).iter().map(|(_, t)| t.user).collect();
        (s.digest(), s.polls(), s.now(), users)
    };
    let asked = turns(Computes::Pieces);
    assert!(turns(Computes::Whole) == asked && turns(Computes::Told) == asked);
}

#[test]
fn the_flag_acts_within_a_look() {
    for charge in [0, 1, 100_000] {
        let s = sched(1);
        let flag = Arc::new(AtomicBool::new(false));
        s.heed(Arc::clone(&flag));
        let after = Cell::new(0);
        let round = async {
            for i in 0.. {
                if i == 5000 {
                    flag.store(true, Relaxed);
                }
                after.set(i - 5000);
                s.charge(charge);
                s.relax().await;
            }
        };
        assert_eq!(run(&s, vec![Box::pin(round)]), Some(Ending::Interrupted));
        assert!(after.get() <= i64::from(LOOK_POLLS), "{}", after.get());
    }
}

/// Runs a spec; returns the result and the polls that it took.
fn polls(spec: &RunSpec) -> (RunResult, u64) {
    let control = Control::default();
    let result = sim::run(spec, &control);
    let polls = control.polls.load(Relaxed);
    if let Outcome::Failed { error } = &result.outcome {
        assert!(!error.starts_with("no progress"), "{error}");
    }
    (result, polls)
}

#[test]
fn a_run_ends_at_its_time_limit() {
    let mut s = spec(
        machine(64),
        FsKind::Ext4,
        "dd if=/dev/zero of=a bs=1M count=900",
    );
    s.time_limit_ns = 1_234_567_891;
    let (result, _) = polls(&s);
    assert_eq!(result.outcome, Outcome::TimeLimit);
    let over = result.sim_ns.abs_diff(s.time_limit_ns);
    assert!(over <= s.params.quantum as u64 * 2, "{over} ns");
}

fn nodes(zones: &[&[(ZoneType, u64)]]) -> Vec<NodeSpec> {
    let node = |zones: &&[(ZoneType, u64)]| NodeSpec {
        cpus: Vec::new(),
        zones: zones
            .iter()
            .map(|&(zone, bytes)| ZoneSpec {
                zone,
                size: Size(bytes),
            })
            .collect(),
    };
    zones.iter().map(node).collect()
}

/// kswapd used one count of free pages to decide whether to sleep, and another one to decide
/// whether there was anything to do.
#[test]
fn kswapd_sleeps_on_a_node_that_it_finds_balanced() {
    const M: u64 = 1 << 20;
    use ZoneType::{Movable, Normal};
    let mut m = bare(Normal, 64 * M);
    m.cpus = 16;
    m.nodes = nodes(&[
        &[(Normal, 20 * M)],
        &[(Normal, 20 * M)],
        &[(Normal, 10 * M), (Movable, 10 * M)],
        &[(Normal, 10 * M), (Movable, 10 * M)],
    ]);
    m.boot = Boot {
        kernel: Size(4 * M),
        anon: Size(0),
        ..Boot::default()
    };
    m.disk = disk(DiskKind::UsbFlash);
    for lru in [LruScope::Node, LruScope::Zone] {
        let mut s = spec(
            m.clone(),
            FsKind::Xfs,
            "fs_mark -d a -n 100 -L 2 -s 4096 -S0 -k",
        );
        s.policy = Policy {
            free_snapshot: FreeSnapshot::WhileAwake,
            lru,
            ..Policy::linux_4_9()
        };
        s.time_limit_ns = 5_000_000_000;
        let (_, polls) = polls(&s);
        assert!(polls < 3_000_000, "{lru:?}: {polls} polls");
    }
}

/// A machine of 8 to 100 MiB with up to 8 nodes, and a random mix of the kernels' switches.
fn small(seed: u64) -> RunSpec {
    let mut rng = Rng::new(seed, "small machine");
    let mut pick = |n: usize| rng.below(n as u64) as usize;
    let mut m = bare(ZoneType::Normal, 8 << 20);
    m.cpus = [1, 2, 4, 16, 33, 64][pick(6)];
    let count = [1, 2, 4, 8][pick(4)];
    m.nodes = (0..count)
        .map(|n| {
            let mut zones = Vec::new();
            if n == 0 && pick(2) == 0 {
                zones.push((ZoneType::Dma, (1 + pick(8) as u64) << 20));
            }
            zones.push((ZoneType::Normal, (8 + pick(12) as u64) << 20));
            if pick(4) == 0 {
                zones.push((ZoneType::Movable, (1 + pick(10) as u64) << 20));
            }
            nodes(&[&zones]).remove(0)
        })
        .collect();
    m.boot.anon = Size([0, 1 << 20, 4 << 20][pick(3)]);
    m.boot.kernel = Size([0, 2 << 20][pick(2)]);
    if pick(2) == 0 {
        m.swap = Some(common::swap([1 << 20, 64 << 20][pick(2)]));
    }
    m.disk = disk(
        [
            DiskKind::UsbFlash,
            DiskKind::Disk,
            DiskKind::Ssd,
            DiskKind::Nvme,
        ][pick(4)],
    );
    let command = [
        "dd if=/dev/zero of=a bs=4097 count=9000",
        "fs_mark -d a -n 300 -L 4 -s 65536 -S0 -k",
        "mmap-strm -t 3 --memory 20M",
        "dd if=/dev/zero of=a bs=64k count=400 & fs_mark -d b -n 500 -L 2 -s 4096 -S0 -k",
    ][pick(4)];
    let mut s = spec(m, common::ALL_FS[pick(common::ALL_FS.len())], command);
    let preset = Policy::PRESETS[pick(Policy::PRESETS.len())];
    s.policy = Policy::preset(preset).expect("a preset");
    let of = |i| Policy::preset(Policy::PRESETS[i]).expect("a preset");
    let n = Policy::PRESETS.len();
    s.policy.free_snapshot = of(pick(n)).free_snapshot;
    s.policy.lru = of(pick(n)).lru;
    s.policy.hopeless_zones = of(pick(n)).hopeless_zones;
    s.policy.kswapd_loop = of(pick(n)).kswapd_loop;
    s.policy.kswapd_wake = of(pick(n)).kswapd_wake;
    s.policy.small_scan = of(pick(n)).small_scan;
    s.policy.scan_balance = of(pick(n)).scan_balance;
    s.policy.balance_gap = of(pick(n)).balance_gap;
    s.policy.dirtyable = of(pick(n)).dirtyable;
    s.policy.dirty_throttle = of(pick(n)).dirty_throttle;
    s.policy.emergency_throttle = of(pick(n)).emergency_throttle;
    s.policy.reclaim_throttle = of(pick(n)).reclaim_throttle;
    s.policy.shrinker_core = of(pick(n)).shrinker_core;
    s.params.cost_scale = [0.01, 1.0, 1.0, 100.0][pick(4)];
    s.seed = seed;
    s.sample_ns = 0;
    s.time_limit_ns = 4_000_000_000;
    s
}

/// `SMALL_MACHINES=100..900 cargo test -p sim --test progress small -- --nocapture` tries other
/// seeds and prints what each took.
#[test]
fn no_small_machine_spins() {
    let wanted = std::env::var("SMALL_MACHINES");
    let seeds = wanted.as_ref().map_or(0..100, |range| {
        let (a, b) = range.split_once("..").expect("FROM..TO");
        a.parse().expect("a number")..b.parse().expect("a number")
    });
    for seed in seeds {
        let s = small(seed);
        let (result, polls) = polls(&s);
        if wanted.is_ok() {
            let p = &s.policy;
            println!(
                "{seed} {polls} polls in {:.1} s, cost {}: {:?} {:?} {:?} {:?} {:?} {}",
                result.sim_ns as f64 / 1e9,
                s.params.cost_scale,
                p.kswapd_loop,
                p.hopeless_zones,
                p.lru,
                p.free_snapshot,
                s.filesystem,
                s.machine.nodes.len(),
            );
        }
        if let Outcome::Failed { error } = &result.outcome {
            assert!(!error.starts_with("recount"), "seed {seed}: {error}");
        }
        // Faster CPUs do more in the same time.
        let most = 8e6 / s.params.cost_scale.min(1.0);
        assert!((polls as f64) < most, "seed {seed}: {polls} polls");
    }
}

/// Tests of limits in the block layer and the filesystems: full and tiny disks, small requests.
mod edges {
    use super::*;

    fn tiny(fs: FsKind, kind: DiskKind, capacity: u64, command: &str) -> RunSpec {
        let mut m = bare(ZoneType::Normal, 32 << 20);
        m.disk = disk(kind);
        m.disk.capacity = Size(capacity);
        if kind == DiskKind::Raid0 {
            m.disk.members = Some(3);
        }
        let mut s = spec(m, fs, command);
        s.time_limit_ns = 120_000_000_000;
        s.sample_ns = 0;
        s
    }

    /// A filesystem's journal, log and tables find their place on a disk of any size.
    #[test]
    fn disks_of_any_size() {
        const M: u64 = 1 << 20;
        let command = "fs_mark -d a -n 60 -L 2 -s 4096 -S1 -k";
        for fs in common::ALL_FS {
            for capacity in [M, 2 * M, 5 * M, 33 * M, 132 * M, 133 * M, 300 * M] {
                let s = tiny(fs, DiskKind::Ssd, capacity, command);
                let (result, _) = polls(&s);
                let full = match &result.outcome {
                    Outcome::Failed { error } => capacity <= 2 * M && error.contains("space"),
                    _ => false,
                };
                let ok = full || result.outcome == Outcome::Completed;
                assert!(ok, "{fs:?} {capacity}: {:?}", result.outcome);
            }
        }
    }

    /// A cluster of inodes is two blocks, while a request may be one.
    #[test]
    fn bios_longer_than_a_request_are_cut() {
        for kind in [
            DiskKind::Ssd,
            DiskKind::Disk,
            DiskKind::Raid0,
            DiskKind::UsbFlash,
        ] {
            for fs in common::ALL_FS {
                let command = "fs_mark -d a -n 2000 -L 2 -s 0 -S0 -k";
                let mut s = tiny(fs, kind, 4 << 30, command);
                s.params.max_request = 4096.0;
                s.params.disks.usb_flash.usb_max_request = 4096.0;
                s.params.disks.raid0.raid_chunk = 4096.0;
                let (result, _) = polls(&s);
                assert_eq!(result.outcome, Outcome::Completed, "{kind:?} {fs:?}");
            }
        }
    }

    /// A task that fills a disk gets an error, and no task waits for ever for dirty pages that have
    /// no place.
    #[test]
    fn a_full_disk_ends_the_writer() {
        for fs in common::ALL_FS {
            for bs in ["4k", "1M"] {
                let command = format!("dd if=/dev/zero of=z bs={bs}");
                let mut s = tiny(fs, DiskKind::Ssd, 96 << 20, &command);
                s.machine.nodes[0].zones[0].size = Size(24 << 20);
                let (result, polls) = polls(&s);
                let Outcome::Failed { error } = &result.outcome else {
                    panic!("{fs:?} {bs}: {:?}", result.outcome);
                };
                assert!(error.contains("space"), "{fs:?} {bs}: {error}");
                assert!(polls < 1_000_000, "{fs:?} {bs}: {polls} polls");
            }
        }
    }
}
