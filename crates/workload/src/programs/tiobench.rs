//! tiobench 0.3.3: threads that write and read their own files, in four timed phases.
//!
//! `tiobench.pl` runs `tiotest` for each `--threads`, `--numruns` times. In one run every thread
//! owns a file of `--size` / threads MiB. The phases follow each other, all threads at once:
//! sequential write, random write, sequential read, random read. A thread transfers one block
//! (`--block`) per call and reads the clock before and after it; the writing phases end with fsync
//! and close, which are timed. Random phases do `--random` / threads operations a thread (default
//! 4000). The files are removed when the run ends; nothing drops caches between phases.
//!
//! A phase's rate is all bytes moved over the time from the first thread's start to the last one's
//! end, in MiB a second, which the original prints under "MB/s". Further figures: mean and maximum
//! latency of a block in ms, and the percentage of blocks that took more than 2 and more than 10
//! seconds. The original averages over `--numruns`; harnesses run it once and repeat that, so the
//! lowest rate of the runs is reported as well (`seqread_min`). With several `--threads` the
//! figures of each end in `-` and their number.
//!
//! Differences from the original: `--dir` is one directory; `--identifier` and `--nofrag` are
//! accepted and change nothing; threads are processes; CPU percentages are left to the report of
//! the run.

use crate::error::CommandError;
use crate::host::{Host, HostError, HostResult, OpenFlags, Task};
use crate::options::{Style, Syntax};
use crate::program::Program;
use crate::report::Report;
use crate::session::Session;
use crate::shell::Word;
use trace::random::Rng;

/// The most threads.
pub const MAX_THREADS: u64 = 256;
/// The most runs.
const MAX_RUNS: u64 = 1000;
/// The largest size, in MiB: 16 TiB.
const MAX_SIZE: u64 = 1 << 24;
/// The most random operations of a run.
const MAX_RANDOM: u64 = 1 << 30;
/// User time of one block beside the clock calls, in ns. The published user time, 390 s for 122
/// million blocks (*sequential-read*, all threads, 3.16-vanilla), is 3.2 us a block; that cell is
/// not scored.
const BLOCK_NS: u64 = 3000;
/// The latencies above which blocks are counted as slow, in microseconds.
const SLOW_US: [u64; 2] = [2_000_000, 10_000_000];

const USAGE: &str = "--size MB, --threads N (more than once), --block BYTES, --random OPS, \
                       --numruns N, --dir DIR, --identifier TEXT, --nofrag";

const OPTIONS: Syntax = Syntax {
    values: &[
        ("--size", "--size"),
        ("--threads", "--threads"),
        ("--block", "--block"),
        ("--random", "--random"),
        ("--numruns", "--numruns"),
        ("--dir", "--dir"),
        ("--identifier", "--identifier"),
    ],
    flags: &["--nofrag"],
    unknown: "tiobench has no option `{word}`",
    operand: "tiobench has no option `{word}`",
    no_value: ("{option} needs a value", "{option} VALUE"),
    wrong: "{option}: `{value}`",
    out_of_range: "{option}: `{value}`",
    ranges: true,
    ..Syntax::new(Style::Inline, USAGE)
};

/// A phase of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Blocks are written in order.
    SeqWrite,
    /// Random blocks are written.
    RandWrite,
    /// Blocks are read in order.
    SeqRead,
    /// Random blocks are read.
    RandRead,
}

impl Phase {
    /// All phases, in the order in which they run.
    pub const ALL: [Self; 4] = [
        Self::SeqWrite,
        Self::RandWrite,
        Self::SeqRead,
        Self::RandRead,
    ];

    /// Returns the prefix of the phase's figures in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::SeqWrite => "seqwrite",
            Self::RandWrite => "randwrite",
            Self::SeqRead => "seqread",
            Self::RandRead => "randread",
        }
    }

    fn writes(self) -> bool {
        matches!(self, Self::SeqWrite | Self::RandWrite)
    }

    fn random(self) -> bool {
        matches!(self, Self::RandWrite | Self::RandRead)
    }
}

/// tiobench with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tiobench {
    /// `--dir`: the directory.
    pub dir: String,
    /// `--size`: MiB of all files of a run together.
    pub size: u64,
    /// `--block`: bytes per call.
    pub block: u64,
    /// `--random`: random operations of all threads of a phase together.
    pub random: u64,
    /// `--threads`: numbers of threads, run one after the other.
    pub threads: Vec<u64>,
    /// `--numruns`: runs with each number of threads.
    pub runs: u64,
}

