//! The request queue of a block device, as in Linux of 2011 (reference 04 §6).
//!
//! Bios merge into requests; requests wait in an elevator; the disk serves as many at a time as
//! its depth allows. Two classes are counted: *sync* (reads and synchronous writes) and *async*
//! (other writes). Blocks are 4 KiB.

use crate::disk::Disk;
use crate::params::Params;
use crate::rng::Rng;
use crate::spec::Fault;
use mm::world::Class;

/// One piece of I/O as a filesystem submits it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bio {
    /// Whose it is; comes back at completion.
    pub tag: u64,
    /// A write, or a read.
    pub write: bool,
    /// Somebody waits for it.
    pub sync: bool,
    /// First block.
    pub block: u64,
    /// Number of blocks, 1..=[`Queue::max_blocks`].
    pub blocks: u32,
}

impl Bio {
    /// The class that counts it.
    pub fn class(&self) -> Class {
        if self.write && !self.sync {
            Class::Async
        } else {
            Class::Sync
        }
    }
}

/// A finished bio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// The bio.
    pub bio: Bio,
    /// It failed.
    pub failed: bool,
}

#[derive(Debug)]
struct Request {
    write: bool,
    class: Class,
    block: u64,
    blocks: u32,
    queued_at: u64,
    done_at: u64,
    failed: bool,
    bios: Vec<Bio>,
}

/// What [`Queue::submit`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Submit {
    /// It joined a queued request.
    Merged,
    /// It became a request.
    Queued,
    /// The queue is full: wait for a request to be freed and try again.
    Full,
}

/// What a completion means for waiting tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Freed {
    /// A request of the class was freed and one more may be allocated, by class.
    pub room: [bool; 2],
    /// The class is below its "off" threshold: congestion waiters wake, by class.
    pub below_off: [bool; 2],
}

/// Totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Blocks read.
    pub blocks_read: u64,
    /// Blocks written.
    pub blocks_written: u64,
    /// Requests served.
    pub requests: u64,
    /// Bios that joined a queued request.
    pub merges: u64,
}

/// A request queue with its disk.
pub struct Queue {
    queued: Vec<Request>,
    in_flight: Vec<Request>,
    spare: Vec<Vec<Bio>>,
    count: [u32; 2],
    full: [bool; 2],
    congested: [bool; 2],
    nr_requests: u32,
    /// Largest request in blocks.
    pub max_blocks: u32,
    head: u64,
    sync_in_a_row: u32,
    writes_starved: u32,
    write_expire: u64,
    read_expire: u64,
    fail_timeout: u64,
    disk: Disk,
    faults: Vec<Fault>,
    rng: Rng,
    /// Totals since the start.
    pub stats: Stats,
}

