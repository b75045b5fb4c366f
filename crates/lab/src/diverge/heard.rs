//! Listens to the stream of decisions of a run, and keeps their hashes, counts and texts.

use super::{Decision, MOST_DECISIONS};
use mm::world::event::Event;
use sim::ftrace;
use sim::rng::fnv1a;
use sim::world::{Listener, Moment};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Length in seconds of the time slots in which decisions are counted by kind.
pub(super) const SLOT_S: f64 = 0.1;
const SLOT_NS: u64 = 100_000_000;

/// The data that a run is listened to for.
#[derive(Debug, Clone)]
pub(super) enum Wanted {
    /// Hashes and counts of all decisions.
    Sums,
    /// The texts of the decisions with these numbers.
    Texts(Vec<Range<u64>>),
}

/// The data kept of a run.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// Decisions since the workload began.
    pub number: u64,
    /// Two hashes of each of the first decisions: of event, task and place; and of these and all
    /// other figures.
    pub hashes: Vec<[u32; 2]>,
    /// The number of decisions of each kind in each slot.
    pub kinds: BTreeMap<&'static str, Vec<u32>>,
    /// Number of slots until the workload's end.
    pub slots: usize,
    /// The texts that were wanted, with the decisions' numbers.
    pub texts: Vec<(u64, Decision)>,
}

/// Returns the hash of a decision's event, task and place.
pub(super) fn places(hashes: &[u32; 2]) -> u32 {
    hashes[0]
}

/// Returns the hash of all figures of a decision.
pub(super) fn figures(hashes: &[u32; 2]) -> u32 {
    hashes[1]
}

/// Returns the number, from 0, of the first decision that differs between two runs by the hash that
/// `of` selects (`places` or `figures`), or that only one run made because the other had ended.
/// `None`: the runs do not differ among the decisions whose hashes were kept.
pub(super) fn first_apart(a: &Heard, b: &Heard, of: fn(&[u32; 2]) -> u32) -> Option<u64> {
    let pairs = a.hashes.iter().zip(&b.hashes);
    let differs = |(_, (x, y)): &(usize, (&[u32; 2], &[u32; 2]))| of(x) != of(y);
    let found = pairs.enumerate().find(differs).map(|(nth, _)| nth as u64);
    let shorter = a.number.min(b.number);
    // One run made more decisions, and the first of these lies among those that are kept.
    let ended = a.number != b.number && shorter < MOST_DECISIONS as u64;
    found.or_else(|| ended.then_some(shorter))
}

pub(super) fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Listens to one run.
#[derive(Debug)]
pub(super) struct Hearing {
    wanted: Wanted,
    heard: Arc<Mutex<Heard>>,
    /// The time at which the workload began, in nanoseconds; `None` before its begin and after its
    /// end.
    began: Option<u64>,
    text: String,
}

impl Hearing {
    /// Starts to listen to one run for the `wanted` data, which are put into `heard`.
    pub(super) fn new(wanted: Wanted, heard: &Arc<Mutex<Heard>>) -> Self {
        Self {
            wanted,
            heard: Arc::clone(heard),
            began: None,
            text: String::new(),
        }
    }
}

/// Returns a number for the place of a decision, for its hash: the node, or node and zone packed
/// into one number. Returns 0 for events that have neither.
fn place(event: &Event) -> u64 {
    match *event {
        Event::KswapdSleep { nid } | Event::KswapdWake { nid, .. } => u64::from(nid),
        Event::WakeupKswapd { nid, zid, .. } | Event::ShrinkInactive { nid, zid, .. } => {
            u64::from(nid) << 32 | u64::from(zid)
        }
        Event::ShrinkSlabStart { nid, .. } | Event::ShrinkSlabEnd { nid, .. } => u64::from(nid),
        _ => 0,
    }
}

impl Listener for Hearing {
    /// Takes one event of the engine. Ignores events before the workload began and those that occur
    /// for every page; numbers the others (decisions) from 0. Depending on `wanted`, keeps the
    /// decision's text, or counts it by kind and time slot and keeps its two hashes.
    fn heard(&mut self, at: Moment<'_>, event: &Event) {
        let Some(began) = self.began.filter(|_| !event.by_page()) else {
            return;
        };
        let mut heard = lock(&self.heard);
        let heard = &mut *heard;
        let number = heard.number;
        heard.number += 1;
        // Nanoseconds since the workload began.
        let since = at.ns.saturating_sub(began);
        let name = ftrace::text::name(event);
        match &self.wanted {
            Wanted::Texts(ranges) if ranges.iter().any(|r| r.contains(&number)) => {
                self.text.clear();
                ftrace::text::fields(event, &mut self.text);
                let decision = Decision {
                    at: since as f64 / 1e9,
                    task: format!("{}-{}", at.comm, at.task),
                    event: format!("{name}: {}", self.text),
                };
                heard.texts.push((number, decision));
            }
            Wanted::Texts(_) => {}
            Wanted::Sums => {
                let slot = (since / SLOT_NS) as usize;
                let counts = heard.kinds.entry(name).or_default();
                if counts.len() <= slot {
                    counts.resize(slot + 1, 0);
                }
                counts[slot] += 1;
                if heard.hashes.len() < MOST_DECISIONS {
                    self.text.clear();
                    ftrace::text::fields(event, &mut self.text);
                    let short = |hash: u64| (hash ^ hash >> 32) as u32;
                    let task_hash = fnv1a(name.as_bytes()) ^ u64::from(at.task).rotate_left(40);
                    let place_hash = task_hash ^ place(event).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    let figure_hash = place_hash ^ fnv1a(self.text.as_bytes()).rotate_left(1);
                    heard.hashes.push([short(place_hash), short(figure_hash)]);
                }
            }
        }
    }

    /// Takes a mark of the trace: notes the time at which the workload begins, and at its end the
    /// number of time slots that it took. Other marks are ignored.
    fn marked(&mut self, at: Moment<'_>, text: &str) {
        if text == ftrace::BEGINS {
            self.began = Some(at.ns);
        } else if text == ftrace::ENDS {
            let since = at.ns.saturating_sub(self.began.take().unwrap_or(at.ns));
            lock(&self.heard).slots = (since / SLOT_NS) as usize + 1;
        }
    }

    fn ended(&mut self, _: &dyn Fn() -> String) {}
}
