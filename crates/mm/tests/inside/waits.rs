//! Tasks that wait for memory, a throttle or a reserve continue once it is available; daemons that
//! have to wake them do not sleep; and work on pages costs time.

use super::bare::{Bare, recount, settled};
use super::prelude::*;
use super::programs::{bring_in, file, write};
use super::world::{Engine, Job, block_on, run};
use crate::memory::zone::Lru;
use crate::reclaim::scan::ScanControl;
use crate::world::event::IsolateMode;
use std::cell::{Cell, RefCell};

/// The presets in which direct reclaim waits for the reserves.
fn presets() -> impl Iterator<Item = Policy> {
    let all = Policy::PRESETS
        .iter()
        .filter_map(|name| Policy::preset(name));
    all.filter(|p| p.emergency_throttle)
}

/// Makes a machine whose pages the kernel has taken, and returns them.
fn used_up(policy: Policy) -> (Engine, RefCell<Vec<Pfn>>) {
    let mm = Bare::new(policy, 8192).build();
    let mut taken = Vec::new();
    // Atomic requests take the pages down to three eighths of min.
    while let Some(pfn) = block_on(&mm, mm.alloc_page(Gfp::ATOMIC)) {
        taken.push(pfn);
    }
    mm.refresh_cpu_vm_stats(0);
    assert!(!mm.reserves_ok(0));
    (mm, RefCell::new(taken))
}

/// Frees `n` of the pages that were taken.
fn give_back(mm: &Engine, taken: &RefCell<Vec<Pfn>>, n: usize) {
    let mut taken = taken.borrow_mut();
    let left = taken.len() - n;
    taken.drain(left..).for_each(|pfn| mm.free_page(pfn, false));
    mm.refresh_cpu_vm_stats(0);
}

/// A process that ends frees its memory while kswapd is about to work: kswapd finds its node
/// balanced, scans nothing and goes to sleep. Tasks that wait for the reserves continue at once.
#[test]
fn kswapd_wakes_throttled_tasks_before_it_sleeps() {
    for policy in presets() {
        let name = policy.name.clone();
        let (mm, taken) = used_up(policy);
        mm.nodes[0].kswapd_sleeping.set(1);
        let waited = Cell::new(0);
        let waiter: Job<'_> = Box::pin(async {
            let begun = mm.world.now();
            mm.alloc_page(Gfp::USER).await.expect("memory");
            waited.set(mm.world.now() - begun);
        });
        let ends: Job<'_> = Box::pin(async {
            while mm.vm_event(VmEvent::PgScanDirectThrottle) == 0 {
                mm.world.relax().await;
            }
            let all = taken.borrow().len();
            give_back(&mm, &taken, all);
        });
        // kswapd gets the CPU only after the memory is freed.
        let kswapd: Job<'_> = Box::pin(async {
            while !taken.borrow().is_empty() {
                mm.world.relax().await;
            }
            mm.kswapd(0).await;
        });
        let ended = run(&mm, vec![waiter, ends, kswapd], 2, u64::MAX, recount);
        assert_eq!(ended, 2, "{name}");
        assert_eq!(mm.vm_event(VmEvent::PgScanDirectThrottle), 1, "{name}");
        assert!(waited.get() < SECOND / 100, "{name}: {} ns", waited.get());
    }
}

/// A request that may not enter filesystems waits a second in all, however often it is woken in
/// vain.
#[test]
fn a_wake_for_nothing_does_not_end_a_throttle() {
    let (mm, _taken) = used_up(Policy::linux_6_12());
    let waited = Cell::new(0);
    let waiter: Job<'_> = Box::pin(async {
        let begun = mm.world.now();
        assert!(!mm.throttle_direct_reclaim(0, Gfp::NOFS).await);
        waited.set(mm.world.now() - begun);
    });
    let wakes: Job<'_> = Box::pin(async {
        for _ in 0..7 {
            mm.world.sleep(SECOND / 10).await;
            mm.world.wake(mm.emergency_queue(0));
        }
    });
    run(&mm, vec![waiter, wakes], 2, u64::MAX, |_| ());
    assert!(
        (SECOND..SECOND * 11 / 10).contains(&waited.get()),
        "{}",
        waited.get()
    );
}

/// A kernel thread is not throttled for the reserves: the pages may depend on its work.
#[test]
fn threads_of_the_kernel_are_not_throttled() {
    for (flags, throttled) in [(0, 1), (PF_KTHREAD, 0)] {
        let (mm, taken) = used_up(Policy::linux_6_12());
        mm.init_task(0, flags, 0);
        let waiter: Job<'_> = Box::pin(async {
            mm.throttle_direct_reclaim(0, Gfp::KERNEL).await;
        });
        let ends: Job<'_> = Box::pin(async {
            let all = taken.borrow().len();
            give_back(&mm, &taken, all);
        });
        let kswapd: Job<'_> = Box::pin(mm.kswapd(0));
        run(&mm, vec![waiter, ends, kswapd], 2, u64::MAX, recount);
        assert_eq!(mm.vm_event(VmEvent::PgScanDirectThrottle), throttled);
    }
}

