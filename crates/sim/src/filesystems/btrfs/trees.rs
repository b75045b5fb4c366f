//! btrfs's trees as mkfs makes them since 2013 (Linux 6.12 fs/btrfs/ctree.c): nodes of 16 KiB, four
//! pages of `btree_inode`, whose items are ordered by key. An item goes where its key belongs:
//! names of a directory anywhere among its others, because their key is a hash; a directory's
//! index, a new inode and the items of new extents behind all others; a file's extents behind its
//! inode. A full leaf is split, or at the end of its tree followed by a new one, and the leaf in
//! front is read. Nodes that a search reads are marked accessed, leaves with all their pages
//! (`mark_extent_buffer_accessed`; the root needs no search). The first change of a node in a
//! transaction makes a copy of it, at the end of the chunk.

use super::super::SimMm;
use super::super::write::metadata_page;
use super::ITEM;
use mm::memory::frame::flag;
use mm::world::event::TrackPath;
use std::cell::{Cell, RefCell};

/// Pages in a node.
pub(super) const NODE_PAGES: u32 = 4;
/// Bytes for items in a leaf; and below, the number of children of an inner node.
const LEAF_ROOM: u32 = 4 * 4096 - 101;
/// Bytes of a page's checksum.
pub(super) const CHECKSUM: u32 = 4;
const CHILDREN: usize = (LEAF_ROOM / 33) as usize;
/// Number of nodes that every commit changes beside the others: the extent tree's items of block
/// groups, the free space tree, the tree of roots.
const OF_COMMIT: usize = 3;

/// The kinds of keys that are ordered separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    /// Names by their hash, and names in the order in which they were made.
    Names,
    Indices,
    /// Inodes, each followed by its extents.
    Inodes,
    /// The extent tree and checksums, both by block.
    Extents,
    Sums,
    /// Nodes that every commit changes.
    Commit,
}

/// A node of a tree.
#[derive(Debug, Clone, Copy, Default)]
struct Node {
    /// Lowest key that belongs here, and highest key put here so far.
    first: u64,
    last: u64,
    /// Bytes taken by its items.
    used: u32,
    /// First block of the node; 0: it has none yet.
    block: u32,
    /// The transaction that gave it this block.
    made_in: u64,
}

/// A tree, or the part of one with keys of one kind.
#[derive(Debug, Default)]
struct Tree {
    leaves: Vec<Node>,
    above: Vec<Node>,
}

impl Tree {
    /// Finds the leaf for an item of `bytes` bytes and makes space in it. A full leaf is split:
    /// behind its end if the key is the highest, otherwise in its middle. Returns the leaf's index,
    /// and that of a second leaf that changed in a split.
    fn make_room(&mut self, key: u64, bytes: u32) -> (usize, Option<usize>) {
        let leaves = &mut self.leaves;
        if leaves.is_empty() {
            leaves.push(Node::default());
        }
        let index = leaves.partition_point(|l| l.first <= key).max(1) - 1;
        let leaf = &mut leaves[index];
        let highest_before = leaf.last;
        leaf.last = highest_before.max(key);
        if leaf.used + bytes <= LEAF_ROOM {
            leaf.used += bytes;
            return (index, None);
        }
        let middle = leaf.first + (highest_before.saturating_sub(leaf.first)) / 2 + 1;
        let half = leaf.used / 2;
        let appended = key > highest_before;
        let new_leaf = Node {
            first: if appended { key } else { middle },
            last: leaf.last,
            used: if appended { 0 } else { half },
            ..Node::default()
        };
        leaf.used -= new_leaf.used;
        leaf.last = if appended { highest_before } else { middle - 1 };
        let target = if key >= new_leaf.first { index + 1 } else { index };
        leaves.insert(index + 1, new_leaf);
        leaves[target].used += bytes;
        (target, Some(2 * index + 1 - target))
    }

