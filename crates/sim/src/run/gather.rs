//! Gathers the result of a run.

use super::shell::Progress;
use crate::SimMm;
use crate::account::{TaskClass, TaskTime};
use crate::filesystems::{self as fs};
use crate::ftrace;
use crate::groups;
use crate::latency::AllocClass;
use crate::result::{
    AllocLatency, Metric, Origin, Outcome, RunResult, Series, TrackerReport, TrackerRow,
};
use crate::sample::Names;
use crate::spec::{Machine, RunSpec};
use hdrhistogram::Histogram;
use mm::SECOND;
use mm::memory::watermark;
use mm::watch::vmstat::is_level;
use mm::world::OomKill;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Returns the inodes freed since the mount, of each filesystem.
pub(super) fn inodes_freed<const T: bool>(mm: &SimMm<T>) -> Vec<u64> {
    let all = 0..mm.world.fs.len() as u32;
    all.map(|sb| mm.inodes_freed(sb)).collect()
}

/// Returns the page cache's hit ratios and the bytes read again, as named metrics; none if they
/// were not counted.
fn reuse(r: &fs::Reuse) -> Vec<(String, Metric)> {
    let mut metrics = Vec::new();
    let mut put = |name: &str, unit, value| {
        metrics.push((name.to_string(), Metric { unit, value }));
    };
    if !r.on() {
        return metrics;
    }
    let (read, found) = (r.read.get(), r.read_found.get());
    let (all, all_found) = (read + r.written.get(), found + r.written_found.get());
    let ahead = r.read_ahead.get() + r.written_ahead.get();
    if all > 0 {
        put("hit_ratio", "share", all_found as f64 / all as f64);
        put("readahead_hit_ratio", "share", ahead as f64 / all as f64);
    }
    if read > 0 {
        put("read_hit_ratio", "share", found as f64 / read as f64);
    }
    put("read_from_disk", "bytes", r.fetched.get() as f64 * 4096.0);
    put("read_again", "bytes", r.fetched_again.get() as f64 * 4096.0);
    metrics
}

/// Gathers the result of a run: outcome, metrics, counters and series. `outcome`: the one for which
/// the observer ended the run; `check_error`: a counter that did not agree with its lists; `ended`:
/// the time of the end (nanoseconds), or `None` if every task waits for ever.
pub(super) fn gather<const T: bool>(
    mm: &SimMm<T>,
    spec: &RunSpec,
    progress: &Progress,
    (series, lumpiness): (Series, Option<f64>),
    outcome: Option<Outcome>,
    check_error: Option<String>,
    ended: Option<u64>,
) -> RunResult {
    let w = &mm.world;
    let end = progress.finished.get().or(ended).unwrap_or(0);
    let outcome = ending(mm, progress, outcome, check_error, ended.is_some());
    let tasks = TaskTime::by_class(w.sched.task_times(end).into_iter().map(|t| t.1));
    let mut metrics = of_programs(progress, end);
    of_the_world(mm, &tasks, &mut metrics);
    for (stall, ns) in w.sched.stalls(end) {
        let (name, value) = (stall.name().to_owned(), ns as f64 / SECOND as f64);
        metrics.insert(name, Metric { unit: "s", value });
    }
    metrics.extend(reuse(&w.reuse));
    let start = progress.started.get().unwrap_or(0);
    groups::figures(mm, (start, end), &mut metrics);
    of_each_filesystem(mm, &spec.machine, progress, &mut metrics);
    if let Some(value) = lumpiness {
        let name = "inode_reclaim_lumpiness".to_owned();
        metrics.insert(name, Metric { unit: "1", value });
    }
    RunResult {
        origin: Origin::Engine,
        outcome,
        metrics,
        counters: counters(mm, progress),
        reclaim: Some(w.reclaim.sums(end)),
        tasks,
        waits: Some(w.sched.waiting.sums(end)),
        moved: w.moved.get(),
        series,
        alloc_latency: latencies(mm, progress),
        watermarks: Some(mm.learned_watermarks(&spec.machine.name)),
        tracker: tracker(mm),
        sim_ns: end,
        notes: notes(mm, spec, progress),
        kills: String::new(),
        digest: w.sched.digest() ^ spec.seed,
    }
}

