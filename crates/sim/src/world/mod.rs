//! The virtual world: implements the traits through which the engine asks for time, tasks, storage
//! and tracing, with simulated time and state in plain cells.

mod costs;
pub mod kblockd;
mod listener;
pub mod own_queue;
mod plug;
mod submit;
mod tag;
mod told;
mod watch;

pub use costs::CallCosts;
use costs::cost_table;
pub use listener::{Listener, Listening, Moment};
pub use tag::Tag;

use crate::account::Reclaim;
use crate::block::{self, Dir, Done, IoContext, Queue, Volume};
use crate::filesystems::ioend::IoEnds;
use crate::filesystems::{Dropped, Fs, MapWindows, Reuse};
use crate::latency::AllocLatencies;
use crate::params::Params;
use crate::rng::Rng;
use crate::sched::{Event as SchedEvent, Sched};
use crate::slowest::{Actor, Did, Slowest};
use crate::stack::Stacks;
use mm::memory::frame::flag;
use mm::policy::Ext4Writeback;
use mm::watch::vmstat::VmEvent;
use mm::world::event::Event;
use mm::world::{
    COSTS, Class, Cost, OomKill, ShortLock, Storage, TaskId, Tasks, WaitQueue, Waited, WaitedKind,
    Waits, World, WritebackControl, Writepage,
};
use mm::world::{Faulted, ReadAround, Touched};
use mm::{Mm, Pfn};
use plug::Plugs;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;

/// A lock that does nothing: the virtual world runs one task at a time.
#[derive(Default)]
pub struct NoLock;

impl ShortLock for NoLock {
    #[inline(always)]
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }
}

/// Number of events that the trace ring holds.
pub const TRACE_RING: usize = 1 << 20;

/// Converts the engine's request class to the request queue's.
fn queue_class(class: Class) -> block::Class {
    match class {
        Class::Sync => block::Class::Sync,
        Class::Async => block::Class::Async,
    }
}

/// A block device of a volume, with what the world keeps about it.
pub struct Device {
    /// The device's request queue.
    pub queue: Queue,
    rng: Rng,
    /// Each task's standing with this queue: its right to allocate a batch of requests.
    contexts: Vec<IoContext>,
    scheduled: u64,
    /// True if requests wait for the worker to dispatch them ([`kblockd`]).
    waits_for_worker: bool,
}

/// The engine in the virtual world.
pub type SimMm<const T: bool> = Mm<SimWorld<T>>;

