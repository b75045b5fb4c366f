//! When a process issues its requests, and when it ends: rates, steady states, and the jobs that
//! it is tied to.

use super::job::{ExitWhat, Job, Steady, Target};
use std::collections::BTreeMap;
use trace::random::Rng;

const SECOND: u64 = 1_000_000_000;

/// The earliest times of a process's requests under its rates.
pub(super) struct Pace {
    rng: Rng,
    /// Bytes and requests issued: read and written.
    bytes: [u64; 2],
    requests: [u64; 2],
    /// With exponential intervals: the time of the next request, in nanoseconds from the start.
    due: [f64; 2],
    /// Nanoseconds of pauses that do not count.
    pub shift: u64,
}

impl Pace {
    /// Starts a process that has issued nothing.
    pub fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed ^ 0x70616365),
            bytes: [0; 2],
            requests: [0; 2],
            due: [0.0; 2],
            shift: 0,
        }
    }

    /// Notes a request of `len` bytes, and returns the nanoseconds from the start before which it
    /// may not be issued.
    pub fn due(&mut self, job: &Job, direction: usize, len: u64) -> u64 {
        let after = |amount: u64, rate: u64| match rate {
            0 => 0,
            rate => (u128::from(amount) * u128::from(SECOND) / u128::from(rate)) as u64,
        };
        let (rate, iops) = (job.rate[direction], job.rate_iops[direction]);
        let due = match job.poisson && (rate > 0 || iops > 0) {
            true => {
                let due = self.due[direction];
                // The mean interval, in nanoseconds.
                let mean = after(len, rate).max(after(1, iops)) as f64;
                self.due[direction] += -(1.0 - self.rng.unit()).ln() * mean;
                due as u64
            }
            false => after(self.bytes[direction], rate).max(after(self.requests[direction], iops)),
        };
        self.bytes[direction] += len;
        self.requests[direction] += 1;
        match due {
            0 => 0,
            due => due + self.shift,
        }
    }
}

/// The requests and bytes of each second, by which a steady state is found.
#[derive(Default)]
pub(super) struct Seconds {
    /// Requests and bytes.
    counts: Vec<[u64; 2]>,
}

impl Seconds {
    /// Notes a request that ended `ns` after the first second's beginning. Returns true if the
    /// seconds before its own are steady.
    pub fn note(&mut self, steady: &Steady, ns: u64, bytes: u64) -> bool {
        let second = (ns / SECOND) as usize;
        let fresh = second >= self.counts.len() && !self.counts.is_empty();
        if second >= self.counts.len() {
            self.counts.resize(second + 1, [0; 2]);
        }
        self.counts[second][0] += 1;
        self.counts[second][1] += bytes;
        let complete = &self.counts[..second];
        let wanted = steady.seconds as usize;
        fresh && complete.len() >= wanted && is_steady(steady, &complete[second - wanted..])
    }
}

/// Returns true if these seconds are a steady state: the largest deviation from their mean, or the
/// slope of a line through them, is within the limit.
fn is_steady(steady: &Steady, seconds: &[[u64; 2]]) -> bool {
    let values = || seconds.iter().map(|s| s[usize::from(steady.bytes)] as f64);
    let n = seconds.len() as f64;
    let mean = values().sum::<f64>() / n;
    let found = match steady.slope {
        false => values().map(|v| (v - mean).abs()).fold(0.0, f64::max),
        true => {
            let middle = (n - 1.0) / 2.0;
            let (mut above, mut below) = (0.0, 0.0);
            for (x, y) in values().enumerate() {
                let x = x as f64 - middle;
                above += x * (y - mean);
                below += x * x;
            }
            if below > 0.0 {
                (above / below).abs()
            } else {
                0.0
            }
        }
    };
    let limit = match steady.percent {
        true => steady.limit / 100.0 * mean,
        false => steady.limit,
    };
    found <= limit
}

