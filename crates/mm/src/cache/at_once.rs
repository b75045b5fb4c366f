//! The parts of a program's access to mapped memory that need no waiting: accesses that page-table
//! entries allow, and first stores to cached pages. The steps are those of `mmap.rs`, which does
//! the rest. Also operations on the entries of neighbouring pages.

use super::mapping::{I_DIRTY_PAGES, Mapping};
use super::mmap::{Backing, PRESENT, Region, SHIFT, WRITE, YOUNG};
use super::tables::left_of_table;
use super::tree::{Tag, page_in};
use crate::Mm;
use crate::memory::frame::{ZoneRun, flag, zone_of};
use crate::memory::gfp::Gfp;
use crate::memory::group::GroupEvent;
use crate::watch::vmstat::VmEvent;
use crate::world::event::{Event, TrackPath};
use crate::world::{Audience, Cost, ShortLock, Word32, World};

/// The result of [`Mm::store_at_once`].
#[derive(Debug, Clone, Copy)]
pub struct AtOnce {
    /// The number of stores made, at least one. Before the last one's page is touched again, other
    /// tasks may have cleaned it.
    pub pages: u32,
    /// The file for which [`Mm::balance_now`] must be called; `None`: not needed.
    pub look: Option<u32>,
}

/// The result of [`Mm::anon_at_once`].
#[derive(Debug, Clone, Copy)]
pub struct AnonAtOnce {
    /// The number of entries that got a page.
    pub pages: u32,
    /// The time (ns) at which the allocation of the next entry's page began, which
    /// [`Mm::anon_rest`] must continue; `None`: there is none.
    pub rest: Option<u64>,
}

impl<W: World> Mm<W> {
    /// Makes a program's access to page `index` of a region if its page-table entry is present and,
    /// for a store (`write`), writable; sets the entry's accessed bit. Returns false if the access
    /// faults.
    #[inline(always)]
    pub fn touch_mapped(&self, region: u32, index: u32, write: bool) -> bool {
        self.touch_mapped_run(region, index, 1, write) == 1
    }

    /// Does [`Mm::touch_mapped`] for up to `most` consecutive pages from page `first` of a region
    /// on: sets the accessed bit of each entry that is present and, with `write`, writable. Returns
    /// the number of entries before the first that does not allow the access; `most` if all do.
    #[inline(always)]
    pub fn touch_mapped_run(&self, region: u32, first: u32, most: u32, write: bool) -> u32 {
        let r = self.regions.region(region);
        debug_assert!(r.backing().is_some(), "region {region} has ended");
        let need = if write { PRESENT | WRITE } else { PRESENT };
        let ptes = &r.ptes[first as usize..(first + most) as usize];
        let mut n = 0;
        for pte in ptes {
            let v = pte.get();
            if v & need != need {
                break;
            }
            pte.set(v | YOUNG);
            n += 1;
        }
        n
    }

