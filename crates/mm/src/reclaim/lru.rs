//! LRU lists, pagevecs and page activation (docs/reference/memory-model.md#lru-lists and
//! docs/reference/memory-model.md#page-states).
//!
//! Pages join, move on and rotate in the lists through per-CPU batches (pagevecs), of 14 pages in
//! older kernels, so the list lock is taken once per batch. A page that waits in a batch is on no
//! list and cannot be isolated; every shrink drains the batches of its CPU first.

use crate::memory::frame::{flag, zone_of};
use crate::memory::group::GroupEvent;
use crate::memory::zone::Zone;
use crate::memory::zone::{LRU_LISTS, Lru};
use crate::policy::{Accesses, LruScope, MarkAccessed, UnwrittenPages};
use crate::watch::vmstat::{VmEvent, ZoneStat};
use crate::world::event::{Event, TrackPath};
use crate::world::{Audience, Cost, ShortLock, Word32, Word64, World};
use crate::{Mm, Pfn, queue};

/// The most pages that a batch can hold (6.8; `lru_batch` says how many it does hold).
pub const PAGEVEC_SIZE: usize = 31;

/// A per-CPU batch of pages on their way to a list.
pub(crate) struct Pagevec<W: World> {
    n: W::U32,
    /// Pages at which the batch is full (`lru_batch`).
    most: u32,
    pages: [W::U32; PAGEVEC_SIZE],
}

/// Counts of pages of a zone that were put back on their lists.
#[derive(Default)]
pub(crate) struct PutBack {
    /// Pages that are not in the lists' size counters yet, by list.
    uncounted: [u32; LRU_LISTS],
    /// Pages that were put on an active list.
    active: u32,
}

impl<W: World> Pagevec<W> {
    /// Makes an empty batch, which is full at `most` pages.
    pub fn new(most: u8) -> Self {
        Self {
            n: bytemuck::Zeroable::zeroed(),
            most: u32::from(most),
            pages: bytemuck::Zeroable::zeroed(),
        }
    }

    /// Adds a page to the batch; returns true if the batch is full now.
    #[inline(always)]
    fn push(&self, pfn: Pfn) -> bool {
        let n = self.n.get() as usize;
        self.pages[n].set(pfn);
        self.n.set(n as u32 + 1);
        n as u32 + 1 == self.most
    }

    /// Returns how many pages still fit.
    #[inline(always)]
    pub fn room(&self) -> u32 {
        self.most - self.n.get()
    }

    /// Adds pages to the batch; the caller has checked that they fit.
    #[inline(always)]
    pub fn push_many(&self, pages: impl Iterator<Item = Pfn>) {
        let n = self.n.get();
        let mut added = 0;
        for (slot, pfn) in self.pages[n as usize..].iter().zip(pages) {
            slot.set(pfn);
            added += 1;
        }
        self.n.set(n + added);
    }

    /// Takes a page out of the batch, whose other pages keep their order; returns true if the page
    /// was in it.
    fn take(&self, pfn: Pfn) -> bool {
        let n = self.n.get() as usize;
        let Some(at) = self.pages[..n].iter().position(|p| p.get() == pfn) else {
            return false;
        };
        for i in at + 1..n {
            self.pages[i - 1].set(self.pages[i].get());
        }
        self.n.set(n as u32 - 1);
        true
    }

    /// Returns the pages in the batch, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = Pfn> + '_ {
        self.pages[..self.n.get() as usize].iter().map(Word32::get)
    }
}

/// The batches of one CPU.
pub(crate) struct Pagevecs<W: World> {
    /// New pages, one batch for each list.
    pub add: [Pagevec<W>; LRU_LISTS],
    /// Pages whose writeback ended, on their way to the inactive tail.
    pub rotate: Pagevec<W>,
    /// Pages on their way to the active list.
    pub activate: Pagevec<W>,
    /// Needed in the live world, where another thread may use the same CPU slot.
    pub lock: W::Lock,
}

impl<W: World> Pagevecs<W> {
    /// Makes the empty batches of a CPU, each of up to `most` pages.
    pub fn new(most: u8) -> Self {
        Self {
            add: std::array::from_fn(|_| Pagevec::new(most)),
            rotate: Pagevec::new(most),
            activate: Pagevec::new(most),
            lock: W::Lock::default(),
        }
    }
}

impl<W: World> Mm<W> {
    /// Returns the sentinel of an LRU list of zone `z`, or of its node where nodes have the lists.
    #[inline(always)]
    pub(crate) fn lru_list(&self, z: usize, lru: Lru) -> Pfn {
        self.zones[z].lru + lru as u32
    }

