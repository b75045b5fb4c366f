//! Recounts of files' trees.

use super::tree::*;
use crate::watch::vmstat::ZoneStat;
use crate::world::{Word32, Word64, World};
use crate::{Mm, Pfn};

/// A leaf as a check uses it: 64 neighbouring pages of a file and their tags.
pub(crate) struct LeafView<'a, W: World> {
    base: u32,
    words: &'a [W::U32; NODE_WORDS],
    tags: [u64; 2],
}

impl<W: World> LeafView<'_, W> {
    /// Returns true if page `index` of the same file is in this leaf, whose number is `base`.
    #[inline]
    pub fn covers(&self, index: u32) -> bool {
        self.base == index >> BITS
    }

    /// Returns the page at an index; `None` if there is none.
    #[inline]
    pub fn page(&self, index: u32) -> Option<Pfn> {
        page_in(self.words[(index & (SLOTS - 1)) as usize].get())
    }

    /// Returns whether page `index` of the file carries the dirty tag and the writeback tag, in
    /// this order.
    #[inline]
    pub fn tags(&self, index: u32) -> [bool; 2] {
        self.tags.map(|t| t >> (index & (SLOTS - 1)) & 1 == 1)
    }
}

impl<W: World> Mm<W> {
    /// Recounts a file's tree for consistency: that the remembered leaves are right, slots, counts,
    /// parents, tags above the leaves, and that no tag is without a page. Returns the numbers of
    /// its pages and of its nodes, or a description of the first fault. The check of frames covers
    /// that pages are in their slots and carry their tags.
    pub(crate) fn check_tree(&self, mapping: u32) -> Result<(u32, u32), String> {
        let m = &self.mappings[mapping as usize];
        // Look-ups trust a remembered leaf, so it must be the one that a walk finds.
        for (leaf, base) in m.last_leaf.iter().zip(&m.last_base) {
            let remembered = leaf.get();
            if remembered != NO_NODE && self.leaf_walk(m, base.get() << BITS) != Some(remembered) {
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

    /// Recounts the subtree of a node, whose first page has index `base`, against the counts that
    /// the nodes keep. Returns the numbers of its pages and of its nodes, or a description of the
    /// first fault.
    fn check_node(&self, mapping: u32, node: u32, base: u64) -> Result<(u32, u32), String> {
        let pool = &self.nodes_pool;
        let level = pool.level(node);
        // `used`: a bit for each slot with a page or child; a shadow is the trace of an evicted
        // page.
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
        // `found`: the tags that the node has; `tags`: those that its pages or children call for.
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

    /// Checks that the pages and tags of all leaves of all files' trees add up to the zones' counts
    /// of file pages, dirty pages and pages under writeback, and those under writeback to the
    /// devices' counts.
    pub(crate) fn check_leaves(&self) -> Result<(), String> {
        let (mut pages, mut tags) = (0u64, [0u64; 2]);
        for node in self.nodes_pool.ever_used() {
            if self.nodes_pool.level(node) == 0 {
                pages += u64::from(self.nodes_pool.count(node));
                for tag in [Tag::Dirty, Tag::Writeback] {
                    let tagged = self.nodes_pool.tag(node, tag).get();
                    tags[tag as usize] += u64::from(tagged.count_ones());
                }
            }
        }
        let counted = |item| self.stat.exact_global(item);
        let [dirty, writeback] = tags.map(|n| n as i64);
        self.check_devices(Some(tags[Tag::Writeback as usize]))?;
        // A page whose dirty bit was just taken for I/O keeps its tag until its write is started or
        // refused; a page being swapped out is in no leaf.
        if pages as i64 == counted(ZoneStat::NrFilePages)
            && dirty >= counted(ZoneStat::NrFileDirty)
            && writeback <= counted(ZoneStat::NrWriteback)
        {
            return Ok(());
        }
        Err(format!(
            "{pages} pages in leaves, {dirty} dirty and {writeback} under writeback; counted {}, {} and {}",
            counted(ZoneStat::NrFilePages),
            counted(ZoneStat::NrFileDirty),
            counted(ZoneStat::NrWriteback),
        ))
    }

    /// Recounts the slots of the leaf with page `index` of a file, and checks that the nodes above
    /// lead to it and carry its tags, up to the root. Returns a description of the first fault.
    pub(crate) fn check_path(&self, mapping: u32, index: u32) -> Result<(), String> {
        let pool = &self.nodes_pool;
        let wrong = |what: &str| Err(format!("mapping {mapping} at {index}: {what}"));
        // `node`: the leaf first, then each node above.
        let Some(mut node) = self.leaf(mapping, index) else {
            return wrong("no leaf");
        };
        let slots = pool.words[node as usize][..SLOTS as usize].iter();
        let used = slots.enumerate().fold(0, |used, (slot, word)| {
            used | u64::from(page_in(word.get()).is_some()) << slot
        });
        let tags = [Tag::Dirty, Tag::Writeback].map(|tag| pool.tag(node, tag).get());
        if used.count_ones() != pool.count(node) {
            return wrong("the leaf counts other pages than it has");
        }
        if tags.iter().any(|tag| tag & !used != 0) {
            return wrong("a tag without a page");
        }
        loop {
            let (above, slot) = (pool.word(node, PARENT).get(), pool.slot_in_parent(node));
            if above == NO_NODE {
                break;
            }
            if pool.word(above, slot as usize).get() != node + 1
                || pool.level(above) != pool.level(node) + 1
            {
                return wrong("a node above does not lead here");
            }
            for tag in [Tag::Dirty, Tag::Writeback] {
                let below = pool.tag(node, tag).get() != 0;
                if (pool.tag(above, tag).get() >> slot & 1 != 0) != below {
                    return wrong("a node above has other tags");
                }
            }
            node = above;
        }
        match self.mappings[mapping as usize].root.get() == node {
            true => Ok(()),
            false => wrong("the nodes above end elsewhere than at the root"),
        }
    }

    /// Returns the leaf of a file's tree that holds page `index`, for checks; `None` if there is
    /// none.
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
