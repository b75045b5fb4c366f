//! 2Q (Johnson and Shasha 1994, "2Q: A low overhead high performance buffer management replacement
//! algorithm", VLDB), the full version.
//!
//! New pages go through a queue (A1in in the paper), in which uses do not count: they are taken for
//! one use made of several requests. A page that leaves the queue is remembered (A1out), and a page
//! that is requested while it is remembered joins the LRU list of the others (Am). Each eviction
//! cuts the queue back to its share; pages that leave the LRU list are not remembered.

use crate::lists::Counted;
use crate::{Dirty, Ghost, Policy, Slot};

const QUEUE: u32 = 0;
const MAIN: u32 = 1;

/// Kin: the queue's share of the cache, one page in this many; the paper's 25 %.
const QUEUE_SHARE: u32 = 4;
/// Kout: one object is remembered for this many pages of the cache; the paper's 50 %.
const GHOST_SHARE: u32 = 2;

/// A queue before an LRU list; pages requested again after they left the queue join the list.
#[derive(Debug, Clone)]
pub struct TwoQ {
    lists: Counted<2>,
    objects: Vec<u64>,
    ghosts: Ghost,
    /// True if the object about to be admitted was remembered.
    returns: bool,
}

impl Policy for TwoQ {
    /// Creates 2Q for an empty cache of `slots` slots, which remembers half as many objects that
    /// left.
    fn new(slots: u32) -> Self {
        Self {
            lists: Counted::new(slots),
            objects: vec![0; slots as usize],
            ghosts: Ghost::new((slots / GHOST_SHARE).max(1)),
            returns: false,
        }
    }

    /// Looks whether the object about to be brought in is remembered, and keeps that for `admit`;
    /// it is then forgotten.
    #[inline]
    fn miss(&mut self, object: u64) {
        self.returns = self.ghosts.take(object).is_some();
    }

    /// Adds the page of `object`, just brought into `slot`: to the LRU list if the object was
    /// remembered since it left the queue, else to the queue of new pages.
    #[inline]
    fn admit(&mut self, slot: Slot, object: u64) {
        self.objects[slot as usize] = object;
        let list = if std::mem::take(&mut self.returns) {
            MAIN
        } else {
            QUEUE
        };
        self.lists.push(list, slot);
    }

    /// Records a use of the page in `slot`: a page of the LRU list becomes its newest; in the queue
    /// of new pages uses do not count.
    #[inline]
    fn access(&mut self, slot: Slot) {
        if self.lists.of(slot) == MAIN {
            self.lists.renew(slot);
        }
    }

    /// Takes out a page and returns its slot; `None` if there is no page. The queue of new pages
    /// loses its oldest page, which is remembered, while it has more than its share; else the LRU
    /// list does.
    fn evict(&mut self) -> Option<Slot> {
        let [queue, main] = self.lists.pages;
        // `evict` is called only when the cache is full, so shares are taken of the pages in it.
        let share = ((queue + main) / QUEUE_SHARE).max(1);
        let list = if queue > share || main == 0 {
            QUEUE
        } else {
            MAIN
        };
        let slot = self.lists.oldest(list)?;
        self.lists.unlink(slot);
        if list == QUEUE {
            self.ghosts.push(self.objects[slot as usize]);
        }
        Some(slot)
    }

    fn remove(&mut self, slot: Slot) {
        self.lists.unlink(slot);
    }

    /// Puts the page that `evict` chose back at the newest end of its list, because it is dirty,
    /// and forgets its ghost; asks the cache to write it in the background and to choose another
    /// page.
    fn dirty(&mut self, slot: Slot) -> Dirty {
        let list = self.lists.of(slot);
        if list == QUEUE {
            self.ghosts.take(self.objects[slot as usize]);
        }
        self.lists.push(list, slot);
        Dirty::WriteBehind
    }
}
