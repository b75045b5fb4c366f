//! The flusher: one task a backing device that writes dirty inodes (docs/reference/writeback.md#flusher).
//!
//! Inodes wait in three lists: `dirty` by the time they were dirtied, `io` while they are being
//! serviced, `more_io` when their slice ran out. Throttled dirtiers of the 3.0 era walk the same
//! lists themselves.
//!
//! With `reclaim_flush`, reclaim leaves word of dirty pages that it met: a file and an index, in an
//! array of fixed length a zone or node (`Requests`). The flusher serves them before each piece of
//! work and between its slices, one group after the other. (The form, with 1024 pages around the
//! page, is that of Wu Fengguang's "writeback: introduce the pageout work", 2012, which was not
//! merged; the groups are ours.) Serving leaves an inode where it is on its list.

use crate::bdi::BdiStat;
use crate::mapping::{I_DIRTY_META, I_DIRTY_PAGES, I_SYNC, Mapping};
use crate::pagecache::Tag;
use crate::policy::{DirtyThrottle, FlusherSlice, ReclaimFlush};
use crate::queue;
use crate::shrink::DEF_PRIORITY;
use crate::trace::Event;
use crate::vmstat::{VmEvent, ZoneStat};
use crate::world::{Cost, ShortLock, Waited, WaitedKind, Word32, Word64, World, WritebackControl};
use crate::{CENTISECOND, Mm, Pfn};

const NONE: u32 = u32::MAX;
/// Pages of one slice (3.0), and the least slice of one inode (3.1).
const MAX_WRITEBACK_PAGES: u64 = 1024;
/// Work items that may be queued; further ones are added to the last.
const WORK_ITEMS: usize = 16;

/// Requests of reclaim that wait at a device, a zone or node.
const RECLAIM_REQUESTS: usize = 8;
/// Pages written for one of them: an aligned part of the file.
const RECLAIM_CHUNK: u32 = 1024;

/// The flusher's lists, oldest entry first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum List {
    Dirty = 1,
    Io = 2,
    MoreIo = 3,
}

/// What reclaim of one zone or node asks of a device, oldest first.
struct Requests<W: World> {
    count: W::U32,
    mapping: [W::U32; RECLAIM_REQUESTS],
    index: [W::U32; RECLAIM_REQUESTS],
}

impl<W: World> Requests<W> {
    fn new() -> Self {
        Self {
            count: bytemuck::Zeroable::zeroed(),
            mapping: bytemuck::Zeroable::zeroed(),
            index: bytemuck::Zeroable::zeroed(),
        }
    }

    fn get(&self, i: usize) -> (u32, u32) {
        (self.mapping[i].get(), self.index[i].get())
    }

    fn holds(&self, mapping: u32, index: u32) -> bool {
        (0..self.count.get() as usize).any(|i| {
            let (m, at) = self.get(i);
            m == mapping && at / RECLAIM_CHUNK == index / RECLAIM_CHUNK
        })
    }

    /// `false`: there is no room.
    fn push(&self, mapping: u32, index: u32) -> bool {
        let n = self.count.get() as usize;
        if n == RECLAIM_REQUESTS {
            return false;
        }
        self.mapping[n].set(mapping);
        self.index[n].set(index);
        self.count.set(n as u32 + 1);
        true
    }

    fn pop(&self) -> Option<(u32, u32)> {
        let n = self.count.get() as usize;
        if n == 0 {
            return None;
        }
        let first = self.get(0);
        for i in 1..n {
            self.mapping[i - 1].set(self.mapping[i].get());
            self.index[i - 1].set(self.index[i].get());
        }
        self.count.set(n as u32 - 1);
        Some(first)
    }
}

/// A device's flusher.
pub(crate) struct State<W: World> {
    first: [W::U32; 4],
    last: [W::U32; 4],
    /// Pages of queued work items, oldest first.
    work: [W::U64; WORK_ITEMS],
    work_count: W::U32,
    /// Requests of reclaim, a zone or node each; none without `reclaim_flush`.
    reclaim: Box<[Requests<W>]>,
    /// Requests in all of them.
    reclaim_waiting: W::U32,
    /// The group to serve next.
    reclaim_next: W::U32,
    /// Memory pressure made inodes old.
    expiry_wanted: W::U32,
    background_wanted: W::U32,
    busy: W::U32,
    last_old_flush: W::U64,
    /// Pages whose writeback completed, ever.
    pub completed: W::U64,
    bandwidth_time: W::U64,
    bandwidth_completed: W::U64,
    /// Estimated write bandwidth in pages a second, and its smoothed form.
    pub bandwidth: W::U64,
    pub average_bandwidth: W::U64,
    lock: W::Lock,
}

