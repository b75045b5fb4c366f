//! Objects on slabs, the shrinkers' arithmetic, dentries and inodes, and the XFS log, compared with
//! models and step by step.

use super::bare::{Bare, recount};
use super::prelude::*;
use super::programs::{Lcg, bring_in, file, write, write_all};
use super::world::{Engine, block_on, run};
use crate::cache::mapping::I_SYNC;
use crate::inodes::state::{CACHED, DENTRY};
use crate::inodes::xfs::state::{ON_AIL, PINNED, RECLAIMABLE};
use crate::memory::slab::Object;
use crate::queue;
use crate::reclaim::scan::ScanControl;
use crate::reclaim::shrinker::SlabPressure;
use std::collections::{BTreeMap, VecDeque};

const PLAIN: SuperInfo = SuperInfo {
    inode_bytes: 592,
    ags: 0,
    sync_interval: 0,
};
const XFS: SuperInfo = SuperInfo {
    inode_bytes: 960,
    ags: 2,
    sync_interval: SECOND,
};

fn machine(policy: Policy, supers: Vec<SuperInfo>) -> Engine {
    let mut bare = Bare::new(policy, 6000);
    bare.supers = supers;
    bare.build()
}

/// Makes a root, a directory in it, and files in that directory, numbered 0, 1, 2 and so on.
fn tree(mm: &Engine, files: u32) {
    for ino in 0..2 + files {
        assert_eq!(file(mm, MappingKind::File, 0, 4), ino);
        mm.place_inode(
            ino,
            0,
            [None, Some(0), Some(1)][ino.min(2) as usize],
            ino % 2,
            ino / 2,
        );
    }
}

/// Looks an inode up, which must succeed.
fn look_up(mm: &Engine, ino: u32) {
    assert_eq!(block_on(mm, mm.iget(ino)), Ok(()));
}

/// An object takes the first free slot of the slab that was touched last; a page is freed with its
/// last object.
#[test]
fn slabs_fill_one_after_the_other() {
    let mm = machine(Policy::linux_3_0(), vec![PLAIN]);
    let (cache, per_page) = (1, 4096 / 592);
    // Slabs with room, the one touched last in front, and the slots in use of every slab.
    let (mut partial, mut used): (VecDeque<Pfn>, BTreeMap<Pfn, Vec<u32>>) = Default::default();
    let (mut held, mut chance): (Vec<Object>, Lcg) = (Vec::new(), Lcg(2));
    for step in 0..3000 {
        if chance.below(100) < if step / 500 % 2 == 0 { 60 } else { 40 } {
            let got = block_on(&mm, mm.slab_alloc(cache, Gfp::KERNEL)).expect("memory");
            if partial.is_empty() {
                partial.push_front(got.page);
                assert!(used.insert(got.page, Vec::new()).is_none());
            }
            assert_eq!(Some(&got.page), partial.front());
            let slots = used.get_mut(&got.page).expect("a slab");
            assert_eq!(got.slot, (0..).find(|s| !slots.contains(s)).expect("room"));
            slots.push(got.slot);
            if slots.len() == per_page {
                partial.pop_front();
            }
            held.push(got);
        } else if !held.is_empty() {
            let gone = held.swap_remove(chance.below(held.len() as u32) as usize);
            mm.slab_free(cache, gone);
            let slots = used.get_mut(&gone.page).expect("a slab");
            if slots.len() == per_page {
                partial.push_front(gone.page);
            }
            slots.retain(|&s| s != gone.slot);
            if slots.is_empty() {
                used.remove(&gone.page);
                partial.retain(|&p| p != gone.page);
            }
        }
        assert_eq!(mm.slab_usage(cache), (held.len() as u64, used.len() as u64));
        assert_eq!(
            mm.global_stat(ZoneStat::NrSlabReclaimable),
            used.len() as u64
        );
    }
    recount(&mm);
}

