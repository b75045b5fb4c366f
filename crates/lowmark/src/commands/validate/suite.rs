//! `lowmark validate --suite`: first runs the kernels, scenario by scenario, then judges the
//! presets by the kernels' figures, or by kept figures.

use crate::cli::Validate;
use crate::commands::run::{How, run_loaded};
use crate::{interrupt, text};
use front::failure::Failure;
use front::runs::{MEASURED, Question, Request, fitting_jobs};
use kernel::Kernel;
use lab::diagnostic::{Diagnostic, one_of};
use lab::model::{Experiment, Outcomes};
use lab::results::{complete_folder, is_begun, text_unchanged};
use lab::runner::{self, RunOptions, Simulate};
use lab::validate::beside::give_memory;
use lab::validate::kept::{self, Kept};
use lab::validate::measured::Measured;
use lab::validate::score::{Form, Row, Verdict};
use lab::validate::suite::{self, Scenario, nearest};
use lab::validate::{Pair, Validation, judged};
use std::path::{Path, PathBuf};

/// Runs and scores the suite called `name`: runs real kernels on its scenarios, or takes kept
/// figures (`--against`), then judges the presets by them. Failed iterations of kernels make the
/// command fail at the end.
pub fn run(args: &Validate, name: &str, simulate: Simulate<'_>) -> Result<(), Failure> {
    let mut scenarios = suite::scenarios(name).map_err(input)?;
    let known: Vec<&str> = scenarios.iter().map(|s| s.name.as_str()).collect();
    for wanted in &args.scenarios {
        if !known.contains(&wanted.as_str()) {
            let what = format!("the suite has no scenario `{wanted}`");
            return Err(input(Diagnostic::placeless(what, one_of(wanted, &known))));
        }
    }
    if !args.scenarios.is_empty() {
        scenarios.retain(|s| args.scenarios.contains(&s.name));
    }
    of_policies(args)?;
    let (kernels, failed) = match &args.against {
        Some(folder) => (
            chosen(args, kept::read_folder(folder).map_err(input)?)?,
            None,
        ),
        None => measure(args, &scenarios, simulate)?,
    };
    if let Some(folder) = &args.keep {
        keep(args, folder, &kernels)?;
    }
    let verdicts = judge(args, &scenarios, &kernels, simulate)?;
    show(args, &verdicts)?;
    failed.map_or(Ok(()), |what| Err(Failure::Results(what)))
}

/// Turns a message about wrong input into the program's failure.
fn input(e: Diagnostic) -> Failure {
    Failure::Input(e.into())
}

/// Checks that `--set` changes only keys below `policies`, on which no kernel's figures depend.
fn of_policies(args: &Validate) -> Result<(), Failure> {
    match args
        .set
        .iter()
        .find(|(key, _)| !key.starts_with("policies."))
    {
        None => Ok(()),
        Some((key, _)) => {
            let what = format!("`--set {key}=…` would change the scenarios of a suite");
            let accepted = "accepted: keys below `policies`, such as `--set policies.trial.base=linux-4.9` beside `--preset trial`";
            Err(input(Diagnostic::placeless(what, accepted)))
        }
    }
}

/// Returns those of the kept kernels `all` that `--kernel` names; all of them without the option.
/// An unknown name is an error.
fn chosen(args: &Validate, mut all: Vec<Kept>) -> Result<Vec<Kept>, Failure> {
    if args.kernels.is_empty() {
        return Ok(all);
    }
    let wanted = args.kernels();
    let known: Vec<&str> = all.iter().map(|k| k.kernel.as_str()).collect();
    if let Some(name) = wanted.iter().find(|n| !known.contains(&n.as_str())) {
        let what = format!("no figures of kernel:{name} are stored");
        return Err(input(Diagnostic::placeless(what, one_of(name, &known))));
    }
    all.retain(|k| wanted.contains(&k.kernel));
    Ok(all)
}

