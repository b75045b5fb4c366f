//! Boosted watermarks (`watermark_boost_factor`, Linux 5.0: "mm: reclaim small amounts of memory
//! when an external fragmentation event occurs").
//!
//! Each fallback to a pageblock of another kind ([`mobility`](crate::mobility)) raises the three
//! watermarks of its zone by a pageblock, up to the factor's share of the high watermark, and wakes
//! kswapd. Where the node is balanced even so, kswapd frees as many pages as the boost is large
//! without writing or swapping (where zones have the lists, without calling shrinkers either), and
//! not below priority 10; where it is not balanced, kswapd does what it always does, up to the
//! boosted high watermark. The boost as of the start of the run is then taken back.
//!
//! The boost is contained in the zone's watermarks, so that no test has to add it.

use crate::ZONE_TYPES;
use crate::memory::gfp::Gfp;
use crate::memory::zone::{Mark, ZONE_BOOSTED_WATERMARK};
use crate::reclaim::scan::{DEF_PRIORITY, SWAP_CLUSTER_MAX, ScanControl};
use crate::world::{ShortLock, Word32, World};
use crate::{Config, Mm};

/// The hardest priority of boosted reclaim: below it kswapd would write pages.
const LEAST_PRIORITY: u8 = DEF_PRIORITY - 2;

/// Makes the words that hold the boost of each zone's watermarks; none if nothing can be boosted.
/// `grouped`: free lists are kept by mobility.
pub(crate) fn zones<W: World>(config: &Config, grouped: bool) -> Box<[W::U32]> {
    let boosts = grouped && config.sysctl.watermark_boost_factor.is_some();
    bytemuck::zeroed_slice_box(if boosts { config.zones.len() } else { 0 })
}

impl<W: World> Mm<W> {
    /// Returns the pages by which a zone's watermarks are boosted.
    pub fn watermark_boost(&self, z: usize) -> u32 {
        self.boost.get(z).map_or(0, |b| b.get())
    }

    /// Boosts a zone's watermarks by a pageblock, up to the factor's share of the high watermark,
    /// because kinds of pages were mixed; the caller holds the zone's lock. A zone of less than
    /// four pageblocks is left alone, as since Linux 5.7: the boost would be most of its memory.
    pub(crate) fn boost_watermark(&self, z: usize) {
        let Some(boost) = self.boost.get(z) else {
            return;
        };
        let (zone, now) = (&self.zones[z], boost.get());
        if zone.size < 4 * self.pageblock_pages() {
            return;
        }
        let high = zone.mark(Mark::High) - u64::from(now);
        let factor = self.sysctl.watermark_boost_factor().unwrap_or(0);
        let share = high * u64::from(factor) / 10_000;
        // Without a high watermark (before it is set up) there is nothing to boost.
        if share == 0 {
            return;
        }
        let most = share.max(u64::from(self.pageblock_pages())) as u32;
        let more = self.pageblock_pages().min(most.saturating_sub(now));
        boost.fetch_add(more);
        for mark in &zone.watermark {
            mark.fetch_add(more);
        }
        zone.flags.fetch_or(ZONE_BOOSTED_WATERMARK);
        self.stat.note_change();
    }

    /// Takes `pages` of the boost of a zone's watermarks back, or all of it if it is smaller.
    pub(crate) fn unboost(&self, z: usize, pages: u32) {
        let zone = &self.zones[z];
        zone.lock.with(|| {
            let less = pages.min(self.boost[z].get());
            self.boost[z].fetch_sub(less);
            for mark in &zone.watermark {
                mark.fetch_sub(less);
            }
        });
        self.stat.note_change();
    }

    /// Returns true if this machine's watermarks can be boosted at all.
    #[inline(always)]
    pub(crate) fn boosts_zones(&self) -> bool {
        !self.boost.is_empty()
    }

    /// Wakes kswapd for a zone that was just boosted. The node may be balanced otherwise, and then
    /// no allocation would wake kswapd.
    #[inline(always)]
    pub(crate) fn wake_if_boosted(&self, z: usize) {
        let zone = &self.zones[z];
        if self.boosts_zones() && zone.flags.get() & ZONE_BOOSTED_WATERMARK != 0 {
            zone.flags.fetch_and(!ZONE_BOOSTED_WATERMARK);
            self.wakeup_kswapd(z, Gfp(0), 0, zone.kind.index());
        }
    }

    /// Returns the boosts of the watermarks of a node's zones up to `classzone`, in pages, by zone
    /// type.
    fn boosts(&self, nid: u32, classzone: usize) -> [u32; ZONE_TYPES] {
        let mut boosts = [0; ZONE_TYPES];
        if self.boosts_zones() {
            let zones = self.nodes[nid as usize].zones.iter();
            for z in zones.map(|&z| usize::from(z)) {
                let kind = self.zones[z].kind.index();
                if kind <= classzone {
                    boosts[kind] = self.boost[z].get();
                }
            }
        }
        boosts
    }

    /// Returns true if the watermarks of some zone of a node up to `classzone` are boosted.
    pub(crate) fn node_boosted(&self, nid: u32, classzone: usize) -> bool {
        self.boosts(nid, classzone) != [0; ZONE_TYPES]
    }

    /// Does the first part of a run of a node's kswapd: frees as many pages as the zones' boosts
    /// sum up to, without writing or swapping, as long as the node is balanced. Returns the boosts
    /// at the start, by zone type, for [`Self::boosts_answered`].
    pub(crate) async fn reclaim_boosts(
        &self,
        nid: u32,
        order: u32,
        classzone: usize,
    ) -> [u32; ZONE_TYPES] {
        let boosts = self.boosts(nid, classzone);
        let mut left: u64 = boosts.iter().map(|&b| u64::from(b)).sum();
        if left == 0 {
            return boosts;
        }
        let mut sc = ScanControl::new(left, order, Gfp::KERNEL, classzone, true);
        (sc.may_writepage, sc.may_swap) = (false, false);
        while left > 0 && !self.sleeping_prematurely(nid, order, classzone) {
            let before = sc.nr_reclaimed;
            let mut enough = false;
            for i in 0..self.nodes[nid as usize].zones.len() {
                let z = usize::from(self.nodes[nid as usize].zones[i]);
                if boosts[self.zones[z].kind.index()] == 0 {
                    continue;
                }
                sc.nr_scanned = 0;
                sc.nr_to_reclaim = self.zones[z].mark(Mark::High).max(SWAP_CLUSTER_MAX);
                if self.node_lru() {
                    self.shrink_node(self.zones[z].lru_home as usize, &mut sc)
                        .await;
                } else {
                    self.shrink_zone(z, &mut sc).await;
                    self.world.relax().await;
                }
                enough |= sc.nr_scanned >= sc.nr_to_reclaim;
            }
            let reclaimed = sc.nr_reclaimed - before;
            // The pages that are left cannot be freed without I/O.
            if reclaimed == 0 {
                break;
            }
            left = left.saturating_sub(reclaimed);
            if !enough && sc.priority > LEAST_PRIORITY {
                sc.priority -= 1;
            }
        }
        boosts
    }

    /// Takes back, at the end of a kswapd run, the boosts that the watermarks of the node's zones
    /// had when the run began (`boosts`, in pages by zone type).
    pub(crate) fn boosts_answered(&self, nid: u32, boosts: [u32; ZONE_TYPES]) {
        for &z in &self.nodes[nid as usize].zones {
            let z = usize::from(z);
            let boost = boosts[self.zones[z].kind.index()];
            if boost > 0 {
                self.unboost(z, boost);
            }
        }
    }
}
