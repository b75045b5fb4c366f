//! State bits of a file's row, and the lists that it can be on. Bits 9 to 17 and from 19 on are
//! [`super::xfs`]'s.

/// The file's dentry is in memory.
pub(crate) const DENTRY: u32 = 1;
/// The dentry was used since the shrinker last scanned it.
pub(crate) const DENTRY_REF: u32 = 1 << 1;
/// The file's inode is in memory.
pub(crate) const CACHED: u32 = 1 << 2;
/// The inode was used since the shrinker last scanned it.
pub(crate) const INODE_REF: u32 = 1 << 3;
/// A task is bringing the inode in.
pub(crate) const LOADING: u32 = 1 << 4;
/// On the list of unused dentries.
pub(crate) const ON_DENTRIES: u32 = 1 << 5;
/// On the list of unused inodes.
pub(crate) const ON_INODES: u32 = 1 << 6;
/// The file has lost its name.
pub(crate) const UNLINKED: u32 = 1 << 7;
/// The file was read since it was last changed: reading it again does not change its access time
/// (relatime).
pub(crate) const READ: u32 = 1 << 8;
/// The row stands for a file that exists on a filesystem.
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
