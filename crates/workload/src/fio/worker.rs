//! The requests of a job, and the tasks that issue them.

use super::job::{Distribution, Job};
use crate::host::{Fd, Host, HostResult, OpenFlags, Task};
use crate::measure::{CALLS, Kind};
use crate::program::Program;
use crate::report::{Metric, Report};
use crate::session::{Session, lock};
use std::sync::{Arc, Mutex};
use trace::random::{Pareto, Permutation, Rng, Zipf};

enum Ranks {
    Zipf(Zipf),
    Pareto(Pareto),
    Any,
    /// Every block once per pass, in random order.
    Once,
    Sequential,
}

/// The progress of one process of a job.
pub(super) struct Progress {
    rng: Rng,
    ranks: Ranks,
    scatter: Permutation,
    blocks: u64,
    /// Blocks issued in this pass.
    passed: u64,
    passes: u64,
    seed: u64,
    /// The next offset of a sequential job.
    pos: u64,
    /// Bytes issued: read and written.
    issued: [u64; 2],
    writes: u64,
    started: Option<u64>,
    /// The number of workers that have ended.
    ended: u64,
}

/// A worker's next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    write: bool,
    pub offset: u64,
    pub len: u64,
    /// The earliest time of issue, in nanoseconds.
    not_before: u64,
    /// The sync that follows: `None`: none; true: fdatasync; false: fsync.
    sync: Option<bool>,
}

impl Progress {
    /// Starts the requests of the job's process number `nth`. Its random numbers are seeded from
    /// the job's name and that number, so that they are the same in every run.
    pub(super) fn new(job: &Job, nth: u32) -> Self {
        let blocks = job.blocks();
        // FNV-1a of the name.
        let name = job.name.bytes().fold(0xcbf2_9ce4_8422_2325, |h: u64, b| {
            (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
        });
        let seed = name ^ u64::from(nth);
        // How the next block is drawn; `scatter` then spreads the drawn ranks over the file.
        let ranks = match job.distribution {
            _ if !job.random => Ranks::Sequential,
            Distribution::Zipf(theta) => Ranks::Zipf(Zipf::new(blocks as u32, theta)),
            Distribution::Pareto(h) => Ranks::Pareto(Pareto::new(blocks, h)),
            Distribution::Random if job.repeat => Ranks::Any,
            Distribution::Random => Ranks::Once,
        };
        Self {
            rng: Rng::new(seed),
            ranks,
            scatter: Permutation::new(blocks, seed),
            blocks,
            passed: 0,
            passes: 0,
            seed,
            pos: 0,
            issued: [0; 2],
            writes: 0,
            started: None,
            ended: 0,
        }
    }

    /// Returns the process's next request at time `now` (ns); `None`: the job has moved all its
    /// bytes or its time is over. The request says when it may be issued at the earliest, because
    /// of a rate limit, and which sync follows it.
    pub(super) fn next(&mut self, job: &Job, now: u64) -> Option<Request> {
        let started = *self.started.get_or_insert(now);
        let limit = job.runtime_ns.saturating_add(job.ramp_ns);
        if job.runtime_ns > 0 && now - started >= limit {
            return None;
        }
        let left = job.total.saturating_sub(self.issued[0] + self.issued[1]);
        if !job.time_based && left == 0 {
            return None;
        }
        let write = match job.reads {
            100 => false,
            0 => true,
            reads => self.rng.below(100) >= reads,
        };
        let direction = usize::from(write);
        let len = job.bs[direction];
        let offset = self.offset(job, len);
        let len = len.min(job.region - offset);
        let rate = job.rate[direction];
        let mut not_before = 0;
        if rate > 0 {
            let due = u128::from(self.issued[direction]) * 1_000_000_000 / u128::from(rate);
            not_before = started.saturating_add(due as u64);
        }
        self.issued[direction] += len;
        self.writes += u64::from(write);
        let every = |n: u64| write && n > 0 && self.writes.is_multiple_of(n);
        let sync = if every(job.fsync) {
            Some(false)
        } else if every(job.fdatasync) {
            Some(true)
        } else {
            None
        };
        Some(Request {
            write,
            offset,
            len,
            not_before,
            sync,
        })
    }

    /// Returns the offset in bytes of the next request of `len` bytes: sequential, drawn from the
    /// distribution, or the next of a random order that hits every block once in a pass.
    fn offset(&mut self, job: &Job, len: u64) -> u64 {
        let block = match &self.ranks {
            Ranks::Sequential => {
                let at = if self.pos >= job.region { 0 } else { self.pos };
                self.pos = at + len;
                return at;
            }
            Ranks::Zipf(zipf) => self.scatter.apply(u64::from(zipf.draw(&mut self.rng))),
            Ranks::Pareto(pareto) => self.scatter.apply(pareto.draw(&mut self.rng)),
            Ranks::Any => self.rng.below(self.blocks),
            // `passed` blocks were issued in this pass; each pass has a permutation of its own.
            Ranks::Once => {
                if self.passed == self.blocks {
                    self.passed = 0;
                    self.passes += 1;
                    self.scatter = Permutation::new(self.blocks, self.seed ^ self.passes << 32);
                }
                self.passed += 1;
                self.scatter.apply(self.passed - 1)
            }
        };
        // A request that would pass the end of the file is moved to fit.
        (block * job.step()).min(job.region - len)
    }
}

/// One of the tasks that issue a process's requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Worker {
    job: Arc<Job>,
    /// The number of the process in its job.
    nth: u32,
    /// The number of the process in the script.
    process: usize,
}

