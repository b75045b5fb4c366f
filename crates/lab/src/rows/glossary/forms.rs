//! Words for counters of patch versions that no kernel has, and for stack depths.

use super::{Word, counter, metric};

pub(super) const WORDS: &[Word] = &[
    counter(
        "nr_vmscan_throttled",
        "events",
        "version 1 of writeback-from-reclaim, the policy reclaim_throttle = \"dirty-counted\"",
        "Batches of an inactive list with so many dirty pages for the scan's priority that the reclaimer was to wait.",
        "reclaim meets dirty pages faster than they are written",
        &["vmstat: Page reclaim throttled", "throttled"],
    ),
    counter(
        "dirty_stall",
        "events",
        "none: of the policy per-zone-stall alone",
        "Allocations for writes that stalled because every allowed zone was over its share of dirty pages.",
        "a small node is full of dirty pages",
        &[],
    ),
    counter(
        "reclaim_flush",
        "events",
        "none: of the switch reclaim_flush alone",
        "Requests of reclaim to the flusher for the pages around a dirty one that it met in its zone or node, or for its file.",
        "dirty pages reach the end of the list before the flusher has cleaned them",
        &["reclaim_flush_written", "reclaim_flush_dropped"],
    ),
    counter(
        "reclaim_flush_dropped",
        "events",
        "none: of the switch reclaim_flush alone",
        "Such requests for which the queue of the zone or node had no room.",
        "the flusher is slower than reclaim asks",
        &["reclaim_flush"],
    ),
    counter(
        "reclaim_flush_written",
        "pages",
        "none: of the switch reclaim_flush alone",
        "Pages that flushers wrote for requests of reclaim.",
        "much of the writeback goes where reclaim needs it",
        &["reclaim_flush"],
    ),
    counter(
        "pressure_expired",
        "pages",
        "none: of the experimental switch pressure_expiry alone",
        "Pages that flushers wrote because memory pressure made their inodes old.",
        "dirty pages reach the end of the list below the background limit",
        &[],
    ),
    metric(
        "direct_reclaim_stack_max",
        "B",
        "The deepest kernel stack of a direct reclaimer, from its call or fault to the page that it frees, hands to a filesystem or swaps out, by a table of frames from published dumps of 2010 and 2014 (docs/reference/reclaim.md#stack-depth). 0: nobody reclaimed directly. x86-64 had 8192 then. `unsupported` of a real kernel.",
    ),
    metric(
        "direct_reclaim_stack_read",
        "B",
        "The same of those that came from a buffered read.",
    ),
    metric(
        "direct_reclaim_stack_write",
        "B",
        "The same of those that came from a buffered write.",
    ),
    metric(
        "direct_reclaim_stack_fault",
        "B",
        "The same of those that came from a page fault.",
    ),
    metric(
        "direct_reclaim_stack_filesystem",
        "B",
        "The same of those that asked a filesystem to write, which refused or did. 0: nobody asked, which is what patch 1 of writeback-from-reclaim is for.",
    ),
];
