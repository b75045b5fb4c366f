#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

/// Prints to standard error, escaped as in [`front::stderr::say`]. If standard error can't be
/// written, the message is lost and the program goes on; the standard macro of this name panics.
macro_rules! eprintln {
    ($($text:tt)*) => {
        front::stderr::say(&(format!($($text)*) + "\n"))
    };
}

/// As [`eprintln!`], without a newline.
macro_rules! eprint {
    ($($text:tt)*) => {
        front::stderr::say(&format!($($text)*))
    };
}

mod bars;
mod cli;
mod commands;
mod interrupt;
mod text;

pub use front::failure::MORE_MEMORY;

use clap::builder::StyledStr;
use front::failure::Failure;
use mm::NoMemory;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;
use std::thread::Builder;

/// The stack of the thread that does the work, in bytes. The main thread's own stack grows on
/// demand, and the process is killed if it can't.
const STACK: usize = 8 << 20;

/// Runs the command line in a thread with a large stack; returns the process's exit code. Memory
/// that runs out ends the command with one sentence.
///
/// # Panics
/// Passes on a panic of a command, which is a bug.
pub fn main() -> ExitCode {
    let cli = match cli::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(e) => return refused(&e),
    };
    let work = || catch_unwind(AssertUnwindSafe(|| run(&cli)));
    let done = std::thread::scope(|scope| {
        let worker = Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        worker.map_or_else(
            |_| Ok(Err(Failure::Memory(NoMemory::thread(STACK as u64)))),
            |worker| worker.join().unwrap_or_else(Err),
        )
    });
    let done = done.unwrap_or_else(|payload| match payload.downcast::<NoMemory>() {
        Ok(e) => Err(Failure::Memory(*e)),
        Err(payload) => resume_unwind(payload),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Prints clap's help to standard output, or its error about the command line to standard error.
/// Returns the exit code.
fn refused(e: &clap::Error) -> ExitCode {
    if e.use_stderr() {
        let e = of_escaped(std::env::args_os()).unwrap_or_else(|| e.render());
        match std::io::stderr().is_terminal() {
            true => front::stderr::say_escaped(&e.ansi().to_string()),
            false => eprint!("{e}"),
        }
    } else {
        // The help text is ours, and clap handles the terminal's colours.
        let _ = e.print();
    }
    ExitCode::from(e.exit_code() as u8)
}

/// Returns clap's error about the command line with every word escaped as
/// [`lab::diagnostic::plain`] does: clap colours its errors while it puts the words into them.
/// `None` if no word needs that.
fn of_escaped(args: impl Iterator<Item = OsString>) -> Option<StyledStr> {
    let words: Vec<String> = args
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let escaped: Vec<_> = words.iter().map(|w| lab::diagnostic::plain(w)).collect();
    if escaped.iter().zip(&words).all(|(e, w)| e == w) {
        return None;
    }
    let refused = cli::parse(escaped.iter().map(|word| &**word));
    Some(match refused {
        Err(e) if e.use_stderr() => e.render(),
        // Escaped, the words are right: a name may hold no such character.
        _ => StyledStr::from(format!(
            "error: the command line holds characters that can't be shown: {}\n\n\
             accepted: words without them; `lowmark --help` lists the commands\n",
            escaped[1..].join(" ")
        )),
    })
}

/// Runs the subcommand.
fn run(cli: &cli::Cli) -> Result<(), Failure> {
    match &cli.command {
        cli::Command::Run(args) => commands::run::run(args),
        cli::Command::Export(args) => commands::export::run(args),
        cli::Command::Results(args) => commands::results::run(args),
        cli::Command::Compare(args) => commands::compare::run(args),
        cli::Command::Bisect(args) => commands::bisect::run(args),
        cli::Command::Top(args) => commands::top::run(args),
        cli::Command::Record(args) => commands::record::run(args),
        cli::Command::Learn(args) => commands::learn::run(args),
        cli::Command::Report(args) => commands::report::run(args),
        cli::Command::Undo(args) => commands::record::undo(args),
        cli::Command::Validate(args) => commands::validate::run(args),
        cli::Command::Attribute(args) => commands::attribute::run(args),
        cli::Command::Diverge(args) => commands::diverge::run(args),
        cli::Command::Reproduce(args) => commands::reproduce::run(args),
        cli::Command::Tune(args) => commands::tune::run(args),
        cli::Command::Explain(args) => commands::explain::run(args),
        cli::Command::Params(args) => commands::params::run(args),
        cli::Command::Mrc(args) => commands::mrc::run(args),
        cli::Command::Policies(args) => commands::policies::run(args),
        cli::Command::Bench(args) => commands::bench::run(args),
        cli::Command::Trace(what) => commands::trace::run(what),
        cli::Command::Machine(args) => commands::machine::run(args),
        cli::Command::Kernel(what) => commands::kernel::run(what),
        cli::Command::Completions(args) => commands::installed::completions(args),
        cli::Command::Man(args) => commands::installed::man(args),
        cli::Command::Schema(args) => commands::schema::run(args),
        cli::Command::Examples(args) => commands::examples::run(args),
        cli::Command::New(args) => commands::examples::new(args),
    }
}
