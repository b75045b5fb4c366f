//! btrfs: copy-on-write data, metadata in trees whose pages live in the page cache.
//!
//! Every written extent inserts items into three trees: the file's extent item, the extent tree's
//! back reference, and the checksums (4 bytes a block). An insertion searches from the root, and
//! every node it reads is marked accessed; the first change to a node in a transaction copies it
//! to a new block. Tree pages are written at the commit only. Reclaim is always refused.

use super::walk::{Walk, write_cache_pages};
use super::{BATCH, Extent, Fs, Layout, SimMm, metadata_page};
use crate::params::Params;
use mm::mapping::MappingKind;
use mm::trace::TrackPath;
use mm::world::{World, WritebackControl};
use std::cell::Cell;

/// A tree block of 2011: 4 KiB, 101 bytes of header.
const LEAF_BYTES: u32 = 4096 - 101;
/// Bytes of an item's key and place in a leaf.
const ITEM: u32 = 25;
/// Bytes of a file extent item, an extent item with its back reference, a checksum.
const FILE_EXTENT: u32 = 53;
const EXTENT_ITEM: u32 = 24 + 29;
const CHECKSUM: u32 = 4;
/// Keys of an inner node.
const FANOUT: u32 = LEAF_BYTES / 33;
/// Inner nodes above the leaves: root and one level, enough for 10^4 leaves.
const LEVELS: usize = 3;
/// Dirty tree bytes below which the flusher leaves them to the commit.
const TREE_THRESHOLD: u64 = 32 << 20;
/// Where the chunk for metadata begins, where its mirror (DUP) begins, and where that ends, in blocks of
/// a large disk.
const META_START: u64 = 1 << 14;
const META_MIRROR: u64 = 1 << 15;
const META_END: u64 = 1 << 16;
/// The superblock's place.
const SUPER: u64 = 16;

/// The rightmost path of one tree: where a streaming write inserts.
#[derive(Debug, Default)]
struct Tree {
    /// Block of the node on each level, leaf first; 0: none yet.
    path: [Cell<u32>; LEVELS],
    /// The transaction that made it.
    made_in: [Cell<u64>; LEVELS],
    /// Bytes used in the leaf, keys used in the inner nodes.
    used: [Cell<u32>; LEVELS],
}

/// The filesystem's state.
#[derive(Debug)]
pub(super) struct Btrfs {
    trees: [Tree; 3],
    transaction: Cell<u64>,
    interval: u64,
    mapping: Cell<u32>,
    /// The chunk for metadata: first block and length.
    chunk: (u32, u32),
    /// Tree blocks that were made.
    made: Cell<u32>,
    committing: Cell<bool>,
}

impl Btrfs {
    pub fn new(p: &Params, front: Layout) -> Self {
        Self {
            trees: Default::default(),
            transaction: Cell::new(1),
            interval: p.btrfs_commit_interval as u64,
            mapping: Cell::new(0),
            chunk: (
                front.place(META_START) as u32,
                front.length(META_START, META_MIRROR - META_START) as u32,
            ),
            made: Cell::new(0),
            committing: Cell::new(false),
        }
    }
}

pub(super) fn mount<const T: bool>(mm: &SimMm<T>, fs: &Fs) {
    let mapping = mm
        .new_mapping(MappingKind::Meta, fs.bdi.get())
        .expect("room for the tree inode");
    fs.btrfs.mapping.set(mapping);
}

/// New blocks for a run of dirty pages, whatever they had.
pub(super) fn copy_on_write(fs: &Fs, mapping: u32, index: u32, len: u32) -> Option<(u64, u32)> {
    let (block, len) = fs.take_blocks(len)?;
    fs.with_extents(mapping, |list| {
        // Cut what is overwritten out of the old extents.
        let (from, to) = (u64::from(index), u64::from(index) + u64::from(len));
        let mut kept = Vec::with_capacity(list.len() + 1);
        for e in list.drain(..) {
            let (a, b) = (u64::from(e.index), u64::from(e.index) + u64::from(e.len));
            if b <= from || a >= to {
                kept.push(e);
                continue;
            }
            if a < from {
                kept.push(Extent {
                    len: (from - a) as u32,
                    ..e
                });
            }
            if b > to {
                let cut = (to - a) as u32;
                kept.push(Extent {
                    index: e.index + cut,
                    len: e.len - cut,
                    block: e.block + u64::from(cut),
                });
            }
        }
        *list = kept;
    });
    fs.add_extent(mapping, Extent { index, len, block });
    Some((block, len))
}

/// The items of one written extent of `pages` pages go into the trees.
pub(super) async fn extent_written<const T: bool>(mm: &SimMm<T>, fs: &Fs, pages: u32) {
    insert(mm, fs, 0, FILE_EXTENT + ITEM).await;
    insert(mm, fs, 1, EXTENT_ITEM + ITEM).await;
    insert(mm, fs, 2, CHECKSUM * pages).await;
}

