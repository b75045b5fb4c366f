//! Policies are data: every behaviour that the published threads argue about is one named switch.
//!
//! A preset names a kernel version and is nothing but a set of switches. The engine never asks for
//! a version; it asks for a switch.

mod profile;
mod watermarks;

pub use profile::{ProfileZone, WatermarkProfile};
pub use watermarks::{AutoWatermarks, Watermarks};

use evict::registry;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;

/// Who limits dirty pages, and at which granularity (docs/reference/allocation.md#zone-dirty-limits).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DirtyLimits {
    /// One limit for the whole machine; a small zone can become completely dirty.
    Global,
    /// *per-zone-dirty-limits* (2011, merged in 3.3): an allocation for a write skips a zone that
    /// holds more than its share of dirty pages, in the fast path only.
    PerZone,
    /// The earlier form of that series: as `per-zone`, and where every allowed zone is over its
    /// share the slow path wakes the flushers and stalls the allocation.
    PerZoneStall,
}

/// When page reclaim writes a dirty *file* page itself (docs/reference/reclaim.md#dirty-pages).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReclaimWriteback {
    /// linux-3.0: every dirty file page at the tail is handed to its filesystem.
    Always,
    /// *writeback-from-reclaim* 5: only at a scan priority below `kswapd_writeback_priority`.
    InTrouble,
    /// *writeback-from-reclaim* 1 (direct reclaim) and 8 (kswapd).
    Never,
    /// 3.12: only while the zone is marked because a whole batch of its tail was dirty and not yet
    /// under writeback (`reclaim_throttle = "zone-flags"` marks it).
    TailDirty,
}

/// What throttles a reclaimer after a batch (docs/reference/reclaim.md#dirty-pages).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReclaimThrottle {
    /// linux-3.0: only the priority loop waits.
    None,
    /// As posted: too many *dirty* pages for the priority.
    Dirty,
    /// As merged in 3.2: too many pages under *writeback* for the priority.
    Writeback,
    /// 3.12 to 4.7: what a whole batch was marks the zone. Pages under writeback that come round
    /// again stall kswapd, direct reclaim waits while zone and device are congested, and no
    /// priority loop waits any more.
    ZoneFlags,
}

/// Experimental: whose pages reclaim asks the flusher for when it meets a dirty file page that it may
/// not write. No kernel of the series has it; the discussion names it as the condition for never
/// writing from kswapd (docs/reference/reclaim.md#dirty-pages).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReclaimFlush {
    /// Nobody's: flushers take the oldest inodes, wherever their pages lie.
    None,
    /// Before all other work, the 1024 pages of the file around the dirty page, from the first to the
    /// last of them that lies in its zone. Up to 8 such requests a zone and device wait.
    Zone,
    /// The same with its node in the zone's place.
    Node,
}

/// How a flusher divides its work over the inodes it visits (docs/reference/writeback.md#flusher).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlusherSlice {
    /// linux-3.0: 1024 pages shared by the inodes visited; the queue is refilled on every slice.
    Shared,
    /// linux-3.1: about half a second of I/O per inode; refilled only when empty.
    PerInode,
}

/// When a device stops being marked as over its limit, which makes dirtiers look at the limits every
/// 8 pages and not every `ratelimit` pages (docs/reference/writeback.md#throttling).
///
/// It decides whether a lone writer that has hit its limit goes on in small steps or in bursts, and
/// with that how evenly allocations come while kswapd looks away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DirtyExceeded {
    /// linux-3.0: as soon as the task that looks finds itself below its own limit.
    OwnLimit,
    /// linux-3.1 ("properly reflect task dirty limits in dirty_exceeded logic"): below 7/8 of the
    /// device's share, where no task can be over its limit.
    LowestLimit,
}

/// When a wake-up of kswapd is traced (docs/reference/allocation.md#slow-path).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WakeupTrace {
    /// linux-2.6.38 and later: only a kswapd that sleeps is woken, and that is traced.
    Asleep,
    /// linux-2.6.37: before testing whether it sleeps. Each allocation that finds its zones below the
    /// low watermark is an event, and one walk over several such zones is several.
    Always,
}

