//! State bits of a file's row, and the lists that it can be on. Bits 9 to 17 and from 19 on are [`super::xfs`]'s.

/// Its dentry is in memory.
pub(crate) const DENTRY: u32 = 1;
/// The dentry was used since the shrinker saw it.
pub(crate) const DENTRY_REF: u32 = 1 << 1;
/// Its inode is in memory.
pub(crate) const CACHED: u32 = 1 << 2;
/// The inode was used since the shrinker saw it.
pub(crate) const INODE_REF: u32 = 1 << 3;
/// Somebody brings the inode in.
pub(crate) const LOADING: u32 = 1 << 4;
/// On the list of unused dentries.
pub(crate) const ON_DENTRIES: u32 = 1 << 5;
/// On the list of unused inodes.
pub(crate) const ON_INODES: u32 = 1 << 6;
/// It has no name any more.
pub(crate) const UNLINKED: u32 = 1 << 7;
/// It was read since it was changed: reading it again does not touch its access time (relatime).
pub(crate) const READ: u32 = 1 << 8;
/// A filesystem has given the row a place.
pub(crate) const PLACED: u32 = 1 << 18;

/// Lists that a row can be on at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum InodeList {
    Dentries,
    Inodes,
    /// Changes for the next write of the log, or those being written.
    Log,
    /// Items to be written back, in log order.
    Ail,
}
pub(super) const LISTS: usize = 4;
