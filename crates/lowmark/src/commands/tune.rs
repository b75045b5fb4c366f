//! `lowmark tune`.

use crate::cli::{Tune, machine_here};
use crate::text;
use front::failure::Failure;
use front::place::{claim, settled};
use front::worlds::Here;
use lab::diagnostic::Diagnostic;
use lab::experiment::{Overrides, TraceRun, load_profile, quoted};
use lab::model::Experiment;
use lab::results::{ClaimedFolder, File, Kind, Terms};
use lab::runner::Worlds;
use lab::tune::adversary::{self, Worst};
use lab::tune::gaps::known_gaps;
use lab::tune::goals::Goals;
use lab::tune::learn::with_profile;
use lab::tune::space::Form;
use lab::tune::text::AnswerReport;
use lab::tune::trial::{TrialOptions, Trials};
use lab::tune::verify::verify;
use lab::tune::{NoAnswer, Question, tune};
use std::path::Path;

/// Searches for settings of the machine that meet the goals, tries those of a profile, learns
/// watermarks (`--learn`), or searches for the worst bursts (`--adversary`). Writes the results
/// folder and prints the answer. With `--verify-in` also runs the answer in a real kernel, and
/// fails if it misses a goal there.
pub fn run(args: &Tune) -> Result<(), Failure> {
    let input = |d: Diagnostic| Failure::Input(d.into());
    let goals = goals(args);
    if goals.is_empty() && !args.learn && args.adversary.is_none() {
        return Err(input(Diagnostic::placeless(
            "the goal is missing",
            "accepted: at least one of --response, --fio-p99, --alloc-latency, --direct-reclaim, --max-free, --throughput; or --learn, or --adversary",
        )));
    }
    let mut experiment = of_first_policy(experiment(args).map_err(input)?);
    of_one_engine(&experiment).map_err(input)?;
    let real = match &args.verify_in {
        Some(kernel) => Some(in_kernel(args, kernel).map_err(input)?),
        None => None,
    };
    // As many parallel trials as threads, regardless of the file's iterations.
    let many = Experiment {
        iterations: 1000,
        ..experiment.clone()
    };
    let terms = Terms {
        kind: Kind::Tune,
        title: &experiment.name,
        replace: args.replace,
    };
    let place = claim(
        args.out.as_deref(),
        &format!("tune-{}", experiment.name),
        terms,
    )?;
    let options = TrialOptions {
        jobs: front::runs::fitting_jobs(&many, args.jobs)?,
        progress: Some(crate::bars::trials),
        stop: crate::interrupt::flag(),
    };
    if args.learn {
        return learn(args, &experiment, options, place);
    }
    if let Some(worst) = args.adversary {
        if let Some(file) = &args.profile {
            let cell = &mut experiment.cells[0];
            let profile = load_profile(file, &cell.spec.machine).map_err(input)?;
            *cell = with_profile(cell, &profile);
        }
        return adversary(args, worst, &experiment, options, place);
    }
    let mut question = Question {
        goals,
        knobs: args.knobs.clone(),
        form: match args.form.as_str() {
            "explicit" => Form::Explicit,
            _ => Form::ScaleFactor,
        },
        budget: args.budget.get(),
        search_seeds: args.search_seeds.get(),
        seeds: args.seeds.get(),
        seed: args.seed,
    };
    if let Some(file) = &args.profile {
        let cell = &mut experiment.cells[0];
        let profile = load_profile(file, &cell.spec.machine).map_err(input)?;
        *cell = with_profile(cell, &profile);
        question.knobs.clear();
    }
    let answer = tune(&experiment, &question, options.clone(), &sim::run).map_err(failure)?;
    let verified = match &real {
        Some(real) => {
            let (setting, runs) = (&answer.chosen.setting, args.verify_seeds.get());
            let verified = verify(real, setting, &goals, runs, options, &Here::default());
            Some(verified.map_err(|e| failure(e.into()))?)
        }
        None => None,
    };
    let gaps = known_gaps(&goals);
    let cell = &experiment.cells[0];
    let report = AnswerReport {
        answer: &answer,
        question: &question,
        cell,
        known_gaps: &gaps,
        verified: verified.as_ref(),
    };
    let missed = verified.as_ref().filter(|v| !v.holds());
    write(place, &report.files(), |dir| {
        if args.json {
            text::print_json(&report.json())?;
        } else {
            text::print(&report.text_for(text::screen()))?;
        }
        if !answer.already {
            say_where(dir);
        }
        missed.map_or(Ok(()), |v| Err(Failure::Results(v.verdict())))
    })
}

