//! Sets the text that `lowmark --version` and `results.json` print beside the version: the commit
//! that it was built from, where git or the builder (`LOWMARK_REVISION`) knows it, and the profile.

use std::path::Path;
use std::process::Command;

fn git(args: &[&str]) -> Option<String> {
    let out = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    (out.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}

fn main() {
    println!("cargo::rerun-if-env-changed=LOWMARK_REVISION");
    // Rebuild when another commit is checked out: HEAD changes, or the log of the branch it names.
    if let Some(folder) = git(&["rev-parse", "--absolute-git-dir"]) {
        for file in ["HEAD", "logs/HEAD"] {
            let path = Path::new(&folder).join(file);
            if path.exists() {
                println!("cargo::rerun-if-changed={}", path.display());
            }
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
    let version = std::env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    let profile = std::env::var("PROFILE").expect("cargo sets it");
    let told = std::env::var("LOWMARK_REVISION")
        .ok()
        .filter(|r| !r.trim().is_empty());
    // Inside another project's repository git would describe that project's commit.
    let ours = git(&["rev-parse", "--show-prefix"]).is_some_and(|p| p == "crates/front/");
    let commit = told.or_else(|| git(&["describe", "--always", "--tags"]).filter(|_| ours));
    let version = match commit {
        Some(commit) => format!("{version} ({}, {profile})", commit.trim()),
        None => format!("{version} ({profile})"),
    };
    println!("cargo::rustc-env=LOWMARK_VERSION={version}");
}
