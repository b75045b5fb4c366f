//! The slowest page allocations of a run, with the activity of the machine meanwhile.
//!
//! A ring keeps the last events of kswapd, direct reclaim, the flushers and the disks. When an
//! allocation that left the fast path ends among the slowest so far, the part of the ring that
//! falls into it is copied to its record. Ring and records are of fixed size: nothing is allocated
//! during the run.

use crate::account::Split;
use mm::world::event::Event;
use mm::world::{AllocPath, TaskId};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};

/// Number of allocations kept.
pub const SLOWEST: usize = 10;
/// Events that the ring holds.
const RING: usize = 4096;
/// Events that a record holds: the first and the last ones.
const FIRST: usize = 16;
const LAST: usize = 32;

/// The kinds of actor in a timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Actor {
    /// A task that allocates.
    Allocator,
    /// A kswapd.
    Kswapd,
    /// A flusher.
    Flusher,
    /// A disk.
    Disk,
}

/// Number of [`Actor`]s.
const ACTORS: usize = 4;

/// The kinds of event in a timeline, with their amounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Did {
    /// A wake-up of kswapd is traced.
    WakesKswapd,
    /// kswapd starts to balance its node.
    StartsRun,
    /// kswapd goes to sleep.
    Sleeps,
    /// A task enters direct reclaim.
    EntersReclaim,
    /// A task leaves direct reclaim: pages reclaimed.
    LeavesReclaim,
    /// A batch of an inactive list was shrunk: pages scanned, pages freed.
    Shrinks,
    /// A wait for congestion ended: microseconds.
    Waited,
    /// A flusher begins a work item: pages asked for.
    StartsWriteback,
    /// A flusher ends a slice: pages written.
    Writes,
    /// A disk ends requests: kB, and how many requests it still holds.
    Completes,
}

/// One event of a timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Nanoseconds from the beginning of the allocation; negative: before it.
    pub at_ns: i64,
    /// The actor.
    pub actor: Actor,
    /// The task; 0 for a disk.
    pub task: TaskId,
    /// The event.
    pub did: Did,
    /// Amounts of the event, in the order in which [`Did`] names them.
    pub amounts: [u64; 2],
}

/// One of the slowest allocations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowAlloc {
    /// Nanoseconds from the start of the workload to the beginning of the allocation.
    pub start_ns: u64,
    /// Duration of the allocation in nanoseconds.
    pub ns: u64,
    /// Class of the allocation; see [`crate::latency::AllocClass`].
    #[serde(deserialize_with = "crate::stored::name")]
    pub class: crate::stored::Name,
    /// The task.
    pub task: TaskId,
    /// Order of the allocation: 2^order pages.
    pub order: u32,
    /// The machine's free pages at the beginning and at the end.
    pub free: [u64; 2],
    /// Where the task's time went during the allocation.
    pub time: Split,
    /// The activity of all actors: for each the last event before the allocation, then all events
    /// meanwhile, in order of time.
    pub timeline: Vec<Step>,
    /// Number of events in the middle for which the record had no room.
    pub left_out: u64,
}

/// An event in the ring.
#[derive(Clone, Copy)]
struct Entry {
    at: u64,
    actor: Actor,
    did: Did,
    task: TaskId,
    amounts: [u64; 2],
}

/// An allocation under way.
#[derive(Clone, Copy)]
struct Begun {
    start: u64,
    order: u32,
    free: u64,
    free_end: u64,
    /// Number of the first event that falls into the allocation.
    from: u64,
    /// Each actor's last event before the allocation.
    last: [Option<Entry>; ACTORS],
    /// The task's time when the allocation began.
    time: Split,
}

/// The record of one of the slowest allocations.
struct Record {
    begun: Begun,
    ns: u64,
    class: &'static str,
    task: TaskId,
    time: Split,
    entries: [Option<Entry>; FIRST + LAST],
    left_out: u64,
}

/// The ring of events and the records; see the [module](self).
pub struct Slowest {
    ring: Box<[Cell<Option<Entry>>]>,
    events: Cell<u64>,
    last: Cell<[Option<Entry>; ACTORS]>,
    begun: RefCell<Box<[Option<Begun>]>>,
    records: RefCell<Vec<Record>>,
}

impl Slowest {
    /// Returns an empty list of slowest allocations, and an empty ring of events, for `tasks`
    /// tasks.
    pub fn new(tasks: usize) -> Self {
        Self {
            ring: (0..RING).map(|_| Cell::new(None)).collect(),
            events: Cell::new(0),
            last: Cell::new([None; ACTORS]),
            begun: RefCell::new((0..tasks).map(|_| None).collect()),
            records: RefCell::new(Vec::with_capacity(SLOWEST + 1)),
        }
    }

