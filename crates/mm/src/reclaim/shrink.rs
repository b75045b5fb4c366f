//! Scanning of LRU lists: in which order, batch by batch, and how reclaimers are throttled in
//! between (docs/reference/reclaim.md).

use crate::Mm;
use crate::memory::frame::flag;
use crate::memory::zone::Lru;
use crate::memory::zone::{ZONE_TAIL_DIRTY, ZONE_WRITEBACK};
use crate::policy::{FlusherWake, ReclaimThrottle, ScanBalance, ScanStop};
use crate::reclaim::page_list::Batch;
use crate::reclaim::scan::{
    DEF_PRIORITY, Met, SCAN_ORDER, SWAP_CLUSTER_MAX, ScanControl, scan_in_proportion,
};
use crate::reclaim::shrinker::SlabPressure;
use crate::watch::vmstat::{VmEvent, ZoneEvent};
use crate::world::event::{Event, IsolateMode, TrackPath};
use crate::world::{Audience, Class, Cost, ShortLock, Word32, Word64, World};

impl<W: World> Mm<W> {
    /// Scans the LRU lists of zone `z` once for a reclaimer (docs/reference/reclaim.md#zone-scan),
    /// and throttles it as the policy says; for a request of several contiguous pages, again until
    /// enough are free for compaction. Pages freed and scanned are added to `sc`.
    pub(crate) async fn shrink_zone(&self, z: usize, sc: &mut ScanControl) {
        loop {
            let (reclaimed_before, scanned) = (sc.nr_reclaimed, sc.nr_scanned);
            self.shrink_lruvec(z, sc).await;
            self.note_pressure(sc.nr_scanned - scanned);
            if self.policy.reclaim_throttle == ReclaimThrottle::Reasons {
                self.throttle_by_reasons(z, sc).await;
            }
            let reclaimed = sc.nr_reclaimed - reclaimed_before;
            if !self.should_continue_reclaim(z, reclaimed, sc) {
                break;
            }
        }
        if self.policy.writeout_throttle {
            self.throttle_vm_writeout(sc.gfp).await;
        }
    }

    /// Scans the LRU lists of a node, which are those of its first zone `home`, and asks shrinkers
    /// for their part (`shrink_node`, 4.8). The vmpressure worker is told, and the caller
    /// throttled, after both. Returns the objects that the shrinkers freed.
    pub(crate) async fn shrink_node(&self, home: usize, sc: &mut ScanControl) -> u64 {
        let nid = self.zones[home].node;
        let (before, mut objects) = (sc.nr_reclaimed, 0);
        loop {
            let (reclaimed_before, scanned) = (sc.nr_reclaimed, sc.nr_scanned);
            if self.has_groups() {
                sc.met = Met::default();
                self.prepare_scan(home, sc);
                objects += self.shrink_groups(home, sc).await;
            } else {
                self.shrink_lruvec(home, sc).await;
                if self.policy.writeout_throttle {
                    self.throttle_vm_writeout(sc.gfp).await;
                }
                let pressure = SlabPressure {
                    nid,
                    scanned: sc.nr_scanned - scanned,
                    lru: self.node_lru_pages(nid),
                };
                objects += self.shrink_slab(pressure, sc).await;
                self.world.relax().await;
            }
            if sc.target == 0 {
                self.note_pressure(sc.nr_scanned - scanned);
            }
            if self.policy.reclaim_throttle == ReclaimThrottle::Reasons {
                self.throttle_by_reasons(home, sc).await;
            }
            let reclaimed = sc.nr_reclaimed - reclaimed_before;
            if !self.should_continue_reclaim(home, reclaimed, sc) {
                break;
            }
        }
        if sc.nr_reclaimed == before {
            // `trim`: only file pages were scanned.
            sc.trim_failed |= sc.trim;
        } else if self.counts_failures() {
            self.nodes[nid as usize].kswapd_failures.set(0);
        }
        objects
    }

