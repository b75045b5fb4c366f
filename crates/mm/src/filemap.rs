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
        let before = self.frames.clear_flags(pfn, flag::WRITEBACK);
        assert!(
            before & flag::WRITEBACK != 0,
            "frame {pfn} was not under writeback"
        );
        let (cpu, z) = (self.world.cpu(), self.frames.zone(pfn));
        self.stat.dec(cpu, z, ZoneStat::NrWriteback);
        if before & flag::SWAPCACHE == 0 {
            let (mapping, index) = (self.frames.mapping(pfn), self.frames.index(pfn));
            self.tag_clear(mapping, index, Tag::Writeback);
            let m = &self.mappings[mapping as usize];
            if failed {
                m.state.fetch_or(AS_EIO);
            }
            if m.accounts_dirty() {
                self.add_bdi_stat(m.bdi(), BdiStat::Writeback, -1);
                self.bdi_writeout_inc(m.bdi());
            }
        }
        self.world.charge(Cost::WritebackEnd, 1);
        self.world.wake(queue::page(pfn));
    }

    /// Takes the dirty pages of a file from `first` on, at most `most`, and puts them under
    /// writeback: [`Mm::clear_page_dirty_for_io`] and [`Mm::set_page_writeback`] for each, with one
    /// look at the index, the counters and the clock for all. Stops at a page that is not cached,
    /// not dirty, locked or still under writeback; returns how many were taken.
    pub fn start_writeback(&self, mapping: u32, first: u32, most: u32) -> u32 {
        let m = &self.mappings[mapping as usize];
        let (cpu, counted) = (self.world.cpu(), m.accounts_dirty());
        let count = |z: usize, n: u32| {
            if n == 0 {
                return;
            }
            if counted {
                self.stat.dec_by(cpu, z, ZoneStat::NrFileDirty, n);
            }
            self.stat.inc_by(cpu, z, ZoneStat::NrWriteback, n);
            self.stat.inc_by(cpu, z, ZoneStat::NrWritten, n);
        };
        let (mut zone, mut in_zone) = (0, 0);
        let n = self.for_run(
            mapping,
            first,
            most,
            |pfn| {
                let f = self.frames.flags(pfn);
                if f & (flag::DIRTY | flag::WRITEBACK | flag::LOCKED) != flag::DIRTY {
                    return false;
                }
                self.frames.clear_flags(pfn, flag::DIRTY);
                self.frames.set_flags(pfn, flag::WRITEBACK);
                let z = (f >> flag::ZONE_SHIFT) as usize;
                if z != zone {
                    count(zone, in_zone);
                    (zone, in_zone) = (z, 0);
                }
                in_zone += 1;
                true
            },
            |leaf, slots| self.leaf_starts_writeback(leaf, slots),
        );
        count(zone, in_zone);
        if counted && n > 0 {
            self.step_bdi_stat(m.bdi(), BdiStat::Reclaimable, -1, n);
            self.step_bdi_stat(m.bdi(), BdiStat::Writeback, 1, n);
        }
        self.world.charge(Cost::WritebackStart, n);
        n
    }

    /// Ends the writeback of `n` pages of a file from `first` on: [`Mm::end_page_writeback`] for
    /// each, with one look at the index, the counters and the clock for all.
    pub fn end_writeback(&self, mapping: u32, first: u32, n: u32, failed: bool) {
        let m = &self.mappings[mapping as usize];
        let cpu = self.world.cpu();
        let (mut zone, mut in_zone) = (0, 0);
        let ended = self.for_run(
            mapping,
            first,
            n,
            |pfn| {
                if self.frames.test_and_clear(pfn, flag::RECLAIM) {
                    self.rotate_reclaimable_page(pfn);
                }
                let before = self.frames.clear_flags(pfn, flag::WRITEBACK);
                assert!(
                    before & flag::WRITEBACK != 0,
                    "frame {pfn} was not under writeback"
                );
                if failed {
                    self.frames.set_flags(pfn, flag::ERROR);
                }
                let z = (before >> flag::ZONE_SHIFT) as usize;
                if z != zone {
                    self.stat.dec_by(cpu, zone, ZoneStat::NrWriteback, in_zone);
                    (zone, in_zone) = (z, 0);
                }
                in_zone += 1;
                self.world.wake(queue::page(pfn));
                true
            },
            |leaf, slots| self.leaf_ends_writeback(leaf, slots),
        );
        assert!(
            ended == n,
            "page {} of file {mapping} left under I/O",
            first + ended
        );
        self.stat.dec_by(cpu, zone, ZoneStat::NrWriteback, in_zone);
        if failed {
            self.stat.event(VmEvent::WriteError, u64::from(n));
            m.state.fetch_or(AS_EIO);
        }
        if m.accounts_dirty() {
            self.step_bdi_stat(m.bdi(), BdiStat::Writeback, -1, n);
            for _ in 0..n {
                self.bdi_writeout_inc(m.bdi());
            }
        }
        self.world.charge(Cost::WritebackEnd, n);
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
            if self.clear_page_dirty_for_io(pfn) {
                self.tag_clear(mapping, index, Tag::Dirty);
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
            self.mark_inode_dirty(mapping);
        }
    }
}
