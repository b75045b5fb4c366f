//! Everything by which threads meet: locks, atomics, time, what belongs to one thread.
//!
//! It stands in one place so that the model test can put its own in here and run the same text under
//! a scheduler that chooses every interleaving.

pub use parking_lot::{Condvar, Mutex, RwLock};
pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
pub use std::thread::yield_now;
pub use std::thread_local;

/// The time now.
pub fn now() -> std::time::Instant {
    std::time::Instant::now()
}
