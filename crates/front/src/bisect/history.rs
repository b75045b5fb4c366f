//! A kernel's history and git's search in it.
//!
//! Git works in a clone that shares the objects of the user's repository: nothing is written to the
//! repository, and none of its hooks runs. The decisions of the search are not kept here: they are
//! replayed into a new clone.

use crate::failure::Failure;
use lab::diagnostic::Diagnostic;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// The commit's hash.
    pub hash: String,
    /// The first line of the commit message.
    pub subject: String,
}

impl Commit {
    /// Returns the first 12 digits of the hash.
    pub fn short(&self) -> &str {
        &self.hash[..self.hash.len().min(12)]
    }
}

/// The verdict on a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The commit is like the good end.
    Good,
    /// The commit is like the bad end.
    Bad,
    /// The commit can't be judged.
    Skip,
}

impl Mark {
    /// Returns git's word for the verdict, a subcommand of `git bisect`.
    fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Skip => "skip",
        }
    }
}

/// The state of the search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// This commit is to be marked next.
    Test(Commit),
    /// This is the first bad commit.
    First(Commit),
    /// One of these is the first bad commit; the rest of them can't be judged.
    OneOf(Vec<Commit>),
    /// Git can't go on; the reason is its message.
    Stuck(String),
}

/// A clone in which the search runs.
#[derive(Debug)]
pub struct History {
    /// The root of the clone.
    pub root: PathBuf,
}

/// Runs git in the folder `at`, without the user's hooks and questions, and returns its output,
/// also if git fails. The error is that git can't be started.
fn git(at: &Path, arguments: &[&str]) -> Result<Output, Failure> {
    let mut command = Command::new("git");
    command.arg("-C").arg(at);
    // A path without hooks disables them.
    command.args(["-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0"]);
    command
        .args(["-c", "advice.detachedHead=false"])
        .args(arguments);
    command.env("LC_ALL", "C").env("GIT_TERMINAL_PROMPT", "0");
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(variable);
    }
    let output = command.stdin(Stdio::null()).output();
    output.map_err(|e| Failure::System(miette::miette!("git can't be run: {e}")))
}

/// Returns git's output as text without white space around it.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

/// Runs git in the folder `at` and returns its standard output; a failure of git is an error with
/// its message.
fn done(at: &Path, arguments: &[&str]) -> Result<String, Failure> {
    let output = git(at, arguments)?;
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(Failure::System(miette::miette!(
            "git {} failed: {}",
            arguments[0],
            text(&output.stderr)
        ))),
    }
}

/// Returns the commit that a revision `name` of the repository `tree` names. `option` is the
/// command line's option, for the error: the folder is no repository, or has no such commit.
pub fn revision(tree: &Path, option: &str, name: &str) -> Result<Commit, Failure> {
    let wrong = |what: String, accepted: &str| {
        Failure::Input(Diagnostic::placeless(what, accepted.to_owned()).into())
    };
    let inside = git(tree, &["rev-parse", "--show-toplevel"])?;
    if !inside.status.success() {
        let what = format!(
            "{} is not a git repository: {}",
            tree.display(),
            text(&inside.stderr)
        );
        return Err(wrong(what, "accepted: a clone of a kernel's repository"));
    }
    let wanted = format!("{name}^{{commit}}");
    let found = git(
        tree,
        &[
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            &wanted,
        ],
    )?;
    if !found.status.success() {
        let what = format!("`--{option} {name}`: {} has no such commit", tree.display());
        return Err(wrong(what, "accepted: a tag, a branch or a hash"));
    }
    named(tree, &text(&found.stdout))
}

/// Returns the commit with this hash and its subject.
fn named(at: &Path, hash: &str) -> Result<Commit, Failure> {
    let subject = done(at, &["show", "--no-patch", "--format=%s", hash])?;
    let hash = hash.to_owned();
    Ok(Commit { hash, subject })
}

impl History {
    /// Clones the repository `tree` into the folder `root`, which is emptied first. The clone
    /// shares the objects and has no work tree yet.
    pub fn clone_of(tree: &Path, root: PathBuf) -> Result<Self, Failure> {
        let io = |what: &str, e: std::io::Error| {
            Failure::System(miette::miette!("can't {what} {}: {e}", root.display()))
        };
        if root.exists() {
            fs::remove_dir_all(&root).map_err(|e| io("remove", e))?;
        }
        fs::create_dir_all(&root).map_err(|e| io("make", e))?;
        let full = fs::canonicalize(tree).map_err(|e| io("read", e))?;
        let from = full.to_string_lossy();
        done(
            &root,
            &["clone", "--quiet", "--shared", "--no-checkout", &from, "."],
        )?;
        Ok(Self { root })
    }

    /// Returns the number of commits after `good` up to `bad`, those that the search has to tell
    /// apart.
    pub fn between(&self, good: &Commit, bad: &Commit) -> Result<u32, Failure> {
        let range = format!("{}..{}", good.hash, bad.hash);
        let count = done(&self.root, &["rev-list", "--count", &range])?;
        Ok(count.parse().unwrap_or(0))
    }

    /// Checks out a commit in the clone, to build it; local changes are lost.
    pub fn checkout(&self, commit: &Commit) -> Result<(), Failure> {
        done(
            &self.root,
            &["checkout", "--quiet", "--force", "--detach", &commit.hash],
        )
        .map(drop)
    }

    /// Starts git's bisection between the two ends. Returns the commit to test first.
    pub fn start(&self, good: &Commit, bad: &Commit) -> Result<Next, Failure> {
        done(&self.root, &["bisect", "start", "--no-checkout"])?;
        done(&self.root, &["bisect", "bad", &bad.hash])?;
        self.mark(good, Mark::Good)
    }

    /// Tells git the verdict on a commit, and returns the next commit to test or the outcome of the
    /// search.
    pub fn mark(&self, commit: &Commit, mark: Mark) -> Result<Next, Failure> {
        let output = git(&self.root, &["bisect", mark.word(), &commit.hash])?;
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        // Git's message names the first bad commit when it is known.
        let first = stdout
            .lines()
            .find_map(|l| l.strip_suffix(" is the first bad commit"));
        if let Some(hash) = first {
            return Ok(Next::First(named(&self.root, hash)?));
        }
        if stdout.contains("There are only 'skip'ped commits left to test") {
            let hashes = stdout
                .lines()
                .filter(|l| l.len() >= 40 && l.bytes().all(|b| b.is_ascii_hexdigit()));
            let all: Result<Vec<Commit>, Failure> =
                hashes.map(|hash| named(&self.root, hash)).collect();
            return Ok(Next::OneOf(all?));
        }
        if !output.status.success() {
            return Ok(Next::Stuck(if stderr.is_empty() { stdout } else { stderr }));
        }
        let next = done(&self.root, &["rev-parse", "--verify", "BISECT_HEAD"])?;
        Ok(Next::Test(named(&self.root, &next)?))
    }

    /// Removes the clone.
    pub fn remove(self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}
