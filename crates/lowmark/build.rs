//! Sets the text that `lowmark --version` and `results.json` print beside the version: the commit
//! that it was built from, where git or the builder (`LOWMARK_REVISION`) knows it, and the profile.
//! Also sets linker options.

use std::path::Path;
use std::process::Command;

fn git(args: &[&str]) -> Option<String> {
    let out = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    (out.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}

/// Makes the program smaller with Rust's own linker (lld, on x86-64 with glibc; `-C linker` and
/// `link-arg` in RUSTFLAGS may select another one, with unknown options): identical functions are
/// merged, and relocations are a bitmap (`DT_RELR`) instead of 24 bytes each.
fn link_small() {
    let is = |key: &str, value: &str| std::env::var(key).is_ok_and(|v| v == value);
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let ours = is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && !flags.contains("link");
    if !ours || !is("PROFILE", "release") {
        return;
    }
    println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    // The C library's loader supports the bitmap since 2.36; a program for another computer may
    // meet an older one.
    if is("HOST", "x86_64-unknown-linux-gnu")
        && is("TARGET", "x86_64-unknown-linux-gnu")
        && glibc().is_some_and(|v| v >= (2, 36))
    {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Returns the version of this computer's C library.
fn glibc() -> Option<(u32, u32)> {
    let out = Command::new("getconf")
        .arg("GNU_LIBC_VERSION")
        .output()
        .ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}

fn main() {
    link_small();
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
    let ours = git(&["rev-parse", "--show-prefix"]).is_some_and(|p| p == "crates/lowmark/");
    let commit = told.or_else(|| git(&["describe", "--always", "--tags"]).filter(|_| ours));
    let version = match commit {
        Some(commit) => format!("{version} ({}, {profile})", commit.trim()),
        None => format!("{version} ({profile})"),
    };
    println!("cargo::rustc-env=LOWMARK_VERSION={version}");
}
