//! Failures of commands, and their exit codes.

use kernel::build::BuildError;
use lab::diagnostic::plain;
use lab::results::OutputError;
use lab::runner::CheckFailure;
use miette::ReportHandler;
use std::fmt;
use std::process::ExitCode;

/// The advice printed when memory runs out.
pub const MORE_MEMORY: &str = "accepted: more memory (`ulimit -v`, the container's limit), a smaller \
    machine or trace, or fewer `--jobs`; `lowmark run E --list` prints the memory of a run";

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
    Said(crate::Error),
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
        crate::stderr::say_escaped(&(self.text() + "\n"));
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

    /// Returns the text that is printed on standard error. Names in it are escaped before a report
    /// is coloured, so that no other sequences reach a terminal.
    pub fn text(&self) -> String {
        match self {
            Self::Input(report) | Self::System(report) => shown(report),
            Self::Check(failure) => plain(&failure.to_string()).into_owned(),
            Self::Memory(e) => shown(&miette::miette!(help = MORE_MEMORY, "{e}")),
            Self::Results(text) | Self::Stopped(text) => plain(text).into_owned(),
            // Made of another failure's text, which was escaped.
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
                let text =
                    format!("interrupted: {finished} of {wanted} iterations finished; {kept}");
                plain(&text).into_owned()
            }
        }
    }
}

/// A report whose texts are escaped as [`plain`] does, since it may repeat names of files and words
/// of the command line.
#[derive(Debug)]
struct Escaped<'a> {
    report: &'a miette::Report,
    /// The reason behind the report's sentence, if it has any.
    cause: Option<Cause>,
}

/// A reason, escaped, with the reason behind it.
#[derive(Debug)]
struct Cause {
    text: String,
    behind: Option<Box<Cause>>,
}

/// Returns the text of a report, coloured if standard error is a terminal.
fn shown(report: &miette::Report) -> String {
    let mut cause = None;
    let reasons: Vec<String> = report.chain().skip(1).map(|e| e.to_string()).collect();
    for reason in reasons.iter().rev() {
        cause = Some(Cause {
            text: plain(reason).into_owned(),
            behind: cause.map(Box::new),
        });
    }
    let escaped = Escaped { report, cause };
    format!("{:?}", Handled(&escaped))
}

/// Formats a report as miette's own reports are.
struct Handled<'a>(&'a Escaped<'a>);

impl fmt::Debug for Handled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        miette::MietteHandler::default().debug(self.0, f)
    }
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plain(&self.report.to_string()))
    }
}

impl std::error::Error for Escaped<'_> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as _)
    }
}

impl miette::Diagnostic for Escaped<'_> {
    fn help<'b>(&'b self) -> Option<Box<dyn fmt::Display + 'b>> {
        let help = self.report.help()?.to_string();
        Some(Box::new(plain(&help).into_owned()))
    }

    /// Returns the text around the mistake, which its `Source` shows without such characters.
    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        self.report.source_code()
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = miette::LabeledSpan> + '_>> {
        self.report.labels()
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.behind.as_ref().map(|behind| &**behind as _)
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

impl From<BuildError> for Failure {
    /// Turns an error of building into the program's failure, by which the exit code is chosen:
    /// stopped, wrong input (a full disk too), or an error of the system.
    fn from(error: BuildError) -> Self {
        let mut diagnostic = miette::MietteDiagnostic::new(error.to_string());
        if let Some(help) = error.help() {
            diagnostic = diagnostic.with_help(help);
        }
        let report = miette::Report::new(diagnostic);
        match error {
            BuildError::Stopped => Self::Stopped(error.to_string()),
            BuildError::Input { .. } | BuildError::Full { .. } => Self::Input(report),
            BuildError::Io { .. } | BuildError::Failed { .. } => Self::System(report),
        }
    }
}
