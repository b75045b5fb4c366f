//! The cache as a program uses it.

use crate::LiveMm;
use crate::ahead::{self, Advice, Ahead};
use crate::arena::Pinned;
use crate::config::{CALLERS, Config, FIRST_USER, FLUSHERS, KSWAPD, LAST, OnLoss, RING};
use crate::cpu;
use crate::daemons::Daemons;
use crate::errseq::Cursor;
use crate::events::{Events, Ring, Who};
use crate::file::{self, Error};
use crate::latency::{Kind, Latencies, begin, sampled};
use crate::listen::Listener;
use crate::metrics::{self, Form};
use crate::open_file::OpenFile;
use crate::page::{PageMut, PageRef};
use crate::storage::{Os, Storage};
use crate::sync::now;
use crate::table::Table;
use crate::world::LiveWorld;
use mm::Mm;
use mm::cache::mapping::MappingKind;
use mm::memory::task::PF_SWAPWRITE;
use mm::reclaim::kswapd::KSWAPD_FLAGS;
use mm::view::View;
use mm::watch::vmstat::{VmEvent, ZoneEvent, ZoneStat};
use mm::world::TaskId;
use mm::world::event::TrackPath;
use parking_lot::{Mutex, RwLock};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Weak};

/// What a cache holds and did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Pages of memory.
    pub pages: u64,
    /// Free pages, those on per-CPU lists not counted.
    pub free: u64,
    /// Pages that hold file data.
    pub cached: u64,
    /// Pages newer than their file.
    pub dirty: u64,
    /// Pages being written.
    pub writeback: u64,
    /// Pages evicted so far, by anyone.
    pub evicted: u64,
    /// Pages evicted by kswapd.
    pub evicted_by_kswapd: u64,
    /// Times a thread had to reclaim for itself.
    pub direct_reclaims: u64,
    /// KiB read from files.
    pub kib_read: u64,
    /// KiB written to files.
    pub kib_written: u64,
    /// Pages whose write failed: they are kept, and the next sync of their file tries again.
    pub kept_pages: u64,
    /// Pages whose write failed and for which there was no room: their data is lost.
    pub lost_pages: u64,
}

impl Stats {
    pub(crate) fn of(mm: &LiveMm) -> Self {
        Self {
            pages: u64::from(mm.zones[0].size),
            free: mm.global_stat(ZoneStat::NrFreePages),
            cached: mm.global_stat(ZoneStat::NrFilePages),
            dirty: mm.global_stat(ZoneStat::NrFileDirty),
            writeback: mm.global_stat(ZoneStat::NrWriteback),
            evicted: mm.zone_event(0, ZoneEvent::PgSteal),
            evicted_by_kswapd: mm.vm_event(VmEvent::KswapdSteal),
            direct_reclaims: mm.vm_event(VmEvent::AllocStall),
            kib_read: mm.vm_event(VmEvent::PgpgIn),
            kib_written: mm.vm_event(VmEvent::PgpgOut),
            kept_pages: mm.world.kept_pages(),
            lost_pages: mm.world.lost_pages.load(SeqCst),
        }
    }
}

/// How a cache ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use = "it may say that data is lost"]
pub struct Shutdown {
    /// Pages whose data did not get into their files since the cache began: it is lost.
    pub lost_pages: u64,
    /// Files whose last sync failed, by the paths at which they were opened first, and why.
    pub failed: Vec<(PathBuf, Error)>,
}

impl Shutdown {
    /// Whether everything that the cache took is in its files, and confirmed by their devices.
    pub fn is_clean(&self) -> bool {
        self.lost_pages == 0 && self.failed.is_empty()
    }
}

/// The numbers of threads that use a cache.
struct Tasks {
    free: Mutex<Vec<TaskId>>,
}

/// A thread's number in one cache, given back when the thread ends.
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
}

pub(crate) struct Inner {
    pub(crate) mm: LiveMm,
    tasks: Arc<Tasks>,
    storage: Arc<dyn Storage>,
    table: Mutex<Table>,
    /// Calls hold it shared; whoever shuts the cache down holds it alone and sets it.
    closed: RwLock<bool>,
    /// The same for those who look at what is cached and hold nothing.
    ended: AtomicBool,
}