impl<W: World> State<W> {
    pub fn new(reclaim_groups: usize) -> Self {
        let s = Self {
            first: bytemuck::Zeroable::zeroed(),
            last: bytemuck::Zeroable::zeroed(),
            work: bytemuck::Zeroable::zeroed(),
            work_count: bytemuck::Zeroable::zeroed(),
            reclaim: (0..reclaim_groups).map(|_| Requests::new()).collect(),
            reclaim_waiting: bytemuck::Zeroable::zeroed(),
            reclaim_next: bytemuck::Zeroable::zeroed(),
            expiry_wanted: bytemuck::Zeroable::zeroed(),
            background_wanted: bytemuck::Zeroable::zeroed(),
            busy: bytemuck::Zeroable::zeroed(),
            last_old_flush: bytemuck::Zeroable::zeroed(),
            completed: bytemuck::Zeroable::zeroed(),
            bandwidth_time: bytemuck::Zeroable::zeroed(),
            bandwidth_completed: bytemuck::Zeroable::zeroed(),
            bandwidth: bytemuck::Zeroable::zeroed(),
            average_bandwidth: bytemuck::Zeroable::zeroed(),
            lock: W::Lock::default(),
        };
        for w in s.first.iter().chain(&s.last) {
            w.set(NONE);
        }
        s.bandwidth.set(25_600);
        s.average_bandwidth.set(25_600);
        s
    }
}

/// One piece of work.
#[derive(Debug, Clone, Copy)]
struct Work {
    nr_pages: i64,
    kupdate: bool,
    background: bool,
    range_cyclic: bool,
}

impl<W: World> Mm<W> {
    fn flusher_state(&self, bdi: u32) -> &State<W> {
        &self.bdis[bdi as usize].flusher
    }

    fn list_push_back(&self, bdi: u32, list: List, inode: u32) {
        let (s, m) = (self.flusher_state(bdi), &self.mappings[inode as usize]);
        let l = list as usize;
        m.on_list.set(list as u32);
        m.prev.set(s.last[l].get());
        m.next.set(NONE);
        match s.last[l].get() {
            NONE => s.first[l].set(inode),
            last => self.mappings[last as usize].next.set(inode),
        }
        s.last[l].set(inode);
    }

    fn list_del(&self, inode: u32) {
        let m = &self.mappings[inode as usize];
        let l = m.on_list.get() as usize;
        if l == 0 {
            return;
        }
        let s = self.flusher_state(m.bdi());
        match m.prev.get() {
            NONE => s.first[l].set(m.next.get()),
            p => self.mappings[p as usize].next.set(m.next.get()),
        }
        match m.next.get() {
            NONE => s.last[l].set(m.prev.get()),
            n => self.mappings[n as usize].prev.set(m.prev.get()),
        }
        m.on_list.set(0);
    }

    fn list_move(&self, list: List, inode: u32) {
        let bdi = self.mappings[inode as usize].bdi();
        self.list_del(inode);
        self.list_push_back(bdi, list, inode);
    }

    /// A page of a file became dirty: the inode joins its device's `dirty` list if it is on none.
    #[inline(always)]
    pub(crate) fn mark_inode_dirty(&self, m: &Mapping<W>, mapping: u32) {
        if m.state.get() & I_DIRTY_PAGES == 0 {
            self.mark_inode(mapping, I_DIRTY_PAGES);
        }
    }

    /// The inode's metadata became dirty.
    pub fn mark_inode_metadata_dirty(&self, mapping: u32) {
        self.mark_inode(mapping, I_DIRTY_META);
    }

    fn mark_inode(&self, mapping: u32, what: u32) {
        let m = &self.mappings[mapping as usize];
        let before = m.state.fetch_or(what);
        if before & (I_DIRTY_PAGES | I_DIRTY_META) != 0 || before & I_SYNC != 0 {
            return;
        }
        let bdi = m.bdi();
        let s = self.flusher_state(bdi);
        s.lock.with(|| {
            let was_clean = s.first.iter().all(|f| f.get() == NONE);
            m.dirtied_when.set(self.world.now());
            self.list_move(List::Dirty, mapping);
            if was_clean {
                // The first dirty inode: the flusher wakes one interval from now.
                self.world.wake(self.flusher_queue(bdi));
            }
        });
    }

