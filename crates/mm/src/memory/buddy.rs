//! The buddy allocator: free blocks of orders 0..=10 per zone
//! (docs/reference/memory-model.md#free-lists).
//!
//! A policy may keep the lists by mobility of the pages ([`mobility`](crate::mobility)); if it does
//! not, a list's number is 0.
//!
//! A free block's head frame carries the BUDDY bit and its order; the other frames of the block
//! are untouched, so building a machine touches one frame in 1024.

use crate::memory::ahead::Ahead;
use crate::memory::frame::{NO_PFN, flag};
use crate::memory::mobility::Falling;
use crate::memory::zone::Zone;
use crate::watch::vmstat::{VmEvent, ZoneCounters, ZoneStat};
use crate::world::event::Event;
use crate::world::{Audience, Cost, ShortLock, Word32, World};
use crate::{Mm, Pfn};

/// Number of orders.
pub const ORDERS: usize = 11;

/// A run of neighbouring pages in the order in which they are freed.
#[derive(Default, Clone, Copy)]
struct Run {
    first: Pfn,
    last: Pfn,
    pages: u32,
    /// The distance from one page to the next: 1 up, -1 (wrapped) down; 0 while there is only one.
    step: u32,
}

impl Run {
    /// Makes a run of one page.
    fn of(pfn: Pfn) -> Self {
        Self {
            first: pfn,
            last: pfn,
            pages: 1,
            step: 0,
        }
    }

    /// Adds a page to the run if the page continues it by one frame, up or down, in the run's
    /// direction; returns false if it does not.
    #[inline(always)]
    fn extend(&mut self, pfn: Pfn) -> bool {
        let step = pfn.wrapping_sub(self.last);
        debug_assert!(step != 0 || self.pages == 0);
        if step != self.step {
            if self.pages != 1 || (step != 1 && step != u32::MAX) {
                return false;
            }
            self.step = step;
        }
        self.last = pfn;
        self.pages += 1;
        true
    }

    /// Cuts the run into the largest blocks that its pages, taken in order, complete, and calls
    /// `free` with each one's first page and order.
    #[inline(always)]
    fn blocks(self, mut free: impl FnMut(Pfn, u32)) {
        let up = self.first <= self.last;
        let (mut at, mut left) = (self.first, self.pages);
        while left > 0 {
            // The alignment of a block that begins with this page.
            let edge = if up { at } else { at + 1 };
            let order = edge
                .trailing_zeros()
                .min(left.ilog2())
                .min(ORDERS as u32 - 1);
            let size = 1 << order;
            free(if up { at } else { at + 1 - size }, order);
            at = match up {
                true => at + size,
                false => at.wrapping_sub(size),
            };
            left -= size;
        }
    }
}

/// The pages of a zone that one bulk frees one after the other; the zone's lock is held.
struct Freed<'a, W: World> {
    mm: &'a Mm<W>,
    z: usize,
    zone: &'a Zone<W>,
    n: u32,
    run: Run,
}

impl<W: World> Freed<'_, W> {
    /// Adds pages to be freed in the order in which they come; frees each run of neighbours that
    /// ends. The last run is left for [`Self::end`].
    #[inline(always)]
    fn free(&mut self, pages: impl Iterator<Item = Pfn>) {
        let (mut n, mut run) = (0, self.run);
        for pfn in pages {
            n += 1;
            if !run.extend(pfn) {
                self.end(run);
                run = Run::of(pfn);
            }
        }
        self.n += n;
        self.run = run;
    }

    /// Frees the blocks of a run to the buddy lists of the zone.
    #[inline(never)]
    fn end(&self, run: Run) {
        run.blocks(|block, order| self.mm.free_in_zone((self.z, self.zone), block, order));
    }
}

impl<W: World> Mm<W> {
    /// Puts every frame of a zone on its free lists, in the largest blocks possible; only when the
    /// machine is built.
    pub(crate) fn free_all_of_zone(&self, z: usize) {
        let zone = &self.zones[z];
        let (mut at, end) = (zone.start, zone.start + zone.size);
        while at < end {
            // The largest order, up to 10, to which the address is aligned.
            let aligned = if at == 0 {
                10
            } else {
                at.trailing_zeros().min(10)
            };
            let mut order = aligned;
            while at + (1 << order) > end {
                order -= 1;
            }
            self.frames.page(at).reset_flags(z, flag::BUDDY);
            self.frames.set_private(at, order);
            let list = self.list_of_page(at);
            self.frames
                .add_tail(self.free_list(z, order as usize, list), at);
            zone.nr_free[order as usize].fetch_add(1);
            at += 1 << order;
        }
        self.stat
            .add_exact(z, ZoneStat::NrFreePages, i64::from(zone.size));
    }

