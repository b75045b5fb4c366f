//! Inodes and dentries of a booted system that lie in memory before the workload begins: files of
//! programs, of packages and of nightly jobs such as updatedb.

use super::{Fs, SimMm, names};
use mm::world::Tasks;

/// Files of a directory: a file system of a distribution has one directory for some 10 to 20 files.
const FILES_OF_DIRECTORY: u32 = 16;

/// Makes the files behind `inodes` inodes on the filesystem on `/`, in directories of their own,
/// and brings their inodes into memory without reading them from the disk: the system did so before
/// the run. Directories count as inodes. The youngest `dentries` of them keep their dentries.
/// Returns false if there is no memory, or no space on the filesystem.
pub async fn known<const T: bool>(mm: &SimMm<T>, inodes: u32, dentries: u32) -> bool {
    if inodes == 0 {
        return true;
    }
    let fs = &mm.world.fs[0];
    let root = fs.names.inode_of(0);
    if mm.iget(root).await.is_err() {
        return false;
    }
    let mut made = 0;
    let mut fits = true;
    while made < inodes && fits {
        let files = FILES_OF_DIRECTORY.min(inodes - made - 1);
        let without = inodes.saturating_sub(dentries).saturating_sub(made);
        fits = directory(mm, fs, files, without).await;
        made += 1 + files;
        mm.world.relax().await;
    }
    mm.iput(root);
    fits
}

/// Makes a directory with `files` files and brings their inodes into memory; the oldest `without`
/// of them lose their dentries, and so does the directory if all its files do. Returns false if
/// there is no memory or no space.
async fn directory<const T: bool>(mm: &SimMm<T>, fs: &Fs, files: u32, without: u32) -> bool {
    let Some(dir) = names::lay_out_dir(mm, fs, 0) else {
        return false;
    };
    let dir_inode = fs.names.inode_of(dir);
    if !mm.new_inode(dir_inode).await {
        return false;
    }
    for file in 0..files {
        let Some(ino) = names::lay_out_file(mm, fs, dir) else {
            return false;
        };
        if !mm.new_inode(ino).await {
            return false;
        }
        mm.iput(ino);
        if file < without {
            mm.forget_dentry(ino);
        }
    }
    mm.iput(dir_inode);
    if files < without {
        mm.forget_dentry(dir_inode);
    }
    true
}
