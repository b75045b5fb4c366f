//! `lowmark validate`.

use super::run::{How, Question, run_loaded};
use super::worlds::Here;
use crate::cli::Validate;
use crate::failure::Failure;
use crate::text;
use lab::diagnostic::Diagnostic;
use lab::experiment::Overrides;
use lab::model::Experiment;
use std::collections::BTreeSet;
use std::time::Duration;

/// Runs each experiment with real kernels and presets in the place of its policies, and judges the presets.
pub fn run(args: &Validate) -> Result<(), Failure> {
    // All files are read before the first of them runs.
    let experiments: Result<Vec<Experiment>, Failure> = args
        .experiments
        .iter()
        .map(|path| load(args, path))
        .collect();
    let experiments = experiments?;
    let several = experiments.len() > 1;
    let names: BTreeSet<&str> = experiments.iter().map(|e| e.name.as_str()).collect();
    if args.out.is_some() && names.len() < experiments.len() {
        let accepted = "accepted: experiments whose names differ, as each has a folder of its name";
        let what = "two of these experiments have the same name";
        return Err(Failure::Input(Diagnostic::placeless(what, accepted).into()));
    }
    let here = Here {
        patience: Duration::from_secs(args.patience),
    };
    let (mut inside, mut scored) = (0, 0);
    for experiment in &experiments {
        let out = args.out.as_ref().map(|dir| match several {
            true => dir.join(&experiment.name),
            false => dir.clone(),
        });
        let how = How {
            question: Question::Validate,
            jobs: args.jobs,
            out: out.as_deref(),
            replace: args.replace,
            resume: None,
            check: None,
            json: args.json,
            rows: false,
            mail: false,
            quiet: args.quiet,
            listeners: None,
        };
        if several && !args.json && !args.quiet {
            text::print(&format!("== {}\n", experiment.name))?;
        }
        if let Some(validation) = run_loaded(&how, experiment, &here)? {
            let score = validation.score();
            inside += score.0;
            scored += score.1;
        }
    }
    if several && !args.json && !args.quiet {
        text::print(&format!(
            "all experiments: {inside} of {scored} figures inside\n"
        ))?;
    }
    Ok(())
}

/// Reads an experiment, with the kernels and presets as its policies.
fn load(args: &Validate, path: &std::path::Path) -> Result<Experiment, Failure> {
    let kernels = args.kernels.iter().map(|k| match k.starts_with("kernel:") {
        true => k.clone(),
        false => format!("kernel:{k}"),
    });
    let policies: Vec<String> = kernels.chain(args.presets.iter().cloned()).collect();
    let list = serde_json::to_string(&policies).expect("words have a JSON form");
    let mut set: Vec<String> = args.set.iter().map(|(k, v)| format!("{k}={v}")).collect();
    // What is judged stands above what is set.
    set.push(format!("policy={list}"));
    let overrides = Overrides {
        set,
        iterations: Some(args.iterations.get()),
        track_pages: false,
    };
    lab::experiment::load(path, &overrides).map_err(|e| Failure::Input(e.into()))
}
