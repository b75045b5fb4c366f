//! Tests of the first screen, with figures from nowhere.

use super::*;
use crate::experiment::{Overrides, load};
use crate::model::Cell;
use crate::model::Experiment;
use crate::rows;
use crate::runner::fixture;
use sim::result::Metric;
use sim::{Outcome, RunResult};
use std::collections::BTreeSet;
use std::path::Path;

/// Policies on one filesystem with the figure `response_max` (in us) and the elapsed time of
/// each of their iterations.
fn outcomes(policies: &[(&str, &[f64], f64)]) -> Outcomes {
    let mut experiment = fixture::experiment(6);
    experiment.axes = vec!["policy".into()];
    experiment.figures = vec![rows::figure("response_max").unwrap()];
    let first = experiment.cells[0].clone();
    experiment.cells.clear();
    let mut results = Vec::new();
    for (nth, (policy, responses, elapsed)) in policies.iter().enumerate() {
        experiment.cells.push(Cell {
            axes: vec![("policy".into(), (*policy).into())],
            policy: (*policy).into(),
            baseline: nth == 0,
            ..first.clone()
        });
        let run = |(i, response): (usize, &f64)| {
            let mut r = RunResult {
                origin: sim::Origin::Engine,
                ..RunResult::of_kernel(Outcome::Completed)
            };
            let mut set = |name: &str, unit, value| {
                r.metrics.insert(name.into(), Metric { unit, value });
            };
            set("elapsed", "s", elapsed + i as f64 / 100.0);
            if response.is_finite() {
                set("response_max", "us", *response);
            }
            Some(r)
        };
        results.push(responses.iter().enumerate().map(run).collect());
    }
    Outcomes {
        experiment,
        results,
        host: Vec::new(),
        interrupted: false,
        build: None,
    }
}

fn told(outcomes: &Outcomes) -> String {
    text(outcomes, &Comparison::new(outcomes), Screen::default())
}

const SLOW: [f64; 6] = [250e3, 255e3, 258e3, 260e3, 262e3, 270e3];
const FAST: [f64; 6] = [80e3, 82e3, 84e3, 85e3, 86e3, 88e3];
const NEVER: [f64; 6] = [f64::NAN; 6];

#[test]
fn the_first_line_says_what_is_better_and_its_price() {
    let o = outcomes(&[("default", &SLOW, 10.0), ("ratio-2", &FAST, 12.0)]);
    let text = told(&o);
    let first = text.split("\n\n").next().unwrap().replace("\n    ", " ");
    assert_eq!(
        first,
        "ratio-2 is better than default in response_max: -67.5 % (259.2 -> 84.17 ms, p=0.002, n=6+6); \
         its price: elapsed +20.0 % (10.02 -> 12.03 s)"
    );
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    assert!(text.lines().count() <= 25, "{text}");
}

/// A policy under which the task never answered stands first among the worse, with the reason.
#[test]
fn a_policy_that_never_answered_is_the_worst() {
    let worse = SLOW.map(|us| us * 2.0);
    let o = outcomes(&[
        ("default", &SLOW, 10.0),
        ("ratio-2", &FAST, 10.0),
        ("ratio-20", &worse, 10.0),
        ("ratio-40", &NEVER, 10.0),
    ]);
    let text = told(&o);
    assert!(
        text.contains("worse: ratio-40 (no answer in 6 of 6 runs), ratio-20 +100.0 %"),
        "{text}"
    );
    let alone = outcomes(&[("default", &SLOW, 10.0), ("ratio-40", &NEVER, 10.0)]);
    assert!(
        told(&alone).starts_with("ratio-40 is worse than default: no answer in 6 of 6 runs"),
        "{}",
        told(&alone)
    );
    let page = page::report(&o, &Comparison::new(&o));
    assert!(page.contains("ratio-40: response_max is not known: no answer in 6 of 6 runs"));
}

/// A figure beside the question may tell policies apart that the question does not.
#[test]
fn figures_beside_the_question_are_said() {
    let o = outcomes(&[("default", &SLOW, 10.0), ("fast", &SLOW, 8.0)]);
    let text = told(&o).replace("\n    ", " ");
    assert!(
        text.contains("; better: elapsed -20.0 % (10.02 -> 8.025 s)"),
        "{text}"
    );
    let o = outcomes(&[("default", &SLOW, 10.0), ("both", &FAST, 8.0)]);
    let text = told(&o).replace("\n    ", " ");
    assert!(text.contains("; also better: elapsed -20.0 %"), "{text}");
}

/// With three values of each no p below 0.05 is possible, and the first line says so.
#[test]
fn too_few_iterations_are_said_first() {
    let few = [250e3, 255e3, 258e3];
    let fewer = [80e3, 82e3, 84e3];
    let o = outcomes(&[
        ("default", &few, 10.0),
        ("ratio-2", &fewer, 10.0),
        ("ratio-4", &few, 10.0),
    ]);
    let text = told(&o);
    assert!(
        text.starts_with(
            "too few iterations (n=3) to tell any policy from default in response_max"
        ),
        "{text}"
    );
    // Four of each that lie apart are enough.
    let o = outcomes(&[
        ("default", &SLOW[..4], 10.0),
        ("ratio-2", &FAST[..4], 10.0),
        ("ratio-4", &SLOW[..4], 10.0),
    ]);
    let text = told(&o);
    assert!(text.starts_with("ratio-2 is better than default"), "{text}");
    assert!(!text.contains("too few"), "{text}");
}

