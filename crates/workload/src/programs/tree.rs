//! Walks and removes trees: `find PATH…` and `rm [-rRf] PATH…`.
//!
//! Without tests that need more, `find` reads every directory and stats every name in it (stat(2);
//! without `-noleaf` the original spares some calls on filesystems that count links), `rm -r` reads
//! a directory, removes its files in the order of reading, then the directory. An operand may be a
//! file. An operand that does not exist is an error, but ignored by `rm -f`, as in POSIX.

use crate::error::CommandError;
use crate::host::{Host, HostError, HostResult, Listing, Task, joined};
use crate::options::paths;
use crate::program::Program;
use crate::report::{Metric, Report};
use crate::session::Session;
use crate::shell::Word;

/// User time per name, in ns: comparing, sorting and printing it.
const NAME_NS: u64 = 300;

/// The action on a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Walk,
    /// `rm`: `-r` removes directories as well, `-f` ignores paths that do not exist.
    Remove {
        recursive: bool,
        force: bool,
    },
}

impl Action {
    fn removes(self) -> bool {
        matches!(self, Self::Remove { .. })
    }
}

/// `find` with its operands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Find(Tree);

/// `rm` with its operands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rm(Tree);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Tree {
    paths: Vec<String>,
    action: Action,
}

const FIND: &str = "find PATH …";
const RM: &str = "rm [-r] [-f] PATH …, where no PATH is . or ..";

impl Task for Find {
    const NAME: &'static str = "find";

    /// Walks the trees.
    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        self.0.run(host).await
    }
}

impl Program for Find {
    const USAGE: &'static str = FIND;

    const METRICS: &'static [Metric] = &[
        Metric::new("names_walked", "names", "Names that find visited."),
        Metric::new("walk_rate", "1/s", "Names that find visited per second."),
    ];

    /// Parses the operands, all of which are paths; at least one is required.
    fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
        let paths = paths(operands, FIND)?;
        if paths.is_empty() {
            let what = format!("{} has no path", name.text);
            return Err(CommandError::new(name.span.clone(), what, FIND));
        }
        let action = Action::Walk;
        Ok(Self(Tree { paths, action }))
    }

    /// Returns the paths, all of which must exist: `find` makes none.
    fn needs(&self) -> &[String] {
        &self.0.paths
    }
}

impl Task for Rm {
    const NAME: &'static str = "rm";

    /// Removes the trees or files.
    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        self.0.run(host).await
    }
}

impl Program for Rm {
    const USAGE: &'static str = RM;

    const METRICS: &'static [Metric] = &[
        Metric::new("names_removed", "names", "Names that rm removed."),
        Metric::new("remove_rate", "1/s", "Names that rm removed per second."),
    ];

    /// Parses `-r`, `-R` and `-f`, alone or combined (`-rf`), then the paths. As in POSIX, `.`,
    /// `..` and the root are refused, and only `rm -f` may have no path.
    fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
        let known = |w: &&Word| {
            let letters = w.text.strip_prefix('-').unwrap_or("");
            !letters.is_empty() && letters.chars().all(|c| "rRf".contains(c))
        };
        let options = operands.iter().take_while(known).count();
        let (options, rest) = operands.split_at(options);
        // True if an option before the paths has one of these letters.
        let says = |letters: &[char]| options.iter().any(|w| w.text.contains(letters));
        let (recursive, force) = (says(&['r', 'R']), says(&['f']));
        let paths = paths(rest, RM)?;
        if paths.is_empty() && !force {
            return Err(CommandError::new(name.span.clone(), "rm has no path", RM));
        }
        // POSIX has rm refuse `.` and `..`, and the root can't be removed.
        let last = |path: &str| path.trim_end_matches('/').rsplit('/').next() == Some("..");
        let refused = |w: &&Word| {
            let path = w.text.trim_end_matches('/');
            path.is_empty() || path == "." || path.ends_with("/.") || last(path)
        };
        if let Some(word) = rest.iter().find(refused) {
            let what = format!("rm refuses to remove `{}`", word.text);
            return Err(CommandError::new(word.span.clone(), what, RM));
        }
        let action = Action::Remove { recursive, force };
        Ok(Self(Tree { paths, action }))
    }

    /// Returns the paths that must exist: none with `-f`, which ignores missing ones.
    fn needs(&self) -> &[String] {
        match self.0.action {
            Action::Remove { force: true, .. } => &[],
            _ => &self.0.paths,
        }
    }
}

