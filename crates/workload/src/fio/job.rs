//! One job of a file: the values of its section, with fio's defaults.

use crate::host::Advice;
use crate::program::MOST_PROCESSES;
use trace::random::Rng;

/// The limit on processes of one job file, times the requests that each has in flight: each is a
/// process of the script, beside its shell.
pub const MOST_TASKS: u64 = MOST_PROCESSES - 1;

/// Bytes, or a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// So many bytes.
    Bytes(u64),
    /// A share of a file or device, in thousandths of a percent.
    Share(u64),
}

impl Amount {
    /// Returns the bytes that the amount is of `whole` bytes.
    pub(super) fn of(self, whole: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Share(share) => (u128::from(whole) * u128::from(share) / 100_000) as u64,
        }
    }
}

/// The sizes of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blocks {
    /// One size.
    Fixed(u64),
    /// Any size from the first to the second, in multiples of the first unless `bs_unaligned`.
    Range(u64, u64),
    /// Sizes, each with its percentage, which add up to 100.
    Split(Vec<(u64, u64)>),
}

impl Blocks {
    /// Returns the smallest and the largest size in bytes.
    pub(super) fn bounds(&self) -> (u64, u64) {
        match self {
            Self::Fixed(size) => (*size, *size),
            Self::Range(least, most) => (*least, *most),
            Self::Split(sizes) => {
                let sizes = || sizes.iter().map(|(size, _)| *size);
                (sizes().min().unwrap_or(1), sizes().max().unwrap_or(1))
            }
        }
    }
}

/// A zone of `random_distribution=zoned`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    /// Percentage of the requests.
    pub access: u64,
    /// Percentage of the file, or bytes.
    pub size: Amount,
}

/// The distribution of random offsets.
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    /// Uniform.
    Random,
    /// Some blocks are more popular than others. The place of the most popular one is a share of
    /// the file; `None`: popular blocks lie scattered, those of a normal distribution in the
    /// middle.
    Skewed(Skew, Option<f64>),
    /// Zones of the file, for reads and for writes.
    Zoned([Vec<Zone>; 2]),
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

/// How a job accesses its files (`ioengine`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Calls, one at a time.
    Calls,
    /// Calls, several at a time with O_DIRECT.
    Aio,
    /// Calls, several at a time.
    Uring,
    /// Pages of a mapping.
    Mapped,
    /// open(2) of new files, and close(2).
    Create,
    /// stat(2).
    Stat,
    /// unlink(2).
    Delete,
    /// ftruncate(2) to the offsets of writes.
    Truncate,
}

/// The order in which a job takes its files (`file_service_type`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Service {
    /// One after the other, with so many requests each.
    RoundRobin(u64),
    /// Each file to its end.
    Sequential,
    /// At random, with so many requests each.
    Random(u64),
    /// By popularity, with so many requests each.
    Skewed(Skew, u64),
}

/// A distribution over the blocks of a file, or over files.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Skew {
    /// Zipf with this exponent.
    Zipf(f64),
    /// fio's Pareto with this parameter.
    Pareto(f64),
    /// Normal with this deviation in percent of the blocks or files.
    Normal(f64),
}

impl Skew {
    /// Returns the distribution of that name with its parameter; `None` if there is none of the
    /// name, or the parameter is out of its range.
    pub(super) fn named(name: &str, parameter: f64) -> Option<Self> {
        let (skew, fits) = match name {
            "zipf" => (Self::Zipf(parameter), parameter <= 10.0),
            "pareto" => (Self::Pareto(parameter), parameter < 1.0),
            "normal" | "gauss" => (Self::Normal(parameter), parameter <= 100.0),
            _ => return None,
        };
        (fits && parameter > 0.0).then_some(skew)
    }
}

/// Which jobs end with one that has `exitall`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitWhat {
    /// The jobs of its group: those since the last `new_group` or `stonewall`.
    Group,
    /// The jobs since the last `stonewall`.
    Stonewall,
    /// All jobs.
    All,
}

