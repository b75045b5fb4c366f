//! Throttling of reclaimers by reason (`reclaim_throttle = "reasons"`; Linux 5.16 to 6.12
//! `reclaim_throttle`, docs/reference/reclaim.md#reasons).

use super::page_list::Batch;
use super::scan::{Met, SWAP_CLUSTER_MAX, ScanControl};
use crate::memory::task::{PF_KSWAPD, PF_KTHREAD};
use crate::memory::zone::{ZONE_CONGESTED, ZONE_TAIL_DIRTY, ZONE_WRITEBACK};
use crate::policy::ReclaimThrottle;
use crate::watch::vmstat::ZoneStat;
use crate::world::{WaitQueue, Waited, WaitedKind, Word32, Word64, World};
use crate::{Mm, queue};

impl<W: World> Mm<W> {
    /// Returns true if scans set flags of their zone or node, and reclaimers wait according to
    /// those flags.
    #[inline(always)]
    pub(super) fn throttles_by_flags(&self) -> bool {
        matches!(
            self.policy.reclaim_throttle,
            ReclaimThrottle::ZoneFlags | ReclaimThrottle::Reasons
        )
    }

    /// Adds a batch of `taken` isolated pages, file pages or not, to the counts in `sc` of what the
    /// scan of its node has met.
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

    /// Sets the flags of the node of zone `z` by the pages that the scan has met, and makes the
    /// reclaimer wait where they ask for it: kswapd after pages that it met again under writeback,
    /// other tasks while the node is congested.
    pub(super) async fn throttle_by_reasons(&self, z: usize, sc: &ScanControl) {
        let flags = &self.lru_home(z).flags;
        let Met {
            dirty,
            congested: congested_pages,
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
            if dirty > 0 && dirty == congested_pages {
                flags.fetch_or(ZONE_CONGESTED);
            }
        } else if sc.target != 0 {
            // Reclaimers of a group wait by what they met in it, whatever the node is like.
            let congested = &self.groups.lists(sc.target, self.zones[z].node).congested;
            if dirty > 0 && dirty == congested_pages {
                congested.set(1);
            }
            if congested.get() != 0 {
                self.wait_for_a_tick(z, false).await;
            }
        } else if flags.get() & ZONE_CONGESTED != 0 {
            self.wait_for_a_tick(z, false).await;
        }
    }

    /// Wakes, after each priority of a direct reclaim, the tasks that wait for progress if more
    /// than an eighth of the scanned pages was freed; a task that has freed nothing by the last
    /// priority but one waits itself (mm/vmscan.c `consider_reclaim_throttle`, 5.16). `z`: the
    /// first zone whose node was scanned.
    pub(crate) async fn consider_reclaim_throttle(&self, z: usize, sc: &ScanControl) {
        if self.policy.reclaim_throttle != ReclaimThrottle::Reasons {
            return;
        }
        if sc.nr_reclaimed > sc.nr_scanned / 8 {
            self.world.wake(self.no_progress_queue(self.zones[z].node));
        } else if sc.target == 0 && sc.priority == 1 && sc.nr_reclaimed == 0 {
            self.wait_for_a_tick(z, true).await;
        }
    }

    /// Waits a tick if more than half of the reclaimable pages of zone `z`'s node are dirty or
    /// under writeback and kswapd has not given the node up (mm/vmscan.c
    /// `skip_throttle_noprogress`); otherwise only yields. `progress`: another task that frees
    /// pages ends the wait.
    async fn wait_for_a_tick(&self, z: usize, progress: bool) {
        let nid = self.zones[z].node;
        let zones = &self.nodes[nid as usize].zones;
        let (mut reclaimable, mut pending) = (0, 0);
        for z in zones.iter().map(|&z| usize::from(z)) {
            reclaimable += self.zone_reclaimable_pages(z);
            let of = |item| self.stat.zone(z, item);
            pending += of(ZoneStat::NrFileDirty) + of(ZoneStat::NrWriteback);
        }
        if self.is_kernel_thread() || self.node_hopeless(nid) || 2 * pending <= reclaimable {
            return self.world.relax().await;
        }
        let q = self.no_progress_queue(nid);
        let ticket = self.world.ticket(q);
        self.throttled_on(z);
        match progress {
            true => drop(self.world.wait(q, ticket, Some(self.tick())).await),
            false => self.world.sleep(self.tick()).await,
        }
    }

