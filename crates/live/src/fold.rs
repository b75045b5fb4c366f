//! When the counter differences of CPU slots are folded into the counters of the engine.

use crate::sync::{Condvar, Mutex};
use std::time::Duration;

/// When counter differences are folded (`world::daemon::vmstat`).
#[derive(Default)]
pub struct Fold {
    /// A task asked for it; no more folds.
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Fold {
    /// Asks for the next fold at once: a task waits for a level of which differences may be a large
    /// part.
    pub fn ask(&self) {
        self.state.lock().0 = true;
        self.changed.notify_all();
    }

    /// Ends the thread that folds.
    pub fn stop(&self) {
        self.state.lock().1 = true;
        self.changed.notify_all();
    }

    /// Waits for the time of the next fold; returns false if there are to be no more.
    pub fn wait(&self) -> bool {
        let mut state = self.state.lock();
        if !state.0 && !state.1 {
            self.changed.wait_for(&mut state, Duration::from_secs(1));
        }
        state.0 = false;
        !state.1
    }
}
