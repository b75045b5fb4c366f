//! Processes that fill anonymous memory: `stress-ng --vm N --vm-bytes SIZE -t TIME` and
//! `usemem [-n N] [-r TIMES] SIZE` of vm-scalability.
//!
//! stress-ng's workers map their share of SIZE, write it page by page, unmap it and begin anew
//! until the time is over; with `--vm-keep` the mapping stays, with `--vm-hang S` each round
//! sleeps. Its methods, which differ in the values that they write, are one here. A process of
//! usemem maps SIZE and writes it, as often as `-r` says.

use crate::error::CommandError;
use crate::host::{Advice, Host, HostResult, Map, MapId, Task, Word as Stored};
use crate::options::{OptionValue, Style, Syntax};
use crate::program::{MOST_PROCESSES, Program};
use crate::report::{Metric, Report};
use crate::session::Session;
use crate::shell::Word;
use crate::units::{self, Suffixes};
use std::ops::RangeInclusive;

const PAGE: u64 = 4096;
/// Pages that are written between two looks at the time.
const CHUNK: usize = 256;
/// The accepted sizes: more than 2^50 bytes fit no machine.
const SIZES: RangeInclusive<u64> = PAGE..=1 << 50;
/// The most rounds of usemem.
const MOST_ROUNDS: u64 = 1_000_000;
/// The longest time, in nanoseconds: a day.
const MOST_NS: u64 = 86_400_000_000_000;
/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

const BYTES: Suffixes = &[
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("T", 1 << 40),
];
const TIMES: Suffixes = &[
    ("", SECOND),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3600 * SECOND),
];

const STRESS_NG: &str =
    "stress-ng --vm N [--vm-bytes SIZE|P%] [--vm-keep] [--vm-hang SECONDS] -t TIME";
const USEMEM: &str = "usemem [-n PROCESSES] [-r TIMES] SIZE[k|m|g]";

const OF_STRESS_NG: Syntax = Syntax {
    values: &[
        ("--vm", "-m"),
        ("--vm-bytes", "--vm-bytes"),
        ("--vm-hang", "--vm-hang"),
        ("--vm-method", "--vm-method"),
        ("--timeout", "-t"),
    ],
    flags: &["--vm-keep", "-q", "--quiet", "--metrics", "--metrics-brief"],
    unknown: "`{option}`: of stress-ng's stressors there is --vm alone",
    operand: "`{word}` is not an option of stress-ng",
    ..Syntax::new(Style::Inline, STRESS_NG)
};

const OF_USEMEM: Syntax = Syntax {
    values: &[("-n", "--nproc"), ("-r", "--repeat")],
    unknown: "usemem has no option `{option}` here",
    operand: "",
    ..Syntax::new(Style::Inline, USEMEM)
};

/// Bytes of memory: so many, or a share of the machine's in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Amount {
    Bytes(u64),
    Percent(u64),
}

/// A process that fills memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Filler {
    amount: Amount,
    /// Processes that share a machine's percentage or stress-ng's bytes.
    sharers: u64,
    /// The most rounds.
    rounds: u64,
    /// The time after which no round begins and none goes on, in nanoseconds.
    limit_ns: u64,
    /// Whether the mapping stays from round to round.
    keep: bool,
    /// Sleep of each round before the memory is given back, in nanoseconds.
    hang_ns: u64,
}

impl Task for Filler {
    const NAME: &'static str = "stress-ng-vm";

    /// Fills the memory round by round, and returns the bytes that were written and their rate.
    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        let begun = host.now();
        let bytes = match self.amount {
            Amount::Bytes(bytes) => bytes,
            Amount::Percent(percent) => host.memory()? / 100 * percent,
        };
        let pages = (bytes / self.sharers).div_ceil(PAGE).max(1);
        let (mut map, mut written): (Option<MapId>, u64) = (None, 0);
        let over = || host.now() - begun >= self.limit_ns;
        for round in 0..self.rounds {
            let here = match map {
                Some(map) => map,
                None => host.map(Map::Anon, pages * PAGE, Advice::Normal).await?,
            };
            let stored = Stored {
                expect: None,
                store: Some(round + 1),
            };
            for first in (0..pages).step_by(CHUNK) {
                let chunk = (CHUNK as u64).min(pages - first);
                host.touch(here, first, chunk, stored).await?;
                written += chunk * PAGE;
                if over() {
                    break;
                }
            }
            if self.hang_ns > 0 && !over() {
                host.sleep(self.hang_ns).await;
            }
            map = Some(here).filter(|_| self.keep && !over());
            if map.is_none() {
                host.unmap(here).await?;
            }
            if over() {
                break;
            }
        }
        if let Some(map) = map {
            host.unmap(map).await?;
        }
        let figures = [("stress_bytes", "bytes"), ("stress_rate", "bytes/s")];
        Ok(Report::of_amount(
            written as f64,
            host.now() - begun,
            figures,
        ))
    }
}