/// Runs the kernels on all scenarios, each in its own folder, and reads their figures. Returns the
/// figures of each kernel, and the errors of failed iterations as one text (`None`: none failed).
fn measure(
    args: &Validate,
    scenarios: &[Scenario],
    simulate: Simulate<'_>,
) -> Result<(Vec<Kept>, Option<String>), Failure> {
    let Some(base) = args.out.as_ref().or(args.resume.as_ref()) else {
        let what = "a suite's guests take long, and no folder for their results is given";
        let accepted = "accepted: `--out DIR`, from which `--resume DIR` can continue; or `--against DIR`, which needs no guest";
        return Err(input(Diagnostic::placeless(what, accepted)));
    };
    let names = args.kernels();
    let policies: Vec<String> = names.iter().map(|k| format!("kernel:{k}")).collect();
    // Read all files before the first run.
    let load = |s: &Scenario| s.load(&policies, &[], args.iterations());
    let experiments: Result<Vec<Experiment>, Diagnostic> = scenarios.iter().map(load).collect();
    let experiments = experiments.map_err(input)?;
    // The engine charges computation, so the kernels have to, as well.
    for name in &names {
        if !simulate.has_costs(&Kernel::new(name)) {
            let why = "it was built without costs";
            let (engine, kernel) = ("the engine", format!("kernel:{name}"));
            return Err(input(runner::unequal(engine, &kernel, why)));
        }
    }
    let mut kept = Vec::new();
    // Some scenarios may run in a build of other ticks; that must be there before the first of them
    // runs.
    for kernel in experiments.iter().flat_map(Experiment::kernels) {
        simulate.identity(kernel).map_err(input)?;
    }
    for name in &names {
        let kernel = Kernel::new(name);
        let release = simulate.release(&kernel).unwrap_or_default();
        let build = simulate.identity(&kernel).map_err(input)?;
        kept.push(Kept::new(name, release, build));
    }
    let mut failed = Vec::new();
    let nth_of = scenarios.len();
    for (nth, (scenario, experiment)) in scenarios.iter().zip(&experiments).enumerate() {
        if !args.quiet {
            eprintln!("{} ({} of {nth_of})", scenario.name, nth + 1);
        }
        let (dir, why) = run_one(args, base, scenario, experiment, simulate)?;
        failed.extend(why.map(|why| format!("{}: {why}", scenario.name)));
        for (measured, kept) in read(&dir)?.into_iter().zip(&mut kept) {
            kept.take(scenario, experiment.seed, experiment.iterations, measured);
        }
    }
    Ok((kept, (!failed.is_empty()).then(|| failed.join("\n"))))
}

/// Runs the kernels on one scenario in a folder below `base`, or resumes that. Returns the results'
/// folder, and the errors of failed iterations; other failures end the suite.
fn run_one(
    args: &Validate,
    base: &Path,
    scenario: &Scenario,
    experiment: &Experiment,
    simulate: Simulate<'_>,
) -> Result<(PathBuf, Option<String>), Failure> {
    let dir = base.join(&scenario.name);
    let begun = args.resume.is_some() && is_begun(&dir);
    let how = How {
        question: Question::Measure,
        request: Request {
            jobs: args.jobs,
            out: (!begun).then_some(dir.as_path()),
            replace: args.replace,
            resume: begun.then_some(dir.as_path()),
            check: None,
            quiet: true,
            progress: None,
            listeners: None,
            command: None,
        },
        json: false,
        rows: false,
        mail: false,
        verbose: false,
    };
    let failed = match run_loaded(&how, experiment, simulate) {
        Ok(_) => None,
        Err(Failure::Results(why)) => Some(why),
        Err(other) => return Err(other),
    };
    Ok((complete_folder(&dir).to_owned(), failed))
}

/// Reads the kernels' figures from a scenario's results folder, which must be unchanged.
fn read(dir: &Path) -> Result<Vec<Measured>, Failure> {
    let path = dir.join(MEASURED);
    let wrong = |what: String| {
        let what = format!("`{}`: {what}", path.display());
        let accepted = "accepted: results of `lowmark validate --suite`";
        input(Diagnostic::placeless(what, accepted))
    };
    let text = text_unchanged(dir, MEASURED);
    let text = text.map_err(|e| wrong(format!("can't be read: {e}")))?;
    serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))
}

/// Writes the kernels' figures to `folder`, one file for each kernel. If only some scenarios were
/// run, the others keep the figures that the file has.
fn keep(args: &Validate, folder: &Path, kernels: &[Kept]) -> Result<(), Failure> {
    for kernel in kernels {
        let path = kept::file(folder, &kernel.kernel);
        let mut all = kernel.clone();
        if !args.scenarios.is_empty() && path.exists() {
            let earlier = kept::read(&path).map_err(input)?;
            all.join(earlier).map_err(input)?;
        }
        kept::write(&path, &all)
            .map_err(|e| Failure::System(miette::miette!("`{}`: {e}", path.display())))?;
        if !args.quiet {
            eprintln!("kept in {}", path.display());
        }
    }
    Ok(())
}

