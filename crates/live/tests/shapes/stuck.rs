//! Shared by tests whose threads may be stuck for ever: values that outlive them, and a watchdog.

use lowmark_cache::{Config, Held};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

/// A cache of `memory` bytes with as few CPU slots as it may have.
pub fn small(memory: u64) -> Config {
    Config {
        memory,
        cpus: 2,
        held: Held::Ordinary,
        ..Config::default()
    }
}

/// Keeps a value for the rest of the process, so that threads which are left behind may use it.
pub fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// Runs `f` on a thread of its own and returns its result; panics if that takes longer than
/// `limit`.
pub fn within<T: Send + 'static>(limit: Duration, f: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::channel();
    let thread = std::thread::spawn(move || tell.send(f()));
    match told.recv_timeout(limit) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("not over after {limit:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(_) => unreachable!("the thread sent its result"),
        },
    }
}

/// Makes a folder that stays, since a test that fails leaves threads in it.
pub fn folder() -> &'static Path {
    leak(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")).path()
}
