//! Figures of memory control groups, by the names that runs of real kernels have.

use crate::SimMm;
use crate::result::Metric;
use crate::sched::Stall;
use crate::spec::{Group, Groups, Limit};
use mm::SECOND;
use mm::memory::group::{GroupConfig, GroupEvent, GroupLimits, NO_LIMIT};
use std::collections::BTreeMap;

/// Counters of a group: the figure's name, its unit, and the events that it sums.
const COUNTERS: &[(&str, &str, &[GroupEvent])] = {
    use GroupEvent as E;
    &[
        ("oom_kill", "processes", &[E::OomKill]),
        ("oom_group_kill", "events", &[E::OomGroupKill]),
        ("oom", "events", &[E::Oom]),
        ("events_max", "events", &[E::Max]),
        ("events_high", "events", &[E::High]),
        ("events_low", "events", &[E::Low]),
        ("pgscan", "pages", &[E::PgScanKswapd, E::PgScanDirect]),
        ("pgscan_kswapd", "pages", &[E::PgScanKswapd]),
        ("pgscan_direct", "pages", &[E::PgScanDirect]),
        ("pgsteal", "pages", &[E::PgStealKswapd, E::PgStealDirect]),
        ("pgsteal_kswapd", "pages", &[E::PgStealKswapd]),
        ("pgsteal_direct", "pages", &[E::PgStealDirect]),
        ("pgactivate", "pages", &[E::PgActivate]),
        ("pgfault", "events", &[E::PgFault]),
        ("pgmajfault", "events", &[E::PgMajFault]),
        ("workingset_refault_anon", "pages", &[E::RefaultAnon]),
        ("workingset_refault_file", "pages", &[E::RefaultFile]),
        ("workingset_activate_file", "pages", &[E::ActivateFile]),
        ("pswpin", "pages", &[E::PswpIn]),
        ("pswpout", "pages", &[E::PswpOut]),
    ]
};

/// Levels at the end of a run, in the order of [`mm::Mm::group_levels`].
const AT_END: [&str; 5] = [
    "anon_at_end",
    "file_at_end",
    "file_dirty_at_end",
    "file_writeback_at_end",
    "active_file_at_end",
];

/// Returns the engine's form of a run's groups: parents by number, limits in pages.
pub fn configs(groups: &[Group]) -> Vec<GroupConfig> {
    let pages = |limit: Option<Limit>, default: u64| match limit {
        None => default,
        Some(Limit::Max) => NO_LIMIT,
        Some(Limit::Bytes(bytes)) => bytes / 4096,
    };
    let all = groups.iter().map(|group| {
        let s = &group.settings;
        GroupConfig {
            parent: parent(&group.name, groups),
            limits: GroupLimits {
                max: pages(s.max, NO_LIMIT),
                high: pages(s.high, NO_LIMIT),
                low: pages(s.low, 0),
                min: pages(s.min, 0),
                swap_max: pages(s.swap_max, NO_LIMIT),
                oom_group: s.oom_group.unwrap_or(false),
            },
        }
    });
    all.collect()
}

/// Returns the number of the group that a group lies in, by its name; 0: the root.
fn parent(name: &str, groups: &[Group]) -> u32 {
    name.rsplit_once('.')
        .map_or(0, |(above, _)| number(above, groups))
}

/// Returns the number of a group; 0: there is none of that name.
fn number(name: &str, groups: &[Group]) -> u32 {
    let at = groups.iter().position(|group| group.name == name);
    at.map_or(0, |at| at as u32 + 1)
}

/// Returns the names of all groups, and the number of the one that the whole workload runs in; 0:
/// none.
pub fn names(groups: &Groups) -> (Vec<String>, u32) {
    let names = groups.all.iter().map(|group| group.name.clone()).collect();
    let whole = groups.of_workload.as_deref();
    (names, whole.map_or(0, |name| number(name, &groups.all)))
}

/// Returns the levels of all groups for a series: the columns' names, and pages.
pub fn levels<const T: bool>(mm: &SimMm<T>) -> Vec<(String, f64)> {
    let mut all = Vec::new();
    for (g, name) in (1..).zip(&mm.world.groups) {
        let [current, swap, _] = mm.group_pages(g);
        all.push((format!("group.{name}.current"), current as f64));
        if mm.config.swap_slots > 0 {
            all.push((format!("group.{name}.swap_current"), swap as f64));
        }
    }
    all
}

/// Adds the figures of all groups from the start of the workload, at `start`, to `end` (ns).
pub fn figures<const T: bool>(
    mm: &SimMm<T>,
    (start, end): (u64, u64),
    into: &mut BTreeMap<String, Metric>,
) {
    if !mm.has_groups() {
        return;
    }
    let levels = mm.group_levels();
    for (g, name) in (1..).zip(&mm.world.groups) {
        let mut put = |figure: &str, unit, value: f64| {
            into.insert(format!("group.{name}.{figure}"), Metric { unit, value });
        };
        for (figure, unit, events) in COUNTERS {
            let sum: u64 = events.iter().map(|&e| mm.group_event(g, e)).sum();
            put(figure, unit, sum as f64);
        }
        for (stall, ns) in mm.world.sched.group_stalls(g, end) {
            if stall != Stall::CpuSome {
                put(stall.name(), "s", ns as f64 / SECOND as f64);
            }
        }
        put("peak", "pages", mm.group_pages(g)[2] as f64);
        for (figure, pages) in AT_END.into_iter().zip(levels[g as usize]) {
            put(figure, "pages", pages as f64);
        }
        let kills = mm.world.oom_kills.borrow();
        let inside = |kill: &&mm::world::OomKill| mm.group_contains(g, kill.group);
        if let Some(first) = kills.iter().find(inside) {
            let seconds = first.time.saturating_sub(start) as f64 / SECOND as f64;
            put("first_kill", "s", seconds);
        }
    }
}
