//! Free lists by mobility (`mobility = "grouped"`): requests of one kind take pages from pageblocks
//! of that kind, so that pages that cannot be moved or reclaimed stay together (Linux 2.6.24 and
//! later, mm/page_alloc.c; the form here is that of 5.0).
//!
//! ```text
//! free_area:  unmovable 0..=10 | movable 0..=10 | reclaimable 0..=10     (sentinels of one zone)
//! ```
//!
//! A pageblock is 512 pages (1024 in kernels without huge pages) and has a word for its kind; all
//! begin as movable. When the lists of a kind are empty, the largest block of another kind is
//! taken: with the rest of its pageblock where that helps, and the pageblock itself changes its
//! kind if half of it is free or of the new kind. Each such fallback mixes kinds, which
//! [`boost`](crate::boost) answers with more free memory.
//!
//! If lists are not kept by mobility there is one kind: no word per pageblock, the first eleven
//! lists and one per-CPU list. A single page then costs one more load and branch when it is
//! allocated or freed.
//!
//! Since 6.15 (`mobility = "claimed"`) a pageblock is taken over as a whole or not at all. If none
//! can be had, single pages are taken, which mixes kinds and boosts nothing.
//!
//! Not modelled: `ALLOC_NOFRAGMENT` (a lower zone is used before kinds are mixed) and the reserve
//! for atomic requests of high orders.

use crate::memory::buddy::ORDERS;
use crate::memory::frame::flag;
use crate::memory::gfp::Gfp;
use crate::memory::zone::Mark;
use crate::memory::zone::Zone;
use crate::policy::Mobility;
use crate::world::{Cost, Word32, World};
use crate::{Mm, Pfn};
use heap::NoMemory;

/// The default order of a pageblock: a huge page of x86-64 (2 MiB).
pub const PAGEBLOCK_ORDER: u32 = 9;
/// The pages of such a pageblock.
pub const PAGEBLOCK_PAGES: u32 = 1 << PAGEBLOCK_ORDER;

/// The kinds of pages in use, by whether they can be moved or freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum MigrateType {
    /// Neither movable nor freeable: the kernel's own data.
    Unmovable,
    /// Movable: page cache and anonymous memory.
    Movable,
    /// Freeable but not movable: the kernel's caches.
    Reclaimable,
}

/// Number of migrate types, and of lists if they are kept apart.
pub(crate) const MIGRATE_TYPES: usize = 3;

/// The types that each type falls back to when its lists are empty, in order.
const FALLBACKS: [[usize; 2]; MIGRATE_TYPES] = [
    [
        MigrateType::Reclaimable as usize,
        MigrateType::Movable as usize,
    ],
    [
        MigrateType::Reclaimable as usize,
        MigrateType::Unmovable as usize,
    ],
    [
        MigrateType::Unmovable as usize,
        MigrateType::Movable as usize,
    ],
];

impl MigrateType {
    /// Returns the kind (migrate type) of the pages that a request takes. Only movable requests may
    /// use the Movable zone.
    #[inline(always)]
    pub const fn of(gfp: Gfp) -> Self {
        if gfp.high_zoneidx() == crate::ZoneType::Movable as usize {
            Self::Movable
        } else if gfp.has(Gfp::RECLAIMABLE) {
            Self::Reclaimable
        } else {
            Self::Unmovable
        }
    }
}

/// Returns the number of kinds of free lists that a policy keeps apart; 1 if it does not.
pub(crate) fn lists(mobility: Mobility) -> usize {
    match mobility {
        Mobility::None => 1,
        _ => MIGRATE_TYPES,
    }
}

/// Makes the words that hold the kind of each pageblock of 2^`order` pages, all movable; none if
/// free lists are not kept by mobility.
pub(crate) fn pageblocks<W: World>(
    mobility: Mobility,
    frames: u32,
    order: u32,
) -> Result<Box<[W::U32]>, NoMemory> {
    let n = match mobility {
        Mobility::None => 0,
        _ => frames.div_ceil(1 << order) as usize,
    };
    let blocks: Box<[W::U32]> = heap::zeroed("the pageblocks", n)?;
    blocks
        .iter()
        .for_each(|b| b.set(MigrateType::Movable as u32));
    Ok(blocks)
}

/// Where the last page of a bulk came from, so that a fallback is searched only once
/// (`enum rmqueue_mode`, 6.15).
#[derive(Default)]
pub(crate) enum Falling {
    /// From the lists of the requested kind, which may have taken over a pageblock.
    #[default]
    Not,
    /// From another kind's list, whose pageblock keeps its kind; the following pages will, too.
    Steals,
}

/// Returns true if a request of the kind `start`, which takes a block of 2^`order` pages of another
/// kind, takes the rest of its pageblock (of 2^`pageblock` pages) along. Movable requests leave the
/// pageblocks of small blocks alone, as their pages do no lasting harm there.
fn can_steal_fallback(order: usize, start: usize, pageblock: u32) -> bool {
    order >= pageblock as usize / 2 || start != MigrateType::Movable as usize
}