/// Searches to the rightmost leaf of a tree and adds `bytes` there.
pub(super) async fn insert<const T: bool>(mm: &SimMm<T>, fs: &Fs, tree: usize, bytes: u32) {
    let state = &fs.btrfs;
    let t = &state.trees[tree];
    // A full leaf splits; so does a full node above it.
    let mut fresh = [false; LEVELS];
    if t.path[0].get() == 0 {
        fresh = [true; LEVELS];
    } else if t.used[0].get() + bytes > LEAF_BYTES {
        fresh[0] = true;
        for (level, fresh) in fresh.iter_mut().enumerate().take(LEVELS - 1).skip(1) {
            if t.used[level].get() < FANOUT {
                t.used[level].set(t.used[level].get() + 1);
                break;
            }
            *fresh = true;
        }
    }
    for level in (0..LEVELS).rev() {
        if fresh[level] {
            t.used[level].set(u32::from(level > 0));
            t.path[level].set(0);
        }
        touch(mm, fs, tree, level).await;
    }
    t.used[0].set(t.used[0].get() + bytes);
}

/// The next block of the chunk; behind its end, the first one, whose node was copied elsewhere long
/// since.
fn new_tree_block(state: &Btrfs) -> u32 {
    let (first, length) = state.chunk;
    let n = state.made.get();
    state.made.set((n + 1) % length);
    first + n
}

/// Reads a node on the way down (marking it accessed), copies it if this transaction has not yet,
/// and changes it.
async fn touch<const T: bool>(mm: &SimMm<T>, fs: &Fs, tree: usize, level: usize) {
    let state = &fs.btrfs;
    let t = &state.trees[tree];
    let mapping = state.mapping.get();
    let old = t.path[level].get();
    if old != 0
        && let Some(pfn) = metadata_page(mm, mapping, old, false, TrackPath::TreeSearch).await
    {
        mm.mark_page_accessed(pfn, TrackPath::TreeSearch);
    }
    let now = state.transaction.get();
    if old == 0 || t.made_in[level].get() != now {
        let block = new_tree_block(state);
        t.path[level].set(block);
        t.made_in[level].set(now);
    }
    let block = t.path[level].get();
    if let Some(pfn) = metadata_page(mm, mapping, block, true, TrackPath::TreeUpdate).await {
        mm.mark_page_accessed(pfn, TrackPath::TreeUpdate);
        mm.set_page_dirty(pfn, TrackPath::TreeUpdate);
    }
}

/// The flusher's visit to the tree inode: little metadata waits for the commit.
pub(super) async fn tree_writepages<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    wbc: &mut WritebackControl,
) {
    let dirty = {
        let pages = mm.mappings[mapping as usize].nrpages.get();
        u64::from(mm.tagged_count(mapping, mm::pagecache::Tag::Dirty, pages)) * 4096
    };
    if !wbc.sync_all && (wbc.for_kupdate || dirty < TREE_THRESHOLD) {
        wbc.pages_skipped += 1;
        return;
    }
    write_cache_pages(
        mm,
        mapping,
        wbc,
        Walk {
            wrap_only_if_nothing_written: false,
        },
    )
    .await;
}

/// Commits every interval.
pub(super) async fn transaction_thread<const T: bool>(mm: &SimMm<T>, fs: &Fs) {
    loop {
        mm.world.sched.sleep_ticks(fs.btrfs.interval).await;
        commit(mm, fs).await;
    }
}

/// Writes all dirty tree pages, twice (DUP), then the superblock. Returns whether it succeeded.
pub(super) async fn commit<const T: bool>(mm: &SimMm<T>, fs: &Fs) -> bool {
    let state = &fs.btrfs;
    if state.committing.replace(true) {
        return true;
    }
    state.transaction.set(state.transaction.get() + 1);
    let mapping = state.mapping.get();
    let before = mm.mappings[mapping as usize].nrpages.get();
    let ok = mm.sync_mapping(mapping).await;
    // The mirror of what was just written, in its own chunk.
    let mut left = mm
        .tagged_count(mapping, mm::pagecache::Tag::Writeback, before)
        .max(1);
    let (mirror, length) = (
        fs.layout.place(META_MIRROR),
        fs.layout.length(META_MIRROR, META_END - META_MIRROR),
    );
    let mut at = state.transaction.get() % 64 * 128 % length;
    let mut mirrored = true;
    while left > 0 {
        let n = left.min(BATCH).min((length - at) as u32);
        mirrored &= mm.world.write_raw(fs.volume, mirror + at, n, true).await;
        at = (at + u64::from(n)) % length;
        left -= n;
    }
    let superblock = fs.layout.place(SUPER);
    let superblock = mm.world.write_raw(fs.volume, superblock, 1, true).await;
    state.committing.set(false);
    mm.world.relax().await;
    ok & mirrored & superblock
}
