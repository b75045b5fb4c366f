//! Where inodes are on the device, and their way between there and memory (reference 05 §§3-4).
//!
//! What is in memory, and what reclaim does with it, is the engine's ([`mm::inode`], [`mm::xfs`]);
//! here is what a filesystem's own format and buffers make of it:
//!
//! - **xfs** reads and writes clusters of 32 inodes. Buffers of the clusters used last stay in memory,
//!   so that who reads a directory's inodes in order asks the device once for 32 of them.
//! - **ext3, ext4** find inodes in table blocks, which are pages of the block device.
//! - **btrfs** and **fuse-ntfs** find them in their tree and in the daemon's memory; reading one is
//!   free of I/O here.

use super::{Fs, SimMm, ext, of, xfs};
use crate::params::Params;
use crate::spec::FsKind;
use crate::world::{Tag, own_queue};
use mm::inode::SuperInfo;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Blocks of a cluster: 32 inodes of 256 bytes.
pub(super) const CLUSTER_BLOCKS: u32 = 2;

/// A filesystem's inodes.
#[derive(Debug, Default)]
pub(super) struct InodePlaces {
    /// Its number in the engine.
    pub sb: Cell<u32>,
    /// The log's interval, in nanoseconds.
    interval: u64,
    /// Buffers that are in memory, in the order of their last use.
    buffers: RefCell<Buffers>,
    most_buffers: usize,
}

impl InodePlaces {
    pub fn new(p: &Params) -> Self {
        Self {
            interval: p.xfs_log_interval as u64,
            most_buffers: p.xfs_buffers as usize,
            ..Self::default()
        }
    }

    /// Whether a buffer is in memory. It is from now on, among those used last.
    pub fn buffered(&self, block: u64) -> bool {
        self.buffers.borrow_mut().used(block, self.most_buffers)
    }
}

/// Blocks by the number of their last use, and the other way round.
#[derive(Debug, Default)]
struct Buffers {
    uses: u64,
    by_use: BTreeMap<u64, u64>,
    by_block: BTreeMap<u64, u64>,
}

impl Buffers {
    /// A block is used; beyond `most` the one whose last use is longest ago goes. Returns whether it was
    /// there.
    fn used(&mut self, block: u64, most: usize) -> bool {
        self.uses += 1;
        let before = self.by_block.insert(block, self.uses);
        self.by_use.insert(self.uses, block);
        if let Some(last) = before {
            self.by_use.remove(&last);
        } else if self.by_block.len() > most
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.by_block.remove(&oldest);
        }
        before.is_some()
    }
}

/// Bytes that an inode takes in memory (slab object sizes of 64-bit kernels).
fn inode_bytes(kind: FsKind) -> u32 {
    match kind {
        FsKind::Xfs => 960,
        FsKind::Ext4 => 1000,
        FsKind::Ext3 => 760,
        FsKind::Btrfs => 1100,
        FsKind::FuseNtfs => 700,
    }
}

/// Tells the engine of the filesystem; at mount.
pub(super) fn mount<const T: bool>(mm: &SimMm<T>, fs: &Fs) {
    let info = SuperInfo {
        inode_bytes: inode_bytes(fs.kind),
        ags: match fs.kind {
            FsKind::Xfs => fs.space.group_count() as u32,
            _ => 0,
        },
        sync_interval: fs.inodes.interval,
    };
    let sb = mm.new_super(&info).expect("room for a filesystem");
    fs.inodes.sb.set(sb);
}

/// Reads an inode from its place.
pub async fn read_inode<const T: bool>(mm: &SimMm<T>, ino: u32) {
    let fs = of(mm, ino);
    let block = fs.with_place(ino, |p| p.inode);
    read_metadata(mm, fs, block, CLUSTER_BLOCKS).await;
}

/// Reads `n` blocks that hold inodes or names, unless they are in memory. The names are the caller's
/// to know, so a block that can't be read is read again the next time, and nothing else happens.
pub(super) async fn read_metadata<const T: bool>(mm: &SimMm<T>, fs: &Fs, block: u64, n: u32) {
    match fs.kind {
        FsKind::Xfs => read_buffer(mm, fs, block, n).await,
        FsKind::Ext3 | FsKind::Ext4 => {
            let _ = ext::read_table_block(mm, fs, block).await;
        }
        FsKind::Btrfs | FsKind::FuseNtfs => {}
    }
}

/// Reads blocks into a buffer of xfs.
async fn read_buffer<const T: bool>(mm: &SimMm<T>, fs: &Fs, block: u64, n: u32) {
    if !fs.inodes.buffered(block) {
        mm.world.write_raw(fs.volume, block, n, false).await;
    }
}

/// Starts to write the cluster of an inode to its place.
pub async fn write_inode<const T: bool>(mm: &SimMm<T>, ino: u32, sync: bool) {
    let fs = of(mm, ino);
    let block = fs.with_place(ino, |p| p.inode);
    read_buffer(mm, fs, block, CLUSTER_BLOCKS).await;
    let (_, _, room) = mm.world.volumes[fs.volume as usize].place(block);
    let most = CLUSTER_BLOCKS.min(mm.world.max_bio(fs.volume));
    let first = u64::from(most).min(room) as u32;
    if first < CLUSTER_BLOCKS {
        // The part on an array's next member, or beyond the longest request, is a request that nobody
        // waits for.
        let queue = mm.world.queue_base + own_queue::JOURNAL;
        let (at, n) = (block + u64::from(first), CLUSTER_BLOCKS - first);
        mm.world
            .submit(fs.volume, Tag::Raw { queue }, true, sync, at, n)
            .await;
    }
    mm.world
        .submit(fs.volume, Tag::Inode { ino }, true, sync, block, first)
        .await;
}

/// Writes `n` changed inodes of a filesystem to its log. Filesystems are mounted in their order.
pub async fn write_log<const T: bool>(mm: &SimMm<T>, sb: u32, n: u32) -> bool {
    xfs::write_log(mm, &mm.world.fs[sb as usize], n).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever was used last stays, however often it was used before.
    #[test]
    fn the_buffers_used_last_stay() {
        let mut buffers = Buffers::default();
        let mut used = |block| buffers.used(block, 3);
        assert_eq!([1, 2, 3, 1].map(&mut used), [false, false, false, true]);
        assert!((0..100).all(|_| used(2)));
        // 3 was used longest ago, then 1.
        assert!(!used(4) && !used(3) && !used(1));
        assert!(used(3) && used(4));
    }
}
