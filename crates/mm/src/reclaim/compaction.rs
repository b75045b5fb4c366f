//! Memory compaction (docs/reference/allocation.md#compaction): a task that needs 2^n contiguous
//! pages moves used pages to the zone's end, before it reclaims any.
//!
//! ```text
//!   start of the zone                                              end of the zone
//!   |  migrate scanner →                              ← free scanner              |
//!   |  takes used pages off the LRU lists,            takes free pages,           |
//!   |  up to 32 at a time                             one for each page to move   |
//! ```
//!
//! Compaction of a zone ends when the scanners meet or a free block of the order exists. It works
//! as in Linux 3.0 (mm/compaction.c, mm/migrate.c). Isolated pages are on the task's isolated list,
//! as in reclaim.
//!
//! Not modelled: kswapd's own compaction (3.5 to 4.5) and kcompactd (4.6), pageblocks that are
//! remembered to be skipped (3.7), a page that is captured for the request (3.7), deferral by order
//! (3.5).

use super::scan::{DEF_PRIORITY, SCAN_ORDER, SWAP_CLUSTER_MAX, ScanControl};
use crate::memory::alloc::{Migrate, PAGE_ALLOC_COSTLY_ORDER};
use crate::memory::buddy::ORDERS;
use crate::memory::frame::{NO_PFN, flag};
use crate::memory::gfp::Gfp;
use crate::memory::mobility::MigrateType;
use crate::memory::task::{PF_DYING, PF_MEMALLOC};
use crate::memory::zone::{Lru, Mark};
use crate::policy::{Compaction, ReclaimThrottle};
use crate::watch::vmstat::{VmEvent, ZoneStat};
use crate::world::{Class, Cost, ShortLock, Word32, World};
use crate::{Mm, Pfn};

/// Pages isolated and moved at a time (`COMPACT_CLUSTER_MAX`).
const COMPACT_CLUSTER_MAX: u32 = SWAP_CLUSTER_MAX as u32;
/// After failures in a row up to 2^6 requests do without compaction (`COMPACT_MAX_DEFER_SHIFT`).
const COMPACT_MAX_DEFER_SHIFT: u32 = 6;
/// How often the move of a page is tried that is in use for the moment (`migrate_pages`).
const PASSES: u32 = 10;
/// From this pass on a task that may wait waits for a page's writeback.
const FORCED: u32 = 3;

/// The result of a zone's compaction; of several zones the last one in this order counts
/// (`COMPACT_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Compacted {
    /// There was nothing that it could do.
    Skipped,
    /// Compaction is not finished, or could begin.
    Continue,
    /// A free block may exist.
    Partial,
    /// The scanners have met.
    Complete,
}

/// The result of trying to move one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moved {
    /// The page was moved.
    Yes,
    /// Another task uses the page for the moment; try again.
    Again,
    /// The page cannot be moved.
    Never,
}

/// The state of one zone's compaction.
struct CompactControl {
    zone: usize,
    order: u32,
    /// The kind of lists that the request takes pages from.
    list: usize,
    how: Migrate,
    /// The next page of the migrate scanner.
    migrate: Pfn,
    /// The first page of the free scanner's pageblock.
    free: Pfn,
    /// The free scanner's next page in its pageblock; `NO_PFN` before the first one.
    cursor: Pfn,
    /// A free page that was taken and is not used yet, or `NO_PFN`.
    target: Pfn,
    /// Pages on the task's isolated list.
    isolated: u32,
}

/// Returns true if reclaim for this request of several pages is to leave enough free pages for
/// compaction (`RECLAIM_MODE_COMPACTION`): for high orders, and for others once reclaim is hard.
fn reclaims_for_compaction(sc: &ScanControl) -> bool {
    sc.order > PAGE_ALLOC_COSTLY_ORDER || (sc.order > 0 && sc.priority < DEF_PRIORITY - 2)
}

impl<W: World> Mm<W> {
    /// Returns true if this machine compacts memory: the world can move pages, and the policy says
    /// so.
    pub(crate) fn compacts(&self) -> bool {
        W::MOVES_PAGES && self.policy.compaction != Compaction::None
    }

