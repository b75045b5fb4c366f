//! Mapped memory: page tables of anonymous and file mappings, faults, reverse maps
//! (docs/reference/memory-model.md#page-states, docs/reference/writeback.md#mapped-faults and
//! docs/reference/writeback.md#swap).
//!
//! A region is one mapping of one process: an array of page-table entries. An entry is 0 (never
//! touched, or unmapped), `pfn << 3 | bits` with `PRESENT`, or `(slot + 1) << 3` (swapped out).
//! Entries of anonymous pages are found by the page's own region and index; those of file pages by
//! walking the regions of the file.
//!
//! A store through an entry that is not writable faults; in a shared mapping of a file this fault
//! dirties the page. Clearing the page's dirty bit for I/O makes its entries read-only again. So a
//! writable entry implies that its page is dirty, and unmapping has no dirty state to transfer.

use super::swap_readahead::Window;
use crate::cache::mapping::MappingKind;
use crate::memory::frame::{ZoneRun, flag};
use crate::memory::gfp::Gfp;
use crate::memory::group::GroupEvent;
use crate::memory::zone::Lru;
use crate::policy::MappedReadahead;
use crate::watch::vmstat::{VmEvent, ZoneStat};
use crate::world::event::TrackPath;
use crate::world::{Cost, ReadAround, ShortLock, Touched, Word32, World};
use crate::{Mm, Pfn};
use std::sync::OnceLock;

/// Entry bit: it maps a page.
pub(super) const PRESENT: u32 = 1;
/// Entry bit: accessed.
pub(super) const YOUNG: u32 = 2;
/// Entry bit: stores do not fault.
pub(super) const WRITE: u32 = 4;
/// Shift of the frame or slot number.
pub(super) const SHIFT: u32 = 3;
/// Excess of misses over hits above which a mapping's faults read nothing but their own pages
/// (linux mm/filemap.c, `MMAP_LOTSAMISS`).
const LOTS_OF_MISSES: u32 = 100;
/// The largest number of misses that is counted.
const MOST_MISSES: u32 = 10 * LOTS_OF_MISSES;
/// The largest number of regions at a time, including ended ones whose length no new region has.
pub const MAX_REGIONS: usize = 16_384;
/// Entries that `free_region` prefetches for ahead of the one that it frees.
const FORESEEN: usize = 16;
/// Entries of one page of a page table.
pub(super) const ENTRIES_OF_TABLE: usize = 512;
/// The largest number of frames that entries can name: 2 TiB.
pub const MAX_FRAMES: u32 = 1 << (32 - SHIFT);

/// The memory that a region maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backing {
    /// Private memory, initially zeroes.
    Anon,
    /// A file from a page index on; stores reach the file.
    Shared {
        /// The file.
        mapping: u32,
        /// The file's page at the region's beginning.
        first: u32,
    },
    /// A file from a page index on; a store makes a private copy of its page.
    Private {
        /// The file.
        mapping: u32,
        /// The file's page at the region's beginning.
        first: u32,
    },
}

/// A program's advice on its accesses to a mapping (madvise(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum Advice {
    /// No advice.
    #[default]
    Normal,
    /// Accesses will be in order.
    Sequential,
    /// Accesses will be random, so reading around is of no use.
    Random,
}

/// The memory of a process, or of one of its regions, in pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// Mapped addresses (`total_vm`).
    pub mapped: u64,
    /// Anonymous pages.
    pub anon: u64,
    /// Pages of files.
    pub file: u64,
    /// Pages in the swap area.
    pub swapped: u64,
    /// Pages of page tables (`nr_ptes`).
    pub tables: u64,
}

impl Held {
    /// Returns the number of pages in memory or in the swap area.
    fn present(&self) -> u64 {
        self.anon + self.file + self.swapped
    }

    /// Adds the pages of another region of the process.
    pub(crate) fn add(&mut self, other: Self) {
        self.mapped += other.mapped;
        self.anon += other.anon;
        self.file += other.file;
        self.swapped += other.swapped;
        self.tables += other.tables;
    }
}