impl Tree {
    /// Walks or removes all paths one after the other. Returns the number of names and the names
    /// per second.
    async fn run<H: Host>(&self, host: &H) -> HostResult<Report> {
        let begun = host.now();
        let mut names = 0_u64;
        for path in &self.paths {
            self.operand(host, path, &mut names).await?;
        }
        let (count, rate) = match self.action {
            Action::Walk => ("names_walked", "walk_rate"),
            Action::Remove { .. } => ("names_removed", "remove_rate"),
        };
        let figures = [(count, "names"), (rate, "1/s")];
        Ok(Report::of_amount(names as f64, host.now() - begun, figures))
    }

    /// Processes one operand: a directory with everything below it, or a file. `names` counts what
    /// was visited or removed.
    async fn operand<H: Host>(&self, host: &H, path: &str, names: &mut u64) -> HostResult<()> {
        if self.action.removes()
            && !matches!(
                self.action,
                Action::Remove {
                    recursive: true,
                    ..
                }
            )
        {
            return self.file(host, path, names).await;
        }
        match host.read_dir(path).await {
            Ok(inside) => self.visit(host, path, inside, names).await,
            // The operand is no directory.
            Err(HostError::NotFound(_)) => self.file(host, path, names).await,
            Err(e) => Err(e),
        }
    }

    /// Processes an operand that is a file: counts it in `names`, and removes it for `rm`. A
    /// missing file is an error unless `rm` has `-f`; for `rm` a directory is one, as this function
    /// runs without `-r`.
    async fn file<H: Host>(&self, host: &H, path: &str, names: &mut u64) -> HostResult<()> {
        match (host.stat(path).await, self.action) {
            (Err(HostError::NotFound(_)), Action::Remove { force: true, .. }) => return Ok(()),
            (Ok(stat), Action::Remove { .. }) if stat.directory => {
                return Err(HostError::IsDirectory(path.to_owned()));
            }
            (Ok(_), Action::Remove { .. }) => gone(host.unlink(path).await)?,
            (Ok(_), Action::Walk) => {}
            (Err(e), _) => return Err(e),
        }
        *names += 1;
        Ok(())
    }

    /// Processes everything below the directory `root`, whose names are `inside`, deepest first,
    /// then the directory itself. Counts every name in `names`. A name that another task removes
    /// meanwhile is no error.
    async fn visit<H: Host>(
        &self,
        host: &H,
        root: &str,
        inside: Listing,
        names: &mut u64,
    ) -> HostResult<()> {
        // The open directories, each with its names and the number of names left.
        let mut entered = vec![(root.to_owned(), host.dir(root), inside.len(), inside)];
        while let Some((path, dir, left, inside)) = entered.last_mut() {
            let Some(nth) = left.checked_sub(1) else {
                let (path, ..) = entered.pop().expect("a directory");
                *names += 1;
                if self.action.removes() {
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
            if self.action.removes() {
                gone(host.unlink_in(dir, &inside[nth]).await)?;
            }
        }
        Ok(())
    }
}

/// Turns "the name does not exist" into success: another task has removed the name first. Other
/// results stay as they are.
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
            ("rm -r", "rm"),
            ("rm -v x", "-v"),
            ("rm -r dd -v", "-v"),
            ("rm -rf .", "."),
            ("rm -r a/..", "a/.."),
            ("rm -rf /", "/"),
            ("rm -r ''", "''"),
        ] {
            let e = parse(line).expect_err(line);
            assert_eq!(&line[e.span.clone()], place, "{line}: {e}");
            assert!(!e.accepted.is_empty());
        }
        for line in [
            "find a .",
            "rm x",
            "rm -f",
            "rm -rf a b",
            "rm -R -f a",
            "rm -fr a/b",
        ] {
            assert!(parse(line).is_ok(), "{line}");
        }
    }

    #[test]
    fn what_cannot_be_there_is_said_before_it_runs() {
        for (line, place) in [
            ("find missing", "missing"),
            ("dd if=/dev/zero of=a count=1; rm -r b", "b"),
            ("rm -r a; dd if=/dev/zero of=a count=1", "a"),
            ("dd if=/dev/zero of=a count=1; taskset -c 0 find . c", "c"),
        ] {
            let e = parse(line)
                .unwrap()
                .needs_are_met(&["mnt/stick"])
                .expect_err(line);
            assert_eq!(&line[e.span.clone()], place, "{line}: {e}");
        }
        for line in [
            "find .",
            "find /",
            "rm -rf missing",
            "find mnt /mnt/stick",
            "fs_mark -d a -n 1 -L 1; find a/0 ./a",
            "dd if=/dev/zero of=a/b count=1 && find a; rm a/b",
            "dd if=in of=/dev/null; find in",
        ] {
            let script = parse(line).unwrap();
            assert_eq!(script.needs_are_met(&["mnt/stick"]), Ok(()), "{line}");
        }
    }
}
