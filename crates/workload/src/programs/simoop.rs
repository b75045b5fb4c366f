//! `simoop`: the memory pressure of jobs like Hadoop's, after Chris Mason's program
//! (docs/reference/workloads.md#simoop).
//!
//! `simoop [-t N] [-m MB] [-M MB] [-C N] [-D N] [-r S] [-w S] [-i S] [-f MB] [-n N] [-T N] [-R MB]
//! [-W MB] [--keep 0|1] PATH…`
//!
//! The source of the original was not available. The short options and their meanings are those of
//! docs/reference/workloads.md#simoop; claims marked so below are recollections or inferences. MB
//! are 2^20 bytes, times are seconds.
//!
//! - **Files**: below each path lie `-n` files of `-f` MB, in directories of at most 1024
//!   (`PATH/dir0003/file0017`). They exist before the run, on the device and not cached; the
//!   original fills its paths first. 65,536 files per path is a recollection.
//! - **Workers** (`-t`): each maps `-m` MB of anonymous memory and stores to all of it, once. Then
//!   it does units of work, in these steps: a *read*, in which each of its `-T` I/O threads opens a
//!   random file and reads `-R` MB from a random page on; a *write*, in which each writes `-W` MB
//!   to a new temporary file and removes the previous one; an *allocation* (map `-M` MB of
//!   anonymous memory and store to every page; then unmap it, not timed); and a load from every
//!   page of the working set. A step ends with the last of its threads, and is timed as a whole. An
//!   I/O thread's buffer is anonymous memory that it maps, stores to and unmaps: 2.5 GiB where 128
//!   workers have 20 threads of 1 MB.
//! - **CPU threads** (`-C`): 3 s of CPU time in user mode, then 100 ms of sleep (a recollection:
//!   they burn nearly all the time).
//! - **du threads** (`-D`): walk all paths for ever, read every directory and stat(2) every name.
//!
//! **The structure of a unit** follows from the published figures. 128 workers that did 5.24 units
//! a second needed 24.4 s for one (Little's law), and the published times of a read, a write and an
//! allocation add up to that: 3.5 + 16 + 4.6 = 24 s as means estimated from their percentiles. With
//! the patch: 3.1 + 21 + 0.3 = 24.4 s against 128 / 4.76 = 26.9 s. So the steps follow each other,
//! and their times are those of whole steps: a unit that waited for the slowest of twenty
//! operations, each timed for itself, would take longer than their means together. With one thread
//! a worker, 5 MB/s would be read and as much written: no disk needs seconds for that, and memory
//! would not fill within the warm-up. With `-T` threads a worker it is 105 MB/s each way.
//!
//! **The lifetime of a temporary file** is a guess. Writes that take 15 s are throttled by the
//! dirty limit, so most of the written data must reach the disk, and a file must outlive the reads
//! of its unit; and reclaim can only meet changed inodes if files are removed. So a file is removed
//! when its thread has written the next one. With `--keep 1` (ours) files stay, and are truncated
//! and overwritten.
//!
//! **Time.** Workers warm up for `-w`, then all statistics are reset, then they run for `-r`; the
//! published figures were read at 300 s. Latencies are cumulative since the end of the warm-up.
//! Operations still under way at the end are not counted: threads stop at their next step.
//!
//! **Figures** (docs/reference/counters-and-traces.md#workload-figures): p50, p95 and p99 of each
//! kind's latency, as the middle of a bin of simoop's histogram; rates a second of finished units
//! (`work_rate`) and of entries into direct reclaim (`alloc_stall_rate`): that of the last report
//! interval (`-i`), the average since the warm-up, and percentiles of the intervals before the last
//! one. The published p99 of the stall rate, 59.12, lies below the last value, 94.42, so the last
//! interval can't be among them. `alloc_stall_rate_zero_since` is the end of the last interval with
//! an entry. The warm-up's averages are separate (`warm_up_…`).

mod histogram;
mod log;
mod summary;

use crate::error::CommandError;
use crate::host::{Advice, Host, HostError, HostResult, Map, MapId, OpenFlags, Task, Word, joined};
use crate::options::{Style, Syntax};
use crate::program::{ExistingFile, Program};
use crate::report::{Figures, Metric, Report};
use crate::session::Session;
use crate::shell;
use log::{Kind, Log, Logs};
use std::sync::Arc;
use trace::random::Rng;

