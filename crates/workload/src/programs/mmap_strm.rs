//! `mmap-strm`: streaming stores to mapped memory, in two stages
//! (docs/reference/workloads.md#mmap-strm).
//!
//! Stage 1: each of T processes maps a sparse file and stores a word into every page, once. Stage
//! 2: T processes each store in several passes through a mapped file and check the values of the
//! previous pass, while T others do the same in anonymous memory. The harness of 2011 scaled all
//! sizes by the machine's memory; the defaults are its values.

use crate::error::CommandError;
use crate::host::{Advice, Host, HostResult, Map, OpenFlags, Task, Word};
use crate::options::{Style, Syntax};
use crate::program::Program;
use crate::report::Report;
use crate::session::Session;
use crate::shell;
use crate::units;
use std::ops::RangeInclusive;

const PAGE: u64 = 4096;
/// Pages touched by one call of the host.
const CHUNK: u64 = 256;
/// The accepted memory sizes: more than 2^50 bytes fit no machine and would overflow the sums
/// below.
const MEMORY: RangeInclusive<u64> = PAGE..=1 << 50;

/// A parsed command line.
#[derive(Debug, Clone, PartialEq)]
pub struct MmapStrm {
    /// Processes of each kind.
    threads: u32,
    /// The directory of the files.
    dir: String,
    /// Tenths of memory that stage 1 writes; 0: no stage 1.
    stream_tenths: u64,
    /// Tenths of memory that stage 2 maps; 0: no stage 2.
    mixed_tenths: u64,
    /// Percentage of files in stage 2.
    file_percent: u64,
    file_passes: u64,
    anon_passes: u64,
    /// The memory in bytes to scale by; `None`: the machine's.
    memory: Option<u64>,
}

/// One process.
#[derive(Debug, Clone, PartialEq)]
pub struct Worker {
    kind: Kind,
    nth: u32,
    of: MmapStrm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stream,
    File,
    Anon,
}

const USAGE: &str = "mmap-strm [-t PROCESSES] [-d DIR] [--stream MEMORIES] [--mixed MEMORIES] \
     [--file-share PERCENT] [--file-passes N] [--anon-passes N] [--memory BYTES[K|M|G]]; MEMORIES is a \
     multiple of the machine's memory with at most one decimal";

const OPTIONS: Syntax = Syntax {
    values: &[
        ("-t", "-t"),
        ("-d", "-d"),
        ("--stream", "--stream"),
        ("--mixed", "--mixed"),
        ("--file-share", "--file-share"),
        ("--file-passes", "--file-passes"),
        ("--anon-passes", "--anon-passes"),
        ("--memory", "--memory"),
    ],
    unknown: "mmap-strm has no option `{option}`",
    no_value: ("`{option}` is unknown or has no value", ""),
    ..Syntax::new(Style::Pairs, USAGE)
};

impl Task for MmapStrm {
    const NAME: &'static str = "mmap-strm";

    /// Runs the stages one after the other: each forks `threads` processes of each of its kinds and
    /// waits for them. Returns the sum of their reports.
    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        let mut all = Report::default();
        for kinds in self.stages() {
            let worker = |kind| move |nth| self.worker(kind, nth);
            let children = kinds.iter().flat_map(|&k| (0..self.threads).map(worker(k)));
            for report in host.fork(children.collect()).await? {
                all.add(report);
            }
        }
        Ok(all)
    }
}

impl Program for MmapStrm {
    const USAGE: &'static str = USAGE;

    /// Parses the options; those that are not given keep the values of the harness of 2011.
    fn parse(name: &shell::Word, operands: &[shell::Word]) -> Result<Self, CommandError> {
        let mut s = Self {
            threads: 4,
            dir: "mmap-strm".into(),
            stream_tenths: 100,
            mixed_tenths: 30,
            file_percent: 70,
            file_passes: 10,
            anon_passes: 5,
            memory: None,
        };
        for value in OPTIONS.read(operands) {
            let value = value?;
            match value.option {
                "-t" => s.threads = value.number(1..=128)? as u32,
                "-d" => s.dir = value.text.to_owned(),
                "--stream" => s.stream_tenths = value.read(tenths(value.text))?,
                "--mixed" => s.mixed_tenths = value.read(tenths(value.text))?,
                "--file-share" => s.file_percent = value.number(0..=100)?,
                "--file-passes" => s.file_passes = value.number(1..=1000)?,
                "--anon-passes" => s.anon_passes = value.number(1..=1000)?,
                _ => s.memory = Some(value.scaled(units::SIZES, MEMORY)?),
            }
        }
        if s.stream_tenths == 0 && s.mixed_tenths == 0 {
            let what = "both stages have zero work";
            return Err(CommandError::new(name.span.clone(), what, USAGE));
        }
        Ok(s)
    }

    /// Returns the number of processes in the larger stage.
    fn children(&self) -> u64 {
        let kinds = self.stages().iter().map(|kinds| kinds.len()).max();
        kinds.unwrap_or(0) as u64 * u64::from(self.threads)
    }

    /// Returns the number of mapped files: one for each process of a stage that has processes of a
    /// file kind.
    fn files(&self) -> u64 {
        let stages = self.stages();
        let with_file = stages.iter().filter(|kinds| kinds[0] != Kind::Anon);
        with_file.count() as u64 * u64::from(self.threads)
    }
}

