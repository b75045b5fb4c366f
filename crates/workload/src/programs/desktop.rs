//! `desktop`: an interactive task that shows whether a machine becomes unresponsive.
//!
//! `desktop [-w SIZE] [-p SIZE] [-n PAGES] [-f PAGES] [-c TIME] [-i TIME] [-l TIME] [-s TIME] [-t
//! TIME]`
//!
//! The task has `-w` bytes of anonymous memory (its working set) and maps `-p` bytes of a file (its
//! program text and data), which exists beforehand. It first touches all of both, with stores to
//! the former and loads from the latter, without measuring. Then an event arrives every `-i`. To
//! respond, the task touches `-n` random pages of the two and computes for `-c`. In the first
//! response of each second it also touches `-f` pages that were never touched before. They come
//! from a mapping of an eighth of the working set; when that is used up it is unmapped and a new
//! one is made, like a window that closes and one that opens.
//!
//! A response time is that from the arrival of the event to the end of the response. Events that
//! arrive while the task is busy are all answered by its next response, each with its own time: a
//! stall of a second counts as all the events that fell into it, and not as one. A response is late
//! if it took longer than `-l`. Events of the first `-s` after the program's start are responded to
//! but not measured: `desktop -s 5s & sleep 5; dd …` measures only beside dd.
//!
//! The task ends `-t` after its first event. Without `-t` it has to run beside other commands
//! (`desktop & dd …`) and is stopped when the script ends, like every background process; an
//! event that still waits for its response counts with the time waited so far.
//!
//! Sizes are bytes with an optional K, M or G (powers of 1024), times whole numbers with us, ms, s
//! or m. The choice of pages is seeded from the wall clock at the start, like the names in
//! [`fs_mark`](crate::programs::fs_mark).

use crate::error::CommandError;
use crate::host::{Advice, Host, HostResult, Map, MapId, OpenFlags, Task};
use crate::measure::Events;
use crate::options::{Style, Syntax};
use crate::program::{ExistingFile, Program};
use crate::report::{Median, Medians, Metric, Report};
use crate::session::Session;
use crate::shell;
use crate::units::{SIZES, TIMES};
use trace::random::Rng;

const PAGE: u64 = 4096;
/// The largest mapping in bytes: its page table takes 64 MiB of the world's own memory.
const MAX_SIZE: u64 = 64 << 30;
/// The longest time in nanoseconds: a day.
const MAX_TIME: u64 = 86_400_000_000_000;
/// The file with the program text and data; all desktops of a run map the same one.
const TEXT: &str = "desktop.text";
const SECOND: u64 = 1_000_000_000;

const USAGE: &str = "desktop [-w SIZE] [-p SIZE] [-n PAGES] [-f PAGES] [-c TIME] [-i TIME] \
     [-l TIME] [-s TIME] [-t TIME]; SIZE is 4K to 64G, TIME a whole number of us, ms, s or m up to a day, PAGES \
     at most 1000000";

const OPTIONS: Syntax = Syntax {
    values: &[
        ("-w", "-w"),
        ("-p", "-p"),
        ("-n", "-n"),
        ("-f", "-f"),
        ("-c", "-c"),
        ("-i", "-i"),
        ("-l", "-l"),
        ("-s", "-s"),
        ("-t", "-t"),
    ],
    unknown: "desktop has no option `{option}`",
    ..Syntax::new(Style::Words, USAGE)
};

/// A parsed command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Desktop {
    /// `-w`: bytes of anonymous memory, in whole pages.
    pub working_set: u64,
    /// `-p`: bytes of the mapped file, in whole pages.
    pub text: u64,
    /// `-n`: pages touched in a response.
    pub touches: u64,
    /// `-f`: new pages touched per second.
    pub fresh: u64,
    /// `-c`: nanoseconds of computation in a response.
    pub compute_ns: u64,
    /// `-i`: nanoseconds from event to event.
    pub interval_ns: u64,
    /// `-l`: the longest response in nanoseconds that is not late.
    pub late_ns: u64,
    /// `-s`: nanoseconds after the start during which events are not measured.
    pub settle_ns: u64,
    /// `-t`: nanoseconds during which events arrive; `None`: until the script ends.
    pub runtime_ns: Option<u64>,
}

