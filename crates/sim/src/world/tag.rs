//! What requests carry through the block layer.

use mm::Pfn;

/// What a bio's tag says about its pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// Pages of a file from an index on.
    Pages {
        /// The file.
        mapping: u32,
        /// First page.
        index: u32,
    },
    /// Pages that leave writeback together.
    End {
        /// Their number in the table of ends.
        id: u32,
    },
    /// A page of the swap area.
    Swap {
        /// Its slot.
        pfn: Pfn,
    },
    /// The cluster of an XFS inode.
    Inode {
        /// The inode for which it is written.
        ino: u32,
    },
    /// No page: whoever waits on the queue is told.
    Raw {
        /// Wait queue.
        queue: u32,
    },
}

impl Tag {
    pub(crate) fn pack(self) -> u64 {
        match self {
            Self::Pages { mapping, index } => u64::from(mapping) << 32 | u64::from(index),
            Self::End { id } => 0xffff_fffc << 32 | u64::from(id),
            Self::Inode { ino } => 0xffff_fffd << 32 | u64::from(ino),
            Self::Swap { pfn } => 0xffff_fffe << 32 | u64::from(pfn),
            Self::Raw { queue } => 0xffff_ffff << 32 | u64::from(queue),
        }
    }

    /// The tag of what follows the first `blocks` blocks.
    pub(super) fn after(self, blocks: u32) -> Self {
        match self {
            Self::Pages { mapping, index } => Self::Pages {
                mapping,
                index: index + blocks,
            },
            whole => whole,
        }
    }

    pub(super) fn unpack(v: u64) -> Self {
        match (v >> 32) as u32 {
            0xffff_ffff => Self::Raw { queue: v as u32 },
            0xffff_fffc => Self::End { id: v as u32 },
            0xffff_fffd => Self::Inode { ino: v as u32 },
            0xffff_fffe => Self::Swap { pfn: v as u32 },
            mapping => Self::Pages {
                mapping,
                index: v as u32,
            },
        }
    }
}
