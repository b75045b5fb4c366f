//! The queue against a model that keeps requests in a plain list and decides everything by looking
//! at all of them, under random submissions, completions, plugs and faults.

use super::{Bio, Class, Dir, Done, IoContext, IoError, Queue, Slot, Submit, Wake};
use crate::disks::DiskModel;
use crate::params::Params;
use crate::rng::Rng;
use crate::spec::{DiskKind, DiskSpec, Fault, Scheduler, Size};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;
const TASKS: usize = 3;

/// By class: how many tasks may be woken for a request, and whether the count is below off.
type Woken = ([u32; 2], [bool; 2]);

#[derive(Debug, Clone)]
struct NaiveRequest {
    block: u64,
    end: u64,
    dir: Dir,
    class: Class,
    tags: Vec<u64>,
    /// Position among requests that start at the same block.
    order: u64,
    /// Position by age; lower is older.
    age: u64,
    expires: u64,
    /// How many requests were started before it since it expired, and how many were older at that
    /// time.
    passed: Option<(usize, usize)>,
}

#[derive(Debug, Default, Clone, Copy)]
struct NaiveTask {
    left: u32,
    until: u64,
}

impl NaiveTask {
    fn batches(&self, now: u64) -> bool {
        self.left == 32 || (self.left > 0 && now < self.until)
    }
}

/// The model: all requests in plain lists.
#[derive(Debug)]
struct Naive {
    queued: Vec<NaiveRequest>,
    in_service: Vec<NaiveRequest>,
    nr: usize,
    max_blocks: u64,
    depth: usize,
    congested: [bool; 2],
    full: [bool; 2],
    tasks: [NaiveTask; TASKS],
    stamp: u64,
    /// The requests in the open plug; `None` if no plug is open.
    plug: Option<Vec<NaiveRequest>>,
    batch: Option<(Class, u32)>,
    position: [u64; 2],
    sync_batches: u32,
    joins: u64,
    merges: u64,
    /// Without a scheduler: tags instead of requests by class, and service in the order of arrival.
    tags: bool,
}

impl Naive {
    fn count(&self, class: Class) -> usize {
        self.queued
            .iter()
            .chain(&self.in_service)
            .chain(self.plug.iter().flatten())
            .filter(|r| r.class == class)
            .count()
    }

    fn stamp(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp
    }

    /// Updates flags and wake-ups after a request of a class is gone.
    fn freed(&mut self, class: Class, wake: &mut Woken) {
        if self.tags {
            wake.0[0] += 1;
            return;
        }
        let (c, count) = (class.index(), self.count(class));
        if count < self.nr - self.nr / 8 - self.nr / 16 - 1 {
            self.congested[c] = false;
            wake.1[c] = true;
        }
        if count < self.nr {
            self.full[c] = false;
            wake.0[c] += 1;
        }
    }

    /// Joins queued request `b` into `a` if they touch. Returns the class of the freed request.
    fn join(&mut self, a: usize, b: usize) -> Option<Class> {
        let (ra, rb) = (self.queued[a].clone(), self.queued[b].clone());
        if ra.end != rb.block || ra.dir != rb.dir || rb.end - ra.block > self.max_blocks {
            return None;
        }
        let kept = &mut self.queued[a];
        kept.end = rb.end;
        kept.tags.extend(rb.tags);
        if rb.age < ra.age {
            (kept.age, kept.expires) = (rb.age, rb.expires);
        }
        kept.passed = None;
        self.queued.remove(b);
        self.joins += 1;
        Some(ra.class)
    }

