//! kswapd: one background reclaimer for each node (docs/reference/reclaim.md#kswapd).

use crate::Mm;
use crate::memory::gfp::Gfp;
use crate::memory::task::{PF_KSWAPD, PF_KTHREAD, PF_MEMALLOC, PF_SWAPWRITE};
use crate::memory::zone::Lru;
use crate::memory::zone::{Mark, ZONE_CONGESTED, ZONE_TAIL_DIRTY, ZONE_WRITEBACK};
use crate::policy::{
    BalanceGap, FreeSnapshot, HopelessCheck, HopelessZones, KswapdLoop, KswapdRequest, KswapdSlab,
    KswapdSleepCheck, KswapdWake, KswapdZone, LowerZones, ReclaimThrottle, WakeupTrace,
};
use crate::queue;
use crate::reclaim::scan::{DEF_PRIORITY, SWAP_CLUSTER_MAX, ScanControl};
use crate::reclaim::shrinker::SlabPressure;
use crate::watch::vmstat::{VmEvent, ZoneStat};
use crate::world::event::Event;
use crate::world::{Audience, Class, Cost, WaitQueue, Word32, World};

/// The divisor of a zone's size that gives the gap above the high watermark up to which kswapd
/// keeps reclaiming: 1 % of the zone.
const KSWAPD_ZONE_BALANCE_GAP_RATIO: u64 = 100;

/// The classzone of a request that names none.
const ALL_ZONES: u32 = 3;

/// The task flags of a kswapd.
pub const KSWAPD_FLAGS: u32 = PF_KSWAPD | PF_MEMALLOC | PF_SWAPWRITE | PF_KTHREAD;

impl<W: World> Mm<W> {
    /// Records a request of 2^`order` pages up to zone type `classzone` for the kswapd of zone
    /// `z`'s node, and wakes it if it sleeps and the zone needs pages for the request
    /// (`kswapd_wanted`).
    pub(crate) fn wakeup_kswapd(&self, z: usize, gfp: Gfp, order: u32, classzone: usize) {
        let zone = &self.zones[z];
        let node = &self.nodes[zone.node as usize];
        self.world.charge(Cost::ZoneWalk, 1);
        let always = self.policy.wakeup_trace == WakeupTrace::Always;
        if always {
            // 2.6.37 has no classzone and tests the watermark before anything else.
            if !self.kswapd_wanted(z, order, classzone) {
                return;
            }
            node.ask_kswapd(order, ALL_ZONES);
        } else {
            match self.policy.kswapd_zone {
                KswapdZone::Lowest => node.ask_kswapd(order, classzone as u32),
                KswapdZone::Highest => node.ask_kswapd_up_to(order, classzone as u32),
            }
            if node.kswapd_sleeping.get() == 0
                || self.node_hopeless(zone.node)
                || !self.kswapd_wanted(z, order, classzone)
            {
                return;
            }
        }
        self.emit(Audience::Sums, || Event::WakeupKswapd {
            nid: zone.node,
            zid: zone.kind.index() as u32,
            order,
            gfp: gfp.0,
        });
        if always && node.kswapd_sleeping.get() == 0 {
            return;
        }
        node.kswapd_sleeping.set(0);
        self.world.wake(queue::kswapd(zone.node));
    }

    /// Returns the watermark above which [`Self::wakeup_kswapd`] leaves kswapd asleep for a single
    /// page. `None`: the policy needs the full test (`kswapd_wanted`).
    #[inline(always)]
    pub(crate) fn wake_mark(&self) -> Option<Mark> {
        let policy = &self.policy;
        let plain = policy.wakeup_trace != WakeupTrace::Always
            && policy.kswapd_zone == KswapdZone::Lowest
            && policy.free_snapshot != FreeSnapshot::WhileAwake
            && !self.boosts_zones();
        match policy.kswapd_wake {
            KswapdWake::Low if plain => Some(Mark::Low),
            KswapdWake::High if plain => Some(Mark::High),
            _ => None,
        }
    }

