//! Directories and the numbers of inodes. The costs of making and removing names beside CPU time
//! (inodes, directory blocks and free-inode maps that become dirty, and how they reach the disk)
//! are each filesystem's: [`names_changed`](super::model::Model::names_changed).

use super::files::Place;
use super::layout::Layout;
use super::{Fs, FsError, SimMm, of};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Entries in a directory block of 4 KiB, with names of 40 characters and 16 bytes around each.
pub(super) const ENTRIES_OF_BLOCK: u32 = 4096 / 56;

/// A directory's number in its filesystem; 0 is the root.
pub(super) type DirNumber = u32;

/// A directory.
#[derive(Debug)]
struct Dir {
    /// Number of its inode.
    ino: u32,
    group: u32,
    entries: u32,
    /// The block that the last entry went to (0: none yet), and the blocks filled before it.
    block: u64,
    full: Vec<u64>,
}

/// The directories of a filesystem and the numbers of its inodes.
#[derive(Debug)]
pub(super) struct Names {
    dirs: RefCell<Vec<Dir>>,
    /// Number of inodes given out so far, by group.
    numbers: RefCell<Vec<u64>>,
    /// Free inodes that once were a file's: group, place and the number of the file.
    free: RefCell<BTreeSet<(u32, u64, u32)>>,
}

/// Position of a name: its directory and the block in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// The directory.
    pub dir: DirNumber,
    /// The block of the directory; 0: none.
    pub block: u64,
}

/// A change of a directory: a name that was made or removed.
#[derive(Debug, Clone, Copy)]
pub(super) struct NameChange {
    /// The directory.
    pub dir: DirNumber,
    /// Block of the directory's last entries; 0: none.
    pub block: u64,
    /// True if that block is new and holds no other entry.
    pub new_block: bool,
    /// True if the name was made, false if it was removed.
    pub made: bool,
    /// The inode that the name refers to, with its group and place.
    pub ino: u32,
    pub group: u32,
    pub place: u64,
}

impl Names {
    /// Makes the names of an empty filesystem: its root directory, without entries.
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
            numbers: RefCell::new(vec![3]), // the root and two made by mkfs
            free: RefCell::default(),
        }
    }

    /// Returns the number of directories.
    pub fn directories(&self) -> u32 {
        self.dirs.borrow().len() as u32
    }

    /// Returns the allocation group of a directory.
    pub fn group(&self, dir: DirNumber) -> u32 {
        self.dirs.borrow()[dir as usize].group
    }

    /// Returns the inode of a directory.
    pub fn inode_of(&self, dir: DirNumber) -> u32 {
        self.dirs.borrow()[dir as usize].ino
    }

    /// Returns the number of entries in a directory.
    pub fn entries(&self, dir: DirNumber) -> u32 {
        self.dirs.borrow()[dir as usize].entries
    }

    /// Returns the number of a new inode in a group, counted from 0, and counts it as given out.
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

/// Creates a file without a name.
pub(super) fn create_on<const T: bool>(mm: &SimMm<T>, fs: &Fs) -> Option<u32> {
    ask!(fs, model => model.new_file(mm, fs))
}

/// Makes the root directory's inode, at mount, and registers it with the engine.
pub(super) fn make_root<const T: bool>(mm: &SimMm<T>, fs: &Fs) {
    let ino = create_on(mm, fs).expect("room for the root");
    fs.names.dirs.borrow_mut()[0].ino = ino;
    let root = Inode {
        group: 0,
        agino: 2,
        place: ask!(fs, model => model.read_root(fs)),
    };
    root.register(mm, fs, ino, None);
}

/// Position of a new inode.
#[derive(Debug, Clone, Copy)]
struct Inode {
    group: u32,
    /// Number of the inode in its group.
    agino: u32,
    place: u64,
}

impl Inode {
    /// Assigns a new inode the next number of a group, and a place. `entry`: where its name is;
    /// `fresh`: the inode is made now; otherwise it exists before the run.
    fn take(fs: &Fs, group: u32, entry: Entry, fresh: bool) -> Result<Self, FsError> {
        let number = fs.names.number(group);
        Ok(Self {
            group,
            agino: number as u32,
            place: ask!(fs, model => model.inode_place(fs, group, number, entry, fresh))?,
        })
    }

    /// Records this position as that of inode `ino` and registers the inode with the engine. `dir`:
    /// the directory of its name; `None` for the root.
    fn register<const T: bool>(self, mm: &SimMm<T>, fs: &Fs, ino: u32, dir: Option<DirNumber>) {
        let place = Place::of(self.group, dir.unwrap_or(0), self.place);
        fs.with_place(ino, |p| *p = place);
        let parent = dir.map(|d| fs.names.inode_of(d));
        mm.place_inode(ino, fs.sb.get(), parent, self.group, self.agino);
    }
}

/// Takes the free inode of a group with the lowest place, which was another file's, and returns its
/// number; `None` if the group has none.
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