/// Returns how the run ended, by the gravest reason: no memory, a failed check, the observer's
/// outcome, killed processes, an error of the workload, tasks that all wait for ever.
fn ending<const T: bool>(
    mm: &SimMm<T>,
    progress: &Progress,
    outcome: Option<Outcome>,
    check_error: Option<String>,
    ended: bool,
) -> Outcome {
    if let Some(report) = mm.world.oom.borrow_mut().take() {
        Outcome::Oom { report }
    } else if let Some(error) = check_error {
        Outcome::Failed { error }
    } else if let Some(o) = outcome {
        o
    } else if ended && let Some(report) = kills(mm, progress) {
        Outcome::Oom { report }
    } else if let Some(error) = progress.error.borrow_mut().take() {
        Outcome::Failed {
            error: error.to_string(),
        }
    } else if !ended {
        Outcome::Failed {
            error: "every task waits for ever".into(),
        }
    } else {
        Outcome::Completed
    }
}

/// Returns the killed processes and the kernel's report of each OOM kill, as one text; `None` if
/// there was none.
fn kills<const T: bool>(mm: &SimMm<T>, progress: &Progress) -> Option<String> {
    // A program that was killed for its group's limit ends as any other: the kill is a result,
    // unless the whole workload was in the group.
    let kills = mm.world.oom_kills.borrow();
    let of_group = |kill: &OomKill| kill.over != 0 && mm.world.group_of_workload == 0;
    let kills: Vec<&OomKill> = kills.iter().filter(|kill| !of_group(kill)).collect();
    let start = progress.started.get().unwrap_or(0);
    let seconds = |kill: &OomKill| kill.time.saturating_sub(start) as f64 / 1e9;
    let killed = |kill: &OomKill| format!("{} ({}) at {:.3} s", kill.comm, kill.pid, seconds(kill));
    let names: Vec<String> = kills.iter().map(|kill| killed(kill)).collect();
    if names.is_empty() {
        return None;
    }
    let mut out = format!("{} killed: {}\n", names.len(), names.join(", "));
    for kill in kills {
        let asker = mm.world.listening.comm(kill.asker);
        let OomKill { order, text, .. } = kill;
        let mut gfp = String::new();
        ftrace::gfp::put(kill.gfp, &mut gfp);
        let _ = write!(
            out,
            "{asker} invoked oom-killer: gfp_mask={gfp}, order={order}, oom_score_adj=0\n{text}"
        );
    }
    Some(out)
}

/// Returns a sentence about a process that was killed for the limit of its memory control group.
fn killed_in_group<const T: bool>(mm: &SimMm<T>, progress: &Progress, kill: &OomKill) -> String {
    let name = |g: u32| &mm.world.groups[g as usize - 1];
    let start = progress.started.get().unwrap_or(0);
    let seconds = kill.time.saturating_sub(start) as f64 / 1e9;
    let place = match kill.group == kill.over {
        true => format!("at the limit of its group `{}`", name(kill.over)),
        false => format!(
            "in the group `{}`, at the limit of `{}`",
            name(kill.group),
            name(kill.over)
        ),
    };
    format!(
        "{seconds:.3} s: the OOM killer ended {} (process {}) {place}",
        kill.comm, kill.pid
    )
}

type Metrics = BTreeMap<String, Metric>;

/// Returns the metrics that the programs reported, and the elapsed time from the workload's start
/// to `end` (nanoseconds).
fn of_programs(progress: &Progress, end: u64) -> Metrics {
    let mut metrics = Metrics::new();
    if let Some(start) = progress.started.get() {
        let value = end.saturating_sub(start) as f64 / SECOND as f64;
        metrics.insert("elapsed".to_string(), Metric { unit: "s", value });
    }
    let reports = progress.reports.borrow();
    for (name, (unit, value)) in workload::report::of_run(reports.iter().cloned()) {
        metrics.insert(name, Metric { unit, value });
    }
    metrics
}

/// Adds metrics of the world: pages that were read ahead, reclaimed unused and read again, the
/// longest allocation, stack depths, the workload's CPU time, and watermarks for programs whose
/// figures are read beside them. `tasks`: times by class.
fn of_the_world<const T: bool>(mm: &SimMm<T>, tasks: &[TaskTime], metrics: &mut Metrics) {
    let w = &mm.world;
    let put = |metrics: &mut Metrics, name: &str, unit, value| {
        metrics.insert(name.to_owned(), Metric { unit, value });
    };
    if w.fs[0].on_demand() {
        let value = w.dropped.reread.get() as f64;
        put(metrics, "readahead_reread", "pages", value);
    }
    let alloc = w.alloc.histograms();
    let longest = alloc.iter().flatten().map(Histogram::max).max();
    let longest = longest.unwrap_or(0) as f64 / 1000.0;
    put(metrics, "alloc_wait_max", "us", longest);
    let longest = w.alloc.longest_reclaim() as f64 / 1000.0;
    put(metrics, "reclaim_wait_max", "us", longest);
    for (name, bytes) in w.stack.figures() {
        put(metrics, name, "B", f64::from(bytes));
    }
    if let Some(t) = tasks.iter().find(|t| t.class == TaskClass::Workload) {
        let cpu = t.outside.cpu + t.in_reclaim.cpu;
        let seconds = |ns: u64| ns as f64 / SECOND as f64;
        put(metrics, "user_time", "s", seconds(t.user));
        let system = cpu.saturating_sub(t.user);
        put(metrics, "system_time", "s", seconds(system));
    }
    let mut figures = workload::programs::metrics();
    if figures.any(|m| m.beside_watermarks && metrics.contains_key(m.name)) {
        let lowmem = watermark::lowmem_kbytes(&mm.config.zones);
        let sums = mm.sysctls().wmark_kbytes(lowmem);
        let names = ["wmark_min", "wmark_low", "wmark_high"];
        for (name, kb) in names.into_iter().zip(sums) {
            put(metrics, name, "kB", kb as f64);
        }
    }
}

