//! One job of a file: what its section says, with the defaults of fio.

use crate::host::Advice;

/// Processes of one job file, with the requests that each has in flight.
pub const MOST_TASKS: u64 = 400;

/// How random offsets are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// Uniform.
    Random,
    /// Zipf with this exponent.
    Zipf(f64),
    /// fio's Pareto with this parameter.
    Pareto(f64),
}

/// What a job tells the kernel of its requests, where it opens its file (`fadvise_hint`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// Nothing.
    None,
    /// What its `rw` is: random or sequential.
    Pattern,
    /// This, whatever its `rw` is.
    As(Advice),
}

/// One job: a section of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The section's name, or `name=`.
    pub name: String,
    /// Percentage of reads: 100 reads only, 0 writes only.
    pub reads: u64,
    /// Random offsets and not sequential ones.
    pub random: bool,
    /// Bytes of a read and of a write.
    pub bs: [u64; 2],
    /// Bytes of the file that are used.
    pub region: u64,
    /// Bytes to move.
    pub total: u64,
    /// Number of processes.
    pub numjobs: u64,
    /// Requests that each process has in flight.
    pub depth: u64,
    /// Past the page cache.
    pub direct: bool,
    /// fsync after so many writes; 0: never.
    pub fsync: u64,
    /// fdatasync after so many writes; 0: never.
    pub fdatasync: u64,
    /// fsync at the end.
    pub end_fsync: bool,
    /// Bytes a second of reads and of writes; 0: as many as may be.
    pub rate: [u64; 2],
    /// How random offsets are chosen.
    pub distribution: Distribution,
    /// What it tells the kernel of its requests.
    pub hint: Hint,
    /// Blocks may come again before all have been used.
    pub repeat: bool,
    /// Nanoseconds after which the job ends; 0: never.
    pub runtime_ns: u64,
    /// Only the time ends the job.
    pub time_based: bool,
    /// Nanoseconds at the beginning that are not measured.
    pub ramp_ns: u64,
    /// Nanoseconds between the end of a request and the next.
    pub think_ns: u64,
    /// Nanoseconds before the first request.
    pub delay_ns: u64,
    /// All jobs before it in the file end first.
    pub stonewall: bool,
    /// Folder of the file.
    pub directory: String,
    /// The file, if all processes use one.
    pub filename: Option<String>,
}

impl Job {
    /// The file of its process `nth`.
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

    /// Whether its files are there before it starts.
    pub(crate) fn finds_files(&self) -> bool {
        self.random || self.reads > 0
    }

    /// The advice that it gives on each file that it opens, as fio's `td_io_open_file` does: by default random for
    /// randread, randwrite and randrw, sequential for read, write and rw, whether or not it passes the page cache by.
    pub(super) fn advice(&self) -> Option<Advice> {
        match self.hint {
            Hint::None => None,
            Hint::Pattern if self.random => Some(Advice::Random),
            Hint::Pattern => Some(Advice::Sequential),
            Hint::As(advice) => Some(advice),
        }
    }

    /// A job of this name that says nothing.
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

    /// Bytes that offsets are multiples of.
    pub(super) fn step(&self) -> u64 {
        match self.reads {
            100 => self.bs[0],
            0 => self.bs[1],
            _ => self.bs[0].min(self.bs[1]),
        }
    }

    /// Blocks of its file, at least one.
    pub(super) fn blocks(&self) -> u64 {
        (self.region / self.step()).max(1)
    }
}
