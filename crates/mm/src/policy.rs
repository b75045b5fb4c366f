//! Policies are data: every behaviour that the published threads argue about is one named switch.
//!
//! A preset names a kernel version and is nothing but a set of switches. The engine never asks for
//! a version; it asks for a switch.

pub use crate::auto::{AutoWatermarks, Watermarks};
pub use crate::profile::{ProfileZone, WatermarkProfile};
use evict::registry;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;

/// Who limits dirty pages, and at which granularity (reference 02 §5).
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

/// When page reclaim writes a dirty *file* page itself (reference 03 §9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReclaimWriteback {
    /// linux-3.0: every dirty file page at the tail is handed to its filesystem.
    Always,
    /// *writeback-from-reclaim* 5: only at a scan priority below `kswapd_writeback_priority`.
    InTrouble,
    /// *writeback-from-reclaim* 1 (direct reclaim) and 8 (kswapd).
    Never,
}

/// What throttles a reclaimer after a batch (reference 03 §9, patch 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReclaimThrottle {
    /// linux-3.0: only the priority loop waits.
    None,
    /// As posted: too many *dirty* pages for the priority.
    Dirty,
    /// As merged in 3.2: too many pages under *writeback* for the priority.
    Writeback,
}

/// Experimental: whose pages reclaim asks the flusher for when it meets a dirty file page that it may
/// not write. No kernel of the series has it; the discussion names it as the condition for never
/// writing from kswapd (reference 03 §9, "author's evidence").
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

/// How a flusher divides its work over the inodes it visits (reference 04 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlusherSlice {
    /// linux-3.0: 1024 pages shared by the inodes visited; the queue is refilled on every slice.
    Shared,
    /// linux-3.1: about half a second of I/O per inode; refilled only when empty.
    PerInode,
}

/// When a device stops being marked as over its limit, which makes dirtiers look at the limits every
/// 8 pages and not every `ratelimit` pages (reference 04 §4 leaves the clearing open).
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

/// When a wake-up of kswapd is traced (reference 02 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WakeupTrace {
    /// linux-2.6.38 and later: only a kswapd that sleeps is woken, and that is traced.
    Asleep,
    /// linux-2.6.37: before testing whether it sleeps. Each allocation that finds its zones below the
    /// low watermark is an event, and one walk over several such zones is several.
    Always,
}

/// How far above its high watermark kswapd shrinks a zone while it works for another one (reference
/// 03 §8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BalanceGap {
    /// linux-2.6.39 and later: by the zone's low watermark or 1 % of it, whichever is less.
    OnePercent,
    /// linux-2.6.37: up to eight times the high watermark.
    EightTimesHigh,
}

/// For which zones of a pass kswapd calls the shrinkers (reference 03 §8).
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

/// Which watermark tests add up the per-CPU differences of the free count (reference 01 §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FreeSnapshot {
    /// linux-2.6.38 and later: kswapd's. Thresholds are small while it is awake.
    Kswapd,
    /// linux-2.6.37: everybody's while kswapd is awake, and nobody's while it sleeps. Thresholds stay
    /// as they are.
    WhileAwake,
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
    /// linux-3.0's slip of two pages in the watermark test (reference 01 §7); 2.6.37 has none.
    pub watermark_slip: bool,
    /// For orders above 0 kswapd takes a node for balanced once zones with so many percent of its
    /// pages are (2.6.38 and later: 25; 2.6.37: 100; 1..=100).
    pub order_balance_percent: u8,
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
            eviction: Eviction::Linux,
            wakeup_trace: WakeupTrace::Asleep,
            balance_gap: BalanceGap::OnePercent,
            kswapd_slab: KswapdSlab::ShrunkZones,
            small_scan: SmallScan::Force,
            free_snapshot: FreeSnapshot::Kswapd,
            watermark_slip: true,
            order_balance_percent: 25,
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
            flusher_slice: FlusherSlice::PerInode,
            dirty_exceeded: DirtyExceeded::LowestLimit,
            ..Self::linux_3_0()
        }
    }

    /// Every preset, by the name an experiment uses.
    pub fn preset(name: &str) -> Option<Self> {
        Some(match name {
            "linux-2.6.37" => Self::linux_2_6_37(),
            "linux-3.0" => Self::linux_3_0(),
            "linux-3.1" => Self::linux_3_1(),
            _ => return None,
        })
    }

    /// The names that [`Policy::preset`] knows.
    pub const PRESETS: &'static [&'static str] = &["linux-2.6.37", "linux-3.0", "linux-3.1"];

    /// The same policy under another name.
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }
}