const PAGE: u64 = 4096;
const MB: u64 = 1 << 20;
const SECOND: u64 = 1_000_000_000;
/// The most files of a directory.
const DIRECTORY: u64 = 1024;
/// Pages touched between two checks of the clock.
const CHUNK: u64 = 1024;
/// CPU time of a turn of a CPU thread, and its sleep between two turns, in ns.
const TURN_NS: u64 = 3 * SECOND;
const PAUSE_NS: u64 = SECOND / 10;
/// User time of a du thread for a name, in ns: `du` processes some 400,000 cached names a second,
/// and the call takes half of that (a recollection).
const NAME_NS: u64 = 1000;
/// The most files of all paths together.
const MAX_FILES: u64 = 1 << 20;
/// The most threads of a kind.
const MAX_THREADS: u64 = 4096;
/// The largest memory and file, in MB: 64 GiB.
const MAX_MB: u64 = 65_536;
/// The longest time, in seconds: a year.
const MAX_TIME: u64 = 31_536_000;

const USAGE: &str = "simoop [-t THREADS] [-m MB] [-M MB] [-C THREADS] [-D THREADS] [-r SECONDS] \
     [-w SECONDS] [-i SECONDS] [-f MB] [-n FILES] [-T THREADS] [-R MB] [-W MB] [--keep 0|1] PATH…";

const OPTIONS: Syntax = Syntax {
    values: &[
        ("-t", "--threads"),
        ("-m", "--memory"),
        ("-M", "--mmapsize"),
        ("-C", "--cputhreads"),
        ("-D", "--duthreads"),
        ("-r", "--runtime"),
        ("-w", "--warmuptime"),
        ("-i", "--interval"),
        ("-f", "--filesize"),
        ("-n", "--numfiles"),
        ("-T", "--readthreads"),
        ("-R", "--readsize"),
        ("-W", "--writesize"),
        ("--keep", "--keep"),
    ],
    unknown: "simoop has no option `{option}`",
    operand: "",
    ranges: true,
    ..Syntax::new(Style::Inline, USAGE)
};

/// A parsed command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Simoop {
    /// `-t`: workers.
    pub threads: u64,
    /// `-m`: MB of a worker's working set.
    pub working_set: u64,
    /// `-M`: MB of an allocation.
    pub allocation: u64,
    /// `-C`: threads that burn CPU time.
    pub cpu_threads: u64,
    /// `-D`: threads that walk the paths.
    pub du_threads: u64,
    /// `-r`: measured seconds.
    pub runtime: u64,
    /// `-w`: seconds of warm-up.
    pub warm_up: u64,
    /// `-i`: seconds of a report interval.
    pub interval: u64,
    /// `-f`: MB of each file.
    pub file_size: u64,
    /// `-n`: files per path.
    pub files_of_path: u64,
    /// `-T`: parallel reads, and then writes, of a worker.
    pub io_threads: u64,
    /// `-R`: MB of a read.
    pub read: u64,
    /// `-W`: MB of a write.
    pub write: u64,
    /// `--keep`: written files stay and are overwritten the next time.
    pub keep: bool,
    /// The paths.
    pub paths: Arc<[String]>,
}

/// A thread that a simoop starts.
#[derive(Debug, Clone, PartialEq)]
pub struct Thread {
    role: Role,
    of: Simoop,
    /// The number of its log in the session.
    log: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Ends the report intervals and the run.
    Clock,
    Worker(u64),
    /// A worker's `nth` I/O thread in one unit.
    Io {
        step: Io,
        worker: u64,
        nth: u64,
        unit: u64,
    },
    Cpu,
    Du,
}

/// The operation of I/O threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Io {
    Read,
    Write,
}

impl Task for Simoop {
    const NAME: &'static str = "simoop";

    /// Runs simoop: starts the clock, the workers, the CPU threads and the du threads, waits for
    /// all of them, and returns the figures of its log.
    async fn run<H: Host>(&self, host: &H, session: &Session) -> HostResult<Report> {
        // Entries into direct reclaim before the start.
        let stalls = host.usage()?.alloc_stalls;
        let log = session.shared::<Logs>(0).begin(host.now(), stalls);
        let mut roles = vec![Role::Clock];
        roles.extend((0..self.threads).map(Role::Worker));
        roles.extend((0..self.cpu_threads).map(|_| Role::Cpu));
        roles.extend((0..self.du_threads).map(|_| Role::Du));
        let thread = |role| self.thread(role, log);
        host.fork(roles.into_iter().map(thread).collect()).await?;
        Ok(session.shared::<Logs>(0).with(log, |log| log.report()))
    }
}

