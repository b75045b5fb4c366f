//! Watching: the events and latencies that the engine reports.

use super::TaskId;
use super::event::Event;

/// How an allocation was served, for the latency histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum AllocPath {
    /// From the free lists at the low watermark.
    Fast,
    /// After waking kswapd, at the min watermark.
    KswapdWoken,
    /// After direct reclaim, or direct compaction.
    DirectReclaim,
    /// Stalled on a small node's dirty pages (`per-zone-stall`).
    DirtyStall,
    /// The request got no page.
    Failed,
}

/// The receivers of an event, beside the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// No other receiver.
    Traces,
    /// The record of the slowest allocations, which shows the event in its time lines.
    Slowest,
    /// As `Slowest`, and the sums that a world keeps whether or not it traces.
    Sums,
}

/// A process that the OOM killer killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OomKill {
    /// The time of the kill, in nanoseconds since the world began.
    pub time: u64,
    /// The task whose allocation failed.
    pub asker: TaskId,
    /// The flags of its request ([`Gfp`](crate::memory::gfp::Gfp)).
    pub gfp: u32,
    /// The order of its request: 2^order pages.
    pub order: u32,
    /// The process that was killed.
    pub pid: u32,
    /// The name of the killed process.
    pub comm: String,
    /// The memory control group of the killed process; 0: none.
    pub group: u32,
    /// The group that was at its limit; 0: the machine's memory had run out.
    pub over: u32,
    /// The kernel's report after its first line: `Mem-Info`, the processes, and which one was
    /// killed.
    pub text: String,
}

/// The receiver of the engine's events and latencies.
///
/// The engine reports every event through `Mm::emit`. From there it goes
///
/// 1. to the world's sums and to the record of the slowest allocations, as its [`Audience`] says;
/// 2. to the trace, if [`Watch::TRACE`] is true and a trace is read ([`Watch::tracing`]).
///
/// An event that only goes to traces is built only if one is read.
pub trait Watch {
    /// Whether trace events are built at all; `false` compiles every tracepoint away.
    const TRACE: bool;

    /// Returns true if a trace is being read now.
    fn tracing(&self) -> bool;

    /// Takes an event for its audience and, if a trace is read, for the trace.
    fn event(&self, to: Audience, event: &Event);

    /// Returns true if events for sums cost no time, so that several in a row may be reported
    /// together.
    #[inline(always)]
    fn events_are_free(&self) -> bool {
        false
    }

    /// Takes `n` events [`Event::Writepage`] of file pages, asynchronous, together. Called only if
    /// no trace is read, which would need the page of each, and events are free.
    #[inline(always)]
    fn file_writepages(&self, n: u32) {
        for _ in 0..n {
            let (pfn, file, sync) = (0, true, false);
            self.event(Audience::Sums, &Event::Writepage { pfn, file, sync });
        }
    }

    /// Takes the latency of one allocation, in nanoseconds.
    fn alloc_latency(&self, path: AllocPath, ns: u64);

    /// Takes the latencies of `n` allocations of the calling task from the free lists, `ns`
    /// nanoseconds each, the last one ending at `end`; no other event came between them. `end`:
    /// nanoseconds since the world began.
    #[inline(always)]
    fn alloc_latencies(&self, ns: u64, n: u32, end: u64) {
        let _ = end;
        for _ in 0..n {
            self.alloc_latency(AllocPath::Fast, ns);
        }
    }

    /// Returns true if [`Watch::alloc_slow`] must be called for an allocation that will have taken
    /// at most `ns` nanoseconds, not counting the cost of the events on its way.
    #[inline(always)]
    fn remembers_alloc(&self, ns: u64) -> bool {
        let _ = ns;
        true
    }

    /// Notes that the calling task's allocation left the fast path, for the record of the slowest:
    /// when it began, its order, and the machine's free pages.
    #[inline(always)]
    fn alloc_slow(&self, start: u64, order: u32, free: u64) {
        let _ = (start, order, free);
    }

    /// Notes the end of an allocation reported by [`Watch::alloc_slow`] and the machine's free
    /// pages; [`Watch::alloc_latency`] follows.
    #[inline(always)]
    fn alloc_slow_ends(&self, free: u64) {
        let _ = free;
    }

    /// Notes that the calling task's allocation has spent `ns` nanoseconds in one round of direct
    /// reclaim, including the wait for the reserves before it (`throttle_direct_reclaim`).
    #[inline(always)]
    fn reclaim_waited(&self, ns: u64) {
        let _ = ns;
    }

    /// Ends the run: no memory could be reclaimed, and no process is left that may be killed.
    fn out_of_memory(&self, report: String);

    /// Takes the record of a process that the OOM killer killed.
    fn oom_killed(&self, kill: OomKill) {
        let _ = kill;
    }
}
