//! Allocation of disk blocks.
//!
//! Free space is one map of extents. Filesystems differ in where they begin to look and in how much
//! they take at a time. This decides whether files written at the same time lie one after the other
//! or interleaved:
//!
//! - **xfs** cuts the disk into allocation groups. Directories rotate over them
//!   (`xfs_ialloc_next_ag`), a file's blocks come from its directory's group. A delayed extent is
//!   converted as a whole, with speculative preallocation of up to the file's size behind its end
//!   (`xfs_iomap_prealloc_size`); the last close gives back what lies behind the end.
//! - **ext4** places a file of more than 64 KiB where its last such allocation ended, whatever the
//!   directory (`EXT4_MB_STREAM_ALLOC`), and takes aligned chunks of 2, 4 or 8 MiB while the file
//!   is open (`ext4_mb_normalize_request`); the last close gives back the rest.
//! - **ext3**, **btrfs** and **fuse-ntfs** here take the blocks they need behind the last
//!   allocation.
//! - **vfat** and **exfat** take a cluster at a time (`fat`).
//!
//! So files written at the same time to different directories go to different groups on xfs, and
//! to neighbouring chunks on ext4.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;

/// A remainder at the end of a group that is shorter than this, 64 KiB in blocks, is not taken.
const SMALL: u64 = 16;

/// The range of the whole disk.
pub(super) const ANYWHERE: Range<u64> = 0..u64::MAX;

/// The free and reserved blocks of a disk.
#[derive(Debug)]
pub(super) struct Space {
    /// First block of each free extent, by the block after its last: cutting from the front of an
    /// extent leaves its key as it is.
    free: RefCell<BTreeMap<u64, u64>>,
    /// Number of blocks that no file has, those reserved for files included.
    unused: Cell<u64>,
    groups: u64,
    group_blocks: u64,
    /// First block of the last allocation in the stream.
    stream: Cell<u64>,
    rotor: Cell<u64>,
}

impl Space {
    /// Makes a disk of `capacity` blocks in `groups` allocation groups; the blocks before `start`
    /// are the fixed metadata and never free.
    pub fn new(start: u64, capacity: u64, groups: u64) -> Self {
        let groups = groups.max(1);
        let mut free = BTreeMap::new();
        if start < capacity {
            free.insert(capacity, start);
        }
        Self {
            free: RefCell::new(free),
            unused: Cell::new(capacity.saturating_sub(start)),
            groups,
            group_blocks: capacity.div_ceil(groups).max(1),
            stream: Cell::new(start),
            rotor: Cell::new(0),
        }
    }

    /// Returns the number of allocation groups.
    pub fn group_count(&self) -> u64 {
        self.groups
    }

    /// Returns the number of blocks that no file has, reserved ones included.
    pub fn unused(&self) -> u64 {
        self.unused.get()
    }

    /// Counts reserved blocks that became a file's.
    pub fn used(&self, blocks: u32) {
        self.unused.set(self.unused.get() - u64::from(blocks));
    }

    /// Returns the group for a new directory and moves on to the next: directories rotate over the
    /// groups.
    pub fn next_group(&self) -> u32 {
        let g = self.rotor.get();
        self.rotor.set((g + 1) % self.groups);
        g as u32
    }

    /// Returns the first block of a group.
    pub fn first_block(&self, group: u32) -> u64 {
        self.blocks_of(u64::from(group)).start
    }

    /// Returns the range of blocks of a group.
    fn blocks_of(&self, group: u64) -> Range<u64> {
        group * self.group_blocks..(group + 1) * self.group_blocks
    }

    /// Finds the first place with `len` free blocks inside of `within`, searching from `goal` to
    /// the end and then from the start to `goal`. Returns its first block and the block after its
    /// free extent; `None`: no free run is that long.
    fn first_fit(&self, goal: u64, within: &Range<u64>, len: u64) -> Option<(u64, u64)> {
        let free = self.free.borrow();
        let goal = goal.clamp(within.start, within.end);
        // The map's key is the block after a free extent, its value the extent's first block.
        let look = |from: u64, to: u64| {
            let behind = free.range(from + 1..);
            behind
                .map(|(&end, &start)| (start.max(from), end))
                .take_while(|&(start, _)| start == from || start < to)
                .find(|&(start, end)| end.min(within.end) >= start + len)
        };
        look(goal, within.end).or_else(|| look(within.start, goal))
    }

    /// Finds the longest free run in a range: its first block, the block after its free extent, and
    /// its length in blocks. `None`: nothing is free there.
    fn longest(&self, within: &Range<u64>) -> Option<(u64, u64, u64)> {
        let free = self.free.borrow();
        free.range(within.start + 1..)
            .map(|(&end, &s)| (s.max(within.start), end, end.min(within.end)))
            .take_while(|(s, _, e)| s < e)
            .max_by_key(|(s, _, e)| (e - s, std::cmp::Reverse(*s)))
            .map(|(s, end, e)| (s, end, e - s))
    }

