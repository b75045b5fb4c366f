//! Programs that run another one bound to CPUs: `taskset -c LIST PROGRAM …` of util-linux and
//! `numactl --cpunodebind=NODE PROGRAM …`. They forward all questions to that program.

use crate::error::CommandError;
use crate::host::{Cpus, Host, HostResult, Task};
use crate::program::{ExistingFile, Program};
use crate::report::Report;
use crate::session::Session;
use crate::shell::Word;

const TASKSET: &str = "taskset -c LIST PROGRAM …, where LIST is CPUs from 0 to 63 such as 0,2-3";
const NUMACTL: &str = "numactl --cpunodebind=NODE PROGRAM …, with one node";

/// A program and the CPUs that it and its children may run on.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound<P> {
    /// The CPUs.
    pub cpus: Cpus,
    /// The program.
    pub command: Box<P>,
}

/// `taskset`: runs a program on some CPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct Taskset<P>(pub Bound<P>);

/// `numactl`: runs a program on the CPUs of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Numactl<P>(pub Bound<P>);

/// Implements the questions of a [`Program`] that one which runs another passes on to it; the
/// type's `inner` returns the other.
macro_rules! forwards {
    () => {
        fn program(&self) -> &'static str {
            self.inner().program()
        }

        fn children(&self) -> u64 {
            self.inner().children()
        }

        fn files(&self) -> u64 {
            self.inner().files()
        }

        fn copies_trees(&self) -> bool {
            self.inner().copies_trees()
        }

        fn existing_files(&self) -> Vec<ExistingFile> {
            self.inner().existing_files()
        }

        fn existing_directories(&self) -> Vec<String> {
            self.inner().existing_directories()
        }

        fn needs(&self) -> &[String] {
            self.inner().needs()
        }

        fn endless(&self) -> bool {
            self.inner().endless()
        }

        fn recorded_ns(&self) -> Option<u64> {
            self.inner().recorded_ns()
        }

        fn prepare(&self, session: &mut Session) {
            self.inner().prepare(session);
        }
    };
}

pub(super) use forwards;

/// Implements one of them, from its name, its usage and a parser of its first operands, which
/// returns the CPUs and the remaining words.
macro_rules! binds {
    ($binder:ident, $name:literal, $usage:ident, $cpus:path) => {
        impl<P: Program> $binder<P> {
            fn inner(&self) -> &P {
                &self.0.command
            }
        }

        impl<P: Program> Task for $binder<P> {
            const NAME: &'static str = $name;

            /// Binds the calling task to the CPUs, runs the program in the same task, and restores
            /// the binding from before.
            async fn run<H: Host>(&self, host: &H, session: &Session) -> HostResult<Report> {
                let Bound { cpus, command } = &self.0;
                let before = host.bind(*cpus).await?;
                // Boxed, because the type may contain itself.
                let result = Box::pin(command.run(host, session)).await;
                host.bind(before).await?;
                result
            }
        }

        impl<P: Program> Program for $binder<P> {
            const USAGE: &'static str = $usage;

            /// Parses the CPUs in the first operands and then the program with its own operands.
            /// Fails if either is missing, or if the program is itself `taskset` or `numactl`.
            fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
                let missing = |what: &str| {
                    let end = operands.last().unwrap_or(name).span.end;
                    CommandError::new(name.span.start..end, what, Self::USAGE)
                };
                let (cpus, rest) = $cpus(operands)
                    .unwrap_or_else(|| Err(missing("the list of CPUs is missing")))?;
                let Some((program, rest)) = rest.split_first() else {
                    return Err(missing("the program to run is missing"));
                };
                let plain = program.text.strip_prefix("./").unwrap_or(&program.text);
                if [Taskset::<P>::NAME, Numactl::<P>::NAME].contains(&plain) {
                    let what = format!("`{}` inside `{}`", program.text, name.text);
                    return Err(CommandError::new(program.span.clone(), what, Self::USAGE));
                }
                let command = Box::new(P::parse(program, rest)?);
                Ok(Self(Bound { cpus, command }))
            }

            forwards!();

            fn cpus(&self) -> Option<Cpus> {
                Some(self.0.cpus)
            }

            fn group(&self) -> Option<&str> {
                self.0.command.group()
            }

            /// Returns the program with bursts of `factor` times the memory, on the same CPUs;
            /// `None` if it makes no bursts.
            fn with_bursts(&self, factor: f64) -> Option<Self> {
                let command = Box::new(self.0.command.with_bursts(factor)?);
                let cpus = self.0.cpus;
                Some(Self(Bound { cpus, command }))
            }
        }
    };
}

binds!(Taskset, "taskset", TASKSET, of_list);
binds!(Numactl, "numactl", NUMACTL, of_node);

/// The CPUs given by the first operands, and the operands after them; `None` if no CPUs are given.
type First<'a> = Option<Result<(Cpus, &'a [Word]), CommandError>>;

