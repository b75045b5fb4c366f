//! A small world for the engine's own tests: one virtual clock, tasks that take turns, devices that
//! serve one request after the other.
//!
//! The clock and the order of calls decide everything, so a run is the same on every machine. A
//! task runs until it relaxes or waits; tasks run in the order in which they became ready. Each
//! kind of cost takes a time of its own, so that a superfluous charge, or one of the wrong kind,
//! shows in the time.

use super::prelude::*;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fmt::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// The engine in this world.
pub type Engine = Mm<TestWorld>;
/// The future that a task runs.
pub type Job<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A lock that does nothing, because one task runs at a time.
#[derive(Default)]
pub struct NoLock;

impl ShortLock for NoLock {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }
}

/// A device: how long a request takes, in nanoseconds, and when the device is congested.
#[derive(Debug, Clone, Copy)]
pub struct DeviceSpec {
    pub request_ns: u64,
    pub page_ns: u64,
    /// The device is congested from this many waiting pages on, until they are fewer than 7/8 of
    /// it.
    pub congested_at: u32,
    /// Every write whose number is a multiple of this fails; 0: none.
    pub fails_every: u32,
}

impl DeviceSpec {
    /// A disk of 20 MB/s that takes a millisecond for each request.
    pub const DISK: Self = Self {
        request_ns: 1_000_000,
        page_ns: 200_000,
        congested_at: 256,
        fails_every: 0,
    };
}

/// A request that ends at a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Done {
    Written { mapping: u32, first: u32, n: u32 },
    Read { mapping: u32, first: u32, n: u32 },
    SwapWritten { pfn: Pfn },
    SwapRead { pfn: Pfn },
    Inode { ino: u32 },
    Raw { queue: u32 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Timer {
        task: u32,
        turn: u64,
    },
    Done {
        device: u32,
        pages: u32,
        failed: bool,
        what: Done,
    },
}

struct Device {
    spec: DeviceSpec,
    free_at: u64,
    waiting: u32,
    congested: bool,
    writes: u32,
}

#[derive(Default)]
struct Queue {
    wakes: u64,
    /// When the queue was woken last (ns).
    woken: u64,
    waiters: VecDeque<u32>,
}

#[derive(Default, Clone, Copy)]
struct TaskState {
    blocked: bool,
    turn: u64,
}

/// Deviations of a machine's files from what their kind does.
#[derive(Debug, Clone, Copy, Default)]
pub struct Manners {
    /// Reclaim's `writepage` is refused for files whose number is a multiple of this; 0: never.
    pub refuses_every: u32,
    /// Reclaim's `writepage` returns `Activate` for files whose number is a multiple of this; 0:
    /// never.
    pub activates_every: u32,
    /// Pages whose index is a multiple of this cannot be released; 0: all can.
    pub keeps_every: u32,
    /// The number of a log's first writes that fail.
    pub log_failures: u32,
    /// Bytes that fit into a log, of which each inode that waits for the log takes 100; 0: no
    /// limit.
    pub log_bytes: u64,
}

/// The world of the tests.
pub struct TestWorld {
    now: Cell<u64>,
    task: Cell<u32>,
    cpus: u32,
    queues: RefCell<Vec<Queue>>,
    tasks: RefCell<Vec<TaskState>>,
    ready: RefCell<VecDeque<u32>>,
    due: RefCell<BinaryHeap<Reverse<(u64, u64, Due)>>>,
    seq: Cell<u64>,
    devices: RefCell<Vec<Device>>,
    manners: Cell<Manners>,
    own_queues: u32,
    pub charged: [Cell<u64>; COSTS],
    pub events: RefCell<BTreeMap<String, u64>>,
    pub latencies: RefCell<BTreeMap<AllocPath, (u64, u64)>>,
    pub waits: RefCell<BTreeMap<&'static str, u64>>,
    digest: Cell<u64>,
    /// Whether nothing is traced.
    pub untraced: Cell<bool>,
    /// Time (ns) up to which a task need not yield.
    pub turn: Cell<u64>,
    pub oom: RefCell<Option<String>>,
    /// The processes that were killed, and the tasks that were sent the signal.
    pub kills: RefCell<Vec<OomKill>>,
    pub signals: RefCell<Vec<TaskId>>,
}

