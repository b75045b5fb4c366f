//! Tells a process from its children after fork(2).
//!
//! A child has the memory of a cache and none of its threads, and a lock may have been held by a
//! thread that the child does not have. So the calls of a cache that was made before a fork fail in
//! the child ([`crate::Error::Forked`]), and what the child drops is left as it is.
#![allow(unsafe_code)]

use std::sync::Once;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// How often this process and those before it forked into the next, counted in the children.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Counts the fork; called in the child by the C library.
extern "C" fn forked() {
    FORKS.fetch_add(1, Relaxed);
}

/// The process that made a value.
#[derive(Debug, Clone, Copy)]
pub struct Born(u32);

impl Born {
    /// Returns the present process.
    pub fn here() -> Self {
        static WATCH: Once = Once::new();
        WATCH.call_once(|| {
            // SAFETY: the handler does nothing but add to an atomic, which is allowed in a child
            // of a process with threads. If the C library has no memory for the handler, forks are
            // not noticed.
            unsafe { libc::pthread_atfork(None, None, Some(forked)) };
        });
        Self(FORKS.load(Relaxed))
    }

    /// Returns true in a child of the process that made the value.
    #[inline]
    pub fn elsewhere(self) -> bool {
        self.0 != FORKS.load(Relaxed)
    }
}
