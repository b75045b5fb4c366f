//! A lock that all files of a cache share, and the rule that no thread holds one during a call to a
//! file: a device that hangs would stop every file. Debug builds assert the rule.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

#[cfg(debug_assertions)]
thread_local! {
    static HELD: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Counts a shared lock that the calling thread took, or gave back if `more` is false.
#[inline]
fn count(more: bool) {
    #[cfg(debug_assertions)]
    let _ = HELD.try_with(|held| match more {
        true => held.set(held.get() + 1),
        false => held.set(held.get() - 1),
    });
    #[cfg(not(debug_assertions))]
    let _ = more;
}

/// Asserts in debug builds that the calling thread, which is about to call a file or the storage,
/// holds no shared lock.
#[inline]
pub fn assert_none_held() {
    #[cfg(debug_assertions)]
    let _ = HELD.try_with(|held| assert_eq!(held.get(), 0, "I/O under a lock of all files"));
}

/// A value that all files of a cache share.
#[derive(Default)]
pub struct Shared<T>(Mutex<T>, Condvar);

/// The value while the calling thread has its lock.
pub struct Held<'a, T>(MutexGuard<'a, T>);

impl<T> Shared<T> {
    /// Takes the lock; waits only for threads that compute, never for a device.
    pub fn lock(&self) -> Held<'_, T> {
        let guard = self.0.lock();
        count(true);
        Held(guard)
    }

    /// Gives the lock back until [`Shared::changed`] is called, `most` at most, and takes it again.
    pub fn wait(&self, held: &mut Held<'_, T>, most: Duration) {
        self.1.wait_for(&mut held.0, most);
    }

    /// Wakes every thread that waits for a change.
    pub fn changed(&self) {
        self.1.notify_all();
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        count(false);
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
