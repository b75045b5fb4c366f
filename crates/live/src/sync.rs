//! Locks, atomics, time and thread-locals of the crate.
//!
//! They are collected in one file so that the model test can substitute its own and run the same
//! source under a scheduler that tries interleavings.

pub use parking_lot::{Condvar, Mutex, RwLock};
pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
pub use std::thread::yield_now;
pub use std::thread_local;

/// Returns the present time.
pub fn now() -> std::time::Instant {
    std::time::Instant::now()
}