/// A look-up holds a file and the directories above it; an inode that is not held goes to the
/// lists, and is freed at the second look.
#[test]
fn dentries_and_inodes() {
    let mm = machine(Policy::linux_3_0(), vec![PLAIN]);
    tree(&mm, 10);
    assert!(
        !mm.inode_gone(5),
        "it is not in memory, but it has its name"
    );
    (2..12).for_each(|ino| look_up(&mm, ino));
    assert_eq!(mm.cached_objects(0), (12, 12));
    assert_eq!((mm.unused_dentries(0, 0), mm.unused_inodes(0, 0)), (0, 0));
    (2..12).for_each(|ino| mm.iput(ino));
    assert_eq!(
        mm.unused_dentries(0, 0),
        10,
        "the directory is held by its entries"
    );
    recount(&mm);
    let dentries = |n| block_on(&mm, mm.prune_dentries(0, 0, n));
    let inodes = |n| block_on(&mm, mm.prune_inodes(0, 0, n));
    // Each was used: it goes to the end of the list and its mark is cleared.
    assert_eq!((dentries(4), dentries(10)), (0, 4));
    assert_eq!((mm.unused_dentries(0, 0), mm.unused_inodes(0, 0)), (6, 4));
    assert!(
        [2, 3, 4, 5]
            .iter()
            .all(|&ino| !mm.inode(ino).has(DENTRY) && mm.inode(ino).has(CACHED))
    );
    // A file in use leaves the list when it is met.
    look_up(&mm, 6);
    assert_eq!(mm.unused_dentries(0, 0), 6);
    assert_eq!((dentries(1), mm.unused_dentries(0, 0)), (0, 5));
    recount(&mm);
    // Inodes with pages lose those first, dirty ones stay; changed ones leave the list.
    block_on(&mm, async {
        bring_in(&mm, 2, 0, 4).await;
        mm.world.sleep(SECOND).await;
    });
    assert_eq!(inodes(4), 0, "each was used");
    assert_eq!((inodes(4), mm.vm_event(VmEvent::PgInodeSteal)), (3, 4));
    assert_eq!((inodes(4), mm.unused_inodes(0, 0)), (1, 0));
    assert_eq!((mm.inodes_freed(0), mm.cached_objects(0)), (4, (8, 8)));
    // An inode that comes back is read once; no second dentry is made.
    let before = mm.world.charged[Cost::SlabMake as usize].get();
    let jobs: Vec<super::world::Job<'_>> = (0..3)
        .map(|_| Box::pin(async { assert_eq!(mm.iget(3).await, Ok(())) }) as super::world::Job<'_>)
        .collect();
    assert_eq!(run(&mm, jobs, 3, u64::MAX, |_| ()), 3);
    assert_eq!(mm.world.charged[Cost::SlabMake as usize].get() - before, 2);
    assert_eq!(mm.inode(3).users.get(), 3);
    (0..3).for_each(|_| mm.iput(3));
    // An inode without a name is freed with the last hold, and its number can be used again.
    look_up(&mm, 6);
    mm.unlink_inode(6);
    mm.iput(6);
    assert!(!mm.inode_gone(6) && mm.inode(6).has(CACHED));
    mm.iput(6);
    assert!(mm.inode_gone(6) && !mm.inode(6).has(CACHED));
    assert_eq!(block_on(&mm, mm.iget(6)), Err(NoInode::Gone));
    look_up(&mm, 1);
    mm.reuse_inode(6, Some(1));
    assert!(block_on(&mm, mm.new_inode(6)));
    mm.iput(6);
    mm.iput(1);
    assert!(!mm.inode_gone(6));
    recount(&mm);
}

/// `inodes_keep_pages`: the shrinker skips an inode that has pages, and may free it once the last
/// of them is gone; an unmount frees it in any case. Without the switch, or with HighMem, the pages
/// are dropped first.
#[test]
fn inodes_with_pages_are_kept() {
    let after = |keep: bool, highmem: bool| {
        let mut policy = Policy::linux_3_0();
        policy.inodes_keep_pages = keep;
        let mut bare = Bare::new(policy, 6000);
        bare.supers = vec![PLAIN];
        if highmem {
            let zone = |kind| ZoneInfo {
                node: 0,
                kind,
                size: 6000,
            };
            bare.zones = [ZoneType::Normal, ZoneType::HighMem].map(zone).to_vec();
        }
        let mm = bare.build();
        tree(&mm, 2);
        for ino in [2, 3] {
            look_up(&mm, ino);
            block_on(&mm, async {
                bring_in(&mm, ino, 0, 4).await;
                mm.world.sleep(SECOND).await;
            });
            mm.iput(ino);
        }
        mm.lru_add_drain();
        for _ in 0..2 {
            block_on(&mm, mm.prune_dentries(0, 0, 8));
        }
        let listed = mm.unused_inodes(0, 0);
        for _ in 0..3 {
            block_on(&mm, mm.prune_inodes(0, 0, 8));
        }
        recount(&mm);
        let stolen = mm.vm_event(VmEvent::PgInodeSteal);
        // The pages of one file are dropped in another way.
        block_on(&mm, mm.invalidate_mapping_pages(2));
        let emptied = mm.unused_inodes(0, 0);
        for _ in 0..2 {
            block_on(&mm, mm.prune_inodes(0, 0, 8));
        }
        let freed = mm.inodes_freed(0);
        let evicted = block_on(&mm, mm.evict_unused(0));
        recount(&mm);
        (listed, stolen, emptied, freed, evicted)
    };
    assert_eq!(after(true, false), (0, 0, 1, 1, 3));
    assert_eq!(after(false, false), (2, 8, 0, 2, 2));
    assert_eq!(after(true, true), (2, 8, 0, 2, 2));
}

/// A dirty inode is on no list until it is written.
#[test]
fn dirty_inodes_wait() {
    let mm = machine(Policy::linux_3_0(), vec![PLAIN]);
    tree(&mm, 1);
    look_up(&mm, 2);
    block_on(&mm, write(&mm, 2, 0));
    mm.iput(2);
    let dentries = || block_on(&mm, mm.prune_dentries(0, 0, 8));
    assert_eq!((dentries(), dentries()), (0, 1));
    assert_eq!(mm.unused_inodes(0, 0), 0);
    assert!(block_on(&mm, mm.sync_mapping(2)));
    assert_eq!(mm.unused_inodes(0, 0), 1);
    recount(&mm);
}

/// fsync writes a file's pages while the flusher is writing the file; sync waits until the flusher
/// releases the inode. A truncation waits for both.
#[test]
fn fsync_does_not_wait_for_the_flusher() {
    for (holds, waits) in [(false, false), (true, true)] {
        let mm = machine(Policy::linux_3_0(), vec![PLAIN]);
        tree(&mm, 1);
        look_up(&mm, 2);
        let m = &mm.mappings[2];
        block_on(&mm, write_all(&mm, 2, 0, 64));
        // The flusher is in the middle of its slice.
        m.state.fetch_or(I_SYNC);
        let (mut done, mut cut) = (0, 0);
        let flusher = Box::pin(async {
            mm.world.sleep(SECOND).await;
            m.state.fetch_and(!I_SYNC);
            mm.world.wake(queue::page(2));
        });
        let syncs = Box::pin(async {
            assert!(match holds {
                true => mm.sync_mapping(2).await,
                false => mm.write_and_wait(2).await,
            });
            done = mm.world.now();
        });
        let cuts = Box::pin(async {
            mm.world.sleep(1000).await;
            mm.hold_inode(2).await;
            mm.truncate_from(2, 0).await;
            mm.release_inode(2);
            cut = mm.world.now();
        });
        run(&mm, vec![flusher, syncs, cuts], 3, u64::MAX, |_| ());
        assert_eq!(done >= SECOND, waits, "{holds}: {done}");
        assert!(cut >= SECOND.max(done), "{cut} after {done}");
        assert!(mm.mapping_has_no_pages(2));
        recount(&mm);
    }
}

/// Returns what a shrinker is asked for now, and that together with what was deferred: twice the
/// scanned share of the lists, or by priority alone.
fn asked(
    core: ShrinkerCore,
    freeable: u64,
    deferred: u64,
    [scanned, lru]: [u64; 2],
    priority: u8,
) -> (u64, u64) {
    let pages = if scanned == 0 { 32 } else { scanned };
    let (delta, mut total) = match core {
        ShrinkerCore::ByPriority => {
            let delta = 2 * (freeable >> priority);
            (delta, (deferred >> priority) + delta)
        }
        _ => {
            let delta = 2 * pages * freeable / (lru + 1);
            (delta, deferred + delta)
        }
    };
    if [ShrinkerCore::Batched, ShrinkerCore::PerNode].contains(&core) && delta < freeable / 4 {
        total = total.min(freeable / 2);
    }
    (delta, total.min(2 * freeable))
}

/// docs/reference/shrinkers-and-xfs.md#shrinkers: a cache is scanned in batches for the same share
/// as reclaim scanned of the lists; a rest below a batch is deferred.
#[test]
fn shrinkers_defer() {
    for core in [
        ShrinkerCore::Global,
        ShrinkerCore::Batched,
        ShrinkerCore::PerNode,
        ShrinkerCore::ByPriority,
    ] {
        let policy = Policy {
            shrinker_core: core,
            ..Policy::linux_3_0()
        };
        let mm = machine(policy, vec![PLAIN]);
        tree(&mm, 500);
        (2..502).for_each(|ino| look_up(&mm, ino));
        (2..502).for_each(|ino| mm.iput(ino));
        let batch = if core == ShrinkerCore::Global {
            128
        } else {
            1024
        };
        let mut deferred = 0;
        for (scanned, lru, priority) in [
            (100, 999, 12),
            (0, 640, 3),
            (300, 299, 1),
            (1, 99, 0),
            (500, 99, 6),
        ] {
            let sizes = [mm.unused_dentries(0, 0), mm.unused_inodes(0, 0)];
            let freeable = if core == ShrinkerCore::Global {
                sizes[0]
            } else {
                sizes[0] + sizes[1]
            };
            let (delta, total) = asked(core, freeable, deferred, [scanned, lru], priority);
            let mut left = total;
            // Since 3.12 (here since 3.1) a cache of less than a batch is scanned as a whole.
            while left >= batch || (core != ShrinkerCore::Global && left > 0 && left >= freeable) {
                left -= left.min(batch);
            }
            let mut sc = ScanControl::new(32, 0, Gfp::KERNEL, 3, false);
            sc.priority = priority;

            let before = mm.vm_event(VmEvent::SlabsScanned);

            block_on(
                &mm,
                mm.shrink_slab(
                    SlabPressure {
                        nid: 0,
                        scanned,
                        lru,
                    },
                    &mut sc,
                ),
            );
            let scanned_now = mm.vm_event(VmEvent::SlabsScanned) - before;
            // Where dentries have a shrinker of their own, the inodes that it releases add to the
            // next shrinker's at once.
            if core != ShrinkerCore::Global {
                assert_eq!(
                    scanned_now,
                    total - left,
                    "{core:?} {scanned} of {lru} at {priority}"
                );
            }
            deferred = match core {
                ShrinkerCore::ByPriority => (deferred + delta)
                    .saturating_sub(total - left)
                    .min(2 * freeable),
                _ => left,
            };
            assert_eq!(
                mm.nr_deferred[1].get(),
                deferred,
                "{core:?} {scanned} of {lru} at {priority}"
            );
        }
        // A request that may not enter filesystems frees nothing.
        let freed = mm.inodes_freed(0);
        let mut sc = ScanControl::new(32, 0, Gfp::NOFS, 3, false);
        block_on(
            &mm,
            mm.shrink_slab(
                SlabPressure {
                    nid: 0,
                    scanned: 9999,
                    lru: 9,
                },
                &mut sc,
            ),
        );
        assert_eq!(mm.inodes_freed(0), freed);
        recount(&mm);
    }
}

/// docs/reference/reclaim.md#direct-reclaim: kswapd gives a zone up once its pages were scanned
/// often enough for nothing, but not while its shrinkers still free objects.
#[test]
fn no_zone_is_hopeless_whose_shrinkers_free_objects() {
    let mm = machine(Policy::linux_3_0(), vec![PLAIN]);
    tree(&mm, 500);
    (2..502).for_each(|ino| look_up(&mm, ino));
    (2..502).for_each(|ino| mm.iput(ino));
    let objects = |mm: &Engine| mm.cached_objects(0).0 + mm.cached_objects(0).1;
    let mut calls = 0;
    loop {
        let before = objects(&mm);
        let mut sc = ScanControl::new(32, 0, Gfp::KERNEL, 3, true);
        sc.nr_scanned = 1000;
        let freed = block_on(&mm, mm.kswapd_shrink_slab(0, 3, &mut sc));
        assert!(freed > 0 || objects(&mm) == before);
        mm.zones[0].pages_scanned.set(1 << 40);
        mm.mark_hopeless(0, freed);
        let hopeless = mm.zones[0].all_unreclaimable.get() == 1;
        assert_eq!(hopeless, freed == 0, "{freed} freed");
        if hopeless {
            break;
        }
        calls += 1;
    }
    assert!(calls > 0, "something was freed before");
}

/// docs/reference/shrinkers-and-xfs.md#log-and-pusher: a changed inode is pinned until the change
/// is in the log, then dirty until its cluster is written; changed again meanwhile it is both.
#[test]
fn xfs_changes() {
    let mm = machine(Policy::linux_3_0(), vec![XFS]);
    tree(&mm, 80);
    (2..82).for_each(|ino| look_up(&mm, ino));
    let has = |ino: u32, bits| mm.inode(ino).has(bits);
    mm.file_accessed(2);
    assert!(has(2, PINNED), "the first reading is a change");
    assert!(!has(3, PINNED));
    block_on(&mm, mm.log_force(0));
    assert!(!has(2, PINNED) && has(2, crate::inodes::xfs::state::DIRTY | ON_AIL));
    mm.file_accessed(2);
    assert!(!has(2, PINNED), "the second one is none");
    mm.file_changed(2);
    assert!(has(2, PINNED | crate::inodes::xfs::state::DIRTY));
    mm.file_accessed(2);
    (4..82).for_each(|ino| mm.log_inode(ino));
    recount(&mm);
    block_on(&mm, mm.log_force(0));
    assert!(
        (4..82)
            .chain([2])
            .all(|ino| has(ino, crate::inodes::xfs::state::DIRTY) && !has(ino, PINNED))
    );
    // In the order of the log: inode 2 keeps its place before those that were logged after it.
    assert!(
        mm.inode(2).lsn.get() < mm.inode(4).lsn.get()
            && mm.inode(4).lsn.get() < mm.inode(81).lsn.get()
    );
    recount(&mm);
    // The pusher writes cluster by cluster: 41 inodes of each group in two clusters.
    let flushed = mm.vm_event(VmEvent::XfsInodesFlushed);
    mm.ail_push_all(0);
    let jobs: Vec<super::world::Job<'_>> = vec![
        Box::pin(mm.world.sleep(5 * SECOND)),
        Box::pin(mm.xfsaild(0)),
    ];
    assert_eq!(run(&mm, jobs, 1, u64::MAX, recount), 1);
    assert!((2..82).all(|ino| {
        !mm.inode(ino)
            .any(crate::inodes::xfs::state::DIRTY | ON_AIL | crate::inodes::xfs::state::FLUSHING)
    }));
    assert_eq!(mm.vm_event(VmEvent::XfsInodesFlushed) - flushed, 79);
}