    /// Removes `len` blocks from `start` on from the free extent that ends before block `end`.
    /// The rest of the extent on either side stays free.
    ///
    /// # Panics
    /// The blocks are not free.
    fn cut(&self, start: u64, end: u64, len: u64) {
        let mut free = self.free.borrow_mut();
        let first = free.get_mut(&end).expect("a free extent");
        let from = *first;
        let fits = from <= start && start + len <= end;
        assert!(fits, "blocks {start}+{len} are not free");
        if start + len < end {
            *first = start + len;
        } else {
            free.remove(&end);
        }
        if from < start {
            free.insert(start, from);
        }
    }

    /// Puts `blocks` reserved blocks from `block` on back into the map of free extents, merged with
    /// the free neighbours on both sides. No file had them, so `unused` stays as it is.
    ///
    /// # Panics
    /// The blocks are free already.
    pub fn put_back(&self, block: u64, blocks: u32) {
        if blocks == 0 {
            return;
        }
        let (mut start, end) = (block, block + u64::from(blocks));
        let mut free = self.free.borrow_mut();
        if let Some(s) = free.remove(&start) {
            start = s;
        }
        match free.range_mut(start + 1..).next() {
            Some((_, s)) if *s == end => *s = start,
            behind => {
                let free_already = behind.is_some_and(|(_, s)| *s < end);
                assert!(!free_already, "block {block} is free already");
                free.insert(end, start);
            }
        }
    }

    /// Reserves up to `want` blocks in an allocation group, or in the next group that has `need`,
    /// at or behind block `goal` if that lies in the group. A group without so long a run gives its
    /// longest, if that is not too short (`SMALL`). Returns the first block and the number taken;
    /// `None`: no group has such a run.
    pub fn take_in_group(&self, group: u32, goal: u64, want: u32, need: u32) -> Option<(u64, u32)> {
        let (want, need) = (u64::from(want.max(need)), u64::from(need));
        for g in 0..self.groups {
            let within = self.blocks_of((u64::from(group) + g) % self.groups);
            let goal = if within.contains(&goal) {
                goal
            } else {
                within.start
            };
            if let Some(block) = self.take_front(goal, &within, want) {
                return Some((block, want as u32));
            }
            let rest = || self.longest(&within).filter(|r| r.2 >= SMALL.min(need));
            let fit = |len| self.fit(goal, &within, len);
            if let Some((block, end, len)) = fit(want).or_else(|| fit(need)).or_else(rest) {
                return Some(self.cut_run(block, end, len.min(want)));
            }
        }
        None
    }

    /// Reserves the first `len` blocks of the first free extent behind `goal`, if it begins at or
    /// behind `goal`, has more than `len` blocks, and `len` of them lie in `within`. Returns the
    /// first block. `None`: `take_in_group` has to search.
    fn take_front(&self, goal: u64, within: &Range<u64>, len: u64) -> Option<u64> {
        let mut free = self.free.borrow_mut();
        let (&end, start) = free.range_mut(goal + 1..).next()?;
        let (block, behind) = (*start, *start + len);
        let fits = block >= goal && behind <= within.end && behind < end;
        fits.then(|| {
            *start = behind;
            block
        })
    }

    /// Reserves up to `want` blocks behind the last allocation in the stream, or at least `need` if
    /// no longer run is free, or else the longest run on the disk. Returns the first block and the
    /// number taken, and remembers the place for the next call. `None`: no block is free.
    pub fn take_in_stream(&self, want: u32, need: u32) -> Option<(u64, u32)> {
        let (want, need) = (u64::from(want.max(need)), u64::from(need));
        let goal = self.stream.get();
        if let Some(next) = self.take_after_last(goal, want) {
            return Some(next);
        }
        let fit = |len| self.fit(goal, &ANYWHERE, len);
        let found = fit(want)
            .or_else(|| fit(need))
            .or_else(|| self.longest(&ANYWHERE));
        let (block, end, len) = found?;
        let run = self.cut_run(block, end, len.min(want));
        self.stream.set(run.0);
        Some(run)
    }

    /// Reserves the first `want` blocks of the first free extent behind `goal`, the last allocation
    /// of the stream, if that extent is longer than `want`. Returns the first block and the number
    /// taken; `None`: `take_in_stream` has to search.
    fn take_after_last(&self, goal: u64, want: u64) -> Option<(u64, u32)> {
        let mut free = self.free.borrow_mut();
        let (&end, start) = free.range_mut(goal + 1..).next()?;
        let longer = *start >= goal && *start + want < end;
        longer.then(|| {
            let block = std::mem::replace(start, *start + want);
            self.stream.set(block);
            (block, want as u32)
        })
    }

