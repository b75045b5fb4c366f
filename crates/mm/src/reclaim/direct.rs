//! Direct reclaim (docs/reference/reclaim.md#direct-reclaim): a task that needs a page frees some
//! itself.

use crate::Mm;
use crate::ZoneType;
use crate::memory::gfp::Gfp;
use crate::memory::task::{PF_DYING, PF_KTHREAD, PF_MEMALLOC};
use crate::memory::zone::Mark;
use crate::policy::{FlusherWake, HopelessZones, SlowPath};
use crate::reclaim::scan::{DEF_PRIORITY, SWAP_CLUSTER_MAX, ScanControl};
use crate::watch::vmstat::{ALLOC_STALLS, VmEvent, ZoneStat};
use crate::world::event::Event;
use crate::world::{Audience, Class, Cost, Waited, WaitedKind, Word32, Word64, World};

/// After this many kswapd runs in a row that freed nothing, reclaim gives the node up.
const MAX_RECLAIM_RETRIES: u32 = 16;

impl<W: World> Mm<W> {
    /// Called when pages of zone `z` are freed: ends the state in which reclaim has given the zone
    /// up (`all_unreclaimable`); where nodes have the lists, for all zones of its node.
    #[inline(always)]
    pub(crate) fn hope_for(&self, z: usize) {
        let home = self.lru_home(z);
        home.pages_scanned.set(0);
        home.all_unreclaimable.set(0);
    }

    /// Ends the state in which reclaim has given zones up, for all zones. For callers that have
    /// made pages reclaimable without freeing any: the pages were held by something that has let go
    /// of them.
    pub fn hope_again(&self) {
        for zone in &self.zones {
            zone.all_unreclaimable.set(0);
            zone.pages_scanned.set(0);
        }
    }

    /// Frees at least 32 pages for a request of 2^`order` pages from `node`, if it can (direct
    /// reclaim). Returns the number of pages freed. If none were: 0, or, before 4.7 (`oom_retries`
    /// = 0), 1 as long as some zone is not given up; 0 sends the caller to the OOM stage.
    pub(crate) async fn try_to_free_pages(&self, node: u32, gfp: Gfp, order: u32) -> u64 {
        let mut sc = ScanControl::new(SWAP_CLUSTER_MAX, order, gfp, gfp.high_zoneidx(), false);
        let task = self.current();
        task.flags.fetch_or(PF_MEMALLOC);
        self.count_stall(gfp);
        self.emit(Audience::Sums, || Event::DirectReclaimBegin {
            order,
            may_writepage: true,
            gfp: gfp.0,
        });
        // With the later slow paths the caller reports the memory stall.
        let own_stall = self.policy.slow_path == SlowPath::Congestion;
        if own_stall {
            self.world.memory_stall(true);
        }
        let mut progress = self.direct_reclaim_loop(node, gfp, &mut sc).await;
        while sc.nr_reclaimed == 0 && self.tries_harder(&mut sc) {
            // Before the request runs out of memory, reclaim tries again with the active lists
            // scanned too.
            self.count_stall(gfp);
            progress = self.direct_reclaim_loop(node, gfp, &mut sc).await;
        }
        self.snapshot_refaults(node, gfp);
        if own_stall {
            self.world.memory_stall(false);
        }
        self.emit(Audience::Sums, || Event::DirectReclaimEnd {
            nr_reclaimed: sc.nr_reclaimed,
        });
        task.flags.fetch_and(!PF_MEMALLOC);
        progress
    }

    /// Counts an entry into direct reclaim, in all and under the highest zone whose pages help
    /// (`reclaim_idx`).
    fn count_stall(&self, gfp: Gfp) {
        self.stat.event(VmEvent::AllocStall, 1);
        self.stat.event(ALLOC_STALLS[gfp.high_zoneidx()], 1);
    }

    /// Scans the zones of a request from `node`, at one priority after another from 12 (a small
    /// part of the lists) down to 0 (all of them), until 32 pages are freed; calls shrinkers, and
    /// waits for congested devices. Returns what [`Self::try_to_free_pages`] returns.
    async fn direct_reclaim_loop(&self, node: u32, gfp: Gfp, sc: &mut ScanControl) -> u64 {
        let mut total_scanned = 0;
        let classzone = sc.classzone;
        for priority in (0..=DEF_PRIORITY).rev() {
            sc.priority = priority;
            self.note_priority(priority);
            sc.nr_scanned = 0;
            // `lru`: reclaimable pages of the zones, for the shrinkers' share; `scanned`: the first
            // zone scanned.
            let (mut lru, mut scanned) = (0, None);
            sc.classzone = self.reclaim_classzone(classzone);
            let highest = sc.classzone.max(gfp.high_zoneidx());
            for &z in &self.nodes[node as usize].zonelists[highest] {
                let z = usize::from(z);
                let hopeless = self.zone_hopeless(z);
                if (gfp.has(Gfp::THISNODE) && self.zones[z].node != node)
                    || (hopeless && priority != DEF_PRIORITY)
                {
                    continue;
                }
                lru += self.zone_reclaimable_pages(z);
                self.world.charge(Cost::ZoneWalk, 1);
                let home = self.zones[z].lru_home as usize;
                if self.node_lru()
                    && self.first_of_node(node, highest, self.zones[z].node) != Some(z)
                {
                    continue; // the node was scanned as a whole already
                }
                scanned.get_or_insert(home);
                if self.node_lru() {
                    self.shrink_node(home, sc).await;
                } else {
                    self.shrink_zone(home, sc).await;
                }
            }
            if let Some(first) = scanned {
                self.consider_reclaim_throttle(first, sc).await;
            }
            if !self.node_lru() {
                self.shrink_slab_for(node, gfp, lru, sc).await;
            }
            self.world.relax().await;
            total_scanned += sc.nr_scanned;
            if sc.nr_reclaimed >= SWAP_CLUSTER_MAX {
                return sc.nr_reclaimed;
            }
            if total_scanned > SWAP_CLUSTER_MAX * 3 / 2 {
                if self.policy.flusher_wake == FlusherWake::Scanned {
                    self.wakeup_flusher_threads(total_scanned);
                }
                sc.may_writepage = true;
            }
            // Since 3.12 each batch waits by itself (`throttle_by_flags`).
            if !self.throttles_by_flags() && sc.nr_scanned > 0 && priority < DEF_PRIORITY - 2 {
                let z = self.eligible(node, gfp).next().expect("a populated zone");
                self.wait_iff_congested(z, Class::Async, self.tick_fraction(10))
                    .await;
            }
        }
        if sc.nr_reclaimed > 0 {
            return sc.nr_reclaimed;
        }
        // Since 4.7 (`oom_retries` > 0) the caller counts its tries instead.
        let hope = || self.eligible(node, gfp).any(|z| !self.zone_hopeless(z));
        u64::from(self.policy.oom_retries == 0 && !self.counts_failures() && hope())
    }

