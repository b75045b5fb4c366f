//! Scanning LRU lists: how much, in which order, and what becomes of each page (docs/reference/reclaim.md).

use crate::alloc::Gfp;
use crate::frame::{Page, flag};
use crate::lru::Lru;
use crate::policy::{
    HopelessZones, ReclaimThrottle, ReclaimWriteback, References, ScanBalance, ScanStop, SmallScan,
};
use crate::task::{PF_KSWAPD, PF_SWAPWRITE};
use crate::trace::{Event, IsolateMode, TrackPath};
use crate::vmstat::{VmEvent, ZoneEvent, ZoneStat};
use crate::world::{Class, Cost, ShortLock, Word32, Word64, World, WritebackControl, Writepage};
use crate::zone::{Mark, ZONE_CONGESTED, ZONE_TAIL_DIRTY, ZONE_WRITEBACK};
use crate::{Mm, Pfn, queue};

/// Pages scanned and reclaimed at a time.
pub const SWAP_CLUSTER_MAX: u64 = 32;
/// The first, gentlest priority; every step down doubles the share of a list that is scanned.
pub const DEF_PRIORITY: u8 = 12;

/// One invocation of reclaim.
#[derive(Debug, Clone, Copy)]
pub struct ScanControl {
    /// Stop after this many pages.
    pub nr_to_reclaim: u64,
    /// Pages examined by the page loop; a mapped or swap-cache page counts twice.
    pub nr_scanned: u64,
    /// Pages freed.
    pub nr_reclaimed: u64,
    /// Dirty file pages met.
    pub nr_dirty_file: u64,
    /// May write pages.
    pub may_writepage: bool,
    /// May swap.
    pub may_swap: bool,
    /// Order of the request.
    pub order: u32,
    /// The request's flags.
    pub gfp: Gfp,
    /// Current priority.
    pub priority: u8,
    /// Runs in kswapd.
    pub kswapd: bool,
    /// The highest zone type whose pages help; of a node's lists, others are set aside.
    pub classzone: usize,
}

impl ScanControl {
    /// The beginning of a reclaimer's work: nothing scanned yet, at the first priority, with the right
    /// to write and to swap.
    pub(crate) fn new(
        nr_to_reclaim: u64,
        order: u32,
        gfp: Gfp,
        classzone: usize,
        kswapd: bool,
    ) -> Self {
        Self {
            nr_to_reclaim,
            nr_scanned: 0,
            nr_reclaimed: 0,
            nr_dirty_file: 0,
            may_writepage: true,
            may_swap: true,
            order,
            gfp,
            priority: DEF_PRIORITY,
            kswapd,
            classzone,
        }
    }
}

/// What one page's examination decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Keep,
    Activate,
    /// Clean and unused: free it.
    Free,
    /// Dirty: hand it to its filesystem or swap.
    Pageout,
}

/// What a batch saw.
#[derive(Debug, Default, Clone, Copy)]
struct Batch {
    reclaimed: u64,
    dirty: u64,
    congested: u64,
    writeback: u64,
    /// Dirty and not under writeback.
    unqueued: u64,
    /// Under writeback, met before, in a zone full of such pages.
    immediate: u64,
}

/// The pages that one call of `shrink_page_list` has isolated.
struct PageList {
    /// The task's isolated list.
    mine: Pfn,
    /// The next page to look at.
    next: Pfn,
    /// Pages not looked at yet.
    left: u32,
    /// The last page that stays, or the list's sentinel.
    kept: Pfn,
    /// Where the pages come from.
    zone: usize,
    lru: Lru,
    /// Pages that left the page cache and are not counted yet.
    uncached: u32,
    freed: [Pfn; SWAP_CLUSTER_MAX as usize],
    batch: Batch,
}

impl PageList {
    /// A locked page that is nobody's any more is to be freed.
    #[inline(always)]
    fn free<W: World>(&mut self, mm: &Mm<W>, page: Page<'_, W>, pfn: Pfn) {
        mm.unlock_and_clear(page, pfn, flag::REFERENCED | flag::ACTIVE | flag::RECLAIM);
        self.freed[self.batch.reclaimed as usize] = pfn;
        self.batch.reclaimed += 1;
    }
}

enum Pageout {
    Keep,
    Activate,
    Success,
    Clean,
}

/// The four evictable lists in scanning order.
const SCAN_ORDER: [Lru; 4] = [
    Lru::InactiveAnon,
    Lru::ActiveAnon,
    Lru::InactiveFile,
    Lru::ActiveFile,
];

/// Once enough is reclaimed: leaves the smaller of anonymous and file memory alone, and gives the
/// other what is left of the same share of its target. `false`: there is only one kind left.
fn scan_in_proportion(nr: &mut [u64; 4], targets: &[u64; 4]) -> bool {
    let left = [nr[0] + nr[1], nr[2] + nr[3]];
    if left.contains(&0) {
        return false;
    }
    // The kernel compares file > anon; the smaller one stops.
    let (stop, go) = if left[1] > left[0] { (0, 2) } else { (2, 0) };
    let target = targets[stop] + targets[stop + 1] + 1;
    let percentage = left[stop / 2] * 100 / target;
    for i in 0..2 {
        nr[stop + i] = 0;
        let scanned = targets[go + i] - nr[go + i];
        let share = targets[go + i] * (100 - percentage) / 100;
        nr[go + i] = share.saturating_sub(scanned);
    }
    true
}