/// One mapping of one process.
pub(super) struct Region<W: World> {
    pub(super) ptes: Box<[W::U32]>,
    /// The page of page table for each 512 entries, plus 1; 0: none yet. Empty if tables take no
    /// memory.
    pub(super) tables: Box<[W::U32]>,
    /// 0 ended, 1 anonymous, 2 shared, 3 private.
    kind: W::U32,
    mapping: W::U32,
    pub(super) first: W::U32,
    advice: W::U32,
    /// The region's page of the last fault, plus 1.
    last_fault: W::U32,
    /// Faults that missed the page cache less those that did not, from 0 to [`MOST_MISSES`]. The
    /// kernel counts by open file (`mmap_miss`), each of which is mapped once here.
    misses: W::U32,
    /// The next region of the same file, plus 1.
    pub(super) next: W::U32,
    /// The process that owns the region; 0: none that may be killed.
    owner: W::U32,
    /// The last swap read-ahead of the region (`swap_readahead`).
    pub(super) swap_window: Window<W>,
}

impl<W: World> Region<W> {
    /// Returns what the region maps: anonymous memory, or a file, shared or private, from a page
    /// on; `None` if the region is no longer mapped.
    pub(super) fn backing(&self) -> Option<Backing> {
        let (mapping, first) = (self.mapping.get(), self.first.get());
        match self.kind.get() {
            1 => Some(Backing::Anon),
            2 => Some(Backing::Shared { mapping, first }),
            3 => Some(Backing::Private { mapping, first }),
            _ => None,
        }
    }

    /// Notes that a fault found the file's page `index` cached (`do_async_mmap_readahead`): the
    /// excess of misses falls by one. Returns false if the program's advice rules out read-ahead.
    pub(super) fn found(&self, index: u32) -> bool {
        self.last_fault.set(index + 1);
        let ahead = self.advice.get() != Advice::Random as u32;
        if ahead {
            self.misses.set(self.misses.get().saturating_sub(1));
        }
        ahead
    }

    /// Notes that a fault missed the file's page `index`, under the kernel's rule `rule`. Returns
    /// which pages to read beside it (`do_sync_mmap_readahead`): none after too many misses.
    pub(super) fn missed(&self, index: u32, rule: MappedReadahead) -> ReadAround {
        let by_previous = rule == MappedReadahead::PreviousFault;
        // `last_fault` is the page of the last fault plus 1, so equality means the page after it.
        let in_order = by_previous && self.last_fault.get() == index;
        self.last_fault.set(index + 1);
        let advice = self.advice.get();
        if advice == Advice::Random as u32 {
            return ReadAround::None;
        }
        if in_order || advice == Advice::Sequential as u32 {
            return ReadAround::Ahead { in_order };
        }
        let misses = (self.misses.get() + 1).min(MOST_MISSES);
        self.misses.set(misses);
        if misses > LOTS_OF_MISSES {
            ReadAround::None
        } else if by_previous {
            ReadAround::Around
        } else {
            ReadAround::Marked
        }
    }
}

/// The regions of the machine; they take no memory until there is one.
pub(crate) struct Regions<W: World> {
    slots: OnceLock<Box<[OnceLock<Region<W>>]>>,
    used: W::U32,
    lock: W::Lock,
}

impl<W: World> Regions<W> {
    /// Makes the table of regions, without a region and without memory for any.
    pub fn new() -> Self {
        Self {
            slots: OnceLock::new(),
            used: bytemuck::Zeroable::zeroed(),
            lock: W::Lock::default(),
        }
    }

    /// Returns a region, which must have been made.
    pub(super) fn region(&self, id: u32) -> &Region<W> {
        self.slot(id)
            .and_then(OnceLock::get)
            .expect("an open region")
    }

