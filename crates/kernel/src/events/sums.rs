//! Sums over events: reclaim's by the engine's own code, times in direct reclaim, pauses of
//! dirtiers.

use super::format::{Formats, Point, Says};
use hdrhistogram::Histogram;
use mm::world::TaskId;
use mm::world::event::{Event, IsolateMode};
use sim::account::{Reclaim, ReclaimSums};
use sim::latency::AllocClass;
use sim::result::{Metric, RunResult};
use std::collections::BTreeMap;

/// The parts of an event that figures need.
#[derive(Debug, Clone, Copy)]
pub struct Occurred {
    at: u64,
    pid: u64,
    what: What,
}

#[derive(Debug, Clone, Copy)]
enum What {
    Reclaim(Event),
    /// A dirtier is going to sleep for this many milliseconds.
    Pause(i64),
    /// A reclaiming task slept for this many microseconds.
    Throttled(i64),
}

impl Occurred {
    /// Returns the time in nanoseconds of the ring's clock.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Reads from an event of the trace ring at time `at` (ns) what the figures need: the pid of
    /// its task, and what happened; `None`: the event is too short.
    pub fn new(at: u64, point: &Point, event: &[u8]) -> Option<Self> {
        // Fields that no sum needs are left at 0.
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

/// Number, sum and maximum of times.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Times {
    number: u64,
    total_ns: u64,
    max_ns: u64,
}

impl Times {
    /// Adds a duration in nanoseconds to number, sum and maximum.
    fn add(&mut self, ns: u64) {
        self.number += 1;
        self.total_ns = self.total_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
    }
}

/// The sums of a run in the making.
pub struct Sums {
    tasks: BTreeMap<u64, TaskId>,
    reclaim: Reclaim,
    start: u64,
    end: u64,
    /// Whether the workload has started.
    begun: bool,
    /// The tasks in direct reclaim, by pid, and the time at which each entered it.
    inside: BTreeMap<u64, u64>,
    /// Durations of finished direct reclaims, in nanoseconds.
    stalls: Histogram<u64>,
    /// The longest of them, in nanoseconds, which the histogram's bounds would cut.
    longest_ns: u64,
    /// Nanoseconds in direct reclaim, by pid.
    by_task: BTreeMap<u64, u64>,
    pauses: Times,
    throttled: Times,
}

impl Sums {
    /// Starts the sums of events from `start` to `end` of the workload (ns of the ring's clock);
    /// work that crosses either is counted from or up to it. `cast` has the tasks of the first
    /// pass. Events must be added in the order of time.
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