/// The figures of both programs.
const METRICS: &[Metric] = &[
    Metric::new(
        "stress_bytes",
        "bytes",
        "Bytes of memory that stress-ng's or usemem's processes wrote.",
    ),
    Metric::new(
        "stress_rate",
        "bytes/s",
        "Bytes that these processes wrote per second, each counted over its own time.",
    ),
];

/// Runs `number` processes and adds up their figures.
async fn fill<H: Host>(host: &H, filler: Filler, number: u64) -> HostResult<Report> {
    let children = (0..number).map(|_| filler).collect();
    let mut all = Report::default();
    for report in host.fork(children).await? {
        all.add(report);
    }
    Ok(all)
}

/// `stress-ng --vm` with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StressNg {
    workers: u64,
    filler: Filler,
}

/// `usemem` with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usemem {
    processes: u64,
    filler: Filler,
}

impl Task for StressNg {
    const NAME: &'static str = "stress-ng";

    /// Runs the workers and returns the sum of their figures.
    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        fill(host, self.filler, self.workers).await
    }
}

impl Program for StressNg {
    const USAGE: &'static str = STRESS_NG;

    const METRICS: &'static [Metric] = METRICS;

    /// Parses the options. The number of workers and the time are required; the bytes are 256 MiB
    /// if they are not given, and shared by the workers as stress-ng shares them.
    fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
        let (mut workers, mut limit_ns, mut amount) = (None, None, Amount::Bytes(256 << 20));
        let (mut keep, mut hang_ns) = (false, 0);
        for value in OF_STRESS_NG.read(operands) {
            let value = value?;
            match value.option {
                "--vm" => workers = Some(value.number(1..=MOST_PROCESSES)?),
                "--vm-bytes" => amount = bytes(&value)?,
                "--vm-keep" => keep = true,
                "--vm-hang" => hang_ns = value.scaled(TIMES, 1..=MOST_NS)?,
                "--timeout" => limit_ns = Some(value.scaled(TIMES, 1..=MOST_NS)?),
                _ => {}
            }
        }
        let missing = |what: &str| CommandError::new(name.span.clone(), what, STRESS_NG);
        let workers = workers.ok_or_else(|| missing("stress-ng has no `--vm N`"))?;
        let limit_ns = limit_ns.ok_or_else(|| missing("stress-ng has no end time (-t)"))?;
        let filler = Filler {
            amount,
            sharers: workers,
            rounds: u64::MAX,
            limit_ns,
            keep,
            hang_ns,
        };
        Ok(Self { workers, filler })
    }

    fn children(&self) -> u64 {
        self.workers
    }
}

impl Task for Usemem {
    const NAME: &'static str = "usemem";

    /// Runs the processes and returns the sum of their figures.
    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        fill(host, self.filler, self.processes).await
    }
}

impl Program for Usemem {
    const USAGE: &'static str = USEMEM;

    /// Parses the options and the size, which each process maps.
    fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
        let (mut processes, mut rounds, mut amount) = (1, 1, None);
        for value in OF_USEMEM.read(operands) {
            let value = value?;
            match value.option {
                "-n" => processes = value.number(1..=MOST_PROCESSES)?,
                "-r" => rounds = value.number(1..=MOST_ROUNDS)?,
                _ if amount.is_none() => amount = Some(bytes(&value)?),
                _ => return Err(value.error("usemem has two sizes", USEMEM)),
            }
        }
        let what = || CommandError::new(name.span.clone(), "usemem has no size", USEMEM);
        let filler = Filler {
            amount: amount.ok_or_else(what)?,
            sharers: 1,
            rounds,
            limit_ns: u64::MAX,
            keep: true,
            hang_ns: 0,
        };
        Ok(Self { processes, filler })
    }

    fn children(&self) -> u64 {
        self.processes
    }
}

