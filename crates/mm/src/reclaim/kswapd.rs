//! kswapd: one background reclaimer a node (docs/reference/reclaim.md#kswapd).

use crate::Mm;
use crate::memory::gfp::Gfp;
use crate::memory::task::{PF_KSWAPD, PF_KTHREAD, PF_MEMALLOC, PF_SWAPWRITE};
use crate::memory::zone::Lru;
use crate::memory::zone::{Mark, ZONE_CONGESTED, ZONE_TAIL_DIRTY, ZONE_WRITEBACK};
use crate::policy::{
    BalanceGap, FreeSnapshot, HopelessZones, KswapdLoop, KswapdSlab, KswapdWake, KswapdZone,
    LowerZones, ReclaimThrottle, WakeupTrace,
};
use crate::queue;
use crate::reclaim::scan::{DEF_PRIORITY, SWAP_CLUSTER_MAX, ScanControl};
use crate::reclaim::shrinker::SlabPressure;
use crate::watch::vmstat::{VmEvent, ZoneStat};
use crate::world::event::Event;
use crate::world::{Audience, Class, Cost, WaitQueue, Word32, World};

/// Above this share of a zone kswapd keeps reclaiming after the high watermark: 1 %.
const KSWAPD_ZONE_BALANCE_GAP_RATIO: u64 = 100;

/// The classzone of a request that names none.
const ALL_ZONES: u32 = 3;

/// The task flags of a kswapd.
pub const KSWAPD_FLAGS: u32 = PF_KSWAPD | PF_MEMALLOC | PF_SWAPWRITE | PF_KTHREAD;

