//! Forms that the mailing list threads name and no kernel has: each changes a run's result for the
//! reason given in its documentation. Also the stack depth of a direct reclaimer, which patch 1 is
//! about.

mod common;

use common::{
    Life, all_written, empty_zone, enter_dirty, enter_until, node, spec, wake_kswapd_and_wait,
};
use mm::Policy;
use mm::ZoneType;
use mm::cache::mapping::MappingKind;
use mm::cache::tree::Tag;
use mm::memory::task::{PF_MEMBIND, PF_SWAPWRITE};
use mm::memory::zone::Mark;
use mm::policy::{
    ExpireTarget, FlusherSlice, ReclaimFlush, ReclaimThrottle, ReclaimWriteback, ZoneWalk,
};
use mm::reclaim::kswapd::KSWAPD_FLAGS;
use mm::watch::vmstat::{VmEvent, ZoneStat};
use mm::world::Tasks;
use sim::SimMm;
use sim::filesystems as fs;
use sim::spec::{FsKind, RunSpec, Size, ZoneSpec};
use sim::stack::{Bottom, Top, depth};

fn build(spec: &RunSpec) -> SimMm<true> {
    let mm = sim::run::build(spec);
    fs::mount(&mm);
    mm
}

/// Runs tasks with their flags until one of them stops the run.
fn drive<'a>(mm: &'a SimMm<true>, tasks: Vec<(u32, Life<'a>)>) {
    common::drive(mm, tasks, 10_000, || {});
}

fn left(mm: &SimMm<true>, file: u32) -> u32 {
    mm.tagged_count(file, Tag::Dirty, u32::MAX)
}

fn counter(mm: &SimMm<true>, name: &str) -> Option<u64> {
    let all = mm.vmstat();
    all.into_iter().find(|(n, _)| n == name).map(|(_, v)| v)
}

// reclaim_throttle = "dirty-counted"

/// Returns `nr_vmscan_throttled`, where the counter exists, after direct reclaim met a tail of
/// dirty pages.
fn throttled(rule: ReclaimThrottle) -> Option<u64> {
    let mut s = empty_zone(
        64,
        Policy {
            reclaim_throttle: rule,
            direct_writeback: ReclaimWriteback::Never,
            ..Policy::linux_3_0()
        },
    );
    s.machine.sysctl.dirty_ratio = 100; // no task waits for the limit
    let mm = build(&s);
    let task = async {
        let file = mm.new_mapping(MappingKind::File, 0).expect("a file");
        enter_until(&mm, VmEvent::AllocStall, file, |index| index < 4000).await;
        mm.world.sched.stop();
    };
    drive(&mm, vec![(0, Box::pin(task))]);
    counter(&mm, "nr_vmscan_throttled")
}

/// The first version counts the batches after which it waits: all of them are dirty. The second
/// version and other kinds of throttling do not have this counter, which is not the same as 0.
#[test]
fn the_first_version_counts_how_often_it_throttles() {
    use ReclaimThrottle as R;
    let counted = throttled(R::DirtyCounted);
    assert!(counted.is_some_and(|n| n > 2), "{counted:?}");
    for rule in [R::None, R::Dirty, R::Writeback, R::ZoneFlags] {
        assert_eq!(throttled(rule), None, "{rule:?}");
    }
}

// reclaim_flush = "inode"

/// Returns the pages written of an older file on node 0 and of a younger one on node 1 when kswapd
/// of node 1 meets the younger file's pages and may not write; the inodes that writing was
/// requested for, and the pages that were written for that.
fn written_for_reclaim(rule: ReclaimFlush) -> (u32, u32, u64, u64) {
    const PAGES: u32 = 4096;
    let mut s = empty_zone(
        128,
        Policy {
            reclaim_flush: rule,
            direct_writeback: ReclaimWriteback::Never,
            kswapd_writeback: ReclaimWriteback::Never,
            ..Policy::linux_3_0()
        },
    );
    s.machine.nodes.push(node(32));
    // No task waits for the limit, and none writes because of it.
    s.machine.sysctl.dirty_ratio = 100;
    s.machine.sysctl.dirty_background_ratio = 99;
    let mm = build(&s);
    let bdi = mm.world.fs[0].bdi.get();
    let [old, young, clean] = [0; 3].map(|_| fs::create(&mm).expect("a file"));
    let task = async {
        for (file, node) in [(old, 0), (young, 1)] {
            mm.init_task(mm.world.task(), PF_MEMBIND, node);
            enter_dirty(&mm, file, PAGES).await;
        }
        wake_kswapd_and_wait(&mm, clean, 1).await;
    };
    let tasks: Vec<(u32, Life<'_>)> = vec![
        (KSWAPD_FLAGS, Box::pin(mm.kswapd(1))),
        (PF_SWAPWRITE, Box::pin(mm.flusher(bdi))),
        (0, Box::pin(task)),
    ];
    drive(&mm, tasks);
    (
        PAGES - left(&mm, old),
        PAGES - left(&mm, young),
        mm.vm_event(VmEvent::ReclaimFlush),
        mm.vm_event(VmEvent::ReclaimFlushWritten),
    )
}

