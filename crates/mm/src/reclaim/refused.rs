//! Dirty pages of files that page reclaim asks a filesystem for which refuses them: those whose blocks are not
//! allocated yet (ext4), all (btrfs), those that a direct reclaimer asks for (XFS). Most of what kswapd meets then are
//! such pages, one behind the other.

use super::page_list::Batch;
use super::scan::ScanControl;
use crate::memory::frame::{Page, flag, zone_of};
use crate::policy::ReclaimThrottle;
use crate::watch::vmstat::ZoneStat;
use crate::world::event::Event;
use crate::world::{Audience, Cost, World};
use crate::{Mm, Pfn};

/// Flags that a page of a row shares with the first one, beside its zone's number. A mark for immediate reclaim goes.
const SHARED: u32 = !flag::RECLAIM;
/// What none of them has: it would be examined otherwise, or somebody holds it or waits for it.
const NONE: u32 = flag::LOCKED
    | flag::WAITERS
    | flag::REFERENCED
    | flag::WRITEBACK
    | flag::UNEVICTABLE
    | flag::SWAPBACKED
    | flag::SWAPCACHE
    | flag::ANON
    | flag::PINNED;
/// What all of them have.
const ALL: u32 = flag::CACHED | flag::DIRTY;

impl<W: World> Mm<W> {
    /// What [`Mm::pageout`] does to a file's page, locked on entry, that its filesystem refuses, up to where the task
    /// relaxes. `false`: nothing was done.
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

    /// Up to `most` isolated pages in front of one that was refused, towards the head of their list, that are as that one:
    /// the next ones of its file, which are examined and refused as it was, and behind none of which the task gives
    /// way. Returns how many, and the last of them; of none, that one.
    #[inline(never)]
    pub(super) fn refused_row(
        &self,
        (first, pfn): (Page<'_, W>, Pfn),
        most: u32,
        sc: &mut ScanControl,
        batch: &mut Batch,
    ) -> (u32, Pfn) {
        let like = first.flags() & SHARED;
        // Where batches count what is congested each page asks.
        let asks = self.policy.reclaim_throttle == ReclaimThrottle::ZoneFlags;
        if like & (NONE | ALL) != ALL
            || asks
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

    /// Counts pages of a zone that their file's filesystem refuses. They stay dirty: the bits would be taken and set again.
    #[inline]
    fn count_refused(&self, z: usize, mapping: u32, n: u32) {
        self.world.writepages_refused(self, mapping, n);
        self.account_refused(z, &self.mappings[mapping as usize], n);
        let stat = self.stat.on(self.world.cpu(), z);
        stat.inc_by(ZoneStat::NrVmscanWrite, n);
    }
}
