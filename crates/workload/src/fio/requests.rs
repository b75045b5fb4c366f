//! The progress of one process of a job, which all of its workers share: its next request.

use super::job::Job;
use super::order::{Access, Order, Tables};
use super::pace::{Board, Pace, Search, Seconds};

/// A worker's next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    pub access: Access,
    /// The earliest time of issue, in nanoseconds.
    pub not_before: u64,
    /// The sync that follows: `None`: none; true: fdatasync; false: fsync.
    pub sync: Option<bool>,
    /// The file is synced, and its cached pages are dropped, before the request.
    pub settle: bool,
    /// A pause follows.
    pub think: bool,
}

/// A worker's next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Issues a request.
    Issue(Request),
    /// Waits for so many nanoseconds and asks again.
    Wait(u64),
    /// Ends.
    End,
}

/// The progress of one process of a job.
pub(super) struct Progress {
    order: Order,
    pace: Pace,
    /// The order as it was when the writes that are not verified yet began; `None`: nothing is
    /// verified.
    follower: Option<Order>,
    /// Writes that are not verified.
    unverified: u64,
    /// Verifications to make before the next request.
    verifying: u64,
    settle: bool,
    /// Bytes of this pass.
    moved: u64,
    passes: u64,
    requests: u64,
    writes: u64,
    seconds: Seconds,
    search: Search,
    /// The time of the last pause.
    thought: u64,
    pub started: Option<u64>,
    /// The number of workers that have ended.
    pub ended: u64,
    /// Set when nothing more is to be done, although neither bytes nor time say so.
    pub over: bool,
    nth: u32,
}

impl Progress {
    /// Starts the requests of the job's process number `nth`.
    pub fn new(job: &Job, nth: u32, tables: &Tables) -> Self {
        let order = Order::new(job, nth, tables);
        Self {
            follower: job.verify.filter(|v| !v.only).map(|_| order.clone()),
            order,
            pace: Pace::new(u64::from(nth) ^ job.number as u64),
            unverified: 0,
            verifying: 0,
            settle: false,
            moved: 0,
            passes: 0,
            requests: 0,
            writes: 0,
            seconds: Seconds::default(),
            search: Search::new(job.depth),
            thought: 0,
            started: None,
            ended: 0,
            over: false,
            nth,
        }
    }

    /// Returns the next step of the process's worker number `slot` at time `now` (ns). The job ends
    /// when it has moved all its bytes, its time is over, or a job that it is tied to has ended. A
    /// request says when it may be issued at the earliest, because of a rate limit, and which sync
    /// follows it.
    pub fn next(&mut self, job: &Job, slot: u64, now: u64, board: &mut Board) -> Next {
        let started = *self.started.get_or_insert(now);
        let limit = job.runtime_ns.saturating_add(job.ramp_ns);
        let late = job.runtime_ns > 0 && now.saturating_sub(started) >= limit;
        if late || self.over || board.stops(job) {
            return Next::End;
        }
        if job.target.is_some() && slot >= self.search.depth {
            return Next::Wait(1_000_000);
        }
        if self.verifying == 0 {
            let enough = job.requests > 0 && self.requests >= job.requests;
            if enough || self.moved >= job.total {
                // The writes of the pass are read again first.
                if self.unverified > 0 {
                    (self.verifying, self.unverified) = (self.unverified, 0);
                    self.settle = true;
                } else if enough || !self.begins_pass(job) {
                    return Next::End;
                }
            }
        }
        if self.verifying > 0 {
            return self.verify(job);
        }
        if !board.may_go(job, self.nth) {
            return Next::Wait(job.flow_sleep_ns.max(10_000));
        }
        self.issue(job, now, started)
    }

    /// Begins another pass over the bytes; returns false if there is none.
    fn begins_pass(&mut self, job: &Job) -> bool {
        self.passes += 1;
        if !job.time_based && self.passes >= job.loops {
            return false;
        }
        self.moved = 0;
        self.order.restart();
        if let Some(follower) = &mut self.follower {
            *follower = self.order.clone();
        }
        true
    }

    /// Returns the read that verifies the next write of the follower's order.
    fn verify(&mut self, job: &Job) -> Next {
        self.verifying -= 1;
        let settle = std::mem::take(&mut self.settle);
        let Some(follower) = &mut self.follower else {
            return Next::End;
        };
        let mut access = follower.next(job);
        while !access.write {
            access = follower.next(job);
        }
        access.write = false;
        Next::Issue(Request {
            access,
            not_before: 0,
            sync: None,
            settle,
            think: false,
        })
    }

    /// Returns the next request of the job's own order.
    fn issue(&mut self, job: &Job, now: u64, started: u64) -> Next {
        let mut access = self.order.next(job);
        let direction = usize::from(access.write);
        self.moved += access.len;
        self.requests += 1;
        let due = self.pace.due(job, direction, access.len);
        let not_before = if due > 0 {
            started.saturating_add(due)
        } else {
            0
        };
        let mut write = access.write;
        if let Some(verify) = job.verify.filter(|_| write) {
            if verify.only {
                (access.write, write) = (false, false);
            } else {
                self.unverified += 1;
                if verify.backlog > 0 && self.unverified >= verify.backlog {
                    self.verifying = verify.batch.min(self.unverified);
                    self.unverified -= self.verifying;
                }
            }
        }
        self.writes += u64::from(write);
        let every = |n: u64| write && n > 0 && self.writes.is_multiple_of(n);
        let sync = if every(job.fsync) {
            Some(false)
        } else if every(job.fdatasync) {
            Some(true)
        } else {
            None
        };
        Next::Issue(Request {
            access,
            not_before,
            sync,
            settle: false,
            think: self.thinks(job, now, started),
        })
    }

    /// Returns true if a pause follows the request that is issued at `now`.
    fn thinks(&mut self, job: &Job, now: u64, started: u64) -> bool {
        let think = &job.think;
        if think.ns == 0 && think.spin_ns == 0 {
            return false;
        }
        let pause = match think.iotime_ns {
            0 => self.requests.is_multiple_of(think.blocks),
            ns => now.saturating_sub(self.thought.max(started)) >= ns,
        };
        if pause {
            self.thought = now + think.ns;
            if job.rate_without_think {
                self.pace.shift += think.ns;
            }
        }
        pause
    }

    /// Notes that a request of `bytes` ended at `now` after `ns`, by which a steady state or the
    /// depth of a latency is found.
    pub fn done(&mut self, job: &Job, now: u64, ns: u64, bytes: u64) {
        if let Some(target) = &job.target {
            self.over |= self.search.note(target, now, ns) && !target.goes_on;
        }
        let Some(steady) = &job.steady else {
            return;
        };
        let started = self.started.unwrap_or(0) + steady.ramp_ns;
        if now >= started && self.seconds.note(steady, now - started, bytes) {
            self.over = true;
        }
    }

    /// Ends the pass: the file has no more bytes.
    pub fn exhaust(&mut self, job: &Job) {
        self.moved = job.total;
        self.over = !job.time_based && self.passes + 1 >= job.loops;
    }
}
