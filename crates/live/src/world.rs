//! The live world: implements the engine's requirements with threads, atomics and files.

use crate::arena::{self, Copies, Writeback};
use crate::blocking::Blocking;
use crate::class::Held;
use crate::cpu::{self, Cpus};
use crate::error::{Error, OutOfMemory};
use crate::events::Ring;
use crate::fold::Fold;
use crate::fork::Born;
use crate::io::{self, How, Io};
use crate::latency::{Clocks, Kind};
use crate::map::Arena;
use crate::open_file::OpenFile;
use crate::shrink::{self, Shrinkers};
use crate::sync::{self, AtomicBool, AtomicU32, AtomicU64, Mutex, RwLock};
use crate::wait::Queue;
use crate::{LiveMm, arena::Locked};
use mm::memory::frame::flag;
use mm::world::event::Event;
use mm::world::{
    AllocPath, Audience, Class, Cost, ShortLock, Storage, TaskId, Tasks, WaitQueue, WalkRange,
    Watch, World, WritebackControl, Writepage,
};
use mm::{Mm, Pfn, queue};
use rustix::io::Errno;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Poll;
use std::time::{Duration, Instant};

/// Returns the most transfers and the most pages on their way to a device with a write bandwidth of
/// `bandwidth` pages a second: what the device writes in 10 ms, so that a reader waits no longer
/// than that, and at least 16 pages. With `read`, when a reader waits long, a fifth of that (at
/// least 4 pages) in fewer transfers: a read queues behind the writes on their way.
fn depth(bandwidth: u64, read: bool) -> (u32, u32) {
    match read {
        false => (
            MOST_WRITES,
            (bandwidth / 100).clamp(16, u64::from(MOST_WRITES * BATCH)) as u32,
        ),
        true => (
            READ_WRITES,
            (bandwidth / 500).clamp(4, u64::from(READ_WRITES * BATCH)) as u32,
        ),
    }
}

/// A short lock that is a mutex, because tasks run at the same time.
#[derive(Default)]
pub struct LiveLock(Mutex<()>);

impl ShortLock for LiveLock {
    #[inline]
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        let _guard = self.0.lock();
        f()
    }
}

/// Most pages of one I/O.
pub const BATCH: u32 = 32;
/// Pages under asynchronous writeback at which the device counts as congested, and below which it
/// no longer does: 7/8 and 13/16 of the 128 requests of a Linux queue, at a page each.
const CONGESTED_ON: u32 = 113;
const CONGESTED_OFF: u32 = 103;
/// Most transfers on their way to a device that the flusher and syncs begin.
const MOST_WRITES: u32 = 16;
/// The same while a reader of the device waits for longer than [`SLOW_READ`] (4 ms, in ns), or one
/// did in the last [`SLOW_LATELY`] (100 ms).
const READ_WRITES: u32 = 4;
const SLOW_READ: u64 = 4_000_000;
const SLOW_LATELY: u64 = 100_000_000;
/// A write transfer that takes longer than 2 ms (in ns) is slow, because a task may wait for it;
/// for a second after one, the device's other transfers are treated as slow as well.
const SLOW_WRITE: u64 = 2_000_000;
const WRITES_SLOWLY: u64 = 1_000_000_000;
/// Longest sleep of a throttled writer in nanoseconds before it looks again: it is throttled in
/// small steps.
const LONGEST_PAUSE: u64 = 2_000_000;
/// Number of the world's own wait queues: for a file's sharers, by mapping number, and for the end
/// of a frame's pins.
const FILE_QUEUES: u32 = 64;
const PIN_QUEUES: u32 = 64;

/// The state of a device.
#[derive(Default)]
struct Device {
    /// Pages under asynchronous writeback.
    in_flight: AtomicU32,
    /// Write transfers on their way or about to begin.
    writing: AtomicU32,
    /// Tasks that wait for a read, and when the last of them began.
    reading: AtomicU32,
    read_began: AtomicU64,
    /// When a read that took longer than [`SLOW_READ`] last ended; 0: never.
    slow_read: AtomicU64,
    /// When a write transfer that took longer than [`SLOW_WRITE`] last ended; 0: never.
    slow_write: AtomicU64,
}

