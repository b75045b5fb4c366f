//! `vm.drop_caches`: frees clean page cache, and dentries and inodes, because a user asks for it.

use crate::Mm;
use crate::cache::mapping::MappingKind;
use crate::memory::gfp::Gfp;
use crate::reclaim::scan::ScanControl;
use crate::reclaim::shrinker::SlabPressure;
use crate::world::{Word32, World};

/// Bit of the value: page cache.
pub const PAGECACHE: u8 = 1;
/// Bit of the value: reclaimable objects of the kernel.
pub const SLAB: u8 = 2;

/// The pressure on shrinkers before 4.x in pages scanned of as many (`drop_slab`).
const OLD_PRESSURE: u64 = 1000;
/// The most rounds over all shrinkers; a round that frees nothing ends it before.
const MOST_ROUNDS: u32 = 32;

impl<W: World> Mm<W> {
    /// Frees what a write of `what` to /proc/sys/vm/drop_caches frees: with [`PAGECACHE`] the pages
    /// of all files and of the filesystems' metadata that are clean, unmapped and not in use; with
    /// [`SLAB`] dentries, inodes and other objects of shrinkers, round by round until a round frees
    /// hardly any (fs/drop_caches.c `drop_caches_sysctl_handler`, `drop_pagecache_sb`; mm/vmscan.c
    /// `drop_slab`, whose rounds are forgiven more and more objects since 5.11).
    pub async fn drop_caches(&self, what: u8) {
        debug_assert!(
            (1..=PAGECACHE | SLAB).contains(&what),
            "{what} names no caches"
        );
        if what & PAGECACHE != 0 {
            for mapping in 0..self.mapping_count() {
                let m = &self.mappings[mapping as usize];
                if m.kind() != MappingKind::Swap && m.nrpages.get() > 0 {
                    self.invalidate_mapping_pages(mapping).await;
                }
            }
        }
        if what & SLAB != 0 {
            self.drop_slab().await;
        }
    }

    /// Makes every shrinker scan all of its objects, on each node if shrinkers know nodes.
    async fn drop_slab(&self) {
        let by_node = self.shrinkers_by_node();
        let nodes = if by_node { self.nodes.len() as u32 } else { 1 };
        let lru = if by_node { 0 } else { OLD_PRESSURE };
        for round in 0..MOST_ROUNDS {
            let mut freed = 0;
            for nid in 0..nodes {
                let classzone = Gfp::KERNEL.high_zoneidx();
                let mut sc = ScanControl::new(0, 0, Gfp::KERNEL, classzone, false);
                sc.priority = 0;
                let pressure = SlabPressure {
                    nid,
                    scanned: OLD_PRESSURE,
                    lru,
                };
                freed += self.shrink_slab(pressure, &mut sc).await;
                self.world.relax().await;
            }
            if freed >> round.min(63) <= 1 {
                break;
            }
        }
    }
}
