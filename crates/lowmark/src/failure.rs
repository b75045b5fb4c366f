//! Failures of commands, and their exit codes.

use lab::results::OutputError;
use lab::runner::CheckFailure;
use std::process::ExitCode;

/// The reason why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The user's input is wrong.
    Input(miette::Report),
    /// `--check` found a violation.
    Check(CheckFailure),
    /// The system refused an operation.
    System(miette::Report),
    /// Memory ran out.
    Memory(mm::NoMemory),
    /// Results are incomplete or in another place than requested. The text is printed unchanged: it
    /// has paths to copy, and its own line breaks.
    Results(String),
    /// An error of the front for programs.
    Said(crate::front::Error),
    /// The user stopped a command that leaves nothing behind; the text says which.
    Stopped(String),
    /// The user interrupted the run.
    Interrupted {
        /// Finished iterations.
        finished: usize,
        /// Requested iterations.
        wanted: usize,
        /// The folder of the finished ones, if there are any, for `--resume`.
        kept: Option<std::path::PathBuf>,
    },
}

impl Failure {
    /// Prints the failure to standard error; returns the exit code.
    pub fn report(self) -> ExitCode {
        eprintln!("{}", self.text());
        ExitCode::from(self.code())
    }

    /// Returns the exit code: 2 for wrong input, 130 if the user stopped the command, else 1.
    pub fn code(&self) -> u8 {
        match self {
            Self::Input(_) => 2,
            Self::Check(_) | Self::System(_) | Self::Memory(_) | Self::Results(_) => 1,
            Self::Stopped(_) | Self::Interrupted { .. } => 130,
            Self::Said(e) => e.code,
        }
    }

    /// Returns the text that is printed on standard error.
    pub fn text(&self) -> String {
        match self {
            Self::Input(report) | Self::System(report) => format!("{report:?}"),
            Self::Check(failure) => failure.to_string(),
            Self::Memory(e) => {
                let report = miette::miette!(help = crate::MORE_MEMORY, "{e}");
                format!("{report:?}")
            }
            Self::Results(text) | Self::Stopped(text) => text.clone(),
            Self::Said(e) => e.message.clone(),
            Self::Interrupted {
                finished,
                wanted,
                kept,
            } => {
                let kept = kept.as_ref().map_or_else(
                    || "no iteration was kept".to_owned(),
                    |dir| {
                        let dir = dir.display();
                        format!("they are in {dir}; to continue, give the same command with `--resume {dir}` (`lowmark run` needs nothing else)")
                    },
                );
                format!("interrupted: {finished} of {wanted} iterations finished; {kept}")
            }
        }
    }
}

impl From<CheckFailure> for Failure {
    fn from(failure: CheckFailure) -> Self {
        Self::Check(failure)
    }
}

impl From<OutputError> for Failure {
    /// Turns an error of a results folder into a failure: errors of writing are the system's; other
    /// ones are wrong input, detected before anything was computed.
    fn from(error: OutputError) -> Self {
        let report = miette::Report::msg(error.to_string());
        match error {
            OutputError::Io { .. } => Self::System(report),
            // Detected before anything was computed.
            _ => Self::Input(report),
        }
    }
}
