//! What making and removing names costs a filesystem beside CPU time: inodes, directory blocks and
//! free-inode maps that become dirty, and how they reach the disk.
//!
//! - **xfs**: changes are logged in memory and written by the log's next force. Inodes are then the
//!   engine's business ([`mm::xfs`]); directory blocks and group headers are written in place every
//!   30 s. Inodes come in chunks of 64 from their directory's group.
//! - **ext3, ext4**: inode table, inode bitmap and directory blocks are pages of the block device.
//!   They become dirty with the change (the kernel waits for the commit, at most 5 s later), so
//!   reclaim and the flusher meet them; a commit writes them to the journal too.
//! - **btrfs**: an inode item, its back reference and two directory entries go into the tree.
//! - **fuse-ntfs**: the daemon writes a file record and an index block to the device's pages.

use super::inode::CLUSTER_BLOCKS;
use super::{Fs, FsError, Layout, Place, SimMm, btrfs, ext, fuse_ntfs, inode};
use crate::spec::FsKind;
use crate::world::{Tag, own_queue};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// Entries of a 4 KiB directory block: 40 characters and 16 bytes around them.
const ENTRIES_OF_BLOCK: u32 = 4096 / 56;
/// Entries that fit an xfs inode (`XFS_DINODE_FMT_LOCAL`): 156 bytes of 256.
const ENTRIES_IN_INODE: u32 = 156 / 56;
/// xfs inodes of a chunk, and its blocks.
const CHUNK_INODES: u64 = 64;
const CHUNK_BLOCKS: u32 = 4;
/// Where the root directory's inodes and block are on a large disk, made by mkfs.
const ROOT_CHUNK: u64 = 64;
const ROOT_BLOCK: u64 = 96;
/// Bytes that a change of a directory block or group header puts into the log.
const LOG_BLOCK: u64 = 640;
/// Bytes of tree items of a new file or directory.
const BTRFS_ITEMS: u32 = (160 + 25) + (10 + 40 + 25) + 2 * (30 + 40 + 25);

/// A directory's number in its filesystem; 0 is the root.
pub(super) type DirNumber = u32;

#[derive(Debug)]
struct Dir {
    /// Its inode.
    ino: u32,
    group: u32,
    entries: u32,
    /// The block that entries went to last, and those before it.
    block: u64,
    full: Vec<u64>,
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
    /// Inodes that were a file's and are free, by group: the number there, and the file's.
    free: RefCell<BTreeSet<(u32, u64, u32)>>,
    /// Changed blocks that are in the log alone, with their lengths (xfs).
    unwritten: RefCell<BTreeSet<(u64, u32)>>,
    log_bytes: Cell<u64>,
}

impl Names {
    pub fn new(front: Layout) -> Self {
        let root = Dir {
            ino: 0,
            group: 0,
            entries: 0,
            block: front.place(ROOT_BLOCK),
            full: Vec::new(),
        };
        let inodes = Inodes {
            made: 3, // root, and two that mkfs makes
            chunk: front.place(ROOT_CHUNK),
        };
        Self {
            dirs: RefCell::new(vec![root]),
            inodes: RefCell::new(vec![inodes]),
            free: RefCell::default(),
            unwritten: RefCell::default(),
            log_bytes: Cell::new(0),
        }
    }

    /// The group of a directory.
    pub fn group(&self, dir: DirNumber) -> u32 {
        self.dirs.borrow()[dir as usize].group
    }

