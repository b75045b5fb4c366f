//! The search: the choice of commits, the number of runs, and the decisions.

use super::history::{Commit, History, Mark, Next};
use crate::failure::Failure;
use lab::bisect::{Decision, Ends, Power, Side, ends, side, visible};
use lab::figures::stats::{Summary, summary};
use serde::Serialize;

/// The result of running a commit.
#[derive(Debug, Clone, PartialEq)]
pub enum Sample {
    /// The figure in each run.
    Values(Vec<f64>),
    /// The commit can't be judged: it does not build, or none of its runs completed.
    None(String),
}

/// Runs commits.
pub trait Judge {
    /// Returns the figure in `runs` runs of a commit; a longer sample starts with the values of a
    /// shorter one.
    fn sample(&mut self, history: &History, commit: &Commit, runs: u32) -> Result<Sample, Failure>;

    /// Reports that a commit was judged, or skipped.
    fn looked(&mut self, step: &Step);
}

/// The judgement of one commit.
#[derive(Debug, Clone, Serialize)]
pub struct Step {
    /// The commit.
    pub commit: Commit,
    /// The end that it is like; `None`: it was skipped.
    pub side: Option<Side>,
    /// Whether it differs from both ends.
    pub between: bool,
    /// The highest probability that this is wrong; `None` for an end or a skipped commit.
    pub error: Option<f64>,
    /// A summary of its values.
    pub summary: Option<Summary>,
    /// The number of runs.
    pub runs: u32,
    /// The reason why it was skipped.
    pub why: Option<String>,
}

/// The outcome of a search.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Found {
    /// The first bad commit was found.
    First {
        /// The commit.
        commit: Commit,
    },
    /// One of these commits is the first bad one; they can't be told apart.
    OneOf {
        /// The commits.
        commits: Vec<Commit>,
    },
    /// The ends do not differ.
    Nothing {
        /// The smallest difference that would have been detected, as a share of the median; `None`
        /// where none would, or the median is 0.
        visible: Option<f64>,
    },
    /// Git could not go on.
    Stuck {
        /// Git's message.
        why: String,
    },
}

/// A search and its outcome.
#[derive(Debug, Clone, Serialize)]
pub struct Answer {
    /// The figure.
    pub metric: String,
    /// The figure's unit.
    pub unit: String,
    /// The required confidence and the limit on runs.
    pub power: Power,
    /// The number of commits after the good one.
    pub commits: u32,
    /// The outcome.
    #[serde(flatten)]
    pub found: Found,
    /// The highest probability that the outcome is wrong: the sum over its decisions.
    pub error: f64,
    /// The judged commits, the ends first.
    pub steps: Vec<Step>,
}

/// The samples of the two ends.
struct EndSamples {
    good: Vec<f64>,
    bad: Vec<f64>,
}

/// Returns the step of a commit with these values in its runs. `side` is the end that the commit is
/// like; `None`: it is skipped.
fn step_of(commit: &Commit, values: &[f64], side: Option<Side>) -> Step {
    Step {
        commit: commit.clone(),
        side,
        between: false,
        error: None,
        summary: summary(values),
        runs: values.len() as u32,
        why: None,
    }
}

/// Runs both ends until they differ or the limit on runs is reached. Returns their values, and the
/// probability that the difference is an error; `None`: they do not differ, so there is nothing to
/// search for.
fn look_at_ends(
    judge: &mut impl Judge,
    history: &History,
    (good, bad): (&Commit, &Commit),
    power: &Power,
) -> Result<(EndSamples, Option<f64>), Failure> {
    // The runs of each end so far; `power` says how many come next.
    let mut runs = power.next(0).unwrap_or(power.most);
    loop {
        let mut of = |commit: &Commit| match judge.sample(history, commit, runs)? {
            Sample::Values(values) => Ok(values),
            Sample::None(why) => Err(Failure::Results(format!(
                "{} ({}) is an end of the search and can't be judged: {why}",
                commit.short(),
                commit.subject
            ))),
        };
        let samples = EndSamples {
            good: of(good)?,
            bad: of(bad)?,
        };
        match ends(&samples.good, &samples.bad, power) {
            Ends::Differ(error) => return Ok((samples, Some(error))),
            // Samples are shorter than requested where runs failed.
            Ends::More(more) if more > runs => runs = more,
            Ends::More(_) => match power.next(runs) {
                Some(more) => runs = more,
                None => return Ok((samples, None)),
            },
            Ends::Alike => return Ok((samples, None)),
        }
    }
}

