//! Nodes: a bank of zones with its own kswapd.

use crate::memory::fair::FairLists;
#[cfg(doc)]
use crate::memory::zone::Lru;
use crate::memory::zone::{ZonelistOrder, zonelist};
use crate::memory::zonelist_cache::FullZones;
use crate::world::{ShortLock, Word32, World};
use crate::{ZONE_TYPES, ZoneInfo};

/// What a node's lists have cost, and which pages came back to them (`scan_balance = "cost"`).
pub(crate) struct Costs<W: World> {
    pub(crate) lock: W::Lock,
    /// Anonymous and file: pages written, 32 each, and pages looked at for nothing.
    pub(crate) cost: [W::U64; 2],
    /// Pages that were activated because they came back soon.
    pub(crate) activated: [W::U64; 2],
    /// The same when reclaim ended last, as it was known then.
    pub(crate) seen: [W::U64; 2],
    /// The four lists' pages when statistics were flushed last (`lru_stats = "flushed"`), in [`Lru`]'s order.
    pub(crate) flushed: [W::U64; 4],
    /// [`Self::activated`] then.
    pub(crate) flushed_activated: [W::U64; 2],
    /// Nanoseconds of that flush, at least 1; 0: there was none.
    pub(crate) flushed_at: W::U64,
}

impl<W: World> Costs<W> {
    pub fn new() -> Self {
        Self {
            lock: W::Lock::default(),
            cost: bytemuck::Zeroable::zeroed(),
            activated: bytemuck::Zeroable::zeroed(),
            seen: bytemuck::Zeroable::zeroed(),
            flushed: bytemuck::Zeroable::zeroed(),
            flushed_activated: bytemuck::Zeroable::zeroed(),
            flushed_at: bytemuck::Zeroable::zeroed(),
        }
    }
}

/// One node.
pub struct Node<W: World> {
    /// Its zones' numbers, low to high.
    pub zones: Vec<u16>,
    /// The fallback lists of allocations that start here, by the highest zone type allowed.
    pub zonelists: [Vec<u16>; ZONE_TYPES],
    /// Whether allocations from those lists are fair (`fair_zones = "as-meant"`).
    pub(crate) fair: FairLists,
    /// Which zones of those lists gave nothing a moment ago (`zonelist_cache`).
    pub(crate) full_zones: FullZones<W>,
    /// Its size in pages.
    pub size: u64,
    /// kswapd sleeps (1) or works (0).
    pub(crate) kswapd_sleeping: W::U32,
    /// Runs of kswapd in a row that freed nothing (`hopeless_zones = "failures"`).
    pub(crate) kswapd_failures: W::U32,
    /// How far kswapd's priority fell over dirty file pages (`pressure_expiry`); 0: no pressure.
    pub(crate) dirty_pressure: W::U32,
    /// The largest order asked for since kswapd last took the request.
    pub(crate) kswapd_order: W::U32,
    /// The lowest classzone asked for since then, or the highest (`kswapd_zone`).
    pub(crate) kswapd_classzone: W::U32,
    /// Whether anything was asked for since then.
    kswapd_asked: W::U32,
    /// Reclaimers that wait until some pages are written (`reclaim_throttle = "reasons"`).
    pub(crate) throttled: W::U32,
    /// Pages written while there are any.
    pub(crate) throttled_written: W::U64,
    /// The same when the first of them began to wait.
    pub(crate) throttled_since: W::U64,
    /// What its lists have cost (`scan_balance = "cost"`).
    pub(crate) costs: Costs<W>,
    /// Guards the request (order and classzone).
    lock: W::Lock,
}

impl<W: World> Node<W> {
    pub(crate) fn new(zones: &[ZoneInfo], nodes: u32, n: u32, order: ZonelistOrder) -> Self {
        let own: Vec<u16> = (0..zones.len())
            .filter(|&z| zones[z].node == n)
            .map(|z| z as u16)
            .collect();
        let zonelist = zonelist(zones, nodes, n, order);
        let zonelists: [Vec<u16>; ZONE_TYPES] = std::array::from_fn(|highest| {
            let mut list = zonelist.clone();
            list.retain(|&z| zones[usize::from(z)].kind.index() <= highest);
            list
        });
        let node = Self {
            fair: FairLists::of(zones, nodes, n, order),
            full_zones: FullZones::new(),
            size: own.iter().map(|&z| zones[z as usize].size).sum(),
            zonelists,
            zones: own,
            kswapd_sleeping: bytemuck::Zeroable::zeroed(),
            kswapd_failures: bytemuck::Zeroable::zeroed(),
            dirty_pressure: bytemuck::Zeroable::zeroed(),
            kswapd_order: bytemuck::Zeroable::zeroed(),
            kswapd_classzone: bytemuck::Zeroable::zeroed(),
            kswapd_asked: bytemuck::Zeroable::zeroed(),
            throttled: bytemuck::Zeroable::zeroed(),
            throttled_written: bytemuck::Zeroable::zeroed(),
            throttled_since: bytemuck::Zeroable::zeroed(),
            costs: Costs::new(),
            lock: W::Lock::default(),
        };
        node.kswapd_classzone.set(3);
        node
    }

    /// Adds to what is asked of kswapd.
    pub(crate) fn ask_kswapd(&self, order: u32, classzone: u32) {
        self.lock.with(|| {
            self.kswapd_order.set(self.kswapd_order.get().max(order));
            self.kswapd_classzone
                .set(self.kswapd_classzone.get().min(classzone));
        });
    }

    /// As [`Self::ask_kswapd`], where the highest of the zones asked for counts (4.8).
    pub(crate) fn ask_kswapd_up_to(&self, order: u32, classzone: u32) {
        self.lock.with(|| {
            self.kswapd_order.set(self.kswapd_order.get().max(order));
            let asked = match self.kswapd_asked.get() {
                0 => classzone,
                _ => self.kswapd_classzone.get().max(classzone),
            };
            self.kswapd_asked.set(1);
            self.kswapd_classzone.set(asked);
        });
    }

    /// What is asked of kswapd: order, and classzone if anybody has asked.
    pub(crate) fn request(&self) -> (u32, Option<usize>) {
        self.lock.with(|| {
            let classzone = self.kswapd_classzone.get() as usize;
            let asked = self.kswapd_asked.get() != 0;
            (self.kswapd_order.get(), asked.then_some(classzone))
        })
    }

    /// Takes what was asked of kswapd: order and classzone.
    pub(crate) fn take_request(&self) -> (u32, usize) {
        self.lock.with(|| {
            let asked = (
                self.kswapd_order.get(),
                self.kswapd_classzone.get() as usize,
            );
            self.kswapd_order.set(0);
            self.kswapd_classzone.set(3);
            self.kswapd_asked.set(0);
            asked
        })
    }
}
