//! Scheduling by EEVDF and by CFS (`scheduler`), with context switches that cost nothing.

use sim::rng::Rng;
use sim::sched::{Place, Sched, SchedParams};
use std::cell::{Cell, RefCell};
use std::pin::Pin;

const US: u64 = 1000;
const MS: u64 = 1_000_000;

fn sched(eevdf_slice: Option<u64>) -> Sched {
    placing(eevdf_slice, Place::Kernels)
}

/// `place`: how closely the placement of tasks follows the kernels' CFS.
fn placing(eevdf_slice: Option<u64>, place: Place) -> Sched {
    on_cpus(1, eevdf_slice, place)
}

fn on_cpus(cpus: usize, eevdf_slice: Option<u64>, place: Place) -> Sched {
    let params = SchedParams {
        place,
        ..params(eevdf_slice, 10 * MS, false)
    };
    Sched::new(cpus, params, 8, Rng::new(1, "test"))
}

/// Parameters of CPUs without costs; `tick`: nanoseconds between two ticks.
fn params(eevdf_slice: Option<u64>, tick: u64, timer_wheel: bool) -> SchedParams {
    SchedParams {
        quantum: 10_000,
        latency: 6 * MS,
        min_granularity: 750 * US,
        wakeup_granularity: MS,
        eevdf_slice,
        idle_wakeup: 0.0,
        idle_wakeup_sigma: 0.0,
        place: Place::Kernels,
        switch: 0,
        tick,
        tick_phase: 0,
        timer_wheel,
    }
}

type Life<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

fn run(sched: &Sched, lives: Vec<Life<'_>>) {
    let mut all: Vec<Life<'_>> = vec![Box::pin(async {})];
    all.extend(lives);
    for _ in &all {
        sched.spawn();
    }
    sched.run(&mut all, |_, _| {});
    assert_eq!(sched.ending(), None);
}

/// Computes for `us` microseconds, with a chance to be preempted after each.
async fn compute(s: &Sched, us: u64) {
    for _ in 0..us {
        s.charge(US);
        s.relax().await;
    }
}

/// A timeout of a jiffy (10 ms here) ends at the tick behind its full length: kernel timers do not
/// expire early.
#[test]
fn a_timeout_ends_at_the_tick_behind_it() {
    for (from, jiffies, until) in [(1, 1, 20), (10, 1, 20), (19, 1, 30), (21, 3, 60)] {
        let s = sched(None);
        let task = async {
            s.sleep(from * MS).await;
            s.schedule_timeout(jiffies).await;
            assert_eq!(s.now(), until * MS, "{jiffies} from {from} ms on");
            s.stop();
        };
        run(&s, vec![Box::pin(task)]);
    }
}

/// With `timer_wheel` a sleep of 63 ticks (of 1 ms) or more ends at a multiple of 8 ticks, one of
/// 504 or more at a multiple of 64, counted from 300 s before the machine booted; a shorter one
/// ends at the tick behind it.
#[test]
fn long_timers_expire_at_multiples_of_several_ticks() {
    for (from, ticks, exact, wheel) in [
        (3_500, 62, 66, 66),
        (3_500, 63, 67, 72),
        (8_500, 63, 72, 72),
        (9_500, 63, 73, 80),
        (500, 200, 201, 208),
        (500, 503, 504, 504),
        (500, 504, 505, 544),
        (500, 4031, 4032, 4064),
        (500, 5000, 5001, 5088),
    ] {
        for (timer_wheel, until) in [(false, exact), (true, wheel)] {
            let s = Sched::new(1, params(None, MS, timer_wheel), 8, Rng::new(1, "test"));
            let task = async {
                s.sleep(from * US).await;
                s.sleep_ticks(ticks * MS).await;
                assert_eq!(s.now(), until * MS, "{ticks} ticks from {from} us on");
                let ticket = s.ticket(0);
                let long = s.timer_expires(ticks * MS);
                assert!(!s.wait(0, ticket, Some(ticks * MS)).await);
                assert_eq!(s.now(), long);
                s.stop();
            };
            run(&s, vec![Box::pin(task)]);
        }
    }
}