impl Program for Simoop {
    const USAGE: &'static str = USAGE;

    const METRICS: &'static [Metric] = &[
        Metric::new(
            "read_latency",
            "us",
            "of simoop, p50, p95 and p99 of a step in which all I/O threads of a worker read.",
        ),
        Metric::new(
            "write_latency",
            "us",
            "of simoop, p50, p95 and p99 of a step in which all I/O threads of a worker write.",
        ),
        Metric::new(
            "allocation_latency",
            "us",
            "Time in which a worker of simoop maps its memory and stores to every page of it: allocation_latency_mean, and p50, p95 and p99 since the end of the warm-up.",
        ),
        Metric::new(
            "allocations",
            "calls",
            "Allocations of simoop since the end of the warm-up.",
        ),
        Metric::new(
            "work_units",
            "units",
            "Units of work of simoop since the end of the warm-up.",
        ),
        Metric::new(
            "work_rate",
            "1/s",
            "Units of work of simoop a second: in the last report interval; work_rate_avg since the end of the warm-up, and p50, p95 and p99 of the intervals before the last.",
        ),
        Metric::new(
            "alloc_stall_rate",
            "1/s",
            "Entries to direct reclaim a second, as simoop reports them: in the last report interval; alloc_stall_rate_avg since the end of the warm-up, and p50, p95 and p99 of the intervals before the last.",
        )
        .harmful(),
        Metric::new(
            "alloc_stall_rate_zero_since",
            "s",
            "Run time of simoop, since the end of the warm-up, after which no report interval had an entry to direct reclaim; absent if the last interval had one.",
        )
        .harmful(),
        Metric::new(
            "warm_up_work_rate",
            "1/s",
            "warm_up_work_rate_avg: units of work of simoop a second during the warm-up.",
        ),
        Metric::new(
            "warm_up_alloc_stall_rate",
            "1/s",
            "warm_up_alloc_stall_rate_avg: entries to direct reclaim a second during simoop's warm-up.",
        )
        .harmful(),
    ];

    /// Returns the text that simoop prints at its end; `None` if the run has none of its figures.
    fn summary(figure: Figures<'_>) -> Option<String> {
        summary::summary(figure)
    }

    /// Parses the options and paths; options that are not given keep simoop's defaults. All
    /// operands are paths of directories.
    fn parse(name: &shell::Word, operands: &[shell::Word]) -> Result<Self, CommandError> {
        let mut s = Self {
            threads: 16,
            working_set: 64,
            allocation: 64,
            cpu_threads: 0,
            du_threads: 0,
            runtime: 60,
            warm_up: 0,
            interval: 10,
            file_size: 2,
            files_of_path: 65_536,
            io_threads: 1,
            read: 1,
            write: 1,
            keep: false,
            paths: Arc::default(),
        };
        let mut paths = Vec::new();
        for value in OPTIONS.read(operands) {
            let value = value?;
            match value.option {
                "-t" => s.threads = value.number(1..=MAX_THREADS)?,
                "-m" => s.working_set = value.number(0..=MAX_MB)?,
                "-M" => s.allocation = value.number(0..=MAX_MB)?,
                "-C" => s.cpu_threads = value.number(0..=MAX_THREADS)?,
                "-D" => s.du_threads = value.number(0..=MAX_THREADS)?,
                "-r" => s.runtime = value.number(1..=MAX_TIME)?,
                "-w" => s.warm_up = value.number(0..=MAX_TIME)?,
                "-i" => s.interval = value.number(1..=MAX_TIME)?,
                "-f" => s.file_size = value.number(1..=MAX_MB)?,
                "-n" => s.files_of_path = value.number(1..=MAX_FILES)?,
                "-T" => s.io_threads = value.number(1..=256)?,
                "-R" => s.read = value.number(0..=MAX_MB)?,
                "-W" => s.write = value.number(0..=MAX_MB)?,
                "--keep" => s.keep = value.number(0..=1)? != 0,
                _ if value.text.split('/').all(str::is_empty) => {
                    return Err(value.error("simoop needs a directory below the root", USAGE));
                }
                _ => paths.push(value.text.to_owned()),
            }
        }
        let whole = name.span.start..operands.last().unwrap_or(name).span.end;
        if paths.is_empty() {
            let what = "simoop needs the path of a directory to work in";
            return Err(CommandError::new(whole, what, USAGE));
        }
        let files = paths.len() as u64 * s.files_of_path;
        if files > MAX_FILES {
            return Err(CommandError::new(
                whole,
                format!("simoop would have {files} files"),
                format!("at most {MAX_FILES}: fewer paths, or a smaller -n"),
            ));
        }
        s.paths = paths.into();
        Ok(s)
    }

    /// Returns the most threads at a time: the clock, the CPU and du threads, and each worker with
    /// its I/O threads.
    fn children(&self) -> u64 {
        1 + self.cpu_threads + self.du_threads + self.threads * (1 + self.io_children())
    }

    /// Returns the most temporary files: one for each I/O thread, or two if the previous one is
    /// removed only after the next one is written.
    fn files(&self) -> u64 {
        self.threads * self.io_threads * if self.keep { 1 } else { 2 }
    }

    /// Returns every path, each followed by the directories below it that hold its files.
    fn existing_directories(&self) -> Vec<String> {
        let of = |path: &String| {
            let all = (0..self.files_of_path.div_ceil(DIRECTORY)).map(|n| directory(path, n));
            std::iter::once(path.clone())
                .chain(all)
                .collect::<Vec<String>>()
        };
        self.paths.iter().flat_map(of).collect()
    }

    /// Returns all files that the I/O threads read, `-n` below each path, with their length in
    /// bytes.
    fn existing_files(&self) -> Vec<ExistingFile> {
        let len = self.file_size * MB;
        let all = 0..self.paths.len() as u64 * self.files_of_path;
        all.map(|nth| ExistingFile {
            path: self.file(nth),
            len,
        })
        .collect()
    }

    /// Adds the logs that the threads share, once for all simoops of a script, and the gauges that
    /// read them.
    fn prepare(&self, session: &mut Session) {
        if session.share(0, Logs::default) {
            session.add_gauges(log::gauges);
        }
    }
}

