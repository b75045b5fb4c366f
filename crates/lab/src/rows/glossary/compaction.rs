//! Words for counters of compaction (`compaction = "direct"`).

use super::{Word, counter};

pub(super) const WORDS: &[Word] = &[
    counter(
        "compact_stall",
        "events",
        "2.6.35 and later; from 3.18 on without attempts for which no zone was suitable",
        "Direct compactions: a task that needs several contiguous pages moved other pages, or tested whether to move them.",
        "processes compact memory themselves",
        &[
            "vmstat: Compaction stalls",
            "compact_success",
            "compact_fail",
        ],
    ),
    counter(
        "compact_success",
        "events",
        "2.6.35 and later",
        "Direct compactions after which the request got its pages.",
        "compaction often produces a large free block",
        &["vmstat: Compaction success"],
    ),
    counter(
        "compact_fail",
        "events",
        "2.6.35 and later",
        "Direct compactions after which the request did not get its pages, although a zone was suitable: compaction is then deferred for the next requests.",
        "free pages lie among pages that cannot be moved",
        &["vmstat: Compaction failures"],
    ),
    counter(
        "compact_blocks_moved",
        "events",
        "2.6.35 to 3.7",
        "Batches of up to 32 pages that compaction isolated to move.",
        "compaction does much work",
        &["compact_pages_moved"],
    ),
    counter(
        "compact_pages_moved",
        "pages",
        "2.6.35 to 3.7, which also count pages that cannot be moved; from 3.8 on pgmigrate_success",
        "Pages that compaction moved.",
        "compaction does much work",
        &["vmstat: Compaction pages moved"],
    ),
    counter(
        "compact_pagemigrate_failed",
        "pages",
        "2.6.35 to 3.7, without pages that cannot be moved; from 3.8 on pgmigrate_fail",
        "Pages that compaction isolated and put back: dirty, under writeback, in use, or without a free page to move to.",
        "pages could not be moved",
        &["vmstat: Compaction move failure"],
    ),
    counter(
        "compact_migrate_scanned",
        "pages",
        "3.8 and later",
        "Page frames that compaction scanned for pages to move.",
        "compaction does much work",
        &["compact_stall"],
    ),
];
