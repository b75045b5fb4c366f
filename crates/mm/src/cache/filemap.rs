//! Page state transitions of the page cache: dirtying, writeback, locking
//! (docs/reference/memory-model.md#page-states and docs/reference/writeback.md#accounting).

use crate::cache::tree::{Tag, page_in};
use crate::memory::frame::flag;
use crate::world::{Cost, ShortLock, Waited, WaitedKind, Word32, World};
use crate::{Mm, Pfn, queue};

impl<W: World> Mm<W> {
    /// Waits until a page is no longer under writeback; returns at once if it is not.
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

    /// Tries to take the page lock; returns true if it was free.
    #[inline]
    pub fn try_lock_page(&self, pfn: Pfn) -> bool {
        !self.frames.test_and_set(pfn, flag::LOCKED)
    }

    /// Takes the page lock; if it is taken, marks the page so that the task that unlocks it sees
    /// that there is a waiter. Returns true if the lock was taken.
    #[inline]
    pub(crate) fn lock_or_mark(&self, pfn: Pfn) -> bool {
        let free = |before: u32| before & flag::LOCKED == 0;
        free(self.frames.set_flags(pfn, flag::LOCKED))
            || free(self.frames.set_flags(pfn, flag::WAITERS | flag::LOCKED))
    }

    /// Takes the page lock, waiting for it if another task holds it. A wait for the read of a page
    /// that was reclaimed from the working set counts as a memory stall.
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

    /// Returns true if waiting for a page's read is a memory stall: the page belongs to the working
    /// set and reclaim had taken it (Linux 4.20 `folio_wait_bit_common`).
    fn is_thrashing(&self, pfn: Pfn) -> bool {
        let flags = self.frames.flags(pfn);
        flags & (flag::UPTODATE | flag::WORKINGSET) == flag::WORKINGSET
            && self.remembers_workingset()
            && !self.is_ordered(flags)
    }

    /// Waits until the page lock is free. A waiter takes the lock and gives it back, so the waiters
    /// of one page proceed one after the other. The page may have left its file meanwhile; callers
    /// must look again.
    pub async fn wait_on_page_locked(&self, pfn: Pfn) {
        self.lock_page(pfn).await;
        self.unlock_page(pfn);
    }

    /// Reports the object of a wait for a page's lock: a page that is being read is locked until
    /// the read ends, so that wait is for the device.
    fn waits_for_page(&self, pfn: Pfn) {
        let read = !self.frames.has(pfn, flag::UPTODATE);
        let kind = if read {
            WaitedKind::DeviceRead
        } else {
            WaitedKind::PageLock
        };
        self.waits_on_page(kind, pfn);
    }

    /// Reports a page as the object of the calling task's next wait.
    fn waits_on_page(&self, kind: WaitedKind, pfn: Pfn) {
        let page = Waited::page(self.frames.mapping(pfn), self.frames.index(pfn));
        self.world.waits_on(Waited::on(kind, page));
    }

    /// Returns the frame of a file's page, with its page lock taken, after waiting for the lock if
    /// need be; `None` if the page is not cached. Where tasks run in parallel this is the way to
    /// hold a page: reclaim leaves a locked page in its file.
    pub async fn find_lock_page(&self, mapping: u32, index: u32) -> Option<Pfn> {
        loop {
            let (pfn, got_lock) = self.find_trylock_page(mapping, index)?;
            if got_lock {
                return Some(pfn);
            }
            let q = queue::page(pfn);
            let ticket = self.world.ticket(q);
            // The second try comes after the ticket, so no unlock between them is missed.
            match self.find_trylock_page(mapping, index)? {
                (locked, true) => return Some(locked),
                // The ticket is valid for this page's queue only.
                (busy, false) if busy == pfn => {
                    self.waits_for_page(pfn);
                    self.world.wait(q, ticket, None).await;
                }
                _ => {}
            }
        }
    }

    /// Releases the page lock and wakes the tasks that wait for the page.
    ///
    /// # Panics
    /// If the page was not locked.
    pub fn unlock_page(&self, pfn: Pfn) {
        assert!(
            self.frames.clear_flags(pfn, flag::LOCKED | flag::WAITERS) & flag::LOCKED != 0,
            "frame {pfn} was not locked"
        );
        self.world.wake(queue::page(pfn));
    }

    /// Ends the read of `n` contiguous locked pages of a file from index `first` on: marks each as
    /// up to date, or with `failed` as failed, and unlocks it, which wakes tasks that wait for it.
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
            // The leaf stays until its last locked page is done.
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

    /// Returns true if no page of a file is cached.
    pub fn mapping_has_no_pages(&self, mapping: u32) -> bool {
        debug_assert!(
            mapping < self.mapping_count(),
            "file {mapping} does not exist"
        );
        self.mappings[mapping as usize].nrpages.get() == 0
    }

    /// Takes a locked page of a file off its LRU list for good, before the page is freed. If a
    /// reclaimer has isolated the page, waits until it finds the page locked, puts it back and
    /// wakes the waiter.
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

    /// Drops the pages of a file that are clean, unmapped and not in use by other tasks. Returns
    /// how many were dropped.
    pub(crate) async fn invalidate_mapping_pages(&self, mapping: u32) -> u64 {
        let all = (0, u32::MAX);
        self.invalidate_pages(mapping, all, |_| true).await
    }

    /// Drops the pages of a file from index `first` to `last`, inclusive, that are clean, unmapped
    /// and not in use by other tasks, if `may` allows it, which is called with the page locked.
    /// Returns how many were dropped. Each page that is visited costs [`Cost::PageScan`], whether
    /// it is dropped or kept (mm/truncate.c `invalidate_mapping_pages` looks each up, locks and
    /// tests it).
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
            // The task may yield its CPU after every 32 pages.
            if seen.is_multiple_of(32) {
                self.world.relax().await;
            }
        }
        dropped
    }

    /// Drops every page of a file from index `first` on, dirty ones too, and the shadows of evicted
    /// ones, while other tasks may read, write and reclaim; waits for each page's lock and
    /// writeback. New pages may enter meanwhile unless the caller keeps them out. If dirty pages
    /// remain before the index, the inode is marked dirty again.
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
            // A per-CPU batch that still holds the page releases it when it is drained.
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