/// docs/reference/shrinkers-and-xfs.md#walk-before, #walk-after and #clean-inodes-only: an evicted
/// inode with changes is written by a reclaimer that may wait, and skipped by others; since 5.9 it
/// is skipped by all.
#[test]
fn xfs_reclaim() {
    for (inode_reclaim, kswapd, frees) in [
        (InodeReclaim::Blocking, false, true),
        (InodeReclaim::Blocking, true, true),
        (InodeReclaim::NonBlocking, false, true),
        (InodeReclaim::NonBlocking, true, false),
        (InodeReclaim::CleanOnly, false, false),
        (InodeReclaim::CleanOnly, true, false),
    ] {
        let policy = Policy {
            inode_reclaim,
            ..Policy::linux_3_1()
        };
        let mm = machine(policy, vec![XFS]);
        tree(&mm, 6);
        (2..8).for_each(|ino| look_up(&mm, ino));
        // Inodes with changes in the log; one inode of each group has none.
        (4..8).for_each(|ino| mm.log_inode(ino));
        block_on(&mm, mm.log_force(0));
        (2..8).for_each(|ino| mm.iput(ino));
        for _ in 0..2 {
            block_on(&mm, mm.prune_dentries(0, 0, 20));
            block_on(&mm, mm.prune_inodes(0, 0, 20));
        }
        block_on(&mm, mm.prune_inodes(0, 0, 20));
        assert!(
            (2..8).all(|ino| mm.inode(ino).has(RECLAIMABLE)),
            "evicted, and still there"
        );
        assert!(mm.reclaimable_inodes(0) >= 6);
        recount(&mm);
        let of_tree = |mm: &Engine| (2..8).filter(|&ino| mm.inode(ino).has(CACHED)).count();
        let flags = if kswapd { KSWAPD_FLAGS } else { 0 };
        mm.init_task(0, flags, 0);
        block_on(&mm, async {
            mm.xfs_free_cached_objects(0, 64).await;
        });
        let left = of_tree(&mm);
        assert_eq!(
            left,
            if frees { 0 } else { 4 },
            "{inode_reclaim:?} kswapd {kswapd}"
        );
        let waits = mm.vm_event(VmEvent::XfsInodeWrites);
        assert_eq!(waits > 0, frees);
        assert_eq!(mm.vm_event(VmEvent::KswapdInodeWait) > 0, frees && kswapd);
        recount(&mm);
        // An inode that is looked up again is used again.
        if !frees {
            look_up(&mm, 5);
            assert_eq!(mm.vm_event(VmEvent::XfsInodesRecycled), 1);
            assert!(!mm.inode(5).has(RECLAIMABLE));
            recount(&mm);
        }
    }
}

