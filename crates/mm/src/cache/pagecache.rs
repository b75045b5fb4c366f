//! The page index of a file: a 64-way tree with dirty and writeback tags.
//!
//! Nodes come from one preallocated pool. Each holds 64 slots (frames in a leaf, nodes above), a
//! count, its parent, and two tag bitmaps; a tag on an inner node says that some page below it
//! carries the tag, so the next dirty page of a large file is found in a few steps. The last leaves
//! used are remembered per file, so sequential access walks the tree once in 64 pages.
//!
//! A file's tree, its tags and the remembered leaves are protected by the file's tree lock; the
//! chain of free nodes, which all files share, by the pool's.

use crate::cache::mapping::Mapping;
use crate::cache::tree::{
    BITS, Leaf, NO_NODE, ONE_SHADOW, PARENT, SHADOW, SHAPE, SLOTS, Tag, capacity, page_in,
};
use crate::memory::frame::{Page, flag, zone_of};
use crate::memory::zone::Lru;
use crate::policy::Accesses;
use crate::watch::vmstat::{ZoneEvent, ZoneStat};
use crate::world::event::Event;
use crate::world::{Audience, Cost, ShortLock, Word32, Word64, World};
use crate::{Mm, Pfn};

/// The purpose that a fresh page is brought in for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Brought {
    /// To be read, or unknown.
    Read,
    /// To be written (`__GFP_WRITE`).
    Written,
}

/// The result of entering a page into a file's index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entered {
    /// The page was added.
    Added,
    /// Another page is at this index.
    Exists,
    /// The pool of tree nodes is exhausted.
    NoMemory,
}

/// Returns a time (ns) in milliseconds, as pages carry the time at which they entered the cache; it
/// wraps after 49 days.
#[inline(always)]
pub(crate) fn milliseconds(ns: u64) -> u32 {
    (ns / 1_000_000) as u32
}

impl<W: World> Mm<W> {
    /// Returns the leaf of a file's tree (a node of the pool) whose 64 slots include page `index`,
    /// if the tree has it. The caller holds the tree lock, as for all functions here that take no
    /// lock themselves.
    #[inline(always)]
    pub(super) fn leaf(&self, mapping: u32, index: u32) -> Option<u32> {
        let m = &self.mappings[mapping as usize];
        self.leaf_of(m, index)
    }

    /// Returns the leaf of the file `m` whose slots include page `index`: the remembered one if it
    /// fits, else by a walk; `None` if the tree has none.
    #[inline(always)]
    fn leaf_of(&self, m: &Mapping<W>, index: u32) -> Option<u32> {
        let (base, leaf) = m.last(index >> BITS);
        if base.get() == index >> BITS && leaf.get() != NO_NODE {
            return Some(leaf.get());
        }
        self.leaf_walk(m, index)
    }