/// Runs presets on the scenarios with the memory that each kernel had, and judges them by its
/// figures. Returns a verdict for each kernel and preset. Without `--preset` the one nearest to the
/// kernel is judged.
fn judge(
    args: &Validate,
    scenarios: &[Scenario],
    kernels: &[Kept],
    simulate: Simulate<'_>,
) -> Result<Vec<Verdict>, Failure> {
    // Report missing figures before the first run.
    for kernel in kernels {
        scenarios
            .iter()
            .try_for_each(|s| kernel.of(s).map(|_| ()))
            .map_err(input)?;
    }
    let mut verdicts = Vec::new();
    for kernel in kernels {
        let presets = match args.presets.is_empty() {
            true => vec![nearest(&kernel.release).to_owned()],
            false => args.presets.clone(),
        };
        let mut rows: Vec<Vec<Row>> = vec![Vec::new(); presets.len()];
        for scenario in scenarios {
            let kept = kernel.of(scenario).map_err(input)?;
            let outcomes = engine(args, scenario, &presets, (kernel, kept), simulate)?;
            let engines = lab::validate::measured(&outcomes);
            for (engine, rows) in engines.iter().zip(&mut rows) {
                let version = kernel.version().unwrap_or_else(judged::version);
                let figures = judged::figures();
                let pair = Pair::of(&kept.measured, engine, &figures);
                let pair = pair.measured_by(version, &figures);
                rows.push(Row::new(&scenario.name, pair));
            }
        }
        for (preset, rows) in presets.iter().zip(rows) {
            verdicts.push(Verdict::new(&kernel.kernel, &kernel.release, preset, rows));
        }
    }
    Ok(verdicts)
}

/// Runs presets in the engine on a scenario, with the seeds, the iterations, the timer and the
/// memory of a kernel's runs. `kept` are the kernel's figures for this scenario. An interrupt is an
/// error.
fn engine(
    args: &Validate,
    scenario: &Scenario,
    presets: &[String],
    (kernel, kept): (&Kept, &kept::OfScenario),
    simulate: Simulate<'_>,
) -> Result<Outcomes, Failure> {
    let set: Vec<String> = args.set.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let mut experiment = scenario
        .load(presets, &set, kept.iterations)
        .map_err(input)?;
    if experiment.cells.iter().any(|cell| cell.kernel.is_some()) {
        let what = "`--preset` names a real kernel instead of a policy of the engine";
        return Err(input(Diagnostic::placeless(
            what,
            "accepted: a preset, and `--kernel` for real kernels",
        )));
    }
    lab::validate::tick_like_guests(&mut experiment, &kernel.release);
    if let Some(pages) = kept.measured.managed {
        // A scenario's machine has one zone.
        for cell in &mut experiment.cells {
            give_memory(&mut cell.spec.machine, &[pages as u64]);
        }
    }
    let options = RunOptions {
        jobs: fitting_jobs(&experiment, args.jobs)?,
        check: None,
        progress: crate::bars::unless(args.quiet),
        listeners: None,
        stop: interrupt::flag(),
    };
    let outcomes = runner::run(&experiment, &options, simulate)?;
    match outcomes.interrupted {
        true => Err(Failure::Stopped(
            "stopped before all scenarios were judged".to_owned(),
        )),
        false => Ok(outcomes),
    }
}

