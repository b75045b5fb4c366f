//! Refault detection (Linux 3.15 mm/workingset.c; docs/reference/reclaim.md#refaults): a file page
//! that is brought in again soon after it was reclaimed is activated at once.
//!
//! A zone's *inactive age* counts evictions and activations of its file pages. An evicted page
//! leaves its zone and the age in its place in the file's index, a *shadow*. When the page
//! refaults, the difference of the ages is how much longer the inactive list would have had to be
//! to keep it; if the active list has as many pages, the page takes the place of one of those.
//!
//! Shadows are kept in tree nodes that would be free otherwise. Nodes that hold nothing else are
//! linked, oldest first; when reclaim calls its shrinkers, those beyond one for every 16 frames are
//! dropped.
//!
//! **Locks.** A node's shadows are protected by its file's tree lock, the list by the pool's.
//! Dropping a node must not take a tree lock under the pool's: it reads the oldest node, takes that
//! file's lock and checks again.

use crate::cache::mapping::Mapping;
use crate::cache::tree::SHADOW;
use crate::cache::tree::{BITS, NO_NODE, OLDER, ONE_SHADOW, OWNER, SHAPE, SLOTS, YOUNGER};
use crate::memory::frame::{Page, flag, zone_of};
use crate::memory::group::GroupEvent;
use crate::memory::zone::Lru;
use crate::policy::ScanBalance;
use crate::watch::vmstat::VmEvent;
use crate::world::{Cost, ShortLock, Word32, Word64, World};
use crate::{Mm, Pfn};

/// Bits of a shadow that are not its mark: the page's place (its zone, and the number of zones for
/// each memory control group that it was reclaimed for), the age, and if that is recorded, as the
/// age's highest bit whether the page was part of the working set.
const SHADOW_BITS: u32 = 31;
/// Nodes dropped at a time.
const BATCH: u64 = 32;

impl<W: World> Mm<W> {
    /// Returns true if evicted file pages leave shadows, by which refaults are recognised; an
    /// eviction policy keeps none.
    #[inline(always)]
    pub(crate) fn keeps_shadows(&self) -> bool {
        self.policy.workingset && self.orders.is_none()
    }

    /// Returns true if pages record that they belong to the working set (`flag::WORKINGSET`), which
    /// only a scan balance by the cost of refaults needs.
    #[inline(always)]
    pub(crate) fn remembers_workingset(&self) -> bool {
        self.policy.scan_balance == ScanBalance::Cost
    }

    /// Returns the number of bits of a shadow that hold the age; one fewer if it also says whether
    /// the page belonged to the working set.
    fn age_bits(&self) -> u32 {
        self.place_shift() - u32::from(self.remembers_workingset())
    }

    /// Returns the shift of the page's place in a shadow.
    #[inline(always)]
    fn place_shift(&self) -> u32 {
        SHADOW_BITS - self.groups.place_bits
    }

    /// Returns the clock of evictions of the lists of zone `z` or its node, or of a group there.
    #[inline(always)]
    fn age_of(&self, z: usize, group: u32) -> &W::U64 {
        match group {
            0 => &self.lru_home(z).inactive_age,
            _ => &self.groups.lists(group, self.zones[z].node).age,
        }
    }

    /// Adds `n` to the clock of evictions of zone `z`'s lists, and of a group there and all that it
    /// lies in (`workingset_age_nonresident`). Returns the group's clock before.
    #[inline]
    fn grow_old(&self, z: usize, group: u32, n: u32) -> u64 {
        let n = u64::from(n);
        let mut age = self.age_of(z, 0).fetch_add(n);
        if group != 0 {
            age = self.age_of(z, group).get();
            for g in self.groups.upwards(group) {
                self.age_of(z, g).fetch_add(n);
            }
        }
        age
    }

    /// Returns the shift of ages: they are counted in units of 2^shift pages, so that a distance as
    /// long as memory fits into the bits that a shadow has for it.
    fn age_shift(&self) -> u32 {
        (32 - self.frames.len().leading_zeros()).saturating_sub(self.age_bits() - 1)
    }

    /// Marks a page as part of the working set, when it moves from an active list to the inactive
    /// one, or refaults; only where the policy records that.
    #[inline]
    pub(crate) fn join_workingset(&self, pfn: Pfn) {
        if self.remembers_workingset() && !self.is_ordered(self.frames.flags(pfn)) {
            self.frames.set_flags(pfn, flag::WORKINGSET);
        }
    }

