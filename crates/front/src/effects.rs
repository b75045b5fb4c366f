//! Runs the sides of pairs of one change each in real kernels and in the engine, and judges whether
//! the engine predicts what the changes do (docs/effects.md).

use crate::failure::Failure;
use crate::runs::{failures, fitting_jobs};
use lab::diagnostic::Diagnostic;
use lab::figures::values::completed;
use lab::model::{Experiment, Outcomes};
use lab::runner::{self, Journal, RunOptions, Simulate};
use lab::validate::beside::{ask, give_memory};
use lab::validate::effects::kept::{self, Kept, OfSide};
use lab::validate::effects::pairs::{Headline, Pair, Pairs, Side};
use lab::validate::effects::rule::Effect;
use lab::validate::effects::score::{self, Effects, Row, Samples};
use lab::validate::tick_like_guest;
use sim::RunResult;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;

/// Most iterations of the engine on the sides of a pair that stays undecided.
const MOST_ENGINE: u32 = 24;

/// How many runs a side gets.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Iterations of each side.
    pub iterations: u32,
    /// Most iterations of the sides of a pair that stays undecided.
    pub most: u32,
}

/// Runs the sides of all pairs in their kernels and stores the figures in `folder`, which then has
/// them for all pairs. A side whose figures are there already, of the same build of its kernel and
/// at least as many iterations, is not run again, so that an interrupted measurement continues.
/// Pairs with a figure of which the samples do not tell whether it changes get twice as many
/// iterations, until `effort.most` is reached. `say` is called before each side is run.
///
/// # Errors
/// Fails if a kernel is missing, an iteration fails, or the measurement is stopped.
pub fn measure(
    pairs: &Pairs,
    folder: &Path,
    effort: Effort,
    options: &RunOptions,
    simulate: Simulate<'_>,
    say: &mut dyn FnMut(&str),
) -> Result<Kept, Failure> {
    let digest = pairs.figures_digest();
    let earlier = kept::read(folder, &digest).map_err(input)?;
    let mut measuring = Measuring {
        pairs,
        folder,
        kept: earlier.unwrap_or_else(|| Kept::new(digest)),
        finished: BTreeMap::new(),
        options,
        simulate,
        say,
    };
    // Report a wrong side or a missing kernel before the first run.
    for side in pairs.sides() {
        let experiment = side.in_kernel(effort.iterations).map_err(input)?;
        side.in_engine("", None, 1).map_err(input)?;
        for kernel in experiment.kernels() {
            simulate.identity(kernel).map_err(input)?;
        }
    }
    let mut iterations = effort.iterations;
    let mut open: Vec<&Pair> = pairs.pairs.iter().collect();
    loop {
        for side in open.iter().flat_map(|pair| [&pair.from, &pair.to]) {
            measuring.measure(side, iterations)?;
        }
        open.retain(|pair| measuring.is_undecided(pair));
        iterations = (2 * iterations).min(effort.most);
        // The loop ends: either all pairs are decided or have the most iterations.
        open.retain(|pair| {
            let sides = [&pair.from, &pair.to];
            sides
                .iter()
                .any(|side| measuring.iterations(side) < iterations)
        });
        if open.is_empty() {
            return Ok(measuring.kept);
        }
    }
}

/// Turns a message about wrong input into the program's failure.
fn input(e: Diagnostic) -> Failure {
    Failure::Input(e.into())
}

/// A measurement under way.
struct Measuring<'a> {
    pairs: &'a Pairs,
    folder: &'a Path,
    kept: Kept,
    /// The results of iterations of this process by the side's key.
    finished: BTreeMap<String, Results>,
    options: &'a RunOptions,
    simulate: Simulate<'a>,
    say: &'a mut dyn FnMut(&str),
}

