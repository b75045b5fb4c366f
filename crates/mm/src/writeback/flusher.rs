//! The flusher: one task for each backing device, which writes dirty inodes
//! (docs/reference/writeback.md#flusher).
//!
//! Inodes wait in three lists: `dirty` in the order in which they were dirtied, `io` while they are
//! being serviced, `more_io` when their slice has run out. Throttled dirtiers of the 3.0 era walk
//! the same lists themselves.
//!
//! With `reclaim_flush`, reclaim leaves requests for dirty pages that it met: a file and an index,
//! in an array of fixed length for each zone or node (`Requests`). The flusher serves them before
//! each piece of work and between its slices, one group after the other. (The form, with 1024 pages
//! around the page, is that of Wu Fengguang's "writeback: introduce the pageout work", 2012, which
//! was not merged; the groups are Lowmark's.) Serving a request leaves the inode at its place in
//! its list.

use super::queues::{List, NONE};
use crate::cache::mapping::I_DIRTY_RECLAIM;
use crate::policy::{DirtyThrottle, ExpireTarget, FirstDirty, FlusherSlice, FlusherWake};
use crate::reclaim::scan::DEF_PRIORITY;
use crate::watch::vmstat::{VmEvent, ZoneStat};
use crate::world::event::Event;
use crate::world::{Audience, ShortLock, Word32, Word64, World, WritebackControl};
use crate::writeback::bdi::BdiStat;
use crate::writeback::queues::WORK_ITEMS;
use crate::{CENTISECOND, Mm};

/// Pages of one slice (3.0); the least and the unit of one inode's slice (3.1).
const MAX_WRITEBACK_PAGES: u64 = 1024;
/// One piece of work of the flusher.
#[derive(Debug, Clone, Copy)]
struct Work {
    /// Pages to write.
    nr_pages: i64,
    /// Periodic work: only inodes that have expired.
    kupdate: bool,
    /// Background work: until the dirty pages are below the background limit.
    background: bool,
    /// Whether each file is continued where its last write ended.
    range_cyclic: bool,
}

impl<W: World> Mm<W> {
    /// Returns true if the flusher of a device is at work.
    pub fn flusher_busy(&self, bdi: u32) -> bool {
        self.flusher_state(bdi).busy.get() != 0
    }

    /// Wakes a device's flusher because a dirtier found the background limit exceeded.
    pub(crate) fn start_background_writeback(&self, bdi: u32) {
        self.flusher_state(bdi).background_wanted.set(1);
        self.world.wake(self.flusher_queue(bdi));
    }

    /// Asks the flusher of every device with dirty inodes to write `nr_pages`; 0: everything dirty.
    pub fn wakeup_flusher_threads(&self, nr_pages: u64) {
        let nr = if nr_pages == 0 {
            self.stat.global(ZoneStat::NrFileDirty).max(1)
        } else {
            nr_pages
        };
        for bdi in 0..self.bdi_count() {
            if self.has_dirty_io(bdi) {
                self.queue_writeback(bdi, nr, nr_pages == 0);
            }
        }
    }

    /// Asks a device's flusher to write `nr_pages`, at least one, unless work is queued that it has
    /// not begun.
    pub fn start_writeback_of(&self, bdi: u32, nr_pages: u64) {
        debug_assert!(bdi < self.bdi_count() && nr_pages > 0);
        if self.flusher_state(bdi).work_count.get() == 0 {
            self.queue_writeback(bdi, nr_pages, false);
        }
    }

