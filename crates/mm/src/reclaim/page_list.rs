//! Decides for each isolated page: keep, activate, free or write it.

use super::scan::{SWAP_CLUSTER_MAX, ScanControl};
use crate::cache::tree::SLOTS;
use crate::memory::frame::{Page, Table, flag};
use crate::memory::gfp::Gfp;
use crate::memory::group::GroupEvent;
use crate::memory::task::{PF_KSWAPD, PF_SWAPWRITE};
use crate::memory::zone::{Lru, ZONE_CONGESTED, ZONE_TAIL_DIRTY, ZONE_WRITEBACK};
use crate::policy::{
    ReclaimThrottle, ReclaimWriteback, ReclaimedPages, References, UnwrittenPages,
};
use crate::watch::vmstat::{VmEvent, ZoneEvent, ZoneStat};
use crate::world::event::TrackPath;
use crate::world::{Class, Cost, Word32, World, WritebackControl, Writepage};
use crate::{Mm, Pfn, queue};

/// The outcome of one page's examination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Keep,
    Activate,
    /// Clean and unused: free it.
    Free,
    /// Dirty: hand it to its filesystem or swap.
    Pageout,
}

/// Counts of pages in one batch, by what they were and what became of them.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Batch {
    /// Freed.
    pub(super) reclaimed: u64,
    /// Dirty pages. If reclaim throttles by flags: only file pages, those under writeback too.
    pub(super) dirty: u64,
    /// Dirty pages whose device is congested, or pages that were met again under writeback.
    pub(super) congested: u64,
    /// Under writeback, except those that count as `immediate`.
    pub(super) writeback: u64,
    /// Dirty and not under writeback.
    pub(super) unqueued: u64,
    /// Under writeback and already marked for immediate reclaim when kswapd met it, in a zone full
    /// of such pages.
    pub(super) immediate: u64,
    /// Anonymous pages and file pages that were activated.
    pub(super) activate: [u32; 2],
    /// Kept because they were referenced.
    pub(super) ref_keep: u32,
    /// Handed to a filesystem or to swap.
    pub(super) pageout: u64,
}

/// The isolated pages of one call of `shrink_page_list`, and how far they are examined.
struct PageList {
    /// The task's isolated list (its sentinel).
    own_list: Pfn,
    /// The next page to examine.
    next: Pfn,
    /// Pages not examined yet.
    left: u32,
    /// The last page that stays on the list, or the list's sentinel.
    kept: Pfn,
    /// The zone that the pages come from.
    zone: usize,
    /// The list that the pages come from.
    lru: Lru,
    /// The memory control group that is reclaimed from; 0: the machine.
    target: u32,
    /// Pages that have left the page cache and are not subtracted from its counter yet.
    uncached: u32,
    /// Pages to be freed, and behind them those of the run at hand.
    freed: [Pfn; SWAP_CLUSTER_MAX as usize],
    /// Counts of the examined pages.
    batch: Batch,
}

impl PageList {
    /// Unlocks a page that belongs to no file or region any more, and adds it to the pages that are
    /// freed together at the end.
    #[inline(always)]
    fn free<W: World>(&mut self, mm: &Mm<W>, page: Page<'_, W>, pfn: Pfn) {
        mm.unlock_and_clear(page, pfn, flag::REFERENCED | flag::ACTIVE | flag::RECLAIM);
        self.freed[self.batch.reclaimed as usize] = pfn;
        self.batch.reclaimed += 1;
    }

    /// Returns the slots of the array of freed pages for the next pages of a run of clean pages:
    /// behind the freed pages and those of the run so far.
    #[inline(always)]
    fn behind(&mut self, run: &CleanRun) -> &mut [Pfn] {
        &mut self.freed[self.batch.reclaimed as usize + run.n as usize..]
    }

