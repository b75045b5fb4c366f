//! The seam between programs and worlds: [`Host`] is what a world offers to a task, [`Task`] what a
//! world runs.
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

/// The path of a name in a directory.
pub fn joined(dir: &str, name: &str) -> String {
    [dir, "/", name].concat()
}

/// One task's view of its world. All calls may wait.
pub trait Host {
    /// The task's I/O buffer. The virtual world carries no contents.
    type Buf;
    /// A directory's path as the host keeps it, for programs that name many files in one directory.
    type Dir: Clone;

    /// A buffer of `len` bytes, zeroed and aligned as direct I/O needs it.
    fn buffer(&self, len: u64) -> Self::Buf;
    /// Time since the start of the run, in nanoseconds.
    fn now(&self) -> u64;
    /// open(2). Paths are relative to the tested filesystem, except `/dev/zero`, `/dev/null` and
    /// `/dev/urandom`, which every host knows; on these, seeking succeeds and does nothing.
    fn open(&self, path: &str, flags: OpenFlags) -> impl Future<Output = HostResult<Fd>>;
    /// close(2).
    fn close(&self, fd: Fd) -> impl Future<Output = HostResult<()>>;
    /// read(2): at most `len` bytes at the file position, into the start of `buf`; returns how
    /// many, 0 at the end.
    fn read(&self, fd: Fd, buf: &mut Self::Buf, len: u64) -> impl Future<Output = HostResult<u64>>;
    /// write(2): at most `len` bytes from the start of `buf` at the file position; returns how
    /// many.
    fn write(&self, fd: Fd, buf: &Self::Buf, len: u64) -> impl Future<Output = HostResult<u64>>;
    /// pread(2): at most `len` bytes at `pos`, into the start of `buf`; returns how many, 0 at the
    /// end. The file position may change.
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
    /// pwrite(2): at most `len` bytes from the start of `buf` at `pos`; returns how many. The file
    /// position may change.
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
    /// memcpy(3): `len` bytes of `from` beginning at `from_at` to `to` beginning at `to_at`; both
    /// ranges lie inside their buffers. Programs need it to gather records of one size into
    /// records of another. A world without contents has only the time to charge.
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
    /// posix_fadvise(2) of a whole file: how it will be read through this descriptor. Nothing else changes.
    fn fadvise(&self, fd: Fd, advice: Advice) -> impl Future<Output = HostResult<()>> {
        let _ = (fd, advice);
        async {
            Err(HostError::Unsupported(
                "advice on a file's reads".to_owned(),
            ))
        }
    }
    /// The file's length in bytes.
    fn len(&self, fd: Fd) -> HostResult<u64>;
    /// ftruncate(2): shorten, or extend by a hole.
    fn truncate(&self, fd: Fd, len: u64) -> impl Future<Output = HostResult<()>>;
    /// fsync(2), or fdatasync(2) with `data_only`.
    fn sync(&self, fd: Fd, data_only: bool) -> impl Future<Output = HostResult<()>>;
    /// sync(2): returns when everything that was dirty is on the device.
    fn sync_all(&self) -> impl Future<Output = HostResult<()>>;
    /// umount(2) of what is mounted on a directory.
    fn unmount(&self, path: &str) -> impl Future<Output = HostResult<Unmounted>> {
        let _ = path;
        async { Err(HostError::Unsupported("unmounting".to_owned())) }
    }
    /// mkdir(2). Parents need not exist; an existing directory is [`HostError::Exists`].
    fn mkdir(&self, path: &str) -> impl Future<Output = HostResult<()>>;
    /// rmdir(2). A directory that is not empty is [`HostError::Exists`].
    fn rmdir(&self, path: &str) -> impl Future<Output = HostResult<()>> {
        let _ = path;
        async { Err(HostError::Unsupported("removing directories".to_owned())) }
    }
    /// unlink(2).
    fn unlink(&self, path: &str) -> impl Future<Output = HostResult<()>>;
    /// Keeps a directory's path. No system call: the directory need not be there, now or later.
    fn dir(&self, path: &str) -> Self::Dir;
    /// [`Self::mkdir`] of such a path; returns whether it was made, for one that exists is no error here.
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
    /// stat(2).
    fn stat(&self, path: &str) -> impl Future<Output = HostResult<Stat>> {
        let _ = path;
        async {
            Err(HostError::Unsupported(
                "asking for a file's state".to_owned(),
            ))
        }
    }
    /// [`Self::stat`] of the path that [`joined`] makes of a directory and the `nth` of the names that
    /// [`Self::read_dir`] gave of it; the same system call. A host may know what they name as long as none came or went.
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
    /// Accesses the first word of each of `pages` pages from page `first` on, in order.
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
    /// alloc_pages(9): 2^`order` contiguous pages of kernel memory that stay where they are. An
    /// `atomic` request does not wait and may take from the reserves. `None`: there are none.
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
    /// What the task and the machine did so far.
    fn usage(&self) -> HostResult<Usage> {
        Err(HostError::Unsupported("asking for its usage".to_owned()))
    }
    /// The machine's memory in bytes, as the kernel reports it (MemTotal).
    fn memory(&self) -> HostResult<u64> {
        Err(HostError::Unsupported(
            "asking for the memory's size".to_owned(),
        ))
    }
    /// gettimeofday(2): microseconds since the epoch. Costs what the call costs.
    fn gettimeofday(&self) -> u64;
    /// fork(2) of a process for each child, and wait(2) until all have ended. The reports are in
    /// the order of the children. A host has as many processes as the programs of its script say
    /// ([`Program::children`](crate::Program::children)).
    fn fork<C: Task>(&self, children: Vec<C>) -> impl Future<Output = HostResult<Vec<Report>>>;
    /// sched_setaffinity(2) of the calling process and of those that it forks from then on. Returns
    /// what it was bound to, for binding it back.
    fn bind(&self, to: Cpus) -> impl Future<Output = HostResult<Cpus>> {
        let _ = to;
        async { Err(HostError::Unsupported("binding to CPUs".to_owned())) }
    }
    /// Burn `ns` of CPU time in user mode.
    fn compute(&self, ns: u64) -> impl Future<Output = ()>;
    /// Sleep for `ns`.
    fn sleep(&self, ns: u64) -> impl Future<Output = ()>;
}

/// What a process or a thread of a program does. A host runs it, in the kernel world on a thread of its
/// own.
pub trait Task: Send + 'static {
    /// The program's name, as a task list shows it and a command line has it.
    const NAME: &'static str;
    /// Whether it is a thread of who forks it and not a process: they have their memory in common, and are
    /// killed together.
    const THREAD: bool = false;

    /// The name of this one's program; differs from [`Self::NAME`] where a type stands for several
    /// programs.
    fn name(&self) -> &'static str {
        Self::NAME
    }

    /// Runs it to its end, and returns what it measured.
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
    /// The task's.
    fn run_boxed<'a>(&'a self, host: &'a H, session: &'a Session) -> Running<'a>;
}

/// A task that runs.
pub type Running<'a> = Pin<Box<dyn Future<Output = HostResult<Report>> + 'a>>;

impl<H: Host, C: Task> AnyTask<H> for C {
    fn task_name(&self) -> &'static str {
        self.name()
    }

    fn run_boxed<'a>(&'a self, host: &'a H, session: &'a Session) -> Running<'a> {
        Box::pin(self.run(host, session))
    }
}
