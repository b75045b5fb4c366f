//! What the processes of one run share.

use crate::measure::{Events, Kind, Measure, Responses};
use crate::report::Report;
use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A figure at some time of a run: name, unit and value.
pub type Gauge = (&'static str, &'static str, f64);

/// What the processes of one run share. Made anew for each run
/// ([`Script::session`](crate::Script::session)); no lock of it is ever held while a program waits.
/// Where tasks are threads, they share it as it is.
#[derive(Default)]
pub struct Session {
    measure: Mutex<Measure>,
    /// Whether programs measure their calls in `measure`.
    calls: bool,
    responses: Mutex<Responses>,
    /// What programs have put here, by type and number.
    states: BTreeMap<(TypeId, usize), Box<dyn Any + Send + Sync>>,
    /// Each says some figures as the run goes.
    gauges: Vec<fn(&Self) -> Vec<Gauge>>,
}

/// A lock that nothing can poison for good: what it guards is plain data.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// Puts a state here that processes share: the one of this type and number, unless it is here
    /// already. Returns whether it is new.
    pub fn share<S: Any + Send + Sync>(&mut self, number: usize, make: impl FnOnce() -> S) -> bool {
        let key = (TypeId::of::<S>(), number);
        let new = !self.states.contains_key(&key);
        if new {
            self.states.insert(key, Box::new(make()));
        }
        new
    }

    /// The state of a type and number.
    ///
    /// # Panics
    /// If none was put here when the run began.
    pub fn shared<S: Any>(&self, number: usize) -> &S {
        let state = self.states.get(&(TypeId::of::<S>(), number));
        let state = state.and_then(|state| state.downcast_ref());
        state.expect("what a program shares is made when its run begins")
    }

    /// Lets a function say figures as the run goes. It says the same names in the same order at any
    /// time.
    pub fn add_gauges(&mut self, gauges: fn(&Self) -> Vec<Gauge>) {
        self.gauges.push(gauges);
    }

    /// What the programs say of themselves as they run, for a run's time series. The same names in
    /// the same order at any time of a run.
    pub fn gauges(&self) -> Vec<Gauge> {
        self.gauges.iter().flat_map(|of| of(self)).collect()
    }

    /// The calls of some programs are measured ([`Self::note`]), so they are reported even if there
    /// are none.
    pub fn expect_calls(&mut self) {
        self.calls = true;
    }

    /// Whether [`Self::expect_calls`] was said.
    pub fn measures_calls(&self) -> bool {
        self.calls
    }

    /// What all programs measured together in a run that ended at `now`, in nanoseconds since its
    /// start; absent if none of them measures its calls or responds to anything.
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

    /// A task that responds to events; returns its number.
    pub fn expect_responses(&self) -> usize {
        lock(&self.responses).client()
    }

    /// The events that a task responds to next.
    pub fn await_response(&self, client: usize, events: Option<Events>) {
        lock(&self.responses).await_response(client, events);
    }

    /// The first `n` of `events` had their response at `now`, in nanoseconds since the start.
    pub fn respond(&self, events: &Events, n: u64, now: u64) {
        lock(&self.responses).note(events, n, now);
    }

    /// A call that began and ended at these times, in nanoseconds since the start, and moved `bytes`
    /// of the `wanted` bytes.
    pub fn note(&self, kind: Kind, span: (u64, u64), bytes: u64, wanted: u64) {
        lock(&self.measure).note(kind, span, bytes, wanted);
    }
}
