//! Page state transitions of the page cache: dirtying, writeback, locking (reference 01 §10,
//! 04 §2).

use crate::bdi::BdiStat;
use crate::frame::flag;
use crate::mapping::AS_EIO;
use crate::pagecache::Tag;
use crate::trace::{Event, TrackPath};
use crate::vmstat::{VmEvent, ZoneStat};
use crate::world::{Cost, Word32, World};
use crate::{Mm, Pfn, queue};

impl<W: World> Mm<W> {
    /// Sets a cached page dirty, with all its accounting. Returns whether it was clean.
    pub fn set_page_dirty(&self, pfn: Pfn, path: TrackPath) -> bool {
        // Through the normal path a page loses its mark for immediate reclaim.
        let before = self.frames.clear_flags(pfn, flag::RECLAIM);
        debug_assert!(before & (flag::CACHED | flag::SWAPCACHE) != 0);
        if self.frames.test_and_set(pfn, flag::DIRTY) {
            return false;
        }
        if before & flag::SWAPCACHE != 0 {
            return true;
        }
        let (mapping, index) = (self.frames.mapping(pfn), self.frames.index(pfn));
        self.account_dirtied(pfn, mapping);
        self.tag_set(mapping, index, Tag::Dirty);
        self.mark_inode_dirty(mapping);
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
    fn account_dirtied(&self, pfn: Pfn, mapping: u32) {
        let m = &self.mappings[mapping as usize];
        if m.accounts_dirty() {
            let (cpu, z) = (self.world.cpu(), self.frames.zone(pfn));
            self.stat.inc(cpu, z, ZoneStat::NrFileDirty);
            self.stat.inc(cpu, z, ZoneStat::NrDirtied);
            self.add_bdi_stat(m.bdi(), BdiStat::Reclaimable, 1);
            self.task_dirty_inc();
        }
    }

    /// Takes the dirty bit for I/O. Returns whether the page was dirty. The tag stays until
    /// writeback starts, so a refusal leaves the page where writeback finds it.
    pub fn clear_page_dirty_for_io(&self, pfn: Pfn) -> bool {
        if !self.frames.test_and_clear(pfn, flag::DIRTY) {
            return false;
        }
        if !self.frames.has(pfn, flag::SWAPCACHE) {
            let m = &self.mappings[self.frames.mapping(pfn) as usize];
            if m.accounts_dirty() {
                let z = self.frames.zone(pfn);
                self.stat.dec(self.world.cpu(), z, ZoneStat::NrFileDirty);
                self.add_bdi_stat(m.bdi(), BdiStat::Reclaimable, -1);
            }
        }
        true
    }

    /// A filesystem refuses to write a page whose dirty bit was taken: it is dirty again.
    pub fn redirty_page_for_writepage(&self, pfn: Pfn, wbc: &mut crate::world::WritebackControl) {
        wbc.pages_skipped += 1;
        self.frames.clear_flags(pfn, flag::RECLAIM);
        if !self.frames.test_and_set(pfn, flag::DIRTY) {
            self.account_dirtied(pfn, self.frames.mapping(pfn));
        }
        self.world.charge(Cost::Refuse, 1);
    }

    /// Puts a page whose dirty bit was taken under writeback.
    pub fn set_page_writeback(&self, pfn: Pfn) {
        let before = self.frames.set_flags(pfn, flag::WRITEBACK);
        debug_assert!(before & (flag::WRITEBACK | flag::DIRTY) == 0);
        let (cpu, z) = (self.world.cpu(), self.frames.zone(pfn));
        self.stat.inc(cpu, z, ZoneStat::NrWriteback);
        self.stat.inc(cpu, z, ZoneStat::NrWritten);
        if before & flag::SWAPCACHE == 0 {
            let (mapping, index) = (self.frames.mapping(pfn), self.frames.index(pfn));
            self.tag_clear(mapping, index, Tag::Dirty);
            self.tag_set(mapping, index, Tag::Writeback);
            let m = &self.mappings[mapping as usize];
            if m.accounts_dirty() {
                self.add_bdi_stat(m.bdi(), BdiStat::Writeback, 1);
            }
        }
        self.world.charge(Cost::WritebackStart, 1);
    }

    /// A page's writeback ended; `failed`: its data is lost, which the file remembers.
    pub fn end_page_writeback(&self, pfn: Pfn, failed: bool) {
        if failed {
            self.frames.set_flags(pfn, flag::ERROR);
            self.stat.event(VmEvent::WriteError, 1);
        }
        if self.frames.test_and_clear(pfn, flag::RECLAIM) {
            self.rotate_reclaimable_page(pfn);
        }
        let f = self.frames.flags(pfn);
        let file = (f & flag::SWAPCACHE == 0).then(|| self.frames.mapping(pfn));
        if let Some(mapping) = file {
            if failed {
                self.mappings[mapping as usize].state.fetch_or(AS_EIO);
            }
            self.tag_clear(mapping, self.frames.index(pfn), Tag::Writeback);
        }
        // The bit goes last: without it the page may be written again, or leave the file.
        let before = self.frames.clear_flags(pfn, flag::WRITEBACK);
        assert!(
            before & flag::WRITEBACK != 0,
            "frame {pfn} was not under writeback"
        );
        let (cpu, z) = (self.world.cpu(), (before >> flag::ZONE_SHIFT) as usize);
        self.stat.dec(cpu, z, ZoneStat::NrWriteback);
        if let Some(mapping) = file {
            let m = &self.mappings[mapping as usize];
            if m.accounts_dirty() {
                self.add_bdi_stat(m.bdi(), BdiStat::Writeback, -1);
                self.bdi_writeout_inc(m.bdi());
            }
        }
        self.world.charge(Cost::WritebackEnd, 1);
        self.world.wake(queue::page(pfn));
    }

    /// Waits until a page is no longer under writeback.
    pub async fn wait_on_page_writeback(&self, pfn: Pfn) {
        loop {
            let ticket = self.world.ticket(queue::page(pfn));
            if !self.frames.has(pfn, flag::WRITEBACK) {
                return;
            }
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
                self.world.wait(queue::page(pfn), ticket, None).await;
            }
        }
    }

    /// The page at an index of a file, locked. Where tasks run at the same time this is the way to
    /// hold on to a page: reclaim leaves a locked page in its file.
    pub async fn find_lock_page(&self, mapping: u32, index: u32) -> Option<Pfn> {
        loop {
            let pfn = self.find_page(mapping, index)?;
            let q = queue::page(pfn);
            let ticket = self.world.ticket(q);
            match self.find_trylock_page(mapping, index)? {
                (locked, true) => return Some(locked),
                // The ticket is for this page's queue only.
                (busy, false) if busy == pfn => {
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
            // A reclaimer that has isolated the page finds it locked and puts it back.
            while !self.try_delete_from_lru(pfn) {
                self.world.sleep(self.tick()).await;
            }
            // A batch that still holds the page lets go of it when it is drained.
            while self.frames.has(pfn, flag::PINNED) {
                for cpu in 0..self.config.cpus {
                    self.lru_add_drain_cpu(cpu);
                }
                if self.frames.has(pfn, flag::PINNED) {
                    self.world.sleep(self.tick()).await;
                }
            }
            if self.clear_page_dirty_for_io(pfn) {
                self.tag_clear(mapping, index, Tag::Dirty);
            }
            self.remove_from_page_cache(pfn);
            self.unlock_page(pfn);
            self.free_page(pfn, false);
        }
        if self.mapping_tagged(mapping, Tag::Dirty) {
            self.mark_inode_dirty(mapping);
        }
    }
}