/// A run that takes more turns is taken to loop for ever.
const MOST_TURNS: u64 = 2_000_000;

/// Returns what a kind of cost takes, in nanoseconds.
fn nanoseconds(what: Cost) -> u64 {
    match what {
        Cost::SlabMake => nanoseconds(Cost::SlabObject),
        Cost::LruDelete => nanoseconds(Cost::Lru),
        Cost::MkWrite => 0,
        _ => 150 + 37 * what as u64,
    }
}

impl TestWorld {
    /// Makes a world for an engine of `config`, with its number of CPUs. Device numbers are those
    /// of bdis; the last device is that of the swap area.
    pub fn new(config: &Config, devices: &[DeviceSpec]) -> Self {
        let own_queues = config.wait_queues();
        let queues = own_queues + devices.len() as u32 + config.max_tasks;
        Self {
            now: Cell::new(1),
            task: Cell::new(0),
            cpus: config.cpus as u32,
            queues: RefCell::new((0..queues).map(|_| Queue::default()).collect()),
            tasks: RefCell::new(vec![TaskState::default(); config.max_tasks as usize]),
            ready: RefCell::default(),
            due: RefCell::default(),
            seq: Cell::new(0),
            devices: RefCell::new(
                devices
                    .iter()
                    .map(|&spec| Device {
                        spec,
                        free_at: 0,
                        waiting: 0,
                        congested: false,
                        writes: 0,
                    })
                    .collect(),
            ),
            manners: Cell::default(),
            own_queues,
            charged: std::array::from_fn(|_| Cell::new(0)),
            events: RefCell::default(),
            latencies: RefCell::default(),
            waits: RefCell::default(),
            digest: Cell::new(0xcbf2_9ce4_8422_2325),
            untraced: Cell::new(false),
            turn: Cell::new(0),
            oom: RefCell::default(),
            kills: RefCell::default(),
            signals: RefCell::default(),
        }
    }

    /// Sets how files deviate from what their kind does.
    pub fn set_manners(&self, manners: Manners) {
        self.manners.set(manners);
    }

    /// Advances the clock by `ns` nanoseconds.
    pub fn advance(&self, ns: u64) {
        self.now.set(self.now.get() + ns);
    }

    /// Makes `task` the caller of the engine from now on.
    pub fn run_as(&self, task: u32) {
        self.task.set(task);
    }

    /// Sets whether a device is congested, whatever its load.
    pub fn set_congested(&self, device: u32, congested: bool) {
        self.devices.borrow_mut()[device as usize].congested = congested;
    }

