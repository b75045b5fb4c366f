//! `lowmark run`.

use super::listen::Files;
use super::worlds::Here;
use crate::cli::{Check, Cli, Command, Run};
use crate::failure::Failure;
use crate::place::{claim, say, settled};
use crate::{interrupt, text};
use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches};
use kernel::Kernel;
use lab::diagnostic::Diagnostic;
use lab::experiment::Overrides;
use lab::model::{Experiment, Outcomes};
use lab::report::compare::Comparison;
use lab::report::terminal::Screen;
use lab::report::verdict;
use lab::results::log::{Began, Header, began, build};
use lab::results::{self, ClaimedFolder, File, Kind, Resumption, Terms};
use lab::runner::memory::{self, Host, Need};
use lab::runner::{self, Journal, Listeners, RunOptions, Tried};
use lab::validate::Validation;
use sim::{Outcome, RunResult};
use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
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
    if names_experiment(own) || args.trace.trace.is_some() || args.trace.fio.is_some() {
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
    for note in lab::experiment::sysctl_notes(&experiment) {
        eprintln!("note: {note}");
    }
    if let Some(note) = too_few(&experiment).filter(|_| !args.quiet) {
        eprintln!("note: {note}");
    }
    let patience = Duration::from_secs(args.patience);
    let files = Files::new(args, &experiment)?;
    let command = this_command();
    let how = How {
        listeners: files.as_ref().map(|f| &f.listeners),
        command: command.as_ref(),
        ..How::of(args)
    };
    run_loaded(&how, &experiment, &Here { patience })?;
    files.map_or(Ok(()), |files| files.written())
}

/// How to run an experiment and what to print; the fields are those of [`Run`].
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)] // they are documented there
pub struct How<'a> {
    /// The question that the results answer.
    pub question: Question,
    pub jobs: Option<NonZeroUsize>,
    pub out: Option<&'a Path>,
    pub replace: bool,
    pub resume: Option<&'a Path>,
    pub check: Option<Check>,
    pub json: bool,
    pub rows: bool,
    pub mail: bool,
    pub verbose: bool,
    pub quiet: bool,
    /// The listeners of the engine's events.
    pub listeners: Option<&'a Listeners>,
    /// The command that began the run, which its folder keeps for `--resume`.
    pub command: Option<&'a Began>,
}

impl<'a> How<'a> {
    /// Takes the options from the arguments of `run`; the question is which policy is better.
    /// Listeners and the command are added by the caller.
    fn of(args: &'a Run) -> Self {
        Self {
            question: Question::Compare,
            jobs: args.jobs,
            out: args.out.as_deref(),
            replace: args.replace,
            resume: args.resume.as_deref(),
            check: args.check,
            json: args.json,
            rows: args.rows,
            mail: args.mail,
            verbose: args.verbose,
            quiet: args.quiet,
            listeners: None,
            command: None,
        }
    }
}

/// Returns the number of threads to use: the wanted number, or one for each core.
pub fn jobs(wanted: Option<NonZeroUsize>) -> usize {
    wanted
        .or_else(|| std::thread::available_parallelism().ok())
        .map_or(1, NonZeroUsize::get)
}

/// The largest accepted number of threads.
const MOST_JOBS: usize = 1024;

/// Returns the number of threads for an experiment's runs: the wanted number, or as many as cores
/// and memory allow. Reports on standard error if memory is the limit.
pub fn fitting_jobs(
    experiment: &Experiment,
    wanted: Option<NonZeroUsize>,
) -> Result<usize, Failure> {
    let wanted = wanted.map(NonZeroUsize::get);
    if let Some(n) = wanted.filter(|n| *n > MOST_JOBS) {
        let what = format!("`--jobs {n}` is out of range");
        let accepted = format!("accepted: 1 to {MOST_JOBS}");
        return Err(Failure::Input(Diagnostic::placeless(what, accepted).into()));
    }
    let fit = memory::fit(experiment, wanted, jobs(None), &Host::here());
    let fit = fit.map_err(|e| Failure::Input(e.into()))?;
    if let Some(note) = fit.note {
        eprintln!("{note}");
    }
    Ok(fit.jobs)
}

/// The question that an experiment's results answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Which policy is better.
    Compare,
    /// How close presets come to real kernels.
    Validate,
    /// The reference figures for judging presets; see [`measured`](MEASURED).
    Measure,
}

/// The file in the results folder that answers [`Question::Measure`].
pub const MEASURED: &str = "measured.json";