/// Runs a commit with more and more runs until its values show which end it is like, or the limit
/// on runs is reached. Returns the judgement; a commit that can't be judged is skipped, with the
/// reason.
fn look_at(
    judge: &mut impl Judge,
    history: &History,
    commit: &Commit,
    ends: &EndSamples,
    power: &Power,
) -> Result<Step, Failure> {
    let mut runs = power.next(0).unwrap_or(power.most);
    loop {
        let values = match judge.sample(history, commit, runs)? {
            Sample::Values(values) => values,
            Sample::None(why) => {
                let why = Some(why);
                return Ok(Step {
                    why,
                    ..step_of(commit, &[], None)
                });
            }
        };
        let more = match side(&values, &ends.good, &ends.bad, power) {
            Decision::On(side, error, between) => {
                return Ok(Step {
                    between,
                    error: Some(error),
                    ..step_of(commit, &values, Some(side))
                });
            }
            Decision::More(more) if more > runs => Some(more),
            Decision::More(_) => power.next(runs),
            Decision::Unclear => None,
        };
        match more {
            Some(more) => runs = more,
            None => {
                return Ok(Step {
                    why: Some(format!("{runs} runs do not show which end it resembles")),
                    ..step_of(commit, &values, None)
                });
            }
        }
    }
}

/// Searches for the first bad commit between `good` and `bad`: judges both ends, then each commit
/// that git's bisection asks for. `metric` is the figure's name and unit. The answer has the
/// outcome and the probability that it is wrong, summed over all decisions.
pub fn search(
    judge: &mut impl Judge,
    history: &History,
    (good, bad): (&Commit, &Commit),
    power: Power,
    metric: (&str, &str),
) -> Result<Answer, Failure> {
    // `ends_error`: the probability of error with which the ends were told apart.
    let (samples, ends_error) = look_at_ends(judge, history, (good, bad), &power)?;
    let mut answer = Answer {
        metric: metric.0.to_owned(),
        unit: metric.1.to_owned(),
        power,
        commits: history.between(good, bad)?,
        found: Found::Nothing {
            visible: visible(&samples.good, &power),
        },
        error: ends_error.unwrap_or(0.0),
        steps: vec![
            step_of(good, &samples.good, Some(Side::Good)),
            step_of(bad, &samples.bad, Some(Side::Bad)),
        ],
    };
    answer.steps.iter().for_each(|step| judge.looked(step));
    if ends_error.is_none() {
        return Ok(answer);
    }
    let mut next = history.start(good, bad)?;
    loop {
        let commit = match next {
            Next::Test(commit) => commit,
            Next::First(commit) => {
                answer.found = Found::First { commit };
                return Ok(answer);
            }
            Next::OneOf(commits) => {
                answer.found = Found::OneOf { commits };
                return Ok(answer);
            }
            Next::Stuck(why) => {
                answer.found = Found::Stuck { why };
                return Ok(answer);
            }
        };
        let step = look_at(judge, history, &commit, &samples, &power)?;
        judge.looked(&step);
        let mark = match step.side {
            Some(Side::Good) => Mark::Good,
            Some(Side::Bad) => Mark::Bad,
            None => Mark::Skip,
        };
        answer.error += step.error.unwrap_or(0.0);
        answer.steps.push(step);
        next = history.mark(&commit, mark)?;
    }
}
