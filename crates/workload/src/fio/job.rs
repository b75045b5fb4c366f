//! One job of a file: the values of its section, with fio's defaults.

use crate::host::Advice;

/// The limit on processes of one job file, times the requests that each has in flight.
pub const MOST_TASKS: u64 = 400;

/// The distribution of random offsets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// Uniform.
    Random,
    /// Zipf with this exponent.
    Zipf(f64),
    /// fio's Pareto with this parameter.
    Pareto(f64),
}

/// The advice that a job gives when it opens its file (`fadvise_hint`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// No advice.
    None,
    /// Advice by `rw`: random or sequential.
    Pattern,
    /// This advice, whichever `rw` is set.
    As(Advice),
}

/// One job: a section of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The section's name, or `name=`.
    pub name: String,
    /// Percentage of reads: 100: only reads, 0: only writes.
    pub reads: u64,
    /// Offsets are random instead of sequential.
    pub random: bool,
    /// Bytes of a read and of a write.
    pub bs: [u64; 2],
    /// Bytes of the file that are accessed.
    pub region: u64,
    /// Bytes to move.
    pub total: u64,
    /// Number of processes.
    pub numjobs: u64,
    /// Requests that each process has in flight.
    pub depth: u64,
    /// Direct I/O, bypassing the page cache.
    pub direct: bool,
    /// Writes between calls of fsync; 0: never.
    pub fsync: u64,
    /// Writes between calls of fdatasync; 0: never.
    pub fdatasync: u64,
    /// fsync at the end.
    pub end_fsync: bool,
    /// Limits in bytes per second for reads and writes; 0: no limit.
    pub rate: [u64; 2],
    /// The distribution of random offsets.
    pub distribution: Distribution,
    /// The advice given to the kernel.
    pub hint: Hint,
    /// Blocks may repeat before all have been accessed.
    pub repeat: bool,
    /// Duration in nanoseconds; 0: no limit.
    pub runtime_ns: u64,
    /// Only the duration ends the job.
    pub time_based: bool,
    /// Nanoseconds at the beginning that are not measured.
    pub ramp_ns: u64,
    /// Nanoseconds between the end of a request and the start of the next.
    pub think_ns: u64,
    /// Nanoseconds before the first request.
    pub delay_ns: u64,
    /// The job waits for all jobs before it in the file.
    pub stonewall: bool,
    /// The folder of the file.
    pub directory: String,
    /// The file's name, if all processes share one.
    pub filename: Option<String>,
}

impl Job {
    /// Returns the path of the file that the job's process number `nth` reads or writes, as fio
    /// names it.
    pub(crate) fn path(&self, nth: u32) -> String {
        let name = match &self.filename {
            Some(name) => name.clone(),
            None => format!("{}.{nth}.0", self.name),
        };
        match self.directory.trim_end_matches('/') {
            "" => name,
            directory => format!("{directory}/{name}"),
        }
    }

    /// Returns true if the job's files must exist before it starts.
    pub(crate) fn finds_files(&self) -> bool {
        self.random || self.reads > 0
    }

    /// Returns the advice that the job gives on each file it opens, as fio's `td_io_open_file`
    /// does: by default random for randread, randwrite and randrw, sequential for read, write and
    /// rw, also with direct I/O. `None`: the job gives no advice.
    pub(super) fn advice(&self) -> Option<Advice> {
        match self.hint {
            Hint::None => None,
            Hint::Pattern if self.random => Some(Advice::Random),
            Hint::Pattern => Some(Advice::Sequential),
            Hint::As(advice) => Some(advice),
        }
    }

    /// Returns a job with this name and fio's default values, before its keys are read.
    pub(super) fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            reads: 100,
            random: false,
            bs: [4096; 2],
            region: 0,
            total: 0,
            numjobs: 1,
            depth: 1,
            direct: false,
            fsync: 0,
            fdatasync: 0,
            end_fsync: false,
            rate: [0; 2],
            distribution: Distribution::Random,
            hint: Hint::Pattern,
            repeat: false,
            runtime_ns: 0,
            time_based: false,
            ramp_ns: 0,
            think_ns: 0,
            delay_ns: 0,
            stonewall: false,
            directory: String::new(),
            filename: None,
        }
    }

    /// Returns the alignment of random offsets in bytes: the block size, the smaller one if reads
    /// and writes are mixed.
    pub(super) fn step(&self) -> u64 {
        match self.reads {
            100 => self.bs[0],
            0 => self.bs[1],
            _ => self.bs[0].min(self.bs[1]),
        }
    }

    /// Returns the number of blocks at which a request of the job may start, at least one.
    pub(super) fn blocks(&self) -> u64 {
        (self.region / self.step()).max(1)
    }
}
