//! Dentries and inodes in memory, and XFS's handling of its inodes.

pub(crate) mod check;
pub mod inode;
pub(crate) mod prune;
pub(crate) mod sleep_lock;
pub(crate) mod state;
pub(crate) mod table;
pub mod unmount;
pub mod xfs;