    /// Returns true if the calling task is a kernel thread other than kswapd, which is never
    /// throttled (mm/vmscan.c `reclaim_throttle`).
    fn is_kernel_thread(&self) -> bool {
        self.current().flags() & (PF_KTHREAD | PF_KSWAPD) == PF_KTHREAD
    }

    /// Waits until more than 32 pages of zone `z`'s node were written for each reclaimer that waits
    /// so, at most a tenth of a second.
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

    /// Makes direct reclaim or compaction wait while too many pages of zone `z`'s node are
    /// isolated: until a task finds that they are no longer too many, at most a fiftieth of a
    /// second.
    pub(crate) async fn wait_for_isolated(&self, z: usize) {
        if self.is_kernel_thread() {
            return self.world.relax().await;
        }
        let q = self.isolated_queue(self.zones[z].node);
        let ticket = self.world.ticket(q);
        self.throttled_on(z);
        self.world
            .wait(q, ticket, Some(self.tick_fraction(50)))
            .await;
    }

    /// Wakes the tasks in [`Self::wait_for_isolated`]: the caller has found that not too many pages
    /// of the zone are isolated (mm/vmscan.c `wake_throttle_isolated`).
    #[inline(always)]
    pub(super) fn wake_for_isolated(&self, z: usize) {
        if self.policy.reclaim_throttle == ReclaimThrottle::Reasons {
            self.world.wake(self.isolated_queue(self.zones[z].node));
        }
    }

    /// Tells the world that the calling task is about to wait on the reclaim throttle of a zone's
    /// node.
    fn throttled_on(&self, z: usize) {
        let nid = u64::from(self.zones[z].node);
        self.world
            .waits_on(Waited::on(WaitedKind::ReclaimThrottle, nid));
    }

    /// Counts `n` written pages of zone `z` for reclaimers of its node that wait for writes, if
    /// there are any.
    #[inline(always)]
    pub(crate) fn throttled_see_written(&self, z: usize, n: u32) {
        let nid = self.zones[z].node;
        if self.nodes[nid as usize].throttled.get() > 0 {
            self.wake_throttled(nid, n);
        }
    }

    /// Counts `n` written pages of a node and wakes its throttled reclaimers if enough were
    /// written.
    #[cold]
    fn wake_throttled(&self, nid: u32, n: u32) {
        let node = &self.nodes[nid as usize];
        node.throttled_written.fetch_add(u64::from(n));
        if self.enough_written(nid) {
            self.world.wake(self.throttled_queue(nid));
        }
    }

    /// Returns true if more than 32 pages of a node were written for each reclaimer that waits for
    /// that.
    fn enough_written(&self, nid: u32) -> bool {
        let node = &self.nodes[nid as usize];
        let since = node.throttled_written.get() - node.throttled_since.get();
        since > SWAP_CLUSTER_MAX * u64::from(node.throttled.get())
    }

    /// Checks that no reclaimer of a node waits for pages to be written although enough were.
    ///
    /// # Errors
    /// A reclaimer waits in vain.
    pub(crate) fn check_throttled(&self, nid: u32) -> Result<(), String> {
        match self.enough_written(nid) && self.world.waited_on(self.throttled_queue(nid)) {
            true => Err(format!(
                "reclaim of node {nid} waits in vain: enough pages were written"
            )),
            false => Ok(()),
        }
    }

    /// Returns the queue of a node's reclaimers that wait until some pages are written.
    fn throttled_queue(&self, nid: u32) -> WaitQueue {
        queue::throttled(&self.config, self.nodes.len() as u32, nid)
    }

    /// Returns the queue of a node's reclaimers that wait while too many pages are isolated.
    fn isolated_queue(&self, nid: u32) -> WaitQueue {
        queue::isolated(&self.config, self.nodes.len() as u32, nid)
    }

    /// Returns the queue of a node's direct reclaimers that freed nothing and wait for progress of
    /// others.
    fn no_progress_queue(&self, nid: u32) -> WaitQueue {
        queue::no_progress(&self.config, self.nodes.len() as u32, nid)
    }
}
