//! Page states of writeback: makes pages dirty, puts them under writeback and ends it.

use crate::cache::mapping::{AS_EIO, Mapping};
use crate::cache::tree::{Leaf, Tag, page_in};
use crate::memory::frame::{FLAGS_ALONE, Page, Table, ZoneRun, flag, zone_of};
use crate::policy::Written;
use crate::watch::vmstat::{VmEvent, ZoneStat};
use crate::world::event::{Event, TrackPath};
use crate::world::{Audience, Cost, ShortLock, Word32, World};
use crate::writeback::bdi::BdiStat;
use crate::{Mm, Pfn, queue};

impl<W: World> Mm<W> {
    /// Sets a page of the page cache or the swap cache dirty, with all its accounting: counters,
    /// the tree's dirty tag, its inode on the flusher's list. `path`: which kind of work dirtied
    /// it, for the page tracker. Returns true if the page was clean.
    #[inline]
    pub fn set_page_dirty(&self, pfn: Pfn, path: TrackPath) -> bool {
        let page = self.frames.page(pfn);
        // A page dirtied through the normal path loses its mark for immediate reclaim.
        let before = page.clear_flags(flag::RECLAIM);
        debug_assert!(before & (flag::CACHED | flag::SWAPCACHE) != 0);
        if page.test_and_set(flag::DIRTY) {
            return false;
        }
        if before & flag::SWAPCACHE != 0 {
            return true;
        }
        let (mapping, index) = (page.mapping(), page.index());
        let m = &self.mappings[mapping as usize];
        self.account_dirtied(zone_of(before), m, 1);
        self.tag_set(m, index, Tag::Dirty);
        self.buffer_written(m, index);
        self.mark_inode_dirty(m, mapping);
        self.note_path(path);
        self.track_dirtied(pfn);
        self.emit(Audience::Traces, || Event::PageDirtied {
            pfn,
            bdi: m.bdi(),
            mapping,
            index,
        });
        self.world.charge(Cost::PageDirty, 1);
        true
    }

    /// Counts `n` pages of zone `z` and file `m` that became dirty: for the zone, the file's device
    /// and the calling task. Files whose device does not account dirty pages are not counted.
    pub(crate) fn account_dirtied(&self, z: usize, m: &Mapping<W>, n: u32) {
        if m.accounts_dirty() {
            let stat = self.stat.on(self.world.cpu(), z);
            stat.inc_by(ZoneStat::NrFileDirty, n);
            stat.inc_by(ZoneStat::NrDirtied, n);
            self.step_bdi_stat(m.bdi(), BdiStat::Reclaimable, 1, n);
            self.count_for_owner(m, BdiStat::Reclaimable, 1, n);
            self.task_dirty_inc(u64::from(n));
        }
    }

    /// Clears a page's dirty bit before its I/O (`clear_page_dirty_for_io`), and makes its mappings
    /// clean and read-only. Returns true if the page was dirty. The tag stays until writeback
    /// starts, so that a page whose write is refused is still found by writeback.
    pub fn clear_page_dirty_for_io(&self, pfn: Pfn) -> bool {
        debug_assert!(
            self.frames.any(pfn, flag::CACHED | flag::SWAPCACHE),
            "frame {pfn} is no page of a file or of swap"
        );
        let page = self.frames.page(pfn);
        let before = page.clear_flags(flag::DIRTY);
        if before & flag::DIRTY == 0 {
            return false;
        }
        if page.mapcount() > 0 {
            self.page_mkclean(pfn);
        }
        if before & flag::SWAPCACHE == 0 {
            let m = &self.mappings[page.mapping() as usize];
            self.account_cleaned(zone_of(before), m, 1);
        }
        true
    }

    /// Counts `n` pages of zone `z` and file `m` that are no longer dirty.
    #[inline(always)]
    fn account_cleaned(&self, z: usize, m: &Mapping<W>, n: u32) {
        if m.accounts_dirty() {
            self.stat
                .on(self.world.cpu(), z)
                .dec_by(ZoneStat::NrFileDirty, n);
            self.step_bdi_stat(m.bdi(), BdiStat::Reclaimable, -1, n);
            self.count_for_owner(m, BdiStat::Reclaimable, -1, n);
        }
    }

    /// Counts `n` pages of zone `z` and file `m` whose dirty bits were cleared for a write and set
    /// again because the filesystem refused it, one after another: the dirty pages stay the same,
    /// the count of dirtied pages grows.
    pub(crate) fn account_refused(&self, z: usize, m: &Mapping<W>, n: u32) {
        if !m.accounts_dirty() {
            return;
        }
        let stat = self.stat.on(self.world.cpu(), z);
        stat.dec_and_inc(ZoneStat::NrFileDirty, n);
        stat.inc_by(ZoneStat::NrDirtied, n);
        self.bdi_stat_and_back(m.bdi(), BdiStat::Reclaimable, n);
        self.task_dirty_inc(u64::from(n));
    }