impl Task for Worker {
    const NAME: &'static str = "fio";

    /// Opens the process's file, issues requests together with the process's other workers until
    /// the job ends, and closes the file. The last worker to end calls fsync if the job has
    /// `end_fsync`. Latencies are noted in the session, so the report is empty.
    async fn run<H: Host>(&self, host: &H, session: &Session) -> HostResult<Report> {
        let job = &*self.job;
        if job.delay_ns > 0 {
            host.sleep(job.delay_ns).await;
        }
        let flags = OpenFlags {
            read: job.reads > 0,
            write: job.reads < 100,
            create: true,
            direct: job.direct,
            ..OpenFlags::default()
        };
        let fd = host.open(&job.path(self.nth), flags).await?;
        let result = self.requests(host, session, fd).await;
        let all_ended = {
            let mut p = lock(self.progress(session));
            p.ended += 1;
            p.ended == job.depth
        };
        if result.is_ok() && all_ended && job.end_fsync && job.reads < 100 {
            host.sync(fd, false).await?;
        }
        host.close(fd).await?;
        result.map(|()| Report::default())
    }
}

impl Program for Worker {
    const METRICS: &'static [Metric] = CALLS;

    /// Adds the progress that all workers of a process share to the session.
    fn prepare(&self, session: &mut Session) {
        let progress = || Mutex::new(Progress::new(&self.job, self.nth));
        session.share(self.process, progress);
        session.expect_calls();
    }
}

impl Worker {
    /// Makes one of the tasks of a job's `nth` process, which has number `process` in the script.
    pub(crate) fn new(job: &Arc<Job>, nth: u32, process: usize) -> Self {
        let job = Arc::clone(job);
        Self { job, nth, process }
    }

    /// Returns the job whose requests the task issues.
    pub(crate) fn job(&self) -> &Job {
        &self.job
    }

    /// Returns the progress that the workers of this process share.
    fn progress<'a>(&self, session: &'a Session) -> &'a Mutex<Progress> {
        session.shared(self.process)
    }

    /// Issues requests on the open file until the process's job ends: gives the job's advice, waits
    /// for the rate limit, reads or writes, syncs, and pauses (`thinktime`). Latencies are noted
    /// after the ramp time.
    async fn requests<H: Host>(&self, host: &H, session: &Session, fd: Fd) -> HostResult<()> {
        let (job, progress) = (&*self.job, self.progress(session));
        if let Some(advice) = job.advice() {
            host.fadvise(fd, advice).await?;
        }
        let mut buffer = host.buffer(job.bs[0].max(job.bs[1]));
        // False in the ramp time, whose calls are not measured.
        let measured = |began: u64| {
            let started = lock(progress).started.unwrap_or(0);
            began - started >= job.ramp_ns
        };
        loop {
            let request = lock(progress).next(job, host.now());
            let Some(r) = request else {
                return Ok(());
            };
            let early = r.not_before.saturating_sub(host.now());
            if early > 0 {
                host.sleep(early).await;
            }
            let began = host.now();
            let (kind, done) = if r.write {
                (
                    Kind::Write,
                    host.write_at(fd, &buffer, r.offset, r.len).await?,
                )
            } else {
                (
                    Kind::Read,
                    host.read_at(fd, &mut buffer, r.offset, r.len).await?,
                )
            };
            if measured(began) {
                session.note(kind, (began, host.now()), done, r.len);
            }
            if let Some(data_only) = r.sync {
                let began = host.now();
                host.sync(fd, data_only).await?;
                if measured(began) {
                    session.note(Kind::Sync, (began, host.now()), 0, 0);
                }
            }
            if job.think_ns > 0 {
                host.sleep(job.think_ns).await;
            }
        }
    }
}