/// A thread in one phase of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    path: String,
    phase: Phase,
    block: u64,
    /// Blocks of the file.
    blocks: u64,
    operations: u64,
}

impl Task for Tiobench {
    const NAME: &'static str = "tiobench";

    /// Runs the benchmark: for each number of threads, `runs` times the four phases. Returns the
    /// figures of each phase over its runs.
    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        match host.mkdir(&self.dir).await {
            Err(HostError::Exists(_)) => {}
            other => other?,
        }
        let mut report = Report::default();
        for &threads in &self.threads {
            let mut runs = Vec::new();
            for _ in 0..self.runs {
                runs.push(self.tiotest(host, threads).await?);
            }
            // With several numbers of threads, the end of each figure's name tells them apart.
            let behind = match self.threads.len() {
                1 => String::new(),
                _ => format!("-{threads}"),
            };
            for (i, phase) in Phase::ALL.into_iter().enumerate() {
                let of_phase: Vec<Log> = runs.iter().map(|run| run[i]).collect();
                figures(&mut report, phase.name(), &behind, &of_phase);
            }
        }
        Ok(report)
    }
}

impl Program for Tiobench {
    const USAGE: &'static str = USAGE;

    /// Parses the options. `--size` is required; other options that are not given keep the
    /// original's defaults. Each thread's file must hold at least one block.
    fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
        let mut t = Self {
            dir: ".".to_owned(),
            size: 0,
            block: 4096,
            random: 4000,
            threads: Vec::new(),
            runs: 1,
        };
        let mut threads_at = name.span.clone();
        for value in OPTIONS.read(operands) {
            let value = value?;
            match value.option {
                "--size" => t.size = value.number(1..=MAX_SIZE)?,
                "--block" => t.block = value.number(1..=1 << 24)?,
                "--random" => t.random = value.number(0..=MAX_RANDOM)?,
                "--numruns" => t.runs = value.number(1..=MAX_RUNS)?,
                "--threads" => {
                    threads_at = value.span.clone();
                    t.threads.push(value.number(1..=MAX_THREADS)?);
                }
                "--dir" if value.text.is_empty() => {
                    return Err(value.error("--dir: no name", "a directory"));
                }
                "--dir" => t.dir = value.text.to_owned(),
                _ => {}
            }
        }
        if t.size == 0 {
            return Err(CommandError::new(
                name.span.clone(),
                "--size is missing (the original program then takes twice the machine's memory)",
                "--size MB",
            ));
        }
        if t.threads.is_empty() {
            t.threads = vec![1, 2, 4, 8];
        }
        for &threads in &t.threads {
            if t.size / threads * (1 << 20) < t.block {
                return Err(CommandError::new(
                    threads_at,
                    format!("{threads} threads share {} MB", t.size),
                    "files of at least one block",
                ));
            }
        }
        Ok(t)
    }

    /// Returns the most threads at a time; the numbers of threads run one after the other.
    fn children(&self) -> u64 {
        self.threads.iter().copied().max().unwrap_or(0)
    }

    /// Returns how many files are made over all runs: one for each thread.
    fn files(&self) -> u64 {
        self.threads.iter().sum::<u64>() * self.runs
    }
}

impl Tiobench {
    /// Makes the `nth` of `threads` threads in a phase. A thread owns a file of `size / threads`
    /// MiB, and does its share of the random operations or one operation for each block.
    fn thread(&self, phase: Phase, threads: u64, nth: u64) -> Thread {
        let blocks = self.size / threads * (1 << 20) / self.block;
        Thread {
            path: format!("{}/_{nth:03}_tiotest", self.dir),
            phase,
            block: self.block,
            blocks,
            operations: if phase.random() {
                self.random / threads
            } else {
                blocks
            },
        }
    }

    /// Runs one tiotest with `threads` threads: the four phases, then removes the files. Returns
    /// the log of each phase, in the order of [`Phase::ALL`], over all its threads.
    async fn tiotest<H: Host>(&self, host: &H, threads: u64) -> HostResult<[Log; 4]> {
        let mut logs = [Log::default(); 4];
        for (log, phase) in logs.iter_mut().zip(Phase::ALL) {
            let children = (0..threads)
                .map(|nth| self.thread(phase, threads, nth))
                .collect();
            for report in host.fork(children).await? {
                log.add(&Log::read(&report));
            }
        }
        for nth in 0..threads {
            let path = self.thread(Phase::SeqWrite, threads, nth).path;
            host.unlink(&path).await?;
        }
        Ok(logs)
    }
}