    /// Returns the shadow that a file page leaves in its file's index when reclaim evicts it; 0:
    /// none. Increments the age of the page's lists. `target`: the group that is reclaimed from.
    #[inline]
    pub(crate) fn eviction_shadow(&self, page: Page<'_, W>, target: u32) -> u32 {
        if !self.keeps_shadows() || page.has(flag::SWAPBACKED) {
            return 0;
        }
        self.aged_shadow(page.flags(), target)
    }

    /// Returns the shadow of a page that has these flags and is evicted: its zone and the age of
    /// its lists, which is incremented.
    pub(crate) fn aged_shadow(&self, flags: u32, target: u32) -> u32 {
        let age = self.grow_old(zone_of(flags), target, 1);
        let form = self.shadow_form(target);
        Self::shadow(flags, age >> self.age_shift(), form)
    }

    /// Returns the form of the shadows of pages that are reclaimed for a group (0: the machine):
    /// the part of the place that the group is, the place's shift, and the bits of the age.
    #[inline(always)]
    fn shadow_form(&self, target: u32) -> [u32; 3] {
        let zones = self.zones.len() as u32;
        [target * zones, self.place_shift(), self.age_bits()]
    }

    /// Packs a shadow into a slot's word: the page's place and, if the age has fewer bits than lie
    /// below the place, whether it belonged to the working set (from the page's flags), and the low
    /// bits of `age`. The last argument is [`Self::shadow_form`].
    #[inline(always)]
    fn shadow(flags: u32, age: u64, [group, shift, bits]: [u32; 3]) -> u32 {
        let was = match bits < shift && flags & flag::WORKINGSET != 0 {
            true => 1 << bits,
            false => 0,
        };
        let place = group + zone_of(flags) as u32;
        SHADOW | place << shift | was | (age as u32 & ((1 << bits) - 1))
    }

    /// Returns the shift of ages (`age_shift`) if evicted pages leave shadows, else `None`.
    #[inline(always)]
    pub(crate) fn shadow_shift(&self) -> Option<u32> {
        self.keeps_shadows().then(|| self.age_shift())
    }

    /// Ages the lists of zone `z` by `n` file pages that reclaim evicts one after the other.
    /// Returns a function that gives each page's shadow by its flags and its place among them.
    /// `shift`: the shift of ages; `None`: pages leave no shadows, and each is 0.
    #[inline(always)]
    pub(crate) fn shadows_of(
        &self,
        (z, target): (usize, u32),
        shift: Option<u32>,
        n: u32,
    ) -> impl Fn(u32, u32) -> u32 + use<W> {
        let age = match shift {
            Some(_) => self.grow_old(z, target, n),
            None => 0,
        };
        let form = self.shadow_form(target);
        move |flags, nth| match shift {
            Some(shift) => Self::shadow(flags, (age + u64::from(nth)) >> shift, form),
            None => 0,
        }
    }

    /// Counts a refault of the page `pfn`, whose `shadow` was found; `file`: of a file, else
    /// anonymous. Returns true if the page came back so soon that it is to be activated. The
    /// refault of a page of the working set also counts as a cost of its kind of memory.
    pub(crate) fn refault(&self, pfn: Pfn, shadow: u32, file: bool) -> bool {
        let near = self.came_back_soon(pfn, shadow, file);
        let (back, activated) = match file {
            true => (VmEvent::WorkingsetRefault, VmEvent::WorkingsetActivate),
            false => (
                VmEvent::WorkingsetRefaultAnon,
                VmEvent::WorkingsetActivateAnon,
            ),
        };
        self.stat.event(back, 1);
        self.stat.event(activated, u64::from(near));
        let group = self.frames.page(pfn).group();
        if group != 0 {
            let back = match file {
                true => GroupEvent::RefaultFile,
                false => GroupEvent::RefaultAnon,
            };
            self.count_group(group, back, 1);
            let near = u64::from(near && file);
            self.count_group(group, GroupEvent::ActivateFile, near);
        }
        if near && self.remembers_workingset() && shadow & 1 << self.age_bits() != 0 {
            self.join_workingset(pfn);
            self.note_cost((self.frames.zone(pfn), group), file, 1, 0);
        }
        near
    }