/// The virtual world.
pub struct SimWorld<const TRACE: bool> {
    /// The scheduler: simulated time and tasks.
    pub sched: Sched,
    costs: [u64; COSTS],
    /// CPU costs of the workload's system calls.
    pub calls: CallCosts,
    /// CPU time that recording one event takes, in nanoseconds; 0 without monitors.
    pub record_event: u64,
    /// Writes to the swap area are throttled by the task that submits them: as writeback unless
    /// kswapd does (`writeback_throttling = "wbt"`).
    pub wbt_by_task: bool,
    /// Requests of tasks without a plug are left to the worker to dispatch ([`kblockd`]).
    pub left_to_worker: bool,
    /// Events that monitors recorded.
    pub watched: Cell<u64>,
    /// Bytes that programs read from files, wrote to files and touched in mappings (a page each).
    pub moved: Cell<u64>,
    /// The wall clock at boot, in nanoseconds since the epoch.
    pub booted: u64,
    /// The block devices, those of one volume in a row.
    pub devices: RefCell<Vec<Device>>,
    /// The volumes as filesystems and swap see them; volume 0 is the tested one.
    pub volumes: Vec<Volume>,
    /// Sectors of log blocks that were written but not part of a log record, by volume; and those
    /// not yet subtracted from a counter ([`Self::write_record`]).
    sectors_beside: (Vec<Cell<u64>>, Cell<u64>),
    /// The filesystems in the order of mounting: the tested one, mounted on `/`, is first.
    pub fs: Vec<Fs>,
    /// Volume and first block of the swap area.
    pub swap_area: (u32, u64),
    /// Pages that were read ahead and reclaimed before they were used.
    pub dropped: Dropped,
    /// Read-ahead windows of mapped files, by region.
    pub map_windows: MapWindows,
    /// Ends: groups of pages that leave writeback together.
    pub ends: IoEnds,
    /// Hits, misses and reuse in the page cache, if the run records them.
    pub reuse: Reuse,
    /// First wait queue that belongs to the world.
    pub queue_base: u32,
    /// Number of tasks that the world has room for.
    tasks: u32,
    plugs: Plugs,
    /// The filesystem of each bdi, by its number.
    fs_of_bdi: RefCell<Vec<u32>>,
    done: RefCell<Vec<Done>>,
    /// Latency of every allocation since the workload began, by path.
    pub alloc: AllocLatencies,
    /// The slowest of these allocations.
    pub slowest: Slowest,
    /// Sums over reclaim's events since the workload began.
    pub reclaim: Reclaim,
    /// Stack depths that direct reclaimers have reached since the workload began.
    pub stack: Stacks,
    /// True once a task was killed: from then on each task that returns to user mode tests whether
    /// it is dying.
    pub killing: Cell<bool>,
    /// Processes that the OOM killer killed, in order.
    pub oom_kills: RefCell<Vec<OomKill>>,
    /// The names of the memory control groups; the first is that of group 1.
    pub groups: Vec<String>,
    /// The group that the workload's programs begin in; 0: none.
    pub group_of_workload: u32,
    /// The report of the out-of-memory condition that ended the run; `None` if there was none.
    pub oom: RefCell<Option<String>>,
    /// Dirty pages whose data was lost to device errors or full devices.
    pub lost_pages: Cell<u64>,
    /// Wait queues of tasks whose raw request failed.
    raw_failed: RefCell<BTreeSet<u32>>,
    /// Number of log buffers under I/O, by the wait queue of the task that writes them.
    buffers_under_way: RefCell<BTreeMap<u32, u32>>,
    /// Recorded trace events: time in nanoseconds, task, event.
    pub events: RefCell<Vec<(u64, TaskId, Event)>>,
    /// How often the ring of events filled up and was emptied.
    pub rings_lost: Cell<u64>,
    /// The listener that receives events in place of the ring, if there is one.
    pub listening: Listening,
    /// True while events are recorded.
    pub recording: Cell<bool>,
}

impl<const TRACE: bool> SimWorld<TRACE> {
    /// Builds a world from a scheduler, filesystems, the swap area (volume and first block) and
    /// devices with their volumes. The world's wait queues begin at `queue_base`; there is room for
    /// `tasks` tasks. `booted`: the wall clock at boot, in nanoseconds since the epoch.
    pub fn new(
        sched: Sched,
        (fs, swap_area): (Vec<Fs>, (u32, u64)),
        (devices, volumes): (Vec<(Queue, Rng)>, Vec<Volume>),
        queue_base: u32,
        tasks: u32,
        booted: u64,
        p: &Params,
    ) -> Self {
        Self {
            sched,
            costs: cost_table(p),
            calls: CallCosts::new(p),
            record_event: 0,
            wbt_by_task: false,
            left_to_worker: false,
            watched: Cell::new(0),
            moved: Cell::new(0),
            booted,
            sectors_beside: (vec![Cell::new(0); volumes.len()], Cell::new(0)),
            volumes,
            devices: RefCell::new(
                devices
                    .into_iter()
                    .map(|(queue, rng)| Device {
                        queue,
                        rng,
                        contexts: (0..tasks as u16).map(IoContext::of).collect(),
                        scheduled: u64::MAX,
                        waits_for_worker: false,
                    })
                    .collect(),
            ),
            fs,
            swap_area,
            dropped: Dropped::default(),
            map_windows: MapWindows::default(),
            ends: IoEnds::default(),
            reuse: Reuse::default(),
            queue_base,
            tasks,
            plugs: Plugs::new(0, 0),
            fs_of_bdi: RefCell::default(),
            done: RefCell::new(Vec::with_capacity(256)),
            alloc: AllocLatencies::new(tasks as usize),
            slowest: Slowest::new(tasks as usize),
            reclaim: Reclaim::new(tasks as usize),
            stack: Stacks::new(tasks as usize),
            killing: Cell::new(false),
            oom_kills: RefCell::default(),
            groups: Vec::new(),
            group_of_workload: 0,
            oom: RefCell::new(None),
            lost_pages: Cell::new(0),
            raw_failed: RefCell::default(),
            buffers_under_way: RefCell::default(),
            events: RefCell::new(Vec::new()),
            rings_lost: Cell::new(0),
            listening: Listening::default(),
            recording: Cell::new(false),
        }
    }