/// The world of one cache.
pub struct LiveWorld {
    pub(crate) arena: Arena,
    pub(crate) copies: Copies,
    pub(crate) cpus: Cpus,
    /// Threads for system calls that would block a thread with several tasks.
    pub(crate) blocking: Blocking,
    ios: Box<[Io]>,
    /// The highest index of `ios` in use.
    last_io: AtomicU32,
    start: Instant,
    /// The process that made the world.
    pub(crate) born: Born,
    queues: Box<[Queue]>,
    first_own: u32,
    /// Wait queues on which daemons wait for work.
    idle: std::ops::Range<u32>,
    /// When counter differences are folded.
    pub(crate) fold: Fold,
    /// The wait queue of tasks that are throttled for the emergency reserves.
    emergency: WaitQueue,
    /// The files, by mapping number.
    files: RwLock<Vec<Option<Arc<OpenFile>>>>,
    devices: Box<[Device]>,
    stopping: AtomicBool,
    closing: AtomicBool,
    /// Pages whose data is lost.
    pub(crate) lost_pages: AtomicU64,
    /// Pages whose write failed and that are kept ([`crate::open_file`]), the most that may be, and
    /// the newest errno.
    kept_pages: AtomicU64,
    most_kept: u64,
    kept_why: AtomicU32,
    /// Pages of buffers, and pages that a program has open for changing.
    pub(crate) buffer_pages: AtomicU32,
    pub(crate) pages_to_change: AtomicU32,
    /// Pages taken out of the cache.
    pub(crate) pages_out: AtomicU64,
    /// The shrinkers that the program registered.
    pub(crate) shrinkers: Shrinkers,
    /// Frames whose memory a thread is to have the system allocate before they are used.
    to_populate: Mutex<Vec<std::ops::Range<usize>>>,
    pub(crate) out_of_memory: Mutex<Option<String>>,
    /// Latency histograms.
    pub(crate) clocks: Clocks,
    /// The ring of trace events; `None`: no tracing.
    pub(crate) ring: Option<Ring>,
}

impl LiveWorld {
    /// Creates a world for an engine of this configuration, which has one node: memory for the
    /// frames, wait queues, devices.
    ///
    /// # Errors
    /// The system has no memory for the pages.
    pub(crate) fn new(config: &mm::Config) -> Result<Self, OutOfMemory> {
        let block = 1 << (mm::memory::buddy::ORDERS - 1);
        let frames: u64 = config
            .zones
            .iter()
            .map(|z| z.size.next_multiple_of(block))
            .sum();
        let idle = queue::kswapd(0).0..queue::flusher(1, config.max_bdis).0;
        let first_own = config.wait_queues();
        Ok(Self {
            arena: Arena::new(frames as usize)?,
            copies: Copies::new(config.zones.iter().map(|z| z.size).sum::<u64>() as usize),
            cpus: Cpus::new(config.cpus),
            blocking: Blocking::new(config.max_bdis),
            ios: (0..config.max_bdis).map(|_| Io::default()).collect(),
            last_io: AtomicU32::new(config.max_bdis - 1),
            start: sync::now(),
            born: Born::here(),
            queues: (0..first_own + FILE_QUEUES + PIN_QUEUES + 1 + config.max_bdis)
                .map(|_| Queue::default())
                .collect(),
            first_own,
            idle,
            fold: Fold::default(),
            emergency: queue::emergency(1, config.max_bdis, 0),
            files: RwLock::default(),
            devices: (0..config.max_bdis).map(|_| Device::default()).collect(),
            stopping: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            lost_pages: AtomicU64::new(0),
            kept_pages: AtomicU64::new(0),
            most_kept: config.zones.iter().map(|z| z.size).sum::<u64>() / 2,
            kept_why: AtomicU32::new(0),
            buffer_pages: AtomicU32::new(0),
            pages_to_change: AtomicU32::new(0),
            pages_out: AtomicU64::new(0),
            shrinkers: Shrinkers::default(),
            to_populate: Mutex::new(Vec::new()),
            out_of_memory: Mutex::new(None),
            clocks: Clocks::new(config.cpus),
            ring: None,
        })
    }

    /// Tells the system how to hold the memory of a class: locked, or in huge pages that a thread
    /// will populate.
    ///
    /// # Errors
    /// The kernel refuses to lock that much memory (RLIMIT_MEMLOCK).
    pub(crate) fn hold(&self, config: &mm::Config, class: usize, how: Held) -> Result<(), Error> {
        let block = 1 << (mm::memory::buddy::ORDERS - 1);
        let pages = |z: &mm::ZoneInfo| z.size.next_multiple_of(block) as usize;
        let first = config.zones[..class].iter().map(pages).sum::<usize>();
        let size = config.zones[class].size as usize;
        if how == Held::HugePages {
            self.to_populate.lock().push(first..first + size);
        }
        self.arena.hold(first..first + size, how).map_err(|e| {
            Error::Config(format!(
                "class {class}: the system does not lock its {} KiB ({e}): raise RLIMIT_MEMLOCK",
                size * 4
            ))
        })
    }

