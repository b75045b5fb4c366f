//! The laws: properties that hold of every legal experiment, whatever its figures.

use crate::case::Case;
use crate::noop;
use crate::trend;
use lab::model::{Cell, Experiment, Outcomes};
use lab::report::compare::Comparison;
use lab::runner::{self, Check, RunOptions, difference, iteration_seed};
use lab::terminal::Screen;
use mm::Policy;
use serde::{Deserialize, Serialize};
use sim::result::Series;
use sim::spec::Change;
use sim::{Control, Outcome, RunResult, RunSpec};
use std::io;
use std::path::Path;
use toml::Value;

/// A property that is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Law {
    /// Every case that the generator draws is accepted.
    Legal,
    /// `lowmark run --check`: running each iteration twice gives the same result, every recount is
    /// right, and no task waits for ever.
    Check,
    /// Recounts change nothing, and are right every few milliseconds too.
    Recounts,
    /// No task waits for memory, a throttle or a reserve that is available, and no daemon sleeps
    /// that was asked to work.
    Waits,
    /// The sampling interval changes nothing but the series.
    Samples,
    /// The page tracker changes nothing but its own report.
    Tracker,
    /// Recording trace events changes nothing.
    Traced,
    /// Any number of threads gives the same bytes.
    Jobs,
    /// The results of fewer iterations are the first of those of more.
    Prefix,
    /// A policy's results are the same alone and in a list, at whatever position.
    Company,
    /// A change without effect on an experiment changes nothing.
    NoOp,
    /// Every report can be made, and is the same each time for the same results.
    Report,
    /// In the median of nine seeds, twice the memory never has more demand reads.
    Memory,
    /// In the median of nine seeds, a faster disk never writes a file more slowly.
    Disk,
}

impl Law {
    /// The laws that hold for any experiment and are not part of another one.
    pub const ANY: [Self; 10] = [
        Self::Recounts,
        Self::Waits,
        Self::Samples,
        Self::Tracker,
        Self::Traced,
        Self::Jobs,
        Self::Prefix,
        Self::Company,
        Self::NoOp,
        Self::Report,
    ];

    /// The laws for experiments drawn especially for them.
    pub const TRENDS: [Self; 2] = [Self::Memory, Self::Disk];

    /// Returns its name in options and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Legal => "legal",
            Self::Check => "check",
            Self::Recounts => "recounts",
            Self::Waits => "waits",
            Self::Samples => "samples",
            Self::Tracker => "tracker",
            Self::Traced => "traced",
            Self::Jobs => "jobs",
            Self::Prefix => "prefix",
            Self::Company => "company",
            Self::NoOp => "no-op",
            Self::Report => "report",
            Self::Memory => "memory",
            Self::Disk => "disk",
        }
    }
}

/// A law that did not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breach {
    /// The law.
    pub law: Law,
    /// Description of what was observed.
    pub what: String,
}

impl Breach {
    /// Makes a breach of a law.
    pub fn new(law: Law, what: impl Into<String>) -> Self {
        let what = what.into();
        Self { law, what }
    }
}

/// Interval of recounts under the law of recounts, in simulated nanoseconds.
const FINE_NS: u64 = 7_000_000;

/// Interval of the checks under the law of waits, in simulated nanoseconds: shorter than any
/// timeout of a throttle.
const SHORT_NS: u64 = 1_000_000;

/// Word by which a check's message shows that a task waits for an object that is available, and
/// nothing would wake it.
const IN_VAIN: &str = "in vain";

/// An experiment that is tested.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The case.
    pub case: &'a Case,
    /// The experiment that `lab` reads from it.
    pub experiment: &'a Experiment,
    /// Folder for the cases that laws derive from it.
    pub folder: &'a Path,
}

