//! What making and removing names costs a filesystem beside CPU time: inodes, directory blocks and
//! free-inode maps that become dirty, and how they reach the disk.
//!
//! - **xfs**: changes are logged in memory and written by the log's next force; every 30 s the log
//!   worker also writes the changed inode clusters, directory blocks and group headers in place
//!   (`xfs_ail_push_all`). Inodes come in chunks of 64 from their directory's group.
//! - **ext3, ext4**: inode table, inode bitmap and directory blocks are pages of the block device.
//!   They become dirty with the change (the kernel waits for the commit, at most 5 s later), so
//!   reclaim and the flusher meet them; a commit writes them to the journal too.
//! - **btrfs**: an inode item, its back reference and two directory entries go into the tree.
//! - **fuse-ntfs**: the daemon writes a file record and an index block to the device's pages.

use super::{DEVICE, FsError, SimMm, btrfs, ext, fuse_ntfs};
use crate::spec::FsKind;
use crate::world::{Tag, own_queue};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// Entries of a 4 KiB directory block: 40 characters and 16 bytes around them.
const ENTRIES_OF_BLOCK: u32 = 4096 / 56;
/// Entries that fit an xfs inode (`XFS_DINODE_FMT_LOCAL`): 156 bytes of 256.
const ENTRIES_IN_INODE: u32 = 156 / 56;
/// xfs inodes of a chunk, its blocks, and those of an 8 KiB cluster.
const CHUNK_INODES: u64 = 64;
const CHUNK_BLOCKS: u32 = 4;
const CLUSTER_INODES: u64 = 32;
const CLUSTER_BLOCKS: u32 = 2;
/// Where the root directory's inodes and block are, made by mkfs.
const ROOT_CHUNK: u64 = 64;
const ROOT_BLOCK: u64 = 96;
/// Bytes that a change of an inode, and of a directory block or group header, puts into the log.
const LOG_INODE: u64 = 400;
const LOG_BLOCK: u64 = 640;
/// Bytes of tree items of a new file or directory.
const BTRFS_ITEMS: u32 = (160 + 25) + (10 + 40 + 25) + 2 * (30 + 40 + 25);

/// A directory's number; 0 is the root.
pub(super) type DirId = u32;

#[derive(Debug)]
struct Dir {
    group: u32,
    entries: u32,
    block: u64,
}

/// Inodes of a group.
#[derive(Debug, Clone, Copy)]
struct Inodes {
    made: u64,
    chunk: u64,
}

/// Directories, inodes, and what of them is not in place.
#[derive(Debug)]
pub(super) struct Names {
    dirs: RefCell<Vec<Dir>>,
    inodes: RefCell<Vec<Inodes>>,
    /// Changed blocks that are in the log alone, with their lengths (xfs).
    unwritten: RefCell<BTreeSet<(u64, u32)>>,
    log_bytes: Cell<u64>,
}

impl Names {
    pub fn new() -> Self {
        let root = Dir {
            group: 0,
            entries: 0,
            block: ROOT_BLOCK,
        };
        let inodes = Inodes {
            made: 3, // root, and two that mkfs makes
            chunk: ROOT_CHUNK,
        };
        Self {
            dirs: RefCell::new(vec![root]),
            inodes: RefCell::new(vec![inodes]),
            unwritten: RefCell::default(),
            log_bytes: Cell::new(0),
        }
    }

    /// The group of a directory.
    pub fn group(&self, dir: DirId) -> u32 {
        self.dirs.borrow()[dir as usize].group
    }

    /// What the next force of the log writes beside its own blocks.
    pub fn take_log_bytes(&self) -> u64 {
        self.log_bytes.replace(0)
    }

    fn log(&self, block: u64, blocks: u32) {
        if self.unwritten.borrow_mut().insert((block, blocks)) {
            self.log_bytes.set(self.log_bytes.get() + LOG_BLOCK);
        }
    }

    /// A number for a new inode of a group.
    fn number(&self, group: u32) -> u64 {
        let mut all = self.inodes.borrow_mut();
        let none = Inodes { made: 0, chunk: 0 };
        if all.len() <= group as usize {
            all.resize(group as usize + 1, none);
        }
        let i = &mut all[group as usize];
        i.made += 1;
        i.made - 1
    }
}

/// A directory got an entry more: its block, and whether it is a new one.
fn entry_added<const T: bool>(mm: &SimMm<T>, dir: DirId) -> (u64, bool) {
    let fs = &mm.world.fs;
    let mut dirs = fs.names.dirs.borrow_mut();
    let d = &mut dirs[dir as usize];
    d.entries += 1;
    let inline = if fs.kind == FsKind::Xfs {
        ENTRIES_IN_INODE
    } else {
        0
    };
    let full = d.entries > inline && (d.entries - inline) % ENTRIES_OF_BLOCK == 1;
    // The root's first block is there.
    if full && (dir != 0 || d.entries > ENTRIES_OF_BLOCK) {
        if let Some((block, _)) = fs.take_blocks_near(d.group, 0, 1, 1) {
            fs.space.used(1);
            d.block = block;
        }
        return (d.block, true);
    }
    (d.block, false)
}

/// A new directory below `parent`. Returns its number.
pub(super) async fn make_dir<const T: bool>(
    mm: &SimMm<T>,
    parent: DirId,
) -> Result<DirId, FsError> {
    let (id, group) = new_dir(mm);
    make_inode(mm, parent, group).await?;
    Ok(id)
}

