//! What a program's access to mapped memory does that nobody has to wait for: entries that allow it, and first stores
//! to pages that are cached. The steps are those of `mmap.rs`, which takes what is left.

use super::mmap::{Backing, PRESENT, SHIFT, WRITE, YOUNG};
use crate::Mm;
use crate::memory::frame::flag;
use crate::watch::vmstat::VmEvent;
use crate::world::event::TrackPath;
use crate::world::{Cost, Word32, World};

impl<W: World> Mm<W> {
    /// Whether an access finds its entry present and allowed; notes the access.
    #[inline(always)]
    pub fn touch_mapped(&self, region: u32, index: u32, write: bool) -> bool {
        debug_assert!(
            self.regions.region(region).backing().is_some(),
            "region {region} has ended"
        );
        let pte = self.pte(region, index);
        let v = pte.get();
        let need = if write { PRESENT | WRITE } else { PRESENT };
        if v & need != need {
            return false;
        }
        pte.set(v | YOUNG);
        true
    }

    /// [`Mm::touch_mapped`] of pages in a row: how many of at most `most` find their entries so. The next one does
    /// not, or lies behind them.
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

    /// A fault that nobody has to wait for: the first store, or the first since it was cleaned, to a page of a shared
    /// mapping that is cached, up to date and not locked. `None`: nothing was done, and [`Mm::touch`] is to be called. Else the file:
    /// the store may be made, but first [`Mm::balance_dirty_pages_ratelimited`] has to be called, and the task
    /// has to relax.
    ///
    /// For worlds in which no other task runs between two waits.
    #[inline]
    pub fn fault_at_once(&self, region: u32, index: u32, write: bool) -> Option<u32> {
        let r = self.regions.region(region);
        debug_assert!(
            (index as usize) < r.ptes.len(),
            "page {index} of region {region}"
        );
        let Some(Backing::Shared { mapping, first }) = r.backing() else {
            return None;
        };
        let (pte, at) = (&r.ptes[index as usize], first + index);
        let v = pte.get();
        if !write {
            return None;
        }
        if v & (PRESENT | WRITE) == PRESENT {
            return self.wp_at_once(pte, mapping, at);
        }
        if v != 0 {
            return None;
        }
        let pfn = self.find_page(mapping, at)?;
        let page = self.frames.page(pfn);
        let marks = flag::LOCKED | flag::READAHEAD | flag::UPTODATE;
        if page.flags() & marks != flag::UPTODATE
            || !self.world.page_mkwrite_at_once(self, mapping, at)?
        {
            return None;
        }
        self.world.charge(Cost::Fault, 1);
        self.stat.event(VmEvent::PgFault, 1);
        r.found(at);
        page.clear_flags(flag::UNUSED);
        self.page_add_file_rmap(pfn);
        pte.set(pfn << SHIFT | PRESENT | YOUNG | WRITE);
        self.set_page_dirty(pfn, TrackPath::Fault);
        Some(mapping)
    }

    /// [`Mm::fault_at_once`] where the entry is present and read-only.
    #[inline]
    fn wp_at_once(&self, pte: &W::U32, mapping: u32, at: u32) -> Option<u32> {
        let pfn = pte.get() >> SHIFT;
        let page = self.frames.page(pfn);
        debug_assert!(
            page.mapping() == mapping && page.index() == at,
            "the entry of page {at} of file {mapping} is of frame {pfn}"
        );
        if page.flags() & (flag::LOCKED | flag::ANON) != 0
            || !self.world.page_mkwrite_at_once(self, mapping, at)?
        {
            return None;
        }
        self.world.charge(Cost::Fault, 1);
        self.stat.event(VmEvent::PgFault, 1);
        pte.set(pfn << SHIFT | PRESENT | YOUNG | WRITE);
        self.set_page_dirty(pfn, TrackPath::Fault);
        Some(mapping)
    }
}