/// How far above its high watermark kswapd shrinks a zone while it works for another one
/// (docs/reference/reclaim.md#balance-gap).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BalanceGap {
    /// linux-2.6.39 and later: by the zone's low watermark or 1 % of it, whichever is less.
    OnePercent,
    /// linux-2.6.37: up to eight times the high watermark.
    EightTimesHigh,
}

/// For which zones of a pass kswapd calls the shrinkers (docs/reference/reclaim.md#balance-gap).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KswapdSlab {
    /// linux-2.6.39 and later: for those whose pages it shrinks.
    ShrunkZones,
    /// linux-2.6.37: for every zone that it walks.
    EveryZone,
}

/// What kswapd scans of a list so short that its share at a priority is less than a batch (linux
/// mm/vmscan.c, `get_scan_count`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SmallScan {
    /// linux-3.0: a batch of every list whose share is 0, if all of the zone's are that small.
    Force,
    /// linux-2.6.37 (`nr_scan_try_batch`): nothing until the shares of several calls, by anybody, make
    /// a batch. A small zone such as DMA is left alone at the first priorities.
    Save,
}

/// Which watermark tests add up the per-CPU differences of the free count
/// (docs/reference/memory-model.md#counters).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FreeSnapshot {
    /// linux-2.6.38 and later: kswapd's. Thresholds are small while it is awake.
    Kswapd,
    /// linux-2.6.37: everybody's while kswapd is awake, and nobody's while it sleeps. Thresholds stay
    /// as they are.
    WhileAwake,
}

/// What a task does that dirties pages over the limits (docs/reference/writeback.md#throttling).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DirtyThrottle {
    /// linux-3.0: it writes a chunk itself and sleeps 1, 2, 4 … ticks.
    Write,
    /// 3.2: it only sleeps, for as long as its share of the device's bandwidth needs.
    Sleep,
}

/// What of memory can be dirtied (docs/reference/allocation.md#zone-dirty-limits).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Dirtyable {
    /// Up to 3.4: free pages, file pages, and anonymous ones while there is free swap.
    Reclaimable,
    /// 3.16: free pages above the reserves, and file pages.
    FreeAndFile,
}

/// How many pages of each list a scan takes (docs/reference/reclaim.md#scan-counts).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScanBalance {
    /// linux-3.0: by fractions of recent rotations, and at least 32 pages of each list in kswapd.
    Fractions,
    /// 3.16: file pages alone while their inactive list is the longer one; a forced scan only of a
    /// zone that is not reclaimable.
    FileFirst,
}

/// What a zone's scan does once it has reclaimed enough (docs/reference/reclaim.md#zone-scan).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScanStop {
    /// linux-3.0: it stops.
    AtOnce,
    /// 3.11: the smaller of anonymous and file memory is left alone, the other one is scanned as far
    /// as the smaller one was.
    Proportional,
}

/// When accesses through page tables activate a file page (docs/reference/reclaim.md#page-decisions).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum References {
    /// linux-3.0: if it was referenced at the last look too.
    Twice,
    /// 3.3: also if several mappings referenced it, or an executable one.
    TwiceOrShared,
}

/// What a second access does to a page that waits in an add batch (docs/reference/memory-model.md#lru-lists
/// and docs/reference/memory-model.md#page-states).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MarkAccessed {
    /// linux-3.0: nothing, for the page is on no list.
    Listed,
    /// 3.11: in the batch of its own CPU the page becomes one for the active list.
    InBatch,
}

/// Whether allocations spread over a node's zones by their size (docs/reference/allocation.md#fair-zones and
/// docs/reference/allocation.md#sequential-read).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FairZones {
    /// Before 3.12: each zone is used down to its low watermark, the highest first.
    Off,
    /// 3.12: a zone counter of pages that may be taken before the others have their turn.
    Batch,
    /// *sequential-read* 4 as posted: a zone flag says that the batch is used up; no reset where
    /// watermarks failed; lists with one zone of note are not fair.
    Flag,
    /// The same as merged in 3.17: every list is fair, and remote zones are reached before the slow
    /// path.
    FlagMerged,
}

