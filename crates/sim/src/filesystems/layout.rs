//! Where a filesystem's fixed metadata is: superblocks, journal or log, inode tables, bitmaps.
//!
//! Each filesystem has its places in the first 256 MiB of its disk. On a disk of less than 2 GiB they
//! take an eighth of it, drawn together in proportion: a journal of 128 MiB has no room on a stick of
//! 64 MiB, and mkfs makes shorter ones for small disks, too (`ext2fs_default_journal_size`,
//! `calculate_log_size`).

/// Blocks at the front of a large disk.
const FRONT: u64 = 65_536;
/// On a smaller disk: one part in so many of it.
const PART: u64 = 8;
/// Where the root directory's inodes and block are, made by mkfs.
const ROOT_INODES: u64 = 64;
const ROOT_BLOCK: u64 = 96;
/// Inode tables, one a group: a bitmap, then inodes.
const TABLES: u64 = 33_792;
const TABLE_BLOCKS: u64 = 512;
/// Groups whose tables fit.
const GROUPS: u64 = 62;

/// The front of one disk; places and lengths are given as on a large one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    blocks: u64,
    capacity: u64,
    root_block: Option<u64>,
}

impl Layout {
    /// That of a filesystem of so many blocks.
    pub fn new(capacity: u64) -> Self {
        Self {
            blocks: FRONT.min(capacity / PART).max(1),
            capacity,
            root_block: None,
        }
    }

    /// That of a filesystem of so many blocks which has places of its own in the first `blocks` of them, the
    /// root directory's first block among them.
    pub fn of_its_own(capacity: u64, blocks: u64, root_block: u64) -> Self {
        Self {
            blocks: blocks.min(capacity).max(1),
            capacity,
            root_block: Some(root_block),
        }
    }

    /// Blocks of the filesystem.
    pub fn capacity(self) -> u64 {
        self.capacity
    }

    /// Blocks of the front: data begins behind them.
    pub fn blocks(self) -> u64 {
        self.blocks
    }

    /// The block for a place. Places keep their order; those close together may fall on one block of
    /// a small disk. Block 0 is nobody's, unless there is no other.
    pub fn place(self, at: u64) -> u64 {
        (at * self.blocks / FRONT).max(1).min(self.blocks - 1)
    }

    /// The length of an area that begins at a place, at least one block.
    pub fn length(self, at: u64, blocks: u64) -> u64 {
        let end = (at + blocks) * self.blocks / FRONT;
        end.min(self.blocks).saturating_sub(self.place(at)).max(1)
    }

    /// The block of the root directory's inode.
    pub fn root_inode(self) -> u64 {
        self.place(ROOT_INODES)
    }

    /// The block of the root directory's entries.
    pub fn root_block(self) -> u64 {
        self.root_block.unwrap_or_else(|| self.place(ROOT_BLOCK))
    }

    /// Blocks of a group's inode table; a table has its bitmap and at least one block of inodes.
    pub fn table_blocks(self) -> u64 {
        (self.length(TABLES, GROUPS * TABLE_BLOCKS) / GROUPS).max(2)
    }

    /// Groups whose inode tables fit.
    pub fn groups(self) -> u32 {
        let area = self.length(TABLES, GROUPS * TABLE_BLOCKS);
        (area / self.table_blocks()).clamp(1, GROUPS) as u32
    }

    /// The first block of a group's inode table: its bitmap.
    pub fn table(self, group: u32) -> u64 {
        self.place(TABLES) + u64::from(group % self.groups()) * self.table_blocks()
    }

    /// Where data begins at the latest: a disk keeps most of itself for it.
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
