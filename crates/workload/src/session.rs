//! What the processes of one run share.

use crate::fio;
use crate::measure::{Events, Kind, Measure, Responses};
use crate::programs::simoop;
use crate::replay::{Feed, Replay};
use crate::script::{Report, Script};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a script's programs share, as the script holds it: the same for every run.
#[derive(Debug, Clone, PartialEq)]
pub enum Shared {
    /// A trace.
    Trace(Arc<Replay>),
    /// One of a fio job's processes.
    Fio(Arc<fio::Job>, u32),
}

/// What the processes of one run share. Made anew for each run; no lock of it is ever held while
/// a program waits.
#[derive(Default)]
pub struct Session {
    measure: Mutex<Measure>,
    responses: Mutex<Responses>,
    /// One of each simoop that has begun.
    logs: Mutex<Vec<simoop::Log>>,
    /// Whether there will be one.
    logging: bool,
    states: Vec<State>,
}

enum State {
    Trace(Arc<Replay>, Box<Mutex<Feed>>),
    Fio(Arc<fio::Job>, Mutex<fio::Progress>),
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
            responses: Mutex::default(),
            logs: Mutex::default(),
            logging: script.has_simoop(),
            states: script
                .shared
                .iter()
                .map(|shared| match shared {
                    Shared::Trace(replay) => {
                        State::Trace(Arc::clone(replay), Box::new(Mutex::new(Feed::new(replay))))
                    }
                    Shared::Fio(job, nth) => {
                        let progress = fio::Progress::new(job, *nth);
                        State::Fio(Arc::clone(job), Mutex::new(progress))
                    }
                })
                .collect(),
        }
    }

    /// What all programs measured together in a run that ended at `now`, in nanoseconds since its
    /// start; absent if none of them shares or responds to anything.
    pub fn report(&self, now: u64) -> Option<Report> {
        let calls = (!self.states.is_empty()).then(|| lock(&self.measure).report());
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
    pub(crate) fn expect_responses(&self) -> usize {
        lock(&self.responses).client()
    }

    /// The events that a task responds to next.
    pub(crate) fn await_response(&self, client: usize, events: Option<Events>) {
        lock(&self.responses).await_response(client, events);
    }

    /// The first `n` of `events` had their response at `now`.
    pub(crate) fn respond(&self, events: &Events, n: u64, now: u64) {
        lock(&self.responses).note(events, n, now);
    }

    pub(crate) fn note(&self, kind: Kind, span: (u64, u64), bytes: u64, wanted: u64) {
        lock(&self.measure).note(kind, span, bytes, wanted);
    }

    /// A simoop that begins; returns the number of its log.
    pub(crate) fn begin_log(&self, log: simoop::Log) -> usize {
        let mut logs = lock(&self.logs);
        logs.push(log);
        logs.len() - 1
    }

    /// Reads or changes a simoop's log.
    pub(crate) fn with_log<R>(&self, log: usize, f: impl FnOnce(&mut simoop::Log) -> R) -> R {
        f(&mut lock(&self.logs)[log])
    }

    /// What the programs say of themselves as they run, for a run's time series: name, unit and
    /// value. The same names in the same order at any time of a run.
    pub fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        if !self.logging {
            return Vec::new();
        }
        let logs = lock(&self.logs);
        let [work, stalls] = logs.iter().fold([0.0, 0.0], |sum, log| {
            let rates = log.rates();
            [sum[0] + rates[0], sum[1] + rates[1]]
        });
        vec![
            ("work_rate", "1/s", work),
            ("alloc_stall_rate", "1/s", stalls),
        ]
    }

    /// # Panics
    /// If what the script shares at this place is no trace.
    pub(crate) fn trace(&self, at: usize) -> (&Replay, &Mutex<Feed>) {
        match &self.states[at] {
            State::Trace(replay, feed) => (replay, feed),
            State::Fio(..) => panic!("{at} is a fio job and no trace"),
        }
    }

    /// # Panics
    /// If what the script shares at this place is no fio job.
    pub(crate) fn fio(&self, at: usize) -> (&fio::Job, &Mutex<fio::Progress>) {
        match &self.states[at] {
            State::Fio(job, progress) => (job, progress),
            State::Trace(..) => panic!("{at} is a trace and no fio job"),
        }
    }
}