    /// Enters an event of an actor at time `at` (nanoseconds) in the ring of recent events, and as
    /// the actor's last.
    pub fn note(&self, at: u64, actor: Actor, task: TaskId, did: Did, amounts: [u64; 2]) {
        let entry = Entry {
            at,
            actor,
            did,
            task,
            amounts,
        };
        let n = self.events.get();
        self.ring[n as usize % RING].set(Some(entry));
        self.events.set(n + 1);
        let mut last = self.last.get();
        last[actor as usize] = Some(entry);
        self.last.set(last);
    }

    /// Notes an event of the engine at time `at` (nanoseconds), if timelines show events of its
    /// kind. `kswapd`: the task is a kswapd.
    pub fn observe(&self, at: u64, task: TaskId, kswapd: bool, event: &Event) {
        let role = if kswapd {
            Actor::Kswapd
        } else {
            Actor::Allocator
        };
        let (actor, did, amounts) = match *event {
            Event::WakeupKswapd { .. } => (role, Did::WakesKswapd, [0; 2]),
            Event::KswapdWake { .. } => (role, Did::StartsRun, [0; 2]),
            Event::KswapdSleep { .. } => (role, Did::Sleeps, [0; 2]),
            Event::DirectReclaimBegin { .. } => (role, Did::EntersReclaim, [0; 2]),
            Event::DirectReclaimEnd { nr_reclaimed } => {
                (role, Did::LeavesReclaim, [nr_reclaimed, 0])
            }
            Event::ShrinkInactive {
                nr_scanned,
                nr_reclaimed,
                ..
            } => {
                let amounts = [u64::from(nr_scanned), u64::from(nr_reclaimed)];
                (role, Did::Shrinks, amounts)
            }
            Event::CongestionWait { usec_delayed, .. }
            | Event::WaitIffCongested { usec_delayed, .. } => {
                (role, Did::Waited, [usec_delayed, 0])
            }
            Event::WritebackStart { nr_pages, .. } => {
                let pages = nr_pages.max(0) as u64;
                (Actor::Flusher, Did::StartsWriteback, [pages, 0])
            }
            Event::WritebackWritten { nr_pages, .. } => {
                (Actor::Flusher, Did::Writes, [nr_pages.max(0) as u64, 0])
            }
            _ => return,
        };
        self.note(at, actor, task, did, amounts);
    }

    /// Notes that a task's allocation of 2^`order` pages leaves the fast path. `start` is its
    /// beginning in nanoseconds; `free` and `time` are the machine's free pages and the task's time
    /// then.
    pub fn begin(&self, task: TaskId, start: u64, order: u32, free: u64, time: Split) {
        self.begun.borrow_mut()[task as usize] = Some(Begun {
            start,
            order,
            free,
            free_end: free,
            from: self.events.get(),
            last: self.last.get(),
            time,
        });
    }

    /// Returns true if an allocation of the task that left the fast path is under way.
    #[inline]
    pub fn began(&self, task: TaskId) -> bool {
        self.begun.borrow()[task as usize].is_some()
    }

    /// Returns true if an allocation of `ns` nanoseconds would be kept: the list is not full, or
    /// its fastest was faster.
    #[inline]
    pub fn keeps(&self, ns: u64) -> bool {
        let records = self.records.borrow();
        records.get(SLOWEST - 1).is_none_or(|last| last.ns < ns)
    }

    /// Notes the machine's free pages at the end of a task's allocation, if one that left the fast
    /// path is under way.
    pub fn end(&self, task: TaskId, free: u64) {
        if let Some(begun) = &mut self.begun.borrow_mut()[task as usize] {
            begun.free_end = free;
        }
    }

    /// Returns where a task's time went since its allocation under way began, given the task's time
    /// `now`; nothing, if none is.
    pub fn spent(&self, task: TaskId, now: Split) -> Split {
        let begun = &self.begun.borrow()[task as usize];
        begun
            .as_ref()
            .map_or_else(Split::default, |b| now.since(&b.time))
    }

    /// Ends a task's allocation, which took `ns` nanoseconds; it is kept with the events meanwhile
    /// if it is among the slowest. Of too many events the first and the last ones are kept.
    pub fn record(&self, task: TaskId, ns: u64, class: &'static str, time: Split) {
        let Some(begun) = self.begun.borrow_mut()[task as usize].take() else {
            return;
        };
        if !self.keeps(ns) {
            return;
        }
        let mut records = self.records.borrow_mut();
        let until = self.events.get();
        // `kept`: number of the first event that the ring still holds; `many`: events since.
        let kept = until.saturating_sub(RING as u64).max(begun.from);
        let many = (until - kept) as usize;
        let mut entries = [None; FIRST + LAST];
        let at = |n: u64| self.ring[n as usize % RING].get();
        for (i, slot) in entries.iter_mut().take(many).enumerate() {
            *slot = if many <= FIRST + LAST || i < FIRST {
                at(kept + i as u64)
            } else {
                at(until - (FIRST + LAST - i) as u64)
            };
        }
        let left_out = (until - begun.from).saturating_sub((FIRST + LAST) as u64);
        // Equal durations stay in the order of their ends.
        let place = records.partition_point(|r| r.ns >= ns);
        records.truncate(SLOWEST - 1);
        let record = Record {
            begun,
            ns,
            class,
            task,
            time,
            entries,
            left_out,
        };
        records.insert(place, record);
    }