    /// Returns the number of pages on an LRU list of zone `z` (or its node), by the cheap counter.
    #[inline(always)]
    pub(crate) fn lru_size(&self, z: usize, lru: Lru) -> u64 {
        self.lru_stat(z, lru.size_item())
    }

    /// Returns a counter of the owner of zone `z`'s LRU lists: of the zone, or the sum over its
    /// node.
    #[inline(always)]
    pub(crate) fn lru_stat(&self, z: usize, item: ZoneStat) -> u64 {
        if !self.node_lru() {
            return self.stat.zone(z, item);
        }
        let zones = self.nodes[self.zones[z].node as usize].zones.iter();
        zones.map(|&z| self.stat.zone(usize::from(z), item)).sum()
    }

    /// Returns true if nodes have the LRU lists, not zones.
    #[inline(always)]
    pub(crate) fn node_lru(&self) -> bool {
        self.policy.lru == LruScope::Node && self.orders.is_none()
    }

    /// Returns the zone whose words hold the lock and the statistics of a zone's LRU lists.
    #[inline(always)]
    pub(crate) fn lru_home(&self, z: usize) -> &Zone<W> {
        &self.zones[self.zones[z].lru_home as usize]
    }

    /// Adds `n` to the size counters of a list of zone `z` and of a group.
    #[inline(always)]
    fn count_lru(&self, z: usize, group: u32, lru: Lru, n: i32) {
        self.stat.add(self.world.cpu(), z, lru.size_item(), n);
        self.count_group_lru(z, group, lru, n);
    }

    /// Puts a new page into this CPU's batch of pages that will join the list `lru`, and moves the
    /// batch to its list if it is full.
    #[inline(always)]
    pub(crate) fn lru_cache_add(&self, pfn: Pfn, lru: Lru) {
        debug_assert!(!self.frames.has(pfn, flag::LRU));
        if lru.is_active() {
            self.frames.set_flags(pfn, flag::ACTIVE);
        }
        let pv = &self.pagevecs[self.world.cpu()];
        pv.lock.with(|| {
            if pv.add[lru as usize].push(pfn) {
                self.drain_add(&pv.add[lru as usize], lru);
            }
        });
        self.world.charge(Cost::Lru, 1);
    }

    /// Moves the pages of the batch `pv` to the head of the list `lru` of their zones, run by run
    /// in the order of the batch, and empties the batch; the batch's lock is held.
    pub(crate) fn drain_add(&self, pv: &Pagevec<W>, lru: Lru) {
        let n = pv.n.get() as usize;
        let groups = self.has_groups();
        let mut i = 0;
        while i < n {
            let z = self.frames.zone(pv.pages[i].get());
            let group = match groups {
                true => self.frames.page(pv.pages[i].get()).group(),
                false => 0,
            };
            let zone = self.lru_home(z);
            let mut moved = 0;
            zone.lru_lock.with(|| {
                let frames = self.frames.table();
                let list = self.lru_list_of(z, group, lru);
                let mut first = frames.first(list);
                let mut behind = frames.page(first);
                for pfn in pv.pages[i..n].iter().map(Word32::get) {
                    let page = frames.page(pfn);
                    let before = page.flags();
                    if zone_of(before) != z || groups && page.group() != group {
                        break;
                    }
                    debug_assert!(before & flag::LRU == 0 && Lru::of(before) == lru);
                    page.set_flags(flag::LRU);
                    page.stand_before(behind, pfn, first);
                    (first, behind) = (pfn, page);
                    moved += 1;
                }
                frames.join(list, first);
                self.admit_ordered(z, lru, &pv.pages[i..i + moved as usize]);
                i += moved as usize;
                let t = usize::from(lru.is_file());
                zone.recent_scanned[t].fetch_add(moved as u64);
                if lru.is_active() {
                    zone.recent_rotated[t].fetch_add(moved as u64);
                }
            });
            self.count_lru(z, group, lru, moved);
        }
        if self.traced() {
            self.tell_inserted(pv, lru);
        }
        pv.n.set(0);
    }

    /// Reports to the trace that the pages of a batch joined the list `lru`.
    #[inline(never)]
    fn tell_inserted(&self, pv: &Pagevec<W>, lru: Lru) {
        for pfn in pv.iter() {
            let f = self.frames.flags(pfn);
            self.emit(Audience::Traces, || Event::LruInsertion {
                pfn,
                lru: lru as u8,
                mapped: self.frames.mapcount(pfn) > 0,
                anon: f & flag::SWAPBACKED != 0,
                swapcache: f & flag::SWAPCACHE != 0,
            });
        }
    }