/// The comparison of elapsed times claims by the same rule: ranks that differ where the means may
/// lie either way claim nothing.
#[test]
fn both_texts_claim_by_one_rule() {
    let mut o = outcomes(&[("default", &[1.0; 13], 1.0), ("mine", &[1.0; 13], 2.0)]);
    for (cell, outlier) in [(0, 1000.0), (1, 500.0)] {
        let last = o.results[cell][12].as_mut().unwrap();
        last.metrics.get_mut("elapsed").unwrap().value = outlier;
    }
    let comparison = Comparison::new(&o);
    assert!(comparison.rows[1].p.unwrap() < 0.05);
    let said = &comparison.answers()[0];
    assert!(
        said.contains("no difference between mine and default can be claimed"),
        "{said}"
    );
    let table = comparison.to_text(Screen::default());
    assert!(!table.contains("-49") && table.contains('~'), "{table}");
}

/// A setting without any effect is told from one whose effect can't be claimed.
#[test]
fn runs_that_are_the_same_are_called_that() {
    let mut o = outcomes(&[
        ("default", &SLOW, 10.0),
        ("swappiness-10", &SLOW, 10.0),
        ("ratio-2", &SLOW, 10.0),
    ]);
    for (cell, results) in o.results.iter_mut().enumerate() {
        for (i, result) in results.iter_mut().flatten().enumerate() {
            // The last policy decides otherwise with the same figures.
            result.digest = 1 + i as u64 + if cell == 2 { 100 } else { 0 };
        }
    }
    let text = told(&o);
    assert!(
        text.contains("the same as default in every run, event for event: swappiness-10"),
        "{text}"
    );
    assert!(
        text.contains("no difference can be claimed of ratio-2\n"),
        "{text}"
    );
    o.results.truncate(2);
    o.experiment.cells.truncate(2);
    let text = told(&o);
    assert!(
        text.starts_with("swappiness-10 is the same as default in every run"),
        "{text}"
    );
}

/// Where nothing finished, each policy is named with its reason, or all with the one they share.
#[test]
fn policies_that_all_failed_are_all_named() {
    let mut o = outcomes(&[("default", &NEVER, 10.0), ("ratio-40", &NEVER, 10.0)]);
    let dead = |o: &mut Outcomes, cell: usize, outcome: &Outcome| {
        for result in o.results[cell].iter_mut().flatten() {
            result.outcome = outcome.clone();
        }
    };
    dead(&mut o, 0, &Outcome::TimeLimit);
    dead(&mut o, 1, &Outcome::TimeLimit);
    let text = told(&o);
    let shared = "no policy has this figure: time limit in 6 of 6 runs";
    assert!(text.starts_with(shared), "{text}");
    let report = String::new();
    dead(&mut o, 1, &Outcome::Oom { report });
    let text = told(&o).replace("\n    ", " ");
    assert!(
        text.starts_with(
            "no policy has this figure: default: time limit in 6 of 6 runs; ratio-40: out of memory \
             in 6 of 6 runs"
        ),
        "{text}"
    );
}

/// Kills in a control group are said with their number and the time of the first.
#[test]
fn kills_in_a_group_are_said() {
    let mut o = outcomes(&[("default", &SLOW, 10.0), ("mglru", &SLOW, 10.0)]);
    for (i, result) in o.results[1].iter_mut().flatten().enumerate().take(2) {
        let mut set = |name: &str, unit, value| {
            result.metrics.insert(name.into(), Metric { unit, value });
        };
        set("group.pod.oom_kill", "processes", 2.0);
        set("group.pod.first_kill", "s", 3.5 - i as f64);
    }
    let text = told(&o).replace("\n    ", " ");
    assert!(
        text.contains(
            "note: mglru: the OOM killer ended 4 programs of the group pod, in 2 of 6 runs; the first at 2.50 s"
        ),
        "{text}"
    );
}

/// A run that ended for want of memory has been waited for until then: its longest response is
/// said.
#[test]
fn a_freeze_before_memory_ran_out_is_said() {
    let mut o = outcomes(&[("default", &SLOW, 10.0), ("ratio-40", &SLOW, 10.0)]);
    for r in o.results[1].iter_mut().flatten() {
        r.outcome = Outcome::Oom {
            report: "1 killed: desktop (2) at 20.324 s".into(),
        };
        r.metrics.get_mut("response_max").unwrap().value = 120e6;
    }
    let text = told(&o).replace("\n    ", " ");
    assert!(
        text.starts_with(
            "ratio-40 is worse than default: out of memory in 6 of 6 runs; \
             response_max 120.0 s before that"
        ),
        "{text}"
    );
}

