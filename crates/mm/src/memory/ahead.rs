//! Which free blocks will be taken next, so that the processor's caches have their frames by then.
//!
//! A free list is a chain of frames that went out of the caches long ago: who takes one block after the other waits
//! for memory at each, because a frame says where the next one is. Lists are used at their heads, though, so the block
//! that stands [`AHEAD`] places behind another one stood there when that one came. Each free block notes it, in a word
//! that free frames do not use otherwise; the list's sentinel has the first ones in a ring, in words that
//! sentinels do not use. What a joined block takes out of a list's middle makes notes wrong: then memory is asked for
//! in vain, and nothing else.

use crate::Pfn;
use crate::memory::frame::Page;
use crate::world::{Word32, World};

/// Places of a list that are asked for ahead: a power of two, as many as a sentinel has words for. Sixteen, in
/// words of the zone, made nothing faster.
const AHEAD: u32 = 4;

/// The first blocks of a free list, by its sentinel; the zone's lock is held.
pub(super) struct Ahead<'a, W: World>(pub Page<'a, W>);

impl<'a, W: World> Ahead<'a, W> {
    #[inline(always)]
    fn place(&self, n: u32) -> &'a W::U32 {
        self.0.spare((n % AHEAD) as usize)
    }

    /// Blocks that came, less those that went.
    #[inline(always)]
    fn n(&self) -> &'a W::U32 {
        self.0.spare(AHEAD as usize)
    }

    /// A block came to the list's head: in the ring it has the place of the one that it is to note.
    #[inline(always)]
    pub fn comes(&self, (pfn, page): (Pfn, Page<'_, W>)) {
        let n = self.n().get();
        self.n().set(n.wrapping_add(1));
        let place = self.place(n);
        page.note().set(place.get());
        place.set(pfn);
    }

    /// The block at the list's head goes. Returns the one that it noted, which gets its place back.
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
        /// While blocks come and go at the head, the note of the one that goes is the one that stands [`AHEAD`] places
        /// behind it.
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
