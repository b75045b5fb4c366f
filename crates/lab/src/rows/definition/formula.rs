//! Functions that the rows' formulas are made of.

use super::Reading::{self, Absent, Is, Unsupported};
use crate::figures::values;
use sim::account::{ClassSums, CongestionWaits, ReclaimSums};
use sim::{Origin, RunResult};

pub(super) fn metric(r: &RunResult, name: &str) -> Reading {
    r.metrics.get(name).map_or(Absent, |m| Is(m.value))
}

/// Returns a run's CPU time of the test's programs (`name`: `user_time` or `system_time`) in
/// seconds; in a real kernel's guest it may not be measured, and is unsupported then.
pub(super) fn cpu_time(r: &RunResult, name: &str) -> Reading {
    match (metric(r, name), r.origin) {
        (Absent, Origin::Kernel) => Unsupported(
            "CPU time of programs under a real kernel is known only for a recorded command",
        ),
        (reading, _) => reading,
    }
}

/// Returns the reading of a counter that this run does not have: unsupported, with the reason.
fn not_counted(r: &RunResult) -> Reading {
    Unsupported(match r.origin {
        Origin::Engine => "the engine does not count it",
        Origin::Kernel => "the real kernel does not count it",
    })
}

pub(super) fn counter(r: &RunResult, name: &str) -> Reading {
    let found = r.counters.get(name);
    found.map_or_else(|| not_counted(r), |&v| Is(v as f64))
}

/// Returns the first of these counters that the run has, because kernels rename them; unsupported
/// if it has none.
pub(super) fn counter_of(r: &RunResult, names: &[&str]) -> Reading {
    let mut found = names.iter().filter_map(|name| r.counters.get(*name));
    found
        .next()
        .map_or_else(|| not_counted(r), |&v| Is(v as f64))
}

/// Returns the first of these counters of compaction that the run has; unsupported for policies
/// without compaction.
pub(super) fn compacted(r: &RunResult, names: &[&str]) -> Reading {
    match (counter_of(r, names), r.origin) {
        (Unsupported(_), Origin::Engine) => Unsupported("the policy has no compaction"),
        (reading, _) => reading,
    }
}

/// Returns the reading of a row that is always 0 in reports of 2011: 0 for the engine, and
/// unsupported for today's kernels, which do not have it.
pub(super) fn always_zero(r: &RunResult) -> Reading {
    match r.origin {
        Origin::Engine => Is(0.0),
        Origin::Kernel => not_counted(r),
    }
}

/// Returns a counter; if the run does not have it, 0 as in reports of 2011, or unsupported for a
/// real kernel.
pub(super) fn counted_or_zero(r: &RunResult, name: &str) -> Reading {
    match r.counters.get(name) {
        Some(&n) => Is(n as f64),
        None => always_zero(r),
    }
}

/// Returns a counter summed over all zones; from 4.8 on most are kept by node, without a zone in
/// their names. `None` if the run does not have it.
pub(super) fn zones(r: &RunResult, event: &str) -> Option<f64> {
    values::all_zones(r, event)
}

pub(super) fn over_zones(r: &RunResult, event: &str) -> Reading {
    zones(r, event).map_or_else(|| not_counted(r), Is)
}

/// Applies the formula `f` to readings; if one of them is unsupported or absent, returns that one.
pub(super) fn of<const N: usize>(values: [Reading; N], f: impl FnOnce([f64; N]) -> f64) -> Reading {
    let mut numbers = [0.0; N];
    for (n, v) in numbers.iter_mut().zip(values) {
        match v {
            Is(x) => *n = x,
            other => return other,
        }
    }
    Is(f(numbers))
}

pub(super) fn elapsed(r: &RunResult) -> Reading {
    metric(r, "elapsed")
}

pub(super) fn kswapd_scanned(r: &RunResult) -> Reading {
    over_zones(r, "pgscan_kswapd")
}

pub(super) fn direct_scanned(r: &RunResult) -> Reading {
    over_zones(r, "pgscan_direct")
}

/// Returns the pages that kswapd reclaimed, under the name that the kernel has for them.
pub(super) fn kswapd_reclaimed(r: &RunResult) -> Reading {
    match r.counters.contains_key("kswapd_steal") {
        true => counter(r, "kswapd_steal"),
        // The counter's name from 3.4 on.
        false => over_zones(r, "pgsteal_kswapd"),
    }
}

/// Returns the pages that direct reclaim reclaimed. Kernels before 3.4 count them together with
/// kswapd's, which are subtracted.
pub(super) fn direct_reclaimed(r: &RunResult) -> Reading {
    if !r.counters.contains_key("kswapd_steal") {
        return over_zones(r, "pgsteal_direct");
    }
    of(
        [over_zones(r, "pgsteal"), kswapd_reclaimed(r)],
        |[all, k]| all - k,
    )
}