    /// Returns the indices of the queued requests of a class in block order.
    fn in_order(&self, class: Class) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.queued.len())
            .filter(|&i| self.queued[i].class == class)
            .collect();
        all.sort_by_key(|&i| (self.queued[i].block, self.queued[i].order));
        all
    }

    /// Submits a bio and returns its outcome as a word. Adds to `wake` the tasks that a join of two
    /// requests wakes.
    fn submit(
        &mut self,
        now: u64,
        task: usize,
        plugged: bool,
        bio: &Bio,
        wake: &mut Woken,
    ) -> &'static str {
        let class = bio.class();
        if plugged && self.extend_plugged(bio) {
            return "merged";
        }
        let fits = |r: &NaiveRequest| {
            r.dir == bio.dir && r.end - r.block + u64::from(bio.blocks) <= self.max_blocks
        };
        let sorted = self.in_order(class);
        let before = sorted
            .iter()
            .rev()
            .copied()
            .find(|&i| self.queued[i].block < bio.block);
        if let Some(i) =
            before.filter(|&i| self.queued[i].end == bio.block && fits(&self.queued[i]))
        {
            self.merges += 1;
            self.queued[i].end = bio.end();
            self.queued[i].tags.push(bio.tag);
            let at = sorted.iter().position(|&s| s == i).unwrap();
            if let Some(class) = sorted.get(at + 1).and_then(|&next| self.join(i, next)) {
                self.freed(class, wake);
            }
            return "merged";
        }
        let after = sorted
            .iter()
            .copied()
            .find(|&i| self.queued[i].block >= bio.end());
        if let Some(i) =
            after.filter(|&i| self.queued[i].block == bio.end() && fits(&self.queued[i]))
        {
            self.merges += 1;
            self.queued[i].order = self.stamp();
            self.queued[i].block = bio.block;
            self.queued[i].tags.insert(0, bio.tag);
            let sorted = self.in_order(class);
            let at = sorted.iter().position(|&s| s == i).unwrap();
            if at > 0
                && let Some(class) = self.join(sorted[at - 1], i)
            {
                self.freed(class, wake);
            }
            return "merged";
        }
        let c = class.index();
        let next = self.count(class) + 1;
        if self.tags {
            let held = self.plug.as_ref().map_or(0, Vec::len);
            if self.queued.len() + self.in_service.len() + held == self.nr {
                return "blocked";
            }
        } else if next >= self.nr {
            if !self.full[c] {
                self.full[c] = true;
                self.tasks[task] = NaiveTask {
                    left: 32,
                    until: now + 20_000_000,
                };
            } else if !self.tasks[task].batches(now) {
                return "blocked";
            }
        }
        if !self.tags && next > self.nr - self.nr / 8 {
            self.congested[c] = true;
        }
        if next > self.nr + self.nr / 2 {
            return "blocked";
        }
        if !self.tags && next >= self.nr && self.tasks[task].batches(now) {
            self.tasks[task].left -= 1;
        }
        let request = NaiveRequest {
            block: bio.block,
            end: bio.end(),
            dir: bio.dir,
            class,
            tags: vec![bio.tag],
            order: 0,
            age: 0,
            expires: 0,
            passed: None,
        };
        if plugged {
            self.plug.as_mut().expect("a plug").push(request);
            return "plugged";
        }
        self.insert(now, request);
        "queued"
    }

    /// Extends the youngest request of the plug by the bio if it fits; returns true if it did.
    fn extend_plugged(&mut self, bio: &Bio) -> bool {
        let last = self.plug.as_mut().expect("a plug").last_mut();
        let Some(last) = last.filter(|last| last.class == bio.class() && last.dir == bio.dir)
        else {
            return false;
        };
        if last.end - last.block + u64::from(bio.blocks) > self.max_blocks {
            return false;
        }
        if last.end == bio.block {
            last.end = bio.end();
            last.tags.push(bio.tag);
        } else if last.block == bio.end() {
            last.block = bio.block;
            last.tags.insert(0, bio.tag);
        } else {
            return false;
        }
        self.merges += 1;
        true
    }

    /// Hands a request to the scheduler.
    fn insert(&mut self, now: u64, request: NaiveRequest) {
        let stamp = self.stamp();
        let expire = if request.class == Class::Sync {
            SECOND / 2
        } else {
            5 * SECOND
        };
        self.queued.push(NaiveRequest {
            order: stamp,
            age: stamp,
            expires: now + expire,
            ..request
        });
    }

    /// Moves the first request of the plug to the scheduler.
    fn unplug(&mut self, now: u64, wake: &mut Woken) {
        let request = self.plug.as_mut().expect("a plug").remove(0);
        let class = request.class;
        self.insert(now, request);
        if self.tags {
            return;
        }
        let (sorted, mine) = (self.in_order(class), self.queued.len() - 1);
        let at = sorted.iter().position(|&s| s == mine).unwrap();
        if at > 0
            && let Some(class) = self.join(sorted[at - 1], mine)
        {
            self.freed(class, wake);
        }
    }

    /// Returns the index of the request that is served next.
    fn choose(&mut self, now: u64) -> Option<usize> {
        if self.tags {
            return (0..self.queued.len()).min_by_key(|&i| self.queued[i].age);
        }
        let ahead = |this: &Self, class: Class| {
            this.in_order(class)
                .into_iter()
                .find(|&i| this.queued[i].block >= this.position[class.index()])
        };
        if let Some((class, n)) = self.batch
            && n < 16
            && let Some(i) = ahead(self, class)
        {
            self.batch = Some((class, n + 1));
            return Some(i);
        }
        let (sync, background) = (
            self.in_order(Class::Sync).len(),
            self.in_order(Class::Async).len(),
        );
        let class = match (sync, background) {
            (0, 0) => return None,
            (0, _) => Class::Async,
            (_, 0) => Class::Sync,
            _ if self.sync_batches == 2 => Class::Async,
            _ => {
                self.sync_batches += 1;
                Class::Sync
            }
        };
        if class == Class::Async {
            self.sync_batches = 0;
        }
        self.batch = Some((class, 1));
        let sorted = self.in_order(class);
        let oldest = *sorted.iter().min_by_key(|&&i| self.queued[i].age).unwrap();
        if self.queued[oldest].expires <= now {
            return Some(oldest);
        }
        ahead(self, class).or(Some(sorted[0]))
    }

    fn dispatch(&mut self, now: u64) {
        while self.in_service.len() < self.depth {
            let Some(i) = self.choose(now) else { break };
            let request = self.queued.remove(i);
            self.position[request.class.index()] = request.end;
            self.in_service.push(request);
            self.note_passed(now);
        }
    }

    /// Checks that no request starves once it has expired: before each batch of its class only
    /// older requests can precede it, and at most two batches of the other class come between.
    fn note_passed(&mut self, now: u64) {
        if self.tags {
            return;
        }
        for i in 0..self.queued.len() {
            let r = &self.queued[i];
            if r.expires > now {
                continue;
            }
            let older = self
                .queued
                .iter()
                .filter(|o| o.class == r.class && o.age < r.age)
                .count();
            let (n, older) = r.passed.unwrap_or((0, older));
            assert!(n < (older + 2) * 16 * 3, "{r:?} starves");
            self.queued[i].passed = Some((n + 1, older));
        }
    }

    /// Takes the requests that these bios make up out of service. Returns how many tasks may be
    /// woken, and which classes fell below the off threshold.
    fn complete(&mut self, out: &[Done]) -> Woken {
        let mut wake = Woken::default();
        let mut rest = out;
        while let Some(first) = rest.first() {
            let at = self
                .in_service
                .iter()
                .position(|r| r.tags[0] == first.tag)
                .expect("a completed request was in service");
            let request = self.in_service.remove(at);
            let (bios, others) = rest.split_at(request.tags.len());
            assert!(bios.iter().map(|d| d.tag).eq(request.tags.iter().copied()));
            assert!(
                bios.iter()
                    .all(|d| d.error == first.error && d.dir == request.dir)
            );
            rest = others;
            self.freed(request.class, &mut wake);
        }
        wake
    }
}

