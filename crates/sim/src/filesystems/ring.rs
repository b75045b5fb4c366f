//! A journal or log on the device: a ring of blocks that is written at its head.

use super::layout::Layout;
use std::cell::Cell;

/// Place of a ring and how far it has been written.
#[derive(Debug)]
pub(super) struct Ring {
    start: Cell<u64>,
    length: u64,
    head: Cell<u64>,
}

impl Ring {
    /// Makes an empty ring, whose head is at its first block. `start` and `length` are in blocks,
    /// given as for a large disk; `front` scales them to the disk at hand.
    pub fn new(front: Layout, start: u64, length: u64) -> Self {
        Self {
            start: Cell::new(front.place(start)),
            length: front.length(start, length),
            head: Cell::new(0),
        }
    }

    /// Takes the next `n` blocks at the head, or all if the ring has fewer. Returns the first and
    /// their number. They are contiguous: a remainder at the end of the ring that is too short is
    /// skipped.
    pub fn take(&self, n: u64) -> (u64, u32) {
        self.take_on(n, false)
    }

    /// Takes the next `n` blocks at the ring's head for a log write, or all if the ring has fewer.
    /// Returns the first block on the device and the number taken. They are contiguous: a remainder
    /// at the end of the ring that is too short is skipped. `shares`: the first block taken is once
    /// more the last one of the previous call.
    pub fn take_on(&self, n: u64, shares: bool) -> (u64, u32) {
        let n = n.min(self.length);
        let head = self.head.get();
        let head = head - u64::from(shares && head > 0);
        let at = if head + n > self.length { 0 } else { head };
        self.head.set(at + n);
        (self.start.get() + at, n as u32)
    }

    /// Returns the number of blocks in the ring.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Moves the ring to `start`, where the caller has reserved as many blocks.
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