    /// Puts the free block of 2^`order` pages at `pfn` at the head of zone `z`'s free list `list`
    /// (the number of a kind of pages); the caller holds the zone's lock.
    #[inline(always)]
    fn add_block(&self, z: usize, pfn: Pfn, order: usize, list: usize) {
        self.add_block_of((z, &self.zones[z]), pfn, order, list);
    }

    /// Does [`Self::add_block`] for a caller that has looked up the zone.
    #[inline(always)]
    fn add_block_of(&self, (z, zone): (usize, &Zone<W>), pfn: Pfn, order: usize, list: usize) {
        let frames = self.frames.table();
        let page = frames.page(pfn);
        page.reset_flags(z, flag::BUDDY);
        page.set_private(order as u32);
        let list = self.free_list_of(zone, order, list);
        frames.add_page(list, (pfn, page));
        // Keeps the note by which the blocks behind are prefetched.
        Ahead(frames.page(list)).comes((pfn, page));
        zone.nr_free[order].fetch_add(1);
    }

    /// Takes the free block of 2^`order` pages at `pfn` off its free list; the caller holds the
    /// zone's lock.
    #[inline(always)]
    fn del_block(&self, z: usize, pfn: Pfn, order: usize) {
        self.del_block_of(&self.zones[z], pfn, order);
    }

    /// Does [`Self::del_block`] for a caller that has looked up the zone.
    #[inline(always)]
    fn del_block_of(&self, zone: &Zone<W>, pfn: Pfn, order: usize) {
        let frames = self.frames.table();
        let page = frames.page(pfn);
        debug_assert!(page.has(flag::BUDDY));
        frames.join(page.before(), page.after());
        page.clear_flags(flag::BUDDY);
        zone.nr_free[order].fetch_sub(1);
    }

    /// Takes the first block of the smallest order, from `order` on, that has one, without
    /// splitting it. `list`: the kind of free lists wanted; if these are empty, other kinds may
    /// give a block, as `mode` remembers. Returns the block's first page, its order and the kind of
    /// lists that it came from; `None`: there is no such block.
    #[inline(always)]
    fn take_block(
        &self,
        z: usize,
        order: usize,
        list: usize,
        mode: &mut Falling,
    ) -> Option<(Pfn, usize, usize)> {
        let zone = &self.zones[z];
        let (found, from) = if self.grouped() {
            self.smallest_of_type(z, order, list, mode)?
        } else {
            let blocks = &zone.nr_free[order.min(ORDERS)..];
            (order + blocks.iter().position(|n| n.get() != 0)?, list)
        };
        let (frames, list) = (self.frames.table(), self.free_list_of(zone, found, from));
        let pfn = frames.first(list);
        frames.prefetch(Ahead(frames.page(list)).goes(frames.page(pfn)));
        self.del_block_of(zone, pfn, found);
        Some((pfn, found, from))
    }

    /// Takes a block of 2^`order` pages from zone `z`, splitting a larger one if needed, and
    /// returns its first page; [`NO_PFN`] if there is none. `list`: the kind of free lists wanted.
    /// The caller holds the zone's lock and has charged the counters.
    #[inline]
    fn rmqueue_smallest(&self, z: usize, order: u32, list: usize) -> Pfn {
        let mut mode = Falling::default();
        let Some((pfn, found, from)) = self.take_block(z, order as usize, list, &mut mode) else {
            return NO_PFN;
        };
        // Give the upper halves back, largest first.
        for o in (order as usize..found).rev() {
            self.add_block(z, pfn + (1 << o), o, from);
        }
        pfn
    }

    /// Frees a block of 2^`order` pages, joining it with its free buddies; the caller holds the
    /// zone's lock. The joined block goes to the list of the kind of the pages that were freed.
    #[inline]
    fn free_one(&self, z: usize, pfn: Pfn, order: u32) {
        self.free_in_zone((z, &self.zones[z]), pfn, order);
    }

    /// Does [`Self::free_one`] for a caller that has looked up the zone.
    #[inline(always)]
    fn free_in_zone(&self, (z, zone): (usize, &Zone<W>), mut pfn: Pfn, mut order: u32) {
        let (list, frames) = (self.list_of_page(pfn), self.frames.table());
        let (start, end) = (zone.start, zone.start + zone.size);
        while (order as usize) < ORDERS - 1 {
            let buddy = pfn ^ (1 << order);
            if buddy < start || buddy + (1 << order) > end {
                break;
            }
            let page = frames.page(buddy);
            if !page.has(flag::BUDDY) || page.private() != order {
                break;
            }
            self.del_block_of(zone, buddy, order as usize);
            pfn &= !(1 << order);
            order += 1;
        }
        self.add_block_of((z, zone), pfn, order as usize, list);
    }