/// What the dirty check of an allocation costs (*sequential-read* 5,
/// docs/reference/allocation.md#sequential-read).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DirtyCheck {
    /// The zone's limit is computed at each check.
    Fresh,
    /// It is remembered until a check fails; and a write over the limit everywhere is tried again
    /// without the check before kswapd is woken.
    Cached,
}

/// How kswapd goes down the priorities (docs/reference/reclaim.md#kswapd).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KswapdLoop {
    /// linux-3.0: from 12 down, back to 12 after 32 pages, waiting for congestion below 10.
    Restart,
    /// 3.11: the priority rises only if no zone was scanned for its whole target; no waiting.
    Rounds,
}

/// The watermark at which an allocation wakes a sleeping kswapd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KswapdWake {
    /// linux-3.0.
    Low,
    /// 3.6.
    High,
}

/// Which lower zones kswapd reclaims because a higher one needs it (docs/reference/reclaim.md#lower-zones,
/// *sequential-read* 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LowerZones {
    /// Those that are not a balance gap above their high watermark and the reserve that they keep
    /// from the highest unbalanced zone.
    Gap,
    /// As posted: those below their high watermark alone.
    SkipBalanced,
    /// The follow-up: no gap and no reserve in any test of balance.
    HighAlone,
}

/// What has the LRU lists and their statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LruScope {
    /// Each zone (2.6.37 to 4.7).
    Zone,
    /// Each node (4.8): reclaim for a low zone sets pages of higher ones aside, and kswapd reclaims
    /// the node as a whole until one of its zones is balanced. An eviction policy orders zones, so
    /// beside one this is `zone`.
    Node,
}

/// What free pages are kept apart by ([`mobility`](crate::mobility)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mobility {
    /// Nothing: any request takes any free page.
    None,
    /// Linux 2.6.24 and later: whether pages of their pageblock can be moved or reclaimed. With
    /// `watermark_boost_factor` watermarks are boosted where a request has to mix them.
    Grouped,
}

/// When reclaim gives a zone up (docs/reference/reclaim.md#direct-reclaim).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HopelessZones {
    /// linux-3.0: kswapd marks it; freeing pages takes the mark.
    Marked,
    /// 3.12: whenever its pages were scanned six times without a page being freed.
    Computed,
}

/// How shrinkers divide what is asked of them (docs/reference/shrinkers-and-xfs.md#shrinkers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ShrinkerCore {
    /// linux-3.0: one count of what is left over, no limit to it beyond twice the cache; dentries,
    /// VFS inodes and an XFS's inodes have shrinkers of their own.
    Global,
    /// 3.1: what is left over counts for half of the cache at most while little is asked; each
    /// filesystem has one shrinker for all its objects, with batches of 1024.
    Batched,
    /// 3.12: as `batched`; lists, and what is left over, are by node, and a shrinker can say that it
    /// can't go on.
    PerNode,
    /// 4.17 and later: how much is asked depends on the scan priority alone, not on the lists.
    ByPriority,
}

/// How reclaim frees XFS inodes (*xfs-inode-reclaim*, docs/reference/shrinkers-and-xfs.md#walk-before and
/// docs/reference/shrinkers-and-xfs.md#walk-after).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InodeReclaim {
    /// linux-3.0 to 4.10: whoever meets a changed inode waits for its I/O, kswapd too, and where all
    /// groups are busy everybody queues for the first one.
    Blocking,
    /// As posted: kswapd never waits, the first pass waits for no lock, a walk goes on where the last
    /// one ended, and with all groups busy the shrinker says that it can't go on.
    NonBlocking,
}

/// In which order a zone's file pages leave: `linux` is the active and the inactive list with all
/// their rules, any other name a policy of the crate `evict` in their place (docs/eviction.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eviction {
    /// The two lists.
    Linux,
    /// A policy by its name in the registry.
    Policy(&'static str),
}