/// The search for the largest number of requests in flight that keeps a latency: it is doubled
/// until it is too large, and then the numbers between are halved.
pub(super) struct Search {
    /// Requests that may be in flight.
    pub depth: u64,
    /// The largest number that kept the latency, and the smallest that did not.
    kept: u64,
    missed: u64,
    /// The beginning of this window, its requests, and those that took longer.
    began: u64,
    requests: u64,
    over: u64,
}

impl Search {
    /// Begins the search with one request in flight, of `most`.
    pub fn new(most: u64) -> Self {
        Self {
            depth: 1,
            kept: 0,
            missed: most + 1,
            began: 0,
            requests: 0,
            over: 0,
        }
    }

    /// Notes a request that ended at `now` after `ns`. Returns true once the number is found.
    pub fn note(&mut self, target: &Target, now: u64, ns: u64) -> bool {
        if self.began == 0 {
            self.began = now;
        }
        self.requests += 1;
        self.over += u64::from(ns > target.ns);
        if now.saturating_sub(self.began) < target.window_ns {
            return false;
        }
        let within = (self.requests - self.over) * 100_000;
        if within >= target.percentile * self.requests {
            self.kept = self.kept.max(self.depth);
        } else {
            self.missed = self.missed.min(self.depth);
        }
        (self.began, self.requests, self.over) = (now, 0, 0);
        let found = self.kept + 1 >= self.missed;
        self.depth = match found {
            true => self.kept,
            false => (self.kept * 2).clamp(1, (self.kept + self.missed) / 2),
        };
        // Not even one request keeps the latency.
        self.depth = self.depth.max(1);
        found
    }
}

/// The processes of a flow, by the numbers of their job and in it: weight and requests.
type Flow = BTreeMap<(usize, u32), (u64, u64)>;

/// The board on which the jobs of a file tell one another of their state.
#[derive(Default)]
pub(super) struct Board {
    /// Processes of each job that have not ended.
    left: BTreeMap<usize, u64>,
    /// Ends of jobs with `exitall`: which jobs end, its group and its phase.
    exits: Vec<(ExitWhat, usize, usize)>,
    /// The processes of each flow that run.
    flows: BTreeMap<u64, Flow>,
}

impl Board {
    /// Adds a process of a job.
    pub fn expect(&mut self, job: &Job) {
        *self.left.entry(job.number).or_insert(0) += 1;
    }

    /// Returns true if processes of job `number` have not ended.
    pub fn runs(&self, number: usize) -> bool {
        self.left.get(&number).is_some_and(|left| *left > 0)
    }

    /// Notes the end of the job's process `nth`, and ends other jobs if the job says so.
    pub fn end(&mut self, job: &Job, nth: u32) {
        if let Some(left) = self.left.get_mut(&job.number) {
            *left -= 1;
        }
        if let Some(what) = job.exit {
            self.exits.push((what, job.group, job.phase));
        }
        if let Some(flow) = self.flows.get_mut(&job.flow_id) {
            flow.remove(&(job.number, nth));
        }
    }

    /// Returns true if a job with `exitall` has ended that ends this one, too.
    pub fn stops(&self, job: &Job) -> bool {
        self.exits.iter().any(|(what, group, phase)| match what {
            ExitWhat::All => true,
            ExitWhat::Group => *group == job.group,
            ExitWhat::Stonewall => *phase == job.phase,
        })
    }

    /// Counts a request of the job's process `nth` in its flow. Returns false, and does not count,
    /// if the process is ahead of another of the flow by a whole turn: each gets as many requests
    /// in a turn as its weight says.
    pub fn may_go(&mut self, job: &Job, nth: u32) -> bool {
        if job.flow == 0 {
            return true;
        }
        let flow = self.flows.entry(job.flow_id).or_default();
        let me = (job.number, nth);
        let (_, count) = *flow.entry(me).or_insert((job.flow, 0));
        let ahead = |(who, (weight, other)): (&(usize, u32), &(u64, u64))| {
            *who != me && count * weight >= (other + weight) * job.flow
        };
        if flow.iter().any(ahead) {
            return false;
        }
        flow.insert(me, (job.flow, count + 1));
        true
    }
}