    /// Walks a file's tree for the leaf whose slots include page `index` and remembers it for the
    /// next look-up; `None` if the tree has none.
    #[inline(never)]
    pub(super) fn leaf_walk(&self, m: &Mapping<W>, index: u32) -> Option<u32> {
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
            // A slot of an inner node holds the child's number plus 1; 0 is none.
            node = child - 1;
            level -= 1;
        }
        let (base, leaf) = m.last(index >> BITS);
        base.set(index >> BITS);
        leaf.set(node);
        Some(node)
    }

    /// Returns the frame of page `index` of a file; `None` if it is not cached. Takes the tree lock
    /// only for the look-up.
    #[inline]
    pub fn find_page(&self, mapping: u32, index: u32) -> Option<Pfn> {
        debug_assert!(
            mapping < self.mapping_count(),
            "file {mapping} does not exist"
        );
        let m = &self.mappings[mapping as usize];
        m.tree_lock.with(|| self.page_at(mapping, index))
    }

    /// Calls `f` with the frames of up to `most` consecutive cached pages of a file from page
    /// `index` on, under the tree lock, up to the first page that is not cached; returns how many
    /// there were.
    #[inline]
    pub fn cached_run(&self, mapping: u32, index: u32, most: u32, mut f: impl FnMut(Pfn)) -> u32 {
        debug_assert!(
            mapping < self.mapping_count(),
            "file {mapping} does not exist"
        );
        let m = &self.mappings[mapping as usize];
        let mut n = 0;
        m.tree_lock.with(|| {
            while n < most
                && let Some(leaf) = self.leaf_at(m, index + n)
            {
                for slot in leaf.slots(most - n) {
                    let Some(pfn) = page_in(slot.get()) else {
                        return;
                    };
                    f(pfn);
                    n += 1;
                }
            }
        });
        n
    }

    /// Returns the frame at page `index` of a file as seen without the tree lock: a hint, which may
    /// be late or wrong beside tasks that change the tree. Nodes are never returned to the system,
    /// so every word met on the way is one of the pool. A caller that uses the page must hold the
    /// frame and then check that it still belongs here.
    #[inline]
    pub fn peek_page(&self, mapping: u32, index: u32) -> Option<Pfn> {
        let pool = &self.nodes_pool;
        let mut node = self.mappings[mapping as usize].root.get();
        let shape = pool.words.get(node as usize)?[SHAPE].get();
        // The level is in bits 16 to 23 of a node's shape word; 0 is a leaf.
        let mut level = shape >> 16 & 0xff;
        if u64::from(index) >= capacity(level) {
            return None;
        }
        while level > 0 {
            let slot = index.checked_shr(BITS * level).unwrap_or(0) & (SLOTS - 1);
            node = pool.words.get(node as usize)?[slot as usize]
                .get()
                .wrapping_sub(1);
            level -= 1;
        }
        let slot = pool.words.get(node as usize)?[(index & (SLOTS - 1)) as usize].get();
        page_in(slot).filter(|&pfn| pfn < self.frames.len())
    }

    /// Returns the frame of page `index` of a file, and whether the caller has got its page lock;
    /// `None` if it is not cached. No page can leave the file between the look-up and the lock. If
    /// the lock is taken, the page is marked as having a waiter.
    pub(crate) fn find_trylock_page(&self, mapping: u32, index: u32) -> Option<(Pfn, bool)> {
        let m = &self.mappings[mapping as usize];
        m.tree_lock.with(|| {
            let pfn = self.page_at(mapping, index)?;
            Some((pfn, self.lock_or_mark(pfn)))
        })
    }

    /// Does [`Self::find_page`] under the tree lock.
    #[inline]
    fn page_at(&self, mapping: u32, index: u32) -> Option<Pfn> {
        let leaf = self.leaf(mapping, index)?;
        page_in(self.nodes_pool.node(leaf).slot(index).get())
    }

    /// Makes the leaf of a file's tree for page `index` and returns its node; the caller holds the
    /// tree lock. `None`: the node pool is exhausted.
    #[inline(never)]
    fn create_leaf(&self, m: &Mapping<W>, index: u32) -> Option<u32> {
        self.nodes_pool.lock.with(|| self.grow_tree(m, index))
    }

    /// Does [`Self::create_leaf`] under the pool's lock: adds levels above the root until `index`
    /// fits, then the missing nodes down to its leaf.
    fn grow_tree(&self, m: &Mapping<W>, index: u32) -> Option<u32> {
        let pool = &self.nodes_pool;
        // More nodes than one page can need: the levels of the tree and as many new ones above the
        // root.
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
            // The old root becomes the first child; the low bits of `SHAPE` count a node's slots in
            // use.
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
        let (base, leaf) = m.last(index >> BITS);
        base.set(index >> BITS);
        leaf.set(node);
        Some(node)
    }

    /// Enters the frame `pfn` into a file's index as page `index`. The page's own record of the
    /// file is set before other tasks can find it there. Returns whether the page was added, and
    /// the shadow of an evicted page that was in its place, or 0.
    #[inline(always)]
    fn index_insert(&self, m: &Mapping<W>, mapping: u32, index: u32, pfn: Pfn) -> (Entered, u32) {
        self.world.charge(Cost::PageIndex, 1);
        m.tree_lock.with(|| {
            let leaf = self
                .leaf_of(m, index)
                .or_else(|| self.create_leaf(m, index));
            let Some(at) = leaf else {
                return (Entered::NoMemory, 0);
            };
            let leaf = self.nodes_pool.node(at);
            let before = leaf.slot(index).get();
            if before != 0 && before & SHADOW == 0 {
                return (Entered::Exists, 0);
            }
            // With a page the leaf no longer holds shadows alone.
            if leaf.count() == 0 && leaf.shadows() > 0 {
                self.nodes_pool.unlink_shadows(at);
            }
            if before != 0 {
                leaf.0[SHAPE].fetch_sub(ONE_SHADOW);
            }
            let page = self.frames.page(pfn);
            page.set_mapping(mapping, index);
            page.set_flags(flag::CACHED);
            leaf.slot(index).set(pfn + 1);
            leaf.0[SHAPE].fetch_add(1);
            m.nrpages.fetch_add(1);
            (Entered::Added, before)
        })
    }

    /// Takes the page `pfn` out of its file's index and leaves `shadow` (the trace of its eviction,
    /// or 0) in its slot; frees the leaf if it becomes empty. The page must not carry a tag.
    #[inline(always)]
    fn index_remove(&self, page: Page<'_, W>, pfn: Pfn, shadow: u32) {
        let (mapping, index) = (page.mapping(), page.index());
        let m = &self.mappings[mapping as usize];
        m.tree_lock.with(|| {
            let at = self.leaf_of(m, index).expect("a cached page has a leaf");
            let leaf = self.nodes_pool.node(at);
            assert!(
                leaf.slot(index).get() == pfn + 1,
                "index holds another page"
            );
            debug_assert!(
                [Tag::Dirty, Tag::Writeback].iter().all(|&t| {
                    self.nodes_pool.tag(at, t).get() >> (index & (SLOTS - 1)) & 1 == 0
                })
            );
            leaf.slot(index).set(shadow);
            if self.metadata.of_leaves() {
                self.pages_leave(mapping, at, 1 << (index & (SLOTS - 1)));
            }
            m.nrpages.fetch_sub(1);
            if shadow != 0 {
                leaf.0[SHAPE].fetch_add(ONE_SHADOW);
            }
            if leaf.0[SHAPE].fetch_sub(1) & 0xff == 1 {
                self.leave_empty(m, mapping, at);
            }
        });
        self.mapping_shrank(mapping);
    }

    /// Replaces, for migration, the frame `from` of a locked page of a file in the index by the
    /// frame `to`; the page's tags stay.
    pub(crate) fn index_replace(&self, from: Pfn, to: Pfn) {
        let page = self.frames.page(from);
        let (mapping, index) = (page.mapping(), page.index());
        let m = &self.mappings[mapping as usize];
        m.tree_lock.with(|| {
            let at = self.leaf_of(m, index).expect("a cached page has a leaf");
            let slot = self.nodes_pool.node(at).slot(index).get();
            assert!(slot == from + 1, "index holds another page");
            self.nodes_pool.node(at).slot(index).set(to + 1);
        });
    }

    /// Takes up to 32 clean, locked pages of one leaf out of their file's cache at once
    /// ([`Mm::leave_page_cache`]), and unlocks them; they then belong to no file. `leaf`: page
    /// index / 64. `shadow` is called with a page's flags and its place in `pages` and returns the
    /// trace that is left in its slot, or 0. Returns a bit for each of `pages` whose lock has a
    /// waiter.
    #[inline(always)]
    pub(crate) fn leave_in_run(
        &self,
        mapping: u32,
        leaf: u32,
        pages: &[Pfn],
        shadow: impl Fn(u32, u32) -> u32,
    ) -> u32 {
        const GONE: u32 = flag::LOCKED
            | flag::WAITERS
            | flag::CACHED
            | flag::REFERENCED
            | flag::ACTIVE
            | flag::RECLAIM;
        let m = &self.mappings[mapping as usize];
        let frames = self.frames.table();
        if self.traced() {
            for &pfn in pages {
                self.tell_deleted(pfn);
            }
        }
        let waited = m.tree_lock.with(|| {
            let at = self.leaf_of(m, leaf * SLOTS);
            let at = at.expect("a cached page has a leaf");
            let leaf = self.nodes_pool.node(at);
            let (mut shadows, mut waited, mut gone) = (0, 0, 0u64);
            for (nth, &pfn) in pages.iter().enumerate() {
                let page = frames.page(pfn);
                let slot = leaf.slot(page.index());
                assert!(slot.get() == pfn + 1, "index holds another page");
                gone |= 1 << (page.index() & (SLOTS - 1));
                let before = page.clear_flags(GONE);
                let shadow = shadow(before, nth as u32);
                shadows += u32::from(shadow != 0);
                slot.set(shadow);
                page.set_mapping(u32::MAX, 0);
                debug_assert!(
                    before & (flag::DIRTY | flag::WRITEBACK | flag::LOCKED | flag::CACHED)
                        == flag::LOCKED | flag::CACHED
                );
                if before & flag::WAITERS != 0 {
                    waited |= 1 << nth;
                }
            }
            if self.metadata.of_leaves() {
                self.pages_leave(mapping, at, gone);
            }
            let n = pages.len() as u32;
            m.nrpages.fetch_sub(n);
            // The low 8 bits of `SHAPE` count the leaf's pages, the upper 8 its shadows.
            let before = leaf.0[SHAPE].fetch_add((ONE_SHADOW * shadows).wrapping_sub(n));
            if before & 0xff == n {
                self.leave_empty(m, mapping, at);
            }
            waited
        });
        self.mapping_shrank(mapping);
        waited
    }

    /// Handles that the last page left the leaf `at`: frees the leaf, or, if shadows stay in it,
    /// puts it on the list of leaves that hold shadows only. The caller holds the tree lock.
    fn leave_empty(&self, m: &Mapping<W>, mapping: u32, at: u32) {
        if self.nodes_pool.node(at).shadows() > 0 {
            self.nodes_pool.link_shadows(at, mapping);
        } else {
            self.release_empty(m, at);
        }
    }

    /// Frees the tree node `node` if it is empty, and those above it that become empty by this; the
    /// caller holds the tree lock.
    #[inline(never)]
    pub(super) fn release_empty(&self, m: &Mapping<W>, mut node: u32) {
        let pool = &self.nodes_pool;
        while pool.node(node).is_empty() {
            for leaf in m.last_leaf.iter().filter(|leaf| leaf.get() == node) {
                leaf.set(NO_NODE);
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
    }

    /// Sets a tag on cached page `index` of a file, and in the nodes above.
    #[inline(always)]
    pub(crate) fn tag_set(&self, m: &Mapping<W>, index: u32, tag: Tag) {
        m.tree_lock.with(|| {
            let leaf = self.leaf_at(m, index).expect("a tagged page is cached");
            leaf.set_tags(tag, 1);
        });
    }

    /// Clears a tag on cached page `index` of a file; also in nodes above that have it nowhere
    /// else.
    #[inline(always)]
    pub(crate) fn tag_clear(&self, m: &Mapping<W>, index: u32, tag: Tag) {
        m.tree_lock.with(|| {
            let leaf = self.leaf_at(m, index).expect("a tagged page is cached");
            leaf.clear_tags(tag, 1);
        });
    }

    /// Returns the part of a leaf from page `index` on, to handle neighbouring pages of a file
    /// together; see [`Leaf`]. `None`: the tree has no leaf there. The caller holds the tree lock.
    #[inline(always)]
    pub(crate) fn leaf_at(&self, m: &Mapping<W>, index: u32) -> Option<Leaf<'_, W>> {
        Some(Leaf {
            pool: &self.nodes_pool,
            node: self.leaf_of(m, index)?,
            from: index & (SLOTS - 1),
        })
    }

    /// Returns the index of the first page of a file at or after `from` that carries the tag;
    /// `None` if there is none.
    pub fn next_tagged(&self, mapping: u32, tag: Tag, from: u32) -> Option<u32> {
        debug_assert!(
            mapping < self.mapping_count(),
            "file {mapping} does not exist"
        );
        let m = &self.mappings[mapping as usize];
        m.tree_lock.with(|| self.tagged_from(mapping, tag, from))
    }

    /// Does [`Self::next_tagged`] under the tree lock.
    fn tagged_from(&self, mapping: u32, tag: Tag, from: u32) -> Option<u32> {
        let pool = &self.nodes_pool;
        // Most often the leaf of `from` itself has such a page.
        if let Some(leaf) = self.leaf(mapping, from) {
            let bits = pool.tag(leaf, tag).get() >> (from & (SLOTS - 1));
            if bits != 0 {
                return Some(from + bits.trailing_zeros());
            }
        }
        let find = |node: u32, _: u32, slot: u32| {
            let bits: u64 = pool.tag(node, tag).get() >> slot;
            (bits != 0).then(|| slot + bits.trailing_zeros())
        };
        let root = self.mappings[mapping as usize].root.get();
        if root == NO_NODE || pool.tag(root, tag).get() == 0 {
            return None;
        }
        pool.next_slot(root, from, find).map(|(index, _)| index)
    }

    /// Returns how many pages of a file from index `from` on carry the tag without a gap, at most
    /// `max`.
    pub fn tagged_run(&self, mapping: u32, tag: Tag, from: u32, max: u32) -> u32 {
        debug_assert!(
            mapping < self.mapping_count(),
            "file {mapping} does not exist"
        );
        let m = &self.mappings[mapping as usize];
        m.tree_lock.with(|| self.run_from(mapping, tag, from, max))
    }

    /// Does [`Self::tagged_run`] under the tree lock.
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

    /// Returns how many pages right before index `to` carry the tag without a gap, at most `max`.
    pub fn tagged_run_before(&self, mapping: u32, tag: Tag, to: u32, max: u32) -> u32 {
        debug_assert!(
            mapping < self.mapping_count(),
            "file {mapping} does not exist"
        );
        let max = max.min(to);
        let m = &self.mappings[mapping as usize];
        m.tree_lock.with(|| {
            let mut n = 0;
            while n < max {
                let at = to - 1 - n;
                let Some(leaf) = self.leaf(mapping, at) else {
                    break;
                };
                let slot = at & (SLOTS - 1);
                let bits = self.nodes_pool.tag(leaf, tag).get() << (SLOTS - 1 - slot);
                let ones = bits.leading_ones();
                n += ones;
                if ones <= slot {
                    break;
                }
            }
            n.min(max)
        })
    }

    /// Returns how many pages of a file carry the tag; counts at most `most`.
    pub fn tagged_count(&self, mapping: u32, tag: Tag, most: u32) -> u32 {
        let (mut n, mut from) = (0, 0);
        while n < most {
            let Some(first) = self.next_tagged(mapping, tag, from) else {
                break;
            };
            let run = self.tagged_run(mapping, tag, first, most - n);
            n += run;
            // No index follows the largest one.
            let Some(next) = first.checked_add(run) else {
                break;
            };
            from = next;
        }
        n
    }

    /// Returns the number of runs of consecutive pages of a file that carry the tag.
    pub fn tagged_runs(&self, mapping: u32, tag: Tag) -> u32 {
        debug_assert!(
            mapping < self.mapping_count(),
            "file {mapping} does not exist"
        );
        let (mut runs, mut from) = (0, 0);
        while let Some(first) = self.next_tagged(mapping, tag, from) {
            runs += 1;
            // No index follows the largest one.
            let run = self.tagged_run(mapping, tag, first, u32::MAX);
            let Some(next) = first.checked_add(run) else {
                break;
            };
            from = next;
        }
        runs
    }

    /// Returns true if any page of a file carries the tag.
    pub fn mapping_tagged(&self, mapping: u32, tag: Tag) -> bool {
        debug_assert!(
            mapping < self.mapping_count(),
            "file {mapping} does not exist"
        );
        let m = &self.mappings[mapping as usize];
        m.tree_lock.with(|| {
            let root = m.root.get();
            root != NO_NODE && self.nodes_pool.tag(root, tag).get() != 0
        })
    }

    /// Enters a fresh page into a file's cache as page `index` and adds it to the inactive list.
    /// Returns false if the pool of tree nodes is exhausted.
    ///
    /// # Panics
    /// If the file has a page there; if other tasks may run meanwhile, use
    /// [`Mm::enter_page_cache_lru`].
    #[inline]
    pub fn add_to_page_cache_lru(&self, pfn: Pfn, mapping: u32, index: u32) -> bool {
        match self.enter_page_cache_lru(pfn, mapping, index) {
            Entered::Added => true,
            Entered::NoMemory => false,
            Entered::Exists => panic!("page {index} of mapping {mapping} is cached already"),
        }
    }

    /// Enters a fresh page into a file's cache as page `index`, unless another task has done so,
    /// and adds it to the inactive list (the active one if it was evicted only lately). A page
    /// whose contents must not be seen before it is filled must be locked. Returns whether it was
    /// added.
    #[inline]
    pub fn enter_page_cache_lru(&self, pfn: Pfn, mapping: u32, index: u32) -> Entered {
        self.enter_page_cache_for(pfn, mapping, index, Brought::Read)
    }

    /// Does [`Mm::enter_page_cache_lru`] for a page that is brought in to be read or written
    /// (`brought`); only some kernels count a write as the return of an evicted page.
    #[inline]
    pub fn enter_page_cache_for(
        &self,
        pfn: Pfn,
        mapping: u32,
        index: u32,
        brought: Brought,
    ) -> Entered {
        let before = self.frames.flags(pfn);
        debug_assert!(before & (flag::CACHED | flag::ANON) == 0);
        let m = &self.mappings[mapping as usize];
        let (mut entered, mut shadow) = self.index_insert(m, mapping, index, pfn);
        // Drop nodes of shadows before a page goes without a node.
        while entered == Entered::NoMemory && self.drop_oldest_shadows() {
            (entered, shadow) = self.index_insert(m, mapping, index, pfn);
        }
        if entered != Entered::Added {
            return entered;
        }
        self.settle_metadata();
        self.emit(Audience::Traces, || Event::FilemapAdd {
            pfn,
            bdi: m.bdi(),
            mapping,
            index,
        });
        // `refault` returns true if the shadow says that the page belongs to the working set.
        let counts = brought == Brought::Read || self.policy.accesses == Accesses::ReadsAndWrites;
        let lru = if shadow != 0 && counts && self.refault(pfn, shadow, true) {
            self.workingset_activation(pfn);
            Lru::ActiveFile
        } else {
            Lru::InactiveFile
        };
        self.list_new_page(pfn, zone_of(before), lru);
        Entered::Added
    }

    /// Counts a page of zone `z` that entered the page cache, notes the time if reclaim records
    /// pages' ages, and adds it to the LRU list `lru`.
    #[inline(always)]
    pub(crate) fn list_new_page(&self, pfn: Pfn, z: usize, lru: Lru) {
        self.stat.inc(self.world.cpu(), z, ZoneStat::NrFilePages);
        if self.watches_pages() {
            self.frames
                .page(pfn)
                .set_private(milliseconds(self.world.now()));
        }
        self.lru_cache_add(pfn, lru);
    }

    /// Adds the ages (times in the cache) of file pages of zone `z` that reclaim takes to the
    /// zone's sums, while pages are watched, and counts pages of read-ahead that were never used.
    /// The first page is taken now, and each other one `ns` nanoseconds after the one before.
    pub(crate) fn note_reclaimed_row(&self, z: usize, pages: &[Pfn], ns: u64) {
        let frames = self.frames.table();
        let (mut now, mut age, mut unused) = (self.world.now(), 0, 0);
        for &pfn in pages {
            let page = frames.page(pfn);
            debug_assert!(page.zone() == z, "a page of another zone");
            age += u64::from(milliseconds(now).wrapping_sub(page.private()));
            unused += u64::from(page.has(flag::UNUSED));
            now += ns;
        }
        self.zones[z].reclaimed_age.fetch_add(age);
        self.zones[z].reclaimed_aged.fetch_add(pages.len() as u64);
        if unused > 0 {
            self.stat
                .zone_event(z, ZoneEvent::ReadAheadReclaimed, unused);
        }
    }

    /// Takes a clean page out of its file's cache without leaving a shadow, and counts that.
    pub(crate) fn remove_from_page_cache(&self, pfn: Pfn) {
        let page = self.frames.page(pfn);
        self.leave_page_cache(page, pfn, 0);
        self.count_removed(page.zone(), 1);
    }

    /// Takes the clean page `pfn` out of its file's cache and leaves `shadow`, the trace of its
    /// eviction, in its place; 0: none. The page then belongs to no file. [`Mm::count_removed`]
    /// must follow.
    #[inline(always)]
    pub(crate) fn leave_page_cache(&self, page: Page<'_, W>, pfn: Pfn, shadow: u32) {
        debug_assert!(page.flags() & (flag::DIRTY | flag::WRITEBACK) == 0);
        self.index_remove(page, pfn, shadow);
        if self.traced() {
            self.tell_deleted(pfn);
        }
        page.clear_flags(flag::CACHED);
        page.set_mapping(u32::MAX, 0);
        self.settle_metadata();
    }

    /// Reports to the trace that a page leaves its file's cache, while it still has the file's
    /// number.
    #[inline(never)]
    fn tell_deleted(&self, pfn: Pfn) {
        let page = self.frames.page(pfn);
        let mapping = page.mapping();
        self.emit(Audience::Traces, || Event::FilemapDelete {
            pfn,
            bdi: self.mappings[mapping as usize].bdi(),
            mapping,
            index: page.index(),
        });
    }

    /// Takes `n` pages of zone `z` that left the page cache off the count of file pages, and
    /// charges their CPU time.
    #[inline(always)]
    pub(crate) fn count_removed(&self, z: usize, n: u32) {
        let stat = self.stat.on(self.world.cpu(), z);
        stat.dec_by(ZoneStat::NrFilePages, n);
        self.world.charge(Cost::PageIndex, n);
    }

    /// Returns the index and the frame of the first cached page of a file at or after index `from`,
    /// for checks and truncation; `None` if there is none.
    pub fn first_page_from(&self, mapping: u32, from: u32) -> Option<(u32, Pfn)> {
        debug_assert!(
            mapping < self.mapping_count(),
            "file {mapping} does not exist"
        );
        let m = &self.mappings[mapping as usize];
        m.tree_lock.with(|| self.page_from(mapping, from))
    }

    /// Does [`Self::first_page_from`] under the tree lock.
    fn page_from(&self, mapping: u32, from: u32) -> Option<(u32, Pfn)> {
        let pool = &self.nodes_pool;
        // Returns the first slot of a node from `slot` on with a page (in a leaf) or a child node.
        let find = |node, level, slot| {
            (slot..SLOTS).find(|&s| match pool.word(node, s as usize).get() {
                v if level == 0 => page_in(v).is_some(),
                v => v != 0,
            })
        };
        let root = self.mappings[mapping as usize].root.get();
        let (index, leaf) = pool.next_slot(root, from, find)?;
        let slot = pool.word(leaf, (index & (SLOTS - 1)) as usize);
        Some((index, page_in(slot.get())?))
    }
}
