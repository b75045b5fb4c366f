//! Fair zone allocation (docs/reference/allocation.md#fair-zones and
//! docs/reference/allocation.md#sequential-read): a node's zones give pages in proportion to their size, so
//! that pages age at one pace wherever they lie.
//!
//! A zone's batch is `high - low`, a quarter of its min watermark and so proportional to its size.
//! Each page taken is taken off the batch, an ordinary zone counter: it reaches the zone's value in
//! lumps of the per-CPU threshold and may go below 0. Whoever finds the batch used up goes on to the
//! next zone of the node; when none is left, all batches begin anew and one walk ignores them.

use crate::Mm;
use crate::memory::gfp::Gfp;
use crate::memory::watermark::{ALLOC_DIRTY_LIMIT, ALLOC_FAIR};
use crate::memory::zone::{Mark, ZONE_FAIR_DEPLETED, ZonelistOrder};
use crate::policy::{DirtyCheck, DirtyLimits, FairZones};
use crate::watch::vmstat::{VmEvent, ZoneStat};
use crate::world::{Word32, World};
use crate::{ZoneInfo, ZoneType};

/// Whether allocations from a fallback list are fair (*sequential-read* 4 as posted): not if but one
/// zone of the first zone's node is of note, and not across nodes where zones come first.
pub(crate) fn fair_list(
    list: &[u16],
    zones: &[ZoneInfo],
    nodes: u32,
    order: ZonelistOrder,
) -> bool {
    let Some(first) = list.first().map(|&z| zones[usize::from(z)].node) else {
        return false;
    };
    let present: u64 = zones
        .iter()
        .filter(|z| z.node == first)
        .map(|z| z.size)
        .sum();
    let of_note =
        |z: &ZoneInfo| z.node == first && !(z.kind == ZoneType::Dma && z.size < present / 16);
    let eligible = list
        .iter()
        .filter(|&&z| of_note(&zones[usize::from(z)]))
        .count();
    eligible != 1 && !(order == ZonelistOrder::Zone && nodes > 1)
}

/// What one walk over a fallback list met.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Skipped {
    /// Zones whose fair batch was used up.
    pub fair: u32,
    /// Zones over their share of dirty pages.
    pub dirty: u32,
}

impl<W: World> Mm<W> {
    /// Whether the first walk is a fair one.
    pub(crate) fn starts_fair(&self, node: u32, gfp: Gfp) -> bool {
        match self.policy.fair_zones {
            FairZones::Off => false,
            FairZones::Batch | FairZones::FlagMerged => true,
            FairZones::Flag => self.nodes[node as usize].fair[gfp.high_zoneidx()],
        }
    }

    /// Whether pages taken through a fallback list count against their zone's batch.
    #[inline]
    fn counts_batch(&self, node: u32, gfp: Gfp) -> bool {
        self.policy.fair_zones != FairZones::Flag
            || self.nodes[node as usize].fair[gfp.high_zoneidx()]
    }

    /// A zone gave 2^order pages.
    #[inline]
    pub(crate) fn charge_batch(&self, z: usize, node: u32, gfp: Gfp, order: u32) {
        if self.policy.fair_zones == FairZones::Off || !self.counts_batch(node, gfp) {
            return;
        }
        let cpu = self.world.cpu();
        self.stat
            .add(cpu, z, ZoneStat::NrAllocBatch, -(1i32 << order));
        if self.policy.fair_zones != FairZones::Batch
            && self.stat.zone(z, ZoneStat::NrAllocBatch) == 0
            && self.zones[z].flags.get() & ZONE_FAIR_DEPLETED == 0
        {
            self.zones[z].flags.fetch_or(ZONE_FAIR_DEPLETED);
        }
    }

    /// Whether a zone's batch is used up.
    #[inline]
    pub(crate) fn batch_used_up(&self, z: usize) -> bool {
        match self.policy.fair_zones {
            FairZones::Off => false,
            FairZones::Batch => self.stat.zone(z, ZoneStat::NrAllocBatch) == 0,
            FairZones::Flag | FairZones::FlagMerged => {
                self.zones[z].flags.get() & ZONE_FAIR_DEPLETED != 0
            }
        }
    }

