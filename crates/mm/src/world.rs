//! The one seam between the engine and everything outside it.
//!
//! The engine knows no clock, thread, file or random number. Whatever it wants it asks of a
//! [`World`]. The virtual world answers with simulated time and plain cells; a live world with
//! threads, atomics and mutexes. The engine's text is the same in both.

use crate::mmap::{ReadAround, Touched};
use crate::{Mm, Pfn, trace::Event};
use std::cell::Cell;
use std::future::Future;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

/// A 32-bit word of engine state: a plain cell in the virtual world, an atomic in the live one.
pub trait Word32 {
    /// Reads it.
    fn get(&self) -> u32;
    /// Writes it.
    fn set(&self, v: u32);
    /// Adds, wrapping; returns the value before.
    fn fetch_add(&self, n: u32) -> u32;
    /// Subtracts, wrapping; returns the value before.
    fn fetch_sub(&self, n: u32) -> u32;
    /// Sets bits; returns the value before.
    fn fetch_or(&self, bits: u32) -> u32;
    /// Keeps only `bits`; returns the value before.
    fn fetch_and(&self, bits: u32) -> u32;
    /// Writes `new` if the value is `old`; returns whether it was.
    fn replace(&self, old: u32, new: u32) -> bool;
}

/// A 64-bit word of engine state.
pub trait Word64 {
    /// Reads it.
    fn get(&self) -> u64;
    /// Writes it.
    fn set(&self, v: u64);
    /// Adds, wrapping; returns the value before.
    fn fetch_add(&self, n: u64) -> u64;
    /// Subtracts, wrapping; returns the value before.
    fn fetch_sub(&self, n: u64) -> u64;
    /// Sets bits; returns the value before.
    fn fetch_or(&self, bits: u64) -> u64;
    /// Keeps only `bits`; returns the value before.
    fn fetch_and(&self, bits: u64) -> u64;
    /// Writes `new` if the value is `old`; returns whether it was.
    fn replace(&self, old: u64, new: u64) -> bool;
}

macro_rules! cell_word {
    ($int:ty, $trait:ident) => {
        impl $trait for Cell<$int> {
            #[inline(always)]
            fn get(&self) -> $int {
                Cell::get(self)
            }
            #[inline(always)]
            fn set(&self, v: $int) {
                Cell::set(self, v);
            }
            #[inline(always)]
            fn fetch_add(&self, n: $int) -> $int {
                let v = Cell::get(self);
                Cell::set(self, v.wrapping_add(n));
                v
            }
            #[inline(always)]
            fn fetch_sub(&self, n: $int) -> $int {
                let v = Cell::get(self);
                Cell::set(self, v.wrapping_sub(n));
                v
            }
            #[inline(always)]
            fn fetch_or(&self, bits: $int) -> $int {
                let v = Cell::get(self);
                Cell::set(self, v | bits);
                v
            }
            #[inline(always)]
            fn fetch_and(&self, bits: $int) -> $int {
                let v = Cell::get(self);
                Cell::set(self, v & bits);
                v
            }
            #[inline(always)]
            fn replace(&self, old: $int, new: $int) -> bool {
                let same = Cell::get(self) == old;
                if same {
                    Cell::set(self, new);
                }
                same
            }
        }
    };
}

cell_word!(u32, Word32);
cell_word!(u64, Word64);

/// One total order of all operations: the engine's text tests one word after it has written
/// another (kswapd's sleep mark against the free pages) and counts on that order.
macro_rules! atomic_word {
    ($atomic:ty, $int:ty, $trait:ident) => {
        impl $trait for $atomic {
            #[inline(always)]
            fn get(&self) -> $int {
                self.load(SeqCst)
            }
            #[inline(always)]
            fn set(&self, v: $int) {
                self.store(v, SeqCst);
            }
            #[inline(always)]
            fn fetch_add(&self, n: $int) -> $int {
                <$atomic>::fetch_add(self, n, SeqCst)
            }
            #[inline(always)]
            fn fetch_sub(&self, n: $int) -> $int {
                <$atomic>::fetch_sub(self, n, SeqCst)
            }
            #[inline(always)]
            fn fetch_or(&self, bits: $int) -> $int {
                <$atomic>::fetch_or(self, bits, SeqCst)
            }
            #[inline(always)]
            fn fetch_and(&self, bits: $int) -> $int {
                <$atomic>::fetch_and(self, bits, SeqCst)
            }
            #[inline(always)]
            fn replace(&self, old: $int, new: $int) -> bool {
                self.compare_exchange(old, new, SeqCst, SeqCst).is_ok()
            }
        }
    };
}

