//! The presets, one entry each: a kernel release as its differences from another preset.
//!
//! ```text
//! /// Description of the preset, printed below a heading with its name.
//! FUNCTION "name", RELEASE, "month year", baseline of "what" "PAGE", on BASE {
//!     SWITCH: VALUE, "what the change means";
//! }
//! ```
//!
//! The formulas of a release are switches too: `watermark_formula` and `dirty_ratios`. The one base
//! that is not a preset is `defaults`, the defaults of all switches.

use super::block::{
    CfqIdling, Plugs, RequestQueue, WritebackBios, WritebackEnds, WritebackThrottling,
};
use super::filesystems::{
    BlockAllocation, BtrfsTrees, BtrfsWriteback, Ext4Bitmaps, Ext4Writeback, ExtentMaps,
    InodeReclaim, IomapWriteback, JournalPlace, XfsFormat, XfsLog, XfsLogPush, XfsRoots,
};
use super::memory::{
    BelowHigh, Compaction, Mobility, PageMetadata, PageTables, PerCpuLists, SwapBios,
};
use super::reclaim::{
    HopelessCheck, KswapdRequest, KswapdSlab, KswapdSleepCheck, ReclaimWrites, ScanSizes,
    SkippedPages,
};
use super::switches::*;
use super::{Policy, Setting, Switch, switches};

/// A kernel release as a set of switches.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// The preset's name in experiments.
    pub name: &'static str,
    /// The kernel release.
    pub release: (u32, u32),
    /// The release's month and year.
    pub date: &'static str,
    /// The published thread whose baseline the preset is, and the file of the project about that
    /// thread.
    pub baseline: (&'static str, &'static str),
    doc: &'static str,
    /// The switches that differ from the base.
    pub changes: &'static [Change],
    policy: fn() -> Policy,
    base: fn() -> Policy,
}

/// A switch that a preset sets differently from its base.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    /// The switch's key.
    pub switch: &'static str,
    /// Description of the changed behaviour.
    pub meaning: &'static str,
}

/// Returns the preset for a kernel release (major, minor): the newest one that is not later, or
/// else the oldest.
pub fn nearest(release: (u32, u32)) -> &'static Preset {
    let of_its_time = PRESETS.iter().filter(|p| p.release <= release);
    let newest = of_its_time.max_by_key(|p| p.release);
    let oldest = || PRESETS.iter().min_by_key(|p| p.release);
    newest.or_else(oldest).expect("there are presets")
}

/// Returns the oldest preset of a kernel later than `release`; `None` if there is none.
pub fn next_after(release: (u32, u32)) -> Option<&'static Preset> {
    // Of a release and its candidate the release counts, which stands behind the candidate.
    let later = PRESETS.iter().rev().filter(|p| p.release > release);
    later.min_by_key(|p| p.release)
}

impl Preset {
    /// Returns the description of the preset.
    pub fn about(&self) -> &'static str {
        self.doc.trim()
    }

    /// Returns the preset's policy.
    pub fn policy(&self) -> Policy {
        (self.policy)()
    }

    /// Returns the policy that the preset's changes apply to.
    pub fn base(&self) -> Policy {
        (self.base)()
    }

    /// Returns the name of the base preset; `None` if the base is the defaults of all switches.
    pub fn base_name(&self) -> Option<&'static str> {
        let name = self.base().name;
        PRESETS.iter().map(|p| p.name).find(|known| *known == name)
    }

    /// Returns the value that the preset gives to the switch that `change`, one of its changes,
    /// names.
    ///
    /// # Panics
    /// If `change` names no switch.
    pub fn setting(&self, change: &Change) -> Setting {
        let named = |s: &&Switch| s.name == change.switch;
        let switch = switches().find(named).expect("a change is of a switch");
        switch.of(&self.policy())
    }
}