    /// Returns the place of a region in the table; `None` beyond the table, or before any was made.
    fn slot(&self, id: u32) -> Option<&OnceLock<Region<W>>> {
        self.slots.get()?.get(id as usize)
    }
}

impl<W: World> Mm<W> {
    /// Returns the page-table entry of page `index` of a region.
    #[inline(always)]
    pub(crate) fn pte(&self, region: u32, index: u32) -> &W::U32 {
        &self.regions.region(region).ptes[index as usize]
    }

    /// Makes a region of `pages` untouched pages, as mmap(2) does, and returns its number; `None`
    /// if too many exist. An ended region of the same length is reused. If the host has no memory
    /// for its page table, unwinds with [`heap::NoMemory`].
    pub fn new_region(&self, backing: Backing, pages: u32, advice: Advice) -> Option<u32> {
        let rs = &self.regions;
        rs.lock.with(|| {
            let used = rs.used.get();
            // Kind 0: the region has ended.
            let fits = |&id: &u32| {
                let r = rs.region(id);
                r.kind.get() == 0 && r.ptes.len() == pages as usize
            };
            let id = (0..used).find(fits).or_else(|| {
                let room = (used as usize) < MAX_REGIONS;
                room.then(|| {
                    let all = || (0..MAX_REGIONS).map(|_| OnceLock::new()).collect();
                    let made = rs.slots.get_or_init(all)[used as usize].set(Region {
                        ptes: heap::zeroed("a mapping's page table", pages as usize)
                            .unwrap_or_else(|e| e.raise()),
                        tables: heap::zeroed("a mapping's page table", self.tables_of(pages))
                            .unwrap_or_else(|e| e.raise()),
                        kind: bytemuck::Zeroable::zeroed(),
                        mapping: bytemuck::Zeroable::zeroed(),
                        first: bytemuck::Zeroable::zeroed(),
                        advice: bytemuck::Zeroable::zeroed(),
                        last_fault: bytemuck::Zeroable::zeroed(),
                        misses: bytemuck::Zeroable::zeroed(),
                        next: bytemuck::Zeroable::zeroed(),
                        owner: bytemuck::Zeroable::zeroed(),
                        swap_window: Window::new(),
                    });
                    assert!(made.is_ok(), "region {used} exists");
                    rs.used.set(used + 1);
                    used
                })
            })?;
            let r = rs.region(id);
            let (kind, file) = match backing {
                Backing::Anon => (1, None),
                Backing::Shared { mapping, first } => (2, Some((mapping, first))),
                Backing::Private { mapping, first } => (3, Some((mapping, first))),
            };
            r.kind.set(kind);
            r.advice.set(advice as u32);
            r.last_fault.set(0);
            r.misses.set(0);
            r.swap_window.forget();
            r.owner.set(self.current_process().unwrap_or(0));
            if let Some((mapping, first)) = file {
                r.mapping.set(mapping);
                r.first.set(first);
                // Puts the region first on the file's list of regions (numbers plus 1).
                let head = &self.mappings[mapping as usize].regions;
                r.next.set(head.get());
                head.set(id + 1);
            }
            Some(id)
        })
    }

