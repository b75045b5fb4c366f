//! Swap slots and the swap cache (docs/reference/writeback.md#swap).
//!
//! A swap slot counts the page-table entries that name it and knows the frame that caches it.

use crate::memory::frame::flag;
use crate::memory::gfp::Gfp;
use crate::memory::zone::Lru;
use crate::watch::vmstat::{VmEvent, ZoneStat};
use crate::world::{ShortLock, Word32, World, Writepage};
use crate::{Mm, Pfn};
use heap::NoMemory;

/// Free slots handed out in a row.
const CLUSTER: u32 = 256;
/// Slots read around a swapped-in one (page_cluster 3).
const SWAP_READ_WINDOW: u32 = 8;

/// The swap area.
pub(crate) struct Swap<W: World> {
    /// Per slot: entries that name it.
    count: Box<[W::U32]>,
    /// Per slot: caching frame + 1.
    cached: Box<[W::U32]>,
    free: W::U32,
    cluster_next: W::U32,
    cluster_left: W::U32,
    lock: W::Lock,
}

impl<W: World> Swap<W> {
    pub fn new(slots: u32) -> Result<Self, NoMemory> {
        let what = "the swap area's slots";
        let s = Self {
            count: heap::zeroed(what, slots as usize)?,
            cached: heap::zeroed(what, slots as usize)?,
            free: bytemuck::Zeroable::zeroed(),
            cluster_next: bytemuck::Zeroable::zeroed(),
            cluster_left: bytemuck::Zeroable::zeroed(),
            lock: W::Lock::default(),
        };
        s.free.set(slots);
        Ok(s)
    }

    fn slot_free(&self, slot: u32) -> bool {
        self.count[slot as usize].get() == 0 && self.cached[slot as usize].get() == 0
    }

    /// The next slot. Every 256 slots a fresh cluster of 256 free ones is looked for; between, and
    /// where there is none, the next free slot behind the last is taken (Linux 3.0 `scan_swap_map`).
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
        let slot = (next..slots).chain(0..next).find(|&s| self.slot_free(s))?;
        self.cluster_next.set(slot + 1);
        Some(slot)
    }

    /// The first of 256 free slots in a row.
    fn free_cluster(&self) -> Option<u32> {
        if self.free.get() < CLUSTER {
            return None;
        }
        let mut run = 0;
        (0..self.count.len() as u32).find_map(|slot| {
            run = if self.slot_free(slot) { run + 1 } else { 0 };
            (run == CLUSTER).then(|| slot + 1 - CLUSTER)
        })
    }
}

impl<W: World> Mm<W> {
    /// Free swap slots.
    #[inline(always)]
    pub fn free_swap(&self) -> u32 {
        self.swap.free.get()
    }

    pub(crate) fn swap_is_half_full(&self) -> bool {
        self.swap.free.get() * 2 < self.config.swap_slots
    }

