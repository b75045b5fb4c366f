//! Scripts: programs, their order, and the files that must exist before them.
//!
//! [`parse`] makes one of a command line, [`fio::Jobs::script`](crate::fio::Jobs::script) of a fio
//! job file, and [`Replay::script`](crate::Replay::script) of a recorded trace.

mod foreign;
mod jobs;
mod line;
mod recording;

pub use foreign::Foreign;
pub use line::parse;

use crate::host::Cpus;
use crate::program::{ExistingFile, Program};

use crate::programs::Command;
use crate::recorded::Replay;
use crate::report::Instance;
use crate::session::Session;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A parsed command line: the actions of a shell, step by step.
///
/// A host executes the steps in order. The script ends after its last step; background processes
/// that still run then are stopped.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Script {
    /// The steps; at least one is not [`Step::Background`], so the script does not end at once. A
    /// user's own program ([`Source::Foreign`]) has none.
    pub steps: Vec<Step>,
    /// Files that exist before the script starts, on the device and not cached.
    pub files: Vec<ExistingFile>,
    /// Directories that exist before the script starts, parents first. Other directories of `files`
    /// are aliases of the root.
    pub directories: Vec<String>,
    /// The line that it was parsed from; empty if it came from no line, or was changed since.
    pub line: String,
    /// The source from which another process can make the script again.
    pub source: Source,
    /// Notes for readers of the results, one sentence each.
    pub notes: Vec<String>,
}

/// The source of a [`Script`]. The same source always gives the same script.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Source {
    /// A command line: [`Script::line`]. If that is empty, the script can't be made again.
    #[default]
    Line,
    /// The text of a fio job file.
    Fio(String),
    /// A recorded trace; the script's steps share it.
    Trace(Arc<Replay>),
    /// A user's own program.
    Foreign(Arc<Foreign>),
}

/// One step of a [`Script`].
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Runs a process; the next step starts when it has ended, also after a failure.
    Foreground(Process),
    /// Starts a process (`&`) and continues with the next step at once.
    Background(Process),
    /// Waits until every background process started so far has ended (`wait`).
    Wait,
}

/// Programs that run one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    /// The programs in order (`&&`), at least one. The first that fails ends the process.
    pub commands: Vec<Command>,
}

impl Script {
    /// Returns the processes of the script's steps: those in the background, or those in the
    /// foreground.
    fn processes(&self, background: bool) -> impl Iterator<Item = &Process> {
        self.steps.iter().filter_map(move |s| match s {
            Step::Foreground(p) if !background => Some(p),
            Step::Background(p) if background => Some(p),
            _ => None,
        })
    }

    /// Returns the script with bursts of `factor` times the memory (`burst`, `mapped-file-stream`);
    /// `None` if no program makes bursts.
    pub fn with_bursts(&self, factor: f64) -> Option<Self> {
        let mut script = self.clone();
        script.line.clear();
        let mut changed = false;
        for step in &mut script.steps {
            let (Step::Foreground(process) | Step::Background(process)) = step else {
                continue;
            };
            for command in &mut process.commands {
                if let Some(larger) = command.with_bursts(factor) {
                    *command = larger;
                    changed = true;
                }
            }
        }
        changed.then_some(script)
    }

    /// Returns the most processes that its programs have forked at a time: those of all background
    /// processes together, and of the one foreground process that has most.
    pub fn children(&self) -> u64 {
        let of = |p: &Process| p.commands.iter().map(Program::children).max().unwrap_or(0);
        let behind: u64 = self.processes(true).map(of).sum();
        behind + self.processes(false).map(of).max().unwrap_or(0)
    }

    /// Returns the most processes at a time: the script's shell, its background processes and their
    /// children.
    pub fn processes_at_a_time(&self) -> u64 {
        1 + self.processes(true).count() as u64 + self.children()
    }

    /// Returns which of several commands of the same program `command` is, counted from 1; `None`
    /// if the script has only one. `command` must be a part of this script. Parts of a fio job file
    /// and of a trace are no instances: they measure their calls together.
    pub fn instance(&self, command: &Command) -> Option<Instance> {
        if matches!(command, Command::Fio(_) | Command::Replay(_)) {
            return None;
        }
        let program = command.program();
        let processes = self.steps.iter().filter_map(|step| match step {
            Step::Foreground(process) | Step::Background(process) => Some(process),
            Step::Wait => None,
        });
        let all = processes.flat_map(|p| &p.commands);
        let same: Vec<&Command> = all.filter(|c| c.program() == program).collect();
        let nth = same.iter().position(|c| std::ptr::eq(*c, command))?;
        (same.len() > 1).then_some(Instance {
            program,
            nth: nth + 1,
        })
    }

    /// Returns all commands of the script, those in the background first.
    fn commands(&self) -> impl Iterator<Item = &Command> {
        let all = self.processes(true).chain(self.processes(false));
        all.flat_map(|p| &p.commands)
    }

    /// Collects the files and directories that must exist before the script's programs start; a
    /// path named several times gets the greatest length.
    fn find_files(&mut self) {
        let found: Vec<_> = self.commands().flat_map(Program::existing_files).collect();
        // The index in `self.files` of each path.
        let mut places = BTreeMap::new();
        for file in found {
            match places.get(&file.path) {
                Some(&known) => {
                    let known: &mut ExistingFile = &mut self.files[known];
                    known.len = known.len.max(file.len);
                }
                None => {
                    places.insert(file.path.clone(), self.files.len());
                    self.files.push(file);
                }
            }
        }
        let found = self.commands().flat_map(Program::existing_directories);
        let mut known = BTreeSet::new();
        self.directories = found.filter(|d| known.insert(d.clone())).collect();
    }

    /// Returns the CPUs to which its programs are bound.
    pub fn cpus(&self) -> impl Iterator<Item = Cpus> {
        self.commands().filter_map(Program::cpus)
    }

    /// Returns the memory control groups that its programs name (`cgexec -g`), each as often as it
    /// is named.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.commands().filter_map(Program::group)
    }

    /// Returns the most files that its programs make. A copy of a tree makes at most as many as
    /// there are: those that exist, and those that all others and the copies before it have made.
    pub fn files_made(&self) -> u64 {
        let made = self
            .commands()
            .map(Program::files)
            .fold(0, u64::saturating_add);
        let copies = self.commands().filter(|c| c.copies_trees());
        let there = self.files.len() as u64;
        copies.fold(made, |made, _| made.saturating_mul(2).saturating_add(there))
    }

    /// Returns the duration in nanoseconds of the longest trace that is replayed at its recorded
    /// pace; 0 if there is none.
    pub fn recorded_ns(&self) -> u64 {
        let of = self.commands().filter_map(Program::recorded_ns);
        of.max().unwrap_or(0)
    }

    /// Makes the state that its processes share in a new run.
    pub fn session(&self) -> Session {
        let mut session = Session::default();
        self.commands().for_each(|c| c.prepare(&mut session));
        session
    }
}

#[cfg(test)]
mod tests;
