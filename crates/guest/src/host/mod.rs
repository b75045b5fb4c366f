//! The [`Host`] of the kernel world: every call is a system call of the calling thread.
//!
//! Each task is a thread with its own [`TaskHost`]; their common state is [`Shared`]. They are
//! threads of one process, so they share its address space: faults of one wait for mmap(2) of
//! another, and the kernel kills them together.
//!
//! **I/O buffers** contain only zeroes and do not count as memory of a program (programs that count
//! memory map it). So a buffer is at most a window of 256 KiB, which a longer call uses again and
//! again: still one system call.
//!
//! **Time** is CLOCK_MONOTONIC since the start of the workload. See [`spend`](Spend) for
//! computation.
//!
//! **Kernel pages** ([`Host::alloc_pages`]) of order 0 are pages of pipes: a packet of one byte
//! takes one whole unmovable page of the kernel, by an allocation that may sleep and reclaim like
//! any other. User space has no call that takes several contiguous pages, and none that may not
//! sleep.

mod counts;
mod kernel_pages;
mod paths;
mod spend;

pub use spend::{SPEND, Spend};

use crate::sys::{self, Mapping, Of, PAGE, Touched};
use counts::Counts;
use kernel_pages::KernelPages;
use paths::{error, relative};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::{ClockId, CpuSet, NanosleepRelativeResult, Timespec};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use workload::{
    Advice, Cpus, Fd, Host, HostError, HostResult, Map, MapId, OpenFlags, Pages, Report, Session,
    Stat, Task, Usage, Word, joined,
};

const SECOND: u64 = 1_000_000_000;

/// Bytes of a thread's stack: programs keep their data elsewhere, and only the used part takes
/// memory.
pub(crate) const STACK: usize = 256 << 10;

/// Returns CLOCK_MONOTONIC in nanoseconds.
pub fn clock() -> u64 {
    nanoseconds(rustix::time::clock_gettime(ClockId::Monotonic))
}

/// Returns the time of the last tick of the kernel's timer by [`clock`], and the interval between
/// ticks, both in nanoseconds.
pub fn last_tick() -> (u64, u64) {
    let coarse = ClockId::MonotonicCoarse;
    let tick = nanoseconds(rustix::time::clock_getres(coarse));
    (
        nanoseconds(rustix::time::clock_gettime(coarse)),
        tick.max(1),
    )
}

fn nanoseconds(t: Timespec) -> u64 {
    t.tv_sec as u64 * SECOND + t.tv_nsec as u64
}

/// Converts nanoseconds to the kernel's form of time.
pub(crate) fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: (ns / SECOND) as i64,
        tv_nsec: (ns % SECOND) as i64,
    }
}

/// Sleeps until a time of [`clock`], in nanoseconds.
pub fn sleep_until(ns: u64) {
    let until = timespec(ns);
    while rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &until) == Err(Errno::INTR) {
    }
}

/// Sleeps for `ns` nanoseconds, also across signals.
fn sleep(ns: u64) {
    let mut left = timespec(ns);
    while let NanosleepRelativeResult::Interrupted(rest) = rustix::thread::nanosleep(&left) {
        left = rest;
    }
}

/// Locks a mutex and ignores poison: the data has no invariants that a panic could break.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a program's future to its end. Every call of this host blocks its thread, so the future is
/// ready when it is first polled.
///
/// # Panics
/// If a future is not ready at once.
pub fn run<F: Future>(program: F) -> F::Output {
    match pin!(program).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a program waits for something else than the kernel"),
    }
}

/// Costs of user code in nanoseconds, for kernels in which computation takes no time by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Costs {
    /// Copying a whole page between two buffers of a program.
    pub copy_page_ns: u64,
    /// A call of gettimeofday.
    pub gettimeofday_ns: u64,
}

/// A table of values by number; free numbers are used again.
#[derive(Debug)]
struct Slots<T>(Mutex<Vec<Option<T>>>);