/// Returns the per cent of `part` in `whole`, rounded down; `empty` if `whole` is 0.
pub(super) fn floored(part: f64, whole: f64, empty: f64) -> f64 {
    if whole == 0.0 {
        empty
    } else {
        (100.0 * part / whole).floor()
    }
}

/// Returns an amount divided by the run's elapsed seconds; 0 for a run that took no time.
pub(super) fn per_second(amount: Reading, r: &RunResult) -> Reading {
    of(
        [amount, elapsed(r)],
        |[n, t]| if t > 0.0 { n / t } else { 0.0 },
    )
}

/// Returns the per cent of `part` in `whole`; 0 if `whole` is 0.
pub(super) fn percent(part: f64, whole: f64) -> f64 {
    if whole == 0.0 {
        0.0
    } else {
        100.0 * part / whole
    }
}

const UNTRACED: Reading = Unsupported("the real kernel's trace events were not recorded");

/// Returns a number of trace events of reclaim, or a sum over them, which `of` selects; unsupported
/// if they were not recorded.
pub(super) fn events(r: &RunResult, of: fn(&ReclaimSums) -> u64) -> Reading {
    let sums = r.reclaim.as_ref();
    sums.map_or(UNTRACED, |s| Is(of(s) as f64))
}

/// Returns a sum of times between trace events of reclaim, which `of` selects in nanoseconds, in
/// seconds; unsupported if they were not recorded.
pub(super) fn event_seconds(r: &RunResult, of: fn(&ReclaimSums) -> u64) -> Reading {
    let sums = r.reclaim.as_ref();
    sums.map_or(UNTRACED, |s| Is(of(s) as f64 / 1e9))
}

/// Returns a figure of reclaim's waits for congestion: `of` selects direct reclaim's or kswapd's,
/// `figure` their number or time. Unsupported if they were not recorded, or the kernel has no such
/// waits.
pub(super) fn waits(
    r: &RunResult,
    of: fn(&ReclaimSums) -> Option<CongestionWaits>,
    figure: fn(&CongestionWaits) -> f64,
) -> Reading {
    let Some(sums) = &r.reclaim else {
        return UNTRACED;
    };
    let cause =
        Unsupported("the real kernel does not wait for congestion: kernels from 5.16 on never do");
    of(sums).map_or(cause, |w| Is(figure(&w)))
}

pub(super) fn milliseconds(w: &CongestionWaits) -> f64 {
    w.delayed_us as f64 / 1000.0
}

/// Returns the pages that reclaim scanned, summed over trace events as the report's script does (in
/// published runs of mmap-strm the counters of vmstat are 6 % higher); from the counters if nothing
/// was traced.
pub(super) fn traced_scanned(r: &RunResult) -> Reading {
    match &r.reclaim {
        Some(s) => Is((s.direct.scanned + s.kswapd.scanned) as f64),
        None => of([kswapd_scanned(r), direct_scanned(r)], |[k, d]| k + d),
    }
}

pub(super) fn reclaimed(r: &RunResult) -> Reading {
    of([kswapd_reclaimed(r), direct_reclaimed(r)], |[k, d]| k + d)
}

pub(super) fn writes(r: &RunResult, of: fn(&ClassSums) -> u64) -> Reading {
    let sums = r.reclaim.as_ref();
    sums.map_or(UNTRACED, |s| Is((of(&s.direct) + of(&s.kswapd)) as f64))
}

/// Returns the CPU seconds of the test's programs, user and system time together.
pub(super) fn cpu_seconds(r: &RunResult) -> Reading {
    of(
        [cpu_time(r, "user_time"), cpu_time(r, "system_time")],
        |[u, s]| u + s,
    )
}

pub(super) fn allocated(r: &RunResult, zone: &str) -> Reading {
    let found = r.counters.get(&format!("pgalloc_{zone}"));
    found.map_or(Absent, |&v| Is(v as f64))
}

/// Returns the pages a second that kswapd and direct reclaim scanned in a zone. Unsupported for
/// kernels that count them by node, and absent if the machine has no such zone.
pub(super) fn zone_velocity(r: &RunResult, zone: &str) -> Reading {
    let get = |e: &str| r.counters.get(&format!("{e}_{zone}")).map(|&v| v as f64);
    match (get("pgscan_kswapd"), get("pgscan_direct")) {
        (Some(k), Some(d)) => per_second(Is(k + d), r),
        _ if r.counters.contains_key(&format!("pgalloc_{zone}")) => {
            Unsupported("kernels count scanned pages by node from 4.8 on")
        }
        _ => Absent,
    }
}

pub(super) const ALL_KERNELS: &str = "all";
pub(super) const TRACED: &str = "2.6.32 and later, with tracing on";
pub(super) const CONGESTION: &str =
    "2.6.36 to 5.15, with tracing on; later kernels have mm_vmscan_throttled";
pub(super) const COMPACTING: &str = "2.6.35 and later";
