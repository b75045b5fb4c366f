//! The memory that XFS's delayed logging takes (`xfs_log = "buffered"`): an item of each inode that
//! was ever changed (`xfs_ili`, 200 bytes), and two buffers of each item (`struct xfs_log_vec`;
//! Linux fs/xfs/xfs_log_cil.c, docs/reference/writeback.md#the-log-of-xfs). They are kept in slabs
//! like the page cache's own records.
//!
//! ```text
//! a change ──> makes the spare buffer larger if it has no room, and
//!                if no change of the item waits:  makes the spare the waiting buffer
//!                if waiting has less room:        exchanges the two buffers
//!                else:                            overwrites the waiting buffer; the spare stays
//! a force  ──> sends the waiting buffer to the log; it is freed when that is written
//! ```
//!
//! So an item that is changed twice between two forces has both buffers, and keeps one of them
//! until its inode is freed or its block is written in place.
//!
//! Buffers of blocks and of clusters of inodes take memory, too, 384 bytes and their pages
//! (`xfs_buf`), until a shrinker finds them unused.
//!
//! Which inode has which item is recorded in [`xfs`](crate::inodes::xfs).

use crate::cache::metadata::Record;
use crate::policy::XfsLog;
use crate::world::{Word32, World};
use crate::{Mm, Policy};

/// The number of sizes that buffers have: `kmalloc-512` to `kmalloc-8k`.
pub(crate) const SIZES: usize = 5;
pub(crate) const RECORDS: [Record; SIZES] = [
    Record::LogBuffer512,
    Record::LogBuffer1k,
    Record::LogBuffer2k,
    Record::LogBuffer4k,
    Record::LogBuffer8k,
];
/// The smallest buffer in bytes.
const LEAST: u32 = 512;

/// Bytes of a buffer's head (`xfs_log_vec`), and in `REGION` of each region of an item beside its
/// data: an iovec, the header of an operation and alignment.
pub(crate) const HEAD: u32 = 64;
pub(crate) const REGION: u32 = 16 + 12 + 8;
/// The two buffers of an item; each is 0 for none, or the index of its size in `RECORDS` plus 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogItem {
    /// The buffer of the changes that wait for the log.
    pub(crate) waiting: u8,
    spare: u8,
}

impl LogItem {
    const BITS: u32 = 3;
    const MASK: u32 = (1 << Self::BITS) - 1;

    /// Unpacks an item from the word in which an inode keeps it ([`Self::word`]).
    pub(crate) fn of_word(word: u32) -> Self {
        Self {
            waiting: (word & Self::MASK) as u8,
            spare: (word >> Self::BITS & Self::MASK) as u8,
        }
    }

    /// Packs the item into a word: the waiting buffer in the lowest bits, the spare one above.
    pub(crate) fn word(self) -> u32 {
        u32::from(self.waiting) | u32::from(self.spare) << Self::BITS
    }

    /// Returns the sizes of a log item's two buffers after a change that takes `bytes` bytes in the
    /// log: the spare buffer (`li_lv_shadow`) is made large enough first, and the larger of the two
    /// (`li_lv`) then holds the change until it is written to the log.
    ///
    /// # Panics
    /// If no size of buffer is large enough.
    pub(crate) fn changed(self, bytes: u32) -> Self {
        let size = bytes.max(LEAST).next_power_of_two() / LEAST;
        // Sizes are numbered from 1 (512 bytes), each twice the one before; 0 is no buffer.
        let need = size.ilog2() as u8 + 1;
        assert!(usize::from(need) <= SIZES, "a buffer of {bytes} bytes");
        let spare = self.spare.max(need);
        // The buffer with more room waits for the log; no buffer counts as the smallest.
        Self {
            waiting: self.waiting.max(spare),
            spare: self.waiting.min(spare),
        }
    }

    /// Returns the log item of a metadata block after a change; `bytes` of the block are then
    /// changed, in `runs` contiguous runs, and need a log buffer of that size with headers.
    pub fn block_changed(self, bytes: u32, runs: u32) -> Self {
        debug_assert!(bytes <= 4096 && runs <= 16, "{bytes} bytes in {runs} runs");
        // The first region is the block's format.
        self.changed(HEAD + 28 + REGION + bytes + runs * REGION)
    }

    /// Returns the item after a force of the log, which takes the waiting buffer.
    pub fn forced(self) -> Self {
        Self { waiting: 0, ..self }
    }

    /// Returns the indexes in `RECORDS` of the sizes of the item's buffers: of none, one or both.
    pub(crate) fn sizes(self) -> impl Iterator<Item = usize> {
        let both = [self.waiting, self.spare].into_iter();
        both.filter_map(|size| usize::from(size).checked_sub(1))
    }
}