    /// Frees a whole region, as munmap(2) does. Anonymous pages are freed; those that reclaim or
    /// swap hold at the moment are left without an entry, and reclaim frees them. File pages with
    /// the accessed bit are marked accessed.
    pub fn free_region(&self, region: u32) {
        let r = self.regions.region(region);
        let backing = r.backing().expect("an open region");
        let frames = self.frames.table();
        let mut unmapped = ZoneRun::default();
        let count = |z, n| self.count_file_unmapped(z, n);
        for (index, pte) in r.ptes.iter().enumerate() {
            let v = pte.get();
            if index % FORESEEN == 0 {
                // Prefetch the frames of the next pages and their neighbours on their lists. Pages
                // of old memory lie all over the frame table, so misses in the processor's caches
                // should overlap.
                let mut next = r.ptes[index..].iter().take(2 * FORESEEN).map(Word32::get);
                for v in next.by_ref().take(FORESEEN).filter(|v| v & PRESENT != 0) {
                    let page = frames.page(v >> SHIFT);
                    frames.prefetch(page.before());
                    frames.prefetch(page.after());
                }
                for v in next.filter(|v| v & PRESENT != 0) {
                    frames.prefetch(v >> SHIFT);
                }
            }
            if v & PRESENT != 0 {
                let pfn = v >> SHIFT;
                pte.set(0);
                if self.frames.has(pfn, flag::ANON) {
                    debug_assert!(self.frames.index(pfn) == index as u32);
                    self.frames.set_mapcount(pfn, 0);
                    self.free_unmapped_anon(pfn);
                } else {
                    if self.unmap_file(pfn) {
                        unmapped.page(self.frames.zone(pfn), count);
                    }
                    if v & YOUNG != 0 {
                        self.mark_page_accessed(pfn, TrackPath::Fault);
                    }
                }
            } else if v != 0 {
                pte.set(0);
                self.swap_forget((v >> SHIFT) - 1);
            }
        }
        unmapped.end(count);
        if let Backing::Shared { mapping, .. } | Backing::Private { mapping, .. } = backing {
            self.regions.lock.with(|| {
                let mut at = &self.mappings[mapping as usize].regions;
                while at.get() != region + 1 {
                    at = &self.regions.region(at.get() - 1).next;
                }
                at.set(r.next.get());
            });
        }
        self.free_tables(&r.tables);
        r.kind.set(0);
    }

    /// Calls `f` for every region that a process owns, with the owner's number and the region's
    /// memory, counted from its entries: mapped, anonymous, file and swapped pages, and page
    /// tables.
    pub(crate) fn for_each_owned(&self, mut f: impl FnMut(u32, Held)) {
        for id in 0..self.regions.used.get() {
            let r = self.regions.region(id);
            let owner = r.owner.get();
            if r.kind.get() == 0 || owner == 0 {
                continue;
            }
            let mut held = Held {
                mapped: r.ptes.len() as u64,
                ..Held::default()
            };
            for table in r.ptes.chunks(ENTRIES_OF_TABLE) {
                let before = held.present();
                for v in table.iter().map(Word32::get).filter(|v| *v != 0) {
                    match v & PRESENT {
                        0 => held.swapped += 1,
                        _ if self.frames.has(v >> SHIFT, flag::ANON) => held.anon += 1,
                        _ => held.file += 1,
                    }
                }
                held.tables += u64::from(held.present() > before);
            }
            f(owner, held);
        }
    }

    /// Frees an anonymous page that no entry names any more, with its swap slot, unless it is in
    /// use. A page locked for reading or writing is kept with its slot (Linux `free_swap_cache`);
    /// reclaim frees it.
    pub(crate) fn free_unmapped_anon(&self, pfn: Pfn) {
        if self.frames.has(pfn, flag::LOCKED) {
            return;
        }
        if self.frames.has(pfn, flag::SWAPCACHE) {
            self.try_to_free_swap(pfn);
        }
        if self.frames.any(pfn, flag::SWAPCACHE | flag::WRITEBACK) {
            return;
        }
        if self.try_delete_from_lru(pfn) {
            self.forget_anon(pfn);
            self.free_page(pfn, false);
        }
    }

    /// Takes an unmapped anonymous page out of its region for good: clears its flags and takes it
    /// off the zone's count. The caller frees it.
    pub(crate) fn forget_anon(&self, pfn: Pfn) {
        debug_assert!(self.frames.mapcount(pfn) == 0);
        let before = self.frames.clear_flags(pfn, flag::ANON | flag::DIRTY);
        debug_assert!(before & (flag::ANON | flag::SWAPCACHE) == flag::ANON);
        let z = self.frames.zone(pfn);
        self.stat.dec(self.world.cpu(), z, ZoneStat::NrAnonPages);
    }

