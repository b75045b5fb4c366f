//! Directories of a FAT volume: chains of clusters that hold slots of 32 bytes.

use super::super::names::{DirNumber, NameChange};
use super::super::{Fs, FsError, SimMm};
use super::Fat;
use super::clusters::Taken;

/// The clusters of a directory.
#[derive(Debug, Default)]
pub struct Directory {
    /// First block of each cluster, in the order of the chain.
    clusters: Vec<u64>,
    /// Number of blocks of the last cluster that have slots.
    used: u32,
    /// exFAT: true if the clusters are chained in the table.
    chained: bool,
    /// The last cluster, while it is not on the device yet.
    new: Option<Taken>,
}

impl Directory {
    /// Returns the root of an empty volume; exFAT's root is chained (mkfs.c
    /// `exfat_create_fat_table`).
    pub fn root(cluster: u64) -> Self {
        Self {
            clusters: vec![cluster],
            used: 1,
            chained: true,
            new: None,
        }
    }

    /// Notes that the clusters were on the device before the run.
    pub fn was_there(&mut self) {
        self.new = None;
    }
}

impl<const EX: bool> Fat<EX> {
    /// Allocates a cluster for a directory, which is not written yet. `None`: the device is full.
    pub(super) fn grow_directory(&self, fs: &Fs, dir: DirNumber) -> Option<()> {
        let mut all = self.directories.borrow_mut();
        let directory = all.entry(dir).or_default();
        let taken = self.take(fs, directory.clusters.last().copied())?;
        directory.clusters.push(taken.block);
        directory.used = 0;
        directory.new = Some(taken);
        Some(())
    }

    /// Returns the next block for a directory's entries, allocating a cluster if the last one is
    /// full. `None`: the device is full.
    pub(super) fn next_directory_block(&self, fs: &Fs, dir: DirNumber) -> Option<u64> {
        let full = {
            let all = self.directories.borrow();
            all.get(&dir)
                .is_none_or(|directory| directory.clusters.is_empty() || directory.used == self.geometry.cluster)
        };
        if full {
            self.grow_directory(fs, dir)?;
        }
        let mut all = self.directories.borrow_mut();
        let directory = all.get_mut(&dir)?;
        directory.used += 1;
        Some(directory.clusters.last()? + u64::from(directory.used - 1))
    }

    /// Zeroes a directory's new cluster on the device and adds it to the chain
    /// (`fat_add_new_entries`, `fat_chain_add`; `exfat_find_empty_entry`); does nothing if the
    /// directory has no new one.
    pub(super) async fn write_directory_cluster<const T: bool>(
        &self,
        mm: &SimMm<T>,
        dir: DirNumber,
    ) -> Result<(), FsError> {
        let new_cluster = self.directories.borrow_mut().get_mut(&dir).and_then(|directory| {
            let taken = directory.new.take()?;
            let (_, before) = directory.clusters.split_last()?;
            let all = EX && !taken.in_row && !directory.chained;
            let before = match all {
                true => before.to_vec(),
                false => before.last().copied().into_iter().collect(),
            };
            directory.chained |= !taken.in_row;
            Some((taken, before, directory.chained))
        });
        let Some((taken, before, chained)) = new_cluster else {
            return Ok(());
        };
        self.use_volume(mm).await?;
        for block in taken.block..taken.block + u64::from(self.geometry.cluster) {
            self.change(mm, block, true, self.dirsync).await?;
        }
        self.link(mm, taken, &before, chained, self.dirsync).await
    }

    /// Dirties what changes when a name is made or removed: the block of its slots, and the
    /// directory's own inode for its times. With `-o dirsync` waits for them.
    pub(super) async fn name_changed<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        change: NameChange,
    ) -> Result<(), FsError> {
        self.use_volume(mm).await?;
        if change.made {
            if change.new_block {
                self.write_directory_cluster(mm, change.dir).await?;
            }
            fs.with_place(change.ino, |p| p.inode = change.block);
            self.change(mm, change.block, false, self.dirsync).await?;
        } else {
            self.file(change.ino, |f| f.stale = false);
            if change.place != 0 {
                self.change(mm, change.place, false, self.dirsync).await?;
            }
        }
        // The root has no directory entry.
        if change.dir != 0 {
            let ino = fs.names.inode_of(change.dir);
            self.touch(mm, ino);
            // exFAT waits for the entry only if the directory has grown (`exfat_create`).
            if self.dirsync && (!EX || change.new_block) && !self.write_entry(mm, fs, ino, true).await {
                return Err(FsError::Io);
            }
        }
        Ok(())
    }
}
