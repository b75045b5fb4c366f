//! Sums behind the rows of mm reports (docs/reference/counters-and-traces.md#rows-from-traces):
//! sums over reclaim's events, kept as these happen, and where the time of tasks went.
//!
//! No event is stored. An event costs a few additions, and the engine makes at most one per 32
//! pages scanned, so a run without tracing has the same figures as a traced one. `tests/rows.rs`
//! recounts the sums from the recorded events.

use mm::world::event::{Event, IsolateMode};
use mm::world::{TaskId, Waits};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};

const NEVER: u64 = u64::MAX;

/// The class of a task, for sums over tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum TaskClass {
    /// The workload's shell and processes.
    #[default]
    Workload,
    /// A kswapd.
    Kswapd,
    /// A flusher of a backing device.
    Flusher,
    /// A filesystem's own thread or daemon, or another kernel thread.
    Filesystem,
    /// A sampler or trace reader that watches the run.
    Monitor,
}

impl TaskClass {
    /// Every class, in reporting order.
    pub const ALL: [Self; 5] = [
        Self::Workload,
        Self::Kswapd,
        Self::Flusher,
        Self::Filesystem,
        Self::Monitor,
    ];

    /// Returns the name of the task class that reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Workload => "workload",
            Self::Kswapd => "kswapd",
            Self::Flusher => "flusher",
            Self::Filesystem => "filesystem",
            Self::Monitor => "monitor",
        }
    }
}

/// The ways in which a task spends its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Spent {
    /// Executes; interrupts of its CPU are charged to it.
    Cpu,
    /// Is runnable and waits for a CPU: its wake-up latency, turns of others, context switches.
    RunQueue,
    /// Waits for a block device.
    Device,
    /// Is held back by dirty limits or congestion.
    Throttle,
    /// Waits for an object that another task holds.
    Lock,
    /// Waits for its filesystem's daemon.
    Server,
    /// Has nothing to do.
    Sleep,
}

/// Number of [`Spent`] items.
pub const SPENT: usize = Spent::Sleep as usize + 1;

impl From<Waits> for Spent {
    /// Returns the part of a task's time that a wait belongs to, by what the task waits for.
    fn from(why: Waits) -> Self {
        match why {
            Waits::Sleep => Self::Sleep,
            Waits::Device => Self::Device,
            Waits::Throttle => Self::Throttle,
            Waits::Lock => Self::Lock,
            Waits::Server => Self::Server,
        }
    }
}

/// Nanoseconds by what they were spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Split {
    /// Executing.
    pub cpu: u64,
    /// Runnable, without a CPU.
    pub run_queue: u64,
    /// Waiting for a block device.
    pub device: u64,
    /// Held back by dirty limits or congestion.
    pub throttle: u64,
    /// Waiting for an object that another task holds.
    pub lock: u64,
    /// Waiting for the filesystem's daemon.
    pub server: u64,
    /// Idle.
    pub sleep: u64,
}

impl Split {
    /// Adds `ns` nanoseconds to the part that they were spent on.
    #[inline]
    pub fn add(&mut self, on: Spent, ns: u64) {
        let field = match on {
            Spent::Cpu => &mut self.cpu,
            Spent::RunQueue => &mut self.run_queue,
            Spent::Device => &mut self.device,
            Spent::Throttle => &mut self.throttle,
            Spent::Lock => &mut self.lock,
            Spent::Server => &mut self.server,
            Spent::Sleep => &mut self.sleep,
        };
        *field += ns;
    }

