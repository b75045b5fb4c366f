//! The page index of a file: a 64-way tree with dirty and writeback tags.
//!
//! Nodes come from one preallocated pool. Each holds 64 slots (frames in a leaf, nodes above), a
//! count, its parent, and two tag bitmaps; a tag on an inner node says that some page below it
//! carries the tag, so the next dirty page of a large file is found in a few steps. The last leaf
//! used is remembered per file: sequential access walks the tree once in 64 pages.
//!
//! A file's tree, its tags and the remembered leaf belong to the file's tree lock; the chain of free
//! nodes, which all files share, belongs to the pool's.

use crate::frame::{NO_PFN, Page, flag, zone_of};
use crate::mapping::Mapping;
use crate::vmstat::{ZoneEvent, ZoneStat};
use crate::world::{Cost, ShortLock, Word32, Word64, World};
use crate::{Mm, Pfn};
use heap::NoMemory;

const SLOTS: u32 = 64;
const BITS: u32 = 6;
const NO_NODE: u32 = u32::MAX;

/// Node word: the parent node.
const PARENT: usize = 64;
/// Node word: slots in use (low 8 bits), slot in the parent (8), level (8; 0 is a leaf), shadows (8).
const SHAPE: usize = 65;
/// Node words of a leaf that holds shadows alone: the older and the younger one, and the file.
const OLDER: usize = 66;
const YOUNGER: usize = 67;
const OWNER: usize = 68;
const NODE_WORDS: usize = 69;
/// A node with its tags, in bytes.
pub(crate) const BYTES_PER_NODE: usize = 4 * NODE_WORDS + 16;
/// Slot bit: what lies there is no page but the shadow of one (`workingset`).
pub(crate) const SHADOW: u32 = 1 << 31;
/// One shadow in a node's shape.
const ONE_SHADOW: u32 = 1 << 24;

/// The page in a slot of a leaf.
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
    /// Leaves that hold shadows alone: the oldest, the youngest, how many.
    shadow_oldest: W::U32,
    shadow_youngest: W::U32,
    shadow_nodes: W::U32,
    lock: W::Lock,
}

impl<W: World> Nodes<W> {
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

    pub fn in_use(&self) -> u32 {
        self.in_use.get()
    }

    /// How many nodes one insertion can need at most.
    fn available(&self) -> u32 {
        self.words.len() as u32 - self.in_use.get()
    }