impl Simoop {
    /// Returns the number of a worker's I/O threads; 0: the worker does its one read and write
    /// itself.
    fn io_children(&self) -> u64 {
        match self.io_threads {
            1 => 0,
            n => n,
        }
    }

    /// Returns the path of a file. `nth` counts from 0 over the files of all paths.
    fn file(&self, nth: u64) -> String {
        let (path, nth) = (nth / self.files_of_path, nth % self.files_of_path);
        let directory = directory(&self.paths[path as usize], nth / DIRECTORY);
        format!("{directory}/file{:04}", nth % DIRECTORY)
    }

    /// Makes a thread of this simoop with the given role; `log` is the number of simoop's log in
    /// the session.
    fn thread(&self, role: Role, log: usize) -> Thread {
        let of = self.clone();
        Thread { role, of, log }
    }
}

fn directory(path: &str, nth: u64) -> String {
    format!("{path}/dir{nth:04}")
}

/// The result of a step: whether the thread goes on.
type Step = HostResult<bool>;

impl Task for Thread {
    const NAME: &'static str = Simoop::NAME;
    const THREAD: bool = true;

    /// Runs the thread in its role until its work or the simoop's run is over. The report is empty:
    /// threads record their figures in the shared log.
    async fn run<H: Host>(&self, host: &H, session: &Session) -> HostResult<Report> {
        match self.role {
            Role::Clock => self.clock(host, session).await?,
            Role::Worker(nth) => self.worker(host, session, nth).await?,
            Role::Io {
                step,
                worker,
                nth,
                unit,
            } => {
                self.io(host, session, step, worker, nth, unit).await?;
            }
            Role::Cpu => self.burn(host, session).await,
            Role::Du => while self.walk(host, session).await? {},
        }
        Ok(Report::default())
    }
}

impl Thread {
    /// Calls `f` with the log of this simoop, which stays locked meanwhile, and returns its result.
    fn log<R>(&self, session: &Session, f: impl FnOnce(&mut Log) -> R) -> R {
        session.shared::<Logs>(0).with(self.log, f)
    }

    /// Returns true if the measured run has ended, so that the thread has to stop.
    fn over(&self, session: &Session) -> bool {
        session.shared::<Logs>(0).is_over(self.log)
    }

    /// Returns the path that all temporary files of a worker begin with. Workers are spread over
    /// the paths and their directories.
    fn own_file(&self, worker: u64) -> String {
        let paths = &self.of.paths;
        let path = &paths[(worker % paths.len() as u64) as usize];
        let directories = self.of.files_of_path.div_ceil(DIRECTORY).max(1);
        let directory = directory(path, worker % directories);
        format!("{directory}/tmp.{worker:03}")
    }