/// The answer to the question.
pub struct Answer {
    /// The first screen.
    pub text: String,
    /// The text of the rows.
    rows: String,
    /// The rows in the form of a mail.
    mail: String,
    /// All of these and the report, for the results folder.
    pub files: Vec<File>,
    /// The verdict, for [`Question::Validate`].
    validation: Option<Validation>,
}

/// Makes the texts and files that answer the question from the outcomes of a run. `releases` are
/// those of real kernels, by build.
pub fn answer(
    outcomes: &Outcomes,
    question: Question,
    releases: &BTreeMap<String, String>,
) -> Answer {
    let mut answer = compare(outcomes, releases);
    match question {
        Question::Compare => return answer,
        Question::Measure => {
            let measured = lab::validate::measured(outcomes);
            let json = serde_json::to_string(&measured).expect("figures have a JSON form");
            answer.files.push(File::new(MEASURED, json + "\n"));
            return answer;
        }
        Question::Validate => {}
    }
    let validation = Validation::new(outcomes);
    let told = |screen| lab::validate::text::to_text(&validation, screen);
    answer.text = told(text::screen());
    let csv = lab::validate::text::to_csv(&validation);
    answer.files.extend([
        File::new("validation.txt", told(Screen::default())),
        File::new("validation.csv", csv),
    ]);
    answer.validation = Some(validation);
    answer
}

/// Formats the comparison of policies for a screen, with all that is known: tables that answer the
/// experiment's question come first.
fn told(outcomes: &Outcomes, comparison: &Comparison, screen: Screen) -> String {
    use lab::report::compare::{cache_text, figures_text, oom_text, program_tables, program_text};
    let mut first = [
        figures_text(outcomes, screen),
        program_text(outcomes),
        comparison.to_text(screen),
    ];
    let figures = &outcomes.experiment.figures;
    if figures.first().is_some_and(|f| f.name == "elapsed") {
        first.rotate_right(1);
    }
    [
        screen.broken(&lab::report::said(&outcomes.experiment.said)),
        first.concat(),
        oom_text(outcomes),
        program_tables(outcomes, screen),
        lab::report::rates::text(outcomes, screen),
        cache_text(outcomes, screen),
        lab::report::tracker_text(outcomes, screen),
    ]
    .concat()
}

/// Compares the policies: makes the verdict for the first screen, and the comparison, rows and page
/// for the results folder. `releases` are those of real kernels, by build.
fn compare(outcomes: &Outcomes, releases: &BTreeMap<String, String>) -> Answer {
    let comparison = Comparison::new(outcomes);
    let text = verdict::text(outcomes, &comparison, text::screen());
    let whole = told(outcomes, &comparison, Screen::default());
    let page = lab::report::page::report(outcomes, &comparison);
    let rows = lab::rows::to_text(outcomes) + "\n" + &lab::rows::time_text(outcomes);
    let mail = lab::rows::mail::to_text(outcomes, releases);
    let files = vec![
        File::new("comparison.txt", whole),
        File::new("rows.txt", rows.clone()),
        File::new("mail.txt", mail.clone()),
        File::new("report.html", page),
    ];
    Answer {
        text,
        rows,
        mail,
        files,
        validation: None,
    }
}

/// Describes the errors of failed iterations: each once, with the first iteration that has it.
/// `None` if none failed.
pub fn failures(outcomes: &Outcomes) -> Option<String> {
    let mut reasons: Vec<(&str, String, usize)> = Vec::new();
    let mut failed = 0;
    for (cell, results) in outcomes.experiment.cells.iter().zip(&outcomes.results) {
        for (i, r) in results.iter().enumerate() {
            let Some(Outcome::Failed { error }) = r.as_ref().map(|r| &r.outcome) else {
                continue;
            };
            failed += 1;
            match reasons.iter_mut().find(|(known, ..)| known == error) {
                Some((_, _, n)) => *n += 1,
                None => reasons.push((error, format!("cell {}, iteration {i}", cell.key()), 1)),
            }
        }
    }
    let all = outcomes.results.iter().flatten().flatten().count();
    if failed == 0 {
        return None;
    }
    let mut out = format!("{failed} of {all} iterations failed");
    for (error, first, n) in reasons {
        out += &match n {
            1 => format!("\n  {first}: {error}"),
            n => format!("\n  {first} and {} more: {error}", n - 1),
        };
    }
    Some(out)
}

