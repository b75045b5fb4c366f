//! Types of the calls between a program and its host: descriptors, flags, mappings, errors.

use std::rc::Rc;

/// The names in a directory, shared by all readers until one is added or removed.
pub type Listing = Rc<[Rc<str>]>;

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
    /// O_DIRECT: bypass the page cache.
    pub direct: bool,
    /// O_SYNC: a write returns when it is on the device.
    pub sync: bool,
    /// O_DSYNC: like `sync`, for data only.
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
    /// The CPUs whose bits are set; CPU 0 is bit 0.
    Mask(u64),
    /// The CPUs of a NUMA node.
    OfNode(u32),
}

/// The reason why a host call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// ENOENT.
    #[error("{0}: no such file")]
    NotFound(String),
    /// EEXIST.
    #[error("{0}: file exists")]
    Exists(String),
    /// EISDIR: a directory where a file is needed.
    #[error("{0}: is a directory")]
    IsDirectory(String),
    /// ENOSPC.
    #[error("{0}: no space left on device")]
    NoSpace(String),
    /// EFBIG: the file exceeds the filesystem's limit.
    #[error("{0}: file too large")]
    TooLarge(String),
    /// ENOMEM: no memory was available.
    #[error("out of memory")]
    OutOfMemory,
    /// EIO: the device failed.
    #[error("{0}: input/output error")]
    Io(String),
    /// The host does not offer this call (for example direct I/O on a filesystem without it).
    #[error("not supported: {0}")]
    Unsupported(String),
}

/// The result of a host call.
pub type HostResult<T> = Result<T, HostError>;

/// The duration of an unmount, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unmounted {
    /// Writing data and metadata to the device.
    pub sync_ns: u64,
    /// Freeing dentries, inodes and pages.
    pub evict_ns: u64,
    /// XFS's further work; `None` for other filesystems.
    pub walk: Option<InodeWalk>,
}

/// How XFS frees its inodes at unmount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InodeWalk {
    /// Nanoseconds to write back all changes of the log.
    pub log_ns: u64,
    /// Nanoseconds of the walk.
    pub walk_ns: u64,
    /// Inodes to be freed.
    pub inodes: u64,
    /// Inodes that the walk did not reach.
    pub left: u64,
}

/// A mapping of a program, meaningful only to the host that returned it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MapId(pub u32);

/// The object of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Map {
    /// MAP_PRIVATE | MAP_ANONYMOUS.
    Anon,
    /// MAP_SHARED of a file from its start.
    Shared(Fd),
    /// MAP_PRIVATE of a file from its start.
    Private(Fd),
}

/// madvise(2) for a whole mapping, or posix_fadvise(2) for an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Advice {
    /// MADV_NORMAL, POSIX_FADV_NORMAL.
    #[default]
    Normal,
    /// MADV_SEQUENTIAL, POSIX_FADV_SEQUENTIAL: twice as much of a file is read ahead.
    Sequential,
    /// MADV_RANDOM, POSIX_FADV_RANDOM: nothing is read ahead.
    Random,
}

/// The access to the first word of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    /// The expected value; another one is [`HostError::Io`].
    pub expect: Option<u64>,
    /// The value to store.
    pub store: Option<u64>,
}

/// The result of stat(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stat {
    /// S_ISDIR.
    pub directory: bool,
    /// The length of a file in bytes; 0 for a directory.
    pub len: u64,
}

/// Contiguous pages that a program took from the kernel, meaningful only to the host that returned
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pages {
    /// The number of the allocation.
    pub id: u32,
    /// The order: there are 2^order pages.
    pub order: u32,
}

/// Counters of the calling task (getrusage(2)) and of the machine (tracepoints). All but one are
/// sums since some fixed time; programs take differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// CPU time in user mode, in nanoseconds.
    pub user_ns: u64,
    /// CPU time in kernel mode, in nanoseconds.
    pub sys_ns: u64,
    /// Page faults of all tasks, minor and major.
    pub page_faults: u64,
    /// `mm_vmscan_wakeup_kswapd` events of all tasks.
    pub kswapd_wakeups: u64,
    /// `mm_vmscan_direct_reclaim_begin` events of all tasks.
    pub direct_reclaims: u64,
    /// `mm_vmscan_wakeup_kswapd` events of the calling task; `None`: this world does not count
    /// them.
    pub own_kswapd_wakeups: Option<u64>,
    /// `mm_vmscan_direct_reclaim_begin` events of the calling task; `None`: this world does not
    /// count them.
    pub own_direct_reclaims: Option<u64>,
    /// Entries of all tasks into direct reclaim (`allocstall` of /proc/vmstat).
    pub alloc_stalls: u64,
    /// The longest page allocation of the calling task since its last query, in nanoseconds; not a
    /// sum.
    pub longest_alloc_ns: u64,
}
