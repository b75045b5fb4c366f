//! Builds `lowmark-guest`, static, with a cargo of its own.
//!
//! That cargo has a target folder of its own, so the two never wait for each other, and none of the outer
//! one's wrappers and flags: sanitizers, clippy, Miri and coverage are about the programs around it. Its
//! folder is shared by all profiles of the outer cargo, so it builds once.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// How hard it is deflated: 10 is the most, for a tenth of a second.
const LEVEL: u8 = 10;

/// What the program is made of, below the workspace.
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

/// The program's bytes, or why there are none.
fn build(workspace: &Path, out: &Path) -> Result<Vec<u8>, String> {
    let of = |name: &str| env::var(name).unwrap_or_default();
    if of("CARGO_CFG_TARGET_OS") != "linux" || of("CARGO_CFG_TARGET_ARCH") != "x86_64" {
        return Err("guests run on x86-64 Linux only".to_owned());
    }
    if env::var_os("CARGO_CFG_MIRI").is_some() {
        return Err("Miri boots no guests".to_owned());
    }
    let target = target_folder(out).join("guest");
    // What this program needs is there where `cargo fetch` or an earlier build has brought it. What the outer cargo builds
    // brings all of it but the decoder of packed traces.
    match cargo(workspace, &target, &["--offline"]) {
        Err(said) if said.contains("offline") => cargo(workspace, &target, &[]),
        other => other,
    }
    .map_err(|said| reason(&said))?;
    let path = target.join(TARGET).join("guest/lowmark-guest");
    fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Runs a cargo; what it said if it failed.
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

/// What a user can do about a build that failed, or its first error.
fn reason(said: &str) -> String {
    // gcc's, and lld's.
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

/// Whether a variable is about how the outer cargo builds.
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
    // CC and its kin stay: they say where a C compiler is.
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

/// Cargo's target folder that a build script's own folder lies in.
fn target_folder(out: &Path) -> &Path {
    // Cargo marks it for backup programs.
    let marked = out
        .ancestors()
        .find(|dir| dir.join("CACHEDIR.TAG").exists());
    // Else PROFILE/build/PACKAGE/out lie below it.
    marked.unwrap_or_else(|| out.ancestors().nth(4).unwrap_or(out))
}
