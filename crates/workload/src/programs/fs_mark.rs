//! fs_mark 3.3: processes that create files in parallel, iteration after iteration.
//!
//! An iteration forks all processes. Each starts in sub-directory (seconds of the clock mod `-D`)
//! and for each of its files makes up a name, makes the sub-directory (which may exist), opens the
//! file (create, read and write, truncate), writes it in pieces of `-w` bytes, and closes it; `-S`
//! selects where fsync and sync are called. The iteration ends when all have ended. Each iteration
//! has two figures: *Files/s*, the sum over the processes of files / own loop time, and *App
//! Overhead*, the sum of loop time − time inside open, write, fsync, sync and close. Both come
//! from a clock of whole microseconds, read before and after each call as in the original. The
//! results hold their minimum, mean, standard deviation (of the population) and maximum over the
//! iterations.
//!
//! As in the original: `-L` keeps the files; without `-L` and `-k` there is one iteration, and the
//! files are removed after its loop. `-S 1` is the default. More than one `-d` gives one process
//! each, or a whole multiple with `-t`. Names begin with the seconds of the clock, so with `-r 0`
//! all files of one second and directory are the same file, written anew.
//!
//! Differences from the original:
//! - `-F` (fill the filesystem) and `-h` are refused; so are operands and numbers that the original
//!   would read as 0.
//! - `-l` and `-v` are accepted and change nothing: the log lies outside the tested filesystem.
//! - The limit of processes is [`MAX_PROCESSES`]; 3.3 is built for 64, and users who ran 128 raised
//!   its limit.
//! - Files/s is not rounded to tenths, neither a process's nor the sum.
//! - Free space is not checked beforehand; a full filesystem fails the run.

use crate::error::CommandError;
use crate::host::{Host, HostError, HostResult, OpenFlags, Task, joined};
use crate::options::{OptionValue, Style, Syntax};
use crate::program::{MOST_FILES, Program};
use crate::report::Report;
use crate::session::Session;
use crate::shell::Word;
use std::ops::Range;
use std::sync::Arc;
use trace::random::Rng;

/// The most processes (and directories).
pub const MAX_PROCESSES: u64 = 256;
/// The most files of a process in an iteration, as in the original.
pub const MAX_FILES: u64 = 1_000_000;
/// The longest write, as in the original.
const MAX_WRITE: u64 = 1 << 20;
/// The longest file: the original counts bytes in an `int`.
const MAX_SIZE: u64 = i32::MAX as u64;
/// The longest file name, and the shortest path of a directory that is too long, as in the
/// original.
const MAX_NAME: u64 = 128;
const MAX_PATH: usize = 40;
/// Seconds in one sub-directory if `-D` is given without `-N`.
const SECONDS_PER_DIRECTORY: u64 = 180;
/// User time of making a name in nanoseconds: random(3) about 85 times (a letter or digit is found
/// in 3.6 tries), six sprintf: about 8000 cycles at 2.5 GHz.
const NAME_NS: u64 = 3000;

const USAGE: &str = "-d DIR, -D, -N, -n, -L, -S 0..6, -s, -w, -t, -k, -p, -r, -l FILE, -v";

/// The distribution of files over sub-directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// No sub-directories.
    Flat,
    /// A fixed number of files per sub-directory in turn; 0: all in the first one.
    RoundRobin {
        /// Number of sub-directories.
        subdirs: u64,
        /// Files per sub-directory.
        files: u64,
    },
    /// A new sub-directory every 180 s.
    Time {
        /// Number of sub-directories.
        subdirs: u64,
    },
}

impl Placement {
    /// Returns the number of sub-directories; 0 if files lie in the process's own directory.
    fn subdirs(self) -> u64 {
        match self {
            Self::Flat => 0,
            Self::RoundRobin { subdirs, .. } | Self::Time { subdirs } => subdirs,
        }
    }
}

/// The calls of fsync and sync (`-S`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SyncMethod {
    /// fsync of each file before its close.
    pub before_close: bool,
    /// Call sync once after the last file.
    pub sync: bool,
    /// The files that are afterwards opened, synced and closed.
    pub afterwards: Afterwards,
}

/// Files that are opened again to be synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Afterwards {
    /// None.
    #[default]
    None,
    /// The first one.
    First,
    /// All, first to last.
    InOrder,
    /// All, last to first.
    Reverse,
}