    /// Returns the index of the inner node above a leaf, keeping as many inner nodes as the leaves
    /// need; `None`: the leaf is the root.
    fn above(&mut self, leaf: usize) -> Option<usize> {
        let leaves = self.leaves.len();
        if leaves < 2 {
            return None;
        }
        let nodes = leaves.div_ceil(CHILDREN);
        self.above.resize_with(nodes, Node::default);
        Some(leaf * nodes / leaves)
    }
}

/// Returns true if all items of the tree that holds keys of this kind fit into one leaf, which is
/// then the root. Names, their order and inodes share one tree.
fn is_root(trees: &[Tree; 6], keys: Keys) -> bool {
    let same_tree = match keys {
        Keys::Names | Keys::Indices | Keys::Inodes => &trees[..=Keys::Inodes as usize],
        _ => &trees[keys as usize..=keys as usize],
    };
    same_tree.iter().flat_map(|tree| &tree.leaves).map(|leaf| leaf.used).sum::<u32>() <= LEAF_ROOM
}

/// All trees of a filesystem.
#[derive(Debug)]
pub(super) struct Trees {
    trees: RefCell<[Tree; 6]>,
    transaction: Cell<u64>,
    /// The chunk for metadata, as first page and length, and the number of nodes made, modulo what
    /// fits there.
    chunk: (u32, u32),
    made: Cell<u32>,
    /// Number of references of nodes, added or dropped, that are not in the extent tree yet.
    references: Cell<u64>,
    /// True if the running transaction has changed anything.
    changed: Cell<bool>,
    /// Positions of the checksums of extents, ordered by the extents' first blocks.
    sums: RefCell<Vec<Sums>>,
}

/// Position of the checksums of an extent.
#[derive(Debug, Clone, Copy)]
struct Sums {
    block: u64,
    pages: u32,
    /// Key of its first item, and the number of pages that item covers; the following items fill a
    /// leaf each.
    key: u64,
    first: u32,
}

impl Trees {
    /// Makes empty trees. `chunk`: first page and length of the chunk for metadata.
    pub fn new(chunk: (u32, u32)) -> Self {
        Self {
            trees: RefCell::default(),
            transaction: Cell::new(1),
            chunk,
            made: Cell::new(0),
            references: Cell::new(0),
            changed: Cell::new(false),
            sums: RefCell::default(),
        }
    }

    /// Returns the number of references of nodes that are not in the extent tree yet.
    pub fn references(&self) -> u64 {
        self.references.get()
    }

    /// Puts up to `most` of these references into the extent tree. Returns their number.
    pub fn run_references(&self, most: u64) -> u64 {
        let n = most.min(self.references.get());
        self.references.set(self.references.get() - n);
        n
    }

    /// Makes the checksums of `pages` pages written before mounting, in leaves on the disk. `block`
    /// returns the block of a page.
    pub fn lay_out(&self, pages: u64, block: impl Fn(u64) -> Option<u64>) {
        let leaf_pages = u64::from(LEAF_ROOM / CHECKSUM);
        for nth in 0..pages.div_ceil(leaf_pages) {
            let used = (pages - nth * leaf_pages).min(leaf_pages) as u32 * CHECKSUM;
            let node = self.new_node();
            let leaves = &mut self.trees.borrow_mut()[Keys::Sums as usize].leaves;
            let key = leaves.len() as u64;
            leaves.push(Node { first: key, last: key, used, block: node, made_in: 0 });
            let pages = used / CHECKSUM;
            if let Some(block) = block(nth * leaf_pages) {
                self.record_sums(Sums { block, pages, key, first: pages });
            }
        }
    }

