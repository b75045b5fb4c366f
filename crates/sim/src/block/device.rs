//! A disk that serves requests: its model, the faults around it, and the requests in service.
//!
//! A device sits behind a [`Queue`](super::Queue) in the virtual world, and stands alone where a
//! real kernel brings its own queue.

use super::IoError;
use super::faults::Faults;
use crate::disks::{DiskModel, Transfer};
use crate::params::Params;
use crate::rng::Rng;
use crate::spec::DiskSpec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A request that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Time of the end, in nanoseconds.
    pub finish: u64,
    /// The identifier that the request was started with.
    pub slot: u32,
    /// Why the request failed; `None` if it did not.
    pub error: Option<IoError>,
}

/// A started request, ordered by completion time and then by start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct InService {
    finish: u64,
    started: u64,
    slot: u32,
    error: Option<IoError>,
}

/// Most requests of a deep queue for which memory is reserved in advance.
const FIRST: u32 = 1024;

/// A disk and the requests that it works on.
#[derive(Debug)]
pub struct Device {
    disk: DiskModel,
    faults: Faults,
    depth: u32,
    in_service: BinaryHeap<Reverse<InService>>,
    started: u64,
    busy_since: u64,
    busy_ns: u64,
}

impl Device {
    /// Returns the disk of a specification that is not an array, with its faults. `rng` draws the
    /// properties that differ between runs (the speed of a used stick).
    pub fn new(spec: &DiskSpec, params: &Params, rng: &mut Rng) -> Self {
        let disk = DiskModel::new(spec, params, rng);
        let depth = disk.depth();
        Self {
            disk,
            faults: Faults::new(&spec.faults, params),
            depth,
            in_service: BinaryHeap::with_capacity(depth.min(FIRST) as usize),
            started: 0,
            busy_since: 0,
            busy_ns: 0,
        }
    }

    /// Gives the device a hardware queue per CPU, as far as it supports that many; each queue takes
    /// the disk's full depth of requests, so the device takes their sum.
    pub fn for_cpus(mut self, cpus: u32) -> Self {
        self.depth = self.disk.depth() * self.queues(cpus);
        self
    }

    /// Returns the number of hardware queues on a machine of `cpus` CPUs (block/blk-mq.c
    /// `blk_mq_alloc_tag_set`).
    pub fn queues(&self, cpus: u32) -> u32 {
        self.disk.queues().min(cpus).max(1)
    }

    /// Returns how many requests one hardware queue takes at a time.
    pub fn depth_of_queue(&self) -> u32 {
        self.disk.depth()
    }

    /// Returns how many requests the device takes at a time, over all of its hardware queues.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// See [`DiskModel::max_request_blocks`].
    pub fn max_request_blocks(&self) -> u32 {
        self.disk.max_request_blocks()
    }

    /// See [`DiskModel::members`].
    pub fn members(&self) -> u32 {
        self.disk.members()
    }

    /// Returns how many requests the device works on.
    pub fn in_service(&self) -> u32 {
        self.in_service.len() as u32
    }

    /// Returns the nanoseconds in which the device had a request in service, up to the last time
    /// that it fell idle.
    pub fn busy_ns(&self) -> u64 {
        self.busy_ns
    }

    /// Returns when the next request in service ends.
    pub fn next_completion(&self) -> Option<u64> {
        self.in_service.peek().map(|Reverse(s)| s.finish)
    }

    /// Starts a request at `now` under the identifier `slot`, which [`Self::end`] hands back: asks
    /// the disk model how long it takes, and the faults when and how it ends. The device must have
    /// room for it. `choices` is the number of requests among which the drive can choose, this one
    /// included.
    pub fn start(&mut self, now: u64, transfer: &Transfer, choices: u32, slot: u32, rng: &mut Rng) {
        debug_assert!(self.in_service() < self.depth, "no room in the device");
        if self.in_service.is_empty() {
            self.busy_since = now;
        }
        let device_now = self.faults.device_time(now);
        let service = if self.faults.alive(now) {
            self.disk.service(device_now, transfer, choices, rng)
        } else {
            0
        };
        let ending = self
            .faults
            .ending(now, device_now.saturating_add(service), transfer.dir);
        self.started += 1;
        self.in_service.push(Reverse(InService {
            finish: ending.at,
            started: self.started,
            slot,
            error: ending.error,
        }));
    }

    /// Takes out the request in service that ends first, if it is due at `now`; `None` if none is.
    /// Counts the device's busy time when it falls idle.
    pub fn end(&mut self, now: u64) -> Option<Ended> {
        let &Reverse(InService {
            finish,
            slot,
            error,
            ..
        }) = self.in_service.peek()?;
        if finish > now {
            return None;
        }
        self.in_service.pop();
        if self.in_service.is_empty() {
            self.busy_ns += finish - self.busy_since;
        }
        Some(Ended {
            finish,
            slot,
            error,
        })
    }
}