    /// Mixes a word into the digest of everything that happened.
    pub fn mix(&self, word: u64) {
        let d = (self.digest.get() ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        self.digest.set(d ^ d >> 29);
    }

    /// Returns how often a queue was woken, and when last (ns).
    pub fn woken(&self, q: WaitQueue) -> [u64; 2] {
        let queue = &self.queues.borrow()[q.0 as usize];
        [queue.wakes, queue.woken]
    }

    /// Returns the digest of every event and wait with its time.
    pub fn digest(&self) -> u64 {
        self.digest.get()
    }

    /// Schedules `due` for a time (ns); entries of the same time keep their order.
    fn at(&self, time: u64, due: Due) {
        self.seq.set(self.seq.get() + 1);
        self.due
            .borrow_mut()
            .push(Reverse((time, self.seq.get(), due)));
    }

    /// Ends a task's wait, if it waits, and queues it to run.
    fn make_ready(&self, task: u32) {
        let state = &mut self.tasks.borrow_mut()[task as usize];
        if state.blocked {
            state.blocked = false;
            state.turn += 1;
            self.ready.borrow_mut().push_back(task);
        }
    }

    /// Marks the running task as waiting. Returns the task and the number of this wait.
    fn block(&self) -> (u32, u64) {
        let task = self.task.get();
        let state = &mut self.tasks.borrow_mut()[task as usize];
        state.blocked = true;
        (task, state.turn)
    }

    /// Returns the number of the swap area's device.
    fn swap_device(&self) -> u32 {
        self.devices.borrow().len() as u32 - 1
    }

    /// Hands `pages` to a device; waits while the device has at least twice the pages that congest
    /// it.
    pub async fn submit(&self, device: u32, write: bool, pages: u32, what: Done) {
        self.charge(Cost::Submit, 1);
        let room = WaitQueue(self.own_queues + device);
        loop {
            let ticket = self.ticket(room);
            let full = {
                let d = &self.devices.borrow()[device as usize];
                d.waiting >= 2 * d.spec.congested_at
            };
            if !full {
                break;
            }
            self.waits_on(Waited::on(WaitedKind::Request, u64::from(device)));
            self.wait(room, ticket, None).await;
        }
        let (time, failed) = {
            let d = &mut self.devices.borrow_mut()[device as usize];
            let spec = d.spec;
            d.waiting += pages;
            d.congested |= d.waiting >= spec.congested_at;
            d.writes += u32::from(write);
            d.free_at =
                d.free_at.max(self.now.get()) + spec.request_ns + u64::from(pages) * spec.page_ns;
            let failed = write && spec.fails_every > 0 && d.writes.is_multiple_of(spec.fails_every);
            (d.free_at, failed)
        };
        self.at(
            time,
            Due::Done {
                device,
                pages,
                failed,
                what,
            },
        );
    }

    /// Does I/O that belongs to no page, and waits for its end.
    pub async fn raw(&self, device: u32, write: bool, pages: u32) {
        let devices = self.devices.borrow().len() as u32;
        let queue = self.own_queues + devices + self.task.get();
        let ticket = self.ticket(WaitQueue(queue));
        self.submit(device, write, pages, Done::Raw { queue }).await;
        self.waits_on(Waited::on(WaitedKind::DeviceWrite, u64::from(device)));
        self.wait(WaitQueue(queue), ticket, None).await;
    }

    /// Does what follows the end of a request: completes its pages, and wakes tasks that wait for
    /// room or for the end of congestion.
    fn ended(&self, mm: &Engine, device: u32, pages: u32, failed: bool, what: Done) {
        match what {
            Done::Written { mapping, first, n } => mm.end_writeback(mapping, first, n, failed),
            Done::SwapWritten { pfn } => mm.end_page_writeback(pfn, failed),
            Done::SwapRead { pfn } => {
                mm.frames.set_flags(pfn, flag::UPTODATE);
                mm.unlock_page(pfn);
            }
            Done::Read { mapping, first, n } => {
                for index in first..first + n {
                    let pfn = mm.find_page(mapping, index).expect("locked pages stay");
                    mm.frames.set_flags(pfn, flag::UPTODATE);
                    mm.unlock_page(pfn);
                }
            }
            Done::Inode { ino } => mm.inode_written(ino, failed),
            Done::Raw { queue } => self.wake(WaitQueue(queue)),
        }
        let (room, calm) = {
            let d = &mut self.devices.borrow_mut()[device as usize];
            d.waiting -= pages;
            let calm = d.congested && d.waiting < d.spec.congested_at * 7 / 8;
            d.congested &= !calm;
            (d.waiting < 2 * d.spec.congested_at, calm)
        };
        if room {
            self.wake(WaitQueue(self.own_queues + device));
        }
        if calm {
            self.wake(queue::congestion(Class::Async));
            self.wake(queue::congestion(Class::Sync));
        }
    }

    /// Serves all timers and requests that are due by now. Interrupts run as the task that ran
    /// last.
    fn serve(&self, mm: &Engine) {
        loop {
            let next = match self.due.borrow().peek() {
                Some(Reverse((time, _, due))) if *time <= self.now.get() => *due,
                _ => return,
            };
            self.due.borrow_mut().pop();
            match next {
                Due::Timer { task, turn } => {
                    if self.tasks.borrow()[task as usize].turn == turn {
                        self.make_ready(task);
                    }
                }
                Due::Done {
                    device,
                    pages,
                    failed,
                    what,
                } => self.ended(mm, device, pages, failed, what),
            }
        }
    }
}

struct Wait<'a> {
    world: &'a TestWorld,
    /// The queue and the ticket; `None`: a sleep.
    queue: Option<(u32, u64)>,
    until: Option<u64>,
    begun: bool,
}

