//! Reading and writing inodes at their places on the device
//! (`docs/reference/shrinkers-and-xfs.md`).
//!
//! The engine decides which inodes are in memory and which are reclaimed ([`mm::inodes`],
//! [`mm::inodes::xfs`]); each filesystem decides where an inode lies and what reading and writing
//! it takes.

use super::{Fs, FsKind, SimMm, of};

/// Registers the filesystem's superblock with the engine, at mount.
pub(super) fn mount<const T: bool>(mm: &SimMm<T>, fs: &Fs) {
    let info = ask!(fs, model => model.super_info(fs));
    fs.sb
        .set(mm.new_super(&info).expect("room for a filesystem"));
    if fs.kind() == FsKind::Ext4 {
        mm.keep_beside_inodes(fs.sb.get());
    }
}

/// Reads an inode from its place on the device.
pub async fn read_inode<const T: bool>(mm: &SimMm<T>, ino: u32) {
    let fs = of(mm, ino);
    let block = fs.with_place(ino, |p| p.inode);
    ask!(fs, model => model.read_inode(mm, fs, ino, block).await);
}

/// Starts to write an inode to its place on the device. `sync`: a task waits for it.
pub async fn write_inode<const T: bool>(mm: &SimMm<T>, ino: u32, sync: bool) {
    let fs = of(mm, ino);
    ask!(fs, model => model.write_inode(mm, fs, ino, sync).await);
}

/// Writes `n` changed inodes of a filesystem to its log; `sb` is also the filesystem's index, as
/// they are mounted in order. Returns true on success.
pub async fn write_log<const T: bool>(mm: &SimMm<T>, sb: u32, n: u32) -> bool {
    let fs = &mm.world.fs[sb as usize];
    ask!(fs, model => model.write_log(mm, fs, n).await)
}

/// Returns the log space in bytes that everything waiting for a filesystem's log would take, `n`
/// inodes among it, and the log's length in bytes.
pub fn log_space<const T: bool>(mm: &SimMm<T>, sb: u32, n: u32) -> (u64, u64) {
    let fs = &mm.world.fs[sb as usize];
    ask!(fs, model => model.log_space(mm, fs, n))
}

/// Returns the number of block buffers of a filesystem that a shrinker may free.
pub fn count_buffers(fs: &Fs) -> u64 {
    ask!(fs, model => model.count_buffers())
}

/// Scans `n` block buffers of the filesystem with superblock `sb`; returns the number freed.
pub fn scan_buffers<const T: bool>(mm: &SimMm<T>, sb: u32, n: u64) -> u64 {
    let fs = &mm.world.fs[sb as usize];
    ask!(fs, model => model.scan_buffers(mm, fs, n))
}