    /// Makes a program's load from, or store to (`write`), page `index` of a region, handling
    /// faults until the entry allows the access. Returns how the access ended.
    pub async fn touch(&self, region: u32, index: u32, write: bool) -> Touched {
        while !self.touch_mapped(region, index, write) {
            let done = self.handle_mm_fault(region, index, write).await;
            if done != Touched::Ok {
                return done;
            }
        }
        Touched::Ok
    }

    /// Handles a fault at page `index` of a region: allocates the page of page table if it is
    /// missing, then does one step towards an entry that allows the access, by the kind of memory.
    /// After `Touched::Ok` the caller tries the access again.
    async fn handle_mm_fault(&self, region: u32, index: u32, write: bool) -> Touched {
        self.world.charge(Cost::Fault, 1);
        self.stat.event(VmEvent::PgFault, 1);
        self.count_of_task(GroupEvent::PgFault, 1);
        // An entry is 0, `pfn << SHIFT` with `PRESENT`, or a swap slot plus 1, shifted.
        let v = self.pte(region, index).get();
        let r = self.regions.region(region);
        if let Some(table) = r.missing_table(index)
            && !self.pte_alloc(table).await
        {
            return Touched::OutOfMemory;
        }
        let backing = r.backing();
        let done = match (backing.expect("an open region"), v) {
            (Backing::Anon, 0) => self.do_anonymous_page(region, index).await,
            (Backing::Shared { mapping, first }, 0) => {
                let place = (mapping, first + index);
                self.do_file_fault(region, index, place, write, true).await
            }
            (Backing::Private { mapping, first }, 0) => {
                let place = (mapping, first + index);
                self.do_file_fault(region, index, place, write, false).await
            }
            (_, v) if v & PRESENT == 0 => {
                if self.swap_in(region, index, (v >> SHIFT) - 1, write).await {
                    Touched::Ok
                } else {
                    Touched::OutOfMemory
                }
            }
            (backing, v) => self.do_wp_page(region, index, backing, v >> SHIFT).await,
        };
        self.world.relax().await;
        done
    }

    /// Handles the first touch of a page of anonymous memory, which gets a fresh page.
    async fn do_anonymous_page(&self, region: u32, index: u32) -> Touched {
        let Some(pfn) = self.alloc_page(self.bound(Gfp::USER)).await else {
            return Touched::OutOfMemory;
        };
        self.enter_anon_page(pfn, region, index);
        Touched::Ok
    }

    /// Enters a fresh page into an empty entry of anonymous memory, or frees it if another task has
    /// filled the entry.
    pub(super) fn enter_anon_page(&self, pfn: Pfn, region: u32, index: u32) {
        if self.pte(region, index).get() == 0 {
            self.new_anon_page(pfn, region, index);
        } else {
            self.free_page(pfn, false);
        }
    }

    /// Makes a fresh page the anonymous page of an entry: counts it, maps it writable and adds it
    /// to an LRU list (the inactive one since 5.9, `workingset_anon`).
    pub(super) fn new_anon_page(&self, pfn: Pfn, region: u32, index: u32) {
        self.frames
            .set_flags(pfn, flag::ANON | flag::SWAPBACKED | flag::UPTODATE);
        self.stat.inc(
            self.world.cpu(),
            self.frames.zone(pfn),
            ZoneStat::NrAnonPages,
        );
        self.map_anon(pfn, region, index, true);
        let lru = match self.policy.workingset_anon {
            true => Lru::InactiveAnon,
            false => Lru::ActiveAnon,
        };
        self.lru_cache_add(pfn, lru);
    }

    /// Makes page `index` of a region map the anonymous page `pfn`, writable or not, and records
    /// the place in the page.
    pub(crate) fn map_anon(&self, pfn: Pfn, region: u32, index: u32, write: bool) {
        self.frames.set_mapping(pfn, region, index);
        self.frames.set_mapcount(pfn, 1);
        let bits = PRESENT | YOUNG | if write { WRITE } else { 0 };
        self.pte(region, index).set(pfn << SHIFT | bits);
    }

