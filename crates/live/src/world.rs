//! The live world: what the engine asks for, answered with threads, atomics and files.

use crate::ahead::Windows;
use crate::arena::{self, Arena, OutOfMemory, PAGE, Writeback};
use crate::cpu::{self, Cpus};
use crate::errseq::Fate;
use crate::open_file::OpenFile;
use crate::sync::{self, AtomicBool, AtomicU32, AtomicU64, Mutex, RwLock};
use crate::wait::Queue;
use crate::{LiveMm, arena::Locked};
use mm::memory::frame::flag;
use mm::watch::vmstat::VmEvent;
use mm::world::event::Event;
use mm::world::{
    AllocPath, Audience, Class, Cost, ShortLock, Storage, TaskId, Tasks, WaitQueue, WalkRange,
    Watch, World, WritebackControl, Writepage,
};
use mm::{Mm, Pfn, queue};
use rustix::io::Errno;
use std::future::poll_fn;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Poll;
use std::time::{Duration, Instant};

/// A short lock that is one.
#[derive(Default)]
pub struct LiveLock(Mutex<()>);

impl ShortLock for LiveLock {
    #[inline]
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        let _guard = self.0.lock();
        f()
    }
}

/// Pages of one I/O.
pub const BATCH: u32 = 32;
/// Pages under asynchronous writeback at which the device counts as congested, and below which it
/// no longer does: 7/8 and 13/16 of the 128 requests of a Linux queue, at a page each.
const CONGESTED_ON: u32 = 113;
const CONGESTED_OFF: u32 = 103;
/// Wait queues of the world itself: for files' sharing, by the file's number, and for the end of a
/// frame's pins.
const FILE_QUEUES: u32 = 64;
const PIN_QUEUES: u32 = 64;

/// The live world.
pub struct LiveWorld {
    pub(crate) arena: Arena,
    pub(crate) cpus: Cpus,
    pub(crate) ahead: Windows,
    start: Instant,
    queues: Box<[Queue]>,
    first_own: u32,
    /// The queues on which daemons wait for work.
    idle: std::ops::Range<u32>,
    /// The files, by mapping.
    files: RwLock<Vec<Option<Arc<OpenFile>>>>,
    /// Pages under asynchronous writeback.
    in_flight: AtomicU32,
    stopping: AtomicBool,
    /// Pages whose data is given up.
    pub(crate) lost_pages: AtomicU64,
    /// Pages whose write failed and that are kept ([`crate::open_file`]), how many may be, and the
    /// number of the newest error.
    kept_pages: AtomicU64,
    most_kept: u64,
    kept_why: AtomicU32,
    pub(crate) out_of_memory: Mutex<Option<String>>,
}