    /// What a zone's batch lacks, by its value without the CPUs' differences.
    fn batch_lacks(&self, z: usize) -> i64 {
        let zone = &self.zones[z];
        let full = zone.mark(Mark::High) as i64 - zone.mark(Mark::Low) as i64;
        full - self.stat.zone_raw(z, ZoneStat::NrAllocBatch)
    }

    /// Gives a zone its whole batch when its watermarks were set.
    pub(crate) fn start_batch(&self, z: usize) {
        let lacks = self.batch_lacks(z);
        self.stat.add_exact(z, ZoneStat::NrAllocBatch, lacks);
        self.zones[z].flags.fetch_and(!ZONE_FAIR_DEPLETED);
    }

    /// Gives a zone its whole batch. What this CPU has not folded yet goes along.
    fn reset_batch(&self, z: usize) {
        let lacks = self.batch_lacks(z) as i32;
        let cpu = self.world.cpu();
        self.stat.add(cpu, z, ZoneStat::NrAllocBatch, lacks);
        self.zones[z].flags.fetch_and(!ZONE_FAIR_DEPLETED);
    }

    /// Resets the batches of the node's zones that a request may use; with the flag, of those alone
    /// that are used up.
    fn reset_alloc_batches(&self, node: u32, gfp: Gfp) {
        self.stat.event(VmEvent::FairReset, 1);
        let flag = self.policy.fair_zones != FairZones::Batch;
        for z in self.eligible(node, gfp) {
            let local = self.zones[z].node == node;
            if local && (!flag || self.batch_used_up(z)) {
                self.reset_batch(z);
            }
        }
    }

    /// After a walk at the low watermark that found nothing: the flags of the next one, if there is
    /// to be another before the slow path.
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
                FairZones::Off => {}
                FairZones::Batch => {
                    self.reset_alloc_batches(node, gfp);
                    next &= !ALLOC_FAIR;
                }
                FairZones::Flag | FairZones::FlagMerged => {
                    if skipped.fair > 0 {
                        self.reset_alloc_batches(node, gfp);
                        next &= !ALLOC_FAIR;
                    } else if self.policy.fair_zones == FairZones::FlagMerged
                        && self.nodes.len() > 1
                    {
                        next &= !ALLOC_FAIR;
                    }
                }
            }
        }
        if next == flags && self.policy.dirty_check == DirtyCheck::Cached && skipped.dirty > 0 {
            next &= !ALLOC_DIRTY_LIMIT;
        }
        (next != flags).then_some(next)
    }

    /// The flags of the first walk.
    #[inline]
    pub(crate) fn first_walk(&self, node: u32, gfp: Gfp) -> u32 {
        let dirty = match self.policy.dirty_limits {
            DirtyLimits::Global => 0,
            DirtyLimits::PerZone | DirtyLimits::PerZoneStall => ALLOC_DIRTY_LIMIT,
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
    fn lists_with_one_zone_of_note_are_not_fair() {
        let machine = [
            z(0, ZoneType::Dma, 3976),
            z(0, ZoneType::Dma32, 755_409),
            z(0, ZoneType::Normal, 1_281_601),
        ];
        let fair = |list: &[u16]| fair_list(list, &machine, 1, ZonelistOrder::Node);
        assert!(fair(&[2, 1, 0]));
        // DMA is small: it is not counted, though it would not be skipped.
        assert!(!fair(&[1, 0]));
        assert!(fair(&[0]), "no zone counts, which is not one");
        let two = [
            z(0, ZoneType::Normal, 1 << 20),
            z(1, ZoneType::Normal, 1 << 20),
        ];
        assert!(!fair_list(&[0, 1], &two, 2, ZonelistOrder::Zone));
        assert!(!fair_list(&[0, 1], &two, 2, ZonelistOrder::Node));
    }
}
