//! The cache as a program uses it.

use crate::LiveMm;
use crate::cpu;
use crate::file::{self, Error, Fault, OpenFile};
use crate::world::{LiveWorld, daemon};
use mm::kswapd::KSWAPD_FLAGS;
use mm::mapping::MappingKind;
use mm::task::PF_SWAPWRITE;
use mm::vmstat::{VmEvent, ZoneEvent, ZoneStat};
use mm::world::TaskId;
use mm::zone::{ZoneInfo, ZoneType};
use mm::{Mm, Policy, Sysctl};
use parking_lot::{Condvar, Mutex, RwLock};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

/// Tasks of the cache itself: kswapd and the flusher.
const KSWAPD: TaskId = 0;
const FLUSHER: TaskId = 1;
const FIRST_USER: TaskId = 2;
/// The least memory that watermarks and limits make sense for.
const LEAST_MEMORY: u64 = 4 << 20;
/// Pages of memory a CPU slot needs: its lists and batches hold up to half of them back from reclaim.
const PAGES_PER_CPU: u64 = 128;

/// What a cache is built for.
#[derive(Debug, Clone)]
pub struct Config {
    /// Bytes of memory for pages; at least 4 MiB. Never exceeded.
    pub memory: u64,
    /// CPU slots, 1..=64 and one for each 512 KiB of memory: how many threads are inside the engine
    /// at once.
    pub cpus: usize,
    /// Threads that may use the cache at the same time.
    pub max_threads: u32,
    /// Files that may ever be opened.
    pub max_files: u32,
    /// Percent of memory at which background writeback starts.
    pub dirty_background_ratio: u64,
    /// Percent of memory at which writers are throttled.
    pub dirty_ratio: u64,
    /// How the engine behaves.
    pub policy: Policy,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            cpus: std::thread::available_parallelism().map_or(4, |n| n.get().clamp(1, 64)),
            max_threads: 64,
            max_files: 1024,
            dirty_background_ratio: 10,
            dirty_ratio: 20,
            policy: Policy::linux_3_1(),
        }
    }
}

impl Config {
    fn engine(&self) -> Result<mm::Config, Error> {
        let refuse = |text: String| Err(Error::Config(text));
        let pages = self.memory / 4096;
        if self.memory < LEAST_MEMORY || pages >= 1 << 30 {
            return refuse(format!(
                "memory = {}: accepted are 4 MiB to 4 TiB",
                self.memory
            ));
        }
        let most = (pages / PAGES_PER_CPU).min(64);
        if !(1..=most as usize).contains(&self.cpus) {
            return refuse(format!(
                "cpus = {}: accepted are 1 to {most} with this memory",
                self.cpus
            ));
        }
        if !(1..=65_536).contains(&self.max_threads) {
            return refuse(format!(
                "max_threads = {}: accepted are 1 to 65536",
                self.max_threads
            ));
        }
        if !(1..1 << 24).contains(&self.max_files) {
            return refuse(format!(
                "max_files = {}: accepted are 1 to 16777215",
                self.max_files
            ));
        }
        if self.dirty_ratio > 100 || self.dirty_ratio == 0 || self.dirty_background_ratio > 100 {
            return refuse("dirty ratios are percentages, and dirty_ratio is not 0".to_owned());
        }
        Ok(mm::Config {
            cpus: self.cpus,
            cpu_nodes: vec![0; self.cpus],
            hz: 1000,
            zones: vec![ZoneInfo {
                node: 0,
                kind: ZoneType::Normal,
                size: pages,
            }],
            max_tasks: FIRST_USER + self.max_threads,
            max_mappings: self.max_files,
            max_bdis: 1,
            max_supers: 0,
            max_ags: 0,
            swap_slots: 0,
            sysctl: Sysctl {
                dirty_background_ratio: self.dirty_background_ratio,
                dirty_ratio: self.dirty_ratio,
                ..Sysctl::KERNEL
            },
        })
    }
}

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
    /// Dirty pages whose write failed.
    pub lost_pages: u64,
}

/// How a cache ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shutdown {
    /// Dirty pages that could not be written since the cache began: their data is lost.
    pub lost_pages: u64,
    /// Files whose last sync failed, and why.
    pub failed: Vec<(PathBuf, Error)>,
}

