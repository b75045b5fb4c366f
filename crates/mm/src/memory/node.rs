//! Nodes: a bank of zones with its own kswapd.

use crate::memory::fair::FairLists;
#[cfg(doc)]
use crate::memory::zone::Lru;
use crate::memory::zone::{self, ZonelistOrder, zonelist};
use crate::memory::zonelist_cache::FullZones;
use crate::world::{ShortLock, Word32, World};
use crate::{ZONE_TYPES, ZoneInfo};

/// The costs of a node's lists, and refaults to them (`scan_balance = "cost"`).
pub(crate) struct Costs<W: World> {
    pub(crate) lock: W::Lock,
    /// By anonymous and file: pages written, 32 each, and pages scanned in vain.
    pub(crate) cost: [W::U64; 2],
    /// By anonymous and file: pages that were activated because they refaulted soon.
    pub(crate) activated: [W::U64; 2],
    /// The value of `activated` when reclaim last ended, as known then.
    pub(crate) seen: [W::U64; 2],
    /// The pages of the four lists at the last flush of statistics (`lru_stats = "flushed"`), in
    /// [`Lru`]'s order.
    pub(crate) flushed: [W::U64; 4],
    /// The value of [`Self::activated`] at that flush.
    pub(crate) flushed_activated: [W::U64; 2],
    /// The time of that flush in nanoseconds, at least 1; 0: there was none.
    pub(crate) flushed_at: W::U64,
}

impl<W: World> Costs<W> {
    /// Makes the record of a node without costs.
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
    /// The numbers of the node's zones, low to high.
    pub zones: Vec<u16>,
    /// The fallback lists of allocations that start at this node, by the highest zone type allowed.
    pub zonelists: [Vec<u16>; ZONE_TYPES],
    /// Whether allocations from those lists are fair (`fair_zones = "as-meant"`).
    pub(crate) fair: FairLists,
    /// Which zones of those lists recently gave nothing (`zonelist_cache`).
    pub(crate) full_zones: FullZones<W>,
    /// The node's size in pages.
    pub size: u64,
    /// 1 while kswapd sleeps, 0 while it works.
    pub(crate) kswapd_sleeping: W::U32,
    /// Consecutive runs of kswapd that freed nothing (`hopeless_zones = "failures"`).
    pub(crate) kswapd_failures: W::U32,
    /// How far kswapd's priority fell over dirty file pages (`pressure_expiry`); 0: no pressure.
    pub(crate) dirty_pressure: W::U32,
    /// The largest order requested of kswapd since it last took the request.
    pub(crate) kswapd_order: W::U32,
    /// The lowest classzone requested since then, or the highest (`kswapd_zone`).
    pub(crate) kswapd_classzone: W::U32,
    /// 1 if anything was requested since then; kept by [`Self::ask_kswapd_up_to`] only.
    kswapd_asked: W::U32,
    /// The number of reclaimers that wait until some pages are written
    /// (`reclaim_throttle = "reasons"`).
    pub(crate) throttled: W::U32,
    /// Pages written while such reclaimers wait.
    pub(crate) throttled_written: W::U64,
    /// The value of `throttled_written` when the first of them began to wait.
    pub(crate) throttled_since: W::U64,
    /// The costs of the node's lists (`scan_balance = "cost"`).
    pub(crate) costs: Costs<W>,
    /// Guards the request to kswapd (order and classzone).
    lock: W::Lock,
}

/// Makes a machine's `n` nodes, with their fallback lists in the default order of zones.
pub(crate) fn nodes<W: World>(zones: &[ZoneInfo], n: u32) -> Box<[Node<W>]> {
    let order = zone::default_order(zones, n);
    (0..n)
        .map(|node| Node::new(zones, n, node, order))
        .collect()
}

impl<W: World> Node<W> {
    /// Makes node `n` of `nodes`, with its zones and its fallback lists in the given order of
    /// zones.
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
        // The highest zone type, which stands for no request (the lowest one requested counts).
        node.kswapd_classzone.set(3);
        node
    }

    /// Adds a request of 2^`order` pages up to zone type `classzone` to what kswapd is to do; the
    /// largest order and the lowest classzone count.
    pub(crate) fn ask_kswapd(&self, order: u32, classzone: u32) {
        self.lock.with(|| {
            self.kswapd_order.set(self.kswapd_order.get().max(order));
            self.kswapd_classzone
                .set(self.kswapd_classzone.get().min(classzone));
        });
    }

    /// Adds a request to kswapd as [`Self::ask_kswapd`] does, but the highest classzone counts
    /// (4.8).
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

    /// Returns the request to kswapd: the order, and the index of the classzone, `None` if nothing
    /// was requested by [`Self::ask_kswapd_up_to`].
    pub(crate) fn request(&self) -> (u32, Option<usize>) {
        self.lock.with(|| {
            let classzone = self.kswapd_classzone.get() as usize;
            let asked = self.kswapd_asked.get() != 0;
            (self.kswapd_order.get(), asked.then_some(classzone))
        })
    }

    /// Takes the request to kswapd, so that the next one starts anew. Returns the order and the
    /// index of the classzone.
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