    /// Queues a work item for a device's flusher and wakes it. `nr`: pages to write; `all`: the
    /// item asks for everything dirty, and with `FlusherWake::TailDirty` it is dropped if any item
    /// waits. A full queue adds `nr` to its last item.
    fn queue_writeback(&self, bdi: u32, nr: u64, all: bool) {
        let s = self.flusher_state(bdi);
        s.lock.with(|| {
            let n = s.work_count.get() as usize;
            if n > 0 && all && self.policy.flusher_wake == FlusherWake::TailDirty {
                return; // everything is to be written already (`WB_start_all`)
            }
            if n < WORK_ITEMS {
                s.work[n].set(nr);
                s.work_count.set(n as u32 + 1);
            } else {
                s.work[WORK_ITEMS - 1].fetch_add(nr);
            }
        });
        self.emit(Audience::Traces, || Event::WritebackQueue {
            bdi,
            nr_pages: nr as i64,
            kupdate: false,
            background: false,
        });
        self.world.wake(self.flusher_queue(bdi));
    }

    /// Records how many steps the priority of a node's kswapd fell because of dirty file pages, and
    /// wakes the flushers that have dirty inodes, so that inodes expire sooner (`pressure_expiry`).
    /// `fallen`: 0 when the kswapd pass ends; then nothing is woken.
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

    /// Returns the age in nanoseconds at which a dirty inode is written, and true if memory
    /// pressure shortens it. With `pressure_expiry` the age is halved for every step that the
    /// priority of the kswapd in the deepest trouble has fallen, as each step doubles the share of
    /// a list that is scanned.
    fn expire_age(&self) -> (u64, bool) {
        let age = u64::from(self.sysctl.dirty_expire_centisecs()) * CENTISECOND;
        if !self.policy.pressure_expiry {
            return (age, false);
        }
        let fallen = self.nodes.iter().map(|n| n.dirty_pressure.get()).max();
        let fallen = fallen.unwrap_or(0).min(u32::from(DEF_PRIORITY));
        (age >> fallen, fallen > 0)
    }

    /// Returns true if a device's flusher has background work: more dirty pages in the machine than
    /// the background limit, or, since 3.2, more of the device's than its share of that limit; or
    /// so many in a memory control group.
    fn over_background(&self, bdi: u32) -> bool {
        let limits = self.dirty_limits();
        let reclaimable = self.stat.global(ZoneStat::NrFileDirty);
        let over = reclaimable > limits.background
            || (self.policy.dirty_throttle == DirtyThrottle::Sleep
                && self.bdi_stat(bdi, BdiStat::Reclaimable)
                    > self.bdi_dirty_limit(bdi, limits.background));
        over || self.has_groups() && {
            let dirty = reclaimable + self.stat.global(ZoneStat::NrWriteback);
            self.groups_over_background(bdi, limits, dirty)
        }
    }

    /// Returns the time between two periodic passes in nanoseconds, by the sysctl's present value;
    /// 0: there are none.
    fn writeback_interval(&self) -> u64 {
        u64::from(self.sysctl.dirty_writeback_centisecs()) * CENTISECOND
    }

    /// Runs the flusher of a device: does what writeback is due, then waits until it is woken or
    /// the interval of periodic writeback has passed. Never returns.
    pub async fn flusher(&self, bdi: u32) {
        debug_assert!(bdi < self.bdi_count(), "device {bdi} does not exist");
        let s = self.flusher_state(bdi);
        loop {
            // Taken before the work, so that work queued meanwhile ends the wait at once.
            let ticket = self.world.ticket(self.flusher_queue(bdi));
            s.busy.set(1);
            let wrote = self.do_writeback(bdi, self.writeback_interval()).await;
            s.busy.set(0);
            if s.work_count.get() > 0
                || s.reclaim_waiting.get() > 0
                || (wrote && s.background_wanted.get() != 0)
            {
                continue;
            }
            self.flusher_waits(bdi, ticket).await;
        }
    }

