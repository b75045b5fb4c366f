//! The page cache as a program uses it: opens files, reports statistics, shuts down.

use crate::ahead::Ahead;
use crate::balloon::Balloon;
use crate::buffer::{Buffer, Registration};
use crate::calls::Calls;
use crate::class::ClassStats;
use crate::config::{
    CALLERS, Config, FIRST_USER, FLUSHERS, GIVER, KSWAPD, LAST, LEAST_MEMORY, OnLoss, RING,
};
use crate::cpu;
use crate::daemons::Daemons;
use crate::error::Error;
use crate::events::{Events, Ring, Who};
use crate::handle::File;
use crate::inner::{Inner, Tasks};
use crate::latency::Latencies;
use crate::listen::Listener;
use crate::metrics::{self, Form};
use crate::page_size::PAGE;
use crate::record::Recording;
use crate::shared::Shared;
use crate::shrink::Shrinker;
use crate::stats::{Shutdown, Stats};
use crate::storage::{OpenOptions, Os, Storage};
use crate::world::LiveWorld;
use mm::Mm;
use mm::memory::task::{PF_KTHREAD, PF_SWAPWRITE};
use mm::memory::zone::Mark;
use mm::reclaim::kswapd::KSWAPD_FLAGS;
use mm::view::View;
use mm::watch::vmstat::{ZoneEvent, ZoneStat};
use parking_lot::{Mutex, RwLock};
use rustix::io::Errno;
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// The share of its memory to which a cache can be made smaller while it runs.
const SMALLEST_SHARE: u64 = 8;

