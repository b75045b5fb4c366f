//! Figures from events: reclaim's sums by the engine's own code, direct reclaim's times, writers' pauses.

use super::format::{Formats, Point, Says};
use hdrhistogram::Histogram;
use mm::world::TaskId;
use mm::world::event::{Event, IsolateMode};
use sim::account::{Reclaim, ReclaimSums};
use sim::latency::AllocClass;
use sim::result::{Metric, RunResult};
use std::collections::BTreeMap;

/// An event, as far as figures need it.
#[derive(Debug, Clone, Copy)]
pub struct Occurred {
    at: u64,
    pid: u64,
    what: What,
}

#[derive(Debug, Clone, Copy)]
enum What {
    Reclaim(Event),
    /// Milliseconds that a writer is going to sleep.
    Pause(i64),
    /// Microseconds that a reclaimer slept.
    Throttled(i64),
}

impl Occurred {
    /// Nanoseconds of the ring's clock.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Reads one; `None`: it is too short.
    pub fn new(at: u64, point: &Point, event: &[u8]) -> Option<Self> {
        // Fields that no sum reads are left at 0.
        let what = match point.says {
            Says::KswapdSleep => What::Reclaim(Event::KswapdSleep { nid: 0 }),
            Says::KswapdWake => What::Reclaim(Event::KswapdWake { nid: 0, order: 0 }),
            Says::WakeupKswapd => What::Reclaim(Event::WakeupKswapd {
                nid: 0,
                zid: 0,
                order: 0,
                gfp: 0,
            }),
            Says::Begin => What::Reclaim(Event::DirectReclaimBegin {
                order: 0,
                may_writepage: false,
                gfp: 0,
            }),
            Says::End => What::Reclaim(Event::DirectReclaimEnd { nr_reclaimed: 0 }),
            Says::Isolate {
                scanned,
                lru,
                active,
            } => {
                let list = lru.unsigned(event)?;
                let of_active = list < 64 && active >> list & 1 == 1;
                What::Reclaim(Event::LruIsolate {
                    mode: if of_active {
                        IsolateMode::Active
                    } else {
                        IsolateMode::Inactive
                    },
                    classzone: 0,
                    order: 0,
                    nr_requested: 0,
                    nr_scanned: u32::try_from(scanned.unsigned(event)?).unwrap_or(u32::MAX),
                    nr_skipped: 0,
                    nr_taken: 0,
                    lru: 0,
                })
            }
            Says::Write { flags, file, sync } => {
                let flags = flags.unsigned(event)?;
                What::Reclaim(Event::Writepage {
                    pfn: 0,
                    file: flags & file != 0,
                    sync: flags & sync != 0,
                })
            }
            Says::Dirty { pause } => What::Pause(pause.signed(event)?),
            Says::Throttled { delayed } => What::Throttled(delayed.signed(event)?),
        };
        let pid = point.pid.unsigned(event)?;
        Some(Self { at, pid, what })
    }
}

/// A figure that is a sum of times and their longest.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Times {
    number: u64,
    total_ns: u64,
    max_ns: u64,
}

impl Times {
    fn add(&mut self, ns: u64) {
        self.number += 1;
        self.total_ns = self.total_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
    }
}

/// Sums up.
pub struct Sums {
    tasks: BTreeMap<u64, TaskId>,
    reclaim: Reclaim,
    start: u64,
    end: u64,
    /// Whether the workload has begun.
    begun: bool,
    /// Who is in direct reclaim, since when.
    inside: BTreeMap<u64, u64>,
    /// Direct reclaims that came to their end.
    stalls: Histogram<u64>,
    /// The longest of them; the histogram's bounds don't cut it.
    longest_ns: u64,
    /// Nanoseconds in direct reclaim by task.
    by_task: BTreeMap<u64, u64>,
    pauses: Times,
    throttled: Times,
}

impl Sums {
    /// Of events in the order of time, from the workload's start to its end; what is under way at either counts
    /// from or up to it.
    pub fn new(cast: Cast, start: u64, end: u64) -> Self {
        let tasks: BTreeMap<u64, TaskId> = cast.parts.keys().copied().zip(0..).collect();
        let reclaim = Reclaim::new(tasks.len());
        cast.enter(&tasks, &reclaim, start);
        Self {
            tasks,
            reclaim,
            start,
            end,
            begun: false,
            inside: BTreeMap::new(),
            stalls: Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("valid bounds"),
            longest_ns: 0,
            by_task: BTreeMap::new(),
            pauses: Times::default(),
            throttled: Times::default(),
        }
    }