/// The pauses of a job between requests (`thinktime`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Think {
    /// Nanoseconds of a pause; 0: no pauses.
    pub ns: u64,
    /// Nanoseconds of a pause in which the job keeps its CPU busy.
    pub spin_ns: u64,
    /// Requests between two pauses.
    pub blocks: u64,
    /// Nanoseconds of I/O between two pauses; 0: pauses follow requests.
    pub iotime_ns: u64,
}

/// When a job is in a steady state, and ends (`steadystate`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steady {
    /// Bytes instead of requests.
    pub bytes: bool,
    /// The slope instead of the largest deviation from the mean.
    pub slope: bool,
    /// The limit; of `percent`, in percent of the mean, else a plain number.
    pub limit: f64,
    /// Whether the limit is a percentage.
    pub percent: bool,
    /// Seconds that are looked at.
    pub seconds: u64,
    /// Nanoseconds before the first of these.
    pub ramp_ns: u64,
}

/// The latency for which the largest number of requests in flight is sought (`latency_target`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Nanoseconds of a request.
    pub ns: u64,
    /// Nanoseconds over which it is judged.
    pub window_ns: u64,
    /// Thousandths of a percent of the requests that have to keep it.
    pub percentile: u64,
    /// The job goes on when the number is found.
    pub goes_on: bool,
}

/// Reads of written data (`verify`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verify {
    /// Writes until some are verified; 0: at the end.
    pub backlog: u64,
    /// How many are verified then.
    pub batch: u64,
    /// Nothing is written; what would have been is verified.
    pub only: bool,
}

/// The shares of a sequential file that a job accesses (`zonemode=strided`), in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stride {
    /// Bytes accessed.
    pub size: u64,
    /// Bytes from zone to zone.
    pub step: u64,
}

/// Errors of calls that do not end the run (`continue_on_error`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tolerant {
    /// Errors of reads.
    pub reads: bool,
    /// Errors of writes and syncs.
    pub writes: bool,
}

