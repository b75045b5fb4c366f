//! Tests that module folders of this crate use only those before them in the list of its README.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the module folders in the numbered list of the README, with the number of each line.
fn rooms(readme: &str) -> Vec<(String, usize)> {
    let mut out = Vec::new();
    for line in readme.lines() {
        let Some((number, text)) = line.split_once(". ") else {
            continue;
        };
        let Ok(number) = number.parse() else { continue };
        let names = text.split(':').next().unwrap_or_default();
        let named = names.split('`').skip(1).step_by(2);
        out.extend(named.map(|name| (name.to_owned(), number)));
    }
    out
}

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|x| x == "rs") {
            into.push(path);
        }
    }
}

/// Yields the module folders that a file's text names; unit tests may use any, and are skipped.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let text = text.split("#[cfg(test)]\nmod tests {").next();
    let lines = text.unwrap_or_default().lines();
    let code = lines.filter(|l| !l.trim_start().starts_with("//"));
    code.flat_map(|l| l.split("crate::").skip(1))
        .map(|rest| {
            rest.split(|c: char| !c.is_alphanumeric() && c != '_')
                .next()
        })
        .map(Option::unwrap_or_default)
}

#[test]
fn no_room_uses_one_after_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let src = root.join("src");
    let lib = fs::read_to_string(src.join("lib.rs")).expect("lib.rs");
    let rooms = rooms(&fs::read_to_string(root.join("README.md")).expect("README.md"));
    let place = |name: &str| rooms.iter().find(|r| r.0 == name).map(|r| r.1);
    for declared in lib.lines().filter_map(|l| l.strip_prefix("pub mod ")) {
        let name = declared.trim_end_matches(';');
        assert!(place(name).is_some(), "the list leaves `{name}` out");
    }
    let mut files = Vec::new();
    sources(&src, &mut files);
    let mut upward = Vec::new();
    for file in files {
        let inside = file.strip_prefix(&src).expect("a file of src");
        let test = ["tests.rs", "fixture.rs"].map(|n| inside.ends_with(n));
        let room = inside.iter().next().unwrap_or_default().to_string_lossy();
        let room = room.trim_end_matches(".rs");
        let Some(own) = place(room).filter(|_| !test.contains(&true)) else {
            continue;
        };
        let text = fs::read_to_string(&file).expect("a source");
        for other in named(&text).filter(|other| *other != room) {
            if place(other).is_none_or(|p| p > own) {
                upward.push(format!("{}: crate::{other}", inside.display()));
            }
        }
    }
    assert!(upward.is_empty(), "{upward:#?}");
}