    /// Adds the next event of the trace to the sums; events come in the order of time. Those of
    /// reclaim before the start are taken as well, because a task may be in direct reclaim when the
    /// measured time starts; `begin` clears what they counted.
    pub fn add(&mut self, event: &Occurred) {
        // The last sample of /proc/vmstat is taken a little after the end, so events up to it are
        // counted at the end's time.
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

    /// Begins the measured time: clears what reclaim's events before the start have counted, but
    /// keeps which tasks are in reclaim.
    fn begin(&mut self) {
        self.reclaim.restart(self.start);
        self.begun = true;
    }

    /// Ends the sums: tasks still in direct reclaim are charged up to the end.
    pub fn end(&mut self) {
        if !self.begun {
            self.begin();
        }
        for (pid, since) in std::mem::take(&mut self.inside) {
            *self.by_task.entry(pid).or_default() += self.end.saturating_sub(since.max(self.start));
        }
    }

    /// Adds a direct reclaim of the task `pid` that lasted from `since` to `until` (ns): its whole
    /// length to the durations, and its part after the start to the task's time.
    fn stalled(&mut self, pid: u64, since: u64, until: u64) {
        let ns = until.saturating_sub(since);
        self.stalls.saturating_record(ns.max(1));
        self.longest_ns = self.longest_ns.max(ns);
        *self.by_task.entry(pid).or_default() += until.saturating_sub(since.max(self.start));
    }

    /// Returns the figures that can be given with the kernel's tracepoints; `lost` is the number of
    /// lost events (0: unknown), `None` if none were lost.
    pub fn traced(self, formats: &Formats, lost: Option<u64>) -> Traced {
        let mut reclaim = self.reclaim.sums(self.end);
        let mut traced = Traced::default();
        if let Some(n) = lost {
            let many = match n {
                0 => "events".to_owned(),
                n => format!("{n} events"),
            };
            traced.notes.push(format!(
                "{many} of tracepoints are lost: they came faster than the ring buffer could be \
                 read, so figures summed from them are left out"
            ));
            return traced;
        }
        let missing = |names: &[&'static str]| names.iter().copied().find(|n| !formats.has(n));
        // The first name if the kernel has none of these tracepoints, else `None`.
        let any = |names: &[&'static str]| match names.iter().any(|n| formats.has(n)) {
            true => None,
            false => names.first().copied(),
        };
        let stalls = missing(&STALLS);
        match missing(&OF_ROWS).or(stalls).or_else(|| any(&WRITES)) {
            None => {
                // No kernel that can be a guest waits for congestion: 5.16 removed it.
                for class in [&mut reclaim.direct, &mut reclaim.kswapd] {
                    (class.congest, class.conditional) = (None, None);
                }
                traced.reclaim = Some(reclaim);
            }
            Some(name) => traced.notes.push(format!(
                "the kernel has no tracepoint {name}: the rows of vmscan's events are left out"
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

/// Tracepoints that the rows of vmscan's events need, beside one of [`WRITES`].
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
/// Two names of one tracepoint; a kernel has one of them.
const WRITES: [&str; 2] = ["vmscan/mm_vmscan_write_folio", "vmscan/mm_vmscan_writepage"];
/// The metric of an allocation's longest wait for direct reclaim.
const RECLAIM_WAIT: &str = "reclaim_wait_max";
const DIRTY: &str = "writeback/balance_dirty_pages";
const THROTTLED: &str = "vmscan/mm_vmscan_throttled";

/// The first event of a task, as far as it tells in which state the recording found the task.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    /// Set for a kswapd: whether it was awake at the start of the recording.
    kswapd: Option<bool>,
    /// Set for a task that reclaimed directly: whether it was in direct reclaim at the start of the
    /// recording.
    direct: Option<bool>,
}

/// The tasks of the events, by pid.
#[derive(Debug, Default)]
pub struct Cast {
    parts: BTreeMap<u64, Part>,
    first: Option<u64>,
}

impl Cast {
    /// Notes the task of the next event, in the order of time, and what its first events tell about
    /// its state at the start of the recording.
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

    /// Tells `reclaim` which tasks are kswapds and starts, at `start` (ns) or the first event, the
    /// work that was under way when the recording began: a kswapd whose first event is going to
    /// sleep was awake, a task whose first event is leaving direct reclaim was in it. `tasks` has
    /// the number of each pid.
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

/// The figures of a run's events.
#[derive(Debug, Default)]
pub struct Traced {
    reclaim: Option<ReclaimSums>,
    stalls: Option<Histogram<u64>>,
    metrics: Vec<(&'static str, Metric)>,
    notes: Vec<String>,
}

impl Traced {
    /// Adds a metric of the run.
    fn put(&mut self, name: &'static str, unit: &'static str, value: f64) {
        self.metrics.push((name, Metric { unit, value }));
    }

    /// Returns true if there are scan events of kswapd and of direct reclaim wherever the counters
    /// of `/proc/vmstat` say that they scanned.
    fn tells_scans(sums: &ReclaimSums, result: &RunResult) -> bool {
        let counted = |name| result.counters.get(name).copied().unwrap_or(0);
        (sums.kswapd.scanned > 0 || counted("pgscan_kswapd") == 0)
            && (sums.direct.scanned > 0 || counted("pgscan_direct") == 0)
    }

    /// Adds the figures of the events to a run's result, which already has the counters. Figures
    /// that the counters show to be incomplete are left out, with a note.
    pub fn tell(mut self, result: &mut RunResult) {
        let silent = |sums: &mut ReclaimSums| !Self::tells_scans(sums, result);
        if self.reclaim.take_if(silent).is_some() {
            self.notes.push(
                "the kernel counts scanned pages for which it has no events (the \
                 multi-generational LRU of 6.1 has none): the rows of vmscan's events are left \
                 out"
                .to_owned(),
            );
        }
        // No tracepoint covers the wait for the pfmemalloc reserves before direct reclaim
        // (`throttle_direct_reclaim`).
        let throttled = result.counters.get("pgscan_direct_throttle").copied();
        if throttled != Some(0) {
            let before = self.metrics.len();
            self.metrics.retain(|(name, _)| *name != RECLAIM_WAIT);
            if let Some(n) = throttled.filter(|_| self.metrics.len() < before) {
                self.notes.push(format!(
                    "{n} times a task waited for reserves before direct reclaim, and no \
                     tracepoint records the length of that wait: the longest wait of an \
                     allocation is left out"
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
