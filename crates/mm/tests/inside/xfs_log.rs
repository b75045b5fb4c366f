//! XFS's log and its shrinker, where they depend on the release: which task writes the items that
//! wait for the log, and what the shrinker waits for.

use super::bare::{Bare, recount};
use super::prelude::*;
use super::programs::file;
use super::world::{Engine, Job, Manners, block_on, run};
use crate::inodes::xfs::state::{LOCKED, PINNED, RECLAIMABLE};
use crate::reclaim::shrinker::Shrunk;

const MS: u64 = 1_000_000;

/// Makes an XFS of one group with 200 files in memory, each in a cluster of its own, and a log of
/// which an eighth holds `waits` inodes.
fn machine(policy: Policy, waits: u64) -> Engine {
    let mut bare = Bare::new(policy, 6000);
    bare.supers = vec![SuperInfo {
        inode_bytes: 960,
        ags: 1,
        sync_interval: 30 * SECOND,
    }];
    let mm = bare.build();
    mm.world.set_manners(Manners {
        log_bytes: 8 * 100 * waits,
        ..Manners::default()
    });
    for ino in 0..200 {
        assert_eq!(file(&mm, MappingKind::File, 0, 1), ino);
        mm.place_inode(ino, 0, (ino > 0).then_some(0), 0, 32 * ino);
        assert_eq!(block_on(&mm, mm.iget(ino)), Ok(()));
    }
    mm
}

/// Returns the policy of 6.12 with another way of pushing the log.
fn pushing(xfs_log_push: XfsLogPush) -> Policy {
    Policy {
        xfs_log_push,
        ..Policy::linux_6_12()
    }
}

/// Runs a job beside the daemons of an XFS; the job must end within a second.
fn beside<'a>(mm: &'a Engine, job: impl Future<Output = ()> + 'a) {
    let jobs: Vec<Job<'a>> = vec![
        Box::pin(job),
        Box::pin(mm.xfsaild(0)),
        Box::pin(mm.xfs_cil_worker(0)),
    ];
    assert_eq!(run(mm, jobs, 1, SECOND, recount), 1, "the job has ended");
}

/// Returns the number of pinned inodes.
fn pinned(mm: &Engine) -> usize {
    (0..200).filter(|&ino| mm.inode(ino).has(PINNED)).count()
}

/// docs/reference/shrinkers-and-xfs.md#background-push: once an eighth of the log waits, a worker
/// writes it although no task forces the log.
#[test]
fn a_worker_writes_what_waits() {
    for (push, left) in [
        (XfsLogPush::Forces, 100),
        (XfsLogPush::Background, 0),
        (XfsLogPush::Unwaited, 0),
    ] {
        let mm = machine(pushing(push), 100);
        beside(&mm, async {
            (0..99).for_each(|ino| mm.log_inode(ino));
            mm.world.sleep(50 * MS).await;
            assert_eq!(pinned(&mm), 99, "{push:?}: less than an eighth");
            mm.log_inode(99);
            mm.world.sleep(50 * MS).await;
            assert_eq!(pinned(&mm), left, "{push:?}");
        });
    }
}

/// The eighth of a large log is limited to 32 MiB since 5.7.
#[test]
fn what_waits_is_capped() {
    let waits = |push| {
        let mm = machine(pushing(push), 1 << 40);
        mm.cil_space(0).map(|(_, limit)| limit)
    };
    assert_eq!(waits(XfsLogPush::Forces), None);
    assert_eq!(waits(XfsLogPush::Background), Some(100 << 40));
    assert_eq!(waits(XfsLogPush::Unwaited), Some(32 << 20));
}

/// A pusher that meets pinned items writes the log itself; since 5.14 it leaves that to the worker
/// and continues.
#[test]
fn the_pusher_leaves_the_log_to_the_worker() {
    for (push, itself) in [
        (XfsLogPush::Forces, true),
        (XfsLogPush::Background, true),
        (XfsLogPush::Unwaited, false),
    ] {
        for worker in [false, true] {
            let mm = machine(pushing(push), 1000);
            mm.log_inode(5);
            block_on(&mm, mm.log_force(0));
            // Inode 5 is changed again: it is in the list of items and pinned.
            mm.log_inode(5);
            mm.ail_push_all(0);
            let mut jobs: Vec<Job<'_>> =
                vec![Box::pin(mm.world.sleep(200 * MS)), Box::pin(mm.xfsaild(0))];
            if worker {
                jobs.push(Box::pin(mm.xfs_cil_worker(0)));
            }
            assert_eq!(run(&mm, jobs, 1, SECOND, recount), 1);
            let logged = !mm.inode(5).has(PINNED);
            assert_eq!(
                logged,
                itself || worker,
                "{push:?}, with its worker: {worker}"
            );
        }
    }
}

/// A committing task waits for the worker while twice the limit waits for the log, since 5.7.
#[test]
fn committers_wait_for_the_worker() {
    for (push, waiting) in [
        (XfsLogPush::Forces, 200),
        (XfsLogPush::Background, 200),
        (XfsLogPush::Unwaited, 0),
    ] {
        let mm = machine(pushing(push), 100);
        beside(&mm, async {
            (0..199).for_each(|ino| mm.log_inode(ino));
            mm.transaction_committed(198).await;
            assert_eq!(pinned(&mm), 199, "{push:?}: less than twice the limit");
            mm.log_inode(199);
            mm.transaction_committed(199).await;
            assert_eq!(pinned(&mm), waiting, "{push:?}");
        });
    }
}

/// docs/reference/shrinkers-and-xfs.md#clean-inodes-only: the shrinker skips an inode whose lock
/// another task holds, and frees the others; the unmount leaves none.
#[test]
fn a_locked_inode_is_passed_by() {
    let policy = Policy {
        inode_reclaim: InodeReclaim::CleanOnly,
        ..pushing(XfsLogPush::Unwaited)
    };
    let mm = machine(policy, 1000);
    mm.log_inode(8);
    (1..200).for_each(|ino| mm.iput(ino));
    for _ in 0..3 {
        block_on(&mm, mm.prune_dentries(0, 0, 400));
        block_on(&mm, mm.prune_inodes(0, 0, 400));
    }
    assert_eq!(mm.reclaimable_inodes(0), 199);
    assert!(!mm.inode(7).set(LOCKED), "nobody else has it");
    let freed = block_on(&mm, mm.xfs_free_cached_objects(0, 400));
    assert_eq!((freed, mm.reclaimable_inodes(0)), (Shrunk::Freed(0), 2));
    assert!(mm.inode(7).has(RECLAIMABLE) && mm.inode(8).has(RECLAIMABLE));
    assert_eq!(mm.vm_event(VmEvent::XfsReclaimWait), 0);
    assert!(mm.inode(7).clear(LOCKED));
    beside(&mm, async {
        mm.xfs_quiesce(0).await;
        let walk = mm.xfs_unmount_walk(0).await;
        assert_eq!((walk.inodes, walk.left), (2, 0));
    });
    assert_eq!(mm.reclaimable_inodes(0), 0);
    recount(&mm);
}
