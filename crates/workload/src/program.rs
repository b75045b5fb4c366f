//! What every program says of itself, to whoever reads scripts and makes room for them.
//!
//! A program is one file in `programs/` and its line in the table there. The file has a type with its
//! options, [`Task`] for what it does, and [`Program`] for how a command line is read and for what is
//! not as the defaults have it. Processes that it forks are types of their own, for which [`Task`] is
//! enough.

use crate::error::CommandError;
use crate::host::{Cpus, Task};
use crate::report::{Figures, Medians, Metric};
use crate::session::Session;
use crate::shell::Word;
use std::fmt::Debug;

/// Files that a script may make: each is a file of the host until the run ends.
pub const MOST_FILES: u64 = 4 << 20;

/// A file that is there before a script starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExistingFile {
    /// Its path.
    pub path: String,
    /// Its length in bytes.
    pub len: u64,
}

/// A program with its options. All that is asked of one is answered before it runs.
pub trait Program: Task + Clone + PartialEq + Debug {
    /// How a command line is written that runs it; empty: none does, the program's scripts are made
    /// of something else.
    const USAGE: &'static str = "";

    /// The figures of its report that `lowmark explain` knows.
    const METRICS: &'static [Metric] = &[];

    /// The table of its figures in comparisons, if they are to have one.
    const MEDIANS: Option<Medians> = None;

    /// What it says of a run in its own words, behind its name; `figure` gives the run's figures. None
    /// if there is nothing to say.
    fn summary(figure: Figures<'_>) -> Option<String> {
        let _ = figure;
        None
    }

    /// Reads its operands; `name` is the word before them.
    ///
    /// # Errors
    /// What the program would refuse, with its place in the line.
    fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
        let _ = operands;
        Err(CommandError::new(
            name.span.clone(),
            format!("`{}` is no program of command lines", name.text),
            "another program",
        ))
    }

    /// The name of the program that does the work: where one runs another, that of the other.
    fn program(&self) -> &'static str {
        self.name()
    }

    /// Processes that it forks at a time, at most.
    fn children(&self) -> u64 {
        0
    }

    /// Files that it makes, at most, and that no [`ExistingFile`] stands for.
    fn files(&self) -> u64 {
        0
    }

    /// The files that it finds.
    fn existing_files(&self) -> Vec<ExistingFile> {
        Vec::new()
    }

    /// The directories that it finds, parents first.
    fn existing_directories(&self) -> Vec<String> {
        Vec::new()
    }

    /// Paths that have to be there when it begins, or it fails: of a program that makes none of them itself.
    fn needs(&self) -> &[String] {
        &[]
    }

    /// Whether it only ends when the script does.
    fn endless(&self) -> bool {
        false
    }

    /// The CPUs that it is bound to, if it is.
    fn cpus(&self) -> Option<Cpus> {
        None
    }

    /// The same with bursts that take `factor` times the memory; `None` if it makes none.
    fn with_bursts(&self, factor: f64) -> Option<Self> {
        let _ = factor;
        None
    }

    /// Nanoseconds that it takes at least because it keeps the pace of a recording; `None` if it does
    /// not.
    fn recorded_ns(&self) -> Option<u64> {
        None
    }

    /// Puts what its processes share into the session of a run that begins.
    fn prepare(&self, session: &mut Session) {
        let _ = session;
    }
}

/// `bytes` times `factor`, in whole blocks and at least one.
pub(crate) fn scaled(bytes: u64, factor: f64, block: u64) -> u64 {
    let blocks = (bytes as f64 * factor / block as f64).round() as u64;
    blocks.max(1) * block
}
