//! Per-CPU lists of single pages (docs/reference/memory-model.md#free-lists).
//!
//! A ring per zone and CPU: hot pages are pushed and taken at the front, cold ones (freed by
//! reclaim) queue at the back. Pages on these lists are not in `nr_free_pages`. If free lists are
//! kept by mobility there is a ring for each kind; together they hold as much as one does
//! otherwise.

use crate::memory::frame::{NO_PFN, Page, flag, zone_of};
use crate::watch::vmstat::{VmEvent, ZoneStat};
use crate::world::event::Event;
use crate::world::{Audience, Cost, ShortLock, Word32, World};
use crate::{Mm, Pfn};

/// One of a zone's lists on one CPU.
pub(crate) struct Pcp<W: World> {
    ring: Box<[W::U32]>,
    front: W::U32,
    count: W::U32,
    /// The order of the blocks on the list; 0 for single pages.
    order: u32,
    /// Needed because a drain of all CPUs' lists takes pages from other CPUs' lists.
    lock: W::Lock,
}

impl<W: World> Pcp<W> {
    /// Makes an empty list of blocks of 2^`order` pages, with room for up to `pages` pages.
    pub fn new(pages: u32, order: u32) -> Self {
        Self {
            order,
            ring: bytemuck::zeroed_slice_box(((pages >> order) + 1).next_power_of_two() as usize),
            front: bytemuck::Zeroable::zeroed(),
            count: bytemuck::Zeroable::zeroed(),
            lock: W::Lock::default(),
        }
    }

    /// Returns the word of the ring at position `i`, which wraps.
    #[inline(always)]
    fn slot(&self, i: u32) -> &W::U32 {
        &self.ring[i as usize & (self.ring.len() - 1)]
    }

    /// Adds a page (or block) at the front, from which pages are taken first.
    #[inline(always)]
    pub(super) fn push_front(&self, pfn: Pfn) {
        let at = self.front.get().wrapping_sub(1);
        self.slot(at).set(pfn);
        self.front.set(at);
        self.count.fetch_add(1);
    }

    /// Adds pages at the back of the list, from which pages go back to the buddy lists first.
    #[inline(always)]
    pub(super) fn push_back(&self, mut pages: impl ExactSizeIterator<Item = Pfn>) {
        let ring = &*self.ring;
        let at = self.front.get().wrapping_add(self.count.get());
        self.count.fetch_add(pages.len() as u32);
        // Up to the ring's end, and on from its beginning.
        let (begin, end) = ring.split_at(at as usize & (ring.len() - 1));
        if pages.len() <= end.len() {
            return end.iter().zip(pages).for_each(|(slot, pfn)| slot.set(pfn));
        }
        for slot in end.iter().chain(begin) {
            let Some(pfn) = pages.next() else {
                break;
            };
            slot.set(pfn);
        }
    }

    /// Takes the page (or block) at the front; `None` if the list is empty.
    #[inline(always)]
    pub(crate) fn pop_front(&self) -> Option<Pfn> {
        let n = self.count.get();
        if n == 0 {
            return None;
        }
        let at = self.front.get();
        self.front.set(at.wrapping_add(1));
        self.count.set(n - 1);
        Some(self.slot(at).get())
    }

    /// Returns up to `n` pages from the front of the list without taking them, as far as they are
    /// contiguous in its ring.
    #[inline(always)]
    pub(crate) fn front_row(&self, n: u32) -> &[W::U32] {
        let ring = &*self.ring;
        let row = &ring[self.front.get() as usize & (ring.len() - 1)..];
        let n = n.min(self.count.get()) as usize;
        &row[..n.min(row.len())]
    }

    /// Removes the first `n` pages, which the caller has used; the list must have as many.
    #[inline(always)]
    pub(crate) fn drop_front(&self, n: u32) {
        debug_assert!(n <= self.count.get());
        self.front.fetch_add(n);
        self.count.fetch_sub(n);
    }

    /// Takes up to `n` pages from the back and returns them, the last one first.
    #[inline(always)]
    fn take_back(&self, n: u32) -> impl Iterator<Item = Pfn> {
        let [older, newer] = self.take_back_rows(n);
        newer
            .iter()
            .rev()
            .chain(older.iter().rev())
            .map(Word32::get)
    }