impl Measuring<'_> {
    /// Runs a side in its kernel, unless its figures are kept, and writes the file.
    fn measure(&mut self, side: &Side, iterations: u32) -> Result<(), Failure> {
        let key = side.key();
        let experiment = side.in_kernel(iterations).map_err(input)?;
        let cell = &experiment.cells[0];
        let kernel = cell.kernel.as_ref().expect("a kernel's side");
        let build = self.simulate.identity(kernel).map_err(input)?;
        let known = self.kept.sides.get(&key);
        if known.is_some_and(|of| of.build == build && of.iterations >= iterations) {
            return Ok(());
        }
        (self.say)(&format!("{} ({iterations} runs)", side.label()));
        let owned = ask(self.simulate, cell, kernel, &self.options.stop);
        let owned = owned.map_err(|why| Failure::Results(format!("{}: {why}", side.label())))?;
        let mut journal = Finished(self.finished.remove(&key).unwrap_or_default());
        let outcomes = run(&experiment, self.options, self.simulate, &mut journal)?;
        if let Some(why) = failures(&outcomes) {
            return Err(Failure::Results(format!("{}: {why}", side.label())));
        }
        let results = all_of(outcomes);
        let of = OfSide {
            label: side.label(),
            kernel: kernel.build.clone(),
            release: self.simulate.release(kernel).unwrap_or_default(),
            build,
            owned,
            iterations,
            completed: completed(&results).count(),
            figures: samples(self.pairs, &results),
        };
        self.finished.insert(key.clone(), results);
        self.kept.sides.insert(key, of);
        self.kept.write(self.folder).map_err(|e| {
            let path = kept::path(self.folder);
            Failure::System(miette::miette!("`{}`: {e}", path.display()))
        })
    }

    /// Returns the number of iterations that are kept of a side.
    fn iterations(&self, side: &Side) -> u32 {
        self.kept
            .sides
            .get(&side.key())
            .map_or(0, |of| of.iterations)
    }

    /// Returns true if the samples of a figure of this pair do not tell whether it changes.
    fn is_undecided(&self, pair: &Pair) -> bool {
        let of = |side: &Side| &self.kept.sides[&side.key()].figures;
        let samples = (of(&pair.from), of(&pair.to));
        pair.figures.iter().any(|name| {
            let change = score::change(self.pairs, name, samples);
            change.is_some_and(|change| change.effect == Effect::Undecided)
        })
    }
}

/// Results of a side's iterations, the first of them first. Only those of an interrupted run lack,
/// which is an error.
type Results = Vec<Option<RunResult>>;

/// Results that need not be run again.
struct Finished(Results);

impl Journal for Finished {
    fn earlier(&mut self, _: u32, iteration: u32) -> Option<RunResult> {
        self.0.get(iteration as usize)?.clone()
    }

    /// Does nothing: the outcomes hold all results.
    fn finished(&mut self, _: u32, _: u32, _: &RunResult) {}
}

/// Runs an experiment; an interrupt is an error.
fn run(
    experiment: &Experiment,
    options: &RunOptions,
    simulate: Simulate<'_>,
    journal: &mut dyn Journal,
) -> Result<Outcomes, Failure> {
    let jobs = fitting_jobs(experiment, NonZeroUsize::new(options.jobs))?;
    let options = RunOptions {
        jobs,
        ..options.clone()
    };
    let outcomes = runner::run_with(experiment, &options, simulate, journal)?;
    match outcomes.interrupted {
        true => Err(Failure::Stopped(
            "stopped before all sides were run; the same command continues".to_owned(),
        )),
        false => Ok(outcomes),
    }
}

/// Returns the results of the only cell of an experiment, the first iteration first.
fn all_of(outcomes: Outcomes) -> Results {
    outcomes.results.into_iter().next().unwrap_or_default()
}

/// Returns the values of all headline figures of a side's results.
fn samples(pairs: &Pairs, results: &[Option<RunResult>]) -> Samples {
    let of = |headline: &Headline| {
        let values = completed(results).filter_map(|r| headline.figure.value(r));
        (headline.figure.name.clone(), values.collect::<Vec<f64>>())
    };
    let all = pairs.figures.iter().map(of);
    all.filter(|(_, values)| !values.is_empty()).collect()
}

