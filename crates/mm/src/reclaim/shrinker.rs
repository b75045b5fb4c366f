//! Shrinkers (docs/reference/shrinkers-and-xfs.md#shrinkers and
//! docs/reference/shrinkers-and-xfs.md#superblocks): reclaim asks every cache of objects to free
//! the same share of its objects as it scanned of the LRU lists.
//!
//! One implementation serves all kernels; the switch [`ShrinkerCore`] selects what differs.
//! Registrations happen before tasks run, so the list's lock is never contended, and neither is a
//! superblock's.

use crate::Mm;
use crate::memory::gfp::Gfp;
use crate::memory::zone::Lru;
use crate::policy::ShrinkerCore;
use crate::reclaim::scan::{SWAP_CLUSTER_MAX, ScanControl};
use crate::watch::vmstat::VmEvent;
use crate::world::event::Event;
use crate::world::{Audience, Cost, Word32, Word64, World};

/// The cost of making an object again, in disk seeks (the kernel's `DEFAULT_SEEKS`).
const DEFAULT_SEEKS: u64 = 2;
/// Objects scanned at a time, unless a shrinker has a batch of its own.
const SHRINK_BATCH: u64 = 128;
/// Objects scanned at a time by superblocks.
const SUPER_BATCH: u64 = 1024;

/// A shrinker's answer: objects freed, or that it cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shrunk {
    Freed(u64),
    /// `SHRINK_STOP`; 3.0: -1.
    Stop,
}

/// A registered cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shrinker {
    /// Tree nodes that hold shadows only.
    Shadows,
    /// 3.0: the dentries of all filesystems.
    Dentries,
    /// 3.0: the VFS inodes of all filesystems.
    Inodes,
    /// 3.0: the reclaimable inodes of an XFS.
    XfsInodes(u32),
    /// 3.1: dentries, VFS inodes and the filesystem's own objects of a superblock.
    Super(u32),
    /// Buffers of an XFS filesystem's blocks.
    XfsBuffers(u32),
    /// A cache of the world ([`crate::world::Storage::shrinkers`]).
    World(u32),
}

impl Shrinker {
    /// Returns the kernel's name of the shrinker's function.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shadows => "scan_shadow_nodes",
            Self::Dentries => "shrink_dcache_memory",
            Self::Inodes => "shrink_icache_memory",
            Self::XfsInodes(_) => "xfs_reclaim_inode_shrink",
            Self::Super(_) => "super_cache_scan",
            Self::XfsBuffers(_) => "xfs_buftarg_shrink_scan",
            Self::World(_) => "world_cache_scan",
        }
    }

    /// Returns how many objects the shrinker scans at a time, in this form of the shrinker core.
    fn batch(self, core: ShrinkerCore) -> u64 {
        match self {
            Self::Super(_) if core != ShrinkerCore::Global => SUPER_BATCH,
            _ => SHRINK_BATCH,
        }
    }
}

/// The pressure that one call of every shrinker is to answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlabPressure {
    /// The node whose objects are wanted.
    pub nid: u32,
    /// LRU pages scanned by this step of reclaim.
    pub scanned: u64,
    /// LRU pages that this step could have scanned.
    pub lru: u64,
}

/// Returns the number of a cache's objects asked for now (its share of the `pressure`), and the
/// number to scan in this call: those and the `deferred` ones of earlier calls, limited by the
/// `freeable` ones (docs/reference/shrinkers-and-xfs.md#shrinkers and
/// docs/reference/shrinkers-and-xfs.md#eras). `seeks`: the cost of making an object again;
/// `priority`: reclaim's scan priority.
fn total_scan(
    core: ShrinkerCore,
    seeks: u64,
    (deferred, freeable): (u64, u64),
    pressure: &SlabPressure,
    priority: u8,
) -> (u64, u64) {
    if core == ShrinkerCore::ByPriority {
        let delta = 4 * (freeable >> priority) / seeks;
        let total = (deferred >> priority) + delta;
        return (delta, total.min(2 * freeable));
    }
    let scanned = match pressure.scanned {
        0 => SWAP_CLUSTER_MAX,
        n => n,
    };
    // The same share of the objects as reclaim scanned of the LRU pages, times 4 / `seeks`.
    let delta = 4 * scanned / seeks * freeable / (pressure.lru + 1);
    let mut total = deferred.saturating_add(delta);
    if core != ShrinkerCore::Global && delta < freeable / 4 {
        total = total.min(freeable / 2);
    }
    (delta, total.min(2 * freeable))
}

