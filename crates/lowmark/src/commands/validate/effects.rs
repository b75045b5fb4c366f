//! `lowmark validate --effects`: whether the engine predicts what changes do in a real kernel.

use crate::cli::Validate;
use crate::{bars, interrupt, text};
use front::effects::{Effort, judge, measure};
use front::failure::Failure;
use lab::diagnostic::{Diagnostic, one_of};
use lab::runner::{RunOptions, Simulate};
use lab::validate::effects::kept;
use lab::validate::effects::pairs::{self, Pairs};
use lab::validate::kept::write_whole;
use lab::validate::score::Form;
use std::num::NonZeroU32;
use std::path::Path;

/// Iterations of each side by default: with six on both sides p can fall below 0.01.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(6).expect("above 0");

/// Judges the engine by the pairs of a folder; with `--measure` runs their sides in kernels first.
pub fn run(args: &Validate, folder: &Path, simulate: Simulate<'_>) -> Result<(), Failure> {
    let input = |e: Diagnostic| Failure::Input(e.into());
    let mut all = pairs::read(folder).map_err(input)?;
    choose(&mut all, &args.pairs).map_err(input)?;
    let preset = match args.presets.as_slice() {
        [] => None,
        [preset] => Some(preset.as_str()),
        _ => {
            let what = "several presets are to be judged by effects";
            let accepted = "accepted: one `--preset`";
            return Err(input(Diagnostic::placeless(what, accepted)));
        }
    };
    let options = RunOptions {
        jobs: args.jobs.map_or(0, |jobs| jobs.get()),
        check: None,
        progress: bars::unless(args.quiet),
        listeners: None,
        stop: interrupt::flag(),
    };
    let quiet = args.quiet;
    let mut say = |side: &str| {
        if !quiet {
            eprintln!("{side}");
        }
    };
    let kept = match args.measure {
        true => {
            let effort = Effort {
                iterations: args.iterations.unwrap_or(ITERATIONS).get(),
                most: args.most_iterations.get(),
            };
            measure(&all, folder, effort, &options, simulate, &mut say)?
        }
        false => {
            let kept = kept::read(folder, &all.figures_digest()).map_err(input)?;
            kept.ok_or_else(|| {
                let what = format!("no kernel's figures are in `{}`", folder.display());
                let accepted = "accepted: a folder whose sides were measured (`--measure`)";
                input(Diagnostic::placeless(what, accepted))
            })?
        }
    };
    let effects = judge(&all, &kept, preset, &options, simulate)?;
    if args.keep_score {
        let path = folder.join("score.json");
        let text = effects.score(&all).to_text();
        write_whole(&path, &text)
            .map_err(|e| Failure::System(miette::miette!("`{}`: {e}", path.display())))?;
    }
    if args.json {
        return text::print_json(&effects);
    }
    let form = match args.markdown {
        true => Form::Markdown,
        false => Form::Text,
    };
    match args.quiet {
        true => Ok(()),
        false => text::print(&effects.to_text(form, text::screen())),
    }
}

/// Keeps the pairs with these names; all of them if there is no name. An unknown name is an error.
fn choose(all: &mut Pairs, names: &[String]) -> Result<(), Diagnostic> {
    let known: Vec<&str> = all.pairs.iter().map(|pair| pair.name.as_str()).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        let what = format!("no pair `{name}`");
        return Err(Diagnostic::placeless(what, one_of(name, &known)));
    }
    if !names.is_empty() {
        all.pairs.retain(|pair| names.contains(&pair.name));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Failing, args, small};
    use super::*;
    use lab::validate::effects::pairs::FILE;
    use std::sync::atomic::Ordering::Relaxed;

    const LIST: &str = r#"
        scenarios = "."
        figure = [
            { floor = 0.001, figure = { name = "elapsed", metric = ["elapsed"] } },
            { floor = 1, figure = { name = "written", counter = ["pgpgout"] } },
            { floor = 1, figure = { name = "nothing", counter = ["oom_kill"] } },
        ]
        [[pair]]
        name = "more"
        kind = "work"
        scenario = "one"
        to = { set = { "workload.command" = "dd if=/dev/zero of=x bs=4k count=9000" } }
        figures = ["elapsed", "written", "nothing"]
        [[pair]]
        name = "limit"
        kind = "sysctl"
        scenario = "one"
        to = { set = { "machine.sysctl.dirty_ratio" = 30 } }
        figures = ["elapsed", "written", "nothing"]
    "#;

    /// Returns a folder with two pairs of one scenario.
    fn folder() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        small(dir.path(), "one");
        std::fs::write(dir.path().join(FILE), LIST).unwrap();
        dir
    }

    /// Runs the command on a folder with more arguments; returns the number of the kernel's runs.
    fn go(dir: &Path, more: &[&str], worlds: &Failing) -> Result<usize, String> {
        let dir = dir.display().to_string();
        let args = args(&[&["--effects", dir.as_str()], more].concat());
        let before = worlds.runs.load(Relaxed);
        run(&args, Path::new(&dir), worlds).map_err(|e| format!("{e:?}"))?;
        Ok(worlds.runs.load(Relaxed) - before)
    }

    #[test]
    fn sides_are_measured_once_and_judge_without_a_kernel() {
        let (dir, worlds) = (folder(), Failing::at(usize::MAX));
        let refused = go(dir.path(), &[], &worlds).unwrap_err();
        assert!(refused.contains("no kernel's figures"), "{refused}");
        // Two iterations, which `args` asks for: of three sides, as the pairs share one.
        let few = ["--measure", "--most-iterations", "2"];
        assert_eq!(go(dir.path(), &few, &worlds), Ok(6));
        assert_eq!(go(dir.path(), &few, &worlds), Ok(0), "all are kept");
        assert_eq!(go(dir.path(), &[], &worlds), Ok(0));
        assert_eq!(go(dir.path(), &["--pair", "more"], &worlds), Ok(0));
        assert_eq!(go(dir.path(), &["--keep-score"], &worlds), Ok(0));
        let score = std::fs::read_to_string(dir.path().join("score.json")).unwrap();
        assert!(score.contains("\"machine.sysctl.dirty_ratio\""), "{score}");
        let refused = go(dir.path(), &["--pair", "mor"], &worlds).unwrap_err();
        assert!(refused.contains("no pair `mor`"), "{refused}");
    }

    #[test]
    fn undecided_pairs_get_more_iterations() {
        let (dir, worlds) = (folder(), Failing::at(usize::MAX));
        // With two runs a side nothing can be decided, with eight the pair `more` is. Runs that
        // were made before are not repeated. The pair `limit`, below its floors, needs no more than
        // two.
        let more = ["--measure", "--most-iterations", "9"];
        let ran = go(dir.path(), &more, &worlds);
        let text = std::fs::read_to_string(kept::path(dir.path())).unwrap();
        assert_eq!(ran, Ok(8 + 8 + 2), "{text}");
        assert_eq!(text.matches("\"iterations\":8").count(), 2, "{text}");
    }

    #[test]
    fn an_interrupted_measurement_keeps_the_sides_that_were_done() {
        let dir = folder();
        // The kernel's first run of the second side.
        let at = Failing::at(2);
        let few = ["--measure", "--most-iterations", "2"];
        let ends = std::panic::AssertUnwindSafe(|| go(dir.path(), &few, &at));
        assert!(std::panic::catch_unwind(ends).is_err());
        let rest = Failing::at(usize::MAX);
        assert_eq!(go(dir.path(), &few, &rest), Ok(4));
    }
}
