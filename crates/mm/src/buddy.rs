//! The buddy allocator: free blocks of orders 0..=10 per zone (reference 01 §3).
//!
//! A free block's head frame carries the BUDDY bit and its order; the other frames of the block
//! are untouched, so building a machine touches one frame in 1024.

use crate::frame::{NO_PFN, flag};
use crate::vmstat::{VmEvent, ZoneStat};
use crate::world::{Cost, ShortLock, Word32, Word64, World};
use crate::{Mm, Pfn};

/// Number of orders.
pub const ORDERS: usize = 11;

impl<W: World> Mm<W> {
    #[inline(always)]
    fn free_list(&self, z: usize, order: usize) -> Pfn {
        self.zones[z].free_area + order as u32
    }

    /// Puts every frame of a zone on the free lists; at start only.
    pub(crate) fn free_all_of_zone(&self, z: usize) {
        let zone = &self.zones[z];
        let (mut at, end) = (zone.start, zone.start + zone.size);
        while at < end {
            let aligned = if at == 0 {
                10
            } else {
                at.trailing_zeros().min(10)
            };
            let mut order = aligned;
            while at + (1 << order) > end {
                order -= 1;
            }
            self.frames
                .word(at, 0)
                .set((z as u32) << flag::ZONE_SHIFT | flag::BUDDY);
            self.frames.set_private(at, order);
            self.frames.add_tail(self.free_list(z, order as usize), at);
            zone.nr_free[order as usize].fetch_add(1);
            at += 1 << order;
        }
        self.stat
            .add_exact(z, ZoneStat::NrFreePages, i64::from(zone.size));
    }

    /// Takes the smallest free block as far as `most` pages need it: what that many calls of
    /// [`Mm::rmqueue_smallest`] for single pages would split off it, one after the other. Returns
    /// the first page and the order.
    #[inline]
    fn rmqueue_within(&self, z: usize, most: u32) -> (Pfn, u32) {
        for current in 0..ORDERS as u32 {
            let list = self.free_list(z, current as usize);
            if self.frames.first(list) != list {
                let order = current.min(most.ilog2());
                return (self.rmqueue_smallest(z, order), order);
            }
        }
        (NO_PFN, 0)
    }

    /// Takes a block; the caller holds the zone's lock and has charged the counters.
    #[inline]
    fn rmqueue_smallest(&self, z: usize, order: u32) -> Pfn {
        let zone = &self.zones[z];
        for current in order as usize..ORDERS {
            let list = self.free_list(z, current);
            let pfn = self.frames.first(list);
            if pfn == list {
                continue;
            }
            self.frames.del(pfn);
            self.frames.clear_flags(pfn, flag::BUDDY);
            zone.nr_free[current].fetch_sub(1);
            // Give the upper halves back, largest first.
            for o in (order as usize..current).rev() {
                let half = pfn + (1 << o);
                self.frames
                    .word(half, 0)
                    .set((z as u32) << flag::ZONE_SHIFT | flag::BUDDY);
                self.frames.set_private(half, o as u32);
                self.frames.add(self.free_list(z, o), half);
                zone.nr_free[o].fetch_add(1);
            }
            return pfn;
        }
        NO_PFN
    }

    /// Returns a block, merging it with its free buddies; the caller holds the zone's lock.
    #[inline]
    fn free_one(&self, z: usize, mut pfn: Pfn, mut order: u32) {
        let zone = &self.zones[z];
        let (start, end) = (zone.start, zone.start + zone.size);
        while (order as usize) < ORDERS - 1 {
            let buddy = pfn ^ (1 << order);
            if buddy < start || buddy + (1 << order) > end {
                break;
            }
            if !self.frames.has(buddy, flag::BUDDY) || self.frames.private(buddy) != order {
                break;
            }
            self.frames.del(buddy);
            self.frames.clear_flags(buddy, flag::BUDDY);
            zone.nr_free[order as usize].fetch_sub(1);
            pfn &= !(1 << order);
            order += 1;
        }
        self.frames.set_flags(pfn, flag::BUDDY);
        self.frames.set_private(pfn, order);
        self.frames.add(self.free_list(z, order as usize), pfn);
        zone.nr_free[order as usize].fetch_add(1);
    }

    /// Moves up to `count` single pages from the buddy lists into `out`; returns how many.
    pub(crate) fn rmqueue_bulk(&self, z: usize, count: u32, mut out: impl FnMut(Pfn)) -> u32 {
        let n = self.zones[z].lock.with(|| {
            let mut n = 0;
            while n < count {
                let (first, order) = self.rmqueue_within(z, count - n);
                if first == NO_PFN {
                    break;
                }
                for pfn in first..first + (1 << order) {
                    out(pfn);
                }
                n += 1 << order;
            }
            n
        });
        self.stat
            .add(self.world.cpu(), z, ZoneStat::NrFreePages, -(n as i32));
        self.world.charge(Cost::PageBulk, n);
        n
    }

    /// Returns single pages to the buddy lists. Any bulk return clears the zone's scan count.
    pub(crate) fn free_bulk(&self, z: usize, pages: impl Iterator<Item = Pfn>) {
        let zone = &self.zones[z];
        let n = zone.lock.with(|| {
            zone.pages_scanned.set(0);
            zone.all_unreclaimable.set(0);
            let mut n = 0;
            for pfn in pages {
                self.free_one(z, pfn, 0);
                n += 1;
            }
            n
        });
        self.stat.add(self.world.cpu(), z, ZoneStat::NrFreePages, n);
        self.world.charge(Cost::PageBulk, n as u32);
    }

    /// Takes a block of a higher order straight from the buddy lists.
    pub(crate) fn rmqueue_order(&self, z: usize, order: u32) -> Option<Pfn> {
        let pfn = self.zones[z].lock.with(|| self.rmqueue_smallest(z, order));
        self.world.charge(Cost::PageBulk, 1);
        if pfn == NO_PFN {
            return None;
        }
        self.stat.add_exact(z, ZoneStat::NrFreePages, -(1 << order));
        Some(pfn)
    }

    /// Frees a block of a higher order.
    pub fn free_pages_order(&self, pfn: Pfn, order: u32) {
        let z = self.frames.zone(pfn);
        assert!(self.frames.has(pfn, flag::USED) && !self.frames.any(pfn, flag::CHECK_AT_FREE));
        self.frames.word(pfn, 0).set((z as u32) << flag::ZONE_SHIFT);
        let zone = &self.zones[z];
        zone.lock.with(|| {
            zone.pages_scanned.set(0);
            zone.all_unreclaimable.set(0);
            self.free_one(z, pfn, order);
        });
        self.stat.add_exact(z, ZoneStat::NrFreePages, 1 << order);
        self.stat.event(VmEvent::PgFree, 1 << order);
        self.world.charge(Cost::PageBulk, 1);
    }
}