/// Parses `-c 0,2-3` of taskset. Returns the CPUs and the operands after them; `None` if no CPUs
/// are given.
fn of_list(operands: &[Word]) -> First<'_> {
    let [c, list, rest @ ..] = operands else {
        return None;
    };
    if !["-c", "--cpu-list"].contains(&&*c.text) {
        return None;
    }
    let mask = cpu_list(&list.text).ok_or_else(|| {
        let what = format!("`{}` is not a list of CPUs", list.text);
        CommandError::new(list.span.clone(), what, TASKSET)
    });
    Some(mask.map(|mask| (Cpus::Mask(mask), rest)))
}

/// Parses `--cpunodebind=1` of numactl. Returns the node's CPUs and the operands after them; `None`
/// if there are no operands.
fn of_node(operands: &[Word]) -> First<'_> {
    let (bind, mut rest) = operands.split_first()?;
    let memory = [
        "-m",
        "--membind",
        "-i",
        "--interleave",
        "-p",
        "--preferred",
        "-l",
        "--localalloc",
    ];
    if memory
        .iter()
        .any(|option| bind.text.split('=').next() == Some(*option))
    {
        let what = format!(
            "`{}`: memory policies of one program are not modelled",
            bind.text
        );
        let accepted =
            format!("{NUMACTL}; `membind` in [workload] binds the memory of the whole script");
        return Some(Err(CommandError::new(bind.span.clone(), what, accepted)));
    }
    let mut names = ["--cpunodebind=", "-N"].into_iter();
    let mut node = names.find_map(|n| bind.text.strip_prefix(n));
    // The number may be a word of its own: `-N 0`.
    if ["-N", "--cpunodebind"].contains(&bind.text.as_str()) {
        let (number, behind) = rest.split_first()?;
        (node, rest) = (Some(&number.text[..]), behind);
    }
    let node = node.and_then(|n| n.parse().ok()).ok_or_else(|| {
        let what = format!("`{}` binds to no node", bind.text);
        CommandError::new(bind.span.clone(), what, NUMACTL)
    });
    Some(node.map(|node| (Cpus::OfNode(node), rest)))
}

/// Parses a list such as `0,2-3` into a bit for each CPU from 0 to 63; `None` if the text is no
/// such list.
fn cpu_list(text: &str) -> Option<u64> {
    let cpu = |t: &str| t.parse::<u32>().ok().filter(|n| *n < 64);
    text.split(',').try_fold(0, |mask, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (cpu(first)?, cpu(last)?);
        let bits = (first..=last).fold(0, |bits, n| bits | 1 << n);
        (first <= last).then_some(mask | bits)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::Command;
    use crate::script::{Step, parse};

    fn cpus(line: &str) -> Result<(Cpus, &'static str), CommandError> {
        let script = parse(line)?;
        let [Step::Foreground(p)] = &script.steps[..] else {
            panic!("{script:?}")
        };
        match &p.commands[0] {
            Command::Taskset(t) => Ok((t.0.cpus, t.0.command.name())),
            Command::Numactl(n) => Ok((n.0.cpus, n.0.command.name())),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn both_forms_are_read() {
        let mask = |line| match cpus(line).unwrap() {
            (Cpus::Mask(m), "sleep") => m,
            other => panic!("{other:?}"),
        };
        assert_eq!(mask("taskset -c 0 sleep 1"), 1);
        assert_eq!(
            mask("taskset --cpu-list 1,4-6,63 sleep 1"),
            1 << 63 | 0b111_0010
        );
        let node = cpus("numactl --cpunodebind=3 sleep 1").unwrap();
        assert_eq!(node, (Cpus::OfNode(3), "sleep"));
        assert_eq!(cpus("numactl -N 2 sleep 1").unwrap().0, Cpus::OfNode(2));
        assert_eq!(cpus("numactl -N0 sleep 1").unwrap().0, Cpus::OfNode(0));
    }

    #[test]
    fn what_it_runs_counts_as_its_own() {
        let of = |line: &str| {
            let s = parse(line).unwrap();
            (s.children(), s.files_made())
        };
        let plain = "fs_mark -d1 -d2 -D 2 -n 3 -N 3 -L 2 -t 1 -S0 -s 4096";
        assert_eq!(of(&format!("taskset -c 1 {plain}")), of(plain));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, place) in [
            ("taskset", "taskset"),
            ("taskset -c 0", "taskset -c 0"),
            ("taskset -c 64 sleep 1", "64"),
            ("taskset -c 3-1 sleep 1", "3-1"),
            ("taskset -c , sleep 1", ","),
            ("taskset 3 sleep 1", "taskset 3 sleep 1"),
            ("numactl --cpunodebind=x sleep 1", "--cpunodebind=x"),
            ("numactl --membind=0 sleep 1", "--membind=0"),
            ("numactl -m 0 sleep 1", "-m"),
            ("numactl -N", "numactl -N"),
            ("taskset -c 0 taskset -c 1 sleep 1", "taskset"),
            ("taskset -c 0 sleep x", "x"),
        ] {
            let e = cpus(line).expect_err(line);
            assert_eq!(&line[e.span.clone()], place, "{line}: {e}");
        }
    }
}
