//! Objects that have left: queues of a fixed length together, in which an object is found by its number.

use crate::index::Index;
use crate::lists::Lists;

/// The last objects that left, oldest forgotten first; 29 to 37 bytes for each.
#[derive(Debug, Clone)]
pub struct Ghost {
    index: Index,
    order: Lists,
    free: Vec<u32>,
}

impl Ghost {
    /// Remembers at most `most` objects, in one queue.
    pub fn new(most: u32) -> Self {
        Self::in_queues(most, 1)
    }

    /// Remembers at most `most` objects together, in so many queues.
    pub fn in_queues(most: u32, queues: u32) -> Self {
        Self {
            index: Index::new(most),
            order: Lists::new(most, queues),
            free: (0..most).rev().collect(),
        }
    }

    /// Remembers an object that is not remembered. Returns its place, below the most that are
    /// remembered; `None` if that is none.
    #[inline]
    pub fn push(&mut self, object: u64) -> Option<u32> {
        self.push_to(0, object)
    }

    /// As [`push`](Self::push), in one of the queues, whose oldest object is forgotten if there are as many
    /// as there may be; `None` if it has none.
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

    /// Whether as many objects are remembered as there may be.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Forgets the oldest object of a queue; returns the place that it had.
    #[inline]
    pub fn forget_oldest(&mut self, queue: u32) -> Option<u32> {
        let place = self.order.oldest(queue)?;
        self.forget(place);
        Some(place)
    }

    /// Forgets the object of a place that has one.
    #[inline]
    pub fn forget(&mut self, place: u32) {
        self.index.remove(place);
        self.order.unlink(place);
        self.free.push(place);
    }

    /// Forgets an object; returns the place that it had if it was remembered.
    #[inline]
    pub fn take(&mut self, object: u64) -> Option<u32> {
        let place = self.index.find(object)?;
        self.forget(place);
        Some(place)
    }
}
