//! Tags: what a request carries through the block layer to its completion.

use mm::Pfn;

/// The object whose completion a bio's end is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// Pages of a file, in a row.
    Pages {
        /// The file's mapping.
        mapping: u32,
        /// Index of the first page.
        index: u32,
    },
    /// Pages that leave writeback, or are unlocked after a read, together.
    End {
        /// Index in the table of ends ([`IoEnds`](crate::filesystems::ioend::IoEnds)).
        id: u32,
    },
    /// A page of the swap area.
    Swap {
        /// The page's frame.
        pfn: Pfn,
    },
    /// The cluster of an XFS inode.
    Inode {
        /// The inode whose cluster is written.
        ino: u32,
    },
    /// No page: the completion wakes a wait queue.
    Raw {
        /// Wait queue.
        queue: u32,
    },
}

impl Tag {
    /// Packs the tag into the 64 bits that a bio has for it: kind or file in the upper half, number
    /// in the lower.
    pub(crate) fn pack(self) -> u64 {
        match self {
            Self::Pages { mapping, index } => u64::from(mapping) << 32 | u64::from(index),
            Self::End { id } => 0xffff_fffc << 32 | u64::from(id),
            Self::Inode { ino } => 0xffff_fffd << 32 | u64::from(ino),
            Self::Swap { pfn } => 0xffff_fffe << 32 | u64::from(pfn),
            Self::Raw { queue } => 0xffff_ffff << 32 | u64::from(queue),
        }
    }

    /// Returns the tag for the part of a split bio behind its first `blocks` blocks: only the index
    /// of a page moves.
    pub(super) fn after(self, blocks: u32) -> Self {
        match self {
            Self::Pages { mapping, index } => Self::Pages {
                mapping,
                index: index + blocks,
            },
            whole => whole,
        }
    }

    /// Unpacks the tag from a bio's 64 bits, the reverse of `pack`.
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
