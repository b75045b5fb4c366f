//! One flash die: what it was given to do, in order, and the reads that go first.
//!
//! - **Work** is a queue: programs of the host's pages, and behind each of them its share of garbage
//!   collection: copies (a read and a program) of pages that are still valid, and an erase whenever as
//!   many pages were programmed as an erase block has. With a valid share `v` of the blocks that are
//!   collected, `v / (1 − v)` pages are copied for each page that the host writes, so collection
//!   goes on in steps of a page and never holds a die for a whole block.
//! - **Reads** do not wait for that queue. A program or erase under way is suspended, which takes a time
//!   of its own, and goes on when no read is left (Wu and He, "Reducing SSD read latency via NAND flash
//!   program and erase suspension", FAST 2012). An operation that goes on works for `progress` at
//!   least before it is suspended again, and is let in behind `passing` reads in a row, so
//!   that reads never starve writes.
//!
//! A page's acknowledgement is told when the page comes, by the work that is there then: reads that
//! come later delay the work, and so the acknowledgements of later pages.
//!
//! Size: 24 bytes an operation; a die of an NVMe drive has some 300 when its part of the buffer is full.
//! Time: an operation is put in and taken out once, some 10 ns.

use std::collections::VecDeque;

/// How dies do what they are given, times in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    /// Reads a page into the die's register.
    pub read: u64,
    /// Programs a page.
    pub program: u64,
    /// Erases a block.
    pub erase: u64,
    /// Until a program under way stands aside for a read; longer than a program takes: it does not.
    pub program_suspend: u64,
    /// The same of an erase.
    pub erase_suspend: u64,
    /// An operation works so long, at least, between two suspensions.
    pub progress: u64,
    /// Reads that go before an operation in a row.
    pub passing: u32,
    /// Pages of an erase block.
    pub block_pages: u32,
    /// Pages of the host that may wait on a die after their write was acknowledged.
    pub buffered: u32,
}

/// What a die does for other than a read of the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Programs a page of the host's.
    Host,
    /// Reads a page that is copied.
    Fetch,
    /// Programs a page that is copied.
    Copy,
    /// Erases a block.
    Erase,
}

/// An operation and the nanoseconds that are left of it.
#[derive(Debug, Clone, Copy)]
struct Operation {
    kind: Kind,
    left: u64,
}

/// One flash die.
#[derive(Debug, Clone, Default)]
pub(super) struct Die {
    /// What is to be done, in this order.
    work: VecDeque<Operation>,
    /// When the first operation of `work` begins or goes on, or did.
    runs_from: u64,
    /// The host's reads have the die until then.
    reads_until: u64,
    /// Reads that went before the first operation since that last worked.
    passed: u32,
    /// Pages of the host's in `work`.
    waiting: u32,
    /// Pages programmed since the last erase.
    programmed: u32,
    /// Copies that writes have made due and that are not in `work` yet.
    copies_due: f64,
}

impl Die {
    /// An idle die that has programmed so many pages since its last erase.
    pub(super) fn new(programmed: u32) -> Self {
        Self {
            programmed,
            ..Self::default()
        }
    }

    /// Takes the operations off its queue that have ended at `now`.
    fn end_until(&mut self, now: u64) {
        while let Some(op) = self.work.front() {
            let end = self.runs_from + op.left;
            if end > now {
                break;
            }
            self.end_first(end);
        }
    }

    /// Takes the first operation off the queue, which ends at `end`.
    fn end_first(&mut self, end: u64) {
        let op = self.work.pop_front().expect("an operation is under way");
        self.waiting -= u32::from(op.kind == Kind::Host);
        self.runs_from = end;
        self.passed = 0;
    }

    /// Reads a page that is asked for at `at` and takes `ns`; returns when it is in the register.
    pub(super) fn read(&mut self, at: u64, ns: u64, t: &Timing) -> u64 {
        let mut start = at.max(self.reads_until);
        self.end_until(start);
        let stands = self.runs_from <= self.reads_until;
        if !self.work.is_empty() && self.runs_from < start {
            // It is under way since before this read.
            start = self.suspend(start, t);
        } else if !self.work.is_empty() && stands && self.passed >= t.passing {
            start = self.suspend(self.runs_from, t);
        }
        self.passed += u32::from(!self.work.is_empty());
        self.reads_until = start + ns;
        self.runs_from = self.runs_from.max(self.reads_until);
        self.reads_until
    }

    /// Suspends the operation under way for a read that wants the die at `wanted`; returns when the read
    /// has it: then the operation has ended, or stands aside.
    fn suspend(&mut self, wanted: u64, t: &Timing) -> u64 {
        let op = self.work.front_mut().expect("an operation is under way");
        let takes = match op.kind {
            Kind::Host | Kind::Copy => t.program_suspend,
            Kind::Erase => t.erase_suspend,
            Kind::Fetch => u64::MAX / 4,
        };
        let end = self.runs_from + op.left;
        let stops = wanted.max(self.runs_from + t.progress);
        let aside = stops + takes;
        if end <= aside {
            self.end_first(end);
            return end;
        }
        op.left -= stops - self.runs_from;
        self.runs_from = aside;
        self.passed = 0;
        aside
    }