/// A page cache over files, with its own kswapd and flusher threads.
pub struct Cache {
    inner: Arc<Inner>,
    daemons: Mutex<Option<Daemons>>,
    page_wait: Duration,
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
        let born = world.born;
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
            balloon: Balloon::default(),
            memory: config.memory,
            tasks: Arc::new(Tasks {
                free: Mutex::new(ids.rev().collect()),
                born,
            }),
            storage,
            table: Shared::default(),
            recorder: Arc::default(),
            closed: RwLock::new(false),
            ended: AtomicBool::new(false),
            born,
            giver: Mutex::default(),
        });
        // From here on, dropping `cache` ends the threads.
        let cache = Self {
            daemons: Mutex::new(Some(Daemons::new(&inner))),
            inner,
            page_wait: config.page_wait,
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
    /// knows: the file is locked (`flock(2)`) until its pages leave the cache, so that a second
    /// cache, of this process or of another, is refused.
    ///
    /// # Errors
    /// [`Error::Io`]: the operating system's error. [`Error::NotRegular`]: the path names a device,
    /// a directory or the like. [`Error::TooManyFiles`]: [`Config::max_files`] files are open.
    /// [`Error::InUse`]: another cache has the file.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File, Error> {
        self.open_with(path, OpenOptions::default())
    }

    /// Opens a regular file as `how` says, otherwise as [`Cache::open`]. Caches that only read a
    /// file may share it. A handle that was not opened to read, or to write, refuses that with
    /// `EBADF`.
    ///
    /// # Errors
    /// As [`Cache::open`]; [`Error::Io`] with `EINVAL` if the options do not fit together.
    pub fn open_with(&self, path: impl AsRef<Path>, how: OpenOptions) -> Result<File, Error> {
        let (inner, path) = (&self.inner, path.as_ref());
        inner.usable()?;
        let closed = inner.closed.read();
        if *closed {
            return Err(Error::Closed);
        }
        if !how.is_valid() {
            return Err(Error::Io(Errno::INVAL));
        }
        let file = inner.open_file(path, how, |st_dev| self.device(st_dev))?;
        Ok(File {
            inner: Arc::clone(inner),
            told: file.errors.sample(),
            ahead: Ahead::default(),
            file,
            how,
        })
    }

    /// Returns the number of the device `st_dev` in the engine (its bdi); the first file on a
    /// device starts the device's threads.
    fn device(&self, st_dev: u64) -> Result<u32, Error> {
        match self.daemons.lock().as_mut() {
            Some(daemons) => daemons.device(st_dev),
            None => Err(Error::Closed),
        }
    }

    /// Changes the cache's memory while it runs, to `bytes`, from an eighth of [`Config::memory`]
    /// (at least 32 KiB) up to all of it: watermarks stay those of [`Config::memory`]. Pages are
    /// reclaimed for that, from all classes in the order in which an allocation takes them, and
    /// their memory is given back to the system; a larger size takes effect at once. Waits until
    /// the cache is as large as that.
    ///
    /// # Errors
    /// [`Error::Config`]: the size is out of range. [`Error::OutOfMemory`], [`Error::TooManyPins`]:
    /// nothing can be reclaimed; the cache is then as small as it became. [`Error::Closed`].
    pub fn set_memory(&self, bytes: u64) -> Result<(), Error> {
        let (inner, most) = (&self.inner, self.inner.memory);
        let least = LEAST_MEMORY.max(most / SMALLEST_SHARE);
        if !(least..=most).contains(&bytes) {
            return Err(Error::Config(format!(
                "memory = {bytes}: accepted are {} to {} KiB, with which the cache began",
                least >> 10,
                most >> 10
            )));
        }
        let less = most / PAGE as u64 - bytes / PAGE as u64;
        inner.balloon.smaller(inner, less)
    }

    /// Returns the levels and counters of the cache.
    pub fn stats(&self) -> Stats {
        Stats {
            write_buffers: self.inner.calls.held(),
            ..Stats::of(&self.inner.mm)
        }
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

    /// Returns for each class of memory its pages by state, watermarks and evictions, lowest class
    /// first.
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
    /// asynchronous calls whose turn has not come, fail with [`Error::Closed`]. Pages that the
    /// program holds to change are waited for, [`Config::page_wait`] at most. Data that cannot be
    /// written now is lost, and the result says so. A second call waits for the first and returns
    /// an empty result. In a child process after fork(2) this does nothing: the cache is the
    /// parent's.
    pub fn shutdown(&self) -> Shutdown {
        if self.inner.born.elsewhere() {
            return Shutdown::default();
        }
        // A thread that is ending has lost its thread-locals and cannot run engine code.
        if cpu::thread_is_ending() {
            return std::thread::scope(|s| {
                let life = s.spawn(|| self.shut_down());
                life.join().unwrap_or_else(|e| resume_unwind(e))
            });
        }
        self.shut_down()
    }

    /// Does the work of [`Cache::shutdown`], on a thread that is not ending. Returns the pages and
    /// files that could not be written.
    fn shut_down(&self) -> Shutdown {
        self.inner.ended.store(true, SeqCst);
        self.inner.calls.close();
        let mm = &self.inner.mm;
        let held = mm.world.pages_to_change.load(SeqCst) > 0;
        if held && !mm.world.is_closing() {
            let let_go = mm.world.pages_let_go(self.page_wait);
            // Another thread may shut the cache down as well, so this is not the last task.
            let _one = self.inner.giver.lock();
            mm.world.cpus.block_on(GIVER, let_go);
        }
        mm.world.close();
        *self.inner.closed.write() = true;
        let mut running = self.daemons.lock();
        let Some(daemons) = running.take() else {
            return Shutdown::default();
        };
        self.inner.calls.end(&self.inner.mm);
        let failed = self.inner.sync_all();
        self.inner.balloon.end(&self.inner);
        daemons.stop();
        // Pages that the program still holds are dirty.
        let held = u64::from(mm.world.pages_to_change.load(SeqCst));
        let held = held.min(mm.global_stat(ZoneStat::NrFileDirty));
        Shutdown {
            lost_pages: mm.world.lost_pages.load(SeqCst) + mm.world.kept_pages() + held,
            failed,
        }
    }
}

impl Drop for Cache {
    /// Shuts the cache down, and reports lost data to the program's handler.
    fn drop(&mut self) {
        let end = self.shutdown();
        if !end.is_clean() {
            self.on_loss.tell(&end);
        }
    }
}