    /// Does the work of [`Self::wakeup_kswapd`] for a single page if a quick test shows that no
    /// kswapd has to be woken: it is awake already, or the zone is above `mark`
    /// ([`Self::wake_mark`]). Returns false if the full test is needed; nothing was done then.
    #[inline(always)]
    pub(crate) fn wakes_nobody(&self, z: usize, mark: Mark, classzone: usize) -> bool {
        let zone = &self.zones[z];
        let node = &self.nodes[zone.node as usize];
        if node.kswapd_sleeping.get() != 0 {
            let mut free = self.stat.zone(z, ZoneStat::NrFreePages);
            if free < zone.percpu_drift_mark() {
                free = self.stat.snapshot(z, ZoneStat::NrFreePages);
            }
            if free <= zone.mark(mark) + zone.reserve(0) + 2 {
                return false;
            }
        }
        self.world.charge(Cost::ZoneWalk, 1);
        node.ask_kswapd(0, classzone as u32);
        true
    }

    /// Returns true if a request of 2^`order` pages up to zone type `classzone` wants the kswapd of
    /// zone `z` to work: the watermark that `kswapd_wake` names is not met, or a zone of the node
    /// is boosted.
    #[inline]
    fn kswapd_wanted(&self, z: usize, order: u32, classzone: usize) -> bool {
        let zone = &self.zones[z];
        let ok = match self.policy.kswapd_wake {
            KswapdWake::Low => self.watermark_ok_safe(z, order, zone.mark(Mark::Low), 0),
            KswapdWake::High => self.watermark_ok_safe(z, order, zone.mark(Mark::High), 0),
            KswapdWake::Unbalanced => self.some_balanced(zone.node, order, classzone),
        };
        !ok || self.node_boosted(zone.node, classzone)
    }

    /// Wakes tasks that are throttled for the reserves of node `nid` if those are refilled
    /// (`reserves_ok`).
    fn wake_for_reserves(&self, nid: u32) {
        if self.reserves_ok(nid) {
            self.world.wake(self.emergency_queue(nid));
        }
    }

    /// Wakes the kswapd of node `nid`, if it sleeps, on behalf of a task that waits for the node's
    /// emergency reserves.
    pub(crate) fn wake_kswapd_for_reserves(&self, nid: u32) {
        let node = &self.nodes[nid as usize];
        if node.kswapd_sleeping.get() != 0 {
            node.ask_kswapd(0, crate::ZoneType::Normal as u32);
            node.kswapd_sleeping.set(0);
            self.world.wake(queue::kswapd(nid));
        }
    }

    /// Looks for waits around a node's kswapd that nothing would end: tasks that wait for reserves
    /// which a sleeping kswapd will not refill, and a kswapd that was asked to work but not woken.
    ///
    /// # Errors
    /// A text that names the wait which was found.
    pub(crate) fn check_kswapd_waits(&self, nid: u32) -> Result<(), String> {
        let sleeps = self.kswapd_sleeps(nid);
        if sleeps && self.world.waited_on(self.emergency_queue(nid)) {
            let found = match self.reserves_ok(nid) {
                true => "which are there",
                false => "which are used up",
            };
            return Err(format!(
                "a task waits in vain for the reserves of node {nid}, {found}: its kswapd sleeps"
            ));
        }
        if !sleeps && self.world.waited_on(queue::kswapd(nid)) {
            return Err(format!(
                "kswapd of node {nid} waits in vain: it was asked to work"
            ));
        }
        Ok(())
    }

    /// Returns true if a node's kswapd sleeps.
    pub fn kswapd_sleeps(&self, node: u32) -> bool {
        debug_assert!(
            (node as usize) < self.nodes.len(),
            "node {node} does not exist"
        );
        self.nodes[node as usize].kswapd_sleeping.get() != 0
    }