    /// Programs a page of the host's that arrived at `arrived`, with the collection of `copies` pages, and
    /// all times `slower` times as long. Returns when the page's write may be acknowledged: at once, or
    /// when so few pages wait that the buffer holds them.
    pub(super) fn write(&mut self, arrived: u64, copies: f64, slower: f64, t: &Timing) -> u64 {
        self.end_until(arrived);
        if self.work.is_empty() {
            self.runs_from = arrived.max(self.reads_until);
            self.passed = 0;
        }
        let ns = |ns: u64| (ns as f64 * slower) as u64;
        self.give(Kind::Host, ns(t.program));
        self.waiting += 1;
        self.count_page(ns(t.erase), t);
        self.copies_due += copies;
        while self.copies_due >= 1.0 {
            self.copies_due -= 1.0;
            self.give(Kind::Fetch, ns(t.read));
            self.give(Kind::Copy, ns(t.program));
            self.count_page(ns(t.erase), t);
        }
        self.acknowledged(arrived, t.buffered)
    }

    fn give(&mut self, kind: Kind, left: u64) {
        self.work.push_back(Operation { kind, left });
    }

    /// A page more is programmed: when a block is full, another one is erased.
    fn count_page(&mut self, erase: u64, t: &Timing) {
        self.programmed += 1;
        if self.programmed >= t.block_pages {
            self.programmed = 0;
            self.give(Kind::Erase, erase);
        }
    }

    /// When no more than `buffered` pages of the host's wait, if only the work that is there is done; not
    /// before `arrived`.
    fn acknowledged(&self, arrived: u64, buffered: u32) -> u64 {
        let (mut at, mut waiting) = (self.runs_from, self.waiting);
        if waiting <= buffered {
            return arrived;
        }
        for op in &self.work {
            at += op.left;
            waiting -= u32::from(op.kind == Kind::Host);
            if waiting <= buffered {
                break;
            }
        }
        at.max(arrived)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Timing = Timing {
        read: 65_000,
        program: 700_000,
        erase: 5_000_000,
        program_suspend: 100_000,
        erase_suspend: 700_000,
        progress: 150_000,
        passing: 4,
        block_pages: 768,
        buffered: 0,
    };

    /// Reads of `ns` in a row, each asked for `pause` behind the last one's end: how long each waited.
    fn waits(die: &mut Die, mut at: u64, pause: u64, n: usize) -> Vec<u64> {
        let read = |_: usize| {
            let end = die.read(at, T.read, &T);
            let waited = end - T.read - at;
            at = end + pause;
            waited
        };
        (0..n).map(read).collect()
    }

    #[test]
    fn a_read_waits_for_a_suspension_and_no_longer() {
        let mut die = Die::new(0);
        assert_eq!(die.write(0, 0.0, 1.0, &T), 700_000);
        assert_eq!(waits(&mut die, 200_000, 0, 1), [100_000]);
        // The program had 500 µs left: it goes on behind the read.
        let end = 200_000 + 100_000 + 65_000 + 500_000;
        assert_eq!(die.write(365_000, 0.0, 1.0, &T), end + 700_000);
        // What ends sooner than it could be suspended, a read waits for.
        assert_eq!(waits(&mut die, end - 30_000, 0, 1), [30_000]);
    }

    #[test]
    fn an_erase_is_suspended_and_a_copy_is_read_to_its_end() {
        let mut die = Die::new(T.block_pages - 1);
        die.write(0, 0.0, 1.0, &T);
        assert_eq!(waits(&mut die, 1_000_000, 0, 1), [700_000]);
        let mut die = Die::new(0);
        die.write(0, 1.0, 1.0, &T);
        assert_eq!(waits(&mut die, 710_000, 0, 1), [55_000]);
    }

    /// Reads that follow each other without a gap let work in behind so many; work that was just let in is not
    /// suspended at once.
    #[test]
    fn reads_do_not_starve_writes() {
        let mut die = Die::new(0);
        die.write(0, 0.0, 1.0, &T);
        let turn = T.progress + T.program_suspend;
        let w = waits(&mut die, 0, 0, 10);
        assert_eq!(w, [0, 0, 0, 0, turn, 0, 0, 0, turn, 0], "of a die at rest");
        // Within 700 / 150 turns the program has ended.
        let mut at = die.reads_until;
        let mut reads = 0;
        while die.waiting > 0 {
            at = die.read(at, T.read, &T);
            reads += 1;
            assert!(reads < 30);
        }
    }

    #[test]
    fn collection_copies_what_is_due_and_erases_a_block_for_each_that_is_filled() {
        let mut die = Die::new(0);
        for _ in 0..768 {
            die.write(0, 0.5, 1.0, &T);
        }
        let count = |die: &Die, kind| die.work.iter().filter(|op| op.kind == kind).count();
        let counts = [Kind::Host, Kind::Fetch, Kind::Copy, Kind::Erase];
        assert_eq!(counts.map(|k| count(&die, k)), [768, 384, 384, 1]);
        // No two copies stand in a row: collection goes on beside the host's writes.
        let kinds: Vec<Kind> = die.work.iter().map(|op| op.kind).collect();
        assert!(
            !kinds
                .windows(3)
                .any(|w| w == [Kind::Copy, Kind::Fetch, Kind::Copy])
        );
    }

    #[test]
    fn the_buffer_acknowledges_what_it_holds() {
        let mut die = Die::new(0);
        let t = Timing { buffered: 2, ..T };
        let ends: Vec<u64> = (0..5).map(|_| die.write(10, 0.0, 1.0, &t)).collect();
        assert_eq!(ends, [10, 10, 700_010, 1_400_010, 2_100_010]);
    }
}