struct Names {
    by_path: BTreeMap<PathBuf, u32>,
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

struct Inner {
    mm: LiveMm,
    bdi: u32,
    tasks: Arc<Tasks>,
    names: Mutex<Names>,
    /// Calls hold it shared; whoever shuts the cache down holds it alone and sets it.
    closed: RwLock<bool>,
}

impl Inner {
    fn task(&self) -> Result<TaskId, Error> {
        LEASES.with_borrow_mut(|leases| {
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
        })
    }

    fn block_on<T>(&self, future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let task = self.task()?;
        let cpus = &self.mm.world.cpus;
        cpus.block_on(task, future).unwrap_or(Err(Error::Closed))
    }

    fn call<T>(&self, future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let closed = self.closed.read();
        if *closed {
            return Err(Error::Closed);
        }
        self.block_on(future)
    }

    /// Writes everything dirty; for the thread that shuts the cache down.
    fn sync_all(&self) -> Vec<(PathBuf, Error)> {
        let names = self.names.lock();
        let mut failed = Vec::new();
        for (path, &mapping) in &names.by_path {
            let result = self.block_on(file::fsync(&self.mm, mapping));
            if let Err(e) = result {
                failed.push((path.clone(), e));
            }
        }
        failed
    }
}

/// A page cache over files, with its own kswapd and flusher threads.
pub struct Cache {
    inner: Arc<Inner>,
    daemons: Mutex<Option<Daemons>>,
}

struct Daemons {
    threads: Vec<JoinHandle<()>>,
    stop_vmstat: Arc<(Mutex<bool>, Condvar)>,
}

/// An open file of a [`Cache`]. Dropping it closes it: what is dirty stays cached and is written
/// later.
pub struct File {
    inner: Arc<Inner>,
    mapping: u32,
}

impl Cache {
    /// Builds a cache and starts its threads.
    ///
    /// # Errors
    /// A configuration that is out of range, or a thread that cannot be started.
    pub fn new(config: Config) -> Result<Self, Error> {
        let engine = config.engine()?;
        let world = LiveWorld::new(&engine);
        let mm = cpu::alone(|| Mm::new(world, engine, config.policy, false));
        let bdi = mm.new_bdi(0, 100).expect("room for one device");
        mm.init_task(KSWAPD, KSWAPD_FLAGS, 0);
        mm.init_task(FLUSHER, PF_SWAPWRITE, 0);
        let ids = FIRST_USER..FIRST_USER + config.max_threads;
        let inner = Arc::new(Inner {
            mm,
            bdi,
            tasks: Arc::new(Tasks {
                free: Mutex::new(ids.rev().collect()),
            }),
            names: Mutex::new(Names {
                by_path: BTreeMap::new(),
            }),
            closed: RwLock::new(false),
        });
        let cache = Self {
            inner,
            daemons: Mutex::new(Some(Daemons {
                threads: Vec::new(),
                stop_vmstat: Arc::default(),
            })),
        };
        cache.start("kswapd0", |i, _| daemon::kswapd(&i.mm, KSWAPD))?;
        cache.start("flusher", |i, _| daemon::flusher(&i.mm, FLUSHER, i.bdi))?;
        cache.start("vmstat", |i, stop| daemon::vmstat(&i.mm, stop))?;
        Ok(cache)
    }

    fn start(
        &self,
        name: &str,
        life: impl FnOnce(&Inner, &(Mutex<bool>, Condvar)) + Send + 'static,
    ) -> Result<(), Error> {
        let mut daemons = self.daemons.lock();
        let d = daemons.as_mut().expect("a running cache");
        let (inner, stop) = (Arc::clone(&self.inner), Arc::clone(&d.stop_vmstat));
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || life(&inner, &stop))
            .map_err(|e| Error::Config(format!("thread {name}: {e}")))?;
        d.threads.push(thread);
        Ok(())
    }