impl Future for Wait<'_> {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<bool> {
        let w = self.world;
        let leave = || {
            if let Some((q, _)) = self.queue {
                let me = w.task.get();
                w.queues.borrow_mut()[q as usize]
                    .waiters
                    .retain(|&t| t != me);
            }
        };
        if let Some((q, ticket)) = self.queue
            && w.queues.borrow()[q as usize].wakes != ticket
        {
            return Poll::Ready(true);
        }
        if self.begun {
            if self.until.is_some_and(|t| t <= w.now.get()) {
                leave();
                return Poll::Ready(false);
            }
        } else {
            let turn = w.block();
            if let Some((q, _)) = self.queue {
                w.queues.borrow_mut()[q as usize].waiters.push_back(turn.0);
            }
            if let Some(t) = self.until {
                w.at(
                    t,
                    Due::Timer {
                        task: turn.0,
                        turn: turn.1,
                    },
                );
            }
            self.begun = true;
        }
        Poll::Pending
    }
}

struct Relax<'a>(&'a TestWorld, bool);

impl Future for Relax<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.1 {
            return Poll::Ready(());
        }
        self.1 = true;
        self.0.block();
        self.0.make_ready(self.0.task.get());
        Poll::Pending
    }
}

/// Text whose bytes go into the digest.
struct Digested<'a>(&'a TestWorld);

impl std::fmt::Write for Digested<'_> {
    fn write_str(&mut self, s: &str) -> std::fmt::Result {
        s.bytes().for_each(|b| self.0.mix(u64::from(b)));
        Ok(())
    }
}

impl World for TestWorld {
    type U32 = Cell<u32>;
    type U64 = Cell<u64>;
    type Lock = NoLock;
}

impl Tasks for TestWorld {
    fn now(&self) -> u64 {
        self.now.get()
    }
    fn cpu(&self) -> usize {
        (self.task.get() % self.cpus) as usize
    }
    fn task(&self) -> TaskId {
        self.task.get()
    }
    fn price(&self, what: Cost) -> u64 {
        nanoseconds(what)
    }
    fn charge_ns(&self, ns: u64) {
        self.advance(ns);
    }
    fn charge(&self, what: Cost, n: u32) {
        let sum = &self.charged[what as usize];
        sum.set(sum.get() + u64::from(n));
        self.advance(nanoseconds(what) * u64::from(n));
    }
    fn relax(&self) -> impl Future<Output = ()> {
        Relax(self, false)
    }
    fn goes_on(&self) -> bool {
        self.now.get() < self.turn.get()
    }
    fn steps(&self, ns: u64, most: u32, relax: bool) -> u32 {
        let goes_on = |n: &u32| !relax || self.now.get() + ns * u64::from(*n) < self.turn.get();
        let n = (0..=most).rev().find(goes_on).unwrap_or(0);
        self.advance(ns * u64::from(n));
        n
    }
    async fn sleep(&self, ns: u64) {
        let until = Some(self.now.get() + ns);
        Wait {
            world: self,
            queue: None,
            until,
            begun: false,
        }
        .await;
    }
    fn ticket(&self, q: WaitQueue) -> u64 {
        self.queues.borrow()[q.0 as usize].wakes
    }
    fn wait(&self, q: WaitQueue, ticket: u64, timeout: Option<u64>) -> impl Future<Output = bool> {
        self.mix(u64::from(q.0));
        let until = timeout.map(|ns| self.now.get() + ns);
        Wait {
            world: self,
            queue: Some((q.0, ticket)),
            until,
            begun: false,
        }
    }
    fn wake(&self, q: WaitQueue) {
        let waiters = {
            let queue = &mut self.queues.borrow_mut()[q.0 as usize];
            queue.wakes += 1;
            queue.woken = self.now();
            std::mem::take(&mut queue.waiters)
        };
        waiters.into_iter().for_each(|t| self.make_ready(t));
    }
    fn waited_on(&self, q: WaitQueue) -> bool {
        let waiters = &self.queues.borrow()[q.0 as usize].waiters;
        let tasks = self.tasks.borrow();
        waiters.iter().any(|&t| tasks[t as usize].blocked)
    }
    fn kill(&self, task: TaskId) {
        self.signals.borrow_mut().push(task);
    }
    fn waits_on(&self, what: Waited) {
        self.mix(what.object ^ u64::from(what.holder.unwrap_or(99)) << 40);
        *self.waits.borrow_mut().entry(what.kind.name()).or_default() += 1;
    }
}

