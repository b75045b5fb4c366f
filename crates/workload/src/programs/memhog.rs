//! `memhog [-r TIMES] SIZE` of numactl: maps anonymous memory and writes all of it, as often as it
//! is told, then ends. It is the plainest way to fill memory with pages that only swap can take.

use crate::error::CommandError;
use crate::host::{Advice, Host, HostResult, Map, Task, Word as Stored};
use crate::options::{Style, Syntax};
use crate::program::Program;
use crate::report::{Metric, Report};
use crate::session::Session;
use crate::shell::Word;
use crate::units::{self, Suffixes};
use std::ops::RangeInclusive;

const PAGE: u64 = 4096;
/// Pages of 10 MB, after each of which memhog reports its progress.
const CHUNK: usize = 2560;
/// The accepted sizes: more than 2^50 bytes fit no machine.
const SIZES: RangeInclusive<u64> = PAGE..=1 << 50;
/// The most rounds.
const MOST_ROUNDS: u64 = 1_000_000;
/// memhog's suffixes, powers of 1024; the large letters are accepted for those used to them.
const SUFFIXES: Suffixes = &[
    ("", 1),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
];

const USAGE: &str = "memhog [-r TIMES] SIZE[k|m|g], at least 4k";

const OPTIONS: Syntax = Syntax {
    values: &[("-r", "-r")],
    unknown: "memhog has no option `{option}` here",
    operand: "",
    ..Syntax::new(Style::Inline, USAGE)
};

/// `memhog` with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memhog {
    /// Bytes of the mapping, in whole pages.
    bytes: u64,
    /// Number of times that all of it is written.
    rounds: u64,
}

impl Task for Memhog {
    const NAME: &'static str = "memhog";

    /// Maps the memory, writes it in every round, and unmaps it.
    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        let begun = host.now();
        let pages = self.bytes / PAGE;
        let map = host.map(Map::Anon, self.bytes, Advice::Normal).await?;
        for round in 0..self.rounds {
            let stored = Stored {
                expect: None,
                store: Some(round + 1),
            };
            for first in (0..pages).step_by(CHUNK) {
                let chunk = (CHUNK as u64).min(pages - first);
                host.touch(map, first, chunk, stored).await?;
            }
        }
        host.unmap(map).await?;
        let bytes = self.bytes as f64 * self.rounds as f64;
        let figures = [("memhog_bytes", "bytes"), ("memhog_rate", "bytes/s")];
        Ok(Report::of_amount(bytes, host.now() - begun, figures))
    }
}

impl Program for Memhog {
    const USAGE: &'static str = USAGE;

    const METRICS: &'static [Metric] = &[
        Metric::new(
            "memhog_bytes",
            "bytes",
            "Bytes of memory that memhog wrote.",
        ),
        Metric::new(
            "memhog_rate",
            "bytes/s",
            "Bytes that memhog wrote per second.",
        ),
    ];

    /// Parses `-r TIMES` and the size, which is rounded up to whole pages.
    fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
        let mut rounds = 1;
        let mut size = None;
        for value in OPTIONS.read(operands) {
            let value = value?;
            if value.option == "-r" {
                rounds = value.number(1..=MOST_ROUNDS)?;
            } else if size.is_some() {
                let what = format!("`{}`: memory policies are not modelled", value.text);
                return Err(value.error(what, USAGE));
            } else {
                let bytes = units::scaled(value.text, SUFFIXES).filter(|n| SIZES.contains(n));
                let what = || value.error(format!("`{}` is not a size", value.text), USAGE);
                size = Some(bytes.ok_or_else(what)?);
            }
        }
        let what = || CommandError::new(name.span.clone(), "memhog has no size", USAGE);
        let bytes: u64 = size.ok_or_else(what)?;
        Ok(Self {
            bytes: bytes.next_multiple_of(PAGE),
            rounds,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::host::Task;
    use crate::script::{Step, parse};
    use crate::testing::{MemoryHost, block_on};

    #[test]
    fn all_of_the_memory_is_written_in_every_round() {
        let script = parse("memhog -r3 30m").unwrap();
        let [Step::Foreground(process)] = &script.steps[..] else {
            panic!("{script:?}")
        };
        let host = MemoryHost::default();
        host.touch_ns.set(1);
        let report = block_on(process.commands[0].run(&host, &script.session())).unwrap();
        assert_eq!(report.metrics[0].2, 3.0 * f64::from(30 << 20));
        assert_eq!((host.count("map"), host.count("unmap")), (1, 1));
        // One nanosecond a page, and some for each call.
        assert!((2.304e-5..2.4e-5).contains(&host.now_seconds()));
    }

    #[test]
    fn what_is_not_accepted_is_named_and_placed() {
        for (line, place) in [
            ("memhog", "memhog"),
            ("memhog -r 0 1m", "0"),
            ("memhog -r", "-r"),
            ("memhog 1x", "1x"),
            ("memhog 100", "100"),
            ("memhog -H 1m", "-H"),
            ("memhog 1m interleave", "interleave"),
        ] {
            let e = parse(line).expect_err(line);
            assert_eq!(&line[e.span.clone()], place, "{line}: {e}");
        }
        for line in ["memhog 4096", "memhog -r 2 1G", "memhog 1g"] {
            assert!(parse(line).is_ok(), "{line}");
        }
    }
}
