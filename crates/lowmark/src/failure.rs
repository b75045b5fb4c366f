//! How a command fails, and with which exit code.

use lab::results::OutputError;
use lab::runner::CheckFailure;
use std::process::ExitCode;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub enum Failure {
    /// Something the user wrote is wrong.
    Input(miette::Report),
    /// `--check` found something.
    Check(CheckFailure),
    /// The system refused something.
    System(miette::Report),
    /// The system has no memory left for something.
    Memory(mm::NoMemory),
    /// Results are not what, or where, they were wanted. The text is printed as it is: it has paths that
    /// somebody may copy, and lines of its own.
    Results(String),
    /// What the front for programs says.
    Said(crate::front::Error),
    /// The user stopped something that leaves nothing behind; the text says what.
    Stopped(String),
    /// The user interrupted the run.
    Interrupted {
        /// Iterations that finished.
        finished: usize,
        /// Iterations that were wanted.
        wanted: usize,
        /// Where the finished ones are, if there are any; `--resume` with it goes on.
        kept: Option<std::path::PathBuf>,
    },
}

impl Failure {
    /// Says so on standard error; the exit code.
    pub fn report(self) -> ExitCode {
        eprintln!("{}", self.text());
        ExitCode::from(self.code())
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Input(_) => 2,
            Self::Check(_) | Self::System(_) | Self::Memory(_) | Self::Results(_) => 1,
            Self::Stopped(_) | Self::Interrupted { .. } => 130,
            Self::Said(e) => e.code,
        }
    }

    /// What is said.
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
                    || "there is nothing to keep".to_owned(),
                    |dir| {
                        let dir = dir.display();
                        format!("they are in {dir}; the same command with `--resume {dir}` goes on")
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
    fn from(error: OutputError) -> Self {
        let report = miette::Report::msg(error.to_string());
        match error {
            OutputError::Io { .. } => Self::System(report),
            // Found out before anything was computed.
            _ => Self::Input(report),
        }
    }
}