    /// Inserts an item of `bytes` bytes, its key included, into the leaf where its key belongs, and
    /// dirties copies of that leaf, of a split leaf and of the node above. `mapping`: the tree
    /// inode, whose pages are the nodes.
    pub async fn insert<const T: bool>(
        &self,
        mm: &SimMm<T>,
        mapping: u32,
        (keys, key): (Keys, u64),
        bytes: u32,
    ) {
        self.changed.set(true);
        let (leaf, other, above, root) = {
            let trees = &mut *self.trees.borrow_mut();
            let tree = &mut trees[keys as usize];
            let (leaf, other) = tree.make_room(key, bytes);
            let above = tree.above(leaf);
            (leaf, other, above, is_root(trees, keys))
        };
        if let Some(above) = above {
            self.touch(mm, mapping, (keys, above), (true, true)).await;
        }
        self.touch(mm, mapping, (keys, leaf), (false, root)).await;
        if let Some(other) = other {
            self.touch(mm, mapping, (keys, other), (false, false)).await;
            // The overflow is offered to the leaf in front first (`push_leaf_left`), which reads
            // it.
            if let Some(front) = other.min(leaf).checked_sub(1) {
                let node = self.node((keys, front), false, |_| ());
                self.read(mm, mapping, node).await;
            }
        }
    }

    /// Appends the checksums of `pages` pages from `block` on behind all others: the last item
    /// grows, or new ones begin. Keys from `key` on must lie behind all existing ones. Remembers
    /// their position for reads.
    pub async fn append_sums<const T: bool>(
        &self,
        mm: &SimMm<T>,
        mapping: u32,
        key: u64,
        (block, pages): (u64, u32),
    ) {
        let (mut left, mut at, mut first) = (pages * CHECKSUM, key, None);
        while left > 0 {
            let room = {
                let tree = &self.trees.borrow()[Keys::Sums as usize];
                tree.leaves.last().map_or(0, |l| LEAF_ROOM - l.used)
            };
            let n = left.min(if room > ITEM { room } else { LEAF_ROOM });
            first.get_or_insert(n / CHECKSUM);
            self.insert(mm, mapping, (Keys::Sums, at), n).await;
            (left, at) = (left - n, at + 1);
        }
        self.record_sums(Sums { block, pages, key, first: first.unwrap_or(pages) });
    }

    /// Remembers where an extent's checksums are, in place of those of an older extent at the same
    /// block.
    fn record_sums(&self, extent: Sums) {
        let sums = &mut *self.sums.borrow_mut();
        let at = sums.partition_point(|s| s.block < extent.block);
        match sums.get_mut(at).filter(|s| s.block == extent.block) {
            Some(old) => *old = extent,
            None => sums.insert(at, extent),
        }
    }

    /// Reads the leaf with the checksum of a block, if it is known to have one, to compare it with
    /// data read (`btrfs_lookup_bio_sums`).
    pub async fn look_up_sums<const T: bool>(&self, mm: &SimMm<T>, mapping: u32, block: u64) {
        let extent = {
            let sums = self.sums.borrow();
            let at = sums.partition_point(|s| s.block <= block);
            at.checked_sub(1).map(|at| sums[at])
        };
        let Some(extent) = extent.filter(|s| block - s.block < u64::from(s.pages)) else {
            return;
        };
        let at = (block - extent.block) as u32;
        // Checksums behind the extent's first item are in further items, of a leaf each.
        let items = at.checked_sub(extent.first).map_or(0, |behind| 1 + behind * CHECKSUM / LEAF_ROOM);
        let key = extent.key + u64::from(items);
        let leaf = {
            let leaves = &self.trees.borrow()[Keys::Sums as usize].leaves;
            let at = leaves.partition_point(|l| l.first <= key);
            at.checked_sub(1).map(|at| leaves[at])
        };
        if let Some(leaf) = leaf {
            self.read(mm, mapping, leaf).await;
        }
    }

    /// Changes an item in place.
    pub async fn change<const T: bool>(&self, mm: &SimMm<T>, mapping: u32, at: (Keys, u64)) {
        self.insert(mm, mapping, at, 0).await;
    }

