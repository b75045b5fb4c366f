//! `mapped-file-stream PROCESSES BYTES`: a burst of page-cache allocations at memory speed
//! (docs/reference/workloads.md#tunable-watermarks).
//!
//! Each process makes a temporary file, unlinks it, extends it to the size (a hole), maps it shared
//! for reading and writing with random-access advice, and, when all are ready, loads one byte of
//! every page in order. Each load is a page fault that allocates one page; nothing is read from a
//! disk and no page becomes dirty.
//!
//! With one process the program itself streams; with more it forks them. Figures are then sums over
//! the processes, except `real` and the longest allocation, which are maxima.

use crate::error::CommandError;
use crate::host::{Advice, Host, HostResult, Map, OpenFlags, Task, Word};
use crate::program::{Program, scaled};
use crate::report::{Metric, Report};
use crate::session::Session;
use crate::shell;
use crate::units;

const PAGE: u64 = 4096;
/// Pages touched by one call of the host.
const CHUNK: u64 = 256;
/// The largest file in bytes: its page table takes 64 MiB of the world's own memory.
const MAX_SIZE: u64 = 64 << 30;
const MAX_PROCESSES: u64 = 128;

const ACCEPTED: &str = "mapped-file-stream PROCESSES BYTES, such as `mapped-file-stream 1 $((1024*1024*128))`; \
     1 to 128 processes of 4096 bytes to 64 GiB each";

/// A parsed command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedFileStream {
    /// The number of processes.
    pub processes: u64,
    /// Bytes of each process's file, in whole pages.
    pub bytes: u64,
}

/// One process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    nth: u64,
    bytes: u64,
}

impl Task for MappedFileStream {
    const NAME: &'static str = "mapped-file-stream";

    /// Runs the program: one process streams itself, several are forked. Returns the sums of their
    /// figures, but measures time and system-wide counters once for all, and takes the maximum of
    /// the longest allocations.
    async fn run<H: Host>(&self, host: &H, session: &Session) -> HostResult<Report> {
        let stream = |nth| Stream {
            nth,
            bytes: self.bytes,
        };
        if self.processes == 1 {
            return stream(0).run(host, session).await;
        }
        let children = (0..self.processes).map(stream);
        // The clock in nanoseconds, and the counters of the system.
        let began = (host.now(), host.usage()?);
        let mut all = Report::default();
        let mut longest = 0.0_f64;
        for report in host.fork(children.collect()).await? {
            let of = report.metrics.iter().find(|m| m.0 == LONGEST);
            longest = of.map_or(longest, |m| longest.max(m.2));
            all.add(report);
        }
        // System-wide counters were counted by each process, so they are taken once here.
        let now = host.usage()?;
        for (name, unit, value) in &mut all.metrics {
            *value = match name.as_str() {
                "real" => (host.now() - began.0) as f64 / MS,
                "page_fault" => (now.page_faults - began.1.page_faults) as f64,
                "kswapd_wakeup" => (now.kswapd_wakeups - began.1.kswapd_wakeups) as f64,
                "direct_reclaim" => (now.direct_reclaims - began.1.direct_reclaims) as f64,
                LONGEST => longest,
                _ => *value,
            };
            debug_assert!(!unit.is_empty());
        }
        Ok(all)
    }
}

impl Program for MappedFileStream {
    const USAGE: &'static str = ACCEPTED;

