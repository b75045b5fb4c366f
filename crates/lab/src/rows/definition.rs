//! The rows of mm reports: one table of what each is, how it is computed and what it says
//! (docs/reference/counters-and-traces.md).
//!
//! A row's name is the `metric` of the published tables where they have it. What the engine does
//! not produce is [`Value::Unsupported`] with the reason and never 0.

use crate::model::Better;
use sim::RunResult;
use sim::account::{ClassSums, CongestionWaits};

/// The block of a report that a row stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Block {
    /// fs_mark's figures.
    FsMark,
    /// Durations of the test.
    Duration,
    /// Deltas of /proc/vmstat, and what is derived from them.
    Vmstat,
    /// Sums over vmscan's trace events.
    Vmscan,
    /// Sums over congestion waits.
    Congestion,
}

impl Block {
    /// Every block, in reporting order.
    pub const ALL: [Self; 5] = [
        Self::FsMark,
        Self::Duration,
        Self::Vmstat,
        Self::Vmscan,
        Self::Congestion,
    ];

    /// The heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::FsMark => "FS-Mark",
            Self::Duration => "MMTests Statistics: duration",
            Self::Vmstat => "MMTests Statistics: vmstat",
            Self::Vmscan => "FTrace Reclaim Statistics: vmscan",
            Self::Congestion => "FTrace Reclaim Statistics: congestion_wait",
        }
    }
}

/// What a run has for a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// This.
    Is(f64),
    /// Nothing: the engine does not produce it, for this reason.
    Unsupported(&'static str),
    /// Nothing: this workload or machine has no such thing.
    Absent,
}

/// One row.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// `block: label`, the `metric` of the published tables.
    pub name: &'static str,
    /// Other names of the same figure.
    pub also: &'static [&'static str],
    /// Where it stands.
    pub block: Block,
    /// How it is computed.
    pub formula: &'static str,
    /// The unit.
    pub unit: &'static str,
    /// Digits after the point.
    pub decimals: usize,
    /// The kernels whose reports have it.
    pub kernels: &'static str,
    /// Which way is good.
    pub better: Better,
    /// What a high value means.
    pub high: &'static str,
    /// Rows and counters to look at with it.
    pub related: &'static [&'static str],
    /// The value in one run.
    pub value: fn(&RunResult) -> Value,
}

impl Row {
    /// The name without its block.
    pub fn label(&self) -> &'static str {
        self.name.split_once(": ").map_or(self.name, |(_, l)| l)
    }
}

/// The row of a name, or of another name of the same figure.
pub fn row(name: &str) -> Option<&'static Row> {
    TABLE
        .iter()
        .find(|r| r.name == name || r.also.contains(&name))
}

use Better::{Higher, Lower, Neither};
use Value::{Absent, Is, Unsupported};

fn metric(r: &RunResult, name: &str) -> Value {
    r.metrics.get(name).map_or(Absent, |m| Is(m.value))
}

fn counter(r: &RunResult, name: &'static str) -> Value {
    r.counters
        .get(name)
        .map_or(Unsupported("the engine does not count it"), |&v| {
            Is(v as f64)
        })
}

const ZONES: [&str; 4] = ["dma", "dma32", "normal", "movable"];

/// A zone counter over all zones.
fn zones(r: &RunResult, event: &str) -> Option<f64> {
    let found: Vec<u64> = ZONES
        .iter()
        .filter_map(|z| r.counters.get(&format!("{event}_{z}")).copied())
        .collect();
    (!found.is_empty()).then(|| found.iter().sum::<u64>() as f64)
}

fn over_zones(r: &RunResult, event: &str) -> Value {
    zones(r, event).map_or(Unsupported("the engine does not count it"), Is)
}

/// A formula over counters: unsupported where one of them is.
fn of<const N: usize>(values: [Value; N], f: impl FnOnce([f64; N]) -> f64) -> Value {
    let mut numbers = [0.0; N];
    for (n, v) in numbers.iter_mut().zip(values) {
        match v {
            Is(x) => *n = x,
            other => return other,
        }
    }
    Is(f(numbers))
}

fn elapsed(r: &RunResult) -> Value {
    metric(r, "elapsed")
}

fn kswapd_scanned(r: &RunResult) -> Value {
    over_zones(r, "pgscan_kswapd")
}

fn direct_scanned(r: &RunResult) -> Value {
    over_zones(r, "pgscan_direct")
}

fn kswapd_reclaimed(r: &RunResult) -> Value {
    counter(r, "kswapd_steal")
}

fn direct_reclaimed(r: &RunResult) -> Value {
    of(
        [over_zones(r, "pgsteal"), kswapd_reclaimed(r)],
        |[all, k]| all - k,
    )
}

/// Whole per cent of `part` in `whole`; `empty` where there is no whole.
fn floored(part: f64, whole: f64, empty: f64) -> f64 {
    if whole == 0.0 {
        empty
    } else {
        (100.0 * part / whole).floor()
    }
}

fn per_second(amount: Value, r: &RunResult) -> Value {
    of(
        [amount, elapsed(r)],
        |[n, t]| if t > 0.0 { n / t } else { 0.0 },
    )
}

fn percent(part: f64, whole: f64) -> f64 {
    if whole == 0.0 {
        0.0
    } else {
        100.0 * part / whole
    }
}

fn seconds(ns: u64) -> Value {
    Is(ns as f64 / 1e9)
}

fn count(n: u64) -> Value {
    Is(n as f64)
}

fn milliseconds(w: &CongestionWaits) -> Value {
    Is(w.delayed_us as f64 / 1000.0)
}

fn scanned(r: &RunResult) -> Value {
    of([kswapd_scanned(r), direct_scanned(r)], |[k, d]| k + d)
}

fn reclaimed(r: &RunResult) -> Value {
    of([kswapd_reclaimed(r), direct_reclaimed(r)], |[k, d]| k + d)
}

fn writes(r: &RunResult, of: fn(&ClassSums) -> u64) -> f64 {
    (of(&r.reclaim.direct) + of(&r.reclaim.kswapd)) as f64
}

fn cpu_seconds(r: &RunResult) -> Value {
    of(
        [metric(r, "user_time"), metric(r, "system_time")],
        |[u, s]| u + s,
    )
}

fn allocated(r: &RunResult, zone: &str) -> Value {
    let found = r.counters.get(&format!("pgalloc_{zone}"));
    found.map_or(Absent, |&v| Is(v as f64))
}

