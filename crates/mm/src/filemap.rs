//! Page state transitions of the page cache: dirtying, writeback, locking
//! (docs/reference/memory-model.md#page-states and docs/reference/writeback.md#accounting).

use crate::bdi::BdiStat;
use crate::frame::{Page, flag, zone_of};
use crate::mapping::{AS_EIO, Mapping};
use crate::pagecache::{Leaf, Tag, page_in};
use crate::trace::{Event, TrackPath};
use crate::vmstat::{VmEvent, ZoneStat};
use crate::world::{Cost, ShortLock, Waited, WaitedKind, Word32, World};
use crate::{Mm, Pfn, queue};

/// Pages in a row that lie in one zone, to be counted together.
#[derive(Default)]
struct ZoneRun {
    zone: usize,
    pages: u32,
}

impl ZoneRun {
    /// One more page; `count` is told of the pages before it when the zone changes.
    #[inline(always)]
    fn page(&mut self, zone: usize, count: impl FnOnce(usize, u32)) {
        if zone != self.zone {
            if self.pages > 0 {
                count(self.zone, self.pages);
            }
            *self = Self { zone, pages: 0 };
        }
        self.pages += 1;
    }

    /// The last page has passed.
    #[inline(always)]
    fn end(self, count: impl FnOnce(usize, u32)) {
        if self.pages > 0 {
            count(self.zone, self.pages);
        }
    }
}

impl<W: World> Mm<W> {
    /// Sets a cached page dirty, with all its accounting. Returns whether it was clean.
    #[inline]
    pub fn set_page_dirty(&self, pfn: Pfn, path: TrackPath) -> bool {
        let page = self.frames.page(pfn);
        // Through the normal path a page loses its mark for immediate reclaim.
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
        self.account_dirtied(zone_of(before), m);
        self.tag_set(m, index, Tag::Dirty);
        self.mark_inode_dirty(m, mapping);
        self.note_path(path);
        self.track_dirtied(pfn);
        self.trace(|| Event::PageDirtied {
            pfn,
            mapping,
            index,
        });
        self.world.charge(Cost::PageDirty, 1);
        true
    }

    #[inline(always)]
    fn account_dirtied(&self, z: usize, m: &Mapping<W>) {
        if m.accounts_dirty() {
            let stat = self.stat.on(self.world.cpu(), z);
            stat.inc(ZoneStat::NrFileDirty);
            stat.inc(ZoneStat::NrDirtied);
            self.add_bdi_stat(m.bdi(), BdiStat::Reclaimable, 1);
            self.task_dirty_inc();
        }
    }

