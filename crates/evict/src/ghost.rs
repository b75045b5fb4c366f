//! Objects that have left: a queue of fixed length in which an object is found by its number.

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
    /// Remembers at most `most` objects.
    pub fn new(most: u32) -> Self {
        Self {
            index: Index::new(most),
            order: Lists::new(most, 1),
            free: (0..most).rev().collect(),
        }
    }

    /// Remembers an object that is not remembered. Returns its place, below the most that are
    /// remembered; `None` if that is none.
    #[inline]
    pub fn push(&mut self, object: u64) -> Option<u32> {
        let place = match self.free.pop() {
            Some(place) => {
                self.index.insert(object, place);
                place
            }
            None => {
                let oldest = self.order.oldest(0)?;
                self.order.unlink(oldest);
                self.index.replace(object, oldest);
                oldest
            }
        };
        self.order.push_newest(0, place);
        Some(place)
    }

    /// Forgets an object; returns the place that it had if it was remembered.
    #[inline]
    pub fn take(&mut self, object: u64) -> Option<u32> {
        let place = self.index.find(object)?;
        self.index.remove(place);
        self.order.unlink(place);
        self.free.push(place);
        Some(place)
    }
}
