//! Makes runs of new contiguous pages of a file: dirty from the start, as a streaming write makes
//! them, or locked until a device has filled them.
//!
//! A run does to each page, in the same order, and charges and counts what the single steps do
//! ([`Mm::alloc_page`], [`Mm::enter_page_cache_lru`], [`Mm::set_page_dirty`],
//! [`Mm::mark_page_accessed`], [`Mm::note_dirtied`]). A run needs no future, and its pages are made
//! in batches. A batch is so short that nothing else can happen between its pages: it ends with the
//! leaf of the index, with the CPU's list of free pages, with the CPU's batch of new pages, where a
//! counter is folded that allocations read, where the dirtier has to look at its limits, and where
//! the task has to yield. So each of these is tested once for a batch, a counter is changed once,
//! and a page costs only the words of its own.
//!
//! The page after a batch takes the single steps. A run ends in front of a page that is not like
//! the others.

use crate::cache::mapping::{I_DIRTY_PAGES, Mapping};
use crate::cache::pagecache::{Brought, Entered, milliseconds};
use crate::cache::tree::{Leaf, SLOTS, Tag};
use crate::memory::alloc::AtMin;
use crate::memory::frame::{flag, zone_of};
use crate::memory::gfp::Gfp;
use crate::memory::hint::Way;
use crate::memory::pcp::Pcp;
use crate::memory::zone::Lru;
use crate::policy::{Accesses, DirtyThrottle};
use crate::watch::vmstat::{Asks, ZoneCounters, ZoneEvent, ZoneStat};
use crate::world::event::Event;
use crate::world::{AllocPath, Audience, Cost, ShortLock, Word32, World};
use crate::writeback::bdi::BdiStat;
use crate::writeback::throttle::Pause;
use crate::{Mm, Pfn};

/// Where a run of fresh pages is made, and how.
#[derive(Debug, Clone, Copy)]
pub struct Fresh {
    /// The file.
    pub mapping: u32,
    /// Index of the first page.
    pub first: u32,
    /// The most pages to make, at least 1.
    pub most: u32,
    /// Flags of the allocations.
    pub gfp: Gfp,
    /// State that the pages are left in.
    pub state: FreshState,
}

/// The state of fresh pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FreshState {
    /// Locked: their data is still to be read. The task does not relax between them.
    Locked,
    /// Dirty, and nothing else.
    Dirty,
    /// Copied, dirty, up to date and accessed, and counted against the dirty limits, because a
    /// program has written them.
    Written,
    /// As `Written`, in a piece of a write: the task looks at its limits and relaxes between pieces
    /// ([`Mm::balance_between`]).
    Piece,
}

impl FreshState {
    fn is_written(self) -> bool {
        matches!(self, Self::Written | Self::Piece)
    }
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FreshEnd {
    /// All pages were made.
    All,
    /// After the last page made the task has to relax, and may then continue.
    Relax,
    /// As `Relax`, but [`Mm::balance_now`] is to be called first.
    Balance,
    /// As `Relax`, but the task has looked at its limits and has to make this pause first
    /// ([`Mm::pause_dirtier`]).
    Pause(Pause),
    /// The next page needs the single steps: its index holds a page or a shadow, or pages are
    /// tracked, or ordered by an eviction policy.
    Single,
    /// The allocation of the next page began at this time (ns) and has to be completed with
    /// [`Mm::alloc_rest`].
    Short(u64),
    /// The next page is in the cache and clean, because `ready` refused it.
    Unready,
    /// The index has no memory for the next page.
    NoMemory,
}

/// A run in the form in which its batches use it.
struct Run<'a, W: World> {
    fresh: Fresh,
    m: &'a Mapping<W>,
    node: u32,
    dirty: bool,
    /// Whether pages may be made in batches.
    batches: bool,
    /// Whether pages carry the time at which they entered the cache ([`Mm::watch_pages`]).
    watched: bool,
    /// Time that a page costs beside its allocation (ns).
    rest_ns: u64,
    /// The memory control group that the pages are charged to; 0: none.
    group: u32,
}