/// One job: a section of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The section's name, or `name=`.
    pub name: String,
    /// The number of the job in its file.
    pub number: usize,
    /// The number of its group (`new_group`).
    pub group: usize,
    /// The number of the phase between two `stonewall`.
    pub phase: usize,
    /// Percentage of reads: 100: only reads, 0: only writes.
    pub reads: u64,
    /// Offsets are random instead of sequential.
    pub random: bool,
    /// Requests at consecutive offsets between two random ones (`rw=randread:8`); 0: one.
    pub run: u64,
    /// The consecutive requests of a run have the same offset (`rw_sequencer=identical`).
    pub identical: bool,
    /// Bytes between sequential requests, beyond their length (`rw=read:-8k`).
    pub gap: i64,
    /// Sizes of reads and of writes.
    pub blocks: [Blocks; 2],
    /// Sizes of `bsrange` need not be multiples of the smallest.
    pub unaligned: bool,
    /// `blocks` are of sequential and of random requests, not of reads and of writes.
    pub by_order: bool,
    /// The alignment of random offsets; 0: the smallest size.
    pub align: u64,
    /// Bytes of each file that are accessed.
    pub region: u64,
    /// The range of which each file's region is drawn; `None`: all have `region`.
    pub filesize: Option<[u64; 2]>,
    /// Where the region begins: of the first process, and how much later for each further one.
    pub offset: [u64; 2],
    /// Bytes to move in each pass.
    pub total: u64,
    /// Passes over `total`.
    pub loops: u64,
    /// Requests after which the job ends; 0: no limit.
    pub requests: u64,
    /// The job ends when no space is left.
    pub fill: bool,
    /// Number of processes.
    pub numjobs: u64,
    /// Requests that each process has in flight.
    pub depth: u64,
    /// How files are accessed.
    pub access: Access,
    /// Direct I/O, bypassing the page cache.
    pub direct: bool,
    /// O_SYNC.
    pub sync: bool,
    /// O_DSYNC.
    pub dsync: bool,
    /// Writes between calls of fsync; 0: never.
    pub fsync: u64,
    /// Writes between calls of fdatasync; 0: never.
    pub fdatasync: u64,
    /// fsync at the end.
    pub end_fsync: bool,
    /// fsync before each close.
    pub fsync_on_close: bool,
    /// Limits in bytes per second for reads and writes; 0: no limit.
    pub rate: [u64; 2],
    /// Limits in requests per second for reads and writes; 0: no limit.
    pub rate_iops: [u64; 2],
    /// Requests of a limited job have exponential intervals.
    pub poisson: bool,
    /// Pauses do not count for the rate.
    pub rate_without_think: bool,
    /// The distribution of random offsets.
    pub distribution: Distribution,
    /// Percentage of random offsets among reads and writes of a random job.
    pub random_share: [u64; 2],
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
    /// Pauses.
    pub think: Think,
    /// The range of nanoseconds before the first request.
    pub delay_ns: [u64; 2],
    /// The job waits for all jobs before it in the file.
    pub stonewall: bool,
    /// The number of the job that it waits for.
    pub wait_for: Option<usize>,
    /// The jobs that end with it.
    pub exit: Option<ExitWhat>,
    /// Its share of the requests of a flow; 0: none.
    pub flow: u64,
    /// The number of the flow.
    pub flow_id: u64,
    /// Nanoseconds that it waits for its turn.
    pub flow_sleep_ns: u64,
    /// Reads of written data.
    pub verify: Option<Verify>,
    /// Parts of the file that are left out.
    pub stride: Option<Stride>,
    /// The steady state that ends the job.
    pub steady: Option<Steady>,
    /// The latency for which the depth is sought.
    pub target: Option<Target>,
    /// Errors that do not end the run.
    pub tolerant: Tolerant,
    /// The files exist before the job.
    pub exist: bool,
    /// The files are read before the job begins.
    pub pre_read: bool,
    /// Cached pages are dropped before the job begins.
    pub invalidate: bool,
    /// An earlier job used the files, so that they may have cached pages.
    pub used_before: bool,
    /// The files are those of an earlier job, as long as that left them.
    pub inherits: bool,
    /// The files are removed at the end.
    pub unlink: bool,
    /// The folder of the files; of several, processes take one after the other.
    pub directories: Vec<String>,
    /// The files' names, if all processes share them.
    pub filenames: Vec<String>,
    /// The pattern of the files' names (`filename_format`).
    pub format: String,
    /// Number of files of each process.
    pub files: u64,
    /// Files that are open at a time; 0: all.
    pub open_files: u64,
    /// The order of the files.
    pub service: Service,
}

/// fio's names of files.
pub(super) const FORMAT: &str = "$jobname.$jobnum.$filenum";

impl Job {
    /// Returns the path of a file that the job's process number `nth` reads or writes, as fio
    /// names it.
    pub(crate) fn path(&self, nth: u32, file: u64) -> String {
        let name = match self.filenames.get(file as usize) {
            Some(name) if is_device(name) => return standing_for(name),
            Some(name) => name.clone(),
            None => self
                .format
                .replace("$jobname", &self.name)
                .replace("$jobnum", &nth.to_string())
                .replace("$filenum", &file.to_string())
                .replace("$clientuid", "0"),
        };
        // As fio does, processes take the folders in turn.
        let directory = match self.directories.len() {
            0 => "",
            n => &self.directories[nth as usize % n],
        };
        match directory.trim_end_matches('/') {
            "" => name,
            directory => format!("{directory}/{name}"),
        }
    }

    /// Returns true if the job's files must exist before it starts.
    pub(crate) fn finds_files(&self) -> bool {
        match self.access {
            Access::Create | Access::Truncate => return false,
            Access::Stat | Access::Delete => return true,
            _ => {}
        }
        self.exist || self.random || self.reads > 0 || self.access == Access::Mapped
    }

