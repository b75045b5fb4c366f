//! Walking and removing trees: `find PATH…` and `rm -r PATH…`.
//!
//! As the tools do without a test that needs more: `find` reads every directory and looks at every name
//! in it (stat(2); without `-noleaf` the original spares some calls on filesystems that count links),
//! `rm -r` reads a directory, removes its files in the order of reading, then the directory.

use crate::error::CommandError;
use crate::host::{Host, HostError, HostResult, Task, joined};
use crate::program::Program;
use crate::report::{Metric, Report};
use crate::session::Session;
use crate::shell::Word;

/// User time for a name, in ns: comparing, sorting and printing it.
const NAME_NS: u64 = 300;

/// What is done with a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Walk,
    Remove,
}

/// `find` with its operands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Find(Tree);

/// `rm -r` with its operands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rm(Tree);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Tree {
    paths: Vec<String>,
    action: Action,
}

/// One path at least, and no option.
fn paths(name: &Word, operands: &[Word], accepted: &str) -> Result<Vec<String>, CommandError> {
    if let Some(option) = operands.iter().find(|w| w.text.starts_with('-')) {
        let what = format!("`{}` is not an option here", option.text);
        return Err(CommandError::new(option.span.clone(), what, accepted));
    }
    if operands.is_empty() {
        let what = format!("{} has no path", name.text);
        return Err(CommandError::new(name.span.clone(), what, accepted));
    }
    Ok(operands.iter().map(|w| w.text.clone()).collect())
}

impl Task for Find {
    const NAME: &'static str = "find";

    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        self.0.run(host).await
    }
}

impl Program for Find {
    const USAGE: &'static str = "find PATH …";

    const METRICS: &'static [Metric] = &[
        Metric::new("names_walked", "names", "Names that find looked at."),
        Metric::new("walk_rate", "1/s", "Names that find looked at a second."),
    ];

    fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
        Ok(Self(Tree {
            paths: paths(name, operands, "find PATH …")?,
            action: Action::Walk,
        }))
    }
}

impl Task for Rm {
    const NAME: &'static str = "rm";

    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        self.0.run(host).await
    }
}

impl Program for Rm {
    const USAGE: &'static str = "rm -r PATH …";

    const METRICS: &'static [Metric] = &[
        Metric::new("names_removed", "names", "Names that rm -r removed."),
        Metric::new("remove_rate", "1/s", "Names that rm -r removed a second."),
    ];

    fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
        let accepted = "rm -r PATH …";
        let Some((recursive, rest)) = operands.split_first() else {
            let what = "rm has no path";
            return Err(CommandError::new(name.span.clone(), what, accepted));
        };
        if !matches!(recursive.text.as_str(), "-r" | "-R" | "-rf" | "-fr") {
            let what = "rm removes trees here: its first operand is `-r`";
            return Err(CommandError::new(recursive.span.clone(), what, accepted));
        }
        Ok(Self(Tree {
            paths: paths(name, rest, accepted)?,
            action: Action::Remove,
        }))
    }
}

impl Tree {
    async fn run<H: Host>(&self, host: &H) -> HostResult<Report> {
        let begun = host.now();
        let mut names = 0_u64;
        for path in &self.paths {
            self.visit(host, path, &mut names).await?;
        }
        let seconds = (host.now() - begun).max(1) as f64 / 1e9;
        let (count, rate) = match self.action {
            Action::Walk => ("names_walked", "walk_rate"),
            Action::Remove => ("names_removed", "remove_rate"),
        };
        Ok(Report {
            metrics: vec![
                (count.to_owned(), "names", names as f64),
                (rate.to_owned(), "1/s", names as f64 / seconds),
            ],
        })
    }

    /// Everything below a directory, and the directory itself: what lies deepest comes first. A name
    /// that somebody else removes meanwhile is no error.
    async fn visit<H: Host>(&self, host: &H, root: &str, names: &mut u64) -> HostResult<()> {
        // Directories that were entered, each with its names and how many of them are left.
        let inside = host.read_dir(root).await?;
        let mut entered = vec![(root.to_owned(), host.dir(root), inside.len(), inside)];
        while let Some((path, dir, left, inside)) = entered.last_mut() {
            let Some(nth) = left.checked_sub(1) else {
                let (path, ..) = entered.pop().expect("a directory");
                *names += 1;
                if self.action == Action::Remove {
                    gone(host.rmdir(&path).await)?;
                }
                continue;
            };
            *left = nth;
            host.compute(NAME_NS).await;
            let stat = match host.stat_listed(dir, inside, nth).await {
                Err(HostError::NotFound(_)) => continue,
                other => other?,
            };
            if stat.directory {
                let path = joined(path, &inside[nth]);
                let inside = host.read_dir(&path).await?;
                let dir = host.dir(&path);
                entered.push((path, dir, inside.len(), inside));
                continue;
            }
            *names += 1;
            if self.action == Action::Remove {
                gone(host.unlink_in(dir, &inside[nth]).await)?;
            }
        }
        Ok(())
    }
}

/// Somebody else may have been faster.
fn gone(result: HostResult<()>) -> HostResult<()> {
    match result {
        Err(HostError::NotFound(_)) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use crate::script::parse;

    #[test]
    fn what_is_not_accepted_is_named_and_placed() {
        for (line, place) in [
            ("find", "find"),
            ("find -name x", "-name"),
            ("rm", "rm"),
            ("rm x", "x"),
            ("rm -r", "rm"),
            ("rm -r a -v", "-v"),
        ] {
            let e = parse(line).expect_err(line);
            assert_eq!(&line[e.span.clone()], place, "{line}: {e}");
            assert!(!e.accepted.is_empty());
        }
        for line in ["find a b", "rm -r a", "rm -rf a b"] {
            assert!(parse(line).is_ok(), "{line}");
        }
    }
}