    /// Handles a store to page `index` of a region that is a shared mapping of page `at` of the
    /// file `mapping`; the filesystem may refuse. Makes the page dirty and the entry writable, and
    /// throttles the task at the dirty limits. `first`: the fault has not started over. After
    /// `Touched::Ok` the store is tried again.
    pub(super) async fn page_mkwrite(
        &self,
        region: u32,
        index: u32,
        (mapping, at): (u32, u32),
        first: bool,
    ) -> Touched {
        if !self.world.page_mkwrite(self, mapping, at).await {
            return Touched::BusError;
        }
        // The page may have been freed while the filesystem made room; the store then faults again.
        let Some(pfn) = self.find_page(mapping, at) else {
            return Touched::Ok;
        };
        if self.frames.has(pfn, flag::LOCKED) {
            self.wait_on_page_locked(pfn).await;
            return Touched::Ok;
        }
        let pte = self.pte(region, index);
        if pte.get() == 0 {
            self.page_add_file_rmap(pfn);
        } else if pte.get() >> SHIFT != pfn {
            return Touched::Ok;
        }
        pte.set(pfn << SHIFT | PRESENT | YOUNG | WRITE);
        self.set_page_dirty(pfn, TrackPath::Fault);
        if first {
            self.world.charge(Cost::MkWrite, 1);
        }
        // A region never reaches beyond its file, and the store itself follows before another task
        // runs.
        if self.note_dirtied(mapping) {
            self.balance_now(mapping).await;
        }
        Touched::Ok
    }

    /// Handles a store through an entry that maps the frame `pfn` read-only: an anonymous page
    /// becomes writable, a page of a shared file mapping dirty; one of a private mapping is copied.
    async fn do_wp_page(&self, region: u32, index: u32, backing: Backing, pfn: Pfn) -> Touched {
        if self.frames.has(pfn, flag::ANON) {
            // The page was swapped in by a read. The slot's copy is stale from now on.
            self.reuse_swap_page(pfn);
            let pte = self.pte(region, index);
            pte.set(pte.get() | WRITE | YOUNG);
            return Touched::Ok;
        }
        match backing {
            Backing::Shared { mapping, first } => {
                self.page_mkwrite(region, index, (mapping, first + index), true)
                    .await
            }
            Backing::Private { mapping, first } => {
                self.copy_page(region, index, (mapping, first + index))
                    .await
            }
            Backing::Anon => unreachable!("a file page in anonymous memory"),
        }
    }

    /// Copies a file's page on write: page `index` of the region gets an anonymous page of its own.
    /// `place`: the file and the page's index in it. After `Touched::Ok` the store is tried again.
    pub(super) async fn copy_page(&self, region: u32, index: u32, place: (u32, u32)) -> Touched {
        let Some(new) = self.alloc_page(self.bound(Gfp::USER)).await else {
            return Touched::OutOfMemory;
        };
        let pte = self.pte(region, index);
        let v = pte.get();
        let old = if v & PRESENT != 0 {
            Some(v >> SHIFT)
        } else {
            self.find_page(place.0, place.1)
        };
        let usable = old.filter(|&pfn| {
            !self.frames.has(pfn, flag::ANON)
                && self.frames.has(pfn, flag::UPTODATE)
                && !self.frames.has(pfn, flag::LOCKED)
        });
        if usable.is_none() || (v & PRESENT == 0 && v != 0) {
            // The entry or page changed while the task waited for memory: the store faults again.
            self.free_page(new, false);
            return Touched::Ok;
        }
        self.world.charge(Cost::Copy, 1);
        if v & PRESENT != 0 {
            pte.set(0);
            self.page_remove_rmap(v >> SHIFT);
        }
        self.new_anon_page(new, region, index);
        Touched::Ok
    }

