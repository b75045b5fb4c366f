//! Directories and the numbers of inodes. What making and removing names costs beside CPU time (inodes,
//! directory blocks and free-inode maps that become dirty, and how they reach the disk) is each
//! filesystem's: [`Model::names_changed`].

use super::calls::create_on;
use super::files::Place;
use super::layout::Layout;
use super::model::Model;
use super::{Fs, FsError, SimMm, of};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Entries of a 4 KiB directory block: 40 characters and 16 bytes around them.
pub(super) const ENTRIES_OF_BLOCK: u32 = 4096 / 56;

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

/// Directories and inodes.
#[derive(Debug)]
pub(super) struct Names {
    dirs: RefCell<Vec<Dir>>,
    /// Numbers of inodes that were given out, by group.
    numbers: RefCell<Vec<u64>>,
    /// Inodes that were a file's and are free, by group: the place, and the file's number.
    free: RefCell<BTreeSet<(u32, u64, u32)>>,
}

/// A name's place: its directory and the block of that.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// The directory.
    pub dir: DirNumber,
    /// Its block; 0: none.
    pub block: u64,
}

/// A name that was made or removed.
#[derive(Debug, Clone, Copy)]
pub(super) struct NameChange {
    /// The directory.
    pub dir: DirNumber,
    /// The block of its last entries; 0: none.
    pub block: u64,
    /// Whether that block is new and holds nothing else.
    pub new_block: bool,
    /// Whether it was made.
    pub made: bool,
    /// The inode that the name is of, its group and place.
    pub ino: u32,
    pub group: u32,
    pub place: u64,
}

impl Names {
    pub fn new(front: Layout) -> Self {
        let root = Dir {
            ino: 0,
            group: 0,
            entries: 0,
            block: front.root_block(),
            full: Vec::new(),
        };
        Self {
            dirs: RefCell::new(vec![root]),
            numbers: RefCell::new(vec![3]), // root, and two that mkfs makes
            free: RefCell::default(),
        }
    }

    /// How many directories there are.
    pub fn directories(&self) -> u32 {
        self.dirs.borrow().len() as u32
    }

    /// The group of a directory.
    pub fn group(&self, dir: DirNumber) -> u32 {
        self.dirs.borrow()[dir as usize].group
    }

    /// The inode of a directory.
    pub fn inode_of(&self, dir: DirNumber) -> u32 {
        self.dirs.borrow()[dir as usize].ino
    }

    /// How many entries a directory has.
    pub fn entries(&self, dir: DirNumber) -> u32 {
        self.dirs.borrow()[dir as usize].entries
    }

    /// A number for a new inode of a group.
    fn number(&self, group: u32) -> u64 {
        let mut all = self.numbers.borrow_mut();
        if all.len() <= group as usize {
            all.resize(group as usize + 1, 0);
        }
        let given = &mut all[group as usize];
        *given += 1;
        *given - 1
    }
}

/// The root directory's inode; at mount.
pub(super) fn make_root<const T: bool>(mm: &SimMm<T>, fs: &Fs) {
    let ino = create_on(mm, fs).expect("room for the root");
    fs.names.dirs.borrow_mut()[0].ino = ino;
    let root = Inode {
        group: 0,
        agino: 2,
        place: ask!(fs, model => model.read_root(fs)),
    };
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
    fn take(fs: &Fs, group: u32, entry: Entry, fresh: bool) -> Result<Self, FsError> {
        let number = fs.names.number(group);
        Ok(Self {
            group,
            agino: number as u32,
            place: ask!(fs, model => model.inode_place(fs, group, number, entry, fresh))?,
        })
    }

    /// It is the inode of a file from now on.
    fn placed<const T: bool>(self, mm: &SimMm<T>, fs: &Fs, ino: u32, dir: Option<DirNumber>) {
        let place = Place::of(self.group, dir.unwrap_or(0), self.place);
        fs.with_place(ino, |p| *p = place);
        let parent = dir.map(|d| fs.names.inode_of(d));
        mm.place_inode(ino, fs.sb.get(), parent, self.group, self.agino);
    }
}