    /// Returns true if there are frames to populate.
    pub(crate) fn to_populate(&self) -> bool {
        !self.to_populate.lock().is_empty()
    }

    /// Has the system allocate the memory of the frames to populate, until the cache ends.
    pub(crate) fn populate(&self) {
        let all = std::mem::take(&mut *self.to_populate.lock());
        for frames in all {
            self.arena.populate(frames, || self.stopping.load(SeqCst));
        }
    }

    /// Returns the file of a mapping number; the mapping must have pages or be open.
    pub(crate) fn file(&self, mapping: u32) -> Arc<OpenFile> {
        let files = self.files.read();
        let file = files.get(mapping as usize).and_then(Option::as_ref);
        Arc::clone(file.expect("a mapping has a file"))
    }

    /// Enters a file under its mapping number, so that `file` finds it; the number must be
    /// free.
    pub(crate) fn add_file(&self, file: Arc<OpenFile>) {
        let (mut files, at) = (self.files.write(), file.mapping as usize);
        if files.len() <= at {
            files.resize(at + 1, None);
        }
        assert!(files[at].is_none(), "mapping {at} has a file");
        files[at] = Some(file);
    }

    /// Removes the file of a mapping that has no pages any more.
    pub(crate) fn remove_file(&self, mapping: u32) {
        self.files.write()[mapping as usize] = None;
    }

    /// Returns the number of pages whose write failed and that are kept.
    pub(crate) fn kept_pages(&self) -> u64 {
        self.kept_pages.load(SeqCst)
    }

    /// Counts `n` more pages that are kept after a failed write and returns true; returns false if
    /// they would be too many.
    pub(crate) fn count_kept(&self, n: u64) -> bool {
        let more = |kept| Some(kept + n).filter(|&k| k <= self.most_kept);
        self.kept_pages.fetch_update(SeqCst, SeqCst, more).is_ok()
    }

    /// Uncounts `n` kept pages.
    pub(crate) fn uncount_kept(&self, n: u64) {
        self.kept_pages.fetch_sub(n, SeqCst);
    }

    /// Returns why writes to all files are refused, if they are: over half of the most kept pages
    /// are taken, so dirty pages might find no room.
    pub(crate) fn refuses_writes(&self) -> Option<Errno> {
        let full = self.kept_pages.load(SeqCst) > self.most_kept / 2;
        full.then(|| Errno::from_raw_os_error(self.kept_why.load(SeqCst) as i32))
    }

    /// Returns the wait queue of a file's sharers.
    pub(crate) fn file_queue(&self, mapping: u32) -> WaitQueue {
        WaitQueue(self.first_own + mapping % FILE_QUEUES)
    }

    /// Returns the wait queue for the end of a frame's pins. It is another than that of the page's
    /// lock, which waiters release when they begin to wait.
    pub(crate) fn pin_queue(&self, pfn: Pfn) -> WaitQueue {
        WaitQueue(self.first_own + FILE_QUEUES + pfn % PIN_QUEUES)
    }

    /// Returns the wait queue for the end of the last page that a program changes.
    pub(crate) fn hand_queue(&self) -> WaitQueue {
        WaitQueue(self.first_own + FILE_QUEUES + PIN_QUEUES)
    }

    /// Returns the wait queue for room on a device.
    pub(crate) fn room_queue(&self, bdi: u32) -> WaitQueue {
        WaitQueue(self.hand_queue().0 + 1 + bdi)
    }

    /// Makes the daemons (kswapd, flushers, executors) end when they next wait for work.
    pub(crate) fn stop_daemons(&self) {
        self.stopping.store(true, SeqCst);
        self.ios.iter().for_each(Io::stop);
        for q in self.idle.clone() {
            self.wake(WaitQueue(q));
        }
    }