    /// Runs the kswapd of node `nid`: tries to sleep, then balances the node, for ever. Never
    /// returns.
    pub async fn kswapd(&self, nid: u32) {
        debug_assert!(
            (nid as usize) < self.nodes.len(),
            "node {nid} does not exist"
        );
        let node = &self.nodes[nid as usize];
        let (mut order, mut classzone) = (0, ALL_ZONES as usize);
        // The request that the last run answered (`kswapd_request = "after-success"`).
        let mut answered = (0, self.highest_zone(nid));
        // After a run that had to lower its order, kswapd tests whether it may sleep with the lower
        // order, and then works for the order that was asked for.
        let mut gave_up = false;
        loop {
            // The kernel tries to sleep before each balance run.
            if self.policy.kswapd_zone == KswapdZone::Highest {
                let asked = node.request();
                // A request is an order and, if anything was asked for, a classzone.
                if !gave_up {
                    (order, classzone) = (asked.0, asked.1.unwrap_or(classzone));
                }
                let early = self.kswapd_try_to_sleep(nid, order, classzone).await;
                let asked = node.request();
                node.take_request();
                order = if early { asked.0.max(order) } else { asked.0 };
                classzone = asked.1.unwrap_or(classzone);
            } else {
                answered = self.next_kswapd_request(nid, (order, classzone), answered);
                if order < answered.0 || classzone > answered.1 {
                    (order, classzone) = answered;
                } else {
                    self.kswapd_try_to_sleep(nid, order, classzone).await;
                    (order, classzone) = node.take_request();
                }
            }
            self.emit(Audience::Sums, || Event::KswapdWake { nid, order });
            self.world.memory_stall(true);
            self.set_reclaim_active(nid, classzone, true);
            let boosts = self.reclaim_boosts(nid, order, classzone).await;
            let asked = order;
            let reached;
            (order, reached) = self.balance_pgdat(nid, asked, classzone).await;
            gave_up = order < asked;
            self.set_reclaim_active(nid, classzone, false);
            classzone = reached;
            self.boosts_answered(nid, boosts);
            self.world.memory_stall(false);
        }
    }

    /// Returns the request that kswapd compares its last run with, an order and a classzone: what
    /// was asked for since the last look, or, with `kswapd_request = "after-success"` after a run
    /// that ended `(order, classzone)` short of the request `answered`, that request again.
    pub(crate) fn next_kswapd_request(
        &self,
        nid: u32,
        ended: (u32, usize),
        answered: (u32, usize),
    ) -> (u32, usize) {
        let short = ended.1 < answered.1 || ended.0 != answered.0;
        match self.policy.kswapd_request {
            KswapdRequest::RunZone | KswapdRequest::EveryRun => {
                self.nodes[nid as usize].take_request()
            }
            KswapdRequest::AfterSuccess if short => answered,
            KswapdRequest::AfterSuccess => {
                let asked = self.nodes[nid as usize].take_request();
                (asked.0, asked.1.min(self.highest_zone(nid)))
            }
        }
    }

    /// Returns the type index of the highest zone of node `nid` (`nr_zones - 1`).
    fn highest_zone(&self, nid: u32) -> usize {
        let highest = self.nodes[nid as usize].zones.last();
        highest.map_or(0, |&z| self.zones[usize::from(z)].kind.index())
    }

    /// Sleeps a tenth of a second and then, if the node is still balanced, until kswapd is woken.
    /// Does not sleep at all if the node is not balanced. Returns true if a wakeup ended the short
    /// sleep.
    async fn kswapd_try_to_sleep(&self, nid: u32, order: u32, classzone: usize) -> bool {
        let node = &self.nodes[nid as usize];
        let q = queue::kswapd(nid);
        let ticket = self.world.ticket(q);
        node.kswapd_sleeping.set(1);
        if !self.prepare_kswapd_sleep(nid, order, classzone) {
            node.kswapd_sleeping.set(0);
            self.world.relax().await;
            return false;
        }
        let woken_early = self
            .world
            .wait(q, ticket, Some(self.tick_fraction(10)))
            .await;
        // The ticket is taken before the flag is set: a task that sees kswapd asleep wakes the
        // queue after this ticket, so that its wakeup is not lost.
        let ticket = self.world.ticket(q);
        node.kswapd_sleeping.set(1);
        if !woken_early && self.prepare_kswapd_sleep(nid, order, classzone) {
            self.emit(Audience::Sums, || Event::KswapdSleep { nid });
            self.set_thresholds(nid, true);
            self.sleep_until_woken(nid, q, ticket).await;
            self.set_thresholds(nid, false);
        } else if woken_early {
            self.stat.event(VmEvent::KswapdLowWmarkHitQuickly, 1);
        } else {
            self.stat.event(VmEvent::KswapdHighWmarkHitQuickly, 1);
        }
        node.kswapd_sleeping.set(0);
        woken_early
    }

