//! State shared by the processes of one run.

use crate::measure::{Events, Kind, Measure, Responses};
use crate::report::Report;
use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A figure at some time of a run: name, unit and value.
pub type Gauge = (&'static str, &'static str, f64);

/// State shared by the processes of one run. Made anew for each run
/// ([`Script::session`](crate::Script::session)); none of its locks is ever held while a program
/// waits. Where tasks are threads, they share one session.
#[derive(Default)]
pub struct Session {
    measure: Mutex<Measure>,
    /// Whether programs measure their calls in `measure`.
    calls: bool,
    responses: Mutex<Responses>,
    /// States added by programs, by type and number.
    states: BTreeMap<(TypeId, usize), Box<dyn Any + Send + Sync>>,
    /// Functions that return gauges during the run.
    gauges: Vec<fn(&Self) -> Vec<Gauge>>,
}

/// Locks a mutex and ignores poison: the data has no invariants that a panic could break.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// Adds a state for processes to share, which `make` makes, unless there is one of this type
    /// and number already. Returns true if it was added. The number tells states of one type apart.
    pub fn share<S: Any + Send + Sync>(&mut self, number: usize, make: impl FnOnce() -> S) -> bool {
        let key = (TypeId::of::<S>(), number);
        let new = !self.states.contains_key(&key);
        if new {
            self.states.insert(key, Box::new(make()));
        }
        new
    }

    /// Returns the shared state of type `S` with this number.
    ///
    /// # Panics
    /// If none was added when the run began.
    pub fn shared<S: Any>(&self, number: usize) -> &S {
        let state = self.states.get(&(TypeId::of::<S>(), number));
        let state = state.and_then(|state| state.downcast_ref());
        state.expect("what a program shares is made when its run begins")
    }

    /// Adds a function that returns gauges during the run, always of the same names in the same
    /// order.
    pub fn add_gauges(&mut self, gauges: fn(&Self) -> Vec<Gauge>) {
        self.gauges.push(gauges);
    }

    /// Returns the gauges of the programs, for a run's time series. Their names and order are the
    /// same at any time of a run.
    pub fn gauges(&self) -> Vec<Gauge> {
        self.gauges.iter().flat_map(|of| of(self)).collect()
    }

    /// Declares that calls of some programs are measured ([`Self::note`]), so that they are
    /// reported even if there are none.
    pub fn expect_calls(&mut self) {
        self.calls = true;
    }

    /// Returns true if [`Self::expect_calls`] was called.
    pub fn measures_calls(&self) -> bool {
        self.calls
    }

    /// Returns the combined measurements of all programs in a run that ended at `now`, in
    /// nanoseconds since its start: measured calls, and responses to events. `None` if no program
    /// measures its calls or responds to events.
    pub fn report(&self, now: u64) -> Option<Report> {
        let calls = self.calls.then(|| lock(&self.measure).report());
        let responses = lock(&self.responses).report(now);
        match (calls, responses) {
            (Some(mut calls), Some(responses)) => {
                calls.add(responses);
                Some(calls)
            }
            (calls, responses) => calls.or(responses),
        }
    }

    /// Registers a task that responds to events; returns its number.
    pub fn expect_responses(&self) -> usize {
        lock(&self.responses).client()
    }

    /// Sets the events that a task responds to next.
    pub fn await_response(&self, client: usize, events: Option<Events>) {
        lock(&self.responses).await_response(client, events);
    }

    /// Records that the first `n` of `events` got their response at `now`, in nanoseconds since the
    /// start.
    pub fn respond(&self, events: &Events, n: u64, now: u64) {
        lock(&self.responses).note(events, n, now);
    }

    /// Records a call with its start and end, in nanoseconds since the start, which moved `bytes`
    /// of the `wanted` bytes.
    pub fn note(&self, kind: Kind, span: (u64, u64), bytes: u64, wanted: u64) {
        lock(&self.measure).note(kind, span, bytes, wanted);
    }
}