    /// Reserves `len` contiguous blocks within a range, at the first place at or behind `goal`, or
    /// else before it. Returns the first block; `None`: no free run is that long.
    pub fn take_whole(&self, goal: u64, within: &Range<u64>, len: u32) -> Option<u64> {
        let (block, end, len) = self.fit(goal, within, u64::from(len))?;
        Some(self.cut_run(block, end, len).0)
    }

    /// Reserves the first `len` blocks of the longest free run in a range. Returns the first block;
    /// `None`: that run is shorter.
    pub fn take_longest(&self, within: &Range<u64>, len: u32) -> Option<u64> {
        let found = self.longest(within).filter(|r| r.2 >= u64::from(len));
        let (block, end, _) = found?;
        Some(self.cut_run(block, end, u64::from(len)).0)
    }

    /// Frees blocks that were a file's.
    pub fn give_back(&self, block: u64, blocks: u32) {
        self.put_back(block, blocks);
        self.unused.set(self.unused.get() + u64::from(blocks));
    }

    /// Reserves up to `want` blocks of the longest free run on the disk. Returns the first block
    /// and the number taken; `None`: no block is free.
    pub fn take_rest(&self, want: u32) -> Option<(u64, u32)> {
        let (block, end, len) = self.longest(&ANYWHERE)?;
        Some(self.cut_run(block, end, len.min(u64::from(want))))
    }

    /// As [`Self::first_fit`], returning `len` as a third value.
    fn fit(&self, goal: u64, within: &Range<u64>, len: u64) -> Option<(u64, u64, u64)> {
        let (block, end) = self.first_fit(goal, within, len)?;
        Some((block, end, len))
    }

    /// Cuts blocks out of a free extent and returns them as first block and number.
    fn cut_run(&self, block: u64, end: u64, len: u64) -> (u64, u32) {
        self.cut(block, end, len);
        (block, len as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_stream_goes_on_where_it_was() {
        let s = Space::new(100, 1000, 1);
        assert_eq!(s.take_in_stream(50, 10), Some((100, 50)));
        assert_eq!(s.take_in_stream(50, 10), Some((150, 50)));
        // The rest of the last chunk is given back and used next.
        s.put_back(160, 40);
        assert_eq!(s.take_in_stream(8, 8), Some((160, 8)));
        // The remaining run is shorter than `want` and longer than `need`.
        assert_eq!(s.take_in_stream(900, 832), Some((168, 832)));
        assert_eq!(s.take_in_stream(1, 1), None);
    }

    #[test]
    fn groups_keep_apart_and_overflow_into_the_next() {
        let s = Space::new(100, 1000, 4);
        assert_eq!([s.next_group(), s.next_group()], [0, 1]);
        assert_eq!(s.take_in_group(0, 0, 20, 20), Some((100, 20)));
        assert_eq!(s.take_in_group(1, 0, 20, 20), Some((250, 20)));
        // Blocks come from behind the file's last block up to the end of the group, then from the
        // next group.
        assert_eq!(s.take_in_group(0, 120, 500, 200), Some((120, 130)));
        assert_eq!(s.take_in_group(0, 250, 500, 200), Some((270, 200)));
        // A remainder that is too small is left to other files.
        assert_eq!(s.take_in_group(1, 470, 25, 25), Some((470, 25)));
        assert_eq!(s.take_in_group(1, 495, 25, 25), Some((500, 25)));
        assert_eq!(s.take_in_group(1, 495, 5, 5), Some((495, 5)));
    }

    proptest! {
        /// No block is handed out twice, and all blocks given back merge into one extent.
        #[test]
        fn blocks_are_neither_lost_nor_given_twice(
            steps in prop::collection::vec((0..4u32, 0..1200u64, 1..80u32, 1..40u32, any::<bool>()), 1..200),
            groups in 1..5u64,
        ) {
            let s = Space::new(64, 1100, groups);
            let mut held: Vec<(u64, u32)> = Vec::new();
            for (group, goal, want, need, stream) in steps {
                if goal % 3 == 0 && !held.is_empty() {
                    let (block, len) = held.swap_remove(goal as usize % held.len());
                    s.put_back(block, len);
                }
                let taken = if stream {
                    s.take_in_stream(want, need)
                } else {
                    s.take_in_group(group % groups as u32, goal, want, need)
                };
                if let Some((block, len)) = taken {
                    prop_assert!(len >= 1 && len <= want.max(need));
                    prop_assert!(block >= 64 && block + u64::from(len) <= 1100);
                    for &(b, l) in &held {
                        prop_assert!(block + u64::from(len) <= b || b + u64::from(l) <= block);
                    }
                    held.push((block, len));
                }
            }
            for (block, len) in held {
                s.put_back(block, len);
            }
            let free: Vec<(u64, u64)> = s.free.borrow().iter().map(|(&b, &a)| (a, b)).collect();
            prop_assert_eq!(free, vec![(64, 1100)]);
        }
    }
}