impl SyncMethod {
    /// Returns the calls of fsync and sync that fs_mark's option `-S n` selects; `None` if `n` is
    /// above 6.
    pub fn numbered(n: u64) -> Option<Self> {
        use Afterwards::{First, InOrder, None as Not, Reverse};
        let (before_close, sync, afterwards) = match n {
            0 => (false, false, Not),
            1 => (true, false, Not),
            2 => (false, true, First),
            3 => (false, false, Reverse),
            4 => (false, true, Reverse),
            5 => (false, false, InOrder),
            6 => (false, true, InOrder),
            _ => return None,
        };
        Some(Self {
            before_close,
            sync,
            afterwards,
        })
    }
}

/// The work of each process of an fs_mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// `-d`: directories, which the processes take in turn.
    pub dirs: Vec<String>,
    /// `-D`, `-N`: the sub-directories of files.
    pub placement: Placement,
    /// `-n`: files of a process per iteration.
    pub files: u64,
    /// `-s`: bytes of a file.
    pub size: u64,
    /// `-w`: bytes of a write.
    pub write: u64,
    /// `-S`: when to sync.
    pub sync: SyncMethod,
    /// `-k` or `-L`: keep the files.
    pub keep: bool,
    /// `-p`: length of a name, in characters.
    pub name_len: u64,
    /// `-r`: how many of them are random.
    pub random_len: u64,
}

/// fs_mark with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FsMark {
    /// The work of each process.
    pub job: Arc<Job>,
    /// Processes at a time.
    pub processes: u64,
    /// `-L`: iterations, at least 1.
    pub iterations: u64,
}

/// One process of one iteration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    job: Arc<Job>,
    nth: u64,
}

const OPTIONS: Syntax = Syntax {
    values: &[
        ("d", "d"),
        ("D", "D"),
        ("l", "l"),
        ("L", "L"),
        ("n", "n"),
        ("N", "N"),
        ("p", "p"),
        ("r", "r"),
        ("s", "s"),
        ("S", "S"),
        ("t", "t"),
        ("w", "w"),
    ],
    flags: &["k", "v"],
    refused: &[
        (
            "F",
            "-F fills the filesystem until it is full, which is not supported",
        ),
        ("h", "-h only prints a help text"),
    ],
    unknown: "fs_mark has no option `-{option}`",
    operand: "fs_mark takes no operands, and `{word}` is not one of its options",
    no_value: ("-{option} needs a value", "-{option} and its value"),
    wrong: "-{option}: `{value}` is not a number",
    out_of_range: "-{option}: {value} is out of range",
    ranges: true,
    ..Syntax::new(Style::Bundled, USAGE)
};

/// The options read so far, with the places of those that must be consistent.
struct Given {
    job: Job,
    iterations: u64,
    processes: (u64, Range<usize>),
    /// `-D`.
    subdirs: Option<u64>,
    /// `-N`.
    per_subdir: Option<(u64, Range<usize>)>,
    /// The places of `-p` or `-r`, and of `-n` or `-L`.
    name_at: Range<usize>,
    files_at: Range<usize>,
}

impl Given {
    /// Makes the original's defaults: 1000 files of 50 KiB in writes of 16 KiB, one process, one
    /// iteration. `name` is the program's word in the line; errors about options that were not
    /// given point at its place.
    fn new(name: &Word) -> Self {
        Self {
            job: Job {
                dirs: Vec::new(),
                placement: Placement::Flat,
                files: 1000,
                size: 50 * 1024,
                write: 16 * 1024,
                sync: SyncMethod::numbered(1).expect("the default method"),
                keep: false,
                name_len: 40,
                random_len: 24,
            },
            iterations: 1,
            processes: (1, name.span.clone()),
            subdirs: None,
            per_subdir: None,
            name_at: name.span.clone(),
            files_at: name.span.clone(),
        }
    }