    /// Returns the parts with their names, in nanoseconds and in reporting order.
    pub fn parts(&self) -> [(&'static str, u64); SPENT] {
        [
            ("cpu", self.cpu),
            ("run queue", self.run_queue),
            ("device", self.device),
            ("throttle", self.throttle),
            ("lock", self.lock),
            ("server", self.server),
            ("sleep", self.sleep),
        ]
    }

    /// Returns the sum of all parts.
    pub fn total(&self) -> u64 {
        self.parts().iter().map(|p| p.1).sum()
    }

    /// Returns the nanoseconds that were added to each part since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            cpu: self.cpu - earlier.cpu,
            run_queue: self.run_queue - earlier.run_queue,
            device: self.device - earlier.device,
            throttle: self.throttle - earlier.throttle,
            lock: self.lock - earlier.lock,
            server: self.server - earlier.server,
            sleep: self.sleep - earlier.sleep,
        }
    }

    /// Adds another split's nanoseconds, part by part.
    fn merge(&mut self, other: &Self) {
        self.cpu += other.cpu;
        self.run_queue += other.run_queue;
        self.device += other.device;
        self.throttle += other.throttle;
        self.lock += other.lock;
        self.server += other.server;
        self.sleep += other.sleep;
    }
}

/// Where the time of one task, or of all tasks of a class, went: `outside` and `in_reclaim`
/// together are the lifetime. Nanoseconds since the workload began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TaskTime {
    /// The class of the task or tasks.
    pub class: TaskClass,
    /// Number of tasks.
    pub tasks: u64,
    /// Nanoseconds from the workload's start, or a later creation, to the end of the task or the
    /// workload.
    pub lifetime: u64,
    /// CPU time of the program itself, a part of `outside.cpu`; the rest is the kernel's.
    pub user: u64,
    /// Time outside direct reclaim.
    pub outside: Split,
    /// Time between entering and leaving direct reclaim.
    pub in_reclaim: Split,
}

impl TaskTime {
    /// Returns the whole lifetime, split by how it was spent.
    pub fn split(&self) -> Split {
        let mut all = self.outside;
        all.merge(&self.in_reclaim);
        all
    }

    /// Adds another task's time, and counts its tasks, lifetime and user time.
    pub fn merge(&mut self, other: &Self) {
        self.tasks += other.tasks;
        self.lifetime += other.lifetime;
        self.user += other.user;
        self.outside.merge(&other.outside);
        self.in_reclaim.merge(&other.in_reclaim);
    }

    /// Sums tasks' times by class; returns one sum for each class that has tasks.
    pub fn by_class(tasks: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut sums = TaskClass::ALL.map(|class| Self {
            class,
            ..Self::default()
        });
        for t in tasks {
            sums[t.class as usize].merge(&t);
        }
        sums.into_iter().filter(|s| s.tasks > 0).collect()
    }
}

/// Pages that one class of reclaimers handed to their filesystem or to swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Writes {
    /// File pages written without waiting.
    pub file_async: u64,
    /// File pages that reclaim waited for.
    pub file_sync: u64,
    /// Anonymous pages written without waiting.
    pub anon_async: u64,
    /// Anonymous pages that reclaim waited for.
    pub anon_sync: u64,
}

impl Writes {
    /// Returns the file pages.
    pub fn file(&self) -> u64 {
        self.file_async + self.file_sync
    }

    /// Returns all pages.
    pub fn total(&self) -> u64 {
        self.file() + self.anon_async + self.anon_sync
    }
}

/// Waits of one kind by one class of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CongestionWaits {
    /// Number of events, including those that did not sleep.
    pub number: u64,
    /// Sum of `usec_delayed`.
    pub delayed_us: u64,
    /// Events that lasted their whole timeout.
    pub full: u64,
}

/// The sums over one class of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ClassSums {
    /// Pages scanned on inactive lists.
    pub scanned: u64,
    /// Pages written by reclaim.
    pub writes: Writes,
    /// Waits in `congestion_wait`; `None`: a kernel without it, as all are from 5.16 on.
    pub congest: Option<CongestionWaits>,
    /// Waits in `wait_iff_congested`; `None` likewise.
    pub conditional: Option<CongestionWaits>,
}

impl ClassSums {
    /// Sums of a class whose tasks did nothing, in a kernel that waits for congestion.
    pub const NOTHING: Self = {
        let no_waits = Some(CongestionWaits {
            number: 0,
            delayed_us: 0,
            full: 0,
        });
        Self {
            scanned: 0,
            writes: Writes {
                file_async: 0,
                file_sync: 0,
                anon_async: 0,
                anon_sync: 0,
            },
            congest: no_waits,
            conditional: no_waits,
        }
    };
}

