//! Fair zone allocation (docs/reference/allocation.md#fair-zones and
//! docs/reference/allocation.md#sequential-read): a node's zones give pages in proportion to their
//! size, so that pages of all zones age at the same pace.
//!
//! A zone's batch is `high - low`, a quarter of its min watermark and so proportional to its size.
//! Each page taken is subtracted from the batch, an ordinary zone counter: it reaches the zone's
//! value in lumps of the per-CPU threshold and may go below 0. A walk that finds the batch used up
//! skips to the next zone of the node; if none is left, all batches are reset and one walk ignores
//! them.

use crate::Mm;
use crate::memory::gfp::Gfp;
use crate::memory::watermark::{ALLOC_DIRTY_LIMIT, ALLOC_FAIR};
use crate::memory::zone::{Mark, ZONE_FAIR_DEPLETED, ZonelistOrder};
use crate::policy::{DirtyCheck, DirtyLimits, FairZones};
use crate::watch::vmstat::{VmEvent, ZoneStat};
use crate::world::{Word32, World};
use crate::{ZoneInfo, ZoneType};

/// Which fallback lists of a node are fair by the rule of *sequential-read* 4
/// (docs/reference/allocation.md#sequential-read). The flag belongs to a list, regardless of which
/// of its zones a request may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FairLists {
    /// Whether the list over all nodes is fair.
    all: bool,
    /// Whether the list of the node's own zones is fair, for requests that may use no others.
    own: bool,
}

/// Returns the number of zones of a node that count for fairness: all but a DMA zone of less than a
/// sixteenth of the node.
fn of_note(zones: &[ZoneInfo], node: u32) -> usize {
    let own = || zones.iter().filter(|z| z.node == node);
    let present: u64 = own().map(|z| z.size).sum();
    own()
        .filter(|z| !(z.kind == ZoneType::Dma && z.size < present / 16))
        .count()
}

impl FairLists {
    /// Returns whether the two fallback lists of `node`, one of `nodes`, are fair. In node order
    /// the zones are counted as each node's zones are added to the list, so any node can make it
    /// unfair; in zone order they are counted once for the list, which is never fair across nodes.
    pub fn of(zones: &[ZoneInfo], nodes: u32, node: u32, order: ZonelistOrder) -> Self {
        let own = of_note(zones, node) > 1;
        let all = match order {
            ZonelistOrder::Node => (0..nodes).all(|n| of_note(zones, n) > 1),
            ZonelistOrder::Zone => nodes == 1 && of_note(zones, node) != 1,
        };
        Self { all, own }
    }
}

/// The numbers of zones that one walk over a fallback list skipped, by reason.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Skipped {
    /// Zones whose fair batch was used up.
    pub fair: u32,
    /// Zones over their share of dirty pages.
    pub dirty: u32,
}

impl<W: World> Mm<W> {
    /// Returns true if the first walk over the free lists of a request from `node` is a fair one
    /// (`ALLOC_FAIR`), which keeps to the node's own zones and heeds their fair batches.
    #[inline(always)]
    pub(crate) fn starts_fair(&self, node: u32, gfp: Gfp) -> bool {
        match self.policy.fair_zones {
            FairZones::Off => false,
            // 3.16 starts with the flag set, and the posted patch keeps that whether or not the
            // list is fair.
            FairZones::Batch | FairZones::AsMerged | FairZones::AsPosted => true,
            FairZones::AsMeant => {
                let lists = self.nodes[node as usize].fair;
                match gfp.has(Gfp::THISNODE) {
                    true => lists.own,
                    false => lists.all,
                }
            }
        }
    }

    /// Returns true if the pages that a zone gives to a request from `node` count against its fair
    /// batch: only if its list is fair. With the patch as posted no list is fair.
    #[inline(always)]
    pub(crate) fn batch_counted(&self, node: u32, gfp: Gfp) -> bool {
        self.policy.fair_zones != FairZones::AsPosted && self.starts_fair(node, gfp)
    }

    /// Takes 2^`order` pages that zone `z` gave to a request from `node` off the zone's fair batch,
    /// if they count.
    #[inline(always)]
    pub(crate) fn charge_batch(&self, z: usize, node: u32, gfp: Gfp, order: u32) {
        if !self.batch_counted(node, gfp) {
            return;
        }
        let cpu = self.world.cpu();
        self.stat
            .add(cpu, z, ZoneStat::NrAllocBatch, -(1i32 << order));
        self.note_used_up(z);
    }

