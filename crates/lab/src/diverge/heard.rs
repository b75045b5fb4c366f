//! What is kept of a stream of decisions.

use super::{Decision, MOST_DECISIONS};
use mm::world::event::Event;
use sim::ftrace;
use sim::rng::fnv1a;
use sim::world::{Listener, Moment};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Kinds of decisions are counted in spans of so many seconds.
pub(super) const SLOT_S: f64 = 0.1;
const SLOT_NS: u64 = 100_000_000;

/// What a run is heard for.
#[derive(Debug, Clone)]
pub(super) enum Wanted {
    /// Sums of every decision.
    Sums,
    /// The texts of these.
    Texts(Vec<Range<u64>>),
}

/// What was heard of a run.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// Decisions since the workload began.
    pub number: u64,
    /// Of each of the first: who did what where, and all its figures, as hashes.
    pub hashes: Vec<[u32; 2]>,
    /// How many of each kind there were in each span.
    pub kinds: BTreeMap<&'static str, Vec<u32>>,
    /// Spans until the workload's end.
    pub slots: usize,
    /// What was wanted, with their numbers.
    pub texts: Vec<(u64, Decision)>,
}

/// Of a decision's hashes, who did what where.
pub(super) fn places(hashes: &[u32; 2]) -> u32 {
    hashes[0]
}

/// … and all figures.
pub(super) fn figures(hashes: &[u32; 2]) -> u32 {
    hashes[1]
}

/// The number of the first decision of which two runs' hashes differ, or that only one of them has; of those
/// that were kept.
pub(super) fn first_apart(a: &Heard, b: &Heard, of: fn(&[u32; 2]) -> u32) -> Option<u64> {
    let pairs = a.hashes.iter().zip(&b.hashes);
    let differs = |(_, (x, y)): &(usize, (&[u32; 2], &[u32; 2]))| of(x) != of(y);
    let found = pairs.enumerate().find(differs).map(|(nth, _)| nth as u64);
    let shorter = a.number.min(b.number);
    let ended = a.number != b.number && shorter < MOST_DECISIONS as u64;
    found.or_else(|| ended.then_some(shorter))
}

pub(super) fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hears a run.
#[derive(Debug)]
pub(super) struct Hearing {
    wanted: Wanted,
    heard: Arc<Mutex<Heard>>,
    /// When the workload began (ns); `None`: it has not, or it has ended.
    began: Option<u64>,
    text: String,
}

impl Hearing {
    pub(super) fn new(wanted: Wanted, heard: &Arc<Mutex<Heard>>) -> Self {
        Self {
            wanted,
            heard: Arc::clone(heard),
            began: None,
            text: String::new(),
        }
    }
}

/// Where a decision was taken: zone or node, if its event has one.
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
    fn heard(&mut self, at: Moment<'_>, event: &Event) {
        let Some(began) = self.began.filter(|_| !event.by_page()) else {
            return;
        };
        let mut heard = lock(&self.heard);
        let heard = &mut *heard;
        let number = heard.number;
        heard.number += 1;
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
                    let who = fnv1a(name.as_bytes()) ^ u64::from(at.task).rotate_left(40);
                    let what = who ^ place(event).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    let all = what ^ fnv1a(self.text.as_bytes()).rotate_left(1);
                    heard.hashes.push([short(what), short(all)]);
                }
            }
        }
    }

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
