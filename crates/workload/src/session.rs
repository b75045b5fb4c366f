//! What the processes of one run share.

use crate::command::{Report, Script};
use crate::measure::{Kind, Measure};
use crate::replay::{Feed, Replay};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a script's programs share, as the script holds it: the same for every run.
#[derive(Debug, Clone, PartialEq)]
pub enum Shared {
    /// A trace.
    Trace(Arc<Replay>),
}

/// What the processes of one run share. Made anew for each run; no lock of it is ever held while
/// a program waits.
pub struct Session {
    measure: Mutex<Measure>,
    states: Vec<State>,
}

enum State {
    Trace(Arc<Replay>, Mutex<Feed>),
}

/// A lock that nothing can poison for good: what it guards is plain data.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// The beginning of a run of `script`.
    pub fn new(script: &Script) -> Self {
        Self {
            measure: Mutex::default(),
            states: script
                .shared
                .iter()
                .map(|shared| match shared {
                    Shared::Trace(replay) => {
                        State::Trace(Arc::clone(replay), Mutex::new(Feed::new(replay)))
                    }
                })
                .collect(),
        }
    }

    /// What all programs measured together; absent if none of them shares anything.
    pub fn report(&self) -> Option<Report> {
        (!self.states.is_empty()).then(|| lock(&self.measure).report())
    }

    pub(crate) fn note(&self, kind: Kind, ns: u64, bytes: u64, wanted: u64) {
        lock(&self.measure).note(kind, ns, bytes, wanted);
    }

    pub(crate) fn trace(&self, at: usize) -> (&Replay, &Mutex<Feed>) {
        match &self.states[at] {
            State::Trace(replay, feed) => (replay, feed),
        }
    }
}
