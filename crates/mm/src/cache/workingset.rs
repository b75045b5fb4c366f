//! Refault detection (Linux 3.15 mm/workingset.c; docs/reference/reclaim.md#refaults): a file page that comes
//! back soon after it was reclaimed is activated at once.
//!
//! A zone's *inactive age* counts evictions and activations of its file pages. An evicted page leaves
//! its zone and the age in its place in the file's index, a *shadow*. When the page comes back, the
//! ages' difference is how much longer the inactive list would have had to be to keep it; if the
//! active list has as many pages, the page takes the place of one of those.
//!
//! Shadows lie in tree nodes that would be free otherwise. Nodes that hold nothing else are linked,
//! oldest first, and given up beyond one for every 16 frames, where reclaim calls its shrinkers.
//!
//! **Locks.** A node's shadows belong to its file's tree lock, the list to the pool's. Giving a node
//! up takes no tree lock under the pool's: it looks at the oldest, takes that file's lock and looks
//! again.

use crate::cache::mapping::Mapping;
use crate::cache::tree::SHADOW;
use crate::cache::tree::{BITS, NO_NODE, OLDER, ONE_SHADOW, OWNER, SHAPE, SLOTS, YOUNGER};
use crate::memory::frame::{Page, flag, zone_of};
use crate::memory::zone::Lru;
use crate::policy::ScanBalance;
use crate::watch::vmstat::VmEvent;
use crate::world::{Cost, ShortLock, Word32, Word64, World};
use crate::{Mm, Pfn};

/// Bits of a shadow below the zone's number: the age, and above it, where that is remembered, whether the page was
/// part of the working set.
const AGE_BITS: u32 = 23;
/// Whether the page was part of the working set.
const WAS_WORKINGSET: u32 = 1 << (AGE_BITS - 1);
/// Nodes given up at a time.
const BATCH: u64 = 32;

impl<W: World> Mm<W> {
    /// Whether shadows are kept. An eviction policy has its own ways.
    #[inline(always)]
    pub(crate) fn keeps_shadows(&self) -> bool {
        self.policy.workingset && self.orders.is_none()
    }

    /// Whether pages remember that they were active: only then does it say what their coming back costs.
    #[inline(always)]
    pub(crate) fn remembers_workingset(&self) -> bool {
        self.policy.scan_balance == ScanBalance::Cost
    }

    /// Bits of a shadow that hold the age.
    fn age_bits(&self) -> u32 {
        AGE_BITS - u32::from(self.remembers_workingset())
    }

    /// Ages are counted in units of 2^this, so that a distance as long as memory fits a shadow.
    fn age_shift(&self) -> u32 {
        (32 - self.frames.len().leading_zeros()).saturating_sub(self.age_bits() - 1)
    }

    /// A page leaves an active list for the inactive one, or comes back to it: it is part of the working set.
    #[inline]
    pub(crate) fn join_workingset(&self, pfn: Pfn) {
        if self.remembers_workingset() && !self.is_ordered(self.frames.flags(pfn)) {
            self.frames.set_flags(pfn, flag::WORKINGSET);
        }
    }

    /// What stays of a file page that reclaim takes.
    #[inline]
    pub(crate) fn eviction_shadow(&self, page: Page<'_, W>) -> u32 {
        if !self.keeps_shadows() || page.has(flag::SWAPBACKED) {
            return 0;
        }
        self.aged_shadow(page.flags())
    }

    /// The shadow of a page with these flags, by whose eviction its lists grow older.
    pub(crate) fn aged_shadow(&self, flags: u32) -> u32 {
        let age = self.lru_home(zone_of(flags)).inactive_age.fetch_add(1);
        Self::shadow(flags, age >> self.age_shift(), self.age_bits())
    }

    #[inline(always)]
    fn shadow(flags: u32, age: u64, bits: u32) -> u32 {
        let was = match bits < AGE_BITS && flags & flag::WORKINGSET != 0 {
            true => WAS_WORKINGSET,
            false => 0,
        };
        SHADOW | (zone_of(flags) as u32) << AGE_BITS | was | (age as u32 & ((1 << bits) - 1))
    }

