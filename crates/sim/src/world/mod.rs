//! The virtual world: what the engine asks for, answered with simulated time and plain cells.

mod costs;
pub mod kblockd;
mod listener;
pub mod own_queue;
mod plug;
mod submit;
mod tag;
mod told;

pub use costs::CallCosts;
use costs::cost_table;
pub use listener::{Listener, Listening, Moment};
pub use tag::Tag;

use crate::account::Reclaim;
use crate::block::{self, Dir, Done, IoContext, Queue, Volume};
use crate::filesystems::ioend::IoEnds;
use crate::filesystems::{Dropped, Fs, MapWindows, Reuse};
use crate::latency::{AllocClass, AllocLatencies};
use crate::params::Params;
use crate::rng::Rng;
use crate::sched::{Event as SchedEvent, Sched};
use crate::slowest::{self, Actor, Did, Slowest};
use crate::stack::Stacks;
use mm::memory::frame::flag;
use mm::policy::Ext4Writeback;
use mm::watch::vmstat::VmEvent;
use mm::world::event::Event;
use mm::world::{
    AllocPath, Audience, COSTS, Class, Cost, OomKill, ShortLock, Storage, TaskId, Tasks, WaitQueue,
    Waited, WaitedKind, Waits, Watch, World, WritebackControl, Writepage,
};
use mm::world::{Faulted, ReadAround, Touched};
use mm::{Mm, Pfn};
use plug::Plugs;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

/// No lock: the virtual world runs one task at a time.
#[derive(Default)]
pub struct NoLock;

impl ShortLock for NoLock {
    #[inline(always)]
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }
}

/// Events the trace ring holds.
pub const TRACE_RING: usize = 1 << 20;

/// The request queue's word for a class.
fn theirs(class: Class) -> block::Class {
    match class {
        Class::Sync => block::Class::Sync,
        Class::Async => block::Class::Async,
    }
}

/// A block device with its bdi.
pub struct Device {
    /// Its request queue.
    pub queue: Queue,
    rng: Rng,
    /// What each task holds of the queue's batching right.
    contexts: Vec<IoContext>,
    scheduled: u64,
    /// It has requests that wait for the worker ([`kblockd`]).
    left: bool,
}

/// The engine in the virtual world.
pub type SimMm<const T: bool> = Mm<SimWorld<T>>;

/// The virtual world.
pub struct SimWorld<const TRACE: bool> {
    /// Time and tasks.
    pub sched: Sched,
    costs: [u64; COSTS],
    /// What the workload's calls cost.
    pub calls: CallCosts,
    /// CPU time that recording one event takes, in nanoseconds; 0 without monitors.
    pub record_event: u64,
    /// Writeback throttling goes by who sends what goes to swap.
    pub wbt_by_task: bool,
    /// Requests of tasks without plugs are the worker's to give out ([`kblockd`]).
    pub left_to_worker: bool,
    /// Events that monitors recorded.
    pub watched: Cell<u64>,
    /// Bytes that programs read from files, wrote to files and touched in mappings (a page each).
    pub moved: Cell<u64>,
    /// The wall clock at boot, in nanoseconds since the epoch.
    pub booted: u64,
    /// Block devices, volume by volume.
    pub devices: RefCell<Vec<Device>>,
    /// What filesystems and swap see of them; volume 0 is the tested one.
    pub volumes: Vec<Volume>,
    /// Sectors of blocks that logs wrote, which were not theirs, by volume; and those that no counter knows of yet.
    beside_logs: (Vec<Cell<u64>>, Cell<u64>),
    /// The filesystems in the order of mounting: that on `/`, the tested one, first.
    pub fs: Vec<Fs>,
    /// Volume and first block of the swap area.
    pub swap_area: (u32, u64),
    /// What was read ahead in vain.
    pub dropped: Dropped,
    /// How far mapped files were read ahead, by region.
    pub map_windows: MapWindows,
    /// Pages that leave writeback together.
    pub ends: IoEnds,
    /// How well the page cache serves, when that is asked for.
    pub reuse: Reuse,
    /// First wait queue that belongs to the world.
    pub queue_base: u32,
    /// Tasks that it has room for.
    tasks: u32,
    plugs: Plugs,
    /// The filesystem of each bdi, by its number.
    fs_of_bdi: RefCell<Vec<u32>>,
    done: RefCell<Vec<Done>>,
    /// Latency of every allocation since the workload began, by path.
    pub alloc: AllocLatencies,
    /// The slowest of them.
    pub slowest: Slowest,
    /// Sums over reclaim's events since the workload began.
    pub reclaim: Reclaim,
    /// How deep the stacks of direct reclaimers were since then.
    pub stack: Stacks,
    /// Some task was killed: whoever returns to his program looks whether it was he.
    pub killing: Cell<bool>,
    /// Processes that were killed for their memory, in that order.
    pub oom_kills: RefCell<Vec<OomKill>>,
    /// Set when the run ran out of memory.
    pub oom: RefCell<Option<String>>,
    /// Pages whose data was lost: device errors, and full devices.
    pub lost_pages: Cell<u64>,
    /// Queues whose waiter's raw request failed.
    raw_failed: RefCell<BTreeSet<u32>>,
    /// Buffers of logs that are under way, by the queue of the task that writes them.
    buffers_under_way: RefCell<BTreeMap<u32, u32>>,
    /// Trace events, when recorded.
    pub events: RefCell<Vec<(u64, TaskId, Event)>>,
    /// How often the ring of events filled up and was emptied.
    pub rings_lost: Cell<u64>,
    /// Who hears them instead.
    pub listening: Listening,
    /// Whether events are recorded now.
    pub recording: Cell<bool>,
}