impl Eviction {
    /// Every name.
    pub const NAMES: &'static [&'static str] = &{
        let mut names = ["linux"; registry::ALL.len() + 1];
        let mut i = 0;
        while i < registry::ALL.len() {
            names[i + 1] = registry::ALL[i].name;
            i += 1;
        }
        names
    };

    /// Reads one of [`Self::NAMES`].
    pub fn parse(name: &str) -> Option<Self> {
        match registry::find(name) {
            Some(entry) => Some(Self::Policy(entry.name)),
            None => (name == Self::NAMES[0]).then_some(Self::Linux),
        }
    }

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linux => Self::NAMES[0],
            Self::Policy(name) => name,
        }
    }
}

impl Serialize for Eviction {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Eviction {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let name = String::deserialize(d)?;
        Self::parse(&name).ok_or_else(|| serde::de::Error::unknown_variant(&name, Self::NAMES))
    }
}

impl JsonSchema for Eviction {
    fn schema_name() -> Cow<'static, str> {
        "Eviction".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "enum": Self::NAMES })
    }
}

/// One kernel's behaviour as a set of switches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The name reports use.
    pub name: String,
    /// Global or per-zone dirty limits (*per-zone-dirty-limits*).
    pub dirty_limits: DirtyLimits,
    /// File writeback from direct reclaim (*writeback-from-reclaim* 1).
    pub direct_writeback: ReclaimWriteback,
    /// File writeback from kswapd (*writeback-from-reclaim* 5 and 8).
    pub kswapd_writeback: ReclaimWriteback,
    /// `kswapd_writeback = "in-trouble"` writes at this scan priority and below (0..=12; the
    /// posted patch: 9).
    pub kswapd_writeback_priority: u8,
    /// Throttling of reclaimers after a batch (*writeback-from-reclaim* 6).
    pub reclaim_throttle: ReclaimThrottle,
    /// A dirty file page that reclaim may not write is marked so that it moves to the inactive
    /// tail as soon as it is clean (*writeback-from-reclaim* 7).
    pub immediate_reclaim: bool,
    /// Experimental: reclaim asks the flusher for pages of its own zone or node.
    pub reclaim_flush: ReclaimFlush,
    /// Experimental: while a kswapd that meets dirty file pages scans at a priority below 10, inodes
    /// expire at the age `dirty_expire_centisecs` >> (12 - priority), and its flushers look at once.
    pub pressure_expiry: bool,
    /// The flusher's slice (3.0 or 3.1 form).
    pub flusher_slice: FlusherSlice,
    /// When a device stops being marked as over its limit (3.0 or 3.1 form).
    pub dirty_exceeded: DirtyExceeded,
    /// What a task does that dirties pages over the limits (3.0 or 3.2 form).
    pub dirty_throttle: DirtyThrottle,
    /// What of memory can be dirtied (3.0 or 3.16 form).
    pub dirtyable: Dirtyable,
    /// How many pages of each list a scan takes (3.0 or 3.16 form).
    pub scan_balance: ScanBalance,
    /// What a zone's scan does once it has reclaimed enough (3.0 or 3.11 form).
    pub scan_stop: ScanStop,
    /// When accesses through page tables activate a file page (3.0 or 3.3 form).
    pub references: References,
    /// What a second access does to a page in an add batch (3.0 or 3.11 form).
    pub mark_accessed: MarkAccessed,
    /// 3.15: a file page that comes back no later than as many evictions as there are active pages
    /// is activated at once (docs/reference/reclaim.md#refaults).
    pub workingset: bool,
    /// Allocations spread over the zones of a node (3.12; *sequential-read* 4).
    pub fair_zones: FairZones,
    /// What the dirty check of an allocation costs (*sequential-read* 5).
    pub dirty_check: DirtyCheck,
    /// How kswapd goes down the priorities (3.0 or 3.11 form).
    pub kswapd_loop: KswapdLoop,
    /// The watermark at which an allocation wakes kswapd (3.0 or 3.6 form).
    pub kswapd_wake: KswapdWake,
    /// Which lower zones kswapd reclaims for a higher one (*sequential-read* 3).
    pub lower_zones: LowerZones,
    /// When reclaim gives a zone up (3.0 or 3.12 form).
    pub hopeless_zones: HopelessZones,
    /// What has the LRU lists: each zone, or each node (4.8).
    pub lru: LruScope,
    /// 3.6: direct reclaimers wait for kswapd while less than half of the min watermarks is free
    /// (docs/reference/allocation.md#slow-path).
    pub emergency_throttle: bool,
    /// 3.0's watermark test counts two free pages too few (docs/reference/memory-model.md#watermark-test).
    pub watermark_slip: bool,
    /// How shrinkers divide what is asked of them (3.0, 3.1, 3.12 or 4.17 form).
    pub shrinker_core: ShrinkerCore,
    /// How reclaim frees XFS inodes (*xfs-inode-reclaim*).
    pub inode_reclaim: InodeReclaim,
    /// How often a direct reclaimer tries again after it freed nothing, while what the lists hold would
    /// be enough (4.7: 16, `MAX_RECLAIM_RETRIES`; before: 0; 0..=64). Then memory counts as exhausted.
    pub oom_retries: u8,
    /// In which order file pages leave.
    pub eviction: Eviction,
    /// When a wake-up of kswapd is traced (2.6.37 or later form).
    pub wakeup_trace: WakeupTrace,
    /// How far above high kswapd shrinks a zone (2.6.37 or later form).
    pub balance_gap: BalanceGap,
    /// For which zones kswapd calls the shrinkers (2.6.37 or later form).
    pub kswapd_slab: KswapdSlab,
    /// What kswapd scans of short lists (2.6.37 or 3.0 form).
    pub small_scan: SmallScan,
    /// Which watermark tests take a snapshot (2.6.37 or later form).
    pub free_snapshot: FreeSnapshot,
    /// For orders above 0 kswapd takes a node for balanced once zones with so many percent of its
    /// pages are (2.6.38 and later: 25; 2.6.37: 100; 1..=100).
    pub order_balance_percent: u8,
    /// What free pages are kept apart by.
    pub mobility: Mobility,
    /// Who decides the low and high watermarks.
    pub watermarks: Watermarks,
    /// The rules of `watermarks = "auto"`.
    pub auto: AutoWatermarks,
    /// The watermarks of `watermarks = "learned"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<WatermarkProfile>,
}

