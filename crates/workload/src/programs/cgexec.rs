//! Runs a program in a memory control group: `cgexec -g GROUP PROGRAM …` of libcgroup.

use super::bound::forwards;
use crate::error::CommandError;
use crate::host::{Cpus, Host, HostResult, Task};
use crate::program::{ExistingFile, Program};
use crate::report::Report;
use crate::session::Session;
use crate::shell::Word;

const USAGE: &str = "cgexec -g GROUP PROGRAM …, where GROUP is a group of the experiment such as \
                     web, web.worker or memory:web/worker";

/// `cgexec`: runs a program in a group. Forwards all other questions to that program.
#[derive(Debug, Clone, PartialEq)]
pub struct Cgexec<P> {
    /// The group's name, with points between nested groups: `web.worker`.
    pub group: String,
    /// The program.
    pub command: Box<P>,
}

impl<P> Cgexec<P> {
    fn inner(&self) -> &P {
        &self.command
    }
}

impl<P: Program> Task for Cgexec<P> {
    const NAME: &'static str = "cgexec";

    /// Moves the calling process into the group and runs the program there. Hosts give the command
    /// a process of its own, since a process can't return what it was charged for.
    async fn run<H: Host>(&self, host: &H, session: &Session) -> HostResult<Report> {
        host.enter_group(&self.group).await?;
        // Boxed, because the type may contain itself.
        Box::pin(self.command.run(host, session)).await
    }
}

impl<P: Program> Program for Cgexec<P> {
    const USAGE: &'static str = USAGE;

    /// Parses `-g GROUP` and then the program with its own operands. Fails if either is missing, or
    /// if the program is itself `cgexec`.
    fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
        let missing = |what: &str| {
            let end = operands.last().unwrap_or(name).span.end;
            CommandError::new(name.span.start..end, what, USAGE)
        };
        let (group, rest) = match operands {
            [g, group, rest @ ..] if g.text == "-g" => (group, rest),
            _ => return Err(missing("the group is missing")),
        };
        let Some((program, rest)) = rest.split_first() else {
            return Err(missing("the program to run is missing"));
        };
        let named = group_of(&group.text).ok_or_else(|| {
            let what = format!("`{}` is not the name of a group", group.text);
            CommandError::new(group.span.clone(), what, USAGE)
        })?;
        let command = P::parse(program, rest)?;
        if command.group().is_some() {
            let what = format!("`{}` inside `{}`", program.text, name.text);
            return Err(CommandError::new(program.span.clone(), what, USAGE));
        }
        Ok(Self {
            group: named,
            command: Box::new(command),
        })
    }

    fn group(&self) -> Option<&str> {
        Some(&self.group)
    }

    forwards!();

    fn cpus(&self) -> Option<Cpus> {
        self.command.cpus()
    }

    /// Returns the program with bursts of `factor` times the memory, in the same group; `None` if
    /// it makes no bursts.
    fn with_bursts(&self, factor: f64) -> Option<Self> {
        Some(Self {
            group: self.group.clone(),
            command: Box::new(self.command.with_bursts(factor)?),
        })
    }
}

/// Returns the name of a group as experiments spell it, `web.worker` for `memory,io:web/worker` of
/// libcgroup; `None` if the text names no group.
fn group_of(text: &str) -> Option<String> {
    let path = text.split_once(':').map_or(text, |(_, path)| path);
    let name = path.trim_matches('/').replace('/', ".");
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let part = |part: &str| !part.is_empty() && part.chars().all(plain);
    name.split('.').all(part).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::Command;
    use crate::script::{Step, parse};

    fn group(line: &str) -> Result<String, CommandError> {
        let script = parse(line)?;
        let [Step::Foreground(p)] = &script.steps[..] else {
            panic!("{script:?}")
        };
        let command: &Command = &p.commands[0];
        Ok(command.group().expect("a group").to_owned())
    }

    #[test]
    fn groups_are_named_as_libcgroup_names_them() {
        assert_eq!(group("cgexec -g web sleep 1").unwrap(), "web");
        assert_eq!(group("cgexec -g web.worker sleep 1").unwrap(), "web.worker");
        let line = "cgexec -g memory,io:/web/worker sleep 1";
        assert_eq!(group(line).unwrap(), "web.worker");
        let bound = group("taskset -c 0 cgexec -g web sleep 1");
        assert_eq!(bound.unwrap(), "web");
    }

    #[test]
    fn its_program_counts_as_its_own() {
        let of = |line: &str| {
            let s = parse(line).unwrap();
            (s.children(), s.files_made())
        };
        let plain = "fs_mark -d1 -d2 -D 2 -n 3 -N 3 -L 2 -t 1 -S0 -s 4096";
        assert_eq!(of(&format!("cgexec -g web {plain}")), of(plain));
    }

    #[test]
    fn mistakes_have_their_place() {
        for (line, place) in [
            ("cgexec", "cgexec"),
            ("cgexec web sleep 1", "cgexec web sleep 1"),
            ("cgexec -g web", "cgexec -g web"),
            ("cgexec -g a..b sleep 1", "a..b"),
            ("cgexec -g memory: sleep 1", "memory:"),
            ("cgexec -g a cgexec -g b sleep 1", "cgexec"),
            ("cgexec -g a taskset -c 0 cgexec -g b sleep 1", "taskset"),
            ("cgexec -g a sleep x", "x"),
        ] {
            let e = group(line).expect_err(line);
            assert_eq!(&line[e.span.clone()], place, "{line}: {e}");
        }
    }
}