/// Returns the goals that the options give; those that are absent are `None`.
fn goals(args: &Tune) -> Goals {
    Goals {
        alloc_latency_ns: args.alloc_latency,
        direct_reclaim: args.direct_reclaim,
        max_free: args.max_free,
        throughput: args.throughput,
        response_ns: args.response,
        fio_p99_ns: args.fio_p99,
    }
}

/// Reduces an experiment that only compares policies to the first of them, whose settings are the
/// ones to be improved, and says so.
fn of_first_policy(mut experiment: Experiment) -> Experiment {
    if experiment.axes != ["policy"] {
        return experiment;
    }
    experiment.cells.truncate(1);
    experiment.axes.clear();
    experiment.cells[0].axes.clear();
    eprintln!(
        "settings are searched for the first policy, `{}`; --set policy=NAME takes another",
        experiment.cells[0].policy
    );
    experiment
}

/// Checks that the experiment has one cell, on the engine.
fn of_one_engine(experiment: &Experiment) -> Result<(), Diagnostic> {
    if experiment.cells.len() != 1 {
        let (cells, axes) = (experiment.cells.len(), experiment.axes.join(", "));
        return Err(Diagnostic::placeless(
            format!(
                "the experiment has {cells} cells, but settings are searched for one (varying: {axes})"
            ),
            "accepted: an experiment of one cell; `--set policy='\"linux-3.1\"'` and the like choose one",
        ));
    }
    let Some(kernel) = experiment.kernels().first().copied() else {
        return Ok(());
    };
    Err(Diagnostic::placeless(
        format!(
            "the real kernel `{}`: settings are searched for on the engine",
            kernel.build
        ),
        "accepted: a policy of the engine; `--verify-in` tries the answer in a kernel",
    ))
}

/// Returns the same experiment in the real kernel `kernel`, after checking that it was built.
fn in_kernel(args: &Tune, kernel: &str) -> Result<Experiment, Diagnostic> {
    let experiment = experiment_with(args, &[format!("policy={}", quoted(kernel))])?;
    for cell in &experiment.cells {
        Here::default().identity(cell.kernel.as_ref().expect("asked for"))?;
    }
    Ok(experiment)
}

/// Publishes the files in their folder, then calls `print` with it. Fails at the end if the folder
/// is not the requested one.
fn write(
    place: ClaimedFolder,
    files: &[File],
    print: impl FnOnce(&Path) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let published = place.publish(&|emit| files.iter().try_for_each(|f| emit(f.clone())))?;
    print(&published.dir)?;
    settled(&published)
}

/// Says on standard error where the settings lie as a file for /etc/sysctl.d.
fn say_where(dir: &Path) {
    let file = dir.join("90-lowmark.conf");
    eprintln!(
        "the settings as a file for /etc/sysctl.d: {}",
        file.display()
    );
}

