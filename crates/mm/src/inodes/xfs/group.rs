//! The inodes of an allocation group: which file has which number, which inodes can be freed, which
//! clusters are being written.
//!
//! An XFS may have 65,536 groups and a machine millions of files, all of which may be in one group.
//! Numbers are given in sequence, so a group's table grows by parts, each as long as all before it
//! together: all groups together take at most twice as much as there are inodes.

use super::CLUSTER_INODES;
use crate::inodes::sleep_lock::SleepLock;
use crate::world::{Word32, Word64, World};
use std::sync::OnceLock;

/// The row word of a number without an inode.
pub(super) const NONE: u32 = 0;
/// Inodes of the first part: whole clusters, and whole words of bits.
const FIRST_PART: u32 = 64;
/// Parts of a group: enough for any 32-bit number.
const PARTS: usize = 27;

/// A set of small numbers with a quick search for the next one: a bit per number, and two levels of
/// bits that summarize the words below.
struct Bits<U> {
    levels: [Box<[U]>; 3],
}

impl<U: Word64 + bytemuck::Zeroable> Bits<U> {
    /// Makes an empty set that can hold numbers below `capacity`.
    fn new(capacity: u32) -> Self {
        // Each level has a bit for each word of the level below.
        let level = |shift: u32| zeroed((capacity >> shift) as usize + 1);
        Self {
            levels: [level(6), level(12), level(18)],
        }
    }

    /// Returns true if `n` is in the set.
    fn has(&self, n: u32) -> bool {
        self.levels[0][n as usize / 64].get() >> (n % 64) & 1 != 0
    }

    /// Adds `n` to the set: sets its bit, and those above that say that its word is not empty.
    fn set(&self, n: u32) {
        let mut n = n as usize;
        for level in &self.levels {
            level[n / 64].fetch_or(1 << (n % 64));
            n /= 64;
        }
    }

    /// Removes `n` from the set, and clears the bits above whose words become empty.
    fn clear(&self, n: u32) {
        let mut n = n as usize;
        for level in &self.levels {
            let bit = 1 << (n % 64);
            if level[n / 64].fetch_and(!bit) & !bit != 0 {
                return;
            }
            n /= 64;
        }
    }

    /// Returns the smallest number of the set at `from` or above; `None` if there is none.
    fn next(&self, from: u32) -> Option<u32> {
        let mut at = from as usize;
        for (height, level) in self.levels.iter().enumerate() {
            let word = level.get(at / 64).map_or(0, |w| w.get() >> (at % 64));
            if word != 0 {
                at += word.trailing_zeros() as usize;
                // Descend to the lowest bit below it.
                for below in self.levels[..height].iter().rev() {
                    at = at * 64 + below[at].get().trailing_zeros() as usize;
                }
                return u32::try_from(at).ok();
            }
            // The rest of this word is empty: continue with the next word's bit, one level up.
            at = at / 64 + 1;
        }
        // With more than 64^3 numbers the words of the highest level are searched.
        let top = self.levels.len() - 1;
        let word = (at..self.levels[top].len()).find(|&w| self.levels[top][w].get() != 0)?;
        self.next((word << 18) as u32)
    }
}

/// Makes a table of `n` zeroed entries; if the host has no memory for it, unwinds with
/// [`heap::NoMemory`].
fn zeroed<T: bytemuck::Zeroable>(n: usize) -> Box<[T]> {
    heap::zeroed("an allocation group's inodes", n).unwrap_or_else(|e| e.raise())
}

/// The approximate bytes of a group's first part and of the list of its parts.
pub(crate) const BYTES_PER_USED_GROUP: usize = PARTS * 16 + 576;

/// Inodes with consecutive numbers.
struct Part<W: World> {
    /// The number of the first inode.
    first: u32,
    /// The row of each inode, plus 1; 0: no inode.
    rows: Box<[W::U32]>,
    /// The inodes that can be freed.
    tagged: Bits<W::U64>,
    /// The clusters whose buffers are locked for a write.
    busy: Bits<W::U64>,
}

impl<W: World> Part<W> {
    /// Returns the index of the part of a group that holds the inode number `agino`. Each part is
    /// as long as all before it together.
    fn of(agino: u32) -> usize {
        (agino / FIRST_PART).checked_ilog2().map_or(0, |n| n + 1) as usize
    }

    /// Makes the `nth` part of a group, without inodes.
    fn new(nth: usize) -> Self {
        let first = if nth == 0 { 0 } else { FIRST_PART << (nth - 1) };
        let len = first.max(FIRST_PART);
        Self {
            first,
            rows: zeroed(len as usize),
            tagged: Bits::new(len),
            busy: Bits::new(len / CLUSTER_INODES),
        }
    }

    /// Returns the place in this part for the row of the inode number `agino`.
    fn slot(&self, agino: u32) -> &W::U32 {
        &self.rows[(agino - self.first) as usize]
    }
}

/// The parts of a group; each is made when the first inode is placed in it.
type Parts<W> = [OnceLock<Box<Part<W>>>; PARTS];

