//! Words for counters of the nodes that pages came from, on machines of several nodes.

use super::{Word, counter};

pub(super) const WORDS: &[Word] = &[
    counter(
        "numa_hit",
        "allocations",
        "all, of several nodes",
        "Allocations served by the node that was named first: the CPU's, or the one that a program is bound to.",
        "the node has memory",
        &["numa_miss", "numa_local"],
    ),
    counter(
        "numa_miss",
        "allocations",
        "all, of several nodes",
        "Allocations served by a node although another one was named first, counted where they were served.",
        "the first node is short of memory, or its zones are passed by",
        &["numa_hit", "numa_foreign"],
    ),
    counter(
        "numa_foreign",
        "allocations",
        "all, of several nodes",
        "The same, counted at the zone that was named first; over all zones it is numa_miss.",
        "the first node is short of memory, or its zones are passed by",
        &["numa_miss"],
    ),
    counter(
        "numa_local",
        "allocations",
        "all, of several nodes",
        "Allocations served by the node of the CPU that asked.",
        "memory is near",
        &["numa_hit", "numa_other"],
    ),
    counter(
        "numa_other",
        "allocations",
        "all, of several nodes",
        "Allocations served by another node than that of the CPU that asked.",
        "memory is far",
        &["numa_local", "numa_miss"],
    ),
];
