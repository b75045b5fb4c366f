//! The OOM killer: which process is chosen, what it may take, and which tasks wait for its end.

use super::bare::{Bare, recount};
use super::prelude::*;
use super::world::Engine;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Makes a machine of 2000 pages without swap.
fn machine(sysctl: impl Fn(&mut Sysctl)) -> Engine {
    let mut bare = Bare::new(Policy::linux_3_0(), 2000);
    sysctl(&mut bare.sysctl);
    bare.build()
}

/// Makes a task run a process that has `pages` anonymous pages.
fn process(mm: &Engine, task: u32, (pid, parent): (u32, u32), pages: u32) {
    mm.world.run_as(task);
    mm.begin_process(pid, parent);
    let Some(region) = (pages > 0).then(|| mm.new_region(Backing::Anon, pages, Advice::Normal))
    else {
        return;
    };
    for page in 0..pages {
        let mut touch = pin!(mm.touch(region.expect("room"), page, true));
        // The task relaxes once after its fault.
        let mut poll = || touch.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(poll(), Poll::Pending);
        assert_eq!(poll(), Poll::Ready(Touched::Ok));
    }
}

/// Returns the numbers of the processes that were killed.
fn killed(mm: &Engine) -> Vec<u32> {
    mm.world.kills.borrow().iter().map(|k| k.pid).collect()
}

/// Returns the tasks that are marked as dying.
fn dying(mm: &Engine) -> Vec<u32> {
    let dies = |t: &u32| mm.tasks[*t as usize].flags() & PF_DYING != 0;
    (0..8).filter(dies).collect()
}

#[test]
fn who_has_most_dies_with_all_threads() {
    let mm = machine(|_| {});
    process(&mm, 1, (10, 0), 30);
    process(&mm, 2, (11, 0), 50);
    process(&mm, 3, (12, 0), 40);
    process(&mm, 4, (11, 0), 0);
    mm.world.run_as(1);
    assert!(!mm.out_of_memory(Gfp::USER, 0));
    assert_eq!(killed(&mm), [11]);
    assert_eq!(
        (dying(&mm), mm.world.signals.take()),
        (vec![2, 4], vec![2, 4])
    );
    let kill = mm.world.kills.borrow()[0].clone();
    assert_eq!((kill.asker, kill.order), (1, 0));
    insta::assert_snapshot!("report", kill.text);
    // Until it has ended, no other process is killed.
    assert!(!mm.out_of_memory(Gfp::USER, 0));
    assert_eq!(killed(&mm), [11]);
    for task in [2, 4] {
        mm.world.run_as(task);
        mm.end_process();
    }
    mm.world.run_as(1);
    assert!(!mm.out_of_memory(Gfp::USER, 0));
    assert_eq!(killed(&mm), [11, 12]);
    recount(&mm);
}

/// A child with memory of its own is killed in its parent's place: the child that has most.
#[test]
fn a_child_is_sacrificed() {
    for (children, victim) in [([20, 25], 12), ([20, 0], 11), ([0, 0], 10)] {
        let mm = machine(|_| {});
        process(&mm, 1, (10, 0), 50);
        process(&mm, 2, (11, 10), children[0]);
        process(&mm, 3, (12, 10), children[1]);
        process(&mm, 4, (13, 0), 40);
        assert!(!mm.out_of_memory(Gfp::USER, 0));
        assert_eq!(killed(&mm), [victim]);
    }
}

/// A victim takes pages below every watermark; other tasks do not.
#[test]
fn the_reserves_are_for_the_dying() {
    let mm = machine(|s| s.min_free_kbytes = Some(400));
    process(&mm, 1, (10, 0), 100);
    let take = |task| {
        mm.world.run_as(task);
        let alloc = pin!(mm.alloc_page(Gfp::KERNEL));
        match alloc.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(page) => page,
            Poll::Pending => None,
        }
    };
    mm.world.run_as(2);
    while mm.alloc_pages_fast(Gfp::KERNEL, 0, 0).is_some() {}
    let free = || mm.zone_stat(0, ZoneStat::NrFreePages) + mm.pcp_pages(0);
    while take(2).is_some() {}
    let left = free();
    assert!(left > 40, "{left}");
    mm.world.run_as(1);
    mm.world.kills.borrow_mut().clear();
    assert!(take(1).is_none() || !dying(&mm).is_empty());
    if dying(&mm).is_empty() {
        assert!(!mm.out_of_memory(Gfp::KERNEL, 0));
    }
    assert_eq!(dying(&mm), [1]);
    let taken = (0..1000).take_while(|_| take(1).is_some()).count() as u64;
    assert!(taken >= left, "{taken} of {left}");
}

/// If no process may be killed, or a killed one does not end, the run ends.
#[test]
fn nobody_to_kill_ends_the_run() {
    let why = |mm: &Engine| {
        assert!(mm.out_of_memory(Gfp::USER, 3));
        let report = mm.world.oom.borrow().clone().expect("a report");
        report.lines().next().map(str::to_owned)
    };
    let mm = machine(|_| {});
    assert_eq!(
        why(&mm).as_deref(),
        Some("task 0 asked for 2^3 pages; no process can be killed")
    );
    let mm = machine(|s| s.panic_on_oom = Some(1));
    process(&mm, 1, (10, 0), 10);
    assert_eq!(
        why(&mm).as_deref(),
        Some("task 1 asked for 2^3 pages; vm.panic_on_oom")
    );
    assert!(killed(&mm).is_empty());
    let mm = machine(|_| {});
    process(&mm, 1, (10, 0), 10);
    process(&mm, 2, (11, 0), 20);
    assert!(!mm.out_of_memory(Gfp::USER, 0));
    mm.world.charge_ns(61 * SECOND);
    assert_eq!(
        why(&mm).as_deref(),
        Some("task 2 asked for 2^3 pages; a process that was killed does not end")
    );
}

/// `vm.oom_kill_allocating_task`: the process that asks is killed, if it can be.
#[test]
fn who_asks_dies_where_a_sysctl_says_so() {
    let mm = machine(|s| s.oom_kill_allocating_task = Some(1));
    process(&mm, 1, (10, 0), 50);
    process(&mm, 2, (11, 0), 10);
    assert!(!mm.out_of_memory(Gfp::USER, 0));
    assert_eq!(killed(&mm), [11]);
    mm.end_process();
    // A task of the kernel asks, which cannot be killed.
    mm.world.run_as(3);
    assert!(!mm.out_of_memory(Gfp::USER, 0));
    assert_eq!(killed(&mm), [11, 10]);
}
