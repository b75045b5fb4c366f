//! Watching: events, latencies of allocations and what ran out of memory go to the run's records.

use super::SimWorld;
use crate::latency::AllocClass;
use crate::slowest;
use mm::world::event::Event;
use mm::world::{AllocPath, Audience, OomKill, Watch};

impl<const TRACE: bool> Watch for SimWorld<TRACE> {
    const TRACE: bool = TRACE;

    #[inline(always)]
    fn tracing(&self) -> bool {
        self.recording.get()
    }

    /// Passes an event to its sums (`to`), and to traces if they are on.
    #[inline(always)]
    fn event(&self, to: Audience, event: &Event) {
        match to {
            Audience::Traces => {}
            Audience::Slowest => self.observe(event),
            Audience::Sums => self.count(event),
        }
        if TRACE && self.recording.get() {
            self.trace(event);
        }
    }

    #[inline(always)]
    fn events_are_free(&self) -> bool {
        self.record_event == 0
    }

    #[inline]
    fn file_writepages(&self, n: u32) {
        self.reclaim.file_writepages(self.sched.task(), n);
    }

    /// Records the latency of an allocation by path and, if slow, among the slowest.
    #[inline]
    fn alloc_latency(&self, path: AllocPath, ns: u64) {
        let task = self.sched.task();
        if path == AllocPath::Fast {
            let (cpu, end) = (self.sched.cpu(), self.sched.now());
            self.alloc.record(cpu, task, AllocClass::Fast, ns, end);
            return;
        }
        if path == AllocPath::KswapdWoken && !self.slowest.began(task) {
            // This allocation was too short to be among the slowest, and waited for nothing.
            let (cpu, end) = (self.sched.cpu(), self.sched.now());
            self.alloc
                .record(cpu, task, AllocClass::KswapdWoken, ns, end);
            return;
        }
        let time = self.slowest.spent(task, self.sched.own_time().split());
        let class = slowest::class(path, ns, &time);
        let (cpu, end) = (self.sched.cpu(), self.sched.now());
        self.alloc.record(cpu, task, class, ns, end);
        self.slowest.record(task, ns, class.name(), time);
    }

    fn reclaim_waited(&self, ns: u64) {
        self.alloc.reclaim_waited(ns);
    }

    /// Records `n` equal allocations of `ns` nanoseconds on the fast path, until time `end`.
    #[inline]
    fn alloc_latencies(&self, ns: u64, n: u32, end: u64) {
        let (cpu, task) = (self.sched.cpu(), self.sched.task());
        self.alloc
            .record_many(cpu, task, AllocClass::Fast, ns, (n, end));
    }

    #[inline]
    fn remembers_alloc(&self, ns: u64) -> bool {
        self.record_event > 0 || self.slowest.keeps(ns)
    }

    /// Notes that the calling task's allocation, begun at `start`, leaves the fast path.
    fn alloc_slow(&self, start: u64, order: u32, free: u64) {
        let time = self.sched.own_time().split();
        let task = self.sched.task();
        self.slowest.begin(task, start, order, free, time);
    }

    fn alloc_slow_ends(&self, free: u64) {
        self.slowest.end(self.sched.task(), free);
    }

    fn out_of_memory(&self, report: String) {
        self.oom.borrow_mut().get_or_insert(report);
        self.sched.stop();
    }

    fn oom_killed(&self, kill: OomKill) {
        self.oom_kills.borrow_mut().push(kill);
    }
}