    /// Takes up to `n` pages from the back and returns the words of the ring that hold them: the
    /// older part and the newer part, each in the order in which the pages were queued. The newer
    /// part is empty unless the ring's end divides them.
    #[inline(always)]
    fn take_back_rows(&self, n: u32) -> [&[W::U32]; 2] {
        let ring = &*self.ring;
        let n = n.min(self.count.get());
        let left = self.count.get() - n;
        self.count.set(left);
        let first = self.front.get().wrapping_add(left) as usize & (ring.len() - 1);
        // Up to the ring's end, and on from its beginning.
        let row = (n as usize).min(ring.len() - first);
        [&ring[first..first + row], &ring[..n as usize - row]]
    }

    /// Takes up to `n` pages from the back and passes them to `to`, which frees them, under the
    /// list's lock.
    #[inline(always)]
    pub(crate) fn return_some(&self, n: u32, to: impl FnOnce(&mut dyn Iterator<Item = Pfn>)) {
        self.lock.with(|| to(&mut self.take_back(n)));
    }

    /// Runs `f` under the list's lock.
    #[inline(always)]
    pub(super) fn with_lock<T>(&self, f: impl FnOnce() -> T) -> T {
        self.lock.with(f)
    }

    pub fn count(&self) -> u32 {
        self.count.get()
    }

    /// Returns the pages in the blocks on the list.
    #[inline(always)]
    pub fn pages(&self) -> u32 {
        self.count() << self.order
    }

    #[inline(always)]
    pub fn order(&self) -> u32 {
        self.order
    }

    /// Returns the number of blocks that the ring has room for.
    pub(crate) fn room(&self) -> u32 {
        self.ring.len() as u32
    }

    /// Returns the pages (or first pages of blocks) on the list, from the front.
    pub fn iter(&self) -> impl Iterator<Item = Pfn> + '_ {
        (0..self.count.get()).map(|i| self.slot(self.front.get().wrapping_add(i)).get())
    }
}

impl<W: World> Mm<W> {
    /// Returns a list of a zone on one CPU; `list`: its index, by order and then by kind.
    #[inline(always)]
    pub(crate) fn pcp(&self, z: usize, cpu: usize, list: usize) -> &Pcp<W> {
        &self.pcp[(z * self.config.cpus + cpu) * self.pcp_lists + list]
    }

    /// Returns one CPU's lists of a zone, by order and then by kind of pages.
    #[inline(always)]
    pub(crate) fn own_pcps(&self, z: usize, cpu: usize) -> &[Pcp<W>] {
        &self.pcp[(z * self.config.cpus + cpu) * self.pcp_lists..][..self.pcp_lists]
    }

    /// Returns all lists of a zone, CPU by CPU.
    #[inline(always)]
    pub(crate) fn pcps(&self, z: usize) -> &[Pcp<W>] {
        let n = self.config.cpus * self.pcp_lists;
        &self.pcp[z * n..(z + 1) * n]
    }

    /// Takes a page of zone `z` from this CPU's list of the kind `list`, refilling it from the
    /// buddy lists if empty; `None`: the zone has no page.
    #[inline(always)]
    pub(crate) fn rmqueue_pcp(&self, z: usize, list: usize) -> Option<Pfn> {
        self.take_from_pcp(z, list, self.pcp(z, self.world.cpu(), list))
    }

    /// Does [`Self::rmqueue_pcp`] for a caller that has looked up the list.
    #[inline(always)]
    pub(super) fn take_from_pcp(&self, z: usize, list: usize, pcp: &Pcp<W>) -> Option<Pfn> {
        pcp.lock
            .with(|| pcp.pop_front().or_else(|| self.refill_pcp(z, list, pcp)))
    }

    /// Takes a page from a list of this CPU, without refilling it; `None` if it is empty.
    #[inline(always)]
    pub(super) fn pop_pcp(&self, pcp: &Pcp<W>) -> Option<Pfn> {
        pcp.lock.with(|| pcp.pop_front())
    }

    /// Refills an empty per-CPU list and takes a page from it; `None`: the zone has no page. The
    /// caller holds the list's lock.
    fn refill_pcp(&self, z: usize, list: usize, pcp: &Pcp<W>) -> Option<Pfn> {
        self.refill_empty(z, list, pcp);
        pcp.pop_front()
    }