    /// Adds a page to the run of clean pages, which stands behind the freed pages in their array.
    #[inline(always)]
    fn push_clean(&mut self, run: &mut CleanRun, pfn: Pfn) {
        self.freed[(self.batch.reclaimed as u32 + run.n) as usize % SWAP_CLUSTER_MAX as usize] =
            pfn;
        run.n += 1;
    }
}

/// Settings that hold for all pages of a batch that are clean and in the page cache.
#[derive(Clone, Copy)]
struct CleanPages {
    /// An eviction policy orders the pages and must be asked before any is freed.
    ask_policy: bool,
    /// The shift with which shadows count ages; `None`: freed pages leave no shadows.
    shadows: Option<u32>,
    node_lru: bool,
    watched: bool,
    /// Flags of pages for which the world must be asked before they are freed; `None`: it must be
    /// asked for every page, or an eviction policy orders the pages.
    ask_flags: Option<u32>,
}

impl CleanPages {
    /// Flags of a page that needs a full examination: it is not clean, not a file's, or another
    /// task holds it.
    const LOOK: u32 = flag::DIRTY
        | flag::WRITEBACK
        | flag::UNEVICTABLE
        | flag::SWAPBACKED
        | flag::SWAPCACHE
        | flag::ANON
        | flag::PINNED
        | flag::LOCKED;

    /// Returns true if an unmapped page that had these flags when it was locked is freed without an
    /// examination: a clean file page that no task holds, not ordered by an eviction policy.
    #[inline(always)]
    fn may_free(self, flags: u32) -> bool {
        !self.ask_policy && flags & (Self::LOOK | flag::CACHED) == flag::CACHED
    }
}

/// Clean pages of one leaf of a file's index that are freed together. They stand in
/// `PageList::freed` behind the pages freed so far.
#[derive(Default)]
struct CleanRun {
    /// File, and number of the leaf in it.
    leaf: (u32, u32),
    n: u32,
}

impl CleanRun {
    /// Returns the file of a page and the number of its leaf (index / 64) there, if the page is
    /// clean and unmapped and so is freed without an examination, and has none of the flags
    /// `ask_flags`, for which the world must be asked; else `None`.
    #[inline(always)]
    fn leaf_of<W: World>(page: Page<'_, W>, ask_flags: u32) -> Option<(u32, u32)> {
        let look = CleanPages::LOOK | flag::CACHED | ask_flags;
        let clean = page.flags() & look == flag::CACHED && page.mapcount() == 0;
        clean.then(|| (page.mapping(), page.index() / SLOTS))
    }

    /// Locks isolated pages, from `at` towards the head of their list, as long as they are clean,
    /// unmapped, of the run's file and leaf and have none of the flags `ask_flags`, and puts them
    /// into `into`. Returns their number and the page in front of them.
    #[inline(always)]
    fn extend<W: World>(
        &mut self,
        frames: Table<'_, W>,
        ask_flags: u32,
        mut at: Pfn,
        into: &mut [Pfn],
    ) -> (u32, Pfn) {
        let look = CleanPages::LOOK | flag::CACHED | ask_flags;
        let (mapping, leaf) = self.leaf;
        let mut n = 0;
        for slot in into {
            let page = frames.page(at);
            let f = page.flags();
            if f & look != flag::CACHED
                || page.mapcount() != 0
                || page.mapping() != mapping
                || page.index() / SLOTS != leaf
                || !page.replace_flags(f, f | flag::LOCKED)
            {
                break;
            }
            *slot = at;
            at = page.before();
            n += 1;
        }
        self.n += n;
        (n, at)
    }
}

/// Why the walk over isolated pages stopped.
enum Stop {
    /// A dirty page, locked, that has to be written.
    Write(Pfn),
    /// A page that its filesystem refused, unlocked; the task has to yield.
    GiveWay(Pfn),
}

/// The result of handing a page to its filesystem or to swap.
pub(super) enum Pageout {
    Keep,
    Activate,
    Success,
    Clean,
}

