//! One flash die: its queue of operations, and the reads that go before them.
//!
//! - **Work** is a queue: programs of the host's pages, and behind each of them its share of
//!   garbage collection: copies (a read and a program) of pages that are still valid, and an erase
//!   whenever as many pages were programmed as an erase block has. With a valid share `v` of the
//!   blocks that are collected, `v / (1 − v)` pages are copied for each page that the host writes.
//!   Collection thus advances in steps of a page and never holds a die for a whole block.
//! - **Reads** do not wait for that queue. A program or erase under way is suspended, which takes a
//!   time of its own, and resumes when no read is left (Wu and He, "Reducing SSD read latency via
//!   NAND flash program and erase suspension", FAST 2012). A resumed operation works for at least
//!   `progress` before it is suspended again, and gets the die after `passing` reads in a row, so
//!   that reads never starve writes.
//!
//! The acknowledgement time of a page is computed when the page arrives, from the work queued then.
//! Reads that come later delay the work, and so the acknowledgements of later pages only.
//!
//! Size: 24 bytes an operation; a die of an NVMe drive has some 300 when its part of the buffer is
//! full. Time: queueing and removing an operation takes some 10 ns.

use std::collections::VecDeque;

/// Times of a die's operations, in nanoseconds, and its limits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    /// Time to read a page into the die's register.
    pub read: u64,
    /// Time to program a page.
    pub program: u64,
    /// Time to erase a block.
    pub erase: u64,
    /// Time to suspend a program under way for a read; longer than `program`: programs are never
    /// suspended.
    pub program_suspend: u64,
    /// Time to suspend an erase under way for a read; longer than `erase`: erases are never
    /// suspended.
    pub erase_suspend: u64,
    /// Least time that an operation works between two suspensions.
    pub progress: u64,
    /// Reads in a row that may go before a queued operation.
    pub passing: u32,
    /// Pages in an erase block.
    pub block_pages: u32,
    /// Pages of the host that may wait on a die after their write was acknowledged.
    pub buffered: u32,
}

/// The kinds of operation in a die's queue; the host's reads are not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Programs a page that the host wrote.
    Host,
    /// Reads a page that garbage collection copies.
    Fetch,
    /// Programs a page that garbage collection copies.
    Copy,
    /// Erases a block.
    Erase,
}

/// An operation and the nanoseconds of work left.
#[derive(Debug, Clone, Copy)]
struct Operation {
    kind: Kind,
    left: u64,
}

/// One flash die.
#[derive(Debug, Clone, Default)]
pub(super) struct Die {
    /// Queued operations, in order of execution.
    work: VecDeque<Operation>,
    /// Time at which the first operation of `work` starts or resumes, or did.
    runs_from: u64,
    /// Time until which the host's reads occupy the die.
    reads_until: u64,
    /// Reads that went before the first operation since that operation last worked.
    passed: u32,
    /// Host pages in `work`.
    waiting: u32,
    /// Pages programmed since the last erase.
    programmed: u32,
    /// Pages to copy because of past writes that are not in `work` yet; may be a fraction.
    copies_due: f64,
}

impl Die {
    /// Returns an idle die that has programmed `programmed` pages since its last erase.
    pub(super) fn new(programmed: u32) -> Self {
        Self {
            programmed,
            ..Self::default()
        }
    }

    /// Removes the operations that have ended by `now` from the front of the die's queue.
    fn end_until(&mut self, now: u64) {
        while let Some(op) = self.work.front() {
            let end = self.runs_from + op.left;
            if end > now {
                break;
            }
            self.end_first(end);
        }
    }

    /// Removes the first operation, which ends at `end`, from the die's queue; the next one starts
    /// then.
    fn end_first(&mut self, end: u64) {
        let op = self.work.pop_front().expect("an operation is under way");
        self.waiting -= u32::from(op.kind == Kind::Host);
        self.runs_from = end;
        self.passed = 0;
    }

