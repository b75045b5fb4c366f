//! The page cache as a program uses it: opens files, reports statistics, shuts down.

use crate::LiveMm;
use crate::ahead::Ahead;
use crate::arena::Pinned;
use crate::async_file::Calls;
use crate::buffer::{Buffer, Registration};
use crate::class::ClassStats;
use crate::config::{CALLERS, Config, FIRST_USER, FLUSHERS, GIVER, KSWAPD, LAST, OnLoss, RING};
use crate::cpu;
use crate::daemons::Daemons;
use crate::events::{Events, Ring, Who};
use crate::file::{self, Error};
use crate::handle::File;
use crate::latency::{Kind, Latencies};
use crate::listen::Listener;
use crate::metrics::{self, Form};
use crate::open_file::OpenFile;
use crate::record::{Recorder, Recording};
use crate::shrink::Shrinker;
use crate::storage::{Os, Storage};
use crate::sync::now;
use crate::table::Table;
use crate::world::LiveWorld;
use mm::Mm;
use mm::cache::mapping::MappingKind;
use mm::memory::task::{PF_KTHREAD, PF_SWAPWRITE};
use mm::memory::zone::Mark;
use mm::reclaim::kswapd::KSWAPD_FLAGS;
use mm::view::View;
use mm::watch::vmstat::{VmEvent, ZoneEvent, ZoneStat};
use mm::world::TaskId;
use mm::world::event::TrackPath;
use parking_lot::{Mutex, RwLock};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Weak};

/// Levels and counters of a cache. Levels are as of now, counters since the cache began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Pages of memory.
    pub pages: u64,
    /// Free pages, those on per-CPU lists not counted.
    pub free: u64,
    /// Pages that hold file data.
    pub cached: u64,
    /// Dirty pages: newer than their file.
    pub dirty: u64,
    /// Pages under writeback.
    pub writeback: u64,
    /// Pages that hold [`crate::Buffer`]s.
    pub buffers: u64,
    /// Pages evicted so far, by kswapd or by direct reclaim.
    pub evicted: u64,
    /// Pages evicted by kswapd.
    pub evicted_by_kswapd: u64,
    /// Times a thread entered direct reclaim.
    pub direct_reclaims: u64,
    /// KiB read from files.
    pub kib_read: u64,
    /// KiB written to files.
    pub kib_written: u64,
    /// Pages whose write failed: they are kept, and the next sync of their file tries again.
    pub kept_pages: u64,
    /// Pages whose write failed and that could not be kept for lack of room: their data is lost.
    pub lost_pages: u64,
}

impl Stats {
    /// Reads the levels and counters of an engine.
    pub(crate) fn of(mm: &LiveMm) -> Self {
        Self {
            pages: u64::from(file::pages_of_memory(mm)),
            free: mm.global_stat(ZoneStat::NrFreePages),
            cached: mm.global_stat(ZoneStat::NrFilePages),
            dirty: mm.global_stat(ZoneStat::NrFileDirty),
            writeback: mm.global_stat(ZoneStat::NrWriteback),
            evicted: (0..mm.zones.len())
                .map(|z| mm.zone_event(z, ZoneEvent::PgSteal))
                .sum(),
            buffers: u64::from(mm.world.buffer_pages.load(SeqCst)),
            evicted_by_kswapd: mm.vm_event(VmEvent::KswapdSteal),
            direct_reclaims: mm.vm_event(VmEvent::AllocStall),
            kib_read: mm.vm_event(VmEvent::PgpgIn),
            kib_written: mm.vm_event(VmEvent::PgpgOut),
            kept_pages: mm.world.kept_pages(),
            lost_pages: mm.world.lost_pages.load(SeqCst),
        }
    }
}

/// The result of a shutdown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use = "it may say that data is lost"]
pub struct Shutdown {
    /// Pages whose data did not reach their files since the cache began: it is lost.
    pub lost_pages: u64,
    /// Files whose last sync failed, by the path at which each was first opened, with the error.
    pub failed: Vec<(PathBuf, Error)>,
}

impl Shutdown {
    /// Returns true if everything written to the cache is in its files and confirmed by their
    /// devices.
    pub fn is_clean(&self) -> bool {
        self.lost_pages == 0 && self.failed.is_empty()
    }
}

/// The task numbers for the program's threads.
struct Tasks {
    free: Mutex<Vec<TaskId>>,
}

/// A thread's task number in one cache, given back when the thread ends.
struct Lease {
    tasks: Weak<Tasks>,
    id: TaskId,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(tasks) = self.tasks.upgrade() {
            tasks.free.lock().push(self.id);
        }
    }
}

