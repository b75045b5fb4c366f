//! Nodes of the files' trees: slots, counts, tags, and the pool that they come from.

use crate::memory::frame::NO_PFN;
use crate::world::{ShortLock, Word32, Word64, World};
use crate::{NoMemory, Pfn};

pub(crate) const SLOTS: u32 = 64;
pub(super) const BITS: u32 = 6;
pub(super) const NO_NODE: u32 = u32::MAX;
/// Node word: the parent node.
pub(super) const PARENT: usize = 64;
/// Node word: slots in use (low 8 bits), slot in the parent (8), level (8; 0 is a leaf), shadows
/// (8).
pub(super) const SHAPE: usize = 65;
/// Node words of a leaf that holds shadows alone: the next older and the next younger such leaf,
/// and its file.
pub(super) const OLDER: usize = 66;
pub(super) const YOUNGER: usize = 67;
pub(super) const OWNER: usize = 68;
pub(super) const NODE_WORDS: usize = 69;
/// A node with its tags, in bytes.
pub(crate) const BYTES_PER_NODE: usize = 4 * NODE_WORDS + 16;
/// Slot bit: the slot holds the shadow of an evicted page, not a page (`workingset`).
pub(crate) const SHADOW: u32 = 1 << 31;
/// The unit of the count of shadows in a node's `SHAPE`.
pub(super) const ONE_SHADOW: u32 = 1 << 24;
/// The root of an empty tree.
pub(crate) const EMPTY: u32 = NO_NODE;
const _: () = assert!(NO_PFN == NO_NODE);

/// Returns the page in a slot of a leaf; `None` for an empty slot or a shadow.
#[inline(always)]
pub(crate) fn page_in(slot: u32) -> Option<Pfn> {
    match slot {
        0 => None,
        v if v & SHADOW != 0 => None,
        v => Some(v - 1),
    }
}

/// A tag that pages of a file carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Tag {
    /// The page is dirty and in need of writing.
    Dirty,
    /// The page is under writeback.
    Writeback,
}

/// The pool of tree nodes.
pub(crate) struct Nodes<W: World> {
    pub(super) words: Box<[[W::U32; NODE_WORDS]]>,
    tags: Box<[[W::U64; 2]]>,
    /// First node of the free chain (linked through PARENT), or NO_NODE.
    free: W::U32,
    /// The first node that was never used; all later ones were not, either.
    fresh: W::U32,
    in_use: W::U32,
    /// Leaves that hold shadows alone: the oldest, in `shadow_youngest` the youngest, and in
    /// `shadow_nodes` their number.
    pub(super) shadow_oldest: W::U32,
    pub(super) shadow_youngest: W::U32,
    pub(super) shadow_nodes: W::U32,
    pub(super) lock: W::Lock,
}

impl<W: World> Nodes<W> {
    /// Makes the pool for all files' trees, of `capacity` nodes, none in use.
    pub fn new(capacity: u32) -> Result<Self, NoMemory> {
        let what = "the files' trees";
        let nodes = Self {
            words: heap::zeroed(what, capacity as usize)?,
            tags: heap::zeroed(what, capacity as usize)?,
            free: bytemuck::Zeroable::zeroed(),
            fresh: bytemuck::Zeroable::zeroed(),
            in_use: bytemuck::Zeroable::zeroed(),
            shadow_oldest: bytemuck::Zeroable::zeroed(),
            shadow_youngest: bytemuck::Zeroable::zeroed(),
            shadow_nodes: bytemuck::Zeroable::zeroed(),
            lock: W::Lock::default(),
        };
        nodes.shadow_oldest.set(NO_NODE);
        nodes.shadow_youngest.set(NO_NODE);
        nodes.free.set(NO_NODE);
        Ok(nodes)
    }

    /// Returns the number of nodes in use.
    pub fn in_use(&self) -> u32 {
        self.in_use.get()
    }

    /// Returns the range of nodes that are or were in use.
    pub(super) fn ever_used(&self) -> std::ops::Range<u32> {
        0..self.fresh.get()
    }

    /// Returns the number of nodes that are not in use.
    pub(super) fn available(&self) -> u32 {
        self.words.len() as u32 - self.in_use.get()
    }

