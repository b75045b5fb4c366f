//! The table of a policy's switches, one entry each, in the form that `table::switches` takes.
//! Defaults are those of linux-3.0; the order is that of the struct's fields and of every listing.

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
use super::table::{choice, form, setting, switches};
use super::{AutoWatermarks, Choice, Eviction, Form, Setting, Switch, WatermarkProfile, Word};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

switches! {
    /// One kernel's behaviour as a set of switches.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct Policy, "" at |policy| policy;

    before {
        /// The policy's name in reports.
        pub name: String = String::new();
    }

    after {
        /// The rules that `watermarks = "auto"` follows.
        pub auto: AutoWatermarks = AutoWatermarks::default();
        /// The watermarks that `watermarks = "learned"` uses; `None`: no profile.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub profile: Option<WatermarkProfile> = None;
    }

    /// Scope of the dirty limits: the machine, its zones or its nodes.
    dirty_limits: DirtyLimits = Global {
        /// One limit for the whole machine, so a small zone can become completely dirty.
        Global = "global",
        /// *per-zone-dirty-limits* (2011, 3.3): the fast path of a write's allocation skips zones
        /// over their share of dirty pages.
        PerZone = "per-zone",
        /// 4.8: the share is a node's. A write's allocation skips all zones of a node over its
        /// share.
        PerNode = "per-node",
        /// The earlier form: as `per-zone`, and if all zones are over their share, the slow path
        /// wakes the flushers and stalls.
        PerZoneStall = "per-zone-stall",
    } see "docs/reference/allocation.md#zone-dirty-limits";

    /// When direct reclaim writes a dirty file page itself (*writeback-from-reclaim* 1).
    direct_writeback: ReclaimWriteback = Always {
        /// linux-3.0: every dirty file page at the tail is handed to its filesystem.
        Always = "always",
        /// *writeback-from-reclaim* 5: only at scan priority `kswapd_writeback_priority` and below.
        InTrouble = "in-trouble",
        /// *writeback-from-reclaim* 1 (direct reclaim) and 8 (kswapd): never.
        Never = "never",
        /// 3.12: only while the zone is marked because a batch of its tail was all dirty
        /// (`reclaim_throttle = "zone-flags"`).
        TailDirty = "tail-dirty",
    } see "docs/reference/reclaim.md#dirty-pages";

    /// When kswapd writes a dirty file page itself (*writeback-from-reclaim* 5 and 8).
    kswapd_writeback: ReclaimWriteback = Always see "docs/reference/reclaim.md#dirty-pages";

    /// The scan priority at and below which `"in-trouble"` writes (the posted patch: 9).
    kswapd_writeback_priority: u8 = 9 [0, 12, "scan priority"] see "docs/reference/reclaim.md#dirty-pages";

    /// How reclaim asks the filesystem to write a dirty page of a file, where a policy lets reclaim
    /// write. No kernel with another value than the first does.
    reclaim_writes: ReclaimWrites = Writepage see "docs/reference/reclaim.md#dirty-pages";

    /// Which condition makes a reclaimer wait after a batch (*writeback-from-reclaim* 6).
    reclaim_throttle: ReclaimThrottle = None {
        /// linux-3.0: nothing; only the priority loop waits.
        None = "none",
        /// As posted: too many *dirty* pages in the batch for the priority.
        Dirty = "dirty",
        /// The first version of the series: as `dirty`, and counted (`nr_vmscan_throttled`, dropped
        /// in the second version).
        DirtyCounted = "dirty-counted",
        /// As merged in 3.2: too many pages under *writeback* in the batch for the priority.
        Writeback = "writeback",
        /// 3.12 to 4.7: the state of a whole batch marks the zone. kswapd stalls on pages under
        /// writeback that it meets again, direct reclaim waits while zone and device are congested,
        /// and the priority loops no longer wait.
        ZoneFlags = "zone-flags",
        /// 5.16: the state of all pages scanned of a node marks the node; congestion of devices
        /// does not count. kswapd that meets pages under writeback again waits until some are
        /// written. Direct reclaim of a marked node, or without progress, waits for a tick if half
        /// of what could be reclaimed is dirty.
        Reasons = "reasons",
    } see "docs/reference/reclaim.md#dirty-pages" "docs/reference/reclaim.md#reasons";

    /// Where reclaim puts pages that it finds under writeback or leaves to the flusher.
    unwritten_pages: UnwrittenPages = Inactive {
        /// linux-3.0: back at the head of their inactive list.
        Inactive = "inactive",
        /// 4.11: on the active list, out of reclaim's way; once clean they go to the inactive tail.
        Active = "active",
    } see "docs/reference/reclaim.md#reasons";

    /// When reclaim wakes the flushers.
    flusher_wake: FlusherWake = Scanned {
        /// linux-3.0: direct reclaim wakes them once it has scanned half more than it had to free,
        /// and asks for as many pages as it scanned.
        Scanned = "scanned",
        /// 4.11: any reclaimer that meets a batch whose pages are all dirty and not under writeback
        /// wakes them for all dirty pages.
        TailDirty = "tail-dirty",
    } see "docs/reference/reclaim.md#reasons";

    /// Reclaim waits while more than 110 % of the dirty limit is under writeback (up to 5.15).
    writeout_throttle: bool = true see "docs/reference/writeback.md#waiting-for-writeback";

    /// A dirty file page that reclaim may not write goes to the inactive tail once it is clean
    /// (*writeback-from-reclaim* 7).
    immediate_reclaim: bool = false see "docs/reference/reclaim.md#dirty-pages";

    /// Experimental: which pages reclaim asks the flusher for when it meets a dirty file page that
    /// it may not write. No kernel of the series has it; the discussion names it as the condition
    /// for never writing from kswapd.
    reclaim_flush: ReclaimFlush = None {
        /// None: flushers take the oldest inodes, in whichever zone their pages lie.
        None = "none",
        /// The 1024 pages of the file around the dirty page, from the first to the last that lies
        /// in its zone, before all other work. Up to 8 such requests wait per zone and device.
        Zone = "zone",
        /// As `zone`, by the node of the page.
        Node = "node",
        /// The page's inode, as in the first version of *writeback-from-reclaim* ("prio-inode"): it
        /// is marked, the flusher looks at once and takes marked inodes first, whatever their age.
        Inode = "inode",
    } see "docs/reference/reclaim.md#dirty-pages";

    /// Experimental: while a kswapd that meets dirty file pages scans at a priority below 10,
    /// inodes expire at the age `dirty_expire_centisecs` >> (12 - priority), and its flushers look
    /// at once.
    pressure_expiry: bool = false see "docs/reference/writeback.md#flusher";

    /// The age at which an inode is due where the flusher goes by age, and the time it is measured
    /// at.
    expire_target: ExpireTarget = Moving {
        /// The source of linux-3.0: older than `dirty_expire_centisecs` when the periodic work
        /// began. Inodes that expire during that work wait for the next one.
        AtStart = "at-start",
        /// 3.1: measured anew before each search for inodes. Every preset uses this.
        Moving = "moving",
        /// The published moving targets (2010 and 2011, not merged): background work also takes
        /// inodes of that age first, and halves the age until an inode is old enough.
        Background = "background",
    } see "docs/reference/writeback.md#flusher";

    /// When a flusher looks for work after an inode becomes dirty while none of its device was.
    first_dirty: FirstDirty = AtOnce {
        /// At once, and begins background writeback over that limit. No kernel does this; the
        /// presets whose published results were measured this way use it.
        AtOnce = "at-once",
        /// 2.6.36: one interval later (`wb_wakeup_delayed`), unless work for it is queued earlier.
        Timer = "timer",
    } see "docs/reference/writeback.md#flusher";

    /// How a flusher divides its work over the inodes it visits.
    flusher_slice: FlusherSlice = Shared {
        /// linux-3.0: 1024 pages shared by the inodes visited; the queue is refilled on every
        /// slice.
        Shared = "shared",
        /// linux-3.1: about half a second of I/O per inode; the queue is refilled only when empty.
        PerInode = "per-inode",
    } see "docs/reference/writeback.md#flusher";

    /// When a device loses its mark of being over the limit, which makes dirtiers check the limits
    /// every 8 pages instead of every `ratelimit` pages. This decides whether a lone writer at its
    /// limit proceeds in small steps or in bursts, and so how evenly allocations come while kswapd
    /// is not looking.
    dirty_exceeded: DirtyExceeded = OwnLimit {
        /// linux-3.0: as soon as the task that checks finds itself below its own limit.
        OwnLimit = "own-limit",
        /// linux-3.1 ("properly reflect ... dirty_exceeded"): below 7/8 of its share, where no task
        /// can be over its limit.
        LowestLimit = "lowest-limit",
        /// 6.0, where dirtiers sleep: each check above the free-run ceiling sets or clears it
        /// before the pause. A check below that ceiling leaves it, and nothing is cleared after a
        /// pause in which other tasks have checked.
        EachLook = "each-look",
    } see "docs/reference/writeback.md#throttling";

    /// When a device's write bandwidth is measured, where dirtiers sleep. A long gap is smoothed as
    /// one sample, so the estimate, and the pauses made from it, lag behind the device.
    bandwidth: Bandwidth = Looks {
        /// 3.2: by tasks that write and tasks that check the limits, a fifth of a second apart.
        Looks = "looks",
        /// 5.15: also by a worker, a fifth of a second after the last page of a file under
        /// writeback.
        Worker = "worker",
    } see "docs/reference/writeback.md#sleeping-dirtiers";

    /// How a task that dirties pages over the limits is throttled.
    dirty_throttle: DirtyThrottle = Write {
        /// linux-3.0: it writes a chunk itself and sleeps 1, 2, 4 … ticks.
        Write = "write",
        /// 3.2: it only sleeps, for as long as its share of the device's bandwidth needs.
        Sleep = "sleep",
    } see "docs/reference/writeback.md#throttling";

    /// Which memory counts as dirtyable.
    dirtyable: Dirtyable = Reclaimable {
        /// Up to 3.4: free pages, file pages, and anonymous pages while there is free swap.
        Reclaimable = "reclaimable",
        /// 3.16: free pages above the reserves, and file pages.
        FreeAndFile = "free-and-file",
    } see "docs/reference/allocation.md#zone-dirty-limits";

    /// How many pages of each list a scan takes.
    scan_balance: ScanBalance = Fractions {
        /// linux-3.0: by fractions of recent rotations; kswapd takes at least 32 pages of each
        /// list.
        Fractions = "fractions",
        /// 3.16: file pages alone while their inactive list is longer; a forced scan only of an
        /// unreclaimable zone.
        FileFirst = "file-first",
        /// 5.9: by the cost of each kind (`scan_costs`); file pages alone while many are inactive
        /// and none refaults soon.
        Cost = "cost",
    } see "docs/reference/reclaim.md#scan-counts" "docs/reference/reclaim.md#costs";

    /// Which pages count as a list's size when reclaim takes a share of it to scan, where nodes
    /// have the LRU lists.
    scan_sizes: ScanSizes = List see "docs/reference/reclaim.md#scan-counts";

    /// How many of the pages count as scanned that isolation from a node's list passed over because
    /// the request cannot use their zone.
    skipped_pages: SkippedPages = Quarter see "docs/reference/reclaim.md#isolation";

    /// Events that count as cost of anonymous or file pages, where `scan_balance` goes by cost.
    scan_costs: ScanCosts = Io {
        /// 5.9: pages written, and pages that refaulted soon.
        Io = "io",
        /// 6.2: these at 32 each, and pages scanned in vain at one each, so a list that is always
        /// referenced is left alone.
        Rotations = "rotations",
    } see "docs/reference/reclaim.md#costs";

    /// How current the list lengths are that the balance by cost and the refault test use.
    lru_stats: LruStats = Exact {
        /// Exact. Up to 6.11 reclaim first folds the CPUs' counts in, which leaves an error of some
        /// 64 pages each.
        Exact = "exact",
        /// 6.12, with memory cgroups: those of the last flush of the cgroups' statistics, at boot
        /// and every two seconds.
        Flushed = "flushed",
    } see "docs/reference/reclaim.md#costs";

    /// In which order reclaim frees the pages of a batch to the CPU's list, where nodes have the
    /// LRU lists.
    reclaimed_pages: ReclaimedPages = Batch {
        /// 6.10, and here every preset before 6.1: as scanned. The next allocations take the last
        /// ones first.
        Batch = "batch",
        /// Up to 6.9: the last one first, so that the next allocations get frames in the order of
        /// the scan.
        List = "list",
    } see "docs/reference/reclaim.md#page-decisions";

    /// How the scan of a zone ends once it has reclaimed enough.
    scan_stop: ScanStop = AtOnce {
        /// linux-3.0: it stops.
        AtOnce = "at-once",
        /// 3.11: the smaller of anonymous and file memory is left alone, the other scanned as far
        /// as the smaller was.
        Proportional = "proportional",
        /// 6.1: as `proportional`, in one more round that ends the scan if enough is reclaimed.
        Nudge = "nudge",
    } see "docs/reference/reclaim.md#zone-scan";

    /// Pages that a fault on a mapped file reads beside its own on a page-cache miss, without the
    /// program's advice. In all forms, once misses outnumber hits by more than a hundred, nothing
    /// else is read.
    mapped_readahead: MappedReadahead = Marked {
        /// linux-3.0: a window around the page; a fault on the mark a quarter before its end reads
        /// the next window.
        Marked = "marked",
        /// Up to 2.6.39: after a fault on the page before it, a window as read(2) has it; else one
        /// around the page, unmarked.
        PreviousFault = "previous-fault",
    } see "docs/reference/writeback.md#mapped-faults";

    /// Pages that a read(2) that misses the page cache reads beside its own.
    file_readahead: FileReadahead = Parameter {
        /// As `on-demand`; with `read_ahead_on_demand = 0`, as in no kernel, each miss reads a
        /// whole window.
        Parameter = "parameter",
        /// 2.6.23: windows grow with sequential reads, and their marks start the next one; random
        /// reads have none.
        OnDemand = "on-demand",
        /// As `on-demand`, and an allocation that fails ends the window: read-ahead tries once for
        /// memory (3.0).
        GivesUp = "gives-up",
        /// As `gives-up`, and its requests end together, as bios; frames in a row take one entry of
        /// a vector (5.1).
        Together = "together",
    } see "docs/reference/workloads.md#read-ahead";

    /// When accesses through page tables activate a file page.
    references: References = Twice {
        /// linux-3.0: if it was also referenced at the last look.
        Twice = "twice",
        /// 3.3: also if several mappings referenced it, or an executable one.
        TwiceOrShared = "twice-or-shared",
    } see "docs/reference/reclaim.md#page-decisions";

    /// Effect of a second access on a page that waits in an add batch.
    mark_accessed: MarkAccessed = Listed {
        /// linux-3.0: nothing, for the page is on no list.
        Listed = "listed",
        /// 3.11: in the batch of its own CPU the page is marked for the active list.
        InBatch = "in-batch",
    } see "docs/reference/memory-model.md#lru-lists" "docs/reference/memory-model.md#page-states";

    /// Whether a metadata page counts as accessed once when it enters the cache, so that its first
    /// user activates it.
    metadata_enters: MetadataEnters = Plain {
        /// linux-3.0: no.
        Plain = "plain",
        /// 3.16: yes (`find_or_create_page`).
        Referenced = "referenced",
        /// 6.8: only blocks of a device, not nodes of btrfs's trees
        /// (`attach_eb_folio_to_filemap`).
        BlocksReferenced = "blocks-referenced",
    } see "docs/reference/memory-model.md#page-states";

    /// Which system calls count as an access to a page of a file.
    accesses: Accesses = ReadsAndWrites {
        /// linux-3.0: read(2) and write(2).
        ReadsAndWrites = "reads-and-writes",
        /// 4.7: read(2). Writes activate nothing, and pages brought in for writing do not count as
        /// refaults.
        Reads = "reads",
    } see "docs/reference/memory-model.md#page-states";

    /// 3.15: a file page that refaults within as many evictions as there are active pages is
    /// activated at once.
    workingset: bool = false see "docs/reference/reclaim.md#refaults";

    /// 5.9: as `workingset`, for anonymous pages that come back from swap. With swap, a refault may
    /// displace any active page. New anonymous pages start inactive and are activated once they
    /// were found used twice.
    workingset_anon: bool = false see "docs/reference/reclaim.md#refaults" "docs/reference/reclaim.md#costs";

    /// Whether allocations spread over a node's zones by their size.
    fair_zones: FairZones = Off {
        /// Before 3.12: each zone is used down to its low watermark, the highest first.
        Off = "off",
        /// 3.12: each zone counts the pages that may be taken before the others have their turn.
        Batch = "batch",
        /// *sequential-read* 4 as posted and measured: no list is marked as fair, and the first
        /// walk stops at another node.
        AsPosted = "as-posted",
        /// *sequential-read* 4 as its description means it: a zone flag marks a batch as used up,
        /// no reset where watermarks failed, and lists to which a node adds only one zone of note
        /// are not fair.
        AsMeant = "as-meant",
        /// *sequential-read* 4 as merged in 3.17: every list is fair, and remote zones are reached
        /// before the slow path.
        AsMerged = "as-merged",
    } see "docs/reference/allocation.md#fair-zones" "docs/reference/allocation.md#sequential-read";

    /// How an allocation checks its zones' dirty limits (*sequential-read* 5).
    dirty_check: DirtyCheck = Fresh {
        /// The zone's limit is computed at each check.
        Fresh = "fresh",
        /// The limit is kept until a check fails. A write over all limits is retried before kswapd
        /// is woken, without the check, and without fairness if that skipped zones too.
        Cached = "cached",
    } see "docs/reference/allocation.md#sequential-read";

    /// How kswapd goes down the priorities.
    kswapd_loop: KswapdLoop = Restart {
        /// linux-3.0: from 12 down, back to 12 after 32 pages, waiting for congestion below 10.
        Restart = "restart",
        /// 3.11: it scans harder only if no zone was scanned for its whole target; no waiting.
        Rounds = "rounds",
    } see "docs/reference/reclaim.md#kswapd";

    /// How many pages a CPU's lists hold, and how many they take and return at once.
    per_cpu_lists: PerCpuLists = Batches see "docs/reference/memory-model.md#free-lists";

    /// The number of free pages below which a zone's per-CPU lists shrink, where they tune
    /// themselves.
    below_high: BelowHigh = High see "docs/reference/memory-model.md#free-lists";

    /// When a walk over the free lists that finds a zone below its low watermark wakes kswapd for
    /// it.
    zone_walk: ZoneWalk = AllZones {
        /// Every kernel: once all zones failed. Then the walk starts over, at the min watermark.
        AllZones = "all-zones",
        /// As *sequential-read* 3 assumes and its review denies: at the first zone that fails,
        /// while the walk continues with the next. kswapd refills one zone while the allocator uses
        /// another.
        OneZoneAhead = "one-zone-ahead",
    } see "docs/reference/allocation.md#free-list-walk";

    /// Which zones a walk over the free lists of several nodes skips because a walk from the same
    /// node got nothing there less than a second ago. A walk that so finds nothing is repeated over
    /// all zones.
    zonelist_cache: ZonelistCache = BehindFirst {
        /// 4.4: none.
        None = "none",
        /// Up to 3.0: behind the first zone that gave nothing, all that failed since the bits were
        /// last cleared, which a walk does if that is more than a second ago.
        BehindFirst = "behind-first",
        /// 3.1: the same behind the first zone below its watermark; direct reclaim that freed pages
        /// clears the bits of its list. A zone over its share of dirty pages counts as one that
        /// gave nothing.
        ClearedByReclaim = "cleared-by-reclaim",
        /// 3.16: only walks that look at the bits set them, and none for dirty pages.
        WhileActive = "while-active",
    } see "docs/reference/allocation.md#zonelist-cache";

    /// The watermark at which an allocation wakes a sleeping kswapd.
    kswapd_wake: KswapdWake = Low {
        /// linux-3.0: low.
        Low = "low",
        /// 3.6: high.
        High = "high",
        /// 4.8: high, of all zones that the request may use: one zone above it lets kswapd sleep.
        Unbalanced = "unbalanced",
    } see "docs/reference/allocation.md#slow-path";

    /// For which of the zones that were requested since its last run kswapd works.
    kswapd_zone: KswapdZone = Lowest {
        /// linux-3.0: the lowest.
        Lowest = "lowest",
        /// 4.8: the highest.
        Highest = "highest",
    } see "docs/reference/reclaim.md#kswapd";

    /// Which lower zones kswapd reclaims on behalf of a higher one (*sequential-read* 3).
    lower_zones: LowerZones = Gap {
        /// Those not above high, a balance gap and their reserve against the highest unbalanced
        /// zone.
        Gap = "gap",
        /// As posted: only those below their high watermark. The others are skipped without
        /// counting as scanned.
        SkipBalanced = "skip-balanced",
        /// The follow-up: no gap and no reserve in any test of balance.
        HighAlone = "high-alone",
    } see "docs/reference/reclaim.md#lower-zones";

    /// When reclaim treats a zone as unreclaimable.
    hopeless_zones: HopelessZones = Marked {
        /// linux-3.0: kswapd marks it; freeing pages clears the mark.
        Marked = "marked",
        /// 3.12: whenever its pages were scanned six times without a page being freed.
        Computed = "computed",
        /// 4.12: a node as a whole, after kswapd reached the last priority 16 times in a row
        /// without a page. It then sleeps, and tasks neither wake it nor wait for it until a scan
        /// frees a page. Direct reclaim goes by its own attempts. Where zones have the lists, as
        /// `computed`.
        Failures = "failures",
    } see "docs/reference/reclaim.md#direct-reclaim";

    /// 6.10: kswapd that reached the last priority without a page and skipped anonymous pages
    /// starts anew and scans both.
    trim_retry: bool = false see "docs/reference/reclaim.md#direct-reclaim";

    /// Whether zones or nodes have the LRU lists and their statistics.
    lru: LruScope = Zone {
        /// Each zone (2.6.37 to 4.7).
        Zone = "zone",
        /// Each node (4.8): reclaim for a low zone skips pages of higher ones, and kswapd reclaims
        /// the whole node until one of its zones is balanced. Eviction policies order zones and
        /// need `zone` here.
        Node = "node",
    } see "docs/reference/memory-model.md#lru-lists";

    /// 3.4: while buffer heads exceed a tenth of what low memory has room for, kswapd and direct
    /// reclaim for low memory also reclaim HighMem, whose pages have them. Needs HighMem and
    /// `page_metadata = "slabs"`.
    highmem_for_buffers: bool = false see "docs/reference/memory-model.md#highmem";

    /// 3.6: direct reclaimers wait for kswapd while less than half of the min watermarks is free.
    emergency_throttle: bool = false see "docs/reference/allocation.md#slow-path";

    /// The watermark test counts two free pages too few, as in 3.0.
    watermark_slip: bool = true see "docs/reference/memory-model.md#watermark-test";

    /// How shrinkers divide what is asked of them.
    shrinker_core: ShrinkerCore = Global {
        /// linux-3.0: one count of deferred objects, limited only to twice the cache; dentries, VFS
        /// inodes and each XFS's inodes have shrinkers of their own.
        Global = "global",
        /// 3.1: deferred objects count for at most half of the cache while little is asked; each
        /// filesystem has one shrinker for all its objects, with batches of 1024.
        Batched = "batched",
        /// 3.12: as `batched`; lists and deferred counts are per node, and a shrinker can stop
        /// early.
        PerNode = "per-node",
        /// 4.17: the amount asked depends on the scan priority alone, not on the LRU lists.
        ByPriority = "by-priority",
    } see "docs/reference/shrinkers-and-xfs.md#shrinkers";

    /// How reclaim frees XFS inodes (*xfs-inode-reclaim*).
    inode_reclaim: InodeReclaim = Blocking see "docs/reference/shrinkers-and-xfs.md#walk-before"
        "docs/reference/shrinkers-and-xfs.md#walk-after" "docs/reference/shrinkers-and-xfs.md#clean-inodes-only";

    /// How often a direct reclaimer that freed nothing retries while the lists hold enough (4.7:
    /// 16, `MAX_RECLAIM_RETRIES`; before: 0). After that memory counts as exhausted.
    oom_retries: u8 = 0 [0, 64, "tries"] see "docs/reference/reclaim.md#direct-reclaim";

    /// How much a retry (`oom_retries`) expects of the lists, and whether the task waits first.
    oom_retry: OomRetry = Waits {
        /// 4.7: the n-th retry counts n/16 less of what could be reclaimed. If more than half of it
        /// is dirty or under writeback, the task waits up to a tenth of a second (to 5.15), so that
        /// memory full of dirty pages is not taken for exhausted.
        Waits = "waits",
        /// 5.16: all of it counts, without a wait, as direct reclaim has waited
        /// (`reclaim_throttle = "reasons"`).
        AtOnce = "at-once",
    } see "docs/reference/allocation.md#slow-path";

    /// How the slow path of an allocation proceeds between its rounds.
    slow_path: SlowPath = Congestion {
        /// Up to 4.6: it waits for congestion.
        Congestion = "congestion",
        /// 4.7: it wakes kswapd again, yields the CPU, and repeats while it makes progress. Since
        /// 5.17 all of direct reclaim counts as a memory stall, including the time in which other
        /// tasks run.
        Rewake = "rewake",
    } see "docs/reference/allocation.md#slow-path";

    /// Pages in a CPU's batches for the LRU lists: 14, 15 since 4.15, 31 since 6.8.
    lru_batch: u8 = 14 [1, 31, "pages"] see "docs/reference/memory-model.md#lru-lists";

    /// In which order a zone's file pages leave: by the kernel's two lists, or by a policy of the
    /// crate `evict`.
    eviction: Eviction = Linux see "docs/eviction.md";

    /// When a wake-up of kswapd is traced.
    wakeup_trace: WakeupTrace = Asleep {
        /// linux-2.6.38 and later: only if kswapd sleeps and so is woken.
        Asleep = "asleep",
        /// linux-2.6.37: before testing whether it sleeps. Each allocation that finds its zones
        /// below the low watermark is an event, and one walk over several such zones is several.
        Always = "always",
    } see "docs/reference/allocation.md#slow-path";

    /// How far above its high watermark kswapd shrinks a zone while it works for another one.
    balance_gap: BalanceGap = OnePercent {
        /// linux-2.6.39 and later: by the zone's low watermark or 1 % of it, whichever is less.
        OnePercent = "one-percent",
        /// linux-2.6.37: up to eight times the high watermark.
        EightTimesHigh = "eight-times-high",
    } see "docs/reference/reclaim.md#balance-gap";

    /// For which zones of a pass kswapd calls the shrinkers.
    kswapd_slab: KswapdSlab = ShrunkZones see "docs/reference/reclaim.md#balance-gap";

    /// Which zones kswapd tests before it sleeps, and against which reserves.
    kswapd_sleep_check: KswapdSleepCheck = OwnReserve see "docs/reference/reclaim.md#release-candidate";

    /// When kswapd's loop of 3.0 passes by a zone that it has given up.
    hopeless_check: HopelessCheck = AfterMark see "docs/reference/reclaim.md#release-candidate";

    /// When kswapd looks for a new request after a run.
    kswapd_request: KswapdRequest = RunZone see "docs/reference/reclaim.md#release-candidate";

    /// How many pages kswapd scans of a list whose share is below a batch (linux mm/vmscan.c,
    /// `get_scan_count`).
    small_scan: SmallScan = Force {
        /// linux-3.0: a batch of every list whose share is 0, if all shares of the zone are that
        /// small.
        Force = "force",
        /// linux-2.6.37 (`nr_scan_try_batch`): none until the shares of several calls, by any
        /// reclaimer, make a batch. A small zone such as DMA is left alone at the first priorities.
        Save = "save",
    } see "docs/reference/reclaim.md#scan-counts";

    /// Which watermark tests add up the per-CPU differences of the free count.
    free_snapshot: FreeSnapshot = Kswapd {
        /// linux-2.6.38 and later: kswapd's. Thresholds are small while it is awake.
        Kswapd = "kswapd",
        /// linux-2.6.37: all while kswapd is awake, none while it sleeps. Thresholds stay as they
        /// are.
        WhileAwake = "while-awake",
    } see "docs/reference/memory-model.md#counters";

    /// Which kernel's names the counters have (mm/vmstat.c, `vmstat_text`). The counts do not
    /// depend on it.
    counters: Counters = Linux30 {
        /// Up to 3.3: pages scanned and freed by zone, and `kswapd_steal`.
        Linux30 = "linux-3.0",
        /// 3.16: pages freed by kswapd and by others per zone (3.4), `pgmigrate_success` (3.8),
        /// `workingset_refault` (3.15).
        Linux316 = "linux-3.16",
        /// 4.9: reclaim's counts per node, not zone; `allocstall` by zone, zone levels under
        /// `nr_zone_` (4.8).
        Linux49 = "linux-4.9",
        /// 6.1 and 6.12: reclaim's counts by kind of page (5.8), refaults by kind (5.9), `oom_kill`
        /// (4.13).
        Linux61 = "linux-6.1",
    } see "docs/reference/counters-and-traces.md#counters";

    /// The largest `swappiness`: 100, and 200 since 5.8, where values above 100 prefer swapping to
    /// dropping page cache.
    most_swappiness: u32 = 100 [100, 200, "of 200"] see "docs/reference/reclaim.md#scan-counts";

    /// For orders above 0 a node is balanced once zones with this percentage of its pages are
    /// (2.6.38: 25; 2.6.37: 100).
    order_balance_percent: u8 = 25 [1, 100, "%"] see "docs/reference/reclaim.md#kswapd";

    /// How much memory the page cache's own records take.
    page_metadata: PageMetadata = Nothing see "docs/reference/memory-model.md#free-lists";

    /// How much memory the bios of writeback take while they are under way.
    writeback_bios: WritebackBios = Free see "docs/reference/memory-model.md#free-lists";

    /// How much memory btrfs's records of extents take: one for each extent of a file, until the
    /// inode leaves memory or the first page of a committed extent is reclaimed; and for data under
    /// writeback an ordered extent and a bio, ten of either on a page, if `btrfs_writeback` tracks
    /// them.
    extent_maps: ExtentMaps = Free see "docs/reference/memory-model.md#free-lists";

    /// Memory that a page on its way to swap needs beside its request.
    swap_bios: SwapBios = Free see "docs/reference/memory-model.md#free-lists";

    /// How much memory page tables of processes take.
    page_tables: PageTables = Nothing see "docs/reference/memory-model.md#free-lists";

    /// The property by which free pages are kept apart.
    mobility: Mobility = None see "docs/reference/memory-model.md#free-lists";

    /// How a task compacts before it reclaims for contiguous pages. The live world lends its pages
    /// out and moves none.
    compaction: Compaction = Direct see "docs/reference/allocation.md#compaction";

    /// How a zone's watermarks follow from `min_free_kbytes`. A machine with
    /// `watermark_scale_factor` uses the form of 4.6.
    watermark_formula: WatermarkFormula = Quarter {
        /// Up to 4.5: low and high are a quarter and a half above min.
        Quarter = "quarter",
        /// 4.6: by `watermark_scale_factor`, by default 10; 6.6: Movable zones have a small
        /// minimum.
        ScaleFactor = "scale-factor",
    } see "docs/reference/memory-model.md#watermarks";

    /// How dirty limits follow from the dirty ratios.
    dirty_ratios: DirtyRatios = Percent {
        /// Up to 4.1: whole percent of dirtyable memory.
        Percent = "percent",
        /// 4.2: percentages are rounded down to whole 4096ths first.
        In4096ths = "4096ths",
    } see "docs/reference/writeback.md#limits";

    /// How the count of writes that gives a device its share of the dirty limit decays.
    completions: Completions = ByEvents {
        /// linux-3.0: by half per period of pages written by all devices. A new device grows into
        /// its share.
        ByEvents = "by-events",
        /// 3.6: by half every three seconds. A device that writes alone has the whole limit with
        /// its first page.
        ByTime = "by-time",
    } see "docs/reference/writeback.md#limits";

    /// When a page counts as written (`nr_written`).
    written: Written = Submitted {
        /// linux-3.0: when it goes under writeback.
        Submitted = "submitted",
        /// 4.2: when its writeback has ended.
        Done = "done",
    } see "docs/reference/writeback.md#accounting";

    /// Whether reclaim reports what it has scanned (vmpressure).
    vmpressure: VmPressure = None {
        /// No.
        None = "none",
        /// 3.10: to a worker, after every 512 pages. It has little to do, but the CPU is scheduled
        /// anew after it.
        Worker = "worker",
    } see "docs/reference/reclaim.md#pressure";

    /// Which task has a CPU, and when a task that wakes preempts the one that runs there.
    scheduler: Scheduler = Cfs {
        /// Up to 6.5: the task that has run least; a waking task preempts one that has run longer
        /// by the wake-up granularity.
        Cfs = "cfs",
        /// 6.6: of the tasks that are owed time, the one with the earliest deadline, a slice (0.7
        /// ms on one CPU) after its last. A running task is protected for its slice while owed
        /// time; a task that sleeps keeps what it is owed.
        Eevdf = "eevdf",
    } see "docs/decisions/virtual-world.md#charge-and-relax";

    /// 4.8: tick timers lie on a wheel that rounds timers of 63 ticks and more up to 8 ticks and of
    /// 504 and more to 64, so that they expire late and many together. Before, each has its own
    /// tick. High-resolution timers are not affected.
    timer_wheel: bool = false see "docs/decisions/virtual-world.md";

    /// Which threads the run time of filesystems' work, flushers and `vmpressure` is charged to.
    workers: Workers = Own {
        /// One thread for each kind of work, as up to 2.6.35 and 3.9.
        Own = "own",
        /// The thread of a pool that slept last; workers bound to a CPU and unbound ones have pools
        /// apart (workqueues).
        Pools = "pools",
    } see "docs/decisions/virtual-world.md#charge-and-relax";

    /// How requests for a device are queued and dispatched.
    request_queue: RequestQueue = Single see "docs/reference/writeback.md#request-queue-of-today";

    /// For which readers with an empty queue CFQ idles (disks of `scheduler = "cfq"` only).
    cfq_idling: CfqIdling = LastQueue see "docs/reference/writeback.md#request-queue";

    /// Whether the block layer holds writes back before they get a request.
    writeback_throttling: WritebackThrottling = None see "docs/reference/writeback.md#writeback-throttling";

    /// Whether a task that will submit more keeps its requests back for a while.
    plugs: Plugs = None see "docs/reference/writeback.md#plugs";

    /// Which pages of a file leave writeback together.
    writeback_ends: WritebackEnds = Request see "docs/reference/writeback.md#ends-of-writeback";

    /// How ext4's flusher and its journal write a file's data.
    ext4_writeback: Ext4Writeback = Bumped see "docs/reference/writeback.md#ext4-of-today";

    /// The lock that a task writing back an XFS file holds while it submits the pages before the
    /// next one, and so what another task meets that writes the same file.
    iomap_writeback: IomapWriteback = Alone see "docs/reference/writeback.md#two-who-write-one-file";

    /// How far xfs, ext4 and ext3 look ahead when they allocate blocks for pages.
    block_allocation: BlockAllocation = InOrder see "docs/reference/writeback.md#filesystems";

    /// Where mkfs puts the journal of ext4 and ext3 and the log of XFS.
    journal_place: JournalPlace = Front see "docs/reference/writeback.md#where-the-journal-lies";

    /// Whether ext4 reads its block bitmaps before they are needed.
    ext4_bitmaps: Ext4Bitmaps = Cached see "docs/reference/writeback.md#ext4-of-today";

    /// Whether the roots of the trees of XFS's groups are in memory after mounting.
    xfs_roots: XfsRoots = Cached see "docs/reference/writeback.md#where-the-journal-lies";

    /// The format that mkfs.xfs gives a disk.
    xfs_format: XfsFormat = V4 see "docs/reference/writeback.md#the-log-of-xfs";

    /// Which changes of blocks XFS writes to its log.
    xfs_log: XfsLog = Once see "docs/reference/writeback.md#the-log-of-xfs";

    /// Which threads write out what waits for XFS's log (delayed logging), and how.
    xfs_log_push: XfsLogPush = Forces see "docs/reference/shrinkers-and-xfs.md#background-push";

    /// Which conditions start btrfs's writeback.
    btrfs_writeback: BtrfsWriteback = Flusher see "docs/reference/writeback.md#btrfs-of-today";

    /// Node size of btrfs's trees, and where items go.
    btrfs_trees: BtrfsTrees = Rightmost see "docs/reference/writeback.md#btrfs-of-today";

    /// How much swap read-ahead reads around the page that is missed.
    swap_readahead: SwapReadahead = Cluster {
        /// Eight aligned slots.
        Cluster = "cluster",
        /// 3.15: a power of two of slots, up to eight, by how many pages of the last read-ahead
        /// were used.
        Hits = "hits",
        /// 4.14: unless the disk rotates, pages beside it in memory, by how many of the last ones
        /// its mapping used.
        Neighbours = "neighbours",
    } see "docs/reference/writeback.md#swap";

    /// 5.1: a fault that released the address space to read, or to wait for a page, starts over.
    fault_retry: bool = false see "docs/reference/writeback.md#mapped-faults";

    /// 5.16: an unused inode with pages joins its shrinker's list only once they have gone; not
    /// with HighMem.
    inodes_keep_pages: bool = false see "docs/reference/shrinkers-and-xfs.md#superblocks";

    /// Where the watermarks come from.
    watermarks: Watermarks = Sysctl {
        /// The sysctls.
        Sysctl = "sysctl",
        /// Feedback by the rules of `auto`, starting from the sysctls or, if there is one, from a
        /// profile.
        Auto = "auto",
        /// A profile from a stress run, in place of the sysctls.
        Learned = "learned",
    } see "docs/reference/memory-model.md#tunable-watermarks";
}
