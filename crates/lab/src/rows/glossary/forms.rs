//! Words for counters of patch versions that no kernel has, and for stack depths.

use super::{Word, counter, metric};

pub(super) const WORDS: &[Word] = &[
    counter(
        "nr_vmscan_throttled",
        "events",
        "version 1 of writeback-from-reclaim, the policy reclaim_throttle = \"dirty-counted\"",
        "Batches of an inactive list with enough dirty pages, at the scan's priority, for the reclaimer to wait.",
        "reclaim finds dirty pages faster than they are written",
        &["vmstat: Page reclaim throttled", "throttled"],
    ),
    counter(
        "dirty_stall",
        "events",
        "none: only the policy per-zone-stall has it",
        "Allocations for writes that stalled because every allowed zone was over its share of dirty pages.",
        "a small node is full of dirty pages",
        &[],
    ),
    counter(
        "reclaim_flush",
        "events",
        "none: only the switch reclaim_flush has it",
        "Requests of reclaim to the flusher to write the pages around a dirty page found in reclaim's zone or node, or to write that page's file.",
        "dirty pages reach the end of the list before the flusher has cleaned them",
        &["reclaim_flush_written", "reclaim_flush_dropped"],
    ),
    counter(
        "reclaim_flush_dropped",
        "events",
        "none: only the switch reclaim_flush has it",
        "Requests of reclaim to the flusher that were dropped because the queue of the zone or node was full.",
        "reclaim makes requests faster than the flusher serves them",
        &["reclaim_flush"],
    ),
    counter(
        "reclaim_flush_written",
        "pages",
        "none: only the switch reclaim_flush has it",
        "Pages that flushers wrote for requests of reclaim.",
        "much of the writeback goes where reclaim needs it",
        &["reclaim_flush"],
    ),
    counter(
        "pressure_expired",
        "pages",
        "none: only the experimental switch pressure_expiry has it",
        "Pages that flushers wrote because memory pressure made their inodes count as expired.",
        "dirty pages reach the end of the list below the background limit",
        &[],
    ),
    metric(
        "direct_reclaim_stack_max",
        "B",
        "The deepest kernel stack of a direct reclaimer, from its call or fault to the page that it frees, hands to a filesystem or swaps out, by a table of frames from published dumps of 2010 and 2014 (docs/reference/reclaim.md#stack-depth). 0: no direct reclaim. Kernel stacks of x86-64 had 8192 bytes at the time. `unsupported` for a real kernel.",
    ),
    metric(
        "direct_reclaim_stack_read",
        "B",
        "As direct_reclaim_stack_max, of direct reclaim entered from a buffered read.",
    ),
    metric(
        "direct_reclaim_stack_write",
        "B",
        "As direct_reclaim_stack_max, of direct reclaim entered from a buffered write.",
    ),
    metric(
        "direct_reclaim_stack_fault",
        "B",
        "As direct_reclaim_stack_max, of direct reclaim entered from a page fault.",
    ),
    metric(
        "direct_reclaim_stack_filesystem",
        "B",
        "As direct_reclaim_stack_max, of direct reclaim that called a filesystem's writepage, whether the filesystem wrote or refused. 0: no such call, which is the aim of patch 1 of writeback-from-reclaim.",
    ),
];
