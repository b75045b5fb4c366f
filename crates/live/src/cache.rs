//! The page cache as a program uses it: opens files, reports statistics, shuts down.

use crate::ahead::Ahead;
use crate::async_file::Calls;
use crate::buffer::{Buffer, Registration};
use crate::class::ClassStats;
use crate::config::{CALLERS, Config, FIRST_USER, FLUSHERS, GIVER, KSWAPD, LAST, OnLoss, RING};
use crate::cpu;
use crate::daemons::Daemons;
use crate::error::Error;
use crate::events::{Events, Ring, Who};
use crate::handle::File;
use crate::inner::{Inner, Tasks};
use crate::latency::Latencies;
use crate::listen::Listener;
use crate::metrics::{self, Form};
use crate::open_file::OpenFile;
use crate::record::Recording;
use crate::shrink::Shrinker;
use crate::stats::{Shutdown, Stats};
use crate::storage::{Os, Storage};
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

    /// Returns the number of the device `st_dev` in the engine (its bdi); the first file on a
    /// device starts the device's threads.
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

    /// Does the work of [`Cache::shutdown`], on a thread that is not ending. Returns the pages and
    /// files that could not be written.
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
    /// Shuts the cache down, and reports lost data to the program's handler.
    fn drop(&mut self) {
        let end = self.shutdown();
        if !end.is_clean() {
            self.on_loss.tell(&end);
        }
    }
}