fn ns(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

impl Queue {
    /// An idle queue.
    pub fn new(disk: Disk, faults: Vec<Fault>, p: &Params, rng: Rng) -> Self {
        Self {
            queued: Vec::new(),
            in_flight: Vec::new(),
            spare: Vec::new(),
            count: [0; 2],
            full: [false; 2],
            congested: [false; 2],
            nr_requests: p.nr_requests as u32,
            max_blocks: (disk.max_request_bytes() / 4096) as u32,
            head: 0,
            sync_in_a_row: 0,
            writes_starved: p.writes_starved as u32,
            write_expire: p.write_expire as u64,
            read_expire: p.read_expire as u64,
            fail_timeout: p.disk_fail_timeout as u64,
            disk,
            faults,
            rng,
            stats: Stats::default(),
        }
    }

    fn on(&self) -> u32 {
        self.nr_requests - self.nr_requests / 8 + 1
    }

    fn off(&self) -> u32 {
        self.nr_requests - self.nr_requests / 8 - self.nr_requests / 16 - 1
    }

    /// Whether a class is flagged congested.
    pub fn congested(&self, class: Class) -> bool {
        self.congested[class as usize]
    }

    /// Requests of a class that are queued or in flight.
    pub fn requests(&self, class: Class) -> u32 {
        self.count[class as usize]
    }

    /// Hands in a bio. A `batching` submitter may go half over the limit.
    pub fn submit(&mut self, now: u64, bio: Bio, batching: bool) -> Submit {
        assert!(
            bio.blocks > 0 && bio.blocks <= self.max_blocks,
            "bio of {} blocks",
            bio.blocks
        );
        let class = bio.class();
        let fits = |r: &Request| {
            r.write == bio.write && r.class == class && r.blocks + bio.blocks <= self.max_blocks
        };
        let end = bio.block + u64::from(bio.blocks);
        if let Some(r) = self
            .queued
            .iter_mut()
            .rev()
            .find(|r| fits(r) && (r.block + u64::from(r.blocks) == bio.block || end == r.block))
        {
            r.block = r.block.min(bio.block);
            r.blocks += bio.blocks;
            r.bios.push(bio);
            self.stats.merges += 1;
            return Submit::Merged;
        }
        let c = class as usize;
        let would = self.count[c] + 1;
        if would >= self.on() {
            self.congested[c] = true;
        }
        if would >= self.nr_requests && !self.full[c] {
            self.full[c] = true;
        } else if self.full[c] && !(batching && would < self.nr_requests * 3 / 2) {
            return Submit::Full;
        }
        self.count[c] += 1;
        let mut bios = self.spare.pop().unwrap_or_default();
        bios.push(bio);
        self.queued.push(Request {
            write: bio.write,
            class,
            block: bio.block,
            blocks: bio.blocks,
            queued_at: now,
            done_at: 0,
            failed: false,
            bios,
        });
        Submit::Queued
    }

    /// Chooses the next request: an expired one, then sync before async (bounded), each class in
    /// one direction over the disk from where the head is.
    fn choose(&mut self, now: u64) -> Option<usize> {
        if self.queued.is_empty() {
            return None;
        }
        let oldest = (0..self.queued.len()).min_by_key(|&i| self.queued[i].queued_at)?;
        let r = &self.queued[oldest];
        let expire = if r.write {
            self.write_expire
        } else {
            self.read_expire
        };
        let has = |class: Class| self.queued.iter().any(|r| r.class == class);
        let (sync, asynchronous) = (has(Class::Sync), has(Class::Async));
        if now.saturating_sub(r.queued_at) > expire && !(sync && asynchronous) {
            return Some(oldest);
        }
        let class = if sync && (!asynchronous || self.sync_in_a_row < self.writes_starved) {
            Class::Sync
        } else {
            Class::Async
        };
        self.sync_in_a_row = if class == Class::Sync {
            self.sync_in_a_row + 1
        } else {
            0
        };
        let head = self.head;
        (0..self.queued.len())
            .filter(|&i| self.queued[i].class == class)
            .min_by_key(|&i| (self.queued[i].block < head, self.queued[i].block))
    }

    /// Starts as many requests as the disk takes. Returns when the next one will be done.
    pub fn dispatch(&mut self, now: u64) -> Option<u64> {
        while (self.in_flight.len() as u32) < self.disk.depth() {
            let Some(i) = self.choose(now) else { break };
            let mut r = self.queued.remove(i);
            let depth = self.in_flight.len() as u32 + 1;
            let service = self
                .disk
                .service(now, r.write, r.block, r.blocks, depth, &mut self.rng);
            self.head = r.block + u64::from(r.blocks);
            r.done_at = now + service;
            self.apply_faults(now, &mut r);
            self.in_flight.push(r);
        }
        self.in_flight.iter().map(|r| r.done_at).min()
    }

    fn apply_faults(&self, now: u64, r: &mut Request) {
        for fault in &self.faults {
            match *fault {
                Fault::WriteError { at_s, for_s } => {
                    if r.write && (ns(at_s)..ns(at_s + for_s)).contains(&r.done_at) {
                        r.failed = true;
                    }
                }
                Fault::Stall { at_s, for_s } => {
                    let (from, to) = (ns(at_s), ns(at_s + for_s));
                    if r.done_at >= from && now < to {
                        r.done_at = to + r.done_at.saturating_sub(from.max(now));
                    }
                }
                Fault::Stop { at_s } => {
                    if r.done_at >= ns(at_s) {
                        r.done_at = now.max(ns(at_s)) + self.fail_timeout;
                        r.failed = true;
                    }
                }
            }
        }
    }

    /// Finishes what is due. Every finished bio goes to `out`.
    pub fn complete(&mut self, now: u64, out: &mut Vec<Done>) -> Freed {
        let mut freed = Freed::default();
        let mut i = 0;
        while i < self.in_flight.len() {
            if self.in_flight[i].done_at > now {
                i += 1;
                continue;
            }
            let mut r = self.in_flight.remove(i);
            let c = r.class as usize;
            self.stats.requests += 1;
            if r.write {
                self.stats.blocks_written += u64::from(r.blocks);
            } else {
                self.stats.blocks_read += u64::from(r.blocks);
            }
            out.extend(r.bios.drain(..).map(|bio| Done {
                bio,
                failed: r.failed,
            }));
            self.spare.push(r.bios);
            self.count[c] -= 1;
            if self.count[c] < self.off() {
                self.congested[c] = false;
                freed.below_off[c] = true;
            }
            if self.count[c] < self.nr_requests {
                self.full[c] = false;
                freed.room[c] = true;
            }
        }
        freed
    }

    /// Whether nothing is queued or in flight.
    pub fn idle(&self) -> bool {
        self.queued.is_empty() && self.in_flight.is_empty()
    }
}
