//! State bits of a file's row that XFS alone uses: 9 to 17 and 19 to 26 of
//! [`crate::inodes::state`]'s word.

/// The VFS has evicted the inode; it can be freed or looked up again.
pub(crate) const RECLAIMABLE: u32 = 1 << 9;
/// A reclaimer has claimed the inode.
pub(crate) const CLAIMED: u32 = 1 << 10;
/// The inode's lock is held.
pub(crate) const LOCKED: u32 = 1 << 11;
/// A change is in the log on disk and not in the inode's place.
pub(crate) const DIRTY: u32 = 1 << 12;
/// A change waits for the next write of the log.
pub(crate) const PINNED: u32 = 1 << 13;
/// A change is being written to the log.
pub(crate) const LOGGING: u32 = 1 << 14;
/// The inode's flush lock is held.
pub(crate) const FLUSHING: u32 = 1 << 15;
/// The inode is part of a cluster that is being written.
pub(crate) const IN_WRITE: u32 = 1 << 16;
/// The inode is on the list of items to be written back.
pub(crate) const ON_AIL: u32 = 1 << 17;
/// The inode has a log item; from bit `ITEM_SHIFT` on the word holds the item's buffers, as
/// [`super::items`] encodes them.
pub(crate) const ITEM: u32 = 1 << 19;
pub(crate) const ITEM_SHIFT: u32 = 20;
/// A change of the inode's extents was logged since it was written in place (`XFS_ILOG_DEXT`).
pub(crate) const EXTENTS: u32 = 1 << 26;