    /// Scans the LRU lists of zone `z` (or its node) once, then moves pages of the active anonymous
    /// list to the inactive one if that is too short.
    pub(super) async fn shrink_lruvec(&self, z: usize, sc: &mut ScanControl) {
        self.scan_zone(z, sc).await;
        if self.inactive_anon_is_low(z, sc.group) {
            self.shrink_active_list(z, Lru::ActiveAnon, SWAP_CLUSTER_MAX as u32, sc);
            self.world.relax().await;
        }
    }

    /// Scans as many pages of each LRU list of zone `z` (or its node) as [`Self::get_scan_count`]
    /// says, in batches of 32, until enough pages are freed.
    async fn scan_zone(&self, z: usize, sc: &mut ScanControl) {
        let reclaimed_before = sc.nr_reclaimed;
        if !self.has_groups() {
            sc.met = Met::default();
        }
        // `nr`: pages left to scan, by list in `SCAN_ORDER`.
        let mut nr = self.get_scan_count(z, sc);
        let targets = nr;
        // Direct reclaim at the first priority scans everything that it set out to scan.
        let mut adjusted = !sc.kswapd && sc.target == 0 && sc.priority == DEF_PRIORITY;
        self.world.start_plug();
        // The targets of inactive anon, active file and inactive file keep the loop running; active
        // anon alone does not.
        while nr[0] + nr[2] + nr[3] > 0 {
            for (i, lru) in SCAN_ORDER.into_iter().enumerate() {
                let n = nr[i].min(SWAP_CLUSTER_MAX);
                nr[i] -= n;
                if n > 0 {
                    self.shrink_list(z, lru, n as u32, sc).await;
                }
            }
            let reclaimed = sc.nr_reclaimed - reclaimed_before;
            match self.policy.scan_stop {
                ScanStop::AtOnce => {
                    if reclaimed >= sc.nr_to_reclaim && sc.priority < DEF_PRIORITY {
                        break;
                    }
                }
                stop @ (ScanStop::Proportional | ScanStop::Nudge) => {
                    if reclaimed < sc.nr_to_reclaim || adjusted {
                        continue;
                    }
                    adjusted = stop == ScanStop::Proportional;
                    if !scan_in_proportion(&mut nr, &targets) {
                        break;
                    }
                }
            }
        }
        self.world.finish_plug();
    }

    /// Scans `n` pages of an LRU list of zone `z` (or its node); an active list only if its
    /// inactive list is too short, or if `may_deactivate` allows it.
    async fn shrink_list(&self, z: usize, lru: Lru, n: u32, sc: &mut ScanControl) {
        match lru {
            Lru::ActiveAnon | Lru::ActiveFile if self.policy.scan_balance == ScanBalance::Cost => {
                if sc.may_deactivate[usize::from(lru.is_file())] {
                    self.shrink_active_list(z, lru, n, sc);
                    self.world.relax().await;
                } else {
                    sc.skipped_deactivate = true;
                }
            }
            Lru::ActiveAnon | Lru::ActiveFile => {
                let low = if lru.is_file() {
                    self.inactive_file_is_low(z)
                } else {
                    self.inactive_anon_is_low(z, sc.group)
                };
                if low {
                    self.shrink_active_list(z, lru, n, sc);
                    self.world.relax().await;
                }
            }
            _ => self.shrink_inactive_list(z, lru, n, sc).await,
        }
    }

