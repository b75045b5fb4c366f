//! Counters: levels with per-CPU drift, and cumulative events
//! (docs/reference/memory-model.md#counters and docs/reference/counters-and-traces.md#counters).
//!
//! A zone level has a global value and a small signed difference per CPU. A difference is folded
//! into the global value when it passes the CPU's threshold, so a cheap read can be off by
//! threshold x CPUs; a snapshot adds the differences. The error is part of the modelled behaviour:
//! because of it the kernel keeps a `percpu_drift_mark`.

use crate::world::{Word32, Word64, World};

/// Levels and page counters kept per zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)] // the kernel's names; docs/reference/counters-and-traces.md#counters defines them
pub enum ZoneStat {
    NrFreePages,
    NrInactiveAnon,
    NrActiveAnon,
    NrInactiveFile,
    NrActiveFile,
    NrUnevictable,
    NrFilePages,
    NrAnonPages,
    NrFileMapped,
    NrFileDirty,
    NrWriteback,
    NrIsolatedAnon,
    NrIsolatedFile,
    NrKernel,
    NrSlabReclaimable,
    NrAllocBatch,
    NrDirtied,
    NrWritten,
    NrVmscanWrite,
    NrVmscanImmediateReclaim,
    NrVmscanWriteSkip,
}

/// Number of [`ZoneStat`] items.
pub const ZONE_STATS: usize = ZoneStat::NrVmscanWriteSkip as usize + 1;

impl ZoneStat {
    /// Every item, in the order of the numbers.
    pub const ALL: [Self; ZONE_STATS] = [
        Self::NrFreePages,
        Self::NrInactiveAnon,
        Self::NrActiveAnon,
        Self::NrInactiveFile,
        Self::NrActiveFile,
        Self::NrUnevictable,
        Self::NrFilePages,
        Self::NrAnonPages,
        Self::NrFileMapped,
        Self::NrFileDirty,
        Self::NrWriteback,
        Self::NrIsolatedAnon,
        Self::NrIsolatedFile,
        Self::NrKernel,
        Self::NrSlabReclaimable,
        Self::NrAllocBatch,
        Self::NrDirtied,
        Self::NrWritten,
        Self::NrVmscanWrite,
        Self::NrVmscanImmediateReclaim,
        Self::NrVmscanWriteSkip,
    ];

    /// Returns the name in /proc/vmstat.
    pub fn name(self) -> &'static str {
        match self {
            Self::NrFreePages => "nr_free_pages",
            Self::NrInactiveAnon => "nr_inactive_anon",
            Self::NrActiveAnon => "nr_active_anon",
            Self::NrInactiveFile => "nr_inactive_file",
            Self::NrActiveFile => "nr_active_file",
            Self::NrUnevictable => "nr_unevictable",
            Self::NrFilePages => "nr_file_pages",
            Self::NrAnonPages => "nr_anon_pages",
            Self::NrFileMapped => "nr_mapped",
            Self::NrFileDirty => "nr_dirty",
            Self::NrWriteback => "nr_writeback",
            Self::NrIsolatedAnon => "nr_isolated_anon",
            Self::NrIsolatedFile => "nr_isolated_file",
            Self::NrKernel => "nr_kernel",
            Self::NrSlabReclaimable => "nr_slab_reclaimable",
            Self::NrAllocBatch => "nr_alloc_batch",
            Self::NrDirtied => "nr_dirtied",
            Self::NrWritten => "nr_written",
            Self::NrVmscanWrite => "nr_vmscan_write",
            Self::NrVmscanImmediateReclaim => "nr_vmscan_immediate_reclaim",
            Self::NrVmscanWriteSkip => "nr_vmscan_write_skip",
        }
    }

    /// Returns true if the item only grows, so a report takes end minus start; false for a level.
    pub fn cumulative(self) -> bool {
        self as usize >= Self::NrDirtied as usize
    }
}