/// Returns a sentence if every run reached its time limit, so that no figure answers the question;
/// `None` if one ended otherwise.
fn none_finished(outcomes: &Outcomes) -> Option<String> {
    let ran: Vec<&RunResult> = outcomes.results.iter().flatten().flatten().collect();
    if ran.is_empty() || ran.iter().any(|r| r.outcome != Outcome::TimeLimit) {
        return None;
    }
    let all = ran.len();
    let limits = outcomes.experiment.cells.iter();
    let longest = limits.map(|c| c.spec.time_limit_ns).max()?;
    Some(format!(
        "no run finished: all {all} reached `time_limit_s` ({} s), so nothing can be compared",
        longest as f64 / 1e9
    ))
}

/// Returns a note if so few iterations are asked for that no difference can be claimed, whatever
/// they give; `None` if they are enough or nothing is compared. With `n` of each, the least p of
/// the Mann-Whitney test is 2 / (2n over n).
fn too_few(experiment: &Experiment) -> Option<String> {
    /// The fewest iterations of each with which p can be below 0.05.
    const ENOUGH: u32 = 4;
    let compared = experiment.cells.iter().any(|c| !c.baseline);
    let n = experiment.iterations;
    if !compared || n >= ENOUGH {
        return None;
    }
    let least = ["1", "0.33", "0.1"][n.clamp(1, 3) as usize - 1];
    Some(format!(
        "with {n} iterations of each no difference can be claimed (p is at least {least}); \
         {ENOUGH} are enough: --iterations {ENOUGH}"
    ))
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
    let Some(ran) = outcomes(args, experiment, simulate, around)? else {
        return Ok(None);
    };
    let place = ran.place.expect("a folder was asked for");
    finish(args, &ran.outcomes, place, &ran.releases)
}

/// The caller of a run: a command, or a program that uses this library.
pub struct Around<'a> {
    /// Set by the caller to stop.
    pub stop: Arc<AtomicBool>,
    /// The digest of the running program, see [`build`].
    pub build: String,
    /// Whether results go to a folder.
    pub folder: bool,
    /// Called for finished iterations with their number and the last one. It is `None` for those of
    /// an earlier run.
    pub finished: &'a mut dyn FnMut(usize, Option<&RunResult>),
}

/// A finished run.
pub struct Ran {
    /// The outcomes.
    pub outcomes: Outcomes,
    /// The claimed folder for the results, if any.
    pub place: Option<ClaimedFolder>,
    /// The releases of real kernels, by build.
    pub releases: BTreeMap<String, String>,
}

/// Runs an experiment with `simulate` in a claimed results folder, or continues the unfinished one
/// of `--resume`. Returns the outcomes with the folder, not yet published; `None`: the results of
/// `--resume` exist and are complete.
pub fn outcomes(
    args: &How<'_>,
    experiment: &Experiment,
    simulate: runner::Simulate<'_>,
    around: Around<'_>,
) -> Result<Option<Ran>, Failure> {
    let identity = |kernel: &&Kernel| Ok((kernel.build.clone(), simulate.identity(kernel)?));
    let kernels: Result<Vec<_>, Diagnostic> = experiment.kernels().iter().map(identity).collect();
    let kernels = kernels.map_err(|e| Failure::Input(e.into()))?;
    // The experiment, adjusted so that its engine and real kernels can be compared.
    let mut comparable = experiment.clone();
    runner::costs(&mut comparable, simulate).map_err(|e| Failure::Input(e.into()))?;
    match runner::settings(experiment, simulate, &around.stop) {
        Ok(Tried::Taken) => {}
        Ok(Tried::Stopped) => {
            let what = "stopped before the first iteration began";
            return Err(Failure::Stopped(what.to_owned()));
        }
        Err(e) => return Err(Failure::Input(e.into())),
    }
    lab::validate::beside::like_guests(&mut comparable, simulate, &around.stop);
    let experiment = &comparable;
    let jobs = fitting_jobs(experiment, args.jobs)?;
    let terms = Terms {
        kind: Kind::Run,
        title: &experiment.name,
        replace: args.replace,
    };
    let mut place = match args.resume {
        _ if !around.folder => None,
        None => Some(claim(args.out, &experiment.name, terms)?),
        Some(dir) => match ClaimedFolder::resume(dir, terms)? {
            Resumption::Unfinished(place) => {
                say(place.notes());
                Some(*place)
            }
            Resumption::Complete(dir) => {
                eprintln!("the results in {} are complete", dir.display());
                return Ok(None);
            }
        },
    };
    let header = Header {
        kernels,
        command: args.command.cloned(),
        ..Header::new(experiment, args.check.is_some(), around.build)
    };
    let begun = place.as_mut().map(|place| place.begin(&header));
    let earlier = begun.transpose()?.unwrap_or_default();
    if args.resume.is_some() && !args.quiet {
        eprintln!("{} iterations were finished before", earlier.len());
    }
    let options = RunOptions {
        jobs,
        check: args.check.map(Into::into),
        progress: crate::bars::unless(args.quiet),
        listeners: args.listeners.cloned(),
        stop: around.stop,
    };
    (around.finished)(earlier.len(), None);
    let mut kept = Kept {
        place,
        done: earlier.len(),
        earlier,
        lost: false,
        tell: around.finished,
    };
    let outcomes = runner::run_with(experiment, &options, simulate, &mut kept);
    match outcomes {
        Ok(mut outcomes) => {
            outcomes.build = Some(env!("LOWMARK_VERSION").to_owned());
            let kernels = experiment.kernels().into_iter();
            let release = |k: &Kernel| Some((k.build.clone(), simulate.release(k)?));
            let releases = kernels.filter_map(release).collect();
            Ok(Some(Ran {
                outcomes,
                place: kept.place,
                releases,
            }))
        }
        Err(failure) => {
            if let Some(place) = &kept.place {
                place.say_kept();
            }
            Err(failure.into())
        }
    }
}