    /// Back to `dirty`; as newest if its time would break the list's order.
    fn redirty_tail(&self, inode: u32) {
        let m = &self.mappings[inode as usize];
        let newest = self.flusher_state(m.bdi()).last[List::Dirty as usize].get();
        if newest != NONE
            && newest != inode
            && m.dirtied_when.get() < self.mappings[newest as usize].dirtied_when.get()
        {
            m.dirtied_when.set(self.world.now());
        }
        self.list_move(List::Dirty, inode);
    }

    /// Back to `dirty`, if it is on some list.
    fn redirty_listed(&self, inode: u32) {
        let m = &self.mappings[inode as usize];
        self.flusher_state(m.bdi()).lock.with(|| {
            if m.on_list.get() != 0 {
                self.redirty_tail(inode);
            }
        });
    }

    /// Moves parked and (old enough) dirty inodes to `io`.
    fn queue_io(&self, bdi: u32, older_than: Option<u64>) {
        let s = self.flusher_state(bdi);
        s.lock.with(|| {
            while s.first[List::MoreIo as usize].get() != NONE {
                self.list_move(List::Io, s.first[List::MoreIo as usize].get());
            }
            loop {
                let inode = s.first[List::Dirty as usize].get();
                if inode == NONE {
                    break;
                }
                let when = self.mappings[inode as usize].dirtied_when.get();
                if older_than.is_some_and(|limit| when > limit) {
                    break;
                }
                self.list_move(List::Io, inode);
            }
        });
    }

    fn has_dirty_io(&self, bdi: u32) -> bool {
        self.flusher_state(bdi)
            .first
            .iter()
            .any(|f| f.get() != NONE)
    }

    /// Whether the flusher is at work.
    pub fn flusher_busy(&self, bdi: u32) -> bool {
        self.flusher_state(bdi).busy.get() != 0
    }

    /// A dirtier found the background limit passed.
    pub(crate) fn start_background_writeback(&self, bdi: u32) {
        self.flusher_state(bdi).background_wanted.set(1);
        self.world.wake(self.flusher_queue(bdi));
    }

    /// Asks every device with dirty inodes to write `nr_pages`; 0: everything dirty.
    pub fn wakeup_flusher_threads(&self, nr_pages: u64) {
        let nr = if nr_pages == 0 {
            self.stat.global(ZoneStat::NrFileDirty).max(1)
        } else {
            nr_pages
        };
        for bdi in 0..self.bdi_count() {
            if !self.has_dirty_io(bdi) {
                continue;
            }
            let s = self.flusher_state(bdi);
            s.lock.with(|| {
                let n = s.work_count.get() as usize;
                if n < WORK_ITEMS {
                    s.work[n].set(nr);
                    s.work_count.set(n as u32 + 1);
                } else {
                    s.work[WORK_ITEMS - 1].fetch_add(nr);
                }
            });
            self.trace(|| Event::WritebackQueue {
                bdi,
                nr_pages: nr as i64,
                kupdate: false,
                background: false,
            });
            self.world.wake(self.flusher_queue(bdi));
        }
    }

    /// The group of `reclaim_flush` that a page belongs to.
    fn reclaim_group(&self, pfn: Pfn) -> Option<usize> {
        let z = self.frames.zone(pfn);
        match self.policy.reclaim_flush {
            ReclaimFlush::None => None,
            ReclaimFlush::Zone => Some(z),
            ReclaimFlush::Node => Some(self.zones[z].node as usize),
        }
    }

    /// Reclaim holds the lock of a dirty file page that it may not write.
    #[inline]
    pub(crate) fn ask_flusher_for(&self, pfn: Pfn) {
        if let Some(group) = self.reclaim_group(pfn) {
            self.request_writeback(group, pfn);
        }
    }

