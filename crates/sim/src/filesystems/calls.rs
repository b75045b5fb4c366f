//! System calls on files and names other than reading and writing.

use super::names::{self, create_on};
use super::{DirId, FsError, SimMm, of, of_dir};

/// Creates a file without a name on the first filesystem; `None`: too many files.
pub fn create<const T: bool>(mm: &SimMm<T>) -> Option<u32> {
    create_on(mm, &mm.world.fs[0])
}

/// Creates a file with its entry in a directory. Returns its mapping; `None` if there are too many
/// files.
pub async fn create_in<const T: bool>(mm: &SimMm<T>, dir: DirId) -> Result<Option<u32>, FsError> {
    let fs = of_dir(mm, dir);
    let group = fs.names.group(dir.number);
    let Some(id) = names::take_inode(mm, fs, group) else {
        return Ok(None);
    };
    names::make_inode(mm, fs, dir.number, group, id).await?;
    Ok(Some(id))
}

/// Frees the inode of a file that has lost its name and its last user, for reuse by another file.
pub fn inode_gone<const T: bool>(mm: &SimMm<T>, mapping: u32) {
    names::inode_gone(of(mm, mapping), mapping);
}

/// Returns the inode of a directory.
pub fn inode_of_dir<const T: bool>(mm: &SimMm<T>, dir: DirId) -> u32 {
    of_dir(mm, dir).names.inode_of(dir.number)
}

/// Creates a directory that exists before the run, taking no time. `None`: too many files.
pub fn lay_out_dir<const T: bool>(mm: &SimMm<T>, parent: DirId) -> Option<DirId> {
    let number = names::lay_out_dir(mm, of_dir(mm, parent), parent.number)?;
    Some(DirId { number, ..parent })
}

/// Creates an empty file in a directory as of before the run, taking no time. `None`: no inode or
/// no space is left.
pub fn lay_out_in<const T: bool>(mm: &SimMm<T>, dir: DirId) -> Option<u32> {
    names::lay_out_file(mm, of_dir(mm, dir), dir.number)
}

/// Reads the blocks of a directory.
pub async fn read_dir<const T: bool>(mm: &SimMm<T>, dir: DirId) {
    names::read_dir(mm, of_dir(mm, dir), dir.number).await;
}

/// Creates a directory in another one.
pub async fn make_dir<const T: bool>(mm: &SimMm<T>, parent: DirId) -> Result<DirId, FsError> {
    let number = names::make_dir(mm, of_dir(mm, parent), parent.number).await?;
    Ok(DirId { number, ..parent })
}

/// Removes a file's name.
pub async fn unlink<const T: bool>(mm: &SimMm<T>, mapping: u32) -> Result<(), FsError> {
    mm.unlink_inode(mapping);
    names::remove_inode(mm, mapping).await
}

/// Gives a new file `len` bytes that are on the device and not cached, as of before the run: this
/// takes no time. Returns false if the space does not suffice.
pub fn lay_out<const T: bool>(mm: &SimMm<T>, mapping: u32, len: u64) -> bool {
    let (fs, pages) = (of(mm, mapping), len.div_ceil(4096));
    let fits = ask!(fs, model => model.lay_out(fs, mapping, pages));
    if fits {
        mm.mappings[mapping as usize].size.set(len);
    }
    fits
}

/// Removes a file's pages from the cache and frees its blocks, and forgets what was remembered of
/// it.
pub async fn remove<const T: bool>(mm: &SimMm<T>, mapping: u32) {
    mm.hold_inode(mapping).await;
    mm.truncate_from(mapping, 0).await;
    mm.release_inode(mapping);
    let fs = of(mm, mapping);
    ask!(fs, model => model.freed(mm, fs, mapping, None).await);
    fs.forget(mapping);
    mm.world.reuse.forget(mapping);
    mm.world.dropped.forget(mapping);
}

/// Performs truncate(2): cuts a file to `len` bytes and frees the blocks behind, or extends it, by
/// a hole where the filesystem has holes. A file that cannot be extended keeps its length.
pub async fn truncate<const T: bool>(mm: &SimMm<T>, mapping: u32, len: u64) {
    let (m, fs) = (&mm.mappings[mapping as usize], of(mm, mapping));
    if len > m.size.get() && ask!(fs, model => model.grow(mm, fs, mapping, len).await).is_err() {
        return; // the file keeps its length
    }
    if len < m.size.get() {
        mm.hold_inode(mapping).await;
        let first = len.div_ceil(4096).min(u64::from(u32::MAX)) as u32;
        mm.truncate_from(mapping, first).await;
        mm.release_inode(mapping);
        ask!(fs, model => model.freed(mm, fs, mapping, Some(first)).await);
    }
    m.size.set(len);
    mm.file_changed(mapping);
}

/// Closes a descriptor that was open for writing.
pub async fn released<const T: bool>(mm: &SimMm<T>, mapping: u32) {
    let fs = of(mm, mapping);
    ask!(fs, model => model.released(mm, fs, mapping).await);
}

/// Prepares a direct write (`O_DIRECT`) that reaches up to byte `end` of a file. Returns true if it
/// may bypass the cache; otherwise it must go through the cache.
pub async fn before_direct<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    end: u64,
) -> Result<bool, FsError> {
    let fs = of(mm, mapping);
    ask!(fs, model => model.before_direct(mm, fs, mapping, end).await)
}

/// Returns the blocks of a direct transfer as runs of first block and length, allocating missing
/// ones. `None`: the device is full.
pub fn map_direct<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    index: u32,
    blocks: u32,
) -> Option<Vec<(u64, u32)>> {
    let fs = of(mm, mapping);
    let (mut runs, mut done) = (Vec::<(u64, u32)>::new(), 0);
    while done < blocks {
        let (block, n) = fs.map_run(mapping, index + done, blocks - done)?;
        match runs.last_mut() {
            Some((first, len)) if *first + u64::from(*len) == block => *len += n,
            _ => runs.push((block, n)),
        }
        done += n;
    }
    Some(runs)
}
