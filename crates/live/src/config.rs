//! The configuration of a cache.

use crate::class::{self, Class, Held, Marks};
use crate::error::Error;
use crate::events::{Tracing, Who};
use crate::map;
use crate::page_size::PAGE;
use crate::stats::Shutdown;
use crate::world::LiveWorld;
use mm::ZoneInfo;
use mm::cache::mapping::Mapping;
use mm::memory::task::Task;
use mm::world::TaskId;
use mm::{Policy, Sysctl};
use rustix::io::Errno;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Task numbers of the cache itself: kswapd; the shutdown, which must not depend on a free number;
/// the owner of the ring; threads without a number that free memory; each device's flusher; and
/// each device's threads that make calls.
pub(crate) const KSWAPD: TaskId = 0;
pub(crate) const LAST: TaskId = 1;
pub(crate) const RING: TaskId = 2;
pub(crate) const GIVER: TaskId = 3;
pub(crate) const FLUSHERS: TaskId = 4;
pub(crate) const CALLERS: TaskId = FLUSHERS + DEVICES;
pub(crate) const FIRST_USER: TaskId = CALLERS + DEVICES * CALLERS_EACH;
/// Devices that are told apart; files on any further device are treated as on the last of these.
pub(crate) const DEVICES: u32 = 16;
/// Threads that make a device's calls if there is no ring.
pub(crate) const CALLERS_EACH: u32 = 4;
/// Lanes of asynchronous calls: for each device one for reads and one for all others.
pub(crate) const ASYNC_LANES: u32 = 2 * DEVICES;
/// Task numbers for short operations on runner threads: marking pages accessed, closing files.
const ASYNC_SPARE: u32 = 8;
impl Who {
    /// Returns the source of the events that a task traces, by the ranges of task numbers: kswapd,
    /// the shutdown, a device's flusher, or a program's thread; all others make transfers.
    pub(crate) fn of(task: Option<TaskId>) -> Self {
        match task {
            Some(KSWAPD) => Self::Kswapd,
            Some(LAST) => Self::Shutdown,
            Some(id) if (FLUSHERS..CALLERS).contains(&id) => Self::Flusher(id - FLUSHERS),
            Some(id) if id >= FIRST_USER => Self::Program(id - FIRST_USER),
            _ => Self::Transfers,
        }
    }
}

/// The least memory, in bytes, with which one page can be read while another is written.
pub(crate) const LEAST_MEMORY: u64 = 8 * PAGE as u64;
/// Pages below which the kernel's smallest `min_free_kbytes` (128 KiB) is too much; such a cache
/// keeps 1/[`FREE_SHARE`] of its memory free instead.
const FEW_PAGES: u64 = 1024;
const FREE_SHARE: u64 = 32;
/// The most memory, in bytes, whose pages the engine can number, less one block for rounding up.
const MOST_MEMORY: u64 = (2 << 40) - BLOCK * PAGE as u64;
/// Pages of the buddy allocator's largest block; the engine rounds zones up to it.
const BLOCK: u64 = 1 << (mm::memory::buddy::ORDERS - 1);
/// Bytes of a node of the engine's page index: 69 words and two tag bitmaps.
const NODE_BYTES: u64 = 69 * 4 + 16;
/// Pages of memory for each CPU slot: its per-CPU lists and batches keep up to half of them from
/// reclaim.
const PAGES_PER_CPU: u64 = 128;

/// The configuration of a cache.
#[derive(Debug, Clone)]
pub struct Config {
    /// Bytes of memory for pages: from 32 KiB up to the machine's memory, at most 2 TiB. Never
    /// exceeded; the tables beside the pages take up to 2 % more, and what any cache has (stacks,
    /// files, tasks) up to 2 MiB, which from 256 MiB on is within these 2 %. When the process gets
    /// the memory: [`Held`].
    pub memory: u64,
    /// Classes of memory above the general one, at most two; they are part of `memory`. The general
    /// class has number 0, these 1 and 2.
    pub classes: Vec<Class>,
    /// Watermarks of the general class; `None`: its share by size of those of the whole cache, by
    /// the kernel's formula.
    pub marks: Option<Marks>,
    /// As [`Class::reserve_ratio`], for the general class.
    pub reserve_ratio: u32,
    /// How the system holds the general class's memory.
    pub held: Held,
    /// CPU slots: how many threads can be inside the engine at once, 1..=64. A cache takes at most
    /// one for each 512 KiB of memory, however many are asked for: each keeps pages of its own.
    pub cpus: usize,
    /// Threads that may use the cache at the same time, 1..=65536. A thread counts from its first
    /// call until it ends.
    pub max_threads: u32,
    /// Threads that continue the calls of [`crate::AsyncFile`]s, 1..=64. They start with the first
    /// such handle.
    pub async_threads: u32,
    /// Asynchronous calls under way at the same time, 1..=1024: for each device this many reads and
    /// this many other calls, but at most one for each 64 pages of memory (and at least one),
    /// because each holds pages. Any number may be outstanding; further ones wait for their turn.
    pub async_calls: u32,
    /// Files that may be open at the same time, 1..=16777215. Closed files stay cached, each with a
    /// descriptor of the process, until their numbers are needed.
    pub max_files: u32,
    /// Dirty pages, in percent of memory, at which background writeback starts.
    pub dirty_background_ratio: u64,
    /// Dirty pages, in percent of memory, at which writers are throttled.
    pub dirty_ratio: u64,
    /// The engine's policy; by default Linux 3.16, the first preset in which throttled writers only
    /// sleep.
    pub policy: Policy,
    /// How background transfers (read-ahead, writeback) are made.
    pub transfers: Transfers,
    /// Address at which [`crate::Cache::openmetrics`] is served for `GET /metrics`: a loopback
    /// address (`127.0.0.1:9100`, `[::1]:9100`; port 0: any free port, see
    /// [`crate::Cache::metrics_address`]). `None`, the default: the cache opens no port.
    pub metrics: Option<SocketAddr>,
    /// Which events of the engine are kept for [`crate::Cache::events`]; `None`, the default: none.
    pub tracing: Option<Tracing>,
    /// How long [`crate::Cache::shutdown`], and so dropping the cache, waits for pages that the
    /// program holds to change ([`crate::PageMut`]), 5 seconds by default. Such a page is not
    /// written, and the shutdown reports it as lost.
    pub page_wait: Duration,
    /// Called with a [`Notice`] that a program may want to know of.
    pub on_notice: OnNotice,
    /// Called if a cache that is dropped loses data. [`crate::Cache::shutdown`] returns the same
    /// instead.
    pub on_loss: OnLoss,
}

