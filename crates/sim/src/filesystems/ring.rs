//! A journal or log on the device: a ring of blocks that is written at its head.

use super::layout::Layout;
use std::cell::Cell;

/// Where it is and how far it was written.
#[derive(Debug)]
pub(super) struct Ring {
    start: Cell<u64>,
    length: u64,
    head: Cell<u64>,
}

impl Ring {
    /// An empty one whose place and length are given as on a large disk.
    pub fn new(front: Layout, start: u64, length: u64) -> Self {
        Self {
            start: Cell::new(front.place(start)),
            length: front.length(start, length),
            head: Cell::new(0),
        }
    }

    /// The next blocks at its head, `n` or as many as it has: the first one and how many. They lie
    /// together; a rest at the end that is too short is passed.
    pub fn take(&self, n: u64) -> (u64, u32) {
        self.take_on(n, false)
    }

    /// As [`Self::take`]. `shares`: the first of them is the last one that was taken before.
    pub fn take_on(&self, n: u64, shares: bool) -> (u64, u32) {
        let n = n.min(self.length);
        let head = self.head.get();
        let head = head - u64::from(shares && head > 0);
        let at = if head + n > self.length { 0 } else { head };
        self.head.set(at + n);
        (self.start.get() + at, n as u32)
    }

    /// How many blocks it has.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Puts it elsewhere: to `start`, where as many blocks are nobody's.
    pub fn move_to(&self, start: u64) {
        self.start.set(start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_lies_together_and_stays_in_the_ring() {
        let ring = Ring::new(Layout::new(1 << 22), 1024, 10);
        let taken = [4, 4, 4, 6, 100].map(|n| ring.take(n));
        assert_eq!(
            taken,
            [(1024, 4), (1028, 4), (1024, 4), (1028, 6), (1024, 10)]
        );
        let taken = [4, 4, 4].map(|n| ring.take_on(n, true));
        assert_eq!(taken, [(1024, 4), (1027, 4), (1030, 4)]);
    }
}
