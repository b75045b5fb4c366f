//! What the rows' formulas are made of.

use super::Reading::{self, Absent, Is, Unsupported};
use sim::RunResult;
use sim::account::{ClassSums, CongestionWaits};

pub(super) fn metric(r: &RunResult, name: &str) -> Reading {
    r.metrics.get(name).map_or(Absent, |m| Is(m.value))
}

pub(super) fn counter(r: &RunResult, name: &'static str) -> Reading {
    r.counters
        .get(name)
        .map_or(Unsupported("the engine does not count it"), |&v| {
            Is(v as f64)
        })
}

pub(super) const ZONES: [&str; 4] = ["dma", "dma32", "normal", "movable"];

/// A zone counter over all zones.
pub(super) fn zones(r: &RunResult, event: &str) -> Option<f64> {
    let found: Vec<u64> = ZONES
        .iter()
        .filter_map(|z| r.counters.get(&format!("{event}_{z}")).copied())
        .collect();
    (!found.is_empty()).then(|| found.iter().sum::<u64>() as f64)
}

pub(super) fn over_zones(r: &RunResult, event: &str) -> Reading {
    zones(r, event).map_or(Unsupported("the engine does not count it"), Is)
}

/// A formula over counters: unsupported where one of them is.
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

pub(super) fn kswapd_reclaimed(r: &RunResult) -> Reading {
    counter(r, "kswapd_steal")
}

pub(super) fn direct_reclaimed(r: &RunResult) -> Reading {
    of(
        [over_zones(r, "pgsteal"), kswapd_reclaimed(r)],
        |[all, k]| all - k,
    )
}

/// Whole per cent of `part` in `whole`; `empty` where there is no whole.
pub(super) fn floored(part: f64, whole: f64, empty: f64) -> f64 {
    if whole == 0.0 {
        empty
    } else {
        (100.0 * part / whole).floor()
    }
}

pub(super) fn per_second(amount: Reading, r: &RunResult) -> Reading {
    of(
        [amount, elapsed(r)],
        |[n, t]| if t > 0.0 { n / t } else { 0.0 },
    )
}

pub(super) fn percent(part: f64, whole: f64) -> f64 {
    if whole == 0.0 {
        0.0
    } else {
        100.0 * part / whole
    }
}

pub(super) fn seconds(ns: u64) -> Reading {
    Is(ns as f64 / 1e9)
}

pub(super) fn count(n: u64) -> Reading {
    Is(n as f64)
}

pub(super) fn milliseconds(w: &CongestionWaits) -> Reading {
    Is(w.delayed_us as f64 / 1000.0)
}

pub(super) fn scanned(r: &RunResult) -> Reading {
    of([kswapd_scanned(r), direct_scanned(r)], |[k, d]| k + d)
}

pub(super) fn reclaimed(r: &RunResult) -> Reading {
    of([kswapd_reclaimed(r), direct_reclaimed(r)], |[k, d]| k + d)
}

pub(super) fn writes(r: &RunResult, of: fn(&ClassSums) -> u64) -> f64 {
    (of(&r.reclaim.direct) + of(&r.reclaim.kswapd)) as f64
}

pub(super) fn cpu_seconds(r: &RunResult) -> Reading {
    of(
        [metric(r, "user_time"), metric(r, "system_time")],
        |[u, s]| u + s,
    )
}

pub(super) fn allocated(r: &RunResult, zone: &str) -> Reading {
    let found = r.counters.get(&format!("pgalloc_{zone}"));
    found.map_or(Absent, |&v| Is(v as f64))
}

pub(super) fn zone_velocity(r: &RunResult, zone: &str) -> Reading {
    let get = |e: &str| r.counters.get(&format!("{e}_{zone}")).map(|&v| v as f64);
    match (get("pgscan_kswapd"), get("pgscan_direct")) {
        (Some(k), Some(d)) => per_second(Is(k + d), r),
        _ => Absent,
    }
}

pub(super) const NO_COMPACTION: &str = "the engine has no compaction";

pub(super) const ALL_KERNELS: &str = "all";
pub(super) const TRACED: &str = "2.6.32 and later, with tracing on";
pub(super) const CONGESTION: &str =
    "2.6.36 to 5.15, with tracing on; later kernels have mm_vmscan_throttled";
pub(super) const COMPACTING: &str = "2.6.35 and later";
