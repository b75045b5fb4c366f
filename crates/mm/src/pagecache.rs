//! The page index of a file: a 64-way tree with dirty and writeback tags.
//!
//! Nodes come from one preallocated pool. Each holds 64 slots (frames in a leaf, nodes above), a
//! count, its parent, and two tag bitmaps; a tag on an inner node says that some page below it
//! carries the tag, so the next dirty page of a large file is found in a few steps. The last leaf
//! used is remembered per file: sequential access walks the tree once in 64 pages.

use crate::frame::{NO_PFN, flag};
use crate::vmstat::ZoneStat;
use crate::world::{Cost, ShortLock, Word32, Word64, World};
use crate::{Mm, Pfn};

const SLOTS: u32 = 64;
const BITS: u32 = 6;
const NO_NODE: u32 = u32::MAX;

/// Node word: the parent node.
const PARENT: usize = 64;
/// Node word: slots in use (low 8 bits), slot in the parent (8), level (8); 0 is a leaf.
const SHAPE: usize = 65;
const NODE_WORDS: usize = 66;

/// A tag that pages of a file carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Tag {
    /// PG_dirty and in need of writing.
    Dirty,
    /// Under writeback.
    Writeback,
}

/// The pool of tree nodes.
pub(crate) struct Nodes<W: World> {
    words: Box<[[W::U32; NODE_WORDS]]>,
    tags: Box<[[W::U64; 2]]>,
    /// First node of the free chain (linked through PARENT), or NO_NODE.
    free: W::U32,
    /// Nodes never used so far start here.
    fresh: W::U32,
    in_use: W::U32,
}

impl<W: World> Nodes<W> {
    pub fn new(capacity: u32) -> Self {
        let nodes = Self {
            words: bytemuck::zeroed_slice_box(capacity as usize),
            tags: bytemuck::zeroed_slice_box(capacity as usize),
            free: bytemuck::Zeroable::zeroed(),
            fresh: bytemuck::Zeroable::zeroed(),
            in_use: bytemuck::Zeroable::zeroed(),
        };
        nodes.free.set(NO_NODE);
        nodes
    }

    pub fn in_use(&self) -> u32 {
        self.in_use.get()
    }

    /// How many nodes one insertion can need at most.
    fn available(&self) -> u32 {
        self.words.len() as u32 - self.in_use.get()
    }

    #[inline(always)]
    fn word(&self, node: u32, w: usize) -> &W::U32 {
        &self.words[node as usize][w]
    }

    #[inline(always)]
    fn tag(&self, node: u32, tag: Tag) -> &W::U64 {
        &self.tags[node as usize][tag as usize]
    }

    fn level(&self, node: u32) -> u32 {
        self.word(node, SHAPE).get() >> 16
    }

    fn count(&self, node: u32) -> u32 {
        self.word(node, SHAPE).get() & 0xff
    }

    fn slot_in_parent(&self, node: u32) -> u32 {
        self.word(node, SHAPE).get() >> 8 & 0xff
    }

    fn alloc(&self, parent: u32, slot: u32, level: u32) -> u32 {
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

    fn release(&self, node: u32) {
        debug_assert!(self.count(node) == 0);
        self.word(node, PARENT).set(self.free.get());
        self.free.set(node);
        self.in_use.fetch_sub(1);
    }
}

/// Highest index a tree whose root is at `level` can hold.
fn capacity(level: u32) -> u64 {
    1u64 << (BITS * (level + 1)).min(36)
}

impl<W: World> Mm<W> {
    /// The leaf that holds `index`, if the tree has it.
    #[inline(always)]
    fn leaf(&self, mapping: u32, index: u32) -> Option<u32> {
        let m = &self.mappings[mapping as usize];
        if m.last_base.get() == index >> BITS && m.last_leaf.get() != NO_NODE {
            return Some(m.last_leaf.get());
        }
        self.leaf_walk(mapping, index)
    }

    fn leaf_walk(&self, mapping: u32, index: u32) -> Option<u32> {
        let m = &self.mappings[mapping as usize];
        let mut node = m.root.get();
        if node == NO_NODE || u64::from(index) >= capacity(self.nodes_pool.level(node)) {
            return None;
        }
        let mut level = self.nodes_pool.level(node);
        while level > 0 {
            let slot = index >> (BITS * level) & (SLOTS - 1);
            let child = self.nodes_pool.word(node, slot as usize).get();
            if child == 0 {
                return None;
            }
            node = child - 1;
            level -= 1;
        }
        m.last_base.set(index >> BITS);
        m.last_leaf.set(node);
        Some(node)
    }