    /// Returns true if an evicted page would have stayed in memory, had it had the place of the
    /// pages that it competes with: if no more pages were evicted or activated since (the distance
    /// of ages) than there are such pages (Linux `workingset_refault`).
    fn came_back_soon(&self, pfn: Pfn, shadow: u32, file: bool) -> bool {
        let place = (shadow & !SHADOW) >> self.place_shift();
        let zones = self.zones.len() as u32;
        let (group, z) = (place / zones, (place % zones) as usize);
        let shift = self.age_shift();
        let now = (self.age_of(z, group).get() >> shift) as u32;
        let distance = now.wrapping_sub(shadow) & ((1 << self.age_bits()) - 1);
        self.flush_lru_stats_ratelimited(z);
        // `rivals`: pages of the lists whose place the page could have had.
        let pages = |lru| self.known_size(z, group, lru);
        let mut rivals = pages(Lru::ActiveFile);
        if !file {
            rivals += pages(Lru::InactiveFile);
        }
        let may_swap = match group {
            0 => self.free_swap() > 0,
            _ => self.group_may_swap(group),
        };
        if self.policy.workingset_anon && may_swap {
            rivals += pages(Lru::ActiveAnon);
            if file {
                rivals += pages(Lru::InactiveAnon);
            }
        }
        let near = u64::from(distance) << shift <= rivals;
        if near {
            self.note_activated(z, self.frames.page(pfn).group(), file);
        }
        near
    }

    /// Adds one to the eviction clock (`inactive_age`) of the LRU lists that hold a page which is
    /// being activated. Does nothing if the policy detects no refaults of its kind of memory.
    #[inline]
    pub(crate) fn workingset_activation(&self, pfn: Pfn) {
        let page = self.frames.page(pfn);
        let ages = match page.has(flag::SWAPBACKED) {
            true => self.policy.workingset_anon,
            false => self.policy.workingset,
        };
        if ages {
            self.grow_old(page.zone(), page.group(), 1);
        }
    }

    /// Returns the largest number of tree nodes that may hold only shadows before a shrinker drops
    /// some: one for every 16 frames.
    fn most_shadow_nodes(&self) -> u32 {
        self.frames.len() / 16
    }

    /// Returns the number of tree nodes with only shadows beyond the limit, which the shrinker may
    /// drop.
    pub(crate) fn count_shadow_nodes(&self) -> u64 {
        if !self.keeps_shadows() {
            return 0;
        }
        u64::from(self.shadow_nodes().saturating_sub(self.most_shadow_nodes()))
    }

    /// Drops the `n` oldest tree nodes that hold only shadows, for the shrinker; returns how many
    /// were dropped, fewer if there are no more.
    pub(crate) async fn drop_shadow_nodes(&self, n: u64) -> u64 {
        let (mut left, mut dropped) = (n, 0);
        while left > 0 {
            let n = left.min(BATCH);
            for _ in 0..n {
                dropped += u64::from(self.drop_oldest_shadows());
            }
            left -= n;
            self.world.charge(Cost::PageIndex, n as u32);
            self.world.relax().await;
        }
        self.stat.event(VmEvent::WorkingsetNodereclaim, dropped);
        dropped
    }

    /// Returns the number of tree nodes that hold shadows alone.
    pub(crate) fn shadow_nodes(&self) -> u32 {
        self.nodes_pool.shadow_nodes.get()
    }

    /// Drops the tree node that has held only shadows of evicted pages for longest, with these
    /// shadows. Returns false if there is none, or another task was faster.
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
        let dropped = m.tree_lock.with(|| {
            // Taking a node off the list needs its file's lock, which is held, so the node stays on
            // it.
            let same = pool.lock.with(|| {
                pool.shadow_oldest.get() == node && pool.word(node, OWNER).get() == mapping
            });
            if same {
                self.drop_shadows(m, node);
            }
            same
        });
        if dropped {
            self.mapping_shrank(mapping);
        }
        dropped
    }

    /// Removes all shadows of a leaf of the file `m`, and frees the leaf if it has no page; the
    /// caller holds the tree lock.
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

    /// Drops the shadows of one leaf of a file that is truncated at page `from`. Returns the index
    /// at which to continue; `None`: there are no more leaves. Whole leaves are emptied, so a few
    /// shadows in front of `from` go with the rest of their leaf.
    pub(crate) fn drop_shadows_from(&self, mapping: u32, from: u32) -> Option<u32> {
        let m = &self.mappings[mapping as usize];
        let pool = &self.nodes_pool;
        m.tree_lock.with(|| {
            // The next leaf, whatever it contains.
            let find = |node, level, slot| {
                (slot..SLOTS).find(|&s| level == 0 || pool.word(node, s as usize).get() != 0)
            };
            let (index, leaf) = pool.next_slot(m.root.get(), from, find)?;
            self.world.charge(Cost::PageIndex, 1);
            if pool.node(leaf).shadows() > 0 {
                self.drop_shadows(m, leaf);
            }
            ((index >> BITS) + 1).checked_mul(SLOTS)
        })
    }

    /// Checks that the list of leaves with only shadows is linked rightly in both directions, has
    /// only such leaves, and has as many as are counted.
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
}