    /// Keeps the time of the run: sleeps from one report interval to the next and ends each in the
    /// log, resets the statistics after the warm-up, and ends the log after the measured run, by
    /// which all threads stop.
    async fn clock<H: Host>(&self, host: &H, session: &Session) -> HostResult<()> {
        let mut at = host.now();
        for (seconds, warm_up) in [(self.of.warm_up, true), (self.of.runtime, false)] {
            let end = at + seconds * SECOND;
            while at < end {
                at = (at + self.of.interval * SECOND).min(end);
                host.sleep(at.saturating_sub(host.now())).await;
                let stalls = host.usage()?.alloc_stalls;
                self.log(session, |log| log.report_interval(host.now(), stalls));
            }
            if warm_up && seconds > 0 {
                let stalls = host.usage()?.alloc_stalls;
                self.log(session, |log| log.restart(host.now(), stalls));
            }
        }
        session.shared::<Logs>(0).end(self.log);
        Ok(())
    }

    /// Runs the `nth` worker: maps its working set and stores to it once, then does units of work
    /// and loads its working set after each, until the run is over.
    async fn worker<H: Host>(&self, host: &H, session: &Session, nth: u64) -> HostResult<()> {
        let bytes = self.of.working_set * MB;
        let own = match bytes {
            0 => None,
            _ => Some(host.map(Map::Anon, bytes, Advice::Normal).await?),
        };
        let mut go_on = match own {
            Some(own) => self.touch(host, session, own, bytes, true).await?,
            None => true,
        };
        let mut unit = 0;
        while go_on {
            go_on = self.unit(host, session, nth, unit).await?;
            unit += 1;
            if let Some(own) = own.filter(|_| go_on) {
                go_on = self.touch(host, session, own, bytes, false).await?;
            }
            if go_on {
                self.log(session, Log::note_unit);
            }
        }
        match own {
            Some(own) => host.unmap(own).await,
            None => Ok(()),
        }
    }

    /// Does the timed part of a unit of work: a step of reads, a step of writes, and an allocation.
    /// `unit` counts the worker's units from 0. Returns false if the run is over.
    async fn unit<H: Host>(&self, host: &H, session: &Session, worker: u64, unit: u64) -> Step {
        let s = &self.of;
        // `size`: MB that each I/O thread moves; a step of 0 MB is skipped.
        for (step, size, kind) in [
            (Io::Read, s.read, Kind::Read),
            (Io::Write, s.write, Kind::Write),
        ] {
            if size == 0 {
                continue;
            }
            let began = host.now();
            if s.io_children() == 0 {
                self.io(host, session, step, worker, 0, unit).await?;
            } else {
                let thread = |nth| {
                    let role = Role::Io {
                        step,
                        worker,
                        nth,
                        unit,
                    };
                    s.thread(role, self.log)
                };
                host.fork((0..s.io_threads).map(thread).collect()).await?;
            }
            if self.over(session) {
                return Ok(false);
            }
            self.note(host, session, kind, began);
        }
        self.allocate(host, session).await
    }

    /// Does one thread's part of a step: allocates a buffer and stores to it, then reads a random
    /// file or writes a temporary one. `nth` is the thread's number in its worker, `unit` that of
    /// the unit of work.
    async fn io<H: Host>(
        &self,
        host: &H,
        session: &Session,
        step: Io,
        worker: u64,
        nth: u64,
        unit: u64,
    ) -> HostResult<()> {
        if self.over(session) {
            return Ok(());
        }
        let len = match step {
            Io::Read => self.of.read.min(self.of.file_size),
            Io::Write => self.of.write,
        } * MB;
        let map = host.map(Map::Anon, len, Advice::Normal).await?;
        if self.touch(host, session, map, len, true).await? {
            match step {
                Io::Read => self.read_file(host, worker << 8 | nth, len).await?,
                Io::Write => {
                    let file = format!("{}.{nth}", self.own_file(worker));
                    self.write_file(host, &file, unit, len).await?;
                }
            }
        }
        host.unmap(map).await
    }

    /// Reads `len` bytes from a random page on, of a random file. `seed` differs between I/O
    /// threads, so that threads that start at the same time choose different files.
    async fn read_file<H: Host>(&self, host: &H, seed: u64, len: u64) -> HostResult<()> {
        let s = &self.of;
        let mut random = Rng::new(host.gettimeofday() ^ seed << 40);
        let path = s.file(random.below(s.paths.len() as u64 * s.files_of_path));
        let at = random.below((s.file_size * MB - len) / PAGE + 1) * PAGE;
        let read = OpenFlags {
            read: true,
            ..OpenFlags::default()
        };
        let fd = host.open(&path, read).await?;
        let mut buf = host.buffer(len);
        if host.read_at(fd, &mut buf, at, len).await? != len {
            // The file is shorter than it was laid out.
            return Err(HostError::Io(path));
        }
        host.close(fd).await
    }

