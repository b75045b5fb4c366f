//! Zones, nodes and fallback lists (docs/reference/memory-model.md#zones and
//! docs/reference/memory-model.md#zonelists).

use crate::machine::{ZONE_TYPES, ZoneInfo, ZoneType};
use crate::memory::frame::flag;
use crate::watch::vmstat::ZoneStat;
use crate::world::{ShortLock, Word32, Word64, World};

/// The five LRU lists of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Lru {
    /// Anonymous, not recently used.
    InactiveAnon,
    /// Anonymous, in use.
    ActiveAnon,
    /// Page cache, not recently used.
    InactiveFile,
    /// Page cache, in use.
    ActiveFile,
    /// Never reclaimed.
    Unevictable,
}

/// Number of LRU lists.
pub const LRU_LISTS: usize = 5;

impl Lru {
    /// Every list, in the order of the numbers.
    pub const ALL: [Self; LRU_LISTS] = [
        Self::InactiveAnon,
        Self::ActiveAnon,
        Self::InactiveFile,
        Self::ActiveFile,
        Self::Unevictable,
    ];

    /// Returns the LRU list that a page with these flags belongs on.
    #[inline(always)]
    pub fn of(flags: u32) -> Self {
        if flags & flag::UNEVICTABLE != 0 {
            return Self::Unevictable;
        }
        match (flags & flag::SWAPBACKED != 0, flags & flag::ACTIVE != 0) {
            (true, false) => Self::InactiveAnon,
            (true, true) => Self::ActiveAnon,
            (false, false) => Self::InactiveFile,
            (false, true) => Self::ActiveFile,
        }
    }

    /// Returns true if the list holds page cache, not anonymous pages; as a number (1 or 0), the
    /// index of the balance statistics.
    #[inline(always)]
    pub fn is_file(self) -> bool {
        matches!(self, Self::InactiveFile | Self::ActiveFile)
    }

    /// Returns true for an active list.
    #[inline(always)]
    pub fn is_active(self) -> bool {
        matches!(self, Self::ActiveAnon | Self::ActiveFile)
    }

    /// Returns the zone counter that holds the list's size.
    #[inline(always)]
    pub(crate) fn size_item(self) -> ZoneStat {
        match self {
            Self::InactiveAnon => ZoneStat::NrInactiveAnon,
            Self::ActiveAnon => ZoneStat::NrActiveAnon,
            Self::InactiveFile => ZoneStat::NrInactiveFile,
            Self::ActiveFile => ZoneStat::NrActiveFile,
            Self::Unevictable => ZoneStat::NrUnevictable,
        }
    }
}

/// A watermark (docs/reference/memory-model.md#watermarks).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mark {
    /// Below this mark only special requests get pages.
    Min,
    /// Below this mark kswapd is woken.
    Low,
    /// Above this mark kswapd stops.
    High,
}

/// Zone flag: reclaim met a batch whose dirty pages were all on congested devices.
pub(crate) const ZONE_CONGESTED: u32 = 1;
/// Zone flag: a task has locked the zone for an OOM kill.
pub(crate) const ZONE_OOM_LOCKED: u32 = 2;
/// Zone flag: a whole batch of the tail was dirty and not under writeback.
pub(crate) const ZONE_TAIL_DIRTY: u32 = 4;
/// Zone flag: a whole batch of the tail was under writeback.
pub(crate) const ZONE_WRITEBACK: u32 = 8;
/// Zone flag: the zone's fair batch is used up (*sequential-read* 4).
pub(crate) const ZONE_FAIR_DEPLETED: u32 = 16;
/// Zone flag: the zone's watermarks were boosted and kswapd was not woken for it yet.
pub(crate) const ZONE_BOOSTED_WATERMARK: u32 = 32;
/// Zone flag: an allocation found no more free pages than the high watermark, and no free since
/// then more.
pub(crate) const ZONE_BELOW_HIGH: u32 = 64;
/// Zone flag: kswapd is reclaiming the zone.
pub(crate) const ZONE_RECLAIM_ACTIVE: u32 = 128;

/// A gap after which the next field begins a new cache line.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct CacheLine;

/// Bytes of a cache line.
pub const CACHE_LINE: usize = 64;