impl<T: Clone> Slots<T> {
    fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Stores a value and returns its number: the lowest free one.
    fn put(&self, thing: T) -> u32 {
        let mut slots = lock(&self.0);
        let free = slots.iter().position(Option::is_none);
        let slot = free.unwrap_or(slots.len());
        if slot == slots.len() {
            slots.push(None);
        }
        slots[slot] = Some(thing);
        slot as u32
    }

    fn get(&self, slot: u32) -> Option<T> {
        lock(&self.0).get(slot as usize)?.clone()
    }

    fn take(&self, slot: u32) -> Option<T> {
        lock(&self.0).get_mut(slot as usize)?.take()
    }
}

#[derive(Debug)]
struct Open {
    fd: OwnedFd,
    path: String,
    /// Whether it is a device such as `/dev/zero`.
    device: bool,
}

#[derive(Debug)]
struct Mapped {
    memory: Mapping,
    what: String,
}

/// State shared by the tasks of a run.
pub struct Shared {
    /// The directory that paths are relative to.
    root: OwnedFd,
    session: Session,
    costs: Costs,
    spend: Spend,
    counts: Counts,
    /// The time of [`clock`] at which the workload started.
    started: AtomicU64,
    open: Slots<Arc<Open>>,
    maps: Slots<Arc<Mapped>>,
}

impl Shared {
    /// Makes the state for tasks on the files below a directory. Until [`Self::start`], time counts
    /// from now.
    pub fn new(root: OwnedFd, session: Session, costs: Costs, spend: Spend) -> Self {
        Self {
            root,
            session,
            costs,
            spend,
            counts: Counts::new(),
            started: AtomicU64::new(clock()),
            open: Slots::new(),
            maps: Slots::new(),
        }
    }

    /// Sets the time of [`clock`] from which time counts.
    pub fn start(&self, at: u64) {
        self.started.store(at, Ordering::Relaxed);
    }

    /// Returns the time of [`clock`] from which time counts.
    pub fn started(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    /// Returns the nanoseconds since the start.
    pub fn now(&self) -> u64 {
        clock().saturating_sub(self.started.load(Ordering::Relaxed))
    }

    /// Returns the state that programs share.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns notes for readers of the results, each one once.
    pub fn notes(&self) -> Vec<String> {
        self.spend
            .note()
            .into_iter()
            .chain(self.counts.note())
            .collect()
    }
}

/// An I/O buffer of zeroes.
pub struct Buffer {
    memory: Vec<u8>,
    /// Offset of the window in `memory`, aligned for direct I/O.
    at: usize,
    window: usize,
}

impl Buffer {
    /// Makes a buffer for calls of `len` bytes; its window is page-aligned for direct I/O.
    fn new(len: u64) -> Self {
        let window = sys::window_for(usize::try_from(len).unwrap_or(usize::MAX));
        // Pages take memory only once they are touched.
        let memory = vec![0; window + PAGE];
        let at = memory.as_ptr().align_offset(PAGE);
        Self { memory, at, window }
    }

    /// Returns the part of the buffer that a call of `len` bytes uses: at most 256 KiB, again and
    /// again.
    fn window(&self, len: u64) -> &[u8] {
        let size = sys::window_for(len as usize).min(self.window);
        &self.memory[self.at..self.at + size]
    }

