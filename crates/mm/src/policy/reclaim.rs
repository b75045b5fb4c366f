//! The values of the switches about how reclaim walks the LRU lists and hands pages to filesystems;
//! the switches themselves are in `switches`.

use super::table::choice;
use super::{Choice, Form, Setting, Word};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

choice! { Policy kswapd_slab KswapdSlab {
    /// linux-3.0 (not yet its sixth release candidate): for those whose pages it shrinks.
    ShrunkZones = "shrunk-zones",
    /// linux-2.6.37 to linux-3.0-rc6: for every zone that it walks.
    EveryZone = "every-zone",
} }

choice! { Policy kswapd_sleep_check KswapdSleepCheck {
    /// linux-3.0: zones up to the one that its last run was for, each without a reserve against
    /// requests for higher zones.
    OwnReserve = "own-reserve",
    /// linux-3.0-rc6: all zones of the node, each with its reserve against requests for the zone
    /// that the last run was for.
    AllZones = "all-zones",
} }

choice! { Policy hopeless_check HopelessCheck {
    /// linux-3.0: after it was marked. A zone that this pass marks counts as balanced at once, and
    /// the highest zone that is given up leaves the pass.
    AfterMark = "after-mark",
    /// linux-3.0-rc6: before. A zone that this pass marks still counts as below its watermark.
    BeforeMark = "before-mark",
} }

choice! { Policy kswapd_request KswapdRequest {
    /// As `every-run`, but the next test and the next run are for the zone that the run was begun
    /// for, whatever it ended with. No kernel has it: the presets were scored with it.
    RunZone = "run-zone",
    /// The source of linux-3.0: if the run reached the zone and the order that were asked for.
    /// Otherwise kswapd first tries to sleep, by the zone and the order that the run ended with.
    AfterSuccess = "after-success",
    /// linux-3.0-rc6: always, and what was asked for is forgotten unless it is stricter than the
    /// zone and the order that the run ended with.
    EveryRun = "every-run",
} }

choice! { Policy skipped_pages SkippedPages {
    /// 4.8 to 4.11: a quarter of them; all of them where the walk emptied the list.
    Quarter = "quarter",
    /// 4.12: all of them.
    All = "all",
} }

choice! { Policy reclaim_writes ReclaimWrites {
    /// All are asked for the page (`writepage`), and may refuse: ext4 a page without blocks, XFS in
    /// direct reclaim, btrfs always.
    Writepage = "writepage",
    /// 6.0: XFS and btrfs, which have no `writepage` any more, are asked for a range of one page
    /// (`writepages`). They do not refuse, and the task waits for what a flusher waits for.
    Mixed = "mixed",
    /// 6.12: all are asked for a range.
    Range = "range",
} }

choice! { Policy scan_sizes ScanSizes {
    /// The whole list, and so with lists of nodes the pages of all zones of the node.
    List = "list",
    /// 4.11: pages of zones that the request can use.
    Usable = "usable",
} }