    /// Gives each task a plug that holds at most `most` requests.
    pub(crate) fn plugged(self, most: usize) -> Self {
        Self {
            plugs: Plugs::new(self.tasks, most),
            ..self
        }
    }

    /// Records that filesystem `fs` owns all bdis below `bdis` that have no owner yet.
    pub(crate) fn bdis_made(&self, fs: u32, bdis: u32) {
        self.fs_of_bdi.borrow_mut().resize(bdis as usize, fs);
    }

    /// Returns the index of the filesystem that owns a bdi; 0 (the first) if no filesystem was
    /// mounted.
    #[inline]
    pub(crate) fn fs_of(&self, bdi: u32) -> usize {
        let fs = self.fs_of_bdi.borrow().get(bdi as usize).copied();
        fs.unwrap_or(0) as usize
    }

    /// Returns the blocks (4 KiB) that a volume's devices have written and read since boot.
    pub fn blocks(&self, volume: u32) -> (u64, u64) {
        let devices = self.devices.borrow();
        let members = self.volumes[volume as usize].devices();
        let (written, read) = members.fold((0, 0), |(written, read), d| {
            let blocks = devices[d as usize].queue.stats().blocks;
            let of = |dir: Dir| blocks[dir.index()];
            (written + of(Dir::Write), read + of(Dir::Read))
        });
        let beside = self.sectors_beside.0[volume as usize].get() / 8;
        (written.saturating_sub(beside), read)
    }

    /// Dispatches the requests that a device can start, and schedules its next completion event.
    fn kick(&self, dev: u32) {
        let mut devices = self.devices.borrow_mut();
        let d = &mut devices[dev as usize];
        d.waits_for_worker = false;
        if let Some(t) = d.queue.dispatch(self.sched.now(), &mut d.rng)
            && t < d.scheduled
        {
            d.scheduled = t;
            self.sched.at(t, SchedEvent::Device(dev));
        }
    }

    /// Charges the calling task `part`/`whole` of one unit of a cost.
    #[inline(always)]
    pub fn charge_part(&self, what: Cost, part: u64, whole: u64) {
        self.sched.charge(self.costs[what as usize] * part / whole);
    }

    /// As [`Self::charge_part`], but as user time: charges `part`/`whole` of one unit of a cost.
    pub fn charge_user(&self, what: Cost, part: u64, whole: u64) {
        let ns = self.costs[what as usize] * part / whole;
        self.sched.charge_user(ns);
    }

    /// Charges `ns` nanoseconds of preemptible kernel work, in pieces of 5 microseconds.
    pub async fn work(&self, ns: u64) {
        let mut left = ns;
        while left > 0 {
            let n = left.min(5000);
            self.sched.charge(n);
            self.sched.relax().await;
            left -= n;
        }
    }

    /// Counts bytes that a program read, wrote or touched.
    pub fn note_moved(&self, bytes: u64) {
        self.moved.set(self.moved.get() + bytes);
    }

    /// Counts dirty pages whose data is lost.
    pub fn note_lost(&self, pages: u32) {
        self.lost_pages
            .set(self.lost_pages.get() + u64::from(pages));
    }

    /// Returns the largest bio of a volume, in blocks.
    pub fn max_bio(&self, volume: u32) -> u32 {
        let first = self.volumes[volume as usize].first;
        self.devices.borrow()[first as usize]
            .queue
            .max_request_blocks()
    }

