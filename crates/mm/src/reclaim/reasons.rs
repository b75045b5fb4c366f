//! Reclaimers that wait for a reason (`reclaim_throttle = "reasons"`; Linux 5.16 to 6.12 `reclaim_throttle`,
//! docs/reference/reclaim.md#reasons).

use super::page_list::Batch;
use super::scan::{Met, SWAP_CLUSTER_MAX, ScanControl};
use crate::memory::zone::{ZONE_CONGESTED, ZONE_TAIL_DIRTY, ZONE_WRITEBACK};
use crate::policy::ReclaimThrottle;
use crate::watch::vmstat::ZoneStat;
use crate::world::{Waited, WaitedKind, Word32, Word64, World};
use crate::{Mm, queue};

impl<W: World> Mm<W> {
    /// Whether what was scanned marks zones or nodes, and reclaimers wait by those marks.
    #[inline(always)]
    pub(super) fn throttles_by_flags(&self) -> bool {
        matches!(
            self.policy.reclaim_throttle,
            ReclaimThrottle::ZoneFlags | ReclaimThrottle::Reasons
        )
    }

    /// Adds a batch to what the scan of its node has met.
    pub(super) fn note_met(&self, taken: u32, file: bool, batch: &Batch, sc: &mut ScanControl) {
        let met = &mut sc.met;
        met.dirty += batch.dirty;
        met.congested += batch.congested;
        met.unqueued += batch.unqueued;
        met.writeback += batch.writeback;
        met.immediate += batch.immediate;
        met.taken += u64::from(taken);
        met.file_taken += if file { u64::from(taken) } else { 0 };
    }

    /// A node was scanned: what it met marks it, and who scanned it may have to wait.
    pub(super) async fn throttle_by_reasons(&self, z: usize, sc: &ScanControl) {
        let flags = &self.lru_home(z).flags;
        let Met {
            dirty,
            congested,
            unqueued,
            writeback,
            immediate,
            taken,
            file_taken,
        } = sc.met;
        if sc.kswapd {
            if writeback > 0 && writeback == taken {
                flags.fetch_or(ZONE_WRITEBACK);
            }
            if unqueued == file_taken {
                flags.fetch_or(ZONE_TAIL_DIRTY);
            }
            if immediate > 0 {
                self.wait_until_some_are_written(z).await;
            }
            if dirty > 0 && dirty == congested {
                flags.fetch_or(ZONE_CONGESTED);
            }
        } else if flags.get() & ZONE_CONGESTED != 0 {
            self.wait_for_a_tick(z).await;
        }
    }

    /// Direct reclaim that gets nowhere at the last priority but one waits before it goes on.
    pub(super) async fn throttle_without_progress(&self, z: usize, sc: &ScanControl) {
        if self.policy.reclaim_throttle == ReclaimThrottle::Reasons
            && sc.priority == 1
            && sc.nr_reclaimed == 0
            && !self.node_hopeless(self.zones[z].node)
        {
            self.wait_for_a_tick(z).await;
        }
    }

    /// One tick, where the node is full of pages that have to be written first.
    async fn wait_for_a_tick(&self, z: usize) {
        let zones = &self.nodes[self.zones[z].node as usize].zones;
        let (mut reclaimable, mut pending) = (0, 0);
        for z in zones.iter().map(|&z| usize::from(z)) {
            reclaimable += self.zone_reclaimable_pages(z);
            let of = |item| self.stat.zone(z, item);
            pending += of(ZoneStat::NrFileDirty) + of(ZoneStat::NrWriteback);
        }
        if 2 * pending <= reclaimable {
            return self.world.relax().await;
        }
        self.throttled_on(z);
        self.world.sleep(self.tick()).await;
    }

    /// Until 32 pages for each who waits were written, a tenth of a second at most.
    async fn wait_until_some_are_written(&self, z: usize) {
        let nid = self.zones[z].node;
        let node = &self.nodes[nid as usize];
        let q = self.throttled_queue(nid);
        let ticket = self.world.ticket(q);
        if node.throttled.fetch_add(1) == 0 {
            node.throttled_since.set(node.throttled_written.get());
        }
        self.throttled_on(z);
        self.world
            .wait(q, ticket, Some(self.tick_fraction(10)))
            .await;
        node.throttled.fetch_sub(1);
    }

    /// Direct reclaim while too many pages are isolated: the fiftieth part of a second.
    pub(super) async fn wait_for_isolated(&self, z: usize) {
        self.throttled_on(z);
        self.world.sleep(self.tick_fraction(50)).await;
    }

    fn throttled_on(&self, z: usize) {
        let nid = u64::from(self.zones[z].node);
        self.world
            .waits_on(Waited::on(WaitedKind::ReclaimThrottle, nid));
    }

    /// Pages of a zone were written.
    #[inline(always)]
    pub(crate) fn throttled_see_written(&self, z: usize, n: u32) {
        let nid = self.zones[z].node;
        if self.nodes[nid as usize].throttled.get() > 0 {
            self.wake_throttled(nid, n);
        }
    }

    #[cold]
    fn wake_throttled(&self, nid: u32, n: u32) {
        let node = &self.nodes[nid as usize];
        let written = node.throttled_written.fetch_add(u64::from(n)) + u64::from(n);
        let since = written - node.throttled_since.get();
        if since > SWAP_CLUSTER_MAX * u64::from(node.throttled.get()) {
            self.world.wake(self.throttled_queue(nid));
        }
    }

    fn throttled_queue(&self, nid: u32) -> crate::world::WaitQueue {
        queue::throttled(&self.config, self.nodes.len() as u32, nid)
    }
}
