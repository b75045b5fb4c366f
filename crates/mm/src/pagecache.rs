//! The page index of a file: a 64-way tree with dirty and writeback tags.
//!
//! Nodes come from one preallocated pool. Each holds 64 slots (frames in a leaf, nodes above), a
//! count, its parent, and two tag bitmaps; a tag on an inner node says that some page below it
//! carries the tag, so the next dirty page of a large file is found in a few steps. The last leaf
//! used is remembered per file: sequential access walks the tree once in 64 pages.
//!
//! A file's tree, its tags and the remembered leaf belong to the file's tree lock; the chain of free
//! nodes, which all files share, belongs to the pool's.

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

/// What became of a page that was to enter a file's index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entered {
    /// It is there.
    Added,
    /// Another page is there.
    Exists,
    /// The pool of tree nodes is exhausted.
    NoMemory,
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
    lock: W::Lock,
}

impl<W: World> Nodes<W> {
    pub fn new(capacity: u32) -> Self {
        let nodes = Self {
            words: bytemuck::zeroed_slice_box(capacity as usize),
            tags: bytemuck::zeroed_slice_box(capacity as usize),
            free: bytemuck::Zeroable::zeroed(),
            fresh: bytemuck::Zeroable::zeroed(),
            in_use: bytemuck::Zeroable::zeroed(),
            lock: W::Lock::default(),
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
    /// The leaf that holds `index`, if the tree has it; the caller holds the tree lock.
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
        let m = &self.mappings[mapping as usize];
        m.tree_lock.with(|| self.page_at(mapping, index))
    }

    /// The page at an index of a file, and whether the caller has its lock now. No page can leave
    /// the file between the look and the lock.
    pub(crate) fn find_trylock_page(&self, mapping: u32, index: u32) -> Option<(Pfn, bool)> {
        let m = &self.mappings[mapping as usize];
        m.tree_lock.with(|| {
            let pfn = self.page_at(mapping, index)?;
            let free = |before: u32| before & flag::LOCKED == 0;
            let mine = free(self.frames.set_flags(pfn, flag::LOCKED))
                // Whoever unlocks it from here on sees that somebody waits.
                || free(self.frames.set_flags(pfn, flag::WAITERS | flag::LOCKED));
            Some((pfn, mine))
        })
    }

    /// The page at an index of a file, locked, if its lock is free.
    pub fn find_page_if_unlocked(&self, mapping: u32, index: u32) -> Option<Pfn> {
        let m = &self.mappings[mapping as usize];
        m.tree_lock.with(|| {
            self.page_at(mapping, index)
                .filter(|&pfn| self.try_lock_page(pfn))
        })
    }

    #[inline]
    fn page_at(&self, mapping: u32, index: u32) -> Option<Pfn> {
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
        self.leaf(mapping, index).or_else(|| {
            let pool = &self.nodes_pool;
            pool.lock.with(|| self.create_leaf(mapping, index))
        })
    }

    fn create_leaf(&self, mapping: u32, index: u32) -> Option<u32> {
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

    /// Enters a page into a file's index.
    #[inline]
    fn index_insert(&self, mapping: u32, index: u32, pfn: Pfn) -> Entered {
        let m = &self.mappings[mapping as usize];
        self.world.charge(Cost::PageIndex, 1);
        m.tree_lock.with(|| {
            let Some(leaf) = self.leaf_or_create(mapping, index) else {
                return Entered::NoMemory;
            };
            let slot = self.nodes_pool.word(leaf, (index & (SLOTS - 1)) as usize);
            if slot.get() != 0 {
                return Entered::Exists;
            }
            let meta = if m.is_meta() { flag::META } else { 0 };
            self.frames.set_mapping(pfn, mapping, index);
            self.frames.set_flags(pfn, flag::CACHED | meta);
            slot.set(pfn + 1);
            self.nodes_pool.word(leaf, SHAPE).fetch_add(1);
            m.nrpages.fetch_add(1);
            Entered::Added
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
                pool.lock.with(|| pool.release(node));
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
        let m = &self.mappings[mapping as usize];
        m.tree_lock.with(|| self.set_tag_at(mapping, index, tag));
    }

    #[inline]
    fn set_tag_at(&self, mapping: u32, index: u32, tag: Tag) {
        let pool = &self.nodes_pool;
        let mut node = self.leaf(mapping, index).expect("a tagged page is cached");
        let mut slot = index & (SLOTS - 1);
        loop {
            let before = pool.tag(node, tag).fetch_or(1 << slot);
            if before != 0 || pool.word(node, PARENT).get() == NO_NODE {
                return;
            }
            slot = pool.slot_in_parent(node);
            node = pool.word(node, PARENT).get();
        }
    }

    /// Clears a tag on a cached page.
    #[inline]
    pub(crate) fn tag_clear(&self, mapping: u32, index: u32, tag: Tag) {
        let m = &self.mappings[mapping as usize];
        m.tree_lock.with(|| self.clear_tag_at(mapping, index, tag));
    }

    #[inline]
    fn clear_tag_at(&self, mapping: u32, index: u32, tag: Tag) {
        let pool = &self.nodes_pool;
        let mut node = self.leaf(mapping, index).expect("a tagged page is cached");
        let mut slot = index & (SLOTS - 1);
        loop {
            let left = pool.tag(node, tag).fetch_and(!(1 << slot)) & !(1 << slot);
            if left != 0 || pool.word(node, PARENT).get() == NO_NODE {
                return;
            }
            slot = pool.slot_in_parent(node);
            node = pool.word(node, PARENT).get();
        }
    }

    /// The first index at or after `from` whose page carries the tag.
    pub fn next_tagged(&self, mapping: u32, tag: Tag, from: u32) -> Option<u32> {
        let m = &self.mappings[mapping as usize];
        m.tree_lock.with(|| self.tagged_from(mapping, tag, from))
    }

    fn tagged_from(&self, mapping: u32, tag: Tag, from: u32) -> Option<u32> {
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
        let m = &self.mappings[mapping as usize];
        m.tree_lock.with(|| self.run_from(mapping, tag, from, max))
    }

    fn run_from(&self, mapping: u32, tag: Tag, from: u32, max: u32) -> u32 {
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
        let m = &self.mappings[mapping as usize];
        m.tree_lock.with(|| {
            let root = m.root.get();
            root != NO_NODE && self.nodes_pool.tag(root, tag).get() != 0
        })
    }

    /// Enters a fresh page into a file's cache and hands it to the inactive list. `false`: the
    /// node pool is exhausted.
    ///
    /// # Panics
    /// If the file has a page there; where other tasks run meanwhile, use
    /// [`Mm::enter_page_cache_lru`].
    pub fn add_to_page_cache_lru(&self, pfn: Pfn, mapping: u32, index: u32) -> bool {
        match self.enter_page_cache_lru(pfn, mapping, index) {
            Entered::Added => true,
            Entered::NoMemory => false,
            Entered::Exists => panic!("page {index} of mapping {mapping} is cached already"),
        }
    }

    /// Enters a fresh page into a file's cache, unless somebody was faster, and hands it to the
    /// inactive list. A page that others must not see unfilled is locked before.
    pub fn enter_page_cache_lru(&self, pfn: Pfn, mapping: u32, index: u32) -> Entered {
        debug_assert!(!self.frames.any(pfn, flag::CACHED | flag::ANON));
        let entered = self.index_insert(mapping, index, pfn);
        if entered != Entered::Added {
            return entered;
        }
        self.stat.inc(
            self.world.cpu(),
            self.frames.zone(pfn),
            ZoneStat::NrFilePages,
        );
        self.lru_cache_add(pfn, crate::lru::Lru::InactiveFile);
        Entered::Added
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
        let m = &self.mappings[mapping as usize];
        m.tree_lock.with(|| self.page_from(mapping, from))
    }

    fn page_from(&self, mapping: u32, from: u32) -> Option<(u32, Pfn)> {
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

    /// Recounts a file's tree: slots, tags, counts. Returns its pages and its nodes.
    pub(crate) fn check_tree(&self, mapping: u32) -> Result<(u32, u32), String> {
        let root = self.mappings[mapping as usize].root.get();
        if root == NO_NODE {
            Ok((0, 0))
        } else {
            self.check_node(mapping, root, 0)
        }
    }

    fn check_node(&self, mapping: u32, node: u32, base: u64) -> Result<(u32, u32), String> {
        let pool = &self.nodes_pool;
        let level = pool.level(node);
        let (mut pages, mut nodes, mut used) = (0, 1, 0);
        let mut tags = [0u64; 2];
        for slot in 0..SLOTS {
            let v = pool.word(node, slot as usize).get();
            if v == 0 {
                continue;
            }
            used += 1;
            let index = base + (u64::from(slot) << (BITS * level));
            if level > 0 {
                let child = v - 1;
                if pool.word(child, PARENT).get() != node || pool.slot_in_parent(child) != slot {
                    return Err(format!(
                        "mapping {mapping}: node {child} has another parent"
                    ));
                }
                let (p, n) = self.check_node(mapping, child, index)?;
                pages += p;
                nodes += n;
                for tag in [Tag::Dirty, Tag::Writeback] {
                    let any = pool.tag(child, tag).get() != 0;
                    tags[tag as usize] |= u64::from(any) << slot;
                }
                continue;
            }
            pages += 1;
            let pfn = v - 1;
            let f = self.frames.flags(pfn);
            let place = (self.frames.mapping(pfn), u64::from(self.frames.index(pfn)));
            if place != (mapping, index) || f & flag::CACHED == 0 {
                return Err(format!(
                    "mapping {mapping} index {index}: frame {pfn} disagrees"
                ));
            }
            // A page whose dirty bit was just taken for I/O keeps its tag until it is decided.
            let dirty = f & (flag::DIRTY | flag::LOCKED) != 0
                && pool.tag(node, Tag::Dirty).get() >> slot & 1 == 1
                || f & flag::DIRTY != 0;
            tags[0] |= u64::from(dirty) << slot;
            tags[1] |= u64::from(f & flag::WRITEBACK != 0) << slot;
        }
        let found = [
            pool.tag(node, Tag::Dirty).get(),
            pool.tag(node, Tag::Writeback).get(),
        ];
        if found != tags {
            return Err(format!(
                "mapping {mapping} at {base}: tags {found:x?}, pages {tags:x?}"
            ));
        }
        if used != pool.count(node) {
            return Err(format!(
                "mapping {mapping} at {base}: {used} slots, count differs"
            ));
        }
        Ok((pages, nodes))
    }
}

/// The root of an empty tree.
pub(crate) const EMPTY: u32 = NO_NODE;
const _: () = assert!(NO_PFN == NO_NODE);