    /// Discards all records and all allocations under way.
    pub fn reset(&self) {
        self.records.borrow_mut().clear();
        self.begun.borrow_mut().fill(None);
    }

    /// Returns the slowest allocations, slowest first; their times count from `start`.
    pub fn list(&self, start: u64) -> Vec<SlowAlloc> {
        let records = self.records.borrow();
        records
            .iter()
            .map(|r| {
                let step = |e: &Entry| Step {
                    at_ns: e.at as i64 - r.begun.start as i64,
                    actor: e.actor,
                    task: e.task,
                    did: e.did,
                    amounts: e.amounts,
                };
                let mut before: Vec<Step> = r.begun.last.iter().flatten().map(step).collect();
                before.sort_by_key(|s| s.at_ns);
                // The events are sorted, because CPUs execute up to a quantum ahead of each other.
                let mut meanwhile: Vec<Step> = r.entries.iter().flatten().map(step).collect();
                meanwhile.sort_by_key(|s| s.at_ns);
                before.extend(meanwhile);
                SlowAlloc {
                    start_ns: r.begun.start.saturating_sub(start),
                    ns: r.ns,
                    class: r.class,
                    task: r.task,
                    order: r.begun.order,
                    free: [r.begun.free, r.begun.free_end],
                    time: r.time,
                    timeline: before,
                    left_out: r.left_out,
                }
            })
            .collect()
    }
}

/// Returns the class of an allocation of `ns` nanoseconds, by the path that it took through the
/// allocator and by what took more than half of its time.
pub fn class(path: AllocPath, ns: u64, time: &Split) -> crate::latency::AllocClass {
    use crate::latency::AllocClass as C;
    match path {
        AllocPath::Fast => C::Fast,
        AllocPath::Failed => C::Failed,
        _ if 2 * time.run_queue > ns => C::CpuWait,
        AllocPath::DirtyStall => C::DirtyStall,
        _ if 2 * time.throttle > ns => C::Throttled,
        AllocPath::KswapdWoken => C::KswapdWoken,
        AllocPath::DirectReclaim => C::DirectReclaim,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ten_slowest_stay_in_order_with_what_happened_meanwhile() {
        let s = Slowest::new(4);
        s.note(5, Actor::Kswapd, 2, Did::StartsRun, [0; 2]);
        for n in 0..30u64 {
            let begin = 1000 * n;
            s.begin(1, begin, 0, 50, Split::default());
            for i in 0..n * 4 {
                s.note(begin + i, Actor::Disk, 0, Did::Completes, [i, 0]);
            }
            s.end(1, 40);
            s.record(1, (n * 7) % 30, "kswapd-woken", Split::default());
        }
        // Nothing is kept without a beginning.
        s.record(1, 1_000_000, "fast", Split::default());
        let list = s.list(0);
        let times: Vec<u64> = list.iter().map(|a| a.ns).collect();
        assert_eq!(times, (20..30).rev().collect::<Vec<_>>());
        for a in &list {
            let n = a.start_ns / 1000;
            assert_eq!(a.ns, (n * 7) % 30);
            assert_eq!((a.free, a.left_out), ([50, 40], (n * 4).saturating_sub(48)));
            let inside = a.timeline.iter().filter(|t| t.at_ns >= 0).count() as u64;
            assert_eq!(inside, (n * 4).min(48));
            assert!(a.timeline.is_sorted_by_key(|t| t.at_ns));
            assert!(a.timeline.iter().any(|t| t.actor == Actor::Kswapd));
        }
        s.reset();
        assert!(s.list(0).is_empty());
    }

    #[test]
    fn most_of_the_time_decides_the_class() {
        use crate::latency::AllocClass as C;
        let time = |run_queue, throttle| Split {
            run_queue,
            throttle,
            ..Split::default()
        };
        let path = AllocPath::DirectReclaim;
        assert_eq!(class(path, 100, &time(60, 0)), C::CpuWait);
        assert_eq!(class(path, 100, &time(10, 60)), C::Throttled);
        assert_eq!(class(path, 100, &time(10, 10)), C::DirectReclaim);
        assert_eq!(class(AllocPath::Fast, 100, &time(0, 0)), C::Fast);
    }
}