    /// Takes up to `n` pages from the tail of an active list of zone `z` (or its node) and moves
    /// those that are not in use to the inactive list (docs/reference/reclaim.md#active-lists).
    pub(crate) fn shrink_active_list(&self, z: usize, lru: Lru, n: u32, sc: &mut ScanControl) {
        self.lru_add_drain();
        let (scanned, taken) = self.isolate(z, lru, n, IsolateMode::Active, sc);
        if !self.node_lru() {
            self.stat
                .zone_event(z, ZoneEvent::PgRefill, u64::from(scanned));
        }
        let own_list = self.isolated_list(self.world.task());
        // `rotated`: pages found in use, most of which move on all the same; `kept`: those that
        // stay active.
        let (mut rotated, mut deactivated, mut kept) = (0, 0, 0);
        let strips = self.buffer_heads_over_limit();
        let mut next = self.frames.last(own_list);
        for _ in 0..taken {
            let pfn = next;
            next = self.frames.table().before(pfn);
            let f = self.frames.flags(pfn);
            if strips && f & flag::UNEVICTABLE == 0 {
                self.strip_buffers(pfn);
            }
            let young = if self.frames.mapcount(pfn) > 0 {
                self.take_young(pfn)
            } else {
                0
            };
            if f & flag::UNEVICTABLE == 0 {
                if young > 0 {
                    rotated += 1;
                }
                if !(young > 0 && f & flag::EXEC != 0 && lru.is_file()) {
                    self.frames.clear_flags(pfn, flag::ACTIVE);
                    self.join_workingset(pfn);
                    deactivated += 1;
                } else {
                    kept += 1;
                }
            }
        }
        self.put_back_isolated(z, lru.is_file());
        if strips {
            self.settle_metadata();
        }
        self.count_rotated(z, lru.is_file(), rotated);
        self.note_cost((z, sc.group), lru.is_file(), 0, kept);
        self.stat.event(VmEvent::PgDeactivate, deactivated);
        self.count_isolated(z, lru.is_file(), -(taken as i32));
        self.world.charge(Cost::PageScan, taken);
    }

    /// Adds `n` rotated pages (kept or found in use) to the balance statistics of file or anonymous
    /// memory of zone `z` (or its node), under the list lock, because they are halved under that
    /// lock.
    fn count_rotated(&self, z: usize, file: bool, n: u64) {
        let zone = self.lru_home(z);
        zone.lru_lock.with(|| {
            zone.recent_rotated[usize::from(file)].fetch_add(n);
        });
    }