/// The sums behind the trace-derived rows, from the workload's start to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReclaimSums {
    /// Every task but the kswapds, throttled writers included.
    pub direct: ClassSums,
    /// The kswapds.
    pub kswapd: ClassSums,
    /// Entries into direct reclaim.
    pub direct_reclaims: u64,
    /// Nanoseconds in direct reclaim, summed over tasks.
    pub stalled_ns: u64,
    /// `wakeup_kswapd` events of tasks that entered direct reclaim at least once.
    pub wake_requests: u64,
    /// `wakeup_kswapd` events of all tasks.
    pub wake_requests_all: u64,
    /// Wakes of a kswapd that slept.
    pub kswapd_wakeups: u64,
    /// Nanoseconds that kswapds were awake, summed over nodes.
    pub kswapd_awake_ns: u64,
}

/// One task's part of the sums.
struct TaskSums {
    kswapd: Cell<bool>,
    begins: Cell<u64>,
    begun: Cell<u64>,
    stalled: Cell<u64>,
    requests: Cell<u64>,
    /// A kswapd's wake-up time; [`NEVER`] while it sleeps, and for other tasks.
    awake_since: Cell<u64>,
    awake: Cell<u64>,
    wakeups: Cell<u64>,
}

/// Sums of events, kept as these happen.
pub struct Reclaim {
    tasks: Box<[TaskSums]>,
    /// Sums of direct reclaim, then of kswapd; without the pages scanned, which change most often.
    classes: [RefCell<ClassSums>; 2],
    scanned: [Cell<u64>; 2],
}

fn add(cell: &Cell<u64>, n: u64) {
    cell.set(cell.get() + n);
}

impl Reclaim {
    /// Returns empty sums for `tasks` tasks, none of which is a kswapd, asleep or in reclaim.
    pub fn new(tasks: usize) -> Self {
        Self {
            tasks: (0..tasks)
                .map(|_| TaskSums {
                    kswapd: Cell::new(false),
                    begins: Cell::new(0),
                    begun: Cell::new(NEVER),
                    stalled: Cell::new(0),
                    requests: Cell::new(0),
                    awake_since: Cell::new(NEVER),
                    awake: Cell::new(0),
                    wakeups: Cell::new(0),
                })
                .collect(),
            classes: [const { RefCell::new(ClassSums::NOTHING) }; 2],
            scanned: Default::default(),
        }
    }

    /// Returns true if a task was marked as a kswapd (`is_kswapd`).
    pub fn of_kswapd(&self, task: TaskId) -> bool {
        self.tasks[task as usize].kswapd.get()
    }

    /// Returns the traced wake-ups of kswapd and the entries into direct reclaim so far, over all
    /// tasks.
    pub fn wakes_and_stalls(&self) -> (u64, u64) {
        self.tasks.iter().fold((0, 0), |(wakes, stalls), t| {
            (wakes + t.requests.get(), stalls + t.begins.get())
        })
    }

    /// Returns the same two numbers for one task.
    pub fn own_wakes_and_stalls(&self, task: TaskId) -> (u64, u64) {
        let t = &self.tasks[task as usize];
        (t.requests.get(), t.begins.get())
    }

    /// Marks a task as a kswapd.
    pub fn is_kswapd(&self, task: TaskId) {
        self.tasks[task as usize].kswapd.set(true);
    }

    /// Changes the sums of the class that a task belongs to: kswapd, or direct reclaim for all
    /// others.
    fn class(&self, task: TaskId, change: impl FnOnce(&mut ClassSums)) {
        let kswapd = self.tasks[task as usize].kswapd.get();
        change(&mut self.classes[usize::from(kswapd)].borrow_mut());
    }

    /// Counts pages of files that a task has written for reclaim and did not wait for.
    pub fn file_writepages(&self, task: TaskId, n: u32) {
        self.class(task, |c| c.writes.file_async += u64::from(n));
    }

