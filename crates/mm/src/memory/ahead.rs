//! Notes which free blocks will be taken next, so that their frames can be prefetched into the
//! processor's caches.
//!
//! A free list is a chain of frames that left the caches long ago: a caller that takes one block
//! after the other waits for memory at each, because a frame holds the link to the next one. Lists
//! are used at their heads, though, so the block that stands [`AHEAD`] places behind another one
//! also stood there when that one was added. Each free block notes it, in a word that free frames
//! do not use otherwise; the list's sentinel keeps the first ones in a ring, in words that
//! sentinels do not use. A block that is removed from the middle of a list to join its buddy makes
//! notes wrong; the only effect is a useless prefetch.

use crate::Pfn;
use crate::memory::frame::Page;
use crate::world::{Word32, World};

/// How many places ahead blocks of a list are prefetched: a power of two, as many as a sentinel has
/// words for. Sixteen, in words of the zone, were no faster.
const AHEAD: u32 = 4;

/// The first blocks of a free list, kept in its sentinel; the zone's lock is held.
pub(super) struct Ahead<'a, W: World>(pub Page<'a, W>);

impl<'a, W: World> Ahead<'a, W> {
    /// Returns the `n`-th word, modulo the ring's size, of the ring of the list's first blocks.
    #[inline(always)]
    fn place(&self, n: u32) -> &'a W::U32 {
        self.0.spare((n % AHEAD) as usize)
    }

    /// Returns the word that counts blocks added less blocks removed.
    #[inline(always)]
    fn n(&self) -> &'a W::U32 {
        self.0.spare(AHEAD as usize)
    }

    /// Notes that the free block `pfn` was added at the list's head. The block notes which block
    /// stands `AHEAD` places behind it, which is the ring's entry that it takes over.
    #[inline(always)]
    pub fn comes(&self, (pfn, page): (Pfn, Page<'_, W>)) {
        let n = self.n().get();
        self.n().set(n.wrapping_add(1));
        let place = self.place(n);
        page.note().set(place.get());
        place.set(pfn);
    }

    /// Notes that the block `page` at the list's head is removed. Returns the block that stood
    /// `AHEAD` places behind it when it was added, for prefetching; that one goes back into the
    /// ring.
    #[inline(always)]
    pub fn goes(&self, page: Page<'_, W>) -> Pfn {
        let n = self.n().get().wrapping_sub(1);
        self.n().set(n);
        let behind = page.note().get();
        self.place(n).set(behind);
        behind
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::frame::Frames;
    use proptest::prelude::*;

    proptest! {
        /// Checks that, while blocks are added and removed at the head, the note of a removed block
        /// is the one [`AHEAD`] places behind it.
        #[test]
        fn notes_are_right_at_the_head(comes in prop::collection::vec(any::<bool>(), 1..200)) {
            let frames = Frames::<crate::inside::world::TestWorld>::new(256, 1).unwrap();
            let (sentinel, mut list) = (Ahead(frames.page(256)), Vec::new());
            for (pfn, comes) in (1..).zip(comes) {
                if comes {
                    sentinel.comes((pfn, frames.page(pfn)));
                    list.push(pfn);
                } else if let Some(first) = list.pop() {
                    let behind = list.len().checked_sub(AHEAD as usize).map(|at| list[at]);
                    prop_assert_eq!(sentinel.goes(frames.page(first)), behind.unwrap_or(0));
                }
            }
        }
    }
}