impl<W: World> Mm<W> {
    /// Examines the `n` pages on the calling task's isolated list, from the tail on, which come
    /// from the list `lru` of zone `z`. Frees what it can, in one go at the end, and writes dirty
    /// pages as allowed; pages that stay are left on the list. Returns counts of the pages by what
    /// became of them.
    pub(super) async fn shrink_page_list(
        &self,
        z: usize,
        lru: Lru,
        n: u32,
        sc: &mut ScanControl,
    ) -> Batch {
        let own_list = self.isolated_list(self.world.task());
        self.world.charge(Cost::PageScan, n);
        let mut list = PageList {
            own_list,
            next: self.frames.last(own_list),
            left: n,
            kept: own_list,
            zone: z,
            lru,
            target: sc.target,
            uncached: 0,
            freed: [0; SWAP_CLUSTER_MAX as usize],
            batch: Batch::default(),
        };
        while let Some(stop) = self.shrink_without_io(&mut list, sc) {
            let (pfn, answer) = match stop {
                Stop::Write(pfn) => (pfn, self.pageout(pfn, sc, &mut list.batch).await),
                Stop::GiveWay(pfn) => {
                    self.world.relax().await;
                    (pfn, Pageout::Success)
                }
            };
            let verdict = match answer {
                Pageout::Keep => Verdict::Keep,
                Pageout::Activate => Verdict::Activate,
                Pageout::Clean => Verdict::Free,
                Pageout::Success => {
                    let f = self.frames.flags(pfn);
                    // The write was completed synchronously and the page is clean: free it.
                    if f & (flag::WRITEBACK | flag::DIRTY) != 0 || !self.try_lock_page(pfn) {
                        continue;
                    }
                    Verdict::Free
                }
            };
            let page = self.frames.page(pfn);
            if verdict == Verdict::Free && self.remove_mapping(page, pfn, &mut list) {
                self.forget_returned(z, pfn);
                self.count_removed(z, std::mem::take(&mut list.uncached));
                // The page leaves the list, so the one behind it is the last that was kept.
                list.kept = self.frames.table().after(pfn);
                self.frames.del(pfn);
                list.free(self, page, pfn);
            } else {
                self.keep_isolated(pfn, verdict, &mut list.batch);
            }
        }
        let batch = list.batch;
        if batch.dirty > 0
            && batch.dirty == batch.congested
            && self.policy.reclaim_throttle != ReclaimThrottle::Reasons
        {
            self.zones[z].flags.fetch_or(ZONE_CONGESTED);
        }
        let freed = &mut list.freed[..batch.reclaimed as usize];
        if self.node_lru() {
            if self.policy.reclaimed_pages == ReclaimedPages::List {
                freed.reverse();
            }
            self.free_reclaimed(freed, lru.is_file(), sc);
        } else {
            self.free_cold_pages(z, freed);
        }
        batch
    }

    /// Frees pages that reclaim took from a node's list, in their order, and takes them off the
    /// isolated pages of their zones: rows of one zone together, or page by page while events are
    /// traced, each of which has its own time. `file`: file pages, not anonymous ones; `sc`: the
    /// reclaim that took them.
    fn free_reclaimed(&self, freed: &[Pfn], file: bool, sc: &ScanControl) {
        let kswapd = sc.kswapd;
        if sc.group != 0 {
            let event = match kswapd {
                true => GroupEvent::PgStealKswapd,
                false => GroupEvent::PgStealDirect,
            };
            self.count_group(sc.group, event, freed.len() as u64);
        }
        // The machine's counters do not have what is freed for a group's limit.
        let count_stolen = |z, n| {
            if sc.target == 0 {
                self.count_stolen(z, kswapd, n);
            }
        };
        if self.traced() {
            for &pfn in freed {
                self.count_returned(pfn, file);
                count_stolen(self.frames.zone(pfn), 1);
                self.free_page(pfn, true);
            }
            return;
        }
        for (z, row) in self.frames.table().rows_by_zone(freed) {
            let n = row.len() as u32;
            let stat = self.stat.on(self.world.cpu(), z);
            stat.dec_by(Self::isolated_item(file), n);
            count_stolen(z, u64::from(n));
            self.free_cold_pages(z, row);
        }
    }