    /// Sets a page dirty again, with its accounting, whose dirty bit was cleared for a write that
    /// the filesystem refuses, and counts it as skipped in `wbc`. The page loses its mark for
    /// immediate reclaim.
    pub fn redirty_page_for_writepage(&self, pfn: Pfn, wbc: &mut crate::world::WritebackControl) {
        debug_assert!(
            self.frames.has(pfn, flag::CACHED),
            "frame {pfn} is no page of a file"
        );
        wbc.pages_skipped += 1;
        self.frames.clear_flags(pfn, flag::RECLAIM);
        if !self.frames.test_and_set(pfn, flag::DIRTY) {
            let m = &self.mappings[self.frames.mapping(pfn) as usize];
            self.account_dirtied(self.frames.zone(pfn), m, 1);
        }
        self.world.charge(Cost::Refuse, 1);
    }

    /// Puts a page of a file or of swap, whose dirty bit was cleared, under writeback; the caller
    /// holds its lock. A file's page changes its tag from dirty to writeback in the tree.
    pub fn set_page_writeback(&self, pfn: Pfn) {
        let page = self.frames.page(pfn);
        let before = page.set_flags(flag::WRITEBACK);
        debug_assert!(before & (flag::WRITEBACK | flag::DIRTY) == 0);
        if before & flag::SWAPCACHE == 0 {
            let m = &self.mappings[page.mapping() as usize];
            m.tree_lock.with(|| {
                let leaf = self.leaf_at(m, page.index());
                let leaf = leaf.expect("a page under writeback is cached");
                leaf.clear_tags(Tag::Dirty, 1);
                leaf.set_tags(Tag::Writeback, 1);
            });
            self.account_writeback(zone_of(before), Some(m), 1);
        } else {
            self.account_writeback(zone_of(before), None, 1);
        }
        self.world.charge(Cost::WritebackStart, 1);
    }

    /// Counts `n` pages of zone `z` that were put under writeback; `m`: their file, or `None` for
    /// pages that go to swap.
    #[inline(always)]
    fn account_writeback(&self, z: usize, m: Option<&Mapping<W>>, n: u32) {
        let stat = self.stat.on(self.world.cpu(), z);
        stat.inc_by(ZoneStat::NrWriteback, n);
        if self.policy.written == Written::Submitted {
            stat.inc_by(ZoneStat::NrWritten, n);
        }
        if let Some(m) = m
            && m.accounts_dirty()
        {
            self.step_bdi_stat(m.bdi(), BdiStat::Writeback, 1, n);
            self.count_for_owner(m, BdiStat::Writeback, 1, n);
        }
    }

    /// Clears the dirty bits of contiguous pages of a file and puts them under writeback: up to
    /// `most` pages from `first` on, until one is missing, clean, locked or under writeback.
    /// `started` is called with each. Returns how many were started.
    ///
    /// A page's bits change in one step from a state in which no task holds its lock. Its tags
    /// follow before the tree lock lets another task find the page.
    pub fn start_writeback(
        &self,
        mapping: u32,
        first: u32,
        most: u32,
        mut started: impl FnMut(Pfn),
    ) -> u32 {
        debug_assert!(
            mapping < self.mapping_count(),
            "file {mapping} does not exist"
        );
        let m = &self.mappings[mapping as usize];
        let mut done = 0;
        while done < most {
            let (n, whole) = m.tree_lock.with(|| match self.leaf_at(m, first + done) {
                Some(leaf) => self.start_leaf(m, (&leaf, first + done), most - done, &mut started),
                None => (0, false),
            });
            self.world.charge(Cost::WritebackStart, n);
            done += n;
            if !whole {
                break;
            }
        }
        done
    }