impl<W: World> Mm<W> {
    /// Returns the shrinker with index `i` in the order in which reclaim calls them: that of shadow
    /// nodes, those of the filesystems, those of XFS's buffers, those of the world; `None` after
    /// the last.
    fn shrinker_at(&self, i: usize) -> Option<Shrinker> {
        let supers = self.super_count();
        if i == 0 {
            return Some(Shrinker::Shadows);
        }
        let i = i as u32 - 1;
        let of_files = match self.policy.shrinker_core {
            ShrinkerCore::Global if supers == 0 => 0,
            ShrinkerCore::Global => 2 + supers,
            _ => supers,
        };
        let of_buffers = if self.counts_buffers() { supers } else { 0 };
        if let Some(i) = i.checked_sub(of_files)
            && i < of_buffers
        {
            return Some(Shrinker::XfsBuffers(i));
        }
        if let Some(i) = i.checked_sub(of_files + of_buffers) {
            return (i < self.world.shrinkers()).then_some(Shrinker::World(i));
        }
        Some(match (self.policy.shrinker_core, i) {
            (ShrinkerCore::Global, 0) => Shrinker::Dentries,
            (ShrinkerCore::Global, 1) => Shrinker::Inodes,
            (ShrinkerCore::Global, i) => Shrinker::XfsInodes(i - 2),
            (_, i) => Shrinker::Super(i),
        })
    }

    /// Returns the largest number of shrinkers that `supers` filesystems and the world register.
    pub(crate) fn shrinker_slots(supers: u32) -> usize {
        3 + 2 * supers as usize + W::SHRINKERS
    }

    /// Adds `pages` pages of the world's own that one of its shrinkers gave back, called by the
    /// calling task, to those that the task has reclaimed (`mm_account_reclaimed_pages`).
    pub fn mm_account_reclaimed_pages(&self, pages: u32) {
        debug_assert!(pages > 0, "nothing was given back");
        self.current().reclaimed_slab.fetch_add(pages);
    }

    /// Returns a shrinker's cost of making an object again, in seeks, and the number of objects
    /// that it scans at a time.
    fn seeks_and_batch(&self, shrinker: Shrinker) -> (u64, u64) {
        match shrinker {
            Shrinker::World(i) => self.world.seeks_and_batch(i),
            other => (DEFAULT_SEEKS, other.batch(self.policy.shrinker_core)),
        }
    }

    /// Returns true if the objects of caches and the numbers of deferred ones are kept by node.
    pub(crate) fn shrinkers_by_node(&self) -> bool {
        matches!(
            self.policy.shrinker_core,
            ShrinkerCore::PerNode | ShrinkerCore::ByPriority
        )
    }

    /// Asks every cache for objects on behalf of a direct reclaimer, on each node that has zones
    /// which its request from `node` may use. `lru`: LRU pages that it could have scanned. Pages
    /// that become free are added to `sc`.
    pub(crate) async fn shrink_slab_for(
        &self,
        node: u32,
        gfp: Gfp,
        lru: u64,
        sc: &mut ScanControl,
    ) {
        let scanned = sc.nr_scanned;
        if !self.shrinkers_by_node() {
            let pressure = SlabPressure {
                nid: 0,
                scanned,
                lru,
            };
            self.shrink_slab(pressure, sc).await;
            return;
        }
        for nid in 0..self.nodes.len() as u32 {
            let zone = self
                .eligible(node, gfp)
                .find(|&z| self.zones[z].node == nid);
            if zone.is_some() {
                let pressure = SlabPressure { nid, scanned, lru };
                self.shrink_slab(pressure, sc).await;
            }
        }
    }

    /// Asks every cache to free objects of a node, its share of the `pressure`. Pages that become
    /// free are added to `sc.nr_reclaimed`. Returns the objects freed.
    pub(crate) async fn shrink_slab(&self, pressure: SlabPressure, sc: &mut ScanControl) -> u64 {
        self.world.charge(Cost::ShrinkSlab, 1);
        let reclaimed = &self.current().reclaimed_slab;
        reclaimed.set(0);
        let (mut i, mut freed) = (0, 0);
        while let Some(shrinker) = self.shrinker_at(i) {
            freed += self.run_shrinker(shrinker, i, &pressure, sc).await;
            i += 1;
        }
        sc.nr_reclaimed += u64::from(reclaimed.get());
        reclaimed.set(0);
        freed
    }

