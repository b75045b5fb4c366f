//! Shrinkers and inode caches: which objects memory pressure frees, which tasks wait for that, and
//! that no inode is lost.

mod common;

use common::{ALL_FS, disk, machine, run, spec};
use mm::Policy;
use mm::policy::{InodeReclaim, ShrinkerCore};
use mm::world::WaitedKind;
use mm::world::event::Event;
use proptest::prelude::*;
use sim::run::traced;
use sim::spec::{DiskKind, FsKind, RunSpec, Size};
use sim::{Control, Outcome, RunResult};

/// Makes small files by several processes; their inodes do not fit into memory.
const CREATE: &str = "fs_mark -d a -d b -d c -d d -D 8 -N 64 -n 1500 -L 2 -S0 -s 4096 -w 4096 -k";

fn creating(policy: Policy, command: &str) -> RunSpec {
    let mut m = machine(40);
    m.cpus = 4;
    m.disk = disk(DiskKind::Disk);
    // The log is a 2048th of the disk, and its worker writes only once an eighth of the log waits.
    m.disk.capacity = Size(512 << 30);
    let mut s = spec(m, FsKind::Xfs, command);
    s.policy = policy;
    s.check_ns = 500_000_000;
    s
}

fn non_blocking() -> Policy {
    Policy {
        inode_reclaim: InodeReclaim::NonBlocking,
        ..Policy::linux_4_9()
    }
}

fn completed(s: &RunSpec) -> RunResult {
    let r = run(s);
    assert_eq!(r.outcome, Outcome::Completed, "{}", s.policy.name);
    r
}

/// Every form of the shrinkers frees dentries, inodes and, eventually, their pages.
#[test]
fn objects_give_way_to_pages() {
    for policy in [
        Policy::linux_3_0(),
        Policy::linux_3_1(),
        Policy::linux_3_16(),
        Policy::linux_4_9(),
        Policy {
            shrinker_core: ShrinkerCore::ByPriority,
            ..Policy::linux_4_9()
        },
    ] {
        let core = policy.shrinker_core;
        let r = completed(&creating(policy, CREATE));
        let get = |name: &str| r.counters[name];
        assert!(get("slabs_scanned") > 0, "{core:?}");
        // By priority alone, 4/2 of a 4096th of 10,000 objects is scanned at a time: hardly a
        // batch.
        let by_priority = core == ShrinkerCore::ByPriority;
        let freed = get("inodes_freed");
        assert!(by_priority || freed > 200, "{core:?}: {freed}");
        assert_eq!(get("xfs_inodes_reclaimed"), get("inodes_freed"), "{core:?}");
        // The rest of 12,000 inodes and dentries takes less than memory.
        assert!(get("nr_slab_reclaimable") < 9000, "{core:?}");
    }
}

/// Inodes of other filesystems are freed with their last use; pages of unused inodes are freed with
/// them.
#[test]
fn inodes_of_every_filesystem_are_freed() {
    let mut stolen = 0;
    for fs in ALL_FS {
        let mut s = creating(Policy::linux_3_16(), CREATE);
        s.filesystem = fs;
        let r = completed(&s);
        let freed = r.counters["inodes_freed"];
        assert!(freed > 50, "{fs:?}: {freed}");
        stolen += r.counters["pginodesteal"] + r.counters["kswapd_inodesteal"];
    }
    assert!(stolen > 0);
}

/// *xfs-inode-reclaim*: before the patch kswapd waits for the I/O of inodes that it scans, after it
/// never; direct reclaim waits less.
#[test]
fn kswapd_never_waits_with_the_patch() {
    let waits = |policy: Policy| {
        let s = creating(policy, CREATE);
        let (r, recorded) = traced(&s, &Control::default());
        assert_eq!(r.outcome, Outcome::Completed);
        let of = |kswapd: bool| {
            let all = recorded.events.iter();
            all.filter(|(_, task, e)| {
                matches!(e, Event::XfsInodeWait { .. }) && recorded.kswapds.contains(task) == kswapd
            })
            .count() as u64
        };
        assert_eq!(recorded.rings_lost, 0);
        assert_eq!(of(true), r.counters["kswapd_inode_wait"]);
        assert_eq!(of(true) + of(false), r.counters["xfs_reclaim_wait"]);
        let us: u64 = recorded
            .events
            .iter()
            .filter_map(|(_, _, e)| match e {
                Event::XfsInodeWait { usec_delayed, .. } => Some(*usec_delayed),
                _ => None,
            })
            .sum();
        (of(true), us)
    };
    let before = waits(Policy::linux_4_9());
    let after = waits(non_blocking());
    assert!(before.0 > 0 && before.1 > 1_000_000, "{before:?}");
    assert_eq!(after.0, 0, "{before:?} {after:?}");
    assert!(after.1 < before.1 / 2, "{before:?} {after:?}");
}