thread_local! {
    static LEASES: RefCell<Vec<Lease>> = const { RefCell::new(Vec::new()) };
    /// A task number that the thread has only for its present call ([`lend`]).
    static LENT: Cell<Option<TaskId>> = const { Cell::new(None) };
}

/// Runs `f`, which uses one cache, with a lent task number for its calls; on a thread of that
/// cache.
pub(crate) fn lend<R>(task: Option<TaskId>, f: impl FnOnce() -> R) -> R {
    LENT.set(task);
    let r = f();
    LENT.set(None);
    r
}

pub(crate) struct Inner {
    pub(crate) mm: LiveMm,
    /// The asynchronous calls.
    pub(crate) calls: Calls,
    tasks: Arc<Tasks>,
    storage: Arc<dyn Storage>,
    pub(crate) table: Mutex<Table>,
    pub(crate) recorder: Arc<Recorder>,
    /// Calls hold this lock shared; the shutdown holds it exclusively and sets it.
    pub(crate) closed: RwLock<bool>,
    /// True from the start of the shutdown; for look-ups of cached pages, which take no lock.
    pub(crate) ended: AtomicBool,
    /// Held by a thread without a task number while it frees memory as task `GIVER`.
    giver: Mutex<()>,
}

impl Inner {
    /// Returns the calling thread's task number, and assigns one at its first call. `Err`: none is
    /// free, or the thread is ending.
    fn task(&self) -> Result<TaskId, Error> {
        if let Ok(Some(lent)) = LENT.try_with(Cell::get) {
            return Ok(lent);
        }
        let lease = LEASES.try_with(|leases| {
            let mut leases = leases.borrow_mut();
            leases.retain(|l| l.tasks.strong_count() > 0);
            let mine = Arc::as_ptr(&self.tasks);
            if let Some(l) = leases.iter().find(|l| l.tasks.as_ptr() == mine) {
                return Ok(l.id);
            }
            let id = self.tasks.free.lock().pop().ok_or(Error::TooManyThreads)?;
            self.mm.init_task(id, 0, 0);
            leases.push(Lease {
                tasks: Arc::downgrade(&self.tasks),
                id,
            });
            Ok(id)
        });
        lease.unwrap_or(Err(Error::TooManyThreads))
    }

    /// Runs a future on the calling thread under its task number.
    fn block_on<T>(&self, future: impl Future<Output = T>) -> Result<T, Error> {
        let task = self.task()?;
        let cpus = &self.mm.world.cpus;
        cpus.block_on(task, future).ok_or(Error::Closed)
    }