/// Runs the engine on both sides of all pairs, on machines like the kernels' guests, and judges it
/// by the kept figures of the kernels. `preset` is judged, or the preset nearest to each kernel.
/// Pairs of which a side is not kept are not judged, and named.
///
/// # Errors
/// Fails if no pair's figures are kept, or the run is stopped.
pub fn judge(
    pairs: &Pairs,
    kept: &Kept,
    preset: Option<&str>,
    options: &RunOptions,
    simulate: Simulate<'_>,
) -> Result<Effects, Failure> {
    let is_kept = |side: &Side| kept.sides.contains_key(&side.key());
    let (measured, unmeasured): (Vec<&Pair>, Vec<&Pair>) =
        (pairs.pairs.iter()).partition(|pair| is_kept(&pair.from) && is_kept(&pair.to));
    if measured.is_empty() {
        let what = "no kernel's figures are kept of these pairs";
        let accepted =
            "accepted: pairs whose sides were measured; `--measure` runs those that lack";
        return Err(input(Diagnostic::placeless(what, accepted)));
    }
    // The engine's results by the side's key and the settings of its policy.
    let mut ran: BTreeMap<String, Results> = BTreeMap::new();
    let mut rows: Vec<Row> = Vec::new();
    for pair in &measured {
        let kernel = |side: &Side| &kept.sides[&side.key()].figures;
        let kernels = (kernel(&pair.from), kernel(&pair.to));
        let sides = [&pair.from, &pair.to];
        let known = sides.map(|side| kept.sides[&side.key()].iterations);
        let mut iterations = known[0].max(known[1]);
        // As in a kernel, more iterations where these do not tell.
        let judged = loop {
            for side in sides {
                let of = &kept.sides[&side.key()];
                let results = ran.entry(side.engine_key()).or_default();
                if results.len() < iterations as usize {
                    let journal = Finished(std::mem::take(results));
                    *results =
                        in_engine(side, of, preset, iterations, journal, (options, simulate))?;
                }
            }
            // A side that another pair shares may have more iterations by now.
            let engine = sides.map(|side| {
                let results = &ran[&side.engine_key()];
                samples(pairs, &results[..results.len().min(iterations as usize)])
            });
            let judged = score::judge(pairs, pair, kernels, (&engine[0], &engine[1]));
            let undecided = |row: &Row| row.engine.is_some_and(|e| e.effect == Effect::Undecided);
            if iterations >= MOST_ENGINE || !judged.iter().any(undecided) {
                break judged;
            }
            iterations = (2 * iterations).min(MOST_ENGINE);
        };
        rows.extend(judged);
    }
    let unmeasured = unmeasured.iter().map(|pair| pair.name.clone()).collect();
    Ok(Effects::new(measured.len(), rows, unmeasured))
}

/// Runs one side in the engine, on a machine like the guest whose figures are kept, and returns the
/// results of its iterations. Those in `journal` are not run again.
fn in_engine(
    side: &Side,
    of: &OfSide,
    preset: Option<&str>,
    iterations: u32,
    mut journal: Finished,
    (options, simulate): (&RunOptions, Simulate<'_>),
) -> Result<Results, Failure> {
    let experiment = side.in_engine(&of.release, preset, iterations);
    let mut experiment = experiment.map_err(input)?;
    let hz = kernel::build::ticks::of_name(&of.kernel);
    for cell in &mut experiment.cells {
        tick_like_guest(cell, &of.release, hz);
        give_memory(&mut cell.spec.machine, &of.owned);
    }
    let outcomes = run(&experiment, options, simulate, &mut journal)?;
    if let Some(why) = failures(&outcomes) {
        return Err(Failure::Results(format!("{}: {why}", side.label())));
    }
    Ok(all_of(outcomes))
}