/// A task that comes from a CPU which has computed for long is placed half a latency (3 ms) behind
/// the tasks of a CPU that has computed for 1 ms: at -2 ms (`place_entity`; the kernel's virtual
/// time wraps there). A task that wakes 3 ms later is then not far enough behind it to preempt, and
/// waits until its slice of 3 ms ends.
#[test]
fn a_task_may_be_placed_before_the_beginning_of_virtual_time() {
    let s = on_cpus(2, None, Place::Everywhere);
    let began = Cell::new(0);
    let short = async {
        compute(&s, 1000).await;
        s.sleep(102 * MS).await;
        began.set(s.now());
        s.stop();
    };
    let moved = async {
        s.sleep(100 * MS).await;
        assert_eq!(s.cpu(), 1, "the other CPU is busy");
        compute(&s, 20_000).await;
    };
    // The CPU's virtual time is updated when a task leaves the CPU.
    let busy = async {
        compute(&s, 50_000).await;
        s.sleep(10 * US).await;
        compute(&s, 300_000).await;
    };
    // Tasks 2 and 4 begin on CPU 0.
    let lives: Vec<Life<'_>> = vec![
        Box::pin(short),
        Box::pin(moved),
        Box::pin(async {}),
        Box::pin(busy),
    ];
    run(&s, lives);
    assert!(
        (105 * MS..108 * MS).contains(&began.get()),
        "{}",
        began.get()
    );
}

/// Runs a task that takes a turn without work whenever a queue is woken.
async fn idle(s: &Sched, queue: u32) {
    loop {
        let ticket = s.ticket(queue);
        s.wait(queue, ticket, None).await;
    }
}

/// Returns how many microseconds a helper waits for the CPU each time that a computing task wakes
/// it. In each of its turns the task wakes the helper after `before` microseconds, computes for
/// `after` more, and then sleeps for 20 ms; the helper computes for `work`.
fn waits(eevdf_slice: Option<u64>, turns: u64, before: u64, after: u64, work: u64) -> Vec<u64> {
    let s = sched(eevdf_slice);
    let (woken, waits) = (Cell::new(0), RefCell::new(Vec::new()));
    let helper = async {
        loop {
            let ticket = s.ticket(0);
            s.wait(0, ticket, None).await;
            waits.borrow_mut().push((s.now() - woken.get()) / US);
            compute(&s, work).await;
        }
    };
    let task = async {
        s.sleep(MS).await;
        for _ in 0..turns {
            compute(&s, before).await;
            woken.set(s.now());
            s.wake(0);
            compute(&s, after).await;
            s.sleep(20 * MS).await;
        }
        s.stop();
    };
    run(&s, vec![Box::pin(helper), Box::pin(task)]);
    waits.into_inner()
}

/// A running task is protected until its slice is over: a helper that is owed no time waits until
/// the task sleeps, but runs at once if the slice is over when it wakes. It is then owed the time
/// that it waited: the next times it runs at once, until that is used up.
#[test]
fn a_slice_protects_who_runs_and_waiting_is_repaid() {
    let slice = Some(700 * US);
    // The helper is woken behind the slice.
    assert!(waits(slice, 6, 900, 500, 100).iter().all(|&us| us <= 1));
    // The helper is woken within the slice: it waits for the 900 us that are left of the task's
    // turn, and is owed half of them less half of the time it runs then. This lasts for several
    // turns of 100 us beside the task, which cost 50 us each.
    let waits = waits(slice, 14, 100, 900, 100);
    assert!((890..=901).contains(&waits[0]), "{waits:?}");
    let at_once = waits[1..].iter().take_while(|&&us| us <= 1).count();
    assert!((7..=9).contains(&at_once), "{waits:?}");
    assert!((790..=901).contains(&waits[1 + at_once]), "{waits:?}");
}

