//! Tasks and time: the clock, CPU time, sleeping and waking, and what tasks wait for.

use std::future::Future;

/// A task as the world numbers it; below [`crate::Config::max_tasks`].
pub type TaskId = u32;

/// A queue of waiting tasks. The engine numbers its queues from 0; see
/// [`crate::Config::wait_queues`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitQueue(pub u32);

/// The kinds of work that CPU time is charged for. The world's parameter table gives each its
/// nanoseconds.
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
    /// One page added to, moved on or isolated from an LRU list.
    Lru,
    /// One page examined on an inactive or active list, or visited by `invalidate_pages`.
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
    /// One access to a mapped page that a program has not touched for a long time.
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
    /// One dentry or inode evicted, or looked at by a shrinker or by the log.
    SlabObject,
    /// One slab object constructed.
    SlabMake,
    /// One page taken off its LRU list for good.
    LruDelete,
    /// The extra cost, beside [`Cost::Fault`], of a fault that makes a page of a shared mapping
    /// writable.
    MkWrite,
}

/// The number of kinds of [`Cost`].
pub const COSTS: usize = Cost::MkWrite as usize + 1;

/// Why a task sleeps, for the world's account of where its time goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Waits {
    /// The task has nothing to do, or waits for something outside memory management.
    #[default]
    Sleep,
    /// The task waits for a block device: a page under I/O, or a free request of the device's
    /// queue.
    Device,
    /// The task is throttled: it is over the dirty limits, or its reclaim meets a congested device.
    Throttle,
    /// The task waits for something that another task holds: a page's lock, an inode being written.
    Lock,
    /// The task waits for the daemon that serves its filesystem.
    Server,
}

/// The kinds of objects that a task waits on, for the world's record of which task waits for which.
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
    /// Data from a device; the object is [`Waited::page`], or the device if the read is for no
    /// page.
    DeviceRead,
    /// A write that belongs to no page; the object is the device.
    DeviceWrite,
    /// The number of dirty pages to fall below the limits; the object is the bdi.
    DirtyLimit,
    /// Memory reserves that kswapd has to refill before direct reclaim (`throttle_direct_reclaim`);
    /// the object is the node.
    ReclaimThrottle,
    /// The end of congestion of devices; the object is the class.
    Congestion,
    /// The mutex of an xfs allocation group's inode reclaim; the object is the group.
    AgLock,
    /// An inode's own lock; the object is the inode.
    InodeLock,
    /// An xfs inode's flush lock; the object is the inode.
    FlushLock,
    /// A pinned xfs inode, which the next write of the log unpins; the object is the inode.
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

    /// Returns the reason (device, throttle, lock or server) under which a task's time is booked
    /// while it waits on this kind of object.
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

    /// Returns true if a task that waits for this reason counts as waiting for I/O (`io_schedule`):
    /// for a page, a free request or a request's end, an XFS inode that is being flushed or that
    /// the log pins, congestion, or the end of a dirtier's pause.
    pub fn io_schedules(self) -> bool {
        match self {
            Self::PageLock
            | Self::PageWriteback
            | Self::Request
            | Self::DeviceRead
            | Self::DeviceWrite
            | Self::DirtyLimit
            | Self::Congestion
            | Self::FlushLock
            | Self::Pin => true,
            Self::InodeSync
            | Self::ReclaimThrottle
            | Self::AgLock
            | Self::InodeLock
            | Self::LogForce
            | Self::ClusterBuffer
            | Self::ClusterWrite
            | Self::Server => false,
        }
    }

    /// Returns the name that reports use.
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

/// The object that a task waits on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waited {
    /// The kind of object.
    pub kind: WaitedKind,
    /// The object's number, as its kind defines it.
    pub object: u64,
    /// The task that holds the object; `None` if the caller does not know it, or reports holders by
    /// [`Tasks::holds`].
    pub holder: Option<TaskId>,
}

impl Waited {
    /// Makes a wait on an object whose holder the caller does not know.
    pub fn on(kind: WaitedKind, object: u64) -> Self {
        Self {
            kind,
            object,
            holder: None,
        }
    }

    /// Returns the object number of a page: its file, or the region of an anonymous page, in the
    /// upper 32 bits, and its index there in the lower.
    pub fn page(mapping: u32, index: u32) -> u64 {
        u64::from(mapping) << 32 | u64::from(index)
    }
}

/// Tasks and time.
///
/// `charge` and `relax` are how simulated CPU time passes; every span between two `relax` calls
/// handles at most 32 pages. In a live world both compile to nothing.
pub trait Tasks {
    /// Returns nanoseconds since the world began, on the calling task's CPU.
    fn now(&self) -> u64;

    /// Returns the time of the last timer tick in nanoseconds (`jiffies`); in a world without
    /// ticks, the time.
    fn jiffies(&self) -> u64 {
        self.now()
    }

    /// Returns the time, in nanoseconds, at which a timer expires that is set now for `ns`
    /// nanoseconds, a whole number of ticks. In a world with ticks a timer expires at a tick and
    /// never early.
    fn timer_expires(&self, ns: u64) -> u64 {
        self.jiffies() + ns
    }

