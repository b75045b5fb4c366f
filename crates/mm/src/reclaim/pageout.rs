//! Dirty file pages that reclaim has written by filesystems without `writepage`.

use super::page_list::{Batch, Pageout};
use crate::memory::frame::flag;
use crate::watch::vmstat::ZoneStat;
use crate::world::event::Event;
use crate::world::{Audience, World, WritebackControl};
use crate::{Mm, Pfn};

impl<W: World> Mm<W> {
    /// Has a dirty page of a file written as a range of one page, for which its filesystem looks
    /// the page up and locks it anew (`reclaim_writes = "range"`;
    /// kernel/patches/6.12/writeback-from-reclaim.patch `pageout_range`). The filesystem does not
    /// refuse, and the task waits there as a flusher does: for a transaction, a bio's memory, a
    /// request or a token of writeback throttling. The page is locked on entry and unlocked on
    /// exit. As it stays isolated, its file cannot be truncated meanwhile.
    pub(super) async fn pageout_range(&self, pfn: Pfn, batch: &mut Batch) -> Pageout {
        let (mapping, index) = (self.frames.mapping(pfn), self.frames.index(pfn));
        let mut wbc = WritebackControl {
            for_reclaim: true,
            range_cyclic: false,
            range_start: index,
            range_end: index,
            ..WritebackControl::pages(1)
        };
        self.frames.set_flags(pfn, flag::RECLAIM);
        self.unlock_isolated(pfn);
        self.world
            .reclaim_writes_range(self, mapping, &mut wbc)
            .await;
        self.count_pageout(pfn, true, wbc.sync_all, batch);
        self.world.relax().await;
        Pageout::Success
    }

    /// Counts a page that was handed to its filesystem (`file`) or to swap, and takes the mark off
    /// one that was written at once. `sync`: the write was for data integrity.
    #[inline(always)]
    pub(super) fn count_pageout(&self, pfn: Pfn, file: bool, sync: bool, batch: &mut Batch) {
        if !self.frames.has(pfn, flag::WRITEBACK) {
            self.frames.clear_flags(pfn, flag::RECLAIM);
        }
        let z = self.frames.zone(pfn);
        self.stat.inc(self.world.cpu(), z, ZoneStat::NrVmscanWrite);
        self.emit(Audience::Sums, || Event::Writepage { pfn, file, sync });
        batch.pageout += 1;
    }
}
