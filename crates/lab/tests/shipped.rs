//! Tests that every shipped experiment can be expanded, with its machine and policies.

use lab::experiment::{Overrides, load};
use std::path::{Path, PathBuf};

fn toml_files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            toml_files(&path, into);
        } else if path.extension().is_some_and(|x| x == "toml") {
            into.push(path);
        }
    }
}

#[test]
fn every_shipped_experiment_lays_out() {
    let mut files = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    toml_files(&root, &mut files);
    assert!(files.len() >= 12, "{files:?}");
    for file in files {
        let e = load(&file, &Overrides::default())
            .unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        assert!(!e.cells.is_empty() && e.cells[0].baseline, "{}", e.name);
        let compares = e.cells.iter().any(|c| !c.baseline);
        assert!(
            !compares || !e.figures.is_empty(),
            "{}: what answers its question? `compare = [...]` says it",
            file.display()
        );
    }
}

/// The experiments behind published tables may name only files that are built in.
#[test]
fn reproduction_needs_no_file() {
    for series in lab::published::shipped() {
        let plan = lab::published::plan(series, None).unwrap_or_else(|e| panic!("{e}"));
        assert!(!plan.runs.is_empty(), "{}", series.name);
    }
}
