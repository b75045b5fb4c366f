//! The interface between programs and worlds: [`Host`] is implemented by a world and called by a
//! task, [`Task`] is run by a world.
//!
//! Every program is written once against [`Host`]; the virtual, live and kernel worlds implement
//! it. Lengths and offsets are bytes; times are nanoseconds.

mod types;

pub use types::{
    Advice, Cpus, Fd, HostError, HostResult, InodeWalk, Listing, Map, MapId, OpenFlags, Pages,
    Stat, Unmounted, Usage, Word,
};

use crate::report::Report;
use crate::session::Session;
use std::future::Future;
use std::pin::Pin;

/// Joins a directory and a name to a path.
pub fn joined(dir: &str, name: &str) -> String {
    [dir, "/", name].concat()
}

/// One task's view of its world. All calls may block.
pub trait Host {
    /// The task's I/O buffer. In the virtual world it has no contents.
    type Buf;
    /// A directory's path in a form that the host can reuse, for programs that access many files in
    /// one directory.
    type Dir: Clone;

    /// Returns a buffer of `len` bytes, zeroed and aligned for direct I/O.
    fn buffer(&self, len: u64) -> Self::Buf;
    /// Returns the time since the start of the run, in nanoseconds.
    fn now(&self) -> u64;
    /// open(2). Paths are relative to the tested filesystem, except `/dev/zero`, `/dev/null` and
    /// `/dev/urandom`, which every host supports; seeking on these succeeds and does nothing.
    fn open(&self, path: &str, flags: OpenFlags) -> impl Future<Output = HostResult<Fd>>;
    /// close(2).
    fn close(&self, fd: Fd) -> impl Future<Output = HostResult<()>>;
    /// read(2): reads at most `len` bytes at the file position into the start of `buf`; returns the
    /// number of bytes, 0 at the end.
    fn read(&self, fd: Fd, buf: &mut Self::Buf, len: u64) -> impl Future<Output = HostResult<u64>>;
    /// write(2): writes at most `len` bytes from the start of `buf` at the file position; returns
    /// the number of bytes.
    fn write(&self, fd: Fd, buf: &Self::Buf, len: u64) -> impl Future<Output = HostResult<u64>>;
    /// pread(2): reads at most `len` bytes at `pos` into the start of `buf`; returns the number of
    /// bytes, 0 at the end. The file position may change. The default seeks and reads.
    fn read_at(
        &self,
        fd: Fd,
        buf: &mut Self::Buf,
        pos: u64,
        len: u64,
    ) -> impl Future<Output = HostResult<u64>> {
        async move {
            self.seek(fd, pos).await?;
            self.read(fd, buf, len).await
        }
    }
    /// pwrite(2): writes at most `len` bytes from the start of `buf` at `pos`; returns the number
    /// of bytes. The file position may change. The default seeks and writes.
    fn write_at(
        &self,
        fd: Fd,
        buf: &Self::Buf,
        pos: u64,
        len: u64,
    ) -> impl Future<Output = HostResult<u64>> {
        async move {
            self.seek(fd, pos).await?;
            self.write(fd, buf, len).await
        }
    }
    /// memcpy(3): copies `len` bytes from offset `from_at` of `from` to offset `to_at` of `to`;
    /// both ranges lie inside their buffers. Programs use it to gather records of one size into
    /// records of another. A world without contents only charges the time. The default fails, as
    /// not every host can.
    fn copy(
        &self,
        from: &Self::Buf,
        from_at: u64,
        to: &mut Self::Buf,
        to_at: u64,
        len: u64,
    ) -> impl Future<Output = HostResult<()>> {
        let _ = (from, from_at, to, to_at, len);
        async { Err(HostError::Unsupported("copying between buffers".to_owned())) }
    }
    /// lseek(2) from the start; returns the new position.
    fn seek(&self, fd: Fd, pos: u64) -> impl Future<Output = HostResult<u64>>;
    /// posix_fadvise(2) of a whole file: announces how it will be read through this descriptor. The
    /// default fails, as not every host can.
    fn fadvise(&self, fd: Fd, advice: Advice) -> impl Future<Output = HostResult<()>> {
        let _ = (fd, advice);
        async {
            Err(HostError::Unsupported(
                "advice on a file's reads".to_owned(),
            ))
        }
    }
    /// posix_fadvise(2) with POSIX_FADV_DONTNEED of a whole file: drops its clean cached pages. The
    /// default fails, as not every host can.
    fn drop_cache(&self, fd: Fd) -> impl Future<Output = HostResult<()>> {
        let _ = fd;
        async { Err(HostError::Unsupported("dropping cached pages".to_owned())) }
    }
    /// Returns the file's length in bytes.
    fn len(&self, fd: Fd) -> HostResult<u64>;
    /// ftruncate(2): shortens a file, or extends it by a hole.
    fn truncate(&self, fd: Fd, len: u64) -> impl Future<Output = HostResult<()>>;
    /// fsync(2), or fdatasync(2) with `data_only`.
    fn sync(&self, fd: Fd, data_only: bool) -> impl Future<Output = HostResult<()>>;
    /// sync(2): returns when all data that was dirty is on the device.
    fn sync_all(&self) -> impl Future<Output = HostResult<()>>;
    /// A write to /proc/sys/vm/drop_caches: frees clean page cache (bit 0 of `what`), and dentries
    /// and inodes (bit 1). The default fails, as not every host can.
    fn drop_caches(&self, what: u8) -> impl Future<Output = HostResult<()>> {
        let _ = what;
        async { Err(HostError::Unsupported("dropping all caches".to_owned())) }
    }
    /// umount(2) of the filesystem mounted on a directory.
    fn unmount(&self, path: &str) -> impl Future<Output = HostResult<Unmounted>> {
        let _ = path;
        async { Err(HostError::Unsupported("unmounting".to_owned())) }
    }
    /// mkdir(2). Missing parents are made; an existing directory is [`HostError::Exists`].
    fn mkdir(&self, path: &str) -> impl Future<Output = HostResult<()>>;
    /// rmdir(2). A directory that is not empty is [`HostError::Exists`].
    fn rmdir(&self, path: &str) -> impl Future<Output = HostResult<()>> {
        let _ = path;
        async { Err(HostError::Unsupported("removing directories".to_owned())) }
    }
    /// unlink(2).
    fn unlink(&self, path: &str) -> impl Future<Output = HostResult<()>>;
    /// Prepares a directory's path for reuse. Makes no system call: the directory need not exist,
    /// now or later.
    fn dir(&self, path: &str) -> Self::Dir;
    /// [`Self::mkdir`] of a prepared path; returns true if the directory was made, false if it
    /// existed.
    fn mkdir_kept(&self, dir: &Self::Dir) -> impl Future<Output = HostResult<bool>>;
    /// [`Self::open`] of the path that [`joined`] makes; the same system call. `name` has no slash.
    fn open_in(
        &self,
        dir: &Self::Dir,
        name: &str,
        flags: OpenFlags,
    ) -> impl Future<Output = HostResult<Fd>>;
    /// [`Self::unlink`] of the path that [`joined`] makes. `name` has no slash.
    fn unlink_in(&self, dir: &Self::Dir, name: &str) -> impl Future<Output = HostResult<()>>;
    /// stat(2): returns whether `path` is a directory, and its length in bytes. The default fails,
    /// as not every host can.
    fn stat(&self, path: &str) -> impl Future<Output = HostResult<Stat>> {
        let _ = path;
        async {
            Err(HostError::Unsupported(
                "asking for a file's state".to_owned(),
            ))
        }
    }
    /// [`Self::stat`] of the path that [`joined`] makes of a directory and the `nth` of the names
    /// that [`Self::read_dir`] returned for it; the same system call. A host may cache the inodes
    /// of these names until one is added or removed. The default fails, as not every host can.
    fn stat_listed(
        &self,
        dir: &Self::Dir,
        names: &Listing,
        nth: usize,
    ) -> impl Future<Output = HostResult<Stat>> {
        let _ = (dir, names, nth);
        async {
            Err(HostError::Unsupported(
                "asking for a file's state".to_owned(),
            ))
        }
    }
    /// opendir(3), readdir(3) to the end and closedir(3): the names in a directory, without `.` and
    /// `..`, in the host's order.
    fn read_dir(&self, path: &str) -> impl Future<Output = HostResult<Listing>> {
        let _ = path;
        async { Err(HostError::Unsupported("reading a directory".to_owned())) }
    }
    /// mmap(2) of `len` bytes, a multiple of 4096, with advice.
    fn map(&self, what: Map, len: u64, advice: Advice) -> impl Future<Output = HostResult<MapId>> {
        let _ = (what, len, advice);
        async { Err(HostError::Unsupported("mapping memory".to_owned())) }
    }
    /// Accesses the first word of each of `pages` pages from page `first` on, in order. `word` says
    /// which value is expected there and which is stored. The default fails, as not every host can.
    fn touch(
        &self,
        map: MapId,
        first: u64,
        pages: u64,
        word: Word,
    ) -> impl Future<Output = HostResult<()>> {
        let _ = (map, first, pages, word);
        async { Err(HostError::Unsupported("mapped memory".to_owned())) }
    }
    /// munmap(2) of a whole mapping.
    fn unmap(&self, map: MapId) -> impl Future<Output = HostResult<()>> {
        let _ = map;
        async { Err(HostError::Unsupported("mapped memory".to_owned())) }
    }
    /// alloc_pages(9): takes 2^`order` contiguous unmovable pages of kernel memory. An `atomic`
    /// request does not sleep and may take from the reserves. `None`: the allocation failed. The
    /// default fails, as not every host can.
    fn alloc_pages(
        &self,
        order: u32,
        atomic: bool,
    ) -> impl Future<Output = HostResult<Option<Pages>>> {
        let _ = (order, atomic);
        async { Err(HostError::Unsupported("taking kernel pages".to_owned())) }
    }
    /// free_pages(9).
    fn free_pages(&self, pages: Pages) -> impl Future<Output = HostResult<()>> {
        let _ = pages;
        async { Err(HostError::Unsupported("kernel pages".to_owned())) }
    }
    /// Returns the counters of the task and of the machine so far.
    fn usage(&self) -> HostResult<Usage> {
        Err(HostError::Unsupported("asking for its usage".to_owned()))
    }
    /// Returns the machine's memory in bytes, as the kernel reports it (MemTotal). The default
    /// fails, as not every host knows.
    fn memory(&self) -> HostResult<u64> {
        Err(HostError::Unsupported(
            "asking for the memory's size".to_owned(),
        ))
    }
    /// gettimeofday(2): returns microseconds since the epoch, and charges the cost of the call.
    fn gettimeofday(&self) -> u64;
    /// fork(2) of a process for each child, and wait(2) until all have ended. The reports are in
    /// the order of the children. A host provides as many processes as the programs of its script
    /// declare ([`Program::children`](crate::Program::children)).
    fn fork<C: Task>(&self, children: Vec<C>) -> impl Future<Output = HostResult<Vec<Report>>>;
    /// sched_setaffinity(2) of the calling process and of those that it forks from then on. Returns
    /// the previous binding, to restore it.
    fn bind(&self, to: Cpus) -> impl Future<Output = HostResult<Cpus>> {
        let _ = to;
        async { Err(HostError::Unsupported("binding to CPUs".to_owned())) }
    }
    /// Moves the calling process into a memory control group of the run, whose name has points
    /// between nested groups. The default fails, as not every host has groups.
    fn enter_group(&self, group: &str) -> impl Future<Output = HostResult<()>> {
        let _ = group;
        async { Err(HostError::Unsupported("memory control groups".to_owned())) }
    }
    /// Burns `ns` nanoseconds of CPU time in user mode.
    fn compute(&self, ns: u64) -> impl Future<Output = ()>;
    /// Sleeps for `ns` nanoseconds.
    fn sleep(&self, ns: u64) -> impl Future<Output = ()>;
}