impl Storage<Self> for TestWorld {
    async fn writepage(&self, mm: &Mm<Self>, pfn: Pfn, wbc: &mut WritebackControl) -> Writepage {
        let (mapping, index) = (mm.frames.mapping(pfn), mm.frames.index(pfn));
        let manners = self.manners.get();
        let among = |every: u32| every > 0 && mapping.is_multiple_of(every);
        if among(manners.activates_every) {
            return Writepage::Activate;
        }
        if among(manners.refuses_every) {
            mm.redirty_page_for_writepage(pfn, wbc);
            return Writepage::Redirtied;
        }
        mm.set_page_writeback(pfn);
        let bdi = mm.mappings[mapping as usize].bdi();
        let what = Done::Written {
            mapping,
            first: index,
            n: 1,
        };
        self.submit(bdi, true, 1, what).await;
        Writepage::Started
    }
    async fn writepages(&self, mm: &Mm<Self>, mapping: u32, wbc: &mut WritebackControl) {
        super::programs::write_back(mm, mapping, wbc).await;
    }
    async fn swap_writepage(&self, _: &Mm<Self>, pfn: Pfn, slot: u32) {
        self.mix(u64::from(slot));
        self.submit(self.swap_device(), true, 1, Done::SwapWritten { pfn })
            .await;
    }
    async fn swap_readpage(&self, _: &Mm<Self>, pfn: Pfn, slot: u32) {
        self.mix(u64::from(slot));
        self.submit(self.swap_device(), false, 1, Done::SwapRead { pfn })
            .await;
    }
    async fn fault_page(
        &self,
        mm: &Mm<Self>,
        page: Faulted,
        around: ReadAround,
    ) -> Result<(), Touched> {
        let (mapping, index) = (page.mapping, page.index);
        let pages = mm.mappings[mapping as usize].size.get() / 4096;
        if u64::from(index) >= pages {
            return Err(Touched::BusError);
        }
        let n = match around {
            ReadAround::None => 1,
            ReadAround::Around | ReadAround::Marked => 4,
            ReadAround::Ahead { .. } => 8,
        };
        match super::programs::bring_in(mm, mapping, index, n).await {
            true if around == ReadAround::Marked => mark(mm, mapping, index + 2),
            true => {}
            false => return Err(Touched::OutOfMemory),
        }
        Ok(())
    }
    async fn fault_met_mark(&self, mm: &Mm<Self>, page: Faulted, pfn: Pfn) {
        mm.frames.clear_flags(pfn, flag::READAHEAD);
        let next = page.index + 2;
        if super::programs::bring_in(mm, page.mapping, next, 4).await {
            mark(mm, page.mapping, next);
        }
    }
    async fn page_mkwrite(&self, _: &Mm<Self>, mapping: u32, index: u32) -> bool {
        // In files with an odd number the filesystem has no room for the last page of each 64.
        mapping.is_multiple_of(2) || index % 64 != 63
    }
    async fn read_inode(&self, mm: &Mm<Self>, ino: u32) {
        self.raw(mm.mappings[ino as usize].bdi(), false, 2).await;
    }
    async fn write_inode(&self, mm: &Mm<Self>, ino: u32, sync: bool) {
        self.mix(u64::from(sync));
        let bdi = mm.mappings[ino as usize].bdi();
        self.submit(bdi, true, 2, Done::Inode { ino }).await;
    }
    async fn write_log(&self, _: &Mm<Self>, _: u32, n: u32) -> bool {
        self.raw(0, true, n.div_ceil(16)).await;
        let mut manners = self.manners.get();
        let failed = manners.log_failures > 0;
        manners.log_failures -= u32::from(failed);
        self.manners.set(manners);
        !failed
    }
    fn log_space(&self, _: &Mm<Self>, _: u32, n: u32) -> (u64, u64) {
        match self.manners.get().log_bytes {
            0 => (0, u64::MAX),
            bytes => (100 * u64::from(n), bytes),
        }
    }
    fn release_page(&self, mm: &Mm<Self>, pfn: Pfn) -> bool {
        let every = self.manners.get().keeps_every;
        every == 0 || !mm.frames.index(pfn).is_multiple_of(every)
    }
    fn release_asks(&self, _: &Mm<Self>) -> Option<u32> {
        (self.manners.get().keeps_every == 0).then_some(0)
    }
    fn bdi_congested(&self, bdi: u32, class: Class) -> bool {
        class == Class::Async && self.devices.borrow()[bdi as usize].congested
    }
    fn congested_bdis(&self, class: Class) -> u32 {
        let n = self.devices.borrow().iter().filter(|d| d.congested).count() as u32;
        if class == Class::Async { n } else { 0 }
    }
}