    /// Returns true if the job writes.
    pub(crate) fn writes(&self) -> bool {
        self.reads < 100
    }

    /// Returns true if the job reads: its own requests, or what it verifies.
    pub(crate) fn reads(&self) -> bool {
        self.reads > 0 || self.verify.is_some()
    }

    /// Returns where the accessed part of the files of process number `nth` begins, in bytes.
    pub(crate) fn start(&self, nth: u32) -> u64 {
        self.offset[0].saturating_add(self.offset[1].saturating_mul(u64::from(nth)))
    }

    /// Returns the nanoseconds that process number `nth` waits before its first request: drawn from
    /// the range of `startdelay`.
    pub(super) fn delay(&self, nth: u32) -> u64 {
        let [least, most] = self.delay_ns;
        let mut rng = Rng::new(u64::from(nth) ^ (self.number as u64) << 32);
        least + rng.below(most - least + 1)
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
            number: 0,
            group: 0,
            phase: 0,
            reads: 100,
            random: false,
            run: 0,
            identical: false,
            gap: 0,
            blocks: [Blocks::Fixed(4096), Blocks::Fixed(4096)],
            unaligned: false,
            by_order: false,
            align: 0,
            region: 0,
            filesize: None,
            offset: [0; 2],
            total: 0,
            loops: 1,
            requests: 0,
            fill: false,
            numjobs: 1,
            depth: 1,
            access: Access::Calls,
            direct: false,
            sync: false,
            dsync: false,
            fsync: 0,
            fdatasync: 0,
            end_fsync: false,
            fsync_on_close: false,
            rate: [0; 2],
            rate_iops: [0; 2],
            poisson: false,
            rate_without_think: false,
            distribution: Distribution::Random,
            random_share: [100; 2],
            hint: Hint::Pattern,
            repeat: false,
            runtime_ns: 0,
            time_based: false,
            ramp_ns: 0,
            think: Think {
                ns: 0,
                spin_ns: 0,
                blocks: 1,
                iotime_ns: 0,
            },
            delay_ns: [0; 2],
            stonewall: false,
            wait_for: None,
            exit: None,
            flow: 0,
            flow_id: 0,
            flow_sleep_ns: 0,
            verify: None,
            stride: None,
            steady: None,
            target: None,
            tolerant: Tolerant::default(),
            exist: false,
            pre_read: false,
            // fio's default is 1; docs/fio.md says why it is 0 here.
            invalidate: false,
            used_before: false,
            inherits: false,
            unlink: false,
            directories: Vec::new(),
            filenames: Vec::new(),
            format: FORMAT.to_owned(),
            files: 1,
            open_files: 0,
            service: Service::RoundRobin(1),
        }
    }

    /// Returns the smallest and the largest request in bytes, of those that the job makes.
    pub(super) fn sizes(&self) -> (u64, u64) {
        let [a, b] = [self.blocks[0].bounds(), self.blocks[1].bounds()];
        match self.reads {
            _ if self.by_order => (a.0.min(b.0), a.1.max(b.1)),
            100 => a,
            0 => b,
            _ => (a.0.min(b.0), a.1.max(b.1)),
        }
    }

    /// Returns the alignment of random offsets in bytes: `blockalign`, or the smallest block size
    /// of the job's requests.
    pub(super) fn step(&self) -> u64 {
        match self.align {
            0 => self.sizes().0,
            align => align,
        }
    }
}

/// Returns true for the path of a block device. `/dev/null`, `/dev/zero` and `/dev/urandom` are
/// none: every world has these.
pub(super) fn is_device(path: &str) -> bool {
    path.starts_with("/dev/") && !matches!(path, "/dev/null" | "/dev/zero" | "/dev/urandom")
}

/// Returns the path of the file that stands for a device: its path with `-` for `/`.
pub(super) fn standing_for(device: &str) -> String {
    device.trim_start_matches('/').replace('/', "-")
}
