//! Routes the engine's events: into sums, the record of the slowest allocations, a listener or the
//! trace ring.

use super::{SimWorld, TRACE_RING};
use crate::stack::Top;
use mm::world::event::Event;

impl<const TRACE: bool> SimWorld<TRACE> {
    /// Adds an event to the record of the slowest allocations.
    pub(super) fn observe(&self, event: &Event) {
        let task = self.sched.task();
        let kswapd = self.reclaim.of_kswapd(task);
        self.slowest.observe(self.sched.now(), task, kswapd, event);
    }

    /// Adds an event to the sums over reclaim's events, and to the record of the slowest
    /// allocations; notes where the task enters and leaves direct reclaim and how deep its stack
    /// is. Charges the recording of the event if monitors are on.
    #[inline(always)]
    pub(super) fn count(&self, event: &Event) {
        match event {
            Event::DirectReclaimBegin { .. } => {
                self.stack.reaches(self.sched.task(), Top::Free);
                self.sched.in_reclaim(true);
            }
            Event::Writepage { file: false, .. } if !self.reclaim.of_kswapd(self.sched.task()) => {
                self.stack.reaches(self.sched.task(), Top::Swap);
            }
            Event::DirectReclaimEnd { .. } => self.sched.in_reclaim(false),
            _ => {}
        }
        self.reclaim
            .count(self.sched.now(), self.sched.task(), event);
        if !matches!(event, Event::LruIsolate { .. } | Event::Writepage { .. }) {
            self.observe(event);
        }
        if self.record_event > 0 {
            self.sched.charge(self.record_event);
            self.watched.set(self.watched.get() + 1);
        }
    }

    /// Passes a mark to the listener: text that is no event of the engine's.
    pub fn mark(&self, text: &str) {
        let (now, cpu, task) = (self.sched.now(), self.sched.cpu(), self.sched.task());
        self.listening.mark(now, cpu, task, text);
    }

    /// Reports the waits that have ended since the last event, and the number of requests under way
    /// to each filesystem's disk, if the listener wants them; it notes which numbers changed.
    fn tell_waits(&self, now: u64) {
        if !self.listening.hears_waits() {
            return;
        }
        for wait in self.sched.waiting.ended() {
            self.listening.waited(&wait);
        }
        for (disk, fs) in self.fs.iter().enumerate() {
            let requests = self.in_flight(fs.volume);
            self.listening.queued(now, disk, requests);
        }
    }

    /// Passes an event to the listener or, without one, into the trace ring, which leaves out
    /// page-by-page events. A full ring is emptied and counted as lost.
    pub(super) fn trace(&self, event: &Event) {
        let (now, cpu, task) = (self.sched.now(), self.sched.cpu(), self.sched.task());
        if self.listening.tell(now, cpu, task, event) {
            self.tell_waits(now);
            return;
        }
        if event.by_page() {
            return;
        }
        let mut events = self.events.borrow_mut();
        if events.len() == TRACE_RING {
            events.clear();
            self.rings_lost.set(self.rings_lost.get() + 1);
        }
        events.push((now, task, *event));
    }
}
