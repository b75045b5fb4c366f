//! Swap slots and the swap cache (docs/reference/writeback.md#swap).
//!
//! A swap slot has the count of the page-table entries that name it, and the frame that caches it.

use super::swap_readahead::Window;
use crate::memory::frame::flag;
use crate::memory::gfp::Gfp;
use crate::memory::group::GroupEvent;
use crate::memory::zone::Lru;
use crate::watch::vmstat::{VmEvent, ZoneStat};
use crate::world::{ShortLock, Word32, Word64, World, Writepage};
use crate::{Config, Mm, Pfn, Policy};
use heap::NoMemory;

/// Slots that are handed out before a new cluster is looked for.
const CLUSTER: u32 = 256;
/// Slots per word of the bitmap of taken ones.
const WORD: u32 = u64::BITS;

/// The swap area.
pub(crate) struct Swap<W: World> {
    /// Per slot: the number of entries that name it.
    count: Box<[W::U32]>,
    /// Per slot: the frame that caches it, plus 1; 0: none.
    cached: Box<[W::U32]>,
    /// Per slot: the shadow of the page that reclaim took, or 0; empty without `workingset_anon`.
    shadows: Box<[W::U32]>,
    /// Per slot: the memory control group that it is charged to; empty without groups.
    pub(crate) owners: Box<[W::U32]>,
    /// A bit for each slot that is not free; bits behind the last slot are set.
    taken: Box<[W::U64]>,
    free: W::U32,
    cluster_next: W::U32,
    cluster_left: W::U32,
    lock: W::Lock,
    /// The last read-ahead of the area (`swap_readahead`).
    pub(super) window: Window<W>,
}

impl<W: World> Swap<W> {
    /// Makes a swap area of `slots` free slots; with `shadows`, each can keep the shadow of its
    /// page.
    pub fn new(config: &Config, policy: &Policy) -> Result<Self, NoMemory> {
        let (slots, shadows) = (config.swap_slots, policy.workingset_anon);
        let groups = !config.groups.is_empty();
        let what = "the swap area's slots";
        let s = Self {
            count: heap::zeroed(what, slots as usize)?,
            cached: heap::zeroed(what, slots as usize)?,
            shadows: heap::zeroed(what, if shadows { slots as usize } else { 0 })?,
            owners: heap::zeroed(what, if groups { slots as usize } else { 0 })?,
            taken: heap::zeroed(what, slots.div_ceil(WORD) as usize)?,
            free: bytemuck::Zeroable::zeroed(),
            cluster_next: bytemuck::Zeroable::zeroed(),
            cluster_left: bytemuck::Zeroable::zeroed(),
            lock: W::Lock::default(),
            window: Window::new(),
        };
        s.free.set(slots);
        if let Some(last) = s.taken.last()
            && !slots.is_multiple_of(WORD)
        {
            last.set(u64::MAX << (slots % WORD));
        }
        Ok(s)
    }

    /// Returns true if no page-table entry names a slot and no page in the swap cache has it.
    fn slot_free(&self, slot: u32) -> bool {
        self.count[slot as usize].get() == 0 && self.cached[slot as usize].get() == 0
    }

    /// Returns the next free slot, `None` if there is none; the caller marks it as taken. Every 256
    /// slots a new cluster of 256 free ones is looked for; in between, and if there is no such
    /// cluster, the next free slot after the last one is used (Linux 3.0 `scan_swap_map`).
    fn alloc_slot(&self) -> Option<u32> {
        let slots = self.count.len() as u32;
        if self.free.get() == 0 {
            return None;
        }
        if self.cluster_left.get() == 0 {
            self.cluster_left.set(CLUSTER);
            if let Some(first) = self.free_cluster() {
                self.cluster_next.set(first);
            }
        }
        self.cluster_left.fetch_sub(1);
        let next = self.cluster_next.get().min(slots);
        let slot = self.free_slot(next).or_else(|| self.free_slot(0))?;
        debug_assert!(self.slot_free(slot));
        self.cluster_next.set(slot + 1);
        Some(slot)
    }