impl<W: World> Mm<W> {
    fn size_of_type(&self, z: usize, file: bool) -> u64 {
        if file {
            self.lru_size(z, Lru::ActiveFile) + self.lru_size(z, Lru::InactiveFile)
        } else {
            self.lru_size(z, Lru::ActiveAnon) + self.lru_size(z, Lru::InactiveAnon)
        }
    }

    /// Pages of a zone that reclaim could get at.
    pub fn zone_reclaimable_pages(&self, z: usize) -> u64 {
        let anon = if self.free_swap() > 0 {
            self.size_of_type(z, false)
        } else {
            0
        };
        self.size_of_type(z, true) + anon
    }

    /// Whether scanning the zone still makes sense.
    pub(crate) fn zone_reclaimable(&self, z: usize) -> bool {
        self.lru_home(z).pages_scanned.get() < self.zone_reclaimable_pages(z) * 6
    }

    /// Whether the inactive anon list is too short for its active list.
    pub(crate) fn inactive_anon_is_low(&self, z: usize) -> bool {
        if self.config.swap_slots == 0 {
            return false;
        }
        let pages = if self.node_lru() {
            self.nodes[self.zones[z].node as usize].size
        } else {
            u64::from(self.zones[z].size)
        };
        let gib = pages >> (30 - 12);
        let ratio = if gib > 0 { (10 * gib).isqrt() } else { 1 };
        self.lru_size(z, Lru::InactiveAnon) * ratio < self.lru_size(z, Lru::ActiveAnon)
    }

    fn inactive_file_is_low(&self, z: usize) -> bool {
        self.lru_size(z, Lru::ActiveFile) > self.lru_size(z, Lru::InactiveFile)
    }

    /// How many pages of each list to scan (docs/reference/reclaim.md#scan-counts), in [`SCAN_ORDER`].
    pub(crate) fn get_scan_count(&self, z: usize, sc: &ScanControl) -> [u64; 4] {
        if self.policy.scan_balance == ScanBalance::FileFirst {
            return self.get_scan_count_file_first(z, sc);
        }
        let anon = self.size_of_type(z, false);
        let file = self.size_of_type(z, true);
        let swap = sc.may_swap && self.free_swap() > 0;
        let save = self.policy.small_scan == SmallScan::Save;
        let force = !save && sc.kswapd && (anon + file) >> sc.priority < SWAP_CLUSTER_MAX;
        let free = self.lru_stat(z, ZoneStat::NrFreePages);
        let (fraction, denominator) = if !swap {
            ([0, 1], 1)
        } else if file + free <= self.lru_high(z) {
            ([1, 0], 1)
        } else {
            let s = u64::from(self.sysctl.swappiness());
            let decayed = self.decayed_rotations(z, [anon, file]);
            let ap = (s + 1) * (decayed[0].0 + 1) / (decayed[0].1 + 1);
            let fp = (201 - s) * (decayed[1].0 + 1) / (decayed[1].1 + 1);
            ([ap, fp], ap + fp + 1)
        };
        SCAN_ORDER.map(|lru| {
            let t = usize::from(lru.is_file());
            let size = self.lru_size(z, lru);
            if sc.priority == 0 && swap {
                return size;
            }
            if save {
                let share = (size >> sc.priority) * fraction[t] / denominator;
                let saved = &self.zones[z].saved_scan[lru as usize];
                let n = u64::from(saved.get()) + share;
                let batch = n >= SWAP_CLUSTER_MAX;
                saved.set(if batch { 0 } else { n as u32 });
                return if batch { n } else { 0 };
            }
            let n = (size >> sc.priority) * fraction[t] / denominator;
            if n == 0 && force && (lru.is_file() || swap) {
                SWAP_CLUSTER_MAX
            } else {
                n
            }
        })
    }

    /// The high watermark of a zone, or of all zones of its node together.
    fn lru_high(&self, z: usize) -> u64 {
        if !self.node_lru() {
            return self.zones[z].mark(Mark::High);
        }
        let zones = self.nodes[self.zones[z].node as usize].zones.iter();
        zones
            .map(|&z| self.zones[usize::from(z)].mark(Mark::High))
            .sum()
    }

    /// Scanned and rotated pages of anonymous and file memory, halved where they are old.
    fn decayed_rotations(&self, z: usize, sizes: [u64; 2]) -> [(u64, u64); 2] {
        let zone = self.lru_home(z);
        zone.lru_lock.with(|| {
            for (t, size) in sizes.into_iter().enumerate() {
                if zone.recent_scanned[t].get() > size / 4 {
                    zone.recent_scanned[t].set(zone.recent_scanned[t].get() / 2);
                    zone.recent_rotated[t].set(zone.recent_rotated[t].get() / 2);
                }
            }
            [0, 1].map(|t| (zone.recent_scanned[t].get(), zone.recent_rotated[t].get()))
        })
    }