/// Log items and buffers in use.
pub(crate) struct LogItems<W: World> {
    on: bool,
    pub(crate) items: W::U32,
    /// Buffers of inodes' items by size, including those on their way to the log; in `of_blocks`
    /// those of blocks' items.
    pub(crate) of_inodes: [W::U32; SIZES],
    of_blocks: [W::U32; SIZES],
    /// Buffers of blocks and clusters, and in `pages` their pages.
    buffers: W::U32,
    pages: W::U32,
    /// 1: buffers of items may be without a slab.
    pub(crate) short: W::U32,
}

impl<W: World> LogItems<W> {
    /// Makes the counts, all 0. Log items take memory only under the policy `xfs_log = "buffered"`
    /// and if the filesystems have `groups` > 0 allocation groups, as an XFS has.
    pub(crate) fn new(policy: &Policy, groups: u32) -> Self {
        Self {
            on: policy.xfs_log == XfsLog::Buffered && groups > 0,
            items: bytemuck::Zeroable::zeroed(),
            of_inodes: bytemuck::Zeroable::zeroed(),
            of_blocks: bytemuck::Zeroable::zeroed(),
            buffers: bytemuck::Zeroable::zeroed(),
            pages: bytemuck::Zeroable::zeroed(),
            short: bytemuck::Zeroable::zeroed(),
        }
    }

    /// Returns true if log items take memory.
    #[inline(always)]
    pub(crate) fn on(&self) -> bool {
        self.on
    }

    /// Returns the number of records of the kind `of` in use: inodes' log items, buffers of blocks
    /// and their pages, or log buffers of one size, of inodes and blocks together.
    pub(crate) fn records(&self, of: Record) -> u32 {
        match of {
            Record::XfsInodeItem => self.items.get(),
            Record::XfsBuffer => self.buffers.get(),
            Record::XfsBufferPage => self.pages.get(),
            of => {
                let size = RECORDS.iter().position(|&record| record == of);
                let size = size.expect("a buffer of the log");
                self.of_inodes[size].get() + self.of_blocks[size].get()
            }
        }
    }
}

/// Numbers of buffers, by size.
pub(crate) type Buffers = [u32; SIZES];

impl<W: World> Mm<W> {
    /// Updates the numbers of log buffers by size (`counts`) when a log item changes from `before`
    /// to `now`, and allocates or frees slabs for them.
    pub(crate) fn item_became(&self, counts: &[W::U32; SIZES], before: LogItem, now: LogItem) {
        if before == now {
            return;
        }
        for size in now.sizes() {
            counts[size].fetch_add(1);
        }
        for size in before.sizes() {
            counts[size].fetch_sub(1);
        }
        for size in now.sizes().chain(before.sizes()) {
            self.settle(RECORDS[size]);
        }
    }

    /// Updates the counts of log buffers when a block's log item changes from `before` to `now`.
    /// Does nothing if log items take no memory.
    pub fn block_item_became(&self, before: LogItem, now: LogItem) {
        let items = &self.metadata.log_items;
        if items.on {
            self.item_became(&items.of_blocks, before, now);
        }
    }

    /// Returns true if buffers of blocks take memory.
    pub fn counts_buffers(&self) -> bool {
        self.metadata.log_items.on
    }

    /// Counts a new XFS buffer (`xfs_buf`) of a block or of a cluster of inodes, with `pages`
    /// pages, and allocates slabs for it. Does nothing if log items take no memory.
    pub fn buffer_comes(&self, pages: u32) {
        debug_assert!((1..=16).contains(&pages), "a buffer of {pages} pages");
        let items = &self.metadata.log_items;
        if items.on {
            items.buffers.fetch_add(1);
            items.pages.fetch_add(pages);
            self.settle(Record::XfsBuffer);
            self.settle(Record::XfsBufferPage);
        }
    }

    /// Frees an XFS buffer of `pages` pages that [`Mm::buffer_comes`] counted.
    pub fn buffer_goes(&self, pages: u32) {
        let items = &self.metadata.log_items;
        if items.on {
            let before = items.pages.fetch_sub(pages);
            debug_assert!(before >= pages, "{pages} of {before} pages");
            items.buffers.fetch_sub(1);
            self.settle(Record::XfsBuffer);
            self.settle(Record::XfsBufferPage);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the states of a file's item as it is made, changed and forced.
    #[test]
    fn an_item_that_is_changed_twice_has_two_buffers() {
        let (core, all) = (368, 740);
        let item = |waiting, spare| LogItem { waiting, spare };
        let mut at = LogItem::default();
        for (bytes, then) in [
            (core, item(1, 0)),
            // The first buffer is too small for extents, so it becomes the spare one, until that
            // has to be larger as well.
            (all, item(2, 1)),
            (all, item(2, 2)),
            (core, item(2, 2)),
        ] {
            at = at.changed(bytes);
            assert_eq!(at, then);
        }
        at = at.forced();
        assert_eq!(at, item(0, 2));
        at = at.changed(core);
        assert_eq!(at, item(2, 0));
        assert_eq!(at.changed(core), item(2, 1));
        assert_eq!(LogItem::of_word(at.word()), at);
        assert_eq!(LogItem::default().changed(4096 + HEAD), item(5, 0));
    }
}