#[derive(Debug, Clone)]
enum Op {
    Submit {
        task: usize,
        dir: Dir,
        sync: bool,
        block: u64,
        blocks: u32,
    },
    Finish,
    Pass {
        ms: u64,
    },
    Woken {
        task: usize,
    },
    Plug {
        task: usize,
    },
    Unplug,
}

fn op(span: u64, longest: u32) -> impl Strategy<Value = Op> {
    let dir = prop_oneof![1 => Just(Dir::Read), 3 => Just(Dir::Write)];
    prop_oneof![
        60 => (0..TASKS, dir, prop::bool::weighted(0.1), 0..span, 1..=longest).prop_map(
            |(task, dir, sync, block, blocks)| Op::Submit { task, dir, sync, block, blocks }
        ),
        15 => Just(Op::Finish),
        4 => (0..400u64).prop_map(|ms| Op::Pass { ms }),
        1 => (1000..6000u64).prop_map(|ms| Op::Pass { ms }),
        3 => (0..TASKS).prop_map(|task| Op::Woken { task }),
        2 => (0..TASKS).prop_map(|task| Op::Plug { task }),
        1 => Just(Op::Unplug),
    ]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    prop_oneof![Just((300u64, 8u32)), Just((3000, 3)), Just((100_000, 1))]
        .prop_flat_map(|(span, longest)| prop::collection::vec(op(span, longest), 1..900))
}

fn faults() -> impl Strategy<Value = Vec<Fault>> {
    let fault = prop_oneof![
        (0.0..20.0, 0.0..5.0).prop_map(|(at_s, for_s)| Fault::WriteError { at_s, for_s }),
        (0.0..20.0, 0.0..5.0).prop_map(|(at_s, for_s)| Fault::Stall { at_s, for_s }),
        (0.0..40.0).prop_map(|at_s| Fault::Stop { at_s }),
    ];
    prop::collection::vec(fault, 0..3)
}