    /// Runs `f` on a CPU slot, under the calling thread's task number, or as task `GIVER` if it has
    /// none.
    pub(crate) fn as_any_task(&self, f: impl FnOnce() + Send) {
        let cpus = &self.mm.world.cpus;
        let run = |task, f: &mut Option<_>| {
            let once = async { f.take().map_or((), |f: Box<dyn FnOnce() + Send + '_>| f()) };
            cpus.block_on(task, once);
        };
        let mut f: Option<Box<dyn FnOnce() + Send + '_>> = Some(Box::new(f));
        if cpu::thread_is_ending() {
            let _one = self.giver.lock();
            std::thread::scope(|s| s.spawn(|| run(GIVER, &mut f)).join())
                .unwrap_or_else(|e| resume_unwind(e));
            return;
        }
        match self.task() {
            Ok(task) => run(task, &mut f),
            Err(_) => {
                let _one = self.giver.lock();
                run(GIVER, &mut f);
            }
        }
    }

    /// Runs a call of the program as a task. `Err`: the call's error, or the cache was shut down,
    /// or the caller is inside a shrinker.
    pub(crate) fn call<T>(
        &self,
        future: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        if self.mm.world.cpus.shrinking() {
            return Err(Error::InShrinker);
        }
        let closed = self.closed.read();
        if *closed {
            return Err(Error::Closed);
        }
        self.block_on(future)?.map_err(|e| self.explain(e))
    }

    /// Returns the error; out of memory is given its reason ([`file::out_of_memory`]).
    pub(crate) fn explain(&self, e: Error) -> Error {
        match e {
            Error::OutOfMemory => file::out_of_memory(&self.mm),
            e => e,
        }
    }

    /// Makes a call as [`Inner::call`], and records how long it took if it succeeds.
    pub(crate) fn timed<T>(
        &self,
        kind: Kind,
        future: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let begun = now();
        let answer = self.call(future)?;
        self.mm.world.clocks.since(kind, begun);
        Ok(answer)
    }

    /// Marks a page accessed as [`Mm::mark_page_accessed`] does; mostly without a CPU slot.
    #[inline]
    pub(crate) fn mark(&self, page: &Pinned<'_>) -> Result<(), Error> {
        if self.mm.mark_accessed_in_passing(page.pfn()) {
            return Ok(());
        }
        let mark = async {
            self.mm
                .mark_page_accessed(page.pfn(), TrackPath::BufferedRead)
        };
        self.block_on(mark)
    }

    /// Syncs every file; returns those whose sync failed. For the thread that shuts the cache down.
    fn sync_all(&self) -> Vec<(PathBuf, Error)> {
        let (mm, table) = (&self.mm, self.table.lock());
        let mut failed = Vec::new();
        for file in table.files() {
            let cursor = file.errors.end();
            let sync = file::fsync(mm, file.mapping, &cursor);
            let synced = mm.world.cpus.block_on(LAST, sync);
            if let Err(e) = synced.expect("only daemons are ended") {
                failed.push((file.path.clone(), e));
            }
        }
        failed
    }

    /// Returns a mapping number for one more file on a device: a new one, or that of a closed file.
    fn number(&self, table: &mut Table, bdi: u32) -> Result<u32, Error> {
        let new = || self.mm.new_mapping(MappingKind::File, bdi);
        let n = match table.free_number().or_else(new) {
            Some(n) => n,
            None => {
                self.forget_closed(table)?;
                table.free_number().ok_or(Error::TooManyFiles)?
            }
        };
        self.mm.move_mapping(n, bdi);
        Ok(n)
    }

    /// Takes a closed file out of the cache: of those whose pages can be written, the one that was
    /// closed longest ago.
    fn forget_closed(&self, table: &mut Table) -> Result<(), Error> {
        let mut after = 0;
        while let Some((closing, file)) = table.closed(after) {
            after = closing;
            if file.has_name() {
                self.block_on(file::write_back(&self.mm, &file))?;
                if file.failing().is_some() {
                    continue;
                }
            }
            return self.forget(table, &file);
        }
        Err(Error::TooManyFiles)
    }

    /// Drops all pages of a file without open handles and frees its mapping number.
    pub(crate) fn forget(&self, table: &mut Table, file: &OpenFile) -> Result<(), Error> {
        self.block_on(file::forget(&self.mm, file))?;
        let m = &self.mm.mappings[file.mapping as usize];
        m.size.store(0, SeqCst);
        m.writeback_index.store(0, SeqCst);
        self.mm.world.remove_file(file.mapping);
        table.remove(file.mapping);
        Ok(())
    }
}

/// A page cache over files, with its own kswapd and flusher threads.
pub struct Cache {
    inner: Arc<Inner>,
    daemons: Mutex<Option<Daemons>>,
    on_loss: OnLoss,
}

impl Cache {
    /// Builds a cache over the operating system's files and starts its threads.
    ///
    /// # Errors
    /// [`Error::Config`]: a value of the configuration is out of range, the system has no memory
    /// for it, or a thread cannot be started.
    pub fn new(config: Config) -> Result<Self, Error> {
        Self::on(Arc::new(Os::default()), config)
    }

    /// Builds a cache over another storage than the operating system's files.
    ///
    /// # Errors
    /// As [`Cache::new`].
    pub fn on(storage: Arc<dyn Storage>, config: Config) -> Result<Self, Error> {
        let engine = config.engine()?;
        let policy = config.engine_policy(&engine.zones)?;
        let listener = config.metrics.map(Listener::bind).transpose()?;
        let mut world = LiveWorld::new(&engine).map_err(|_| {
            Error::Config(format!(
                "memory = {}: the system refuses to map it",
                config.memory
            ))
        })?;
        config.check_tables(&engine)?;
        for (class, held) in config.helds().enumerate() {
            world.hold(&engine, class, held)?;
        }
        world.ring = config.tracing.map(Ring::new);
        let ids = FIRST_USER..FIRST_USER + config.max_threads;
        let calls = Calls::new(&config, ids.end);
        let tasks = ids.end..ids.end + config.async_tasks();
        let mm = cpu::alone(|| Mm::new(world, engine, policy, false));
        mm.init_task(KSWAPD, KSWAPD_FLAGS, 0);
        mm.init_task(LAST, 0, 0);
        mm.init_task(RING, 0, 0);
        mm.init_task(GIVER, 0, 0);
        (FLUSHERS..CALLERS).for_each(|id| mm.init_task(id, PF_SWAPWRITE | PF_KTHREAD, 0));
        (CALLERS..FIRST_USER).for_each(|id| mm.init_task(id, 0, 0));
        tasks.for_each(|id| mm.init_task(id, 0, 0));
        let inner = Arc::new(Inner {
            mm,
            calls,
            tasks: Arc::new(Tasks {
                free: Mutex::new(ids.rev().collect()),
            }),
            storage,
            table: Mutex::default(),
            recorder: Arc::default(),
            closed: RwLock::new(false),
            ended: AtomicBool::new(false),
            giver: Mutex::default(),
        });
        // From here on, dropping `cache` ends the threads.
        let cache = Self {
            daemons: Mutex::new(Some(Daemons::new(&inner))),
            inner,
            on_loss: config.on_loss,
        };
        if let Some(daemons) = cache.daemons.lock().as_mut() {
            daemons.start(config.transfers, cache.inner.storage.rings(), |notice| {
                config.on_notice.tell(notice);
            })?;
            if let Some(listener) = listener {
                daemons.listen(listener)?;
            }
        }
        Ok(cache)
    }

    /// Opens a regular file for reading and writing, and creates it if it is missing. A file is
    /// identified by device and inode: all its names lead to the same pages, and a new file under
    /// an old name is another file. Nothing else may change the contents of a file that this cache
    /// knows.
    ///
    /// # Errors
    /// [`Error::Io`]: the operating system's error. [`Error::NotRegular`]: the path names a device,
    /// a directory or the like. [`Error::TooManyFiles`]: [`Config::max_files`] files are open.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File, Error> {
        let (inner, path) = (&self.inner, path.as_ref());
        let closed = inner.closed.read();
        if *closed {
            return Err(Error::Closed);
        }
        // The descriptor stays open until the file is in the table, so its inode number is not used
        // again.
        let opened = loop {
            match inner.storage.open(path) {
                Err(Error::Io(Errno::INTR)) => {}
                // Closed files that are still cached hold descriptors, too: give one up.
                Err(Error::Io(e @ (Errno::MFILE | Errno::NFILE))) => {
                    let freed = inner.forget_closed(&mut inner.table.lock());
                    freed.map_err(|_| Error::Io(e))?;
                }
                other => break other?,
            }
        };
        let bdi = self.device(opened.id.device)?;
        let mut table = inner.table.lock();
        let file = match table.open(opened.id) {
            Some(file) => file,
            None => {
                let mapping = inner.number(&mut table, bdi)?;
                let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
                let file = Arc::new(OpenFile::new((mapping, bdi), path, opened.file));
                let m = &inner.mm.mappings[mapping as usize];
                m.size.store(opened.len, SeqCst);
                inner.mm.world.add_file(Arc::clone(&file));
                table.insert(opened.id, Arc::clone(&file));
                file
            }
        };
        Ok(File {
            inner: Arc::clone(inner),
            told: file.errors.sample(),
            ahead: Ahead::default(),
            file,
        })
    }

    /// Returns the number of a device; the first file on a device starts the device's threads.
    fn device(&self, st_dev: u64) -> Result<u32, Error> {
        match self.daemons.lock().as_mut() {
            Some(daemons) => daemons.device(st_dev),
            None => Err(Error::Closed),
        }
    }

    /// Returns the levels and counters of the cache.
    pub fn stats(&self) -> Stats {
        Stats::of(&self.inner.mm)
    }

    /// Returns all metrics of the cache as a page of OpenMetrics 1.0: [`Cache::stats`],
    /// [`Cache::latency`] as histograms in seconds, [`Cache::vmstat`], zones and devices.
    /// [`Config::metrics`] serves the same.
    pub fn openmetrics(&self) -> String {
        metrics::page(&self.inner.mm, Form::OpenMetrics)
    }

    /// Takes the events that the engine traced since the last call ([`Config::tracing`]); none if
    /// tracing is off.
    pub fn events(&self) -> Events {
        let ring = self.inner.mm.world.ring.as_ref();
        ring.map_or_else(Events::default, |ring| ring.take(Who::of))
    }

    /// Returns the address at which [`Config::metrics`] is served; `None`: it is not, or the cache
    /// was shut down.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.daemons.lock().as_ref().and_then(Daemons::listens)
    }

