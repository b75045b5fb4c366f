//! Dirty file pages that page reclaim hands to a filesystem and that the filesystem refuses: those
//! whose blocks are not allocated yet (ext4), all (btrfs), those that a direct reclaimer hands over
//! (XFS). Most of the pages that kswapd meets on such filesystems are of this kind, one after
//! another, so they are handled in rows.

use super::page_list::Batch;
use super::scan::ScanControl;
use crate::memory::frame::{Page, flag, zone_of};
use crate::policy::ReclaimThrottle;
use crate::watch::vmstat::ZoneStat;
use crate::world::event::Event;
use crate::world::{Audience, Cost, World};
use crate::{Mm, Pfn};

/// Flags that a page of a row must share with the first one, beside its zone's number. The mark for
/// immediate reclaim may differ: it is cleared.
const SHARED: u32 = !flag::RECLAIM;
/// Flags that no page of a row has: such a page would be examined differently, or another task
/// holds it or waits for it.
const EXCLUDED: u32 = flag::LOCKED
    | flag::WAITERS
    | flag::REFERENCED
    | flag::WRITEBACK
    | flag::UNEVICTABLE
    | flag::SWAPBACKED
    | flag::SWAPCACHE
    | flag::ANON
    | flag::PINNED;
/// Flags that every page of a row has.
const REQUIRED: u32 = flag::CACHED | flag::DIRTY;

impl<W: World> Mm<W> {
    /// Does what [`Mm::pageout`] does, up to the point where the task relaxes, to a locked, dirty
    /// page of a file that its filesystem refuses to write for reclaim. Returns false if the page
    /// is not refused or needs the full `pageout`; nothing was done then.
    #[inline]
    pub(super) fn pageout_refused(
        &self,
        page: Page<'_, W>,
        pfn: Pfn,
        sc: &ScanControl,
        batch: &mut Batch,
    ) -> bool {
        let f = page.flags();
        let plain = f & (flag::CACHED | flag::PINNED | flag::SWAPCACHE) == flag::CACHED;
        let (mapping, index) = (page.mapping(), page.index());
        if !plain
            || page.mapcount() > 0
            || !self.may_write_to_queue(pfn, sc)
            || self.world.refuses_writepages(self, mapping, index, 1) == 0
        {
            return false;
        }
        self.count_refused(zone_of(f), mapping, 1);
        self.world.charge(Cost::Refuse, 1);
        self.emit(Audience::Sums, || Event::Writepage {
            pfn,
            file: true,
            sync: false,
        });
        self.unlock_and_clear(page, pfn, flag::RECLAIM);
        batch.pageout += 1;
        true
    }

    /// Handles up to `most` isolated pages in front of the refused page `pfn` (`first`), towards
    /// the head of their list, that are like it: the next pages of its file, which would be
    /// examined and refused in the same way, without the task yielding after any of them. Counts
    /// them in `sc` and `batch`. Returns their number and the last of them, or (0, `pfn`).
    #[inline(never)]
    pub(super) fn refused_row(
        &self,
        (first, pfn): (Page<'_, W>, Pfn),
        most: u32,
        sc: &mut ScanControl,
        batch: &mut Batch,
    ) -> (u32, Pfn) {
        let like = first.flags() & SHARED;
        // With `ZoneFlags` each page is tested for congestion, so a row cannot be handled at once.
        let by_page = self.policy.reclaim_throttle == ReclaimThrottle::ZoneFlags;
        if like & (EXCLUDED | REQUIRED) != REQUIRED
            || by_page
            || self.orders.is_some()
            || self.traced()
            || !self.world.events_are_free()
        {
            return (0, pfn);
        }
        let (mapping, index) = (first.mapping(), first.index());
        let refuse = self.world.price(Cost::Refuse);
        let most = self.world.steps_ahead(refuse, most);
        let most = match most {
            0 => 0,
            _ => self
                .world
                .refuses_writepages(self, mapping, index.saturating_add(1), most),
        };
        let frames = self.frames.table();
        let (mut n, mut last) = (0, pfn);
        while n < most {
            let at = frames.before(last);
            let page = frames.page(at);
            let f = page.flags();
            if f & SHARED != like
                || page.mapcount() > 0
                || page.mapping() != mapping
                || page.index() != index + 1 + n
            {
                break;
            }
            if f != like && !page.replace_flags(f, like) {
                break;
            }
            debug_assert!(frames.after(at) == last);
            (n, last) = (n + 1, at);
        }
        if n > 0 {
            self.count_refused(zone_of(like), mapping, n);
            self.world.file_writepages(n);
            self.world.take_steps(refuse, n);
            sc.nr_scanned += u64::from(n);
            sc.nr_dirty_file += u64::from(n);
            batch.dirty += u64::from(n);
            batch.unqueued += if self.throttles_by_flags() {
                u64::from(n)
            } else {
                0
            };
            batch.pageout += u64::from(n);
        }
        (n, last)
    }

    /// Counts `n` dirty pages of zone `z` that the filesystem of the file `mapping` refuses to
    /// write. They stay dirty: the dirty bits would be cleared and set again, so they are left
    /// alone.
    #[inline]
    fn count_refused(&self, z: usize, mapping: u32, n: u32) {
        self.world.writepages_refused(self, mapping, n);
        self.account_refused(z, &self.mappings[mapping as usize], n);
        let stat = self.stat.on(self.world.cpu(), z);
        stat.inc_by(ZoneStat::NrVmscanWrite, n);
    }
}