impl Subject<'_> {
    /// Runs the experiment as `lowmark run --check` does: each iteration twice, with recounts.
    /// Returns the outcomes.
    ///
    /// # Errors
    /// A breach of the law of checks: a difference between runs, or an error in one.
    pub fn check(&self) -> Result<Outcomes, Breach> {
        let breach = |what: String| Breach::new(Law::Check, what);
        let outcomes =
            run(self.experiment, 1, true).map_err(|failure| breach(failure.difference))?;
        for result in outcomes.results.iter().flatten().flatten() {
            if let Some(what) = wrong(result) {
                return Err(breach(what));
            }
        }
        Ok(outcomes)
    }

    /// Tests a law of the swarm on the experiment, given the outcomes of [`Subject::check`].
    /// Returns the breach; `None`: the law holds, or the first run has no result to compare with.
    ///
    /// # Errors
    /// A derived case cannot be written.
    pub fn holds(&self, law: Law, checked: &Outcomes) -> io::Result<Option<Breach>> {
        let first = checked.results[0][0].as_ref();
        let Some(first) = first.filter(|_| !checked.interrupted) else {
            return Ok(None);
        };
        let what = match law {
            Law::Legal | Law::Check => None,
            Law::Recounts => self.recounts(first),
            Law::Waits => self.waits(),
            Law::Samples => self.samples(first),
            Law::Tracker => self.tracker(first),
            Law::Traced => self.traced(first),
            Law::Jobs => self.jobs(),
            Law::Prefix => self.prefix(),
            Law::Company => self.company()?,
            Law::NoOp => self.no_op()?,
            Law::Report => report(checked),
            Law::Memory | Law::Disk => trend::holds(law, self.case, self.folder)?,
        };
        Ok(what.map(|what| Breach::new(law, what)))
    }

    /// Returns the specification of the first cell's first iteration, for a law to change in one
    /// respect: as in [`Subject::check`], all figures are recounted once a simulated second.
    fn spec(&self) -> RunSpec {
        RunSpec {
            check_ns: runner::CHECK_INTERVAL_NS,
            check_full: true,
            ..spec_of(self.experiment, 0)
        }
    }

    /// Tests that recounts change nothing and are right: compares `first`, the run with one each
    /// second, with runs without and with one each 7 ms. Returns the difference or the error;
    /// `None`: the law holds.
    fn recounts(&self, first: &RunResult) -> Option<String> {
        let mut spec = self.spec();
        spec.check_ns = 0;
        if let Some(what) = same(first, &once(&spec), "with recounts", "without") {
            return Some(what);
        }
        spec.check_ns = FINE_NS;
        let fine = once(&spec);
        wrong(&fine).or_else(|| same(first, &fine, "recounted each second", "each 7 ms"))
    }

    /// Tests that no task waits in vain: runs with a check every simulated millisecond. Returns
    /// only errors about waits (other errors are the law of recounts' concern); `None`: the law
    /// holds.
    fn waits(&self) -> Option<String> {
        let spec = RunSpec {
            check_ns: SHORT_NS,
            check_full: false,
            ..self.spec()
        };
        wrong(&once(&spec)).filter(|what| what.contains(IN_VAIN))
    }

    /// Tests that the interval of samples changes nothing but the series: compares `first` with
    /// runs at other intervals. Returns the difference; `None`: the law holds.
    fn samples(&self, first: &RunResult) -> Option<String> {
        let unsampled = |r: &RunResult| {
            let mut r = r.clone();
            r.series = Series::default();
            // This figure is computed from the series.
            r.metrics.remove("inode_reclaim_lumpiness");
            r
        };
        let first = unsampled(first);
        [0, 10_000_000, 333_333_333].into_iter().find_map(|ns| {
            let mut spec = self.spec();
            spec.sample_ns = ns;
            let what = format!("sampled every {ns} ns");
            same(&first, &unsampled(&once(&spec)), "as it is", &what)
        })
    }

    /// Tests that the page tracker changes nothing but its own report: compares `first` with a run
    /// in which it is switched over. Returns the difference; `None`: the law holds.
    fn tracker(&self, first: &RunResult) -> Option<String> {
        let mut spec = self.spec();
        spec.track_pages = !spec.track_pages;
        let mut tracked = once(&spec);
        tracked.tracker.clone_from(&first.tracker);
        same(first, &tracked, "without the tracker", "with it")
    }

    /// Tests that trace events change nothing: compares `first` with a run that records them and
    /// with one that has no tracepoints. Returns the difference; `None`: the law holds.
    fn traced(&self, first: &RunResult) -> Option<String> {
        let (traced, _) = sim::run::traced(&self.spec(), &Control::default());
        let without = sim::run::with_tracepoints::<false>(&self.spec(), &Control::default());
        same(first, &traced, "untraced", "traced")
            .or_else(|| same(first, &without, "untraced", "without tracepoints"))
    }

    /// Tests that the number of threads changes nothing: compares outcomes and `results.json` of
    /// two iterations on one thread and on three. Returns the difference; `None`: the law holds, or
    /// a run failed.
    fn jobs(&self) -> Option<String> {
        let mut experiment = self.experiment.clone();
        experiment.iterations = 2;
        let [one, three] = [1, 3].map(|jobs| run(&experiment, jobs, false).ok());
        let (one, three) = (one?, three?);
        differs(&one, &three, "one thread", "three").or_else(|| {
            let json = |o: &Outcomes| lab::results::to_json(o);
            (json(&one) != json(&three)).then(|| "results.json differs".to_owned())
        })
    }

    /// Tests that more iterations do not change the first ones: compares the results of two
    /// iterations with the first two of three. Returns the difference; `None`: the law holds, or a
    /// run failed.
    fn prefix(&self) -> Option<String> {
        let [two, three] = [2, 3].map(|iterations| {
            let mut experiment = self.experiment.clone();
            experiment.iterations = iterations;
            run(&experiment, 1, false).ok()
        });
        differs(&two?, &three?, "of two iterations", "of three")
    }

    /// Tests that a policy's results do not depend on other policies in a list: compares its run
    /// alone with its runs before and behind another preset. Returns the difference; `None`: the
    /// law holds, or the case cannot be put into a list.
    fn company(&self) -> io::Result<Option<String>> {
        let name = &self.experiment.cells[0].policy;
        let Some(other) = Policy::PRESETS.iter().find(|p| *p != name) else {
            return Ok(None);
        };
        let with = |policy: Value| {
            let mut case = self.case.clone();
            case.table.insert("policy".into(), policy);
            case.load(self.folder)
        };
        let Ok(single) = with(name.clone().into())? else {
            return Ok(None);
        };
        let first = once(&spec_of(&single, 0));
        for names in [[name, *other], [*other, name]] {
            let list = names.iter().map(|n| (*n).into()).collect();
            let Ok(list) = with(Value::Array(list))? else {
                return Ok(None);
            };
            let at = list
                .cells
                .iter()
                .position(|c| same_but_policy(c, &single.cells[0], name));
            let Some(at) = at else { continue };
            let listed = once(&spec_of(&list, at));
            let what = format!("in the list {}", names.join(", "));
            if let Some(what) = same(&first, &listed, "alone", &what) {
                return Ok(Some(what));
            }
        }
        Ok(None)
    }

    /// Tests that changes without an effect on the experiment (a parameter that is not read, for
    /// example) change nothing: applies all of them together and, if the result differs, each alone
    /// to name the culprit. Returns the difference; `None`: the law holds.
    fn no_op(&self) -> io::Result<Option<String>> {
        let spec = spec_of(self.experiment, 0);
        let seed = spec.seed;
        // Notes on sysctls written in mid-run are removed: a no-op change adds one.
        let once = |spec: &RunSpec| {
            let mut result = once(spec);
            let texts: Vec<String> = spec.changes.iter().map(Change::text).collect();
            let is_of_change = |note: &String| texts.iter().any(|text| note.starts_with(text));
            result.notes.retain(|note| !is_of_change(note));
            result
        };
        let first = once(&spec);
        let run = |case: &Case| -> io::Result<Option<RunResult>> {
            let Ok(experiment) = case.load(self.folder)? else {
                return Ok(None);
            };
            let mut spec = experiment.cells[0].spec.clone();
            spec.seed = seed;
            Ok(Some(once(&spec)))
        };
        let all = noop::all(self.case, &spec);
        let mut together = self.case.clone();
        for change in &all {
            change.apply(&mut together.table);
        }
        let Some(changed) = run(&together)? else {
            return Ok(Some(format!(
                "the changes {:?} together are refused",
                all.iter().map(|c| c.about).collect::<Vec<_>>()
            )));
        };
        let Some(what) = same(&first, &changed, "as it is", "changed") else {
            return Ok(None);
        };
        for change in &all {
            let mut case = self.case.clone();
            change.apply(&mut case.table);
            if let Some(result) = run(&case)?
                && let Some(what) = same(&first, &result, "as it is", "changed")
            {
                return Ok(Some(format!("{}: {what}", change.about)));
            }
        }
        Ok(Some(format!("all no-ops together: {what}")))
    }
}

