//! Finds the slowest allocations of a cell and describes them in words.

use sim::RunResult;
use sim::slowest::{Did, SLOWEST, SlowAlloc, Step};

/// Returns the slowest allocations over all iterations of a cell, each with the number of its
/// iteration, the slowest first; at most `SLOWEST`. `iterations` yields a number and a result
/// each.
pub fn slowest<'a>(
    iterations: impl IntoIterator<Item = (u32, &'a RunResult)>,
) -> Vec<(u32, &'a SlowAlloc)> {
    let of = |(i, r): (u32, &'a RunResult)| r.alloc_latency.slowest.iter().map(move |s| (i, s));
    let mut all: Vec<_> = iterations.into_iter().flat_map(of).collect();
    // The sort is stable: equal ones stay in the order of iterations.
    all.sort_by_key(|(_, s)| std::cmp::Reverse(s.ns));
    all.truncate(SLOWEST);
    all
}

/// Formats nanoseconds as microseconds.
pub fn us(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1000.0)
}

/// Describes in words one step in the course of a slow allocation: which task did what, with the
/// amounts (pages, kB or microseconds).
pub fn sentence(s: &Step) -> String {
    let actor = match s.actor {
        sim::slowest::Actor::Allocator => format!("task {}", s.task),
        sim::slowest::Actor::Kswapd => "kswapd".into(),
        sim::slowest::Actor::Flusher => "flusher".into(),
        sim::slowest::Actor::Disk => "disk".into(),
    };
    let [a, b] = s.amounts;
    let did = match s.did {
        Did::WakesKswapd => "wakes kswapd".into(),
        Did::StartsRun => "starts a run".into(),
        Did::Sleeps => "sleeps".into(),
        Did::EntersReclaim => "enters direct reclaim".into(),
        Did::LeavesReclaim => format!("leaves direct reclaim with {a} pages"),
        Did::Shrinks => format!("scans {a} pages and frees {b}"),
        Did::Waited => format!("has waited {a} us for congestion to end"),
        Did::StartsWriteback => "begins to write back".into(),
        Did::Writes => format!("has written {a} pages"),
        Did::Completes => format!("completes {a} kB and holds {b} requests"),
    };
    format!("{actor} {did}")
}

/// Formats the parts into which the time of an allocation is divided, each with its name, in
/// microseconds; parts of 0 are left out.
pub fn time_parts(s: &SlowAlloc) -> String {
    let parts = s.time.parts().into_iter().filter(|p| p.1 > 0);
    let texts: Vec<String> = parts
        .map(|(name, ns)| format!("{name} {}", us(ns)))
        .collect();
    texts.join(", ")
}