    const METRICS: &'static [Metric] = &[
        Metric::new(
            "real",
            "ms",
            "Time of mapped-file-stream from its start to its end, as time(1) reports it.",
        ),
        Metric::new(
            "user",
            "ms",
            "CPU time of mapped-file-stream's own code, over its processes.",
        ),
        Metric::new(
            "sys",
            "ms",
            "CPU time of the kernel on mapped-file-stream's behalf, over its processes.",
        ),
        Metric::new(
            "page_fault",
            "faults",
            "Page faults while mapped-file-stream ran.",
        ),
        Metric::new(
            "kswapd_wakeup",
            "events",
            "Requests to wake kswapd while mapped-file-stream ran, of every task: events of \
             mm_vmscan_wakeup_kswapd. Up to 2.6.37 a kswapd that is awake gets further \
              requests, so this is not the number of its wake-ups (\"ftrace vmscan: Kswapd \
              wakeups\").",
        ),
        Metric::new(
            "direct_reclaim",
            "events",
            "Entries into direct reclaim while mapped-file-stream ran, of every task.",
        ),
        Metric::new(
            LONGEST,
            "us",
            "The longest page allocation of mapped-file-stream.",
        )
        .beside_watermarks(),
    ];

    /// Parses the two operands: the number of processes, and the bytes of each one's file, rounded
    /// up to whole pages.
    fn parse(name: &shell::Word, operands: &[shell::Word]) -> Result<Self, CommandError> {
        let [processes, bytes] = operands else {
            let at = operands.get(2).unwrap_or(name);
            let what = format!("{} operands instead of two", operands.len());
            return Err(CommandError::new(at.span.clone(), what, ACCEPTED));
        };
        let number = |word: &shell::Word, least: u64, most: u64| {
            let n = units::whole(&word.text);
            n.filter(|n| (least..=most).contains(n)).ok_or_else(|| {
                let what = format!("`{}` is out of range or not a number", word.text);
                CommandError::new(word.span.clone(), what, ACCEPTED)
            })
        };
        Ok(Self {
            processes: number(processes, 1, MAX_PROCESSES)?,
            bytes: number(bytes, PAGE, MAX_SIZE)?.next_multiple_of(PAGE),
        })
    }

    /// Returns the number of forked processes: a single stream runs in the program itself.
    fn children(&self) -> u64 {
        if self.processes > 1 {
            self.processes
        } else {
            0
        }
    }

    fn files(&self) -> u64 {
        self.processes
    }

    /// Returns the program with files of `factor` times the bytes, rounded to whole pages.
    fn with_bursts(&self, factor: f64) -> Option<Self> {
        Some(Self {
            bytes: scaled(self.bytes, factor, PAGE),
            ..self.clone()
        })
    }
}

const LONGEST: &str = "worst_page_allocation_latency";
const MS: f64 = 1e6;

impl Task for Stream {
    const NAME: &'static str = MappedFileStream::NAME;

    /// Runs one process: makes and unlinks a sparse file, maps it, and loads from every page in
    /// order, so that each load allocates one page of page cache. Returns its times in ms, the
    /// events of the system meanwhile, and its longest allocation in microseconds.
    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        // Like time(1), measured over the whole program.
        let before = host.usage()?;
        let began = host.now();
        let path = format!("mapped-file-stream.{}", self.nth);
        let fd = host.open(&path, OpenFlags::EMPTY_FILE).await?;
        host.unlink(&path).await?;
        host.truncate(fd, self.bytes).await?;
        let map = host
            .map(Map::Shared(fd), self.bytes, Advice::Random)
            .await?;
        let pages = self.bytes / PAGE;
        let load = Word {
            expect: None,
            store: None,
        };
        let mut at = 0;
        while at < pages {
            let n = CHUNK.min(pages - at);
            host.touch(map, at, n, load).await?;
            at += n;
        }
        host.unmap(map).await?;
        host.close(fd).await?;
        let real = host.now().saturating_sub(began);
        let after = host.usage()?;
        let count = |now: u64, then: u64| (now - then) as f64;
        let ms = |now: u64, then: u64| (now - then) as f64 / MS;
        Ok(Report {
            metrics: vec![
                ("real".into(), "ms", real as f64 / MS),
                ("user".into(), "ms", ms(after.user_ns, before.user_ns)),
                ("sys".into(), "ms", ms(after.sys_ns, before.sys_ns)),
                (
                    "page_fault".into(),
                    "faults",
                    count(after.page_faults, before.page_faults),
                ),
                (
                    "kswapd_wakeup".into(),
                    "events",
                    count(after.kswapd_wakeups, before.kswapd_wakeups),
                ),
                (
                    "direct_reclaim".into(),
                    "events",
                    count(after.direct_reclaims, before.direct_reclaims),
                ),
                (LONGEST.into(), "us", after.longest_alloc_ns as f64 / 1000.0),
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::script::parse;

    #[test]
    fn operands() {
        let script = parse("mapped-file-stream 1 $((1024*1024*64))").unwrap();
        assert_eq!((script.children(), script.files_made()), (0, 1));
        let script = parse("mapped-file-stream 3 4097").unwrap();
        assert_eq!((script.children(), script.files_made()), (3, 3));
        for (line, place) in [
            ("mapped-file-stream 1", "mapped-file-stream"),
            ("mapped-file-stream 0 4096", "0"),
            ("mapped-file-stream 129 4096", "129"),
            ("mapped-file-stream 1 4095", "4095"),
            ("mapped-file-stream 1 64M", "64M"),
            ("mapped-file-stream 1 4096 x", "x"),
        ] {
            let e = parse(line).expect_err(line);
            assert_eq!(&line[e.span.clone()], place, "{line}: {e}");
        }
    }
}