    /// Returns the first zone of the node `node` in the fallback list of the node `list` up to zone
    /// type `highest`; `None` if there is none.
    fn first_of_node(&self, list: u32, highest: usize, node: u32) -> Option<usize> {
        let mut zones = self.nodes[list as usize].zonelists[highest].iter();
        zones
            .find(|&&z| self.zones[usize::from(z)].node == node)
            .map(|&z| usize::from(z))
    }

    /// Returns true if reclaim has given zone `z` up for now, by the policy's rule.
    #[inline]
    pub(crate) fn zone_hopeless(&self, z: usize) -> bool {
        match self.policy.hopeless_zones {
            HopelessZones::Marked => self.lru_home(z).all_unreclaimable.get() != 0,
            _ => !self.counts_failures() && !self.zone_reclaimable(z),
        }
    }

    /// Returns true if nodes are given up by the number of kswapd runs that failed
    /// (`HopelessZones::Failures`, with node lists only).
    #[inline]
    pub(super) fn counts_failures(&self) -> bool {
        self.policy.hopeless_zones == HopelessZones::Failures && self.node_lru()
    }

    /// Returns true if kswapd has given a node up: 16 runs in a row freed nothing.
    #[inline]
    pub(super) fn node_hopeless(&self, nid: u32) -> bool {
        self.nodes[nid as usize].kswapd_failures.get() >= MAX_RECLAIM_RETRIES
    }

    /// Returns true if more than half of the emergency reserves (the min watermarks) of a node's
    /// zones up to Normal is free, if there are no reserves, or if kswapd has given the node up.
    pub(crate) fn reserves_ok(&self, node: u32) -> bool {
        if self.node_hopeless(node) {
            return true;
        }
        let zones = self.nodes[node as usize].zones.iter();
        let low = zones
            .map(|&z| usize::from(z))
            .filter(|&z| self.zones[z].kind <= ZoneType::Normal);
        let (mut reserve, mut free) = (0, 0);
        for z in low {
            reserve += self.zones[z].mark(Mark::Min);
            free += self.stat.zone(z, ZoneStat::NrFreePages);
        }
        reserve == 0 || free > reserve / 2
    }

    /// Makes a task that is about to reclaim wait while no more than half of the reserves of its
    /// node is free (mm/vmscan.c `throttle_direct_reclaim`, 3.6): until kswapd has refilled them,
    /// for at most a second if the request may not enter filesystems. The kernel's own threads do
    /// not wait, because the pages that refill the reserves may depend on their work. Returns true
    /// if the task was chosen to die meanwhile.
    ///
    /// In Linux a request that may enter filesystems waits without a limit. Up to 4.11 it could
    /// wait for ever, if kswapd found nothing to reclaim; here the task goes on to reclaim by
    /// itself once it has waited a second and kswapd sleeps.
    pub(crate) async fn throttle_direct_reclaim(&self, node: u32, gfp: Gfp) -> bool {
        if !self.policy.emergency_throttle || self.current().flags() & PF_KTHREAD != 0 {
            return false;
        }
        let mut zones = self.eligible(node, gfp);
        let Some(z) = zones.find(|&z| self.zones[z].kind <= ZoneType::Normal) else {
            return false;
        };
        let nid = self.zones[z].node;
        if self.reserves_ok(nid) {
            return false;
        }
        self.stat.event(VmEvent::PgScanDirectThrottle, 1);
        let q = self.emergency_queue(nid);
        let begun = self.world.now();
        loop {
            let ticket = self.world.ticket(q);
            if self.reserves_ok(nid) {
                return false;
            }
            let left = crate::SECOND.saturating_sub(self.world.now().saturating_sub(begun));
            if left == 0 && (!gfp.has(Gfp::FS) || self.kswapd_sleeps(nid)) {
                return false;
            }
            self.wake_kswapd_for_reserves(nid);
            self.world
                .waits_on(Waited::on(WaitedKind::ReclaimThrottle, u64::from(nid)));
            let timeout = if left > 0 { left } else { crate::SECOND };
            self.world.wait(q, ticket, Some(timeout)).await;
            if self.current().flags() & PF_DYING != 0 {
                return true;
            }
        }
    }
}