    /// Handles a device's completion event: ends the I/O of the pages, inodes and raw requests that
    /// are done, wakes tasks that wait for requests, and dispatches the next ones.
    pub fn device_event(mm: &Mm<Self>, dev: u32) {
        let w = &mm.world;
        let mut done = std::mem::take(&mut *w.done.borrow_mut());
        let freed = {
            let mut devices = w.devices.borrow_mut();
            let d = &mut devices[dev as usize];
            if w.sched.now() < d.scheduled {
                // This event was superseded by an earlier one; `done` goes back empty.
                *w.done.borrow_mut() = done;
                return;
            }
            d.scheduled = u64::MAX;
            d.queue.complete(w.sched.now(), &mut done)
        };
        let kb = done.iter().map(|d| u64::from(d.blocks) * 4).sum();
        if kb > 0 {
            let left = {
                let queue = &w.devices.borrow()[dev as usize].queue;
                let held = block::Class::ALL.map(|class| u64::from(queue.in_flight(class)));
                held.iter().sum()
            };
            let amounts = [kb, left];
            w.slowest
                .note(w.sched.now(), Actor::Disk, 0, Did::Completes, amounts);
        }
        for d in done.drain(..) {
            let kb = u64::from(d.blocks) * 4;
            match d.dir {
                Dir::Write => mm.count_event(VmEvent::PgpgOut, w.counted_kb(kb)),
                Dir::Read => mm.count_event(VmEvent::PgpgIn, kb),
            }
            match Tag::unpack(d.tag) {
                Tag::Pages { mapping, index } if d.dir == Dir::Write => {
                    mm.end_writeback(mapping, index, d.blocks, d.error.is_some());
                    if d.error.is_some() {
                        w.note_lost(d.blocks);
                    }
                }
                Tag::Pages { mapping, index } => {
                    mm.end_read(mapping, index, d.blocks, d.error.is_some());
                }
                Tag::End { id } => {
                    crate::filesystems::ioend::completed(mm, id, d.blocks, d.error.is_some());
                }
                Tag::Swap { pfn } => {
                    if d.dir == Dir::Write {
                        mm.end_page_writeback(pfn, d.error.is_some());
                        mm.swap_bio_ended();
                    } else {
                        mm.frames.set_flags(pfn, flag::UPTODATE);
                        mm.unlock_page(pfn);
                    }
                }
                Tag::Inode { ino } => mm.inode_written(ino, d.error.is_some()),
                Tag::Raw { queue } => {
                    if d.error.is_some() {
                        w.raw_failed.borrow_mut().insert(queue);
                    }
                    if let Some(n) = w.buffers_under_way.borrow_mut().get_mut(&queue) {
                        *n -= 1;
                    }
                    w.sched.wake(queue);
                }
            }
        }
        *w.done.borrow_mut() = done;
        w.wake_for(dev, freed);
        w.kick_unless_left(dev);
        if freed.restart {
            kblockd::wake_worker(w);
        }
    }
}

impl<const TRACE: bool> World for SimWorld<TRACE> {
    type U32 = Cell<u32>;
    type U64 = Cell<u64>;
    type Lock = NoLock;
}

impl<const TRACE: bool> Tasks for SimWorld<TRACE> {
    #[inline(always)]
    fn now(&self) -> u64 {
        self.sched.now()
    }

    #[inline]
    fn jiffies(&self) -> u64 {
        self.sched.last_tick()
    }

    fn timer_expires(&self, ns: u64) -> u64 {
        self.sched.timer_expires(ns)
    }

    #[inline(always)]
    fn cpu(&self) -> usize {
        self.sched.cpu()
    }

    #[inline(always)]
    fn task(&self) -> TaskId {
        self.sched.task()
    }

    #[inline(always)]
    #[track_caller]
    fn relax(&self) -> impl Future<Output = ()> {
        self.sched.relax()
    }

    #[inline(always)]
    fn charge_ns(&self, ns: u64) {
        self.sched.charge(ns);
    }

    #[inline(always)]
    fn price(&self, what: Cost) -> u64 {
        self.costs[what as usize]
    }

    /// Charges steps of `ns` each: `most`, or with `relax` until a yield is due. Returns how many.
    #[inline(always)]
    fn steps(&self, ns: u64, most: u32, relax: bool) -> u32 {
        if relax {
            return self.sched.steps(ns, most);
        }
        self.sched.charge(ns * u64::from(most));
        most
    }

    #[inline(always)]
    fn steps_ahead(&self, ns: u64, most: u32) -> u32 {
        self.sched.steps_ahead(ns, most)
    }

    #[inline(always)]
    fn take_steps(&self, ns: u64, steps: u32) {
        self.sched.take_steps(ns, steps);
    }

    #[inline(always)]
    fn goes_on(&self) -> bool {
        self.sched.goes_on()
    }

    #[track_caller]
    fn sleep(&self, ns: u64) -> impl Future<Output = ()> {
        self.sched.sleep_ticks(ns)
    }

    fn ticket(&self, q: WaitQueue) -> u64 {
        self.sched.ticket(q.0)
    }

    #[track_caller]
    fn wait(&self, q: WaitQueue, ticket: u64, timeout: Option<u64>) -> impl Future<Output = bool> {
        self.sched.wait(q.0, ticket, timeout)
    }