impl<W: World> Mm<W> {
    /// Makes fresh pages of a file. `ready` is called with the index of each page that is to become
    /// dirty, after the page has entered the cache, and may refuse it; `None`: no page is refused.
    /// Returns how many pages were made, and why the run ended.
    ///
    /// For worlds in which no other task runs between two waits: dirty pages enter the cache
    /// unlocked.
    pub fn fresh_pages(
        &self,
        fresh: Fresh,
        ready: Option<impl FnMut(u32) -> bool>,
    ) -> (u32, FreshEnd) {
        match self.charged_group(fresh.gfp) {
            0 => self.make_fresh_pages(fresh, ready, 0),
            group => self.fresh_charged(fresh, ready, group),
        }
    }

    /// Does [`Self::fresh_pages`] for a task in a memory control group, which is charged for all
    /// pages before the first, and gets back what was not made.
    #[inline(never)]
    fn fresh_charged(
        &self,
        fresh: Fresh,
        ready: Option<impl FnMut(u32) -> bool>,
        group: u32,
    ) -> (u32, FreshEnd) {
        let charged = self.charge_at_once(group, fresh.most);
        if charged == 0 {
            return (0, FreshEnd::Short(self.world.now()));
        }
        let most = charged;
        let (n, end) = self.make_fresh_pages(Fresh { most, ..fresh }, ready, group);
        let refused = u32::from(end == FreshEnd::Unready);
        self.refund(group, charged - n - refused);
        match end {
            FreshEnd::All if n < fresh.most => (n, FreshEnd::Short(self.world.now())),
            end => (n, end),
        }
    }

    /// Does [`Self::fresh_pages`] for pages that are charged to `group` (0: none).
    #[inline(always)]
    fn make_fresh_pages(
        &self,
        fresh: Fresh,
        mut ready: Option<impl FnMut(u32) -> bool>,
        group: u32,
    ) -> (u32, FreshEnd) {
        debug_assert!(
            fresh.mapping < self.mapping_count() && fresh.most > 0,
            "{fresh:?} of {} files",
            self.mapping_count()
        );
        let dirty = fresh.state != FreshState::Locked;
        if dirty && (self.orders.is_some() || self.tracker.is_some()) {
            return (0, FreshEnd::Single);
        }
        let price = |what, counts: bool| if counts { self.world.price(what) } else { 0 };
        let run = Run {
            fresh,
            rest_ns: price(Cost::PageIndex, true)
                + price(Cost::Lru, true)
                + price(Cost::PageDirty, dirty)
                + price(Cost::Copy, fresh.state.is_written()),
            m: &self.mappings[fresh.mapping as usize],
            node: self.local_node(),
            dirty,
            batches: ready.is_none() && self.tracker.is_none() && !self.traced(),
            watched: self.watches_pages(),
            group,
        };
        let mut leaf = run.leaf(self, fresh.first);
        // A page allocated at the min watermark is most often followed by another one.
        let (mut n, mut last_page) = (0, Allocated::Plainly);
        while n < fresh.most {
            let index = fresh.first + n;
            if n > 0 && index & (SLOTS - 1) == 0 {
                leaf = run.leaf(self, index);
            }
            if let Some(leaf) = &leaf
                && run.batches
            {
                let made = match &last_page {
                    Allocated::Plainly => self.fresh_batch(&run, leaf, index, fresh.most - n),
                    Allocated::InRow(row) => self.fresh_in_row(&run, row, leaf, index),
                    Allocated::AtMin => None,
                };
                if let Some((made, end)) = made {
                    n += made;
                    if end != FreshEnd::All {
                        return (n, end);
                    }
                    continue;
                }
            }
            match self.fresh_page(&run, &mut leaf, index, &mut ready) {
                Ok(how) => {
                    n += 1;
                    last_page = how;
                }
                Err(end @ (FreshEnd::Relax | FreshEnd::Balance | FreshEnd::Pause(_))) => {
                    return (n + 1, end);
                }
                Err(end) => return (n, end),
            }
        }
        (n, FreshEnd::All)
    }