/// Keeps finished iterations in the log of a folder.
struct Kept<'a> {
    place: Option<ClaimedFolder>,
    earlier: BTreeMap<(u32, u32), RunResult>,
    /// The number of finished iterations.
    done: usize,
    /// Set when an iteration could not be kept, which is reported once.
    lost: bool,
    /// [`Around::finished`].
    tell: &'a mut dyn FnMut(usize, Option<&RunResult>),
}

impl Journal for Kept<'_> {
    /// Returns the result of an iteration that an earlier, interrupted run finished; `None`: it has
    /// to run.
    fn earlier(&mut self, cell: u32, iteration: u32) -> Option<RunResult> {
        self.earlier.remove(&(cell, iteration))
    }

    /// Tells the caller that an iteration is finished, and keeps its result in the folder's log. A
    /// failure to keep it is reported once, and the run goes on.
    fn finished(&mut self, cell: u32, iteration: u32, result: &RunResult) {
        self.done += 1;
        (self.tell)(self.done, Some(result));
        let Some(place) = &mut self.place else { return };
        // The results are still in memory: only resuming after a kill would have to repeat them.
        if let Err(e) = place.log().finished(cell, iteration, result)
            && !std::mem::replace(&mut self.lost, true)
        {
            let log = place.partial();
            eprintln!(
                "finished iterations can't be stored in {}: {e}; the run continues, but `--resume` would compute them again",
                log.display()
            );
        }
    }
}

/// Publishes the results in their folder; those of an interrupted run stay in its partial folder.
/// Returns the folder, and an error if that is not the requested one.
pub fn put(
    outcomes: &Outcomes,
    answer: &Answer,
    place: ClaimedFolder,
) -> Result<(PathBuf, Result<(), Failure>), Failure> {
    let fill: results::Fill<'_> = &|emit| results::files(outcomes, &answer.files, emit);
    if outcomes.interrupted {
        return Ok((place.keep_partial(fill)?, Ok(())));
    }
    let published = place.publish(fill)?;
    let written = settled(&published);
    Ok((published.dir, written))
}

/// Returns true if the results can be compared: the run was not interrupted before every cell had
/// two iterations. A table of one iteration a policy would be read as an answer.
fn says_something(outcomes: &Outcomes) -> bool {
    let mut cells = outcomes.results.iter();
    !outcomes.interrupted || cells.all(|runs| runs.iter().flatten().count() > 1)
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
    } else if args.mail && !args.quiet {
        // Print nothing else, so that the text can be mailed as it is.
        text::print(&answer.mail)?;
    } else if !args.quiet && says_something(outcomes) {
        match args.verbose {
            true => text::print(&told(outcomes, &Comparison::new(outcomes), text::screen()))?,
            false => text::print(&answer.text)?,
        }
        if args.rows {
            text::print(&format!("\n{}", answer.rows))?;
        }
    }
    if !args.quiet {
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
    if !args.quiet && written.is_ok() {
        let checked = match (args.check.is_some(), &failed) {
            (true, None) => ", each run twice with equal results",
            _ => "",
        };
        let more = match args.question {
            Question::Compare if !args.verbose => "; intervals and all tables: --verbose",
            _ => "",
        };
        eprintln!(
            "{finished} iterations{checked}{more}; results in {}",
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
    let (cells, n) = (experiment.cells.len(), experiment.iterations);
    text::print(&format!(
        "{table}\n{cells} cells, {n} iterations each: {} runs\n{}{}\n",
        cells * n as usize,
        changes(experiment),
        memory::summary(experiment, &Host::here())
    ))
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