/// Frees the inode of a file that has lost its name and its last user.
pub(super) fn inode_gone(fs: &Fs, ino: u32) {
    let (group, place) = fs.with_place(ino, |p| (p.group, p.inode));
    fs.names.free.borrow_mut().insert((group, place, ino));
}

/// Counts a new entry of a directory, which may need a new block. Returns the block that the entry
/// goes to, 0 if it needs none, and true if a new one was due.
fn entry_added(fs: &Fs, dir: DirNumber) -> (u64, bool) {
    let mut dirs = fs.names.dirs.borrow_mut();
    let directory = &mut dirs[dir as usize];
    directory.entries += 1;
    let about = fs.kind().about();
    let (inline, of_block) = (about.entries_in_inode, about.entries_of_block);
    let full = directory.entries > inline && (directory.entries - inline) % of_block == 1;
    // The root's first block exists already.
    if full && (dir != 0 || directory.entries > of_block) {
        let block = ask!(fs, model => model.take_directory_block(fs, dir, directory.group));
        if let Some(block) = block {
            if directory.block != 0 {
                directory.full.push(directory.block);
            }
            directory.block = block;
        }
        return (directory.block, true);
    }
    (directory.block, false)
}

/// Adds a directory without entries, whose inode is `ino`, to the list of a filesystem's
/// directories; returns its number. `group`: its allocation group.
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

/// Takes an inode for a new file or directory: the lowest free one of the group, or a new one.
/// `None`: too many files.
pub(super) fn take_inode<const T: bool>(mm: &SimMm<T>, fs: &Fs, group: u32) -> Option<u32> {
    free_inode(fs, group).or_else(|| create_on(mm, fs))
}

/// Makes a directory below `parent`: takes an inode, prepares the directory and adds its name.
/// Returns its number.
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

/// Makes a directory below `parent` that exists before the run, taking no time. Returns its number;
/// `None`: too many files.
pub(super) fn lay_out_dir<const T: bool>(
    mm: &SimMm<T>,
    fs: &Fs,
    parent: DirNumber,
) -> Option<DirNumber> {
    let group = ask!(fs, model => model.directory_group(fs));
    let ino = lay_out_inode(mm, fs, parent, group)?;
    Some(add_dir(fs, group, ino))
}

/// Makes the inode of a file that exists before the run. `None`: too many files, or no space.
pub(super) fn lay_out_file<const T: bool>(mm: &SimMm<T>, fs: &Fs, dir: DirNumber) -> Option<u32> {
    lay_out_inode(mm, fs, dir, fs.names.group(dir))
}

/// Makes an inode of a group that exists before the run, with an entry in a directory.
fn lay_out_inode<const T: bool>(mm: &SimMm<T>, fs: &Fs, dir: DirNumber, group: u32) -> Option<u32> {
    let ino = create_on(mm, fs)?;
    let (block, _) = entry_added(fs, dir);
    let inode = Inode::take(fs, group, Entry { dir, block }, false).ok()?;
    inode.register(mm, fs, ino, Some(dir));
    Some(ino)
}

/// Reads all blocks of a directory, as readdir(2) does, and notes the access; the caller holds the
/// directory.
pub(super) async fn read_dir<const T: bool>(mm: &SimMm<T>, fs: &Fs, dir: DirNumber) {
    let blocks = {
        let dirs = fs.names.dirs.borrow();
        let directory = &dirs[dir as usize];
        let last = (directory.block != 0).then_some(directory.block);
        directory
            .full
            .iter()
            .copied()
            .chain(last)
            .collect::<Vec<_>>()
    };
    for block in blocks {
        ask!(fs, model => model.read_names(mm, fs, block).await);
    }
    mm.file_accessed(fs.names.inode_of(dir));
}

/// Makes the inode `ino` in a group, with an entry in the directory `dir`, which the caller holds;
/// an inode that was another file's keeps its place. The inode is then in memory and held by the
/// caller.
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
        Inode::take(fs, group, entry, true)?.register(mm, fs, ino, Some(dir));
    }
    if !mm.new_inode(ino).await {
        return Err(FsError::OutOfMemory);
    }
    let done = report_change(mm, fs, (dir, dir_block, fresh), ino, true).await;
    if done.is_err() {
        mm.unlink_inode(ino);
        mm.iput(ino);
    }
    done
}

/// Removes the name of an inode, which the caller holds.
pub(super) async fn remove_inode<const T: bool>(mm: &SimMm<T>, ino: u32) -> Result<(), FsError> {
    let fs = of(mm, ino);
    let dir = fs.with_place(ino, |p| p.dir);
    let block = fs.names.dirs.borrow()[dir as usize].block;
    report_change(mm, fs, (dir, block, false), ino, false).await
}

/// Tells the filesystem that the entry of inode `ino` in block `block` of a directory was made
/// (`made`) or removed, so that it dirties the metadata that change. `new_block`: the block holds
/// no other entry.
async fn report_change<const T: bool>(
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