impl<const TRACE: bool> SimWorld<TRACE> {
    /// A world around a scheduler, filesystems, a swap area and devices.
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
            beside_logs: (vec![Cell::new(0); volumes.len()], Cell::new(0)),
            volumes,
            devices: RefCell::new(
                devices
                    .into_iter()
                    .map(|(queue, rng)| Device {
                        queue,
                        rng,
                        contexts: (0..tasks as u16).map(IoContext::of).collect(),
                        scheduled: u64::MAX,
                        left: false,
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

    /// The same with plugs for its tasks, of at most so many requests each.
    pub(crate) fn plugged(self, most: usize) -> Self {
        Self {
            plugs: Plugs::new(self.tasks, most),
            ..self
        }
    }

    /// A filesystem made its bdis, and another one's follow.
    pub(crate) fn bdis_made(&self, fs: u32, bdis: u32) {
        self.fs_of_bdi.borrow_mut().resize(bdis as usize, fs);
    }

    /// The number of the filesystem that a bdi is of; the first where none was mounted.
    #[inline]
    pub(crate) fn fs_of(&self, bdi: u32) -> usize {
        let fs = self.fs_of_bdi.borrow().get(bdi as usize).copied();
        fs.unwrap_or(0) as usize
    }

    /// Blocks that a volume's devices wrote and read since boot.
    pub fn blocks(&self, volume: u32) -> (u64, u64) {
        let devices = self.devices.borrow();
        let members = self.volumes[volume as usize].devices();
        let (written, read) = members.fold((0, 0), |(written, read), d| {
            let blocks = devices[d as usize].queue.stats().blocks;
            let of = |dir: Dir| blocks[dir.index()];
            (written + of(Dir::Write), read + of(Dir::Read))
        });
        let beside = self.beside_logs.0[volume as usize].get() / 8;
        (written.saturating_sub(beside), read)
    }

    /// Starts what can start and schedules the device's next completion.
    fn kick(&self, dev: u32) {
        let mut devices = self.devices.borrow_mut();
        let d = &mut devices[dev as usize];
        d.left = false;
        if let Some(t) = d.queue.dispatch(self.sched.now(), &mut d.rng)
            && t < d.scheduled
        {
            d.scheduled = t;
            self.sched.at(t, SchedEvent::Device(dev));
        }
    }

    /// Charges a kind of cost in proportion: `part` of `whole`.
    #[inline(always)]
    pub fn charge_part(&self, what: Cost, part: u64, whole: u64) {
        self.sched.charge(self.costs[what as usize] * part / whole);
    }

    /// As [`Self::charge_part`], for what the program does itself.
    pub fn charge_user(&self, what: Cost, part: u64, whole: u64) {
        let ns = self.costs[what as usize] * part / whole;
        self.sched.charge_user(ns);
    }

    /// Kernel work of `ns` nanoseconds that may be preempted.
    pub async fn work(&self, ns: u64) {
        let mut left = ns;
        while left > 0 {
            let n = left.min(5000);
            self.sched.charge(n);
            self.sched.relax().await;
            left -= n;
        }
    }

    /// A program read, wrote or touched so many bytes.
    pub fn note_moved(&self, bytes: u64) {
        self.moved.set(self.moved.get() + bytes);
    }

    /// The data of so many dirty pages is lost.
    pub fn note_lost(&self, pages: u32) {
        self.lost_pages
            .set(self.lost_pages.get() + u64::from(pages));
    }

    /// The largest bio of a volume, in blocks.
    pub fn max_bio(&self, volume: u32) -> u32 {
        let first = self.volumes[volume as usize].first;
        self.devices.borrow()[first as usize]
            .queue
            .max_request_blocks()
    }

    /// A device has finished requests.
    pub fn device_event(mm: &Mm<Self>, dev: u32) {
        let w = &mm.world;
        let mut done = std::mem::take(&mut *w.done.borrow_mut());
        let freed = {
            let mut devices = w.devices.borrow_mut();
            let d = &mut devices[dev as usize];
            if w.sched.now() < d.scheduled {
                // Superseded by an earlier event, or by nothing; `done` goes back empty.
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
                Dir::Write => mm.count_event(VmEvent::PgpgOut, w.without_beside(kb)),
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
        w.go_on(dev);
        if freed.restart {
            kblockd::queue(w);
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

    #[inline]
    fn writepages_refused(&self, mm: &Mm<Self>, mapping: u32, n: u32) {
        crate::filesystems::writepages_refused(mm, mapping, n);
    }

    fn writepages(
        &self,
        mm: &Mm<Self>,
        mapping: u32,
        wbc: &mut WritebackControl,
    ) -> impl Future<Output = ()> {
        crate::filesystems::writepages(mm, mapping, wbc)
    }

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

    fn bdi_congested(&self, bdi: u32, class: Class) -> bool {
        let fs = &self.fs[self.fs_of(bdi)];
        if fs.bdi.get() != bdi {
            return false;
        }
        let devices = self.devices.borrow();
        let mut members = self.volumes[fs.volume as usize].devices();
        members.any(|d| devices[d as usize].queue.congested(theirs(class)))
    }

    fn congested_bdis(&self, class: Class) -> u32 {
        self.devices
            .borrow()
            .iter()
            .filter(|d| d.queue.congested(theirs(class)))
            .count() as u32
    }
}

impl<const TRACE: bool> Watch for SimWorld<TRACE> {
    const TRACE: bool = TRACE;

    #[inline(always)]
    fn tracing(&self) -> bool {
        self.recording.get()
    }

    #[inline(always)]
    fn event(&self, to: Audience, event: &Event) {
        match to {
            Audience::Traces => {}
            Audience::Slowest => self.observe(event),
            Audience::Sums => self.count(event),
        }
        if TRACE && self.recording.get() {
            self.trace(event);
        }
    }

    #[inline(always)]
    fn events_are_free(&self) -> bool {
        self.record_event == 0
    }

    #[inline]
    fn file_writepages(&self, n: u32) {
        self.reclaim.file_writepages(self.sched.task(), n);
    }

    #[inline]
    fn alloc_latency(&self, path: AllocPath, ns: u64) {
        let task = self.sched.task();
        if path == AllocPath::Fast {
            let (cpu, end) = (self.sched.cpu(), self.sched.now());
            self.alloc.record(cpu, task, AllocClass::Fast, ns, end);
            return;
        }
        if path == AllocPath::KswapdWoken && !self.slowest.began(task) {
            // It took too little to be among the slowest, and waited for nothing.
            let (cpu, end) = (self.sched.cpu(), self.sched.now());
            self.alloc
                .record(cpu, task, AllocClass::KswapdWoken, ns, end);
            return;
        }
        let time = self.slowest.spent(task, self.sched.own_time().split());
        let class = slowest::class(path, ns, &time);
        let (cpu, end) = (self.sched.cpu(), self.sched.now());
        self.alloc.record(cpu, task, class, ns, end);
        self.slowest.record(task, ns, class.name(), time);
    }

    fn reclaim_waited(&self, ns: u64) {
        self.alloc.reclaim_waited(ns);
    }

    #[inline]
    fn alloc_latencies(&self, ns: u64, n: u32, end: u64) {
        let (cpu, task) = (self.sched.cpu(), self.sched.task());
        self.alloc
            .record_many(cpu, task, AllocClass::Fast, ns, (n, end));
    }

    #[inline]
    fn remembers_alloc(&self, ns: u64) -> bool {
        self.record_event > 0 || self.slowest.keeps(ns)
    }

    fn alloc_slow(&self, start: u64, order: u32, free: u64) {
        let time = self.sched.own_time().split();
        let task = self.sched.task();
        self.slowest.begin(task, start, order, free, time);
    }

    fn alloc_slow_ends(&self, free: u64) {
        self.slowest.end(self.sched.task(), free);
    }

    fn out_of_memory(&self, report: String) {
        self.oom.borrow_mut().get_or_insert(report);
        self.sched.stop();
    }

    fn oom_killed(&self, kill: OomKill) {
        self.oom_kills.borrow_mut().push(kill);
    }
}