    /// Reads a page for a request at `at`, which takes the die before the queued operations;
    /// sensing takes `ns` nanoseconds. The operation under way is suspended for the read, or first
    /// finished; a waiting one is let go first after `timing.passing` reads in a row. Returns when
    /// the page is in the register.
    pub(super) fn read(&mut self, at: u64, ns: u64, timing: &Timing) -> u64 {
        let mut start = at.max(self.reads_until);
        self.end_until(start);
        // The first operation has not begun: it waits behind the last read.
        let not_started = self.runs_from <= self.reads_until;
        if !self.work.is_empty() && self.runs_from < start {
            // The operation has been under way since before this read.
            start = self.suspend(start, timing);
        } else if !self.work.is_empty() && not_started && self.passed >= timing.passing {
            start = self.suspend(self.runs_from, timing);
        }
        self.passed += u32::from(!self.work.is_empty());
        self.reads_until = start + ns;
        self.runs_from = self.runs_from.max(self.reads_until);
        self.reads_until
    }

    /// Suspends the operation under way for a read that wants the die at `wanted`. Returns when the
    /// read gets the die: when the operation has ended, or is suspended after its least progress.
    /// An operation that cannot be suspended in time is finished.
    fn suspend(&mut self, wanted: u64, timing: &Timing) -> u64 {
        let op = self.work.front_mut().expect("an operation is under way");
        let suspend_ns = match op.kind {
            Kind::Host | Kind::Copy => timing.program_suspend,
            Kind::Erase => timing.erase_suspend,
            Kind::Fetch => u64::MAX / 4,
        };
        let end = self.runs_from + op.left;
        let stops_at = wanted.max(self.runs_from + timing.progress);
        let suspended_at = stops_at + suspend_ns;
        if end <= suspended_at {
            self.end_first(end);
            return end;
        }
        op.left -= stops_at - self.runs_from;
        self.runs_from = suspended_at;
        self.passed = 0;
        suspended_at
    }

    /// Queues a host page that arrived at `arrived`, and garbage collection of `copies` pages with
    /// it; all operations take `slower` times as long as in `timing`. Returns when the write may be
    /// acknowledged: at once if the buffer holds all pages that wait, otherwise when few enough of
    /// them do.
    pub(super) fn write(&mut self, arrived: u64, copies: f64, slower: f64, timing: &Timing) -> u64 {
        self.end_until(arrived);
        if self.work.is_empty() {
            self.runs_from = arrived.max(self.reads_until);
            self.passed = 0;
        }
        let slowed = |slowed: u64| (slowed as f64 * slower) as u64;
        self.push(Kind::Host, slowed(timing.program));
        self.waiting += 1;
        self.count_page(slowed(timing.erase), timing);
        self.copies_due += copies;
        while self.copies_due >= 1.0 {
            self.copies_due -= 1.0;
            self.push(Kind::Fetch, slowed(timing.read));
            self.push(Kind::Copy, slowed(timing.program));
            self.count_page(slowed(timing.erase), timing);
        }
        self.acknowledged(arrived, timing.buffered)
    }

    fn push(&mut self, kind: Kind, left: u64) {
        self.work.push_back(Operation { kind, left });
    }

    /// Counts a programmed page; queues an erase, which takes `erase` nanoseconds, when a block is
    /// full.
    fn count_page(&mut self, erase: u64, timing: &Timing) {
        self.programmed += 1;
        if self.programmed >= timing.block_pages {
            self.programmed = 0;
            self.push(Kind::Erase, erase);
        }
    }

    /// Returns when a write that arrived at `arrived` may be acknowledged: at once, if the buffer
    /// holds all host pages that wait on the die; otherwise when the queued work, done alone, has
    /// left only `buffered` of them.
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

    /// Makes `n` reads, each `pause` behind the end of the one before; returns how long each
    /// waited.
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
        // The program had 500 µs left and resumes behind the read.
        let end = 200_000 + 100_000 + 65_000 + 500_000;
        assert_eq!(die.write(365_000, 0.0, 1.0, &T), end + 700_000);
        // A read waits for an operation that ends sooner than it could be suspended.
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

    /// After `passing` reads without a gap the queued work gets the die; work that has just got it
    /// is not suspended at once.
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
        // No two copies stand in a row: collection is interleaved with the host's writes.
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