    /// Compacts the zones of a request of 2^`order` pages from `node`, and returns the first page
    /// of the block if that made one (`__alloc_pages_direct_compact`). `how`: whether pages may be
    /// waited for. `None`: no compaction (a single page, or compaction failed lately), or no block.
    pub(crate) async fn direct_compact(
        &self,
        node: u32,
        gfp: Gfp,
        order: u32,
        flags: u32,
        how: Migrate,
    ) -> Option<Pfn> {
        if order == 0 || !self.compacts() {
            return None;
        }
        let preferred = self.preferred_zone(node, gfp);
        if self.compaction_deferred(preferred) {
            return None;
        }
        let task = self.current();
        task.flags.fetch_or(PF_MEMALLOC);
        self.world.memory_stall(true);
        let done = self.try_to_compact_pages(node, gfp, order, how).await;
        self.world.memory_stall(false);
        task.flags.fetch_and(!PF_MEMALLOC);
        if done == Compacted::Skipped {
            return None;
        }
        // The frames that pages were moved out of are on this CPU's lists, where they do not merge
        // into blocks.
        self.drain_pages(self.world.cpu());
        let page = self.get_page_from_freelist(node, gfp, order, Mark::Min, flags);
        let zone = &self.zones[preferred];
        zone.compact_considered.set(0);
        if page.is_some() {
            zone.compact_defer_shift.set(0);
            self.stat.event(VmEvent::CompactSuccess, 1);
        } else {
            let shift = zone.compact_defer_shift.get() + 1;
            zone.compact_defer_shift
                .set(shift.min(COMPACT_MAX_DEFER_SHIFT));
            self.stat.event(VmEvent::CompactFail, 1);
            self.world.relax().await;
        }
        page
    }

    /// Counts a request in zone `z` and returns true if it is to do without compaction, because
    /// compaction has failed there lately: 2^n - 1 requests after n failures in a row, at most 63.
    fn compaction_deferred(&self, z: usize) -> bool {
        let zone = &self.zones[z];
        let limit = 1 << zone.compact_defer_shift.get();
        let considered = (zone.compact_considered.get() + 1).min(limit);
        zone.compact_considered.set(considered);
        considered < limit
    }

    /// Compacts the zones of a request of 2^`order` pages from `node` one after another until one
    /// is above its low watermark for the order. Returns the furthest result of the zones.
    async fn try_to_compact_pages(
        &self,
        node: u32,
        gfp: Gfp,
        order: u32,
        how: Migrate,
    ) -> Compacted {
        if !gfp.has(Gfp::FS.or(Gfp::IO)) {
            return Compacted::Skipped;
        }
        let by_min = self.policy.compaction == Compaction::ByMin;
        self.stat.event(VmEvent::CompactStall, u64::from(!by_min));
        let mut done = Compacted::Skipped;
        for &z in &self.nodes[node as usize].zonelists[gfp.high_zoneidx()] {
            let z = usize::from(z);
            if gfp.has(Gfp::THISNODE) && self.zones[z].node != node {
                continue;
            }
            self.world.charge(Cost::ZoneWalk, 1);
            done = done.max(self.compact_zone(z, gfp, order, how).await);
            if self.watermark_ok(z, order, self.zones[z].mark(Mark::Low), 0, 0) {
                break;
            }
        }
        let fit = by_min && done != Compacted::Skipped;
        self.stat.event(VmEvent::CompactStall, u64::from(fit));
        done
    }

    /// Returns `Continue` if compaction of zone `z` can bring a block of 2^`order` pages, `Partial`
    /// if there is one already, `Skipped` if compaction would be of no use: too few pages are free.
    pub(crate) fn compaction_suitable(&self, z: usize, order: u32) -> Compacted {
        let zone = &self.zones[z];
        let by_min = self.policy.compaction == Compaction::ByMin;
        let lenient = by_min && order <= PAGE_ALLOC_COSTLY_ORDER;
        // Twice the block: compaction takes free pages to move to before others become free.
        let gap = 2 << order;
        let mark = gap + zone.mark(if lenient { Mark::Min } else { Mark::Low });
        let block_mark = if by_min { zone.mark(Mark::Min) } else { mark };
        let has_block = || self.watermark_ok(z, order, block_mark, 0, 0);
        if by_min && has_block() {
            return Compacted::Partial;
        }
        if !self.watermark_ok(z, 0, mark, 0, 0) {
            return Compacted::Skipped;
        }
        // Up to this index, in thousandths, a request fails for lack of free pages rather than
        // because of fragmentation.
        let threshold = i64::from(self.sysctl.extfrag_threshold());
        match self.fragmentation_index(z, order) {
            Some(index) if !lenient && (0..=threshold).contains(&index) => Compacted::Skipped,
            None if has_block() => Compacted::Partial,
            _ => Compacted::Continue,
        }
    }

