//! `lowmark diverge`.

use crate::cli::Diverge;
use crate::text;
use front::failure::Failure;
use lab::diagnostic::Diagnostic;
use lab::diverge::{self, Side};
use lab::experiment::Overrides;
use lab::model::{Cell, Experiment};

/// Runs two iterations side by side and prints the first decision that differs, and what follows
/// from it.
pub fn run(args: &Diverge) -> Result<(), Failure> {
    let overrides = Overrides {
        set: args.set.iter().map(|(k, v)| format!("{k}={v}")).collect(),
        iterations: None,
        track_pages: false,
        ..Overrides::default()
    };
    let experiment = lab::experiment::load(&args.experiment, &overrides);
    let experiment = experiment.map_err(|e| Failure::Input(e.into()))?;
    let sides = [side(&experiment, &args.a)?, side(&experiment, &args.b)?];
    front::runs::fitting_jobs(&experiment, std::num::NonZeroUsize::new(1))?;
    let stop = crate::interrupt::flag();
    let Some(found) = diverge::diverge(&experiment, sides, &stop) else {
        return Err(Failure::Stopped(
            "interrupted before a difference was found".into(),
        ));
    };
    match args.json {
        true => text::print_json(&found),
        false => text::print(&diverge::to_text(&found, text::screen())),
    }
}

/// Returns the run that a word names: an iteration of the baseline, or `POLICY:ITERATION`. The word
/// must select exactly one cell of the experiment, and not one of a real kernel, whose decisions
/// are not recorded.
fn side<'a>(experiment: &'a Experiment, word: &str) -> Result<Side<'a>, Failure> {
    let wrong = |what: String, accepted: String| {
        Failure::Input(Diagnostic::placeless(what, accepted).into())
    };
    let (policy, iteration) = match word.rsplit_once(':') {
        Some((policy, iteration)) => (Some(policy), iteration),
        None => (None, word),
    };
    let Ok(iteration) = iteration.parse::<u32>() else {
        let what = format!("`{word}` does not name a run");
        let accepted = "accepted: an iteration from 0, as in iterations.csv, or POLICY:ITERATION";
        return Err(wrong(what, accepted.into()));
    };
    let mut cells = experiment.cells.iter();
    let cells: Vec<&Cell> = match policy {
        Some(policy) => cells.filter(|c| c.policy == policy).collect(),
        None => cells.by_ref().filter(|c| c.baseline).collect(),
    };
    match cells[..] {
        [
            Cell {
                kernel: Some(_), ..
            },
        ] => Err(wrong(
            format!("`{word}` is a run of a real kernel, whose decisions are not recorded"),
            "accepted: policies of the engine".into(),
        )),
        [cell] => Ok(Side { cell, iteration }),
        [] => {
            let what = format!("`{word}`: the experiment has no such policy");
            let mut known: Vec<&str> = experiment.cells.iter().map(|c| c.policy.as_str()).collect();
            known.sort_unstable();
            known.dedup();
            Err(wrong(what, format!("accepted: {}", known.join(", "))))
        }
        [..] => {
            let keys: Vec<String> = cells.iter().map(|c| c.key()).collect();
            let what = format!(
                "`{word}` is one of {} cells: {}",
                keys.len(),
                keys.join("; ")
            );
            let accepted =
                "accepted: `--set` for all but one machine, filesystem and value of each axis";
            Err(wrong(what, accepted.into()))
        }
    }
}