    #[inline]
    fn wake(&self, q: WaitQueue) {
        self.sched.wake(q.0);
    }

    fn waited_on(&self, q: WaitQueue) -> bool {
        self.sched.waited_on(q.0)
    }

    #[inline(always)]
    fn page_waiters(&self) -> bool {
        self.sched.page_waiters()
    }

    fn wake_one(&self, q: WaitQueue) {
        self.sched.wake_one(q.0);
    }

    fn set_timer(&self, q: WaitQueue, ns: u64) -> bool {
        self.sched.set_timer(q.0, ns)
    }

    /// Ends a killed task's nap, if it is in one, and wakes parents that wait for children.
    fn kill(&self, task: TaskId) {
        self.killing.set(true);
        self.sched.tell_of_pieces();
        self.sched.interrupt(task);
        self.sched.wake(self.queue_base + own_queue::EXIT);
    }

    fn comm(&self, task: TaskId) -> String {
        self.listening.comm(task)
    }

    #[inline(always)]
    fn waits_for(&self, why: Waits) {
        self.sched.waits_for(why);
    }

    #[inline(always)]
    fn waits_on(&self, what: Waited) {
        self.sched.waits_on(what);
    }

    fn memory_stall(&self, begins: bool) {
        self.sched.in_memory_stall(begins);
    }

    fn holds(&self, kind: WaitedKind, object: u64) {
        let (task, now) = (self.sched.task(), self.sched.now());
        self.sched.waiting.holds(kind, object, Some(task), now);
    }

    fn lets_go(&self, kind: WaitedKind, object: u64) {
        let now = self.sched.now();
        self.sched.waiting.holds(kind, object, None, now);
    }
}

impl<const TRACE: bool> Storage<Self> for SimWorld<TRACE> {
    /// Writes a page for reclaim, through its filesystem's `writepage`.
    fn writepage(
        &self,
        mm: &Mm<Self>,
        pfn: Pfn,
        wbc: &mut WritebackControl,
    ) -> impl Future<Output = Writepage> {
        crate::filesystems::writepage(mm, pfn, wbc)
    }

    #[inline]
    fn refuses_writepages(&self, mm: &Mm<Self>, mapping: u32, index: u32, most: u32) -> u32 {
        crate::filesystems::refuses_writepages(mm, mapping, index, most)
    }

    fn reclaim_writes_ranges(&self, mm: &Mm<Self>, mapping: u32) -> bool {
        crate::filesystems::reclaim_writes_ranges(mm, mapping)
    }

    /// Writes a range of one page for reclaim. The future is in a box, as a filesystem's future
    /// contains that of its allocations, and so of reclaim.
    async fn reclaim_writes_range(&self, mm: &Mm<Self>, mapping: u32, wbc: &mut WritebackControl) {
        let write: Pin<Box<dyn Future<Output = ()> + '_>> =
            Box::pin(crate::filesystems::writepages(mm, mapping, wbc));
        write.await;
    }

    #[inline]
    fn writepages_refused(&self, mm: &Mm<Self>, mapping: u32, n: u32) {
        crate::filesystems::writepages_refused(mm, mapping, n);
    }

    /// Writes back dirty pages of a file, through its filesystem's `writepages`.
    fn writepages(
        &self,
        mm: &Mm<Self>,
        mapping: u32,
        wbc: &mut WritebackControl,
    ) -> impl Future<Output = ()> {
        crate::filesystems::writepages(mm, mapping, wbc)
    }

    /// Starts to write a page to its slot of the swap area; waits for a request only.
    async fn swap_writepage(&self, _mm: &Mm<Self>, pfn: Pfn, slot: u32) {
        let (dev, base) = self.swap_area;
        self.submit(
            dev,
            Tag::Swap { pfn },
            true,
            false,
            base + u64::from(slot),
            1,
        )
        .await;
    }

    /// Starts to read a page from its slot of the swap area; waits for a request only.
    async fn swap_readpage(&self, _mm: &Mm<Self>, pfn: Pfn, slot: u32) {
        let (dev, base) = self.swap_area;
        self.submit(
            dev,
            Tag::Swap { pfn },
            false,
            true,
            base + u64::from(slot),
            1,
        )
        .await;
    }