    /// The page at an index of a file.
    #[inline]
    pub fn find_page(&self, mapping: u32, index: u32) -> Option<Pfn> {
        let leaf = self.leaf(mapping, index)?;
        match self
            .nodes_pool
            .word(leaf, (index & (SLOTS - 1)) as usize)
            .get()
        {
            0 => None,
            v => Some(v - 1),
        }
    }

    /// Makes sure the leaf for `index` exists. `None`: the node pool is exhausted.
    fn leaf_or_create(&self, mapping: u32, index: u32) -> Option<u32> {
        if let Some(leaf) = self.leaf(mapping, index) {
            return Some(leaf);
        }
        let (m, pool) = (&self.mappings[mapping as usize], &self.nodes_pool);
        if pool.available() < 12 {
            return None;
        }
        if m.root.get() == NO_NODE {
            let mut level = 0;
            while u64::from(index) >= capacity(level) {
                level += 1;
            }
            m.root.set(pool.alloc(NO_NODE, 0, level));
        }
        while u64::from(index) >= capacity(pool.level(m.root.get())) {
            let old = m.root.get();
            let root = pool.alloc(NO_NODE, 0, pool.level(old) + 1);
            pool.word(root, 0).set(old + 1);
            pool.word(root, SHAPE).fetch_add(1);
            for tag in [Tag::Dirty, Tag::Writeback] {
                pool.tag(root, tag)
                    .set(u64::from(pool.tag(old, tag).get() != 0));
            }
            pool.word(old, PARENT).set(root);
            m.root.set(root);
        }
        let mut node = m.root.get();
        for level in (1..=pool.level(node)).rev() {
            let slot = index >> (BITS * level) & (SLOTS - 1);
            node = match pool.word(node, slot as usize).get() {
                0 => {
                    let child = pool.alloc(node, slot, level - 1);
                    pool.word(node, slot as usize).set(child + 1);
                    pool.word(node, SHAPE).fetch_add(1);
                    child
                }
                v => v - 1,
            };
        }
        m.last_base.set(index >> BITS);
        m.last_leaf.set(node);
        Some(node)
    }

    /// Enters a page into a file's index. `false`: the node pool is exhausted.
    #[inline]
    pub(crate) fn index_insert(&self, mapping: u32, index: u32, pfn: Pfn) -> bool {
        let m = &self.mappings[mapping as usize];
        self.world.charge(Cost::PageIndex, 1);
        m.tree_lock.with(|| {
            let Some(leaf) = self.leaf_or_create(mapping, index) else {
                return false;
            };
            let slot = self.nodes_pool.word(leaf, (index & (SLOTS - 1)) as usize);
            assert!(
                slot.get() == 0,
                "page {index} of mapping {mapping} is cached already"
            );
            slot.set(pfn + 1);
            self.nodes_pool.word(leaf, SHAPE).fetch_add(1);
            m.nrpages.fetch_add(1);
            self.frames.set_mapping(pfn, mapping, index);
            true
        })
    }

    /// Takes a page out of its file's index. It carries no tag any more.
    pub(crate) fn index_remove(&self, pfn: Pfn) {
        let (mapping, index) = (self.frames.mapping(pfn), self.frames.index(pfn));
        let m = &self.mappings[mapping as usize];
        self.world.charge(Cost::PageIndex, 1);
        m.tree_lock.with(|| {
            let pool = &self.nodes_pool;
            let mut node = self.leaf(mapping, index).expect("a cached page has a leaf");
            let slot = index & (SLOTS - 1);
            assert!(
                pool.word(node, slot as usize).get() == pfn + 1,
                "index holds another page"
            );
            debug_assert!(
                [Tag::Dirty, Tag::Writeback]
                    .iter()
                    .all(|&t| pool.tag(node, t).get() >> slot & 1 == 0)
            );
            pool.word(node, slot as usize).set(0);
            pool.word(node, SHAPE).fetch_sub(1);
            m.nrpages.fetch_sub(1);
            while pool.count(node) == 0 {
                if m.last_leaf.get() == node {
                    m.last_leaf.set(NO_NODE);
                }
                let parent = pool.word(node, PARENT).get();
                let at = pool.slot_in_parent(node);
                pool.release(node);
                if parent == NO_NODE {
                    m.root.set(NO_NODE);
                    break;
                }
                pool.word(parent, at as usize).set(0);
                pool.word(parent, SHAPE).fetch_sub(1);
                node = parent;
            }
        });
    }