    /// Counts `n` file pages of a zone that got their first entry.
    pub(super) fn count_file_mapped(&self, z: usize, n: u32) {
        let cpu = self.world.cpu();
        self.stat.on(cpu, z).inc_by(ZoneStat::NrFileMapped, n);
    }

    /// Counts `n` file pages of a zone that lost their last entry.
    fn count_file_unmapped(&self, z: usize, n: u32) {
        let cpu = self.world.cpu();
        self.stat.on(cpu, z).dec_by(ZoneStat::NrFileMapped, n);
    }

    /// Counts one more entry that maps a file's page, and a newly mapped page in its zone.
    pub(super) fn page_add_file_rmap(&self, pfn: Pfn) {
        let n = self.frames.mapcount(pfn);
        self.frames.set_mapcount(pfn, n + 1);
        if n == 0 {
            self.count_file_mapped(self.frames.zone(pfn), 1);
        }
    }

    /// Counts an entry of a file's page off. Returns true if it was the last one.
    #[inline(always)]
    fn unmap_file(&self, pfn: Pfn) -> bool {
        let page = self.frames.page(pfn);
        let n = page.mapcount();
        assert!(n > 0, "frame {pfn} is not mapped");
        page.set_mapcount(n - 1);
        n == 1
    }

    /// Takes one mapping entry off the count of a file's page, and, after the last one, the page
    /// off its zone's count of mapped pages.
    fn page_remove_rmap(&self, pfn: Pfn) {
        if self.unmap_file(pfn) {
            self.count_file_unmapped(self.frames.zone(pfn), 1);
        }
    }

    /// Calls `f` with every page-table entry that maps a page: the one of an anonymous page, or
    /// those in all regions of the page's file.
    fn for_each_pte(&self, pfn: Pfn, mut f: impl FnMut(&W::U32)) {
        if self.frames.has(pfn, flag::ANON) {
            f(self.pte(self.frames.mapping(pfn), self.frames.index(pfn)));
            return;
        }
        let (mapping, index) = (self.frames.mapping(pfn), self.frames.index(pfn));
        let mut at = self.mappings[mapping as usize].regions.get();
        while at != 0 {
            let r = self.regions.region(at - 1);
            let pte = index
                .checked_sub(r.first.get())
                .and_then(|i| r.ptes.get(i as usize));
            if let Some(pte) = pte
                && pte.get() & PRESENT != 0
                && pte.get() >> SHIFT == pfn
            {
                f(pte);
            }
            at = r.next.get();
        }
    }

    /// Clears the accessed bits of all entries that map a page, for reclaim; returns how many were
    /// set (`page_referenced`).
    #[inline(never)]
    pub(crate) fn take_young(&self, pfn: Pfn) -> u32 {
        let mut young = 0;
        self.for_each_pte(pfn, |pte| {
            young += u32::from(pte.fetch_and(!YOUNG) & YOUNG != 0);
        });
        young
    }

    /// Makes every entry that maps a page read-only because its dirty bit is being cleared
    /// (`page_mkclean`), so that the next store faults.
    #[inline(never)]
    pub(crate) fn page_mkclean(&self, pfn: Pfn) {
        self.for_each_pte(pfn, |pte| {
            pte.fetch_and(!WRITE);
        });
    }

    /// Makes every entry that maps the frame `from` map the frame `to`, for migration, with the
    /// same bits.
    pub(crate) fn map_elsewhere(&self, from: Pfn, to: Pfn) {
        if self.frames.mapcount(from) > 0 {
            self.for_each_pte(from, |pte| {
                let bits = pte.get() & ((1 << SHIFT) - 1);
                pte.set(to << SHIFT | bits);
            });
        }
    }