    /// Does [`Mm::start_writeback`] for the pages from index `first` on that are in one leaf of the
    /// file's tree. Returns how many were started, and true if those were all of the leaf's pages
    /// asked for, so that the caller goes on with the next leaf.
    #[inline(always)]
    fn start_leaf(
        &self,
        m: &Mapping<W>,
        (leaf, first): (&Leaf<'_, W>, u32),
        most: u32,
        mut started: impl FnMut(Pfn),
    ) -> (u32, bool) {
        let frames = self.frames.table();
        let slots = leaf.slots(most);
        let first_page = slots.first().and_then(|slot| page_in(slot.get()));
        // Pages of one zone in a row, which are counted together when the zone changes.
        let mut run = ZoneRun::before(frames, first_page);
        let (mut n, mut mapcounts) = (0, 0);
        let count = |z, n| {
            self.account_cleaned(z, m, n);
            self.account_writeback(z, Some(m), n);
        };
        loop {
            let row = Self::start_row(
                frames,
                run.zone(),
                &slots[n as usize..],
                &mut mapcounts,
                &mut started,
            );
            run.more(row);
            n += row;
            // The page that ends a row may only belong to another zone.
            let Some(pfn) = slots.get(n as usize).and_then(|slot| page_in(slot.get())) else {
                break;
            };
            let Some(before) = Self::start_page(frames.page(pfn)) else {
                break;
            };
            mapcounts |= frames.page(pfn).mapcount();
            started(pfn);
            n += 1;
            run.page(zone_of(before), count);
        }
        run.end(count);
        if mapcounts > 0 {
            self.run_mkclean(m, first, &slots[..n as usize]);
        }
        if n > 0 {
            leaf.set_tags(Tag::Writeback, n);
            leaf.clear_tags(Tag::Dirty, n);
        }
        (n, n == slots.len() as u32)
    }

    /// Puts pages of one zone under writeback, from the first slot on, until one is missing, clean,
    /// locked, under writeback or of another zone. `mapcounts`: the map counts of the pages are
    /// or-ed into it; `started`: called with each page. Returns how many were started.
    #[inline(always)]
    fn start_row(
        frames: Table<'_, W>,
        zone: usize,
        slots: &[W::U32],
        mapcounts: &mut u32,
        started: &mut impl FnMut(Pfn),
    ) -> u32 {
        // Zone, and flags that decide. `eligible`: their values for a page that is dirty and
        // neither locked nor under writeback.
        let mask = flag::WRITEBACK | flag::LOCKED | flag::DIRTY | !FLAGS_ALONE;
        let eligible = (zone as u32) << flag::ZONE_SHIFT | flag::DIRTY;
        let mut started_pages = 0;
        for slot in slots {
            let Some(pfn) = page_in(slot.get()) else {
                break;
            };
            let page = frames.page(pfn);
            let flags = page.flags();
            if flags & mask != eligible
                || !page.replace_flags(flags, flags ^ (flag::DIRTY | flag::WRITEBACK))
            {
                break;
            }
            *mapcounts |= page.mapcount();
            started(pfn);
            started_pages += 1;
        }
        started_pages
    }

    /// Puts a dirty, unlocked page under writeback; returns the flags that it had, or `None` if it
    /// is not such a page.
    #[inline(always)]
    fn start_page(page: Page<'_, W>) -> Option<u32> {
        loop {
            let flags = page.flags();
            if flags & (flag::WRITEBACK | flag::LOCKED | flag::DIRTY) != flag::DIRTY {
                return None;
            }
            if page.replace_flags(flags, flags & !flag::DIRTY | flag::WRITEBACK) {
                return Some(flags);
            }
        }
    }

    /// Ends a page's writeback: clears its bit and tag, counts it as written and wakes its waiters.
    /// `failed`: a file's data is lost, which the file remembers (`AS_EIO`), and a page for swap
    /// stays in memory, dirty.
    pub fn end_page_writeback(&self, pfn: Pfn, failed: bool) {
        debug_assert!(
            self.frames.has(pfn, flag::WRITEBACK),
            "frame {pfn} was not under writeback"
        );
        let page = self.frames.page(pfn);
        let mapping = page.mapping();
        let m = (!page.has(flag::SWAPCACHE)).then(|| &self.mappings[mapping as usize]);
        if let Some(m) = m {
            if failed {
                m.state.fetch_or(AS_EIO);
            }
            self.tag_clear(m, page.index(), Tag::Writeback);
        } else if failed {
            // Memory stays the only copy of the page (Linux end_swap_bio_write): the page is dirty
            // again and not marked for reclaim.
            page.set_flags(flag::DIRTY);
            page.clear_flags(flag::RECLAIM);
        }
        let z = self.clear_page_writeback(pfn, failed);
        self.account_written(z, m, 1);
        if m.is_some() {
            self.inode_writeback_end(mapping);
        }
        self.world.charge(Cost::WritebackEnd, 1);
        self.world.wake(queue::page(pfn));
    }

    /// Clears the writeback bit of a page and, if reclaim has marked the page, moves it to the tail
    /// of the inactive list, to be freed next; returns the page's zone. The bit is cleared last:
    /// without it the page may be written again, or leave its file. `failed`: the page is marked
    /// with an error.
    #[inline(always)]
    fn clear_page_writeback(&self, pfn: Pfn, failed: bool) -> usize {
        let page = self.frames.page(pfn);
        if failed {
            page.set_flags(flag::ERROR);
            self.stat.event(VmEvent::WriteError, 1);
        }
        if page.has(flag::RECLAIM) && page.test_and_clear(flag::RECLAIM) {
            self.rotate_reclaimable_page(pfn);
        }
        let before = page.clear_flags(flag::WRITEBACK);
        assert!(
            before & flag::WRITEBACK != 0,
            "frame {pfn} was not under writeback"
        );
        zone_of(before)
    }

    /// Clears the writeback bits of pages of one zone, from the first slot on, until one is marked
    /// for reclaim, of another zone, or changed by another thread. Returns how many.
    #[inline(always)]
    fn end_row(frames: Table<'_, W>, zone: usize, slots: &[W::U32]) -> u32 {
        // Zone, and flags that decide. `eligible`: their values for a page under writeback that
        // reclaim has not marked.
        let mask = flag::WRITEBACK | flag::RECLAIM | !FLAGS_ALONE;
        let eligible = (zone as u32) << flag::ZONE_SHIFT | flag::WRITEBACK;
        let mut n = 0;
        for slot in slots {
            let Some(pfn) = slot.get().checked_sub(1) else {
                break;
            };
            let page = frames.page(pfn);
            let flags = page.flags();
            if flags & mask != eligible || !page.replace_flags(flags, flags & !flag::WRITEBACK) {
                break;
            }
            n += 1;
        }
        n
    }

    /// Counts `n` pages of zone `z` whose writeback ended; `m`: their file, or `None` for pages
    /// that went to swap. Tells reclaimers that wait for written pages, and adds to the device's
    /// completed writeback.
    #[inline(always)]
    fn account_written(&self, z: usize, m: Option<&Mapping<W>>, n: u32) {
        let stat = self.stat.on(self.world.cpu(), z);
        stat.dec_by(ZoneStat::NrWriteback, n);
        if self.policy.written == Written::Done {
            stat.inc_by(ZoneStat::NrWritten, n);
        }
        self.throttled_see_written(z, n);
        if let Some(m) = m
            && m.accounts_dirty()
        {
            self.step_bdi_stat(m.bdi(), BdiStat::Writeback, -1, n);
            self.count_for_owner(m, BdiStat::Writeback, -1, n);
            self.bdi_writeout_add(m.bdi(), u64::from(n));
        }
    }

    /// Ends the writeback of `n` contiguous pages of a file from index `first` on, as
    /// [`Mm::end_page_writeback`] does for one. `failed`: the data is lost, and the file remembers
    /// that (`AS_EIO`).
    ///
    /// # Panics
    /// If one of the pages has left the file meanwhile.
    pub fn end_writeback(&self, mapping: u32, first: u32, n: u32, failed: bool) {
        let m = &self.mappings[mapping as usize];
        if failed {
            m.state.fetch_or(AS_EIO);
        }
        let mut done = 0;
        while done < n {
            let slots = m.tree_lock.with(|| {
                let leaf = self.leaf_at(m, first + done);
                let leaf = leaf.expect("pages under I/O stay in their file");
                let slots = leaf.slots(n - done);
                leaf.clear_tags(Tag::Writeback, slots.len() as u32);
                slots
            });
            let frames = self.frames.table();
            let first_page = slots.first().and_then(|slot| page_in(slot.get()));
            let mut run = ZoneRun::before(frames, first_page);
            let count = |z, n| self.account_written(z, Some(m), n);
            let waited_for = self.world.page_waiters();
            // The leaf exists as long as one of its pages is under writeback.
            let mut left = slots;
            while !left.is_empty() {
                if !failed && !waited_for {
                    let n = Self::end_row(frames, run.zone(), left);
                    run.more(n);
                    self.world.charge(Cost::WritebackEnd, n);
                    left = &left[n as usize..];
                }
                let Some((slot, rest)) = left.split_first() else {
                    break;
                };
                let pfn = slot.get().checked_sub(1);
                let pfn = pfn.expect("pages under I/O stay in their file");
                run.page(self.clear_page_writeback(pfn, failed), count);
                self.world.charge(Cost::WritebackEnd, 1);
                if waited_for {
                    self.world.wake(queue::page(pfn));
                }
                left = rest;
            }
            run.end(count);
            done += slots.len() as u32;
        }
        self.inode_writeback_end(mapping);
    }
}