    /// Makes one page of a run, step by step: allocates, enters cache and LRU list, dirties,
    /// charges and counts it. Returns how the page was allocated, which says how the next one may
    /// be. The error is the reason why the run ends; with `Relax`, `Balance` and `Pause` the page
    /// was made nevertheless. `leaf`: the leaf of the file's tree for `index`, filled in if it
    /// comes into being.
    fn fresh_page<'a>(
        &'a self,
        run: &Run<'a, W>,
        leaf: &mut Option<Leaf<'a, W>>,
        index: u32,
        ready: &mut Option<impl FnMut(u32) -> bool>,
    ) -> Result<Allocated<'a, W>, FreshEnd> {
        let Fresh { mapping, gfp, .. } = run.fresh;
        if let Some(leaf) = &leaf
            && leaf.slot(index).get() != 0
        {
            return Err(FreshEnd::Single);
        }
        let start = self.world.now();
        let (pfn, how) = match self.alloc_pages_fast(gfp, 0, start) {
            Some(pfn) => (pfn, Allocated::Plainly),
            None => {
                let page = self.alloc_at_min(gfp, start);
                let AtMin { pfn, again } = page.ok_or(FreshEnd::Short(start))?;
                match again {
                    true => (pfn, self.how_allocated_at_min(run, pfn, start)),
                    false => (pfn, Allocated::AtMin),
                }
            }
        };
        if let Some(leaf) = &leaf
            && run.batches
            && self.enters_batches(run, leaf)
            && self.buffers_for(run.m, run.dirty) > 0
        {
            self.world.charge_ns(run.rest_ns);
            self.enter_one(run, leaf, index, pfn);
            return match self.end_batch(run, 0, true) {
                FreshEnd::All => Ok(how),
                end => Err(end),
            };
        }
        let bits = if run.dirty { 0 } else { flag::LOCKED };
        self.frames.set_flags(pfn, bits);
        self.give_to(self.frames.page(pfn), run.group);
        let brought = match run.dirty {
            true => Brought::Written,
            false => Brought::Read,
        };
        if self.enter_page_cache_for(pfn, mapping, index, brought) != Entered::Added {
            self.frames.clear_flags(pfn, bits);
            // The charge of pages that were not made goes back in one piece.
            self.frames.page(pfn).reset_maps(0);
            self.free_page(pfn, false);
            return Err(FreshEnd::NoMemory);
        }
        if leaf.is_none() {
            *leaf = run.leaf(self, index);
        }
        if !run.dirty {
            return Ok(how);
        }
        if let Some(ready) = ready
            && !ready(index)
        {
            return Err(FreshEnd::Unready);
        }
        let written = run.fresh.state.is_written();
        let page = self.frames.page(pfn);
        let mut bits = flag::DIRTY;
        if written {
            self.world.charge(Cost::Copy, 1);
            bits |= flag::UPTODATE | self.write_access();
        }
        let before = page.set_flags(bits);
        debug_assert!(before & (flag::DIRTY | flag::RECLAIM | flag::REFERENCED) == 0);
        self.account_dirtied(zone_of(before), run.m, 1);
        self.tag_set(run.m, index, Tag::Dirty);
        self.buffer_written(run.m, index);
        self.mark_inode_dirty(run.m, mapping);
        self.emit(Audience::Traces, || Event::PageDirtied {
            pfn,
            bdi: run.m.bdi(),
            mapping,
            index,
        });
        self.world.charge(Cost::PageDirty, 1);
        if run.fresh.state == FreshState::Piece {
            self.count_dirtied(mapping);
            return Ok(how);
        }
        if written
            && self.note_dirtied(mapping)
            && let Some(end) = self.look_after_page(run.m)
        {
            return Err(end);
        }
        if !self.world.goes_on() {
            return Err(FreshEnd::Relax);
        }
        Ok(how)
    }

    /// Returns whether the page after `pfn` will be allocated like it, so that
    /// [`Self::fresh_in_row`] may make that page. `pfn` was allocated at the min watermark, from
    /// `start` (ns) until now, and its allocation changed nothing that the next one tests. `InRow`:
    /// the next walks at the low watermark are predicted to find no page either; otherwise `AtMin`.
    fn how_allocated_at_min<'a>(
        &'a self,
        run: &Run<'a, W>,
        pfn: Pfn,
        start: u64,
    ) -> Allocated<'a, W> {
        let gfp = run.fresh.gfp;
        match self.foresees_nowhere(run.node, gfp) {
            Some(way) => Allocated::InRow(Row {
                from: self.source(run, self.frames.zone(pfn), gfp),
                ns: self.world.now() - start,
                way,
            }),
            None => Allocated::AtMin,
        }
    }

    /// Makes the page at `index` after one that was allocated at the min watermark, without
    /// repeating the allocator's tests: no other task has run since, and no free list has changed.
    /// Only the walks at the low watermark depend on counters that the pages in between have moved,
    /// and they are foreseen anew. Returns 1 page and why the run ends (`All`: it goes on). `None`:
    /// the page has to be allocated in full, and nothing was done.
    #[inline(never)]
    fn fresh_in_row(
        &self,
        run: &Run<'_, W>,
        row: &Row<'_, W>,
        leaf: &Leaf<'_, W>,
        index: u32,
    ) -> Option<(u32, FreshEnd)> {
        let gfp = run.fresh.gfp;
        let slot = std::slice::from_ref(leaf.slot(index));
        if slot[0].get() != 0
            || row.from.pcp.count() == 0
            || !self.enters_batches(run, leaf)
            || self.buffers_for(run.m, run.dirty) == 0
            || self.still_foreseen(gfp).is_none() && !self.foresees_again(run.node, gfp, row.way)
        {
            return None;
        }
        self.world.charge_ns(row.ns);
        if row.way.resets() {
            self.reset_alloc_batches(run.node, gfp);
        }
        self.world.alloc_latency(AllocPath::KswapdWoken, row.ns);
        self.world.charge_ns(run.rest_ns);
        let page = row.from.pcp.pop_front().expect("there is one");
        self.make_fresh(run, leaf, &row.from, (index, slot, 0), |_| page);
        Some((1, self.end_batch(run, 0, true)))
    }

    /// Returns a zone as the source of a run's pages: its per-CPU list and counters on this CPU,
    /// and whether its pages count against its fair batch.
    #[inline(always)]
    fn source<'a>(&'a self, run: &Run<'a, W>, zone: usize, gfp: Gfp) -> Source<'a, W> {
        let cpu = self.world.cpu();
        Source {
            zone,
            pcp: self.pcp(zone, cpu, self.list_of_request(gfp)),
            stat: self.stat.on(cpu, zone),
            batched: self.batch_counted(run.node, gfp),
        }
    }

    /// Returns the flag that write(2) leaves on a fresh page that it fills: `REFERENCED`, where
    /// writes count as accesses; otherwise none.
    #[inline(always)]
    fn write_access(&self) -> u32 {
        match self.policy.accesses {
            Accesses::ReadsAndWrites => flag::REFERENCED,
            Accesses::Reads => 0,
        }
    }

    /// Makes as many pages from `index` on, up to `most`, as can be made without anything else
    /// happening in between: no fold of a counter that the allocator reads, no refill, no look at
    /// the dirty limits, no yield. Returns how many pages were made and why the run ends (`All`: it
    /// goes on). `None`: the next page has to take the single steps.
    fn fresh_batch(
        &self,
        run: &Run<'_, W>,
        leaf: &Leaf<'_, W>,
        index: u32,
        most: u32,
    ) -> Option<(u32, FreshEnd)> {
        let gfp = run.fresh.gfp;
        // The zone in which the allocator's walk is foreseen to end, the time of that walk, and by
        // how many pages counters may move before it could end elsewhere.
        let (zone, walk_ns, mut spare) = self.foreseen(run.node, gfp)?;
        let most = most.min(self.buffers_for(run.m, run.dirty));
        if most == 0 || !self.enters_batches(run, leaf) {
            return None;
        }
        let cpu = self.world.cpu();
        let source = self.source(run, zone, gfp);
        let accounted = run.accounted();
        let slots = leaf.slots_at(index, most.min(SLOTS - (index & (SLOTS - 1))));
        if slots[0].get() != 0 {
            return None;
        }
        let start = self.world.now();
        let alloc_ns = walk_ns + self.world.price(Cost::PageAlloc);
        // Time of one page, in all.
        let page_ns = alloc_ns + run.rest_ns;
        let mut n = slots.len() as u32;
        if source.pcp.count() == 0 {
            if self.takes_singly(zone)
                && let Some(made) = self.fresh_singly(run, leaf, &source, (index, slots), walk_ns)
            {
                return Some(made);
            }
            // A refill that boosts a zone wakes kswapd, and the time of the walk must have passed
            // before that.
            if walk_ns > 0 && self.boosts_zones() {
                return None;
            }
            // The first page takes the time of the refill, which may change where the next page's
            // walk ends.
            if !self.refill_foreseen(zone, self.list_of_request(gfp), source.pcp) {
                return None;
            }
            match self.still_foreseen(gfp) {
                Some(left) => spare = left,
                None => n = 1,
            }
        }
        let refilled_at = self.world.now();
        let row = source.pcp.front_row(n);
        n = row.len() as u32;
        if n == 0 {
            return None;
        }
        // Only the last page may fold a counter that could change where the next page's walk ends.
        // No page of a batch changes the number of free pages.
        if self.walk_asks(gfp) == Asks::Dirty
            && spare < u64::from(2 * n + 3 * source.stat.threshold()) + 16
        {
            n = n.min(self.pagevecs[cpu].add[Lru::InactiveFile as usize].room());
            if accounted {
                n = n.min(source.stat.incs_unfolded(ZoneStat::NrFileDirty) + 1);
            }
        }
        if source.batched {
            n = n.min(source.stat.decs_unfolded(ZoneStat::NrAllocBatch) + 1);
            if self.marks_at_once(zone) {
                n = n.min(1);
            }
        }
        let most = empty_slots(&slots[..n as usize]);
        let before_look = self.pages_before_look(run, page_ns, most);
        // Pages whose time has passed without an event; one more page is made after them, and the
        // task may have to look at its limits or to yield behind it (`last`).
        let passed = self.world.steps(page_ns, before_look, run.dirty);
        let last = passed < most;
        if last {
            self.world.charge_ns(page_ns);
        }
        n = passed + u32::from(last);
        let first_ns = refilled_at - start + alloc_ns;
        let end = self.world.now() - run.rest_ns;
        if first_ns == alloc_ns {
            self.world.alloc_latencies(alloc_ns, n, end);
        } else {
            self.world
                .alloc_latencies(first_ns, 1, refilled_at + alloc_ns);
            if n > 1 {
                self.world.alloc_latencies(alloc_ns, n - 1, end);
            }
        }
        let (slots, row) = (&slots[..n as usize], &row[..n as usize]);
        source.pcp.drop_front(n);
        let page = |nth| row[nth as usize].get();
        self.make_fresh(run, leaf, &source, (index, slots, page_ns), page);
        Some((n, self.end_batch(run, passed, last)))
    }

    /// Returns true if pages may enter a leaf of the file's tree in batches, which change only the
    /// leaf and counters. The single steps are needed for a leaf without pages, which is on the
    /// list of shadow nodes, and for the first dirty page of a file, which moves its inode to a
    /// list.
    #[inline(always)]
    fn enters_batches(&self, run: &Run<'_, W>, leaf: &Leaf<'_, W>) -> bool {
        leaf.has_pages() && (!run.dirty || run.m.state.get() & I_DIRTY_PAGES != 0)
    }

    /// Enters a page that was allocated by itself into its empty slot of a leaf, as a batch of one.
    #[inline(never)]
    fn enter_one(&self, run: &Run<'_, W>, leaf: &Leaf<'_, W>, index: u32, pfn: Pfn) {
        let zone = self.frames.zone(pfn);
        let stat = self.stat.on(self.world.cpu(), zone);
        let slot = std::slice::from_ref(leaf.slot(index));
        self.enter_fresh(run, leaf, (zone, &stat), (index, slot, 0), |_| pfn);
    }

    /// Returns how many of `n` pages of a run, which take `ns` nanoseconds each, come before the
    /// dirtier has to look at its limits and before the next measurement of its device's bandwidth;
    /// all, for pages that are not written by a program.
    #[inline(always)]
    fn pages_before_look(&self, run: &Run<'_, W>, ns: u64, n: u32) -> u32 {
        match run.fresh.state {
            FreshState::Written => self.dirtied_ahead(run.m, ns, n),
            FreshState::Piece => self.dirtied_unmeasured(run.m.bdi(), ns, n),
            FreshState::Locked | FreshState::Dirty => n,
        }
    }

    /// Called after a batch of new pages. Counts those that the task has written as dirtied:
    /// `passed` pages behind which the kernel would not check the dirty limits and, if `last`, one
    /// more behind which it may, and behind which the task may have to yield. Pages of a piece of a
    /// write are counted without a check. Returns what the task has to do before its next page;
    /// `All`: nothing.
    #[inline(always)]
    fn end_batch(&self, run: &Run<'_, W>, passed: u32, last: bool) -> FreshEnd {
        let Fresh { mapping, state, .. } = run.fresh;
        if state == FreshState::Piece {
            self.note_dirtied_unlooked(run.m, passed);
            if last {
                self.count_dirtied(mapping);
            }
            return FreshEnd::All;
        }
        let written = state == FreshState::Written;
        if written {
            self.note_dirtied_unlooked(run.m, passed);
        }
        if last
            && written
            && self.note_dirtied(mapping)
            && let Some(end) = self.look_after_page(run.m)
        {
            return end;
        }
        if last && run.dirty && !self.world.goes_on() {
            return FreshEnd::Relax;
        }
        FreshEnd::All
    }

    /// Looks at the dirtier's limits after a page. Where dirtiers sleep the look is made here, and
    /// the run ends only if a pause is due; otherwise the run ends for [`Mm::balance_now`]. `None`:
    /// the run goes on.
    #[inline(always)]
    fn look_after_page(&self, m: &Mapping<W>) -> Option<FreshEnd> {
        match self.policy.dirty_throttle {
            DirtyThrottle::Sleep => self.look_at_limits(m.bdi()).map(FreshEnd::Pause),
            DirtyThrottle::Write => Some(FreshEnd::Balance),
        }
    }

    /// Makes a batch of pages from a small zone, whose per-CPU list is filled page by page: each
    /// page is taken from the buddy lists in its turn, as long as the walk of the next one is
    /// foreseen to end in this zone too. `index` and `slots`: where the pages go; `walk_ns`: time
    /// of a walk. Returns how many were made, and why the run ends (`All`: it goes on). `None`:
    /// nothing was done.
    #[inline(never)]
    fn fresh_singly(
        &self,
        run: &Run<'_, W>,
        leaf: &Leaf<'_, W>,
        source: &Source<'_, W>,
        (index, slots): (u32, &[W::U32]),
        walk_ns: u64,
    ) -> Option<(u32, FreshEnd)> {
        let gfp = run.fresh.gfp;
        let mut most = empty_slots(slots);
        // Counters folded after the last page would change the walks of the pages before it.
        if self.first_walk(run.node, gfp) != 0 {
            most = most.min(1);
        }
        let free = self.stat.exact(source.zone, ZoneStat::NrFreePages);
        if most == 0 || free < i64::from(most) {
            return None;
        }
        // Each page takes the time of a refill and of its allocation.
        let alloc_ns =
            self.world.price(Cost::PageBulk) + walk_ns + self.world.price(Cost::PageAlloc);
        let before_look = self.pages_before_look(run, alloc_ns + run.rest_ns, most);
        let mut pages = [0; SLOTS as usize];
        let (mut n, mut last) = (0, false);
        let same_walk = || {
            let way = self.foreseen(run.node, gfp);
            way.is_some_and(|(zone, ns, _)| (zone, ns) == (source.zone, walk_ns))
        };
        while !last && n < most && (n == 0 || same_walk()) {
            // Up to the page whose allocation changes the count of free pages.
            let row = (most - n).min(source.stat.decs_unfolded(ZoneStat::NrFreePages) + 1);
            let before_look = row.min(before_look - n);
            let passed = self
                .world
                .steps(alloc_ns + run.rest_ns, before_look, run.dirty);
            last = passed < row;
            if last {
                self.world.charge_ns(alloc_ns + run.rest_ns);
            }
            let to = n + passed + u32::from(last);
            self.take_singly(
                source.zone,
                &source.stat,
                &mut pages[n as usize..to as usize],
            );
            n = to;
        }
        let end = self.world.now() - run.rest_ns;
        self.world.alloc_latencies(alloc_ns, n, end);
        let page = |nth| pages[nth as usize];
        let slots = &slots[..n as usize];
        self.make_fresh(
            run,
            leaf,
            source,
            (index, slots, alloc_ns + run.rest_ns),
            page,
        );
        Some((n, self.end_batch(run, n - u32::from(last), last)))
    }

    /// Counts the allocations of a batch from `source` and enters its pages into the empty `slots`
    /// of a leaf, from page index `index` on, each `ns` nanoseconds after the one before. `page`:
    /// returns the frame of the nth page. The time of the pages was charged before.
    #[inline(always)]
    fn make_fresh(
        &self,
        run: &Run<'_, W>,
        leaf: &Leaf<'_, W>,
        source: &Source<'_, W>,
        (index, slots, ns): (u32, &[W::U32], u64),
        page: impl Fn(u32) -> Pfn,
    ) {
        let n = slots.len() as u32;
        self.stat
            .zone_event(source.zone, ZoneEvent::PgAlloc, u64::from(n));
        self.count_numa(run.node, run.fresh.gfp, source.zone, u64::from(n));
        if source.batched {
            source.stat.add(ZoneStat::NrAllocBatch, -(n as i32));
            self.note_used_up(source.zone);
        }
        let stat = &source.stat;
        self.enter_fresh(run, leaf, (source.zone, stat), (index, slots, ns), page);
    }

    /// Enters pages of a zone into the empty `slots` of a leaf, from page index `index` on: sets
    /// their flags, puts them into the CPU's batch for the inactive list, and counts and tags them.
    /// `ns`: time between two pages, of which the last one has just passed; `stat`: the counters of
    /// the zone on this CPU; `page`: returns the frame of the nth page.
    #[inline(always)]
    fn enter_fresh(
        &self,
        run: &Run<'_, W>,
        leaf: &Leaf<'_, W>,
        (zone, stat): (usize, &ZoneCounters<'_, W>),
        (index, slots, ns): (u32, &[W::U32], u64),
        page: impl Fn(u32) -> Pfn,
    ) {
        let n = slots.len() as u32;
        let mapping = run.fresh.mapping;
        // A page enters the cache once its place in the index is made (`list_new_page`).
        let last_at = self.world.now() - (run.rest_ns - self.world.price(Cost::PageIndex));
        let entered_at = |nth: u32| last_at - u64::from(n - 1 - nth) * ns;
        let bits = flag::USED
            | flag::CACHED
            | match run.fresh.state {
                FreshState::Locked => flag::LOCKED,
                FreshState::Dirty => flag::DIRTY,
                FreshState::Written | FreshState::Piece => {
                    flag::DIRTY | flag::UPTODATE | self.write_access()
                }
            };
        // The CPU's batch of pages that are to be added to the inactive file list.
        let new = &self.pagevecs[self.world.cpu()].add[Lru::InactiveFile as usize];
        let frames = self.frames.table();
        let mut entered = 0;
        while entered < n {
            let most = new.room().min(n - entered);
            let to = &slots[entered as usize..][..most as usize];
            new.push_many(to.iter().zip(entered..).map(|(slot, nth)| {
                let pfn = page(nth);
                let page = frames.page(pfn);
                debug_assert!(page.flags() & flag::CHECK_AT_FREE == 0);
                page.reset_flags(zone, bits);
                page.reset_maps(run.group);
                page.set_mapping(mapping, index + nth);
                if run.watched {
                    page.set_private(milliseconds(entered_at(nth)));
                }
                slot.set(pfn + 1);
                pfn
            }));
            entered += most;
            if new.room() == 0 {
                self.drain_add(new, Lru::InactiveFile);
            }
        }
        leaf.grown(n);
        run.m.nrpages.fetch_add(n);
        stat.inc_by(ZoneStat::NrFilePages, n);
        if run.accounted() {
            stat.inc_by(ZoneStat::NrFileDirty, n);
            stat.inc_by(ZoneStat::NrDirtied, n);
            self.step_bdi_stat(run.m.bdi(), BdiStat::Reclaimable, 1, n);
            self.count_for_owner(run.m, BdiStat::Reclaimable, 1, n);
            self.task_dirty_inc(u64::from(n));
        }
        if run.dirty {
            leaf.set_tag_run(Tag::Dirty, index, n);
            if self.keeps_buffers(run.m) {
                self.buffer_pages(leaf.node, index, n);
            }
        }
    }
}