impl Watch for TestWorld {
    const TRACE: bool = true;

    fn alloc_latency(&self, path: AllocPath, ns: u64) {
        let mut all = self.latencies.borrow_mut();
        let of = all.entry(path).or_default();
        *of = (of.0 + 1, of.1 + ns);
    }
    fn event(&self, _: Audience, event: &Event) {
        self.mix(self.now.get());
        match *event {
            Event::PageAlloc { pfn, order, gfp } => {
                [pfn, order, gfp]
                    .into_iter()
                    .for_each(|w| self.mix(u64::from(w)));
            }
            Event::PageDirtied {
                pfn,
                mapping,
                index,
                ..
            } => {
                [pfn, mapping, index]
                    .into_iter()
                    .for_each(|w| self.mix(u64::from(w)));
            }
            _ => {
                let mut text = String::new();
                let _ = write!(text, "{event:?}");
                let name = text.split(' ').next().unwrap_or_default().to_string();
                let _ = Digested(self).write_str(&text);
                *self.events.borrow_mut().entry(name).or_default() += 1;
            }
        }
    }
    fn tracing(&self) -> bool {
        !self.untraced.get()
    }
    fn out_of_memory(&self, report: String) {
        self.oom.borrow_mut().get_or_insert(report);
    }
    fn oom_killed(&self, kill: OomKill) {
        self.kills.borrow_mut().push(kill);
    }
}

/// Runs jobs until the first `programs` of them have ended, memory is exhausted or the clock
/// reaches `until`. A job's task number is its index. `look` is called every tenth of a second of
/// virtual time and at the end. Returns how many of the programs have ended.
pub fn run<'a>(
    mm: &'a Engine,
    mut jobs: Vec<Job<'a>>,
    programs: usize,
    until: u64,
    mut look: impl FnMut(&Engine),
) -> usize {
    let w = &mm.world;
    let mut over = vec![false; jobs.len()];
    w.ready.borrow_mut().extend(0..jobs.len() as u32);
    let (mut next_look, mut turns) = (0, 0);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        w.serve(mm);
        let ended = over[..programs].iter().filter(|&&o| o).count();
        if ended == programs || w.oom.borrow().is_some() || w.now.get() >= until {
            look(mm);
            return ended;
        }
        if w.now.get() >= next_look {
            look(mm);
            next_look = w.now.get() + 100_000_000;
        }
        let task = w.ready.borrow_mut().pop_front();
        let Some(task) = task else {
            let next = w.due.borrow().peek().map(|Reverse((t, _, _))| *t);
            w.now
                .set(next.expect("every task waits and nothing is due"));
            continue;
        };
        w.task.set(task);
        turns += 1;
        assert!(
            turns < MOST_TURNS,
            "task {task} and others take turns for ever"
        );
        if jobs[task as usize].as_mut().poll(&mut context).is_ready() {
            over[task as usize] = true;
        }
    }
}

/// Runs one job as task 0 to its end, alone, and returns its result.
pub fn block_on<T>(mm: &Engine, job: impl Future<Output = T>) -> T {
    let out = Cell::new(None);
    let job: Job<'_> = Box::pin(async {
        out.set(Some(job.await));
    });
    run(mm, vec![job], 1, u64::MAX, |_| ());
    out.into_inner().expect("the job has ended")
}

/// Sets the mark that readahead leaves on a page for the fault that meets the page.
fn mark(mm: &Engine, file: u32, index: u32) {
    if let Some(pfn) = mm.find_page(file, index) {
        mm.frames.set_flags(pfn, flag::READAHEAD);
    }
}