    /// Counts `n` pages of zone `z` that reclaim freed, for kswapd or for direct reclaim.
    pub(super) fn count_stolen(&self, z: usize, kswapd: bool, n: u64) {
        let by = if kswapd {
            ZoneEvent::PgStealKswapd
        } else {
            ZoneEvent::PgStealDirect
        };
        self.stat.zone_event(z, ZoneEvent::PgSteal, n);
        self.stat.zone_event(z, by, n);
    }

    /// Examines isolated pages, from the tail of the list on, and frees the clean ones, until one
    /// is dirty and has to be written, or the task has to yield after one. Returns which; `None`
    /// when all are examined.
    ///
    /// Links of pages that leave are not mended one by one: the pages that stay are joined to each
    /// other, and the list is consistent again on return.
    fn shrink_without_io(&self, list: &mut PageList, sc: &mut ScanControl) -> Option<Stop> {
        let frames = self.frames.table();
        let (mut next, mut kept, mut left) = (list.next, list.kept, list.left);
        // The page at hand was refused by its filesystem: the pages after it may be refused in a
        // row.
        let (mut stop, mut refused) = (None, false);
        let rules = CleanPages {
            ask_policy: self.orders.is_some(),
            shadows: self.shadow_shift(),
            node_lru: self.node_lru(),
            watched: self.watches_pages(),
            ask_flags: self
                .world
                .release_asks(self)
                .filter(|_| self.orders.is_none()),
        };
        let mut run = CleanRun::default();
        // Walks the pages that the next batch will isolate, so that they are in the CPU's cache by
        // then (the kernel's `prefetchw_prev_lru_page`). The walk reads links without the list's
        // lock: if other tasks run it may end up on another list, which only makes it useless.
        let mut ahead = self.lru_list_of(list.zone, sc.group, list.lru);
        while left > 0 && stop.is_none() {
            if let Some(ask_flags) = rules.ask_flags
                && let Some(leaf) = CleanRun::leaf_of(frames.page(next), ask_flags)
            {
                if run.leaf != leaf {
                    self.free_clean(&mut run, rules, list, sc);
                    run.leaf = leaf;
                }
                let into = &mut list.behind(&run)[..left as usize];
                let (n, at) = run.extend(frames, ask_flags, next, into);
                for _ in 0..n {
                    ahead = frames.before(ahead);
                }
                (next, left) = (at, left - n);
                continue;
            }
            let pfn = next;
            debug_assert!(pfn != list.own_list);
            left -= 1;
            let page = frames.page(pfn);
            next = page.before();
            ahead = frames.before(ahead);
            let before = page.set_flags(flag::LOCKED);
            if rules.may_free(before) && page.mapcount() == 0 && self.world.release_page(self, pfn)
            {
                let leaf = (page.mapping(), page.index() / SLOTS);
                if run.leaf != leaf {
                    self.free_clean(&mut run, rules, list, sc);
                    run.leaf = leaf;
                }
                list.push_clean(&mut run, pfn);
                continue;
            }
            if before & flag::LOCKED == 0 {
                // Free the pending run first, so that pages are freed in their order.
                self.free_clean(&mut run, rules, list, sc);
                match self.examine(page, pfn, sc, &mut list.batch) {
                    Verdict::Pageout => {
                        // Charge the time of the pages that left before the filesystem is asked.
                        self.count_removed(list.zone, std::mem::take(&mut list.uncached));
                        if !self.pageout_refused(page, pfn, sc, &mut list.batch) {
                            stop = Some(Stop::Write(pfn));
                        } else if !self.world.goes_on() {
                            stop = Some(Stop::GiveWay(pfn));
                        } else {
                            refused = true;
                        }
                    }
                    Verdict::Free if self.remove_mapping(page, pfn, list) => {
                        list.free(self, page, pfn);
                        continue;
                    }
                    verdict => self.keep_isolated(pfn, verdict, &mut list.batch),
                }
            }
            frames.join(pfn, kept);
            kept = pfn;
            if std::mem::take(&mut refused) {
                let n;
                (n, kept) = self.refused_row((page, pfn), left, sc, &mut list.batch);
                (left, next) = (left - n, frames.before(kept));
            }
        }
        self.free_clean(&mut run, rules, list, sc);
        std::hint::black_box(ahead);
        frames.join(next, kept);
        (list.next, list.kept, list.left) = (next, kept, left);
        self.count_removed(list.zone, std::mem::take(&mut list.uncached));
        stop
    }

