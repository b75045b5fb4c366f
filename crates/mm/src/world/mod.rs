//! The interface between the engine and everything outside it.
//!
//! The engine has no clock, thread, file or random number of its own; it asks a [`World`] for them:
//! [`Tasks`] and time, [`Storage`], and a receiver of events, [`Watch`]. The virtual world answers
//! with simulated time and plain cells; a live world with threads, atomics and mutexes. The
//! engine's code is the same in both.

pub mod event;
mod storage;
mod tasks;
mod watch;
mod words;

pub use storage::{
    Class, Faulted, ReadAround, Storage, Touched, WalkRange, WritebackControl, Writepage,
};
pub use tasks::{COSTS, Cost, TaskId, Tasks, WaitQueue, Waited, WaitedKind, Waits};
pub use watch::{AllocPath, Audience, OomKill, Watch};
pub use words::{ShortLock, Word32, Word64};

/// The outside of the engine: the types of its state words, and the three interfaces that it calls.
pub trait World: Tasks + Storage<Self> + Watch + Sized {
    /// 32-bit state words.
    type U32: Word32 + bytemuck::Zeroable;
    /// 64-bit state words.
    type U64: Word64 + bytemuck::Zeroable;
    /// Short locks.
    type Lock: ShortLock + Default;
    /// The largest number of caches of the world's own that reclaim may ask for objects
    /// ([`Storage::shrinkers`]).
    const SHRINKERS: usize = 0;
    /// Whether compaction may move a page to another frame; false where programs hold references to
    /// a page's bytes.
    const MOVES_PAGES: bool = true;
}