/// Runs that were lost may not make a policy look better by those that are left.
#[test]
fn a_policy_that_lost_runs_is_not_called_better() {
    let mut o = outcomes(&[("default", &SLOW, 10.0), ("ratio-2", &FAST, 10.0)]);
    o.results[1][0].as_mut().unwrap().outcome = Outcome::TimeLimit;
    let text = told(&o).replace("\n    ", " ");
    assert!(!text.contains("is better"), "{text}");
    assert!(
        text.contains("looks better by the runs that it finished, and 1 of its runs did not"),
        "{text}"
    );
}

#[test]
fn what_cannot_be_claimed_is_said_without_an_interval() {
    let o = outcomes(&[("default", &SLOW, 10.0), ("same", &SLOW, 10.0)]);
    let text = told(&o);
    assert!(
        text.starts_with("no difference between same and default in response_max can be"),
        "{text}"
    );
    assert!(!text.contains('…'), "{text}");
}

/// Long names and many policies do not make the first screen wider or longer than a terminal.
#[test]
fn the_first_screen_fits_a_terminal() {
    let names: Vec<String> = (0..40)
        .map(|n| format!("a-policy-with-a-long-name-{n}"))
        .collect();
    let policies: Vec<(&str, &[f64], f64)> = names
        .iter()
        .enumerate()
        .map(|(n, name)| (&name[..], if n % 2 == 0 { &SLOW[..] } else { &FAST }, 10.0))
        .collect();
    let text = told(&outcomes(&policies));
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    assert!(text.lines().count() <= 25, "{text}");
    assert!(text.contains("and 15 more"), "{text}");
}

/// Returns results of every cell of an experiment that nothing ran: figures by policy, and every
/// `lost`th policy without one.
fn invented(experiment: Experiment, lost: usize) -> Outcomes {
    let figures: Vec<String> = experiment.figures.iter().map(|f| f.name.clone()).collect();
    let results = experiment.cells.iter().enumerate().map(|(nth, _)| {
        let run = |iteration: u32| {
            let mut r = RunResult::of_kernel(Outcome::Completed);
            let chance = f64::from(iteration % 3) * 17.25;
            let value = 123_456.75 * (nth + 1) as f64 + chance;
            let mut set = |name: &str, unit, value| {
                r.metrics.insert(name.into(), Metric { unit, value });
            };
            set("elapsed", "s", value / 1000.0);
            for figure in &figures {
                set(figure, "us", value);
            }
            if lost > 0 && nth % lost == 0 {
                r.outcome = Outcome::TimeLimit;
            }
            Some(r)
        };
        (0..experiment.iterations).map(run).collect()
    });
    Outcomes {
        results: results.collect(),
        experiment,
        host: Vec::new(),
        interrupted: false,
        build: None,
    }
}

/// Every shipped experiment has a first screen of a terminal's size, with the verdict first and no
/// column twice, whatever its runs gave.
#[test]
fn first_screens_of_all_shipped_experiments_fit() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    let files = crate::shipped::FILES.iter();
    for (name, _) in files.filter(|(path, _)| path.starts_with("experiments/")) {
        let overrides = Overrides {
            iterations: Some(6),
            ..Overrides::default()
        };
        let Ok(experiment) = load(Path::new(name), &overrides) else {
            // Files that only another file names, such as lists of policies.
            continue;
        };
        seen += 1;
        for (lost, screen) in [0, 1, 2, 3].into_iter().flat_map(|lost| {
            let terminal = Screen {
                width: Some(80),
                colour: true,
            };
            [(lost, Screen::default()), (lost, terminal)]
        }) {
            let outcomes = invented(experiment.clone(), lost);
            let shown = text(&outcomes, &Comparison::new(&outcomes), screen);
            let shown = plain(&shown);
            let mut say = |what: &str| wrong.push(format!("{name}, lost {lost}: {what}\n{shown}"));
            if shown.lines().count() > LINES {
                say("too long");
            }
            if shown.lines().any(|l| l.chars().count() > 80) {
                say("too wide");
            }
            let first = shown.lines().next().unwrap_or_default();
            if first.is_empty() || first.starts_with('─') || first.starts_with("note") {
                say("no verdict first");
            }
            let heads: Vec<&str> = shown.lines().filter(|l| l.contains('[')).collect();
            if heads.len() != heads.iter().collect::<BTreeSet<_>>().len() {
                say("a heading twice");
            }
        }
    }
    assert!(seen >= 40, "{seen} experiments were read");
    let all = wrong.len();
    wrong.truncate(3);
    assert!(all == 0, "{all} screens:\n{}", wrong.join("\n"));
}

/// The words of such a screen are explained: `tests/words.rs` reads this snapshot.
#[test]
fn a_first_screen_is_what_it_was() {
    let path = Path::new("experiments/usb-desktop.toml");
    let experiment = load(path, &Overrides::default()).expect("a shipped experiment");
    let outcomes = invented(experiment, 3);
    let shown = text(&outcomes, &Comparison::new(&outcomes), Screen::default());
    insta::assert_snapshot!("first_screen", shown);
}

/// Returns a text without its colours.
fn plain(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out += part.split_once('m').map_or("", |(_, rest)| rest);
    }
    out
}
