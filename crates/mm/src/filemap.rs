//! Page state transitions of the page cache: dirtying, writeback, locking (reference 01 §10,
//! 04 §2).

use crate::bdi::BdiStat;
use crate::frame::{flag, zone_of};
use crate::mapping::{AS_EIO, Mapping};
use crate::pagecache::Tag;
use crate::trace::{Event, TrackPath};
use crate::vmstat::{VmEvent, ZoneStat};
use crate::world::{Cost, Waits, Word32, World};
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

    /// Puts a page whose dirty bit was taken under writeback.
    pub fn set_page_writeback(&self, pfn: Pfn) {
        let page = self.frames.page(pfn);
        let before = page.set_flags(flag::WRITEBACK);
        debug_assert!(before & (flag::WRITEBACK | flag::DIRTY) == 0);
        if before & flag::SWAPCACHE == 0 {
            let m = &self.mappings[page.mapping() as usize];
            self.tag_clear(m, page.index(), Tag::Dirty);
            self.tag_set(m, page.index(), Tag::Writeback);
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
    /// Returns how many.
    pub fn start_writeback(&self, mapping: u32, first: u32, most: u32) -> u32 {
        let m = &self.mappings[mapping as usize];
        let frames = self.frames.table();
        let mut done = 0;
        while done < most {
            let Some(leaf) = self.leaf_at(m, first + done) else {
                break;
            };
            let slots = leaf.slots(most - done);
            let (mut n, mut run) = (0, ZoneRun::default());
            let count = |z, n| {
                self.account_cleaned(z, m, n);
                self.account_writeback(z, Some(m), n);
            };
            for slot in slots {
                let Some(pfn) = slot.get().checked_sub(1) else {
                    break;
                };
                let page = frames.page(pfn);
                let f = page.flags();
                if f & (flag::WRITEBACK | flag::LOCKED | flag::DIRTY) != flag::DIRTY {
                    break;
                }
                page.clear_flags(flag::DIRTY);
                page.set_flags(flag::WRITEBACK);
                if page.mapcount() > 0 {
                    self.page_mkclean(pfn);
                }
                n += 1;
                run.page(zone_of(f), count);
            }
            run.end(count);
            if n > 0 {
                leaf.set_tags(Tag::Writeback, n);
                leaf.clear_tags(Tag::Dirty, n);
                self.world.charge(Cost::WritebackStart, n);
            }
            done += n;
            if n < slots.len() as u32 {
                break;
            }
        }
        done
    }

    /// A page's writeback ended; `failed`: its data is lost, which the file remembers.
    pub fn end_page_writeback(&self, pfn: Pfn, failed: bool) {
        let before = self.clear_page_writeback(pfn, failed);
        let page = self.frames.page(pfn);
        if before & flag::SWAPCACHE == 0 {
            let m = &self.mappings[page.mapping() as usize];
            self.tag_clear(m, page.index(), Tag::Writeback);
            self.account_written(zone_of(before), Some(m), 1);
            if failed {
                m.state.fetch_or(AS_EIO);
            }
        } else {
            self.account_written(zone_of(before), None, 1);
        }
        self.world.charge(Cost::WritebackEnd, 1);
        self.world.wake(queue::page(pfn));
    }

    /// Takes the writeback bit; returns the flags before.
    #[inline(always)]
    fn clear_page_writeback(&self, pfn: Pfn, failed: bool) -> u32 {
        let page = self.frames.page(pfn);
        if failed {
            page.set_flags(flag::ERROR);
            self.stat.event(VmEvent::WriteError, 1);
        }
        if page.test_and_clear(flag::RECLAIM) {
            self.rotate_reclaimable_page(pfn);
        }
        let before = page.clear_flags(flag::WRITEBACK);
        assert!(
            before & flag::WRITEBACK != 0,
            "frame {pfn} was not under writeback"
        );
        before
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
        let mut done = 0;
        while done < n {
            let leaf = self.leaf_at(m, first + done);
            let leaf = leaf.expect("pages under I/O stay in their file");
            let slots = leaf.slots(n - done);
            let mut run = ZoneRun::default();
            let count = |z, n| self.account_written(z, Some(m), n);
            for slot in slots {
                let pfn = slot.get().checked_sub(1);
                let pfn = pfn.expect("pages under I/O stay in their file");
                let before = self.clear_page_writeback(pfn, failed);
                run.page(zone_of(before), count);
            }
            run.end(count);
            leaf.clear_tags(Tag::Writeback, slots.len() as u32);
            for slot in slots {
                self.world.charge(Cost::WritebackEnd, 1);
                self.world.wake(queue::page(slot.get() - 1));
            }
            done += slots.len() as u32;
        }
        if failed {
            m.state.fetch_or(AS_EIO);
        }
    }

    /// Waits until a page is no longer under writeback.
    pub async fn wait_on_page_writeback(&self, pfn: Pfn) {
        loop {
            let ticket = self.world.ticket(queue::page(pfn));
            if !self.frames.has(pfn, flag::WRITEBACK) {
                return;
            }
            self.world.waits_for(Waits::Device);
            self.world.wait(queue::page(pfn), ticket, None).await;
        }
    }

    /// Tries the page lock.
    #[inline]
    pub fn try_lock_page(&self, pfn: Pfn) -> bool {
        !self.frames.test_and_set(pfn, flag::LOCKED)
    }

    /// Waits for the page lock.
    pub async fn lock_page(&self, pfn: Pfn) {
        while !self.try_lock_page(pfn) {
            let ticket = self.world.ticket(queue::page(pfn));
            if self.frames.has(pfn, flag::LOCKED) {
                // A page that is being read is locked until its data is there.
                let read = !self.frames.has(pfn, flag::UPTODATE);
                self.world
                    .waits_for(if read { Waits::Device } else { Waits::Lock });
                self.world.wait(queue::page(pfn), ticket, None).await;
            }
        }
    }

    /// Releases the page lock.
    pub fn unlock_page(&self, pfn: Pfn) {
        assert!(
            self.frames.test_and_clear(pfn, flag::LOCKED),
            "frame {pfn} was not locked"
        );
        self.world.wake(queue::page(pfn));
    }

    /// Drops every clean page of a file, and every dirty one: the file is gone. Pages under
    /// writeback must have ended.
    pub fn truncate_mapping(&self, mapping: u32) {
        self.truncate_from(mapping, 0);
    }

    /// Waits until no page of a file from an index on is locked, under writeback or isolated by a
    /// reclaimer. That holds when the call returns, until the caller waits for something.
    pub async fn settle_pages(&self, mapping: u32, first: u32) {
        let mut from = first;
        while let Some((index, pfn)) = self.first_page_from(mapping, from) {
            let f = self.frames.flags(pfn);
            if f & flag::WRITEBACK != 0 {
                self.wait_on_page_writeback(pfn).await;
            } else if f & flag::LOCKED != 0 {
                self.lock_page(pfn).await;
                self.unlock_page(pfn);
            } else if self.is_isolated(pfn) {
                self.world.waits_for(Waits::Lock);
                self.world.sleep(1).await;
            } else {
                match index.checked_add(1) {
                    Some(next) => from = next,
                    None => return,
                }
                continue;
            }
            // Others ran meanwhile: from the start again.
            from = first;
        }
    }

    /// Whether a reclaimer that waits holds a cached page.
    fn is_isolated(&self, pfn: Pfn) -> bool {
        if self.frames.has(pfn, flag::LRU) {
            return false;
        }
        for cpu in 0..self.config.cpus {
            self.lru_add_drain_cpu(cpu);
        }
        !self.frames.has(pfn, flag::LRU)
    }

    /// Whether nothing of a file is cached.
    pub fn mapping_has_no_pages(&self, mapping: u32) -> bool {
        self.mappings[mapping as usize].nrpages.get() == 0
    }

    /// Drops every page of a file from an index on. If dirty pages stay in front of it, the inode
    /// is dirty again.
    pub fn truncate_from(&self, mapping: u32, first: u32) {
        let mut from = first;
        while let Some((index, pfn)) = self.first_page_from(mapping, from) {
            let f = self.frames.flags(pfn);
            assert!(
                f & (flag::WRITEBACK | flag::LOCKED) == 0,
                "truncated under I/O"
            );
            if self.frames.mapcount(pfn) > 0 {
                self.try_to_unmap(pfn);
            }
            if self.clear_page_dirty_for_io(pfn) {
                self.tag_clear(&self.mappings[mapping as usize], index, Tag::Dirty);
            }
            self.delete_from_lru(pfn);
            self.remove_from_page_cache(pfn);
            self.free_page(pfn, false);
            match index.checked_add(1) {
                Some(next) => from = next,
                None => break,
            }
        }
        if self.mapping_tagged(mapping, Tag::Dirty) {
            self.mark_inode_dirty(&self.mappings[mapping as usize], mapping);
        }
    }
}
