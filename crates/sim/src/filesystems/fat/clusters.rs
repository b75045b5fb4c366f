//! Clusters of a FAT volume: allocating, chaining, following and freeing them.

use super::super::files::Extent;
use super::super::space::ANYWHERE;
use super::super::{Fs, FsError, SimMm};
use super::Fat;

/// Maximum number of runs of clusters that an inode remembers (`FAT_MAX_CACHE`, `EXFAT_MAX_CACHE`).
const FAT_RUNS: usize = 8;
const EXFAT_RUNS: usize = 16;

/// A newly allocated cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    pub block: u64,
    /// Block where the search for it began; `None`: no search was needed.
    pub from: Option<u64>,
    /// True if it is contiguous with its predecessor, or has none.
    pub in_row: bool,
}

/// Returns the number of blocks of a file; they cover its pages from the first one on, since there
/// are no holes.
pub(super) fn length(fs: &Fs, mapping: u32) -> u64 {
    fs.with_extents(mapping, |list| {
        list.last()
            .map_or(0, |e| u64::from(e.index) + u64::from(e.len))
    })
}

/// Removes a file's blocks from page `keep` on. Returns their runs as first block and length.
pub(super) fn cut(fs: &Fs, mapping: u32, keep: u32) -> Vec<(u64, u32)> {
    fs.with_extents(mapping, |list| {
        let mut gone = Vec::new();
        while let Some(e) = list.last_mut().filter(|e| e.index + e.len > keep) {
            let left = keep.saturating_sub(e.index);
            gone.push((e.block + u64::from(left), e.len - left));
            e.len = left;
            if left == 0 {
                list.pop();
            }
        }
        gone
    })
}

impl<const EX: bool> Fat<EX> {
    /// Allocates a cluster. The search begins where the last one ended; on exFAT, for a chain that
    /// has a last cluster, behind `last`, the block of that cluster. `None`: the volume is full.
    pub(super) fn take(&self, fs: &Fs, last: Option<u64>) -> Option<Taken> {
        let cluster = self.geometry.cluster;
        let behind = last.map(|b| b + u64::from(cluster));
        let from = behind.filter(|_| EX).unwrap_or(self.hint.get());
        let has_hint = from != u64::MAX;
        let block = fs.space.take_whole(if has_hint { from } else { 0 }, &ANYWHERE, cluster)?;
        fs.space.used(cluster);
        // exFAT keeps the place where this search began; if the cluster begins a chain, the place
        // of the cluster.
        self.hint.set(match behind {
            Some(behind) if EX => behind,
            None if EX => block,
            _ => block + u64::from(cluster),
        });
        Some(Taken {
            block,
            from: has_hint.then_some(from),
            in_row: behind.is_none_or(|b| b == block),
        })
    }

    /// Allocates the next cluster of a file and records it as the file's; `None`: the volume is
    /// full.
    pub(super) fn take_for(&self, fs: &Fs, mapping: u32) -> Option<Taken> {
        let index = length(fs, mapping) as u32;
        let cluster = self.geometry.cluster;
        let last = index.checked_sub(cluster);
        let last = last.and_then(|at| Some(fs.mapped(mapping, at)?.0));
        let taken = self.take(fs, last)?;
        fs.add_extent(
            mapping,
            Extent {
                index,
                len: cluster,
                block: taken.block,
            },
        );
        Some(taken)
    }