/// A task that was chosen to die stops waiting for the reserves.
#[test]
fn who_is_to_die_leaves_the_throttle() {
    let (mm, _taken) = used_up(Policy::linux_6_12());
    mm.nodes[0].kswapd_sleeping.set(1);
    let dies = Cell::new((false, 0));
    let victim: Job<'_> = Box::pin(async {
        mm.begin_process(7, 0);
        let dying = mm.throttle_direct_reclaim(0, Gfp::KERNEL).await;
        dies.set((dying, mm.world.now()));
    });
    let asks: Job<'_> = Box::pin(async {
        mm.world.sleep(SECOND / 20).await;
        assert!(!mm.out_of_memory(Gfp::KERNEL, 0), "there is a victim");
    });
    run(&mm, vec![victim, asks], 2, u64::MAX, |_| ());
    let (dying, at) = dies.get();
    assert!(dying && at < SECOND / 10, "{dying} at {at} ns");
}

/// Returns the complaint of a recount while a task waits on `q`; empty if there is none.
fn in_vain(mm: &Engine, q: WaitQueue) -> String {
    let waits: Job<'_> = Box::pin(async {
        let ticket = mm.world.ticket(q);
        mm.world.wait(q, ticket, None).await;
    });
    let looks = Cell::new(0);
    let complaint = RefCell::new(String::new());
    let other: Job<'_> = Box::pin(async {
        mm.world.sleep(SECOND / 2).await;
    });
    run(mm, vec![other, waits], 1, u64::MAX, |mm| {
        looks.set(looks.get() + 1);
        if let Err(e) = mm.recount() {
            complaint.replace(e);
        }
    });
    assert!(looks.get() > 1);
    complaint.into_inner()
}

/// The recount notices a wait that nothing would end.
#[test]
fn waits_in_vain_are_noticed() {
    let bare = || Bare::new(Policy::linux_6_12(), 4096).build();
    // No daemon was asked to work.
    let mm = bare();
    mm.nodes[0].kswapd_sleeping.set(1);
    assert_eq!(in_vain(&mm, queue::kswapd(0)), "");
    assert_eq!(in_vain(&bare(), mm.flusher_queue(0)), "");

    let mm = bare();
    mm.nodes[0].kswapd_sleeping.set(1);
    let text = in_vain(&mm, mm.emergency_queue(0));
    assert!(
        text.contains("in vain for the reserves of node 0, which are there"),
        "{text}"
    );
    // kswapd is awake, and will wake the waiting tasks.
    let mm = bare();
    assert_eq!(in_vain(&mm, mm.emergency_queue(0)), "");
    let text = in_vain(&bare(), queue::kswapd(0));
    assert!(text.contains("kswapd of node 0 waits in vain"), "{text}");
    let mm = bare();
    mm.start_background_writeback(0);
    let text = in_vain(&mm, mm.flusher_queue(0));
    assert!(
        text.contains("the flusher of device 0 waits in vain"),
        "{text}"
    );
    let mm = bare();
    let scanned = &mm.pressure_scanned;
    scanned.set(1 << 20);
    let text = in_vain(&mm, queue::pressure());
    assert!(text.contains("vmpressure waits in vain"), "{text}");
}

/// LRU lists of the node in kernels that mark hopeless zones: memory exhaustion ends with the OOM
/// killer, not with endless rounds of direct reclaim and kswapd.
#[test]
fn exhaustion_of_node_lists_ends() {
    for preset in ["linux-2.6.37", "linux-3.0", "linux-3.1", "linux-3.16"] {
        let policy = Policy {
            lru: LruScope::Node,
            ..Policy::preset(preset).expect("a preset")
        };
        let mut bare = Bare::new(policy, 4096);
        let zone = |kind, size| ZoneInfo {
            node: 0,
            kind,
            size,
        };
        bare.zones = vec![zone(ZoneType::Dma32, 4096), zone(ZoneType::Normal, 640)];
        let mm = bare.build();
        let task: Job<'_> = Box::pin(async {
            let region = mm.new_region(Backing::Anon, 8192, Advice::Normal);
            let region = region.expect("room");
            for index in 0..8192 {
                mm.touch(region, index, true).await;
            }
        });
        let kswapd: Job<'_> = Box::pin(mm.kswapd(0));
        run(&mm, vec![task, kswapd], 1, 20 * SECOND, recount);
        let stalls = mm.vm_event(VmEvent::AllocStall);
        let oom = mm.world.oom.borrow().is_some();
        assert!(oom && stalls < 1000, "{preset}: {stalls} stalls");
    }
}

