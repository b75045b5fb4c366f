//! `lowmark results`.

use crate::cli::Results;
use crate::text;
use front::failure::Failure;
use lab::results::stored::{self, Completeness, Limits, Stored};
use miette::miette;
use serde_json::json;
use std::time::SystemTime;

/// Lists the results folders below a folder, or those that the limits on age and size select; with
/// `--yes` removes the selected ones.
pub fn run(args: &Results) -> Result<(), Failure> {
    let dir = args.dir.display();
    let all = stored::list(&args.dir).map_err(|e| {
        let help = "accepted: a folder with results folders, such as `results`";
        Failure::Input(miette!(help = help, "can't read `{dir}`: {e}"))
    })?;
    let limits = Limits {
        older_than: args.older_than,
        keep_below: args.keep_below,
    };
    let limited = args.older_than.is_some() || args.keep_below.is_some();
    if args.yes && !limited {
        return Err(Failure::Input(miette!(
            help = "accepted: `--older-than TIME`, `--keep-below SIZE`, or both",
            "`--yes` removes nothing without a limit"
        )));
    }
    let now = SystemTime::now();
    let beyond = if limited {
        stored::beyond(&all, &limits, now)
    } else {
        all.iter().collect()
    };
    if args.json {
        let rows: Vec<_> = beyond.iter().map(|s| row_json(s)).collect();
        text::print_json(&rows)?;
    } else {
        text::print(&table(&beyond, &all, limited && !args.yes))?;
    }
    if args.yes { remove(&beyond) } else { Ok(()) }
}

/// Removes results folders. A folder with other files, or one that can't be removed, is reported
/// and kept, which makes the command fail at the end.
fn remove(folders: &[&Stored]) -> Result<(), Failure> {
    let mut removed = 0_u32;
    let mut stayed = 0_u32;
    for s in folders {
        let dir = s.dir.display();
        match stored::remove(s) {
            Ok(None) => removed += 1,
            Ok(Some(why)) => {
                eprintln!("`{dir}` is kept: it {why}");
                stayed += 1;
            }
            Err(e) => {
                eprintln!("`{dir}` can't be removed: {e}");
                stayed += 1;
            }
        }
    }
    eprintln!("{removed} removed");
    match stayed {
        0 => Ok(()),
        n => Err(Failure::System(miette!("{n} results folders are kept"))),
    }
}

/// Describes whether a results folder is complete, unfinished, in use, or has no list of its files.
fn state(s: &Stored) -> String {
    match s.state {
        Completeness::Complete => "complete".into(),
        Completeness::Unfinished(n) => format!("unfinished, {n} iterations"),
        Completeness::InUse => "in use".into(),
        Completeness::Unlisted => "no list of its files: kept".into(),
    }
}

/// Returns a results folder as JSON: place, command, title, state, bytes and time.
fn row_json(s: &Stored) -> serde_json::Value {
    json!({
        "dir": s.dir,
        "command": s.kind.map(|k| k.name()),
        "title": s.title,
        "state": match s.state {
            Completeness::Complete => "complete",
            Completeness::Unfinished(_) => "unfinished",
            Completeness::InUse => "in-use",
            Completeness::Unlisted => "unlisted",
        },
        "iterations": match s.state { Completeness::Unfinished(n) => Some(n), _ => None },
        "bytes": s.bytes,
        "written": humantime::format_rfc3339_seconds(s.when).to_string(),
    })
}

/// Returns the day of a time, in UTC, as in `2026-11-30`: a folder's name has the time itself.
fn day(when: SystemTime) -> String {
    let mut text = humantime::format_rfc3339_seconds(when).to_string();
    text.truncate("2026-11-30".len());
    text
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Formats the selected `folders` as a table, and their sum beside that of `all` folders.
/// `would_go`: they would be removed with `--yes`, which a line says.
fn table(folders: &[&Stored], all: &[Stored], would_go: bool) -> String {
    let mut table = text::table(["folder", "of", "written", "size", "state"]);
    for s in folders {
        let of = match s.kind {
            Some(kind) => format!("{} {}", kind.name(), s.title),
            None => String::new(),
        };
        table.add_row([
            s.dir.display().to_string(),
            of,
            day(s.when),
            mib(s.bytes),
            state(s),
        ]);
    }
    let sum = |of: &mut dyn Iterator<Item = u64>| mib(of.sum());
    let mut out = format!(
        "{table}\n{} {}, {}",
        folders.len(),
        if folders.len() == 1 {
            "folder"
        } else {
            "folders"
        },
        sum(&mut folders.iter().map(|s| s.bytes))
    );
    if folders.len() < all.len() {
        let every = sum(&mut all.iter().map(|s| s.bytes));
        out += &format!(" of {} with {every}", all.len());
    }
    out.push('\n');
    if would_go {
        out += "nothing was removed: add `--yes` to remove these folders\n";
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;
    use lab::results::{ClaimedFolder, File, Kind, Terms};
    use std::fs;
    use std::path::Path;

    fn args(root: &Path, more: &[&str]) -> Results {
        let all = ["lowmark", "results", root.to_str().unwrap()];
        match Cli::parse_from(all.iter().chain(more)).command {
            Command::Results(args) => args,
            other => panic!("{other:?}"),
        }
    }

    fn make(dir: &Path) {
        let terms = Terms {
            kind: Kind::Run,
            title: "small",
            replace: false,
        };
        let place = ClaimedFolder::claim(dir, terms).unwrap();
        place
            .publish(&|emit| emit(File::new("results.json", "{}")))
            .unwrap();
    }

    #[test]
    fn folders_go_by_age_and_size_when_it_is_said_twice() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        make(&root.join("small/a"));
        make(&root.join("small/b"));
        let old = SystemTime::now() - std::time::Duration::from_secs(40 * 86_400);
        let list = fs::File::open(root.join("small/a/manifest.json")).unwrap();
        list.set_modified(old).unwrap();
        fs::write(root.join("small/thesis.tex"), "years").unwrap();
        run(&args(root, &[])).unwrap();
        run(&args(root, &["--older-than", "30d"])).unwrap();
        assert!(root.join("small/a").exists());
        assert!(matches!(
            run(&args(root, &["--yes"])),
            Err(Failure::Input(_))
        ));
        run(&args(root, &["--older-than", "30d", "--yes"])).unwrap();
        assert!(!root.join("small/a").exists() && root.join("small/b").exists());
        fs::write(root.join("small/b/notes.md"), "mine").unwrap();
        let failure = run(&args(root, &["--keep-below", "0", "--yes"])).unwrap_err();
        assert!(matches!(failure, Failure::System(_)));
        assert!(root.join("small/b/results.json").exists());
        fs::remove_file(root.join("small/b/notes.md")).unwrap();
        run(&args(root, &["--keep-below", "0", "--yes"])).unwrap();
        assert_eq!(fs::read_dir(root.join("small")).unwrap().count(), 1);
        assert!(matches!(
            run(&args(&root.join("none"), &[])),
            Err(Failure::Input(_))
        ));
    }
}