    /// Returns the first free slot from slot `from` on; `None` if there is none.
    fn free_slot(&self, from: u32) -> Option<u32> {
        let first = (from / WORD) as usize;
        // A bit for each free slot of the word `w` of the bitmap.
        let free = |w: usize| !self.taken[w].get();
        let rest = free(first.min(self.taken.len() - 1)) & u64::MAX << (from % WORD);
        if first < self.taken.len() && rest != 0 {
            return Some(first as u32 * WORD + rest.trailing_zeros());
        }
        let word = (first + 1..self.taken.len()).find(|&w| free(w) != 0)?;
        Some(word as u32 * WORD + free(word).trailing_zeros())
    }

    /// Returns the first of 256 consecutive free slots. A run of that length contains three words
    /// without a taken slot.
    fn free_cluster(&self) -> Option<u32> {
        if self.free.get() < CLUSTER {
            return None;
        }
        // `words`: how many words right before this one have no taken slot.
        let (mut words, n) = (0, self.taken.len());
        for at in 0..=n {
            // The words after the last count as taken.
            let taken = self.taken.get(at).map_or(u64::MAX, |w| w.get());
            if taken == 0 {
                words += 1;
                // So many words are enough, whatever follows.
                if (words as u32) * WORD < CLUSTER {
                    continue;
                }
            }
            let at = at + usize::from(taken == 0);
            if words >= 3 {
                let before = (at - words).checked_sub(1).map(|w| self.taken[w].get());
                // Free slots at the end of the word before and at the start of the word behind.
                let (low, high) = (before.map_or(0, u64::leading_zeros), taken.trailing_zeros());
                if low + words as u32 * WORD + high >= CLUSTER {
                    return Some((at - words) as u32 * WORD - low);
                }
            }
            words = 0;
        }
        None
    }

    /// Returns the word of the bitmap of taken slots, and the bit in it, that belong to a slot.
    fn word_of(&self, slot: u32) -> (&W::U64, u64) {
        (&self.taken[(slot / WORD) as usize], 1 << (slot % WORD))
    }
}

impl<W: World> Mm<W> {
    /// Returns the number of free swap slots.
    #[inline(always)]
    pub fn free_swap(&self) -> u32 {
        self.swap.free.get()
    }

    /// Marks a swap slot as taken and counts it. When the last free slot is taken, tells remembered
    /// decisions of that, because dirtyable memory depends on whether any slot is free.
    fn count_slot_taken(&self, slot: u32) {
        let (word, bit) = self.swap.word_of(slot);
        word.fetch_or(bit);
        if self.swap.free.fetch_sub(1) == 1 {
            self.stat.note_change();
        }
    }

    /// Marks a swap slot as free, counts it and drops its shadow. For the first free slot, tells
    /// remembered decisions of that, because dirtyable memory depends on whether any slot is free.
    fn count_slot_freed(&self, slot: u32) {
        if let Some(shadow) = self.swap.shadows.get(slot as usize) {
            shadow.set(0);
        }
        self.uncharge_swap(slot);
        let (word, bit) = self.swap.word_of(slot);
        word.fetch_and(!bit);
        if self.swap.free.fetch_add(1) == 0 {
            self.stat.note_change();
        }
    }

    /// Returns true if more than half of the swap slots are taken.
    pub(crate) fn swap_is_half_full(&self) -> bool {
        self.swap.free.get() * 2 < self.config.swap_slots
    }

    /// Handles a fault on page `index` of a region whose contents are in the swap slot `slot`. If
    /// the swap cache has the page, maps it (or waits for its read); otherwise starts to read it
    /// and those around it. The caller tries the access again. Returns false if there is no memory.
    /// `write`: the access is a store.
    pub(crate) async fn swap_in(&self, region: u32, index: u32, slot: u32, write: bool) -> bool {
        let cached = self.swap.cached[slot as usize].get();
        if cached != 0 {
            let pfn = cached - 1;
            self.swap_met(region, index, pfn);
            if self.frames.has(pfn, flag::LOCKED) {
                self.wait_on_page_locked(pfn).await;
                return true; // look again
            }
            self.swap.count[slot as usize].fetch_sub(1);
            self.map_anon(pfn, region, index, write);
            if write {
                self.reuse_swap_page(pfn);
            }
            return true;
        }
        self.stat.event(VmEvent::PgMajFault, 1);
        self.count_of_task(GroupEvent::PgMajFault, 1);
        // `around`: the slots to read, or with `of_mapping` the entries whose slots to read.
        let around = self.swap_around(region, index, slot);
        for at in around.places {
            let s = match around.of_mapping {
                true => self.slot_of(region, at),
                false => Some(at),
            };
            if let Some(s) = s
                && !self.swap_read(s, s == slot).await
            {
                return false;
            }
        }
        let cached = self.swap.cached[slot as usize].get();
        if self.policy.fault_retry && cached != 0 {
            // The task that starts a read waits for it, and takes one fault more, not two.
            self.wait_on_page_locked(cached - 1).await;
        }
        true
    }