    /// Reclaims from one batch of up to `n` pages of an inactive list of zone `z` (or its node):
    /// isolates them, frees what it can, puts the rest back, and makes the reclaimer wait if the
    /// batch asks for it. Pages freed are added to `sc`. Waits first while too many pages are
    /// isolated.
    async fn shrink_inactive_list(&self, z: usize, lru: Lru, n: u32, sc: &mut ScanControl) {
        let file = lru.is_file();
        let reasons = self.policy.reclaim_throttle == ReclaimThrottle::Reasons;
        let mut stalled = false;
        while self.too_many_isolated(z, file, sc) {
            if reasons {
                if std::mem::replace(&mut stalled, true) {
                    return;
                }
                self.wait_for_isolated(z).await;
            } else {
                self.congestion_wait(Class::Async, self.tick_fraction(10))
                    .await;
            }
            if self.current().flags() & crate::memory::task::PF_DYING != 0 {
                // A task that was killed shall not scan on.
                sc.nr_reclaimed += SWAP_CLUSTER_MAX;
                return;
            }
        }
        self.note_path(TrackPath::Reclaim);
        self.lru_add_drain();
        let (scanned, taken) = self.isolate(z, lru, n, IsolateMode::Inactive, sc);
        let event = if sc.kswapd {
            ZoneEvent::PgScanKswapd
        } else {
            ZoneEvent::PgScanDirect
        };
        let (scans, steals) = match file {
            false => (VmEvent::PgScanAnon, VmEvent::PgStealAnon),
            true => (VmEvent::PgScanFile, VmEvent::PgStealFile),
        };
        // Those of a node's list are counted by their zones (`isolate`).
        if !self.node_lru() {
            self.stat.zone_event(z, event, u64::from(scanned));
        }
        self.stat.event(scans, u64::from(scanned));
        if taken == 0 {
            if scanned > 0 {
                // Nothing could be taken: an eviction policy chose pages that others hold, or the
                // pages of a node's list are of zones that the request cannot use.
                self.world.relax().await;
            }
            return;
        }
        let batch = self.shrink_page_list(z, lru, taken, sc).await;
        let rotated = self.put_back_isolated(z, file);
        self.count_rotated(z, file, rotated);
        self.count_isolated(z, file, -(taken as i32));
        let in_vain = u64::from(scanned) - batch.reclaimed;
        self.note_cost((z, sc.group), file, batch.pageout, in_vain);
        if batch.unqueued == u64::from(taken) && self.policy.flusher_wake == FlusherWake::TailDirty
        {
            self.wakeup_flusher_threads(0);
        }
        if sc.kswapd {
            self.stat.event(VmEvent::KswapdSteal, batch.reclaimed);
        }
        self.stat.event(steals, batch.reclaimed);
        if !self.node_lru() {
            self.count_stolen(z, sc.kswapd, batch.reclaimed);
        }
        sc.nr_reclaimed += batch.reclaimed;
        self.emit(Audience::Slowest, || Event::ShrinkInactive {
            nid: self.zones[z].node,
            zid: self.zones[z].kind.index() as u32,
            nr_scanned: scanned,
            nr_reclaimed: batch.reclaimed as u32,
            nr_dirty: batch.dirty as u32,
            nr_writeback: batch.writeback as u32,
            nr_congested: batch.congested as u32,
            nr_immediate: batch.immediate as u32,
            nr_activate: batch.activate,
            nr_ref_keep: batch.ref_keep,
            priority: u32::from(sc.priority),
            file,
        });
        // writeback-from-reclaim 6: the lower the priority, the fewer such pages make the reclaimer
        // wait.
        let found = match self.policy.reclaim_throttle {
            ReclaimThrottle::None => 0,
            ReclaimThrottle::ZoneFlags => {
                self.throttle_by_flags(z, taken, &batch, sc).await;
                0
            }
            ReclaimThrottle::Reasons => {
                self.note_met(taken, file, &batch, sc);
                0
            }
            ReclaimThrottle::Dirty | ReclaimThrottle::DirtyCounted => batch.dirty,
            ReclaimThrottle::Writeback => batch.writeback,
        };
        if found > 0 && found >= u64::from(taken) >> (DEF_PRIORITY - sc.priority) {
            self.throttle_for_batch(z).await;
        }
        self.world.relax().await;
    }

    /// Makes the reclaimer wait if zone `z` is congested, after a batch with too many dirty pages,
    /// or pages under writeback, for the scan's priority.
    async fn throttle_for_batch(&self, z: usize) {
        if self.policy.reclaim_throttle == ReclaimThrottle::DirtyCounted {
            self.stat.event(VmEvent::VmscanThrottled, 1);
        }
        self.wait_iff_congested(z, Class::Async, self.tick_fraction(10))
            .await;
    }

    /// Sets the flags of zone `z` if a whole batch of `taken` pages was dirty or under writeback,
    /// and makes the reclaimer wait if the batch asks for it (3.12,
    /// docs/reference/reclaim.md#zone-flags).
    async fn throttle_by_flags(&self, z: usize, taken: u32, batch: &Batch, sc: &ScanControl) {
        let (flags, taken) = (&self.zones[z].flags, u64::from(taken));
        if batch.writeback == taken {
            flags.fetch_or(ZONE_WRITEBACK);
        }
        if batch.unqueued == taken {
            flags.fetch_or(ZONE_TAIL_DIRTY);
        }
        let timeout = self.tick_fraction(10);
        if batch.immediate > 0 {
            self.congestion_wait(Class::Async, timeout).await;
        }
        if !sc.kswapd {
            self.wait_iff_congested(z, Class::Async, timeout).await;
        }
    }
}