    /// Returns how long calls took so far: hits, misses, writes, throttling of writers,
    /// allocations, syncs.
    pub fn latency(&self) -> Latencies {
        self.inner.mm.world.clocks.read()
    }

    /// Records every access to a page from now on into a trace that `lowmark mrc` reads
    /// (docs/live-budget.md), or the accesses to a share of the pages chosen by hash, above 0 and
    /// up to 1. Files are numbered by [`File::mapping`]. One recording can run at a time.
    ///
    /// # Errors
    /// [`Error::Config`]: another recording runs, or `rate` is out of range. [`Error::Io`]: the
    /// trace file cannot be created, or its thread not started.
    pub fn record(&self, path: impl AsRef<Path>, rate: f64) -> Result<Recording, Error> {
        self.inner.recorder.start(path.as_ref(), rate)
    }

    /// Returns what each class of memory holds, lowest class first.
    pub fn classes(&self) -> Vec<ClassStats> {
        let mm = &self.inner.mm;
        let class = |z: usize| ClassStats {
            pages: u64::from(mm.zones[z].size),
            free: mm.zone_stat(z, ZoneStat::NrFreePages),
            cached: mm.zone_stat(z, ZoneStat::NrFilePages),
            dirty: mm.zone_stat(z, ZoneStat::NrFileDirty),
            marks: [Mark::Min, Mark::Low, Mark::High].map(|mark| mm.zones[z].mark(mark)),
            evicted: mm.zone_event(z, ZoneEvent::PgSteal),
        };
        (0..mm.zones.len()).map(class).collect()
    }