    #[inline(never)]
    fn request_writeback(&self, group: usize, pfn: Pfn) {
        let (mapping, index) = (self.frames.mapping(pfn), self.frames.index(pfn));
        let m = &self.mappings[mapping as usize];
        if m.state.get() & I_SYNC != 0 {
            return; // somebody is writing this file
        }
        let bdi = m.bdi();
        let s = self.flusher_state(bdi);
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

    /// Takes the oldest request of the group whose turn it is.
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

    /// Serves what reclaim asks for; returns the pages written. It ends although reclaim goes on
    /// asking: each group is served at most as often as its array is long.
    async fn serve_reclaim(&self, bdi: u32) -> u64 {
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

    /// The part of the chunk around a page, from the group's first page in it to its last.
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

    /// Writes the dirty pages around one that reclaim met. The page may be clean or gone by now.
    async fn write_around(&self, group: usize, mapping: u32, index: u32) -> u64 {
        let m = &self.mappings[mapping as usize];
        let s = self.flusher_state(m.bdi());
        if !self.mapping_tagged(mapping, Tag::Dirty) {
            return 0;
        }
        let Some((first, last)) = self.chunk_of_group(group, mapping, index) else {
            return 0;
        };
        self.world.charge(Cost::WritebackRound, 1);
        if m.state.fetch_or(I_SYNC) & I_SYNC != 0 {
            return 0; // somebody writes the file by now
        }
        let quota = i64::from(RECLAIM_CHUNK);
        let mut wbc = WritebackControl {
            range_cyclic: false,
            range_start: first,
            range_end: last,
            ..WritebackControl::pages(quota)
        };
        m.state.fetch_and(!I_DIRTY_PAGES);
        self.world.holds(WaitedKind::InodeSync, u64::from(mapping));
        self.world.writepages(self, mapping, &mut wbc).await;
        self.world
            .lets_go(WaitedKind::InodeSync, u64::from(mapping));
        s.lock.with(|| {
            m.state.fetch_and(!I_SYNC);
            if self.mapping_tagged(mapping, Tag::Dirty) {
                m.state.fetch_or(I_DIRTY_PAGES);
                if m.on_list.get() == 0 {
                    self.redirty_tail(mapping);
                }
                return;
            }
            m.state.fetch_and(!I_DIRTY_PAGES);
            if m.state.get() & I_DIRTY_META == 0 {
                self.list_del(mapping);
            } else if m.on_list.get() == 0 {
                self.redirty_tail(mapping);
            }
        });
        self.world.wake(queue::page(mapping));
        (quota - wbc.nr_to_write).max(0) as u64
    }

    /// kswapd's word for `pressure_expiry`: how far its priority fell over dirty file pages; 0 when
    /// the pass ends.
    pub(crate) fn set_dirty_pressure(&self, nid: u32, fallen: u8) {
        if !self.policy.pressure_expiry {
            return;
        }
        self.nodes[nid as usize]
            .dirty_pressure
            .set(u32::from(fallen));
        if fallen == 0 {
            return;
        }
        for bdi in 0..self.bdi_count() {
            if self.has_dirty_io(bdi) {
                self.flusher_state(bdi).expiry_wanted.set(1);
                self.world.wake(self.flusher_queue(bdi));
            }
        }
    }

    /// The age in nanoseconds at which a dirty inode is written, and whether pressure shortens it:
    /// it is halved for every step of the priority of the kswapd in the deepest trouble, as each step
    /// doubles what a scan takes from a list.
    fn expire_age(&self) -> (u64, bool) {
        let age = u64::from(self.sysctl.dirty_expire_centisecs()) * CENTISECOND;
        if !self.policy.pressure_expiry {
            return (age, false);
        }
        let fallen = self.nodes.iter().map(|n| n.dirty_pressure.get()).max();
        let fallen = fallen.unwrap_or(0).min(u32::from(DEF_PRIORITY));
        (age >> fallen, fallen > 0)
    }

    /// Whether a device's flusher has background work: dirty pages over the limit, and since 3.2 the
    /// device's own over its share of it.
    fn over_background(&self, bdi: u32) -> bool {
        let limits = self.dirty_limits();
        self.stat.global(ZoneStat::NrFileDirty) > limits.background
            || (self.policy.dirty_throttle == DirtyThrottle::Sleep
                && self.bdi_stat(bdi, BdiStat::Reclaimable)
                    > self.bdi_dirty_limit(bdi, limits.background))
    }

    /// The life of a flusher. Never returns.
    pub async fn flusher(&self, bdi: u32) {
        let s = self.flusher_state(bdi);
        loop {
            let interval = u64::from(self.sysctl.dirty_writeback_centisecs()) * CENTISECOND;
            let ticket = self.world.ticket(self.flusher_queue(bdi));
            s.busy.set(1);
            let wrote = self.do_writeback(bdi, interval).await;
            s.busy.set(0);
            if s.work_count.get() > 0
                || s.reclaim_waiting.get() > 0
                || (wrote && s.background_wanted.get() != 0)
            {
                continue;
            }
            let interval = u64::from(self.sysctl.dirty_writeback_centisecs()) * CENTISECOND;
            let timeout = (interval > 0 && self.has_dirty_io(bdi)).then_some(interval);
            self.world
                .wait(self.flusher_queue(bdi), ticket, timeout)
                .await;
        }
    }

    /// Queued items, then periodic, then background writeback.
    async fn do_writeback(&self, bdi: u32, interval: u64) -> bool {
        let s = self.flusher_state(bdi);
        let mut wrote = self.serve_reclaim(bdi).await;
        while s.work_count.get() > 0 {
            let nr = s.lock.with(|| {
                let (n, nr) = (s.work_count.get() as usize, s.work[0].get());
                for i in 1..n {
                    s.work[i - 1].set(s.work[i].get());
                }
                s.work_count.set(n as u32 - 1);
                nr
            });
            let work = Work {
                nr_pages: nr as i64,
                kupdate: false,
                background: false,
                range_cyclic: false,
            };
            wrote += self.wb_writeback(bdi, work).await;
        }
        let now = self.world.now();
        let due = interval > 0 && now >= s.last_old_flush.get() + interval;
        let pressed = s.expiry_wanted.get() != 0;
        s.expiry_wanted.set(0);
        if due || pressed {
            if due {
                s.last_old_flush.set(now);
            }
            let nr = self.stat.global(ZoneStat::NrFileDirty) + u64::from(self.mapping_count());
            let work = Work {
                nr_pages: nr as i64,
                kupdate: true,
                background: false,
                range_cyclic: true,
            };
            wrote += self.wb_writeback(bdi, work).await;
        }
        s.background_wanted.set(0);
        if self.over_background(bdi) {
            let work = Work {
                nr_pages: i64::MAX,
                kupdate: false,
                background: true,
                range_cyclic: true,
            };
            wrote += self.wb_writeback(bdi, work).await;
        }
        wrote > 0
    }

    /// The slice one inode may use (3.1): about half a second of I/O.
    fn writeback_chunk_size(&self, bdi: u32, nr_pages: i64) -> u64 {
        let half = self.flusher_state(bdi).average_bandwidth.get() / 2;
        let pages = half
            .min(self.dirty_limits().dirty / 8)
            .min(nr_pages.max(0) as u64);
        (pages + MAX_WRITEBACK_PAGES) / MAX_WRITEBACK_PAGES * MAX_WRITEBACK_PAGES
    }

    /// Writes one piece of work slice by slice; returns the pages written.
    async fn wb_writeback(&self, bdi: u32, mut work: Work) -> u64 {
        let s = self.flusher_state(bdi);
        let start = self.world.now();
        let mut wrote = 0u64;
        self.observe(Event::WritebackStart {
            bdi,
            nr_pages: work.nr_pages,
            kupdate: work.kupdate,
            background: work.background,
        });
        while work.nr_pages > 0 {
            if (work.background || work.kupdate) && s.work_count.get() > 0 {
                break;
            }
            if work.background && !self.over_background(bdi) {
                break;
            }
            wrote += self.serve_reclaim(bdi).await;
            let (age, pressed) = self.expire_age();
            let older = work.kupdate.then(|| self.world.now().saturating_sub(age));
            let empty = s.first[List::Io as usize].get() == NONE;
            let refill = match self.policy.flusher_slice {
                FlusherSlice::Shared => !work.kupdate || empty,
                FlusherSlice::PerInode => empty,
            };
            if refill {
                self.queue_io(bdi, older);
            }
            let slice = self.writeback_slice(bdi, &work, start).await;
            wrote += slice.written;
            work.nr_pages -= slice.written as i64;
            if work.kupdate && pressed {
                self.stat.event(VmEvent::PressureExpired, slice.written);
            }
            self.update_bandwidth(bdi);
            self.observe(Event::WritebackWritten {
                bdi,
                nr_pages: slice.written as i64,
                kupdate: work.kupdate,
                background: work.background,
            });
            self.world.relax().await;
            if slice.written > 0 && (slice.used_up || slice.more_io) {
                continue;
            }
            if self.policy.flusher_slice == FlusherSlice::PerInode && slice.written > 0 {
                continue;
            }
            // A pass of 3.0 that visited no inode ends the work: those it left are too young.
            if self.policy.flusher_slice == FlusherSlice::Shared && !slice.more_io {
                break;
            }
            let parked = s.first[List::MoreIo as usize].get();
            if parked == NONE {
                break;
            }
            // Nothing was written: wait for some inode that another task writes.
            self.wait_for_inode(parked).await;
        }
        wrote
    }

    async fn wait_for_inode(&self, inode: u32) {
        loop {
            let q = queue::page(inode);
            let ticket = self.world.ticket(q);
            if self.mappings[inode as usize].state.get() & I_SYNC == 0 {
                return;
            }
            self.world
                .waits_on(Waited::on(WaitedKind::InodeSync, u64::from(inode)));
            self.world.wait(q, ticket, None).await;
        }
    }

    /// Writes inodes from `io` until the slice is used up.
    async fn writeback_slice(&self, bdi: u32, work: &Work, start: u64) -> Slice {
        let s = self.flusher_state(bdi);
        let per_inode = self.policy.flusher_slice == FlusherSlice::PerInode;
        let begun = self.world.now();
        let mut out = Slice::default();
        let mut left = MAX_WRITEBACK_PAGES as i64;
        loop {
            let inode = s.first[List::Io as usize].get();
            if inode == NONE {
                break;
            }
            let m = &self.mappings[inode as usize];
            // Inodes dirtied after the work began end the pass (livelock guard, 3.0).
            if !per_inode && m.dirtied_when.get() > start {
                break;
            }
            let quota = if per_inode {
                self.writeback_chunk_size(bdi, work.nr_pages - out.written as i64) as i64
            } else {
                left
            };
            let mut wbc = WritebackControl {
                range_cyclic: work.range_cyclic,
                for_kupdate: work.kupdate,
                for_background: work.background,
                ..WritebackControl::pages(quota)
            };
            self.writeback_single_inode(inode, &mut wbc).await;
            let written = (quota - wbc.nr_to_write).max(0);
            out.written += written as u64;
            left -= written;
            if wbc.pages_skipped > 0 {
                self.redirty_listed(inode);
            }
            out.more_io = s.first[List::MoreIo as usize].get() != NONE;
            self.world.relax().await;
            if per_inode {
                // A tenth of a second at a time, and no more than asked for.
                if out.written > 0
                    && (self.world.now().saturating_sub(begun) > self.tick_fraction(10)
                        || out.written as i64 >= work.nr_pages)
                {
                    out.used_up = true;
                    break;
                }
            } else if left <= 0 {
                out.used_up = true;
                break;
            }
        }
        out
    }

    /// Writes one inode and puts it on the list where it belongs afterwards.
    async fn writeback_single_inode(&self, inode: u32, wbc: &mut WritebackControl) {
        let m = &self.mappings[inode as usize];
        let s = self.flusher_state(m.bdi());
        self.world.charge(Cost::WritebackRound, 1);
        if m.state.fetch_or(I_SYNC) & I_SYNC != 0 {
            s.lock.with(|| self.list_move(List::MoreIo, inode));
            return;
        }
        m.state.fetch_and(!(I_DIRTY_PAGES | I_DIRTY_META));
        self.world.holds(WaitedKind::InodeSync, u64::from(inode));
        self.world.writepages(self, inode, wbc).await;
        self.world.lets_go(WaitedKind::InodeSync, u64::from(inode));
        s.lock.with(|| {
            m.state.fetch_and(!I_SYNC);
            if self.mapping_tagged(inode, Tag::Dirty) {
                m.state.fetch_or(I_DIRTY_PAGES);
                if wbc.nr_to_write <= 0 {
                    self.list_move(List::MoreIo, inode);
                } else {
                    self.redirty_tail(inode);
                }
            } else if m.state.get() & (I_DIRTY_PAGES | I_DIRTY_META) != 0 {
                m.state.fetch_and(!I_DIRTY_PAGES);
                if m.state.get() & I_DIRTY_META != 0 {
                    self.redirty_tail(inode);
                } else {
                    self.list_del(inode);
                }
            } else {
                self.list_del(inode);
            }
        });
        self.world.wake(queue::page(inode));
        self.inode_cleaned_by_flusher(inode);
    }

    /// A throttled dirtier writes up to `nr` pages of a device itself.
    pub(crate) async fn writeback_inodes_by_task(&self, bdi: u32, nr: u64) -> u64 {
        let s = self.flusher_state(bdi);
        let task = self.current();
        task.writing_to.set(bdi + 1);
        if self.policy.flusher_slice == FlusherSlice::Shared
            || s.first[List::Io as usize].get() == NONE
        {
            self.queue_io(bdi, None);
        }
        let start = self.world.now();
        let mut left = nr as i64;
        // Each inode is visited once at most: an inode that somebody else writes is parked.
        while left > 0 {
            let inode = s.first[List::Io as usize].get();
            if inode == NONE || self.mappings[inode as usize].dirtied_when.get() > start {
                break;
            }
            let mut wbc = WritebackControl::pages(left);
            self.writeback_single_inode(inode, &mut wbc).await;
            if wbc.pages_skipped > 0 {
                self.redirty_listed(inode);
            }
            left = wbc.nr_to_write;
        }
        task.writing_to.set(0);
        self.update_bandwidth(bdi);
        (nr as i64 - left).max(0) as u64
    }

    /// Writes every dirty page of one file and waits for it (fsync). Returns whether all its
    /// pages reached the device.
    pub async fn sync_mapping(&self, mapping: u32) -> bool {
        let m = &self.mappings[mapping as usize];
        while m.state.fetch_or(I_SYNC) & I_SYNC != 0 {
            self.wait_for_inode(mapping).await;
        }
        let mut wbc = WritebackControl {
            range_cyclic: false,
            sync_all: true,
            ..WritebackControl::pages(i64::MAX)
        };
        m.state.fetch_and(!(I_DIRTY_PAGES | I_DIRTY_META));
        self.world.holds(WaitedKind::InodeSync, u64::from(mapping));
        self.world.writepages(self, mapping, &mut wbc).await;
        self.world
            .lets_go(WaitedKind::InodeSync, u64::from(mapping));
        self.flusher_state(m.bdi()).lock.with(|| {
            m.state.fetch_and(!I_SYNC);
            if self.mapping_tagged(mapping, Tag::Dirty) {
                m.state.fetch_or(I_DIRTY_PAGES);
                self.redirty_tail(mapping);
                return;
            }
            // Pages that became dirty under I_SYNC are written too; the bit must not outlive them,
            // or the next one would not bring the inode to a list.
            m.state.fetch_and(!I_DIRTY_PAGES);
            if m.state.get() & I_DIRTY_META != 0 {
                self.redirty_tail(mapping);
            } else {
                self.list_del(mapping);
            }
        });
        self.world.wake(queue::page(mapping));
        self.inode_cleaned_by_flusher(mapping);
        let mut from = 0;
        while let Some(index) = self.next_tagged(mapping, Tag::Writeback, from) {
            if let Some(pfn) = self.find_page(mapping, index) {
                self.wait_on_page_writeback(pfn).await;
            }
            let Some(next) = index.checked_add(1) else {
                break;
            };
            from = next;
        }
        m.state.fetch_and(!crate::mapping::AS_EIO) & crate::mapping::AS_EIO == 0
    }

    /// Keeps the flusher from an inode whose file is about to be cut, and waits until none of it is
    /// under writeback. The inode stays on its list; [`Mm::release_inode`] follows.
    pub async fn hold_inode(&self, mapping: u32) {
        let m = &self.mappings[mapping as usize];
        while m.state.fetch_or(I_SYNC) & I_SYNC != 0 {
            self.wait_for_inode(mapping).await;
        }
        self.world.holds(WaitedKind::InodeSync, u64::from(mapping));
        while let Some(index) = self.next_tagged(mapping, Tag::Writeback, 0) {
            if let Some(pfn) = self.find_page(mapping, index) {
                self.wait_on_page_writeback(pfn).await;
            }
        }
    }

    /// After [`Mm::hold_inode`] and the cut: the inode is off the flusher's lists, unless dirty
    /// pages are left.
    pub fn release_inode(&self, mapping: u32) {
        let m = &self.mappings[mapping as usize];
        self.flusher_state(m.bdi())
            .lock
            .with(|| self.list_del(mapping));
        m.state.set(0);
        self.world
            .lets_go(WaitedKind::InodeSync, u64::from(mapping));
        if self.mapping_tagged(mapping, Tag::Dirty) {
            self.mark_inode_dirty(m, mapping);
        }
        self.world.wake(queue::page(mapping));
    }

    /// The device's write bandwidth: pages completed, averaged over about three seconds and
    /// smoothed (docs/reference/writeback.md#sleeping-dirtiers), updated at most every 200 ms.
    pub(crate) fn update_bandwidth(&self, bdi: u32) {
        let s = self.flusher_state(bdi);
        s.lock.with(|| self.measure_bandwidth(s));
    }

    fn measure_bandwidth(&self, s: &State<W>) {
        let now = self.world.now();
        // The task that measured last may have been on a CPU whose clock is ahead.
        let elapsed = now.saturating_sub(s.bandwidth_time.get());
        if elapsed < 200_000_000 {
            return;
        }
        let written = s.completed.get() - s.bandwidth_completed.get();
        s.bandwidth_time.set(now);
        s.bandwidth_completed.set(s.completed.get());
        let hz = self.config.hz;
        let ticks = (elapsed / self.tick()).max(1);
        let period = (3 * hz).next_power_of_two();
        let old = s.bandwidth.get();
        let bw = if ticks > period {
            written * hz / ticks
        } else {
            (written * hz + old * (period - ticks)) / period
        };
        let mut avg = s.average_bandwidth.get();
        if avg > old && old >= bw {
            avg -= (avg - old) / 8;
        }
        if avg < old && old <= bw {
            avg += (old - avg) / 8;
        }
        s.bandwidth.set(bw);
        s.average_bandwidth.set(avg);
    }

    /// Checks the lists' links and that exactly the dirty inodes are on them. Returns errors.
    pub(crate) fn check_flusher(&self, bdi: u32) -> Result<(), String> {
        let s = self.flusher_state(bdi);
        for list in [List::Dirty, List::Io, List::MoreIo] {
            let (mut at, mut prev, mut n) = (s.first[list as usize].get(), NONE, 0);
            while at != NONE {
                let m = &self.mappings[at as usize];
                if m.on_list.get() != list as u32 || m.prev.get() != prev || m.bdi() != bdi {
                    return Err(format!("bdi {bdi}: inode {at} is linked wrongly"));
                }
                prev = at;
                at = m.next.get();
                n += 1;
                if n > self.mapping_count() {
                    return Err(format!("bdi {bdi}: list {list:?} is a ring"));
                }
            }
            if s.last[list as usize].get() != prev {
                return Err(format!("bdi {bdi}: list {list:?} ends elsewhere"));
            }
        }
        self.check_requests(bdi)?;
        for id in 0..self.mapping_count() {
            let m = &self.mappings[id as usize];
            if m.bdi() == bdi
                && m.on_list.get() == 0
                && m.state.get() & I_SYNC == 0
                && self.mapping_tagged(id, Tag::Dirty)
            {
                return Err(format!("inode {id} has dirty pages and is on no list"));
            }
        }
        Ok(())
    }
}

impl<W: World> Mm<W> {
    /// Checks that the requests of reclaim are of this device's files, no two of a group for the same
    /// pages, and as many as are counted.
    fn check_requests(&self, bdi: u32) -> Result<(), String> {
        let s = self.flusher_state(bdi);
        let mut waiting = 0;
        for (group, requests) in s.reclaim.iter().enumerate() {
            let n = requests.count.get() as usize;
            if n > RECLAIM_REQUESTS {
                return Err(format!("bdi {bdi}: {n} requests of reclaim {group}"));
            }
            waiting += n as u32;
            let chunk = |i| {
                let (mapping, index) = requests.get(i);
                (mapping, index / RECLAIM_CHUNK)
            };
            for i in 0..n {
                let (mapping, _) = chunk(i);
                if mapping >= self.mapping_count() || self.mappings[mapping as usize].bdi() != bdi {
                    return Err(format!("bdi {bdi}: a request names file {mapping}"));
                }
                if (0..i).any(|before| chunk(before) == chunk(i)) {
                    return Err(format!("bdi {bdi}: file {mapping} is asked for twice"));
                }
            }
        }
        if waiting != s.reclaim_waiting.get() {
            return Err(format!(
                "bdi {bdi}: {waiting} requests of reclaim, counted {}",
                s.reclaim_waiting.get()
            ));
        }
        Ok(())
    }
}

/// What a slice did.
#[derive(Debug, Default, Clone, Copy)]
struct Slice {
    written: u64,
    used_up: bool,
    more_io: bool,
}

/// The state that all devices share.
pub(crate) struct Shared<W: World> {
    pub completions: crate::proportion::Global<W>,
    pub dirties: crate::proportion::Global<W>,
    pub dirtied_on_cpu: Box<[W::U32]>,
    pub ratelimit: W::U32,
    /// The dirty limit as dirtiers of 3.2 see it fall, and when it last did.
    pub limit: W::U64,
    pub limit_time: W::U64,
}

impl<W: World> Shared<W> {
    pub fn new(cpus: usize) -> Self {
        Self {
            completions: crate::proportion::Global::new(),
            dirties: crate::proportion::Global::new(),
            dirtied_on_cpu: bytemuck::zeroed_slice_box(cpus),
            ratelimit: bytemuck::Zeroable::zeroed(),
            limit: bytemuck::Zeroable::zeroed(),
            limit_time: bytemuck::Zeroable::zeroed(),
        }
    }
}