/// Makes the zone struct twice from the same fields: ordered by which code writes them, each group
/// on cache lines of its own, and packed, for the benchmark that compares the two.
macro_rules! zone {
    ($(#[$doc:meta])* $name:ident, $line:ty, $next:expr) => {
        $(#[$doc])*
        #[repr(C)]
        pub struct $name<W: World> {
            // Read by all tasks; written when a setting changes.
            /// The zone's node.
            pub node: u32,
            /// The zone's type.
            pub kind: ZoneType,
            /// Number of the first frame.
            pub start: u32,
            /// Number of frames.
            pub size: u32,
            /// The first of the zone's buddy sentinels: 11, or 11 for each migrate type.
            pub(crate) free_area: u32,
            /// The first of the 5 LRU sentinels of the zone, or of its node.
            pub(crate) lru: u32,
            /// The zone whose words hold the LRU's lock and statistics: this one, or the first of
            /// its node.
            pub(crate) lru_home: u32,
            /// Pages that a per-CPU list takes or returns at once.
            pub(crate) pcp_batch: u32,
            /// Pages at which a per-CPU list returns a batch.
            pub(crate) pcp_high: u32,
            pub(crate) watermark: [W::U32; 3],
            /// Extra free pages for a request whose classzone is the index
            /// (docs/reference/memory-model.md#lowmem-reserves).
            pub(crate) lowmem_reserve: [W::U32; ZONE_TYPES],
            /// Pages that the zone keeps for its reserves and that are not dirtyable
            /// (docs/reference/memory-model.md#lowmem-reserves).
            pub(crate) dirty_balance_reserve: W::U32,
            /// The zone's dirty limit as of the last check that failed (*sequential-read* 5).
            pub(crate) dirty_limit_cached: W::U32,
            pub(crate) percpu_drift_mark: W::U32,
            pub(crate) normal_threshold: W::U32,
            pub(crate) pressure_threshold: W::U32,
            /// Flags `ZONE_*`; they change rarely and are read at each fair allocation.
            pub(crate) flags: W::U32,

            _allocator: $line,
            /// The lock of the buddy lists.
            pub(crate) lock: W::Lock,
            pub(crate) nr_free: [W::U32; crate::memory::buddy::ORDERS],
            pub(crate) all_unreclaimable: W::U32,
            /// Pages scanned since the last bulk of freed pages, which zeroes it.
            pub(crate) pages_scanned: W::U64,

            _reclaim: $line,
            /// The lock of the LRU lists and their statistics.
            pub(crate) lru_lock: W::Lock,
            pub(crate) recent_scanned: [W::U64; 2],
            pub(crate) recent_rotated: [W::U64; 2],
            /// Shares of scans that were too small to be scanned, by list (`small_scan = "save"`).
            pub(crate) saved_scan: [W::U32; crate::memory::zone::LRU_LISTS],
            /// The total of evictions and activations of file pages
            /// (docs/reference/reclaim.md#refaults).
            pub(crate) inactive_age: W::U64,

            _statistics: $line,
            /// Sum of the milliseconds that reclaimed file pages had been in the cache, and in
            /// `reclaimed_aged` their number, while pages are watched.
            pub(crate) reclaimed_age: W::U64,
            pub(crate) reclaimed_aged: W::U64,
            /// Requests that skipped compaction since it last failed, and in `compact_defer_shift`
            /// how often it failed in a row.
            pub(crate) compact_considered: W::U32,
            pub(crate) compact_defer_shift: W::U32,
            _end: $line,
        }

        impl<W: World> $name<W> {
            /// Makes a zone without pages. `lists`: its sentinels, the first one of the buddy lists
            /// and the first one of the LRU lists.
            pub fn new(info: &ZoneInfo, start: u32, lists: [u32; 2], batch: u32) -> Self {
                Self {
                    node: info.node,
                    kind: info.kind,
                    start,
                    size: info.size as u32,
                    free_area: lists[0],
                    lru: lists[1],
                    lru_home: 0,
                    pcp_batch: batch,
                    // Only the live cache has zones of under 96 pages; six batches would be most of
                    // such a zone.
                    pcp_high: (6 * batch).min((info.size as u32 / 16).max(1)),
                    watermark: bytemuck::Zeroable::zeroed(),
                    lowmem_reserve: bytemuck::Zeroable::zeroed(),
                    dirty_balance_reserve: bytemuck::Zeroable::zeroed(),
                    dirty_limit_cached: bytemuck::Zeroable::zeroed(),
                    percpu_drift_mark: bytemuck::Zeroable::zeroed(),
                    normal_threshold: bytemuck::Zeroable::zeroed(),
                    pressure_threshold: bytemuck::Zeroable::zeroed(),
                    flags: bytemuck::Zeroable::zeroed(),
                    _allocator: $next,
                    lock: W::Lock::default(),
                    nr_free: bytemuck::Zeroable::zeroed(),
                    all_unreclaimable: bytemuck::Zeroable::zeroed(),
                    pages_scanned: bytemuck::Zeroable::zeroed(),
                    _reclaim: $next,
                    lru_lock: W::Lock::default(),
                    recent_scanned: bytemuck::Zeroable::zeroed(),
                    recent_rotated: bytemuck::Zeroable::zeroed(),
                    saved_scan: bytemuck::Zeroable::zeroed(),
                    inactive_age: bytemuck::Zeroable::zeroed(),
                    _statistics: $next,
                    reclaimed_age: bytemuck::Zeroable::zeroed(),
                    reclaimed_aged: bytemuck::Zeroable::zeroed(),
                    compact_considered: bytemuck::Zeroable::zeroed(),
                    compact_defer_shift: bytemuck::Zeroable::zeroed(),
                    _end: $next,
                }
            }

            /// Accesses the zone's words as an allocation does: reads its marks, changes a buddy
            /// list's count.
            #[doc(hidden)]
            #[inline(always)]
            pub fn bench_allocate(&self) -> u64 {
                let mark = u64::from(self.watermark[Mark::Low as usize].get())
                    + u64::from(self.lowmem_reserve[2].get());
                self.lock.with(|| {
                    self.nr_free[0].fetch_add(1);
                });
                mark + u64::from(self.flags.get())
            }

            /// Accesses the zone's words as the isolation of a batch does.
            #[doc(hidden)]
            #[inline(always)]
            pub fn bench_reclaim(&self) {
                self.lru_lock.with(|| {
                    self.recent_scanned[1].fetch_add(32);
                    self.recent_rotated[1].fetch_add(1);
                });
                self.inactive_age.fetch_add(1);
            }
        }
    };
}

zone! {
    /// One zone. Sizes are pages. Fields are grouped by which code writes them, each group on cache
    /// lines of its own (*sequential-read* 2); the zone's counters are rows of `vmstat`, aligned as
    /// well.
    Zone, CacheLine, CacheLine
}

zone! {
    /// The same fields without the gaps, for the benchmark of the layout.
    #[doc(hidden)]
    PackedZone, (), ()
}

impl<W: World> Zone<W> {
    /// Fails to compile unless the layout is as the type's description says.
    pub(crate) const LAYOUT: () = {
        use std::mem::offset_of;
        assert!(offset_of!(Self, lock).is_multiple_of(CACHE_LINE));
        assert!(offset_of!(Self, lru_lock).is_multiple_of(CACHE_LINE));
        assert!(offset_of!(Self, reclaimed_age).is_multiple_of(CACHE_LINE));
        assert!(size_of::<Self>().is_multiple_of(CACHE_LINE));
        // No group reaches into the next one's cache lines.
        assert!(offset_of!(Self, flags) < offset_of!(Self, lock));
        assert!(offset_of!(Self, pages_scanned) < offset_of!(Self, lru_lock));
        assert!(offset_of!(Self, inactive_age) < offset_of!(Self, reclaimed_age));
    };
}

impl<W: World> Zone<W> {
    /// Returns a watermark in pages.
    #[inline(always)]
    pub fn mark(&self, mark: Mark) -> u64 {
        u64::from(self.watermark[mark as usize].get())
    }

    /// Returns the pages that the zone keeps from requests whose highest zone type is `classzone`,
    /// beside its watermarks.
    #[inline(always)]
    pub fn reserve(&self, classzone: usize) -> u64 {
        u64::from(self.lowmem_reserve[classzone].get())
    }

    /// Returns the pages of the zone that are never dirtyable.
    pub fn dirty_balance_reserve(&self) -> u64 {
        u64::from(self.dirty_balance_reserve.get())
    }

    /// Returns the number of free pages below which a check takes a snapshot; 0: never.
    pub fn percpu_drift_mark(&self) -> u64 {
        u64::from(self.percpu_drift_mark.get())
    }

    /// Returns the pages that a per-CPU list moves at once.
    pub fn pcp_batch(&self) -> u32 {
        self.pcp_batch
    }
}

/// The order in which a node's allocations fall back (docs/reference/memory-model.md#zonelists).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZonelistOrder {
    /// For each node, nearest first: its zones from high to low.
    Node,
    /// For each zone type from high to low: that zone of every node, nearest first.
    Zone,
}

/// Returns the order of fallback lists that 2.6.37 to 3.17 choose by default: by node if a node has
/// no Normal zone, or if low zones are absent or large compared with all memory or their node; else
/// by zone.
pub fn default_order(zones: &[ZoneInfo], nodes: u32) -> ZonelistOrder {
    let sum = |f: &dyn Fn(&ZoneInfo) -> bool| -> u64 {
        zones.iter().filter(|z| f(z)).map(|z| z.size).sum()
    };
    let low = |z: &ZoneInfo| z.kind < ZoneType::Normal;
    if (0..nodes).any(|n| sum(&|z| z.node == n && z.kind == ZoneType::Normal) == 0) {
        return ZonelistOrder::Node;
    }
    let total = sum(&|_| true);
    let low_total = sum(&low);
    if low_total == 0 || low_total > total / 2 {
        return ZonelistOrder::Node;
    }
    let average = total / u64::from(nodes + 1);
    for n in 0..nodes {
        let (size, below) = (sum(&|z| z.node == n), sum(&|z| z.node == n && low(z)));
        if size > average && below > size * 7 / 10 {
            return ZonelistOrder::Node;
        }
    }
    ZonelistOrder::Zone
}

/// Returns the fallback list of the node `local`: zone numbers in the order in which an allocation
/// tries them. Nodes rank by distance, the local one first, then the following ones in a ring
/// (equal distances).
pub fn zonelist(zones: &[ZoneInfo], nodes: u32, local: u32, order: ZonelistOrder) -> Vec<u16> {
    let ring: Vec<u32> = (0..nodes).map(|i| (local + i) % nodes).collect();
    let mut list = Vec::with_capacity(zones.len());
    let mut push = |node: u32, kind: usize| {
        if let Some(z) = zones
            .iter()
            .position(|z| z.node == node && z.kind.index() == kind && z.size > 0)
        {
            list.push(z as u16);
        }
    };
    match order {
        ZonelistOrder::Node => {
            for &n in &ring {
                (0..ZONE_TYPES).rev().for_each(|k| push(n, k));
            }
        }
        ZonelistOrder::Zone => {
            for k in (0..ZONE_TYPES).rev() {
                ring.iter().for_each(|&n| push(n, k));
            }
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn z(node: u32, kind: ZoneType, size: u64) -> ZoneInfo {
        ZoneInfo { node, kind, size }
    }

    #[test]
    fn one_node_falls_back_high_to_low() {
        let zones = [
            z(0, ZoneType::Dma, 3840),
            z(0, ZoneType::Dma32, 830_976),
            z(0, ZoneType::Normal, 1),
        ];
        for order in [ZonelistOrder::Node, ZonelistOrder::Zone] {
            assert_eq!(zonelist(&zones, 1, 0, order), [2, 1, 0]);
        }
    }

    #[test]
    fn fake_numa_below_4g_uses_node_order() {
        let mut zones = vec![z(0, ZoneType::Dma, 4000)];
        zones.extend((0..8).map(|n| z(n, ZoneType::Dma32, 128_000)));
        assert_eq!(default_order(&zones, 8), ZonelistOrder::Node);
        assert_eq!(zonelist(&zones, 8, 0, ZonelistOrder::Node)[..3], [1, 0, 2]);
        assert_eq!(zonelist(&zones, 8, 7, ZonelistOrder::Node)[..3], [8, 1, 0]);
    }

    #[test]
    fn large_equal_nodes_use_zone_order() {
        let zones = [
            z(0, ZoneType::Dma, 4000),
            z(0, ZoneType::Dma32, 700_000),
            z(0, ZoneType::Normal, 3_000_000),
            z(1, ZoneType::Normal, 4_000_000),
        ];
        assert_eq!(default_order(&zones, 2), ZonelistOrder::Zone);
        assert_eq!(zonelist(&zones, 2, 1, ZonelistOrder::Zone), [3, 2, 1, 0]);
    }
}