    /// Wakes every task that is throttled for the node's reserves, then returns true if kswapd may
    /// sleep. Called when kswapd is on its wait queue already (mm/vmscan.c `prepare_kswapd_sleep`).
    ///
    /// Pages may have come free in other ways than by kswapd's own scans (a process that ends frees
    /// its memory, another task reclaims), and [`Self::wake_for_reserves`] was not called then. A
    /// task that finds the reserves still short wakes kswapd again before it waits again.
    fn prepare_kswapd_sleep(&self, nid: u32, order: u32, classzone: usize) -> bool {
        if self.policy.emergency_throttle {
            self.world.wake(self.emergency_queue(nid));
        }
        !self.sleeping_prematurely(nid, order, classzone)
    }

    /// Sleeps in the queue `q` until the kswapd of node `nid` is woken. Where watermarks adjust
    /// themselves, it wakes up now and then to let them decay (`decay_marks`).
    async fn sleep_until_woken(&self, nid: u32, q: WaitQueue, mut ticket: u64) {
        while let Some(pause) = self.until_decay(nid) {
            if self.world.wait(q, ticket, Some(pause)).await {
                return;
            }
            ticket = self.world.ticket(q);
            self.decay_marks(nid);
            if self.nodes[nid as usize].kswapd_sleeping.get() == 0 {
                return;
            }
        }
        self.world.wait(q, ticket, None).await;
    }

    /// Sets the thresholds of the per-CPU counter differences of a node's zones: the normal ones
    /// while kswapd sleeps, the smaller ones otherwise, so that counts of free pages are more
    /// exact.
    fn set_thresholds(&self, nid: u32, normal: bool) {
        if self.policy.free_snapshot == FreeSnapshot::WhileAwake {
            return;
        }
        for &z in &self.nodes[nid as usize].zones {
            let zone = &self.zones[usize::from(z)];
            if zone.percpu_drift_mark() != 0 {
                let t = if normal {
                    &zone.normal_threshold
                } else {
                    &zone.pressure_threshold
                };
                self.stat.set_threshold(usize::from(z), t.get());
            }
        }
    }

    /// Returns true if the kswapd of node `nid` must not sleep yet. Where zones have the lists:
    /// some zone up to `classzone` (any, with `kswapd_sleep_check = "all-zones"`) that is not
    /// hopeless is below its high watermark, or, for a higher order, the others have too few pages.
    /// Where nodes have the lists: none of these zones is above its high watermark, and the node is
    /// not hopeless.
    pub(crate) fn sleeping_prematurely(&self, nid: u32, order: u32, classzone: usize) -> bool {
        if self.node_lru() {
            return !self.some_balanced(nid, order, classzone)
                && match self.counts_failures() {
                    true => !self.node_hopeless(nid),
                    false => !self.zone_hopeless(usize::from(self.nodes[nid as usize].zones[0])),
                };
        }
        let all_zones = self.policy.kswapd_sleep_check == KswapdSleepCheck::AllZones;
        let (mut all_ok, mut balanced) = (true, 0);
        for &z in &self.nodes[nid as usize].zones {
            let (z, zone) = (usize::from(z), &self.zones[usize::from(z)]);
            if zone.kind.index() > classzone && !all_zones {
                continue;
            }
            let against = match all_zones {
                true => classzone,
                false => self.own_classzone(z),
            };
            if self.zone_hopeless(z) || self.balanced(z, order, against) {
                balanced += u64::from(zone.size);
            } else {
                all_ok = false;
            }
        }
        if order > 0 {
            !self.enough_balanced(nid, balanced)
        } else {
            !all_ok
        }
    }

    /// Returns true if one of the zones of node `nid` that a request may use is above its high
    /// watermark. From 4.8 on that is enough (at first kswapd's sleep test wanted all of them,
    /// which a later release mended).
    fn some_balanced(&self, nid: u32, order: u32, classzone: usize) -> bool {
        let mut zones = self.nodes[nid as usize].zones.iter();
        zones.any(|&z| {
            let z = usize::from(z);
            self.zones[z].kind.index() <= classzone && self.balanced(z, order, classzone)
        })
    }

