//! The small interface through which a workload program reaches its world.
//!
//! Every program is written once against [`Host`]; the virtual, live and kernel worlds implement
//! it. Lengths and offsets are bytes; times are nanoseconds.

use crate::script::{Command, Report};
use std::future::Future;

/// A descriptor of an open file, meaningful only to the host that returned it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fd(pub u32);

/// How to open a file; the same meaning as the flags of open(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenFlags {
    /// Allow reads.
    pub read: bool,
    /// Allow writes.
    pub write: bool,
    /// Create the file if it is missing.
    pub create: bool,
    /// Cut an existing file to zero length.
    pub truncate: bool,
    /// Writes go to the end of the file.
    pub append: bool,
    /// O_DIRECT: pass the page cache by.
    pub direct: bool,
    /// O_SYNC: a write returns when it is on the device.
    pub sync: bool,
    /// O_DSYNC: as `sync` for the data alone.
    pub dsync: bool,
    /// O_EXCL: fail if the file exists.
    pub exclusive: bool,
}

impl OpenFlags {
    /// O_RDWR | O_CREAT | O_TRUNC: an empty file, to read and write.
    pub const EMPTY_FILE: Self = Self {
        read: true,
        write: true,
        create: true,
        truncate: true,
        append: false,
        direct: false,
        sync: false,
        dsync: false,
        exclusive: false,
    };
}

/// CPUs that a process may run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cpus {
    /// Those whose bits are set; CPU 0 is bit 0.
    Mask(u64),
    /// Those of a NUMA node.
    OfNode(u32),
}

/// Why a host call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// ENOENT.
    #[error("{0}: no such file")]
    NotFound(String),
    /// EEXIST.
    #[error("{0}: file exists")]
    Exists(String),
    /// ENOSPC.
    #[error("{0}: no space left on device")]
    NoSpace(String),
    /// ENOMEM: the world could not give memory.
    #[error("out of memory")]
    OutOfMemory,
    /// EIO: the device failed.
    #[error("{0}: input/output error")]
    Io(String),
    /// The host does not offer this call (for example direct I/O on a filesystem without it).
    #[error("not supported: {0}")]
    Unsupported(String),
}

/// What a call returns.
pub type HostResult<T> = Result<T, HostError>;

/// A mapping that a program has made, meaningful only to the host that returned it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MapId(pub u32);

/// What to map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Map {
    /// MAP_PRIVATE | MAP_ANONYMOUS.
    Anon,
    /// MAP_SHARED of a file from its start.
    Shared(Fd),
    /// MAP_PRIVATE of a file from its start.
    Private(Fd),
}

/// madvise(2) for a whole mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Advice {
    /// MADV_NORMAL.
    #[default]
    Normal,
    /// MADV_SEQUENTIAL.
    Sequential,
    /// MADV_RANDOM.
    Random,
}

/// What a program does to the first word of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    /// It must hold this before; another value is [`HostError::Io`].
    pub expect: Option<u64>,
    /// It is overwritten by this.
    pub store: Option<u64>,
}

/// What stat(2) says of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stat {
    /// S_ISDIR.
    pub directory: bool,
    /// The length of a file in bytes; 0 for a directory.
    pub len: u64,
}

/// Contiguous pages that a program took from the kernel, meaningful only to the host that gave them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pages {
    /// Which.
    pub id: u32,
    /// How many: 2^order.
    pub order: u32,
}

/// What getrusage(2) says of the calling task, and what a tracer of the machine counts beside it. All
/// are sums since some fixed time; programs take differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// CPU time of the program itself, in nanoseconds.
    pub user_ns: u64,
    /// CPU time of the kernel on its behalf, in nanoseconds.
    pub sys_ns: u64,
    /// Page faults of all tasks, minor and major.
    pub page_faults: u64,
    /// `mm_vmscan_wakeup_kswapd` events of all tasks.
    pub kswapd_wakeups: u64,
    /// `mm_vmscan_direct_reclaim_begin` events of all tasks.
    pub direct_reclaims: u64,
    /// Entries of all tasks to direct reclaim (`allocstall` of /proc/vmstat).
    pub alloc_stalls: u64,
    /// The longest page allocation of the calling task since it asked last, in nanoseconds. No sum.
    pub longest_alloc_ns: u64,
}

/// One task's view of its world. All calls may wait.
pub trait Host {
    /// The task's I/O buffer. The virtual world carries no contents.
    type Buf;

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
    /// The file's length in bytes.
    fn len(&self, fd: Fd) -> HostResult<u64>;
    /// ftruncate(2): shorten, or extend by a hole.
    fn truncate(&self, fd: Fd, len: u64) -> impl Future<Output = HostResult<()>>;
    /// fsync(2), or fdatasync(2) with `data_only`.
    fn sync(&self, fd: Fd, data_only: bool) -> impl Future<Output = HostResult<()>>;
    /// sync(2): returns when everything that was dirty is on the device.
    fn sync_all(&self) -> impl Future<Output = HostResult<()>>;
    /// mkdir(2). Parents need not exist; an existing directory is [`HostError::Exists`].
    fn mkdir(&self, path: &str) -> impl Future<Output = HostResult<()>>;
    /// rmdir(2). A directory that is not empty is [`HostError::Exists`].
    fn rmdir(&self, path: &str) -> impl Future<Output = HostResult<()>> {
        let _ = path;
        async { Err(HostError::Unsupported("removing directories".to_owned())) }
    }
    /// unlink(2).
    fn unlink(&self, path: &str) -> impl Future<Output = HostResult<()>>;
    /// stat(2).
    fn stat(&self, path: &str) -> impl Future<Output = HostResult<Stat>> {
        let _ = path;
        async {
            Err(HostError::Unsupported(
                "asking for a file's state".to_owned(),
            ))
        }
    }
    /// opendir(3), readdir(3) to the end and closedir(3): the names in a directory, without `.` and
    /// `..`, in the host's order.
    fn read_dir(&self, path: &str) -> impl Future<Output = HostResult<Vec<String>>> {
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
    /// fork(2) of a process for each command, and wait(2) until all have ended. The reports are in
    /// the order of the commands. A host has as many processes as [`Command::children`] says.
    fn fork(&self, children: Vec<Command>) -> impl Future<Output = HostResult<Vec<Report>>>;
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
