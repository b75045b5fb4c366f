//! The record of which task waits for which, in a scripted situation and in whole runs.
#![recursion_limit = "256"]

mod common;

use common::{Life, drive, machine, run, spec};
use mm::world::Tasks;
use mm::world::{Waited, WaitedKind};
use sim::filesystems as fs;
use sim::spec::FsKind;

/// One task holds a page's lock and writes to the disk; three others wait for the page.
#[test]
fn tasks_behind_a_page_lock_are_a_crowd_that_ends_at_the_disk() {
    let s = spec(machine(64), FsKind::Xfs, "sleep 1");
    let mm = sim::run::build::<true>(&s);
    fs::mount(&mm);
    let file = fs::create(&mm).expect("room");
    let pfn = std::cell::Cell::new(None);
    let holder = async {
        fs::write(&mm, file, 0, 4096).await.expect("room");
        let page = mm.find_page(file, 0).expect("it was written");
        mm.lock_page(page).await;
        pfn.set(Some(page));
        let w = &mm.world;
        w.holds(WaitedKind::PageLock, Waited::page(file, 0));
        assert!(w.write_raw(fs::DEVICE, 100_000, 8, true).await);
        w.lets_go(WaitedKind::PageLock, Waited::page(file, 0));
        mm.unlock_page(page);
    };
    let waiter = |last: bool| {
        let (mm, pfn) = (&mm, &pfn);
        async move {
            while pfn.get().is_none() {
                mm.world.sched.sleep(1000).await;
            }
            mm.wait_on_page_locked(pfn.get().expect("locked")).await;
            if last {
                mm.world.sched.sleep(1_000_000_000).await;
                mm.world.sched.stop();
            }
        }
    };
    let tasks: Vec<(u32, Life<'_>)> = vec![
        (0, Box::pin(holder)),
        (0, Box::pin(waiter(false))),
        (0, Box::pin(waiter(false))),
        (0, Box::pin(waiter(true))),
    ];
    mm.world.sched.waiting.set_name(1, "writer");
    drive(&mm, tasks, 1_000_000_000, || {});
    let w = mm.world.sched.waiting.sums(mm.world.sched.now());
    let crowd = &w.crowds[0];
    assert_eq!(crowd.object, format!("lock of page 0 of file {file}"));
    assert_eq!((crowd.most, crowd.members.len()), (3, 4));
    let last = &crowd.members[3];
    assert_eq!(
        (&last.task[..], &last.waits_on[..]),
        ("writer 1", "disk 0: write")
    );
    assert!(crowd.task_ns > 2 * crowd.lasted_ns && crowd.task_ns <= 3 * crowd.lasted_ns);
    let kind = |name: &str| {
        w.kinds
            .iter()
            .find(|k| k.kind == name)
            .expect("it occurred")
    };
    assert!(kind("page lock").count >= 3);
    assert_eq!(kind("write").count, 1);
}

/// The recorded waits agree with the accounts of tasks' time, on every filesystem.
#[test]
fn waits_of_whole_runs() {
    for fs in common::ALL_FS {
        let line = "dd if=/dev/zero of=a bs=64k count=700 conv=fsync & \
                    dd if=/dev/zero of=b bs=64k count=700; wait";
        let s = spec(machine(48), fs, line);
        let r = run(&s);
        assert_eq!(r.outcome, sim::Outcome::Completed, "{fs:?}");
        let waits = r.waits.as_ref().expect("the engine tells them");
        let told: u64 = waits.kinds.iter().map(|k| k.total_ns).sum();
        let split = r.tasks.iter().map(|t| t.split());
        let booked: u64 = split
            .map(|t| t.device + t.throttle + t.lock + t.server)
            .sum();
        assert!(!waits.kinds.is_empty(), "{fs:?}");
        assert!(told <= booked + booked / 100, "{fs:?}: {told} of {booked}");
        assert!(told >= booked / 10 * 9, "{fs:?}: {told} of {booked}");
        let columns = r.series.columns.iter().filter(|c| c.name == "waiting");
        assert!(columns.count() > 0, "{fs:?}");
        assert!(waits.crowds.iter().all(|c| c.members.len() <= 65));
        assert_eq!(run(&s).waits, r.waits, "{fs:?}");
    }
}
