//! Why a call failed, and that no page could be allocated.

use crate::arena::InHand;
use rustix::io::Errno;

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The operating system returned this error. From [`crate::File::fsync`]: the data written
    /// before is still in the cache, and the next sync tries again.
    #[error("{0}")]
    Io(Errno),
    /// Data written since the last sync that succeeded may be lost: the device did not confirm it,
    /// or more pages failed to be written than can be kept. Write it again.
    #[error("data could not be written and is lost: {0}")]
    Lost(Errno),
    /// Earlier data could not be written, for this reason: writes are refused until a sync of that
    /// data succeeds.
    #[error("writes are refused until earlier data is written, which failed: {0}")]
    Refused(Errno),
    /// Nothing could be reclaimed.
    #[error("out of memory")]
    OutOfMemory,
    /// Nothing could be reclaimed, and pinned pages and buffers are at least part of the reason.
    #[error(
        "out of memory: {pinned} of the cache's {pages} pages are pinned and {buffers} are \
         buffers; unpin some, or give the cache more memory"
    )]
    TooManyPins {
        /// Pages that are pinned.
        pinned: u32,
        /// Pages of [`crate::Buffer`]s.
        buffers: u32,
        /// Pages of memory.
        pages: u32,
    },
    /// There is no such class of memory.
    #[error("class {class}: accepted are 0 to {} in this cache", classes - 1)]
    NoClass {
        /// The class asked for.
        class: usize,
        /// The number of classes.
        classes: usize,
    },
    /// A buffer cannot have this many bytes.
    #[error("a buffer of {0} bytes: accepted are 1 to 32768")]
    BufferSize(usize),
    /// The largest number of shrinkers is registered.
    #[error("too many shrinkers")]
    TooManyShrinkers,
    /// A shrinker called the cache that called it.
    #[error("a shrinker may not call the cache that called it")]
    InShrinker,
    /// The file has no such page.
    #[error("the page is past the file's end")]
    BehindEnd,
    /// The range ends behind the largest file, 2^32 - 1 pages.
    #[error("the file would be larger than 16 TiB")]
    TooLarge,
    /// The path names something other than a regular file, as given, or a file on a filesystem like
    /// procfs that generates contents.
    #[error("not a regular file but {0}")]
    NotRegular(&'static str),
    /// [`crate::Config::max_files`] files are open.
    #[error("too many files")]
    TooManyFiles,
    /// [`crate::Config::max_threads`] threads use the cache, or the calling thread is about to end.
    #[error("too many threads")]
    TooManyThreads,
    /// Another cache, of this process or of another, has the file open, and one of the two could
    /// change it.
    #[error("another cache has the file open")]
    InUse,
    /// The cache ends, and the program holds a page of the file to change it
    /// ([`crate::PageMut`]), which could not be written.
    #[error("a page of the file is held to be changed, so it was not written")]
    Held,
    /// The process is a child, by fork(2), of the one that made the cache: it has none of the
    /// cache's threads.
    #[error("the cache is that of a parent process")]
    Forked,
    /// The cache was shut down.
    #[error("the cache was shut down")]
    Closed,
    /// The configuration cannot be used, for this reason.
    #[error("{0}")]
    Config(String),
}

impl From<OutOfMemory> for Error {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

impl From<InHand> for Error {
    fn from(_: InHand) -> Self {
        Self::Closed
    }
}

/// The error that no page could be allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory;