    /// Waits until the program holds no page to change, `most` at most, as a task. Returns how many
    /// it still holds.
    pub(crate) async fn pages_let_go(&self, most: Duration) -> u32 {
        let end = self.now().saturating_add(most.as_nanos() as u64);
        loop {
            let ticket = self.ticket(self.hand_queue());
            let (held, now) = (self.pages_to_change.load(SeqCst), self.now());
            if held == 0 || now >= end {
                return held;
            }
            self.wait(self.hand_queue(), ticket, Some(end - now)).await;
        }
    }

    /// Wakes all tasks that wait for a file's sharers or for pins of a page to go, and lets none
    /// wait for that any more: the cache ends.
    pub(crate) fn close(&self) {
        self.closing.store(true, SeqCst);
        for q in self.first_own..self.first_own + FILE_QUEUES + PIN_QUEUES {
            self.wake(WaitQueue(q));
        }
    }

    /// Returns true once the cache ends.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(SeqCst)
    }

    /// Waits until the queue is woken after the ticket (returns true) or `ns` nanoseconds have
    /// passed (returns false); `None`: without a queue, or without a limit. A daemon's task ends
    /// here once daemons are stopped.
    async fn pause(&self, q: Option<(WaitQueue, u64)>, ns: Option<u64>) -> bool {
        let deadline = ns.map(|ns| sync::now() + Duration::from_nanos(ns));
        poll_fn(|context| {
            if let Some((q, ticket)) = q {
                let queue = &self.queues[q.0 as usize];
                if queue.poll(ticket, context).is_ready() {
                    return Poll::Ready(true);
                }
                // Tested after the task is on the queue, so that `stop_daemons` finds it there.
                if self.idle.contains(&q.0) && self.stopping.load(SeqCst) {
                    cpu::end_task();
                    return Poll::Pending;
                }
                if deadline.is_some_and(|t| sync::now() >= t) {
                    queue.forget(context);
                    return Poll::Ready(false);
                }
            } else if deadline.is_some_and(|t| sync::now() >= t) {
                return Poll::Ready(false);
            }
            cpu::wait_until(deadline);
            Poll::Pending
        })
        .await
    }

    /// Returns the queue of the executor that makes a device's transfers.
    pub(crate) fn io(&self, bdi: u32) -> &Io {
        &self.ios[bdi.min(self.last_io.load(SeqCst)) as usize]
    }

    /// Sets whether one executor serves all devices; before any executor begins.
    pub(crate) fn one_executor(&self, one: bool) {
        let last = if one { 0 } else { self.ios.len() - 1 };
        self.last_io.store(last as u32, SeqCst);
    }

    /// Returns the number of a device's pages under writeback.
    pub(crate) fn in_flight(&self, bdi: u32) -> u32 {
        self.devices[bdi as usize].in_flight.load(SeqCst)
    }

    /// Returns true if pages are on their way to or from a device, so that waiting may free some.
    pub(crate) fn under_io(&self) -> bool {
        let fills = self.devices.iter().any(|d| d.reading.load(SeqCst) > 0);
        self.writes() || fills || self.ios.iter().any(Io::reads)
    }

    /// Returns true if pages are on their way to a device.
    fn writes(&self) -> bool {
        self.devices.iter().any(|d| d.in_flight.load(SeqCst) > 0)
    }

    /// Returns how many transfers and how many pages may at most be on their way to the device
    /// `bdi` now, at a write bandwidth in pages a second. Both are lowered while its reads are
    /// slow, unless a task waits for these writes (`sync`) as others do for their reads.
    pub(crate) fn depth(&self, bandwidth: u64, bdi: u32, sync: bool) -> (u32, u32) {
        let (d, now) = (&self.devices[bdi as usize], self.now());
        let since = |t: &AtomicU64| now.saturating_sub(t.load(SeqCst));
        let waits = d.reading.load(SeqCst) > 0 && since(&d.read_began) > SLOW_READ;
        let waited = d.slow_read.load(SeqCst) > 0 && since(&d.slow_read) < SLOW_LATELY;
        let (transfers, pages) = depth(bandwidth, (waits || waited) && !sync);
        match self.writes_slowly(bdi) {
            // A slow device gets as many transfers as a cache of 256 MiB has copy buffers for.
            true => (transfers.min(MOST_WRITES / 2), pages),
            false => (transfers, pages),
        }
    }

    /// Notes how long a device's write transfer took, which began at `since` (nanoseconds), if it
    /// was slow.
    pub(crate) fn write_took(&self, bdi: u32, since: u64) {
        let now = self.now();
        if now.saturating_sub(since) > SLOW_WRITE {
            self.devices[bdi as usize].slow_write.store(now, SeqCst);
        }
    }

    /// Returns true if the device lately wrote so slowly that a task would wait long to change a
    /// page under writeback.
    pub(crate) fn writes_slowly(&self, bdi: u32) -> bool {
        let last = self.devices[bdi as usize].slow_write.load(SeqCst);
        last > 0 && self.now().saturating_sub(last) < WRITES_SLOWLY
    }

    /// Counts a task that begins to wait for a read from a device; returns the time, for
    /// `read_ends`.
    pub(crate) fn read_begins(&self, bdi: u32) -> u64 {
        let (d, now) = (&self.devices[bdi as usize], self.now());
        d.reading.fetch_add(1, SeqCst);
        d.read_began.store(now, SeqCst);
        now
    }

    /// Ends a task's wait for a read from a device, which began at `began` (nanoseconds), and notes
    /// it if it was long.
    pub(crate) fn read_ends(&self, bdi: u32, began: u64) {
        let (d, now) = (&self.devices[bdi as usize], self.now());
        d.reading.fetch_sub(1, SeqCst);
        if now - began > SLOW_READ {
            d.slow_read.store(now, SeqCst);
        }
    }

    /// Returns the counter of a device's write transfers.
    pub(crate) fn writing(&self, bdi: u32) -> &AtomicU32 {
        &self.devices[bdi as usize].writing
    }

    /// Counts `pages` more pages of a device that are now under writeback.
    pub(crate) fn write_started(&self, bdi: u32, pages: u32) {
        self.devices[bdi as usize]
            .in_flight
            .fetch_add(pages, SeqCst);
    }

    /// Uncounts pages of a device whose writeback ended, and wakes tasks that wait for room there
    /// or for the end of congestion.
    pub(crate) fn write_ended(&self, bdi: u32, pages: u32) {
        let in_flight = &self.devices[bdi as usize].in_flight;
        let left = in_flight.fetch_sub(pages, SeqCst) - pages;
        if left < CONGESTED_OFF {
            self.wake(queue::congestion(Class::Async));
        }
        Io::leave_room(self, bdi);
    }

    /// Notes the error of a failed write.
    pub(crate) fn not_written(&self, errno: Errno) {
        self.kept_why.store(errno.raw_os_error() as u32, SeqCst);
    }

    /// Writes a file's dirty pages in index order, a batch of contiguous ones at a time:
    /// `wbc.nr_to_write` of them, or all for data integrity (`wbc.sync_all`). Waits before each
    /// batch for room on the device.
    async fn write_dirty_pages(mm: &LiveMm, mapping: u32, wbc: &mut WritebackControl) {
        let m = &mm.mappings[mapping as usize];
        let bdi = m.bdi();
        let mut range = WalkRange::new(wbc, m.writeback_index.load(SeqCst));
        loop {
            while let Some(first) =
                mm.next_tagged(mapping, mm::cache::tree::Tag::Dirty, range.index)
            {
                if first > range.end {
                    break;
                }
                let (transfers, ahead) = mm.world.depth(mm.write_bandwidth(bdi), bdi, wbc.sync_all);
                let quota = if wbc.sync_all {
                    BATCH
                } else {
                    wbc.nr_to_write.clamp(1, i64::from(BATCH)) as u32
                };
                let quota = quota.min(ahead.div_ceil(2));
                let most = quota.min((range.end - first).saturating_add(1));
                Io::room(mm, bdi, (transfers, ahead)).await;
                let pages = Self::gather(mm, mapping, first, most, wbc.sync_all).await;
                // A page that cannot be had is skipped.
                let n = pages.as_ref().map_or(1, |p| p.run.count());
                match pages {
                    Some(pages) => {
                        wbc.nr_to_write -= i64::from(n);
                        let last = || Self::is_last(mm, mapping, first.saturating_add(n));
                        let how = match wbc.sync_all && !cpu::shared() && last() {
                            true => How::Here,
                            false => How::Handed,
                        };
                        io::write(mm, pages, how).await;
                    }
                    None => Io::leave_room(&mm.world, bdi),
                }
                let Some(next) = first.checked_add(n) else {
                    break;
                };
                range.index = next;
                if wbc.range_cyclic {
                    m.writeback_index.store(range.index, SeqCst);
                }
                if wbc.nr_to_write <= 0 && !wbc.sync_all {
                    return;
                }
                mm.world.relax().await;
            }
            if !range.wrap() {
                return;
            }
        }
    }

    /// Returns true if no page from index `from` on is dirty: a task that waits for all pages may
    /// as well write the last ones itself.
    fn is_last(mm: &LiveMm, mapping: u32, from: u32) -> bool {
        let dirty = mm::cache::tree::Tag::Dirty;
        mm.next_tagged(mapping, dirty, from).is_none()
    }

    /// Puts dirty pages from index `first` on under writeback, at most `most`, and returns them.
    /// With `wait` it waits for the first page if that is locked or under writeback; otherwise such
    /// a page is skipped. `None`: not even the first could be had.
    async fn gather(
        mm: &LiveMm,
        mapping: u32,
        first: u32,
        most: u32,
        wait: bool,
    ) -> Option<Writeback<'_>> {
        if !wait {
            return Writeback::start(mm, mapping, first, most);
        }
        // A page in a program's hand is skipped when the cache ends.
        let page = Locked::find(mm, mapping, first).await.ok().flatten()?;
        mm.wait_on_page_writeback(page.pfn()).await;
        let mut pages = page.start_writeback()?;
        pages.extend(most);
        Some(pages)
    }
}

