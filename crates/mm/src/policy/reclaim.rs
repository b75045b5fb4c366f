//! The values of the switches about how reclaim walks the LRU lists and hands pages to filesystems;
//! the switches themselves are in `switches`.

use super::table::choice;
use super::{Choice, Form, Setting, Word};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