/// The code of a process or a thread of a program. A host runs it, in the kernel world on a thread
/// of its own.
pub trait Task: Send + 'static {
    /// The program's name, in task lists and on command lines.
    const NAME: &'static str;
    /// Whether the task is a thread of its parent instead of a process: threads share memory, and
    /// are killed together.
    const THREAD: bool = false;

    /// Returns the name of this task's program; differs from [`Self::NAME`] where a type stands for
    /// several programs.
    fn name(&self) -> &'static str {
        Self::NAME
    }

    /// Runs the task to its end, and returns its measurements.
    ///
    /// # Errors
    /// The first error of the host that the program does not expect.
    fn run<H: Host>(&self, host: &H, session: &Session)
    -> impl Future<Output = HostResult<Report>>;
}

/// A [`Task`] of any type, for a host whose processes wait in one queue until they run.
pub trait AnyTask<H: Host> {
    /// [`Task::name`].
    fn task_name(&self) -> &'static str;

    /// [`Task::run`].
    ///
    /// # Errors
    /// The task fails.
    fn run_boxed<'a>(&'a self, host: &'a H, session: &'a Session) -> Running<'a>;
}

/// The future of a running task.
pub type Running<'a> = Pin<Box<dyn Future<Output = HostResult<Report>> + 'a>>;

impl<H: Host, C: Task> AnyTask<H> for C {
    fn task_name(&self) -> &'static str {
        self.name()
    }

    fn run_boxed<'a>(&'a self, host: &'a H, session: &'a Session) -> Running<'a> {
        Box::pin(self.run(host, session))
    }
}