/// Learns watermarks: stresses the machine with ones that adjust themselves until there is no
/// direct reclaim, then writes and prints the profile of the final ones.
fn learn(
    args: &Tune,
    experiment: &Experiment,
    options: TrialOptions,
    place: ClaimedFolder,
) -> Result<(), Failure> {
    let runs = args.search_seeds.get();
    let trials = Trials::new(experiment, runs, options, &sim::run);
    let learned = lab::tune::learn::learn(&trials, runs).map_err(|e| failure(e.into()))?;
    let cell = &experiment.cells[0];
    let files = lab::tune::text::learned_files(&learned, cell, runs);
    write(place, &files, |dir| {
        if args.json {
            text::print_json(&lab::tune::text::learned_json(&learned))?;
        } else {
            text::print(&lab::tune::text::learned_text(&learned))?;
        }
        eprintln!(
            "the profile for --profile: {}",
            dir.join("watermarks.toml").display()
        );
        say_where(dir);
        Ok(())
    })
}

/// Searches for the bursts with which the policy does worst by the figure `worst`, then writes and
/// prints them with an experiment that repeats them.
fn adversary(
    args: &Tune,
    worst: Worst,
    experiment: &Experiment,
    options: TrialOptions,
    place: ClaimedFolder,
) -> Result<(), Failure> {
    let question = adversary::Question {
        worst,
        budget: args.budget.get(),
        runs: args.search_seeds.get(),
        seed: args.seed,
    };
    let trials = Trials::new(experiment, question.runs, options, &sim::run);
    let found = adversary::search(&trials, &question)
        .map_err(|e| failure(e.into()))?
        .map_err(|d| Failure::Input(d.into()))?;
    let files = adversary::files(&found, &question, experiment).map_err(|e| {
        let message = format!("the experiment can't be written: {e}");
        Failure::Input(Diagnostic::placeless(message, "").into())
    })?;
    write(place, &files, |dir| {
        if args.json {
            text::print_json(&adversary::json(&found, &question))?;
        } else {
            text::print(&adversary::text(&found, &question))?;
        }
        eprintln!(
            "to repeat these runs: lowmark run {}",
            dir.join("adversary.toml").display()
        );
        Ok(())
    })
}

/// Turns the reason why a search gave no answer into the program's failure.
fn failure(why: NoAnswer) -> Failure {
    match why {
        NoAnswer::Interrupted => {
            Failure::Stopped("interrupted before the search ended; nothing was written".into())
        }
        NoAnswer::Impossible { reason, nearest } => {
            Failure::Input(Diagnostic::placeless(reason, nearest).into())
        }
    }
}

/// Reads the experiment that the options name, or makes one of `--machine` and a workload.
fn experiment(args: &Tune) -> Result<Experiment, Diagnostic> {
    experiment_with(args, &[])
}

/// Reads the experiment that the options name, or makes one of `--machine` and a workload or trace.
/// `above` are keys with values (`KEY=VALUE`) that override `--set`.
fn experiment_with(args: &Tune, above: &[String]) -> Result<Experiment, Diagnostic> {
    let set = args.set.iter().map(|(k, v)| format!("{k}={v}"));
    let overrides = Overrides {
        set: set.chain(above.iter().cloned()).collect(),
        ..Overrides::default()
    };
    if let Some(file) = &args.experiment {
        let overrides = Overrides {
            machine: args.machine.as_deref().map(machine_here),
            ..overrides
        };
        return lab::experiment::load(file, &overrides);
    }
    let machine = args
        .machine
        .as_deref()
        .map(machine_here)
        .unwrap_or_default();
    if let Some(trace) = &args.trace {
        let trace = TraceRun {
            fio: None,
            fio_args: None,
            trace: trace.clone(),
            machine,
            policies: vec![args.policy.clone()],
            filesystem: args.filesystem.clone(),
            timing: None,
            lenient: false,
            format: None,
            columns: None,
            unit: None,
        };
        return trace.experiment(&overrides);
    }
    let Some(workload) = &args.workload else {
        return Err(Diagnostic::placeless(
            "the workload is missing",
            "accepted: --workload with a command line, or --trace with a trace",
        ));
    };
    lab::experiment::of_command(
        &machine,
        workload,
        &args.filesystem,
        &args.policy,
        &overrides,
    )
}