    /// Returns why a zone has no free block of 2^`order` pages, in thousandths: towards 0 for lack
    /// of free pages, towards 1000 for fragmentation. `None`: the zone has such a block.
    pub(crate) fn fragmentation_index(&self, z: usize, order: u32) -> Option<i64> {
        let nr_free = &self.zones[z].nr_free;
        let (mut blocks, mut pages) = (0, 0);
        for (o, n) in nr_free.iter().enumerate() {
            let n = i64::from(n.get());
            if n > 0 && o >= order as usize {
                return None;
            }
            blocks += n;
            pages += n << o;
        }
        match blocks {
            0 => Some(0),
            _ => Some(1000 - (1000 + pages * 1000 / (1 << order)) / blocks),
        }
    }

    /// Returns true if a zone's reclaim has to continue for a request of several pages
    /// (`should_continue_reclaim`): enough inactive pages are left to reclaim, and compaction has
    /// still too few free pages to work with. `reclaimed`: pages that the last scan freed.
    ///
    /// Kernels differ in two points. `Compaction::Direct` (3.0) counts anonymous pages even without
    /// free swap. `Compaction::ByMin` (4.8) asks whether compaction fits any zone that
    /// the request may use, by the min watermark, and no longer how much was reclaimed in all.
    pub(super) fn should_continue_reclaim(
        &self,
        z: usize,
        reclaimed: u64,
        sc: &ScanControl,
    ) -> bool {
        if !reclaims_for_compaction(sc) || !self.compacts() || reclaimed == 0 {
            return false;
        }
        let pages = 2 << sc.order;
        let mut inactive = self.lru_size(z, Lru::InactiveFile);
        if self.policy.compaction == Compaction::Direct || self.free_swap() > 0 {
            inactive += self.lru_size(z, Lru::InactiveAnon);
        }
        let fit = |z: usize| self.compaction_suitable(z, sc.order) != Compacted::Skipped;
        if self.policy.compaction == Compaction::ByMin {
            let zones = &self.nodes[self.zones[z].node as usize].zones;
            let mut usable = (zones.iter().map(|&z| usize::from(z)))
                .filter(|&z| self.zones[z].kind.index() <= sc.classzone);
            return inactive > pages && !usable.any(fit);
        }
        (sc.nr_reclaimed < pages && inactive > pages) || !fit(z)
    }

    /// Compacts zone `z` for a request of 2^`order` pages: moves pages from its start to free ones
    /// at its end, 32 at a time, until the scanners meet or a block may be free
    /// (`compact_finished`).
    async fn compact_zone(&self, z: usize, gfp: Gfp, order: u32, how: Migrate) -> Compacted {
        let suitable = self.compaction_suitable(z, order);
        if suitable != Compacted::Continue {
            return suitable;
        }
        let (start, end) = (
            self.zones[z].start,
            self.zones[z].start + self.zones[z].size,
        );
        let mut cc = CompactControl {
            zone: z,
            order,
            list: self.list_of_request(gfp),
            how,
            migrate: start,
            free: end & !(self.pageblock_pages() - 1),
            cursor: NO_PFN,
            target: NO_PFN,
            isolated: 0,
        };
        self.lru_add_drain();
        let done = loop {
            match self.compact_finished(&cc) {
                Compacted::Continue => {}
                done => break done,
            }
            if !self.isolate_migratepages(&mut cc).await {
                break Compacted::Partial;
            }
            if cc.isolated > 0 {
                self.migrate_isolated(&mut cc).await;
            }
        };
        if cc.target != NO_PFN {
            self.free_page(cc.target, false);
        }
        done
    }