    /// Takes up to `count` single pages from the buddy lists of the kind `list`, and calls `out`
    /// with the first page of every run and its length; returns how many were taken. The caller
    /// counts them.
    ///
    /// Pages come from the smallest block available, lower addresses first, so a block's pages
    /// leave one after the other and at most the last block is split.
    pub(crate) fn take_bulk(
        &self,
        z: usize,
        count: u32,
        list: usize,
        mut out: impl FnMut(Pfn, u32),
    ) -> u32 {
        let zone = &self.zones[z];
        zone.lock.with(|| {
            let (mut n, mut mode) = (0, Falling::default());
            // The smallest order that may have a block: without other kinds to fall back to, an
            // empty list stays empty.
            let mut least = 0;
            while n < count {
                let Some((block, order, from)) = self.take_block(z, least, list, &mut mode) else {
                    break;
                };
                if !self.grouped() {
                    least = order;
                }
                let (end, taken) = (block + (1 << order), (count - n).min(1 << order));
                out(block, taken);
                n += taken;
                // The remainder lies between the pages taken and the block's end: one block for
                // each bit of its size, smaller ones first.
                let mut rest = block + taken;
                while rest < end {
                    let o = rest.trailing_zeros().min((end - rest).ilog2());
                    self.add_block_of((z, zone), rest, o as usize, from);
                    rest += 1 << o;
                }
            }
            n
        })
    }

    /// Takes the `n` pages that [`Mm::take_bulk`] took off the zone's count of free pages, and
    /// charges their CPU time. Even `n` = 0 folds this CPU's difference if its threshold was
    /// lowered.
    pub(crate) fn count_bulk(&self, z: usize, n: u32) {
        self.stat
            .add(self.world.cpu(), z, ZoneStat::NrFreePages, -(n as i32));
        self.world.charge(Cost::PageBulk, n);
        self.wake_if_boosted(z);
    }

    /// Fills `pages` with pages of zone `z`, as several refills of one page each would; the zone
    /// has enough free pages, and only the last refill may fold its count of them. `stat`: this
    /// CPU's counters of the zone. The caller charges the pages.
    #[inline(always)]
    pub(crate) fn take_singly(&self, z: usize, stat: &ZoneCounters<'_, W>, pages: &mut [Pfn]) {
        debug_assert!(self.takes_singly(z));
        let n = pages.len() as u32;
        let mut to = pages.iter_mut();
        let taken = self.take_bulk(z, n, 0, |first, n| {
            for (pfn, page) in (first..first + n).zip(&mut to) {
                *page = pfn;
            }
        });
        assert!(taken == n, "zone {z} has free pages");
        stat.add(ZoneStat::NrFreePages, -(n as i32));
    }

    /// Frees pages of zone `z` to the buddy lists at once, with the effects on the counter of free
    /// pages that a call of [`Self::free_bulk`] for each single page would have.
    pub(crate) fn free_singly(&self, z: usize, pages: &[Pfn]) {
        let n = self.free_in_runs(z, |runs| runs.free(pages.iter().copied()));
        let stat = self.stat.on(self.world.cpu(), z);
        stat.add_ones(ZoneStat::NrFreePages, n);
        self.world.charge(Cost::PageBulk, n);
    }

    /// Frees single pages of zone `z` to the buddy lists, and counts and charges them.
    pub(crate) fn free_bulk(&self, z: usize, pages: impl Iterator<Item = Pfn>) {
        let n = self.free_in_runs(z, |runs| runs.free(pages));
        self.count_freed(z, n);
    }

    /// Frees pages of zone `z` as [`Self::free_bulk`] does, given as the two rows of the ring of a
    /// per-CPU list, whose last page is freed first.
    pub(super) fn free_bulk_rows(&self, z: usize, [older, newer]: [&[W::U32]; 2]) {
        let n = self.free_in_runs(z, |runs| {
            if !newer.is_empty() {
                runs.free(newer.iter().rev().map(Word32::get));
            }
            runs.free(older.iter().rev().map(Word32::get));
        });
        self.count_freed(z, n);
    }

    /// Adds `n` pages that were freed to the buddy lists to the zone's count of free pages, and
    /// charges their CPU time.
    #[inline(always)]
    fn count_freed(&self, z: usize, n: u32) {
        let cpu = self.world.cpu();
        self.stat.add(cpu, z, ZoneStat::NrFreePages, n as i32);
        self.world.charge(Cost::PageBulk, n);
    }