/// How transfers are made that no task waits for where they begin: read-ahead and writeback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transfers {
    /// By an io_uring if the system has one, else by `Calls`; [`Config::on_notice`] is told why.
    #[default]
    Ring,
    /// By `preadv` and `pwritev` in four threads for each device.
    Calls,
}

/// A condition that a program may want to know of, although its cache works in spite of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// The system has no io_uring, for this reason: transfers are made by calls.
    NoRing(Errno),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRing(e) => write!(f, "no io_uring ({e}): threads do reads and writes"),
        }
    }
}

/// The receiver of a [`Notice`]. The default prints it to standard error.
#[derive(Clone)]
pub struct OnNotice(Arc<dyn Fn(Notice) + Send + Sync>);

impl OnNotice {
    /// Returns a receiver that calls `f` on the thread that builds the cache.
    pub fn call(f: impl Fn(Notice) + Send + Sync + 'static) -> Self {
        Self(Arc::new(f))
    }

    pub(crate) fn tell(&self, notice: Notice) {
        (self.0)(notice);
    }
}

impl Default for OnNotice {
    fn default() -> Self {
        Self::call(|notice| eprintln!("page cache: {notice}"))
    }
}

impl fmt::Debug for OnNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnNotice")
    }
}

/// The receiver of the report that a cache lost data when it was dropped. The default prints it to
/// standard error, as for a panic: data is never lost in silence.
#[derive(Clone)]
pub struct OnLoss(Arc<dyn Fn(&Shutdown) + Send + Sync>);

impl OnLoss {
    /// Returns a receiver that calls `f` on the thread that drops the cache.
    pub fn call(f: impl Fn(&Shutdown) + Send + Sync + 'static) -> Self {
        Self(Arc::new(f))
    }

    pub(crate) fn tell(&self, end: &Shutdown) {
        (self.0)(end);
    }
}

impl Default for OnLoss {
    /// Returns a receiver that prints the number of lost pages, and the files whose sync failed, to
    /// standard error.
    fn default() -> Self {
        Self::call(|end| {
            eprintln!("a page cache was dropped and lost {} pages", end.lost_pages);
            for (path, error) in &end.failed {
                eprintln!("  {}: {error}", path.display());
            }
        })
    }
}

impl fmt::Debug for OnLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnLoss")
    }
}

impl Default for Config {
    /// Returns the configuration of a cache of 64 MiB without classes, metrics and tracing.
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            classes: Vec::new(),
            marks: None,
            reserve_ratio: class::RESERVE_RATIO,
            held: Held::default(),
            cpus: std::thread::available_parallelism().map_or(4, |n| n.get().clamp(1, 64)),
            max_threads: 64,
            async_threads: 2,
            async_calls: 64,
            max_files: 1024,
            dirty_background_ratio: 10,
            dirty_ratio: 20,
            policy: Policy::linux_3_16(),
            transfers: Transfers::default(),
            metrics: None,
            tracing: None,
            page_wait: Duration::from_secs(5),
            on_notice: OnNotice::default(),
            on_loss: OnLoss::default(),
        }
    }
}

impl Config {
    /// Returns how many asynchronous calls of one lane (a device's reads, or its other calls) may
    /// be under way: bounded by the memory, because each call holds pages.
    pub(crate) fn async_most(&self) -> u32 {
        let most = (self.memory / PAGE as u64 / 64).clamp(1, 1024) as u32;
        self.async_calls.min(most)
    }

    /// Returns how many task numbers asynchronous calls need, on all lanes and for short operations
    /// of their threads.
    pub(crate) fn async_tasks(&self) -> u32 {
        ASYNC_LANES * self.async_most() + ASYNC_SPARE
    }