    /// Takes the dirty bit for I/O. Returns whether the page was dirty. The tag stays until
    /// writeback starts, so a refusal leaves the page where writeback finds it.
    pub fn clear_page_dirty_for_io(&self, pfn: Pfn) -> bool {
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

    #[inline(always)]
    fn account_cleaned(&self, z: usize, m: &Mapping<W>, n: u32) {
        if m.accounts_dirty() {
            self.stat
                .on(self.world.cpu(), z)
                .dec_by(ZoneStat::NrFileDirty, n);
            self.step_bdi_stat(m.bdi(), BdiStat::Reclaimable, -1, n);
        }
    }

    /// A filesystem refuses to write a page whose dirty bit was taken: it is dirty again.
    pub fn redirty_page_for_writepage(&self, pfn: Pfn, wbc: &mut crate::world::WritebackControl) {
        wbc.pages_skipped += 1;
        self.frames.clear_flags(pfn, flag::RECLAIM);
        if !self.frames.test_and_set(pfn, flag::DIRTY) {
            let m = &self.mappings[self.frames.mapping(pfn) as usize];
            self.account_dirtied(self.frames.zone(pfn), m);
        }
        self.world.charge(Cost::Refuse, 1);
    }

    /// Puts a page whose dirty bit was taken under writeback; the caller holds its lock.
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

    /// Counts pages put under writeback; `m`: their file, if they belong to one.
    #[inline(always)]
    fn account_writeback(&self, z: usize, m: Option<&Mapping<W>>, n: u32) {
        let stat = self.stat.on(self.world.cpu(), z);
        stat.inc_by(ZoneStat::NrWriteback, n);
        stat.inc_by(ZoneStat::NrWritten, n);
        if let Some(m) = m
            && m.accounts_dirty()
        {
            self.step_bdi_stat(m.bdi(), BdiStat::Writeback, 1, n);
        }
    }

    /// Takes the dirty bits of contiguous pages of a file and puts them under writeback: up to
    /// `most` pages from `first` on, until one is missing, clean, locked or under writeback.
    /// `started` is told of each. Returns how many.
    ///
    /// A page's bits change in one step from a state in which nobody holds its lock. Its tags follow
    /// before the tree lock lets anybody find it.
    pub fn start_writeback(
        &self,
        mapping: u32,
        first: u32,
        most: u32,
        mut started: impl FnMut(Pfn),
    ) -> u32 {
        let m = &self.mappings[mapping as usize];
        let mut done = 0;
        while done < most {
            let (n, whole) = m.tree_lock.with(|| match self.leaf_at(m, first + done) {
                Some(leaf) => self.start_leaf(m, &leaf, most - done, &mut started),
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

    /// [`Mm::start_writeback`] for the pages of one leaf. Returns how many, and whether those were
    /// all.
    #[inline(always)]
    fn start_leaf(
        &self,
        m: &Mapping<W>,
        leaf: &Leaf<'_, W>,
        most: u32,
        mut started: impl FnMut(Pfn),
    ) -> (u32, bool) {
        let frames = self.frames.table();
        let slots = leaf.slots(most);
        let (mut n, mut run) = (0, ZoneRun::default());
        let count = |z, n| {
            self.account_cleaned(z, m, n);
            self.account_writeback(z, Some(m), n);
        };
        for slot in slots {
            let Some(pfn) = page_in(slot.get()) else {
                break;
            };
            let Some(before) = Self::start_page(frames.page(pfn)) else {
                break;
            };
            if frames.page(pfn).mapcount() > 0 {
                self.page_mkclean(pfn);
            }
            started(pfn);
            n += 1;
            run.page(zone_of(before), count);
        }
        run.end(count);
        if n > 0 {
            leaf.set_tags(Tag::Writeback, n);
            leaf.clear_tags(Tag::Dirty, n);
        }
        (n, n == slots.len() as u32)
    }

    /// Puts a dirty page that nobody holds under writeback; returns the flags before.
    #[inline(always)]
    fn start_page(page: Page<'_, W>) -> Option<u32> {
        loop {
            let f = page.flags();
            if f & (flag::WRITEBACK | flag::LOCKED | flag::DIRTY) != flag::DIRTY {
                return None;
            }
            if page.replace_flags(f, f & !flag::DIRTY | flag::WRITEBACK) {
                return Some(f);
            }
        }
    }

    /// A page's writeback ended; `failed`: a file's data is lost, which the file remembers, and a page
    /// for swap stays in memory.
    pub fn end_page_writeback(&self, pfn: Pfn, failed: bool) {
        let page = self.frames.page(pfn);
        let m = (!page.has(flag::SWAPCACHE)).then(|| &self.mappings[page.mapping() as usize]);
        if let Some(m) = m {
            if failed {
                m.state.fetch_or(AS_EIO);
            }
            self.tag_clear(m, page.index(), Tag::Writeback);
        } else if failed {
            // Its memory stays the only copy (Linux end_swap_bio_write): dirty again, and no page to
            // reclaim next.
            page.set_flags(flag::DIRTY);
            page.clear_flags(flag::RECLAIM);
        }
        let z = self.clear_page_writeback(pfn, failed);
        self.account_written(z, m, 1);
        self.world.charge(Cost::WritebackEnd, 1);
        self.world.wake(queue::page(pfn));
    }

    /// Takes the writeback bit; returns the page's zone. The bit goes last: without it the page may
    /// be written again, or leave its file.
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

    /// Counts pages whose writeback ended; `m`: their file, if they belong to one.
    #[inline(always)]
    fn account_written(&self, z: usize, m: Option<&Mapping<W>>, n: u32) {
        self.stat
            .on(self.world.cpu(), z)
            .dec_by(ZoneStat::NrWriteback, n);
        if let Some(m) = m
            && m.accounts_dirty()
        {
            self.step_bdi_stat(m.bdi(), BdiStat::Writeback, -1, n);
            self.bdi_writeout_add(m.bdi(), u64::from(n));
        }
    }

    /// The writeback of `n` contiguous pages of a file ended, as [`Mm::end_page_writeback`].
    ///
    /// # Panics
    /// If one of them left the file meanwhile.
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
            let mut run = ZoneRun::default();
            let count = |z, n| self.account_written(z, Some(m), n);
            // The leaf stays with the last page that is under writeback.
            for slot in slots {
                let pfn = slot.get().checked_sub(1);
                let pfn = pfn.expect("pages under I/O stay in their file");
                run.page(self.clear_page_writeback(pfn, failed), count);
                self.world.charge(Cost::WritebackEnd, 1);
                self.world.wake(queue::page(pfn));
            }
            run.end(count);
            done += slots.len() as u32;
        }
    }

    /// Waits until a page is no longer under writeback.
    pub async fn wait_on_page_writeback(&self, pfn: Pfn) {
        loop {
            let ticket = self.world.ticket(queue::page(pfn));
            if !self.frames.has(pfn, flag::WRITEBACK) {
                return;
            }
            self.waits_on_page(WaitedKind::PageWriteback, pfn);
            self.world.wait(queue::page(pfn), ticket, None).await;
        }
    }

    /// Tries the page lock.
    #[inline]
    pub fn try_lock_page(&self, pfn: Pfn) -> bool {
        !self.frames.test_and_set(pfn, flag::LOCKED)
    }

    /// Takes the page lock, or else marks the page so that whoever unlocks it from here on sees that
    /// somebody waits.
    #[inline]
    pub(crate) fn lock_or_mark(&self, pfn: Pfn) -> bool {
        let free = |before: u32| before & flag::LOCKED == 0;
        free(self.frames.set_flags(pfn, flag::LOCKED))
            || free(self.frames.set_flags(pfn, flag::WAITERS | flag::LOCKED))
    }

    /// Waits for the page lock.
    pub async fn lock_page(&self, pfn: Pfn) {
        while !self.try_lock_page(pfn) {
            let ticket = self.world.ticket(queue::page(pfn));
            if self.lock_or_mark(pfn) {
                return;
            }
            self.waits_for_page(pfn);
            self.world.wait(queue::page(pfn), ticket, None).await;
        }
    }

    /// Waits until nobody holds the page lock. A waiter takes the lock and gives it back, so those
    /// who wait for one page go on in turn. The page may have left its file meanwhile: look again.
    pub async fn wait_on_page_locked(&self, pfn: Pfn) {
        self.lock_page(pfn).await;
        self.unlock_page(pfn);
    }

    /// Says what a wait for a page's lock is for: a page that is being read is locked until its data
    /// is there.
    fn waits_for_page(&self, pfn: Pfn) {
        let read = !self.frames.has(pfn, flag::UPTODATE);
        let kind = if read {
            WaitedKind::DeviceRead
        } else {
            WaitedKind::PageLock
        };
        self.waits_on_page(kind, pfn);
    }

    fn waits_on_page(&self, kind: WaitedKind, pfn: Pfn) {
        let page = Waited::page(self.frames.mapping(pfn), self.frames.index(pfn));
        self.world.waits_on(Waited::on(kind, page));
    }

    /// The page at an index of a file, locked. Where tasks run at the same time this is the way to
    /// hold on to a page: reclaim leaves a locked page in its file.
    pub async fn find_lock_page(&self, mapping: u32, index: u32) -> Option<Pfn> {
        loop {
            let (pfn, mine) = self.find_trylock_page(mapping, index)?;
            if mine {
                return Some(pfn);
            }
            let q = queue::page(pfn);
            let ticket = self.world.ticket(q);
            match self.find_trylock_page(mapping, index)? {
                (locked, true) => return Some(locked),
                // The ticket is for this page's queue only.
                (busy, false) if busy == pfn => {
                    self.waits_for_page(pfn);
                    self.world.wait(q, ticket, None).await;
                }
                _ => {}
            }
        }
    }

    /// Releases the page lock.
    pub fn unlock_page(&self, pfn: Pfn) {
        assert!(
            self.frames.clear_flags(pfn, flag::LOCKED | flag::WAITERS) & flag::LOCKED != 0,
            "frame {pfn} was not locked"
        );
        self.world.wake(queue::page(pfn));
    }

    /// Whether nothing of a file is cached.
    pub fn mapping_has_no_pages(&self, mapping: u32) -> bool {
        self.mappings[mapping as usize].nrpages.get() == 0
    }

    /// Takes a locked page of a file off its LRU list for good. A reclaimer that has isolated it
    /// finds it locked, puts it back and wakes us.
    async fn isolate_for_good(&self, pfn: Pfn) {
        let q = queue::page(pfn);
        while !self.try_delete_from_lru(pfn) {
            let ticket = self.world.ticket(q);
            self.frames.set_flags(pfn, flag::WAITERS);
            if self.try_delete_from_lru(pfn) {
                return;
            }
            self.waits_on_page(WaitedKind::PageLock, pfn);
            self.world.wait(q, ticket, None).await;
        }
    }

    /// Drops the pages of a file that are clean, not mapped and that nobody works on. Returns how
    /// many.
    pub(crate) async fn invalidate_mapping_pages(&self, mapping: u32) -> u64 {
        let (mut from, mut dropped, mut seen) = (0, 0, 0u32);
        while let Some((index, _)) = self.first_page_from(mapping, from) {
            if let Some((pfn, true)) = self.find_trylock_page(mapping, index) {
                let busy = flag::DIRTY | flag::WRITEBACK | flag::PINNED;
                if !self.frames.any(pfn, busy)
                    && self.frames.mapcount(pfn) == 0
                    && self.try_delete_from_lru(pfn)
                {
                    self.remove_from_page_cache(pfn);
                    self.unlock_isolated(pfn);
                    self.free_page(pfn, false);
                    dropped += 1;
                } else {
                    self.unlock_page(pfn);
                }
            }
            let Some(next) = index.checked_add(1) else {
                break;
            };
            from = next;
            seen += 1;
            if seen.is_multiple_of(32) {
                self.world.relax().await;
            }
        }
        dropped
    }

    /// Drops every page of a file from an index on, dirty ones too, beside tasks that read, write
    /// and reclaim. New pages may enter meanwhile unless the caller keeps them out. If dirty pages
    /// stay in front of it, the inode is dirty again.
    pub async fn truncate_from(&self, mapping: u32, first: u32) {
        let mut from = first;
        while let Some((index, _)) = self.first_page_from(mapping, from) {
            from = index;
            let Some(pfn) = self.find_lock_page(mapping, index).await else {
                continue;
            };
            self.wait_on_page_writeback(pfn).await;
            self.isolate_for_good(pfn).await;
            // A batch that still holds the page lets go of it when it is drained.
            while self.frames.has(pfn, flag::PINNED) {
                for cpu in 0..self.config.cpus {
                    self.lru_add_drain_cpu(cpu);
                }
                if self.frames.has(pfn, flag::PINNED) {
                    self.world.sleep(self.tick()).await;
                }
            }
            if self.frames.mapcount(pfn) > 0 {
                self.try_to_unmap(pfn);
            }
            if self.clear_page_dirty_for_io(pfn) {
                self.tag_clear(&self.mappings[mapping as usize], index, Tag::Dirty);
            }
            self.remove_from_page_cache(pfn);
            self.unlock_isolated(pfn);
            self.free_page(pfn, false);
        }
        let mut shadows = self.keeps_shadows().then_some(first);
        while let Some(from) = shadows {
            shadows = self.drop_shadows_from(mapping, from);
            self.world.relax().await;
        }
        if self.mapping_tagged(mapping, Tag::Dirty) {
            self.mark_inode_dirty(&self.mappings[mapping as usize], mapping);
        }
    }
}
