//! `lowmark run`.

use super::listen::Files;
use crate::cli::{Cli, Command, Run};
use crate::{bars, interrupt, text};
use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches};
use front::failure::Failure;
use front::runs::{
    Around, Question, Request, answer, failures, none_finished, outcomes, put, rows_text,
    says_something, told, too_few,
};
use front::worlds::Here;
use lab::diagnostic::Diagnostic;
use lab::experiment::Overrides;
use lab::model::{Experiment, Outcomes};
use lab::report::compare::Comparison;
use lab::results::log::{Began, began, build};
use lab::results::{self, ClaimedFolder};
use lab::runner;
use lab::runner::memory::{self, Host, Need};
use lab::validate::Validation;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Returns the words of this command and its folder, which a results folder keeps for `--resume`;
/// `None` if they are not text.
fn this_command() -> Option<Began> {
    let words = std::env::args_os()
        .skip(1)
        .map(|word| word.into_string().ok());
    Some(Began {
        folder: std::env::current_dir().ok()?,
        words: words.collect::<Option<_>>()?,
    })
}

/// Returns true if these words of a command (without `lowmark`) name an experiment, and not only
/// options. Words that can't be parsed count as naming one.
fn names_experiment(words: &[String]) -> bool {
    let all = std::iter::once("lowmark").chain(words.iter().map(String::as_str));
    let Ok(matches) = Cli::command().try_get_matches_from(all) else {
        return true;
    };
    let run = matches.subcommand_matches("run");
    let source = run.and_then(|run| run.value_source("experiment"));
    source != Some(ValueSource::DefaultValue)
}

/// Returns the folder and the words with which an interrupted run goes on: the words that its
/// results folder keeps, without the place of results, then `own`, those of this command. `None` if
/// this command names what it runs, or the folder does not say by which command it began.
fn resumed(args: &Run, own: &[String]) -> Option<(PathBuf, Vec<String>)> {
    let dir = args.resume.as_ref()?;
    if names_experiment(own) || args.trace.source().is_some() {
        return None;
    }
    let mut own = own.to_vec();
    let at = own.iter().position(|word| word == "run")?;
    own.remove(at);
    // The command that began the run.
    let began = began(&results::partial_folder(dir)?)?;
    let mut words = Vec::new();
    let mut rest = began.words.into_iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--out" | "--resume" => drop(rest.next()),
            _ if word.starts_with("--out=") || word.starts_with("--resume=") => {}
            _ => words.push(word),
        }
    }
    let absolute = std::path::absolute(dir).ok()?;
    for word in own {
        if Path::new(&word) == dir.as_path() {
            words.push(absolute.to_str()?.to_owned());
        } else if let Some(value) = word.strip_prefix("--resume=") {
            debug_assert_eq!(Path::new(value), dir);
            words.push(format!("--resume={}", absolute.to_str()?));
        } else {
            words.push(word);
        }
    }
    Some((began.folder, words))
}

/// Continues a run by the command that its results folder keeps, in the folder where that was
/// given; `None` if this command says itself what to run.
fn gone_on(args: &Run) -> Option<Result<(), Failure>> {
    let own = this_command()?.words;
    let (folder, words) = resumed(args, &own)?;
    let all = std::iter::once("lowmark").chain(words.iter().map(String::as_str));
    // An option that is given anew, such as `--jobs`, wins over that of the beginning.
    let parser = Cli::command().mut_subcommand("run", |run| run.args_override_self(true));
    let cli = Cli::from_arg_matches(&parser.try_get_matches_from(all).ok()?).ok()?;
    let Command::Run(again) = cli.command else {
        return None;
    };
    if let Err(e) = std::env::set_current_dir(&folder) {
        let what = format!(
            "the run was begun in {}, which can't be entered: {e}",
            folder.display()
        );
        let accepted = "accepted: the whole command with `--resume`, given in another folder";
        return Some(Err(Failure::Input(
            Diagnostic::placeless(what, accepted).into(),
        )));
    }
    if !again.quiet {
        eprintln!("continuing: lowmark {}", words.join(" "));
    }
    Some(begin(&again))
}

/// Runs an experiment and writes its results folder. With `--resume DIR` alone it goes on by the
/// command that the folder keeps.
pub fn run(args: &Run) -> Result<(), Failure> {
    gone_on(args).unwrap_or_else(|| begin(args))
}