/// A filesystem is mounted if there is room for it and for its groups.
#[test]
fn room_for_filesystems() {
    let xfs = |ags| SuperInfo { ags, ..XFS };
    let mut bare = Bare::new(Policy::linux_3_0(), 1000);
    bare.supers = vec![xfs(3), PLAIN, xfs(2)];
    let mm = bare.build();
    assert_eq!(mm.new_super(&PLAIN), None, "all three are mounted");
    // The same machine with nothing mounted yet.
    let world = super::world::TestWorld::new(&mm.config, &[]);
    let empty = Mm::new(world, mm.config.clone(), mm.policy.clone(), false);
    assert_eq!(empty.new_super(&xfs(6)), None);
    assert_eq!(empty.new_super(&xfs(5)), Some(0));
    assert_eq!(empty.new_super(&xfs(1)), None);
    assert_eq!(empty.new_super(&PLAIN), Some(1));
}

/// 3.0: XFS's shrinker ends the core's loop if not all of what was asked for was scanned.
#[test]
fn xfs_shrinker_of_3_0() {
    use crate::reclaim::shrinker::Shrunk;
    for (asked, expected) in [
        (10, Shrunk::Freed(0)),
        (64, Shrunk::Freed(0)),
        (65, Shrunk::Stop),
    ] {
        let mm = machine(Policy::linux_3_0(), vec![XFS]);
        tree(&mm, 6);
        (2..8).for_each(|ino| look_up(&mm, ino));
        (2..8).for_each(|ino| mm.iput(ino));
        for _ in 0..2 {
            block_on(&mm, mm.prune_dentries(0, 0, 20));
        }
        for _ in 0..3 {
            block_on(&mm, mm.prune_inodes(0, 0, 20));
        }
        // Some inodes in each of the two groups; each group takes 32 of those asked for.
        assert!(mm.reclaimable_inodes(0) >= 6);
        let answer = block_on(&mm, mm.xfs_reclaim_inodes_3_0(0, asked));
        assert_eq!(answer, expected, "{asked}");
    }
}

