//! Builds `lowmark-guest`, static, with a cargo of its own.
//!
//! The inner cargo has its own target folder, so it never waits for the outer one, and none of the
//! outer one's wrappers and flags: sanitizers, clippy, Miri and coverage are meant for the outer
//! programs. All profiles of the outer cargo share the inner target folder, so the program is built
//! once.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The compression level: 10 is the highest, and takes a tenth of a second.
const LEVEL: u8 = 10;

/// The sources of the program, below the workspace.
const SOURCES: [&str; 8] = [
    "Cargo.toml",
    "Cargo.lock",
    "crates/guest/Cargo.toml",
    "crates/guest/src",
    "crates/trace/Cargo.toml",
    "crates/trace/src",
    "crates/workload/Cargo.toml",
    "crates/workload/src",
];

fn main() -> Result<(), Box<dyn Error>> {
    let workspace = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../..");
    println!("cargo::rerun-if-changed=build.rs");
    for source in SOURCES {
        println!(
            "cargo::rerun-if-changed={}",
            workspace.join(source).display()
        );
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let (binary, missing) = match build(&workspace, &out) {
        Ok(binary) => (binary, String::new()),
        Err(why) => {
            println!("cargo::warning=lowmark is built without its guest program: {why}");
            (Vec::new(), why)
        }
    };
    let deflated = match binary.is_empty() {
        true => binary,
        false => miniz_oxide::deflate::compress_to_vec(&binary, LEVEL),
    };
    fs::write(out.join("lowmark-guest"), deflated)?;
    fs::write(out.join("missing"), missing)?;
    Ok(())
}

/// Returns the program's bytes, or the reason why there are none.
fn build(workspace: &Path, out: &Path) -> Result<Vec<u8>, String> {
    let of = |name: &str| env::var(name).unwrap_or_default();
    if of("CARGO_CFG_TARGET_OS") != "linux" || of("CARGO_CFG_TARGET_ARCH") != "x86_64" {
        return Err("guests run on x86-64 Linux only".to_owned());
    }
    if env::var_os("CARGO_CFG_MIRI").is_some() {
        return Err("Miri boots no guests".to_owned());
    }
    let target = target_folder(out).join("guest");
    // The program's dependencies are present if `cargo fetch` or an earlier build has downloaded
    // them. The outer build brings all of them but the decoder of compressed traces.
    match cargo(workspace, &target, &["--offline"]) {
        Err(said) if said.contains("offline") => cargo(workspace, &target, &[]),
        other => other,
    }
    .map_err(|said| reason(&said))?;
    let path = target.join(TARGET).join("guest/lowmark-guest");
    fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Runs cargo; on failure returns its output.
fn cargo(workspace: &Path, target: &Path, more: &[&str]) -> Result<(), String> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in env::vars_os() {
        if name.to_str().is_none_or(is_of_outer_build) {
            cargo.env_remove(name);
        }
    }
    let flags = ["-Ctarget-feature=+crt-static", "-Crelocation-model=static"];
    cargo
        .current_dir(workspace)
        .args(["build", "--quiet", "--locked", "--package", "guest"])
        .args(["--bin", "lowmark-guest", "--features", "alone"])
        .args(["--profile", "guest"])
        .args(["--target", TARGET, "--target-dir"])
        .arg(target)
        .args(more)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    let done = cargo.output().map_err(|e| format!("error: cargo: {e}"))?;
    if done.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&done.stderr).into_owned())
}

/// Returns the user's remedy for a failed build, or its first error.
fn reason(said: &str) -> String {
    // Messages of gcc and of lld.
    if said.contains("cannot find -l") || said.contains("unable to find library -l") {
        return "the static C library is missing (Debian: libc6-dev, Fedora: glibc-static)"
            .to_owned();
    }
    if said.contains("may not be installed") && said.contains("can't find crate for") {
        return format!("Rust's library for {TARGET} is missing (rustup target add {TARGET})");
    }
    let mut errors = said.lines().filter(|line| line.starts_with("error"));
    errors.next().unwrap_or("cargo failed").to_owned()
}

/// Returns true for a variable that controls how the outer cargo builds.
fn is_of_outer_build(name: &str) -> bool {
    const WHOLE: [&str; 7] = [
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_INCREMENTAL",
        "CLIPPY_ARGS",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTDOCFLAGS",
        "RUSTFLAGS",
    ];
    // CC and similar variables stay: they name the C compiler.
    const BEGINNINGS: [&str; 9] = [
        "CARGO_BUILD_",
        "CARGO_CFG_",
        "CARGO_FEATURE_",
        "CARGO_LLVM_COV",
        "CARGO_PROFILE_",
        "CARGO_TARGET_",
        "CARGO_UNSTABLE_",
        "DEP_",
        "MIRI",
    ];
    WHOLE.contains(&name) || BEGINNINGS.iter().any(|b| name.starts_with(b))
}

/// Returns the cargo target folder that contains a build script's own folder.
fn target_folder(out: &Path) -> &Path {
    // Cargo marks the folder for backup programs.
    let marked = out
        .ancestors()
        .find(|dir| dir.join("CACHEDIR.TAG").exists());
    // Otherwise the build script's folder is TARGET/PROFILE/build/PACKAGE/out.
    marked.unwrap_or_else(|| out.ancestors().nth(4).unwrap_or(out))
}