    /// Starts to read a slot, unless no entry names it any more or the swap cache has it: allocates
    /// a page, enters it into the swap cache and adds it to an LRU list. `wanted`: the slot is the
    /// one that the fault needs, not one beside it. Returns false if there is no memory for the
    /// wanted page.
    async fn swap_read(&self, slot: u32, wanted: bool) -> bool {
        let gone = || {
            let s = slot as usize;
            self.swap.count[s].get() == 0 || self.swap.cached[s].get() != 0
        };
        if gone() {
            return true;
        }
        let Some(pfn) = self.alloc_page(self.bound(Gfp::USER)).await else {
            return !wanted;
        };
        self.give_back_to_owner(pfn, slot);
        // Another task may have read or freed the slot while this one waited for memory.
        if gone() {
            self.free_page(pfn, false);
            return true;
        }
        self.swap.cached[slot as usize].set(pfn + 1);
        self.frames.set_private(pfn, slot);
        self.frames.set_flags(
            pfn,
            flag::ANON | flag::SWAPBACKED | flag::SWAPCACHE | flag::LOCKED,
        );
        if !wanted {
            self.swapped_in_beside(pfn);
        }
        self.stat.inc(
            self.world.cpu(),
            self.frames.zone(pfn),
            ZoneStat::NrAnonPages,
        );
        let kept = self.swap.shadows.get(slot as usize);
        let shadow = kept.map_or(0, |kept| kept.fetch_and(0));
        // `refault` returns true if the page belongs to the working set.
        let lru = if shadow != 0 && self.refault(pfn, shadow, false) {
            self.workingset_activation(pfn);
            Lru::ActiveAnon
        } else {
            Lru::InactiveAnon
        };
        self.lru_cache_add(pfn, lru);
        self.stat.event(VmEvent::PswpIn, 1);
        self.count_of_page(pfn, GroupEvent::PswpIn, 1);
        self.world.swap_readpage(self, pfn, slot).await;
        true
    }

    /// Gives an anonymous page a swap slot, which puts it into the swap cache, and makes it dirty,
    /// for reclaim. Returns false if no slot is free.
    pub(crate) fn add_to_swap(&self, pfn: Pfn) -> bool {
        self.swap.lock.with(|| {
            let Some(slot) = self.swap.alloc_slot() else {
                return false;
            };
            if !self.charge_swap(pfn, slot) {
                return false;
            }
            self.count_slot_taken(slot);
            self.swap.cached[slot as usize].set(pfn + 1);
            self.frames.set_private(pfn, slot);
            self.frames.set_flags(pfn, flag::SWAPCACHE | flag::DIRTY);
            true
        })
    }

    /// Counts one more entry that names a slot.
    pub(crate) fn swap_duplicate(&self, slot: u32) {
        self.swap.count[slot as usize].fetch_add(1);
    }

    /// Drops one reference of a page table to a swap slot, as `swap_free` does. With the last
    /// reference the slot is free; a page of the swap cache that still holds its contents, which no
    /// page table maps, is freed with it (`cached` is that page's number and 1; 0: none).
    pub(crate) fn swap_forget(&self, slot: u32) {
        if self.swap.count[slot as usize].fetch_sub(1) > 1 {
            return;
        }
        match self.swap.cached[slot as usize].get() {
            0 => {
                self.count_slot_freed(slot);
            }
            cached => self.free_unmapped_anon(cached - 1),
        }
    }

    /// Prepares an anonymous page that may be in the swap cache for a store, which makes the copy
    /// in its slot stale: frees the slot, or marks the page dirty if other entries still need the
    /// slot.
    pub(crate) fn reuse_swap_page(&self, pfn: Pfn) {
        if self.frames.has(pfn, flag::SWAPCACHE) {
            self.try_to_free_swap(pfn);
            if self.frames.has(pfn, flag::SWAPCACHE) {
                self.frames.set_flags(pfn, flag::DIRTY);
            }
        }
    }