    /// Returns true if a zone is above its high watermark for a request of 2^`order` pages up to
    /// `classzone`, for a kswapd about to sleep as for one at work.
    ///
    /// With `free_snapshot = "while-awake"` the count differs between the two: 2.6.37's
    /// `zone_nr_free_pages` tests whether kswapd is on its wait queue, where it is while it tests
    /// whether it may sleep. If the cheap count found work and the exact one found none, kswapd
    /// would neither sleep nor work until the CPUs fold their counter differences, up to a second
    /// later. 2.6.38 ended that with `zone_watermark_ok_safe` in both places. So kswapd may also
    /// sleep if the balancing loop would find the zone balanced.
    fn balanced(&self, z: usize, order: u32, classzone: usize) -> bool {
        let high = self.zones[z].mark(Mark::High);
        self.watermark_ok_safe(z, order, high, classzone)
            || (self.policy.free_snapshot == FreeSnapshot::WhileAwake
                && self.watermark_ok_exact(z, order, high, classzone))
    }

    /// Returns true if `pages`, the pages of the balanced zones, are a large enough part of the
    /// node for a request of a higher order (`order_balance_percent`).
    fn enough_balanced(&self, nid: u32, pages: u64) -> bool {
        let percent = u64::from(self.policy.order_balance_percent);
        pages >= self.nodes[nid as usize].size * percent / 100
    }

    /// Returns the classzone for testing whether a zone by itself is balanced: none (0) in 3.0; in
    /// 3.11 the zone's own index, for which the zone keeps no reserve either.
    fn own_classzone(&self, z: usize) -> usize {
        match self.policy.kswapd_loop {
            KswapdLoop::Restart => 0,
            KswapdLoop::Rounds => self.zones[z].kind.index(),
        }
    }

    /// Reclaims, as the kswapd of node `nid`, until its zones up to `classzone` are above their
    /// high watermarks. Returns the order that it ended with, which is lower than `order` if it
    /// gave up on contiguous pages, and the classzone that it ended with: in 2.6.38 to 3.10 the
    /// highest zone that its last pass found unbalanced and did not give up; `classzone` with
    /// `kswapd_request = "run-zone"`.
    pub(crate) async fn balance_pgdat(
        &self,
        nid: u32,
        mut order: u32,
        classzone: usize,
    ) -> (u32, usize) {
        if self.node_lru() {
            return (self.balance_node(nid, order, classzone).await, classzone);
        }
        if self.policy.kswapd_loop == KswapdLoop::Rounds {
            return (
                self.balance_in_rounds(nid, order, classzone).await,
                classzone,
            );
        }
        let reports_zone = self.policy.kswapd_request != KswapdRequest::RunZone;
        loop {
            self.stat.event(VmEvent::PageOutRun, 1);
            let mut sc = ScanControl::new(u64::MAX, order, Gfp::KERNEL, classzone, true);
            let (balanced, end_zone) = self.balance_pass(nid, classzone, &mut sc).await;
            self.set_dirty_pressure(nid, 0);
            self.kswapd_ran(nid, balanced, &sc);
            if balanced {
                return (order, if reports_zone { end_zone } else { classzone });
            }
            self.world.relax().await;
            if sc.nr_reclaimed < SWAP_CLUSTER_MAX {
                order = 0;
            }
        }
    }

    /// Balances node `nid` with the loop of 3.11: round after round over the zones that need it.
    /// Scanning gets harder (the priority falls) only when no zone was scanned for its whole
    /// target, or nothing was reclaimed. Returns the order that it ended with.
    async fn balance_in_rounds(&self, nid: u32, mut order: u32, classzone: usize) -> u32 {
        self.stat.event(VmEvent::PageOutRun, 1);
        let mut sc = ScanControl::new(0, order, Gfp::KERNEL, classzone, true);
        let node = &self.nodes[nid as usize];
        loop {
            sc.nr_reclaimed = 0;
            let Some(end) = self.highest_unbalanced(nid, &mut sc).await else {
                break;
            };
            let end_zone = self.zones[end].kind.index();
            let mut raise_priority = true;
            for i in 0..node.zones.len() {
                let z = usize::from(node.zones[i]);
                if self.zones[z].kind.index() > end_zone {
                    break;
                }
                if sc.priority != DEF_PRIORITY && self.zone_hopeless(z) {
                    continue;
                }
                self.world.charge(Cost::ZoneWalk, 1);
                sc.nr_scanned = 0;
                // *sequential-read* 3 as posted skips a balanced zone here, so that the zone has no
                // influence on the priority.
                if self.policy.lower_zones == LowerZones::SkipBalanced
                    && self.lower_zone_balanced(z, sc.order, end_zone)
                {
                    continue;
                }
                if self.kswapd_shrink_zone(z, end_zone, &mut sc).await {
                    raise_priority = false;
                }
            }
            self.wake_for_reserves(nid);
            if order > 0 && sc.nr_reclaimed >= 2 << order {
                (order, sc.order) = (0, 0);
            }
            if sc.nr_dirty_file > 0 && sc.priority < DEF_PRIORITY - 2 {
                self.set_dirty_pressure(nid, DEF_PRIORITY - sc.priority);
            }
            if raise_priority || sc.nr_reclaimed == 0 {
                sc.priority -= 1;
            }
            self.world.relax().await;
            if sc.priority < 1 || !self.sleeping_prematurely(nid, order, classzone) {
                break;
            }
        }
        self.set_dirty_pressure(nid, 0);
        order
    }