impl World for LiveWorld {
    type U32 = AtomicU32;
    type U64 = AtomicU64;
    type Lock = LiveLock;
    const SHRINKERS: usize = shrink::MOST;
    /// Programs hold references to pages' bytes.
    const MOVES_PAGES: bool = false;
}

impl Tasks for LiveWorld {
    fn now(&self) -> u64 {
        sync::now().duration_since(self.start).as_nanos() as u64
    }

    #[inline]
    fn cpu(&self) -> usize {
        cpu::cpu()
    }

    #[inline]
    fn task(&self) -> TaskId {
        cpu::task()
    }

    #[inline(always)]
    fn price(&self, _: Cost) -> u64 {
        0
    }

    #[inline(always)]
    fn charge_ns(&self, _: u64) {}

    /// Gives the CPU slot to a thread that waits for it, and, in a thread that several tasks share,
    /// yields once the task's turn is over.
    async fn relax(&self) {
        self.cpus.give_way();
        if cpu::turn_is_over() {
            let mut waited = false;
            poll_fn(|context| {
                if std::mem::replace(&mut waited, true) {
                    return Poll::Ready(());
                }
                context.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
        }
    }

    async fn sleep(&self, ns: u64) {
        self.pause(None, Some(ns)).await;
    }

    fn ticket(&self, q: WaitQueue) -> u64 {
        self.queues[q.0 as usize].ticket()
    }

    /// Waits as `LiveWorld::pause`. If no task may tell of the condition, has the counter
    /// differences of CPU slots folded, because in a small cache they may be all that is isolated
    /// or free, and waits for `LONGEST_PAUSE` at most, after which the engine looks again.
    fn wait(&self, q: WaitQueue, ticket: u64, timeout: Option<u64>) -> impl Future<Output = bool> {
        // The end of a write transfer tells of the end of congestion, but there may be none on its
        // way. kswapd tells of refilled reserves, but sleeps if it finds nothing to reclaim, while
        // other tasks may unlock or unpin what fills the cache.
        let congestion = queue::congestion(Class::Async);
        let untold = q == self.emergency || q == congestion && !self.writes();
        let timeout = match untold {
            true => {
                self.fold.ask();
                timeout.map(|ns| ns.min(LONGEST_PAUSE))
            }
            false => timeout,
        };
        self.pause(Some((q, ticket)), timeout)
    }

    /// Wakes the tasks of a queue. In a child process there are none, and a thread of the parent
    /// may have held the queue's lock when the process forked.
    fn wake(&self, q: WaitQueue) {
        if self.born.elsewhere() {
            return;
        }
        self.queues[q.0 as usize].wake();
    }
}

impl Storage<Self> for LiveWorld {
    /// Starts to write a page for reclaim, in the background if there is an executor.
    async fn writepage(&self, mm: &LiveMm, pfn: Pfn, wbc: &mut WritebackControl) -> Writepage {
        let pages = Writeback::for_reclaim(mm, pfn);
        let bdi = mm.mappings[pages.run.mapping() as usize].bdi();
        Io::no_room(self, bdi);
        io::write(mm, pages, How::Handed).await;
        wbc.nr_to_write -= 1;
        Writepage::Started
    }

    async fn writepages(&self, mm: &LiveMm, mapping: u32, wbc: &mut WritebackControl) {
        Self::write_dirty_pages(mm, mapping, wbc).await;
    }

    async fn swap_writepage(&self, _: &LiveMm, _: Pfn, _: u32) {
        unreachable!("the live world has no swap");
    }

    async fn swap_readpage(&self, _: &LiveMm, _: Pfn, _: u32) {
        unreachable!("the live world has no swap");
    }

    /// Returns false for a page whose write failed and for a pinned one. A page whose pin was
    /// dropped may still be in a per-CPU batch (`PINNED`) and stays, too.
    fn release_page(&self, mm: &LiveMm, pfn: Pfn) -> bool {
        arena::pins(mm, pfn) == 0 && !mm.frames.any(pfn, flag::ERROR | flag::PINNED)
    }

    fn shrinkers(&self) -> u32 {
        self.shrinkers.count()
    }

    /// Returns the cost of a shrinker's objects in seeks, and the objects asked for in one call;
    /// the kernel's defaults if the shrinker is gone.
    fn seeks_and_batch(&self, shrinker: u32) -> (u64, u64) {
        self.shrinkers.get(shrinker).map_or((2, 128), |s| {
            (u64::from(s.seeks().max(1)), u64::from(s.batch().max(1)))
        })
    }

    /// Returns the number of objects that a shrinker of the program could free; 0 if it is gone.
    fn count_objects(&self, shrinker: u32) -> u64 {
        let Some(shrinker) = self.shrinkers.get(shrinker) else {
            return 0;
        };
        self.cpus.shrink(move || shrinker.count())
    }

    /// Asks a shrinker of the program to scan `n` objects; returns the number freed. `None`: it is
    /// gone, or cannot proceed now.
    async fn scan_objects(&self, shrinker: u32, n: u64) -> Option<u64> {
        let shrinker = self.shrinkers.get(shrinker)?;
        // Dropped in there, too: this may be the last reference.
        self.cpus.shrink(move || shrinker.scan(n))
    }

    fn longest_pause(&self) -> Option<u64> {
        Some(LONGEST_PAUSE)
    }

    /// Returns true if a device has so many pages under asynchronous writeback that it counts as
    /// congested; reads and sync writes never do.
    fn bdi_congested(&self, bdi: u32, class: Class) -> bool {
        let in_flight = &self.devices[bdi as usize].in_flight;
        class == Class::Async && in_flight.load(SeqCst) >= CONGESTED_ON
    }

    fn congested_bdis(&self, class: Class) -> u32 {
        let bdis = 0..self.devices.len() as u32;
        bdis.filter(|&bdi| self.bdi_congested(bdi, class)).count() as u32
    }
}

impl Watch for LiveWorld {
    const TRACE: bool = true;

    #[inline(always)]
    fn tracing(&self) -> bool {
        self.ring.is_some()
    }

    /// Keeps an event of the engine in the ring of trace events, if there is one.
    #[inline(always)]
    fn event(&self, _: Audience, event: &Event) {
        if let Some(ring) = &self.ring {
            ring.keep(self.now(), event);
        }
    }

    fn alloc_latency(&self, _: AllocPath, ns: u64) {
        self.clocks.record(Kind::Allocation, ns);
    }

    fn out_of_memory(&self, report: String) {
        self.out_of_memory.lock().get_or_insert(report);
    }
}

/// The engine's daemons and the periodic fold of counters; each runs on the calling thread.
pub(crate) mod daemon {
    use super::{LiveMm, Mm};
    use crate::cpu::Cpus;
    use mm::world::TaskId;

    fn cpus(mm: &LiveMm) -> &Cpus {
        &mm.world.cpus
    }

    pub fn kswapd(mm: &LiveMm, task: TaskId) {
        cpus(mm).block_on(task, Mm::kswapd(mm, 0));
    }

    pub fn flusher(mm: &LiveMm, task: TaskId, bdi: u32) {
        cpus(mm).block_on(task, Mm::flusher(mm, bdi));
    }

    /// Folds every CPU's counter differences into the global counters once a second, and whenever
    /// a task asks for that, until stopped.
    pub fn vmstat(mm: &LiveMm) {
        while mm.world.fold.wait() {
            for c in 0..mm.config.cpus {
                cpus(mm).on(c, || mm.refresh_cpu_vm_stats(c));
            }
        }
    }
}
