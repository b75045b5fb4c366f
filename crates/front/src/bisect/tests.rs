//! Tests of the search, with git and a judge that reads a figure from a file of the commit.

use super::history::{Commit, History, revision};
use super::search::{Answer, Found, Judge, Sample, Step, search};
use crate::failure::Failure;
use lab::bisect::{Power, Side};
use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

fn git(at: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .arg("-C")
        .arg(at)
        .args(["-c", "user.name=Somebody", "-c", "user.email=s@example.org"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Makes a repository with a commit for each of these values of the figure; a value below 0 does
/// not build.
fn repository(values: &[i32]) -> TempDir {
    let dir = TempDir::new().unwrap();
    git(dir.path(), &["init", "--quiet"]);
    for (n, value) in values.iter().enumerate() {
        fs::write(dir.path().join("figure"), format!("{value} {n}\n")).unwrap();
        git(dir.path(), &["add", "."]);
        git(
            dir.path(),
            &["commit", "--quiet", "-m", &format!("number {n}")],
        );
    }
    dir
}

/// Returns a commit's figure with noise, at most `most` times.
struct Reader {
    looks: Cell<u32>,
    most: u32,
    seen: Vec<String>,
}

impl Reader {
    fn new(most: u32) -> Self {
        Self {
            looks: Cell::new(0),
            most,
            seen: Vec::new(),
        }
    }
}

impl Judge for Reader {
    fn sample(&mut self, history: &History, commit: &Commit, runs: u32) -> Result<Sample, Failure> {
        self.looks.set(self.looks.get() + 1);
        if self.looks.get() > self.most {
            return Err(Failure::Stopped("stopped".into()));
        }
        history.checkout(commit)?;
        let text = fs::read_to_string(history.root.join("figure")).unwrap();
        let mut numbers = text.split_whitespace().map(|n| n.parse::<f64>().unwrap());
        let (value, salt) = (numbers.next().unwrap(), numbers.next().unwrap());
        if value < 0.0 {
            return Ok(Sample::None("it does not build".into()));
        }
        // The fractional parts of multiples of an irrational number are spread evenly and all
        // different.
        let noise = |run: u32| ((salt * 31.0 + f64::from(run)) * 0.618_033_988_749_895).fract();
        Ok(Sample::Values(
            (0..runs).map(|run| value + noise(run)).collect(),
        ))
    }

    fn looked(&mut self, step: &Step) {
        self.seen.push(step.commit.subject.clone());
    }
}

fn searched(values: &[i32], judge: &mut Reader) -> Result<Answer, Failure> {
    let dir = repository(values);
    let clone = TempDir::new().unwrap();
    let first = format!("HEAD~{}", values.len() - 1);
    let good = revision(dir.path(), "good", &first)?;
    let bad = revision(dir.path(), "bad", "HEAD")?;
    let history = History::clone_of(dir.path(), clone.path().join("tree"))?;
    let power = Power::of_search(0.05, history.between(&good, &bad)?, 30);
    let answer = search(judge, &history, (&good, &bad), power, ("figure", "pages"));
    assert_eq!(git(dir.path(), &["status", "--porcelain"]), "");
    assert_eq!(git(dir.path(), &["branch", "--list"]).lines().count(), 1);
    answer
}

#[test]
fn the_first_bad_commit_is_found() {
    for first in [1, 5, 12] {
        let values: Vec<i32> = (0..13).map(|n| if n < first { 5 } else { 7 }).collect();
        let mut judge = Reader::new(100);
        let answer = searched(&values, &mut judge).unwrap();
        let Found::First { commit } = &answer.found else {
            panic!("{answer:?}");
        };
        assert_eq!(commit.subject, format!("number {first}"));
        assert!(
            answer.error > 0.0 && answer.error <= 0.05,
            "{}",
            answer.error
        );
        // The ends, and at most as many steps as halving twelve commits takes.
        assert!(answer.steps.len() <= 6, "{:?}", judge.seen);
        assert_eq!(answer.commits, 12);
        let said = super::text::answer(&answer);
        assert!(
            said.starts_with(&format!("{} is the first bad commit", commit.hash)),
            "{said}"
        );
    }
}

#[test]
fn what_does_not_build_is_passed_over() {
    let values = [5, 5, 5, 5, -1, -1, 7, 7, 7];
    let answer = searched(&values, &mut Reader::new(100)).unwrap();
    let Found::OneOf { commits } = &answer.found else {
        panic!("{answer:?}");
    };
    let mut subjects: Vec<&str> = commits.iter().map(|c| c.subject.as_str()).collect();
    subjects.sort_unstable();
    assert_eq!(subjects, ["number 4", "number 5", "number 6"]);
    let passed = answer.steps.iter().filter(|s| s.side.is_none()).count();
    assert_eq!(passed, 2);
    let away = searched(&[5, 5, -1, 5, 5, 7, 7, 7], &mut Reader::new(100)).unwrap();
    assert!(matches!(&away.found, Found::First { commit } if commit.subject == "number 5"));
}

#[test]
fn ends_that_do_not_differ_end_the_search() {
    let answer = searched(&[5; 8], &mut Reader::new(100)).unwrap();
    let Found::Nothing { visible } = answer.found else {
        panic!("{answer:?}");
    };
    assert!(
        visible.is_some_and(|share| share > 0.0 && share < 0.3),
        "{visible:?}"
    );
    let said = super::text::answer(&answer);
    assert!(
        said.starts_with("no first bad commit at this statistical power: 30 runs"),
        "{said}"
    );
}

#[test]
fn a_state_that_is_worse_than_the_end_is_bad() {
    // The figure recovers in part at the end; the search finds where it first changed.
    let answer = searched(&[5, 5, 5, 9, 9, 9, 7], &mut Reader::new(100)).unwrap();
    let Found::First { commit } = &answer.found else {
        panic!("{answer:?}");
    };
    assert_eq!(commit.subject, "number 3");
    let worse: Vec<&Step> = answer.steps.iter().filter(|s| s.between).collect();
    assert!(!worse.is_empty() && worse.iter().all(|s| s.side == Some(Side::Bad)));
}

#[test]
fn an_end_that_can_not_be_told_is_said() {
    let failure = searched(&[5, 5, -1], &mut Reader::new(100)).unwrap_err();
    let Failure::Results(said) = failure else {
        panic!("{failure:?}");
    };
    assert!(
        said.contains("number 2") && said.contains("does not build"),
        "{said}"
    );
}

#[test]
fn a_search_that_is_stopped_says_so() {
    for most in 0..4 {
        let stopped = searched(&[5, 5, 5, 7, 7], &mut Reader::new(most));
        assert!(matches!(stopped, Err(Failure::Stopped(_))), "{stopped:?}");
    }
}

#[test]
fn a_revision_that_is_not_there_is_named() {
    let dir = repository(&[1]);
    let said = |tree: &Path, name: &str| match revision(tree, "good", name).unwrap_err() {
        Failure::Input(report) => report.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(said(dir.path(), "v9").contains("`--good v9`"));
    let empty = TempDir::new().unwrap();
    assert!(said(empty.path(), "HEAD").contains("not a git repository"));
}

#[test]
fn a_folder_is_of_one_search() {
    let dir = TempDir::new().unwrap();
    let terms = |good: &str| super::Terms {
        tree: "linux".into(),
        good: good.into(),
        bad: "b".into(),
        experiment: String::new(),
        patches: Vec::new(),
        fragments: Vec::new(),
        costs: true,
    };
    let place = || dir.path().join("search");
    let first = super::Place::claim(place(), &terms("a")).unwrap();
    // Another process holds the folder.
    assert!(super::Place::claim(place(), &terms("a")).is_err());
    drop(first);
    drop(super::Place::claim(place(), &terms("a")).unwrap());
    let Err(Failure::Input(report)) = super::Place::claim(place(), &terms("c")) else {
        panic!("another search was taken");
    };
    assert!(
        report.to_string().contains("another good revision"),
        "{report}"
    );
    fs::write(dir.path().join("mine"), "").unwrap();
    assert!(super::Place::claim(dir.path().to_owned(), &terms("a")).is_err());
}
