//! Scripts: which programs run, in which order, and what must be there before them.
//!
//! [`parse`] makes one of a command line, [`fio::Jobs::script`](crate::fio::Jobs::script) of a fio job
//! file, and [`Replay::script`](crate::Replay::script) of a recorded trace.

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

/// A parsed command line: what a shell would do, step by step.
///
/// A host executes the steps in order. The script ends after its last step; background processes
/// that still run then are stopped.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Script {
    /// The steps; at least one is not [`Step::Background`], so the script does not end at once. A program of
    /// the user's ([`Source::Foreign`]) has none.
    pub steps: Vec<Step>,
    /// Files that are there before the script starts, on the device and not cached.
    pub files: Vec<ExistingFile>,
    /// Directories that are there before the script starts, parents first. Others, where a file of
    /// `files` lies, are the root under another name.
    pub directories: Vec<String>,
    /// The line that it was read from; empty for what no line made, or what was changed since.
    pub line: String,
    /// What it was made of, as whoever runs it elsewhere needs it.
    pub source: Source,
    /// What a reader of the results must know, one sentence each.
    pub notes: Vec<String>,
}

/// What a [`Script`] was made of. Made again from the same source, it is the same script.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Source {
    /// [`Script::line`]: a command line; or nothing that could be said again, if that is empty.
    #[default]
    Line,
    /// The text of a fio job file.
    Fio(String),
    /// A recorded trace; its steps have the same one.
    Trace(Arc<Replay>),
    /// A program that is none of ours.
    Foreign(Arc<Foreign>),
}

/// One step of a [`Script`].
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Run a process; the next step starts when it has ended, well or not.
    Foreground(Process),
    /// Start a process (`&`) and go on with the next step at once.
    Background(Process),
    /// Go on when every background process started so far has ended (`wait`).
    Wait,
}

/// Programs that run one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    /// The programs in order (`&&`), at least one. The first that fails ends the process.
    pub commands: Vec<Command>,
}

/// Processes that a script may have at a time.
pub const MOST_PROCESSES: u64 = 16_384;

impl Script {
    fn processes(&self, background: bool) -> impl Iterator<Item = &Process> {
        self.steps.iter().filter_map(move |s| match s {
            Step::Foreground(p) if !background => Some(p),
            Step::Background(p) if background => Some(p),
            _ => None,
        })
    }

    /// The same script with bursts that take `factor` times the memory (`burst`,
    /// `mapped-file-stream`); `None` if no program makes bursts.
    pub fn with_bursts(&self, factor: f64) -> Option<Self> {
        let mut script = self.clone();
        script.line.clear();
        let mut any = false;
        for step in &mut script.steps {
            let (Step::Foreground(process) | Step::Background(process)) = step else {
                continue;
            };
            for command in &mut process.commands {
                if let Some(larger) = command.with_bursts(factor) {
                    *command = larger;
                    any = true;
                }
            }
        }
        any.then_some(script)
    }

    /// Processes that its programs fork at a time, at most.
    pub fn children(&self) -> u64 {
        let of = |p: &Process| p.commands.iter().map(Program::children).max().unwrap_or(0);
        let behind: u64 = self.processes(true).map(of).sum();
        behind + self.processes(false).map(of).max().unwrap_or(0)
    }

    /// Processes at a time, at most: the script's shell, its background processes and what they fork.
    pub fn processes_at_a_time(&self) -> u64 {
        1 + self.processes(true).count() as u64 + self.children()
    }

    /// Which of its program's instances a command of this script is; `None`: the script has one alone. Parts of a fio
    /// job file and of a trace are no instances: they measure their calls together.
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

    fn commands(&self) -> impl Iterator<Item = &Command> {
        let all = self.processes(true).chain(self.processes(false));
        all.flat_map(|p| &p.commands)
    }

    /// Enters the files and directories that its programs find: one of each path, a file as long as
    /// the longest.
    fn find_files(&mut self) {
        let found: Vec<_> = self.commands().flat_map(Program::existing_files).collect();
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

    /// The CPUs that its programs are bound to.
    pub fn cpus(&self) -> impl Iterator<Item = Cpus> {
        self.commands().filter_map(Program::cpus)
    }

    /// Files that its programs make, at most.
    pub fn files_made(&self) -> u64 {
        self.commands().map(Program::files).sum()
    }

    /// Nanoseconds of the longest trace that is replayed at its recorded pace; 0 if none is.
    pub fn recorded_ns(&self) -> u64 {
        let of = self.commands().filter_map(Program::recorded_ns);
        of.max().unwrap_or(0)
    }

    /// What its processes share in a run that begins now.
    pub fn session(&self) -> Session {
        let mut session = Session::default();
        self.commands().for_each(|c| c.prepare(&mut session));
        session
    }
}

#[cfg(test)]
mod tests;