impl Inner {
    fn task(&self) -> Result<TaskId, Error> {
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

    fn block_on<T>(&self, future: impl Future<Output = T>) -> Result<T, Error> {
        let task = self.task()?;
        let cpus = &self.mm.world.cpus;
        cpus.block_on(task, future).ok_or(Error::Closed)
    }

    fn call<T>(&self, future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let closed = self.closed.read();
        if *closed {
            return Err(Error::Closed);
        }
        self.block_on(future)?.map_err(|e| match e {
            Error::OutOfMemory => file::out_of_memory(&self.mm),
            e => e,
        })
    }

    /// As [`Inner::call`], timed if it succeeds.
    fn timed<T>(
        &self,
        kind: Kind,
        future: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let begun = now();
        let answer = self.call(future)?;
        self.mm.world.clocks.since(kind, begun);
        Ok(answer)
    }

    /// What [`Mm::mark_page_accessed`] does; most of the time that takes no CPU slot.
    #[inline]
    fn mark(&self, page: &Pinned<'_>) -> Result<(), Error> {
        if self.mm.mark_accessed_in_passing(page.pfn()) {
            return Ok(());
        }
        let mark = async {
            self.mm
                .mark_page_accessed(page.pfn(), TrackPath::BufferedRead)
        };
        self.block_on(mark)
    }

    /// Writes everything dirty; for the thread that shuts the cache down.
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

    /// A number for one more file on a device: a new one, or that of a file that nobody has open.
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

    /// Takes a file that nobody has open out of the cache: the one that was closed longest ago, of
    /// those whose pages can be written.
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

    fn forget(&self, table: &mut Table, file: &OpenFile) -> Result<(), Error> {
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

/// An open file of a [`Cache`]. Dropping it closes it: what is dirty stays cached and is written
/// later, unless the file has no name any more.
pub struct File {
    inner: Arc<Inner>,
    file: Arc<OpenFile>,
    /// Which errors of the file this handle was told of.
    told: Cursor,
    ahead: Ahead,
}

impl Cache {
    /// Builds a cache over the operating system's files and starts its threads.
    ///
    /// # Errors
    /// [`Error::Config`]: a configuration that is out of range, for which there is no memory, or a
    /// thread that cannot be started.
    pub fn new(config: Config) -> Result<Self, Error> {
        Self::on(Arc::new(Os::default()), config)
    }

    /// Builds a cache over files from elsewhere.
    ///
    /// # Errors
    /// As [`Cache::new`].
    pub fn on(storage: Arc<dyn Storage>, config: Config) -> Result<Self, Error> {
        let engine = config.engine()?;
        let listener = config.metrics.map(Listener::bind).transpose()?;
        let mut world = LiveWorld::new(&engine).map_err(|_| {
            Error::Config(format!(
                "memory = {}: the system does not give it",
                config.memory
            ))
        })?;
        config.check_tables(&engine)?;
        world.ring = config.tracing.map(Ring::new);
        let mm = cpu::alone(|| Mm::new(world, engine, config.policy, false));
        mm.init_task(KSWAPD, KSWAPD_FLAGS, 0);
        mm.init_task(LAST, 0, 0);
        mm.init_task(RING, 0, 0);
        (FLUSHERS..CALLERS).for_each(|id| mm.init_task(id, PF_SWAPWRITE, 0));
        (CALLERS..FIRST_USER).for_each(|id| mm.init_task(id, 0, 0));
        let ids = FIRST_USER..FIRST_USER + config.max_threads;
        let inner = Arc::new(Inner {
            mm,
            tasks: Arc::new(Tasks {
                free: Mutex::new(ids.rev().collect()),
            }),
            storage,
            table: Mutex::default(),
            closed: RwLock::new(false),
            ended: AtomicBool::new(false),
        });
        // From here on the threads end with the cache.
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

    /// Opens a regular file for reading and writing and creates it if it is missing. A file is the
    /// same pages by whichever of its names it is opened, and a new file under an old name is
    /// another one. Nothing else may change the contents of a file that this cache knows.
    ///
    /// # Errors
    /// [`Error::Io`]: what the operating system says. [`Error::NotRegular`]: a device, a directory
    /// or the like. [`Error::TooManyFiles`]: as many are open as may be.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File, Error> {
        let (inner, path) = (&self.inner, path.as_ref());
        let closed = inner.closed.read();
        if *closed {
            return Err(Error::Closed);
        }
        // A file that is new to us stays open until it is ours, so its identity is its own.
        let opened = loop {
            match inner.storage.open(path) {
                Err(Error::Io(Errno::INTR)) => {}
                // Files that nobody has open take descriptors, too.
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

    /// The number of a device, which has its threads then.
    fn device(&self, st_dev: u64) -> Result<u32, Error> {
        match self.daemons.lock().as_mut() {
            Some(daemons) => daemons.device(st_dev),
            None => Err(Error::Closed),
        }
    }

    /// What the cache holds and did.
    pub fn stats(&self) -> Stats {
        Stats::of(&self.inner.mm)
    }

    /// Everything that there is to tell of the cache, as a page of OpenMetrics 1.0: [`Cache::stats`],
    /// [`Cache::latency`] as histograms in seconds, [`Cache::vmstat`], zones and devices. What
    /// [`Config::metrics`] serves.
    pub fn openmetrics(&self) -> String {
        metrics::page(&self.inner.mm, Form::OpenMetrics)
    }

    /// What the engine traced since the last time that somebody asked ([`Config::tracing`]); nothing if it is
    /// not to.
    pub fn events(&self) -> Events {
        let ring = self.inner.mm.world.ring.as_ref();
        ring.map_or_else(Events::default, |ring| ring.take(Who::of))
    }

    /// Where [`Config::metrics`] is served; `None`: nowhere, or the cache was shut down.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.daemons.lock().as_ref().and_then(Daemons::listens)
    }

    /// How long calls took so far: hits, misses, writes, what writers were held back, allocations, syncs.
    pub fn latency(&self) -> Latencies {
        self.inner.mm.world.clocks.read()
    }

    /// Every counter of the engine, by the kernel's name.
    pub fn vmstat(&self) -> Vec<(String, u64)> {
        self.inner.mm.vmstat()
    }

    /// The engine's state, to read.
    pub fn view(&self) -> View<'_, LiveWorld> {
        self.inner.mm.view()
    }

    /// Recounts every list, index and counter of the engine, which must be at rest.
    ///
    /// # Errors
    /// The first disagreement in words, or that the cache was not shut down before.
    pub fn recount(&self) -> Result<(), String> {
        // Held until the count ends; the threads are gone when it is `None`.
        let daemons = self.daemons.lock();
        match *daemons {
            None => self.inner.mm.recount(),
            Some(_) => Err("the cache was not shut down".to_owned()),
        }
    }

    /// Lets calls end, refuses further ones, writes everything dirty and stops the threads. What
    /// cannot be written now is lost, and the answer says so. A second call, which waits for the
    /// first, reports that nothing is left to do.
    pub fn shutdown(&self) -> Shutdown {
        // A thread that is ending has no place for the engine any more.
        if cpu::thread_is_ending() {
            return std::thread::scope(|s| {
                let life = s.spawn(|| self.shut_down());
                life.join().unwrap_or_else(|e| resume_unwind(e))
            });
        }
        self.shut_down()
    }

    fn shut_down(&self) -> Shutdown {
        self.inner.ended.store(true, SeqCst);
        *self.inner.closed.write() = true;
        let mut running = self.daemons.lock();
        let Some(daemons) = running.take() else {
            return Shutdown::default();
        };
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

impl File {
    /// Reads at `pos` into `buf`; returns how many bytes the file had there, 0 behind its end.
    ///
    /// # Errors
    /// A read that failed, no memory, or a place beyond 16 TiB in a file that reaches there.
    pub fn read(&self, pos: u64, buf: &mut [u8]) -> Result<usize, Error> {
        let (inner, mm, mapping) = (&self.inner, &self.inner.mm, self.file.mapping);
        self.open()?;
        // Of a call that is timed, the first page is, if it is there.
        let begun = Cell::new(sampled().then(begin));
        let missing = |at, behind, buf: &mut [u8]| {
            begun.set(None);
            let since = now();
            let read = file::read_page(mm, mapping, &self.ahead, (at, behind), buf);
            let n = inner.call(read)?;
            if n > 0 {
                mm.world.clocks.since(Kind::Miss, since);
            }
            Ok(n)
        };
        file::read(mm, mapping, pos, buf, missing, |page| {
            inner.mark(page)?;
            if let Some(begun) = begun.take() {
                mm.world.clocks.since(Kind::Hit, begun);
            }
            Ok(())
        })
    }

    /// Reads at `pos` into several buffers, one after the other; returns how many bytes the file had
    /// there.
    ///
    /// # Errors
    /// As [`File::read`].
    pub fn read_vectored(&self, pos: u64, bufs: &mut [IoSliceMut<'_>]) -> Result<usize, Error> {
        let mut done = 0;
        for buf in bufs {
            let n = self.read(pos.saturating_add(done as u64), buf)?;
            done += n;
            if n < buf.len() {
                break;
            }
        }
        Ok(done)
    }

    /// The page with a number, bytes `page * 4096` and on, where it lies: no copy, and if it is cached
    /// no lock. What lies behind the file's end is zero.
    ///
    /// # Errors
    /// [`Error::BehindEnd`]: the file has no such page. [`Error::TooManyPins`]: nothing is left to
    /// read it into. A read that failed.
    #[inline]
    pub fn pin(&self, page: u32) -> Result<PageRef<'_>, Error> {
        self.open()?;
        if sampled() {
            return self.pin_timed(page);
        }
        match self.pin_cached(page)? {
            Some(pinned) => Ok(pinned),
            None => self.pin_missing(page),
        }
    }

    /// The page, if it is cached.
    #[inline(always)]
    fn pin_cached(&self, page: u32) -> Result<Option<PageRef<'_>>, Error> {
        let (inner, mm, mapping) = (&self.inner, &self.inner.mm, self.file.mapping);
        if let Some(pinned) = Pinned::try_take(mm, mapping, page)
            && file::pages_of(file::size(mm, mapping)) > page
        {
            inner.mark(&pinned)?;
            return Ok(Some(PageRef(pinned)));
        }
        Ok(None)
    }

    fn pin_missing(&self, page: u32) -> Result<PageRef<'_>, Error> {
        let (mm, mapping) = (&self.inner.mm, self.file.mapping);
        let pin = file::pin(mm, mapping, &self.ahead, page);
        self.inner.timed(Kind::Miss, pin).map(PageRef)
    }

    /// The look-up that is timed if the page is cached.
    #[cold]
    #[inline(never)]
    fn pin_timed(&self, page: u32) -> Result<PageRef<'_>, Error> {
        let begun = begin();
        match self.pin_cached(page)? {
            Some(pinned) => {
                self.inner.mm.world.clocks.since(Kind::Hit, begun);
                Ok(pinned)
            }
            None => self.pin_missing(page),
        }
    }

    /// The page with a number to change where it lies. It is dirty from now on; the thread is held
    /// back before if too much is. A file grows by [`File::write`] and [`File::truncate`] only.
    ///
    /// # Errors
    /// As [`File::pin`], and [`Error::Refused`] because of earlier data.
    pub fn pin_mut(&self, page: u32) -> Result<PageMut<'_>, Error> {
        let (mm, mapping) = (&self.inner.mm, self.file.mapping);
        let pin = file::pin_mut(mm, &self.file, &self.ahead, page);
        let (locked, share) = self.inner.timed(Kind::Write, pin)?;
        Ok(PageMut::new(mm, (mapping, page), locked, share))
    }

    #[inline]
    fn open(&self) -> Result<(), Error> {
        match self.inner.ended.load(SeqCst) {
            false => Ok(()),
            true => Err(Error::Closed),
        }
    }

    /// Says how a range of the file will be used, as `posix_fadvise(2)`; a length of 0 means up to its
    /// end.
    ///
    /// # Errors
    /// [`Error::Closed`]. What cannot be read now is told to who reads it.
    pub fn advise(&self, pos: u64, len: u64, advice: Advice) -> Result<(), Error> {
        let (mm, mapping) = (&self.inner.mm, self.file.mapping);
        self.ahead.advise(advice);
        self.inner.call(async {
            match (advice, file::page_range(mm, mapping, pos, len)) {
                (Advice::WillNeed, Some((first, last))) => {
                    ahead::will_need(mm, mapping, first, last).await;
                }
                (Advice::DontNeed, Some(pages)) => file::drop_pages(mm, mapping, pages).await,
                _ => {}
            }
            Ok(())
        })
    }

    /// Hands what is dirty of a range to the system, and waits for that; a length of 0 means up to the
    /// file's end. The device need not have it then: that is [`File::fsync`]'s.
    ///
    /// # Errors
    /// [`Error::Io`]: data of the file could not be written; it is kept, and [`File::fsync`] will tell.
    pub fn flush(&self, pos: u64, len: u64) -> Result<(), Error> {
        let (mm, mapping) = (&self.inner.mm, self.file.mapping);
        self.inner.call(file::flush(mm, mapping, pos, len))
    }

    /// Writes `buf` at `pos`. The thread is held back while too much is dirty.
    ///
    /// # Errors
    /// No memory, a page that had to be read first and could not, a file beyond 16 TiB, or
    /// [`Error::Refused`] because of earlier data. What lies before the page that failed is written.
    pub fn write(&self, pos: u64, buf: &[u8]) -> Result<(), Error> {
        let (mm, mapping) = (&self.inner.mm, self.file.mapping);
        let write = file::write(mm, mapping, pos, buf);
        self.inner.timed(Kind::Write, write)
    }

    /// Writes several buffers at `pos`, one after the other.
    ///
    /// # Errors
    /// As [`File::write`].
    pub fn write_vectored(&self, pos: u64, bufs: &[IoSlice<'_>]) -> Result<(), Error> {
        let mut at = pos;
        for buf in bufs {
            self.write(at, buf)?;
            at = at.saturating_add(buf.len() as u64);
        }
        Ok(())
    }

    /// Writes what is dirty, and what could not be written before, and waits until the device has
    /// it. `Ok` means that everything which was written to the file before is on its device, but
    /// for what an [`Error::Lost`] was told of.
    ///
    /// # Errors
    /// What went wrong since the last call for this handle, or since the file was opened: each
    /// handle is told once. A file that is opened after an error which nobody was told of is told,
    /// too. After [`Error::Io`] the data is still cached and the next call tries again; after
    /// [`Error::Lost`] what was written since the last call that succeeded must be written again.
    pub fn fsync(&self) -> Result<(), Error> {
        let (mm, mapping) = (&self.inner.mm, self.file.mapping);
        let fsync = file::fsync(mm, mapping, &self.told);
        self.inner.timed(Kind::Fsync, fsync)
    }

    /// Cuts or extends the file.
    ///
    /// # Errors
    /// What the operating system says; the file is then as long as it was.
    pub fn truncate(&self, len: u64) -> Result<(), Error> {
        let (mm, mapping) = (&self.inner.mm, self.file.mapping);
        self.inner.call(file::truncate(mm, mapping, len))
    }

    /// Its length in bytes.
    pub fn size(&self) -> u64 {
        file::size(&self.inner.mm, self.file.mapping)
    }

    /// Its number in the engine.
    pub fn mapping(&self) -> u32 {
        self.file.mapping
    }

    /// Lets the file's writes fail with EIO from now on, or work again; for tests.
    #[doc(hidden)]
    pub fn fail_writes(&self, fail: bool) {
        self.file.fail_writes(fail);
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let inner = &self.inner;
        let closed = inner.closed.read();
        let mut table = inner.table.lock();
        // Nobody will find a file without a name again: its pages and its blocks come free now. If
        // the thread has no number, whoever needs the file's will do it.
        if table.close(self.file.mapping) && !*closed && !self.file.has_name() {
            let _ = inner.forget(&mut table, &self.file);
        }
    }
}
