//! How many pages swap read-ahead reads around the page that is missed (`swap_readahead`; Linux
//! mm/swap_state.c, docs/reference/writeback.md#swap).

use super::mmap::{ENTRIES_OF_TABLE, PRESENT, SHIFT};
use crate::memory::frame::flag;
use crate::policy::SwapReadahead;
use crate::world::{Word32, World};
use crate::{Mm, Pfn};
use std::ops::Range;

/// The largest window of a mapping, as a power of 2 (`SWAP_RA_ORDER_CEILING` of 64 bits).
const ORDER_CEILING: u32 = 5;
/// Hits assumed before the first read, so that the first window is as large as allowed.
pub(super) const FIRST_HITS: u32 = 4;
/// The largest number of hits that is counted.
const MOST_HITS: u32 = 63;

/// The last read-ahead window of a swap area or of a mapping.
pub(super) struct Window<W: World> {
    /// The slot or entry of the last miss, or the mapping's last entry found in the swap cache,
    /// plus 1; 0: none.
    last: W::U32,
    /// The number of pages in the window.
    pages: W::U32,
    /// How many of these pages faults have found.
    hits: W::U32,
}

impl<W: World> Window<W> {
    /// Makes the window of an area or mapping that has read nothing.
    pub(super) fn new() -> Self {
        let window = Self {
            last: bytemuck::Zeroable::zeroed(),
            pages: bytemuck::Zeroable::zeroed(),
            hits: bytemuck::Zeroable::zeroed(),
        };
        window.forget();
        window
    }

    /// Resets the window to that of a new area or mapping.
    pub(super) fn forget(&self) {
        self.last.set(0);
        self.pages.set(0);
        self.hits.set(FIRST_HITS);
    }

    /// Returns how many pages to read, at most `most`, for a miss at slot or entry `at`
    /// (`__swapin_nr_pages`), and the distance of `at` from the last miss. These pages become the
    /// window, without hits.
    fn next(&self, at: u32, most: u32) -> (u32, i64) {
        debug_assert!(self.hits.get() <= MOST_HITS && most > 0);
        let distance = i64::from(at) + 1 - i64::from(self.last.get());
        // A window from before `page-cluster` was lowered counts as the largest one possible now.
        let before = self.pages.get().min(most);
        let pages = pages(self.hits.get(), distance.abs() == 1, before, most);
        debug_assert!((1..=most).contains(&pages), "{pages} pages from swap");
        self.hits.set(0);
        self.pages.set(pages);
        (pages, distance)
    }
}

/// Returns the number of pages of the next swap read-ahead, at most `most`: more, the more pages of
/// the last window faults have found (`hits`). `adjacent`: the miss is next to the last one;
/// `before`: size of the last window, of which at least half is kept.
fn pages(hits: u32, adjacent: bool, before: u32, most: u32) -> u32 {
    let wanted = match hits {
        0 => 1 + u32::from(adjacent),
        _ => (hits + 2).next_power_of_two(),
    };
    wanted.min(most).max(before / 2)
}

/// The pages to read for a miss.
pub(super) struct Around {
    /// Slots of the area or, with `of_mapping`, entries of the mapping.
    pub places: Range<u32>,
    pub of_mapping: bool,
}

impl<W: World> Mm<W> {
    /// Returns true if read-ahead windows are kept by mapping (neighbouring entries), not by swap
    /// slots; never on a disk that rotates.
    fn by_neighbours(&self) -> bool {
        self.policy.swap_readahead == SwapReadahead::Neighbours && !self.config.swap_rotates
    }

    /// Returns the pages to read for a fault on entry `index` of a region whose swap slot `slot` is
    /// not in the swap cache (`swapin_readahead`): slots around this one, or entries around
    /// `index`.
    pub(super) fn swap_around(&self, region: u32, index: u32, slot: u32) -> Around {
        // The block of so many slots, a power of two, that contains `slot`.
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
            let no_hits = window.hits.get() == 0;
            if order == 0 {
                return aligned(1);
            }
            let (pages, _) = window.next(slot, 1 << order);
            if no_hits {
                window.last.set(slot + 1);
            }
            return aligned(pages);
        }
        let r = self.regions.region(region);
        let most = 1 << order.min(ORDER_CEILING);
        let (pages, distance) = r.swap_window.next(index, most);
        r.swap_window.last.set(index + 1);
        // `before`: how many of the pages lie before the entry; none if faults go upwards.
        let before = match distance {
            1 => 0,
            -1 => pages - 1,
            _ => (pages - 1) / 2,
        };
        // Not beyond the ends of the mapping or of the entry's page table.
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

    /// Returns the swap slot that holds the page of entry `index` of a region; `None` if the page
    /// is in memory, or there is none.
    pub(super) fn slot_of(&self, region: u32, index: u32) -> Option<u32> {
        let v = self.pte(region, index).get();
        (v != 0 && v & PRESENT == 0).then(|| (v >> SHIFT) - 1)
    }

    /// Marks a page that was read from swap beside the wanted one, so that a fault that finds it
    /// counts as a hit of read-ahead.
    pub(super) fn swapped_in_beside(&self, pfn: Pfn) {
        if self.policy.swap_readahead != SwapReadahead::Cluster {
            self.frames.set_flags(pfn, flag::READAHEAD);
        }
    }

    /// Notes, for the size of the next read-ahead, that a fault on entry `index` of a region found
    /// its page in the swap cache (`lookup_swap_cache`).
    pub(super) fn swap_met(&self, region: u32, index: u32, pfn: Pfn) {
        if self.policy.swap_readahead == SwapReadahead::Cluster {
            return;
        }
        let hit = self.frames.test_and_clear(pfn, flag::READAHEAD);
        let by_neighbours = self.by_neighbours();
        let window = match by_neighbours {
            true => &self.regions.region(region).swap_window,
            false => &self.swap.window,
        };
        if by_neighbours {
            window.last.set(index + 1);
        }
        if hit {
            window.hits.set((window.hits.get() + 1).min(MOST_HITS));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::pages;

    /// Checks the kernel's rule: no hit, a neighbour, some hits, and that the window shrinks at
    /// most by half.
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