    /// Applies one option of the command line, and keeps the place of those that `finish` checks
    /// together. `-l` and `-v` change nothing.
    ///
    /// # Errors
    /// The value is no number, out of range, or not a usable directory.
    fn set(&mut self, value: OptionValue<'_>) -> Result<(), CommandError> {
        let job = &mut self.job;
        match value.option {
            "d" => {
                if value.text.is_empty() || value.text.len() >= MAX_PATH {
                    let what = format!("-d: a path of {} bytes", value.text.len());
                    return Err(value.error(what, "a directory of 1 to 39 bytes"));
                }
                job.dirs.push(value.text.to_owned());
                if job.dirs.len() as u64 > MAX_PROCESSES {
                    let accepted = format!("at most {MAX_PROCESSES} directories");
                    return Err(value.error("-d: too many directories", accepted));
                }
            }
            "D" => self.subdirs = Some(value.number(2..=MAX_FILES)?),
            "N" => self.per_subdir = Some((value.number(0..=MAX_FILES)?, value.span)),
            "n" => {
                job.files = value.number(1..=MAX_FILES)?;
                self.files_at = value.span;
            }
            "L" => {
                self.iterations = value.number(0..=MAX_FILES)?.max(1);
                job.keep = true;
                self.files_at = value.span;
            }
            "S" => {
                let n = value.number(0..=6)?;
                job.sync = SyncMethod::numbered(n).expect("0 to 6");
            }
            "s" => job.size = value.number(0..=MAX_SIZE)?,
            "w" => job.write = value.number(1..=MAX_WRITE)?,
            "t" => self.processes = (value.number(1..=MAX_PROCESSES)?, value.span),
            "k" => job.keep = true,
            "p" => {
                job.name_len = value.number(1..=MAX_NAME)?;
                self.name_at = value.span;
            }
            "r" => {
                job.random_len = value.number(0..=MAX_NAME)?;
                self.name_at = value.span;
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks the options against each other and makes the program of them. `name` is the program's
    /// word in the line.
    ///
    /// # Errors
    /// `-d` is missing, `-N` stands without `-D`, names have more random characters than
    /// characters, processes do not divide evenly among the directories, or the files are too many.
    fn finish(self, name: &Word) -> Result<FsMark, CommandError> {
        let mut job = self.job;
        let dirs = job.dirs.len() as u64;
        if dirs == 0 {
            return Err(CommandError::new(
                name.span.clone(),
                "-d is missing",
                "-d DIR: at least one directory",
            ));
        }
        job.placement = match (self.subdirs, self.per_subdir) {
            (None, None) => Placement::Flat,
            (Some(subdirs), None) => Placement::Time { subdirs },
            (None, Some((files, at))) if files > 0 => {
                return Err(CommandError::new(
                    at,
                    "-N without -D",
                    "-D with the number of sub-directories, at least 2",
                ));
            }
            (subdirs, Some((files, _))) => Placement::RoundRobin {
                subdirs: subdirs.unwrap_or(0),
                files,
            },
        };
        if job.random_len > job.name_len {
            return Err(CommandError::new(
                self.name_at,
                format!(
                    "a name of {} characters (-p) with {} random ones (-r)",
                    job.name_len, job.random_len
                ),
                "-r of at most -p; the defaults are -p 40 and -r 24",
            ));
        }
        let processes = dirs.max(self.processes.0);
        if !processes.is_multiple_of(dirs) {
            return Err(CommandError::new(
                self.processes.1,
                format!("-t: {processes} processes in {dirs} directories (-d)"),
                "a whole multiple of the number of directories",
            ));
        }
        let total = processes * job.files * self.iterations;
        if total > MOST_FILES {
            return Err(CommandError::new(
                self.files_at,
                format!("{processes} processes, -n and -L make {total} files"),
                format!("at most {MOST_FILES} files"),
            ));
        }
        Ok(FsMark {
            job: Arc::new(job),
            processes,
            iterations: self.iterations,
        })
    }
}

impl Task for FsMark {
    const NAME: &'static str = "fs_mark";

    /// Runs all iterations one after the other. In each, forks the processes, waits until all have
    /// ended, and reads their logs. Returns the figures over the iterations.
    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        let mut iterations = Vec::new();
        for _ in 0..self.iterations {
            let children = (0..self.processes)
                .map(|nth| Child {
                    job: Arc::clone(&self.job),
                    nth,
                })
                .collect();
            let logs = host.fork(children).await?;
            let runs: Vec<ProcessRun> = logs.iter().map(ProcessRun::read).collect();
            iterations.push(Iteration::of(&runs));
        }
        Ok(self.report(&iterations))
    }
}

impl Program for FsMark {
    const USAGE: &'static str = USAGE;

    /// Parses the command line of fs_mark, whose program word is `name`: reads all options, then
    /// checks that they are consistent.
    fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
        let mut given = Given::new(name);
        // As in the original, all options are looked up before their values are parsed.
        let values: Result<Vec<OptionValue<'_>>, CommandError> = OPTIONS.read(operands).collect();
        for value in values? {
            given.set(value)?;
        }
        given.finish(name)
    }

    fn files(&self) -> u64 {
        self.processes * self.job.files * self.iterations
    }

    fn children(&self) -> u64 {
        self.processes
    }
}

impl FsMark {
    /// Reduces the iterations to fs_mark's figures: the number of iterations, files and bytes
    /// written, then minimum, mean, standard deviation and maximum of *Files/s* and *App Overhead*.
    fn report(&self, iterations: &[Iteration]) -> Report {
        let files: u64 = iterations.iter().map(|i| i.files).sum();
        let mut metrics = vec![
            (
                "iterations".to_owned(),
                "iterations",
                iterations.len() as f64,
            ),
            ("files".to_owned(), "files", files as f64),
            ("bytes".to_owned(), "bytes", (files * self.job.size) as f64),
        ];
        let rates: Vec<f64> = iterations.iter().map(|i| i.files_per_second).collect();
        let overheads: Vec<f64> = iterations
            .iter()
            .map(|i| i.app_overhead_us as f64)
            .collect();
        for (name, unit, values) in [
            ("files_per_second", "files/s", rates),
            ("app_overhead", "us", overheads),
        ] {
            for (what, value) in ["min", "mean", "stddev", "max"].iter().zip(reduce(&values)) {
                metrics.push((format!("{name}_{what}"), unit, value));
            }
        }
        Report { metrics }
    }
}

/// Returns minimum, mean, standard deviation of the population, maximum.
fn reduce(values: &[f64]) -> [f64; 4] {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    [
        values.iter().copied().fold(f64::INFINITY, f64::min),
        mean,
        (squares / n).sqrt(),
        values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    ]
}

/// The measurements of one process of an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProcessRun {
    files: u64,
    /// Microseconds from before the first name until after the last sync.
    loop_us: u64,
    /// The part of these inside open, write, fsync, sync and close.
    calls_us: u64,
}