    /// Returns the part that [`Self::window`] does, to be read into.
    fn window_mut(&mut self, len: u64) -> &mut [u8] {
        let size = sys::window_for(len as usize).min(self.window);
        &mut self.memory[self.at..self.at + size]
    }
}

/// The host of one task, which runs on the calling thread.
pub struct TaskHost {
    shared: Arc<Shared>,
    /// Computation that is done but not yet charged, in nanoseconds.
    debt: Cell<u64>,
    /// Computation that was charged as CPU time, in nanoseconds.
    spent: Cell<u64>,
    /// The longest touch of a page since the last query, in nanoseconds; `None`: there was no query
    /// yet, so touches are not timed.
    longest_touch: Cell<Option<u64>>,
    kernel_pages: RefCell<KernelPages>,
}

impl TaskHost {
    /// Makes a host for the calling thread.
    pub fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            debt: Cell::new(0),
            spent: Cell::new(0),
            longest_touch: Cell::new(None),
            kernel_pages: RefCell::default(),
        }
    }

    /// Runs a task to its end, spends the computation it still owes, and returns its report.
    ///
    /// # Errors
    /// The task fails.
    pub fn run<T: Task>(&self, task: &T) -> HostResult<Report> {
        let report = run(task.run(self, &self.shared.session));
        self.pay(0);
        report
    }

    /// Charges `ns` nanoseconds of computation; spent in portions that are worth a system call.
    fn owe(&self, ns: u64) {
        self.debt.set(self.debt.get() + ns);
        self.pay(spend::WORTH_A_CALL);
    }

    /// Lets the computation that is owed take time if it exceeds `least` nanoseconds.
    fn pay(&self, least: u64) {
        let debt = self.debt.get();
        if debt > least {
            self.debt.set(0);
            if self.shared.spend.spend(debt) {
                self.spent.set(self.spent.get() + debt);
            }
        }
    }

    /// Returns the open file of a descriptor, or an error if it is not open.
    fn get(&self, fd: Fd) -> HostResult<Arc<Open>> {
        let open = self.shared.open.get(fd.0);
        open.ok_or_else(|| HostError::Unsupported(format!("descriptor {} is not open", fd.0)))
    }

    /// Opens a path below the tested filesystem's root.
    fn openat(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let mode = Mode::from_raw_mode(0o666);
        rustix::fs::openat(&self.shared.root, path, flags | OFlags::CLOEXEC, mode)
    }

    /// Makes the directories above a path below the root, as far as they are missing.
    fn make_parents(&self, path: &str) {
        let above = path.match_indices('/').map(|(at, _)| &path[..at]);
        for dir in above {
            // If this fails, the call that needs the directories reports the error.
            let _ = rustix::fs::mkdirat(&self.shared.root, dir, Mode::from_raw_mode(0o777));
        }
    }
}

/// Converts a program's flags to those of open(2); a device takes only the access mode.
fn open_flags(flags: OpenFlags, device: bool) -> OFlags {
    let access = match (flags.read, flags.write) {
        (_, false) => OFlags::RDONLY,
        (false, true) => OFlags::WRONLY,
        (true, true) => OFlags::RDWR,
    };
    let of_files = [
        (flags.create, OFlags::CREATE),
        (flags.truncate, OFlags::TRUNC),
        (flags.append, OFlags::APPEND),
        (flags.direct, OFlags::DIRECT),
        (flags.sync, OFlags::SYNC),
        (flags.dsync, OFlags::DSYNC),
        (flags.exclusive && flags.create, OFlags::EXCL),
    ];
    let set = of_files.into_iter().filter(|(set, _)| *set && !device);
    set.fold(access, |all, (_, flag)| all | flag)
}

impl Host for TaskHost {
    type Buf = Buffer;
    type Dir = Rc<str>;

    fn buffer(&self, len: u64) -> Buffer {
        Buffer::new(len)
    }

    fn now(&self) -> u64 {
        self.shared.now() + self.debt.get()
    }

    /// Opens a file below the root, or one of three devices, as open(2) does. Directories above a
    /// file that is created are made, too. Returns the host's own descriptor.
    async fn open(&self, path: &str, flags: OpenFlags) -> HostResult<Fd> {
        let device = ["/dev/zero", "/dev/null", "/dev/urandom"].contains(&path);
        let how = open_flags(flags, device);
        let fd = if device {
            let mode = Mode::empty();
            rustix::fs::open(path, how | OFlags::CLOEXEC, mode).map_err(|e| error(path, e))?
        } else {
            let path = &*relative(path)?;
            let opened = match self.openat(path, how) {
                Err(Errno::NOENT) if flags.create => {
                    self.make_parents(path);
                    self.openat(path, how)
                }
                other => other,
            };
            opened.map_err(|e| match e {
                Errno::INVAL if flags.direct => {
                    HostError::Unsupported(format!("direct I/O of {path}"))
                }
                e => error(path, e),
            })?
        };
        let open = Arc::new(Open {
            fd,
            path: path.to_owned(),
            device,
        });
        Ok(Fd(self.shared.open.put(open)))
    }

