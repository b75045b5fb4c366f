//! The results of a search as text.

use super::search::{Answer, Found, Step};
use lab::bisect::Side;
use lab::terminal::Screen;

/// Formats a number with more decimals the smaller it is; none from 1000 on, and for whole numbers.
fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 || v == v.trunc() => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// Returns the words for a commit's judgement.
fn verdict(step: &Step) -> &'static str {
    match (step.side, step.between) {
        (Some(Side::Good), false) => "good",
        (Some(Side::Bad), false) => "bad",
        (Some(Side::Good), true) => "nearer to good",
        (Some(Side::Bad), true) => "nearer to bad",
        (None, _) => "passed over",
    }
}

/// Formats a judged commit as one line: hash, judgement, median and runs or the reason why it was
/// skipped, subject.
pub fn step(step: &Step) -> String {
    let commit = &step.commit;
    let what = match (&step.why, &step.summary) {
        (Some(why), _) => why.lines().next().unwrap_or_default().to_owned(),
        (None, Some(s)) => format!("median {} of {} runs", number(s.median), step.runs),
        (None, None) => String::new(),
    };
    let (short, verdict) = (commit.short(), verdict(step));
    format!("{short} {verdict}: {what} ({})", commit.subject)
}

/// Formats a share (0 to 1) as a percentage.
fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p < 0.01 => "less than 0.01 %".to_owned(),
        p if p < 1.0 => format!("{p:.2} %"),
        p => format!("{p:.1} %"),
    }
}

/// Formats the outcome of a search in sentences, with the probability that it is wrong.
fn found(answer: &Answer) -> String {
    let wrong = || {
        format!(
            "wrong with a probability of {} at most",
            percent(answer.error)
        )
    };
    match &answer.found {
        Found::First { commit } => format!(
            "{} is the first bad commit ({})\n  {}\n",
            commit.hash,
            wrong(),
            commit.subject
        ),
        Found::OneOf { commits } => {
            let all: Vec<String> = commits
                .iter()
                .map(|c| format!("  {} {}\n", c.hash, c.subject))
                .collect();
            let wrong = wrong();
            format!(
                "one of these is the first bad commit ({wrong}); they can't be told apart:\n{}",
                all.concat()
            )
        }
        Found::Nothing { visible } => {
            // The shift that would have been detected, as a share of the median.
            let seen = match visible {
                Some(share) => format!(
                    "a shift of {} of `{}` would have been seen",
                    percent(*share),
                    answer.metric
                ),
                None => "samples of this size can't show any shift".to_owned(),
            };
            let runs = answer.steps.iter().map(|s| s.runs).min().unwrap_or(0);
            format!(
                "no first bad commit at this statistical power: {runs} runs of each end do not differ; {seen}\n"
            )
        }
        Found::Stuck { why } => format!("git can't continue: {why}\n"),
    }
}

/// Formats the whole answer: the outcome, a table of the judged commits, and the reasons why
/// commits were skipped.
pub fn answer(answer: &Answer) -> String {
    let mut rows = Screen::here().table([
        "commit", "like", "median", "least", "most", "runs", "wrong", "subject",
    ]);
    for step in &answer.steps {
        let of = |f: fn(&lab::figures::stats::Summary) -> f64| {
            step.summary
                .as_ref()
                .map_or_else(String::new, |s| number(f(s)))
        };
        rows.add_row([
            step.commit.short().to_owned(),
            verdict(step).to_owned(),
            of(|s| s.median),
            of(|s| s.min),
            of(|s| s.max),
            step.runs.to_string(),
            step.error.map_or_else(String::new, percent),
            step.commit.subject.clone(),
        ]);
    }
    let passed = answer.steps.iter().filter_map(|step| {
        let why = step.why.as_ref()?.trim();
        Some(format!("{} was skipped: {why}\n", step.commit.short()))
    });
    let passed: String = passed.collect();
    let unit = match answer.unit.as_str() {
        "" => String::new(),
        unit => format!(" ({unit})"),
    };
    let (metric, commits) = (&answer.metric, answer.commits);
    format!(
        "{}\n`{metric}`{unit} over {commits} commits\n{rows}\n{passed}",
        found(answer)
    )
}
