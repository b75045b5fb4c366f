//! The queues that engine tasks wait on, in the world's numbering.

use crate::world::{Class, WaitQueue};

/// Waiters of congestion, one queue a class.
pub fn congestion(class: Class) -> WaitQueue {
    WaitQueue(class as u32)
}
/// The queues of pages.
pub const PAGES: std::ops::Range<u32> = 2..66;
/// Waiters for any page's writeback or lock: 64 hashed queues.
pub fn page(pfn: u32) -> WaitQueue {
    WaitQueue(PAGES.start + pfn % (PAGES.end - PAGES.start))
}
/// A node's kswapd.
pub fn kswapd(node: u32) -> WaitQueue {
    WaitQueue(66 + node)
}
/// A bdi's flusher; `nodes` as in the engine.
pub fn flusher(nodes: u32, bdi: u32) -> WaitQueue {
    WaitQueue(66 + nodes + bdi)
}
/// Those who wait until a node's kswapd has freed part of the emergency reserves; `nodes` and
/// `bdis` as in the engine.
pub fn emergency(nodes: u32, bdis: u32, node: u32) -> WaitQueue {
    WaitQueue(66 + nodes + bdis + node)
}
/// The first queue about inodes.
fn inodes(config: &crate::Config, nodes: u32) -> u32 {
    66 + 2 * nodes + config.max_bdis
}
/// Waiters for an inode's state: 64 hashed queues.
pub fn inode(config: &crate::Config, nodes: u32, ino: u32) -> WaitQueue {
    WaitQueue(inodes(config, nodes) + ino % 64)
}
/// Queues of an XFS ([`xfs`]).
const OF_XFS: u32 = 5;
/// Waiters for an XFS's log (0), its pusher (1), its background reclaimer (2), the worker that writes its log (3), and
/// committers that wait for that (4).
pub fn xfs(config: &crate::Config, nodes: u32, sb: u32, nth: u32) -> WaitQueue {
    debug_assert!(nth < OF_XFS, "queue {nth} of filesystem {sb}");
    WaitQueue(inodes(config, nodes) + 64 + OF_XFS * sb + nth)
}
/// Waiters for the inodes of an allocation group.
pub fn ag(config: &crate::Config, nodes: u32, ag: u32) -> WaitQueue {
    WaitQueue(inodes(config, nodes) + 64 + OF_XFS * config.max_supers + ag)
}
/// Reclaimers of a node that wait until some pages are written.
pub fn throttled(config: &crate::Config, nodes: u32, node: u32) -> WaitQueue {
    WaitQueue(ag(config, nodes, config.max_ags).0 + node)
}
/// Those who wait for a bio of the pool that pages go to swap with.
pub fn swap_bios(config: &crate::Config, nodes: u32) -> WaitQueue {
    throttled(config, nodes, nodes)
}
/// Direct reclaimers of a node that wait while too many of its pages are isolated.
pub fn isolated(config: &crate::Config, nodes: u32, node: u32) -> WaitQueue {
    WaitQueue(swap_bios(config, nodes).0 + 1 + node)
}
/// Direct reclaimers of a node that made no progress.
pub fn no_progress(config: &crate::Config, nodes: u32, node: u32) -> WaitQueue {
    WaitQueue(isolated(config, nodes, nodes).0 + node)
}
/// The worker that is told of what was scanned. Nobody waits for an end of congestion of sync requests, so it has that
/// queue, and all others keep their numbers.
pub fn pressure() -> WaitQueue {
    congestion(Class::Sync)
}
