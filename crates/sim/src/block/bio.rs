//! What goes into a queue and what comes out.

pub use crate::disks::Dir;

/// The class whose requests a bio counts against: Linux's `rw_is_sync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Reads and synchronous writes.
    Sync,
    /// Other writes.
    Async,
}

impl Class {
    /// Both classes, in the order of their indices.
    pub const ALL: [Self; 2] = [Self::Sync, Self::Async];

    /// An index for arrays by class.
    pub fn index(self) -> usize {
        self as usize
    }
}

impl Dir {
    /// An index for arrays by direction.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// A transfer of consecutive 4 KiB blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bio {
    /// The submitter's name for it; handed back in [`Done`], not looked at.
    pub tag: u64,
    /// Read or write.
    pub dir: Dir,
    /// Whether somebody waits for it. Reads count as synchronous whatever this says.
    pub sync: bool,
    /// First block.
    pub block: u64,
    /// Number of blocks: at least 1, at most [`super::Queue::max_request_blocks`].
    pub blocks: u32,
    /// What a write is for; reads are never held back.
    pub purpose: Purpose,
}

/// What a write is for, by which writeback throttling holds it back (`REQ_BACKGROUND`, `REQ_SYNC`,
/// `REQ_SWAP`, `REQ_IDLE`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Purpose {
    /// Background and periodic writeback.
    Background,
    /// Other writeback that nobody waits for.
    #[default]
    Writeback,
    /// Somebody waits for it, or it is metadata.
    Waited,
    /// A page for swap.
    Swap,
    /// A log or journal, or a program past the page cache: never held back.
    Exempt,
}

impl Bio {
    /// The class whose requests it uses.
    pub fn class(&self) -> Class {
        if self.sync || self.dir == Dir::Read {
            Class::Sync
        } else {
            Class::Async
        }
    }

    /// The block after its last.
    pub fn end(&self) -> u64 {
        self.block + u64::from(self.blocks)
    }
}

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum IoError {
    /// The medium refused the write.
    WriteFailed,
    /// The device has stopped and was taken offline.
    DeviceGone,
}

/// A bio that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// The tag it was submitted with.
    pub tag: u64,
    /// Read or write.
    pub dir: Dir,
    /// Whether it was submitted as synchronous.
    pub sync: bool,
    /// Its number of blocks.
    pub blocks: u32,
    /// Absent: the data was transferred.
    pub error: Option<IoError>,
}