    /// Opens a file for reading and writing and creates it if it is missing. The same file opened
    /// twice is the same pages. Nothing else may change the file while the cache is open.
    ///
    /// # Errors
    /// What the operating system says, or too many files.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File, Error> {
        let closed = self.inner.closed.read();
        if *closed {
            return Err(Error::Closed);
        }
        let io = |e: std::io::Error| {
            Error::Io(rustix::io::Errno::from_io_error(&e).unwrap_or(rustix::io::Errno::IO))
        };
        let os = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path.as_ref())
            .map_err(io)?;
        let path = path.as_ref().canonicalize().map_err(io)?;
        let len = os.metadata().map_err(io)?.len();
        let mut names = self.inner.names.lock();
        let mapping = match names.by_path.get(&path) {
            Some(&m) => m,
            None => {
                let mm = &self.inner.mm;
                let m = mm
                    .new_mapping(MappingKind::File, self.inner.bdi)
                    .ok_or(Error::TooManyFiles)?;
                mm.mappings[m as usize].size.store(len, SeqCst);
                let fresh = mm.world.files[m as usize].set(OpenFile::new(os));
                assert!(fresh.is_ok(), "mapping {m} has a file");
                names.by_path.insert(path, m);
                m
            }
        };
        Ok(File {
            inner: Arc::clone(&self.inner),
            mapping,
        })
    }

    /// What the cache holds and did.
    pub fn stats(&self) -> Stats {
        let mm = &self.inner.mm;
        Stats {
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
            lost_pages: mm.world.lost_pages.load(SeqCst),
        }
    }

    /// Every counter of the engine, by the kernel's name.
    pub fn vmstat(&self) -> Vec<(String, u64)> {
        self.inner.mm.vmstat()
    }

    /// The engine, to look at. What changes it goes through [`File`].
    pub fn engine(&self) -> &LiveMm {
        &self.inner.mm
    }

    /// Lets calls end, refuses further ones, writes everything dirty and stops the threads.
    /// Afterwards the engine is at rest and [`Mm::recount`] may be called. A second call reports
    /// that nothing is left to do.
    pub fn shutdown(&self) -> Shutdown {
        *self.inner.closed.write() = true;
        let Some(daemons) = self.daemons.lock().take() else {
            return Shutdown::default();
        };
        let failed = self.inner.sync_all();
        let mm = &self.inner.mm;
        mm.world.stop_daemons();
        *daemons.stop_vmstat.0.lock() = true;
        daemons.stop_vmstat.1.notify_all();
        for t in daemons.threads {
            if let Err(panic) = t.join()
                && !std::thread::panicking()
            {
                std::panic::resume_unwind(panic);
            }
        }
        Shutdown {
            lost_pages: mm.world.lost_pages.load(SeqCst),
            failed,
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl File {
    /// Reads at `pos` into `buf`; returns how many bytes the file had there.
    ///
    /// # Errors
    /// A read that failed, or no memory.
    pub fn read(&self, pos: u64, buf: &mut [u8]) -> Result<usize, Error> {
        self.inner
            .call(file::read(&self.inner.mm, self.mapping, pos, buf))
    }

    /// Writes `buf` at `pos`. The thread is held back while too much is dirty.
    ///
    /// # Errors
    /// No memory, a page that had to be read first and could not, or a file beyond 16 TiB. What
    /// lies before the page that failed is written.
    pub fn write(&self, pos: u64, buf: &[u8]) -> Result<(), Error> {
        self.inner
            .call(file::write(&self.inner.mm, self.mapping, pos, buf))
    }

    /// Writes what is dirty and waits until the device has it.
    ///
    /// # Errors
    /// [`Error::Lost`] if a page's write failed since the last call: that data is lost.
    pub fn fsync(&self) -> Result<(), Error> {
        self.inner.call(file::fsync(&self.inner.mm, self.mapping))
    }

    /// Cuts or extends the file.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn truncate(&self, len: u64) -> Result<(), Error> {
        self.inner
            .call(file::truncate(&self.inner.mm, self.mapping, len))
    }

    /// Its length in bytes.
    pub fn size(&self) -> u64 {
        self.inner.mm.mappings[self.mapping as usize]
            .size
            .load(SeqCst)
    }

    /// Its number in the engine.
    pub fn mapping(&self) -> u32 {
        self.mapping
    }

    /// Lets the file's writes fail with EIO from now on, or work again; for tests.
    #[doc(hidden)]
    pub fn fail_writes(&self, fail: bool) {
        let fault = if fail { Fault::Io } else { Fault::None };
        self.inner.mm.world.file(self.mapping).set_fault(fault);
    }
}