impl<W: World> Mm<W> {
    /// Returns true if free lists are kept by mobility of the pages.
    #[inline(always)]
    pub(crate) fn grouped(&self) -> bool {
        !self.pageblocks.is_empty()
    }

    /// Returns the pages of a pageblock.
    #[inline(always)]
    pub fn pageblock_pages(&self) -> u32 {
        1 << self.config.pageblock_order
    }

    /// Returns the number of the kind of free lists from which a request takes pages; 0 if there is
    /// one kind.
    #[inline(always)]
    pub(crate) fn list_of_request(&self, gfp: Gfp) -> usize {
        if self.grouped() {
            MigrateType::of(gfp) as usize
        } else {
            0
        }
    }

    /// Returns the number of the kind of free lists to which a page goes when it is freed: that of
    /// its pageblock; 0 if there is one kind.
    #[inline(always)]
    pub(crate) fn list_of_page(&self, pfn: Pfn) -> usize {
        let block = self
            .pageblocks
            .get((pfn >> self.config.pageblock_order) as usize);
        block.map_or(0, |b| b.get() as usize)
    }

    /// Returns the sentinel of zone `z`'s list of free blocks of one order and kind (`list`).
    #[inline(always)]
    pub(crate) fn free_list(&self, z: usize, order: usize, list: usize) -> Pfn {
        self.free_list_of(&self.zones[z], order, list)
    }

    /// Does [`Self::free_list`] for a caller that has looked up the zone.
    #[inline(always)]
    pub(super) fn free_list_of(&self, zone: &Zone<W>, order: usize, list: usize) -> Pfn {
        zone.free_area + (list * ORDERS + order) as u32
    }

    /// Returns the smallest order, from `order` on, of which zone `z` has a free block of the kind
    /// `list`, and the kind whose lists have it, after blocks or pageblocks of another kind were
    /// taken over if this kind has none; `None` if no block can be had. `mode` remembers for the
    /// next page of a bulk whether other kinds must be asked. The caller holds the zone's lock.
    #[inline(never)]
    pub(crate) fn smallest_of_type(
        &self,
        z: usize,
        order: usize,
        list: usize,
        mode: &mut Falling,
    ) -> Option<(usize, usize)> {
        let claims = self.policy.mobility == Mobility::Claimed;
        loop {
            if let Falling::Not = mode {
                let has = |&o: &usize| !self.frames.list_empty(self.free_list(z, o, list));
                let found = (order..ORDERS).find(has);
                let more = || match claims {
                    true => self.claim_pageblock(z, order, list),
                    false => self.rmqueue_fallback(z, order, list),
                };
                if found.is_some() {
                    return found.map(|o| (o, list));
                }
                if more() {
                    continue;
                }
                if !claims {
                    return None;
                }
            }
            // No pageblock can be claimed: take a block of another kind, whose pageblock keeps its
            // kind.
            let found = (order..ORDERS)
                .find_map(|o| Some((o, self.find_suitable_fallback(z, o, list)?)))?;
            *mode = Falling::Steals;
            return Some(found);
        }
    }

    /// Claims for the kind `start` the pageblock of the largest free block of another kind, of
    /// `order` at least, that may be claimed, with all free blocks in it (`__rmqueue_claim`, 6.15).
    /// Returns true if there was one. Each attempt boosts the watermarks, unless the pageblock was
    /// free as a whole.
    fn claim_pageblock(&self, z: usize, order: usize, start: usize) -> bool {
        for o in (order..ORDERS).rev() {
            let Some(list) = self.find_suitable_fallback(z, o, start) else {
                continue;
            };
            if !can_steal_fallback(o, start, self.config.pageblock_order) {
                return false;
            }
            let pfn = self.frames.first(self.free_list(z, o, list));
            if o >= self.config.pageblock_order as usize {
                self.steal_suitable_fallback(z, pfn, o, start);
                return true;
            }
            self.boost_watermark(z);
            if self.steal_pageblock(z, pfn, start, true) {
                return true;
            }
        }
        false
    }

    /// Returns the first kind to which the kind `start` may fall back and that has free blocks of
    /// an order; `None` if there is none.
    fn find_suitable_fallback(&self, z: usize, order: usize, start: usize) -> Option<usize> {
        let has = |list: &usize| !self.frames.list_empty(self.free_list(z, order, *list));
        FALLBACKS[start].into_iter().find(has)
    }

    /// Moves a free block of another kind, of `order` at least, to the lists of the kind `start`.
    /// Returns true if there was one. Tries the largest blocks first, since their pageblocks have
    /// most to give.
    fn rmqueue_fallback(&self, z: usize, order: usize, start: usize) -> bool {
        let find = |o: usize| Some((o, self.find_suitable_fallback(z, o, start)?));
        let Some((largest, list)) = (order..ORDERS).rev().find_map(find) else {
            return false;
        };
        // A movable page that cannot have the whole pageblock does no lasting harm, so the smallest
        // block is taken.
        let (found, list) = if can_steal_fallback(largest, start, self.config.pageblock_order) {
            (largest, list)
        } else {
            (order..ORDERS).find_map(find).unwrap_or((largest, list))
        };
        let pfn = self.frames.first(self.free_list(z, found, list));
        self.steal_suitable_fallback(z, pfn, found, start);
        true
    }