    /// Closes a descriptor, once no other task uses it.
    async fn close(&self, fd: Fd) -> HostResult<()> {
        self.get(fd)?;
        self.shared.open.take(fd.0);
        Ok(())
    }

    /// Reads `len` bytes at the file position with one read(2); returns the bytes read, 0 at the
    /// end.
    async fn read(&self, fd: Fd, buf: &mut Buffer, len: u64) -> HostResult<u64> {
        let o = self.get(fd)?;
        let read = sys::read_over(o.fd.as_fd(), buf.window_mut(len), len as usize, None);
        read.map_err(|e| error(&o.path, e))
    }

    /// Reads `len` bytes at the offset `pos` with one call; returns the bytes read, 0 at the end.
    async fn read_at(&self, fd: Fd, buf: &mut Buffer, pos: u64, len: u64) -> HostResult<u64> {
        let o = self.get(fd)?;
        let read = sys::read_over(o.fd.as_fd(), buf.window_mut(len), len as usize, Some(pos));
        read.map_err(|e| error(&o.path, e))
    }

    /// Writes `len` bytes at the file position with one write(2); returns the bytes written.
    async fn write(&self, fd: Fd, buf: &Buffer, len: u64) -> HostResult<u64> {
        let o = self.get(fd)?;
        let written = sys::write_over(o.fd.as_fd(), buf.window(len), len as usize, None);
        written.map_err(|e| error(&o.path, e))
    }

    /// Writes `len` bytes at the offset `pos` with one call; returns the bytes written.
    async fn write_at(&self, fd: Fd, buf: &Buffer, pos: u64, len: u64) -> HostResult<u64> {
        let o = self.get(fd)?;
        let written = sys::write_over(o.fd.as_fd(), buf.window(len), len as usize, Some(pos));
        written.map_err(|e| error(&o.path, e))
    }

    /// Charges the CPU time of copying `len` bytes between two buffers; no data is moved.
    async fn copy(&self, _: &Buffer, _: u64, _: &mut Buffer, _: u64, len: u64) -> HostResult<()> {
        // The data is all zeroes.
        let ns = u128::from(len) * u128::from(self.shared.costs.copy_page_ns) / PAGE as u128;
        self.owe(ns as u64);
        Ok(())
    }

    /// Sets the file position to `pos` bytes; a device has none.
    async fn seek(&self, fd: Fd, pos: u64) -> HostResult<u64> {
        let o = self.get(fd)?;
        if o.device {
            return Ok(pos);
        }
        let sought = rustix::fs::seek(&o.fd, rustix::fs::SeekFrom::Start(pos));
        sought.map_err(|e| error(&o.path, e))
    }

    /// Passes advice on the whole file to the kernel with posix_fadvise(2).
    async fn fadvise(&self, fd: Fd, advice: Advice) -> HostResult<()> {
        let o = self.get(fd)?;
        let advice = match advice {
            Advice::Normal => rustix::fs::Advice::Normal,
            Advice::Sequential => rustix::fs::Advice::Sequential,
            Advice::Random => rustix::fs::Advice::Random,
        };
        // To the end of the file.
        let advised = rustix::fs::fadvise(&o.fd, 0, None, advice);
        advised.map_err(|e| error(&o.path, e))
    }

    /// Asks the kernel to drop the file's clean cached pages, with posix_fadvise(2).
    async fn drop_cache(&self, fd: Fd) -> HostResult<()> {
        let o = self.get(fd)?;
        let advised = rustix::fs::fadvise(&o.fd, 0, None, rustix::fs::Advice::DontNeed);
        advised.map_err(|e| error(&o.path, e))
    }

    /// Returns the length of an open file in bytes.
    fn len(&self, fd: Fd) -> HostResult<u64> {
        let o = self.get(fd)?;
        let stat = rustix::fs::fstat(&o.fd).map_err(|e| error(&o.path, e))?;
        Ok(stat.st_size as u64)
    }

