//! What a program hands to a host and gets from it: descriptors, flags, mappings, errors.

use std::rc::Rc;

/// The names in a directory, shared by all who read it while none comes or goes.
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
    /// EISDIR: a directory where it has to be a file.
    #[error("{0}: is a directory")]
    IsDirectory(String),
    /// ENOSPC.
    #[error("{0}: no space left on device")]
    NoSpace(String),
    /// EFBIG: the filesystem has no longer files.
    #[error("{0}: file too large")]
    TooLarge(String),
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

/// What an unmount took, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unmounted {
    /// Until data and metadata were on the device.
    pub sync_ns: u64,
    /// Dropping dentries, inodes and pages.
    pub evict_ns: u64,
    /// What XFS does then; `None`: it is none.
    pub walk: Option<InodeWalk>,
}

/// How an XFS frees its inodes at its unmount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InodeWalk {
    /// Nanoseconds until every change was in its place.
    pub log_ns: u64,
    /// Nanoseconds of the walk.
    pub walk_ns: u64,
    /// Inodes to be freed.
    pub inodes: u64,
    /// Those that the walk did not come to.
    pub left: u64,
}

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
    /// `mm_vmscan_wakeup_kswapd` events of the calling task; `None`: this world does not tell.
    pub own_kswapd_wakeups: Option<u64>,
    /// `mm_vmscan_direct_reclaim_begin` events of the calling task; `None`: this world does not tell.
    pub own_direct_reclaims: Option<u64>,
    /// Entries of all tasks to direct reclaim (`allocstall` of /proc/vmstat).
    pub alloc_stalls: u64,
    /// The longest page allocation of the calling task since it asked last, in nanoseconds. No sum.
    pub longest_alloc_ns: u64,
}