impl Policy {
    /// linux-3.0 (July 2011): the vanilla kernel of *writeback-from-reclaim*.
    pub fn linux_3_0() -> Self {
        Self {
            name: "linux-3.0".into(),
            dirty_limits: DirtyLimits::Global,
            direct_writeback: ReclaimWriteback::Always,
            kswapd_writeback: ReclaimWriteback::Always,
            kswapd_writeback_priority: 9,
            reclaim_throttle: ReclaimThrottle::None,
            immediate_reclaim: false,
            reclaim_flush: ReclaimFlush::None,
            pressure_expiry: false,
            flusher_slice: FlusherSlice::Shared,
            dirty_exceeded: DirtyExceeded::OwnLimit,
            dirty_throttle: DirtyThrottle::Write,
            dirtyable: Dirtyable::Reclaimable,
            scan_balance: ScanBalance::Fractions,
            scan_stop: ScanStop::AtOnce,
            references: References::Twice,
            mark_accessed: MarkAccessed::Listed,
            workingset: false,
            fair_zones: FairZones::Off,
            dirty_check: DirtyCheck::Fresh,
            kswapd_loop: KswapdLoop::Restart,
            kswapd_wake: KswapdWake::Low,
            lower_zones: LowerZones::Gap,
            hopeless_zones: HopelessZones::Marked,
            lru: LruScope::Zone,
            emergency_throttle: false,
            watermark_slip: true,
            shrinker_core: ShrinkerCore::Global,
            inode_reclaim: InodeReclaim::Blocking,
            oom_retries: 0,
            eviction: Eviction::Linux,
            wakeup_trace: WakeupTrace::Asleep,
            balance_gap: BalanceGap::OnePercent,
            kswapd_slab: KswapdSlab::ShrunkZones,
            small_scan: SmallScan::Force,
            free_snapshot: FreeSnapshot::Kswapd,
            order_balance_percent: 25,
            mobility: Mobility::None,
            watermarks: Watermarks::Sysctl,
            auto: AutoWatermarks::default(),
            profile: None,
        }
    }

