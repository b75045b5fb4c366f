//! Page allocation: free-list walk, fast path, slow path (docs/reference/allocation.md; the
//! sequence of 3.0).

use crate::memory::fair::Skipped;
use crate::memory::frame::{NO_PFN, flag};
use crate::memory::gfp::Gfp;
use crate::memory::hint::Foreseen;
use crate::memory::task::{PF_DYING, PF_MEMALLOC, PF_REALTIME};
use crate::memory::watermark::{
    ALLOC_DIRTY_LIMIT, ALLOC_FAIR, ALLOC_HARDER, ALLOC_HIGH, ALLOC_NO_WATERMARKS,
};
use crate::memory::zone::{Lru, Mark};
use crate::memory::zonelist_cache::{LookUp, Passed};
use crate::policy::{DirtyLimits, FairZones, FreeSnapshot, OomRetry, SlowPath, ZoneWalk};
use crate::watch::vmstat::{VmEvent, ZoneEvent, ZoneStat};
use crate::world::event::Event;
use crate::world::{AllocPath, Audience, Class, Cost, Word32, World};
use crate::{Mm, Pfn};

/// Orders above this are costly: not retried for ever.
pub const PAGE_ALLOC_COSTLY_ORDER: u32 = 3;

/// State that successive walks over a fallback list share.
#[derive(Debug, Default)]
struct Walk {
    skipped: Skipped,
    look_up: LookUp,
}

/// A page that was allocated at the min watermark.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AtMin {
    pub pfn: Pfn,
    /// No free list changed and nothing was reported: the next such request goes the same way.
    pub again: bool,
}

/// How compaction for a request may migrate pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Migrate {
    /// Without waiting: dirty pages, pages under writeback and pageblocks that are not movable are
    /// left alone.
    Async,
    /// Waiting for writeback.
    Sync,
}