/// Prints the verdicts as JSON or tables; for single scenarios (`--scenario`) also their figures.
fn show(args: &Validate, verdicts: &[Verdict]) -> Result<(), Failure> {
    if args.json {
        return text::print_json(&verdicts);
    }
    if args.quiet {
        return Ok(());
    }
    let form = match args.markdown {
        true => Form::Markdown,
        false => Form::Text,
    };
    text::print(&lab::validate::score::to_text(
        verdicts,
        form,
        text::screen(),
    ))?;
    if !args.scenarios.is_empty() && !args.markdown {
        for row in verdicts.iter().flat_map(|v| &v.rows) {
            let one = Validation {
                experiment: row.scenario.clone(),
                iterations: row.pair.completed.0 as u32,
                said: Vec::new(),
                pairs: vec![row.pair.clone()],
            };
            text::print(&format!(
                "== {}\n{}",
                row.scenario,
                lab::validate::text::to_text(&one, text::screen())
            ))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Failing, args, small};
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    /// A suite of two scenarios in its own folder; the engine stands in for the kernel.
    struct Two(tempfile::TempDir);

    impl Two {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            std::fs::create_dir(dir.path().join("suite")).unwrap();
            for name in ["one", "two"] {
                small(&dir.path().join("suite"), name);
            }
            Self(dir)
        }

        fn path(&self, name: &str) -> String {
            self.0.path().join(name).display().to_string()
        }

        /// Runs the suite with more arguments; returns the number of the kernel's runs.
        fn go(&self, more: &[&str], worlds: &Failing) -> Result<usize, String> {
            let suite = self.path("suite");
            let args = args(&[&["--suite", suite.as_str()], more].concat());
            let before = worlds.runs.load(Relaxed);
            run(&args, &suite, worlds).map_err(|e| format!("{e:?}"))?;
            Ok(worlds.runs.load(Relaxed) - before)
        }
    }

    #[test]
    fn what_kernels_gave_is_kept_and_judges_without_them() {
        let (two, worlds) = (Two::new(), Failing::at(usize::MAX));
        let (out, kept) = (two.path("out"), two.path("kept"));
        let go = |more: &[&str]| two.go(more, &worlds);
        assert_eq!(go(&["--out", &out, "--keep", &kept]), Ok(4));
        assert_eq!(go(&["--against", &kept]), Ok(0));
        let all = kept::read_folder(Path::new(&kept)).unwrap();
        assert_eq!(all[0].scenarios.keys().collect::<Vec<_>>(), ["one", "two"]);
        assert_eq!(all[0].scenarios["one"].iterations, 2);
        // A scenario that is measured again is merged with the other one.
        let again = two.path("again");
        assert_eq!(
            go(&["--out", &again, "--keep", &kept, "--scenario", "two"]),
            Ok(2)
        );
        assert_eq!(kept::read_folder(Path::new(&kept)).unwrap(), all);
        let other = go(&["--against", &kept, "--kernel", "6.1"]).unwrap_err();
        assert!(other.contains("no figures of kernel:6.1"), "{other}");
    }

    #[test]
    fn a_suite_goes_on_where_it_was_broken_off() {
        let two = Two::new();
        let out = two.path("out");
        // The kernel's second run of the second scenario.
        let at = Failing::at(3);
        let ends = std::panic::AssertUnwindSafe(|| two.go(&["--out", &out], &at));
        assert!(std::panic::catch_unwind(ends).is_err());
        let rest = Failing::at(usize::MAX);
        assert_eq!(two.go(&["--resume", &out], &rest), Ok(1));
        assert_eq!(
            two.go(&["--resume", &out], &rest),
            Ok(0),
            "all of it is there"
        );
    }

    #[test]
    fn a_scenario_that_changed_is_not_judged() {
        let (two, worlds) = (Two::new(), Failing::at(usize::MAX));
        let (out, kept) = (two.path("out"), two.path("kept"));
        two.go(&["--out", &out, "--keep", &kept], &worlds).unwrap();
        let file = two.path("suite/two.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("count=1", "count=2")).unwrap();
        let refused = two.go(&["--against", &kept], &worlds).unwrap_err();
        assert!(refused.contains("`two` has changed since"), "{refused}");
        assert_eq!(
            two.go(&["--against", &kept, "--scenario", "one"], &worlds),
            Ok(0)
        );
    }

    #[test]
    fn what_a_suite_can_not_be_asked_is_refused() {
        let (two, worlds) = (Two::new(), Failing::at(usize::MAX));
        let refused = |more: &[&str], why: &str| {
            let said = two.go(more, &worlds).unwrap_err();
            assert!(said.contains(why), "{said}");
        };
        refused(&[], "no folder for their results");
        refused(&["--scenario", "three"], "no scenario `three`");
        refused(
            &["--out", "x", "--set", "filesystem=xfs"],
            "would change the scenarios",
        );
        refused(&["--against", "nowhere"], "no kept figures");
        let (out, kept) = (two.path("out"), two.path("kept"));
        two.go(&["--out", &out, "--keep", &kept], &worlds).unwrap();
        refused(
            &["--against", &kept, "--preset", "kernel:6.12"],
            "names a real kernel",
        );
        // A policy defined by `--set` does not belong to the suite.
        let set = [
            "--set",
            "policies.trial.base=\"linux-3.16\"",
            "--preset",
            "trial",
        ];
        two.go(&[&["--against", kept.as_str()], &set[..]].concat(), &worlds)
            .unwrap();
    }
}