/// With more reclaimers than groups, the excess queues for the first group before the patch; after
/// it the shrinker returns without progress.
#[test]
fn with_all_groups_busy_nobody_queues_any_more() {
    let group_waits = |policy: Policy| {
        let mut s = creating(policy, CREATE);
        s.params.xfs_ags = 1.0;
        s.machine.nodes[0].zones[1].size = Size(20 << 20);
        let (r, recorded) = traced(&s, &Control::default());
        assert_eq!(r.outcome, Outcome::Completed);
        let all = recorded.events.iter();
        all.filter(|(_, _, e)| {
            matches!(
                e,
                Event::XfsInodeWait {
                    what: WaitedKind::AgLock,
                    ..
                }
            )
        })
        .count()
    };
    let (before, after) = (
        group_waits(Policy::linux_4_9()),
        group_waits(non_blocking()),
    );
    assert!(before > 0, "{before} {after}");
    assert_eq!(after, 0, "{before} {after}");
}

/// Walking a tree that is larger than memory reads every inode; removing the tree leaves none.
#[test]
fn trees_are_walked_and_removed() {
    for fs in ALL_FS {
        let line = format!("{CREATE}; find a b c d; rm -r a b c d");
        let mut s = creating(Policy::linux_4_9(), &line);
        s.filesystem = fs;
        let r = completed(&s);
        let metric = |name: &str| r.metrics[name].value;
        assert_eq!(metric("names_walked"), metric("names_removed"), "{fs:?}");
        assert!(metric("names_walked") > 12_000.0, "{fs:?}");
    }
}

/// The background reclaimer frees clean inodes even without memory pressure; its period is a sixth
/// of the log's interval.
#[test]
fn the_background_reclaimer_has_one_tunable() {
    let left = |interval: f64| {
        // Inodes become reclaimable by unlinking here; memory is plentiful.
        let line = format!("{CREATE}; rm -r a b c d; sleep 20");
        let mut s = creating(Policy::linux_4_9(), &line);
        s.machine.nodes[0].zones[1].size = Size(512 << 20);
        s.params.xfs_log_interval = interval;
        let r = completed(&s);
        r.counters["xfs_inodes_reclaimed"]
    };
    let (often, seldom) = (left(6e9), left(6e11));
    assert!(often > 10_000, "{often} {seldom}");
    assert!(seldom < often / 2, "{often} {seldom}");
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let core = prop_oneof![
        Just(ShrinkerCore::Global),
        Just(ShrinkerCore::Batched),
        Just(ShrinkerCore::PerNode),
        Just(ShrinkerCore::ByPriority),
    ];
    let base = prop_oneof![
        Just(Policy::linux_3_0()),
        Just(Policy::linux_3_16()),
        Just(Policy::linux_4_9()),
        Just(Policy::linux_6_12()),
    ];
    (core, 0..3, base).prop_map(|(shrinker_core, form, base)| Policy {
        shrinker_core,
        inode_reclaim: match form {
            0 => InodeReclaim::CleanOnly,
            1 if shrinker_core != ShrinkerCore::Global => InodeReclaim::NonBlocking,
            _ => InodeReclaim::Blocking,
        },
        ..base
    })
}

/// Combinations of workloads that make, read, walk and remove files at the same time.
fn any_workload() -> impl Strategy<Value = String> {
    let piece = |i: u32| {
        prop_oneof![
            Just(format!(
                "fs_mark -d p{i} -D 4 -N 16 -n 600 -L 1 -S0 -s 4096 -w 4096"
            )),
            Just(format!(
                "fs_mark -d p{i} -D 4 -N 16 -n 600 -L 1 -S0 -s 4096 -w 4096 -k; find p{i}; rm -r p{i}"
            )),
            Just(format!(
                "fs_mark -d p{i} -D 2 -N 8 -n 40 -L 2 -S1 -s 20000 -w 4096 -k"
            )),
            Just(format!(
                "simoop -t 2 -m 1 -M 1 -n 200 -f 1 -r 2 -i 1 -D 1 t{i}"
            )),
        ]
    };
    (piece(0), piece(1), piece(2)).prop_map(|(a, b, c)| format!("{a} & {b} & {c} & wait"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 20, ..ProptestConfig::default() })]

    /// Random interleavings: no inode is freed while dirty, flushed twice at once, or lost. The
    /// engine asserts the first two, the recount finds the third.
    #[test]
    fn inodes_are_never_lost(
        policy in any_policy(),
        workload in any_workload(),
        mib in 26u64..48,
        cpus in 1u32..5,
        ags in 0u32..6,
        fs in prop_oneof![3 => Just(FsKind::Xfs), 1 => Just(FsKind::Ext4), 1 => Just(FsKind::Btrfs)],
        kind in prop_oneof![Just(DiskKind::Disk), Just(DiskKind::Ssd), Just(DiskKind::UsbFlash)],
        seed in any::<u64>(),
    ) {
        let mut s = creating(policy, &workload);
        s.machine.nodes[0].zones[1].size = Size((mib - 16) << 20);
        s.machine.cpus = cpus;
        s.machine.disk.kind = kind;
        s.filesystem = fs;
        s.params.xfs_ags = f64::from(ags);
        s.params.xfs_log_interval = 2e9;
        s.params.xfs_buffers = 64.0;
        s.seed = seed;
        s.check_ns = 100_000_000;
        s.time_limit_ns = 600_000_000_000;
        let r = run(&s);
        prop_assert!(
            matches!(r.outcome, Outcome::Completed | Outcome::TimeLimit | Outcome::Oom { .. }),
            "{:?}", r.outcome
        );
    }
}