    /// Makes up to `most` stores to consecutive pages of a shared file mapping, from the region's
    /// page `index` on, as far as none has to wait: each is the first store to its page, or the
    /// first since the page was cleaned, and the page must be cached, up to date, clean and not
    /// locked. After each store but the last the task has relaxed; after the last the caller checks
    /// the dirty limits of the file `look` if there is one, and relaxes. `None`: nothing was done,
    /// and the caller uses [`Mm::touch`].
    ///
    /// For worlds in which no other task runs between two waits. The counters of all pages are
    /// changed at once, as no task runs meanwhile that could see the difference.
    #[inline(never)]
    pub fn store_at_once(&self, region: u32, index: u32, most: u32) -> Option<AtOnce> {
        let r = self.regions.region(region);
        debug_assert!(
            most > 0 && (index + most) as usize <= r.ptes.len(),
            "{most} pages from {index} on of region {region}"
        );
        let Some(Backing::Shared { mapping, first }) = r.backing() else {
            return None;
        };
        // A fault would have to allocate the page of page table for this entry.
        if r.missing_table(index).is_some() {
            return None;
        }
        let (m, at) = (&self.mappings[mapping as usize], first + index);
        let leaf = m.tree_lock.with(|| self.leaf_at(m, at))?;
        let most = self.stores_together(m, most.min(left_of_table(index)));
        // `most`: pages that the filesystem lets become writable without a wait.
        let most = self.world.page_mkwrite_at_once(self, mapping, at, most);
        let slots = leaf.slots(most);
        let ptes = &r.ptes[index as usize..index as usize + slots.len()];
        let n = self.dirty_entries(r, m, at, ptes, slots);
        if n == 0 {
            return None;
        }
        m.tree_lock.with(|| leaf.set_tags(Tag::Dirty, n));
        // Passes the time of all stores but the last; that of the last is charged below.
        self.world.take_steps(self.price_of_store(), n - 1);
        self.world.charge(Cost::Fault, 1);
        self.world.charge(Cost::MkWrite, 1);
        self.stat.event(VmEvent::PgFault, u64::from(n));
        self.count_of_task(GroupEvent::PgFault, u64::from(n));
        self.buffers_written(m, leaf.node, at, n);
        self.mark_inode_dirty(m, mapping);
        self.note_path(TrackPath::Fault);
        let traced = self.tracker.is_some() || self.traced();
        let reported = if traced { n as usize } else { 0 };
        for pfn in slots[..reported].iter().filter_map(|s| page_in(s.get())) {
            self.track_dirtied(pfn);
            self.emit(Audience::Traces, || Event::PageDirtied {
                pfn,
                bdi: m.bdi(),
                mapping,
                index: at,
            });
        }
        self.world.charge(Cost::PageDirty, 1);
        Some(AtOnce {
            pages: n,
            look: self.note_dirtied_run(m, n).then_some(mapping),
        })
    }

    /// Makes first touches of up to `most` consecutive pages of anonymous memory, from page `first`
    /// of a region on, that need no waiting: each allocates a page and maps it. Stops before an
    /// entry that is in use or has no page table yet. After each page but the last the task has
    /// relaxed; after the last the caller relaxes, and touches that page again. `None`: nothing was
    /// done, and the caller uses [`Mm::touch`].
    #[inline(never)]
    pub fn anon_at_once(&self, region: u32, first: u32, most: u32) -> Option<AnonAtOnce> {
        let r = self.regions.region(region);
        debug_assert!(
            most > 0 && (first + most) as usize <= r.ptes.len(),
            "{most} pages from {first} on of region {region}"
        );
        if r.backing() != Some(Backing::Anon) {
            return None;
        }
        let mut pages = 0;
        while pages < most {
            let index = first + pages;
            if r.ptes[index as usize].get() != 0 || r.missing_table(index).is_some() {
                break;
            }
            if pages > 0 && !self.world.goes_on() {
                break;
            }
            self.world.charge(Cost::Fault, 1);
            self.stat.event(VmEvent::PgFault, 1);
            self.count_of_task(GroupEvent::PgFault, 1);
            // `Err`: the allocation would have to wait; it began at `start`.
            match self.alloc_page_at_once(self.bound(Gfp::USER)) {
                Ok(pfn) => self.new_anon_page(pfn, region, index),
                Err(start) => {
                    let rest = Some(start);
                    return Some(AnonAtOnce { pages, rest });
                }
            }
            pages += 1;
        }
        (pages > 0).then_some(AnonAtOnce { pages, rest: None })
    }

    /// Ends the first touch of page `index` of an anonymous region whose allocation began at
    /// `start`, in ns (`AnonAtOnce::rest`). Returns false if no memory could be had; otherwise the
    /// page is mapped, and the caller relaxes and touches it again.
    pub async fn anon_rest(&self, region: u32, index: u32, start: u64) -> bool {
        debug_assert!(start <= self.world.now(), "it began at {start} ns");
        let page = self.alloc_rest(self.bound(Gfp::USER), start).await;
        if let Some(pfn) = page {
            self.enter_anon_page(pfn, region, index);
        }
        page.is_some()
    }