/// Returns true if this name in /proc/vmstat is a level of a zone or node, not a counter that only
/// grows.
pub fn is_level(name: &str) -> bool {
    debug_assert!(!name.is_empty(), "a counter has a name");
    let mut levels = ZoneStat::ALL.iter().filter(|s| !s.cumulative());
    name.starts_with("nr_zone_") || levels.any(|s| s.name() == name)
}

macro_rules! events {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Cumulative events of the whole machine.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum VmEvent { $($(#[$doc])* $variant,)* }

        impl VmEvent {
            /// Every event, in the order of the numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the name in /proc/vmstat.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

events! {
    /// Pages freed.
    PgFree = "pgfree",
    /// Pages moved to an active list.
    PgActivate = "pgactivate",
    /// Pages moved from an active list.
    PgDeactivate = "pgdeactivate",
    /// Pages moved to the inactive tail when their writeback ended.
    PgRotated = "pgrotated",
    /// Page faults.
    PgFault = "pgfault",
    /// Page faults that needed I/O.
    PgMajFault = "pgmajfault",
    /// Pages read from swap.
    PswpIn = "pswpin",
    /// Pages written to swap.
    PswpOut = "pswpout",
    /// kB read by block devices.
    PgpgIn = "pgpgin",
    /// kB written by block devices.
    PgpgOut = "pgpgout",
    /// Entries into direct reclaim.
    AllocStall = "allocstall",
    /// Balance runs of kswapd.
    PageOutRun = "pageoutrun",
    /// Pages reclaimed by kswapd.
    KswapdSteal = "kswapd_steal",
    /// kswapd woken during its first nap.
    KswapdLowWmarkHitQuickly = "kswapd_low_wmark_hit_quickly",
    /// kswapd's nap completed, but the high watermark was broken again.
    KswapdHighWmarkHitQuickly = "kswapd_high_wmark_hit_quickly",
    /// kswapd left out its congestion wait because a zone was under min.
    KswapdSkipCongestionWait = "kswapd_skip_congestion_wait",
    /// Allocations stalled on a small node's dirty pages (`per-zone-stall`).
    DirtyStall = "dirty_stall",
    /// Batches after which a reclaimer was to wait (only in the first version of
    /// *writeback-from-reclaim*).
    VmscanThrottled = "nr_vmscan_throttled",
    /// Requests by reclaim that a flusher write pages of a zone, a node or a file
    /// (`reclaim_flush`).
    ReclaimFlush = "reclaim_flush",
    /// Such requests that were dropped because the queue was full.
    ReclaimFlushDropped = "reclaim_flush_dropped",
    /// Pages that flushers wrote for such requests.
    ReclaimFlushWritten = "reclaim_flush_written",
    /// Pages that flushers wrote because memory pressure made them expire (`pressure_expiry`).
    PressureExpired = "pressure_expired",
    /// Pages that direct reclaim handed to a filesystem that refuses them and warns
    /// (*writeback-from-reclaim* 2 to 4; the kernel warns once).
    DirectWritepageWarning = "direct_writepage_warning",
    /// Pages whose write failed.
    WriteError = "write_error",
    /// Evicted file pages that were brought in again while their shadow was kept (3.15).
    WorkingsetRefault = "workingset_refault",
    /// Refaulted file pages that were activated at once (3.15).
    WorkingsetActivate = "workingset_activate",
    /// Anonymous pages that came back from swap while their shadow was kept (5.9).
    WorkingsetRefaultAnon = "workingset_refault_anon",
    /// Refaulted anonymous pages that were activated at once (5.9).
    WorkingsetActivateAnon = "workingset_activate_anon",
    /// Tree nodes of shadows that were reclaimed because there were too many (3.15).
    WorkingsetNodereclaim = "workingset_nodereclaim",
    /// Tasks that were throttled before direct reclaim until kswapd refilled the reserves (3.6).
    PgScanDirectThrottle = "pgscan_direct_throttle",
    /// Resets of the fair allocation batches (3.12; the kernel does not count them).
    FairReset = "fair_reset",
    /// Objects that shrinkers were asked to scan.
    SlabsScanned = "slabs_scanned",
    /// Page-cache pages dropped with unused inodes by processes.
    PgInodeSteal = "pginodesteal",
    /// Page-cache pages dropped with unused inodes by kswapd.
    KswapdInodeSteal = "kswapd_inodesteal",
    /// Inodes whose memory was given back (not a kernel counter).
    InodesFreed = "inodes_freed",
    /// XFS: inodes that a walk freed (`xs_ig_reclaims`).
    XfsInodesReclaimed = "xfs_inodes_reclaimed",
    /// XFS: evicted inodes that were looked up again (`xs_ig_frecycle`).
    XfsInodesRecycled = "xfs_inodes_recycled",
    /// XFS: changed inodes that went into a cluster's write (`xs_iflush_count`).
    XfsInodesFlushed = "xfs_inodes_flushed",
    /// XFS: cluster writes that a reclaimer waited for (not a kernel counter).
    XfsInodeWrites = "xfs_inode_writes",
    /// XFS: waits of reclaimers for inodes, their groups and their I/O (not a kernel counter).
    XfsReclaimWait = "xfs_reclaim_wait",
    /// XFS: those waits by kswapd (not a kernel counter).
    KswapdInodeWait = "kswapd_inode_wait",
    /// Direct compactions (2.6.35).
    CompactStall = "compact_stall",
    /// Direct compactions that yielded the requested block (2.6.35).
    CompactSuccess = "compact_success",
    /// Direct compactions that did not (2.6.35).
    CompactFail = "compact_fail",
    /// Batches of up to 32 pages that compaction moved (2.6.35 to 3.7).
    CompactBlocksMoved = "compact_blocks_moved",
    /// Pages that compaction moved (2.6.35 to 3.7; from 3.8 on `pgmigrate_success`).
    CompactPagesMoved = "compact_pages_moved",
    /// Pages that compaction isolated and could not move (2.6.35 to 3.7; from 3.8 on
    /// `pgmigrate_fail`).
    CompactPagemigrateFailed = "compact_pagemigrate_failed",
    /// Frames that compaction's migrate scanner looked at (3.8).
    CompactMigrateScanned = "compact_migrate_scanned",
    /// Processes killed because no memory was found (4.13).
    OomKill = "oom_kill",
    /// The part of [`Self::AllocStall`] by requests for zones up to DMA (4.8).
    AllocStallDma = "allocstall_dma",
    /// The part by requests for zones up to DMA32.
    AllocStallDma32 = "allocstall_dma32",
    /// The part by requests for zones up to Normal.
    AllocStallNormal = "allocstall_normal",
    /// The part by requests for any zone: pages of programs and of the page cache.
    AllocStallMovable = "allocstall_movable",
    /// Pages of DMA that a scan of a node's list skipped because the request could not use them
    /// (4.8).
    PgSkipDma = "pgskip_dma",
    /// Skipped pages of DMA32.
    PgSkipDma32 = "pgskip_dma32",
    /// Skipped pages of Normal.
    PgSkipNormal = "pgskip_normal",
    /// Skipped pages of Movable or HighMem.
    PgSkipMovable = "pgskip_movable",
    /// Pages scanned on the inactive anonymous list by any reclaimer (5.8).
    PgScanAnon = "pgscan_anon",
    /// Pages scanned on the inactive file list by any reclaimer (5.8).
    PgScanFile = "pgscan_file",
    /// Pages reclaimed from the anonymous lists (5.8).
    PgStealAnon = "pgsteal_anon",
    /// Pages reclaimed from the file lists (5.8).
    PgStealFile = "pgsteal_file",
}

/// The `allocstall` events by kind of zone, in the order of [`crate::ZoneType::index`].
pub(crate) const ALLOC_STALLS: [VmEvent; 4] = [
    VmEvent::AllocStallDma,
    VmEvent::AllocStallDma32,
    VmEvent::AllocStallNormal,
    VmEvent::AllocStallMovable,
];
/// The `pgskip` events by kind of zone, in the same order.
pub(crate) const PG_SKIPS: [VmEvent; 4] = [
    VmEvent::PgSkipDma,
    VmEvent::PgSkipDma32,
    VmEvent::PgSkipNormal,
    VmEvent::PgSkipMovable,
];

/// Number of [`VmEvent`] items.
pub const VM_EVENTS: usize = VmEvent::ALL.len();

/// Cumulative events counted per zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ZoneEvent {
    /// Pages allocated.
    PgAlloc,
    /// Pages scanned on active lists.
    PgRefill,
    /// Pages reclaimed by any reclaimer.
    PgSteal,
    /// Pages scanned on inactive lists by kswapd.
    PgScanKswapd,
    /// Pages scanned on inactive lists by direct reclaim.
    PgScanDirect,
    /// Pages reclaimed by kswapd (a counter of 3.4; 3.0 has the sum and `kswapd_steal`).
    PgStealKswapd,
    /// Pages reclaimed by direct reclaim (3.4).
    PgStealDirect,
    /// Pages read ahead that reclaim took before they were used (not a kernel counter).
    ReadAheadReclaimed,
    /// Pages found in the cache by reads that had not brought them in (not a kernel counter).
    PgHit,
}

/// Number of [`ZoneEvent`] items.
pub const ZONE_EVENTS: usize = ZoneEvent::PgHit as usize + 1;

impl ZoneEvent {
    /// Every event, in the order of the numbers.
    pub const ALL: [Self; ZONE_EVENTS] = [
        Self::PgAlloc,
        Self::PgRefill,
        Self::PgSteal,
        Self::PgScanKswapd,
        Self::PgScanDirect,
        Self::PgStealKswapd,
        Self::PgStealDirect,
        Self::ReadAheadReclaimed,
        Self::PgHit,
    ];

    /// Returns the name without the zone's suffix.
    pub fn name(self) -> &'static str {
        match self {
            Self::PgAlloc => "pgalloc",
            Self::PgRefill => "pgrefill",
            Self::PgSteal => "pgsteal",
            Self::PgScanKswapd => "pgscan_kswapd",
            Self::PgScanDirect => "pgscan_direct",
            Self::PgStealKswapd => "pgsteal_kswapd",
            Self::PgStealDirect => "pgsteal_direct",
            Self::ReadAheadReclaimed => "readahead_reclaimed",
            Self::PgHit => "pghit",
        }
    }
}

/// Index, in a row of `pagesets`, of the stat threshold that the zone uses now; the differences
/// stand before it.
const THRESHOLD: usize = ZONE_STATS;

/// All counters of a machine.
pub(crate) struct VmStat<W: World> {
    zones: usize,
    cpus: usize,
    global: [W::U64; ZONE_STATS],
    zone: Box<[[W::U64; ZONE_STATS]]>,
    /// One row per CPU and zone: the CPU's differences and its threshold.
    pagesets: Box<[[W::U32; ZONE_STATS + 1]]>,
    events: [W::U64; VM_EVENTS],
    zone_events: Box<[[W::U64; ZONE_EVENTS]]>,
    /// By how many pages levels have moved in total, by the first class of decisions ([`Asks`])
    /// that depends on them; see [`Self::moved`].
    moved: [W::U64; 4],
}

/// A distance larger than any number of pages.
pub(crate) const FAR: u64 = 1 << 32;

/// The classes of decisions that are remembered between allocations, by the levels they depend on;
/// each class depends on the levels of those before it as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Asks {
    /// On free pages alone: a walk over the free lists in which no zone's share of dirty pages
    /// counts.
    Free,
    /// On dirtyable pages: the dirty limits.
    Dirtyable,
    /// On dirty pages and pages under writeback: a walk in which zones' shares of dirty pages
    /// count.
    Dirty,
    /// On no level: nothing remembered depends on it.
    Nothing,
}

/// For each level, the first class of remembered decisions that depends on it.
const ASKED: [Asks; ZONE_STATS] = {
    let mut asked = [Asks::Nothing; ZONE_STATS];
    asked[ZoneStat::NrFreePages as usize] = Asks::Free;
    asked[ZoneStat::NrInactiveAnon as usize] = Asks::Dirtyable;
    asked[ZoneStat::NrActiveAnon as usize] = Asks::Dirtyable;
    asked[ZoneStat::NrInactiveFile as usize] = Asks::Dirtyable;
    asked[ZoneStat::NrActiveFile as usize] = Asks::Dirtyable;
    asked[ZoneStat::NrFileDirty as usize] = Asks::Dirty;
    asked[ZoneStat::NrWriteback as usize] = Asks::Dirty;
    asked
};

impl<W: World> VmStat<W> {
    /// Makes the counters of a machine with so many zones and CPUs, all 0.
    pub fn new(zones: usize, cpus: usize) -> Self {
        Self {
            zones,
            cpus,
            global: bytemuck::Zeroable::zeroed(),
            zone: bytemuck::zeroed_slice_box(zones),
            pagesets: bytemuck::zeroed_slice_box(zones * cpus),
            events: bytemuck::Zeroable::zeroed(),
            zone_events: bytemuck::zeroed_slice_box(zones),
            moved: bytemuck::Zeroable::zeroed(),
        }
    }

    /// Sets the threshold beyond which the per-CPU differences of a zone's counters are folded, 1
    /// to 125, for all CPUs.
    pub fn set_threshold(&self, zone: usize, threshold: u32) {
        assert!((1..=125).contains(&threshold), "stat threshold {threshold}");
        for cpu in 0..self.cpus {
            self.pageset(cpu, zone)[THRESHOLD].set(threshold);
        }
    }

    /// Returns a CPU's row of a zone: its difference of each counter, and their threshold.
    #[inline(always)]
    fn pageset(&self, cpu: usize, zone: usize) -> &[W::U32; ZONE_STATS + 1] {
        &self.pagesets[cpu * self.zones + zone]
    }

    /// Adds `n`, a CPU's difference, to the zone's and the machine's value of a counter, and notes
    /// the move for remembered decisions.
    #[cold]
    fn fold(&self, zone: usize, item: ZoneStat, n: i64) {
        let before = self.zone[zone][item as usize].fetch_add(n as u64) as i64;
        self.global[item as usize].fetch_add(n as u64);
        self.moved[ASKED[item as usize] as usize].fetch_add(n.unsigned_abs());
        if item == ZoneStat::NrAllocBatch && (before > 0) != (before + n > 0) {
            // Decisions depend only on whether a batch has pages left.
            self.note_change();
        }
    }

    /// Returns by how many pages, in total, the cheap levels (without the CPUs' differences) have
    /// moved that decisions of this class depend on. A change of anything else that they depend on
    /// (watermarks, flags, limits) counts as [`FAR`] pages. A caller that remembers a decision, and
    /// how far its inputs were from another outcome, compares this value with the one it noted.
    #[inline(always)]
    pub fn moved(&self, asks: Asks) -> u64 {
        let [free, dirtyable, dirty, _] = &self.moved;
        let moved = match asks {
            Asks::Free | Asks::Nothing => 0,
            Asks::Dirtyable => dirtyable.get(),
            Asks::Dirty => dirtyable.get().wrapping_add(dirty.get()),
        };
        free.get().wrapping_add(moved)
    }

    /// Notes a change of something that decisions depend on and that is not a level.
    #[inline(always)]
    pub fn note_change(&self) {
        self.moved[Asks::Free as usize].fetch_add(FAR);
    }

    /// Adds `n` to a zone's and the machine's value of a counter at once, not by way of a CPU's
    /// difference; for blocks larger than one.
    pub fn add_exact(&self, zone: usize, item: ZoneStat, n: i64) {
        self.fold(zone, item, n);
    }

    /// Returns a zone's counters as one CPU changes them, so that a caller that changes several
    /// looks them up once.
    #[inline(always)]
    pub fn on(&self, cpu: usize, zone: usize) -> ZoneCounters<'_, W> {
        ZoneCounters {
            stat: self,
            pageset: self.pageset(cpu, zone),
            zone,
        }
    }

    /// Calls [`ZoneCounters::add`] for one item.
    #[inline(always)]
    pub fn add(&self, cpu: usize, zone: usize, item: ZoneStat, n: i32) {
        self.on(cpu, zone).add(item, n);
    }

    /// Calls [`ZoneCounters::inc`] for one item.
    #[inline(always)]
    pub fn inc(&self, cpu: usize, zone: usize, item: ZoneStat) {
        self.on(cpu, zone).inc(item);
    }

    /// Calls [`ZoneCounters::dec`] for one item.
    #[inline(always)]
    pub fn dec(&self, cpu: usize, zone: usize, item: ZoneStat) {
        self.on(cpu, zone).dec(item);
    }

    /// Returns a zone's level without the per-CPU differences; 0 if that is negative.
    #[inline(always)]
    pub fn zone(&self, zone: usize, item: ZoneStat) -> u64 {
        (self.zone[zone][item as usize].get() as i64).max(0) as u64
    }

    /// Returns a zone's level without the per-CPU differences, which may be negative.
    pub fn zone_raw(&self, zone: usize, item: ZoneStat) -> i64 {
        self.zone[zone][item as usize].get() as i64
    }

    /// Returns the machine's level without the per-CPU differences; 0 if that is negative.
    #[inline(always)]
    pub fn global(&self, item: ZoneStat) -> u64 {
        (self.global[item as usize].get() as i64).max(0) as u64
    }

    /// Returns a zone's level with every CPU's difference added; 0 if that is negative.
    pub fn snapshot(&self, zone: usize, item: ZoneStat) -> u64 {
        self.exact(zone, item).max(0) as u64
    }

    /// Returns a zone's level with every CPU's difference added, which may be negative.
    pub fn exact(&self, zone: usize, item: ZoneStat) -> i64 {
        let drift: i64 = (0..self.cpus)
            .map(|c| i64::from(self.pageset(c, zone)[item as usize].get() as i32))
            .sum();
        self.zone[zone][item as usize].get() as i64 + drift
    }

    /// Returns a counter's value over all zones with every CPU's differences added; may be
    /// negative.
    pub fn exact_global(&self, item: ZoneStat) -> i64 {
        (0..self.zones).map(|z| self.exact(z, item)).sum()
    }

    /// Folds every difference of a CPU into the zones' counters (the kernel's once-a-second vmstat
    /// update).
    pub fn refresh_cpu(&self, cpu: usize) {
        for zone in 0..self.zones {
            for item in ZoneStat::ALL {
                let diff = &self.pageset(cpu, zone)[item as usize];
                let v = diff.get() as i32;
                if v != 0 {
                    self.fold(zone, item, i64::from(v));
                    diff.set(0);
                }
            }
        }
    }

    /// Checks that no difference exceeds its bound and that the machine's values are the sums of
    /// the zones'. A difference may exceed a threshold that was lowered after it was counted, so
    /// the bound is that of the format: a signed byte.
    ///
    /// # Errors
    /// Returns a text that names the first item that fails.
    pub fn check(&self) -> Result<(), String> {
        for item in ZoneStat::ALL {
            let sum: i64 = self
                .zone
                .iter()
                .map(|z| z[item as usize].get() as i64)
                .sum();
            if sum != self.global[item as usize].get() as i64 {
                return Err(format!("{}: zones sum to {sum}", item.name()));
            }
            for d in &self.pagesets {
                let v = d[item as usize].get() as i32;
                if v.abs() > 127 {
                    return Err(format!("{}: per-CPU difference {v}", item.name()));
                }
            }
        }
        Ok(())
    }

    /// Adds `n` to the count of an event of the machine.
    #[inline(always)]
    pub fn event(&self, event: VmEvent, n: u64) {
        self.events[event as usize].fetch_add(n);
    }

    /// Returns how often an event of the machine was counted.
    pub fn events(&self, event: VmEvent) -> u64 {
        self.events[event as usize].get()
    }

    /// Adds `n` to the count of an event of a zone.
    #[inline(always)]
    pub fn zone_event(&self, zone: usize, event: ZoneEvent, n: u64) {
        self.zone_events[zone][event as usize].fetch_add(n);
    }

    /// Returns how often an event of a zone was counted.
    pub fn zone_events(&self, zone: usize, event: ZoneEvent) -> u64 {
        self.zone_events[zone][event as usize].get()
    }
}

/// A zone's counters as one CPU changes them; see [`VmStat::on`].
pub(crate) struct ZoneCounters<'a, W: World> {
    stat: &'a VmStat<W>,
    pageset: &'a [W::U32; ZONE_STATS + 1],
    zone: usize,
}

