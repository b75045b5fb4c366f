//! The command line of Lowmark.
#![forbid(unsafe_code)]

/// Says something on standard error. Where that can't be written there is nobody to tell, and what was
/// under way goes on; the standard macro of this name panics.
macro_rules! eprintln {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

mod cli;
mod commands;
mod failure;
mod interrupt;
mod place;
mod text;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let done = match &cli.command {
        cli::Command::Run(args) => commands::run::run(args),
        cli::Command::Results(args) => commands::results::run(args),
        cli::Command::Reproduce(args) => commands::reproduce::run(args),
        cli::Command::Tune(args) => commands::tune::run(args),
        cli::Command::Explain(args) => commands::explain::run(args),
        cli::Command::Params(args) => commands::params::run(args),
        cli::Command::Mrc(args) => commands::mrc::run(args),
        cli::Command::Policies(args) => commands::policies::run(args),
        cli::Command::Bench(args) => commands::bench::run(args),
        cli::Command::Trace(what) => commands::trace::run(what),
        cli::Command::Machine(args) => commands::machine::run(args),
        cli::Command::Schema => commands::schema::run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