    /// Returns `Complete` if the two scanners have met, `Partial` if a free block of the order
    /// exists or the task was killed, and `Continue` otherwise.
    fn compact_finished(&self, cc: &CompactControl) -> Compacted {
        if self.current().flags() & PF_DYING != 0 {
            return Compacted::Partial;
        }
        if cc.free <= cc.migrate {
            return Compacted::Complete;
        }
        let zone = &self.zones[cc.zone];
        let mark = zone.mark(Mark::Low) + (1 << cc.order);
        if !self.watermark_ok(cc.zone, cc.order, mark, 0, 0) {
            return Compacted::Continue;
        }
        let pageblock = self.config.pageblock_order as usize;
        let has_block = (cc.order as usize..ORDERS).any(|o| {
            !self.frames.list_empty(self.free_list(cc.zone, o, cc.list))
                // A block of at least a pageblock's size would change its kind for the request.
                || (o >= pageblock && zone.nr_free[o].get() > 0)
        });
        match has_block {
            true => Compacted::Partial,
            false => Compacted::Continue,
        }
    }

    /// Returns true if more than half as many pages of a zone are isolated as are on its lists; if
    /// not, wakes the tasks that wait for that.
    fn too_many_isolated_to_compact(&self, z: usize) -> bool {
        let listed: u64 = SCAN_ORDER.iter().map(|&lru| self.lru_size(z, lru)).sum();
        let isolated =
            self.lru_stat(z, ZoneStat::NrIsolatedFile) + self.lru_stat(z, ZoneStat::NrIsolatedAnon);
        let too_many = isolated > listed / 2;
        if !too_many {
            self.wake_for_isolated(z);
        }
        too_many
    }

    /// Isolates up to 32 used pages of the pageblock at which the migrate scanner is, or of its
    /// rest, to be moved. Waits while too many pages are isolated. Returns false if compaction of
    /// the zone has to end here.
    async fn isolate_migratepages(&self, cc: &mut CompactControl) -> bool {
        let block = self.pageblock_pages();
        let end = (cc.migrate + block).next_multiple_of(block);
        if end > cc.free {
            cc.migrate = end;
            return true;
        }
        while self.too_many_isolated_to_compact(cc.zone) {
            if cc.how == Migrate::Async {
                return false;
            }
            if self.policy.reclaim_throttle == ReclaimThrottle::Reasons {
                self.wait_for_isolated(cc.zone).await;
            } else {
                self.congestion_wait(Class::Async, self.tick_fraction(10))
                    .await;
            }
            if self.current().flags() & PF_DYING != 0 {
                return false;
            }
        }
        let mut at = cc.migrate;
        while at < end && cc.isolated < COMPACT_CLUSTER_MAX {
            if cc.how == Migrate::Async && !self.is_movable(at) {
                at = (at + 1).next_multiple_of(block);
                continue;
            }
            let to = (at + 1).next_multiple_of(COMPACT_CLUSTER_MAX).min(end);
            at = self.isolate_span(cc, at, to);
            self.world.relax().await;
        }
        cc.migrate = at;
        true
    }

    /// Returns true if a page's pageblock is movable; where pageblocks have no kinds, all are.
    fn is_movable(&self, pfn: Pfn) -> bool {
        self.pageblock_type(pfn)
            .is_none_or(|kind| kind == MigrateType::Movable)
    }