    /// The inode of a directory.
    pub fn inode_of(&self, dir: DirNumber) -> u32 {
        self.dirs.borrow()[dir as usize].ino
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

/// The root directory's inode; at mount.
pub(super) fn make_root<const T: bool>(mm: &SimMm<T>, fs: &Fs) {
    let ino = super::create_on(mm, fs).expect("room for the root");
    fs.names.dirs.borrow_mut()[0].ino = ino;
    let root = Inode {
        group: 0,
        agino: 2,
        place: match fs.kind {
            FsKind::Ext3 | FsKind::Ext4 => ext::table_block(fs.layout, 0, 2),
            _ => fs.layout.place(ROOT_CHUNK),
        },
    };
    fs.inodes.buffered(root.place); // read at mount
    root.placed(mm, fs, ino, None);
}

/// Where a new inode is.
#[derive(Debug, Clone, Copy)]
struct Inode {
    group: u32,
    /// Its number in the group.
    agino: u32,
    place: u64,
}

impl Inode {
    /// A number and a place in a group. `fresh`: made now, not before the run.
    fn take(fs: &Fs, group: u32, fresh: bool) -> Result<Self, FsError> {
        let number = fs.names.number(group);
        let place = match fs.kind {
            FsKind::Xfs => {
                if number.is_multiple_of(CHUNK_INODES) {
                    let chunk = fs.take_blocks_near(group, 0, CHUNK_BLOCKS, CHUNK_BLOCKS);
                    let (block, blocks) = chunk.ok_or(FsError::NoSpace)?;
                    fs.space.used(blocks);
                    fs.names.inodes.borrow_mut()[group as usize].chunk = block;
                    if fresh {
                        // A new chunk's buffers are made, not read.
                        for at in (0..CHUNK_BLOCKS).step_by(CLUSTER_BLOCKS as usize) {
                            fs.inodes.buffered(block + u64::from(at));
                        }
                    }
                }
                let chunk = fs.names.inodes.borrow()[group as usize].chunk;
                let cluster = number % CHUNK_INODES / u64::from(mm::xfs::CLUSTER_INODES);
                chunk + cluster * u64::from(CLUSTER_BLOCKS)
            }
            FsKind::Ext3 | FsKind::Ext4 => ext::table_block(fs.layout, group, number),
            FsKind::Btrfs | FsKind::FuseNtfs => number,
        };
        Ok(Self {
            group,
            agino: number as u32,
            place,
        })
    }

    /// It is the inode of a file from now on.
    fn placed<const T: bool>(self, mm: &SimMm<T>, fs: &Fs, ino: u32, dir: Option<DirNumber>) {
        let place = Place::of(self.group, dir.unwrap_or(0), self.place);
        fs.with_place(ino, |p| *p = place);
        let parent = dir.map(|d| fs.names.inode_of(d));
        let sb = fs.inodes.sb.get();
        mm.place_inode(ino, sb, parent, self.group, self.agino);
    }
}

/// The lowest inode of a group that was another file's; it is not free any more.
fn free_inode(fs: &Fs, group: u32) -> Option<u32> {
    let free = &fs.names.free;
    let lowest = free.borrow().range((group, 0, 0)..).next().copied()?;
    (lowest.0 == group).then(|| {
        free.borrow_mut().remove(&lowest);
        lowest.2
    })
}

/// A file has lost its name and its last user.
pub(super) fn inode_gone(fs: &Fs, ino: u32) {
    let (group, place) = fs.with_place(ino, |p| (p.group, p.inode));
    fs.names.free.borrow_mut().insert((group, place, ino));
}

/// A directory got an entry more: its block, and whether it is a new one.
fn entry_added(fs: &Fs, dir: DirNumber) -> (u64, bool) {
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
            if d.block != 0 {
                d.full.push(d.block);
            }
            d.block = block;
        }
        return (d.block, true);
    }
    (d.block, false)
}

/// The group for a new directory.
fn dir_group(fs: &Fs) -> u32 {
    match fs.kind {
        FsKind::Xfs => fs.space.next_group(),
        _ => fs.names.dirs.borrow().len() as u32 % ext::table_groups(fs.layout),
    }
}

/// A number for a new directory of a group, whose inode is `ino`.
fn add_dir(fs: &Fs, group: u32, ino: u32) -> DirNumber {
    let mut dirs = fs.names.dirs.borrow_mut();
    dirs.push(Dir {
        ino,
        group,
        entries: 0,
        block: 0,
        full: Vec::new(),
    });
    dirs.len() as u32 - 1
}

/// An inode of a group for a new file or directory: the lowest free one, or another. `None`: too many.
pub(super) fn take_inode<const T: bool>(mm: &SimMm<T>, fs: &Fs, group: u32) -> Option<u32> {
    free_inode(fs, group).or_else(|| super::create_on(mm, fs))
}

/// A new directory below `parent`. Returns its number.
pub(super) async fn make_dir<const T: bool>(
    mm: &SimMm<T>,
    fs: &Fs,
    parent: DirNumber,
) -> Result<DirNumber, FsError> {
    let group = dir_group(fs);
    let ino = take_inode(mm, fs, group).ok_or(FsError::NoSpace)?;
    let id = add_dir(fs, group, ino);
    make_inode(mm, fs, parent, group, ino).await?;
    mm.iput(ino);
    Ok(id)
}

/// A directory that is there before the run.
pub(super) fn lay_out_dir<const T: bool>(
    mm: &SimMm<T>,
    fs: &Fs,
    parent: DirNumber,
) -> Option<DirNumber> {
    let group = dir_group(fs);
    let ino = lay_out_inode(mm, fs, parent, group)?;
    Some(add_dir(fs, group, ino))
}

