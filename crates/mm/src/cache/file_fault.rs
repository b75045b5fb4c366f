//! Faults on pages of files that are not mapped yet (mm/filemap.c `filemap_fault`, mm/memory.c
//! `do_fault`; docs/reference/writeback.md#mapped-faults).

use super::mmap::{PRESENT, SHIFT, YOUNG};
use crate::memory::frame::flag;
use crate::memory::group::GroupEvent;
use crate::watch::vmstat::VmEvent;
use crate::world::event::TrackPath;
use crate::world::{Cost, Faulted, ReadAround, Touched, Word32, World};
use crate::{Mm, Pfn};

impl<W: World> Mm<W> {
    /// Finds or reads a page of a file for a fault in a region. `(mapping, index)`: the file and
    /// the page's index there. Returns the frame of the page, up to date, and whether the fault
    /// started over after a wait (`fault_retry`), or how the fault failed. A page that is not
    /// cached makes the fault a major one, even if a hole needs no device.
    async fn filemap_fault(
        &self,
        region: u32,
        (mapping, index): (u32, u32),
    ) -> Result<(Pfn, bool), Touched> {
        let r = self.regions.region(region);
        let page = Faulted {
            region,
            mapping,
            index,
        };
        let mut waited = false;
        if let Some(pfn) = self.find_page(mapping, index) {
            // A mark of read-ahead: the next window is read now.
            if r.found(index) && self.frames.has(pfn, flag::READAHEAD) {
                self.world.fault_met_mark(self, page, pfn).await;
                waited = true;
            }
        } else {
            // `around`: which pages are read beside the missing one.
            let around = r.missed(index, self.policy.mapped_readahead);
            self.note_path(TrackPath::Fault);
            self.world.fault_page(self, page, around).await?;
            self.stat.event(VmEvent::PgMajFault, 1);
            self.count_of_task(GroupEvent::PgMajFault, 1);
            waited = true;
        }
        loop {
            match self.find_page(mapping, index) {
                None => {
                    self.note_path(TrackPath::Fault);
                    self.world.fault_page(self, page, ReadAround::None).await?;
                }
                Some(pfn) if self.frames.has(pfn, flag::LOCKED) => {
                    self.wait_on_page_locked(pfn).await;
                    waited = true;
                }
                Some(pfn) if self.frames.has(pfn, flag::UPTODATE) => {
                    self.frames.clear_flags(pfn, flag::UNUSED);
                    let restarted = waited && self.policy.fault_retry;
                    if restarted {
                        self.world.charge(Cost::Fault, 1);
                    }
                    return Ok((pfn, restarted));
                }
                // Neither locked nor up to date: its read failed.
                Some(_) => return Err(Touched::BusError),
            }
        }
    }

    /// Handles the first touch of page `index` of a region that maps a file; `place`: the file and
    /// the page's index in it. A load maps the cached page; a store (`write`) dirties it in a
    /// `shared` mapping, and copies it in a private one. Returns how the access ended; after
    /// `Touched::Ok` the program's access is tried again.
    pub(super) async fn do_file_fault(
        &self,
        region: u32,
        index: u32,
        place: (u32, u32),
        write: bool,
        shared: bool,
    ) -> Touched {
        let (pfn, restarted) = match self.filemap_fault(region, place).await {
            Ok(found) => found,
            Err(e) => return e,
        };
        if write && shared {
            return self.page_mkwrite(region, index, place, !restarted).await;
        }
        if write {
            return self.copy_page(region, index, place).await;
        }
        if self.pte(region, index).get() == 0 {
            self.page_add_file_rmap(pfn);
            self.pte(region, index).set(pfn << SHIFT | PRESENT | YOUNG);
        }
        Touched::Ok
    }
}