atomic_word!(AtomicU32, u32, Word32);
atomic_word!(AtomicU64, u64, Word64);

/// A lock held for a few instructions. It takes a closure, so no guard can live across an await.
pub trait ShortLock {
    /// Runs `f` under the lock.
    fn with<R>(&self, f: impl FnOnce() -> R) -> R;
}

/// A task as the world numbers it; below [`crate::Config::max_tasks`].
pub type TaskId = u32;

/// A queue of waiting tasks. The engine numbers its queues from 0; see [`crate::Config::wait_queues`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitQueue(pub u32);

/// What CPU time is charged for. The world's parameter table gives each its nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Cost {
    /// One page taken from a per-CPU list, watermark test included.
    PageAlloc,
    /// One page moved between a per-CPU list and the buddy lists.
    PageBulk,
    /// One page returned to a per-CPU list.
    PageFree,
    /// One page inserted into a file's index, looked up, or removed.
    PageIndex,
    /// One page added to, moved on or taken off an LRU list.
    Lru,
    /// One page examined on an inactive or active list.
    PageScan,
    /// One page unmapped by reclaim.
    Unmap,
    /// One page set dirty, with all its accounting.
    PageDirty,
    /// One page put under writeback.
    WritebackStart,
    /// One page whose writeback ended.
    WritebackEnd,
    /// One zone looked at by the allocator or kswapd.
    ZoneWalk,
    /// One call of every shrinker.
    ShrinkSlab,
    /// One page copied between user and page cache.
    Copy,
    /// One page fault, entry and exit.
    Fault,
    /// One access to a mapped page that a program has not touched for long.
    Touch,
    /// One system call, entry and exit.
    Syscall,
    /// One request built and handed to a block device.
    Submit,
    /// One `writepage` call that refused.
    Refuse,
    /// One round of the flusher or of a throttled dirtier.
    WritebackRound,
    /// A zone's dirty limit computed for an allocation (*sequential-read* 5).
    DirtyLimit,
    /// One dentry or inode made, freed, or looked at by a shrinker or by the log.
    SlabObject,
}

/// The number of kinds of [`Cost`].
pub const COSTS: usize = Cost::SlabObject as usize + 1;

/// Why a task sleeps, for the world's account of where its time goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Waits {
    /// It has nothing to do, or waits for something that memory management has no part in.
    #[default]
    Sleep,
    /// For a block device: a page under I/O, or a free request of its queue.
    Device,
    /// It is held back: over the dirty limits, or reclaim meets a congested device.
    Throttle,
    /// For something that another task holds: a page's lock, an inode being written.
    Lock,
    /// For the daemon that serves its filesystem.
    Server,
}

/// Kinds of what a task waits on, for the world's view of who waits for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum WaitedKind {
    /// A page's lock; the object is [`Waited::page`].
    PageLock,
    /// The end of a page's writeback; the object is [`Waited::page`].
    PageWriteback,
    /// An inode that is being written (`I_SYNC`); the object is its number.
    InodeSync,
    /// A free request of a device's queue; the object is device * 2 + class.
    Request,
    /// Data from a device: the object is [`Waited::page`], or the device where no page waits for it.
    DeviceRead,
    /// A write that belongs to no page; the object is the device.
    DeviceWrite,
    /// Dirty pages below the limits; the object is the bdi.
    DirtyLimit,
    /// Reserves that kswapd has to free for direct reclaim; the object is the node.
    ReclaimThrottle,
    /// Congestion of a device; the object is the class.
    Congestion,
    /// The mutex of an xfs allocation group's inode reclaim; the object is the group.
    AgLock,
    /// An inode's own lock; the object is the inode.
    InodeLock,
    /// An xfs inode's flush lock; the object is the inode.
    FlushLock,
    /// A pinned xfs inode, which the log's next write frees; the object is the inode.
    Pin,
    /// A write of the log; the object is the device.
    LogForce,
    /// The buffer of an inode cluster, which is under I/O; the object is the inode.
    ClusterBuffer,
    /// A write of an inode cluster that the waiting task has begun; the object is the inode.
    ClusterWrite,
    /// The daemon that serves the filesystem; the object is 0.
    Server,
}

