//! Writeback of one inode: held, written, and put on the right list afterwards; sync and fsync.

use super::queues::List;
use crate::cache::mapping::{
    AS_EIO, I_DIRTY_META, I_DIRTY_PAGES, I_DIRTY_RECLAIM, I_HELD, I_SYNC, SYNCER,
};
use crate::cache::tree::Tag;
use crate::world::{Cost, ShortLock, Waited, WaitedKind, Word32, World, WritebackControl};
use crate::{Mm, queue};

/// The purpose for which an inode's pages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    /// The flusher's slice, or a throttled dirtier: the rest waits for the next slice.
    Slice,
    /// A caller that waits for all of the inode's pages.
    Sync,
    /// Reclaim, which met a page of the inode: the inode keeps its place on its list.
    Around,
}

/// Returns the writeback control of a caller that waits for all dirty pages from `first` to `last`,
/// inclusive.
fn integrity(first: u32, last: u32) -> WritebackControl {
    WritebackControl {
        range_cyclic: false,
        range_start: first,
        range_end: last,
        sync_all: true,
        ..WritebackControl::pages(i64::MAX)
    }
}

impl<W: World> Mm<W> {
    /// Waits until no task writes an inode (`I_SYNC`).
    pub(super) async fn wait_for_inode(&self, inode: u32) {
        self.wait_for_state(inode, |state| state & I_SYNC == 0)
            .await;
    }

    /// Waits until `wanted` returns true for the state bits of an inode. Every change of the state
    /// wakes the inode's queue. The ticket is taken before the test, so that no wake-up is lost.
    async fn wait_for_state(&self, inode: u32, wanted: impl Fn(u32) -> bool) {
        loop {
            let q = queue::page(inode);
            let ticket = self.world.ticket(q);
            if wanted(self.mappings[inode as usize].state.get()) {
                return;
            }
            self.world
                .waits_on(Waited::on(WaitedKind::InodeSync, u64::from(inode)));
            self.world.wait(q, ticket, None).await;
        }
    }

    /// Writes every dirty page of one file and waits for it, as sync(2) does; if the flusher is
    /// writing the file, after the flusher. Returns true if no write of the file has failed since
    /// the last such call.
    pub async fn sync_mapping(&self, mapping: u32) -> bool {
        self.sync_pages(mapping, 0, u32::MAX).await
    }

    /// Writes the dirty pages of a file from `first` to `last`, inclusive, and waits for them, as
    /// [`Mm::sync_mapping`] does for all. Returns true if no write of the file has failed since the
    /// last such call.
    pub async fn sync_pages(&self, mapping: u32, first: u32, last: u32) -> bool {
        debug_assert!(
            mapping < self.mapping_count(),
            "file {mapping} does not exist"
        );
        let m = &self.mappings[mapping as usize];
        while m.state.fetch_or(I_SYNC) & I_SYNC != 0 {
            self.wait_for_inode(mapping).await;
        }
        let mut wbc = integrity(first, last);
        self.write_held_inode(mapping, &mut wbc, Pass::Sync).await;
        self.wait_for_pages(mapping, first, last).await
    }

    /// Writes every dirty page of one file and waits for it, as fsync(2) does
    /// (`filemap_write_and_wait_range`): the inode is not held, so the flusher may write other
    /// pages of it meanwhile. Returns true if no write of the file has failed since the last such
    /// call.
    pub async fn write_and_wait(&self, mapping: u32) -> bool {
        debug_assert!(
            mapping < self.mapping_count(),
            "file {mapping} does not exist"
        );
        let m = &self.mappings[mapping as usize];
        // The state's upper bits count such writers, in units of `SYNCER`; a truncation (`I_HELD`)
        // keeps them out.
        while m.state.fetch_add(SYNCER) & I_HELD != 0 {
            m.state.fetch_sub(SYNCER);
            self.wait_for_inode(mapping).await;
        }
        let mut wbc = integrity(0, u32::MAX);
        self.begin_bandwidth(m.bdi());
        self.world.writepages(self, mapping, &mut wbc).await;
        let clean = self.flusher_state(m.bdi()).lock.with(|| {
            m.state.fetch_sub(SYNCER);
            if m.state.get() & I_SYNC != 0 || self.mapping_tagged(mapping, Tag::Dirty) {
                return false;
            }
            m.state.fetch_and(!(I_DIRTY_PAGES | I_DIRTY_RECLAIM));
            let clean = m.state.get() & I_DIRTY_META == 0;
            if clean {
                self.list_del(mapping);
            }
            clean
        });
        self.world.wake(queue::page(mapping));
        if clean {
            self.inode_cleaned_by_flusher(mapping);
        }
        self.wait_for_pages(mapping, 0, u32::MAX).await
    }

    /// Waits until the pages of a file from `first` to `last`, inclusive, are no longer under
    /// writeback. Returns true if no write of the file has failed since the last call, and forgets
    /// such a failure (`AS_EIO`).
    async fn wait_for_pages(&self, mapping: u32, first: u32, last: u32) -> bool {
        let m = &self.mappings[mapping as usize];
        let mut from = first;
        while let Some(index) = self.next_tagged(mapping, Tag::Writeback, from) {
            if index > last {
                break;
            }
            if let Some(pfn) = self.find_page(mapping, index) {
                self.wait_on_page_writeback(pfn).await;
            }
            let Some(next) = index.checked_add(1) else {
                break;
            };
            from = next;
        }
        m.state.fetch_and(!AS_EIO) & AS_EIO == 0
    }

