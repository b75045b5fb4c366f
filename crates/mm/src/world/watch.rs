//! Watching: what the engine tells of itself.

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
    /// It got no page.
    Failed,
}

/// Who is told of an event, beside those who trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Nobody else.
    Traces,
    /// The record of the slowest allocations, as one line of their time lines.
    Slowest,
    /// That record, and the sums that a world keeps whether or not anybody traces.
    Sums,
}

/// A process that was killed for its memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OomKill {
    /// When, in nanoseconds since the world began.
    pub time: u64,
    /// The task that found no memory.
    pub asker: TaskId,
    /// What it asked for ([`Gfp`](crate::memory::gfp::Gfp)).
    pub gfp: u32,
    /// How much: 2^order pages.
    pub order: u32,
    /// The process that was killed.
    pub pid: u32,
    /// What it is called.
    pub comm: String,
    /// The kernel's report behind its first line: `Mem-Info`, the processes, and who was killed.
    pub text: String,
}

/// Watching.
///
/// The engine has one way to tell of an event, `Mm::emit`. From there it goes
///
/// 1. to the world's sums and to the record of the slowest allocations, as its [`Audience`] says;
/// 2. to the trace, if [`Watch::TRACE`] holds and somebody listens ([`Watch::tracing`]).
///
/// An event that only traces are told of is built for those alone.
pub trait Watch {
    /// Whether trace events are built at all; `false` compiles every tracepoint away.
    const TRACE: bool;

    /// Whether anybody traces now.
    fn tracing(&self) -> bool;

    /// An event for an audience and, if anybody traces, for the trace.
    fn event(&self, to: Audience, event: &Event);

    /// Whether events for sums take no time: those in a row may be told of together.
    #[inline(always)]
    fn events_are_free(&self) -> bool {
        false
    }

    /// `n` times [`Event::Writepage`] of a file's page, not waited for, where nobody traces and events are free.
    #[inline(always)]
    fn file_writepages(&self, n: u32) {
        for _ in 0..n {
            let (pfn, file, sync) = (0, true, false);
            self.event(Audience::Sums, &Event::Writepage { pfn, file, sync });
        }
    }

    /// The latency of one allocation, in nanoseconds.
    fn alloc_latency(&self, path: AllocPath, ns: u64);

    /// `n` allocations of the calling task from the free lists took `ns` nanoseconds each, the last one up
    /// to `end`; nothing came between them.
    #[inline(always)]
    fn alloc_latencies(&self, ns: u64, n: u32, end: u64) {
        let _ = end;
        for _ in 0..n {
            self.alloc_latency(AllocPath::Fast, ns);
        }
    }

    /// Whether [`Watch::alloc_slow`] wants to know of an allocation that will have taken `ns` nanoseconds at most, beside
    /// what events cost that it meets on its way.
    #[inline(always)]
    fn remembers_alloc(&self, ns: u64) -> bool {
        let _ = ns;
        true
    }

    /// The calling task's allocation left the fast path, for a record of the slowest: when it began,
    /// its order, and the machine's free pages.
    #[inline(always)]
    fn alloc_slow(&self, start: u64, order: u32, free: u64) {
        let _ = (start, order, free);
    }

    /// It comes to its end; [`Watch::alloc_latency`] follows.
    #[inline(always)]
    fn alloc_slow_ends(&self, free: u64) {
        let _ = free;
    }

    /// The calling task's allocation has waited `ns` nanoseconds for one round of direct reclaim: in front of it for the
    /// reserves (`throttle_direct_reclaim`), and in it.
    #[inline(always)]
    fn reclaim_waited(&self, ns: u64) {
        let _ = ns;
    }

    /// No memory could be reclaimed and nobody was left to be killed, or nobody may be: the run ends.
    fn out_of_memory(&self, report: String);

    /// A process was killed for its memory.
    fn oom_killed(&self, kill: OomKill) {
        let _ = kill;
    }
}