    /// Allocates memory of the budget for the program itself: 1 to 32768 bytes, zeroed, from a
    /// class of memory (0: the general one). It is counted in blocks of 1, 2, 4 or 8 pages. It is
    /// never written out, and only its owner can free it: see [`crate::Shrinker`].
    ///
    /// # Errors
    /// [`Error::BufferSize`], [`Error::NoClass`]; [`Error::OutOfMemory`] or [`Error::TooManyPins`]
    /// when nothing can be reclaimed; [`Error::Closed`].
    pub fn buffer(&self, bytes: usize, class: usize) -> Result<Buffer, Error> {
        Buffer::new(&self.inner, bytes, class)
    }

    /// Registers a shrinker, which reclaim asks to free objects when memory is short, until the
    /// returned registration is dropped.
    ///
    /// # Errors
    /// [`Error::TooManyShrinkers`]: 64 are registered.
    pub fn register_shrinker(&self, shrinker: Arc<dyn Shrinker>) -> Result<Registration, Error> {
        let number = self.inner.mm.world.shrinkers.add(shrinker);
        Ok(Registration {
            inner: Arc::clone(&self.inner),
            number: number.ok_or(Error::TooManyShrinkers)?,
        })
    }

    /// Returns every counter of the engine, by its name in the kernel's /proc/vmstat.
    pub fn vmstat(&self) -> Vec<(String, u64)> {
        self.inner.mm.vmstat()
    }

    /// Returns a read-only view of the engine's state.
    pub fn view(&self) -> View<'_, LiveWorld> {
        self.inner.mm.view()
    }

    /// Recounts every list, index and counter of the engine, which must be at rest.
    ///
    /// # Errors
    /// The first disagreement, in words; or the cache was not shut down before.
    pub fn recount(&self) -> Result<(), String> {
        // The lock is held until the count ends. `None` means that the threads have ended.
        let daemons = self.daemons.lock();
        match *daemons {
            None => self.inner.mm.recount(),
            Some(_) => Err("the cache was not shut down".to_owned()),
        }
    }

    /// Shuts the cache down: refuses further calls, lets those under way end, writes all dirty
    /// pages and stops the threads. Writes that wait for a page which the program has pinned, and
    /// asynchronous calls whose turn has not come, fail with [`Error::Closed`]. Data that cannot be
    /// written now is lost, and the result says so. A second call waits for the first and returns
    /// an empty result.
    pub fn shutdown(&self) -> Shutdown {
        // A thread that is ending has lost its thread-locals and cannot run engine code.
        if cpu::thread_is_ending() {
            return std::thread::scope(|s| {
                let life = s.spawn(|| self.shut_down());
                life.join().unwrap_or_else(|e| resume_unwind(e))
            });
        }
        self.shut_down()
    }

    /// Does the work of [`Cache::shutdown`], on a thread that is not ending.
    fn shut_down(&self) -> Shutdown {
        self.inner.ended.store(true, SeqCst);
        self.inner.calls.close();
        self.inner.mm.world.close();
        *self.inner.closed.write() = true;
        let mut running = self.daemons.lock();
        let Some(daemons) = running.take() else {
            return Shutdown::default();
        };
        self.inner.calls.end(&self.inner.mm);
        let failed = self.inner.sync_all();
        daemons.stop();
        let mm = &self.inner.mm;
        Shutdown {
            lost_pages: mm.world.lost_pages.load(SeqCst) + mm.world.kept_pages(),
            failed,
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        let end = self.shutdown();
        if !end.is_clean() {
            self.on_loss.tell(&end);
        }
    }
}