impl ProcessRun {
    /// Returns the measurements as a report, by which a forked process hands them to its parent
    /// ([`Self::read`] reads it).
    fn log(self) -> Report {
        Report {
            metrics: vec![
                ("files".to_owned(), "files", self.files as f64),
                ("loop".to_owned(), "us", self.loop_us as f64),
                ("calls".to_owned(), "us", self.calls_us as f64),
            ],
        }
    }

    /// Reads the measurements of a process from the report that [`Self::log`] made; a missing
    /// figure counts as 0.
    fn read(log: &Report) -> Self {
        let get = |name: &str| {
            let metric = log.metrics.iter().find(|(n, ..)| n == name);
            metric.map_or(0, |(_, _, v)| *v as u64)
        };
        Self {
            files: get("files"),
            loop_us: get("loop"),
            calls_us: get("calls"),
        }
    }
}

/// The two figures of an iteration.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Iteration {
    files: u64,
    files_per_second: f64,
    app_overhead_us: u64,
}

impl Iteration {
    /// Combines the runs of an iteration's processes: *Files/s* is the sum of each process's files
    /// over its own loop time, *App Overhead* the summed loop time outside of system calls, in
    /// microseconds.
    fn of(runs: &[ProcessRun]) -> Self {
        let rate = |r: &ProcessRun| r.files as f64 / (r.loop_us.max(1) as f64 / 1e6);
        Self {
            files: runs.iter().map(|r| r.files).sum(),
            files_per_second: runs.iter().map(rate).sum(),
            app_overhead_us: runs
                .iter()
                .map(|r| r.loop_us.saturating_sub(r.calls_us))
                .sum(),
        }
    }
}

/// A stopwatch of whole microseconds that sums up the time inside calls.
struct Calls<'a, H: Host> {
    host: &'a H,
    us: u64,
}

impl<H: Host> Calls<'_, H> {
    /// Adds the time since `began` as time inside a call. `began` is the host's clock in
    /// microseconds before the call.
    fn ended(&mut self, began: u64) {
        self.us += self.host.gettimeofday().saturating_sub(began);
    }
}