/// A turn of a worker of the highest priority ends the running task's protection: the scheduler
/// picks anew, and the helper that waited for the end of the slice gets the CPU.
#[test]
fn a_turn_of_high_priority_ends_a_slice() {
    let first_wait = |worker: bool| {
        let s = sched(Some(700 * US));
        let (woken, waited) = (Cell::new(0), Cell::new(0));
        let helper = async {
            let ticket = s.ticket(0);
            s.wait(0, ticket, None).await;
            waited.set((s.now() - woken.get()) / US);
        };
        let task = async {
            s.sleep(MS).await;
            // The helper is woken within the task's slice and is owed no time.
            compute(&s, 100).await;
            woken.set(s.now());
            s.wake(0);
            compute(&s, 200).await;
            if worker {
                s.wake(1);
            }
            compute(&s, 5000).await;
            s.sleep(MS).await;
            s.stop();
        };
        let mut all: Vec<Life<'_>> = vec![Box::pin(helper), Box::pin(task), Box::pin(idle(&s, 1))];
        (0..all.len()).for_each(|_| {
            s.spawn();
        });
        s.set_highest_priority(2);
        s.run(&mut all, |_, _| {});
        waited.get()
    };
    let (slice, turn) = (first_wait(false), first_wait(true));
    assert!((200..=205).contains(&turn) && slice > 500, "{slice} {turn}");
}

/// A task that goes to sleep with plugged requests wakes their worker before it has left the CPU.
/// Against a mean run time dominated by the worker's weight the task owes time, stays queued until
/// it owes none, and the time it was owed is forgotten. So it waits out others' slices again and
/// again.
#[test]
fn what_a_sleeper_with_requests_was_owed_is_forgotten() {
    let waits = |worker: bool| {
        let s = sched(Some(700 * US));
        let (woken, waits) = (Cell::new(0), RefCell::new(Vec::new()));
        let helper = async {
            loop {
                let ticket = s.ticket(0);
                s.wait(0, ticket, None).await;
                waits.borrow_mut().push((s.now() - woken.get()) / US);
                compute(&s, 10).await;
                s.plugged(0, true);
            }
        };
        let task = async {
            s.sleep(MS).await;
            for _ in 0..8 {
                compute(&s, 100).await;
                woken.set(s.now());
                s.wake(0);
                compute(&s, 900).await;
                s.sleep(20 * MS).await;
            }
            s.stop();
        };
        let mut all: Vec<Life<'_>> = vec![Box::pin(helper), Box::pin(task), Box::pin(idle(&s, 1))];
        (0..all.len()).for_each(|_| {
            s.spawn();
        });
        s.set_highest_priority(2);
        if worker {
            s.set_plug_worker(1);
        }
        s.run(&mut all, |_, _| {});
        drop(all);
        waits.into_inner()
    };
    let (owed, forgotten) = (waits(false), waits(true));
    let long = |waits: &[u64]| waits.iter().filter(|&&us| us > 800).count();
    assert!(owed[0] > 800 && long(&owed) == 1, "{owed:?}");
    assert!(long(&forgotten) > 3, "{forgotten:?}");
}

/// From the moment a task asks for the CPU until it gets it, the CPU's clock stands still: this
/// time is charged to the new task, not to the one that had not finished. So a task whose wakeups
/// take effect late is owed more CPU time.
#[test]
fn a_clock_stands_still_while_the_cpu_changes_hands() {
    // After waking the helper the task cannot be preempted for `late` microseconds.
    let work = |late: u64| {
        let s = sched(Some(700 * US));
        let done = Cell::new(0);
        let helper = async {
            loop {
                let ticket = s.ticket(0);
                s.wait(0, ticket, None).await;
                compute(&s, 300).await;
            }
        };
        let task = async {
            s.sleep(MS).await;
            let end = s.now() + 200 * MS;
            while s.now() < end {
                compute(&s, 700).await;
                s.wake(0);
                s.charge(late * US);
                done.set(done.get() + 700 + late);
                s.relax().await;
            }
            s.stop();
        };
        run(&s, vec![Box::pin(helper), Box::pin(task)]);
        done.get()
    };
    // If this time were charged to the task, it would have to give it back turn by turn.
    assert!(work(200) > work(0), "{} {}", work(200), work(0));
}

/// CFS runs a task that has run less at once each time it wakes.
#[test]
fn cfs_prefers_who_sleeps() {
    let waits = waits(None, 6, 1500, 500, 100);
    // A new task is placed as if it had had its slice.
    assert!(waits[0] > 1, "{waits:?}");
    assert!(waits[1..].iter().all(|&us| us <= 1), "{waits:?}");
}