    /// The next event.
    pub fn add(&mut self, event: &Occurred) {
        // The last look at counters is a little after the end, so what happens until then counts here, too.
        let at = event.at.min(self.end);
        if !self.begun && at >= self.start {
            self.begin();
        }
        match event.what {
            What::Reclaim(what) => {
                let Some(&task) = self.tasks.get(&event.pid) else {
                    return;
                };
                self.reclaim.count(at, task, &what);
                match what {
                    Event::DirectReclaimBegin { .. } => {
                        self.inside.insert(event.pid, at);
                    }
                    Event::DirectReclaimEnd { .. } => {
                        let since = self.inside.remove(&event.pid);
                        if let Some(since) = since.filter(|_| self.begun) {
                            self.stalled(event.pid, since, at);
                        }
                    }
                    _ => {}
                }
            }
            _ if !self.begun => {}
            What::Pause(ms) if ms > 0 => self.pauses.add((ms as u64).saturating_mul(1_000_000)),
            What::Pause(_) => {}
            What::Throttled(us) => {
                let us = u64::try_from(us).unwrap_or(0);
                self.throttled.add(us.saturating_mul(1_000));
            }
        }
    }

    fn begin(&mut self) {
        self.reclaim.restart(self.start);
        self.begun = true;
    }

    /// There are no more events.
    pub fn end(&mut self) {
        if !self.begun {
            self.begin();
        }
        for (pid, since) in std::mem::take(&mut self.inside) {
            *self.by_task.entry(pid).or_default() += self.end.saturating_sub(since.max(self.start));
        }
    }

    fn stalled(&mut self, pid: u64, since: u64, until: u64) {
        let ns = until.saturating_sub(since);
        self.stalls.saturating_record(ns.max(1));
        self.longest_ns = self.longest_ns.max(ns);
        *self.by_task.entry(pid).or_default() += until.saturating_sub(since.max(self.start));
    }

    /// What of it a kernel can tell that has these tracepoints, and lost so many events.
    pub fn traced(self, formats: &Formats, lost: Option<u64>) -> Traced {
        let mut reclaim = self.reclaim.sums(self.end);
        let mut traced = Traced::default();
        if let Some(n) = lost {
            let many = match n {
                0 => "events".to_owned(),
                n => format!("{n} events"),
            };
            traced.notes.push(format!(
                "{many} of tracepoints are lost: they came faster than the ring could be read, so what is summed up \
                 from them is not told"
            ));
            return traced;
        }
        let missing = |names: &[&'static str]| names.iter().copied().find(|n| !formats.has(n));
        let any = |names: &[&'static str]| match names.iter().any(|n| formats.has(n)) {
            true => None,
            false => names.first().copied(),
        };
        let stalls = missing(&STALLS);
        match missing(&OF_ROWS).or(stalls).or_else(|| any(&WRITES)) {
            None => {
                // No kernel that can be a guest waits for congestion: 5.16 took it out.
                for class in [&mut reclaim.direct, &mut reclaim.kswapd] {
                    (class.congest, class.conditional) = (None, None);
                }
                traced.reclaim = Some(reclaim);
            }
            Some(name) => traced.notes.push(format!(
                "the kernel has no tracepoint {name}: the rows of vmscan's events are not told"
            )),
        }
        let seconds = |ns: u64| ns as f64 / 1e9;
        if stalls.is_none() {
            traced.put("alloc_wait_max", "us", self.longest_ns as f64 / 1e3);
            traced.put(RECLAIM_WAIT, "us", self.longest_ns as f64 / 1e3);
            let most = self.by_task.values().copied().max().unwrap_or(0);
            let n = self.by_task.len();
            traced.put("direct_reclaim_tasks", "tasks", n as f64);
            traced.put("direct_reclaim_task_max", "s", seconds(most));
            traced.stalls = (!self.stalls.is_empty()).then_some(self.stalls);
        }
        if formats.has(DIRTY) {
            traced.put("dirty_pause_total", "s", seconds(self.pauses.total_ns));
            traced.put("dirty_pause_max", "s", seconds(self.pauses.max_ns));
        }
        if formats.has(THROTTLED) {
            let t = self.throttled;
            traced.put("reclaim_throttled", "events", t.number as f64);
            traced.put("reclaim_throttled_total", "s", seconds(t.total_ns));
        }
        traced
    }
}

/// What the rows need, beside those below.
const OF_ROWS: [&str; 4] = [
    "vmscan/mm_vmscan_kswapd_sleep",
    "vmscan/mm_vmscan_kswapd_wake",
    "vmscan/mm_vmscan_wakeup_kswapd",
    "vmscan/mm_vmscan_lru_isolate",
];
const STALLS: [&str; 2] = [
    "vmscan/mm_vmscan_direct_reclaim_begin",
    "vmscan/mm_vmscan_direct_reclaim_end",
];
/// Of these, one.
const WRITES: [&str; 2] = ["vmscan/mm_vmscan_write_folio", "vmscan/mm_vmscan_writepage"];
/// The longest wait of an allocation for direct reclaim.
const RECLAIM_WAIT: &str = "reclaim_wait_max";
const DIRTY: &str = "writeback/balance_dirty_pages";
const THROTTLED: &str = "vmscan/mm_vmscan_throttled";

/// What a task did first, as far as it says what had begun before.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    /// It went to sleep or woke up as kswapds do: whether it was awake before.
    kswapd: Option<bool>,
    /// It began or left direct reclaim: whether it was in it before.
    direct: Option<bool>,
}