    /// Returns the words of a node.
    #[inline(always)]
    pub(super) fn node(&self, node: u32) -> Node<'_, W> {
        Node(&self.words[node as usize])
    }

    /// Returns word `w` of a node: a slot, or one of the words behind the slots such as `PARENT`.
    #[inline(always)]
    pub(super) fn word(&self, node: u32, w: usize) -> &W::U32 {
        &self.words[node as usize][w]
    }

    /// Returns the bitmap of a tag in a node, with a bit for each slot.
    #[inline(always)]
    pub(super) fn tag(&self, node: u32, tag: Tag) -> &W::U64 {
        &self.tags[node as usize][tag as usize]
    }

    pub(super) fn level(&self, node: u32) -> u32 {
        self.node(node).level()
    }

    pub(super) fn count(&self, node: u32) -> u32 {
        self.node(node).count()
    }

    pub(super) fn slot_in_parent(&self, node: u32) -> u32 {
        self.node(node).slot_in_parent()
    }

    /// Sets a tag in `slots` (a bit for each of 64) of a node, and in each node above as far as the
    /// node below carried the tag nowhere before.
    #[inline]
    fn set_tags(&self, mut node: u32, tag: Tag, mut slots: u64) {
        while self.tag(node, tag).fetch_or(slots) == 0 {
            let n = self.node(node);
            (node, slots) = (n.parent(), 1 << n.slot_in_parent());
            if node == NO_NODE {
                return;
            }
        }
    }

    /// Clears a tag in `slots` (a bit for each of 64) of a node; if none is left there, also in the
    /// nodes above.
    #[inline]
    fn clear_tags(&self, mut node: u32, tag: Tag, mut slots: u64) {
        while self.tag(node, tag).fetch_and(!slots) & !slots == 0 {
            let n = self.node(node);
            (node, slots) = (n.parent(), 1 << n.slot_in_parent());
            if node == NO_NODE {
                return;
            }
        }
    }

    /// Searches the tree under `root` for the first page index from `from` on that `find` accepts
    /// on every level, and returns it with its leaf; `None` if there is none. `find` is called with
    /// a node, its level and a slot, and returns the first acceptable slot of the node from there
    /// on, if any.
    #[inline(always)]
    pub(super) fn next_slot(
        &self,
        root: u32,
        from: u32,
        find: impl Fn(u32, u32, u32) -> Option<u32>,
    ) -> Option<(u32, u32)> {
        if root == NO_NODE {
            return None;
        }
        let mut index = u64::from(from);
        // At most one step down and one step up per level for each subtree skipped.
        'restart: loop {
            if index >= capacity(self.level(root)) || index > u64::from(u32::MAX) {
                return None;
            }
            let mut node = root;
            loop {
                let level = self.level(node);
                let slot = (index >> (BITS * level)) as u32 & (SLOTS - 1);
                let Some(hit) = find(node, level, slot) else {
                    // No slot here is acceptable: continue behind this subtree.
                    let span = BITS * (level + 1);
                    index = ((index >> span) + 1) << span;
                    continue 'restart;
                };
                if hit > slot {
                    let span = BITS * level;
                    index = ((index >> span) + u64::from(hit - slot)) << span;
                }
                if level == 0 {
                    return Some((index as u32, node));
                }
                node = self.word(node, hit as usize).get() - 1;
            }
        }
    }

    /// Takes a node from the pool and returns it, with no slot in use. `parent`, `slot`: the node
    /// above and the slot there that will hold it; `level`: 0 for a leaf. The caller holds the
    /// pool's lock and has checked that a node is available.
    pub(super) fn alloc(&self, parent: u32, slot: u32, level: u32) -> u32 {
        let node = match self.free.get() {
            NO_NODE => self.fresh.fetch_add(1),
            node => {
                self.free.set(self.word(node, PARENT).get());
                node
            }
        };
        self.in_use.fetch_add(1);
        debug_assert!(self.tags[node as usize].iter().all(|t| t.get() == 0));
        self.word(node, PARENT).set(parent);
        self.word(node, SHAPE).set(slot << 8 | level << 16);
        node
    }

    /// Adds a leaf of the file `mapping` that now holds only shadows of evicted pages to the list
    /// of such leaves, as the youngest.
    pub(super) fn link_shadows(&self, node: u32, mapping: u32) {
        self.lock.with(|| {
            let last = self.shadow_youngest.get();
            self.word(node, OLDER).set(last);
            self.word(node, YOUNGER).set(NO_NODE);
            self.word(node, OWNER).set(mapping);
            match last {
                NO_NODE => self.shadow_oldest.set(node),
                last => self.word(last, YOUNGER).set(node),
            }
            self.shadow_youngest.set(node);
            self.shadow_nodes.fetch_add(1);
        });
    }

    /// Takes a leaf off the list of leaves that hold shadows alone: it has a page again, or is
    /// empty.
    pub(super) fn unlink_shadows(&self, node: u32) {
        self.lock.with(|| {
            let (older, younger) = (self.word(node, OLDER).get(), self.word(node, YOUNGER).get());
            match older {
                NO_NODE => self.shadow_oldest.set(younger),
                older => self.word(older, YOUNGER).set(younger),
            }
            match younger {
                NO_NODE => self.shadow_youngest.set(older),
                younger => self.word(younger, OLDER).set(older),
            }
            self.shadow_nodes.fetch_sub(1);
        });
    }

    /// Returns an empty node to the pool's chain of free nodes; the caller holds the pool's lock.
    pub(super) fn release(&self, node: u32) {
        debug_assert!(self.node(node).is_empty());
        self.word(node, PARENT).set(self.free.get());
        self.free.set(node);
        self.in_use.fetch_sub(1);
    }
}