    /// Refills an empty per-CPU list with a batch of pages of zone `z`; the caller has exclusive
    /// access to the list.
    #[inline(never)]
    fn refill_empty(&self, z: usize, list: usize, pcp: &Pcp<W>) {
        pcp.front.set(0);
        let n = self.take_bulk(z, self.nr_pcp_alloc(z), list, |first, n| {
            pcp.push_back((0..n).map(|i| first + i));
        });
        self.count_bulk(z, n);
        self.refilled(z);
    }

    /// Refills an empty per-CPU list for a walk over the free lists that was predicted and not
    /// made. Returns false if the zone has no page, and leaves the zone and what the list learns
    /// from refills unchanged: the real walk, which finds this out after its tests, counts it.
    #[inline(never)]
    pub(crate) fn refill_foreseen(&self, z: usize, list: usize, pcp: &Pcp<W>) -> bool {
        if self.stat.exact(z, ZoneStat::NrFreePages) <= 0 {
            return false;
        }
        self.refill_empty(z, list, pcp);
        debug_assert!(pcp.count() > 0, "zone {z} counts free pages");
        true
    }

    /// Returns true if a zone is so small that its per-CPU lists are filled, and return pages, one
    /// by one.
    #[inline(always)]
    pub(crate) fn takes_singly(&self, z: usize) -> bool {
        self.zones[z].pcp_batch == 1 && !self.grouped() && !self.lists_by_watermark()
    }

    /// Frees a single page to this CPU's list, to its back if `cold`; if the list then is at its
    /// `high` mark, a batch goes back to the buddy lists.
    #[inline]
    pub fn free_page(&self, pfn: Pfn, cold: bool) {
        self.uncharge_page(self.frames.page(pfn));
        let z = self.free_page_prepare(pfn);
        self.stat.event(VmEvent::PgFree, 1);
        self.emit(Audience::Traces, || Event::PageFree { pfn, order: 0 });
        self.world.charge(Cost::PageFree, 1);
        if self.lists_by_watermark() {
            return self.free_to_tuned(z, pfn);
        }
        if self.grouped() {
            return self.free_to_own_kind(z, pfn, cold);
        }
        let pcp = self.pcp(z, self.world.cpu(), 0);
        pcp.lock.with(|| {
            if cold {
                pcp.push_back(std::iter::once(pfn));
            } else {
                pcp.push_front(pfn);
            }
            self.free_over_high(z, pcp);
        });
    }

    /// Frees cold pages, all of zone `z`, to the back of this CPU's list, one after the other.
    pub(crate) fn free_cold_pages(&self, z: usize, pages: &[Pfn]) {
        self.stat.event(VmEvent::PgFree, pages.len() as u64);
        self.world.charge(Cost::PageFree, pages.len() as u32);
        if self.traced() {
            for &pfn in pages {
                self.emit(Audience::Traces, || Event::PageFree { pfn, order: 0 });
            }
        }
        let frames = self.frames.table();
        if self.has_groups() {
            pages
                .iter()
                .for_each(|&pfn| self.uncharge_page(frames.page(pfn)));
        }
        let prepared = |&pfn: &Pfn| {
            let zone = Self::free_prepare(frames.page(pfn), pfn);
            debug_assert!(zone == z);
            pfn
        };
        if self.lists_by_watermark() {
            return self.free_row_to_tuned(z, pages.iter().map(prepared));
        }
        if self.grouped() {
            let pages = pages.iter().map(prepared);
            return pages.for_each(|pfn| self.free_to_own_kind(z, pfn, true));
        }
        let pcp = self.pcp(z, self.world.cpu(), 0);
        pcp.lock.with(|| {
            let mut rest = pages;
            while !rest.is_empty() {
                let room = self.zones[z].pcp_high - pcp.count();
                if room == 1 && self.takes_singly(z) {
                    // Each page would be queued and returned at once.
                    for pfn in rest {
                        prepared(pfn);
                    }
                    return self.free_singly(z, rest);
                }
                let (now, later) = rest.split_at(rest.len().min(room as usize));
                pcp.push_back(now.iter().map(prepared));
                self.free_over_high(z, pcp);
                rest = later;
            }
        });
    }

    /// Checks that a page is in use and may be freed, clears its bits and returns its zone.
    #[inline(always)]
    fn free_page_prepare(&self, pfn: Pfn) -> usize {
        Self::free_prepare(self.frames.page(pfn), pfn)
    }

