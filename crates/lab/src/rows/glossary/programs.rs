//! Words for figures of programs, where a program prints more figures than its own table names.

use super::{Word, metric};

/// The figures of one of tiobench's phases.
macro_rules! phase {
    ($name:literal, $what:literal) => {
        [
            metric(
                concat!($name, "_mean"),
                "MB/s",
                concat!(
                    "tiobench: ",
                    $what,
                    ", all threads together: the mean rate of the runs."
                ),
            ),
            metric(
                concat!($name, "_min"),
                "MB/s",
                concat!(
                    "tiobench: ",
                    $what,
                    ", all threads together: the rate of the slowest run."
                ),
            ),
            metric(
                concat!($name, "_latency_mean"),
                "ms",
                concat!(
                    "tiobench: ",
                    $what,
                    ": latency of a request, mean over requests and runs."
                ),
            ),
            metric(
                concat!($name, "_latency_max"),
                "ms",
                concat!("tiobench: ", $what, ": the longest request of all runs."),
            ),
            metric(
                concat!($name, "_over_2s"),
                "%",
                concat!("tiobench: ", $what, ": requests that took more than 2 s."),
            ),
            metric(
                concat!($name, "_over_10s"),
                "%",
                concat!("tiobench: ", $what, ": requests that took more than 10 s."),
            ),
        ]
    };
}

/// Yields the words for figures of tiobench's phases and of other programs.
pub(super) fn words() -> impl Iterator<Item = Word> {
    let phases = [
        phase!("seqread", "sequential reads"),
        phase!("randread", "random reads"),
        phase!("seqwrite", "sequential writes"),
        phase!("randwrite", "random writes"),
    ];
    phases.into_iter().flatten().chain(OTHERS.iter().copied())
}

const OTHERS: &[Word] = &[
    metric(
        "bursts",
        "bursts",
        "burst: number of bursts of allocations.",
    ),
    metric(
        "burst_allocs",
        "allocations",
        "burst: pages allocated in all bursts.",
    ),
    metric(
        "burst_failed",
        "allocations",
        "burst: allocations that failed.",
    ),
    metric(
        "burst_kswapd_wakeup",
        "events",
        "burst: allocations that woke kswapd.",
    ),
    metric(
        "burst_direct_reclaim",
        "events",
        "burst: allocations that entered direct reclaim.",
    ),
    metric(
        "burst_alloc",
        "us",
        "burst: latency of an allocation: median and other percentiles, and the longest.",
    ),
    metric("files", "files", "fs_mark: files written."),
    metric(
        "iterations",
        "iterations",
        "fs_mark: rounds, each of which writes a set of files.",
    ),
    metric(
        "stream stores",
        "stores",
        "mmap-strm: pages that the stream over mapped files stored to.",
    ),
    metric(
        "mixed file stores",
        "stores",
        "mmap-strm: pages of mapped files that the mixed processes stored to.",
    ),
    metric(
        "mixed anonymous stores",
        "stores",
        "mmap-strm: anonymous pages that the mixed processes stored to.",
    ),
];