/// One tree node. Code that accesses several words of a node looks it up once.
pub(super) struct Node<'a, W: World>(pub(super) &'a [W::U32; NODE_WORDS]);

impl<W: World> Node<'_, W> {
    #[inline(always)]
    pub(super) fn slot(&self, index: u32) -> &W::U32 {
        &self.0[(index & (SLOTS - 1)) as usize]
    }

    #[inline(always)]
    fn parent(&self) -> u32 {
        self.0[PARENT].get()
    }

    #[inline(always)]
    fn level(&self) -> u32 {
        self.0[SHAPE].get() >> 16 & 0xff
    }

    /// Returns the number of shadows in a leaf.
    #[inline(always)]
    pub(super) fn shadows(&self) -> u32 {
        self.0[SHAPE].get() >> 24
    }

    /// Returns true if the node has neither pages nor child nodes nor shadows.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.0[SHAPE].get() & (0xff | 0xff << 24) == 0
    }

    #[inline(always)]
    pub(super) fn count(&self) -> u32 {
        self.0[SHAPE].get() & 0xff
    }

    #[inline(always)]
    fn slot_in_parent(&self) -> u32 {
        self.0[SHAPE].get() >> 8 & 0xff
    }
}

/// The pages of a file in one leaf, from some index on. Its tags are protected by the file's tree
/// lock; the leaf stays as long as one of its pages does.
pub(crate) struct Leaf<'a, W: World> {
    pub(super) pool: &'a Nodes<W>,
    pub(crate) node: u32,
    pub(super) from: u32,
}

impl<'a, W: World> Leaf<'a, W> {
    /// Returns the slots from the leaf's starting page on: `most` of them, or as many as there are.
    /// Each holds a frame number plus 1, or a shadow; 0 is a hole.
    #[inline(always)]
    pub fn slots(&self, most: u32) -> &'a [W::U32] {
        let to = SLOTS.min(self.from.saturating_add(most));
        &self.pool.words[self.node as usize][self.from as usize..to as usize]
    }

    /// Returns a mask with a bit for each of the first `n` slots from the leaf's starting page on.
    #[inline(always)]
    fn first(&self, n: u32) -> u64 {
        debug_assert!((1..=SLOTS - self.from).contains(&n));
        (u64::MAX >> (SLOTS - n)) << self.from
    }

    /// Returns the slot of page `index`, which belongs to this leaf.
    #[inline(always)]
    pub fn slot(&self, index: u32) -> &'a W::U32 {
        &self.pool.words[self.node as usize][(index & (SLOTS - 1)) as usize]
    }

    /// Returns true if the leaf holds a page; one without holds shadows alone, and is on their
    /// list.
    #[inline(always)]
    pub fn has_pages(&self) -> bool {
        self.pool.node(self.node).count() > 0
    }

    /// Returns the slots of `n` consecutive pages of this leaf from page `index` on.
    #[inline(always)]
    pub fn slots_at(&self, index: u32, n: u32) -> &'a [W::U32] {
        let from = (index & (SLOTS - 1)) as usize;
        &self.pool.words[self.node as usize][from..from + n as usize]
    }

    /// Adds `n` to the leaf's count of pages, after the caller has filled as many empty slots.
    #[inline(always)]
    pub fn grown(&self, n: u32) {
        self.pool.node(self.node).0[SHAPE].fetch_add(n);
    }

    /// Sets a tag on `n` pages of this leaf from page `index` on, and in the nodes above.
    #[inline(always)]
    pub fn set_tag_run(&self, tag: Tag, index: u32, n: u32) {
        let ones = u64::MAX >> (SLOTS - n);
        self.pool
            .set_tags(self.node, tag, ones << (index & (SLOTS - 1)));
    }

    /// Sets a tag on the first `n` pages from the leaf's starting page on, and in the nodes above.
    #[inline]
    pub fn set_tags(&self, tag: Tag, n: u32) {
        self.pool.set_tags(self.node, tag, self.first(n));
    }

    /// Clears a tag on the first `n` pages from the leaf's starting page on; also in nodes above
    /// that have it nowhere else.
    #[inline]
    pub fn clear_tags(&self, tag: Tag, n: u32) {
        self.pool.clear_tags(self.node, tag, self.first(n));
    }
}

/// Returns the number of page indices that a tree can hold whose root is at `level`: 64 to the
/// power of level + 1.
#[inline(always)]
pub(super) fn capacity(level: u32) -> u64 {
    1u64 << (BITS * (level + 1)).min(36)
}