/// The pusher writes 128 clusters, pauses 10 ms, and continues where it stopped.
#[test]
fn the_pusher_pauses() {
    let mm = machine(Policy::linux_3_0(), vec![SuperInfo { ags: 1, ..XFS }]);
    for ino in 0..200 {
        assert_eq!(file(&mm, MappingKind::File, 0, 1), ino);
        // Each inode is in a cluster of its own.
        mm.place_inode(ino, 0, (ino > 0).then_some(0), 0, 32 * ino);
    }
    (0..200).for_each(|ino| look_up(&mm, ino));
    (0..200).for_each(|ino| mm.log_inode(ino));
    block_on(&mm, mm.log_force(0));
    mm.ail_push_all(0);
    let flushed = || mm.vm_event(VmEvent::XfsInodesFlushed);
    let jobs: Vec<super::world::Job<'_>> = vec![
        Box::pin(async {
            mm.world.sleep(5_000_000).await;
            assert_eq!(flushed(), 128);
            mm.world.sleep(10_000_000).await;
            assert_eq!(flushed(), 200);
        }),
        Box::pin(mm.xfsaild(0)),
    ];
    assert_eq!(run(&mm, jobs, 1, u64::MAX, recount), 1);
}

/// On filesystems that say so an inode has a record beside it, 39 on a page, which is freed with
/// it.
#[test]
fn an_inode_has_a_record_beside_it() {
    let pages = |beside: bool| {
        let mm = machine(Policy::linux_6_12(), vec![PLAIN]);
        if beside {
            mm.keep_beside_inodes(0);
        }
        tree(&mm, 198);
        (0..200).for_each(|ino| look_up(&mm, ino));
        let all = mm.metadata_pages();
        recount(&mm);
        (2..200).for_each(|ino| mm.iput(ino));
        for _ in 0..8 {
            block_on(&mm, mm.prune_dentries(0, 0, 200));
            block_on(&mm, mm.prune_inodes(0, 0, 200));
        }
        assert!(mm.slab_usage(1).0 < 20, "most are gone");
        recount(&mm);
        (all, mm.metadata_pages())
    };
    let ((with, after), (without, _)) = (pages(true), pages(false));
    assert_eq!(with - without, 200_u64.div_ceil(39));
    // Of the freed slabs up to five stay, beside those in use.
    assert!(after <= with && after - without <= 6, "{after} of {with}");
}