    /// linux-2.6.37 (January 2011): the kernel of *tunable-watermarks*. Throttling, of reclaimers and
    /// of dirtiers, is that of 3.0.
    pub fn linux_2_6_37() -> Self {
        Self {
            name: "linux-2.6.37".into(),
            wakeup_trace: WakeupTrace::Always,
            balance_gap: BalanceGap::EightTimesHigh,
            kswapd_slab: KswapdSlab::EveryZone,
            small_scan: SmallScan::Save,
            free_snapshot: FreeSnapshot::WhileAwake,
            watermark_slip: false,
            order_balance_percent: 100,
            ..Self::linux_3_0()
        }
    }

    /// linux-3.1 (October 2011): as 3.0 with the per-inode flusher slice and a device's mark cleared
    /// later.
    pub fn linux_3_1() -> Self {
        Self {
            name: "linux-3.1".into(),
            shrinker_core: ShrinkerCore::Batched,
            flusher_slice: FlusherSlice::PerInode,
            dirty_exceeded: DirtyExceeded::LowestLimit,
            ..Self::linux_3_0()
        }
    }

    /// linux-3.16 (August 2014): the vanilla kernel of *sequential-read*.
    pub fn linux_3_16() -> Self {
        Self {
            name: "linux-3.16".into(),
            dirty_limits: DirtyLimits::PerZone,
            direct_writeback: ReclaimWriteback::Never,
            kswapd_writeback: ReclaimWriteback::TailDirty,
            reclaim_throttle: ReclaimThrottle::ZoneFlags,
            immediate_reclaim: true,
            dirty_throttle: DirtyThrottle::Sleep,
            dirtyable: Dirtyable::FreeAndFile,
            scan_balance: ScanBalance::FileFirst,
            scan_stop: ScanStop::Proportional,
            references: References::TwiceOrShared,
            mark_accessed: MarkAccessed::InBatch,
            workingset: true,
            fair_zones: FairZones::Batch,
            kswapd_loop: KswapdLoop::Rounds,
            kswapd_wake: KswapdWake::High,
            hopeless_zones: HopelessZones::Computed,
            emergency_throttle: true,
            watermark_slip: false,
            shrinker_core: ShrinkerCore::PerNode,
            ..Self::linux_3_1()
        }
    }

    /// linux-4.9 (December 2016): the vanilla kernel of *xfs-inode-reclaim*. Nodes have the lists, so
    /// nothing of the fair zones and of the lower zones' balance is left.
    pub fn linux_4_9() -> Self {
        Self {
            name: "linux-4.9".into(),
            lru: LruScope::Node,
            oom_retries: 16,
            fair_zones: FairZones::Off,
            dirty_check: DirtyCheck::Cached,
            ..Self::linux_3_16()
        }
    }

    /// Every preset, by the name an experiment uses.
    pub fn preset(name: &str) -> Option<Self> {
        Some(match name {
            "linux-2.6.37" => Self::linux_2_6_37(),
            "linux-3.0" => Self::linux_3_0(),
            "linux-3.1" => Self::linux_3_1(),
            "linux-3.16" => Self::linux_3_16(),
            "linux-4.9" => Self::linux_4_9(),
            _ => return None,
        })
    }

    /// The names that [`Policy::preset`] knows.
    pub const PRESETS: &'static [&'static str] = &[
        "linux-2.6.37",
        "linux-3.0",
        "linux-3.1",
        "linux-3.16",
        "linux-4.9",
    ];

    /// The same policy under another name.
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }
}
