//! Bios, which go into a request queue, and their completions, which come out.

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

    /// Returns the class's index in arrays by class.
    pub fn index(self) -> usize {
        self as usize
    }
}

impl Dir {
    /// Returns the direction's index in arrays by direction.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// A transfer of consecutive 4 KiB blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bio {
    /// The submitter's identifier for this bio; handed back in [`Done`], never interpreted here.
    pub tag: u64,
    /// Read or write.
    pub dir: Dir,
    /// True if a task waits for the transfer. Reads count as synchronous whatever this says.
    pub sync: bool,
    /// First block.
    pub block: u64,
    /// Number of blocks: at least 1, at most [`super::Queue::max_request_blocks`].
    pub blocks: u32,
    /// Purpose of a write, which decides how writeback throttling treats it; reads are never held
    /// back.
    pub purpose: Purpose,
}

/// The purpose of a write, by which writeback throttling decides how long to hold it back
/// (`REQ_BACKGROUND`, `REQ_SYNC`, `REQ_SWAP`, `REQ_IDLE`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Purpose {
    /// Background and periodic writeback.
    Background,
    /// Other writeback that no task waits for.
    #[default]
    Writeback,
    /// A write that a task waits for, or metadata.
    Waited,
    /// A page written to swap.
    Swap,
    /// A log or journal write, or a write that bypasses the page cache: never held back.
    Exempt,
}

impl Bio {
    /// Returns the class whose requests the bio counts against.
    pub fn class(&self) -> Class {
        if self.sync || self.dir == Dir::Read {
            Class::Sync
        } else {
            Class::Async
        }
    }

    /// Returns the block after the bio's last one.
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
    /// The tag that the bio was submitted with.
    pub tag: u64,
    /// Read or write.
    pub dir: Dir,
    /// True if the bio was submitted as synchronous.
    pub sync: bool,
    /// Number of blocks of the bio.
    pub blocks: u32,
    /// The error; `None` if the data was transferred.
    pub error: Option<IoError>,
}