macro_rules! presets {
    ($(
        $(#[doc = $doc:literal])+
        $preset:ident $name:literal, ($major:literal, $minor:literal), $date:literal,
        baseline of $what:literal $page:literal, on $base:ident {
            $($switch:ident: $value:expr, $meaning:literal;)*
        }
    )+) => {
        /// Every preset, by release.
        pub const PRESETS: &[Preset] = &[$(Preset {
            name: $name,
            release: ($major, $minor),
            date: $date,
            baseline: ($what, $page),
            doc: concat!($($doc),+),
            changes: &[$(Change { switch: stringify!($switch), meaning: $meaning },)*],
            policy: Policy::$preset,
            base: Policy::$base,
        },)+];

        impl Policy {
            $(
                #[doc = concat!("The preset ", $name, " (", $date, "): the baseline of ", $what, ".")]
                #[doc = ""]
                $(#[doc = $doc])+
                pub fn $preset() -> Self {
                    Self { name: $name.into(), $($switch: $value,)* ..Self::$base() }
                }
            )+

            /// The names that [`Policy::preset`] accepts.
            pub const PRESETS: &'static [&'static str] = &[$($name),+];
        }
    };
}

presets! {
    /// Reclaim and dirtiers write as in 3.0; kswapd and its watermark tests differ.
    linux_2_6_37 "linux-2.6.37", (2, 6), "January 2011",
    baseline of "tunable watermarks" "docs/tunable-watermarks.md", on linux_3_0 {
        wakeup_trace: WakeupTrace::Always, "a wake-up of kswapd is traced before it is tested whether it sleeps";
        balance_gap: BalanceGap::EightTimesHigh, "kswapd fills lower zones up to eight times high";
        kswapd_slab: KswapdSlab::EveryZone, "it calls the shrinkers for every zone";
        small_scan: SmallScan::Save, "small shares of a scan are saved up";
        free_snapshot: FreeSnapshot::WhileAwake, "every watermark test is exact while kswapd is awake";
        watermark_slip: false, "the test counts right";
        compaction: Compaction::None, "an option that is experimental and off";
        order_balance_percent: 100, "for orders above 0 the whole node must be balanced";
        mapped_readahead: MappedReadahead::PreviousFault, "a fault behind its neighbour's counts as reading in order";
    }

    /// 3.0 before four corrections of kswapd, posted on 24 June 2011 and, by the dates, merged
    /// between the sixth and the seventh release candidate: kswapd sleeps less readily, and calls
    /// the shrinkers for zones that have enough free pages. The thread of writeback from reclaim
    /// names this candidate as its base.
    linux_3_0_rc6 "linux-3.0-rc6", (3, 0), "July 2011",
    baseline of "writeback from reclaim, by the thread's own words" "docs/series/writeback-from-reclaim.md", on linux_3_0 {
        kswapd_slab: KswapdSlab::EveryZone, "kswapd calls the shrinkers for every zone";
        kswapd_sleep_check: KswapdSleepCheck::AllZones, "before it sleeps it tests all zones, with their reserves";
        hopeless_check: HopelessCheck::BeforeMark, "a zone is passed by only from the pass after it was given up";
        kswapd_request: KswapdRequest::EveryRun, "a new request is taken after every run";
    }

    /// The preset that all others are described against. Reclaim hands every dirty file page to its
    /// filesystem, in direct reclaim and in kswapd; only the priority loops wait for congestion.
    /// Dirtiers write a chunk themselves and sleep. Dirty limits are the machine's. Each zone has
    /// its LRU lists; kswapd starts again at priority 12 after every 32 pages and keeps lower zones
    /// a gap above high. The watermark test counts two pages too few.
    linux_3_0 "linux-3.0", (3, 0), "July 2011",
    baseline of "writeback from reclaim" "docs/writeback-from-reclaim.md", on defaults {}

    /// 3.0 with a per-inode slice of the flusher and a device's over-limit mark that is cleared
    /// later. Per-zone dirty limits were measured on it, with patches 1 to 7 of writeback from
    /// reclaim as merged.
    linux_3_1 "linux-3.1", (3, 1), "October 2011",
    baseline of "per-zone dirty limits" "experiments/usb-stick.toml", on linux_3_0 {
        shrinker_core: ShrinkerCore::Batched, "one shrinker a filesystem; what is deferred is limited";
        flusher_slice: FlusherSlice::PerInode, "half a second of I/O for each inode";
        cfq_idling: CfqIdling::LastPrompt, "CFQ does not idle on a tree of queues that think long";
        dirty_exceeded: DirtyExceeded::LowestLimit, "a device stays marked until no task can be over its limit";
        zonelist_cache: ZonelistCache::ClearedByReclaim, "after direct reclaim, full nodes are looked at again";
    }

    /// 3.1 with the later changes to dirty pages, reclaim and kswapd.
    linux_3_16 "linux-3.16", (3, 16), "August 2014",
    baseline of "sequential read" "docs/sequential-read.md", on linux_3_1 {
        dirty_limits: DirtyLimits::PerZone, "writes leave out zones over their share (3.3)";
        direct_writeback: ReclaimWriteback::Never, "direct reclaim writes no file pages (3.2)";
        completions: Completions::ByTime, "shares of the dirty limit age every three seconds (3.6)";
        kswapd_writeback: ReclaimWriteback::TailDirty, "kswapd does while the tail is all dirty (3.12)";
        reclaim_throttle: ReclaimThrottle::ZoneFlags, "what a whole batch was marks the zone (3.12)";
        immediate_reclaim: true, "what is not written goes to the tail once it is clean (3.2)";
        dirty_throttle: DirtyThrottle::Sleep, "dirtiers only sleep (3.2)";
        dirtyable: Dirtyable::FreeAndFile, "free pages above the reserves, and file pages";
        scan_balance: ScanBalance::FileFirst, "file alone while its inactive list is the longer one";
        scan_stop: ScanStop::Proportional, "a scan that has enough stops in proportion (3.11)";
        references: References::TwiceOrShared, "shared and executable pages are activated at once (3.3)";
        mark_accessed: MarkAccessed::InBatch, "a second access counts in an add batch (3.11)";
        workingset: true, "refaults (3.15)";
        swap_readahead: SwapReadahead::Hits, "as much comes back from swap as was of use before (3.15)";
        fair_zones: FairZones::Batch, "zones give pages in proportion to their size (3.12)";
        zonelist_cache: ZonelistCache::WhileActive, "dirty zones do not count as full ones (3.16)";
        kswapd_loop: KswapdLoop::Rounds, "rounds without waiting (3.11)";
        kswapd_wake: KswapdWake::High, "woken below high (3.6)";
        hopeless_zones: HopelessZones::Computed, "no mark (3.12)";
        highmem_for_buffers: true, "too many buffer heads are a reason to reclaim HighMem (3.4)";
        emergency_throttle: true, "reclaimers wait for kswapd at the reserves (3.6)";
        watermark_slip: false, "the test counts right";
        shrinker_core: ShrinkerCore::PerNode, "lists by node; a shrinker can stop (3.12)";
        counters: Counters::Linux316, "reclaim's are by zone and by who does it (3.4)";
    }

    /// 4.9 as far as XFS inode reclaim is concerned: nodes have the lists, so fair zones and the
    /// balance of lower zones no longer apply. The end of the reference's pages on allocation,
    /// reclaim and writeback lists where the preset still has the form of 3.16, such as the
    /// formulas of watermarks and dirty limits.
    linux_4_9 "linux-4.9", (4, 9), "December 2016",
    baseline of "XFS inode reclaim" "docs/xfs-inode-reclaim.md", on linux_3_16 {
        lru: LruScope::Node, "nodes have the lists (4.8)";
        fair_zones: FairZones::Off, "and need no fair allocation";
        zonelist_cache: ZonelistCache::None, "full zones are not remembered (4.4)";
        compaction: Compaction::ByMin, "zones are fit for it by min (4.8)";
        oom_retries: 16, "rounds without progress before memory counts as exhausted (4.7)";
        dirty_limits: DirtyLimits::PerNode, "nodes have the limits, too (4.8)";
        counters: Counters::Linux49, "reclaim's are the node's (4.8)";
    }

    /// A kernel of today, as far as there are switches for it. docs/validate.md says how near it
    /// comes to the real kernel, and what is missing.
    linux_6_1 "linux-6.1", (6, 1), "December 2022",
    baseline of "kernels of today" "docs/validate.md", on linux_4_9 {
        kswapd_writeback: ReclaimWriteback::Never, "no filesystem has a writepage for it";
        reclaim_writes: ReclaimWrites::Mixed, "xfs and btrfs write ranges alone (6.0)";
        hopeless_zones: HopelessZones::Failures, "a node, by what kswapd did not free (4.12)";
        reclaim_throttle: ReclaimThrottle::Reasons, "what was scanned of a node marks it (5.16)";
        unwritten_pages: UnwrittenPages::Active, "pages that cannot be freed yet are activated (4.11)";
        flusher_wake: FlusherWake::TailDirty, "whoever meets a whole batch of dirty pages (4.11)";
        writeout_throttle: false, "nobody waits for writeback as such (5.16)";
        scan_balance: ScanBalance::Cost, "by what it cost to have anonymous or file memory (5.9)";
        scan_sizes: ScanSizes::Usable, "of a list, what is of zones that the request can use (4.11)";
        skipped_pages: SkippedPages::All, "pages of other zones that are passed over count as scanned (4.12)";
        counters: Counters::Linux61, "reclaim's and refaults are by kind of page, too (5.8, 5.9)";
        most_swappiness: 200, "anonymous memory may be taken first (5.8)";
        scan_stop: ScanStop::Nudge, "a scan that has enough goes on for a round, and not for what was set out (6.1)";
        accesses: Accesses::Reads, "writes neither activate nor come back (4.7)";
        metadata_enters: MetadataEnters::Referenced, "a page of metadata enters referenced (3.16)";
        reclaimed_pages: ReclaimedPages::List, "the last page of a batch goes first";
        workingset_anon: true, "anonymous pages leave shadows (5.9)";
        swap_readahead: SwapReadahead::Neighbours, "of neighbours in memory, where the disk does not turn (4.14)";
        fault_retry: true, "a fault that waited begins anew (5.1)";
        inodes_keep_pages: true, "inodes with pages are not shrunk (5.16)";
        mobility: Mobility::Boosted, "free lists by kind, and watermarks that are boosted (5.0)";
        workers: Workers::Pools, "whoever slept last does what is next, flushers' work and filesystems' (2.6.36, 3.10)";
        timer_wheel: true, "long timers expire at multiples of 8 or 64 ticks (4.8)";
        vmpressure: VmPressure::Worker, "a worker takes a turn behind 512 pages scanned (3.10)";
        slow_path: SlowPath::Rewake, "it wakes kswapd with every round (4.7)";
        oom_retry: OomRetry::AtOnce, "a try without progress does not wait for writes (5.16)";
        lru_batch: 15, "pages in a batch for the LRU lists (4.15)";
        page_metadata: PageMetadata::Slabs, "the cache's records take memory";
        page_tables: PageTables::Pages, "so do page tables";
        writeback_bios: WritebackBios::Vectors, "bios that may grow have the longest vector (iomap, 5.5)";
        extent_maps: ExtentMaps::Wide, "btrfs's records of 144 bytes an extent";
        swap_bios: SwapBios::Pool, "of a pool that has no reserves of memory";
        per_cpu_lists: PerCpuLists::Watermark, "up to the low watermark's share (5.14)";
        kswapd_wake: KswapdWake::Unbalanced, "unless a zone that may be used is above high (4.8)";
        kswapd_zone: KswapdZone::Highest, "it works for all that was asked for (4.8)";
        shrinker_core: ShrinkerCore::ByPriority, "shrinkers are asked by the scan priority alone (4.17)";
        inode_reclaim: InodeReclaim::CleanOnly, "reclaim neither writes inodes nor waits for them (5.9)";
        watermark_formula: WatermarkFormula::ScaleFactor, "by watermark_scale_factor (4.6)";
        dirty_ratios: DirtyRatios::In4096ths, "whole 4096ths (4.2)";
        written: Written::Done, "pages count as written once they are (4.2)";
        request_queue: RequestQueue::Multi, "tags, and no congestion (5.0)";
        writeback_throttling: WritebackThrottling::Wbt, "writes leave room for reads (4.10)";
        plugs: Plugs::Worker, "requests grow in plugs (2.6.39), or until a worker gives them out (up to 6.9)";
        dirty_exceeded: DirtyExceeded::EachLook, "each look says whether its device is over its limit (6.0)";
        bandwidth: Bandwidth::Worker, "it is measured behind a file's writeback, too (5.15)";
        first_dirty: FirstDirty::Timer, "a first dirty inode sets its flusher's timer (2.6.36)";
        writeback_ends: WritebackEnds::IoEnd, "pages leave writeback by what a filesystem gathered (5.4)";
        ext4_writeback: Ext4Writeback::ByExtent, "extents that are converted once they are written (5.6)";
        iomap_writeback: IomapWriteback::Unlocked, "whoever writes the same file writes the next page (5.5)";
        ext4_bitmaps: Ext4Bitmaps::Prefetched, "block bitmaps are read some seconds after mounting (5.11)";
        xfs_roots: XfsRoots::Read, "the roots of a group's trees are read when they are first needed";
        xfs_format: XfsFormat::V5, "inodes of 512 bytes (mkfs of 2015)";
        xfs_log_push: XfsLogPush::Unwaited, "the pusher waits for no log, committers for one that has grown too long (5.14, 5.7)";
        xfs_log: XfsLog::Buffered, "all of a block's changes with every force of the log, from buffers (2.6.39, 4.8)";
        block_allocation: BlockAllocation::Ahead, "delayed extents as a whole, aligned chunks (2.6.38)";
        journal_place: JournalPlace::Middle, "where mkfs puts it";
        btrfs_trees: BtrfsTrees::Ordered, "nodes of 16 KiB, items where their keys belong (mkfs of 2013)";
        btrfs_writeback: BtrfsWriteback::Preemptive, "what is reserved for trees starts writeback (5.12)";
        file_readahead: FileReadahead::Together, "windows that grow, none for random reads, no second try for memory (3.0), ends of whole bios (5.1)";
    }

    /// 6.1 with the scheduler of 6.6 and per-CPU lists that tune themselves.
    linux_6_12 "linux-6.12", (6, 12), "November 2024",
    baseline of "kernels of today" "docs/validate.md", on linux_6_1 {
        mobility: Mobility::Claimed, "a pageblock is taken over as a whole or not at all (6.15, in 6.12 by a stable release)";
        plugs: Plugs::Task, "whoever has no plug has one for each bio (6.10)";
        lru_batch: 31, "pages in a batch for the LRU lists (6.8)";
        btrfs_trees: BtrfsTrees::NodeBios, "each node of a tree is a bio (6.4)";
        metadata_enters: MetadataEnters::BlocksReferenced, "nodes of btrfs's trees do no more (6.8)";
        btrfs_writeback: BtrfsWriteback::BySize, "what sizes of extents have chunks of their own (6.3) leaves less room (6.7)";
        extent_maps: ExtentMaps::Lean, "they have 104 bytes (6.11)";
        iomap_writeback: IomapWriteback::Locked, "pages are locked until what is before them is handed over (6.8)";
        per_cpu_lists: PerCpuLists::Tuned, "they grow and shrink with what is asked (6.7)";
        reclaim_writes: ReclaimWrites::Range, "filesystems write ranges alone (ext4: 6.3)";
        below_high: BelowHigh::HighAndReserve, "and shrink in a zone that has to keep what is free in reserve (6.7)";
        reclaimed_pages: ReclaimedPages::Batch, "as they were scanned (6.10)";
        scan_costs: ScanCosts::Rotations, "pages looked at for nothing cost, too (6.2)";
        writeback_throttling: WritebackThrottling::WbtSwap, "what goes to swap has all of wbt's depth (6.12)";
        trim_retry: true, "kswapd tries anonymous pages, too, before it gives up (6.10)";
        lru_stats: LruStats::Flushed, "lengths of lists are up to two seconds old (6.12)";
        scheduler: Scheduler::Eevdf, "the CPU is for who is owed time, by deadlines (6.6)";
    }
}

impl Policy {
    /// Returns the preset of this name; `None` if there is none.
    pub fn preset(name: &str) -> Option<Self> {
        PRESETS.iter().find(|p| p.name == name).map(Preset::policy)
    }
}