/// Adds metrics of each filesystem, if there are several: inodes freed since the start, and with a
/// list of disks the bytes that each disk wrote and read since boot.
fn of_each_filesystem<const T: bool>(
    mm: &SimMm<T>,
    machine: &Machine,
    progress: &Progress,
    metrics: &mut Metrics,
) {
    if machine.mounts.is_empty() {
        return;
    }
    let freed = inodes_freed(mm);
    let before = progress.freed.borrow();
    let names = Names::of(machine);
    for (i, freed) in freed.iter().enumerate() {
        let value = (freed - before.get(i).unwrap_or(freed)) as f64;
        let unit = "inodes";
        metrics.insert(names.freed(i), Metric { unit, value });
    }
    if let Names::ByMount(_) = names {
        for (i, fs) in mm.world.fs.iter().enumerate() {
            let blocks = mm.world.blocks(fs.volume);
            for (what, blocks) in [("disk_written", blocks.0), ("disk_read", blocks.1)] {
                let (unit, value) = ("bytes", blocks as f64 * 4096.0);
                metrics.insert(names.of_mount(what, i), Metric { unit, value });
            }
        }
    }
}

/// Returns the counters of `/proc/vmstat` since the workload's start, and its levels (such as
/// `nr_dirty`) as they are now.
fn counters<const T: bool>(mm: &SimMm<T>, progress: &Progress) -> BTreeMap<String, u64> {
    let baseline: BTreeMap<String, u64> = progress.baseline.borrow().iter().cloned().collect();
    let since = |(name, v): (String, u64)| {
        let before = match baseline.get(&name) {
            Some(&before) if !is_level(&name) => before,
            _ => 0,
        };
        (name, v.saturating_sub(before))
    };
    mm.vmstat().into_iter().map(since).collect()
}

/// Returns the latencies of the workload's page allocations: a histogram for each path that
/// occurred, and the slowest allocations.
fn latencies<const T: bool>(mm: &SimMm<T>, progress: &Progress) -> AllocLatency {
    let alloc = mm.world.alloc.histograms();
    let of = |&p: &AllocClass| Some((p.name(), alloc[p as usize].clone()?));
    AllocLatency {
        paths: AllocClass::ALL.iter().filter_map(of).collect(),
        slowest: mm.world.slowest.list(progress.started.get().unwrap_or(0)),
    }
}

/// Returns the notes of the workload, the sysctls written in mid-run, and the dirty pages lost.
fn notes<const T: bool>(mm: &SimMm<T>, spec: &RunSpec, progress: &Progress) -> Vec<String> {
    let mut notes = spec.workload.notes.clone();
    for (nth, change) in spec.changes.iter().enumerate() {
        let made = (nth as u32) < progress.changes.get();
        let not = if made { "" } else { " (the run had ended)" };
        notes.push(change.text() + not);
    }
    for kill in &*mm.world.oom_kills.borrow() {
        if kill.over != 0 {
            notes.push(killed_in_group(mm, progress, kill));
        }
    }
    let lost = mm.world.lost_pages.get();
    if lost > 0 {
        notes.push(format!(
            "{lost} dirty pages could not be written and are lost"
        ));
    }
    notes
}

/// Returns which path instantiated, dirtied and activated pages; `None` unless that was tracked.
fn tracker<const T: bool>(mm: &SimMm<T>) -> Option<TrackerReport> {
    let rows = mm.tracker_rows()?;
    let both = rows.into_iter().flat_map(|(a, b, dirtied, activated)| {
        [("dirtied", dirtied), ("activated", activated)].map(|(event, count)| TrackerRow {
            instantiated_by: a.name(),
            path: b.name(),
            event,
            count,
        })
    });
    Some(TrackerReport {
        rows: both.filter(|r| r.count > 0).collect(),
    })
}