/// Runs the experiment of the arguments from loading to printing, or only lists its cells
/// (`--list`).
fn begin(args: &Run) -> Result<(), Failure> {
    let overrides = Overrides {
        set: args.set.iter().map(|(k, v)| format!("{k}={v}")).collect(),
        iterations: args.iterations.map(NonZeroU32::get),
        track_pages: args.track_pages,
        machine: args.trace.of_experiment(),
    };
    if let Some(taken) = args.trace.taken().filter(|_| !args.quiet) {
        eprintln!("{taken}");
    }
    let loaded = match args.trace.run() {
        Some(trace) => trace.experiment(&overrides),
        None => lab::experiment::load(&args.experiment, &overrides),
    };
    let experiment = adjusted(loaded.map_err(|e| Failure::Input(e.into()))?, args);
    if args.list {
        return list(&experiment, args.json);
    }
    let guesses = lab::experiment::unit_guesses(&experiment);
    for line in guesses.iter().filter(|_| !args.quiet) {
        front::stderr::say(&text::screen().wrapped(line));
    }
    for note in lab::experiment::sysctl_notes(&experiment) {
        eprintln!("note: {note}");
    }
    if let Some(note) = too_few(&experiment).filter(|_| !args.quiet) {
        eprintln!("note: {note}");
    }
    let patience = Duration::from_secs(args.patience);
    let files = Files::new(args, &experiment)?;
    let command = this_command();
    let mut how = How::of(args);
    how.request.listeners = files.as_ref().map(|f| &f.listeners);
    how.request.command = command.as_ref();
    run_loaded(&how, &experiment, &Here { patience })?;
    files.map_or(Ok(()), |files| files.written())
}

/// How to run an experiment and what to print of it; the fields are options of [`Run`].
#[derive(Debug, Clone, Copy)]
pub struct How<'a> {
    /// The question that the results answer.
    pub question: Question,
    /// How to run it.
    pub request: Request<'a>,
    /// Print JSON.
    pub json: bool,
    /// Print the rows.
    pub rows: bool,
    /// Print the rows in the form of a mail.
    pub mail: bool,
    /// Print all tables.
    pub verbose: bool,
}

impl<'a> How<'a> {
    /// Takes the options from the arguments of `run`; the question is which policy is better.
    /// Listeners and the command are added by the caller.
    fn of(args: &'a Run) -> Self {
        Self {
            question: Question::Compare,
            request: Request {
                jobs: args.jobs,
                out: args.out.as_deref(),
                replace: args.replace,
                resume: args.resume.as_deref(),
                check: args.check.map(Into::into),
                quiet: args.quiet,
                progress: bars::unless(args.quiet),
                listeners: None,
                command: None,
            },
            json: args.json,
            rows: args.rows,
            mail: args.mail,
            verbose: args.verbose,
        }
    }
}

/// Applies `--seed`, which overrides the file's.
fn adjusted(mut experiment: Experiment, args: &Run) -> Experiment {
    if let Some(seed) = args.seed {
        experiment.seed = seed;
    }
    experiment
}

/// Runs an experiment with `simulate`, writes its results folder and prints the answer. Returns the
/// validation, if that was the question and the results did not exist already.
pub fn run_loaded(
    args: &How<'_>,
    experiment: &Experiment,
    simulate: runner::Simulate<'_>,
) -> Result<Option<Validation>, Failure> {
    let around = Around {
        stop: interrupt::flag(),
        build: build(),
        folder: true,
        finished: &mut |_, _| {},
    };
    let Some(ran) = outcomes(&args.request, experiment, simulate, around)? else {
        return Ok(None);
    };
    let place = ran.place.expect("a folder was asked for");
    finish(args, &ran.outcomes, place, &ran.releases)
}