    /// Sets the file's length to `len` bytes; a device has none.
    async fn truncate(&self, fd: Fd, len: u64) -> HostResult<()> {
        let o = self.get(fd)?;
        if o.device {
            return Ok(());
        }
        rustix::fs::ftruncate(&o.fd, len).map_err(|e| error(&o.path, e))
    }

    /// Calls fsync(2), or fdatasync(2) if `data_only`; on a device nothing.
    async fn sync(&self, fd: Fd, data_only: bool) -> HostResult<()> {
        let o = self.get(fd)?;
        let synced = match (o.device, data_only) {
            (true, _) => Ok(()),
            (_, true) => rustix::fs::fdatasync(&o.fd),
            (_, false) => rustix::fs::fsync(&o.fd),
        };
        synced.map_err(|e| error(&o.path, e))
    }

    /// Writes to /proc/sys/vm/drop_caches.
    async fn drop_caches(&self, what: u8) -> HostResult<()> {
        let path = "/proc/sys/vm/drop_caches";
        std::fs::write(path, what.to_string()).map_err(|e| HostError::Io(format!("{path}: {e}")))
    }

    async fn sync_all(&self) -> HostResult<()> {
        rustix::fs::sync();
        Ok(())
    }

    /// Makes a directory, and those above it if they are missing.
    async fn mkdir(&self, path: &str) -> HostResult<()> {
        let path = &*relative(path)?;
        let make = || rustix::fs::mkdirat(&self.shared.root, path, Mode::from_raw_mode(0o777));
        let made = match make() {
            Err(Errno::NOENT) => {
                self.make_parents(path);
                make()
            }
            other => other,
        };
        made.map_err(|e| error(path, e))
    }

    /// Removes an empty directory; a mount point counts as not found.
    async fn rmdir(&self, path: &str) -> HostResult<()> {
        let path = &*relative(path)?;
        let removed = rustix::fs::unlinkat(&self.shared.root, path, AtFlags::REMOVEDIR);
        removed.map_err(|e| match e {
            // A mount point, or no directory.
            Errno::BUSY | Errno::NOTDIR => HostError::NotFound(path.to_owned()),
            e => error(path, e),
        })
    }

    /// Removes a file's name with unlink(2).
    async fn unlink(&self, path: &str) -> HostResult<()> {
        let path = &*relative(path)?;
        let removed = rustix::fs::unlinkat(&self.shared.root, path, AtFlags::empty());
        removed.map_err(|e| error(path, e))
    }

    fn dir(&self, path: &str) -> Rc<str> {
        path.into()
    }

    /// Makes a directory; returns false if it existed.
    async fn mkdir_kept(&self, dir: &Rc<str>) -> HostResult<bool> {
        match self.mkdir(dir).await {
            Err(HostError::Exists(_)) => Ok(false),
            made => made.map(|()| true),
        }
    }

    // Not openat(2) and unlinkat(2) on the directory: the programs modelled by ours pass whole
    // paths.
    async fn open_in(&self, dir: &Rc<str>, name: &str, flags: OpenFlags) -> HostResult<Fd> {
        self.open(&joined(dir, name), flags).await
    }

    async fn unlink_in(&self, dir: &Rc<str>, name: &str) -> HostResult<()> {
        self.unlink(&joined(dir, name)).await
    }

    /// Returns kind and length of a file; a directory's length is 0.
    async fn stat(&self, path: &str) -> HostResult<Stat> {
        let path = &*relative(path)?;
        let stat = rustix::fs::statat(&self.shared.root, path, AtFlags::SYMLINK_NOFOLLOW);
        let stat = stat.map_err(|e| error(path, e))?;
        let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let len = if directory { 0 } else { stat.st_size as u64 };
        Ok(Stat { directory, len })
    }

    /// Does what [`Self::stat`] does for the name of index `nth` in a directory's listing.
    async fn stat_listed(
        &self,
        dir: &Rc<str>,
        names: &workload::Listing,
        nth: usize,
    ) -> HostResult<Stat> {
        self.stat(&joined(dir, &names[nth])).await
    }

