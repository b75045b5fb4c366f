//! Collects the files that are built into the program: published series, and the experiments,
//! machines and policies behind them. Any file added to one of these folders is included.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The folders, as paths from the project's root.
const FOLDERS: [&str; 4] = ["data/published", "experiments", "machines", "policies"];
/// The file name extensions that are included.
const KINDS: [&str; 2] = ["toml", "csv"];

fn main() -> io::Result<()> {
    // Read at run time, and given to cargo relative to the package, so that a copy of the project
    // that shares the target folder shares this program too.
    let package = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let root = fs::canonicalize(Path::new(&package).join("../.."))?;
    let mut files = Vec::new();
    for folder in FOLDERS {
        // Cargo watches everything below the folder.
        println!("cargo:rerun-if-changed=../../{folder}");
        find(&root.join(folder), &mut files)?;
    }
    files.sort();
    let mut text = String::from("&[\n");
    for file in files {
        let inside = file.strip_prefix(&root).expect("a file below the root");
        let name: Vec<_> = inside.iter().map(|part| part.to_string_lossy()).collect();
        let _ = writeln!(
            text,
            "    ({:?}, include_str!({:?})),",
            name.join("/"),
            file.display().to_string(),
        );
    }
    text.push_str("]\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("shipped_files.rs"), text)
}

fn find(folder: &Path, into: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, into)?;
        } else if KINDS
            .iter()
            .any(|k| path.extension().is_some_and(|x| x == *k))
        {
            into.push(path);
        }
    }
    Ok(())
}
