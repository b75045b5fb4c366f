//! `lowmark validate`.

mod effects;
mod suite;

use super::run::{How, run_loaded};
use crate::bars;
use crate::cli::Validate;
use crate::text;
use front::failure::Failure;
use front::runs::{Question, Request};
use front::worlds::Here;
use lab::diagnostic::Diagnostic;
use lab::experiment::Overrides;
use lab::model::Experiment;
use lab::results::{complete_folder, is_begun, text_unchanged};
use lab::runner::Simulate;
use lab::validate::suite::nearest;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Runs each experiment with real kernels and presets instead of its own policies, and judges how
/// close the presets come to the kernels.
pub fn run(args: &Validate) -> Result<(), Failure> {
    let here = Here {
        patience: Duration::from_secs(args.patience),
    };
    if let Some(folder) = &args.effects {
        return effects::run(args, folder, &here);
    }
    if let Some(suite) = &args.suite {
        return suite::run(args, suite, &here);
    }
    // Read all files before the first run.
    let experiments: Result<Vec<Experiment>, Failure> = args
        .experiments
        .iter()
        .map(|path| load(args, path))
        .collect();
    let experiments = experiments?;
    let names: BTreeSet<&str> = experiments.iter().map(|e| e.name.as_str()).collect();
    if (args.out.is_some() || args.resume.is_some()) && names.len() < experiments.len() {
        let accepted = "accepted: experiments whose names differ, as each has a folder of its name";
        let what = "two of these experiments have the same name";
        return Err(Failure::Input(Diagnostic::placeless(what, accepted).into()));
    }
    validate(args, &experiments, &here)
}

/// Runs the experiments one after the other, each with its own results folder, and prints how many
/// of all figures lie inside the kernels' ranges. With `--resume` continues those that were begun.
fn validate(
    args: &Validate,
    experiments: &[Experiment],
    simulate: Simulate<'_>,
) -> Result<(), Failure> {
    let several = experiments.len() > 1;
    let shown = !args.json && !args.quiet;
    let of = |base: &PathBuf, experiment: &Experiment| match several {
        true => base.join(&experiment.name),
        false => base.clone(),
    };
    // With several experiments, an interrupted validation may not have reached all of them.
    let resumed = |e: &Experiment| args.resume.as_ref().map(|base| of(base, e));
    // True if an experiment was begun before.
    let any = experiments
        .iter()
        .filter_map(resumed)
        .any(|dir| is_begun(&dir));
    // `inside` of the `scored` figures lie in the kernel's range.
    let (mut inside, mut scored) = (0, 0);
    for experiment in experiments {
        let (mut out, mut resume) = (
            args.out.as_ref().map(|base| of(base, experiment)),
            resumed(experiment),
        );
        if several && any && resume.as_ref().is_some_and(|dir| !is_begun(dir)) {
            out = resume.take();
        }
        let how = How {
            question: Question::Validate,
            request: Request {
                jobs: args.jobs,
                out: out.as_deref(),
                replace: args.replace,
                resume: resume.as_deref(),
                check: None,
                quiet: args.quiet,
                progress: bars::unless(args.quiet),
                listeners: None,
                command: None,
            },
            json: args.json,
            rows: false,
            mail: false,
            verbose: false,
        };
        if several && shown {
            text::print(&format!("== {}\n", experiment.name))?;
        }
        let score = match (run_loaded(&how, experiment, simulate)?, &resume) {
            (Some(validation), _) => validation.score(),
            (None, Some(dir)) => judged_before(dir, shown)?,
            (None, None) => (0, 0),
        };
        inside += score.0;
        scored += score.1;
    }
    if several && shown {
        text::print(&format!(
            "all experiments: {inside} of {scored} figures inside\n"
        ))?;
    }
    Ok(())
}

/// Returns the score of results in `dir` that were already complete: how many figures lie inside
/// the kernel's range, and how many were scored. `shown` prints the judgement like a new one.
fn judged_before(dir: &Path, shown: bool) -> Result<(usize, usize), Failure> {
    let dir = complete_folder(dir);
    let read = |name: &str| {
        text_unchanged(dir, name).map_err(|e| {
            let what = format!("can't read `{}`: {e}", dir.join(name).display());
            let accepted = "accepted: results of `lowmark validate`";
            Failure::Input(Diagnostic::placeless(what, accepted).into())
        })
    };
    let csv = read("validation.csv")?;
    if shown {
        text::print(&read("validation.txt")?)?;
    }
    Ok(lab::validate::text::score_of_csv(&csv))
}

