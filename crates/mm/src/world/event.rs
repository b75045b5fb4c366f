//! Typed trace events, by the kernel's names (docs/reference/counters-and-traces.md#trace-events).
//!
//! An event is built only if a trace is read: every tracepoint is a closure handed to the engine,
//! and a world with `TRACE = false` compiles it away.

use crate::Pfn;
use crate::world::{TaskId, WaitedKind};

/// The kind of list that pages were isolated from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsolateMode {
    /// Inactive list (0).
    Inactive,
    /// Active list (1).
    Active,
}

/// A path that instantiates, dirties or activates pages: the page tracker's vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TrackPath {
    /// Nothing recorded.
    None,
    /// A buffered write call.
    BufferedWrite,
    /// A buffered read call or its read-ahead.
    BufferedRead,
    /// A page fault on a mapping.
    Fault,
    /// The filesystem's block allocator and inode metadata.
    FsMetadata,
    /// A journal or log.
    Journal,
    /// A copy-on-write tree update.
    TreeUpdate,
    /// A tree search.
    TreeSearch,
    /// A user-space filesystem daemon.
    Daemon,
    /// Page reclaim.
    Reclaim,
    /// The boot footprint.
    Boot,
}

impl TrackPath {
    /// Every path, in the order of the numbers.
    pub const ALL: [Self; 11] = [
        Self::None,
        Self::BufferedWrite,
        Self::BufferedRead,
        Self::Fault,
        Self::FsMetadata,
        Self::Journal,
        Self::TreeUpdate,
        Self::TreeSearch,
        Self::Daemon,
        Self::Reclaim,
        Self::Boot,
    ];

    /// Returns the name that reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::BufferedWrite => "buffered-write",
            Self::BufferedRead => "buffered-read",
            Self::Fault => "fault",
            Self::FsMetadata => "fs-metadata",
            Self::Journal => "journal",
            Self::TreeUpdate => "tree-update",
            Self::TreeSearch => "tree-search",
            Self::Daemon => "daemon",
            Self::Reclaim => "reclaim",
            Self::Boot => "boot",
        }
    }
}

/// A trace event. The world adds time and task to each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the fields are the kernel's; docs/reference/counters-and-traces.md#trace-events defines them
pub enum Event {
    /// kswapd goes to sleep for good, after its short sleep.
    KswapdSleep { nid: u32 },
    /// A balance run starts, whether or not kswapd was asleep.
    KswapdWake { nid: u32, order: u32 },
    /// An allocator wakes a sleeping kswapd.
    WakeupKswapd {
        nid: u32,
        zid: u32,
        order: u32,
        gfp: u32,
    },
    /// A task enters direct reclaim.
    DirectReclaimBegin {
        order: u32,
        may_writepage: bool,
        gfp: u32,
    },
    /// A task leaves direct reclaim.
    DirectReclaimEnd { nr_reclaimed: u64 },
    /// Pages isolated from a list.
    LruIsolate {
        mode: IsolateMode,
        classzone: u32,
        order: u32,
        nr_requested: u32,
        nr_scanned: u32,
        nr_skipped: u32,
        nr_taken: u32,
        lru: u8,
    },
    /// Reclaim handed a page to its filesystem.
    Writepage { pfn: Pfn, file: bool, sync: bool },
    /// An inactive batch is done.
    ShrinkInactive {
        nid: u32,
        zid: u32,
        nr_scanned: u32,
        nr_reclaimed: u32,
        nr_dirty: u32,
        nr_writeback: u32,
        nr_congested: u32,
        nr_immediate: u32,
        /// Anonymous pages and file pages.
        nr_activate: [u32; 2],
        nr_ref_keep: u32,
        priority: u32,
        file: bool,
    },
    /// A wait in `congestion_wait`, which always sleeps.
    CongestionWait {
        usec_timeout: u64,
        usec_delayed: u64,
    },
    /// A wait that sleeps only if zone and device are congested.
    WaitIffCongested {
        usec_timeout: u64,
        usec_delayed: u64,
    },
    /// A page was allocated.
    PageAlloc { pfn: Pfn, order: u32, gfp: u32 },
    /// A page was freed.
    PageFree { pfn: Pfn, order: u32 },
    /// A page came onto a list (`mm_lru_insertion`).
    LruInsertion {
        pfn: Pfn,
        lru: u8,
        mapped: bool,
        anon: bool,
        swapcache: bool,
    },
    /// A used page moved to an active list (`mm_lru_activate`). Pages that a scan activates are
    /// counted in [`Event::ShrinkInactive`], as in the kernel.
    LruActivate { pfn: Pfn },
    /// A page entered a file's cache.
    FilemapAdd {
        pfn: Pfn,
        bdi: u32,
        mapping: u32,
        index: u32,
    },
    /// A page left a file's cache.
    FilemapDelete {
        pfn: Pfn,
        bdi: u32,
        mapping: u32,
        index: u32,
    },
    /// A work item was queued on a flusher.
    WritebackQueue {
        bdi: u32,
        nr_pages: i64,
        kupdate: bool,
        background: bool,
    },
    /// A flusher starts a work item.
    WritebackStart {
        bdi: u32,
        nr_pages: i64,
        kupdate: bool,
        background: bool,
    },
    /// A flusher's slice is written.
    WritebackWritten {
        bdi: u32,
        nr_pages: i64,
        kupdate: bool,
        background: bool,
    },
    /// A page went from clean to dirty.
    PageDirtied {
        pfn: Pfn,
        bdi: u32,
        mapping: u32,
        index: u32,
    },
    /// A dirtier was throttled (3.2), with the inputs of its pause. Limits are in pages, rates in
    /// KiB per second, times in milliseconds.
    BalanceDirtyPages {
        bdi: u32,
        limit: u32,
        setpoint: u32,
        dirty: u32,
        bdi_setpoint: u32,
        bdi_dirty: u32,
        dirty_ratelimit: u32,
        task_ratelimit: u32,
        dirtied: u32,
        dirtied_pause: u32,
        paused: u32,
        pause: i32,
        period: u32,
        /// Negative while a pause is owed.
        think: i32,
    },
    /// A shrinker begins (`mm_shrink_slab_start`).
    ShrinkSlabStart {
        shrinker: &'static str,
        nid: u32,
        deferred: u64,
        gfp: u32,
        pgs_scanned: u64,
        lru_pgs: u64,
        cache_items: u64,
        delta: u64,
        total_scan: u64,
        priority: u32,
    },
    /// A shrinker ends (`mm_shrink_slab_end`).
    ShrinkSlabEnd {
        shrinker: &'static str,
        nid: u32,
        unused_scan: u64,
        new_scan: u64,
        total_scan: u64,
        freed: u64,
    },
    /// A reclaimer has waited in an inode cache. `object`: the inode, or the group.
    XfsInodeWait {
        what: WaitedKind,
        object: u32,
        usec_delayed: u64,
    },
    /// The OOM stage was reached.
    OutOfMemory { task: TaskId, order: u32 },
    /// A process was chosen to die (`oom:mark_victim`).
    MarkVictim { pid: u32 },
}