    /// Removes every entry that maps a page, for reclaim; that of an anonymous page then names its
    /// swap slot.
    pub(crate) fn try_to_unmap(&self, pfn: Pfn) {
        self.world.charge(Cost::Unmap, self.frames.mapcount(pfn));
        if self.frames.has(pfn, flag::ANON) {
            let slot = self.frames.private(pfn);
            debug_assert!(self.frames.has(pfn, flag::SWAPCACHE));
            self.for_each_pte(pfn, |pte| {
                debug_assert!(pte.get() >> SHIFT == pfn);
                pte.set((slot + 1) << SHIFT);
                self.swap_duplicate(slot);
            });
            self.frames.set_mapcount(pfn, 0);
        } else {
            self.for_each_pte(pfn, |pte| {
                pte.set(0);
                self.page_remove_rmap(pfn);
            });
        }
        debug_assert!(self.frames.mapcount(pfn) == 0);
    }

    /// Checks that the page-table entry of an anonymous page maps it, and that it is mapped once.
    pub(crate) fn check_mapped(&self, pfn: Pfn) -> Result<(), String> {
        let page = self.frames.page(pfn);
        let mapped = page.mapcount() & 0xffff;
        if !page.has(flag::ANON) || mapped == 0 {
            return Ok(());
        }
        let (region, index) = (page.mapping(), page.index());
        let region_slot = self.regions.slot(region);
        let entry = region_slot
            .and_then(|r| r.get())
            .and_then(|r| r.ptes.get(index as usize));
        let there = entry.map(Word32::get).filter(|v| v & PRESENT != 0);
        match there.map(|v| v >> SHIFT) == Some(pfn) && mapped == 1 {
            true => Ok(()),
            false => Err(format!(
                "frame {pfn} is mapped {mapped} times, and entry {index} of region {region} is {there:?}"
            )),
        }
    }

    /// Recounts page-table entries: how many map each frame (in `maps`, compared with the frames'
    /// counts), and how many name each swap slot (added to `named`). Returns a text about the first
    /// error.
    pub(crate) fn check_regions(
        &self,
        maps: &mut Vec<u32>,
        named: &mut [u32],
    ) -> Result<(), String> {
        maps.clear();
        maps.resize(self.frames.len() as usize, 0);
        for id in 0..self.regions.used.get() {
            let r = self.regions.region(id);
            let backing = r.backing();
            for (index, v) in r.ptes.iter().map(Word32::get).enumerate() {
                if v == 0 {
                    continue;
                }
                let wrong = |what: &str| Err(format!("entry {index} of region {id} {what}"));
                if backing.is_none() {
                    return wrong("is set in an ended region");
                }
                if v & PRESENT == 0 {
                    let Some(n) = named.get_mut((v >> SHIFT) as usize - 1) else {
                        return wrong("names no swap slot");
                    };
                    *n += 1;
                    continue;
                }
                let pfn = v >> SHIFT;
                let Some(n) = maps.get_mut(pfn as usize) else {
                    return wrong("names no frame");
                };
                *n += 1;
                let f = self.frames.flags(pfn);
                let place = (self.frames.mapping(pfn), self.frames.index(pfn));
                let right = if f & flag::ANON != 0 {
                    place == (id, index as u32) && !matches!(backing, Some(Backing::Shared { .. }))
                } else {
                    let at = r.first.get() + index as u32;
                    f & flag::CACHED != 0 && place == (r.mapping.get(), at)
                };
                if !right {
                    return wrong("maps a page of another place");
                }
                let dirty = f & (flag::DIRTY | flag::ANON) != 0
                    || self.mappings[place.0 as usize].kind() == MappingKind::WriteThrough;
                if v & WRITE != 0 && !dirty {
                    return wrong("lets a clean page be written");
                }
            }
        }
        let counted = |(pfn, &n): (usize, &u32)| self.frames.mapcount(pfn as Pfn) != n;
        match maps.iter().enumerate().find(|&m| counted(m)) {
            // A free frame keeps its last count.
            Some((pfn, n)) if self.frames.any(pfn as Pfn, flag::CACHED | flag::ANON) => Err(
                format!("frame {pfn} is mapped {n} times, counted otherwise"),
            ),
            _ => Ok(()),
        }
    }
}