/// Returns true if `cell` has the policy `policy`, and filesystem and machine of `like`.
fn same_but_policy(cell: &Cell, like: &Cell, policy: &str) -> bool {
    cell.policy == policy && cell.filesystem == like.filesystem && cell.machine == like.machine
}

/// Returns the error of a run that is wrong by itself, a recount that failed or a task that waits
/// for ever; `None`: it has none.
fn wrong(result: &RunResult) -> Option<String> {
    match &result.outcome {
        Outcome::Failed { error }
            if error.starts_with("recount") || error.contains("waits for ever") =>
        {
            Some(error.clone())
        }
        _ => None,
    }
}

/// Runs an experiment on `jobs` threads; `check`: each iteration twice and with all recounts.
fn run(
    experiment: &Experiment,
    jobs: usize,
    check: bool,
) -> Result<Outcomes, runner::CheckFailure> {
    let options = RunOptions {
        jobs,
        check: check.then_some(Check::Full),
        progress: None,
        listeners: None,
        stop: Default::default(),
    };
    runner::run(experiment, &options, &sim::run)
}

/// Returns the specification of a run: the first iteration of the cell with that index.
fn spec_of(experiment: &Experiment, cell: usize) -> RunSpec {
    RunSpec {
        seed: iteration_seed(experiment, 0),
        ..experiment.cells[cell].spec.clone()
    }
}