impl Default for Desktop {
    /// Returns the options that `desktop` has when its command line gives none: a working set of
    /// 100 MiB, an event every 20 ms, and events until the script ends.
    fn default() -> Self {
        Self {
            working_set: 100 << 20,
            text: 32 << 20,
            touches: 64,
            fresh: 16,
            compute_ns: 1_000_000,
            interval_ns: 20_000_000,
            // The limit up to which users perceive a reaction as immediate (Miller 1968, Nielsen
            // 1993).
            late_ns: 100_000_000,
            settle_ns: 0,
            runtime_ns: None,
        }
    }
}

impl Task for Desktop {
    const NAME: &'static str = "desktop";

    /// Runs the interactive task: touches all of its memory once, then responds to an event every
    /// `interval_ns` until `runtime_ns` have passed. Response times go to `session`, so the
    /// returned report is empty.
    async fn run<H: Host>(&self, host: &H, session: &Session) -> HostResult<Report> {
        // Events that arrive before this time are responded to but not measured (`-s`).
        let settled = host.now() + self.settle_ns;
        let read = OpenFlags {
            read: true,
            ..OpenFlags::default()
        };
        let fd = host.open(TEXT, read).await?;
        let text = host
            .map(Map::Private(fd), self.text, Advice::Normal)
            .await?;
        host.close(fd).await?;
        let own = host
            .map(Map::Anon, self.working_set, Advice::Normal)
            .await?;
        let mut memory = Memory {
            text,
            own,
            own_pages: self.working_set / PAGE,
            all_pages: (self.working_set + self.text) / PAGE,
            random: Rng::new(host.gettimeofday()),
        };
        for page in 0..memory.all_pages {
            memory.touch(host, page).await?;
        }
        let mut fresh = Fresh::new(self);
        let began = host.now();
        let mut events = Events {
            first: began,
            interval: self.interval_ns,
            end: self.runtime_ns.map(|t| began + t),
            late: self.late_ns,
        };
        let client = session.expect_responses();
        // The second of the run in which new pages were touched last.
        let mut second = None;
        while events.end.is_none_or(|end| events.first < end) {
            // `events.first` is the arrival of the first event without a response.
            let measured = Some(events).filter(|e| e.first >= settled);
            session.await_response(client, measured);
            let now = host.now();
            if now < events.first {
                host.sleep(events.first - now).await;
            }
            // The response answers all events that have arrived by now.
            let answered = events.until(host.now().max(events.first));
            let current = (events.first - began) / SECOND;
            if second.replace(current) != Some(current) {
                fresh.touch(host, self.fresh).await?;
            }
            for _ in 0..self.touches {
                let page = memory.random.below(memory.all_pages);
                memory.touch(host, page).await?;
            }
            host.compute(self.compute_ns).await;
            // Nanoseconds of unmeasured time left, and how many of the answered events fall into
            // it.
            let before = settled.saturating_sub(events.first);
            let skipped = before.div_ceil(events.interval).min(answered);
            events.first += skipped * events.interval;
            session.respond(&events, answered - skipped, host.now());
            events.first += (answered - skipped) * events.interval;
        }
        session.await_response(client, None);
        fresh.let_go(host).await?;
        host.unmap(memory.own).await?;
        host.unmap(memory.text).await?;
        Ok(Report::default())
    }
}

impl Program for Desktop {
    const USAGE: &'static str = USAGE;