    /// Makes a shrinker scan its objects, in batches, for its share of the pressure, and defers the
    /// rest to later calls. `slot`: the shrinker's index among the counts of deferred objects.
    /// Returns the objects freed.
    async fn run_shrinker(
        &self,
        shrinker: Shrinker,
        slot: usize,
        pressure: &SlabPressure,
        sc: &ScanControl,
    ) -> u64 {
        let core = self.policy.shrinker_core;
        let nid = if self.shrinkers_by_node() {
            pressure.nid
        } else {
            0
        };
        let freeable = self.count_objects(shrinker, nid);
        if freeable == 0 {
            return 0;
        }
        let deferred = &self.nr_deferred[slot * self.nodes.len() + nid as usize];
        let before = deferred.get();
        deferred.fetch_sub(before);
        let (seeks, batch) = self.seeks_and_batch(shrinker);
        let (delta, total) = total_scan(core, seeks, (before, freeable), pressure, sc.priority);
        self.emit(Audience::Traces, || Event::ShrinkSlabStart {
            shrinker: shrinker.name(),
            nid,
            deferred: before,
            gfp: sc.gfp.0,
            pgs_scanned: pressure.scanned,
            lru_pgs: pressure.lru,
            cache_items: freeable,
            delta,
            total_scan: total,
            priority: u32::from(sc.priority),
        });
        let (mut left, mut freed) = (total, 0);
        // Whether a cache with less than a batch of objects is scanned, too.
        let tiny_too = core != ShrinkerCore::Global;
        while left >= batch || (tiny_too && left > 0 && left >= freeable) {
            let n = left.min(batch);
            let count_before = self.count_objects(shrinker, nid);
            let answer = self.scan_objects(shrinker, nid, n, sc).await;
            let Shrunk::Freed(objects) = answer else {
                break;
            };
            freed += if self.shrinkers_by_node() {
                objects
            } else {
                // Up to 3.11 a shrinker answers how many objects it has left.
                count_before.saturating_sub(self.count_objects(shrinker, nid))
            };
            self.stat.event(VmEvent::SlabsScanned, n);
            left -= n;
            self.world.relax().await;
        }
        let unused = match core {
            ShrinkerCore::ByPriority => {
                let done = total - left;
                (before + delta).saturating_sub(done).min(2 * freeable)
            }
            _ => left,
        };
        deferred.fetch_add(unused);
        self.emit(Audience::Traces, || Event::ShrinkSlabEnd {
            shrinker: shrinker.name(),
            nid,
            unused_scan: before,
            new_scan: unused,
            total_scan: left,
            freed,
        });
        freed
    }

    /// Returns how many objects a shrinker could free on node `nid`.
    fn count_objects(&self, shrinker: Shrinker, nid: u32) -> u64 {
        let all = |of: &dyn Fn(u32) -> u64| (0..self.super_count()).map(of).sum::<u64>();
        // `vfs_pressure_ratio`.
        let under_pressure = |n: u64| n * u64::from(self.sysctl.vfs_cache_pressure()) / 100;
        match shrinker {
            Shrinker::Shadows => self.count_shadow_nodes(),
            Shrinker::Dentries => under_pressure(all(&|sb| self.unused_dentries(sb, nid))),
            Shrinker::Inodes => under_pressure(all(&|sb| self.unused_inodes(sb, nid))),
            Shrinker::XfsInodes(sb) => self.reclaimable_inodes(sb),
            Shrinker::Super(sb) => under_pressure(
                self.unused_dentries(sb, nid)
                    + self.unused_inodes(sb, nid)
                    + self.reclaimable_inodes(sb),
            ),
            Shrinker::XfsBuffers(sb) => self.world.count_buffers(sb),
            Shrinker::World(i) => self.world.count_objects(i),
        }
    }

    /// Makes a shrinker scan `n` objects of node `nid`; returns how many it freed, or `Stop`.
    /// Shrinkers of filesystems answer `Stop` to a request that may not enter filesystems.
    async fn scan_objects(&self, shrinker: Shrinker, nid: u32, n: u64, sc: &ScanControl) -> Shrunk {
        let may_enter_fs = sc.gfp.has(Gfp::FS);
        match shrinker {
            Shrinker::Shadows => Shrunk::Freed(self.drop_shadow_nodes(n).await),
            Shrinker::XfsBuffers(sb) => Shrunk::Freed(self.world.scan_buffers(self, sb, n)),
            Shrinker::World(i) => match self.world.scan_objects(i, n).await {
                Some(freed) => Shrunk::Freed(freed),
                None => Shrunk::Stop,
            },
            _ if !may_enter_fs => Shrunk::Stop,
            Shrinker::Dentries => {
                self.prune_everywhere(n, false).await;
                Shrunk::Freed(0)
            }
            Shrinker::Inodes => {
                self.prune_everywhere(n, true).await;
                Shrunk::Freed(0)
            }
            Shrinker::XfsInodes(sb) => self.xfs_reclaim_inodes_3_0(sb, n).await,
            Shrinker::Super(sb) => self.super_cache_scan(sb, nid, n).await,
        }
    }