/// The measurements of a phase's threads; times are microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Log {
    began: u64,
    ended: u64,
    bytes: u64,
    blocks: u64,
    total_us: u64,
    longest_us: u64,
    slow: [u64; 2],
}

impl Log {
    const NAMES: [&str; 8] = [
        "began", "ended", "bytes", "blocks", "total", "longest", "over_2", "over_10",
    ];

    /// Returns all fields in the order of [`Self::NAMES`], by which a log becomes a report and is
    /// read from one.
    fn fields(&mut self) -> [&mut u64; 8] {
        let [two, ten] = &mut self.slow;
        [
            &mut self.began,
            &mut self.ended,
            &mut self.bytes,
            &mut self.blocks,
            &mut self.total_us,
            &mut self.longest_us,
            two,
            ten,
        ]
    }

    /// Returns the log as a report, by which a thread hands it to its parent ([`Self::read`] reads
    /// it).
    fn report(mut self) -> Report {
        let values = self.fields().map(|v| *v as f64);
        let named = Self::NAMES.iter().zip(values);
        Report {
            metrics: named.map(|(n, v)| ((*n).to_owned(), "", v)).collect(),
        }
    }

    /// Reads a log from the report that [`Self::report`] made of it.
    fn read(report: &Report) -> Self {
        let mut log = Self::default();
        for (field, (_, _, v)) in log.fields().into_iter().zip(&report.metrics) {
            *field = *v as u64;
        }
        log
    }

    /// Adds the log of another thread of the same phase: the phase lasts from the first thread's
    /// start to the last one's end, and counts are summed. A log without blocks has no start yet.
    fn add(&mut self, other: &Self) {
        self.began = match self.blocks {
            0 => other.began,
            _ => self.began.min(other.began),
        };
        self.ended = self.ended.max(other.ended);
        self.bytes += other.bytes;
        self.blocks += other.blocks;
        self.total_us += other.total_us;
        self.longest_us = self.longest_us.max(other.longest_us);
        for (a, b) in self.slow.iter_mut().zip(other.slow) {
            *a += b;
        }
    }

    /// Returns the rate in MiB per second, from the first thread's start to the last one's end.
    fn rate(&self) -> f64 {
        let seconds = self.ended.saturating_sub(self.began).max(1) as f64 / 1e6;
        self.bytes as f64 / f64::from(1 << 20) / seconds
    }
}

/// Adds a phase's figures over its `runs` to the report: means, but the lowest rate and the longest
/// latency of all runs. A figure's name is `name`, the figure, and `behind` (empty, or the number
/// of threads).
fn figures(report: &mut Report, name: &str, behind: &str, runs: &[Log]) {
    let n = runs.len() as f64;
    let mean = |f: &dyn Fn(&Log) -> f64| runs.iter().map(f).sum::<f64>() / n;
    // Percentage of a run's blocks.
    let share = |part: u64, log: &Log| 100.0 * part as f64 / log.blocks.max(1) as f64;
    let least = runs.iter().map(Log::rate).fold(f64::INFINITY, f64::min);
    let longest = runs.iter().map(|l| l.longest_us).max().unwrap_or(0);
    let latency = mean(&|l| l.total_us as f64 / l.blocks.max(1) as f64 / 1e3);
    for (what, unit, value) in [
        ("mean", "MB/s", mean(&Log::rate)),
        ("min", "MB/s", least),
        ("latency_mean", "ms", latency),
        ("latency_max", "ms", longest as f64 / 1e3),
        ("over_2s", "%", mean(&|l| share(l.slow[0], l))),
        ("over_10s", "%", mean(&|l| share(l.slow[1], l))),
    ] {
        let metric = (format!("{name}_{what}{behind}"), unit, value);
        report.metrics.push(metric);
    }
}

impl Task for Thread {
    const NAME: &'static str = Tiobench::NAME;
    const THREAD: bool = true;