/// Reads an experiment, with the wanted kernels and presets as its policies. Without `--preset`
/// each kernel is compared with the nearest preset.
fn load(args: &Validate, path: &Path) -> Result<Experiment, Failure> {
    let kernels = args.kernels();
    let mut policies: Vec<String> = kernels.iter().map(|k| format!("kernel:{k}")).collect();
    match args.presets.is_empty() {
        false => policies.extend(args.presets.iter().cloned()),
        true => {
            let nearest: BTreeSet<&str> = kernels.iter().map(|k| nearest(k)).collect();
            policies.extend(nearest.into_iter().map(str::to_owned));
        }
    }
    let list = serde_json::to_string(&policies).expect("words have a JSON form");
    let mut set: Vec<String> = args.set.iter().map(|(k, v)| format!("{k}={v}")).collect();
    // The judged policies override `--set`.
    set.push(format!("policy={list}"));
    let overrides = Overrides {
        set,
        iterations: Some(args.iterations()),
        track_pages: false,
        ..Overrides::default()
    };
    let loaded = lab::experiment::load(path, &overrides);
    loaded.map_err(|e| Failure::Input(e.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::{HostUse, Kernel};
    use lab::runner::Worlds;
    use sim::{Control, RunResult, RunSpec};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// The engine also in the place of a kernel; panics at the `at`th run of a kernel.
    pub(super) struct Failing {
        at: usize,
        pub(super) runs: AtomicUsize,
    }

    impl Failing {
        pub(super) fn at(at: usize) -> Self {
            let runs = AtomicUsize::new(0);
            Self { at, runs }
        }
    }

    impl Worlds for Failing {
        fn engine(&self, spec: &RunSpec, control: &Control) -> RunResult {
            sim::run(spec, control)
        }

        fn identity(&self, _: &Kernel) -> Result<String, Diagnostic> {
            Ok("always the same".into())
        }

        /// Owns all memory.
        fn owned(
            &self,
            spec: &RunSpec,
            _: &Kernel,
            _: &Control,
        ) -> Result<Option<Vec<(String, u64)>>, String> {
            let zones = spec.machine.nodes.iter().flat_map(|n| &n.zones);
            let owned = zones.map(|z| (z.zone.name().to_owned(), z.size.pages()));
            Ok(Some(owned.collect()))
        }

        fn kernel(&self, spec: &RunSpec, _: &Kernel, control: &Control) -> (RunResult, HostUse) {
            assert_ne!(self.runs.fetch_add(1, Relaxed), self.at, "a bug");
            let mut result = sim::run(spec, control);
            result.origin = sim::Origin::Kernel;
            (result, HostUse::default())
        }
    }

    pub(super) fn args(more: &[&str]) -> Validate {
        let fixed = ["--quiet", "--jobs", "1", "--iterations", "2"];
        let all = ["lowmark", "validate"].iter().chain(more).chain(&fixed);
        match clap::Parser::parse_from(all) {
            crate::cli::Cli {
                command: crate::cli::Command::Validate(args),
                ..
            } => args,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn small(dir: &Path, name: &str) -> String {
        let file = dir.join(format!("{name}.toml"));
        let machine = "name = \"tiny\"\ncpus = 1\ndisk = { kind = \"ssd\", capacity = \"1G\" }\n\
                       [[machine.node]]\nzones = [{ zone = \"Normal\", size = \"256M\" }]\n";
        let text = format!(
            "name = \"{name}\"\niterations = 1\npolicy = \"linux-3.1\"\nfilesystem = \"ext4\"\n\
             [machine]\n{machine}[workload]\ncommand = \"dd if=/dev/zero of=x bs=4k count=1\"\n"
        );
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    }

    /// A validation of several experiments is interrupted in the second: the first is not repeated,
    /// the second continues, the third starts, and all results are as without the interruption.
    #[test]
    fn a_validation_goes_on_where_it_was_broken_off() {
        let dir = tempfile::tempdir().unwrap();
        let files = ["one", "two", "three"].map(|name| small(dir.path(), name));
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let (whole, broken) = (path("whole"), path("broken"));
        let go = |more: &[&str], worlds: &Failing| {
            let args = args(&[&files[..], more].concat());
            let load = |f: &PathBuf| load(&args, f).unwrap();
            let experiments: Vec<Experiment> = args.experiments.iter().map(load).collect();
            validate(&args, &experiments, worlds)
        };
        let never = || Failing::at(usize::MAX);
        go(&["--out", &whole], &never()).unwrap();
        // A kernel's second run of the second file.
        let at = Failing::at(3);
        let ends = std::panic::AssertUnwindSafe(|| go(&["--out", &broken], &at));
        assert!(std::panic::catch_unwind(ends).is_err());
        assert!(!dir.path().join("broken/two").exists());
        let rest = never();
        go(&["--resume", &broken], &rest).unwrap();
        assert_eq!(
            rest.runs.load(Relaxed),
            3,
            "one of the second, two of the third"
        );
        for name in ["one", "two", "three"] {
            for file in ["validation.csv", "validation.txt", "results.json"] {
                let read = |base: &str| std::fs::read(dir.path().join(base).join(name).join(file));
                let (new, old) = (read("broken").unwrap(), read("whole").unwrap());
                assert_eq!(new, old, "{name}/{file}");
            }
        }
        let again = never();
        go(&["--resume", &broken], &again).unwrap();
        assert_eq!(again.runs.load(Relaxed), 0, "everything was complete");
        let nothing = go(&["--resume", &path("nothing")], &never()).unwrap_err();
        assert!(
            format!("{nothing:?}").contains("holds no interrupted run"),
            "{nothing:?}"
        );
        assert!(!dir.path().join("nothing").exists());
    }
}