/// Awaits a call under the stopwatch. A macro, because a function would move the future into its
/// own.
macro_rules! timed {
    ($calls:ident, $call:expr) => {{
        let began = $calls.host.gettimeofday();
        let result = $call.await;
        $calls.ended(began);
        result
    }};
}

/// The names and sub-directories of a process's files.
struct Names {
    random: Rng,
    subdir: u64,
    in_subdir: u64,
    /// The time at which the current sub-directory was entered, in seconds; `None` before the first
    /// file.
    since: Option<u64>,
    /// The name of the last file; all but its random part is the same for a second.
    name: [u8; MAX_NAME as usize],
    of_second: Option<u64>,
}

impl Names {
    /// Returns the state from which a process of fs_mark makes names of files, at the process's
    /// start. `us` is the time of day in microseconds: its seconds select the first sub-directory,
    /// its fraction seeds the random names.
    fn new(us: u64, placement: Placement) -> Self {
        let subdir = match placement.subdirs() {
            0 => 0,
            n => us / 1_000_000 % n,
        };
        Self {
            random: Rng::new(us % 1_000_000),
            subdir,
            in_subdir: 0,
            since: None,
            name: [b'~'; MAX_NAME as usize],
            of_second: None,
        }
    }

    /// Makes up the place of the next file, at `us` microseconds of the clock. Returns the number
    /// of its sub-directory (`None`: the file lies in the process's own directory) and its name:
    /// the clock's seconds in hexadecimal padded with `~`, then random characters.
    fn next(&mut self, us: u64, job: &Job) -> (Option<u64>, &str) {
        let seconds = us / 1_000_000;
        let since = *self.since.get_or_insert(seconds);
        let sub = match job.placement {
            Placement::Flat => None,
            Placement::RoundRobin { subdirs, files } => {
                if files > 0 {
                    if self.in_subdir >= files {
                        self.subdir += 1;
                        self.in_subdir = 0;
                    }
                    self.subdir %= subdirs;
                    self.in_subdir += 1;
                }
                Some(self.subdir)
            }
            Placement::Time { subdirs } => {
                if seconds - since > SECONDS_PER_DIRECTORY {
                    self.subdir = (self.subdir + 1) % subdirs;
                    self.since = Some(seconds);
                }
                Some(self.subdir)
            }
        };
        let (len, random) = (job.name_len as usize, job.random_len as usize);
        let (stable, random) = self.name[..len].split_at_mut(len - random);
        if self.of_second != Some(seconds) {
            self.of_second = Some(seconds);
            let time = format!("{seconds:x}");
            let time = &time.as_bytes()[time.len().saturating_sub(stable.len())..];
            stable.fill(b'~');
            stable[..time.len()].copy_from_slice(time);
        }
        // A copy of the generator stays in registers, and letters are made four at a time: names
        // are made for every file.
        let mut rng = self.random.clone();
        let mut letter = || b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[rng.below(36) as usize];
        let mut fours = random.chunks_exact_mut(4);
        for four in &mut fours {
            four.fill_with(&mut letter);
        }
        fours.into_remainder().fill_with(letter);
        self.random = rng;
        let name = str::from_utf8(&self.name[..len]).expect("digits, letters and tildes");
        (sub, name)
    }
}

/// The directory in which a process currently makes files.
struct Target<H: Host> {
    sub: Option<u64>,
    path: String,
    kept: H::Dir,
}

impl<H: Host> Target<H> {
    /// Makes the target for files in sub-directory `sub` of `dir`; `None`: in `dir` itself. `kept`
    /// is the path as the host has prepared it for many calls.
    fn new(host: &H, dir: &str, sub: Option<u64>) -> Self {
        let path = match sub {
            None => format!("{dir}/"),
            Some(sub) => format!("{dir}/{sub:02x}"),
        };
        let kept = host.dir(&path);
        Self { sub, path, kept }
    }
}

/// The files of a process that it accesses again: their names, all of one length, concatenated.
struct Made<H: Host> {
    /// Each directory with the index of its first file, in the order of files.
    dirs: Vec<(usize, H::Dir)>,
    names: String,
    name_len: usize,
}

