//! `lowmark examples` and `lowmark new`.

use crate::cli::{Examples, New};
use crate::text;
use front::failure::Failure;
use lab::diagnostic::Diagnostic;
use lab::results::Single;
use lab::shipped::{FILES, about, meant};
use lab::terminal::Screen;
use std::io::Write as _;

/// The folders of the included files.
const FOLDERS: [&str; 3] = ["experiments", "machines", "policies"];

/// Lists the files that are compiled into the program, or prints the one that is named.
pub fn run(args: &Examples) -> Result<(), Failure> {
    let shown = |path: &str| FOLDERS.iter().any(|f| path.starts_with(&format!("{f}/")));
    let files = FILES.iter().filter(|(path, _)| shown(path));
    if let Some(name) = &args.name {
        let Some((path, text)) = meant(name, &FOLDERS).filter(|(path, _)| shown(path)) else {
            let what = format!("there is no example `{name}`");
            let accepted = "accepted: a path or name that `lowmark examples` lists";
            return Err(Failure::Input(Diagnostic::placeless(what, accepted).into()));
        };
        return match args.json {
            true => text::print_json(&serde_json::json!({"path": path, "text": text})),
            false => text::print(text),
        };
    }
    if args.json {
        let rows =
            files.map(|(path, text)| serde_json::json!({"path": path, "about": about(text)}));
        return text::print_json(&rows.collect::<Vec<_>>());
    }
    let listing = text::listing();
    let narrow = Screen {
        width: listing.width.map(|width| width.saturating_sub(4).max(1)),
        ..listing
    };
    // A path has a line of its own: broken in a narrow column it could not be copied.
    let mut out = String::new();
    for (path, text) in files {
        out += &format!("{path}\n");
        for line in narrow.wrapped(&about(text)).lines() {
            out += &format!("    {}\n", line.trim_start());
        }
    }
    let hint = "`lowmark run PATH` runs an experiment, `lowmark examples PATH` prints a file";
    text::print(&format!("{out}\n{hint}\n"))
}

/// Writes a small commented experiment to a new file.
pub fn new(args: &New) -> Result<(), Failure> {
    let mut file = Single::create(&args.file, false, |_| Ok(true))?;
    let shown = args.file.display();
    let written = file.write_all(lab::experiment::NEW.as_bytes());
    written.map_err(|e| Failure::System(miette::miette!("can't write `{shown}`: {e}")))?;
    file.finish()?;
    text::print(&format!(
        "{shown} is written; `lowmark run {shown}` runs it\n"
    ))
}