    /// Ends the running transaction: changes the nodes that each commit changes, and begins the
    /// next one. Returns false, having done nothing, if nothing had changed.
    pub async fn end_transaction<const T: bool>(&self, mm: &SimMm<T>, mapping: u32) -> bool {
        if !self.changed.replace(false) {
            return false;
        }
        self.trees.borrow_mut()[Keys::Commit as usize]
            .leaves
            .resize_with(OF_COMMIT, Node::default);
        for n in 0..OF_COMMIT {
            self.touch(mm, mapping, (Keys::Commit, n), (true, true)).await;
        }
        self.transaction.set(self.transaction.get() + 1);
        true
    }

    /// Applies `change` to a leaf or, with `above`, to an inner node, given by the kind of its keys
    /// and its index; returns a copy of it.
    fn node(&self, (keys, at): (Keys, usize), above: bool, change: impl FnOnce(&mut Node)) -> Node {
        let tree = &mut self.trees.borrow_mut()[keys as usize];
        let above = above && keys != Keys::Commit;
        let nodes = if above { &mut tree.above } else { &mut tree.leaves };
        // Leaves may have been split meanwhile, but none ever goes away, so the index is valid.
        let node = &mut nodes[at];
        change(node);
        *node
    }

    /// Reads a node on the way down, copies it to a new place if this transaction has not done so
    /// yet or its copy was written since, and dirties it; with `above` it is an inner node,
    /// otherwise a leaf. A `root` is not read, since it needs no search. `place`: the kind of keys,
    /// and the node's index.
    async fn touch<const T: bool>(
        &self,
        mm: &SimMm<T>,
        mapping: u32,
        place: (Keys, usize),
        (above, root): (bool, bool),
    ) {
        let before = self.node(place, above, |_| ());
        if !root {
            self.read(mm, mapping, before).await;
        }
        let now = self.transaction.get();
        let written = |block| {
            let page = mm.find_page(mapping, block);
            page.is_none_or(|pfn| !mm.frames.has(pfn, flag::DIRTY))
        };
        if before.block != 0 && before.made_in == now && !written(before.block) {
            return;
        }
        let block = self.new_node();
        self.node(place, above, |node| (node.block, node.made_in) = (block, now));
        let given_back = before.block != 0 && before.made_in != now;
        self.references.set(self.references.get() + 1 + u64::from(given_back));
        for page in block..block + NODE_PAGES {
            let path = TrackPath::TreeUpdate;
            if let Some(pfn) = metadata_page(mm, mapping, page, true, path).await {
                mm.set_page_dirty(pfn, path);
            }
        }
    }

    /// Brings all pages of a node into the page cache and marks them accessed; a node without a
    /// place has none.
    async fn read<const T: bool>(&self, mm: &SimMm<T>, mapping: u32, node: Node) {
        if node.block == 0 {
            return;
        }
        for page in node.block..node.block + NODE_PAGES {
            let path = TrackPath::TreeSearch;
            if let Some(pfn) = metadata_page(mm, mapping, page, false, path).await {
                mm.mark_page_accessed(pfn, path);
            }
        }
    }

    /// Returns the first page of the next node in the chunk. After the end it begins anew: the
    /// nodes there were copied elsewhere long before.
    fn new_node(&self) -> u32 {
        let (first, length) = self.chunk;
        let n = self.made.get();
        self.made.set((n + 1) % (length / NODE_PAGES).max(1));
        first + n * NODE_PAGES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Leaves at the end of a tree are filled; those in the middle are split.
    #[test]
    fn leaves_are_filled_at_the_end_and_divided_elsewhere() {
        let count = |keys: &mut dyn Iterator<Item = u64>| {
            let mut tree = Tree::default();
            for key in keys {
                tree.make_room(key, 100);
            }
            tree.leaves.len()
        };
        let all = 6000 * 100 / (LEAF_ROOM as usize / 100 * 100) + 1;
        assert_eq!(count(&mut (0..6000)), all);
        // Keys that fill all leaves evenly, so that all are split at about the same time: there are
        // 32 or 64 leaves.
        let mut scattered = (0..6000u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1);
        let divided = count(&mut scattered);
        assert!((5 * all / 4..2 * all).contains(&divided), "{divided} beside {all}");
    }
}