impl LiveWorld {
    /// A world for an engine of this configuration, which has one node.
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
        let first_own = queue::emergency(1, config.max_bdis, 1).0;
        Ok(Self {
            arena: Arena::new(frames as usize)?,
            cpus: Cpus::new(config.cpus),
            ahead: Windows::default(),
            start: sync::now(),
            queues: (0..first_own + FILE_QUEUES + PIN_QUEUES)
                .map(|_| Queue::default())
                .collect(),
            first_own,
            idle,
            files: RwLock::default(),
            in_flight: AtomicU32::new(0),
            stopping: AtomicBool::new(false),
            lost_pages: AtomicU64::new(0),
            kept_pages: AtomicU64::new(0),
            most_kept: frames / 2,
            kept_why: AtomicU32::new(0),
            out_of_memory: Mutex::new(None),
        })
    }

    /// The file of a mapping that has pages, or is open.
    pub(crate) fn file(&self, mapping: u32) -> Arc<OpenFile> {
        let files = self.files.read();
        let file = files.get(mapping as usize).and_then(Option::as_ref);
        Arc::clone(file.expect("a mapping has a file"))
    }

    /// A file gets its mapping.
    pub(crate) fn add_file(&self, file: Arc<OpenFile>) {
        let (mut files, at) = (self.files.write(), file.mapping as usize);
        if files.len() <= at {
            files.resize(at + 1, None);
        }
        assert!(files[at].is_none(), "mapping {at} has a file");
        files[at] = Some(file);
    }

    /// A mapping that has no pages any more loses its file.
    pub(crate) fn remove_file(&self, mapping: u32) {
        self.files.write()[mapping as usize] = None;
    }

    /// Pages whose write failed and that are kept.
    pub(crate) fn kept_pages(&self) -> u64 {
        self.kept_pages.load(SeqCst)
    }

    /// Whether `n` more pages may be kept; then they are counted.
    pub(crate) fn keep_pages(&self, n: u64) -> bool {
        let more = |kept| Some(kept + n).filter(|&k| k <= self.most_kept);
        self.kept_pages.fetch_update(SeqCst, SeqCst, more).is_ok()
    }

    /// `n` pages are no longer kept.
    pub(crate) fn let_pages_go(&self, n: u64) {
        self.kept_pages.fetch_sub(n, SeqCst);
    }

    /// Why no file may be written: so many pages are kept that what is dirty might find no room.
    pub(crate) fn refuses_writes(&self) -> Option<Errno> {
        let full = self.kept_pages.load(SeqCst) > self.most_kept / 2;
        full.then(|| Errno::from_raw_os_error(self.kept_why.load(SeqCst) as i32))
    }

    /// The queue of a file's sharers.
    pub(crate) fn file_queue(&self, mapping: u32) -> WaitQueue {
        WaitQueue(self.first_own + mapping % FILE_QUEUES)
    }

    /// The queue of those who wait until nobody has a frame pinned. It is not that of the page's lock,
    /// which they let go when they begin to wait.
    pub(crate) fn pin_queue(&self, pfn: Pfn) -> WaitQueue {
        WaitQueue(self.first_own + FILE_QUEUES + pfn % PIN_QUEUES)
    }

    /// Daemons end when they next wait for work.
    pub(crate) fn stop_daemons(&self) {
        self.stopping.store(true, SeqCst);
        self.ahead.stop();
        for q in self.idle.clone() {
            self.wake(WaitQueue(q));
        }
    }

    async fn pause(&self, q: Option<(WaitQueue, u64)>, ns: Option<u64>) -> bool {
        let deadline = ns.map(|ns| sync::now() + Duration::from_nanos(ns));
        poll_fn(|context| {
            if let Some((q, ticket)) = q {
                let queue = &self.queues[q.0 as usize];
                if queue.poll(ticket, context).is_ready() {
                    return Poll::Ready(true);
                }
                // Asked after the task is on the queue, so that `stop_daemons` finds it there.
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

    fn write_started(&self, pages: u32) {
        self.in_flight.fetch_add(pages, SeqCst);
    }

    fn write_ended(&self, pages: u32) {
        let left = self.in_flight.fetch_sub(pages, SeqCst) - pages;
        if left < CONGESTED_OFF {
            self.wake(queue::congestion(Class::Async));
        }
    }

    /// Writes pages that are under writeback and ends that. What lies behind the file's end is not
    /// written.
    fn write_out(mm: &LiveMm, pages: Writeback<'_>) {
        let w = &mm.world;
        let (mapping, n) = (pages.run.mapping(), pages.run.count());
        w.write_started(n);
        let file = w.file(mapping);
        let start = u64::from(pages.run.first()) * PAGE as u64;
        let whole = u64::from(n) * PAGE as u64;
        let result = w.cpus.off(|| {
            // The end does not move while we write what lies before it.
            let _end = file.end.read();
            let size = mm.mappings[mapping as usize].size.load(SeqCst);
            let bytes = size.saturating_sub(start).min(whole) as usize;
            let mut done = 0;
            while done < bytes {
                let parts: Vec<IoSlice<'_>> = pages
                    .bytes()
                    .enumerate()
                    .filter_map(|(i, p)| {
                        let from = done.saturating_sub(i * PAGE);
                        let to = (bytes.saturating_sub(i * PAGE)).min(PAGE);
                        (from < to).then(|| IoSlice::new(&p[from..to]))
                    })
                    .collect();
                match file.write(&parts, start + done as u64) {
                    Ok(0) => return Err(Errno::IO),
                    Ok(n) => done += n,
                    Err(Errno::INTR) => {}
                    Err(e) => return Err(e),
                }
            }
            Ok(())
        });
        match result {
            Ok(()) => Self::written(mm, &file, pages),
            Err(errno) => Self::not_written(mm, &file, pages, errno),
        }
        w.write_ended(n);
    }

    /// Ends the writeback of pages that were written.
    fn written(mm: &LiveMm, file: &OpenFile, pages: Writeback<'_>) {
        mm.count_event(VmEvent::PgpgOut, u64::from(pages.run.count()) * 4);
        // Only now may pages be reclaimed that were kept and written over.
        if file.failing().is_some() {
            pages.clear_flags(flag::ERROR);
            file.forget_kept(
                &mm.world,
                pages.run.first()..pages.run.first() + pages.run.count(),
            );
        }
        pages.end(false);
    }

    /// Ends the writeback of pages that were not.
    fn not_written(mm: &LiveMm, file: &OpenFile, pages: Writeback<'_>, errno: Errno) {
        let w = &mm.world;
        w.kept_why.store(errno.raw_os_error() as u32, SeqCst);
        // All this comes first: a page without its writeback bit may leave its file, and who waits
        // for that bit wants to know the error.
        match file.write_failed(w, pages.run.first(), pages.run.count(), errno) {
            Fate::Kept => pages.end(true),
            Fate::Lost => {
                w.lost_pages.fetch_add(u64::from(pages.run.count()), SeqCst);
                pages.clear_flags(flag::ERROR | flag::UPTODATE);
                pages.end(false);
            }
        }
    }

    /// Walks a file's dirty pages in index order, a batch of contiguous ones at a time.
    async fn write_dirty_pages(mm: &LiveMm, mapping: u32, wbc: &mut WritebackControl) {
        let m = &mm.mappings[mapping as usize];
        let mut range = WalkRange::new(wbc, m.writeback_index.load(SeqCst));
        loop {
            while let Some(first) =
                mm.next_tagged(mapping, mm::cache::tree::Tag::Dirty, range.index)
            {
                if first > range.end {
                    break;
                }
                let quota = if wbc.sync_all {
                    BATCH
                } else {
                    wbc.nr_to_write.clamp(1, i64::from(BATCH)) as u32
                };
                let most = quota.min((range.end - first).saturating_add(1));
                let pages = Self::gather(mm, mapping, first, most, wbc.sync_all).await;
                // A page that cannot be had is passed by.
                let n = pages.as_ref().map_or(1, |p| p.run.count());
                if let Some(pages) = pages {
                    wbc.nr_to_write -= i64::from(n);
                    Self::write_out(mm, pages);
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

    /// Puts dirty pages from `first` on under writeback, at most `most`. With `wait` the first one
    /// is waited for if it is locked or under writeback; else it is passed by.
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
        let page = Locked::find(mm, mapping, first).await?;
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

    async fn relax(&self) {
        self.cpus.give_way();
    }

    async fn sleep(&self, ns: u64) {
        self.pause(None, Some(ns)).await;
    }

    fn ticket(&self, q: WaitQueue) -> u64 {
        self.queues[q.0 as usize].ticket()
    }

    fn wait(&self, q: WaitQueue, ticket: u64, timeout: Option<u64>) -> impl Future<Output = bool> {
        self.pause(Some((q, ticket)), timeout)
    }

    fn wake(&self, q: WaitQueue) {
        self.queues[q.0 as usize].wake();
    }
}

impl Storage<Self> for LiveWorld {
    async fn writepage(&self, mm: &LiveMm, pfn: Pfn, wbc: &mut WritebackControl) -> Writepage {
        Self::write_out(mm, Writeback::for_reclaim(mm, pfn));
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

    /// A page whose write failed stays, and a pinned one. Who pinned it may have put it into a batch
    /// before he let go.
    fn release_page(&self, mm: &LiveMm, pfn: Pfn) -> bool {
        arena::pins(mm, pfn) == 0 && !mm.frames.any(pfn, flag::ERROR | flag::PINNED)
    }

    fn bdi_congested(&self, _: u32, class: Class) -> bool {
        class == Class::Async && self.in_flight.load(SeqCst) >= CONGESTED_ON
    }

    fn congested_bdis(&self, class: Class) -> u32 {
        u32::from(self.bdi_congested(0, class))
    }
}

impl Watch for LiveWorld {
    const TRACE: bool = false;

    fn tracing(&self) -> bool {
        false
    }

    #[inline(always)]
    fn event(&self, _: Audience, _: &Event) {}

    fn alloc_latency(&self, _: AllocPath, _: u64) {}

    fn out_of_memory(&self, report: String) {
        self.out_of_memory.lock().get_or_insert(report);
    }
}

/// The engine's daemons, and the periodic fold of counters, each on the calling thread.
pub(crate) mod daemon {
    use super::{LiveMm, Mm};
    use crate::cpu::Cpus;
    use crate::sync::{Condvar, Mutex};
    use mm::world::TaskId;
    use std::time::Duration;

    fn cpus(mm: &LiveMm) -> &Cpus {
        &mm.world.cpus
    }

    pub fn kswapd(mm: &LiveMm, task: TaskId) {
        cpus(mm).block_on(task, Mm::kswapd(mm, 0));
    }

    pub fn flusher(mm: &LiveMm, task: TaskId, bdi: u32) {
        cpus(mm).block_on(task, Mm::flusher(mm, bdi));
    }

    /// Once a second every CPU's counter differences are folded.
    pub fn vmstat(mm: &LiveMm, stop: &(Mutex<bool>, Condvar)) {
        let mut stopped = stop.0.lock();
        while !*stopped {
            stop.1.wait_for(&mut stopped, Duration::from_secs(1));
            for c in 0..mm.config.cpus {
                cpus(mm).on(c, || mm.refresh_cpu_vm_stats(c));
            }
        }
    }
}