impl MmapStrm {
    /// Returns the kinds of processes in each stage, in the order in which the stages run. A stage
    /// of size 0 is left out, and so is a kind of stage 2 that has no share of it.
    fn stages(&self) -> Vec<&'static [Kind]> {
        let mut stages: Vec<&[Kind]> = Vec::new();
        if self.stream_tenths > 0 {
            stages.push(&[Kind::Stream]);
        }
        if self.mixed_tenths > 0 {
            stages.push(match self.file_percent {
                0 => &[Kind::Anon],
                100 => &[Kind::File],
                _ => &[Kind::File, Kind::Anon],
            });
        }
        stages
    }

    /// Makes the `nth` process of a kind; `nth` selects its file.
    fn worker(&self, kind: Kind, nth: u32) -> Worker {
        let of = self.clone();
        Worker { kind, nth, of }
    }
}

/// Parses a multiple of the machine's memory with at most one decimal, such as `1.5`, and returns
/// tenths; `None` if the text is something else or above 1000.
fn tenths(text: &str) -> Option<u64> {
    let whole = !text.starts_with('.') && !text.ends_with('.');
    units::decimal(text, 1).filter(|n| whole && *n <= 10_000)
}

impl Task for Worker {
    const NAME: &'static str = MmapStrm::NAME;

    /// Runs one process: maps its share of the stage's memory, and stores the number of the pass
    /// into every page in each pass. Checks that each still holds the number of the pass before (0
    /// before the first). Returns the number of stores.
    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        let s = &self.of;
        let memory = match s.memory {
            Some(bytes) => bytes,
            None => host.memory()?,
        };
        let (tenths, percent, passes) = match self.kind {
            Kind::Stream => (s.stream_tenths, 100, 1),
            Kind::File => (s.mixed_tenths, s.file_percent, s.file_passes),
            Kind::Anon => (s.mixed_tenths, 100 - s.file_percent, s.anon_passes),
        };
        // Tenths and percent: together thousandths of the memory.
        let total = u128::from(memory) * u128::from(tenths * percent) / 1000;
        let pages = (total as u64 / PAGE / u64::from(s.threads)).max(1);
        let map = match self.kind {
            Kind::Anon => host.map(Map::Anon, pages * PAGE, Advice::Normal).await?,
            Kind::Stream | Kind::File => {
                let what = if self.kind == Kind::Stream {
                    "stream"
                } else {
                    "mixed"
                };
                let path = format!("{}/{what}.{}", s.dir, self.nth);
                let fd = host.open(&path, OpenFlags::EMPTY_FILE).await?;
                host.truncate(fd, pages * PAGE).await?;
                let map = host
                    .map(Map::Shared(fd), pages * PAGE, Advice::Normal)
                    .await?;
                host.close(fd).await?;
                map
            }
        };
        for pass in 1..=passes {
            let word = Word {
                expect: Some(pass - 1),
                store: Some(pass),
            };
            let mut at = 0;
            while at < pages {
                let n = CHUNK.min(pages - at);
                host.touch(map, at, n, word).await?;
                at += n;
            }
        }
        host.unmap(map).await?;
        let name = match self.kind {
            Kind::Stream => "stream",
            Kind::File => "mixed file",
            Kind::Anon => "mixed anonymous",
        };
        Ok(Report {
            metrics: vec![(format!("{name} stores"), "stores", (pages * passes) as f64)],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::Command;
    use crate::script::{Script, Step, parse};
    use crate::testing::{MemoryHost, block_on};

    fn first(script: &Script) -> &Command {
        match &script.steps[0] {
            Step::Foreground(p) | Step::Background(p) => &p.commands[0],
            Step::Wait => panic!("{script:?}"),
        }
    }

    /// The stages follow each other, their figures are sums over the processes, and the program can
    /// run beside others.
    #[test]
    fn stages_are_forked() {
        let line = "mmap-strm -t 2 --stream 2 --mixed 1 --file-passes 2 --anon-passes 3 \
                    & dd if=/dev/zero of=x count=1 && mmap-strm -t 1 --mixed 0";
        let script = parse(line).unwrap();
        assert_eq!((script.children(), script.files_made()), (4 + 1, 4 + 1 + 1));
        let host = MemoryHost::default();
        let session = script.session();
        let report = block_on(first(&script).run(&host, &session)).unwrap();
        let forks: Vec<String> = {
            let calls = host.calls.borrow();
            calls
                .iter()
                .filter(|c| c.starts_with("fork"))
                .cloned()
                .collect()
        };
        assert_eq!(forks, ["fork 2", "fork 4"]);
        // 256 pages of memory: 2 × 256 in the stream, 89 × 2 passes and 38 × 3 passes a process.
        let figures: Vec<(&str, f64)> = report.metrics.iter().map(|m| (&m.0[..], m.2)).collect();
        assert_eq!(
            figures,
            [
                ("stream stores", 512.0),
                ("mixed file stores", 2.0 * 89.0 * 2.0),
                ("mixed anonymous stores", 2.0 * 38.0 * 3.0),
            ]
        );
    }

    #[test]
    fn what_is_not_accepted_is_named_and_placed() {
        for (line, place) in [
            ("mmap-strm -t 0", "0"),
            ("mmap-strm -t 129", "129"),
            ("mmap-strm -t", "-t"),
            ("mmap-strm -x 1", "-x"),
            ("mmap-strm --stream 1.25", "1.25"),
            ("mmap-strm --mixed -1", "-1"),
            ("mmap-strm --file-share 101", "101"),
            ("mmap-strm --memory 1Q", "1Q"),
            ("mmap-strm --stream 0 --mixed 0", "mmap-strm"),
        ] {
            let e = parse(line).expect_err(line);
            assert_eq!(&line[e.span.clone()], place, "{line}: {e}");
        }
    }
}