/// Writes and prints the results; returns the verdict. `releases` are those of real kernels, by
/// build.
fn finish(
    args: &How<'_>,
    outcomes: &Outcomes,
    place: ClaimedFolder,
    releases: &BTreeMap<String, String>,
) -> Result<Option<Validation>, Failure> {
    let wanted = outcomes.results.iter().flatten().count();
    let finished = outcomes.results.iter().flatten().flatten().count();
    if outcomes.interrupted && finished == 0 {
        return Err(Failure::Interrupted {
            finished,
            wanted,
            kept: None,
        });
    }
    let answer = answer(outcomes, args.question, releases);
    let (dir, written) = put(outcomes, &answer, place)?;
    if let Some(validation) = answer.validation.as_ref().filter(|_| args.json) {
        text::print_json(validation)?;
    } else if args.json && args.rows {
        text::print(&results::rows_json(outcomes))?;
    } else if args.json {
        text::print(&results::to_json(outcomes))?;
    } else if args.mail && !args.request.quiet {
        // Print nothing else, so that the text can be mailed as it is.
        text::print(&answer.mail)?;
    } else if !args.request.quiet && says_something(outcomes) {
        match args.verbose {
            true => text::print(&told(outcomes, &Comparison::new(outcomes), text::screen()))?,
            false => text::print(&answer.text)?,
        }
        if args.rows {
            text::print(&format!("\n{}", rows_text(outcomes, text::screen())))?;
        }
    }
    if !args.request.quiet {
        // Not among the results, since times differ from run to run.
        eprint!("{}", lab::report::host::text(outcomes));
    }
    if outcomes.interrupted {
        return Err(Failure::Interrupted {
            finished,
            wanted,
            kept: Some(dir),
        });
    }
    let failed = failures(outcomes).or_else(|| none_finished(outcomes));
    if !args.request.quiet && written.is_ok() {
        let checked = match (args.request.check.is_some(), &failed) {
            (true, None) => ", each run twice with equal results",
            _ => "",
        };
        let more = match args.question {
            Question::Compare if !args.verbose => "; intervals and all tables: --verbose",
            _ => "",
        };
        eprintln!(
            "{}{checked}{more}; results in {}",
            counted(finished, "iteration"),
            dir.display()
        );
    }
    if let Some(failed) = failed {
        let failure = Failure::Results(failed);
        // Both failures are reported; the exit code is the same.
        if let Err(elsewhere) = written {
            elsewhere.report();
        }
        return Err(failure);
    }
    written.map(|()| answer.validation)
}

/// Describes the settings that change in mid-run, one line each; where they vary, the axes show
/// which cell has which.
fn changes(experiment: &Experiment) -> String {
    let mut lines: Vec<String> = Vec::new();
    for change in experiment.cells.iter().flat_map(|c| &c.spec.changes) {
        let line = format!("during the run, {}\n", change.text());
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.concat()
}

/// Prints the experiment's cells with the memory that a run of each needs, without running them.
fn list(experiment: &Experiment, json: bool) -> Result<(), Failure> {
    if json {
        let keys: Vec<String> = experiment.cells.iter().map(|c| c.key()).collect();
        return text::print_json(&keys);
    }
    let mut header = vec!["machine", "filesystem", "policy"];
    let others: Vec<&str> = experiment
        .axes
        .iter()
        .map(String::as_str)
        .filter(|axis| !["machine", "filesystem", "policy"].contains(axis))
        .collect();
    header.extend(&others);
    header.push("memory of a run");
    let kernels = !experiment.kernels().is_empty();
    if kernels {
        header.push("temporary files");
    }
    let mut table = text::table(header);
    for cell in &experiment.cells {
        let value = |axis: &&str| {
            let found = cell.axes.iter().find(|(key, _)| key == axis);
            found.map_or_else(String::new, |(_, value)| value.clone())
        };
        let mut row = vec![
            cell.machine.clone(),
            cell.filesystem.clone(),
            cell.policy.clone(),
        ];
        row.extend(others.iter().map(value));
        let need = Need::of(cell);
        row.push(memory::bytes(need.touched()));
        if kernels {
            row.push(memory::bytes(need.disk()));
        }
        table.add_row(row);
    }
    let (cells, n) = (experiment.cells.len(), experiment.iterations as usize);
    let screen = text::listing();
    let need = memory::summary(experiment, &Host::here());
    text::print(&format!(
        "{table}\n{}, {} each: {}\n{}{}",
        counted(cells, "cell"),
        counted(n, "iteration"),
        counted(cells * n, "run"),
        screen.broken(&changes(experiment)),
        screen.wrapped(&need)
    ))
}

/// Returns a number with its noun, which is in the plural unless there is one.
fn counted(n: usize, noun: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {noun}{plural}")
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
