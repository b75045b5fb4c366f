//! The description of a program: its command line and the resources it needs.
//!
//! A program is one file in `programs/` and its line in the table there. The file has a type with
//! its options, a [`Task`] for its actions, and a [`Program`] for parsing its command line and for
//! everything that differs from the defaults. Processes that it forks have their own types, for
//! which [`Task`] is enough.

use crate::error::CommandError;
use crate::host::{Cpus, Task};
use crate::report::{Figures, Medians, Metric};
use crate::session::Session;
use crate::shell::Word;
use std::fmt::Debug;

/// The largest number of files that a script may make: each is a file of the host until the run
/// ends.
pub const MOST_FILES: u64 = 4 << 20;

/// The largest number of processes of a script at a time.
pub const MOST_PROCESSES: u64 = 16_384;

/// A file that exists before a script starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExistingFile {
    /// The file's path.
    pub path: String,
    /// The file's length in bytes.
    pub len: u64,
}

/// A program with its options. All methods must work before it runs.
pub trait Program: Task + Clone + PartialEq + Debug {
    /// The syntax of its command line; empty: it has none, and its scripts are made from other
    /// inputs.
    const USAGE: &'static str = "";

    /// The metrics of its report that `lowmark explain` knows.
    const METRICS: &'static [Metric] = &[];

    /// The table of its figures in comparisons, if any.
    const MEDIANS: Option<Medians> = None;

    /// Returns a summary of a run in the program's own format, printed after its name; `figure`
    /// looks up the run's figures. `None` if there is nothing to print.
    fn summary(figure: Figures<'_>) -> Option<String> {
        let _ = figure;
        None
    }

    /// Parses the operands of the program's command line; `name` is the word before them. By
    /// default the program has no command line.
    ///
    /// # Errors
    /// The operands are refused, with their place in the line.
    fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
        let _ = operands;
        Err(CommandError::new(
            name.span.clone(),
            format!("`{}` is not a program for command lines", name.text),
            "another program",
        ))
    }

    /// Returns the name of the program that does the work: for a program that runs another, the
    /// other's.
    fn program(&self) -> &'static str {
        self.name()
    }

    /// Returns the most processes that the program has forked at a time.
    fn children(&self) -> u64 {
        0
    }

    /// Returns true if the program copies directories with everything in them, so that it makes up
    /// to as many files as there are.
    fn copies_trees(&self) -> bool {
        false
    }

    /// Returns the most files that the program makes, without those in [`Self::existing_files`].
    fn files(&self) -> u64 {
        0
    }

    /// Returns the files that must exist before the program starts.
    fn existing_files(&self) -> Vec<ExistingFile> {
        Vec::new()
    }

    /// Returns the directories that must exist before the program starts, parents first.
    fn existing_directories(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns paths that must exist when the program starts, or it fails; for programs that make
    /// none of them.
    fn needs(&self) -> &[String] {
        &[]
    }

    /// Returns true if the program ends only with the script.
    fn endless(&self) -> bool {
        false
    }

    /// Returns the CPUs that the program is bound to, if any.
    fn cpus(&self) -> Option<Cpus> {
        None
    }

    /// Returns the name of the memory control group that the program runs in, with points between
    /// nested groups; `None`: that of the script.
    fn group(&self) -> Option<&str> {
        None
    }

    /// Returns the program with bursts of `factor` times the memory; `None` if the program makes no
    /// bursts.
    fn with_bursts(&self, factor: f64) -> Option<Self> {
        let _ = factor;
        None
    }

    /// Returns the least duration in nanoseconds of a program that keeps the pace of a recording;
    /// `None` for others.
    fn recorded_ns(&self) -> Option<u64> {
        None
    }

    /// Adds the state that the program's processes share to the session of a new run.
    fn prepare(&self, session: &mut Session) {
        let _ = session;
    }
}

/// Returns `bytes` times `factor`, rounded to whole blocks of `block` bytes and at least one.
pub(crate) fn scaled(bytes: u64, factor: f64, block: u64) -> u64 {
    let blocks = (bytes as f64 * factor / block as f64).round() as u64;
    blocks.max(1) * block
}