    /// Puts the flusher to sleep until it has work; if there are dirty inodes, for the interval of
    /// periodic writeback at most. `ticket`: taken before the flusher last looked for work, so that
    /// no wake-up is lost. With `FirstDirty::Timer` a wake-up for the first dirty inode only sets
    /// the timer.
    async fn flusher_waits(&self, bdi: u32, mut ticket: u64) {
        let s = self.flusher_state(bdi);
        s.first_dirty.set(0);
        loop {
            let interval = self.writeback_interval();
            let timeout = (interval > 0 && self.has_dirty_io(bdi)).then_some(interval);
            let q = self.flusher_queue(bdi);
            let woken = self.world.wait(q, ticket, timeout).await;
            // The ticket is taken before the test for work: work that is queued later wakes the
            // flusher again.
            ticket = self.world.ticket(q);
            let timer = self.policy.first_dirty == FirstDirty::Timer;
            let sets_timer = timer && woken && s.first_dirty.get() != 0;
            s.first_dirty.set(0);
            if !sets_timer || self.flusher_wanted(bdi) {
                return;
            }
        }
    }

    /// Sets the timer of a flusher that has its first dirty inode, in a world that need not wake
    /// the flusher for that (`wb_wakeup_delayed`). Returns false if nothing was done.
    pub(super) fn sets_flusher_timer(&self, bdi: u32) -> bool {
        let interval = self.writeback_interval();
        self.policy.first_dirty == FirstDirty::Timer
            && interval > 0
            && self.world.set_timer(self.flusher_queue(bdi), interval)
    }

    /// Returns true if the flusher of a device was asked for writeback that it has not begun:
    /// queued work, requests of reclaim, background writeback, or inodes that expire early.
    fn flusher_wanted(&self, bdi: u32) -> bool {
        let s = self.flusher_state(bdi);
        let asked = [
            &s.work_count,
            &s.reclaim_waiting,
            &s.background_wanted,
            &s.expiry_wanted,
        ];
        asked.into_iter().any(|asked| asked.get() != 0)
    }

    /// Checks that a flusher does not wait although it was asked for writeback.
    ///
    /// # Errors
    /// The flusher waits in vain.
    pub(crate) fn check_flusher_waits(&self, bdi: u32) -> Result<(), String> {
        match self.flusher_wanted(bdi) && self.world.waited_on(self.flusher_queue(bdi)) {
            true => Err(format!(
                "the flusher of device {bdi} waits in vain: it was asked for writeback"
            )),
            false => Ok(()),
        }
    }

    /// Does all due work of a device's flusher: requests of reclaim, queued items, then periodic
    /// writeback, if its `interval` (ns; 0: never) has passed, then background writeback. Returns
    /// true if any page was written.
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

    /// Returns how many pages one inode may write in its slice (3.1): about half a second of I/O,
    /// and at most an eighth of the limit that dirtiers are held to (in 3.2 the slowly falling one)
    /// and `nr_pages`, then rounded up to whole units of 1024 pages.
    fn writeback_chunk_size(&self, bdi: u32, nr_pages: i64) -> u64 {
        let half_second = self.write_bandwidth(bdi) / 2;
        let limit = match self.policy.dirty_throttle {
            DirtyThrottle::Sleep => self.writeback.limit.get(),
            DirtyThrottle::Write => self.dirty_limits().dirty,
        };
        let pages = half_second.min(limit / 8).min(nr_pages.max(0) as u64);
        (pages + MAX_WRITEBACK_PAGES) / MAX_WRITEBACK_PAGES * MAX_WRITEBACK_PAGES
    }

