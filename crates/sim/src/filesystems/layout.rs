//! Places of a filesystem's fixed metadata: superblocks, journal or log, inode tables, bitmaps.
//!
//! Each filesystem has fixed places in the first 256 MiB of its disk. On a disk of less than 2 GiB
//! they take an eighth of it, scaled down in proportion: a journal of 128 MiB does not fit on a
//! stick of 64 MiB, and mkfs makes shorter ones for small disks, too
//! (`ext2fs_default_journal_size`, `calculate_log_size`).

/// Blocks of the front of a large disk.
const FRONT: u64 = 65_536;
/// Divisor for smaller disks: the front takes one part in this many.
const PART: u64 = 8;
/// Places of the root directory's inode and block, made by mkfs.
const ROOT_INODES: u64 = 64;
const ROOT_BLOCK: u64 = 96;
/// Place of the inode tables, one for each group: a bitmap, then inodes.
const TABLES: u64 = 33_792;
const TABLE_BLOCKS: u64 = 512;
/// Number of groups whose tables fit.
const GROUPS: u64 = 62;

/// The front of one disk; places and lengths are given as for a large disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    blocks: u64,
    capacity: u64,
    root_block: Option<u64>,
}

impl Layout {
    /// Returns the layout of a filesystem of `capacity` blocks.
    pub fn new(capacity: u64) -> Self {
        Self {
            blocks: FRONT.min(capacity / PART).max(1),
            capacity,
            root_block: None,
        }
    }

    /// Returns the layout of a filesystem of `capacity` blocks that places its metadata itself in
    /// the first `blocks` blocks, with the root directory's first block at `root_block`.
    pub fn of_its_own(capacity: u64, blocks: u64, root_block: u64) -> Self {
        Self {
            blocks: blocks.min(capacity).max(1),
            capacity,
            root_block: Some(root_block),
        }
    }

    /// Returns the number of blocks of the filesystem.
    pub fn capacity(self) -> u64 {
        self.capacity
    }

    /// Returns the number of blocks of the front: data begins behind them.
    pub fn blocks(self) -> u64 {
        self.blocks
    }

    /// Returns the block for a place. Places keep their order; places close together may fall on
    /// one block of a small disk. Block 0 is left unused unless it is the only one.
    pub fn place(self, at: u64) -> u64 {
        (at * self.blocks / FRONT).max(1).min(self.blocks - 1)
    }

    /// Returns the length of an area of `blocks` blocks that begins at a place: at least one block.
    pub fn length(self, at: u64, blocks: u64) -> u64 {
        let end = (at + blocks) * self.blocks / FRONT;
        end.min(self.blocks).saturating_sub(self.place(at)).max(1)
    }

    /// Returns the block of the root directory's inode.
    pub fn root_inode(self) -> u64 {
        self.place(ROOT_INODES)
    }

    /// Returns the block of the root directory's entries.
    pub fn root_block(self) -> u64 {
        self.root_block.unwrap_or_else(|| self.place(ROOT_BLOCK))
    }

    /// Returns the number of blocks of a group's inode table: its bitmap and at least one block of
    /// inodes.
    pub fn table_blocks(self) -> u64 {
        (self.length(TABLES, GROUPS * TABLE_BLOCKS) / GROUPS).max(2)
    }

    /// Returns the number of groups whose inode tables fit.
    pub fn groups(self) -> u32 {
        let area = self.length(TABLES, GROUPS * TABLE_BLOCKS);
        (area / self.table_blocks()).clamp(1, GROUPS) as u32
    }

    /// Returns the first block of a group's inode table: its bitmap.
    pub fn table(self, group: u32) -> u64 {
        self.place(TABLES) + u64::from(group % self.groups()) * self.table_blocks()
    }

    /// Returns the range, in blocks behind the front, in which data may begin: at most an eighth of
    /// the disk.
    pub fn spread(self, capacity: u64, spread: u64) -> u64 {
        spread.min(capacity / PART)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_disks_keep_their_places() {
        for capacity in [1 << 19, 1 << 22, 1 << 38] {
            let l = Layout::new(capacity);
            assert_eq!(
                (l.blocks(), l.place(1024), l.length(1024, 32_768)),
                (FRONT, 1024, 32_768)
            );
        }
    }

    #[test]
    fn areas_of_small_disks_lie_in_the_front() {
        for capacity in 1..5000 {
            let l = Layout::new(capacity);
            for (at, blocks) in [(16, 1), (64, 4), (1024, 32_768), (33_792, 31_744)] {
                let (first, n) = (l.place(at), l.length(at, blocks));
                assert!(
                    n >= 1 && first + n <= capacity.max(1),
                    "{capacity}: {first} {n}"
                );
            }
        }
    }
}
