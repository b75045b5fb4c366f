//! Words of programs that print more figures than a table of theirs names.

use super::{Kind, Word};

const fn figure(name: &'static str, unit: &'static str, text: &'static str) -> Word {
    Word {
        name,
        also: &[],
        kind: Kind::Metric,
        text,
        unit,
        kernels: "none: the program's own",
        high: "",
        related: &[],
    }
}

/// The figures of one of tiobench's phases.
macro_rules! phase {
    ($name:literal, $what:literal) => {
        [
            figure(
                concat!($name, "_mean"),
                "MB/s",
                concat!(
                    "tiobench: ",
                    $what,
                    ", all threads together: the mean rate of the runs."
                ),
            ),
            figure(
                concat!($name, "_min"),
                "MB/s",
                concat!(
                    "tiobench: ",
                    $what,
                    ", all threads together: the rate of the slowest run."
                ),
            ),
            figure(
                concat!($name, "_latency_mean"),
                "ms",
                concat!(
                    "tiobench: ",
                    $what,
                    ": what a request took, mean over requests and runs."
                ),
            ),
            figure(
                concat!($name, "_latency_max"),
                "ms",
                concat!("tiobench: ", $what, ": the longest request of all runs."),
            ),
            figure(
                concat!($name, "_over_2s"),
                "%",
                concat!("tiobench: ", $what, ": requests that took more than 2 s."),
            ),
            figure(
                concat!($name, "_over_10s"),
                "%",
                concat!("tiobench: ", $what, ": requests that took more than 10 s."),
            ),
        ]
    };
}

/// The words.
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
    figure(
        "bursts",
        "bursts",
        "burst: bursts of allocations that it made.",
    ),
    figure(
        "burst_allocs",
        "allocations",
        "burst: pages that its bursts allocated.",
    ),
    figure(
        "burst_failed",
        "allocations",
        "burst: allocations that failed.",
    ),
    figure(
        "burst_kswapd_wakeup",
        "events",
        "burst: allocations that woke kswapd.",
    ),
    figure(
        "burst_direct_reclaim",
        "events",
        "burst: allocations that entered direct reclaim.",
    ),
    figure(
        "burst_alloc",
        "us",
        "burst: what an allocation took: median and other percentiles, and the longest.",
    ),
    figure("files", "files", "fs_mark: files that it wrote."),
    figure(
        "iterations",
        "iterations",
        "fs_mark: rounds of files that it wrote.",
    ),
    figure(
        "stream stores",
        "stores",
        "mmap-strm: pages that its stream of mapped files stored to.",
    ),
    figure(
        "mixed file stores",
        "stores",
        "mmap-strm: pages of mapped files that its mixed processes stored to.",
    ),
    figure(
        "mixed anonymous stores",
        "stores",
        "mmap-strm: anonymous pages that its mixed processes stored to.",
    ),
];
