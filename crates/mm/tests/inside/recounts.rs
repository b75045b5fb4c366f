//! The recount notices errors: one item at a time is damaged in a machine that is in use.

use super::bare::Bare;
use super::prelude::*;
use super::programs::{bring_in, file, write};
use super::world::{Engine, block_on};
use crate::inodes::state::{self, InodeList};

/// Makes a machine in use: files 0 to 3 of an XFS with inodes in memory, file 4 with pages clean,
/// dirty and under writeback, a region of anonymous memory partly in the swap cache, a mapping of
/// file 4.
fn lived_in() -> Engine {
    let policy = Policy {
        mobility: Mobility::Grouped,
        ..Policy::linux_3_16()
    };
    let mut bare = Bare::new(policy, 3000);
    let xfs = SuperInfo {
        inode_bytes: 960,
        ags: 2,
        sync_interval: SECOND,
    };
    bare.supers = vec![xfs, SuperInfo { ags: 0, ..xfs }];
    bare.swap = 64;
    let mm = bare.build();
    for ino in 0..4 {
        file(&mm, MappingKind::File, 0, 4);
        mm.place_inode(ino, 0, (ino > 0).then_some(0), 0, ino);
    }
    let f = file(&mm, MappingKind::File, 0, 500);
    mm.place_inode(f, 0, Some(0), 1, 0);
    // File 5 is on another filesystem, and not in memory.
    mm.place_inode(file(&mm, MappingKind::File, 0, 4), 1, None, 0, 0);
    block_on(&mm, async {
        for ino in 0..5 {
            mm.iget(ino).await.expect("memory");
        }
        mm.log_inode(1);
        mm.log_force(0).await;
        mm.log_inode(2);
        mm.iput(3);
        for index in 0..40 {
            write(&mm, f, index).await;
        }
        bring_in(&mm, f, 100, 40).await;
        mm.world.sleep(SECOND).await;
    });
    assert_eq!(mm.start_writeback(f, 10, 5, |_| ()), 5);
    let anon = mm
        .new_region(Backing::Anon, 50, Advice::Normal)
        .expect("room");
    let shared = Backing::Shared {
        mapping: f,
        first: 100,
    };
    let mapped = mm.new_region(shared, 40, Advice::Random).expect("room");
    block_on(&mm, async {
        for index in 0..50 {
            mm.touch(anon, index, true).await;
            mm.touch(mapped, index / 2, false).await;
        }
    });
    mm.lru_add_drain();
    let first = (0..mm.frames.len())
        .find(|&pfn| mm.frames.has(pfn, flag::ANON))
        .expect("one");
    assert!(mm.add_to_swap(first));
    mm
}

/// Returns the recount's text for a machine that `spoil` has damaged.
fn complaint(spoil: impl FnOnce(&Engine)) -> String {
    let mm = lived_in();
    mm.recount().expect("nothing is wrong yet");
    spoil(&mm);
    mm.recount().expect_err("something is")
}

/// Checks that the damage is noticed, and that the text contains `words`.
fn noticed(words: &str, spoil: impl FnOnce(&Engine)) {
    let text = complaint(spoil);
    assert!(text.contains(words), "{words:?} is not in {text:?}");
}

fn page(mm: &Engine, index: u32) -> Pfn {
    mm.find_page(4, index).expect("cached")
}

#[test]
fn counters_that_are_off() {
    for (item, name) in [
        (ZoneStat::NrFreePages, "nr_free_pages"),
        (ZoneStat::NrInactiveFile, "nr_inactive_file"),
        (ZoneStat::NrActiveAnon, "nr_active_anon"),
        (ZoneStat::NrFileDirty, "nr_dirty"),
        (ZoneStat::NrWriteback, "nr_writeback"),
        (ZoneStat::NrFilePages, "nr_file_pages"),
        (ZoneStat::NrAnonPages, "nr_anon_pages"),
        (ZoneStat::NrSlabReclaimable, "nr_slab_reclaimable"),
    ] {
        noticed(name, |mm| mm.stat.add_exact(0, item, 1));
        noticed(name, |mm| mm.stat.add_exact(0, item, -1));
    }
    noticed("counted otherwise", |mm| {
        mm.mappings[4].nrpages.fetch_add(1);
    });
    noticed("blocks", |mm| {
        mm.zones[0].nr_free[3].fetch_add(1);
    });
}

#[test]
fn pages_that_are_astray() {
    noticed("disagrees with its tags", |mm| {
        mm.frames.set_flags(page(mm, 105), flag::DIRTY);
    });
    noticed("disagrees with its tags", |mm| {
        mm.frames.clear_flags(page(mm, 3), flag::DIRTY);
    });
    noticed("disagrees with its tags", |mm| {
        mm.frames.clear_flags(page(mm, 12), flag::WRITEBACK);
    });
    noticed("where it says", |mm| {
        mm.frames.set_mapping(page(mm, 105), 4, 104)
    });
    noticed("which does not exist", |mm| {
        mm.frames.set_mapping(page(mm, 105), 99, 105)
    });
    noticed("is not of zone 0", |mm| {
        mm.frames.set_flags(page(mm, 105), 1 << flag::ZONE_SHIFT);
    });
    noticed("flags", |mm| {
        mm.frames.clear_flags(page(mm, 105), flag::LRU);
    });
    noticed("flags", |mm| {
        mm.frames.set_flags(page(mm, 105), flag::UNEVICTABLE);
    });
    noticed("nr_inactive_file", |mm| mm.frames.del(page(mm, 105)));
    noticed("is free and in use", |mm| {
        let free = block_on(mm, mm.alloc_page(Gfp::USER)).expect("memory");
        mm.free_page(free, false);
        mm.frames.set_flags(free, flag::USED);
    });
    noticed("malformed", |mm| {
        let block = (0..mm.frames.len())
            .find(|&pfn| mm.frames.has(pfn, flag::BUDDY))
            .expect("one");
        mm.frames.set_private(block, 2 + mm.frames.private(block));
    });
    noticed("of no kind", |mm| mm.pageblocks[1].set(7));
}