impl<W: World> Mm<W> {
    /// Asks a zone's kswapd to work: if it sleeps and the zone is below its low watermark.
    pub(crate) fn wakeup_kswapd(&self, z: usize, gfp: Gfp, order: u32, classzone: usize) {
        let zone = &self.zones[z];
        let node = &self.nodes[zone.node as usize];
        self.world.charge(Cost::ZoneWalk, 1);
        let always = self.policy.wakeup_trace == WakeupTrace::Always;
        if always {
            // 2.6.37 knows no classzone.
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

    /// The mark above which a zone's kswapd is not woken for a single page; `None`: that depends on more.
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

    /// [`Self::wakeup_kswapd`] for a single page, where it is plain that it wakes nobody. `false`: nothing was done.
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

    /// Whether a zone's kswapd has to work for a request.
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

    /// Wakes tasks that were throttled for the reserves once those are refilled.
    fn wake_for_reserves(&self, nid: u32) {
        if self.reserves_ok(nid) {
            self.world.wake(self.emergency_queue(nid));
        }
    }

    /// A task that waits for the emergency reserves sees to it that kswapd works.
    pub(crate) fn wake_kswapd_for_reserves(&self, nid: u32) {
        let node = &self.nodes[nid as usize];
        if node.kswapd_sleeping.get() != 0 {
            node.ask_kswapd(0, crate::ZoneType::Normal as u32);
            node.kswapd_sleeping.set(0);
            self.world.wake(queue::kswapd(nid));
        }
    }

    /// Looks for waits around a node's kswapd that nothing would end: of tasks for reserves that a sleeping kswapd
    /// will not refill, and of a kswapd that was asked to work and not woken.
    ///
    /// # Errors
    /// Which of them there is.
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

    /// Whether a node's kswapd sleeps.
    pub fn kswapd_sleeps(&self, node: u32) -> bool {
        debug_assert!(
            (node as usize) < self.nodes.len(),
            "node {node} does not exist"
        );
        self.nodes[node as usize].kswapd_sleeping.get() != 0
    }

    /// The life of a kswapd. Never returns.
    pub async fn kswapd(&self, nid: u32) {
        debug_assert!(
            (nid as usize) < self.nodes.len(),
            "node {nid} does not exist"
        );
        let node = &self.nodes[nid as usize];
        let (mut order, mut classzone) = (0, ALL_ZONES as usize);
        // It sleeps for the order that it came down to, and works for the one that was asked for.
        let mut gave_up = false;
        loop {
            // The kernel tries to sleep before each balance run.
            if self.policy.kswapd_zone == KswapdZone::Highest {
                let asked = node.request();
                if !gave_up {
                    (order, classzone) = (asked.0, asked.1.unwrap_or(classzone));
                }
                let early = self.kswapd_try_to_sleep(nid, order, classzone).await;
                let asked = node.request();
                node.take_request();
                order = if early { asked.0.max(order) } else { asked.0 };
                classzone = asked.1.unwrap_or(classzone);
            } else {
                let asked = node.take_request();
                if order < asked.0 || classzone > asked.1 {
                    (order, classzone) = asked;
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
            order = self.balance_pgdat(nid, asked, classzone).await;
            gave_up = order < asked;
            self.set_reclaim_active(nid, classzone, false);
            self.boosts_answered(nid, boosts);
            self.world.memory_stall(false);
        }
    }

    /// Returns whether its short sleep was ended.
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
        // Whoever finds kswapd asleep wakes it after this ticket.
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

    /// Wakes every task that is throttled for the node's reserves, then says whether kswapd may sleep. Called with
    /// kswapd on its wait queue already (mm/vmscan.c `prepare_kswapd_sleep`).
    ///
    /// Pages may have come free in other ways than by its own scans (a process that ends frees its memory, another
    /// task reclaims), so that it never came to [`Self::wake_for_reserves`]. A task that finds the reserves still
    /// short wakes kswapd again before it waits again.
    fn prepare_kswapd_sleep(&self, nid: u32, order: u32, classzone: usize) -> bool {
        if self.policy.emergency_throttle {
            self.world.wake(self.emergency_queue(nid));
        }
        !self.sleeping_prematurely(nid, order, classzone)
    }

    /// Sleeps. Where watermarks adjust themselves, it looks after them now and then.
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

    /// Installs the normal counter thresholds while kswapd sleeps, the pressure ones otherwise.
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

    /// Whether some zone that matters is still below its high watermark.
    pub(crate) fn sleeping_prematurely(&self, nid: u32, order: u32, classzone: usize) -> bool {
        if self.node_lru() {
            return !self.some_balanced(nid, order, classzone)
                && match self.counts_failures() {
                    true => !self.node_hopeless(nid),
                    false => !self.zone_hopeless(usize::from(self.nodes[nid as usize].zones[0])),
                };
        }
        let (mut all_ok, mut balanced) = (true, 0);
        for &z in &self.nodes[nid as usize].zones {
            let (z, zone) = (usize::from(z), &self.zones[usize::from(z)]);
            if zone.kind.index() > classzone {
                continue;
            }
            if self.zone_hopeless(z) || self.balanced(z, order, self.own_classzone(z)) {
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

    /// Whether one of the zones that a request may use is above its high watermark: from 4.8 on that is enough.
    /// (kswapd's sleep wanted all of them, which was mended later.)
    fn some_balanced(&self, nid: u32, order: u32, classzone: usize) -> bool {
        let mut zones = self.nodes[nid as usize].zones.iter();
        zones.any(|&z| {
            let z = usize::from(z);
            self.zones[z].kind.index() <= classzone && self.balanced(z, order, classzone)
        })
    }

    /// Whether a zone is above its high watermark for kswapd's purposes, be it about to sleep or at
    /// work.
    ///
    /// With `free_snapshot = "while-awake"` the count differs between the two (2.6.37's
    /// `zone_nr_free_pages` asks whether kswapd is on its wait queue, which it is while it looks
    /// whether it may sleep): where the cheap count says that there is work and the exact one that there
    /// is none, kswapd would neither sleep nor work until the CPUs fold their differences, up to a
    /// second later. 2.6.38 ended that with `zone_watermark_ok_safe` in both places. So a zone that the
    /// balancing loop would find balanced lets it sleep.
    fn balanced(&self, z: usize, order: u32, classzone: usize) -> bool {
        let high = self.zones[z].mark(Mark::High);
        self.watermark_ok_safe(z, order, high, classzone)
            || (self.policy.free_snapshot == FreeSnapshot::WhileAwake
                && self.watermark_ok_exact(z, order, high, classzone))
    }

    /// Whether balanced zones with so many pages will do for a higher order.
    fn enough_balanced(&self, nid: u32, pages: u64) -> bool {
        let percent = u64::from(self.policy.order_balance_percent);
        pages >= self.nodes[nid as usize].size * percent / 100
    }

    /// The classzone of a test whether a zone by itself is balanced: 3.0 takes none, 3.11 the zone's
    /// own, which keeps nothing from itself either.
    fn own_classzone(&self, z: usize) -> usize {
        match self.policy.kswapd_loop {
            KswapdLoop::Restart => 0,
            KswapdLoop::Rounds => self.zones[z].kind.index(),
        }
    }

    /// Reclaims until the node's zones are above their high watermarks. Returns the order it
    /// ended with.
    async fn balance_pgdat(&self, nid: u32, mut order: u32, classzone: usize) -> u32 {
        if self.node_lru() {
            return self.balance_node(nid, order, classzone).await;
        }
        if self.policy.kswapd_loop == KswapdLoop::Rounds {
            return self.balance_in_rounds(nid, order, classzone).await;
        }
        loop {
            self.stat.event(VmEvent::PageOutRun, 1);
            let mut sc = ScanControl::new(u64::MAX, order, Gfp::KERNEL, classzone, true);
            let balanced = self.balance_pass(nid, classzone, &mut sc).await;
            self.set_dirty_pressure(nid, 0);
            self.kswapd_ran(nid, balanced, &sc);
            if balanced {
                return order;
            }
            self.world.relax().await;
            if sc.nr_reclaimed < SWAP_CLUSTER_MAX {
                order = 0;
            }
        }
    }

    /// The loop of 3.11: round after round over the zones that need it. The priority rises only when
    /// no zone was scanned for its whole target, or nothing was reclaimed.
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
                // *sequential-read* 3 as posted goes on here, so that the zone has no say in the priority.
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

    /// The loop of 4.8: the node's lists as a whole, until one of the zones that were asked for is
    /// balanced.
    async fn balance_node(&self, nid: u32, order: u32, classzone: usize) -> u32 {
        self.stat.event(VmEvent::PageOutRun, 1);
        let zones = &self.nodes[nid as usize].zones;
        let asked = || {
            let all = zones.iter().map(|&z| usize::from(z));
            all.filter(|&z| self.zones[z].kind.index() <= classzone)
        };
        let target = |z: usize| self.zones[z].mark(Mark::High).max(SWAP_CLUSTER_MAX);
        let mut sc = ScanControl::new(
            asked().map(target).sum(),
            order,
            Gfp::KERNEL,
            classzone,
            true,
        );
        let home = self.zones[usize::from(zones[0])].lru_home as usize;
        let mut reclaimed = 0;
        while sc.priority >= 1 && self.sleeping_prematurely(nid, sc.order, classzone) {
            self.world.charge(Cost::ZoneWalk, asked().count() as u32);
            (sc.nr_scanned, sc.nr_reclaimed) = (0, 0);
            sc.classzone = self.reclaim_classzone(classzone);
            if self.inactive_anon_is_low(home) {
                self.shrink_active_list(home, Lru::ActiveAnon, SWAP_CLUSTER_MAX as u32, &mut sc);
                self.world.relax().await;
            }
            let objects = self.shrink_node(home, &mut sc).await;
            self.mark_hopeless(home, objects);
            // Where free pages lie apart no reclaim may bring a block: with twice its pages single ones will do.
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
                if self.policy.trim_retry && sc.trim_failed && !sc.no_trim {
                    (sc.no_trim, sc.priority) = (true, DEF_PRIORITY);
                } else if self.counts_failures() {
                    self.nodes[nid as usize].kswapd_failures.fetch_add(1);
                    self.wake_for_reserves(nid);
                }
            }
            // Nobody else has a turn before it looks whether the node is balanced, and goes to sleep.
        }
        if sc.priority >= 1 {
            let flags = ZONE_CONGESTED | ZONE_TAIL_DIRTY | ZONE_WRITEBACK;
            self.zones[home].flags.fetch_and(!flags);
        }
        self.snapshot_refaults_of(nid);
        sc.order
    }

    /// Scans a zone unless it is balanced for requests up to `end_zone`. Returns whether enough was
    /// scanned.
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

    /// kswapd gives a zone up whose pages were scanned often enough for nothing, unless its shrinkers have
    /// freed `slab` objects (both loops, up to 3.11); otherwise it would go round over it until somebody
    /// frees pages. Where nodes have the lists it gives up all zones of the node.
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

    /// Asks the shrinkers for their part of what was scanned of a zone. Returns the objects that they freed.
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

    /// Whether a zone is HighMem whose pages hold more buffer heads in low memory than is good (3.4).
    fn owes_buffers(&self, z: usize) -> bool {
        self.zones[z].kind == crate::ZoneType::HighMem && self.reclaims_highmem()
    }

    /// Whether kswapd may leave a zone alone while a zone up to `end_zone` needs pages.
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

    /// One run from priority 12 downwards. Returns whether the node is balanced.
    async fn balance_pass(&self, nid: u32, classzone: usize, sc: &mut ScanControl) -> bool {
        let node = &self.nodes[nid as usize];
        let mut total_scanned = 0;
        for priority in (0..=DEF_PRIORITY).rev() {
            sc.priority = priority;
            let Some(end) = self.highest_unbalanced(nid, sc).await else {
                return true;
            };
            let mut end_zone = self.zones[end].kind.index();
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
                if shrinks || self.policy.kswapd_slab == KswapdSlab::EveryZone {
                    let slab = self.kswapd_shrink_slab(z, end_zone, sc).await;
                    self.world.relax().await;
                    total_scanned += sc.nr_scanned;
                    self.mark_hopeless(z, slab);
                }
                if total_scanned > SWAP_CLUSTER_MAX * 2
                    && total_scanned > sc.nr_reclaimed + sc.nr_reclaimed / 2
                {
                    sc.may_writepage = true;
                }
                if self.zone_hopeless(z) {
                    if end_zone == zone.kind.index() {
                        end_zone = end_zone.saturating_sub(1);
                    }
                    continue;
                }
                // The marks may have changed while it shrank.
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
                return true;
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
        false
    }

    /// Walks the zones high to low for the first one below its high watermark.
    async fn highest_unbalanced(&self, nid: u32, sc: &mut ScanControl) -> Option<usize> {
        for i in (0..self.nodes[nid as usize].zones.len()).rev() {
            let z = usize::from(self.nodes[nid as usize].zones[i]);
            let zone = &self.zones[z];
            self.world.charge(Cost::ZoneWalk, 1);
            if self.zone_hopeless(z) && sc.priority != DEF_PRIORITY {
                continue;
            }
            if self.inactive_anon_is_low(z) {
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
