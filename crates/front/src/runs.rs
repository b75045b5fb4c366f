//! Runs of experiments: from the request to the results folder and the texts that answer.

use crate::failure::Failure;
use crate::place::{claim, say, settled};
use kernel::Kernel;
use lab::diagnostic::Diagnostic;
use lab::model::{Experiment, Outcomes};
use lab::report::compare::Comparison;
use lab::report::verdict;
use lab::results::log::{Began, Header};
use lab::results::{self, ClaimedFolder, File, Kind, Resumption, Terms};
use lab::runner::memory::{self, Host};
use lab::runner::{self, Check, Journal, Listeners, RunOptions, ShowProgress, Tried};
use lab::terminal::Screen;
use lab::validate::Validation;
use sim::{Outcome, RunResult};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How to run an experiment; the fields are options of `lowmark run`.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Threads; `None`: as many as cores and memory allow.
    pub jobs: Option<NonZeroUsize>,
    /// The results folder; `None`: a new one in `results/NAME`, if there is to be one.
    pub out: Option<&'a Path>,
    /// Whether earlier results in the folder may be replaced.
    pub replace: bool,
    /// The folder of an interrupted run to continue.
    pub resume: Option<&'a Path>,
    /// Runs every iteration twice with checks, and compares.
    pub check: Option<Check>,
    /// Whether notes on the run itself are left out.
    pub quiet: bool,
    /// Makes the display of progress; `None`: there is none.
    pub progress: Option<ShowProgress>,
    /// The listeners of the engine's events.
    pub listeners: Option<&'a Listeners>,
    /// The command that began the run, which its folder keeps for `--resume`.
    pub command: Option<&'a Began>,
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
    /// The rows in the form of a mail.
    pub mail: String,
    /// All of these and the report, for the results folder.
    pub files: Vec<File>,
    /// The verdict, for [`Question::Validate`].
    pub validation: Option<Validation>,
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
    answer.text = told(Screen::here());
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
pub fn told(outcomes: &Outcomes, comparison: &Comparison, screen: Screen) -> String {
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

/// Returns the report's rows and where time went, as a screen shows them.
pub fn rows_text(outcomes: &Outcomes, screen: Screen) -> String {
    let times = lab::rows::time_text(outcomes, screen);
    lab::rows::to_text(outcomes, screen) + "\n" + &times
}

/// Compares the policies: makes the verdict for the first screen, and the comparison, rows and page
/// for the results folder. `releases` are those of real kernels, by build.
fn compare(outcomes: &Outcomes, releases: &BTreeMap<String, String>) -> Answer {
    let comparison = Comparison::new(outcomes);
    let text = verdict::text(outcomes, &comparison, Screen::here());
    let whole = told(outcomes, &comparison, Screen::default());
    let page = lab::report::page::report(outcomes, &comparison);
    let mail = lab::rows::mail::to_text(outcomes, releases);
    let files = vec![
        File::new("comparison.txt", whole),
        File::new("rows.txt", rows_text(outcomes, Screen::default())),
        File::new("mail.txt", mail.clone()),
        File::new("report.html", page),
    ];
    Answer {
        text,
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
pub fn none_finished(outcomes: &Outcomes) -> Option<String> {
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
pub fn too_few(experiment: &Experiment) -> Option<String> {
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

/// The caller of a run: a command, or a program that uses this library.
pub struct Around<'a> {
    /// Set by the caller to stop.
    pub stop: Arc<AtomicBool>,
    /// The digest of the running program, see [`lab::results::log::build`].
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

/// Refuses more iterations than complete results in `dir` have: a run that has ended does not go
/// on.
fn all_there(dir: &Path, experiment: &Experiment) -> Result<(), Failure> {
    let text = results::text_unchanged(dir, "results.json").map_err(|why| {
        let what = format!("{}: {why}", dir.display());
        Failure::Input(
            Diagnostic::placeless(what, "accepted: a results folder as it was written").into(),
        )
    })?;
    let document: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let had = document["experiment"]["iterations"].as_u64();
    let wanted = experiment.iterations;
    match had {
        Some(had) if u64::from(wanted) > had => {
            let what = format!(
                "the results in {} are complete with {had} iterations, and {wanted} are asked for",
                dir.display()
            );
            let help = format!(
                "accepted: `--resume` without `--iterations`; or a new run with `--iterations {wanted}`"
            );
            Err(Failure::Input(Diagnostic::placeless(what, help).into()))
        }
        _ => Ok(()),
    }
}

/// Runs an experiment with `simulate` in a claimed results folder, or continues the unfinished one
/// of `--resume`. Returns the outcomes with the folder, not yet published; `None`: the results of
/// `--resume` exist and are complete.
pub fn outcomes(
    request: &Request<'_>,
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
    let jobs = fitting_jobs(experiment, request.jobs)?;
    let terms = Terms {
        kind: Kind::Run,
        title: &experiment.name,
        replace: request.replace,
    };
    let mut place = match request.resume {
        _ if !around.folder => None,
        None => Some(claim(request.out, &experiment.name, terms)?),
        Some(dir) => match ClaimedFolder::resume(dir, terms)? {
            Resumption::Unfinished(place) => {
                say(place.notes());
                Some(*place)
            }
            Resumption::Complete(dir) => {
                all_there(&dir, experiment)?;
                eprintln!("the results in {} are complete", dir.display());
                return Ok(None);
            }
        },
    };
    let header = Header {
        kernels,
        command: request.command.cloned(),
        ..Header::new(experiment, request.check.is_some(), around.build)
    };
    let begun = place.as_mut().map(|place| place.begin(&header));
    let earlier = begun.transpose()?.unwrap_or_default();
    if request.resume.is_some() && !request.quiet {
        eprintln!("{} iterations were finished before", earlier.len());
    }
    let options = RunOptions {
        jobs,
        check: request.check,
        progress: request.progress,
        listeners: request.listeners.cloned(),
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
            outcomes.build = Some(crate::VERSION.to_owned());
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
pub fn says_something(outcomes: &Outcomes) -> bool {
    let mut cells = outcomes.results.iter();
    !outcomes.interrupted || cells.all(|runs| runs.iter().flatten().count() > 1)
}
