//! The search itself: which commit to look at, how often, and when it is told.

use super::history::{Commit, History, Mark, Next};
use crate::failure::Failure;
use lab::bisect::{Decision, Ends, Power, Side, ends, side, visible};
use lab::figures::stats::{Summary, summary};
use serde::Serialize;

/// What running a commit gave.
#[derive(Debug, Clone, PartialEq)]
pub enum Sample {
    /// The figure in each run.
    Values(Vec<f64>),
    /// It can't be told of this commit: it does not build, or no run of it came to its end.
    None(String),
}

/// Who runs commits.
pub trait Judge {
    /// The figure in so many runs of a commit, the first ones first: a longer sample begins with a shorter one.
    fn sample(&mut self, history: &History, commit: &Commit, runs: u32) -> Result<Sample, Failure>;

    /// A commit was looked at.
    fn looked(&mut self, step: &Step);
}

/// What was found of one commit.
#[derive(Debug, Clone, Serialize)]
pub struct Step {
    /// Which.
    pub commit: Commit,
    /// Like which end it is; absent: it was passed over.
    pub side: Option<Side>,
    /// Whether it differs from both ends.
    pub between: bool,
    /// The probability that this is wrong, at most; absent for an end, or where it was passed over.
    pub error: Option<f64>,
    /// Its values.
    pub summary: Option<Summary>,
    /// Runs.
    pub runs: u32,
    /// Why it was passed over.
    pub why: Option<String>,
}

/// How a search ended.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Found {
    /// This commit is the first bad one.
    First {
        /// Which.
        commit: Commit,
    },
    /// One of these is, and which can't be told.
    OneOf {
        /// Which ones.
        commits: Vec<Commit>,
    },
    /// The ends do not differ.
    Nothing {
        /// What would have been seen, as a share of the median; absent where nothing would, or it is 0.
        visible: Option<f64>,
    },
    /// Git could not go on.
    Stuck {
        /// What it said.
        why: String,
    },
}

/// A search and what it found.
#[derive(Debug, Clone, Serialize)]
pub struct Answer {
    /// The figure.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// How sure it wanted to be.
    pub power: Power,
    /// Commits behind the good one.
    pub commits: u32,
    /// How it ended.
    #[serde(flatten)]
    pub found: Found,
    /// The probability that it is wrong, at most: the sum over its decisions.
    pub error: f64,
    /// The commits that were looked at, the ends first.
    pub steps: Vec<Step>,
}

/// The two ends' samples.
struct EndSamples {
    good: Vec<f64>,
    bad: Vec<f64>,
}

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

/// Runs both ends until they differ or are run often enough. The error of having told them apart.
fn look_at_ends(
    judge: &mut impl Judge,
    history: &History,
    (good, bad): (&Commit, &Commit),
    power: &Power,
) -> Result<(EndSamples, Option<f64>), Failure> {
    let mut runs = power.next(0).unwrap_or(power.most);
    loop {
        let mut of = |commit: &Commit| match judge.sample(history, commit, runs)? {
            Sample::Values(values) => Ok(values),
            Sample::None(why) => Err(Failure::Results(format!(
                "{} ({}) is an end of the search and can't be told: {why}",
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
            // Where runs failed the samples are shorter than asked for.
            Ends::More(more) if more > runs => runs = more,
            Ends::More(_) => match power.next(runs) {
                Some(more) => runs = more,
                None => return Ok((samples, None)),
            },
            Ends::Alike => return Ok((samples, None)),
        }
    }
}

/// Runs a commit until it is told, or run often enough.
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
                    why: Some(format!("{runs} runs do not tell like which end it is")),
                    ..step_of(commit, &values, None)
                });
            }
        }
    }
}

/// Searches for the first bad commit. `metric`: the figure's name and unit.
pub fn search(
    judge: &mut impl Judge,
    history: &History,
    (good, bad): (&Commit, &Commit),
    power: Power,
    metric: (&str, &str),
) -> Result<Answer, Failure> {
    let (samples, told) = look_at_ends(judge, history, (good, bad), &power)?;
    let mut answer = Answer {
        metric: metric.0.to_owned(),
        unit: metric.1.to_owned(),
        power,
        commits: history.between(good, bad)?,
        found: Found::Nothing {
            visible: visible(&samples.good, &power),
        },
        error: told.unwrap_or(0.0),
        steps: vec![
            step_of(good, &samples.good, Some(Side::Good)),
            step_of(bad, &samples.bad, Some(Side::Bad)),
        ],
    };
    answer.steps.iter().for_each(|step| judge.looked(step));
    if told.is_none() {
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