#[test]
fn entries_that_are_wrong() {
    // The entry of a page must not be writable while the page is clean.
    noticed("lets a clean page be written", |mm| {
        let pfn = page(mm, 105);
        let dirty = mm.frames.page(pfn);
        assert!(!dirty.has(flag::DIRTY));
        mm.set_page_dirty(pfn, TrackPath::Fault);
        block_on(mm, async {
            assert_eq!(mm.touch(1, 5, true).await, Touched::Ok);
        });
        // The dirty bit is cleared as for I/O, but the entries are left writable.
        mm.frames.clear_flags(pfn, flag::DIRTY);
        mm.tag_clear(&mm.mappings[4], 105, Tag::Dirty);
        mm.stat.add_exact(0, ZoneStat::NrFileDirty, -1);
    });
    noticed("maps a page of another place", |mm| {
        let anon = (0..mm.frames.len())
            .find(|&pfn| mm.frames.has(pfn, flag::ANON))
            .expect("one");
        let (region, index) = (mm.frames.mapping(anon), mm.frames.index(anon));
        mm.frames.set_mapping(anon, region, index + 1);
    });
    noticed("is mapped 1 times", |mm| {
        mm.frames.set_mapcount(page(mm, 105), 2)
    });
    noticed("swap", |mm| {
        let cached = (0..mm.frames.len())
            .find(|&pfn| mm.frames.has(pfn, flag::SWAPCACHE))
            .expect("one");
        mm.frames.set_private(cached, 9);
    });
    noticed("swap slot 5", |mm| mm.swap_duplicate(5));
}

#[test]
fn inodes_that_are_wrong() {
    let set = |ino: u32, bits: u32| {
        move |mm: &Engine| {
            mm.inode(ino).set(bits);
        }
    };
    let clear = |ino: u32, bits: u32| {
        move |mm: &Engine| {
            mm.inode(ino).clear(bits);
        }
    };
    noticed("a dentry without an inode", clear(1, state::CACHED));
    noticed("used without a dentry", clear(1, state::DENTRY));
    noticed(
        "tag and state disagree",
        set(3, crate::inodes::xfs::state::RECLAIMABLE),
    );
    noticed(
        "claimed, but not to be freed",
        set(1, crate::inodes::xfs::state::CLAIMED),
    );
    noticed(
        "being written without its locks",
        set(1, crate::inodes::xfs::state::IN_WRITE),
    );
    noticed(
        "dirty and forgotten",
        set(2, crate::inodes::xfs::state::DIRTY),
    );
    noticed(
        "in the log lists",
        set(3, crate::inodes::xfs::state::PINNED),
    );
    noticed(
        "of filesystem 0: inode 1",
        clear(
            1,
            crate::inodes::xfs::state::ON_AIL | crate::inodes::xfs::state::DIRTY,
        ),
    );
    for bits in [
        crate::inodes::xfs::state::RECLAIMABLE,
        crate::inodes::xfs::state::CLAIMED,
        crate::inodes::xfs::state::LOCKED,
        crate::inodes::xfs::state::DIRTY,
        crate::inodes::xfs::state::PINNED,
        crate::inodes::xfs::state::FLUSHING,
        crate::inodes::xfs::state::ON_AIL,
    ] {
        let text = complaint(set(5, bits));
        // Bits that would mean a lost change are reported as that.
        let lost = "not in memory and not in its place";
        assert!(
            text.contains("not on an XFS") || text.contains(lost),
            "{text}"
        );
    }
    noticed("not on an XFS", set(5, crate::inodes::xfs::state::CLAIMED));
    noticed("not on an XFS", set(5, crate::inodes::xfs::state::LOCKED));
    for bits in [
        crate::inodes::xfs::state::DIRTY,
        crate::inodes::xfs::state::PINNED,
        crate::inodes::xfs::state::RECLAIMABLE,
        crate::inodes::xfs::state::FLUSHING,
        crate::inodes::xfs::state::ON_AIL,
    ] {
        // The inode is in memory, where nothing else is wrong with it.
        noticed("not on an XFS", |mm| {
            block_on(mm, mm.iget(5)).expect("memory");
            mm.inode(5).set(bits);
        });
    }
    noticed("is astray", clear(3, state::ON_DENTRIES));
    noticed("say they are unused", set(1, state::ON_DENTRIES));
    noticed("of filesystem 0: inode 1", |mm| {
        let head = mm.log_head(0, false);
        mm.inode(1)
            .clear(crate::inodes::xfs::state::DIRTY | crate::inodes::xfs::state::ON_AIL);
        mm.list_remove(InodeList::Ail, 1);
        mm.list_add_tail(InodeList::Log, head, 1);
    });
    noticed("pages and objects", |mm| {
        let slab = (0..mm.frames.len())
            .find(|&pfn| mm.frames.has(pfn, flag::SLAB))
            .expect("one");
        let used = mm.frames.index(slab);
        mm.frames
            .set_mapping(slab, mm.frames.mapping(slab), used & (used - 1));
    });
    noticed("is linked wrongly", |mm| mm.mappings[4].on_list.set(3));
}