/// Each page that is visited costs time, whether it is dropped from its file or kept.
#[test]
fn a_page_that_is_visited_and_kept_costs() {
    let mm = Bare::new(Policy::linux_3_1(), 2048).build();
    let f = file(&mm, MappingKind::File, 0, 200);
    block_on(&mm, async {
        for index in 0..80 {
            write(&mm, f, index).await;
        }
        bring_in(&mm, f, 100, 40).await;
        mm.world.sleep(SECOND).await;
    });
    settled(&mm);
    let before = mm.world.charged[Cost::PageScan as usize].get();
    let dropped = block_on(&mm, mm.invalidate_mapping_pages(f));
    let visited = mm.world.charged[Cost::PageScan as usize].get() - before;
    assert_eq!(
        (dropped, visited),
        (40, 120),
        "of 80 dirty and 40 clean pages"
    );
}

/// Pages that a scan of a node's list passes over, all of the list if need be, are moved, which
/// costs as much as taking them.
#[test]
fn pages_that_are_set_aside_cost() {
    let mut bare = Bare::new(Policy::linux_4_9(), 1024);
    let zone = |kind| ZoneInfo {
        node: 0,
        kind,
        size: 1024,
    };
    bare.zones = vec![zone(ZoneType::Dma32), zone(ZoneType::Normal)];
    let mm = bare.build();
    let f = file(&mm, MappingKind::File, 0, 200);
    block_on(&mm, async {
        bring_in(&mm, f, 0, 64).await;
        mm.world.sleep(SECOND).await;
    });
    settled(&mm);
    assert_eq!(
        mm.zone_stat(1, ZoneStat::NrInactiveFile),
        64,
        "all are of the higher zone"
    );
    let dma32 = ZoneType::Dma32 as usize;
    let sc = ScanControl::new(32, 0, Gfp::KERNEL, dma32, true);
    let cost = || mm.world.charged[Cost::Lru as usize].get();
    let before = cost();
    let found = mm.isolate(0, Lru::InactiveFile, 32, IsolateMode::Inactive, &sc);
    assert_eq!(found.1, 0, "none is of use");
    assert_eq!(cost() - before, 64);
}

/// Returns how long `waits` holds back the first of two tasks (ns); the second one begins `other` a
/// tenth of a millisecond later.
fn held_back<'a>(
    mm: &'a Engine,
    waits: impl Future<Output = ()> + 'a,
    other: impl Future<Output = ()> + 'a,
) -> u64 {
    let took = Cell::new(0);
    let first: Job<'_> = Box::pin(async {
        let begun = mm.world.now();
        waits.await;
        took.set(mm.world.now() - begun);
    });
    let second: Job<'_> = Box::pin(async {
        mm.world.sleep(SECOND / 10_000).await;
        other.await;
    });
    run(mm, vec![first, second], 2, u64::MAX, |_| ());
    took.get()
}

/// `reclaim_throttle = "reasons"`: a task that waits for isolated pages continues when another one
/// finds that they are not too many, and kernel threads do not wait.
#[test]
fn waits_for_isolated_pages_end_when_they_are_few() {
    let tick = SECOND / 1000;
    for (flags, finds, least, most) in [
        (0, true, SECOND / 10_000, tick),
        (0, false, 20 * tick, 21 * tick),
        (PF_KTHREAD, false, 0, tick),
    ] {
        let mm = Bare::new(Policy::linux_6_12(), 1024).build();
        mm.init_task(0, flags, 0);
        let took = held_back(&mm, mm.wait_for_isolated(0), async {
            if finds {
                let sc = ScanControl::new(32, 0, Gfp::USER, 3, false);
                assert!(!mm.too_many_isolated(0, true, &sc));
            }
        });
        assert!((least..=most).contains(&took), "{flags} {finds}: {took}");
    }
}

/// `reclaim_throttle = "reasons"`: a task that has made no progress waits for a tick, or until
/// another one frees more than an eighth of the pages that it scans.
#[test]
fn waits_for_progress_end_with_some() {
    let tick = SECOND / 1000;
    for (freed, least, most) in [(32, SECOND / 10_000, tick / 2), (4, tick, 2 * tick)] {
        let mm = Bare::new(Policy::linux_6_12(), 1024).build();
        let f = file(&mm, MappingKind::File, 0, 64);
        block_on(&mm, async {
            for index in 0..64 {
                write(&mm, f, index).await;
            }
        });
        settled(&mm);
        let of = |priority, nr_scanned, nr_reclaimed| {
            let mut sc = ScanControl::new(32, 0, Gfp::USER, 3, false);
            (sc.priority, sc.nr_scanned, sc.nr_reclaimed) = (priority, nr_scanned, nr_reclaimed);
            sc
        };
        let (none, some) = (of(1, 64, 0), of(12, 64, freed));
        let took = held_back(
            &mm,
            mm.consider_reclaim_throttle(0, &none),
            mm.consider_reclaim_throttle(0, &some),
        );
        assert!((least..=most).contains(&took), "{freed}: {took}");
    }
}