    /// The form of 3.16: the first of its rules that applies.
    fn get_scan_count_file_first(&self, z: usize, sc: &ScanControl) -> [u64; 4] {
        let high = self.lru_high(z);
        let sizes = [false, true].map(|file| self.size_of_type(z, file));
        let free = self.lru_stat(z, ZoneStat::NrFreePages);
        let swap = sc.may_swap && self.free_swap() > 0;
        let s = u64::from(self.sysctl.swappiness());
        let fraction = if !swap {
            Some([0, 1])
        } else if sc.priority == 0 && s > 0 {
            None
        } else if sizes[1] + free <= high {
            Some([1, 0])
        } else if !self.inactive_file_is_low(z) {
            Some([0, 1])
        } else {
            let decayed = self.decayed_rotations(z, sizes);
            let part = |weight, (scanned, rotated)| weight * (scanned + 1) / (rotated + 1);
            Some([part(s, decayed[0]), part(200 - s, decayed[1])])
        };
        let force = sc.kswapd && !self.zone_reclaimable(z);
        let count = |forced: bool| {
            SCAN_ORDER.map(|lru| {
                let size = self.lru_size(z, lru);
                let mut n = size >> sc.priority;
                if n == 0 && forced {
                    n = size.min(SWAP_CLUSTER_MAX);
                }
                match fraction {
                    None => n,
                    // One kind alone is not divided.
                    Some([0, 1] | [1, 0])
                        if fraction.is_some_and(|f| f[usize::from(lru.is_file())] == 0) =>
                    {
                        0
                    }
                    Some([0, 1] | [1, 0]) => n,
                    Some(f) => n * f[usize::from(lru.is_file())] / (f[0] + f[1] + 1),
                }
            })
        };
        let plain = count(false);
        if force && plain == [0; 4] {
            count(true)
        } else {
            plain
        }
    }