/// Parses a size such as `100M`, or a share of the machine's memory such as `80%`.
fn bytes(value: &OptionValue<'_>) -> Result<Amount, CommandError> {
    let percent = value.text.strip_suffix('%').map(units::whole);
    let amount = match percent {
        Some(percent) => percent
            .filter(|p| (1..=100).contains(p))
            .map(Amount::Percent),
        None => {
            let bytes = units::scaled(value.text, BYTES).filter(|n| SIZES.contains(n));
            bytes.map(Amount::Bytes)
        }
    };
    let accepted = "a size such as 100M, at least 4k, or a share of the memory such as 80%";
    amount.ok_or_else(|| value.error(format!("`{}` is not a size", value.text), accepted))
}

#[cfg(test)]
mod tests {
    use crate::host::Task;
    use crate::script::{Step, parse};
    use crate::testing::{MemoryHost, block_on};

    /// Runs the one program of a line, where a touch of a page takes a microsecond. Returns the
    /// bytes written and the host.
    fn run(line: &str) -> (f64, MemoryHost) {
        let script = parse(line).unwrap_or_else(|e| panic!("{line}: {e}"));
        let [Step::Foreground(process)] = &script.steps[..] else {
            panic!("{script:?}")
        };
        let host = MemoryHost::default();
        host.touch_ns.set(1000);
        let report = block_on(process.commands[0].run(&host, &script.session())).unwrap();
        (report.metrics[0].2, host)
    }

    #[test]
    fn usemem_writes_its_size_in_each_process() {
        let (bytes, host) = run("usemem -n 3 -r 2 10m");
        assert_eq!(bytes, 3.0 * 2.0 * f64::from(10 << 20));
        assert_eq!((host.count("map"), host.count("unmap")), (3, 3));
        assert_eq!(parse("usemem -n 3 1m").unwrap().children(), 3);
    }

    /// Workers share the bytes, map them anew in each round unless they keep them, and end at the
    /// time that was given.
    #[test]
    fn stress_ng_goes_on_until_its_time() {
        // A round of 2,560 pages takes 2.56 ms.
        let (bytes, host) = run("stress-ng --vm 1 --vm-bytes 10M -t 1s");
        let written = 256.0 * 4096.0 * (1e6_f64 / 256.0).ceil();
        assert!(
            (bytes - written).abs() <= 2.0 * 256.0 * 4096.0,
            "{bytes} of {written}"
        );
        assert!(host.count("map") > 300, "{}", host.count("map"));
        assert_eq!(host.count("map"), host.count("unmap"));
        let (_, host) = run("stress-ng --vm 2 --vm-bytes 10M --vm-keep -t 1");
        assert_eq!((host.count("map"), host.count("unmap")), (2, 2));
        let (bytes, host) = run("stress-ng --vm 1 --vm-bytes 4k --vm-hang 300 -t 1m");
        assert_eq!((bytes, host.count("map")), (4096.0, 1));
    }

    #[test]
    fn what_is_not_accepted_is_named_and_placed() {
        for (line, place) in [
            ("stress-ng --cpu 2 -t 1s", "--cpu"),
            ("stress-ng --vm 2", "stress-ng"),
            ("stress-ng -t 1s", "stress-ng"),
            ("stress-ng --vm 0 -t 1s", "0"),
            ("stress-ng --vm 1 --vm-bytes 101% -t 1s", "101%"),
            ("stress-ng --vm 1 -t soon", "soon"),
            ("usemem", "usemem"),
            ("usemem 1m 2m", "2m"),
            ("usemem -x 1m", "-x"),
            ("usemem 100", "100"),
        ] {
            let e = parse(line).expect_err(line);
            assert_eq!(&line[e.span.clone()], place, "{line}: {e}");
        }
        for line in [
            "stress-ng --vm 2 --vm-bytes 80% --timeout 60s",
            "usemem -n2 1g",
        ] {
            assert!(parse(line).is_ok(), "{line}");
        }
    }
}
