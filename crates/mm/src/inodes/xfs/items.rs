//! The log items of inodes and their buffers ([`log_items`](crate::cache::log_items)).

use super::CLUSTER_INODES;
use super::state::{DIRTY, EXTENTS, FLUSHING, ITEM, ITEM_SHIFT, LOGGING, PINNED};
use crate::Mm;
use crate::cache::log_items::{Buffers, HEAD, LogItem, RECORDS, REGION};
use crate::cache::metadata::Record;
use crate::world::{Word32, World};

/// Bytes of an inode's format and core in a buffer (`xfs_inode_log_format`, `xfs_log_dinode`): two
/// regions.
const INODE: u32 = HEAD + 2 * REGION + 56 + 176;
/// Bytes of the room for extents in an inode of 512 bytes: the third region, logged as a whole if
/// any of them changed.
const FORK: u32 = REGION + 336;

impl<W: World> Mm<W> {
    /// Adds an inode's changes to its log item in memory, making the item if it has none and a log
    /// buffer that is large enough; the buffer includes the inode's extents if these changed since
    /// the inode was last written. Does nothing if log items take no memory.
    pub(super) fn inode_to_item(&self, ino: u32) {
        let items = &self.metadata.log_items;
        if !items.on() {
            return;
        }
        let row = self.inode(ino);
        if !row.set(ITEM) {
            items.items.fetch_add(1);
            self.settle(Record::XfsInodeItem);
        }
        let bytes = INODE + if row.has(EXTENTS) { FORK } else { 0 };
        let before = self.item_of(ino);
        self.set_item(ino, before.changed(bytes));
        self.item_became(&items.of_inodes, before, self.item_of(ino));
    }

    /// Sends the waiting buffer of an inode's log item, if it has one, with a write of the log and
    /// counts it by size in `with`; [`Mm::buffers_are_written`] frees the buffers counted there.
    pub(super) fn item_to_log(&self, ino: u32, with: &mut Buffers) {
        let before = self.item_of(ino);
        if let Some(size) = usize::from(before.waiting).checked_sub(1) {
            with[size] += 1;
            self.set_item(ino, before.forced());
        }
    }

    /// Frees the log buffers of inodes, counted by size in `with`, that went with a write of the
    /// log, after that write.
    pub(super) fn buffers_are_written(&self, with: &Buffers) {
        let items = &self.metadata.log_items;
        for (size, &n) in with.iter().enumerate().filter(|(_, n)| **n > 0) {
            let before = items.of_inodes[size].fetch_sub(n);
            debug_assert!(before >= n, "{n} of {before} buffers");
            self.settle(RECORDS[size]);
        }
    }

    /// Frees the log item of an inode that is freed, with its buffer; nothing of the inode may wait
    /// for the log.
    pub(crate) fn item_goes(&self, ino: u32) {
        let items = &self.metadata.log_items;
        if !self.inode(ino).clear(ITEM) {
            return;
        }
        let before = self.item_of(ino);
        debug_assert!(before.waiting == 0, "nothing of inode {ino} waits");
        self.set_item(ino, LogItem::default());
        self.item_became(&items.of_inodes, before, LogItem::default());
        items.items.fetch_sub(1);
        self.settle(Record::XfsInodeItem);
    }

    /// Returns the two log buffers of an inode's item, which bits of the inode's state hold.
    fn item_of(&self, ino: u32) -> LogItem {
        LogItem::of_word(self.inode(ino).state.get() >> ITEM_SHIFT)
    }

    /// Stores the log buffers of an inode's item in the bits of its state, without touching the
    /// other bits.
    fn set_item(&self, ino: u32, item: LogItem) {
        let state = &self.inode(ino).state;
        let changed = self.item_of(ino).word() ^ item.word();
        let (on, off) = (changed & item.word(), changed & !item.word());
        state.fetch_or(on << ITEM_SHIFT);
        state.fetch_and(!(off << ITEM_SHIFT));
    }

    /// Returns true if an inode of a cluster has a change that is not written to its place on disk
    /// yet, so that the cluster's buffer is held. `group`: allocation group within the filesystem
    /// `sb`.
    pub fn cluster_is_changed(&self, sb: u32, group: u32, cluster: u32) -> bool {
        debug_assert!(
            group < self.sb(sb).ags.get(),
            "group {group} of filesystem {sb}"
        );
        let ag = self.ag(self.groups(sb).start + group);
        let mut inodes = cluster * CLUSTER_INODES..(cluster + 1) * CLUSTER_INODES;
        inodes.any(|agino| {
            let ino = ag.row(agino);
            ino.is_some_and(|ino| self.inode(ino).any(PINNED | LOGGING | DIRTY | FLUSHING))
        })
    }

    /// Recounts the log items of inodes and their buffers by size, to which `with_log` adds those
    /// that are being written with the log. Returns a text about the difference.
    pub(super) fn check_items(&self, with_log: Buffers) -> Result<(), String> {
        let items = &self.metadata.log_items;
        let (mut found, mut buffers) = (0, with_log);
        for ino in 0..self.mapping_count() {
            let item = self.item_of(ino);
            if self.inode(ino).has(ITEM) {
                found += 1;
            } else if item != LogItem::default() {
                return Err(format!("inode {ino} has {item:?} and no item"));
            }
            item.sizes().for_each(|size| buffers[size] += 1);
        }
        let counted: Vec<u32> = items.of_inodes.iter().map(|n| n.get()).collect();
        if (found, &buffers[..]) != (items.items.get(), &counted[..]) {
            return Err(format!(
                "{found} inodes have items with buffers {buffers:?}, {} with {counted:?} are counted",
                items.items.get()
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that an inode's buffer has 512 bytes, and with its extents 1 KiB.
    #[test]
    fn an_inodes_buffer_grows_with_its_extents() {
        assert_eq!([INODE, INODE + FORK], [368, 740]);
    }
}
