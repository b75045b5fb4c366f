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
        self.touch_mapped_run(region, index, 1, write) == 1
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
    /// mapping that is cached, up to date and not locked. `None`: nothing was done, and [`Mm::touch`] is to be called.
    /// Else the file: the store may be made, but first [`Mm::balance_dirty_pages_ratelimited`] has to be called, and the
    /// task has to relax.
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
        let mapped = v & (PRESENT | WRITE) == PRESENT;
        if !write || (v != 0 && !mapped) || r.missing_table(index).is_some() {
            return None;
        }
        // What the page's flags must be, among those that matter.
        let (pfn, among, wanted) = match mapped {
            true => (v >> SHIFT, flag::LOCKED | flag::ANON, 0),
            false => (
                self.find_page(mapping, at)?,
                flag::LOCKED | flag::READAHEAD | flag::UPTODATE,
                flag::UPTODATE,
            ),
        };
        let page = self.frames.page(pfn);
        debug_assert!(
            page.mapping() == mapping && page.index() == at,
            "page {at} of file {mapping} is frame {pfn}"
        );
        if page.flags() & among != wanted || !self.world.page_mkwrite_at_once(self, mapping, at)? {
            return None;
        }
        self.world.charge(Cost::Fault, 1);
        self.stat.event(VmEvent::PgFault, 1);
        if !mapped {
            r.found(at);
            page.clear_flags(flag::UNUSED);
            self.page_add_file_rmap(pfn);
        }
        pte.set(pfn << SHIFT | PRESENT | YOUNG | WRITE);
        self.set_page_dirty(pfn, TrackPath::Fault);
        Some(mapping)
    }
}