    /// Moves the free block of 2^`order` pages at `pfn` to the lists of the kind `start`, with as
    /// much of its pageblock as allowed.
    fn steal_suitable_fallback(&self, z: usize, pfn: Pfn, order: usize, start: usize) {
        if order >= self.config.pageblock_order as usize {
            for at in (pfn..pfn + (1 << order)).step_by(self.pageblock_pages() as usize) {
                self.set_pageblock(at, start);
            }
        } else {
            self.boost_watermark(z);
            if can_steal_fallback(order, start, self.config.pageblock_order)
                && self.steal_pageblock(z, pfn, start, false)
            {
                return;
            }
        }
        self.move_block(z, pfn, order, start);
    }

    /// Makes the pageblocks of a free block of 2^`order` pages movable, as it will be used for
    /// movable pages, unless the block is less than half of a pageblock.
    pub(crate) fn make_movable(&self, pfn: Pfn, order: u32) {
        if !self.grouped() || order + 1 < self.config.pageblock_order {
            return;
        }
        for at in (pfn..pfn + (1 << order)).step_by(self.pageblock_pages() as usize) {
            self.set_pageblock(at, MigrateType::Movable as usize);
        }
    }

    /// Sets the kind of a page's pageblock.
    fn set_pageblock(&self, pfn: Pfn, list: usize) {
        self.pageblocks[(pfn >> self.config.pageblock_order) as usize].set(list as u32);
    }

    /// Moves a free block of 2^`order` pages to the list of another kind; pageblocks keep theirs.
    fn move_block(&self, z: usize, pfn: Pfn, order: usize, list: usize) {
        self.frames.del(pfn);
        self.frames.add(self.free_list(z, order, list), pfn);
    }

    /// Moves the free blocks of the pageblock of `pfn` to the lists of the kind `start`, and
    /// changes the pageblock to that kind if at least half of it is free or in use by the kind.
    /// Returns false if nothing was moved: the zone's end cuts the pageblock, or `whole` is set and
    /// the pageblock does not change its kind.
    fn steal_pageblock(&self, z: usize, pfn: Pfn, start: usize, whole: bool) -> bool {
        let zone = &self.zones[z];
        let first = pfn & !(self.pageblock_pages() - 1);
        let end = first + self.pageblock_pages();
        if end > zone.start + zone.size {
            return false;
        }
        let was = self.list_of_page(pfn);
        let (mut free, mut movable) = (0, 0);
        let mut at = first;
        while at < end {
            let page = self.frames.page(at);
            if page.has(flag::BUDDY) {
                free += 1 << page.private();
                at += 1 << page.private();
            } else {
                movable += u32::from(page.has(flag::LRU));
                at += 1;
            }
        }
        // `alike`: pages in use that are taken to be of the kind `start`; pages on LRU lists are
        // movable.
        let alike = if start == MigrateType::Movable as usize {
            movable
        } else if was == MigrateType::Movable as usize {
            self.pageblock_pages() - free - movable
        } else {
            // Unmovable pages cannot be told from reclaimable ones.
            0
        };
        let becomes = free + alike >= self.pageblock_pages() / 2;
        if whole && !becomes {
            return false;
        }
        let (mut at, mut blocks) = (first, 0);
        while at < end {
            let page = self.frames.page(at);
            if page.has(flag::BUDDY) {
                let order = page.private();
                self.move_block(z, at, order as usize, start);
                blocks += 1;
                at += 1 << order;
            } else {
                at += 1;
            }
        }
        if becomes {
            self.set_pageblock(first, start);
        }
        self.world.charge(Cost::PageBulk, blocks);
        true
    }

    /// Returns the kind of a page's pageblock; `None` if lists are not kept by mobility.
    pub fn pageblock_type(&self, pfn: Pfn) -> Option<MigrateType> {
        if !self.grouped() {
            return None;
        }
        Some(match self.list_of_page(pfn) {
            0 => MigrateType::Unmovable,
            1 => MigrateType::Movable,
            _ => MigrateType::Reclaimable,
        })
    }

    /// Checks that a zone's pageblocks are of a known kind, and that its min watermark contains its
    /// boost.
    pub(crate) fn check_mobility(&self, z: usize) -> Result<(), String> {
        let zone = &self.zones[z];
        let known = |pfn: &Pfn| self.list_of_page(*pfn) < self.lists;
        let mut starts =
            (zone.start..zone.start + zone.size).step_by(self.pageblock_pages() as usize);
        if let Some(pfn) = starts.find(|pfn| !known(pfn)) {
            return Err(format!("the pageblock of frame {pfn} is of no kind"));
        }
        let boost = self.watermark_boost(z);
        let min = zone.mark(Mark::Min);
        if min < u64::from(boost) {
            return Err(format!("zone {z}: boosted by {boost}, but min is {min}"));
        }
        Ok(())
    }
}