    const METRICS: &'static [Metric] = &[
        Metric::new(
            "responses",
            "responses",
            "Events that desktop responded to, or that waited for its response at the end.",
        ),
        Metric::new(
            "late_responses",
            "responses",
            "Responses of desktop that took longer than its limit (-l, 100 ms if not given).",
        ),
        Metric::new(
            "response",
            "us",
            "Time from an event to desktop's response: response_mean, and p50, p90, p95, p99, p999 and max over all events.",
        ),
    ];

    const MEDIANS: Option<Medians> = Some(Medians {
        title: "Response time of the interactive task, ms",
        of: "responses",
        columns: &[
            Median::new("p50", "response_p50", 1000.0, 2),
            Median::new("p95", "response_p95", 1000.0, 2),
            Median::new("p99", "response_p99", 1000.0, 2),
            Median::new("max", "response_max", 1000.0, 1),
            Median::new("late", "late_responses", 1.0, 0),
            Median::new("of", "responses", 1.0, 0),
        ],
    });

    /// Parses the options into a `Desktop`: sizes become bytes in whole pages, times nanoseconds.
    /// Options that are not given keep their defaults.
    fn parse(_: &shell::Word, operands: &[shell::Word]) -> Result<Self, CommandError> {
        let mut d = Self::default();
        for value in OPTIONS.read(operands) {
            let value = value?;
            let size = || {
                let bytes = value.scaled(SIZES, PAGE..=MAX_SIZE)?;
                Ok::<_, CommandError>(bytes.next_multiple_of(PAGE))
            };
            let pages = || value.number(0..=1_000_000);
            let time = |least: u64| value.scaled(TIMES, least..=MAX_TIME);
            match value.option {
                "-w" => d.working_set = size()?,
                "-p" => d.text = size()?,
                "-n" => d.touches = pages()?,
                "-f" => d.fresh = pages()?,
                "-c" => d.compute_ns = time(0)?,
                "-i" => d.interval_ns = time(1000)?,
                "-l" => d.late_ns = time(1000)?,
                "-s" => d.settle_ns = time(0)?,
                _ => d.runtime_ns = Some(time(1000)?),
            }
        }
        Ok(d)
    }

    fn existing_files(&self) -> Vec<ExistingFile> {
        vec![self.existing_file()]
    }

    fn endless(&self) -> bool {
        self.runtime_ns.is_none()
    }
}

impl Desktop {
    /// Returns the file that `desktop` maps as its program text and data. The file must exist
    /// before the run.
    fn existing_file(&self) -> ExistingFile {
        ExistingFile {
            path: TEXT.to_owned(),
            len: self.text,
        }
    }
}

/// The working set and the file.
struct Memory {
    text: MapId,
    own: MapId,
    own_pages: u64,
    all_pages: u64,
    random: Rng,
}

impl Memory {
    /// Touches one page of the task's memory. `page` counts from 0 over both mappings: the working
    /// set comes first and is stored to, the mapped file follows and is loaded from.
    async fn touch<H: Host>(&self, host: &H, page: u64) -> HostResult<()> {
        let (map, page, store) = if page < self.own_pages {
            (self.own, page, Some(1))
        } else {
            (self.text, page - self.own_pages, None)
        };
        let word = crate::host::Word {
            expect: None,
            store,
        };
        host.touch(map, page, 1, word).await
    }
}

/// Memory that was never touched.
struct Fresh {
    map: Option<MapId>,
    used: u64,
    pages: u64,
}

impl Fresh {
    /// Makes the state before the first new page: nothing is mapped yet. A mapping will have an
    /// eighth of the working set, but at least the pages of one second (`-f`).
    fn new(d: &Desktop) -> Self {
        Self {
            map: None,
            used: 0,
            pages: (d.working_set / PAGE / 8).max(d.fresh).max(1),
        }
    }

    /// Stores to the next `n` pages that were never touched. If fewer than `n` are left in the
    /// mapping, unmaps it and maps a new one, like a window that closes and one that opens.
    async fn touch<H: Host>(&mut self, host: &H, n: u64) -> HostResult<()> {
        if n == 0 {
            return Ok(());
        }
        if self.used + n > self.pages {
            self.let_go(host).await?;
        }
        let map = match self.map {
            Some(map) => map,
            None => {
                let made = host.map(Map::Anon, self.pages * PAGE, Advice::Normal);
                *self.map.insert(made.await?)
            }
        };
        let word = crate::host::Word {
            expect: None,
            store: Some(1),
        };
        host.touch(map, self.used, n, word).await?;
        self.used += n;
        Ok(())
    }

    /// Unmaps the current mapping, if there is one, and frees its pages.
    async fn let_go<H: Host>(&mut self, host: &H) -> HostResult<()> {
        self.used = 0;
        match self.map.take() {
            Some(map) => host.unmap(map).await,
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