    /// Sets a tag on a cached page.
    #[inline]
    pub(crate) fn tag_set(&self, mapping: u32, index: u32, tag: Tag) {
        let leaf = self.leaf(mapping, index).expect("a tagged page is cached");
        self.leaf_tag_set(leaf, 1 << (index & (SLOTS - 1)), tag);
    }

    /// Clears a tag on a cached page.
    #[inline]
    pub(crate) fn tag_clear(&self, mapping: u32, index: u32, tag: Tag) {
        let leaf = self.leaf(mapping, index).expect("a tagged page is cached");
        self.leaf_tag_clear(leaf, 1 << (index & (SLOTS - 1)), tag);
    }

    /// Sets a tag on the pages of a leaf that `slots` names by their bits.
    #[inline(always)]
    fn leaf_tag_set(&self, leaf: u32, slots: u64, tag: Tag) {
        let pool = &self.nodes_pool;
        let (mut node, mut bits) = (leaf, slots);
        while pool.tag(node, tag).fetch_or(bits) == 0 {
            let parent = pool.word(node, PARENT).get();
            if parent == NO_NODE {
                break;
            }
            bits = 1 << pool.slot_in_parent(node);
            node = parent;
        }
    }

    /// Clears a tag on the pages of a leaf that `slots` names by their bits.
    #[inline(always)]
    fn leaf_tag_clear(&self, leaf: u32, slots: u64, tag: Tag) {
        let pool = &self.nodes_pool;
        let (mut node, mut bits) = (leaf, slots);
        while pool.tag(node, tag).fetch_and(!bits) & !bits == 0 {
            let parent = pool.word(node, PARENT).get();
            if parent == NO_NODE {
                break;
            }
            bits = 1 << pool.slot_in_parent(node);
            node = parent;
        }
    }

    /// Calls `page` for the pages from `first` on, up to `most` of them, until it says no or one
    /// is not cached; `leaf_done` with each leaf and the bits of its pages that were taken.
    /// Returns how many were taken.
    #[inline(always)]
    pub(crate) fn for_run(
        &self,
        mapping: u32,
        first: u32,
        most: u32,
        mut page: impl FnMut(Pfn) -> bool,
        mut leaf_done: impl FnMut(u32, u64),
    ) -> u32 {
        let mut n = 0;
        while n < most {
            let Some(at) = first.checked_add(n) else {
                break;
            };
            let Some(leaf) = self.leaf(mapping, at) else {
                break;
            };
            let slot = at & (SLOTS - 1);
            let here = (SLOTS - slot).min(most - n);
            let mut taken = 0;
            while taken < here {
                let v = self.nodes_pool.word(leaf, (slot + taken) as usize).get();
                if v == 0 || !page(v - 1) {
                    break;
                }
                taken += 1;
            }
            if taken > 0 {
                leaf_done(leaf, u64::MAX >> (SLOTS - taken) << slot);
            }
            n += taken;
            if taken < here {
                break;
            }
        }
        n
    }

    /// Moves pages of a leaf from the dirty to the writeback tag.
    #[inline(always)]
    pub(crate) fn leaf_starts_writeback(&self, leaf: u32, slots: u64) {
        self.leaf_tag_clear(leaf, slots, Tag::Dirty);
        self.leaf_tag_set(leaf, slots, Tag::Writeback);
    }

    /// Takes the writeback tag off pages of a leaf.
    #[inline(always)]
    pub(crate) fn leaf_ends_writeback(&self, leaf: u32, slots: u64) {
        self.leaf_tag_clear(leaf, slots, Tag::Writeback);
    }