fn kind() -> impl Strategy<Value = DiskKind> {
    // Kinds with one request at a time exercise the elevator most.
    prop_oneof![
        1 => Just(DiskKind::Disk),
        1 => Just(DiskKind::UsbFlash),
        1 => prop::sample::select(DiskKind::ALL),
    ]
}

struct Check {
    queue: Queue,
    naive: Naive,
    tasks: [IoContext; TASKS],
    rng: Rng,
    faults: Vec<Fault>,
    now: u64,
    accepted: Vec<u64>,
    ended: Vec<u64>,
    out: Vec<Done>,
    /// The task whose plug is open, and the requests in it.
    plug: Option<(usize, Vec<Slot>)>,
}

impl Check {
    fn new(kind: DiskKind, scheduler: Scheduler, faults: Vec<Fault>) -> Self {
        let spec = DiskSpec {
            scheduler: Some(scheduler),
            kind,
            capacity: Size(1 << 30),
            members: kind.about().array.as_ref().map(|_| 2),
            params: Default::default(),
            faults: faults.clone(),
        };
        let params = Params::default();
        let mut rng = Rng::new(11, "test");
        let queue = Queue::new(&spec, &params, &mut rng);
        let disk = DiskModel::new(&spec, &params, &mut Rng::new(11, "test"));
        let (nr, depth) = (128 * disk.members() as usize, disk.depth() as usize);
        let naive = Naive {
            queued: vec![],
            in_service: vec![],
            nr,
            max_blocks: u64::from(queue.max_request_blocks()),
            depth,
            congested: [false; 2],
            full: [false; 2],
            tasks: Default::default(),
            stamp: 0,
            plug: None,
            batch: None,
            position: [0; 2],
            sync_batches: 0,
            joins: 0,
            merges: 0,
            tags: scheduler == Scheduler::None,
        };
        Self {
            queue,
            naive,
            tasks: Default::default(),
            rng,
            faults,
            now: 0,
            accepted: vec![],
            ended: vec![],
            out: vec![],
            plug: None,
        }
    }

    fn dispatch(&mut self) {
        self.queue.dispatch(self.now, &mut self.rng);
        self.naive.dispatch(self.now);
    }

    /// Ends one request, at the time that the queue gives.
    fn finish(&mut self) {
        if let Some(due) = self.queue.next_completion() {
            assert!(due >= self.now);
            self.now = due;
            self.complete();
        }
    }

    fn complete(&mut self) {
        self.out.clear();
        let due = self.queue.next_completion().filter(|&t| t <= self.now);
        let wake = self.queue.complete(self.now, &mut self.out);
        assert_eq!(due.is_some(), !self.out.is_empty());
        assert_eq!(
            self.naive.complete(&self.out),
            (wake.requests, wake.uncongested)
        );
        self.ended.extend(self.out.iter().map(|d| d.tag));
        if due == Some(self.now) {
            self.check_faults();
        }
        self.dispatch();
    }

    /// Checks that the bios ended just now fit the injected faults: `DeviceGone` after a stop, for
    /// all of them, and never before; none in a stall, unless the disk has stopped; an error for
    /// every write while writes fail. Errors at other times are not looked for.
    fn check_faults(&self) {
        let now = self.now as f64 / 1e9;
        let inside = |at: f64, length: f64| now > at + 1e-6 && now < at + length - 1e-6;
        let stops = self.faults.iter().filter_map(|f| match *f {
            Fault::Stop { at_s } => Some(at_s),
            _ => None,
        });
        let stop = stops.min_by(f64::total_cmp);
        for d in &self.out {
            match d.error {
                Some(IoError::DeviceGone) => assert!(now > stop.unwrap()),
                _ if stop.is_some_and(|at| now > at + 1e-6) => panic!("{d:?} from a stopped disk"),
                _ => {}
            }
            for fault in &self.faults {
                match *fault {
                    Fault::Stall { at_s, for_s } if inside(at_s, for_s) => {
                        assert_eq!(d.error, Some(IoError::DeviceGone), "{now}");
                    }
                    Fault::WriteError { at_s, for_s } if inside(at_s, for_s) => {
                        assert!(d.dir == Dir::Read || d.error.is_some());
                    }
                    _ => {}
                }
            }
        }
    }

