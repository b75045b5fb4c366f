//! `drop_caches [1|2|3]`: what `echo 3 > /proc/sys/vm/drop_caches` and `sysctl -w vm.drop_caches=3`
//! do, which are accepted, too.
//!
//! 1 frees clean page cache, 2 dentries and inodes, 3 both; dirty pages stay, so that benchmarks
//! call `sync` before.

use crate::error::CommandError;
use crate::host::{Host, HostResult, Task};
use crate::program::Program;
use crate::report::{Metric, Report};
use crate::session::Session;
use crate::shell::Word;

const ACCEPTED: &str = "drop_caches [1|2|3]: page cache, dentries and inodes, or both (3)";

/// The value that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropCaches {
    /// Bit 0: page cache; bit 1: dentries and inodes.
    pub what: u8,
}

impl Task for DropCaches {
    const NAME: &'static str = "drop_caches";

    /// Writes the value, and returns the time that it took in seconds.
    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        let begun = host.now();
        host.drop_caches(self.what).await?;
        let seconds = (host.now() - begun) as f64 / 1e9;
        Ok(Report {
            metrics: vec![("drop_caches_time".to_owned(), "s", seconds)],
        })
    }
}

impl Program for DropCaches {
    const USAGE: &'static str = "drop_caches [1|2|3]";

    const METRICS: &'static [Metric] = &[Metric::new(
        "drop_caches_time",
        "s",
        "Duration of the write to /proc/sys/vm/drop_caches.",
    )];

    /// Parses the value; without one it is 3.
    fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
        let what = match operands {
            [] => 3,
            [value] => match value.text.as_str() {
                "1" => 1,
                "2" => 2,
                "3" => 3,
                other => {
                    let what = format!("`{other}` names no caches");
                    return Err(CommandError::new(value.span.clone(), what, ACCEPTED));
                }
            },
            more => {
                let what = format!("{} has {} operands", name.text, more.len());
                return Err(CommandError::new(name.span.clone(), what, ACCEPTED));
            }
        };
        Ok(Self { what })
    }
}

#[cfg(test)]
mod tests {
    use crate::programs::Command;
    use crate::script::{Step, parse};

    fn what(line: &str) -> u8 {
        let script = parse(line).unwrap_or_else(|e| panic!("{line}: {e}"));
        let [Step::Foreground(p)] = &script.steps[..] else {
            panic!("{script:?}")
        };
        match &p.commands[..] {
            [Command::DropCaches(drop)] => drop.what,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn each_way_to_write_it_is_one_program() {
        for (line, expected) in [
            ("drop_caches", 3),
            ("drop_caches 1", 1),
            ("echo 2 > /proc/sys/vm/drop_caches", 2),
            ("echo 3 >/proc/sys/vm/drop_caches", 3),
            ("sysctl -w vm.drop_caches=1", 1),
            ("sysctl -q -w vm.drop_caches=3", 3),
            ("sysctl vm/drop_caches=2", 2),
            ("sudo sysctl -w vm.drop_caches=3", 3),
        ] {
            assert_eq!(what(line), expected, "{line}");
        }
    }

    #[test]
    fn what_is_not_accepted_is_named_and_placed() {
        for (line, place) in [
            ("drop_caches 4", "4"),
            ("drop_caches 1 2", "drop_caches"),
            ("echo 4 > /proc/sys/vm/drop_caches", "4"),
            (
                "echo > /proc/sys/vm/drop_caches",
                "> /proc/sys/vm/drop_caches",
            ),
            (
                "echo 3 > /proc/sys/vm/swappiness",
                "> /proc/sys/vm/swappiness",
            ),
            (
                "dd x > /proc/sys/vm/drop_caches",
                "> /proc/sys/vm/drop_caches",
            ),
            ("sysctl -w vm.dirty_ratio=5", "sysctl"),
        ] {
            let e = parse(line).expect_err(line);
            assert_eq!(&line[e.span.clone()], place, "{line}: {e}");
        }
    }
}