    /// Takes a page out of the swap cache and frees its slot, if no entry names the slot and the
    /// page is not under writeback.
    pub(crate) fn try_to_free_swap(&self, pfn: Pfn) {
        let slot = self.frames.private(pfn);
        if self.swap.count[slot as usize].get() == 0 && !self.frames.has(pfn, flag::WRITEBACK) {
            self.swap.cached[slot as usize].set(0);
            self.count_slot_freed(slot);
            self.frames.clear_flags(pfn, flag::SWAPCACHE | flag::DIRTY);
        }
    }

    /// Writes a swap-cache page to its slot for reclaim, after waiting for a bio if need be;
    /// without I/O if the slot is not needed any more.
    pub(crate) async fn swap_writepage(&self, pfn: Pfn) -> Writepage {
        let slot = self.frames.private(pfn);
        if self.swap.count[slot as usize].get() == 0 && self.frames.mapcount(pfn) == 0 {
            return Writepage::Started;
        }
        self.swap_bio().await;
        self.stat.event(VmEvent::PswpOut, 1);
        self.count_of_page(pfn, GroupEvent::PswpOut, 1);
        self.set_page_writeback(pfn);
        self.world.swap_writepage(self, pfn, slot).await;
        Writepage::Started
    }

    /// Takes a page that reclaim evicts out of the swap cache, and leaves a shadow in its slot (if
    /// these are kept), by which a refault is recognised. `target`: the group that is reclaimed
    /// from.
    pub(crate) fn leave_swap_cache(&self, pfn: Pfn, target: u32) {
        let slot = self.frames.private(pfn) as usize;
        let flags = self.frames.flags(pfn);
        self.delete_from_swap_cache(pfn);
        if let Some(shadow) = self.swap.shadows.get(slot)
            && self.swap.count[slot].get() > 0
        {
            shadow.set(self.aged_shadow(flags, target));
        }
    }

    /// Replaces, for migration, the frame `from` of a page in the swap cache by the frame `to`.
    pub(crate) fn swap_cache_replace(&self, from: Pfn, to: Pfn) {
        let cached = &self.swap.cached[self.frames.private(from) as usize];
        debug_assert!(cached.get() == from + 1);
        cached.set(to + 1);
    }

    /// Takes a clean, unmapped page out of the swap cache; frees the slot if no entry names it.
    pub(crate) fn delete_from_swap_cache(&self, pfn: Pfn) {
        let slot = self.frames.private(pfn);
        debug_assert!(self.swap.cached[slot as usize].get() == pfn + 1);
        self.swap.cached[slot as usize].set(0);
        if self.swap.count[slot as usize].get() == 0 {
            self.count_slot_freed(slot);
        }
        self.frames.clear_flags(pfn, flag::SWAPCACHE | flag::ANON);
        self.stat.dec(
            self.world.cpu(),
            self.frames.zone(pfn),
            ZoneStat::NrAnonPages,
        );
    }

    /// Recounts swap slots. `named`: how many page-table entries name each. Returns a description
    /// of the first count, cached frame or bit of the bitmap that is wrong.
    pub(crate) fn check_swap(&self, named: &[u32]) -> Result<(), String> {
        let mut free = 0;
        for (slot, &n) in named.iter().enumerate() {
            let (count, cached) = (self.swap.count[slot].get(), self.swap.cached[slot].get());
            if n != count {
                return Err(format!("swap slot {slot}: {n} entries, counted {count}"));
            }
            if cached != 0
                && (!self.frames.has(cached - 1, flag::SWAPCACHE)
                    || self.frames.private(cached - 1) != slot as u32)
            {
                return Err(format!("swap slot {slot}: frame {} disagrees", cached - 1));
            }
            let (word, bit) = self.swap.word_of(slot as u32);
            if (word.get() & bit == 0) != (n == 0 && cached == 0) {
                return Err(format!("swap slot {slot}: the map of taken ones disagrees"));
            }
            free += u32::from(n == 0 && cached == 0);
        }
        if free != self.swap.free.get() {
            return Err(format!(
                "swap: {free} free slots, counted {}",
                self.swap.free.get()
            ));
        }
        Ok(())
    }
}