    /// Brings a slot's page back. `false`: no memory.
    pub(crate) async fn swap_in(&self, region: u32, index: u32, slot: u32, write: bool) -> bool {
        let cached = self.swap.cached[slot as usize].get();
        if cached != 0 {
            let pfn = cached - 1;
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
        let first = slot / SWAP_READ_WINDOW * SWAP_READ_WINDOW;
        for s in first..(first + SWAP_READ_WINDOW).min(self.config.swap_slots) {
            let wanted = s == slot;
            if self.swap.count[s as usize].get() == 0 || self.swap.cached[s as usize].get() != 0 {
                continue;
            }
            let Some(pfn) = self.alloc_page(self.bound(Gfp::USER)).await else {
                if wanted {
                    return false;
                }
                continue;
            };
            // Somebody may have brought it in, or freed it, while we waited for memory.
            if self.swap.count[s as usize].get() == 0 || self.swap.cached[s as usize].get() != 0 {
                self.free_page(pfn, false);
                continue;
            }
            self.swap.cached[s as usize].set(pfn + 1);
            self.frames.set_private(pfn, s);
            self.frames.set_flags(
                pfn,
                flag::ANON | flag::SWAPBACKED | flag::SWAPCACHE | flag::LOCKED,
            );
            self.stat.inc(
                self.world.cpu(),
                self.frames.zone(pfn),
                ZoneStat::NrAnonPages,
            );
            self.lru_cache_add(pfn, Lru::InactiveAnon);
            self.stat.event(VmEvent::PswpIn, 1);
            self.world.swap_readpage(self, pfn, s).await;
        }
        true
    }

    /// Gives an anonymous page a swap slot; the page is dirty from then on.
    pub(crate) fn add_to_swap(&self, pfn: Pfn) -> bool {
        self.swap.lock.with(|| {
            let Some(slot) = self.swap.alloc_slot() else {
                return false;
            };
            self.swap.free.fetch_sub(1);
            self.swap.cached[slot as usize].set(pfn + 1);
            self.frames.set_private(pfn, slot);
            self.frames.set_flags(pfn, flag::SWAPCACHE | flag::DIRTY);
            true
        })
    }

    /// One more entry names a slot.
    pub(crate) fn swap_duplicate(&self, slot: u32) {
        self.swap.count[slot as usize].fetch_add(1);
    }

    /// One entry less names a slot; a page that was kept for it goes with the last.
    pub(crate) fn swap_forget(&self, slot: u32) {
        if self.swap.count[slot as usize].fetch_sub(1) > 1 {
            return;
        }
        match self.swap.cached[slot as usize].get() {
            0 => {
                self.swap.free.fetch_add(1);
            }
            cached => self.free_unmapped_anon(cached - 1),
        }
    }

    /// A store follows to a page that may be in the swap cache: the copy in its slot is stale.
    pub(crate) fn reuse_swap_page(&self, pfn: Pfn) {
        if self.frames.has(pfn, flag::SWAPCACHE) {
            self.try_to_free_swap(pfn);
            if self.frames.has(pfn, flag::SWAPCACHE) {
                self.frames.set_flags(pfn, flag::DIRTY);
            }
        }
    }

    /// Drops the slot of a page that nobody else needs.
    pub(crate) fn try_to_free_swap(&self, pfn: Pfn) {
        let slot = self.frames.private(pfn);
        if self.swap.count[slot as usize].get() == 0 && !self.frames.has(pfn, flag::WRITEBACK) {
            self.swap.cached[slot as usize].set(0);
            self.swap.free.fetch_add(1);
            self.frames.clear_flags(pfn, flag::SWAPCACHE | flag::DIRTY);
        }
    }

    /// Writes a swap-cache page to its slot; no I/O if nobody needs the slot any more.
    pub(crate) async fn swap_writepage(&self, pfn: Pfn) -> Writepage {
        let slot = self.frames.private(pfn);
        if self.swap.count[slot as usize].get() == 0 && self.frames.mapcount(pfn) == 0 {
            return Writepage::Started;
        }
        self.stat.event(VmEvent::PswpOut, 1);
        self.set_page_writeback(pfn);
        self.world.swap_writepage(self, pfn, slot).await;
        Writepage::Started
    }

    /// Takes a clean, unmapped page out of the swap cache; a slot that nobody names is free again.
    pub(crate) fn delete_from_swap_cache(&self, pfn: Pfn) {
        let slot = self.frames.private(pfn);
        debug_assert!(self.swap.cached[slot as usize].get() == pfn + 1);
        self.swap.cached[slot as usize].set(0);
        if self.swap.count[slot as usize].get() == 0 {
            self.swap.free.fetch_add(1);
        }
        self.frames.clear_flags(pfn, flag::SWAPCACHE | flag::ANON);
        self.stat.dec(
            self.world.cpu(),
            self.frames.zone(pfn),
            ZoneStat::NrAnonPages,
        );
    }

    /// Recounts slots; `named`: how many page-table entries name each.
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
