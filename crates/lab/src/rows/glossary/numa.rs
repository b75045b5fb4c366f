//! Words for counters of the nodes that pages came from, on machines of several nodes.

use super::{Word, counter};

pub(super) const WORDS: &[Word] = &[
    counter(
        "numa_hit",
        "allocations",
        "all, of several nodes",
        "Allocations served by the preferred node: the node of the CPU, or the node that a program is bound to.",
        "the node has memory",
        &["numa_miss", "numa_local"],
    ),
    counter(
        "numa_miss",
        "allocations",
        "all, of several nodes",
        "Allocations served by a node although another node was preferred, counted at the node that served them.",
        "the first node is short of memory, or its zones are passed by",
        &["numa_hit", "numa_foreign"],
    ),
    counter(
        "numa_foreign",
        "allocations",
        "all, of several nodes",
        "Allocations served by a node although another node was preferred, counted at the preferred node's zone; the sum over all zones is numa_miss.",
        "the first node is short of memory, or its zones are passed by",
        &["numa_miss"],
    ),
    counter(
        "numa_local",
        "allocations",
        "all, of several nodes",
        "Allocations served by the node of the allocating CPU.",
        "memory is near",
        &["numa_hit", "numa_other"],
    ),
    counter(
        "numa_other",
        "allocations",
        "all, of several nodes",
        "Allocations served by another node than the node of the allocating CPU.",
        "memory is far",
        &["numa_local", "numa_miss"],
    ),
];
