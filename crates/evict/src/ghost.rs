//! Ghosts: objects that have left the cache, in queues of a bounded total length, found by number.

use crate::index::Index;
use crate::lists::Lists;

/// The objects that left last; the oldest is forgotten first. 29 to 37 bytes for each.
#[derive(Debug, Clone)]
pub struct Ghost {
    index: Index,
    order: Lists,
    free: Vec<u32>,
}

impl Ghost {
    /// Creates one queue that remembers at most `most` objects.
    pub fn new(most: u32) -> Self {
        Self::in_queues(most, 1)
    }

    /// Creates `queues` empty queues, which together remember at most `most` objects that have left
    /// a cache.
    pub fn in_queues(most: u32, queues: u32) -> Self {
        Self {
            index: Index::new(most),
            order: Lists::new(most, queues),
            free: (0..most).rev().collect(),
        }
    }

    /// Remembers an object that is not remembered yet. Returns its place, a number below `most`;
    /// `None` if `most` is 0.
    #[inline]
    pub fn push(&mut self, object: u64) -> Option<u32> {
        self.push_to(0, object)
    }

    /// Remembers an object that has left the cache as the newest of `queue`. If no place is free,
    /// the queue's oldest object is forgotten for it. Returns the object's place, a number below
    /// the bound; `None` if no place is free and the queue is empty.
    #[inline]
    pub fn push_to(&mut self, queue: u32, object: u64) -> Option<u32> {
        let place = match self.free.pop() {
            Some(place) => {
                self.index.insert(object, place);
                place
            }
            None => {
                let oldest = self.order.oldest(queue)?;
                self.order.unlink(oldest);
                self.index.replace(object, oldest);
                oldest
            }
        };
        self.order.push_newest(queue, place);
        Some(place)
    }

    /// Returns true if no place is free.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Forgets the oldest object of `queue`. Returns the place it had, now free; `None` if the
    /// queue is empty.
    #[inline]
    pub fn forget_oldest(&mut self, queue: u32) -> Option<u32> {
        let place = self.order.oldest(queue)?;
        self.forget(place);
        Some(place)
    }

    /// Forgets the object at `place`, which has one; the place is free from then on.
    #[inline]
    pub fn forget(&mut self, place: u32) {
        self.index.remove(place);
        self.order.unlink(place);
        self.free.push(place);
    }

    /// Forgets `object` wherever it is remembered. Returns its former place, now free; `None` if it
    /// was not remembered.
    #[inline]
    pub fn take(&mut self, object: u64) -> Option<u32> {
        let place = self.index.find(object)?;
        self.forget(place);
        Some(place)
    }
}
