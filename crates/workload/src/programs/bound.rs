//! Programs that run another one bound to CPUs: `taskset -c LIST PROGRAM …` of util-linux and
//! `numactl --cpunodebind=NODE PROGRAM …`.

use crate::host::{Cpus, Host, HostResult};
use crate::script::{Command, CommandError, Report};
use crate::session::Session;
use crate::shell::Word;

const TASKSET: &str = "taskset -c LIST PROGRAM …, where LIST is CPUs from 0 to 63 such as 0,2-3";
const NUMACTL: &str = "numactl --cpunodebind=NODE PROGRAM …, with one node";

/// A program and the CPUs that it and its children may run on.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    /// The CPUs.
    pub cpus: Cpus,
    /// The program.
    pub command: Box<Command>,
}

impl Bound {
    /// Reads the operands of either program.
    pub(crate) fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
        let (accepted, taskset) = match name.text.as_str() {
            "taskset" => (TASKSET, true),
            _ => (NUMACTL, false),
        };
        let missing = |what: &str| {
            let end = operands.last().unwrap_or(name).span.end;
            CommandError::new(name.span.start..end, what, accepted)
        };
        let (cpus, rest) = match operands {
            [c, list, rest @ ..] if taskset && ["-c", "--cpu-list"].contains(&&*c.text) => {
                let mask = cpu_list(&list.text).ok_or_else(|| {
                    let what = format!("`{}` is no list of CPUs", list.text);
                    CommandError::new(list.span.clone(), what, accepted)
                })?;
                (Cpus::Mask(mask), rest)
            }
            [bind, rest @ ..] if !taskset => {
                let mut names = ["--cpunodebind=", "-N"].into_iter();
                let node = names.find_map(|n| bind.text.strip_prefix(n));
                let node = node.and_then(|n| n.parse().ok()).ok_or_else(|| {
                    let what = format!("`{}` binds to no node", bind.text);
                    CommandError::new(bind.span.clone(), what, accepted)
                })?;
                (Cpus::OfNode(node), rest)
            }
            _ => return Err(missing("it is not said to which CPUs")),
        };
        let [program, rest @ ..] = rest else {
            return Err(missing("there is no program to run"));
        };
        if ["taskset", "numactl"].contains(&program.text.as_str()) {
            let what = format!("`{}` inside `{}`", program.text, name.text);
            return Err(CommandError::new(program.span.clone(), what, accepted));
        }
        let command = Box::new(Command::parse(program, rest)?);
        Ok(Self { cpus, command })
    }

    /// The same with larger bursts, if it makes any.
    pub(crate) fn with_bursts(&self, factor: f64) -> Option<Self> {
        let command = Box::new(self.command.with_bursts(factor)?);
        Some(Self {
            command,
            ..self.clone()
        })
    }

    /// Runs the program.
    pub(crate) async fn run<H: Host>(&self, host: &H, session: &Session) -> HostResult<Report> {
        let before = host.bind(self.cpus).await?;
        let result = Box::pin(self.command.run(host, session)).await;
        host.bind(before).await?;
        result
    }
}

/// A list such as `0,2-3` as bits.
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
    use crate::script::{Step, parse};

    fn cpus(line: &str) -> Result<(Cpus, &'static str), CommandError> {
        let script = parse(line)?;
        let [Step::Foreground(p)] = &script.steps[..] else {
            panic!("{script:?}")
        };
        match &p.commands[0] {
            Command::Taskset(b) | Command::Numactl(b) => Ok((b.cpus, b.command.name())),
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
            ("taskset -c 0 taskset -c 1 sleep 1", "taskset"),
            ("taskset -c 0 sleep x", "x"),
        ] {
            let e = cpus(line).expect_err(line);
            assert_eq!(&line[e.span.clone()], place, "{line}: {e}");
        }
    }
}