    /// Reads a file's page, and pages around it, that a page fault has missed in the cache.
    fn fault_page(
        &self,
        mm: &Mm<Self>,
        page: Faulted,
        around: ReadAround,
    ) -> impl Future<Output = Result<(), Touched>> {
        crate::filesystems::mapped::fault_page(mm, page, around)
    }

    fn fault_met_mark(&self, mm: &Mm<Self>, page: Faulted, pfn: Pfn) -> impl Future<Output = ()> {
        crate::filesystems::mapped::met_mark(mm, page, pfn)
    }

    async fn page_mkwrite(&self, mm: &Mm<Self>, mapping: u32, index: u32) -> bool {
        crate::filesystems::mapped::page_mkwrite(mm, mapping, index, 1) > 0
    }

    #[inline]
    fn page_mkwrite_at_once(&self, mm: &Mm<Self>, mapping: u32, index: u32, most: u32) -> u32 {
        crate::filesystems::mapped::page_mkwrite(mm, mapping, index, most)
    }

    /// Gives writeback more room at the throttle of the bdi's disk, as a dirtier sleeps.
    fn dirtier_sleeps(&self, bdi: u32) {
        let fs = &self.fs[self.fs_of(bdi)];
        if fs.kind().about().own_bdi.is_none() {
            self.make_room(fs.volume);
        }
    }

    #[inline]
    fn start_plug(&self) {
        self.begin_plug();
    }

    #[inline]
    fn finish_plug(&self) {
        self.end_plug();
    }

    /// Submits the plugged requests of the calling task if it should yield its CPU.
    #[inline]
    fn cond_flush_plug(&self) {
        if self.sched.need_resched() {
            self.flush_plug(self.sched.task());
        }
    }

    fn read_inode(&self, mm: &Mm<Self>, ino: u32) -> impl Future<Output = ()> {
        crate::filesystems::inode::read_inode(mm, ino)
    }

    fn write_inode(&self, mm: &Mm<Self>, ino: u32, sync: bool) -> impl Future<Output = ()> {
        crate::filesystems::inode::write_inode(mm, ino, sync)
    }

    fn write_log(&self, mm: &Mm<Self>, sb: u32, n: u32) -> impl Future<Output = bool> {
        crate::filesystems::inode::write_log(mm, sb, n)
    }

    fn log_space(&self, mm: &Mm<Self>, sb: u32, n: u32) -> (u64, u64) {
        crate::filesystems::inode::log_space(mm, sb, n)
    }

    fn count_buffers(&self, sb: u32) -> u64 {
        crate::filesystems::inode::count_buffers(&self.fs[sb as usize])
    }

    fn scan_buffers(&self, mm: &Mm<Self>, sb: u32, n: u64) -> u64 {
        crate::filesystems::inode::scan_buffers(mm, sb, n)
    }

    /// Returns false if a transaction holds the page. Notes pages that were read ahead and never
    /// used.
    #[inline(always)]
    fn release_page(&self, mm: &Mm<Self>, pfn: Pfn) -> bool {
        if mm.policy.ext4_writeback == Ext4Writeback::ByExtent
            && crate::filesystems::holds(mm, mm.frames.mapping(pfn), mm.frames.index(pfn))
        {
            return false;
        }
        if mm.frames.has(pfn, flag::UNUSED) {
            let (mapping, index) = (mm.frames.mapping(pfn), mm.frames.index(pfn));
            self.dropped.note(mapping, index);
        }
        true
    }

    #[inline(always)]
    fn release_asks(&self, mm: &Mm<Self>) -> Option<u32> {
        (mm.policy.ext4_writeback != Ext4Writeback::ByExtent).then_some(flag::UNUSED)
    }

    /// Returns true if a device of a filesystem's main bdi is congested for a class of requests.
    fn bdi_congested(&self, bdi: u32, class: Class) -> bool {
        let fs = &self.fs[self.fs_of(bdi)];
        if fs.bdi.get() != bdi {
            return false;
        }
        let devices = self.devices.borrow();
        let mut members = self.volumes[fs.volume as usize].devices();
        members.any(|d| devices[d as usize].queue.congested(queue_class(class)))
    }

    /// Returns the number of devices that are congested for a class of requests.
    fn congested_bdis(&self, class: Class) -> u32 {
        self.devices
            .borrow()
            .iter()
            .filter(|d| d.queue.congested(queue_class(class)))
            .count() as u32
    }
}