    /// Keeps the flusher (`I_SYNC`) and fsync (`I_HELD`) from an inode whose file is about to be
    /// truncated, and waits until none of its pages is under writeback. The inode stays on its
    /// list; [`Mm::release_inode`] follows.
    pub async fn hold_inode(&self, mapping: u32) {
        debug_assert!(
            mapping < self.mapping_count(),
            "file {mapping} does not exist"
        );
        let m = &self.mappings[mapping as usize];
        while m.state.fetch_or(I_SYNC) & I_SYNC != 0 {
            self.wait_for_inode(mapping).await;
        }
        self.world.holds(WaitedKind::InodeSync, u64::from(mapping));
        m.state.fetch_or(I_HELD);
        // Tasks that began to write pages of the inode earlier ([`Mm::write_and_wait`]) finish
        // first.
        self.wait_for_state(mapping, |state| state < SYNCER).await;
        while let Some(index) = self.next_tagged(mapping, Tag::Writeback, 0) {
            if let Some(pfn) = self.find_page(mapping, index) {
                self.wait_on_page_writeback(pfn).await;
            }
        }
    }

    /// Releases an inode after [`Mm::hold_inode`] and the truncation. The inode leaves the
    /// flusher's lists unless dirty pages remain; tasks that wait for it wake.
    pub fn release_inode(&self, mapping: u32) {
        debug_assert!(
            self.mappings[mapping as usize].state.get() & I_SYNC != 0,
            "inode {mapping} is held"
        );
        let m = &self.mappings[mapping as usize];
        self.flusher_state(m.bdi())
            .lock
            .with(|| self.list_del(mapping));
        // Clears every state bit, and keeps the count of writers above them.
        m.state.fetch_and(!(SYNCER - 1));
        self.world
            .lets_go(WaitedKind::InodeSync, u64::from(mapping));
        if self.mapping_tagged(mapping, Tag::Dirty) {
            self.mark_inode_dirty(m, mapping);
        }
        self.world.wake(queue::page(mapping));
    }

    /// Writes pages of one inode, as `wbc` asks, and moves the inode to the right list afterwards.
    /// An inode that another task is writing (`I_SYNC`) is moved to `more_io` instead.
    pub(super) async fn writeback_single_inode(&self, inode: u32, wbc: &mut WritebackControl) {
        let m = &self.mappings[inode as usize];
        self.world.charge(Cost::WritebackRound, 1);
        if m.state.fetch_or(I_SYNC) & I_SYNC != 0 {
            let s = self.flusher_state(m.bdi());
            s.lock.with(|| self.list_move(List::MoreIo, inode));
            return;
        }
        self.write_held_inode(inode, wbc, Pass::Slice).await;
    }

    /// Writes pages of an inode that the caller holds (`I_SYNC`), and releases it (the second half
    /// of `writeback_single_inode`). Afterwards a clean inode leaves the flusher's lists; one whose
    /// slice is used up goes to `more_io`; another goes to the end of `dirty`, or keeps its place
    /// if reclaim asked (`Pass::Around`).
    pub(super) async fn write_held_inode(
        &self,
        inode: u32,
        wbc: &mut WritebackControl,
        pass: Pass,
    ) {
        let m = &self.mappings[inode as usize];
        debug_assert!(m.state.get() & I_SYNC != 0);
        m.state.fetch_and(!match pass {
            Pass::Around => I_DIRTY_PAGES,
            Pass::Slice | Pass::Sync => I_DIRTY_PAGES | I_DIRTY_META | I_DIRTY_RECLAIM,
        });
        self.world.holds(WaitedKind::InodeSync, u64::from(inode));
        self.begin_bandwidth(m.bdi());
        self.world.writepages(self, inode, wbc).await;
        self.world.lets_go(WaitedKind::InodeSync, u64::from(inode));
        self.flusher_state(m.bdi()).lock.with(|| {
            m.state.fetch_and(!I_SYNC);
            let dirty = self.mapping_tagged(inode, Tag::Dirty);
            if dirty {
                m.state.fetch_or(I_DIRTY_PAGES);
            } else {
                // Pages that became dirty under I_SYNC were written too. The bit must not outlive
                // them, or the next dirty page would not put the inode on a list.
                m.state.fetch_and(!I_DIRTY_PAGES);
            }
            if m.state.get() & (I_DIRTY_PAGES | I_DIRTY_META) == 0 {
                self.list_del(inode);
            } else if pass == Pass::Around && m.on_list.get() != 0 {
                // The inode keeps its place.
            } else if pass == Pass::Slice && dirty && wbc.nr_to_write <= 0 {
                self.list_move(List::MoreIo, inode);
            } else {
                self.redirty_tail(inode);
            }
        });
        self.world.wake(queue::page(inode));
        if pass != Pass::Around {
            self.inode_cleaned_by_flusher(inode);
        }
    }
}
