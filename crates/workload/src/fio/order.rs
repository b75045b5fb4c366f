//! The order in which a process accesses its files: direction, file, offset and length of each
//! request. It depends on the job alone and not on time, so that it can be run through again.

use super::job::{Amount, Blocks, Distribution, Job, Service, Skew};
use std::sync::Arc;
use trace::random::{Pareto, Permutation, Rng, Zipf};

/// One access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Access {
    pub write: bool,
    /// The number of the file.
    pub file: u64,
    /// The offset in the file, in bytes.
    pub offset: u64,
    pub len: u64,
}

/// Tables of a job's distributions, which its processes share.
#[derive(Clone)]
pub(super) struct Tables {
    offsets: Option<Arc<Zipf>>,
    files: Option<Arc<Zipf>>,
}

impl Tables {
    /// Makes the tables that a job needs.
    pub fn new(job: &Job) -> Self {
        let offsets = match job.distribution {
            Distribution::Skewed(Skew::Zipf(theta), _) if job.random => {
                let blocks = (job.region / job.step()).max(1);
                Some(Arc::new(Zipf::new(blocks as u32, theta)))
            }
            _ => None,
        };
        let files = match job.service {
            Service::Skewed(Skew::Zipf(theta), _) if job.files > 1 => {
                Some(Arc::new(Zipf::new(job.files as u32, theta)))
            }
            _ => None,
        };
        Self { offsets, files }
    }
}

/// The state of one file.
#[derive(Clone)]
struct File {
    /// Bytes of the region.
    region: u64,
    /// Aligned offsets in it.
    blocks: u64,
    scatter: Permutation,
    /// Blocks that were drawn in this pass.
    passed: u64,
    passes: u64,
    /// The end of the last request, and its beginning, for reads and for writes; relative to the
    /// region.
    last: [(u64, u64); 2],
    /// Bytes moved in this pass.
    moved: u64,
}

/// The index in [`Order`]'s tables of that over a file's blocks, and of that over files.
const OFFSETS: usize = 0;
const FILES: usize = 1;

/// The order of a process's accesses, as far as it was run through.
#[derive(Clone)]
pub(super) struct Order {
    rng: Rng,
    seed: u64,
    /// Where regions begin.
    start: u64,
    step: u64,
    files: Vec<File>,
    tables: [Option<Arc<Zipf>>; 2],
    /// The file of the last request, and the requests that it had in a row.
    current: u64,
    served: u64,
    /// Requests of the run of a random job that are left.
    run: u64,
}