    #[inline(always)]
    fn node(&self, node: u32) -> Node<'_, W> {
        Node(&self.words[node as usize])
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
        self.node(node).level()
    }

    fn count(&self, node: u32) -> u32 {
        self.node(node).count()
    }

    fn slot_in_parent(&self, node: u32) -> u32 {
        self.node(node).slot_in_parent()
    }

    /// A node carries a tag in `slots` now; so do those above it.
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

    /// A node carries a tag no longer in `slots`; nor do those above it, if it was the last.
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

    /// The first index from `from` on that `find` accepts all the way down from `root`, with its leaf.
    /// `find` is given a node, its level and a slot, and says the first slot from there on that will
    /// do, if one does.
    #[inline(always)]
    fn next_slot(
        &self,
        root: u32,
        from: u32,
        find: impl Fn(u32, u32, u32) -> Option<u32>,
    ) -> Option<(u32, u32)> {
        if root == NO_NODE {
            return None;
        }
        let mut index = u64::from(from);
        // At most one step down and one step up a level for each subtree passed by.
        'restart: loop {
            if index >= capacity(self.level(root)) || index > u64::from(u32::MAX) {
                return None;
            }
            let mut node = root;
            loop {
                let level = self.level(node);
                let slot = (index >> (BITS * level)) as u32 & (SLOTS - 1);
                let Some(hit) = find(node, level, slot) else {
                    // Nothing here: go on behind this subtree.
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

    /// A leaf holds shadows alone from now on.
    fn link_shadows(&self, node: u32, mapping: u32) {
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

    /// A leaf holds a page again, or nothing at all.
    fn unlink_shadows(&self, node: u32) {
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

    fn release(&self, node: u32) {
        debug_assert!(self.node(node).is_empty());
        self.word(node, PARENT).set(self.free.get());
        self.free.set(node);
        self.in_use.fetch_sub(1);
    }
}

/// One tree node. Whoever does several things to it looks it up once.
struct Node<'a, W: World>(&'a [W::U32; NODE_WORDS]);

impl<W: World> Node<'_, W> {
    #[inline(always)]
    fn slot(&self, index: u32) -> &W::U32 {
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

    /// Shadows in a leaf.
    #[inline(always)]
    fn shadows(&self) -> u32 {
        self.0[SHAPE].get() >> 24
    }

    /// Neither pages nor nodes nor shadows.
    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.0[SHAPE].get() & (0xff | 0xff << 24) == 0
    }

    #[inline(always)]
    fn count(&self) -> u32 {
        self.0[SHAPE].get() & 0xff
    }

    #[inline(always)]
    fn slot_in_parent(&self) -> u32 {
        self.0[SHAPE].get() >> 8 & 0xff
    }
}

/// The pages of a file in one leaf, from some index on. Its tags belong to the file's tree lock; the
/// leaf stays as long as one of its pages does.
pub(crate) struct Leaf<'a, W: World> {
    pool: &'a Nodes<W>,
    node: u32,
    from: u32,
}

impl<'a, W: World> Leaf<'a, W> {
    /// The first `most` slots, or as many as the leaf has: frames counted from 1; 0 is a hole.
    #[inline(always)]
    pub fn slots(&self, most: u32) -> &'a [W::U32] {
        let to = SLOTS.min(self.from.saturating_add(most));
        &self.pool.words[self.node as usize][self.from as usize..to as usize]
    }

    #[inline(always)]
    fn first(&self, n: u32) -> u64 {
        debug_assert!((1..=SLOTS - self.from).contains(&n));
        (u64::MAX >> (SLOTS - n)) << self.from
    }

    /// Sets a tag on the first `n` pages.
    #[inline]
    pub fn set_tags(&self, tag: Tag, n: u32) {
        self.pool.set_tags(self.node, tag, self.first(n));
    }

    /// Clears a tag on the first `n` pages.
    #[inline]
    pub fn clear_tags(&self, tag: Tag, n: u32) {
        self.pool.clear_tags(self.node, tag, self.first(n));
    }
}

/// Highest index a tree whose root is at `level` can hold.
fn capacity(level: u32) -> u64 {
    1u64 << (BITS * (level + 1)).min(36)
}

impl<W: World> Mm<W> {
    /// The leaf that holds `index`, if the tree has it; the caller holds the tree lock. So do the
    /// callers of everything here that takes no lock itself.
    #[inline(always)]
    fn leaf(&self, mapping: u32, index: u32) -> Option<u32> {
        let m = &self.mappings[mapping as usize];
        self.leaf_of(m, index)
    }

    #[inline(always)]
    fn leaf_of(&self, m: &Mapping<W>, index: u32) -> Option<u32> {
        if m.last_base.get() == index >> BITS && m.last_leaf.get() != NO_NODE {
            return Some(m.last_leaf.get());
        }
        self.leaf_walk(m, index)
    }

