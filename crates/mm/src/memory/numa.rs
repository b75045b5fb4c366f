//! Counters of where pages were allocated from on a machine of several nodes (Linux mm/vmstat.c,
//! `zone_statistics`; docs/reference/counters-and-traces.md#numa).
//!
//! Each allocation counts once, whatever its order, in each of two ways: by whether the zone that
//! served it is on the node of its preferred zone, and by whether it is on the node of the
//! requesting CPU. A machine of one node has no such counters.

use crate::Mm;
use crate::memory::gfp::Gfp;
use crate::world::{Word64, World};

/// A counter of a zone, in the order of /proc/vmstat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum NumaStat {
    /// Allocations that the zone served on the preferred node.
    Hit,
    /// Allocations that the zone served although another node was preferred.
    Miss,
    /// Allocations that preferred the zone and were served by another node.
    Foreign,
    /// Allocations that the zone served for a CPU of its node.
    Local,
    /// Allocations that the zone served for a CPU of another node.
    Other,
}

impl NumaStat {
    /// Every counter, in the order of /proc/vmstat.
    pub const ALL: [Self; 5] = [
        Self::Hit,
        Self::Miss,
        Self::Foreign,
        Self::Local,
        Self::Other,
    ];

    /// Returns the name in /proc/vmstat and /proc/zoneinfo.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hit => "numa_hit",
            Self::Miss => "numa_miss",
            Self::Foreign => "numa_foreign",
            Self::Local => "numa_local",
            Self::Other => "numa_other",
        }
    }
}

/// The counters of all zones; none on a machine of one node.
pub(crate) struct NumaStats<W: World>(Box<[[W::U64; NumaStat::ALL.len()]]>);

impl<W: World> NumaStats<W> {
    /// Makes the counters, all 0; none on a machine of one node.
    pub fn new(zones: usize, nodes: u32) -> Self {
        let counted = if nodes > 1 { zones } else { 0 };
        Self(bytemuck::zeroed_slice_box(counted))
    }
}

impl<W: World> Mm<W> {
    /// Counts `n` requests from `node` that zone `z` served, by whether that was the preferred node
    /// and the CPU's own.
    #[inline(always)]
    pub(crate) fn count_numa(&self, node: u32, gfp: Gfp, z: usize, n: u64) {
        if self.nodes.len() > 1 {
            self.zone_statistics(node, gfp, z, n);
        }
    }

    /// Does [`Self::count_numa`] on machines of several nodes; not inlined, to keep the path of
    /// others short.
    #[inline(never)]
    fn zone_statistics(&self, node: u32, gfp: Gfp, z: usize, n: u64) {
        let preferred = self.preferred_zone(node, gfp);
        // The nodes of the zone that served the requests and of the zone that they preferred.
        let [node, first] = [z, preferred].map(|z| self.zones[z].node);
        let served = &self.numa.0[z];
        if node == first {
            served[NumaStat::Hit as usize].fetch_add(n);
        } else {
            served[NumaStat::Miss as usize].fetch_add(n);
            self.numa.0[preferred][NumaStat::Foreign as usize].fetch_add(n);
        }
        let local = match node == self.config.cpu_nodes[self.world.cpu()] {
            true => NumaStat::Local,
            false => NumaStat::Other,
        };
        served[local as usize].fetch_add(n);
    }

    /// Returns a zone's count of allocations by where they were served; `None` on a machine of one
    /// node.
    pub fn numa_stat(&self, z: usize, what: NumaStat) -> Option<u64> {
        assert!(z < self.zones.len(), "zone {z} does not exist");
        self.numa.0.get(z).map(|zone| zone[what as usize].get())
    }

    /// Checks that each allocation counts once in each of the two ways (preferred node, CPU's
    /// node), and that each miss is foreign to another zone. Returns a text about the difference.
    pub(crate) fn check_numa(&self) -> Result<(), String> {
        let total = |what| self.numa_global(what).unwrap_or(0);
        let [hit, miss, foreign, local, other] = NumaStat::ALL.map(total);
        if miss != foreign || hit + miss != local + other {
            return Err(format!(
                "{hit} allocations on the node named first, {miss} elsewhere, {foreign} lost by it, {local} on the \
                 CPU's node, {other} elsewhere"
            ));
        }
        Ok(())
    }

    /// Returns the sum of a counter over all zones; `None` on a machine of one node.
    pub(crate) fn numa_global(&self, what: NumaStat) -> Option<u64> {
        (0..self.zones.len()).map(|z| self.numa_stat(z, what)).sum()
    }
}
