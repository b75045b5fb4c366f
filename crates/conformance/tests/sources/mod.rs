//! Where the project is and which texts it has, for the tests that read them.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the project's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the files below a folder of the project that have one of these extensions, sorted; build
/// output is passed over.
pub fn files(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut out = Vec::new();
    collect(folder, extensions, &mut out);
    out.sort();
    out
}

fn collect(folder: &Path, extensions: &[&str], out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the project") {
        let path = entry.expect("an entry").path();
        let extension = path.extension().and_then(|e| e.to_str());
        if path.is_dir() {
            if path.file_name().is_some_and(|n| n != "target") {
                collect(&path, extensions, out);
            }
        } else if extension.is_some_and(|e| extensions.contains(&e)) {
            out.push(path);
        }
    }
}