/// A marked inode is written at once and completely, whatever its age; one that reclaim did not
/// meet waits.
#[test]
fn a_marked_inode_is_written_before_its_time() {
    assert_eq!(written_for_reclaim(ReclaimFlush::None), (0, 0, 0, 0));
    let (old, young, asked, written) = written_for_reclaim(ReclaimFlush::Inode);
    assert_eq!(old, 0, "nobody met it");
    assert_eq!(young, 4096, "all of it");
    assert!(asked >= 1 && u64::from(young) >= written && written >= 1024);
}

// expire_target

/// Returns the dirty pages of a file that expires while periodic work is under way, after that work
/// has ended.
fn left_of_one_that_expires_meanwhile(target: ExpireTarget) -> u32 {
    const MS: u64 = 1_000_000;
    let mut s = empty_zone(
        256,
        Policy {
            expire_target: target,
            ..Policy::linux_3_0()
        },
    );
    s.machine.sysctl.dirty_ratio = 100;
    s.machine.sysctl.dirty_background_ratio = 99;
    s.machine.sysctl.dirty_expire_centisecs = 100;
    let mm = build(&s);
    let bdi = mm.world.fs[0].bdi.get();
    let [large, small] = [0; 2].map(|_| fs::create(&mm).expect("a file"));
    let task = async {
        enter_dirty(&mm, large, 45_000).await;
        // The flusher wakes at 5 s, when the small file is 0.9 s old. The part of the large file
        // that the queue has no room for takes a second.
        mm.world.sched.sleep(4100 * MS - mm.world.now()).await;
        enter_dirty(&mm, small, 16).await;
        mm.world.sched.sleep(8000 * MS - mm.world.now()).await;
        mm.world.sched.stop();
    };
    let tasks: Vec<(u32, Life<'_>)> = vec![
        (PF_SWAPWRITE, Box::pin(mm.flusher(bdi))),
        (0, Box::pin(task)),
    ];
    drive(&mm, tasks);
    assert_eq!(left(&mm, large), 0, "{target:?}");
    left(&mm, small)
}

/// With 3.0's target, periodic work never considers files that expire while it runs; with a moving
/// target it does.
#[test]
fn a_moving_target_takes_what_expires_meanwhile() {
    assert_eq!(
        left_of_one_that_expires_meanwhile(ExpireTarget::AtStart),
        16
    );
    assert_eq!(left_of_one_that_expires_meanwhile(ExpireTarget::Moving), 0);
    assert_eq!(
        left_of_one_that_expires_meanwhile(ExpireTarget::Background),
        0
    );
}

/// Returns the pages that background work, which ends below its limit, writes of a file 20 s old
/// and of a new one.
fn written_in_the_background(target: ExpireTarget, slice: FlusherSlice) -> [u32; 2] {
    const PAGES: u32 = 5000;
    let mut s = empty_zone(
        256,
        Policy {
            expire_target: target,
            flusher_slice: slice,
            ..Policy::linux_3_0()
        },
    );
    s.machine.sysctl.dirty_ratio = 100;
    // A tenth of 65,536 pages is more than one of the files has, and less than both.
    s.machine.sysctl.dirty_background_ratio = 10;
    let mm = build(&s);
    let bdi = mm.world.fs[0].bdi.get();
    let files = [0; 2].map(|_| fs::create(&mm).expect("a file"));
    let task = async {
        enter_dirty(&mm, files[0], PAGES).await;
        mm.world.sched.sleep(20_000_000_000).await;
        enter_dirty(&mm, files[1], PAGES).await;
        // The flusher wakes every 5 s, when the older file is not yet 30 s old.
        mm.world.sched.sleep(6_000_000_000).await;
        mm.world.sched.stop();
    };
    let tasks: Vec<(u32, Life<'_>)> = vec![
        (PF_SWAPWRITE, Box::pin(mm.flusher(bdi))),
        (0, Box::pin(task)),
    ];
    drive(&mm, tasks);
    files.map(|file| PAGES - left(&mm, file))
}

/// Background work takes all dirty inodes in turns, 1024 pages of each. With the published target
/// it halves the age (30 s, 15 s) until an inode reaches it, and continues with the old file only:
/// its pages are those that reclaim meets first.
#[test]
fn background_work_with_a_moving_target_stays_with_the_old_file() {
    let [old, young] = written_in_the_background(ExpireTarget::Moving, FlusherSlice::Shared);
    assert!(old > 1000 && young >= 1024, "{old} {young}");
    let [old, young] = written_in_the_background(ExpireTarget::Background, FlusherSlice::Shared);
    assert!(old > 3000 && young == 0, "{old} {young}");
}

// zone_walk