impl WaitedKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Self; 17] = [
        Self::PageLock,
        Self::PageWriteback,
        Self::InodeSync,
        Self::Request,
        Self::DeviceRead,
        Self::DeviceWrite,
        Self::DirtyLimit,
        Self::ReclaimThrottle,
        Self::Congestion,
        Self::AgLock,
        Self::InodeLock,
        Self::FlushLock,
        Self::Pin,
        Self::LogForce,
        Self::ClusterBuffer,
        Self::ClusterWrite,
        Self::Server,
    ];

    /// What a task's time is booked as while it waits on one.
    pub fn why(self) -> Waits {
        match self {
            Self::PageWriteback
            | Self::Request
            | Self::DeviceRead
            | Self::DeviceWrite
            | Self::Pin
            | Self::LogForce
            | Self::ClusterWrite => Waits::Device,
            Self::DirtyLimit | Self::ReclaimThrottle | Self::Congestion => Waits::Throttle,
            Self::PageLock
            | Self::InodeSync
            | Self::AgLock
            | Self::InodeLock
            | Self::FlushLock
            | Self::ClusterBuffer => Waits::Lock,
            Self::Server => Waits::Server,
        }
    }

    /// The name that reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::PageLock => "page lock",
            Self::PageWriteback => "page writeback",
            Self::InodeSync => "inode writeback",
            Self::Request => "request",
            Self::DeviceRead => "read",
            Self::DeviceWrite => "write",
            Self::DirtyLimit => "dirty limit",
            Self::ReclaimThrottle => "reclaim throttle",
            Self::Congestion => "congestion",
            Self::AgLock => "AG lock",
            Self::InodeLock => "inode lock",
            Self::FlushLock => "flush lock",
            Self::Pin => "pinned inode",
            Self::LogForce => "log force",
            Self::ClusterBuffer => "cluster buffer",
            Self::ClusterWrite => "cluster write",
            Self::Server => "server",
        }
    }
}

/// What a task waits on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waited {
    /// Of what kind it is.
    pub kind: WaitedKind,
    /// Which one, as its kind says.
    pub object: u64,
    /// The task that has it, where the caller knows it and [`World::holds`] was not called.
    pub holder: Option<TaskId>,
}

impl Waited {
    /// One whose holder the caller does not know.
    pub fn on(kind: WaitedKind, object: u64) -> Self {
        Self {
            kind,
            object,
            holder: None,
        }
    }

    /// The object of a page: file, or region of an anonymous page, and place in it.
    pub fn page(mapping: u32, index: u32) -> u64 {
        u64::from(mapping) << 32 | u64::from(index)
    }
}

/// Read/synchronous or asynchronous-write traffic of a block device
/// (docs/reference/writeback.md#request-queue).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// All reads and synchronous writes.
    Sync,
    /// Other writes.
    Async,
}

/// Who asks a filesystem to write, and how much (the kernel's `writeback_control`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WritebackControl {
    /// Pages that may still be written; counts down.
    pub nr_to_write: i64,
    /// Pages the filesystem refused and dirtied again; counts up.
    pub pages_skipped: u64,
    /// Start at the mapping's saved index and wrap once.
    pub range_cyclic: bool,
    /// First page index when not cyclic.
    pub range_start: u32,
    /// Last page index, inclusive.
    pub range_end: u32,
    /// Called by page reclaim.
    pub for_reclaim: bool,
    /// Called by periodic writeback.
    pub for_kupdate: bool,
    /// Called by background writeback.
    pub for_background: bool,
    /// Wait for every page, and for pages that are already under writeback.
    pub sync_all: bool,
}