/// The inode of a file that is there before the run.
pub(super) fn lay_out_file<const T: bool>(mm: &SimMm<T>, fs: &Fs, dir: DirNumber) -> Option<u32> {
    lay_out_inode(mm, fs, dir, fs.names.group(dir))
}

/// An inode of a group that is there before the run, with an entry in a directory.
fn lay_out_inode<const T: bool>(mm: &SimMm<T>, fs: &Fs, dir: DirNumber, group: u32) -> Option<u32> {
    let ino = super::create_on(mm, fs)?;
    let inode = Inode::take(fs, group, false).ok()?;
    inode.placed(mm, fs, ino, Some(dir));
    entry_added(fs, dir);
    Some(ino)
}

/// Reads a directory's blocks; the directory is held.
pub(super) async fn read_dir<const T: bool>(mm: &SimMm<T>, fs: &Fs, dir: DirNumber) {
    let blocks = {
        let dirs = fs.names.dirs.borrow();
        let d = &dirs[dir as usize];
        let last = (d.block != 0).then_some(d.block);
        d.full.iter().copied().chain(last).collect::<Vec<_>>()
    };
    for block in blocks {
        inode::read_metadata(mm, fs, block, 1).await;
    }
    mm.file_accessed(fs.names.inode_of(dir));
}

/// A new inode of a group, with an entry in a directory, which is held. It is in memory and held.
pub(super) async fn make_inode<const T: bool>(
    mm: &SimMm<T>,
    fs: &Fs,
    dir: DirNumber,
    group: u32,
    ino: u32,
) -> Result<(), FsError> {
    let (dir_block, fresh) = entry_added(fs, dir);
    if mm.inode_gone(ino) {
        fs.with_place(ino, |p| *p = Place::of(p.group, dir, p.inode));
        mm.reuse_inode(ino, Some(fs.names.inode_of(dir)));
    } else {
        Inode::take(fs, group, true)?.placed(mm, fs, ino, Some(dir));
    }
    if !mm.new_inode(ino).await {
        return Err(FsError::OutOfMemory);
    }
    let done = async {
        if fresh && matches!(fs.kind, FsKind::Ext3 | FsKind::Ext4) {
            ext::change_block(mm, fs, dir_block, true).await?;
        }
        changed(mm, fs, dir, dir_block, ino).await
    };
    let done = done.await;
    if done.is_err() {
        mm.unlink_inode(ino);
        mm.iput(ino);
    }
    done
}

/// A name went away, and its inode, which is held.
pub(super) async fn remove_inode<const T: bool>(mm: &SimMm<T>, ino: u32) -> Result<(), FsError> {
    let fs = super::of(mm, ino);
    let dir = fs.with_place(ino, |p| p.dir);
    let block = fs.names.dirs.borrow()[dir as usize].block;
    changed(mm, fs, dir, block, ino).await
}

async fn changed<const T: bool>(
    mm: &SimMm<T>,
    fs: &Fs,
    dir: DirNumber,
    dir_block: u64,
    ino: u32,
) -> Result<(), FsError> {
    let (group, place) = fs.with_place(ino, |p| (p.group, p.inode));
    match fs.kind {
        FsKind::Xfs => {
            mm.log_inode(ino);
            mm.file_changed(fs.names.inode_of(dir));
            if dir_block != 0 {
                fs.names.log(dir_block, 1);
            }
            // Free inodes and their tree.
            fs.names.log(fs.space.first_block(group), 1);
            Ok(())
        }
        FsKind::Ext3 | FsKind::Ext4 => {
            for block in [dir_block, ext::bitmap_block(fs.layout, group), place] {
                ext::change_block(mm, fs, block, false).await?;
            }
            Ok(())
        }
        FsKind::Btrfs => {
            btrfs::insert(mm, fs, 0, BTRFS_ITEMS).await;
            Ok(())
        }
        FsKind::FuseNtfs => fuse_ntfs::change_names(mm, fs, u64::from(dir), place).await,
    }
}

/// Writes what is only in the log to its place (xfs).
pub(super) async fn write_in_place<const T: bool>(mm: &SimMm<T>, fs: &Fs) {
    let blocks = std::mem::take(&mut *fs.names.unwritten.borrow_mut());
    let queue = mm.world.queue_base + own_queue::JOURNAL;
    for (block, len) in blocks {
        mm.world
            .submit(fs.volume, Tag::Raw { queue }, true, false, block, len)
            .await;
        mm.world.sched.relax().await;
    }
}
