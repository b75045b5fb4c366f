//! `lowmark compare`.

use crate::cli::{Compare, Form};
use crate::text;
use front::failure::Failure;
use lab::compare::{self, Column, Compared, Wanted};
use lab::diagnostic::Diagnostic;
use lab::results::{MANIFEST, Single};
use lab::terminal::Screen;
use std::io::Write as _;
use std::path::Path;

/// Reads the results of all sides and prints their differences in the wanted form, or writes them
/// to the file of `--out`.
pub fn run(args: &Compare) -> Result<(), Failure> {
    let sides: Result<Vec<Column>, Diagnostic> = args.sides.iter().map(|s| side(s)).collect();
    let mut sides = sides.map_err(|e| Failure::Input(e.into()))?;
    let runs = sides.iter().flat_map(|side| &side.runs);
    for run in runs.filter(|run| !run.checked) {
        eprintln!(
            "note: `{}` could not be checked for changes: no {MANIFEST} beside it lists it",
            run.path.display()
        );
    }
    shorten(&mut sides);
    if let Some(axis) = &args.by {
        sides = by_axis(sides, axis).map_err(|e| Failure::Input(e.into()))?;
    }
    let wanted = Wanted {
        baseline: args.baseline.clone(),
        figures: args.figures.clone(),
        all: args.all,
        by: args.by.clone(),
    };
    let compared = Compared::new(sides, &wanted).map_err(|e| Failure::Input(e.into()))?;
    let form = match args.format {
        Form::Text if args.out.is_some() => compare::Form::Text(Screen::default()),
        Form::Text => compare::Form::Text(text::screen()),
        Form::Markdown => compare::Form::Markdown,
        Form::Json => compare::Form::Json,
        Form::Html => compare::Form::Html,
    };
    let answer = compare::to_text(&compared, form);
    let Some(path) = &args.out else {
        return text::print(&answer);
    };
    let mut file = Single::create(path, args.replace, |_| Ok(true))?;
    let written = file.write_all(answer.as_bytes());
    written
        .map_err(|e| Failure::System(miette::miette!("can't write `{}`: {e}", path.display())))?;
    Ok(file.finish()?)
}

/// Reads the results that one argument names, as a column of the comparison: `PATH`, `NAME=PATH` or
/// `NAME=PATH,PATH`. If the whole text is an existing path, it is taken as a path.
fn side(written: &str) -> Result<Column, Diagnostic> {
    if Path::new(written).exists() {
        return Ok(Column {
            label: written.to_owned(),
            runs: compare::read(Path::new(written))?,
        });
    }
    let (label, paths) = match written.split_once('=') {
        Some((name, paths)) if !name.is_empty() => (name, paths),
        _ => (written, written),
    };
    let mut runs = Vec::new();
    for path in paths.split(',') {
        runs.extend(compare::read(Path::new(path))?);
    }
    Ok(Column {
        label: label.to_owned(),
        runs,
    })
}

/// Splits the one side into several by the values of an axis, such as `dirty_ratio`; more than one
/// side is an error.
fn by_axis(mut sides: Vec<Column>, axis: &str) -> Result<Vec<Column>, Diagnostic> {
    match (sides.pop(), sides.is_empty()) {
        (Some(side), true) => side.by_axis(axis),
        _ => Err(Diagnostic::placeless(
            "`--by` compares values within one side",
            "accepted: one side, which may have several runs: `NAME=PATH,PATH`",
        )),
    }
}

/// Shortens the names of sides that are paths: to the last part of each if these differ, else
/// without `/results.json`. Names that would be equal or empty stay as they are.
fn shorten(sides: &mut [Column]) {
    let cut = |label: &str| {
        let label = label.strip_suffix("/results.json").unwrap_or(label);
        label.trim_end_matches('/').to_owned()
    };
    let whole: Vec<String> = sides.iter().map(|s| cut(&s.label)).collect();
    let last = |label: &String| label.rsplit('/').next().unwrap_or_default().to_owned();
    let short: Vec<String> = whole.iter().map(last).collect();
    // True if no two names are equal and none is empty.
    let clear = |names: &[String]| {
        let mut all: Vec<&String> = names.iter().collect();
        all.sort();
        all.dedup();
        all.len() == names.len() && !names.iter().any(String::is_empty)
    };
    let named = if clear(&short) { short } else { whole };
    if clear(&named) {
        for (side, name) in sides.iter_mut().zip(named) {
            side.label = name;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_short_as_they_can_be_told_apart() {
        let of = |labels: [&str; 2]| {
            let mut sides = labels.map(|l| Column {
                label: l.into(),
                runs: Vec::new(),
            });
            shorten(&mut sides);
            sides.map(|s| s.label)
        };
        assert_eq!(of(["results/a/", "results/b/results.json"]), ["a", "b"]);
        assert_eq!(of(["x/latest", "y/latest"]), ["x/latest", "y/latest"]);
        assert_eq!(of(["before", "after"]), ["before", "after"]);
    }

    #[test]
    fn what_is_no_folder_is_refused() {
        let told = side("before=nowhere,elsewhere").unwrap_err().to_string();
        assert!(told.contains("nowhere"), "{told}");
    }
}