    /// [`Self::age_shift`], if pages leave shadows.
    #[inline(always)]
    pub(crate) fn shadow_shift(&self) -> Option<u32> {
        self.keeps_shadows().then(|| self.age_shift())
    }

    /// The shadows of `n` file pages of a list of zone `z` that reclaim takes one after the other: what is
    /// left of a page with these flags, by its place among them.
    #[inline(always)]
    pub(crate) fn shadows_of(
        &self,
        z: usize,
        shift: Option<u32>,
        n: u32,
    ) -> impl Fn(u32, u32) -> u32 + use<W> {
        let age = match shift {
            Some(_) => self.lru_home(z).inactive_age.fetch_add(u64::from(n)),
            None => 0,
        };
        let bits = self.age_bits();
        move |flags, nth| match shift {
            Some(shift) => Self::shadow(flags, (age + u64::from(nth)) >> shift, bits),
            None => 0,
        }
    }

    /// A page comes back whose shadow was still there; whether it is to be activated. What is part of the working
    /// set costs its kind that it had to come back.
    pub(crate) fn refault(&self, pfn: Pfn, shadow: u32, file: bool) -> bool {
        let near = self.came_back_soon(shadow, file);
        let (back, activated) = match file {
            true => (VmEvent::WorkingsetRefault, VmEvent::WorkingsetActivate),
            false => (
                VmEvent::WorkingsetRefaultAnon,
                VmEvent::WorkingsetActivateAnon,
            ),
        };
        self.stat.event(back, 1);
        self.stat.event(activated, u64::from(near));
        if near && self.remembers_workingset() && shadow & WAS_WORKINGSET != 0 {
            self.join_workingset(pfn);
            self.note_cost(self.frames.zone(pfn), file, 1, 0);
        }
        near
    }

    /// Whether a page would have stayed, had it had the place of those that it competes with.
    fn came_back_soon(&self, shadow: u32, file: bool) -> bool {
        let z = ((shadow & !SHADOW) >> AGE_BITS) as usize;
        let shift = self.age_shift();
        let now = (self.lru_home(z).inactive_age.get() >> shift) as u32;
        let distance = now.wrapping_sub(shadow) & ((1 << self.age_bits()) - 1);
        self.flush_lru_stats_ratelimited(z);
        let pages = |lru| self.known_size(z, lru);
        let mut rivals = pages(Lru::ActiveFile);
        if !file {
            rivals += pages(Lru::InactiveFile);
        }
        if self.policy.workingset_anon && self.free_swap() > 0 {
            rivals += pages(Lru::ActiveAnon);
            if file {
                rivals += pages(Lru::InactiveAnon);
            }
        }
        let near = u64::from(distance) << shift <= rivals;
        if near {
            self.note_activated(z, file);
        }
        near
    }

    /// The activation of a file page makes its zone's inactive list older by one.
    #[inline]
    pub(crate) fn workingset_activation(&self, pfn: Pfn) {
        let page = self.frames.page(pfn);
        let ages = match page.has(flag::SWAPBACKED) {
            true => self.policy.workingset_anon,
            false => self.policy.workingset,
        };
        if ages {
            self.lru_home(page.zone()).inactive_age.fetch_add(1);
        }
    }

    /// The most tree nodes that may hold shadows alone.
    fn most_shadow_nodes(&self) -> u32 {
        self.frames.len() / 16
    }

    /// The shrinker's count: nodes of shadows beyond the limit.
    pub(crate) fn count_shadow_nodes(&self) -> u64 {
        if !self.keeps_shadows() {
            return 0;
        }
        u64::from(self.shadow_nodes().saturating_sub(self.most_shadow_nodes()))
    }

    /// Gives up the `n` oldest nodes of shadows; returns how many went.
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
        let dropped = m.tree_lock.with(|| {
            // Who takes a node off the list holds its file's lock, so now it stays.
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
            self.world.charge(Cost::PageIndex, 1);
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
}