    #[inline(never)]
    fn leaf_walk(&self, m: &Mapping<W>, index: u32) -> Option<u32> {
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
            Some((pfn, self.lock_or_mark(pfn)))
        })
    }

    #[inline]
    fn page_at(&self, mapping: u32, index: u32) -> Option<Pfn> {
        let leaf = self.leaf(mapping, index)?;
        page_in(self.nodes_pool.node(leaf).slot(index).get())
    }

    /// Makes the leaf for `index`; the caller holds the tree lock. `None`: the node pool is
    /// exhausted.
    #[inline(never)]
    fn create_leaf(&self, m: &Mapping<W>, index: u32) -> Option<u32> {
        self.nodes_pool.lock.with(|| self.grow_tree(m, index))
    }

    fn grow_tree(&self, m: &Mapping<W>, index: u32) -> Option<u32> {
        let pool = &self.nodes_pool;
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

    /// Enters a page into a file's index. It belongs to the file before anybody can find it there.
    /// With it the shadow that lay in its place, or 0.
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
            // Whichever slot the page takes, the leaf holds shadows alone no longer.
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

    /// Takes a page out of its file's index, where its shadow (or 0) stays. It carries no tag any
    /// more.
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
            m.nrpages.fetch_sub(1);
            if shadow != 0 {
                leaf.0[SHAPE].fetch_add(ONE_SHADOW);
            }
            if leaf.0[SHAPE].fetch_sub(1) & 0xff == 1 {
                if leaf.shadows() > 0 {
                    self.nodes_pool.link_shadows(at, mapping);
                } else {
                    self.release_empty(m, at);
                }
            }
        });
    }

    /// Releases a node that became empty, and those above it that do so with it; the caller holds
    /// the tree lock.
    #[inline(never)]
    fn release_empty(&self, m: &Mapping<W>, mut node: u32) {
        let pool = &self.nodes_pool;
        while pool.node(node).is_empty() {
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
    }

    /// Sets a tag on a cached page.
    #[inline(always)]
    pub(crate) fn tag_set(&self, m: &Mapping<W>, index: u32, tag: Tag) {
        m.tree_lock.with(|| {
            let leaf = self.leaf_at(m, index).expect("a tagged page is cached");
            leaf.set_tags(tag, 1);
        });
    }

    /// Clears a tag on a cached page.
    #[inline(always)]
    pub(crate) fn tag_clear(&self, m: &Mapping<W>, index: u32, tag: Tag) {
        m.tree_lock.with(|| {
            let leaf = self.leaf_at(m, index).expect("a tagged page is cached");
            leaf.clear_tags(tag, 1);
        });
    }

    /// The leaf of a cached page, to handle the pages beside it together; see [`Leaf`]. The caller
    /// holds the tree lock.
    #[inline(always)]
    pub(crate) fn leaf_at(&self, m: &Mapping<W>, index: u32) -> Option<Leaf<'_, W>> {
        Some(Leaf {
            pool: &self.nodes_pool,
            node: self.leaf_of(m, index)?,
            from: index & (SLOTS - 1),
        })
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
        let find = |node: u32, _: u32, slot: u32| {
            let bits: u64 = pool.tag(node, tag).get() >> slot;
            (bits != 0).then(|| slot + bits.trailing_zeros())
        };
        let root = self.mappings[mapping as usize].root.get();
        pool.next_slot(root, from, find).map(|(index, _)| index)
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
            // The last place that an index can be has none behind it.
            let Some(next) = first.checked_add(run) else {
                break;
            };
            from = next;
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
    #[inline]
    pub fn add_to_page_cache_lru(&self, pfn: Pfn, mapping: u32, index: u32) -> bool {
        match self.enter_page_cache_lru(pfn, mapping, index) {
            Entered::Added => true,
            Entered::NoMemory => false,
            Entered::Exists => panic!("page {index} of mapping {mapping} is cached already"),
        }
    }

    /// Enters a fresh page into a file's cache, unless somebody was faster, and hands it to the
    /// inactive list. A page that others must not see unfilled is locked before.
    #[inline]
    pub fn enter_page_cache_lru(&self, pfn: Pfn, mapping: u32, index: u32) -> Entered {
        let before = self.frames.flags(pfn);
        debug_assert!(before & (flag::CACHED | flag::ANON) == 0);
        let m = &self.mappings[mapping as usize];
        let (mut entered, mut shadow) = self.index_insert(m, mapping, index, pfn);
        // Shadows give their nodes back before a page goes without one.
        while entered == Entered::NoMemory && self.drop_oldest_shadows() {
            (entered, shadow) = self.index_insert(m, mapping, index, pfn);
        }
        if entered != Entered::Added {
            return entered;
        }
        self.stat
            .inc(self.world.cpu(), zone_of(before), ZoneStat::NrFilePages);
        if self.watches_pages() {
            self.frames.page(pfn).set_private(self.milliseconds());
        }
        if shadow != 0 && self.refault(shadow) {
            self.workingset_activation(pfn);
            self.lru_cache_add(pfn, crate::lru::Lru::ActiveFile);
        } else {
            self.lru_cache_add(pfn, crate::lru::Lru::InactiveFile);
        }
        Entered::Added
    }

    fn milliseconds(&self) -> u32 {
        (self.world.now() / 1_000_000) as u32
    }

    /// Reclaim takes a file page while pages are watched.
    pub(crate) fn note_reclaimed(&self, page: Page<'_, W>) {
        let z = page.zone();
        let age = self.milliseconds().wrapping_sub(page.private());
        self.zones[z].reclaimed_age.fetch_add(u64::from(age));
        self.zones[z].reclaimed_aged.fetch_add(1);
        if page.has(flag::UNUSED) {
            self.stat.zone_event(z, ZoneEvent::ReadAheadReclaimed, 1);
        }
    }

    /// Takes a clean page out of its file's cache.
    pub(crate) fn remove_from_page_cache(&self, pfn: Pfn) {
        let page = self.frames.page(pfn);
        self.leave_page_cache(page, pfn, 0);
        self.count_removed(page.zone(), 1);
    }

    /// Takes a clean page out of its file's cache, where its shadow stays if it is not 0;
    /// [`Mm::count_removed`] must follow.
    #[inline(always)]
    pub(crate) fn leave_page_cache(&self, page: Page<'_, W>, pfn: Pfn, shadow: u32) {
        debug_assert!(page.flags() & (flag::DIRTY | flag::WRITEBACK) == 0);
        self.index_remove(page, pfn, shadow);
        page.clear_flags(flag::CACHED);
        page.set_mapping(u32::MAX, 0);
    }

    /// Counts pages of a zone that left the page cache.
    #[inline(always)]
    pub(crate) fn count_removed(&self, z: usize, n: u32) {
        let stat = self.stat.on(self.world.cpu(), z);
        stat.dec_by(ZoneStat::NrFilePages, n);
        self.world.charge(Cost::PageIndex, n);
    }

    /// Every cached page of a file in index order; for checks and truncation.
    pub(crate) fn first_page_from(&self, mapping: u32, from: u32) -> Option<(u32, Pfn)> {
        let m = &self.mappings[mapping as usize];
        m.tree_lock.with(|| self.page_from(mapping, from))
    }

    fn page_from(&self, mapping: u32, from: u32) -> Option<(u32, Pfn)> {
        let pool = &self.nodes_pool;
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

    /// Tree nodes that hold shadows alone.
    pub(crate) fn shadow_nodes(&self) -> u32 {
        self.nodes_pool.shadow_nodes.get()
    }

    /// Gives up the node that has held shadows alone for longest. `false`: there is none, or somebody
    /// was faster.
    pub(crate) fn drop_oldest_shadows(&self) -> bool {
        let pool = &self.nodes_pool;
        let oldest = pool.lock.with(|| match pool.shadow_oldest.get() {
            NO_NODE => None,
            node => Some((node, pool.word(node, OWNER).get())),
        });
        let Some((node, mapping)) = oldest else {
            return false;
        };
        let m = &self.mappings[mapping as usize];
        m.tree_lock.with(|| {
            // Who takes a node off the list holds its file's lock, so now it stays.
            let same = pool.lock.with(|| {
                pool.shadow_oldest.get() == node && pool.word(node, OWNER).get() == mapping
            });
            if same {
                self.drop_shadows(m, node);
            }
            same
        })
    }

    /// Empties a leaf of shadows; the caller holds the tree lock.
    fn drop_shadows(&self, m: &Mapping<W>, leaf: u32) {
        let pool = &self.nodes_pool;
        for slot in 0..SLOTS as usize {
            let word = pool.word(leaf, slot);
            if word.get() & SHADOW != 0 {
                word.set(0);
                pool.word(leaf, SHAPE).fetch_sub(ONE_SHADOW);
            }
        }
        if pool.node(leaf).count() == 0 {
            pool.unlink_shadows(leaf);
            self.release_empty(m, leaf);
        }
    }

    /// A file is cut: shadows behind `from` mean nothing any more. Returns where to go on; whole
    /// leaves go, so that a few shadows in front of a cut in the middle of one go with it.
    pub(crate) fn drop_shadows_from(&self, mapping: u32, from: u32) -> Option<u32> {
        let m = &self.mappings[mapping as usize];
        let pool = &self.nodes_pool;
        m.tree_lock.with(|| {
            // Any leaf will do, whatever is in it.
            let find = |node, level, slot| {
                (slot..SLOTS).find(|&s| level == 0 || pool.word(node, s as usize).get() != 0)
            };
            let (index, leaf) = pool.next_slot(m.root.get(), from, find)?;
            if pool.node(leaf).shadows() > 0 {
                self.drop_shadows(m, leaf);
            }
            ((index >> BITS) + 1).checked_mul(SLOTS)
        })
    }

    /// Checks that exactly the leaves which hold shadows alone are linked.
    pub(crate) fn check_shadows(&self) -> Result<(), String> {
        let pool = &self.nodes_pool;
        let (mut at, mut older, mut n) = (pool.shadow_oldest.get(), NO_NODE, 0);
        while at != NO_NODE {
            let node = pool.node(at);
            if node.count() != 0 || node.shadows() == 0 || pool.word(at, OLDER).get() != older {
                return Err(format!("tree node {at} is among the shadows wrongly"));
            }
            n += 1;
            if n > pool.in_use() {
                return Err("the list of shadows is a ring".into());
            }
            (older, at) = (at, pool.word(at, YOUNGER).get());
        }
        let counted = pool.shadow_nodes.get();
        if n != counted || pool.shadow_youngest.get() != older {
            return Err(format!("{n} nodes of shadows alone, counted {counted}"));
        }
        Ok(())
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
            if self.leaf_walk(m, m.last_base.get() << BITS) != Some(remembered) {
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
        let (mut used, mut shadows) = (0u64, 0);
        for (slot, word) in pool.words[node as usize][..SLOTS as usize]
            .iter()
            .enumerate()
        {
            let shadow = level == 0 && word.get() & SHADOW != 0;
            shadows += u32::from(shadow);
            used |= u64::from(word.get() != 0 && !shadow) << slot;
        }
        if shadows != pool.node(node).shadows() {
            return Err(format!(
                "mapping {mapping} at {base}: {shadows} shadows, count differs"
            ));
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
    pub(crate) fn leaf_view(&self, mapping: u32, index: u32) -> Option<LeafView<'_, W>> {
        let leaf = self.leaf(mapping, index)? as usize;
        Some(LeafView {
            base: index >> BITS,
            words: &self.nodes_pool.words[leaf],
            tags: [Tag::Dirty, Tag::Writeback]
                .map(|tag| self.nodes_pool.tag(leaf as u32, tag).get()),
        })
    }
}

/// A leaf as a check sees it: 64 neighbouring pages of a file and their tags.
pub(crate) struct LeafView<'a, W: World> {
    base: u32,
    words: &'a [W::U32; NODE_WORDS],
    tags: [u64; 2],
}

impl<W: World> LeafView<'_, W> {
    /// Whether an index of the same file is in this leaf.
    #[inline]
    pub fn covers(&self, index: u32) -> bool {
        self.base == index >> BITS
    }

    /// The page at an index.
    #[inline]
    pub fn page(&self, index: u32) -> Option<Pfn> {
        page_in(self.words[(index & (SLOTS - 1)) as usize].get())
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