/// The lowest inode of a group that was another file's; it is not free any more.
fn free_inode(fs: &Fs, group: u32) -> Option<u32> {
    let free = &fs.names.free;
    if free.borrow().is_empty() {
        return None;
    }
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
    let about = fs.kind().about();
    let (inline, of_block) = (about.entries_in_inode, about.entries_of_block);
    let full = d.entries > inline && (d.entries - inline) % of_block == 1;
    // The root's first block is there.
    if full && (dir != 0 || d.entries > of_block) {
        let block = ask!(fs, model => model.take_directory_block(fs, dir, d.group));
        if let Some(block) = block {
            if d.block != 0 {
                d.full.push(d.block);
            }
            d.block = block;
        }
        return (d.block, true);
    }
    (d.block, false)
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
    free_inode(fs, group).or_else(|| create_on(mm, fs))
}

/// A new directory below `parent`. Returns its number.
pub(super) async fn make_dir<const T: bool>(
    mm: &SimMm<T>,
    fs: &Fs,
    parent: DirNumber,
) -> Result<DirNumber, FsError> {
    let group = ask!(fs, model => model.directory_group(fs));
    let ino = take_inode(mm, fs, group).ok_or(FsError::NoSpace)?;
    let id = add_dir(fs, group, ino);
    ask!(fs, model => model.directory_made(mm, fs, id).await)?;
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
    let group = ask!(fs, model => model.directory_group(fs));
    let ino = lay_out_inode(mm, fs, parent, group)?;
    Some(add_dir(fs, group, ino))
}

/// The inode of a file that is there before the run.
pub(super) fn lay_out_file<const T: bool>(mm: &SimMm<T>, fs: &Fs, dir: DirNumber) -> Option<u32> {
    lay_out_inode(mm, fs, dir, fs.names.group(dir))
}

/// An inode of a group that is there before the run, with an entry in a directory.
fn lay_out_inode<const T: bool>(mm: &SimMm<T>, fs: &Fs, dir: DirNumber, group: u32) -> Option<u32> {
    let ino = create_on(mm, fs)?;
    let (block, _) = entry_added(fs, dir);
    let inode = Inode::take(fs, group, Entry { dir, block }, false).ok()?;
    inode.placed(mm, fs, ino, Some(dir));
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
        ask!(fs, model => model.read_names(mm, fs, block).await);
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
        let entry = Entry {
            dir,
            block: dir_block,
        };
        Inode::take(fs, group, entry, true)?.placed(mm, fs, ino, Some(dir));
    }
    if !mm.new_inode(ino).await {
        return Err(FsError::OutOfMemory);
    }
    let done = changed(mm, fs, (dir, dir_block, fresh), ino, true).await;
    if done.is_err() {
        mm.unlink_inode(ino);
        mm.iput(ino);
    }
    done
}

/// A name went away, and its inode, which is held.
pub(super) async fn remove_inode<const T: bool>(mm: &SimMm<T>, ino: u32) -> Result<(), FsError> {
    let fs = of(mm, ino);
    let dir = fs.with_place(ino, |p| p.dir);
    let block = fs.names.dirs.borrow()[dir as usize].block;
    changed(mm, fs, (dir, block, false), ino, false).await
}

/// An inode's entry in a directory's block was made or removed.
async fn changed<const T: bool>(
    mm: &SimMm<T>,
    fs: &Fs,
    (dir, block, new_block): (DirNumber, u64, bool),
    ino: u32,
    made: bool,
) -> Result<(), FsError> {
    let (group, place) = fs.with_place(ino, |p| (p.group, p.inode));
    let change = NameChange {
        dir,
        block,
        new_block,
        made,
        ino,
        group,
        place,
    };
    ask!(fs, model => model.names_changed(mm, fs, change).await)
}
