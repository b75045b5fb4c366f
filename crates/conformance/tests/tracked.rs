//! Checks of tracked files: no large files, no core dumps, and patches of Linux with their licence.
//!
//! In a source archive without git's folder there is no list of tracked files, and these tests
//! pass.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The largest tracked file, in bytes, that needs no line in `tidy/large.txt`.
const LARGE: u64 = 512 << 10;
/// The licence line of a file that is derived from Linux. Split in two, because this file is not.
const GPL: &str = concat!("SPDX-License-Identifier: ", "GPL-2.0");
/// The licence line of a file that may be used under another licence instead.
const CHOICE: &str = concat!("SPDX-License-Identifier: ", "GPL-2.0 OR");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Returns the existing tracked files, from the root; `None` outside of a repository.
fn tracked() -> Option<Vec<String>> {
    if !root().join(".git").exists() {
        return None;
    }
    let mut git = Command::new("git");
    // In a container, mounted files may belong to another user.
    git.args(["-c", "safe.directory=*", "ls-files", "-z"]);
    let listed = git.current_dir(root()).output().expect("git");
    assert!(listed.status.success(), "git ls-files: {listed:?}");
    let names = String::from_utf8(listed.stdout).expect("names in UTF-8");
    let there = |name: &&str| !name.is_empty() && root().join(name).symlink_metadata().is_ok();
    let names = names.split('\0').filter(there).map(str::to_owned);
    Some(names.collect())
}

#[test]
fn tracked_files_are_small() {
    let Some(tracked) = tracked() else { return };
    let list = read("crates/conformance/tests/tidy/large.txt");
    let lines = list
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'));
    let allowed: BTreeMap<&str, &str> = lines
        .map(|l| l.split_once(' ').expect("a path, a blank, a reason"))
        .collect();
    let size = |name: &String| {
        let meta = root()
            .join(name)
            .symlink_metadata()
            .expect("a tracked file");
        meta.len()
    };
    let large: Vec<&String> = tracked.iter().filter(|name| size(name) > LARGE).collect();
    let new = large
        .iter()
        .filter(|name| !allowed.contains_key(name.as_str()));
    let new: Vec<String> = new
        .map(|name| format!("{name}, {} bytes", size(name)))
        .collect();
    let is_large = |path: &&&str| large.iter().any(|name| name.as_str() == **path);
    let gone: Vec<&&str> = allowed.keys().filter(|path| !is_large(path)).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "more than {LARGE} bytes and not in tidy/large.txt: {new:#?}\nthere, and small or gone: {gone:#?}"
    );
}

/// `git add .` ignores core dumps of programs that a test killed.
#[test]
fn dumps_are_ignored() {
    let Some(tracked) = tracked() else { return };
    let is_dump = |name: &&String| name.rsplit('/').next() == Some("core");
    assert_eq!(tracked.iter().find(is_dump), None);
    for (name, ignored) in [
        ("core", true),
        ("crates/kernel/core", true),
        ("core.4711", true),
        ("vgcore.4711", true),
        ("crates/core/lib.rs", false),
        ("crates/mm/src/core.rs", false),
    ] {
        let mut git = Command::new("git");
        git.args(["-c", "safe.directory=*", "check-ignore", "--quiet", name]);
        let status = git.current_dir(root()).status().expect("git");
        assert_eq!(status.success(), ignored, "{name}");
    }
}

/// Patches of Linux state GPL-2.0, README lists their folders, and the licence's text is included.
#[test]
fn patches_of_linux_have_their_licence() {
    let Some(tracked) = tracked() else { return };
    let licence = read("LICENSE-GPL-2.0");
    assert!(
        licence.contains("GNU GENERAL PUBLIC LICENSE") && licence.contains("Version 2, June 1991")
    );
    let readme = read("README.md");
    let said = readme
        .rsplit("\n\n")
        .next()
        .expect("README's last paragraph");
    assert!(said.contains("(LICENSE-GPL-2.0)"), "{said}");
    let is_patch = |name: &str| name.ends_with(".patch") || name.ends_with(".diff");
    for name in &tracked {
        let bytes = fs::read(root().join(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let mut head = text.lines().take(5);
        let gpl = head.any(|line| line.contains(GPL) && !line.contains(CHOICE));
        assert!(
            gpl || !is_patch(name),
            "{name}: no line `{GPL}` at its beginning"
        );
        let folders = Path::new(name).ancestors().skip(1);
        let named = |folder: &Path| said.contains(&format!("`{}`", folder.display()));
        assert!(
            !gpl || folders.clone().any(named),
            "README does not name the folder of {name}"
        );
    }
}