impl<W: World> ZoneCounters<'_, W> {
    /// Adds `n` to this CPU's difference of a counter, and folds the difference into the zone's
    /// value if it passes the threshold (`mod_zone_page_state`).
    #[inline(always)]
    pub fn add(&self, item: ZoneStat, n: i32) {
        let diff = &self.pageset[item as usize];
        let threshold = self.pageset[THRESHOLD].get() as i32;
        let new_diff = (diff.get() as i32).wrapping_add(n);
        if new_diff > threshold || new_diff < -threshold {
            self.stat.fold(self.zone, item, i64::from(new_diff));
            diff.set(0);
        } else {
            diff.set(new_diff as u32);
        }
    }

    /// Adds 1 to this CPU's difference of a counter (`inc_zone_state`). If that passes the
    /// threshold, folds half a threshold more than it must, so that a counter that moves one way is
    /// folded half as often.
    #[inline(always)]
    pub fn inc(&self, item: ZoneStat) {
        let diff = &self.pageset[item as usize];
        let threshold = self.pageset[THRESHOLD].get() as i32;
        let new_diff = (diff.get() as i32).wrapping_add(1);
        if new_diff > threshold {
            let over = threshold >> 1;
            self.stat.fold(self.zone, item, i64::from(new_diff + over));
            diff.set(-over as u32);
        } else {
            diff.set(new_diff as u32);
        }
    }

    /// Subtracts 1 from this CPU's difference of a counter (`dec_zone_state`), folding as
    /// [`Self::inc`] does.
    #[inline(always)]
    pub fn dec(&self, item: ZoneStat) {
        let diff = &self.pageset[item as usize];
        let threshold = self.pageset[THRESHOLD].get() as i32;
        let new_diff = (diff.get() as i32).wrapping_sub(1);
        if new_diff < -threshold {
            let over = threshold >> 1;
            self.stat.fold(self.zone, item, i64::from(new_diff - over));
            diff.set(over as u32);
        } else {
            diff.set(new_diff as u32);
        }
    }

    /// Does what `n` calls of [`Self::add`] with 1 do, in one step where none of them folds.
    #[inline(always)]
    pub fn add_ones(&self, item: ZoneStat, n: u32) {
        let diff = &self.pageset[item as usize];
        let threshold = self.pageset[THRESHOLD].get() as i32;
        let before = diff.get() as i32;
        let new_diff = before.wrapping_add(n as i32);
        // Nothing is folded if both ends are within the threshold; `before` may be outside, as the
        // threshold may have been lowered since.
        if before >= -threshold && new_diff <= threshold {
            diff.set(new_diff as u32);
        } else {
            self.add_ones_folding(item, n);
        }
    }

    /// Does [`Self::add_ones`] if one of the steps may pass the threshold and fold the difference.
    #[inline(never)]
    fn add_ones_folding(&self, item: ZoneStat, n: u32) {
        if n > 0 {
            // The first step folds a difference that a lowered threshold left outside.
            self.add(item, 1);
            self.fold_steps(item, n - 1, 1, 0);
        }
    }

    /// Returns the largest difference that this CPU's counters may have without being folded.
    #[inline(always)]
    pub fn threshold(&self) -> u32 {
        self.pageset[THRESHOLD].get()
    }

    /// Does what `n` calls of [`Self::dec`], each followed by [`Self::inc`], do to a counter:
    /// nothing, unless one of them passes the threshold and folds.
    #[inline(always)]
    pub fn dec_and_inc(&self, item: ZoneStat, n: u32) {
        let threshold = self.pageset[THRESHOLD].get() as i32;
        let diff = &self.pageset[item as usize];
        for _ in 0..n {
            // A pair of steps that folds nothing leaves the difference as it is.
            if (1 - threshold..=threshold).contains(&(diff.get() as i32)) {
                return;
            }
            self.dec(item);
            self.inc(item);
        }
    }

    /// Returns how many calls of [`Self::inc`] for a counter fold nothing, from its present
    /// difference on.
    #[inline(always)]
    pub fn incs_unfolded(&self, item: ZoneStat) -> u32 {
        let threshold = self.pageset[THRESHOLD].get() as i32;
        (threshold - self.pageset[item as usize].get() as i32).max(0) as u32
    }

    /// Returns how many calls of [`Self::add`] with -1 fold nothing, from the counter's present
    /// difference on.
    #[inline(always)]
    pub fn decs_unfolded(&self, item: ZoneStat) -> u32 {
        let threshold = self.pageset[THRESHOLD].get() as i32;
        let present = self.pageset[item as usize].get() as i32;
        // The threshold may have been lowered since, so `present` may be above it.
        if present > threshold {
            0
        } else {
            (present + threshold).max(0) as u32
        }
    }

    /// Does what `n` calls of [`Self::inc`] for a counter do.
    #[inline(always)]
    pub fn inc_by(&self, item: ZoneStat, n: u32) {
        let diff = &self.pageset[item as usize];
        let threshold = self.pageset[THRESHOLD].get() as i32;
        let new_diff = (diff.get() as i32).wrapping_add(n as i32);
        if new_diff <= threshold {
            diff.set(new_diff as u32);
        } else {
            self.fold_steps(item, n, 1, threshold >> 1);
        }
    }

    /// Does what `n` single steps of a counter in the direction of `sign` (1 or -1) do; a step that
    /// passes the threshold folds `over` more than it must.
    #[inline(never)]
    fn fold_steps(&self, item: ZoneStat, n: u32, sign: i32, over: i32) {
        let diff = &self.pageset[item as usize];
        let threshold = self.pageset[THRESHOLD].get() as i32;
        // Computes as if the counter moved upwards.
        let present = sign * diff.get() as i32;
        // The number of steps up to the first fold.
        let first = (threshold + 1 - present).max(1);
        let Some(mut left) = n.checked_sub(first as u32) else {
            diff.set((sign * (present + n as i32)) as u32);
            return;
        };
        let mut folded = i64::from(present + first + over);
        // After the first fold one follows every `period` steps.
        let period = (threshold + 1 + over) as u32;
        if left >= period {
            folded += i64::from(left / period * period);
            left %= period;
        }
        self.stat.fold(self.zone, item, i64::from(sign) * folded);
        diff.set((sign * (left as i32 - over)) as u32);
    }

    /// Does what `n` calls of [`Self::dec`] for a counter do.
    #[inline(always)]
    pub fn dec_by(&self, item: ZoneStat, n: u32) {
        let diff = &self.pageset[item as usize];
        let threshold = self.pageset[THRESHOLD].get() as i32;
        let new_diff = (diff.get() as i32).wrapping_sub(n as i32);
        if new_diff >= -threshold {
            diff.set(new_diff as u32);
        } else {
            self.fold_steps(item, n, -1, threshold >> 1);
        }
    }
}