/// Returns the free pages of the lower zone when kswapd begins to work for the higher one, the
/// lower zone's low watermark, and the pages handed out until then.
fn free_below_at_the_first_wake(walk: ZoneWalk) -> (u64, u64, u32) {
    let mut s = empty_zone(
        64,
        Policy {
            zone_walk: walk,
            ..Policy::linux_3_0()
        },
    );
    s.machine.nodes[0].zones.push(ZoneSpec {
        zone: ZoneType::Normal,
        size: Size(64 << 20),
    });
    s.machine.sysctl.lowmem_reserve_ratio = [0; 3];
    let mm = build(&s);
    let low = mm.zones[0].mark(Mark::Low);
    let mut seen = (0, 0, 0);
    let task = async {
        let file = mm.new_mapping(MappingKind::File, 0).expect("a file");
        let pages = enter_until(&mm, VmEvent::PageOutRun, file, |_| false).await;
        seen = (mm.zone_stat(0, ZoneStat::NrFreePages), low, pages);
        mm.world.sched.stop();
    };
    let tasks: Vec<(u32, Life<'_>)> =
        vec![(KSWAPD_FLAGS, Box::pin(mm.kswapd(0))), (0, Box::pin(task))];
    drive(&mm, tasks);
    seen
}

/// The allocator tries all zones before it wakes kswapd, as the review says: the lower zone is then
/// down to its low watermark. With one zone ahead, kswapd works while nearly all of the lower zone
/// is free.
#[test]
fn kswapd_is_woken_one_zone_ahead() {
    let (free, low, pages) = free_below_at_the_first_wake(ZoneWalk::AllZones);
    assert!(
        free <= low + 64 && pages > 30_000,
        "{free} {low} after {pages}"
    );
    let (free, _, pages) = free_below_at_the_first_wake(ZoneWalk::OneZoneAhead);
    assert!(
        free > 15_000 && (14_000..17_500).contains(&pages),
        "{free} after {pages}"
    );
}

// direct_reclaim_stack_*

/// Returns the bytes of the deepest stack of a direct reclaimer that meets a dirty tail, and of the
/// deepest one that reached a filesystem.
fn stacks(rule: ReclaimWriteback, filesystem: FsKind) -> [u32; 2] {
    let mut s = empty_zone(
        64,
        Policy {
            direct_writeback: rule,
            ..Policy::linux_3_0()
        },
    );
    s.filesystem = filesystem;
    s.machine.sysctl.dirty_ratio = 100; // no task waits for the limit
    let mm = build(&s);
    let task = async {
        let file = fs::create(&mm).expect("a file");
        enter_until(&mm, VmEvent::AllocStall, file, |index| index < 4096).await;
        all_written(&mm).await;
        mm.world.sched.stop();
    };
    drive(&mm, vec![(0, Box::pin(task))]);
    let figures = mm.world.stack.figures();
    let of = |name: &str| figures.iter().find(|f| f.0 == name).expect("a figure").1;
    [
        of("direct_reclaim_stack_max"),
        of("direct_reclaim_stack_filesystem"),
    ]
}

/// With 3.0's rule, direct reclaim puts a filesystem's stack on top of the allocating task's, if
/// the filesystem writes: it allocates a block for the page and calls down to the disk. With
/// filesystems that refuse, and with patch 1, the stack is only as deep as freeing a page makes it;
/// with patch 1 no filesystem is even called.
#[test]
fn patch_1_keeps_two_deep_stacks_apart() {
    use ReclaimWriteback as R;
    let at = |top| depth(Bottom::Other, top);
    let (bare, deep) = (at(Top::Free), at(Top::NewBlocks));
    assert_eq!(stacks(R::Always, FsKind::Ext3), [deep, deep]);
    assert_eq!(stacks(R::Never, FsKind::Ext3), [bare, 0]);
    for refuses in [FsKind::Xfs, FsKind::Ext4, FsKind::Btrfs] {
        assert_eq!(stacks(R::Always, refuses), [bare, at(Top::Refused)]);
        assert_eq!(stacks(R::Never, refuses), [bare, 0]);
    }
    assert!(deep > bare + 2048);
}

/// A task that writes or reads on a small node reclaims within that system call, and the figures
/// tell the two apart.
#[test]
fn the_bottom_of_a_stack_is_the_call_that_allocates() {
    let mut m = common::machine(768);
    m.nodes.push(node(64));
    let of = |line: &str| {
        let mut s = spec(m.clone(), FsKind::Ext3, line);
        s.membind = Some(1);
        s.policy = Policy {
            direct_writeback: ReclaimWriteback::Never,
            ..Policy::linux_3_0()
        };
        let r = common::run(&s);
        assert_eq!(r.outcome, sim::Outcome::Completed);
        let bytes = |name: &str| r.metrics[&format!("direct_reclaim_stack_{name}")].value as u32;
        ["max", "read", "write", "fault", "filesystem"].map(bytes)
    };
    let [write, read] = [Bottom::Write, Bottom::Read].map(|bottom| depth(bottom, Top::Free));
    let writes = "dd if=/dev/zero of=b bs=64k count=1600";
    assert_eq!(of(writes), [write, 0, write, 0, 0]);
    let reads = "dd if=/dev/zero of=a bs=64k count=800; dd if=b of=/dev/null bs=64k";
    let both = format!("{writes}; sleep 40; {reads}");
    assert_eq!(of(&both), [write, read, write, 0, 0]);
}