    /// Frees the pending run of clean, unmapped pages, which reclaim has locked, if it has any:
    /// does what [`Self::examine`] and [`Self::remove_mapping`] do with such pages, with one
    /// look-up in the index.
    #[inline(always)]
    fn free_clean(
        &self,
        run: &mut CleanRun,
        rules: CleanPages,
        list: &mut PageList,
        sc: &mut ScanControl,
    ) {
        if run.n > 0 {
            sc.nr_scanned += u64::from(run.n);
            self.free_clean_run(run, rules, list);
            run.n = 0;
        }
    }

    /// Takes the pages of a run of clean pages out of their file, leaving shadows if `rules` say
    /// so, and wakes the tasks that wait for them.
    #[inline(never)]
    fn free_clean_run(&self, run: &CleanRun, rules: CleanPages, list: &mut PageList) {
        let (n, (mapping, leaf)) = (run.n, run.leaf);
        let pages = &list.freed[list.batch.reclaimed as usize..][..n as usize];
        list.batch.reclaimed += u64::from(n);
        let frames = self.frames.table();
        if rules.node_lru {
            for (z, row) in frames.rows_by_zone(pages) {
                if rules.watched {
                    // The time of each page passes before the age of the next one is taken.
                    self.note_reclaimed_row(z, row, self.world.price(Cost::PageIndex));
                }
                self.count_removed(z, row.len() as u32);
            }
        } else {
            if rules.watched {
                self.note_reclaimed_row(list.zone, pages, 0);
            }
            list.uncached += n;
        }
        let waited = match rules.shadows {
            None => self.leave_in_run(mapping, leaf, pages, |_, _| 0),
            shift => {
                let shadow = self.shadows_of((list.zone, list.target), shift, n);
                self.leave_in_run(mapping, leaf, pages, shadow)
            }
        };
        self.settle_metadata();
        if waited != 0 {
            for (nth, &pfn) in pages.iter().enumerate() {
                if waited >> nth & 1 != 0 {
                    self.world.wake(queue::page(pfn));
                }
            }
        }
    }

    /// Unlocks an isolated page that reclaim keeps; marks it active first if the verdict says so.
    fn keep_isolated(&self, pfn: Pfn, verdict: Verdict, batch: &mut Batch) {
        if verdict == Verdict::Activate && !self.is_ordered(self.frames.flags(pfn)) {
            if self.frames.has(pfn, flag::SWAPCACHE) && self.swap_is_half_full() {
                self.try_to_free_swap(pfn);
            }
            if !self.frames.test_and_set(pfn, flag::ACTIVE) {
                self.stat.event(VmEvent::PgActivate, 1);
                self.count_of_page(pfn, GroupEvent::PgActivate, 1);
                self.note_path(TrackPath::Reclaim);
                self.track_activated(pfn);
                let file = !self.frames.has(pfn, flag::SWAPBACKED);
                batch.activate[usize::from(file)] += 1;
            }
        }
        self.unlock_isolated(pfn);
    }