impl Event {
    /// Returns the kernel's name of the event, or the engine's own where the kernel has no such
    /// event.
    pub fn name(&self) -> &'static str {
        match self {
            Self::KswapdSleep { .. } => "mm_vmscan_kswapd_sleep",
            Self::KswapdWake { .. } => "mm_vmscan_kswapd_wake",
            Self::WakeupKswapd { .. } => "mm_vmscan_wakeup_kswapd",
            Self::DirectReclaimBegin { .. } => "mm_vmscan_direct_reclaim_begin",
            Self::DirectReclaimEnd { .. } => "mm_vmscan_direct_reclaim_end",
            Self::LruIsolate { .. } => "mm_vmscan_lru_isolate",
            Self::Writepage { .. } => "mm_vmscan_write_folio",
            Self::ShrinkInactive { .. } => "mm_vmscan_lru_shrink_inactive",
            Self::CongestionWait { .. } => "writeback_congestion_wait",
            Self::WaitIffCongested { .. } => "writeback_wait_iff_congested",
            Self::PageAlloc { .. } => "mm_page_alloc",
            Self::PageFree { .. } => "mm_page_free",
            Self::LruInsertion { .. } => "mm_lru_insertion",
            Self::LruActivate { .. } => "mm_lru_activate",
            Self::FilemapAdd { .. } => "mm_filemap_add_to_page_cache",
            Self::FilemapDelete { .. } => "mm_filemap_delete_from_page_cache",
            Self::WritebackQueue { .. } => "writeback_queue",
            Self::WritebackStart { .. } => "writeback_start",
            Self::WritebackWritten { .. } => "writeback_written",
            Self::PageDirtied { .. } => "writeback_dirty_folio",
            Self::BalanceDirtyPages { .. } => "balance_dirty_pages",
            Self::ShrinkSlabStart { .. } => "mm_shrink_slab_start",
            Self::ShrinkSlabEnd { .. } => "mm_shrink_slab_end",
            Self::XfsInodeWait { .. } => "xfs_inode_wait",
            Self::OutOfMemory { .. } => "out_of_memory",
            Self::MarkVictim { .. } => "mark_victim",
        }
    }

    /// Returns true if the event occurs page by page, several times in the life of each page.
    pub fn by_page(&self) -> bool {
        matches!(
            self,
            Self::PageAlloc { .. }
                | Self::PageFree { .. }
                | Self::LruInsertion { .. }
                | Self::LruActivate { .. }
                | Self::FilemapAdd { .. }
                | Self::FilemapDelete { .. }
                | Self::PageDirtied { .. }
        )
    }
}