/// An allocation group's inodes.
pub(crate) struct Ag<W: World> {
    parts: OnceLock<Box<Parts<W>>>,
    /// The number of inodes that can be freed.
    pub reclaimable: W::U32,
    /// The number at which the next walk begins.
    pub(super) cursor: W::U32,
    /// The lock that a walk holds (`pag_ici_reclaim_lock`).
    pub(super) lock: SleepLock<W>,
}

impl<W: World> Ag<W> {
    /// Makes a group without inodes.
    pub fn new() -> Self {
        Self {
            parts: OnceLock::new(),
            reclaimable: bytemuck::Zeroable::zeroed(),
            cursor: bytemuck::Zeroable::zeroed(),
            lock: SleepLock::new(),
        }
    }

    /// Enters the file `ino` under its inode's number `agino` in this group, making the part of the
    /// table that holds the number if needed.
    pub fn place(&self, agino: u32, ino: u32) {
        let parts = self
            .parts
            .get_or_init(|| Box::new(std::array::from_fn(|_| OnceLock::new())));
        let nth = Part::<W>::of(agino);
        let slot = parts[nth]
            .get_or_init(|| Box::new(Part::new(nth)))
            .slot(agino);
        assert!(slot.get() == NONE, "number {agino} is taken");
        slot.set(ino + 1);
    }

    /// Returns the part that holds the inode number `agino`; `None` if it was not made yet.
    fn find(&self, agino: u32) -> Option<&Part<W>> {
        let part = self.parts.get()?[Part::<W>::of(agino)].get();
        part.map(|part| &**part)
    }

    /// Returns the part that holds the number of an inode that was placed.
    fn part(&self, agino: u32) -> &Part<W> {
        self.find(agino).expect("a placed inode has a part")
    }

    /// Returns the file whose inode has the number `agino` in this group; `None` if there is none.
    pub(super) fn row(&self, agino: u32) -> Option<u32> {
        self.find(agino)?.slot(agino).get().checked_sub(1)
    }

    /// Tags an inode as one that can be freed.
    pub(super) fn tag(&self, agino: u32) {
        let part = self.part(agino);
        part.tagged.set(agino - part.first);
    }

    /// Removes the tag of an inode.
    pub(super) fn untag(&self, agino: u32) {
        let part = self.part(agino);
        part.tagged.clear(agino - part.first);
    }

    /// Returns true if the inode with this number is tagged as one that can be freed.
    pub(super) fn is_tagged(&self, agino: u32) -> bool {
        self.find(agino)
            .is_some_and(|part| part.tagged.has(agino - part.first))
    }

    /// Returns the first inode number at `from` or above that is tagged as one that can be freed;
    /// `None` if there is none.
    pub(super) fn next_tagged(&self, from: u32) -> Option<u32> {
        let parts = self.parts.get()?;
        parts[Part::<W>::of(from)..].iter().find_map(|part| {
            let part = part.get()?;
            let at = part.tagged.next(from.saturating_sub(part.first))?;
            Some(part.first + at)
        })
    }

    /// Returns the part that holds a cluster of placed inodes, and the cluster's number within that
    /// part.
    fn cluster(&self, cluster: u32) -> (&Part<W>, u32) {
        let part = self.part(cluster * CLUSTER_INODES);
        (part, cluster - part.first / CLUSTER_INODES)
    }

    /// Marks the buffer of a cluster of inodes as locked for a write.
    pub(super) fn set_busy(&self, cluster: u32) {
        let (part, at) = self.cluster(cluster);
        part.busy.set(at);
    }

    /// Marks the buffer of a cluster of inodes as unlocked.
    pub(super) fn set_idle(&self, cluster: u32) {
        let (part, at) = self.cluster(cluster);
        part.busy.clear(at);
    }

    /// Returns true if the buffer of a cluster of inodes is locked for a write.
    pub(super) fn is_busy(&self, cluster: u32) -> bool {
        let (part, at) = self.cluster(cluster);
        part.busy.has(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;
    use std::collections::BTreeSet;

    proptest! {
        /// Checks that the three levels find what a sorted set finds, also beyond 64^3 numbers.
        #[test]
        fn bits_are_a_set(
            capacity in prop_oneof![1u32..200, 4000u32..300_000, 520_000u32..800_000],
            ops in proptest::collection::vec((0u8..3, any::<u32>()), 1..200),
        ) {
            let bits = Bits::<Cell<u64>>::new(capacity);
            let mut model = BTreeSet::new();
            for (op, n) in ops {
                let n = n % capacity;
                match op {
                    0 => { bits.set(n); model.insert(n); }
                    1 => { bits.clear(n); model.remove(&n); }
                    _ => {}
                }
                prop_assert_eq!(bits.has(n), model.contains(&n));
                prop_assert_eq!(bits.next(n), model.range(n..).next().copied());
            }
            prop_assert_eq!(bits.next(0), model.first().copied());
        }
    }
}