    /// Releases the page lock that reclaim tried. Few pages have waiters, so it wakes only where
    /// `WAITERS` is set.
    #[inline(always)]
    pub(crate) fn unlock_isolated(&self, pfn: Pfn) {
        self.unlock_and_clear(self.frames.page(pfn), pfn, 0);
    }

    /// Unlocks a page as [`Mm::unlock_isolated`] does, and clears the flags `bits` in the same
    /// step.
    #[inline(always)]
    pub(crate) fn unlock_and_clear(&self, page: Page<'_, W>, pfn: Pfn, bits: u32) {
        let before = page.clear_flags(flag::LOCKED | flag::WAITERS | bits);
        debug_assert!(before & flag::LOCKED != 0);
        if before & flag::WAITERS != 0 {
            self.world.wake(queue::page(pfn));
        }
    }

    /// Decides whether an isolated, locked page is kept, activated, freed or written, by the rules
    /// of docs/reference/reclaim.md#page-decisions, up to the point where a dirty page would be
    /// written. Unmaps it and gives it a swap slot if need be. Counts the page in `sc` and `batch`.
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
        let by_flags = self.throttles_by_flags();
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
            return self.unwritten();
        }
        let young = if mapped { self.take_young(pfn) } else { 0 };
        let referenced = f & flag::REFERENCED != 0;
        if referenced {
            if self.is_ordered(f) {
                batch.ref_keep += 1;
                return Verdict::Keep; // used since the policy chose it
            }
            page.clear_flags(flag::REFERENCED);
        }
        let mut only_if_clean = false;
        if young > 0 {
            // The first touch of a new page sets the young bit: where new anonymous pages start
            // inactive, one reference is not enough to activate.
            if !file && !self.policy.workingset_anon {
                return Verdict::Activate;
            }
            self.frames.set_flags(pfn, flag::REFERENCED);
            let shared = self.policy.references == References::TwiceOrShared
                && (young > 1 || file && f & flag::EXEC != 0);
            return if referenced || shared {
                Verdict::Activate
            } else {
                batch.ref_keep += 1;
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
                self.leave_to_flusher(pfn, f);
                return self.unwritten();
            }
            if only_if_clean || !may_enter_fs || !sc.may_writepage {
                return Verdict::Keep;
            }
            return Verdict::Pageout;
        }
        Verdict::Free
    }

    /// Returns the verdict for a page that is under writeback or left to the flusher: it stays
    /// inactive, or waits on the active list, by the policy.
    fn unwritten(&self) -> Verdict {
        match self.policy.unwritten_pages {
            UnwrittenPages::Inactive => Verdict::Keep,
            UnwrittenPages::Active => Verdict::Activate,
        }
    }

    /// Leaves a dirty file page that this reclaimer may not write itself to the flusher, marked for
    /// immediate reclaim after its writeback if the policy says so (*writeback-from-reclaim* 1, 5,
    /// 7, 8).
    #[inline]
    fn leave_to_flusher(&self, pfn: Pfn, flags: u32) {
        let (item, marked) = if self.policy.immediate_reclaim {
            (ZoneStat::NrVmscanImmediateReclaim, flag::RECLAIM)
        } else {
            (ZoneStat::NrVmscanWriteSkip, 0)
        };
        self.stat.inc(self.world.cpu(), self.frames.zone(pfn), item);
        if !self.is_ordered(flags) {
            self.frames.set_flags(pfn, marked);
        }
        self.ask_flusher_for(pfn);
    }

    /// Returns true if the policy lets this reclaimer write dirty file pages of zone `z` now.
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

    /// Counts a page with the flags `f` that is dirty or under writeback in `batch`, from which the
    /// zone's flags follow; anonymous pages count as neither, but may count as congested
    /// (`page_check_dirty_writeback`).
    #[inline(never)]
    fn count_for_flags(&self, page: Page<'_, W>, f: u32, batch: &mut Batch) {
        let again = f & flag::WRITEBACK != 0 && f & flag::RECLAIM != 0;
        let file = f & flag::SWAPBACKED == 0;
        if file {
            batch.dirty += 1;
            batch.unqueued += u64::from(f & flag::WRITEBACK == 0);
        }
        if self.policy.reclaim_throttle == ReclaimThrottle::Reasons {
            batch.congested += u64::from(file && again);
            return;
        }
        let bdi = || self.mappings[page.mapping() as usize].bdi();
        let congested =
            file && f & flag::CACHED != 0 && self.world.bdi_congested(bdi(), Class::Async);
        batch.congested += u64::from(congested || again);
    }

    /// Hands a dirty page to its filesystem or to swap to be written
    /// (docs/reference/reclaim.md#page-decisions). The page is locked on entry, and on exit unless
    /// the answer is `Success`.
    async fn pageout(&self, pfn: Pfn, sc: &ScanControl, batch: &mut Batch) -> Pageout {
        let f = self.frames.flags(pfn);
        if f & flag::PINNED != 0 || f & (flag::CACHED | flag::SWAPCACHE) == 0 {
            return Pageout::Keep;
        }
        let swap = f & flag::SWAPCACHE != 0;
        if !swap && !self.may_write_to_queue(pfn, sc) {
            batch.congested += u64::from(!self.throttles_by_flags());
            return Pageout::Keep;
        }
        if !swap
            && self
                .world
                .reclaim_writes_ranges(self, self.frames.mapping(pfn))
        {
            return self.pageout_range(pfn, batch).await;
        }
        if !self.clear_page_dirty_for_io(pfn) {
            return Pageout::Clean;
        }
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
        self.count_pageout(pfn, !swap, wbc.sync_all, batch);
        self.unlock_isolated(pfn);
        self.world.relax().await;
        Pageout::Success
    }

    /// Returns true if the task may write to the device of the page's file: the device is not
    /// congested, or the task is kswapd, the flusher or the device's own writer, or reclaims for a
    /// high order.
    pub(super) fn may_write_to_queue(&self, pfn: Pfn, sc: &ScanControl) -> bool {
        let task = self.current();
        if task.flags() & (PF_SWAPWRITE | PF_KSWAPD) != 0 || sc.order > 3 {
            return true;
        }
        let bdi = self.mappings[self.frames.mapping(pfn) as usize].bdi();
        !self.world.bdi_congested(bdi, Class::Async) || task.writing_to.get() == bdi + 1
    }

    /// Takes a clean, unmapped page out of its file, its region or the swap cache, and returns
    /// true; false if it has to stay. A page that left the page cache is added to the list's
    /// `uncached`, whose count the caller subtracts from the zone's.
    #[inline]
    fn remove_mapping(&self, page: Page<'_, W>, pfn: Pfn, list: &mut PageList) -> bool {
        let f = page.flags();
        if f & (flag::DIRTY | flag::WRITEBACK | flag::PINNED) != 0 || page.mapcount() > 0 {
            return false;
        }
        if f & flag::CACHED != 0 {
            if !self.world.release_page(self, pfn) {
                return false;
            }
            if self.watches_pages() {
                self.note_reclaimed_row(page.zone(), &[pfn], 0);
            }
            let shadow = self.eviction_shadow(page, list.target);
            self.leave_page_cache(page, pfn, shadow);
            if self.node_lru() {
                self.count_removed(page.zone(), 1);
            } else {
                list.uncached += 1;
            }
            true
        } else if f & flag::SWAPCACHE != 0 {
            self.leave_swap_cache(pfn, list.target);
            true
        } else if f & flag::ANON != 0 {
            self.forget_anon(pfn);
            true
        } else {
            false
        }
    }
}
