//! Nodes: a bank of zones with its own kswapd.

use crate::world::{Word32, World};
use crate::zone::{ZoneInfo, ZonelistOrder, zonelist};

/// One node.
pub struct Node<W: World> {
    /// Its zones' numbers, low to high.
    pub zones: Vec<u16>,
    /// The fallback list of allocations that start here.
    pub zonelist: Vec<u16>,
    /// Its size in pages.
    pub size: u64,
    /// kswapd sleeps (1) or works (0).
    pub(crate) kswapd_sleeping: W::U32,
    /// The largest order asked for since kswapd last took the request.
    pub(crate) kswapd_order: W::U32,
    /// The lowest classzone asked for since then.
    pub(crate) kswapd_classzone: W::U32,
}

impl<W: World> Node<W> {
    pub(crate) fn new(zones: &[ZoneInfo], nodes: u32, n: u32, order: ZonelistOrder) -> Self {
        let own: Vec<u16> = (0..zones.len())
            .filter(|&z| zones[z].node == n)
            .map(|z| z as u16)
            .collect();
        let node = Self {
            size: own.iter().map(|&z| zones[z as usize].size).sum(),
            zonelist: zonelist(zones, nodes, n, order),
            zones: own,
            kswapd_sleeping: bytemuck::Zeroable::zeroed(),
            kswapd_order: bytemuck::Zeroable::zeroed(),
            kswapd_classzone: bytemuck::Zeroable::zeroed(),
        };
        node.kswapd_classzone.set(3);
        node
    }
}