    /// Moves the pages of the batch `pv` to the tail of their inactive lists, to be reclaimed next,
    /// except those that left their list or must stay; empties the batch.
    fn drain_rotate(&self, pv: &Pagevec<W>) {
        let mut moved = 0;
        for pfn in pv.iter() {
            let z = self.frames.zone(pfn);
            let group = self.frames.page(pfn).group();
            self.lru_home(z).lru_lock.with(|| {
                // Only under the lock do the flags tell which list the page is on.
                let f = self.frames.flags(pfn);
                if f & flag::LRU != 0 && f & (self.active_stays() | flag::UNEVICTABLE) == 0 {
                    let (from, to) = (Lru::of(f), Lru::of(f & !flag::ACTIVE));
                    self.frames.del(pfn);
                    if from != to {
                        self.frames.clear_flags(pfn, flag::ACTIVE);
                        self.count_lru(z, group, from, -1);
                        self.count_lru(z, group, to, 1);
                    }
                    self.frames.add_tail(self.lru_list_of(z, group, to), pfn);
                    moved += 1;
                }
            });
            self.frames.clear_flags(pfn, flag::PINNED);
        }
        pv.n.set(0);
        self.stat.event(VmEvent::PgRotated, moved);
    }

    /// Returns the flags that keep a page from rotating to the inactive tail once it is clean:
    /// `ACTIVE`, or none (0) if reclaim moves unwritten pages to the active list, where they wait
    /// for just that.
    #[inline(always)]
    fn active_stays(&self) -> u32 {
        match self.policy.unwritten_pages {
            UnwrittenPages::Inactive => flag::ACTIVE,
            UnwrittenPages::Active => 0,
        }
    }

    /// Moves the pages of the batch `pv` to the head of their active lists, except those that left
    /// their list or are active already; empties the batch.
    fn drain_activate(&self, pv: &Pagevec<W>) {
        for pfn in pv.iter() {
            let z = self.frames.zone(pfn);
            let group = self.frames.page(pfn).group();
            let zone = self.lru_home(z);
            let moved = zone.lru_lock.with(|| {
                // Only under the lock do the flags tell which list the page is on.
                let f = self.frames.flags(pfn);
                if f & flag::LRU == 0 || f & (flag::ACTIVE | flag::UNEVICTABLE) != 0 {
                    return None;
                }
                let (from, to) = (Lru::of(f), Lru::of(f | flag::ACTIVE));
                self.frames.del(pfn);
                self.frames.set_flags(pfn, flag::ACTIVE);
                self.frames.add(self.lru_list_of(z, group, to), pfn);
                let t = usize::from(to.is_file());
                zone.recent_scanned[t].fetch_add(1);
                zone.recent_rotated[t].fetch_add(1);
                Some((from, to))
            });
            if let Some((from, to)) = moved {
                self.count_lru(z, group, from, -1);
                self.count_lru(z, group, to, 1);
                self.stat.event(VmEvent::PgActivate, 1);
                self.count_group(group, GroupEvent::PgActivate, 1);
                self.emit(Audience::Traces, || Event::LruActivate { pfn });
            }
            self.frames.clear_flags(pfn, flag::PINNED);
        }
        pv.n.set(0);
    }

    /// Moves the pages in the batches of the calling task's CPU to their LRU lists.
    pub fn lru_add_drain(&self) {
        self.lru_add_drain_cpu(self.world.cpu());
    }

    /// Moves the pages in the batches of one CPU (pages to be added, rotated or activated) to their
    /// LRU lists.
    pub fn lru_add_drain_cpu(&self, cpu: usize) {
        debug_assert!(cpu < self.config.cpus, "CPU {cpu} does not exist");
        let pv = &self.pagevecs[cpu];
        pv.lock.with(|| {
            for lru in Lru::ALL {
                if pv.add[lru as usize].n.get() != 0 {
                    self.drain_add(&pv.add[lru as usize], lru);
                }
            }
            if pv.rotate.n.get() != 0 {
                self.drain_rotate(&pv.rotate);
            }
            if pv.activate.n.get() != 0 {
                self.drain_activate(&pv.activate);
            }
        });
    }