/// The tasks that events are of.
#[derive(Debug, Default)]
pub struct Cast {
    parts: BTreeMap<u64, Part>,
    first: Option<u64>,
}

impl Cast {
    /// The next event, in the order of time.
    pub fn see(&mut self, event: &Occurred) {
        self.first.get_or_insert(event.at);
        let part = self.parts.entry(event.pid).or_default();
        let What::Reclaim(what) = event.what else {
            return;
        };
        match what {
            Event::KswapdSleep { .. } => drop(part.kswapd.get_or_insert(true)),
            Event::KswapdWake { .. } => drop(part.kswapd.get_or_insert(false)),
            Event::DirectReclaimEnd { .. } => drop(part.direct.get_or_insert(true)),
            Event::DirectReclaimBegin { .. } => drop(part.direct.get_or_insert(false)),
            _ => {}
        }
    }

    /// Says who the kswapds are, and begins what had begun before anything was recorded: a kswapd whose first
    /// event is that it goes to sleep was awake, a task that leaves direct reclaim first was in it.
    fn enter(&self, tasks: &BTreeMap<u64, TaskId>, reclaim: &Reclaim, start: u64) {
        let from = self.first.map_or(start, |first| first.min(start));
        for (pid, part) in &self.parts {
            let task = tasks[pid];
            if let Some(awake) = part.kswapd {
                reclaim.is_kswapd(task);
                if awake {
                    let wake = Event::KswapdWake { nid: 0, order: 0 };
                    reclaim.count(from, task, &wake);
                }
            }
            if part.direct == Some(true) {
                let begin = Event::DirectReclaimBegin {
                    order: 0,
                    may_writepage: false,
                    gfp: 0,
                };
                reclaim.count(from, task, &begin);
            }
        }
    }
}

/// What a run's events tell.
#[derive(Debug, Default)]
pub struct Traced {
    reclaim: Option<ReclaimSums>,
    stalls: Option<Histogram<u64>>,
    metrics: Vec<(&'static str, Metric)>,
    notes: Vec<String>,
}

impl Traced {
    fn put(&mut self, name: &'static str, unit: &'static str, value: f64) {
        self.metrics.push((name, Metric { unit, value }));
    }

    /// Whether events tell of the pages that counters have.
    fn tells_scans(sums: &ReclaimSums, result: &RunResult) -> bool {
        let counted = |name| result.counters.get(name).copied().unwrap_or(0);
        (sums.kswapd.scanned > 0 || counted("pgscan_kswapd") == 0)
            && (sums.direct.scanned > 0 || counted("pgscan_direct") == 0)
    }

    /// Into a run's result, which has the counters.
    pub fn tell(mut self, result: &mut RunResult) {
        let silent = |sums: &mut ReclaimSums| !Self::tells_scans(sums, result);
        if self.reclaim.take_if(silent).is_some() {
            self.notes.push(
                "the kernel counts pages scanned of which no event tells (the multi-generational LRU of 6.1 has none): \
                 the rows of vmscan's events are not told"
                    .to_owned(),
            );
        }
        // No tracepoint tells of the wait for reserves in front of a direct reclaim (`throttle_direct_reclaim`).
        let throttled = result.counters.get("pgscan_direct_throttle").copied();
        if throttled != Some(0) {
            let before = self.metrics.len();
            self.metrics.retain(|(name, _)| *name != RECLAIM_WAIT);
            if let Some(n) = throttled.filter(|_| self.metrics.len() < before) {
                self.notes.push(format!(
                    "{n} times a task waited for reserves in front of direct reclaim, and no tracepoint tells how long: the \
                     longest wait of an allocation is not told"
                ));
            }
        }
        result.reclaim = self.reclaim;
        let named = |h| (AllocClass::DirectReclaim.name(), h);
        result.alloc_latency.paths.extend(self.stalls.map(named));
        for (name, metric) in self.metrics {
            result.metrics.insert(name.to_owned(), metric);
        }
        result.notes.extend(self.notes);
    }
}