    /// Writes a temporary file of `len` bytes and removes the one of the unit before. The name of
    /// the file is `file` and the number of the unit modulo two, or always 0 if written files are
    /// kept.
    async fn write_file<H: Host>(
        &self,
        host: &H,
        file: &str,
        unit: u64,
        len: u64,
    ) -> HostResult<()> {
        let keep = self.of.keep;
        let name = |unit: u64| format!("{file}.{}", if keep { 0 } else { unit % 2 });
        let fd = host.open(&name(unit), OpenFlags::EMPTY_FILE).await?;
        let mut left = len;
        let buf = host.buffer(left);
        while left > 0 {
            left -= host.write(fd, &buf, left).await?;
        }
        host.close(fd).await?;
        if !keep && unit > 0 {
            host.unlink(&name(unit - 1)).await?;
        }
        Ok(())
    }

    /// Does the allocation of a unit of work: maps memory, stores to every page, and unmaps it.
    /// Only mapping and storing are timed. Returns false if the run is over.
    async fn allocate<H: Host>(&self, host: &H, session: &Session) -> Step {
        let bytes = self.of.allocation * MB;
        if bytes == 0 {
            return Ok(true);
        }
        let began = host.now();
        let map = host.map(Map::Anon, bytes, Advice::Normal).await?;
        let go_on = self.touch(host, session, map, bytes, true).await?;
        if go_on {
            self.note(host, session, Kind::Allocation, began);
        }
        host.unmap(map).await?;
        Ok(go_on)
    }

    /// Stores to (`store`), or loads from, every page of a mapping of `bytes` bytes. Returns false
    /// if the run ended meanwhile, after which the rest is not touched.
    async fn touch<H: Host>(
        &self,
        host: &H,
        session: &Session,
        map: MapId,
        bytes: u64,
        store: bool,
    ) -> Step {
        let word = Word {
            expect: None,
            store: store.then_some(1),
        };
        let pages = bytes / PAGE;
        let mut at = 0;
        while at < pages {
            let n = CHUNK.min(pages - at);
            host.touch(map, at, n, word).await?;
            if self.over(session) {
                return Ok(false);
            }
            at += n;
        }
        Ok(true)
    }

    /// Records in the log that an operation, which began at `began` on the host's clock (ns), ends
    /// now.
    fn note<H: Host>(&self, host: &H, session: &Session, kind: Kind, began: u64) {
        // After a thread has moved, another CPU's clock may lag behind by a quantum at most.
        let us = host.now().saturating_sub(began) / 1000;
        self.log(session, |log| log.note(kind, us));
    }

    /// Burns CPU time as a CPU thread: 3 s in user mode, then 100 ms of sleep, until the run is
    /// over.
    async fn burn<H: Host>(&self, host: &H, session: &Session) {
        let logs = session.shared::<Logs>(0);
        loop {
            let mut left = TURN_NS;
            while left > 0 {
                let n = left.min(SECOND / 20);
                host.compute(n).await;
                left -= n;
                if logs.is_over(self.log) {
                    return;
                }
            }
            host.sleep(PAUSE_NS).await;
        }
    }

    /// Walks all paths once as a du thread: reads every directory and stats every name. Returns
    /// false if the run is over.
    async fn walk<H: Host>(&self, host: &H, session: &Session) -> Step {
        let logs = session.shared::<Logs>(0);
        let mut directories: Vec<String> = self.of.paths.iter().rev().cloned().collect();
        while let Some(directory) = directories.pop() {
            let names = host.read_dir(&directory).await?;
            let dir = host.dir(&directory);
            for nth in 0..names.len() {
                match host.stat_listed(&dir, &names, nth).await {
                    // A worker may have removed its file already.
                    Err(HostError::NotFound(_)) => {}
                    stat => {
                        if stat?.directory {
                            directories.push(joined(&directory, &names[nth]));
                        }
                    }
                }
                host.compute(NAME_NS).await;
                if logs.is_over(self.log) {
                    return Ok(false);
                }
            }
        }
        Ok(!logs.is_over(self.log))
    }
}

#[cfg(test)]
mod tests;