    /// Returns true if zone `z` is to be marked as used up with the next page that it gives, since
    /// its batch is 0.
    #[inline(always)]
    pub(crate) fn marks_at_once(&self, z: usize) -> bool {
        self.policy.fair_zones != FairZones::Batch && self.stat.zone(z, ZoneStat::NrAllocBatch) == 0
    }

    /// Clears the mark that a zone's fair batch is used up.
    fn unmark_used_up(&self, z: usize) {
        let before = self.zones[z].flags.fetch_and(!ZONE_FAIR_DEPLETED);
        if before & ZONE_FAIR_DEPLETED != 0 {
            self.stat.note_change();
        }
    }

    /// Marks zone `z` if its fair batch has just been used up, under policies that keep such a
    /// mark.
    #[inline(always)]
    pub(crate) fn note_used_up(&self, z: usize) {
        if self.policy.fair_zones != FairZones::Batch
            && self.stat.zone(z, ZoneStat::NrAllocBatch) == 0
            && self.zones[z].flags.get() & ZONE_FAIR_DEPLETED == 0
        {
            self.zones[z].flags.fetch_or(ZONE_FAIR_DEPLETED);
            self.stat.note_change();
        }
    }

    /// Returns true if a zone's fair batch is used up, so that a fair walk passes over the zone.
    #[inline]
    pub(crate) fn batch_used_up(&self, z: usize) -> bool {
        match self.policy.fair_zones {
            FairZones::Off | FairZones::AsPosted => false,
            FairZones::Batch => self.stat.zone(z, ZoneStat::NrAllocBatch) == 0,
            FairZones::AsMeant | FairZones::AsMerged => {
                self.zones[z].flags.get() & ZONE_FAIR_DEPLETED != 0
            }
        }
    }

    /// Returns by how many pages a zone's fair batch is below its full size (high minus low
    /// watermark), by its value without the CPUs' differences.
    fn batch_lacks(&self, z: usize) -> i64 {
        let zone = &self.zones[z];
        let full = zone.mark(Mark::High) as i64 - zone.mark(Mark::Low) as i64;
        full - self.stat.zone_raw(z, ZoneStat::NrAllocBatch)
    }

    /// Fills the fair batch of zone `z` exactly, after its watermarks were set.
    pub(crate) fn start_batch(&self, z: usize) {
        let lacks = self.batch_lacks(z);
        self.stat.add_exact(z, ZoneStat::NrAllocBatch, lacks);
        self.unmark_used_up(z);
    }

    /// Fills a zone's fair batch through this CPU's counter, whose unfolded difference stays in the
    /// sum.
    #[inline(always)]
    fn reset_batch(&self, cpu: usize, z: usize) {
        let lacks = self.batch_lacks(z) as i32;
        self.stat.add(cpu, z, ZoneStat::NrAllocBatch, lacks);
    }

    /// Refills the fair batches of the zones of `node` that a request may use; under policies that
    /// mark used-up batches, only of those.
    pub(crate) fn reset_alloc_batches(&self, node: u32, gfp: Gfp) {
        self.stat.event(VmEvent::FairReset, 1);
        let flag = self.policy.fair_zones != FairZones::Batch;
        let cpu = self.world.cpu();
        if let [only] = &self.nodes[..]
            && !flag
        {
            let zones = &only.zonelists[gfp.high_zoneidx()];
            return zones
                .iter()
                .for_each(|&z| self.reset_batch(cpu, usize::from(z)));
        }
        for z in self.eligible(node, gfp) {
            let local = self.zones[z].node == node;
            if local && (!flag || self.batch_used_up(z)) {
                self.reset_batch(cpu, z);
                if flag {
                    self.unmark_used_up(z);
                }
            }
        }
    }

    /// Returns true if each reason for another walk over the free lists at the low watermark
    /// (batches reset, dirty limits ignored, zonelist cache off) gets a walk of its own; in
    /// *sequential-read* 4 one walk serves all reasons.
    #[inline]
    pub(crate) fn walks_apart(&self) -> bool {
        match self.policy.fair_zones {
            FairZones::Off | FairZones::Batch => true,
            FairZones::AsPosted | FairZones::AsMeant | FairZones::AsMerged => false,
        }
    }