    /// Balances a node with the loop of 4.8: scans the node's lists as a whole, at falling
    /// priorities, until one of the zones up to `classzone` is balanced. Returns the order that it
    /// ended with.
    async fn balance_node(&self, nid: u32, order: u32, classzone: usize) -> u32 {
        self.stat.event(VmEvent::PageOutRun, 1);
        let zones = &self.nodes[nid as usize].zones;
        let usable = || {
            let all = zones.iter().map(|&z| usize::from(z));
            all.filter(|&z| self.zones[z].kind.index() <= classzone)
        };
        let target = |z: usize| self.zones[z].mark(Mark::High).max(SWAP_CLUSTER_MAX);
        let mut sc = ScanControl::new(
            usable().map(target).sum(),
            order,
            Gfp::KERNEL,
            classzone,
            true,
        );
        let home = self.zones[usize::from(zones[0])].lru_home as usize;
        let mut reclaimed = 0;
        while sc.priority >= 1 && self.sleeping_prematurely(nid, sc.order, classzone) {
            self.world.charge(Cost::ZoneWalk, usable().count() as u32);
            (sc.nr_scanned, sc.nr_reclaimed) = (0, 0);
            sc.classzone = self.reclaim_classzone(classzone);
            self.age_groups(home, &mut sc).await;
            let objects = self.shrink_node(home, &mut sc).await;
            self.mark_hopeless(home, objects);
            // Where free memory is fragmented, reclaim may never bring a contiguous block: once
            // twice the block's pages were freed, go on for single pages.
            if sc.order > 0 && sc.nr_reclaimed >= 2 << sc.order {
                sc.order = 0;
            }
            if self.policy.reclaim_throttle != ReclaimThrottle::Reasons {
                self.zones[home].flags.fetch_and(!ZONE_WRITEBACK);
            }
            self.wake_for_reserves(nid);
            if sc.nr_scanned < sc.nr_to_reclaim || sc.nr_reclaimed == 0 {
                sc.priority -= 1;
            }
            reclaimed += sc.nr_reclaimed;
            if sc.priority == 0 && reclaimed == 0 {
                // Another try, in which anonymous pages are scanned although file pages seem
                // enough.
                if self.policy.trim_retry && sc.trim_failed && !sc.no_trim {
                    (sc.no_trim, sc.priority) = (true, DEF_PRIORITY);
                } else if self.counts_failures() {
                    self.nodes[nid as usize].kswapd_failures.fetch_add(1);
                    self.wake_for_reserves(nid);
                }
            }
            // No other task runs between here and the test whether the node is balanced and kswapd
            // may sleep.
        }
        if sc.priority >= 1 {
            let flags = ZONE_CONGESTED | ZONE_TAIL_DIRTY | ZONE_WRITEBACK;
            self.zones[home].flags.fetch_and(!flags);
        }
        self.snapshot_refaults_of(nid);
        sc.order
    }