/// Tasks that never sleep share a CPU in equal parts.
#[test]
fn those_that_compute_share() {
    for slice in [None, Some(700 * US)] {
        let s = sched(slice);
        let done = [Cell::new(0u64), Cell::new(0), Cell::new(0)];
        let life = async |own: usize| {
            loop {
                compute(&s, 100).await;
                done[own].set(done[own].get() + 100);
                if s.now() > 3000 * MS {
                    s.stop();
                }
            }
        };
        run(
            &s,
            vec![Box::pin(life(0)), Box::pin(life(1)), Box::pin(life(2))],
        );
        let parts: Vec<u64> = done.iter().map(Cell::get).collect();
        let most = parts.iter().max().unwrap() - parts.iter().min().unwrap();
        assert!(most <= 20_000, "{slice:?}: {parts:?}");
    }
}

/// A task that runs beyond its share and then sleeps has no credit when it wakes, and no debt that
/// it could have paid while it slept.
#[test]
fn debts_end_with_sleep() {
    let s = sched(Some(700 * US));
    let order = RefCell::new(Vec::new());
    let hog = async {
        loop {
            compute(&s, 50).await;
        }
    };
    let sleeper = async {
        for _ in 0..20 {
            compute(&s, 5000).await;
            let from = s.now();
            s.sleep(30 * MS).await;
            let late = (s.now() - from - 30 * MS) / US;
            order.borrow_mut().push(late);
        }
        s.stop();
    };
    run(&s, vec![Box::pin(hog), Box::pin(sleeper)]);
    // The task runs within two slices or at the next tick.
    assert!(order.borrow().iter().all(|&us| us <= 10_001), "{order:?}");
}

/// CFS checks a slice only at timer ticks; with `sched_place` below 2 the slice ends exactly.
#[test]
fn slices_end_at_ticks() {
    let changes = |place| {
        let s = placing(None, place);
        let (last, changes) = (Cell::new(0), RefCell::new(Vec::new()));
        let life = async |own: usize| {
            loop {
                if last.replace(own) != own {
                    changes.borrow_mut().push(s.now() / US);
                }
                compute(&s, 1).await;
                if s.now() > 100 * MS {
                    s.stop();
                }
            }
        };
        run(&s, vec![Box::pin(life(1)), Box::pin(life(2))]);
        changes.into_inner()
    };
    let (kernels, exact) = (changes(Place::Kernels), changes(Place::Everywhere));
    // The first two entries are the beginnings; a change is observed one step behind the tick.
    assert!(
        kernels.len() > 8 && exact.len() > 30,
        "{kernels:?} {exact:?}"
    );
    assert!(
        kernels[2..].iter().all(|us| us % 10_000 <= 1),
        "{kernels:?}"
    );
    assert!(exact[2..].iter().any(|us| us % 10_000 > 1000), "{exact:?}");
}

/// A task that slept for long is placed half a latency behind the others when it wakes, even if the
/// CPU was idle then; with `sched_place` 0 it keeps the CPU until it has run for as long as they.
#[test]
fn a_sleeper_has_little_credit_on_an_idle_cpu() {
    let waited = |place| {
        let s = placing(None, place);
        let longest = Cell::new(0);
        let others = async {
            compute(&s, 100_000).await;
            let mut before = s.now() + 5 * MS;
            s.sleep(5 * MS).await;
            for _ in 0..50 {
                longest.set(longest.get().max((s.now() - before) / US));
                before = s.now();
                compute(&s, 1000).await;
            }
            s.stop();
        };
        let sleeper = async {
            s.sleep(102 * MS).await;
            loop {
                compute(&s, 100).await;
            }
        };
        run(&s, vec![Box::pin(others), Box::pin(sleeper)]);
        longest.get()
    };
    let [busy, everywhere, kernels] = [Place::Busy, Place::Everywhere, Place::Kernels].map(waited);
    assert!(kernels <= 21_000 && busy > 70_000, "{kernels} {busy}");
    assert!(everywhere <= 21_000, "{everywhere}");
}

