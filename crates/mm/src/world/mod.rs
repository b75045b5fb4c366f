//! The one seam between the engine and everything outside it.
//!
//! The engine knows no clock, thread, file or random number. Whatever it wants it asks of a
//! [`World`]: [`Tasks`] and time, [`Storage`], and somebody to [`Watch`]. The virtual world answers
//! with simulated time and plain cells; a live world with threads, atomics and mutexes. The engine's
//! code is the same in both.

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

/// What the engine wants from outside: its words of state, and three kinds of answers.
pub trait World: Tasks + Storage<Self> + Watch + Sized {
    /// 32-bit state words.
    type U32: Word32 + bytemuck::Zeroable;
    /// 64-bit state words.
    type U64: Word64 + bytemuck::Zeroable;
    /// Short locks.
    type Lock: ShortLock + Default;
    /// Caches of its own that reclaim may ask for objects, at most ([`Storage::shrinkers`]).
    const SHRINKERS: usize = 0;
    /// Whether a page may be moved to another frame (`compaction`): not where programs hold the bytes of one.
    const MOVES_PAGES: bool = true;
}
