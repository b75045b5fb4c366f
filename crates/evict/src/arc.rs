//! ARC (Megiddo and Modha 2003, "ARC: A self-tuning, low overhead replacement cache", FAST).
//!
//! Pages seen once recently and pages seen at least twice are in an LRU list each (T1 and T2 in the
//! paper), with a queue of ghosts behind each (B1, B2). A **target** is the number of pages that
//! the first list should have. A ghost of the first queue that is asked for again makes the target
//! larger, one of the second queue makes it smaller, by the ratio of the other queue's length to
//! this one's, at least 1. There is nothing to tune. The four lists together hold at most twice the
//! cache's pages, the two of pages seen once at most as many as the cache.
//!
//! The paper forgets a ghost before it makes room; here the bounds are kept when the page comes in.
//! The lists are the same, and the bounds also hold where pages leave for other reasons or several
//! at once.

use crate::lists::Counted;
use crate::{Dirty, Ghost, MOST, Policy, Slot};

/// Seen once recently: T1, and B1 of ghosts.
const ONCE: u32 = 0;
/// Seen at least twice: T2, and B2 of ghosts.
const OFTEN: u32 = 1;

/// Two LRU lists, of pages seen once and of others; their shares follow from the ghosts that
/// return.
#[derive(Debug, Clone)]
pub struct AdaptiveReplacement {
    lists: Counted<2>,
    objects: Vec<u64>,
    ghosts: Ghost,
    /// The queue of each ghost, by the ghost's place.
    queue: Vec<u8>,
    /// Number of ghosts in each queue.
    gone: [u32; 2],
    /// Pages that the first list should have: the paper's p, a real number.
    target: f64,
    /// Pages of a full cache: the number of pages when room was last made.
    full: u32,
    /// The ghost queue in which the object about to be admitted was found; `None`: it was no ghost.
    returns: Option<u32>,
}

impl AdaptiveReplacement {
    /// Forgets the oldest ghost of `queue` (`ONCE` or `OFTEN`), if it has one, and counts it out.
    fn forget_oldest(&mut self, queue: u32) {
        if self.ghosts.forget_oldest(queue).is_some() {
            self.gone[queue as usize] -= 1;
        }
    }

    /// Adds `object`, whose page leaves the cache, to the ghosts of `queue`: `ONCE` for pages seen
    /// once, `OFTEN` for the others. If all places are taken, the longer queue forgets its oldest
    /// ghost.
    fn remember(&mut self, queue: u32, object: u64) {
        // The places are full only where several pages leave before one comes in.
        if self.ghosts.is_full() {
            let longer = u32::from(self.gone[1] > self.gone[0]);
            self.forget_oldest(longer);
        }
        if let Some(place) = self.ghosts.push_to(queue, object) {
            self.queue[place as usize] = queue as u8;
            self.gone[queue as usize] += 1;
        }
    }

    /// Forgets the ghost of `object`, because its page comes back. Returns the queue that the ghost
    /// was in, `ONCE` or `OFTEN`; `None` if the object was no ghost.
    fn take_ghost(&mut self, object: u64) -> Option<u32> {
        let place = self.ghosts.take(object)?;
        let queue = self.queue[place as usize];
        self.gone[usize::from(queue)] -= 1;
        Some(queue.into())
    }

    /// Moves `target`, the number of pages that the list of pages seen once should have (p in the
    /// paper): up for a returning ghost of the queue `ONCE`, down for one of `OFTEN`, by the ratio
    /// of the queues' lengths, at least 1. `gone` is the length of each queue before the ghost was
    /// taken.
    fn adapt(&mut self, queue: u32, gone: [u32; 2]) {
        let [once, often] = gone.map(f64::from);
        self.target = if queue == ONCE {
            (self.target + (often / once).max(1.0)).min(self.full.into())
        } else {
            (self.target - (once / often).max(1.0)).max(0.0)
        };
    }
}

impl Policy for AdaptiveReplacement {
    /// Creates ARC (adaptive replacement) for an empty cache of `slots` slots.
    fn new(slots: u32) -> Self {
        // One more than a full cache keeps: the bounds are restored after the page has come in.
        let ghosts = (slots + 1).min(MOST);
        Self {
            lists: Counted::new(slots),
            objects: vec![0; slots as usize],
            ghosts: Ghost::in_queues(ghosts, 2),
            queue: vec![0; ghosts as usize],
            gone: [0; 2],
            target: 0.0,
            full: slots,
            returns: None,
        }
    }

    /// Looks whether the object about to be brought in is a ghost. If it is, the target moves in
    /// favour of the ghost's queue; `returns` keeps the queue for `admit` and `evict`.
    #[inline]
    fn miss(&mut self, object: u64) {
        let gone = self.gone;
        self.returns = self.take_ghost(object);
        if let Some(queue) = self.returns {
            self.adapt(queue, gone);
        }
    }

    /// Adds the page of `object`, just brought into `slot`: to the list of pages seen often if the
    /// object was a ghost, else to the one of pages seen once. Then forgets ghosts until the
    /// paper's bounds hold: pages and ghosts of the first list at most the cache, all four lists at
    /// most twice the cache.
    #[inline]
    fn admit(&mut self, slot: Slot, object: u64) {
        self.objects[slot as usize] = object;
        let list = if self.returns.take().is_some() {
            OFTEN
        } else {
            ONCE
        };
        self.lists.push(list, slot);
        // `gone` counts the ghosts of each queue, `lists.pages` the pages of each list.
        while self.gone[0] > 0 && self.lists.pages[0] + self.gone[0] > self.full {
            self.forget_oldest(ONCE);
        }
        let all = |of: [u32; 2]| u64::from(of[0]) + u64::from(of[1]);
        while self.gone[1] > 0 && all(self.lists.pages) + all(self.gone) > 2 * u64::from(self.full) {
            self.forget_oldest(OFTEN);
        }
    }

    /// Moves the used page in `slot` to the newest end of the list of pages seen at least twice.
    #[inline]
    fn access(&mut self, slot: Slot) {
        self.lists.unlink(slot);
        self.lists.push(OFTEN, slot);
    }

    /// Takes out the page that ARC replaces and makes it a ghost: the least recently used page of
    /// the list of pages seen once while that list is longer than `target` (the paper's REPLACE),
    /// else of the other list. Returns its slot, or `None` if the cache has no page.
    fn evict(&mut self) -> Option<Slot> {
        let [once, often] = self.lists.pages;
        if once + often == 0 {
            return None;
        }
        self.full = once + often;
        self.target = self.target.min(self.full.into());
        let (have, want) = (f64::from(once), self.target);
        let above = have > want || (self.returns == Some(OFTEN) && have == want);
        let list = if once > 0 && (above || often == 0) {
            ONCE
        } else {
            OFTEN
        };
        let slot = self.lists.oldest(list)?;
        self.lists.unlink(slot);
        self.remember(list, self.objects[slot as usize]);
        Some(slot)
    }

    /// Takes the page in `slot`, whose object is gone, out of its list, without a ghost.
    fn remove(&mut self, slot: Slot) {
        self.lists.unlink(slot);
    }

    /// Puts the page that `evict` chose back at the newest end of its list, without its ghost,
    /// because it is dirty; asks the cache to write it in the background and to choose another
    /// page.
    fn dirty(&mut self, slot: Slot) -> Dirty {
        self.take_ghost(self.objects[slot as usize]);
        self.lists.push(self.lists.of(slot), slot);
        Dirty::WriteBehind
    }
}