/// More inodes than memory holds, on an SSD under a kernel of today; at most an eighth of its log
/// of 64 MiB waits to be written.
fn full_of_inodes(policy: Policy) -> RunSpec {
    let line = "fs_mark -d a -d b -d c -d d -D 50 -N 200 -n 25000 -L 1 -S0 -s 4096 -k";
    let mut s = creating(policy, line);
    s.machine.nodes[0].zones[1].size = Size(240 << 20);
    s.machine.disk = disk(DiskKind::Ssd);
    s.machine.disk.capacity = Size(16 << 30);
    s.time_limit_ns = 120_000_000_000;
    s.check_ns = 0;
    s
}

/// Returns the number of times that reclaimers waited for inodes, the longest wait of an allocation
/// in microseconds, and the run.
fn inode_waits(policy: Policy) -> (usize, f64, RunResult) {
    let (r, recorded) = traced(&full_of_inodes(policy), &Control::default());
    let waits = recorded.events.iter();
    let waits = waits
        .filter(|(_, _, e)| matches!(e, Event::XfsInodeWait { .. }))
        .count();
    (waits, r.metrics["alloc_wait_max"].value, r)
}

/// docs/reference/shrinkers-and-xfs.md#clean-inodes-only: since 5.9 no shrinker waits for a group,
/// an inode, its cluster or the log, and none writes; with the form of 2016 direct reclaim does, on
/// the same machine.
#[test]
fn nobody_waits_in_the_shrinker_since_5_9() {
    let (waits, longest, r) = inode_waits(Policy::linux_6_12());
    assert_eq!(r.outcome, Outcome::Completed);
    assert_eq!((waits, r.counters["xfs_inode_writes"]), (0, 0));
    assert!(r.counters["xfs_inodes_reclaimed"] > 10_000);
    let (waits, _, _) = inode_waits(Policy {
        inode_reclaim: InodeReclaim::NonBlocking,
        ..Policy::linux_6_12()
    });
    assert!(waits > 0);
    let (_, before, _) = inode_waits(Policy::linux_4_9());
    assert!(longest <= before, "{longest} us, with 4.9 {before} us");
}

/// Returns a machine of 48 MiB with 8,000 inodes in memory at boot, on which one process fills
/// memory with files that stay.
fn booted(filesystem: FsKind, inodes: u32, dentries: u32) -> RunSpec {
    let mut m = machine(48);
    (m.boot.inodes, m.boot.dentries) = (inodes, dentries);
    m.disk = disk(DiskKind::Ssd);
    let mut s = spec(m, filesystem, "fs_mark -d a -n 3000 -L 1 -S0 -s 65536 -k");
    s.policy = Policy::linux_3_0();
    s
}

/// `boot.inodes`: they take memory, and shrinkers free them, the oldest objects there are, before
/// any page goes with an inode of the load. Without them there is less to scan.
#[test]
fn shrinkers_take_the_inodes_of_the_booted_system_first() {
    for filesystem in [FsKind::Xfs, FsKind::Ext4] {
        let get = |inodes, name: &str| completed(&booted(filesystem, inodes, 0)).counters[name];
        let slab = |inodes| get(inodes, "nr_slab_reclaimable");
        let left = slab(8000).saturating_sub(slab(0));
        // An inode of either filesystem is between a fifth and a third of a page.
        assert!(
            left < 8000 / 5,
            "{filesystem:?}: {left} pages of slab are left"
        );
        let scanned = |inodes| get(inodes, "slabs_scanned");
        assert!(scanned(8000) > scanned(0), "{filesystem:?}");
        let stolen = get(8000, "kswapd_inodesteal") + get(8000, "pginodesteal");
        assert_eq!(stolen, 0, "{filesystem:?}");
    }
}

/// `boot.dentries`: inodes without one are unused from the beginning and go first; with one they
/// lose that first. More slab is left.
#[test]
fn inodes_without_dentries_go_sooner() {
    for filesystem in [FsKind::Xfs, FsKind::Ext4] {
        let slab = |dentries| completed(&booted(filesystem, 8000, dentries)).counters["nr_slab_reclaimable"];
        let (none, all) = (slab(0), slab(8000));
        assert!(none < all, "{filesystem:?}: {none} and {all} pages");
    }
}