    /// Returns the CPU (or per-CPU slot) of the calling task, below [`crate::Config::cpus`].
    fn cpu(&self) -> usize;

    /// Returns the calling task.
    fn task(&self) -> TaskId;

    /// Returns the CPU time in nanoseconds that one unit of this work costs.
    fn price(&self, what: Cost) -> u64;

    /// Charges CPU time in nanoseconds to the calling task.
    fn charge_ns(&self, ns: u64);

    /// Charges the CPU time of `n` units of work to the calling task.
    #[inline(always)]
    fn charge(&self, what: Cost, n: u32) {
        self.charge_ns(self.price(what) * u64::from(n));
    }

    /// Lets other CPUs and due events overtake the calling task.
    fn relax(&self) -> impl Future<Output = ()>;

    /// Does [`Tasks::relax`] if it would return at once, and counts as one. Returns false if
    /// nothing happened and the caller must still relax. For functions that are not async.
    #[inline(always)]
    fn goes_on(&self) -> bool {
        false
    }

    /// Charges `ns` nanoseconds for each of up to `most` equal steps and, with `relax`, relaxes
    /// after each, as long as relaxing returns at once ([`Tasks::goes_on`]). Returns how many steps
    /// were taken; 0 in a world that does not support steps.
    #[inline(always)]
    fn steps(&self, ns: u64, most: u32, relax: bool) -> u32 {
        let _ = (ns, most, relax);
        0
    }

    /// Returns how many steps [`Tasks::steps`] with `relax` would take. Charges nothing.
    #[inline(always)]
    fn steps_ahead(&self, ns: u64, most: u32) -> u32 {
        let _ = (ns, most);
        0
    }

    /// Takes steps that [`Tasks::steps_ahead`] has counted, as [`Tasks::steps`] with `relax` does.
    #[inline(always)]
    fn take_steps(&self, ns: u64, steps: u32) {
        let _ = ns;
        assert!(steps == 0, "a world that foresees steps takes them");
    }

    /// Sleeps `ns` nanoseconds.
    fn sleep(&self, ns: u64) -> impl Future<Output = ()>;

    /// Returns a ticket for a later [`Tasks::wait`]: take it, test the condition, then wait.
    fn ticket(&self, q: WaitQueue) -> u64;

    /// Waits until the queue is woken after `ticket` was taken, or until `timeout` nanoseconds have
    /// passed; `None`: without a timeout. Returns true if it was woken.
    fn wait(&self, q: WaitQueue, ticket: u64, timeout: Option<u64>) -> impl Future<Output = bool>;

    /// Wakes every task waiting on the queue.
    fn wake(&self, q: WaitQueue);

    /// Returns true if a task waits on the queue whose wait neither a wake-up nor its timeout has
    /// ended yet; for recounts. A world whose tasks run in parallel cannot tell and returns false.
    fn waited_on(&self, _q: WaitQueue) -> bool {
        false
    }

    /// Returns true if a task may wait on a queue of pages ([`crate::queue::PAGES`]). If it returns
    /// false, and no ticket of such a queue is kept while other tasks run, wake-ups of these queues
    /// may be left out.
    fn page_waiters(&self) -> bool {
        true
    }

    /// Wakes the task that has waited longest on the queue; a world that cannot tell wakes all.
    fn wake_one(&self, q: WaitQueue) {
        self.wake(q);
    }

    /// Limits the present wait of the queue's waiters to `ns` nanoseconds from now, without waking
    /// them for that. Returns false, having done nothing, if the world has no such timers.
    fn set_timer(&self, _q: WaitQueue, _ns: u64) -> bool {
        false
    }

    /// Sends a task a signal that kills it: the task wakes if it sleeps for its program, and dies
    /// when it returns there ([`PF_DYING`](crate::memory::task::PF_DYING)). Not called in a world
    /// without killable tasks.
    fn kill(&self, _task: TaskId) {}

    /// Returns the name of a task (`comm`).
    fn comm(&self, task: TaskId) -> String {
        format!("task {task}")
    }

    /// Notes why the calling task's next [`Tasks::wait`] or [`Tasks::sleep`] waits, if it does,
    /// where there is no object to name. Called right before it.
    #[inline(always)]
    fn waits_for(&self, _why: Waits) {}

    /// Notes the object of the calling task's next wait or sleep, if it waits, and with it the
    /// reason ([`WaitedKind::why`]). Called right before it.
    #[inline(always)]
    fn waits_on(&self, _what: Waited) {}

    /// Notes that the calling task begins, or ends, work caused by a lack of memory
    /// (`psi_memstall_enter`).
    #[inline(always)]
    fn memory_stall(&self, _begins: bool) {}

    /// Notes that the calling task holds an object that others may wait on, and that it may sleep
    /// while holding it.
    #[inline(always)]
    fn holds(&self, _kind: WaitedKind, _object: u64) {}

    /// Notes that the object is no longer held.
    #[inline(always)]
    fn lets_go(&self, _kind: WaitedKind, _object: u64) {}
}
