//! Reclaim's requests to the flusher to write dirty pages that reclaim met (`reclaim_flush`).

use super::inode::Pass;
use super::queues::{RECLAIM_CHUNK, RECLAIM_REQUESTS};
use crate::cache::mapping::{I_DIRTY_RECLAIM, I_SYNC};
use crate::cache::tree::Tag;
use crate::policy::ReclaimFlush;
use crate::watch::vmstat::VmEvent;
use crate::world::{Cost, ShortLock, Word32, World, WritebackControl};
use crate::{Mm, Pfn};

impl<W: World> Mm<W> {
    /// Returns the number of the zone or node whose array at the flusher takes reclaim's request
    /// for this page (`reclaim_flush`); `None` if the policy has no such requests.
    fn reclaim_group(&self, pfn: Pfn) -> Option<usize> {
        let z = self.frames.zone(pfn);
        match self.policy.reclaim_flush {
            ReclaimFlush::None | ReclaimFlush::Inode => None,
            ReclaimFlush::Zone => Some(z),
            ReclaimFlush::Node => Some(self.zones[z].node as usize),
        }
    }

    /// Asks the flusher, as the policy `reclaim_flush` says, to write a dirty file page that
    /// reclaim has locked and may not write itself: by a request for the pages around it, by a mark
    /// on its inode, or not at all.
    #[inline]
    pub(crate) fn ask_flusher_for(&self, pfn: Pfn) {
        if let Some(group) = self.reclaim_group(pfn) {
            self.request_writeback(group, pfn);
        } else if self.policy.reclaim_flush == ReclaimFlush::Inode {
            self.mark_for_reclaim(pfn);
        }
    }

    /// Marks the inode of a page as one that reclaim wants written (`I_DIRTY_RECLAIM`), and wakes
    /// its flusher at once. Does nothing if the inode is marked already, or being written.
    #[inline(never)]
    fn mark_for_reclaim(&self, pfn: Pfn) {
        let m = &self.mappings[self.frames.mapping(pfn) as usize];
        if m.state.get() & (I_DIRTY_RECLAIM | I_SYNC) != 0 {
            return; // the inode is marked already, or being written
        }
        m.state.fetch_or(I_DIRTY_RECLAIM);
        self.stat.event(VmEvent::ReclaimFlush, 1);
        self.flusher_state(m.bdi()).expiry_wanted.set(1);
        self.world.wake(self.flusher_queue(m.bdi()));
    }

    /// Queues a request at the flusher to write the part of the file around a page, in the array of
    /// `group` (a zone or node), unless the same part is asked for already, the array is full (then
    /// the request is dropped and counted), or the file is being written.
    #[inline(never)]
    fn request_writeback(&self, group: usize, pfn: Pfn) {
        let (mapping, index) = (self.frames.mapping(pfn), self.frames.index(pfn));
        let m = &self.mappings[mapping as usize];
        if m.state.get() & I_SYNC != 0 {
            return; // another task is writing this file
        }
        let bdi = m.bdi();
        let s = self.flusher_state(bdi);
        // `None`: such a request waits already; `Some(false)`: the array is full.
        let taken = s.lock.with(|| {
            let requests = &s.reclaim[group];
            if requests.holds(mapping, index) {
                return None;
            }
            let room = requests.push(mapping, index);
            s.reclaim_waiting.fetch_add(u32::from(room));
            Some(room)
        });
        match taken {
            None => {}
            Some(false) => self.stat.event(VmEvent::ReclaimFlushDropped, 1),
            Some(true) => {
                self.stat.event(VmEvent::ReclaimFlush, 1);
                self.world.wake(self.flusher_queue(bdi));
            }
        }
    }

    /// Takes the oldest request of reclaim from the group (zone or node) whose turn it is. Returns
    /// group, file and page index; `None` if no request waits.
    fn next_request(&self, bdi: u32) -> Option<(usize, u32, u32)> {
        let s = self.flusher_state(bdi);
        if s.reclaim_waiting.get() == 0 {
            return None;
        }
        s.lock.with(|| {
            let groups = s.reclaim.len();
            let first = s.reclaim_next.get() as usize;
            let mut turns = (0..groups).map(|i| (first + i) % groups);
            let (group, (mapping, index)) =
                turns.find_map(|g| s.reclaim[g].pop().map(|request| (g, request)))?;
            s.reclaim_next.set(((group + 1) % groups) as u32);
            s.reclaim_waiting.fetch_sub(1);
            Some((group, mapping, index))
        })
    }

    /// Writes the pages that reclaim has requested from a device's flusher; returns how many were
    /// written. The loop ends even if reclaim keeps asking: each group is served at most as often
    /// as its array is long.
    pub(super) async fn serve_reclaim(&self, bdi: u32) -> u64 {
        let mut wrote = 0;
        for _ in 0..self.flusher_state(bdi).reclaim.len() * RECLAIM_REQUESTS {
            let Some((group, mapping, index)) = self.next_request(bdi) else {
                break;
            };
            wrote += self.write_around(group, mapping, index).await;
            self.world.relax().await;
        }
        if wrote > 0 {
            self.stat.event(VmEvent::ReclaimFlushWritten, wrote);
            self.update_bandwidth(bdi);
        }
        wrote
    }

    /// Returns the first and the last page index of the aligned 1024-page chunk around `index`
    /// whose cached pages belong to the group (zone or node); `None` if none does.
    fn chunk_of_group(&self, group: usize, mapping: u32, index: u32) -> Option<(u32, u32)> {
        let start = index - index % RECLAIM_CHUNK;
        let ours = |&index: &u32| {
            let page = self.find_page(mapping, index);
            page.is_some_and(|pfn| self.reclaim_group(pfn) == Some(group))
        };
        let mut chunk = start..=start + (RECLAIM_CHUNK - 1);
        let first = chunk.find(ours)?;
        Some((first, chunk.rfind(ours).unwrap_or(first)))
    }

    /// Writes the dirty pages of a file around the page at `index`, which reclaim met, in the
    /// chunk's part that belongs to the group; returns how many. The page itself may be clean or
    /// gone by now. Returns 0 also if another task is writing the file.
    async fn write_around(&self, group: usize, mapping: u32, index: u32) -> u64 {
        let m = &self.mappings[mapping as usize];
        if !self.mapping_tagged(mapping, Tag::Dirty) {
            return 0;
        }
        let Some((first, last)) = self.chunk_of_group(group, mapping, index) else {
            return 0;
        };
        self.world.charge(Cost::WritebackRound, 1);
        if m.state.fetch_or(I_SYNC) & I_SYNC != 0 {
            return 0; // another task is writing the file
        }
        let quota = i64::from(RECLAIM_CHUNK);
        let mut wbc = WritebackControl {
            range_cyclic: false,
            range_start: first,
            range_end: last,
            ..WritebackControl::pages(quota)
        };
        self.write_held_inode(mapping, &mut wbc, Pass::Around).await;
        (quota - wbc.nr_to_write).max(0) as u64
    }
}