fn zone_velocity(r: &RunResult, zone: &str) -> Value {
    let get = |e: &str| r.counters.get(&format!("{e}_{zone}")).map(|&v| v as f64);
    match (get("pgscan_kswapd"), get("pgscan_direct")) {
        (Some(k), Some(d)) => per_second(Is(k + d), r),
        _ => Absent,
    }
}

const NO_COMPACTION: &str = "the engine has no compaction";

const ALL_KERNELS: &str = "all";
const TRACED: &str = "2.6.32 and later, with tracing on";
const CONGESTION: &str = "2.6.36 to 5.15, with tracing on; later kernels have mm_vmscan_throttled";
const COMPACTING: &str = "2.6.35 and later";

/// Every row, block by block in reporting order.
pub const TABLE: &[Row] = &[
    Row {
        name: "fsmark: Files/s min",
        also: &["files_per_second_min"],
        block: Block::FsMark,
        formula: "smallest Files/s of fs_mark's loops; Files/s of a loop = sum over threads of (files of the thread / the thread's own loop time)",
        unit: "files/s",
        decimals: 2,
        kernels: ALL_KERNELS,
        better: Higher,
        high: "even the slowest loop was fast; far below the mean, single loops were held up",
        related: &["fsmark: Files/s mean", "fsmark: Files/s stddev"],
        value: |r| metric(r, "files_per_second_min"),
    },
    Row {
        name: "fsmark: Files/s mean",
        also: &["files_per_second_mean"],
        block: Block::FsMark,
        formula: "mean of Files/s over fs_mark's loops; Files/s of a loop = sum over threads of (files of the thread / the thread's own loop time)",
        unit: "files/s",
        decimals: 2,
        kernels: ALL_KERNELS,
        better: Higher,
        high: "files are written quickly. With many threads that end at different times the sum of their rates exceeds files / wall time, so it can rise while elapsed time rises too",
        related: &[
            "duration: Total Elapsed Time (seconds)",
            "fsmark: Files/s stddev",
        ],
        value: |r| metric(r, "files_per_second_mean"),
    },
    Row {
        name: "fsmark: Files/s stddev",
        also: &["files_per_second_stddev"],
        block: Block::FsMark,
        formula: "sqrt(sum((x - mean)^2) / n) of Files/s over fs_mark's loops (population form)",
        unit: "files/s",
        decimals: 2,
        kernels: ALL_KERNELS,
        better: Lower,
        high: "loops differ much from each other",
        related: &["fsmark: Files/s mean"],
        value: |r| metric(r, "files_per_second_stddev"),
    },
    Row {
        name: "fsmark: Files/s max",
        also: &["files_per_second_max"],
        block: Block::FsMark,
        formula: "largest Files/s of fs_mark's loops; Files/s of a loop = sum over threads of (files of the thread / the thread's own loop time)",
        unit: "files/s",
        decimals: 2,
        kernels: ALL_KERNELS,
        better: Higher,
        high: "at least one loop was fast; often the first, which fills free memory",
        related: &["fsmark: Files/s mean"],
        value: |r| metric(r, "files_per_second_max"),
    },
    Row {
        name: "fsmark: Overhead min",
        also: &["app_overhead_min"],
        block: Block::FsMark,
        formula: "smallest overhead of fs_mark's loops; overhead of a loop = sum over threads of (loop time - time inside open, write, fsync, sync and close)",
        unit: "us",
        decimals: 2,
        kernels: ALL_KERNELS,
        better: Lower,
        high: "the program itself takes time outside system calls, or waits for a CPU there",
        related: &["fsmark: Overhead mean"],
        value: |r| metric(r, "app_overhead_min"),
    },
    Row {
        name: "fsmark: Overhead mean",
        also: &["app_overhead_mean"],
        block: Block::FsMark,
        formula: "mean overhead of fs_mark's loops; overhead of a loop = sum over threads of (loop time - time inside open, write, fsync, sync and close)",
        unit: "us",
        decimals: 2,
        kernels: ALL_KERNELS,
        better: Lower,
        high: "the program itself takes time outside system calls, or waits for a CPU there",
        related: &[
            "fsmark: Files/s mean",
            "duration: User/Sys Time Running Test (seconds)",
        ],
        value: |r| metric(r, "app_overhead_mean"),
    },
    Row {
        name: "fsmark: Overhead stddev",
        also: &["app_overhead_stddev"],
        block: Block::FsMark,
        formula: "sqrt(sum((x - mean)^2) / n) of the overhead over fs_mark's loops (population form)",
        unit: "us",
        decimals: 2,
        kernels: ALL_KERNELS,
        better: Lower,
        high: "loops differ much from each other",
        related: &["fsmark: Overhead mean"],
        value: |r| metric(r, "app_overhead_stddev"),
    },
    Row {
        name: "fsmark: Overhead max",
        also: &["app_overhead_max"],
        block: Block::FsMark,
        formula: "largest overhead of fs_mark's loops; overhead of a loop = sum over threads of (loop time - time inside open, write, fsync, sync and close)",
        unit: "us",
        decimals: 2,
        kernels: ALL_KERNELS,
        better: Lower,
        high: "in some loop the program waited for a CPU outside system calls",
        related: &["fsmark: Overhead mean"],
        value: |r| metric(r, "app_overhead_max"),
    },
    Row {
        name: "duration: User/Sys Time Running Test (seconds)",
        also: &["User/Sys", "User/Sys Time"],
        block: Block::Duration,
        formula: "user_time + system_time: CPU seconds, in programs and in the kernel on their behalf, summed over the test's processes. Kernel threads (kswapd, flushers) are not in it",
        unit: "s",
        decimals: 2,
        kernels: ALL_KERNELS,
        better: Lower,
        high: "the processes burn CPU: in direct reclaim, in copying, in the filesystem. Time that they wait is not in it",
        related: &[
            "user_time",
            "system_time",
            "duration: Total Elapsed Time (seconds)",
            "ftrace vmscan: Percentage Time Spent Direct Reclaim",
        ],
        value: cpu_seconds,
    },
    Row {
        name: "duration: User Time (seconds)",
        also: &["user_time", "User"],
        block: Block::Duration,
        formula: "CPU seconds that the test's programs execute themselves, summed over processes",
        unit: "s",
        decimals: 2,
        kernels: "reports from 2012 on; earlier ones add system time",
        better: Lower,
        high: "the program computes or copies much",
        related: &[
            "duration: User/Sys Time Running Test (seconds)",
            "system_time",
        ],
        value: |r| metric(r, "user_time"),
    },
    Row {
        name: "duration: System Time (seconds)",
        also: &["system_time", "System", "Sys"],
        block: Block::Duration,
        formula: "CPU seconds of the test's processes - user_time: the kernel on their behalf, with direct reclaim and with interrupts that arrive on their CPU",
        unit: "s",
        decimals: 2,
        kernels: "reports from 2012 on; earlier ones add user time",
        better: Lower,
        high: "the processes reclaim for themselves, or write back for themselves at the dirty limit",
        related: &[
            "duration: User/Sys Time Running Test (seconds)",
            "user_time",
            "allocstall",
        ],
        value: |r| metric(r, "system_time"),
    },
    Row {
        name: "duration: Total Elapsed Time (seconds)",
        also: &["elapsed"],
        block: Block::Duration,
        formula: "wall seconds from the test's start to the end of its last process; what is dirty then is not waited for",
        unit: "s",
        decimals: 2,
        kernels: ALL_KERNELS,
        better: Lower,
        high: "the test took long: it was throttled, stalled, or the device was badly used",
        related: &[
            "duration: User/Sys Time Running Test (seconds)",
            "stall time",
        ],
        value: elapsed,
    },
    Row {
        name: "vmstat: Page Ins",
        also: &["Sector Reads"],
        block: Block::Vmstat,
        formula: "delta pgpgin: sectors / 2",
        unit: "kB",
        decimals: 0,
        kernels: "all; reports of 2014 call it Sector Reads",
        better: Neither,
        high: "much was read; for a test that only writes, pages were evicted and read again, or swapped in",
        related: &["pgpgin", "vmstat: Swap Ins"],
        value: |r| counter(r, "pgpgin"),
    },
    Row {
        name: "vmstat: Page Outs",
        also: &["Sector Writes"],
        block: Block::Vmstat,
        formula: "delta pgpgout: sectors / 2, swap included",
        unit: "kB",
        decimals: 0,
        kernels: "all; reports of 2014 call it Sector Writes",
        better: Neither,
        high: "much was written; above the test's own data it is swap, metadata, or pages written twice",
        related: &["pgpgout", "vmstat: Swap Outs", "nr_written"],
        value: |r| counter(r, "pgpgout"),
    },
    Row {
        name: "vmstat: Swap Ins",
        also: &[],
        block: Block::Vmstat,
        formula: "delta pswpin",
        unit: "pages",
        decimals: 0,
        kernels: ALL_KERNELS,
        better: Lower,
        high: "anonymous pages that were still wanted had been swapped out",
        related: &["pswpin", "vmstat: Swap Outs"],
        value: |r| counter(r, "pswpin"),
    },
    Row {
        name: "vmstat: Swap Outs",
        also: &["Page writes anon"],
        block: Block::Vmstat,
        formula: "delta pswpout",
        unit: "pages",
        decimals: 0,
        kernels: ALL_KERNELS,
        better: Lower,
        high: "reclaim turns to anonymous memory, often because the file pages it meets are dirty",
        related: &["pswpout", "vmstat: Page writes by reclaim"],
        value: |r| counter(r, "pswpout"),
    },
    Row {
        name: "vmstat: Direct pages scanned",
        also: &[],
        block: Block::Vmstat,
        formula: "sum over zones of delta pgscan_direct",
        unit: "pages",
        decimals: 0,
        kernels: ALL_KERNELS,
        better: Lower,
        high: "processes search for pages themselves: kswapd does not keep up",
        related: &[
            "pgscan_direct",
            "vmstat: Kswapd pages scanned",
            "vmstat: Direct efficiency",
        ],
        value: direct_scanned,
    },
    Row {
        name: "vmstat: Kswapd pages scanned",
        also: &[],
        block: Block::Vmstat,
        formula: "sum over zones of delta pgscan_kswapd",
        unit: "pages",
        decimals: 0,
        kernels: ALL_KERNELS,
        better: Neither,
        high: "kswapd searches much: memory is short, or most pages it meets cannot be freed",
        related: &[
            "pgscan_kswapd",
            "vmstat: Kswapd pages reclaimed",
            "vmstat: Kswapd efficiency",
        ],
        value: kswapd_scanned,
    },
    Row {
        name: "vmstat: Kswapd pages reclaimed",
        also: &[],
        block: Block::Vmstat,
        formula: "delta kswapd_steal (3.4 and later: sum over zones of delta pgsteal_kswapd)",
        unit: "pages",
        decimals: 0,
        kernels: ALL_KERNELS,
        better: Neither,
        high: "kswapd frees most of what the test needs",
        related: &["kswapd_steal", "vmstat: Kswapd pages scanned"],
        value: kswapd_reclaimed,
    },
    Row {
        name: "vmstat: Direct pages reclaimed",
        also: &[],
        block: Block::Vmstat,
        formula: "sum over zones of delta pgsteal - delta kswapd_steal (3.4 and later: sum of delta pgsteal_direct)",
        unit: "pages",
        decimals: 0,
        kernels: ALL_KERNELS,
        better: Lower,
        high: "processes free their pages themselves",
        related: &["pgsteal", "kswapd_steal", "vmstat: Direct pages scanned"],
        value: direct_reclaimed,
    },
    Row {
        name: "vmstat: Kswapd efficiency",
        also: &["kswapd_efficiency"],
        block: Block::Vmstat,
        formula: "floor(100 * kswapd pages reclaimed / kswapd pages scanned); 100 if none were scanned",
        unit: "%",
        decimals: 0,
        kernels: ALL_KERNELS,
        better: Higher,
        high: "most pages that kswapd looks at can be freed at once; low: it meets dirty, locked or referenced pages",
        related: &[
            "vmstat: Kswapd pages scanned",
            "vmstat: Kswapd pages reclaimed",
            "vmstat: Page reclaim invalidate",
        ],
        value: |r| {
            of([kswapd_reclaimed(r), kswapd_scanned(r)], |[x, s]| {
                floored(x, s, 100.0)
            })
        },
    },
    Row {
        name: "vmstat: Kswapd velocity",
        also: &[],
        block: Block::Vmstat,
        formula: "kswapd pages scanned / Total Elapsed Time",
        unit: "pages/s",
        decimals: 3,
        kernels: ALL_KERNELS,
        better: Neither,
        high: "kswapd scans fast; above what the disk cleans (its pages/s), it must meet dirty pages at the list's end",
        related: &[
            "vmstat: Kswapd pages scanned",
            "duration: Total Elapsed Time (seconds)",
        ],
        value: |r| per_second(kswapd_scanned(r), r),
    },
    Row {
        name: "vmstat: Direct efficiency",
        also: &["direct_efficiency"],
        block: Block::Vmstat,
        formula: "floor(100 * direct pages reclaimed / direct pages scanned); 100 if none were scanned",
        unit: "%",
        decimals: 0,
        kernels: ALL_KERNELS,
        better: Higher,
        high: "direct reclaim finds pages at once; low: it meets dirty, locked or referenced pages",
        related: &[
            "vmstat: Direct pages scanned",
            "vmstat: Direct pages reclaimed",
        ],
        value: |r| {
            of([direct_reclaimed(r), direct_scanned(r)], |[x, s]| {
                floored(x, s, 100.0)
            })
        },
    },
    Row {
        name: "vmstat: Direct velocity",
        also: &[],
        block: Block::Vmstat,
        formula: "direct pages scanned / Total Elapsed Time",
        unit: "pages/s",
        decimals: 3,
        kernels: ALL_KERNELS,
        better: Lower,
        high: "processes scan fast for themselves",
        related: &[
            "vmstat: Direct pages scanned",
            "duration: Total Elapsed Time (seconds)",
        ],
        value: |r| per_second(direct_scanned(r), r),
    },
    Row {
        name: "vmstat: Percentage direct scans",
        also: &[],
        block: Block::Vmstat,
        formula: "floor(100 * direct pages scanned / (kswapd + direct pages scanned)); 0 if kswapd scanned none",
        unit: "%",
        decimals: 0,
        kernels: ALL_KERNELS,
        better: Lower,
        high: "kswapd leaves the work to the processes",
        related: &[
            "vmstat: Direct pages scanned",
            "vmstat: Kswapd pages scanned",
        ],
        value: |r| {
            of([direct_scanned(r), kswapd_scanned(r)], |[d, k]| {
                if k == 0.0 {
                    0.0
                } else {
                    floored(d, k + d, 0.0)
                }
            })
        },
    },
    Row {
        name: "vmstat: Zone dma velocity",
        also: &[],
        block: Block::Vmstat,
        formula: "(delta pgscan_kswapd_dma + delta pgscan_direct_dma) / Total Elapsed Time",
        unit: "pages/s",
        decimals: 3,
        kernels: "reports of 2014; to 4.7, which counts by zone",
        better: Neither,
        high: "much is scanned in this zone; compared with its size, it ages faster than the others",
        related: &["pgscan_kswapd", "pgscan_direct"],
        value: |r| zone_velocity(r, "dma"),
    },
    Row {
        name: "vmstat: Zone dma32 velocity",
        also: &[],
        block: Block::Vmstat,
        formula: "(delta pgscan_kswapd_dma32 + delta pgscan_direct_dma32) / Total Elapsed Time",
        unit: "pages/s",
        decimals: 3,
        kernels: "reports of 2014; to 4.7, which counts by zone",
        better: Neither,
        high: "much is scanned in this zone; compared with its size, it ages faster than the others",
        related: &["pgscan_kswapd", "pgscan_direct"],
        value: |r| zone_velocity(r, "dma32"),
    },
    Row {
        name: "vmstat: Zone normal velocity",
        also: &[],
        block: Block::Vmstat,
        formula: "(delta pgscan_kswapd_normal + delta pgscan_direct_normal) / Total Elapsed Time",
        unit: "pages/s",
        decimals: 3,
        kernels: "reports of 2014; to 4.7, which counts by zone",
        better: Neither,
        high: "much is scanned in this zone; compared with its size, it ages faster than the others",
        related: &["pgscan_kswapd", "pgscan_direct"],
        value: |r| zone_velocity(r, "normal"),
    },
    Row {
        name: "vmstat: Page writes by reclaim",
        also: &[],
        block: Block::Vmstat,
        formula: "delta nr_vmscan_write: pages that reclaim handed to their writepage, refused ones included",
        unit: "pages",
        decimals: 0,
        kernels: ALL_KERNELS,
        better: Lower,
        high: "reclaim writes single pages in list order, which is slow on a disk and needs deep stacks",
        related: &[
            "nr_vmscan_write",
            "vmstat: Swap Outs",
            "vmstat: Page writes file",
        ],
        value: |r| counter(r, "nr_vmscan_write"),
    },
    Row {
        name: "vmstat: Page writes file",
        also: &[],
        block: Block::Vmstat,
        formula: "delta nr_vmscan_write - delta pswpout; 0 where swap slots freed in flight make it negative",
        unit: "pages",
        decimals: 0,
        kernels: "reports of 2014",
        better: Lower,
        high: "reclaim writes file pages instead of leaving them to the flusher",
        related: &["vmstat: Page writes by reclaim", "vmstat: Swap Outs"],
        value: |r| {
            of(
                [counter(r, "nr_vmscan_write"), counter(r, "pswpout")],
                |[w, s]| (w - s).max(0.0),
            )
        },
    },
    Row {
        name: "vmstat: Page writes skipped",
        also: &[],
        block: Block::Vmstat,
        formula: "delta nr_vmscan_write_skip: dirty file pages that reclaim left alone",
        unit: "pages",
        decimals: 0,
        kernels: "the first patches of writeback-from-reclaim only; 0 in others",
        better: Neither,
        high: "reclaim meets many dirty file pages that it may not write",
        related: &["nr_vmscan_write_skip", "vmstat: Page reclaim invalidate"],
        value: |r| counter(r, "nr_vmscan_write_skip"),
    },
    Row {
        name: "vmstat: Page reclaim invalidate",
        also: &["Page reclaim immediate"],
        block: Block::Vmstat,
        formula: "delta nr_vmscan_immediate_reclaim (nr_vmscan_invalidate in the posted patches): dirty file pages marked to be reclaimed as soon as they are clean",
        unit: "pages",
        decimals: 0,
        kernels: "patch 7 of writeback-from-reclaim; 3.2 and later",
        better: Neither,
        high: "dirty pages reach the end of the list before the flusher has cleaned them",
        related: &[
            "nr_vmscan_immediate_reclaim",
            "pgrotated",
            "vmstat: Page writes skipped",
        ],
        value: |r| counter(r, "nr_vmscan_immediate_reclaim"),
    },
    Row {
        name: "vmstat: Write invalidated",
        also: &[],
        block: Block::Vmstat,
        formula: "always 0: a leftover of the report, of which no kernel has a counter",
        unit: "pages",
        decimals: 0,
        kernels: "none",
        better: Neither,
        high: "cannot be",
        related: &["vmstat: Page reclaim invalidate"],
        value: |_| Is(0.0),
    },
    Row {
        name: "vmstat: Page reclaim throttled",
        also: &[],
        block: Block::Vmstat,
        formula: "delta nr_vmscan_throttled, which only the first version of writeback-from-reclaim had; always 0 without it",
        unit: "events",
        decimals: 0,
        kernels: "version 1 of writeback-from-reclaim only",
        better: Neither,
        high: "cannot be: see `throttled` for rows that do count throttling",
        related: &[
            "throttled",
            "ftrace congestion: Direct number conditional waited",
        ],
        value: |_| Is(0.0),
    },
    Row {
        name: "vmstat: Slabs scanned",
        also: &[],
        block: Block::Vmstat,
        formula: "delta slabs_scanned (3.0: 128 a batch)",
        unit: "objects",
        decimals: 0,
        kernels: ALL_KERNELS,
        better: Neither,
        high: "reclaim asks the shrinkers for much",
        related: &["vmstat: Direct inode steals", "vmstat: Kswapd inode steals"],
        value: |r| counter(r, "slabs_scanned"),
    },
    Row {
        name: "vmstat: Direct inode steals",
        also: &[],
        block: Block::Vmstat,
        formula: "delta pginodesteal: page-cache pages dropped with evicted inodes by processes",
        unit: "pages",
        decimals: 0,
        kernels: ALL_KERNELS,
        better: Lower,
        high: "whole files leave the cache with their inodes",
        related: &["vmstat: Kswapd inode steals"],
        value: |r| counter(r, "pginodesteal"),
    },
    Row {
        name: "vmstat: Kswapd inode steals",
        also: &[],
        block: Block::Vmstat,
        formula: "delta kswapd_inodesteal: page-cache pages dropped with evicted inodes by kswapd",
        unit: "pages",
        decimals: 0,
        kernels: ALL_KERNELS,
        better: Lower,
        high: "whole files leave the cache with their inodes",
        related: &["vmstat: Direct inode steals"],
        value: |r| counter(r, "kswapd_inodesteal"),
    },
    Row {
        name: "vmstat: Kswapd skipped wait",
        also: &[],
        block: Block::Vmstat,
        formula: "delta kswapd_skip_congestion_wait",
        unit: "events",
        decimals: 0,
        kernels: "2.6.34 to 3.10",
        better: Lower,
        high: "kswapd was behind: some zone was under its min watermark when it would have waited",
        related: &[
            "kswapd_skip_congestion_wait",
            "ftrace congestion: KSwapd number congest waited",
        ],
        value: |r| counter(r, "kswapd_skip_congestion_wait"),
    },
    Row {
        name: "vmstat: Compaction stalls",
        also: &[],
        block: Block::Vmstat,
        formula: "delta compact_stall",
        unit: "events",
        decimals: 0,
        kernels: COMPACTING,
        better: Lower,
        high: "processes compact memory for large pages themselves",
        related: &["vmstat: Compaction success"],
        value: |_| Unsupported(NO_COMPACTION),
    },
    Row {
        name: "vmstat: Compaction success",
        also: &[],
        block: Block::Vmstat,
        formula: "delta compact_success",
        unit: "events",
        decimals: 0,
        kernels: COMPACTING,
        better: Higher,
        high: "compaction ends with a large page",
        related: &["vmstat: Compaction stalls"],
        value: |_| Unsupported(NO_COMPACTION),
    },
    Row {
        name: "vmstat: Compaction failures",
        also: &[],
        block: Block::Vmstat,
        formula: "delta compact_fail",
        unit: "events",
        decimals: 0,
        kernels: COMPACTING,
        better: Lower,
        high: "compaction ends without a large page",
        related: &["vmstat: Compaction stalls"],
        value: |_| Unsupported(NO_COMPACTION),
    },
    Row {
        name: "vmstat: Compaction pages moved",
        also: &[],
        block: Block::Vmstat,
        formula: "delta compact_pages_moved",
        unit: "pages",
        decimals: 0,
        kernels: COMPACTING,
        better: Neither,
        high: "compaction works much",
        related: &["vmstat: Compaction move failure"],
        value: |_| Unsupported(NO_COMPACTION),
    },
    Row {
        name: "vmstat: Compaction move failure",
        also: &[],
        block: Block::Vmstat,
        formula: "delta compact_pagemigrate_failed",
        unit: "pages",
        decimals: 0,
        kernels: COMPACTING,
        better: Lower,
        high: "pages could not be moved: in use or under I/O",
        related: &["vmstat: Compaction pages moved"],
        value: |_| Unsupported(NO_COMPACTION),
    },
    Row {
        name: "vmstat: DMA allocs",
        also: &[],
        block: Block::Vmstat,
        formula: "delta pgalloc_dma",
        unit: "pages",
        decimals: 0,
        kernels: "reports of 2014",
        better: Neither,
        high: "the zone serves many allocations",
        related: &["pgalloc"],
        value: |r| allocated(r, "dma"),
    },
    Row {
        name: "vmstat: DMA32 allocs",
        also: &[],
        block: Block::Vmstat,
        formula: "delta pgalloc_dma32",
        unit: "pages",
        decimals: 0,
        kernels: "reports of 2014",
        better: Neither,
        high: "the zone serves many allocations; in proportion to its size is fair",
        related: &["pgalloc"],
        value: |r| allocated(r, "dma32"),
    },
    Row {
        name: "vmstat: Normal allocs",
        also: &[],
        block: Block::Vmstat,
        formula: "delta pgalloc_normal",
        unit: "pages",
        decimals: 0,
        kernels: "reports of 2014",
        better: Neither,
        high: "the zone serves many allocations; in proportion to its size is fair",
        related: &["pgalloc"],
        value: |r| allocated(r, "normal"),
    },
    Row {
        name: "vmstat: Movable allocs",
        also: &[],
        block: Block::Vmstat,
        formula: "delta pgalloc_movable",
        unit: "pages",
        decimals: 0,
        kernels: "reports of 2014",
        better: Neither,
        high: "the zone serves many allocations",
        related: &["pgalloc"],
        value: |r| allocated(r, "movable"),
    },
    Row {
        name: "ftrace vmscan: Direct reclaims",
        also: &["direct_reclaim"],
        block: Block::Vmscan,
        formula: "number of mm_vmscan_direct_reclaim_begin events; equals delta allocstall",
        unit: "events",
        decimals: 0,
        kernels: TRACED,
        better: Lower,
        high: "allocations find every zone below its min watermark: kswapd is late",
        related: &[
            "allocstall",
            "ftrace vmscan: Time stalled direct reclaim (seconds)",
        ],
        value: |r| count(r.reclaim.direct_reclaims),
    },
    Row {
        name: "ftrace vmscan: Direct reclaim pages scanned",
        also: &[],
        block: Block::Vmscan,
        formula: "sum of nr_scanned of mm_vmscan_lru_isolate with a mode other than active, of every process but kswapd",
        unit: "pages",
        decimals: 0,
        kernels: TRACED,
        better: Lower,
        high: "processes search for pages themselves",
        related: &["vmstat: Direct pages scanned"],
        value: |r| count(r.reclaim.direct.scanned),
    },
    Row {
        name: "ftrace vmscan: Direct reclaim pages reclaimed",
        also: &[],
        block: Block::Vmscan,
        formula: "the row of vmstat: sum over zones of delta pgsteal - delta kswapd_steal",
        unit: "pages",
        decimals: 0,
        kernels: TRACED,
        better: Lower,
        high: "processes free their pages themselves",
        related: &["vmstat: Direct pages reclaimed"],
        value: direct_reclaimed,
    },
    Row {
        name: "ftrace vmscan: Direct reclaim write file async I/O",
        also: &[],
        block: Block::Vmscan,
        formula: "number of mm_vmscan_writepage events with WB_FILE and WB_ASYNC of every process but kswapd",
        unit: "pages",
        decimals: 0,
        kernels: TRACED,
        better: Lower,
        high: "processes write other files' pages on their own stack: deep stacks and scattered I/O",
        related: &["nr_vmscan_write", "vmstat: Page writes by reclaim"],
        value: |r| count(r.reclaim.direct.writes.file_async),
    },
    Row {
        name: "ftrace vmscan: Direct reclaim write anon async I/O",
        also: &[],
        block: Block::Vmscan,
        formula: "number of mm_vmscan_writepage events with WB_ANON and WB_ASYNC of every process but kswapd",
        unit: "pages",
        decimals: 0,
        kernels: TRACED,
        better: Lower,
        high: "processes swap out",
        related: &["pswpout", "vmstat: Swap Outs"],
        value: |r| count(r.reclaim.direct.writes.anon_async),
    },
    Row {
        name: "ftrace vmscan: Direct reclaim write file sync I/O",
        also: &[],
        block: Block::Vmscan,
        formula: "number of mm_vmscan_writepage events with WB_FILE and WB_SYNC of every process but kswapd",
        unit: "pages",
        decimals: 0,
        kernels: "2.6.32 to 3.1, with tracing on: later reclaim never waits for a page it writes",
        better: Lower,
        high: "processes wait for single pages that they write. Only lumpy reclaim for large pages does so, which the engine has no use for",
        related: &["ftrace vmscan: Direct reclaim write file async I/O"],
        value: |r| count(r.reclaim.direct.writes.file_sync),
    },
    Row {
        name: "ftrace vmscan: Direct reclaim write anon sync I/O",
        also: &[],
        block: Block::Vmscan,
        formula: "number of mm_vmscan_writepage events with WB_ANON and WB_SYNC of every process but kswapd",
        unit: "pages",
        decimals: 0,
        kernels: "2.6.32 to 3.1, with tracing on: later reclaim never waits for a page it writes",
        better: Lower,
        high: "processes wait for single pages that they swap out. Only lumpy reclaim for large pages does so, which the engine has no use for",
        related: &["ftrace vmscan: Direct reclaim write anon async I/O"],
        value: |r| count(r.reclaim.direct.writes.anon_sync),
    },
    Row {
        name: "ftrace vmscan: Wake kswapd requests",
        also: &[],
        block: Block::Vmscan,
        formula: "number of mm_vmscan_wakeup_kswapd events of processes that entered direct reclaim at least once",
        unit: "events",
        decimals: 0,
        kernels: TRACED,
        better: Neither,
        high: "allocations often find zones below low while kswapd sleeps. Requests of processes that never reclaimed directly are not in it",
        related: &["ftrace vmscan: Kswapd wakeups", "kswapd_wakeup"],
        value: |r| count(r.reclaim.wake_requests),
    },
    Row {
        name: "ftrace vmscan: Time stalled direct reclaim (seconds)",
        also: &["direct_reclaim_stall_time"],
        block: Block::Vmscan,
        formula: "sum over processes of (direct_reclaim_end - direct_reclaim_begin); what is under way at the end counts up to it",
        unit: "s",
        decimals: 2,
        kernels: TRACED,
        better: Lower,
        high: "processes spend long in direct reclaim. It is a sum over tasks and can exceed elapsed time",
        related: &[
            "stall time",
            "ftrace vmscan: Direct reclaims",
            "ftrace vmscan: Percentage Time Spent Direct Reclaim",
        ],
        value: |r| seconds(r.reclaim.stalled_ns),
    },
    Row {
        name: "ftrace vmscan: Kswapd pages scanned",
        also: &[],
        block: Block::Vmscan,
        formula: "sum of nr_scanned of mm_vmscan_lru_isolate with a mode other than active, of kswapds",
        unit: "pages",
        decimals: 0,
        kernels: TRACED,
        better: Neither,
        high: "kswapd searches much",
        related: &["vmstat: Kswapd pages scanned"],
        value: |r| count(r.reclaim.kswapd.scanned),
    },
    Row {
        name: "ftrace vmscan: Kswapd pages reclaimed",
        also: &[],
        block: Block::Vmscan,
        formula: "the row of vmstat: delta kswapd_steal",
        unit: "pages",
        decimals: 0,
        kernels: TRACED,
        better: Neither,
        high: "kswapd frees most of what the test needs",
        related: &["vmstat: Kswapd pages reclaimed"],
        value: kswapd_reclaimed,
    },
    Row {
        name: "ftrace vmscan: Kswapd reclaim write file async I/O",
        also: &[],
        block: Block::Vmscan,
        formula: "number of mm_vmscan_writepage events with WB_FILE and WB_ASYNC of kswapds",
        unit: "pages",
        decimals: 0,
        kernels: TRACED,
        better: Lower,
        high: "kswapd writes dirty file pages itself: scattered I/O, while the flusher would write whole runs",
        related: &["nr_vmscan_write", "vmstat: Page writes by reclaim"],
        value: |r| count(r.reclaim.kswapd.writes.file_async),
    },
    Row {
        name: "ftrace vmscan: Kswapd reclaim write anon async I/O",
        also: &[],
        block: Block::Vmscan,
        formula: "number of mm_vmscan_writepage events with WB_ANON and WB_ASYNC of kswapds",
        unit: "pages",
        decimals: 0,
        kernels: TRACED,
        better: Lower,
        high: "kswapd swaps out",
        related: &["pswpout", "vmstat: Swap Outs"],
        value: |r| count(r.reclaim.kswapd.writes.anon_async),
    },
    Row {
        name: "ftrace vmscan: Kswapd reclaim write file sync I/O",
        also: &[],
        block: Block::Vmscan,
        formula: "number of mm_vmscan_writepage events with WB_FILE and WB_SYNC of kswapds",
        unit: "pages",
        decimals: 0,
        kernels: "2.6.32 to 3.1, with tracing on: later reclaim never waits for a page it writes",
        better: Lower,
        high: "kswapd waits for single pages that it writes, which it never does for small pages",
        related: &["ftrace vmscan: Kswapd reclaim write file async I/O"],
        value: |r| count(r.reclaim.kswapd.writes.file_sync),
    },
    Row {
        name: "ftrace vmscan: Kswapd reclaim write anon sync I/O",
        also: &[],
        block: Block::Vmscan,
        formula: "number of mm_vmscan_writepage events with WB_ANON and WB_SYNC of kswapds",
        unit: "pages",
        decimals: 0,
        kernels: "2.6.32 to 3.1, with tracing on: later reclaim never waits for a page it writes",
        better: Lower,
        high: "kswapd waits for single pages that it swaps out, which it never does for small pages",
        related: &["ftrace vmscan: Kswapd reclaim write anon async I/O"],
        value: |r| count(r.reclaim.kswapd.writes.anon_sync),
    },
    Row {
        name: "ftrace vmscan: Kswapd wakeups",
        also: &["kswapd_wakeup"],
        block: Block::Vmscan,
        formula: "number of mm_vmscan_kswapd_wake events while that kswapd slept; wakes before its next sleep are not counted",
        unit: "events",
        decimals: 0,
        kernels: TRACED,
        better: Neither,
        high: "memory falls below low and is refilled often; few with a long time awake: kswapd hardly ever gets to sleep",
        related: &["ftrace vmscan: Time kswapd awake (seconds)", "pageoutrun"],
        value: |r| count(r.reclaim.kswapd_wakeups),
    },
    Row {
        name: "ftrace vmscan: Time kswapd awake (seconds)",
        also: &[],
        block: Block::Vmscan,
        formula: "sum over kswapds of (kswapd_sleep - first kswapd_wake before it); what is under way at the end counts up to it",
        unit: "s",
        decimals: 2,
        kernels: TRACED,
        better: Lower,
        high: "kswapd works or waits for congestion most of the time; with several nodes it is their sum",
        related: &[
            "ftrace vmscan: Kswapd wakeups",
            "ftrace congestion: KSwapd time congest waited",
            "ftrace vmscan: Percentage Time kswapd Awake",
        ],
        value: |r| seconds(r.reclaim.kswapd_awake_ns),
    },
    Row {
        name: "ftrace vmscan: Total pages scanned",
        also: &[],
        block: Block::Vmscan,
        formula: "kswapd + direct pages scanned",
        unit: "pages",
        decimals: 0,
        kernels: TRACED,
        better: Lower,
        high: "much is searched",
        related: &[
            "vmstat: Direct pages scanned",
            "vmstat: Kswapd pages scanned",
        ],
        value: scanned,
    },
    Row {
        name: "ftrace vmscan: Total pages reclaimed",
        also: &[],
        block: Block::Vmscan,
        formula: "kswapd + direct pages reclaimed",
        unit: "pages",
        decimals: 0,
        kernels: TRACED,
        better: Neither,
        high: "much memory is turned over",
        related: &[
            "vmstat: Direct pages reclaimed",
            "vmstat: Kswapd pages reclaimed",
        ],
        value: reclaimed,
    },
    Row {
        name: "ftrace vmscan: %age total pages scanned/reclaimed",
        also: &[],
        block: Block::Vmscan,
        formula: "100 * total pages reclaimed / total pages scanned; 0 if none were scanned",
        unit: "%",
        decimals: 2,
        kernels: TRACED,
        better: Higher,
        high: "reclaim finds what it looks for",
        related: &["vmstat: Kswapd efficiency", "vmstat: Direct efficiency"],
        value: |r| of([reclaimed(r), scanned(r)], |[x, s]| percent(x, s)),
    },
    Row {
        name: "ftrace vmscan: %age total pages scanned/written",
        also: &[],
        block: Block::Vmscan,
        formula: "100 * all mm_vmscan_writepage events / total pages scanned; 0 if none were scanned",
        unit: "%",
        decimals: 2,
        kernels: TRACED,
        better: Lower,
        high: "of the pages that reclaim looks at, it writes many",
        related: &["vmstat: Page writes by reclaim"],
        value: |r| {
            of(
                [Is(writes(r, |c| c.writes.total())), scanned(r)],
                |[w, s]| percent(w, s),
            )
        },
    },
    Row {
        name: "ftrace vmscan: %age file pages scanned/written",
        also: &[],
        block: Block::Vmscan,
        formula: "100 * mm_vmscan_writepage events with WB_FILE / total pages scanned; 0 if none were scanned",
        unit: "%",
        decimals: 2,
        kernels: TRACED,
        better: Lower,
        high: "of the pages that reclaim looks at, it writes many file pages",
        related: &["vmstat: Page writes file"],
        value: |r| {
            of(
                [Is(writes(r, |c| c.writes.file())), scanned(r)],
                |[w, s]| percent(w, s),
            )
        },
    },
    Row {
        name: "ftrace vmscan: Percentage Time Spent Direct Reclaim",
        also: &[],
        block: Block::Vmscan,
        formula: "100 * time stalled / (user + system CPU seconds + time stalled)",
        unit: "%",
        decimals: 2,
        kernels: TRACED,
        better: Lower,
        high: "of the time in which processes were not just waiting, much went into direct reclaim",
        related: &[
            "ftrace vmscan: Time stalled direct reclaim (seconds)",
            "duration: User/Sys Time Running Test (seconds)",
        ],
        value: |r| {
            of(
                [seconds(r.reclaim.stalled_ns), cpu_seconds(r)],
                |[s, cpu]| percent(s, cpu + s),
            )
        },
    },
    Row {
        name: "ftrace vmscan: Percentage Time kswapd Awake",
        also: &[],
        block: Block::Vmscan,
        formula: "100 * time kswapd awake / Total Elapsed Time",
        unit: "%",
        decimals: 2,
        kernels: TRACED,
        better: Lower,
        high: "kswapd is awake most of the time; above 100 with several nodes",
        related: &["ftrace vmscan: Time kswapd awake (seconds)"],
        value: |r| {
            of(
                [seconds(r.reclaim.kswapd_awake_ns), elapsed(r)],
                |[a, t]| percent(a, t),
            )
        },
    },
    Row {
        name: "ftrace congestion: Direct number congest waited",
        also: &[],
        block: Block::Congestion,
        formula: "number of writeback_congestion_wait events of every process but kswapd",
        unit: "events",
        decimals: 0,
        kernels: CONGESTION,
        better: Lower,
        high: "processes are held back without a look at whether anything is congested",
        related: &["congest", "ftrace congestion: Direct time congest waited"],
        value: |r| count(r.reclaim.direct.congest.number),
    },
    Row {
        name: "ftrace congestion: Direct time congest waited",
        also: &[],
        block: Block::Congestion,
        formula: "sum of usec_delayed / 1000 of writeback_congestion_wait events of every process but kswapd; the resolution is one tick",
        unit: "ms",
        decimals: 0,
        kernels: CONGESTION,
        better: Lower,
        high: "processes slept long; it is a sum over tasks",
        related: &["congest", "ftrace congestion: Direct number congest waited"],
        value: |r| milliseconds(&r.reclaim.direct.congest),
    },
    Row {
        name: "ftrace congestion: Direct full congest waited",
        also: &[],
        block: Block::Congestion,
        formula: "number of writeback_congestion_wait events of every process but kswapd with usec_delayed >= usec_timeout",
        unit: "events",
        decimals: 0,
        kernels: CONGESTION,
        better: Lower,
        high: "no device became uncongested during the wait: it was not the reason, or is very slow",
        related: &["congest", "ftrace congestion: Direct number congest waited"],
        value: |r| count(r.reclaim.direct.congest.full),
    },
    Row {
        name: "ftrace congestion: Direct number conditional waited",
        also: &[],
        block: Block::Congestion,
        formula: "number of writeback_wait_iff_congested events of every process but kswapd, those that only yield included",
        unit: "events",
        decimals: 0,
        kernels: CONGESTION,
        better: Neither,
        high: "direct reclaim often had reason to wait; with a few ms of time it hardly ever did",
        related: &[
            "conditional",
            "ftrace congestion: Direct time conditional waited",
        ],
        value: |r| count(r.reclaim.direct.conditional.number),
    },
    Row {
        name: "ftrace congestion: Direct time conditional waited",
        also: &[],
        block: Block::Congestion,
        formula: "sum of usec_delayed / 1000 of writeback_wait_iff_congested events of every process but kswapd; the resolution is one tick",
        unit: "ms",
        decimals: 0,
        kernels: CONGESTION,
        better: Lower,
        high: "a zone and a device were both congested, and processes slept",
        related: &[
            "conditional",
            "ftrace congestion: Direct number conditional waited",
        ],
        value: |r| milliseconds(&r.reclaim.direct.conditional),
    },
    Row {
        name: "ftrace congestion: Direct full conditional waited",
        also: &[],
        block: Block::Congestion,
        formula: "number of writeback_wait_iff_congested events of every process but kswapd with usec_delayed >= usec_timeout",
        unit: "events",
        decimals: 0,
        kernels: CONGESTION,
        better: Lower,
        high: "devices stayed congested for the whole wait",
        related: &[
            "conditional",
            "ftrace congestion: Direct number conditional waited",
        ],
        value: |r| count(r.reclaim.direct.conditional.full),
    },
    Row {
        name: "ftrace congestion: KSwapd number congest waited",
        also: &[],
        block: Block::Congestion,
        formula: "number of writeback_congestion_wait events of kswapds",
        unit: "events",
        decimals: 0,
        kernels: CONGESTION,
        better: Lower,
        high: "kswapd often finds too little to free and waits before it looks again",
        related: &["congest", "vmstat: Kswapd skipped wait"],
        value: |r| count(r.reclaim.kswapd.congest.number),
    },
    Row {
        name: "ftrace congestion: KSwapd time congest waited",
        also: &[],
        block: Block::Congestion,
        formula: "sum of usec_delayed / 1000 of writeback_congestion_wait events of kswapds; the resolution is one tick",
        unit: "ms",
        decimals: 0,
        kernels: CONGESTION,
        better: Lower,
        high: "kswapd is awake and asleep at once: it waits for devices",
        related: &["congest", "ftrace vmscan: Time kswapd awake (seconds)"],
        value: |r| milliseconds(&r.reclaim.kswapd.congest),
    },
    Row {
        name: "ftrace congestion: KSwapd full congest waited",
        also: &[],
        block: Block::Congestion,
        formula: "number of writeback_congestion_wait events of kswapds with usec_delayed >= usec_timeout",
        unit: "events",
        decimals: 0,
        kernels: CONGESTION,
        better: Lower,
        high: "kswapd slept its whole timeout: no device became uncongested meanwhile",
        related: &["congest", "ftrace congestion: KSwapd number congest waited"],
        value: |r| count(r.reclaim.kswapd.congest.full),
    },
    Row {
        name: "ftrace congestion: KSwapd number conditional waited",
        also: &[],
        block: Block::Congestion,
        formula: "number of writeback_wait_iff_congested events of kswapds, those that only yield included",
        unit: "events",
        decimals: 0,
        kernels: CONGESTION,
        better: Neither,
        high: "kswapd met many dirty or writeback pages in its batches (patch 6 of writeback-from-reclaim)",
        related: &[
            "conditional",
            "ftrace congestion: KSwapd time conditional waited",
        ],
        value: |r| count(r.reclaim.kswapd.conditional.number),
    },
    Row {
        name: "ftrace congestion: KSwapd time conditional waited",
        also: &[],
        block: Block::Congestion,
        formula: "sum of usec_delayed / 1000 of writeback_wait_iff_congested events of kswapds; the resolution is one tick",
        unit: "ms",
        decimals: 0,
        kernels: CONGESTION,
        better: Lower,
        high: "a zone and a device were both congested, and kswapd slept",
        related: &[
            "conditional",
            "ftrace congestion: KSwapd number conditional waited",
        ],
        value: |r| milliseconds(&r.reclaim.kswapd.conditional),
    },
    Row {
        name: "ftrace congestion: KSwapd full conditional waited",
        also: &[],
        block: Block::Congestion,
        formula: "number of writeback_wait_iff_congested events of kswapds with usec_delayed >= usec_timeout",
        unit: "events",
        decimals: 0,
        kernels: CONGESTION,
        better: Lower,
        high: "devices stayed congested for the whole wait",
        related: &[
            "conditional",
            "ftrace congestion: KSwapd number conditional waited",
        ],
        value: |r| count(r.reclaim.kswapd.conditional.full),
    },
];