    /// Scans a zone (docs/reference/reclaim.md#zone-scan).
    pub(crate) async fn shrink_zone(&self, z: usize, sc: &mut ScanControl) {
        let reclaimed_before = sc.nr_reclaimed;
        let mut nr = self.get_scan_count(z, sc);
        let targets = nr;
        // Direct reclaim at the first priority finishes what it set out to scan.
        let mut adjusted = !sc.kswapd && sc.priority == DEF_PRIORITY;
        // Inactive anon, active file, inactive file drive the loop; active anon rides along.
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
                ScanStop::Proportional => {
                    if reclaimed < sc.nr_to_reclaim || adjusted {
                        continue;
                    }
                    adjusted = true;
                    if !scan_in_proportion(&mut nr, &targets) {
                        break;
                    }
                }
            }
        }
        if self.inactive_anon_is_low(z) {
            self.shrink_active_list(z, Lru::ActiveAnon, SWAP_CLUSTER_MAX as u32, sc);
            self.world.relax().await;
        }
        self.throttle_vm_writeout(sc.gfp).await;
    }

    async fn shrink_list(&self, z: usize, lru: Lru, n: u32, sc: &mut ScanControl) {
        match lru {
            Lru::ActiveAnon | Lru::ActiveFile => {
                let low = if lru.is_file() {
                    self.inactive_file_is_low(z)
                } else {
                    self.inactive_anon_is_low(z)
                };
                if low {
                    self.shrink_active_list(z, lru, n, sc);
                    self.world.relax().await;
                }
            }
            _ => self.shrink_inactive_list(z, lru, n, sc).await,
        }
    }

    /// Takes up to `n` pages from a list's tail onto the calling task's isolated list, which keeps
    /// their order: its tail is to be looked at first. Returns scanned and taken.
    fn isolate(
        &self,
        z: usize,
        lru: Lru,
        n: u32,
        mode: IsolateMode,
        sc: &ScanControl,
    ) -> (u32, u32) {
        let order = sc.order;
        debug_assert!(n as u64 <= SWAP_CLUSTER_MAX);
        let list = self.lru_list(z, lru);
        let mine = self.isolated_list(self.world.task());
        debug_assert!(self.frames.list_empty(mine));
        let (mut scanned, mut taken) = (0, 0);
        self.lru_home(z).lru_lock.with(|| {
            if self.node_lru() {
                (scanned, taken) = self.isolate_of_node(list, n, mine, sc.classzone);
                let file = usize::from(lru.is_file());
                self.lru_home(z).recent_scanned[file].fetch_add(u64::from(taken));
                return;
            }
            if let Some(orders) = self.ordering(lru) {
                (scanned, taken) = self.isolate_ordered(orders, z, n, mine);
                self.zones[z].recent_scanned[1].fetch_add(u64::from(taken));
                return;
            }
            let frames = self.frames.table();
            let (mut first, mut at) = (list, frames.before(list));
            while taken < n && at != list {
                let before = frames.page(at).clear_flags(flag::LRU);
                debug_assert!(before & flag::LRU != 0);
                first = at;
                at = frames.before(at);
                taken += 1;
            }
            if taken > 0 {
                frames.cut_tail(list, first, mine);
            }
            scanned = taken;
            let file = usize::from(lru.is_file());
            self.zones[z].recent_scanned[file].fetch_add(u64::from(taken));
        });
        let cpu = self.world.cpu();
        let isolated = Self::isolated_item(lru.is_file());
        if self.node_lru() {
            let event = match (mode, sc.kswapd) {
                (IsolateMode::Active, _) => ZoneEvent::PgRefill,
                (IsolateMode::Inactive, true) => ZoneEvent::PgScanKswapd,
                (IsolateMode::Inactive, false) => ZoneEvent::PgScanDirect,
            };
            for pfn in self.frames.iter(mine) {
                let of = self.frames.zone(pfn);
                self.stat.dec(cpu, of, ZoneStat::of_lru(lru));
                self.stat.inc(cpu, of, isolated);
                self.stat.zone_event(of, event, 1);
            }
        } else {
            self.stat
                .add(cpu, z, ZoneStat::of_lru(lru), -(taken as i32));
            self.stat.add(cpu, z, isolated, taken as i32);
        }
        self.lru_home(z).pages_scanned.fetch_add(u64::from(scanned));
        self.world.charge(Cost::Lru, taken);
        self.note(Event::LruIsolate {
            mode,
            order,
            nr_requested: n,
            nr_scanned: scanned,
            nr_taken: taken,
        });
        (scanned, taken)
    }

    /// [`Self::isolate`] from a node's list; the list lock is held. Pages of zones that the request
    /// cannot use go to the head, and a quarter of them counts as scanned (4.9, which looks on without
    /// bound; here at most as many are set aside as are asked for, so that a span stays short).
    fn isolate_of_node(&self, list: Pfn, n: u32, mine: Pfn, classzone: usize) -> (u32, u32) {
        let frames = self.frames.table();
        let (mut taken, mut aside) = (0, 0);
        while taken < n && aside < n {
            let pfn = frames.before(list);
            if pfn == list {
                break;
            }
            frames.del(pfn);
            let page = frames.page(pfn);
            if self.zones[page.zone()].kind.index() > classzone {
                frames.add(list, pfn);
                aside += 1;
            } else {
                page.clear_flags(flag::LRU);
                frames.add(mine, pfn);
                taken += 1;
            }
        }
        (taken + aside / 4, taken)
    }

    fn isolated_item(file: bool) -> ZoneStat {
        if file {
            ZoneStat::NrIsolatedFile
        } else {
            ZoneStat::NrIsolatedAnon
        }
    }

    /// A page of a node's lists is isolated no longer.
    #[inline]
    fn count_returned(&self, pfn: Pfn, file: bool) {
        if self.node_lru() {
            let z = self.frames.zone(pfn);
            self.stat
                .dec(self.world.cpu(), z, Self::isolated_item(file));
        }
    }

    /// Scans an active list (docs/reference/reclaim.md#active-lists).
    pub(crate) fn shrink_active_list(&self, z: usize, lru: Lru, n: u32, sc: &mut ScanControl) {
        self.lru_add_drain();
        let (scanned, taken) = self.isolate(z, lru, n, IsolateMode::Active, sc);
        if !self.node_lru() {
            self.stat
                .zone_event(z, ZoneEvent::PgRefill, u64::from(scanned));
        }
        let mine = self.isolated_list(self.world.task());
        let (mut rotated, mut deactivated) = (0, 0);
        for _ in 0..taken {
            let pfn = self.frames.last(mine);
            let f = self.frames.flags(pfn);
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
                    deactivated += 1;
                }
            }
            self.count_returned(pfn, lru.is_file());
            self.putback_lru_page(z, pfn);
        }
        self.count_rotated(z, lru.is_file(), rotated);
        self.stat.event(VmEvent::PgDeactivate, deactivated);
        self.count_isolated(z, lru.is_file(), -(taken as i32));
        self.world.charge(Cost::PageScan, taken);
    }

    /// The balance statistics belong to the list lock, under which they are halved.
    fn count_rotated(&self, z: usize, file: bool, n: u64) {
        let zone = self.lru_home(z);
        zone.lru_lock.with(|| {
            zone.recent_rotated[usize::from(file)].fetch_add(n);
        });
    }

    fn count_isolated(&self, z: usize, file: bool, n: i32) {
        if !self.node_lru() {
            let item = Self::isolated_item(file);
            self.stat.add(self.world.cpu(), z, item, n);
        }
    }

    fn too_many_isolated(&self, z: usize, file: bool, sc: &ScanControl) -> bool {
        if sc.kswapd {
            return false;
        }
        let (inactive, isolated) = if file {
            (
                self.lru_size(z, Lru::InactiveFile),
                ZoneStat::NrIsolatedFile,
            )
        } else {
            (
                self.lru_size(z, Lru::InactiveAnon),
                ZoneStat::NrIsolatedAnon,
            )
        };
        // Since 3.8 those who may enter filesystems leave room for those who may not.
        let inactive = match self.policy.hopeless_zones {
            HopelessZones::Computed if sc.gfp.has(Gfp::IO.or(Gfp::FS)) => inactive >> 3,
            _ => inactive,
        };
        self.lru_stat(z, isolated) > inactive
    }

    /// Scans one batch of an inactive list.
    async fn shrink_inactive_list(&self, z: usize, lru: Lru, n: u32, sc: &mut ScanControl) {
        let file = lru.is_file();
        while self.too_many_isolated(z, file, sc) {
            self.congestion_wait(Class::Async, self.tick_fraction(10))
                .await;
            if self.current().flags() & crate::task::PF_DYING != 0 {
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
        if !self.node_lru() {
            self.stat.zone_event(z, event, u64::from(scanned));
        }
        if taken == 0 {
            if scanned > 0 {
                // An eviction policy chose pages that others hold, or a node's are of other zones.
                self.world.relax().await;
            }
            return;
        }
        let batch = self.shrink_page_list(z, lru, taken, sc).await;
        let mine = self.isolated_list(self.world.task());
        let mut rotated = 0;
        loop {
            let pfn = self.frames.last(mine);
            if pfn == mine {
                break;
            }
            self.count_returned(pfn, file);
            if self.putback_lru_page(z, pfn).is_active() {
                rotated += 1;
            }
        }
        self.count_rotated(z, file, rotated);
        self.count_isolated(z, file, -(taken as i32));
        if sc.kswapd {
            self.stat.event(VmEvent::KswapdSteal, batch.reclaimed);
        }
        if !self.node_lru() {
            self.count_stolen(z, sc.kswapd, batch.reclaimed);
        }
        sc.nr_reclaimed += batch.reclaimed;
        self.observe(Event::ShrinkInactive {
            nid: self.zones[z].node,
            zid: self.zones[z].kind.index() as u32,
            nr_scanned: scanned,
            nr_reclaimed: batch.reclaimed as u32,
            priority: u32::from(sc.priority),
        });
        // writeback-from-reclaim 6: the lower the priority, the fewer such pages it takes.
        let found = match self.policy.reclaim_throttle {
            ReclaimThrottle::None => 0,
            ReclaimThrottle::ZoneFlags => {
                self.throttle_by_flags(z, taken, &batch, sc).await;
                0
            }
            ReclaimThrottle::Dirty => batch.dirty,
            ReclaimThrottle::Writeback => batch.writeback,
        };
        if found > 0 && found >= u64::from(taken) >> (DEF_PRIORITY - sc.priority) {
            self.wait_iff_congested(z, Class::Async, self.tick_fraction(10))
                .await;
        }
        self.world.relax().await;
    }

    /// Marks the zone for what a whole batch was, and waits accordingly (3.12,
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

    /// Decides on every isolated page, from the tail of the task's list on. Pages that stay are
    /// left there.
    async fn shrink_page_list(&self, z: usize, lru: Lru, n: u32, sc: &mut ScanControl) -> Batch {
        let mine = self.isolated_list(self.world.task());
        self.world.charge(Cost::PageScan, n);
        let mut list = PageList {
            mine,
            next: self.frames.last(mine),
            left: n,
            kept: mine,
            zone: z,
            lru,
            uncached: 0,
            freed: [0; SWAP_CLUSTER_MAX as usize],
            batch: Batch::default(),
        };
        while let Some(pfn) = self.shrink_without_io(&mut list, sc) {
            let verdict = match self.pageout(pfn, sc, &mut list.batch).await {
                Pageout::Keep => Verdict::Keep,
                Pageout::Activate => Verdict::Activate,
                Pageout::Clean => Verdict::Free,
                Pageout::Success => {
                    let f = self.frames.flags(pfn);
                    // Completed synchronously and clean: go on with it.
                    if f & (flag::WRITEBACK | flag::DIRTY) != 0 || !self.try_lock_page(pfn) {
                        continue;
                    }
                    Verdict::Free
                }
            };
            let page = self.frames.page(pfn);
            if verdict == Verdict::Free && self.remove_mapping(page, pfn, &mut list.uncached) {
                self.forget_returned(z, pfn);
                self.count_removed(z, std::mem::take(&mut list.uncached));
                list.kept = self.frames.table().after(pfn);
                self.frames.del(pfn);
                list.free(self, page, pfn);
            } else {
                self.keep_isolated(pfn, verdict);
            }
        }
        let batch = list.batch;
        if batch.dirty > 0 && batch.dirty == batch.congested {
            self.zones[z].flags.fetch_or(ZONE_CONGESTED);
        }
        let freed = &list.freed[..batch.reclaimed as usize];
        if self.node_lru() {
            for &pfn in freed {
                self.count_returned(pfn, lru.is_file());
                self.count_stolen(self.frames.zone(pfn), sc.kswapd, 1);
                self.free_page(pfn, true);
            }
        } else {
            self.free_cold_pages(z, freed);
        }
        batch
    }

    fn count_stolen(&self, z: usize, kswapd: bool, n: u64) {
        let by = if kswapd {
            ZoneEvent::PgStealKswapd
        } else {
            ZoneEvent::PgStealDirect
        };
        self.stat.zone_event(z, ZoneEvent::PgSteal, n);
        self.stat.zone_event(z, by, n);
    }

    /// Decides on isolated pages until one is dirty and to be written: that page, locked.
    ///
    /// Links of pages that leave are not mended one by one: the pages that stay are joined to each
    /// other, and the list is whole again on return.
    fn shrink_without_io(&self, list: &mut PageList, sc: &mut ScanControl) -> Option<Pfn> {
        let frames = self.frames.table();
        let (mut next, mut kept) = (list.next, list.kept);
        let mut write = None;
        // Walks the pages that the next batch will isolate, so that they are in the cache by then
        // (the kernel's `prefetchw_prev_lru_page`). It reads links without the list's lock: beside
        // other tasks it may end up on another list, which only makes it useless.
        let mut ahead = self.lru_list(list.zone, list.lru);
        while list.left > 0 && write.is_none() {
            let pfn = next;
            debug_assert!(pfn != list.mine);
            list.left -= 1;
            next = frames.before(pfn);
            ahead = frames.before(ahead);
            let page = frames.page(pfn);
            if !page.test_and_set(flag::LOCKED) {
                match self.examine(page, pfn, sc, &mut list.batch) {
                    Verdict::Pageout => write = Some(pfn),
                    Verdict::Free if self.remove_mapping(page, pfn, &mut list.uncached) => {
                        list.free(self, page, pfn);
                        continue;
                    }
                    verdict => self.keep_isolated(pfn, verdict),
                }
            }
            frames.join(pfn, kept);
            kept = pfn;
        }
        std::hint::black_box(ahead);
        frames.join(next, kept);
        (list.next, list.kept) = (next, kept);
        self.count_removed(list.zone, std::mem::take(&mut list.uncached));
        write
    }

    /// Unlocks an isolated page that stays; the verdict may be to activate it.
    fn keep_isolated(&self, pfn: Pfn, verdict: Verdict) {
        if verdict == Verdict::Activate && !self.is_ordered(self.frames.flags(pfn)) {
            if self.frames.has(pfn, flag::SWAPCACHE) && self.swap_is_half_full() {
                self.try_to_free_swap(pfn);
            }
            if !self.frames.test_and_set(pfn, flag::ACTIVE) {
                self.stat.event(VmEvent::PgActivate, 1);
                self.note_path(TrackPath::Reclaim);
                self.track_activated(pfn);
                self.trace(|| Event::PageActivated { pfn });
            }
        }
        self.unlock_isolated(pfn);
    }

    /// Releases the lock that reclaim tried. Few pages have waiters, so only those are woken for.
    #[inline(always)]
    pub(crate) fn unlock_isolated(&self, pfn: Pfn) {
        self.unlock_and_clear(self.frames.page(pfn), pfn, 0);
    }

    /// As [`Mm::unlock_isolated`]; `bits` go with the lock.
    #[inline(always)]
    pub(crate) fn unlock_and_clear(&self, page: Page<'_, W>, pfn: Pfn, bits: u32) {
        let before = page.clear_flags(flag::LOCKED | flag::WAITERS | bits);
        debug_assert!(before & flag::LOCKED != 0);
        if before & flag::WAITERS != 0 {
            self.world.wake(queue::page(pfn));
        }
    }

    /// The decisions of docs/reference/reclaim.md#page-decisions up to the point where a dirty page would be
    /// written.
    #[inline]
    fn examine(
        &self,
        page: Page<'_, W>,
        pfn: Pfn,
        sc: &mut ScanControl,
        batch: &mut Batch,
    ) -> Verdict {
        let mut f = page.flags();
        let mapped = page.mapcount() > 0;
        sc.nr_scanned += 1 + u64::from(mapped || f & flag::SWAPCACHE != 0);
        if f & flag::UNEVICTABLE != 0 {
            return Verdict::Keep; // put back on the unevictable list by its flag
        }
        let mut may_enter_fs =
            sc.gfp.has(Gfp::FS) || (f & flag::SWAPCACHE != 0 && sc.gfp.has(Gfp::IO));
        let file = f & flag::SWAPBACKED == 0;
        let by_flags = self.policy.reclaim_throttle == ReclaimThrottle::ZoneFlags;
        if by_flags && f & (flag::DIRTY | flag::WRITEBACK) != 0 {
            self.count_for_flags(page, f, batch);
        }
        if f & flag::WRITEBACK != 0 {
            if !by_flags {
                batch.writeback += 1;
            } else if sc.kswapd
                && f & flag::RECLAIM != 0
                && self.lru_home(page.zone()).flags.get() & ZONE_WRITEBACK != 0
            {
                batch.immediate += 1;
            } else {
                page.set_flags(flag::RECLAIM);
                batch.writeback += 1;
            }
            return Verdict::Keep;
        }
        let young = if mapped { self.take_young(pfn) } else { 0 };
        let referenced = f & flag::REFERENCED != 0;
        if referenced {
            if self.is_ordered(f) {
                return Verdict::Keep; // used since the policy chose it
            }
            page.clear_flags(flag::REFERENCED);
        }
        let mut only_if_clean = false;
        if young > 0 {
            if !file {
                return Verdict::Activate;
            }
            self.frames.set_flags(pfn, flag::REFERENCED);
            let shared = self.policy.references == References::TwiceOrShared
                && (young > 1 || f & flag::EXEC != 0);
            return if referenced || shared {
                Verdict::Activate
            } else {
                Verdict::Keep
            };
        } else if referenced && file {
            only_if_clean = true;
        }
        if f & flag::ANON != 0 && f & flag::SWAPCACHE == 0 {
            if !mapped {
                return Verdict::Free; // its region ended while a reclaimer held it
            }
            if !sc.gfp.has(Gfp::IO) {
                return Verdict::Keep;
            }
            if !self.add_to_swap(pfn) {
                return Verdict::Activate;
            }
            may_enter_fs = true;
            f = self.frames.flags(pfn);
        }
        if mapped {
            self.try_to_unmap(pfn);
            f = self.frames.flags(pfn);
        }
        if f & flag::DIRTY != 0 {
            batch.dirty += u64::from(!by_flags);
            sc.nr_dirty_file += u64::from(file);
            if self.is_ordered(f) {
                only_if_clean = self.ask_ordered(pfn) == evict::Dirty::Skip;
            }
            if file && !self.may_write_file(page.zone(), sc) {
                // writeback-from-reclaim 1, 5, 7, 8
                let (item, marked) = if self.policy.immediate_reclaim {
                    (ZoneStat::NrVmscanImmediateReclaim, flag::RECLAIM)
                } else {
                    (ZoneStat::NrVmscanWriteSkip, 0)
                };
                self.stat.inc(self.world.cpu(), self.frames.zone(pfn), item);
                if !self.is_ordered(f) {
                    self.frames.set_flags(pfn, marked);
                }
                self.ask_flusher_for(pfn);
                return Verdict::Keep;
            }
            if only_if_clean || !may_enter_fs || !sc.may_writepage {
                return Verdict::Keep;
            }
            return Verdict::Pageout;
        }
        Verdict::Free
    }

    /// Whether the policy lets this reclaimer write dirty file pages now.
    #[inline]
    fn may_write_file(&self, z: usize, sc: &ScanControl) -> bool {
        let rule = if sc.kswapd {
            self.policy.kswapd_writeback
        } else {
            self.policy.direct_writeback
        };
        match rule {
            ReclaimWriteback::Always => true,
            ReclaimWriteback::Never => false,
            ReclaimWriteback::InTrouble => sc.priority <= self.policy.kswapd_writeback_priority,
            ReclaimWriteback::TailDirty => self.lru_home(z).flags.get() & ZONE_TAIL_DIRTY != 0,
        }
    }

    /// Counts a dirty page or one under writeback for the zone's flags; anonymous ones are neither,
    /// but may be congested (`page_check_dirty_writeback`).
    #[inline(never)]
    fn count_for_flags(&self, page: Page<'_, W>, f: u32, batch: &mut Batch) {
        let again = f & flag::WRITEBACK != 0 && f & flag::RECLAIM != 0;
        let file = f & flag::SWAPBACKED == 0;
        if file {
            batch.dirty += 1;
            batch.unqueued += u64::from(f & flag::WRITEBACK == 0);
        }
        let bdi = || self.mappings[page.mapping() as usize].bdi();
        let congested =
            file && f & flag::CACHED != 0 && self.world.bdi_congested(bdi(), Class::Async);
        batch.congested += u64::from(congested || again);
    }

    /// Hands a dirty page to its filesystem or to swap (docs/reference/reclaim.md#page-decisions). The page
    /// is locked on entry, and on exit unless the answer is `Success`.
    async fn pageout(&self, pfn: Pfn, sc: &ScanControl, batch: &mut Batch) -> Pageout {
        let f = self.frames.flags(pfn);
        if f & flag::PINNED != 0 || f & (flag::CACHED | flag::SWAPCACHE) == 0 {
            return Pageout::Keep;
        }
        let swap = f & flag::SWAPCACHE != 0;
        if !swap && !self.may_write_to_queue(pfn, sc) {
            batch.congested +=
                u64::from(self.policy.reclaim_throttle != ReclaimThrottle::ZoneFlags);
            return Pageout::Keep;
        }
        if !self.clear_page_dirty_for_io(pfn) {
            return Pageout::Clean;
        }
        let z = self.frames.zone(pfn);
        let mut wbc = WritebackControl {
            for_reclaim: true,
            range_cyclic: false,
            ..WritebackControl::pages(SWAP_CLUSTER_MAX as i64)
        };
        self.frames.set_flags(pfn, flag::RECLAIM);
        let answer = if swap {
            self.swap_writepage(pfn).await
        } else {
            self.world.writepage(self, pfn, &mut wbc).await
        };
        match answer {
            Writepage::Activate | Writepage::NoOperation => {
                self.frames.clear_flags(pfn, flag::RECLAIM);
                if !self.frames.test_and_set(pfn, flag::DIRTY) && !swap {
                    self.reaccount_dirty(pfn);
                }
                return Pageout::Activate;
            }
            Writepage::Started | Writepage::Redirtied => {}
        }
        if !self.frames.has(pfn, flag::WRITEBACK) {
            self.frames.clear_flags(pfn, flag::RECLAIM);
        }
        self.stat.inc(self.world.cpu(), z, ZoneStat::NrVmscanWrite);
        self.note(Event::Writepage {
            pfn,
            file: !swap,
            sync: wbc.sync_all,
        });
        self.unlock_isolated(pfn);
        self.world.relax().await;
        Pageout::Success
    }

    /// A congested queue holds back everybody but kswapd, the flusher, the queue's own writer and
    /// high orders.
    fn may_write_to_queue(&self, pfn: Pfn, sc: &ScanControl) -> bool {
        let task = self.current();
        if task.flags() & (PF_SWAPWRITE | PF_KSWAPD) != 0 || sc.order > 3 {
            return true;
        }
        let bdi = self.mappings[self.frames.mapping(pfn) as usize].bdi();
        !self.world.bdi_congested(bdi, Class::Async) || task.writing_to.get() == bdi + 1
    }

    /// Takes a clean, unmapped page out of its file or of the swap cache; pages that left the page
    /// cache are added to `uncached`.
    #[inline]
    fn remove_mapping(&self, page: Page<'_, W>, pfn: Pfn, uncached: &mut u32) -> bool {
        let f = page.flags();
        if f & (flag::DIRTY | flag::WRITEBACK | flag::PINNED) != 0 || page.mapcount() > 0 {
            return false;
        }
        if f & flag::CACHED != 0 {
            if !self.world.release_page(self, pfn) {
                return false;
            }
            if self.watches_pages() {
                self.note_reclaimed(page);
            }
            let shadow = self.eviction_shadow(page);
            self.leave_page_cache(page, pfn, shadow);
            if self.node_lru() {
                self.count_removed(page.zone(), 1);
            } else {
                *uncached += 1;
            }
            true
        } else if f & flag::SWAPCACHE != 0 {
            self.delete_from_swap_cache(pfn);
            true
        } else if f & flag::ANON != 0 {
            self.forget_anon(pfn);
            true
        } else {
            false
        }
    }

    /// Takes a page off its LRU list for good. `false`: a reclaimer has isolated it and will put
    /// it back.
    pub(crate) fn try_delete_from_lru(&self, pfn: Pfn) -> bool {
        if !self.frames.has(pfn, flag::LRU) || self.frames.has(pfn, flag::PINNED) {
            for cpu in 0..self.config.cpus {
                self.lru_add_drain_cpu(cpu);
            }
        }
        let z = self.frames.zone(pfn);
        let listed = self.lru_home(z).lru_lock.with(|| {
            let f = self.frames.clear_flags(pfn, flag::LRU);
            (f & flag::LRU != 0).then(|| {
                let lru = Lru::of(f);
                self.frames.del(pfn);
                self.remove_ordered(z, lru, pfn);
                lru
            })
        });
        let Some(lru) = listed else {
            return false;
        };
        self.stat
            .add(self.world.cpu(), z, ZoneStat::of_lru(lru), -1);
        self.frames
            .clear_flags(pfn, flag::ACTIVE | flag::REFERENCED | flag::RECLAIM);
        self.world.charge(Cost::Lru, 1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Targets of 100 anonymous and 1000 file pages; 64 of the one and 64 of the other are scanned.
    #[test]
    fn what_is_left_of_a_scan_is_in_proportion() {
        let targets = [100, 0, 1000, 0];
        let mut nr = [36, 0, 936, 0];
        assert!(scan_in_proportion(&mut nr, &targets));
        // 36 of 101 were left of the smaller one, so 65 % of the other's target is scanned in all.
        assert_eq!(nr, [0, 0, 650 - 64, 0]);
        // The smaller one may be the file pages.
        let mut nr = [968, 500, 0, 8];
        assert!(scan_in_proportion(&mut nr, &[1000, 500, 32, 40]));
        assert_eq!(nr, [1000 * 90 / 100 - 32, 450, 0, 0]);
        // With one kind alone there is nothing to divide.
        assert!(!scan_in_proportion(&mut [0, 0, 936, 0], &targets));
    }
}