    /// Takes the pages on LRU lists among the frames `from..to`, at most 32 in all, off their lists
    /// and puts them on the task's list of isolated pages. Returns the frame where it stopped.
    fn isolate_span(&self, cc: &mut CompactControl, from: Pfn, to: Pfn) -> Pfn {
        let (z, own_list) = (cc.zone, self.isolated_list(self.world.task()));
        let before = cc.isolated;
        let stopped = self.lru_home(z).lru_lock.with(|| {
            let cpu = self.world.cpu();
            for pfn in from..to {
                let page = self.frames.page(pfn);
                let f = page.flags();
                if f & (flag::LRU | flag::UNEVICTABLE) != flag::LRU || self.is_ordered(f) {
                    continue;
                }
                let lru = Lru::of(f);
                page.clear_flags(flag::LRU);
                self.frames.del(pfn);
                self.frames.add(own_list, pfn);
                self.stat.dec(cpu, z, lru.size_item());
                self.count_group_lru(z, page.group(), lru, -1);
                self.stat.inc(cpu, z, Self::isolated_item(lru.is_file()));
                cc.isolated += 1;
                if cc.isolated == COMPACT_CLUSTER_MAX {
                    return pfn + 1;
                }
            }
            to
        });
        let scanned = u64::from(stopped - from);
        self.stat.event(VmEvent::CompactMigrateScanned, scanned);
        self.world.charge(Cost::Lru, cc.isolated - before);
        self.world.charge(Cost::PageScan, cc.isolated - before);
        stopped
    }