    /// Adds an event of a task at time `now` (nanoseconds) to the sums: pages scanned on inactive
    /// lists, pages that reclaim writes, waits for congestion, time in direct reclaim, and wake-ups
    /// of kswapd. Other events are ignored.
    #[inline]
    pub fn count(&self, now: u64, task: TaskId, event: &Event) {
        let t = &self.tasks[task as usize];
        match *event {
            Event::LruIsolate {
                mode: IsolateMode::Inactive,
                nr_scanned,
                ..
            } => add(
                &self.scanned[usize::from(t.kswapd.get())],
                u64::from(nr_scanned),
            ),
            Event::Writepage { file, sync, .. } => self.class(task, |c| {
                let w = &mut c.writes;
                *match (file, sync) {
                    (true, false) => &mut w.file_async,
                    (true, true) => &mut w.file_sync,
                    (false, false) => &mut w.anon_async,
                    (false, true) => &mut w.anon_sync,
                } += 1;
            }),
            Event::CongestionWait {
                usec_timeout,
                usec_delayed,
            } => self.class(task, |c| note(&mut c.congest, usec_timeout, usec_delayed)),
            Event::WaitIffCongested {
                usec_timeout,
                usec_delayed,
            } => self.class(task, |c| {
                note(&mut c.conditional, usec_timeout, usec_delayed);
            }),
            Event::DirectReclaimBegin { .. } => {
                add(&t.begins, 1);
                t.begun.set(now);
            }
            Event::DirectReclaimEnd { .. } => {
                add(&t.stalled, now.saturating_sub(t.begun.replace(NEVER)));
            }
            Event::WakeupKswapd { .. } => add(&t.requests, 1),
            Event::KswapdWake { .. } if t.awake_since.get() == NEVER => {
                add(&t.wakeups, 1);
                t.awake_since.set(now);
            }
            Event::KswapdSleep { .. } => {
                add(&t.awake, now.saturating_sub(t.awake_since.replace(NEVER)));
            }
            _ => {}
        }
    }

    /// Restarts all sums at time `now`, when the workload begins; a kswapd's wakefulness or a
    /// task's direct reclaim under way counts from `now` on.
    pub fn restart(&self, now: u64) {
        for t in &self.tasks {
            for sum in [&t.begins, &t.stalled, &t.requests, &t.awake, &t.wakeups] {
                sum.set(0);
            }
            for since in [&t.begun, &t.awake_since] {
                if since.get() != NEVER {
                    since.set(now);
                }
            }
        }
        self.classes.iter().for_each(|c| {
            c.replace(ClassSums::NOTHING);
        });
        self.scanned.iter().for_each(|s| s.set(0));
    }

    /// Returns the sums of a class (0: direct reclaim, 1: kswapd), its scanned pages included.
    fn class_sums(&self, class: usize) -> ClassSums {
        ClassSums {
            scanned: self.scanned[class].get(),
            ..*self.classes[class].borrow()
        }
    }

    /// Returns the sums up to `now`, with the spans under way counted up to `now`.
    pub fn sums(&self, now: u64) -> ReclaimSums {
        let mut sums = ReclaimSums {
            direct: self.class_sums(0),
            kswapd: self.class_sums(1),
            ..ReclaimSums::default()
        };
        for t in &self.tasks {
            sums.direct_reclaims += t.begins.get();
            sums.stalled_ns += t.stalled.get() + now.saturating_sub(t.begun.get());
            sums.wake_requests_all += t.requests.get();
            if t.begins.get() > 0 {
                sums.wake_requests += t.requests.get();
            }
            sums.kswapd_wakeups += t.wakeups.get();
            sums.kswapd_awake_ns += t.awake.get() + now.saturating_sub(t.awake_since.get());
        }
        sums
    }
}

/// Counts a wait for congestion that lasted `delayed` of at most `timeout` microseconds.
fn note(waits: &mut Option<CongestionWaits>, timeout: u64, delayed: u64) {
    let waits = waits.get_or_insert_default();
    waits.number += 1;
    waits.delayed_us += delayed;
    waits.full += u64::from(delayed >= timeout);
}