impl Order {
    /// Starts the order of the job's process number `nth`. Its random numbers are seeded from the
    /// job's name and that number, so that they are the same in every run.
    pub fn new(job: &Job, nth: u32, tables: &Tables) -> Self {
        // FNV-1a of the name.
        let name = job.name.bytes().fold(0xcbf2_9ce4_8422_2325, |h: u64, b| {
            (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
        });
        let seed = name ^ u64::from(nth);
        let step = job.step();
        // Lengths of files are drawn from numbers of their own.
        let mut lengths = Rng::new(seed ^ 0x66696c65);
        let file = |number: u64| {
            let region = match job.filesize {
                Some([least, most]) => {
                    let least = least.min(job.region);
                    let drawn = least + lengths.below(most.min(job.region) - least + 1);
                    (drawn / step * step).max(job.sizes().1)
                }
                None => job.region,
            };
            let blocks = (region / step).max(1);
            File {
                region,
                blocks,
                scatter: Permutation::new(blocks, seed ^ number << 48),
                passed: 0,
                passes: 0,
                last: [(0, 0); 2],
                moved: 0,
            }
        };
        Self {
            rng: Rng::new(seed),
            seed,
            start: job.start(nth),
            step,
            files: (0..job.files).map(file).collect(),
            tables: [tables.offsets.clone(), tables.files.clone()],
            current: 0,
            served: 0,
            run: 0,
        }
    }

    /// Begins a new pass over the files: sequential offsets begin anew, and so does the random
    /// order in which every block is hit once.
    pub fn restart(&mut self) {
        for (number, file) in self.files.iter_mut().enumerate() {
            file.last = [(0, 0); 2];
            file.moved = 0;
            file.next_pass(self.seed ^ (number as u64) << 48);
        }
        (self.current, self.served, self.run) = (0, 0, 0);
    }

    /// Returns the next access.
    pub fn next(&mut self, job: &Job) -> Access {
        let write = match job.reads {
            100 => false,
            0 => true,
            reads => self.rng.below(100) >= reads,
        };
        let direction = usize::from(write);
        let random = self.is_random(job, direction);
        let number = self.file(job);
        let sizes = match job.by_order {
            true => usize::from(random),
            false => direction,
        };
        let len = self.len(&job.blocks[sizes], job.unaligned);
        let (offset, len) = match random {
            true => self.random(job, number, direction, len),
            false => self.sequential(job, number, direction, len),
        };
        let file = &mut self.files[number as usize];
        file.last[direction] = (offset + len, offset);
        file.moved += len;
        let spread = match job.stride {
            Some(zone) if !random => offset / zone.size * (zone.step - zone.size),
            _ => 0,
        };
        Access {
            write,
            file: number,
            offset: self.start + offset + spread,
            len,
        }
    }

    /// Returns true if the next offset is random: in a random job, except within a run of requests
    /// and for the share that `percentage_random` leaves.
    fn is_random(&mut self, job: &Job, direction: usize) -> bool {
        if !job.random {
            return false;
        }
        if job.run > 0 {
            let first = self.run == 0;
            self.run = if first { job.run } else { self.run } - 1;
            if !first {
                return false;
            }
        }
        match job.random_share[direction] {
            100 => true,
            share => self.rng.below(100) < share,
        }
    }

    /// Returns the number of the next file.
    fn file(&mut self, job: &Job) -> u64 {
        let n = job.files;
        if n == 1 {
            return 0;
        }
        let each = match job.service {
            Service::RoundRobin(each) | Service::Random(each) | Service::Skewed(_, each) => each,
            Service::Sequential => u64::MAX,
        };
        let file = &self.files[self.current as usize];
        let full = job.service == Service::Sequential && file.moved >= file.region;
        if self.served < each && !full {
            // The very first file of a random order is drawn, too.
            if self.served > 0
                || matches!(job.service, Service::RoundRobin(_) | Service::Sequential)
            {
                self.served += 1;
                return self.current;
            }
        }
        self.served = 1;
        self.current = match job.service {
            Service::RoundRobin(_) | Service::Sequential => (self.current + 1) % n,
            Service::Random(_) => self.rng.below(n),
            Service::Skewed(skew, _) => self.skewed(skew, n, FILES, 0.5),
        };
        if job.service == Service::Sequential {
            self.files[self.current as usize].moved = 0;
        }
        self.current
    }

    /// Returns the length of the next request.
    fn len(&mut self, blocks: &Blocks, unaligned: bool) -> u64 {
        match blocks {
            Blocks::Fixed(len) => *len,
            Blocks::Range(least, most) if least == most => *least,
            Blocks::Range(least, most) => {
                if unaligned {
                    least + self.rng.below(most - least + 1)
                } else {
                    least * (1 + self.rng.below(most / least))
                }
            }
            Blocks::Split(sizes) => {
                let mut left = self.rng.below(100);
                for (size, share) in sizes {
                    match left.checked_sub(*share) {
                        Some(rest) => left = rest,
                        None => return *size,
                    }
                }
                sizes.last().map_or(1, |(size, _)| *size)
            }
        }
    }

    /// Returns the next sequential offset in a file's region, and the length that fits there. As
    /// in fio, reads and writes of one job are two sequences, and a gap applies from the second
    /// request on.
    fn sequential(&self, job: &Job, number: u64, direction: usize, len: u64) -> (u64, u64) {
        let file = &self.files[number as usize];
        let region = match job.stride {
            Some(zone) => file.region.div_ceil(zone.step) * zone.size,
            None => file.region,
        };
        let (end, begin) = file.last[direction];
        if job.random && job.identical {
            let at = begin.min(region.saturating_sub(len));
            return (at, len.min(region - at));
        }
        let mut at = if end >= region && job.gap >= 0 {
            0
        } else {
            end
        };
        if at > 0 && job.gap != 0 {
            at = match at.checked_add_signed(job.gap).filter(|at| *at < region) {
                Some(at) => at,
                None if job.gap > 0 => 0,
                None => region.saturating_add_signed(job.gap),
            };
        }
        let mut room = region - at.min(region - 1);
        if let Some(zone) = job.stride {
            room = room.min(zone.size - at % zone.size);
        }
        (at.min(region - 1), len.min(room))
    }

    /// Returns a random offset in a file's region: drawn from the distribution, or the next of a
    /// random order that hits every block once in a pass. A request that would pass the end of the
    /// region is moved to fit.
    fn random(&mut self, job: &Job, number: u64, direction: usize, len: u64) -> (u64, u64) {
        let index = number as usize;
        let (region, blocks) = (self.files[index].region, self.files[index].blocks);
        if let Some(zone) = job.stride {
            // Random requests stay in one zone until so many bytes were moved.
            let zones = region.div_ceil(zone.step);
            let base = self.files[index].moved / zone.size % zones * zone.step;
            let room = zone.size.min(region - base);
            let at = self.rng.below((room / self.step).max(1)) * self.step;
            let len = len.min(room);
            return (base + at.min(room - len), len);
        }
        let block = match &job.distribution {
            Distribution::Skewed(skew, center) => {
                let drawn = self.skewed(*skew, blocks, OFFSETS, center.unwrap_or(0.5));
                match (skew, center) {
                    (Skew::Normal(_), _) => drawn,
                    (_, Some(center)) => (drawn + (center * blocks as f64) as u64) % blocks,
                    (_, None) => self.files[index].scatter.apply(drawn),
                }
            }
            Distribution::Zoned(zones) => self.zoned(&zones[direction], region),
            Distribution::Random if job.repeat => self.rng.below(blocks),
            Distribution::Random => {
                let file = &mut self.files[index];
                if file.passed == blocks {
                    file.next_pass(self.seed ^ number << 48);
                }
                file.passed += 1;
                file.scatter.apply(file.passed - 1)
            }
        };
        ((block * self.step).min(region - len), len)
    }

    /// Draws one of `n` by its popularity: with Zipf and Pareto its rank, with a normal
    /// distribution its place around `center`, a share of `n`. `table` is that of Zipf.
    fn skewed(&mut self, skew: Skew, n: u64, table: usize, center: f64) -> u64 {
        match skew {
            Skew::Zipf(_) => match &self.tables[table] {
                Some(zipf) => u64::from(zipf.draw(&mut self.rng)) % n,
                None => 0,
            },
            Skew::Pareto(h) => Pareto::new(n, h).draw(&mut self.rng),
            Skew::Normal(deviation) => self.normal(n, deviation, center),
        }
    }

    /// Draws from 0 to `n` around a center, a share of `n`, with a deviation in percent of `n`. The
    /// sum of twelve uniform numbers is near to normal.
    fn normal(&mut self, n: u64, deviation: f64, center: f64) -> u64 {
        let sum: f64 = (0..12).map(|_| self.rng.unit()).sum();
        let at = n as f64 * (center + (sum - 6.0) * deviation / 100.0);
        (at.rem_euclid(n as f64) as u64).min(n - 1)
    }

    /// Draws a block from one of the zones of a region.
    fn zoned(&mut self, zones: &[super::job::Zone], region: u64) -> u64 {
        let mut left = self.rng.below(100);
        let mut from = 0;
        for zone in zones {
            let size = match zone.size {
                Amount::Bytes(bytes) => bytes,
                share => share.of(region),
            };
            let size = size.min(region - from);
            match left.checked_sub(zone.access) {
                Some(rest) => left = rest,
                None => {
                    let blocks = (size / self.step).max(1);
                    return from / self.step + self.rng.below(blocks);
                }
            }
            from += size;
        }
        self.rng.below((region / self.step).max(1))
    }
}

impl File {
    /// Begins another pass over all blocks in random order, which differs from the passes before.
    fn next_pass(&mut self, seed: u64) {
        if self.passed > 0 {
            self.passed = 0;
            self.passes += 1;
            self.scatter = Permutation::new(self.blocks, seed ^ self.passes << 32);
        }
    }
}