impl<H: Host> Made<H> {
    /// Makes an empty list. Names are cut out of one string by their length, which is the same for
    /// all (`-p`).
    fn new(job: &Job) -> Self {
        Self {
            dirs: Vec::new(),
            names: String::new(),
            name_len: job.name_len as usize,
        }
    }

    /// Returns the number of files.
    fn len(&self) -> usize {
        self.names.len() / self.name_len
    }

    /// Adds a file. `another` is its directory if that differs from the previous file's; `None`:
    /// the same directory.
    fn add(&mut self, another: Option<&H::Dir>, name: &str) {
        if let Some(dir) = another {
            self.dirs.push((self.len(), dir.clone()));
        }
        self.names.push_str(name);
    }

    /// Returns the directory and the name of the `nth` file, counted from 0 in the order of their
    /// making.
    fn get(&self, nth: usize) -> (&H::Dir, &str) {
        let at = self.dirs.partition_point(|(first, _)| *first <= nth) - 1;
        let name = &self.names[nth * self.name_len..][..self.name_len];
        (&self.dirs[at].1, name)
    }
}

/// One process of one iteration; its report is the line in its log.
impl Task for Child {
    const NAME: &'static str = FsMark::NAME;

    /// Runs one process of an iteration: makes its files and syncs them as `-S` says, timing each
    /// call, then removes them unless they are kept. Returns the line of its log: files, loop time
    /// and time inside calls.
    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        let job = &*self.job;
        let dir = &job.dirs[(self.nth % job.dirs.len() as u64) as usize];
        let buf = host.buffer(job.write);
        let mut names = Names::new(host.gettimeofday(), job.placement);
        // The directory, and the sub-directories below, may exist already.
        host.mkdir_kept(&host.dir(dir)).await?;

        let mut calls = Calls { host, us: 0 };
        // True if files are accessed again, to be synced afterwards or removed.
        let comes_back = !job.keep || job.sync.afterwards != Afterwards::None;
        let mut made = Made::<H>::new(job);
        let mut target: Option<Target<H>> = None;
        let began = host.gettimeofday();
        for _ in 0..job.files {
            let (sub, name) = names.next(host.gettimeofday(), job);
            let another = target.as_ref().is_none_or(|t| t.sub != sub);
            if another {
                target = Some(Target::new(host, dir, sub));
            }
            let target = target.as_ref().expect("made above");
            host.compute(NAME_NS).await;
            host.mkdir_kept(&target.kept).await?;
            let fd = timed!(
                calls,
                host.open_in(&target.kept, name, OpenFlags::EMPTY_FILE)
            )?;
            let mut left = job.size;
            loop {
                let len = job.write.min(left);
                let written = timed!(calls, host.write(fd, &buf, len))?;
                if written != len {
                    return Err(HostError::NoSpace(joined(&target.path, name)));
                }
                left -= len;
                if left == 0 {
                    break;
                }
            }
            if job.sync.before_close {
                timed!(calls, host.sync(fd, false))?;
            }
            timed!(calls, host.close(fd))?;
            if comes_back {
                made.add(another.then_some(&target.kept), name);
            }
        }
        if job.sync.sync {
            timed!(calls, host.sync_all())?;
        }
        let n = made.len();
        let again: &mut dyn Iterator<Item = usize> = match job.sync.afterwards {
            Afterwards::None => &mut (0..0),
            Afterwards::First => &mut (0..n.min(1)),
            Afterwards::InOrder => &mut (0..n),
            Afterwards::Reverse => &mut (0..n).rev(),
        };
        for nth in again {
            // The time of all three calls is counted as fsync.
            let read = OpenFlags {
                read: true,
                ..OpenFlags::default()
            };
            let (dir, name) = made.get(nth);
            let three = async {
                let fd = host.open_in(dir, name, read).await?;
                host.sync(fd, false).await?;
                host.close(fd).await
            };
            timed!(calls, three)?;
        }
        let loop_us = host.gettimeofday().saturating_sub(began);
        if !job.keep {
            for nth in 0..n {
                let (dir, name) = made.get(nth);
                host.unlink_in(dir, name).await?;
            }
        }
        let run = ProcessRun {
            files: job.files,
            loop_us,
            calls_us: calls.us,
        };
        Ok(run.log())
    }
}

#[cfg(test)]
mod tests;