/// An empty directory that has no name yet, and its group.
fn new_dir<const T: bool>(mm: &SimMm<T>) -> (DirId, u32) {
    let fs = &mm.world.fs;
    let group = match fs.kind {
        FsKind::Xfs => fs.space.next_group(),
        _ => fs.names.dirs.borrow().len() as u32 % ext::TABLE_GROUPS,
    };
    let mut dirs = fs.names.dirs.borrow_mut();
    dirs.push(Dir {
        group,
        entries: 0,
        block: 0,
    });
    (dirs.len() as u32 - 1, group)
}

/// A directory that was in another one before the run. `None`: it does not fit.
pub(super) fn lay_out_dir<const T: bool>(mm: &SimMm<T>, parent: DirId) -> Option<DirId> {
    let (id, group) = new_dir(mm);
    enter_inode(mm, parent, group).ok().map(|_| id)
}

/// The inode of a file that was in a directory before the run: its group and place.
pub(super) fn lay_out_inode<const T: bool>(mm: &SimMm<T>, dir: DirId) -> Option<(u32, u64)> {
    let group = mm.world.fs.names.group(dir);
    let made = enter_inode(mm, dir, group).ok()?;
    Some((group, made.place))
}

/// A new inode with its entry.
struct Made {
    /// Where the inode is.
    place: u64,
    /// The directory's block that holds the entry, and whether the block is new.
    dir_block: u64,
    fresh: bool,
}

/// A new inode of a group, with an entry in a directory. Nothing becomes dirty.
fn enter_inode<const T: bool>(mm: &SimMm<T>, dir: DirId, group: u32) -> Result<Made, FsError> {
    let fs = &mm.world.fs;
    let number = fs.names.number(group);
    let (dir_block, fresh) = entry_added(mm, dir);
    let place = match fs.kind {
        FsKind::Xfs => {
            if number.is_multiple_of(CHUNK_INODES) {
                let chunk = fs.take_blocks_near(group, 0, CHUNK_BLOCKS, CHUNK_BLOCKS);
                let (block, blocks) = chunk.ok_or(FsError::NoSpace)?;
                fs.space.used(blocks);
                fs.names.inodes.borrow_mut()[group as usize].chunk = block;
            }
            let chunk = fs.names.inodes.borrow()[group as usize].chunk;
            let cluster = number % CHUNK_INODES / CLUSTER_INODES * u64::from(CLUSTER_BLOCKS);
            chunk + cluster
        }
        FsKind::Ext3 | FsKind::Ext4 => ext::table_block(group, number),
        FsKind::Btrfs | FsKind::FuseNtfs => number,
    };
    Ok(Made {
        place,
        dir_block,
        fresh,
    })
}

/// A new inode of a group, with an entry in a directory. Returns the place of the inode.
pub(super) async fn make_inode<const T: bool>(
    mm: &SimMm<T>,
    dir: DirId,
    group: u32,
) -> Result<u64, FsError> {
    let Made {
        place,
        dir_block,
        fresh,
    } = enter_inode(mm, dir, group)?;
    let kind = mm.world.fs.kind;
    if fresh && matches!(kind, FsKind::Ext3 | FsKind::Ext4) {
        ext::change_block(mm, dir_block, true).await?;
    }
    changed(mm, dir, dir_block, group, place).await?;
    Ok(place)
}

/// A name went away, and its inode.
pub(super) async fn remove_inode<const T: bool>(
    mm: &SimMm<T>,
    dir: DirId,
    place: u64,
) -> Result<(), FsError> {
    let (block, group) = {
        let dirs = mm.world.fs.names.dirs.borrow();
        (dirs[dir as usize].block, dirs[dir as usize].group)
    };
    changed(mm, dir, block, group, place).await
}

async fn changed<const T: bool>(
    mm: &SimMm<T>,
    dir: DirId,
    dir_block: u64,
    group: u32,
    place: u64,
) -> Result<(), FsError> {
    let fs = &mm.world.fs;
    match fs.kind {
        FsKind::Xfs => {
            let names = &fs.names;
            names.log_bytes.set(names.log_bytes.get() + LOG_INODE);
            names.log(place, CLUSTER_BLOCKS);
            if dir_block != 0 {
                names.log(dir_block, 1);
            }
            // Free inodes and their tree.
            names.log(fs.space.first_block(group), 1);
            Ok(())
        }
        FsKind::Ext3 | FsKind::Ext4 => {
            for block in [dir_block, ext::bitmap_block(group), place] {
                ext::change_block(mm, block, false).await?;
            }
            Ok(())
        }
        FsKind::Btrfs => {
            btrfs::insert(mm, 0, BTRFS_ITEMS).await;
            Ok(())
        }
        FsKind::FuseNtfs => fuse_ntfs::change_names(mm, u64::from(dir), place).await,
    }
}

/// Writes what is only in the log to its place (xfs).
pub(super) async fn write_in_place<const T: bool>(mm: &SimMm<T>) {
    let fs = &mm.world.fs;
    let blocks = std::mem::take(&mut *fs.names.unwritten.borrow_mut());
    let queue = mm.world.queue_base + own_queue::JOURNAL;
    for (block, len) in blocks {
        mm.world
            .submit(DEVICE, Tag::Raw { queue }, true, false, block, len)
            .await;
        mm.world.sched.relax().await;
    }
}