    /// Scans `n` unused dentries, or with `inodes` unused inodes, for the shrinker of 3.0: of each
    /// mounted filesystem in turn its share.
    async fn prune_everywhere(&self, n: u64, inodes: bool) {
        let count = |sb| match inodes {
            true => self.unused_inodes(sb, 0),
            false => self.unused_dentries(sb, 0),
        };
        let all: u64 = (0..self.super_count()).map(count).sum();
        for sb in 0..self.super_count() {
            let part = n * count(sb) / (all + 1) + 1;
            if inodes {
                self.prune_inodes(sb, 0, part).await;
            } else {
                self.prune_dentries(sb, 0, part).await;
            }
        }
    }

    /// Runs the shrinker of the filesystem `sb`: divides `n` among its unused dentries and inodes
    /// of node `nid` and its own objects (docs/reference/shrinkers-and-xfs.md#superblocks). Returns
    /// how many were freed, or `Stop`.
    async fn super_cache_scan(&self, sb: u32, nid: u32, n: u64) -> Shrunk {
        let dentries = self.unused_dentries(sb, nid);
        let inodes = self.unused_inodes(sb, nid);
        let objects = self.reclaimable_inodes(sb);
        let total = dentries + inodes + objects + 1;
        let share = |own: u64| n * own / total;
        let mut freed = self.prune_dentries(sb, nid, share(dentries) + 1).await;
        freed += self.prune_inodes(sb, nid, share(inodes) + 1).await;
        if share(objects) > 0 {
            match self.xfs_free_cached_objects(sb, share(objects) + 1).await {
                Shrunk::Freed(n) => freed += n,
                Shrunk::Stop => return Shrunk::Stop,
            }
        }
        Shrunk::Freed(freed)
    }

    /// Returns the number of reclaimable LRU pages of the zones of node `nid` up to type
    /// `end_zone`.
    pub(crate) fn lru_pages_of_node(&self, nid: u32, end_zone: usize) -> u64 {
        let zones = self.nodes[nid as usize].zones.iter();
        zones
            .map(|&z| usize::from(z))
            .filter(|&z| self.zones[z].kind.index() <= end_zone)
            .map(|z| self.zone_reclaimable_pages(z))
            .sum()
    }

    /// Returns the number of pages on the LRU lists of node `nid`, without unevictable ones.
    pub(crate) fn node_lru_pages(&self, nid: u32) -> u64 {
        let home = usize::from(self.nodes[nid as usize].zones[0]);
        let evictable = Lru::ALL.iter().filter(|&&lru| lru != Lru::Unevictable);
        evictable.map(|&lru| self.lru_size(home, lru)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(core: ShrinkerCore, deferred: u64, freeable: u64, scanned: u64, lru: u64) -> u64 {
        let pressure = SlabPressure {
            nid: 0,
            scanned,
            lru,
        };
        total_scan(core, DEFAULT_SEEKS, (deferred, freeable), &pressure, 12).1
    }

    /// With two seeks a scan of the fraction p of the lists asks for 2p of each cache.
    #[test]
    fn a_share_of_the_lists_asks_for_twice_that_share_of_the_objects() {
        for core in [
            ShrinkerCore::Global,
            ShrinkerCore::Batched,
            ShrinkerCore::PerNode,
        ] {
            assert_eq!(scan(core, 0, 10_000, 1000, 99_999), 200, "{core:?}");
            // No page scanned counts as 32.
            assert_eq!(scan(core, 0, 10_000, 0, 6399), 100, "{core:?}");
            // Never more than twice the freeable objects.
            assert_eq!(scan(core, 0, 10_000, 99_999, 99_999), 19_999, "{core:?}");
            assert_eq!(scan(core, 50_000, 10_000, 99_999, 9), 20_000, "{core:?}");
        }
    }

    /// In 3.0 deferred objects are scanned without a limit of their own; 3.1 limits the scan to
    /// half of the cache while little is asked for.
    #[test]
    fn what_was_deferred_is_limited_since_3_1() {
        let light = (50_000, 10_000, 1000, 99_999);
        let of = |core| scan(core, light.0, light.1, light.2, light.3);
        assert_eq!(of(ShrinkerCore::Global), 20_000);
        assert_eq!(of(ShrinkerCore::Batched), 5000);
        assert_eq!(of(ShrinkerCore::PerNode), 5000);
    }

    #[test]
    fn by_priority_the_lists_do_not_matter() {
        let pressure = SlabPressure {
            nid: 0,
            scanned: 1,
            lru: 1,
        };
        let at = |priority, deferred| {
            let core = ShrinkerCore::ByPriority;
            total_scan(core, DEFAULT_SEEKS, (deferred, 8192), &pressure, priority).1
        };
        assert_eq!(at(12, 0), 4);
        assert_eq!(at(10, 4096), 4 + 16);
        assert_eq!(at(0, 0), 16_384);
        assert_eq!(at(0, 100_000), 16_384);
    }
}