    /// Does [`Self::free_page_prepare`] for a caller that has looked up the page.
    ///
    /// # Panics
    /// If the page is not in use, or has a flag that forbids freeing it.
    #[inline(always)]
    fn free_prepare(page: Page<'_, W>, pfn: Pfn) -> usize {
        let f = page.flags();
        if f & (flag::USED | flag::CHECK_AT_FREE) != flag::USED {
            freed_in_use(pfn, f);
        }
        page.reset_flags(zone_of(f), 0);
        zone_of(f)
    }

    /// Returns a batch of pages to the buddy lists if a per-CPU list is at the zone's `high` mark;
    /// the caller holds the list's lock.
    #[inline(always)]
    fn free_over_high(&self, z: usize, pcp: &Pcp<W>) {
        let zone = &self.zones[z];
        if pcp.count() >= zone.pcp_high {
            // The coldest pages are returned first.
            self.free_bulk_rows(z, pcp.take_back_rows(zone.pcp_batch));
        }
    }

    /// Frees a page to this CPU's list of its pageblock's kind, to its back if `cold`. If the CPU's
    /// lists together are at the zone's `high` mark, the longest returns a batch to the buddy
    /// lists.
    #[inline(never)]
    fn free_to_own_kind(&self, z: usize, pfn: Pfn, cold: bool) {
        let (zone, cpu) = (&self.zones[z], self.world.cpu());
        let pcp = self.pcp(z, cpu, self.list_of_page(pfn));
        pcp.lock.with(|| {
            if cold {
                pcp.push_back(std::iter::once(pfn));
            } else {
                pcp.push_front(pfn);
            }
        });
        if self.pcp_count(z, cpu) >= zone.pcp_high {
            let longest = self.longest_pcp(z, cpu);
            longest.return_some(zone.pcp_batch, |pages| self.free_bulk(z, pages));
        }
    }

    /// Frees a page to this CPU's list where the low watermark decides how many pages the lists
    /// hold, and returns pages beyond that to the buddy lists; such kernels do not distinguish cold
    /// pages.
    #[inline(never)]
    fn free_to_tuned(&self, z: usize, pfn: Pfn) {
        let list = self.list_of_page(pfn);
        let pcp = self.pcp(z, self.world.cpu(), list);
        pcp.lock.with(|| pcp.push_front(pfn));
        self.return_over_high(z, 0, list);
    }

    /// Does [`Self::free_to_tuned`] for several pages of zone `z`, one after the other.
    fn free_row_to_tuned(&self, z: usize, pages: impl Iterator<Item = Pfn>) {
        let (zone, cpu) = (&self.zones[z], self.world.cpu());
        let (own, tuning) = (self.own_pcps(z, cpu), self.tuning(z, cpu));
        let mut count = self.pcp_count(z, cpu);
        for pfn in pages {
            let list = self.list_of_page(pfn);
            let pcp = &own[list];
            pcp.lock.with(|| pcp.push_front(pfn));
            count += 1;
            let over = self.pages_to_return_of(zone, tuning, count, 0);
            if over > 0 {
                self.return_pages(z, cpu, over, list);
                self.returned(z);
                count = self.pcp_count(z, cpu);
            }
        }
    }

    /// Returns every page of every CPU's lists to the buddy lists.
    pub fn drain_all_pages(&self) {
        for cpu in 0..self.config.cpus {
            self.drain_pages(cpu);
        }
    }

    /// Returns every page of one CPU's lists to the buddy lists.
    pub(crate) fn drain_pages(&self, cpu: usize) {
        for z in 0..self.zones.len() {
            self.return_pages(z, cpu, u32::MAX, 0);
            self.forget_count(z, cpu);
        }
    }

    /// Returns the number of pages on all per-CPU lists of a zone.
    pub fn pcp_pages(&self, z: usize) -> u64 {
        self.pcps(z).iter().map(|pcp| u64::from(pcp.pages())).sum()
    }
}

/// Panics because a page was freed while in use; a function of its own so that callers need not
/// keep the page's flags in memory for the message.
#[cold]
#[inline(never)]
fn freed_in_use(pfn: Pfn, f: u32) -> ! {
    panic!("frame {pfn} freed with flags {f:#x}")
}

const _: () = assert!(NO_PFN == u32::MAX);
