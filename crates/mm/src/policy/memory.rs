//! The values of the switches about memory, its free lists and records; the switches themselves are
//! in `switches`.

use super::table::choice;
use super::{Choice, Form, Setting, Word};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

choice! { Policy per_cpu_lists PerCpuLists {
    /// Up to six batches, one batch at a time; a batch is a 4096th of the zone, 128 KiB at most.
    Batches = "batches",
    /// 5.14: up to a share of the low watermark, four batches while kswapd reclaims; returns double
    /// while nothing is allocated. A batch is 256 KiB at most. Blocks of up to eight pages have
    /// lists, too (5.13).
    Watermark = "watermark",
    /// 6.7: they grow up to an eighth of a zone above its high watermark; refills double while
    /// nothing is freed.
    Tuned = "tuned",
} }

choice! { Policy below_high BelowHigh {
    /// The high watermark, looked at with each refill; what the zone keeps in reserve does not
    /// count. No kernel does this.
    High = "high",
    /// 6.7: for each request that looks at the zone, high and what the zone keeps in reserve from
    /// it. Above high and the largest reserve the zone counts no more.
    HighAndReserve = "high-and-reserve",
} }

choice! { Policy mobility Mobility {
    /// None: any request takes any free page.
    None = "none",
    /// Linux 2.6.24 and later: by whether pages of their pageblock can be moved or reclaimed. With
    /// `watermark_boost_factor`, watermarks are boosted when a request has to mix kinds.
    Grouped = "grouped",
    /// 5.0: as `grouped`, and `watermark_boost_factor` defaults to 15000.
    Boosted = "boosted",
    /// 6.15, and the stable releases of 6.12: as `boosted`; a request takes over a whole pageblock
    /// if half of it is free or of its kind; if there is none, it takes single pages and boosts
    /// nothing.
    Claimed = "claimed",
} }

choice! { Policy compaction Compaction {
    /// Nothing, as without `CONFIG_COMPACTION`: contiguous pages are left to chance.
    None = "none",
    /// It moves pages to the zone's end: first without waiting, then after direct reclaim, which
    /// goes on until enough pages are free to move to. After failures, the next requests skip
    /// compaction.
    Direct = "direct",
    /// 4.8: as `direct`, but up to order 3 a zone with enough pages free above min, not low, is fit
    /// for it however they lie; reclaim ends once a zone of the node is fit, and a request without
    /// any counts as no compaction.
    ByMin = "by-min",
} }

choice! { Policy page_metadata PageMetadata {
    /// None.
    Nothing = "nothing",
    /// Slabs: tree nodes 14 on two pages, buffer heads 39 on one (filesystems of the ext family
    /// have one for each page written). They count as reclaimable memory to `mobility`.
    Slabs = "slabs",
} }

choice! { Policy swap_bios SwapBios {
    /// Nothing.
    Free = "free",
    /// A bio with room for four pages, 21 bios on a page, one such page since boot; swap writes
    /// each page with a bio of its own. Reclaim may use reserves, its bios may not: if no zone is
    /// above min, two bios are in reserve, and a task that needs a third waits until another one
    /// ends (`mempool_alloc`). So writes to swap at once are limited to the bios there were when
    /// memory ran out.
    Pool = "pool",
} }

choice! { Policy page_tables PageTables {
    /// None.
    Nothing = "nothing",
    /// An unmovable page per 512 neighbouring pages of a mapping, from the first fault there to the
    /// mapping's end.
    Pages = "pages",
} }
