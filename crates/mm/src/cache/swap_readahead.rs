//! How much comes back from swap around the page that is missed (`swap_readahead`; Linux mm/swap_state.c,
//! docs/reference/writeback.md#swap).

use super::mmap::{ENTRIES_OF_TABLE, PRESENT, SHIFT};
use crate::memory::frame::flag;
use crate::policy::SwapReadahead;
use crate::world::{Word32, World};
use crate::{Mm, Pfn};
use std::ops::Range;

/// The largest window of a mapping, as a power of 2 (`SWAP_RA_ORDER_CEILING` of 64 bits).
const ORDER_CEILING: u32 = 5;
/// What is taken for met where nothing was read yet, so that the first window is as large as may be.
pub(super) const FIRST_HITS: u32 = 4;
/// Met pages that count.
const MOST_HITS: u32 = 63;

/// The last window of an area or a mapping.
pub(super) struct Window<W: World> {
    /// The slot or entry of the last miss, or what the mapping asked for since, plus 1; 0: none.
    last: W::U32,
    /// Its pages.
    pages: W::U32,
    /// How many of them were met.
    hits: W::U32,
}

impl<W: World> Window<W> {
    /// Of something that has read nothing.
    pub(super) fn new() -> Self {
        let window = Self {
            last: bytemuck::Zeroable::zeroed(),
            pages: bytemuck::Zeroable::zeroed(),
            hits: bytemuck::Zeroable::zeroed(),
        };
        window.forget();
        window
    }

    /// As new.
    pub(super) fn forget(&self) {
        self.last.set(0);
        self.pages.set(0);
        self.hits.set(FIRST_HITS);
    }

    /// How many pages are read, `at` being missed (`__swapin_nr_pages`), and by how much it is away from the last one. It is
    /// the last window then, of which nothing was met.
    /// At most `most` are read.
    fn next(&self, at: u32, most: u32) -> (u32, i64) {
        debug_assert!(self.hits.get() <= MOST_HITS && most > 0);
        let apart = i64::from(at) + 1 - i64::from(self.last.get());
        // A window from before `page-cluster` was made smaller counts as the largest there is now.
        let before = self.pages.get().min(most);
        let pages = pages(self.hits.get(), apart.abs() == 1, before, most);
        debug_assert!((1..=most).contains(&pages), "{pages} pages from swap");
        self.hits.set(0);
        self.pages.set(pages);
        (pages, apart)
    }
}

/// Pages to read, by how many of the last ones were met.
fn pages(hits: u32, adjacent: bool, before: u32, most: u32) -> u32 {
    let wanted = match hits {
        0 => 1 + u32::from(adjacent),
        _ => (hits + 2).next_power_of_two(),
    };
    wanted.min(most).max(before / 2)
}

/// What is read for a miss.
pub(super) struct Around {
    /// Slots of the area, or entries of the mapping.
    pub places: Range<u32>,
    pub of_mapping: bool,
}

impl<W: World> Mm<W> {
    /// Where windows are those of mappings.
    fn by_neighbours(&self) -> bool {
        self.policy.swap_readahead == SwapReadahead::Neighbours && !self.config.swap_rotates
    }

    /// What is read for an entry whose slot is in no page (`swapin_readahead`).
    pub(super) fn swap_around(&self, region: u32, index: u32, slot: u32) -> Around {
        let aligned = |pages: u32| {
            let first = slot / pages * pages;
            Around {
                places: first..first.saturating_add(pages).min(self.config.swap_slots),
                of_mapping: false,
            }
        };
        let order = self.sysctl.page_cluster();
        if self.policy.swap_readahead == SwapReadahead::Cluster {
            return aligned(1 << order);
        }
        if !self.by_neighbours() {
            let window = &self.swap.window;
            let unmet = window.hits.get() == 0;
            if order == 0 {
                return aligned(1);
            }
            let (pages, _) = window.next(slot, 1 << order);
            if unmet {
                window.last.set(slot + 1);
            }
            return aligned(pages);
        }
        let r = self.regions.region(region);
        let most = 1 << order.min(ORDER_CEILING);
        let (pages, apart) = r.swap_window.next(index, most);
        r.swap_window.last.set(index + 1);
        let before = match apart {
            1 => 0,
            -1 => pages - 1,
            _ => (pages - 1) / 2,
        };
        // Neither behind the ends of the mapping nor behind those of its table.
        let table = index / ENTRIES_OF_TABLE as u32 * ENTRIES_OF_TABLE as u32;
        let end = (table + ENTRIES_OF_TABLE as u32).min(r.ptes.len() as u32);
        let first = index.saturating_sub(before).max(table);
        let places = first..(index + pages - before).min(end);
        debug_assert!(
            places.contains(&index),
            "entry {index} is not of {places:?}"
        );
        Around {
            places,
            of_mapping: true,
        }
    }

    /// The slot that an entry's page is in; `None`: it is in memory, or there is none.
    pub(super) fn slot_of(&self, region: u32, index: u32) -> Option<u32> {
        let v = self.pte(region, index).get();
        (v != 0 && v & PRESENT == 0).then(|| (v >> SHIFT) - 1)
    }

    /// A page that came beside another one.
    pub(super) fn swapped_in_beside(&self, pfn: Pfn) {
        if self.policy.swap_readahead != SwapReadahead::Cluster {
            self.frames.set_flags(pfn, flag::READAHEAD);
        }
    }

    /// A fault finds its page in the swap cache (`lookup_swap_cache`).
    pub(super) fn swap_met(&self, region: u32, index: u32, pfn: Pfn) {
        if self.policy.swap_readahead == SwapReadahead::Cluster {
            return;
        }
        let met = self.frames.test_and_clear(pfn, flag::READAHEAD);
        let by_neighbours = self.by_neighbours();
        let window = match by_neighbours {
            true => &self.regions.region(region).swap_window,
            false => &self.swap.window,
        };
        if by_neighbours {
            window.last.set(index + 1);
        }
        if met {
            window.hits.set((window.hits.get() + 1).min(MOST_HITS));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::pages;

    /// The table of the kernel's rule: nothing met, a neighbour, some met, and no faster down than by halves.
    #[test]
    fn as_many_as_were_of_use() {
        let cases = [
            ((0, false, 0), 1),
            ((0, true, 0), 2),
            ((1, false, 0), 4),
            ((2, false, 0), 4),
            ((3, false, 0), 8),
            ((63, true, 8), 8),
            ((0, false, 8), 4),
            ((0, true, 4), 2),
            ((0, false, 2), 1),
        ];
        for ((hits, adjacent, before), expected) in cases {
            assert_eq!(
                pages(hits, adjacent, before, 8),
                expected,
                "{hits} {adjacent} {before}"
            );
        }
        // `page-cluster` 0 and 5.
        assert_eq!([pages(9, true, 0, 1), pages(9, true, 0, 32)], [1, 16]);
    }
}