    /// Returns the `ALLOC_*` flags of the next walk after one with `flags` at the low watermark
    /// that found no page, and does what has to be done before it (reset of the fair batches);
    /// `None` if the slow path is next. `skipped`: zones that the walk passed over, by reason.
    pub(crate) fn next_walk(
        &self,
        node: u32,
        gfp: Gfp,
        flags: u32,
        skipped: Skipped,
    ) -> Option<u32> {
        let mut next = flags;
        if flags & ALLOC_FAIR != 0 {
            match self.policy.fair_zones {
                FairZones::Off | FairZones::AsPosted => {}
                FairZones::Batch => {
                    self.reset_alloc_batches(node, gfp);
                    next &= !ALLOC_FAIR;
                }
                FairZones::AsMeant | FairZones::AsMerged => {
                    if skipped.fair > 0 {
                        self.reset_alloc_batches(node, gfp);
                        next &= !ALLOC_FAIR;
                    } else if self.policy.fair_zones == FairZones::AsMerged && self.nodes.len() > 1
                    {
                        next &= !ALLOC_FAIR;
                    }
                }
            }
        }
        // One more walk serves both reasons: *sequential-read* 5 tests each reason before it
        // repeats the walk.
        if self.policy.dirty_check == DirtyCheck::Cached && skipped.dirty > 0 {
            next &= !ALLOC_DIRTY_LIMIT;
        }
        (next != flags).then_some(next)
    }

    /// Returns the `ALLOC_*` flags of the first walk of a request from `node` over the free lists
    /// at the low watermark: whether it heeds dirty limits and fair batches.
    #[inline]
    pub(crate) fn first_walk(&self, node: u32, gfp: Gfp) -> u32 {
        let dirty = match self.policy.dirty_limits {
            DirtyLimits::Global => 0,
            DirtyLimits::PerZone | DirtyLimits::PerNode | DirtyLimits::PerZoneStall => {
                ALLOC_DIRTY_LIMIT
            }
        };
        let fair = if self.starts_fair(node, gfp) {
            ALLOC_FAIR
        } else {
            0
        };
        dirty | fair
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn z(node: u32, kind: ZoneType, size: u64) -> ZoneInfo {
        ZoneInfo { node, kind, size }
    }

    #[test]
    fn one_zone_of_note_is_not_enough() {
        let of = |zones: &[ZoneInfo]| FairLists::of(zones, 1, 0, ZonelistOrder::Node);
        let (fair, unfair) = (
            FairLists {
                all: true,
                own: true,
            },
            FairLists {
                all: false,
                own: false,
            },
        );
        let desktop = [
            z(0, ZoneType::Dma, 3976),
            z(0, ZoneType::Dma32, 755_409),
            z(0, ZoneType::Normal, 1_281_601),
        ];
        assert_eq!(of(&desktop), fair);
        // A small DMA zone is not counted, one of a sixteenth is.
        assert_eq!(of(&desktop[..2]), unfair);
        let small = [z(0, ZoneType::Dma, 3976), z(0, ZoneType::Normal, 59_640)];
        assert_eq!(of(&small), fair);
        assert_eq!(of(&desktop[2..]), unfair);
    }

    #[test]
    fn any_node_can_make_the_list_of_all_unfair() {
        let half = [
            z(0, ZoneType::Dma32, 1 << 19),
            z(0, ZoneType::Normal, 1 << 20),
            z(1, ZoneType::Normal, 1 << 20),
        ];
        let of = |zones: &[ZoneInfo], node, order| {
            let lists = FairLists::of(zones, 2, node, order);
            (lists.all, lists.own)
        };
        let order = ZonelistOrder::Node;
        assert_eq!(of(&half, 0, order), (false, true));
        assert_eq!(of(&half, 1, order), (false, false));
        let whole = [&half[..], &[z(1, ZoneType::Movable, 1 << 20)]].concat();
        assert_eq!(of(&whole, 0, order), (true, true));
        // In zone order a list is never fair across nodes.
        assert_eq!(of(&whole, 1, ZonelistOrder::Zone), (false, true));
    }
}
