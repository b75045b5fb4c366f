//! Page state transitions of the page cache: dirtying, writeback, locking
//! (docs/reference/memory-model.md#page-states and docs/reference/writeback.md#accounting).

use crate::cache::tree::{Tag, page_in};
use crate::memory::frame::flag;
use crate::world::{Cost, ShortLock, Waited, WaitedKind, Word32, World};
use crate::{Mm, Pfn, queue};

impl<W: World> Mm<W> {
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
            let thrashes = self.is_thrashing(pfn);
            if thrashes {
                self.world.memory_stall(true);
            }
            self.world.wait(queue::page(pfn), ticket, None).await;
            if thrashes {
                self.world.memory_stall(false);
            }
        }
    }

    /// Whether who waits for a page that is being read waits for want of memory: it is one of the working set,
    /// which reclaim has taken (Linux 4.20 `folio_wait_bit_common`).
    fn is_thrashing(&self, pfn: Pfn) -> bool {
        let flags = self.frames.flags(pfn);
        flags & (flag::UPTODATE | flag::WORKINGSET) == flag::WORKINGSET
            && self.remembers_workingset()
            && !self.is_ordered(flags)
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

    /// The data of `n` contiguous locked pages of a file is there, or `failed` to come: each is marked so
    /// and unlocked.
    ///
    /// # Panics
    /// If one of them left the file meanwhile, or was not locked.
    pub fn end_read(&self, mapping: u32, first: u32, n: u32, failed: bool) {
        debug_assert!(
            mapping < self.mapping_count(),
            "file {mapping} does not exist"
        );
        let m = &self.mappings[mapping as usize];
        let state = if failed { flag::ERROR } else { flag::UPTODATE };
        let mut done = 0;
        while done < n {
            let leaf = m.tree_lock.with(|| self.leaf_at(m, first + done));
            // The leaf stays with the last page that is locked.
            let slots = leaf.map_or(&[][..], |leaf| leaf.slots(n - done));
            for (slot, index) in slots.iter().zip(first + done..) {
                let Some(pfn) = page_in(slot.get()) else {
                    panic!("page {index} of file {mapping} left under I/O");
                };
                self.frames.set_flags(pfn, state);
                self.unlock_page(pfn);
            }
            assert!(!slots.is_empty(), "pages of file {mapping} left under I/O");
            done += slots.len() as u32;
        }
    }

    /// Whether nothing of a file is cached.
    pub fn mapping_has_no_pages(&self, mapping: u32) -> bool {
        debug_assert!(
            mapping < self.mapping_count(),
            "file {mapping} does not exist"
        );
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
        let all = (0, u32::MAX);
        self.invalidate_pages(mapping, all, |_| true).await
    }

    /// As `invalidate_mapping_pages` for the pages from one to another, inclusive, of which `may`
    /// says whether they may go; it is asked with the page locked. Each page that is visited costs
    /// [`Cost::PageScan`], be it dropped or kept (mm/truncate.c `invalidate_mapping_pages` looks each up, locks
    /// and tests it).
    pub async fn invalidate_pages(
        &self,
        mapping: u32,
        (first, last): (u32, u32),
        may: impl Fn(Pfn) -> bool,
    ) -> u64 {
        let (mut from, mut dropped, mut seen) = (first, 0, 0u32);
        while let Some((index, _)) = self.first_page_from(mapping, from) {
            if index > last {
                break;
            }
            self.world.charge(Cost::PageScan, 1);
            if let Some((pfn, true)) = self.find_trylock_page(mapping, index) {
                let busy = flag::DIRTY | flag::WRITEBACK | flag::PINNED;
                if !self.frames.any(pfn, busy)
                    && may(pfn)
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
        debug_assert!(
            mapping < self.mapping_count(),
            "file {mapping} does not exist"
        );
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