impl<W: World> Mm<W> {
    /// Returns the zones that a request from `node` may use, in the order of that node's zonelist,
    /// up to the highest zone type that `gfp` allows; only the node's own with `__GFP_THISNODE`.
    #[inline(always)]
    pub(crate) fn eligible(&self, node: u32, gfp: Gfp) -> impl Iterator<Item = usize> + '_ {
        let only = gfp.has(Gfp::THISNODE);
        self.nodes[node as usize].zonelists[gfp.high_zoneidx()]
            .iter()
            .map(|&z| usize::from(z))
            .filter(move |&z| !only || self.zones[z].node == node)
    }

    /// Returns the first zone that a request from `node` may use; its type is the request's
    /// classzone.
    ///
    /// # Panics
    /// If there is none.
    #[inline(always)]
    pub(crate) fn preferred_zone(&self, node: u32, gfp: Gfp) -> usize {
        self.eligible(node, gfp)
            .next()
            .expect("a request names a populated zone")
    }

    /// Returns the first of 2^`order` free pages for a request from `node`, taken from the first
    /// zone whose free pages stay above its watermark `mark`; `None` if there is no such zone
    /// (docs/reference/allocation.md#free-list-walk). If the zonelist cache may have hidden a zone,
    /// walks again without it. `flags`: the kernel's `ALLOC_*` flags.
    pub(crate) fn get_page_from_freelist(
        &self,
        node: u32,
        gfp: Gfp,
        order: u32,
        mark: Mark,
        flags: u32,
    ) -> Option<Pfn> {
        let mut walk = Walk::default();
        let found = self.walk_freelists(node, gfp, order, mark, flags, &mut walk);
        if found.is_none() && walk.look_up.stop() {
            return self.walk_freelists(node, gfp, order, mark, flags, &mut walk);
        }
        found
    }

    /// Does one walk of [`Self::get_page_from_freelist`] over the zones of the zonelist, and notes
    /// in `walk` how many zones were skipped because of their fair batch or dirty limit. Inlined so
    /// that the fast path can specialize it.
    #[inline(always)]
    fn walk_freelists(
        &self,
        node: u32,
        gfp: Gfp,
        order: u32,
        mark: Mark,
        flags: u32,
        walk: &mut Walk,
    ) -> Option<Pfn> {
        let Walk { skipped, look_up } = walk;
        let classzone = self.zones[self.preferred_zone(node, gfp)].kind.index();
        let list = self.list_of_request(gfp);
        let mut dirty_ok = None;
        for z in self.eligible(node, gfp) {
            if look_up.active && self.nodes[node as usize].full_zones.has(z) {
                continue;
            }
            if flags & ALLOC_FAIR != 0 {
                if self.zones[z].node != node {
                    if self.policy.fair_zones == FairZones::Batch {
                        continue;
                    }
                    break;
                }
                // With fair zones each zone gives a batch of pages before the batches are refilled.
                if self.batch_used_up(z) {
                    skipped.fair += 1;
                    self.world.charge(Cost::ZoneWalk, 1);
                    continue;
                }
            }
            if flags & ALLOC_DIRTY_LIMIT != 0
                && gfp.has(Gfp::WRITE)
                && !self.zone_dirty_ok_in_walk(z, &mut dirty_ok)
            {
                skipped.dirty += 1;
                self.world.charge(Cost::ZoneWalk, 1);
                // Tells the zonelist cache why the zone was passed over.
                self.zone_passed(node, z, Passed::Dirty, look_up);
                continue;
            }
            let zone = &self.zones[z];
            if self.may_be_below_high(zone)
                && !self.watermark_ok(z, order, zone.mark(Mark::High), classzone, flags)
            {
                self.mark_below_high(zone);
            }
            if flags & ALLOC_NO_WATERMARKS == 0
                && !self.watermark_ok(z, order, zone.mark(mark), classzone, flags)
            {
                self.world.charge(Cost::ZoneWalk, 1);
                if self.policy.zone_walk == ZoneWalk::OneZoneAhead && mark == Mark::Low {
                    self.wakeup_kswapd(z, gfp, order, classzone);
                }
                self.zone_passed(node, z, Passed::Watermark, look_up);
                continue;
            }
            let pfn = if order == 0 {
                self.rmqueue_pcp(z, list)
            } else {
                self.rmqueue_order(z, order, list)
            };
            if let Some(pfn) = pfn {
                self.hand_out(z, pfn, node, gfp, order);
                return Some(pfn);
            }
            self.zone_passed(node, z, Passed::Empty, look_up);
        }
        None
    }

    /// Marks a block of 2^`order` pages that zone `z` gave as used by a request from `node`, and
    /// counts, charges and reports the allocation.
    #[inline(always)]
    pub(super) fn hand_out(&self, z: usize, pfn: Pfn, node: u32, gfp: Gfp, order: u32) {
        let page = self.frames.page(pfn);
        debug_assert!(page.flags() & (flag::CHECK_AT_FREE | flag::USED) == 0);
        page.reset_flags(z, flag::USED);
        page.reset_maps(0);
        self.stat.zone_event(z, ZoneEvent::PgAlloc, 1 << order);
        self.count_numa(node, gfp, z, 1);
        self.charge_batch(z, node, gfp, order);
        self.world.charge(Cost::PageAlloc, 1);
        self.emit(Audience::Traces, || Event::PageAlloc {
            pfn,
            order,
            gfp: gfp.0,
        });
    }

    /// Allocates one page, waiting and reclaiming as `gfp` allows
    /// (docs/reference/allocation.md#slow-path). `None`: the request gave up, or the run ended in
    /// OOM. Work that needs no waiting is done at the call; only the rest is left to the future.
    #[inline(always)]
    pub fn alloc_page(&self, gfp: Gfp) -> impl Future<Output = Option<Pfn>> {
        let at_once = self.alloc_page_at_once(gfp);
        async move {
            match at_once {
                Ok(pfn) => Some(pfn),
                Err(start) => self.alloc_rest(gfp, start).await,
            }
        }
    }

    /// Does [`Mm::alloc_page`] if it need not wait or yield. Otherwise returns, as `Err`, when the
    /// allocation began, in nanoseconds, for [`Mm::alloc_rest`].
    #[inline(always)]
    pub fn alloc_page_at_once(&self, gfp: Gfp) -> Result<Pfn, u64> {
        match self.page_at_once(gfp) {
            (NO_PFN, start) => Err(start),
            (pfn, _) => Ok(pfn),
        }
    }

    /// Does [`Mm::alloc_page_at_once`] with a result that fits two registers: the page or
    /// [`NO_PFN`], and when the allocation began (ns).
    #[inline(never)]
    fn page_at_once(&self, gfp: Gfp) -> (Pfn, u64) {
        let start = self.world.now();
        let group = self.charged_group(gfp);
        if group != 0 && self.charge_at_once(group, 1) == 0 {
            return (NO_PFN, start);
        }
        let fast = self.alloc_pages_fast(gfp, 0, start);
        let pfn = fast.or_else(|| self.alloc_at_min(gfp, start).map(|page| page.pfn));
        if group != 0 {
            self.settle_charge(group, pfn);
        }
        (pfn.unwrap_or(NO_PFN), start)
    }

    /// Allocates 2^order contiguous pages and returns the first; waits and fails as
    /// [`Mm::alloc_page`] does.
    pub async fn alloc_pages(&self, gfp: Gfp, order: u32) -> Option<Pfn> {
        let start = self.world.now();
        match self.alloc_pages_fast(gfp, order, start) {
            Some(pfn) => Some(pfn),
            None => self.alloc_pages_slow(gfp, order, start).await,
        }
    }

    /// Does the part of an allocation of 2^`order` pages that never waits: the walks at the low
    /// watermark, or their foreseen result. `start`: when the allocation began (ns), for its
    /// latency. `None`: no zone has so many pages above its low watermark.
    #[inline(always)]
    pub(crate) fn alloc_pages_fast(&self, gfp: Gfp, order: u32, start: u64) -> Option<Pfn> {
        let node = self.local_node();
        let pfn = match order {
            // The last walk of this CPU often tells where the next one would end.
            0 => match self.take_foreseen(node, gfp) {
                Foreseen::Page(pfn) => pfn,
                Foreseen::Nowhere => return None,
                Foreseen::Unknown => self.walks_at_low(node, gfp, 0)?,
            },
            _ => self.walks_at_low(node, gfp, order)?,
        };
        self.world
            .alloc_latency(AllocPath::Fast, self.world.now().saturating_sub(start));
        self.track_instantiated(pfn, self.noted_path());
        Some(pfn)
    }

    /// Does the walks over the free lists at the low watermark, and returns the page found: at most
    /// three walks if the first one may skip zones. With the zonelist cache each may need a second
    /// walk, unless one more walk serves all reasons (*sequential-read* 4).
    #[inline(never)]
    fn walks_at_low(&self, node: u32, gfp: Gfp, order: u32) -> Option<Pfn> {
        let mut flags = self.first_walk(node, gfp);
        let mut walk = Walk::default();
        loop {
            walk.skipped = Skipped::default();
            let found = self.walk_freelists(node, gfp, order, Mark::Low, flags, &mut walk);
            if found.is_some() {
                return found;
            }
            let cache_hid_zones = walk.look_up.stop();
            let separate_walks = self.walks_apart();
            if cache_hid_zones && separate_walks {
                continue;
            }
            match self.next_walk(node, gfp, flags, walk.skipped) {
                Some(next) => flags = next,
                None if cache_hid_zones => {}
                None => return None,
            }
            if separate_walks {
                walk.look_up = LookUp::default();
            }
        }
    }

    /// Continues an allocation of 2^`order` pages that may not wait after its fast part: wakes
    /// kswapd and walks at the min watermark. `None`: it failed.
    #[cold]
    pub(crate) fn alloc_nowait(&self, gfp: Gfp, order: u32) -> Option<Pfn> {
        let node = self.local_node();
        self.wake_kswapds(node, gfp, order);
        self.get_page_from_freelist(node, gfp, order, Mark::Min, 0)
    }

    /// Does the rest of a single page's allocation that began at `start` (ns) and could not be
    /// served without waiting ([`Mm::fresh_pages`]); otherwise as [`Mm::alloc_page`].
    pub async fn alloc_rest(&self, gfp: Gfp, start: u64) -> Option<Pfn> {
        let group = self.charged_group(gfp);
        if group == 0 {
            return self.alloc_pages_slow(gfp, 0, start).await;
        }
        if !self.charge_page(group).await {
            return None;
        }
        let pfn = self.alloc_pages_slow(gfp, 0, start).await;
        self.settle_charge(group, pfn);
        pfn
    }

    /// Does the rest of a single page's allocation that began at `start` (ns), if it need not wait:
    /// wakes kswapd and takes a page from a zone above its min watermark. `None`: nothing was done,
    /// or another thread has taken the page; the caller goes on with [`Mm::alloc_rest`].
    #[inline(never)]
    pub(crate) fn alloc_at_min(&self, gfp: Gfp, start: u64) -> Option<AtMin> {
        if self.policy.dirty_limits == DirtyLimits::PerZoneStall || self.tracker.is_some() {
            return None;
        }
        let node = self.local_node();
        let first = self.preferred_zone(node, gfp);
        let classzone = self.zones[first].kind.index();
        // Usually the first zone is far above its min watermark.
        let plain = self.policy.free_snapshot != FreeSnapshot::WhileAwake
            && self.plainly_above(first, Mark::Min, classzone);
        let (z, walked) = match plain {
            true => (first, 0),
            false => self.first_above_min(node, gfp, classzone)?,
        };
        let list = self.list_of_request(gfp);
        let pcp = self.pcp(z, self.world.cpu(), list);
        // Pages that the per-CPU list must first take from the buddy lists.
        let refill = match pcp.count() {
            0 if self.stat.exact(z, ZoneStat::NrFreePages) <= 0 || self.grouped() => return None,
            0 => self.most_pcp_alloc(z),
            _ => 0,
        };
        // The most time that this function charges, if events cost nothing.
        let walks = u64::from(walked) + self.zones.len() as u64;
        let most = walks * self.world.price(Cost::ZoneWalk)
            + u64::from(refill) * self.world.price(Cost::PageBulk)
            + self.world.price(Cost::PageAlloc);
        let begun = self.world.now().saturating_sub(start);
        // Whether the record of the slowest allocations could have to include this one.
        let recorded = self.world.remembers_alloc(begun + most);
        let free = || self.stat.global(ZoneStat::NrFreePages);
        if recorded {
            self.world.alloc_slow(start, 0, free());
        }
        self.wake_kswapds_for(node, gfp, 0, classzone);
        self.world.charge(Cost::ZoneWalk, walked);
        let Some(pfn) = self.take_from_pcp(z, list, pcp) else {
            // Other threads have taken the pages.
            if recorded {
                self.world.alloc_slow_ends(free());
            }
            return None;
        };
        self.hand_out(z, pfn, node, gfp, 0);
        if recorded {
            self.world.alloc_slow_ends(free());
        }
        let took = self.world.now().saturating_sub(start);
        debug_assert!(recorded || took <= begun + most);
        self.world.alloc_latency(AllocPath::KswapdWoken, took);
        Some(AtMin {
            pfn,
            again: refill == 0 && !recorded && self.wake_mark().is_some(),
        })
    }

    /// Returns the first zone for a request that is above its min watermark, where `walk_freelists`
    /// would end, and the number of zones passed over before it. `None`: there is none, or the walk
    /// must really be made, as it has other effects.
    #[inline(never)]
    fn first_above_min(&self, node: u32, gfp: Gfp, classzone: usize) -> Option<(usize, u32)> {
        if self.policy.free_snapshot == FreeSnapshot::WhileAwake {
            return None;
        }
        let flags = self.slow_path_flags(gfp) & !ALLOC_NO_WATERMARKS;
        for (walked, z) in (0..).zip(self.eligible(node, gfp)) {
            if self.watermark_ok(z, 0, self.zones[z].mark(Mark::Min), classzone, flags) {
                return Some((z, walked));
            }
            if self.zonelist_cache_notes(Passed::Watermark) {
                return None;
            }
        }
        None
    }

    /// Does the rest of an allocation that began at `start` (ns) after its fast part failed, and
    /// reports its latency.
    #[cold]
    async fn alloc_pages_slow(&self, gfp: Gfp, order: u32, start: u64) -> Option<Pfn> {
        let noted = self.noted_path();
        let free = || self.stat.global(ZoneStat::NrFreePages);
        self.world.alloc_slow(start, order, free());
        let (pfn, path) = self.alloc_pages_slowpath(gfp, order).await;
        self.world.alloc_slow_ends(free());
        self.world
            .alloc_latency(path, self.world.now().saturating_sub(start));
        if let Some(pfn) = pfn {
            self.track_instantiated(pfn, noted);
        }
        pfn
    }

    /// Returns the `ALLOC_*` flags of a request in the slow path, by its own flags and the task's:
    /// how far below the min watermark it may go (`gfp_to_alloc_flags`).
    fn slow_path_flags(&self, gfp: Gfp) -> u32 {
        let task = self.current().flags();
        let mut flags = 0;
        if gfp.has(Gfp::HIGH) {
            flags |= ALLOC_HIGH;
        }
        if !gfp.has(Gfp::WAIT) || task & PF_REALTIME != 0 {
            flags |= ALLOC_HARDER;
        }
        if task & (PF_MEMALLOC | PF_DYING) != 0 {
            flags |= ALLOC_NO_WATERMARKS;
        }
        flags
    }

    /// Does the slow path of an allocation (docs/reference/allocation.md#slow-path): wakes kswapd,
    /// walks at the min watermark, and repeats reclaim, waiting and the OOM stage until it gets a
    /// page or gives up. Returns the first page (`None`: none) and how the request was served.
    #[cold]
    async fn alloc_pages_slowpath(&self, gfp: Gfp, order: u32) -> (Option<Pfn>, AllocPath) {
        let node = self.local_node();
        let mut path = AllocPath::KswapdWoken;
        let (mut repeated, mut migrate) = (false, Migrate::Async);
        let rewakes = self.policy.slow_path == SlowPath::Rewake;
        'restart: loop {
            self.wake_kswapds(node, gfp, order);
            if self.policy.dirty_limits == DirtyLimits::PerZoneStall
                && gfp.has(Gfp::WRITE)
                && self.stall_on_dirty_zones(node, gfp).await
            {
                path = AllocPath::DirtyStall;
            }
            let flags = self.slow_path_flags(gfp);
            // `no_progress`: rounds of reclaim in a row that freed no page.
            let (mut pages_reclaimed, mut no_progress) = (0, 0);
            loop {
                // Kernels of the series preempt voluntarily: between waking kswapd and the walk at
                // the min watermark no other task gets the CPU.
                match repeated {
                    true if rewakes => self.wake_kswapds(node, gfp, order),
                    true => self.world.relax().await,
                    false => {}
                }
                repeated = true;
                let checked = flags & !ALLOC_NO_WATERMARKS;
                if let Some(p) = self.get_page_from_freelist(node, gfp, order, Mark::Min, checked) {
                    return (Some(p), path);
                }
                if flags & ALLOC_NO_WATERMARKS != 0 {
                    let page = self.get_page_from_freelist(
                        node,
                        gfp,
                        order,
                        Mark::Min,
                        ALLOC_NO_WATERMARKS,
                    );
                    if page.is_some() {
                        return (page, path);
                    }
                    if gfp.has(Gfp::NOFAIL) {
                        let z = self.preferred_zone(node, gfp);
                        self.wait_iff_congested(z, Class::Async, self.tick_fraction(50))
                            .await;
                        continue;
                    }
                }
                let task = self.current().flags();
                if !gfp.has(Gfp::WAIT)
                    || task & PF_MEMALLOC != 0
                    || (task & PF_DYING != 0 && !gfp.has(Gfp::NOFAIL))
                {
                    if !gfp.has(Gfp::WAIT) && task & PF_MEMALLOC == 0 {
                        self.atomic_allocation_failed(node, gfp);
                    }
                    return (None, AllocPath::Failed);
                }
                let asked = (gfp, order, flags);
                let Some((progress, page)) = self.reclaim_for(node, asked, &mut migrate).await
                else {
                    continue; // the task was killed meanwhile
                };
                path = AllocPath::DirectReclaim;
                if progress > 0 {
                    pages_reclaimed += progress;
                    no_progress = 0;
                    if page.is_some() {
                        return (page, path);
                    }
                } else if no_progress < self.policy.oom_retries
                    && let Some(z) = self.worth_another_try(node, asked, no_progress)
                {
                    no_progress += 1;
                    self.pause_before_retry(z).await;
                } else if gfp.has(Gfp::FS) && !gfp.has(Gfp::NORETRY) {
                    if self.oom_stage(node, gfp, order).await {
                        return (None, AllocPath::Failed);
                    }
                    if let Some(p) = self.get_page_from_freelist(node, gfp, order, Mark::High, 0) {
                        return (Some(p), path);
                    }
                    continue 'restart;
                }
                let retry = gfp.has(Gfp::NOFAIL)
                    || (!gfp.has(Gfp::NORETRY)
                        && (order <= PAGE_ALLOC_COSTLY_ORDER
                            || (gfp.has(Gfp::REPEAT) && pages_reclaimed < 1 << order)));
                if !retry {
                    return self.compact_or_fail(node, gfp, order, flags).await;
                }
                if rewakes {
                    self.world.relax().await;
                    continue;
                }
                let z = self.preferred_zone(node, gfp);
                self.wait_iff_congested(z, Class::Async, self.tick_fraction(50))
                    .await;
            }
        }
    }

    /// Ends a request of several pages that is not retried: compacts once more, as reclaim has
    /// freed pages for it. Returns the first page, or `None`, and how the request was served.
    async fn compact_or_fail(
        &self,
        node: u32,
        gfp: Gfp,
        order: u32,
        flags: u32,
    ) -> (Option<Pfn>, AllocPath) {
        let how = Migrate::Sync;
        match self.direct_compact(node, gfp, order, flags, how).await {
            None => (None, AllocPath::Failed),
            page => (page, AllocPath::DirectReclaim),
        }
    }

    /// Does a round of direct reclaim for a request, with compaction before it if the request is
    /// for several pages; `migrate`: how that may move pages, which changes for the next round.
    /// Returns how many pages were reclaimed (1 if compaction was enough) and a page allocated from
    /// them; `None` if the task was killed before it began. Since 5.17 all of this is a memory
    /// stall, and other tasks may run before and after it (`slow_path`).
    async fn reclaim_for(
        &self,
        node: u32,
        (gfp, order, flags): (Gfp, u32, u32),
        migrate: &mut Migrate,
    ) -> Option<(u64, Option<Pfn>)> {
        let how = std::mem::replace(migrate, Migrate::Sync);
        let compacted = self.direct_compact(node, gfp, order, flags, how).await;
        if compacted.is_some() {
            return Some((1, compacted));
        }
        let rewakes = self.policy.slow_path == SlowPath::Rewake;
        if rewakes {
            self.world.memory_stall(true);
            self.world.relax().await;
        }
        let begun = self.world.now();
        let waited = || {
            let ns = self.world.now().saturating_sub(begun);
            self.world.reclaim_waited(ns);
        };
        // Waits while kswapd refills the node's reserves; true: the task was killed meanwhile.
        let dies = self.throttle_direct_reclaim(node, gfp).await;
        let mut reclaimed = None;
        if dies {
            waited();
        } else {
            self.direct_reclaim_seen(node, gfp, order);
            let progress = self.try_to_free_pages(node, gfp, order).await;
            waited();
            if rewakes {
                self.world.relax().await;
            }
            let page = match progress {
                0 => None,
                _ => self.take_reclaimed(node, gfp, order, flags),
            };
            reclaimed = Some((progress, page));
        }
        if rewakes {
            self.world.memory_stall(false);
        }
        reclaimed
    }

    /// Wakes kswapd for each zone that a request of 2^`order` pages from `node` may use.
    fn wake_kswapds(&self, node: u32, gfp: Gfp, order: u32) {
        let classzone = self.zones[self.preferred_zone(node, gfp)].kind.index();
        self.wake_kswapds_for(node, gfp, order, classzone);
    }

    /// Does [`Self::wake_kswapds`] for a caller that knows the request's classzone.
    fn wake_kswapds_for(&self, node: u32, gfp: Gfp, order: u32, classzone: usize) {
        let single = if order == 0 { self.wake_mark() } else { None };
        if let [only] = &self.nodes[..]
            && single.is_some()
            && only.kswapd_sleeping.get() == 0
        {
            // kswapd is awake, and all zones ask it the same.
            let zones = &only.zonelists[gfp.high_zoneidx()];
            self.world.charge(Cost::ZoneWalk, zones.len() as u32);
            return only.ask_kswapd(0, classzone as u32);
        }
        for z in self.eligible(node, gfp) {
            // Skips zones for which the wake-up would do nothing.
            if single.is_none_or(|mark| !self.wakes_nobody(z, mark, classzone)) {
                self.wakeup_kswapd(z, gfp, order, classzone);
            }
        }
    }

    /// Allocates from the pages that this task has reclaimed, unless others took them: first as
    /// usual, then with the CPUs' lists drained, since pages may lie there.
    fn take_reclaimed(&self, node: u32, gfp: Gfp, order: u32, flags: u32) -> Option<Pfn> {
        self.zones_reclaimed(node);
        let page = self.get_page_from_freelist(node, gfp, order, Mark::Min, flags);
        if page.is_some() {
            return page;
        }
        self.drain_all_pages();
        self.get_page_from_freelist(node, gfp, order, Mark::Min, flags)
    }

    /// Returns the first zone in which a request would succeed if all pages of its lists were free,
    /// so that another attempt after `tried` ones without progress is worthwhile; `None`: no zone.
    /// With `oom_retry = "waits"` the lists count for less with each attempt (mm/page_alloc.c
    /// `should_reclaim_retry`, 4.7).
    pub(crate) fn worth_another_try(
        &self,
        node: u32,
        (gfp, order, flags): (Gfp, u32, u32),
        tried: u8,
    ) -> Option<usize> {
        let most = u64::from(self.policy.oom_retries);
        let classzone = self.zones[self.preferred_zone(node, gfp)].kind.index();
        self.eligible(node, gfp).find(|&z| {
            let mut available = self.zone_lists(z);
            if self.policy.oom_retry == OomRetry::Waits {
                available -= (u64::from(tried) * available).div_ceil(most);
            }
            available += self.stat.snapshot(z, ZoneStat::NrFreePages);
            let zone = &self.zones[z];
            self.watermark_ok_on(
                zone,
                available,
                order,
                zone.mark(Mark::Min),
                classzone,
                flags,
            )
        })
    }

    /// Returns the number of pages of zone `z` on LRU lists that reclaim could free; anonymous ones
    /// count only if swap has room (mm/vmscan.c `zone_reclaimable_pages`).
    fn zone_lists(&self, z: usize) -> u64 {
        let swaps = self.free_swap() > 0;
        let lists = Lru::ALL.iter().filter(|&&lru| lru != Lru::Unevictable);
        lists
            .filter(|lru| swaps || lru.is_file())
            .map(|lru| self.stat.zone(z, lru.size_item()))
            .sum()
    }

    /// Waits before a request without progress retries in zone `z`. With `oom_retry = "waits"`, if
    /// more than half of what could be reclaimed there is dirty or under writeback, waits up to a
    /// tenth of a second, so that writes end before memory counts as exhausted
    /// (`should_reclaim_retry`, 4.7 to 5.15); else only lets other tasks run.
    pub(crate) async fn pause_before_retry(&self, z: usize) {
        let pages = |item| self.stat.snapshot(z, item);
        let pending = pages(ZoneStat::NrFileDirty) + pages(ZoneStat::NrWriteback);
        if self.policy.oom_retry == OomRetry::Waits && 2 * pending > self.zone_lists(z) {
            let wait = self.tick_fraction(10);
            self.congestion_wait(Class::Async, wait).await;
        } else {
            self.world.relax().await;
        }
    }

    /// Stalls a write in the earlier form of per-zone dirty limits: if every zone that it may use
    /// is over its share, and those zones together are too small to reach the global limit, wakes
    /// the flushers and waits for writeback to make progress. Returns true if it waited.
    async fn stall_on_dirty_zones(&self, node: u32, gfp: Gfp) -> bool {
        if self.current().flags() & PF_MEMALLOC != 0 || !gfp.has(Gfp::WAIT) {
            return false;
        }
        let highest = gfp.high_zoneidx();
        // `over`: the dirty limits of these zones, added up.
        let over: u64 = self
            .eligible(node, gfp)
            .filter(|&z| self.zones[z].kind.index() <= highest)
            .map(|z| self.zone_dirty_limit(z))
            .sum();
        let limits = self.dirty_limits();
        if over >= limits.background || self.eligible(node, gfp).any(|z| self.zone_dirty_ok(z)) {
            return false;
        }
        self.stat.event(VmEvent::DirtyStall, 1);
        self.wakeup_flusher_threads(0);
        self.congestion_wait(Class::Async, self.tick_fraction(10))
            .await;
        true
    }

    /// Allocates a page of unmovable kernel memory and counts it; it stays until
    /// [`Mm::free_kernel_page`]. `None` as for [`Mm::alloc_page`].
    pub async fn alloc_kernel_page(&self, gfp: Gfp) -> Option<Pfn> {
        let pfn = self.alloc_page(gfp).await?;
        self.stat
            .inc(self.world.cpu(), self.frames.zone(pfn), ZoneStat::NrKernel);
        Some(pfn)
    }

    /// Allocates 2^order contiguous pages as [`Mm::alloc_kernel_page`] does.
    pub async fn alloc_kernel_pages(&self, gfp: Gfp, order: u32) -> Option<Pfn> {
        let pfn = self.alloc_pages(gfp, order).await?;
        let z = self.frames.zone(pfn);
        // The allocator marks only the first frame of a block.
        for tail in pfn + 1..pfn + (1 << order) {
            self.frames.page(tail).reset_flags(z, flag::USED);
        }
        let pages = i32::try_from(1u32 << order).expect("a buddy order");
        self.stat
            .add(self.world.cpu(), z, ZoneStat::NrKernel, pages);
        Some(pfn)
    }

    /// Frees 2^order contiguous kernel pages from `pfn` on that [`Mm::alloc_kernel_pages`]
    /// returned.
    pub fn free_kernel_pages(&self, pfn: Pfn, order: u32) {
        if order == 0 {
            return self.free_kernel_page(pfn);
        }
        let z = self.frames.zone(pfn);
        for tail in pfn + 1..pfn + (1 << order) {
            self.frames.page(tail).reset_flags(z, 0);
        }
        let pages = i32::try_from(1u32 << order).expect("a buddy order");
        self.stat
            .add(self.world.cpu(), z, ZoneStat::NrKernel, -pages);
        self.free_pages_order(pfn, order);
    }

    /// Frees a kernel page that [`Mm::alloc_kernel_page`] returned, and counts it off.
    pub fn free_kernel_page(&self, pfn: Pfn) {
        self.stat
            .dec(self.world.cpu(), self.frames.zone(pfn), ZoneStat::NrKernel);
        self.free_page(pfn, false);
    }
}
