//! Every switch of a policy, one entry each, in the form that `table::switches` takes. Defaults are linux-3.0's; the order is
//! that of the fields, and so of whatever lists a policy.

use super::filesystems::{
    BlockAllocation, Ext4Bitmaps, Ext4Writeback, InodeReclaim, IomapWriteback, JournalPlace,
    XfsFormat, XfsLog, XfsLogPush, XfsRoots,
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
        /// The name reports use.
        pub name: String = String::new();
    }

    after {
        /// The rules of `watermarks = "auto"`.
        pub auto: AutoWatermarks = AutoWatermarks::default();
        /// The watermarks of `watermarks = "learned"`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub profile: Option<WatermarkProfile> = None;
    }

    /// Who limits dirty pages, and at which granularity.
    dirty_limits: DirtyLimits = Global {
        /// One limit for the whole machine; a small zone can become completely dirty.
        Global = "global",
        /// *per-zone-dirty-limits* (2011, 3.3): a write's fast path skips a zone over its share of dirty pages.
        PerZone = "per-zone",
        /// 4.8: the same for nodes: a write leaves out the zones of a node over its share, which a walk looks at once.
        PerNode = "per-node",
        /// The earlier form: as `per-zone`, and where each zone is over its share the slow path wakes flushers and stalls.
        PerZoneStall = "per-zone-stall",
    } see "docs/reference/allocation.md#zone-dirty-limits";

    /// When direct reclaim writes a dirty file page itself (*writeback-from-reclaim* 1).
    direct_writeback: ReclaimWriteback = Always {
        /// linux-3.0: every dirty file page at the tail is handed to its filesystem.
        Always = "always",
        /// *writeback-from-reclaim* 5: only at a scan priority below `kswapd_writeback_priority`.
        InTrouble = "in-trouble",
        /// *writeback-from-reclaim* 1 (direct reclaim) and 8 (kswapd): none.
        Never = "never",
        /// 3.12: only while the zone is marked for a batch of its tail, all of it dirty (`reclaim_throttle = "zone-flags"`).
        TailDirty = "tail-dirty",
    } see "docs/reference/reclaim.md#dirty-pages";

    /// When kswapd writes a dirty file page itself (*writeback-from-reclaim* 5 and 8).
    kswapd_writeback: ReclaimWriteback = Always see "docs/reference/reclaim.md#dirty-pages";

    /// `kswapd_writeback = "in-trouble"` writes at this scan priority and below (the posted patch: 9).
    kswapd_writeback_priority: u8 = 9 [0, 12, "scan priority"] see "docs/reference/reclaim.md#dirty-pages";

    /// What throttles a reclaimer after a batch (*writeback-from-reclaim* 6).
    reclaim_throttle: ReclaimThrottle = None {
        /// linux-3.0: only the priority loop waits.
        None = "none",
        /// As posted: too many *dirty* pages for the priority.
        Dirty = "dirty",
        /// The first version of that series: as `dirty`, and counted (`nr_vmscan_throttled`, which the second one dropped).
        DirtyCounted = "dirty-counted",
        /// As merged in 3.2: too many pages under *writeback* for the priority.
        Writeback = "writeback",
        /// 3.12 to 4.7: what a whole batch was marks the zone. Pages under writeback that come round again stall
        /// kswapd, direct reclaim waits while zone and device are congested, and no priority loop waits any more.
        ZoneFlags = "zone-flags",
        /// 5.16: what all that was scanned of a node was marks the node, and no device's congestion counts.
        /// kswapd that meets pages under writeback again waits until some are written; direct reclaim of a
        /// marked node, or without progress, waits for a tick where half of what could be reclaimed is dirty.
        Reasons = "reasons",
    } see "docs/reference/reclaim.md#dirty-pages" "docs/reference/reclaim.md#reasons";

    /// Where pages go that reclaim meets under writeback, or leaves to the flusher.
    unwritten_pages: UnwrittenPages = Inactive {
        /// linux-3.0: back to the head of their inactive list.
        Inactive = "inactive",
        /// 4.11: to the active list, out of reclaim's way. Once clean they go to the inactive tail.
        Active = "active",
    } see "docs/reference/reclaim.md#reasons";

    /// When reclaim wakes the flushers.
    flusher_wake: FlusherWake = Scanned {
        /// linux-3.0: direct reclaim does that has scanned half more than it had to free, for so many pages.
        Scanned = "scanned",
        /// 4.11: whoever meets a batch of pages all of which are dirty and not under writeback, for all dirty pages.
        TailDirty = "tail-dirty",
    } see "docs/reference/reclaim.md#reasons";

    /// Reclaim waits while there is a tenth more under writeback than may be dirty (up to 5.15).
    writeout_throttle: bool = true see "docs/reference/writeback.md#waiting-for-writeback";

    /// A dirty file page that reclaim may not write goes to the inactive tail once it is clean (*writeback-from-reclaim* 7).
    immediate_reclaim: bool = false see "docs/reference/reclaim.md#dirty-pages";

    /// Experimental: whose pages reclaim asks the flusher for when it meets a dirty file page that it may not write. No
    /// kernel of the series has it; the discussion names it as the condition for never writing from kswapd.
    reclaim_flush: ReclaimFlush = None {
        /// Nobody's: flushers take the oldest inodes, wherever their pages lie.
        None = "none",
        /// Before all other work, the 1024 pages of the file around the dirty page, from the first to the
        /// last of them that lies in its zone. Up to 8 such requests a zone and device wait.
        Zone = "zone",
        /// The same with its node in the zone's place.
        Node = "node",
        /// Its file's, as in the first version of *writeback-from-reclaim* ("prio-inode"): the inode is marked, the
        /// flusher looks at once, and takes marked inodes first, whatever their age.
        Inode = "inode",
    } see "docs/reference/reclaim.md#dirty-pages";

    /// Experimental: while a kswapd that meets dirty file pages scans at a priority below 10, inodes
    /// expire at the age `dirty_expire_centisecs` >> (12 - priority), and its flushers look at once.
    pressure_expiry: bool = false see "docs/reference/writeback.md#flusher";

    /// How old an inode must be for the flusher, where it goes by age, and from when that counts.
    expire_target: ExpireTarget = Moving {
        /// As the source of linux-3.0 has it: `dirty_expire_centisecs` before the periodic work began. What expires
        /// while that runs waits for the next one.
        AtStart = "at-start",
        /// 3.1: before each look for inodes. Every preset has this one.
        Moving = "moving",
        /// The published moving targets (2010 and 2011, not merged): background work, too, takes inodes of that age
        /// first, and halves the age until there is one that is old enough.
        Background = "background",
    } see "docs/reference/writeback.md#flusher";

    /// What an inode that becomes dirty where none was does to its flusher.
    first_dirty: FirstDirty = AtOnce {
        /// It looks at once whether there is work, and begins background writeback over that limit. No kernel does: the
        /// presets whose published results were measured so have it.
        AtOnce = "at-once",
        /// 2.6.36: it looks an interval from then (`wb_wakeup_delayed`), unless somebody has work for it before.
        Timer = "timer",
    } see "docs/reference/writeback.md#flusher";

    /// How a flusher divides its work over the inodes it visits.
    flusher_slice: FlusherSlice = Shared {
        /// linux-3.0: 1024 pages shared by the inodes visited; the queue is refilled on every slice.
        Shared = "shared",
        /// linux-3.1: about half a second of I/O per inode; refilled only when empty.
        PerInode = "per-inode",
    } see "docs/reference/writeback.md#flusher";

    /// When a device stops being marked as over its limit, which makes dirtiers look at the limits every 8 pages and
    /// not every `ratelimit` pages. It decides whether a lone writer that has hit its limit goes on in small steps or
    /// in bursts, and with that how evenly allocations come while kswapd looks away.
    dirty_exceeded: DirtyExceeded = OwnLimit {
        /// linux-3.0: as soon as the task that looks finds itself below its own limit.
        OwnLimit = "own-limit",
        /// linux-3.1 ("properly reflect ... dirty_exceeded"): below 7/8 of its share, where no task can be over its limit.
        LowestLimit = "lowest-limit",
        /// 6.0, where dirtiers sleep: each look over the free-run ceiling sets it or takes it away, before the pause. A look
        /// below that ceiling leaves it, and nothing is taken away behind a pause, when others have looked since.
        EachLook = "each-look",
    } see "docs/reference/writeback.md#throttling";

    /// Who measures a device's write bandwidth, where dirtiers sleep. What nobody measures in time is smoothed once for
    /// a long time, so that it lags behind the device, and pauses follow from it.
    bandwidth: Bandwidth = Looks {
        /// 3.2: whoever writes, and whoever looks at the limits, a fifth of a second apart.
        Looks = "looks",
        /// 5.15: a worker as well, a fifth of a second behind the last page of a file under writeback.
        Worker = "worker",
    } see "docs/reference/writeback.md#sleeping-dirtiers";

    /// What a task does that dirties pages over the limits.
    dirty_throttle: DirtyThrottle = Write {
        /// linux-3.0: it writes a chunk itself and sleeps 1, 2, 4 … ticks.
        Write = "write",
        /// 3.2: it only sleeps, for as long as its share of the device's bandwidth needs.
        Sleep = "sleep",
    } see "docs/reference/writeback.md#throttling";

    /// What of memory can be dirtied.
    dirtyable: Dirtyable = Reclaimable {
        /// Up to 3.4: free pages, file pages, and anonymous ones while there is free swap.
        Reclaimable = "reclaimable",
        /// 3.16: free pages above the reserves, and file pages.
        FreeAndFile = "free-and-file",
    } see "docs/reference/allocation.md#zone-dirty-limits";

    /// How many pages of each list a scan takes.
    scan_balance: ScanBalance = Fractions {
        /// linux-3.0: by fractions of recent rotations, and at least 32 pages of each list in kswapd.
        Fractions = "fractions",
        /// 3.16: file pages alone while their inactive list is longer; a forced scan only of an unreclaimable zone.
        FileFirst = "file-first",
        /// 5.9: by what either cost (`scan_costs`). File pages alone while many are inactive and none comes back soon.
        Cost = "cost",
    } see "docs/reference/reclaim.md#scan-counts" "docs/reference/reclaim.md#costs";

    /// What anonymous or file pages cost, where `scan_balance` goes by that.
    scan_costs: ScanCosts = Io {
        /// 5.9: pages written, and pages that came back soon.
        Io = "io",
        /// 6.2: these, 32 each, and pages looked at for nothing, one each: whoever is always referenced is left alone.
        Rotations = "rotations",
    } see "docs/reference/reclaim.md#costs";

    /// What the balance by cost, and who asks whether a page came back soon, know of the lists' lengths.
    lru_stats: LruStats = Exact {
        /// What they are. Up to 6.11 reclaim first adds up what the CPUs have counted, to some 64 pages each.
        Exact = "exact",
        /// 6.12, with memory cgroups: what the last flush of their statistics found, every two seconds, and at first.
        Flushed = "flushed",
    } see "docs/reference/reclaim.md#costs";

    /// In which order the pages of a batch that reclaim frees go to the CPU's list, where nodes have the LRU lists.
    reclaimed_pages: ReclaimedPages = Batch {
        /// 6.10, and every preset before 6.1 here: as they were scanned. The next allocations take the last ones first.
        Batch = "batch",
        /// Up to 6.9: the last one first, so that the next allocations have frames in a row as they were scanned.
        List = "list",
    } see "docs/reference/reclaim.md#page-decisions";

    /// What a zone's scan does once it has reclaimed enough.
    scan_stop: ScanStop = AtOnce {
        /// linux-3.0: it stops.
        AtOnce = "at-once",
        /// 3.11: the smaller of anonymous and file memory is left alone, the other scanned as far as the smaller was.
        Proportional = "proportional",
        /// 6.1: so, by a round that ends it if enough is reclaimed.
        Nudge = "nudge",
    } see "docs/reference/reclaim.md#zone-scan";

    /// What a fault on a mapped file that misses the page cache has read beside its page, without the program's advice.
    /// Either way a miss counts, a hit counts down, and behind a hundred misses more than hits nothing else is read.
    mapped_readahead: MappedReadahead = Marked {
        /// linux-3.0: a window around it, with a mark a quarter before its end, whose fault has the next one read.
        Marked = "marked",
        /// Up to 2.6.39: behind a fault on the page before it a window as read(2) has it, else one around it, unmarked.
        PreviousFault = "previous-fault",
    } see "docs/reference/writeback.md#mapped-faults";

    /// What a read(2) that misses the page cache has read beside its pages.
    file_readahead: FileReadahead = Parameter {
        /// As `on-demand`, unless `read_ahead_on_demand = 0` has a whole window read at each miss, as no kernel does.
        Parameter = "parameter",
        /// 2.6.23: windows that grow with sequential reads, their marks have the next one read; none for random reads.
        OnDemand = "on-demand",
        /// And a page that has no memory ends the window: what only might be read asks for it once (3.0).
        GivesUp = "gives-up",
        /// And its requests end together, as bios: frames in a row take one entry of a vector (5.1).
        Together = "together",
    } see "docs/reference/workloads.md#read-ahead";

    /// When accesses through page tables activate a file page.
    references: References = Twice {
        /// linux-3.0: if it was referenced at the last look too.
        Twice = "twice",
        /// 3.3: also if several mappings referenced it, or an executable one.
        TwiceOrShared = "twice-or-shared",
    } see "docs/reference/reclaim.md#page-decisions";

    /// What a second access does to a page that waits in an add batch.
    mark_accessed: MarkAccessed = Listed {
        /// linux-3.0: nothing, for the page is on no list.
        Listed = "listed",
        /// 3.11: in the batch of its own CPU the page becomes one for the active list.
        InBatch = "in-batch",
    } see "docs/reference/memory-model.md#lru-lists" "docs/reference/memory-model.md#page-states";

    /// Whether a page of metadata counts as accessed once when it enters the cache, so that its first user activates it.
    metadata_enters: MetadataEnters = Plain {
        /// linux-3.0: it does not.
        Plain = "plain",
        /// 3.16: it does (`find_or_create_page`).
        Referenced = "referenced",
        /// 6.8: a block of a device does, a node of btrfs's trees does not (`attach_eb_folio_to_filemap`).
        BlocksReferenced = "blocks-referenced",
    } see "docs/reference/memory-model.md#page-states";

    /// What counts as an access to a page of a file.
    accesses: Accesses = ReadsAndWrites {
        /// linux-3.0: read(2) and write(2).
        ReadsAndWrites = "reads-and-writes",
        /// 4.7: read(2). What is written activates nothing, and nothing brought in for it counts as having come back.
        Reads = "reads",
    } see "docs/reference/memory-model.md#page-states";

    /// 3.15: a file page that comes back within as many evictions as there are active pages is activated at once.
    workingset: bool = false see "docs/reference/reclaim.md#refaults";

    /// 5.9: the same for anonymous pages in swap. Where there is swap, a page takes the place of any active one. New
    /// anonymous pages are inactive, and activated once they were found used twice.
    workingset_anon: bool = false see "docs/reference/reclaim.md#refaults" "docs/reference/reclaim.md#costs";

    /// Whether allocations spread over a node's zones by their size.
    fair_zones: FairZones = Off {
        /// Before 3.12: each zone is used down to its low watermark, the highest first.
        Off = "off",
        /// 3.12: a zone counter of pages that may be taken before the others have their turn.
        Batch = "batch",
        /// *sequential-read* 4 as posted and measured: no list is marked as fair, and the first walk stops at another node.
        AsPosted = "as-posted",
        /// The same as its description means it: a zone flag says that the batch is used up; no reset
        /// where watermarks failed; lists to which some node brings but one zone of note are not fair.
        AsMeant = "as-meant",
        /// The same as merged in 3.17: every list is fair, and remote zones are reached before the slow path.
        AsMerged = "as-merged",
    } see "docs/reference/allocation.md#fair-zones" "docs/reference/allocation.md#sequential-read";

    /// What the dirty check of an allocation costs (*sequential-read* 5).
    dirty_check: DirtyCheck = Fresh {
        /// The zone's limit is computed at each check.
        Fresh = "fresh",
        /// It is remembered until a check fails; and a write over the limit everywhere is tried again
        /// without the check, and without fairness if that left out zones too, before kswapd is woken.
        Cached = "cached",
    } see "docs/reference/allocation.md#sequential-read";

    /// How kswapd goes down the priorities.
    kswapd_loop: KswapdLoop = Restart {
        /// linux-3.0: from 12 down, back to 12 after 32 pages, waiting for congestion below 10.
        Restart = "restart",
        /// 3.11: the priority rises only if no zone was scanned for its whole target; no waiting.
        Rounds = "rounds",
    } see "docs/reference/reclaim.md#kswapd";

    /// How many pages a CPU's lists hold, and how many they take and return at once.
    per_cpu_lists: PerCpuLists = Batches {
        /// Up to six batches, one at a time; a batch is a 4096th of the zone, 128 KiB at most.
        Batches = "batches",
        /// 5.14: up to the low watermark's share, four batches while kswapd reclaims; what is returned doubles while
        /// nothing is allocated. A batch is 256 KiB at most. Blocks of up to eight pages have lists, too (5.13).
        Watermark = "watermark",
        /// 6.7: they grow to an eighth of a zone above its high watermark; what is taken doubles while nothing is freed.
        Tuned = "tuned",
    } see "docs/reference/memory-model.md#free-lists";

    /// When a walk over the free lists that finds a zone below its low watermark wakes kswapd for it.
    zone_walk: ZoneWalk = AllZones {
        /// Every kernel: once all zones failed. Then the walk starts over, at the min watermark.
        AllZones = "all-zones",
        /// What *sequential-read* 3 takes for granted, and its review says is not so: at the first zone that fails,
        /// and the walk goes on to the next. kswapd refills one zone while the allocator uses another.
        OneZoneAhead = "one-zone-ahead",
    } see "docs/reference/allocation.md#free-list-walk";

    /// Which zones a walk over the free lists of several nodes passes without looking, because a walk from that node
    /// got nothing there less than a second ago. A walk that finds nothing so is made once more, of all.
    zonelist_cache: ZonelistCache = BehindFirst {
        /// 4.4: none.
        None = "none",
        /// Up to 3.0: behind the first zone that gave nothing, all that did so since the bits were cleared last. That
        /// happens when a walk looks that is more than a second later.
        BehindFirst = "behind-first",
        /// 3.1: the same behind the first zone below its watermark, and direct reclaim that freed pages clears the bits of
        /// its list. A zone over its share of dirty pages counts as one that gave nothing.
        ClearedByReclaim = "cleared-by-reclaim",
        /// 3.16: bits are set by walks that look at them, and none for dirty pages.
        WhileActive = "while-active",
    } see "docs/reference/allocation.md#zonelist-cache";

    /// The watermark at which an allocation wakes a sleeping kswapd.
    kswapd_wake: KswapdWake = Low {
        /// linux-3.0: the low one.
        Low = "low",
        /// 3.6: the high one.
        High = "high",
        /// 4.8: the high one of every zone that the request may use: one that is above it lets kswapd sleep.
        Unbalanced = "unbalanced",
    } see "docs/reference/allocation.md#slow-path";

    /// For which of the zones that were asked for since its last run kswapd works.
    kswapd_zone: KswapdZone = Lowest {
        /// linux-3.0: the lowest.
        Lowest = "lowest",
        /// 4.8: the highest.
        Highest = "highest",
    } see "docs/reference/reclaim.md#kswapd";

    /// Which lower zones kswapd reclaims because a higher one needs it (*sequential-read* 3).
    lower_zones: LowerZones = Gap {
        /// Those not a balance gap above their high watermark and what they keep from the highest unbalanced zone.
        Gap = "gap",
        /// As posted: those below their high watermark alone. The others are passed without counting as scanned.
        SkipBalanced = "skip-balanced",
        /// The follow-up: no gap and no reserve in any test of balance.
        HighAlone = "high-alone",
    } see "docs/reference/reclaim.md#lower-zones";

    /// When reclaim gives a zone up.
    hopeless_zones: HopelessZones = Marked {
        /// linux-3.0: kswapd marks it; freeing pages takes the mark.
        Marked = "marked",
        /// 3.12: whenever its pages were scanned six times without a page being freed.
        Computed = "computed",
        /// 4.12: a node as a whole, when kswapd has come to the last priority 16 times in a row without a page. Then it
        /// sleeps and nobody wakes it, nor does anybody wait for it, until a scan frees a page. Direct reclaim goes by
        /// its own attempts. Where zones have the lists, as `computed`.
        Failures = "failures",
    } see "docs/reference/reclaim.md#direct-reclaim";

    /// 6.10: where kswapd came to the last priority without a page and left anonymous pages alone, it begins anew and takes both.
    trim_retry: bool = false see "docs/reference/reclaim.md#direct-reclaim";

    /// What has the LRU lists and their statistics.
    lru: LruScope = Zone {
        /// Each zone (2.6.37 to 4.7).
        Zone = "zone",
        /// Each node (4.8): reclaim for a low zone sets pages of higher ones aside, and kswapd reclaims the node as a
        /// whole until one of its zones is balanced. An eviction policy orders zones, so beside one this is `zone`.
        Node = "node",
    } see "docs/reference/memory-model.md#lru-lists";

    /// 3.4: while buffer heads are more than a tenth of low memory has room for, kswapd and direct reclaim for low memory
    /// reclaim HighMem, whose pages have them, needed or not. It takes a machine with that, and `page_metadata = "slabs"`.
    highmem_for_buffers: bool = false see "docs/reference/memory-model.md#highmem";

    /// 3.6: direct reclaimers wait for kswapd while less than half of the min watermarks is free.
    emergency_throttle: bool = false see "docs/reference/allocation.md#slow-path";

    /// 3.0's watermark test counts two free pages too few.
    watermark_slip: bool = true see "docs/reference/memory-model.md#watermark-test";

    /// How shrinkers divide what is asked of them.
    shrinker_core: ShrinkerCore = Global {
        /// linux-3.0: one count of what is left over, no limit to it beyond twice the cache; dentries,
        /// VFS inodes and an XFS's inodes have shrinkers of their own.
        Global = "global",
        /// 3.1: what is left over counts for half of the cache at most while little is asked; each
        /// filesystem has one shrinker for all its objects, with batches of 1024.
        Batched = "batched",
        /// 3.12: as `batched`; lists, and what is left over, are by node, and a shrinker can say that it can't go on.
        PerNode = "per-node",
        /// 4.17 and later: how much is asked depends on the scan priority alone, not on the lists.
        ByPriority = "by-priority",
    } see "docs/reference/shrinkers-and-xfs.md#shrinkers";

    /// How reclaim frees XFS inodes (*xfs-inode-reclaim*).
    inode_reclaim: InodeReclaim = Blocking see "docs/reference/shrinkers-and-xfs.md#walk-before"
        "docs/reference/shrinkers-and-xfs.md#walk-after" "docs/reference/shrinkers-and-xfs.md#clean-inodes-only";

    /// How often a direct reclaimer tries again after it freed nothing, while what the lists hold would
    /// be enough (4.7: 16, `MAX_RECLAIM_RETRIES`; before: 0). Then memory counts as exhausted.
    oom_retries: u8 = 0 [0, 64, "tries"] see "docs/reference/reclaim.md#direct-reclaim";

    /// What such a try (`oom_retries`) expects of the lists, and whether it waits before it.
    oom_retry: OomRetry = Waits {
        /// 4.7: the n-th one counts n/16 less of what could be reclaimed. Where more than half of it is dirty or under
        /// writeback the task waits a tenth of a second at most (to 5.15), so that memory full of dirty pages is not
        /// taken for exhausted.
        Waits = "waits",
        /// 5.16: all of it counts, and nobody waits here: direct reclaim has (`reclaim_throttle = "reasons"`).
        AtOnce = "at-once",
    } see "docs/reference/allocation.md#slow-path";

    /// What the slow path of an allocation does between its rounds.
    slow_path: SlowPath = Congestion {
        /// Up to 4.6: it waits for congestion.
        Congestion = "congestion",
        /// 4.7: it wakes kswapd again, lets others run, and goes on while it gets somewhere. Since 5.17
        /// all of direct reclaim counts as a memory stall, with the time in which others run.
        Rewake = "rewake",
    } see "docs/reference/allocation.md#slow-path";

    /// Pages in a CPU's batches for the LRU lists: 14, 15 since 4.15, 31 since 6.8.
    lru_batch: u8 = 14 [1, 31, "pages"] see "docs/reference/memory-model.md#lru-lists";

    /// In which order a zone's file pages leave: by the kernel's two lists, or by a policy of the crate `evict`.
    eviction: Eviction = Linux see "docs/eviction.md";

    /// When a wake-up of kswapd is traced.
    wakeup_trace: WakeupTrace = Asleep {
        /// linux-2.6.38 and later: only a kswapd that sleeps is woken, and that is traced.
        Asleep = "asleep",
        /// linux-2.6.37: before testing whether it sleeps. Each allocation that finds its zones below the
        /// low watermark is an event, and one walk over several such zones is several.
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
    kswapd_slab: KswapdSlab = ShrunkZones {
        /// linux-2.6.39 and later: for those whose pages it shrinks.
        ShrunkZones = "shrunk-zones",
        /// linux-2.6.37: for every zone that it walks.
        EveryZone = "every-zone",
    } see "docs/reference/reclaim.md#balance-gap";

    /// What kswapd scans of a list whose share at a priority is below a batch (linux mm/vmscan.c, `get_scan_count`).
    small_scan: SmallScan = Force {
        /// linux-3.0: a batch of every list whose share is 0, if all of the zone's are that small.
        Force = "force",
        /// linux-2.6.37 (`nr_scan_try_batch`): nothing until the shares of several calls, by anybody, make
        /// a batch. A small zone such as DMA is left alone at the first priorities.
        Save = "save",
    } see "docs/reference/reclaim.md#scan-counts";

    /// Which watermark tests add up the per-CPU differences of the free count.
    free_snapshot: FreeSnapshot = Kswapd {
        /// linux-2.6.38 and later: kswapd's. Thresholds are small while it is awake.
        Kswapd = "kswapd",
        /// linux-2.6.37: everybody's while kswapd is awake, and nobody's while it sleeps. Thresholds stay as they are.
        WhileAwake = "while-awake",
    } see "docs/reference/memory-model.md#counters";

    /// Whose names the counters have (mm/vmstat.c, `vmstat_text`). What is counted does not depend on it.
    counters: Counters = Linux30 {
        /// Up to 3.3: what reclaim scans and frees by zone, and `kswapd_steal`.
        Linux30 = "linux-3.0",
        /// 3.16: what kswapd and what others freed by zone (3.4), `pgmigrate_success` (3.8), `workingset_refault` (3.15).
        Linux316 = "linux-3.16",
        /// 4.9: what reclaim does of a node, without a zone; `allocstall` by zone, levels of zones under `nr_zone_` (4.8).
        Linux49 = "linux-4.9",
        /// 6.1 and 6.12: what reclaim does by kind of page (5.8), refaults by kind (5.9), `oom_kill` (4.13).
        Linux61 = "linux-6.1",
    } see "docs/reference/counters-and-traces.md#counters";

    /// The largest `swappiness`: 100, and 200 since 5.8, where values above 100 prefer swapping to dropping page cache.
    most_swappiness: u32 = 100 [100, 200, "of 200"] see "docs/reference/reclaim.md#scan-counts";

    /// For orders above 0 a node is balanced once zones of so many percent of its pages are (2.6.38: 25; 2.6.37: 100).
    order_balance_percent: u8 = 25 [1, 100, "%"] see "docs/reference/reclaim.md#kswapd";

    /// What the page cache's own records take of memory.
    page_metadata: PageMetadata = Nothing {
        /// Nothing.
        Nothing = "nothing",
        /// Slabs: nodes of the trees 14 on two pages, buffer heads 39 on one (a filesystem of the ext family has one
        /// for each page that was written). They are reclaimable memory to `mobility`.
        Slabs = "slabs",
    } see "docs/reference/memory-model.md#free-lists";

    /// What the bios of writeback take of memory while they are under way.
    writeback_bios: WritebackBios = Free {
        /// Nothing.
        Free = "free",
        /// Each the longest vector there is, `BIO_MAX_VECS` of 256 pages, however few it gets: ext4, xfs and btrfs make
        /// bios that may grow. A vector has 4 KiB, a slab eight of them (`biovec-max`). Asks for `writeback_ends = "ioend"`.
        Vectors = "vectors",
    } see "docs/reference/memory-model.md#free-lists";

    /// What btrfs's records of extents take of memory: where each extent of a file is, for as long as the file's inode is
    /// in memory, or until the extent's first page is reclaimed once the extent is committed; and what is being written, an
    /// ordered extent and a bio, ten of either on a page, if `btrfs_writeback` says what is being written.
    extent_maps: ExtentMaps = Free {
        /// Nothing.
        Free = "free",
        /// Up to 6.8: 144 bytes, 28 on a page. Those of files up to 16 MiB do not go with a page.
        Wide = "wide",
        /// 6.11: 104 bytes, 39 on a page.
        Lean = "lean",
    } see "docs/reference/memory-model.md#free-lists";

    /// What a page on its way to swap needs beside its request.
    swap_bios: SwapBios = Free {
        /// Nothing.
        Free = "free",
        /// A bio with room for four pages, 21 on a page, of which there is one since boot: swap writes each page with a
        /// bio of its own. Reclaim may use reserves, its bios may not: where no zone is above its min watermark, two are
        /// in reserve, and who wants a third waits until another one ends (`mempool_alloc`). So no more goes to swap at
        /// once than there were bios when memory ran out.
        Pool = "pool",
    } see "docs/reference/memory-model.md#free-lists";

    /// What page tables of processes take of memory.
    page_tables: PageTables = Nothing {
        /// Nothing.
        Nothing = "nothing",
        /// An unmovable page for each 512 neighbouring pages of a mapping, from the first fault among them to its end.
        Pages = "pages",
    } see "docs/reference/memory-model.md#free-lists";

    /// What free pages are kept apart by.
    mobility: Mobility = None {
        /// Nothing: any request takes any free page.
        None = "none",
        /// Linux 2.6.24 and later: whether pages of their pageblock can be moved or reclaimed. With
        /// `watermark_boost_factor` watermarks are boosted where a request has to mix them.
        Grouped = "grouped",
        /// 5.0: the same, and `watermark_boost_factor` is 15000 where nothing else is said.
        Boosted = "boosted",
        /// 6.15, and the stable releases of 6.12: boosted; a request takes over a pageblock as a whole where half of
        /// it is free or of its kind, and where none is it takes single pages and boosts nothing.
        Claimed = "claimed",
    } see "docs/reference/memory-model.md#free-lists";

    /// What a request of pages in a row does before its task reclaims. The live world, which lends its pages, moves none.
    compaction: Compaction = Direct {
        /// Nothing: as if built without `CONFIG_COMPACTION`. Pages in a row are left to chance.
        None = "none",
        /// It moves pages to the zone's end: at first without waiting, behind direct reclaim again with it, which goes on until
        /// enough are free to move to. After failures the next requests do without.
        Direct = "direct",
        /// 4.8: the same, but up to order 3 a zone with so many free pages above min, not above low, is fit for it, however they
        /// lie; reclaim is over once a zone of the node is fit, and a request for which none is counts as no compaction.
        ByMin = "by-min",
    } see "docs/reference/allocation.md#compaction";

    /// How a zone's watermarks follow from `min_free_kbytes`; by the form of 4.6 where a machine gives `watermark_scale_factor`.
    watermark_formula: WatermarkFormula = Quarter {
        /// Up to 4.5: low and high are a quarter and a half above min.
        Quarter = "quarter",
        /// 4.6: by `watermark_scale_factor`, 10 where the machine gives none; 6.6: Movable zones have a small minimum.
        ScaleFactor = "scale-factor",
    } see "docs/reference/memory-model.md#watermarks";

    /// How dirty limits follow from the dirty ratios.
    dirty_ratios: DirtyRatios = Percent {
        /// Up to 4.1: so many hundredths of dirtyable memory.
        Percent = "percent",
        /// 4.2: percentages are rounded down to whole 4096ths first.
        In4096ths = "4096ths",
    } see "docs/reference/writeback.md#limits";

    /// How a device's share of the dirty limit forgets what it has written.
    completions: Completions = ByEvents {
        /// linux-3.0: by half with every so many pages that all devices have written. A new one grows into its share.
        ByEvents = "by-events",
        /// 3.6: by half every three seconds. A device that writes alone has all of the limit with its first page.
        ByTime = "by-time",
    } see "docs/reference/writeback.md#limits";

    /// When a page counts as written (`nr_written`).
    written: Written = Submitted {
        /// linux-3.0: when it goes under writeback.
        Submitted = "submitted",
        /// 4.2: when its writeback has ended.
        Done = "done",
    } see "docs/reference/writeback.md#accounting";

    /// Who is told of what reclaim has scanned.
    vmpressure: VmPressure = None {
        /// Nobody.
        None = "none",
        /// 3.10: a worker, behind every 512 pages. It has next to nothing to do, but behind it the CPU is given anew.
        Worker = "worker",
    } see "docs/reference/reclaim.md#pressure";

    /// Who has a CPU, and when a task that wakes takes it from the one that runs there.
    scheduler: Scheduler = Cfs {
        /// Up to 6.5: who has run least; a task that wakes where that has run for longer by the wake-up granularity.
        Cfs = "cfs",
        /// 6.6: of those that have run for less than the mean the one with the earliest deadline, a slice of 0.7 ms on one CPU
        /// after its last; who runs is protected for its slice while it is owed time. Who sleeps keeps what it is owed.
        Eevdf = "eevdf",
    } see "docs/decisions/virtual-world.md#charge-and-relax";

    /// 4.8: timers of ticks lie on a wheel, which keeps those for 63 ticks or more to 8 ticks and those for 504 or more to
    /// 64: they expire that much later, and many together. Before, each has its own tick. High-resolution timers are not meant.
    timer_wheel: bool = false see "docs/decisions/virtual-world.md";

    /// Whose run time the work of filesystems, flushers and `vmpressure` is.
    workers: Workers = Own {
        /// That of a thread for each kind of work, as up to 2.6.35 and 3.9.
        Own = "own",
        /// That of the pool's thread which slept last, those bound to a CPU and those that are not apart (workqueues).
        Pools = "pools",
    } see "docs/decisions/virtual-world.md#charge-and-relax";

    /// How requests for a device are queued and given out.
    request_queue: RequestQueue = Single {
        /// Up to 4.20: one queue with so many requests of each class and marks of congestion; the disk's scheduler.
        Single = "single",
        /// 5.0: tags. A device has as many as it takes requests at a time, a scheduler `nr_requests` of
        /// its own, of which reads may have all; no device is congested. `deadline` and `cfq` are
        /// mq-deadline, which goes by direction; `none` has the device's tags alone.
        Multi = "multi",
    } see "docs/reference/writeback.md#request-queue-of-today";

    /// For which readers that have nothing queued CFQ keeps the disk (a disk of `scheduler = "cfq"` alone).
    cfq_idling: CfqIdling = LastQueue {
        /// For those that read in order and do not think longer than `cfq_slice_idle`.
        InOrder = "in-order",
        /// linux-3.0: also for the last of the others with something to do: it has the disk for more than one request.
        LastQueue = "last-queue",
        /// 3.1: the same, unless those others are known to think longer than that.
        LastPrompt = "last-prompt",
    } see "docs/reference/writeback.md#request-queue";

    /// Whether the block layer holds writes back before they get a request.
    writeback_throttling: WritebackThrottling = None {
        /// No: as many as the queue has room for.
        None = "none",
        /// 4.10, on by default with `request_queue = "multi"`: so many that reads keep their latency. The flusher's share is a
        /// quarter of what is allowed, or half; what somebody waits for, metadata and kswapd's writes have all of it.
        Wbt = "wbt",
        /// 6.12: the same, and so has whatever goes to swap, whoever sends it.
        WbtSwap = "wbt-swap",
    } see "docs/reference/writeback.md#writeback-throttling";

    /// Whether a task that will write more keeps its requests to itself for a while.
    plugs: Plugs = None {
        /// No: each request is its queue's as it is made.
        None = "none",
        /// 2.6.39, and of consequence with `request_queue = "multi"`: the flusher, reclaim and the `writepages` of
        /// ext4 and btrfs gather requests, to which neighbouring blocks of other files are joined, until
        /// they sleep, give their CPU away or have enough (`plug_requests`, or one of 128 KiB).
        Task = "task",
        /// Up to 6.9: as well, and who has no plug leaves its request to a worker, until whose turn it grows; then each bio has a plug.
        Worker = "worker",
    } see "docs/reference/writeback.md#plugs";

    /// Which pages of a file leave writeback together.
    writeback_ends: WritebackEnds = Request {
        /// Those of a request.
        Request = "request",
        /// Those that a filesystem gathered: those of a bio, which has 256 runs of frames; on xfs up to 4096 neighbours
        /// (5.4, iomap). On ext4 with `ext4_writeback = "by-extent"` up to 2048, when their extent is converted.
        IoEnd = "ioend",
    } see "docs/reference/writeback.md#ends-of-writeback";

    /// How ext4's flusher and its journal write a file's data.
    ext4_writeback: Ext4Writeback = Bumped see "docs/reference/writeback.md#ext4-of-today";

    /// What a task that writes an XFS file's pages holds while it hands those before over to the device, which is what
    /// another one meets that writes the same file.
    iomap_writeback: IomapWriteback = Alone see "docs/reference/writeback.md#two-who-write-one-file";

    /// How far xfs, ext4 and ext3 look ahead where pages get their blocks.
    block_allocation: BlockAllocation = InOrder see "docs/reference/writeback.md#filesystems";

    /// Where mkfs puts the journal of ext4 and ext3 and the log of XFS.
    journal_place: JournalPlace = Front see "docs/reference/writeback.md#where-the-journal-lies";

    /// Whether ext4 reads its block bitmaps before they are asked for.
    ext4_bitmaps: Ext4Bitmaps = Cached see "docs/reference/writeback.md#ext4-of-today";

    /// Whether XFS has the roots of its groups' trees in memory once it is mounted.
    xfs_roots: XfsRoots = Cached see "docs/reference/writeback.md#where-the-journal-lies";

    /// The format that mkfs.xfs gives a disk.
    xfs_format: XfsFormat = V4 see "docs/reference/writeback.md#the-log-of-xfs";

    /// What XFS's log has of blocks that were changed.
    xfs_log: XfsLog = Once see "docs/reference/writeback.md#the-log-of-xfs";

    /// Who writes what waits for XFS's log (delayed logging), and how.
    xfs_log_push: XfsLogPush = Forces see "docs/reference/shrinkers-and-xfs.md#background-push";

    /// Who starts btrfs's writeback.
    btrfs_writeback: BtrfsWriteback = Flusher {
        /// Whoever starts that of other filesystems.
        Flusher = "flusher",
        /// 5.12: also what dirty extents, those that are being written and references reserve for the trees. Where that is
        /// more than half of the room a worker has a quarter of it written or put into the extent tree; where there is
        /// none, a writer waits for another one.
        Preemptive = "preemptive",
        /// 6.7: the same, and extents up to 128 KiB, up to 8 MiB and above have chunks of their own; one more is not reserved.
        BySize = "by-size",
    } see "docs/reference/writeback.md#btrfs-of-today";

    /// What btrfs's trees are made of.
    btrfs_trees: BtrfsTrees = Rightmost {
        /// Nodes of 4 KiB, mkfs's until 2013, and all items go to the end of their tree.
        Rightmost = "rightmost",
        /// Nodes of 16 KiB; an item goes where its key belongs, so that names change leaves all over their directory's
        /// part of the tree. The flusher and each commit write what was changed, twice; then the next change copies it.
        Ordered = "ordered",
        /// The same, and each node is a bio, not those that lie in a row; its second copy comes right behind it (6.4).
        NodeBios = "node-bios",
    } see "docs/reference/writeback.md#btrfs-of-today";

    /// How much comes back from swap around the page that is missed.
    swap_readahead: SwapReadahead = Cluster {
        /// Eight aligned slots.
        Cluster = "cluster",
        /// 3.15: a power of two of them, up to eight, by how many pages of the last ones were met.
        Hits = "hits",
        /// 4.14: where the disk does not turn, the pages beside it, by how many of the last ones its mapping met.
        Neighbours = "neighbours",
    } see "docs/reference/writeback.md#swap";

    /// 5.1: a fault that let the address space go to read, or to wait for a page, begins anew.
    fault_retry: bool = false see "docs/reference/writeback.md#mapped-faults";

    /// 5.16: an unused inode with pages is none of its shrinker's, which has it once they have gone; not where there is HighMem.
    inodes_keep_pages: bool = false see "docs/reference/shrinkers-and-xfs.md#superblocks";

    /// Who decides the watermarks.
    watermarks: Watermarks = Sysctl {
        /// The sysctls.
        Sysctl = "sysctl",
        /// Feedback, from what the sysctls or, if there is one, a profile says on, by the rules of `auto`.
        Auto = "auto",
        /// A profile that a stress run left, in the place of the sysctls.
        Learned = "learned",
    } see "docs/reference/memory-model.md#tunable-watermarks";
}
