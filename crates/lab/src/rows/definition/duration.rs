//! The rows of the test's durations.

use super::formula::{ALL_KERNELS, cpu_seconds, cpu_time, elapsed};
use super::{Block, ReportRow};
use crate::model::Better::Lower;

/// The rows in reporting order.
pub(super) const ROWS: &[ReportRow] = &[
    ReportRow {
        name: "duration: User/Sys Time Running Test (seconds)",
        also: &["User/Sys", "User/Sys Time"],
        block: Block::Duration,
        formula: "user_time + system_time: CPU seconds, in programs and in the kernel on their behalf, summed over the test's processes. Kernel threads (kswapd, flushers) are excluded",
        unit: "s",
        decimals: 2,
        kernels: ALL_KERNELS,
        better: Lower,
        high: "the processes burn CPU: in direct reclaim, in copying, in the filesystem. Waiting time is excluded",
        related: &[
            "user_time",
            "system_time",
            "duration: Total Elapsed Time (seconds)",
            "ftrace vmscan: Percentage Time Spent Direct Reclaim",
        ],
        value: cpu_seconds,
    },
    ReportRow {
        name: "duration: User Time (seconds)",
        also: &["user_time"],
        block: Block::Duration,
        formula: "CPU seconds that the test's programs execute themselves, summed over processes",
        unit: "s",
        decimals: 2,
        kernels: "reports from 2012 on; earlier reports show the sum with system time",
        better: Lower,
        high: "the program computes or copies much",
        related: &[
            "duration: User/Sys Time Running Test (seconds)",
            "system_time",
        ],
        value: |r| cpu_time(r, "user_time"),
    },
    ReportRow {
        name: "duration: System Time (seconds)",
        also: &["system_time", "System"],
        block: Block::Duration,
        formula: "CPU seconds of the test's processes - user_time: the kernel on their behalf, including direct reclaim and interrupts that arrive on their CPU",
        unit: "s",
        decimals: 2,
        kernels: "reports from 2012 on; earlier reports show the sum with user time",
        better: Lower,
        high: "the processes reclaim for themselves, or write back for themselves at the dirty limit",
        related: &[
            "duration: User/Sys Time Running Test (seconds)",
            "user_time",
            "allocstall",
        ],
        value: |r| cpu_time(r, "system_time"),
    },
    ReportRow {
        name: "duration: Total Elapsed Time (seconds)",
        also: &["elapsed"],
        block: Block::Duration,
        formula: "wall seconds from the test's start to the end of its last process; pages still dirty then are not waited for",
        unit: "s",
        decimals: 2,
        kernels: ALL_KERNELS,
        better: Lower,
        high: "the test took long: it was throttled, it stalled, or it used the device inefficiently",
        related: &[
            "duration: User/Sys Time Running Test (seconds)",
            "stall time",
        ],
        value: elapsed,
    },
];
