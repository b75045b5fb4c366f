//! The queues that engine tasks wait on, in the world's numbering.

use crate::world::{Class, WaitQueue};

/// Returns the queue of tasks that wait for the end of congestion of a class.
pub fn congestion(class: Class) -> WaitQueue {
    WaitQueue(class as u32)
}
/// The range of the queues of pages.
pub const PAGES: std::ops::Range<u32> = 2..66;
/// Returns the queue, one of 64 by hash, of tasks that wait for a page's writeback or lock.
pub fn page(pfn: u32) -> WaitQueue {
    WaitQueue(PAGES.start + pfn % (PAGES.end - PAGES.start))
}
/// Returns the queue of a node's kswapd.
pub fn kswapd(node: u32) -> WaitQueue {
    WaitQueue(66 + node)
}
/// Returns the queue of a bdi's flusher; `nodes` is the engine's number of nodes.
pub fn flusher(nodes: u32, bdi: u32) -> WaitQueue {
    WaitQueue(66 + nodes + bdi)
}
/// Returns the queue of tasks throttled until a node's kswapd has freed part of the emergency
/// reserves; `nodes` and `bdis` are the engine's numbers of them.
pub fn emergency(nodes: u32, bdis: u32, node: u32) -> WaitQueue {
    WaitQueue(66 + nodes + bdis + node)
}
/// Returns the number of the first queue about inodes, behind those of classes, pages, nodes'
/// kswapds, flushers and reserves. `nodes`: the engine's number of nodes.
fn inodes(config: &crate::Config, nodes: u32) -> u32 {
    66 + 2 * nodes + config.max_bdis
}
/// Returns the queue, one of 64 by hash, of tasks that wait for an inode's state.
pub fn inode(config: &crate::Config, nodes: u32, ino: u32) -> WaitQueue {
    WaitQueue(inodes(config, nodes) + ino % 64)
}
/// The number of queues of an XFS ([`xfs`]).
const OF_XFS: u32 = 5;
/// Returns a queue of the XFS `sb`: tasks that wait for its log (`nth` 0), its pusher (1), its
/// background reclaimer (2), the worker that writes its log (3), or committers that wait for that
/// worker (4). `nodes`: the engine's number of nodes.
pub fn xfs(config: &crate::Config, nodes: u32, sb: u32, nth: u32) -> WaitQueue {
    debug_assert!(nth < OF_XFS, "queue {nth} of filesystem {sb}");
    WaitQueue(inodes(config, nodes) + 64 + OF_XFS * sb + nth)
}
/// Returns the queue of tasks that wait for the inodes of an allocation group.
pub fn ag(config: &crate::Config, nodes: u32, ag: u32) -> WaitQueue {
    WaitQueue(inodes(config, nodes) + 64 + OF_XFS * config.max_supers + ag)
}
/// Returns the queue of a node's reclaimers that wait until some pages are written.
pub fn throttled(config: &crate::Config, nodes: u32, node: u32) -> WaitQueue {
    WaitQueue(ag(config, nodes, config.max_ags).0 + node)
}
/// Returns the queue of tasks that wait for a bio of the pool that swap writes use.
pub fn swap_bios(config: &crate::Config, nodes: u32) -> WaitQueue {
    throttled(config, nodes, nodes)
}
/// Returns the queue of a node's direct reclaimers that wait while too many of its pages are
/// isolated.
pub fn isolated(config: &crate::Config, nodes: u32, node: u32) -> WaitQueue {
    WaitQueue(swap_bios(config, nodes).0 + 1 + node)
}
/// Returns the queue of a node's direct reclaimers that made no progress.
pub fn no_progress(config: &crate::Config, nodes: u32, node: u32) -> WaitQueue {
    WaitQueue(isolated(config, nodes, nodes).0 + node)
}
/// Returns the queue of the worker that vmpressure wakes. No task waits for the end of congestion
/// of sync requests, so the worker uses that queue, and all others keep their numbers.
pub fn pressure() -> WaitQueue {
    congestion(Class::Sync)
}