    /// Frees the pages of zone `z` that `pages` passes on, in the order in which they come, under
    /// the zone's lock; the caller counts and charges them. Returns how many. Any bulk free clears
    /// the zone's scan count.
    ///
    /// Neighbours that come one after the other and make up a block are freed as that block; freed
    /// singly they would join into the same block.
    #[inline(always)]
    fn free_in_runs(&self, z: usize, pages: impl FnOnce(&mut Freed<'_, W>)) -> u32 {
        let zone = &self.zones[z];
        zone.lock.with(|| {
            self.hope_for(z);
            let mut freed = Freed {
                mm: self,
                z,
                zone,
                n: 0,
                run: Run::default(),
            };
            pages(&mut freed);
            freed.end(freed.run);
            freed.n
        })
    }

    /// Takes up to `count` blocks of 2^`order` pages from the buddy lists of the kind `list`, and
    /// calls `out` with the first page of each. Returns how many; the caller counts and charges
    /// them.
    pub(crate) fn take_blocks(
        &self,
        z: usize,
        order: u32,
        count: u32,
        list: usize,
        out: impl Fn(Pfn),
    ) -> u32 {
        self.zones[z].lock.with(|| {
            for n in 0..count {
                let block = self.rmqueue_smallest(z, order, list);
                if block == NO_PFN {
                    return n;
                }
                out(block);
            }
            count
        })
    }

    /// Frees blocks of 2^`order` pages, given by their first pages, to the buddy lists of zone `z`,
    /// and counts and charges them.
    pub(crate) fn free_blocks(&self, z: usize, order: u32, blocks: impl Iterator<Item = Pfn>) {
        let zone = &self.zones[z];
        let n = zone.lock.with(|| {
            self.hope_for(z);
            blocks.map(|block| self.free_one(z, block, order)).count()
        });
        self.stat.add(
            self.world.cpu(),
            z,
            ZoneStat::NrFreePages,
            (n << order) as i32,
        );
        self.world.charge(Cost::PageBulk, n as u32);
    }

    /// Takes a block of an order above 0 of zone `z` from this CPU's lists, or if CPUs have none of
    /// that order, from the buddy lists, and counts it. Returns its first page; `None` if there is
    /// none.
    pub(crate) fn rmqueue_order(&self, z: usize, order: u32, list: usize) -> Option<Pfn> {
        if self.block_has_list(order) {
            return self.rmqueue_block(z, order, list);
        }
        let pfn = self.zones[z]
            .lock
            .with(|| self.rmqueue_smallest(z, order, list));
        self.world.charge(Cost::PageBulk, 1);
        if pfn == NO_PFN {
            return None;
        }
        self.stat.add_exact(z, ZoneStat::NrFreePages, -(1 << order));
        self.wake_if_boosted(z);
        Some(pfn)
    }

    /// Takes the first page, `pfn`, out of a free block, for compaction; the rest stays free. If
    /// the block is at least half a pageblock, its pageblocks become movable, as the page is for
    /// movable data.
    pub(crate) fn split_free_page(&self, z: usize, pfn: Pfn) {
        self.zones[z].lock.with(|| {
            let page = self.frames.page(pfn);
            debug_assert!(page.has(flag::BUDDY) && page.zone() == z);
            let order = page.private() as usize;
            self.make_movable(pfn, order as u32);
            self.del_block(z, pfn, order);
            for o in (0..order).rev() {
                let half = pfn + (1 << o);
                self.add_block(z, half, o, self.list_of_page(half));
            }
            page.reset_flags(z, flag::USED);
            page.reset_maps(0);
        });
        self.stat.add_exact(z, ZoneStat::NrFreePages, -1);
        self.world.charge(Cost::PageBulk, 1);
    }

    /// Frees a block of 2^`order` pages, of an order above 0, to this CPU's lists or the buddy
    /// lists.
    pub fn free_pages_order(&self, pfn: Pfn, order: u32) {
        let z = self.frames.zone(pfn);
        assert!(self.frames.has(pfn, flag::USED) && !self.frames.any(pfn, flag::CHECK_AT_FREE));
        self.frames.page(pfn).reset_flags(z, 0);
        self.stat.event(VmEvent::PgFree, 1 << order);
        self.emit(Audience::Traces, || Event::PageFree { pfn, order });
        if self.block_has_list(order) {
            self.free_block(z, pfn, order);
            return self.world.charge(Cost::PageFree, 1);
        }
        let zone = &self.zones[z];
        zone.lock.with(|| {
            self.hope_for(z);
            self.free_one(z, pfn, order);
        });
        self.stat.add_exact(z, ZoneStat::NrFreePages, 1 << order);
        self.world.charge(Cost::PageBulk, 1);
    }
}
