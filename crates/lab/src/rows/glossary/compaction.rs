//! Words for counters of compaction (`compaction = "direct"`).

use super::{Word, counter};

pub(super) const WORDS: &[Word] = &[
    counter(
        "compact_stall",
        "events",
        "2.6.35 and later; from 3.18 on without those that no zone was fit for",
        "Direct compactions: a task that needs several pages in a row moved others' pages, or looked whether it should.",
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
        "Direct compactions behind which the request got its pages.",
        "compaction ends with a large block",
        &["vmstat: Compaction success"],
    ),
    counter(
        "compact_fail",
        "events",
        "2.6.35 and later",
        "Direct compactions behind which it did not, though some zone was fit for it: the next requests do without.",
        "free pages lie among pages that cannot be moved",
        &["vmstat: Compaction failures"],
    ),
    counter(
        "compact_blocks_moved",
        "events",
        "2.6.35 to 3.7",
        "Batches of up to 32 pages that compaction took to move.",
        "compaction works much",
        &["compact_pages_moved"],
    ),
    counter(
        "compact_pages_moved",
        "pages",
        "2.6.35 to 3.7, which also count those that cannot be moved at all; from 3.8 on pgmigrate_success",
        "Pages that compaction moved.",
        "compaction works much",
        &["vmstat: Compaction pages moved"],
    ),
    counter(
        "compact_pagemigrate_failed",
        "pages",
        "2.6.35 to 3.7, without those that cannot be moved at all; from 3.8 on pgmigrate_fail",
        "Pages that compaction took and put back: dirty, under writeback, in use, or without a free page to move to.",
        "pages could not be moved",
        &["vmstat: Compaction move failure"],
    ),
    counter(
        "compact_migrate_scanned",
        "pages",
        "3.8 and later",
        "Frames that compaction looked at to move their pages.",
        "compaction works much",
        &["compact_stall"],
    ),
];