    /// The first index at or after `from` whose page carries the tag.
    pub fn next_tagged(&self, mapping: u32, tag: Tag, from: u32) -> Option<u32> {
        let pool = &self.nodes_pool;
        if let Some(leaf) = self.leaf(mapping, from) {
            let bits = pool.tag(leaf, tag).get() >> (from & (SLOTS - 1));
            if bits != 0 {
                return Some(from + bits.trailing_zeros());
            }
        }
        let root = self.mappings[mapping as usize].root.get();
        if root == NO_NODE {
            return None;
        }
        let mut index = u64::from(from);
        // At most one step down and one step up a level for each subtree passed by.
        'restart: loop {
            if index >= capacity(pool.level(root)) || index > u64::from(u32::MAX) {
                return None;
            }
            let mut node = root;
            loop {
                let level = pool.level(node);
                let slot = (index >> (BITS * level)) as u32 & (SLOTS - 1);
                let bits = pool.tag(node, tag).get() >> slot;
                if bits == 0 {
                    // Nothing here: go on behind this subtree.
                    let span = BITS * (level + 1);
                    index = ((index >> span) + 1) << span;
                    continue 'restart;
                }
                let skip = bits.trailing_zeros();
                if skip > 0 {
                    let span = BITS * level;
                    index = ((index >> span) + u64::from(skip)) << span;
                }
                if level == 0 {
                    return Some(index as u32);
                }
                let slot = (index >> (BITS * level)) as u32 & (SLOTS - 1);
                node = pool.word(node, slot as usize).get() - 1;
            }
        }
    }

    /// How many pages from `from` on carry the tag without a gap, up to `max`.
    pub fn tagged_run(&self, mapping: u32, tag: Tag, from: u32, max: u32) -> u32 {
        let mut n = 0;
        while n < max {
            let at = from + n;
            let Some(leaf) = self.leaf(mapping, at) else {
                break;
            };
            let slot = at & (SLOTS - 1);
            let ones = (self.nodes_pool.tag(leaf, tag).get() >> slot).trailing_ones();
            n += ones;
            if ones < SLOTS - slot || at.checked_add(ones).is_none() {
                break;
            }
        }
        n.min(max)
    }

    /// How many pages of a file carry the tag, counting no further than `most`.
    pub fn tagged_count(&self, mapping: u32, tag: Tag, most: u32) -> u32 {
        let (mut n, mut from) = (0, 0);
        while n < most {
            let Some(first) = self.next_tagged(mapping, tag, from) else {
                break;
            };
            let run = self.tagged_run(mapping, tag, first, most - n);
            n += run;
            from = first + run;
        }
        n
    }

    /// Whether any page of a file carries the tag.
    pub fn mapping_tagged(&self, mapping: u32, tag: Tag) -> bool {
        let root = self.mappings[mapping as usize].root.get();
        root != NO_NODE && self.nodes_pool.tag(root, tag).get() != 0
    }

    /// Enters a fresh page into a file's cache and hands it to the inactive list.
    pub fn add_to_page_cache_lru(&self, pfn: Pfn, mapping: u32, index: u32) -> bool {
        debug_assert!(!self.frames.any(pfn, flag::CACHED | flag::ANON));
        if !self.index_insert(mapping, index, pfn) {
            return false;
        }
        let meta = if self.mappings[mapping as usize].is_meta() {
            flag::META
        } else {
            0
        };
        self.frames.set_flags(pfn, flag::CACHED | meta);
        self.stat.inc(
            self.world.cpu(),
            self.frames.zone(pfn),
            ZoneStat::NrFilePages,
        );
        self.lru_cache_add(pfn, crate::lru::Lru::InactiveFile);
        true
    }

    /// Takes a clean page out of its file's cache.
    pub(crate) fn remove_from_page_cache(&self, pfn: Pfn) {
        debug_assert!(!self.frames.any(pfn, flag::DIRTY | flag::WRITEBACK));
        self.index_remove(pfn);
        self.frames.clear_flags(pfn, flag::CACHED | flag::META);
        self.frames.set_mapping(pfn, u32::MAX, 0);
        self.stat.dec(
            self.world.cpu(),
            self.frames.zone(pfn),
            ZoneStat::NrFilePages,
        );
    }