/// Without memory above the watermarks a changed inode gets no slab for its log buffer. It gets a
/// page of its own, for which the committing task reclaims.
#[test]
fn a_buffer_of_the_log_without_a_slab_is_mapped() {
    let mm = machine(Policy::linux_6_12(), vec![XFS]);
    let clean = file(&mm, MappingKind::File, 0, 400);
    assert_eq!(clean, 0);
    for ino in 1..60 {
        assert_eq!(file(&mm, MappingKind::File, 0, 4), ino);
        mm.place_inode(ino, 0, (ino > 1).then_some(1), 0, ino);
    }
    for index in 0..400 {
        assert!(block_on(&mm, bring_in(&mm, clean, index, 1)));
    }
    (1..60).for_each(|ino| look_up(&mm, ino));
    let nowait = || {
        let at = mm.world.now();
        mm.alloc_pages_fast(Gfp::UNMOVABLE_NOWAIT, 0, at)
            .or_else(|| mm.alloc_nowait(Gfp::UNMOVABLE_NOWAIT, 0))
    };
    while nowait().is_some() {}
    (1..60).for_each(|ino| mm.log_inode(ino));
    let (before, stalls) = (mm.metadata_pages(), mm.vm_event(VmEvent::AllocStall));
    block_on(&mm, mm.map_log_buffers());
    // Slabs of a page hold eight, and two exist for the items; each of the others has a page of its
    // own.
    let mapped = mm.metadata_pages() - before;
    assert!((40..=59).contains(&mapped), "{mapped} pages");
    assert!(mm.vm_event(VmEvent::AllocStall) > stalls);
    recount(&mm);
    let all = mm.metadata_pages();
    block_on(&mm, mm.log_force(0));
    assert!(mm.metadata_pages() < all, "what is written goes back");
    recount(&mm);
}