/// A worker of the highest priority preempts the running task once that is microseconds ahead of
/// it, an ordinary task once that is the wakeup granularity ahead.
#[test]
fn a_weight_shortens_what_is_left_to_who_runs() {
    let waits = |highest: bool| {
        let s = sched(None);
        let (woken, longest) = (Cell::new(0), Cell::new(0));
        let worker = async {
            loop {
                let ticket = s.ticket(0);
                s.wait(0, ticket, None).await;
                longest.set(longest.get().max((s.now() - woken.get()) / US));
                // The worker computes more than the task, so it has no credit left.
                compute(&s, 400).await;
            }
        };
        let task = async {
            s.sleep(MS).await;
            for _ in 0..200 {
                compute(&s, 100).await;
                woken.set(s.now());
                s.wake(0);
                compute(&s, 100).await;
            }
            s.stop();
        };
        let mut all: Vec<Life<'_>> = vec![Box::pin(worker), Box::pin(task)];
        (0..all.len()).for_each(|_| {
            s.spawn();
        });
        if highest {
            s.set_highest_priority(0);
        }
        s.run(&mut all, |_, _| {});
        longest.get()
    };
    let (highest, equal) = (waits(true), waits(false));
    assert!(highest <= 1 && equal >= 100, "{highest} {equal}");
}

/// A running process starts three others in a row. In CFS a new task is placed as if it had had its
/// slice, which is the shorter the more tasks there are, so the last one started runs first; tasks
/// that existed before, and all of EEVDF's, run in order.
#[test]
fn the_last_process_begun_is_the_first_in_cfs() {
    let order = |eevdf_slice, anew: bool| {
        let s = sched(eevdf_slice);
        let begun = RefCell::new(Vec::new());
        let life = |nth: u32| {
            let (s, begun) = (&s, &begun);
            async move {
                // A task that existed before has had its slices, and such tasks wait in order.
                compute(s, 10_000).await;
                s.sleep(u64::from(nth) * 50 * MS).await;
                let ticket = s.ticket(0);
                if anew {
                    s.begins_anew();
                }
                s.wait(0, ticket, None).await;
                begun.borrow_mut().push(nth);
                compute(s, 5000).await;
            }
        };
        let parent = async {
            s.sleep(400 * MS).await;
            compute(&s, 50_000).await;
            s.wake(0);
            s.sleep(100 * MS).await;
            s.stop();
        };
        let mut lives: Vec<Life<'_>> = vec![Box::pin(parent)];
        lives.extend((1..4).map(|nth| -> Life<'_> { Box::pin(life(nth)) }));
        run(&s, lives);
        begun.into_inner()
    };
    assert_eq!(order(None, true), [3, 2, 1]);
    assert_eq!(order(None, false), [1, 2, 3]);
    assert_eq!(order(Some(3 * MS), true), [1, 2, 3]);
}

/// A timer set for a waiting task ends the wait at the tick behind it and does not run the task
/// before; a task that was woken meanwhile is not woken again by it.
#[test]
fn a_timer_is_set_without_waking_who_waits() {
    for woken in [false, true] {
        let s = sched(Some(700 * US));
        let ended = RefCell::new(Vec::new());
        let helper = async {
            loop {
                let ticket = s.ticket(0);
                let by_a_wake = s.wait(0, ticket, None).await;
                ended.borrow_mut().push((s.now() / MS, by_a_wake));
            }
        };
        let task = async {
            s.sleep(MS).await;
            s.set_timer(0, 50 * MS);
            compute(&s, 20_000).await;
            if woken {
                s.wake(0);
            }
            s.sleep(200 * MS).await;
            s.stop();
        };
        run(&s, vec![Box::pin(helper), Box::pin(task)]);
        let ended = ended.into_inner();
        match woken {
            false => {
                assert_eq!(ended.len(), 1, "{ended:?}");
                let (at, by_a_wake) = ended[0];
                assert!((51..=61).contains(&at) && !by_a_wake, "{ended:?}");
            }
            true => assert_eq!(ended, [(21, true)]),
        }
    }
}