    /// Every cached page of a file in index order; for checks and truncation.
    pub(crate) fn first_page_from(&self, mapping: u32, from: u32) -> Option<(u32, Pfn)> {
        let pool = &self.nodes_pool;
        let root = self.mappings[mapping as usize].root.get();
        if root == NO_NODE {
            return None;
        }
        let mut index = u64::from(from);
        'restart: loop {
            if index >= capacity(pool.level(root)) || index > u64::from(u32::MAX) {
                return None;
            }
            let mut node = root;
            loop {
                let level = pool.level(node);
                let slot = (index >> (BITS * level)) as u32 & (SLOTS - 1);
                let Some(hit) = (slot..SLOTS).find(|&s| pool.word(node, s as usize).get() != 0)
                else {
                    let span = BITS * (level + 1);
                    index = ((index >> span) + 1) << span;
                    continue 'restart;
                };
                if hit > slot {
                    let span = BITS * level;
                    index = ((index >> span) + u64::from(hit - slot)) << span;
                }
                let child = pool.word(node, hit as usize).get() - 1;
                if level == 0 {
                    return Some((index as u32, child));
                }
                node = child;
            }
        }
    }

    /// Recounts a file's tree: slots, counts, parents, tags above the leaves, no tag without a
    /// page. Returns its pages and its nodes. That pages are
    /// in their slots and carry their tags is seen from the frames.
    pub(crate) fn check_tree(&self, mapping: u32) -> Result<(u32, u32), String> {
        let m = &self.mappings[mapping as usize];
        // The remembered leaf must be the one that a walk finds, for look-ups trust it.
        let remembered = m.last_leaf.get();
        if remembered != NO_NODE {
            m.last_leaf.set(NO_NODE);
            if self.leaf_walk(mapping, m.last_base.get() << BITS) != Some(remembered) {
                return Err(format!(
                    "mapping {mapping}: leaf {remembered} is remembered wrongly"
                ));
            }
        }
        match m.root.get() {
            NO_NODE => Ok((0, 0)),
            root => self.check_node(mapping, root, 0),
        }
    }

    fn check_node(&self, mapping: u32, node: u32, base: u64) -> Result<(u32, u32), String> {
        let pool = &self.nodes_pool;
        let level = pool.level(node);
        let mut used = 0u64;
        for (slot, word) in pool.words[node as usize][..SLOTS as usize]
            .iter()
            .enumerate()
        {
            used |= u64::from(word.get() != 0) << slot;
        }
        let (mut pages, mut nodes) = (used.count_ones(), 1);
        let found = [Tag::Dirty, Tag::Writeback].map(|tag| pool.tag(node, tag).get());
        let mut tags = found.map(|t| t & used);
        if level > 0 {
            (pages, tags) = (0, [0; 2]);
            for slot in (0..SLOTS).filter(|slot| used >> slot & 1 != 0) {
                let child = pool.word(node, slot as usize).get() - 1;
                if pool.word(child, PARENT).get() != node
                    || pool.slot_in_parent(child) != slot
                    || pool.level(child) + 1 != level
                {
                    return Err(format!(
                        "mapping {mapping}: node {child} has another parent"
                    ));
                }
                let below = base + (u64::from(slot) << (BITS * level));
                let (p, n) = self.check_node(mapping, child, below)?;
                pages += p;
                nodes += n;
                for tag in [Tag::Dirty, Tag::Writeback] {
                    let any = pool.tag(child, tag).get() != 0;
                    tags[tag as usize] |= u64::from(any) << slot;
                }
            }
        }
        if found != tags {
            return Err(format!(
                "mapping {mapping} at {base}: tags {found:x?}, slots {tags:x?}"
            ));
        }
        if used.count_ones() != pool.count(node) {
            return Err(format!(
                "mapping {mapping} at {base}: {} slots, count differs",
                used.count_ones()
            ));
        }
        Ok((pages, nodes))
    }

    /// The leaf that holds `index`, for checks.
    pub(crate) fn leaf_of(&self, mapping: u32, index: u32) -> Option<Leaf<'_, W>> {
        let leaf = self.leaf(mapping, index)? as usize;
        Some(Leaf {
            base: index >> BITS,
            words: &self.nodes_pool.words[leaf],
            tags: [Tag::Dirty, Tag::Writeback]
                .map(|tag| self.nodes_pool.tag(leaf as u32, tag).get()),
        })
    }
}

/// A leaf as a check sees it: 64 neighbouring pages of a file and their tags.
pub(crate) struct Leaf<'a, W: World> {
    base: u32,
    words: &'a [W::U32; NODE_WORDS],
    tags: [u64; 2],
}

impl<W: World> Leaf<'_, W> {
    /// Whether an index of the same file is in this leaf.
    #[inline]
    pub fn covers(&self, index: u32) -> bool {
        self.base == index >> BITS
    }

    /// The page at an index.
    #[inline]
    pub fn page(&self, index: u32) -> Option<Pfn> {
        self.words[(index & (SLOTS - 1)) as usize]
            .get()
            .checked_sub(1)
    }

    /// Whether an index carries the dirty and the writeback tag.
    #[inline]
    pub fn tags(&self, index: u32) -> [bool; 2] {
        self.tags.map(|t| t >> (index & (SLOTS - 1)) & 1 == 1)
    }
}

/// The root of an empty tree.
pub(crate) const EMPTY: u32 = NO_NODE;
const _: () = assert!(NO_PFN == NO_NODE);
