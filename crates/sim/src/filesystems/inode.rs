//! Inodes between the engine and their place on the device
//! (`docs/reference/shrinkers-and-xfs.md`).
//!
//! What is in memory, and what reclaim does with it, is the engine's ([`mm::inodes`], [`mm::inodes::xfs`]);
//! where an inode is and what it takes to get there is each filesystem's to say.

use super::model::Model as _;
use super::{Fs, FsKind, SimMm, of};

/// Tells the engine of the filesystem; at mount.
pub(super) fn mount<const T: bool>(mm: &SimMm<T>, fs: &Fs) {
    let info = ask!(fs, model => model.super_info(fs));
    fs.sb
        .set(mm.new_super(&info).expect("room for a filesystem"));
    if fs.kind() == FsKind::Ext4 {
        mm.keep_beside_inodes(fs.sb.get());
    }
}

/// Reads an inode from its place.
pub async fn read_inode<const T: bool>(mm: &SimMm<T>, ino: u32) {
    let fs = of(mm, ino);
    let block = fs.with_place(ino, |p| p.inode);
    ask!(fs, model => model.read_inode(mm, fs, ino, block).await);
}

/// Starts to write an inode to its place.
pub async fn write_inode<const T: bool>(mm: &SimMm<T>, ino: u32, sync: bool) {
    let fs = of(mm, ino);
    ask!(fs, model => model.write_inode(mm, fs, ino, sync).await);
}

/// Writes `n` changed inodes of a filesystem to its log. Filesystems are mounted in their order.
pub async fn write_log<const T: bool>(mm: &SimMm<T>, sb: u32, n: u32) -> bool {
    let fs = &mm.world.fs[sb as usize];
    ask!(fs, model => model.write_log(mm, fs, n).await)
}

/// Bytes that what waits for a filesystem's log would take there, `n` inodes among it, and the log's length.
pub fn log_space<const T: bool>(mm: &SimMm<T>, sb: u32, n: u32) -> (u64, u64) {
    let fs = &mm.world.fs[sb as usize];
    ask!(fs, model => model.log_space(mm, fs, n))
}

/// Buffers of a filesystem's blocks that a shrinker may ask for.
pub fn count_buffers(fs: &Fs) -> u64 {
    ask!(fs, model => model.count_buffers())
}

/// Looks at `n` of them; returns how many went.
pub fn scan_buffers<const T: bool>(mm: &SimMm<T>, sb: u32, n: u64) -> u64 {
    let fs = &mm.world.fs[sb as usize];
    ask!(fs, model => model.scan_buffers(mm, fs, n))
}