    /// Queues a page for the tail of its inactive list when its writeback ends; the caller has
    /// found reclaim's mark on it. An eviction policy that orders pages itself (`orders`) is told
    /// instead. Pages that are locked, dirty, unevictable, off the lists or in a batch already are
    /// left, and so are active ones where the kernel's release leaves them (`active_stays` returns
    /// flag bits).
    pub(crate) fn rotate_reclaimable_page(&self, pfn: Pfn) {
        if self.orders.is_some() && self.cleaned_ordered(pfn) {
            return;
        }
        let f = self.frames.flags(pfn);
        let bad = flag::LOCKED | flag::DIRTY | flag::UNEVICTABLE | self.active_stays();
        // PINNED stands for the batch's reference: no task frees the page meanwhile.
        if f & flag::LRU == 0
            || f & (bad | flag::PINNED) != 0
            || self.frames.test_and_set(pfn, flag::PINNED)
        {
            return;
        }
        let pv = &self.pagevecs[self.world.cpu()];
        pv.lock.with(|| {
            if pv.rotate.push(pfn) {
                self.drain_rotate(&pv.rotate);
            }
        });
    }

    /// Queues an inactive page that is on a list for activation, in this CPU's batch.
    fn activate_page(&self, pfn: Pfn) {
        let f = self.frames.flags(pfn);
        if f & flag::LRU == 0
            || f & (flag::ACTIVE | flag::UNEVICTABLE | flag::PINNED) != 0
            || self.frames.test_and_set(pfn, flag::PINNED)
        {
            return;
        }
        let pv = &self.pagevecs[self.world.cpu()];
        pv.lock.with(|| {
            if pv.activate.push(pfn) {
                self.drain_activate(&pv.activate);
            }
        });
    }

    /// Records one software access to a page (docs/reference/memory-model.md#page-states): the
    /// second one activates it. `path`: the kind of access; writes count in some kernels only, but
    /// always for an eviction policy, which knows requests and no kernel's rules for its lists. The
    /// policy `mark_accessed` decides whether a page that still waits in an add batch is activated.
    pub fn mark_page_accessed(&self, pfn: Pfn, path: TrackPath) {
        if self.orders.is_some() && self.use_ordered(pfn) {
            return;
        }
        if path == TrackPath::BufferedWrite && self.policy.accesses == Accesses::Reads {
            return;
        }
        let f = self.frames.flags(pfn);
        if f & flag::REFERENCED == 0 {
            self.frames.set_flags(pfn, flag::REFERENCED);
        } else if f & (flag::ACTIVE | flag::UNEVICTABLE) == 0
            && f & flag::LRU == 0
            && self.policy.mark_accessed == MarkAccessed::InBatch
        {
            self.activate_in_batch(pfn, path);
            self.frames.clear_flags(pfn, flag::REFERENCED);
            self.workingset_activation(pfn);
        } else if f & (flag::ACTIVE | flag::UNEVICTABLE) == 0 && f & flag::LRU != 0 {
            if f & flag::PINNED == 0 {
                self.note_path(path);
                self.track_activated(pfn);
            }
            self.activate_page(pfn);
            self.frames.clear_flags(pfn, flag::REFERENCED);
            self.workingset_activation(pfn);
        }
    }

    /// Marks a page accessed as [`Mm::mark_page_accessed`] does for a read, if that needs no
    /// per-CPU batch of pages; for callers that run on no CPU and keep the page in its file
    /// meanwhile. Returns true if nothing is left to do; false, with nothing done, if the full
    /// function is needed, as for an activation.
    #[inline]
    pub fn mark_accessed_in_passing(&self, pfn: Pfn) -> bool {
        if self.orders.is_some() {
            return false;
        }
        let f = self.frames.flags(pfn);
        if f & flag::REFERENCED == 0 {
            self.frames.set_flags(pfn, flag::REFERENCED);
            return true;
        }
        f & (flag::ACTIVE | flag::UNEVICTABLE) != 0
            || f & flag::LRU == 0 && self.policy.mark_accessed != MarkAccessed::InBatch
    }

    /// Moves a page from the batch of this CPU in which it waits to join an inactive list to that
    /// of the active list; a page in another CPU's batch stays inactive.
    fn activate_in_batch(&self, pfn: Pfn, path: TrackPath) {
        let pv = &self.pagevecs[self.world.cpu()];
        pv.lock.with(|| {
            let from = Lru::of(self.frames.flags(pfn));
            let to = match from {
                Lru::InactiveFile => Lru::ActiveFile,
                Lru::InactiveAnon => Lru::ActiveAnon,
                _ => return,
            };
            if !pv.add[from as usize].take(pfn) {
                return;
            }
            self.frames.set_flags(pfn, flag::ACTIVE);
            self.note_path(path);
            self.track_activated(pfn);
            if pv.add[to as usize].push(pfn) {
                self.drain_add(&pv.add[to as usize], to);
            }
        });
    }