/// Runs one iteration of a cell.
pub fn once(spec: &RunSpec) -> RunResult {
    sim::run(spec, &Control::default())
}

/// Returns a description of the first difference between two results, which it calls `this` and
/// `that`; `None`: they are equal.
fn same(a: &RunResult, b: &RunResult, this: &str, that: &str) -> Option<String> {
    let text = difference(a, b)?;
    Some(
        text.replace("in the first run", this)
            .replace("in the second", that),
    )
}

/// Returns the first difference between the iterations that both outcomes have, which it calls
/// `this` and `that`; `None`: they are equal.
fn differs(a: &Outcomes, b: &Outcomes, this: &str, that: &str) -> Option<String> {
    let pairs = a.results.iter().zip(&b.results);
    pairs
        .flat_map(|(x, y)| x.iter().zip(y))
        .filter_map(|(x, y)| x.as_ref().zip(y.as_ref()))
        .find_map(|(x, y)| same(x, y, this, that))
}

/// Tests that reports are the same each time they are made from the same results: makes every
/// report twice. Returns a message if one differs; `None`: the law holds.
fn report(outcomes: &Outcomes) -> Option<String> {
    let texts = || {
        let comparison = Comparison::new(outcomes);
        [
            lab::results::to_json(outcomes),
            comparison.to_text(Default::default()),
            lab::report::page::report(outcomes, &comparison),
            lab::rows::to_text(outcomes, Screen::default()),
            lab::rows::time_text(outcomes, Screen::default()),
            lab::report::compare::figures_text(outcomes, Default::default()),
            lab::report::compare::oom_text(outcomes),
        ]
    };
    let (first, second) = (texts(), texts());
    let at = first.iter().zip(&second).position(|(a, b)| a != b)?;
    Some(format!(
        "report {at} of the same results differs the second time"
    ))
}