impl WritebackControl {
    /// Asynchronous writeback of up to `nr` pages of any index.
    pub fn pages(nr: i64) -> Self {
        Self {
            nr_to_write: nr,
            pages_skipped: 0,
            range_cyclic: true,
            range_start: 0,
            range_end: u32::MAX,
            for_reclaim: false,
            for_kupdate: false,
            for_background: false,
            sync_all: false,
        }
    }
}

/// A filesystem's answer to `writepage` from reclaim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writepage {
    /// I/O was started; the page is under writeback, or its write has already ended.
    Started,
    /// The filesystem refused and left the page dirty.
    Redirtied,
    /// The filesystem asks reclaim to activate the page.
    Activate,
    /// The mapping has no such operation.
    NoOperation,
}

/// How an allocation was served, for the latency histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum AllocPath {
    /// From the free lists at the low watermark.
    Fast,
    /// After waking kswapd, at the min watermark.
    KswapdWoken,
    /// After direct reclaim.
    DirectReclaim,
    /// Stalled on a small node's dirty pages (`per-zone-stall`).
    DirtyStall,
    /// It got no page.
    Failed,
}

/// What the engine wants from outside.
///
/// `charge` and `relax` are how simulated CPU time passes: every span between two `relax` calls
/// handles at most 32 pages. In a live world both compile to nothing.
pub trait World: Sized {
    /// 32-bit state words.
    type U32: Word32 + bytemuck::Zeroable;
    /// 64-bit state words.
    type U64: Word64 + bytemuck::Zeroable;
    /// Short locks.
    type Lock: ShortLock + Default;
    /// Whether trace events are built at all; `false` compiles every tracepoint away.
    const TRACE: bool;

    /// Nanoseconds since the world began, on the calling task's CPU.
    fn now(&self) -> u64;
    /// The CPU (or per-CPU slot) of the calling task, below [`crate::Config::cpus`].
    fn cpu(&self) -> usize;
    /// The calling task.
    fn task(&self) -> TaskId;
    /// Charges CPU time to the calling task.
    fn charge(&self, what: Cost, n: u32);
    /// A point where other CPUs and due events may overtake.
    fn relax(&self) -> impl Future<Output = ()>;
    /// Sleeps `ns` nanoseconds.
    fn sleep(&self, ns: u64) -> impl Future<Output = ()>;
    /// A ticket for a later [`World::wait`]: take it, test the condition, then wait.
    fn ticket(&self, q: WaitQueue) -> u64;
    /// Waits until the queue is woken after `ticket` was taken, or until `timeout` nanoseconds
    /// have passed. Returns whether it was woken.
    fn wait(&self, q: WaitQueue, ticket: u64, timeout: Option<u64>) -> impl Future<Output = bool>;
    /// Wakes every task waiting on the queue.
    fn wake(&self, q: WaitQueue);
    /// Wakes the task that has waited longest on the queue; a world that can't tell wakes all.
    fn wake_one(&self, q: WaitQueue) {
        self.wake(q);
    }

