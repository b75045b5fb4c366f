//! Direct reclaim (reference 03 §7, 3.0 form): the task that needs a page frees some.

use crate::Mm;
use crate::alloc::Gfp;
use crate::shrink::{DEF_PRIORITY, SWAP_CLUSTER_MAX, ScanControl};
use crate::task::PF_MEMALLOC;
use crate::trace::Event;
use crate::vmstat::VmEvent;
use crate::world::{Class, Cost, Word32, World};

impl<W: World> Mm<W> {
    /// Frees at least 32 pages if it can. Returns the pages freed; 1 if none were but some zone
    /// is not hopeless; 0 if all are (the caller goes to the OOM stage).
    pub(crate) async fn try_to_free_pages(&self, node: u32, gfp: Gfp, order: u32) -> u64 {
        let mut sc = ScanControl {
            nr_to_reclaim: SWAP_CLUSTER_MAX,
            nr_scanned: 0,
            nr_reclaimed: 0,
            nr_dirty_file: 0,
            may_writepage: true,
            may_swap: true,
            order,
            gfp,
            priority: DEF_PRIORITY,
            kswapd: false,
        };
        let task = self.current();
        task.flags.fetch_or(PF_MEMALLOC);
        self.stat.event(VmEvent::AllocStall, 1);
        self.note(Event::DirectReclaimBegin {
            order,
            may_writepage: true,
            gfp: gfp.0,
        });
        let progress = self.direct_reclaim_loop(node, gfp, &mut sc).await;
        self.note(Event::DirectReclaimEnd {
            nr_reclaimed: sc.nr_reclaimed,
        });
        task.flags.fetch_and(!PF_MEMALLOC);
        progress
    }

    async fn direct_reclaim_loop(&self, node: u32, gfp: Gfp, sc: &mut ScanControl) -> u64 {
        let mut total_scanned = 0;
        for priority in (0..=DEF_PRIORITY).rev() {
            sc.priority = priority;
            sc.nr_scanned = 0;
            for &z in &self.nodes[node as usize].zonelists[gfp.high_zoneidx()] {
                let z = usize::from(z);
                let hopeless = self.zones[z].all_unreclaimable.get() != 0;
                if (gfp.has(Gfp::THISNODE) && self.zones[z].node != node)
                    || (hopeless && priority != DEF_PRIORITY)
                {
                    continue;
                }
                self.world.charge(Cost::ZoneWalk, 1);
                self.shrink_zone(z, sc).await;
            }
            self.world.charge(Cost::ShrinkSlab, 1);
            self.world.relax().await;
            total_scanned += sc.nr_scanned;
            if sc.nr_reclaimed >= SWAP_CLUSTER_MAX {
                return sc.nr_reclaimed;
            }
            if total_scanned > SWAP_CLUSTER_MAX * 3 / 2 {
                self.wakeup_flusher_threads(total_scanned);
                sc.may_writepage = true;
            }
            if sc.nr_scanned > 0 && priority < DEF_PRIORITY - 2 {
                let z = self.eligible(node, gfp).next().expect("a populated zone");
                self.wait_iff_congested(z, Class::Async, self.tick_fraction(10))
                    .await;
            }
        }
        if sc.nr_reclaimed > 0 {
            return sc.nr_reclaimed;
        }
        let hope = self
            .eligible(node, gfp)
            .any(|z| self.zones[z].all_unreclaimable.get() == 0);
        u64::from(hope)
    }
}