/// `vfs_cache_pressure`: reclaim counts only this percentage of the unused objects, so each scanned
/// page asks for more or fewer of them, and with 0 for none.
#[test]
fn pressure_on_caches_scales_what_is_asked() {
    let asked = |percent: u32| {
        let policy = Policy {
            shrinker_core: ShrinkerCore::Global,
            ..Policy::linux_3_0()
        };
        let mm = machine(policy, vec![PLAIN]);
        tree(&mm, 500);
        (2..502).for_each(|ino| look_up(&mm, ino));
        (2..502).for_each(|ino| mm.iput(ino));
        let mut sysctl = mm.sysctls();
        sysctl.vfs_cache_pressure = percent;
        mm.write_sysctls(&sysctl);
        let mut sc = ScanControl::new(32, 0, Gfp::KERNEL, 3, false);
        // A share of the lists that asks for less than a batch: all of it is deferred.
        let pressure = SlabPressure {
            nid: 0,
            scanned: 50,
            lru: 999,
        };
        let unused = mm.unused_dentries(0, 0);
        block_on(&mm, mm.shrink_slab(pressure, &mut sc));
        (mm.nr_deferred[1].get(), unused)
    };
    for percent in [0, 50, 100, 200] {
        let (deferred, unused) = asked(percent);
        assert!(unused > 0);
        let freeable = unused * u64::from(percent) / 100;
        assert_eq!(deferred, 4 * 50 / 2 * freeable / 1000, "{percent} %");
    }
}