    /// Asks the page's filesystem to write one page for reclaim. Must not allocate through
    /// [`Mm::alloc_page`].
    fn writepage(
        &self,
        mm: &Mm<Self>,
        pfn: Pfn,
        wbc: &mut WritebackControl,
    ) -> impl Future<Output = Writepage>;
    /// Asks a mapping's filesystem to write dirty pages. Counts `nr_to_write` down.
    fn writepages(
        &self,
        mm: &Mm<Self>,
        mapping: u32,
        wbc: &mut WritebackControl,
    ) -> impl Future<Output = ()>;
    /// Writes one page to its swap slot.
    fn swap_writepage(&self, mm: &Mm<Self>, pfn: Pfn, slot: u32) -> impl Future<Output = ()>;
    /// Starts to read a locked page from its swap slot; when that ends, the page is up to date and
    /// unlocked.
    fn swap_readpage(&self, mm: &Mm<Self>, pfn: Pfn, slot: u32) -> impl Future<Output = ()>;
    /// Brings a page of a mapped file into the page cache, and perhaps others with it. A world
    /// without file mappings leaves this as it is.
    fn fault_page(
        &self,
        mm: &Mm<Self>,
        mapping: u32,
        index: u32,
        around: ReadAround,
    ) -> impl Future<Output = Result<(), Touched>> {
        let _ = (mm, mapping, index, around);
        async { Err(Touched::BusError) }
    }
    /// A page of a mapped file is about to become writable. `false`: the filesystem has no room.
    fn page_mkwrite(&self, mm: &Mm<Self>, mapping: u32, index: u32) -> impl Future<Output = bool> {
        let _ = (mm, mapping, index);
        async { false }
    }
    /// Reads an inode from its place. Worlds whose filesystems do not tell the engine of their inodes
    /// are never asked, neither this nor the next two.
    fn read_inode(&self, mm: &Mm<Self>, ino: u32) -> impl Future<Output = ()> {
        let _ = (mm, ino);
        async {}
    }
    /// Starts to write the cluster of an XFS inode to its place. When that has ended,
    /// [`Mm::inode_written`] is to be called. `sync`: somebody waits for it.
    fn write_inode(&self, mm: &Mm<Self>, ino: u32, sync: bool) -> impl Future<Output = ()> {
        let _ = sync;
        mm.inode_written(ino, false);
        async {}
    }
    /// Writes `n` changed inodes to the log of an XFS and waits for it. Returns whether it succeeded.
    fn write_log(&self, mm: &Mm<Self>, sb: u32, n: u32) -> impl Future<Output = bool> {
        let _ = (mm, sb, n);
        async { true }
    }
    /// Drops a file page's private buffers; `false` keeps the page.
    fn release_page(&self, mm: &Mm<Self>, pfn: Pfn) -> bool;
    /// Whether a backing device is congested for a class.
    fn bdi_congested(&self, bdi: u32, class: Class) -> bool;
    /// How many backing devices are congested for a class.
    fn congested_bdis(&self, class: Class) -> u32;
    /// The latency of one allocation, in nanoseconds.
    fn alloc_latency(&self, path: AllocPath, ns: u64);
    /// The calling task's allocation left the fast path, for a record of the slowest: when it began,
    /// its order, and the machine's free pages.
    #[inline(always)]
    fn alloc_slow(&self, start: u64, order: u32, free: u64) {
        let _ = (start, order, free);
    }
    /// It comes to its end; [`World::alloc_latency`] follows.
    #[inline(always)]
    fn alloc_slow_ends(&self, free: u64) {
        let _ = free;
    }
    /// An event that nobody sums up, for the same record.
    #[inline(always)]
    fn observe(&self, event: &Event) {
        let _ = event;
    }
    /// A typed trace event; only called when [`World::TRACE`] holds and somebody listens.
    fn trace(&self, event: Event);
    /// Whether anybody listens to events now.
    fn tracing(&self) -> bool;
    /// A reclaim event, for sums that are kept whether or not anybody traces.
    #[inline(always)]
    fn count(&self, _event: &Event) {}
    /// Why the calling task's next [`World::wait`] or [`World::sleep`] waits, if it does, where there is
    /// no object to name. Called right before it.
    #[inline(always)]
    fn waits_for(&self, _why: Waits) {}
    /// What the calling task's next wait or sleep is on, if it waits, and with it why
    /// ([`WaitedKind::why`]). Called right before it.
    #[inline(always)]
    fn waits_on(&self, _what: Waited) {}
    /// The calling task has an object that others may wait on, and may sleep while it has it.
    #[inline(always)]
    fn holds(&self, _kind: WaitedKind, _object: u64) {}
    /// Nobody has the object any more.
    #[inline(always)]
    fn lets_go(&self, _kind: WaitedKind, _object: u64) {}
    /// No memory could be reclaimed: the run ends.
    fn out_of_memory(&self, report: String);
}