    /// Takes an isolated page of zone `z` off the calling task's list and puts it at the head of
    /// the LRU list that its flags name, which is returned.
    #[inline(always)]
    pub(crate) fn putback_lru_page(&self, z: usize, pfn: Pfn) -> Lru {
        let mut back = PutBack::default();
        let lru = self.put_back(z, pfn, &mut back);
        self.count_put_back(z, back);
        lru
    }

    /// Adds the pages that calls of [`Self::put_back`] have put back without counting them to the
    /// sizes of the lists of zone `z`.
    pub(crate) fn count_put_back(&self, z: usize, back: PutBack) {
        for (lru, n) in Lru::ALL.into_iter().zip(back.uncounted) {
            if n > 0 {
                let stat = self.stat.on(self.world.cpu(), z);
                stat.add_ones(lru.size_item(), n);
            }
        }
    }

    /// Puts one of several isolated pages of zone `z` back as [`Self::putback_lru_page`] does, and
    /// adds it to the numbers in `back`; [`Self::count_put_back`] must follow the last one.
    #[inline]
    pub(crate) fn put_back(&self, z: usize, pfn: Pfn, back: &mut PutBack) -> Lru {
        let node_lru = self.node_lru();
        let z = if node_lru { self.frames.zone(pfn) } else { z };
        self.frames.del(pfn);
        let group = self.frames.page(pfn).group();
        let (lru, wanted) = self.lru_home(z).lru_lock.with(|| {
            let f = self.frames.set_flags(pfn, flag::LRU);
            debug_assert!(f & flag::LRU == 0);
            let lru = Lru::of(f);
            self.frames.add(self.lru_list_of(z, group, lru), pfn);
            self.keep_ordered(z, lru, pfn);
            (lru, f & flag::WAITERS != 0)
        });
        if wanted {
            // A task that truncates the file holds the page's lock and waits for the page to be
            // back.
            self.world.wake(queue::page(pfn));
        }
        if node_lru {
            self.count_lru(z, group, lru, 1);
        } else {
            back.uncounted[lru as usize] += 1;
        }
        back.active += u32::from(lru.is_active());
        lru
    }

    /// Puts back all pages that the calling task has isolated from a list of zone `z` (`file`: of
    /// file pages), the last one first, as [`Self::putback_lru_page`] does. Returns how many came
    /// to an active list.
    pub(crate) fn put_back_isolated(&self, z: usize, file: bool) -> u64 {
        let (frames, own_list) = (self.frames.table(), self.isolated_list(self.world.task()));
        let plain = !self.node_lru() && self.orders.is_none();
        let mut back = PutBack::default();
        loop {
            let pfn = frames.before(own_list);
            if pfn == own_list {
                break;
            }
            let f = frames.page(pfn).flags();
            if plain && f & flag::WAITERS == 0 {
                self.put_back_row(z, own_list, f, &mut back);
            } else {
                self.count_returned(pfn, file);
                self.put_back(z, pfn, &mut back);
            }
        }
        let active = u64::from(back.active);
        self.count_put_back(z, back);
        active
    }

    /// Moves the tail of the task's isolated list `own_list` to the head of the list of zone `z`
    /// that `f`, the flags of its last page, name, as long as the pages belong there and have no
    /// waiters. Their order is that of putting them back one by one from the last. Adds them to the
    /// numbers in `back`.
    #[inline(always)]
    fn put_back_row(&self, z: usize, own_list: Pfn, mut f: u32, back: &mut PutBack) {
        let lru = Lru::of(f);
        let (frames, list) = (self.frames.table(), self.lru_list(z, lru));
        let last = frames.before(own_list);
        let (mut first, mut at, mut n) = (own_list, last, 0);
        self.lru_home(z).lru_lock.with(|| {
            debug_assert!(f & flag::LRU == 0);
            // A page whose flags another task changes meanwhile ends the row and is looked at
            // again.
            while frames.page(at).replace_flags(f, f | flag::LRU) {
                n += 1;
                (first, at) = (at, frames.before(at));
                if at == own_list {
                    break;
                }
                f = frames.page(at).flags();
                if f & flag::WAITERS != 0 || Lru::of(f) != lru {
                    break;
                }
            }
            if n > 0 {
                frames.join(at, own_list);
                frames.join(last, frames.first(list));
                frames.join(list, first);
            }
        });
        back.uncounted[lru as usize] += n;
        back.active += if lru.is_active() { n } else { 0 };
    }
}