    /// Scans zone `z` and calls its shrinkers, unless it is balanced for requests up to `end_zone`.
    /// Returns true if it was balanced, or its whole target was scanned.
    async fn kswapd_shrink_zone(&self, z: usize, end_zone: usize, sc: &mut ScanControl) -> bool {
        let zone = &self.zones[z];
        sc.nr_to_reclaim = zone.mark(Mark::High).max(SWAP_CLUSTER_MAX);
        if self.lower_zone_balanced(z, sc.order, end_zone) {
            return true;
        }
        self.shrink_zone(z, sc).await;
        let slab = self.kswapd_shrink_slab(z, end_zone, sc).await;
        self.world.relax().await;
        self.mark_hopeless(z, slab);
        zone.flags.fetch_and(!ZONE_WRITEBACK);
        let classzone = match self.policy.lower_zones {
            LowerZones::HighAlone => 0,
            LowerZones::Gap | LowerZones::SkipBalanced => end_zone,
        };
        if self.zone_reclaimable(z)
            && self.watermark_ok_safe(z, sc.order, zone.mark(Mark::High), classzone)
        {
            zone.flags.fetch_and(!(ZONE_CONGESTED | ZONE_TAIL_DIRTY));
        }
        sc.nr_scanned >= sc.nr_to_reclaim
    }

    /// Gives zone `z` up if its pages were scanned often enough for nothing, unless its shrinkers
    /// have freed `slab` objects (both loops, up to 3.11); otherwise kswapd would scan it over and
    /// over until another task frees pages. Where nodes have the lists, all zones of the node are
    /// given up.
    pub(crate) fn mark_hopeless(&self, z: usize, slab: u64) {
        let zone = self.lru_home(z);
        if self.policy.hopeless_zones == HopelessZones::Marked
            && zone.all_unreclaimable.get() == 0
            && slab == 0
            && !self.zone_reclaimable(z)
        {
            zone.all_unreclaimable.set(1);
        }
    }

    /// Asks the shrinkers for objects in proportion to the pages of zone `z` that were scanned,
    /// compared with those on the lists of the node up to `end_zone`. Returns the objects that they
    /// freed.
    pub(crate) async fn kswapd_shrink_slab(
        &self,
        z: usize,
        end_zone: usize,
        sc: &mut ScanControl,
    ) -> u64 {
        let nid = self.zones[z].node;
        let pressure = SlabPressure {
            nid,
            scanned: sc.nr_scanned,
            lru: self.lru_pages_of_node(nid, end_zone),
        };
        self.shrink_slab(pressure, sc).await
    }

    /// Returns true if a zone is HighMem and its pages have too many buffer heads, which take low
    /// memory, so that it is reclaimed though it is balanced (3.4).
    fn owes_buffers(&self, z: usize) -> bool {
        self.zones[z].kind == crate::ZoneType::HighMem && self.reclaims_highmem()
    }

    /// Returns true if kswapd may leave zone `z` alone while it balances the node for zones up to
    /// `end_zone`: the zone is above its high watermark, with `LowerZones::Gap` by the balance gap,
    /// and it is no HighMem zone whose pages have too many buffer heads.
    fn lower_zone_balanced(&self, z: usize, order: u32, end_zone: usize) -> bool {
        let zone = &self.zones[z];
        if self.owes_buffers(z) {
            return false;
        }
        let high = zone.mark(Mark::High);
        match self.policy.lower_zones {
            LowerZones::Gap => {
                let enough = match self.policy.balance_gap {
                    BalanceGap::EightTimesHigh => 8 * high,
                    BalanceGap::OnePercent => {
                        let share = u64::from(zone.size).div_ceil(KSWAPD_ZONE_BALANCE_GAP_RATIO);
                        high + zone.mark(Mark::Low).min(share)
                    }
                };
                self.watermark_ok_safe(z, order, enough, end_zone)
            }
            LowerZones::SkipBalanced | LowerZones::HighAlone => {
                self.watermark_ok_safe(z, order, high, 0)
            }
        }
    }