/// Returns how many slots are empty before the first one that is not.
#[inline(always)]
fn empty_slots<T: Word32>(slots: &[T]) -> u32 {
    let taken = slots.iter().position(|s| s.get() != 0);
    taken.unwrap_or(slots.len()) as u32
}

/// The zone and the per-CPU list that a batch takes its pages from.
struct Source<'a, W: World> {
    zone: usize,
    pcp: &'a Pcp<W>,
    stat: ZoneCounters<'a, W>,
    /// Whether the pages count against the zone's fair batch.
    batched: bool,
}

/// How a page of a run was allocated.
enum Allocated<'a, W: World> {
    /// At the low watermark, or not known.
    Plainly,
    /// At the min watermark.
    AtMin,
    /// At the min watermark, and so is the next page.
    InRow(Row<'a, W>),
}

/// Pages allocated in a row at the min watermark. The tests that the first one's allocation made
/// have the same results for the next: the walks at the low watermark are foreseen, kswapd was
/// asked to work, and a zone where this CPU has pages on its list is above its min watermark.
struct Row<'a, W: World> {
    from: Source<'a, W>,
    /// Time of an allocation (ns).
    ns: u64,
    /// How the allocation's walks end.
    way: Way,
}

impl<'a, W: World> Run<'a, W> {
    /// Returns true if the run's pages count as dirty.
    #[inline(always)]
    fn accounted(&self) -> bool {
        self.dirty && self.m.accounts_dirty()
    }

    /// Returns the leaf of the file's tree that holds a page index; `None` if it does not exist
    /// yet.
    fn leaf(&self, mm: &'a Mm<W>, index: u32) -> Option<Leaf<'a, W>> {
        let m = self.m;
        m.tree_lock.with(|| mm.leaf_at(m, index))
    }
}