    /// Returns the names in a directory, without `.` and `..`.
    async fn read_dir(&self, path: &str) -> HostResult<workload::Listing> {
        let path = &*relative(path)?;
        let names = || {
            let fd = self.openat(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
            let mut names: Vec<Rc<str>> = Vec::new();
            for entry in Dir::new(fd)? {
                let entry = entry?;
                match entry.file_name().to_bytes() {
                    b"." | b".." => {}
                    name => names.push(String::from_utf8_lossy(name).into()),
                }
            }
            Ok(names.into())
        };
        names().map_err(|e: Errno| error(path, e))
    }

    /// Maps `len` bytes (whole pages) of a file or of anonymous memory, with advice on their use.
    async fn map(&self, what: Map, len: u64, advice: Advice) -> HostResult<MapId> {
        if len == 0 || !len.is_multiple_of(PAGE as u64) {
            return Err(HostError::Unsupported(format!(
                "a mapping of {len} bytes; it takes whole pages of 4096"
            )));
        }
        let file = match what {
            Map::Anon => None,
            Map::Shared(fd) | Map::Private(fd) => Some(self.get(fd)?),
        };
        let of = match &file {
            None => Of::Anon,
            Some(o) if o.device => {
                return Err(HostError::Unsupported(format!("mapping {}", o.path)));
            }
            Some(o) => Of::File(o.fd.as_fd(), matches!(what, Map::Private(_))),
        };
        let pages = usize::try_from(len).map_err(|_| HostError::OutOfMemory)? / PAGE;
        let path = file.as_ref().map_or("anonymous memory", |o| &o.path);
        let memory = Mapping::new(of, pages).map_err(|e| error(path, e))?;
        memory.advise(advice).map_err(|e| error(path, e))?;
        let what = path.to_owned();
        Ok(MapId(
            self.shared.maps.put(Arc::new(Mapped { memory, what })),
        ))
    }

    /// Touches `pages` pages of a mapping from page `first` on: `word` says which value to expect
    /// and to store. Times the touches once a program has asked for its usage.
    async fn touch(&self, map: MapId, first: u64, pages: u64, word: Word) -> HostResult<()> {
        let map = self.shared.maps.get(map.0).ok_or_else(not_mapped)?;
        let timed = self.longest_touch.get().is_some();
        let mut before = if timed { clock() } else { 0 };
        for page in first..first + pages {
            match map.memory.touch(page as usize, word.expect, word.store) {
                Touched::Ok => {}
                Touched::Differs | Touched::BusError => {
                    return Err(HostError::Io(map.what.clone()));
                }
            }
            if timed {
                let now = clock();
                let longest = self.longest_touch.get().unwrap_or(0);
                self.longest_touch.set(Some(longest.max(now - before)));
                before = now;
            }
        }
        Ok(())
    }

    /// Removes a mapping, once no other task uses it.
    async fn unmap(&self, map: MapId) -> HostResult<()> {
        self.shared
            .maps
            .take(map.0)
            .map(drop)
            .ok_or_else(not_mapped)
    }

    /// Makes the kernel take a page, by a write into a pipe; `None`: it has no memory. Only order
    /// 0, which may sleep, exists for a program.
    async fn alloc_pages(&self, order: u32, atomic: bool) -> HostResult<Option<Pages>> {
        if order > 0 || atomic {
            return Err(HostError::Unsupported(
                "kernel pages of an order above 0, and such that may not wait: a program of a real kernel has no \
                 call for them"
                    .to_owned(),
            ));
        }
        let taken = self.kernel_pages.borrow_mut().take();
        match taken {
            Ok(id) => Ok(Some(Pages { id, order })),
            Err(e) if e == Errno::NOMEM => Ok(None),
            Err(e) => Err(error("a pipe", e)),
        }
    }

    async fn free_pages(&self, pages: Pages) -> HostResult<()> {
        let freed = self.kernel_pages.borrow_mut().give_back(pages.id);
        freed.map_err(|e| error("a pipe", e))
    }

    /// Returns the thread's CPU times, its longest touch since the last call, and the system's
    /// counters.
    fn usage(&self) -> HostResult<Usage> {
        let longest = self.longest_touch.replace(Some(0)).unwrap_or(0);
        let (user_ns, sys_ns) = if self.shared.spend.is_cpu_time() {
            // User code takes no time except what was charged.
            let all = nanoseconds(rustix::time::clock_gettime(ClockId::ThreadCPUTime));
            (self.spent.get(), all.saturating_sub(self.spent.get()))
        } else {
            sys::thread_times()
        };
        let counted = self.shared.counts.read()?;
        Ok(Usage {
            user_ns,
            sys_ns,
            longest_alloc_ns: longest,
            ..counted
        })
    }

    fn memory(&self) -> HostResult<u64> {
        counts::total_memory()
    }

    /// Returns the wall-clock time in microseconds, and charges the call's cost.
    fn gettimeofday(&self) -> u64 {
        self.owe(self.shared.costs.gettimeofday_ns);
        let now = nanoseconds(rustix::time::clock_gettime(ClockId::Realtime));
        (now + self.debt.get()) / 1000
    }

    /// Runs each child task on a thread of its own and waits for all. Returns their reports in
    /// order, or the first error.
    async fn fork<C: Task>(&self, children: Vec<C>) -> HostResult<Vec<Report>> {
        self.pay(0);
        let shared = &self.shared;
        std::thread::scope(|scope| {
            let mut running = Vec::with_capacity(children.len());
            let mut refused = None;
            for child in children {
                let builder = std::thread::Builder::new()
                    .name(child.name().to_owned())
                    .stack_size(STACK);
                let life = move || TaskHost::new(shared).run(&child);
                match builder.spawn_scoped(scope, life) {
                    Ok(thread) => running.push(thread),
                    Err(e) => {
                        let nth = running.len() + 1;
                        let what = format!("process {nth} of a program: {e}");
                        refused = Some(HostError::Unsupported(what));
                        break;
                    }
                }
            }
            // Wait for all threads before returning the first error.
            let ended: Vec<_> = running.into_iter().map(|thread| thread.join()).collect();
            let reports = ended.into_iter().map(|result| match result {
                Ok(report) => report,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            let reports = reports.collect::<HostResult<Vec<Report>>>()?;
            refused.map_or(Ok(reports), Err)
        })
    }

    /// Moves this process into a group: it is one of its own, made for the command.
    async fn enter_group(&self, group: &str) -> HostResult<()> {
        let entered = crate::groups::enter(group);
        entered.map_err(|why| HostError::Unsupported(format!("the group `{group}`: {why}")))
    }

    /// Binds this thread to CPUs, by mask or node; returns the former set as a mask.
    async fn bind(&self, to: Cpus) -> HostResult<Cpus> {
        let failed = |e: Errno| error("binding to CPUs", e);
        let before = rustix::thread::sched_getaffinity(None).map_err(failed)?;
        let mut set = CpuSet::new();
        match to {
            Cpus::Mask(mask) => {
                let cpus = (0..64).filter(|cpu| mask & 1 << cpu != 0);
                cpus.for_each(|cpu| set.set(cpu));
            }
            // There is one node.
            Cpus::OfNode(0) => (0..64).for_each(|cpu| set.set(cpu)),
            Cpus::OfNode(_) => {}
        }
        match rustix::thread::sched_setaffinity(None, &set) {
            Err(Errno::INVAL) => Err(HostError::Unsupported(format!(
                "binding to {to:?}: no such CPU"
            ))),
            other => other.map_err(failed),
        }?;
        let mask = (0..64).filter(|&cpu| before.is_set(cpu));
        Ok(Cpus::Mask(mask.fold(0, |mask, cpu| mask | 1 << cpu)))
    }

    async fn compute(&self, ns: u64) {
        self.owe(ns);
    }

    async fn sleep(&self, ns: u64) {
        self.pay(0);
        sleep(ns);
    }
}

fn not_mapped() -> HostError {
    HostError::Unsupported("memory that is not mapped".into())
}

#[cfg(test)]
mod tests;