    /// Extends a file to at least `pages` blocks and makes the changes in bitmap and tables.
    ///
    /// # Errors
    /// No cluster is free, or a block of the tables could not be read or written.
    pub(super) async fn extend<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        pages: u64,
    ) -> Result<(), FsError> {
        while length(fs, mapping) < pages {
            self.use_volume(mm).await?;
            // Finds the end of the chain (`fat_chain_add`).
            if let Some(last) = length(fs, mapping).checked_sub(1) {
                let cluster = last as u32 / self.geometry.cluster;
                self.follow(mm, fs, mapping, cluster).await;
            }
            if length(fs, mapping) >= pages {
                break;
            }
            let nth = length(fs, mapping) as u32 / self.geometry.cluster;
            let taken = self.take_for(fs, mapping).ok_or(FsError::NoSpace)?;
            let block = |c: u32| fs.mapped(mapping, c * self.geometry.cluster).map(|m| m.0);
            let before: Vec<u64> = match EX && taken.in_row {
                true => Vec::new(),
                // exFAT: all predecessors, if the table was not needed so far.
                false if EX && !self.file(mapping, |f| f.chained) => {
                    (0..nth).filter_map(block).collect()
                }
                false => nth.checked_sub(1).and_then(block).into_iter().collect(),
            };
            let chained = self.file(mapping, |f| {
                f.chained |= !taken.in_row;
                f.chained
            });
            self.link(mm, taken, &before, chained, self.sync).await?;
            self.touch(mm, mapping);
        }
        Ok(())
    }

    /// Adds a new cluster to a chain: changes the bitmap (exFAT) and the table entries. `before`:
    /// the clusters whose entries change with it, its predecessor last; `chained`: the chain is in
    /// the table. `wait`: whether to wait for each table sector, as the chain's owner requires
    /// (`inode_needs_sync`).
    pub(super) async fn link<const T: bool>(
        &self,
        mm: &SimMm<T>,
        taken: Taken,
        before: &[u64],
        chained: bool,
        wait: bool,
    ) -> Result<(), FsError> {
        if EX {
            self.change(mm, self.geometry.bit(taken.block), true, wait)
                .await?;
            if !chained {
                return Ok(());
            }
        } else {
            self.search(mm, taken).await;
            self.count_changed(mm);
        }
        let mut changed = None;
        for &block in [taken.block].iter().chain(before) {
            let at = self.geometry.entry(block);
            // Changes of entries in one sector count as one if they are not waited for.
            if !self.sync && changed.replace(at) == Some(at) {
                continue;
            }
            self.change_tables(mm, block, wait).await?;
        }
        Ok(())
    }

    /// Changes the entry of the cluster at `block` in all tables. The first table is waited for if
    /// `wait`, the others only with `-o sync` (`fat_mirror_bhs`).
    async fn change_tables<const T: bool>(
        &self,
        mm: &SimMm<T>,
        block: u64,
        wait: bool,
    ) -> Result<(), FsError> {
        let first = self.geometry.entry(block);
        for at in self.geometry.entries(block) {
            let waits = if at == first && !EX { wait } else { self.sync };
            self.change(mm, at, at != first, waits).await?;
        }
        Ok(())
    }

    /// Reads the blocks of the table that the search for the free cluster `taken` passed.
    async fn search<const T: bool>(&self, mm: &SimMm<T>, taken: Taken) {
        let Some(from) = taken.from else {
            return;
        };
        let geometry = &self.geometry;
        let (from, to, table) = (geometry.entry(from), geometry.entry(taken.block), geometry.table());
        // At the end of the table the search wraps to its beginning.
        let (first, then) = match from <= to {
            true => (from..to, 0..0),
            false => (from..table.end, table.start..to),
        };
        for block in first.chain(then) {
            self.read_block(mm, block).await;
        }
    }

    /// Follows a file's chain up to its `cluster`th cluster, reading the blocks of the table that
    /// are not in memory. exFAT reads nothing for a file that is not chained in the table.
    pub(super) async fn follow<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, mapping: u32, cluster: u32) {
        let size = self.geometry.cluster;
        let block = |c: u32| fs.mapped(mapping, c * size).map_or(0, |m| m.0);
        let follows = |c: u32| block(c) == block(c - 1) + u64::from(size);
        let most = if EX { EXFAT_RUNS } else { FAT_RUNS };
        let read = self.file(mapping, |f| {
            if EX && !f.chained {
                return 0..0;
            }
            f.chain.locate(cluster, most, follows)
        });
        let mut last = None;
        for at in read.map(|c| self.geometry.entry(block(c))) {
            if last.replace(at) != Some(at) {
                self.read_block(mm, at).await;
            }
        }
    }

    /// Changes bitmap and tables after clusters were freed. `gone`: the runs freed, as first block
    /// and length; `keep`: the file's pages that remain, whose last cluster now ends the chain;
    /// `chained`: the chain is in exFAT's table.
    pub(super) async fn unlink<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        gone: &[(u64, u32)],
        keep: u32,
        chained: bool,
    ) -> Result<(), FsError> {
        if gone.is_empty() {
            return Ok(());
        }
        self.use_volume(mm).await?;
        let geometry = &self.geometry;
        let last_kept = keep.checked_sub(geometry.cluster);
        let last_kept = last_kept.and_then(|at| Some(fs.mapped(mapping, at)?.0));
        if let Some(last_kept) = last_kept.filter(|_| !EX || chained) {
            self.change_tables(mm, last_kept, self.dirsync).await?;
        }
        for &(block, len) in gone {
            // A run may cover its last cluster in part: a page beside the cut may have been written
            // back meanwhile.
            let last = block + u64::from((len - 1) / geometry.cluster * geometry.cluster);
            if EX {
                for at in geometry.bit(block)..=geometry.bit(last) {
                    self.change(mm, at, true, self.dirsync).await?;
                }
                continue;
            }
            for at in geometry.entry(block)..=geometry.entry(last) {
                for copy in 0..geometry.fats {
                    let at = at + copy * (geometry.table().end - geometry.table().start);
                    self.change(mm, at, copy > 0, self.sync).await?;
                }
            }
        }
        if !EX {
            self.count_changed(mm);
        }
        Ok(())
    }
}