    /// Writes one piece of work slice by slice (`wb_writeback`); returns the pages written. The
    /// work ends when its pages are written, nothing due is left, a background limit is no longer
    /// exceeded, or, for periodic and background work, other work is queued.
    async fn wb_writeback(&self, bdi: u32, mut work: Work) -> u64 {
        let s = self.flusher_state(bdi);
        let work_began = self.world.now();
        let mut wrote = 0u64;
        self.emit(Audience::Slowest, || Event::WritebackStart {
            bdi,
            nr_pages: work.nr_pages,
            kupdate: work.kupdate,
            background: work.background,
        });
        self.world.start_plug();
        while work.nr_pages > 0 {
            if (work.background || work.kupdate) && s.work_count.get() > 0 {
                break;
            }
            if work.background && !self.over_background(bdi) {
                break;
            }
            wrote += self.serve_reclaim(bdi).await;
            let (age, pressed) = self.expire_age();
            // Inodes dirtied up to this time (ns) are due; `None`: all are.
            let older = match (work.kupdate, self.policy.expire_target) {
                (true, ExpireTarget::AtStart) => Some(work_began.saturating_sub(age)),
                (true, _) => Some(self.world.now().saturating_sub(age)),
                (false, ExpireTarget::Background) if work.background => {
                    Some(self.moving_target(bdi, age))
                }
                (false, _) => None,
            };
            let empty = s.first[List::Io as usize].get() == NONE;
            // Whether due inodes move to the list `io` before this slice.
            let refill = match self.policy.flusher_slice {
                FlusherSlice::Shared => !work.kupdate || empty,
                FlusherSlice::PerInode => empty,
            };
            if refill {
                self.queue_io(bdi, older);
            }
            let slice = self.writeback_slice(bdi, &work, work_began).await;
            wrote += slice.written;
            work.nr_pages -= slice.written as i64;
            if work.kupdate && pressed {
                self.stat.event(VmEvent::PressureExpired, slice.written);
            }
            self.update_bandwidth(bdi);
            self.emit(Audience::Slowest, || Event::WritebackWritten {
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
            // In 3.0 a pass that visited no inode ends the work: the inodes left are too young.
            if self.policy.flusher_slice == FlusherSlice::Shared && !slice.more_io {
                break;
            }
            let parked = s.first[List::MoreIo as usize].get();
            if parked == NONE {
                break;
            }
            // Nothing was written: wait for an inode that another task is writing.
            self.wait_for_inode(parked).await;
        }
        self.world.finish_plug();
        wrote
    }

    /// Writes inodes of the list `io` until it is empty or the slice is used up: 1024 pages for all
    /// inodes together (3.0), or a tenth of a second with a chunk for each inode (3.1).
    /// `work_began`: when the piece of work began (ns). Returns the pages written and why the slice
    /// ended.
    async fn writeback_slice(&self, bdi: u32, work: &Work, work_began: u64) -> Slice {
        let s = self.flusher_state(bdi);
        let per_inode = self.policy.flusher_slice == FlusherSlice::PerInode;
        let slice_began = self.world.now();
        let mut out = Slice::default();
        let mut left = MAX_WRITEBACK_PAGES as i64;
        loop {
            let inode = s.first[List::Io as usize].get();
            if inode == NONE {
                break;
            }
            let m = &self.mappings[inode as usize];
            // Inodes dirtied after the work began end the pass (livelock guard, 3.0).
            if !per_inode && m.dirtied_when.get() > work_began {
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
            let for_reclaim = m.state.get() & I_DIRTY_RECLAIM != 0;
            self.writeback_single_inode(inode, &mut wbc).await;
            let written = (quota - wbc.nr_to_write).max(0);
            out.written += written as u64;
            if for_reclaim {
                self.stat
                    .event(VmEvent::ReclaimFlushWritten, written as u64);
            }
            left -= written;
            if wbc.pages_skipped > 0 {
                self.redirty_listed(inode);
            }
            out.more_io = s.first[List::MoreIo as usize].get() != NONE;
            self.world.cond_flush_plug();
            self.world.relax().await;
            if per_inode {
                // The slice ends after a tenth of a second, or when the pages asked for are
                // written.
                if out.written > 0
                    && (self.world.now().saturating_sub(slice_began) > self.tick_fraction(10)
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

    /// Writes up to `nr` pages of a device's dirty inodes in the calling task, a throttled dirtier
    /// of 3.0. Returns the pages written.
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
        // Each inode is visited once at most: an inode that another task is writing is moved to
        // `more_io`.
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
}

/// The result of a slice.
#[derive(Debug, Default, Clone, Copy)]
struct Slice {
    /// Pages written.
    written: u64,
    /// The slice ended because its pages or its time were used up.
    used_up: bool,
    /// Inodes wait in `more_io`.
    more_io: bool,
}
