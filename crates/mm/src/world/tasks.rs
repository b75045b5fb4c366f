//! Tasks and time: what passes, who runs, who waits for what.

use std::future::Future;

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
    /// One dentry or inode evicted, or looked at by a shrinker or by the log.
    SlabObject,
    /// One object of a slab made.
    SlabMake,
    /// One page taken off its LRU list for good.
    LruDelete,
    /// What a fault costs beside [`Cost::Fault`] that makes a page of a shared mapping writable.
    MkWrite,
}

/// The number of kinds of [`Cost`].
pub const COSTS: usize = Cost::MkWrite as usize + 1;

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

    /// Whether the kernel's task counts as waiting for I/O meanwhile (`io_schedule`): for a page, a request, the
    /// end of one, and in a pause of a dirtier.
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
    /// The task that has it, where the caller knows it and [`Tasks::holds`] was not called.
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

/// Tasks and time.
///
/// `charge` and `relax` are how simulated CPU time passes: every span between two `relax` calls
/// handles at most 32 pages. In a live world both compile to nothing.
pub trait Tasks {
    /// Nanoseconds since the world began, on the calling task's CPU.
    fn now(&self) -> u64;

    /// The time of the last timer tick in nanoseconds (`jiffies`); in a world without ticks, the time.
    fn jiffies(&self) -> u64 {
        self.now()
    }

    /// When a timer that is set now for so many nanoseconds, which are whole ticks, expires. In a world with ticks a timer
    /// expires at one, and never early.
    fn timer_expires(&self, ns: u64) -> u64 {
        self.jiffies() + ns
    }

    /// The CPU (or per-CPU slot) of the calling task, below [`crate::Config::cpus`].
    fn cpu(&self) -> usize;

    /// The calling task.
    fn task(&self) -> TaskId;

    /// Nanoseconds of CPU time that one of a kind costs.
    fn price(&self, what: Cost) -> u64;

    /// Charges CPU time in nanoseconds to the calling task.
    fn charge_ns(&self, ns: u64);

    /// Charges CPU time to the calling task.
    #[inline(always)]
    fn charge(&self, what: Cost, n: u32) {
        self.charge_ns(self.price(what) * u64::from(n));
    }

    /// A point where other CPUs and due events may overtake.
    fn relax(&self) -> impl Future<Output = ()>;

    /// [`Tasks::relax`] where that would come back at once, which counts as one. `false`: nothing
    /// happened, and relaxing is still to be done. For spans that are no futures.
    #[inline(always)]
    fn goes_on(&self) -> bool {
        false
    }

    /// Charges `ns` nanoseconds for each of up to `most` equal steps and, with `relax`, relaxes behind each,
    /// as long as that comes back at once ([`Tasks::goes_on`]). Returns how many were taken, 0 where a
    /// world knows no such steps.
    #[inline(always)]
    fn steps(&self, ns: u64, most: u32, relax: bool) -> u32 {
        let _ = (ns, most, relax);
        0
    }

    /// How many steps [`Tasks::steps`] would take that relaxes behind each. Nothing is charged.
    #[inline(always)]
    fn steps_ahead(&self, ns: u64, most: u32) -> u32 {
        let _ = (ns, most);
        0
    }

    /// Takes steps that [`Tasks::steps_ahead`] has foreseen, as [`Tasks::steps`] does that relaxes behind each.
    #[inline(always)]
    fn take_steps(&self, ns: u64, steps: u32) {
        let _ = ns;
        assert!(steps == 0, "a world that foresees steps takes them");
    }

    /// Sleeps `ns` nanoseconds.
    fn sleep(&self, ns: u64) -> impl Future<Output = ()>;

    /// A ticket for a later [`Tasks::wait`]: take it, test the condition, then wait.
    fn ticket(&self, q: WaitQueue) -> u64;

    /// Waits until the queue is woken after `ticket` was taken, or until `timeout` nanoseconds
    /// have passed. Returns whether it was woken.
    fn wait(&self, q: WaitQueue, ticket: u64, timeout: Option<u64>) -> impl Future<Output = bool>;

    /// Wakes every task waiting on the queue.
    fn wake(&self, q: WaitQueue);

    /// Whether some task waits on the queue that neither a wake nor its timeout has ended yet, for recounts. A world
    /// whose tasks run at the same time cannot say: `false`.
    fn waited_on(&self, _q: WaitQueue) -> bool {
        false
    }

    /// Whether anybody may wait on a queue of pages ([`crate::queue::PAGES`]). Where nobody does and no ticket of one is
    /// kept while others run, nobody need be woken.
    fn page_waiters(&self) -> bool {
        true
    }

    /// Wakes the task that has waited longest on the queue; a world that can't tell wakes all.
    fn wake_one(&self, q: WaitQueue) {
        self.wake(q);
    }

    /// Whoever waits for the queue waits for so many nanoseconds from now at most, and is not woken for that. `false`: the
    /// world has no such timers, and nothing is done.
    fn set_timer(&self, _q: WaitQueue, _ns: u64) -> bool {
        false
    }

    /// A task was sent a signal that kills it: it wakes where it sleeps for its program, and dies when it
    /// returns there ([`PF_DYING`](crate::memory::task::PF_DYING)). A world without killable tasks is not asked.
    fn kill(&self, _task: TaskId) {}

    /// What a task is called (`comm`).
    fn comm(&self, task: TaskId) -> String {
        format!("task {task}")
    }

    /// Why the calling task's next [`Tasks::wait`] or [`Tasks::sleep`] waits, if it does, where there is
    /// no object to name. Called right before it.
    #[inline(always)]
    fn waits_for(&self, _why: Waits) {}

    /// What the calling task's next wait or sleep is on, if it waits, and with it why
    /// ([`WaitedKind::why`]). Called right before it.
    #[inline(always)]
    fn waits_on(&self, _what: Waited) {}

    /// The calling task begins, or ends, what it does for want of memory (`psi_memstall_enter`).
    #[inline(always)]
    fn memory_stall(&self, _begins: bool) {}

    /// The calling task has an object that others may wait on, and may sleep while it has it.
    #[inline(always)]
    fn holds(&self, _kind: WaitedKind, _object: u64) {}

    /// Nobody has the object any more.
    #[inline(always)]
    fn lets_go(&self, _kind: WaitedKind, _object: u64) {}
}