    /// Moves the task's isolated pages to free frames, in up to ten passes over those that are in
    /// use for the moment, and puts back those that could not be moved (`migrate_pages`).
    async fn migrate_isolated(&self, cc: &mut CompactControl) {
        let own_list = self.isolated_list(self.world.task());
        let (mut moved, mut failed) = (0, 0);
        'passes: for pass in 0..PASSES {
            let (mut again, mut next) = (false, self.frames.first(own_list));
            while next != own_list {
                let pfn = next;
                next = self.frames.table().after(pfn);
                if cc.target == NO_PFN {
                    match self.isolate_freepage(cc).await {
                        Some(target) => cc.target = target,
                        None => break 'passes,
                    }
                }
                match self.unmap_and_move(cc, pfn, pass).await {
                    Moved::Yes => moved += 1,
                    Moved::Again => again = true,
                    Moved::Never => {
                        failed += 1;
                        self.putback_unmoved(cc.zone, pfn);
                    }
                }
            }
            self.world.relax().await;
            if !again {
                break;
            }
        }
        loop {
            let pfn = self.frames.first(own_list);
            if pfn == own_list {
                break;
            }
            failed += 1;
            self.putback_unmoved(cc.zone, pfn);
        }
        cc.isolated = 0;
        self.stat.event(VmEvent::CompactBlocksMoved, 1);
        self.stat.event(VmEvent::CompactPagesMoved, moved);
        self.stat.event(VmEvent::CompactPagemigrateFailed, failed);
        self.world.relax().await;
    }

    /// Puts an isolated page of zone `z` that was not moved back on its LRU list.
    fn putback_unmoved(&self, z: usize, pfn: Pfn) {
        let file = !self.frames.has(pfn, flag::SWAPBACKED);
        self.stat
            .dec(self.world.cpu(), z, Self::isolated_item(file));
        self.putback_lru_page(z, pfn);
        self.world.charge(Cost::Lru, 1);
    }

    /// Takes a free page to move another one to and returns it: the next one in the free scanner's
    /// pageblock, or in the movable pageblocks below. `None`: the free scanner has met the migrate
    /// scanner.
    async fn isolate_freepage(&self, cc: &mut CompactControl) -> Option<Pfn> {
        let (z, block) = (cc.zone, self.pageblock_pages());
        let end = self.zones[z].start + self.zones[z].size;
        loop {
            let to = (cc.free + block).min(end);
            while cc.cursor < to {
                let (pfn, page) = (cc.cursor, self.frames.page(cc.cursor));
                if !page.has(flag::BUDDY) {
                    cc.cursor += 1;
                    continue;
                }
                let order = page.private();
                let mark = self.zones[z].mark(Mark::Low) + (1 << order);
                // A block is used only as long as the zone stays above its low watermark without
                // it.
                if self.watermark_ok(z, 0, mark, 0, 0) {
                    cc.cursor += 1;
                    self.split_free_page(z, pfn);
                    return Some(pfn);
                }
                cc.cursor += 1 << order;
            }
            let low = cc.migrate + block;
            let next = match cc.cursor {
                NO_PFN => cc.free,
                _ => cc.free.saturating_sub(block),
            };
            if next <= low {
                (cc.free, cc.cursor) = (cc.free.min(low), NO_PFN);
                return None;
            }
            self.world.charge(Cost::ZoneWalk, 1);
            let suitable = self.suitable_migration_target(next);
            cc.free = next;
            cc.cursor = if suitable {
                next
            } else {
                (next + block).min(end)
            };
            self.world.relax().await;
        }
    }

    /// Returns true if pages may be moved to the pageblock that begins at `first`: it is movable,
    /// or free as a whole.
    fn suitable_migration_target(&self, first: Pfn) -> bool {
        let page = self.frames.page(first);
        let whole = page.has(flag::BUDDY) && page.private() >= self.config.pageblock_order;
        whole || self.is_movable(first)
    }

    /// Tries to move the isolated page `pfn` to the free page `cc.target`, in pass number `pass`.
    /// If that succeeds, the page is on its LRU list again and its old frame is free. Returns
    /// whether it was moved, or whether to try again.
    async fn unmap_and_move(&self, cc: &mut CompactControl, pfn: Pfn, pass: u32) -> Moved {
        // Compaction never waits for a page's lock: the lock's holder may need memory.
        if !self.try_lock_page(pfn) {
            return Moved::Again;
        }
        if self.frames.has(pfn, flag::WRITEBACK) {
            let answer = match cc.how {
                Migrate::Async => Some(Moved::Never),
                Migrate::Sync if pass < FORCED => Some(Moved::Again),
                Migrate::Sync => None,
            };
            if let Some(answer) = answer {
                self.unlock_isolated(pfn);
                return answer;
            }
            self.wait_on_page_writeback(pfn).await;
        }
        let f = self.frames.flags(pfn);
        let moved = if f & flag::PINNED != 0 || f & (flag::CACHED | flag::ANON) == 0 {
            Moved::Again
        } else if cc.how == Migrate::Async
            && f & (flag::DIRTY | flag::CACHED) == flag::DIRTY | flag::CACHED
        {
            // Its buffers would have to be locked first.
            Moved::Never
        } else {
            Moved::Yes
        };
        if moved != Moved::Yes {
            self.unlock_isolated(pfn);
            return moved;
        }
        let to = std::mem::replace(&mut cc.target, NO_PFN);
        self.move_to_new_page(cc.zone, pfn, to);
        Moved::Yes
    }

    /// Moves a locked, isolated page from the frame `from` to the frame `to` of the same zone: its
    /// flags, its place in its file or swap, and its page-table entries. Frees the old frame.
    fn move_to_new_page(&self, z: usize, from: Pfn, to: Pfn) {
        const COPIED: u32 = flag::REFERENCED
            | flag::DIRTY
            | flag::ACTIVE
            | flag::SWAPBACKED
            | flag::SWAPCACHE
            | flag::UPTODATE
            | flag::UNUSED
            | flag::CACHED
            | flag::ANON
            | flag::EXEC
            | flag::ERROR
            | flag::WORKINGSET;
        let (old, new) = (self.frames.page(from), self.frames.page(to));
        debug_assert!(old.has(flag::LOCKED) && old.flags() & flag::WRITEBACK == 0);
        let f = old.flags();
        new.set_mapping(old.mapping(), old.index());
        new.set_private(old.private());
        new.set_mapcount(old.mapcount());
        self.give_to(new, old.group());
        new.track().set(old.track().get());
        self.world.charge(Cost::Unmap, old.mapcount());
        self.world.charge(Cost::Copy, 1);
        if f & flag::CACHED != 0 {
            self.index_replace(from, to);
            self.world.charge(Cost::PageIndex, 1);
        }
        if f & flag::SWAPCACHE != 0 {
            self.swap_cache_replace(from, to);
        }
        self.map_elsewhere(from, to);
        new.set_flags(f & COPIED);
        // The old frame belongs to nothing any more.
        self.frames.del(from);
        let file = f & flag::SWAPBACKED == 0;
        self.stat
            .dec(self.world.cpu(), z, Self::isolated_item(file));
        old.set_mapping(u32::MAX, 0);
        old.reset_maps(0);
        self.unlock_and_clear(old, from, COPIED | flag::RECLAIM | flag::READAHEAD);
        self.free_page(from, false);
        self.lru_cache_add(to, Lru::of(f));
    }
}