    /// Reclaims in the zones of node `nid` up to the highest unbalanced one, once at each priority
    /// from 12 down to 0, until they are balanced (3.0's loop of kswapd). Returns true if the node
    /// is balanced, false after a priority that reclaimed enough or after the last one; and the
    /// type of the highest zone that it worked for, 0 if it found none to do.
    async fn balance_pass(
        &self,
        nid: u32,
        classzone: usize,
        sc: &mut ScanControl,
    ) -> (bool, usize) {
        let node = &self.nodes[nid as usize];
        let after_mark = self.policy.hopeless_check == HopelessCheck::AfterMark;
        let (mut total_scanned, mut end_zone) = (0, 0);
        for priority in (0..=DEF_PRIORITY).rev() {
            sc.priority = priority;
            let Some(end) = self.highest_unbalanced(nid, sc).await else {
                return (true, end_zone);
            };
            end_zone = self.zones[end].kind.index();
            let (mut all_ok, mut under_min, mut balanced) = (true, false, 0);
            for i in 0..node.zones.len() {
                let z = usize::from(node.zones[i]);
                let zone = &self.zones[z];
                if zone.kind.index() > end_zone {
                    break;
                }
                if self.zone_hopeless(z) && priority != DEF_PRIORITY {
                    continue;
                }
                self.world.charge(Cost::ZoneWalk, 1);
                sc.nr_scanned = 0;
                let shrinks = !self.lower_zone_balanced(z, sc.order, end_zone);
                if shrinks {
                    self.shrink_zone(z, sc).await;
                }
                let given_up = self.zone_hopeless(z);
                if shrinks || self.policy.kswapd_slab == KswapdSlab::EveryZone {
                    let slab = self.kswapd_shrink_slab(z, end_zone, sc).await;
                    self.world.relax().await;
                    total_scanned += sc.nr_scanned;
                    self.mark_hopeless(z, slab);
                }
                if !after_mark && given_up {
                    continue;
                }
                if total_scanned > SWAP_CLUSTER_MAX * 2
                    && total_scanned > sc.nr_reclaimed + sc.nr_reclaimed / 2
                {
                    sc.may_writepage = true;
                }
                if after_mark && self.zone_hopeless(z) {
                    if end_zone == zone.kind.index() {
                        end_zone = end_zone.saturating_sub(1);
                    }
                    continue;
                }
                // The marks may have changed while the zone was scanned.
                let high = zone.mark(Mark::High);
                if !self.watermark_ok_safe(z, sc.order, high, end_zone) {
                    all_ok = false;
                    self.kswapd_has_trouble(z, sc, total_scanned);
                    if !self.watermark_ok_safe(z, sc.order, zone.mark(Mark::Min), end_zone) {
                        under_min = true;
                    }
                } else {
                    zone.flags.fetch_and(!ZONE_CONGESTED);
                    if zone.kind.index() <= classzone {
                        balanced += u64::from(zone.size);
                    }
                }
            }
            if all_ok || (sc.order > 0 && self.enough_balanced(nid, balanced)) {
                return (true, end_zone);
            }
            if sc.nr_dirty_file > 0 && priority < DEF_PRIORITY - 2 {
                self.set_dirty_pressure(nid, DEF_PRIORITY - priority);
            }
            if total_scanned > 0 && priority < DEF_PRIORITY - 2 {
                if under_min {
                    self.stat.event(VmEvent::KswapdSkipCongestionWait, 1);
                } else {
                    self.congestion_wait(Class::Async, self.tick_fraction(10))
                        .await;
                }
            }
            if sc.nr_reclaimed >= SWAP_CLUSTER_MAX {
                break;
            }
        }
        (false, end_zone)
    }

    /// Returns the highest zone of node `nid` that is below its high watermark, or owes buffer
    /// heads; `None`: there is none. Shrinks the active anonymous lists that it passes where their
    /// inactive lists are too short.
    async fn highest_unbalanced(&self, nid: u32, sc: &mut ScanControl) -> Option<usize> {
        for i in (0..self.nodes[nid as usize].zones.len()).rev() {
            let z = usize::from(self.nodes[nid as usize].zones[i]);
            let zone = &self.zones[z];
            self.world.charge(Cost::ZoneWalk, 1);
            if self.zone_hopeless(z) && sc.priority != DEF_PRIORITY {
                continue;
            }
            if self.inactive_anon_is_low(z, 0) {
                self.shrink_active_list(z, Lru::ActiveAnon, SWAP_CLUSTER_MAX as u32, sc);
                self.world.relax().await;
            }
            if self.owes_buffers(z)
                || !self.watermark_ok_safe(z, sc.order, zone.mark(Mark::High), 0)
            {
                return Some(z);
            }
            zone.flags.fetch_and(!(ZONE_CONGESTED | ZONE_TAIL_DIRTY));
        }
        None
    }
}