    /// Does one thread's operations of a phase on its own file, timing each block by the clock of
    /// microseconds. Writing phases end with a timed fsync and close. Returns the log as a report.
    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        let mut buf = host.buffer(self.block);
        let mut log = Log {
            began: host.gettimeofday(),
            ..Log::default()
        };
        let mut random = Rng::new(log.began % 1_000_000);
        let flags = OpenFlags {
            read: true,
            write: self.phase.writes(),
            create: self.phase.writes(),
            ..OpenFlags::default()
        };
        let fd = host.open(&self.path, flags).await?;
        for nth in 0..self.operations {
            let at = if self.phase.random() {
                random.below(self.blocks)
            } else {
                nth
            };
            let began = host.gettimeofday();
            let n = match (self.phase.writes(), self.phase.random()) {
                (true, true) => host.write_at(fd, &buf, at * self.block, self.block).await?,
                (true, false) => host.write(fd, &buf, self.block).await?,
                (false, true) => {
                    host.read_at(fd, &mut buf, at * self.block, self.block)
                        .await?
                }
                (false, false) => host.read(fd, &mut buf, self.block).await?,
            };
            let us = host.gettimeofday().saturating_sub(began);
            if n != self.block {
                return Err(HostError::Io(self.path.clone()));
            }
            host.compute(BLOCK_NS).await;
            log.blocks += 1;
            log.bytes += n;
            log.total_us += us;
            log.longest_us = log.longest_us.max(us);
            for (count, slow) in log.slow.iter_mut().zip(SLOW_US) {
                *count += u64::from(us > slow);
            }
        }
        if self.phase.writes() {
            host.sync(fd, false).await?;
        }
        host.close(fd).await?;
        log.ended = host.gettimeofday();
        Ok(log.report())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::Command;
    use crate::script::{Step, parse};
    use crate::testing::{MemoryHost, block_on};

    fn program(line: &str) -> Tiobench {
        match &parse(line).unwrap_or_else(|e| panic!("{line}: {e}")).steps[0] {
            Step::Foreground(p) => match &p.commands[0] {
                Command::Tiobench(t) => t.clone(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_of_the_published_runs() {
        let t = program("tiobench --dir /mnt/t --numruns 1 --size 15944 --block 4096 --threads 16");
        assert_eq!((t.size, t.block, t.runs), (15_944, 4096, 1));
        assert_eq!((t.children(), t.files()), (16, 16));
        let thread = t.thread(Phase::RandRead, 16, 3);
        assert_eq!((thread.blocks, thread.operations), (996 * 256, 250));
        assert_eq!(program("tiobench --size=64").threads, [1, 2, 4, 8]);
    }

    #[test]
    fn what_is_not_accepted_is_named_and_placed() {
        for (line, place) in [
            ("tiobench", "tiobench"),
            ("tiobench --threads 4", "tiobench"),
            ("tiobench --size x", "x"),
            ("tiobench --size 0", "0"),
            ("tiobench --size +1", "+1"),
            ("tiobench --size=1e3", "1e3"),
            ("tiobench --size", "--size"),
            ("tiobench --size 9 --threads 257", "257"),
            ("tiobench --size 9 --threads 16", "16"),
            ("tiobench --size 9 -t 16", "-t"),
            ("tiobench --size 9 --sync", "--sync"),
            ("tiobench --size 9 --nofrag=1", "--nofrag=1"),
            ("tiobench --size 9 --dir ''", "''"),
        ] {
            let e = parse(line).expect_err(line);
            assert_eq!(&line[e.span.clone()], place, "{line}: {e}");
            assert!(!e.accepted.is_empty());
        }
    }

    #[test]
    fn threads_of_a_phase_are_timed_together() {
        let one = Log {
            began: 100,
            ended: 1_000_100,
            bytes: 1 << 20,
            blocks: 256,
            total_us: 2560,
            longest_us: 40,
            slow: [0; 2],
        };
        let two = Log {
            began: 50,
            ended: 2_000_050,
            longest_us: 3_000_000,
            slow: [1, 0],
            ..one
        };
        let mut all = Log::default();
        for log in [one, two] {
            all.add(&Log::read(&log.report()));
        }
        assert_eq!(all.rate(), 1.0, "two MiB in two seconds");
        let mut report = Report::default();
        figures(&mut report, "seqread", "-2", &[all]);
        let get = |name: &str| {
            let found = report.metrics.iter().find(|(n, ..)| n == name);
            found.map(|(_, _, v)| *v)
        };
        assert_eq!(get("seqread_min-2"), Some(1.0));
        assert_eq!(get("seqread_latency_max-2"), Some(3000.0));
        assert_eq!(get("seqread_over_2s-2"), Some(100.0 / 512.0));
    }

    #[test]
    fn a_run_writes_and_reads_its_files_and_removes_them() {
        let script = parse("tiobench --size 2 --threads 2 --random 8 --dir d").unwrap();
        let Step::Foreground(p) = &script.steps[0] else {
            panic!("{script:?}")
        };
        let host = MemoryHost::default();
        let session = script.session();
        let report = block_on(p.commands[0].run(&host, &session)).unwrap();
        assert_eq!(report.metrics.len(), 24);
        assert!(report.metrics.iter().all(|(_, _, v)| v.is_finite()));
        assert!(!host.exists("d/_000_tiotest"));
    }
}