    fn submit(&mut self, task: usize, bio: Bio) {
        let may_merge = self.queue.may_merge(&bio);
        let mut plug = self.plug.as_mut().filter(|plug| plug.0 == task);
        let context = &mut self.tasks[task];
        let submitted = match &plug {
            Some((_, held)) => {
                let last = held.last().copied();
                self.queue.submit_plugged(self.now, context, last, bio)
            }
            None => self.queue.submit(self.now, context, bio),
        };
        let (answer, wake) = match submitted {
            Submit::Merged(wake) => ("merged", wake),
            Submit::Plugged(slot) => {
                plug.as_mut().expect("a plug").1.push(slot);
                ("plugged", Wake::default())
            }
            Submit::Queued => ("queued", Wake::default()),
            Submit::WouldBlock => ("blocked", Wake::default()),
            Submit::Throttled(_) => unreachable!("this queue has no throttle"),
        };
        let plugged = plug.is_some();
        assert!(plugged || may_merge == (answer == "merged"));
        let mut woken = Woken::default();
        let expected = self.naive.submit(self.now, task, plugged, &bio, &mut woken);
        assert_eq!(answer, expected);
        assert_eq!(woken, (wake.requests, wake.uncongested));
        if answer != "blocked" {
            self.accepted.push(bio.tag);
        }
        self.dispatch();
    }

    fn step(&mut self, tag: u64, op: &Op) {
        match *op {
            Op::Submit {
                task,
                dir,
                sync,
                block,
                blocks,
            } => {
                self.submit(
                    task,
                    Bio {
                        tag,
                        dir,
                        sync,
                        block,
                        blocks,
                        purpose: Default::default(),
                    },
                );
            }
            Op::Finish => self.finish(),
            Op::Pass { ms } => {
                self.now += ms * 1_000_000;
                self.complete();
            }
            Op::Woken { task } => {
                self.tasks[task].woken(self.now, self.queue.limits());
                self.naive.tasks[task] = NaiveTask {
                    left: 32,
                    until: self.now + 20_000_000,
                };
            }
            Op::Plug { task } if self.plug.is_none() => {
                self.plug = Some((task, Vec::new()));
                self.naive.plug = Some(Vec::new());
            }
            Op::Plug { .. } => {}
            Op::Unplug => self.unplug(),
        }
        self.compare();
    }

    /// Moves the requests of the open plug to the scheduler, and then starts what the device takes.
    fn unplug(&mut self) {
        let Some((task, held)) = self.plug.take() else {
            return;
        };
        for slot in held {
            let wake = self.queue.unplug(self.now, &self.tasks[task], slot);
            let mut woken = Woken::default();
            self.naive.unplug(self.now, &mut woken);
            assert_eq!(woken, (wake.requests, wake.uncongested));
        }
        assert_eq!(self.naive.plug.take().map(|held| held.len()), Some(0));
        self.dispatch();
    }

    fn compare(&self) {
        for class in Class::ALL {
            let c = class.index();
            assert_eq!(
                self.queue.in_flight(class) as usize,
                self.naive.count(class)
            );
            assert_eq!(self.queue.congested(class), self.naive.congested[c]);
            assert_eq!(self.queue.full(class), self.naive.full[c]);
        }
        assert_eq!(
            self.queue.in_service() as usize,
            self.naive.in_service.len()
        );
        let stats = self.queue.stats();
        assert_eq!(stats.merges.iter().sum::<u64>(), self.naive.merges);
        assert_eq!(stats.joins.iter().sum::<u64>(), self.naive.joins);
    }

    fn drain(&mut self) {
        self.step(0, &Op::Unplug);
        while !self.queue.is_idle() {
            self.finish();
            self.compare();
        }
        self.ended.sort_unstable();
        assert_eq!(self.ended, self.accepted, "every bio ends exactly once");
        let stats = self.queue.stats();
        assert_eq!(stats.bios.iter().sum::<u64>(), self.accepted.len() as u64);
        let [requests, merges, joins] =
            [stats.requests, stats.merges, stats.joins].map(|n| n.iter().sum::<u64>());
        assert_eq!(requests + merges + joins, self.accepted.len() as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_queue_does_what_the_model_does(
        kind in kind(),
        scheduler in prop_oneof![3 => Just(Scheduler::Deadline), 1 => Just(Scheduler::None)],
        faults in faults(),
        ops in ops(),
    ) {
        let mut check = Check::new(kind, scheduler, faults);
        for (tag, op) in ops.iter().enumerate() {
            check.step(tag as u64, op);
        }
        check.drain();
    }
}