    /// Does [`Self::page_mkclean`] for consecutive cached pages of a file from page `index` on:
    /// makes every page-table entry that maps one of them read-only. `slots`: the words of these
    /// pages in the file's tree.
    #[inline(never)]
    pub(crate) fn run_mkclean(&self, m: &Mapping<W>, index: u32, slots: &[W::U32]) {
        let (mut at, index) = (m.regions.get(), index as usize);
        // `at`: number of the next region that maps the file, plus 1; 0 after the last.
        while at != 0 {
            let r = self.regions.region(at - 1);
            let first = r.first.get() as usize;
            let from = index.max(first);
            let to = (index + slots.len()).min(first + r.ptes.len());
            if from < to {
                let ptes = &r.ptes[from - first..to - first];
                for (pte, slot) in ptes.iter().zip(&slots[from - index..]) {
                    // A tree slot holds the frame number plus 1, an entry the frame number itself.
                    let v = pte.get();
                    if v & (PRESENT | WRITE) == PRESENT | WRITE && (v >> SHIFT) + 1 == slot.get() {
                        pte.fetch_and(!WRITE);
                    }
                }
            }
            at = r.next.get();
        }
    }

    /// Returns how many of `most` stores to clean pages of a file can be made as one step, before
    /// another event may have to come between them; at least one. The first dirty page moves the
    /// inode to another list, a trace event needs its own time, a slab of buffer heads may have to
    /// be allocated, and the task may have to look at the dirty limits.
    #[inline(always)]
    fn stores_together(&self, m: &Mapping<W>, most: u32) -> u32 {
        if self.traced() || m.state.get() & I_DIRTY_PAGES == 0 {
            return 1;
        }
        let ns = self.price_of_store();
        // `behind`: stores after the first one.
        let behind = self.dirtied_ahead(m, ns, most - 1);
        let behind = behind.min(self.buffers_for(m, true).saturating_sub(1));
        1 + self.world.steps_ahead(ns, behind)
    }

    /// Returns the nanoseconds that a store to a clean page costs.
    #[inline(always)]
    fn price_of_store(&self) -> u64 {
        let w = &self.world;
        w.price(Cost::Fault) + w.price(Cost::MkWrite) + w.price(Cost::PageDirty)
    }

    /// Makes the page-table entries `ptes` of a region writable and the pages in the tree slots
    /// `slots` dirty, one by one, up to the first page that is dirty already or would have to wait
    /// (locked, not up to date, marked for read-ahead). Both slices begin at page `at` of the file
    /// `m`. Also counts the pages as dirty, and newly mapped ones as mapped, for zones and device.
    /// Returns how many pages were dirtied.
    #[inline(always)]
    fn dirty_entries(
        &self,
        r: &Region<W>,
        m: &Mapping<W>,
        at: u32,
        ptes: &[W::U32],
        slots: &[W::U32],
    ) -> u32 {
        let frames = self.frames.table();
        let (mut n, mut run, mut mapped) = (0, ZoneRun::default(), ZoneRun::default());
        let count = |z, n| self.account_dirtied(z, m, n);
        for (pte, slot) in ptes.iter().zip(slots) {
            let (v, Some(pfn)) = (pte.get(), page_in(slot.get())) else {
                break;
            };
            let page = frames.page(pfn);
            let before = page.flags();
            // The flags that are tested, the values that they must have, and the flags that are
            // cleared.
            let (among, wanted, gone) = if v & (PRESENT | WRITE) == PRESENT && v >> SHIFT == pfn {
                (flag::LOCKED | flag::DIRTY, 0, flag::RECLAIM)
            } else if v == 0 {
                let among = flag::LOCKED | flag::DIRTY | flag::READAHEAD | flag::UPTODATE;
                (among, flag::UPTODATE, flag::RECLAIM | flag::UNUSED)
            } else {
                break;
            };
            debug_assert!(page.index() == at + n, "frame {pfn} is at {}", page.index());
            if before & among != wanted || !page.replace_flags(before, before & !gone | flag::DIRTY)
            {
                break;
            }
            if v == 0 {
                r.found(at + n);
                let maps = page.mapcount();
                page.set_mapcount(maps + 1);
                if maps == 0 {
                    mapped.page(zone_of(before), |z, n| self.count_file_mapped(z, n));
                }
            }
            pte.set(pfn << SHIFT | PRESENT | YOUNG | WRITE);
            run.page(zone_of(before), count);
            n += 1;
        }
        run.end(count);
        mapped.end(|z, n| self.count_file_mapped(z, n));
        n
    }
}