    /// Checks all values and returns the engine's configuration. `Err`: a value is out of range;
    /// the text says which values are accepted.
    pub(crate) fn engine(&self) -> Result<mm::Config, Error> {
        let refuse = |text: String| Err(Error::Config(text));
        let pages = self.memory / PAGE as u64;
        let info = rustix::system::sysinfo();
        let machine = (info.totalram as u64).saturating_mul(u64::from(info.mem_unit));
        if !(LEAST_MEMORY..=MOST_MEMORY.min(machine)).contains(&self.memory) {
            return refuse(format!(
                "memory = {}: accepted are 32 KiB to {} MiB, which is {}",
                self.memory,
                MOST_MEMORY.min(machine) >> 20,
                match machine < MOST_MEMORY {
                    true => "this machine's memory",
                    false => "the limit of page numbers",
                }
            ));
        }
        if !(1..=64).contains(&self.cpus) {
            return refuse(format!("cpus = {}: accepted are 1 to 64", self.cpus));
        }
        let cpus = self.cpus.min((pages / PAGES_PER_CPU).max(1) as usize);
        if !(1..=65_536).contains(&self.max_threads) {
            return refuse(format!(
                "max_threads = {}: accepted are 1 to 65536",
                self.max_threads
            ));
        }
        if !(1..=64).contains(&self.async_threads) || !(1..=1024).contains(&self.async_calls) {
            return refuse(format!(
                "async_threads = {}, async_calls = {}: accepted are 1 to 64 and 1 to 1024",
                self.async_threads, self.async_calls
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
        if let Some(Tracing { room, .. }) = self.tracing
            && !(1..=1 << 24).contains(&room)
        {
            return refuse(format!("tracing.room = {room}: accepted are 1 to 16777216"));
        }
        Ok(mm::Config {
            cpus,
            cpu_nodes: vec![0; cpus],
            hz: 1000,
            pageblock_order: mm::memory::mobility::PAGEBLOCK_ORDER,
            zones: class::zones(&self.classes, pages)?,
            max_tasks: FIRST_USER + self.max_threads + self.async_tasks(),
            max_mappings: self.max_files,
            max_bdis: DEVICES,
            max_supers: 0,
            max_ags: 0,
            swap_slots: 0,
            swap_rotates: false,
            groups: Vec::new(),
            sysctl: Sysctl {
                dirty_background_ratio: self.dirty_background_ratio as u32,
                dirty_ratio: self.dirty_ratio as u32,
                lowmem_reserve_ratio: self.reserve_ratios(),
                min_free_kbytes: (pages < FEW_PAGES).then(|| (pages / FREE_SHARE).max(1) * 4),
                ..Sysctl::KERNEL
            },
        })
    }

    /// Returns the engine's policy with the watermarks of the classes. `Err`: watermarks do not
    /// ascend, or are above half of their class.
    pub(crate) fn engine_policy(&self, zones: &[ZoneInfo]) -> Result<Policy, Error> {
        let above = self.classes.iter().map(|c| c.marks);
        let marks: Vec<_> = [self.marks].into_iter().chain(above).collect();
        class::with_marks(self.policy.clone(), &marks, zones)
    }

    /// Returns how the system holds each class's memory, lowest class first.
    pub(crate) fn helds(&self) -> impl Iterator<Item = Held> {
        let above = self.classes.iter().map(|c| c.held);
        [self.held].into_iter().chain(above)
    }

    /// Returns the sysctl `lowmem_reserve_ratio`, by zone type, for the cache's classes.
    fn reserve_ratios(&self) -> [u32; 3] {
        let above = self.classes.iter().map(|c| c.reserve_ratio);
        let all: Vec<_> = [self.reserve_ratio].into_iter().chain(above).collect();
        class::reserve_ratios(&all)
    }

    /// Tests whether the system has memory for the engine's tables. The engine allocates them
    /// without a check and would end the process, so this is the last test before it does.
    pub(crate) fn check_tables(&self, engine: &mm::Config) -> Result<(), Error> {
        let tables = table_bytes(engine);
        if map::room_for(tables) {
            return Ok(());
        }
        Err(Error::Config(format!(
            "memory = {}, max_files = {}, max_threads = {}: the system has no {tables} bytes \
             for the tables of such a cache",
            self.memory, self.max_files, self.max_threads
        )))
    }
}

/// Returns the bytes of the engine's tables: frames, nodes of page indices, files, tasks.
fn table_bytes(config: &mm::Config) -> u64 {
    let frames: u64 = config.zones.iter().map(|z| z.size).sum::<u64>() + BLOCK;
    let nodes = frames.min((frames / 4).max(4 << 20)) + 64;
    let of = |n: u32, bytes: usize| u64::from(n) * bytes as u64;
    frames * mm::memory::frame::BYTES_PER_FRAME as u64
        + nodes * NODE_BYTES
        + of(config.max_mappings, size_of::<Mapping<LiveWorld>>())
        + of(
            config.max_tasks,
            size_of::<Task<LiveWorld>>() + mm::memory::frame::BYTES_PER_FRAME,
        )
}
