//! Any saved tree of `/proc` and `/sys` files gives a machine whose description can be read back,
//! or is refused. The input names files of a good tree and gives them other contents:
//! `FILE\0CONTENTS\0FILE\0CONTENTS`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::{Captured, Root, describe, verify};
use std::path::{Component, Path, PathBuf};

fn good() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/machine/tests/captures/numa")
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, target) = {
            let entry = entry.unwrap();
            (entry.path(), to.join(entry.file_name()))
        };
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(path, target).unwrap();
        }
    }
}

fuzz_target!(|text: &str| {
    let tree = tempfile::tempdir().unwrap();
    copy(&good(), tree.path());
    let mut parts = text.split('\0');
    while let (Some(file), Some(contents)) = (parts.next(), parts.next()) {
        let inside = Path::new(file)
            .components()
            .all(|c| matches!(c, Component::Normal(_)));
        let path = tree.path().join(file);
        // Only files that the tree has are replaced: nothing is written anywhere else.
        if inside && path.is_file() {
            std::fs::write(path, contents).unwrap();
        }
    }
    let Ok(captured) = Captured::read(&Root::at(tree.path())) else {
        return;
    };
    let _ = verify::verify(&captured);
    let options = describe::Options {
        disk: describe::likely_disk(&captured),
        ..describe::Options::default()
    };
    if let Ok(described) = describe::describe(&captured, &options) {
        let read: sim::spec::Machine = toml::from_str(&described.text).unwrap();
        assert_eq!(read, described.machine);
    }
});
